//! What the design promises, as tables; and random messages with planted secrets.

mod engine;
mod layouts;
mod manifest;
mod planted;
mod protocol;
mod random;
mod structural;
mod text;
mod thorough;

use std::sync::Arc;

use super::{Redactor, Rules, Side, Written};
use crate::jsonrpc::canonical;
use crate::jsonrpc::tree::Tree;

fn rules(own: &[&str]) -> Rules {
    Rules::new(true, &own.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>()).unwrap()
}

fn redactor(own: &[&str]) -> Redactor {
    Redactor::new(Arc::new(rules(own)), 1)
}

/// Redacts with fresh numbers; checks that a second time changes nothing.
fn redact(own: &[&str], text: &str) -> String {
    let once =
        redactor(own).redact(text, Side::Server).map_or_else(|| text.to_owned(), |redacted| redacted.text);
    assert_eq!(redactor(own).redact(&once, Side::Server), None, "{once}");
    once
}

/// The comparison form of a message in which redaction has written this, as bytes.
fn key(rules: &Rules, text: &str, written: Written<'_>) -> Vec<u8> {
    let tree = Tree::of(text).unwrap();
    let treatments = rules.treatments(&tree, written);
    let mut out = Vec::new();
    canonical::write(&tree, 0, &mut out, &mut |node| treatments.treat(node));
    let _ = treatments.settle(&mut out, 0);
    out
}

/// The comparison form of a live message under the rules.
fn form(rules: &Rules, text: &str) -> String {
    String::from_utf8_lossy(&key(rules, text, Written::Live)).into_owned()
}
