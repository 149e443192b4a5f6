//! The signals that ask us to end.

use std::io;

/// Reports SIGTERM, SIGINT and SIGHUP, by number, on a thread of its own, for as long as the process lives. A signal
/// that was ignored when we were started stays so: `nohup` and shells rely on it.
///
/// # Errors
///
/// When the system refuses the handlers or the thread.
#[cfg(unix)]
pub fn watch(report: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    use signal_hook::iterator::Signals;

    let ignored = ignored();
    let wanted = [SIGTERM, SIGINT, SIGHUP].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    let mut signals = Signals::new(wanted)?;
    std::thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || signals.forever().for_each(report))?;
    Ok(())
}

/// Windows has no such signals: Ctrl-C ends the console's processes.
///
/// # Errors
///
/// None.
#[cfg(not(unix))]
pub fn watch(_report: impl Fn(i32) + Send + 'static) -> io::Result<()> {
    Ok(())
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
