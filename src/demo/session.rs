//! One client's conversation: tells the eras apart, opens calls, delivers answers and cancellations.
//!
//! Over a pipe this is the whole connection and may hold both eras; a transport without connections can use one
//! session per legacy session id and one per modern request.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use serde_json::{Value, json};

use super::call::{Call, Handler, Opening, Signal, Stop};
use super::server::{self, Server};
use super::sink::{Batch, Sink, lock};
use super::wire::{
    Answer, CLIENT_CAPABILITIES, INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, LOG_LEVEL, Level,
    METHOD_NOT_FOUND, Message, Object, PROTOCOL_VERSION, Revision, RpcError, UNSUPPORTED_VERSION,
    error_response,
};
use super::{listen, prompts, resources, tasks, tools};

/// Whether the process goes on after a message.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Flow {
    /// Yes.
    Continue,
    /// No: it is asked to end at once, with this exit code and without a further answer.
    Exit(u8),
}

/// What the handshake of a legacy session settled, and what its client has set since.
struct Legacy {
    revision: Revision,
    capabilities: Value,
    log_level: Level,
    subscriptions: BTreeSet<String>,
}

/// See the module.
pub(super) struct Session {
    /// What it shares with the others.
    pub(super) server: Arc<Server>,
    /// Takes legacy notifications that belong to no request.
    pub(super) events: Arc<dyn Sink>,
    /// The URL elicitation that the next call of `ask_url` stands behind.
    pub(super) url_elicitation: Mutex<Option<String>>,
    legacy: Mutex<Option<Legacy>>,
    running: Mutex<HashMap<String, Sender<Signal>>>,
    pending: Mutex<HashMap<u64, Sender<Signal>>>,
    next_request: AtomicU64,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Session {
    /// A session that has heard nothing yet.
    pub(super) fn new(server: Arc<Server>, events: Arc<dyn Sink>) -> Arc<Self> {
        let session = Arc::new(Self {
            server,
            events,
            url_elicitation: Mutex::default(),
            legacy: Mutex::default(),
            running: Mutex::default(),
            pending: Mutex::default(),
            next_request: AtomicU64::new(0),
            threads: Mutex::default(),
        });
        session.server.enrol(&session);
        session
    }

    /// Takes one parsed message (or batch). What it leads to goes to `sink`, now or later.
    pub(super) fn receive(self: &Arc<Self>, message: Value, sink: &Arc<dyn Sink>) -> Flow {
        match message {
            Value::Array(items) => self.batch(items, sink),
            single => self.take(Message::sort(single), sink),
        }
    }

    /// Ends the session when its client has: sleeping calls answer at once, waiting ones are dropped, listens get
    /// their result.
    pub(super) fn close(self: &Arc<Self>) {
        for mailbox in lock(&self.running).values() {
            let _ = mailbox.send(Signal::Closing);
        }
        listen::end_all(self);
        self.join();
    }

    /// Ends the session with no further word.
    pub(super) fn abort(self: &Arc<Self>) {
        listen::drop_all(self);
        for (_, mailbox) in lock(&self.running).drain() {
            let _ = mailbox.send(Signal::Cancel);
        }
        self.join();
    }

    fn join(&self) {
        let threads = std::mem::take(&mut *lock(&self.threads));
        for thread in threads {
            let _ = thread.join();
        }
    }

    fn batch(self: &Arc<Self>, items: Vec<Value>, sink: &Arc<dyn Sink>) -> Flow {
        let refuse = |why| sink.answer(&error_response(&Value::Null, &RpcError::new(INVALID_REQUEST, why)));
        if self.revision() != Some(Revision::V2025_03_26) {
            refuse("batches are part of 2025-03-26 only");
            return Flow::Continue;
        }
        if items.is_empty() {
            refuse("an empty batch");
            return Flow::Continue;
        }
        let messages: Vec<Message> = items.into_iter().map(Message::sort).collect();
        let answers = messages
            .iter()
            .filter(|m| matches!(m, Message::Request { .. } | Message::Invalid { .. }))
            .count();
        let batch: Arc<dyn Sink> = Arc::new(Batch::new(Arc::clone(sink), answers));
        for message in messages {
            let flow = match message {
                Message::Request { id, method, .. } if method == "initialize" => {
                    let error = RpcError::new(INVALID_REQUEST, "initialize is never part of a batch");
                    batch.answer(&error_response(&id, &error));
                    Flow::Continue
                }
                other => self.take(other, &batch),
            };
            if flow != Flow::Continue {
                return flow;
            }
        }
        Flow::Continue
    }

    fn take(self: &Arc<Self>, message: Message, sink: &Arc<dyn Sink>) -> Flow {
        match message {
            Message::Request { id, method, params } => return self.request(id, method, params, sink),
            Message::Notification { method, params } => {
                if method == "notifications/cancelled"
                    && let Some(id) = params.get("requestId")
                {
                    self.cancel(id);
                }
            }
            Message::Response { id, answer } => self.deliver(&id, answer),
            Message::Invalid { id, why } => {
                sink.answer(&error_response(&id, &RpcError::new(INVALID_REQUEST, why)));
            }
        }
        Flow::Continue
    }

    fn request(self: &Arc<Self>, id: Value, method: String, params: Object, sink: &Arc<dyn Sink>) -> Flow {
        let (mailbox, signals) = channel();
        let opened = self.admit(&method, &params).and_then(|admitted| {
            self.register(&id, &mailbox)?;
            Ok(admitted)
        });
        let (handler, terms) = match opened {
            Ok(opened) => opened,
            Err(error) => {
                sink.answer(&error_response(&id, &error));
                return Flow::Continue;
            }
        };
        let sink = Arc::clone(sink);
        let call = Call::new(Arc::clone(self), Opening { id, method, params, sink, terms, mailbox, signals });
        if let Some(name) = tools::thread_name(&call) {
            return self.run_apart(call, handler, name);
        }
        let outcome = handler(&call);
        call.finish(outcome)
    }

    /// Runs a call that takes its time on a thread of its own.
    fn run_apart(&self, call: Call, handler: Handler, name: String) -> Flow {
        let refusal = (Arc::clone(&call.sink), call.id.clone());
        let spawned = thread::Builder::new().name(name).spawn(move || {
            let outcome = handler(&call);
            call.finish(outcome);
        });
        match spawned {
            Ok(thread) => {
                let mut threads = lock(&self.threads);
                threads.retain(|thread| !thread.is_finished());
                threads.push(thread);
            }
            Err(why) => {
                let (sink, id) = refusal;
                self.unregister(&id);
                let error = RpcError::new(INTERNAL_ERROR, format!("cannot start a thread: {why}"));
                sink.answer(&error_response(&id, &error));
            }
        }
        Flow::Continue
    }

    /// Finds the era and the handler of a request, or the error that it gets.
    fn admit(&self, method: &str, params: &Object) -> Result<(Handler, Terms), RpcError> {
        let terms = match params.get("_meta").and_then(|meta| meta.get(PROTOCOL_VERSION)) {
            Some(version) => modern_terms(params, version)?,
            None => self.legacy_terms(method, params)?,
        };
        match handler(method, terms.revision) {
            Some(handler) => Ok((handler, terms)),
            None => Err(unknown_method(method)),
        }
    }

    fn legacy_terms(&self, method: &str, params: &Object) -> Result<Terms, RpcError> {
        if method == "initialize" {
            let version = params.get("protocolVersion").and_then(Value::as_str);
            let version = version.ok_or_else(|| RpcError::params("initialize needs protocolVersion"))?;
            return Ok(Terms::bare(Revision::negotiate(version)));
        }
        if let Some(legacy) = &*lock(&self.legacy) {
            let capabilities = legacy.capabilities.clone();
            return Ok(Terms { revision: legacy.revision, capabilities, log_level: None });
        }
        if method == "ping" {
            return Ok(Terms::bare(Revision::V2025_11_25));
        }
        let known =
            [Revision::V2025_11_25, Revision::V2026_07_28].iter().any(|r| handler(method, *r).is_some());
        if known {
            let hint = format!("no initialize yet, and params._meta has no {PROTOCOL_VERSION}");
            Err(RpcError::new(INVALID_PARAMS, hint))
        } else {
            Err(unknown_method(method))
        }
    }

    fn register(&self, id: &Value, mailbox: &Sender<Signal>) -> Result<(), RpcError> {
        let mut running = lock(&self.running);
        let key = id.to_string();
        if running.contains_key(&key) {
            return Err(RpcError::new(INVALID_REQUEST, format!("request {key} is still running")));
        }
        running.insert(key, mailbox.clone());
        Ok(())
    }

    /// Takes a call off the list of the running ones; false when it was cancelled before.
    pub(super) fn unregister(&self, id: &Value) -> bool {
        lock(&self.running).remove(&id.to_string()).is_some()
    }

    /// The client lost interest in a request of its own. `initialize` cannot be cancelled: it is over by now.
    pub(super) fn cancel(self: &Arc<Self>, id: &Value) {
        let mailbox = lock(&self.running).remove(&id.to_string());
        if let Some(mailbox) = mailbox {
            let _ = mailbox.send(Signal::Cancel);
            listen::end_one(self, id);
        }
    }

    /// A fresh id for a request to the client, whose answer goes to `mailbox`.
    pub(super) fn expect_answer(&self, mailbox: &Sender<Signal>) -> u64 {
        let id = self.next_request.fetch_add(1, Ordering::Relaxed);
        lock(&self.pending).insert(id, mailbox.clone());
        id
    }

    /// The answer to that request is no longer wanted.
    pub(super) fn forget_answer(&self, id: u64) {
        lock(&self.pending).remove(&id);
    }

    fn deliver(&self, id: &Value, answer: Answer) {
        let Some(id) = id.as_u64() else { return };
        let mailbox = lock(&self.pending).remove(&id);
        if let Some(mailbox) = mailbox {
            let _ = mailbox.send(Signal::Answer(id, answer));
        }
    }

    /// The negotiated legacy revision, after a handshake.
    pub(super) fn revision(&self) -> Option<Revision> {
        lock(&self.legacy).as_ref().map(|legacy| legacy.revision)
    }

    /// The handshake is done.
    pub(super) fn start_legacy(&self, revision: Revision, capabilities: Value) {
        *lock(&self.legacy) =
            Some(Legacy { revision, capabilities, log_level: Level::INFO, subscriptions: BTreeSet::new() });
    }

    /// The least level that a legacy client wants to see.
    pub(super) fn log_level(&self) -> Option<Level> {
        lock(&self.legacy).as_ref().map(|legacy| legacy.log_level)
    }

    /// Whether a legacy client has subscribed to a resource.
    pub(super) fn is_subscribed(&self, uri: &str) -> bool {
        lock(&self.legacy).as_ref().is_some_and(|legacy| legacy.subscriptions.contains(uri))
    }
}

/// What a request may count on.
pub(super) struct Terms {
    /// The revision it is in.
    pub(super) revision: Revision,
    /// What its client can do.
    pub(super) capabilities: Value,
    /// Modern: the level from which it wants log messages. Legacy sessions keep theirs apart: it can change while
    /// a call runs.
    pub(super) log_level: Option<Level>,
}

impl Terms {
    fn bare(revision: Revision) -> Self {
        Self { revision, capabilities: json!({}), log_level: None }
    }
}

fn modern_terms(params: &Object, version: &Value) -> Result<Terms, RpcError> {
    let revision = version.as_str().and_then(Revision::parse).filter(|revision| revision.is_modern());
    let Some(revision) = revision else {
        let data = json!({"supported": [Revision::V2026_07_28.date()], "requested": version});
        return Err(RpcError::new(UNSUPPORTED_VERSION, "unsupported protocol version").with(data));
    };
    let meta = params.get("_meta");
    let capabilities = meta.and_then(|meta| meta.get(CLIENT_CAPABILITIES)).filter(|it| it.is_object());
    let Some(capabilities) = capabilities.cloned() else {
        return Err(RpcError::params(format!("params._meta has no object {CLIENT_CAPABILITIES}")));
    };
    let log_level = meta.and_then(|meta| meta.get(LOG_LEVEL)).map(Level::parse).transpose()?;
    Ok(Terms { revision, capabilities, log_level })
}

fn unknown_method(method: &str) -> RpcError {
    RpcError::new(METHOD_NOT_FOUND, format!("unknown method: {method}"))
}

/// Which function answers a method in a revision.
fn handler(method: &str, revision: Revision) -> Option<Handler> {
    let modern = revision.is_modern();
    Some(match method {
        "tools/list" => tools::list,
        "tools/call" => tools::call,
        "prompts/list" => prompts::list,
        "prompts/get" => prompts::get,
        "resources/list" => resources::list,
        "resources/templates/list" => resources::templates,
        "resources/read" => resources::read,
        "completion/complete" => prompts::complete,
        "server/discover" if modern => server::discover,
        "subscriptions/listen" if modern => listen::listen,
        "tasks/update" if modern => tasks::update,
        "tasks/get" if modern || revision.has_core_tasks() => tasks::get,
        "tasks/cancel" if modern || revision.has_core_tasks() => tasks::cancel,
        "tasks/result" if revision.has_core_tasks() => tasks::result,
        "tasks/list" if revision.has_core_tasks() => tasks::list,
        "initialize" if !modern => server::initialize,
        "ping" if !modern => server::ping,
        "logging/setLevel" if !modern => set_level,
        "resources/subscribe" if !modern => subscribe,
        "resources/unsubscribe" if !modern => unsubscribe,
        _ => return None,
    })
}

fn set_level(call: &Call) -> Result<Value, Stop> {
    let level = Level::parse(call.param("level").unwrap_or(&Value::Null))?;
    if let Some(legacy) = &mut *lock(&call.session.legacy) {
        legacy.log_level = level;
    }
    Ok(json!({}))
}

fn subscribe(call: &Call) -> Result<Value, Stop> {
    let uri = call.text_param("uri")?.to_owned();
    if let Some(legacy) = &mut *lock(&call.session.legacy) {
        legacy.subscriptions.insert(uri);
    }
    Ok(json!({}))
}

fn unsubscribe(call: &Call) -> Result<Value, Stop> {
    let uri = call.text_param("uri")?;
    if let Some(legacy) = &mut *lock(&call.session.legacy) {
        legacy.subscriptions.remove(uri);
    }
    Ok(json!({}))
}
