//! The comparison form: two values are equal exactly when their comparison forms are the same bytes.
//!
//! Object members are in order of their names (repeated names stay in document order), white space is gone, escapes
//! are decoded, and numbers are normalised decimals (`1`, `1.0`, `10e-1` are equal, `1` and `"1"` are not), without
//! ever becoming a floating-point number.

use std::borrow::Cow;

use super::string;
use super::tree::{Kind, Tree};

/// What the comparison does with a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Treat {
    /// Compare it.
    Keep,
    /// Leave it out: as a member it equals its absence, as an array element it equals any other left-out element.
    Drop,
    /// Put these bytes in its place; equal bytes are equal values.
    As(Vec<u8>),
    /// Put these bytes in the place of its name, behind the members with names of their own, in document order; and
    /// do this with the value.
    Named(Vec<u8>, Box<Treat>),
}

enum Step {
    Value(usize),
    /// With what was decided about it when its siblings were put in order.
    Member(usize, Treat),
    Byte(u8),
}

/// Appends the comparison form of the node at `root`. `treat` is asked for every node before its children.
pub fn write(tree: &Tree<'_>, root: usize, out: &mut Vec<u8>, treat: &mut dyn FnMut(usize) -> Treat) {
    write_members(tree, root, out, treat, true);
}

/// The same with the members of objects in document order: of a member whose name is not known, only its place is.
pub fn write_in_order(
    tree: &Tree<'_>,
    root: usize,
    out: &mut Vec<u8>,
    treat: &mut dyn FnMut(usize) -> Treat,
) {
    write_members(tree, root, out, treat, false);
}

fn write_members(
    tree: &Tree<'_>,
    root: usize,
    out: &mut Vec<u8>,
    treat: &mut dyn FnMut(usize) -> Treat,
    sorted: bool,
) {
    // Enough for most messages.
    let mut steps = Vec::with_capacity(16);
    let mut members = Vec::new();
    steps.push(Step::Value(root));
    while let Some(step) = steps.pop() {
        let (index, treatment) = match step {
            Step::Byte(byte) => {
                out.push(byte);
                continue;
            }
            Step::Value(index) => (index, treat(index)),
            Step::Member(index, Treat::Named(name, treatment)) => {
                out.extend_from_slice(&name);
                (index, *treatment)
            }
            Step::Member(index, treatment) => {
                if let Some(name) = tree.node(index).and_then(|node| node.name) {
                    write_string(name.of(tree.text), out);
                }
                (index, treatment)
            }
        };
        let Some(node) = tree.node(index) else { continue };
        match treatment {
            // The root has no name.
            Treat::Keep | Treat::Named(..) => {}
            Treat::Drop => {
                out.extend_from_slice(b"?,");
                continue;
            }
            Treat::As(bytes) => {
                out.extend_from_slice(&bytes);
                out.push(b',');
                continue;
            }
        }
        match node.kind {
            Kind::Object => {
                out.push(b'{');
                steps.push(Step::Byte(b','));
                steps.push(Step::Byte(b'}'));
                gather_members(tree, index, &mut members, treat, sorted);
                steps.extend(
                    members.drain(..).rev().map(|(_, child, treatment)| Step::Member(child, treatment)),
                );
            }
            Kind::Array => {
                out.push(b'[');
                steps.push(Step::Byte(b','));
                steps.push(Step::Byte(b']'));
                let from = steps.len();
                steps.extend(tree.children(index).map(Step::Value));
                if let Some(children) = steps.get_mut(from..) {
                    children.reverse();
                }
            }
            Kind::String => {
                write_string(node.span.of(tree.text), out);
                out.push(b',');
            }
            Kind::Number => {
                write_number(node.span.of(tree.text), out);
                out.push(b',');
            }
            Kind::Literal => {
                out.extend_from_slice(node.span.of(tree.text).as_bytes());
                out.push(b',');
            }
        }
    }
}

/// A member with its name, decoded.
type Member<'t> = (Cow<'t, [u8]>, usize, Treat);

/// Fills an empty list with those members of an object that are not left out, in the order in which they are written.
fn gather_members<'t>(
    tree: &'t Tree<'_>,
    object: usize,
    members: &mut Vec<Member<'t>>,
    treat: &mut dyn FnMut(usize) -> Treat,
    sorted: bool,
) {
    for child in tree.children(object) {
        let treatment = treat(child);
        if treatment != Treat::Drop {
            let name = tree.node(child).and_then(|node| node.name).map_or("", |name| name.of(tree.text));
            members.push((string::decode_bytes(name), child, treatment));
        }
    }
    let renamed = |treatment: &Treat| matches!(treatment, Treat::Named(..));
    if sorted {
        members.sort_by(|one, other| match (renamed(&one.2), renamed(&other.2)) {
            (false, false) => one.0.cmp(&other.0),
            (one, other) => one.cmp(&other),
        });
    }
}

/// Appends the comparison form of a string literal: decoded, with only `"` and `\` escaped.
pub fn write_string(literal: &str, out: &mut Vec<u8>) {
    if memchr::memchr(b'\\', literal.as_bytes()).is_none() {
        // Without escapes it is its own form.
        out.extend_from_slice(literal.as_bytes());
        return;
    }
    out.push(b'"');
    let decoded = string::decode_bytes(literal);
    if memchr::memchr2(b'"', b'\\', &decoded).is_none() {
        out.extend_from_slice(&decoded);
    } else {
        for &byte in decoded.iter() {
            if matches!(byte, b'"' | b'\\') {
                out.push(b'\\');
            }
            out.push(byte);
        }
    }
    out.push(b'"');
}

/// Appends the comparison form of a number: its significant digits and the power of ten of the last one.
pub fn write_number(text: &str, out: &mut Vec<u8>) {
    // Most numbers are short integers, and those are their own form but for trailing zeros.
    if text.len() < 18 && text.bytes().all(|byte| byte.is_ascii_digit()) && !text.ends_with('0') {
        out.extend_from_slice(text.as_bytes());
        return;
    }
    let (negative, magnitude) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (mantissa, exponent) = match magnitude.find(['e', 'E']) {
        Some(at) => (magnitude.get(..at).unwrap_or(""), magnitude.get(at + 1..).unwrap_or("")),
        None => (magnitude, "0"),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    let significant = digits.trim_start_matches('0');
    let kept = significant.trim_end_matches('0');
    if kept.is_empty() {
        out.push(b'0');
        return;
    }
    if negative {
        out.push(b'-');
    }
    out.extend_from_slice(kept.as_bytes());
    // An exponent of more than 18 digits is kept as spelt: such numbers are equal only when written alike.
    let shift = i128::try_from(significant.len() - kept.len()).unwrap_or(0)
        - i128::try_from(fraction.len()).unwrap_or(0);
    match exponent.parse::<i64>() {
        Ok(exponent) => {
            let power = i128::from(exponent) + shift;
            if power != 0 {
                out.extend_from_slice(format!("e{power}").as_bytes());
            }
        }
        Err(_) => out.extend_from_slice(format!("E{}:{shift}", exponent.trim_start_matches('+')).as_bytes()),
    }
}

/// The id of a message in one spelling: equal ids are equal texts, since servers may spell anew what they have read. What
/// clients send is borrowed.
#[must_use]
pub fn id(text: &str) -> Cow<'_, str> {
    let mut form = Vec::new();
    match text.as_bytes() {
        [b'"', ..] if text.contains('\\') => write_string(text, &mut form),
        [b'-', digits @ ..] | digits if digits.iter().all(u8::is_ascii_digit) && digits != b"0" => {}
        [b'-' | b'0'..=b'9', ..] => write_number(text, &mut form),
        _ => {}
    }
    if form.is_empty() {
        return Cow::Borrowed(text);
    }
    let Ok(form) = String::from_utf8(form) else { return Cow::Borrowed(text) };
    match form.split_once('e').map(|(digits, power)| (digits, power.parse::<usize>())) {
        // An integer, as it is mostly spelt.
        Some((digits, Ok(power @ 0..=18))) if !form.starts_with('"') => {
            Cow::Owned(format!("{digits}{}", "0".repeat(power)))
        }
        _ => Cow::Owned(form),
    }
}

/// The comparison form of a whole text; `None` when it is not JSON.
#[must_use]
pub fn of(text: &str) -> Option<Vec<u8>> {
    let tree = Tree::of(text).ok()?;
    let mut out = Vec::with_capacity(text.len());
    write(&tree, 0, &mut out, &mut |_| Treat::Keep);
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal() {
        for (one, other) in [
            ("1", "1.0"),
            ("1", "10e-1"),
            ("100", "1E2"),
            ("-0", "0.00"),
            ("0.5", "5e-1"),
            ("1e400", "10E399"),
            (r#""\u00e9""#, "\"é\""),
            (r#""\/""#, "\"/\""),
            (r#"{"a":1,"b":[2]}"#, " { \"b\" : [ 2.0 ] , \"\\u0061\" : 1 } "),
            (r#"{"x":{"b":1,"a":{"d":1,"c":2}}}"#, r#"{"x":{"a":{"c":2,"d":1},"b":1}}"#),
        ] {
            assert_eq!(of(one).unwrap(), of(other).unwrap(), "{one} {other}");
        }
    }

    #[test]
    fn different() {
        for (one, other) in [
            ("1", "\"1\""),
            ("1", "-1"),
            ("1", "10"),
            ("123456789012345678901234", "123456789012345678901235"),
            ("1e400", "1e401"),
            (r#""\ud800""#, r#""\ud801""#),
            (r#""\ud800""#, "\"\u{fffd}\""),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#),
            (r#"{"a":1,"a":2}"#, r#"{"a":2}"#),
            (r#"["a","b"]"#, r#"["a\",\"b"]"#),
            ("[[1],2]", "[[1,2]]"),
            ("[12]", "[1,2]"),
            ("null", "\"null\""),
            ("{}", "[]"),
            ("{}", "null"),
        ] {
            assert_ne!(of(one).unwrap(), of(other).unwrap(), "{one} {other}");
        }
    }

    #[test]
    fn ids_in_one_spelling() {
        for (text, expected) in [
            ("1", "1"),
            ("10", "10"),
            ("-10", "-10"),
            ("0", "0"),
            ("-0", "0"),
            ("1.0", "1"),
            ("10.0", "10"),
            ("-1e1", "-10"),
            ("1.5", "15e-1"),
            ("9007199254740993", "9007199254740993"),
            ("1e400", "1e400"),
            ("\"1\"", "\"1\""),
            ("\"1e5\"", "\"1e5\""),
            (r#""\u0061e1""#, "\"ae1\""),
            (r#""\ud800""#, r#""\ud800""#),
            ("null", "null"),
        ] {
            assert_eq!(id(text), expected, "{text}");
        }
    }

    #[test]
    fn dropped_members_equal_their_absence() {
        let form = |text: &str| {
            let tree = Tree::of(text).unwrap();
            let mut out = Vec::new();
            write(&tree, 0, &mut out, &mut |index| {
                if tree.name_is(index, "x") { Treat::Drop } else { Treat::Keep }
            });
            out
        };
        assert_eq!(form(r#"{"x":1,"y":2}"#), form(r#"{"y":2}"#));
        assert_ne!(form(r#"{"x":1,"y":2}"#), form(r#"{"y":3}"#));
    }

    #[test]
    fn document_order_can_be_kept() {
        let form = |text: &str| {
            let tree = Tree::of(text).unwrap();
            let mut out = Vec::new();
            write_in_order(&tree, 0, &mut out, &mut |_| Treat::Keep);
            String::from_utf8(out).unwrap()
        };
        assert_eq!(
            form(r#"{"b": [1.0, {"d":"x", "c":2}], "a":null}"#),
            r#"{"b"[1,{"d""x","c"2,},],"a"null,},"#
        );
    }

    #[test]
    fn depth_and_width_are_no_limit() {
        let deep = "{\"b\":1,\"a\":".repeat(100_000) + "0" + &"}".repeat(100_000);
        assert!(of(&deep).is_some());
    }
}
