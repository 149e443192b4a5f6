//! Where placeholders are in recorded messages, by what their records say of it.

use std::collections::HashMap;

use super::tape::Item;
use crate::cassette::Record;
use crate::jsonrpc::scan::Span;
use crate::redact::{Written, noted};

/// Where placeholders are, of the records in whose messages not all that looks like one is one.
#[derive(Debug, Default)]
pub(super) struct Placeholders {
    places: HashMap<u32, Vec<Span>>,
    /// The records that say it of another message than they have.
    pub(super) stale: Vec<u32>,
}

impl Placeholders {
    /// Reads what the record with this index says, of the cassette with this text.
    pub(super) fn read(&mut self, text: &str, record: &Record, index: u32) {
        let note = record.more.as_ref().and_then(|more| more.placeholders.as_deref());
        let Some((note, view)) = note.zip(record.view()) else { return };
        match noted(note, text, view.whole) {
            Some(spans) => drop(self.places.insert(index, spans)),
            None => self.stale.push(index),
        }
    }

    /// What redaction wrote in a message, by places in the text of the cassette.
    pub(super) fn of(&self, item: &Item) -> Written<'_> {
        match self.places.get(&item.record) {
            _ if !item.redacted => Written::Nothing,
            Some(spans) => Written::At { spans, base: 0 },
            None => Written::All,
        }
    }
}
