//! Server-sent events: the WHATWG rules for reading a stream, and one way of writing an event.
//!
//! A recording proxy must both understand a stream and pass it on unchanged, so the parser gives every byte of the
//! stream back: each [`Event`] owns the bytes it stood in, its blank line included, and what is left when the stream
//! ends is the tail. Put together they are the stream. Nothing here reads or writes a socket.

use std::fmt;
use std::mem;
use std::ops::Range;

use memchr::memchr2;

const BOM: &[u8] = b"\xef\xbb\xbf";

/// How a line ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Lf,
    Cr,
    CrLf,
}

/// Cuts a byte stream into events. Bytes go in as they come, in pieces of any size.
///
/// Work is linear in the bytes pushed; memory is the event that is not complete yet, which no rule bounds. Whoever
/// reads from an untrusted peer looks at [`Parser::pending`].
#[derive(Debug, Default)]
pub struct Parser {
    /// Bytes of the event that is not complete.
    raw: Vec<u8>,
    /// Where the line that is not complete begins in `raw`.
    line: usize,
    fields: Fields,
    /// The last byte was a CR that ended a line: a LF now belongs to it.
    after_cr: bool,
    /// That line was blank, and the event is held back for its LF.
    held: bool,
    /// How the line before the current one ended, in the whole stream.
    last_end: Option<End>,
    /// Bytes of the stream before `raw`.
    offset: u64,
    begun: bool,
    last_id: Vec<u8>,
}

#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Fields {
    kind: Option<Range<usize>>,
    data: Data,
    id: Option<Range<usize>>,
    retry: Option<u64>,
    comments: Vec<Range<usize>>,
}

/// The data buffer. Nearly all events have one line of it, which is not copied.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
enum Data {
    #[default]
    None,
    One(Range<usize>),
    Many(Vec<u8>),
}

/// What stood between two blank lines. It may hold comments only, or nothing at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    raw: Vec<u8>,
    start: u64,
    fields: Fields,
}

impl Event {
    /// The bytes as received, with the blank line at the end.
    #[must_use]
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// Takes the bytes as received.
    #[must_use]
    pub fn into_raw(self) -> Vec<u8> {
        self.raw
    }

    /// Where these bytes stand in the stream: offsets in bytes from its beginning.
    #[must_use]
    pub fn range(&self) -> Range<u64> {
        self.start..self.start + self.raw.len() as u64
    }

    fn at(&self, range: &Range<usize>) -> &[u8] {
        self.raw.get(range.clone()).unwrap_or_default()
    }

    /// The `event` field; `message` where there is none or an empty one.
    #[must_use]
    pub fn kind(&self) -> &[u8] {
        match self.fields.kind.as_ref().map(|range| self.at(range)) {
            None | Some(b"") => b"message",
            Some(kind) => kind,
        }
    }

    /// The `data` lines, joined with LF. `None` without any such line. Bytes are as received: a reader that follows
    /// the rules to the letter puts U+FFFD for what is not UTF-8.
    #[must_use]
    pub fn data(&self) -> Option<&[u8]> {
        match &self.fields.data {
            Data::None => None,
            Data::One(range) => Some(self.at(range)),
            Data::Many(joined) => Some(joined),
        }
    }

    /// The `id` field, where the event has one. Empty: the last event id is reset.
    #[must_use]
    pub fn id(&self) -> Option<&[u8]> {
        self.fields.id.as_ref().map(|range| self.at(range))
    }

    /// The `retry` field, in milliseconds.
    #[must_use]
    pub fn retry(&self) -> Option<u64> {
        self.fields.retry
    }

    /// The comment lines, without their colons.
    pub fn comments(&self) -> impl Iterator<Item = &[u8]> {
        self.fields.comments.iter().map(|range| self.at(range))
    }

    /// Whether a client sees an event: there is data, and it is not empty. Others still set the last event id and
    /// the retry time (a priming event is an `id` with empty data).
    #[must_use]
    pub fn dispatches(&self) -> bool {
        self.data().is_some_and(|data| !data.is_empty())
    }
}

/// What a stream leaves when it ends.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Rest {
    /// An event that was complete but for the LF that might have followed its last CR.
    pub event: Option<Event>,
    /// The bytes of an event that never became complete. No client acts on them.
    pub tail: Vec<u8>,
}

impl Parser {
    /// A parser at the beginning of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the next bytes of the stream and adds the events they complete to `events`.
    ///
    /// An event is complete with its blank line. Where that ends in a CR and the line before it ended in CRLF, the
    /// LF is waited for, so that it is not torn off its event; otherwise the event comes at once, and a LF that
    /// follows is the beginning of the next one's bytes.
    pub fn push(&mut self, bytes: &[u8], events: &mut Vec<Event>) {
        let mut rest = bytes;
        while let Some(&first) = rest.first() {
            if self.after_cr {
                self.after_cr = false;
                let pair = first == b'\n';
                if pair {
                    self.raw.push(b'\n');
                    self.line = self.raw.len();
                    rest = rest.get(1..).unwrap_or_default();
                }
                self.last_end = Some(if pair { End::CrLf } else { End::Cr });
                if mem::take(&mut self.held) {
                    events.push(self.complete());
                }
                continue;
            }
            let Some(at) = memchr2(b'\r', b'\n', rest) else {
                self.raw.extend_from_slice(rest);
                return;
            };
            let (line, after) = rest.split_at(at + 1);
            self.raw.extend_from_slice(line);
            rest = after;
            let blank = self.end_line();
            if line.last() == Some(&b'\r') {
                self.after_cr = true;
                if blank && matches!(self.last_end, None | Some(End::CrLf)) {
                    self.held = true;
                } else if blank {
                    events.push(self.complete());
                }
            } else {
                self.last_end = Some(End::Lf);
                if blank {
                    events.push(self.complete());
                }
            }
        }
    }

    /// Adds the event that is complete but for a LF that may follow its last CR. Clients act on it already. The LF, if
    /// it comes, is the beginning of the next event's bytes.
    pub fn release(&mut self, events: &mut Vec<Event>) {
        if mem::take(&mut self.held) {
            events.push(self.complete());
        }
    }

    /// Ends the stream.
    #[must_use]
    pub fn finish(mut self) -> Rest {
        let event = self.held.then(|| self.complete());
        Rest { event, tail: self.raw }
    }

    /// The bytes of the event that is not complete yet.
    #[must_use]
    pub fn pending(&self) -> &[u8] {
        &self.raw
    }

    /// The id a client sends as `Last-Event-ID` if the stream breaks now. Empty: none.
    #[must_use]
    pub fn last_event_id(&self) -> &[u8] {
        &self.last_id
    }

    fn complete(&mut self) -> Event {
        let raw = mem::take(&mut self.raw);
        let start = self.offset;
        self.offset += raw.len() as u64;
        self.line = 0;
        let event = Event { raw, start, fields: mem::take(&mut self.fields) };
        if let Some(id) = event.id() {
            self.last_id = id.to_vec();
        }
        event
    }

    /// Reads the line that `raw` now ends with, terminator included; tells whether it is blank.
    fn end_line(&mut self) -> bool {
        let end = self.raw.len().saturating_sub(1);
        let mut start = mem::replace(&mut self.line, self.raw.len());
        if !mem::replace(&mut self.begun, true) && self.raw.starts_with(BOM) {
            start += BOM.len();
        }
        let line = self.raw.get(start..end).unwrap_or_default();
        if line.is_empty() {
            return true;
        }
        let colon = memchr::memchr(b':', line);
        let name = line.get(..colon.unwrap_or(line.len())).unwrap_or_default();
        let mut value = colon.map_or(end, |colon| start + colon + 1)..end;
        if self.raw.get(value.start) == Some(&b' ') && !value.is_empty() {
            value.start += 1;
        }
        let text = self.raw.get(value.clone()).unwrap_or_default();
        match name {
            b"" => self.fields.comments.push(value),
            b"event" => self.fields.kind = Some(value),
            b"id" if !text.contains(&0) => self.fields.id = Some(value),
            b"retry" if !text.is_empty() && text.iter().all(u8::is_ascii_digit) => {
                self.fields.retry = std::str::from_utf8(text).ok().and_then(|digits| digits.parse().ok());
            }
            b"data" => match &mut self.fields.data {
                none @ Data::None => *none = Data::One(value),
                Data::Many(joined) => {
                    joined.push(b'\n');
                    joined.extend_from_slice(text);
                }
                Data::One(first) => {
                    let mut joined = self.raw.get(first.clone()).unwrap_or_default().to_vec();
                    joined.push(b'\n');
                    joined.extend_from_slice(text);
                    self.fields.data = Data::Many(joined);
                }
            },
            _ => {}
        }
        false
    }
}

/// An event to be written. What is `None` is left out.
#[derive(Debug, Default, Clone, Copy)]
pub struct Outgoing<'e> {
    /// The `event` field; `message` by custom.
    pub kind: Option<&'e str>,
    /// The `id` field.
    pub id: Option<&'e str>,
    /// The `retry` field, in milliseconds.
    pub retry: Option<u64>,
    /// The data: compact JSON, so one line. A line end in it begins a further `data` line.
    pub data: Option<&'e [u8]>,
}

/// An `event` or `id` that would end its line, or an id that clients ignore: it holds CR, LF or NUL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BadField;

impl fmt::Display for BadField {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a field of a server-sent event may hold no CR, LF or NUL")
    }
}

impl std::error::Error for BadField {}

impl Outgoing<'_> {
    /// The bytes of the event: fields in the order `event`, `id`, `retry`, `data`, LF line ends, blank line.
    ///
    /// # Errors
    ///
    /// When `kind` or `id` cannot stand on a line.
    pub fn encode(&self) -> Result<Vec<u8>, BadField> {
        let mut out = Vec::with_capacity(self.data.map_or(0, <[u8]>::len) + 64);
        for (name, value) in [("event: ", self.kind), ("id: ", self.id)] {
            let Some(value) = value else { continue };
            if value.contains(['\r', '\n', '\0']) {
                return Err(BadField);
            }
            out.extend_from_slice(name.as_bytes());
            out.extend_from_slice(value.as_bytes());
            out.push(b'\n');
        }
        if let Some(retry) = self.retry {
            out.extend_from_slice(format!("retry: {retry}\n").as_bytes());
        }
        if let Some(data) = self.data {
            let mut rest = data;
            loop {
                let end = memchr2(b'\r', b'\n', rest);
                let (line, after) = rest.split_at(end.unwrap_or(rest.len()));
                out.extend_from_slice(b"data: ");
                out.extend_from_slice(line);
                out.push(b'\n');
                if end.is_none() {
                    break;
                }
                let pair = if after.starts_with(b"\r\n") { 2 } else { 1 };
                rest = after.get(pair..).unwrap_or_default();
            }
        }
        out.push(b'\n');
        Ok(out)
    }
}

/// The comment that keeps an idle stream alive. Clients ignore it.
pub const KEEP_ALIVE: &[u8] = b":\n\n";

#[cfg(test)]
#[path = "sse_tests.rs"]
mod tests;
