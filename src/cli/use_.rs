//! `use`: record or replay, by mode; the one line for a client's configuration.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::append;
use super::listen::Http;
use super::options::{Matching, Over, Replay, Voice, replay, replay_over, seconds, server_name};
use super::ready;
use super::record::{Setup, around_a_command, check_name, check_session};
use super::redaction::{Redaction, Secrets};
use super::report::folder;
use super::staging::{Pacing, Staging, factor};
use super::upstream::{Plan, Typed};
use crate::cassette::Transport;
use crate::cassette::owner::Owner;
use crate::door::{self, Chosen, Decision, Mode};
use crate::error::{Error, Result};
use crate::replay::inputs::InputPolicy;
use crate::replay::player::{Ordering, Repeat};

/// Record a server, or replay it, by mode: the line to put into an MCP client's configuration.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "use",
    example = "{command_name} --cassette session.cassette.json -- npx -y server-files .",
    example = "{command_name} --cassette session.cassette.json --mode none -- npx -y server-files .",
    note = "MCPREEL_MODE (or MCP_CASSETTE_MODE) in the environment, or in that of a parent, goes before --mode. The salt of placeholders is MCPREEL_REDACT_SALT in the environment, unless --redact-salt-env names another variable.",
    error_code(1, "nothing was captured, the URL's server never answered, or the report cannot be written"),
    error_code(2, "wrong usage, or no cassette in mode none"),
    error_code(3, "replay: something was asked that was not recorded, or --require-all-used was not met"),
    error_code(6, "another recording owns the cassette"),
    error_code(125, "the recording could not be started, or failed while the session went on"),
    error_code(126, "the server's command cannot be run"),
    error_code(127, "the server's command was not found")
)]
pub struct Use {
    /// the cassette to record into or to replay
    #[argh(option, arg_name = "file")]
    pub cassette: String,
    /// once (default): record if there is no cassette, else replay; none: replay or fail; all: record anew; `new_episodes`:
    /// replay, and append what was not recorded
    #[argh(option, arg_name = "mode")]
    pub mode: Option<String>,
    /// the server's name in the cassette (default: its program's)
    #[argh(option, arg_name = "name")]
    pub server: Option<String>,
    /// processes of one session belong together
    #[argh(option, arg_name = "id")]
    pub session: Option<String>,
    /// the server's URL, in place of a command
    #[argh(option, arg_name = "url")]
    pub url: Option<String>,
    /// with --url: where clients find the recorder (default: any free port of 127.0.0.1)
    #[argh(option, arg_name = "address")]
    pub listen: Option<String>,
    /// with --url: send this header to the server, in place of the client's; never recorded: 'NAME: VALUE'
    #[argh(option, arg_name = "field")]
    pub header: Vec<String>,
    /// with --url: the same, its value taken from the environment: NAME=VARIABLE
    #[argh(option, arg_name = "field")]
    pub header_env: Vec<String>,
    /// with --url: a PEM file with the only certificates to trust
    #[argh(option, arg_name = "file")]
    pub cacert: Option<String>,
    /// with --url: end after so long without a request
    #[argh(option, arg_name = "seconds", from_str_fn(seconds))]
    pub max_idle: Option<Duration>,
    /// with --url: write the URL for clients into this file once it is ready
    #[argh(option, arg_name = "file")]
    pub ready_file: Option<String>,
    /// with --url: a further name under which clients may come
    #[argh(option, arg_name = "host")]
    pub allow_host: Vec<String>,
    /// with --url: a web page's origin that may come
    #[argh(option, arg_name = "origin")]
    pub allow_origin: Vec<String>,
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
    /// how long to wait for another recording to end
    #[argh(option, arg_name = "seconds", from_str_fn(seconds))]
    pub claim_wait: Option<Duration>,
    /// replay: per-key (default), strict or any
    #[argh(option, arg_name = "order", default = "Ordering::PerKey")]
    pub ordering: Ordering,
    /// replay: leave this JSON pointer of a request out of matching; * is any one segment
    #[argh(option, arg_name = "pointer")]
    pub ignore: Vec<String>,
    /// replay: take two strings as equal when both are a uuid, timestamp, path, or match this regular expression
    #[argh(option, arg_name = "class")]
    pub ignore_value: Vec<String>,
    /// replay: how the client's answers to the server are compared: action (default), exact or keys
    #[argh(option, arg_name = "policy", default = "InputPolicy::Action")]
    pub match_inputs: InputPolicy,
    /// replay: what a request gets that comes more often than recorded: last, cycle or never
    #[argh(option, arg_name = "what")]
    pub repeat: Option<Repeat>,
    /// replay: make an error of what is a warning otherwise
    #[argh(switch)]
    pub strict: bool,
    /// replay: answer initialize with the revision that the client asks for
    #[argh(switch)]
    pub rewrite_protocol_version: bool,
    /// replay: exit with 3 when a recorded tool call was not asked for by any process of the session
    #[argh(switch)]
    pub require_all_used: bool,
    /// replay: how long the client may take to answer the server (default: 60)
    #[argh(option, arg_name = "seconds", from_str_fn(seconds))]
    pub answer_timeout: Option<Duration>,
    /// replay: the faults to inject: an overlay, a JSON file
    #[argh(option, arg_name = "file")]
    pub faults: Option<String>,
    /// replay: exit with 3 when a fault never fired
    #[argh(switch)]
    pub require_faults: bool,
    /// replay: when answers come: instant (default), or recorded, which keeps the recorded gaps
    #[argh(option, arg_name = "when", default = "Pacing::Instant")]
    pub pace: Pacing,
    /// replay: with --pace recorded: multiply the gaps by this (default: 1)
    #[argh(option, arg_name = "factor", from_str_fn(factor))]
    pub pace_scale: Option<f64>,
    /// replay: with --pace recorded: no gap is longer than this (default: 5000; 0: no limit)
    #[argh(option, arg_name = "ms")]
    pub pace_cap_ms: Option<u64>,
    /// replay: append a report, one line of JSON, to this file; to a folder, a recording reports too
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

impl Use {
    /// The options about redaction.
    pub(super) fn redaction(&self) -> Redaction<'_> {
        Redaction {
            own: &self.redact,
            no_defaults: self.no_default_redactions,
            packs: &self.pii_pack,
            secrets: Secrets {
                env: &self.secret_env,
                files: &self.secret_file,
                header: &self.header,
                header_env: &self.header_env,
                values: &[],
            },
            profile: self.redact_profile.as_deref(),
            salt_env: self.redact_salt_env.as_deref(),
        }
    }

    /// How a server is recorded.
    pub(super) fn setup<'a>(&'a self, server: String, owner: Owner, cassette: &'a Path) -> Setup<'a> {
        Setup {
            cassette,
            server,
            owner,
            redaction: self.redaction(),
            force: self.force,
            claim_wait: self.claim_wait,
            voice: self.voice(),
            report: None,
            wraps: self.url.is_none(),
        }
    }

    /// How much is said.
    pub(super) fn voice(&self) -> Voice {
        Voice { quiet: self.quiet, verbose: self.verbose }
    }

    /// How a replay matches.
    pub(super) fn matching(&self) -> Matching {
        Matching {
            ordering: self.ordering,
            ignore: self.ignore.clone(),
            ignore_value: self.ignore_value.clone(),
            inputs: self.match_inputs,
            repeat: self.repeat,
            strict: self.strict,
            rewrite_version: self.rewrite_protocol_version,
            require_all_used: self.require_all_used,
            answer_timeout: self.answer_timeout,
            report: self.report.clone(),
            packs: self.pii_pack.clone(),
            secret_env: self.secret_env.clone(),
            secret_file: self.secret_file.clone(),
        }
    }

    /// The options about faults and pace.
    pub(super) fn staging(&self) -> Staging {
        Staging {
            faults: self.faults.clone(),
            require: self.require_faults,
            pace: self.pace,
            scale: self.pace_scale,
            cap_ms: self.pace_cap_ms,
        }
    }

    /// The options about a URL.
    fn typed(&self) -> Typed<'_> {
        Typed {
            url: self.url.as_deref(),
            listen: self.listen.as_deref(),
            header: &self.header,
            header_env: &self.header_env,
            cacert: self.cacert.as_deref(),
            max_idle: self.max_idle,
            ready_file: self.ready_file.as_deref(),
            allow_host: &self.allow_host,
            allow_origin: &self.allow_origin,
            max_body: None,
            faithful: false,
        }
    }
}

/// Where the client of a server at a URL comes.
fn http_of(command: &Use) -> Http {
    let any_port = || "127.0.0.1:0".to_owned();
    Http {
        listen: Some(command.listen.clone().unwrap_or_else(any_port)),
        ready_file: command.ready_file.clone(),
        max_body: None,
        allow_host: command.allow_host.clone(),
        allow_origin: command.allow_origin.clone(),
        faithful: false,
        max_idle: command.max_idle,
        only_configured: false,
    }
}

/// What is known before the cassette is looked at.
struct Prepared<'a> {
    chosen: Chosen,
    staging: Staging,
    setup: Setup<'a>,
    plan: Option<Plan>,
}

/// Sees whether what was typed makes sense.
fn prepared<'a>(
    command: &'a Use,
    wrapped: &[OsString],
    configured: Option<(&str, &Path)>,
    own: &[OsString],
) -> Result<Prepared<'a>> {
    let chosen = door::choose_mode(command.mode.as_deref(), configured)?;
    let staging = command.staging();
    staging.check()?;
    if !matches!(chosen.mode, Mode::Once | Mode::None) {
        staging.check_no_recording(&chosen.to_string())?;
    }
    let path = Path::new(&command.cassette);
    let server = match chosen.mode {
        Mode::NewEpisodes => {
            let transport = if command.url.is_some() { Transport::Http } else { Transport::Stdio };
            append::server(path, command.server.as_deref(), wrapped, transport)?
        }
        _ => server_name(command.server.as_deref(), wrapped),
    };
    let setup = command.setup(server, Owner::find(command.session.as_deref(), own), path);
    // A server that outlives what its session was for must not record over what that has left.
    if matches!(chosen.mode, Mode::All | Mode::NewEpisodes) && !setup.owner.is_alive() {
        return Err(Error::Usage(format!("{} has ended: nothing is recorded for it", setup.owner.who())));
    }
    let plan = command.typed().plan(wrapped, "use")?;
    Ok(Prepared { chosen, staging, setup, plan })
}

/// Runs the command.
pub fn run(
    command: &Use,
    wrapped: &[OsString],
    configured: Option<(&str, &Path)>,
    own: &[OsString],
) -> Result<u8> {
    ready::clear(command.ready_file.as_deref())?;
    check_name("--cassette", &command.cassette)?;
    check_session(command.session.as_deref())?;
    let voice = command.voice();
    let path = Path::new(&command.cassette);
    let report = folder::own_file(command.report.as_deref())?;
    let ready = prepared(command, wrapped, configured, own);
    let Prepared { chosen, staging, mut setup, plan } = match ready {
        Ok(ready) => ready,
        Err(error) => {
            let server = command.server.clone().unwrap_or_default();
            let setup = command.setup(server, Owner::find(command.session.as_deref(), own), path);
            Setup { report, ..setup }.report_failure(&error);
            return if command.url.is_none() { around_a_command(Err(error)) } else { Err(error) };
        }
    };
    setup.report = report;
    let told = |error: &Error| setup.report_failure(error);
    let decision = match setup.decide(chosen.mode).inspect_err(told) {
        Ok(decision) => decision,
        Err(error) if plan.is_some() => return Err(error),
        Err(error) => return around_a_command(Err(error)),
    };
    let replay_of = |source, named| Replay {
        path,
        source,
        server: Some((setup.server.clone(), named)),
        owner: setup.owner.clone(),
        session: command.session.clone(),
        matching: Matching {
            report: setup.report.clone().or_else(|| command.report.clone()),
            ..command.matching()
        },
        staging: staging.clone(),
        voice,
    };
    match decision {
        Decision::Record(joined) => {
            if let Err(error) = staging.check_no_recording(&chosen.to_string()) {
                setup.give_back(*joined);
                told(&error);
                return Err(error);
            }
            voice.note(&format!("{chosen}: recording into {}", path.display()));
            setup.record_any(*joined, plan, wrapped)
        }
        Decision::Append { joined, source } => {
            voice.note(&format!("{chosen}: {} {}", append::DOING, path.display()));
            let what = replay_of(source, true);
            let reached = append::Reached::of(plan, http_of(command), wrapped);
            append::run(&setup, &what, *joined, reached)
        }
        Decision::Replay { source, notes } => {
            voice.note(&format!("{chosen}: replaying {}", path.display()));
            notes.iter().for_each(|note| voice.note(note));
            let what = replay_of(source, command.server.is_some());
            match plan {
                // It comes over HTTP whatever the recorded one did.
                Some(_) => replay_over(&what, Over::Recorded(http_of(command))),
                None => replay(&what),
            }
        }
    }
}
