//! What the readers of foreign formats share: a cassette that grows message by message, and the checks of fields.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use base64::Engine as _;

use super::places::Places;
use crate::cassette::clock;
use crate::cassette::head::{self, Head, Server, object};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::once::Once;
use crate::cassette::record::{Body, Fault, Record, Side};
use crate::error::{Error, Result};
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::{Members, Span, elements, skip_space};
use crate::jsonrpc::{pretty, string};
use crate::mcp;

/// Why an entry of a file cannot be read.
pub(super) type Read<T> = std::result::Result<T, Fault>;

/// A record of `from` that says nothing yet.
pub(super) fn blank(from: Side) -> Record {
    Record { from, server: 0, conn: 0, session: 0, exchange: 0, at: 0, body: Body::None, more: None }
}

/// A cassette that is being read.
#[derive(Debug, Default)]
pub(super) struct Build<'t> {
    /// The file.
    pub(super) text: &'t str,
    pub(super) head: Head,
    pub(super) records: Vec<Record>,
    pub(super) warnings: Vec<String>,
    /// What does not stand in the file as it is; it follows the file's own text.
    appended: String,
    places: Vec<Places>,
    /// A message says no time.
    untimed: bool,
}

impl<'t> Build<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text, ..Self::default() }
    }

    /// Adds a server; its messages may follow.
    pub(super) fn server(&mut self, name: String, server: Server, sessions: bool) -> u32 {
        self.places.push(Places::new(server.transport, sessions));
        self.head.servers.push((name, server));
        u32::try_from(self.head.servers.len() - 1).unwrap_or(0)
    }

    /// The message that stands in the file at `value`.
    pub(super) fn payload(&self, value: Span) -> Read<Body> {
        Ok(Body::Payload(View::at(self.text, value.start)?))
    }

    /// A line or body that stands in the file as a string: a message if it is JSON, else text.
    pub(super) fn line(&mut self, line: &str) -> Body {
        let start = self.text.len() + self.appended.len();
        if let Ok(view) = View::of(line) {
            self.appended.push_str(line);
            return Body::Payload(view.shifted(start));
        }
        self.appended.push_str(&string::encode(line));
        Body::Text(Span::new(start, self.text.len() + self.appended.len()))
    }

    /// The same for bytes that need not be UTF-8.
    pub(super) fn bytes(&mut self, bytes: &[u8]) -> Body {
        if let Ok(line) = std::str::from_utf8(bytes) {
            return self.line(line);
        }
        let start = self.text.len() + self.appended.len();
        let coded = base64::engine::general_purpose::STANDARD.encode(bytes);
        self.appended.push_str(&string::encode(&coded));
        Body::Base64(Span::new(start, self.text.len() + self.appended.len()))
    }

    /// Adds a record, and works out where it belongs; `time` is in microseconds since the beginning, `exchange` from 1.
    pub(super) fn push(&mut self, mut record: Record, exchange: Option<u32>, time: Option<u64>) {
        self.untimed |= time.is_none();
        let (text, appended) = (self.text, &self.appended);
        let of = |span: Span| of(text, appended, span).to_owned();
        if let Some(places) = usize::try_from(record.server).ok().and_then(|at| self.places.get_mut(at)) {
            places.put(&mut record, exchange, time.unwrap_or(0), &of);
        }
        self.records.push(record);
    }

    /// The text at a span of a record.
    pub(super) fn of(&self, span: Span) -> &str {
        of(self.text, &self.appended, span)
    }

    /// What the messages tell of the servers, where the file itself says nothing.
    fn survey(&mut self) {
        let mut told: Vec<Told<'_>> = self.head.servers.iter().map(|_| Told::default()).collect();
        for record in &self.records {
            let Some(view) = record.view() else { continue };
            // Views are relative to both texts put together, and one message never lies in both.
            let (text, view) = match view.whole.start.checked_sub(self.text.len()) {
                Some(_) => (self.appended.as_str(), view.rebased(self.text.len(), 0)),
                None => (self.text, *view),
            };
            let told = usize::try_from(record.server).ok().and_then(|server| told.get_mut(server));
            if let Some(told) = told {
                told.look(record.from, text, &view);
            }
        }
        let told: Vec<(Vec<String>, Option<String>)> =
            told.into_iter().map(|told| (told.protocol, told.info)).collect();
        for ((_, server), (protocol, info)) in self.head.servers.iter_mut().zip(told) {
            if server.protocol.is_empty() {
                server.protocol = protocol;
            }
            server.info = server.info.take().or(info);
        }
    }

    /// Names the servers that have no name yet: as they call themselves, else by their command or host.
    fn name(&mut self) {
        let mut taken: HashSet<String> = HashSet::new();
        // How often each name was wanted by one that has none.
        let mut counts: HashMap<String, usize> = HashMap::new();
        for (name, server) in &mut self.head.servers {
            if name.is_empty() {
                let own = server.info.as_deref().and_then(server_name);
                let program = server
                    .command
                    .first()
                    .and_then(|program| Some(Path::new(program).file_name()?.to_str()?.to_owned()));
                let host = server.url.as_deref().and_then(host).map(str::to_owned);
                let base = own.or(program).or(host).unwrap_or_else(|| "server".to_owned());
                name.clone_from(&base);
                let count = counts.entry(base.clone()).or_insert(1);
                while taken.contains(name) {
                    *count += 1;
                    *name = format!("{base}-{count}");
                }
            }
            taken.insert(name.clone());
        }
    }

    /// Our spelling of when the recording began.
    fn spell_start(&mut self) {
        let said = &mut self.head.recorded_at;
        match moment(said) {
            Some(start) if !said.ends_with('Z') => *said = clock::from_micros(start, true),
            None if !said.is_empty() => {
                self.warnings.push(format!("{said:?} is no date and time, and was left out"));
                said.clear();
            }
            _ => {}
        }
    }

    /// The cassette, whose text is `file` (the one this was made with).
    pub(super) fn finish(mut self, file: &str) -> Cassette {
        self.survey();
        self.name();
        self.spell_start();
        let timing = if self.untimed { Timing::Absent } else { Timing::Known };
        if timing == Timing::Known {
            self.records.sort_by_key(|record| record.at);
        } else {
            self.records.iter_mut().for_each(|record| record.at = 0);
        }
        let mut text = String::with_capacity(file.len() + self.appended.len());
        text.push_str(file);
        text.push_str(&self.appended);
        Cassette { head: self.head, text, records: self.records, timing, warnings: self.warnings }
    }
}

/// What the messages of a server tell of it.
#[derive(Default)]
struct Told<'t> {
    protocol: Vec<String>,
    info: Option<String>,
    /// The last request that asks for it: whether it is `initialize`, and its id.
    asked: Option<(bool, &'t str)>,
}

impl<'t> Told<'t> {
    fn look(&mut self, from: Side, text: &'t str, view: &View) {
        let id = view.id.map_or("", |id| id.of(text));
        if from == Side::Client && view.shape == Shape::Request {
            let method = view.method_name(text);
            if matches!(&*method, "initialize" | "server/discover") {
                self.asked = Some((method == "initialize", id));
            } else if self.protocol.is_empty() {
                self.protocol.extend(mcp::version(text, view));
            }
        } else if from == Side::Server
            && let Some((initialize, _)) = self.asked.filter(|(_, asked)| *asked == id)
            && let Some(result) = view.result
        {
            self.asked = None;
            let (said, versions) = if initialize {
                let version = member(text, result, "protocolVersion");
                (member(text, result, "serverInfo"), version.into_iter().collect())
            } else {
                let list = member(text, result, "supportedVersions");
                let list = list.and_then(|list| elements(text, list).ok()).unwrap_or_default();
                (member_at(text, result, &["_meta", mcp::SERVER_INFO]), list)
            };
            self.info = self.info.take().or(said.map(|info| pretty::packed(info.of(text))));
            for version in versions {
                let version = string::decode(version.of(text)).into_owned();
                if !self.protocol.contains(&version) {
                    self.protocol.push(version);
                }
            }
        }
    }
}

fn of<'s>(text: &'s str, appended: &'s str, span: Span) -> &'s str {
    match span.start.checked_sub(text.len()) {
        Some(start) => Span::new(start, start + span.len()).of(appended),
        None => span.of(text),
    }
}

/// A date and time; one without a zone is UTC.
pub(super) fn moment(text: &str) -> Option<i64> {
    clock::parse(text).or_else(|| clock::parse(&format!("{}Z", text.replace(' ', "T"))))
}

/// The host of a URL, with its port.
pub(super) fn host(url: &str) -> Option<&str> {
    let rest = url.split_once("://")?.1;
    let authority = rest.split(['/', '?', '#']).next()?;
    let host = authority.rsplit('@').next()?;
    (!host.is_empty()).then_some(host)
}

/// The server's own name, where it is fit to be typed.
pub(super) fn server_name(info: &str) -> Option<String> {
    let name = member(info, Span::new(0, info.len()), "name")?;
    let name = string::decode(name.of(info).strip_prefix('"').map(|_| name.of(info))?).into_owned();
    let fit = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.' | '/' | '@');
    (!name.is_empty() && name.len() <= 64 && !name.starts_with('-') && name.chars().all(fit)).then_some(name)
}

pub(super) fn wrong(value: Span, what: &str) -> Fault {
    Fault { at: value.start, what: what.to_owned() }
}

pub(super) fn string_at(text: &str, value: Span, name: &str) -> Read<String> {
    let literal = value.of(text);
    if literal.starts_with('"') {
        return Ok(string::decode(literal).into_owned());
    }
    Err(wrong(value, &format!("{name:?} must be a string")))
}

/// Milliseconds with any fraction, as microseconds.
pub(super) fn millis_at(text: &str, value: Span, name: &str) -> Read<u64> {
    crate::cassette::record::micros(value.of(text))
        .ok_or_else(|| wrong(value, &format!("{name:?} must be milliseconds")))
}

/// Calls `each` for the members of the object at `value` that are not null.
pub(super) fn members(
    text: &str,
    value: Span,
    what: &str,
    mut each: impl FnMut(&str, Span) -> Read<()>,
) -> Read<()> {
    head::members(text, value, what, |name, value| match value.of(text) {
        "null" => Ok(()),
        _ => each(name, value),
    })
}

/// Calls `each` for the members of the one object that a file is.
pub(super) fn file_members(text: &str, mut each: impl FnMut(&str, Span) -> Read<()>) -> Read<()> {
    let start = skip_space(text.as_bytes(), 0);
    let mut members = Members::of(text, start)
        .ok_or_else(|| Fault { at: start, what: "expected an object in braces".to_owned() })?;
    let mut once = Once::default();
    while let Some((literal, value)) = members.next()? {
        let name = string::decode(literal.of(text));
        once.take(&name, literal.start)?;
        if value.of(text) != "null" {
            each(&name, value)?;
        }
    }
    let end = skip_space(text.as_bytes(), members.position());
    if end < text.len() {
        return Err(Fault { at: end, what: "expected the end of the file".to_owned() });
    }
    Ok(())
}

/// The elements of the list at `value`.
pub(super) fn list_at(text: &str, value: Span, name: &str) -> Read<Vec<Span>> {
    if !value.of(text).starts_with('[') {
        return Err(wrong(value, &format!("{name:?} must be a list")));
    }
    Ok(elements(text, value)?)
}

/// What a format says and ours has no field for: it is kept in one extra field, and written where it came from.
#[derive(Debug, Default)]
pub(super) struct Kept(Vec<(String, String)>);

impl Kept {
    pub(super) fn push(&mut self, name: &str, literal: &str) {
        self.0.push((name.to_owned(), pretty::packed(literal)));
    }

    /// The extra field of that name, where there is anything to keep.
    pub(super) fn field(self, key: &str) -> Option<(String, String)> {
        (!self.0.is_empty()).then(|| (key.to_owned(), object(self.0)))
    }

    /// Puts it into a record.
    pub(super) fn into_record(self, key: &str, record: &mut Record) {
        if let Some(field) = self.field(key) {
            record.more().extra.push(field);
        }
    }

    /// What was kept in `extra` under `key`.
    pub(super) fn of(extra: &[(String, String)], key: &str) -> Self {
        let Some((_, text)) = extra.iter().find(|(name, _)| name == key) else { return Self::default() };
        let mut kept = Self::default();
        if let Some(mut members) = Members::of(text, 0) {
            while let Ok(Some((name, value))) = members.next() {
                kept.push(&string::decode(name.of(text)), value.of(text));
            }
        }
        kept
    }

    /// What was kept of a record.
    pub(super) fn of_record(record: &Record, key: &str) -> Self {
        record.more.as_ref().map_or_else(Self::default, |more| Self::of(&more.extra, key))
    }

    /// Takes one member out.
    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        let at = self.0.iter().position(|(known, _)| known == name)?;
        Some(self.0.remove(at).1)
    }

    /// The members that are left, less those in `known`.
    pub(super) fn rest(self, known: &[(String, String)]) -> Vec<(String, String)> {
        self.0.into_iter().filter(|(name, _)| !known.iter().any(|(other, _)| other == name)).collect()
    }
}

/// The HTTP facts of a record as JSON text.
pub(super) fn http_facts(members: &[(&str, String)]) -> String {
    object(members.iter().map(|(name, value)| ((*name).to_owned(), value.clone())))
}

/// An object whose members are written here, without those whose value is empty.
pub(super) fn fields(members: Vec<(&str, String)>) -> Vec<(String, String)> {
    let given = members.into_iter().filter(|(_, value)| !value.is_empty());
    given.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A fault of a file that is one object: the line, and the entry of a list it is in.
pub(super) fn place(path: &Path, text: &str, fault: &Fault, list: &str, entry: Option<usize>) -> Error {
    let line =
        1 + memchr::memchr_iter(b'\n', text.as_bytes().get(..fault.at).unwrap_or(text.as_bytes())).count();
    let place = match entry {
        Some(index) => format!("line {line} ({list}/{index})"),
        None => format!("line {line}"),
    };
    Error::input(path, place, fault.what.clone())
}

/// Reads a file of lines: the first fault ends it, but a last line that is torn is left out with a warning.
pub(super) fn each_line(
    path: &Path,
    text: &str,
    warnings: &mut Vec<String>,
    mut each: impl FnMut(Span) -> Read<()>,
) -> Result<()> {
    let mut at = 0;
    while at < text.len() {
        let found = memchr::memchr(b'\n', text.as_bytes().get(at..).unwrap_or(&[]));
        let line = Span::new(at, found.map_or(text.len(), |found| at + found));
        at = line.end + 1;
        let content = line.of(text);
        if content.trim().is_empty() {
            continue;
        }
        let start = line.start + (content.len() - content.trim_start().len());
        let span = Span::new(start, line.start + content.trim_end().len());
        // A torn line must not be completed by what follows it, so the value has to end with its line.
        let whole = match crate::jsonrpc::scan::value_end(text.get(..line.end).unwrap_or(text), start) {
            Ok(end) if end < span.end => {
                Err(Fault { at: end, what: "expected the end of the line".to_owned() })
            }
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        };
        if whole.is_err() && found.is_none() && line.start > 0 {
            warnings.push(format!("{}: the last line is torn and was left out", path.display()));
            break;
        }
        whole.and_then(|()| each(span)).map_err(|fault| place(path, text, &fault, "", None))?;
    }
    Ok(())
}
