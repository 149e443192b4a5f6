//! The listeners in front of an agent's servers at a URL. They live in this process, so that what its configuration
//! sends in headers stays in memory.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Sender, unbounded};

use crate::cassette::merge::Files;
use crate::cassette::owner::Owner;
use crate::cassette::segments::{Joined, Recording};
use crate::cassette::state::State;
use crate::cli::listen::{self, Http};
use crate::cli::options::{Replay, aside, conclude, player};
use crate::cli::say;
use crate::cli::use_::Use;
use crate::cli::uses::Uses;
use crate::door::config::{Config, Field, Filled, Reached, Server};
use crate::door::{Decision, Mode};
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::jsonrpc::scan::Span;
use crate::record::http::{self, Address, Until};
use crate::record::writer::{Source, Start};
use crate::replay::{self, Aside};

/// What the listeners of one run share.
pub(super) struct Hosting<'a> {
    pub(super) config: &'a Config,
    /// The configuration's file, for messages.
    pub(super) path: &'a Path,
    /// The options of `use`.
    pub(super) common: &'a Use,
    pub(super) cassette: &'a Path,
    pub(super) session: &'a str,
    /// [`Mode::None`] for a replay.
    pub(super) mode: Mode,
}

/// A listener in front of one server.
pub(super) struct Host {
    /// Where the agent finds it.
    pub(super) url: String,
    /// The headers that the agent keeps sending: those that only it can fill in.
    pub(super) kept: Vec<usize>,
    stop: Stop,
    thread: JoinHandle<()>,
}

enum Stop {
    Flag(Arc<AtomicBool>),
    Signal(Sender<i32>),
}

impl Hosting<'_> {
    /// One for each server with a URL, in the order of the configuration.
    pub(super) fn start(&self) -> Result<Vec<Host>> {
        let mut hosts: Vec<Host> = Vec::new();
        for server in self.config.servers() {
            let Reached::Url { url, headers } = &server.reached else { continue };
            let fields = headers.as_ref().map_or(&[][..], |(_, fields)| fields);
            let host = match self.mode {
                Mode::None => self.replay(server, fields),
                _ => self.record(server, *url, fields),
            };
            match host {
                Ok(host) => hosts.push(host),
                Err(error) => {
                    hosts.into_iter().for_each(Host::finish);
                    return Err(error);
                }
            }
        }
        Ok(hosts)
    }

    /// The headers to send in the agent's place, and those that it has to send itself.
    fn headers(&self, fields: &[Field]) -> (Headers, Vec<usize>) {
        let (mut headers, mut kept) = (Headers::new(), Vec::new());
        for (index, field) in fields.iter().enumerate() {
            let (name, Filled { text, left }) = self.config.header(field, &variable);
            if left.is_empty() {
                headers.push(&name, text.as_str());
            } else {
                kept.push(index);
            }
        }
        (headers, kept)
    }

    fn record(&self, server: &Server, url: Span, fields: &[Field]) -> Result<Host> {
        let Filled { text: url, left } = self.config.url(url, &variable);
        if let Some(reference) = left.first() {
            let what = format!(
                "{reference} in the URL is not set in the environment, and only the URL tells what to record"
            );
            return Err(Error::input(self.path, &server.place, what));
        }
        let (headers, kept) = self.headers(fields);
        let address = Address::parse(&url)?;
        let recordable = address.recordable();
        let options = http::Options {
            address,
            listen: ([127, 0, 0, 1], 0).into(),
            headers,
            cacert: self.common.cacert.as_ref().map(PathBuf::from),
            allow_host: Vec::new(),
            allow_origin: Vec::new(),
        };
        let proxy = http::bind(options).map_err(|error| self.about(server, error))?;
        let setup = self.common.setup(server.name.clone(), Owner::session(self.session), self.cassette);
        let Decision::Record(joined) = setup.decide(self.mode)? else {
            return Err(Error::Failed("another recording came in between".to_owned()));
        };
        let rules = setup.rules()?;
        let segment = joined.file.try_clone().and_then(|file| {
            http::Segment::start(Start {
                file,
                claim: joined.claim.clone(),
                head: joined.head.clone(),
                number: joined.number,
                source: Source::Url(recordable),
                rules,
            })
        });
        let segment = segment.map_err(Error::io("write the recording", &joined.path))?;
        let url = proxy.url();
        let stop = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&stop);
        let (cassette, name) = (self.cassette.to_owned(), server.name.clone());
        let thread = started(&server.name, move || {
            let until = Until { max_idle: None, alive: Box::new(move || !flag.load(Ordering::SeqCst)) };
            let said = name.clone();
            let note = Arc::new(move |text: &str| say(&format!("{said}: {text}")));
            let ended = proxy.run(Box::new(segment), note, &until);
            recorded(&cassette, &name, *joined, &ended);
        })?;
        Ok(Host { url, kept, stop: Stop::Flag(stop), thread })
    }

    fn replay(&self, server: &Server, fields: &[Field]) -> Result<Host> {
        let (_, kept) = self.headers(fields);
        let setup = self.common.setup(server.name.clone(), Owner::session(self.session), self.cassette);
        let Decision::Replay { source, .. } = setup.decide(Mode::None)? else {
            return Err(Error::Failed("nothing to replay".to_owned()));
        };
        let (name, path) = (server.name.clone(), self.cassette.to_owned());
        let (matching, voice) = (self.common.matching(), self.common.voice());
        let (owner, session) = (setup.owner, Some(self.session.to_owned()));
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
        let (player, warnings) = player(&what)?;
        let uses = Uses::begin(&what, &player);
        let (listener, guard) = listen::bind(&Http::default())?;
        let url = format!("http://{}{}", listener.address(), replay::http::PATH);
        let (stop, stopped) = unbounded();
        let Replay { source, server: named, owner, session, matching, staging, voice, .. } = what;
        let thread = started(&server.name, move || {
            let said = name.clone();
            let aside = Aside { note: Box::new(move |text| say(&format!("{said}: {text}"))), ..aside() };
            let what =
                Replay { path: &path, source, server: named, owner, session, matching, staging, voice };
            let ended = replay::http::serve(player, listener, guard, false, &stopped, aside)
                .and_then(|(player, ended)| conclude(&player, ended, &what, warnings, uses));
            if let Err(error) = ended {
                say(&format!("{name}: {error}"));
            }
        })?;
        Ok(Host { url, kept, stop: Stop::Signal(stop), thread })
    }

    /// An error about a server of the configuration.
    fn about(&self, server: &Server, error: Error) -> Error {
        match error {
            Error::Usage(what) => Error::input(self.path, &server.place, what),
            other => other,
        }
    }
}

impl Host {
    /// Has it end, and waits for that.
    pub(super) fn finish(self) {
        match &self.stop {
            Stop::Flag(flag) => flag.store(true, Ordering::SeqCst),
            Stop::Signal(stop) => drop(stop.send(0)),
        }
        if self.thread.join().is_err() {
            say("a listener ended badly; what it had to report is lost");
        }
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn started(name: &str, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    thread::Builder::new()
        .name(format!("server {name}"))
        .spawn(run)
        .map_err(|error| Error::Failed(format!("cannot start a thread: {error}")))
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
