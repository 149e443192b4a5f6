//! Redaction manifests of several recorders as one: what was on in any of them was on, and what they counted adds up.

use std::collections::{BTreeMap, HashSet};

use super::head::object;
use crate::jsonrpc::canonical;
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::string;

/// The members of a manifest in their order, each as JSON text.
type Fields = Vec<(String, String)>;

/// Puts `theirs` into `mine`; both are JSON texts. A manifest that is no object stays apart: the first one counts.
pub(super) fn merged(mine: &str, theirs: &str) -> String {
    united(mine, theirs, &["rules", "packs"])
}

/// Whether both of two recordings have placeholders by number, which say nothing of each other: a salt makes them equal
/// for equal values.
pub(super) fn are_numbered(mine: Option<&str>, theirs: Option<&str>) -> bool {
    let get = |manifest: &str, name| {
        member(manifest, Span::new(0, manifest.len()), name).map(|it| it.of(manifest).to_owned())
    };
    let has_placeholders = |manifest: &str| get(manifest, "counts").is_some_and(|counts| counts != "{}");
    let is_salted = |manifest: &str| get(manifest, "salt").is_some();
    let both = [mine, theirs].map(Option::unwrap_or_default);
    both.iter().all(|manifest| has_placeholders(manifest)) && !both.iter().all(|manifest| is_salted(manifest))
}

/// `mine` after a further redaction: the profile is that of the last one.
pub(super) fn extended(mine: Option<&str>, theirs: &str) -> String {
    let Some(mine) = mine else { return theirs.to_owned() };
    let both = merged(mine, theirs);
    let profile = fields(theirs).into_iter().flatten().find(|(name, _)| name == "profile");
    let (Some((name, profile)), Some(mut list)) = (profile, fields(&both)) else { return both };
    match list.iter_mut().find(|(known, _)| *known == name) {
        Some((_, mine)) => *mine = profile,
        None => list.push((name, profile)),
    }
    object(list)
}

/// The same for any object: the lists named are united, and of other members that both have the first one counts.
pub(super) fn united(mine: &str, theirs: &str, lists: &[&str]) -> String {
    let (Some(mut fields), Some(others)) = (fields(mine), fields(theirs)) else { return mine.to_owned() };
    for (name, theirs) in others {
        let Some((_, mine)) = fields.iter_mut().find(|(known, _)| *known == name) else {
            fields.push((name, theirs));
            continue;
        };
        match &*name {
            "counts" if lists.contains(&"rules") => *mine = sum(mine, &theirs),
            name if lists.contains(&name) => *mine = union(mine, &theirs),
            _ => {}
        }
    }
    object(fields)
}

fn fields(manifest: &str) -> Option<Fields> {
    let mut members = Members::of(manifest, 0)?;
    let mut fields = Fields::new();
    while let Ok(Some((name, value))) = members.next() {
        fields.push((string::decode(name.of(manifest)).into_owned(), value.of(manifest).to_owned()));
    }
    Some(fields)
}

/// Two objects of counts, added up, in order of their names.
fn sum(mine: &str, theirs: &str) -> String {
    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    for (name, count) in [mine, theirs].into_iter().filter_map(fields).flatten() {
        let known = counts.entry(name).or_default();
        *known = known.saturating_add(count.parse().unwrap_or(0));
    }
    object(counts.into_iter().map(|(name, count)| (name, count.to_string())))
}

/// Two lists: the first, then what only the second has.
fn union(mine: &str, theirs: &str) -> String {
    // Recorders mostly have the same rules.
    if mine == theirs {
        return mine.to_owned();
    }
    let whole = |text: &str| elements(text, Span::new(0, text.len())).unwrap_or_default();
    let mut list: Vec<&str> = whole(mine).into_iter().map(|span| span.of(mine)).collect();
    let mut known: HashSet<_> = list.iter().map(|item| canonical::of(item)).collect();
    list.extend(
        whole(theirs)
            .into_iter()
            .map(|span| span.of(theirs))
            .filter(|item| known.insert(canonical::of(item))),
    );
    format!("[{}]", list.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_add_up_and_lists_are_united() {
        let mine = r#"{"profile":"p","rules":["key:*token*","key:pin"],"packs":[{"id":"a","sha256":"1"}],"counts":{"b":1,"key:pin":2}}"#;
        let theirs = r#"{"rules":["key:pin","key:x"],"packs":[{"sha256":"1","id":"a"},{"id":"b"}],"salt":"env","counts":{"a":7,"key:pin":3}}"#;
        assert_eq!(
            merged(mine, theirs),
            r#"{"profile":"p","rules":["key:*token*","key:pin","key:x"],"packs":[{"id":"a","sha256":"1"},{"id":"b"}],"counts":{"a":7,"b":1,"key:pin":5},"salt":"env"}"#
        );
    }

    #[test]
    fn the_last_redaction_names_the_profile() {
        assert_eq!(extended(None, r#"{"rules":["a"]}"#), r#"{"rules":["a"]}"#);
        let mine = r#"{"profile":"p","rules":["a"],"counts":{"a":1}}"#;
        let again = extended(Some(mine), r#"{"rules":["a"]}"#);
        assert_eq!(again, mine, "a second redaction with the same rules changes nothing");
        assert_eq!(
            extended(Some(mine), r#"{"profile":"q","rules":["b"]}"#),
            r#"{"profile":"q","rules":["a","b"],"counts":{"a":1}}"#
        );
        assert_eq!(extended(Some(r#"{"rules":[]}"#), r#"{"profile":"q"}"#), r#"{"rules":[],"profile":"q"}"#);
    }

    #[test]
    fn what_only_one_has_is_kept() {
        assert_eq!(merged("{}", r#"{"counts":{"a":1}}"#), r#"{"counts":{"a":1}}"#);
        assert_eq!(
            merged(r#"{"counts":{"a":1},"later":1E400}"#, "{}"),
            r#"{"counts":{"a":1},"later":1E400}"#
        );
        assert_eq!(merged("7", "{}"), "7");
    }
}
