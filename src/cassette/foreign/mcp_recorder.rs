//! mcp-recorder (Python), version 1.0: a list of requests, each with its one answer and how long that took.

use std::collections::HashMap;
use std::path::Path;

use super::build::{
    Build, Kept, Read, blank, fields, file_members, http_facts, list_at, members, millis_at, place,
    string_at, wrong,
};
use crate::cassette::head::{Server, Transport, object};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::record::{Body, Fault, Record, Side};
use crate::error::Result;
use crate::jsonrpc::message::{Shape, member};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::{pretty, string};

/// The head and record field that keeps what only this format has.
pub const KEPT: &str = "mcp_recorder";

/// How it spells the command of a server that it started itself.
const STDIO: &str = "stdio://";

/// Reads a file.
pub fn read(path: &Path, text: &str) -> Result<Cassette> {
    let mut build = Build::new(text);
    let mut failed = None;
    let what = walk(&mut build, text, &mut failed);
    what.map_err(|fault| place(path, text, &fault, "/interactions", failed))?;
    Ok(build.finish(text))
}

fn walk(build: &mut Build<'_>, text: &str, failed: &mut Option<usize>) -> Read<()> {
    let mut server = Server { transport: Transport::Http, ..Server::default() };
    let (mut kept, mut beside) = (Kept::default(), Kept::default());
    let mut list = None;
    let head = &mut build.head;
    "mcp-recorder".clone_into(&mut head.recorder);
    file_members(text, |name, value| {
        match name {
            "version" => {
                let version = string::decode(value.of(text));
                if version.split('.').next() != Some("1") {
                    let what = format!(
                        "is version {version} of mcp-recorder's format; this mcpreel reads version 1"
                    );
                    return Err(Fault { at: value.start, what });
                }
            }
            "metadata" => members(text, value, "\"metadata\"", |name, value| {
                match name {
                    "recorded_at" => head.recorded_at = string_at(text, value, name)?,
                    "server_url" => {
                        let url = string_at(text, value, name)?;
                        match url.strip_prefix(STDIO) {
                            Some(command) => {
                                server.transport = Transport::Stdio;
                                server.command = super::words::split(command);
                            }
                            None => server.url = (!url.is_empty()).then_some(url),
                        }
                    }
                    "protocol_version" => server.protocol = vec![string_at(text, value, name)?],
                    "server_info" => server.info = Some(pretty::packed(value.of(text))),
                    "transport_type" => {}
                    _ => beside.push(name, value.of(text)),
                }
                Ok(())
            })?,
            "interactions" => list = Some(list_at(text, value, name)?),
            _ => kept.push(name, value.of(text)),
        }
        Ok(())
    })?;
    if let Some((_, beside)) = beside.field("metadata") {
        kept.push("metadata", &beside);
    }
    build.head.extra.extend(kept.field(KEPT));
    let http = server.transport == Transport::Http;
    let endpoint = server.url.as_deref().map(url_path).unwrap_or_default().to_owned();
    build.server(String::new(), server, false);
    let mut reader = Reader { http, endpoint, exchange: 0, now: 0 };
    for (index, entry) in list.unwrap_or_default().into_iter().enumerate() {
        *failed = Some(index);
        reader.interaction(build, text, entry)?;
    }
    Ok(())
}

struct Reader {
    http: bool,
    /// The path of the server's URL.
    endpoint: String,
    exchange: u32,
    /// Requests are told one after the other, so time is the sum of how long they took.
    now: u64,
}

impl Reader {
    fn interaction(&mut self, build: &mut Build<'_>, text: &str, entry: Span) -> Read<()> {
        let (mut kind, mut method, mut path) = (None, None, None);
        let (mut request, mut response) = (None, None);
        let (mut sse, mut status, mut latency) = (false, None, 0);
        let mut kept = Kept::default();
        members(text, entry, "an interaction", |name, value| {
            match name {
                "type" => kind = Some(string_at(text, value, name)?),
                "request" => request = Some(value),
                "response" => response = Some(value),
                "response_is_sse" => sse = value.of(text) == "true",
                "response_status" => {
                    let number = value.of(text).parse::<u16>();
                    let fault = |_| wrong(value, "\"response_status\" must be an HTTP status");
                    status = Some(number.map_err(fault)?);
                }
                "latency_ms" => latency = millis_at(text, value, name)?,
                "http_method" => method = Some(string_at(text, value, name)?),
                "http_path" => path = Some(string_at(text, value, name)?),
                _ => kept.push(name, value.of(text)),
            }
            Ok(())
        })?;
        let known = |kind: &str| matches!(kind, "jsonrpc_request" | "notification" | "lifecycle");
        let lifecycle = match kind.as_deref() {
            Some(kind) if known(kind) => kind == "lifecycle",
            _ => {
                let what = "\"type\" must be \"jsonrpc_request\", \"notification\" or \"lifecycle\"";
                return Err(wrong(entry, what));
            }
        };
        if !lifecycle && request.is_none() {
            return Err(wrong(entry, "expected \"request\": the message"));
        }
        self.exchange += 1;
        let exchange = self.http.then_some(self.exchange);
        let mut asked = blank(Side::Client);
        if let Some(request) = request {
            asked.body = build.payload(request)?;
        }
        if lifecycle && self.http {
            let path = path.filter(|path| *path != self.endpoint);
            let mut facts = vec![("method", string::encode(method.as_deref().unwrap_or("DELETE")))];
            facts.extend(path.map(|path| ("path", string::encode(&path))));
            asked.more().http = Some(http_facts(&facts));
        }
        kept.into_record(KEPT, &mut asked);
        build.push(asked, exchange, Some(self.now));
        self.now = self.now.saturating_add(latency);
        let mut answer = blank(Side::Server);
        if let Some(response) = response {
            answer.body = build.payload(response)?;
        }
        if self.http {
            let status = status.unwrap_or(if kind.as_deref() == Some("notification") { 202 } else { 200 });
            let mut facts = vec![("status", status.to_string())];
            if response.is_some() {
                facts.push(("type", string::encode(if sse { "sse" } else { "json" })));
            }
            answer.more().http = Some(http_facts(&facts));
        } else if response.is_none() {
            return Ok(());
        }
        build.push(answer, exchange, Some(self.now));
        Ok(())
    }
}

/// The path of a URL; empty where it has none.
pub(super) fn url_path(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let path = rest.find('/').and_then(|at| rest.get(at..)).unwrap_or("");
    path.split(['?', '#']).next().unwrap_or(path)
}

/// Writes a file. Of several servers only the first is written.
#[must_use]
pub fn write(cassette: &Cassette) -> String {
    let server = cassette.server(0).map(|(_, server)| server.clone()).unwrap_or_default();
    let mut kept = Kept::of(&cassette.head.extra, KEPT);
    let url = match server.transport {
        Transport::Stdio => format!("{STDIO}{}", super::words::join(&server.command)),
        Transport::Http => server.url.clone().unwrap_or_default(),
    };
    let metadata = fields(vec![
        ("recorded_at", string::encode(&cassette.head.recorded_at)),
        ("server_url", string::encode(&url)),
        ("protocol_version", server.protocol.first().map_or_else(null, |text| string::encode(text))),
        ("server_info", server.info.clone().unwrap_or_else(null)),
    ]);
    let beside = kept.take("metadata").map(|text| vec![("metadata".to_owned(), text)]);
    let beside = Kept::of(&beside.unwrap_or_default(), "metadata").rest(&metadata);
    let head = fields(vec![
        ("version", string::encode("1.0")),
        ("metadata", object(metadata.into_iter().chain(beside))),
        ("interactions", interactions(cassette, &server)),
    ]);
    let rest = kept.rest(&head);
    super::indented(&object(head.into_iter().chain(rest)))
}

fn null() -> String {
    "null".to_owned()
}

/// The answers of the server: by exchange over HTTP, else by connection and id, in order.
type Answers<'a> = HashMap<(u32, u32, &'a str), std::collections::VecDeque<&'a Record>>;

fn interactions(cassette: &Cassette, server: &Server) -> String {
    let text = &cassette.text;
    let http = server.transport == Transport::Http;
    let ours = || cassette.records.iter().filter(|record| record.server == 0);
    let key = |record: &Record, id: &'static str| (record.conn, record.exchange, id);
    let mut answers: Answers<'_> = HashMap::new();
    let mut bare: Answers<'_> = HashMap::new();
    for record in ours().filter(|record| record.from == Side::Server) {
        match record.view() {
            Some(view) if view.shape == Shape::Response => {
                let id = view.id.map_or("", |id| id.of(text));
                answers.entry((record.conn, record.exchange, id)).or_default().push_back(record);
            }
            None if matches!(record.body, Body::None) => {
                bare.entry(key(record, "")).or_default().push_back(record);
            }
            _ => {}
        }
    }
    let fact = |record: Option<&Record>, name: &str| {
        let http = record?.more.as_ref()?.http.as_deref()?;
        member(http, Span::new(0, http.len()), name).map(|value| value.of(http).to_owned())
    };
    let mut list = Vec::new();
    for record in ours().filter(|record| record.from == Side::Client) {
        let view = record.view();
        let kind = match view.map(|view| view.shape) {
            Some(Shape::Request) => "jsonrpc_request",
            Some(Shape::Notification | Shape::Response) => "notification",
            None if http && matches!(record.body, Body::None) => "lifecycle",
            _ => continue,
        };
        let id = view.and_then(|view| view.id).map_or("", |id| id.of(text));
        let asks = kind == "jsonrpc_request";
        let answer = if asks {
            answers
                .get_mut(&(record.conn, record.exchange, id))
                .and_then(std::collections::VecDeque::pop_front)
        } else {
            None
        };
        let said =
            answer.or_else(|| bare.get_mut(&key(record, "")).and_then(std::collections::VecDeque::pop_front));
        let sse = fact(said, "type").is_some_and(|kind| string::is(&kind, "sse"));
        let usual = if kind == "notification" && http { "202" } else { "200" };
        let latency = match (cassette.timing, said) {
            (Timing::Known, Some(said)) => said.at.saturating_sub(record.at) / 1000,
            _ => 0,
        };
        let path = fact(Some(record), "path").unwrap_or_else(|| {
            string::encode(server.url.as_deref().map(url_path).filter(|path| !path.is_empty()).unwrap_or("/"))
        });
        let lifecycle = kind == "lifecycle";
        let literal = |record: &Record| record.view().map(|view| pretty::packed(view.whole.of(text)));
        let mut members = fields(vec![
            ("type", string::encode(kind)),
            ("request", literal(record).unwrap_or_else(null)),
            ("response", answer.and_then(literal).unwrap_or_else(null)),
            ("response_is_sse", sse.to_string()),
            ("response_status", fact(said, "status").unwrap_or_else(|| usual.to_owned())),
            ("latency_ms", latency.to_string()),
            (
                "http_method",
                if lifecycle {
                    fact(Some(record), "method").unwrap_or_else(|| string::encode("GET"))
                } else {
                    null()
                },
            ),
            ("http_path", if lifecycle { path } else { null() }),
        ]);
        let kept = Kept::of_record(record, KEPT).rest(&members);
        members.extend(kept);
        list.push(object(members));
    }
    format!("[{}]", list.join(","))
}
