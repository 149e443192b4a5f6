//! The agent: starting it with the path of its configuration, passing signals on, waiting for it.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};
use std::thread;

use crossbeam_channel::{Receiver, select, unbounded};

use super::{PLACEHOLDER, Run};
use crate::error::{Error, Result};
use crate::exit;
use crate::stdio::{signals, tree};

/// The agent, running.
pub(super) struct Agent {
    child: Child,
    signals: Receiver<i32>,
}

impl Agent {
    /// Starts it. It has our standard streams, our environment and our process group.
    pub(super) fn start(command: &[OsString], config: &Path, options: &Run) -> Result<Self> {
        tree::adopt_orphans();
        let (tell, signals) = unbounded();
        signals::watch_quit_too(move |signal| tell.send(signal).unwrap_or_default())
            .map_err(Error::failed("watch for signals"))?;
        let mut words = command.iter().map(|word| filled_in(word, config));
        let program = words.next().unwrap_or_default();
        let mut agent = Command::new(&program);
        agent.args(words);
        if let Some(argument) = &options.config_arg {
            agent.arg(argument).arg(config);
        }
        if let Some(variable) = &options.config_env {
            agent.env(variable, config);
        }
        let child = agent.spawn().map_err(|source| Error::CannotRun {
            program: program.to_string_lossy().into_owned(),
            why: crate::error::words(&source),
        })?;
        Ok(Self { child, signals })
    }

    /// Waits for its end and gives its status. Signals that reached only us are passed on to it.
    pub(super) fn wait(self) -> Result<u8> {
        let Self { mut child, signals } = self;
        let pid = child.id();
        let lost = Error::failed("wait for the agent");
        let (tell, ended) = unbounded();
        thread::Builder::new()
            .name("agent".to_owned())
            .spawn(move || drop(tell.send(child.wait())))
            .map_err(lost)?;
        loop {
            select! {
                recv(ended) -> status => {
                    let status = status.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
                    return status.map(code).map_err(lost);
                }
                recv(signals) -> signal => pass_on(pid, signal.unwrap_or(0)),
            }
        }
    }
}

/// A word of the agent's command line with the configuration's path in place of `{config}`.
fn filled_in(word: &OsString, config: &Path) -> OsString {
    let Some(text) = word.to_str().filter(|text| text.contains(PLACEHOLDER)) else { return word.clone() };
    let mut out = OsString::new();
    for (index, piece) in text.split(PLACEHOLDER).enumerate() {
        if index > 0 {
            out.push(config);
        }
        out.push(piece);
    }
    out
}

#[cfg(unix)]
fn code(status: ExitStatus) -> u8 {
    use std::os::unix::process::ExitStatusExt as _;
    match status.code() {
        Some(code) => u8::try_from(code).unwrap_or(exit::FAILED),
        None => exit::by_signal(status.signal().unwrap_or(0)),
    }
}

#[cfg(not(unix))]
fn code(status: ExitStatus) -> u8 {
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(exit::FAILED)
}

/// Signals the agent as we were. What the terminal sends has reached it already.
#[cfg(unix)]
fn pass_on(pid: u32, signal: i32) {
    use rustix::process::{Pid, Signal, getpgrp, kill_process};
    use signal_hook::consts::{SIGINT, SIGQUIT};
    let from_terminal = matches!(signal, SIGINT | SIGQUIT)
        && rustix::termios::tcgetpgrp(std::io::stdin()).is_ok_and(|group| group == getpgrp());
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
    if let (Some(pid), Some(signal), false) = (pid, Signal::from_named_raw(signal), from_terminal) {
        // It may have ended meanwhile.
        let _ = kill_process(pid, signal);
    }
}

#[cfg(not(unix))]
fn pass_on(_pid: u32, _signal: i32) {}
