//! The match key: requests with equal keys are the same request. `docs/reference/matching.md` lists what takes part.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use regex::Regex;

use super::nearest::cut;
use super::spelled::Spelled;
use crate::error::{Error, Result};
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::{Members, Span};
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};
use crate::mcp::{self, Era};
use crate::redact::{self, Cover, Written};

/// What a user (or the cassette) said about matching, on top of the built-in rules.
#[derive(Debug)]
pub struct Rules {
    ignored: Vec<Vec<String>>,
    /// Segments of the longest of these.
    longest: usize,
    classes: Vec<Regex>,
    redaction: Arc<redact::Rules>,
    /// Those of them that change how messages are compared.
    matching: Arc<redact::Rules>,
}

impl Rules {
    /// Compiles `--ignore` pointers and `--ignore-value` classes (`uuid`, `timestamp`, `path`, or a regular
    /// expression); `redaction` are the rules that the cassette was recorded with.
    pub fn new(ignore: &[String], ignore_value: &[String], redaction: Arc<redact::Rules>) -> Result<Self> {
        let ignored = ignore.iter().map(|pointer| parse_pointer(pointer)).collect::<Result<Vec<_>>>()?;
        let longest = ignored.iter().map(Vec::len).max().unwrap_or(0);
        let classes = ignore_value.iter().map(|class| parse_class(class)).collect::<Result<_>>()?;
        let matching = Arc::clone(&redaction);
        Ok(Self { ignored, longest, classes, redaction, matching })
    }

    /// Compares under the redaction rules with these ids only, which changed recorded messages of clients.
    #[must_use]
    pub fn fired(mut self, ids: &BTreeSet<&str>) -> Self {
        self.matching = Arc::new(self.redaction.for_matching(ids));
        self
    }

    /// Whether nothing but the protocol's own rules counts for a message.
    fn leaves(&self, message: &str, written: Written<'_>) -> bool {
        self.longest == 0 && self.classes.is_empty() && self.matching.leaves(message, written)
    }

    /// The redaction rules, for what is shown of live requests.
    #[must_use]
    pub fn redaction(&self) -> &redact::Rules {
        &self.redaction
    }

    /// How a message is compared in which redaction wrote this.
    #[must_use]
    pub fn treatments(&self, tree: &Tree<'_>, written: Written<'_>) -> redact::Treatments {
        self.matching.treatments(tree, written)
    }

    /// Whether a recorded value, given as JSON, has placeholders that stand for what is in a live one.
    #[must_use]
    pub fn stands_for(&self, (recorded, written): (&str, Written<'_>), live: &str) -> bool {
        let form = |text: &str, written| {
            let tree = Tree::of(text).ok()?;
            let treatments = self.treatments(&tree, written);
            let mut form = Vec::new();
            canonical::write(&tree, 0, &mut form, &mut |index| treatments.treat(index));
            let _ = treatments.settle(&mut form, 0);
            Some(form)
        };
        let fits = form(recorded, written)
            .zip(form(live, Written::Live))
            .is_some_and(|(old, new)| redact::fit(&old, &new).is_some());
        // The requests that this is a part of were compared more strictly.
        fits || Spelled::of_value(recorded, self, written)
            .zip(Spelled::of_value(live, self, Written::Live))
            .is_some_and(|(old, new)| old.stands_for(&new, self, &|_| true).is_some())
    }

    /// Whether a live value is a known secret, or words of one.
    #[must_use]
    pub fn is_secret(&self, value: &str) -> bool {
        let spans = self.redaction.find_known(value.as_bytes());
        let ends = spans.iter().map(|span| span.end);
        let starts = spans.iter().map(|span| span.start).chain([value.len()]);
        let mut between = std::iter::once(0).chain(ends).zip(starts);
        let is_word = |(from, to): (usize, usize)| {
            value.get(from..to).is_some_and(|between| !between.contains(char::is_whitespace))
        };
        !spans.is_empty() && between.all(is_word)
    }

    /// How a message is compared as it is written.
    pub(super) fn verbatim(&self, tree: &Tree<'_>, written: Written<'_>) -> redact::Treatments {
        self.matching.verbatim(tree, written)
    }

    /// The strings that `--ignore-value` says something about, with their classes.
    pub(super) fn classed(&self, tree: &Tree<'_>) -> Vec<(usize, usize)> {
        if self.classes.is_empty() {
            return Vec::new();
        }
        tree.iter().filter_map(|(index, _)| Some((index, self.class_of(tree, index)?))).collect()
    }

    /// A live message as it may be shown: with placeholders for what redaction replaces.
    #[must_use]
    pub fn redacted<'m>(&self, message: &'m str) -> Cow<'m, str> {
        let mut redactor = redact::Redactor::new(self.redaction.clone(), 0);
        redactor
            .redact(message, redact::Side::Client)
            .map_or(Cow::Borrowed(message), |redacted| Cow::Owned(redacted.text))
    }

    /// Whether a pointer into a message is one to leave out.
    #[must_use]
    pub fn ignores(&self, pointer: &str) -> bool {
        let segments: Vec<&str> = pointer.split('/').skip(1).collect();
        self.ignored.iter().any(|pattern| {
            pattern.len() == segments.len()
                && pattern.iter().zip(&segments).all(|(want, segment)| want == "*" || want == segment)
        })
    }

    /// The class of a value of a message, if it has one.
    fn class_of(&self, tree: &Tree<'_>, index: usize) -> Option<usize> {
        let is_string = !self.classes.is_empty() && tree.node(index)?.kind == Kind::String;
        let class = is_string.then(|| self.class(&string::decode(tree.text_of(index)))).flatten()?;
        (!is_exact(tree, index)).then_some(class)
    }

    /// A hash of all that `--ignore-value` makes equal to other values in a message, apart from what `redacted` covers;
    /// `None` where there is nothing.
    fn literal(&self, tree: &Tree<'_>, redacted: &redact::Treatments) -> Option<u64> {
        let classed = self.classed(tree).into_iter().filter(|(index, _)| !redacted.covers(*index));
        let mut values: Vec<_> = classed
            .map(|(index, _)| (tree.pointer(index), string::decode(tree.text_of(index))))
            .filter(|(pointer, _)| is_compared(pointer, self))
            .collect();
        if values.is_empty() {
            return None;
        }
        values.sort();
        let mut hasher = DefaultHasher::new();
        values.hash(&mut hasher);
        Some(hasher.finish())
    }

    pub(super) fn class(&self, value: &str) -> Option<usize> {
        self.classes.iter().position(|class| class.is_match(value))
    }

    /// Whether two values at `path`, as JSON texts, are strings that `--ignore-value` takes as equal.
    #[must_use]
    pub fn same_class(&self, path: &str, one: &str, other: &str) -> bool {
        if is_exact_path(path) {
            return false;
        }
        let class = |text: &str| {
            let is_string = !self.classes.is_empty() && text.starts_with('"');
            is_string.then(|| self.class(&string::decode(text))).flatten()
        };
        class(one).is_some_and(|known| class(other) == Some(known))
    }

    /// What these rules say about a value of a message.
    #[must_use]
    pub fn treat(&self, tree: &Tree<'_>, index: usize) -> Treat {
        if self.ignores_node(tree, index) {
            return Treat::Drop;
        }
        match self.class_of(tree, index) {
            Some(class) => Treat::As(format!("~{class}").into_bytes()),
            None => Treat::Keep,
        }
    }
}

impl Rules {
    /// Whether a value of a message is one to leave out.
    pub(super) fn ignores_node(&self, tree: &Tree<'_>, index: usize) -> bool {
        // A pointer is only worth making where some pattern has its length: values may be nested any number deep.
        self.longest > 0
            && depth(tree, index, self.longest) <= self.longest
            && self.ignores(&tree.pointer(index))
    }
}

/// How deep a node stands, counted no further than `enough`.
fn depth(tree: &Tree<'_>, index: usize, enough: usize) -> usize {
    let (mut at, mut depth) = (index, 0);
    while at != 0 && depth <= enough {
        at = tree.node(at).map_or(0, |node| node.parent);
        depth += 1;
    }
    depth
}

fn parse_pointer(pointer: &str) -> Result<Vec<String>> {
    let wrong = |why: &str| {
        Error::Usage(format!(
            "--ignore {pointer}: {why}; expected is one into the request, such as /params/arguments/timestamp"
        ))
    };
    // What it is compared with is encoded too.
    let segments = crate::jsonrpc::pointer::segments(pointer).map_err(wrong)?;
    if segments.is_empty() {
        return Err(wrong("the empty JSON pointer is all of a message"));
    }
    Ok(pointer.split('/').skip(1).map(str::to_owned).collect())
}

/// Members of `params` that say what is asked for, or that the server made up and the client hands back: which answer is
/// theirs hangs on every letter, so `--ignore-value` says nothing of them. Of `ref` that holds for all that is in it.
const EXACT: [&str; 5] = ["cursor", "name", "ref", "requestState", "taskId"];

fn is_exact(tree: &Tree<'_>, index: usize) -> bool {
    let parent = |index: usize| tree.node(index).map_or(0, |node| node.parent);
    let is_parameter = |index: usize| {
        let holder = parent(index);
        holder != 0 && parent(holder) == 0 && tree.name_is(holder, "params")
    };
    EXACT.iter().any(|name| tree.name_is(index, name) && is_parameter(index))
        || (tree.name_is(parent(index), "ref") && is_parameter(parent(index)))
}

fn is_exact_path(path: &str) -> bool {
    let rest = path.strip_prefix("/params/");
    rest.is_some_and(|rest| EXACT.contains(&rest) || rest.starts_with("ref/"))
}

fn parse_class(class: &str) -> Result<Regex> {
    let pattern = match class {
        "uuid" => r"(?i)^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
        "timestamp" => {
            r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.,][0-9]+)?)?(Z|[+-][0-9]{2}:?[0-9]{2})?$"
        }
        "path" => r"^(file://)?(/[^/\x00]+)+/?$|^[A-Za-z]:[\\/][^\x00]*$",
        own => own,
    };
    if pattern.trim().is_empty() {
        let what = "is empty; expected is uuid, timestamp, path or a regular expression";
        return Err(Error::Usage(format!("--ignore-value \"{class}\": {what}")));
    }
    let regex = Regex::new(pattern).map_err(|error| {
        let line = error.to_string().lines().last().unwrap_or("").trim().to_owned();
        Error::Usage(format!("--ignore-value {class}: not a regular expression: {line}"))
    })?;
    if EVERYTHING.iter().all(|text| regex.is_match(text)) {
        let what = "matches every text, the empty one included, so that all of them would be equal; to take whole values \
                    as equal, begin with ^ and end with $, and to leave a place out, --ignore POINTER";
        return Err(Error::Usage(format!("--ignore-value {class}: {what}")));
    }
    Ok(regex)
}

/// Texts that have nothing in common.
const EVERYTHING: [&str; 4] = ["", "\u{10fffd}", "a", "0 "];

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

#[cfg(test)]
mod tests;
