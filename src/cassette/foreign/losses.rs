//! What a format could not hold: the cassette that was written is compared with what reading the file gives back.
//! Whatever differs is lost, or told differently, so nothing can be lost without being named.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};

use crate::cassette::clock;
use crate::cassette::head::{Exit, Process, Server};
use crate::cassette::model::{Cassette, Timing};
use crate::cassette::record::{Body, More, Record, Side};
use crate::jsonrpc::canonical;
use crate::jsonrpc::message::{Shape, member};
use crate::jsonrpc::scan::{Members, Span};
use crate::jsonrpc::{pretty, string};

/// How many places a line names.
const SHOWN: usize = 3;

/// Phrases with the places each applies to, in order of appearance.
#[derive(Debug, Default)]
pub(super) struct Tally(HashMap<String, Phrase>);

#[derive(Debug, Default)]
struct Phrase {
    /// Its place among the phrases.
    order: usize,
    /// The first messages it applies to.
    shown: Vec<usize>,
    /// How many messages it applies to, and the last of them.
    count: usize,
    last: Option<usize>,
}

impl Tally {
    /// Counts `what`; `message` is the record's place in the cassette.
    pub(super) fn at(&mut self, what: &str, message: usize) {
        let phrase = self.phrase(what);
        // A message is named once, whatever it lost of the kind.
        if phrase.last.replace(message) == Some(message) {
            return;
        }
        phrase.count += 1;
        if phrase.shown.len() < SHOWN {
            phrase.shown.push(message);
        }
    }

    /// Says `what`, which is about the cassette as a whole.
    pub(super) fn head(&mut self, what: &str) {
        self.phrase(what);
    }

    fn phrase(&mut self, what: &str) -> &mut Phrase {
        let order = self.0.len();
        self.0.entry(what.to_owned()).or_insert_with(|| Phrase { order, ..Phrase::default() })
    }

    /// One line for each phrase.
    pub(super) fn lines(self) -> Vec<String> {
        let mut phrases: Vec<(String, Phrase)> = self.0.into_iter().collect();
        phrases.sort_unstable_by_key(|(_, phrase)| phrase.order);
        let line = |(what, phrase): (String, Phrase)| {
            let mut places = phrase.shown;
            places.sort_unstable();
            let shown: Vec<String> = places.iter().map(|place| format!("/messages/{place}")).collect();
            match phrase.count.saturating_sub(shown.len()) {
                _ if shown.is_empty() => what,
                0 => format!("{what}: {}", shown.join(", ")),
                more => format!("{what}: {} and {more} more", shown.join(", ")),
            }
        };
        phrases.into_iter().map(line).collect()
    }
}

/// What differs between what was written and what is read back: what counts, and what only deserves a remark.
pub(super) fn between(ours: &Cassette, theirs: &Cassette) -> (Vec<String>, Vec<String>) {
    let mut found = Found {
        ours,
        theirs,
        servers: HashMap::new(),
        sessions: HashMap::new(),
        exchanges: HashMap::new(),
        lost: Tally::default(),
        notes: Tally::default(),
        latest: 0,
        rounded: None,
        delayed: None,
    };
    found.records();
    found.head();
    (found.lost.lines(), found.notes.lines())
}

struct Found<'a> {
    ours: &'a Cassette,
    theirs: &'a Cassette,
    /// Which of their servers is which of ours.
    servers: HashMap<u32, u32>,
    /// By server.
    sessions: HashMap<(u32, u32), u32>,
    exchanges: HashMap<(u32, u32), u32>,
    lost: Tally,
    notes: Tally,
    /// How far the order of both went along.
    latest: usize,
    /// The first message whose time lost its fraction, and the first that got another time.
    rounded: Option<usize>,
    delayed: Option<usize>,
}

/// What is compared of a body; empty where there is none.
fn body<'a>(cassette: &'a Cassette, record: &Record) -> Cow<'a, str> {
    match &record.body {
        Body::None => Cow::Borrowed(""),
        Body::Payload(view) => {
            let text = view.whole.of(&cassette.text);
            // Most messages are packed already.
            let spaced = text.bytes().any(|byte| byte.is_ascii_whitespace());
            if spaced { Cow::Owned(pretty::packed(text)) } else { Cow::Borrowed(text) }
        }
        Body::Text(span) => {
            let line = string::decode(span.of(&cassette.text));
            Cow::Owned(format!("text {}", line.trim_end_matches(['\r', '\n'])))
        }
        Body::Base64(span) => Cow::Borrowed(span.of(&cassette.text)),
    }
}

/// What a message is, in words.
fn kind(record: &Record) -> &'static str {
    let client = record.from == Side::Client;
    match &record.body {
        Body::Text(_) => "a line that is not JSON",
        Body::Base64(_) => "a line that is not UTF-8",
        Body::None => "a record without a message",
        Body::Payload(view) => match view.shape {
            Shape::Batch => "a batch",
            Shape::Other => "JSON that is no message",
            Shape::Request if client => "a request of the client",
            Shape::Request => "a request of the server",
            Shape::Notification if client => "a notification of the client",
            Shape::Notification => "a notification of the server",
            Shape::Response if client => "an answer of the client",
            Shape::Response => "an answer of the server",
        },
    }
}

/// Records without a message, each to be taken once.
#[derive(Default)]
struct Bare<'a> {
    by_exchange: HashMap<(u32, u32, Side), VecDeque<usize>>,
    by_facts: HashMap<(Side, Option<&'a str>), VecDeque<usize>>,
    taken: HashSet<usize>,
}

impl<'a> Bare<'a> {
    fn add(&mut self, index: usize, record: &'a Record) {
        let exchange = (record.server, record.exchange, record.from);
        self.by_exchange.entry(exchange).or_default().push_back(index);
        self.by_facts.entry((record.from, http(record))).or_default().push_back(index);
    }

    /// The next one of an exchange.
    fn in_exchange(&mut self, exchange: (u32, u32, Side)) -> Option<usize> {
        first_new(self.by_exchange.get_mut(&exchange)?, &mut self.taken)
    }

    /// The next one that says what `record` says.
    fn alike(&mut self, record: &'a Record) -> Option<usize> {
        first_new(self.by_facts.get_mut(&(record.from, http(record)))?, &mut self.taken)
    }
}

fn first_new(list: &mut VecDeque<usize>, taken: &mut HashSet<usize>) -> Option<usize> {
    std::iter::from_fn(|| list.pop_front()).find(|index| taken.insert(*index))
}

/// The HTTP facts of a record.
fn http(record: &Record) -> Option<&str> {
    record.more.as_ref().and_then(|more| more.http.as_deref())
}

impl Found<'_> {
    fn records(&mut self) {
        let (ours, theirs) = (self.ours, self.theirs);
        let mut waiting: HashMap<(Side, Cow<'_, str>), VecDeque<usize>> = HashMap::new();
        let mut bare = Bare::default();
        for (index, record) in theirs.records.iter().enumerate() {
            if matches!(record.body, Body::None) {
                bare.add(index, record);
            } else {
                waiting.entry((record.from, body(theirs, record))).or_default().push_back(index);
            }
        }
        let mut without = Vec::new();
        // A format with one server has the first of ours.
        let only = theirs.head.servers.len() <= 1;
        let mut unplaced = Vec::new();
        for (index, record) in ours.records.iter().enumerate().filter(|(_, it)| !only || it.server == 0) {
            if matches!(record.body, Body::None) {
                without.push((index, record));
                continue;
            }
            let twin = waiting.get_mut(&(record.from, body(ours, record))).and_then(VecDeque::pop_front);
            match twin.and_then(|twin| Some((twin, theirs.records.get(twin)?))) {
                Some((twin, other)) => self.pair(index, record, twin, other),
                None => unplaced.push((index, record)),
            }
        }
        // What of a server that is not there at all is told in one line.
        for (index, record) in unplaced.into_iter().filter(|(_, it)| self.servers.contains_key(&it.server)) {
            self.lost.at(&format!("the format has no place for {}", kind(record)), index);
        }
        let placed = without.into_iter().filter(|(_, it)| self.servers.contains_key(&it.server));
        for (index, record) in placed.collect::<Vec<_>>() {
            // Exchanges without any message are told by what they are.
            let known = self.exchanges.get(&(record.server, record.exchange)).copied();
            let server = self.servers.get(&record.server).copied().unwrap_or(0);
            let twin = match known {
                Some(exchange) => bare.in_exchange((server, exchange, record.from)),
                None => bare.alike(record),
            };
            match twin.and_then(|twin| Some((twin, theirs.records.get(twin)?))) {
                Some((_, other)) => {
                    self.same_place(index, record, other);
                    self.same_facts(index, record, other);
                }
                None if record.from == Side::Server => {
                    self.no_facts(index, record);
                }
                None => self.lost.at("the format has no place for an HTTP request without a message", index),
            }
        }
        for (index, what) in [
            (self.rounded, "times are cut to whole milliseconds"),
            (self.delayed, "the format says less about when messages came, from here on"),
        ] {
            if let Some(index) = index {
                self.notes.at(what, index);
            }
        }
    }

    fn pair(&mut self, index: usize, record: &Record, twin: usize, other: &Record) {
        if twin < self.latest {
            self.lost.at("the order of messages that were under way at the same time", index);
        }
        self.latest = self.latest.max(twin);
        self.same_place(index, record, other);
        self.same_facts(index, record, other);
        self.same_time(index, record, other);
        if let (Body::Text(mine), Body::Text(yours)) = (&record.body, &other.body)
            && string::decode(mine.of(&self.ours.text)) != string::decode(yours.of(&self.theirs.text))
        {
            self.notes.at("carriage returns at line ends are left out", index);
        }
    }

    fn same_place(&mut self, index: usize, record: &Record, other: &Record) {
        let server = *self.servers.entry(record.server).or_insert(other.server);
        if server != other.server {
            self.lost.at("which server a message belongs to", index);
        }
        if record.conn != other.conn {
            self.lost.at("which connection a message belongs to", index);
        }
        for (map, mine, yours, what) in [
            (&mut self.sessions, record.session, other.session, "which HTTP session a message belongs to"),
            (
                &mut self.exchanges,
                record.exchange,
                other.exchange,
                "which HTTP exchange a message belongs to",
            ),
        ] {
            let known = *map.entry((record.server, mine)).or_insert(yours);
            if known != yours || (mine > 0) != (yours > 0) {
                self.lost.at(what, index);
            }
        }
    }

    fn same_facts(&mut self, index: usize, record: &Record, other: &Record) {
        let none = More::default();
        let (mine, yours) = (record.more.as_deref().unwrap_or(&none), other.more.as_deref().unwrap_or(&none));
        if mine.stream_get && !yours.stream_get {
            self.lost.at("that a message came on the standalone stream", index);
        }
        if mine.bom {
            self.notes.at("a byte order mark in front of a message is left out", index);
        }
        if mine.end != yours.end && mine.end.is_some() {
            self.lost.at("how an HTTP exchange ended", index);
        }
        if mine.live && !yours.live {
            self.notes.at("the mark of messages that a later run appended is left out", index);
        }
        if mine.redacted != yours.redacted && !mine.redacted.is_empty() {
            self.lost.at("the mark that a message was redacted", index);
        } else if mine.placeholders != yours.placeholders && mine.placeholders.is_some() {
            self.lost.at("that text in a redacted message only looks like a placeholder", index);
        }
        for (name, value) in &mine.extra {
            if !yours.extra.iter().any(|(other, same)| other == name && same == value) {
                self.lost.at(&format!("the field {name:?} of a message"), index);
            }
        }
        let speaks = !matches!(record.body, Body::None);
        self.facts(index, speaks, mine.http.as_deref().unwrap_or("{}"), yours.http.as_deref());
    }

    /// Facts of an answer without a message, of which nothing is left.
    fn no_facts(&mut self, index: usize, record: &Record) {
        let none = More::default();
        let more = record.more.as_deref().unwrap_or(&none);
        let unknown = Record { more: None, ..record.clone() };
        self.same_facts(index, record, &unknown);
        if more.http.is_none() && more.end.is_none() {
            self.lost.at("the format has no place for a record without a message", index);
        }
    }

    fn facts(&mut self, index: usize, speaks: bool, mine: &str, yours: Option<&str>) {
        let Some(mut members) = Members::of(mine, 0) else { return };
        while let Ok(Some((name, value))) = members.next() {
            let name = string::decode(name.of(mine)).into_owned();
            let value = value.of(mine);
            let other = yours.and_then(|yours| {
                member(yours, Span::new(0, yours.len()), &name).map(|other| other.of(yours))
            });
            if other.is_some_and(|other| canonical::of(other) == canonical::of(value)) {
                continue;
            }
            match (&*name, value) {
                // What a server answers where nothing is said.
                ("status", "200") if yours.is_none() && speaks => {}
                ("status", "202") if yours.is_none() && !speaks => {}
                ("type", "\"json\"" | "\"sse\"") if yours.is_none() => {
                    self.notes.at("whether an answer was JSON or a stream is not kept", index);
                }
                _ => self.lost.at(&format!("the HTTP fact {name:?}"), index),
            }
        }
    }

    fn same_time(&mut self, index: usize, record: &Record, other: &Record) {
        if self.ours.timing != Timing::Known || self.theirs.timing != Timing::Known {
            return;
        }
        let start = |cassette: &Cassette| clock::parse(&cassette.head.recorded_at).unwrap_or(0);
        let mine = start(self.ours).saturating_add_unsigned(record.at);
        let yours = start(self.theirs).saturating_add_unsigned(other.at);
        match mine.abs_diff(yours) {
            0 => {}
            1..1000 => self.rounded = self.rounded.or(Some(index)),
            _ => self.delayed = self.delayed.or(Some(index)),
        }
    }

    fn head(&mut self) {
        let (mine, yours) = (&self.ours.head, &self.theirs.head);
        let mut counts: HashMap<u32, usize> = HashMap::new();
        self.ours.records.iter().for_each(|record| *counts.entry(record.server).or_default() += 1);
        for (index, (name, server)) in (0_u32..).zip(&mine.servers) {
            let twin = self.servers.get(&index).and_then(|twin| self.theirs.server(*twin));
            let count = counts.get(&index).copied().unwrap_or(0);
            // One without messages is where it was.
            let twin =
                twin.or_else(|| yours.servers.get(usize::try_from(index).ok()?).filter(|_| count == 0));
            match twin {
                None => self.lost.head(&format!("server {name:?} and its {count} messages")),
                Some((other, twin)) => {
                    if other != name {
                        let note =
                            format!("the name of server {name:?} is not kept: it will be read as {other:?}");
                        self.notes.head(&note);
                    }
                    self.server(name, server, twin);
                }
            }
        }
        for (mine, yours, what) in [
            (&mine.labels, &yours.labels, "the labels"),
            (&mine.matching, &yours.matching, "the matching rules"),
        ] {
            if mine.is_some() && mine != yours {
                self.lost.head(what);
            }
        }
        if mine.redaction.is_some() && mine.redaction != yours.redaction {
            // A replay asks it only about messages that were redacted.
            let redacted = |record: &Record| record.more.as_ref().is_some_and(|it| !it.redacted.is_empty());
            if self.ours.records.iter().any(redacted) {
                self.lost.head("the redaction manifest");
            } else {
                self.notes.head("the redaction manifest, by which nothing was redacted, is not kept");
            }
        }
        for process in &mine.processes {
            let ended_well = *process
                == Process {
                    server: process.server.clone(),
                    conn: process.conn,
                    exit: process.exit.filter(|exit| *exit == Exit::Code(0)),
                    ..Process::default()
                };
            if !ended_well && !yours.processes.contains(process) {
                let what = format!("how process {} of server {:?} ended", process.conn, process.server);
                self.lost.head(&what);
            }
        }
        for (name, value) in &mine.extra {
            if !yours.extra.iter().any(|(other, same)| other == name && same == value) {
                self.lost.head(&format!("the head field {name:?}"));
            }
        }
        let start = |text: &str| clock::parse(text).map_or_else(|| text.to_owned(), |at| at.to_string());
        if start(&mine.recorded_at) != start(&yours.recorded_at) && !mine.recorded_at.is_empty() {
            self.notes.head("when the recording began is not kept, only when its first message came");
        }
        if mine.recorder != yours.recorder {
            self.notes.head("the name of the recorder is not kept");
        }
        if self.ours.timing != Timing::Known
            && !self.ours.records.is_empty()
            && self.theirs.timing == Timing::Known
        {
            self.notes
                .head("there are no times in the cassette, and the format must have some: they are made up");
        }
    }

    fn server(&mut self, name: &str, mine: &Server, yours: &Server) {
        if mine.transport != yours.transport {
            let what = format!("that server {name:?} was reached over {}", mine.transport.word());
            self.lost.head(&what);
        }
        let mut note = |differs: bool, what: &str| {
            if differs {
                self.notes.head(&format!("the {what} of server {name:?} is not kept"));
            }
        };
        note(!mine.command.is_empty() && mine.command != yours.command, "command line");
        note(mine.url.is_some() && mine.url != yours.url, "URL");
        note(mine.protocol != yours.protocol && !mine.protocol.is_empty(), "list of protocol revisions");
        let info = |info: &Option<String>| info.as_deref().and_then(canonical::of);
        note(mine.info.is_some() && info(&mine.info) != info(&yours.info), "name and version");
        for (field, value) in &mine.extra {
            if !yours.extra.iter().any(|(other, same)| other == field && same == value) {
                self.lost.head(&format!("the field {field:?} of server {name:?}"));
            }
        }
    }
}
