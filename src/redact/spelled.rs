//! Whether what is written in a live message is what a recorded one says with placeholders in it: the last resort where
//! the two are read differently, since a placeholder has no blanks, quotes and signs that what it stands for has.

use super::nested::{DEEPEST, documents, fields};
use super::treatments::{fit, fit_spans};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

/// As [`fit`], where no live text goes over the edges of what is in the string it stands in: of a value in JSON, or of
/// a field of a form.
#[must_use]
pub fn fit_whole(recorded: &[u8], live: &[u8]) -> Option<Vec<String>> {
    let spans = fit_spans(recorded, live)?;
    let mut strings = Strings { form: live, at: 0 };
    let mut string = Span::default();
    for span in spans {
        while string.end < span.end {
            string = strings.next()?;
        }
        let text = |from: usize, to: usize| unescape(live.get(from..to).unwrap_or_default());
        let front = text(string.start, span.start).len();
        let inside = Span::new(front, front + text(span.start, span.end).len());
        if crosses(&text(string.start, string.end), inside, 0) {
            return None;
        }
    }
    fit(recorded, live)
}

/// The insides of the strings of a comparison form, names among them.
struct Strings<'a> {
    form: &'a [u8],
    at: usize,
}

impl Iterator for Strings<'_> {
    type Item = Span;

    fn next(&mut self) -> Option<Span> {
        let start = self.at + memchr::memchr(b'"', self.form.get(self.at..)?)? + 1;
        let mut end = start;
        while let Some(byte) = self.form.get(end).filter(|byte| **byte != b'"') {
            end += if *byte == b'\\' { 2 } else { 1 };
        }
        self.at = end + 1;
        Some(Span::new(start, end))
    }
}

fn unescape(form: &[u8]) -> String {
    let mut text = Vec::with_capacity(form.len());
    let mut bytes = form.iter();
    while let Some(byte) = bytes.next() {
        text.extend(if *byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// Whether a span lies over an edge of the structure that a text has.
fn crosses(text: &str, span: Span, level: usize) -> bool {
    let inside = |outer: Span| outer.start <= span.start && span.end <= outer.end;
    let beside = |other: Span| span.end <= other.start || other.end <= span.start;
    if level == DEEPEST || span.is_empty() || span.len() == text.len() {
        return false;
    }
    if let Some(lists) = fields(text) {
        let parts = |(name, value): (Span, Span)| {
            inside(name) || inside(value) || beside(Span::new(name.start, value.end))
        };
        return !lists.iter().flatten().all(|field| parts(field.parts()));
    }
    documents(text).into_iter().filter(|document| !beside(*document)).any(|document| {
        let covers = span.start <= document.start && document.end <= span.end;
        let within =
            || inside(document) && is_in_token(document.of(text), span.rebased(document.start, 0), level);
        !(covers || within())
    })
}

/// Whether a span of a JSON text is inside one of its names or strings, and crosses nothing in there, or one of its
/// other scalars.
fn is_in_token(text: &str, span: Span, level: usize) -> bool {
    let Ok(tree) = Tree::of(text) else { return false };
    let within = |literal: Span| {
        literal.start < span.start && span.end < literal.end && {
            let decoded = |from: usize, to: usize| {
                let literal = format!("\"{}\"", Span::new(from, to).of(text));
                string::decode(&literal).into_owned()
            };
            let front = decoded(literal.start + 1, span.start).len();
            let inside = Span::new(front, front + decoded(span.start, span.end).len());
            !crosses(&decoded(literal.start + 1, literal.end - 1), inside, level + 1)
        }
    };
    tree.iter().any(|(_, node)| {
        node.name.is_some_and(within)
            || match node.kind {
                Kind::String => within(node.span),
                Kind::Number | Kind::Literal => node.span.start <= span.start && span.end <= node.span.end,
                Kind::Object | Kind::Array => false,
            }
    })
}

#[cfg(test)]
mod tests {
    use super::super::ANY;
    use super::*;

    #[test]
    fn no_text_goes_over_an_edge() {
        let form = |text: &str| {
            let mut form = Vec::new();
            crate::jsonrpc::canonical::write_string(&string::encode(text), &mut form);
            form.iter().map(|byte| if *byte == b'*' { ANY } else { *byte }).collect::<Vec<_>>()
        };
        for (recorded, live, expected) in [
            ("password=*", "password=host=1 db=2", Some(vec!["host=1 db=2"])),
            ("password=*", "password=x&a=1", None),
            ("password=*&a=1", "password=x&a=1", Some(vec!["x"])),
            ("*", "password=x&a=1", Some(vec!["password=x&a=1"])),
            ("https://h.io/*?a=1", "https://h.io/x?a=1", Some(vec!["x"])),
            ("https://h.io/*=1", "https://h.io/x?a=1", None),
            (r#"is {"a":"*","k":1} ok"#, r#"is {"a":"x","k":1} ok"#, Some(vec!["x"])),
            (r#"is {"a":"*","k":1} ok"#, r#"is {"a":"x","b":"","k":1} ok"#, None),
            ("is * ok", r#"is {"a":"x","k":1} ok"#, Some(vec![r#"{\"a\":\"x\",\"k\":1}"#])),
            ("is {*} ok", r#"is {"a":"x"} ok"#, None),
            (r#"{"a":*}"#, r#"{"a":12}"#, Some(vec!["12"])),
            (r#"{"a":*}"#, r#"{"a":1,"b":2}"#, None),
            (r#"{"*":1}"#, r#"{"x y":1}"#, Some(vec!["x y"])),
            (r#"{"a":"p=*"}"#, r#"{"a":"p=x&q=y"}"#, None),
            (r#"{"a":"{\"b\":\"*\"}"}"#, r#"{"a":"{\"b\":\"x\"}"}"#, Some(vec!["x"])),
            (r#"{"a":"{\"b\":\"*\"}"}"#, r#"{"a":"{\"b\":\"x\",\"c\":\"y\"}"}"#, None),
            ("{\"a\": cut *", "{\"a\": cut x\"", Some(vec!["x\\\""])),
        ] {
            let expected: Option<Vec<String>> =
                expected.map(|values| values.into_iter().map(str::to_owned).collect());
            assert_eq!(fit_whole(&form(recorded), &form(live)), expected, "{recorded} {live}");
        }
    }
}
