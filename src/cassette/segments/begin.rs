//! Beginning a named session before its first recorder starts: who may record is settled while nobody waits for an
//! answer, and stays so between the recorders of a client that starts one process per call.

use std::time::{Duration, Instant};

use super::{Completion, FIRST_PAUSE, LONGEST_PAUSE, Locked, Recording, process_list};
use crate::cassette::owner::Owner;
use crate::error::{Error, Result};

/// What the recorders of a session that has begun will do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begun {
    /// They record: until the session ends, no other one begins to record.
    Record,
    /// There is a cassette that is to be replayed.
    Replay,
}

enum Looked {
    Free,
    Kept,
    Busy(String),
}

impl Recording<'_> {
    /// Claims the recording for `owner` unless, with `keep`, there is a cassette to be replayed. Waits as long as
    /// `wait` for another one that has the claim or records. After that, what is there is replayed if it is whole, or
    /// the result is [`Error::Owned`].
    pub fn claim(&self, owner: &Owner, keep: bool, wait: Duration) -> Result<Begun> {
        let deadline = Instant::now().checked_add(wait);
        let mut pause = FIRST_PAUSE;
        loop {
            let (holder, claimant) = match self.state.claim(&self.cassette, owner) {
                Ok(Some(other)) => (other.who(), Some(other)),
                // Where nothing can be remembered, the recorders settle it among themselves.
                Ok(None) | Err(_) => {
                    let looked = self.look(owner, keep);
                    if !matches!(looked, Ok(Looked::Free)) {
                        // It must not keep the one waiting that we wait for. Whether it was remembered changes nothing.
                        let _ = self.state.unclaim(&self.cassette, owner);
                    }
                    match looked? {
                        Looked::Free => return Ok(Begun::Record),
                        Looked::Kept => return Ok(Begun::Replay),
                        Looked::Busy(holder) => (holder, None),
                    }
                }
            };
            let left = deadline.map_or(LONGEST_PAUSE, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                // What the claimant has made so far may be a part of what it is going to make.
                let whole = claimant.is_some() && self.state.maker(&self.cassette) != claimant;
                if keep && whole && self.is_to_be_kept(owner)? {
                    return Ok(Begun::Replay);
                }
                return Err(Error::Owned { path: self.cassette.clone(), holder });
            }
            std::thread::sleep(pause.min(left));
            pause = pause.saturating_mul(2).min(LONGEST_PAUSE);
        }
    }

    /// What stands in the way of recording, once the claim is ours. Completes what others left behind.
    fn look(&self, owner: &Owner, keep: bool) -> Result<Looked> {
        let recorder = self.recorder_besides(owner, keep)?;
        if keep && self.is_to_be_kept(owner)? {
            return Ok(Looked::Kept);
        }
        Ok(recorder.map_or(Looked::Free, Looked::Busy))
    }

    /// Who else records right now, in words. What was killed becomes a cassette only where that is to be kept.
    fn recorder_besides(&self, owner: &Owner, keep: bool) -> Result<Option<String>> {
        let Some(locked) = Locked::existing(&self.cassette)? else { return Ok(None) };
        if locked.session.is_of(owner) && !locked.session.is_merged(&self.cassette) {
            return Ok(None);
        }
        let who = locked.session.who();
        let (completion, _) = self.settle_before(locked, !keep)?;
        let Completion::Recording { pids, .. } = completion else { return Ok(None) };
        Ok(Some(format!("{who}, recorded by {}", process_list(&pids))))
    }
}
