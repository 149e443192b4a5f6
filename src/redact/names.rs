//! What the rules say about members' names, remembered from message to message: most messages have the same.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use super::compared::may_name_placeholders;
use super::roles::Roles;
use super::rules::{Facts, Rules};
use crate::jsonrpc::string;

/// Longer names are not remembered.
const LONGEST: usize = 64;
/// How many are remembered; later ones are not.
const MOST: usize = 4096;

/// What is known about a member's name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name {
    pub(super) facts: Facts,
    pub(super) roles: Roles,
    /// The name itself may hold something that has to go, whatever was seen before.
    pub(super) holds: bool,
}

impl Name {
    fn of(rules: &Rules, literal: &str) -> Self {
        let name = string::decode(literal);
        Self {
            facts: rules.facts(&name),
            roles: Roles::of(&name),
            holds: may_name_placeholders(literal) || rules.may_match(literal, true),
        }
    }
}

/// What one rule set says, by the literal that a name is written as.
#[derive(Debug, Default)]
pub(super) struct Names(Mutex<HashMap<Box<str>, Name>>);

/// Another rule set says something else.
impl Clone for Names {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// The names while one message is looked at.
pub(super) struct Open<'r> {
    rules: &'r Rules,
    /// Whoever comes while another message is looked at remembers nothing.
    known: Option<MutexGuard<'r, HashMap<Box<str>, Name>>>,
}

impl Names {
    pub(super) fn open<'r>(&'r self, rules: &'r Rules) -> Open<'r> {
        let known = match self.0.try_lock() {
            Ok(known) => Some(known),
            Err(TryLockError::Poisoned(poisoned)) => Some(PoisonError::into_inner(poisoned)),
            Err(TryLockError::WouldBlock) => None,
        };
        Open { rules, known }
    }
}

impl Open<'_> {
    pub(super) fn get(&mut self, literal: &str) -> Name {
        if let Some(name) = self.known.as_ref().and_then(|known| known.get(literal)) {
            return *name;
        }
        let name = Name::of(self.rules, literal);
        if let Some(known) = self.known.as_mut().filter(|known| known.len() < MOST)
            && literal.len() <= LONGEST
        {
            known.insert(literal.into(), name);
        }
        name
    }
}
