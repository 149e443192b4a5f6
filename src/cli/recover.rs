//! `recover`: make a cassette out of a recording that was interrupted.

use std::path::Path;

use argh::{ArgsInfo, FromArgs};

use super::say;
use crate::cassette::Cassette;
use crate::cassette::merge::{self, Files};
use crate::cassette::segments::{CassetteOnDisk, Completion, Damage, Merged, Recording, find, set_aside};
use crate::cassette::state::State;
use crate::error::{Error, Result};
use crate::exit;

/// Make a cassette out of a recording whose recorders were killed.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "recover",
    example = "{command_name} session.cassette.json",
    example = "{command_name} session.cassette.json.partial.1 -o earlier.cassette.json",
    error_code(1, "there is nothing to recover, or not all of it could be read"),
    error_code(2, "what is there is neither a cassette nor the folder of a recording"),
    error_code(6, "the recording still runs")
)]
pub struct Recover {
    /// the cassette that was being recorded, or a folder of an earlier recording that was moved out of the way
    #[argh(positional, arg_name = "file")]
    pub cassette: String,
    /// where the cassette of such a folder goes (default: the one that was being recorded, if it is not there)
    #[argh(option, short = 'o', arg_name = "file")]
    pub output: Option<String>,
}

/// Runs the command.
pub fn run(recover: &Recover) -> Result<u8> {
    let path = Path::new(&recover.cassette);
    let output = recover.output.as_deref().map(Path::new);
    if let Some(recorded) = set_aside::cassette_of(path).filter(|_| path.is_dir()) {
        return recover_folder(path, output.unwrap_or(&recorded));
    }
    if output.is_some() {
        let what = "is no folder of an interrupted recording; only with one of those -o makes sense";
        return Err(Error::Usage(format!("{}: {what}", path.display())));
    }
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
                // Moved out of the way by a recorder that recorded nothing itself.
                CassetteOnDisk::Interrupted { folders } if folders.len() == 1 => {
                    return folders.first().map_or(Ok(exit::OK), |folder| recover_folder(folder, path));
                }
                CassetteOnDisk::Interrupted { folders } => {
                    let folders: Vec<String> =
                        folders.iter().map(|folder| folder.display().to_string()).collect();
                    format!(
                        "several recordings were interrupted; recover one of them by its folder: {}",
                        folders.join(", ")
                    )
                }
                CassetteOnDisk::Document(_) => {
                    // Only a cassette can be complete.
                    Cassette::read(path).map_err(|error| no_recording(path, error))?;
                    "is complete; there is nothing to recover".to_owned()
                }
                other => crate::door::missing(&other),
            };
            return Err(Error::Failed(format!("{}: {what}", path.display())));
        }
        _ => {}
    }
    if let Some(warning) = completion.warning() {
        say(&format!("warning: {warning}"));
    }
    if let Some(damage) = completion.damage() {
        return Err(incomplete(path, damage));
    }
    say(&describe(path, &completion));
    Ok(exit::OK)
}

/// That there is neither a cassette nor a recording of one, and what there is.
fn no_recording(path: &Path, error: Error) -> Error {
    if !path.is_dir() {
        return error;
    }
    let name = path.file_name().and_then(|name| name.to_str());
    let what = match name.and_then(|name| name.strip_suffix(".partial")).filter(|name| !name.is_empty()) {
        Some(cassette) => format!(
            "is the folder that a recording is made in; expected the name of the cassette, {}",
            path.with_file_name(cassette).display()
        ),
        None => {
            "is a folder; expected a cassette, or the folder CASSETTE.partial.N of an interrupted recording"
                .to_owned()
        }
    };
    Error::input(path, "", what)
}

/// Makes the cassette `target` out of a folder that was moved out of the way.
fn recover_folder(folder: &Path, target: &Path) -> Result<u8> {
    if target.exists() {
        return Err(Error::Usage(format!(
            "{} is there already; say with -o where the cassette of {} is to go",
            target.display(),
            folder.display()
        )));
    }
    let (recovered, damage) = set_aside::read(folder)?;
    let damage = (!damage.is_empty()).then(|| Damage { what: damage, folder: folder.to_owned() });
    if recovered.records.is_empty() {
        let what = damage.map_or_else(|| "nothing had been recorded".to_owned(), |damage| damage.words());
        return Err(Error::Failed(format!("{}: {what}", folder.display())));
    }
    for warning in &recovered.warnings {
        say(&format!("warning: {warning}"));
    }
    merge::write(target, &recovered)?;
    if let Some(damage) = damage {
        say(&format!("warning: {}", damage.words()));
        return Err(incomplete(target, &damage));
    }
    set_aside::remove(folder)?;
    say(&format!("{} is complete", target.display()));
    Ok(exit::OK)
}

/// That a cassette is all that could be read of a recording.
#[must_use]
pub fn incomplete(path: &Path, damage: &Damage) -> Error {
    let has =
        if path.exists() { "holds what could be read" } else { "could not be made: nothing could be read" };
    Error::Failed(format!("{} {has}; the rest is in {}", path.display(), damage.folder.display()))
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
