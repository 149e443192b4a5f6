//! `serve`: replay a cassette.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::listen::Http;
use super::options::{Matching, Over, Replay, Voice, replay_over, seconds};
use super::staging::{Pacing, Staging, factor};
use crate::cassette::owner::Owner;
use crate::cassette::segments::find;
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
    error_code(2, "wrong usage, or the cassette or the faults cannot be read"),
    error_code(3, "something was asked that was not recorded, or a --require- option was not met")
)]
pub struct Serve {
    /// the cassette
    #[argh(positional, arg_name = "file")]
    pub cassette: String,
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
    /// append a report, one line of JSON, to this file
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
pub fn run(serve: &Serve, own: &[OsString]) -> Result<u8> {
    let path = Path::new(&serve.cassette);
    let http = Http {
        listen: serve.listen.clone(),
        ready_file: serve.ready_file.clone(),
        max_body: serve.max_body,
        allow_host: serve.allow_host.clone(),
        allow_origin: serve.allow_origin.clone(),
        faithful: serve.sse == Sse::Faithful,
    };
    if serve.stdio && http != Http::default() {
        return Err(Error::Usage("--stdio does not go with the options of HTTP".to_owned()));
    }
    let over = if serve.stdio { Over::Stdio } else { Over::Recorded(http) };
    let replay = Replay {
        path,
        source: find(path)?,
        server: serve.server.clone().map(|name| (name, true)),
        owner: Owner::find(serve.session.as_deref(), own),
        session: serve.session.clone(),
        matching: Matching {
            ordering: serve.ordering,
            ignore: serve.ignore.clone(),
            ignore_value: serve.ignore_value.clone(),
            inputs: serve.match_inputs,
            repeat: serve.repeat,
            strict: serve.strict,
            rewrite_version: serve.rewrite_protocol_version,
            require_all_used: serve.require_all_used,
            answer_timeout: serve.answer_timeout,
            report: serve.report.clone(),
            packs: serve.pii_pack.clone(),
            secret_env: serve.secret_env.clone(),
            secret_file: serve.secret_file.clone(),
        },
        staging: Staging {
            faults: serve.faults.clone(),
            require: serve.require_faults,
            pace: serve.pace,
            scale: serve.pace_scale,
            cap_ms: serve.pace_cap_ms,
        },
        voice: Voice { quiet: serve.quiet, verbose: serve.verbose },
    };
    replay_over(&replay, over)
}
