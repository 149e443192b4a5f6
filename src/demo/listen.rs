//! Notifications that belong to no request: who gets them in each era. Legacy sessions hear of changes as they come;
//! modern clients open a `subscriptions/listen` request and hear only what it names.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::inputs::Capability;
use super::server;
use super::session::Session;
use super::sink::{Sink, lock};
use super::wire::{Object, RpcError, SERVER_INFO, SUBSCRIPTION_ID, notification, object, response};

/// Something that happened.
#[derive(Debug)]
pub(super) enum Event {
    /// There are more tools.
    ToolsChanged,
    /// A resource has new contents.
    ResourceUpdated(String),
    /// Legacy: the user has finished at the URL of that elicitation.
    UrlCompleted(String),
    /// Legacy: a task's new state.
    LegacyTask(Value),
    /// Modern: a task's new state, with all its details.
    Task(Value),
}

impl Event {
    fn method(&self) -> &'static str {
        match self {
            Self::ToolsChanged => "notifications/tools/list_changed",
            Self::ResourceUpdated(_) => "notifications/resources/updated",
            Self::UrlCompleted(_) => "notifications/elicitation/complete",
            Self::LegacyTask(_) => "notifications/tasks/status",
            Self::Task(_) => "notifications/tasks",
        }
    }

    fn params(&self) -> Object {
        object(match self {
            Self::ToolsChanged => json!({}),
            Self::ResourceUpdated(uri) => json!({"uri": uri}),
            Self::UrlCompleted(id) => json!({"elicitationId": id}),
            Self::LegacyTask(task) | Self::Task(task) => task.clone(),
        })
    }
}

/// An open `subscriptions/listen` request.
pub(super) struct Listen {
    session: Weak<Session>,
    id: Value,
    filter: Filter,
    sink: Arc<dyn Sink>,
}

#[derive(Default)]
struct Filter {
    tools: bool,
    resources: BTreeSet<String>,
    tasks: BTreeSet<String>,
}

impl Filter {
    fn wants(&self, event: &Event) -> bool {
        match event {
            Event::ToolsChanged => self.tools,
            Event::ResourceUpdated(uri) => self.resources.contains(uri),
            Event::Task(task) => {
                task.get("taskId").and_then(Value::as_str).is_some_and(|id| self.tasks.contains(id))
            }
            Event::UrlCompleted(_) | Event::LegacyTask(_) => false,
        }
    }

    /// Says what of the client's filter is honoured: only what this server has to tell.
    fn acknowledged(&self) -> Object {
        let mut honoured = Object::new();
        if self.tools {
            honoured.insert("toolsListChanged".to_owned(), true.into());
        }
        if !self.resources.is_empty() {
            honoured.insert("resourceSubscriptions".to_owned(), json!(self.resources));
        }
        if !self.tasks.is_empty() {
            honoured.insert("taskIds".to_owned(), json!(self.tasks));
        }
        honoured
    }
}

impl Listen {
    fn belongs_to(&self, session: &Arc<Session>) -> bool {
        std::ptr::eq(self.session.as_ptr(), Arc::as_ptr(session))
    }

    fn send(&self, method: &str, mut params: Object) {
        params.insert("_meta".to_owned(), json!({SUBSCRIPTION_ID: self.id}));
        self.sink.send(&notification(method, params));
    }
}

/// `subscriptions/listen`: acknowledged at once, answered when the session ends.
pub(super) fn listen(call: &Call) -> Result<Value, Stop> {
    let Some(wanted) = call.param("notifications").and_then(Value::as_object) else {
        return Err(RpcError::params("params.notifications must be an object").into());
    };
    let mut filter = Filter {
        tools: wanted.get("toolsListChanged") == Some(&Value::Bool(true)),
        resources: strings(wanted, "resourceSubscriptions")?,
        tasks: strings(wanted, "taskIds")?,
    };
    if !filter.tasks.is_empty() {
        Capability::Tasks.demand(call)?;
        let known = lock(&call.server().tasks);
        filter.tasks.retain(|id| known.iter().any(|task| task.is(id, call.revision)));
    }
    let listen = Listen {
        session: Arc::downgrade(&call.session),
        id: call.id.clone(),
        filter,
        sink: Arc::clone(&call.sink),
    };
    // The lock is held until the acknowledgement is out: it must come before any event.
    let mut listens = lock(&call.server().listens);
    let honoured = json!({"notifications": listen.filter.acknowledged()});
    listen.send("notifications/subscriptions/acknowledged", object(honoured));
    listens.push(listen);
    Err(Stop::Held)
}

fn strings(fields: &Object, name: &str) -> Result<BTreeSet<String>, RpcError> {
    let Some(value) = fields.get(name) else { return Ok(BTreeSet::new()) };
    let texts =
        value.as_array().map(|items| items.iter().map(|item| item.as_str().map(str::to_owned)).collect());
    texts.flatten().ok_or_else(|| RpcError::params(format!("notifications.{name} must be a list of strings")))
}

/// The client cancelled a listen: no further word.
pub(super) fn end_one(session: &Arc<Session>, id: &Value) {
    lock(&session.server.listens).retain(|listen| {
        let ends = listen.belongs_to(session) && listen.id == *id;
        if ends {
            listen.sink.withdraw();
        }
        !ends
    });
}

/// The session ends: its listens get their result.
pub(super) fn end_all(session: &Arc<Session>) {
    lock(&session.server.listens).retain(|listen| {
        let ends = listen.belongs_to(session);
        if ends {
            session.unregister(&listen.id);
            let meta = json!({SUBSCRIPTION_ID: listen.id, SERVER_INFO: server::info()});
            listen.sink.answer(&response(&listen.id, json!({"resultType": "complete", "_meta": meta})));
        }
        !ends
    });
}

/// The session is aborted: its listens are dropped.
pub(super) fn drop_all(session: &Arc<Session>) {
    lock(&session.server.listens).retain(|listen| !listen.belongs_to(session));
}

/// Tells everybody who wants to know. `origin` is the session in which it happened.
pub(super) fn publish(origin: &Arc<Session>, event: &Event) {
    for session in origin.server.sessions() {
        let concerned = match event {
            Event::ToolsChanged => session.revision().is_some(),
            Event::ResourceUpdated(uri) => session.is_subscribed(uri),
            Event::UrlCompleted(_) | Event::LegacyTask(_) => Arc::ptr_eq(&session, origin),
            Event::Task(_) => false,
        };
        if concerned {
            session.events.send(&notification(event.method(), event.params()));
        }
    }
    for listen in lock(&origin.server.listens).iter().filter(|listen| listen.filter.wants(event)) {
        listen.send(event.method(), event.params());
    }
}
