//! Mode `new_episodes`: what `use`, `serve` and `run` share of replaying with a live server behind.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;

use super::listen::Http;
use super::options::{Live, Over, Replay, Voice, load, replay_with, server_name};
use super::record::{Setup, around_a_command};
use super::redaction::{manifest_of, named_packs, packs_for};
use super::say;
use super::upstream::Plan;
use crate::cassette::segments::{CassetteOnDisk, Completion, Joined, Merged, find};
use crate::cassette::{Cassette, Transport};
use crate::door::episodes::{Finished, Piped, Place, Web, server_of};
use crate::error::{Error, Result};

/// What is done, in the line at the start.
pub const DOING: &str = "replaying, and appending what is new to";

/// The name under which what is new goes into the cassette.
pub fn server(
    path: &Path,
    given: Option<&str>,
    wrapped: &[OsString],
    transport: Transport,
) -> Result<String> {
    let program = server_name(given, wrapped);
    match find(path)? {
        // What a killed run left behind goes into the cassette when the recording is joined.
        found @ (CassetteOnDisk::Document(_) | CassetteOnDisk::Segments { .. }) => {
            server_of(&load(path, &found)?, given, &program, transport)
        }
        _ => Ok(program),
    }
}

/// How the live server is reached.
#[derive(Debug)]
pub enum Reached<'a> {
    /// It is started.
    Command(&'a [OsString]),
    /// It is there, and so is the endpoint in front of it.
    Url(Box<Plan>, Http),
}

impl<'a> Reached<'a> {
    /// By the plan for a URL where there is one, else by the command.
    #[must_use]
    pub fn of(plan: Option<Plan>, http: Http, command: &'a [OsString]) -> Self {
        plan.map_or(Self::Command(command), |plan| Self::Url(Box::new(plan), http))
    }
}

/// The place for what is new in a recording that was joined, and what is redacted there.
pub fn place(setup: &Setup<'_>, cassette: Result<&Cassette>, joined: Joined) -> Result<Place> {
    let rules = cassette.and_then(|cassette| {
        let manifest = manifest_of(setup.cassette, cassette.head.redaction.as_deref())?;
        let packs = packs_for(setup.cassette, &manifest, setup.redaction.packs)?;
        let named = named_packs(setup.cassette, &manifest, &packs)?;
        setup.redaction.warn();
        Ok((setup.redaction.rules_besides(&manifest, &named)?, cassette))
    });
    match rules {
        Ok((rules, cassette)) => Ok(Place::new(setup.cassette, joined, cassette, rules)),
        Err(error) => {
            setup.give_back(joined);
            Err(error)
        }
    }
}

/// Replays, and appends what the live server says. The place is left in any case. In front of a command, what we could
/// not do has a status of its own, as in any recording of one.
pub fn run(setup: &Setup<'_>, what: &Replay<'_>, joined: Joined, reached: Reached<'_>) -> Result<u8> {
    let command = matches!(reached, Reached::Command(_));
    let ended = begin(setup, what, joined, reached);
    if command { around_a_command(ended) } else { ended }
}

fn begin(setup: &Setup<'_>, what: &Replay<'_>, joined: Joined, reached: Reached<'_>) -> Result<u8> {
    joined.notes.iter().for_each(|note| setup.voice.note(note));
    let told = |error: &Error| setup.report_failure(error);
    let place = match load(setup.cassette, &what.source) {
        Ok(cassette) => place(setup, Ok(&cassette), joined),
        Err(error) => place(setup, Err(error), joined),
    };
    let place = place.inspect_err(told)?;
    match reached {
        Reached::Command(command) => {
            let live = Piped::new(place, command, Arc::new(say));
            replay_with(what, Over::Stdio, Some(Live::Piped(live)))
        }
        Reached::Url(plan, http) => {
            let live = Web::start(place, plan.behind(), Arc::new(say)).inspect_err(told)?;
            // Clients come the way the server is reached.
            let listen = Some(http.listen.unwrap_or_else(|| "127.0.0.1:0".to_owned()));
            replay_with(what, Over::Recorded(Http { listen, ..http }), Some(Live::Web(live)))
        }
    }
}

/// Says what came of it.
pub fn conclude(finished: &Finished, cassette: &Path, voice: Voice) {
    let path = cassette.display();
    let count = format!("{} message{}", finished.captured, if finished.captured == 1 { "" } else { "s" });
    match &finished.left {
        Err(error) => say(&format!("what is new could not be appended: {error}")),
        Ok(Completion::Lost { what }) if finished.captured > 0 => {
            say(&format!("recording stopped: {what}; nothing new of this session is in {path}"));
        }
        Ok(completion) => {
            if let Some(warning) =
                completion.warning().filter(|_| !matches!(completion, Completion::Lost { .. }))
            {
                say(&format!("warning: {warning}"));
            }
            match completion {
                _ if finished.captured == 0 => {
                    voice.detail(&format!("nothing new: {path} was left as it is"));
                }
                Completion::Merged { outcome: Merged::Written, .. } => {
                    voice.note(&format!("appended {count} to {path}"));
                }
                Completion::Recording { .. } => {
                    voice.note(&format!("recorded {count}; others still record into {path}"));
                }
                Completion::OnlyProbes | Completion::Merged { outcome: Merged::OnlyProbes, .. } => {
                    voice.note(&format!("recorded {count}, only probes, which are not appended to {path}"));
                }
                _ => {}
            }
        }
    }
}
