//! The document: indented JSON that people commit and review.

use std::path::Path;

use super::head::Head;
use super::model::{Cassette, Timing, check_format, fault};
use super::once::Once;
use super::record::{Body, Defaults, Fault, Names, Record, micros, push_millis, share_text};
use crate::error::{Error, Result};
use crate::jsonrpc::scan::{Members, Span, elements, skip_space, value_end};
use crate::jsonrpc::{pretty, string};

/// Reads a document.
pub fn read(path: &Path, text: String) -> Result<Cassette> {
    let mut head = Head::default();
    let mut messages = None;
    let mut times = None;
    walk(path, &text, &mut head, &mut messages, &mut times)?;
    let Some(messages) = messages else {
        return Err(Error::input(path, "", "has no \"messages\"; expected a cassette"));
    };
    let records = match &messages {
        Layout::Own(spans, _) => match parse(&text, spans, &head) {
            Ok(records) => records,
            // Someone edited the file; look at it token by token.
            Err(_) => parse_by_tokens(path, &text, messages.span(), &head)?,
        },
        Layout::Any(span) => parse_by_tokens(path, &text, *span, &head)?,
    };
    let mut cassette = Cassette { head, text, records, ..Cassette::default() };
    if let Some(times) = times {
        read_times(&mut cassette, times);
    }
    Ok(cassette)
}

enum Layout {
    /// One span a record, found by this program's own indenting, and where the list is.
    Own(Vec<Span>, Span),
    /// Where the list is.
    Any(Span),
}

impl Layout {
    fn span(&self) -> Span {
        match self {
            Self::Own(_, span) | Self::Any(span) => *span,
        }
    }
}

fn walk(
    path: &Path,
    text: &str,
    head: &mut Head,
    messages: &mut Option<Layout>,
    times: &mut Option<Span>,
) -> Result<()> {
    let broken = |error: Fault| fault(path, text, &error, None);
    let start = skip_space(text.as_bytes(), 0);
    let mut members = Members::of(text, start)
        .ok_or_else(|| Error::input(path, "line 1", "expected a cassette, an object in braces"))?;
    let mut once = Once::default();
    while let Some((literal, at)) = members.next_name().map_err(|error| broken(error.into()))? {
        let name = string::decode(literal.of(text));
        once.take(&name, literal.start).map_err(broken)?;
        if name == "messages" {
            let layout = match own_layout(text, at) {
                Some((spans, end)) => Layout::Own(spans, Span::new(at, end)),
                None => {
                    Layout::Any(Span::new(at, value_end(text, at).map_err(|error| broken(error.into()))?))
                }
            };
            members.resume(layout.span().end);
            *messages = Some(layout);
            continue;
        }
        let value = Span::new(at, value_end(text, at).map_err(|error| broken(error.into()))?);
        members.resume(value.end);
        match &*name {
            "mcpreel" => check_format(path, text, value)?,
            "timing_ms" => {
                check_times(text, value).map_err(broken)?;
                *times = Some(value);
            }
            name => head.read(name, text, value).map_err(broken)?,
        }
    }
    let end = skip_space(text.as_bytes(), members.position());
    if end < text.len() {
        return Err(fault(
            path,
            text,
            &Fault { at: end, what: "expected the end of the file".to_owned() },
            None,
        ));
    }
    Ok(())
}

/// The records and the end of a list that this program wrote: a record starts with its brace at indent 4 and ends
/// with the first brace at that indent. Every span is parsed later, so a wrong guess is seen.
fn own_layout(text: &str, at: usize) -> Option<(Vec<Span>, usize)> {
    let bytes = text.as_bytes();
    let close = memchr::memmem::Finder::new(b"\n    }");
    let mut spans = Vec::new();
    let mut from = at + 1;
    if bytes.get(at) != Some(&b'[') {
        return None;
    }
    loop {
        let rest = bytes.get(from..)?;
        if !rest.starts_with(b"\n    {") {
            return None;
        }
        let start = from + 5;
        let end = from + close.find(rest)? + 6;
        spans.push(Span::new(start, end));
        match bytes.get(end) {
            Some(b',') => from = end + 1,
            Some(b'\n') if bytes.get(end..)?.starts_with(b"\n  ]") => return Some((spans, end + 4)),
            _ => return None,
        }
    }
}

fn parse_by_tokens(path: &Path, text: &str, list: Span, head: &Head) -> Result<Vec<Record>> {
    if text.as_bytes().get(list.start) != Some(&b'[') {
        let what = "\"messages\" must be a list".to_owned();
        return Err(fault(path, text, &Fault { at: list.start, what }, None));
    }
    let spans = elements(text, list).map_err(|error| fault(path, text, &error.into(), None))?;
    parse(text, &spans, head).map_err(|(index, error)| fault(path, text, &error, Some(index)))
}

/// Parses the records at `spans`, on several threads when there is much to do.
fn parse(text: &str, spans: &[Span], head: &Head) -> std::result::Result<Vec<Record>, (usize, Fault)> {
    let names = Names::new(head.servers.iter().map(|(name, _)| name.as_str()));
    let defaults = Defaults { servers: &names, conn: 0, server: names.only(), at: 0 };
    let shares = share_text(spans, |spans| {
        let mut records = Vec::with_capacity(spans.len());
        for &span in spans {
            let (record, end) = Record::parse(text, span.start, &defaults).map_err(|fault| (span, fault))?;
            if end != span.end {
                return Err((span, Fault { at: end, what: "expected the end of the record".to_owned() }));
            }
            records.push(record);
        }
        Ok(records)
    });
    let place =
        |(span, fault): (Span, Fault)| (spans.partition_point(|other| other.start < span.start), fault);
    let mut shares = shares.into_iter();
    let mut records = shares.next().unwrap_or(Ok(Vec::new())).map_err(place)?;
    for share in shares {
        records.append(&mut share.map_err(place)?);
    }
    Ok(records)
}

/// That there are numbers in the list and nothing else: nobody looks through it for anything.
fn check_times(text: &str, value: Span) -> std::result::Result<(), Fault> {
    let what = || "\"timing_ms\" must be a list of numbers, milliseconds since the beginning".to_owned();
    let inner = value.of(text).strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
    let inner = inner.ok_or_else(|| Fault { at: value.start, what: what() })?;
    let is_of_numbers = |byte: u8| {
        matches!(byte, b'0'..=b'9' | b'.' | b',' | b'-' | b'+' | b'e' | b'E') || byte.is_ascii_whitespace()
    };
    match inner.bytes().position(|byte| !is_of_numbers(byte)) {
        Some(at) => Err(Fault { at: value.start + 1 + at, what: what() }),
        None => Ok(()),
    }
}

fn read_times(cassette: &mut Cassette, times: Span) {
    let mut list = Vec::with_capacity(cassette.records.len());
    let inner = times.of(&cassette.text).trim_start_matches('[').trim_end_matches(']');
    for number in inner.split(',') {
        match micros(number.trim()) {
            Some(at) => list.push(at),
            None => break,
        }
    }
    if list.len() == cassette.records.len() {
        for (record, at) in cassette.records.iter_mut().zip(list) {
            record.at = at;
        }
        cassette.timing = Timing::Known;
    } else {
        cassette.timing = Timing::WrongLength(list.len());
    }
}

/// Writes the whole document. Two sessions with the same traffic differ in two lines: `recorded_at`, `timing_ms`.
#[must_use]
pub fn write(cassette: &Cassette) -> String {
    let mut out = String::with_capacity(cassette.text.len() * 2 + 1024);
    out.push_str("{\n  \"mcpreel\": ");
    out.push_str(&super::FORMAT.to_string());
    for (name, value) in cassette.head.fields() {
        out.push_str(",\n  ");
        push_member(&mut out, &name, &value, 1);
    }
    out.push_str(",\n  \"messages\": [");
    let single = cassette.head.servers.len() == 1;
    for (index, record) in cassette.records.iter().enumerate() {
        out.push_str(if index == 0 { "\n    {" } else { ",\n    {" });
        let mut first = true;
        for (name, value) in fields(cassette, record, single) {
            out.push_str(if first { "\n      " } else { ",\n      " });
            first = false;
            push_member(&mut out, name, value.as_ref(), 3);
        }
        out.push_str("\n    }");
    }
    out.push_str(if cassette.records.is_empty() { "]" } else { "\n  ]" });
    if cassette.timing == Timing::Known {
        out.push_str(",\n  \"timing_ms\": [");
        for (index, record) in cassette.records.iter().enumerate() {
            if index > 0 {
                out.push_str(", ");
            }
            push_millis(&mut out, record.at);
        }
        out.push(']');
    }
    out.push_str("\n}\n");
    out
}

fn push_member(out: &mut String, name: &str, value: &str, level: usize) {
    out.push_str(&string::encode(name));
    out.push_str(": ");
    let start = out.len();
    if pretty::indent(value, level, out).is_err() {
        // Only reachable with a value that was not read from JSON; better to keep it than to lose it.
        out.truncate(start);
        out.push_str(&string::encode(value));
    }
}

/// The fields of a record in the order they are written, each as JSON text; what is absent is left out.
#[must_use]
pub fn fields<'a>(
    cassette: &'a Cassette,
    record: &'a Record,
    single: bool,
) -> Vec<(&'a str, std::borrow::Cow<'a, str>)> {
    use std::borrow::Cow::{Borrowed, Owned};
    let mut fields = Vec::with_capacity(4);
    if !single {
        fields.push(("server", Owned(string::encode(cassette.server_name(record)))));
    }
    for (name, number) in [("conn", record.conn), ("session", record.session)] {
        if number > 0 {
            fields.push((name, Owned(number.to_string())));
        }
    }
    fields.push(("from", Owned(string::encode(record.from.word()))));
    if record.exchange > 0 {
        fields.push(("exchange", Owned(record.exchange.to_string())));
    }
    if let Some(more) = &record.more {
        if more.stream_get {
            fields.push(("stream", Borrowed("\"get\"")));
        }
        if more.bom {
            fields.push(("bom", Borrowed("true")));
        }
        if let Some(http) = &more.http {
            fields.push(("http", Borrowed(http)));
        }
        if let Some(end) = &more.end {
            fields.push(("end", Owned(string::encode(end))));
        }
        if more.live {
            fields.push(("origin", Borrowed("\"live\"")));
        }
        if !more.redacted.is_empty() {
            let ids: Vec<String> = more.redacted.iter().map(|id| string::encode(id)).collect();
            fields.push(("redacted", Owned(format!("[{}]", ids.join(",")))));
        }
        if let Some(note) = &more.placeholders {
            fields.push(("placeholders", Borrowed(note)));
        }
        for (name, value) in &more.extra {
            fields.push((name, Borrowed(value)));
        }
    }
    match &record.body {
        Body::None => {}
        Body::Payload(view) => fields.push(("payload", Borrowed(view.whole.of(&cassette.text)))),
        Body::Text(span) => fields.push(("text", Borrowed(span.of(&cassette.text)))),
        Body::Base64(span) => fields.push(("base64", Borrowed(span.of(&cassette.text)))),
    }
    fields
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn parsed(text: &str) -> Result<Cassette> {
        Cassette::parse(&PathBuf::from("c.json"), text.as_bytes().to_vec())
    }

    const SMALL: &str = r#"{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.123Z","recorder":"mcpreel 0.1.0",
        "servers":{"a":{"transport":"stdio","command":["srv"]}},"later":{"kept":true},
        "messages":[{"from":"client","payload":{"jsonrpc":"2.0","id":1,"method":"ping"}},
        {"from":"server","payload":{"jsonrpc":"2.0","id":1,"result":{"n":[1.0,2]}},"extra":1},{"from":"server","text":"x\r"}],
        "timing_ms":[0,3.2,4]}"#;

    #[test]
    fn a_document_of_any_layout_is_read_and_written_in_ours() {
        let cassette = parsed(SMALL).unwrap();
        assert_eq!(cassette.records.len(), 3);
        assert_eq!(cassette.timing, Timing::Known);
        assert_eq!(cassette.records[1].at, 3200);
        let text = write(&cassette);
        let again = parsed(&text).unwrap();
        assert_eq!(write(&again), text);
        assert!(
            text.contains("\n      \"extra\": 1,\n      \"payload\": {\n        \"jsonrpc\": \"2.0\""),
            "{text}"
        );
        assert!(text.contains("\"later\": {\n    \"kept\": true\n  }"), "{text}");
        assert!(text.ends_with("\n  \"timing_ms\": [0, 3.2, 4]\n}\n"), "{text}");
        let spans = own_layout(&text, text.find("\"messages\": ").unwrap() + 12).unwrap().0;
        assert_eq!(spans.len(), 3);
    }

    #[test]
    fn an_edited_document_is_read_token_by_token() {
        let text = write(&parsed(SMALL).unwrap());
        let edited = text.replace("\"n\": [1.0, 2]", "\"n\": {\n    }");
        assert_eq!(parsed(&edited).unwrap().records.len(), 3);
        let odd = text.replace(", 4]", "]");
        assert_eq!(parsed(&odd).unwrap().timing, Timing::WrongLength(2));
    }

    #[test]
    fn many_records_are_shared_between_threads() {
        let mut cassette = parsed(SMALL).unwrap();
        let record = cassette.records[0].clone();
        cassette.records = vec![record; 20_000];
        let text = write(&cassette);
        assert!(text.len() > 1 << 20, "enough for several threads");
        assert_eq!(parsed(&text).unwrap().records.len(), 20_000);
        let broken = text.replacen("\"from\": \"client\"", "\"from\": \"nobody\"", 1);
        assert!(parsed(&broken).unwrap_err().to_string().contains("/messages/0"));
    }

    #[test]
    fn faults_name_file_and_place() {
        for (text, what) in [
            ("", "c.json: is empty"),
            ("hello", "is not a cassette"),
            ("{}", "is not a cassette"),
            (r#"{"mcpreel":2,"messages":[]}"#, "use a newer mcpreel"),
            (r#"{"mcpreel":"x","messages":[]}"#, "format number"),
            (r#"{"mcpreel":1}"#, "no \"messages\""),
            (r#"{"mcpreel":1,"messages":{}}"#, "must be a list"),
            (
                "{\"mcpreel\":1,\n\"servers\":{\"a\":{}},\"messages\":[\n{\"from\":\"x\"}]}",
                "line 3 (/messages/0)",
            ),
            ("{\"mcpreel\":1,\n\"messages\":[", "line 2"),
            ("{\"mcpreel\":1,\"messages\":[]} x", "end of the file"),
        ] {
            let error = parsed(text).unwrap_err();
            assert!(error.to_string().contains(what), "{text}: {error}");
            assert_eq!(error.code(), 2);
        }
    }
}
