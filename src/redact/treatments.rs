//! How a message is compared when values in it are, or would be, redacted.

use super::document::Document;
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::edit::Edits;

/// What [`canonical::write`] has to do with the nodes of one message, and the values that were left out.
///
/// Under these a placeholder, the real value, a dummy, an empty string, null and (for members) absence are equal.
#[derive(Clone, Debug, Default)]
pub struct Treatments {
    /// By node, ascending; nodes that are compared as they are have none.
    nodes: Vec<(usize, Treat)>,
    /// The string leaves that rules cover, in document order, as JSON pointer and decoded value; empty ones are not
    /// among them. The player checks that placeholders agree one to one with live values.
    pub leaves: Vec<(String, String)>,
}

impl Treatments {
    pub(super) fn of(document: &Document<'_, '_>) -> Self {
        if document.is_untouched() {
            return Self::default();
        }
        let mut nodes = Vec::new();
        let dropped = document.dropped();
        let mut opened = document.opened.iter().peekable();
        for (index, dropped) in dropped.iter().enumerate() {
            if *dropped {
                nodes.push((index, Treat::Drop));
            } else if let Some((_, removals)) = opened.next_if(|opened| opened.0 == index)
                && let Some(node) = document.tree.node(index)
            {
                let mut edits = Edits::new();
                for (span, new) in removals {
                    edits.replace(*span, *new);
                }
                let mut literal = String::with_capacity(node.span.len());
                edits.apply_within(document.tree.text, node.span, &mut literal);
                let mut bytes = Vec::with_capacity(literal.len());
                canonical::write_string(&literal, &mut bytes);
                nodes.push((index, Treat::As(bytes)));
            }
        }
        let leaves = document
            .hits
            .iter()
            .filter(|hit| !hit.number && !hit.value.is_empty())
            .map(|hit| (hit.path.clone(), hit.value.clone()))
            .collect();
        Self { nodes, leaves }
    }

    /// What to do with a node; the argument of [`canonical::write`].
    #[must_use]
    pub fn treat(&self, node: usize) -> Treat {
        match self.nodes.binary_search_by_key(&node, |entry| entry.0) {
            Ok(at) => self.nodes.get(at).map_or(Treat::Keep, |entry| entry.1.clone()),
            Err(_) => Treat::Keep,
        }
    }

    /// Whether redaction replaces the node or a part of it.
    #[must_use]
    pub fn covers(&self, node: usize) -> bool {
        self.nodes.binary_search_by_key(&node, |entry| entry.0).is_ok()
    }

    /// Whether everything is compared as it is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}
