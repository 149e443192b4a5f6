//! One JSON text under the rules: what a walk covers, and what is found in the strings that it leaves.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::look::{Look, Scope};
use super::nested;
use super::placeholder::is_placeholder;
use super::rules::PLACEHOLDER;
use super::walk::Walk;
use super::written::Written;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

/// How a value is written where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// Inside a JSON string.
    Json,
    /// In a form body or a URL's query.
    Percent,
}

/// A value that has to be replaced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Where it stands in the text: the inside of a string, or a whole number.
    pub span: Span,
    /// The rule, for [`Rules::id`](super::Rules::id).
    pub rule: usize,
    /// The JSON pointer of the value; `#` and a further pointer (or a field's name) lead into text it holds.
    pub path: String,
    /// The value itself, decoded.
    pub value: String,
    /// Whether it is a number.
    pub number: bool,
    /// How text must be written to stand there, innermost first.
    pub encodings: Vec<Encoding>,
    /// It was found in the middle of other text, not under a name of its own.
    pub part: bool,
    /// Empty or a placeholder: covered by a rule, and nothing to replace.
    pub(super) stays: bool,
}

impl Hit {
    /// `text` as it has to be written in the place of the value.
    #[must_use]
    pub fn encode(&self, text: &str) -> String {
        self.encodings.iter().fold(text.to_owned(), |text, encoding| match encoding {
            Encoding::Json => {
                let mut out = String::with_capacity(text.len());
                string::escape_into(&mut out, &text);
                out
            }
            // In the middle of text, what a query may have as it is (RFC 3986, section 3.4) stays readable.
            Encoding::Percent if self.part => percent_encode(&text, b"-_.~@:/"),
            Encoding::Percent => percent_encode(&text, b"-_.~"),
        })
    }
}

pub(super) fn percent_encode(text: &str, plain: &[u8]) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// What stands for a covered element of an array in comparisons. Digits need no escaping at any depth.
const ELEMENT: &str = "0";

/// What is compared in the place of something that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum New {
    /// This text: what was found is gone as if it had never been written.
    Text(&'static str),
    /// Anything: this was found in the middle of other text.
    Part(String),
}

/// A part of a text to be left out, or replaced, before texts are compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Removal {
    pub(super) span: Span,
    pub(super) new: New,
}

impl Removal {
    fn text(span: Span, text: &'static str) -> Self {
        Self { span, new: New::Text(text) }
    }
}

/// What was found in a text. Spans are in order and do not overlap.
#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) hits: Vec<Hit>,
    pub(super) removals: Vec<Removal>,
}

impl Found {
    /// Turns the spans of a decoded text into those of the literal it was decoded from, which stands at `at`.
    pub(super) fn lift(&mut self, literal: &str, at: usize) {
        let hits: Vec<Span> = self.hits.iter().map(|hit| hit.span).collect();
        for (hit, span) in self.hits.iter_mut().zip(string::locate(literal, &hits)) {
            hit.span = span.shifted(at);
            hit.encodings.push(Encoding::Json);
        }
        let removals: Vec<Span> = self.removals.iter().map(|removal| removal.span).collect();
        for (removal, span) in self.removals.iter_mut().zip(string::locate(literal, &removals)) {
            removal.span = span.shifted(at);
        }
    }
}

/// A JSON text, walked, with its strings opened.
#[derive(Debug)]
pub(super) struct Document<'t, 'a> {
    pub(super) tree: &'t Tree<'a>,
    pub(super) walk: Walk,
    /// Covered values at any level, in document order.
    pub(super) hits: Vec<Hit>,
    /// Strings in which something is covered, with what to leave out of them.
    pub(super) opened: Vec<(usize, Vec<Removal>)>,
    /// The same for members' names.
    pub(super) names: Vec<(usize, Vec<Removal>)>,
}

impl<'t, 'a> Document<'t, 'a> {
    /// A message.
    pub(super) fn message(look: &Look<'_>, tree: &'t Tree<'a>) -> Self {
        Self::of(look, tree, Walk::of(look, tree, true), 0, "")
    }

    /// A message, in which what only looks like a placeholder is text.
    pub(super) fn compared(look: &Look<'_>, tree: &'t Tree<'a>, written: Written<'_>) -> Self {
        let mut document = Self::message(look, tree);
        match written {
            Written::At { .. } => {
                document.take_for_text(|hit| hit.rule == PLACEHOLDER && !written.covers(hit.span));
            }
            // Rules over text leave alone what looks like a placeholder, and would find it nevertheless.
            Written::Nothing => document.take_for_text(|hit| {
                hit.part && !look.rules.is_structural(hit.rule) && is_placeholder(&hit.value)
            }),
            Written::Live | Written::All => {}
        }
        document
    }

    /// Some of what was found in the middle of text is none of what is looked for.
    fn take_for_text(&mut self, is_text: impl Fn(&Hit) -> bool) {
        let own: Vec<Span> = self.hits.iter().filter(|hit| is_text(hit)).map(|hit| hit.span).collect();
        if own.is_empty() {
            return;
        }
        let is_own = |span: Span| own.binary_search(&span).is_ok();
        self.hits.retain(|hit| !is_text(hit));
        for list in [&mut self.opened, &mut self.names] {
            for (_, removals) in list.iter_mut() {
                removals.retain(|removal| !(matches!(removal.new, New::Part(_)) && is_own(removal.span)));
            }
            list.retain(|(_, removals)| !removals.is_empty());
        }
    }

    /// Where texts that look like placeholders were found, in order.
    pub(super) fn placeholders(&self) -> Vec<Span> {
        self.hits.iter().filter(|hit| hit.rule == PLACEHOLDER).map(|hit| hit.span).collect()
    }

    /// A text inside a string, `level` strings deep.
    pub(super) fn inner(look: &Look<'_>, tree: &'t Tree<'a>, level: usize, path: &str) -> Self {
        Self::of(look, tree, Walk::of(look, tree, false), level, path)
    }

    fn of(look: &Look<'_>, tree: &'t Tree<'a>, walk: Walk, level: usize, path: &str) -> Self {
        let mut document = Self { tree, walk, hits: Vec::new(), opened: Vec::new(), names: Vec::new() };
        for mark in &document.walk.marks {
            let Some(node) = tree.node(mark.node) else { continue };
            let literal = node.span.of(tree.text);
            let path = path.to_owned() + &document.walk.pointer(tree, mark.node);
            let hit = |span, value: String, number, encodings, stays| Hit {
                span,
                rule: mark.rule,
                path,
                value,
                number,
                encodings,
                part: false,
                stays,
            };
            document.hits.push(match node.kind {
                Kind::String => {
                    let value = decode(literal).into_owned();
                    let stays = value.is_empty()
                        || is_placeholder(&value)
                        || look.rules.text(mark.rule) == Some(value.as_str());
                    let inner = Span::new(node.span.start + 1, node.span.end - 1);
                    hit(inner, value, false, vec![Encoding::Json], stays)
                }
                Kind::Number => hit(node.span, literal.to_owned(), true, Vec::new(), literal == "0"),
                _ => hit(node.span, String::new(), false, Vec::new(), true),
            });
        }
        for (index, scope) in document.walk.open.clone() {
            let Some(node) = tree.node(index) else { continue };
            let path = path.to_owned() + &document.walk.pointer(tree, index);
            if let Some(removals) = document.open(look, node.span, level, &path, scope) {
                document.opened.push((index, removals));
            }
        }
        // Such a name takes the place of any other one.
        let named = Look { placeholders: look.named, ..*look };
        for index in document.walk.names.clone() {
            let Some(name) = tree.node(index).and_then(|node| node.name) else { continue };
            let path = path.to_owned() + &document.walk.pointer(tree, index);
            let mut found = Found::default();
            let literal = name.of(tree.text);
            named.parts(&decode(literal), None, nested::DEEPEST, &path, Scope::All, &mut found);
            if let Some(removals) = document.take(found, literal, name.start) {
                document.names.push((index, removals));
            }
        }
        document.hits.sort_by_key(|hit| hit.span);
        document
    }

    fn open(
        &mut self,
        look: &Look<'_>,
        at: Span,
        level: usize,
        path: &str,
        scope: Scope,
    ) -> Option<Vec<Removal>> {
        let literal = at.of(self.tree.text);
        let found = nested::open(look, &decode(literal), level, path, scope);
        self.take(found, literal, at.start)
    }

    fn take(&mut self, mut found: Found, literal: &str, at: usize) -> Option<Vec<Removal>> {
        if found.removals.is_empty() {
            return None;
        }
        found.lift(literal, at);
        self.hits.append(&mut found.hits);
        Some(found.removals)
    }

    /// What has to be replaced.
    pub(super) fn hits(self) -> Vec<Hit> {
        let mut hits = self.hits;
        hits.retain(|hit| !hit.stays);
        hits
    }

    /// Whether no rule covers anything, not even an empty container.
    pub(super) fn is_untouched(&self) -> bool {
        !self.walk.covers && self.opened.is_empty() && self.names.is_empty()
    }

    /// For each node whether comparisons leave it out: covered scalars, and covered containers with nothing else
    /// in them.
    pub(super) fn dropped(&self) -> Vec<bool> {
        let len = self.tree.len();
        let mut dropped = vec![false; len];
        for mark in &self.walk.marks {
            if let Some(slot) = dropped.get_mut(mark.node) {
                *slot = true;
            }
        }
        // Whether something below stays; children come after their parents, so backwards they are known first.
        let mut keeps = vec![false; len];
        for index in (0..len).rev() {
            let Some(node) = self.tree.node(index) else { continue };
            if matches!(node.kind, Kind::Object | Kind::Array)
                && self.walk.is_covered(index)
                && keeps.get(index) == Some(&false)
                && let Some(slot) = dropped.get_mut(index)
            {
                *slot = true;
            }
            if dropped.get(index) == Some(&false)
                && let Some(slot) = keeps.get_mut(node.parent)
            {
                *slot = true;
            }
        }
        dropped
    }

    /// What is found in this text, for the text around it.
    pub(super) fn found(self) -> Found {
        let mut removals = if self.is_untouched() { Vec::new() } else { self.removals(&self.dropped()) };
        removals.sort_by_key(|removal| removal.span);
        Found { hits: self.hits, removals }
    }

    fn removals(&self, dropped: &[bool]) -> Vec<Removal> {
        let is_dropped = |index: usize| dropped.get(index) == Some(&true);
        let mut removals = Vec::new();
        let mut index = 0;
        while let Some(node) = self.tree.node(index) {
            if let Ok(at) = self.names.binary_search_by_key(&index, |named| named.0)
                && let Some((_, inner)) = self.names.get(at)
            {
                removals.extend(inner.iter().cloned());
            }
            if is_dropped(index) {
                index = node.next;
                continue;
            }
            let children = || self.tree.children(index);
            match node.kind {
                Kind::Array => removals.extend(
                    children()
                        .filter(|child| is_dropped(*child))
                        .filter_map(|child| Some(Removal::text(self.tree.node(child)?.span, ELEMENT))),
                ),
                Kind::Object if children().any(is_dropped) => {
                    let members: Vec<(Span, bool)> = children()
                        .filter_map(|child| {
                            let node = self.tree.node(child)?;
                            Some((Span::new(node.name?.start, node.span.end), is_dropped(child)))
                        })
                        .collect();
                    removals.extend(cut(&members, Span::new(node.span.start + 1, node.span.end - 1)));
                }
                Kind::String => {
                    if let Ok(at) = self.opened.binary_search_by_key(&index, |opened| opened.0)
                        && let Some((_, inner)) = self.opened.get(at)
                    {
                        removals.extend(inner.iter().cloned());
                    }
                }
                _ => {}
            }
            index += 1;
        }
        removals
    }
}

/// Cuts items out of a list with separators, the way the list would have been written without them.
pub(super) fn cut(items: &[(Span, bool)], whole: Span) -> Vec<Removal> {
    if items.iter().all(|item| item.1) {
        return vec![Removal::text(whole, "")];
    }
    let mut removals = Vec::new();
    let mut kept_before: Option<Span> = None;
    for (at, (span, gone)) in items.iter().enumerate() {
        if !gone {
            kept_before = Some(*span);
            continue;
        }
        let cut = match (kept_before, items.get(at + 1)) {
            (Some(before), _) => {
                kept_before = Some(*span);
                Span::new(before.end, span.end)
            }
            (None, Some((next, _))) => Span::new(span.start, next.start),
            (None, None) => *span,
        };
        removals.push(Removal::text(cut, ""));
    }
    removals
}

/// What a literal stands for, with a lone surrogate as U+FFFD: three bytes, as in [`string::decode_bytes`], so that
/// positions are the same.
pub(super) fn decode(literal: &str) -> Cow<'_, str> {
    match string::decode_bytes(literal) {
        Cow::Borrowed(_) => string::decode(literal),
        Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).unwrap_or_else(|error| {
            let mut bytes = error.into_bytes();
            let mut at = 0;
            while let Some([first, second, third]) =
                bytes.get_mut(at..at + 3).and_then(|three| three.first_chunk_mut())
            {
                if *first == 0xed && *second >= 0xa0 {
                    [*first, *second, *third] = [0xef, 0xbf, 0xbd];
                    at += 3;
                } else {
                    at += 1;
                }
            }
            String::from_utf8_lossy(&bytes).into_owned()
        })),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lone_surrogates_keep_positions() {
        assert_eq!(decode(r#""a\ud800\ud83d\ude00b""#), "a\u{fffd}😀b");
        assert_eq!(decode(r#""\udfff""#), "\u{fffd}");
        assert_eq!(decode("\"\u{d7ff}\\n\""), "\u{d7ff}\n");
    }

    #[test]
    fn lists_are_cut_as_if_never_written() {
        for (gone, expected) in [
            ([true, false, false], "{b, c}"),
            ([false, true, false], "{a, c}"),
            ([false, false, true], "{a, b}"),
            ([true, true, false], "{c}"),
            ([false, true, true], "{a}"),
            ([true, false, true], "{b}"),
            ([true, true, true], "{}"),
        ] {
            let text = "{a, b, c}";
            let items = [0, 1, 2].map(|at| (Span::new(1 + 3 * at, 2 + 3 * at), gone[at]));
            let mut edits = crate::jsonrpc::edit::Edits::new();
            for removal in cut(&items, Span::new(1, 8)) {
                edits.replace(removal.span, "");
            }
            assert_eq!(edits.apply(text), expected);
        }
    }
}
