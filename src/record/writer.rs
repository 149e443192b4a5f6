//! Writing captured messages into a segment: looked at, redacted, one line each. What is particular to a transport
//! is in `segment.rs` (stdio) and in `http/`.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{From, taken_over};
use crate::cassette::head;
use crate::cassette::record::push_millis;
use crate::cassette::segments::{Claim, Joined, SegmentHead, segments_in};
use crate::cassette::{Head, Process, Server, Transport, clock, journal};
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::elements;
use crate::jsonrpc::{canonical, pretty, string};
use crate::mcp;
use crate::redact::{Redacted, Redactor, Rules, Side, Written};

/// Above this size a line's memory is given back.
const KEPT: usize = 1 << 20;

/// What a new segment is about.
#[derive(Debug)]
pub struct Start {
    /// The open segment.
    pub file: File,
    /// Tells whether the recording is still ours.
    pub claim: Claim,
    /// What the head says under `segment`.
    pub head: SegmentHead,
    /// The segment's number in its recording, from 1.
    pub number: u32,
    /// How the server is reached.
    pub source: Source,
    /// The redaction rules.
    pub rules: Arc<Rules>,
    /// The latest time in the segments that were begun before, in microseconds since 1970: a clock that was set back must
    /// not put this one in front of them.
    pub not_before: i64,
}

impl Start {
    /// In this place of a recording.
    ///
    /// # Errors
    ///
    /// When the segment cannot be opened once more.
    pub fn at(joined: &Joined, source: Source, rules: Arc<Rules>) -> io::Result<Self> {
        let file = joined.file.try_clone()?;
        let (claim, head) = (joined.claim.clone(), joined.head.clone());
        let others = joined.path.parent().and_then(|folder| segments_in(folder).ok()).unwrap_or_default();
        let others = others.iter().filter(|other| other.number < joined.number);
        let not_before = others.filter_map(|other| journal::latest(&other.path)).max().unwrap_or(0);
        Ok(Self { file, claim, head, number: joined.number, source, rules, not_before })
    }
}

/// How a server is reached, as the user said it: it is redacted before it is written.
#[derive(Debug)]
pub enum Source {
    /// By this command line.
    Command(Vec<String>),
    /// At this URL.
    Url(String),
}

/// One line of a segment.
#[derive(Debug)]
pub(super) struct Line<'a> {
    /// Since the recording began.
    pub(super) at: Duration,
    pub(super) from: From,
    /// Where an answer is looked for: ids are unique within a scope only.
    pub(super) scope: u32,
    /// 0: none.
    pub(super) session: u32,
    /// 0: none.
    pub(super) exchange: u32,
    /// It belongs to the standalone stream of a session.
    pub(super) get: bool,
    /// The HTTP facts, a JSON object; empty: none. Redacted here.
    pub(super) http: &'a str,
    pub(super) end: Option<&'static str>,
    pub(super) body: Option<&'a [u8]>,
}

/// A request of the client that waits for its answer.
#[derive(Debug, Default, Clone, Copy)]
struct Open {
    times: usize,
    exchange: u32,
    /// A listen is open for as long as the client is there; nobody waits for its answer.
    listens: bool,
}

/// A scope, and the id of a request in it in one spelling.
type Key = (u32, String);

fn key(scope: u32, id: &str) -> Key {
    (scope, canonical::id(id).into_owned())
}

/// A segment, and what has to be remembered while it is written.
#[derive(Debug)]
pub(super) struct Writer {
    begun: Instant,
    file: File,
    claim: Claim,
    name: String,
    server: Server,
    redactor: Redactor,
    /// It adds to a cassette, from the live server behind a replay.
    live: bool,
    /// Requests that wait for their answer.
    open: HashMap<Key, Open>,
    /// Requests whose answers tell who the server is: whether it is `initialize`.
    introductions: HashMap<Key, bool>,
    lines: String,
}

impl Writer {
    /// The moment that the head names.
    pub(super) fn begun(&self) -> Instant {
        self.begun
    }

    /// Writes the head.
    pub(super) fn start(start: Start) -> io::Result<Self> {
        let Start { mut file, claim, head: own, number, source, rules, not_before } = start;
        let (server, conn) = match source {
            Source::Command(command) => {
                let command = rules.redact_command(&command);
                (Server { transport: Transport::Stdio, command, ..Server::default() }, own.conn)
            }
            // Over HTTP sessions and exchanges tell clients apart, not processes of ours.
            Source::Url(url) => {
                let url = Some(rules.redact_url(&url));
                (Server { transport: Transport::Http, url, ..Server::default() }, 0)
            }
        };
        // Segments are merged by time, so both clocks are read together.
        let (begun, now) = (Instant::now(), clock::now());
        let head = Head {
            recorded_at: clock::from_micros(now.max(not_before), true),
            recorder: head::recorder(),
            servers: vec![(own.server.clone(), server.clone())],
            redaction: Some(serde_json::to_string(&rules.manifest(&BTreeMap::new()))?),
            conn,
            segment: Some(serde_json::to_string(&own)?),
            ..Head::default()
        };
        file.write_all(journal::head_line(&head).as_bytes())?;
        // Values of different processes are never compared, so each process numbers its placeholders apart.
        // A regular expression is quickest in the thread that uses it first: this one has its own.
        let redactor = Redactor::new(Arc::new(Rules::clone(&rules)), number.max(own.conn + 1));
        Ok(Self {
            begun,
            file,
            claim,
            name: own.server,
            server,
            redactor,
            live: own.appends,
            open: HashMap::new(),
            introductions: HashMap::new(),
            lines: String::new(),
        })
    }

    /// The server's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// What is known about the server.
    pub(super) fn server(&self) -> &Server {
        &self.server
    }

    /// A text that belongs to no message, redacted.
    pub(super) fn scrub(&self, text: &str) -> String {
        self.redactor.scrub(text)
    }

    /// Forgets lines that were prepared and not written.
    pub(super) fn clear(&mut self) {
        self.lines.clear();
    }

    /// Prepares a line.
    pub(super) fn push(&mut self, line: &Line<'_>) {
        self.lines.push_str("{\"at\":");
        push_millis(&mut self.lines, u64::try_from(line.at.as_micros()).unwrap_or(u64::MAX));
        if line.session > 0 {
            let _ = write!(self.lines, ",\"session\":{}", line.session);
        }
        self.lines.push_str(match line.from {
            From::Client => ",\"from\":\"client\"",
            From::Server => ",\"from\":\"server\"",
        });
        if line.exchange > 0 {
            let _ = write!(self.lines, ",\"exchange\":{}", line.exchange);
        }
        if line.get {
            self.lines.push_str(",\"stream\":\"get\"");
        }
        let side = match line.from {
            From::Client => Side::Client,
            From::Server => Side::Server,
        };
        let text = line.body.map(std::str::from_utf8);
        // Some clients begin with a byte order mark, and servers take what follows it for the message it is.
        let message = text.and_then(Result::ok).and_then(message_in);
        if let (Some((text, _)), Some(body)) = (&message, line.body)
            && text.len() < body.len()
        {
            self.lines.push_str(",\"bom\":true");
        }
        let mut rules = self.push_http(line.http, side);
        if let Some(end) = line.end {
            let _ = write!(self.lines, ",\"end\":\"{end}\"");
        }
        if self.live {
            self.lines.push_str(",\"origin\":\"live\"");
        }
        match (text, message) {
            (None, _) => self.push_rules(&rules),
            (_, Some((text, view))) => {
                self.look(line.from, (line.scope, line.exchange), text, &view);
                let payload = in_one_line(view.whole.of(text));
                let redacted = self.redactor.redact(&payload, side);
                rules.extend(redacted.iter().flat_map(|redacted| redacted.rules.iter().cloned()));
                self.push_rules(&rules);
                if side == Side::Client && !rules.is_empty() {
                    self.push_note(&payload, redacted.as_ref());
                }
                self.lines.push_str(",\"payload\":");
                self.lines.push_str(redacted.as_ref().map_or(&payload, |redacted| &redacted.text));
            }
            (Some(Ok(text)), None) => {
                let redacted = self.redactor.redact_plain(text, side);
                rules.extend(redacted.iter().flat_map(|redacted| redacted.rules.iter().cloned()));
                self.push_rules(&rules);
                self.lines.push_str(",\"text\":");
                self.lines.push_str(&string::encode(redacted.as_ref().map_or(text, |line| &line.text)));
            }
            (Some(Err(_)), None) => {
                let body = line.body.unwrap_or_default();
                let redacted = self.redactor.redact_bytes(body, side);
                rules.extend(redacted.iter().flat_map(|(_, rules)| rules.iter().cloned()));
                self.push_rules(&rules);
                self.lines.push_str(",\"base64\":\"");
                STANDARD.encode_string(redacted.as_ref().map_or(body, |(body, _)| body), &mut self.lines);
                self.lines.push('"');
            }
        }
        self.lines.push_str("}\n");
    }

    /// Gives the rules that changed the facts.
    fn push_http(&mut self, http: &str, side: Side) -> Vec<String> {
        if http.is_empty() {
            return Vec::new();
        }
        let redacted = self.redactor.redact_facts(http, side);
        self.lines.push_str(",\"http\":");
        self.lines.push_str(redacted.as_ref().map_or(http, |redacted| &redacted.text));
        redacted.map_or_else(Vec::new, |redacted| redacted.rules)
    }

    fn push_rules(&mut self, rules: &[String]) {
        if rules.is_empty() {
            return;
        }
        let mut rules: Vec<String> = rules.iter().map(|rule| string::encode(rule)).collect();
        rules.sort();
        rules.dedup();
        self.lines.push_str(",\"redacted\":[");
        self.lines.push_str(&rules.join(","));
        self.lines.push(']');
    }

    /// What a replay cannot tell by itself of a message that is marked as redacted.
    fn push_note(&mut self, message: &str, redacted: Option<&Redacted>) {
        if let Some(note) = self.redactor.note(message, redacted, Written::Nothing) {
            self.lines.push_str(",\"placeholders\":");
            self.lines.push_str(&note);
        }
    }

    /// Writes what was prepared.
    pub(super) fn append(&mut self) -> io::Result<()> {
        if !self.claim.still_mine() {
            return Err(taken_over(self.claim.loss()));
        }
        let written = self.file.write_all(self.lines.as_bytes());
        self.lines.clear();
        // One giant message must not hold its memory for the rest of the session.
        self.lines.shrink_to(KEPT);
        written
    }

    /// Writes the last line.
    pub(super) fn end(&mut self, reason: &str, processes: Vec<Process>) -> io::Result<()> {
        let mut server = self.server.clone();
        server.info = server.info.map(|info| self.redactor.scrub(&info));
        let overlay = Head {
            servers: vec![(self.name.clone(), server)],
            processes,
            redaction: Some(serde_json::to_string(&self.redactor.rules().manifest(self.redactor.counts()))?),
            ..Head::default()
        };
        let known_before = ["recorded_at", "recorder"];
        let fields = overlay.fields().into_iter().filter(|(name, _)| !known_before.contains(&name.as_str()));
        self.file.write_all(journal::end_line(reason, fields.collect()).as_bytes())
    }

    /// Looks at a line of a stdio session that is not written.
    pub(super) fn follow(&mut self, from: From, line: &[u8]) {
        if let Some((text, view)) = std::str::from_utf8(line).ok().and_then(message_in) {
            self.look(from, (0, 0), text, &view);
        }
    }

    /// How many requests of the client wait for their answer, listens left out.
    pub(super) fn open_requests(&self) -> usize {
        self.open.values().filter(|open| !open.listens).count()
    }

    /// Whether anything waits for an answer in a scope.
    pub(super) fn is_open(&self, scope: u32) -> bool {
        self.open.keys().any(|(other, _)| *other == scope)
    }

    /// Whether what waits for an answer in a scope are listens, and only those.
    pub(super) fn only_listens(&self, scope: u32) -> bool {
        let mut open = self.open.iter().filter(|((other, _), _)| *other == scope).peekable();
        open.peek().is_some() && open.all(|(_, open)| open.listens)
    }

    /// The exchanges of the requests that wait for their answer in a scope, listens left out.
    pub(super) fn waiting(&self, scope: u32) -> Vec<u32> {
        let open = self.open.iter().filter(|((other, _), open)| *other == scope && !open.listens);
        let mut exchanges: Vec<u32> = open.map(|(_, open)| open.exchange).collect();
        exchanges.sort_unstable();
        exchanges.dedup();
        exchanges
    }

    /// Nothing more comes in a scope.
    pub(super) fn forget(&mut self, scope: u32) {
        self.open.retain(|(other, _), _| *other != scope);
        self.introductions.retain(|(other, _), _| *other != scope);
    }

    /// In a place, a scope and an exchange, keeps count of open requests, and learns who the server is.
    fn look(&mut self, from: From, place: (u32, u32), text: &str, view: &View) {
        if view.shape != Shape::Batch {
            return self.look_at_one(from, place, text, view);
        }
        for span in elements(text, view.whole).unwrap_or_default() {
            if let Ok(view) = View::at(text, span.start) {
                self.look_at_one(from, place, text, &view);
            }
        }
    }

    fn look_at_one(&mut self, from: From, (scope, exchange): (u32, u32), text: &str, view: &View) {
        let id = view.id.map_or("", |id| id.of(text));
        match (from, view.shape) {
            (From::Client, Shape::Request) => {
                let method = view.method_name(text);
                let open = self.open.entry(key(scope, id)).or_default();
                open.times += 1;
                open.exchange = exchange;
                open.listens = method == "subscriptions/listen";
                if matches!(&*method, "initialize" | "server/discover") {
                    self.introductions.insert(key(scope, id), method == "initialize");
                } else if self.server.protocol.is_empty() && mcp::era(text, view) == mcp::Era::Modern {
                    self.server.protocol.extend(mcp::version(text, view));
                }
            }
            (From::Client, Shape::Notification) if view.method_name(text) == "notifications/cancelled" => {
                if let Some(id) = view.params.and_then(|params| member(text, params, "requestId")) {
                    self.close(scope, id.of(text));
                }
            }
            (From::Server, Shape::Response) => {
                self.close(scope, id);
                let waited = !self.introductions.is_empty();
                let introduces = waited.then(|| self.introductions.remove(&key(scope, id))).flatten();
                if let Some(initialize) = introduces {
                    self.introduce(initialize, text, view);
                } else if self.server.info.is_none() {
                    let result = view.result.filter(|result| result.of(text).contains(mcp::SERVER_INFO));
                    let info =
                        result.and_then(|result| member_at(text, result, &["_meta", mcp::SERVER_INFO]));
                    self.server.info = info.map(|info| in_one_line(info.of(text)).into_owned());
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, scope: u32, id: &str) {
        let key = key(scope, id);
        if let Some(open) = self.open.get_mut(&key) {
            open.times -= 1;
            if open.times == 0 {
                self.open.remove(&key);
            }
        }
    }

    fn introduce(&mut self, initialize: bool, text: &str, view: &View) {
        let Some(result) = view.result else { return };
        let (info, versions) = if initialize {
            let version = member(text, result, "protocolVersion");
            (member(text, result, "serverInfo"), version.into_iter().collect())
        } else {
            let versions =
                member(text, result, "supportedVersions").and_then(|list| elements(text, list).ok());
            (member_at(text, result, &["_meta", mcp::SERVER_INFO]), versions.unwrap_or_default())
        };
        if let Some(info) = info {
            self.server.info = Some(in_one_line(info.of(text)).into_owned());
        }
        for version in versions {
            let version = string::decode(version.of(text)).into_owned();
            if !self.server.protocol.contains(&version) {
                self.server.protocol.push(version);
            }
        }
    }
}

/// The JSON text of a line, without a byte order mark in front of it.
fn message_in(line: &str) -> Option<(&str, View)> {
    let text = line.strip_prefix('\u{feff}').unwrap_or(line);
    View::of(text).ok().map(|view| (text, view))
}

/// A line on stdio is one; a body over HTTP may be indented, and the segment has a line for each record.
fn in_one_line(json: &str) -> Cow<'_, str> {
    match memchr::memchr2(b'\n', b'\r', json.as_bytes()) {
        Some(_) => pretty::packed(json).into(),
        None => json.into(),
    }
}
