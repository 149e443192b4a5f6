//! Recording: what goes over pipes and sockets is queued for the recorder thread, then forwarded untouched.

use std::fmt;
use std::io;
use std::time::{Duration, Instant};

use crate::exit;

pub mod http;
pub mod pump;
pub mod queue;
pub mod recorder;
pub mod segment;
pub mod stdio;
pub mod writer;

pub use crate::stdio::child::Exit;

/// Who sent a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum From {
    /// The client: it came in on our standard input.
    Client,
    /// The server: it came out of the server's standard output.
    Server,
}

/// One line as it went over the pipe; over HTTP, what `http/item.rs` puts into one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Captured<'a> {
    /// Who sent it.
    pub from: From,
    /// The line without its `\n`. A `\r` before that is part of the line.
    pub line: &'a [u8],
    /// The stream ended in the middle of this line: no `\n` followed.
    pub torn: bool,
    /// When it was queued, since the recording began. Never goes back.
    pub at: Duration,
}

/// Why a session ended: the first thing that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The client closed our standard input.
    ClientClosed,
    /// The server ended by itself.
    ServerExited,
    /// This signal reached us.
    Signal(i32),
    /// Nobody reads our standard output any more.
    OutputClosed,
}

impl Reason {
    /// The word in the last line of a segment.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ClientClosed => "client_closed",
            Self::ServerExited => "server_exited",
            Self::Signal(_) => "signal",
            Self::OutputClosed => "output_closed",
        }
    }
}

/// How a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ending {
    /// Why.
    pub reason: Reason,
    /// How the server ended; `None` when it could not be ended (a process the kernel does not let go of).
    pub exit: Option<Exit>,
    /// The last lines of the server's standard error (20 at most), only when the server failed.
    pub stderr_tail: Vec<String>,
    /// How many messages were given to the sink and kept.
    pub captured: u64,
}

/// Where captured messages go. All calls come from the recorder thread, in the order of the file.
pub trait Sink: Send {
    /// The moment that the times of messages count from.
    fn begun(&self) -> Instant;

    /// Does what can be done for a batch without the disk. Called before [`Sink::append`] gets the same batch: while
    /// this lasts, the session waits for the recorder rather than get ahead of it.
    fn prepare(&mut self, batch: &[Captured<'_>]) {
        let _ = batch;
    }

    /// Keeps a batch (never empty, at most 64 messages). After an error nothing is appended any more; an error made
    /// by [`taken_over`] says that another recorder has the cassette now.
    fn append(&mut self, batch: &[Captured<'_>]) -> io::Result<()>;

    /// Called once, when the server has ended and all that was captured is appended. Not called when `append` failed.
    fn ending(&mut self, end: &Ending) -> io::Result<()>;

    /// Called in place of [`Sink::prepare`] and [`Sink::append`] for what comes once recording is off, so that [`Sink::open_requests`] stays right.
    fn follow(&mut self, batch: &[Captured<'_>]) {
        let _ = batch;
    }

    /// How many requests of the client wait for their answer, by what was appended or followed so far. While there
    /// are any, a client that has closed our standard input is taken to wait for them.
    fn open_requests(&self) -> usize {
        0
    }
}

/// What is left to say when a session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The status to exit with.
    pub exit: u8,
    /// Why the session ended.
    pub reason: Reason,
    /// How the server ended.
    pub server: Option<Exit>,
    /// Why recording stopped early, as one line.
    pub recording_failed: Option<String>,
    /// How many messages were kept.
    pub captured: u64,
}

impl Outcome {
    pub(crate) fn new(ending: &Ending, signal: Option<i32>, failed: Option<String>, captured: u64) -> Self {
        let server = match ending.exit {
            Some(Exit::Code(code)) => u8::try_from(code).unwrap_or(exit::FAILED),
            Some(Exit::Signal(signal)) => exit::by_signal(signal),
            None => exit::by_signal(KILL),
        };
        let exit = match (signal, server) {
            (Some(signal), _) => exit::by_signal(signal),
            (None, exit::OK) if failed.is_some() => exit::WRAPPER_FAILED,
            (None, exit::OK) if captured == 0 => exit::FAILED,
            (None, server) => server,
        };
        Self { exit, reason: ending.reason, server: ending.exit, recording_failed: failed, captured }
    }
}

/// The number of SIGKILL, the same everywhere.
const KILL: i32 = 9;

/// The error a sink's `append` returns when the recording is not its own any more; `how` is told to people.
#[must_use]
pub fn taken_over(how: impl Into<String>) -> io::Error {
    io::Error::other(TakenOver(how.into()))
}

/// Tells an error made by [`taken_over`] from others.
#[must_use]
pub fn is_taken_over(error: &io::Error) -> bool {
    matches!(error.get_ref(), Some(inner) if inner.is::<TakenOver>())
}

#[derive(Debug)]
struct TakenOver(String);

impl fmt::Display for TakenOver {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for TakenOver {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exit_status_follows_the_table() {
        let exit = |exit, signal, failed: bool, captured| {
            let ending = Ending { reason: Reason::ClientClosed, exit, stderr_tail: vec![], captured };
            Outcome::new(&ending, signal, failed.then(|| "disk full".to_owned()), captured).exit
        };
        assert_eq!(exit(Some(Exit::Code(0)), None, false, 4), 0);
        assert_eq!(exit(Some(Exit::Code(0)), None, false, 0), 1);
        assert_eq!(exit(Some(Exit::Code(0)), None, true, 0), 125);
        assert_eq!(exit(Some(Exit::Code(7)), None, true, 4), 7);
        assert_eq!(exit(Some(Exit::Signal(15)), None, false, 4), 143);
        assert_eq!(exit(Some(Exit::Code(3)), Some(2), false, 4), 130);
        assert_eq!(exit(None, None, false, 4), 137);
    }

    #[test]
    fn a_take_over_is_told_from_other_errors() {
        assert!(is_taken_over(&taken_over("by process 7")));
        assert!(!is_taken_over(&io::Error::other("full")));
        assert_eq!(taken_over("by process 7").to_string(), "by process 7");
    }
}
