//! Values that the user named as secret, found in every spelling, anywhere in a line: escaped for JSON to any depth,
//! percent-encoded, as Base64 at each alignment, as hexadecimal digits, and broken up by terminal escapes or by
//! characters that nobody sees.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use regex::bytes::{Regex, RegexBuilder};

use crate::error::{Error, Result};
use crate::jsonrpc::edit::Change;
use crate::jsonrpc::lexer::{Lexer, Token};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;

/// The fewest characters of a known secret: shorter ones stand in every other word.
pub const SHORTEST: usize = 4;

/// What may stand between two characters and is not seen: terminal escapes, zero-width and soft characters, bare or
/// escaped for JSON.
const UNSEEN: &str = r"(?:(?:\x1b|\\+(?:u001[bB]|e|x1[bB]))(?:\[[0-9;:?]*[ -/]*[@-~])?|\xe2\x80[\x8b-\x8f\xaa-\xae]|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf|\xc2\xad|\\+u(?:200[b-fB-F]|202[a-eA-E]|206[0-9a-fA-F]|[fF][eE][fF][fF]|00[aA][dD]))*";

/// The literal values that must be nowhere.
#[derive(Clone, Debug, Default)]
pub(super) struct Known {
    values: Vec<Spellings>,
}

#[derive(Clone)]
struct Spellings {
    value: String,
    text: Regex,
    /// Base64 and hexadecimal digits: the whole stretch goes.
    encoded: Regex,
}

/// Never shows a value.
impl std::fmt::Debug for Spellings {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Spellings")
    }
}

impl Known {
    /// # Errors
    ///
    /// [`Error::Usage`] for a value that is too short to be told from other text, or far too long. It names no value.
    pub(super) fn new(values: &[String]) -> Result<Self> {
        let mut known = Self::default();
        for value in values {
            if value.chars().count() < SHORTEST {
                let what =
                    format!("a secret of fewer than {SHORTEST} characters cannot be told from other text");
                return Err(Error::Usage(what));
            }
            let build = |pattern: &str| {
                RegexBuilder::new(pattern)
                    .unicode(false)
                    .size_limit(64 << 20)
                    .dfa_size_limit(16 << 20)
                    .build()
                    .map_err(|_| Error::Usage("a secret is too long to look for".to_owned()))
            };
            known.values.push(Spellings {
                text: build(&text_pattern(value))?,
                encoded: build(&encoded_pattern(value))?,
                value: value.clone(),
            });
        }
        // A value that holds another one goes first.
        known.values.sort_by_key(|spellings| std::cmp::Reverse(spellings.value.len()));
        Ok(known)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// Where the values stand in a line or any other bytes, in order, and the value. Spans do not overlap.
    pub(super) fn find(&self, bytes: &[u8]) -> Vec<(Span, String)> {
        let mut found: Vec<(Span, String)> = Vec::new();
        for spellings in &self.values {
            for matched in spellings.text.find_iter(bytes) {
                let start = escape_start(bytes, matched.start());
                found.push((Span::new(start, matched.end()), spellings.value.clone()));
            }
            for matched in spellings.encoded.find_iter(bytes) {
                found.push((stretch(bytes, matched.start(), matched.end()), spellings.value.clone()));
            }
        }
        found.sort_by_key(|(span, _)| (span.start, std::cmp::Reverse(span.end)));
        let mut end = 0;
        let mut apart: Vec<(Span, String)> = Vec::new();
        for (span, value) in found {
            match apart.last_mut() {
                Some((last, _)) if span.start < end => last.end = last.end.max(span.end),
                _ => apart.push((span, value)),
            }
            end = end.max(span.end);
        }
        apart
    }

    /// `text` without the values, and what was replaced: `placeholder` says what stands for one, and `number` stands for
    /// numbers that hold one. `None` when none is in it. A JSON text stays one.
    pub(super) fn replace(
        &self,
        text: &str,
        number: &str,
        placeholder: &mut dyn FnMut(&str) -> String,
    ) -> Option<(String, Vec<Change>)> {
        if self.values.is_empty() {
            return None;
        }
        let found = self.find(text.as_bytes());
        if found.is_empty() {
            return None;
        }
        let strings = strings(text);
        let mut out = String::with_capacity(text.len());
        let mut at = 0;
        let mut changes = Vec::with_capacity(found.len());
        for (span, value) in &found {
            let (span, is_number) = match &strings {
                None => (*span, false),
                Some(tokens) => placed(tokens, *span),
            };
            if span.start < at {
                continue;
            }
            out.push_str(text.get(at..span.start)?);
            let start = out.len();
            if is_number {
                out.push_str(number);
            } else {
                out.push_str(&placeholder(value));
            }
            changes.push(Change { old: span, new: Span::new(start, out.len()) });
            at = span.end;
        }
        out.push_str(text.get(at..)?);
        if strings.is_some() && self::strings(&out).is_none() {
            // An escape was cut in two: whole strings go instead.
            let tokens = strings.unwrap_or_default();
            return Some(whole_strings(text, &tokens, &found, number, placeholder));
        }
        Some((out, changes))
    }
}

/// The scalars of a JSON text, strings without their quotes; `None` for what is no JSON.
fn strings(text: &str) -> Option<Vec<(Span, bool)>> {
    if text
        .trim_ascii_start()
        .starts_with(|first: char| !(first.is_ascii_alphanumeric() || "{[\"-".contains(first)))
    {
        return None;
    }
    let mut lexer = Lexer::new(text);
    let mut tokens = Vec::new();
    loop {
        match lexer.next() {
            Ok(None) => return Some(tokens),
            Ok(Some((Token::String | Token::Key, span))) => {
                tokens.push((Span::new(span.start + 1, span.end.saturating_sub(1)), false));
            }
            Ok(Some((Token::Number, span))) => tokens.push((span, true)),
            Ok(Some(_)) => {}
            Err(_) => return None,
        }
    }
}

/// Where a find counts: as it is inside a string, the whole of a number.
fn placed(tokens: &[(Span, bool)], span: Span) -> (Span, bool) {
    let at = tokens.partition_point(|(token, _)| token.end < span.end);
    match tokens.get(at) {
        Some((token, true)) if token.start <= span.start => (*token, true),
        // A find that spans several values is no value.
        Some((token, false)) => (Span::new(span.start.max(token.start), span.end.max(token.start)), false),
        _ => (span, false),
    }
}

fn whole_strings(
    text: &str,
    tokens: &[(Span, bool)],
    found: &[(Span, String)],
    zero: &str,
    placeholder: &mut dyn FnMut(&str) -> String,
) -> (String, Vec<Change>) {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut changes = Vec::with_capacity(found.len());
    for (token, number) in tokens {
        let hit = found.iter().find(|(span, _)| span.start < token.end && token.start < span.end);
        let Some((_, value)) = hit else { continue };
        out.push_str(text.get(at..token.start).unwrap_or(""));
        let start = out.len();
        out.push_str(&if *number { zero.to_owned() } else { placeholder(value) });
        changes.push(Change { old: *token, new: Span::new(start, out.len()) });
        at = token.end;
    }
    out.push_str(text.get(at..).unwrap_or(""));
    (out, changes)
}

/// Where the backslashes in front of a find begin: with them a letter may be an escape, which must not be cut.
fn escape_start(bytes: &[u8], start: usize) -> usize {
    let first = bytes.get(start).copied().unwrap_or(b' ');
    if !matches!(first, b'b' | b'f' | b'n' | b'r' | b't' | b'u' | b'"' | b'/' | b'\\') {
        return start;
    }
    let front = bytes.get(..start).unwrap_or_default();
    start - front.iter().rev().take_while(|byte| **byte == b'\\').count()
}

/// The stretch of an encoding that a find stands in.
fn stretch(bytes: &[u8], start: usize, end: usize) -> Span {
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'-' | b'_' | b'=');
    let front = bytes.get(..start).unwrap_or_default().iter().rev().take_while(part).count();
    let back = bytes.get(end..).unwrap_or_default().iter().take_while(part).count();
    Span::new(escape_start(bytes, start - front), end + back)
}

/// A pattern for a value in text, however it is escaped.
fn text_pattern(value: &str) -> String {
    let mut pattern = String::new();
    let mut chars = value.chars().peekable();
    let mut first = true;
    while let Some(char) = chars.next() {
        if !first {
            pattern.push_str(UNSEEN);
        }
        first = false;
        if char == '\\' {
            let mut run = 1;
            while chars.next_if_eq(&'\\').is_some() {
                run += 1;
            }
            let _ = write!(pattern, r"(?:\\{{{run},}}|(?:%(?:25)*5[cC]){{{run}}}|(?:\\+u005[cC]){{{run}}})");
            continue;
        }
        pattern.push_str("(?:");
        let mut utf8 = [0; 4];
        let bytes = char.encode_utf8(&mut utf8).as_bytes();
        match char {
            '"' | '/' => {
                let _ = write!(pattern, r"\\*{char}");
            }
            '\n' => pattern.push_str(r"\n|\\+n"),
            '\r' => pattern.push_str(r"\r|\\+r"),
            '\t' => pattern.push_str(r"\t|\\+t"),
            ' ' => pattern.push_str(r" |\+"),
            _ => {
                for byte in bytes {
                    let _ = write!(pattern, r"\x{byte:02x}");
                }
            }
        }
        pattern.push('|');
        for byte in bytes {
            let _ = write!(pattern, "(?i:%(?:25)*{byte:02x})");
        }
        pattern.push('|');
        for unit in char.encode_utf16(&mut [0; 2]) {
            let _ = write!(pattern, r"\\+u(?i:{unit:04x})");
        }
        // What HTML makes of it.
        if !char.is_alphanumeric() {
            let code = u32::from(char);
            let _ = write!(pattern, "|&#0*{code};|(?i:&#x0*{code:x};)");
        }
        pattern.push(')');
    }
    pattern
}

/// A pattern for a value as Base64, at each alignment, and as hexadecimal digits: as it is, and as JSON has it, since
/// what is encoded may be JSON.
fn encoded_pattern(value: &str) -> String {
    let mut escaped = String::new();
    string::escape_into(&mut escaped, value);
    let mut forms = encoded_forms(value);
    if escaped != value {
        forms.extend(encoded_forms(&escaped));
    }
    forms.join("|")
}

fn encoded_forms(value: &str) -> Vec<String> {
    let mut forms: Vec<String> = (0..3)
        .filter_map(|front| {
            let mut padded = vec![0; front];
            padded.extend_from_slice(value.as_bytes());
            let encoded = STANDARD_NO_PAD.encode(&padded);
            // The first letters also say what stood in front, the last one what follows.
            let from = [0, 2, 3].get(front)?;
            let until = padded.len() * 8 / 6;
            encoded
                .get(*from..until)
                .filter(|core| core.len() >= 5)
                .map(|core| core.chars().map(base64_char).collect::<String>())
        })
        .collect();
    let hex: Vec<String> = value.bytes().map(|byte| format!("(?i:{byte:02x})")).collect();
    forms.push(hex.join("[: ]?"));
    forms
}

/// A letter of Base64 in either alphabet, in any spelling, with line breaks in front.
fn base64_char(char: char) -> String {
    let one = match char {
        '+' => r"(?:[+-]|%2[bB]|\\+u002[bB])".to_owned(),
        '/' => r"(?:\\*/|_|%2[fF])".to_owned(),
        other => other.to_string(),
    };
    format!(r"(?:\r|\n|\\+r|\\+n)*{one}")
}

#[cfg(test)]
mod tests {
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    fn scrub(values: &[&str], text: &str) -> String {
        let values: Vec<String> = values.iter().map(|value| (*value).to_owned()).collect();
        let known = Known::new(&values).unwrap();
        known.replace(text, "0", &mut |_| "X".to_owned()).map_or_else(|| text.to_owned(), |(text, _)| text)
    }

    #[test]
    fn every_spelling_goes() {
        for (value, text, expected) in [
            ("FAKE/pct+6Lk=2", "a FAKE/pct+6Lk=2 b", "a X b"),
            ("FAKE/pct+6Lk=2", "FAKE%2Fpct%2B6Lk%3D2", "X"),
            ("FAKE/pct+6Lk=2", "FAKE%2fpct%2b6Lk%3d2", "X"),
            ("FAKE/pct+6Lk=2", "FAKE%252Fpct%252B6Lk%253D2", "X"),
            ("two words", "q=two+words&two%20words", "q=X&X"),
            ("FAKE-ansi-4Hj7", "FAKE-an\x1b[31msi-4Hj7\x1b[0m", "X\x1b[0m"),
            ("FAKE-ansi-4Hj7", "FAKE-\u{200b}ansi-4Hj7", "X"),
            ("FAKE-ansi-4Hj7", r#"{"a":"FAKE-an\u001b[31msi-4Hj7"}"#, r#"{"a":"X"}"#),
            ("FAKE-ansi-4Hj7", r#"{"a":"\u0046AKE-ansi-4Hj7"}"#, r#"{"a":"X"}"#),
            ("say \"x\\y\"", r#"{"a":"say \"x\\y\""}"#, r#"{"a":"X"}"#),
            ("say \"x\\y\"", r#"{"a":"{\"b\":\"say \\\"x\\\\y\\\"\"}"}"#, r#"{"a":"{\"b\":\"X\"}"}"#),
            ("line\nbreak", r#"{"a":"{\"b\":\"line\\nbreak\"}"}"#, r#"{"a":"{\"b\":\"X\"}"}"#),
            (
                "FAKE-name-1",
                r#"{"FAKE-name-1":1,"method":"FAKE-name-1","id":"FAKE-name-1"}"#,
                r#"{"X":1,"method":"X","id":"X"}"#,
            ),
            ("12345678", r#"{"a":12345678,"b":[912345678]}"#, r#"{"a":0,"b":[0]}"#),
            ("12345678", " 12345678 ", " 0 "),
            ("12345678", "-12345678.5", "0"),
            ("12345678", "12345678 or so", "X or so"),
            ("geheimé", r#"{"a":"geheim\u00e9 geheim%C3%A9 geheimé"}"#, r#"{"a":"X X X"}"#),
            ("FAKE-hex-1", "46414b452d6865782d31 and 46:41:4B:45:2D:68:65:78:2D:31", "X and X"),
            ("nothing here", r#"{"a":"b"}"#, r#"{"a":"b"}"#),
            ("news-item", r#"{"a":"\news-item"}"#, r#"{"a":"X"}"#),
        ] {
            assert_eq!(scrub(&[value], text), expected, "{text}");
        }
        for front in ["", "a", "ab", "abc"] {
            for engine in [STANDARD, URL_SAFE] {
                let text = format!("see {}", engine.encode(format!("{front}FAKE>>b64??9 and more")));
                assert_eq!(scrub(&["FAKE>>b64??9"], &text), "see X", "{text}");
            }
        }
        for front in ["", "a", "ab"] {
            let json = format!(r#"{{"{front}":"say \"x\\y\"\n","b":1}}"#);
            assert_eq!(
                scrub(&["say \"x\\y\"\n"], &format!("see {}", STANDARD.encode(json))),
                "see X",
                "{front}"
            );
        }
        assert_eq!(scrub(&["FAKE-1", "FAKE-1-long"], "FAKE-1-long FAKE-1"), "X X");
    }

    #[test]
    fn a_value_must_be_told_from_other_text() {
        let error = Known::new(&["abc".to_owned()]).unwrap_err();
        assert_eq!(error.to_string(), "a secret of fewer than 4 characters cannot be told from other text");
    }
}
