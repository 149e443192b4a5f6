//! What several commands share: notes, server names, sessions, and the options of a replay.

use std::ffi::OsString;
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::listen::{self, Http};
use super::say;
use crate::cassette::owner::Owner;
use crate::cassette::segments::CassetteOnDisk;
use crate::cassette::state::State;
use crate::cassette::{Cassette, Exit, Timing, Transport, merge};
use crate::error::{Error, Result};
use crate::exit;
use crate::jsonrpc::scan::{Members, elements};
use crate::jsonrpc::string;
use crate::redact;
use crate::replay::http;
use crate::replay::player::{Options, Ordering, Player, Repeat};
use crate::replay::stdio::{self, Ended};
use crate::replay::tape::Tape;
use crate::replay::{inputs::InputPolicy, key::Rules};
use crate::stdio::signals;

/// How much is said on standard error.
#[derive(Clone, Copy, Debug)]
pub struct Voice {
    /// Nothing but errors, warnings and misses.
    pub quiet: bool,
    /// What was decided and why.
    pub verbose: bool,
}

impl Voice {
    /// Something to know.
    pub fn note(self, text: &str) {
        if !self.quiet {
            say(text);
        }
    }

    /// Something that only `-v` asks for.
    pub fn detail(self, text: &str) {
        if self.verbose {
            say(text);
        }
    }
}

/// The name a server goes by in the cassette when none is given: that of its program.
#[must_use]
pub fn server_name(given: Option<&str>, command: &[OsString]) -> String {
    let program = command.first().and_then(|program| Path::new(program).file_name());
    let name = given.map(str::to_owned).or_else(|| program.map(|name| name.to_string_lossy().into_owned()));
    name.filter(|name| !name.is_empty()).unwrap_or_else(|| "server".to_owned())
}

/// A number of seconds as `--claim-wait` takes it.
pub fn seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse::<f64>().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    seconds.ok_or_else(|| "expected a number of seconds from 0".to_owned())
}

/// The options of a replay as they were typed.
#[derive(Clone, Debug, Default)]
pub struct Matching {
    /// `--ordering`
    pub ordering: Ordering,
    /// `--ignore`
    pub ignore: Vec<String>,
    /// `--ignore-value`
    pub ignore_value: Vec<String>,
    /// `--match-inputs`
    pub inputs: InputPolicy,
    /// `--repeat`
    pub repeat: Option<Repeat>,
    /// `--strict`
    pub strict: bool,
    /// `--rewrite-protocol-version`
    pub rewrite_version: bool,
    /// `--require-all-used`
    pub require_all_used: bool,
    /// `--answer-timeout`
    pub answer_timeout: Option<Duration>,
    /// `--report`
    pub report: Option<String>,
}

/// What is replayed, and for whom.
#[derive(Debug)]
pub struct Replay<'a> {
    /// The cassette as the user named it.
    pub path: &'a Path,
    /// Where it stands on disk.
    pub source: CassetteOnDisk,
    /// `--server`, or the name of the wrapped program with `false`.
    pub server: Option<(String, bool)>,
    /// Whose sessions are counted.
    pub owner: Owner,
    /// `--session`
    pub session: Option<String>,
    /// How it is matched.
    pub matching: Matching,
    /// How much is said.
    pub voice: Voice,
}

/// How a replay meets its clients.
#[derive(Clone, Debug)]
pub enum Over {
    /// Standard input and output.
    Stdio,
    /// The way it was recorded; over HTTP with these options, which choose it where one of them says where.
    Recorded(Http),
}

/// Reads what stands on disk under a cassette's name.
pub fn load(path: &Path, source: &CassetteOnDisk) -> Result<Cassette> {
    match source {
        CassetteOnDisk::Document(_) => Cassette::read(path),
        CassetteOnDisk::Segments { segments, onto } => merge::read_segments(segments, onto.as_deref()),
        other => Err(Error::input(path, "", crate::door::missing(other))),
    }
}

/// Replays a cassette on standard input and output and returns the exit status.
pub fn replay(replay: Replay<'_>) -> Result<u8> {
    replay_over(replay, Over::Stdio)
}

/// Replays a cassette and returns the exit status.
pub fn replay_over(replay: Replay<'_>, over: Over) -> Result<u8> {
    let cassette = load(replay.path, &replay.source)?;
    for warning in &cassette.warnings {
        say(&format!("warning: {warning}"));
    }
    if let Timing::WrongLength(found) = cassette.timing {
        replay
            .voice
            .detail(&format!("timing_ms has {found} entries for {} messages", cassette.records.len()));
    }
    let server = choose_server(replay.path, &cassette, replay.server.as_ref(), replay.voice)?;
    let rules = rules_of(replay.path, &cassette, &replay.matching)?;
    let recorded = cassette.server(server).map(|(_, server)| server.transport).unwrap_or_default();
    let http = match over {
        Over::Recorded(http) if http.listen.is_some() || recorded == Transport::Http => Some(http),
        Over::Recorded(http) if http != Http::default() => {
            let what = "was recorded over standard input and output; to serve it over HTTP, --listen";
            return Err(Error::input(replay.path, "", what));
        }
        Over::Stdio | Over::Recorded(_) => None,
    };
    let options = Options {
        ordering: replay.matching.ordering,
        repeat: replay.matching.repeat,
        inputs: replay.matching.inputs,
        strict: replay.matching.strict,
        rewrite_version: replay.matching.rewrite_version,
        answer_timeout: replay.matching.answer_timeout.map_or(Options::default().answer_timeout, micros),
        started: crate::cassette::clock::now(),
        // Only what shares a pipe is read together.
        progress_gap: if http.is_some() { 0 } else { Options::default().progress_gap },
        http: http.is_some(),
    };
    let caught = caught_signals()?;
    let mut player = Player::new(Tape::new(cassette, server), rules, options);
    if let Some(http) = http {
        let (server, guard) = listen::bind(&http)?;
        listen::announce(&server, http::PATH, &http, replay.voice)?;
        let signal = http::serve(&mut player, server, guard, http.faithful, &caught, &|text| say(text))?;
        return conclude(&player, Ended::Signal(signal), replay.session, &replay.matching);
    }
    let name = player.server().to_owned();
    let (state, path, owner) =
        (State::of_user(), crate::cassette::segments::resolve(replay.path), replay.owner);
    let voice = replay.voice;
    let ordinal = move |era: crate::mcp::Era| {
        let ordinal = state.next_session(&path, &name, &owner, era.word());
        if let Some(note) = &ordinal.note {
            voice.detail(note);
        }
        voice.detail(&format!("live session {} of {} ({})", ordinal.number + 1, owner.who(), era.word()));
        usize::try_from(ordinal.number).unwrap_or(usize::MAX)
    };
    let ended = stdio::serve(
        &mut player,
        Box::new(ordinal),
        std::io::stdin(),
        std::io::stdout(),
        &caught,
        &|text| say(text),
    )?;
    if ended == Ended::ServerEnded {
        let how = match player.recorded_exit(0) {
            Some(Exit::Code(code)) => format!("with status {code}"),
            Some(Exit::Signal(signal)) => format!("by signal {signal}"),
            None => "here".to_owned(),
        };
        replay.voice.note(&format!("the recorded server ended {how}, so the replay does"));
    }
    conclude(&player, ended, replay.session, &replay.matching)
}

/// Gets the signals that end the program, from now on.
pub fn caught_signals() -> Result<crossbeam_channel::Receiver<i32>> {
    let (send, caught) = crossbeam_channel::unbounded();
    signals::watch(move |signal| {
        let _ = send.send(signal);
    })
    .map_err(|error| Error::Failed(format!("cannot watch for signals: {error}")))?;
    Ok(caught)
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The report and the exit status.
fn conclude(player: &Player, ended: Ended, session: Option<String>, matching: &Matching) -> Result<u8> {
    let mut report = player.report(&ended.words());
    report.session = session;
    let missed = report.misses.len();
    let unused = report.unused.iter().filter(|(_, method, _)| method == "tools/call").count();
    let unmet = matching.require_all_used && unused > 0;
    if missed > 0 {
        say(&format!("{missed} request{} without a recorded answer", if missed == 1 { "" } else { "s" }));
    }
    if unmet {
        for (message, method, name) in report.unused.iter().filter(|(_, method, _)| method == "tools/call") {
            say(&format!(
                "message {message}, {method} {}, was not used",
                string::encode(name.as_deref().unwrap_or(""))
            ));
        }
    }
    if let Some(path) = &matching.report {
        let written = append_line(Path::new(path), &report.json());
        match written {
            // What the replay found out goes before what became of the report.
            Err(error) if missed > 0 || unmet => say(&error.to_string()),
            other => other?,
        }
    }
    Ok(if missed > 0 || unmet { exit::MISS } else { exit::OK })
}

/// Adds a line to a file in one write, so that several processes can share it.
fn append_line(path: &Path, line: &str) -> Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .open(path)
        .map_err(Error::io("write the report", path))?;
    file.write_all(format!("{line}\n").as_bytes()).map_err(Error::io("write the report", path))
}

/// The server to play: the one that is named, or the only one.
fn choose_server(
    path: &Path,
    cassette: &Cassette,
    wanted: Option<&(String, bool)>,
    voice: Voice,
) -> Result<u32> {
    let names = cassette.head.names();
    let found = wanted.and_then(|(wanted, _)| names.iter().position(|name| name == wanted));
    let listed = names.join(", ");
    let index = match (found, wanted, names.len()) {
        (Some(index), ..) => index,
        (None, Some((wanted, true)), _) => {
            let what = format!("has no server {wanted:?}; --server takes one of: {listed}");
            return Err(Error::input(path, "", what));
        }
        (None, Some((wanted, false)), 1) => {
            voice.note(&format!(
                "replaying {listed}, the only server in the cassette, for the command {wanted}"
            ));
            0
        }
        (None, None, 1) => 0,
        (None, _, 0) => return Err(Error::input(path, "", "names no server; nothing can be replayed")),
        (None, ..) => {
            let what = format!("has several servers; choose one with --server: {listed}");
            return Err(Error::input(path, "", what));
        }
    };
    Ok(u32::try_from(index).unwrap_or(0))
}

/// The matching rules: those that the cassette carries and those of the command line.
fn rules_of(path: &Path, cassette: &Cassette, matching: &Matching) -> Result<Rules> {
    let redaction = match &cassette.head.redaction {
        Some(text) => {
            let manifest = serde_json::from_str::<redact::Manifest>(text)
                .map_err(|error| Error::input(path, "/redaction", format!("cannot be read: {error}")))?;
            redact::Rules::from_manifest(&manifest, &[])
                .map_err(|error| Error::input(path, "/redaction", error.to_string()))?
        }
        None => redact::Rules::new(false, &[])?,
    };
    let mut ignore = matching.ignore.clone();
    let mut ignore_value = matching.ignore_value.clone();
    if let Some(text) = &cassette.head.matching {
        let mut members = Members::of(text, 0)
            .ok_or_else(|| Error::input(path, "/match", "must be an object of matching rules"))?;
        while let Ok(Some((name, value))) = members.next() {
            let list = elements(text, value).unwrap_or_default();
            let list = list.iter().map(|span| string::decode(span.of(text)).into_owned());
            match &*string::decode(name.of(text)) {
                "ignore" => ignore.extend(list),
                "ignore_value" => ignore_value.extend(list),
                other => {
                    let what = format!("has an unknown rule {other:?}; known are ignore, ignore_value");
                    return Err(Error::input(path, "/match", what));
                }
            }
        }
    }
    let rules = Rules::new(&ignore, &ignore_value, Arc::new(redaction))?;
    let of_clients = cassette.records.iter().filter(|record| record.from == crate::cassette::Side::Client);
    let ids = of_clients.filter_map(|record| record.more.as_ref()).flat_map(|more| &more.redacted);
    Ok(rules.fired(&ids.map(String::as_str).collect()))
}
