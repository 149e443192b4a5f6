//! What a cassette tells of HTTP, apart from the messages: statuses, framings, sessions, how exchanges ended.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::Value;

use super::place::Place;
use super::tape::{Item, Outcome, index_of};
use crate::cassette::{Body, Record, Side};
use crate::jsonrpc::canonical;
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::scan::{Span, elements};
use crate::mcp::{self, Era, code};

/// The exchange number of a message that came on the standalone stream of a legacy session, and on no exchange.
pub const GET: u32 = u32::MAX;

/// How the messages of an answer were framed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// One JSON text.
    Json,
    /// Server-sent events.
    Sse,
    /// A body of another type, or none.
    Other(String),
}

/// How an exchange ended that has no complete answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The server broke off.
    Cut,
    /// The client left.
    ClientClosed,
    /// Nothing came for too long.
    Timeout,
    /// It was too large to be kept, or could not be read, or the recorder was ended before, or it ended in a way that
    /// this program does not know.
    NotKept,
}

/// A body of an HTTP answer that holds no message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// A text that is no JSON, as a string literal.
    Text(Span),
    /// What is not UTF-8, in base64, as a string literal.
    Base64(Span),
    /// JSON.
    Json(Span),
}

/// Where an answer sends the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Redirect {
    /// To another path of the same server.
    Here,
    /// To another server.
    Elsewhere,
}

/// What was recorded of one HTTP answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// Its status.
    pub status: u16,
    /// Its framing.
    pub kind: Kind,
    /// Its head was recorded.
    pub head: bool,
    /// The recorded header fields, without what names the recorded server.
    pub headers: Vec<(String, String)>,
    /// A body that holds no message, where one was kept.
    pub body: Option<Content>,
    /// Where it sends the client.
    pub redirect: Option<Redirect>,
    /// How it ended, when not by a complete answer.
    pub end: Option<End>,
    /// Its events had ids, so the client could come back for the rest.
    pub resumable: bool,
    /// Its first event was an id without a message.
    pub primed: bool,
    /// How long a client was to wait before it comes back, in milliseconds.
    pub retry: Option<u64>,
}

impl Default for Facts {
    fn default() -> Self {
        Self {
            status: 200,
            kind: Kind::Other(String::new()),
            head: false,
            headers: Vec::new(),
            body: None,
            redirect: None,
            end: None,
            resumable: false,
            primed: false,
            retry: None,
        }
    }
}

/// What a client can see of a server's HTTP besides its answers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manners {
    /// The messages were recorded over HTTP.
    pub recorded: bool,
    /// The server issued session ids.
    pub sessions: bool,
    /// There was a standalone stream.
    pub opened: bool,
    /// Messages came on a standalone stream.
    pub unsolicited: bool,
    /// A standalone stream was refused.
    pub get_refused: bool,
    /// The statuses with which sessions ended, or did not.
    pub deletes: Vec<u16>,
    /// All answers came on a stream that was opened before (HTTP+SSE, 2024-11-05).
    pub old: bool,
    /// Where redirects led to: the endpoint under other paths.
    pub moved: Vec<String>,
}

impl Manners {
    fn moved_to(&mut self, path: &str) {
        if !self.moved.iter().any(|known| known == path) {
            self.moved.push(path.to_owned());
        }
    }
}

/// The facts of all exchanges of one server.
#[derive(Debug, Default)]
pub(super) struct Wire {
    /// By the exchange's number in the cassette.
    pub(super) facts: HashMap<u32, Facts>,
    pub(super) manners: Manners,
    /// The session of an exchange, which its first record may not know yet (`initialize`).
    sessions: HashMap<u32, u32>,
    modern: HashSet<u32>,
    challenges: HashSet<u32>,
    /// Where a client came back for the rest of an exchange: the exchange and the record of its request.
    resumed: HashMap<u32, VecDeque<u32>>,
    /// The errors that were answered: the method, what it was about, and the code.
    refusals: HashSet<(String, Option<String>, i64)>,
    /// Exchanges whose request was sent again to where their answer led.
    detours: HashSet<u32>,
    /// The record and the whole text of each answer that is an array, where the request was none.
    arrays: HashMap<u32, Span>,
}

impl Wire {
    pub(super) fn new(text: &str, records: &[Record], server: u32, place: &Place) -> Self {
        let mut wire = Self::default();
        let mut methods: HashMap<u32, String> = HashMap::new();
        let mut batched = HashSet::new();
        for (index, record) in records.iter().enumerate() {
            if record.server != server || record.exchange == 0 {
                continue;
            }
            wire.manners.recorded = true;
            let exchange = record.exchange;
            if record.session != 0 {
                wire.manners.sessions = true;
                wire.sessions.entry(exchange).or_insert(record.session);
            }
            let http = record.more.as_ref().and_then(|more| more.http.as_deref());
            let http = http.and_then(|text| serde_json::from_str::<Value>(text).ok());
            if record.from == Side::Client {
                if http.as_ref().is_some_and(|http| http.get("last-event-id").is_some()) {
                    wire.resumed.entry(exchange).or_default().push_back(index_of(index));
                    // The connection before ended; the exchange did not.
                    if let Some(facts) = wire.facts.get_mut(&exchange) {
                        facts.end = None;
                    }
                }
                if record.view().is_some_and(|view| view.shape == Shape::Batch) {
                    batched.insert(exchange);
                }
                if record.view().is_some_and(|view| mcp::era(text, view) == Era::Modern) {
                    wire.modern.insert(exchange);
                }
                // Requests elsewhere than at the endpoint say nothing of it.
                let path = http.as_ref().and_then(|http| http.get("path")?.as_str());
                // What was said there is known, so it is the endpoint, whoever led the client there.
                if let Some(path) = path.filter(|_| record.view().is_some()) {
                    wire.manners.moved_to(path);
                }
                let is_moved = path.is_some_and(|path| wire.manners.moved.iter().any(|moved| moved == path));
                let http = http.as_ref().filter(|_| path.is_none() || is_moved);
                if let Some(method) = http.and_then(|http| http.get("method")?.as_str()) {
                    methods.insert(exchange, method.to_owned());
                }
                continue;
            }
            if let Body::Payload(view) = record.body
                && view.shape == Shape::Batch
                && !batched.contains(&exchange)
            {
                wire.arrays.insert(index_of(index), view.whole);
            }
            let Some(more) = record.more.as_deref() else { continue };
            if more.stream_get {
                wire.manners.opened = true;
                wire.manners.unsolicited |= record.view().is_some();
                continue;
            }
            let facts = wire.facts.entry(exchange).or_default();
            if let Some(http) = &http {
                facts.read(http, record.view().is_some(), place, &mut wire.manners);
            }
            facts.body = match record.body {
                Body::Text(span) => Some(Content::Text(span)),
                Body::Base64(span) => Some(Content::Base64(span)),
                Body::Payload(view) if view.shape == Shape::Other => Some(Content::Json(view.whole)),
                _ => facts.body,
            };
            facts.end = match more.end.as_deref() {
                Some("cut") => Some(End::Cut),
                Some("client_closed") => Some(End::ClientClosed),
                Some("timeout") => Some(End::Timeout),
                None => facts.end,
                Some(_) => Some(End::NotKept),
            };
        }
        let mut deletes = Vec::new();
        for (exchange, facts) in &wire.facts {
            if facts.status == 401 {
                wire.challenges.insert(*exchange);
            }
            match methods.get(exchange).map(String::as_str) {
                Some("GET") => wire.manners.get_refused |= matches!(facts.status, 405 | 501),
                Some("DELETE") if facts.head && facts.redirect.is_none() && facts.status != 401 => {
                    deletes.push((*exchange, facts.status));
                }
                _ => {}
            }
        }
        deletes.sort_unstable();
        wire.manners.deletes = deletes.into_iter().map(|(_, status)| status).collect();
        wire.challenges.extend(complaints(text, records, server));
        wire.follow(text, records, server);
        wire.refusals = refusals(text, records, server);
        wire
    }

    /// A challenge is never played: what followed it stands in its place.
    pub(super) fn is_challenge(&self, record: &Record) -> bool {
        record.exchange != 0 && self.challenges.contains(&record.exchange)
    }

    /// Which recorded client a record belongs to: its connection, its session, and whether it is of the modern era,
    /// which has no sessions.
    pub(super) fn client(&self, record: &Record) -> (u32, u32, bool) {
        if record.exchange == 0 {
            return (record.conn, record.session, false);
        }
        if self.modern.contains(&record.exchange) {
            return (record.conn, 0, true);
        }
        let session = match record.session {
            0 => self.sessions.get(&record.exchange).copied().unwrap_or(0),
            session => session,
        };
        (record.conn, session, false)
    }

    /// What became of a request without a message that answers it.
    pub(super) fn outcome(&self, exchange: u32, listens: bool, text: &str) -> Outcome {
        let Some(facts) = self.facts.get(&exchange) else { return Outcome::Lost };
        let unreadable = match facts.body {
            Some(Content::Base64(_)) => true,
            Some(Content::Text(body)) => body.of(text).starts_with("\"{"),
            Some(Content::Json(_)) | None => false,
        };
        // What was not kept is not known to have been empty.
        let unknown = facts.body.is_none() && matches!(facts.status, 200 | 201 | 203 | 206..=299);
        match (facts.end, &facts.kind) {
            _ if facts.redirect == Some(Redirect::Elsewhere) => Outcome::Lost,
            (Some(End::Cut), _) => Outcome::Cut,
            (Some(End::ClientClosed | End::Timeout), _) => Outcome::Open,
            (None, Kind::Json | Kind::Sse) if unreadable => Outcome::Lost,
            (None, Kind::Sse) if listens => Outcome::Open,
            // Not kept, or the recorder was ended or killed: it would have written how the stream ended.
            (Some(End::NotKept), _) | (None, Kind::Sse) => Outcome::Lost,
            (None, _) if unknown => Outcome::Lost,
            (None, _) => Outcome::Bare,
        }
    }

    /// Sorts out the redirects. What the client sent again elsewhere was said once: where it is no request, or where a
    /// replay cannot lead to the place, the first time does not count.
    fn follow(&mut self, text: &str, records: &[Record], server: u32) {
        if self.facts.values().all(|facts| facts.redirect.is_none()) {
            return;
        }
        let mut waiting: HashMap<(&str, &str, bool), Vec<u32>> = HashMap::new();
        for record in records.iter().filter(|record| record.server == server && record.exchange != 0) {
            let Some(view) = record.view().filter(|_| record.from == Side::Client) else { continue };
            let part = |span: Option<Span>| span.map_or("", |span| span.of(text));
            let asks = view.shape == Shape::Request;
            let said = match asks {
                true => (part(view.method), part(view.params), true),
                false => (view.whole.of(text), "", false),
            };
            for before in waiting.remove(&said).unwrap_or_default() {
                match self.facts.get(&before).and_then(|facts| facts.redirect) {
                    Some(Redirect::Here) if asks => {
                        // One client, although only the second answer said which.
                        if let Some(session) = self.sessions.get(&record.exchange).copied() {
                            self.sessions.entry(before).or_insert(session);
                        }
                        self.detours.insert(before)
                    }
                    _ => self.challenges.insert(before),
                };
            }
            if self.facts.get(&record.exchange).is_some_and(|facts| facts.redirect.is_some()) {
                waiting.entry(said).or_default().push(record.exchange);
            }
        }
    }

    /// Whether a request was answered by an error of this code.
    pub(super) fn was_refused(&self, method: &str, name: Option<&str>, code: i32) -> bool {
        let refusal = (method.to_owned(), name.map(str::to_owned), code.into());
        self.refusals.contains(&refusal)
    }

    /// Whether a request was sent again to where its answer led.
    pub(super) fn is_detour(&self, exchange: u32) -> bool {
        self.detours.contains(&exchange)
    }

    /// Whether an answer in one piece was cut.
    pub(super) fn breaks_off(&self, exchange: u32) -> bool {
        self.facts.get(&exchange).is_some_and(|facts| facts.end == Some(End::Cut) && facts.kind != Kind::Sse)
    }

    /// The array that the message of a record came in, where one JSON text was the answer.
    pub(super) fn array(&self, item: &Item) -> Option<Span> {
        let facts = self.facts.get(&item.exchange).filter(|facts| facts.kind != Kind::Sse)?;
        self.arrays.get(&item.record).copied().filter(|_| facts.head)
    }

    /// Whether the client had come back for what is in this record of an exchange. True once for each time.
    pub(super) fn was_resumed(&mut self, exchange: u32, record: u32) -> bool {
        if self.resumed.is_empty() {
            return false;
        }
        let Some(times) = self.resumed.get_mut(&exchange) else { return false };
        let resumed = times.front().is_some_and(|at| *at < record);
        while times.front().is_some_and(|at| *at < record) {
            times.pop_front();
        }
        resumed
    }

    /// The exchange that a record's message came on.
    pub(super) fn exchange(record: &Record) -> u32 {
        let on_get = record.more.as_ref().is_some_and(|more| more.stream_get);
        if on_get && record.view().is_some_and(|view| view.shape != Shape::Batch) {
            GET
        } else {
            record.exchange
        }
    }
}

/// What was answered by errors, and their codes. In a batch the ids tell whose an error is.
fn refusals(text: &str, records: &[Record], server: u32) -> HashSet<(String, Option<String>, i64)> {
    let of_server = || records.iter().filter(|record| record.server == server && record.exchange != 0);
    let messages = |record: &Record| match record.view() {
        Some(view) if view.shape == Shape::Batch => {
            let elements = elements(text, view.whole).unwrap_or_default();
            elements.iter().filter_map(|span| View::at(text, span.start).ok()).collect()
        }
        view => view.copied().into_iter().collect::<Vec<_>>(),
    };
    let id = |view: &View| view.id.map_or(Cow::Borrowed("null"), |id| canonical::id(id.of(text)));
    let mut codes: HashMap<u32, Vec<(Cow<'_, str>, i64)>> = HashMap::new();
    for record in of_server().filter(|record| record.from == Side::Server) {
        for view in messages(record) {
            let code = view.error.and_then(|error| member(text, error, "code"));
            if let Some(code) = code.and_then(|code| code.of(text).parse().ok()) {
                codes.entry(record.exchange).or_default().push((id(&view), code));
            }
        }
    }
    let mut refusals = HashSet::new();
    for record in of_server().filter(|record| record.from == Side::Client) {
        let Some(codes) = codes.get(&record.exchange) else { continue };
        let asked = messages(record);
        for view in &asked {
            // Alone, it is what an error is about whatever that names.
            let own = |named: &str| asked.len() == 1 || named == id(view);
            let method = view.method_name(text).into_owned();
            let name = mcp::target(&method, text, view);
            let codes = codes.iter().filter(|(named, _)| own(named));
            refusals.extend(codes.map(|(_, code)| (method.clone(), name.clone(), *code)));
        }
    }
    refusals
}

/// The exchanges in which a server missed header fields that repeat arguments. A client that does not know of them yet
/// gets the list of tools and calls again (2026-07-28, transports, "Custom headers from tool parameters"); a replay
/// looks at the fields itself, and a client that knows of them does not make the first call.
fn complaints(text: &str, records: &[Record], server: u32) -> Vec<u32> {
    let of_server = || records.iter().filter(|record| record.server == server && record.exchange != 0);
    let complains = |record: &&Record| {
        let view = record.view().filter(|_| record.from == Side::Server);
        let code = view.and_then(|view| member(text, view.error?, "code"));
        code.is_some_and(|code| code.of(text).parse() == Ok(code::HEADER_MISMATCH))
    };
    let complaints: HashSet<u32> = of_server().filter(complains).map(|record| record.exchange).collect();
    if complaints.is_empty() {
        return Vec::new();
    }
    let mut waiting: HashMap<(&str, &str), Vec<u32>> = HashMap::new();
    let mut mended = Vec::new();
    for record in of_server().filter(|record| record.from == Side::Client) {
        let Some(view) = record.view().filter(|view| view.method_name(text) == "tools/call") else {
            continue;
        };
        let part =
            |name| view.params.and_then(|params| member(text, params, name)).map_or("", |span| span.of(text));
        let call = (part("name"), part("arguments"));
        if complaints.contains(&record.exchange) {
            waiting.entry(call).or_default().push(record.exchange);
        } else if let Some(before) = waiting.remove(&call) {
            mended.extend(before);
        }
    }
    mended
}

impl Facts {
    fn read(&mut self, http: &Value, speaks: bool, place: &Place, manners: &mut Manners) {
        if http.get("event").is_some() {
            self.primed |= !speaks && !self.resumable;
            self.resumable = true;
        }
        self.retry = http.get("retry").and_then(Value::as_u64).or(self.retry);
        if let Some(status) = http.get("status").and_then(Value::as_u64) {
            self.status = u16::try_from(status).ok().filter(|status| *status >= 200).unwrap_or(500);
            self.head = true;
        }
        if let Some(kind) = http.get("type").and_then(Value::as_str) {
            self.kind = match kind {
                "json" => Kind::Json,
                "sse" => Kind::Sse,
                other => Kind::Other(other.to_owned()),
            };
        }
        for name in ["retry-after", "allow"] {
            if let Some(value) = http.get(name).and_then(Value::as_str) {
                self.headers.push((name.to_owned(), value.to_owned()));
            }
        }
        if let Some(location) = http.get("location").and_then(Value::as_str) {
            let local = place.local(location);
            let redirects = matches!(self.status, 300..=399) && self.status != 304;
            if redirects {
                self.redirect = Some(if local.is_some() { Redirect::Here } else { Redirect::Elsewhere });
            }
            if let Some(local) = local {
                if redirects {
                    manners.moved_to(local.split('?').next().unwrap_or_default());
                }
                self.headers.push(("location".to_owned(), local));
            }
        }
    }
}
