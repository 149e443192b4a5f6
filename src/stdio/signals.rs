//! The signals that ask us to end.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The last signal that reached us, as soon as it has: a process that was signalled together with us may be seen to
/// have ended before the thread that reports signals has run.
#[derive(Clone, Debug, Default)]
pub struct Caught(Arc<AtomicUsize>);

impl Caught {
    /// Its number.
    #[must_use]
    pub fn last(&self) -> Option<i32> {
        i32::try_from(self.0.load(Ordering::SeqCst)).ok().filter(|signal| *signal != 0)
    }
}

/// Reports SIGTERM, SIGINT and SIGHUP, by number, on a thread of its own, for as long as the process lives. A signal
/// that was ignored when we were started stays so: `nohup` and shells rely on it.
///
/// # Errors
///
/// When the system refuses the handlers or the thread.
pub fn watch(report: impl Fn(i32) + Send + 'static) -> io::Result<Caught> {
    watch_with(&[], report)
}

/// The same, and SIGQUIT: for who passes on what it gets.
///
/// # Errors
///
/// As [`watch`].
pub fn watch_quit_too(report: impl Fn(i32) + Send + 'static) -> io::Result<Caught> {
    #[cfg(unix)]
    let more = [signal_hook::consts::SIGQUIT];
    #[cfg(not(unix))]
    let more = [];
    watch_with(&more, report)
}

/// Makes a limit on the size of files an error of the write that meets it, as a full disk is, and not our end. Commands
/// that are started have it as it was.
pub fn outlive_file_limits() {
    // Where the system refuses it, only that kind of error ends differently.
    #[cfg(unix)]
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

#[cfg(unix)]
fn watch_with(more: &[i32], report: impl Fn(i32) + Send + 'static) -> io::Result<Caught> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::flag::register_usize;
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let wanted = [SIGTERM, SIGINT, SIGHUP].iter().chain(more).copied();
    let wanted = wanted.filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let caught = Caught::default();
    for signal in wanted.clone() {
        register_usize(signal, Arc::clone(&caught.0), usize::try_from(signal).unwrap_or(0))?;
    }
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(report))?;
    Ok(caught)
}

/// Windows has no such signals: Ctrl-C ends the console's processes.
#[cfg(not(unix))]
fn watch_with(_more: &[i32], _report: impl Fn(i32) + Send + 'static) -> io::Result<Caught> {
    Ok(Caught::default())
}

/// The mask of ignored signals; none where the system does not tell.
#[cfg(unix)]
fn ignored() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))
        .and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok())
        .unwrap_or(0)
}
