//! A cassette as `inspect` looks at it: every message by itself, and who answers whom.

use std::collections::{HashMap, HashSet, VecDeque};

use super::Filter;
use crate::cassette::{Body, Cassette, Head, Record, Side, Timing};
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::elements;
use crate::jsonrpc::{pretty, string};
use crate::mcp;
use crate::replay::tape::{Outcome, Step, Tape};

/// One message, or a record that holds none.
pub(in crate::cli) struct Message {
    /// Its record's index in the cassette.
    pub(in crate::cli) record: usize,
    /// Its members, when it is JSON.
    pub(in crate::cli) view: Option<View>,
    /// Its place in a batch.
    pub(in crate::cli) batch: Option<usize>,
    /// The message it answers.
    pub(in crate::cli) answers: Option<usize>,
    /// The exchange it belongs to, an index into [`Reel::calls`].
    pub(in crate::cli) call: Option<usize>,
}

impl Message {
    /// Its record's index, and its place where that is a batch.
    pub(in crate::cli) fn number(&self) -> String {
        match self.batch {
            Some(part) => format!("{}.{part}", self.record),
            None => self.record.to_string(),
        }
    }
}

/// A request of the client and what came of it.
pub(in crate::cli) struct Call {
    /// The request's message.
    pub(in crate::cli) request: usize,
    /// The answer's message.
    pub(in crate::cli) answer: Option<usize>,
    /// How it ended.
    pub(in crate::cli) outcome: Outcome,
    /// All messages of it, in order.
    pub(in crate::cli) messages: Vec<usize>,
}

pub(in crate::cli) struct Reel {
    pub(in crate::cli) cassette: Cassette,
    pub(in crate::cli) messages: Vec<Message>,
    pub(in crate::cli) calls: Vec<Call>,
}

impl Reel {
    pub(in crate::cli) fn new(cassette: Cassette) -> Self {
        let mut reel = Self { messages: messages(&cassette), calls: Vec::new(), cassette };
        reel.collect_calls();
        reel.add_pings();
        reel.pair_questions();
        reel.attach();
        reel
    }

    fn collect_calls(&mut self) {
        let places: HashMap<(usize, usize), usize> = self
            .messages
            .iter()
            .enumerate()
            .filter_map(|(index, message)| Some(((message.record, message.view?.whole.start), index)))
            .collect();
        // Each server's part by itself, so that all of them together are read once. The text goes around.
        let mut text = std::mem::take(&mut self.cassette.text);
        for (part, numbers) in self.parts() {
            let tape = Tape::new(Cassette { text, ..part }, 0);
            let place = |item: u32| {
                let item = tape.item(item)?;
                let record = numbers.get(usize::try_from(item.record).ok()?)?;
                places.get(&(*record, item.view.whole.start)).copied()
            };
            for exchange in &tape.exchanges {
                let Some(request) = place(exchange.request) else { continue };
                let mut call =
                    Call { request, answer: None, outcome: exchange.outcome, messages: vec![request] };
                for step in &exchange.steps {
                    let item = match step {
                        Step::Send(item) | Step::Ask(item) | Step::Await(_, item) | Step::Answer(item) => {
                            *item
                        }
                        Step::Cancelled | Step::Resumed => continue,
                    };
                    call.messages.extend(place(item));
                    if matches!(step, Step::Answer(_)) {
                        call.answer = place(item);
                    }
                }
                self.calls.push(call);
            }
            text = tape.text;
        }
        self.cassette.text = text;
    }

    /// For each server a cassette that holds it alone, without the text, and the indexes of its records.
    fn parts(&self) -> Vec<(Cassette, Vec<usize>)> {
        let Cassette { head, records, timing, .. } = &self.cassette;
        let mut parts: Vec<(Cassette, Vec<usize>)> = Vec::with_capacity(head.servers.len());
        let mut places = HashMap::new();
        for server in &head.servers {
            places.entry(server.0.as_str()).or_insert(parts.len());
            let head = Head { servers: vec![server.clone()], ..Head::default() };
            let part = Cassette {
                head,
                text: String::new(),
                records: Vec::new(),
                timing: *timing,
                warnings: Vec::new(),
            };
            parts.push((part, Vec::new()));
        }
        for process in &head.processes {
            let part = places.get(process.server.as_str()).and_then(|&place| parts.get_mut(place));
            part.into_iter().for_each(|(part, _)| part.head.processes.push(process.clone()));
        }
        for (index, record) in records.iter().enumerate() {
            let part = usize::try_from(record.server).ok().and_then(|server| parts.get_mut(server));
            let Some((part, numbers)) = part else { continue };
            part.records.push(Record { server: 0, ..record.clone() });
            numbers.push(index);
        }
        parts
    }

    /// The client's pings, which a tape does not hold since a replay answers them by itself.
    fn add_pings(&mut self) {
        let answers: HashSet<usize> = self.calls.iter().filter_map(|call| call.answer).collect();
        let mut open: HashMap<(u32, u32, u32, &str), VecDeque<usize>> = HashMap::new();
        let text = &self.cassette.text;
        for (index, message) in self.messages.iter().enumerate() {
            let Some((record, view)) = self.cassette.records.get(message.record).zip(message.view) else {
                continue;
            };
            let key = (record.server, record.conn, record.session, view.id.map_or("", |id| id.of(text)));
            match (record.from, view.shape) {
                (Side::Client, Shape::Request) if view.method_name(text) == "ping" => {
                    open.entry(key).or_default().push_back(self.calls.len());
                    let outcome = Outcome::Open;
                    self.calls.push(Call { request: index, answer: None, outcome, messages: vec![index] });
                }
                (Side::Server, Shape::Response) if !answers.contains(&index) => {
                    let ping = open.get_mut(&key).and_then(VecDeque::pop_front);
                    if let Some(call) = ping.and_then(|ping| self.calls.get_mut(ping)) {
                        (call.answer, call.outcome) = (Some(index), Outcome::Answered);
                        call.messages.push(index);
                    }
                }
                _ => {}
            }
        }
        self.calls.sort_by_key(|call| call.request);
    }

    /// Answers of the client to the server, each to the oldest question of its id on its connection.
    fn pair_questions(&mut self) {
        let mut open: HashMap<(u32, u32, u32, String), VecDeque<usize>> = HashMap::new();
        for index in 0..self.messages.len() {
            let Some((message, view)) = self.messages.get(index).and_then(|it| Some((it, it.view?))) else {
                continue;
            };
            let Some(record) = self.cassette.records.get(message.record) else { continue };
            let id = view.id.map_or("", |id| id.of(&self.cassette.text)).to_owned();
            let key = (record.server, record.conn, record.session, id);
            match (record.from, view.shape) {
                (Side::Server, Shape::Request) => open.entry(key).or_default().push_back(index),
                (Side::Client, Shape::Response) => {
                    let question = open.get_mut(&key).and_then(VecDeque::pop_front);
                    if let Some(message) = self.messages.get_mut(index) {
                        message.answers = question;
                    }
                }
                _ => {}
            }
        }
    }

    /// Tells every message which exchange it belongs to: by the tape, by the HTTP exchange, or as a cancellation.
    fn attach(&mut self) {
        let mut by_http: HashMap<(u32, u32), usize> = HashMap::new();
        for (index, call) in self.calls.iter().enumerate() {
            for &message in &call.messages {
                if let Some(message) = self.messages.get_mut(message) {
                    message.call.get_or_insert(index);
                }
            }
            if let Some(answer) = call.answer.and_then(|answer| self.messages.get_mut(answer)) {
                answer.answers = Some(call.request);
            }
            let record =
                self.messages.get(call.request).and_then(|message| self.cassette.records.get(message.record));
            if let Some(record) = record.filter(|record| record.exchange > 0) {
                by_http.entry((record.server, record.exchange)).or_insert(index);
            }
        }
        for index in 0..self.messages.len() {
            let Some(message) = self.messages.get(index).filter(|message| message.call.is_none()) else {
                continue;
            };
            let Some(record) = self.cassette.records.get(message.record) else { continue };
            let http = by_http.get(&(record.server, record.exchange)).copied();
            let Some(call) = self.cancelled_call(index).or(http) else { continue };
            if let Some(message) = self.messages.get_mut(index) {
                message.call = Some(call);
            }
            if let Some(call) = self.calls.get_mut(call) {
                call.messages.push(index);
            }
        }
        for call in &mut self.calls {
            call.messages.sort_unstable();
            call.messages.dedup();
        }
    }

    /// The last request before it with the id that a cancellation names.
    fn cancelled_call(&self, index: usize) -> Option<usize> {
        let (message, record) = self.at(index)?;
        let (view, text) = (message.view?, &self.cassette.text);
        if record.from != Side::Client || self.method(index)? != "notifications/cancelled" {
            return None;
        }
        let id = member(text, view.params?, "requestId")?.of(text);
        let before = self.calls.partition_point(|call| call.request < index);
        self.calls.get(..before)?.iter().rposition(|call| {
            self.at(call.request).is_some_and(|(request, other)| {
                let same =
                    (other.server, other.conn, other.session) == (record.server, record.conn, record.session);
                same && request.view.and_then(|view| view.id).is_some_and(|own| own.of(text) == id)
            })
        })
    }

    pub(in crate::cli) fn at(&self, index: usize) -> Option<(&Message, &Record)> {
        let message = self.messages.get(index)?;
        Some((message, self.cassette.records.get(message.record)?))
    }

    /// When a message came; `None` when the cassette does not say.
    pub(in crate::cli) fn time(&self, index: usize) -> Option<u64> {
        let (_, record) = self.at(index)?;
        (self.cassette.timing == Timing::Known).then_some(record.at)
    }

    /// How long after the message that it answers it came.
    pub(in crate::cli) fn wait(&self, index: usize) -> Option<u64> {
        let asked = self.messages.get(index)?.answers?;
        Some(self.time(index)?.saturating_sub(self.time(asked)?))
    }

    pub(in crate::cli) fn method(&self, index: usize) -> Option<String> {
        let view = self.messages.get(index)?.view?;
        view.method.map(|_| view.method_name(&self.cassette.text).into_owned())
    }

    /// What a request is about: the tool, the prompt, the resource.
    pub(in crate::cli) fn target(&self, index: usize) -> Option<String> {
        let view = self.messages.get(index)?.view?;
        mcp::target(&self.method(index)?, &self.cassette.text, &view)
    }

    /// Whether it says that something failed: an error, or a tool result that is marked as one.
    pub(in crate::cli) fn error(&self, index: usize) -> Option<String> {
        let view = self.messages.get(index)?.view?;
        let text = &self.cassette.text;
        if let Some(error) = view.error {
            let code = member(text, error, "code").map_or("", |code| code.of(text));
            let message = member(text, error, "message").map(|message| string::decode(message.of(text)));
            return Some(format!("error {code} {}", message.unwrap_or_default()).trim_end().to_owned());
        }
        let failed = member(text, view.result?, "isError").is_some_and(|flag| flag.of(text) == "true");
        failed.then(|| {
            let content = member_at(text, view.result.unwrap_or_default(), &["content"]);
            let first = content.and_then(|list| elements(text, list).ok()?.first().copied());
            let words = first
                .and_then(|first| member(text, first, "text"))
                .map(|words| string::decode(words.of(text)));
            format!("tool error {}", words.unwrap_or_default()).trim_end().to_owned()
        })
    }

    /// What kind of message it is, in one word.
    pub(in crate::cli) fn kind(&self, index: usize) -> &'static str {
        let Some((message, record)) = self.at(index) else { return "" };
        match (message.view.map(|view| view.shape), &record.body) {
            (Some(Shape::Request), _) => "request",
            (Some(Shape::Notification), _) => "notification",
            (Some(Shape::Response), _) => "response",
            (Some(Shape::Batch), _) => "batch",
            (Some(Shape::Other), _) => "json",
            (None, Body::Text(_)) => "text",
            (None, Body::Base64(_)) => "base64",
            (None, _) => "transport",
        }
    }

    /// The text of the message without insignificant white space; of a line that is no JSON, the line.
    pub(in crate::cli) fn body(&self, index: usize) -> String {
        let Some((message, record)) = self.at(index) else { return String::new() };
        let text = &self.cassette.text;
        match (message.view, &record.body) {
            (Some(view), _) => pretty::packed(view.whole.of(text)),
            (None, Body::Text(span) | Body::Base64(span)) => string::decode(span.of(text)).into_owned(),
            (None, _) => record.more.as_ref().and_then(|more| more.http.clone()).unwrap_or_default(),
        }
    }

    pub(super) fn is_wanted(&self, index: usize, filter: &Filter) -> bool {
        let Some((message, record)) = self.at(index) else { return false };
        let method = || self.method(index).or_else(|| self.method(message.answers?));
        filter.server.is_none_or(|server| record.server == server)
            && filter
                .method
                .as_ref()
                .is_none_or(|wanted| method().is_some_and(|method| wanted.is_match(&method)))
            && filter.grep.as_ref().is_none_or(|wanted| wanted.is_match(&self.body(index)))
    }
}

/// The messages of all records, batches taken apart.
fn messages(cassette: &Cassette) -> Vec<Message> {
    let mut messages = Vec::with_capacity(cassette.records.len());
    for (index, record) in cassette.records.iter().enumerate() {
        let message = |view, batch| Message { record: index, view, batch, answers: None, call: None };
        let view = record.view().copied();
        let parts = match view {
            Some(view) if view.shape == Shape::Batch => {
                elements(&cassette.text, view.whole).unwrap_or_default()
            }
            _ => Vec::new(),
        };
        if parts.is_empty() {
            messages.push(message(view, None));
        }
        for (place, part) in parts.into_iter().enumerate() {
            messages.push(message(View::at(&cassette.text, part.start).ok(), Some(place)));
        }
    }
    messages
}
