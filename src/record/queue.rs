//! The queue between the pumps and the recorder thread.
//!
//! What is pushed first stands first in the file: a message gets its place and its time under the lock, before it is
//! forwarded. The bytes of a push are copied once, into the block that is being filled; emptied blocks come back, so
//! that small messages cost no allocation.
//!
//! Each direction may have 64 messages or 1 MiB waiting. A pump that finds no room waits for the recorder, but not when
//! the current write has lasted 5 ms: from then on only the common limit of 64 MiB counts. So a recorder that is busy
//! redacting slows the session and does not fall behind, and a stalled disk does not slow it until 64 MiB wait; and
//! while the backlog of a stall is worked off, a push is held up by 5 ms at most.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::From;

mod block;

pub use block::Block;
use block::{Kind, Load, Loads};

/// Messages of one direction that may wait while writing is fast.
pub const MESSAGES: usize = 64;
/// Bytes of one direction that may wait while writing is fast.
pub const BYTES: usize = 1 << 20;
/// Bytes that may wait altogether while a write blocks.
pub const STALLED_BYTES: usize = 64 << 20;
/// A write that lasts longer blocks, and behind the backlog of one a push waits no longer than this for room.
pub const PATIENCE: Duration = Duration::from_millis(5);
/// A push waits no longer than this for a recorder that does not write but prepares what it writes: a giant message
/// may take it that long.
const PREPARING: Duration = Duration::from_millis(100);

/// How long the recorder lets messages gather. Without it a quick exchange would wake it for every message, at the
/// price of the exchange's own processor time.
const GATHER: Duration = Duration::from_millis(1);
/// So much in one direction and the recorder does not wait for more.
const ENOUGH: Load = Load { messages: MESSAGES / 2, bytes: BYTES / 4 };
/// A block is handed to the sink as one batch: small, so that a batch is written well within [`PATIENCE`].
const BLOCK_BYTES: usize = 128 << 10;
/// A carried line of this size is moved in as a block of its own, not copied.
const OWN_BLOCK: usize = 32 << 10;
/// Emptied blocks that are kept for reuse.
const SPARE: usize = 4;

/// The queue. Pumps push, one recorder takes.
#[derive(Debug)]
pub struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    room: Condvar,
    begun: Instant,
}

#[derive(Debug, Default)]
struct State {
    blocks: VecDeque<Block>,
    spare: Vec<Block>,
    /// How much waits.
    loads: Loads,
    /// When the write that is going on began.
    writing: Option<Instant>,
    /// More waits than the limits of fast writing allow, since a write blocked.
    behind: bool,
    recorder: Recorder,
    /// A pump waits for room.
    pressed: bool,
    /// The recorder is to come by when it has taken so many more blocks, even when there is nothing to write.
    nudged: Option<usize>,
    closed: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Recorder {
    /// Writes, and looks here by itself afterwards.
    #[default]
    Busy,
    /// Lets messages gather; looks here when the time is over.
    Gathering,
    /// Already called while gathering.
    Called,
    /// Sleeps until it is woken.
    Asleep,
}

/// What a pump pushes: some lines of one direction.
#[derive(Debug)]
pub struct Parcel<'a> {
    /// Who sent them.
    pub from: From,
    /// A line without `\n` that comes first.
    pub carried: Option<Vec<u8>>,
    /// The carried line never got its `\n`.
    pub torn: bool,
    /// Lines that each end with `\n`.
    pub whole: &'a [u8],
    /// How many messages these are together.
    pub count: usize,
}

/// What became of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pushed {
    /// Queued, and the recorder will find it.
    Queued,
    /// Queued, and [`Queue::wake`] is to be called, best after forwarding.
    WakeDue,
    /// The recording is over, nothing was queued.
    Closed,
}

/// What the recorder finds.
#[derive(Debug)]
pub enum Next {
    /// Messages to write.
    Batch(Block),
    /// Nothing is waiting; the answer to [`Queue::nudge`].
    Nothing,
    /// Closed, and all was taken.
    Closed,
}

impl Queue {
    /// An empty queue; time stamps count from `begun`.
    #[must_use]
    pub fn new(begun: Instant) -> Self {
        Self { state: Mutex::default(), filled: Condvar::new(), room: Condvar::new(), begun }
    }

    /// Queues messages, waiting for room as the module says.
    pub fn push(&self, parcel: Parcel<'_>) -> Pushed {
        let Parcel { from, carried, torn, whole, count } = parcel;
        let kind = if torn { Kind::Torn } else { Kind::Line };
        let lines = Kind::Lines(count.saturating_sub(usize::from(carried.is_some())));
        let mut load = Loads::default();
        load.add(from, lines.load(whole.len()));
        if let Some(line) = &carried {
            load.add(from, kind.load(line.len()));
        }
        let (mut state, now) = self.wait_for_room(from, load.of(from));
        if state.closed {
            return Pushed::Closed;
        }
        let at = now.saturating_duration_since(self.begun);
        match carried {
            Some(line) if line.len() < OWN_BLOCK => state.copy(&line, from, at, kind),
            Some(line) => state.move_in(line, from, at, kind),
            None => {}
        }
        if !whole.is_empty() {
            state.copy(whole, from, at, lines);
        }
        match state.recorder {
            Recorder::Asleep => Pushed::WakeDue,
            Recorder::Gathering if state.has_enough() => {
                state.recorder = Recorder::Called;
                Pushed::WakeDue
            }
            _ => Pushed::Queued,
        }
    }

    /// Wakes the recorder, see [`Pushed::WakeDue`].
    pub fn wake(&self) {
        self.filled.notify_one();
    }

    /// Has the recorder report [`Next::Nothing`] as soon as it has taken all that is queued now.
    pub fn nudge(&self) {
        let mut state = self.lock();
        state.nudged = Some(state.blocks.len());
        drop(state);
        self.filled.notify_one();
    }

    /// Takes no more messages. The recorder gets what is queued, then [`Next::Closed`].
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
        self.room.notify_all();
    }

    /// To be called when the batch that was taken is about to be written: what lasts from here on is the disk.
    pub fn writing(&self) {
        let mut state = self.lock();
        state.writing = Some(Instant::now());
        let pressed = state.pressed;
        drop(state);
        if pressed {
            self.room.notify_all();
        }
    }

    /// The next batch, in exchange for the last one, which counts as written.
    pub fn next(&self, written: Block) -> Next {
        let mut state = self.lock();
        state.writing = None;
        state.keep(written);
        state = self.gather(state);
        state.recorder = Recorder::Busy;
        // A server that never pauses must not keep it waiting.
        if state.nudged == Some(0) {
            state.nudged = None;
            return Next::Nothing;
        }
        if let Some(block) = state.blocks.pop_front() {
            state.nudged = state.nudged.map(|blocks| blocks.saturating_sub(1));
            state.loads.take(block.loads());
            state.pressed = false;
            state.behind &= state.is_over();
            drop(state);
            self.room.notify_all();
            return Next::Batch(block);
        }
        Next::Closed
    }

    /// Waits until it is time to take what is there, if there is anything.
    fn gather<'s>(&'s self, mut state: MutexGuard<'s, State>) -> MutexGuard<'s, State> {
        if state.backlog() {
            return state;
        }
        let until = Instant::now() + GATHER;
        state.recorder = Recorder::Gathering;
        while !state.is_urgent() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            state = self.filled.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.recorder = Recorder::Asleep;
        while state.blocks.is_empty() && state.nudged.is_none() && !state.closed {
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    fn wait_for_room(&self, from: From, load: Load) -> (MutexGuard<'_, State>, Instant) {
        let mut state = self.lock();
        let came = Instant::now();
        let mut now = came;
        loop {
            if state.closed || state.has_room(from, load) {
                return (state, now);
            }
            let patience = state.patience(came);
            let fits = state.loads.bytes() + load.bytes <= STALLED_BYTES;
            if fits && now >= patience {
                state.behind = true;
                return (state, now);
            }
            state.pressed = true;
            // The recorder may be letting messages gather, or the pump that should have woken it is still forwarding.
            if state.recorder != Recorder::Busy {
                self.filled.notify_one();
            }
            state = if fits {
                let left = patience.saturating_duration_since(now);
                self.room.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
            } else {
                self.room.wait(state).unwrap_or_else(PoisonError::into_inner)
            };
            now = Instant::now();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Room by the limits that hold while writing is fast. What is larger than these goes in when nothing waits.
    fn has_room(&self, from: From, load: Load) -> bool {
        let (there, waiting) = (self.loads.of(from), self.loads.bytes());
        let fits = waiting == 0 || waiting + load.bytes <= STALLED_BYTES;
        let quick = there.messages + load.messages <= MESSAGES && there.bytes + load.bytes <= BYTES;
        fits && (there.messages == 0 || quick)
    }

    /// Until when a push that came at this time waits for such room.
    fn patience(&self, came: Instant) -> Instant {
        let patience = came + if self.behind { PATIENCE } else { PREPARING };
        self.writing.map_or(patience, |begun| patience.min(begun + PATIENCE))
    }

    fn is_over(&self) -> bool {
        self.loads.any(|load| load.messages > MESSAGES || load.bytes > BYTES)
    }

    fn has_enough(&self) -> bool {
        self.loads.any(|load| load.messages >= ENOUGH.messages || load.bytes >= ENOUGH.bytes)
    }

    /// More than one block: what gathers is in the last one.
    fn backlog(&self) -> bool {
        self.blocks.len() > 1
    }

    fn is_urgent(&self) -> bool {
        self.closed || self.nudged.is_some() || self.pressed || self.has_enough()
    }

    fn copy(&mut self, bytes: &[u8], from: From, at: Duration, kind: Kind) {
        let more = kind.load(bytes.len()).messages;
        let fits = |last: &Block| {
            last.len() + bytes.len() <= BLOCK_BYTES && last.loads().messages() + more <= MESSAGES
        };
        self.loads.add(from, kind.load(bytes.len()));
        if let Some(last) = self.blocks.back_mut().filter(|last| fits(last)) {
            last.copy(bytes, from, at, kind);
            return;
        }
        let mut block = self.spare.pop().unwrap_or_default();
        block.copy(bytes, from, at, kind);
        self.blocks.push_back(block);
    }

    fn move_in(&mut self, line: Vec<u8>, from: From, at: Duration, kind: Kind) {
        self.loads.add(from, kind.load(line.len()));
        self.blocks.push_back(Block::of_line(line, from, at, kind));
    }

    fn keep(&mut self, mut block: Block) {
        // A giant line's memory goes back to the system.
        if (1..=2 * BLOCK_BYTES).contains(&block.capacity()) && self.spare.len() < SPARE {
            block.clear();
            self.spare.push(block);
        }
    }
}

#[cfg(test)]
mod tests;
