//! One connection: what was read and not used yet, the body that is being read, and whether another request may
//! follow.

use std::io::{self, Read};
use std::net::{Shutdown, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::head::{self, BODY_ENDED, BODY_TOO_LARGE, BODY_TOO_SLOW, Framing, Head, Refusal, Scan, refusal};
use super::request::Request;
use super::{Limits, Peer, Shared, reply};
use crate::http::chunked::{ChunkError, Decoder};

/// The first buffer of a connection. A thousand idle ones should cost little.
const FIRST_BUFFER: usize = 16 * 1024;
/// How much of a body that nobody read is skipped to save the connection.
const SKIP: u64 = 64 * 1024;
/// How long a client that was refused may go on sending before the connection is closed under it. Closing at once
/// would make the kernel send a reset, and the reset would take the answer away from the client.
const LINGER: Duration = Duration::from_secs(2);

/// The rest of a request body.
#[derive(Debug)]
pub(super) enum Unread {
    Nothing,
    Length(u64),
    Chunked(Decoder),
}

/// How far the answer to the current request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    None,
    /// A head went out and the end did not: the client can only be cut off.
    Begun,
    Complete,
    /// A handler asked for the connection to be closed, or a write failed.
    Closed,
}

/// An accepted connection, open until it is dropped.
#[derive(Debug)]
pub struct Connection {
    pub(super) peer: Arc<Peer>,
    pub(super) shared: Arc<Shared>,
    number: u64,
    buffer: Vec<u8>,
    /// The bytes of `buffer` that were read from the socket and not used.
    unused: std::ops::Range<usize>,
    timeout: Option<Duration>,
    pub(super) unread: Unread,
    body_end: Instant,
    /// The client waits for `100 Continue` before it sends the body.
    pub(super) expects: bool,
    pub(super) minor: u8,
    pub(super) head_only: bool,
    pub(super) persistent: bool,
    pub(super) answer: Answer,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// A read ended without bytes.
#[derive(Clone, Copy)]
enum Ended {
    Closed,
    TimedOut,
}

impl Connection {
    pub(super) fn new(socket: TcpStream, shared: &Arc<Shared>) -> Self {
        let number = shared.next.fetch_add(1, Ordering::Relaxed);
        let peer = Arc::new(Peer { socket, idle: AtomicBool::new(false) });
        shared.open().insert(number, Arc::clone(&peer));
        Self {
            peer,
            shared: Arc::clone(shared),
            number,
            buffer: Vec::new(),
            unused: 0..0,
            timeout: None,
            unread: Unread::Nothing,
            body_end: Instant::now(),
            expects: false,
            minor: 1,
            head_only: false,
            persistent: true,
            answer: Answer::None,
        }
    }

    /// Its number, counted from 0 in the order of acceptance.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Serves the connection's requests one after the other until either side ends it.
    pub fn serve(mut self, handler: impl Fn(Request<'_>)) {
        loop {
            let head = match self.next_head() {
                Ok(Some(head)) => head,
                Ok(None) => return,
                Err(refusal) => return self.refuse(refusal),
            };
            self.begin(&head);
            let request = Request::new(&mut self, head);
            let outcome = catch_unwind(AssertUnwindSafe(|| handler(request)));
            match self.answer {
                Answer::None => {
                    let why = if outcome.is_ok() { "no answer" } else { "the handler failed" };
                    return self.refuse(refusal(500, why));
                }
                Answer::Closed => return,
                // Unread bytes would make a reset of the close, which is another fault than a cut.
                Answer::Begun => return self.linger_if_unread(),
                Answer::Complete if !self.persistent => return self.linger_if_unread(),
                Answer::Complete => {
                    if !self.skip() {
                        return linger(&self.peer.socket, LINGER);
                    }
                }
            }
        }
    }

    fn limits(&self) -> &Limits {
        &self.shared.limits
    }

    fn refuse(&mut self, refusal: Refusal) {
        self.shared.tell(refusal);
        if reply::refuse(&self.peer.socket, refusal).is_ok() {
            linger(&self.peer.socket, LINGER);
        }
    }

    /// Closes in the order that lets the client have the whole answer.
    fn linger_if_unread(&mut self) {
        if !matches!(self.unread, Unread::Nothing) || !self.unused.is_empty() {
            linger(&self.peer.socket, LINGER);
        }
    }

    fn begin(&mut self, head: &Head) {
        self.unread = match head.framing {
            Framing::Length(0) => Unread::Nothing,
            Framing::Length(length) => Unread::Length(length),
            Framing::Chunked => Unread::Chunked(Decoder::new(self.limits().body)),
        };
        self.body_end = Instant::now() + self.limits().body_time;
        self.expects = head.expects;
        self.minor = head.minor;
        self.head_only = head.method == "HEAD";
        self.persistent = head.persistent;
        self.answer = Answer::None;
    }

    /// Waits for the next request. `None`: the client is done, or the server is.
    fn next_head(&mut self) -> Result<Option<Head>, Refusal> {
        let mut scan = Scan::default();
        let idle_end = Instant::now() + self.limits().idle_time;
        let mut end = idle_end;
        let mut waiting = self.unused.is_empty();
        if !waiting {
            end = Instant::now() + self.limits().head_time;
        }
        loop {
            let shared = Arc::clone(&self.shared);
            if let Some((from, to)) = scan.find(self.unused(), &shared.limits)? {
                let head = head::parse(self.unused().get(from..to).unwrap_or_default(), &shared.limits)?;
                self.unused.start += to;
                return Ok(Some(head));
            }
            if waiting {
                self.peer.idle.store(true, Ordering::SeqCst);
                if shared.stopping.load(Ordering::SeqCst) {
                    return Ok(None);
                }
            }
            let read = self.fill(end);
            if waiting {
                self.peer.idle.store(false, Ordering::SeqCst);
            }
            match read {
                Ok(()) if waiting => {
                    waiting = false;
                    end = Instant::now() + shared.limits.head_time;
                }
                Ok(()) => {}
                Err(Ended::TimedOut) if !waiting => {
                    return Err(refusal(408, "the request head took too long"));
                }
                Err(_) => return Ok(None),
            }
        }
    }

    fn unused(&self) -> &[u8] {
        self.buffer.get(self.unused.clone()).unwrap_or_default()
    }

    /// Reads once into the buffer, behind what is unused.
    fn fill(&mut self, end: Instant) -> Result<(), Ended> {
        if self.unused.is_empty() {
            self.unused = 0..0;
        }
        if self.unused.end == self.buffer.len() {
            if self.unused.start > 0 {
                self.buffer.copy_within(self.unused.clone(), 0);
                self.unused = 0..self.unused.len();
            } else {
                self.buffer.resize((self.buffer.len() * 2).max(FIRST_BUFFER), 0);
            }
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let read = self.read_socket(buffer.get_mut(self.unused.end..).unwrap_or_default(), end);
        self.buffer = buffer;
        self.unused.end += read?;
        Ok(())
    }

    /// Reads at least a byte, or tells why not.
    fn read_socket(&mut self, into: &mut [u8], end: Instant) -> Result<usize, Ended> {
        loop {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(Ended::TimedOut);
            }
            // The time that is set may be up to an eighth too long: most requests then need no call for it.
            let fits = self.timeout.is_some_and(|set| set >= left && set.saturating_sub(left) <= left / 8);
            if !fits {
                let _ = self.peer.socket.set_read_timeout(Some(left));
                self.timeout = Some(left);
            }
            return match (&self.peer.socket).read(into) {
                Ok(0) => Err(Ended::Closed),
                Ok(length) => Ok(length),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                    Err(Ended::TimedOut)
                }
                Err(_) => Err(Ended::Closed),
            };
        }
    }

    fn body_deadline(&self) -> Instant {
        self.body_end.min(Instant::now() + self.limits().body_wait)
    }

    /// Reads on in the body: 0 is its end. Errors carry a [`Refusal`].
    pub(super) fn read_body(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if into.is_empty() || matches!(self.unread, Unread::Nothing) {
            return Ok(0);
        }
        if self.expects {
            self.expects = false;
            // A client that has begun to send does not wait.
            if self.unused.is_empty() {
                reply::write_all(&self.peer.socket, b"HTTP/1.1 100 Continue\r\n\r\n")?;
            }
        }
        self.read_on(into).map_err(|refusal| io::Error::new(io::ErrorKind::InvalidData, refusal))
    }

    fn read_on(&mut self, into: &mut [u8]) -> Result<usize, Refusal> {
        loop {
            let end = self.body_deadline();
            match &mut self.unread {
                Unread::Nothing => return Ok(0),
                Unread::Length(left) => {
                    let most = usize::try_from(*left).unwrap_or(usize::MAX).min(into.len());
                    let into = into.get_mut(..most).unwrap_or_default();
                    let length = if self.unused.is_empty() {
                        self.read_socket(into, end).map_err(body_ended)?
                    } else {
                        let from = self.buffer.get(self.unused.clone()).unwrap_or_default();
                        let length = from.len().min(most);
                        copy(into, from.get(..length).unwrap_or_default());
                        self.unused.start += length;
                        length
                    };
                    if let Unread::Length(left) = &mut self.unread {
                        *left -= length as u64;
                        if *left == 0 {
                            self.unread = Unread::Nothing;
                        }
                    }
                    return Ok(length);
                }
                Unread::Chunked(decoder) => {
                    let from = self.buffer.get(self.unused.clone()).unwrap_or_default();
                    let (used, data) = decoder.decode(from, into.len()).map_err(refuse_chunk)?;
                    let length = data.len();
                    copy(into, data);
                    self.unused.start += used;
                    if length > 0 {
                        return Ok(length);
                    }
                    if decoder.is_done() {
                        self.unread = Unread::Nothing;
                        return Ok(0);
                    }
                    self.fill(end).map_err(body_ended)?;
                }
            }
        }
    }

    /// The body, where all of it has been read from the socket.
    pub(super) fn body_at_hand(&mut self) -> Option<Vec<u8>> {
        let length = match self.unread {
            Unread::Nothing => 0,
            Unread::Length(left) => usize::try_from(left).ok()?,
            Unread::Chunked(_) => return None,
        };
        let body = self.unused().get(..length)?.to_vec();
        self.unused.start += length;
        self.unread = Unread::Nothing;
        Some(body)
    }

    /// Whether the connection can serve another request after an answer that is written now.
    pub(super) fn keeps(&mut self) -> bool {
        let skippable = match &self.unread {
            Unread::Nothing => true,
            Unread::Length(left) => !self.expects && *left <= SKIP,
            Unread::Chunked(_) => !self.expects,
        };
        self.persistent = self.persistent && skippable && !self.shared.stopping.load(Ordering::SeqCst);
        self.persistent
    }

    /// Skips what a handler left of the body; `false` when that is too much.
    fn skip(&mut self) -> bool {
        if matches!(self.unread, Unread::Nothing) {
            return true;
        }
        self.body_end = self.body_end.min(Instant::now() + LINGER);
        let mut waste = [0; 4096];
        let mut skipped = 0;
        loop {
            match self.read_on(&mut waste) {
                Ok(0) => return true,
                Ok(length) if skipped + length as u64 <= SKIP => skipped += length as u64,
                _ => return false,
            }
        }
    }

    /// Gives the read buffer back: a stream may stay open for hours.
    pub(super) fn release_buffer(&mut self) {
        if self.unused.is_empty() {
            self.buffer = Vec::new();
            self.unused = 0..0;
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let mut open = self.shared.open();
        open.remove(&self.number);
        drop(open);
        self.shared.closed.notify_all();
    }
}

/// `into` is at least as long as `from`.
fn copy(into: &mut [u8], from: &[u8]) {
    if let Some(into) = into.get_mut(..from.len()) {
        into.copy_from_slice(from);
    }
}

fn body_ended(ended: Ended) -> Refusal {
    match ended {
        Ended::Closed => BODY_ENDED,
        Ended::TimedOut => BODY_TOO_SLOW,
    }
}

fn refuse_chunk(error: ChunkError) -> Refusal {
    match error {
        ChunkError::Size => refusal(400, "bad chunk size"),
        ChunkError::Data => refusal(400, "chunk data does not fit its size"),
        ChunkError::Trailer => refusal(400, "bad trailer"),
        ChunkError::Overhead => refusal(431, "too many chunk extensions or trailers"),
        ChunkError::TooLarge => BODY_TOO_LARGE,
    }
}

/// Says that nothing more comes and takes what the client still sends, until it closes or `time` is over.
pub(super) fn linger(socket: &TcpStream, time: Duration) {
    let end = Instant::now() + time;
    let _ = socket.shutdown(Shutdown::Write);
    let mut waste = [0; 8192];
    loop {
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || socket.set_read_timeout(Some(left)).is_err() {
            return;
        }
        match (&*socket).read(&mut waste) {
            Ok(length) if length > 0 => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            _ => return,
        }
    }
}
