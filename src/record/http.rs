//! Recording over HTTP: a reverse proxy for all of a server's origin that queues what it passes on.
//!
//! Paths stay as they are, so that whatever a server says about itself is right here too; the few absolute addresses
//! among it are made local (`rewrite.rs`). Nothing is followed, retried or added. A record is queued before the last
//! byte of what it is about is passed on, and a client that leaves takes its request upstream along.

mod address;
mod body;
mod book;
mod coding;
mod exchange;
mod facts;
mod item;
mod rewrite;
mod sink;
mod stream;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender};

pub use address::Address;
pub use sink::Segment;

use address::Mapping;
use book::Book;
use item::Item;

use super::queue::{Pushed, Queue};
use super::recorder::{self, Kept, News, Note};
use super::{Ending, Outcome, Reason, Sink};
use crate::error::{Error, Result};
use crate::exit;
use crate::http::client::{self, Lane, Upstream};
use crate::http::guard::{Guard, is_loopback};
use crate::http::idle::Idle;
use crate::http::server::{Limits, Server, Stopper};
use crate::http::{Headers, headers};
use crate::stdio::{signals, tree};

/// How often is looked whether there is still somebody to record for.
const TICK: Duration = Duration::from_millis(200);
/// When it ends, running requests get so long to come to their own end.
const GRACE: Duration = Duration::from_millis(150);
/// The listener's limit is not ours to set: the server behind has its own, and answers by it.
const LARGEST_BODY: u64 = 4 << 30;

/// Fields that are about the connection, or set by the client of the proxy: an injected one would break it.
const RESERVED: [&str; 8] = [
    "host",
    "content-length",
    "transfer-encoding",
    "connection",
    "accept-encoding",
    "te",
    "upgrade",
    "expect",
];

/// What is recorded, and where clients find it.
#[derive(Debug)]
pub struct Options {
    /// The server.
    pub address: Address,
    /// Where to listen; port 0: any.
    pub listen: SocketAddr,
    /// Fields of every request to the server, in place of the client's.
    pub headers: Headers,
    /// The only certificates to be trusted, a PEM file.
    pub cacert: Option<PathBuf>,
    /// Further names under which clients may come.
    pub allow_host: Vec<String>,
    /// Web pages that may come.
    pub allow_origin: Vec<String>,
    /// The largest body of a request in bytes, where the server behind is not the only one to have a limit.
    pub max_body: Option<u64>,
    /// Only this program is to come: the URL for clients has a secret in it in any case.
    pub private: bool,
}

/// When to end by itself.
pub struct Until {
    /// After so long without a request.
    pub max_idle: Option<Duration>,
    /// When this says that nobody is there any more.
    pub alive: Box<dyn Fn() -> bool + Send + Sync>,
}

impl std::fmt::Debug for Until {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Until").field("max_idle", &self.max_idle).finish_non_exhaustive()
    }
}

/// How it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// As for any recording.
    pub outcome: Outcome,
    /// Requests came, and the server never answered one: why not.
    pub unreachable: Option<String>,
}

/// A listener in front of a server. Nothing is answered until [`Proxy::run`].
#[derive(Debug)]
pub struct Proxy {
    server: Server,
    upstream: Upstream,
    mapping: Mapping,
    guard: Guard,
    events: (Sender<Event>, Receiver<Event>),
}

#[derive(Debug)]
enum Event {
    /// With the moment it came at.
    Signal(i32, Instant),
    Recorder(News),
}

/// What the connections share.
struct Shared {
    upstream: Upstream,
    mapping: Mapping,
    guard: Guard,
    book: Mutex<Book>,
    queue: Arc<Queue>,
    note: Note,
    idle: Idle,
    reached: AtomicBool,
    /// Why the server cannot be reached, where that was its last state.
    unreachable: Mutex<Option<String>>,
    asked_for_authorization: AtomicBool,
    /// What was said that is worth one word only.
    said: Mutex<HashSet<String>>,
    /// We are ending: it is not the clients that leave.
    ending: AtomicBool,
}

impl Shared {
    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn push(&self, item: &Item<'_>) {
        if self.queue.push(sink::parcel(item)) == Pushed::WakeDue {
            self.queue.wake();
        }
    }

    /// Says something: at once, so that what is said later comes later.
    fn note(&self, text: &str) {
        (self.note)(text);
    }

    /// Says something that may go for many answers, the first time.
    fn note_once(&self, text: &str) {
        if self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(text.to_owned()) {
            self.note(text);
        }
    }
}

/// Checks and listens.
///
/// # Errors
///
/// [`Error::Usage`] for options that cannot be, [`Error::Failed`] when the address is taken.
pub fn bind(options: Options) -> Result<Proxy> {
    let Options { address, listen, mut headers, cacert, allow_host, mut allow_origin, max_body, private } =
        options;
    if let Some(authorization) = address.authorization()
        && headers.get("authorization").is_none()
    {
        headers.push("authorization", authorization);
    }
    check(&headers)?;
    let secret = private || !headers.is_empty() || address.query().is_some();
    let upstream =
        Upstream::new(&address.bare(), &client::Options { cacert, headers, ..client::Options::default() })?;
    let mapping = Mapping::new(address, secret)?;
    tree::raise_nofile();
    let limits = Limits { body: max_body.unwrap_or(LARGEST_BODY), ..Limits::default() };
    let server = Server::bind(listen, limits).map_err(Error::failed(format_args!("listen on {listen}")))?;
    let bound = server.address();
    let mut hosts = allow_host;
    if !is_loopback(&bound) && !bound.ip().is_unspecified() {
        hosts.push(bound.to_string());
        allow_origin.push(format!("http://{bound}"));
    }
    let guard = Guard::new(bound.port(), &hosts, &allow_origin)?;
    Ok(Proxy { server, upstream, mapping, guard, events: crossbeam_channel::unbounded() })
}

/// Refuses injected fields that cannot be sent. Their values are not repeated.
fn check(fields: &Headers) -> Result<()> {
    for (name, value) in fields.iter() {
        if !headers::is_sound(name, value) {
            return Err(Error::Usage(format!("--header {name}: not a header field")));
        }
        if RESERVED.iter().any(|reserved| name.eq_ignore_ascii_case(reserved)) {
            return Err(Error::Usage(format!("--header {name}: this one is set by the connection")));
        }
    }
    Ok(())
}

impl Proxy {
    /// The URL for clients. It may hold a secret: a random path, where the server is sent a credential of ours.
    #[must_use]
    pub fn url(&self) -> String {
        let mut address = self.server.address();
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                std::net::Ipv4Addr::LOCALHOST.into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        format!("http://{address}{}", self.mapping.local_path())
    }

    /// Whether others than this machine can reach it.
    #[must_use]
    pub fn is_exposed(&self) -> bool {
        !is_loopback(&self.server.address())
    }

    /// Has signals end the recording. To be called once in a process.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] when the system refuses.
    pub fn catch_signals(&self) -> Result<()> {
        let signalled = self.events.0.clone();
        signals::watch(move |signal| drop(signalled.send(Event::Signal(signal, Instant::now()))))
            .map(drop)
            .map_err(Error::failed("watch for signals"))
    }

    /// Passes on and records until a signal comes or `until` holds. `note` is called by the threads that answer clients,
    /// and is not to wait for whoever reads it.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] when the system gives no thread.
    pub fn run(self, sink: Box<dyn Sink>, note: Note, until: &Until) -> Result<Ended> {
        let Self { server, upstream, mapping, guard, events: (tell, news) } = self;
        let queue = Arc::new(Queue::new(sink.begun()));
        let (ending, endings) = crossbeam_channel::bounded(1);
        let failed = Error::failed("start recording");
        let (sink, written) = recorder::Counted::new(sink);
        let recorder = recorder::start(Arc::clone(&queue), sink, Arc::clone(&note), endings, move |news| {
            let _ = tell.send(Event::Recorder(news));
        })
        .map_err(failed)?;
        let shared = Arc::new(Shared {
            upstream,
            mapping,
            guard,
            book: Mutex::default(),
            queue: Arc::clone(&queue),
            note,
            idle: Idle::default(),
            reached: AtomicBool::new(false),
            unreachable: Mutex::default(),
            asked_for_authorization: AtomicBool::new(false),
            said: Mutex::default(),
            ending: AtomicBool::new(false),
        });
        let refusing = Arc::clone(&shared);
        server.on_refusal(move |refusal| {
            if !refusal.client_left() {
                refusing.note_once(&format!("a message was refused with status {refusal}"));
            }
        });
        let stopper = server.stopper();
        let (connecting, serving) = (Arc::clone(&shared), Arc::clone(&shared));
        let begin = Arc::new(move || connecting.upstream.lane());
        let handler = Arc::new(move |lane: &Lane, request: crate::http::server::Request<'_>| {
            exchange::handle(&serving, lane, request);
        });
        let accepting = thread::Builder::new()
            .name("http-accept".to_owned())
            .spawn(move || server.run_each(&begin, &handler));
        let reason = match accepting {
            Ok(_) => wait(&news, &shared, until),
            Err(error) => {
                queue.close();
                return Err(failed(error));
            }
        };
        Ok(finish(&shared, &stopper, &news, recorder, &ending, (reason, &written)))
    }
}

fn wait(news: &Receiver<Event>, shared: &Shared, until: &Until) -> Reason {
    loop {
        match news.recv_timeout(TICK) {
            Ok(Event::Signal(signal, _)) => return Reason::Signal(signal),
            Ok(Event::Recorder(_)) => {}
            Err(RecvTimeoutError::Timeout) => {
                let idle = until.max_idle.is_some_and(|limit| shared.idle.time() >= limit);
                if idle || !(until.alive)() {
                    return Reason::ClientClosed;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Reason::ClientClosed,
        }
    }
}

fn finish(
    shared: &Shared,
    stopper: &Stopper,
    news: &Receiver<Event>,
    recorder: thread::JoinHandle<Kept>,
    endings: &Sender<Ending>,
    (reason, written): (Reason, &AtomicU64),
) -> Ended {
    let begun = Instant::now();
    shared.ending.store(true, Ordering::SeqCst);
    stopper.stop(GRACE);
    // One place is free: this is the only ending.
    let _ = endings.try_send(Ending { reason, exit: None, stderr_tail: Vec::new(), captured: 0 });
    shared.queue.close();
    let finished = loop {
        match news.recv() {
            Ok(Event::Recorder(News::Done)) | Err(_) => break true,
            // Someone is in a hurry and the disk is not. Signals shortly one after the other are one wish.
            Ok(Event::Signal(_, at)) if at.saturating_duration_since(begun) > recorder::SAME_WISH => {
                break false;
            }
            Ok(Event::Signal(..) | Event::Recorder(_)) => {}
        }
    };
    let kept = if finished { recorder.join().ok() } else { None };
    let kept = kept.unwrap_or_else(|| {
        shared.note(&format!("recording stopped: {}", recorder::GIVEN_UP));
        Kept { captured: written.load(Ordering::SeqCst), failed: Some(recorder::GIVEN_UP.to_owned()) }
    });
    let unreachable = shared.unreachable.lock().unwrap_or_else(PoisonError::into_inner).take();
    let unreachable = unreachable.filter(|_| !shared.reached.load(Ordering::SeqCst));
    let good = kept.failed.is_none() && kept.captured > 0 && unreachable.is_none();
    let outcome = Outcome {
        exit: if good { exit::OK } else { exit::FAILED },
        reason,
        server: None,
        recording_failed: kept.failed,
        captured: kept.captured,
    };
    Ended { outcome, unreachable }
}
