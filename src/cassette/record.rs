//! One record of a cassette: a message, or a fact about its transport, in the order the recorder saw them.

use std::collections::HashMap;

use super::once;
use super::share::share;
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::{Members, Span, SyntaxError, elements, value_end};
use crate::jsonrpc::{pretty, string};

/// The members of a record that this version knows.
const MEMBERS: [&str; 15] = [
    "from", "payload", "at", "server", "conn", "session", "exchange", "http", "redacted", "text", "base64",
    "end", "stream", "bom", "origin",
];

/// How many names are looked through one by one: with few, that is faster than a map.
const FEW: usize = 8;

/// The names of a cassette's servers, to be looked up.
#[derive(Clone, Debug, Default)]
pub struct Names {
    list: Vec<String>,
    places: HashMap<String, u32>,
}

impl Names {
    /// Names in their order.
    #[must_use]
    pub fn new<'n>(names: impl IntoIterator<Item = &'n str>) -> Self {
        let list: Vec<String> = names.into_iter().map(str::to_owned).collect();
        let mut places = HashMap::new();
        if list.len() > FEW {
            for (name, place) in list.iter().zip(0..) {
                places.entry(name.clone()).or_insert(place);
            }
        }
        Self { list, places }
    }

    /// The place of a name; of equal ones the first.
    #[must_use]
    pub fn place(&self, name: &str) -> Option<u32> {
        if self.list.len() > FEW {
            return self.places.get(name).copied();
        }
        self.list.iter().zip(0..).find(|(known, _)| *known == name).map(|(_, place)| place)
    }

    /// The server of a record that names none: the only one there is.
    #[must_use]
    pub fn only(&self) -> Option<u32> {
        (self.list.len() == 1).then_some(0)
    }
}

/// Who sent it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The client (the agent).
    Client,
    /// The server.
    Server,
}

impl Side {
    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Client => "client",
            Self::Server => "server",
        }
    }
}

/// What a record holds. Spans belong to the cassette's text.
#[derive(Clone, Copy, Debug)]
pub enum Body {
    /// Nothing: the record is about its transport.
    None,
    /// A JSON value, usually one JSON-RPC message.
    Payload(View),
    /// A line that is not JSON, as a string literal.
    Text(Span),
    /// A line that is not UTF-8, base64 in a string literal.
    Base64(Span),
}

/// One record.
#[derive(Clone, Debug)]
pub struct Record {
    /// Who sent it.
    pub from: Side,
    /// The server, as an index into [`super::Head::servers`].
    pub server: u32,
    /// Which client process, from 0 (stdio).
    pub conn: u32,
    /// Which session, from 1; 0 where the server issued none (HTTP).
    pub session: u32,
    /// Which HTTP exchange, from 1; 0 on stdio.
    pub exchange: u32,
    /// Microseconds since `recorded_at`.
    pub at: u64,
    /// The message.
    pub body: Body,
    /// What few records have.
    pub more: Option<Box<More>>,
}

/// The rarer fields of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct More {
    /// Came on the standalone stream of a legacy HTTP session.
    pub stream_get: bool,
    /// The HTTP facts, as JSON text.
    pub http: Option<String>,
    /// How an exchange ended when not by a complete answer.
    pub end: Option<String>,
    /// A byte order mark stood in front of it on the wire.
    pub bom: bool,
    /// Ids of the redaction rules that changed this message.
    pub redacted: Vec<String>,
    /// Which of the texts that look like placeholders are some, as JSON text, where the message has such text of its own.
    pub placeholders: Option<String>,
    /// Appended from the live server by a later run.
    pub live: bool,
    /// Fields this version does not know: name and value as JSON text.
    pub extra: Vec<(String, String)>,
}

/// Why a record cannot be read: the byte it is about, and what is wrong.
#[derive(Debug)]
pub struct Fault {
    /// Byte offset in the text.
    pub at: usize,
    /// What is wrong.
    pub what: String,
}

impl From<SyntaxError> for Fault {
    fn from(error: SyntaxError) -> Self {
        Self { at: error.at, what: format!("not JSON: expected {}", error.expected) }
    }
}

/// What the records of a file inherit from its head.
#[derive(Clone, Debug)]
pub struct Defaults<'a> {
    /// The names in `servers`.
    pub servers: &'a Names,
    /// The connection of records that name none.
    pub conn: u32,
    /// The server of records that name none; `None` when they must.
    pub server: Option<u32>,
    /// The time of records that say none.
    pub at: u64,
}

impl Record {
    /// Reads the record that starts at `start` of `text`; also returns where it ends.
    pub fn parse(text: &str, start: usize, defaults: &Defaults<'_>) -> Result<(Self, usize), Fault> {
        let mut members = Members::of(text, start)
            .ok_or_else(|| Fault { at: start, what: "expected a record, an object in braces".to_owned() })?;
        let mut from = None;
        let mut server = defaults.server;
        let mut record = Self {
            from: Side::Client,
            server: 0,
            conn: defaults.conn,
            session: 0,
            exchange: 0,
            at: defaults.at,
            body: Body::None,
            more: None,
        };
        let mut seen = 0_u16;
        while let Some((literal, at)) = members.next_name()? {
            let name = string::decode(literal.of(text));
            record.check_once(&name, &mut seen, literal.start)?;
            if name == "payload" {
                let view = View::at(text, at)?;
                members.resume(view.whole.end);
                record.set_body(Body::Payload(view), at)?;
                continue;
            }
            let value = Span::new(at, value_end(text, at)?);
            members.resume(value.end);
            record.read_field(&name, text, value, defaults, &mut from, &mut server)?;
        }
        record.from = from.ok_or_else(|| Fault {
            at: start,
            what: "expected \"from\": \"client\" or \"server\"".to_owned(),
        })?;
        record.server = server.ok_or_else(|| Fault {
            at: start,
            what: match defaults.servers.list.is_empty() {
                true => "belongs to no server: \"servers\" lists none".to_owned(),
                false => "expected \"server\", since the cassette has several".to_owned(),
            },
        })?;
        Ok((record, members.position()))
    }

    /// That a member was not there before. `seen` has a bit for each of [`MEMBERS`].
    fn check_once(&self, name: &str, seen: &mut u16, at: usize) -> Result<(), Fault> {
        let known = MEMBERS.iter().position(|known| *known == name);
        let bit = known.map_or(0, |place| 1 << place);
        let extra = self.more.as_ref().filter(|_| known.is_none()).map_or(&[][..], |more| &more.extra);
        if *seen & bit != 0 || extra.iter().any(|(other, _)| other == name) {
            return Err(once::twice(name, at));
        }
        *seen |= bit;
        Ok(())
    }

    fn read_field(
        &mut self,
        name: &str,
        text: &str,
        value: Span,
        defaults: &Defaults<'_>,
        from: &mut Option<Side>,
        server: &mut Option<u32>,
    ) -> Result<(), Fault> {
        let fault = |what: String| Fault { at: value.start, what };
        let literal = value.of(text);
        match name {
            "from" => {
                *from = Some(match &*string::decode(literal) {
                    "client" => Side::Client,
                    "server" => Side::Server,
                    other => {
                        return Err(fault(format!(
                            "\"from\" is {other:?}; expected \"client\" or \"server\""
                        )));
                    }
                });
            }
            "server" => {
                let wanted = string::decode(literal);
                *server = Some(defaults.servers.place(&wanted).ok_or_else(|| {
                    fault(format!("names server {wanted:?}, which \"servers\" does not list"))
                })?);
            }
            "conn" => self.conn = number(text, value, "conn")?,
            "session" => self.session = number(text, value, "session")?,
            "exchange" => self.exchange = number(text, value, "exchange")?,
            "at" => {
                self.at = micros(literal).ok_or_else(|| fault("\"at\" must be milliseconds".to_owned()))?;
            }
            "text" if literal.starts_with('"') => self.set_body(Body::Text(value), value.start)?,
            "base64" if literal.starts_with('"') => self.set_body(Body::Base64(value), value.start)?,
            "text" | "base64" => return Err(fault(format!("{name:?} must be a string"))),
            "http" => self.more().http = Some(pretty::packed(literal)),
            "end" => self.more().end = Some(string::decode(literal).into_owned()),
            "stream" if string::is(literal, "get") => self.more().stream_get = true,
            "bom" if literal == "true" => self.more().bom = true,
            "origin" if string::is(literal, "live") => self.more().live = true,
            "redacted" => {
                let ids = elements(text, value)?;
                self.more().redacted =
                    ids.iter().map(|id| string::decode(id.of(text)).into_owned()).collect();
            }
            "placeholders" => self.more().placeholders = Some(pretty::packed(literal)),
            _ => {
                let field = (name.to_owned(), pretty::packed(literal));
                self.more().extra.push(field);
            }
        }
        Ok(())
    }

    fn set_body(&mut self, body: Body, at: usize) -> Result<(), Fault> {
        if !matches!(self.body, Body::None) {
            return Err(Fault {
                at,
                what: "expected at most one of \"payload\", \"text\" and \"base64\"".to_owned(),
            });
        }
        self.body = body;
        Ok(())
    }

    /// The rarer fields, for writing.
    pub fn more(&mut self) -> &mut More {
        self.more.get_or_insert_with(Box::default)
    }

    /// The view of its message, when it holds one JSON value.
    #[must_use]
    pub fn view(&self) -> Option<&View> {
        match &self.body {
            Body::Payload(view) => Some(view),
            _ => None,
        }
    }

    /// Whether it holds a message of this shape.
    #[must_use]
    pub fn is(&self, shape: Shape) -> bool {
        self.view().is_some_and(|view| view.shape == shape)
    }

    /// Moves all spans so that what was at `from` is at `to`, for a message that is copied to another text.
    pub fn rebase(&mut self, from: usize, to: usize) {
        self.body = match self.body {
            Body::None => Body::None,
            Body::Payload(view) => Body::Payload(view.rebased(from, to)),
            Body::Text(span) => Body::Text(span.rebased(from, to)),
            Body::Base64(span) => Body::Base64(span.rebased(from, to)),
        };
    }

    /// Moves all spans by `offset` bytes, for a text that is appended to another.
    pub fn shift(&mut self, offset: usize) {
        self.body = match self.body {
            Body::None => Body::None,
            Body::Payload(view) => Body::Payload(view.shifted(offset)),
            Body::Text(span) => Body::Text(span.shifted(offset)),
            Body::Base64(span) => Body::Base64(span.shifted(offset)),
        };
    }
}

/// Below this much text, threads cost more than they save.
const SHARED_WORK: usize = 1 << 20;

/// Does some work on the spans of a text, on several threads when there is much to do, and returns what came of each
/// share in order.
pub(super) fn share_text<T: Send>(spans: &[Span], work: impl Fn(&[Span]) -> T + Sync) -> Vec<T> {
    let text = spans.last().map_or(0, |last| last.end) - spans.first().map_or(0, |first| first.start);
    share(spans, text >= SHARED_WORK, work)
}

fn number(text: &str, value: Span, name: &str) -> Result<u32, Fault> {
    value
        .of(text)
        .parse()
        .map_err(|_| Fault { at: value.start, what: format!("{name:?} must be a whole number from 0") })
}

/// Milliseconds with a fraction, as microseconds.
pub fn micros(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let plain = fraction.len() <= 3 && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if let (Ok(whole), true) = (whole.parse::<u64>(), plain) {
        let digits = fraction.bytes().chain(std::iter::repeat(b'0')).take(3);
        let thousandths = digits.fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0'));
        return whole.checked_mul(1000)?.checked_add(thousandths);
    }
    let micros = (text.parse::<f64>().ok()? * 1000.0).round();
    // Any number that a hand might have typed; the cast saturates.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    micros.is_finite().then_some(micros as u64)
}

/// Appends microseconds as milliseconds: `3.2`, `17`.
pub fn push_millis(out: &mut String, micros: u64) {
    use std::fmt::Write as _;
    let _ = write!(out, "{}", micros / 1000);
    let fraction = micros % 1000;
    if fraction != 0 {
        let digits = format!("{fraction:03}");
        out.push('.');
        out.push_str(digits.trim_end_matches('0'));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn milliseconds_keep_microseconds() {
        for (text, value) in
            [("0", 0), ("3.2", 3200), ("3.002", 3002), ("1e3", 1_000_000), ("0.0004", 0), ("-1", 0)]
        {
            assert_eq!(micros(text), Some(value), "{text}");
        }
        assert_eq!(micros("soon"), None);
        let mut out = String::new();
        for value in [0, 3200, 3002, 17_000] {
            push_millis(&mut out, value);
            out.push(' ');
        }
        assert_eq!(out, "0 3.2 3.002 17 ");
    }

    #[test]
    fn a_record_is_read_field_by_field() {
        let names = Names::new(["a", "b"]);
        let defaults = Defaults { servers: &names, conn: 2, server: None, at: 0 };
        let text = r#"{"server":"b","from":"server","at":1.5,"redacted":["key:*token*"],"payload":{"id":1,"result":{}},"later":{"x": 1}}"#;
        let (record, end) = Record::parse(text, 0, &defaults).unwrap();
        assert_eq!(end, text.len());
        assert_eq!((record.server, record.conn, record.at, record.from), (1, 2, 1500, Side::Server));
        assert!(record.is(Shape::Response));
        let more = record.more.unwrap();
        assert_eq!(more.redacted, ["key:*token*"]);
        assert_eq!(more.extra, [("later".to_owned(), "{\"x\":1}".to_owned())]);
        for (text, what) in [
            ("{}", "\"from\""),
            (r#"{"from":"client"}"#, "several"),
            (r#"{"from":"nobody"}"#, "nobody"),
            (r#"{"from":"client","server":"c"}"#, "\"c\""),
            (r#"{"from":"client","server":"a","text":1}"#, "string"),
            (r#"{"from":"client","server":"a","text":"x","payload":1}"#, "at most one"),
            (r#"{"from":"client","server":"a","conn":-1}"#, "whole number"),
            ("[]", "object"),
        ] {
            assert!(Record::parse(text, 0, &defaults).unwrap_err().what.contains(what), "{text}");
        }
        let nobody = Defaults { servers: &Names::default(), ..defaults };
        let fault = Record::parse(r#"{"from":"client"}"#, 0, &nobody).unwrap_err();
        assert_eq!(fault.what, "belongs to no server: \"servers\" lists none");
    }
}
