//! How long an endpoint has had nothing to do.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Counts the requests that run, and knows when the last one ended.
#[derive(Debug)]
pub struct Idle {
    begun: Instant,
    running: AtomicUsize,
    /// Milliseconds since `begun`.
    last: AtomicU64,
}

impl Default for Idle {
    fn default() -> Self {
        Self { begun: Instant::now(), running: AtomicUsize::new(0), last: AtomicU64::new(0) }
    }
}

impl Idle {
    /// A request runs, until what this gives is dropped.
    #[must_use]
    pub fn busy(&self) -> Busy<'_> {
        self.running.fetch_add(1, Ordering::SeqCst);
        Busy(self)
    }

    /// For how long no request has run; an open stream is one that runs.
    #[must_use]
    pub fn time(&self) -> Duration {
        if self.running.load(Ordering::SeqCst) > 0 {
            return Duration::ZERO;
        }
        self.begun.elapsed().saturating_sub(Duration::from_millis(self.last.load(Ordering::SeqCst)))
    }
}

/// A request that runs.
#[derive(Debug)]
pub struct Busy<'a>(&'a Idle);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        let now = u64::try_from(self.0.begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.0.last.store(now, Ordering::SeqCst);
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}
