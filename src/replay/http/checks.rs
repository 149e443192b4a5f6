//! What may be posted: whose era a body is of, and the checks that a modern server must make before it looks at a
//! request (2026-07-28, transports, "Server validation").

use super::Offer;
use crate::http::Headers;
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::elements;
use crate::jsonrpc::string;
use crate::mcp::{self, Era, code, headers};
use crate::replay::live;
use crate::replay::player::NEEDS_MESSAGES;

/// A body that the player takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incoming {
    /// Its era.
    pub era: Era,
    /// Opens a session.
    pub opens: bool,
    /// Wants an answer.
    pub asks: bool,
    /// An array.
    pub batch: bool,
    /// A modern notification: taken and dropped, since none has a meaning over HTTP.
    pub dropped: bool,
    /// Where its parts are.
    pub view: View,
}

/// A body that is answered without the player.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The status.
    pub status: u16,
    /// The body, a JSON-RPC error.
    pub text: String,
    /// Its code.
    pub code: i32,
    /// Its message.
    pub why: String,
}

impl Refused {
    /// An error of ours to the request of that id.
    #[must_use]
    pub fn new(status: u16, id: &str, code: i32, message: &str) -> Self {
        Self { status, text: live::error(id, code, message, None), code, why: message.to_owned() }
    }
}

/// A body as text, without a byte order mark.
///
/// # Errors
///
/// When it is no text.
pub fn text_of(body: Vec<u8>) -> Result<String, Refused> {
    let text = String::from_utf8(body).map_err(|_| not_json())?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// Looks at a posted body, which begins without a byte order mark.
///
/// # Errors
///
/// When it is to be answered at once.
pub fn sort(fields: &Headers, text: &str, offer: &Offer) -> Result<Incoming, Refused> {
    let view = View::of(text).map_err(|_| not_json())?;
    let invalid = |id: &str, message: &str| Err(Refused::new(400, id, code::INVALID_REQUEST, message));
    let version = fields.text(headers::VERSION);
    let unknown = version.filter(|version| !offer.is_legacy(version));
    if unknown.is_some() && !offer.modern && mcp::era(text, &view) == Era::Legacy {
        return invalid(view.id.map_or("null", |id| id.of(text)), "unsupported MCP-Protocol-Version");
    }
    // Where the body does not tell, the header does, and else what was recorded.
    let modern = unknown.is_some() || !offer.legacy;
    let incoming =
        Incoming { era: Era::Legacy, opens: false, asks: false, batch: false, dropped: false, view };
    match view.shape {
        Shape::Request => {
            let method = view.method_name(text);
            if mcp::era(text, &view) == Era::Legacy && (method == "initialize" || !modern) {
                return Ok(Incoming { opens: method == "initialize", asks: true, ..incoming });
            }
            // A legacy server checks none of this, and is sent nothing modern but probes.
            if offer.modern {
                check(fields, text, &view, offer)?;
            }
            Ok(Incoming { era: Era::Modern, asks: true, ..incoming })
        }
        Shape::Notification if modern || mcp::era(text, &view) == Era::Modern => {
            Ok(Incoming { era: Era::Modern, dropped: true, ..incoming })
        }
        Shape::Response | Shape::Batch if modern => {
            invalid("null", "a body must be one request or one notification")
        }
        Shape::Notification | Shape::Response => Ok(incoming),
        Shape::Batch => {
            let items = elements(text, view.whole).unwrap_or_default();
            let shapes: Vec<Shape> =
                items.iter().filter_map(|span| Some(View::at(text, span.start).ok()?.shape)).collect();
            if shapes.is_empty() || shapes.contains(&Shape::Other) || shapes.contains(&Shape::Batch) {
                return invalid("null", NEEDS_MESSAGES);
            }
            Ok(Incoming { asks: shapes.contains(&Shape::Request), batch: true, ..incoming })
        }
        Shape::Other => invalid("null", "the body is not a JSON-RPC message"),
    }
}

fn not_json() -> Refused {
    Refused::new(400, "null", code::PARSE, "the body is not JSON")
}

/// The checks of a modern request, in the order in which the known servers make them.
fn check(fields: &Headers, text: &str, view: &View, offer: &Offer) -> Result<(), Refused> {
    let id = view.id.map_or("null", |id| id.of(text));
    let mismatch = |message: String| Err(Refused::new(400, id, code::HEADER_MISMATCH, &message));
    for (name, spelt) in [
        (headers::VERSION, "MCP-Protocol-Version"),
        (headers::METHOD, "Mcp-Method"),
        (headers::NAME, "Mcp-Name"),
    ] {
        if fields.all(name).nth(1).is_some() {
            return mismatch(format!("{spelt} stands there twice"));
        }
    }
    let version = mcp::meta(text, view, mcp::VERSION).map(|span| span.of(text));
    let capabilities = mcp::meta(text, view, mcp::CAPABILITIES).map(|span| span.of(text));
    let missing =
        |name: &str| Err(Refused::new(400, id, code::INVALID_PARAMS, &format!("params._meta has no {name}")));
    let Some(version) = version.filter(|version| version.starts_with('"')) else {
        return missing(mcp::VERSION);
    };
    if !capabilities.is_some_and(|capabilities| capabilities.starts_with('{')) {
        return missing(mcp::CAPABILITIES);
    }
    match fields.text(headers::VERSION) {
        Some(header) if header == string::decode(version) => {}
        Some(_) => return mismatch("MCP-Protocol-Version is not that of the body".to_owned()),
        None => return mismatch("MCP-Protocol-Version is missing".to_owned()),
    }
    let method = view.method_name(text);
    match fields.text(headers::METHOD) {
        Some(header) if header == method => {}
        Some(_) => return mismatch("Mcp-Method is not that of the body".to_owned()),
        None => return mismatch("Mcp-Method is missing".to_owned()),
    }
    let target = mcp::target(&method, text, view);
    match (fields.get(headers::NAME), target) {
        (None, Some(_)) if headers::needs_name(&method) => {
            return mismatch("Mcp-Name is missing".to_owned());
        }
        (Some(header), Some(target)) if headers::decoded(header).as_deref() != Some(target.as_str()) => {
            return mismatch("Mcp-Name is not that of the body".to_owned());
        }
        // Where the body names nothing that must be there, the answer says so.
        _ => {}
    }
    // Another revision is refused as such.
    if offer.modern_versions.iter().any(|known| string::is(version, known)) {
        return offer.declared.check(fields, text, view).or_else(mismatch);
    }
    Ok(())
}

/// Whether the client takes a media type. Who says nothing takes all.
#[must_use]
pub fn accepts(fields: &Headers, wanted: &str) -> bool {
    let mut accepted = fields.all("accept").peekable();
    if accepted.peek().is_none() {
        return true;
    }
    let group = wanted.split('/').next().unwrap_or_default();
    accepted.any(|value| {
        value.split(|byte| *byte == b',').any(|item| {
            let mut parts = item.split(|byte| *byte == b';').map(<[u8]>::trim_ascii);
            let kind = parts.next().unwrap_or_default();
            let in_group = || {
                let star = kind.strip_suffix(b"/*");
                star.is_some_and(|star| star == b"*" || star.eq_ignore_ascii_case(group.as_bytes()))
            };
            let taken = kind.eq_ignore_ascii_case(wanted.as_bytes()) || in_group();
            taken && !parts.any(|part| matches!(part, b"q=0" | b"q=0.0" | b"q=0.00" | b"q=0.000"))
        })
    })
}
