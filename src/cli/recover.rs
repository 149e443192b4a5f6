//! `recover`: make a cassette out of a recording that was interrupted.

use std::path::Path;

use argh::{ArgsInfo, FromArgs};

use super::say;
use crate::cassette::merge::Files;
use crate::cassette::segments::{CassetteOnDisk, Completion, Merged, Recording, find};
use crate::cassette::state::State;
use crate::error::{Error, Result};
use crate::exit;

/// Make a cassette out of a recording whose recorders were killed.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "recover",
    example = "{command_name} session.cassette.json",
    error_code(1, "there is nothing to recover"),
    error_code(6, "the recording still runs")
)]
pub struct Recover {
    /// the cassette that was being recorded
    #[argh(positional, arg_name = "file")]
    pub cassette: String,
}

/// Runs the command.
pub fn run(recover: &Recover) -> Result<u8> {
    let path = Path::new(&recover.cassette);
    let state = State::of_user();
    let completion = Recording::of(path, &state, &Files).recover()?;
    match &completion {
        Completion::Recording { pids, owner } => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            let holder = format!("{owner}, recording in process {}", pids.join(", "));
            return Err(Error::Owned { path: path.to_path_buf(), holder });
        }
        Completion::Absent | Completion::Empty => {
            let what = match find(path)? {
                CassetteOnDisk::Document(_) => "is complete; there is nothing to recover".to_owned(),
                other => crate::door::missing(&other),
            };
            return Err(Error::Failed(format!("{}: {what}", path.display())));
        }
        _ => {}
    }
    if let Some(warning) = completion.warning() {
        say(&format!("warning: {warning}"));
    }
    say(&describe(path, &completion));
    Ok(exit::OK)
}

/// What came of completing a recording, in words.
#[must_use]
pub fn describe(path: &Path, completion: &Completion) -> String {
    let path = path.display();
    match completion {
        Completion::Merged { outcome: Merged::Written, .. } => format!("{path} is complete"),
        Completion::Merged { outcome: Merged::Unchanged, .. } => {
            format!("{path} says the same already and was left untouched")
        }
        Completion::Merged { .. } | Completion::OnlyProbes => {
            format!("only probes were recorded; {path} was left as it is")
        }
        Completion::AlreadyMerged => format!("{path} was complete already"),
        Completion::Recording { .. } => {
            format!("others still record into {path}; the last of them completes it")
        }
        Completion::Interrupted { folder } => {
            format!("the recording in {} was interrupted", folder.display())
        }
        Completion::Lost { what } => what.clone(),
        Completion::Absent | Completion::Empty => format!("nothing is being recorded into {path}"),
    }
}
