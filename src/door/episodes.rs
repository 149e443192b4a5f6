//! Mode `new_episodes`: the live server behind a replay, and the place in the cassette for what it says. [`Piped`] is one
//! that we start, [`Web`] one at a URL.
//!
//! The place is taken when the replay begins, so that nobody else gets in between, and it stays empty unless something
//! was asked that was not recorded. What then goes to the live server and comes from it is recorded as it would be
//! without a replay in front: as a connection of its own, with the greeting, redacted, message by message.

mod piped;
mod web;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::cassette::merge::Files;
use crate::cassette::segments::{Claim, Completion, Joined, Recording};
use crate::cassette::state::State;
use crate::cassette::{Cassette, Transport};
use crate::error::{Error, Result};
use crate::exit;
use crate::record::writer::{Source, Start};
use crate::redact::Rules;

pub use piped::Piped;
pub use web::Web;

/// Where something is told to people.
pub type Say = Arc<dyn Fn(&str) + Send + Sync>;

/// The place for what is new. Dropped, it is given back empty.
#[derive(Debug)]
pub struct Place {
    cassette: PathBuf,
    joined: Option<Joined>,
    rules: Option<Arc<Rules>>,
    /// The number of the last process before this recording that has placeholders in the cassette.
    numbered: u32,
}

impl Place {
    /// A place in the recording of a cassette, named as the user did, under these rules.
    #[must_use]
    pub fn new(path: &Path, joined: Joined, cassette: &Cassette, rules: Rules) -> Self {
        let numbered = highest_number(&cassette.text);
        Self { cassette: path.to_path_buf(), joined: Some(joined), rules: Some(Arc::new(rules)), numbered }
    }

    /// How a segment in this place begins.
    fn start(&self, source: Source) -> Result<Start> {
        let over = || Error::Failed("the recording is over".to_owned());
        let (joined, rules) = self.joined.as_ref().zip(self.rules.clone()).ok_or_else(over)?;
        let start =
            Start::at(joined, source, rules).map_err(Error::io("write the recording", &joined.path))?;
        // Sessions over HTTP have no process of their own that would tell their placeholders from each other's.
        Ok(Start { number: self.numbered.saturating_add(joined.number), ..start })
    }

    fn claim(&self) -> Option<Claim> {
        self.joined.as_ref().map(|joined| joined.claim.clone())
    }

    fn leave(&mut self, kept: bool) -> Result<Completion> {
        let Some(joined) = self.joined.take() else { return Ok(Completion::Absent) };
        let state = State::of_user();
        Recording::of(&self.cassette, &state, &Files).leave(joined, kept)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.leave(false);
    }
}

/// What came of it.
#[derive(Debug)]
pub struct Finished {
    /// How many messages were appended.
    pub captured: u64,
    /// Why no more, or none.
    pub failed: Option<String>,
    /// The status to exit with where something went wrong.
    pub code: Option<u8>,
    /// What became of the cassette.
    pub left: Result<Completion>,
}

impl Finished {
    fn of(mut place: Place, captured: u64, failed: Option<String>, code: Option<u8>) -> Self {
        // A recording that failed may have kept more than was counted.
        let left = place.leave(captured > 0 || failed.is_some());
        let lost = left.is_err() || (captured > 0 && matches!(left, Ok(Completion::Lost { .. })));
        let code = code.or((failed.is_some() || lost).then_some(exit::WRAPPER_FAILED));
        Self { captured, failed, code, left }
    }
}

/// The highest number of a process in the placeholders of a text, at least that of the first process.
fn highest_number(text: &str) -> u32 {
    let number = |(at, found): (usize, &str)| {
        let rest = text.get(at + found.len()..)?;
        let (process, _) = rest.split_once('.').filter(|(process, _)| process.len() < 10)?;
        process.parse().ok()
    };
    ["REDACTED-", "redacted-"]
        .iter()
        .flat_map(|label| text.match_indices(label))
        .filter_map(number)
        .max()
        .unwrap_or(1)
}

/// The name under which what is new goes into a cassette: the one that was given, else the only one that is there, else
/// that of the program, which has to be there if others are. Two transports under one name would make no sense to a replay.
///
/// # Errors
///
/// [`Error::Usage`] when that does not tell which one, or it was recorded over the other transport.
pub fn server_of(
    cassette: &Cassette,
    given: Option<&str>,
    program: &str,
    transport: Transport,
) -> Result<String> {
    let names = cassette.head.names();
    let name = match (given, names.as_slice()) {
        (Some(given), _) => given.to_owned(),
        (None, [only]) => only.clone(),
        (None, names) if names.is_empty() || names.iter().any(|name| name == program) => program.to_owned(),
        (None, names) => {
            let listed = names.join(", ");
            return Err(Error::Usage(format!(
                "the cassette has several servers; choose one with --server: {listed}, or the name of a new one"
            )));
        }
    };
    let known = cassette.head.servers.iter().find(|(known, _)| *known == name).map(|(_, server)| server);
    match known.map(|server| server.transport) {
        Some(recorded) if recorded != transport => {
            let (was, way) = match recorded {
                Transport::Http => ("over HTTP", "--url URL"),
                Transport::Stdio => ("from a command", "a command"),
            };
            Err(Error::Usage(format!(
                "server {name} was recorded {was}, and what is new has to come the same way: give {way}, or another \
                 --server name"
            )))
        }
        _ => Ok(name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_go_on_behind_those_that_are_there() {
        for (text, expected) in [
            ("", 1),
            ("\"REDACTED-7\" and 1.5", 1),
            ("REDACTED-2.1 redacted-13.4@redacted.invalid REDACTED-x.1", 13),
            ("REDACTED-99999999999999.1", 1),
        ] {
            assert_eq!(highest_number(text), expected, "{text}");
        }
    }
}
