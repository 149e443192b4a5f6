//! A message as received, and where its JSON-RPC 2.0 members stand in it.

use super::scan::{Members, Span, SyntaxError, skip_space, value_end};
use super::string;

/// What a JSON text is in JSON-RPC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// Has a `method` and an `id`.
    Request,
    /// Has a `method` and no `id`.
    Notification,
    /// Has no `method`, and an `id`, a `result` or an `error`.
    Response,
    /// An array: a JSON-RPC batch (MCP 2025-03-26).
    Batch,
    /// Any other JSON value.
    Other,
}

/// The members of one message. Spans are relative to the text the view was made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct View {
    /// What it is.
    pub shape: Shape,
    /// The whole value, without white space around it.
    pub whole: Span,
    /// `id` as it is spelt; ids are compared by this text (`1`, `1.0` and `"1"` are three ids).
    pub id: Option<Span>,
    /// `method`, a string literal with its quotes.
    pub method: Option<Span>,
    /// `params`.
    pub params: Option<Span>,
    /// `result`.
    pub result: Option<Span>,
    /// `error`.
    pub error: Option<Span>,
}

impl View {
    /// Looks at `text`, which must hold one JSON value and white space at most.
    pub fn of(text: &str) -> Result<Self, SyntaxError> {
        let start = skip_space(text.as_bytes(), 0);
        let view = Self::at(text, start)?;
        let end = skip_space(text.as_bytes(), view.whole.end);
        if end == text.len() { Ok(view) } else { Err(SyntaxError { at: end, expected: "the end" }) }
    }

    /// Looks at the value that starts at `start`; what follows it is not read.
    pub fn at(text: &str, start: usize) -> Result<Self, SyntaxError> {
        let mut view = Self {
            shape: Shape::Other,
            whole: Span::new(start, start),
            id: None,
            method: None,
            params: None,
            result: None,
            error: None,
        };
        let Some(mut members) = Members::of(text, start) else {
            view.whole.end = value_end(text, start)?;
            if text.as_bytes().get(start) == Some(&b'[') {
                view.shape = Shape::Batch;
            }
            return Ok(view);
        };
        while let Some((name, value)) = members.next()? {
            // Of a repeated member the last counts, as in most JSON libraries; all of them stay in the text.
            let name = name.of(text);
            let slot = match name {
                "\"id\"" => &mut view.id,
                "\"method\"" => &mut view.method,
                "\"params\"" => &mut view.params,
                "\"result\"" => &mut view.result,
                "\"error\"" => &mut view.error,
                _ if name.contains('\\') => match string::decode(name).as_ref() {
                    "id" => &mut view.id,
                    "method" => &mut view.method,
                    "params" => &mut view.params,
                    "result" => &mut view.result,
                    "error" => &mut view.error,
                    _ => continue,
                },
                _ => continue,
            };
            *slot = Some(value);
        }
        view.whole.end = members.position();
        if view.method.is_some_and(|method| !method.of(text).starts_with('"')) {
            view.method = None;
        }
        view.shape = match (view.method, view.id) {
            (Some(_), Some(_)) => Shape::Request,
            (Some(_), None) => Shape::Notification,
            (None, id) if id.is_some() || view.result.is_some() || view.error.is_some() => Shape::Response,
            _ => Shape::Other,
        };
        Ok(view)
    }

    /// The method's name; empty when there is none.
    #[must_use]
    pub fn method_name<'a>(&self, text: &'a str) -> std::borrow::Cow<'a, str> {
        self.method.map_or(std::borrow::Cow::Borrowed(""), |method| string::decode(method.of(text)))
    }

    /// The same view over a text that has `offset` more bytes in front.
    #[must_use]
    pub fn shifted(self, offset: usize) -> Self {
        self.rebased(0, offset)
    }

    /// The same view over a text in which what was at byte `from` is at byte `to`.
    #[must_use]
    pub fn rebased(mut self, from: usize, to: usize) -> Self {
        self.whole = self.whole.rebased(from, to);
        for span in [&mut self.id, &mut self.method, &mut self.params, &mut self.result, &mut self.error] {
            *span = span.map(|span| span.rebased(from, to));
        }
        self
    }
}

/// The value of member `name` of the object at the start of `span`, the last one when it is repeated.
#[must_use]
pub fn member(text: &str, span: Span, name: &str) -> Option<Span> {
    let mut members = Members::of(text, span.start)?;
    let mut found = None;
    while let Ok(Some((key, value))) = members.next() {
        if string::is(key.of(text), name) {
            found = Some(value);
        }
    }
    found
}

/// Follows member names down from `span`.
#[must_use]
pub fn member_at(text: &str, span: Span, path: &[&str]) -> Option<Span> {
    path.iter().try_fold(span, |span, name| member(text, span, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        use Shape::{Batch, Notification, Other, Request, Response};
        for (text, shape) in [
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#, Request),
            (r#"{"method":"ping","id":null}"#, Request),
            (r#"{"method":"notifications/initialized"}"#, Notification),
            (r#"{"id":"a","result":{}}"#, Response),
            (r#"{"error":{"code":-32700},"id":null}"#, Response),
            (r#"{"error":{"code":-32700}}"#, Response),
            (r#"{"method":7,"id":1}"#, Response),
            (r#"{"\u0069d":1,"m\u0065thod":"x"}"#, Request),
            (r#"[{"id":1,"method":"ping"}]"#, Batch),
            ("[]", Batch),
            ("42", Other),
            ("{}", Other),
        ] {
            assert_eq!(View::of(text).unwrap().shape, shape, "{text}");
        }
        for text in ["", "hello", "{\"id\":1} x", "\u{feff}{}"] {
            assert!(View::of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans_are_the_text_as_it_came() {
        let text = r#" { "id" : 1.0 , "id":9007199254740993, "method":"a\/b","params":{"x":1E400} } "#;
        let view = View::of(text).unwrap();
        assert_eq!(view.id.unwrap().of(text), "9007199254740993");
        assert_eq!(view.method_name(text), "a/b");
        assert_eq!(view.params.unwrap().of(text), r#"{"x":1E400}"#);
        assert_eq!(view.whole.of(text), text.trim());
        assert_eq!(member_at(text, view.whole, &["params", "x"]).unwrap().of(text), "1E400");
    }
}
