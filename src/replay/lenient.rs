//! Lines of clients that are no JSON text, and that many servers read all the same: bytes that are not UTF-8, which a
//! reader replaces, and several messages on one line. A server's answer says whether it did; so the recorded line and the live one
//! are read alike here, and what was recorded for one is played for the other.

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::cassette::{Body, Record, Side};
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::{elements, skip_space};
use crate::jsonrpc::string;

/// In the place of bytes that are not UTF-8, this and the byte: different bytes stay different. No client sends it.
const BYTE: u32 = 0x10_f000;

/// A line as text.
pub(super) fn text_of(line: &[u8]) -> Cow<'_, str> {
    if let Ok(text) = std::str::from_utf8(line) {
        return Cow::Borrowed(text);
    }
    let mut text = String::with_capacity(line.len() + 8);
    for chunk in line.utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(BYTE + u32::from(*byte))));
    }
    Cow::Owned(text)
}

/// Whether a text was made of a line that is not UTF-8.
pub(super) fn is_replaced(text: &str) -> bool {
    text.chars().any(|char| (BYTE..=BYTE + 0xff).contains(&u32::from(char)))
}

/// The messages on a line, one behind the other; none where it holds anything else.
pub(super) fn messages(text: &str) -> Vec<View> {
    let mut views = Vec::new();
    let mut at = skip_space(text.as_bytes(), 0);
    while at < text.len() {
        let Some(view) = View::at(text, at).ok().filter(|view| view.shape != Shape::Other) else {
            return Vec::new();
        };
        at = skip_space(text.as_bytes(), view.whole.end);
        views.push(view);
    }
    views
}

/// What a client wrote on a pipe that is no JSON text, as servers may read it.
pub(super) fn line_of(text: &str, record: &Record) -> Option<String> {
    if record.from != Side::Client || record.exchange != 0 {
        return None;
    }
    match &record.body {
        Body::Text(span) => Some(string::decode(span.of(text)).into_owned()),
        Body::Base64(span) => {
            let bytes = STANDARD.decode(&*string::decode(span.of(text))).ok()?;
            Some(text_of(&bytes).into_owned())
        }
        Body::Payload(_) | Body::None => None,
    }
}

/// The messages of a batch.
pub(super) fn elements_of(text: &str, batch: View) -> Vec<View> {
    let elements = elements(text, batch.whole).unwrap_or_default();
    elements.iter().filter_map(|span| View::at(text, span.start).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_are_no_text_are_kept_apart() {
        assert_eq!(text_of("é".as_bytes()), "é");
        let (one, other) = (text_of(b"caf\xe9\xe2\x82"), text_of(b"caf\xe8\xe2\x82"));
        assert_eq!(one, "caf\u{10f0e9}\u{10f0e2}\u{10f082}");
        assert_ne!(one, other);
        assert!(is_replaced(&one) && !is_replaced("caf\u{fffd}"));
    }

    #[test]
    fn a_line_holds_messages_or_it_holds_none() {
        let ping = r#"{"id":1,"method":"ping"}"#;
        for (line, count) in [
            (ping.to_owned(), 1),
            (format!("{ping}{ping}"), 2),
            (format!(" {ping} [{ping}] "), 2),
            (format!("{ping} x"), 0),
            (format!("{ping} 1"), 0),
            (format!("x {ping}"), 0),
            (String::new(), 0),
        ] {
            assert_eq!(messages(&line).len(), count, "{line}");
        }
    }
}
