//! The head of an answer: what was recorded of it, and what goes without saying.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::Offer;
use crate::http::Headers;
use crate::http::headers::is_sound;
use crate::jsonrpc::message::{View, member};
use crate::jsonrpc::scan::Span;
use crate::mcp::{Era, code};
use crate::replay::facts::Kind;
use crate::replay::player::Framing;

/// The recorded status, or what a server says to an error of that code (2026-07-28, transports, "Errors").
pub(super) fn status(era: Era, offer: &Offer, text: &str, recorded: Option<u16>) -> u16 {
    if let Some(status) = recorded {
        return status;
    }
    let Some(code) = error_code(text) else { return 200 };
    match i32::try_from(code).unwrap_or(0) {
        // Our own errors must reach the program, and clients hide what comes with other statuses.
        -31099..=-31000 => 200,
        // A client that asks a legacy server in the modern way falls back on this.
        _ if era == Era::Modern && !offer.modern => 400,
        code::METHOD_NOT_FOUND if era == Era::Modern => 404,
        code::HEADER_MISMATCH | code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION => 400,
        _ => 200,
    }
}

/// Adds the media type.
pub(super) fn push_kind(fields: &mut Headers, kind: &Kind) {
    match kind {
        Kind::Json => fields.push("Content-Type", "application/json"),
        Kind::Sse => fields.push("Content-Type", "text/event-stream"),
        Kind::Other(kind) if kind.is_empty() => {}
        Kind::Other(kind) => fields.push("Content-Type", kind.as_str()),
    }
}

/// Adds the fields that were recorded.
pub(super) fn add_recorded(fields: &mut Headers, framing: &Framing) {
    for (name, value) in &framing.headers {
        if is_sound(name, value.as_bytes()) {
            fields.push(name.as_str(), value.as_bytes());
        }
    }
}

fn error_code(text: &str) -> Option<i64> {
    // Most answers are told from errors by this search alone.
    static MARKS: LazyLock<[Finder<'_>; 2]> =
        LazyLock::new(|| ["\"error\"", "\\u"].map(|mark| Finder::new(mark.as_bytes())));
    if MARKS.iter().all(|mark| mark.find(text.as_bytes()).is_none()) {
        return None;
    }
    let error = View::of(text).ok()?.error?;
    member(text, error, "code").map(|code: Span| code.of(text))?.parse().ok()
}
