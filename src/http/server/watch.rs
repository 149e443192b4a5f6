//! Notices that a client has left although nothing is being read from it or written to it: that is how a modern MCP
//! client cancels. One thread waits for all of them; a connection costs an entry in a table.

use std::io;
use std::sync::{Arc, Weak};

use super::Peer;

/// A watch over one client; ends when dropped.
#[derive(Debug)]
#[must_use = "dropping it ends the watch"]
pub struct Watch {
    peer: Weak<Peer>,
    #[cfg(target_os = "linux")]
    inner: Arc<linux::Inner>,
    #[cfg(target_os = "linux")]
    token: u64,
}

#[cfg(target_os = "linux")]
pub(super) use linux::Watcher;

#[cfg(not(target_os = "linux"))]
pub(super) use elsewhere::Watcher;

/// Whether the client has closed its side, or the connection is broken.
pub(super) fn is_gone(peer: &Peer) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    #[cfg(target_os = "linux")]
    let left = PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR;
    #[cfg(not(target_os = "linux"))]
    let left = PollFlags::HUP | PollFlags::ERR;
    let mut sockets = [PollFd::new(&peer.socket, left)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut sockets, Some(&now)).is_ok() && sockets.iter().any(|socket| socket.revents().intersects(left))
}

#[cfg(target_os = "linux")]
mod linux {
    use super::{Arc, Peer, Watch, io};
    use std::collections::HashMap;
    use std::fmt;
    use std::os::fd::OwnedFd;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Mutex, MutexGuard, PoisonError};
    use std::thread;

    use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
    use rustix::event::{EventfdFlags, eventfd};

    type Call = Box<dyn FnOnce() + Send>;

    /// The token of the event that ends the thread.
    const END: u64 = u64::MAX;

    /// An epoll set. It holds no socket: one that is closed leaves it by itself, so a watch never keeps a
    /// connection open.
    pub(super) struct Inner {
        epoll: OwnedFd,
        end: OwnedFd,
        calls: Mutex<HashMap<u64, Call>>,
        next: AtomicU64,
    }

    impl fmt::Debug for Inner {
        fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
            out.debug_struct("Inner").field("watched", &self.calls().len()).finish_non_exhaustive()
        }
    }

    impl Inner {
        fn calls(&self) -> MutexGuard<'_, HashMap<u64, Call>> {
            self.calls.lock().unwrap_or_else(PoisonError::into_inner)
        }

        fn run(&self) {
            let mut events = Vec::with_capacity(64);
            loop {
                events.clear();
                match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(_) => return,
                }
                for event in &events {
                    let token = event.data.u64();
                    if token == END {
                        return;
                    }
                    let call = self.calls().remove(&token);
                    if let Some(call) = call {
                        // One caller's panic is not to blind the watch over all others.
                        let _ = catch_unwind(AssertUnwindSafe(call));
                    }
                }
            }
        }
    }

    /// The thread `http-watch` and its table. Dropping it ends the thread.
    #[derive(Debug)]
    pub(in super::super) struct Watcher(Arc<Inner>);

    impl Watcher {
        pub(in super::super) fn start() -> io::Result<Self> {
            let epoll = epoll::create(CreateFlags::CLOEXEC)?;
            let end = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            epoll::add(&epoll, &end, EventData::new_u64(END), EventFlags::IN)?;
            let inner = Arc::new(Inner { epoll, end, calls: Mutex::default(), next: AtomicU64::new(0) });
            let run = Arc::clone(&inner);
            thread::Builder::new()
                .name("http-watch".to_owned())
                .stack_size(256 * 1024)
                .spawn(move || run.run())?;
            Ok(Self(inner))
        }

        /// Calls `call` once, on the watcher's thread, when the client has closed its side or is cut off.
        pub(in super::super) fn watch(&self, peer: &Arc<Peer>, call: Call) -> io::Result<Watch> {
            let token = self.0.next.fetch_add(1, Ordering::Relaxed);
            self.0.calls().insert(token, call);
            // HUP and ERR are always reported.
            let flags = EventFlags::RDHUP | EventFlags::ONESHOT;
            if let Err(error) = epoll::add(&self.0.epoll, &peer.socket, EventData::new_u64(token), flags) {
                self.0.calls().remove(&token);
                return Err(error.into());
            }
            Ok(Watch { peer: Arc::downgrade(peer), inner: Arc::clone(&self.0), token })
        }
    }

    impl Drop for Watcher {
        fn drop(&mut self) {
            let _ = rustix::io::write(&self.0.end, &1u64.to_ne_bytes());
        }
    }

    impl Drop for Watch {
        fn drop(&mut self) {
            self.inner.calls().remove(&self.token);
            if let Some(peer) = self.peer.upgrade() {
                let _ = epoll::delete(&self.inner.epoll, &peer.socket);
            }
        }
    }
}

/// Without RDHUP a client that left is noticed by a failing write only.
#[cfg(not(target_os = "linux"))]
mod elsewhere {
    use super::{Arc, Peer, Watch, io};

    #[derive(Debug)]
    pub(in super::super) struct Watcher;

    impl Watcher {
        pub(in super::super) fn start() -> io::Result<Self> {
            Ok(Self)
        }

        pub(in super::super) fn watch(
            &self,
            peer: &Arc<Peer>,
            _call: Box<dyn FnOnce() + Send>,
        ) -> io::Result<Watch> {
            Ok(Watch { peer: Arc::downgrade(peer) })
        }
    }
}
