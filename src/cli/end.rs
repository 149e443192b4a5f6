//! `end`: a named session is over.

use std::path::Path;

use argh::{ArgsInfo, FromArgs};

use super::record::{check_name, check_session};
use super::recover::{describe, incomplete};
use super::say;
use crate::cassette::merge::Files;
use crate::cassette::state::State;
use crate::door;
use crate::error::Result;
use crate::exit;

/// End a named session at a cassette and complete its recording.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "end",
    example = "{command_name} session.cassette.json --session test-7",
    error_code(1, "not all of the recording could be read"),
    error_code(2, "there is no such session")
)]
pub struct End {
    /// the cassette
    #[argh(positional, arg_name = "file")]
    pub cassette: String,
    /// the session's name
    #[argh(option, arg_name = "id")]
    pub session: String,
}

/// Runs the command.
pub fn run(end: &End) -> Result<u8> {
    check_name("<file>", &end.cassette)?;
    check_session(Some(&end.session))?;
    let path = Path::new(&end.cassette);
    let completion = door::end(path, &end.session, &State::of_user(), &Files)?;
    if let Some(damage) = completion.damage() {
        say(&format!("warning: {}", damage.words()));
        return Err(incomplete(path, damage));
    }
    say(&describe(path, &completion));
    Ok(exit::OK)
}
