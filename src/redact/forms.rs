//! What looks like a placeholder in a text: the forms that redaction writes, and the fixed texts of the rules.

use std::cmp::Reverse;

use memchr::memmem;
use regex::Regex;

use super::placeholder::FORMS;
use crate::jsonrpc::scan::Span;

/// The forms of one set of rules.
#[derive(Clone, Debug)]
pub(super) struct Forms {
    exact: Regex,
    /// The same, whatever stands around them: a letter in front may belong to an escape.
    anywhere: Regex,
    /// A fixed text has characters that have to be escaped, or that forms write otherwise.
    escaped: bool,
}

impl Forms {
    pub(super) fn new<'r>(fixed: impl Iterator<Item = &'r str>) -> Option<Self> {
        let mut fixed: Vec<&str> = fixed.filter(|text| !text.is_empty()).collect();
        fixed.sort_by_key(|text| Reverse(text.len()));
        let mut pattern: String =
            fixed.iter().fold(String::new(), |out, text| out + &regex::escape(text) + "|");
        pattern.push_str(FORMS);
        let plain = |char: char| char.is_ascii_graphic() && !matches!(char, '"' | '\\');
        Some(Self {
            exact: Regex::new(&pattern).ok()?,
            anywhere: Regex::new(&pattern.replace(r"\b", "")).ok()?,
            escaped: !fixed.iter().all(|text| text.chars().all(plain)),
        })
    }

    /// Where some stand, in order.
    pub(super) fn find(&self, text: &str) -> Vec<Span> {
        self.exact.find_iter(text).map(|found| Span::new(found.start(), found.end())).collect()
    }

    /// Whether there may be one in a part of a JSON text.
    pub(super) fn may_be_in(&self, part: &str) -> bool {
        self.anywhere.is_match(part)
    }

    /// Whether a JSON text has escapes in which one could be hidden: of characters that need none, or percent-encoded.
    pub(super) fn may_be_hidden(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        if self.escaped && memchr::memchr3(b'\\', b'%', b'+', bytes).is_some() {
            return true;
        }
        let is_hex = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_hexdigit);
        memchr::memchr_iter(b'%', bytes).any(|at| is_hex(at + 1) && is_hex(at + 2))
            || (memchr::memchr(b'\\', bytes).is_some()
                && [&b"\\u"[..], b"\\/"].iter().any(|escape| memmem::find(bytes, escape).is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_be_hidden() {
        for (fixed, text, expected) in [
            ("none", r#""a\n1800-01-01""#, false),
            ("none", r#""\u0031800-01-01""#, true),
            ("none", r#""\\u0031800-01-01""#, true),
            ("none", r#""https:\/\/redacted.invalid\/1""#, true),
            ("none", "\"100 %, C++\"", false),
            ("none", "\"1800%2D01\"", true),
            ("no one", "\"no+one\"", true),
            ("say \"no\"", r#""say \"no\"""#, true),
            ("no one", "\"plain\"", false),
        ] {
            let forms = Forms::new([fixed].into_iter()).unwrap();
            assert_eq!(forms.may_be_hidden(text), expected, "{fixed} {text}");
        }
    }

    #[test]
    fn an_escape_in_front_hides_no_date() {
        let forms = Forms::new(std::iter::empty()).unwrap();
        let part = r"since\n1800-01-01";
        assert!(forms.find(part).is_empty() && forms.may_be_in(part));
    }
}
