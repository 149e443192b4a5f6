//! Writing: an entry for each exchange.

use std::collections::HashMap;

use super::{HEADERS, SESSION, UNKNOWN};
use crate::cassette::clock;
use crate::cassette::head::{Transport, object};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::record::{Body, Record, Side, push_millis};
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::{pretty, string};

/// Writes a file. Servers that were not reached over HTTP have no place in it.
#[must_use]
pub fn write(cassette: &Cassette) -> String {
    let http = |record: &&Record| {
        record.exchange > 0
            && cassette.server(record.server).is_some_and(|(_, server)| server.transport == Transport::Http)
    };
    let mut order: Vec<(u32, u32)> = Vec::new();
    let mut exchanges: HashMap<(u32, u32), Vec<&Record>> = HashMap::new();
    for record in cassette.records.iter().filter(http) {
        let key = (record.server, record.exchange);
        exchanges.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        if let Some(list) = exchanges.get_mut(&key) {
            list.push(record);
        }
    }
    let entries: Vec<String> = order
        .iter()
        .filter_map(|key| exchanges.get(key))
        .map(|records| write_entry(cassette, records))
        .collect();
    let creator = cassette.head.recorder.rsplit_once(' ').unwrap_or((&cassette.head.recorder, ""));
    let log = object([
        ("version".to_owned(), string::encode("1.2")),
        (
            "creator".to_owned(),
            format!("{{\"name\":{},\"version\":{}}}", string::encode(creator.0), string::encode(creator.1)),
        ),
        ("entries".to_owned(), format!("[{}]", entries.join(","))),
    ]);
    super::super::indented(&format!("{{\"log\":{log}}}"))
}

fn fact(record: &Record, name: &str) -> Option<String> {
    let http = record.more.as_ref()?.http.as_deref()?;
    let value = member(http, Span::new(0, http.len()), name)?.of(http);
    Some(string::decode(value).into_owned())
}

fn pairs(list: &[(&str, String)]) -> String {
    let list: Vec<String> = list
        .iter()
        .map(|(name, value)| {
            format!("{{\"name\":{},\"value\":{}}}", string::encode(name), string::encode(value))
        })
        .collect();
    format!("[{}]", list.join(","))
}

fn write_entry(cassette: &Cassette, records: &[&Record]) -> String {
    let text = &cassette.text;
    let Some(first) = records.first() else { return String::new() };
    let asked = records.iter().find(|record| record.from == Side::Client);
    let answers: Vec<&&Record> = records.iter().filter(|record| record.from == Side::Server).collect();
    let on_get = records.iter().any(|record| record.more.as_ref().is_some_and(|more| more.stream_get));
    let body = |record: &Record| match &record.body {
        Body::None | Body::Base64(_) => None,
        Body::Payload(view) => Some(pretty::packed(view.whole.of(text))),
        Body::Text(span) => Some(string::decode(span.of(text)).into_owned()),
    };
    let posted = asked.and_then(|record| body(record));
    let method = asked.and_then(|record| fact(record, "method"));
    let method = method.unwrap_or_else(|| if on_get && posted.is_none() { "GET" } else { "POST" }.to_owned());
    let start = clock::parse(&cassette.head.recorded_at).unwrap_or(0);
    let known = cassette.timing == Timing::Known;
    let at = if known { start.saturating_add_unsigned(first.at) } else { UNKNOWN };
    let mut took = String::new();
    let last = answers.iter().map(|record| record.at).max().unwrap_or(first.at);
    push_millis(&mut took, if known { last.saturating_sub(first.at) } else { 0 });

    let introduces =
        asked.is_some_and(|record| record.view().is_some_and(|view| view.method_name(text) == "initialize"));
    let session = records.iter().map(|record| record.session).max().filter(|session| *session > 0);
    let session = session.map(|session| (SESSION, format!("session-{session}")));
    let kind = answers.iter().find_map(|record| fact(record, "type"));
    let media = match kind.as_deref() {
        Some("json") => "application/json",
        Some("sse") => "text/event-stream",
        Some(other) => other,
        None if on_get && answers.iter().any(|record| record.view().is_some()) => "text/event-stream",
        None if answers.iter().filter(|record| record.view().is_some()).count() > 1 => "text/event-stream",
        None if answers.iter().any(|record| record.view().is_some()) => "application/json",
        None => "",
    };
    let mut sent: Vec<(&str, String)> = Vec::new();
    if posted.is_some() {
        sent.push(("content-type", "application/json".to_owned()));
    }
    let mut got: Vec<(&str, String)> = Vec::new();
    if !media.is_empty() {
        got.push(("content-type", media.to_owned()));
    }
    for name in HEADERS {
        got.extend(answers.iter().find_map(|record| fact(record, name)).map(|value| (name, value)));
    }
    match (introduces, session) {
        (true, Some(session)) => got.push(session),
        (false, Some(session)) => sent.push(session),
        (_, None) => {}
    }
    let content = if media == "text/event-stream" {
        events(&answers, &body)
    } else {
        answers.iter().find_map(|record| body(record)).unwrap_or_default()
    };
    let base64 = answers.iter().find_map(|record| match record.body {
        Body::Base64(span) => Some(span.of(text)),
        _ => None,
    });
    let status = answers.iter().find_map(|record| fact(record, "status"));
    let status = status
        .unwrap_or_else(|| if answers.iter().any(|it| it.view().is_some()) { "200" } else { "0" }.to_owned());
    let content = match base64 {
        Some(literal) => format!(
            "{{\"size\":0,\"mimeType\":{},\"text\":{literal},\"encoding\":\"base64\"}}",
            string::encode(media)
        ),
        None => format!(
            "{{\"size\":{},\"mimeType\":{},\"text\":{}}}",
            content.len(),
            string::encode(media),
            string::encode(&content)
        ),
    };
    let posted = posted.map_or_else(String::new, |body| {
        format!(",\"postData\":{{\"mimeType\":\"application/json\",\"text\":{}}}", string::encode(&body))
    });
    let url = url(cassette, first, asked.and_then(|record| fact(record, "path")));
    format!(
        "{{\"startedDateTime\":{},\"time\":{took},\
         \"request\":{{\"method\":{},\"url\":{},\"httpVersion\":\"HTTP/1.1\",\"cookies\":[],\"headers\":{},\"queryString\":[]{posted},\"headersSize\":-1,\"bodySize\":-1}},\
         \"response\":{{\"status\":{status},\"statusText\":\"\",\"httpVersion\":\"HTTP/1.1\",\"cookies\":[],\"headers\":{},\"content\":{content},\"redirectURL\":\"\",\"headersSize\":-1,\"bodySize\":-1}},\
         \"cache\":{{}},\"timings\":{{\"send\":0,\"wait\":{took},\"receive\":0}}}}",
        string::encode(&clock::from_micros(at, true)),
        string::encode(&method),
        string::encode(&url),
        pairs(&sent),
        pairs(&got),
    )
}

fn url(cassette: &Cassette, record: &Record, path: Option<String>) -> String {
    let (name, server) = cassette.server(record.server).cloned().unwrap_or_default();
    // A name that can belong to nobody.
    let url = server.url.unwrap_or_else(|| format!("http://{name}.invalid/mcp"));
    match path {
        Some(path) => {
            let base = url.find("://").map_or(0, |at| at + 3);
            let end =
                url.get(base..).and_then(|rest| rest.find(['/', '?', '#'])).map_or(url.len(), |at| base + at);
            format!("{}{path}", url.get(..end).unwrap_or(&url))
        }
        None => url,
    }
}

/// The body of a stream with these messages.
fn events(answers: &[&&Record], body: &dyn Fn(&Record) -> Option<String>) -> String {
    let mut out = String::new();
    for record in answers {
        let (id, retry) = (fact(record, "event"), fact(record, "retry"));
        let data = body(record);
        if data.is_none() && id.is_none() && retry.is_none() {
            continue;
        }
        if let Some(id) = id {
            out.push_str(&format!("id: {id}\n"));
        }
        if let Some(retry) = retry {
            out.push_str(&format!("retry: {retry}\n"));
        }
        match data {
            Some(data) => {
                out.push_str("event: message\n");
                data.split('\n').for_each(|line| out.push_str(&format!("data: {line}\n")));
            }
            None => out.push_str("data:\n"),
        }
        out.push('\n');
    }
    out
}
