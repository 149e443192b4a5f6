//! Where segments and cassettes meet: what the one that knows their content is asked to do.

use std::cell::RefCell;
use std::fs::Metadata;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::cassette::owner::system::FileId;
use crate::error::Result;

/// The optional object `segment` in the head of a segment: what a lost `session.json` is rebuilt from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentHead {
    /// The owner in its text form.
    pub owner: String,
    /// The recording process.
    pub pid: u32,
    /// The server's name, as in `servers`.
    pub server: String,
    /// Which client process of that server this is, from 0.
    pub conn: u32,
    /// Whether the recording goes on a cassette that is there.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub continues: bool,
    /// Whether it does so from the live server behind a replay (mode `new_episodes`).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub appends: bool,
}

/// A segment on disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentInfo {
    /// The journal.
    pub path: PathBuf,
    /// Its number in the recording, by order of start.
    pub number: u32,
    /// The process that wrote it.
    pub pid: u32,
    /// Whether it has no end line: its process was killed.
    pub killed: bool,
    /// The server, as far as the file name and the session tell; what the head says goes before it.
    pub server: String,
    /// The client process of that server, by the order of the segments; what the head says goes before it.
    pub conn: u32,
}

/// What is known about the content of cassettes and segments, and how one becomes the other.
pub trait Documents: Sync {
    /// Whether the cassette (which exists) holds nothing but probes. It is asked before anything is recorded over
    /// it, so that a file that is no cassette ends things here, with an [`Error::Input`](crate::error::Error::Input).
    fn only_probes(&self, cassette: &Path) -> Result<bool>;

    /// The number of connections of `server` in the cassette: its highest `conn` plus one, 0 without any.
    fn conns(&self, cassette: &Path, server: &str) -> Result<u32>;

    /// Makes the cassette out of segments. It may be called again for the same segments if it failed or was killed
    /// before the rename.
    fn merge(&self, job: &MergeJob<'_>) -> Result<Merged>;
}

/// What is to be merged.
pub struct MergeJob<'a> {
    /// The file to make, with links followed.
    pub cassette: &'a Path,
    /// The segments, in order of start. Their records are to be ordered by time.
    pub segments: &'a [SegmentInfo],
    /// Whether they go on the cassette that is there (their `conn` numbers fit) rather than replace it.
    pub continues: bool,
    /// Where to write the new document: on the cassette's file system, and cleaned up after a crash.
    pub temp: &'a Path,
    pub(super) damage: &'a RefCell<Vec<String>>,
    pub(super) committing: &'a dyn Fn(FileId) -> Result<()>,
}

impl MergeJob<'_> {
    /// To be called before [`MergeJob::committing`] with what could not be read, in words: so the segments are kept.
    pub fn damaged(&self, what: Vec<String>) {
        self.damage.borrow_mut().extend(what);
    }

    /// To be called when the file that becomes the cassette is written and synced, directly before it is renamed, so
    /// that a crash between the rename and the removal of the segments does not lead to a second merge.
    pub fn committing(&self, written: &Metadata) -> Result<()> {
        (self.committing)(FileId::of(written))
    }
}

impl std::fmt::Debug for MergeJob<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("MergeJob")
            .field("cassette", &self.cassette)
            .field("segments", &self.segments)
            .finish()
    }
}

/// What a merge came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Merged {
    /// The cassette was written.
    Written,
    /// The cassette on disk says the same already and was left untouched.
    Unchanged,
    /// The segments hold only probes and there is a cassette that they must not replace.
    OnlyProbes,
    /// The segments hold nothing that a cassette could be made of.
    Nothing,
}
