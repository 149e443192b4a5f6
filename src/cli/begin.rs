//! `begin`: a named session is about to start its processes.

use std::path::Path;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::options::{load, seconds};
use super::print;
use super::record::{check_name, check_session};
use crate::cassette::merge::Files;
use crate::cassette::owner::Owner;
use crate::cassette::segments::{Begun, find};
use crate::cassette::state::State;
use crate::door::{self, Mode, Question};
use crate::error::Result;
use crate::exit;

/// Begin a named session at a cassette: wait until nobody else records it, and say whether it will be recorded or
/// replayed.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "begin",
    example = "{command_name} session.cassette.json --session test-7@$$",
    note = "Prints record or replay, and the mode. What it prints record for has the cassette for itself until `mcpreel end`, or until process PID of a session ID@PID is gone.",
    error_code(2, "no cassette in mode none, or what is there is none"),
    error_code(6, "another recording owns the cassette")
)]
pub struct Begin {
    /// the cassette
    #[argh(positional, arg_name = "file")]
    pub cassette: String,
    /// the session's name, which its processes are given too; ID@PID ends with that process at the latest
    #[argh(option, arg_name = "id")]
    pub session: String,
    /// as for use: once (default), none, all or `new_episodes`
    #[argh(option, arg_name = "mode")]
    pub mode: Option<String>,
    /// how long to wait for another recording to end (default: 30)
    #[argh(option, arg_name = "seconds", from_str_fn(seconds))]
    pub claim_wait: Option<Duration>,
    /// the configuration file (default: the nearest mcpreel.toml upwards)
    #[argh(option, arg_name = "file")]
    pub config_file: Option<String>,
    /// no configuration file
    #[argh(switch)]
    pub no_config: bool,
}

/// Runs the command.
pub fn run(begin: &Begin, configured: Option<(&str, &Path)>) -> Result<u8> {
    check_name("<file>", &begin.cassette)?;
    check_session(Some(&begin.session))?;
    let chosen = door::choose_mode(begin.mode.as_deref(), configured)?;
    let path = Path::new(&begin.cassette);
    let state = State::of_user();
    let begun = door::begin(&Question {
        mode: chosen.mode,
        cassette: path,
        server: "",
        owner: &Owner::session(&begin.session),
        force: false,
        claim_wait: begin.claim_wait,
        state: &state,
        documents: &Files,
    })?;
    if chosen.mode == Mode::None {
        // What cannot be read cannot be replayed.
        load(path, &find(path)?)?;
    }
    let does = match begun {
        Begun::Record => "record",
        Begun::Replay => "replay",
    };
    print(&format!("{does} {}\n", chosen.mode.name()))?;
    Ok(exit::OK)
}
