//! Recording one server over standard input and output, from its start to the last byte.
//!
//! Threads: one pump per pipe, the recorder, one that waits for processes, one for signals, one that watches our own
//! standard input and output. They all report to the thread that started the server, which does nothing but wait for
//! events and deadlines. Threads that hang in a read or write when all is over are left behind; the process ends.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

use super::pump::{LONGEST, Tail, Way};
use super::queue::Queue;
use super::recorder::{self, Kept, News, Note};
use super::{Ending, From, Outcome, Reason, Sink};
use crate::error::{Error, Result};
use crate::exit;
use crate::stdio::child::{self, Child, Exit};
use crate::stdio::ends::{self, Ends, Gone, Output};
use crate::stdio::signals::{self, Caught};
use crate::stdio::tree::{self, Ended, Process, Stop};

/// A server that has seen the end of its input gets so long to leave by itself.
const AFTER_INPUT: Duration = Duration::from_millis(1200);
/// When we are told to end, the server has often been told too, with the whole process group.
const AFTER_SIGNAL: Duration = Duration::from_millis(200);
/// From SIGTERM to SIGKILL.
const AFTER_TERMINATE: Duration = Duration::from_millis(400);
/// From SIGKILL to giving up on a process that the kernel does not let go of.
const AFTER_KILL: Duration = Duration::from_millis(200);
/// A client that has closed our input and takes nothing for so long will take nothing any more.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long a grandchild may hold the pipes of a server that has ended.
const AFTER_EXIT: Duration = Duration::from_millis(500);

/// A recorder that catches signals and has no server yet. It is made before there is anything on disk or any process
/// that a signal would leave behind.
#[derive(Debug)]
pub struct Ready {
    events: Sender<Event>,
    news: Receiver<Event>,
    caught: Caught,
}

/// Catches signals from now on. To be called once in a process.
///
/// # Errors
///
/// [`Error::Failed`] when the system refuses.
pub fn ready() -> Result<Ready> {
    let (events, news) = crossbeam_channel::unbounded();
    let signalled = events.clone();
    let caught = signals::watch(move |signal| report(&signalled, Event::Signal(signal, Instant::now())))
        .map_err(Error::failed("watch for signals"))?;
    Ok(Ready { events, news, caught })
}

/// Ends a recorder made by [`inside`].
#[derive(Debug, Clone)]
pub struct Stopper(Sender<Event>);

impl Stopper {
    /// Ends it as a signal of that number would.
    pub fn signal(&self, signal: i32) {
        report(&self.0, Event::Signal(signal, Instant::now()));
    }
}

/// A recorder for [`Ready::run_between`], and what tells it of signals.
#[must_use]
pub fn inside() -> (Ready, Stopper) {
    let (events, news) = crossbeam_channel::unbounded();
    let stopper = Stopper(events.clone());
    (Ready { events, news, caught: Caught::default() }, stopper)
}

impl Ready {
    /// Starts a server, stands between it and our own standard input, output and error, and returns when the session
    /// is over and everything is written. Takes standard output over for good: what others print there is lost.
    ///
    /// To be called on the main thread: the kernel ends the server with the thread that started it.
    ///
    /// # Errors
    ///
    /// Those of [`child::spawn`]; [`Error::Failed`] when the system gives no thread or handle, and then the server is
    /// ended.
    pub fn run(self, command: &[OsString], sink: Box<dyn Sink>, note: Note) -> Result<Outcome> {
        let gone = self.events.clone();
        self.run_at(command, sink, note, || ends::take(move |end| report(&gone, Event::Gone(end))))
    }

    /// The same for a client that is this program itself, at the other ends of two pipes. To be called on a thread that
    /// has nothing else to do.
    ///
    /// # Errors
    ///
    /// Those of [`Ready::run`].
    pub fn run_between(
        self,
        command: &[OsString],
        sink: Box<dyn Sink>,
        note: Note,
        (input, output): (PipeReader, PipeWriter),
    ) -> Result<Outcome> {
        self.run_at(command, sink, note, || Ends::of_pipes(input, output))
    }

    fn run_at(
        self,
        command: &[OsString],
        sink: Box<dyn Sink>,
        note: Note,
        ends: impl FnOnce() -> io::Result<Ends>,
    ) -> Result<Outcome> {
        let Child { stdin, stdout, stderr, mut process } = child::spawn(command)?;
        let pipes = (stdin, stdout, stderr);
        let begun =
            ends().and_then(|ends| Session::begin(&self, ends, pipes, sink, note)).and_then(|parts| {
                let tell = self.events.clone();
                process.wait(move |ended| report(&tell, Event::Ended(ended)))?;
                Ok(parts)
            });
        match begun {
            Ok((mut session, recorder, endings)) => {
                session.last(&self.news, &process);
                Ok(session.finish(&self.news, recorder, &endings))
            }
            Err(error) => {
                process.stop(Stop::Kill);
                Err(Error::failed("start recording")(error))
            }
        }
    }
}

#[derive(Debug, Clone, Copy)]
enum Event {
    InputEnded,
    OutputEnded,
    OutputBroke,
    ErrorsEnded,
    Gone(Gone),
    /// With the moment it came at.
    Signal(i32, Instant),
    Ended(Ended),
    Recorder(News),
}

/// How far the end has come.
#[derive(Debug, Clone, Copy)]
enum Phase {
    Running,
    /// The client has closed our input. The clock runs since then, unless requests are open; with it goes what the
    /// server had been given at that time.
    Draining(Option<(Instant, u64)>),
    /// SIGTERM is due.
    Stopping(Instant),
    /// SIGKILL is due.
    Terminated(Instant),
    /// Giving up is due.
    Killed(Instant),
    /// The server has ended; what is left may take until then.
    Leaving(Instant),
    Over,
}

struct Session {
    queue: Arc<Queue>,
    to_server: Arc<Way<PipeWriter>>,
    to_client: Arc<Way<Output>>,
    tail: Arc<Tail>,
    /// A second handle to the server's output, to see what is still in it.
    output: PipeReader,
    phase: Phase,
    reason: Option<Reason>,
    signal: Option<i32>,
    caught: Caught,
    /// The signal was seen before the event that reports it.
    unreported: bool,
    exit: Option<Exit>,
    output_ended: bool,
    errors_ended: bool,
    /// Those that got SIGTERM, and when those that are left get SIGKILL.
    told: Option<(Vec<u32>, Instant)>,
    /// The server ended after we told it to.
    obeyed: bool,
    /// How many bytes had reached the client when that number was last seen to grow, and when that was.
    seen_passed: (u64, Instant),
    /// So many bytes have to reach the client: what the server had written when it ended.
    owed: u64,
    /// Messages that are written.
    written: Arc<AtomicU64>,
    note: Note,
}

type Parts = (Session, thread::JoinHandle<Kept>, Sender<Ending>);

fn report(events: &Sender<Event>, event: Event) {
    // Nobody listens any more when all is over.
    let _ = events.send(event);
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

impl Session {
    fn begin(
        ready: &Ready,
        Ends { input, output, errors }: Ends,
        (stdin, stdout, stderr): (PipeWriter, PipeReader, PipeReader),
        sink: Box<dyn Sink>,
        note: Note,
    ) -> io::Result<Parts> {
        let events = &ready.events;
        let tell = |event: fn() -> Event| {
            let events = events.clone();
            move || report(&events, event())
        };
        let queue = Arc::new(Queue::new(sink.begun()));
        let (ending, endings) = crossbeam_channel::bounded(1);
        let told = events.clone();
        let (sink, written) = recorder::Counted::new(sink);
        let recorder = recorder::start(Arc::clone(&queue), sink, Arc::clone(&note), endings, move |news| {
            report(&told, Event::Recorder(news));
        })?;
        let session = Self {
            to_server: Arc::new(Way::new(From::Client, stdin)),
            to_client: Arc::new(Way::new(From::Server, output)),
            tail: Arc::default(),
            output: stdout.try_clone()?,
            queue,
            phase: Phase::Running,
            reason: None,
            signal: None,
            caught: ready.caught.clone(),
            unreported: false,
            exit: None,
            output_ended: false,
            errors_ended: false,
            told: None,
            obeyed: false,
            seen_passed: (0, Instant::now()),
            owed: 0,
            written,
            note,
        };
        let (way, queue, ended) =
            (Arc::clone(&session.to_client), Arc::clone(&session.queue), tell(|| Event::OutputEnded));
        let broke = tell(|| Event::OutputBroke);
        spawn("output", move || {
            way.pump(stdout, &queue, broke);
            ended();
        })?;
        let (tail, ended) = (Arc::clone(&session.tail), tell(|| Event::ErrorsEnded));
        spawn("errors", move || {
            tail.pump(stderr, errors);
            ended();
        })?;
        let (way, queue, ended) =
            (Arc::clone(&session.to_server), Arc::clone(&session.queue), tell(|| Event::InputEnded));
        spawn("input", move || {
            // A server that has closed its input ends, or goes on without us minding.
            way.pump(input, &queue, || {});
            ended();
        })?;
        Ok((session, recorder, ending))
    }

    /// Lasts until the server has ended and what it left behind is through.
    fn last(&mut self, news: &Receiver<Event>, process: &Process) {
        while !matches!(self.phase, Phase::Over) {
            let event = match self.deadline() {
                Some(deadline) => news.recv_deadline(deadline),
                None => news.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            match event {
                Ok(event) => self.on(event),
                Err(RecvTimeoutError::Timeout) => self.on_deadline(process),
                Err(RecvTimeoutError::Disconnected) => self.phase = Phase::Over,
            }
            self.leave_if_done();
        }
    }

    fn deadline(&self) -> Option<Instant> {
        match self.phase {
            Phase::Running | Phase::Over | Phase::Draining(None) => None,
            Phase::Draining(Some((since, _))) => Some(since + AFTER_INPUT),
            Phase::Stopping(at) | Phase::Terminated(at) | Phase::Killed(at) => Some(at),
            Phase::Leaving(at) => Some(self.told.as_ref().map_or(at, |(_, kill)| at.min(*kill))),
        }
    }

    fn on(&mut self, event: Event) {
        match event {
            Event::InputEnded | Event::Gone(Gone::Input) => {
                self.because(Reason::ClientClosed);
                if matches!(self.phase, Phase::Running) {
                    self.phase = Phase::Draining(None);
                    // The clock starts with the answer.
                    self.queue.nudge();
                }
            }
            Event::Recorder(News::Open(open)) => {
                if matches!(self.phase, Phase::Draining(_)) {
                    let clock = (Instant::now(), self.to_server.passed());
                    self.phase = Phase::Draining((open == 0).then_some(clock));
                }
            }
            Event::OutputBroke | Event::Gone(Gone::Output) => {
                self.owed = 0;
                self.because(Reason::OutputClosed);
                self.stop_soon();
            }
            Event::Signal(signal, _) => {
                self.owed = 0;
                self.signal.get_or_insert(signal);
                self.unreported = false;
                self.because(Reason::Signal(signal));
                self.stop_soon();
            }
            Event::Ended(Ended::Process(exit)) => {
                if self.signal.is_none() {
                    self.signal = self.caught.last();
                    self.unreported = self.signal.is_some();
                }
                self.because(self.signal.map_or(Reason::ServerExited, Reason::Signal));
                self.exit = Some(exit);
                self.obeyed |= self.told.is_some();
                if self.signal.is_none() && !matches!(self.reason, Some(Reason::OutputClosed)) {
                    self.owed = self.to_client.taken() + ends::waiting(&self.output);
                    self.seen_passed = (self.to_client.passed(), Instant::now());
                }
                self.phase = Phase::Leaving(Instant::now() + AFTER_EXIT);
            }
            Event::OutputEnded => self.output_ended = true,
            Event::ErrorsEnded => self.errors_ended = true,
            // An orphan may have been what is waited for: the check after each event sees to it.
            Event::Ended(Ended::Orphan) | Event::Recorder(News::Done) => {}
        }
    }

    fn because(&mut self, reason: Reason) {
        self.reason.get_or_insert(reason);
    }

    fn stop_soon(&mut self) {
        if matches!(self.phase, Phase::Running | Phase::Draining(_)) {
            self.to_server.close(&self.queue);
            self.phase = Phase::Stopping(Instant::now() + AFTER_SIGNAL);
        }
    }

    fn on_deadline(&mut self, process: &Process) {
        let now = Instant::now();
        match self.phase {
            Phase::Draining(Some((_, given))) if self.to_server.passed() != given => {
                // The client is gone, but the server is still reading what it left behind.
                self.phase = Phase::Draining(Some((now, self.to_server.passed())));
            }
            Phase::Draining(_) | Phase::Stopping(_) => {
                self.to_server.close(&self.queue);
                let kill = now + AFTER_TERMINATE;
                self.told = Some((process.stop(Stop::Terminate), kill));
                self.phase = Phase::Terminated(kill);
            }
            Phase::Terminated(_) => {
                process.stop(Stop::Kill);
                self.told = None;
                self.obeyed = true;
                self.phase = Phase::Killed(now + AFTER_KILL);
            }
            Phase::Killed(_) => self.phase = Phase::Over,
            Phase::Leaving(at) => {
                if self.told.as_ref().is_some_and(|(_, kill)| *kill <= now) {
                    tree::terminate(&self.still_there(), Stop::Kill);
                    self.told = None;
                }
                // A slow client still gets what is its due: it would find it in the pipe if we were not there.
                if at <= now {
                    let passed = self.to_client.passed();
                    if passed != self.seen_passed.0 {
                        self.seen_passed = (passed, now);
                    }
                    let left = self.reason == Some(Reason::ClientClosed);
                    let gone = left && now.duration_since(self.seen_passed.1) > PATIENCE;
                    let owing = passed < self.owed && !gone;
                    self.phase = if owing { Phase::Leaving(now + AFTER_EXIT) } else { Phase::Over };
                }
            }
            Phase::Running | Phase::Over => {}
        }
    }

    /// Those who got SIGTERM and are still there.
    fn still_there(&self) -> Vec<u32> {
        let told = self.told.as_ref().map_or(&[][..], |(told, _)| told);
        tree::descendants().into_iter().filter(|pid| told.contains(pid)).collect()
    }

    fn leave_if_done(&mut self) {
        if matches!(self.phase, Phase::Leaving(_)) {
            if self.told.is_some() && self.still_there().is_empty() {
                self.told = None;
            }
            if self.told.is_none() && self.output_ended && self.errors_ended {
                self.phase = Phase::Over;
            }
        }
    }

    fn finish(
        self,
        news: &Receiver<Event>,
        recorder: thread::JoinHandle<Kept>,
        endings: &Sender<Ending>,
    ) -> Outcome {
        self.to_server.close(&self.queue);
        self.to_client.close(&self.queue);
        let failed =
            self.signal.is_none() && !self.obeyed && self.exit.is_some_and(|exit| !exit.is_success());
        let stderr_tail = if failed { self.tail.lines() } else { Vec::new() };
        let reason = self.reason.unwrap_or(Reason::ServerExited);
        let ending = Ending { reason, exit: self.exit, stderr_tail, captured: 0 };
        // One place is free: this is the only ending.
        let _ = endings.try_send(ending.clone());
        self.queue.close();
        if self.to_server.has_lost() || self.to_client.has_lost() {
            (self.note)(&format!(
                "warning: a line of more than {} MiB was passed on; only its beginning is in the cassette",
                LONGEST >> 20
            ));
        }

        let begun = Instant::now();
        let mut signal = self.signal;
        let mut unreported = self.unreported;
        let written = loop {
            match news.recv() {
                Ok(Event::Recorder(News::Done)) | Err(_) => break true,
                Ok(Event::Signal(..)) if unreported => unreported = false,
                Ok(Event::Signal(number, _)) if signal.is_none() => signal = Some(number),
                // Someone is in a hurry and the disk is not. Signals shortly one after the other are one wish.
                Ok(Event::Signal(_, at)) if at.saturating_duration_since(begun) > recorder::SAME_WISH => {
                    break false;
                }
                Ok(_) => {}
            }
        };
        let kept = if written { recorder.join().ok() } else { None };
        let kept = kept.unwrap_or_else(|| {
            (self.note)(&format!("recording stopped: {}", recorder::GIVEN_UP));
            Kept {
                captured: self.written.load(Ordering::SeqCst),
                failed: Some(recorder::GIVEN_UP.to_owned()),
            }
        });
        let mut outcome = Outcome::new(&ending, signal, kept.failed, kept.captured);
        if let Some(kind) = self.to_client.unwritten() {
            (self.note)(&format!("answers could not be written to standard output: {kind}"));
            if outcome.exit == exit::OK {
                outcome.exit = exit::WRAPPER_FAILED;
            }
        }
        outcome
    }
}
