//! The header fields of Streamable HTTP, and what they must agree with (2026-07-28, transports, "Headers").

use std::borrow::Cow;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Which revision the client speaks.
pub const VERSION: &str = "mcp-protocol-version";
/// The method of a modern request.
pub const METHOD: &str = "mcp-method";
/// What a modern request is about.
pub const NAME: &str = "mcp-name";
/// The session of a legacy client.
pub const SESSION: &str = "mcp-session-id";
/// Where a legacy client lost a stream.
pub const LAST_EVENT: &str = "last-event-id";

/// The revisions in which a session begins with `initialize`.
pub const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

/// Whether a modern request of this method must name its target in [`NAME`].
#[must_use]
pub fn needs_name(method: &str) -> bool {
    matches!(method, "tools/call" | "prompts/get" | "resources/read")
}

/// The text that a value of [`NAME`] or `Mcp-Param-*` stands for: itself, or what its base64 sentinel encloses, which has
/// a beginning and an end. `None` when that is damaged, or when the value is no visible ASCII.
#[must_use]
pub fn decoded(value: &[u8]) -> Option<Cow<'_, str>> {
    let text = std::str::from_utf8(value).ok().filter(|text| text.is_ascii())?;
    match text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        None => Some(Cow::Borrowed(text)),
        Some(enclosed) => String::from_utf8(STANDARD.decode(enclosed).ok()?).ok().map(Cow::Owned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r66_names_in_base64() {
        for (value, text) in [
            ("echo", Some("echo")),
            ("=?base64?w6k=?=", Some("\u{e9}")),
            ("=?base64??=", Some("")),
            ("=?base64?w6k?=", None),
            ("=?base64?/w==?=", None),
            ("=?base64?w6k=", Some("=?base64?w6k=")),
            ("=?BASE64?w6k=?=", Some("=?BASE64?w6k=?=")),
            ("caf\u{e9}", None),
        ] {
            assert_eq!(decoded(value.as_bytes()).as_deref(), text, "{value}");
        }
    }
}
