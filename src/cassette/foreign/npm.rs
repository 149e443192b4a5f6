//! mcp-cassette (npm), versions 1 and 2: a header line, then `frame`, `raw` and `chunks` entries.

use std::collections::HashMap;
use std::path::Path;

use super::build::{
    Build, Kept, Read, blank, each_line, fields, http_facts, list_at, members, millis_at, string_at, wrong,
};
use crate::cassette::head::{Server, Transport, object};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::record::{Body, Record, Side, push_millis};
use crate::error::{Error, Result};
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::{pretty, string};
use crate::mcp;

/// The newest version this program knows of.
pub const FORMAT: u64 = 2;

/// The head and record field that keeps what only this format has.
pub const KEPT: &str = "mcp_cassette_npm";

/// One message of the file, before its place is known.
struct Entry {
    record: Record,
    time: Option<u64>,
    /// Comes from an entry for a whole stream: the id it answers, if any.
    stream: Option<Stream>,
    status: Option<Span>,
    kept: Kept,
}

#[derive(Clone)]
struct Stream {
    id: Option<Span>,
    get: bool,
    /// Which entry of the file it is.
    number: usize,
    first: bool,
}

#[derive(Default)]
struct File {
    entries: Vec<Entry>,
    streams: usize,
    headed: bool,
    skipped: Vec<String>,
    too_new: Option<String>,
}

/// Reads a file.
pub fn read(path: &Path, text: &str) -> Result<Cassette> {
    let mut build = Build::new(text);
    let mut file = File::default();
    let mut warnings = Vec::new();
    let what = each_line(path, text, &mut warnings, |line| {
        if file.headed { file.entry(&mut build, text, line) } else { file.header(&mut build, text, line) }
    });
    if let Some(version) = file.too_new {
        let what = format!(
            "is an npm mcp-cassette file of version {version}; this mcpreel reads its versions 1 to {FORMAT}"
        );
        return Err(Error::input(path, "", what));
    }
    what?;
    for kind in file.skipped {
        warnings.push(format!("{}: entries of type {kind:?} are unknown and were left out", path.display()));
    }
    let http = build.head.servers.first().is_some_and(|(_, server)| server.transport == Transport::Http);
    if http {
        place_http(&mut build, file.entries);
    } else {
        for entry in file.entries {
            let Entry { mut record, time, kept, .. } = entry;
            kept.into_record(KEPT, &mut record);
            build.push(record, None, time);
        }
    }
    build.warnings = warnings;
    Ok(build.finish(text))
}

impl File {
    fn header(&mut self, build: &mut Build<'_>, text: &str, line: Span) -> Read<()> {
        self.headed = true;
        let mut server = Server::default();
        let mut sessions = false;
        let mut kept = Kept::default();
        let mut too_new = None;
        let head = &mut build.head;
        members(text, line, "the header", |name, value| {
            match name {
                // The messages say the era.
                "type" | "era" => {}
                "cassetteVersion" => match value.of(text).parse::<u64>() {
                    Ok(1..=FORMAT) => {}
                    Ok(version) if version > FORMAT => too_new = Some(version.to_string()),
                    _ => return Err(wrong(value, "\"cassetteVersion\" must be 1 or 2")),
                },
                "recorder" => head.recorder = string_at(text, value, name)?,
                "startedAt" => head.recorded_at = string_at(text, value, name)?,
                "transport" => {
                    server.transport = match &*string_at(text, value, name)? {
                        "stdio" => Transport::Stdio,
                        "http" => Transport::Http,
                        _ => return Err(wrong(value, "\"transport\" must be \"stdio\" or \"http\"")),
                    };
                }
                "command" => {
                    let words = list_at(text, value, name)?;
                    let words = words.into_iter().map(|word| string_at(text, word, "command"));
                    server.command = words.collect::<Read<_>>()?;
                }
                "url" => server.url = Some(string_at(text, value, name)?),
                "sessioned" => sessions = value.of(text) == "true",
                // That nothing was redacted goes without saying.
                "redaction" if member(text, value, "applied").is_some_and(|it| it.of(text) == "false") => {}
                _ => kept.push(name, value.of(text)),
            }
            Ok(())
        })?;
        self.too_new = too_new;
        head.extra.extend(kept.field(KEPT));
        build.server(String::new(), server, sessions);
        if self.too_new.is_some() {
            return Err(wrong(line, "newer"));
        }
        Ok(())
    }

    fn entry(&mut self, build: &mut Build<'_>, text: &str, line: Span) -> Read<()> {
        let kind = member(text, line, "type").map(|kind| string::decode(kind.of(text)).into_owned());
        let kind = kind.ok_or_else(|| wrong(line, "expected \"type\": frame, raw or chunks"))?;
        if !matches!(&*kind, "frame" | "raw" | "chunks") {
            if !self.skipped.contains(&kind) {
                self.skipped.push(kind);
            }
            return Ok(());
        }
        let (mut from, mut time, mut status, mut live) = (None, None, None, false);
        let (mut frame, mut data, mut chunks) = (None, None, None);
        let (mut id, mut get) = (None, false);
        let mut kept = Kept::default();
        members(text, line, "an entry", |name, value| {
            match (name, &*kind) {
                ("type", _) => {}
                ("t", _) => time = Some(millis_at(text, value, "t")?),
                ("dir", _) => {
                    from = Some(match &*string_at(text, value, "dir")? {
                        "c2s" => Side::Client,
                        "s2c" => Side::Server,
                        _ => return Err(wrong(value, "\"dir\" must be \"c2s\" or \"s2c\"")),
                    });
                }
                ("origin", _) if string::is(value.of(text), "live") => live = true,
                ("frame", "frame") => frame = Some(value),
                ("http", "frame") => {
                    status = member(text, value, "status");
                    if status.is_some_and(|status| status.of(text).parse::<u16>().is_err()) {
                        return Err(wrong(value, "\"status\" must be an HTTP status"));
                    }
                }
                ("data", "raw") => data = Some(string_at(text, value, "data")?),
                ("chunks", "chunks") => chunks = Some(list_at(text, value, "chunks")?),
                ("id", "chunks") => id = Some(value),
                ("via", "chunks") => get = string::is(value.of(text), "get"),
                _ => kept.push(name, value.of(text)),
            }
            Ok(())
        })?;
        let from = from.ok_or_else(|| wrong(line, "expected \"dir\": \"c2s\" or \"s2c\""))?;
        let record = |body| {
            let mut record = Record { body, ..blank(from) };
            if live {
                record.more().live = true;
            }
            record
        };
        match &*kind {
            "frame" => {
                let frame = frame.ok_or_else(|| wrong(line, "expected \"frame\": the message"))?;
                let record = record(build.payload(frame)?);
                self.entries.push(Entry { record, time, stream: None, status, kept });
            }
            "raw" => {
                let data = data.ok_or_else(|| wrong(line, "expected \"data\": the line"))?;
                let record = record(build.line(&data));
                self.entries.push(Entry { record, time, stream: None, status: None, kept });
            }
            _ => {
                let chunks = chunks.ok_or_else(|| wrong(line, "expected \"chunks\": a list of messages"))?;
                self.streams += 1;
                let mut stream = Stream { id, get: get || id.is_none(), number: self.streams, first: true };
                for chunk in chunks {
                    let frame = member(text, chunk, "frame");
                    let frame = frame.ok_or_else(|| wrong(chunk, "expected \"frame\": the message"))?;
                    let own = match member(text, chunk, "t") {
                        Some(t) => Some(millis_at(text, t, "t")?),
                        None => time,
                    };
                    let record = record(build.payload(frame)?);
                    let kept = std::mem::take(&mut kept);
                    let entry = Entry { record, time: own, stream: Some(stream.clone()), status: None, kept };
                    self.entries.push(entry);
                    stream.first = false;
                }
            }
        }
        Ok(())
    }
}

/// Over HTTP, every message of the client is a request of its own, and an entry for a stream stands where the stream
/// ended while its messages came when they say.
fn place_http(build: &mut Build<'_>, mut entries: Vec<Entry>) {
    let live = |entry: &Entry| entry.record.more.as_ref().is_some_and(|more| more.live);
    if entries.iter().all(|entry| entry.time.is_some()) {
        entries.sort_by_key(|entry| (live(entry), if live(entry) { None } else { entry.time }));
    }
    let mut exchanges = 0_u32;
    // By the id of the request, and by the stream that has no request.
    let mut open: HashMap<String, u32> = HashMap::new();
    let mut streams: HashMap<usize, u32> = HashMap::new();
    let mut last = 1;
    for Entry { mut record, time, stream, status, kept } in entries {
        let view = record.view().copied();
        let id = view.and_then(|view| view.id).map(|id| build.of(id).to_owned());
        let status = status.map(|status| status.of(build.text).to_owned());
        let mut follows = None;
        let exchange = if record.from == Side::Client {
            exchanges += 1;
            last = exchanges;
            let asks = view.is_some_and(|view| view.shape == Shape::Request);
            match id.filter(|_| asks) {
                Some(id) => drop(open.insert(id, exchanges)),
                // Nothing else in the file says how this was answered.
                None => follows = Some(status.unwrap_or_else(|| "202".to_owned())),
            }
            exchanges
        } else if let Some(stream) = &stream {
            let of_id = stream.id.and_then(|id| open.get(id.of(build.text)).copied());
            let number = *streams.entry(stream.number).or_insert_with(|| {
                of_id.unwrap_or_else(|| {
                    exchanges += 1;
                    exchanges
                })
            });
            if stream.get {
                record.more().stream_get = true;
            }
            if stream.first {
                let facts = [("status", "200".to_owned()), ("type", "\"sse\"".to_owned())];
                record.more().http = Some(http_facts(&facts));
            }
            number
        } else {
            let status = status.unwrap_or_else(|| "200".to_owned());
            let facts = [("status", status), ("type", "\"json\"".to_owned())];
            record.more().http = Some(http_facts(&facts));
            id.and_then(|id| open.get(&id).copied()).unwrap_or(last)
        };
        kept.into_record(KEPT, &mut record);
        build.push(record, Some(exchange), time);
        if let Some(status) = follows {
            let mut answer = blank(Side::Server);
            answer.more().http = Some(http_facts(&[("status", status)]));
            build.push(answer, Some(exchange), time);
        }
    }
}

/// Writes version 2. Of several servers only the first is written.
#[must_use]
pub fn write(cassette: &Cassette) -> String {
    let mut out = String::with_capacity(cassette.text.len() + 1024);
    let server = cassette.server(0).map(|(_, server)| server.clone()).unwrap_or_default();
    let http = server.transport == Transport::Http;
    out.push_str(&header(cassette, &server));
    out.push('\n');
    let requests = cassette.records.iter().filter(|record| record.server == 0 && record.from == Side::Client);
    let asked = requests.filter_map(|record| {
        let id = record.view().filter(|view| view.shape == Shape::Request)?.id?;
        Some((record.exchange, id.of(&cassette.text).to_owned()))
    });
    let writer = Writer { cassette, http, asked: asked.collect() };
    let ours: Vec<&Record> = cassette.records.iter().filter(|record| record.server == 0).collect();
    let mut streams: HashMap<u32, Vec<&Record>> = HashMap::new();
    let mut statuses: HashMap<u32, String> = HashMap::new();
    let mut counts: HashMap<u32, usize> = HashMap::new();
    for record in ours.iter().filter(|_| http) {
        let status = fact(record, "status");
        if record.from == Side::Server && !matches!(record.body, Body::Payload(_)) {
            if let Some(status) = status {
                statuses.insert(record.exchange, status.to_owned());
            }
        } else if record.from == Side::Server {
            *counts.entry(record.exchange).or_insert(0) += 1;
        }
    }
    let streamed = |record: &Record| {
        let more = record.more.as_deref();
        http && record.from == Side::Server
            && record.view().is_some()
            && (more.is_some_and(|more| more.stream_get)
                || fact(record, "type").is_some_and(|kind| string::is(kind, "sse"))
                || counts.get(&record.exchange).is_some_and(|count| *count > 1))
    };
    let mut left: HashMap<u32, usize> = HashMap::new();
    for record in ours.iter().filter(|record| streamed(record)) {
        *left.entry(record.exchange).or_insert(0) += 1;
    }
    for record in ours {
        if streamed(record) {
            let gathered = streams.entry(record.exchange).or_default();
            gathered.push(record);
            if left.get(&record.exchange) == Some(&gathered.len()) {
                out.push_str(&writer.stream(gathered));
                out.push('\n');
            }
        } else if let Some(entry) = writer.entry(record, statuses.get(&record.exchange)) {
            out.push_str(&entry);
            out.push('\n');
        }
    }
    out
}

fn header(cassette: &Cassette, server: &Server) -> String {
    let head = &cassette.head;
    let mut kept = Kept::of(&head.extra, KEPT);
    let texts = |list: &[String]| {
        let list: Vec<String> = list.iter().map(|text| string::encode(text)).collect();
        if list.is_empty() { String::new() } else { format!("[{}]", list.join(",")) }
    };
    let sessions = cassette.records.iter().any(|record| record.server == 0 && record.session > 0);
    let redaction =
        kept.take("redaction").unwrap_or_else(|| format!("{{\"applied\":{}}}", head.redaction.is_some()));
    let known = fields(vec![
        ("type", string::encode("header")),
        ("cassetteVersion", FORMAT.to_string()),
        ("recorder", string::encode(&head.recorder)),
        ("startedAt", string::encode(&head.recorded_at)),
        ("transport", string::encode(server.transport.word())),
        ("url", server.url.as_deref().map_or_else(String::new, string::encode)),
        ("command", texts(&server.command)),
        ("era", era(cassette)),
        ("sessioned", if sessions { "true".to_owned() } else { String::new() }),
        ("redaction", redaction),
    ]);
    let rest = kept.rest(&known);
    object(known.into_iter().chain(rest))
}

/// Which life cycle the first request was made in.
fn era(cassette: &Cassette) -> String {
    let text = &cassette.text;
    let mut requests =
        cassette.records.iter().filter(|record| record.server == 0 && record.from == Side::Client);
    let era = requests.find_map(|record| {
        let view = record.view().filter(|view| view.shape == Shape::Request)?;
        Some(mcp::era(text, view))
    });
    era.map_or_else(String::new, |era| string::encode(era.word()))
}

/// An HTTP fact of a record.
fn fact<'r>(record: &'r Record, name: &str) -> Option<&'r str> {
    let http = record.more.as_ref()?.http.as_deref()?;
    member(http, Span::new(0, http.len()), name).map(|value| value.of(http))
}

struct Writer<'a> {
    cassette: &'a Cassette,
    http: bool,
    /// The ids of the requests, by their exchange.
    asked: HashMap<u32, String>,
}

impl Writer<'_> {
    fn time(&self, record: &Record) -> String {
        let mut out = String::new();
        let at = if self.cassette.timing == Timing::Known { record.at } else { 0 };
        push_millis(&mut out, at);
        out
    }

    fn message(&self, view: &View) -> Option<String> {
        let text = view.whole.of(&self.cassette.text);
        text.starts_with('{').then(|| pretty::packed(text))
    }

    /// A message or line by itself; `refused` is the status of an answer that holds no message.
    fn entry(&self, record: &Record, refused: Option<&String>) -> Option<String> {
        let text = &self.cassette.text;
        let (kind, body, content) = match &record.body {
            Body::Payload(view) => match self.message(view) {
                Some(message) => ("frame", "frame", message),
                None => ("raw", "data", string::encode(&pretty::packed(view.whole.of(text)))),
            },
            Body::Text(span) => ("raw", "data", span.of(text).to_owned()),
            Body::None | Body::Base64(_) => return None,
        };
        let asks = record.from == Side::Client && record.is(Shape::Request);
        let status = match record.from {
            Side::Server => fact(record, "status").filter(|status| *status != "200").map(str::to_owned),
            Side::Client => refused.filter(|status| !asks && *status != "202").cloned(),
        };
        let status = status.filter(|_| self.http && kind == "frame");
        let live = record.more.as_ref().is_some_and(|more| more.live);
        let mut members = fields(vec![
            ("type", string::encode(kind)),
            ("t", self.time(record)),
            ("dir", string::encode(if record.from == Side::Client { "c2s" } else { "s2c" })),
            (body, content),
            ("origin", if live { string::encode("live") } else { String::new() }),
            ("http", status.map_or_else(String::new, |status| format!("{{\"status\":{status}}}"))),
        ]);
        let kept = Kept::of_record(record, KEPT).rest(&members);
        members.extend(kept);
        Some(object(members))
    }

    /// All messages of one stream.
    fn stream(&self, records: &[&Record]) -> String {
        let Some(first) = records.first() else { return String::new() };
        let more = first.more.as_deref();
        let get = more.is_some_and(|more| more.stream_get);
        let live = more.is_some_and(|more| more.live);
        let id = self.asked.get(&first.exchange).filter(|_| !get);
        let chunks: Vec<String> = records
            .iter()
            .filter_map(|record| {
                let frame = self.message(record.view()?)?;
                Some(format!("{{\"t\":{},\"frame\":{frame}}}", self.time(record)))
            })
            .collect();
        let mut members = fields(vec![
            ("type", string::encode("chunks")),
            ("t", self.time(first)),
            ("dir", string::encode("s2c")),
            ("id", id.cloned().unwrap_or_default()),
            ("via", if get { string::encode("get") } else { String::new() }),
            ("chunks", format!("[{}]", chunks.join(","))),
            ("origin", if live { string::encode("live") } else { String::new() }),
        ]);
        let kept = Kept::of_record(first, KEPT).rest(&members);
        members.extend(kept);
        object(members)
    }
}
