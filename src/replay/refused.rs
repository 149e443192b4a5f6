//! Requests that were refused before the player came to see them: at the wrong path, of an unknown session, with header
//! fields that a server must not take. The protocol tells the client what to do about most of them, so such a refusal
//! waits: a client that does it asks again, and only who does not has missed something.

use super::key;
use super::player::{Output, Player, Request};
use super::report::Miss;
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::elements;
use crate::mcp;
use crate::redact::Written;

/// So many refusals may wait; the next ones are misses at once.
const WAITING: usize = 1000;

/// The method of a request that nobody has read.
const UNREAD: &str = "(not read)";

/// Why requests were refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// In words, after the subject: `was refused: ...`.
    pub why: String,
    /// The way out.
    pub hint: String,
    /// The code of the error, where the recorded server may have given the same.
    pub code: Option<i32>,
    /// What may settle it.
    pub settled: Settled,
}

/// What settles a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// Nothing: it is a miss.
    Never,
    /// The same request.
    Again,
    /// The same request in a session that was opened later, or an `initialize` on the same connection.
    Anew {
        /// The connection.
        connection: u64,
        /// What stands for the session that it named, if it named one: nobody else has it.
        session: Option<u64>,
    },
}

/// A refused request whose client may ask again.
#[derive(Debug)]
pub(super) struct Stray {
    method: String,
    key: Vec<u8>,
    settled: Settled,
    /// How many sessions there had been.
    births: u64,
    miss: Miss,
}

impl Stray {
    fn is(&self, method: &str, key: &[u8]) -> bool {
        self.method == method && self.key == key
    }
}

impl Settled {
    fn connection(self) -> Option<u64> {
        match self {
            Self::Anew { connection, .. } => Some(connection),
            Self::Never | Self::Again => None,
        }
    }

    fn session(self) -> Option<u64> {
        match self {
            Self::Anew { session, .. } => session,
            Self::Never | Self::Again => None,
        }
    }
}

impl Player {
    /// Takes note of the requests in a body that was refused.
    pub fn refused(&mut self, body: &[u8], refusal: &Refusal) {
        let body = body.strip_prefix(b"\xef\xbb\xbf").unwrap_or(body);
        let Ok(text) = std::str::from_utf8(body) else { return };
        let Ok(view) = View::of(text) else { return };
        let views: Vec<View> = match view.shape {
            Shape::Batch => {
                let items = elements(text, view.whole).unwrap_or_default();
                items.iter().filter_map(|span| View::at(text, span.start).ok()).collect()
            }
            _ => vec![view],
        };
        for view in views.iter().filter(|view| view.shape == Shape::Request) {
            self.refused_one(text, view, refusal);
        }
    }

    /// Takes note of a message that was refused before anybody could read it: what it was is not known.
    pub fn refused_unread(&mut self, why: String, hint: &str) {
        let miss = Miss { method: UNREAD.to_owned(), name: None, why, nearest: None, hint: hint.to_owned() };
        self.add_miss(miss);
    }

    fn refused_one(&mut self, text: &str, view: &View, refusal: &Refusal) {
        let method = view.method_name(text).into_owned();
        let name = mcp::target(&method, text, view);
        if refusal.code.is_some_and(|code| self.tape.was_refused(&method, name.as_deref(), code)) {
            return;
        }
        let subject = self.rules.subject(&method, name.as_deref());
        let why = format!("{subject} was refused: {}", refusal.why);
        let hint = refusal.hint.clone();
        let miss = Miss { method: subject.method, name: subject.name, why, nearest: None, hint };
        let settled = refusal.settled;
        if settled == Settled::Never || self.strays.len() >= WAITING {
            return self.add_miss(miss);
        }
        let key = key::of(text, view, mcp::era(text, view), &self.rules, Written::Live).bytes;
        // A client that tries again before it begins anew is to ask once more, not twice.
        let tried = |stray: &Stray| {
            stray.settled.session().is_some_and(|session| settled.session() == Some(session))
                && stray.is(&method, &key)
        };
        if !self.strays.iter().any(tried) {
            self.strays.push(Stray { method, key, settled, births: self.births, miss });
        }
    }

    pub(super) fn add_miss(&mut self, miss: Miss) {
        self.out.push(Output::Note(miss.words()));
        self.count_miss(miss);
    }

    /// The client of a connection begins anew.
    pub fn recovers(&mut self, connection: u64) {
        let on_it = |stray: &&Stray| stray.settled.connection() == Some(connection);
        let sessions: Vec<u64> =
            self.strays.iter().filter(on_it).filter_map(|it| it.settled.session()).collect();
        self.strays.retain(|stray| {
            !on_it(&stray) && !stray.settled.session().is_some_and(|session| sessions.contains(&session))
        });
    }

    /// A request has come to be answered.
    pub(super) fn asked_again(&mut self, request: &Request<'_>) {
        if self.strays.is_empty() {
            return;
        }
        let key = key::of(request.text, &request.view, request.era, &self.rules, Written::Live).bytes;
        let born = self.sessions.get(request.session).map_or(0, |session| session.born);
        let settles = |stray: &Stray| stray.settled == Settled::Again || born > stray.births;
        let again = |stray: &Stray| settles(stray) && stray.is(&request.method, &key);
        if let Some(at) = self.strays.iter().position(again) {
            self.strays.remove(at);
        }
    }

    /// What was refused and not asked again is a miss.
    pub fn settle_refused(&mut self) {
        for stray in std::mem::take(&mut self.strays) {
            self.add_miss(stray.miss);
        }
    }
}
