//! One running request: what it was asked, what it may say while it runs, and how it ends.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use serde_json::{Value, json};

use super::listen::{self, Event};
use super::server::{self, Server};
use super::session::{Flow, Session, Terms};
use super::sink::Sink;
use super::wire::{
    Answer, Level, Object, Revision, RpcError, SERVER_INFO, error_response, notification, object, response,
};

/// Answers one method, or one tool.
pub(super) type Handler = fn(&Call) -> Result<Value, Stop>;

/// Why a handler has no ordinary result.
#[derive(Debug)]
pub(super) enum Stop {
    /// It failed.
    Rpc(RpcError),
    /// It has a result already, from deep inside: questions that the client must answer first, or a complaint.
    With(Value),
    /// Nobody waits for the result any more.
    Cancelled,
    /// It goes on without a thread; whoever holds it answers later.
    Held,
    /// The process is to end.
    Exit(u8),
}

impl From<RpcError> for Stop {
    fn from(error: RpcError) -> Self {
        Self::Rpc(error)
    }
}

/// What can reach a running call.
#[derive(Debug)]
pub(super) enum Signal {
    /// The client's answer to the request of that id.
    Answer(u64, Answer),
    /// The client lost interest.
    Cancel,
    /// The client is gone: no more answers, no reason to wait.
    Closing,
}

/// The parts of a new call.
pub(super) struct Opening {
    pub(super) id: Value,
    pub(super) method: String,
    pub(super) params: Object,
    pub(super) sink: Arc<dyn Sink>,
    pub(super) terms: Terms,
    pub(super) mailbox: Sender<Signal>,
    pub(super) signals: Receiver<Signal>,
}

/// See the module.
pub(super) struct Call {
    /// Who asked.
    pub(super) session: Arc<Session>,
    /// Takes what belongs to this call.
    pub(super) sink: Arc<dyn Sink>,
    /// The request's id.
    pub(super) id: Value,
    /// The request's method.
    pub(super) method: String,
    /// The revision it is in.
    pub(super) revision: Revision,
    /// What its client can do.
    pub(super) capabilities: Value,
    /// Takes answers to requests of this call.
    pub(super) mailbox: Sender<Signal>,
    /// How many rounds of questions this call has gone through.
    pub(super) round: Cell<usize>,
    params: Object,
    arguments: Object,
    log_level: Option<Level>,
    signals: Receiver<Signal>,
    closing: Cell<bool>,
    after: RefCell<Vec<Event>>,
}

/// How long a call with progress holds back its result: some clients drop progress that they read together with it.
const PROGRESS_GAP: Duration = Duration::from_millis(10);

impl Call {
    /// A call about to run.
    pub(super) fn new(session: Arc<Session>, parts: Opening) -> Self {
        let Opening { id, method, params, sink, terms, mailbox, signals } = parts;
        let arguments = params.get("arguments").cloned().map(object).unwrap_or_default();
        let Terms { revision, capabilities, log_level } = terms;
        Self {
            session,
            sink,
            id,
            method,
            revision,
            capabilities,
            mailbox,
            round: Cell::new(0),
            params,
            arguments,
            log_level,
            signals,
            closing: Cell::new(false),
            after: RefCell::default(),
        }
    }

    /// The state that all sessions share.
    pub(super) fn server(&self) -> &Server {
        &self.session.server
    }

    /// A parameter; null counts as absent.
    pub(super) fn param(&self, name: &str) -> Option<&Value> {
        self.params.get(name).filter(|value| !value.is_null())
    }

    /// A parameter that must be a string.
    pub(super) fn text_param(&self, name: &str) -> Result<&str, RpcError> {
        let text = self.param(name).and_then(Value::as_str);
        text.ok_or_else(|| RpcError::params(format!("params.{name} must be a string")))
    }

    /// All arguments of a tool or prompt.
    pub(super) fn arguments(&self) -> &Object {
        &self.arguments
    }

    /// An argument that must be a string.
    pub(super) fn text(&self, name: &str) -> Result<&str, RpcError> {
        self.argument(name, "a string", Value::as_str)
    }

    /// An argument that must be a whole number from 0.
    pub(super) fn count(&self, name: &str) -> Result<u64, RpcError> {
        self.argument(name, "a whole number, 0 or more", Value::as_u64)
    }

    /// An argument that must satisfy `read`.
    pub(super) fn argument<'a, T>(
        &'a self,
        name: &str,
        kind: &str,
        read: impl FnOnce(&'a Value) -> Option<T>,
    ) -> Result<T, RpcError> {
        let found = self.arguments.get(name).and_then(read);
        found.ok_or_else(|| RpcError::params(format!("argument {name} must be {kind}")))
    }

    /// The token for progress, where the client wants any.
    pub(super) fn progress_token(&self) -> Option<&Value> {
        self.param("_meta").and_then(|meta| meta.get("progressToken"))
    }

    /// Reports progress to those who asked for it.
    pub(super) fn progress(&self, done: u64, total: u64) {
        if let Some(token) = self.progress_token() {
            self.progress_for(token, done, total);
        }
    }

    /// Reports progress for a token of another call, as the client of a task expects it.
    pub(super) fn progress_for(&self, token: &Value, done: u64, total: u64) {
        let mut params = object(json!({"progressToken": token, "progress": done, "total": total}));
        if self.revision >= Revision::V2025_03_26 {
            params.insert("message".to_owned(), format!("step {done} of {total}").into());
        }
        self.sink.send(&notification("notifications/progress", params));
    }

    /// Leaves room between the last progress and what follows it.
    pub(super) fn progress_gap(&self) -> Result<(), Stop> {
        if self.progress_token().is_some() { self.pause(PROGRESS_GAP) } else { Ok(()) }
    }

    /// Logs, if the client wants messages of that level: modern ones say so per request, legacy ones per session.
    pub(super) fn log(&self, level: Level, data: &Value) {
        let least = if self.revision.is_modern() { self.log_level } else { self.session.log_level() };
        if least.is_some_and(|least| level >= least) {
            let params = object(json!({"level": level.name(), "logger": "demo", "data": data}));
            self.sink.send(&notification("notifications/message", params));
        }
    }

    /// Tells others about a change, once this call is answered.
    pub(super) fn afterwards(&self, event: Event) {
        self.after.borrow_mut().push(event);
    }

    /// Waits that long, or until the client is gone.
    pub(super) fn pause(&self, time: Duration) -> Result<(), Stop> {
        if self.closing.get() {
            return Ok(());
        }
        match self.signals.recv_timeout(time) {
            Ok(Signal::Cancel) => return Err(Stop::Cancelled),
            Ok(Signal::Closing) => self.closing.set(true),
            // An answer nobody waits for cannot come: no question is open while a call pauses.
            Ok(Signal::Answer(..)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        Ok(())
    }

    /// Waits for the next answer of the client.
    pub(super) fn next_answer(&self) -> Result<(u64, Answer), Stop> {
        if self.closing.get() {
            return Err(Stop::Cancelled);
        }
        match self.signals.recv() {
            Ok(Signal::Answer(id, answer)) => Ok((id, answer)),
            Ok(Signal::Cancel | Signal::Closing) | Err(_) => Err(Stop::Cancelled),
        }
    }

    /// Ends the call.
    pub(super) fn finish(self, outcome: Result<Value, Stop>) -> Flow {
        let message = match outcome {
            Ok(result) | Err(Stop::With(result)) => response(&self.id, self.dress(result)),
            Err(Stop::Rpc(error)) => error_response(&self.id, &error),
            Err(Stop::Held) => return Flow::Continue,
            Err(Stop::Exit(code)) => return Flow::Exit(code),
            Err(Stop::Cancelled) => {
                self.session.unregister(&self.id);
                self.sink.withdraw();
                return Flow::Continue;
            }
        };
        if self.session.unregister(&self.id) {
            self.sink.answer(&message);
        } else {
            self.sink.withdraw();
        }
        for event in self.after.take() {
            listen::publish(&self.session, &event);
        }
        Flow::Continue
    }

    /// Adds what the revision wants in every result.
    fn dress(&self, mut result: Value) -> Value {
        let (true, Some(fields)) = (self.revision.is_modern(), result.as_object_mut()) else { return result };
        let complete = fields.entry("resultType").or_insert_with(|| "complete".into()) == "complete";
        let meta = fields.entry("_meta").or_insert_with(|| json!({}));
        if let Some(meta) = meta.as_object_mut() {
            meta.insert(SERVER_INFO.to_owned(), server::info());
        }
        if complete && is_cacheable(&self.method) {
            fields.insert("ttlMs".to_owned(), 0.into());
            fields.insert("cacheScope".to_owned(), "private".into());
        }
        result
    }
}

fn is_cacheable(method: &str) -> bool {
    matches!(
        method,
        "server/discover"
            | "tools/list"
            | "prompts/list"
            | "resources/list"
            | "resources/templates/list"
            | "resources/read"
    )
}
