//! Writing version 3, byte for byte as its own program lays it out, and saying what it has no place for.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

use base64::Engine as _;

use super::python::{self, Changed, DEEPEST, new_line};
use super::{ASIDE, DERIVED, HEAD_FIELDS, KEPT, MESSAGE_FIELDS, RULE, read};
use crate::cassette::clock;
use crate::cassette::foreign::{Written, losses};
use crate::cassette::head::{Exit, Process, Server, Transport};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::record::{Body, More, Record, Side};
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::tree::Tree;
use crate::jsonrpc::{pretty, string};

/// Writes `cassette` as format version 3. Of several servers only the first is written.
#[must_use]
pub fn write(cassette: &Cassette) -> Written {
    let mut writer = Writer {
        cassette,
        server: cassette.server(0).map(|(_, server)| server),
        kept: kept(cassette),
        exchanges: server_messages(cassette),
        dropped: Tally::default(),
        notes: Tally::default(),
        changed: Changed::default(),
        written: Vec::new(),
    };
    writer.head_losses();
    let text = writer.document();
    writer.place_losses(&text);
    Written { text, dropped: writer.dropped.lines.lines(), notes: writer.notes.lines.lines() }
}

/// Phrases with where each applies.
#[derive(Default)]
struct Tally {
    lines: losses::Tally,
    /// The message that is being written.
    at: Option<usize>,
}

impl Tally {
    fn add(&mut self, what: &str, count: usize) {
        match self.at {
            _ if count == 0 => {}
            Some(message) => self.lines.at(what, message),
            None => self.lines.head(what),
        }
    }
}

/// What reading put aside.
fn kept(cassette: &Cassette) -> Option<&str> {
    cassette.head.extra.iter().find(|(name, _)| name == KEPT).map(|(_, value)| value.as_str())
}

/// How many server messages each exchange has: one is answered as JSON there, more as a stream.
fn server_messages(cassette: &Cassette) -> HashMap<u32, usize> {
    let mut counts = HashMap::new();
    for record in &cassette.records {
        if record.server == 0 && record.from == Side::Server && !matches!(record.body, Body::None) {
            *counts.entry(record.exchange).or_insert(0) += 1;
        }
    }
    counts
}

struct Writer<'a> {
    cassette: &'a Cassette,
    server: Option<&'a Server>,
    kept: Option<&'a str>,
    exchanges: HashMap<u32, usize>,
    dropped: Tally,
    notes: Tally,
    changed: Changed,
    /// The records that are written, with their places.
    written: Vec<(usize, &'a Record)>,
}

impl Writer<'_> {
    fn kept(&self, name: &str) -> Option<&str> {
        let kept = self.kept?;
        Some(member(kept, Span::new(0, kept.len()), name)?.of(kept))
    }

    fn http(&self) -> bool {
        self.server.is_some_and(|server| server.transport == Transport::Http)
    }

    fn head_losses(&mut self) {
        let head = &self.cassette.head;
        let mut counts: HashMap<u32, usize> = HashMap::new();
        self.cassette.records.iter().for_each(|record| *counts.entry(record.server).or_default() += 1);
        for (index, (name, server)) in (0_u32..).zip(&head.servers).skip(1) {
            let count = counts.get(&index).copied().unwrap_or(0);
            self.dropped
                .add(&format!("server {name:?} and its {count} messages: the format has one server"), 1);
            self.dropped.add("unknown fields of a server", server.extra.len());
        }
        let derived = |text: &&String| member(text, Span::new(0, text.len()), DERIVED).is_some();
        let redaction = head.redaction.as_ref().filter(|text| !derived(text));
        let note = "the redaction manifest is left out; messages keep the mark that they were redacted";
        self.notes.add(note, usize::from(redaction.is_some()));
        for (value, what) in
            [(head.labels.as_ref(), "the labels"), (head.matching.as_ref(), "the matching rules")]
        {
            self.dropped.add(what, usize::from(value.is_some()));
        }
        for process in &head.processes {
            let ended_well = *process
                == Process {
                    server: process.server.clone(),
                    conn: process.conn,
                    exit: process.exit.filter(|exit| *exit == Exit::Code(0)),
                    ..Process::default()
                };
            self.dropped.add("how a server process ended", usize::from(!ended_well));
        }
        if let Some(server) = self.server {
            self.dropped.add("unknown fields of a server", server.extra.len());
            self.notes
                .add("the command line of the server is left out", usize::from(!server.command.is_empty()));
        }
        if head.recorder != "mcp-cassette" {
            let note = "recorded_at stays the start of the recording; mcp-cassette writes its end there";
            self.notes.add(note, 1);
        }
        match self.cassette.timing {
            Timing::Known => {
                let finer = self.cassette.records.iter().any(|record| record.at % 1000 != 0);
                self.notes.add("times are cut to whole milliseconds", usize::from(finer));
            }
            _ => self.notes.add("there are no times: every t_offset_ms is 0", 1),
        }
    }

    fn payload_losses(&mut self) {
        let changed = std::mem::take(&mut self.changed);
        for (what, count) in [
            ("a number beyond the range of a double becomes null", changed.overflows),
            ("a number loses the digits that a double does not hold", changed.rounded),
            ("of repeated keys in an object only the last stays", changed.repeated_keys),
            ("a lone surrogate becomes U+FFFD", changed.surrogates),
        ] {
            self.dropped.add(what, count);
        }
    }

    /// Connections and sessions are not in the file; reading it works them out, and may come to another result.
    fn place_losses(&mut self, text: &str) {
        let Ok(again) = read(Path::new(""), text.to_owned()) else { return };
        for ((index, mine), theirs) in self.written.iter().zip(&again.records) {
            self.dropped.at = Some(*index);
            for (differs, what) in [
                (mine.conn != theirs.conn, "which connection a message belongs to"),
                (mine.session != theirs.session, "which HTTP session a message belongs to"),
            ] {
                self.dropped.add(what, usize::from(differs));
            }
        }
        self.dropped.at = None;
    }

    fn document(&mut self) -> String {
        let cassette = self.cassette;
        let mut out = String::with_capacity(cassette.text.len() * 2 + 1024);
        let server = self.server.cloned().unwrap_or_default();
        out.push('{');
        let values = [
            super::FORMAT.to_string(),
            string::encode(&recorded_at(&cassette.head.recorded_at)),
            string::encode(server.transport.word()),
            server.url.as_deref().map_or_else(null, string::encode),
            self.session_id(),
            self.protocol(&server).map_or_else(null, |text| string::encode(&text)),
            self.info(&server).unwrap_or_else(null),
            self.kept("redaction").map_or_else(null, str::to_owned),
        ];
        for (index, (name, value)) in HEAD_FIELDS.iter().zip(&values).enumerate() {
            self.field(&mut out, 1, index > 0, name, value);
        }
        out.push_str(",\n  \"messages\": [");
        self.payload_losses();
        for (index, record) in cassette.records.iter().enumerate().filter(|(_, record)| record.server == 0) {
            (self.dropped.at, self.notes.at) = (Some(index), Some(index));
            if self.expressible(record) {
                out.push_str(if self.written.is_empty() { "\n    {" } else { ",\n    {" });
                self.message(&mut out, record);
                out.push_str("\n    }");
                self.written.push((index, record));
            }
            self.payload_losses();
        }
        (self.dropped.at, self.notes.at) = (None, None);
        out.push_str(if self.written.is_empty() { "]" } else { "\n  ]" });
        for (name, value) in &cassette.head.extra {
            let name = name.strip_prefix(ASIDE).unwrap_or(name);
            if HEAD_FIELDS.contains(&name) {
                self.dropped.add("a head field whose name means something else there", 1);
            } else if name != KEPT {
                self.field(&mut out, 1, true, name, value);
            }
        }
        out.push_str("\n}\n");
        out
    }

    /// The id itself is never recorded; the format uses it only to say that there were sessions.
    fn session_id(&self) -> String {
        match self.kept("session_id") {
            Some(id) => id.to_owned(),
            None if self.cassette.records.iter().any(|record| record.server == 0 && record.session > 0) => {
                "\"session-1\"".to_owned()
            }
            None => null(),
        }
    }

    /// The answer to the first `initialize`, which is where the format takes its facts from.
    fn handshake(&self) -> Option<(View, &str)> {
        let text = &self.cassette.text;
        let mut asked = None;
        for record in self.cassette.records.iter().filter(|record| record.server == 0) {
            let Some(view) = record.view() else { continue };
            let id = view.id.map(|id| id.of(text));
            if record.from == Side::Client && view.method_name(text) == "initialize" {
                asked = id;
            } else if record.from == Side::Server && view.result.is_some() && asked.is_some() && id == asked {
                return Some((*view, text));
            }
        }
        None
    }

    fn protocol(&self, server: &Server) -> Option<String> {
        // Revisions without a handshake are not named there.
        let legacy = server.protocol.iter().find(|revision| revision.as_str() < "2026");
        legacy.cloned().or_else(|| {
            let (view, text) = self.handshake()?;
            let version = member(text, view.result?, "protocolVersion")?;
            Some(string::decode(version.of(text)).into_owned())
        })
    }

    fn info(&self, server: &Server) -> Option<String> {
        let pair = |text: &str, info: Span| {
            let literal = |name| {
                let literal = member(text, info, name)?.of(text);
                literal.starts_with('"').then(|| literal.to_owned())
            };
            Some(format!("{{\"name\":{},\"version\":{}}}", literal("name")?, literal("version")?))
        };
        let known = server.info.as_deref().and_then(|info| pair(info, Span::new(0, info.len())));
        known.or_else(|| {
            let (view, text) = self.handshake()?;
            pair(text, member(text, view.result?, "serverInfo")?)
        })
    }

    /// Whether the record is a message; counts what is lost of it either way.
    fn expressible(&mut self, record: &Record) -> bool {
        let default = More::default();
        let more = record.more.as_deref().unwrap_or(&default);
        let is_message = !matches!(record.body, Body::None);
        if let Some(http) = &more.http {
            let lost = !self.same_over_there(record, http);
            self.dropped.add("HTTP facts: status, headers, or JSON against a stream", usize::from(lost));
        }
        self.dropped.add("how an HTTP exchange ended", usize::from(more.end.is_some()));
        let ids = more.redacted.iter().any(|id| id != RULE);
        self.dropped.add("the ids of the rules that redacted a message", usize::from(ids));
        let own = "that text in a redacted message only looks like a placeholder";
        self.dropped.add(own, usize::from(more.placeholders.is_some()));
        self.notes.add("the mark of messages that a later run appended is left out", usize::from(more.live));
        if !is_message {
            self.dropped.add("unknown fields of a record without a message", more.extra.len());
        }
        is_message
    }

    /// Whether a replay over there answers with these facts anyway.
    fn same_over_there(&self, record: &Record, http: &str) -> bool {
        if record.from == Side::Client {
            return matches!(record.body, Body::None)
                && record.more.as_ref().is_some_and(|more| more.stream_get);
        }
        let usual = match &record.body {
            Body::None => http == "{\"status\":202}",
            _ if self.exchanges.get(&record.exchange) == Some(&1) => {
                http == "{\"status\":200,\"type\":\"json\"}"
            }
            _ => http == "{\"status\":200,\"type\":\"sse\"}",
        };
        usual
            || (record.more.as_ref().is_some_and(|more| more.stream_get)
                && http == "{\"status\":200,\"type\":\"sse\"}")
    }

    fn message(&mut self, out: &mut String, record: &Record) {
        let text = &self.cassette.text;
        let view = record.view();
        let body = self.body(record);
        let object = view.filter(|_| body.starts_with('{'));
        let kind = match object.map(|view| view.shape) {
            None => "raw",
            Some(Shape::Request) => "request",
            Some(Shape::Notification) => "notification",
            Some(Shape::Response) if object.is_some_and(|view| view.id.is_some()) => "response",
            Some(_) => "unclassified",
        };
        let at = if self.cassette.timing == Timing::Known { record.at / 1000 } else { 0 };
        let more = record.more.as_deref();
        let channel = match (self.http(), record.from) {
            (true, Side::Server) if more.is_some_and(|more| more.stream_get) => "\"get\"",
            (true, Side::Server) => "\"post\"",
            _ => "null",
        };
        let exchange = if self.http() { record.exchange.checked_sub(1) } else { None };
        let method = object.and_then(|view| view.method).map_or("null", |method| method.of(text));
        let id = object.and_then(|view| view.id).map_or("null", |id| id.of(text));
        let id = self.id(id);
        let values = [
            self.written.len().to_string(),
            at.to_string(),
            string::encode(record.from.word()),
            string::encode(kind),
            method.to_owned(),
            id,
            body,
            more.is_some_and(|more| !more.redacted.is_empty()).to_string(),
            exchange.map_or_else(null, |exchange| exchange.to_string()),
            channel.to_owned(),
        ];
        for (index, (name, value)) in MESSAGE_FIELDS.iter().zip(&values).enumerate() {
            self.field(out, 3, index > 0, name, value);
        }
        for (name, value) in more.map(|more| more.extra.as_slice()).unwrap_or_default() {
            let name = name.strip_prefix(ASIDE).unwrap_or(name);
            if MESSAGE_FIELDS.contains(&name) {
                self.dropped.add("a record field whose name means something else there", 1);
            } else {
                self.field(out, 3, true, name, value);
            }
        }
    }

    /// Ids are strings, whole numbers or null there; `true` counts as 1, as in Python.
    fn id(&mut self, literal: &str) -> String {
        let whole = literal.strip_suffix(".0").unwrap_or(literal);
        match literal {
            "true" => "1".to_owned(),
            "false" => "0".to_owned(),
            _ if literal == "null" || literal.starts_with('"') => literal.to_owned(),
            _ if whole.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') => whole.to_owned(),
            _ => {
                self.dropped.add("an id that is neither a string nor a whole number", 1);
                null()
            }
        }
    }

    /// The payload as JSON text: the message, or a string literal of a line that is no object.
    fn body(&mut self, record: &Record) -> String {
        let text = &self.cassette.text;
        match &record.body {
            Body::None => null(),
            Body::Text(span) => {
                let line = string::decode(span.of(text)).into_owned();
                let bare = line.trim_end_matches(['\r', '\n']);
                self.notes
                    .add("carriage returns at line ends are left out", usize::from(bare.len() < line.len()));
                if bare.len() < line.len() { string::encode(bare) } else { span.of(text).to_owned() }
            }
            Body::Base64(span) => {
                self.dropped.add("bytes that are not UTF-8 become U+FFFD", 1);
                let bytes = base64::engine::general_purpose::STANDARD.decode(&*string::decode(span.of(text)));
                string::encode(&String::from_utf8_lossy(&bytes.unwrap_or_default()))
            }
            Body::Payload(view) => {
                let value = view.whole.of(text);
                if view.shape == Shape::Batch {
                    self.dropped.add("a batch becomes a raw line, which mcp-cassette does not answer", 1);
                }
                let deep = Tree::of(value).map_or(0, |tree| python::depth(&tree)) > DEEPEST;
                if deep {
                    let what = format!("a message nested deeper than {DEEPEST} levels becomes a raw line");
                    self.dropped.add(&what, 1);
                }
                if deep || !value.starts_with('{') {
                    string::encode(&pretty::packed(value))
                } else {
                    value.to_owned()
                }
            }
        }
    }

    fn field(&mut self, out: &mut String, level: usize, comma: bool, name: &str, value: &str) {
        if comma {
            out.push(',');
        }
        new_line(out, level);
        let _ = write!(out, "{}: ", string::encode(name));
        match Tree::of(value) {
            Ok(tree) if python::depth(&tree) <= DEEPEST => {
                let mut changed = Changed::default();
                python::write(&tree, 0, level, out, &mut changed);
                // The method and the id repeat what the payload says.
                if !matches!(name, "method" | "msg_id") {
                    self.changed.add(changed);
                }
            }
            _ => {
                self.dropped.add("a field that is nested too deeply", 1);
                out.push_str("null");
            }
        }
    }
}

fn null() -> String {
    "null".to_owned()
}

/// Microseconds, left out when there are none.
fn recorded_at(text: &str) -> String {
    let Some(at) = clock::parse(text) else { return text.to_owned() };
    let spelt = clock::from_micros(at, true);
    match spelt.strip_suffix(".000000Z") {
        Some(whole) => format!("{whole}Z"),
        None => spelt,
    }
}
