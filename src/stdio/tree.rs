//! The server's process and those below it: waiting, finding, ending.

use std::io;
use std::process::Child;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;

use super::child::Exit;

/// How processes are told to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// SIGTERM.
    Terminate,
    /// SIGKILL.
    Kill,
}

/// A process that we started.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    child: Option<Child>,
    /// Whether it is still to be reaped. Held while a process is reaped and while signals are sent: a number that is
    /// not reaped yet is not given to another process.
    runs: Arc<Mutex<bool>>,
}

/// News from [`Process::wait`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The process itself ended.
    Process(Exit),
    /// An orphan of it ended.
    Orphan,
}

impl Process {
    pub(super) fn new(child: Child) -> Self {
        Self { pid: child.id(), child: Some(child), runs: Arc::new(Mutex::new(true)) }
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.pid
    }

    /// Ends the process and waits for that. For one that never became what it should.
    #[cfg(target_os = "linux")]
    pub(super) fn discard(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits on a thread of its own and reports there. On Unix it reaps every child of our process, adopted orphans
    /// too: while it runs nobody else may wait for a child.
    ///
    /// # Errors
    ///
    /// When no thread can be started.
    pub fn wait(&mut self, report: impl Fn(Ended) + Send + 'static) -> io::Result<()> {
        let Some(child) = self.child.take() else { return Ok(()) };
        let runs = Arc::clone(&self.runs);
        let pid = self.pid;
        thread::Builder::new().name("wait".to_owned()).spawn(move || wait_for(child, pid, &runs, &report))?;
        Ok(())
    }

    /// Tells the process, if it still runs, and all below it to end. Gives those that were told. Where descendants
    /// cannot be found, that is the process alone.
    pub fn stop(&self, how: Stop) -> Vec<u32> {
        let runs = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut pids = descendants();
        if *runs && !pids.contains(&self.pid) {
            pids.push(self.pid);
        }
        terminate(&pids, how);
        pids
    }
}

/// Signals each of these processes. One that has gone meanwhile is no error.
#[cfg(unix)]
pub fn terminate(pids: &[u32], how: Stop) {
    use rustix::process::{Pid, Signal, kill_process};

    let signal = match how {
        Stop::Terminate => Signal::TERM,
        Stop::Kill => Signal::KILL,
    };
    for pid in pids {
        if let Some(pid) = i32::try_from(*pid).ok().and_then(Pid::from_raw) {
            let _ = kill_process(pid, signal);
        }
    }
}

/// Without signals there is one way to end a process.
#[cfg(not(unix))]
pub fn terminate(pids: &[u32], _how: Stop) {
    for pid in pids {
        let _ =
            std::process::Command::new("taskkill").args(["/F", "/T", "/PID"]).arg(pid.to_string()).output();
    }
}

/// Makes orphans of our descendants our children, so that they stay findable.
pub fn adopt_orphans() {
    #[cfg(target_os = "linux")]
    {
        // Refused by kernels before 3.4 only; then orphans are not found, nothing else.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    }
}

/// All processes below us, by `/proc`; zombies left out. Empty where there is no `/proc`.
#[must_use]
pub fn descendants() -> Vec<u32> {
    let mut parents: Vec<(u32, u32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let Ok(stat) = std::fs::read(entry.path().join("stat")) else { continue };
        if let Some((state, parent)) = state_and_parent(&stat)
            && !matches!(state, b'Z' | b'X')
        {
            parents.push((pid, parent));
        }
    }
    let mut found = vec![std::process::id()];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.split_off(1)
}

/// The third and fourth fields of a `/proc/PID/stat`. The second is the program's name in parentheses, which may hold
/// blanks and parentheses itself.
fn state_and_parent(stat: &[u8]) -> Option<(u8, u32)> {
    let name_end = memchr::memrchr(b')', stat)?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = *fields.next()?.as_bytes().first()?;
    Some((state, fields.next()?.parse().ok()?))
}

#[cfg(unix)]
fn wait_for(child: Child, pid: u32, runs: &Mutex<bool>, report: &dyn Fn(Ended)) {
    use rustix::io::Errno;
    use rustix::process::{WaitId, WaitIdOptions, WaitOptions, wait, waitid};

    // Waiting is ours from here on; std's handle never waits.
    drop(child);
    loop {
        match waitid(WaitId::All, WaitIdOptions::EXITED | WaitIdOptions::NOWAIT) {
            Ok(_) => {}
            Err(Errno::INTR) => continue,
            Err(_) => return,
        }
        let mut runs = runs.lock().unwrap_or_else(PoisonError::into_inner);
        while let Ok(Some((which, status))) = wait(WaitOptions::NOHANG) {
            if which.as_raw_nonzero().get().unsigned_abs() != pid {
                report(Ended::Orphan);
                continue;
            }
            *runs = false;
            let exit = match status.terminating_signal() {
                Some(signal) => Exit::Signal(signal),
                None => Exit::Code(status.exit_status().unwrap_or(1)),
            };
            report(Ended::Process(exit));
        }
    }
}

#[cfg(not(unix))]
fn wait_for(mut child: Child, _pid: u32, _runs: &Mutex<bool>, report: &dyn Fn(Ended)) {
    let code = child.wait().ok().and_then(|status| status.code());
    report(Ended::Process(Exit::Code(code.unwrap_or(1))));
}

static ORIGINAL_NOFILE: OnceLock<u64> = OnceLock::new();

/// Raises our own limit of open files as far as it goes. Servers are started with the limit that was before: some
/// walk through all possible files at start, or still use `select`.
pub fn raise_nofile() {
    #[cfg(unix)]
    {
        use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

        let limit = getrlimit(Resource::Nofile);
        if let Some(soft) = limit.current
            && limit.maximum != limit.current
            && setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).is_ok()
        {
            let _ = ORIGINAL_NOFILE.set(soft);
        }
    }
}

/// The limit of open files from before [`raise_nofile`].
pub(super) fn original_nofile() -> Option<u64> {
    ORIGINAL_NOFILE.get().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_may_hold_anything() {
        assert_eq!(state_and_parent(b"77 (a) S 1) (b) R 12 77 77"), Some((b'R', 12)));
        assert_eq!(state_and_parent(b"77 (cat) Z 1 1"), Some((b'Z', 1)));
        assert_eq!(state_and_parent(b"77 (cat"), None);
        assert_eq!(state_and_parent(b""), None);
    }
}
