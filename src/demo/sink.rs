//! Where a message's consequences go. A pipe has one sink for everything; an HTTP front has one per request.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::Value;

/// Takes what the server says because of one incoming message. A sink swallows its own failures: a server cannot do
/// anything about a client that has left, the transport can.
pub(super) trait Sink: Send + Sync {
    /// A notification or a request to the client.
    fn send(&self, message: &Value);

    /// The response. Nothing that belongs to the same request follows.
    fn answer(&self, message: &Value);

    /// There will be no response: the request was cancelled.
    fn withdraw(&self) {}

    /// A line that is no message, where the transport can carry one.
    fn noise(&self, _line: &str) {}
}

/// Collects the responses to a batch and passes them on as one array, when the last is there.
pub(super) struct Batch {
    inner: Arc<dyn Sink>,
    state: Mutex<Collected>,
}

struct Collected {
    missing: usize,
    answers: Vec<Value>,
}

impl Batch {
    /// A batch of `requests` messages that want an answer.
    pub(super) fn new(inner: Arc<dyn Sink>, requests: usize) -> Self {
        Self { inner, state: Mutex::new(Collected { missing: requests, answers: Vec::new() }) }
    }

    fn settle(&self, answer: Option<Value>) {
        let mut state = lock(&self.state);
        state.answers.extend(answer);
        state.missing = state.missing.saturating_sub(1);
        if state.missing > 0 {
            return;
        }
        let answers = std::mem::take(&mut state.answers);
        if answers.is_empty() {
            self.inner.withdraw();
        } else {
            self.inner.answer(&Value::Array(answers));
        }
    }
}

impl Sink for Batch {
    fn send(&self, message: &Value) {
        self.inner.send(message);
    }

    fn answer(&self, message: &Value) {
        self.settle(Some(message.clone()));
    }

    fn withdraw(&self) {
        self.settle(None);
    }

    fn noise(&self, line: &str) {
        self.inner.noise(line);
    }
}

/// Locks, also after a panic elsewhere: every critical section here leaves its data usable.
pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
