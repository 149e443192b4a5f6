//! Recordings of other programs, read as if they were ours. A file is recognised by its content, never by its name.

use std::path::Path;

use super::model::Cassette;
use crate::error::Result;
use crate::jsonrpc::scan::{Members, Span, elements, skip_space, value_end};
use crate::jsonrpc::string;

pub mod mcp_cassette;

/// A format that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// mcp-cassette (Python), format versions 1 to 3.
    McpCassette,
}

/// Which foreign format `text` is in.
#[must_use]
pub fn recognise(text: &str) -> Option<Format> {
    let start = skip_space(text.as_bytes(), 0);
    let mut members = Members::of(text, start)?;
    let mut recorded_at = false;
    while let Ok(Some((name, at))) = members.next_name() {
        match &*string::decode(name.of(text)) {
            "format_version" => return Some(Format::McpCassette),
            "mcpreel" | "recorder" => return None,
            "recorded_at" => recorded_at = true,
            // The version may be left out there, and then only a message tells.
            "messages" if recorded_at => return first_has(text, at, "sender").then_some(Format::McpCassette),
            _ => {}
        }
        members.resume(value_end(text, at).ok()?);
    }
    None
}

/// Whether the first element of the array at `at` is an object with a member `name`.
fn first_has(text: &str, at: usize, name: &str) -> bool {
    let Ok(end) = value_end(text, at) else { return false };
    let list = elements(text, Span::new(at, end)).unwrap_or_default();
    list.first().is_some_and(|first| crate::jsonrpc::message::member(text, *first, name).is_some())
}

/// Reads a file that [`recognise`] recognised; `path` is for messages only.
pub fn read(format: Format, path: &Path, text: String) -> Result<Cassette> {
    match format {
        Format::McpCassette => mcp_cassette::read(path, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_told_apart_by_content() {
        for (text, format) in [
            (r#" {"format_version":1}"#, Some(Format::McpCassette)),
            (r#"{"recorded_at":"x","messages":[{"seq":0,"sender":"client"}]}"#, Some(Format::McpCassette)),
            (r#"{"recorded_at":"x","messages":[{"from":"client"}]}"#, None),
            (r#"{"recorded_at":"x","messages":[]}"#, None),
            (r#"{"mcpreel":1,"format_version":3}"#, None),
            (r#"{"recorded_at":"x","recorder":"y","messages":[{"sender":1}]}"#, None),
            ("[]", None),
            ("{\"format", None),
            ("", None),
        ] {
            assert_eq!(recognise(text), format, "{text}");
        }
    }
}
