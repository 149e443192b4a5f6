//! Requests as they are written, the last resort before one is a miss. A placeholder is read like other text: where what
//! it stands for has a blank, a quote or a sign that it has not, the recorded request and the live one are read
//! differently, and their keys differ. Here nothing is read: any text may stand in the place of a placeholder, and all
//! other text and the structure have to be the same.

use super::key::{IsKnown, Rules, are_plausible, treat_parameter, unescaped};
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::message::View;
use crate::jsonrpc::tree::Tree;
use crate::mcp::Era;
use crate::redact::{ANY, Written, fit_whole};

/// In front of the number of a class, where a slot is for `--ignore-value`. No placeholder has it.
const CLASS: char = '\u{10fffe}';

/// The comparison form of a request, or of a value, as it is written.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Spelled {
    form: Vec<u8>,
    /// What stands in each place that is open, in order: a placeholder, or a class of values.
    slots: Vec<String>,
}

/// What is settled about a node before the rules are asked, which it may ask itself about others.
type First<'a> = &'a dyn Fn(usize, &dyn Fn(usize) -> Treat) -> Option<Treat>;

impl Spelled {
    /// Of the parameters of the request at `view` in `text`, in which redaction wrote this.
    pub(super) fn of(text: &str, view: &View, era: Era, rules: &Rules, written: Written<'_>) -> Option<Self> {
        let method = view.method_name(text);
        let tree = Tree::of(view.whole.of(text)).ok()?;
        let root = tree.member(0, "params").filter(|_| method != "initialize")?;
        let mark = if era == Era::Modern { b'm' } else { b'l' };
        let written = written.within(view.whole.start);
        Some(Self::write(&tree, root, vec![mark], rules, written, &|index, treat| {
            let is_parameter = tree.node(index).is_some_and(|node| node.parent == root);
            // A filter is compared as a set, in which no placeholder is known.
            let reads =
                is_parameter && !(method == "subscriptions/listen" && tree.name_is(index, "notifications"));
            if reads { treat_parameter(&method, &tree, index, treat) } else { None }
        }))
    }

    /// Of a value, given as JSON.
    pub(super) fn of_value(text: &str, rules: &Rules, written: Written<'_>) -> Option<Self> {
        let tree = Tree::of(text).ok()?;
        Some(Self::write(&tree, 0, Vec::new(), rules, written, &|_, _| None))
    }

    fn write(
        tree: &Tree<'_>,
        root: usize,
        mut form: Vec<u8>,
        rules: &Rules,
        written: Written<'_>,
        first: First<'_>,
    ) -> Self {
        let mut redacted = rules.verbatim(tree, written);
        if written.is_redacted() {
            let classed = rules.classed(tree).into_iter();
            redacted =
                redacted.with_any(classed.map(|(node, class)| (node, format!("{CLASS}{class}"))).collect());
        }
        let from = form.len();
        let treat = |index: usize| match redacted.treat(index) {
            Treat::Keep if rules.ignores_node(tree, index) => Treat::Drop,
            treat => treat,
        };
        canonical::write_in_order(tree, root, &mut form, &mut |index| {
            first(index, &treat).unwrap_or_else(|| treat(index))
        });
        let slots = redacted.settle(&mut form, from);
        Self { form, slots }
    }

    /// How much of it is text and structure.
    pub(super) fn told(&self) -> usize {
        self.form.iter().filter(|byte| **byte != ANY).count()
    }

    /// Whether this, a recorded one, stands for a live one: then the placeholders in it, with what is in their places.
    /// What has blanks has to be known.
    pub(super) fn stands_for(
        &self,
        live: &Self,
        rules: &Rules,
        is_known: IsKnown<'_>,
    ) -> Option<Vec<(&str, String)>> {
        let values: Vec<String> =
            fit_whole(&self.form, &live.form)?.iter().map(|value| unescaped(value)).collect();
        if !are_plausible(&values, is_known) {
            return None;
        }
        let mut found = Vec::with_capacity(values.len());
        for (slot, value) in self.slots.iter().zip(values) {
            match slot.strip_prefix(CLASS).map(|class| class.parse().ok()) {
                Some(class) if class != rules.class(&value) => return None,
                Some(_) => {}
                None => found.push((slot.as_str(), value)),
            }
        }
        Some(found)
    }
}
