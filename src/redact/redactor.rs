//! Redaction of what one process says, in order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::document::Hit;
use super::placeholder::{Numbers, PLAIN};
use super::rules::Rules;
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::scan::value_end;

/// The private character that stands for the stray byte 0 while a line that is not UTF-8 is looked through.
const STRAY: u32 = 0x0010_ff00;

/// A text with placeholders in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redacted {
    /// The text; outside the replaced values every byte is the original's.
    pub text: String,
    /// The ids of the rules that changed it, sorted, each once.
    pub rules: Vec<String>,
}

/// Redacts the messages of one recorded process and numbers the values it meets.
#[derive(Clone, Debug)]
pub struct Redactor {
    rules: Arc<Rules>,
    numbers: Numbers,
    counts: BTreeMap<String, u64>,
}

impl Redactor {
    /// For the process with this ordinal in the cassette; the first is 1.
    #[must_use]
    pub fn new(rules: Arc<Rules>, segment: u32) -> Self {
        Self { rules, numbers: Numbers::new(segment), counts: BTreeMap::new() }
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
    pub fn redact(&mut self, text: &str) -> Option<Redacted> {
        if !text.trim_ascii_start().starts_with(['{', '[', '"']) {
            return self.redact_plain(text);
        }
        if !self.rules.prefilter().message(text) {
            return None;
        }
        let hits = self.rules.find(text);
        if hits.is_empty() && !is_json(text) { self.redact_plain(text) } else { self.replace(text, &hits) }
    }

    /// Redacts free text, such as a line of a log; `None` when nothing has to change. As [`Rules::redact_plain`],
    /// with numbered placeholders.
    pub fn redact_plain(&mut self, text: &str) -> Option<Redacted> {
        let hits = self.rules.find_plain(text);
        self.replace(text, &hits)
    }

    /// Redacts a line that is not UTF-8; `None` when nothing has to change. Bytes that are no text stand for themselves.
    pub fn redact_bytes(&mut self, line: &[u8]) -> Option<(Vec<u8>, Vec<String>)> {
        let mut text = String::with_capacity(line.len());
        for chunk in line.utf8_chunks() {
            text.push_str(chunk.valid());
            text.extend(chunk.invalid().iter().filter_map(|byte| char::from_u32(STRAY + u32::from(*byte))));
        }
        let redacted = self.redact(&text)?;
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
        Some(Redacted { text: edits.apply(text), rules })
    }
}

fn is_json(text: &str) -> bool {
    let start = text.len() - text.trim_ascii_start().len();
    value_end(text, start).is_ok_and(|end| text.trim_ascii_end().len() == end)
}

fn replacement(rules: &Rules, hit: &Hit, placeholder: impl FnOnce(&str) -> String) -> String {
    if hit.number {
        return "0".to_owned();
    }
    match rules.text(hit.rule) {
        Some(fixed) => hit.encode(fixed),
        None => hit.encode(&placeholder(&hit.value)),
    }
}

/// Replaces hits without numbering them.
pub(super) fn replace_unnumbered(rules: &Rules, text: &str, hits: &[Hit]) -> String {
    let mut edits = Edits::new();
    for hit in hits {
        edits.replace(hit.span, replacement(rules, hit, |_| PLAIN.to_owned()));
    }
    edits.apply(text)
}
