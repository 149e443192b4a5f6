//! mcp-cassette (Python), format versions 1 to 3: read in full, written as version 3.
//!
//! What its file says and our model has no field for stays in the head under [`KEPT`], so that a file that is read
//! and written again is the same file.

mod python;
mod read;
#[cfg(test)]
mod tests;
mod write;

pub use read::read;
pub use write::write;

pub use super::Written;

/// The newest format version this program knows of.
pub const FORMAT: u64 = 3;

/// The head field that keeps what only its format has: `session_id` and `redaction` (its manifest), as they were.
pub const KEPT: &str = "mcp_cassette";

/// The rule id of messages that its rules changed; which rules those were is not in the file.
pub const RULE: &str = "mcp-cassette";

/// Marks a redaction manifest that was worked out from the messages, since the file has none that a replay can use.
const DERIVED: &str = "derived_from";

/// In front of the name of an unknown field that means something else in our format.
const ASIDE: &str = "mcp_cassette.";

/// Names that mean something in our head, and in our records.
const OUR_HEAD: [&str; 10] = [
    "mcpreel",
    "journal",
    "recorder",
    "servers",
    "processes",
    "labels",
    "match",
    "conn",
    "segment",
    "timing_ms",
];
const OUR_RECORD: [&str; 12] =
    ["from", "server", "conn", "session", "stream", "bom", "http", "end", "origin", "text", "base64", "at"];

/// The name under which an unknown field is kept.
fn aside(name: &str, ours: &[&str]) -> String {
    if ours.contains(&name) { format!("{ASIDE}{name}") } else { name.to_owned() }
}

/// The fields of its head, in its order.
const HEAD_FIELDS: [&str; 9] = [
    "format_version",
    "recorded_at",
    "transport",
    "server_url",
    "session_id",
    "protocol_version",
    "server_info",
    "redaction",
    "messages",
];

/// The fields of its messages, in its order.
const MESSAGE_FIELDS: [&str; 10] = [
    "seq",
    "t_offset_ms",
    "sender",
    "kind",
    "method",
    "msg_id",
    "payload",
    "redacted",
    "exchange",
    "channel",
];

/// Whether a string of a message that is marked with [`RULE`] stands for something that was taken out: its literal
/// `REDACTED`, a pseudonym such as `<EMAIL>_0ae25ee7e80b` anywhere in the string, or a masked value. A replay takes
/// any live string for such a leaf, and a progress token that reads `REDACTED` for any live token.
#[must_use]
pub fn is_placeholder(text: &str) -> bool {
    text == "REDACTED" || text.contains("\u{2022}\u{2022}\u{2022}\u{2022}") || has_pseudonym(text)
}

/// `<LABEL>_` and twelve lower-case hex digits.
fn has_pseudonym(text: &str) -> bool {
    text.match_indices(">_").any(|(at, _)| {
        let (before, after) = text.split_at_checked(at).unwrap_or((text, ""));
        let label = before.rsplit('<').next().filter(|label| label.len() < before.len());
        let digits = after.get(2..14);
        label.is_some_and(|label| !label.is_empty() && !label.contains('>'))
            && digits
                .is_some_and(|digits| digits.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')))
    })
}
