//! Replay over HTTP: Streamable HTTP in both eras, and HTTP+SSE (2024-11-05), to any number of clients at once.
//!
//! One thread plays, as on a pipe; each connection has its own, which reads a request, hands it over, and writes what
//! comes back. `hub` is the player's side, `endpoint` and `reply` the connection's, `checks` decides what may be posted.

pub mod checks;
mod endpoint;
mod faults;
mod hub;
pub mod ids;
mod reply;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, select, unbounded};

use super::Aside;
use super::player::Player;
use super::stdio::Ended;
use super::tape::Tape;
use crate::error::{Error, Result};
use crate::http::guard::Guard;
use crate::http::server::{Request, Server};
use crate::mcp::headers;
use endpoint::Endpoint;
use hub::Hub;

/// The path of the endpoint.
pub const PATH: &str = "/mcp";
/// HTTP+SSE: where the stream is.
pub const OLD_STREAM: &str = "/sse";
/// HTTP+SSE: where messages are posted.
const OLD_POST: &str = "/messages";

/// How long connections have to end when the replay does.
const GRACE: Duration = Duration::from_millis(250);

/// What clients may expect of the server that is played.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Modern requests were recorded.
    pub modern: bool,
    /// Legacy sessions were recorded.
    pub legacy: bool,
    /// Legacy sessions have ids.
    pub sessions: bool,
    /// Messages came on standalone streams.
    pub unsolicited: bool,
    /// Standalone streams are refused.
    pub get_refused: bool,
    /// Clients may not end their sessions.
    pub delete_refused: bool,
    /// Streams go as they did when they were recorded, with ids to come back with and ends to come back from.
    pub faithful: bool,
    /// Revisions that were agreed on and that this program does not know.
    pub other_versions: Vec<String>,
}

impl Offer {
    /// What a tape has.
    #[must_use]
    pub fn of(tape: &Tape) -> Self {
        let manners = tape.manners();
        let server = tape.head.servers.iter().find(|(name, _)| *name == tape.server);
        let agreed = server.map(|(_, server)| server.protocol.clone()).unwrap_or_default();
        Self {
            modern: !tape.modern_versions.is_empty(),
            legacy: tape.legacy,
            // A process that was a session of its own becomes one with an id.
            sessions: tape.legacy && (manners.sessions || !manners.recorded),
            unsolicited: manners.unsolicited,
            get_refused: manners.get_refused && !manners.unsolicited,
            delete_refused: manners.delete_refused,
            faithful: false,
            other_versions: agreed
                .into_iter()
                .filter(|version| !tape.modern_versions.contains(version))
                .collect(),
        }
    }

    /// Whether a revision, as `MCP-Protocol-Version` names it, is of the legacy era.
    #[must_use]
    pub fn is_legacy(&self, version: &str) -> bool {
        headers::LEGACY.contains(&version) || self.other_versions.iter().any(|other| other == version)
    }

    fn allow(&self) -> &'static str {
        if self.legacy { "GET, POST, DELETE" } else { "POST" }
    }
}

/// Plays to the clients of `server` until a signal comes, or a fault ends it. With `faithful`, legacy streams break
/// off where the recorded ones did, and clients come back for the rest.
///
/// # Errors
///
/// When no thread can be started.
pub fn serve(
    player: &mut Player,
    server: Server,
    guard: Guard,
    faithful: bool,
    signals: &Receiver<i32>,
    aside: Aside<'_>,
) -> Result<Ended> {
    let offer = Arc::new(Offer { faithful, ..player.offer() });
    let (commands, inbox) = unbounded();
    let stopper = server.stopper();
    let endpoint = Endpoint { offer: Arc::clone(&offer), guard, commands, carriers: AtomicU64::new(0) };
    let handler = Arc::new(move |request: Request<'_>| endpoint.handle(request));
    thread::Builder::new()
        .name("http-accept".to_owned())
        .spawn(move || server.run(&handler))
        .map_err(|source| Error::Io { doing: "start a thread for", path: "replay".into(), source })?;
    let started = Instant::now();
    let now = || u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
    let mut hub = Hub::new(player, offer);
    let ended = loop {
        let wait = hub
            .next_deadline()
            .map_or(Duration::from_hours(1), |at| Duration::from_micros(at.saturating_sub(now())));
        select! {
            recv(inbox) -> command => match command {
                Ok(command) => hub.take(command, now()),
                Err(_) => break Ended::Signal(0),
            },
            recv(signals) -> signal => break Ended::Signal(signal.unwrap_or_default()),
            default(wait) => {}
        }
        hub.tick(now());
        hub.pass_on(aside);
        if let Some(status) = hub.exit {
            break Ended::Fault(status);
        }
    };
    match ended {
        Ended::Fault(_) => hub.abandon(),
        _ => hub.end(now(), aside),
    }
    // What still comes in finds nobody.
    drop(inbox);
    stopper.stop(GRACE);
    Ok(ended)
}
