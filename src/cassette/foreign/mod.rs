//! Recordings of other programs, read as if they were ours, and written. A file is recognised by its content, never by
//! its name.
//!
//! A reader keeps what our model has no field for in one extra field, of the head or of the record, that bears the
//! format's name; its writer puts it back. What a format cannot hold is found by reading back what was written
//! (`losses`), so that no writer has to know it.

use std::path::Path;

use super::model::Cassette;
use crate::error::{Error, Result};
use crate::jsonrpc::message::Shape;
use crate::jsonrpc::scan::{Members, Span, elements, skip_space, value_end};
use crate::jsonrpc::{pretty, string};

mod build;
pub mod ctpf;
pub mod har;
pub mod jsonl;
mod losses;
pub mod mcp_cassette;
pub mod mcp_recorder;
pub mod npm;
mod places;
mod words;

/// A format that is not ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// mcp-cassette (Python), format versions 1 to 3.
    McpCassette,
    /// mcp-cassette (npm), versions 1 and 2.
    Npm,
    /// mcp-recorder (Python), version 1.0.
    McpRecorder,
    /// ctpf sessions.
    Ctpf,
    /// HAR 1.2.
    Har,
    /// Lines of `{ts, dir, msg}`.
    Jsonl,
}

impl Format {
    /// All of them, in the order in which they are told to people.
    pub const ALL: [Self; 6] =
        [Self::McpCassette, Self::Npm, Self::McpRecorder, Self::Ctpf, Self::Har, Self::Jsonl];

    /// The word on the command line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::McpCassette => "mcp-cassette",
            Self::Npm => "mcp-cassette-npm",
            Self::McpRecorder => "mcp-recorder",
            Self::Ctpf => "ctpf",
            Self::Har => "har",
            Self::Jsonl => "jsonl",
        }
    }
}

/// A file in a foreign format.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Written {
    /// The file.
    pub text: String,
    /// What the format cannot express and a replay or a reader would miss: what, and where.
    pub dropped: Vec<String>,
    /// What is told differently or left out without consequence.
    pub notes: Vec<String>,
}

/// Which foreign format `text` is in.
#[must_use]
pub fn recognise(text: &str) -> Option<Format> {
    let start = skip_space(text.as_bytes(), bom(text));
    let mut members = Members::of(text, start)?;
    let (mut recorded_at, mut started_at, mut recorder, mut dir) = (false, false, false, false);
    while let Ok(Some((name, at))) = members.next_name() {
        match &*string::decode(name.of(text)) {
            "mcpreel" => return None,
            "format_version" => return Some(Format::McpCassette),
            "cassetteVersion" => return Some(Format::Npm),
            "interactions" if text.as_bytes().get(at) == Some(&b'[') => return Some(Format::McpRecorder),
            "log" if text.as_bytes().get(at) == Some(&b'{') => {
                return has_member(text, at, "entries").then_some(Format::Har);
            }
            "msg" if dir => return Some(Format::Jsonl),
            "dir" => dir = true,
            "recorder" => recorder = true,
            "recorded_at" => recorded_at = true,
            "started_at" => started_at = true,
            "messages" if first_has(text, at, "proxy_id") => return Some(Format::Ctpf),
            "messages" if started_at && is_empty(text, at) => return Some(Format::Ctpf),
            // The version may be left out there, and then only a message tells.
            "messages" if recorded_at && !recorder => {
                return first_has(text, at, "sender").then_some(Format::McpCassette);
            }
            _ => {}
        }
        members.resume(value_end(text, at).ok()?);
    }
    None
}

/// Why the file that `cassette` was read from is not to be replaced unasked: it is in the format of another program, which
/// may have written it for something else, and holds no message.
#[must_use]
pub fn keeps_from_replacing(path: &Path, cassette: &Cassette) -> Option<&'static str> {
    let is_ours = |path| std::fs::read_to_string(path).is_ok_and(|text| recognise(&text).is_none());
    let unclear = cassette.records.is_empty() && !is_ours(path);
    unclear.then_some("no message in it says that it is a cassette; remove it if nobody needs it")
}

/// The length of a byte order mark, which some exporters write.
fn bom(text: &str) -> usize {
    if text.starts_with('\u{feff}') { '\u{feff}'.len_utf8() } else { 0 }
}

/// Whether the object at `at` has a member `name`, as far as it can be read.
fn has_member(text: &str, at: usize, name: &str) -> bool {
    let Some(mut members) = Members::of(text, at) else { return false };
    while let Ok(Some((key, value))) = members.next_name() {
        if string::is(key.of(text), name) {
            return true;
        }
        match value_end(text, value) {
            Ok(end) => members.resume(end),
            Err(_) => return false,
        }
    }
    false
}

/// Whether the first element of the array at `at` is an object with a member `name`.
fn first_has(text: &str, at: usize, name: &str) -> bool {
    if text.as_bytes().get(at) != Some(&b'[') {
        return false;
    }
    has_member(text, skip_space(text.as_bytes(), at + 1), name)
}

fn is_empty(text: &str, at: usize) -> bool {
    let Ok(end) = value_end(text, at) else { return false };
    text.as_bytes().get(at) == Some(&b'[')
        && elements(text, Span::new(at, end)).is_ok_and(|list| list.is_empty())
}

/// Reads a file that [`recognise`] recognised; `path` is for messages only.
pub fn read(format: Format, path: &Path, mut text: String) -> Result<Cassette> {
    text.drain(..bom(&text));
    match format {
        Format::McpCassette => mcp_cassette::read(path, text),
        Format::Npm => npm::read(path, &text),
        Format::McpRecorder => mcp_recorder::read(path, &text),
        Format::Ctpf => ctpf::read(path, &text),
        Format::Har => har::read(path, &text),
        Format::Jsonl => jsonl::read(path, &text),
    }
}

/// Writes `cassette` in a foreign format, and says what of it the format does not hold.
pub fn write(format: Format, cassette: &Cassette) -> Result<Written> {
    let text = match format {
        Format::McpCassette => return Ok(mcp_cassette::write(cassette)),
        Format::Npm => npm::write(cassette),
        Format::McpRecorder => mcp_recorder::write(cassette),
        Format::Ctpf => ctpf::write(cassette),
        Format::Har => har::write(cassette),
        Format::Jsonl => jsonl::write(cassette),
    };
    // A reader that refuses what its writer wrote is a fault of this program, and the file is not to be trusted.
    let back = read(format, Path::new("the converted file"), text.clone())
        .map_err(|error| Error::Failed(format!("cannot be written in this format: {error}")))?;
    let (mut dropped, notes) = losses::between(cassette, &back);
    if format == Format::Npm {
        let mut raw = losses::Tally::default();
        for (index, record) in cassette.records.iter().enumerate().filter(|(_, record)| record.server == 0) {
            if record.is(Shape::Batch) {
                // We read it as what it is, that program does not.
                raw.at("a batch becomes a raw line, which mcp-cassette does not answer", index);
            }
        }
        dropped.extend(raw.lines());
    }
    Ok(Written { text, dropped, notes })
}

/// A JSON text as these formats lay their files out, indented.
fn indented(json: &str) -> String {
    let mut out = String::with_capacity(json.len() * 2);
    if pretty::indent(json, 0, &mut out).is_err() {
        // Only reachable with a value that was not read from JSON; better to keep it than to lose it.
        json.clone_into(&mut out);
    }
    out.push('\n');
    out
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
            (r#"{"type":"header","recorder":"x","cassetteVersion":1}"#, Some(Format::Npm)),
            (r#"{"version":"1.0","metadata":{},"interactions":[]}"#, Some(Format::McpRecorder)),
            (r#"{"interactions":7}"#, None),
            (r#"{"messages":[{"sequence":0,"proxy_id":"x"}]}"#, Some(Format::Ctpf)),
            (r#"{"id":"x","started_at":null,"messages":[]}"#, Some(Format::Ctpf)),
            ("\u{feff}{\"log\":{\"version\":\"1.2\",\"entries\":[]}}", Some(Format::Har)),
            (r#"{"log":{"lines":[]}}"#, None),
            ("{\"ts\":1.5,\"dir\":\"c\",\"msg\":{}}\n{", Some(Format::Jsonl)),
            (r#"{"msg":{}}"#, None),
            ("[]", None),
            ("{\"format", None),
            ("", None),
        ] {
            assert_eq!(recognise(text), format, "{text}");
        }
    }
}
