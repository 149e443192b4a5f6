//! Writing captured messages into a segment: looked at, redacted, one line each.

use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::{self, Write as _};
use std::sync::Arc;
use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::{Captured, Ending, From, Reason, Sink, taken_over};
use crate::cassette::head;
use crate::cassette::record::push_millis;
use crate::cassette::segments::{Claim, SegmentHead};
use crate::cassette::{Ended, Exit, Head, Process, Server, Transport, clock, journal};
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::elements;
use crate::jsonrpc::string;
use crate::mcp;
use crate::redact::{Redactor, Rules};

/// Above this size a line's memory is given back.
const KEPT: usize = 1 << 20;

/// The recorder's end of a segment.
#[derive(Debug)]
pub struct Segment {
    file: File,
    claim: Claim,
    name: String,
    conn: u32,
    server: Server,
    redactor: Redactor,
    /// Requests of the client that wait for their answer, by id.
    open: HashMap<String, usize>,
    /// Requests whose answers tell who the server is: whether it is `initialize`, by id.
    introductions: HashMap<String, bool>,
    lines: String,
}

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
    /// The server's command line.
    pub command: Vec<String>,
    /// The redaction rules.
    pub rules: Arc<Rules>,
}

impl Segment {
    /// Writes the head.
    pub fn start(start: Start) -> io::Result<Self> {
        let Start { mut file, claim, head: own, number, command, rules } = start;
        let server = Server {
            transport: Transport::Stdio,
            command: rules.redact_command(&command),
            ..Server::default()
        };
        let head = Head {
            recorded_at: clock::micros(SystemTime::now()),
            recorder: head::recorder(),
            servers: vec![(own.server.clone(), server.clone())],
            redaction: Some(serde_json::to_string(&rules.manifest(&BTreeMap::new()))?),
            conn: own.conn,
            segment: Some(serde_json::to_string(&own)?),
            ..Head::default()
        };
        file.write_all(journal::head_line(&head).as_bytes())?;
        // Values of different processes are never compared, so each process numbers its placeholders apart.
        let redactor = Redactor::new(rules, number.max(own.conn + 1));
        Ok(Self {
            file,
            claim,
            name: own.server,
            conn: own.conn,
            server,
            redactor,
            open: HashMap::new(),
            introductions: HashMap::new(),
            lines: String::new(),
        })
    }

    fn push(&mut self, captured: &Captured<'_>) {
        self.lines.push_str("{\"at\":");
        push_millis(&mut self.lines, u64::try_from(captured.at.as_micros()).unwrap_or(u64::MAX));
        self.lines.push_str(match captured.from {
            From::Client => ",\"from\":\"client\"",
            From::Server => ",\"from\":\"server\"",
        });
        match std::str::from_utf8(captured.line) {
            // Some clients begin with a byte order mark, and servers take what follows it for the message it is.
            Ok(text) => match message_in(text) {
                Some((text, view)) => {
                    if text.len() < captured.line.len() {
                        self.lines.push_str(",\"bom\":true");
                    }
                    self.look(captured.from, text, &view);
                    let payload = view.whole.of(text);
                    let redacted = self.redactor.redact(payload);
                    self.push_rules(redacted.as_ref().map_or(&[], |redacted| &redacted.rules));
                    self.lines.push_str(",\"payload\":");
                    self.lines.push_str(redacted.as_ref().map_or(payload, |redacted| &redacted.text));
                }
                None => {
                    let redacted = self.redactor.redact_plain(text);
                    self.push_rules(redacted.as_ref().map_or(&[], |redacted| &redacted.rules));
                    self.lines.push_str(",\"text\":");
                    let line = redacted.as_ref().map_or(text, |redacted| &redacted.text);
                    self.lines.push_str(&string::encode(line));
                }
            },
            Err(_) => {
                let redacted = self.redactor.redact_bytes(captured.line);
                self.push_rules(redacted.as_ref().map_or(&[], |(_, rules)| rules));
                self.lines.push_str(",\"base64\":\"");
                let line = redacted.as_ref().map_or(captured.line, |(line, _)| line);
                STANDARD.encode_string(line, &mut self.lines);
                self.lines.push('"');
            }
        }
        self.lines.push_str("}\n");
    }

    fn push_rules(&mut self, rules: &[String]) {
        if !rules.is_empty() {
            let rules: Vec<String> = rules.iter().map(|rule| string::encode(rule)).collect();
            self.lines.push_str(",\"redacted\":[");
            self.lines.push_str(&rules.join(","));
            self.lines.push(']');
        }
    }

    /// Keeps count of open requests, and learns who the server is.
    fn look(&mut self, from: From, text: &str, view: &View) {
        if view.shape != Shape::Batch {
            return self.look_at_one(from, text, view);
        }
        for span in elements(text, view.whole).unwrap_or_default() {
            if let Ok(view) = View::at(text, span.start) {
                self.look_at_one(from, text, &view);
            }
        }
    }

    fn look_at_one(&mut self, from: From, text: &str, view: &View) {
        let id = view.id.map_or("", |id| id.of(text));
        match (from, view.shape) {
            (From::Client, Shape::Request) => {
                let method = view.method_name(text);
                // A listen is open for as long as the client is there; nobody waits for its answer.
                if method != "subscriptions/listen" {
                    *self.open.entry(id.to_owned()).or_default() += 1;
                }
                if matches!(&*method, "initialize" | "server/discover") {
                    self.introductions.insert(id.to_owned(), method == "initialize");
                } else if self.server.protocol.is_empty() && mcp::era(text, view) == mcp::Era::Modern {
                    self.server.protocol.extend(mcp::version(text, view));
                }
            }
            (From::Client, Shape::Notification) if view.method_name(text) == "notifications/cancelled" => {
                if let Some(id) = view.params.and_then(|params| member(text, params, "requestId")) {
                    self.close(id.of(text));
                }
            }
            (From::Server, Shape::Response) => {
                self.close(id);
                if let Some(initialize) = self.introductions.remove(id) {
                    self.introduce(initialize, text, view);
                } else if self.server.info.is_none() {
                    let result = view.result.filter(|result| result.of(text).contains(mcp::SERVER_INFO));
                    let info =
                        result.and_then(|result| member_at(text, result, &["_meta", mcp::SERVER_INFO]));
                    self.server.info = info.map(|info| info.of(text).to_owned());
                }
            }
            _ => {}
        }
    }

    fn close(&mut self, id: &str) {
        if let Some(count) = self.open.get_mut(id) {
            *count -= 1;
            if *count == 0 {
                self.open.remove(id);
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
            self.server.info = Some(info.of(text).to_owned());
        }
        for version in versions {
            let version = string::decode(version.of(text)).into_owned();
            if !self.server.protocol.contains(&version) {
                self.server.protocol.push(version);
            }
        }
    }

    fn end_line(&self, end: &Ending) -> io::Result<String> {
        let reason = match end.reason {
            Reason::ClientClosed => "client_closed",
            Reason::ServerExited => "server_exited",
            Reason::Signal(_) => "signal",
            Reason::OutputClosed => "output_closed",
        };
        let process = Process {
            server: self.name.clone(),
            conn: self.conn,
            exit: end.exit.map(|exit| match exit {
                super::Exit::Code(code) => Exit::Code(code),
                super::Exit::Signal(signal) => Exit::Signal(signal),
            }),
            // Closing our input, signalling us and closing our output are three habits of clients that leave; only
            // a server that ended by itself makes a difference to a replay.
            ended: (end.reason == Reason::ServerExited).then_some(Ended::ServerExited),
            stderr: end
                .stderr_tail
                .iter()
                .map(|line| self.redactor.rules().redact_plain(line).into_owned())
                .collect(),
            ..Process::default()
        };
        let overlay = Head {
            servers: vec![(self.name.clone(), self.server.clone())],
            processes: vec![process],
            redaction: Some(serde_json::to_string(&self.redactor.rules().manifest(self.redactor.counts()))?),
            ..Head::default()
        };
        let known_before = ["recorded_at", "recorder"];
        let fields = overlay.fields().into_iter().filter(|(name, _)| !known_before.contains(&name.as_str()));
        Ok(journal::end_line(reason, fields.collect()))
    }
}

/// The JSON text of a line, without a byte order mark in front of it.
fn message_in(line: &str) -> Option<(&str, View)> {
    let text = line.strip_prefix('\u{feff}').unwrap_or(line);
    View::of(text).ok().map(|view| (text, view))
}

impl Sink for Segment {
    fn prepare(&mut self, batch: &[Captured<'_>]) {
        self.lines.clear();
        batch.iter().for_each(|captured| self.push(captured));
    }

    /// Writes what was prepared.
    fn append(&mut self, _batch: &[Captured<'_>]) -> io::Result<()> {
        if !self.claim.still_mine() {
            return Err(taken_over(self.claim.loss()));
        }
        let written = self.file.write_all(self.lines.as_bytes());
        self.lines.clear();
        // One giant message must not hold its memory for the rest of the session.
        self.lines.shrink_to(KEPT);
        written
    }

    fn follow(&mut self, batch: &[Captured<'_>]) {
        for captured in batch {
            if let Ok(text) = std::str::from_utf8(captured.line)
                && let Some((text, view)) = message_in(text)
            {
                self.look(captured.from, text, &view);
            }
        }
    }

    fn ending(&mut self, end: &Ending) -> io::Result<()> {
        let line = self.end_line(end)?;
        self.file.write_all(line.as_bytes())
    }

    fn open_requests(&self) -> usize {
        self.open.len()
    }
}
