//! `report`: what replays have written with `--report`, put together.

use std::io::Write;

use argh::{ArgsInfo, FromArgs};

use super::files::Output;
use super::inspect::shown;
use crate::error::{Error, Result};
use crate::jsonrpc::pretty;

pub mod file;
pub mod folder;
mod junit;
mod markdown;
pub mod merge;
pub mod row;
mod text;

use merge::{Missed, Summary};
use row::{Differs, subject};

/// Put the reports of replays together: what was asked that was not recorded, and what was recorded and not asked.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "report",
    example = "{command_name} mcpreel.jsonl",
    example = "{command_name} shard-1.jsonl shard-2.jsonl --require-all-used",
    example = "{command_name} mcpreel.jsonl --format md >> \"$GITHUB_STEP_SUMMARY\"",
    note = "All processes that played one server of one cassette count together: an exchange is unused when none of them asked for it.",
    error_code(1, "a process was killed while it wrote, so that not everything is known"),
    error_code(2, "wrong usage, or a file is no report"),
    error_code(3, "something was asked that was not recorded, or a requirement was not met")
)]
pub struct Report {
    /// files that --report wrote; - is standard input
    #[argh(positional, arg_name = "file")]
    pub files: Vec<String>,
    /// text (default), json, junit or md
    #[argh(option, arg_name = "format", default = "Format::Text")]
    pub format: Format,
    /// exit with 3 when a recorded tool call was not asked for
    #[argh(switch)]
    pub require_all_used: bool,
}

/// How to print.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// For people.
    Text,
    /// For scripts: the same reports give the same bytes.
    Json,
    /// For test reporters: a test case for each session.
    Junit,
    /// For the summary of a CI step.
    Markdown,
}

impl std::str::FromStr for Format {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            "junit" => Ok(Self::Junit),
            "md" => Ok(Self::Markdown),
            _ => Err("expected text, json, junit or md".to_owned()),
        }
    }
}

impl Report {
    /// Prints the picture to `out`; returns the exit status.
    pub fn run(&self, out: &mut dyn Write) -> Result<u8> {
        if self.files.is_empty() {
            return Err(Error::Usage("report needs <file>; see mcpreel report --help".to_owned()));
        }
        if self.files.iter().filter(|file| *file == "-").count() > 1 {
            return Err(Error::Usage("report reads standard input once".to_owned()));
        }
        let (mut rows, mut torn) = (Vec::new(), Vec::new());
        for input in &self.files {
            let (more, other) = file::read(input)?;
            rows.extend(more);
            torn.extend(other);
        }
        for torn in &torn {
            super::say(&format!(
                "{}: line {}: is cut off: a process was killed while it wrote, and what it did is not known",
                torn.file, torn.line
            ));
        }
        let summary = Summary::of(rows, torn, self.require_all_used);
        let text = match self.format {
            Format::Text => text::write(&summary),
            Format::Json => json(&summary),
            Format::Junit => junit::write(&summary),
            Format::Markdown => markdown::write(&summary),
        };
        Output::Standard.put(&text, out)?;
        Ok(summary.exit)
    }
}

fn json(summary: &Summary) -> String {
    // Neither can fail: the summary has no other keys than strings, and what serde writes is JSON.
    let text = serde_json::to_string(summary).unwrap_or_default();
    let mut out = String::with_capacity(text.len() * 2);
    if pretty::indent(&text, 0, &mut out).is_err() {
        out = text;
    }
    // A recorded name must not write to the reader's terminal.
    shown::lines(&out) + "\n"
}

/// `1 miss`, `2 misses`.
fn number(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// What happened in all, in one line.
fn headline(summary: &Summary) -> String {
    let sum = |figure: fn(&merge::Session) -> u64| {
        summary.played.iter().map(|played| played.sum(figure)).sum::<u64>()
    };
    let unmet: usize = summary.played.iter().map(|played| played.unmet().count()).sum();
    let mut parts = Vec::new();
    let missed = sum(merge::Session::missed);
    if missed > 0 {
        parts.push(number(missed, "request without a recorded answer", "requests without a recorded answer"));
    }
    if unmet > 0 {
        let unmet = u64::try_from(unmet).unwrap_or(u64::MAX);
        parts.push(number(unmet, "recorded tool call not used", "recorded tool calls not used"));
    }
    let other = sum(|session| session.otherwise_unmet);
    if other > 0 {
        parts.push(number(other, "process that failed", "processes that failed"));
    }
    if !summary.torn.is_empty() {
        parts.push(number(summary.torn.len() as u64, "row cut off", "rows cut off"));
    }
    if parts.is_empty() {
        parts.push("everything that was asked was recorded".to_owned());
    }
    let processes = number(sum(|session| session.processes), "replay", "replays");
    format!("{processes}: {}", parts.join(", "))
}

/// Why a request was a miss, and the nearest recorded one, in one line.
pub(super) fn words(missed: &Missed) -> String {
    let miss = &missed.miss;
    // Most reasons name it already.
    let subject = subject(&miss.method, miss.name.as_deref());
    let mut out =
        if miss.why.contains(&subject) { miss.why.clone() } else { format!("{subject}: {}", miss.why) };
    if let Some(nearest) = &miss.nearest {
        out += &format!("; nearest is message {}", nearest.message);
        for Differs { path, recorded, live } in &nearest.differs {
            let value = |value: &str| if value == "null" { "nothing".to_owned() } else { value.to_owned() };
            out += &format!("; {path}: recorded {}, live {}", value(recorded.get()), value(live.get()));
        }
    }
    out
}

/// Where and how often: `session "a", 3 times`; empty when there is nothing to say.
fn marks(session: &merge::Session, times: u64) -> String {
    let name = session.session.as_ref().map(|name| format!("session {name}"));
    let often = (times > 1).then(|| format!("{times} times"));
    name.into_iter().chain(often).collect::<Vec<_>>().join(", ")
}
