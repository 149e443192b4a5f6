//! Opening strings: JSON (whole, or between other text), JSON strings that hold JSON, form bodies, URLs.

use super::document::{Document, Encoding, Found, Hit, New, Removal, cut};
use super::look::{Look, Scope};
use super::placeholder::is_placeholder;
use super::prefilter::{LONGEST_FIELD_NAME, is_field_byte};
use super::torn::{self, Piece};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::tree::Tree;

/// How many strings deep texts are opened. Each level doubles the backslashes, so real ones end long before.
pub(super) const DEEPEST: usize = 8;

/// What the rules cover in a decoded string that stands `level` strings deep.
pub(super) fn open(look: &Look<'_>, text: &str, level: usize, path: &str, scope: Scope) -> Found {
    if !look.string(text, scope) {
        return Found::default();
    }
    let mut found = Found::default();
    let mut structure = Some(Vec::new());
    if level < DEEPEST {
        if let Some(fields) = fields(text) {
            found = in_fields(look, text, &fields, level, path);
            structure = None;
        } else if scope == Scope::All {
            let pieces = torn::pieces(look.rules, text);
            found = in_json(look, text, &pieces, level, path);
            structure = Some(pieces.iter().map(|piece| piece.span).collect());
        }
    }
    look.parts(text, structure.as_deref(), level, path, scope, &mut found);
    found
}

/// What the rules cover in the JSON texts that stand in a text.
fn in_json(look: &Look<'_>, text: &str, pieces: &[Piece], level: usize, path: &str) -> Found {
    let mut all = Found::default();
    for (position, piece) in pieces.iter().enumerate() {
        // One document is nearly all of the text, which may hold something.
        let is_all = pieces.len() == 1 && !piece.is_torn();
        if !(is_all || piece.is_named() || look.string(piece.span.of(text), Scope::All)) {
            continue;
        }
        let inside = piece.text(text);
        let Ok(tree) = Tree::of(&inside) else { continue };
        let path = if position == 0 { format!("{path}#") } else { format!("{path}#{position}") };
        let found = Document::inner(look, &tree, level + 1, &path).found();
        all.hits.extend(found.hits.into_iter().map(|hit| Hit { span: piece.place(hit.span), ..hit }));
        all.removals
            .extend(found.removals.into_iter().map(|cut| Removal { span: piece.place(cut.span), ..cut }));
    }
    all
}

/// A `name=value` of a form or a query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Field {
    name: Span,
    value: Span,
}

impl Field {
    /// Name and value.
    pub(super) fn parts(&self) -> (Span, Span) {
        (self.name, self.value)
    }
}

/// The fields of a text that is a form body or a URL as a whole.
pub(super) fn fields(text: &str) -> Option<Vec<Vec<Field>>> {
    if !text.contains('=') || text.bytes().any(|byte| byte <= b' ') {
        return None;
    }
    if is_url(text) {
        return Some(url_fields(text));
    }
    let whole = list(text, Span::new(0, text.len()));
    let form = text.split('&').count() == whole.len();
    form.then(|| vec![whole])
}

/// Where the fields stand in such a text, in order.
pub(super) fn field_spans(text: &str) -> Option<Vec<Span>> {
    let whole = |field: &Field| Span::new(field.name.start, field.value.end);
    fields(text).map(|lists| lists.iter().flatten().map(whole).collect())
}

pub(super) fn is_url(text: &str) -> bool {
    text.split_once("://").is_some_and(|(scheme, rest)| {
        !rest.is_empty()
            && scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    })
}

/// The fields of a URL's query and of its fragment.
pub(super) fn url_fields(url: &str) -> Vec<Vec<Field>> {
    let fragment = memchr::memchr(b'#', url.as_bytes()).unwrap_or(url.len());
    let query = url.get(..fragment).and_then(|front| front.find('?')).unwrap_or(fragment);
    [Span::new(query + 1, fragment), Span::new(fragment + 1, url.len())]
        .into_iter()
        .filter(|span| span.start < span.end)
        .map(|span| list(url, span))
        .collect()
}

fn list(text: &str, within: Span) -> Vec<Field> {
    let mut at = within.start;
    let mut fields = Vec::new();
    for piece in within.of(text).split('&') {
        let start = at;
        at += piece.len() + 1;
        let Some((name, value)) = piece.split_once('=') else { continue };
        let named = (1..=LONGEST_FIELD_NAME).contains(&name.len()) && name.bytes().all(is_field_byte);
        // A second `=` is the padding of Base64, or a comparison.
        if named && !value.starts_with('=') {
            let equals = start + name.len();
            fields.push(Field {
                name: Span::new(start, equals),
                value: Span::new(equals + 1, start + piece.len()),
            });
        }
    }
    fields
}

/// What the rules cover in lists of fields.
pub(super) fn in_fields(
    look: &Look<'_>,
    text: &str,
    lists: &[Vec<Field>],
    level: usize,
    path: &str,
) -> Found {
    let mut all = Found::default();
    let rules = look.rules;
    for fields in lists {
        let mut items = Vec::with_capacity(fields.len());
        let mut inner = Vec::new();
        for field in fields {
            let name = Percent::of(field.name.of(text));
            let value = Percent::of(field.value.of(text));
            let rule = rules.pair(&name.text, &value.text);
            items.push((Span::new(field.name.start, field.value.end), rule.is_some()));
            let path = format!("{path}#{}", name.text);
            if let Some(rule) = rule {
                let stays = value.text.is_empty()
                    || is_placeholder(&value.text)
                    || rules.text(rule) == Some(value.text.as_str());
                all.hits.push(Hit {
                    span: field.value,
                    rule,
                    path,
                    value: value.text,
                    number: false,
                    encodings: vec![Encoding::Percent],
                    part: false,
                    stays,
                });
            } else {
                let found = open(look, &value.text, level + 1, &path, Scope::All);
                if value.lossy {
                    // Where it stands is not known: all of it goes.
                    if let Some(hit) = found.hits.into_iter().find(|hit| !hit.stays) {
                        let text = field.value.of(text).to_owned();
                        inner.push(Removal { span: field.value, new: New::Part(text.clone()) });
                        let whole =
                            Hit { span: field.value, path, value: text, number: false, part: true, ..hit };
                        all.hits.push(Hit { encodings: vec![Encoding::Percent], ..whole });
                    }
                    continue;
                }
                let place = |span: Span| value.locate(span).shifted(field.value.start);
                for mut hit in found.hits {
                    hit.span = place(hit.span);
                    hit.encodings.push(Encoding::Percent);
                    all.hits.push(hit);
                }
                inner.extend(found.removals.into_iter().map(|cut| Removal { span: place(cut.span), ..cut }));
            }
        }
        let ends = fields.first().zip(fields.last());
        if let Some((first, last)) = ends.filter(|_| items.iter().any(|item| item.1)) {
            inner.extend(cut(&items, Span::new(first.name.start, last.value.end)));
        }
        all.removals.append(&mut inner);
    }
    all.removals.sort_by_key(|removal| removal.span);
    all
}

/// A percent-encoded text, decoded, and where its bytes came from.
struct Percent {
    text: String,
    /// For each decoded byte, and for the end, its place in the encoded text; empty when they are the same.
    places: Vec<usize>,
    /// It is not UTF-8: the text is only good for a look.
    lossy: bool,
}

impl Percent {
    fn of(encoded: &str) -> Self {
        if !encoded.contains(['%', '+']) {
            return Self { text: encoded.to_owned(), places: Vec::new(), lossy: false };
        }
        let bytes = encoded.as_bytes();
        let mut out = Vec::with_capacity(bytes.len());
        let mut places = Vec::with_capacity(bytes.len() + 1);
        let mut at = 0;
        while let Some(byte) = bytes.get(at) {
            places.push(at);
            let digits = encoded.get(at + 1..at + 3);
            let decoded = digits.and_then(|digits| u8::from_str_radix(digits, 16).ok());
            if let Some(decoded) = decoded.filter(|_| *byte == b'%') {
                out.push(decoded);
                at += 3;
            } else {
                out.push(if *byte == b'+' { b' ' } else { *byte });
                at += 1;
            }
        }
        places.push(at);
        match String::from_utf8(out) {
            Ok(text) => Self { text, places, lossy: false },
            Err(error) => Self {
                text: String::from_utf8_lossy(error.as_bytes()).into_owned(),
                places: Vec::new(),
                lossy: true,
            },
        }
    }

    fn locate(&self, span: Span) -> Span {
        let place = |at: usize| self.places.get(at).copied().unwrap_or(at);
        Span::new(place(span.start), place(span.end))
    }
}
