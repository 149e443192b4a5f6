//! Captured messages that lie together in memory, and how much of them waits.

use std::time::Duration;

use super::super::{Captured, From};
use crate::stdio::lines;

/// How much there is of one direction.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) messages: usize,
    /// With what it takes to tell them apart.
    pub(super) bytes: usize,
}

/// How much there is of both directions.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Loads {
    client: Load,
    server: Load,
}

impl Loads {
    pub(super) fn of(&self, from: From) -> Load {
        match from {
            From::Client => self.client,
            From::Server => self.server,
        }
    }

    pub(super) fn add(&mut self, from: From, more: Load) {
        let load = match from {
            From::Client => &mut self.client,
            From::Server => &mut self.server,
        };
        load.messages += more.messages;
        load.bytes += more.bytes;
    }

    /// Takes out what was added before.
    pub(super) fn take(&mut self, less: Self) {
        for (load, less) in [(&mut self.client, less.client), (&mut self.server, less.server)] {
            load.messages = load.messages.saturating_sub(less.messages);
            load.bytes = load.bytes.saturating_sub(less.bytes);
        }
    }

    pub(super) fn messages(&self) -> usize {
        self.client.messages + self.server.messages
    }

    pub(super) fn bytes(&self) -> usize {
        self.client.bytes + self.server.bytes
    }

    pub(super) fn any(&self, holds: impl Fn(Load) -> bool) -> bool {
        holds(self.client) || holds(self.server)
    }
}

/// Messages that lie together in memory.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    runs: Vec<Run>,
    loads: Loads,
}

/// A stretch of a block that came with one push.
#[derive(Debug, Clone, Copy)]
struct Run {
    end: usize,
    from: From,
    at: Duration,
    kind: Kind,
}

/// What the bytes of a push are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kind {
    /// So many lines, each with its `\n`.
    Lines(usize),
    /// One line without.
    Line,
    /// One line that never ended.
    Torn,
}

impl Kind {
    fn messages(self) -> usize {
        match self {
            Self::Lines(count) => count,
            Self::Line | Self::Torn => 1,
        }
    }

    /// How much bytes of this kind are.
    pub(super) fn load(self, bytes: usize) -> Load {
        Load { messages: self.messages(), bytes: bytes + size_of::<Run>() }
    }
}

impl Block {
    /// A line in the memory that it has already.
    pub(super) fn of_line(line: Vec<u8>, from: From, at: Duration, kind: Kind) -> Self {
        let mut block = Self { bytes: line, ..Self::default() };
        block.note(block.bytes.len(), from, at, kind);
        block
    }

    /// Adds a copy of what was pushed.
    pub(super) fn copy(&mut self, bytes: &[u8], from: From, at: Duration, kind: Kind) {
        self.bytes.extend_from_slice(bytes);
        self.note(bytes.len(), from, at, kind);
    }

    fn note(&mut self, length: usize, from: From, at: Duration, kind: Kind) {
        self.runs.push(Run { end: self.bytes.len(), from, at, kind });
        self.loads.add(from, kind.load(length));
    }

    /// How much is in it.
    pub(super) fn loads(&self) -> Loads {
        self.loads
    }

    /// Bytes of messages.
    pub(super) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Bytes of messages that it can hold as it is.
    pub(super) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    /// Empties it and keeps its memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.runs.clear();
        self.loads = Loads::default();
    }

    /// The messages, in their order.
    #[must_use]
    pub fn messages(&self) -> Vec<Captured<'_>> {
        let mut found = Vec::with_capacity(self.loads.messages());
        let mut begin = 0;
        for run in &self.runs {
            let bytes = self.bytes.get(begin..run.end).unwrap_or_default();
            begin = run.end;
            let captured = |line, torn| Captured { from: run.from, line, torn, at: run.at };
            match run.kind {
                Kind::Lines(_) => found.extend(lines::split(bytes).map(|line| captured(line, false))),
                Kind::Line => found.push(captured(bytes, false)),
                Kind::Torn => found.push(captured(bytes, true)),
            }
        }
        found
    }
}
