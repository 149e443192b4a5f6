//! JSON that stands in a text whole, that was cut off, or that breaks off where something else goes on: what there is of
//! it, with what completes it.

use std::borrow::Cow;

use super::prose;
use super::rules::Rules;
use crate::jsonrpc::lexer::{Lexer, Token};
use crate::jsonrpc::scan::{Span, value_end};
use crate::jsonrpc::string;

/// A JSON text inside of another text.
#[derive(Debug)]
pub(super) struct Piece {
    /// Where it stands.
    pub(super) span: Span,
    /// Where its last value ends: at the end of the span, or in front of half an escape there.
    end: usize,
    /// The name of the member that it is the value of, where what held that was cut off in front.
    front: String,
    /// Quotes and brackets that it lacks.
    back: String,
}

impl Piece {
    fn whole(span: Span) -> Self {
        Self { span, end: span.end, front: String::new(), back: String::new() }
    }

    /// Whether something was added to it.
    pub(super) fn is_torn(&self) -> bool {
        !self.back.is_empty()
    }

    /// Whether what stands in front of it names it.
    pub(super) fn is_named(&self) -> bool {
        !self.front.is_empty()
    }

    /// A JSON text.
    pub(super) fn text<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if !self.is_torn() {
            return Cow::Borrowed(self.span.of(text));
        }
        Cow::Owned([&self.front, Span::new(self.span.start, self.end).of(text), &self.back].concat())
    }

    /// Where a part of the JSON text stands in the text around it.
    pub(super) fn place(&self, span: Span) -> Span {
        let at = |at: usize| self.span.start + at.saturating_sub(self.front.len());
        let end = at(span.end);
        Span::new(at(span.start).min(self.span.end), if end < self.end { end } else { self.span.end })
    }
}

/// The objects and arrays in a text that stand there whole, or the one string that it is.
pub(super) fn documents(text: &str) -> Vec<Span> {
    scan(text, |_, _| None).into_iter().map(|piece| piece.span).collect()
}

/// The same, and what there is of those that are not whole.
pub(super) fn pieces(rules: &Rules, text: &str) -> Vec<Piece> {
    let mut pieces = scan(text, torn);
    for piece in &mut pieces {
        let name = prose::quoted_name_in_front(text, piece.span.start);
        if let Some(name) = name.filter(|name| rules.facts(name).rule.is_some()) {
            piece.front = format!("{{{}:", string::encode(name));
            piece.back.push('}');
        }
    }
    pieces
}

fn scan(text: &str, torn: impl Fn(&str, usize) -> Option<Piece>) -> Vec<Piece> {
    let trimmed = text.trim_ascii();
    let start = text.len() - text.trim_ascii_start().len();
    if trimmed.starts_with('"') && value_end(text, start) == Ok(start + trimmed.len()) {
        return vec![Piece::whole(Span::new(start, start + trimmed.len()))];
    }
    let mut found = Vec::new();
    // Each opening bracket may be a false start that is read to the end of the text: that must not become quadratic.
    let mut patience = 16 * text.len() + 4096;
    let mut at = 0;
    while let Some(offset) = text.as_bytes().get(at..).and_then(|rest| memchr::memchr2(b'{', b'[', rest)) {
        let start = at + offset;
        at = start + 1;
        match value_end(text, start) {
            Ok(end) => {
                found.push(Piece::whole(Span::new(start, end)));
                at = end;
            }
            Err(error) => {
                let Some(left) = patience.checked_sub(error.at.saturating_sub(start)) else { break };
                patience = left;
                if let Some(piece) = torn(text, start) {
                    at = piece.span.end;
                    found.push(piece);
                }
            }
        }
    }
    found
}

/// What there is of a JSON text that begins at `start` and is not whole, up to its last value; `None` where there is none.
fn torn(text: &str, start: usize) -> Option<Piece> {
    let rest = text.get(start..)?;
    let mut lexer = Lexer::new(rest);
    let mut open: Vec<char> = Vec::new();
    let (mut end, mut closers, mut values) = (0, 0, false);
    let error = loop {
        match lexer.next() {
            Err(error) => break Some(error),
            Ok(None) => return None,
            // A name without a value is left to those who look through free text.
            Ok(Some((Token::Key, _))) => continue,
            Ok(Some((Token::BeginObject, span))) => {
                open.push('}');
                end = span.end;
            }
            Ok(Some((Token::BeginArray, span))) => {
                open.push(']');
                end = span.end;
            }
            Ok(Some((Token::EndObject | Token::EndArray, span))) => {
                open.pop();
                end = span.end;
            }
            Ok(Some((token, span))) => {
                // `192.168` of an address in brackets is no number.
                let next = rest.get(span.end..)?.trim_ascii_start();
                if token != Token::String && !(next.is_empty() || next.starts_with([',', ']', '}'])) {
                    break None;
                }
                values = true;
                end = span.end;
            }
        }
        closers = open.len();
    };
    let mut back: String = open.iter().take(closers).rev().collect();
    // A string that is not closed is a value where one was due.
    let string = lexer.position();
    let due = rest.get(..string)?.trim_ascii_end().bytes().last();
    let in_object = open.last() == Some(&'}');
    let is_value = due == Some(b':') || (!in_object && matches!(due, Some(b',' | b'[')));
    let mut whole = end;
    if let Some(error) =
        error.filter(|_| is_value && rest.get(string..).is_some_and(|rest| rest.starts_with('"')))
    {
        let behind = rest.get(error.at..)?;
        // What is no escape of JSON is no JSON either.
        let digits = behind.strip_prefix("\\u").map(str::as_bytes);
        let half = behind == "\\"
            || digits.is_some_and(|digits| digits.len() < 4 && digits.iter().all(u8::is_ascii_hexdigit));
        if half || !behind.starts_with('\\') {
            (end, whole) = (error.at, if half { rest.len() } else { error.at });
            back.insert(0, '"');
            values = true;
        }
    }
    values.then(|| Piece {
        span: Span::new(start, start + whole),
        end: start + end,
        front: String::new(),
        back,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::tree::Tree;

    #[test]
    fn what_there_is_is_completed() {
        for (text, expected) in [
            (r#"{"a":["b","#, &[r#"{"a":["b"]}"#][..]),
            (r#"{"a":["b","c"#, &[r#"{"a":["b","c"]}"#]),
            (r#"{"a":{"b":1,"c":"#, &[r#"{"a":{"b":1}}"#]),
            (r#"{"a":{"b":1,"c"#, &[r#"{"a":{"b":1}}"#]),
            (r#"{"a":"b\"#, &[r#"{"a":"b"}"#]),
            (r#"{"a":"b\u00"#, &[r#"{"a":"b"}"#]),
            (r#"{"a":"b\x","#, &[]),
            (r#"{"a":[{"b":[]},tru"#, &[r#"{"b":[]}"#]),
            (r#"x {"a":1, b} [2] {"c":"d"#, &[r#"{"a":1}"#, "[2]", r#"{"c":"d"}"#]),
            ("{\"a\":[\"b\nc", &[r#"{"a":["b"]}"#]),
            (r#"["a" "b"]"#, &[r#"["a"]"#]),
            (r#"{"a":1 "b":"c""#, &[]),
            (r#"{"a":"x" "b":"c""#, &[r#"{"a":"x"}"#]),
            (r#"en":["a"],"token":["b"],"a":["c"]"#, &[r#"["a"]"#, r#"{"token":["b"]}"#, r#"["c"]"#]),
            (r#"token: ["b"]"#, &[r#"["b"]"#]),
            (r#"[192.168.1.20, "a"]"#, &[]),
            (r#"["a", 4012 8888, "b"]"#, &[r#"["a"]"#]),
            (r#"{"a":1,"b":22"#, &[r#"{"a":1,"b":22}"#]),
            ("[[[{", &[]),
            ("", &[]),
        ] {
            let rules = Rules::new(true, &[]).unwrap();
            let pieces = pieces(&rules, text);
            let texts: Vec<_> = pieces.iter().map(|piece| piece.text(text)).collect();
            assert_eq!(texts, expected, "{text}");
            for piece in pieces {
                let completed = piece.text(text);
                assert!(Tree::of(&completed).is_ok());
                assert_eq!(piece.place(Span::new(0, completed.len())), piece.span, "{text}");
            }
        }
    }
}
