//! What all sessions of one server share, and how it introduces itself.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::inputs::Rounds;
use super::listen::Listen;
use super::session::Session;
use super::sink::lock;
use super::tasks::Task;
use super::wire::{Object, Revision, TASKS_EXTENSION};

pub use super::stdio::serve;

/// State that lives as long as the process.
pub(super) struct Server {
    /// How often the `counter` tool was called.
    pub(super) counter: AtomicU64,
    /// How many tools the `grow` tool has added.
    pub(super) grown: AtomicU64,
    /// How many URL elicitations were minted.
    pub(super) elicitations: AtomicU64,
    /// Multi-round calls that wait for their next round.
    pub(super) rounds: Mutex<Rounds>,
    /// All tasks, in order of creation.
    pub(super) tasks: Mutex<Vec<Task>>,
    /// Open `subscriptions/listen` requests.
    pub(super) listens: Mutex<Vec<Listen>>,
    sessions: Mutex<Vec<Weak<Session>>>,
    log: Mutex<Box<dyn Write + Send>>,
}

impl Server {
    /// A fresh server; `log` gets what the `stderr` tool is told.
    pub(super) fn new(log: impl Write + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            counter: AtomicU64::new(0),
            grown: AtomicU64::new(0),
            elicitations: AtomicU64::new(0),
            rounds: Mutex::default(),
            tasks: Mutex::default(),
            listens: Mutex::default(),
            sessions: Mutex::default(),
            log: Mutex::new(Box::new(log)),
        })
    }

    /// Makes a session known for notifications to all.
    pub(super) fn enrol(&self, session: &Arc<Session>) {
        let mut sessions = lock(&self.sessions);
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// The sessions that are still there.
    pub(super) fn sessions(&self) -> Vec<Arc<Session>> {
        lock(&self.sessions).iter().filter_map(Weak::upgrade).collect()
    }

    /// Writes to the log. A log that cannot be written must not end a session.
    pub(super) fn write_log(&self, text: &str) {
        let mut log = lock(&self.log);
        let _ = log.write_all(text.as_bytes()).and_then(|()| log.flush());
    }
}

/// The next value of a counter, from 1.
pub(super) fn next(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed) + 1
}

/// Name and version. The version is the interface's, not the crate's: a release must not change what is recorded.
pub(super) fn info() -> Value {
    json!({"name": "mcpreel-demo", "version": "1.0.0"})
}

const INSTRUCTIONS: &str = "A demo server: every tool shows one thing that an MCP session can hold.";

/// `initialize`: opens a legacy session.
pub(super) fn initialize(call: &Call) -> Result<Value, Stop> {
    call.session.start_legacy(call.revision, call.param("capabilities").cloned().unwrap_or_default());
    Ok(json!({
        "protocolVersion": call.revision.date(),
        "capabilities": capabilities(call.revision),
        "serverInfo": info(),
        "instructions": INSTRUCTIONS,
    }))
}

/// `server/discover`: the modern introduction.
pub(super) fn discover(call: &Call) -> Result<Value, Stop> {
    Ok(json!({
        "supportedVersions": [Revision::V2026_07_28.date()],
        "capabilities": capabilities(call.revision),
        "instructions": INSTRUCTIONS,
    }))
}

/// `ping`.
pub(super) fn ping(_call: &Call) -> Result<Value, Stop> {
    Ok(json!({}))
}

fn capabilities(revision: Revision) -> Object {
    let mut all = Object::new();
    let mut add = |name: &str, value: Value| all.insert(name.to_owned(), value);
    add("logging", json!({}));
    add("prompts", json!({}));
    add("resources", json!({"subscribe": true}));
    add("tools", json!({"listChanged": true}));
    if revision >= Revision::V2025_03_26 {
        add("completions", json!({}));
    }
    if revision.has_core_tasks() {
        add("tasks", json!({"list": {}, "cancel": {}, "requests": {"tools": {"call": {}}}}));
    }
    if revision.is_modern() {
        add("extensions", json!({TASKS_EXTENSION: {}}));
    }
    all
}
