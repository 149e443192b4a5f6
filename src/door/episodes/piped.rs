//! A live server that we start, between two pipes of which this program holds the other ends.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, never, select, unbounded};

use super::{Finished, Place, Say};
use crate::error::{Error, Result};
use crate::exit;
use crate::record::Outcome;
use crate::record::segment::Segment;
use crate::record::stdio::{Stopper, inside};
use crate::record::writer::Source;
use crate::replay::behind::{LiveServer, Wire};
use crate::stdio::child;
use crate::stdio::lines::{Lines, split};

/// How much is read at once.
const CHUNK: usize = 64 << 10;

/// How long a server may take to end when its client has left.
const PATIENCE: Duration = Duration::from_secs(5);
/// The number of SIGTERM, the same everywhere.
const TERMINATE: i32 = 15;

/// A server that is started at the first request that was not recorded.
pub struct Piped {
    place: Place,
    command: Vec<OsString>,
    say: Say,
    running: Option<Running>,
    outcome: Option<Outcome>,
    /// The status for a server that could not be started.
    failed: Option<u8>,
}

struct Running {
    thread: JoinHandle<Result<Outcome>>,
    stopper: Stopper,
    /// Closed when the thread has ended.
    done: Receiver<()>,
}

impl std::fmt::Debug for Piped {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Piped").field("command", &self.command).finish_non_exhaustive()
    }
}

impl Piped {
    /// One that is not started yet.
    #[must_use]
    pub fn new(place: Place, command: &[OsString], say: Say) -> Self {
        Self { place, command: command.to_vec(), say, running: None, outcome: None, failed: None }
    }

    fn begin(&mut self) -> Result<Wire> {
        self.command.first().map_or(Ok(()), |program| child::find(program).map(drop))?;
        let words = self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        let start = self.place.start(Source::Command(words))?;
        let segment =
            Segment::start(start).map_err(Error::io("write the recording", &self.place.cassette))?;
        let system = Error::failed("start a server");
        let (input, to_input) = io::pipe().map_err(system)?;
        let (from_output, output) = io::pipe().map_err(system)?;
        let (ready, stopper) = inside();
        let (ended, done) = bounded::<()>(0);
        let (command, say) = (self.command.clone(), self.say.clone());
        let thread = named("live server")
            .spawn(move || {
                let _ended = ended;
                ready.run_between(&command, Box::new(segment), say, (input, output))
            })
            .map_err(system)?;
        self.running = Some(Running { thread, stopper, done });
        let to = write_lines(to_input).map_err(system)?;
        let from = read_lines(from_output).map_err(system)?;
        Ok(Wire { to, from })
    }

    /// Waits for the server to end.
    fn join(&mut self) {
        let Some(Running { thread, .. }) = self.running.take() else { return };
        match thread.join() {
            Ok(Ok(outcome)) => self.outcome = Some(outcome),
            Ok(Err(error)) => {
                (self.say)(&error.to_string());
                self.failed = Some(status_of(&error));
            }
            Err(_) => self.failed = Some(exit::WRAPPER_FAILED),
        }
    }

    /// Ends the server, at once where a signal has come, and completes the cassette.
    #[must_use]
    pub fn finish(mut self, signal: Option<i32>, signals: &Receiver<i32>) -> Finished {
        if let Some(Running { stopper, done, .. }) = &self.running {
            signal.into_iter().for_each(|signal| stopper.signal(signal));
            let (mut told, quiet) = (signals, never());
            loop {
                select! {
                    recv(done) -> _ => break,
                    recv(told) -> signal => match signal {
                        Ok(signal) => stopper.signal(signal),
                        Err(_) => told = &quiet,
                    },
                    // It holds back answers that no client waits for.
                    default(PATIENCE) => stopper.signal(TERMINATE),
                }
            }
        }
        self.join();
        let outcome = self.outcome.as_ref();
        let captured = outcome.map_or(0, |outcome| outcome.captured);
        let failed = outcome.and_then(|outcome| outcome.recording_failed.clone());
        Finished::of(self.place, captured, failed, self.failed)
    }
}

impl LiveServer for Piped {
    fn start(&mut self) -> std::result::Result<Wire, String> {
        self.begin().map_err(|error| {
            self.failed = Some(status_of(&error));
            error.to_string()
        })
    }

    fn ended(&mut self) -> String {
        self.join();
        match self.outcome.as_ref().and_then(|outcome| outcome.server) {
            Some(how) => format!("the live server ended ({how})"),
            None => "the live server ended".to_owned(),
        }
    }
}

/// Around a command, what we could not do has a status of its own.
fn status_of(error: &Error) -> u8 {
    match error {
        Error::NotFound(_) | Error::CannotRun { .. } => error.code(),
        _ => exit::WRAPPER_FAILED,
    }
}

fn named(name: &str) -> thread::Builder {
    thread::Builder::new().name(name.to_owned())
}

/// Writes lines on a thread of its own, until the sender is gone.
fn write_lines(mut pipe: PipeWriter) -> io::Result<Sender<String>> {
    let (to, lines) = unbounded::<String>();
    named("live input").spawn(move || {
        for line in lines {
            if pipe.write_all((line + "\n").as_bytes()).is_err() {
                return;
            }
        }
    })?;
    Ok(to)
}

/// Reads lines on a thread of its own. It goes on when nobody wants them any more: a server that is about to end is not
/// to be killed by its own last words.
fn read_lines(mut pipe: PipeReader) -> io::Result<Receiver<Vec<Vec<u8>>>> {
    let (told, from) = bounded(64);
    named("live output").spawn(move || {
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            let size = match pipe.read(&mut chunk) {
                Ok(0) => break,
                Ok(size) => size,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let cut = lines.cut(chunk.get(..size).unwrap_or_default(), usize::MAX);
            let found: Vec<Vec<u8>> =
                cut.carried.into_iter().chain(split(cut.whole).map(<[u8]>::to_vec)).collect();
            if !found.is_empty() {
                let _ = told.send(found);
            }
        }
        if let Some(last) = lines.finish() {
            let _ = told.send(vec![last]);
        }
    })?;
    Ok(from)
}
