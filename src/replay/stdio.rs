//! Replay over pipes: one client on standard input and output.
//!
//! A reader thread and a writer thread own the pipes; this thread plays. So a client that does not read never keeps
//! us from seeing a signal, and one that writes everything before it reads does not stop us from answering.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select, unbounded};

use super::player::{Output, Player};
use super::session::Ordinal;
use crate::error::{Error, Result};
use crate::stdio::lines::{Lines, split};

/// How much is read at once.
const CHUNK: usize = 64 << 10;
/// How many bytes may wait for the client before its requests have to wait too.
const BACKLOG: usize = 64 << 20;
/// How long the last answers may stand still before a client that has closed its side is taken to be gone.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Why a replay ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The client closed our input.
    EndOfInput,
    /// The client stopped reading.
    OutputClosed,
    /// A signal reached us.
    Signal(i32),
    /// The recorded server ended here.
    ServerEnded,
}

impl Ended {
    /// For the report.
    #[must_use]
    pub fn words(self) -> String {
        match self {
            Self::EndOfInput => "end of input".to_owned(),
            Self::OutputClosed => "output closed".to_owned(),
            Self::Signal(signal) => format!("signal {signal}"),
            Self::ServerEnded => "the recorded server ended".to_owned(),
        }
    }
}

/// Plays to the client on `input` and `output` until one of the reasons in [`Ended`].
pub fn serve(
    player: &mut Player,
    ordinal: Ordinal,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    signals: &Receiver<i32>,
    note: &dyn Fn(&str),
) -> Result<Ended> {
    let lines = read_lines(input)?;
    let mut writer = Writer::start(output)?;
    let session = player.open(ordinal);
    let started = Instant::now();
    let now = || u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let idle = never();
    loop {
        let wait = player
            .next_deadline()
            .map_or(Duration::from_hours(1), |at| Duration::from_micros(at.saturating_sub(now())));
        let readable = if writer.waiting() < BACKLOG { &lines } else { &idle };
        select! {
            recv(readable) -> lines => match lines {
                Ok(lines) => lines.iter().for_each(|line| player.receive(session, line, now())),
                Err(_) => {
                    player.end_of_input(session, now());
                    let ended = pass_on(player, &mut writer, note).unwrap_or(Ended::EndOfInput);
                    return Ok(writer.finish(signals, ended));
                }
            },
            recv(signals) -> signal => return Ok(Ended::Signal(signal.unwrap_or_default())),
            recv(writer.news) -> news => {
                if news.is_err() {
                    return Ok(Ended::OutputClosed);
                }
            }
            default(wait) => {}
        }
        player.tick(now());
        if let Some(ended) = pass_on(player, &mut writer, note) {
            return Ok(writer.finish(signals, ended));
        }
    }
}

/// Hands what the player decided to the writer and to the user.
fn pass_on(player: &mut Player, writer: &mut Writer, note: &dyn Fn(&str)) -> Option<Ended> {
    let mut ended = None;
    for output in player.outputs() {
        match output {
            Output::Message { text, alone, .. } => writer.push(&text, alone),
            Output::Note(text) => note(&text),
            Output::Begins { .. } | Output::Pause { .. } | Output::Over { .. } => {}
            Output::EndOfStream { .. } => {
                ended = Some(Ended::ServerEnded);
                break;
            }
        }
    }
    writer.flush();
    ended
}

fn thread_failed(source: io::Error) -> Error {
    Error::Io { doing: "start a thread for", path: "replay".into(), source }
}

/// Reads lines on a thread of its own; the channel closes at the end of input.
fn read_lines(mut input: impl Read + Send + 'static) -> Result<Receiver<Vec<Vec<u8>>>> {
    let (sender, receiver) = bounded(64);
    let read = move || {
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        loop {
            let size = match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(size) => size,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let cut = lines.cut(chunk.get(..size).unwrap_or_default(), usize::MAX);
            // A long line is not copied once more.
            let found: Vec<Vec<u8>> =
                cut.carried.into_iter().chain(split(cut.whole).map(<[u8]>::to_vec)).collect();
            if !found.is_empty() && sender.send(found).is_err() {
                return;
            }
        }
        if let Some(last) = lines.finish() {
            let _ = sender.send(vec![last]);
        }
    };
    thread::Builder::new().name("client input".to_owned()).spawn(read).map_err(thread_failed)?;
    Ok(receiver)
}

/// Collects messages into writes. Messages may share one, except that nothing follows a progress notification in
/// its write: TypeScript clients drop progress that they read together with the result.
struct Writer {
    buffer: Vec<u8>,
    writes: Option<Sender<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
    /// A word after every write; closed when the client has stopped reading.
    news: Receiver<()>,
}

impl Writer {
    fn start(mut output: impl Write + Send + 'static) -> Result<Self> {
        let (writes, queue) = unbounded::<Vec<u8>>();
        let (done, news) = bounded(1);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&waiting);
        let write = move || {
            for bytes in queue {
                if output.write_all(&bytes).and_then(|()| output.flush()).is_err() {
                    return;
                }
                counter.fetch_sub(bytes.len(), Ordering::Relaxed);
                // One word is enough, however many writes it stands for.
                let _ = done.try_send(());
            }
            // Keeps the channel of news open until everything is out.
            drop(done);
        };
        thread::Builder::new().name("client output".to_owned()).spawn(write).map_err(thread_failed)?;
        Ok(Self { buffer: Vec::new(), writes: Some(writes), waiting, news })
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn push(&mut self, text: &str, alone: bool) {
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(b'\n');
        if alone || self.buffer.len() >= CHUNK {
            self.flush();
        }
    }

    fn flush(&mut self) {
        if self.buffer.is_empty() {
            return;
        }
        let bytes = std::mem::take(&mut self.buffer);
        self.waiting.fetch_add(bytes.len(), Ordering::Relaxed);
        if let Some(writes) = &self.writes {
            let _ = writes.send(bytes);
        }
    }

    /// Lets the last answers out, as long as the client takes them.
    fn finish(mut self, signals: &Receiver<i32>, ended: Ended) -> Ended {
        self.writes = None;
        loop {
            select! {
                recv(self.news) -> news => {
                    if news.is_err() {
                        return if self.waiting() == 0 { ended } else { Ended::OutputClosed };
                    }
                }
                recv(signals) -> signal => return Ended::Signal(signal.unwrap_or_default()),
                default(PATIENCE) => return ended,
            }
        }
    }
}
