//! Whether what is written in a live message is what a recorded one says with placeholders in it: the last resort where
//! the two are read differently, since a placeholder has no blanks, quotes and signs that what it stands for has.

use super::nested::{DEEPEST, Field, fields};
use super::torn::documents;
use super::treatments::fit_spans;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

/// As [`fit`](super::fit), where no live text goes over the edges of what is in the string it stands in: of a value in
/// JSON, or of a field of a form.
#[must_use]
pub fn fit_whole(recorded: &[u8], live: &[u8]) -> Option<Vec<String>> {
    let spans = fit_spans(recorded, live)?;
    let piece = |from: usize, to: usize| unescape(live.get(from..to).unwrap_or_default());
    let mut rest = spans.as_slice();
    for string in (Strings { form: live, at: 0 }) {
        // Numbers stand beside strings.
        while let [span, behind @ ..] = rest
            && span.start < string.start
        {
            rest = behind;
        }
        let count = rest.iter().take_while(|span| span.end <= string.end).count();
        if let Some((inside, behind)) = rest.split_at_checked(count).filter(|(inside, _)| !inside.is_empty())
        {
            let places = places(inside, string.start, |span| piece(span.start, span.end).len());
            if crosses(&piece(string.start, string.end), &places, 0) {
                return None;
            }
            rest = behind;
        }
    }
    let text = |span: &Span| {
        String::from_utf8_lossy(live.get(span.start..span.end).unwrap_or_default()).into_owned()
    };
    Some(spans.iter().map(text).collect())
}

/// Spans in order, and where they are in a text that begins at `start` when it is decoded; `len` says how long a part
/// becomes.
fn places(spans: &[Span], start: usize, len: impl Fn(Span) -> usize) -> Vec<Span> {
    let (mut from, mut at) = (start, 0);
    let place = |span: &Span| {
        let begin = at + len(Span::new(from, span.start));
        let end = begin + len(*span);
        (from, at) = (span.end, end);
        Span::new(begin, end)
    };
    spans.iter().map(place).collect()
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

fn inside(span: Span, outer: Span) -> bool {
    outer.start <= span.start && span.end <= outer.end
}

/// Whether one of these spans, in order, lies over an edge of the structure that a text has.
fn crosses(text: &str, spans: &[Span], level: usize) -> bool {
    let told = |span: &&Span| !span.is_empty() && span.len() < text.len();
    let spans: Vec<Span> = spans.iter().filter(told).copied().collect();
    if level == DEEPEST || spans.is_empty() {
        return false;
    }
    if let Some(lists) = fields(text) {
        let fields: Vec<(Span, Span)> = lists.iter().flatten().map(Field::parts).collect();
        return spans.iter().any(|span| {
            let from = fields.partition_point(|(_, value)| value.end <= span.start);
            let over = fields.iter().skip(from).take_while(|(name, _)| name.start < span.end);
            over.into_iter().any(|(name, value)| !inside(*span, *name) && !inside(*span, *value))
        });
    }
    documents(text).into_iter().any(|document| {
        let from = spans.partition_point(|span| span.end <= document.start);
        let over = spans.iter().skip(from).take_while(|span| span.start < document.end);
        // What covers all of it crosses nothing.
        let over: Vec<Span> = over.filter(|span| !inside(document, **span)).copied().collect();
        let within: Vec<Span> = over.iter().map(|span| span.rebased(document.start, 0)).collect();
        let kept = || {
            over.iter().all(|span| inside(*span, document))
                && are_in_tokens(document.of(text), &within, level)
        };
        !(over.is_empty() || kept())
    })
}

/// Whether spans of a JSON text are inside of its names and strings, and cross nothing in there, or of its other
/// scalars.
fn are_in_tokens(text: &str, spans: &[Span], level: usize) -> bool {
    let Ok(tree) = Tree::of(text) else { return false };
    let mut tokens: Vec<Span> = Vec::new();
    for (_, node) in tree.iter() {
        tokens.extend(node.name);
        if !matches!(node.kind, Kind::Object | Kind::Array) {
            tokens.push(node.span);
        }
    }
    let mut rest = spans;
    while let Some(first) = rest.first() {
        let at = tokens.partition_point(|token| token.end <= first.start);
        let Some(token) = tokens.get(at) else { return false };
        let count = rest.iter().take_while(|span| span.start < token.end).count();
        let (mine, behind) = rest.split_at_checked(count).unwrap_or((rest, &[]));
        rest = behind;
        if !token.of(text).starts_with('"') {
            if !mine.iter().all(|span| inside(*span, *token)) {
                return false;
            }
            continue;
        }
        let inner = Span::new(token.start + 1, token.end - 1);
        if !mine.iter().all(|span| inside(*span, inner)) {
            return false;
        }
        let decoded = |span: Span| string::decode(&format!("\"{}\"", span.of(text))).into_owned();
        let places = places(mine, inner.start, |span| decoded(span).len());
        if crosses(&decoded(inner), &places, level + 1) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::super::ANY;
    use super::*;

    #[test]
    fn many_places_take_no_quadratic_time() {
        let form = |value: &str| {
            let text = format!(
                "{{\"a\":\"{}\"}} {}",
                format!("x {value} ").repeat(20_000),
                format!("y {value} ").repeat(20_000)
            );
            let mut form = Vec::new();
            crate::jsonrpc::canonical::write_string(&string::encode(&text), &mut form);
            form.iter().map(|byte| if *byte == b'*' { ANY } else { *byte }).collect::<Vec<_>>()
        };
        let values = fit_whole(&form("*"), &form("host=1")).unwrap();
        assert_eq!((values.len(), values[0].as_str()), (40_000, "host=1"));
    }

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
