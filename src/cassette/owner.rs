//! Who a recording belongs to.
//!
//! Real clients start several recorders for one recording: one per server, a probe and then the real process, one
//! process per tool call. Unrelated processes may want the same cassette at the same time. The *owner* tells the
//! two cases apart: a named session when one is given, else the client process, else this process alone.
//!
//! The choice is a pure function over a table of processes ([`Processes`]), so that it can be tested with made-up
//! trees; everything that asks the operating system is in [`system`].

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::Path;

pub mod system;

use system::System;

/// The environment variable that names a session where `--session` is not given.
pub const SESSION_VARIABLE: &str = "MCPREEL_SESSION";

/// More levels than any chain of launchers has; a bound, so that a table with a loop in it ends.
pub(crate) const MAX_ANCESTORS: usize = 64;

/// Programs that run other programs for a person or a script: the processes they start have nothing in common.
const SHELLS: &[&str] = &[
    "sh",
    "bash",
    "rbash",
    "dash",
    "ash",
    "zsh",
    "fish",
    "ksh",
    "ksh93",
    "mksh",
    "pdksh",
    "oksh",
    "yash",
    "csh",
    "tcsh",
    "nu",
    "xonsh",
    "elvish",
    "pwsh",
    "powershell",
    "cmd",
];

/// Programs that adopt orphans: being their child says nothing about who started us.
const INITS: &[&str] = &[
    "init",
    "systemd",
    "launchd",
    "tini",
    "tini-static",
    "dumb-init",
    "docker-init",
    "podman-init",
    "catatonit",
    "s6-svscan",
    "runit",
    "runit-init",
    "runsvdir",
    "openrc-init",
    "upstart",
    "procd",
];

/// To whom a recording belongs. Two recorders with equal owners write one recording.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Owner {
    /// A named session, from `--session` or `MCPREEL_SESSION`. It lasts until `mcpreel end`, or until the process
    /// named after the `@` is gone.
    Session {
        /// The name, without the process.
        id: String,
        /// The process whose end is the end of the session.
        pid: Option<u32>,
    },
    /// A process, normally the client. The start time keeps a reused process number apart.
    Process {
        /// The process number.
        pid: u32,
        /// When it started, in the system's own unit; only ever compared.
        start_time: u64,
    },
}

/// What the choice of an owner needs to know of a process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The parent's number; 0 when it has none that we can see.
    pub parent: u32,
    /// When it started, in the system's own unit; only ever compared.
    pub start_time: u64,
    /// Its command line, program first.
    pub command: Vec<OsString>,
}

/// The processes of the machine: the real ones ([`System`]) or a table in a test.
pub trait Processes {
    /// The process with this number, if it is there and not dead.
    fn process(&self, pid: u32) -> Option<Process>;

    /// A variable in the environment of a process, as it was when that process started.
    fn variable(&self, pid: u32, name: &str) -> Option<OsString>;
}

impl Owner {
    /// The owner of what this process records: the session given, or the one in the environment, else the client
    /// process, else this process. `own_args` is our command line without the program name.
    #[must_use]
    pub fn find(session_option: Option<&str>, own_args: &[OsString]) -> Self {
        let from_environment =
            std::env::var_os(SESSION_VARIABLE).map(|name| name.to_string_lossy().into_owned());
        let session = session_option.or(from_environment.as_deref()).filter(|name| !name.is_empty());
        session.map_or_else(|| of_client(&System, std::process::id(), own_args), Self::session)
    }

    /// The process that asks.
    #[must_use]
    pub fn this_process() -> Self {
        let pid = std::process::id();
        let start_time = System.process(pid).map_or(0, |process| process.start_time);
        Self::Process { pid, start_time }
    }

    /// A named session, as `ID` or `ID@PID`.
    #[must_use]
    pub fn session(name: &str) -> Self {
        if let Some((id, pid)) = name.rsplit_once('@')
            && let Some(pid) = parse_pid(pid)
            && !id.is_empty()
        {
            return Self::Session { id: id.to_owned(), pid: Some(pid) };
        }
        Self::Session { id: name.to_owned(), pid: None }
    }

    /// Whether the owner can still start recorders. A session without a process lasts until it is ended, which is
    /// written in the state, not here.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.is_alive_among(&System)
    }

    fn is_alive_among(&self, processes: &dyn Processes) -> bool {
        match self {
            Self::Session { pid: None, .. } => true,
            Self::Session { pid: Some(pid), .. } => processes.process(*pid).is_some(),
            Self::Process { pid, start_time } => {
                processes.process(*pid).is_some_and(|process| process.start_time == *start_time)
            }
        }
    }

    /// The name of a named session, without the process.
    #[must_use]
    pub fn session_name(&self) -> Option<&str> {
        match self {
            Self::Session { id, .. } => Some(id),
            Self::Process { .. } => None,
        }
    }

    /// Whether this is the session that `name` (`ID` or `ID@PID`) means.
    #[must_use]
    pub fn is_session(&self, name: &str) -> bool {
        match (self, Self::session(name)) {
            (Self::Session { id, pid }, Self::Session { id: wanted, pid: wanted_pid }) => {
                *id == wanted && (wanted_pid.is_none() || wanted_pid == *pid)
            }
            _ => false,
        }
    }

    /// The owner in words for people: `session ci-7`, `process 123 (node)`. Only the program's name is told, since
    /// arguments may hold secrets.
    #[must_use]
    pub fn who(&self) -> String {
        match self {
            Self::Session { id, .. } => format!("session {id}"),
            Self::Process { pid, .. } if *pid == std::process::id() => format!("this process, {pid}"),
            Self::Process { pid, .. } => match System.process(*pid) {
                Some(process) if self.is_alive() => {
                    format!("process {pid} ({})", program_name(&process.command))
                }
                _ => format!("process {pid}, which has ended"),
            },
        }
    }

    /// Reads the text form that [`Display`](fmt::Display) writes.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        if let Some(name) = text.strip_prefix("session:") {
            return Some(Self::session(name));
        }
        let (pid, start_time) = text.strip_prefix("process:")?.split_once(':')?;
        Some(Self::Process { pid: parse_pid(pid)?, start_time: start_time.parse().ok()? })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Session { id, pid: None } => write!(out, "session:{id}"),
            Self::Session { id, pid: Some(pid) } => write!(out, "session:{id}@{pid}"),
            Self::Process { pid, start_time } => write!(out, "process:{pid}:{start_time}"),
        }
    }
}

/// The owner where no session is named: the nearest ancestor that is no launcher of ours, unless it is a shell or an
/// init, which own nothing.
fn of_client(processes: &dyn Processes, own_pid: u32, own_args: &[OsString]) -> Owner {
    let own = processes.process(own_pid);
    let ourselves =
        Owner::Process { pid: own_pid, start_time: own.as_ref().map_or(0, |process| process.start_time) };
    let wanted = flat(own_args);
    let mut pid = own.map_or(0, |process| process.parent);
    for _ in 0..MAX_ANCESTORS {
        let Some(ancestor) = processes.process(pid).filter(|_| pid != 0) else { return ourselves };
        if !is_launcher(&ancestor.command, &wanted) {
            return if is_shell(&ancestor.command) || is_init(&ancestor.command) {
                ourselves
            } else {
                Owner::Process { pid, start_time: ancestor.start_time }
            };
        }
        pid = ancestor.parent;
    }
    ourselves
}

/// Whether a process with this command line only hands on our own command (`wanted`, flattened): a shell that has it
/// somewhere in its script text, or another program (npx, uv, timeout) that has it as its last words.
fn is_launcher(command: &[OsString], wanted: &str) -> bool {
    if wanted.is_empty() {
        return false;
    }
    let line = flat(command);
    if is_shell(command) {
        return line.match_indices(wanted).any(|(at, _)| starts_a_word(&line, at));
    }
    line.strip_suffix(wanted).is_some_and(|before| starts_a_word(&line, before.len()))
}

fn starts_a_word(line: &str, at: usize) -> bool {
    line.get(..at).is_some_and(|before| before.is_empty() || before.ends_with(' '))
}

/// A command line as one text, without what quoting adds to it on the way through launchers.
fn flat(command: &[OsString]) -> String {
    let mut line = String::new();
    for word in command {
        line.push_str(&word.to_string_lossy());
        line.push(' ');
    }
    line.retain(|letter| !matches!(letter, '"' | '\'' | '\\'));
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn is_shell(command: &[OsString]) -> bool {
    let name = program_name(command);
    if name == "busybox" {
        return command.get(1).is_some_and(|applet| SHELLS.contains(&applet.to_string_lossy().as_ref()));
    }
    SHELLS.contains(&name.as_str())
}

fn is_init(command: &[OsString]) -> bool {
    INITS.contains(&program_name(command).as_str())
}

/// The base name of the program, without the dash of a login shell and the suffix of a Windows program.
fn program_name(command: &[OsString]) -> String {
    let program = command.first().map(OsString::as_os_str).unwrap_or_default();
    // A process may set its own title, as npm does: what stands before the first blank is the program.
    let text = program.to_string_lossy();
    let first = text.split(' ').next().unwrap_or_default().trim_start_matches('-');
    let name = Path::new(OsStr::new(first))
        .file_name()
        .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    name.strip_suffix(".exe").map_or_else(|| name.clone(), str::to_owned)
}

fn parse_pid(text: &str) -> Option<u32> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|pid| digits && *pid != 0)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A made-up process table.
    #[derive(Debug, Default)]
    pub(crate) struct Table(Vec<(u32, Process, Variables)>);

    type Variables = Vec<(&'static str, &'static str)>;

    impl Table {
        /// Adds a process; its start time is a hundred times its number.
        pub(crate) fn with(mut self, pid: u32, parent: u32, command: &[&str]) -> Self {
            let command = command.iter().map(OsString::from).collect();
            self.0.push((pid, Process { parent, start_time: u64::from(pid) * 100, command }, Vec::new()));
            self
        }

        /// Gives the process added last a variable.
        pub(crate) fn env(mut self, name: &'static str, value: &'static str) -> Self {
            self.0.last_mut().unwrap().2.push((name, value));
            self
        }
    }

    impl Processes for Table {
        fn process(&self, pid: u32) -> Option<Process> {
            self.0.iter().find(|entry| entry.0 == pid).map(|entry| entry.1.clone())
        }

        fn variable(&self, pid: u32, name: &str) -> Option<OsString> {
            let entry = self.0.iter().find(|entry| entry.0 == pid)?;
            entry.2.iter().find(|variable| variable.0 == name).map(|variable| variable.1.into())
        }
    }

    const OWN: &[&str] = &["mcpreel", "use", "--cassette", "c.json", "--", "srv", "a b"];

    /// The owner's process number, for a table in which we are process 9 with the command [`OWN`].
    fn owner_in(table: Table, parent: u32) -> u32 {
        let table = table.with(9, parent, OWN);
        let own: Vec<OsString> = OWN.iter().skip(1).map(OsString::from).collect();
        match of_client(&table, 9, &own) {
            Owner::Process { pid, start_time } => {
                assert_eq!(start_time, u64::from(pid) * 100);
                pid
            }
            Owner::Session { .. } => panic!("no session was named"),
        }
    }

    #[test]
    fn the_client_owns() {
        type Chain = &'static [&'static [&'static str]];
        // Each row: the processes above us from the nearest (8) upwards (7, 6, ..., the last one having no parent),
        // and the owner.
        let rows: &[(&str, Chain, u32)] = &[
            ("direct parent", &[&["node", "agent.js"], &["bash"]], 8),
            (
                "sh -c",
                &[&["/bin/sh", "-c", "mcpreel use --cassette c.json -- srv 'a b'"], &["python", "a.py"]],
                7,
            ),
            (
                "sh -c, quotes",
                &[&["sh", "-c", "mcpreel \"use\" --cassette 'c.json' -- srv a\\ b"], &["python"]],
                7,
            ),
            (
                "sh -c, more after it",
                &[&["sh", "-c", "cd x && mcpreel use --cassette c.json -- srv a b; e"], &["py"]],
                7,
            ),
            (
                "sh -c, two lines",
                &[&["sh", "-c", "mcpreel use \\\n  --cassette c.json -- srv 'a b'"], &["py"]],
                7,
            ),
            ("npx", &[&["npm exec mcpreel use --cassette c.json -- srv a b"], &["node", "agent.js"]], 7),
            (
                "uv",
                &[&["uv", "run", "mcpreel", "use", "--cassette", "c.json", "--", "srv", "a b"], &["py"]],
                7,
            ),
            (
                "env",
                &[&["env", "A=1", "mcpreel", "use", "--cassette", "c.json", "--", "srv", "a b"], &["py"]],
                7,
            ),
            (
                "npx below sh -c",
                &[
                    &["node", "/n/npx", "mcpreel", "use", "--cassette", "c.json", "--", "srv", "a b"],
                    &["sh", "-c", "npx mcpreel use --cassette c.json -- srv \"a b\""],
                    &["node", "agent.js"],
                ],
                6,
            ),
            (
                "wrapper script",
                &[&["sh", "w.sh", "use", "--cassette", "c.json", "--", "srv", "a b"], &["py"]],
                7,
            ),
            (
                "not a suffix",
                &[&["node", "use", "--cassette", "c.json", "--", "srv", "a b", "c"], &["py"]],
                8,
            ),
            ("half a word", &[&["node", "reuse", "--cassette", "c.json", "--", "srv", "a b"], &["py"]], 8),
            ("script shell", &[&["/bin/bash", "./test.sh"], &["make"]], 9),
            ("terminal shell", &[&["-zsh"], &["login"]], 9),
            ("busybox shell", &[&["busybox", "ash"], &["init"]], 9),
            (
                "terminal shell below sh -c",
                &[&["sh", "-c", "mcpreel use --cassette c.json -- srv a b"], &["bash"]],
                9,
            ),
            ("init", &[&["/sbin/init", "splash"]], 9),
            ("user init", &[&["/usr/lib/systemd/systemd", "--user"], &["/sbin/init"]], 9),
            (
                "launcher at the top",
                &[&["tini", "--", "mcpreel", "use", "--cassette", "c.json", "--", "srv", "a b"]],
                9,
            ),
            ("no parent", &[], 9),
        ];
        for (name, above, owner) in rows {
            let mut table = Table::default();
            let top = 9 - u32::try_from(above.len()).unwrap();
            for (pid, command) in (0..=8).rev().zip(above.iter()) {
                let parent = if pid == top { 0 } else { pid - 1 };
                table = table.with(pid, parent, command);
            }
            assert_eq!(owner_in(table, if above.is_empty() { 0 } else { 8 }), *owner, "{name}");
        }
    }

    #[test]
    fn process_1_owns_when_it_is_the_client() {
        assert_eq!(owner_in(Table::default().with(1, 0, &["node", "agent.js"]), 1), 1);
        assert_eq!(owner_in(Table::default().with(1, 0, &["/sbin/init"]), 1), 9);
        assert_eq!(owner_in(Table::default().with(1, 0, &["sh", "/entry.sh"]), 1), 9);
    }

    #[test]
    fn a_parent_that_is_gone_owns_nothing() {
        assert_eq!(owner_in(Table::default(), 8), 9);
    }

    #[test]
    fn a_loop_in_the_table_ends() {
        let command = &["npx", "mcpreel", "use", "--cassette", "c.json", "--", "srv", "a b"];
        assert_eq!(owner_in(Table::default().with(7, 8, command).with(8, 7, command), 8), 9);
    }

    #[test]
    fn text_form_round_trips() {
        for owner in [
            Owner::session("ci"),
            Owner::session("ci@12"),
            Owner::session("a@b"),
            Owner::session("@5"),
            Owner::Process { pid: 4, start_time: 99 },
        ] {
            assert_eq!(Owner::parse(&owner.to_string()), Some(owner));
        }
        assert_eq!(Owner::session("ci@12"), Owner::Session { id: "ci".into(), pid: Some(12) });
        assert_eq!(Owner::session("a@b"), Owner::Session { id: "a@b".into(), pid: None });
        assert_eq!(Owner::parse("process:0:1"), None);
        assert_eq!(Owner::parse("other"), None);
    }

    #[test]
    fn session_names_match_with_and_without_process() {
        assert!(Owner::session("ci@12").is_session("ci"));
        assert!(Owner::session("ci@12").is_session("ci@12"));
        assert!(!Owner::session("ci@12").is_session("ci@13"));
        assert!(!Owner::session("ci").is_session("other"));
        assert!(!Owner::Process { pid: 1, start_time: 1 }.is_session("1"));
    }

    #[test]
    fn alive_needs_the_same_start_time() {
        let table = Table::default().with(5, 1, &["node"]);
        assert!(Owner::Process { pid: 5, start_time: 500 }.is_alive_among(&table));
        assert!(!Owner::Process { pid: 5, start_time: 501 }.is_alive_among(&table));
        assert!(!Owner::Process { pid: 6, start_time: 600 }.is_alive_among(&table));
        assert!(Owner::session("x@5").is_alive_among(&table));
        assert!(!Owner::session("x@6").is_alive_among(&table));
        assert!(Owner::session("x").is_alive_among(&table));
    }
}
