//! `run`: an agent with all of its servers, recorded into or replayed from one cassette.
//!
//! The agent gets a copy of its configuration in which every server goes through mcpreel: commands are started by
//! `mcpreel use`, servers at a URL are met by listeners in this process (`hosts`), so that no credential has to be
//! written anywhere.

mod agent;
mod hosts;

use std::ffi::{OsStr, OsString};
use std::hash::BuildHasher as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use argh::{ArgsInfo, FromArgs};

use super::options::{self, NOT_BEGUN, Voice};
use super::record::{Setup, check_name};
use super::report::file;
use super::report::merge::Summary;
use super::report::row::{Row, subject};
use super::say;
use super::use_::Use;
use super::{report, staging};
use crate::cassette::merge::Files;
use crate::cassette::owner::Owner;
use crate::cassette::owner::system::{create_private_folder, private};
use crate::cassette::segments::{Completion, Merged, Recording, find};
use crate::cassette::state::State;
use crate::door::config::{Config, Instead, Reached};
use crate::door::{self, Decision, Mode};
use crate::error::{Error, Result};
use crate::exit;
use crate::replay::faults::Faults;
use crate::stdio::{child, tree};
use agent::Agent;
use hosts::{Host, Hosting};

/// How long `once` waits for another recording to end, before the agent is started.
const CLAIM_WAIT: Duration = Duration::from_secs(30);
/// How long processes of ours that the agent started may take to end after it.
const LEAVE_WAIT: Duration = Duration::from_secs(5);
/// Between two looks at whether something has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// What stands for the path of the configuration in the agent's command line.
const PLACEHOLDER: &str = "{config}";

/// Run an agent and record all of its servers into one cassette, or replay them from it.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "run",
    example = "{command_name} --config .mcp.json --cassette agent.cassette.json -- agent --mcp-config {{config}} 'Do it'",
    example = "{command_name} --config .vscode/mcp.json --config-env MCP_CONFIG --cassette a.json --mode none -- ./agent",
    note = "The agent is told where the rewritten configuration is by {{config}} in its arguments, --config-env or --config-arg. The exit status is the agent's own, or 3 in place of 0 when a replay had misses.",
    error_code(1, "recording: no server was asked for anything"),
    error_code(2, "wrong usage, a configuration that cannot be read, or no cassette in mode none"),
    error_code(3, "replay: something was asked that was not recorded"),
    error_code(6, "another recording owns the cassette"),
    error_code(126, "the agent cannot be run"),
    error_code(127, "the agent was not found")
)]
pub struct Run {
    /// the cassette to record into or to replay
    #[argh(option, arg_name = "file")]
    pub cassette: String,
    /// the agent's configuration of MCP servers: JSON with mcpServers or servers
    #[argh(option, arg_name = "file")]
    pub config: String,
    /// give the agent the rewritten configuration's path in this variable
    #[argh(option, arg_name = "variable")]
    pub config_env: Option<String>,
    /// give it behind this argument, at the end of the agent's command line
    #[argh(option, arg_name = "argument")]
    pub config_arg: Option<String>,
    /// once (default): record if there is no cassette, else replay; none: replay or fail; all: record anew
    #[argh(option, arg_name = "mode")]
    pub mode: Option<String>,
    /// the name of the session (default: a new one)
    #[argh(option, arg_name = "id")]
    pub session: Option<String>,
    /// a PEM file with the only certificates to trust at servers with a URL
    #[argh(option, arg_name = "file")]
    pub cacert: Option<String>,
    /// also redact values of keys like this, or at this JSON pointer: KEYGLOB[=TEXT] or /pointer[=TEXT]
    #[argh(option, arg_name = "rule")]
    pub redact: Vec<String>,
    /// redact nothing but what --redact names
    #[argh(switch)]
    pub no_default_redactions: bool,
    /// take over from another recording
    #[argh(switch)]
    pub force: bool,
    /// how long to wait for another recording to end (default in mode once: 30)
    #[argh(option, arg_name = "seconds")]
    pub claim_wait: Option<String>,
    /// replay: per-key (default), strict or any
    #[argh(option, arg_name = "order")]
    pub ordering: Option<String>,
    /// replay: leave this JSON pointer of a request out of matching; * is any one segment
    #[argh(option, arg_name = "pointer")]
    pub ignore: Vec<String>,
    /// replay: take two strings as equal when both are a uuid, timestamp, path, or match this regular expression
    #[argh(option, arg_name = "class")]
    pub ignore_value: Vec<String>,
    /// replay: how the client's answers to the server are compared: action (default), exact or keys
    #[argh(option, arg_name = "policy")]
    pub match_inputs: Option<String>,
    /// replay: what a request gets that comes more often than recorded: last, cycle or never
    #[argh(option, arg_name = "what")]
    pub repeat: Option<String>,
    /// replay: make an error of what is a warning otherwise
    #[argh(switch)]
    pub strict: bool,
    /// replay: answer initialize with the revision that the client asks for
    #[argh(switch)]
    pub rewrite_protocol_version: bool,
    /// replay: exit with 3 when a recorded tool call was not asked for
    #[argh(switch)]
    pub require_all_used: bool,
    /// replay: how long the client may take to answer the server (default: 60)
    #[argh(option, arg_name = "seconds")]
    pub answer_timeout: Option<String>,
    /// replay: the faults to inject: an overlay, a JSON file
    #[argh(option, arg_name = "file")]
    pub faults: Option<String>,
    /// replay: exit with 3 when a fault never fired
    #[argh(switch)]
    pub require_faults: bool,
    /// replay: when answers come: instant (default), or recorded, which keeps the recorded gaps
    #[argh(option, arg_name = "when")]
    pub pace: Option<String>,
    /// replay: with --pace recorded: multiply the gaps by this (default: 1)
    #[argh(option, arg_name = "factor")]
    pub pace_scale: Option<String>,
    /// replay: with --pace recorded: no gap is longer than this (default: 5000; 0: no limit)
    #[argh(option, arg_name = "ms")]
    pub pace_cap_ms: Option<String>,
    /// replay: append reports, a line of JSON per process, to this file
    #[argh(option, arg_name = "file")]
    pub report: Option<String>,
    /// the configuration file (default: the nearest mcpreel.toml upwards)
    #[argh(option, arg_name = "file")]
    pub config_file: Option<String>,
    /// no configuration file
    #[argh(switch)]
    pub no_config: bool,
    /// say only what went wrong
    #[argh(switch, short = 'q')]
    pub quiet: bool,
    /// say what was decided, and why
    #[argh(switch, short = 'v')]
    pub verbose: bool,
}

impl Run {
    /// The options that every server gets: those of `use`, as one would type them.
    fn passed_on(&self) -> Vec<String> {
        let mut list = Vec::new();
        let texts = [
            ("--cacert", &self.cacert),
            ("--claim-wait", &self.claim_wait),
            ("--ordering", &self.ordering),
            ("--match-inputs", &self.match_inputs),
            ("--repeat", &self.repeat),
            ("--answer-timeout", &self.answer_timeout),
            ("--pace", &self.pace),
            ("--pace-scale", &self.pace_scale),
            ("--pace-cap-ms", &self.pace_cap_ms),
        ];
        list.extend(texts.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?))));
        let lists =
            [("--redact", &self.redact), ("--ignore", &self.ignore), ("--ignore-value", &self.ignore_value)];
        for (name, values) in lists {
            list.extend(values.iter().map(|value| format!("{name}={value}")));
        }
        let switches = [
            ("--no-default-redactions", self.no_default_redactions),
            ("--force", self.force),
            ("--strict", self.strict),
            ("--rewrite-protocol-version", self.rewrite_protocol_version),
            ("--quiet", !self.verbose),
            ("--verbose", self.verbose),
        ];
        list.extend(switches.iter().filter(|(_, on)| *on).map(|(name, _)| (*name).to_owned()));
        list
    }
}

/// Runs the command.
pub fn run(command: &Run, agent: &[OsString], configured: Option<&str>) -> Result<u8> {
    check_name(&command.cassette)?;
    let voice = Voice { quiet: command.quiet, verbose: command.verbose };
    if agent.is_empty() {
        let what = "run needs the agent's command line after --, as in: mcpreel run --config .mcp.json \
                    --cassette f.json -- agent {config}";
        return Err(Error::Usage(what.to_owned()));
    }
    let inline = agent.iter().any(|word| word.to_string_lossy().contains(PLACEHOLDER));
    if !inline && command.config_env.is_none() && command.config_arg.is_none() {
        let what = "the agent must be told where the rewritten configuration is: by {config} in its arguments, \
                    --config-env or --config-arg";
        return Err(Error::Usage(what.to_owned()));
    }
    let path = Path::new(&command.config);
    let text = std::fs::read_to_string(path).map_err(Error::io("read the configuration", path))?;
    let config = Config::parse(path, text)?;
    child::find(agent.first().map_or(OsStr::new(""), OsString::as_os_str))?;

    let folder = Folder::create()?;
    let session = command.session.clone().unwrap_or_else(|| format!("run-{}", folder.token));
    let session = if session.contains('@') { session } else { format!("{session}@{}", std::process::id()) };
    let report = match &command.report {
        Some(report) => absolute(Path::new(report)),
        None => folder.path.join("report.jsonl"),
    };
    let chosen = door::choose_mode(command.mode.as_deref(), configured)?;
    let cassette = absolute(Path::new(&command.cassette));
    let mut options = command.passed_on();
    options.push(format!("--session={session}"));
    options.push(format!("--cassette={}", text_of(&cassette)?));
    options.push(format!("--report={}", text_of(&report)?));
    options.push("--no-config".to_owned());
    if let Some(faults) = &command.faults {
        options.push(format!("--faults={}", text_of(&absolute(Path::new(faults)))?));
    }
    let common = parsed(&options)?;
    let required = Required::of(command)?;
    let staging = common.staging();
    staging.check()?;
    let setup = common.setup("run".to_owned(), Owner::session(&session), &cassette);
    let setup =
        Setup { claim_wait: setup.claim_wait.or((chosen.mode == Mode::Once).then_some(CLAIM_WAIT)), ..setup };

    // A place of our own in the recording: nobody else gets in between two servers.
    let decision = setup.decide(chosen.mode)?;
    let decision = match decision {
        Decision::Record(joined) => match staging.check_no_recording(&chosen.to_string()) {
            Ok(()) => Decision::Record(joined),
            Err(error) => {
                let state = State::of_user();
                let _ = Recording::of(&cassette, &state, &Files).leave(*joined, false);
                return Err(error);
            }
        },
        replay @ Decision::Replay { .. } => replay,
    };
    let (doing, mode) = match &decision {
        Decision::Record(_) => ("recording into", chosen.mode),
        Decision::Replay { .. } => ("replaying", Mode::None),
    };
    voice.note(&format!("{chosen}: {doing} {}", command.cassette));
    decision.notes().iter().for_each(|note| voice.note(note));
    // What was decided holds for all servers, whenever they are started.
    options.push(format!("--mode={}", mode.name()));
    let hosting =
        Hosting { config: &config, path, common: &common, cassette: &cassette, session: &session, mode };
    let status = hosting.start().and_then(|hosts| {
        let status = rewritten(&config, &hosts, &options)
            .and_then(|text| folder.write(path, &text))
            .and_then(|copy| Agent::start(agent, &copy, command))
            .and_then(Agent::wait);
        leave(&session);
        hosts.into_iter().for_each(Host::finish);
        status
    });
    match decision {
        Decision::Record(joined) => {
            let state = State::of_user();
            let left = Recording::of(&cassette, &state, &Files).leave(*joined, false);
            let status = status?;
            Ok(recorded(Path::new(&command.cassette), status, left, voice))
        }
        Decision::Replay { .. } => {
            let status = status?;
            let missed = misses(&report, &session, &cassette, &required)?;
            missed.iter().for_each(|miss| say(miss));
            Ok(if status == exit::OK && !missed.is_empty() { exit::MISS } else { status })
        }
    }
}

/// The agent's configuration with every server going through us.
fn rewritten(config: &Config, hosts: &[Host], options: &[String]) -> Result<String> {
    let program = text_of(&std::env::current_exe().map_err(Error::io("find", "mcpreel"))?)?;
    let mut hosts = hosts.iter();
    let instead = config.servers().iter().map(|server| match &server.reached {
        Reached::Command { .. } => {
            let name = format!("--server={}", server.name);
            let front = ["use".to_owned(), name].into_iter();
            let arguments = front.chain(options.iter().cloned()).chain(["--".to_owned()]).collect();
            Instead::Wrapped { program: program.clone(), arguments }
        }
        Reached::Url { .. } => {
            let host = hosts.next();
            let (url, kept) = host.map(|host| (host.url.clone(), host.kept.clone())).unwrap_or_default();
            Instead::At { url, kept }
        }
    });
    Ok(config.rewritten(&instead.collect::<Vec<_>>()))
}
/// The options of `use`, understood.
fn parsed(options: &[String]) -> Result<Use> {
    let words: Vec<&str> = options
        .iter()
        .flat_map(|option| option.split_once('=').map_or(vec![option.as_str()], |(a, b)| vec![a, b]))
        .collect();
    Use::from_args(&["mcpreel", "use"], &words)
        .map_err(|exit| Error::Usage(exit.output.trim().replace('\n', " ")))
}

fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A path that has to stand in a JSON file.
fn text_of(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::Usage(format!("{}: the path must be UTF-8 here", path.display())))
}

/// Waits for the processes of ours that the agent started, and has them end if they do not by themselves.
fn leave(session: &str) {
    let started = Instant::now();
    let mut told = false;
    loop {
        let ours: Vec<u32> = tree::descendants().into_iter().filter(|pid| is_of(*pid, session)).collect();
        if ours.is_empty() {
            return;
        }
        if started.elapsed() > LEAVE_WAIT && !told {
            tree::terminate(&ours, tree::Stop::Terminate);
            told = true;
        }
        if started.elapsed() > 2 * LEAVE_WAIT {
            return;
        }
        std::thread::sleep(PAUSE);
    }
}

/// Whether a process is a `mcpreel use` of this session.
fn is_of(pid: u32, session: &str) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let wanted = format!("--session={session}");
    line.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
}

/// Says what came of a recording, and gives the exit status.
fn recorded(cassette: &Path, status: u8, left: Result<Completion>, voice: Voice) -> u8 {
    let shown = cassette.display();
    let or = |code: u8| if status == exit::OK { code } else { status };
    let completion = match left {
        Ok(completion) => completion,
        Err(error) => {
            say(&format!("the recording could not be completed: {error}"));
            return or(exit::WRAPPER_FAILED);
        }
    };
    if let Some(warning) = completion.warning() {
        say(&format!("warning: {warning}"));
    }
    match &completion {
        Completion::Merged { outcome: Merged::Written, .. } => voice.note(&format!("recorded into {shown}")),
        Completion::Merged { outcome: Merged::Unchanged, .. } => {
            voice.note(&format!("{shown} says the same already and was left untouched"));
        }
        Completion::OnlyProbes | Completion::Merged { outcome: Merged::OnlyProbes, .. } => {
            voice.note(&format!("only probes were recorded, which do not replace {shown}"));
        }
        Completion::Recording { .. } => voice.note(&format!("others still record into {shown}")),
        Completion::Lost { what } => {
            say(&format!("recording stopped: {what}; nothing of this session is in {shown}"));
            return or(exit::WRAPPER_FAILED);
        }
        _ => {
            say(&format!("nothing was captured, so {shown} was not written: the agent asked no server"));
            return or(exit::FAILED);
        }
    }
    status
}

/// What all replays together have to do.
struct Required {
    /// Every recorded tool call is to be asked for.
    all_used: bool,
    /// Each of these faults is to fire.
    faults: Option<Faults>,
}

impl Required {
    fn of(command: &Run) -> Result<Self> {
        let faults = command.faults.as_ref().filter(|_| command.require_faults);
        if command.require_faults && faults.is_none() {
            return Err(Error::Usage("--require-faults needs --faults FILE".to_owned()));
        }
        Ok(Self {
            all_used: command.require_all_used,
            faults: faults.map(|file| staging::read(file)).transpose()?,
        })
    }
}

/// What went wrong in the replays of this session, in words, and what was not met.
fn misses(report: &Path, session: &str, cassette: &Path, required: &Required) -> Result<Vec<String>> {
    let (rows, _) = file::read_any(report)?;
    let rows: Vec<Row> = rows.into_iter().filter(|row| row.session.as_deref() == Some(session)).collect();
    let mut missed = if required.all_used { never_met(cassette, &rows)? } else { Vec::new() };
    for row in rows.iter().filter(|row| row.ended.starts_with(NOT_BEGUN)) {
        missed.push(format!("{}: {}", row.server, row.ended.trim_start_matches(NOT_BEGUN)));
    }
    for fault in required.faults.iter().flat_map(Faults::all) {
        let index = u64::try_from(fault.index).unwrap_or(u64::MAX);
        let fired = rows.iter().flat_map(|row| &row.faults).any(|row| row.index == index && row.fired > 0);
        if !fired {
            missed.push(format!("{} never fired", fault.words()));
        }
    }
    let summary = Summary::of(rows, Vec::new(), required.all_used);
    for played in &summary.played {
        let misses = played.sessions.iter().flat_map(|session| &session.misses);
        missed.extend(misses.map(|missed| format!("{}: {}", played.server, report::words(missed))));
        let unmet = played.unmet().map(|unused| {
            let subject = subject(&unused.method, unused.name.as_deref());
            format!("{}: message {}, {subject}, was not used", played.server, unused.message)
        });
        missed.extend(unmet);
    }
    Ok(missed)
}

/// The recorded servers with calls that no process played.
fn never_met(cassette: &Path, rows: &[Row]) -> Result<Vec<String>> {
    let cassette = options::load(cassette, &find(cassette)?)?;
    let calls = |name: &str| {
        let of = cassette.records.iter().filter(|record| cassette.server_name(record) == name);
        of.filter_map(|record| record.view())
            .filter(|view| view.id.is_some() && view.method_name(&cassette.text) == "tools/call")
            .count()
    };
    let names = cassette.head.names();
    let unmet = names.iter().filter(|name| !rows.iter().any(|row| row.server == **name));
    Ok(unmet
        .map(|name| (name, calls(name)))
        .filter(|(_, calls)| *calls > 0)
        .map(|(name, calls)| format!("{name}: none of its {calls} recorded tool calls was used"))
        .collect())
}

/// A folder for the copy of the configuration, gone with us.
struct Folder {
    path: PathBuf,
    token: String,
}

impl Folder {
    fn create() -> Result<Self> {
        let random = std::hash::RandomState::new().hash_one(std::process::id());
        let token = format!("{random:016x}");
        let path = std::env::temp_dir().join(format!("mcpreel-run-{token}"));
        create_private_folder(&path).map_err(Error::io("make a folder for the configuration", &path))?;
        Ok(Self { path, token })
    }

    /// Writes the copy, under the name of the original: some clients go by it.
    fn write(&self, original: &Path, text: &str) -> Result<PathBuf> {
        let copy = self.path.join(original.file_name().unwrap_or(OsStr::new("mcp.json")));
        let written = private(std::fs::OpenOptions::new().write(true).create_new(true))
            .open(&copy)
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        written.map_err(Error::io("write the configuration", &copy))?;
        Ok(copy)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
