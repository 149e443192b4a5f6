//! The live side: client sessions, and the exchanges that are being played to them.

use std::collections::{HashMap, HashSet};

use super::fault_play::Course;
use super::player::To;
use super::tape::Tape;
use crate::mcp::Era;
use crate::redact::is_placeholder;

/// Tells a session which of the recorded ones it stands for: given the era of its first request, how many live
/// sessions of that era the same owner had before.
pub type Ordinal = Box<dyn FnMut(Era) -> usize + Send>;

/// A recorded process that numbered its placeholders: its connection, and, where a server was recorded over HTTP more than
/// once, which of these recordings it is.
pub type Process = (u32, usize);

/// The process that recorded an exchange.
#[must_use]
pub fn process_of(tape: &Tape, exchange: u32) -> Process {
    let conn = tape.exchange(exchange).map_or(0, |exchange| exchange.conn);
    let server = tape.head.servers.iter().find(|(name, _)| *name == tape.server);
    let recordings = server.map_or(&[][..], |(_, server)| &server.recordings);
    let number = tape.request(exchange).map_or(0, |request| request.exchange);
    (conn, recordings.partition_point(|first| *first <= number))
}

/// One live client session.
pub struct Session {
    /// Its place among all sessions that there were, from 1.
    pub born: u64,
    /// Asked once, at the first request.
    pub ordinal: Ordinal,
    /// The era of the first request.
    pub era: Option<Era>,
    /// The recorded session it stands for.
    pub stands_for: Option<u32>,
    /// The recorded session whose server's end was the end of this one.
    pub ended_with: Option<u32>,
    /// The client has ended it; it is given up when what still goes on in it is over.
    pub over: bool,
    /// Plays that will end the stream, once others have been answered.
    pub ending: Vec<u64>,
    /// The capabilities of `initialize`, as JSON text (legacy).
    pub capabilities: Option<String>,
    /// The least severe log message wanted (legacy `logging/setLevel`).
    pub log_level: Option<u8>,
    /// Resources subscribed to (legacy).
    pub subscribed: HashSet<String>,
    /// How many notifications of each method came.
    pub notifications: HashMap<String, usize>,
    /// Questions that wait for the client: the id we gave, the play and the recorded question.
    pub asked: HashMap<String, (u64, u32)>,
    /// The id of our next question.
    pub next_ask: u64,
    /// It is of 2025-03-26, the only revision with batches.
    pub has_batches: bool,
    /// Plays of this session by the live request id.
    pub running: HashMap<String, u64>,
    /// Live values seen in the place of redacted ones, by recorded process and placeholder.
    values: HashMap<Process, HashMap<String, String>>,
    /// Placeholders, by recorded process and the live value seen in their place.
    placeholders: HashMap<Process, HashMap<String, String>>,
    /// The place of the last exchange in recorded order (`--ordering strict`).
    pub strict_at: u32,
    /// Over HTTP, with one stream for everything.
    pub piped: bool,
    /// Batches that are being answered.
    pub batches: HashMap<u64, Batch>,
}

/// A batch (2025-03-26) whose requests are being answered.
#[derive(Debug, Default)]
pub struct Batch {
    /// Requests without an answer yet.
    pub waiting: usize,
    /// The answers so far.
    pub answers: Vec<String>,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Session")
            .field("era", &self.era)
            .field("stands_for", &self.stands_for)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session that has said nothing yet.
    #[must_use]
    pub fn new(ordinal: Ordinal) -> Self {
        Self {
            ordinal,
            born: 0,
            era: None,
            stands_for: None,
            ended_with: None,
            over: false,
            ending: Vec::new(),
            capabilities: None,
            log_level: None,
            subscribed: HashSet::new(),
            notifications: HashMap::new(),
            asked: HashMap::new(),
            next_ask: 0,
            has_batches: false,
            running: HashMap::new(),
            values: HashMap::new(),
            placeholders: HashMap::new(),
            strict_at: 0,
            piped: false,
            batches: HashMap::new(),
        }
    }

    /// Whether a live value may stand in the place of a placeholder, by what was seen so far: one value for one
    /// placeholder, and the other way round. Placeholders of different recorded processes have nothing in common.
    #[must_use]
    pub fn agrees(&self, process: Process, placeholder: &str, live: &str) -> bool {
        // What the client got from a recorded answer says itself which one it is.
        if is_placeholder(live) {
            return live == placeholder;
        }
        let known = self.values.get(&process).and_then(|values| values.get(placeholder));
        let is_taken = || self.placeholders.get(&process).is_some_and(|known| known.contains_key(live));
        known.map_or_else(|| !is_taken(), |known| known == live)
    }

    /// Whether a live value stood in the place of any placeholder.
    #[must_use]
    pub fn has_seen(&self, live: &str) -> bool {
        self.placeholders.values().any(|seen| seen.contains_key(live))
    }

    /// Remembers that a live value stood in the place of a placeholder.
    pub fn saw(&mut self, process: Process, placeholder: &str, live: &str) {
        let values = self.values.entry(process).or_default();
        if !values.contains_key(placeholder) {
            values.insert(placeholder.to_owned(), live.to_owned());
        }
        let placeholders = self.placeholders.entry(process).or_default();
        if !placeholders.contains_key(live) {
            placeholders.insert(live.to_owned(), placeholder.to_owned());
        }
    }
}

/// An exchange that is being played.
#[derive(Debug)]
pub struct Play {
    /// Its session.
    pub session: usize,
    /// The exchange of the tape; `None` for a listen that was not recorded.
    pub exchange: Option<u32>,
    /// The live request's id.
    pub id: String,
    /// The live request's progress token.
    pub token: Option<String>,
    /// The least severe log message wanted (modern); `None` wants none.
    pub log_level: Option<u8>,
    /// The capabilities that apply, as JSON text.
    pub capabilities: Option<String>,
    /// Its era.
    pub era: Era,
    /// What a listen asked for.
    pub filter: Vec<String>,
    /// Whether it is a `subscriptions/listen`.
    pub listen: bool,
    /// The next step.
    pub at: usize,
    /// Nothing but notifications goes out before this time (microseconds).
    pub not_before: u64,
    /// When the stream ends at the latest, where the recorded server's end is due (microseconds).
    pub end_at: Option<u64>,
    /// When waiting for the client becomes an error (microseconds).
    pub deadline: Option<u64>,
    /// The state of each question.
    pub asks: HashMap<u32, Asked>,
    /// The client cancelled it.
    pub cancelled: bool,
    /// The exchange is played for the first time, so what followed it follows again.
    pub first: bool,
    /// The revision to name in the answer to `initialize`.
    pub version: Option<String>,
    /// The batch it belongs to.
    pub batch: Option<u64>,
    /// What the caller gave with the request, to know its messages by.
    pub carrier: u64,
    /// Its faults and its pace.
    pub(super) course: Course,
    /// The task this play creates, answers for or belongs to.
    pub task: Option<usize>,
}

impl Play {
    pub(super) fn to(&self) -> To {
        To { session: self.session, batch: self.batch, carrier: self.carrier }
    }
}

/// Where a question of the server stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// Sent, not answered.
    Sent,
    /// Answered.
    Answered,
    /// Not sent: the client cannot be asked.
    Skipped,
}
