//! Several servers and one cassette: what `run` and the library door share. The mode is decided once, before anything
//! starts, and whoever starts a server afterwards does so for this session.

mod reports;

use std::cell::OnceCell;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use argh::FromArgs as _;

use super::append;
use super::host::{Host, Hosting};
use super::options::{self, NOT_BEGUN, Voice};
use super::record::Setup;
use super::report::file;
use super::report::merge::Summary;
use super::report::row::subject;
use super::use_::Use;
use super::{args, report, staging};
use crate::cassette::Cassette;
use crate::cassette::lock;
use crate::cassette::merge::Files;
use crate::cassette::owner::Owner;
use crate::cassette::owner::Processes as _;
use crate::cassette::owner::system::{System, check_private_folder, create_private_folder};
use crate::cassette::segments::{Completion, Joined, Recording, find};
use crate::cassette::state::State;
use crate::door::{Chosen, Decision, Mode};
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::record::http::Address;
use crate::replay::faults::Faults;
use crate::stdio::tree;
use reports::{Reported, Reports};

/// How long `once` waits for another recording to end, before anything is started.
const CLAIM_WAIT: Duration = Duration::from_secs(30);
/// How long processes of ours that were started for the session may take to end after it.
const LEAVE_WAIT: Duration = Duration::from_secs(5);
/// How long a process may have no command line and be taken for one that starts.
const START_WAIT: Duration = Duration::from_secs(1);
/// Between two looks at whether something has ended.
const PAUSE: Duration = Duration::from_millis(20);

/// What is wanted.
#[derive(Debug, Default)]
pub struct Wanted {
    /// The cassette as the user named it.
    pub cassette: PathBuf,
    /// The name of the session; a new one where there is none.
    pub session: Option<String>,
    /// Options of `use` for every server, as one would type them.
    pub options: Vec<String>,
    /// A report of the user's own.
    pub report: Option<PathBuf>,
    /// A file of faults.
    pub faults: Option<PathBuf>,
    /// Every recorded tool call is to be asked for.
    pub require_all_used: bool,
    /// Every fault is to fire.
    pub require_faults: bool,
    /// Secrets that are in the servers' URLs.
    pub secrets: Vec<String>,
}

/// A session under way.
#[derive(Debug)]
pub struct Session {
    cassette: PathBuf,
    name: String,
    options: Vec<String>,
    common: Use,
    mode: Mode,
    place: Option<Box<Joined>>,
    /// What is new goes behind what is there.
    appends: bool,
    report: Option<PathBuf>,
    reports: Reports,
    require_all_used: bool,
    required_faults: Option<Faults>,
    secrets: Vec<String>,
    /// Goes last: it holds the reports.
    folder: Folder,
}

/// What came of a session.
#[derive(Debug)]
pub enum Outcome {
    /// It recorded.
    Recorded(Completion),
    /// It replayed, and appended what was new; what went wrong with the replays, in words.
    Appended(Completion, Vec<String>),
    /// It replayed; what went wrong, in words.
    Replayed(Vec<String>),
}

impl Session {
    /// Decides what it is going to do, and takes a place in the recording where it records: so nobody else gets in
    /// between two servers. Says so.
    ///
    /// # Errors
    ///
    /// Those of the mode and of the options.
    pub fn begin(wanted: Wanted, chosen: &Chosen, voice: Voice) -> Result<Self> {
        let folder = Folder::create()?;
        let name = wanted.session.unwrap_or_else(|| format!("run-{}", folder.token));
        let name = if name.contains('@') { name } else { format!("{name}@{}", std::process::id()) };
        wanted.report.as_deref().map_or(Ok(()), file::refuse_cassette)?;
        let cassette = absolute(&wanted.cassette);
        let mut options = wanted.options;
        options.push(format!("--session={name}"));
        options.push(format!("--cassette={}", text_of(&cassette)?));
        options.push("--no-config".to_owned());
        if let Some(faults) = &wanted.faults {
            options.push(format!("--faults={}", text_of(&absolute(faults))?));
        }
        let common = parsed(&options)?;
        common.staging().check()?;
        let required_faults = match wanted.faults.as_ref().filter(|_| wanted.require_faults) {
            Some(file) => Some(staging::read(&text_of(file)?)?),
            None if wanted.require_faults => {
                return Err(Error::Usage("--require-faults needs --faults FILE".to_owned()));
            }
            None => None,
        };
        let mut session = Self {
            cassette,
            name,
            options,
            common,
            mode: chosen.mode,
            place: None,
            appends: false,
            report: wanted.report.as_deref().map(absolute),
            reports: Reports::below(&folder.path),
            require_all_used: wanted.require_all_used,
            required_faults,
            secrets: wanted.secrets,
            folder,
        };
        session.decide(&wanted.cassette, chosen, voice)?;
        if let Some(report) =
            session.report.as_ref().filter(|report| !report.is_dir() && !session.records_anew())
        {
            // Better now than when there is something to tell.
            file::check(report)?;
        }
        Ok(session)
    }

    fn decide(&mut self, shown: &Path, chosen: &Chosen, voice: Voice) -> Result<()> {
        let setup = self.common.setup("run".to_owned(), Owner::session(&self.name), shown);
        let wait = setup.claim_wait.or((chosen.mode == Mode::Once).then_some(CLAIM_WAIT));
        let decision = Setup { claim_wait: wait, ..setup }.decide(chosen.mode)?;
        decision.notes().iter().for_each(|note| voice.note(note));
        self.appends = matches!(decision, Decision::Append { .. });
        let doing = match decision {
            Decision::Record(joined) | Decision::Append { joined, .. } => {
                self.place = Some(joined);
                let staging = self.common.staging();
                // Better now than once for each server.
                let checked = staging.check_no_recording(&chosen.to_string());
                if let Err(error) = checked.and_then(|()| self.common.redaction().rules()) {
                    let _ = self.leave_place();
                    return Err(error);
                }
                if self.appends { append::DOING } else { "recording into" }
            }
            Decision::Replay { .. } => {
                self.common.redaction().secrets.read(false)?;
                self.mode = Mode::None;
                "replaying"
            }
        };
        voice.note(&format!("{chosen}: {doing} {}", shown.display()));
        // What was decided holds for all servers, whenever they are started.
        self.options.push(format!("--mode={}", self.mode.name()));
        Ok(())
    }

    /// Whether it replays.
    #[must_use]
    pub fn replays(&self) -> bool {
        self.mode == Mode::None
    }

    /// Whether it records, and replays nothing.
    fn records_anew(&self) -> bool {
        self.place.is_some() && !self.appends
    }

    /// A folder of its own that only the user can read, gone with it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder.path
    }

    /// What has to stand in front of a server's command line, for the program `mcpreel`.
    ///
    /// # Errors
    ///
    /// When there can be no folder for the reports of its processes.
    pub fn wrapping(&mut self, server: &str) -> Result<Vec<String>> {
        let report = self.reports.folder_of(server)?;
        let front =
            ["use".to_owned(), format!("--server={server}"), format!("--report={report}")].into_iter();
        Ok(front.chain(self.options.iter().cloned()).chain(["--".to_owned()]).collect())
    }

    fn hosting<'a>(&'a self, report: Option<String>, loaded: &'a OnceCell<Cassette>) -> Hosting<'a> {
        Hosting {
            common: &self.common,
            cassette: &self.cassette,
            session: &self.name,
            mode: self.mode,
            report,
            secrets: &self.secrets,
            loaded,
        }
    }

    /// Records a server at a URL, with these headers in place of the client's, or what is new of it.
    ///
    /// # Errors
    ///
    /// When it cannot begin.
    pub fn record_url(
        &mut self,
        server: &str,
        (address, headers): (Address, Headers),
        loaded: &OnceCell<Cassette>,
    ) -> Result<Host> {
        match self.appends {
            true => {
                let report = self.reports.folder_of(server)?;
                self.hosting(Some(report), loaded).append(server, address, headers)
            }
            false => self.hosting(None, loaded).record(server, address, headers),
        }
    }

    /// Replays a server at a URL. One that is not in the cassette was not asked for anything: whatever it is asked is a
    /// miss.
    ///
    /// # Errors
    ///
    /// When it cannot begin.
    pub fn replay_url(&mut self, server: &str, loaded: &OnceCell<Cassette>) -> Result<Host> {
        let report = self.reports.folder_of(server)?;
        self.hosting(Some(report), loaded).replay(server)
    }

    /// Waits for the processes of the session, and has them end if they do not by themselves.
    pub fn wait(&self) {
        let started = Instant::now();
        let mut stops =
            [(LEAVE_WAIT, tree::Stop::Terminate), (2 * LEAVE_WAIT, tree::Stop::Kill)].into_iter().peekable();
        loop {
            // Looked at first: what has started meanwhile is among the processes then.
            let starting = started.elapsed() < START_WAIT && tree::descendants().into_iter().any(is_starting);
            let ours = self.processes();
            // One that a SIGKILL does not end hangs in the kernel.
            if started.elapsed() > 3 * LEAVE_WAIT {
                return;
            }
            if ours.is_empty() && !starting {
                return;
            }
            if let Some((_, how)) = stops.next_if(|(after, _)| started.elapsed() > *after) {
                tree::terminate(&ours, how);
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// Those below this one, and those that are not and have begun a report.
    fn processes(&self) -> Vec<u32> {
        let all = tree::descendants().into_iter().chain(self.reports.unfinished());
        all.filter(|pid| *pid != std::process::id() && is_of(*pid, &self.name)).collect()
    }

    fn leave_place(&mut self) -> Option<Result<Completion>> {
        let place = self.place.take()?;
        let state = State::of_user();
        Some(Recording::of(&self.cassette, &state, &Files).leave(*place, false))
    }

    /// Adds what its processes have reported to the report of the user's own, when they have ended.
    ///
    /// # Errors
    ///
    /// When that cannot be written.
    pub fn hand_on_reports(&self) -> Result<()> {
        let hand_on = |report: &PathBuf| self.reports.hand_on(report, !self.records_anew());
        self.report.as_ref().map_or(Ok(()), hand_on)
    }

    /// Ends it, when its servers have ended: makes the cassette, or sees what the replays say.
    ///
    /// # Errors
    ///
    /// When the recording cannot be completed, or the report cannot be read.
    pub fn end(mut self) -> Result<Outcome> {
        match self.leave_place() {
            Some(left) if self.appends => Ok(Outcome::Appended(left?, self.misses()?)),
            Some(left) => left.map(Outcome::Recorded),
            None => Ok(Outcome::Replayed(self.misses()?)),
        }
    }

    /// Which servers were started, once for each process; those that were killed are among them.
    ///
    /// # Errors
    ///
    /// When the report cannot be read.
    pub fn started(&self) -> Result<Vec<String>> {
        let Reported { rows, silent } = self.reports.read()?;
        Ok(rows.into_iter().map(|row| row.server).chain(silent).collect())
    }

    /// What went wrong in the replays, in words, and what was not met.
    fn misses(&self) -> Result<Vec<String>> {
        let Reported { rows, silent } = self.reports.read()?;
        let met: Vec<&String> = rows.iter().map(|row| &row.server).chain(&silent).collect();
        let mut missed = if self.require_all_used { never_met(&self.cassette, &met)? } else { Vec::new() };
        missed.extend(silent.iter().map(|server| {
            format!("{server}: a process was killed before it could report; what it was asked is not known")
        }));
        for row in rows.iter().filter(|row| row.ended.starts_with(NOT_BEGUN)) {
            missed.push(format!("{}: {}", row.server, row.ended.trim_start_matches(NOT_BEGUN)));
        }
        for fault in self.required_faults.iter().flat_map(Faults::all) {
            let index = u64::try_from(fault.index).unwrap_or(u64::MAX);
            let of = |row: &report::row::Fault| row.index == index && row.fired > 0;
            if !rows.iter().flat_map(|row| &row.faults).any(of) {
                missed.push(format!("{} never fired", fault.words()));
            }
        }
        let summary = Summary::of(rows, Vec::new(), self.require_all_used);
        for played in &summary.played {
            let misses = played.sessions.iter().flat_map(|session| &session.misses);
            missed.extend(misses.map(|missed| format!("{}: {}", played.server, report::words(missed))));
            let unmet = played.unmet().map(|unused| {
                let subject = subject(&unused.method, unused.name.as_deref());
                format!("{}: message {}, {subject}, was not used", played.server, unused.message)
            });
            missed.extend(unmet);
        }
        Ok(missed)
    }
}

impl Drop for Session {
    /// A session that is given up still leaves its place.
    fn drop(&mut self) {
        let _ = self.leave_place();
    }
}

/// The recorded servers with calls that no process can have played.
fn never_met(cassette: &Path, met: &[&String]) -> Result<Vec<String>> {
    let cassette = options::load(cassette, &find(cassette)?)?;
    let calls = |name: &str| {
        let of = cassette.records.iter().filter(|record| cassette.server_name(record) == name);
        of.filter_map(|record| record.view())
            .filter(|view| view.id.is_some() && view.method_name(&cassette.text) == "tools/call")
            .count()
    };
    let names = cassette.head.names();
    let unmet = names.iter().filter(|name| !met.contains(name));
    Ok(unmet
        .map(|name| (name, calls(name)))
        .filter(|(_, calls)| *calls > 0)
        .map(|(name, calls)| format!("{name}: none of its {calls} recorded tool calls was used"))
        .collect())
}

/// Whether a process is a `mcpreel use` of this session.
fn is_of(pid: u32, session: &str) -> bool {
    let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let wanted = format!("--session={session}");
    line.split(|byte| *byte == 0).any(|word| word == wanted.as_bytes())
}

/// Whether a process has no command line yet: one that was started just now has none until its program is in place, and
/// whoever started it may have ended already.
fn is_starting(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.is_empty())
}

/// The options of `use`, understood.
fn parsed(options: &[String]) -> Result<Use> {
    let words: Vec<&str> = options
        .iter()
        .flat_map(|option| option.split_once('=').map_or(vec![option.as_str()], |(a, b)| vec![a, b]))
        .collect();
    Use::from_args(&["mcpreel", "use"], &words).map_err(|exit| Error::Usage(args::reworded(&exit.output)))
}

/// A path that counts in any folder.
pub fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// A path that has to stand in a text.
pub fn text_of(path: &Path) -> Result<String> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| Error::Usage(format!("{}: the path must be UTF-8 here", path.display())))
}

/// A folder that goes away with its session.
#[derive(Debug)]
struct Folder {
    path: PathBuf,
    token: String,
    /// Locked for as long as we live: a number of a process says nothing where others see other processes.
    _alive: File,
}

/// How the names of such folders begin; the process and a token follow.
const FOLDER: &str = "mcpreel-run-";
/// The file in one that is locked.
const ALIVE: &str = ".mcpreel-alive";

impl Folder {
    fn create() -> Result<Self> {
        use std::hash::BuildHasher as _;
        let random = std::hash::RandomState::new().hash_one(std::process::id());
        let token = format!("{random:016x}");
        remove_left_over(&std::env::temp_dir());
        let path = std::env::temp_dir().join(format!("{FOLDER}{}-{token}", std::process::id()));
        let made = create_private_folder(&path).and_then(|()| lock::open_locked(&path.join(ALIVE)));
        let alive = made.map_err(Error::io("make a folder for the session", &path))?;
        Ok(Self { path, token, _alive: alive })
    }
}

/// Removes the folders of sessions that were killed. One that cannot be removed is no error: it is in nobody's way.
fn remove_left_over(place: &Path) {
    for entry in std::fs::read_dir(place).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let rest = name.to_str().and_then(|name| name.strip_prefix(FOLDER));
        let Some(pid) = rest.and_then(|rest| rest.split_once('-')?.0.parse().ok()) else { continue };
        let path = entry.path();
        if System.process(pid).is_none()
            && check_private_folder(&path).is_ok()
            && lock::is_held(&path.join(ALIVE)).is_ok_and(|held| !held)
        {
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}
