//! What one look at a text knows: the rules, the values seen earlier, and who speaks.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use super::document::{Document, Found, Hit, New, Removal};
use super::echo::Echoes;
use super::encoded;
use super::nested;
use super::overlap;
use super::placeholder::is_placeholder;
use super::prose;
use super::rules::{PLACEHOLDER, Rules};
use super::triggers::Triggers;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::tree::Tree;

#[cfg(test)]
thread_local! {
    /// Filters are not asked.
    pub(super) static THOROUGH: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// What is looked for in a string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Scope {
    /// Everything.
    All,
    /// Its value routes (a name, a URI, a cursor): credentials only.
    Routing,
}

/// A look at texts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look<'a> {
    pub(super) rules: &'a Rules,
    /// Values that were found under their keys.
    pub(super) echoes: Option<&'a Echoes>,
    /// A client speaks: rules that are about servers do not count.
    pub(super) client: bool,
    /// The text was redacted: placeholders in it stand for what was there.
    pub(super) placeholders: bool,
    /// The names of members may be placeholders, though other texts are none: a client that was given one sends it.
    pub(super) named: bool,
}

impl<'a> Look<'a> {
    pub(super) fn of(rules: &'a Rules) -> Self {
        Self { rules, echoes: None, client: false, placeholders: false, named: true }
    }

    /// Everything is looked through, whatever the filters say.
    pub(super) fn is_thorough(&self) -> bool {
        #[cfg(test)]
        if THOROUGH.get() {
            return true;
        }
        self.placeholders
    }

    /// Whether anything can be found in a message.
    pub(super) fn message(&self, text: &str) -> bool {
        self.is_thorough() || self.may_hold(text) || self.rules.prefilter().pointers(text)
    }

    /// Whether anything can be found in a string, given raw or decoded.
    pub(super) fn string(&self, text: &str, scope: Scope) -> bool {
        match scope {
            _ if self.is_thorough() => true,
            Scope::All => self.may_hold(text),
            Scope::Routing => {
                self.echoes.is_some_and(|echoes| echoes.may_be_in(text.as_bytes()))
                    || self.rules.may_match(text, true)
                    || (nested::is_url(text.trim_start_matches('"')) && self.rules.prefilter().keys(text))
            }
        }
    }

    fn may_hold(&self, text: &str) -> bool {
        let filter = self.rules.prefilter();
        let told = match filter.keys_and_tokens(text) {
            Some(told) => told || self.rules.may_match_besides(text),
            // Where the filter of names is asked, it says no for escapes too.
            None => filter.keys(text) || self.rules.may_match(text, !filter.sees_escapes()),
        };
        told || self.echoes.is_some_and(|echoes| echoes.may_be_in(text.as_bytes()))
            || (!self.rules.is_empty() && encoded::may_hold_text(text.as_bytes()))
    }

    /// What has to be replaced in a message.
    pub(super) fn hits(&self, text: &str) -> Vec<Hit> {
        if self.message(text) { self.all_hits(text) } else { Vec::new() }
    }

    /// The same for a message that is known to be worth it.
    pub(super) fn all_hits(&self, text: &str) -> Vec<Hit> {
        Tree::of(text).map_or_else(|_| Vec::new(), |tree| Document::message(self, &tree).hits())
    }

    /// What has to be replaced in free text.
    pub(super) fn plain(&self, text: &str) -> Vec<Hit> {
        let mut hits = nested::open(self, text, 0, "", Scope::All).hits;
        hits.retain(|hit| !hit.stays);
        hits
    }

    /// Adds what stands in a decoded string as such: named values, what rules over text match, Base64, echoes.
    /// `structure` is what was opened already, in order; `None` when the text has its own syntax for names.
    pub(super) fn parts(
        &self,
        text: &str,
        structure: Option<&[Span]>,
        level: usize,
        path: &str,
        scope: Scope,
        found: &mut Found,
    ) {
        let mut echoed = Vec::new();
        self.echoes.into_iter().for_each(|echoes| echoes.find(text, &mut echoed));
        let spans: Vec<Span> = echoed.iter().map(|(_, span, _)| *span).collect();
        let mut opened = structure.map(<[Span]>::to_vec);
        if overlap::yield_to(&spans, found, opened.get_or_insert_default())
            && let Some((_, span, value)) = echoed.first_mut()
        {
            *found = Found::default();
            (*span, *value) = (Span::new(0, text.len()), text.to_owned());
            echoed.truncate(1);
        }
        let structure = structure.and(opened.as_deref());
        let mut parts = Parts { text, path, taken: BTreeMap::new(), list: Vec::new() };
        // What was found in structure lies inside it.
        match structure.filter(|structure| !structure.is_empty()) {
            Some(structure) => parts.taken.extend(structure.iter().map(|span| (span.start, span.end))),
            None => parts.taken.extend(found.hits.iter().map(|hit| (hit.span.start, hit.span.end))),
        }
        if self.placeholders {
            for span in self.rules.placeholders(text) {
                parts.add(PLACEHOLDER, span, span.of(text), true);
            }
        }
        // What is in fields was decoded already; what stands beside them is text.
        let fields =
            if structure.is_none() && level < nested::DEEPEST { nested::field_spans(text) } else { None };
        if let Some(inside) = structure.or(fields.as_deref())
            && scope == Scope::All
            && (self.is_thorough() || self.rules.prefilter().plain(text))
        {
            // What is named inside of an echo goes with it.
            let is_in =
                |echo: &Span, span: Span| *echo != span && echo.start <= span.start && span.end <= echo.end;
            for (rule, span, _) in prose::find(self.rules, text, inside) {
                let span = if structure.is_some() { Some(span) } else { beside(text, inside, span) };
                if let Some(span) = span.filter(|span| !spans.iter().any(|echo| is_in(echo, *span))) {
                    parts.add_value(self.rules, rule, span);
                }
            }
        }
        let known = self.rules.has_hinted() && !self.is_thorough();
        let triggers = if known { Triggers::of(text.as_bytes()) } else { Triggers::ALL };
        let mut matches: Vec<(Span, usize, Option<String>)> = Vec::new();
        for (rule, pattern) in self.rules.texts() {
            if (self.client && pattern.server_only) || (scope == Scope::Routing && pattern.personal) {
                continue;
            }
            let mut spans = Vec::new();
            pattern.find(text, triggers, &mut spans);
            matches.extend(spans.into_iter().map(|span| (span, rule, None)));
        }
        matches.extend(echoed.into_iter().map(|(rule, span, value)| (span, rule, Some(value))));
        // The earliest first, then the widest, then what is no echo, then the rule that comes first.
        matches.sort_by_key(|(span, rule, echo)| (span.start, Reverse(span.end), echo.is_some(), *rule));
        for (span, rule, echo) in matches {
            match echo {
                Some(value) => parts.add(rule, span, &value, false),
                None => parts.add_value(self.rules, rule, span),
            }
        }
        if scope == Scope::All && level < nested::DEEPEST && !self.rules.is_empty() {
            let in_field = |span: Span| {
                fields.iter().flatten().any(|field| field.start < span.end && span.start < field.end)
            };
            let percent = if structure.is_some() || fields.is_some() {
                encoded::percent_texts(text)
            } else {
                Vec::new()
            };
            let percent = percent.into_iter().filter(|(span, _)| !in_field(*span));
            for (span, decoded) in encoded::texts(text).into_iter().chain(percent) {
                let inner = Look { placeholders: false, ..*self };
                let mut hits = nested::open(&inner, &decoded, level + 1, path, scope).hits;
                hits.retain(|hit| !hit.stays);
                if let Some(hit) = hits.first() {
                    parts.add(hit.rule, span, span.of(text), false);
                }
            }
        }
        parts.finish(self.rules, found);
    }
}

/// What is named in a URL or a form beside its fields (`/x?token=y` in a fragment): nothing but what stands behind an
/// equals sign, up to the next field.
fn beside(text: &str, fields: &[Span], span: Span) -> Option<Span> {
    let next = fields.get(fields.partition_point(|field| field.start <= span.start));
    let end = next.map_or(span.end, |field| span.end.min(field.start.saturating_sub(1)));
    let named = text.get(..span.start)?.ends_with('=') && span.start < end;
    named.then(|| Span::new(span.start, end))
}

/// Parts of a string that were found, none of which overlaps another.
struct Parts<'t> {
    text: &'t str,
    path: &'t str,
    /// By start, where each ends; none overlaps another.
    taken: BTreeMap<usize, usize>,
    list: Vec<Hit>,
}

impl Parts<'_> {
    fn add_value(&mut self, rules: &Rules, rule: usize, span: Span) {
        let value = span.of(self.text);
        let stays = value.is_empty() || is_placeholder(value) || rules.text(rule) == Some(value);
        self.add(rule, span, value, stays);
    }

    /// Adds what is left of a find where others have not been; all of it has to go.
    fn add(&mut self, rule: usize, span: Span, value: &str, stays: bool) {
        let mut start = span.start;
        let before = self.taken.range(..span.end).rev();
        let mut over: Vec<Span> = before
            .take_while(|(_, end)| **end > span.start)
            .map(|(start, end)| Span::new(*start, *end))
            .collect();
        over.reverse();
        let whole = over.is_empty();
        over.push(Span::new(span.end, span.end));
        for taken in over {
            let rest = Span::new(start, taken.start.max(start));
            start = start.max(taken.end);
            // Punctuation between two finds tells nothing.
            let told = rest.of(self.text).chars().any(char::is_alphanumeric);
            if rest.is_empty() || !(whole || told) {
                continue;
            }
            let value = if whole { value } else { rest.of(self.text) }.to_owned();
            self.taken.insert(rest.start, rest.end);
            self.list.push(Hit {
                span: rest,
                rule,
                path: self.path.to_owned(),
                value,
                number: false,
                encodings: Vec::new(),
                part: true,
                stays,
            });
        }
    }

    fn finish(self, rules: &Rules, found: &mut Found) {
        if self.list.is_empty() {
            return;
        }
        let list = overlap::join(rules, self.text, self.list);
        for hit in &list {
            found.removals.push(Removal { span: hit.span, new: New::Part(hit.value.clone()) });
        }
        found.hits.extend(list);
        found.hits.sort_by_key(|hit| hit.span);
        found.removals.sort_by_key(|removal| removal.span);
    }
}
