//! What `use`, `run`, the library and the helpers share: which mode holds, and whether that means to record or to
//! replay.
//!
//! | mode | cassette | no other recorder | recorders of my owner | another owner records |
//! |---|---|---|---|---|
//! | `once` | absent, or only probes | record | record, as a further connection | wait, then replay, or exit 6 |
//! | `once` | present | replay | record on if this owner made it, else replay | replay what is there |
//! | `none` | any | replay, or exit 2 | replay | replay |
//! | `all` | any | record anew | record, as a further connection | exit 6 |
//! | `new_episodes` | absent | record | record, as a further connection | exit 6 |
//! | `new_episodes` | present | replay, and append what is new | the same, as a further connection | exit 6 |
//!
//! Where its owner is recording anew, `new_episodes` records too: what is there is about to be replaced.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cassette::owner::system::System;
use crate::cassette::owner::{MAX_ANCESTORS, Owner, Processes};
use crate::cassette::segments::{
    Begun, CassetteOnDisk, Completion, Documents, Join, Joined, Policy, Recording, SegmentInfo, find,
};
use crate::cassette::state::State;
use crate::error::{Error, Result};

pub mod config;
pub mod episodes;
#[cfg(test)]
mod tests;

/// The variables that rule the mode of every door. The second one only counts when the first is unset.
const MODE_VARIABLES: [&str; 2] = ["MCPREEL_MODE", "MCP_CASSETTE_MODE"];

/// How long `once` waits for the recording of another owner. Clients give a server that they probe 10 s.
pub const ONCE_WAIT: Duration = Duration::from_secs(5);

/// How long a session that begins waits for the recording of another owner, by default.
pub const BEGIN_WAIT: Duration = Duration::from_secs(30);

/// How long [`end`] waits for recorders that are about to leave.
pub const END_WAIT: Duration = Duration::from_secs(5);

/// What to do about a cassette.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Record if there is no cassette, else replay it.
    Once,
    /// Replay, or fail before anything starts.
    None,
    /// Record anew.
    All,
    /// Replay what is there, and append what is not.
    NewEpisodes,
}

impl Mode {
    /// Every mode, in the order in which they are told.
    pub const EVERY: [Self; 4] = [Self::Once, Self::None, Self::All, Self::NewEpisodes];

    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Once => "once",
            Self::None => "none",
            Self::All => "all",
            Self::NewEpisodes => "new_episodes",
        }
    }

    fn parse(name: &str, source: &Source) -> Result<Self> {
        Self::EVERY.into_iter().find(|mode| mode.name() == name).ok_or_else(|| {
            let valid = Self::EVERY.map(Self::name).join(", ");
            Error::Usage(format!("unknown mode {name} ({source}); valid are: {valid}"))
        })
    }

    /// How long to wait for the recording of another owner where nobody said how long.
    #[must_use]
    pub fn claim_wait(self) -> Duration {
        if self == Self::Once { ONCE_WAIT } else { Duration::ZERO }
    }
}

/// Where a mode was said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// In our own environment, in this variable.
    Environment(&'static str),
    /// In the environment of one of our parents: clients give servers a stripped one.
    Parent(&'static str, u32),
    /// By the door's own setting.
    Option,
    /// In this configuration file.
    Configuration(PathBuf),
    /// Nowhere.
    Default,
}

impl fmt::Display for Source {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Environment(name) => write!(out, "{name} in the environment"),
            Self::Parent(name, pid) => write!(out, "{name} in the environment of process {pid}"),
            Self::Option => out.write_str("--mode"),
            Self::Configuration(file) => {
                out.write_str(&file.file_name().unwrap_or_default().to_string_lossy())
            }
            Self::Default => out.write_str("default"),
        }
    }
}

/// The mode that holds, and why. Displays as `mode once (default)`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chosen {
    /// The mode.
    pub mode: Mode,
    /// Where it was said.
    pub source: Source,
}

impl fmt::Display for Chosen {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "mode {} ({})", self.mode.name(), self.source)
    }
}

/// The mode that holds: that of the environment or of our parents', else `option`, else that of a configuration file,
/// else `once`.
pub fn choose_mode(option: Option<&str>, configuration: Option<(&str, &Path)>) -> Result<Chosen> {
    choose_among(&Environment::real(), option, configuration)
}

/// Refuses a bare `record` where the environment says that nothing is to be recorded.
pub fn check_may_record() -> Result<()> {
    check_may_record_among(&Environment::real())
}

/// A variable of our environment, or of the nearest parent that has it: clients give servers a stripped one. An empty
/// one counts as unset.
#[must_use]
pub fn variable(name: &str) -> Option<OsString> {
    Environment::real().variable(name).map(|(value, _)| value)
}

/// Our own variables, and the processes whose variables count too.
struct Environment<'a> {
    own: &'a dyn Fn(&str) -> Option<OsString>,
    pid: u32,
    processes: &'a dyn Processes,
}

impl Environment<'static> {
    fn real() -> Self {
        Self { own: &|name| std::env::var_os(name), pid: std::process::id(), processes: &System }
    }
}

impl Environment<'_> {
    /// What the variables say.
    fn mode(&self) -> Result<Option<Chosen>> {
        for name in MODE_VARIABLES {
            if let Some((value, parent)) = self.variable(name) {
                let source = parent.map_or(Source::Environment(name), |pid| Source::Parent(name, pid));
                return chosen(&value.to_string_lossy(), source).map(Some);
            }
        }
        Ok(None)
    }

    /// A variable, ours first, then from the nearest parent upwards, and the parent. An empty one counts as unset.
    fn variable(&self, name: &str) -> Option<(OsString, Option<u32>)> {
        if let Some(value) = (self.own)(name).filter(|value| !value.is_empty()) {
            return Some((value, None));
        }
        let mut pid = self.pid;
        for _ in 0..MAX_ANCESTORS {
            let parent = self.processes.process(pid)?.parent;
            if parent == 0 {
                return None;
            }
            if let Some(value) = self.processes.variable(parent, name).filter(|value| !value.is_empty()) {
                return Some((value, Some(parent)));
            }
            pid = parent;
        }
        None
    }
}

fn chosen(name: &str, source: Source) -> Result<Chosen> {
    Ok(Chosen { mode: Mode::parse(name.trim(), &source)?, source })
}

fn choose_among(
    environment: &Environment<'_>,
    option: Option<&str>,
    configuration: Option<(&str, &Path)>,
) -> Result<Chosen> {
    // A mistyped option is told even where the environment overrules it.
    let option = option.map(|name| chosen(name, Source::Option)).transpose()?;
    let configuration =
        configuration.map(|(name, file)| chosen(name, Source::Configuration(file.to_owned()))).transpose()?;
    let default = Chosen { mode: Mode::Once, source: Source::Default };
    Ok(environment.mode()?.or(option).or(configuration).unwrap_or(default))
}

fn check_may_record_among(environment: &Environment<'_>) -> Result<()> {
    match environment.mode()? {
        Some(chosen) if chosen.mode == Mode::None => Err(Error::Usage(format!(
            "{chosen}: nothing is to be recorded here; replay with `mcpreel use` or `mcpreel serve`, or unset the variable"
        ))),
        _ => Ok(()),
    }
}

/// What is asked when a door opens.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The mode that holds; [`Mode::All`] for `record`.
    pub mode: Mode,
    /// The cassette as the user named it.
    pub cassette: &'a Path,
    /// The server's name.
    pub server: &'a str,
    /// Who asks.
    pub owner: &'a Owner,
    /// `--force`: take over from another owner.
    pub force: bool,
    /// `--claim-wait`; by default that of the mode.
    pub claim_wait: Option<Duration>,
    /// Where sessions are remembered.
    pub state: &'a State,
    /// What is known about the content of cassettes.
    pub documents: &'a dyn Documents,
}

impl fmt::Debug for Question<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Question")
            .field("mode", &self.mode)
            .field("cassette", &self.cassette)
            .finish_non_exhaustive()
    }
}

/// What the door does.
#[derive(Debug)]
pub enum Decision {
    /// It records; the notes are in [`Joined::notes`].
    Record(Box<Joined>),
    /// It replays, and records what the live server answers behind what there is.
    Append {
        /// The place for what is new.
        joined: Box<Joined>,
        /// What is replayed.
        source: CassetteOnDisk,
    },
    /// It replays.
    Replay {
        /// What is replayed: [`CassetteOnDisk::Document`] or [`CassetteOnDisk::Segments`].
        source: CassetteOnDisk,
        /// What happened on the way that people should know.
        notes: Vec<String>,
    },
}

impl Decision {
    /// What happened on the way that people should know.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        match self {
            Self::Record(joined) | Self::Append { joined, .. } => &joined.notes,
            Self::Replay { notes, .. } => notes,
        }
    }
}

/// Decides by the table at the top of this module, and begins a segment if it comes to recording.
pub fn decide(question: &Question<'_>) -> Result<Decision> {
    let recording = Recording::of(question.cassette, question.state, question.documents);
    decide_for(question, &recording).map_err(|error| as_named(question, &recording, error))
}

/// Links and folders were resolved on the way: people get to see the name that they gave.
fn as_named(question: &Question<'_>, recording: &Recording<'_>, error: Error) -> Error {
    match error {
        Error::Input { path, place, what } if path == recording.cassette() => {
            Error::input(question.cassette, place, what)
        }
        Error::Owned { path, holder } if path == recording.cassette() => {
            Error::Owned { path: question.cassette.to_path_buf(), holder }
        }
        other => other,
    }
}

/// Begins a named session at a cassette before its first process starts: `mcpreel begin F --session ID`. Where it is to
/// record, it has the cassette for itself from now on, until it ends.
pub fn begin(question: &Question<'_>) -> Result<Begun> {
    let recording = Recording::of(question.cassette, question.state, question.documents);
    if question.mode == Mode::None {
        return replay(question, &recording, Vec::new()).map(|_| Begun::Replay);
    }
    let wait = question.claim_wait.unwrap_or(BEGIN_WAIT);
    let keep = question.mode == Mode::Once;
    // What no recorder may replace is told now. One that keeps what is there looks at it anyway.
    let looked = match find(question.cassette)? {
        CassetteOnDisk::Document(cassette) if !keep => question.documents.only_probes(&cassette).map(|_| ()),
        _ => Ok(()),
    };
    looked
        .and_then(|()| recording.claim(question.owner, keep, wait))
        .map_err(|error| as_named(question, &recording, error))
}

fn decide_for(question: &Question<'_>, recording: &Recording<'_>) -> Result<Decision> {
    if question.mode == Mode::None {
        return replay(question, recording, Vec::new());
    }
    let policy = Policy {
        keep: question.mode == Mode::Once,
        append: question.mode == Mode::NewEpisodes,
        force: question.force,
        claim_wait: question.claim_wait.unwrap_or_else(|| question.mode.claim_wait()),
    };
    match recording.join(question.owner, question.server, policy) {
        Ok(Join::Record(joined)) if joined.head.appends => {
            let source = CassetteOnDisk::Document(recording.cassette().to_path_buf());
            Ok(Decision::Append { joined, source })
        }
        Ok(Join::Record(mut joined)) => {
            if policy.keep && joined.continues {
                joined.notes.push(format!(
                    "{} made this cassette and is still there: recording goes on until it ends",
                    question.owner.who()
                ));
            }
            Ok(Decision::Record(joined))
        }
        Ok(Join::Replay) => replay(question, recording, Vec::new()),
        // Where nothing can be written, what is there can still be replayed.
        Err(error @ Error::Io { .. }) if policy.keep => {
            let replayable = match find(question.cassette)? {
                CassetteOnDisk::Document(cassette) => !question.documents.only_probes(&cassette)?,
                found => matches!(found, CassetteOnDisk::Segments { .. }),
            };
            if !replayable {
                return Err(error);
            }
            replay(question, recording, vec![format!("replaying, since recording is not possible: {error}")])
        }
        Err(error) => Err(error),
    }
}

fn replay(question: &Question<'_>, recording: &Recording<'_>, mut notes: Vec<String>) -> Result<Decision> {
    let mut source = find(question.cassette)?;
    if matches!(source, CassetteOnDisk::Segments { .. }) {
        // A finished recording is merged by whoever comes by, but it can be read as it is too.
        match recording.complete() {
            Ok(completion) => {
                notes.extend(completion.warning());
                source = find(question.cassette)?;
            }
            Err(error) => notes.push(format!("the recording is replayed unmerged: {error}")),
        }
    }
    if let CassetteOnDisk::Segments { segments, .. } = &source {
        notes.extend(killed(segments));
    }
    let missing = match &source {
        CassetteOnDisk::Document(_) | CassetteOnDisk::Segments { .. } => {
            return Ok(Decision::Replay { source, notes });
        }
        other => missing(other),
    };
    Err(Error::input(question.cassette, "", missing))
}

/// Why there is nothing to be replayed, and what to do, in words.
#[must_use]
pub fn missing(found: &CassetteOnDisk) -> String {
    match found {
        CassetteOnDisk::Recording { owner, .. } => {
            format!("no cassette yet: {owner} is recording it; wait until that has ended")
        }
        CassetteOnDisk::Interrupted { folders } => {
            let folders: Vec<String> =
                folders.iter().map(|folder: &PathBuf| folder.display().to_string()).collect();
            format!(
                "no cassette, but an interrupted recording in {}; `mcpreel recover` makes a cassette of it",
                folders.join(", ")
            )
        }
        _ => "no such cassette; record it first, with `mcpreel record` or in mode once".to_owned(),
    }
}

fn killed(segments: &[SegmentInfo]) -> Option<String> {
    let lost = segments.iter().filter(|segment| segment.killed).count();
    (lost > 0).then(|| format!("{lost} of the recorders were killed; their last moments may be missing"))
}

/// Ends a named session at a cassette and completes its recording: `mcpreel end F --session ID`.
pub fn end(cassette: &Path, session: &str, state: &State, documents: &dyn Documents) -> Result<Completion> {
    Recording::of(cassette, state, documents).end(session, END_WAIT)
}
