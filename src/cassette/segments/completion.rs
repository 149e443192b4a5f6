//! What became of a recording.

use std::path::PathBuf;

use super::{Merged, SegmentInfo};

/// How far a recording has come, after somebody left it or came by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Completion {
    /// There is no recording.
    Absent,
    /// Others still record; the last of them makes the cassette.
    Recording {
        /// The processes that hold segments.
        pids: Vec<u32>,
        /// Their owner, in words.
        owner: String,
    },
    /// The cassette was made. Segments with `killed` deserve a warning.
    Merged {
        /// What it was made of.
        segments: Vec<SegmentInfo>,
        /// What came of it.
        outcome: Merged,
        /// What could not be read of them.
        damage: Option<Damage>,
        /// What could not be remembered, for `-v`.
        note: Option<String>,
    },
    /// The cassette had been made before; what was left of the recording was removed.
    AlreadyMerged,
    /// Nobody recorded anything; the folder was removed.
    Empty,
    /// Only probes were recorded so far. They wait for further recorders of their owner.
    OnlyProbes,
    /// All recorders were killed and their owner is gone, or some were and the cassette is about to be replaced: the
    /// next recorder sets the folder aside.
    Interrupted {
        /// The folder.
        folder: PathBuf,
    },
    /// The recording was taken over by somebody else, or its folder was removed, while we recorded.
    Lost {
        /// How, in words.
        what: String,
    },
}

/// What could not be read of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damage {
    /// In words, one for each segment.
    pub what: Vec<String>,
    /// Where the damaged recording is kept.
    pub folder: PathBuf,
}

impl Damage {
    /// For people.
    #[must_use]
    pub fn words(&self) -> String {
        format!("{}; the damaged recording is kept in {}", self.what.join("; "), self.folder.display())
    }
}

impl Completion {
    /// What could not be read, if anything.
    #[must_use]
    pub fn damage(&self) -> Option<&Damage> {
        match self {
            Self::Merged { damage, .. } => damage.as_ref(),
            _ => None,
        }
    }

    /// What people should know of it, if anything.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        self.warning_besides(0)
    }

    /// The same without what is said of one process, which has told of its end itself.
    #[must_use]
    pub fn warning_besides(&self, pid: u32) -> Option<String> {
        match self {
            Self::Merged { segments, damage, .. } => {
                let killed = segments.iter().filter(|segment| segment.killed && segment.pid != pid);
                let killed: Vec<u32> = killed.map(|segment| segment.pid).collect();
                let killed = (!killed.is_empty()).then(|| {
                    format!(
                        "{} was killed while recording; its last moments may be missing",
                        process_list(&killed)
                    )
                });
                let said: Vec<String> =
                    killed.into_iter().chain(damage.as_ref().map(Damage::words)).collect();
                (!said.is_empty()).then(|| said.join("; "))
            }
            Self::Interrupted { folder } => {
                Some(format!("the recording in {} was interrupted; see `mcpreel recover`", folder.display()))
            }
            Self::Lost { what } => Some(what.clone()),
            _ => None,
        }
    }
}

pub(super) fn process_list(pids: &[u32]) -> String {
    let numbers: Vec<String> = pids.iter().map(u32::to_string).collect();
    format!("process {}", numbers.join(", "))
}
