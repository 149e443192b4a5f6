//! What goes over the wire: revisions, log levels, messages and errors.

use serde_json::{Map, Value, json};

/// A JSON object.
pub(super) type Object = Map<String, Value>;

/// `_meta` key that names the revision of a modern request; its presence is what makes a request modern.
pub(super) const PROTOCOL_VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key with what the client of a modern request can do.
pub(super) const CLIENT_CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` key that opts a modern request in to log messages.
pub(super) const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` key of modern results that names the server.
pub(super) const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// `_meta` key that ties a notification to the `subscriptions/listen` request it belongs to.
pub(super) const SUBSCRIPTION_ID: &str = "io.modelcontextprotocol/subscriptionId";
/// `_meta` key that ties a legacy message to a task.
pub(super) const RELATED_TASK: &str = "io.modelcontextprotocol/related-task";
/// The tasks extension of the modern era.
pub(super) const TASKS_EXTENSION: &str = "io.modelcontextprotocol/tasks";

/// Not JSON.
pub(super) const PARSE_ERROR: i64 = -32700;
/// JSON, but no message, or one that is not allowed here.
pub(super) const INVALID_REQUEST: i64 = -32600;
/// No such method in this revision.
pub(super) const METHOD_NOT_FOUND: i64 = -32601;
/// Parameters that make no sense, unknown names among them.
pub(super) const INVALID_PARAMS: i64 = -32602;
/// The server itself failed.
pub(super) const INTERNAL_ERROR: i64 = -32603;
/// Legacy: no such resource.
pub(super) const RESOURCE_NOT_FOUND: i64 = -32002;
/// Modern: the client did not declare what this request needs.
pub(super) const MISSING_CAPABILITY: i64 = -32021;
/// Modern: a revision that this server does not speak.
pub(super) const UNSUPPORTED_VERSION: i64 = -32022;
/// 2025-11-25: the user has to visit a URL first.
pub(super) const URL_ELICITATION_REQUIRED: i64 = -32042;

/// A protocol revision, oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Revision {
    /// 2024-11-05.
    V2024_11_05,
    /// 2025-03-26.
    V2025_03_26,
    /// 2025-06-18.
    V2025_06_18,
    /// 2025-11-25, the last one with a handshake.
    V2025_11_25,
    /// 2026-07-28, the first without.
    V2026_07_28,
}

impl Revision {
    const ALL: [(Self, &'static str); 5] = [
        (Self::V2024_11_05, "2024-11-05"),
        (Self::V2025_03_26, "2025-03-26"),
        (Self::V2025_06_18, "2025-06-18"),
        (Self::V2025_11_25, "2025-11-25"),
        (Self::V2026_07_28, "2026-07-28"),
    ];

    /// The revision of that date, if there is one.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, date)| *date == text).map(|(revision, _)| *revision)
    }

    /// What `initialize` answers to a client that asks for `text`: the same where this is a legacy revision, else
    /// the newest legacy one (clients also ask for modern ones here).
    pub(super) fn negotiate(text: &str) -> Self {
        Self::parse(text).filter(|revision| !revision.is_modern()).unwrap_or(Self::V2025_11_25)
    }

    /// Its date.
    pub(super) fn date(self) -> &'static str {
        Self::ALL.iter().find(|(revision, _)| *revision == self).map_or("", |(_, date)| date)
    }

    /// Whether every request describes itself, as opposed to a handshake at the start.
    pub(super) fn is_modern(self) -> bool {
        self >= Self::V2026_07_28
    }

    /// Whether `tools/call` takes a `task` parameter: experimental in one revision, an extension after it.
    pub(super) fn has_core_tasks(self) -> bool {
        self == Self::V2025_11_25
    }
}

/// The severity of a log message, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Level(usize);

impl Level {
    /// The names, in order.
    pub(super) const NAMES: [&'static str; 8] =
        ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    /// What a legacy session logs from until it says otherwise.
    pub(super) const INFO: Self = Self(1);

    /// The level of that name; anything else is an invalid parameter.
    pub(super) fn parse(value: &Value) -> Result<Self, RpcError> {
        Self::NAMES
            .iter()
            .position(|name| value == name)
            .map(Self)
            .ok_or_else(|| RpcError::params(format!("not a log level: {value}")))
    }

    /// The n-th level, starting over after the last.
    pub(super) fn nth(n: usize) -> Self {
        Self(n % Self::NAMES.len())
    }

    /// Its name.
    pub(super) fn name(self) -> &'static str {
        Self::NAMES.get(self.0).copied().unwrap_or_default()
    }
}

/// A JSON-RPC error.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RpcError {
    /// What kind.
    pub(super) code: i64,
    /// One sentence for people.
    pub(super) message: String,
    /// More for programs.
    pub(super) data: Option<Value>,
}

impl RpcError {
    /// An error without data.
    pub(super) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    /// Invalid parameters.
    pub(super) fn params(message: impl Into<String>) -> Self {
        Self::new(INVALID_PARAMS, message)
    }

    /// The same error with data.
    pub(super) fn with(self, data: Value) -> Self {
        Self { data: Some(data), ..self }
    }
}

/// What a client answered to a request of ours: its result, or the message of its error.
pub(super) type Answer = Result<Value, String>;

/// One incoming message, sorted by what it is.
#[derive(Debug)]
pub(super) enum Message {
    /// Wants an answer.
    Request {
        /// A string or a number.
        id: Value,
        /// What is asked.
        method: String,
        /// Empty where absent.
        params: Object,
    },
    /// Wants none.
    Notification {
        /// What is said.
        method: String,
        /// Empty where absent.
        params: Object,
    },
    /// Answers a request of ours.
    Response {
        /// The id that we gave it.
        id: Value,
        /// What came back.
        answer: Answer,
    },
    /// JSON, but no message.
    Invalid {
        /// The id to answer to, null where there is none.
        id: Value,
        /// What is wrong.
        why: &'static str,
    },
}

impl Message {
    /// Sorts a parsed line.
    pub(super) fn sort(value: Value) -> Self {
        let Value::Object(mut fields) = value else {
            return Self::Invalid { id: Value::Null, why: "a message is a JSON object" };
        };
        let id = fields.remove("id");
        let usable = id.clone().filter(|id| id.is_string() || id.is_number());
        let invalid = |why| Self::Invalid { id: usable.clone().unwrap_or(Value::Null), why };
        if fields.get("jsonrpc") != Some(&Value::from("2.0")) {
            return invalid("jsonrpc is not \"2.0\"");
        }
        let Some(method) = fields.remove("method") else {
            return match (usable.clone(), fields.remove("result"), fields.remove("error")) {
                (Some(id), Some(result), None) => Self::Response { id, answer: Ok(result) },
                (Some(id), None, Some(error)) => Self::Response { id, answer: Err(error_text(&error)) },
                _ => invalid("neither request, notification nor response"),
            };
        };
        let Value::String(method) = method else { return invalid("method is not a string") };
        let params = match fields.remove("params") {
            None => Object::new(),
            Some(Value::Object(params)) => params,
            Some(_) => return invalid("params is not an object"),
        };
        match (id, usable.clone()) {
            (None, _) => Self::Notification { method, params },
            (Some(_), Some(id)) => Self::Request { id, method, params },
            (Some(_), None) => invalid("id is neither a string nor a number"),
        }
    }
}

fn error_text(error: &Value) -> String {
    error.get("message").and_then(Value::as_str).unwrap_or("error without a message").to_owned()
}

/// A message with these fields, and the one that all have. Takes values, for some are big.
fn message<const N: usize>(fields: [(&str, Value); N]) -> Object {
    let version = ("jsonrpc", Value::from("2.0"));
    std::iter::once(version).chain(fields).map(|(name, value)| (name.to_owned(), value)).collect()
}

/// A successful response.
pub(super) fn response(id: &Value, result: Value) -> Value {
    message([("id", id.clone()), ("result", result)]).into()
}

/// An error response.
pub(super) fn error_response(id: &Value, error: &RpcError) -> Value {
    let mut body = object(json!({"code": error.code, "message": error.message}));
    if let Some(data) = &error.data {
        body.insert("data".to_owned(), data.clone());
    }
    message([("id", id.clone()), ("error", body.into())]).into()
}

/// A notification.
pub(super) fn notification(method: &str, params: Object) -> Value {
    let mut fields = message([("method", method.into())]);
    if !params.is_empty() {
        fields.insert("params".to_owned(), params.into());
    }
    fields.into()
}

/// A request to the client.
pub(super) fn request(id: u64, method: &str, params: &Value) -> Value {
    let mut fields = message([("id", id.into()), ("method", method.into())]);
    if !params.is_null() {
        fields.insert("params".to_owned(), params.clone());
    }
    fields.into()
}

/// The object in `json!({...})`, for places that want a map.
pub(super) fn object(value: Value) -> Object {
    match value {
        Value::Object(fields) => fields,
        _ => Object::new(),
    }
}
