//! How the answer to a request goes out over HTTP: as it did when it was recorded, or, where it was recorded on a pipe,
//! in the plainest way that loses nothing.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::facts::{Content, End, Facts, Kind};
use super::player::{Output, Player};
use super::tape::{Exchange, Outcome, Step};
use crate::jsonrpc::string;

/// Above this many bytes an answer goes as JSON: Python clients refuse a longer event, and take the same as JSON.
const LARGE: usize = 1 << 20;

/// How an answer goes out over HTTP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Framing {
    /// As JSON, as events, or as a body that is no message.
    pub kind: Kind,
    /// The recorded answer was no message.
    pub bare: bool,
    /// The connection broke off where the recorded messages and the body end.
    pub cut: bool,
    /// The recorded status; `None` where none was recorded.
    pub status: Option<u16>,
    /// The recorded header fields.
    pub headers: Vec<(String, String)>,
    /// Other messages than the answer belong to it, so events are the only way.
    pub inner: bool,
    /// Such messages are left out: the answer is too large for an event.
    pub answer_only: bool,
    /// A body that is no message.
    pub body: Vec<u8>,
    /// The events had ids.
    pub resumable: bool,
    /// The first event was an id alone.
    pub primed: bool,
    /// How long a client is to wait before it comes back, in milliseconds.
    pub retry: Option<u64>,
    /// The exchanges of the tape that it answers.
    pub answers: Vec<u32>,
}

impl Default for Framing {
    fn default() -> Self {
        Self {
            kind: Kind::Json,
            bare: false,
            cut: false,
            status: None,
            headers: Vec::new(),
            inner: false,
            answer_only: false,
            body: Vec::new(),
            resumable: false,
            primed: false,
            retry: None,
            answers: Vec::new(),
        }
    }
}

impl Player {
    /// Says how the answer to a request goes out; without an exchange it is a stream that stays open.
    pub(super) fn begin(&mut self, carrier: u64, exchange: Option<u32>, change: impl FnOnce(&mut Framing)) {
        if !self.options.http {
            return;
        }
        let mut framing = match exchange {
            None => Framing { kind: Kind::Sse, inner: true, ..Framing::default() },
            Some(number) => match self.tape.exchange(number) {
                Some(exchange) => self.framing(number, exchange),
                None => return,
            },
        };
        framing.answers.extend(exchange);
        change(&mut framing);
        if framing.answer_only {
            self.warn("an answer over 1 MiB was sent as JSON, without its progress".to_owned());
        }
        self.out.push(Output::Begins { carrier, framing });
    }

    pub(super) fn framing(&self, number: u32, exchange: &Exchange) -> Framing {
        let inner = exchange.steps.iter().any(|step| matches!(step, Step::Send(_) | Step::Ask(_)));
        if let Some(facts) = self.tape.facts(number) {
            return recorded(facts, inner, exchange.outcome, &self.tape.text);
        }
        let asks = exchange.steps.iter().any(|step| matches!(step, Step::Ask(_)));
        let large = self.tape.answer(number).is_some_and(|answer| answer.view.whole.len() > LARGE);
        let open = matches!(exchange.outcome, Outcome::Open | Outcome::Cut);
        let kind = if (inner || open) && (asks || !large) { Kind::Sse } else { Kind::Json };
        Framing { kind, inner, answer_only: inner && large && !asks, ..Framing::default() }
    }
}

fn recorded(facts: &Facts, inner: bool, outcome: Outcome, text: &str) -> Framing {
    let body = match facts.body.filter(|_| matches!(outcome, Outcome::Bare | Outcome::Cut)) {
        Some(Content::Text(body)) => string::decode(body.of(text)).into_owned().into_bytes(),
        Some(Content::Base64(body)) => {
            STANDARD.decode(string::decode(body.of(text)).as_bytes()).unwrap_or_default()
        }
        Some(Content::Json(body)) => body.of(text).as_bytes().to_vec(),
        None => Vec::new(),
    };
    // A message was the whole body, so it was JSON, whatever the type says.
    let kind = match (&facts.kind, outcome) {
        (Kind::Other(_), Outcome::Answered) if inner => Kind::Sse,
        (Kind::Other(_), Outcome::Answered) => Kind::Json,
        (kind, _) => kind.clone(),
    };
    let headers = facts.headers.clone();
    let (bare, cut) = (outcome == Outcome::Bare, facts.end == Some(End::Cut));
    let status = Some(facts.status).filter(|_| facts.head || facts.end.is_none());
    let Facts { resumable, primed, retry, .. } = *facts;
    let rest = Framing::default();
    Framing { kind, bare, cut, status, headers, inner, body, resumable, primed, retry, ..rest }
}
