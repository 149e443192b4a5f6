//! Redaction of what one process says, in order.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::document::Hit;
use super::echo::Echoes;
use super::look::Look;
use super::placeholder::{NEGATIVE_ZERO, Numbers, PLAIN, ZERO};
use super::rules::{KNOWN_SECRET, Rules};
use super::written::{self, Steps, Written};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::scan::{Members, Span, value_end};
use crate::jsonrpc::string;

/// The private character that stands for the stray byte 0 while a line that is not UTF-8 is looked through.
const STRAY: u32 = 0x0010_ff00;

/// A text with placeholders in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// The text; outside the replaced values every byte is the original's.
    pub text: String,
    /// The ids of the rules that changed it, sorted, each once.
    pub rules: Vec<String>,
    /// What was replaced, for [`Redactor::note`].
    pub steps: Steps,
}

/// Who says what is redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The client: rules that are about servers do not count.
    Client,
    /// The server.
    Server,
}

/// Redacts the messages of one recorded process and numbers the values it meets. What it found under a key it finds
/// again in later messages, where no key names it.
#[derive(Clone, Debug)]
pub struct Redactor {
    rules: Arc<Rules>,
    numbers: Numbers,
    counts: BTreeMap<String, u64>,
    echoes: Echoes,
}

impl Redactor {
    /// For the process with this ordinal in the cassette; the first is 1.
    #[must_use]
    pub fn new(rules: Arc<Rules>, segment: u32) -> Self {
        let numbers = Numbers::salted(segment, rules.salt());
        Self { rules, numbers, counts: BTreeMap::new(), echoes: Echoes::default() }
    }

    /// The rules it applies.
    #[must_use]
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// How many values each rule replaced so far, by rule id.
    #[must_use]
    pub fn counts(&self) -> &BTreeMap<String, u64> {
        &self.counts
    }

    /// Redacts one message; `None` when nothing has to change. Text that is not JSON is free text.
    pub fn redact(&mut self, text: &str, side: Side) -> Option<Redacted> {
        self.without_known(text, side, |redactor, text| {
            let hits = redactor.find(text, side);
            redactor.replace(text, &hits)
        })
    }

    /// What [`Redactor::redact`] would replace, known secrets left out, in order. Learns from it as that does.
    pub fn find(&mut self, text: &str, side: Side) -> Vec<Hit> {
        // A number is JSON, in which rules over text do not look.
        if !text.trim_ascii_start().starts_with(['{', '[', '"']) {
            return if is_json(text) { Vec::new() } else { self.hits(text, side, false) };
        }
        if !self.look(side).message(text) {
            return Vec::new();
        }
        let hits = self.hits(text, side, true);
        if hits.is_empty() && !is_json(text) { self.hits(text, side, false) } else { hits }
    }

    /// The same for [`Redactor::redact_plain`].
    pub fn find_plain(&mut self, text: &str, side: Side) -> Vec<Hit> {
        self.hits(text, side, false)
    }

    /// Redacts the HTTP facts of a message, a JSON object; `None` when nothing has to change. The values of header
    /// fields have a grammar of their own: parameters (`name="value"`) and URLs.
    pub fn redact_facts(&mut self, http: &str, side: Side) -> Option<Redacted> {
        let mut rules = BTreeSet::new();
        let mut edits = Edits::new();
        for (_, value) in fields(http) {
            if let Some(redacted) = self.redact_plain(&string::decode(value.of(http)), side) {
                edits.replace(value, string::encode(&redacted.text));
                rules.extend(redacted.rules);
            }
        }
        let fields = if edits.is_empty() { Cow::Borrowed(http) } else { Cow::Owned(edits.apply(http)) };
        let whole = self.without_known(&fields, side, |redactor, text| {
            let hits = redactor.find_in_facts(text, side);
            redactor.replace(text, &hits)
        });
        if whole.is_none() && edits.is_empty() {
            return None;
        }
        let text = match whole {
            Some(whole) => {
                rules.extend(whole.rules);
                whole.text
            }
            None => fields.into_owned(),
        };
        Some(Redacted { text, rules: rules.into_iter().collect(), steps: Steps::default() })
    }

    /// What the record of a message that is marked as redacted has to say of its placeholders: which of the texts that
    /// look like some are, as the field `placeholders` has it; `None` when all are. `redacted` came of the message
    /// `text`, unless that stayed as it was; `before` tells what redaction had written in it already.
    #[must_use]
    pub fn note(&self, text: &str, redacted: Option<&Redacted>, before: Written<'_>) -> Option<String> {
        match redacted {
            Some(redacted) => written::note(&self.rules, &redacted.text, &redacted.steps, before),
            None => written::note(&self.rules, text, &Steps::default(), before),
        }
    }

    /// What [`Redactor::redact_facts`] would replace: JSON pointers into the facts, and the numbers of the rules.
    pub fn find_facts(&mut self, http: &str, side: Side) -> Vec<(String, usize)> {
        let mut found: Vec<(String, usize)> = Vec::new();
        for (name, value) in fields(http) {
            let hits = self.find_plain(&string::decode(value.of(http)), side);
            let name = string::decode(name.of(http)).replace('~', "~0").replace('/', "~1");
            found.extend(hits.into_iter().map(|hit| (format!("/{name}"), hit.rule)));
        }
        found.extend(self.find_in_facts(http, side).into_iter().map(|hit| (hit.path, hit.rule)));
        found.sort();
        found.dedup();
        found
    }

    /// What is found in the facts by key: the values of header fields. Their names, and numbers, are the cassette's own.
    fn find_in_facts(&mut self, http: &str, side: Side) -> Vec<Hit> {
        let values: Vec<Span> = fields(http).into_iter().map(|(_, value)| value).collect();
        let is_value =
            |span: Span| values.iter().any(|value| value.start <= span.start && span.end <= value.end);
        let mut hits = self.find(http, side);
        hits.retain(|hit| is_value(hit.span));
        hits
    }

    /// Redacts free text, such as a line of a log; `None` when nothing has to change. As [`Rules::redact_plain`],
    /// with numbered placeholders.
    pub fn redact_plain(&mut self, text: &str, side: Side) -> Option<Redacted> {
        self.without_known(text, side, |redactor, text| redactor.plain(text, side))
    }

    /// Free text or JSON that belongs to no message, such as a line of standard error: with all that was learnt so
    /// far, without numbers.
    #[must_use]
    pub fn scrub(&self, text: &str) -> String {
        let known = self.rules.known().replace(text, ZERO, &mut |_| PLAIN.to_owned());
        let text = known.as_ref().map_or(text, |(text, _)| text.as_str());
        let look = Look { echoes: Some(&self.echoes), ..Look::of(&self.rules) };
        let mut hits = look.hits(text);
        if hits.is_empty() && !is_json(text) {
            hits = look.plain(text);
        }
        replace_unnumbered(&self.rules, text, &hits)
    }

    fn look(&self, side: Side) -> Look<'_> {
        Look { echoes: Some(&self.echoes), client: side == Side::Client, ..Look::of(&self.rules) }
    }

    fn plain(&mut self, text: &str, side: Side) -> Option<Redacted> {
        let hits = self.hits(text, side, false);
        self.replace(text, &hits)
    }

    /// What is found in a message or in free text; once more when it named values that stand elsewhere in it too.
    fn hits(&mut self, text: &str, side: Side, message: bool) -> Vec<Hit> {
        let find = |look: Look<'_>| if message { look.all_hits(text) } else { look.plain(text) };
        let hits = find(self.look(side));
        let learnt: Vec<&Hit> =
            hits.iter().filter(|hit| !hit.number && self.rules.is_structural(hit.rule)).collect();
        let before = self.echoes.len();
        for hit in learnt {
            self.echoes.learn(&hit.value, hit.rule);
            let scheme = hit
                .value
                .split_once(' ')
                .filter(|(scheme, _)| scheme.bytes().all(|byte| byte.is_ascii_alphabetic()));
            if let Some((_, rest)) = scheme {
                self.echoes.learn(rest.trim(), hit.rule);
            }
        }
        if self.echoes.len() > before { find(self.look(side)) } else { hits }
    }

    /// Takes the known secrets out first: they may be anywhere, in any spelling.
    fn without_known(
        &mut self,
        text: &str,
        side: Side,
        rest: impl FnOnce(&mut Self, &str) -> Option<Redacted>,
    ) -> Option<Redacted> {
        let rules = Arc::clone(&self.rules);
        let numbers = &mut self.numbers;
        let number = if side == Side::Client { NEGATIVE_ZERO } else { ZERO };
        let Some((text, changes)) = rules.known().replace(text, number, &mut |value| numbers.label(value))
        else {
            return rest(self, text);
        };
        let id = rules.id(KNOWN_SECRET);
        *self.counts.entry(id.to_owned()).or_default() += u64::try_from(changes.len()).unwrap_or(u64::MAX);
        let mut redacted = rest(self, &text).unwrap_or_else(|| Redacted {
            text,
            rules: Vec::new(),
            steps: Steps::default(),
        });
        redacted.steps.put_first(changes);
        redacted.rules.push(id.to_owned());
        redacted.rules.sort();
        Some(redacted)
    }

    /// Redacts a line that is not UTF-8; `None` when nothing has to change. Bytes that are no text stand for themselves.
    pub fn redact_bytes(&mut self, line: &[u8], side: Side) -> Option<(Vec<u8>, Vec<String>)> {
        let mut text = String::with_capacity(line.len());
        for chunk in line.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(STRAY + u32::from(*byte))));
        }
        let redacted = self.redact(&text, side)?;
        let mut bytes = Vec::with_capacity(line.len());
        for char in redacted.text.chars() {
            match u32::from(char).checked_sub(STRAY).and_then(|byte| u8::try_from(byte).ok()) {
                Some(byte) => bytes.push(byte),
                None => bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        Some((bytes, redacted.rules))
    }

    fn replace(&mut self, text: &str, hits: &[Hit]) -> Option<Redacted> {
        if hits.is_empty() {
            return None;
        }
        let mut edits = Edits::new();
        let mut ids = BTreeSet::new();
        for hit in hits {
            let id = self.rules.id(hit.rule);
            ids.insert(id);
            match self.counts.get_mut(id) {
                Some(count) => *count += 1,
                None => drop(self.counts.insert(id.to_owned(), 1)),
            }
            edits.replace(hit.span, replacement(&self.rules, hit, |value| self.numbers.placeholder(value)));
        }
        let rules = ids.into_iter().map(str::to_owned).collect();
        let (text, changes) = edits.apply_telling(text);
        Some(Redacted { text, rules, steps: Steps::of(changes) })
    }
}

/// The text members of the facts, name and value, but for those that say what a message is.
fn fields(object: &str) -> Vec<(Span, Span)> {
    let mut list = Vec::new();
    let mut members = Members::of(object, 0);
    while let Some(Ok(Some((name, value)))) = members.as_mut().map(Members::next) {
        let fixed = matches!(name.of(object), "\"type\"" | "\"method\"" | "\"event\"");
        if !fixed && value.of(object).starts_with('"') {
            list.push((name, value));
        }
    }
    list
}

fn is_json(text: &str) -> bool {
    let start = text.len() - text.trim_ascii_start().len();
    value_end(text, start).is_ok_and(|end| text.trim_ascii_end().len() == end)
}

fn replacement(rules: &Rules, hit: &Hit, placeholder: impl FnOnce(&str) -> String) -> String {
    if hit.number {
        return ZERO.to_owned();
    }
    hit.encode(&rules.stand_in(hit.rule, &hit.value).unwrap_or_else(|| placeholder(&hit.value)))
}

/// Replaces hits without numbering them.
pub(super) fn replace_unnumbered(rules: &Rules, text: &str, hits: &[Hit]) -> String {
    let mut edits = Edits::new();
    for hit in hits {
        edits.replace(hit.span, replacement(rules, hit, |_| PLAIN.to_owned()));
    }
    edits.apply(text)
}
