//! Faults: what a replay does wrong on purpose, and to whom. Pure: which request is hit depends on the overlay and on the
//! requests that came, on no clock and no chance that is not in the overlay. [`overlay`] reads the file, [`target`]
//! says who is meant, [`effect`] what the transports carry out; the player does the rest.

pub mod effect;
pub mod overlay;
pub mod target;
#[cfg(test)]
mod tests;

use std::collections::HashSet;

use super::tape::Tape;
use crate::error::Result;
use crate::jsonrpc::message::member;
use crate::jsonrpc::string;
use crate::mcp::{self, Era};
use overlay::Overlay;
use target::{Subject, Target};

/// How a text is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    /// Its first half.
    Truncate,
    /// Words in its place.
    NotJson,
    /// An id that nobody asked with.
    WrongId,
}

/// What goes wrong. Times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "docs/reference/faults.md has the parameters")]
pub enum Kind {
    /// All of the exchange comes later.
    Delay { micros: u64 },
    /// Nothing comes.
    Timeout,
    /// An error in place of the answer.
    Error { code: i32, message: String, data: Option<String> },
    /// The answer is broken.
    Malformed(Strategy),
    /// The connection is gone.
    Disconnect { after_response: bool },
    /// HTTP: a status in place of the answer.
    HttpStatus { status: u16, headers: Vec<(String, String)>, body: String },
    /// HTTP: the session is over.
    SessionExpired,
    /// HTTP: the stream breaks off.
    CutStream { after_events: u64 },
    /// The answer comes byte by byte.
    Drip { bytes_per_second: u64 },
    /// The answer comes twice.
    Duplicate,
    /// The answer comes when the client has given up.
    Late,
    /// The answer comes after the next one.
    Reorder { within: u64 },
    /// Something is said on standard error.
    StderrNoise { text: String, repeat: u64 },
    /// The program ends.
    Exit { code: u8, after_response: bool },
}

impl Kind {
    /// Its `type` in the overlay.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Delay { .. } => "delay",
            Self::Timeout => "timeout",
            Self::Error { .. } => "error",
            Self::Malformed(_) => "malformed",
            Self::Disconnect { .. } => "disconnect",
            Self::HttpStatus { .. } => "http_status",
            Self::SessionExpired => "session_expired",
            Self::CutStream { .. } => "cut_stream",
            Self::Drip { .. } => "drip",
            Self::Duplicate => "duplicate",
            Self::Late => "late",
            Self::Reorder { .. } => "reorder",
            Self::StderrNoise { .. } => "stderr_noise",
            Self::Exit { .. } => "exit",
        }
    }

    /// Whether it takes the place of the whole answer, before any of it is sent.
    pub(super) fn is_at_once(&self) -> bool {
        matches!(
            self,
            Self::HttpStatus { .. }
                | Self::SessionExpired
                | Self::CutStream { after_events: 0 }
                | Self::Disconnect { after_response: false }
                | Self::Exit { after_response: false, .. }
        )
    }

    /// Whether it says what becomes of the answer, which only one fault can.
    fn is_about_the_answer(&self) -> bool {
        self.is_at_once()
            || matches!(
                self,
                Self::Error { .. }
                    | Self::Malformed(_)
                    | Self::Disconnect { .. }
                    | Self::CutStream { .. }
                    | Self::Duplicate
                    | Self::Exit { .. }
            )
    }

    fn holds_back(&self) -> bool {
        matches!(self, Self::Timeout | Self::Late | Self::Reorder { .. })
    }

    /// Whether a request can have it whatever else it has. Of all others a request can have no more than a few, so that
    /// holding each fault against those before it takes no longer where there are many.
    fn is_beside_others(&self) -> bool {
        matches!(self, Self::StderrNoise { .. })
    }

    /// Whether one request cannot have both.
    #[must_use]
    pub fn contradicts(&self, other: &Self) -> bool {
        let same = |is: fn(&Self) -> bool| is(self) && is(other);
        let either = |one: fn(&Self) -> bool, two: fn(&Self) -> bool| {
            (one(self) && two(other)) || (one(other) && two(self))
        };
        let delays = |kind: &Self| matches!(kind, Self::Delay { .. });
        let drips = |kind: &Self| matches!(kind, Self::Drip { .. });
        same(delays)
            || same(drips)
            || same(Self::holds_back)
            || same(Self::is_about_the_answer)
            || either(Self::is_at_once, |kind| {
                matches!(kind, Self::Late | Self::Reorder { .. } | Self::Drip { .. })
            })
            || either(
                |kind| *kind == Self::Timeout,
                |kind| kind.is_about_the_answer() || matches!(kind, Self::Delay { .. } | Self::Drip { .. }),
            )
    }
}

/// One fault.
#[derive(Clone, Debug)]
pub struct Fault {
    /// What goes wrong.
    pub kind: Kind,
    /// For whom.
    pub target: Target,
    /// Its line in the file.
    pub line: usize,
    /// Its target as it was given, packed.
    pub shown: String,
}

/// How clients reach a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A pipe, or the one stream of HTTP+SSE (2024-11-05).
    Pipe,
    /// HTTP, with sessions or without.
    Http {
        /// Legacy sessions have ids.
        sessions: bool,
    },
}

/// Where a fault of this type can exist; `Err` says what there is not.
fn exists(kind: &Kind, way: Way, era: Option<Era>) -> std::result::Result<(), &'static str> {
    match (kind, way) {
        (Kind::HttpStatus { .. }, Way::Pipe) => Err("standard input and output have no statuses"),
        (Kind::CutStream { .. }, Way::Pipe) => Err("standard input and output have no streams of events"),
        (Kind::SessionExpired, Way::Pipe) => Err("standard input and output have no sessions that expire"),
        (Kind::SessionExpired, Way::Http { sessions: false }) => Err("the server issued no sessions"),
        (Kind::SessionExpired, _) if era == Some(Era::Modern) => Err("modern requests have no sessions"),
        (Kind::Late, Way::Http { .. }) if era == Some(Era::Modern) => {
            Err("a modern client gives up by closing the stream that the answer would come on")
        }
        _ => Ok(()),
    }
}

/// The faults that hit one request; the numbers are those of the faults.
#[derive(Clone, Debug, Default)]
pub(super) struct Hit {
    pub(super) delay: Option<(usize, u64)>,
    pub(super) holds: Option<(usize, Kind)>,
    pub(super) answer: Option<(usize, Kind)>,
    pub(super) drip: Option<(usize, u64)>,
    pub(super) noise: Vec<(usize, String)>,
}

/// What became of a fault.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its place in the overlay.
    pub index: usize,
    /// Its type.
    pub kind: &'static str,
    /// Its target, JSON.
    pub target: String,
    /// How often it fired.
    pub fired: usize,
    /// The message indexes of the recorded requests that it hit.
    pub exchanges: Vec<u32>,
}

impl Row {
    /// `fault 2 (timeout on {"method":"tools/call"})`.
    #[must_use]
    pub fn words(&self) -> String {
        format!("fault {} ({} on {})", self.index, self.kind, self.target)
    }

    /// A row of the report.
    #[must_use]
    pub fn json(&self) -> String {
        let exchanges: Vec<String> = self.exchanges.iter().map(u32::to_string).collect();
        format!(
            "{{\"index\":{},\"type\":{},\"target\":{},\"fired\":{},\"exchanges\":[{}]}}",
            self.index,
            string::encode(self.kind),
            self.target,
            self.fired,
            exchanges.join(",")
        )
    }
}

/// The faults of a replay, and how far they are.
#[derive(Clone, Debug)]
pub struct Faults {
    overlay: Overlay,
    /// Per fault, how many requests it was for.
    seen: Vec<u64>,
    rows: Vec<Row>,
    /// Each fault with the message indexes that are in its row.
    hit: HashSet<(usize, u32)>,
}

impl Faults {
    /// Nothing was asked yet.
    #[must_use]
    pub fn new(overlay: Overlay) -> Self {
        let row = |(index, fault): (usize, &Fault)| Row {
            index,
            kind: fault.kind.word(),
            target: fault.shown.clone(),
            fired: 0,
            exchanges: Vec::new(),
        };
        let rows = overlay.faults.iter().enumerate().map(row).collect();
        Self { seen: vec![0; overlay.faults.len()], rows, hit: HashSet::new(), overlay }
    }

    /// That faults name servers that there are.
    ///
    /// # Errors
    ///
    /// When one names none of `servers`.
    pub fn check_servers(&self, servers: &[&str]) -> Result<()> {
        for (index, fault) in self.overlay.faults.iter().enumerate() {
            if let Some(glob) = &fault.target.server
                && !servers.iter().any(|server| glob.fits(server))
            {
                let what = format!("is for server {:?}; the cassette has {}", glob.given, servers.join(", "));
                return Err(self.overlay.wrong(index, what));
            }
        }
        Ok(())
    }

    /// That faults for this server can exist where it is served.
    ///
    /// # Errors
    ///
    /// When one cannot.
    pub fn check_way(&self, server: &str, way: Way, modern_only: bool) -> Result<()> {
        for (index, fault) in self.of(server) {
            if let Some(why) = self.refusal(index, way, modern_only) {
                let what = format!("{:?} cannot be had here: {why}", fault.kind.word());
                return Err(self.overlay.wrong(index, what));
            }
        }
        Ok(())
    }

    /// Why a fault cannot be had that way; `None`: it can.
    #[must_use]
    pub fn refusal(&self, index: usize, way: Way, modern_only: bool) -> Option<&'static str> {
        let era = modern_only.then_some(Era::Modern);
        exists(&self.get(index)?.kind, way, era).err()
    }

    fn of<'f>(&'f self, server: &'f str) -> impl Iterator<Item = (usize, &'f Fault)> + 'f {
        let concerns = move |fault: &Fault| fault.target.server.as_ref().is_none_or(|glob| glob.fits(server));
        self.overlay.faults.iter().enumerate().filter(move |(_, fault)| concerns(fault))
    }

    /// Plays the recorded requests of a server in their order: what each fault would hit is in the rows then. `way`
    /// `None` is any way.
    ///
    /// # Errors
    ///
    /// When two faults that contradict each other hit one request.
    pub fn rehearse(&mut self, tape: &Tape, way: Option<Way>) -> Result<()> {
        for exchange in &tape.exchanges {
            let Some(item) = tape.item(exchange.request) else { continue };
            let method = item.view.method_name(&tape.text);
            let name = mcp::target(&method, &tape.text, &item.view);
            let arguments = item.view.params.and_then(|params| member(&tape.text, params, "arguments"));
            let subject = Subject {
                server: &tape.server,
                method: &method,
                name: name.as_deref(),
                arguments: arguments.map(|span| span.of(&tape.text)),
            };
            let found = self.find(&subject, way, exchange.era);
            let mut before: Vec<usize> = Vec::new();
            for index in found {
                let Some(fault) = self.overlay.faults.get(index) else { continue };
                let against = before.iter().find(|other| {
                    self.overlay.faults.get(**other).is_some_and(|other| other.kind.contradicts(&fault.kind))
                });
                if let Some(other) = against {
                    let kind = self.overlay.faults.get(*other).map_or("", |other| other.kind.word());
                    let what = format!(
                        "{:?} contradicts {kind:?} of /faults/{other}: both hit the recorded {} (message {}); an \"nth\" keeps them apart",
                        fault.kind.word(),
                        super::key::describe(&tape.text, &item.view),
                        item.record
                    );
                    return Err(self.overlay.wrong(index, what));
                }
                if !fault.kind.is_beside_others() {
                    before.push(index);
                }
                self.fired(index, item.record);
            }
        }
        Ok(())
    }

    /// Which faults a request meets.
    fn find(&mut self, subject: &Subject<'_>, way: Option<Way>, era: Era) -> Vec<usize> {
        let mut found = Vec::new();
        for ((index, fault), seen) in self.overlay.faults.iter().enumerate().zip(&mut self.seen) {
            let here = way.is_none_or(|way| exists(&fault.kind, way, Some(era)).is_ok());
            if !here || !fault.target.fits(subject) {
                continue;
            }
            *seen += 1;
            if fault.target.hits(*seen) {
                found.push(index);
            }
        }
        found
    }

    /// The faults that hit a request. Of two that contradict each other the first wins; the warning says so.
    pub(super) fn pick(&mut self, subject: &Subject<'_>, way: Way, era: Era) -> (Hit, Vec<String>) {
        let (mut hit, mut warnings, mut taken) = (Hit::default(), Vec::new(), Vec::<usize>::new());
        for index in self.find(subject, Some(way), era) {
            let Some(fault) = self.overlay.faults.get(index) else { continue };
            let against = taken.iter().find(|other| {
                self.overlay.faults.get(**other).is_some_and(|other| other.kind.contradicts(&fault.kind))
            });
            if let Some(other) = against {
                let kind = fault.kind.word();
                warnings
                    .push(format!("fault {index} ({kind}) contradicts fault {other}, which goes before it"));
                continue;
            }
            if !fault.kind.is_beside_others() {
                taken.push(index);
            }
            match &fault.kind {
                Kind::Delay { micros } => hit.delay = Some((index, *micros)),
                Kind::Drip { bytes_per_second } => hit.drip = Some((index, *bytes_per_second)),
                Kind::StderrNoise { text, repeat } => {
                    let lines = usize::try_from(*repeat).unwrap_or(usize::MAX);
                    hit.noise.push((index, format!("{text}\n").repeat(lines)));
                }
                kind if kind.holds_back() => hit.holds = Some((index, kind.clone())),
                kind => hit.answer = Some((index, kind.clone())),
            }
        }
        (hit, warnings)
    }

    /// A fault was carried out on the recorded request with this message index.
    pub(super) fn fired(&mut self, index: usize, message: u32) {
        if let Some(row) = self.rows.get_mut(index) {
            row.fired += 1;
            if self.hit.insert((index, message)) {
                row.exchanges.push(message);
            }
        }
    }

    /// What became of the faults for a server.
    #[must_use]
    pub fn rows(&self, server: &str) -> Vec<Row> {
        self.of(server).filter_map(|(index, _)| self.rows.get(index).cloned()).collect()
    }

    /// What became of all of them.
    #[must_use]
    pub fn all(&self) -> &[Row] {
        &self.rows
    }

    /// What can be said of the type and the line of a fault.
    #[must_use]
    pub fn get(&self, index: usize) -> Option<&Fault> {
        self.overlay.faults.get(index)
    }
}
