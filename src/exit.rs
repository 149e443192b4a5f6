//! Exit codes, in one place. `docs/reference/cli.md` prints this table; scripts and CI files rely on it.

/// Done, nothing to report.
pub const OK: u8 = 0;
/// It could not be done: I/O failed, an upstream was unreachable, or nothing was captured.
pub const FAILED: u8 = 1;
/// Wrong usage, unreadable or newer input, bad configuration.
pub const USAGE: u8 = 2;
/// Replay met a request that was not recorded, or a `--require-*` was not met.
pub const MISS: u8 = 3;
/// `redact --check`: something is left that the rules replace, or a known secret.
pub const FOUND: u8 = 4;
/// A difference where there must be none: `init --check`.
pub const DIFFERENT: u8 = 5;
/// Another recording owns the cassette.
pub const OWNED: u8 = 6;
/// `record`, `use` or `run` around a command: mcpreel itself failed.
pub const WRAPPER_FAILED: u8 = 125;
/// The wrapped command was found but cannot be run.
pub const CANNOT_RUN: u8 = 126;
/// The wrapped command was not found.
pub const NOT_FOUND: u8 = 127;
/// Added to a signal's number when that signal ended the wrapped command or the recording.
pub const SIGNAL_BASE: u8 = 128;

/// The exit code that says "ended by `signal`".
#[must_use]
pub fn by_signal(signal: i32) -> u8 {
    SIGNAL_BASE.saturating_add(u8::try_from(signal).unwrap_or(0))
}
