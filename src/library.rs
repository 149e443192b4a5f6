//! The door for Rust tests: [`use_cassette`].

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;

use crate::cassette::segments::{Completion, Merged};
use crate::cli::host::Host;
use crate::cli::options::Voice;
use crate::cli::session::{Outcome, Session, Wanted};
use crate::door::{self, Mode};
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::record::http::Address;
use crate::stdio::child;

/// Names the program `mcpreel` where it is not on the `PATH`.
const BINARY_VARIABLE: &str = "MCPREEL_BIN";

/// Records the MCP servers of a test into the cassette at `path`, or replays them from it.
///
/// Tell it each server, give what it returns to the client, and [`finish`](UseCassette::finish) when the client is done.
/// Any client will do: it starts a command, or connects to a URL.
///
/// ```no_run
/// # fn main() -> mcpreel::error::Result<()> {
/// let mut cassette = mcpreel::use_cassette("tests/cassettes/search.cassette.json");
/// let command = cassette.server_command("files", ["npx", "-y", "server-files", "."])?;
/// let url = cassette.server_url("tracker", "https://mcp.example.com/mcp")?;
/// // An agent that starts `command` and connects to `url`.
/// # let agent = |_: &[std::ffi::OsString], _: &str| {};
/// agent(&command, &url);
/// cassette.finish()?;
/// # Ok(())
/// # }
/// ```
pub fn use_cassette(path: impl Into<PathBuf>) -> UseCassette {
    UseCassette {
        wanted: Wanted { cassette: path.into(), ..Wanted::default() },
        mode: None,
        binary: None,
        verbose: false,
        open: None,
    }
}

/// A cassette in use by a test. Dropped unfinished, it finishes, and panics where that fails, unless the test does
/// already.
#[derive(Debug)]
pub struct UseCassette {
    wanted: Wanted,
    mode: Option<Mode>,
    binary: Option<PathBuf>,
    verbose: bool,
    open: Option<Open>,
}

#[derive(Debug)]
struct Open {
    session: Session,
    hosts: Vec<Host>,
    /// The servers whose commands were handed out.
    commands: Vec<String>,
}

/// What came of it, when all went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Finished {
    /// The cassette was written.
    Recorded,
    /// The recording says what the cassette says already, which was left untouched.
    Unchanged,
    /// It was replayed, and every request had its answer.
    Replayed,
    /// No server was asked for.
    Unused,
}

impl UseCassette {
    /// What to do: by default [`Mode::Once`]. `MCPREEL_MODE` in the environment goes before it.
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.mode = Some(mode);
        self
    }

    /// A further option of `mcpreel use`, as one would type it: `--ignore=/params/arguments/now`, `--strict`.
    #[must_use]
    pub fn option(mut self, option: impl Into<String>) -> Self {
        self.wanted.options.push(option.into());
        self
    }

    /// Leaves a part of requests out of matching: a JSON pointer, where `*` is any one segment.
    #[must_use]
    pub fn ignore(self, pointer: &str) -> Self {
        self.option(format!("--ignore={pointer}"))
    }

    /// Redacts the values of keys like this, or at this JSON pointer: `KEYGLOB[=TEXT]` or `/pointer[=TEXT]`.
    #[must_use]
    pub fn redact(self, rule: &str) -> Self {
        self.option(format!("--redact={rule}"))
    }

    /// Every recorded tool call has to be asked for in a replay.
    #[must_use]
    pub fn require_all_used(mut self) -> Self {
        self.wanted.require_all_used = true;
        self
    }

    /// Injects the faults of an overlay, a JSON file, in a replay. Each of them has to fire.
    #[must_use]
    pub fn faults(mut self, file: impl Into<PathBuf>) -> Self {
        self.wanted.faults = Some(file.into());
        self.wanted.require_faults = true;
        self
    }

    /// Where the program `mcpreel` is, for [`UseCassette::server_command`]; by default what `MCPREEL_BIN` names, or else
    /// the one on the `PATH`.
    #[must_use]
    pub fn binary(mut self, path: impl Into<PathBuf>) -> Self {
        self.binary = Some(path.into());
        self
    }

    /// Says on standard error what was decided, and why.
    #[must_use]
    pub fn verbose(mut self) -> Self {
        self.verbose = true;
        self
    }

    /// The command with which the client starts a server, in place of the server's own: the program and its arguments.
    /// `name` is the server's name in the cassette.
    ///
    /// # Errors
    ///
    /// Where the mode cannot be: no cassette in [`Mode::None`], another recording under way, wrong options; and
    /// [`Error::Failed`] where there is no program `mcpreel`.
    pub fn server_command<W: Into<OsString>>(
        &mut self,
        name: &str,
        command: impl IntoIterator<Item = W>,
    ) -> Result<Vec<OsString>> {
        let binary = self.find_binary()?;
        let open = self.open()?;
        let wrapping = open.session.wrapping(name)?.into_iter().map(OsString::from);
        let line = [binary.into_os_string()].into_iter().chain(wrapping);
        open.commands.push(name.to_owned());
        Ok(line.chain(command.into_iter().map(Into::into)).collect())
    }

    /// The URL at which the client finds a server, in place of the server's own. `name` is the server's name in the
    /// cassette.
    ///
    /// # Errors
    ///
    /// As [`UseCassette::server_command`], and for a URL that is none.
    pub fn server_url(&mut self, name: &str, url: &str) -> Result<String> {
        self.server_url_with(name, url, &[])
    }

    /// The same for a server that wants headers which the client does not send, such as a credential. They are in no
    /// file.
    ///
    /// # Errors
    ///
    /// As [`UseCassette::server_url`].
    pub fn server_url_with(&mut self, name: &str, url: &str, headers: &[(&str, &str)]) -> Result<String> {
        let address = Address::parse(url)?;
        let mut fields = Headers::new();
        headers.iter().for_each(|(name, value)| fields.push(*name, *value));
        let open = self.open()?;
        let host = match open.session.replays() {
            true => open.session.replay_url(name, &OnceCell::new())?,
            false => open.session.record_url(name, (address, fields), &OnceCell::new())?,
        };
        let url = host.url.clone();
        open.hosts.push(host);
        Ok(url)
    }

    /// Completes the recording, or checks the replay. The client should have ended its servers by then.
    ///
    /// # Errors
    ///
    /// [`Error::Failed`] with everything that went wrong: requests that were not recorded, calls that were not used where
    /// they had to be, a command that was never started, a recording without a message.
    pub fn finish(mut self) -> Result<Finished> {
        self.close()
    }

    fn find_binary(&self) -> Result<PathBuf> {
        let named = self.binary.clone().or_else(|| std::env::var_os(BINARY_VARIABLE).map(PathBuf::from));
        let found = child::find(named.unwrap_or_else(|| "mcpreel".into()).as_os_str());
        found.map_err(|error| {
            Error::Failed(format!(
                "{error}; a client that starts its servers needs the program: `cargo install mcpreel`, or name it with \
                 {BINARY_VARIABLE} or UseCassette::binary"
            ))
        })
    }

    fn open(&mut self) -> Result<&mut Open> {
        if self.open.is_none() {
            let voice = Voice { quiet: !self.verbose, verbose: self.verbose };
            let how_much = if self.verbose { "--verbose" } else { "--quiet" };
            let mut wanted = std::mem::take(&mut self.wanted);
            wanted.options.push(how_much.to_owned());
            let chosen = door::choose_mode(self.mode.map(Mode::name), None)?;
            let session = Session::begin(wanted, &chosen, voice)?;
            self.open = Some(Open { session, hosts: Vec::new(), commands: Vec::new() });
        }
        self.open.as_mut().ok_or_else(|| Error::Failed("the cassette is not open".to_owned()))
    }

    fn close(&mut self) -> Result<Finished> {
        let Some(Open { session, hosts, commands }) = self.open.take() else { return Ok(Finished::Unused) };
        session.wait();
        hosts.into_iter().for_each(Host::finish);
        let started = session.started()?;
        let mut wrong = Vec::new();
        if session.replays() {
            let never = commands.iter().filter(|name| !started.contains(name));
            wrong.extend(never.map(|name| format!("{name}: its command was never started")));
        }
        let finished = match session.end()? {
            Outcome::Replayed(missed) => {
                wrong.extend(missed);
                Finished::Replayed
            }
            Outcome::Appended(completion, missed) => {
                wrong.extend(missed);
                match completion {
                    Completion::Lost { what } => {
                        wrong.push(format!("the recording stopped: {what}"));
                        Finished::Recorded
                    }
                    Completion::Merged { .. } | Completion::Recording { .. } => Finished::Recorded,
                    _ => Finished::Replayed,
                }
            }
            Outcome::Recorded(Completion::Merged { outcome: Merged::Unchanged, .. }) => Finished::Unchanged,
            Outcome::Recorded(Completion::Merged { .. } | Completion::Recording { .. }) => Finished::Recorded,
            Outcome::Recorded(Completion::Lost { what }) => {
                wrong.push(format!("the recording stopped: {what}"));
                Finished::Recorded
            }
            Outcome::Recorded(_) => {
                wrong.push("nothing was captured, so there is no cassette: no server was asked".to_owned());
                Finished::Recorded
            }
        };
        if wrong.is_empty() { Ok(finished) } else { Err(Error::Failed(wrong.join("\n"))) }
    }
}

impl Drop for UseCassette {
    #[allow(clippy::panic, reason = "a test that did not look has to fail all the same")]
    fn drop(&mut self) {
        let closed = self.close();
        if let Err(error) = closed
            && !std::thread::panicking()
        {
            panic!("{error}");
        }
    }
}
