//! How a replay compares the messages of clients under the rules.

use std::sync::LazyLock;

use memchr::memmem::Finder;

use super::document::{Document, Hit};
use super::look::Look;
use super::placeholder::{NEGATIVE_ZERO, is_placeholder};
use super::rules::Rules;
use super::treatments::Treatments;
use super::written::Written;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::tree::{Kind, Tree};

impl Rules {
    /// How the values of one message of a client are to be compared so that a redacted value equals any live one: the
    /// placeholders in it, which `written` tells, stand for any text.
    #[must_use]
    pub fn treatments(&self, tree: &Tree<'_>, written: Written<'_>) -> Treatments {
        let treatments = match self.may_change(tree.text, written) {
            true => Treatments::of(&Document::compared(&self.compared(written), tree, written)),
            false => Treatments::default(),
        };
        self.with_known_numbers(tree, written, treatments)
    }

    /// Whether a message of a client is compared as it is: [`Rules::treatments`] has nothing to say of it.
    #[must_use]
    pub fn leaves(&self, message: &str, written: Written<'_>) -> bool {
        !(self.may_change(message, written) || written.is_redacted() && self.with_known)
    }

    fn may_change(&self, message: &str, written: Written<'_>) -> bool {
        let look = self.compared(written);
        look.message(message) || (look.named && may_name_placeholders(message))
    }

    fn compared(&self, written: Written<'_>) -> Look<'_> {
        let placeholders = written.is_redacted();
        Look { client: true, placeholders, named: written != Written::Nothing, ..Look::of(self) }
    }

    /// Where in a message there is text that a replay takes for placeholders, when nothing says otherwise.
    pub(super) fn look_alikes(&self, tree: &Tree<'_>) -> Vec<Span> {
        Document::message(&self.compared(Written::All), tree).placeholders()
    }

    /// The same for comparing messages as they are written: what rules cover is left out, all else counts, and in a
    /// recorded message any text may stand in the place of a placeholder.
    #[must_use]
    pub fn verbatim(&self, tree: &Tree<'_>, written: Written<'_>) -> Treatments {
        let look = self.compared(written);
        if !look.message(tree.text) {
            return self.with_known_numbers(tree, written, Treatments::default());
        }
        let is_ours =
            |hit: &Hit| hit.number || is_placeholder(&hit.value) || self.text(hit.rule) == Some(&hit.value);
        let document = Document::compared(&look, tree, written);
        let verbatim = Treatments::verbatim(&document, &|hit| written.is_redacted() && is_ours(hit));
        self.with_known_numbers(tree, written, verbatim)
    }

    /// Lets any number stand where one held a known secret.
    fn with_known_numbers(
        &self,
        tree: &Tree<'_>,
        written: Written<'_>,
        treatments: Treatments,
    ) -> Treatments {
        if !(written.is_redacted() && self.with_known) {
            return treatments;
        }
        let numbers = tree.iter().filter(|(_, node)| node.kind == Kind::Number);
        let held = numbers.filter(|(index, _)| tree.text_of(*index) == NEGATIVE_ZERO);
        treatments.with_numbers(held.map(|(index, _)| index).collect())
    }
}

/// Whether a member may have a placeholder for a name.
pub(super) fn may_name_placeholders(text: &str) -> bool {
    static PARTS: LazyLock<[Finder<'_>; 2]> =
        LazyLock::new(|| ["EDACTED-", "edacted-"].map(|part| Finder::new(part.as_bytes())));
    PARTS.iter().any(|part| part.find(text.as_bytes()).is_some())
}
