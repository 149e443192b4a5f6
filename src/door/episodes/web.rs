//! A live server at a URL, and the recorder in front of it, which only this program knows how to reach.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, bounded};

use super::{Finished, Place, Say};
use crate::cassette::segments::Claim;
use crate::error::{Error, Result};
use crate::http::client::{self, Upstream};
use crate::record::http::{self, Ended, Options, Until};
use crate::record::writer::Source;
use crate::replay::http::behind::LiveServer;
use crate::replay::http::ids;

/// The number of SIGTERM, the same everywhere.
const TERMINATE: i32 = 15;

/// A server that is asked when something was not recorded.
pub struct Web {
    place: Place,
    server: LiveServer,
    thread: JoinHandle<Result<Ended>>,
    over: Arc<AtomicBool>,
    asked: Receiver<i32>,
}

impl std::fmt::Debug for Web {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Its addresses hold secrets.
        out.debug_struct("Web").finish_non_exhaustive()
    }
}

impl Web {
    /// Puts a recorder in front of the server that `options` name; nothing goes there yet.
    ///
    /// # Errors
    ///
    /// When the options make no sense, or the recorder cannot be started.
    pub fn start(place: Place, options: Options, say: Say) -> Result<Self> {
        let path = options.address.path().to_owned();
        let recordable = options.address.recordable();
        // Whoever reached us would spend what is sent along.
        let spends = !options.headers.is_empty()
            || options.address.query().is_some()
            || options.address.authorization().is_some();
        let own_prefix = match spends {
            true => {
                let secret =
                    ids::fresh().ok_or_else(|| Error::Failed("no random numbers to be had".to_owned()))?;
                format!("/{secret}")
            }
            false => String::new(),
        };
        let listen = ([127, 0, 0, 1], 0).into();
        let (allow_host, allow_origin) = (Vec::new(), Vec::new());
        let proxy = http::bind(Options {
            listen,
            private: true,
            allow_host,
            allow_origin,
            max_body: None,
            ..options
        })?;
        let url = proxy.url();
        let base = url.strip_suffix(&path).unwrap_or(&url).to_owned();
        let upstream = Upstream::new(&base, &client::Options::default())?;
        let prefix = upstream.path().to_owned();
        let segment = http::Segment::start(place.start(Source::Url(recordable))?)
            .map_err(Error::io("write the recording", &place.cassette))?;
        let over = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&over);
        let claim = place.claim();
        let (tell, asked) = bounded(1);
        let thread = thread::Builder::new()
            .name("live server".to_owned())
            .spawn(move || {
                let alive = Box::new(move || {
                    let asked = claim.as_ref().is_some_and(Claim::is_asked_to_end);
                    if asked {
                        let _ = tell.try_send(TERMINATE);
                    }
                    !asked && !flag.load(Ordering::SeqCst)
                });
                proxy.run(Box::new(segment), say, &Until { max_idle: None, alive })
            })
            .map_err(Error::failed("start a thread"))?;
        Ok(Self {
            place,
            server: LiveServer { upstream, base, prefix, path, own_prefix },
            thread,
            over,
            asked,
        })
    }

    /// Gives a signal when `mcpreel end` wants the session to end.
    #[must_use]
    pub fn asked_to_end(&self) -> Receiver<i32> {
        self.asked.clone()
    }

    /// Where the replay finds it.
    #[must_use]
    pub fn server(&self) -> LiveServer {
        self.server.clone()
    }

    /// The path of the endpoint for clients.
    #[must_use]
    pub fn local_path(&self) -> String {
        format!("{}{}", self.server.own_prefix, self.server.path)
    }

    /// Completes the cassette. What is not `worth` keeping is left out of it.
    #[must_use]
    pub fn finish(self, worth: bool) -> Finished {
        self.over.store(true, Ordering::SeqCst);
        match self.thread.join() {
            Ok(Ok(Ended { outcome, unreachable })) => {
                // Requests without a single answer are nothing new.
                let captured = if unreachable.is_some() || !worth { 0 } else { outcome.captured };
                Finished::of(self.place, captured, outcome.recording_failed, None)
            }
            Ok(Err(error)) => Finished::of(self.place, 0, Some(error.to_string()), None),
            Err(_) => Finished::of(self.place, 0, Some("the recorder broke off".to_owned()), None),
        }
    }
}
