//! A strict JSON scanner (RFC 8259) over text: where values begin and end, and nothing else. It is iterative, so
//! depth costs one byte a level, and it accepts every number and every escape the grammar accepts.

use std::fmt;

/// A byte range of some text. Spans are only meaningful together with the text they were taken from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span {
    /// First byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Span {
    /// The span from `start` up to `end`.
    #[must_use]
    pub fn new(start: usize, end: usize) -> Self {
        Self { start, end }
    }

    /// The text it covers; empty when it does not fit `text`.
    #[must_use]
    pub fn of(self, text: &str) -> &str {
        text.get(self.start..self.end).unwrap_or("")
    }

    /// The same span in a text that has `offset` more bytes in front.
    #[must_use]
    pub fn shifted(self, offset: usize) -> Self {
        Self { start: self.start + offset, end: self.end + offset }
    }

    /// The same span in a text in which what was at byte `from` is at byte `to`.
    #[must_use]
    pub fn rebased(self, from: usize, to: usize) -> Self {
        let moved = |at: usize| at.saturating_sub(from) + to;
        Self { start: moved(self.start), end: moved(self.end) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(self) -> usize {
        self.end.saturating_sub(self.start)
    }

    /// Whether it covers nothing.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }
}

/// Text that is not JSON: where, and what was expected there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// Byte offset of the first byte that does not fit.
    pub at: usize,
    /// What the grammar expects there.
    pub expected: &'static str,
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "not JSON at byte {}: expected {}", self.at, self.expected)
    }
}

/// One past the value that starts at `start` (no white space before it). Strict; about twice as fast as lexing.
pub fn value_end(text: &str, start: usize) -> Result<usize, SyntaxError> {
    let bytes = text.as_bytes();
    let mut at = start;
    let mut open: Vec<u8> = Vec::new();
    loop {
        // A value is due at `at`.
        match bytes.get(at) {
            Some(b'{') => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at) == Some(&b'}') {
                    at += 1;
                } else {
                    open.push(b'}');
                    at = member_name_end(bytes, at)?;
                    continue;
                }
            }
            Some(b'[') => {
                at = skip_space(bytes, at + 1);
                if bytes.get(at) == Some(&b']') {
                    at += 1;
                } else {
                    open.push(b']');
                    continue;
                }
            }
            Some(b'"') => at = string_end(bytes, at)?,
            Some(_) => at = scalar_end(bytes, at)?,
            None => return Err(SyntaxError { at, expected: "a value" }),
        }
        // A value has ended at `at`: close what it completes.
        loop {
            let Some(&close) = open.last() else { return Ok(at) };
            at = skip_space(bytes, at);
            match bytes.get(at) {
                Some(b',') => {
                    at = skip_space(bytes, at + 1);
                    if close == b'}' {
                        at = member_name_end(bytes, at)?;
                    }
                    break;
                }
                Some(byte) if *byte == close => {
                    at += 1;
                    open.pop();
                }
                _ => return Err(SyntaxError { at, expected: "a comma or the end of the container" }),
            }
        }
    }
}

/// From a member name at `at` to the start of its value.
fn member_name_end(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    if bytes.get(at) != Some(&b'"') {
        return Err(SyntaxError { at, expected: "a member name in quotes" });
    }
    let colon = skip_space(bytes, string_end(bytes, at)?);
    if bytes.get(colon) != Some(&b':') {
        return Err(SyntaxError { at: colon, expected: "a colon" });
    }
    Ok(skip_space(bytes, colon + 1))
}

/// The first byte at or after `at` that is not JSON white space.
#[must_use]
pub fn skip_space(bytes: &[u8], mut at: usize) -> usize {
    const SPACES: u64 = 0x2020_2020_2020_2020;
    while let Some(byte) = bytes.get(at) {
        match byte {
            b' ' => {
                at += 1;
                // Indented documents are mostly runs of blanks.
                while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
                    let differs = u64::from_le_bytes(*chunk) ^ SPACES;
                    if differs != 0 {
                        at += differs.trailing_zeros() as usize / 8;
                        break;
                    }
                    at += 8;
                }
            }
            b'\n' | b'\r' | b'\t' => at += 1,
            _ => break,
        }
    }
    at
}

/// One past the closing quote of the string whose opening quote is at `start`.
pub fn string_end(bytes: &[u8], start: usize) -> Result<usize, SyntaxError> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut at = start + 1;
    loop {
        // Eight bytes at a time up to the first quote, backslash or control character.
        while let Some(chunk) = bytes.get(at..).and_then(|rest| rest.first_chunk::<8>()) {
            let word = u64::from_le_bytes(*chunk);
            let quote = word ^ (ONES * 0x22);
            let slash = word ^ (ONES * 0x5c);
            let hit = (quote.wrapping_sub(ONES) & !quote)
                | (slash.wrapping_sub(ONES) & !slash)
                | (word.wrapping_sub(ONES * 0x20) & !word);
            let hit = hit & HIGH;
            if hit != 0 {
                at += hit.trailing_zeros() as usize / 8;
                break;
            }
            at += 8;
        }
        match bytes.get(at) {
            Some(b'"') => return Ok(at + 1),
            Some(b'\\') => at = escape_end(bytes, at)?,
            Some(byte) if *byte < 0x20 => {
                return Err(SyntaxError { at, expected: "no raw control character inside a string" });
            }
            Some(_) => at += 1,
            None => return Err(SyntaxError { at, expected: "the closing quote of a string" }),
        }
    }
}

fn escape_end(bytes: &[u8], at: usize) -> Result<usize, SyntaxError> {
    match bytes.get(at + 1) {
        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => Ok(at + 2),
        Some(b'u') => match bytes.get(at + 2..at + 6) {
            Some(digits) if digits.iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
            _ => Err(SyntaxError { at, expected: "four hexadecimal digits after \\u" }),
        },
        _ => Err(SyntaxError { at, expected: "one of the escapes of JSON" }),
    }
}

/// One past the number or literal that starts at `start`.
pub(super) fn scalar_end(bytes: &[u8], start: usize) -> Result<usize, SyntaxError> {
    for literal in [&b"true"[..], b"false", b"null"] {
        if bytes.get(start..).is_some_and(|rest| rest.starts_with(literal)) {
            return Ok(start + literal.len());
        }
    }
    number_end(bytes, start)
}

fn digits_end(bytes: &[u8], mut at: usize) -> Result<usize, SyntaxError> {
    let start = at;
    while bytes.get(at).is_some_and(u8::is_ascii_digit) {
        at += 1;
    }
    if at == start { Err(SyntaxError { at, expected: "a digit" }) } else { Ok(at) }
}

fn number_end(bytes: &[u8], start: usize) -> Result<usize, SyntaxError> {
    let mut at = start;
    if bytes.get(at) == Some(&b'-') {
        at += 1;
    }
    match bytes.get(at) {
        Some(b'0') => at += 1,
        Some(b'1'..=b'9') => at = digits_end(bytes, at)?,
        _ => return Err(SyntaxError { at, expected: "a value" }),
    }
    if bytes.get(at) == Some(&b'.') {
        at = digits_end(bytes, at + 1)?;
    }
    if matches!(bytes.get(at), Some(b'e' | b'E')) {
        at += 1;
        if matches!(bytes.get(at), Some(b'+' | b'-')) {
            at += 1;
        }
        at = digits_end(bytes, at)?;
    }
    Ok(at)
}

/// Steps through the members of one object without descending: name (with quotes) and value spans.
#[derive(Debug)]
pub struct Members<'a> {
    text: &'a str,
    at: usize,
    done: bool,
    first: bool,
}

impl<'a> Members<'a> {
    /// The object that starts at `start`; `None` when there is none.
    #[must_use]
    pub fn of(text: &'a str, start: usize) -> Option<Self> {
        (text.as_bytes().get(start) == Some(&b'{')).then_some(Self {
            text,
            at: start + 1,
            done: false,
            first: true,
        })
    }

    /// The next member, or `None` at the end of the object; [`Members::position`] is then one past its brace.
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> Result<Option<(Span, Span)>, SyntaxError> {
        let Some((name, value)) = self.next_name()? else { return Ok(None) };
        self.at = value_end(self.text, value)?;
        Ok(Some((name, Span::new(value, self.at))))
    }

    /// The next member's name and where its value starts. The caller reads the value and gives its end to
    /// [`Members::resume`] before it asks for another.
    pub fn next_name(&mut self) -> Result<Option<(Span, usize)>, SyntaxError> {
        if self.done {
            return Ok(None);
        }
        let bytes = self.text.as_bytes();
        self.at = skip_space(bytes, self.at);
        match bytes.get(self.at) {
            Some(b'}') => {
                self.at += 1;
                self.done = true;
                return Ok(None);
            }
            Some(b',') if !self.first => self.at = skip_space(bytes, self.at + 1),
            _ if self.first => {}
            _ => return Err(SyntaxError { at: self.at, expected: "a comma or the end of the container" }),
        }
        self.first = false;
        let name = self.at;
        let value = member_name_end(bytes, name)?;
        Ok(Some((Span::new(name, string_end(bytes, name)?), value)))
    }

    /// Goes on after a value that ends at `end`.
    pub fn resume(&mut self, end: usize) {
        self.at = end;
    }

    /// Where the walk stands.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }
}

/// The spans of the elements of the array at the start of `text[span]`; empty when it is no array.
pub fn elements(text: &str, span: Span) -> Result<Vec<Span>, SyntaxError> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    if bytes.get(span.start) != Some(&b'[') {
        return Ok(found);
    }
    let mut at = skip_space(bytes, span.start + 1);
    if bytes.get(at) == Some(&b']') {
        return Ok(found);
    }
    loop {
        let end = value_end(text, at)?;
        found.push(Span::new(at, end));
        at = skip_space(bytes, end);
        match bytes.get(at) {
            Some(b',') => at = skip_space(bytes, at + 1),
            Some(b']') => return Ok(found),
            _ => return Err(SyntaxError { at, expected: "a comma or the end of the container" }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::lexer::Lexer;
    use super::*;

    fn whole(text: &str) -> Result<(), SyntaxError> {
        let mut lexer = Lexer::new(text);
        while lexer.next()?.is_some() {}
        Ok(())
    }

    #[test]
    fn accepts_what_the_grammar_accepts() {
        for text in [
            "0",
            "-0",
            "1E400",
            "1e-7",
            "-12.50e+3",
            "123456789012345678901234",
            "true",
            "null",
            "\"\"",
            "\"\\ud800\"",
            "\"\\u00e9\\/\"",
            "[]",
            "{}",
            " [ 1 , 2 ] ",
            "{\"a\":{\"a\":[{}]},\"a\":1}",
            "\"\u{2028}\"",
        ] {
            assert_eq!(whole(text), Ok(()), "{text}");
            let start = skip_space(text.as_bytes(), 0);
            assert_eq!(value_end(text, start), Ok(text.trim_end().len()), "{text}");
        }
    }

    #[test]
    fn refuses_what_the_grammar_refuses() {
        for text in [
            "",
            "01",
            "1.",
            ".5",
            "+1",
            "1e",
            "-",
            "tru",
            "nul",
            "\"",
            "\"\t\"",
            "\"\\x\"",
            "\"\\u12g4\"",
            "[1,]",
            "[,1]",
            "{\"a\"}",
            "{\"a\":1,}",
            "{a:1}",
            "[1}",
            "{\"a\":1]",
            "1 2",
            "[1] x",
            "'a'",
            "\u{feff}1",
            "NaN",
        ] {
            assert!(whole(text).is_err(), "{text}");
            let start = skip_space(text.as_bytes(), 0);
            let whole_value = value_end(text, start).is_ok_and(|end| text[end..].trim().is_empty());
            assert!(!whole_value, "{text}");
        }
    }

    #[test]
    fn depth_is_no_limit() {
        let deep = "[".repeat(200_000) + &"]".repeat(200_000);
        assert_eq!(whole(&deep), Ok(()));
        assert_eq!(value_end(&deep, 0), Ok(400_000));
    }

    #[test]
    fn members_and_elements_are_found_without_descending() {
        let text = r#"{ "a" : [1, {"b":2}] , "c":"}" }"#;
        let mut members = Members::of(text, 0).unwrap();
        let mut seen = Vec::new();
        while let Some((name, value)) = members.next().unwrap() {
            seen.push((name.of(text), value.of(text)));
        }
        assert_eq!(seen, [("\"a\"", "[1, {\"b\":2}]"), ("\"c\"", "\"}\"")]);
        assert_eq!(members.position(), text.len());
        let inner = elements(text, Span::new(8, 20)).unwrap();
        assert_eq!(inner.iter().map(|span| span.of(text)).collect::<Vec<_>>(), ["1", "{\"b\":2}"]);
    }
}
