//! How a message is compared when values in it are, or would be, redacted.

use std::cmp::Ordering;

use super::document::{Document, Hit, New, Removal};
use super::placeholder::NEGATIVE_ZERO;
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::tree::Kind;

/// What [`canonical::write`] has to do with the nodes of one message, and the values that were left out.
///
/// Under these a placeholder, the real value, a dummy, an empty string, null and (for members) absence are equal.
#[derive(Clone, Debug, Default)]
pub struct Treatments {
    /// By node, ascending; nodes that are compared as they are have none.
    nodes: Vec<(usize, Treat)>,
    /// The string leaves that rules cover, in document order, as JSON pointer and decoded value; empty ones are not
    /// among them. The player checks that placeholders agree one to one with live values.
    pub leaves: Vec<(String, String)>,
    /// What was written in each covered place, as JSON pointer and kind, sorted.
    pub covers: Vec<(String, Cover)>,
    /// What was found in the middle of text, by the number that [`settle`] takes out again.
    parts: Vec<String>,
}

/// What stands in a covered place, as far as a cassette tells it.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cover {
    /// Text, or its placeholder.
    Text,
    /// A number, or the 0 in its place.
    Number,
    /// An empty string.
    Empty,
    /// Null.
    Null,
    /// An object or array with nothing in it.
    Hollow,
}

/// How far what is covered in two messages is from being written alike, where they are equal otherwise; 0 is alike.
/// A value is nearer to any other value than to none.
#[must_use]
pub fn distance(one: &[(String, Cover)], other: &[(String, Cover)]) -> usize {
    let is_value = |cover: Option<Cover>| matches!(cover, Some(Cover::Text | Cover::Number));
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut distance = 0;
    loop {
        let order = match (one.peek(), other.peek()) {
            (None, None) => return distance,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((left, _)), Some((right, _))) => left.cmp(right),
        };
        let left = if order == Ordering::Greater { None } else { one.next().map(|entry| entry.1) };
        let right = if order == Ordering::Less { None } else { other.next().map(|entry| entry.1) };
        distance += match (left == right, is_value(left) == is_value(right)) {
            (true, _) => 0,
            (false, true) => 1,
            (false, false) => 2,
        };
    }
}

impl Treatments {
    pub(super) fn of(document: &Document<'_, '_>) -> Self {
        if document.is_untouched() {
            return Self::default();
        }
        let mut nodes: Vec<(usize, Treat)> = Vec::new();
        let mut parts = Vec::new();
        let dropped = document.dropped();
        let mut opened = document.opened.iter().peekable();
        let mut names = document.names.iter().peekable();
        for (index, dropped) in dropped.iter().enumerate() {
            let node = document.tree.node(index);
            let mut form = |at: Span, removals: &[Removal]| {
                let mut bytes = Vec::with_capacity(at.len());
                canonical::write_string(&without(document.tree.text, at, removals, &mut parts), &mut bytes);
                bytes
            };
            let name = names
                .next_if(|named| named.0 == index)
                .and_then(|(_, removals)| Some(form(node?.name?, removals)));
            let value = opened.next_if(|opened| opened.0 == index);
            let treat = match (dropped, value) {
                (true, _) => Treat::Drop,
                (false, Some((_, removals))) => {
                    node.map_or(Treat::Keep, |node| Treat::As(form(node.span, removals)))
                }
                (false, None) => Treat::Keep,
            };
            match name {
                Some(name) if treat != Treat::Drop => {
                    nodes.push((index, Treat::Named(name, Box::new(treat))));
                }
                _ if treat != Treat::Keep => nodes.push((index, treat)),
                _ => {}
            }
        }
        let leaves = document
            .hits
            .iter()
            .filter(|hit| !hit.part && !hit.number && !hit.value.is_empty())
            .map(|hit| (hit.path.clone(), hit.value.clone()))
            .collect();
        Self { nodes, leaves, covers: covers(document, &dropped), parts }
    }

    /// How the same message is compared as it is written: what rules cover is left out, and in other texts and names
    /// any text may stand in the place of a hit that `stands_in` says to be a placeholder.
    pub(super) fn verbatim(document: &Document<'_, '_>, stands_in: &dyn Fn(&Hit) -> bool) -> Self {
        let mut treatments = Self::default();
        if document.is_untouched() {
            return treatments;
        }
        let parts = &mut treatments.parts;
        let mut form = |at: Span| {
            let from = document.hits.partition_point(|hit| hit.span.start < at.start);
            let inside = document.hits.iter().skip(from).take_while(|hit| hit.span.end <= at.end);
            let removals: Vec<Removal> = inside
                .filter(|hit| stands_in(hit))
                .map(|hit| Removal { span: hit.span, new: New::Part(hit.value.clone()) })
                .collect();
            let mut bytes = Vec::with_capacity(at.len());
            canonical::write_string(&without(document.tree.text, at, &removals, parts), &mut bytes);
            bytes
        };
        for (index, dropped) in document.dropped().into_iter().enumerate() {
            let Some(node) = document.tree.node(index) else { continue };
            if dropped {
                treatments.nodes.push((index, Treat::Drop));
                continue;
            }
            let has =
                |list: &[(usize, Vec<Removal>)]| list.binary_search_by_key(&index, |entry| entry.0).is_ok();
            let value = if has(&document.opened) { Treat::As(form(node.span)) } else { Treat::Keep };
            match node.name.filter(|_| has(&document.names)) {
                Some(name) => {
                    treatments.nodes.push((index, Treat::Named(form(name), Box::new(value))));
                }
                None if value != Treat::Keep => treatments.nodes.push((index, value)),
                None => {}
            }
        }
        treatments
    }

    /// Lets any text stand in the place of further strings, given with what [`Treatments::settle`] is to say of each.
    #[must_use]
    pub fn with_any(mut self, nodes: Vec<(usize, String)>) -> Self {
        for (node, value) in nodes {
            self.open(node, value, b"\"", b"\"");
        }
        self
    }

    /// Lets any number stand in the place of these ones.
    pub(super) fn with_numbers(mut self, nodes: Vec<usize>) -> Self {
        for node in nodes {
            self.open(node, NEGATIVE_ZERO.to_owned(), &[NUMBER], b"");
        }
        self
    }

    fn open(&mut self, node: usize, value: String, front: &[u8], back: &[u8]) {
        if let Err(at) = self.nodes.binary_search_by_key(&node, |entry| entry.0) {
            let form = format!("{OPEN}{}{CLOSE}", self.parts.len());
            self.nodes.insert(at, (node, Treat::As([front, form.as_bytes(), back].concat())));
            self.parts.push(value);
        }
    }

    /// What to do with a node; the argument of [`canonical::write`].
    #[must_use]
    pub fn treat(&self, node: usize) -> Treat {
        match self.nodes.binary_search_by_key(&node, |entry| entry.0) {
            Ok(at) => self.nodes.get(at).map_or(Treat::Keep, |entry| entry.1.clone()),
            Err(_) => Treat::Keep,
        }
    }

    /// Whether redaction replaces the node or a part of it.
    #[must_use]
    pub fn covers(&self, node: usize) -> bool {
        self.nodes.binary_search_by_key(&node, |entry| entry.0).is_ok()
    }

    /// Whether texts or names are compared without what was found in them.
    #[must_use]
    pub fn opens(&self) -> bool {
        self.nodes.iter().any(|(_, treat)| *treat != Treat::Drop)
    }

    /// Whether everything is compared as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Finishes what [`canonical::write`] appended from `from` on: each part of a text that was found becomes one
    /// [`ANY`], and what stood there is returned in the order of the comparison form.
    #[must_use]
    pub fn settle(&self, bytes: &mut Vec<u8>, from: usize) -> Vec<String> {
        if self.parts.is_empty() {
            return Vec::new();
        }
        let tail = bytes.split_off(from.min(bytes.len()));
        let mut rest = tail.as_slice();
        let mut values = Vec::new();
        while let Some(at) = memchr::memmem::find(rest, OPEN.as_bytes()) {
            let (front, marked) = rest.split_at_checked(at).unwrap_or((rest, &[]));
            let inside = marked.get(OPEN.len()..).unwrap_or_default();
            let digits = inside.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = std::str::from_utf8(inside.get(..digits).unwrap_or_default()).ok();
            let number = number.and_then(|digits| digits.parse::<usize>().ok());
            let closed = inside.get(digits..).is_some_and(|rest| rest.starts_with(CLOSE.as_bytes()));
            bytes.extend_from_slice(front);
            match number.and_then(|number| self.parts.get(number)).filter(|_| closed) {
                Some(value) => {
                    bytes.push(ANY);
                    values.push(value.clone());
                    rest = inside.get(digits + CLOSE.len()..).unwrap_or_default();
                }
                // The character itself, in text that has nothing to do with us.
                None => {
                    bytes.extend_from_slice(OPEN.as_bytes());
                    rest = inside;
                }
            }
        }
        bytes.extend_from_slice(rest);
        values
    }
}

fn covers(document: &Document<'_, '_>, dropped: &[bool]) -> Vec<(String, Cover)> {
    let tree = document.tree;
    let mut covers: Vec<(String, Cover)> = Vec::new();
    for hit in document.hits.iter().filter(|hit| !hit.part) {
        let cover = match () {
            () if hit.number => Cover::Number,
            () if !hit.value.is_empty() => Cover::Text,
            () if hit.span.of(tree.text) == "null" => Cover::Null,
            () => Cover::Empty,
        };
        covers.push((hit.path.clone(), cover));
    }
    for (index, node) in tree.iter().filter(|(index, _)| dropped.get(*index) == Some(&true)) {
        if matches!(node.kind, Kind::Object | Kind::Array) && tree.children(index).next().is_none() {
            covers.push((document.walk.pointer(tree, index), Cover::Hollow));
        }
    }
    covers.sort();
    covers
}

/// In a comparison form: any text up to the end of the string it stands in. No UTF-8 has this byte.
pub const ANY: u8 = 0xff;

/// In front of an [`ANY`] that stands for a number. No UTF-8 has this byte, either.
const NUMBER: u8 = 0xfe;

/// Around the number of a part, until [`Treatments::settle`]. Characters that no text should have.
const OPEN: &str = "\u{10fffe}";
const CLOSE: &str = "\u{10ffff}";

/// A literal without what was found in it.
fn without(text: &str, at: Span, removals: &[Removal], parts: &mut Vec<String>) -> String {
    let mut edits = Edits::new();
    for removal in removals {
        match &removal.new {
            New::Text(new) => edits.replace(removal.span, *new),
            New::Part(value) => {
                edits.replace(removal.span, format!("{OPEN}{}{CLOSE}", parts.len()));
                parts.push(value.clone());
            }
        }
    }
    let mut literal = String::with_capacity(at.len());
    edits.apply_within(text, at, &mut literal);
    literal
}

/// Whether a live comparison form is one of those that a recorded one with [`ANY`] in it stands for; then the live
/// texts in those places, in order.
#[must_use]
pub fn fit(recorded: &[u8], live: &[u8]) -> Option<Vec<String>> {
    let spans = fit_spans(recorded, live)?;
    let text =
        |span: Span| String::from_utf8_lossy(live.get(span.start..span.end).unwrap_or_default()).into_owned();
    Some(spans.into_iter().map(text).collect())
}

/// The same: where those texts stand in the live form.
pub(super) fn fit_spans(recorded: &[u8], live: &[u8]) -> Option<Vec<Span>> {
    let mut pieces = recorded.split(|byte| *byte == ANY);
    let (first, mut number) = before_number(pieces.next()?);
    let mut rest = live.strip_prefix(first)?;
    let mut spans = Vec::new();
    let mut pieces = pieces.peekable();
    // Where the string ends that was met last: it is looked through once, however many texts are in it.
    let mut string_end = None;
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        let (piece, next) = before_number(piece);
        let start = live.len() - rest.len();
        let end = string_end.filter(|end| start <= *end).unwrap_or_else(|| start + inside_string(rest));
        string_end = Some(end);
        let room = end - start;
        let end = if std::mem::replace(&mut number, next) {
            let digits = |byte: &&u8| byte.is_ascii_digit() || b"+-.eE".contains(byte);
            let end = rest.iter().take_while(digits).count();
            (end > 0 && rest.get(end..)?.starts_with(piece)).then_some(end)?
        } else if last {
            // What is left must end exactly there.
            let end = rest.len().checked_sub(piece.len())?;
            (end <= room && rest.ends_with(piece) && !is_escaped(rest, end)).then_some(end)?
        } else {
            let mut from = 0;
            loop {
                let at = from + memchr::memmem::find(rest.get(from..)?, piece)?;
                if at > room {
                    return None;
                }
                if !is_escaped(rest, at) {
                    break at;
                }
                from = at + 1;
            }
        };
        spans.push(Span::new(start, start + end));
        rest = rest.get(end + piece.len()..)?;
    }
    rest.is_empty().then_some(spans)
}

/// What stands in front of an [`ANY`], and whether that stands for a number.
fn before_number(piece: &[u8]) -> (&[u8], bool) {
    piece.strip_suffix(&[NUMBER]).map_or((piece, false), |front| (front, true))
}

/// Whether the byte at `at` is the second of an escape.
fn is_escaped(form: &[u8], at: usize) -> bool {
    let front = form.get(..at).unwrap_or_default();
    front.iter().rev().take_while(|byte| **byte == b'\\').count() % 2 == 1
}

/// How much of a comparison form is the rest of the string that it begins in.
fn inside_string(form: &[u8]) -> usize {
    let mut at = 0;
    while let Some(byte) = form.get(at) {
        match byte {
            b'"' => return at,
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
    form.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_text_stays_in_its_string() {
        for (recorded, live, expected) in [
            ("\"a *\"", "\"a b\"", Some(vec!["b"])),
            ("\"a *\"", "\"a \"", Some(vec![""])),
            ("\"*\",\"*x\"", "\"p\",\"qxx\"", Some(vec!["p", "qx"])),
            ("\"*b*\"", "\"abbc\"", Some(vec!["a", "bc"])),
            ("\"*\"", "\"a\\\"b\"", Some(vec!["a\\\"b"])),
            ("\"*\"", "\"a\",\"b\"", None),
            ("\"*\",1", "\"a\",2", None),
            ("\"*\"", "1", None),
            ("\"a*\"", "\"b\"", None),
            ("\"a\"", "\"a\"", Some(vec![])),
            ("[#*,\"b*\",]", "[12,\"bc\",]", Some(vec!["12", "c"])),
            ("{a:#*,b:#*,}", "{a:-1.5e3,b:2,}", Some(vec!["-1.5e3", "2"])),
            ("#*", "7", Some(vec!["7"])),
            ("#*", "", None),
            ("[#*,]", "[1,2,]", None),
            ("[#*,]", "[\"1\",]", None),
        ] {
            let recorded: Vec<u8> = recorded
                .bytes()
                .map(|byte| match byte {
                    b'*' => ANY,
                    b'#' => NUMBER,
                    _ => byte,
                })
                .collect();
            let expected: Option<Vec<String>> =
                expected.map(|values| values.into_iter().map(str::to_owned).collect());
            assert_eq!(fit(&recorded, live.as_bytes()), expected, "{live}");
        }
    }
}
