//! `--require-all-used`: whether every recorded tool call was asked for, by all processes of a session together.

use std::path::PathBuf;

use super::options::{Replay, Voice};
use super::say;
use crate::cassette::owner::Owner;
use crate::cassette::segments::resolve;
use crate::cassette::state::State;
use crate::cassette::state::uses::{Left, Together};
use crate::jsonrpc::string;
use crate::replay::player::Player;
use crate::replay::report::Report;

/// A replay that is under way and will have to have used everything.
#[derive(Debug)]
pub struct Uses {
    cassette: PathBuf,
    owner: Owner,
    /// What tells this recording from another under its name.
    tape: String,
    process: Owner,
}

impl Uses {
    /// Enters a replay that is to use everything; `None` when it need not.
    #[must_use]
    pub fn begin(replay: &Replay<'_>, player: &Player) -> Option<Self> {
        if !replay.matching.require_all_used {
            return None;
        }
        let recorded = player.report("");
        let uses = Self {
            cassette: resolve(replay.path),
            owner: replay.owner.clone(),
            tape: format!("{} {}", recorded.recorded_at, recorded.unused.len()),
            process: Owner::this_process(),
        };
        if let Some(note) = State::of_user().begin_use(&uses.together(player.server()), &uses.process) {
            replay.voice.detail(&note);
        }
        Some(uses)
    }

    fn together<'a>(&'a self, server: &'a str) -> Together<'a> {
        Together { cassette: &self.cassette, server, owner: &self.owner, tape: &self.tape }
    }

    /// Whether all is well, as far as this process is the one to say so. Names what is not used.
    #[must_use]
    pub fn are_met(&self, report: &Report, voice: Voice) -> bool {
        let calls = || report.unused.iter().filter(|(_, method, _)| method == "tools/call");
        let unused: Vec<u32> = calls().map(|(message, ..)| *message).collect();
        match State::of_user().end_use(&self.together(&report.server), &self.process, &unused) {
            Left::ToOthers(others) => {
                let (processes, still) =
                    if others == 1 { ("process", "plays") } else { ("processes", "play") };
                if !unused.is_empty() {
                    voice.note(&format!(
                        "{others} other {processes} of {} still {still}: the last one decides about --require-all-used",
                        self.owner.who()
                    ));
                }
                true
            }
            Left::Unused(unused) => {
                for (message, method, name) in calls().filter(|(message, ..)| unused.contains(message)) {
                    let name = string::encode(name.as_deref().unwrap_or(""));
                    say(&format!("message {message}, {method} {name}, was not used"));
                }
                unused.is_empty()
            }
        }
    }
}
