//! `run`: an agent with all of its servers, recorded into or replayed from one cassette.
//!
//! The agent gets a copy of its configuration in which every server goes through mcpreel: commands are started by
//! `mcpreel use`, servers at a URL are met by listeners in this process (`hosts`), so that no credential has to be
//! written anywhere.

mod agent;
mod hosts;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use argh::{ArgsInfo, FromArgs};

use super::options::Voice;
use super::record::{around_a_command, check_name, check_session};
use super::say;
use super::session::{Outcome, Session, Wanted, text_of};
use crate::cassette::owner::system::private;
use crate::cassette::segments::{Completion, Merged};
use crate::door::config::{Config, Instead, Reached};
use crate::door::{self, Chosen};
use crate::error::{Error, Result, words};
use crate::exit;
use crate::stdio::child;
use agent::Agent;
use hosts::Kept;

/// What stands for the path of the configuration in the agent's command line.
const PLACEHOLDER: &str = "{config}";

/// Run an agent and record all of its servers into one cassette, or replay them from it.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "run",
    example = "{command_name} --config .mcp.json --cassette agent.cassette.json -- agent --mcp-config {{config}} 'Do it'",
    example = "{command_name} --config .vscode/mcp.json --config-env MCP_CONFIG --cassette a.json --mode none -- ./agent",
    note = "The agent is told where the rewritten configuration is by {{config}} in its arguments, --config-env or --config-arg. The exit status is the agent's own, or 3 in place of 0 when a replay had misses. The salt of placeholders is MCPREEL_REDACT_SALT in the environment, unless --redact-salt-env names another variable.",
    error_code(1, "recording: no server was asked for anything"),
    error_code(2, "wrong usage, a configuration that cannot be read, or no cassette in mode none"),
    error_code(3, "replay: something was asked that was not recorded"),
    error_code(6, "another recording owns the cassette"),
    error_code(
        125,
        "mcpreel itself failed: the recording or the replay could not be started, what came of it is not known, or the report cannot be written"
    ),
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
    /// once (default): record if there is no cassette, else replay; none: replay or fail; all: record anew; `new_episodes`:
    /// replay, and append what was not recorded
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
    /// redact nothing but what --redact and --pii-pack name
    #[argh(switch)]
    pub no_default_redactions: bool,
    /// also redact by the rules of this pack, a TOML file; replay: where the packs are that the cassette names
    #[argh(option, arg_name = "file")]
    pub pii_pack: Vec<String>,
    /// the value of this variable is a secret that must be nowhere, in no spelling
    #[argh(option, arg_name = "variable")]
    pub secret_env: Vec<String>,
    /// so is each line of this file
    #[argh(option, arg_name = "file")]
    pub secret_file: Vec<String>,
    /// the name that the cassette gives to these rules
    #[argh(option, arg_name = "name")]
    pub redact_profile: Option<String>,
    /// the variable with the salt that makes placeholders equal in all recordings
    #[argh(option, arg_name = "variable")]
    pub redact_salt_env: Option<String>,
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
            ("--redact-profile", &self.redact_profile),
            ("--redact-salt-env", &self.redact_salt_env),
        ];
        list.extend(texts.iter().filter_map(|(name, value)| Some(format!("{name}={}", value.as_ref()?))));
        let files = [("--pii-pack", &self.pii_pack), ("--secret-file", &self.secret_file)];
        for (name, values) in files {
            // The agent may start servers in another folder.
            let values = values.iter().map(|file| super::session::absolute(Path::new(file)));
            list.extend(values.map(|file| format!("{name}={}", file.display())));
        }
        let lists = [
            ("--redact", &self.redact),
            ("--secret-env", &self.secret_env),
            ("--ignore", &self.ignore),
            ("--ignore-value", &self.ignore_value),
        ];
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
pub fn run(command: &Run, agent: &[OsString], configured: Option<(&str, &Path)>) -> Result<u8> {
    check_name("--cassette", &command.cassette)?;
    check_session(command.session.as_deref())?;
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
    let text = std::fs::read_to_string(path).map_err(|error| {
        Error::input(path, "", format!("cannot read the configuration: {}", words(&error)))
    })?;
    let config = Config::parse(path, text)?;
    child::find(agent.first().map_or(OsStr::new(""), OsString::as_os_str))?;

    let chosen = door::choose_mode(command.mode.as_deref(), configured)?;
    // Servers that are started may say what is in the URL of another one.
    let known = hosts::FromEnvironment::of(&config);
    let named = known.variables.iter().filter(|name| !command.secret_env.contains(name));
    let options = command.passed_on().into_iter().chain(named.map(|name| format!("--secret-env={name}")));
    let wanted = Wanted {
        cassette: PathBuf::from(&command.cassette),
        session: command.session.clone(),
        options: options.collect(),
        secrets: known.parts,
        report: command.report.as_ref().map(PathBuf::from),
        faults: command.faults.as_ref().map(PathBuf::from),
        require_all_used: command.require_all_used,
        require_faults: command.require_faults,
    };
    around_a_command(around(command, agent, &config, wanted, &chosen, voice))
}

fn around(
    command: &Run,
    agent: &[OsString],
    config: &Config,
    wanted: Wanted,
    chosen: &Chosen,
    voice: Voice,
) -> Result<u8> {
    let path = Path::new(&command.config);
    let mut session = Session::begin(wanted, chosen, voice)?;
    let hosts = hosts::start(&mut session, config, path)?;
    let status = rewritten(config, &hosts, &mut session)
        .and_then(|text| write(session.folder(), path, &text))
        .and_then(|copy| Agent::start(agent, &copy, command))
        .and_then(Agent::wait);
    session.wait();
    hosts.into_iter().for_each(|(host, _)| host.finish());
    let reported = session.hand_on_reports().inspect_err(|error| say(&error.to_string()));
    let ended = session.end();
    let status = status?;
    let status = match ended {
        Ok(Outcome::Recorded(completion)) => {
            recorded(Path::new(&command.cassette), status, &completion, voice)
        }
        Ok(Outcome::Appended(completion, missed)) => {
            let status = appended(Path::new(&command.cassette), status, &completion, voice);
            missed.iter().for_each(|miss| say(miss));
            if status == exit::OK && !missed.is_empty() { exit::MISS } else { status }
        }
        Ok(Outcome::Replayed(missed)) => {
            missed.iter().for_each(|miss| say(miss));
            if status == exit::OK && !missed.is_empty() { exit::MISS } else { status }
        }
        Err(error) => {
            say(&format!("what came of it is not known: {error}"));
            if status == exit::OK { exit::WRAPPER_FAILED } else { status }
        }
    };
    Ok(if status == exit::OK && reported.is_err() { exit::WRAPPER_FAILED } else { status })
}

/// The agent's configuration with every server going through us.
fn rewritten(config: &Config, hosts: &[Kept], session: &mut Session) -> Result<String> {
    let program = text_of(&std::env::current_exe().map_err(Error::io("find", "mcpreel"))?)?;
    let mut hosts = hosts.iter();
    let instead = config.servers().iter().map(|server| match &server.reached {
        Reached::Command { .. } => {
            Ok(Instead::Wrapped { program: program.clone(), arguments: session.wrapping(&server.name)? })
        }
        Reached::Url { .. } => {
            let (url, kept) =
                hosts.next().map(|(host, kept)| (host.url.clone(), kept.clone())).unwrap_or_default();
            Ok(Instead::At { url, kept })
        }
    });
    Ok(config.rewritten(&instead.collect::<Result<Vec<_>>>()?))
}

/// Says what came of a recording, and gives the exit status.
fn recorded(cassette: &Path, status: u8, completion: &Completion, voice: Voice) -> u8 {
    let shown = cassette.display();
    let or = |code: u8| if status == exit::OK { code } else { status };
    if let Some(warning) = completion.warning() {
        say(&format!("warning: {warning}"));
    }
    match completion {
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

/// Says what was appended, and gives the exit status.
fn appended(cassette: &Path, status: u8, completion: &Completion, voice: Voice) -> u8 {
    if matches!(completion, Completion::Empty | Completion::Absent | Completion::AlreadyMerged) {
        voice.note(&format!("nothing new: {} was left as it is", cassette.display()));
        return status;
    }
    recorded(cassette, status, completion, voice)
}

/// Writes the copy, under the name of the original: some clients go by it.
fn write(folder: &Path, original: &Path, text: &str) -> Result<PathBuf> {
    let copy = folder.join(original.file_name().unwrap_or(OsStr::new("mcp.json")));
    let written = private(std::fs::OpenOptions::new().write(true).create_new(true))
        .open(&copy)
        .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
    written.map_err(Error::io("write the configuration", &copy))?;
    Ok(copy)
}
