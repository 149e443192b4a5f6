//! One exchange with everything in it.

use std::fmt::Write as _;

use super::json::{Fields, list};
use super::reel::{Call, Reel};
use super::shown::{duration, lines, moment, quoted};
use super::timeline;
use crate::cassette::Body;
use crate::jsonrpc::{pretty, string};
use crate::replay::tape::Outcome;

fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "answered",
        Outcome::Open => "never answered",
        Outcome::ServerEnded => "not answered: the server ended",
        Outcome::Lost => "answer lost",
        Outcome::Cut => "not answered: the connection was cut",
        Outcome::Bare => "answered by HTTP alone",
    }
}

/// For people.
pub(super) fn text(reel: &Reel, number: usize, call: &Call) -> String {
    let mut out = format!("exchange {number} of {}: ", reel.calls.len());
    out.push_str(&super::shown::line(&reel.method(call.request).unwrap_or_default()));
    if let Some(target) = reel.target(call.request) {
        let _ = write!(out, " {}", quoted(&target));
    }
    if let Some((_, record)) = reel.at(call.request) {
        let _ = write!(out, ", server {}", quoted(reel.cassette.server_name(record)));
    }
    let _ = write!(out, ", {}", outcome(call.outcome));
    if let Some(wait) = call.answer.and_then(|answer| reel.wait(answer)) {
        let _ = write!(out, " after {}", duration(wait));
    }
    out.push('\n');
    for &index in &call.messages {
        let Some((message, record)) = reel.at(index) else { continue };
        let arrow = if record.from == crate::cassette::Side::Client { "->" } else { "<-" };
        let time = reel.time(index).map_or(String::new(), |time| format!(" {}", moment(time)));
        let _ = writeln!(out, "\n#{}{time} {arrow} {}", message.number(), timeline::what(reel, index));
        let Some(view) = message.view else { continue };
        let mut payload = String::new();
        if pretty::indent(view.whole.of(&reel.cassette.text), 0, &mut payload).is_ok() {
            let _ = writeln!(out, "{}", lines(&payload));
        }
    }
    out
}

/// For scripts.
pub(super) fn json(reel: &Reel, number: usize, call: &Call) -> String {
    let messages = list(call.messages.iter().map(|&index| {
        let fields = timeline::message(reel, index);
        let Some((message, record)) = reel.at(index) else { return fields.end() };
        let text = &reel.cassette.text;
        match (message.view, &record.body) {
            (Some(view), _) => fields.raw("payload", view.whole.of(text)),
            (None, Body::Text(span)) => fields.raw("text", span.of(text)),
            (None, Body::Base64(span)) => fields.raw("base64", span.of(text)),
            (None, _) => fields,
        }
        .end()
    }));
    Fields::default()
        .number("exchange", number)
        .number("of", reel.calls.len())
        .maybe("method", reel.method(call.request).map(|method| string::encode(&method)))
        .maybe("name", reel.target(call.request).map(|target| string::encode(&target)))
        .text("outcome", outcome(call.outcome))
        .millis("after", call.answer.and_then(|answer| reel.wait(answer)))
        .raw("messages", messages)
        .end()
}
