//! ctpf sessions: every message of both directions with its time, as that program's proxy saw it.

use std::collections::{HashMap, VecDeque};
use std::path::Path;

use super::build::{
    Build, Kept, Read, blank, fields, file_members, list_at, members, moment, place, string_at, wrong,
};
use crate::cassette::clock;
use crate::cassette::head::{Server, Transport, object};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::record::{Record, Side};
use crate::error::Result;
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::{pretty, string};

/// The head and record field that keeps what only this format has.
pub const KEPT: &str = "ctpf";

/// Its word for the older HTTP transport, whose answers all come on one stream.
const SSE: &str = "sse";

/// How ids begin that this program made up.
const MADE_UP: &str = "00000000-0000-4000-8000-";

/// The time of messages that have none.
const UNKNOWN: i64 = 0;

/// Reads a file.
pub fn read(path: &Path, text: &str) -> Result<Cassette> {
    let mut build = Build::new(text);
    let mut failed = None;
    let what = walk(&mut build, text, &mut failed);
    what.map_err(|fault| place(path, text, &fault, "/messages", failed))?;
    Ok(build.finish(text))
}

fn walk(build: &mut Build<'_>, text: &str, failed: &mut Option<usize>) -> Read<()> {
    let mut server = Server::default();
    let mut kept = Kept::default();
    let mut list = None;
    let (mut transport, mut ended) = (None, None);
    let head = &mut build.head;
    "ctpf".clone_into(&mut head.recorder);
    file_members(text, |name, value| {
        match name {
            "started_at" => head.recorded_at = string_at(text, value, name)?,
            "transport" => transport = Some(transport_at(text, value)?),
            "server_command" => server.command = super::words::split(&string_at(text, value, name)?),
            "server_url" => server.url = Some(string_at(text, value, name)?),
            "messages" => list = Some(list_at(text, value, name)?),
            "ended_at" => ended = Some(value),
            // What this program puts there when it knows nothing.
            "id" if string::is(value.of(text), &made_up(0)) => {}
            "metadata" if pretty::packed(value.of(text)) == "{}" => {}
            _ => kept.push(name, value.of(text)),
        }
        Ok(())
    })?;
    let list = list.unwrap_or_default();
    let word = match transport {
        Some(word) => word,
        // Each message says it as well.
        None => {
            match list.first().and_then(|first| crate::jsonrpc::message::member(text, *first, "transport")) {
                Some(value) => transport_at(text, value)?,
                None => "stdio".to_owned(),
            }
        }
    };
    if word != "stdio" {
        server.transport = Transport::Http;
    }
    if word == SSE {
        kept.push("transport", &string::encode(SSE));
    }
    build.server(String::new(), server, false);
    let mut start = moment(&build.head.recorded_at);
    for (index, entry) in list.into_iter().enumerate() {
        *failed = Some(index);
        message(build, text, entry, word == SSE, &mut start)?;
    }
    let last = build.records.last().map_or(0, |record| record.at);
    let last = start.unwrap_or(0).saturating_add_unsigned(last);
    if let Some(ended) = ended.filter(|ended| moment(&string::decode(ended.of(text))) != Some(last)) {
        kept.push("ended_at", ended.of(text));
    }
    build.head.extra.extend(kept.field(KEPT));
    if build.head.recorded_at.is_empty()
        && let Some(start) = start
    {
        build.head.recorded_at = clock::from_micros(start, true);
    }
    Ok(())
}

fn transport_at(text: &str, value: Span) -> Read<String> {
    let word = string_at(text, value, "transport")?;
    if matches!(&*word, "stdio" | SSE | "streamable-http") {
        return Ok(word);
    }
    Err(wrong(value, "\"transport\" must be \"stdio\", \"sse\" or \"streamable-http\""))
}

fn message(build: &mut Build<'_>, text: &str, entry: Span, sse: bool, start: &mut Option<i64>) -> Read<()> {
    let (mut from, mut time, mut payload) = (None, None, None);
    let mut kept = Kept::default();
    members(text, entry, "a message", |name, value| {
        match name {
            // The order, the payload and the session say these.
            "sequence" | "transport" | "jsonrpc_id" | "method" | "correlated_id" => {}
            "modified" if value.of(text) == "false" => {}
            "proxy_id" if string::decode(value.of(text)).starts_with(MADE_UP) => {}
            "timestamp" => {
                let at = moment(&string_at(text, value, name)?);
                let at = at.ok_or_else(|| wrong(value, "\"timestamp\" must be a date and time"))?;
                time = (at != UNKNOWN).then_some(at);
            }
            "direction" => {
                from = Some(match &*string_at(text, value, name)? {
                    "client_to_server" => Side::Client,
                    "server_to_client" => Side::Server,
                    _ => {
                        let what = "\"direction\" must be \"client_to_server\" or \"server_to_client\"";
                        return Err(wrong(value, what));
                    }
                });
            }
            "payload" => payload = Some(value),
            _ => kept.push(name, value.of(text)),
        }
        Ok(())
    })?;
    let from = from.ok_or_else(|| wrong(entry, "expected \"direction\""))?;
    let payload = payload.ok_or_else(|| wrong(entry, "expected \"payload\": the message"))?;
    let mut record = blank(from);
    record.body = build.payload(payload)?;
    if sse && from == Side::Server {
        record.more().stream_get = true;
    }
    kept.into_record(KEPT, &mut record);
    let at = time.map(|time| u64::try_from(time.saturating_sub(*start.get_or_insert(time))).unwrap_or(0));
    build.push(record, None, at);
    Ok(())
}

/// Writes a file. Of several servers only the first is written.
#[must_use]
pub fn write(cassette: &Cassette) -> String {
    let server = cassette.server(0).map(|(_, server)| server.clone()).unwrap_or_default();
    let mut kept = Kept::of(&cassette.head.extra, KEPT);
    let transport = match kept.take("transport") {
        Some(word) => word,
        None if server.transport == Transport::Http => string::encode("streamable-http"),
        None => string::encode("stdio"),
    };
    let head = &cassette.head;
    let text_or_null = |text: &str| if text.is_empty() { null() } else { string::encode(text) };
    let last = cassette.records.iter().map(|record| record.at).max().unwrap_or(0);
    let ended = || if cassette.timing == Timing::Known { moment_of(cassette, last) } else { null() };
    let members = fields(vec![
        ("id", kept.take("id").unwrap_or_else(|| string::encode(&made_up(0)))),
        ("started_at", text_or_null(&head.recorded_at)),
        ("ended_at", kept.take("ended_at").unwrap_or_else(ended)),
        ("transport", transport.clone()),
        ("server_command", text_or_null(&super::words::join(&server.command))),
        ("server_url", server.url.as_deref().map_or_else(null, string::encode)),
        ("messages", messages(cassette, &transport)),
        ("metadata", kept.take("metadata").unwrap_or_else(|| "{}".to_owned())),
    ]);
    let rest = kept.rest(&members);
    super::indented(&object(members.into_iter().chain(rest)))
}

fn null() -> String {
    "null".to_owned()
}

/// Ids that are the same whenever the same cassette is written.
fn made_up(number: usize) -> String {
    format!("{MADE_UP}{number:012x}")
}

fn moment_of(cassette: &Cassette, at: u64) -> String {
    let start = moment(&cassette.head.recorded_at).unwrap_or(0);
    string::encode(&clock::from_micros(start.saturating_add_unsigned(at), true))
}

fn messages(cassette: &Cassette, transport: &str) -> String {
    let text = &cassette.text;
    let mut list = Vec::new();
    // Requests by who asked, on which connection, with which id.
    let mut open: HashMap<(Side, u32, u32, &str), VecDeque<String>> = HashMap::new();
    let ours = cassette.records.iter().filter(|record| record.server == 0);
    for record in ours {
        let object_view = |view: &&View| view.whole.of(text).starts_with('{');
        let Some(view) = record.view().filter(object_view) else { continue };
        let mut kept = Kept::of_record(record, KEPT);
        let own = kept.take("proxy_id").unwrap_or_else(|| string::encode(&made_up(list.len() + 1)));
        let id = view.id.map_or("", |id| id.of(text));
        let key = |record: &Record, side| (side, record.conn, record.session, id);
        let correlated = match (view.shape, record.from) {
            (Shape::Request, side) => {
                open.entry(key(record, side)).or_default().push_back(own.clone());
                None
            }
            (Shape::Response, side) => {
                let asker = if side == Side::Client { Side::Server } else { Side::Client };
                open.get_mut(&key(record, asker)).and_then(VecDeque::pop_front)
            }
            _ => None,
        };
        let timestamp = match cassette.timing {
            Timing::Known => moment_of(cassette, record.at),
            _ => string::encode(&clock::from_micros(UNKNOWN, true)),
        };
        let way = if record.from == Side::Client { "client_to_server" } else { "server_to_client" };
        let simple = id.starts_with('"') || id.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-');
        let mut members = fields(vec![
            ("proxy_id", own),
            ("sequence", list.len().to_string()),
            ("timestamp", timestamp),
            ("direction", string::encode(way)),
            ("transport", transport.to_owned()),
            ("jsonrpc_id", if id.is_empty() || !simple { null() } else { id.to_owned() }),
            ("method", view.method.map_or_else(null, |method| method.of(text).to_owned())),
            ("correlated_id", correlated.unwrap_or_else(null)),
            ("modified", kept.take("modified").unwrap_or_else(|| "false".to_owned())),
            ("payload", pretty::packed(view.whole.of(text))),
        ]);
        let rest = kept.rest(&members);
        members.extend(rest);
        list.push(object(members));
    }
    format!("[{}]", list.join(","))
}
