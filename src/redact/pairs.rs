//! What a string's neighbours say about it: names beside their values, options before their arguments, media types.

use super::document::decode;
use super::rules::Rules;
use crate::jsonrpc::tree::{Kind, Tree};

/// The members that hold the value of a pair, and those that hold its name.
const VALUES: [&str; 2] = ["value", "values"];
const NAMES: [&str; 7] = ["name", "key", "header", "field", "param", "variable", "k"];

/// The rule for a string that a neighbour names: `{"name":"password","value":"x"}`, `["--token","x"]`,
/// `["Authorization","x"]`.
pub(super) fn named_by_neighbour(rules: &Rules, tree: &Tree<'_>, index: usize) -> Option<usize> {
    let node = tree.node(index)?;
    let parent = tree.node(node.parent).filter(|_| index != 0)?;
    let literal = tree.text_of(index);
    match parent.kind {
        Kind::Object => {
            VALUES.iter().any(|name| tree.name_is(index, name)).then_some(())?;
            let names = NAMES.iter().find_map(|name| tree.member(node.parent, name));
            let name = names.filter(|name| is_string(tree, *name))?;
            rules.pair(&decode(tree.text_of(name)), &decode(literal))
        }
        Kind::Array => {
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
            let two = before == node.parent + 1 && parent.next == index + 1;
            let name = option.or_else(|| two.then_some(&*name))?;
            let plain =
                name.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'));
            plain.then(|| rules.pair(name, &decode(literal))).flatten()
        }
        _ => None,
    }
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
    !textual.iter().any(|word| media.contains(word))
}
