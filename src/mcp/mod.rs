//! What the Model Context Protocol says, as data: eras, methods, the fields that vary without meaning, and which
//! capability a server's request needs. Revisions 2024-11-05 to 2025-11-25 are called *legacy*, 2026-07-28 *modern*.

pub mod headers;
pub mod parameters;

use std::sync::LazyLock;

use memchr::memmem::Finder;

use crate::jsonrpc::message::{View, member, member_at};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;

/// The only revision with batches.
pub const WITH_BATCHES: &str = "2025-03-26";
/// `_meta` key of a modern request: the revision it speaks (2026-07-28, "Per-request metadata").
pub const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
/// `_meta` key of a modern request: what the client can do.
pub const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
/// `_meta` key of a modern request: the least severe log message it wants.
pub const LOG_LEVEL: &str = "io.modelcontextprotocol/logLevel";
/// `_meta` key that ties a message to a `subscriptions/listen`.
pub const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";
/// `_meta` key of a modern result: who answered.
pub const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";
/// The tasks extension's name in the capability maps.
pub const TASKS: &str = "io.modelcontextprotocol/tasks";

/// JSON-RPC 2.0 and MCP error codes that a replay makes itself.
pub mod code {
    /// Not JSON.
    pub const PARSE: i32 = -32700;
    /// JSON, and no message that may stand here.
    pub const INVALID_REQUEST: i32 = -32600;
    /// HTTP, legacy: no such session. What servers say, within the range that has no shared meaning.
    pub const NO_SESSION: i32 = -32001;
    /// HTTP: a header field is missing or contradicts the body (2026-07-28).
    pub const HEADER_MISMATCH: i32 = -32020;
    /// Unknown method, or a capability that is not offered.
    pub const METHOD_NOT_FOUND: i32 = -32601;
    /// Bad parameters.
    pub const INVALID_PARAMS: i32 = -32602;
    /// The client lacks a capability (2026-07-28).
    pub const MISSING_CAPABILITY: i32 = -32021;
    /// The revision is not spoken here (2026-07-28).
    pub const UNSUPPORTED_VERSION: i32 = -32022;
    /// Ours: nothing was recorded for this request.
    pub const MISS: i32 = -31001;
    /// Ours: the request was recorded, its answer was not.
    pub const LOST: i32 = -31002;
    /// Ours: the client did not answer a recorded request of the server.
    pub const UNANSWERED: i32 = -31003;
    /// Ours: the live server cannot be reached, or does not answer.
    pub const UNREACHABLE: i32 = -31004;
}

/// Which of the two designs a message belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Era {
    /// `initialize` first; up to 2025-11-25.
    Legacy,
    /// Self-contained requests; 2026-07-28.
    Modern,
}

impl Era {
    /// For people and reports.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Legacy => "legacy",
            Self::Modern => "modern",
        }
    }
}

/// The `_meta` member `name` of a request's or notification's `params`.
#[must_use]
pub fn meta(text: &str, view: &View, name: &str) -> Option<Span> {
    member_at(text, view.params?, &["_meta", name])
}

/// Whether these parameters may have a `_meta`, by a search that is quicker than a look at their members.
#[must_use]
pub fn may_have_meta(params: &str) -> bool {
    static META: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("_meta"));
    static ESCAPE: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("\\u"));
    [&META, &ESCAPE].iter().any(|finder| finder.find(params.as_bytes()).is_some())
}

/// The era of a request: modern exactly when it names a revision in `_meta`.
#[must_use]
pub fn era(text: &str, view: &View) -> Era {
    // Nearly every legacy request is told by this search alone.
    let params = view.params.map_or("", |params| params.of(text));
    if !may_have_meta(params) {
        return Era::Legacy;
    }
    if meta(text, view, VERSION).is_some() { Era::Modern } else { Era::Legacy }
}

/// The revision that a modern request names.
#[must_use]
pub fn version(text: &str, view: &View) -> Option<String> {
    meta(text, view, VERSION).map(|span| string::decode(span.of(text)).into_owned())
}

/// The parameter that names what a request is about: a tool, a prompt, a resource, a task.
#[must_use]
pub fn target(method: &str, text: &str, view: &View) -> Option<String> {
    let span = member(text, view.params?, target_member(method)?)?;
    Some(string::decode(span.of(text)).into_owned())
}

/// The member of `params` that is the [`target`] of this method.
#[must_use]
pub fn target_member(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => Some("uri"),
        "tasks/get" | "tasks/result" | "tasks/cancel" | "tasks/update" => Some("taskId"),
        "logging/setLevel" => Some("level"),
        _ => None,
    }
}

/// Methods whose last recorded answer stands for every further call: asking again changes nothing.
#[must_use]
pub fn repeats(method: &str) -> bool {
    is_list(method)
        || matches!(
            method,
            "initialize"
                | "server/discover"
                | "resources/read"
                | "prompts/get"
                | "completion/complete"
                | "logging/setLevel"
                | "resources/subscribe"
                | "resources/unsubscribe"
                | "subscriptions/listen"
                | "tasks/list"
                | "tasks/get"
                | "tasks/result"
                | "tasks/cancel"
                | "tasks/update"
        )
}

/// Methods that list what a server offers; clients call them on their own account.
#[must_use]
pub fn is_list(method: &str) -> bool {
    matches!(method, "tools/list" | "prompts/list" | "resources/list" | "resources/templates/list")
}

/// The server capability that a method belongs to.
#[must_use]
pub fn server_capability(method: &str) -> Option<&'static str> {
    Some(match method.split('/').next()? {
        "tools" => "tools",
        "prompts" => "prompts",
        "resources" => "resources",
        "completion" => "completions",
        "logging" => "logging",
        "tasks" => "tasks",
        _ => return None,
    })
}

/// Client notifications that come or not, and as often, as time will have it: nothing waits for them.
#[must_use]
pub fn is_incidental(method: &str) -> bool {
    matches!(method, "notifications/cancelled" | "notifications/progress")
}

/// Whether the request of a session is only a probe: what a client sends before it decides to stay.
#[must_use]
pub fn is_probe(method: &str) -> bool {
    matches!(
        method,
        "server/discover" | "ping" | "initialize" | "notifications/initialized" | "notifications/cancelled"
    )
}

/// RFC 5424 severity of a log level, 0 (`debug`) to 7 (`emergency`).
#[must_use]
pub fn severity(level: &str) -> Option<u8> {
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    levels.iter().position(|known| *known == level).and_then(|index| u8::try_from(index).ok())
}

/// What a client lacks to be asked `method` with these parameters: the path of the missing capability, or `None` when
/// it has all. `capabilities` is the client's capability object.
#[must_use]
pub fn missing_capability(
    method: &str,
    params: Option<&str>,
    capabilities: Option<&str>,
) -> Option<&'static [&'static str]> {
    let has = |path: &[&str]| {
        capabilities.is_some_and(|text| {
            member_at(text, Span::new(0, text.len()), path).is_some_and(|span| span.of(text) != "null")
        })
    };
    let param = |name: &str| {
        params.and_then(|text| member(text, Span::new(0, text.len()), name).map(|span| span.of(text)))
    };
    let needed: &[&'static [&'static str]] = match method {
        "sampling/createMessage" if param("tools").is_some() => &[&["sampling"], &["sampling", "tools"]],
        "sampling/createMessage" => &[&["sampling"]],
        "roots/list" => &[&["roots"]],
        "elicitation/create" if param("mode").is_some_and(|mode| string::is(mode, "url")) => {
            &[&["elicitation"], &["elicitation", "url"]]
        }
        // An empty object means form mode; one that names only other modes does not (2025-11-25, "Elicitation").
        "elicitation/create" if has(&["elicitation", "url"]) && !has(&["elicitation", "form"]) => {
            &[&["elicitation", "form"]]
        }
        "elicitation/create" => &[&["elicitation"]],
        "tasks/get" | "tasks/result" | "tasks/list" | "tasks/cancel" => &[&["tasks"]],
        _ => &[],
    };
    needed.iter().find(|path| !has(path)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eras() {
        for (text, expected) in [
            (r#"{"id":1,"method":"tools/list"}"#, Era::Legacy),
            (r#"{"id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}"#, Era::Legacy),
            (
                r#"{"id":1,"method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
                Era::Modern,
            ),
            (
                r#"{"id":1,"method":"x","params":{"\u005fmeta":{"io.modelcontextprotocol\/protocolVersion":"2026-07-28"}}}"#,
                Era::Modern,
            ),
        ] {
            assert_eq!(era(text, &View::of(text).unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn capabilities() {
        for (method, params, capabilities, missing) in [
            ("sampling/createMessage", "{}", r#"{"sampling":{}}"#, None),
            (
                "sampling/createMessage",
                r#"{"tools":[]}"#,
                r#"{"sampling":{}}"#,
                Some(&["sampling", "tools"][..]),
            ),
            ("roots/list", "{}", "{}", Some(&["roots"][..])),
            ("elicitation/create", "{}", r#"{"elicitation":{}}"#, None),
            ("elicitation/create", "{}", r#"{"elicitation":{"form":{},"url":{}}}"#, None),
            ("elicitation/create", "{}", r#"{"elicitation":{"url":{}}}"#, Some(&["elicitation", "form"][..])),
            (
                "elicitation/create",
                r#"{"mode":"url"}"#,
                r#"{"elicitation":{"form":{}}}"#,
                Some(&["elicitation", "url"][..]),
            ),
            ("ping", "{}", "{}", None),
        ] {
            assert_eq!(
                missing_capability(method, Some(params), Some(capabilities)),
                missing,
                "{method} {params}"
            );
        }
        assert_eq!(missing_capability("roots/list", None, None), Some(&["roots"][..]));
    }
}
