//! Replay over HTTP: Streamable HTTP in both eras, and HTTP+SSE (2024-11-05), to any number of clients at once.
//!
//! Each connection has a thread, which reads a request, has it played, and writes what comes of it. Playing is done under
//! a lock by whoever has something for the player, since what is recorded is mostly there at once: a thread that plays
//! would cost two switches between threads for every request, more than all the rest. What takes its time and needs no
//! player, such as the key of a request, is done before. The main thread plays what time brings. `stage` has the lock,
//! `hub` is the player's side, `endpoint` and `reply` are the connection's, `checks` decides what may be posted.

pub mod behind;
pub mod checks;
mod declared;
mod endpoint;
mod faults;
mod head;
mod hub;
pub mod ids;
mod logs;
mod paths;
mod refusals;
mod relay;
mod reply;
mod sessions;
mod stage;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, select};

use super::Aside;
use super::player::Player;
use super::stdio::Ended;
use super::tape::Tape;
use crate::error::{Error, Result};
use crate::http::guard::Guard;
use crate::http::idle::Idle;
use crate::http::server::{Request, Server};
use crate::mcp::headers;
use crate::redact;
use behind::{Behind, LiveServer};
pub use declared::Declared;
use endpoint::Endpoint;
use hub::{Command, Hub};
pub use paths::Paths;
use stage::Stage;

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
    /// With what statuses sessions end, or do not; the last one goes on.
    pub deletes: Vec<u16>,
    /// Streams go as they did when they were recorded, with ids to come back with and ends to come back from.
    pub faithful: bool,
    /// Revisions that were agreed on and that this program does not know.
    pub other_versions: Vec<String>,
    /// The revisions of the modern requests.
    pub modern_versions: Vec<String>,
    /// Header fields that repeat arguments.
    pub declared: Declared,
    /// Where it is.
    pub paths: Paths,
}

impl Offer {
    /// What a tape has that was recorded with these rules.
    #[must_use]
    pub fn of(tape: &Tape, redaction: &redact::Rules) -> Self {
        let manners = tape.manners();
        let server = tape.head.servers.iter().find(|(name, _)| *name == tape.server);
        let agreed = server.map(|(_, server)| server.protocol.clone()).unwrap_or_default();
        Self {
            modern: !tape.modern_versions.is_empty(),
            legacy: tape.legacy,
            sessions: Self::has_sessions(tape),
            unsolicited: manners.unsolicited,
            get_refused: manners.get_refused && !manners.unsolicited,
            deletes: manners.deletes.clone(),
            faithful: false,
            other_versions: agreed
                .into_iter()
                .filter(|version| !tape.modern_versions.contains(version))
                .collect(),
            modern_versions: tape.modern_versions.clone(),
            declared: Declared::of(tape, redaction),
            paths: Paths::of(tape),
        }
    }

    /// Whether its clients get sessions. A process that was a session of its own becomes one with an id.
    #[must_use]
    pub fn has_sessions(tape: &Tape) -> bool {
        let manners = tape.manners();
        tape.legacy && (manners.sessions || !manners.recorded)
    }

    /// The same with a live server behind: it may take clients of another era than those that were recorded.
    #[must_use]
    pub fn with_live_server(self) -> Self {
        Self { sessions: self.sessions || !self.legacy, legacy: true, ..self }
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

impl Player {
    /// What HTTP clients may expect.
    #[must_use]
    pub fn offer(&self) -> Offer {
        Offer::of(&self.tape, self.rules.redaction())
    }

    /// The path at which HTTP clients are told to find it.
    #[must_use]
    pub fn path(&self) -> String {
        Paths::of(&self.tape).announced
    }
}

/// How a replay goes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Manner {
    /// Legacy streams break off where the recorded ones did, and clients come back for the rest.
    pub faithful: bool,
    /// It ends after so long without a request.
    pub max_idle: Option<Duration>,
}

/// Plays to the clients of `server` until a signal comes, or a fault or idleness ends it, and gives the player back. What
/// the player does not answer goes to the live server, if there is one.
///
/// # Errors
///
/// When no thread can be started, or playing failed in a way that it should not.
pub fn serve(
    player: Player,
    server: Server,
    guard: Guard,
    manner: Manner,
    signals: &Receiver<i32>,
    aside: Aside,
    live: Option<LiveServer>,
) -> Result<(Player, Ended)> {
    let live = live.map(Arc::new);
    let (keys, offer) = (player.keys(), player.offer());
    let offer =
        Offer { faithful: manner.faithful, ..if live.is_some() { offer.with_live_server() } else { offer } };
    let offer = Arc::new(offer);
    let (behind, news) = live.clone().map(Behind::new).unzip();
    let (stage, woken) = Stage::new(Hub::new(player, Arc::clone(&offer), aside, behind));
    let stage = Arc::new(stage);
    if let Some(news) = news {
        let stage = Arc::clone(&stage);
        start("live news", move || {
            for news in news {
                stage.take(Command::Live(news));
            }
        })?;
    }
    let refusing = Arc::clone(&stage);
    server.on_refusal(move |refusal| {
        if let Some((why, hint)) = refusals::of_connection(refusal) {
            refusing.take(Command::Unread { why, hint });
        }
    });
    let stopper = server.stopper();
    let carriers = AtomicU64::new(0);
    let endpoint = Endpoint { offer, guard, stage: Arc::clone(&stage), keys, carriers, live };
    let idle = Arc::new(Idle::default());
    let counted = Arc::clone(&idle);
    let handler = Arc::new(move |request: Request<'_>| {
        let _busy = counted.busy();
        endpoint.handle(request);
    });
    start("http-accept", move || server.run(&handler))?;
    let ended = loop {
        let left = manner.max_idle.map(|limit| limit.saturating_sub(idle.time()));
        if left.is_some_and(|left| left.is_zero()) {
            // As far as anybody can tell, the clients have left.
            break Ended::EndOfInput;
        }
        let wait = stage.until_due().into_iter().chain(left).min().unwrap_or(Duration::from_hours(1));
        select! {
            recv(woken) -> _ => {}
            recv(signals) -> signal => break Ended::Signal(signal.unwrap_or_default()),
            default(wait) => {}
        }
        stage.tick();
        if let Some(status) = stage.exit() {
            break Ended::Fault(status);
        }
    };
    let player = stage.end(ended);
    stopper.stop(GRACE);
    let failed = || Error::Failed("the replay broke off: a request could not be played".to_owned());
    Ok((player.ok_or_else(failed)?, ended))
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let started = thread::Builder::new().name(name.to_owned()).spawn(run);
    started.map(drop).map_err(|source| Error::Io {
        doing: "start a thread for",
        path: "replay".into(),
        source,
    })
}
