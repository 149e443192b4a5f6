//! What one user's mcpreel processes remember of each other between two recorders or two replays: which owner made a
//! cassette, how many replay sessions an owner has started, and what its replays have left unused ([`uses`]).
//!
//! It is kept outside the project, in a folder of the user ([`system::state_folder`]), one small file per cassette
//! named after a hash of the cassette's absolute path. Each file is locked while it is read and changed, and is
//! removed when nothing in it holds any more. Losing it does no harm: a session that was to be continued is replayed
//! instead, and counting starts at 0.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::lock;
use super::owner::Owner;
use super::owner::system::{self, FileId};

pub mod uses;

/// How many names are tried for a cassette whose hash is that of another one.
const NAMES: u32 = 8;

/// The state folder of a user.
#[derive(Debug, Clone)]
pub struct State {
    folder: PathBuf,
}

/// Where a new replay session stands among those of its owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ordinal {
    /// From 0, per owner, server and era.
    pub number: u32,
    /// Why it is 0 although there may have been earlier ones; for `-v`.
    pub note: Option<String>,
}

/// One cassette's file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Entry {
    /// The absolute path, since two paths may have one hash.
    cassette: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made: Option<Made>,
    /// The named session whose recorders alone may record for now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    claim: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    replays: Vec<Count>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    uses: Vec<uses::Uses>,
}

/// Who made the cassette, and which file that was: one that was put in its place since belongs to nobody.
#[derive(Debug, Serialize, Deserialize)]
struct Made {
    owner: String,
    file: FileId,
}

#[derive(Debug, Serialize, Deserialize)]
struct Count {
    owner: String,
    server: String,
    era: String,
    started: u32,
}

impl State {
    /// The state of the user who runs this process.
    #[must_use]
    pub fn of_user() -> Self {
        Self { folder: system::state_folder() }
    }

    /// State in a folder of one's own, as tests use it.
    #[must_use]
    pub fn in_folder(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Counts a replay session that begins, of `server` in `era` (`legacy` or `modern`). `cassette` is resolved, as
    /// by [`resolve`](super::segments::resolve).
    #[must_use]
    pub fn next_session(&self, cassette: &Path, server: &str, owner: &Owner, era: &str) -> Ordinal {
        let owner = owner.to_string();
        let counted = self.change(cassette, |entry| {
            let known =
                entry.replays.iter_mut().find(|c| c.owner == owner && c.server == server && c.era == era);
            if let Some(count) = known {
                let number = count.started;
                count.started = number.saturating_add(1);
                return number;
            }
            entry.replays.push(Count {
                owner: owner.clone(),
                server: server.into(),
                era: era.into(),
                started: 1,
            });
            0
        });
        match counted {
            Ok(number) => Ordinal { number, note: None },
            Err(error) => Ordinal { number: 0, note: Some(self.note(&error)) },
        }
    }

    /// The owner that made the cassette as it is now on disk, if it is still alive.
    #[must_use]
    pub fn maker(&self, cassette: &Path) -> Option<Owner> {
        // Looking must not leave files behind.
        if !self.folder.is_dir() {
            return None;
        }
        self.change(cassette, |entry| entry.made.as_ref().and_then(|made| Owner::parse(&made.owner))).ok()?
    }

    /// Remembers that `owner` made the cassette that is on disk now. Returns a note if that is not possible.
    #[must_use]
    pub fn set_maker(&self, cassette: &Path, owner: &Owner) -> Option<String> {
        let file = FileId::at(cassette)?;
        let made = Made { owner: owner.to_string(), file };
        self.change(cassette, |entry| entry.made = Some(made)).err().map(|error| self.note(&error))
    }

    /// Claims the recording of a cassette for `owner`, or gives the living owner that has it.
    pub fn claim(&self, cassette: &Path, owner: &Owner) -> io::Result<Option<Owner>> {
        self.change(cassette, |entry| {
            let holder = entry.claim.as_deref().and_then(Owner::parse).filter(|holder| holder != owner);
            if holder.is_none() {
                entry.claim = Some(owner.to_string());
            }
            holder
        })
    }

    /// Gives up a claim of `owner`.
    pub fn unclaim(&self, cassette: &Path, owner: &Owner) -> io::Result<()> {
        self.change(cassette, |entry| {
            entry.claim.take_if(|claim| *claim == owner.to_string());
        })
    }

    /// Forgets a named session (`ID` or `ID@PID`) at this cassette. Returns whether anything was known of it.
    #[must_use]
    pub fn end_session(&self, cassette: &Path, session: &str) -> bool {
        let named = |owner: &str| Owner::parse(owner).is_some_and(|owner| owner.is_session(session));
        if !self.folder.is_dir() {
            return false;
        }
        let ended = self.change(cassette, |entry| {
            let made = entry.made.take_if(|made| named(&made.owner)).is_some();
            let claimed = entry.claim.take_if(|claim| named(claim)).is_some();
            let before = entry.replays.len() + entry.uses.len();
            entry.replays.retain(|count| !named(&count.owner));
            entry.uses.retain(|uses| !named(&uses.owner));
            made || claimed || entry.replays.len() + entry.uses.len() < before
        });
        ended.unwrap_or(false)
    }

    fn note(&self, error: &io::Error) -> String {
        let (folder, why) = (self.folder.display(), crate::error::words(error));
        format!("sessions are not counted, and none can be continued: {folder}: {why}")
    }

    /// Reads a cassette's file under its lock, drops what holds no more, lets `edit` change it, and writes it back.
    fn change<T>(&self, cassette: &Path, edit: impl FnOnce(&mut Entry) -> T) -> io::Result<T> {
        system::create_private_folder(&self.folder)?;
        system::check_private_folder(&self.folder)?;
        let name = cassette.to_string_lossy();
        let hash = system::hash(cassette.as_os_str().as_encoded_bytes());
        for nth in 0..NAMES {
            let path = self.folder.join(format!("{hash:016x}-{nth}.json"));
            let file = lock::open_locked(&path)?;
            // A file that was cut short by a crash counts as empty.
            let line = lock::read_line(&file)?;
            let mut entry: Entry = serde_json::from_str(&line).unwrap_or_default();
            if !entry.cassette.is_empty() && entry.cassette != name {
                continue;
            }
            entry.cassette = name.into_owned();
            entry.drop_stale(cassette);
            let answer = edit(&mut entry);
            if entry.made.is_none()
                && entry.claim.is_none()
                && entry.replays.is_empty()
                && entry.uses.is_empty()
            {
                fs::remove_file(&path)?;
            } else {
                let text = serde_json::to_string(&entry)?;
                if text != line {
                    lock::write_line(&file, &text)?;
                }
            }
            return Ok(answer);
        }
        Err(io::Error::other("too many cassettes with one hash"))
    }
}

impl Entry {
    fn drop_stale(&mut self, cassette: &Path) {
        let alive = |owner: &str| Owner::parse(owner).is_some_and(|owner| owner.is_alive());
        self.replays.retain(|count| alive(&count.owner));
        self.uses.retain(|uses| alive(&uses.owner));
        self.uses.iter_mut().for_each(|uses| uses.playing.retain(|process| alive(process)));
        self.claim.take_if(|claim| !alive(claim));
        self.made.take_if(|made| !alive(&made.owner) || FileId::at(cassette) != Some(made.file));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cassette::segments::support::Folder;

    fn own() -> Owner {
        Owner::find(None, &[])
    }

    #[test]
    fn sessions_are_counted_per_owner_server_and_era() {
        let folder = Folder::new("state-count");
        let state = folder.state();
        let (cassette, other) = (folder.path("c.json"), folder.path("d.json"));
        let (ci, dev) = (Owner::session("ci"), Owner::session("dev"));
        let rows = [
            (&cassette, "files", &ci, "legacy", 0),
            (&cassette, "files", &ci, "legacy", 1),
            (&cassette, "files", &ci, "modern", 0),
            (&cassette, "mail", &ci, "legacy", 0),
            (&cassette, "files", &dev, "legacy", 0),
            (&other, "files", &ci, "legacy", 0),
            (&cassette, "files", &ci, "legacy", 2),
        ];
        for (at, (cassette, server, owner, era, number)) in rows.into_iter().enumerate() {
            assert_eq!(
                state.next_session(cassette, server, owner, era),
                Ordinal { number, note: None },
                "row {at}"
            );
        }
    }

    #[test]
    fn counting_at_once_gives_each_its_own_number() {
        let folder = Folder::new("state-threads");
        let cassette = folder.path("c.json");
        let mut numbers: Vec<u32> = std::thread::scope(|scope| {
            let count =
                || folder.state().next_session(&cassette, "s", &Owner::session("ci"), "legacy").number;
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(count)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        numbers.sort_unstable();
        assert_eq!(numbers, (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn what_dead_owners_left_is_dropped() {
        let folder = Folder::new("state-dead");
        let state = folder.state();
        let cassette = folder.path("c.json");
        let dead = Owner::Process { pid: std::process::id(), start_time: 1 };
        assert_eq!(state.next_session(&cassette, "s", &dead, "legacy").number, 0);
        assert_eq!(state.next_session(&cassette, "s", &dead, "legacy").number, 0, "dropped when seen");
        assert_eq!(state.maker(&cassette), None);
        assert_eq!(fs::read_dir(&state.folder).unwrap().count(), 0, "nothing is left, not even the file");
    }

    #[test]
    fn the_maker_is_that_of_the_file_on_disk() {
        let folder = Folder::new("state-maker");
        let state = folder.state();
        let cassette = folder.path("c.json");
        assert_eq!(state.maker(&cassette), None);
        assert!(!state.folder.exists(), "looking leaves nothing behind");
        fs::write(&cassette, "one").unwrap();
        assert_eq!(state.set_maker(&cassette, &own()), None);
        assert_eq!(state.maker(&cassette), Some(own()));
        fs::write(&cassette, "another").unwrap();
        assert_eq!(state.maker(&cassette), None);
    }

    #[test]
    fn ending_a_session_forgets_it() {
        let folder = Folder::new("state-end");
        let state = folder.state();
        let cassette = folder.path("c.json");
        assert!(!state.end_session(&cassette, "ci"));
        fs::write(&cassette, "one").unwrap();
        assert_eq!(state.set_maker(&cassette, &Owner::session("ci")), None);
        assert!(!state.end_session(&cassette, "dev"));
        assert!(state.end_session(&cassette, "ci"));
        assert!(!state.end_session(&cassette, "ci"));
        assert_eq!(state.maker(&cassette), None);
    }

    #[test]
    fn a_claim_is_of_one_living_session_until_that_ends() {
        let folder = Folder::new("state-claim");
        let state = folder.state();
        let cassette = folder.path("c.json");
        let (ci, dev) = (Owner::session("ci"), Owner::session("dev"));
        let dead = Owner::Process { pid: std::process::id(), start_time: 1 };
        let claim = |owner: &Owner| state.claim(&cassette, owner).unwrap();
        assert_eq!(claim(&dead), None);
        assert_eq!(claim(&ci), None, "that of a dead one is dropped");
        assert_eq!(claim(&ci), None);
        assert_eq!(claim(&dev), Some(ci.clone()));
        state.unclaim(&cassette, &dev).unwrap();
        assert_eq!(claim(&dev), Some(ci.clone()), "only its own is given up");
        assert!(state.end_session(&cassette, "ci"));
        assert_eq!(claim(&dev), None);
        state.unclaim(&cassette, &dev).unwrap();
        assert_eq!(fs::read_dir(&state.folder).unwrap().count(), 0);
    }

    #[test]
    fn a_torn_file_counts_as_empty() {
        let folder = Folder::new("state-torn");
        let state = folder.state();
        let cassette = folder.path("c.json");
        let ci = Owner::session("ci");
        assert_eq!(state.next_session(&cassette, "s", &ci, "legacy").number, 0);
        let file = fs::read_dir(&state.folder).unwrap().next().unwrap().unwrap().path();
        fs::write(&file, "{\"cass").unwrap();
        assert_eq!(state.next_session(&cassette, "s", &ci, "legacy").number, 0);
        let other = Entry { cassette: "/elsewhere".into(), ..Entry::default() };
        fs::write(&file, format!("{}\n", serde_json::to_string(&other).unwrap())).unwrap();
        assert_eq!(
            state.next_session(&cassette, "s", &ci, "legacy").number,
            0,
            "another cassette's is left alone"
        );
        assert_eq!(state.next_session(&cassette, "s", &ci, "legacy").number, 1);
        assert_eq!(fs::read_dir(&state.folder).unwrap().count(), 2);
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_that_is_not_ours_is_refused_with_a_note() {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        let folder = Folder::new("state-refuse");
        let cassette = folder.path("c.json");
        fs::create_dir(folder.path("real")).unwrap();
        std::os::unix::fs::symlink(folder.path("real"), folder.path("state")).unwrap();
        let ordinal = folder.state().next_session(&cassette, "s", &own(), "legacy");
        assert_eq!(ordinal.number, 0);
        assert!(ordinal.note.unwrap().contains("it is not a folder"));

        let wide = State::in_folder(folder.path("wide"));
        fs::create_dir(&wide.folder).unwrap();
        fs::set_permissions(&wide.folder, fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(wide.next_session(&cassette, "s", &own(), "legacy").note, None);
        assert_eq!(fs::metadata(&wide.folder).unwrap().mode() & 0o777, 0o700);
    }
}
