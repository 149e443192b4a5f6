//! The listener: one thread per connection over `std::net`, for endpoints that stream.
//!
//! It is ours because the endpoint must do what small HTTP servers do not: cut or reset an answer on purpose, notice
//! that a client left an idle stream, refuse framing that two readers could understand differently, and bound what
//! a client can make it hold. The shape is `tiny_http`'s: a [`Request`] is read from and then turned into an answer or
//! a writer, so the engine can be replaced.
//!
//! A connection has one file descriptor, used for both directions. Every reply is a whole number of `write` calls
//! with nothing held back, and `TCP_NODELAY` is set.

mod connection;
mod head;
mod reply;
mod request;
mod watch;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

pub use connection::Connection;
pub use head::Refusal;
pub use reply::{Stream, reason};
pub use request::{Body, Request, refusal_of};
pub use watch::Watch;

use watch::Watcher;

/// What clients may take. The defaults suit a local endpoint.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Bytes of a request line and its header fields together. Beyond: 431, or 414 when it is the line.
    pub head: usize,
    /// Bytes of a request target. Beyond: 414.
    pub target: usize,
    /// Header fields of a request. Beyond: 431.
    pub headers: usize,
    /// Bytes of a request body, chunk framing not counted. Beyond: 413.
    pub body: u64,
    /// Connections open at once. Beyond: 503 and closed.
    pub connections: usize,
    /// From the first byte of a head to its last. Beyond: 408 and closed.
    pub head_time: Duration,
    /// Between two requests of a connection, and before the first. Beyond: closed.
    pub idle_time: Duration,
    /// For the next bytes of a body. Beyond: 408 and closed.
    pub body_wait: Duration,
    /// For a whole body, however steadily it trickles. Beyond: 408 and closed.
    pub body_time: Duration,
    /// For a client to take bytes when its window is full. Beyond: the write fails.
    pub write_wait: Duration,
    /// Bytes of stack of a connection's thread. Only what is used costs memory.
    pub stack: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            head: 64 * 1024,
            target: 16 * 1024,
            headers: 128,
            body: 64 * 1024 * 1024,
            connections: 4096,
            head_time: Duration::from_secs(10),
            idle_time: Duration::from_mins(2),
            body_wait: Duration::from_secs(30),
            body_time: Duration::from_mins(10),
            write_wait: Duration::from_mins(5),
            stack: 1024 * 1024,
        }
    }
}

/// One client's socket. Connection, registry and watcher share it; when the connection is done, it is closed.
#[derive(Debug)]
struct Peer {
    socket: TcpStream,
    /// Between two requests: a stop may close it at once.
    idle: AtomicBool,
}

/// What the connections of a server share.
struct Shared {
    limits: Limits,
    stopping: AtomicBool,
    open: Mutex<HashMap<u64, Arc<Peer>>>,
    closed: Condvar,
    next: AtomicU64,
    watcher: Watcher,
    /// Threads that are turning clients away.
    refusing: AtomicUsize,
    /// Is told what was refused before a handler could read it.
    refused: OnceLock<Told>,
}

/// Takes a refusal, before the client does.
type Told = Box<dyn Fn(Refusal) + Send + Sync>;

impl Shared {
    fn tell(&self, refusal: Refusal) {
        self.refused.get().into_iter().for_each(|told| told(refusal));
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, Arc<Peer>>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A bound listener.
pub struct Server {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl fmt::Debug for Server {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Threads that turn clients away at once; further ones are just closed.
const REFUSERS: usize = 64;
/// How long a client that is turned away has for taking the reply.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

impl Server {
    /// Binds and listens. Port 0 asks for any free port.
    ///
    /// # Errors
    ///
    /// When the address cannot be bound, or the thread that watches idle streams cannot be started.
    pub fn bind(address: SocketAddr, limits: Limits) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        // std asks for a queue of 128. When a burst fills it, clients retry a second later.
        rustix::net::listen(&listener, 4096)?;
        let address = listener.local_addr()?;
        let shared = Shared {
            limits,
            stopping: AtomicBool::new(false),
            open: Mutex::default(),
            closed: Condvar::new(),
            next: AtomicU64::new(0),
            watcher: Watcher::start()?,
            refusing: AtomicUsize::new(0),
            refused: OnceLock::new(),
        };
        Ok(Self { listener: Arc::new(listener), address, shared: Arc::new(shared) })
    }

    /// Where it listens, with the real port.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has `told` called with whatever is refused before a handler could read it: a head that is none, a body that is too
    /// large. The client is answered afterwards. Only the first call of this counts.
    pub fn on_refusal(&self, told: impl Fn(Refusal) + Send + Sync + 'static) {
        let _ = self.shared.refused.set(Box::new(told));
    }

    /// A handle that ends the server from elsewhere.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper {
            listener: Arc::clone(&self.listener),
            address: self.address,
            shared: Arc::clone(&self.shared),
        }
    }

    /// The next connection; `None` once the server is stopped. Errors of a single connection and a lack of file
    /// descriptors are waited out: only the end of the listener ends this.
    pub fn accept(&self) -> Option<Connection> {
        while !self.shared.stopping.load(Ordering::SeqCst) {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) if is_passing(&error) => continue,
                Err(_) => {
                    thread::sleep(Duration::from_millis(20));
                    continue;
                }
            };
            if self.shared.stopping.load(Ordering::SeqCst) {
                break;
            }
            // Each can fail only on a socket that is dead already, which the first read shows.
            let _ = socket.set_nodelay(true);
            let _ = rustix::net::sockopt::set_socket_keepalive(&socket, true);
            let _ = socket.set_write_timeout(Some(self.shared.limits.write_wait));
            if self.shared.open().len() >= self.shared.limits.connections {
                self.turn_away(socket);
                continue;
            }
            return Some(Connection::new(socket, &self.shared));
        }
        None
    }

    fn turn_away(&self, socket: TcpStream) {
        if self.shared.refusing.fetch_add(1, Ordering::SeqCst) >= REFUSERS {
            self.shared.refusing.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        let shared = Arc::clone(&self.shared);
        let refuse = move || {
            let refusal = Refusal { status: 503, why: "too many connections" };
            let _ = reply::refuse(&socket, refusal);
            connection::linger(&socket, REFUSAL_TIME);
            shared.refusing.fetch_sub(1, Ordering::SeqCst);
        };
        let thread = thread::Builder::new().name("http-refuse".to_owned()).stack_size(128 * 1024);
        if thread.spawn(refuse).is_err() {
            self.shared.refusing.fetch_sub(1, Ordering::SeqCst);
        }
    }

    /// Accepts connections and serves each on a thread of its own (`http-N`) until the server is stopped. `handler` is
    /// called for every request. A handler that does not answer, or panics before it does, makes a 500; one that
    /// panics in the middle of an answer cuts it.
    pub fn run(&self, handler: &Arc<impl Fn(Request<'_>) + Send + Sync + 'static>) {
        self.run_each(
            &Arc::new(|| ()),
            &Arc::new({
                let handler = Arc::clone(handler);
                move |(): &(), request: Request<'_>| handler(request)
            }),
        );
    }

    /// As [`Server::run`], with something of its own for each connection, which goes when the connection does.
    pub fn run_each<T: 'static>(
        &self,
        begin: &Arc<impl Fn() -> T + Send + Sync + 'static>,
        handler: &Arc<impl Fn(&T, Request<'_>) + Send + Sync + 'static>,
    ) {
        while let Some(connection) = self.accept() {
            let (begin, handler) = (Arc::clone(begin), Arc::clone(handler));
            let name = format!("http-{}", connection.number());
            let thread = thread::Builder::new().name(name).stack_size(self.shared.limits.stack);
            // Without a thread the connection is closed with what it owns.
            let serve = move || {
                let own = begin();
                connection.serve(|request| handler(&own, request));
            };
            if thread.spawn(serve).is_err() {
                thread::sleep(Duration::from_millis(20));
            }
        }
    }
}

/// An error of the connection that was being accepted, not of the listener.
fn is_passing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Ends a server from any thread.
#[derive(Clone)]
pub struct Stopper {
    listener: Arc<TcpListener>,
    address: SocketAddr,
    shared: Arc<Shared>,
}

impl fmt::Debug for Stopper {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Stopper").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Stopper {
    /// Stops accepting, closes idle connections, gives the running requests `grace` to end, and then closes their
    /// sockets: reads and writes fail, watches fire. Gives the number of connections still open another second
    /// later: their handlers hang in something else.
    pub fn stop(&self, grace: Duration) -> usize {
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.wake();
        for peer in self.shared.open().values() {
            if peer.idle.load(Ordering::SeqCst) {
                let _ = peer.socket.shutdown(std::net::Shutdown::Read);
            }
        }
        if self.wait(grace) > 0 {
            for peer in self.shared.open().values() {
                let _ = peer.socket.shutdown(std::net::Shutdown::Both);
            }
        }
        self.wait(Duration::from_secs(1))
    }

    /// How many connections are open.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.open().len()
    }

    fn wait(&self, time: Duration) -> usize {
        let end = Instant::now() + time;
        let mut open = self.shared.open();
        while !open.is_empty() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            open = self.shared.closed.wait_timeout(open, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        open.len()
    }

    /// Ends a blocked `accept`.
    fn wake(&self) {
        // Linux ends it with an error; elsewhere a connection of our own does.
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        if cfg!(not(target_os = "linux")) {
            let mut address = self.address;
            if address.ip().is_unspecified() {
                address.set_ip(if address.is_ipv4() {
                    std::net::Ipv4Addr::LOCALHOST.into()
                } else {
                    std::net::Ipv6Addr::LOCALHOST.into()
                });
            }
            let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        }
    }
}

#[cfg(test)]
mod tests;
