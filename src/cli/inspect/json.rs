//! Building JSON from JSON texts, so that what a cassette holds is printed token for token.

use crate::cassette::head::object;
use crate::cassette::record::push_millis;
use crate::jsonrpc::string;

/// The members of an object, in order; what is absent is left out.
#[derive(Default)]
pub(super) struct Fields(Vec<(String, String)>);

impl Fields {
    pub(super) fn raw(mut self, name: &str, json: impl Into<String>) -> Self {
        self.0.push((name.to_owned(), json.into()));
        self
    }

    pub(super) fn maybe(self, name: &str, json: Option<String>) -> Self {
        match json {
            Some(json) => self.raw(name, json),
            None => self,
        }
    }

    pub(super) fn text(self, name: &str, text: &str) -> Self {
        self.raw(name, string::encode(text))
    }

    pub(super) fn number(self, name: &str, number: usize) -> Self {
        self.raw(name, number.to_string())
    }

    /// A number that is left out when it is 0.
    pub(super) fn some(self, name: &str, number: u32) -> Self {
        if number > 0 { self.raw(name, number.to_string()) } else { self }
    }

    pub(super) fn flag(self, name: &str, set: bool) -> Self {
        if set { self.raw(name, "true") } else { self }
    }

    /// Microseconds as milliseconds.
    pub(super) fn millis(self, name: &str, micros: Option<u64>) -> Self {
        self.maybe(name, micros.map(millis))
    }

    pub(super) fn end(self) -> String {
        object(self.0)
    }
}

pub(super) fn millis(micros: u64) -> String {
    let mut out = String::new();
    push_millis(&mut out, micros);
    out
}

pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    format!("[{}]", items.into_iter().collect::<Vec<_>>().join(","))
}

pub(super) fn texts<'a>(items: impl IntoIterator<Item = &'a String>) -> String {
    list(items.into_iter().map(|text| string::encode(text)))
}
