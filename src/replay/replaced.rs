//! Requests as redaction writes them, the very last resort before one is a miss. Where a replacement is empty, or a
//! masked value touches other text, nothing tells where it stands, and no placeholder can be found there. But the
//! request of the same session, redacted in the same way, is the recorded one again, letter by letter.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;

use super::index::Recorded;
use super::key::{self, Key, Rules, treat_parameter};
use super::player::Request;
use super::tape::Item;
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::message::View;
use crate::jsonrpc::tree::Tree;
use crate::mcp::Era;
use crate::redact::Written;

/// Numbers of placeholders, which go by what a process has seen.
static NUMBERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)(redacted(?:-|\.invalid/))[0-9]+(?:\.[0-9]+)?").ok());

/// The redacted requests of a method by what is written in them, with the first exchange of each.
#[derive(Debug, Default)]
pub(super) struct Replaced(HashMap<Vec<u8>, u32>);

impl Replaced {
    /// Those of these exchanges.
    pub(super) fn of(exchanges: &[u32], Recorded { tape, rules, .. }: Recorded<'_>) -> Self {
        let mut known = HashMap::new();
        for &number in exchanges {
            let Some(exchange) = tape.exchange(number) else { continue };
            // Where a client has text of its own that looks like a placeholder, numbers tell its requests apart.
            let all_are_ours = |item: &&Item| tape.written(item) == Written::All;
            let Some(item) = tape.item(exchange.request).filter(all_are_ours) else { continue };
            if let Some(form) = form(&tape.text, &item.view, exchange.era, rules) {
                known.entry(form).or_insert(number);
            }
        }
        Self(known)
    }

    /// The key of the recorded request that a live one would have become; `live` is its own.
    pub(super) fn find(&self, request: &Request<'_>, live: &Key, recorded: Recorded<'_>) -> Option<Key> {
        if self.0.is_empty() {
            return None;
        }
        let Recorded { tape, rules, .. } = recorded;
        let written = rules.redacted(request.view.whole.of(request.text));
        let form = form(&written, &View::of(&written).ok()?, request.era, rules)?;
        let exchange = tape.exchange(*self.0.get(&form)?)?;
        let item = tape.item(exchange.request)?;
        let key = key::of(&tape.text, &item.view, exchange.era, rules, tape.written(item));
        // Which part of a text is which is not known.
        let secrets = live.secrets.iter().filter(|(path, _)| !path.starts_with('*')).cloned().collect();
        Some(Key { secrets, covers: live.covers.clone(), literal: live.literal, ..key })
    }
}

/// The comparison form of a request as it stands, but for the numbers of placeholders.
fn form(text: &str, view: &View, era: Era, rules: &Rules) -> Option<Vec<u8>> {
    let method = view.method_name(text);
    let tree = Tree::of(view.whole.of(text)).ok()?;
    let root = tree.member(0, "params").filter(|_| method != "initialize")?;
    let mut form = vec![if era == Era::Modern { b'm' } else { b'l' }];
    let treat = |index: usize| -> Treat { rules.treat(&tree, index) };
    canonical::write(&tree, root, &mut form, &mut |index| {
        let is_parameter = tree.node(index).is_some_and(|node| node.parent == root);
        let first = if is_parameter { treat_parameter(&method, &tree, index, &treat) } else { None };
        first.unwrap_or_else(|| treat(index))
    });
    let form = String::from_utf8(form).ok()?;
    Some(NUMBERS.as_ref()?.replace_all(&form, "${1}N").into_owned().into_bytes())
}
