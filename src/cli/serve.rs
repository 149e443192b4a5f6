//! `serve`: replay a cassette.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::append;
use super::listen::Http;
use super::options::{Matching, Over, Replay, Voice, replay_over, seconds};
use super::ready;
use super::record::{Setup, around_a_command, check_name, check_session};
use super::redaction::{Redaction, Secrets};
use super::report::folder;
use super::settings::Settings;
use super::staging::{Pacing, Staging, factor};
use super::upstream::Typed;
use crate::cassette::Transport;
use crate::cassette::owner::Owner;
use crate::cassette::segments::{CassetteOnDisk, find};
use crate::door::{self, Decision, Mode};
use crate::error::{Error, Result};
use crate::replay::inputs::InputPolicy;
use crate::replay::player::{Ordering, Repeat};

/// How legacy streams go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sse {
    /// Whole, without ids.
    Plain,
    /// With ids, and broken off where the recorded ones were.
    Faithful,
}

impl std::str::FromStr for Sse {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "plain" => Ok(Self::Plain),
            "faithful" => Ok(Self::Faithful),
            _ => Err(format!("{word:?} is not one of plain, faithful")),
        }
    }
}

/// Replay a cassette as the server that was recorded: on standard input and output, or over HTTP.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "serve",
    example = "{command_name} session.cassette.json",
    example = "{command_name} session.cassette.json --server files --ignore /params/arguments/timestamp",
    example = "{command_name} session.cassette.json --listen 127.0.0.1:8000",
    example = "{command_name} session.cassette.json --faults slow.faults.json --pace recorded",
    example = "{command_name} session.cassette.json --new-episodes -- npx -y server-files .",
    error_code(1, "the address cannot be listened on, or the report cannot be written"),
    error_code(2, "wrong usage, or the cassette or the faults cannot be read"),
    error_code(3, "something was asked that was not recorded, or a --require- option was not met"),
    error_code(6, "with --new-episodes: another recording owns the cassette"),
    error_code(125, "with --new-episodes: what is new could not be recorded"),
    error_code(126, "with --new-episodes: the live server's command cannot be run"),
    error_code(127, "with --new-episodes: the live server's command was not found")
)]
pub struct Serve {
    /// the cassette
    #[argh(positional, arg_name = "file")]
    pub cassette: String,
    /// ask the live server, whose command stands behind -- or that --url names, what was not recorded, and append that
    #[argh(switch)]
    pub new_episodes: bool,
    /// with --new-episodes: the live server's URL, in place of a command
    #[argh(option, arg_name = "url")]
    pub url: Option<String>,
    /// with --url: send this header to the server, in place of the client's; never recorded: 'NAME: VALUE'
    #[argh(option, arg_name = "field")]
    pub header: Vec<String>,
    /// with --url: the same, its value taken from the environment: NAME=VARIABLE
    #[argh(option, arg_name = "field")]
    pub header_env: Vec<String>,
    /// with --url: a PEM file with the only certificates to trust
    #[argh(option, arg_name = "file")]
    pub cacert: Option<String>,
    /// with --new-episodes: also redact values of keys like this, or at this JSON pointer: KEYGLOB[=TEXT] or
    /// /pointer[=TEXT]
    #[argh(option, arg_name = "rule")]
    pub redact: Vec<String>,
    /// with --new-episodes: redact nothing but what --redact and the cassette name
    #[argh(switch)]
    pub no_default_redactions: bool,
    /// with --new-episodes: take over from another recording
    #[argh(switch)]
    pub force: bool,
    /// with --new-episodes: how long to wait for another recording to end
    #[argh(option, arg_name = "seconds", from_str_fn(seconds))]
    pub claim_wait: Option<Duration>,
    /// the server to play, when the cassette has several
    #[argh(option, arg_name = "name")]
    pub server: Option<String>,
    /// replays of one session count their processes together
    #[argh(option, arg_name = "id")]
    pub session: Option<String>,
    /// over standard input and output (default: the way it was recorded)
    #[argh(switch)]
    pub stdio: bool,
    /// over HTTP at this address; port 0 is any free one
    #[argh(option, arg_name = "address")]
    pub listen: Option<String>,
    /// over HTTP: write the URL to this file when clients can connect
    #[argh(option, arg_name = "file")]
    pub ready_file: Option<String>,
    /// over HTTP: refuse bodies of more bytes than this (default: 64 MiB)
    #[argh(option, arg_name = "bytes")]
    pub max_body: Option<u64>,
    /// over HTTP: end after so long without a request
    #[argh(option, arg_name = "seconds", from_str_fn(seconds))]
    pub max_idle: Option<Duration>,
    /// over HTTP: also answer to this Host
    #[argh(option, arg_name = "host")]
    pub allow_host: Vec<String>,
    /// over HTTP: also answer to pages of this origin
    #[argh(option, arg_name = "origin")]
    pub allow_origin: Vec<String>,
    /// over HTTP: how legacy streams go: plain (default), or faithful, which breaks off where the recorded ones did
    /// and lets clients come back
    #[argh(option, arg_name = "how", default = "Sse::Plain")]
    pub sse: Sse,
    /// per-key (default), strict or any
    #[argh(option, arg_name = "order", default = "Ordering::PerKey")]
    pub ordering: Ordering,
    /// leave this JSON pointer of a request out of matching; * is any one segment
    #[argh(option, arg_name = "pointer")]
    pub ignore: Vec<String>,
    /// take two strings as equal when both are a uuid, timestamp, path, or match this regular expression
    #[argh(option, arg_name = "class")]
    pub ignore_value: Vec<String>,
    /// how the client's answers to the server are compared: action (default), exact or keys
    #[argh(option, arg_name = "policy", default = "InputPolicy::Action")]
    pub match_inputs: InputPolicy,
    /// what a request gets that comes more often than recorded: last, cycle or never
    #[argh(option, arg_name = "what")]
    pub repeat: Option<Repeat>,
    /// make an error of what is a warning otherwise
    #[argh(switch)]
    pub strict: bool,
    /// answer initialize with the revision that the client asks for
    #[argh(switch)]
    pub rewrite_protocol_version: bool,
    /// exit with 3 when a recorded tool call was not asked for by any process of the session
    #[argh(switch)]
    pub require_all_used: bool,
    /// how long the client may take to answer the server (default: 60)
    #[argh(option, arg_name = "seconds", from_str_fn(seconds))]
    pub answer_timeout: Option<Duration>,
    /// the faults to inject: an overlay, a JSON file
    #[argh(option, arg_name = "file")]
    pub faults: Option<String>,
    /// exit with 3 when a fault never fired
    #[argh(switch)]
    pub require_faults: bool,
    /// when answers come: instant (default), or recorded, which keeps the recorded gaps
    #[argh(option, arg_name = "when", default = "Pacing::Instant")]
    pub pace: Pacing,
    /// with --pace recorded: multiply the gaps by this (default: 1)
    #[argh(option, arg_name = "factor", from_str_fn(factor))]
    pub pace_scale: Option<f64>,
    /// with --pace recorded: no gap is longer than this (default: 5000; 0: no limit)
    #[argh(option, arg_name = "ms")]
    pub pace_cap_ms: Option<u64>,
    /// where a redaction pack is that the cassette names
    #[argh(option, arg_name = "file")]
    pub pii_pack: Vec<String>,
    /// the value of this variable is a secret that must not be told, neither in errors nor in reports
    #[argh(option, arg_name = "variable")]
    pub secret_env: Vec<String>,
    /// so is each line of this file
    #[argh(option, arg_name = "file")]
    pub secret_file: Vec<String>,
    /// append a report, one line of JSON, to this file, or put it into this folder
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

/// Runs the command.
pub fn run(
    mut serve: Serve,
    wrapped: Option<&[OsString]>,
    settings: &Settings,
    own: &[OsString],
) -> Result<u8> {
    ready::clear(serve.ready_file.as_deref())?;
    if serve.cassette.is_empty() {
        return Err(Error::Usage("<file> needs the name of a file".to_owned()));
    }
    serve.check(wrapped, settings)?;
    let all = serve.http();
    serve.leave_out_http_of(settings);
    let typed = serve.http();
    let path = Path::new(&serve.cassette);
    if serve.stdio && typed != Http::default() {
        return Err(Error::Usage("--stdio does not go with the options of HTTP".to_owned()));
    }
    check_session(serve.session.as_deref())?;
    let owner = Owner::find(serve.session.as_deref(), own);
    let on_pipes = serve.stdio || (serve.new_episodes && serve.url.is_none());
    let only_configured = typed == Http::default();
    let http = if on_pipes { typed } else { Http { only_configured, ..all } };
    if serve.new_episodes {
        return serve.append(http, owner, wrapped.unwrap_or_default());
    }
    let over = if serve.stdio { Over::Stdio } else { Over::Recorded(http) };
    let named = serve.server.clone().map(|name| (name, true));
    replay_over(&serve.replay(find(path)?, named, owner)?, over)
}

impl Serve {
    /// The options of HTTP.
    fn http(&self) -> Http {
        Http {
            listen: self.listen.clone(),
            ready_file: self.ready_file.clone(),
            max_body: self.max_body,
            allow_host: self.allow_host.clone(),
            allow_origin: self.allow_origin.clone(),
            faithful: self.sse == Sse::Faithful,
            max_idle: self.max_idle,
            only_configured: false,
        }
    }

    /// What a configuration says about HTTP is not meant for pipes.
    fn leave_out_http_of(&mut self, settings: &Settings) {
        let is_from_there = |option: &str, value: Option<&String>| {
            let mut used = settings.used.iter().filter(|used| used.option == option);
            used.any(|used| value.is_none_or(|value| *value == used.value))
        };
        self.listen.take_if(|_| is_from_there("listen", None));
        self.max_body.take_if(|_| is_from_there("max-body", None));
        self.max_idle.take_if(|_| is_from_there("max-idle", None));
        self.allow_host.retain(|host| !is_from_there("allow-host", Some(host)));
        self.allow_origin.retain(|origin| !is_from_there("allow-origin", Some(origin)));
        if is_from_there("sse", None) {
            self.sse = Sse::Plain;
        }
    }

    /// That the options which are about a live server stand with one.
    fn check(&self, wrapped: Option<&[OsString]>, settings: &Settings) -> Result<()> {
        // A configuration says how to record, for the commands that do.
        let configured = |option: &str| settings.list.iter().any(|setting| setting.option == option);
        let given = [
            ("--redact", !self.redact.is_empty() && !configured("redact")),
            ("--no-default-redactions", self.no_default_redactions && !configured("no-default-redactions")),
            ("a command behind --", wrapped.is_some()),
            ("--url", self.url.is_some()),
            ("--header", !self.header.is_empty()),
            ("--header-env", !self.header_env.is_empty()),
            ("--cacert", self.cacert.is_some()),
            ("--force", self.force),
            ("--claim-wait", self.claim_wait.is_some()),
        ];
        match given.iter().find(|(_, given)| *given && !self.new_episodes) {
            Some((name, _)) => {
                Err(Error::Usage(format!("{name} is for a live server, and that needs --new-episodes")))
            }
            None if self.stdio && self.url.is_some() => Err(Error::Usage(
                "--stdio does not go with --url: clients come the way the server is reached".to_owned(),
            )),
            None => Ok(()),
        }
    }

    /// Replays, and appends what the live server says; where there is no cassette it records.
    fn append(&self, http: Http, owner: Owner, wrapped: &[OsString]) -> Result<u8> {
        let path = Path::new(&self.cassette);
        check_name("<file>", &self.cassette)?;
        door::check_may_record()?;
        self.staging().check_no_recording("--new-episodes")?;
        let typed = Typed {
            url: self.url.as_deref(),
            listen: http.listen.as_deref(),
            header: &self.header,
            header_env: &self.header_env,
            cacert: self.cacert.as_deref(),
            max_idle: http.max_idle,
            ready_file: http.ready_file.as_deref(),
            allow_host: &http.allow_host,
            allow_origin: &http.allow_origin,
            max_body: http.max_body,
            faithful: http.faithful,
        };
        let plan = typed.plan(wrapped, "serve --new-episodes")?;
        let transport = if plan.is_some() { Transport::Http } else { Transport::Stdio };
        let setup = Setup {
            cassette: path,
            server: append::server(path, self.server.as_deref(), wrapped, transport)?,
            owner,
            redaction: self.redaction(),
            force: self.force,
            claim_wait: self.claim_wait,
            voice: self.voice(),
            report: folder::own_file(self.report.as_deref())?,
            wraps: plan.is_none(),
        };
        let decision = match setup.decide(Mode::NewEpisodes) {
            Err(error) if plan.is_none() => return around_a_command(Err(error)),
            decision => decision?,
        };
        match decision {
            Decision::Record(joined) => {
                setup.voice.note(&format!("recording into {}", path.display()));
                if http.faithful {
                    setup
                        .voice
                        .note("--sse faithful is for what is replayed: now all streams go as they come");
                }
                setup.record_any(*joined, plan, wrapped)
            }
            Decision::Append { joined, source } => {
                setup.voice.note(&format!("{} {}", append::DOING, path.display()));
                let replay = self.replay(source, Some((setup.server.clone(), true)), setup.owner.clone())?;
                append::run(&setup, &replay, *joined, append::Reached::of(plan, http, wrapped))
            }
            Decision::Replay { .. } => Err(Error::Failed("nothing can be appended".to_owned())),
        }
    }

    fn redaction(&self) -> Redaction<'_> {
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
            ..Redaction::default()
        }
    }

    fn voice(&self) -> Voice {
        Voice { quiet: self.quiet, verbose: self.verbose }
    }

    fn staging(&self) -> Staging {
        Staging {
            faults: self.faults.clone(),
            require: self.require_faults,
            pace: self.pace,
            scale: self.pace_scale,
            cap_ms: self.pace_cap_ms,
        }
    }

    fn replay(
        &self,
        source: CassetteOnDisk,
        server: Option<(String, bool)>,
        owner: Owner,
    ) -> Result<Replay<'_>> {
        Ok(Replay {
            path: Path::new(&self.cassette),
            source,
            server,
            owner,
            session: self.session.clone(),
            matching: Matching {
                ordering: self.ordering,
                ignore: self.ignore.clone(),
                ignore_value: self.ignore_value.clone(),
                inputs: self.match_inputs,
                repeat: self.repeat,
                strict: self.strict,
                rewrite_version: self.rewrite_protocol_version,
                require_all_used: self.require_all_used,
                answer_timeout: self.answer_timeout,
                report: folder::own_file(self.report.as_deref())?.or_else(|| self.report.clone()),
                packs: self.pii_pack.clone(),
                secret_env: self.secret_env.clone(),
                secret_file: self.secret_file.clone(),
            },
            staging: self.staging(),
            voice: self.voice(),
        })
    }
}
