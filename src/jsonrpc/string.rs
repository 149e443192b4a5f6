//! JSON string literals: decoding, encoding, and mapping decoded positions back to the literal.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::scan::Span;

/// What a literal (with its quotes) stands for, as bytes: UTF-8, with a lone surrogate as the three bytes that UTF-8
/// would use for it, so that different lone surrogates stay different.
#[must_use]
pub fn decode_bytes(literal: &str) -> Cow<'_, [u8]> {
    let inner = inner(literal);
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Cow::Borrowed(inner.as_bytes());
    }
    let mut out = Vec::with_capacity(inner.len());
    for piece in Pieces::new(inner) {
        piece.push_to(&mut out);
    }
    Cow::Owned(out)
}

/// What a literal stands for as text; a lone surrogate becomes U+FFFD.
#[must_use]
pub fn decode(literal: &str) -> Cow<'_, str> {
    match decode_bytes(literal) {
        Cow::Borrowed(_) => Cow::Borrowed(inner(literal)),
        Cow::Owned(bytes) => Cow::Owned(
            String::from_utf8(bytes)
                .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()),
        ),
    }
}

/// Whether the literal stands for exactly `text`.
#[must_use]
pub fn is(literal: &str, text: &str) -> bool {
    let inner = inner(literal).as_bytes();
    inner == text.as_bytes()
        || (memchr::memchr(b'\\', inner).is_some() && *decode_bytes(literal) == *text.as_bytes())
}

/// The literal for `text`, with quotes and the shortest escapes.
#[must_use]
pub fn encode(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    escape_into(&mut out, text);
    out.push('"');
    out
}

/// Appends `text` with what JSON must have escaped.
pub fn escape_into(out: &mut String, text: &str) {
    for char in text.chars() {
        match char {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            other => out.push(other),
        }
    }
}

fn inner(literal: &str) -> &str {
    // Comparing with a `char` would be two calls for every string there is.
    match literal.as_bytes() {
        [b'"', .., b'"'] => literal.get(1..literal.len() - 1).unwrap_or(literal),
        _ => literal,
    }
}

/// The spans in `literal` (quotes included in its offsets) that stand for the given spans of its decoded text.
/// `decoded` must be in order and not overlap; the result has as many entries.
#[must_use]
pub fn locate(literal: &str, decoded: &[Span]) -> Vec<Span> {
    let mut place = Place {
        pieces: Pieces::new(inner(literal)),
        raw: Span::new(1, 1),
        plain: Span::default(),
        whole: true,
        escape: Vec::new(),
    };
    decoded.iter().map(|span| Span::new(place.seek(span.start, false), place.seek(span.end, true))).collect()
}

/// A piece of a literal, and what it covers of the literal and of the decoded text.
struct Place<'a> {
    pieces: Pieces<'a>,
    raw: Span,
    plain: Span,
    whole: bool,
    /// What an escape stands for.
    escape: Vec<u8>,
}

impl Place<'_> {
    /// The literal's offset for a decoded offset; an offset inside an escape goes to that escape's edge.
    fn seek(&mut self, offset: usize, end: bool) -> usize {
        while offset > self.plain.end || (offset == self.plain.end && !end) {
            let Some(piece) = self.pieces.next() else { return self.raw.end };
            let decoded = match piece {
                Piece::Plain(text) => text.len(),
                Piece::Escape(text) => {
                    self.escape.clear();
                    push_escape(&mut self.escape, text);
                    self.escape.len()
                }
            };
            self.whole = matches!(piece, Piece::Escape(_));
            self.raw = Span::new(self.raw.end, self.raw.end + piece.raw_len());
            self.plain = Span::new(self.plain.end, self.plain.end + decoded);
        }
        match (self.whole, end) {
            (false, _) => self.raw.start + offset.saturating_sub(self.plain.start),
            (true, false) => self.raw.start,
            (true, true) => self.raw.end,
        }
    }
}

enum Piece<'a> {
    Plain(&'a str),
    Escape(&'a str),
}

impl Piece<'_> {
    fn raw_len(&self) -> usize {
        match self {
            Self::Plain(text) | Self::Escape(text) => text.len(),
        }
    }

    fn push_to(&self, out: &mut Vec<u8>) {
        match self {
            Self::Plain(text) => out.extend_from_slice(text.as_bytes()),
            Self::Escape(text) => push_escape(out, text),
        }
    }
}

/// Splits the inside of a literal into unescaped stretches and single escapes; a surrogate pair is one escape.
struct Pieces<'a> {
    rest: &'a str,
}

impl<'a> Pieces<'a> {
    fn new(rest: &'a str) -> Self {
        Self { rest }
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if self.rest.is_empty() {
            return None;
        }
        let (len, plain) = match memchr::memchr(b'\\', self.rest.as_bytes()) {
            None => (self.rest.len(), true),
            Some(0) => (escape_len(self.rest), false),
            Some(at) => (at, true),
        };
        let (piece, rest) = self.rest.split_at_checked(len).unwrap_or((self.rest, ""));
        self.rest = rest;
        Some(if plain { Piece::Plain(piece) } else { Piece::Escape(piece) })
    }
}

fn hex4(text: &str, at: usize) -> Option<u32> {
    text.get(at..at + 4).and_then(|digits| u32::from_str_radix(digits, 16).ok())
}

fn escape_len(text: &str) -> usize {
    if text.as_bytes().get(1) != Some(&b'u') {
        return 2;
    }
    let pair = hex4(text, 2).is_some_and(|high| (0xd800..0xdc00).contains(&high))
        && text.get(6..8) == Some("\\u")
        && hex4(text, 8).is_some_and(|low| (0xdc00..0xe000).contains(&low));
    if pair { 12 } else { 6 }
}

fn push_escape(out: &mut Vec<u8>, escape: &str) {
    let byte = match escape.as_bytes().get(1) {
        Some(b'n') => b'\n',
        Some(b'r') => b'\r',
        Some(b't') => b'\t',
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'u') => {
            let mut code = hex4(escape, 2).unwrap_or(0xfffd);
            if let Some(low) = hex4(escape, 8) {
                code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
            }
            match char::from_u32(code) {
                Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
                None => out.extend(
                    [0xe0 | (code >> 12), 0x80 | (code >> 6 & 0x3f), 0x80 | (code & 0x3f)].map(low_byte),
                ),
            }
            return;
        }
        Some(other) => *other,
        None => return,
    };
    out.push(byte);
}

fn low_byte(code: u32) -> u8 {
    u8::try_from(code & 0xff).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_every_escape() {
        for (literal, bytes) in [
            (r#""plain é""#, "plain é".as_bytes()),
            (r#""\"\\\/\b\f\n\r\t""#, b"\"\\/\x08\x0c\n\r\t"),
            (r#""\u00e9""#, "é".as_bytes()),
            (r#""\ud83d\ude00x""#, "😀x".as_bytes()),
            (r#""\ud800""#, b"\xed\xa0\x80"),
            (r#""\ud800\u0041""#, b"\xed\xa0\x80A"),
        ] {
            assert_eq!(&*decode_bytes(literal), bytes, "{literal}");
        }
        assert_eq!(decode(r#""\ud800x""#), "\u{fffd}\u{fffd}\u{fffd}x");
    }

    #[test]
    fn encode_and_decode_are_inverse() {
        for text in ["", "a\"b\\c\nd\u{1}\u{2028}😀", "\u{7f}"] {
            assert_eq!(decode(&encode(text)), text);
        }
    }

    #[test]
    fn locates_decoded_spans_in_the_literal() {
        let literal = r#""a\n\u00e9bc\ud83d\ude00d""#;
        let decoded = decode(literal).into_owned();
        for (wanted, raw) in [
            ("a", "a"),
            ("\n", "\\n"),
            ("éb", "\\u00e9b"),
            ("bc", "bc"),
            ("c😀", "c\\ud83d\\ude00"),
            ("d", "d"),
        ] {
            let start = decoded.find(wanted).unwrap();
            let found = locate(literal, &[Span::new(start, start + wanted.len())]);
            assert_eq!(found[0].of(literal), raw);
        }
        let two = locate(literal, &[Span::new(0, 1), Span::new(4, 6)]);
        assert_eq!(two.iter().map(|span| span.of(literal)).collect::<Vec<_>>(), ["a", "bc"]);
    }
}
