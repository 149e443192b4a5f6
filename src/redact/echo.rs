//! Values that were found under their key, to be found again where no key names them: in errors, results, URLs.

use std::collections::HashSet;

use memchr::memmem;
use regex::bytes::Regex;

use super::document::percent_encode;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;

/// Shorter values may well be words.
const SHORTEST: usize = 12;
/// Longer ones are documents, not secrets, and would take memory.
const LONGEST: usize = 4096;
/// How many values are remembered; later ones are not.
const MOST: usize = 2000;
/// How many are looked for one by one, before they are put together.
const LOOSE: usize = 12;

/// The values, in every spelling that text may have them in.
#[derive(Clone, Debug, Default)]
pub(super) struct Echoes {
    values: Vec<Value>,
    known: HashSet<String>,
    /// The values before `values[gathered..]`, as one expression over their cores.
    cores: Option<Regex>,
    gathered: usize,
}

#[derive(Clone, Debug)]
struct Value {
    rule: usize,
    plain: String,
    /// Its longest stretch that is spelled alike everywhere.
    core: memmem::Finder<'static>,
    spellings: Vec<memmem::Finder<'static>>,
}

impl Echoes {
    /// Remembers a value that `rule` found, if it cannot be taken for anything else.
    pub(super) fn learn(&mut self, value: &str, rule: usize) {
        if !is_distinct(value) || self.values.len() >= MOST || self.known.contains(value) {
            return;
        }
        let Some(core) = core_of(value) else { return };
        let mut spellings = vec![value.to_owned()];
        let percent = percent_encode(value, b"-_.~");
        let lower = lower_escapes(&percent);
        let form = percent.replace("%20", "+");
        let mut escaped = String::new();
        string::escape_into(&mut escaped, value);
        for spelling in [percent, lower, form, escaped] {
            if !spellings.contains(&spelling) {
                spellings.push(spelling);
            }
        }
        self.known.insert(value.to_owned());
        self.values.push(Value {
            rule,
            plain: value.to_owned(),
            core: memmem::Finder::new(core.as_bytes()).into_owned(),
            spellings: spellings
                .iter()
                .map(|spelling| memmem::Finder::new(spelling.as_bytes()).into_owned())
                .collect(),
        });
        // Gathering when the number has doubled costs no more than a constant for each.
        if self.values.len() - self.gathered > LOOSE.max(self.gathered) {
            let cores: Vec<String> = self
                .values
                .iter()
                .map(|value| regex::escape(&String::from_utf8_lossy(value.core.needle())))
                .collect();
            self.cores = Regex::new(&cores.join("|")).ok();
            self.gathered = if self.cores.is_some() { self.values.len() } else { 0 };
        }
    }

    /// How many values are remembered.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// Whether one of the values may stand in these bytes, however they are escaped.
    pub(super) fn may_be_in(&self, bytes: &[u8]) -> bool {
        self.cores.as_ref().is_some_and(|cores| cores.is_match(bytes))
            || self.values.iter().skip(self.gathered).any(|value| value.core.find(bytes).is_some())
    }

    /// Appends where the values stand in a text: the rule, the place, and the value itself.
    pub(super) fn find(&self, text: &str, found: &mut Vec<(usize, Span, String)>) {
        if self.values.is_empty() || !self.may_be_in(text.as_bytes()) {
            return;
        }
        for value in &self.values {
            if value.core.find(text.as_bytes()).is_none() {
                continue;
            }
            for spelling in &value.spellings {
                let len = spelling.needle().len();
                for at in spelling.find_iter(text.as_bytes()) {
                    found.push((value.rule, Span::new(at, at + len), value.plain.clone()));
                }
            }
        }
    }
}

/// Whether a value is long and mixed enough that it is the same thing wherever it appears.
fn is_distinct(value: &str) -> bool {
    let classes = [
        value.bytes().any(|byte| byte.is_ascii_lowercase()),
        value.bytes().any(|byte| byte.is_ascii_uppercase()),
        value.bytes().any(|byte| byte.is_ascii_digit()),
        value.bytes().any(|byte| !byte.is_ascii_alphanumeric()),
    ];
    (SHORTEST..=LONGEST).contains(&value.len())
        && classes.get(2) == Some(&true)
        && classes.iter().filter(|class| **class).count() >= 2
}

/// The longest stretch of letters and digits: no escape changes it.
fn core_of(value: &str) -> Option<&str> {
    value
        .split(|char: char| !char.is_ascii_alphanumeric())
        .max_by_key(|stretch| stretch.len())
        .filter(|stretch| !stretch.is_empty())
}

/// `%2F` as `%2f`.
fn lower_escapes(percent: &str) -> String {
    let mut out = String::with_capacity(percent.len());
    let mut digits = 0_u8;
    for char in percent.chars() {
        out.push(if digits > 0 { char.to_ascii_lowercase() } else { char });
        digits = if char == '%' { 2 } else { digits.saturating_sub(1) };
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_distinct_values_are_remembered() {
        for (value, expected) in [
            ("FAKE-echo-4Vb6", true),
            ("s3cret-and-long", true),
            ("abcdefghijk1", true),
            ("short-1", false),
            ("123456789012", false),
            ("correct horse battery", false),
            ("------------1", true),
            ("x#9!Kp$2@mQ&7^zL", true),
            ("A1-B2-C3-D4-E5-F6", true),
            ("\u{43f}\u{430}\u{440}\u{43e}\u{43b}\u{44c}-77", true),
        ] {
            let mut echoes = Echoes::default();
            echoes.learn(value, 0);
            assert_eq!(echoes.may_be_in(format!("was {value}.").as_bytes()), expected, "{value}");
        }
    }

    #[test]
    fn many_values_are_found_in_every_spelling() {
        let mut echoes = Echoes::default();
        for number in 0..100 {
            echoes.learn(&format!("value/{number:03}=\"quoted\""), number);
        }
        for (text, rule, spelled) in [
            ("was value/007=\"quoted\"!", 7, "value/007=\"quoted\""),
            ("?q=value%2F042%3D%22quoted%22&", 42, "value%2F042%3D%22quoted%22"),
            ("?q=value%2f099%3d%22quoted%22&", 99, "value%2f099%3d%22quoted%22"),
            (r#"{"x":"value/001=\"quoted\""#, 1, r#"value/001=\"quoted\""#),
        ] {
            let mut found = Vec::new();
            echoes.find(text, &mut found);
            let found: Vec<_> = found.iter().map(|(rule, span, _)| (*rule, span.of(text))).collect();
            assert_eq!(found, [(rule, spelled)], "{text}");
        }
    }
}
