//! What was recorded, as exchanges: each client request with everything that came of it, in recorded order. A tape is
//! built once from a cassette and never changes.
//!
//! Pairing goes per connection and direction and in order, never by a map from bare ids: ids repeat across clients,
//! connections, directions and appended episodes.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::live;
use crate::cassette::{Body, Cassette, Ended, Exit, Head, Record, Side, Timing};
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::{Span, elements};
use crate::jsonrpc::string;
use crate::mcp::{self, Era};

/// One message of the tape.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    /// Its record's index in the cassette.
    pub record: u32,
    /// Its connection, an index into [`Tape::conns`].
    pub conn: u32,
    /// Who sent it.
    pub from: Side,
    /// Its members.
    pub view: View,
    /// Microseconds since the recording began.
    pub at: u64,
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
    /// The era of its first request.
    pub era: Option<Era>,
    /// What the server sent before the client said anything.
    pub start: Vec<u32>,
    /// What the server sent after the client's n-th notification of a method.
    pub after_notification: HashMap<(String, usize), Vec<u32>>,
    /// Final results of listens that came when the client was leaving.
    pub at_end: Vec<u32>,
    /// How its process ended, for the note when the stream ends.
    pub exit: Option<Exit>,
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
    /// What is known about times.
    pub timing: Timing,
    /// The revisions that modern requests were answered in.
    pub modern_versions: Vec<String>,
    /// Whether a legacy session was recorded.
    pub legacy: bool,
    /// Capability objects that the server declared, as spans.
    pub capabilities: Vec<Span>,
}

impl Tape {
    /// The tape of the server at index `server` of the cassette.
    #[must_use]
    pub fn new(cassette: Cassette, server: u32) -> Self {
        let name = cassette.server(server).map(|(name, _)| name.clone()).unwrap_or_default();
        let mut tape = Self {
            text: String::new(),
            head: Head::default(),
            server: name,
            items: Vec::with_capacity(cassette.records.len()),
            exchanges: Vec::new(),
            conns: Vec::new(),
            owner: HashMap::new(),
            timing: cassette.timing,
            modern_versions: Vec::new(),
            legacy: false,
            capabilities: Vec::new(),
        };
        let Cassette { head, text, records, .. } = cassette;
        tape.head = head;
        tape.text = text;
        let mut torn = HashMap::new();
        tape.collect(&records, server, &mut torn);
        drop(records);
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
    fn collect(&mut self, records: &[Record], server: u32, torn: &mut HashMap<u32, usize>) {
        let mut conns: HashMap<(u32, u32), u32> = HashMap::new();
        for (index, record) in records.iter().enumerate().filter(|(_, record)| record.server == server) {
            let conn = *conns.entry((record.conn, record.session)).or_insert_with(|| {
                let process = self
                    .head
                    .processes
                    .iter()
                    .find(|process| process.server == self.server && process.conn == record.conn);
                let exit = process.and_then(|process| process.exit);
                self.conns.push(Conn {
                    number: record.conn,
                    session: record.session,
                    exit,
                    ..Conn::default()
                });
                index_of(self.conns.len() - 1)
            });
            let item = |view| Item { record: index_of(index), conn, from: record.from, view, at: record.at };
            match record.body {
                Body::Payload(view) if view.shape == Shape::Batch => {
                    for span in elements(&self.text, view.whole).unwrap_or_default() {
                        if let Ok(view) = View::at(&self.text, span.start) {
                            self.items.push(item(view));
                        }
                    }
                }
                Body::Payload(view) => self.items.push(item(view)),
                Body::Base64(_) if record.from == Side::Server => {
                    torn.insert(conn, self.items.len());
                }
                Body::Text(span) if record.from == Side::Server && span.of(&self.text).starts_with("\"{") => {
                    torn.insert(conn, self.items.len());
                }
                _ => {}
            }
        }
        // The order of sessions is the order in which their clients were started.
        let mut order: Vec<usize> = (0..self.conns.len()).collect();
        order.sort_by_key(|&index| self.conns.get(index).map(|conn| (conn.number, conn.session)));
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

    /// Which message answers which.
    fn pair(&mut self) -> Pairs {
        let mut pairs = Pairs::default();
        let text = &self.text;
        let mut client: HashMap<(u32, &str), VecDeque<u32>> = HashMap::new();
        let mut server: HashMap<(u32, &str), VecDeque<u32>> = HashMap::new();
        for (index, item) in self.items.iter().enumerate() {
            let at = index_of(index);
            let id = item.view.id.map_or("", |id| id.of(text));
            match (item.from, item.view.shape) {
                (Side::Client, Shape::Request) => {
                    let era = mcp::era(text, &item.view);
                    pairs.exchange_at.insert(at, index_of(self.exchanges.len()));
                    client.entry((item.conn, id)).or_default().push_back(index_of(self.exchanges.len()));
                    self.exchanges.push(Exchange {
                        request: at,
                        conn: item.conn,
                        era,
                        steps: Vec::with_capacity(1),
                        outcome: Outcome::Open,
                        after: Vec::new(),
                    });
                    if let Some(conn) = self.conns.get_mut(usize::try_from(item.conn).unwrap_or(0)) {
                        conn.era.get_or_insert(era);
                    }
                }
                (Side::Server, Shape::Response) => {
                    if let Some(exchange) = client.get_mut(&(item.conn, id)).and_then(VecDeque::pop_front) {
                        pairs.answered_at.insert(exchange, at);
                        pairs.answers.insert(at, exchange);
                    }
                }
                (Side::Server, Shape::Request) => server.entry((item.conn, id)).or_default().push_back(at),
                (Side::Client, Shape::Response) => {
                    if let Some(ask) = server.get_mut(&(item.conn, id)).and_then(VecDeque::pop_front) {
                        pairs.replied_at.insert(ask, at);
                        pairs.replies.insert(at, ask);
                    }
                }
                (Side::Client, Shape::Notification)
                    if item.view.method_name(text) == "notifications/cancelled" =>
                {
                    let id = item.view.params.and_then(|params| member(text, params, "requestId"));
                    let open = id.and_then(|id| client.get(&(item.conn, id.of(text))));
                    if let Some(&exchange) = open.and_then(VecDeque::front) {
                        pairs.cancels.insert(at, exchange);
                    }
                }
                _ => {}
            }
        }
        pairs
    }

    /// Puts every message behind the request it belongs to.
    fn thread(&mut self, pairs: &Pairs) {
        let mut threads: HashMap<u32, Thread> = HashMap::new();
        let last_client: HashMap<u32, u32> = self
            .items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.from == Side::Client)
            .map(|(index, item)| (item.conn, index_of(index)))
            .collect();
        for index in 0..self.items.len() {
            let at = index_of(index);
            let Some(item) = self.items.get(index).copied() else { continue };
            let thread = threads.entry(item.conn).or_default();
            match (item.from, item.view.shape) {
                (Side::Client, Shape::Request) => {
                    let Some(&exchange) = pairs.exchange_at.get(&at) else { continue };
                    thread.anchor = Anchor::Exchange(exchange);
                    let id = item.view.id.map_or("", |id| id.of(&self.text)).to_owned();
                    if item.view.method_name(&self.text) == "subscriptions/listen" {
                        thread.listens.insert(id, exchange);
                    } else {
                        let end = pairs.answered_at.get(&exchange).copied().unwrap_or(u32::MAX);
                        thread.open.insert((end, u32::MAX - at, exchange));
                        thread.running.insert(exchange);
                        if let Some(token) = live::progress_token(&self.text, &item.view) {
                            thread.tokens.insert(token.to_owned(), exchange);
                        }
                    }
                }
                (Side::Client, Shape::Notification) => {
                    if let Some(&exchange) = pairs.cancels.get(&at) {
                        self.push_step(exchange, Step::Cancelled);
                    } else {
                        let method = item.view.method_name(&self.text).into_owned();
                        let nth = thread.notifications.entry(method.clone()).or_default();
                        thread.anchor = Anchor::Notification(method, *nth);
                        *nth += 1;
                    }
                }
                (Side::Client, Shape::Response) => {
                    let ask = pairs.replies.get(&at).copied();
                    if let Some((ask, exchange)) = ask.and_then(|ask| Some((ask, *self.owner.get(&ask)?)))
                        && thread.running.contains(&exchange)
                    {
                        self.push_step(exchange, Step::Await(ask, at));
                    }
                }
                (Side::Server, Shape::Response) => {
                    let Some(&exchange) = pairs.answers.get(&at) else { continue };
                    let request = self.exchange(exchange).map_or(0, |exchange| exchange.request);
                    let listen = thread.listens.values().any(|listen| *listen == exchange);
                    if listen && thread.anchor != Anchor::Exchange(exchange) {
                        self.owner.insert(at, exchange);
                        if last_client.get(&item.conn).is_none_or(|last| *last < at) {
                            self.conn_mut(item.conn).at_end.push(at);
                        } else {
                            let anchor = thread.anchor.clone();
                            self.release_after(item.conn, &anchor, at);
                        }
                    } else {
                        self.push_step(exchange, Step::Answer(at));
                    }
                    thread.open.remove(&(at, u32::MAX - request, exchange));
                    thread.running.remove(&exchange);
                }
                (Side::Server, Shape::Request) => {
                    if item.view.method_name(&self.text) == "ping" {
                        continue;
                    }
                    // A question is part of the request that is answered next after the client's reply: the server
                    // waits for the one to finish the other.
                    let reply = pairs.replied_at.get(&at).copied().unwrap_or(at);
                    match thread.owner_of(reply) {
                        Some(exchange) => {
                            self.owner.insert(at, exchange);
                            self.push_step(exchange, Step::Ask(at));
                        }
                        None => {
                            let anchor = thread.anchor.clone();
                            self.release_after(item.conn, &anchor, at);
                        }
                    }
                }
                (Side::Server, Shape::Notification) => self.thread_notification(thread, at, &item),
                _ => {}
            }
        }
    }

    fn thread_notification(&mut self, thread: &Thread, at: u32, item: &Item) {
        let method = item.view.method_name(&self.text).into_owned();
        if method == "notifications/progress" {
            // Without a running request of its token it is late, and no client may be sent it.
            let token =
                live::token_of_progress(&self.text, &item.view).and_then(|token| thread.tokens.get(token));
            if let Some(&exchange) = token
                && thread.running.contains(&exchange)
            {
                self.push_step(exchange, Step::Send(at));
            }
            return;
        }
        if method.starts_with("notifications/tasks") {
            // Part of a task's timeline, which is played by its own rules.
            return;
        }
        let subscription = live::subscription(&self.text, &item.view).or_else(|| {
            let cancelled = method == "notifications/cancelled";
            item.view.params.filter(|_| cancelled).and_then(|params| member(&self.text, params, "requestId"))
        });
        if let Some(&listen) = subscription.and_then(|id| thread.listens.get(id.of(&self.text))) {
            self.owner.insert(at, listen);
            if thread.anchor == Anchor::Exchange(listen)
                || method == "notifications/subscriptions/acknowledged"
            {
                self.push_step(listen, Step::Send(at));
            } else {
                let anchor = thread.anchor.clone();
                self.release_after(item.conn, &anchor, at);
            }
            return;
        }
        match thread.owner_of(at) {
            Some(exchange) => self.push_step(exchange, Step::Send(at)),
            None => {
                let anchor = thread.anchor.clone();
                self.release_after(item.conn, &anchor, at);
            }
        }
    }

    fn push_step(&mut self, exchange: u32, step: Step) {
        if let Some(exchange) = self.exchanges.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
            if matches!(step, Step::Answer(_)) {
                exchange.outcome = Outcome::Answered;
            }
            exchange.steps.push(step);
        }
    }

    fn conn_mut(&mut self, conn: u32) -> &mut Conn {
        let index = usize::try_from(conn).unwrap_or(usize::MAX).min(self.conns.len());
        if index == self.conns.len() {
            self.conns.push(Conn::default());
        }
        // The line above made sure that there is one at `index`.
        #[allow(clippy::indexing_slicing)]
        &mut self.conns[index]
    }

    fn release_after(&mut self, conn: u32, anchor: &Anchor, item: u32) {
        match anchor {
            Anchor::Start => self.conn_mut(conn).start.push(item),
            Anchor::Notification(method, nth) => {
                let key = (method.clone(), *nth);
                self.conn_mut(conn).after_notification.entry(key).or_default().push(item);
            }
            Anchor::Exchange(exchange) => {
                if let Some(exchange) =
                    self.exchanges.get_mut(usize::try_from(*exchange).unwrap_or(usize::MAX))
                {
                    exchange.after.push(item);
                }
            }
        }
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
        let mut versions: Vec<String> = Vec::new();
        let mut add = |version: String| {
            if !versions.contains(&version) {
                versions.push(version);
            }
        };
        let mut capabilities = Vec::new();
        for exchange in &self.exchanges {
            let Some(request) = self.item(exchange.request) else { continue };
            let answer = exchange.steps.iter().find_map(|step| match step {
                Step::Answer(item) => self.item(*item),
                _ => None,
            });
            let result = answer.and_then(|answer| answer.view.result);
            let method = request.view.method_name(&self.text);
            if matches!(&*method, "initialize" | "server/discover") {
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
                Era::Legacy => self.legacy |= method != "ping",
            }
        }
        self.modern_versions = versions;
        self.capabilities = capabilities;
    }

    /// Whether the recorded server declared this capability.
    #[must_use]
    pub fn declares(&self, path: &[&str]) -> bool {
        self.capabilities.iter().any(|span| member_at(&self.text, *span, path).is_some())
    }
}

#[derive(Default)]
struct Pairs {
    exchange_at: HashMap<u32, u32>,
    answered_at: HashMap<u32, u32>,
    answers: HashMap<u32, u32>,
    replied_at: HashMap<u32, u32>,
    replies: HashMap<u32, u32>,
    cancels: HashMap<u32, u32>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Anchor {
    #[default]
    Start,
    Exchange(u32),
    Notification(String, usize),
}

/// Where one connection stands while its messages are put in order.
#[derive(Default)]
struct Thread {
    anchor: Anchor,
    /// Running requests by the place of their answer, then the latest first.
    open: BTreeSet<(u32, u32, u32)>,
    running: HashSet<u32>,
    tokens: HashMap<String, u32>,
    listens: HashMap<String, u32>,
    notifications: HashMap<String, usize>,
}

impl Thread {
    /// The running request that a message of the server most likely belongs to, which nothing on stdio says: the next
    /// one to be answered after `at`.
    fn owner_of(&self, at: u32) -> Option<u32> {
        self.open.range((at, 0, 0)..).next().map(|(_, _, exchange)| *exchange)
    }
}

/// An index as the tape keeps it. A cassette of four billion messages does not fit into memory.
fn index_of(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}
