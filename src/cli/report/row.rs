//! One line of a report as it is read back. Members that this version does not know are passed over.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// What one replay wrote.
#[derive(Debug, Deserialize)]
pub struct Row {
    /// The format.
    pub mcpreel_report: u64,
    /// `--session`, where given.
    pub session: Option<String>,
    /// The absolute path of the cassette.
    pub cassette: String,
    /// When it was recorded.
    pub recorded_at: String,
    /// The server that was played.
    pub server: String,
    /// Requests answered by an exchange of their own.
    pub hits: u64,
    /// Requests answered by an exchange that had been played before.
    pub repeats: u64,
    /// Requests without a recorded answer.
    pub misses: Vec<Miss>,
    /// How many more there were.
    #[serde(default)]
    pub misses_left_out: u64,
    /// Requests that were not recorded and were answered by rule.
    pub unrecorded: Vec<String>,
    /// Recorded exchanges that were not asked for.
    pub unused: Vec<Unused>,
    /// Questions of the server that the client never answered.
    pub pending: Vec<String>,
    /// The faults, where there were any.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// What else was said.
    pub warnings: Vec<String>,
    /// How it ended.
    pub ended: String,
    /// Whether every recorded tool call was to be used.
    pub require_all_used: bool,
    /// The exit status.
    pub exit: u8,
    /// Of a recording: the messages that were kept.
    pub recorded: Option<u64>,
    /// Of a recording: why it kept less than was said.
    pub failed: Option<String>,
}

/// A request without a recorded answer.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Miss {
    /// Its method.
    pub method: String,
    /// The tool, prompt or resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why there is none.
    pub why: String,
    /// The most similar recorded request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Nearest>,
    /// What would settle it.
    pub hint: String,
}

/// A recorded request and where the live one differs from it.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Nearest {
    /// Its place in the cassette.
    pub message: u32,
    /// The differences.
    pub differs: Vec<Differs>,
}

/// One difference. The values are kept as they are written: no number is to be read and written again.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub struct Differs {
    /// JSON Pointer into the request.
    pub path: String,
    /// The recorded value; null where there is none.
    pub recorded: Box<RawValue>,
    /// The live value; null where there is none.
    pub live: Box<RawValue>,
}

/// A recorded exchange that was not asked for.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Unused {
    /// Its request's place in the cassette.
    pub message: u32,
    /// Its method.
    pub method: String,
    /// The tool, prompt or resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

/// A fault and how often it came.
#[derive(Clone, Debug, Deserialize)]
pub struct Fault {
    /// Its place among the faults.
    pub index: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How often it fired.
    pub fired: u64,
}

/// A method and what it is about, for people.
#[must_use]
pub fn subject(method: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{method} {}", crate::jsonrpc::string::encode(name)),
        None => method.to_owned(),
    }
}
