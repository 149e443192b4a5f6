//! Lines of `{ts, dir, msg}`, as mcp-rec writes them: when, which way, and the message itself.

use std::collections::HashMap;
use std::path::Path;

use super::build::{Build, Kept, Read, blank, each_line, members, string_at, wrong};
use crate::cassette::clock;
use crate::cassette::head::{Server, object};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::record::{Body, Side};
use crate::error::Result;
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::{pretty, string};

/// The record field that keeps what only this format has.
pub const KEPT: &str = "jsonl";

/// Reads a file.
pub fn read(path: &Path, text: &str) -> Result<Cassette> {
    let mut build = Build::new(text);
    let mut warnings = Vec::new();
    let mut start = None;
    let mut servers = HashMap::new();
    each_line(path, text, &mut warnings, |line| entry(&mut build, text, line, &mut servers, &mut start))?;
    build.warnings = warnings;
    build.head.recorded_at = start.map_or_else(String::new, |start| clock::from_micros(start, true));
    "jsonl".clone_into(&mut build.head.recorder);
    Ok(build.finish(text))
}

fn entry(
    build: &mut Build<'_>,
    text: &str,
    line: Span,
    servers: &mut HashMap<String, u32>,
    start: &mut Option<i64>,
) -> Read<()> {
    let (mut from, mut time, mut message, mut server) = (None, None, None, String::new());
    let mut kept = Kept::default();
    members(text, line, "a line", |name, value| {
        match name {
            "ts" => {
                let micros = moment(value.of(text));
                time =
                    Some(micros.ok_or_else(|| wrong(value, "\"ts\" must be seconds since 1970 or a date"))?);
            }
            "dir" => {
                from = Some(match &*string_at(text, value, "dir")? {
                    "client->server" | "client_to_server" | "c2s" | "client" => Side::Client,
                    "server->client" | "server_to_client" | "s2c" | "server" => Side::Server,
                    _ => {
                        let what = "\"dir\" must be \"client->server\" or \"server->client\"";
                        return Err(wrong(value, what));
                    }
                });
            }
            "msg" => message = Some(value),
            "server" if value.of(text).starts_with('"') => server = string_at(text, value, "server")?,
            _ => kept.push(name, value.of(text)),
        }
        Ok(())
    })?;
    let from = from.ok_or_else(|| wrong(line, "expected \"dir\": which way it went"))?;
    let message = message.ok_or_else(|| wrong(line, "expected \"msg\": the message"))?;
    let mut record = blank(from);
    record.server = match servers.get(&server) {
        Some(known) => *known,
        None => {
            let new = build.server(server.clone(), Server::default(), false);
            servers.insert(server, new);
            new
        }
    };
    // A line that was no JSON there is an object around it.
    let unread = member(text, message, "_unparsed").is_some_and(|flag| flag.of(text) == "true");
    let raw = member(text, message, "_raw").filter(|raw| unread && raw.of(text).starts_with('"'));
    record.body = match raw {
        Some(raw) => build.line(&string::decode(raw.of(text))),
        None => build.payload(message)?,
    };
    kept.into_record(KEPT, &mut record);
    let at = time.map(|time| u64::try_from(time.saturating_sub(*start.get_or_insert(time))).unwrap_or(0));
    build.push(record, None, at);
    Ok(())
}

/// Seconds (or, where that were far in the future, milliseconds) since 1970, or a date, as microseconds.
fn moment(literal: &str) -> Option<i64> {
    if literal.starts_with('"') {
        return clock::parse(&string::decode(literal));
    }
    let number = literal.parse::<f64>().ok().filter(|number| (0.0..1e15).contains(number))?;
    let micros = if number < 1e11 { number * 1e6 } else { number * 1e3 };
    // The range was looked at above; microseconds of this century fit a double to the last digit.
    #[allow(clippy::cast_possible_truncation)]
    Some(micros.round() as i64)
}

/// Writes a file. Lines name their server only where there are several.
#[must_use]
pub fn write(cassette: &Cassette) -> String {
    let mut out = String::with_capacity(cassette.text.len() + 1024);
    let text = &cassette.text;
    let start = clock::parse(&cassette.head.recorded_at).unwrap_or(0);
    for record in &cassette.records {
        let message = match &record.body {
            Body::None | Body::Base64(_) => continue,
            Body::Payload(view) => pretty::packed(view.whole.of(text)),
            Body::Text(span) => unread(span.of(text)),
        };
        let mut fields = Vec::new();
        if cassette.timing == Timing::Known {
            let at = start.saturating_add_unsigned(record.at);
            fields.push(("ts".to_owned(), format!("{}.{:06}", at / 1_000_000, at % 1_000_000)));
        }
        let way = if record.from == Side::Client { "client->server" } else { "server->client" };
        fields.push(("dir".to_owned(), string::encode(way)));
        if cassette.head.servers.len() > 1 {
            fields.push(("server".to_owned(), string::encode(cassette.server_name(record))));
        }
        fields.push(("msg".to_owned(), message));
        let kept = Kept::of_record(record, KEPT).rest(&fields);
        fields.extend(kept);
        out.push_str(&object(fields));
        out.push('\n');
    }
    out
}

fn unread(literal: &str) -> String {
    format!("{{\"_raw\":{literal},\"_unparsed\":true}}")
}
