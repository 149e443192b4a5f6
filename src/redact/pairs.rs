//! What a string's neighbours say about it: names beside their values, options before their arguments, media types.

use super::document::decode;
use super::rules::Rules;
use super::schema;
use crate::jsonrpc::tree::{Kind, Tree};

/// The members that hold the value of a pair, and those that hold its name.
const VALUES: [&str; 2] = ["value", "values"];
const NAMES: [&str; 7] = ["name", "key", "header", "field", "param", "variable", "k"];

/// Lists of words that MCP gives a meaning, in which none names the next.
const LISTS: [&str; 3] = ["audience", "stopSequences", "supportedVersions"];

/// The rule for a value that a neighbour names, and whether numbers below it are counts:
/// `{"name":"password","value":"x"}`, `["--token","x"]`, `["Authorization","x"]`.
pub(super) fn named_by_neighbour(rules: &Rules, tree: &Tree<'_>, index: usize) -> Option<(usize, bool)> {
    let node = tree.node(index)?;
    let parent = tree.node(node.parent).filter(|_| index != 0)?;
    let literal = tree.text_of(index);
    match (parent.kind, node.kind) {
        (Kind::Object, _) => {
            is_called(tree, index, &VALUES).then_some(())?;
            let names = tree.children(node.parent).find(|child| is_called(tree, *child, &NAMES));
            let name = decode(tree.text_of(names.filter(|name| is_string(tree, *name))?));
            if matches!(node.kind, Kind::Object | Kind::Array) {
                return if schema::is_one(tree, index) { None } else { rules.named(&name) };
            }
            rules.pair(&name, &decode(literal)).map(|rule| (rule, false))
        }
        (Kind::Array, Kind::String) => {
            // Only the first elements of a list, and only what stands right before.
            let before =
                index.checked_sub(1).filter(|before| *before != node.parent && is_string(tree, *before))?;
            let name = decode(tree.text_of(before));
            if tree.node(before)?.parent != node.parent {
                return None;
            }
            let option = name.strip_prefix("--");
            if option.is_some() && decode(literal).starts_with("--") {
                return None;
            }
            let two = before == node.parent + 1
                && parent.next == index + 1
                && (is_header(&name) || is_listed(tree, parent.parent, node.parent));
            let name = option.or_else(|| two.then_some(&*name))?;
            let plain =
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
            let rule = plain.then(|| rules.pair(name, &decode(literal))).flatten()?;
            Some((rule, false))
        }
        _ => None,
    }
}

/// Whether a member has one of these names, in any case.
fn is_called(tree: &Tree<'_>, index: usize, names: &[&str]) -> bool {
    let name = tree.node(index).and_then(|node| node.name);
    name.is_some_and(|name| {
        let name = decode(name.of(tree.text));
        names.iter().any(|known| known.eq_ignore_ascii_case(&name))
    })
}

/// Whether a word looks like the name of a header field: two plain words in a list are no pair.
fn is_header(name: &str) -> bool {
    name.contains('-') || name.starts_with(|first: char| first.is_ascii_uppercase())
}

/// Whether a list stands in a list.
fn is_listed(tree: &Tree<'_>, above: usize, list: usize) -> bool {
    above != list && tree.node(above).is_some_and(|node| node.kind == Kind::Array)
}

/// Whether a node among the protocol's own is a value that MCP defines beside a name: what was typed so far
/// (`completion/complete`), suggestions, words of a list. They mean something as they are.
pub(super) fn is_protocols(tree: &Tree<'_>, index: usize) -> bool {
    let Some(parent) = tree.node(index).map(|node| node.parent) else { return false };
    let above = tree.node(parent).map_or(0, |node| node.parent);
    let asks = tree.name_is(parent, "argument") && tree.member(above, "ref").is_some();
    let answers = tree.name_is(parent, "values") && tree.name_is(above, "completion");
    asks || answers || LISTS.iter().any(|name| tree.name_is(parent, name))
}

/// Whether a node among the protocol's own is a role, or a revision in a list of such.
pub(super) fn is_word(tree: &Tree<'_>, index: usize) -> bool {
    let Some(parent) = tree.node(index).map(|node| node.parent).filter(|_| index != 0) else { return false };
    match tree.text_of(index) {
        "\"user\"" | "\"assistant\"" => tree.name_is(parent, "audience"),
        literal => is_date(literal.trim_matches('"')) && tree.name_is(parent, "supportedVersions"),
    }
}

/// Whether a node is a revision in what an error says of them: `"data":{"supported":["2025-06-18"],"requested":"..."}`.
pub(super) fn is_refused_revision(tree: &Tree<'_>, index: usize) -> bool {
    let Some(parent) = tree.node(index).map(|node| node.parent).filter(|_| index != 0) else { return false };
    let above = tree.node(parent).map_or(0, |node| node.parent);
    let is_told = (tree.name_is(parent, "supported") && tree.name_is(above, "data"))
        || (tree.name_is(index, "requested") && tree.name_is(parent, "data"));
    is_told && is_date(tree.text_of(index).trim_matches('"'))
}

/// Whether a text is a date as revisions have it: `2025-06-18`.
fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

fn is_string(tree: &Tree<'_>, index: usize) -> bool {
    tree.node(index).is_some_and(|node| node.kind == Kind::String)
}

/// Whether a `data` or `blob` holds a picture, a sound or another file, by the media type beside it.
pub(super) fn is_binary(tree: &Tree<'_>, index: usize) -> bool {
    let Some(parent) = tree.node(index).map(|node| node.parent) else { return false };
    let Some(media) = tree.member(parent, "mimeType") else { return false };
    let media = decode(tree.text_of(media)).to_ascii_lowercase();
    let textual = ["text/", "json", "xml", "yaml", "javascript", "x-www-form-urlencoded"];
    let words = [
        "toml",
        "yml",
        "csv",
        "sql",
        "graphql",
        "ini",
        "env",
        "properties",
        "pem",
        "jwt",
        "sh",
        "shellscript",
        "typescript",
        "ecmascript",
        "markdown",
        "html",
    ];
    let (kind, _) = media.split_once(';').unwrap_or((&media, ""));
    let mut parts = kind.split(['/', '.', '+', '-']).map(str::trim);
    // What says nothing may be anything.
    let is_text = media.trim().is_empty()
        || textual.iter().any(|word| media.contains(word))
        || parts.any(|part| words.contains(&part));
    !is_text
}
