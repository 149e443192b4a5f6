//! The match key: requests with equal keys are the same request. `docs/reference/matching.md` lists what takes part.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::nearest::cut;
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::{Members, Span};
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};
use crate::mcp::{self, Era};
use crate::redact::{self, Cover, Written};

mod rules;
#[cfg(test)]
mod tests;

pub use rules::Rules;

/// A request's key, and the redacted values in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Key {
    /// Equal bytes, equal requests.
    pub bytes: Vec<u8>,
    /// Where the request holds a value that redaction replaces, and that value: a placeholder in the cassette, the
    /// real thing in a live request. A part of a text goes by its number: `*0`.
    pub secrets: Vec<(String, String)>,
    /// What is written in the places that redaction covers; requests with equal bytes may differ in it.
    pub covers: Vec<(String, Cover)>,
    /// The bytes with all text in it as it is, where that makes a difference: a placeholder in the cassette may stand
    /// for more than what is found in a live text, which nothing is known about.
    pub spelled: Option<Vec<u8>>,
    /// A hash of what `--ignore-value` makes equal to other values, where there is any.
    pub literal: Option<u64>,
}

impl Key {
    /// Whether this, a recorded key, is that of a live one, or is written as it, letter by letter.
    #[must_use]
    pub fn is(&self, live: &Self) -> bool {
        self.bytes == live.bytes || live.spelled.as_ref() == Some(&self.bytes)
    }

    /// This, a live key, with all text in it as it is, where that makes a difference.
    pub(super) fn as_written(&self) -> Option<Self> {
        let secrets = self.secrets.iter().filter(|(path, _)| !path.starts_with('*')).cloned();
        let bytes = self.spelled.clone()?;
        let (covers, literal) = (self.covers.clone(), self.literal);
        Some(Self { bytes, secrets: secrets.collect(), covers, spelled: None, literal })
    }

    /// Whether this, a recorded key, stands for a live one with other bytes: placeholders in its texts for any word, or
    /// for what redaction finds in the live one or `seen` knows. Then the live key as if redaction had found the same in
    /// it.
    #[must_use]
    pub fn stands_for(&self, live: &Self, seen: IsKnown<'_>) -> Option<Self> {
        if !self.bytes.contains(&redact::ANY) {
            return None;
        }
        // There may be very many of both.
        let found: LazyCell<HashSet<&str>, _> =
            LazyCell::new(|| live.secrets.iter().map(|(_, value)| value.as_str()).collect());
        let is_known = |value: &str| found.contains(value) || seen(value);
        let fit = |form: &[u8]| {
            let values: Vec<String> =
                redact::fit(&self.bytes, form)?.iter().map(|value| unescaped(value)).collect();
            are_plausible(&values, &is_known).then_some(values)
        };
        let spelled = live.spelled.as_ref().and_then(|spelled| fit(spelled));
        let values = spelled.or_else(|| fit(&live.filled())).or_else(|| fit(&live.bytes))?;
        let mut secrets = live.secrets.clone();
        secrets.retain(|(path, _)| !path.starts_with('*'));
        secrets.extend(numbered(values));
        let covers = live.covers.clone();
        Some(Self { bytes: self.bytes.clone(), secrets, covers, spelled: None, literal: live.literal })
    }

    /// What stands in the places of secrets.
    pub(super) fn values(&self) -> Values<'_> {
        Values::of(&self.secrets)
    }

    /// Whether redaction finds this value in the request.
    pub(super) fn found(&self, value: &str) -> bool {
        self.secrets.iter().any(|(_, found)| found == value)
    }
}

/// Values by their places. Where there are few they are looked through.
pub(super) enum Values<'k> {
    Few(&'k [(String, String)]),
    Many(HashMap<&'k str, &'k str>),
}

impl<'k> Values<'k> {
    fn of(list: &'k [(String, String)]) -> Self {
        const FEW: usize = 16;
        if list.len() <= FEW {
            return Self::Few(list);
        }
        // Of places that are there twice the first counts.
        let all = list.iter().rev().map(|(place, value)| (place.as_str(), value.as_str()));
        Self::Many(all.collect())
    }

    pub(super) fn get(&self, place: &str) -> Option<&'k str> {
        match self {
            Self::Few(list) => list.iter().find(|(known, _)| known == place).map(|(_, value)| value.as_str()),
            Self::Many(map) => map.get(place).copied(),
        }
    }
}

/// Whether a live text is known to be a value that is redacted.
pub type IsKnown<'a> = &'a dyn Fn(&str) -> bool;

/// Whether texts may be what placeholders stand for: who has a dummy in the place of a secret has a word there. More than
/// that could be anything, also another request.
pub(super) fn are_plausible(values: &[String], is_known: IsKnown<'_>) -> bool {
    values.iter().all(|value| !value.contains(char::is_whitespace) || is_known(value))
}

impl Key {
    /// The bytes with what was found in the middle of text back in its place.
    fn filled(&self) -> Cow<'_, [u8]> {
        if !self.bytes.contains(&redact::ANY) {
            return Cow::Borrowed(&self.bytes);
        }
        let mut parts = self.secrets.iter().filter(|(path, _)| path.starts_with('*'));
        let mut filled = Vec::with_capacity(self.bytes.len());
        for &byte in &self.bytes {
            match (byte == redact::ANY).then(|| parts.next()).flatten() {
                Some((_, value)) => {
                    for byte in value.bytes() {
                        if matches!(byte, b'"' | b'\\') {
                            filled.push(b'\\');
                        }
                        filled.push(byte);
                    }
                }
                None => filled.push(byte),
            }
        }
        Cow::Owned(filled)
    }
}

/// A piece of a string in a comparison form, as it was meant.
pub(super) fn unescaped(form: &str) -> String {
    let mut text = String::with_capacity(form.len());
    let mut chars = form.chars();
    while let Some(char) = chars.next() {
        text.extend(if char == '\\' { chars.next() } else { Some(char) });
    }
    text
}

fn numbered(values: Vec<String>) -> impl Iterator<Item = (String, String)> {
    values.into_iter().enumerate().map(|(number, value)| (format!("*{number}"), value))
}

/// The key of the request at `view` in `text`, in which redaction wrote this.
#[must_use]
pub fn of(text: &str, view: &View, era: Era, rules: &Rules, written: Written<'_>) -> Key {
    let method = view.method_name(text);
    let mut bytes = Vec::with_capacity(64 + view.params.map_or(0, Span::len));
    bytes.push(if era == Era::Modern { b'm' } else { b'l' });
    bytes.extend_from_slice(method.as_bytes());
    bytes.push(0);
    let params = view.params.map_or("", |span| span.of(text));
    let mut secrets = Vec::new();
    let mut covers = Vec::new();
    let mut spelled = None;
    let mut literal = None;
    // All initialize parameters are the client's own business.
    if method != "initialize" && !params.is_empty() && params != "{}" && params != "null" {
        let written = written.within(view.whole.start);
        let plain = rules.leaves(view.whole.of(text), written);
        let looked_at = if plain {
            Tree::of(params).ok().map(|tree| (tree, 0))
        } else {
            // Rules by pointer are about the whole message.
            let message = Tree::of(view.whole.of(text)).ok();
            message.and_then(|tree| tree.member(0, "params").map(|root| (tree, root)))
        };
        if let Some((tree, root)) = looked_at {
            let redacted = match plain {
                true => redact::Treatments::default(),
                false => rules.treatments(&tree, written),
            };
            let filter = Filter { method: &method, tree: &tree, params: root, rules, plain, redacted };
            let start = bytes.len();
            canonical::write(&tree, root, &mut bytes, &mut |index| filter.treat(index));
            // Parameters of which nothing counts equal no parameters.
            if bytes.get(start..) == Some(b"{},") {
                bytes.truncate(start);
            }
            let parts = filter.redacted.settle(&mut bytes, start);
            if written == Written::Live && filter.redacted.opens() {
                let mut form = bytes.get(..start).unwrap_or_default().to_vec();
                canonical::write(&tree, root, &mut form, &mut |index| match filter.treat(index) {
                    Treat::As(_) | Treat::Named(..) if filter.redacted.covers(index) => Treat::Keep,
                    treat => treat,
                });
                spelled = Some(form);
            }
            literal = rules.literal(&tree, &filter.redacted);
            secrets = filter.redacted.leaves;
            covers = filter.redacted.covers;
            covers.retain(|(pointer, _)| is_compared(pointer, rules));
            secrets.extend(numbered(parts));
        }
    }
    Key { bytes, secrets, covers, spelled, literal }
}

/// Makes the keys of what live clients send; to be had in every thread.
#[derive(Clone, Debug)]
pub struct Keys(pub(super) Arc<Rules>);

impl Keys {
    /// The key of a message of a live client, if it is a request.
    #[must_use]
    pub fn of(&self, text: &str, view: &View) -> Option<Key> {
        (view.shape == Shape::Request).then(|| of(text, view, mcp::era(text, view), &self.0, Written::Live))
    }
}

/// Whether a place is one that could tell two requests apart.
fn is_compared(pointer: &str, rules: &Rules) -> bool {
    let member = pointer.strip_prefix("/params/").and_then(|rest| rest.split('/').next());
    member.is_some_and(|member| !matches!(member, "_meta" | "inputResponses" | "task"))
        && !rules.ignores(pointer)
}

struct Filter<'t, 'a> {
    method: &'t str,
    tree: &'t Tree<'a>,
    params: usize,
    rules: &'t Rules,
    /// Nothing but the protocol's own rules counts.
    plain: bool,
    redacted: redact::Treatments,
}

impl Filter<'_, '_> {
    fn treat(&self, index: usize) -> Treat {
        let Some(node) = self.tree.node(index) else { return Treat::Keep };
        if node.parent == self.params
            && let Some(treat) = treat_parameter(self.method, self.tree, index, &|index| self.treat(index))
        {
            return treat;
        }
        if self.plain {
            return Treat::Keep;
        }
        match self.redacted.treat(index) {
            Treat::Keep => self.rules.treat(self.tree, index),
            treat => treat,
        }
    }
}

/// What the protocol says of the members of `params` themselves; `treat` says what counts of what is in them.
pub(super) fn treat_parameter(
    method: &str,
    tree: &Tree<'_>,
    index: usize,
    treat: &dyn Fn(usize) -> Treat,
) -> Option<Treat> {
    let node = tree.node(index)?;
    let value = node.span.of(tree.text);
    let name = string::decode(node.name?.of(tree.text));
    // An object of which nothing counts.
    let is_nothing =
        || node.kind == Kind::Object && tree.children(index).all(|child| treat(child) == Treat::Drop);
    match &*name {
        "_meta" => Some(Treat::Drop),
        "arguments" if value == "null" || is_nothing() => Some(Treat::Drop),
        "cursor" if value == "null" => Some(Treat::Drop),
        // Compared by policy, among the requests whose keys are equal.
        "inputResponses" => Some(Treat::As(b"+".to_vec())),
        // 2025-11-25: a task's time to live is the client's wish; that a task was asked for is the request.
        "task" if method == "tools/call" => Some(Treat::As(b"+".to_vec())),
        "notifications" if method == "subscriptions/listen" => Some(Treat::As(canonical_filter(tree, index))),
        _ => None,
    }
}

/// A listen filter as a set: false and empty entries are as good as absent, lists have no order.
fn canonical_filter(tree: &Tree<'_>, index: usize) -> Vec<u8> {
    let mut entries: Vec<Vec<u8>> = Vec::new();
    for child in tree.children(index) {
        let Some(node) = tree.node(child) else { continue };
        let name = node.name.map_or("", |name| name.of(tree.text));
        let mut add = |value: Option<usize>| {
            let mut entry = Vec::new();
            canonical::write_string(name, &mut entry);
            if let Some(value) = value {
                canonical::write(tree, value, &mut entry, &mut |_| Treat::Keep);
            }
            entries.push(entry);
        };
        match node.kind {
            Kind::Array => tree.children(child).for_each(|element| add(Some(element))),
            _ if node.span.of(tree.text) == "true" => add(None),
            Kind::Literal => {}
            _ => add(Some(child)),
        }
    }
    entries.sort();
    entries.dedup();
    entries.concat()
}

/// The entries of a listen filter, for finding the largest overlap: `name` or `name value`.
#[must_use]
pub fn filter_entries(text: &str, view: &View) -> Vec<String> {
    let Some(filter) =
        view.params.and_then(|params| crate::jsonrpc::message::member(text, params, "notifications"))
    else {
        return Vec::new();
    };
    entries_of(filter.of(text))
}

/// The entries of a filter object: `name` for a true one, `name value` for each string of a list.
#[must_use]
pub fn entries_of(filter: &str) -> Vec<String> {
    let mut entries = Vec::new();
    let Some(mut members) = Members::of(filter, 0) else { return entries };
    while let Ok(Some((name, value))) = members.next() {
        let name = string::decode(name.of(filter));
        if value.of(filter) == "true" {
            entries.push(name.into_owned());
        } else if let Ok(elements) = crate::jsonrpc::scan::elements(filter, value) {
            entries.extend(
                elements.iter().map(|element| format!("{name} {}", string::decode(element.of(filter)))),
            );
        }
    }
    entries
}

/// The method's name for people: `tools/call "search"`. Names that are longer than any sensible one are cut.
#[must_use]
pub fn describe(text: &str, view: &View) -> String {
    let method = view.method_name(text);
    match mcp::target(&method, text, view) {
        Some(name) => format!("{} {}", cut(&method), string::encode(&cut(&name))),
        None => cut(&method),
    }
}
