//! `record`: run a server, or stand in front of one, and keep what is said.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use argh::{ArgsInfo, FromArgs};

use super::options::{NOT_BEGUN, Voice, seconds, server_name};
use super::ready;
use super::redaction::{Redaction, Secrets};
use super::report::folder;
use super::say;
use super::upstream::{Plan, Typed};
use crate::cassette::merge::Files;
use crate::cassette::owner::Owner;
use crate::cassette::segments::{Completion, Joined, Merged, Recording, resolve};
use crate::cassette::state::State;
use crate::door::{self, Decision, Mode, Question};
use crate::error::{Error, Result};
use crate::exit;
use crate::record::segment::Segment;
use crate::record::writer::{Source, Start};
use crate::record::{Outcome, Reason, http, stdio};
use crate::redact::Rules;
use crate::replay::report::Report;
use crate::stdio::child;

/// Run an MCP server, or stand in front of one, and record what is said. The client notices nothing.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "record",
    example = "{command_name} --cassette session.cassette.json -- npx -y server-files .",
    example = "{command_name} --cassette session.cassette.json --redact '*ssn*' -- ./server",
    example = "{command_name} --cassette session.cassette.json --url https://mcp.example.com/mcp",
    note = "The exit status is the server's own, once it runs. With --url it is 0 when a signal ends the recording. The salt of placeholders is MCPREEL_REDACT_SALT in the environment, unless --redact-salt-env names another variable.",
    error_code(1, "nothing was captured, or the URL's server never answered"),
    error_code(2, "wrong usage, or the cassette's name is taken by another file"),
    error_code(6, "another recording owns the cassette"),
    error_code(125, "the recording could not be started, or failed while the session went on"),
    error_code(126, "the server's command cannot be run"),
    error_code(127, "the server's command was not found")
)]
pub struct Record {
    /// the file to record into; one that ends in .jsonl becomes a journal
    #[argh(option, arg_name = "file")]
    pub cassette: String,
    /// the server's name in the cassette (default: its program's)
    #[argh(option, arg_name = "name")]
    pub server: Option<String>,
    /// recorders of one session record together
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
    /// also redact by the rules of this pack, a TOML file
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

impl Record {
    /// The options about redaction.
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
            profile: self.redact_profile.as_deref(),
            salt_env: self.redact_salt_env.as_deref(),
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

/// Runs the command.
pub fn run(record: &Record, command: &[OsString], own: &[OsString]) -> Result<u8> {
    ready::clear(record.ready_file.as_deref())?;
    check_name("--cassette", &record.cassette)?;
    check_session(record.session.as_deref())?;
    door::check_may_record()?;
    let setup = Setup {
        cassette: Path::new(&record.cassette),
        server: server_name(record.server.as_deref(), command),
        owner: Owner::find(record.session.as_deref(), own),
        redaction: record.redaction(),
        force: record.force,
        claim_wait: record.claim_wait,
        voice: Voice { quiet: record.quiet, verbose: record.verbose },
        report: None,
        wraps: record.url.is_none(),
    };
    let plan = record.typed().plan(command, "record")?;
    let rules = setup.rules()?;
    if let Some(program) = command.first() {
        child::find(program)?;
    }
    let decided = setup.decide(Mode::All).and_then(|decision| match decision {
        Decision::Record(joined) => Ok(*joined),
        Decision::Append { .. } | Decision::Replay { .. } => {
            Err(Error::Failed("nothing to record".to_owned()))
        }
    });
    match plan {
        Some(plan) => setup.record_url(decided?, rules, plan),
        None => around_a_command(decided.and_then(|joined| setup.record(joined, rules, command))),
    }
}

/// Around a command, what we could not do has a status of its own: that of the command may be 1.
pub fn around_a_command(result: Result<u8>) -> Result<u8> {
    match result {
        Err(error) if status_around_a_command(&error) == exit::WRAPPER_FAILED => {
            say(&error.to_string());
            Ok(exit::WRAPPER_FAILED)
        }
        other => other,
    }
}

/// The status of an error around a command.
pub fn status_around_a_command(error: &Error) -> u8 {
    match error {
        Error::Io { .. } | Error::Failed(_) => exit::WRAPPER_FAILED,
        other => other.code(),
    }
}

/// Refuses a name that no file can have, before anything starts; it was given as this argument.
pub fn check_name(argument: &str, cassette: &str) -> Result<()> {
    match cassette {
        "" => Err(Error::Usage(format!("{argument} needs the name of a file"))),
        "-" => Err(Error::Usage(format!("{argument} takes a file: a recording goes into no pipe"))),
        _ => Ok(()),
    }
}

/// Refuses a name of a session that could not be told in one line, before anything starts.
pub fn check_session(session: Option<&str>) -> Result<()> {
    let Some(name) = session else { return Ok(()) };
    let id = name.rsplit_once('@').map_or(name, |(id, _)| id);
    if id.is_empty() {
        return Err(Error::Usage(format!("--session {name:?}: needs a name, as ID or ID@PID")));
    }
    if name.chars().any(char::is_control) {
        return Err(Error::Usage(format!("--session {name:?}: a name has no control characters")));
    }
    Ok(())
}

/// What `record` and the recording half of `use` need to know.
#[derive(Debug)]
pub struct Setup<'a> {
    /// The cassette as the user named it.
    pub cassette: &'a Path,
    /// The server's name.
    pub server: String,
    /// Who records.
    pub owner: Owner,
    /// What is redacted.
    pub redaction: Redaction<'a>,
    /// `--force`
    pub force: bool,
    /// `--claim-wait`
    pub claim_wait: Option<Duration>,
    /// How much is said.
    pub voice: Voice,
    /// The file in a folder of reports, where `--report` named one.
    pub report: Option<String>,
    /// It is around a command: what we could not do has a status of its own.
    pub wraps: bool,
}

impl Setup<'_> {
    /// The redaction rules; says so when the defaults are off.
    pub fn rules(&self) -> Result<Arc<Rules>> {
        self.redaction.warn();
        Ok(Arc::new(self.redaction.rules()?))
    }

    /// Asks the door, and takes a place in the recording if it comes to that.
    pub fn decide(&self, mode: Mode) -> Result<Decision> {
        let state = State::of_user();
        door::decide(&Question {
            mode,
            cassette: self.cassette,
            server: &self.server,
            owner: &self.owner,
            force: self.force,
            claim_wait: self.claim_wait,
            state: &state,
            documents: &Files,
        })
    }

    /// Records the server of the command line, however it is reached, and returns the exit status.
    pub fn record_any(&self, joined: Joined, plan: Option<Plan>, command: &[OsString]) -> Result<u8> {
        let ready = self.rules().and_then(|rules| {
            command.first().map_or(Ok(()), |program| child::find(program).map(drop))?;
            Ok(rules)
        });
        let told = |error: &Error| self.report_failure(error);
        match (ready, plan) {
            (Ok(rules), Some(plan)) => self.record_url(joined, rules, plan).inspect_err(told),
            (Ok(rules), None) => around_a_command(self.record(joined, rules, command).inspect_err(told)),
            (Err(error), _) => {
                self.give_back(joined);
                told(&error);
                Err(error)
            }
        }
    }

    /// Leaves a place in the recording that nothing came into.
    pub fn give_back(&self, joined: Joined) {
        let state = State::of_user();
        let _ = Recording::of(self.cassette, &state, &Files).leave(joined, false);
    }

    /// Records one session of the server and returns the exit status.
    pub fn record(&self, joined: Joined, rules: Arc<Rules>, command: &[OsString]) -> Result<u8> {
        joined.notes.iter().for_each(|note| self.voice.note(note));
        self.voice.detail(&format!("recording for {} into {}", self.owner.who(), joined.path.display()));
        let state = State::of_user();
        let recording = Recording::of(self.cassette, &state, &Files);
        let ready = stdio::ready();
        let words = command.iter().map(|word| word.to_string_lossy().into_owned());
        let start = Start::at(&joined, Source::Command(words.collect()), rules);
        let segment = start.and_then(Segment::start);
        let outcome = match segment {
            Ok(segment) => ready.and_then(|ready| ready.run(command, Box::new(segment), Arc::new(say))),
            Err(source) => Err(Error::Io { doing: "write the recording", path: joined.path.clone(), source }),
        };
        match outcome {
            Ok(outcome) => {
                // A recording that failed may have kept more than was counted.
                let kept = outcome.captured > 0 || outcome.recording_failed.is_some();
                let left = recording.leave(joined, kept);
                Ok(self.conclude(&outcome, left))
            }
            Err(error) => {
                let _ = recording.leave(joined, false);
                Err(error)
            }
        }
    }

    /// Records a server at a URL and returns the exit status.
    pub fn record_url(&self, joined: Joined, rules: Arc<Rules>, plan: Plan) -> Result<u8> {
        joined.notes.iter().for_each(|note| self.voice.note(note));
        self.voice.detail(&format!("recording for {} into {}", self.owner.who(), joined.path.display()));
        let state = State::of_user();
        let recording = Recording::of(self.cassette, &state, &Files);
        let start = Start::at(&joined, Source::Url(plan.recordable()), rules);
        let segment = start.and_then(http::Segment::start);
        let ended = match segment {
            Ok(segment) => plan.run(Box::new(segment), &self.owner, joined.claim.clone(), self.voice),
            Err(source) => Err(Error::Io { doing: "write the recording", path: joined.path.clone(), source }),
        };
        match ended {
            Ok(http::Ended { unreachable: Some(why), .. }) => {
                // Requests without a single answer are no cassette: in mode once it would be replayed.
                recording.leave(joined, false)?;
                let path = self.cassette.display();
                let what = format!("the server could not be reached, so {path} was not written: {why}");
                say(&what);
                self.report(Report {
                    recorded: Some(0),
                    failed: Some(what),
                    exit: exit::FAILED,
                    ..Report::default()
                });
                Ok(exit::FAILED)
            }
            Ok(http::Ended { outcome, .. }) => {
                let kept = outcome.captured > 0 || outcome.recording_failed.is_some();
                let left = recording.leave(joined, kept);
                let code = self.conclude(&outcome, left);
                Ok(if code == exit::WRAPPER_FAILED { exit::FAILED } else { code })
            }
            Err(error) => {
                let _ = recording.leave(joined, false);
                Err(error)
            }
        }
    }

    /// Says what came of it.
    fn conclude(&self, outcome: &Outcome, left: Result<Completion>) -> u8 {
        let messages = outcome.captured;
        let count = format!("{messages} message{}", if messages == 1 { "" } else { "s" });
        let path = self.cassette.display();
        let failed = match left {
            Ok(Completion::Lost { what }) => {
                // If something was to be recorded afterwards, that has been told already.
                if outcome.recording_failed.is_none() {
                    say(&format!("recording stopped: {what}; nothing of this session is in {path}"));
                }
                Some(what)
            }
            Ok(completion) => {
                // Whoever gave up has said so.
                let told = outcome.recording_failed.is_some().then(std::process::id);
                if let Some(warning) = completion.warning_besides(told.unwrap_or_default()) {
                    say(&format!("warning: {warning}"));
                }
                match &completion {
                    Completion::Merged { outcome: Merged::Written, .. } => {
                        self.voice.note(&format!("recorded {count} into {path}"));
                    }
                    Completion::Merged { outcome: Merged::Unchanged, .. } => {
                        self.voice.note(&format!(
                            "recorded {count}; {path} says the same already and was left untouched"
                        ));
                    }
                    Completion::Recording { .. } => {
                        self.voice.note(&format!("recorded {count}; others still record into {path}"));
                    }
                    Completion::OnlyProbes | Completion::Merged { outcome: Merged::OnlyProbes, .. } => {
                        self.voice
                            .note(&format!("recorded {count}, only probes, which do not replace {path}"));
                    }
                    _ => {}
                }
                None
            }
            Err(error) => {
                let what = format!("the recording could not be completed: {error}");
                say(&what);
                Some(what)
            }
        };
        if messages == 0 && outcome.recording_failed.is_none() {
            let why = match outcome.reason {
                Reason::ServerExited => "the server ended before anything was said",
                _ => "no message came before the client left",
            };
            say(&format!("nothing was captured, so {path} was not written: {why}"));
        }
        let code =
            if failed.is_some() && outcome.exit == exit::OK { exit::WRAPPER_FAILED } else { outcome.exit };
        self.report(Report {
            ended: match outcome.reason {
                Reason::Signal(signal) => format!("signal {signal}"),
                Reason::ClientClosed => "end of input".to_owned(),
                Reason::OutputClosed => "output closed".to_owned(),
                Reason::ServerExited => "the server ended".to_owned(),
            },
            recorded: Some(messages),
            failed: outcome.recording_failed.clone().or(failed),
            exit: code,
            ..Report::default()
        });
        code
    }

    /// Leaves a report in the folder, where there is one.
    fn report(&self, report: Report) {
        let session = self.owner.session_name().map(str::to_owned);
        let cassette = resolve(self.cassette).to_string_lossy().into_owned();
        let report = Report { session, cassette, server: self.server.clone(), ..report };
        folder::leave(self.report.as_deref(), &report);
    }

    /// Reports why nothing could be recorded or replayed: clients hide the status of a server that did not start, and
    /// often its words.
    pub fn report_failure(&self, error: &Error) {
        let ended = format!("{NOT_BEGUN}{error}");
        let exit = if self.wraps { status_around_a_command(error) } else { error.code() };
        self.report(Report { ended, exit, ..Report::default() });
    }
}
