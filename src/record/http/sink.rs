//! HTTP exchanges as a segment.

use std::borrow::Cow;
use std::io;
use std::time::Instant;

use super::super::writer::{Line, Start, Writer};
use super::super::{Captured, Ending, From, Sink};
use super::item::{End, Item};
use crate::jsonrpc::message::View;
use crate::jsonrpc::scan::Members;
use crate::jsonrpc::string;
use crate::mcp::{self, headers};

/// Objects inside of each other in which an argument is looked for. Schemas of tools are flat.
const DEPTH: usize = 16;

/// The recorder's end of a segment.
#[derive(Debug)]
pub struct Segment(Writer);

impl Segment {
    /// Writes the head.
    pub fn start(start: Start) -> io::Result<Self> {
        Writer::start(start).map(Self)
    }

    fn push(&mut self, captured: &Captured<'_>) {
        let Some(item) = Item::decode(captured.from, captured.line) else { return };
        let mut line = Line {
            at: captured.at,
            from: item.from,
            scope: item.scope,
            session: item.session,
            exchange: item.exchange,
            get: item.get,
            http: "",
            end: None,
            // That an answer is empty is worth a word where a request waits for one.
            body: item.body.filter(|body| !body.is_empty() || self.0.is_open(item.scope)),
        };
        if let Some(end) = item.end {
            if item.get && end == End::RecorderEnded {
                // On HTTP+SSE, their answers would have come on this stream.
                for exchange in self.0.waiting(item.scope) {
                    self.0.push(&Line {
                        exchange,
                        get: false,
                        end: Some("recorder_ended"),
                        body: None,
                        ..line
                    });
                }
            }
            line.end = self.end_of(&item, end);
            if line.end.is_some() {
                self.0.push(&line);
            }
            return;
        }
        let mut facts = item.facts.to_owned();
        for (name, value) in self.disagreeing(&item) {
            facts.push_str(if facts.is_empty() { "" } else { "," });
            facts.push_str(&format!("{}:{}", string::encode(&name), string::encode(&value)));
        }
        let http = if facts.is_empty() { String::new() } else { format!("{{{facts}}}") };
        line.http = &http;
        self.0.push(&line);
        self.after(&item);
    }

    /// How an exchange ended, where that was not by a complete answer.
    fn end_of(&mut self, item: &Item<'_>, end: End) -> Option<&'static str> {
        // A standalone stream has no answer that could be complete, nor has a request that is answered elsewhere and
        // was not even accepted.
        let elsewhere = item.scope != item.exchange;
        let incomplete = item.get || elsewhere || end == End::CutBody || self.0.is_open(item.scope);
        // What ends with its client anyway has missed nothing.
        let lasting = item.get || self.0.only_listens(item.scope);
        // A stream that was cut may go on in a further request.
        if item.whole && !elsewhere {
            self.0.forget(item.scope);
        }
        incomplete.then_some(match end {
            End::Finished | End::Cut | End::CutBody => "cut",
            End::RecorderEnded if !lasting => "recorder_ended",
            End::ClientClosed | End::RecorderEnded => "client_closed",
            End::NotKept => "not_kept",
        })
    }

    fn after(&mut self, item: &Item<'_>) {
        if item.whole && item.scope == item.exchange {
            self.0.forget(item.scope);
        }
    }

    /// The headers that repeat a part of the body, where they do not agree with it.
    fn disagreeing(&self, item: &Item<'_>) -> Vec<(String, String)> {
        if item.mirrors.is_empty() {
            return Vec::new();
        }
        let text = item.body.and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default();
        let view = View::of(text).ok();
        let mirrors = item.mirrors.lines().filter_map(|line| line.split_once(": "));
        mirrors
            .map(|(name, value)| (name.to_owned(), decoded(value)))
            .filter(|(name, value)| match &view {
                Some(view) => !self.agrees(name, value, text, view),
                None => name != headers::VERSION || !self.is_agreed(value),
            })
            .collect()
    }

    fn is_agreed(&self, version: &str) -> bool {
        self.0.server().protocol.iter().any(|known| known == version)
    }

    fn agrees(&self, name: &str, value: &str, text: &str, view: &View) -> bool {
        let method = view.method_name(text);
        match name {
            headers::METHOD => value == method,
            headers::NAME => mcp::target(&method, text, view).is_some_and(|target| target == value),
            headers::VERSION => match mcp::version(text, view) {
                Some(version) => version == value,
                // Legacy bodies do not repeat it: it is the version that was agreed on.
                None => self.is_agreed(value),
            },
            _ => view.params.is_some_and(|params| has_argument(text, params.start, value, DEPTH)),
        }
    }
}

/// Whether a string, number or boolean below the value at `start` reads like `value`. Which parameter a header
/// repeats is said in the tool's schema, which need not be known here. What is deeper than `depth` is not looked at: each
/// level is read again for the one above it.
fn has_argument(text: &str, start: usize, value: &str, depth: usize) -> bool {
    let Some(mut members) = Members::of(text, start) else { return false };
    while let Ok(Some((_, found))) = members.next() {
        let literal = found.of(text);
        let equal = match literal.as_bytes().first() {
            Some(b'"') => string::is(literal, value),
            Some(b'{') => depth > 0 && has_argument(text, found.start, value, depth - 1),
            _ => literal == value,
        };
        if equal {
            return true;
        }
    }
    false
}

/// What a header value stands for; one that is damaged, itself.
fn decoded(value: &str) -> String {
    headers::decoded(value.as_bytes()).map_or_else(|| value.to_owned(), Cow::into_owned)
}

impl Sink for Segment {
    fn begun(&self) -> Instant {
        self.0.begun()
    }

    fn prepare(&mut self, batch: &[Captured<'_>]) {
        self.0.clear();
        batch.iter().for_each(|captured| self.push(captured));
    }

    /// Writes what was prepared.
    fn append(&mut self, _batch: &[Captured<'_>]) -> io::Result<()> {
        self.0.append()
    }

    fn ending(&mut self, end: &Ending) -> io::Result<()> {
        self.0.end(end.reason.word(), Vec::new())
    }
}

/// An item for the queue.
pub(super) fn parcel(item: &Item<'_>) -> super::super::queue::Parcel<'static> {
    let from: From = item.from;
    super::super::queue::Parcel { from, carried: Some(item.encode()), torn: false, whole: &[], count: 1 }
}
