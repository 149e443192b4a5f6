//! Every message on a line.

use super::Filter;
use super::json::{self, Fields, list};
use super::reel::Reel;
use super::shown::{duration, line, moment, quoted, short, size};
use crate::cassette::{Record, Side};
use crate::jsonrpc::{pretty, string};

/// The lines.
pub(super) fn text(reel: &Reel, filter: &Filter) -> String {
    let wanted: Vec<usize> =
        (0..reel.messages.len()).filter(|index| reel.is_wanted(*index, filter)).collect();
    let rows: Vec<[String; 4]> = wanted.iter().map(|index| row(reel, *index)).collect();
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let (number, time, place) = (width(0), width(1), width(2));
    let mut out = String::new();
    for [a, b, c, d] in &rows {
        let start = format!("{a:>number$}  {b:>time$}  {c:place$}  ");
        out.push_str(if place == 0 { start.trim_end() } else { &start });
        if place == 0 {
            out.push_str("  ");
        }
        out.push_str(d);
        out.push('\n');
    }
    if rows.is_empty() {
        out.push_str("no messages\n");
    }
    out
}

/// Number, time, place, and the rest.
fn row(reel: &Reel, index: usize) -> [String; 4] {
    let Some((message, record)) = reel.at(index) else { return Default::default() };
    let number = format!("#{}", message.number());
    let time = reel.time(index).map_or(String::new(), moment);
    let arrow = if record.from == Side::Client { "->" } else { "<-" };
    [number, time, line(&place(reel, record)), format!("{arrow} {}", what(reel, index))]
}

/// Where a message passed, as far as there is a choice.
pub(super) fn place(reel: &Reel, record: &Record) -> String {
    let mut parts = Vec::new();
    if reel.cassette.head.servers.len() > 1 {
        parts.push(reel.cassette.server_name(record).to_owned());
    }
    if record.conn > 0 {
        parts.push(format!("c{}", record.conn));
    }
    if record.session > 0 {
        parts.push(format!("s{}", record.session));
    }
    if record.exchange > 0 {
        parts.push(format!("x{}", record.exchange));
    }
    parts.join(" ")
}

/// What a message is, and whom it answers.
pub(super) fn what(reel: &Reel, index: usize) -> String {
    let Some((message, record)) = reel.at(index) else { return String::new() };
    let text = &reel.cassette.text;
    let named = message.answers.unwrap_or(index);
    let mut parts = vec![reel.kind(index).to_owned()];
    if let Some(method) = reel.method(named) {
        parts.push(line(&method));
    }
    parts.extend(reel.target(named).map(|target| quoted(&target)));
    if let Some(id) = message.view.and_then(|view| view.id) {
        parts.push(format!("id {}", line(id.of(text))));
    }
    if message.view.is_none() {
        parts.push(short(&reel.body(index), 100));
    } else {
        parts.push(size(reel.body(index).len()));
    }
    if let Some(asked) = message.answers.and_then(|asked| reel.messages.get(asked)) {
        let wait = reel.wait(index).map_or(String::new(), |wait| format!(" after {}", duration(wait)));
        parts.push(format!("(answers #{}{wait})", asked.number()));
    } else if reel.kind(index) == "response" {
        parts.push("(answers nothing recorded)".to_owned());
    }
    parts.extend(reel.error(index).map(|error| format!("[{}]", short(&error, 80))));
    let facts = record.more.as_deref();
    if let Some(http) = facts.and_then(|more| more.http.as_ref()).filter(|_| message.view.is_some()) {
        parts.push(line(http));
    }
    parts.extend(facts.and_then(|more| more.end.as_ref()).map(|end| format!("[end: {}]", line(end))));
    for (set, word) in [
        (facts.is_some_and(|more| more.stream_get), "[get stream]"),
        (facts.is_some_and(|more| more.live), "[live]"),
        (facts.is_some_and(|more| !more.redacted.is_empty()), "[redacted]"),
    ] {
        if set {
            parts.push(word.to_owned());
        }
    }
    parts.retain(|part| !part.is_empty());
    parts.join(" ")
}

/// The same as JSON.
pub(super) fn json(reel: &Reel, filter: &Filter) -> String {
    let wanted = (0..reel.messages.len()).filter(|index| reel.is_wanted(*index, filter));
    let messages = list(wanted.map(|index| message(reel, index).end()));
    Fields::default().raw("messages", messages).end()
}

/// The facts about one message, without its payload.
pub(super) fn message(reel: &Reel, index: usize) -> Fields {
    let Some((message, record)) = reel.at(index) else { return Fields::default() };
    let text = &reel.cassette.text;
    let named = message.answers.unwrap_or(index);
    let asked = message.answers.and_then(|asked| reel.messages.get(asked));
    let facts = record.more.as_deref();
    Fields::default()
        .number("message", message.record)
        .maybe("part", message.batch.map(|part| part.to_string()))
        .millis("at", reel.time(index))
        .text("server", reel.cassette.server_name(record))
        .some("conn", record.conn)
        .some("session", record.session)
        .some("http_exchange", record.exchange)
        .text("from", record.from.word())
        .text("kind", reel.kind(index))
        .maybe("method", reel.method(named).map(|method| string::encode(&method)))
        .maybe("name", reel.target(named).map(|target| string::encode(&target)))
        .maybe("id", message.view.and_then(|view| view.id).map(|id| pretty::packed(id.of(text))))
        .number("size", reel.body(index).len())
        .maybe("exchange", message.call.map(|call| (call + 1).to_string()))
        .maybe("answers", asked.map(|asked| asked.record.to_string()))
        .maybe("answers_part", asked.and_then(|asked| asked.batch).map(|part| part.to_string()))
        .millis("after", reel.wait(index))
        .maybe("error", reel.error(index).map(|error| string::encode(&error)))
        .maybe("http", facts.and_then(|more| more.http.clone()))
        .maybe("end", facts.and_then(|more| more.end.as_deref()).map(string::encode))
        .flag("get_stream", facts.is_some_and(|more| more.stream_get))
        .flag("live", facts.is_some_and(|more| more.live))
        .maybe(
            "redacted",
            facts.filter(|more| !more.redacted.is_empty()).map(|more| json::texts(&more.redacted)),
        )
}
