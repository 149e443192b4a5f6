//! HAR 1.2, as browsers and proxies export it: the HTTP requests among its entries that carry MCP.
//!
//! Header values are not kept beyond the few that ours has fields for: they hold credentials.

mod read;
mod write;

pub use read::read;
pub use write::write;

/// The header fields of answers that are kept.
const HEADERS: [&str; 4] = ["www-authenticate", "retry-after", "allow", "location"];

/// The time of entries that have none.
const UNKNOWN: i64 = 0;

const SESSION: &str = "mcp-session-id";
