//! `session.json`: what the recorders of one recording share. It is the file they lock to join, leave and merge, so
//! it is written in place and never renamed; what is unreadable in it is rebuilt from the heads of the segments.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::folder::{self, Found};
use crate::cassette::lock;
use crate::cassette::owner::Owner;
use crate::cassette::owner::system::{self, FileId};
use crate::error::{Error, Result};

pub(super) const FILE: &str = "session.json";
pub(super) const TEMP_DOCUMENT: &str = "document.tmp";
/// What a folder that is kept because of damage says about it.
pub(super) const NOTE: &str = "damaged.txt";
pub(super) const IGNORE: &str = ".gitignore";
/// How the name of a segment begins that is not locked yet.
pub(super) const UNBORN: &str = ".new-";

/// The content of `session.json`.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Session {
    /// The owner in its text form; empty in a session that nobody has begun.
    pub(super) owner: String,
    /// Whether the segments go on a cassette that this owner made before, rather than replace what is there.
    pub(super) continues: bool,
    /// Whether they only add to the cassette that is there, whoever made it.
    pub(super) appends: bool,
    /// The number of segments begun so far, those included that are gone.
    pub(super) begun: u32,
    /// The next `conn` of each server.
    pub(super) conns: BTreeMap<String, u32>,
    /// Whether `mcpreel end` came by: nobody joins any more.
    pub(super) ended: bool,
    /// Whether it waits for those that still record. Recorders without a client of their own end by that.
    pub(super) ending: bool,
    /// How far the segments have come on the way to a cassette.
    pub(super) stage: Stage,
    /// Whether some of the segments could not be read, so that they must not be removed.
    pub(super) damaged: bool,
    /// The file that was about to be renamed to the cassette. If it is there, the merge is done.
    pub(super) committing: Option<FileId>,
}

/// How far the segments of a session have come.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Stage {
    /// Recorders may join.
    #[default]
    Open,
    /// They were found to hold only probes, which replace no cassette, and wait for further recorders.
    OnlyProbes,
    /// The cassette is made of them; only the folder is left to be removed.
    Merged,
}

impl Session {
    pub(super) fn is_new(&self) -> bool {
        self.owner.is_empty()
    }

    /// Whether a recorder of `owner` belongs here.
    pub(super) fn is_of(&self, owner: &Owner) -> bool {
        !self.ended && self.owner == owner.to_string()
    }

    /// Whether the cassette was made of these segments already.
    pub(super) fn is_merged(&self, cassette: &Path) -> bool {
        self.stage == Stage::Merged || self.committing.is_some_and(|file| FileId::at(cassette) == Some(file))
    }

    pub(super) fn owner_alive(&self) -> bool {
        !self.ended && folder::is_alive(&self.owner)
    }

    /// The owner in words.
    pub(super) fn who(&self) -> String {
        Owner::parse(&self.owner).map_or_else(|| "unknown".to_owned(), |owner| owner.who())
    }

    /// Reads the line of a session file, or what the heads of the segments say where it is unreadable.
    fn of_line(line: &str, folder: &Path) -> Result<Self> {
        if let Ok(session) = serde_json::from_str(line) {
            return Ok(session);
        }
        let mut session = Self::default();
        for segment in folder::segments(folder)? {
            session.begun = session.begun.max(segment.number);
            let Some(head) = folder::head(&segment.path) else { continue };
            session.owner = head.owner;
            session.continues |= head.continues;
            session.appends |= head.appends;
            let next = session.conns.entry(head.server).or_default();
            *next = (*next).max(head.conn.saturating_add(1));
        }
        // Segments whose heads were never written: somebody's, but nobody's that could be named.
        if session.begun > 0 && session.owner.is_empty() {
            "lost".clone_into(&mut session.owner);
        }
        Ok(session)
    }

    /// Reads the session of a folder without its lock, as readers do.
    pub(super) fn peek(folder: &Path) -> Result<Self> {
        let path = folder.join(FILE);
        let line = match File::open(&path) {
            Ok(file) => lock::read_line(&file).map_err(Error::io("read", &path))?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            Err(error) => return Err(Error::io("read", &path)(error)),
        };
        Self::of_line(&line, folder)
    }
}

/// A recording folder whose session file this process has locked; dropping it unlocks.
#[derive(Debug)]
pub(super) struct Locked {
    pub(super) folder: PathBuf,
    pub(super) session: Session,
    file: File,
}

impl Locked {
    /// Locks the recording folder of a cassette, which is created if need be.
    pub(super) fn create(cassette: &Path) -> Result<Self> {
        let folder = folder::partial(cassette);
        let making = "make the recording folder";
        // The first cassette of a project makes the folder for all of them.
        if let Some(parent) = cassette.parent() {
            fs::create_dir_all(parent).map_err(Error::io("make the cassette's folder", parent))?;
        }
        loop {
            system::create_private_folder(&folder).map_err(Error::io(making, &folder))?;
            let Some(locked) = Self::existing(cassette)? else {
                // Whoever held the lock before may have removed the folder. A link that leads nowhere is another case.
                if folder.is_symlink() {
                    return Err(Error::io(making, &folder)(io::Error::other("a link is in its place")));
                }
                continue;
            };
            let ignore = folder.join(IGNORE);
            if !ignore.exists() {
                fs::write(&ignore, "*\n").map_err(Error::io("write", &ignore))?;
            }
            return Ok(locked);
        }
    }

    /// Locks the recording folder of a cassette if there is one.
    pub(super) fn existing(cassette: &Path) -> Result<Option<Self>> {
        let folder = folder::partial(cassette);
        let path = folder.join(FILE);
        let file = match lock::open_locked(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(Error::io("lock", &path)(error)),
        };
        let line = lock::read_line(&file).map_err(Error::io("read", &path))?;
        let session = Session::of_line(&line, &folder)?;
        Ok(Some(Self { folder, session, file }))
    }

    pub(super) fn path(&self) -> PathBuf {
        self.folder.join(FILE)
    }

    pub(super) fn save(&self) -> Result<()> {
        self.write(&self.session)
    }

    /// Notes which file is about to become the cassette, on the disk before that happens.
    pub(super) fn save_committing(&self, file: FileId, damaged: bool) -> Result<()> {
        self.write(&Session { committing: Some(file), damaged, ..self.session.clone() })?;
        self.file.sync_data().map_err(Error::io("write", self.path()))
    }

    fn write(&self, session: &Session) -> Result<()> {
        let written = serde_json::to_string(session).map_err(io::Error::from);
        written.and_then(|line| lock::write_line(&self.file, &line)).map_err(Error::io("write", self.path()))
    }

    /// What the segments amount to; `own` is the one this process has done with.
    pub(super) fn assess(&self, own: Option<&Path>, cassette: &Path) -> Result<Found> {
        let replaces = cassette.exists() && !self.session.continues;
        let good_enough = self.session.owner_alive() || self.session.appends;
        folder::assess(&self.folder, good_enough, own, replaces)
    }

    /// Whether nobody records any more, and the cassette that is yet to be made would be, in part, of killed processes.
    /// What was found to be only probes is worth no cassette.
    pub(super) fn holds_killed(&self, cassette: &Path) -> Result<bool> {
        if self.session.is_merged(cassette) || self.session.stage == Stage::OnlyProbes {
            return Ok(false);
        }
        Ok(match self.assess(None, cassette)? {
            Found::Mergeable(segments) => segments.iter().any(|segment| segment.killed),
            Found::Empty | Found::Recording(_) | Found::Interrupted => false,
        })
    }

    /// Removes the folder with all that is ours in it. The session file goes last: until then nobody else gets in.
    pub(super) fn remove(self) -> Result<()> {
        let removing = "remove the recording folder";
        for segment in folder::segments(&self.folder)? {
            fs::remove_file(&segment.path).map_err(Error::io(removing, &segment.path))?;
        }
        for entry in fs::read_dir(&self.folder).map_err(Error::io(removing, &self.folder))?.flatten() {
            let name = entry.file_name();
            if name == TEMP_DOCUMENT || name == IGNORE || name.to_string_lossy().starts_with(UNBORN) {
                fs::remove_file(entry.path()).map_err(Error::io(removing, &entry.path()))?;
            }
        }
        fs::remove_file(self.path()).map_err(Error::io(removing, &self.path()))?;
        match fs::remove_dir(&self.folder) {
            // Somebody begins the next recording in it already, or keeps files of their own there.
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other.map_err(Error::io(removing, &self.folder)),
        }
    }

    /// Moves a folder out of the way that could not be read as a whole, with a note in it that says so.
    pub(super) fn keep_damaged(self, cassette: &Path, what: &[String]) -> Result<PathBuf> {
        let folder = self.set_aside(cassette)?;
        let note = folder.join(NOTE);
        let text = format!(
            "What could be read of this recording is in the cassette; this could not:\n{}\n",
            what.join("\n")
        );
        fs::write(&note, text).map_err(Error::io("write", &note))?;
        Ok(folder)
    }

    /// Moves the folder out of the way, to the next free `<cassette>.partial.N`, and returns where it is now.
    /// Without its session file: recorders that still write into it see that they lost the recording.
    pub(super) fn set_aside(self, cassette: &Path) -> Result<PathBuf> {
        let moving = "set aside the recording folder";
        let mut number = 1;
        while fs::symlink_metadata(folder::aside(cassette, number)).is_ok() {
            number += 1;
        }
        let target = folder::aside(cassette, number);
        fs::rename(&self.folder, &target).map_err(Error::io(moving, &self.folder))?;
        let session = target.join(FILE);
        fs::remove_file(&session).map_err(Error::io(moving, &session))?;
        Ok(target)
    }
}
