//! The pumps: each moves the bytes of one pipe into another as they come, and queues what it sees.
//!
//! A message is queued before its last byte is forwarded; the bytes of a line that is not complete are forwarded at
//! once. A pump whose target is gone goes on reading, so that nobody blocks on us.

use std::io::{self, Read, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};

use super::From;
use super::queue::{MESSAGES, Parcel, Pushed, Queue};
use crate::stdio::lines::Lines;

/// A pipe holds so much, so a larger buffer would not be filled.
const BUFFER: usize = 64 << 10;
/// What is longer than this is passed on, and its beginning is kept: a line without end is not to use up the memory. An
/// answer over HTTP has the same limit.
pub const LONGEST: usize = 256 << 20;
/// How much is kept of it.
const BEGINNING: usize = 64 << 10;
/// A write up to this size goes into a pipe as a whole or not at all.
const ATOMIC: usize = 4096;
/// So many bytes of standard error are kept for its last lines.
const TAIL_BYTES: usize = 32 << 10;
/// And so many lines.
const TAIL_LINES: usize = 20;

/// The way from one pipe to another. Its target can be closed from outside while the pump waits for input.
#[derive(Debug)]
pub struct Way<W> {
    from: From,
    target: Mutex<Target<W>>,
    closing: AtomicBool,
    taken: AtomicU64,
    passed: AtomicU64,
    /// A line was too long to be kept.
    lost: AtomicBool,
    /// Why something could not be written.
    unwritten: OnceLock<io::ErrorKind>,
}

#[derive(Debug)]
struct Target<W> {
    to: Option<W>,
    lines: Lines,
}

/// What a chunk met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Open,
    Closed,
    /// The write failed: the other side is gone. Told once.
    Broke,
}

impl<W: Write> Way<W> {
    /// A way for the messages of `from`, towards `to`.
    pub fn new(from: From, to: W) -> Self {
        Self {
            from,
            target: Mutex::new(Target { to: Some(to), lines: Lines::up_to(LONGEST) }),
            closing: AtomicBool::new(false),
            taken: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            lost: AtomicBool::new(false),
            unwritten: OnceLock::new(),
        }
    }

    /// Whether of a line only the beginning was queued, since it was longer than [`LONGEST`].
    pub fn has_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }

    /// Pumps until `source` ends, then closes the target. `broke` is called when the target turns out to be gone.
    pub fn pump(&self, mut source: impl Read, queue: &Queue, broke: impl Fn()) {
        let mut buffer = vec![0; BUFFER];
        loop {
            let length = match source.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            self.taken.fetch_add(length as u64, Ordering::Relaxed);
            let flow = self.pass(buffer.get(..length).unwrap_or_default(), queue);
            self.passed.fetch_add(length as u64, Ordering::Relaxed);
            if flow == Flow::Broke {
                broke();
            }
            if flow == Flow::Open && self.closing.load(Ordering::SeqCst) {
                self.close(queue);
            }
        }
        self.close(queue);
    }

    /// Queues the rest of a torn line and closes the target: at once, or by the pump as soon as it is no longer busy
    /// with it.
    pub fn close(&self, queue: &Queue) {
        // The pump looks at this after it has let go of the lock, so one of us two sees the other.
        self.closing.store(true, Ordering::SeqCst);
        let mut target = match self.target.try_lock() {
            Ok(target) => target,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let (Some(line), true) = (target.lines.finish(), target.to.is_some()) {
            let parcel = Parcel { from: self.from, carried: Some(line), torn: true, whole: &[], count: 1 };
            if queue.push(parcel) == Pushed::WakeDue {
                queue.wake();
            }
        }
        target.to = None;
    }

    /// Bytes read from the source.
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Bytes that are through.
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Relaxed)
    }

    /// Why something could not be written, where that was not because the other side was gone.
    pub fn unwritten(&self) -> Option<io::ErrorKind> {
        self.unwritten.get().copied()
    }

    fn pass(&self, chunk: &[u8], queue: &Queue) -> Flow {
        let mut target = self.target.lock().unwrap_or_else(PoisonError::into_inner);
        let Target { to, lines } = &mut *target;
        let Some(writer) = to else { return Flow::Closed };
        let mut left = chunk;
        let mut flow = Flow::Open;
        while !left.is_empty() && flow == Flow::Open {
            let cut = lines.cut(left, MESSAGES);
            let (bytes, _) = left.split_at(left.len() - cut.rest.len());
            left = cut.rest;
            let mut wake = false;
            if let Some(mut line) = cut.too_long {
                self.lost.store(true, Ordering::Relaxed);
                line.truncate(BEGINNING);
                line.shrink_to_fit();
                let parcel =
                    Parcel { from: self.from, carried: Some(line), torn: true, whole: &[], count: 1 };
                wake = queue.push(parcel) == Pushed::WakeDue;
            }
            if cut.count > 0 {
                let parcel = Parcel {
                    from: self.from,
                    carried: cut.carried,
                    torn: false,
                    whole: cut.whole,
                    count: cut.count,
                };
                match queue.push(parcel) {
                    Pushed::Queued => {}
                    Pushed::WakeDue => wake = true,
                    // What is not recorded any more is not forwarded either.
                    Pushed::Closed => flow = Flow::Closed,
                }
            }
            // Waking costs more than a small write, so the write goes first; but a large one may block half-way, and
            // what has arrived by then is to be in the file.
            if wake && bytes.len() > ATOMIC {
                queue.wake();
                wake = false;
            }
            if flow == Flow::Open
                && let Err(error) = writer.write_all(bytes)
            {
                flow = Flow::Broke;
                // Nobody reading any more is no failure of a write.
                if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
                    let _ = self.unwritten.set(error.kind());
                }
            }
            if wake {
                queue.wake();
            }
        }
        if flow != Flow::Open {
            *to = None;
            *lines = Lines::up_to(LONGEST);
        }
        flow
    }
}

/// The last that came from the server's standard error.
#[derive(Debug, Default)]
pub struct Tail(Mutex<Vec<u8>>);

impl Tail {
    /// Copies `source` to `to`, byte for byte and at once, and keeps the end of it.
    pub fn pump(&self, mut source: impl Read, mut to: impl Write) {
        let mut buffer = vec![0; BUFFER / 8];
        let mut open = true;
        loop {
            let length = match source.read(&mut buffer) {
                Ok(0) => return,
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => return,
            };
            let bytes = buffer.get(..length).unwrap_or_default();
            self.keep(bytes);
            open = open && to.write_all(bytes).is_ok();
        }
    }

    /// The last lines.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let text = String::from_utf8_lossy(&kept);
        let mut lines: Vec<String> = text.lines().rev().take(TAIL_LINES).map(str::to_owned).collect();
        lines.reverse();
        lines
    }

    fn keep(&self, bytes: &[u8]) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.extend_from_slice(bytes);
        // Twice the size before it is cut: not every small write is to move all of it.
        if kept.len() > 2 * TAIL_BYTES {
            let too_many = kept.len() - TAIL_BYTES;
            kept.drain(..too_many);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::queue::{Block, Next};
    use std::time::Instant;

    fn messages(queue: &Queue) -> Vec<(String, bool)> {
        queue.close();
        let mut found = Vec::new();
        let mut block = Block::default();
        while let Next::Batch(next) = queue.next(block) {
            for message in next.messages() {
                found.push((String::from_utf8_lossy(message.line).into_owned(), message.torn));
            }
            block = next;
        }
        found
    }

    #[test]
    fn bytes_pass_unchanged_and_messages_are_queued() {
        let queue = Queue::new(Instant::now());
        let mut out = Vec::new();
        let stream = b"one\r\n\nthree\xff\npart";
        Way::new(From::Client, &mut out).pump(&stream[..], &queue, || panic!("broke"));
        assert_eq!(out, stream);
        let expected = [("one\r", false), ("", false), ("three\u{fffd}", false), ("part", true)];
        assert_eq!(messages(&queue), expected.map(|(line, torn)| (line.to_owned(), torn)));
    }

    #[test]
    fn a_line_without_end_passes_and_its_beginning_is_kept() {
        let queue = Queue::new(Instant::now());
        let (mut out, mut passed) = (io::sink(), 0);
        let way = Way::new(From::Server, &mut out);
        let chunk = vec![b'x'; 1 << 20];
        while passed <= LONGEST + (2 << 20) {
            assert_eq!(way.pass(&chunk, &queue), Flow::Open);
            passed += chunk.len();
        }
        assert!(way.has_lost());
        assert_eq!(way.pass(b"xx\nnext\n", &queue), Flow::Open);
        let found = messages(&queue);
        assert_eq!(found.len(), 2);
        assert!(found[0].0.len() == BEGINNING && found[0].1);
        assert_eq!(found[1], ("next".to_owned(), false));
    }

    #[test]
    fn a_target_that_is_gone_is_told_once_and_the_source_is_read_to_its_end() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let queue = Queue::new(Instant::now());
        let told = AtomicU64::new(0);
        let source = io::repeat(b'\n').take(3 * BUFFER as u64);
        let way = Way::new(From::Server, Gone);
        way.pump(source, &queue, || {
            told.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!((told.into_inner(), way.passed()), (1, 3 * BUFFER as u64));
    }

    #[test]
    fn a_closed_way_keeps_the_torn_line_and_forwards_no_more() {
        let queue = Queue::new(Instant::now());
        let mut out = Vec::new();
        let way = Way::new(From::Client, &mut out);
        assert_eq!(way.pass(b"whole\nhal", &queue), Flow::Open);
        way.close(&queue);
        assert_eq!(way.pass(b"f\n", &queue), Flow::Closed);
        drop(way);
        assert_eq!(out, b"whole\nhal");
        assert_eq!(messages(&queue), [("whole".to_owned(), false), ("hal".to_owned(), true)]);
    }

    #[test]
    fn the_last_lines_of_standard_error_are_kept() {
        let tail = Tail::default();
        let all: Vec<String> = (0..9000).map(|number| format!("line {number}")).collect();
        let text = all.join("\n") + "\n";
        let mut out = Vec::new();
        tail.pump(text.as_bytes(), &mut out);
        assert_eq!(out, text.as_bytes());
        assert_eq!(tail.lines(), all[8980..]);
    }
}
