//! How requests are compared beyond what the protocol says: what the user, the cassette and redaction say.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use regex::Regex;

use super::is_compared;
use crate::error::{Error, Result};
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};
use crate::redact::{self, Written};
use crate::replay::spelled::Spelled;

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
    pub(super) fn leaves(&self, message: &str, written: Written<'_>) -> bool {
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
    pub(in crate::replay) fn verbatim(&self, tree: &Tree<'_>, written: Written<'_>) -> redact::Treatments {
        self.matching.verbatim(tree, written)
    }

    /// The strings that `--ignore-value` says something about, with their classes.
    pub(in crate::replay) fn classed(&self, tree: &Tree<'_>) -> Vec<(usize, usize)> {
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
    pub(super) fn literal(&self, tree: &Tree<'_>, redacted: &redact::Treatments) -> Option<u64> {
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

    pub(in crate::replay) fn class(&self, value: &str) -> Option<usize> {
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
    pub(in crate::replay) fn ignores_node(&self, tree: &Tree<'_>, index: usize) -> bool {
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
