//! The recorder thread: takes batches off the queue and gives them to the sink. When the sink fails, recording is off
//! and the session goes on untouched.

use std::any::Any;
use std::fmt::Write as _;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::Receiver;

use super::queue::{Block, Next, Queue};
use super::{Captured, Ending, Sink};
use crate::error::words;

/// Where one line for people goes.
pub type Note = Arc<dyn Fn(&str) + Send + Sync>;

/// What the thread leaves behind.
#[derive(Debug, Default)]
pub struct Kept {
    /// Messages kept.
    pub captured: u64,
    /// Why recording stopped early.
    pub failed: Option<String>,
}

/// News from the thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum News {
    /// So many requests are open. Told after [`Queue::nudge`], and from then on when it changes.
    Open(usize),
    /// Everything is written; the thread ends.
    Done,
}

/// A terminal signals a whole group and a supervisor once more; that is not yet impatience.
pub const SAME_WISH: Duration = Duration::from_secs(1);
/// Why a recording ends that somebody had no time for.
pub const GIVEN_UP: &str = "ended by a second signal before everything was written";

/// Counts the messages that are written, for whoever cannot wait for all of it.
pub(super) struct Counted {
    sink: Box<dyn Sink>,
    written: Arc<AtomicU64>,
}

impl Counted {
    /// The sink, and where its count is to be seen.
    pub(super) fn new(sink: Box<dyn Sink>) -> (Box<Self>, Arc<AtomicU64>) {
        let written = Arc::new(AtomicU64::new(0));
        (Box::new(Self { sink, written: Arc::clone(&written) }), written)
    }
}

impl Sink for Counted {
    fn begun(&self) -> Instant {
        self.sink.begun()
    }

    fn prepare(&mut self, batch: &[Captured<'_>]) {
        self.sink.prepare(batch);
    }

    fn append(&mut self, batch: &[Captured<'_>]) -> io::Result<()> {
        self.sink.append(batch)?;
        self.written.fetch_add(batch.len() as u64, Ordering::SeqCst);
        Ok(())
    }

    fn follow(&mut self, batch: &[Captured<'_>]) {
        self.sink.follow(batch);
    }

    fn ending(&mut self, end: &Ending) -> io::Result<()> {
        self.sink.ending(end)
    }

    fn open_requests(&self) -> usize {
        self.sink.open_requests()
    }
}

struct Recorder {
    sink: Box<dyn Sink>,
    note: Note,
    kept: Kept,
    /// The warning that is being given.
    noting: Option<JoinHandle<()>>,
    /// The sink panicked: it is not called any more.
    broken: bool,
}

/// Starts the thread. It ends after [`Queue::close`], and takes the ending from `endings` then.
///
/// # Errors
///
/// When no thread can be started.
pub fn start(
    queue: Arc<Queue>,
    sink: Box<dyn Sink>,
    note: Note,
    endings: Receiver<Ending>,
    news: impl Fn(News) + Send + 'static,
) -> io::Result<JoinHandle<Kept>> {
    let run = move || {
        let mut recorder = Recorder { sink, note, kept: Kept::default(), noting: None, broken: false };
        recorder.follow(&queue, &news);
        if let Ok(ending) = endings.recv() {
            recorder.end(ending);
        }
        news(News::Done);
        recorder.kept
    };
    thread::Builder::new().name("recorder".to_owned()).spawn(run)
}

impl Recorder {
    fn follow(&mut self, queue: &Queue, news: &dyn Fn(News)) {
        let mut block = Block::default();
        // Nobody asks for open requests until the client has closed our input.
        let mut told: Option<usize> = None;
        loop {
            match queue.next(block) {
                Next::Batch(next) => {
                    self.keep(&next.messages(), queue);
                    block = next;
                    if let Some(before) = told {
                        let open = self.open();
                        if open != before {
                            told = Some(open);
                            news(News::Open(open));
                        }
                    }
                }
                Next::Nothing => {
                    block = Block::default();
                    let open = self.open();
                    told = Some(open);
                    news(News::Open(open));
                }
                Next::Closed => return,
            }
        }
    }

    fn keep(&mut self, batch: &[Captured<'_>], queue: &Queue) {
        let off = self.kept.failed.is_some();
        self.guarded(|sink| {
            if off {
                sink.follow(batch);
            } else {
                sink.prepare(batch);
            }
            Ok(())
        });
        if self.kept.failed.is_some() {
            return;
        }
        queue.writing();
        match self.guarded(|sink| sink.append(batch)) {
            Some(Ok(())) => self.kept.captured += batch.len() as u64,
            Some(Err(error)) => {
                let mut why = words(&error);
                let after = batch.first().map_or(0.0, |message| message.at.as_secs_f64());
                let _ = write!(
                    why,
                    "; the session goes on, but of what came after its first {} messages ({after:.1} s) no more is kept \
                     than was just being written",
                    self.kept.captured
                );
                self.fail(why);
            }
            None => {}
        }
    }

    fn end(&mut self, mut ending: Ending) {
        if self.kept.failed.is_none() {
            ending.captured = self.kept.captured;
            if let Some(Err(error)) = self.guarded(|sink| sink.ending(&ending)) {
                self.fail(format!("{}; the end of the recording is not marked", words(&error)));
            }
        }
        if let Some(noting) = self.noting.take() {
            // Standard error may be blocked by a client that does not read it; a warning is not worth hanging for.
            wait_shortly(noting);
        }
    }

    fn open(&mut self) -> usize {
        let mut open = 0;
        self.guarded(|sink| {
            open = sink.open_requests();
            Ok(())
        });
        open
    }

    /// Calls the sink, unless it has panicked before. A panic is a failed recording, not a failed session.
    fn guarded<T>(&mut self, call: impl FnOnce(&mut dyn Sink) -> io::Result<T>) -> Option<io::Result<T>> {
        if self.broken {
            return None;
        }
        match catch_unwind(AssertUnwindSafe(|| call(&mut *self.sink))) {
            Ok(result) => Some(result),
            Err(panic) => {
                self.broken = true;
                if self.kept.failed.is_none() {
                    let why =
                        format!("internal error: {}; nothing is kept from here on", panic_words(&*panic));
                    self.fail(why);
                }
                None
            }
        }
    }

    /// Turns recording off. The warning is given by a thread of its own: this one must go on emptying the queue.
    fn fail(&mut self, why: String) {
        let text = format!("recording stopped: {why}");
        self.kept.failed = Some(why);
        let note = Arc::clone(&self.note);
        self.noting = thread::Builder::new().name("note".to_owned()).spawn(move || note(&text)).ok();
    }
}

fn wait_shortly(noting: JoinHandle<()>) {
    let (done, wait) = crossbeam_channel::bounded::<()>(0);
    let waiter = thread::Builder::new().name("noted".to_owned()).spawn(move || {
        let _ = noting.join();
        drop(done);
    });
    if waiter.is_ok() {
        let _ = wait.recv_timeout(Duration::from_millis(200));
    }
}

fn panic_words(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::queue::Parcel;
    use crate::record::{Exit, From, Reason};
    use std::sync::Mutex;

    #[derive(Default)]
    struct Script {
        fail_after: usize,
        panics: bool,
        seen: Arc<Mutex<Vec<String>>>,
        count: usize,
    }

    impl Sink for Script {
        fn begun(&self) -> Instant {
            Instant::now()
        }

        fn prepare(&mut self, batch: &[Captured<'_>]) {
            self.seen.lock().unwrap().push(format!("prepare {}", batch.len()));
        }
        fn append(&mut self, batch: &[Captured<'_>]) -> io::Result<()> {
            if self.count + batch.len() > self.fail_after {
                assert!(!self.panics, "the sink is broken");
                return Err(io::Error::other("no space left"));
            }
            self.count += batch.len();
            self.seen.lock().unwrap().push(format!("append {}", batch.len()));
            Ok(())
        }
        fn follow(&mut self, batch: &[Captured<'_>]) {
            self.seen.lock().unwrap().push(format!("follow {}", batch.len()));
        }
        fn ending(&mut self, end: &Ending) -> io::Result<()> {
            self.seen.lock().unwrap().push(format!("ending {}", end.captured));
            Ok(())
        }
        fn open_requests(&self) -> usize {
            self.count
        }
    }

    fn record(script: Script) -> (Kept, Vec<String>, Vec<String>, Vec<News>) {
        let queue = Arc::new(Queue::new(Instant::now()));
        let seen = Arc::clone(&script.seen);
        let notes = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&notes);
        let note: Note = Arc::new(move |text| noted.lock().unwrap().push(text.to_owned()));
        let (ending, endings) = crossbeam_channel::bounded(1);
        let (tell, told) = crossbeam_channel::unbounded();
        let news = move |news| tell.send(news).unwrap();
        let thread = start(Arc::clone(&queue), Box::new(script), note, endings, news).unwrap();
        for whole in ["a\nb\n", "c\n", "d\n"] {
            let count = whole.len() / 2;
            queue.push(Parcel {
                from: From::Client,
                carried: None,
                torn: false,
                whole: whole.as_bytes(),
                count,
            });
            queue.nudge();
            assert!(matches!(told.recv().unwrap(), News::Open(_)));
        }
        queue.close();
        let exit = Some(Exit::Code(0));
        ending.send(Ending { reason: Reason::ClientClosed, exit, stderr_tail: vec![], captured: 0 }).unwrap();
        let kept = thread.join().unwrap();
        let lines = std::mem::take(&mut *seen.lock().unwrap());
        let notes = std::mem::take(&mut *notes.lock().unwrap());
        (kept, lines, notes, told.try_iter().collect())
    }

    #[test]
    fn the_sink_gets_everything_and_then_the_ending() {
        let (kept, seen, notes, news) = record(Script { fail_after: 9, ..Script::default() });
        assert_eq!((kept.captured, kept.failed), (4, None));
        assert_eq!(
            seen,
            ["prepare 2", "append 2", "prepare 1", "append 1", "prepare 1", "append 1", "ending 4"]
        );
        assert!(notes.is_empty());
        assert_eq!(news.last(), Some(&News::Done));
    }

    #[test]
    fn whoever_cannot_wait_is_told_how_much_is_written() {
        let (mut sink, written) = Counted::new(Box::new(Script { fail_after: 3, ..Script::default() }));
        let message = || Captured { line: b"{}", from: From::Client, torn: false, at: Duration::ZERO };
        for (count, succeeds, total) in [(2, true, 2), (1, true, 3), (1, false, 3)] {
            let batch: Vec<Captured<'_>> = (0..count).map(|_| message()).collect();
            sink.prepare(&batch);
            assert_eq!(sink.append(&batch).is_ok(), succeeds);
            assert_eq!(written.load(Ordering::SeqCst), total);
        }
        assert_eq!(sink.open_requests(), 3);
    }

    #[test]
    fn a_failed_append_turns_recording_off_with_one_warning() {
        let (kept, seen, notes, _) = record(Script { fail_after: 2, ..Script::default() });
        assert_eq!(kept.captured, 2);
        assert!(kept.failed.unwrap().starts_with("no space left; the session goes on"));
        assert_eq!(seen, ["prepare 2", "append 2", "prepare 1", "follow 1"]);
        assert_eq!(notes.len(), 1);
        assert!(
            notes[0]
                .contains("after its first 2 messages (0.0 s) no more is kept than was just being written"),
            "{notes:?}"
        );
    }

    #[test]
    fn a_panic_of_the_sink_is_a_failed_recording() {
        let (kept, seen, notes, _) = record(Script { fail_after: 2, panics: true, ..Script::default() });
        assert_eq!((kept.captured, seen.len(), notes.len()), (2, 3, 1));
        assert!(kept.failed.unwrap().contains("the sink is broken"));
    }
}
