//! `inspect`: what is in a cassette, for people and for scripts. Everything printed from a cassette has its control
//! characters escaped: a recorded server must not write to the reader's terminal.

use std::io::Write;

use argh::{ArgsInfo, FromArgs};
use regex::Regex;

use super::files::{self, Output};
use crate::error::{Error, Result};
use crate::jsonrpc::pretty;

mod calls;
mod faults;
mod json;
pub(super) mod reel;
pub(super) mod shown;
mod summary;
#[cfg(test)]
mod tests;
mod timeline;
mod tools;

use reel::Reel;

/// Look inside a cassette. Without a view: a summary.
#[derive(ArgsInfo, FromArgs, Debug, Default)]
#[argh(
    subcommand,
    name = "inspect",
    example = "{command_name} c.cassette.json",
    example = "{command_name} c.cassette.json --timeline --method tools/call",
    example = "{command_name} c.cassette.json --exchange 3 --format json",
    example = "{command_name} c.cassette.json --faults slow.faults.json",
    note = "A message's number is its place in \"messages\", from 0. An exchange's number counts the client's requests, from 1.",
    error_code(
        2,
        "the file is no cassette, there is no such server or exchange, or the faults make no sense"
    )
)]
pub struct Inspect {
    /// the cassette; - is standard input
    #[argh(positional)]
    pub cassette: String,
    /// every message on a line of its own
    #[argh(switch)]
    pub timeline: bool,
    /// the N-th request of the client and all that belongs to it, with payloads
    #[argh(option, arg_name = "n")]
    pub exchange: Option<usize>,
    /// the tools that the servers offered
    #[argh(switch)]
    pub tools: bool,
    /// which recorded requests the faults of this overlay would hit
    #[argh(option, arg_name = "file")]
    pub faults: Option<String>,
    /// only messages of this method; * stands for any text
    #[argh(option, arg_name = "method")]
    pub method: Option<String>,
    /// only messages whose text matches
    #[argh(option, arg_name = "regex")]
    pub grep: Option<String>,
    /// only this server
    #[argh(option, arg_name = "name")]
    pub server: Option<String>,
    /// text or json
    #[argh(option, default = "Format::Text")]
    pub format: Format,
}

/// How to print.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// For people.
    #[default]
    Text,
    /// For scripts: the same input gives the same bytes.
    Json,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("expected text or json".to_owned()),
        }
    }
}

/// Which messages are wanted.
#[derive(Debug, Default)]
struct Filter {
    server: Option<u32>,
    method: Option<Regex>,
    grep: Option<Regex>,
}

impl Inspect {
    /// Prints the view to `out`.
    pub fn run(&self, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
        self.check()?;
        let cassette = files::read(&self.cassette)?;
        // The summary has them itself.
        for warning in cassette.warnings.iter().filter(|_| !self.is_summary()) {
            // A note that cannot be printed must not stop the view.
            let _ = writeln!(notes, "mcpreel: note: {}", shown::line(warning));
        }
        let reel = Reel::new(cassette);
        Output::Standard.put(&self.view(&reel)?, out)
    }

    /// Whether no view was asked for.
    fn is_summary(&self) -> bool {
        let view = self.timeline || self.tools || self.exchange.is_some() || self.faults.is_some();
        !view && self.method.is_none() && self.grep.is_none()
    }

    fn check(&self) -> Result<()> {
        let shown = [self.timeline, self.tools, self.exchange.is_some(), self.faults.is_some()];
        let views = shown.iter().filter(|shown| **shown).count();
        if views > 1 {
            return Err(Error::Usage(
                "inspect shows one view: --timeline, --tools, --exchange or --faults; see mcpreel inspect --help"
                    .to_owned(),
            ));
        }
        let picks_messages = self.method.is_some() || self.grep.is_some();
        if picks_messages && (self.tools || self.exchange.is_some() || self.faults.is_some()) {
            return Err(Error::Usage(
                "--method and --grep pick messages of the timeline; leave the other view out".to_owned(),
            ));
        }
        Ok(())
    }

    fn view(&self, reel: &Reel) -> Result<String> {
        let filter = self.filter(reel)?;
        let json = self.format == Format::Json;
        if let Some(number) = self.exchange {
            let call = number.checked_sub(1).and_then(|index| reel.calls.get(index)).ok_or_else(|| {
                Error::input(
                    &self.cassette,
                    "",
                    format!("has no exchange {number}; its exchanges are 1 to {}", reel.calls.len()),
                )
            })?;
            let text = if json {
                calls::json(reel, number, call)
            } else {
                return Ok(calls::text(reel, number, call));
            };
            return Ok(indented(&text));
        }
        if let Some(file) = &self.faults {
            let all = faults::rehearse(reel, &filter, file)?;
            let several = reel.cassette.head.servers.len() > 1;
            return Ok(if json { indented(&faults::json(&all)) } else { faults::text(&all, several) });
        }
        let text = match (self.tools, self.timeline || self.method.is_some() || self.grep.is_some()) {
            (true, _) if json => tools::json(reel, &filter),
            (true, _) => return Ok(tools::text(reel, &filter)),
            (_, true) if json => timeline::json(reel, &filter),
            (_, true) => return Ok(timeline::text(reel, &filter)),
            _ if json => summary::json(reel, &filter, &self.cassette),
            _ => return Ok(summary::text(reel, &filter, &self.cassette)),
        };
        Ok(indented(&text))
    }

    fn filter(&self, reel: &Reel) -> Result<Filter> {
        let mut filter = Filter::default();
        if let Some(name) = &self.server {
            let servers = &reel.cassette.head.servers;
            let index = servers.iter().position(|(known, _)| known == name);
            let names = servers.iter().map(|(known, _)| format!("{known:?}")).collect::<Vec<_>>().join(", ");
            let index = index.and_then(|index| u32::try_from(index).ok()).ok_or_else(|| {
                Error::input(&self.cassette, "", format!("has no server {name:?}; its servers are {names}"))
            })?;
            filter.server = Some(index);
        }
        if let Some(method) = &self.method {
            let pattern = format!("^(?:{})$", regex::escape(method).replace(r"\*", ".*"));
            filter.method = Some(expression("--method", method, &pattern)?);
        }
        if let Some(grep) = &self.grep {
            filter.grep = Some(expression("--grep", grep, grep)?);
        }
        Ok(filter)
    }
}

fn expression(option: &str, given: &str, pattern: &str) -> Result<Regex> {
    Regex::new(pattern).map_err(|error| {
        let why = error.to_string();
        let why = why.lines().last().unwrap_or("").trim().trim_start_matches("error: ");
        Error::Usage(format!("{option} {given:?}: not a regular expression: {why}"))
    })
}

/// JSON for the screen: indented, and harmless there.
fn indented(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    if pretty::indent(text, 0, &mut out).is_err() {
        // Only our own text comes here; printing it on one line loses nothing.
        text.clone_into(&mut out);
    }
    out.push('\n');
    shown::lines(&out)
}
