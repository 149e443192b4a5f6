//! What a client gets whose request was not recorded, and what the user is told of it.

use super::choose::Why;
use super::inputs::Inputs;
use super::live;
use super::nearest::{self, Alike, CANDIDATE_BYTES, CANDIDATES, Difference};
use super::player::{Output, Part, Player, Request};
use super::report::Miss;
use super::tape::Item;
use crate::jsonrpc::message::View;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::tree::Tree;
use crate::mcp::{self, Era, code};
use crate::redact::Written;

/// The way out where there is no other.
const RECORD_AGAIN: &str = "record again to add it";

impl Player {
    /// Reports a miss and answers it.
    pub(super) fn miss(&mut self, request: &Request<'_>, why: Why) {
        let name = mcp::target(&request.method, request.text, &request.view);
        let subject = self.subject(request);
        let mut nearest = None;
        let (why, hint) = match why {
            Why::Unknown => {
                nearest = self.nearest(request, name.as_deref());
                let first = nearest.as_ref().and_then(|(_, differs)| differs.first());
                let hint = match first {
                    Some(first) => {
                        format!(
                            "if the difference does not matter, --ignore {}; else record again",
                            first.path
                        )
                    }
                    None => self.other_era(request.era).unwrap_or_else(|| RECORD_AGAIN.to_owned()),
                };
                (format!("no recorded answer for {subject}"), hint)
            }
            Why::UsedUp { recorded, asked } => (
                format!(
                    "no recorded answer for {subject}: recorded {}, this is call {asked}",
                    times(recorded)
                ),
                "to answer again, --repeat last or --repeat cycle; else record again".to_owned(),
            ),
            Why::OutOfOrder { expected } => (
                match expected {
                    Some((expected, message)) => {
                        format!("{subject} is out of order: message {message}, {expected}, comes first")
                    }
                    None => format!("{subject} comes after the last recorded request"),
                },
                "to allow any order, --ordering per-key".to_owned(),
            ),
            Why::Bound { what } => (
                format!("no recorded answer for {subject}, and its {what} came from the cassette"),
                "the live server did not make it, so it was not asked; record again".to_owned(),
            ),
            Why::Placeholder => (
                format!("no recorded answer for {subject}, which holds a redacted value of the cassette"),
                "the live server was not asked, since it needs the true value; record again".to_owned(),
            ),
            Why::NoText => (
                format!("no recorded answer for {subject}, which is not UTF-8"),
                "the live server was not asked, which only gets text; record again".to_owned(),
            ),
        };
        let miss = Miss { method: subject.method, name: subject.name, why, nearest, hint };
        let line = live::error(request.id, code::MISS, &format!("mcpreel: {}", miss.why), Some(&miss.json()));
        self.out.push(Output::Note(miss.words()));
        self.count_miss(miss);
        self.answer(request.to(), Part::Made, line);
    }

    /// That the cassette holds the other era only, where it does, and the way out.
    pub(super) fn other_era(&self, era: Era) -> Option<String> {
        let other = match era {
            Era::Legacy if !self.tape.legacy && !self.tape.modern_versions.is_empty() => {
                "a modern client (2026-07-28)"
            }
            Era::Modern if self.tape.modern_versions.is_empty() && self.tape.legacy => {
                "a legacy client (initialize)"
            }
            _ => return None,
        };
        Some(format!("the cassette was recorded with {other}; use such a client, or record again"))
    }

    /// The recorded request of the same method and name with the fewest differences that count.
    fn nearest(&self, request: &Request<'_>, name: Option<&str>) -> Option<(u32, Vec<Difference>)> {
        let message = request.view.whole.of(request.text);
        let mut covered: Vec<String> =
            self.rules.redaction().find(message).into_iter().map(|hit| hit.path).collect();
        covered.sort();
        // Only as it may be shown. It may be large, and is read once for all it is compared with.
        let shown = self.rules.redacted(message);
        let live = Live {
            inputs: Inputs::of_request(message, &self.rules, Written::Live),
            params: Tree::of(params_of(&shown)).ok()?,
            covered,
        };
        let text = &self.tape.text;
        let named = self
            .index
            .all(&request.method)
            .iter()
            .filter_map(|&exchange| self.tape.request(exchange))
            .filter(|item| mcp::era(text, &item.view) == request.era)
            .filter(|item| mcp::target(&request.method, text, &item.view).as_deref() == name);
        let mut bytes = 0_usize;
        named
            .take(CANDIDATES)
            .filter(|item| {
                let with = bytes.saturating_add(item.view.whole.len());
                let fits = bytes == 0 || with <= CANDIDATE_BYTES;
                bytes = if fits { with } else { bytes };
                fits
            })
            .map(|item| (item.record, self.differences(item, &live)))
            .min_by_key(|(_, differs)| differs.iter().map(|it| it.weight).sum::<usize>())
    }

    /// Where a live request differs from a recorded one, as far as it matters.
    fn differences(&self, item: &Item, live: &Live<'_>) -> Vec<Difference> {
        let recorded = item.view.whole.of(&self.tape.text);
        let written = self.tape.written_within(item);
        let mut also_covered: Vec<String> = Tree::of(recorded)
            .map(|tree| self.rules.treatments(&tree, written).leaves)
            .unwrap_or_default()
            .into_iter()
            .map(|(path, _)| path)
            .collect();
        also_covered.sort();
        let old_inputs = Inputs::of_request(recorded, &self.rules, written);
        let settled =
            live.inputs.as_ref().zip(old_inputs).map_or(Vec::new(), |(live, recorded)| {
                live.settled(&recorded, self.options.inputs, &self.rules)
            });
        let covers = |covered: &[String], path: &str| {
            covered.binary_search_by(|known| known.as_str().cmp(path)).is_ok()
        };
        let skip = |path: &str| {
            path == "/params/_meta"
                || path == "/params/task/ttl"
                || covers(&live.covered, path)
                || covers(&also_covered, path)
                || settled.iter().any(|known| known == path)
                || self.rules.ignores(path)
        };
        let params = params_span(recorded);
        let Ok(old) = Tree::of(params.map_or("{}", |params| params.of(recorded))) else { return Vec::new() };
        let written = written.within(params.map_or(0, |params| params.start));
        let same = |path: &str, span: Span, live: &str| {
            let recorded = span.of(old.text);
            self.rules.same_class(path, recorded, live)
                || (item.redacted && self.rules.stands_for((recorded, written.within(span.start)), live))
        };
        nearest::differences("/params", &old, &live.params, &Alike { skip: &skip, same: &same })
    }
}

/// A live request that was not recorded.
struct Live<'a> {
    inputs: Option<Inputs<'a>>,
    /// Its parameters as they may be shown.
    params: Tree<'a>,
    /// Where redaction changed them, sorted.
    covered: Vec<String>,
}

fn params_span(message: &str) -> Option<Span> {
    View::of(message).ok().and_then(|view| view.params)
}

fn params_of(message: &str) -> &str {
    params_span(message).map_or("{}", |params| params.of(message))
}

fn times(n: usize) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}
