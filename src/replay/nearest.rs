//! The recorded request that is most like one that was not recorded, and where the two differ.

use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

/// How many recorded requests are compared.
pub const CANDIDATES: usize = 200;
/// How many bytes they have together at most, the first one not counted: others wait meanwhile.
pub const CANDIDATE_BYTES: usize = 1 << 20;
/// How much of a value is shown.
const SHOWN: usize = 200;
/// How deep differences are looked for; below that, values differ as a whole.
const DEPTH: usize = 100;
/// How many differences are shown.
const DIFFERENCES: usize = 10;

/// The beginning of a value, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// JSON text without white space between its tokens; only the beginning of it where `cut` is set.
    text: String,
    cut: bool,
}

impl Shown {
    /// Looks at no more of a value than is shown: it may be very large.
    #[must_use]
    pub fn of(value: &str) -> Self {
        let (mut text, mut count) = (String::new(), 0);
        let (mut in_string, mut escaped) = (false, false);
        for char in value.chars() {
            if !in_string && char.is_ascii_whitespace() {
                continue;
            }
            if count == SHOWN {
                return Self { text, cut: true };
            }
            if in_string {
                in_string = escaped || char != '"';
                escaped = !escaped && char == '\\';
            } else {
                in_string = char == '"';
            }
            text.push(char);
            count += 1;
        }
        Self { text, cut: false }
    }

    /// As JSON text. A long value becomes a string that says so, since half a JSON value is none.
    fn json(&self) -> String {
        if self.cut { string::encode(&self.words()) } else { self.text.clone() }
    }

    fn words(&self) -> String {
        format!("{}{}", self.text, if self.cut { "..." } else { "" })
    }
}

/// Text of a client as it is shown: its beginning.
#[must_use]
pub fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", text.get(..at).unwrap_or("")),
        None => text.to_owned(),
    }
}

/// One place where two values differ. `None` means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// JSON Pointer into the request, cut where it is longer than any sensible one.
    pub path: String,
    /// The recorded value.
    pub recorded: Option<Shown>,
    /// The live value.
    pub live: Option<Shown>,
    /// How many values differ here.
    pub weight: usize,
}

impl Difference {
    /// As JSON text.
    #[must_use]
    pub fn json(&self) -> String {
        let value = |value: &Option<Shown>| value.as_ref().map_or("null".to_owned(), Shown::json);
        format!(
            "{{\"path\":{},\"recorded\":{},\"live\":{}}}",
            string::encode(&self.path),
            value(&self.recorded),
            value(&self.live)
        )
    }

    /// For people.
    #[must_use]
    pub fn words(&self) -> String {
        let value = |value: &Option<Shown>| value.as_ref().map_or("nothing".to_owned(), Shown::words);
        format!("{}: recorded {}, live {}", self.path, value(&self.recorded), value(&self.live))
    }
}

/// Whether two values are different spellings of nothing: no arguments, no cursor.
fn are_nothing(path: &str, recorded: Option<&str>, live: Option<&str>) -> bool {
    let nothing = |value: Option<&str>| match value {
        None | Some("null") => true,
        Some(text) => path == "/params/arguments" && Shown::of(text).text == "{}",
    };
    matches!(path, "/params/arguments" | "/params/cursor") && nothing(recorded) && nothing(live)
}

/// What makes no difference.
pub struct Alike<'a> {
    /// Whether what is at a pointer does not count.
    pub skip: &'a dyn Fn(&str) -> bool,
    /// Whether a value of the old tree at a pointer, given by its place, and another one, as JSON text, are as good as
    /// equal.
    pub same: &'a dyn Fn(&str, Span, &str) -> bool,
}

impl std::fmt::Debug for Alike<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str("Alike")
    }
}

/// The differences between two values, `prefix` being the pointer to both.
#[must_use]
pub fn differences(prefix: &str, old: &Tree<'_>, new: &Tree<'_>, alike: &Alike<'_>) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut pending = vec![(0, 0, prefix.to_owned(), 0)];
    let add = |found: &mut Vec<Difference>, path: String, one: Option<usize>, other: Option<usize>| {
        let (recorded, live) = (one.map(|one| old.text_of(one)), other.map(|other| new.text_of(other)));
        let place = one.and_then(|one| old.node(one)).map(|node| node.span);
        let same = place.zip(live).is_some_and(|(recorded, live)| (alike.same)(&path, recorded, live));
        if !same && !are_nothing(&path, recorded, live) {
            let size = |tree: &Tree<'_>, at: Option<usize>| {
                at.and_then(|at| Some(tree.node(at)?.next.saturating_sub(at))).unwrap_or(0)
            };
            let weight = size(old, one).max(size(new, other)).max(1);
            found.push(Difference {
                path: cut(&path),
                recorded: recorded.map(Shown::of),
                live: live.map(Shown::of),
                weight,
            });
        }
    };
    while let Some((one, other, path, depth)) = pending.pop() {
        if found.len() >= DIFFERENCES {
            break;
        }
        let (Some(a), Some(b)) = (old.node(one), new.node(other)) else { continue };
        match (a.kind, b.kind) {
            _ if (alike.skip)(&path) => {}
            (Kind::Object, Kind::Object) if depth < DEPTH => {
                let before = pending.len();
                for child in old.children(one) {
                    let name = name_of(old, child);
                    let path = below(&path, &name);
                    match new.member(other, &name) {
                        Some(twin) => pending.push((child, twin, path, depth + 1)),
                        None if (alike.skip)(&path) => {}
                        None => add(&mut found, path, Some(child), None),
                    }
                }
                if let Some(added) = pending.get_mut(before..) {
                    added.reverse();
                }
                for child in new.children(other) {
                    let name = name_of(new, child);
                    let path = below(&path, &name);
                    if old.member(one, &name).is_none() && !(alike.skip)(&path) {
                        add(&mut found, path, None, Some(child));
                    }
                }
            }
            (Kind::Array, Kind::Array) if depth < DEPTH => {
                let (left, right): (Vec<_>, Vec<_>) =
                    (old.children(one).collect(), new.children(other).collect());
                for (index, (&child, &twin)) in left.iter().zip(&right).enumerate().rev() {
                    pending.push((child, twin, format!("{path}/{index}"), depth + 1));
                }
                let common = left.len().min(right.len());
                let shorter = left.len().max(right.len()) > common;
                // An element that is left out still has its place: then it is the list that differs.
                if shorter && (alike.skip)(&format!("{path}/{common}")) {
                    add(&mut found, path, Some(one), Some(other));
                    continue;
                }
                // More than are shown need not be looked at.
                for (index, &child) in left.iter().enumerate().skip(common).take(DIFFERENCES) {
                    add(&mut found, format!("{path}/{index}"), Some(child), None);
                }
                for (index, &child) in right.iter().enumerate().skip(common).take(DIFFERENCES) {
                    add(&mut found, format!("{path}/{index}"), None, Some(child));
                }
            }
            _ if same(old, one, new, other) => {}
            _ => add(&mut found, path, Some(one), Some(other)),
        }
    }
    found.truncate(DIFFERENCES);
    found
}

fn name_of<'t>(tree: &'t Tree<'_>, member: usize) -> std::borrow::Cow<'t, str> {
    string::decode(tree.node(member).and_then(|node| node.name).map_or("", |name| name.of(tree.text)))
}

fn below(path: &str, name: &str) -> String {
    format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"))
}

fn same(old: &Tree<'_>, one: usize, new: &Tree<'_>, other: usize) -> bool {
    if old.text_of(one) == new.text_of(other) {
        return true;
    }
    if old.node(one).map(|node| node.kind) != new.node(other).map(|node| node.kind) {
        return false;
    }
    let form = |tree: &Tree<'_>, index| {
        let mut out = Vec::new();
        canonical::write(tree, index, &mut out, &mut |_| Treat::Keep);
        out
    };
    form(old, one) == form(new, other)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(prefix: &str, recorded: &str, live: &str, skip: &dyn Fn(&str) -> bool) -> Vec<Difference> {
        let alike = Alike { skip, same: &|_, _, _| false };
        differences(prefix, &Tree::of(recorded).unwrap(), &Tree::of(live).unwrap(), &alike)
    }

    #[test]
    fn differences_are_named_by_pointer() {
        for (recorded, live, expected) in [
            (r#"{"q":"a","n":1}"#, r#"{"n":1.0,"q":"b"}"#, r#"/p/q: recorded "a", live "b""#),
            (r#"{"q":1}"#, "{}", "/p/q: recorded 1, live nothing"),
            ("{}", r#"{"a/b":[1 , 2]}"#, "/p/a~1b: recorded nothing, live [1,2]"),
            ("[1,2,3]", "[1,9]", "/p/2: recorded 3, live nothing; /p/1: recorded 2, live 9"),
            (r#"{"x":{"y":1}}"#, r#"{"x":[1]}"#, r#"/p/x: recorded {"y":1}, live [1]"#),
            ("1", "1.0", ""),
        ] {
            let words: Vec<_> =
                found("/p", recorded, live, &|_| false).iter().map(Difference::words).collect();
            assert_eq!(words.join("; "), expected, "{recorded} {live}");
        }
        assert!(found("", r#"{"_meta":1}"#, r#"{"_meta":2}"#, &|path| path == "/_meta").is_empty());
        let alike = Alike { skip: &|_| false, same: &|_, _, _| true };
        let trees = (Tree::of("[1,2]").unwrap(), Tree::of("[3]").unwrap());
        assert_eq!(differences("", &trees.0, &trees.1, &alike).len(), 1, "what is absent is like nothing");
    }

    #[test]
    fn long_values_are_cut() {
        let long = string::encode(&"é".repeat(500));
        let found = found("", &long, "1", &|_| false);
        assert!(found[0].words().chars().count() < 250);
        assert!(canonical::of(&found[0].json()).is_some());
    }

    #[test]
    fn a_value_is_packed_as_far_as_it_is_shown() {
        let blanks = " ".repeat(500);
        for (value, json) in [
            (format!("[1,{blanks}\n\t2 ]"), "[1,2]".to_owned()),
            (r#"{ "a b" : "\\" , "c\" " : 1 }"#.to_owned(), r#"{"a b":"\\","c\" ":1}"#.to_owned()),
            (format!("\"{}\"", "x".repeat(198)), format!("\"{}\"", "x".repeat(198))),
            (format!("\"{}\"", "x".repeat(199)), format!("\"\\\"{}...\"", "x".repeat(199))),
        ] {
            assert_eq!(Shown::of(&value).json(), json, "{value}");
        }
        assert_eq!(cut(&"é".repeat(201)), format!("{}...", "é".repeat(200)));
    }
}
