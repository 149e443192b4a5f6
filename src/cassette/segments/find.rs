//! Where a cassette is, for those who only read. They take no lock and are never blocked.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::SegmentInfo;
use super::folder::{self, Found};
use super::session::{Session, Stage};
use crate::error::{Error, Result};

/// More links than any sensible path has; a bound, so that a loop of links ends.
const MAX_LINKS: usize = 40;

/// How often a folder is looked at again that changes while it is read.
const TRIES: usize = 5;

/// What there is of a cassette.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CassetteOnDisk {
    /// The file; a recording that may be under way does not count yet.
    Document(PathBuf),
    /// A recording that is over but not merged yet. A reader that finds a segment gone has to look again: somebody
    /// has merged them meanwhile.
    Segments {
        /// In order of start; those with `killed` deserve a warning.
        segments: Vec<SegmentInfo>,
        /// The cassette that comes before them, if they continue one.
        onto: Option<PathBuf>,
    },
    /// The first recording is under way.
    Recording {
        /// The processes that record.
        pids: Vec<u32>,
        /// Their owner, in words.
        owner: String,
    },
    /// There is no cassette, but folders of interrupted recordings that one can be made of.
    Interrupted {
        /// The folders.
        folders: Vec<PathBuf>,
    },
    /// There is nothing.
    Absent,
}

/// Looks for the cassette at `path`.
pub fn find(path: &Path) -> Result<CassetteOnDisk> {
    let cassette = resolve(path);
    let mut tries = 0;
    loop {
        match look(&cassette) {
            // The folder changed while we read it.
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound && tries < TRIES => {
                tries += 1;
            }
            // Another user records, or did: that does not stand in the way of reading the cassette.
            Err(Error::Io { source, .. })
                if source.kind() == ErrorKind::PermissionDenied && cassette.exists() =>
            {
                return Ok(CassetteOnDisk::Document(cassette));
            }
            found => return found,
        }
    }
}

fn look(cassette: &Path) -> Result<CassetteOnDisk> {
    let without_recording = |interrupted: Option<PathBuf>| {
        let folders: Vec<PathBuf> =
            interrupted.into_iter().chain(folder::set_aside_folders(cassette)).collect();
        if cassette.exists() {
            CassetteOnDisk::Document(cassette.to_path_buf())
        } else if folders.is_empty() {
            CassetteOnDisk::Absent
        } else {
            CassetteOnDisk::Interrupted { folders }
        }
    };
    let folder = folder::partial(cassette);
    if !folder.is_dir() {
        return Ok(without_recording(None));
    }
    let session = Session::peek(&folder)?;
    if session.is_merged(cassette) {
        return Ok(without_recording(None));
    }
    let replaces = cassette.exists() && !session.continues;
    Ok(match folder::assess(&folder, session.owner_alive() || session.appends, None, replaces)? {
        Found::Recording(pids) if !cassette.exists() => {
            CassetteOnDisk::Recording { pids, owner: session.who() }
        }
        Found::Mergeable(mut segments) if !(session.stage == Stage::OnlyProbes && cassette.exists()) => {
            folder::guess_heads(&mut segments, &session.conns);
            let onto = (session.continues && cassette.exists()).then(|| cassette.to_path_buf());
            CassetteOnDisk::Segments { segments, onto }
        }
        Found::Interrupted => without_recording(Some(folder)),
        Found::Empty | Found::Recording(_) | Found::Mergeable(_) => without_recording(None),
    })
}

/// The segments in a recording folder, one that was set aside too, in order of start.
pub fn segments_in(folder: &Path) -> Result<Vec<SegmentInfo>> {
    folder::segments(folder)
}

/// The absolute path of a cassette, links followed, whether it is there or not: all names of one file lead to one
/// recording.
#[must_use]
pub fn resolve(path: &Path) -> PathBuf {
    let mut path = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    for _ in 0..MAX_LINKS {
        let Ok(target) = std::fs::read_link(&path) else { break };
        path = path.parent().map_or_else(|| target.clone(), |folder| folder.join(&target));
    }
    match (path.parent().map(Path::canonicalize), path.file_name()) {
        (Some(Ok(folder)), Some(name)) => folder.join(name),
        _ => path,
    }
}
