//! Whose a token is: a cursor, a `requestState`, a task. Only the server that made it knows what to do with it, so one
//! that came from the cassette is never sent to the live server, and one of the live server is never looked up.

use std::collections::{HashMap, HashSet};

use super::back::task_in;
use super::plain;
use crate::cassette::Side;
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::elements;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};
use crate::redact::is_placeholder;
use crate::replay::choose::base_key;
use crate::replay::player::Request;
use crate::replay::tape::Tape;
use crate::replay::tasks::Tasks;

/// A token, with what it is of.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Token {
    /// A place in the list of a method.
    Cursor(String, String),
    State(String),
    Task(String),
    /// A round without a state: the request is what identifies it.
    Round(Vec<u8>),
}

impl Token {
    fn what(&self) -> &'static str {
        match self {
            Self::Cursor(..) => "cursor",
            Self::State(_) => "requestState",
            Self::Task(_) => "taskId",
            Self::Round(_) => "question",
        }
    }
}

/// The tokens that the client has got.
#[derive(Debug, Default)]
pub(super) struct Minted {
    /// Whether the one who sent it last was the live server.
    served: HashMap<Token, bool>,
    /// All that are in the cassette, once they are asked for.
    recorded: Option<HashSet<Token>>,
}

impl Minted {
    /// Looks at a message to the client; an answer is one to `method`.
    pub(super) fn note(&mut self, text: &str, view: &View, method: &str, round: &[u8], by_live: bool) {
        for token in tokens_of_answer(text, view, method, round) {
            self.served.insert(token, by_live);
        }
    }

    /// Whether a request is about something that the live server made, and nothing else.
    pub(super) fn is_live(&self, request: &Request<'_>) -> bool {
        let mut tokens =
            tokens_of_request(request).into_iter().map(|token| self.served.get(&token)).peekable();
        tokens.peek().is_some() && tokens.all(|live| live == Some(&true))
    }

    /// What of a request came from the cassette.
    pub(super) fn of_cassette(
        &mut self,
        request: &Request<'_>,
        tape: &Tape,
        tasks: &Tasks,
    ) -> Option<&'static str> {
        let tokens = tokens_of_request(request);
        if tokens.is_empty() {
            return None;
        }
        let recorded = self.recorded.get_or_insert_with(|| recorded_tokens(tape));
        let ours = |token: &&Token| match self.served.get(*token) {
            Some(live) => !live,
            None => {
                recorded.contains(*token)
                    || matches!(token, Token::Task(id) if tasks.instances.iter().any(|task| task.id == *id))
            }
        };
        tokens.iter().find(ours).map(Token::what)
    }
}

/// The tokens that a message of a server hands out.
fn tokens_of_answer(text: &str, view: &View, method: &str, round: &[u8]) -> Vec<Token> {
    let whole = view.whole.of(text);
    let has = |name: &str| memchr::memmem::find(whole.as_bytes(), name.as_bytes()).is_some();
    let mut tokens = Vec::new();
    if has("taskId") {
        tokens.extend(task_in(text, view).into_iter().map(Token::Task));
    }
    let Some(result) = view.result else { return tokens };
    let value = |name: &str| member(text, result, name).map(|span| plain(span.of(text)));
    if has("nextCursor") {
        tokens.extend(value("nextCursor").map(|cursor| Token::Cursor(method.to_owned(), cursor)));
    }
    if has("requestState") || has("input_required") {
        match value("requestState") {
            Some(state) => tokens.push(Token::State(state)),
            None if value("resultType").as_deref() == Some("input_required") && !round.is_empty() => {
                tokens.push(Token::Round(round.to_vec()));
            }
            None => {}
        }
    }
    tokens
}

/// The tokens that a request hands back.
fn tokens_of_request(request: &Request<'_>) -> Vec<Token> {
    let (text, view) = (request.text, &request.view);
    let Some(params) = view.params else { return Vec::new() };
    let value = |name: &str| member(text, params, name).map(|span| plain(span.of(text)));
    let mut tokens = Vec::new();
    tokens.extend(value("cursor").map(|cursor| Token::Cursor(request.method.clone(), cursor)));
    let state = value("requestState").map(Token::State);
    if state.is_none() && member(text, params, "inputResponses").is_some() && value("taskId").is_none() {
        tokens.push(Token::Round(base_key(text, view)));
    }
    tokens.extend(state);
    tokens.extend(task_in(text, view).into_iter().map(Token::Task));
    let listened = member_at(text, params, &["notifications", "taskIds"]);
    for id in listened.and_then(|list| elements(text, list).ok()).unwrap_or_default() {
        tokens.push(Token::Task(plain(id.of(text))));
    }
    tokens
}

fn recorded_tokens(tape: &Tape) -> HashSet<Token> {
    let mut found = HashSet::new();
    for (number, _) in (0..).zip(&tape.exchanges) {
        let (Some(request), Some(answer)) = (tape.request(number), tape.answer(number)) else { continue };
        let method = request.view.method_name(&tape.text);
        let round = base_key(&tape.text, &request.view);
        found.extend(tokens_of_answer(&tape.text, &answer.view, &method, &round));
    }
    let said =
        tape.items.iter().filter(|item| item.from == Side::Server && item.view.shape != Shape::Response);
    found.extend(said.flat_map(|item| tokens_of_answer(&tape.text, &item.view, "", &[])));
    found
}

/// Whether a request holds what stands in a cassette for a value that was taken out. Dates, addresses and other values of a
/// shape may be the client's own: they have to be in this cassette.
pub(super) fn has_placeholder(request: &Request<'_>, tape: &Tape) -> bool {
    let Some(params) = request.view.params else { return false };
    let Ok(tree) = Tree::of(params.of(request.text)) else { return false };
    (0..tree.len()).any(|index| {
        let is_text = tree.node(index).is_some_and(|node| node.kind == Kind::String);
        is_text && {
            let text = string::decode(tree.text_of(index));
            let is_here = || memchr::memmem::find(tape.text.as_bytes(), text.as_bytes()).is_some();
            holds_placeholder(&text) || (is_placeholder(&text) && (is_labelled(&text) || is_here()))
        }
    })
}

/// Whether a placeholder says itself that it is one.
fn is_labelled(text: &str) -> bool {
    text.contains("REDACTED") || text.contains("redacted")
}

fn holds_placeholder(text: &str) -> bool {
    let numbered = text
        .match_indices("REDACTED-")
        .any(|(at, found)| text.as_bytes().get(at + found.len()).is_some_and(u8::is_ascii_digit));
    numbered || text.contains("@redacted.invalid")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_found_inside_of_texts() {
        for (text, expected) in [
            ("Bearer REDACTED-2.1", true),
            ("to redacted-1@redacted.invalid", true),
            ("{\"token\":\"REDACTED-1\"}", true),
            ("REDACTED", false),
            ("REDACTED-x", false),
            ("", false),
        ] {
            assert_eq!(holds_placeholder(text), expected, "{text}");
        }
    }
}
