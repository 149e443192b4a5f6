//! JSON as Python's `json.dumps(indent=2, ensure_ascii=False)` lays it out, from the text of a value.
//!
//! What passes through Python's values does not come out as it went in: numbers take Python's spelling, of repeated
//! keys the last value stays at the place of the first, and a lone surrogate cannot be written as UTF-8 at all.

use std::collections::HashMap;
use std::fmt::Write as _;

use crate::jsonrpc::canonical::write_number;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

/// Containers nested deeper than this are not read back: the format's readers stop at 200 levels, a few of which
/// are the file's own.
pub(super) const DEEPEST: usize = 190;

/// How many values came out as something else.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Changed {
    /// Numbers beyond a double's range, now `null`.
    pub(super) overflows: usize,
    /// Numbers with more digits than a double holds.
    pub(super) rounded: usize,
    /// Objects that lost a repeated key.
    pub(super) repeated_keys: usize,
    /// Lone surrogates, now U+FFFD.
    pub(super) surrogates: usize,
}

impl Changed {
    pub(super) fn add(&mut self, other: Self) {
        self.overflows += other.overflows;
        self.rounded += other.rounded;
        self.repeated_keys += other.repeated_keys;
        self.surrogates += other.surrogates;
    }
}

/// How deep the containers of `tree` are nested.
pub(super) fn depth(tree: &Tree<'_>) -> usize {
    let mut depths: Vec<usize> = Vec::with_capacity(tree.len());
    for (index, node) in tree.iter() {
        let parent = if index == 0 { 0 } else { depths.get(node.parent).copied().unwrap_or(0) };
        depths.push(parent + usize::from(matches!(node.kind, Kind::Object | Kind::Array)));
    }
    depths.into_iter().max().unwrap_or(0)
}

/// Appends the node at `index` as if it stood `level` levels deep. The tree must not be deeper than [`DEEPEST`].
pub(super) fn write(tree: &Tree<'_>, index: usize, level: usize, out: &mut String, changed: &mut Changed) {
    let Some(node) = tree.node(index) else { return };
    let text = tree.text_of(index);
    match node.kind {
        Kind::Literal => out.push_str(text),
        Kind::Number => out.push_str(&number(text, changed)),
        Kind::String => write_string(text, out, changed),
        Kind::Array => {
            let children: Vec<usize> = tree.children(index).collect();
            container(out, level, ['[', ']'], &children, |out, child| {
                write(tree, *child, level + 1, out, changed);
            });
        }
        Kind::Object => {
            let members = members(tree, index, changed);
            container(out, level, ['{', '}'], &members, |out, (name, child)| {
                write_string(name, out, changed);
                out.push_str(": ");
                write(tree, *child, level + 1, out, changed);
            });
        }
    }
}

fn container<T>(
    out: &mut String,
    level: usize,
    [open, close]: [char; 2],
    children: &[T],
    mut each: impl FnMut(&mut String, &T),
) {
    out.push(open);
    for (place, child) in children.iter().enumerate() {
        if place > 0 {
            out.push(',');
        }
        new_line(out, level + 1);
        each(out, child);
    }
    if !children.is_empty() {
        new_line(out, level);
    }
    out.push(close);
}

pub(super) fn new_line(out: &mut String, level: usize) {
    let _ = write!(out, "\n{:width$}", "", width = level * 2);
}

/// Names (as literals) and values, as a Python dict keeps them.
fn members<'t>(tree: &Tree<'t>, index: usize, changed: &mut Changed) -> Vec<(&'t str, usize)> {
    let mut kept: Vec<(&str, usize)> = Vec::new();
    let mut places = HashMap::new();
    for child in tree.children(index) {
        let name = tree.node(child).and_then(|node| node.name).map_or("", |name| name.of(tree.text));
        match places.entry(string::decode_bytes(name)) {
            std::collections::hash_map::Entry::Vacant(free) => {
                free.insert(kept.len());
                kept.push((name, child));
            }
            std::collections::hash_map::Entry::Occupied(taken) => {
                if let Some(member) = kept.get_mut(*taken.get()) {
                    member.1 = child;
                }
            }
        }
    }
    changed.repeated_keys += usize::from(kept.len() < tree.children(index).count());
    kept
}

/// Appends a string literal in Python's spelling.
pub(super) fn write_string(literal: &str, out: &mut String, changed: &mut Changed) {
    let decoded = string::decode_bytes(literal);
    out.push('"');
    let mut rest = &*decoded;
    loop {
        match std::str::from_utf8(rest) {
            Ok(valid) => {
                string::escape_into(out, valid);
                break;
            }
            Err(error) => {
                let (valid, after) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
                string::escape_into(out, std::str::from_utf8(valid).unwrap_or(""));
                // The only invalid bytes in a decoded literal are the three that stand for a lone surrogate.
                out.push('\u{fffd}');
                changed.surrogates += 1;
                rest = after.get(3..).unwrap_or(&[]);
            }
        }
    }
    out.push('"');
}

fn number(text: &str, changed: &mut Changed) -> String {
    if !text.contains(['.', 'e', 'E']) {
        return if text == "-0" { "0".to_owned() } else { text.to_owned() };
    }
    let value: f64 = text.parse().unwrap_or(f64::INFINITY);
    if !value.is_finite() {
        changed.overflows += 1;
        return "null".to_owned();
    }
    let spelt = repr(value);
    let (mut before, mut after) = (Vec::new(), Vec::new());
    write_number(text, &mut before);
    write_number(&spelt, &mut after);
    changed.rounded += usize::from(before != after);
    spelt
}

/// A double as Python's `repr` spells it: the fewest digits that read back the same, with an exponent from 1e16 up
/// and below 1e-4.
fn repr(value: f64) -> String {
    let spelt = format!("{value:e}");
    let (mantissa, exponent) = spelt.split_once('e').unwrap_or((&spelt, "0"));
    let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
    let digits = mantissa.replace('.', "");
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if !(-4..16).contains(&exponent) {
        let (first, rest) = digits.split_at_checked(1).unwrap_or((&digits, ""));
        let point = if rest.is_empty() { "" } else { "." };
        let direction = if exponent < 0 { '-' } else { '+' };
        return format!("{sign}{first}{point}{rest}e{direction}{:02}", exponent.unsigned_abs());
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("{sign}0.{zeros}{digits}");
    };
    if whole == 0 {
        return format!("{sign}0.{digits}");
    }
    let padded = format!("{digits:0<whole$}");
    let (whole, fraction) = padded.split_at_checked(whole).unwrap_or((&padded, ""));
    format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> (String, Changed) {
        let tree = Tree::of(text).unwrap();
        let (mut out, mut changed) = (String::new(), Changed::default());
        write(&tree, 0, 0, &mut out, &mut changed);
        (out, changed)
    }

    #[test]
    fn numbers_are_spelt_as_python_spells_them() {
        for (text, spelt) in [
            ("0", "0"),
            ("-0", "0"),
            ("-0.0", "-0.0"),
            ("1.10", "1.1"),
            ("1e2", "100.0"),
            ("1E0", "1.0"),
            ("123456789012345678901234567890", "123456789012345678901234567890"),
            ("1e15", "1000000000000000.0"),
            ("1e16", "1e+16"),
            ("1.5e300", "1.5e+300"),
            ("123456789.125", "123456789.125"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("-0.000012345", "-1.2345e-05"),
            ("0.1", "0.1"),
            ("12e-1", "1.2"),
            ("5e-324", "5e-324"),
        ] {
            assert_eq!(written(text), (spelt.to_owned(), Changed::default()), "{text}");
        }
        assert_eq!(written("1E400"), ("null".to_owned(), Changed { overflows: 1, ..Changed::default() }));
        assert_eq!(
            written("0.12345678901234567890"),
            ("0.12345678901234568".to_owned(), Changed { rounded: 1, ..Changed::default() })
        );
    }

    #[test]
    fn layout_strings_and_repeated_keys() {
        let text =
            r#"{"a":[],"b":{},"c":[1,[true,null]],"\u0061":"\u00e9\/\u0001\u007f\"\\\n","d":"\ud83d\ude00"}"#;
        let (out, changed) = written(text);
        assert_eq!(
            out,
            "{\n  \"a\": \"é/\\u0001\u{7f}\\\"\\\\\\n\",\n  \"b\": {},\n  \"c\": [\n    1,\n    [\n      true,\n      null\n    ]\n  ],\n  \"d\": \"😀\"\n}"
        );
        assert_eq!(changed, Changed { repeated_keys: 1, ..Changed::default() });
        assert_eq!(written(r#""\ud800x\udc00""#).0, "\"\u{fffd}x\u{fffd}\"");
    }

    #[test]
    fn depth_counts_containers() {
        for (text, levels) in [("1", 0), ("[]", 1), ("[[],{\"a\":[1]}]", 3)] {
            assert_eq!(depth(&Tree::of(text).unwrap()), levels, "{text}");
        }
    }
}
