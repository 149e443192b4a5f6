//! One cassette in memory: its head, one text that holds every message, and the records that point into it.

use std::path::Path;

use super::head::{Head, Process, Server};
use super::record::{Body, Fault, Record};
use super::{document, foreign, journal};
use crate::error::{Error, Result, words};
use crate::jsonrpc::message::View;
use crate::jsonrpc::scan::{Members, Span, value_end};
use crate::jsonrpc::string;

/// What is known about when the messages came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// Every record has its time.
    Known,
    /// There are none; replay is instant.
    #[default]
    Absent,
    /// The list of times has this many entries, which is not the number of messages; replay is instant.
    WrongLength(usize),
}

/// A cassette.
#[derive(Clone, Debug, Default)]
pub struct Cassette {
    /// Everything but the records.
    pub head: Head,
    /// The text that every span of every record belongs to.
    pub text: String,
    /// The records in the order the recorder saw them.
    pub records: Vec<Record>,
    /// What is known about times.
    pub timing: Timing,
    /// What a reader should be told: a torn tail, an interrupted recording.
    pub warnings: Vec<String>,
}

impl Cassette {
    /// Reads a cassette in any shape from a file.
    pub fn read(path: &Path) -> Result<Self> {
        let meta = std::fs::metadata(path).map_err(|source| unreadable(path, &source))?;
        if meta.is_dir() {
            return Err(Error::input(path, "", "is a folder; expected a cassette file"));
        }
        if !meta.is_file() {
            return Err(Error::input(
                path,
                "",
                "is a device or a pipe; expected a cassette file (- reads from a pipe)",
            ));
        }
        let bytes = std::fs::read(path).map_err(|source| unreadable(path, &source))?;
        Self::parse(path, bytes)
    }

    /// Reads a cassette in any shape from bytes; `path` is for messages only.
    pub fn parse(path: &Path, bytes: Vec<u8>) -> Result<Self> {
        let text = String::from_utf8(bytes).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            let line = 1 + memchr::memchr_iter(b'\n', error.as_bytes().get(..at).unwrap_or(&[])).count();
            Error::input(
                path,
                format!("line {line}"),
                "is not UTF-8; expected a cassette, which is a text file",
            )
        })?;
        match recognise(&text) {
            Some(Shape::Document) => document::read(path, text),
            Some(Shape::Journal) => journal::read(path, text),
            None if text.trim().is_empty() => {
                Err(Error::input(path, "", "is empty; expected a cassette (mcpreel record makes one)"))
            }
            None if let Some(format) = foreign::recognise(&text) => foreign::read(format, path, text),
            None => Err(Error::input(path, "", "is not a cassette: no \"mcpreel\" format number in it")),
        }
    }

    /// Whether it was read from a journal, or from several.
    #[must_use]
    pub fn is_journal(&self) -> bool {
        matches!(recognise(&self.text), Some(Shape::Journal))
    }

    /// The text of a record's message; `None` when it holds no JSON value.
    #[must_use]
    pub fn payload(&self, record: &Record) -> Option<&str> {
        record.view().map(|view| view.whole.of(&self.text))
    }

    /// The name of a record's server.
    #[must_use]
    pub fn server_name(&self, record: &Record) -> &str {
        self.server(record.server).map_or("", |(name, _)| name)
    }

    /// A server by index.
    #[must_use]
    pub fn server(&self, index: u32) -> Option<&(String, Server)> {
        self.head.servers.get(usize::try_from(index).unwrap_or(usize::MAX))
    }

    /// The process of a server and connection.
    #[must_use]
    pub fn process(&self, server: &str, conn: u32) -> Option<&Process> {
        self.head.processes.iter().find(|process| process.server == server && process.conn == conn)
    }

    /// Adds a record whose spans belong to another text, with what it needs of that.
    pub fn take(&mut self, text: &str, mut record: Record) {
        let span = match &record.body {
            Body::None => None,
            Body::Payload(view) => Some(view.whole),
            Body::Text(span) | Body::Base64(span) => Some(*span),
        };
        if let Some(span) = span {
            let start = self.text.len();
            self.text.push_str(span.of(text));
            record.rebase(span.start, start);
        }
        self.records.push(record);
    }

    /// Adds a message to the text and a record for it.
    pub fn push(&mut self, mut record: Record, payload: &str) -> std::result::Result<(), Fault> {
        let start = self.text.len();
        let view = View::of(payload)?;
        self.text.push_str(payload);
        record.body = Body::Payload(view.shifted(start));
        self.records.push(record);
        Ok(())
    }

    /// Adds a line that is no JSON to the text and a record for it.
    pub fn push_text(&mut self, mut record: Record, line: &str) {
        let start = self.text.len();
        self.text.push_str(&string::encode(line));
        record.body = Body::Text(Span::new(start, self.text.len()));
        self.records.push(record);
    }
}

enum Shape {
    Document,
    Journal,
}

/// Whether a file that begins with this line is a journal, whose head is a whole line.
pub(super) fn is_journal_head(line: &str) -> bool {
    matches!(shape_of_line(line), Some(Shape::Journal))
}

/// What a file is by its first line. A document's may be only its brace.
fn shape_of_line(line: &str) -> Option<Shape> {
    let line = line.trim();
    let mut members = Members::of(line, 0)?;
    let mut format = false;
    while let Ok(Some((name, _))) = members.next() {
        match name.of(line) {
            "\"journal\"" => return Some(Shape::Journal),
            "\"mcpreel\"" => format = true,
            _ => {}
        }
    }
    (format && members.position() == line.len()).then_some(Shape::Document)
}

/// Tells the shapes apart by their content.
fn recognise(text: &str) -> Option<Shape> {
    let first = text.split('\n').find(|line| !line.trim().is_empty())?;
    if let Some(shape) = shape_of_line(first) {
        return Some(shape);
    }
    let start = text.find('{')?;
    let mut members = Members::of(text, start)?;
    // The format number is the first member of every document this program writes; look no further than needed.
    loop {
        match members.next_name() {
            Ok(Some((name, _))) if name.of(text) == "\"mcpreel\"" => return Some(Shape::Document),
            Ok(Some((_, value))) => match value_end(text, value) {
                Ok(end) => members.resume(end),
                Err(_) => return None,
            },
            _ => return None,
        }
    }
}

fn unreadable(path: &Path, source: &std::io::Error) -> Error {
    let what = match source.kind() {
        std::io::ErrorKind::NotFound => "no such cassette".to_owned(),
        _ => words(source),
    };
    Error::input(path, "", what)
}

/// An [`Error::Input`] for a fault at a byte of `text`.
#[must_use]
pub fn fault(path: &Path, text: &str, fault: &Fault, message: Option<usize>) -> Error {
    let line =
        1 + memchr::memchr_iter(b'\n', text.as_bytes().get(..fault.at).unwrap_or(text.as_bytes())).count();
    let place = match message {
        Some(index) => format!("line {line} (/messages/{index})"),
        None => format!("line {line}"),
    };
    Error::input(path, place, fault.what.clone())
}

/// Refuses a format number that this version does not read.
pub fn check_format(path: &Path, text: &str, value: Span) -> Result<()> {
    match value.of(text).parse::<u64>() {
        Ok(format) if (1..=super::FORMAT).contains(&format) => Ok(()),
        Ok(format) if format > super::FORMAT => Err(Error::input(
            path,
            "",
            format!(
                "has cassette format {format}, and this is {} which reads formats up to {}; use a newer mcpreel",
                super::head::recorder(),
                super::FORMAT
            ),
        )),
        _ => Err(Error::input(
            path,
            "",
            format!("\"mcpreel\" must be a format number from 1 to {}", super::FORMAT),
        )),
    }
}
