//! What is made of requests that an endpoint refuses.

use std::hash::{DefaultHasher, Hasher as _};

use super::checks::Refused;
use crate::http::server as http;
use crate::replay::refused::{Refusal, Settled};

/// What must be sent otherwise.
const AS_IT_SHOULD: &str = "a server must refuse it like that; send it as the specification says";

/// Nothing takes messages at this path.
pub(super) fn of_path(announced: &str) -> Refusal {
    Refusal {
        why: "nothing takes messages at this path".to_owned(),
        hint: format!("the endpoint is at {announced}"),
        code: None,
        settled: Settled::Never,
    }
}

/// The body is not declared to be JSON.
pub(super) fn of_type() -> Refusal {
    let why = "its Content-Type is not application/json".to_owned();
    Refusal { why, hint: AS_IT_SHOULD.to_owned(), code: None, settled: Settled::Again }
}

/// The answer is a stream.
pub(super) fn of_accept() -> Refusal {
    let why = "its answer is a stream of events, which Accept does not name".to_owned();
    Refusal { why, hint: AS_IT_SHOULD.to_owned(), code: None, settled: Settled::Again }
}

/// What the protocol's rules refuse.
pub(super) fn of_rule(refused: &Refused) -> Refusal {
    let code = Some(refused.code);
    Refusal { why: refused.why.clone(), hint: AS_IT_SHOULD.to_owned(), code, settled: Settled::Again }
}

/// What the connection refuses unread, where somebody may wait for the answer of a request: why, and the way out.
pub(super) fn of_connection(refusal: http::Refusal) -> Option<(String, &'static str)> {
    let hint = match refusal.status {
        _ if refusal.client_left() => return None,
        413 => "serve --max-body takes larger ones",
        414 => "send it to a shorter target",
        431 => "send fewer or shorter header fields",
        408 => "send it faster",
        400..=499 | 501 | 505 => "send it as HTTP/1.1 says, without TLS",
        // Not the client's fault, and told otherwise.
        _ => return None,
    };
    Some((format!("a message was refused with status {}: {}", refusal.status, refusal.why), hint))
}

/// The session is not there.
pub(super) fn of_session(refused: &Refused, connection: u64, session: Option<&str>) -> Refusal {
    let session = session.map(|session| {
        let mut hasher = DefaultHasher::new();
        hasher.write(session.as_bytes());
        hasher.finish()
    });
    Refusal {
        why: refused.why.clone(),
        hint: "a client begins with initialize, and asks again in the session that it gets".to_owned(),
        code: None,
        settled: Settled::Anew { connection, session },
    }
}
