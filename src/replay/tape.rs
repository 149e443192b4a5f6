//! What was recorded, as exchanges: each client request with everything that came of it, in recorded order. A tape is
//! built once from a cassette and never changes.
//!
//! Pairing goes per connection and direction and in order, never by a map from bare ids: ids repeat across clients,
//! connections, directions and appended episodes.

use std::collections::{HashMap, HashSet};

use super::facts::{Facts, GET, Manners, Wire};
use super::lenient;
use super::place::Place;
use super::placeholders::Placeholders;
use super::threads::note;
use crate::cassette::{Body, Cassette, Ended, Exit, Head, Record, Side, Timing};
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::{Span, elements};
use crate::jsonrpc::string;
use crate::mcp::{self, Era};
use crate::redact::Written;

/// One message of the tape.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its record's index in the cassette.
    pub record: u32,
    /// Its connection, an index into [`Tape::conns`].
    pub conn: u32,
    /// The HTTP exchange that it came on, 0 where there was none, or [`facts::GET`](super::facts::GET).
    pub exchange: u32,
    /// Who sent it.
    pub from: Side,
    /// Its members.
    pub view: View,
    /// Microseconds since the recording began.
    pub at: u64,
    /// Redaction changed it: see [`Tape::written`].
    pub redacted: bool,
}

/// One thing that happened in an exchange after its request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The server sent this notification.
    Send(u32),
    /// The server asked this of the client.
    Ask(u32),
    /// The client answered a question: the question and the answer.
    Await(u32, u32),
    /// The client cancelled the request.
    Cancelled,
    /// The server answered.
    Answer(u32),
    /// HTTP: the stream had ended, and the client had come back for the rest.
    Resumed,
}

/// What became of a request that has no recorded answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was answered.
    Answered,
    /// The client cancelled it, or left: it is held open.
    Open,
    /// The server ended: so does the stream.
    ServerEnded,
    /// The answer is not in the cassette: the recorder was killed, or the line is torn or not UTF-8.
    Lost,
    /// HTTP: the server broke off.
    Cut,
    /// HTTP: the answer was a status and a body that holds no message.
    Bare,
}

/// A client request and all that came of it.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// The request.
    pub request: u32,
    /// Its connection.
    pub conn: u32,
    /// Its era.
    pub era: Era,
    /// What followed, in recorded order.
    pub steps: Vec<Step>,
    /// How it ended.
    pub outcome: Outcome,
    /// What the server sent on its own account after this exchange.
    pub after: Vec<u32>,
}

/// A recorded client process or session.
#[derive(Clone, Debug, Default)]
pub struct Conn {
    /// `conn` in the cassette.
    pub number: u32,
    /// `session` in the cassette.
    pub session: u32,
    /// The era of its first request that was no refused probe.
    pub era: Option<Era>,
    /// What the server sent before the client said anything.
    pub start: Vec<u32>,
    /// What the server sent after the client's n-th notification of a method.
    pub after_notification: HashMap<(String, usize), Vec<u32>>,
    /// Final results of listens that came when the client was leaving.
    pub at_end: Vec<u32>,
    /// How its process ended, for the note when the stream ends.
    pub exit: Option<Exit>,
    /// The severities of its `logging/setLevel` requests, with the records they are in.
    pub levels: Vec<(u32, u8)>,
}

/// The recorded sessions of one server.
#[derive(Debug)]
pub struct Tape {
    /// The text that all spans belong to.
    pub text: String,
    /// The cassette's head.
    pub head: Head,
    /// The server's name.
    pub server: String,
    /// The messages, in recorded order.
    pub items: Vec<Item>,
    /// The exchanges, in the order of their requests.
    pub exchanges: Vec<Exchange>,
    /// The recorded sessions, in order.
    pub conns: Vec<Conn>,
    /// Which exchange a server's question or listen notification belongs to, by item.
    pub owner: HashMap<u32, u32>,
    /// What the client answered to questions of the server that no request waited for, by item.
    pub replies: HashMap<u32, u32>,
    /// What is known about times.
    pub timing: Timing,
    /// The revisions that modern requests were answered in.
    pub modern_versions: Vec<String>,
    /// Whether a legacy session was recorded.
    pub legacy: bool,
    /// Capability objects that the server declared, as spans.
    pub capabilities: Vec<Span>,
    /// What of the recording is not replayed as it was, for people.
    pub notes: Vec<String>,
    /// Where its server was.
    pub place: Place,
    placeholders: Placeholders,
    pub(super) wire: Wire,
}

impl Tape {
    /// The tape of the server at index `server` of the cassette.
    #[must_use]
    pub fn new(cassette: Cassette, server: u32) -> Self {
        let name = cassette.server(server).map(|(name, _)| name.clone()).unwrap_or_default();
        let url = cassette.server(server).and_then(|(_, server)| server.url.as_deref());
        let place = url.map(Place::of).unwrap_or_default();
        let mut tape = Self {
            text: String::new(),
            head: Head::default(),
            server: name,
            items: Vec::new(),
            exchanges: Vec::new(),
            conns: Vec::new(),
            owner: HashMap::new(),
            replies: HashMap::new(),
            timing: cassette.timing,
            modern_versions: Vec::new(),
            legacy: false,
            capabilities: Vec::new(),
            notes: Vec::new(),
            placeholders: Placeholders::default(),
            wire: Wire::new(&cassette.text, &cassette.records, server, &place),
            place,
        };
        let Cassette { head, text, records, .. } = cassette;
        tape.head = head;
        tape.text = text;
        let mut torn = HashMap::new();
        tape.collect(records, server, &mut torn);
        tape.join_streams();
        let pairs = tape.pair();
        tape.thread(&pairs);
        tape.settle(&torn);
        tape.survey();
        tape
    }

    /// The message at `index`.
    #[must_use]
    pub fn item(&self, index: u32) -> Option<&Item> {
        self.items.get(usize::try_from(index).ok()?)
    }

    /// What redaction wrote in a message, by places in [`Tape::text`].
    #[must_use]
    pub fn written(&self, item: &Item) -> Written<'_> {
        self.placeholders.of(item)
    }

    /// The same for the text of the message alone.
    #[must_use]
    pub fn written_within(&self, item: &Item) -> Written<'_> {
        self.written(item).within(item.view.whole.start)
    }

    /// The exchange at `index`.
    #[must_use]
    pub fn exchange(&self, index: u32) -> Option<&Exchange> {
        self.exchanges.get(usize::try_from(index).ok()?)
    }

    /// The request of an exchange.
    #[must_use]
    pub fn request(&self, exchange: u32) -> Option<&Item> {
        self.item(self.exchange(exchange)?.request)
    }

    /// The answer of an exchange, when it has one.
    #[must_use]
    pub fn answer(&self, exchange: u32) -> Option<&Item> {
        let step = self.exchange(exchange)?.steps.iter().find_map(|step| match step {
            Step::Answer(item) => Some(*item),
            _ => None,
        });
        self.item(step?)
    }

    /// The lines of `records` that hold messages, batches taken apart.
    fn collect(&mut self, records: Vec<Record>, server: u32, torn: &mut HashMap<u32, usize>) {
        let mut conns: HashMap<(u32, u32, bool), u32> = HashMap::new();
        let mut last = None;
        // Messages that are no line of their own, and where they go.
        let mut batched: Vec<(usize, Item)> = Vec::new();
        let mut count = 0;
        // What clients wrote that is no JSON text, as text.
        let mut odd = String::new();
        // The items take the place of the records: large cassettes are to be in memory once.
        let items = records.into_iter().enumerate().filter(|(_, record)| record.server == server).filter_map(
            |(index, record)| {
                if self.wire.is_challenge(&record) {
                    return None;
                }
                let key = self.wire.client(&record);
                // Mostly the connection of the record before.
                let same = last.filter(|(before, _)| *before == key).map(|(_, conn)| conn);
                let conn = same.unwrap_or_else(|| {
                    *conns
                        .entry(key)
                        .or_insert_with(|| add_conn(&mut self.conns, &self.head, &self.server, key))
                });
                last = Some((key, conn));
                let exchange = Wire::exchange(&record);
                let redacted = record.more.as_ref().is_some_and(|more| !more.redacted.is_empty());
                self.placeholders.read(&self.text, &record, index_of(index));
                let item = |view| Item {
                    record: index_of(index),
                    conn,
                    exchange,
                    from: record.from,
                    view,
                    at: record.at,
                    redacted,
                };
                if let Some(line) = lenient::line_of(&self.text, &record) {
                    let from = self.text.len() + odd.len();
                    let views = lenient::messages(&line).into_iter().flat_map(|view| match view.shape {
                        Shape::Batch => lenient::elements_of(&line, view),
                        _ => vec![view],
                    });
                    batched.extend(views.map(|view| (count, item(view.shifted(from)))));
                    odd.push_str(&line);
                    return None;
                }
                match record.body {
                    Body::Payload(view) if view.shape == Shape::Batch => {
                        let elements = elements(&self.text, view.whole).unwrap_or_default();
                        let views = elements.iter().filter_map(|span| View::at(&self.text, span.start).ok());
                        batched.extend(views.map(|view| (count, item(view))));
                        None
                    }
                    Body::Payload(view) => {
                        count += 1;
                        Some(item(view))
                    }
                    Body::Base64(_) if record.from == Side::Server && record.exchange == 0 => {
                        torn.insert(conn, count + batched.len());
                        None
                    }
                    Body::Text(span)
                        if record.from == Side::Server
                            && record.exchange == 0
                            && span.of(&self.text).starts_with("\"{") =>
                    {
                        torn.insert(conn, count + batched.len());
                        None
                    }
                    _ => None,
                }
            },
        );
        self.items = items.collect();
        self.notes.extend(note(
            &self.placeholders.stale,
            "its `placeholders` do not fit its payload",
            "all that looks like a placeholder there stands for any value",
        ));
        self.text.push_str(&odd);
        if !batched.is_empty() {
            self.items = with_batches(&self.items, &batched);
        }
        // The order of sessions is the order in which their clients were started.
        let mut order: Vec<usize> = (0..self.conns.len()).collect();
        order.sort_by_key(|&index| self.conns.get(index).map(|conn| (conn.number, conn.session)));
        if order.is_sorted() {
            return;
        }
        let mut place = vec![0; order.len()];
        for (new, &old) in order.iter().enumerate() {
            if let Some(slot) = place.get_mut(old) {
                *slot = index_of(new);
            }
        }
        let moved = |conn: u32| place.get(usize::try_from(conn).unwrap_or(0)).copied().unwrap_or(conn);
        self.items.iter_mut().for_each(|item| item.conn = moved(item.conn));
        *torn = torn.drain().map(|(conn, at)| (moved(conn), at)).collect();
        self.conns.sort_by_key(|conn| (conn.number, conn.session));
    }

    /// Where the answers came on the standalone stream (HTTP+SSE, 2024-11-05), that stream and the posts are one
    /// conversation, as on a pipe.
    fn join_streams(&mut self) {
        let answers = |item: &&Item| {
            item.exchange == GET && item.from == Side::Server && item.view.shape == Shape::Response
        };
        let joined: HashSet<u32> = self.items.iter().filter(answers).map(|item| item.conn).collect();
        let whole = |item: &Item| item.view.shape == Shape::Response && item.from == Side::Server;
        let mut answered = self.items.iter().filter(|item| whole(item)).peekable();
        self.wire.manners.old = match answered.peek() {
            Some(_) => !joined.is_empty() && answered.all(|item| joined.contains(&item.conn)),
            // Only there a request is merely accepted.
            None => self.wire.manners.opened && self.accepts_requests(),
        };
        self.items.iter_mut().filter(|item| joined.contains(&item.conn)).for_each(|item| item.exchange = 0);
    }

    /// Whether there are requests over HTTP, and all of them were answered by a mere 202.
    fn accepts_requests(&self) -> bool {
        let asks = |item: &&Item| {
            item.from == Side::Client
                && item.view.shape == Shape::Request
                && !matches!(item.exchange, 0 | GET)
        };
        let mut accepted = self
            .items
            .iter()
            .filter(asks)
            .map(|item| self.wire.facts.get(&item.exchange).is_some_and(|facts| facts.status == 202));
        accepted.next().is_some_and(|first| first && accepted.all(|accepted| accepted))
    }

    /// What HTTP was recorded of an exchange.
    #[must_use]
    pub fn facts(&self, exchange: u32) -> Option<&Facts> {
        self.wire.facts.get(&self.request(exchange)?.exchange)
    }

    /// Whether no legacy session was recorded, and something modern was.
    #[must_use]
    pub fn is_modern_only(&self) -> bool {
        !self.legacy && !self.modern_versions.is_empty()
    }

    /// Whether the answer to a request only led to where it was sent again.
    #[must_use]
    pub fn is_detour(&self, exchange: u32) -> bool {
        self.request(exchange).is_some_and(|request| self.wire.is_detour(request.exchange))
    }

    /// Whether a request of this method, about this, was answered by an error of this code over HTTP.
    #[must_use]
    pub fn was_refused(&self, method: &str, name: Option<&str>, code: i32) -> bool {
        self.wire.was_refused(method, name, code)
    }

    /// How the server behaves over HTTP.
    #[must_use]
    pub fn manners(&self) -> &Manners {
        &self.wire.manners
    }

    /// What became of the requests that were not answered.
    fn settle(&mut self, torn: &HashMap<u32, usize>) {
        let processes = &self.head.processes;
        let fates: Vec<(bool, bool)> = self
            .conns
            .iter()
            .map(|conn| {
                let process = processes
                    .iter()
                    .find(|process| process.server == self.server && process.conn == conn.number);
                let killed = process.is_some_and(|process| process.killed);
                (killed, process.is_some_and(|process| process.ended == Some(Ended::ServerExited)))
            })
            .collect();
        for exchange in self.exchanges.iter_mut().filter(|exchange| exchange.outcome == Outcome::Open) {
            if exchange.steps.contains(&Step::Cancelled) {
                continue;
            }
            let request = usize::try_from(exchange.request).ok().and_then(|request| self.items.get(request));
            if let Some(request) = request.filter(|request| request.exchange != 0) {
                let listens = request.view.method_name(&self.text) == "subscriptions/listen";
                exchange.outcome = self.wire.outcome(request.exchange, listens, &self.text);
                continue;
            }
            let conn = usize::try_from(exchange.conn).unwrap_or(usize::MAX);
            let (killed, ended) = fates.get(conn).copied().unwrap_or_default();
            let torn = torn
                .get(&exchange.conn)
                .is_some_and(|at| usize::try_from(exchange.request).is_ok_and(|r| r < *at));
            exchange.outcome = match (killed || torn, ended) {
                (true, _) => Outcome::Lost,
                (false, true) => Outcome::ServerEnded,
                (false, false) => Outcome::Open,
            };
        }
    }

    /// What the cassette as a whole says about its server.
    fn survey(&mut self) {
        const LEVEL: &str = "logging/setLevel";
        for exchange in &self.exchanges {
            let Some(request) = self.item(exchange.request) else { continue };
            if request.view.method_name(&self.text) != LEVEL {
                continue;
            }
            let level = mcp::target(LEVEL, &self.text, &request.view);
            let (record, level) = (request.record, level.and_then(|level| mcp::severity(&level)));
            let conn = usize::try_from(exchange.conn).unwrap_or(usize::MAX);
            if let (Some(conn), Some(severity)) = (self.conns.get_mut(conn), level) {
                conn.levels.push((record, severity));
            }
        }
        let mut versions: Vec<String> = Vec::new();
        let mut add = |version: String| {
            if !versions.contains(&version) {
                versions.push(version);
            }
        };
        let mut capabilities = Vec::new();
        for exchange in &self.exchanges {
            let Some(request) = self.item(exchange.request) else { continue };
            let method = request.view.method_name(&self.text);
            let introduces = matches!(&*method, "initialize" | "server/discover");
            if exchange.era == Era::Legacy && !introduces {
                self.legacy = true;
                continue;
            }
            let answer = exchange.steps.iter().find_map(|step| match step {
                Step::Answer(item) => self.item(*item),
                _ => None,
            });
            let result = answer.and_then(|answer| answer.view.result);
            if introduces {
                capabilities.extend(result.and_then(|result| member(&self.text, result, "capabilities")));
            }
            match exchange.era {
                // A probe that a legacy server refused does not make the server a modern one.
                Era::Modern if method == "server/discover" => {
                    let list = result.and_then(|result| member(&self.text, result, "supportedVersions"));
                    for span in list.and_then(|list| elements(&self.text, list).ok()).unwrap_or_default() {
                        add(string::decode(span.of(&self.text)).into_owned());
                    }
                }
                Era::Modern if result.is_some() || !matches!(exchange.outcome, Outcome::Answered) => {
                    if let Some(version) = mcp::version(&self.text, &request.view) {
                        add(version);
                    }
                }
                Era::Modern => {}
                Era::Legacy => self.legacy = true,
            }
        }
        self.modern_versions = versions;
        self.capabilities = capabilities;
        self.survey_eras();
    }

    /// The era of a session is that of its first request, and a probe that was refused is none.
    fn survey_eras(&mut self) {
        for refused in [false, true] {
            for (exchange, number) in self.exchanges.iter().zip(0..) {
                let conn = usize::try_from(exchange.conn).unwrap_or(usize::MAX);
                if self.conns.get(conn).is_none_or(|conn| conn.era.is_some()) {
                    continue;
                }
                let text = &self.text;
                let probe = self
                    .item(exchange.request)
                    .is_some_and(|item| item.view.method_name(text) == "server/discover");
                let answered = self.answer(number).is_some_and(|answer| answer.view.result.is_some());
                if let Some(conn) = self.conns.get_mut(conn).filter(|_| (probe && !answered) == refused) {
                    conn.era = Some(exchange.era);
                }
            }
        }
    }

    /// Whether the recorded server declared this capability.
    #[must_use]
    pub fn declares(&self, path: &[&str]) -> bool {
        self.capabilities.iter().any(|span| member_at(&self.text, *span, path).is_some())
    }
}

/// A connection for the messages of `number` and `session`.
fn add_conn(conns: &mut Vec<Conn>, head: &Head, server: &str, (number, session, _): (u32, u32, bool)) -> u32 {
    let exit = head.processes.iter().find(|process| process.server == server && process.conn == number);
    let exit = exit.and_then(|process| process.exit);
    conns.push(Conn { number, session, exit, ..Conn::default() });
    index_of(conns.len() - 1)
}

/// Puts each batched message in front of the item at its place.
fn with_batches(items: &[Item], batched: &[(usize, Item)]) -> Vec<Item> {
    let mut all = Vec::with_capacity(items.len() + batched.len());
    let mut from = 0;
    for (place, item) in batched {
        all.extend_from_slice(items.get(from..*place).unwrap_or_default());
        all.push(*item);
        from = *place;
    }
    all.extend_from_slice(items.get(from..).unwrap_or_default());
    all
}

/// An index as the tape keeps it. A cassette of four billion messages does not fit into memory.
pub(super) fn index_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
