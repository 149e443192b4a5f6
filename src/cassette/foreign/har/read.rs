//! Reading: which entries are MCP, and what of them is kept.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use base64::Engine as _;

use super::super::build::{
    Build, Read, blank, file_members, http_facts, list_at, members, moment, place, string_at, wrong,
};
use super::{HEADERS, SESSION, UNKNOWN};
use crate::cassette::clock;
use crate::cassette::head::{Server, Transport};
use crate::cassette::model::Cassette;
use crate::cassette::record::{Record, Side};
use crate::error::{Error, Result};
use crate::jsonrpc::message::{View, member};
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::string;

/// One entry, as far as it is of interest.
#[derive(Default)]
struct Entry {
    /// Its place in the list.
    index: usize,
    start: Option<i64>,
    took: u64,
    method: String,
    url: String,
    asked: Option<String>,
    session: Option<String>,
    status: u16,
    kind: String,
    headers: Vec<(&'static str, String)>,
    body: Option<Vec<u8>>,
}

/// Reads a file.
pub fn read(path: &Path, text: &str) -> Result<Cassette> {
    let mut build = Build::new(text);
    let mut failed = None;
    let mut entries = Vec::new();
    let what = walk(&mut build, text, &mut entries, &mut failed);
    what.map_err(|fault| place(path, text, &fault, "/log/entries", failed))?;
    let all = entries.len();
    let spoken: BTreeSet<String> =
        entries.iter().filter(|entry| speaks(entry)).map(|entry| entry.url.clone()).collect();
    entries.retain(|entry| {
        speaks(entry) || (matches!(&*entry.method, "GET" | "DELETE") && spoken.contains(&entry.url))
    });
    if entries.is_empty() && all > 0 {
        let what = format!("holds no MCP: none of its {all} entries is a POST of a JSON-RPC message");
        return Err(Error::input(path, "/log/entries", what));
    }
    if entries.len() < all {
        let count = all - entries.len();
        build.warnings.push(format!("{}: {count} entries are not MCP and were left out", path.display()));
    }
    collect(&mut build, entries);
    Ok(build.finish(text))
}

fn walk(build: &mut Build<'_>, text: &str, found: &mut Vec<Entry>, failed: &mut Option<usize>) -> Read<()> {
    let mut list = None;
    let head = &mut build.head;
    "har".clone_into(&mut head.recorder);
    file_members(text, |name, value| match name {
        "log" => members(text, value, "\"log\"", |name, value| {
            match name {
                "creator" => {
                    let part = |name| {
                        let value = member(text, value, name)?.of(text);
                        (value.starts_with('"') && value != "\"\"")
                            .then(|| string::decode(value).into_owned())
                    };
                    let words: Vec<String> = [part("name"), part("version")].into_iter().flatten().collect();
                    if !words.is_empty() {
                        head.recorder = words.join(" ");
                    }
                }
                "entries" => list = Some(list_at(text, value, name)?),
                _ => {}
            }
            Ok(())
        }),
        _ => Ok(()),
    })?;
    for (index, span) in list.unwrap_or_default().into_iter().enumerate() {
        *failed = Some(index);
        let mut entry = Entry { index, ..Entry::default() };
        entry.read(text, span)?;
        found.push(entry);
    }
    *failed = None;
    Ok(())
}

impl Entry {
    fn read(&mut self, text: &str, span: Span) -> Read<()> {
        members(text, span, "an entry", |name, value| {
            match name {
                "startedDateTime" => {
                    let at = moment(&string_at(text, value, name)?);
                    let fault = || wrong(value, "\"startedDateTime\" must be a date and time");
                    self.start = Some(at.ok_or_else(fault)?).filter(|at| *at != UNKNOWN);
                }
                // -1 where it is not known.
                "time" => self.took = crate::cassette::record::micros(value.of(text)).unwrap_or(0),
                "request" => self.request(text, value)?,
                "response" => self.response(text, value)?,
                _ => {}
            }
            Ok(())
        })
    }

    fn request(&mut self, text: &str, value: Span) -> Read<()> {
        members(text, value, "\"request\"", |name, value| {
            match name {
                "method" => self.method = string_at(text, value, name)?.to_ascii_uppercase(),
                "url" => {
                    let url = string_at(text, value, name)?;
                    url.split('#').next().unwrap_or("").clone_into(&mut self.url);
                }
                "headers" => {
                    if let Some(session) = header(text, value, SESSION) {
                        self.session = Some(session);
                    }
                }
                "postData" => {
                    if let Some(body) =
                        member(text, value, "text").filter(|body| body.of(text).starts_with('"'))
                    {
                        self.asked = Some(string::decode(body.of(text)).into_owned());
                    }
                }
                _ => {}
            }
            Ok(())
        })
    }

    fn response(&mut self, text: &str, value: Span) -> Read<()> {
        members(text, value, "\"response\"", |name, value| {
            match name {
                // 0 where there was no answer.
                "status" => self.status = value.of(text).parse().unwrap_or(0),
                "headers" => {
                    let session = header(text, value, SESSION);
                    self.session = self.session.take().or(session);
                    for name in HEADERS {
                        self.headers.extend(header(text, value, name).map(|value| (name, value)));
                    }
                    if let Some(kind) = header(text, value, "content-type").filter(|_| self.kind.is_empty()) {
                        self.kind = media_type(&kind);
                    }
                }
                "content" => {
                    let part = |name| member(text, value, name).map(|part| part.of(text));
                    let strings = |literal: &&str| literal.starts_with('"');
                    if let Some(kind) = part("mimeType").filter(strings).map(string::decode)
                        && !kind.is_empty()
                    {
                        self.kind = media_type(&kind);
                    }
                    let body = part("text").filter(strings).map(string::decode);
                    let coded = part("encoding").is_some_and(|coding| string::is(coding, "base64"));
                    self.body = match body {
                        Some(body) if coded => {
                            let bytes = base64::engine::general_purpose::STANDARD.decode(body.as_bytes());
                            Some(bytes.map_err(|_| wrong(value, "\"text\" must be base64"))?)
                        }
                        Some(body) if !body.is_empty() => Some(body.into_owned().into_bytes()),
                        _ => None,
                    };
                }
                _ => {}
            }
            Ok(())
        })
    }

    /// How the answer was framed, in our words.
    fn framing(&self) -> &str {
        match &*self.kind {
            "application/json" => "json",
            "text/event-stream" => "sse",
            "" if self.body.as_deref().is_some_and(is_json) => "json",
            other => other,
        }
    }
}

fn is_json(body: &[u8]) -> bool {
    std::str::from_utf8(body).is_ok_and(|body| View::of(body).is_ok())
}

fn media_type(value: &str) -> String {
    value.split(';').next().unwrap_or("").trim().to_ascii_lowercase()
}

/// The value of a header in a list of `{name, value}`.
fn header(text: &str, list: Span, wanted: &str) -> Option<String> {
    elements(text, list).ok()?.into_iter().find_map(|span| {
        let name = member(text, span, "name")?;
        let same = string::decode(name.of(text)).eq_ignore_ascii_case(wanted);
        let value = member(text, span, "value").filter(|value| same && value.of(text).starts_with('"'))?;
        Some(string::decode(value.of(text)).into_owned())
    })
}

/// Whether an entry posts a JSON-RPC message, or a batch of them.
fn speaks(entry: &Entry) -> bool {
    let Some(body) = entry.asked.as_deref().filter(|_| entry.method == "POST") else { return false };
    let Ok(view) = View::of(body) else { return false };
    let first = elements(body, view.whole).ok().and_then(|list| list.first().copied());
    let message = first.unwrap_or(view.whole);
    Members::of(body, message.start).is_some() && member(body, message, "jsonrpc").is_some()
}

/// Numbers in place of ids, in order of appearance, from 1, by server.
#[derive(Default)]
struct Ordinals(HashMap<u32, HashMap<Vec<u8>, u32>>);

impl Ordinals {
    fn of(&mut self, server: u32, id: &[u8]) -> u32 {
        let known = self.0.entry(server).or_default();
        let next = u32::try_from(known.len() + 1).unwrap_or(u32::MAX);
        *known.entry(id.to_vec()).or_insert(next)
    }
}

/// What is put in order by time before it gets its place.
struct Placed {
    at: Option<i64>,
    record: Record,
}

fn collect(build: &mut Build<'_>, entries: Vec<Entry>) {
    let mut servers: HashMap<String, u32> = HashMap::new();
    let mut sessions = Ordinals::default();
    let mut counts: HashMap<u32, u32> = HashMap::new();
    let mut events = Ordinals::default();
    let mut placed: Vec<Placed> = Vec::new();
    let timed = entries.iter().all(|entry| entry.start.is_some());
    let start = entries.iter().filter_map(|entry| entry.start).min();
    let mut entries = entries;
    if timed {
        entries.sort_by_key(|entry| (entry.start, entry.index));
    }
    for entry in &entries {
        let server = *servers.entry(entry.url.clone()).or_insert_with(|| {
            let server =
                Server { transport: Transport::Http, url: Some(entry.url.clone()), ..Server::default() };
            build.server(String::new(), server, false)
        });
        let exchange = counts.entry(server).or_insert(0);
        *exchange += 1;
        let session = entry.session.as_deref().filter(|id| !id.is_empty());
        let session = session.map_or(0, |id| sessions.of(server, id.as_bytes()));
        let record = |from| Record { server, session, exchange: *exchange, ..blank(from) };
        let mut asked = record(Side::Client);
        let get = entry.method == "GET";
        match &entry.asked {
            Some(body) if entry.method == "POST" => asked.body = build.line(body),
            _ => {
                asked.more().http = Some(http_facts(&[("method", string::encode(&entry.method))]));
                asked.more().stream_get = get;
            }
        }
        placed.push(Placed { at: entry.start, record: asked });
        let end = entry.start.map(|start| start.saturating_add_unsigned(entry.took));
        for record in answers(build, entry, &record, &mut events) {
            placed.push(Placed { at: end, record });
        }
    }
    if timed {
        placed.sort_by_key(|placed| placed.at);
    }
    build.head.recorded_at = start.map_or_else(String::new, |start| clock::from_micros(start, true));
    for Placed { at, record } in placed {
        let (session, exchange) = (record.session, record.exchange);
        let at = at.map(|at| u64::try_from(at - start.unwrap_or(0)).unwrap_or(0));
        build.push(record, Some(exchange), at);
        if let Some(record) = build.records.last_mut() {
            record.session = session;
        }
    }
}

/// The records of an answer: one for each message, or one without.
fn answers(
    build: &mut Build<'_>,
    entry: &Entry,
    record: &dyn Fn(Side) -> Record,
    events: &mut Ordinals,
) -> Vec<Record> {
    let mut facts = vec![("status", entry.status.to_string())];
    let body = entry.body.as_deref().filter(|body| !body.is_empty());
    if body.is_some() && !entry.framing().is_empty() {
        facts.push(("type", string::encode(entry.framing())));
    }
    facts.extend(entry.headers.iter().map(|(name, value)| (*name, string::encode(value))));
    let get = entry.method == "GET";
    let mut list = Vec::new();
    if entry.status == 0 {
        let mut cut = record(Side::Server);
        cut.more().end = Some("cut".to_owned());
        return vec![cut];
    }
    let Some(body) = body else {
        let mut bare = record(Side::Server);
        bare.more().http = Some(http_facts(&facts));
        bare.more().stream_get = get && entry.status == 200;
        return vec![bare];
    };
    if entry.framing() != "sse" {
        let mut whole = record(Side::Server);
        whole.body = build.bytes(body);
        whole.more().http = Some(http_facts(&facts));
        return vec![whole];
    }
    for event in stream(body) {
        let mut one = record(Side::Server);
        let mut facts = std::mem::take(&mut facts);
        if let Some(id) = event.id {
            facts.push(("event", events.of(one.server, &id).to_string()));
        }
        facts.extend(event.retry.map(|retry| ("retry", retry.to_string())));
        if !facts.is_empty() {
            one.more().http = Some(http_facts(&facts));
        }
        one.more().stream_get = get;
        if !event.data.is_empty() {
            one.body = build.bytes(&event.data);
        }
        list.push(one);
    }
    if list.is_empty() {
        let mut bare = record(Side::Server);
        bare.more().http = Some(http_facts(&facts));
        bare.more().stream_get = get;
        list.push(bare);
    }
    list
}

#[derive(Default)]
struct Event {
    data: Vec<u8>,
    id: Option<Vec<u8>>,
    retry: Option<u64>,
}

/// The events of a stream that is there as a whole. Comments, and events that set nothing, are left out.
fn stream(body: &[u8]) -> Vec<Event> {
    let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
    let mut events = Vec::new();
    let mut event = Event::default();
    let mut lines = 0;
    let mut rest = body;
    while !rest.is_empty() {
        let end = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
        let (line, behind) = rest.split_at(end.unwrap_or(rest.len()));
        rest = match behind {
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => behind,
        };
        if line.is_empty() {
            let event = std::mem::take(&mut event);
            lines = 0;
            if !event.data.is_empty() || event.id.is_some() || event.retry.is_some() {
                events.push(event);
            }
            continue;
        }
        let colon = line.iter().position(|byte| *byte == b':').unwrap_or(line.len());
        let (name, value) = line.split_at(colon);
        let value = value.strip_prefix(b":").unwrap_or(value);
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match name {
            b"data" => {
                if lines > 0 {
                    event.data.push(b'\n');
                }
                lines += 1;
                event.data.extend_from_slice(value);
            }
            b"id" => event.id = Some(value.to_vec()),
            b"retry" => event.retry = std::str::from_utf8(value).ok().and_then(|text| text.parse().ok()),
            _ => {}
        }
    }
    // Exports often lack the last blank line.
    if !event.data.is_empty() {
        events.push(event);
    }
    events
}
