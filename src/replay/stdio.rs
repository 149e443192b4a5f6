//! Replay over pipes: one client on standard input and output.
//!
//! A reader thread and a writer thread own the pipes; this thread plays. So a client that does not read never keeps
//! us from seeing a signal, and one that writes everything before it reads does not stop us from answering.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, never, select, unbounded};

use super::Aside;
use super::behind::{Behind, LiveServer};
use super::faults::effect::{Act, half};
use super::pace::Drip;
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
    /// A fault ended it, with this status.
    Fault(u8),
    /// Our input cannot be read any more.
    InputFailed(io::ErrorKind),
    /// An answer could not be written, and not because the client stopped reading.
    OutputFailed(io::ErrorKind),
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
            Self::Fault(status) => format!("a fault, status {status}"),
            Self::InputFailed(kind) => format!("input failed: {kind}"),
            Self::OutputFailed(kind) => format!("output failed: {kind}"),
        }
    }

    /// What went wrong, for the user.
    #[must_use]
    pub fn failure(self) -> Option<String> {
        match self {
            Self::InputFailed(kind) => Some(format!("standard input cannot be read: {kind}")),
            Self::OutputFailed(kind) => {
                Some(format!("answers could not be written to standard output: {kind}"))
            }
            _ => None,
        }
    }

    /// What an error of a write says.
    fn of_write(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Self::OutputClosed,
            kind => Self::OutputFailed(kind),
        }
    }
}

/// Plays to the client on `input` and `output` until one of the reasons in [`Ended`]. What the player does not answer goes
/// to the live server, if there is one.
pub fn serve(
    player: &mut Player,
    ordinal: Ordinal,
    input: impl Read + Send + 'static,
    output: impl Write + Send + 'static,
    signals: &Receiver<i32>,
    aside: &Aside,
    live: Option<&mut dyn LiveServer>,
) -> Result<Ended> {
    let mut behind = Behind::new(live);
    let lines = read_lines(input)?;
    let mut writer = Writer::start(output)?;
    let session = player.open(ordinal);
    let started = Instant::now();
    let now = || u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let (idle, quiet) = (never(), never());
    // What is left to say before that.
    let mut ending = None;
    // The client has said all, and waits for the live server.
    let mut waiting = false;
    let mut said_all = Ended::EndOfInput;
    loop {
        let next = player.next_deadline().into_iter().chain(writer.next(now())).min();
        let wait = next.map_or(Duration::from_hours(1), |at| Duration::from_micros(at.saturating_sub(now())));
        let takes = writer.waiting() < BACKLOG && ending.is_none();
        let readable = if takes && !waiting { &lines } else { &idle };
        let heard = behind.lines().filter(|_| takes).cloned();
        select! {
            recv(readable) -> lines => match lines {
                Ok(Ok(lines)) => lines.iter().for_each(|line| player.receive(session, line, now())),
                // What was asked before is answered all the same.
                Ok(Err(kind)) => said_all = Ended::InputFailed(kind),
                Err(_) => waiting = true,
            },
            recv(heard.as_ref().unwrap_or(&quiet)) -> lines => match lines {
                Ok(lines) => lines.iter().for_each(|line| player.live_says(session, None, line)),
                Err(_) => behind.has_ended(player, session, aside),
            },
            recv(signals) -> signal => return Ok(Ended::Signal(signal.unwrap_or_default())),
            recv(writer.news) -> news => {
                if let Ok(Err(error)) = news {
                    return Ok(Ended::of_write(&error));
                }
            }
            default(wait) => {}
        }
        writer.drip(now());
        if ending.is_none() {
            player.tick(now());
            ending = pass_on(player, &mut writer, &mut behind, aside, now());
        }
        if waiting && ending.is_none() && player.awaited(session) == 0 {
            player.end_of_input(session, now());
            let ended = pass_on(player, &mut writer, &mut behind, aside, now());
            writer.rush();
            return Ok(writer.finish(signals, ended.unwrap_or(said_all)));
        }
        if let Some(ended) = ending
            && writer.slow.is_none()
        {
            return Ok(writer.finish(signals, ended));
        }
    }
}

/// Hands what the player decided to the writer and to the user.
fn pass_on(
    player: &mut Player,
    writer: &mut Writer,
    behind: &mut Behind<'_>,
    aside: &Aside,
    now: u64,
) -> Option<Ended> {
    let mut ended = None;
    loop {
        let outputs: Vec<Output> = player.outputs().collect();
        if outputs.is_empty() || ended.is_some() {
            break;
        }
        ended = hand_on(outputs, player, writer, behind, aside, now);
    }
    writer.flush();
    ended
}

fn hand_on(
    outputs: Vec<Output>,
    player: &mut Player,
    writer: &mut Writer,
    behind: &mut Behind<'_>,
    aside: &Aside,
    now: u64,
) -> Option<Ended> {
    let mut ended = None;
    for output in outputs {
        match output {
            Output::Message { text, alone, .. } => writer.push(text, alone, now),
            Output::Note(text) => (aside.note)(&text),
            Output::Detail(text) => (aside.detail)(&text),
            Output::Begins { .. } | Output::Pause { .. } | Output::Over { .. } | Output::HangUp { .. } => {}
            Output::Onward { session, id, text, .. } => behind.send(player, session, id.as_deref(), text),
            Output::EndOfStream { .. } => ended = Some(Ended::ServerEnded),
            Output::Fault(effect) => match effect.act {
                Act::Slow { rate, id } => writer.rate = Some((rate, id)),
                Act::Hurry(id) => writer.hurry(&id, now),
                Act::Half(text) => writer.push(half(&text).to_owned(), false, now),
                Act::Hangup(text) => {
                    writer.push(text, false, now);
                    ended = Some(Ended::Fault(0));
                }
                Act::Noise(text) => (aside.noise)(&text),
                Act::Reset => ended = Some(Ended::Fault(0)),
                Act::Exit(status) => ended = Some(Ended::Fault(status)),
                // These are about HTTP.
                Act::Head { .. } | Act::Status { .. } | Act::Expired | Act::Break => {}
            },
        }
        if ended.is_some() {
            break;
        }
    }
    ended
}

fn thread_failed(source: io::Error) -> Error {
    Error::Io { doing: "start a thread for", path: "replay".into(), source }
}

/// Lines, or why there are no more.
type Heard = std::result::Result<Vec<Vec<u8>>, io::ErrorKind>;

/// Reads lines on a thread of its own; the channel closes at the end of input.
fn read_lines(mut input: impl Read + Send + 'static) -> Result<Receiver<Heard>> {
    let (sender, receiver) = bounded(64);
    let read = move || {
        let mut lines = Lines::default();
        let mut chunk = vec![0; CHUNK];
        let mut failed = None;
        loop {
            let size = match input.read(&mut chunk) {
                Ok(0) => break,
                Ok(size) => size,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // A socket whose client has died.
                Err(error) if error.kind() == io::ErrorKind::ConnectionReset => break,
                Err(error) => {
                    failed = Some(error.kind());
                    break;
                }
            };
            let cut = lines.cut(chunk.get(..size).unwrap_or_default(), usize::MAX);
            // A long line is not copied once more.
            let found: Vec<Vec<u8>> =
                cut.carried.into_iter().chain(split(cut.whole).map(<[u8]>::to_vec)).collect();
            if !found.is_empty() && sender.send(Ok(found)).is_err() {
                return;
            }
        }
        if let Some(last) = lines.finish() {
            let _ = sender.send(Ok(vec![last]));
        }
        if let Some(kind) = failed {
            let _ = sender.send(Err(kind));
        }
    };
    thread::Builder::new().name("client input".to_owned()).spawn(read).map_err(thread_failed)?;
    Ok(receiver)
}

/// Bytes per second, and the id of the request whose message goes out at them.
type Rate = (u64, String);

/// A message that goes out slowly, and how much of it has.
struct Slow {
    /// The id of the request.
    id: String,
    bytes: Vec<u8>,
    sent: usize,
    drip: Drip,
}

/// Collects messages into writes. Messages may share one, except that nothing follows a progress notification in
/// its write: TypeScript clients drop progress that they read together with the result.
struct Writer {
    buffer: Vec<u8>,
    writes: Option<Sender<Vec<u8>>>,
    waiting: Arc<AtomicUsize>,
    /// A word after every write, and why there are no more; closed when there was nothing left to write.
    news: Receiver<io::Result<()>>,
    /// The bytes per second of the next message, and its request.
    rate: Option<Rate>,
    slow: Option<Slow>,
    /// What waits behind it, with `alone` and the rate.
    behind: VecDeque<(String, bool, Option<Rate>)>,
}

impl Writer {
    fn start(mut output: impl Write + Send + 'static) -> Result<Self> {
        let (writes, queue) = unbounded::<Vec<u8>>();
        let (done, news) = bounded(1);
        let waiting = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&waiting);
        let write = move || {
            for bytes in queue {
                if let Err(error) = output.write_all(&bytes).and_then(|()| output.flush()) {
                    let _ = done.send(Err(error));
                    return;
                }
                counter.fetch_sub(bytes.len(), Ordering::Relaxed);
                // One word is enough, however many writes it stands for.
                let _ = done.try_send(Ok(()));
            }
            // Keeps the channel of news open until everything is out.
            drop(done);
        };
        thread::Builder::new().name("client output".to_owned()).spawn(write).map_err(thread_failed)?;
        let (rate, slow, behind) = (None, None, VecDeque::new());
        Ok(Self { buffer: Vec::new(), writes: Some(writes), waiting, news, rate, slow, behind })
    }

    fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    fn push(&mut self, text: String, alone: bool, now: u64) {
        let rate = self.rate.take();
        if self.slow.is_some() {
            return self.behind.push_back((text, alone, rate));
        }
        if let Some((rate, id)) = rate {
            self.flush();
            let bytes = (text + "\n").into_bytes();
            self.slow = Some(Slow { id, bytes, sent: 0, drip: Drip::new(rate, now) });
            return;
        }
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(b'\n');
        if alone || self.buffer.len() >= CHUNK {
            self.flush();
        }
    }

    /// When the slow message goes on.
    fn next(&self, now: u64) -> Option<u64> {
        self.slow.as_ref().map(|slow| slow.drip.next(slow.sent, now))
    }

    /// Lets out what is due of the slow message, and what waited behind it.
    fn drip(&mut self, now: u64) {
        self.drip_at(now, now);
    }

    /// The same with what is due at another time.
    fn drip_at(&mut self, time: u64, now: u64) {
        let Some(mut slow) = self.slow.take() else { return };
        let due = slow.drip.due(time).min(slow.bytes.len());
        self.buffer.extend_from_slice(slow.bytes.get(slow.sent..due).unwrap_or_default());
        self.flush();
        slow.sent = due;
        if due < slow.bytes.len() {
            self.slow = Some(slow);
            return;
        }
        while self.slow.is_none()
            && let Some((text, alone, rate)) = self.behind.pop_front()
        {
            self.rate = rate;
            self.push(text, alone, now);
        }
        self.flush();
    }

    /// Lets out at once what is slow about a request.
    fn hurry(&mut self, id: &str, now: u64) {
        for (_, _, rate) in &mut self.behind {
            *rate = rate.take().filter(|(_, other)| other != id);
        }
        if self.slow.as_ref().is_some_and(|slow| slow.id == id) {
            self.drip_at(u64::MAX, now);
        }
    }

    /// Lets out all of it at once.
    fn rush(&mut self) {
        while self.slow.is_some() {
            self.drip_at(u64::MAX, 0);
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
                recv(self.news) -> news => match news {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => return Ended::of_write(&error),
                    Err(_) => return ended,
                },
                recv(signals) -> signal => return Ended::Signal(signal.unwrap_or_default()),
                default(PATIENCE) => return if self.waiting() == 0 { ended } else { Ended::OutputClosed },
            }
        }
    }
}
