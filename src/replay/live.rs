//! Putting live values into recorded text: the recorded bytes go out with only what belongs to this session changed.

use crate::jsonrpc::message::{View, member, member_at};
use crate::jsonrpc::pretty;
use crate::jsonrpc::scan::Span;
use crate::mcp;

/// A recorded message that is about to be sent, and the values that take the place of recorded ones.
#[derive(Debug)]
pub struct Splice<'a> {
    text: &'a str,
    view: View,
    edits: Vec<(Span, String)>,
}

impl<'a> Splice<'a> {
    /// Nothing replaced yet.
    #[must_use]
    pub fn new(text: &'a str, view: View) -> Self {
        Self { text, view, edits: Vec::new() }
    }

    /// Replaces one span by JSON text.
    pub fn put(&mut self, span: Option<Span>, value: &str) -> &mut Self {
        if let Some(span) = span {
            self.edits.push((span, value.to_owned()));
        }
        self
    }

    /// The `id`, as the live side spells it.
    pub fn id(&mut self, lexeme: &str) -> &mut Self {
        let id = self.view.id;
        self.put(id, lexeme)
    }

    /// `params.progressToken` of a progress notification.
    pub fn progress_token(&mut self, lexeme: &str) -> &mut Self {
        let span = self.param(&["progressToken"]);
        self.put(span, lexeme)
    }

    /// `params.requestId` of a cancellation.
    pub fn request_id(&mut self, lexeme: &str) -> &mut Self {
        let span = self.param(&["requestId"]);
        self.put(span, lexeme)
    }

    /// The subscription that a listen's notification or result belongs to.
    pub fn subscription(&mut self, lexeme: &str) -> &mut Self {
        let span = subscription(self.text, &self.view);
        self.put(span, lexeme)
    }

    /// A span inside `params`.
    #[must_use]
    pub fn param(&self, path: &[&str]) -> Option<Span> {
        member_at(self.text, self.view.params?, path)
    }

    /// A span inside `result`.
    #[must_use]
    pub fn result(&self, path: &[&str]) -> Option<Span> {
        member_at(self.text, self.view.result?, path)
    }

    /// The message on one line, without white space between its tokens.
    #[must_use]
    pub fn line(&mut self) -> String {
        self.edits.sort_by_key(|(span, _)| span.start);
        let mut out = String::with_capacity(self.view.whole.len() + 32);
        let mut at = self.view.whole.start;
        for (span, value) in &self.edits {
            if span.start < at {
                continue;
            }
            pretty::pack(self.text, Span::new(at, span.start), &mut out);
            out.push_str(value);
            at = span.end;
        }
        pretty::pack(self.text, Span::new(at, self.view.whole.end), &mut out);
        out
    }
}

/// Where a message names the `subscriptions/listen` it belongs to (2026-07-28, "Subscriptions").
#[must_use]
pub fn subscription(text: &str, view: &View) -> Option<Span> {
    let holder = view.params.or(view.result)?;
    memchr::memmem::find(holder.of(text).as_bytes(), b"subscriptionId")?;
    member_at(text, holder, &["_meta", mcp::SUBSCRIPTION])
}

/// The token of the progress that a request asks for.
#[must_use]
pub fn progress_token<'a>(text: &'a str, view: &View) -> Option<&'a str> {
    let params = view.params.filter(|params| mcp::may_have_meta(params.of(text)))?;
    member_at(text, params, &["_meta", "progressToken"])
        .map(|span| span.of(text))
        .filter(|token| *token != "null")
}

/// The token that a progress notification carries.
#[must_use]
pub fn token_of_progress<'a>(text: &'a str, view: &View) -> Option<&'a str> {
    member(text, view.params?, "progressToken").map(|span| span.of(text))
}

/// A response with a result made here.
#[must_use]
pub fn result(id: &str, result: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}")
}

/// An error response made here; `data` is JSON text.
#[must_use]
pub fn error(id: &str, code: i32, message: &str, data: Option<&str>) -> String {
    let message = crate::jsonrpc::string::encode(message);
    let data = data.map(|data| format!(",\"data\":{data}")).unwrap_or_default();
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{{\"code\":{code},\"message\":{message}{data}}}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spliced(text: &str, edit: impl FnOnce(&mut Splice<'_>)) -> String {
        let view = View::of(text).unwrap();
        let mut splice = Splice::new(text, view);
        edit(&mut splice);
        splice.line()
    }

    #[test]
    fn only_the_live_values_change() {
        let answer = "{ \"result\" : {\"n\": 1.0, \"id\":1},\n \"id\" : 1 }";
        for id in ["7", "\"1\"", "9007199254740993", "\"\u{e9}\"", "\"\\u00e9\""] {
            assert_eq!(
                spliced(answer, |splice| {
                    splice.id(id);
                }),
                format!("{{\"result\":{{\"n\":1.0,\"id\":1}},\"id\":{id}}}")
            );
        }
        let progress = r#"{"method":"notifications/progress","params":{"progress":0.5,"progressToken":1}}"#;
        assert_eq!(
            spliced(progress, |splice| {
                splice.progress_token("\"t\"");
            }),
            r#"{"method":"notifications/progress","params":{"progress":0.5,"progressToken":"t"}}"#
        );
        let event = r#"{"method":"x","params":{"_meta":{"io.modelcontextprotocol/subscriptionId":"listen-1"},"uri":"u"}}"#;
        assert!(
            spliced(event, |splice| {
                splice.subscription("4");
            })
            .contains("subscriptionId\":4}")
        );
    }
}
