//! The recorded request that is most like one that was not recorded, and where the two differ.

use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::tree::{Kind, Tree};
use crate::jsonrpc::{pretty, string};

/// How many recorded requests are compared.
pub const CANDIDATES: usize = 200;
/// How much of a value is shown.
const SHOWN: usize = 200;
/// How deep differences are looked for; below that, values differ as a whole.
const DEPTH: usize = 100;
/// How many differences are shown.
const DIFFERENCES: usize = 10;

/// One place where two values differ. `None` means absent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// JSON Pointer into the request.
    pub path: String,
    /// The recorded value, as JSON text.
    pub recorded: Option<String>,
    /// The live value, as JSON text.
    pub live: Option<String>,
}

impl Difference {
    /// As JSON text.
    #[must_use]
    pub fn json(&self) -> String {
        let value = |value: &Option<String>| value.as_deref().map_or("null".to_owned(), cut_json);
        format!(
            "{{\"path\":{},\"recorded\":{},\"live\":{}}}",
            string::encode(&self.path),
            value(&self.recorded),
            value(&self.live)
        )
    }

    /// How many values differ here.
    #[must_use]
    pub fn weight(&self) -> usize {
        let leaves = |value: &Option<String>| {
            value.as_deref().and_then(|text| Tree::of(text).ok()).map_or(0, |tree| tree.len())
        };
        leaves(&self.recorded).max(leaves(&self.live)).max(1)
    }

    /// Whether the two are different spellings of nothing: no arguments, no cursor.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let nothing = |value: &Option<String>| match value.as_deref() {
            None | Some("null") => true,
            Some(text) => self.path == "/params/arguments" && pretty::packed(text) == "{}",
        };
        matches!(self.path.as_str(), "/params/arguments" | "/params/cursor")
            && nothing(&self.recorded)
            && nothing(&self.live)
    }

    /// For people.
    #[must_use]
    pub fn words(&self) -> String {
        let value = |value: &Option<String>| value.as_deref().map_or("nothing".to_owned(), cut);
        format!("{}: recorded {}, live {}", self.path, value(&self.recorded), value(&self.live))
    }
}

fn cut(text: &str) -> String {
    let packed = pretty::packed(text);
    match packed.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}...", packed.get(..at).unwrap_or("")),
        None => packed,
    }
}

/// A long value becomes a string that says so, since half a JSON value is none.
fn cut_json(text: &str) -> String {
    if text.chars().nth(SHOWN).is_none() { pretty::packed(text) } else { string::encode(&cut(text)) }
}

/// The differences between two values, `prefix` being the pointer to both. `skip` leaves pointers out.
#[must_use]
pub fn differences(prefix: &str, recorded: &str, live: &str, skip: &dyn Fn(&str) -> bool) -> Vec<Difference> {
    let (Ok(old), Ok(new)) = (Tree::of(recorded), Tree::of(live)) else { return Vec::new() };
    let mut found = Vec::new();
    let mut pending = vec![(0, 0, prefix.to_owned(), 0)];
    while let Some((one, other, path, depth)) = pending.pop() {
        if found.len() >= DIFFERENCES {
            break;
        }
        let (Some(a), Some(b)) = (old.node(one), new.node(other)) else { continue };
        match (a.kind, b.kind) {
            _ if skip(&path) => {}
            (Kind::Object, Kind::Object) if depth < DEPTH => {
                let before = pending.len();
                for child in old.children(one) {
                    let name = string::decode(
                        old.node(child).and_then(|node| node.name).map_or("", |name| name.of(old.text)),
                    );
                    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    match new.member(other, &name) {
                        Some(twin) => pending.push((child, twin, path, depth + 1)),
                        None if skip(&path) => {}
                        None => found.push(Difference {
                            path,
                            recorded: Some(old.text_of(child).to_owned()),
                            live: None,
                        }),
                    }
                }
                if let Some(added) = pending.get_mut(before..) {
                    added.reverse();
                }
                for child in new.children(other) {
                    let name = string::decode(
                        new.node(child).and_then(|node| node.name).map_or("", |name| name.of(new.text)),
                    );
                    let path = format!("{path}/{}", name.replace('~', "~0").replace('/', "~1"));
                    if old.member(one, &name).is_none() && !skip(&path) {
                        found.push(Difference {
                            path,
                            recorded: None,
                            live: Some(new.text_of(child).to_owned()),
                        });
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
                for (index, &child) in left.iter().enumerate().skip(common) {
                    let recorded = Some(old.text_of(child).to_owned());
                    found.push(Difference { path: format!("{path}/{index}"), recorded, live: None });
                }
                for (index, &child) in right.iter().enumerate().skip(common) {
                    let live = Some(new.text_of(child).to_owned());
                    found.push(Difference { path: format!("{path}/{index}"), recorded: None, live });
                }
            }
            _ if same(&old, one, &new, other) => {}
            _ => found.push(Difference {
                path,
                recorded: Some(old.text_of(one).to_owned()),
                live: Some(new.text_of(other).to_owned()),
            }),
        }
    }
    found.truncate(DIFFERENCES);
    found
}

fn same(old: &Tree<'_>, one: usize, new: &Tree<'_>, other: usize) -> bool {
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
                differences("/p", recorded, live, &|_| false).iter().map(Difference::words).collect();
            assert_eq!(words.join("; "), expected, "{recorded} {live}");
        }
        assert!(differences("", r#"{"_meta":1}"#, r#"{"_meta":2}"#, &|path| path == "/_meta").is_empty());
    }

    #[test]
    fn long_values_are_cut() {
        let long = string::encode(&"é".repeat(500));
        let found = differences("", &long, "1", &|_| false);
        assert!(found[0].words().chars().count() < 250);
        assert!(canonical::of(&found[0].json()).is_some());
    }
}
