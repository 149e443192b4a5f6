//! What differs between operating systems: the process table, private files, file identity.
//!
//! Linux reads `/proc`. Other Unix systems ask `ps`, and see no environment of other processes. Elsewhere nothing is
//! known about other processes: every recorder without a session is its own owner, and a dead owner is only told by
//! its released locks.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::{Process, Processes};

/// The processes of this machine.
#[derive(Debug, Clone, Copy)]
pub struct System;

#[cfg(target_os = "linux")]
impl Processes for System {
    fn process(&self, pid: u32) -> Option<Process> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let stat = fs::read(folder.join("stat")).ok()?;
        let stat = String::from_utf8_lossy(&stat);
        let (parent, start_time, dead) = parse_stat(&stat)?;
        // A leader that has ended while other threads of its process run on looks dead too.
        if dead && fs::read_dir(folder.join("task")).ok()?.count() < 2 {
            return None;
        }
        let mut command = split_zero(&fs::read(folder.join("cmdline")).unwrap_or_default());
        if command.is_empty() {
            command.extend(fs::read_to_string(folder.join("comm")).ok().map(|name| name.trim_end().into()));
        }
        Some(Process { parent, start_time, command })
    }

    fn variable(&self, pid: u32, name: &str) -> Option<OsString> {
        let environment = fs::read(format!("/proc/{pid}/environ")).ok()?;
        split_zero(&environment).into_iter().find_map(|entry| {
            let bytes = entry.as_encoded_bytes();
            let value = bytes.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
            Some(from_bytes(value))
        })
    }
}

/// The parent, the start time, and whether it is dead, out of `/proc/PID/stat`. The program name in it may hold
/// blanks and parentheses, so that fields are counted from the last `)`.
#[cfg(any(target_os = "linux", test))]
fn parse_stat(stat: &str) -> Option<(u32, u64, bool)> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let start_time = fields.nth(17)?.parse().ok()?;
    Some((parent, start_time, matches!(state, "Z" | "X" | "x")))
}

#[cfg(target_os = "linux")]
fn split_zero(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(from_bytes).collect()
}

#[cfg(target_os = "linux")]
fn from_bytes(bytes: &[u8]) -> OsString {
    use std::os::unix::ffi::OsStrExt as _;
    std::ffi::OsStr::from_bytes(bytes).to_os_string()
}

#[cfg(all(unix, not(target_os = "linux")))]
impl Processes for System {
    fn process(&self, pid: u32) -> Option<Process> {
        ask_ps(pid)
    }

    fn variable(&self, _pid: u32, _name: &str) -> Option<OsString> {
        None
    }
}

#[cfg(all(unix, any(not(target_os = "linux"), test)))]
fn ask_ps(pid: u32) -> Option<Process> {
    let answer = std::process::Command::new("ps")
        .args(["-o", "ppid=", "-o", "state=", "-o", "lstart=", "-o", "args=", "-p", &pid.to_string()])
        .env("LC_ALL", "C")
        .output()
        .ok()?;
    parse_ps(&String::from_utf8_lossy(&answer.stdout))
}

/// Reads one line of `ps`: parent, state, the five words of the start time, the command line.
#[cfg(all(unix, any(not(target_os = "linux"), test)))]
fn parse_ps(line: &str) -> Option<Process> {
    let mut words = line.split_ascii_whitespace();
    let parent = words.next()?.parse().ok()?;
    if words.next()?.starts_with('Z') {
        return None;
    }
    let started = words.by_ref().take(5).collect::<Vec<_>>().join(" ");
    Some(Process {
        parent,
        start_time: hash(started.as_bytes()),
        command: words.map(OsString::from).collect(),
    })
}

#[cfg(not(unix))]
impl Processes for System {
    fn process(&self, pid: u32) -> Option<Process> {
        let command = std::env::args_os().collect();
        (pid == std::process::id()).then_some(Process { parent: 0, start_time: 0, command })
    }

    fn variable(&self, _pid: u32, _name: &str) -> Option<OsString> {
        None
    }
}

/// Where the state of this user is kept, whatever the environment says: clients strip it before they start servers.
#[must_use]
pub fn state_folder() -> PathBuf {
    #[cfg(unix)]
    {
        let user = rustix::process::geteuid().as_raw();
        let run = PathBuf::from(format!("/run/user/{user}"));
        if run.is_dir() { run.join("mcpreel") } else { PathBuf::from(format!("/tmp/mcpreel-{user}")) }
    }
    #[cfg(not(unix))]
    {
        std::env::temp_dir().join("mcpreel")
    }
}

/// Creates a folder that only this user can enter; one that is there stays as it is.
pub fn create_private_folder(path: &Path) -> io::Result<()> {
    let builder = fs::DirBuilder::new();
    #[cfg(unix)]
    let builder = {
        let mut builder = builder;
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder
    };
    match builder.create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Refuses a folder in a place where others may write, unless it is a real folder, ours, and closed to others.
pub fn check_private_folder(path: &Path) -> io::Result<()> {
    let found = fs::symlink_metadata(path)?;
    if !found.is_dir() {
        return Err(io::Error::other("it is not a folder"));
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("it belongs to another user"));
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(path, fs::Permissions::from_mode(0o700))?;
        }
    }
    Ok(())
}

/// Makes files that are created with these options readable by this user only.
pub fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt as _;
        options.mode(0o600);
    }
    options
}

/// What tells one finished file from another under the same name. The device is left out, since its number may
/// change with a reboot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileId {
    /// The inode, or where there is none the time of the last change.
    inode: u64,
    /// The length in bytes.
    length: u64,
}

impl FileId {
    /// The identity of a file that is written to the end.
    #[must_use]
    pub fn of(found: &Metadata) -> Self {
        Self { inode: inode(found), length: found.len() }
    }

    /// The identity of the file at a path, following links.
    #[must_use]
    pub fn at(path: &Path) -> Option<Self> {
        fs::metadata(path).ok().map(|found| Self::of(&found))
    }
}

#[cfg(unix)]
fn inode(found: &Metadata) -> u64 {
    std::os::unix::fs::MetadataExt::ino(found)
}

#[cfg(not(unix))]
fn inode(found: &Metadata) -> u64 {
    let changed = found.modified().ok().and_then(|time| time.duration_since(std::time::UNIX_EPOCH).ok());
    changed.map_or(0, |age| age.as_nanos() as u64)
}

/// Whether an open file still is the file at `path`: it was neither removed nor replaced.
#[must_use]
pub fn is_still_at(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt as _;
        match (file.metadata(), fs::symlink_metadata(path)) {
            (Ok(open), Ok(named)) => open.dev() == named.dev() && open.ino() == named.ino(),
            _ => false,
        }
    }
    #[cfg(not(unix))]
    {
        file.metadata().is_ok() && path.exists()
    }
}

/// Whether an open file still has a name anywhere. One system call where there are link counts.
#[must_use]
pub fn has_a_name(file: &File, path: &Path) -> bool {
    #[cfg(unix)]
    {
        let _ = path;
        file.metadata().is_ok_and(|found| std::os::unix::fs::MetadataExt::nlink(&found) > 0)
    }
    #[cfg(not(unix))]
    {
        file.metadata().is_ok() && path.exists()
    }
}

/// FNV-1a: short, and the same in every build, unlike the hasher of the standard library.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines() {
        let tail = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 4242 99";
        let row = |state: &str, name: &str| format!("77 ({name}) {state} 5 {tail}");
        assert_eq!(parse_stat(&row("S", "node")), Some((5, 4242, false)));
        assert_eq!(parse_stat(&row("Z", "a) R 3 (b")), Some((5, 4242, true)));
        assert_eq!(parse_stat("77 (x"), None);
        assert_eq!(parse_stat("77 (x) S 5 1"), None);
    }

    #[cfg(unix)]
    #[test]
    fn ps_lines() {
        let found = parse_ps("   12 Ss Sun Nov  9 22:34:13 2026 /usr/bin/node agent.js\n").unwrap();
        assert_eq!((found.parent, found.command), (12, vec!["/usr/bin/node".into(), "agent.js".into()]));
        assert_eq!(parse_ps("12 Z Sun Nov  9 22:34:13 2026 node\n"), None);
        assert_eq!(parse_ps(""), None);
        // Where there is a `ps`, it takes these options.
        if let Some(own) = ask_ps(std::process::id()) {
            assert_eq!(own.parent, std::os::unix::process::parent_id());
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn the_own_process_is_seen() {
        let own = System.process(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        assert!(own.start_time > 0);
        assert!(!own.command.is_empty());
        assert!(System.process(own.parent).is_some());
        let path = System.variable(std::process::id(), "PATH");
        assert_eq!(path, std::env::var_os("PATH"));
        assert_eq!(System.variable(std::process::id(), "PAT"), None);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_child_that_ended_is_dead_before_it_is_reaped() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let started = std::time::Instant::now();
        while System.process(child.id()).is_some() && started.elapsed().as_secs() < 5 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert_eq!(System.process(child.id()), None);
        child.wait().unwrap();
    }
}
