//! Listeners in this process in front of servers at a URL, so that what they are sent in headers stays in memory.

use std::cell::OnceCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, unbounded};

use super::append;
use super::listen::{self, Http};
use super::options::{Matching, Replay, aside, conclude, player, read};
use super::record::Setup;
use super::report::folder;
use super::say;
use super::use_::Use;
use super::uses::Uses;
use crate::cassette::merge::Files;
use crate::cassette::owner::Owner;
use crate::cassette::segments::{CassetteOnDisk, Joined, Recording, find};
use crate::cassette::state::State;
use crate::cassette::{Cassette, Transport};
use crate::door::episodes::{Web, server_of};
use crate::door::{Decision, Mode};
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::record::http::{self, Address, Until};
use crate::record::writer::{Source, Start};
use crate::replay::http::Manner;
use crate::replay::{self, Aside};

/// What the listeners of one session share.
#[derive(Debug)]
pub struct Hosting<'a> {
    /// The options of `use`.
    pub common: &'a Use,
    /// The cassette.
    pub cassette: &'a Path,
    /// The session's name.
    pub session: &'a str,
    /// [`Mode::None`] for a replay.
    pub mode: Mode,
    /// The folder for reports of replays.
    pub report: Option<String>,
    /// Secrets that are in the servers' URLs.
    pub secrets: &'a [String],
    /// The cassette once it has been read, which takes its time: once for all servers.
    pub loaded: &'a OnceCell<Cassette>,
}

/// A listener in front of one server.
#[derive(Debug)]
pub struct Host {
    /// Where clients find it.
    pub url: String,
    stop: Stop,
    thread: JoinHandle<()>,
}

#[derive(Debug)]
enum Stop {
    Flag(Arc<AtomicBool>),
    Signal(Sender<i32>),
}

impl Hosting<'_> {
    fn setup(&self, server: &str) -> Setup<'_> {
        let mut setup = self.common.setup(server.to_owned(), Owner::session(self.session), self.cassette);
        setup.redaction.secrets.values = self.secrets;
        setup.wraps = false;
        setup
    }

    /// The server, with these headers in place of the client's.
    fn options(&self, address: Address, headers: Headers) -> http::Options {
        http::Options {
            address,
            listen: ([127, 0, 0, 1], 0).into(),
            headers,
            cacert: self.common.cacert.as_ref().map(PathBuf::from),
            allow_host: Vec::new(),
            allow_origin: Vec::new(),
            max_body: None,
            private: false,
        }
    }

    /// Records a server, with these headers in place of the client's.
    pub fn record(&self, server: &str, address: Address, headers: Headers) -> Result<Host> {
        let recordable = address.recordable();
        let proxy = http::bind(self.options(address, headers))?;
        let setup = self.setup(server);
        let Decision::Record(joined) = setup.decide(self.mode)? else {
            return Err(Error::Failed("another recording came in between".to_owned()));
        };
        let begun = setup.rules().and_then(|rules| {
            let start = Start::at(&joined, Source::Url(recordable), rules);
            start.and_then(http::Segment::start).map_err(Error::io("write the recording", &joined.path))
        });
        let segment = match begun {
            Ok(segment) => segment,
            Err(error) => {
                setup.give_back(*joined);
                return Err(error);
            }
        };
        let url = proxy.url();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (cassette, name) = (self.cassette.to_owned(), server.to_owned());
        let thread = started(server, move || {
            let until = Until { max_idle: None, alive: Box::new(move || !flag.load(Ordering::SeqCst)) };
            let ended = proxy.run(Box::new(segment), Arc::new(sayer(&name)), &until);
            recorded(&cassette, &name, *joined, &ended);
        })?;
        Ok(Host { url, stop: Stop::Flag(stop), thread })
    }

    fn loaded(&self, source: &CassetteOnDisk) -> Result<&Cassette> {
        match self.loaded.get() {
            Some(cassette) => Ok(cassette),
            None => {
                let cassette = read(self.cassette, source, self.common.voice())?;
                Ok(self.loaded.get_or_init(|| cassette))
            }
        }
    }

    /// Replays a server.
    pub fn replay(&self, server: &str) -> Result<Host> {
        let Decision::Replay { source, .. } = self.setup(server).decide(Mode::None)? else {
            return Err(Error::Failed("nothing to replay".to_owned()));
        };
        self.play(server, source, None)
    }

    /// Replays a server, and appends what was not recorded.
    pub fn append(&self, server: &str, address: Address, headers: Headers) -> Result<Host> {
        let found = find(self.cassette)?;
        if matches!(found, CassetteOnDisk::Document(_) | CassetteOnDisk::Segments { .. }) {
            server_of(self.loaded(&found)?, Some(server), server, Transport::Http)?;
        }
        let setup = self.setup(server);
        let Decision::Append { joined, source } = setup.decide(self.mode)? else {
            return Err(Error::Failed("another recording came in between".to_owned()));
        };
        let place = append::place(&setup, self.loaded(&source), *joined)?;
        let live = Web::start(place, self.options(address, headers), Arc::new(sayer(server)))?;
        self.play(server, source, Some(live))
    }

    fn play(&self, server: &str, source: CassetteOnDisk, live: Option<Web>) -> Result<Host> {
        let (name, path) = (server.to_owned(), self.cassette.to_owned());
        let report = folder::own_file(self.report.as_deref())?;
        let (matching, voice) = (Matching { report, ..self.common.matching() }, self.common.voice());
        let (owner, session) = (Owner::session(self.session), Some(self.session.to_owned()));
        let what = Replay {
            path: self.cassette,
            source,
            server: Some((name.clone(), true)),
            owner,
            session,
            matching,
            staging: self.common.staging(),
            voice,
        };
        let (mut player, warnings) = player(&what, self.loaded(&what.source)?.clone())?;
        if live.is_some() {
            player = player.with_live_server();
        }
        let uses = Uses::begin(&what, &player);
        let (listener, guard) = listen::bind(&Http::default())?;
        let local = live.as_ref().map_or_else(|| player.path(), Web::local_path);
        let url = format!("http://{}{local}", listener.address());
        let (stop, stopped) = unbounded();
        let Replay { source, server: named, owner, session, matching, staging, voice, .. } = what;
        let thread = started(server, move || {
            let aside = Aside { note: Box::new(sayer(&name)), ..aside(voice) };
            let what =
                Replay { path: &path, source, server: named, owner, session, matching, staging, voice };
            let behind = live.as_ref().map(Web::server);
            let ended =
                replay::http::serve(player, listener, guard, Manner::default(), &stopped, aside, behind);
            let worth = ended.as_ref().is_ok_and(|(player, _)| !player.was_only_refused());
            let finished = live.map(|live| live.finish(worth));
            let ended = ended.and_then(|(player, ended)| {
                conclude(&player, ended, &what, warnings, uses, finished.as_ref())
            });
            if let Err(error) = ended {
                say(&format!("{name}: {error}"));
            }
        })?;
        Ok(Host { url, stop: Stop::Signal(stop), thread })
    }
}

impl Host {
    /// Has it end, and waits for that.
    pub fn finish(self) {
        match &self.stop {
            Stop::Flag(flag) => flag.store(true, Ordering::SeqCst),
            Stop::Signal(stop) => drop(stop.send(0)),
        }
        if self.thread.join().is_err() {
            say("a listener ended badly; what it had to report is lost");
        }
    }
}

/// Says things about a server.
fn sayer(name: &str) -> impl Fn(&str) + Send + Sync + 'static {
    let name = name.to_owned();
    move |text| say(&format!("{name}: {text}"))
}

fn started(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new().name(format!("server {name}")).spawn(run).map_err(Error::failed("start a thread"))
}

/// Leaves the recording, and says what went wrong.
fn recorded(cassette: &Path, name: &str, joined: Joined, ended: &Result<http::Ended>) {
    let state = State::of_user();
    let recording = Recording::of(cassette, &state, &Files);
    let kept = match ended {
        Ok(http::Ended { unreachable: Some(why), .. }) => {
            say(&format!("{name}: the server could not be reached, so nothing of it was kept: {why}"));
            false
        }
        Ok(http::Ended { outcome, .. }) => outcome.captured > 0 || outcome.recording_failed.is_some(),
        Err(error) => {
            say(&format!("{name}: {error}"));
            false
        }
    };
    if let Err(error) = recording.leave(joined, kept) {
        say(&format!("{name}: the recording could not be completed: {error}"));
    }
}
