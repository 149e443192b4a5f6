//! What several commands share: notes, server names, sessions, and the options of a replay.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use super::append;
use super::carried;
use super::listen::{self, Http};
use super::record::status_around_a_command;
use super::redaction::{Secrets, manifest_of, packs_for, sayable};
use super::report::file;
use super::say;
use super::staging::Staging;
use super::standard;
use super::uses::Uses;
use crate::cassette::owner::Owner;
use crate::cassette::segments::CassetteOnDisk;
use crate::cassette::state::State;
use crate::cassette::{Cassette, Exit, Server, Timing, Transport, merge};
use crate::door::episodes::{Finished, Piped, Web};
use crate::error::{Error, Result};
use crate::exit;
use crate::redact;
use crate::replay::Aside;
use crate::replay::behind::LiveServer;
use crate::replay::faults::Way;
use crate::replay::http;
use crate::replay::player::{Options, Ordering, Player, Repeat};
use crate::replay::report::Report;
use crate::replay::stdio::{self, Ended};
use crate::replay::tape::Tape;
use crate::replay::{inputs::InputPolicy, key::Rules};
use crate::stdio::signals;

/// How the report of a replay that could not begin says so.
pub const NOT_BEGUN: &str = "not begun: ";

/// How often a replay over HTTP looks whether the process of its session is still there.
const OWNER_LOOK: Duration = Duration::from_millis(500);

/// The number of SIGTERM, the same everywhere.
const SIGTERM: i32 = 15;

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
    /// `--pii-pack`
    pub packs: Vec<String>,
    /// `--secret-env`
    pub secret_env: Vec<String>,
    /// `--secret-file`
    pub secret_file: Vec<String>,
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
    /// Faults and pace.
    pub staging: Staging,
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

/// A live server behind a replay.
#[derive(Debug)]
pub enum Live {
    /// One that is started.
    Piped(Piped),
    /// One at a URL.
    Web(Web),
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
pub fn replay(replay: &Replay<'_>) -> Result<u8> {
    replay_over(replay, Over::Stdio)
}

/// A player for clients that come over HTTP, and what a report has to say of its cassette. A server that is not in the
/// cassette was not asked for anything: whatever it is asked now is a miss.
pub fn player(replay: &Replay<'_>, mut cassette: Cassette) -> Result<(Player, Vec<String>)> {
    let warnings = cassette.warnings.clone();
    let server = match &replay.server {
        Some((wanted, _)) => add_server(&mut cassette, wanted),
        None => choose_server(replay.path, &cassette, replay.server.as_ref(), replay.voice)?,
    };
    Ok((player_of(replay, cassette, server, Some(false))?, warnings))
}

/// Reads what is to be replayed, and tells what was found wrong with it.
pub fn read(path: &Path, source: &CassetteOnDisk, voice: Voice) -> Result<Cassette> {
    let cassette = load(path, source)?;
    for warning in &cassette.warnings {
        say(&format!("warning: {warning}"));
    }
    if let Timing::WrongLength(found) = cassette.timing {
        voice.detail(&format!("timing_ms has {found} entries for {} messages", cassette.records.len()));
    }
    Ok(cassette)
}

/// `faithful` is for HTTP.
fn player_of(replay: &Replay<'_>, cassette: Cassette, server: u32, faithful: Option<bool>) -> Result<Player> {
    let rules = rules_of(replay.path, &cassette, &replay.matching)?;
    let (pace, unpaced) = replay.staging.pace(replay.path, &cassette);
    unpaced.iter().for_each(|warning| say(warning));
    let servers = cassette.head.names();
    let servers: Vec<&str> = servers.iter().map(String::as_str).collect();
    let tape = Tape::new(cassette, server);
    let sessions = http::Offer::has_sessions(&tape);
    let (http, faithful) = (faithful.is_some(), faithful.unwrap_or(false));
    let way = if http { Way::Http { sessions } } else { Way::Pipe };
    let faults = replay.staging.faults(&tape, &servers, way)?;
    let options = Options {
        ordering: replay.matching.ordering,
        repeat: replay.matching.repeat,
        inputs: replay.matching.inputs,
        strict: replay.matching.strict,
        rewrite_version: replay.matching.rewrite_version,
        answer_timeout: replay.matching.answer_timeout.map_or(Options::default().answer_timeout, micros),
        started: crate::cassette::clock::now(),
        // Only what shares a pipe is read together.
        progress_gap: if http { 0 } else { Options::default().progress_gap },
        http,
        sessions,
        faithful,
        pace,
    };
    let player = Player::new(tape, rules, options);
    Ok(match faults {
        Some(faults) => player.with_faults(faults),
        None => player,
    })
}

/// Replays a cassette and returns the exit status.
pub fn replay_over(replay: &Replay<'_>, over: Over) -> Result<u8> {
    replay_with(replay, over, None)
}

/// The same with a live server behind, to which `over` has to fit. A replay that cannot begin is in the report too.
pub fn replay_with(replay: &Replay<'_>, over: Over, live: Option<Live>) -> Result<u8> {
    replay.staging.check()?;
    let Some(path) = replay.matching.report.clone() else { return begin(replay, over, live) };
    let path = Path::new(&path);
    // Better now than when there is something to tell.
    file::check(path)?;
    let mut row = Report { server: replay.server.clone().unwrap_or_default().0, ..described(replay) };
    let around = matches!(live, Some(Live::Piped(_)));
    let ended = begin(replay, over, live);
    if let Err(error) = &ended {
        row.ended = format!("{NOT_BEGUN}{error}");
        row.exit = if around { status_around_a_command(error) } else { error.code() };
        file::append(path, &sayable(&row.json()))?;
    }
    ended
}

/// A report that says what is played.
fn described(replay: &Replay<'_>) -> Report {
    Report {
        // The one in the environment counts as well.
        session: replay.session.clone().or_else(|| replay.owner.session_name().map(str::to_owned)),
        cassette: crate::cassette::segments::resolve(replay.path).to_string_lossy().into_owned(),
        require_all_used: replay.matching.require_all_used,
        ..Report::default()
    }
}

/// Where a replay says what is not for its client.
pub fn aside(voice: Voice) -> Aside {
    let detail = Box::new(move |text: &str| voice.detail(text));
    Aside { note: Box::new(say), detail, noise: Box::new(super::stderr::write) }
}

fn begin(replay: &Replay<'_>, over: Over, live: Option<Live>) -> Result<u8> {
    let mut cassette = read(replay.path, &replay.source, replay.voice)?;
    let warnings = cassette.warnings.clone();
    let server = match &replay.server {
        // What is not recorded of it will be.
        Some((wanted, _)) if live.is_some() => add_server(&mut cassette, wanted),
        wanted => choose_server(replay.path, &cassette, wanted.as_ref(), replay.voice)?,
    };
    let recorded = cassette.server(server).map(|(_, server)| server.transport).unwrap_or_default();
    let http = match over {
        Over::Recorded(http) if http.listen.is_some() || recorded == Transport::Http => Some(http),
        Over::Recorded(http) if !http.only_configured && http != Http::default() => {
            let what = "was recorded over standard input and output; to serve it over HTTP, --listen";
            return Err(Error::input(replay.path, "", what));
        }
        Over::Stdio | Over::Recorded(_) => None,
    };
    let (end, caught) = signal_channel()?;
    if let Some(Live::Web(web)) = &live {
        let (asked, told) = (web.asked_to_end(), end.clone());
        let pass_on = move || {
            // Nobody listens any more when all is over.
            asked.into_iter().for_each(|signal| told.send(signal).unwrap_or_default());
        };
        let started = std::thread::Builder::new().name("asked to end".to_owned()).spawn(pass_on);
        started.map_err(Error::failed("start a thread"))?;
    }
    let faithful = http.as_ref().map(|http| http.faithful);
    let mut player = player_of(replay, cassette, server, faithful)?;
    if live.is_some() {
        player = player.with_live_server();
    }
    let uses = Uses::begin(replay, &player);
    if let Some(http) = http {
        let (server, guard) = listen::bind(&http)?;
        let web = match live {
            Some(Live::Web(web)) => Some(web),
            _ => None,
        };
        let path = web.as_ref().map_or_else(|| player.path(), Web::local_path);
        listen::announce(&server, &path, &http, replay.voice)?;
        end_with_owner(replay.owner.clone(), end);
        let behind = web.as_ref().map(Web::server);
        let manner = http::Manner { faithful: http.faithful, max_idle: http.max_idle };
        let (player, ended) =
            http::serve(player, server, guard, manner, &caught, aside(replay.voice), behind)?;
        let finished = web.map(|web| web.finish(!player.was_only_refused()));
        return conclude(&player, ended, replay, warnings, uses, finished.as_ref());
    }
    let name = player.server().to_owned();
    let (state, path, owner) =
        (State::of_user(), crate::cassette::segments::resolve(replay.path), replay.owner.clone());
    let voice = replay.voice;
    let ordinal = move |era: crate::mcp::Era| {
        let ordinal = state.next_session(&path, &name, &owner, era.word());
        if let Some(note) = &ordinal.note {
            voice.detail(note);
        }
        voice.detail(&format!("live session {} of {} ({})", ordinal.number + 1, owner.who(), era.word()));
        usize::try_from(ordinal.number).unwrap_or(usize::MAX)
    };
    let mut piped = match live {
        Some(Live::Piped(piped)) => Some(piped),
        _ => None,
    };
    let (input, output) = (standard::input()?, standard::output()?);
    let behind = piped.as_mut().map(|piped| piped as &mut dyn LiveServer);
    let ended =
        stdio::serve(&mut player, Box::new(ordinal), input, output, &caught, &aside(replay.voice), behind)?;
    let finished = piped.map(|piped| {
        let signal = if let Ended::Signal(signal) = ended { Some(signal) } else { None };
        piped.finish(signal, &caught)
    });
    if ended == Ended::ServerEnded {
        let how = match player.recorded_exit(0) {
            Some(Exit::Code(code)) => format!("with status {code}"),
            Some(Exit::Signal(signal)) => format!("by signal {signal}"),
            None => "here".to_owned(),
        };
        replay.voice.note(&format!("the recorded server ended {how}, so the replay does"));
    }
    conclude(&player, ended, replay, warnings, uses, finished.as_ref())
}

/// The place of a server in a cassette, to which it is added where it is not there.
fn add_server(cassette: &mut Cassette, name: &str) -> u32 {
    let servers = &mut cassette.head.servers;
    let place = servers.iter().position(|(known, _)| known == name).unwrap_or_else(|| {
        servers.push((name.to_owned(), Server::default()));
        servers.len() - 1
    });
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Gets the signals that end the program, from now on.
pub fn caught_signals() -> Result<Receiver<i32>> {
    Ok(signal_channel()?.1)
}

/// The same, with the end into which a signal can be put that never came.
fn signal_channel() -> Result<(Sender<i32>, Receiver<i32>)> {
    let (send, caught) = crossbeam_channel::unbounded();
    let sender = send.clone();
    signals::watch(move |signal| {
        let _ = send.send(signal);
    })
    .map_err(Error::failed("watch for signals"))?;
    Ok((sender, caught))
}

/// A replay over HTTP has no client whose leaving ends it: in a session `ID@PID` it ends with that process, however
/// that ended.
fn end_with_owner(owner: Owner, end: Sender<i32>) {
    if matches!(owner, Owner::Session { pid: Some(_), .. }) {
        let watch = move || {
            while owner.is_alive() {
                std::thread::sleep(OWNER_LOOK);
            }
            let _ = end.send(SIGTERM);
        };
        // Without it, a signal ends the replay.
        let _ = std::thread::Builder::new().name("owner".to_owned()).spawn(watch);
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// The report and the exit status.
pub fn conclude(
    player: &Player,
    ended: Ended,
    replay: &Replay<'_>,
    mut warnings: Vec<String>,
    uses: Option<Uses>,
    finished: Option<&Finished>,
) -> Result<u8> {
    if let Some(finished) = finished {
        append::conclude(finished, replay.path, replay.voice);
    }
    let matching = &replay.matching;
    let mut report = player.report(&ended.words());
    let Report { session, cassette, require_all_used, .. } = described(replay);
    report = Report { session, cassette, require_all_used, ..report };
    warnings.append(&mut report.warnings);
    report.warnings = warnings;
    let missed = report.missed();
    if missed > 0 {
        say(&format!("{missed} request{} without a recorded answer", if missed == 1 { "" } else { "s" }));
    }
    let unmet = uses.is_some_and(|uses| !uses.are_met(&report, replay.voice));
    for row in report.unfired() {
        say(&format!("{} never fired", row.words()));
    }
    let unmet = unmet || (replay.staging.require && report.unfired().next().is_some());
    if let Some(failure) = ended.failure() {
        say(&failure);
    }
    let code = match ended {
        _ if let Some(code) = finished.and_then(|finished| finished.code) => code,
        _ if missed > 0 || unmet => exit::MISS,
        Ended::Fault(status) => status,
        Ended::InputFailed(_) | Ended::OutputFailed(_) if finished.is_some() => exit::WRAPPER_FAILED,
        Ended::InputFailed(_) | Ended::OutputFailed(_) => exit::FAILED,
        _ => exit::OK,
    };
    report.exit = code;
    if let Some(path) = &matching.report
        && let Err(error) = file::append(Path::new(path), &sayable(&report.json()))
    {
        if code == exit::OK {
            return Err(error);
        }
        // What the replay found out goes before what became of the report.
        say(&error.to_string());
    }
    Ok(code)
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
    let manifest = manifest_of(path, cassette.head.redaction.as_deref())?;
    let packs = packs_for(path, &manifest, &matching.packs)?;
    let secrets = Secrets { env: &matching.secret_env, files: &matching.secret_file, ..Secrets::default() }
        .read(false)?;
    let redaction = redact::Rules::from_manifest(&manifest, &packs)
        .map_err(|error| Error::input(path, "/redaction", error.to_string()))?
        .with_secrets_of(&secrets);
    let redaction = Arc::new(redaction);
    let carried = carried::read(path, cassette, &redaction)?;
    let ignore = [&matching.ignore[..], &carried.ignore].concat();
    let ignore_value = [&matching.ignore_value[..], &carried.ignore_value].concat();
    let rules = Rules::new(&ignore, &ignore_value, redaction)?;
    let of_clients = cassette.records.iter().filter(|record| record.from == crate::cassette::Side::Client);
    let ids = of_clients.filter_map(|record| record.more.as_ref()).flat_map(|more| &more.redacted);
    Ok(rules.fired(&ids.map(String::as_str).collect()))
}
