//! Recording into `<cassette>.partial/`: joining, leaving, and making the cassette out of what is there.
//!
//! Every recording process writes a segment of its own, a journal, and holds a lock on it while it lives, so that the
//! kernel says who is alive. Joining, leaving and merging happen under an exclusive lock on `session.json`. The last
//! one to leave, or whoever comes later, makes the cassette:
//!
//! | segments | what happens |
//! |---|---|
//! | some locked | nothing, they still record |
//! | all unlocked, all with an end line | merge |
//! | some without end line, but the owner is alive or another one ended well | merge, those marked killed |
//! | the same, and they were added to the cassette that is there | merge: nothing is lost by that |
//! | none with end line, owner dead | the next writer moves the folder to `<cassette>.partial.1/` |
//! | some without end line, and the next writer of another owner replaces the cassette | the same |
//! | some lines cannot be read | the rest is merged, and the folder moved to `<cassette>.partial.1/` |
//!
//! Nothing here reads or writes messages: what is in a journal or a document is known to [`Documents`] only.

use std::cell::RefCell;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::lock;
use super::owner::Owner;
use super::owner::system;
use super::state::State;
use crate::error::{Error, Result};

mod begin;
mod completion;
mod documents;
mod find;
mod folder;
mod session;
pub mod set_aside;
#[cfg(test)]
pub(crate) mod support;
#[cfg(test)]
mod tests;

pub use begin::Begun;
use completion::process_list;
pub use completion::{Completion, Damage};
pub use documents::{Documents, MergeJob, Merged, SegmentHead, SegmentInfo};
pub use find::{CassetteOnDisk, find, resolve, segments_in};
use folder::Found;
use session::{Locked, Session, Stage};

/// How long to sleep before looking again whether a recording of somebody else is over, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(5);
const LONGEST_PAUSE: Duration = Duration::from_millis(100);

/// How a recorder wants to get in.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    /// Do not record over a cassette that another owner made (mode `once`).
    pub keep: bool,
    /// Go on the cassette that is there, whoever made it (mode `new_episodes`).
    pub append: bool,
    /// Take the recording over from another owner.
    pub force: bool,
    /// How long to wait for the recording of another owner to end.
    pub claim_wait: Duration,
}

/// How a recorder got in.
#[derive(Debug)]
pub enum Join {
    /// It records.
    Record(Box<Joined>),
    /// There is a cassette to be replayed instead. With [`Policy::keep`] only.
    Replay,
}

/// A place in a recording. Its segment stays locked until every clone of `file` is closed.
#[derive(Debug)]
pub struct Joined {
    /// The empty segment, opened for appending. Who writes it from another thread takes a clone and closes that
    /// before [`Recording::leave`].
    pub file: File,
    /// Where it is.
    pub path: PathBuf,
    /// Its number in the recording, from 1.
    pub number: u32,
    /// Which client process of its server this is, from 0.
    pub conn: u32,
    /// Whether the recording goes on a cassette that is there.
    pub continues: bool,
    /// What happened on the way in that people should know.
    pub notes: Vec<String>,
    /// Tells whether the recording still is this process's.
    pub claim: Claim,
    /// What the head of the segment is to say under `segment`.
    pub head: SegmentHead,
}

/// Tells a recorder whether it was taken over. Cheap to clone and to ask.
#[derive(Debug, Clone)]
pub struct Claim {
    session: Arc<File>,
    path: Arc<Path>,
    segment: Arc<Path>,
    /// The segment's length when it was last looked at.
    length: Arc<AtomicU64>,
}

impl Claim {
    /// Whether the recording is still ours, and the segment there: two system calls, meant to be asked before every
    /// batch of records.
    #[must_use]
    pub fn still_mine(&self) -> bool {
        self.owns_session() && self.segment_grows()
    }

    fn owns_session(&self) -> bool {
        system::has_a_name(&self.session, &self.path)
    }

    /// Whether nobody removed the segment or cut it short.
    fn segment_grows(&self) -> bool {
        let length = fs::metadata(&self.segment).map(|segment| segment.len());
        length.is_ok_and(|length| self.length.swap(length, Ordering::Relaxed) <= length)
    }

    /// Whether somebody ends the session and waits for its recorders.
    #[must_use]
    pub fn is_asked_to_end(&self) -> bool {
        self.owns_session()
            && self
                .path
                .parent()
                .map(Session::peek)
                .is_some_and(|session| session.is_ok_and(|session| session.ending || session.ended))
    }

    /// How it was lost, for people.
    #[must_use]
    pub fn loss(&self) -> String {
        if self.owns_session() {
            return format!("{} was removed or cut short", self.segment.display());
        }
        match self.path.parent().map(Session::peek) {
            Some(Ok(session)) if !session.is_new() => {
                format!("the recording was taken over by {}", session.who())
            }
            _ => "the recording folder was removed".to_owned(),
        }
    }
}

/// The recording of a cassette, there or not.
#[derive(Clone)]
pub struct Recording<'a> {
    cassette: PathBuf,
    state: State,
    documents: &'a dyn Documents,
}

/// What came of one try to get in.
enum Attempt {
    Done(Join),
    Again,
    Busy(String),
}

impl<'a> Recording<'a> {
    /// The recording of the cassette at `path`.
    #[must_use]
    pub fn of(path: &Path, state: &State, documents: &'a dyn Documents) -> Self {
        Self { cassette: resolve(path), state: state.clone(), documents }
    }

    /// The cassette's absolute path, with links followed.
    #[must_use]
    pub fn cassette(&self) -> &Path {
        &self.cassette
    }

    /// Begins a segment for `server`. Completes or sets aside what others left behind. [`Error::Owned`] when another
    /// owner still records after the wait.
    pub fn join(&self, owner: &Owner, server: &str, policy: Policy) -> Result<Join> {
        let deadline = Instant::now().checked_add(policy.claim_wait);
        let mut pause = FIRST_PAUSE;
        let mut notes = Vec::new();
        loop {
            match self.try_join(owner, server, policy, &mut notes)? {
                Attempt::Done(Join::Replay) => return Ok(Join::Replay),
                Attempt::Done(Join::Record(mut joined)) => {
                    joined.notes.splice(0..0, notes);
                    return Ok(Join::Record(joined));
                }
                Attempt::Again => {}
                Attempt::Busy(holder) => {
                    // A wait too long to be counted has no end.
                    let left =
                        deadline.map_or(LONGEST_PAUSE, |at| at.saturating_duration_since(Instant::now()));
                    if left.is_zero() {
                        return Err(Error::Owned { path: self.cassette.clone(), holder });
                    }
                    std::thread::sleep(pause.min(left));
                    pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    fn try_join(
        &self,
        owner: &Owner,
        server: &str,
        policy: Policy,
        notes: &mut Vec<String>,
    ) -> Result<Attempt> {
        // Replaying must work where nothing can be written, so it is decided without making a folder if possible.
        if policy.keep && !folder::partial(&self.cassette).exists() && self.is_to_be_kept(owner)? {
            return Ok(Attempt::Done(Join::Replay));
        }
        let locked = Locked::create(&self.cassette)?;
        if locked.session.is_new() {
            return self.begin(locked, owner, server, policy);
        }
        let merged = locked.session.is_merged(&self.cassette);
        if !merged && locked.session.is_of(owner) {
            return self.add(locked, owner, server, policy).map(Attempt::Done);
        }
        let who = locked.session.who();
        let replaces = !policy.keep && !policy.append;
        match self.settle_before(locked, replaces)? {
            (Completion::Recording { pids, .. }, Some(locked)) => {
                if policy.keep && self.is_to_be_kept(owner)? {
                    return Ok(Attempt::Done(Join::Replay));
                }
                let holder = format!("{who}, recorded by {}", process_list(&pids));
                if !policy.force {
                    return Ok(Attempt::Busy(holder));
                }
                let folder = locked.set_aside(&self.cassette)?;
                notes.push(format!(
                    "taken over from {holder}; what it had recorded is in {}",
                    folder.display()
                ));
            }
            (Completion::Interrupted { .. }, Some(locked)) => {
                let folder = locked.set_aside(&self.cassette)?;
                notes.push(format!(
                    "an earlier recording by {who} was interrupted; what it had recorded is in {}, and `mcpreel \
                     recover` with that folder makes a cassette of it",
                    folder.display()
                ));
            }
            (Completion::OnlyProbes, Some(locked)) => locked.remove()?,
            (completion, _) => notes.extend(completion.warning()),
        }
        Ok(Attempt::Again)
    }

    /// Whether mode `once` has to replay the cassette: it is there, it is more than probes, and somebody else made
    /// it.
    fn is_to_be_kept(&self, owner: &Owner) -> Result<bool> {
        Ok(self.cassette.exists()
            && self.state.maker(&self.cassette).as_ref() != Some(owner)
            && !self.documents.only_probes(&self.cassette)?)
    }

    /// Begins a session in a fresh folder.
    fn begin(&self, mut locked: Locked, owner: &Owner, server: &str, policy: Policy) -> Result<Attempt> {
        let there = self.cassette.exists();
        let appends = there && policy.append;
        let continues = appends || (there && self.state.maker(&self.cassette).as_ref() == Some(owner));
        let checked = match there {
            true => self.documents.only_probes(&self.cassette),
            // Links have been followed.
            false if self.cassette.is_symlink() => {
                Err(Error::input(&self.cassette, "", "is a link that leads back to itself; remove it"))
            }
            false => Ok(true),
        };
        let keep = policy.keep && !continues;
        match checked {
            Ok(only_probes) if only_probes || !keep => {
                locked.session.owner = owner.to_string();
                locked.session.continues = continues;
                locked.session.appends = appends;
                let added = self.add(locked, owner, server, policy);
                if added.is_err() {
                    // The folder that was made for it must not stay; why it stays if it does is no news.
                    let _ = self.complete();
                }
                added.map(Attempt::Done)
            }
            Ok(_) => locked.remove().map(|()| Attempt::Done(Join::Replay)),
            Err(error) => {
                locked.remove()?;
                Err(error)
            }
        }
    }

    /// Adds a segment to the session.
    fn add(&self, mut locked: Locked, owner: &Owner, server: &str, policy: Policy) -> Result<Join> {
        let session = &mut locked.session;
        let continues = session.continues;
        let appends = continues && policy.append;
        let conn = match session.conns.get(server) {
            Some(next) => *next,
            None if continues && self.cassette.exists() => self.documents.conns(&self.cassette, server)?,
            None => 0,
        };
        session.begun = session.begun.saturating_add(1);
        session.stage = Stage::Open;
        session.committing = None;
        session.conns.insert(server.to_owned(), conn.saturating_add(1));
        let number = session.begun;
        locked.save()?;

        let pid = std::process::id();
        let path = locked.folder.join(folder::file_name(number, server, pid));
        let file = create_segment(&locked.folder, &path).map_err(Error::io("create the segment", &path))?;
        let claimed = locked.path();
        let session = File::open(&claimed).map_err(Error::io("open", &claimed))?;
        let owner = owner.to_string();
        let head = SegmentHead { owner, pid, server: server.to_owned(), conn, continues, appends };
        let claim = Claim {
            session: Arc::new(session),
            path: claimed.into(),
            segment: path.as_path().into(),
            length: Arc::default(),
        };
        Ok(Join::Record(Box::new(Joined {
            file,
            path,
            number,
            conn,
            continues,
            notes: Vec::new(),
            claim,
            head,
        })))
    }

    /// Leaves the recording: unlocks the segment, removes it unless it is to be `kept`, and makes the cassette if
    /// this was the last one. Its end line must be written by then, and every clone of its file closed.
    pub fn leave(&self, joined: Joined, kept: bool) -> Result<Completion> {
        let Joined { file, path, claim, .. } = joined;
        let locked = Locked::existing(&self.cassette)?;
        // Only with the session locked is it certain that nobody takes over any more.
        let Some(locked) = locked.filter(|_| claim.owns_session()) else {
            return Ok(Completion::Lost { what: claim.loss() });
        };
        if !kept {
            fs::remove_file(&path).map_err(Error::io("remove the segment", &path))?;
        }
        drop(file);
        Ok(self.settle(locked, Some(&path))?.0)
    }

    /// Does what is left to be done to a recording that nobody works on any more.
    pub fn complete(&self) -> Result<Completion> {
        match Locked::existing(&self.cassette)? {
            Some(locked) => Ok(self.settle(locked, None)?.0),
            None => Ok(Completion::Absent),
        }
    }

    /// Makes the cassette out of an interrupted recording, all of whose processes were killed.
    pub fn recover(&self) -> Result<Completion> {
        let Some(locked) = Locked::existing(&self.cassette)? else { return Ok(Completion::Absent) };
        match self.settle(locked, None)? {
            (Completion::Interrupted { .. }, Some(locked)) => {
                let killed = folder::segments(&locked.folder)?;
                Ok(self.merge(locked, killed)?.0)
            }
            (completion, _) => Ok(completion),
        }
    }

    /// Ends the named session (`ID` or `ID@PID`) at this cassette and completes its recording, for which its
    /// recorders are waited for; those in front of a URL are asked to end. If some still run after the wait, the last
    /// of them completes it.
    pub fn end(&self, session: &str, wait: Duration) -> Result<Completion> {
        let started = Instant::now();
        let mut recorded = None;
        while let Some(locked) = Locked::existing(&self.cassette)?
            && Owner::parse(&locked.session.owner).is_some_and(|owner| owner.is_session(session))
            && !locked.session.ended
        {
            let (completion, locked) = self.settle(locked, None)?;
            let running = matches!(completion, Completion::Recording { .. });
            recorded = Some(completion);
            let Some(mut locked) = locked else { break };
            if running && started.elapsed() < wait {
                if !locked.session.ending {
                    locked.session.ending = true;
                    locked.save()?;
                }
                drop(locked);
                std::thread::sleep(LONGEST_PAUSE / 4);
                continue;
            }
            if matches!(recorded, Some(Completion::OnlyProbes)) {
                locked.remove()?;
                break;
            }
            locked.session.ended = true;
            locked.save()?;
        }
        let known = self.state.end_session(&self.cassette, session);
        match recorded {
            Some(completion) => Ok(completion),
            None if known => Ok(Completion::Absent),
            None => Err(Error::Usage(format!(
                "{}: no session {session} here: it never began, or it was ended already",
                self.cassette.display()
            ))),
        }
    }

    /// Acts on what the folder amounts to. Gives the lock back where the folder stays.
    fn settle(&self, locked: Locked, own: Option<&Path>) -> Result<(Completion, Option<Locked>)> {
        if locked.session.is_merged(&self.cassette) {
            if !locked.session.appends {
                self.remember_maker(&locked);
            }
            if locked.session.damaged {
                locked.keep_damaged(&self.cassette, &[])?;
            } else {
                locked.remove()?;
            }
            return Ok((Completion::AlreadyMerged, None));
        }
        match locked.assess(own, &self.cassette)? {
            Found::Empty => {
                locked.remove()?;
                Ok((Completion::Empty, None))
            }
            Found::Recording(pids) => {
                let owner = locked.session.who();
                Ok((Completion::Recording { pids, owner }, Some(locked)))
            }
            Found::Mergeable(segments) => self.merge(locked, segments),
            Found::Interrupted => {
                Ok((Completion::Interrupted { folder: locked.folder.clone() }, Some(locked)))
            }
        }
    }

    /// The same, before somebody else records. With `replaces` that is over the cassette: what was killed is not made
    /// into one that would be gone at once, but left for whoever records to set aside.
    fn settle_before(&self, locked: Locked, replaces: bool) -> Result<(Completion, Option<Locked>)> {
        if replaces && locked.holds_killed(&self.cassette)? {
            return Ok((Completion::Interrupted { folder: locked.folder.clone() }, Some(locked)));
        }
        self.settle(locked, None)
    }

    fn merge(
        &self,
        mut locked: Locked,
        mut segments: Vec<SegmentInfo>,
    ) -> Result<(Completion, Option<Locked>)> {
        folder::guess_heads(&mut segments, &locked.session.conns);
        let damage = RefCell::default();
        let temp = locked.folder.join(session::TEMP_DOCUMENT);
        locked.session.committing = None;
        let job = MergeJob {
            cassette: &self.cassette,
            segments: &segments,
            continues: locked.session.continues && self.cassette.exists(),
            temp: &temp,
            damage: &damage,
            committing: &|file| locked.save_committing(file, !damage.borrow().is_empty()),
        };
        let outcome = match self.documents.merge(&job) {
            Ok(outcome) => outcome,
            Err(error) => {
                // It may have failed after the rename; if not, the number of the file that did not become the cassette
                // may go to another file and must be forgotten.
                if !Session::peek(&locked.folder).is_ok_and(|session| session.is_merged(&self.cassette)) {
                    locked.save()?;
                }
                return Err(error);
            }
        };
        if outcome == Merged::OnlyProbes && locked.session.owner_alive() {
            locked.session.stage = Stage::OnlyProbes;
            locked.save()?;
            return Ok((Completion::OnlyProbes, Some(locked)));
        }
        let what: Vec<String> = damage.take();
        locked.session.stage = Stage::Merged;
        locked.session.damaged = !what.is_empty();
        locked.save()?;
        // Who adds to a cassette has not made it.
        let written = matches!(outcome, Merged::Written | Merged::Unchanged) && !locked.session.appends;
        let note = if written { self.remember_maker(&locked) } else { None };
        let damage = if what.is_empty() {
            locked.remove()?;
            None
        } else {
            let folder = locked.keep_damaged(&self.cassette, &what)?;
            Some(Damage { what, folder })
        };
        Ok((Completion::Merged { segments, outcome, damage, note }, None))
    }

    fn remember_maker(&self, locked: &Locked) -> Option<String> {
        let owner = Owner::parse(&locked.session.owner).filter(|_| locked.session.owner_alive())?;
        self.state.set_maker(&self.cassette, &owner)
    }
}

impl std::fmt::Debug for Recording<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Recording").field("cassette", &self.cassette).field("state", &self.state).finish()
    }
}

/// Creates a segment that is locked before anybody can see it under its name.
fn create_segment(folder: &Path, path: &Path) -> io::Result<File> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let unborn = folder.join(format!("{}{name}", session::UNBORN));
    let mut options = OpenOptions::new();
    options.append(true).create(true);
    let file = lock::hold(system::private(&mut options).open(&unborn)?)?;
    fs::rename(&unborn, path)?;
    Ok(file)
}
