//! `--url` and what goes with it: recording a server that is reached over HTTP.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use super::options::Voice;
use super::{ready, say};
use crate::cassette::owner::Owner;
use crate::cassette::segments::Claim;
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::http::guard::parse_bind;
use crate::record::Sink;
use crate::record::http::{self, Address, Ended, Until};

/// The options as they were typed.
#[derive(Debug)]
pub struct Typed<'a> {
    /// `--url`
    pub url: Option<&'a str>,
    /// `--listen`
    pub listen: Option<&'a str>,
    /// `--header`
    pub header: &'a [String],
    /// `--header-env`
    pub header_env: &'a [String],
    /// `--cacert`
    pub cacert: Option<&'a str>,
    /// `--max-idle`
    pub max_idle: Option<Duration>,
    /// `--ready-file`
    pub ready_file: Option<&'a str>,
    /// `--allow-host`
    pub allow_host: &'a [String],
    /// `--allow-origin`
    pub allow_origin: &'a [String],
    /// `--max-body`
    pub max_body: Option<u64>,
    /// `--sse faithful`
    pub faithful: bool,
}

/// A server at a URL, and how it is to be recorded.
#[derive(Debug)]
pub struct Plan {
    options: http::Options,
    max_idle: Option<Duration>,
    ready_file: Option<PathBuf>,
}

impl Typed<'_> {
    /// What was typed, understood; `None` where it is about a command.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when the options do not go together or make no sense.
    pub fn plan(&self, wrapped: &[OsString], command: &str) -> Result<Option<Plan>> {
        let Some(url) = self.url else {
            if let Some(option) = self.lonely() {
                return Err(Error::Usage(format!("{option} goes with --url only")));
            }
            return if wrapped.is_empty() {
                Err(Error::Usage(format!(
                    "{command} needs the server's command line after --, as in: mcpreel {command} --cassette \
                     f.json -- server; or its --url"
                )))
            } else {
                Ok(None)
            };
        };
        if !wrapped.is_empty() {
            return Err(Error::Usage(format!("{command} takes --url or a command, not both")));
        }
        let options = http::Options {
            address: Address::parse(url)?,
            listen: parse_bind(self.listen.unwrap_or("127.0.0.1:0"))?,
            headers: self.headers()?,
            cacert: self.cacert.map(PathBuf::from),
            allow_host: self.allow_host.to_vec(),
            allow_origin: self.allow_origin.to_vec(),
            max_body: self.max_body,
            private: false,
        };
        let ready_file = self.ready_file.map(PathBuf::from);
        Ok(Some(Plan { options, max_idle: self.max_idle, ready_file }))
    }

    /// An option that means nothing without a URL.
    fn lonely(&self) -> Option<&'static str> {
        let given = [
            ("--listen", self.listen.is_some()),
            ("--header", !self.header.is_empty()),
            ("--header-env", !self.header_env.is_empty()),
            ("--cacert", self.cacert.is_some()),
            ("--max-idle", self.max_idle.is_some()),
            ("--ready-file", self.ready_file.is_some()),
            ("--allow-host", !self.allow_host.is_empty()),
            ("--allow-origin", !self.allow_origin.is_empty()),
            ("--max-body", self.max_body.is_some()),
            ("--sse", self.faithful),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }

    /// The fields to send. Errors never repeat a value.
    fn headers(&self) -> Result<Headers> {
        let mut headers = Headers::new();
        for field in self.header {
            let (name, value) = field
                .split_once(':')
                .ok_or_else(|| Error::Usage("--header: expected 'NAME: VALUE'".to_owned()))?;
            headers.push(name.trim(), value.trim());
        }
        for field in self.header_env {
            let (name, variable) = field
                .split_once('=')
                .filter(|(name, variable)| !name.trim().is_empty() && !variable.trim().is_empty())
                .ok_or_else(|| Error::Usage("--header-env: expected NAME=VARIABLE".to_owned()))?;
            let value = std::env::var_os(variable.trim()).map(OsString::into_encoded_bytes);
            let value = value.filter(|value| !value.is_empty()).ok_or_else(|| {
                Error::Usage(format!(
                    "--header-env {name}: {} is not set in the environment",
                    variable.trim()
                ))
            })?;
            headers.push(name.trim(), value.trim_ascii());
        }
        Ok(headers)
    }
}

impl Plan {
    /// The server of the plan, for a replay in front of it.
    #[must_use]
    pub fn behind(self) -> http::Options {
        self.options
    }

    /// The URL as it may stand in a cassette, once the rules for its query have been applied.
    #[must_use]
    pub fn recordable(&self) -> String {
        self.options.address.recordable()
    }

    /// Records until it is told to end.
    ///
    /// # Errors
    ///
    /// When it cannot begin.
    pub fn run(self, sink: Box<dyn Sink>, owner: &Owner, claim: Claim, voice: Voice) -> Result<Ended> {
        let Self { options, max_idle, ready_file } = self;
        let proxy = http::bind(options)?;
        proxy.catch_signals()?;
        if proxy.is_exposed() {
            say("warning: others than this machine can reach the recorder, and the server through it");
        }
        let url = proxy.url();
        // This is the result people wait for, however quiet.
        say(&format!("listening on {url}"));
        voice.detail("clients use this URL in place of the server's; SIGTERM, SIGINT or `mcpreel end` ends the recording");
        if let Some(path) = &ready_file {
            ready::write(path, &url)?;
        }
        let owner = owner.clone();
        let watched = matches!(owner, Owner::Session { pid: Some(_), .. });
        let alive = move || (!watched || owner.is_alive()) && !claim.is_asked_to_end();
        let until = Until { max_idle, alive: Box::new(alive) };
        proxy.run(sink, Arc::new(say), &until)
    }
}
