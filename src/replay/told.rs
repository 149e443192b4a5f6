//! What may be told of a live request, to its client and to people: what redaction takes out of a recording stands in no
//! error, note or report either.

use std::fmt;

use super::key::Rules;
use super::nearest::cut;
use super::player::{Player, Request};
use crate::jsonrpc::message::{View, member};
use crate::jsonrpc::string;
use crate::mcp;

/// What a request is about. Names that are longer than any sensible one are cut.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// Its method.
    pub method: String,
    /// The tool, prompt or resource.
    pub name: Option<String>,
}

impl fmt::Display for Subject {
    /// `tools/call "search"`.
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.name {
            Some(name) => write!(out, "{} {}", self.method, string::encode(name)),
            None => out.write_str(&self.method),
        }
    }
}

impl Rules {
    /// A method and the name it has to do with, as they may be told.
    #[must_use]
    pub fn subject(&self, method: &str, name: Option<&str>) -> Subject {
        Subject { method: self.told(method), name: name.map(|name| cut(&self.told_name(method, name))) }
    }

    /// A word of a client, such as an id, as it may be told.
    #[must_use]
    pub fn told(&self, word: &str) -> String {
        // What is cut in the middle would not be found.
        cut(&self.redaction().redact_plain(word))
    }

    /// A name is looked through where it stands in a request: there it loses credentials, and nothing else.
    fn told_name(&self, method: &str, name: &str) -> String {
        let Some(member_name) = mcp::target_member(method) else { return self.told(name) };
        let request = format!(
            "{{\"method\":{},\"params\":{{\"{member_name}\":{}}}}}",
            string::encode(method),
            string::encode(name)
        );
        let told = self.redacted(&request);
        let span = View::of(&told).ok().and_then(|view| member(&told, view.params?, member_name));
        span.map_or_else(|| self.told(name), |span| string::decode(span.of(&told)).into_owned())
    }
}

impl Player {
    /// What a live request is about, as it may be told.
    pub(super) fn subject(&self, request: &Request<'_>) -> Subject {
        self.subject_of(request.text, &request.view)
    }

    /// The same for one that was not read as a request.
    pub(super) fn subject_of(&self, text: &str, view: &View) -> Subject {
        let method = view.method_name(text);
        self.rules.subject(&method, mcp::target(&method, text, view).as_deref())
    }
}
