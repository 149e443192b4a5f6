//! Members that an object of a cassette may have once. Of two of the same name a reader sees one, and what the other one
//! says is neither played, nor looked through for secrets, nor written again. Messages are as they came, and may have any.

use std::collections::HashSet;

use super::record::Fault;

/// The names of an object so far.
#[derive(Debug, Default)]
pub(super) struct Once(HashSet<String>);

impl Once {
    /// Takes the name that stands at this byte.
    pub(super) fn take(&mut self, name: &str, at: usize) -> Result<(), Fault> {
        if self.0.insert(name.to_owned()) { Ok(()) } else { Err(twice(name, at)) }
    }
}

/// The fault of a name that was there before.
pub(super) fn twice(name: &str, at: usize) -> Fault {
    let what =
        format!("{name:?} stands here for the second time, which hides the first; leave one of them out");
    Fault { at, what }
}
