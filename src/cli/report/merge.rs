//! Several rows as one picture: what was played of each server of each cassette, by all processes together. The same
//! rows in any order give the same picture.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::file::Torn;
use super::row::{Miss, Row, Unused};
use crate::cli::options::NOT_BEGUN;
use crate::exit;

/// Everything that a set of reports says.
#[derive(Debug, Serialize)]
pub struct Summary {
    /// The format of this summary, 1.
    pub mcpreel_report_summary: u32,
    /// The exit status that this leads to.
    pub exit: u8,
    /// What was played, by cassette and server.
    pub played: Vec<Played>,
    /// Lines that killed processes left: what those did is not known.
    pub torn: Vec<Torn>,
}

/// One server of one cassette.
#[derive(Debug, Serialize)]
pub struct Played {
    /// The absolute path of the cassette.
    pub cassette: String,
    /// When it was recorded.
    pub recorded_at: String,
    /// The server.
    pub server: String,
    /// Whether every recorded tool call had to be used.
    pub require_all_used: bool,
    /// The sessions, in the order of their names; processes without one come first.
    pub sessions: Vec<Session>,
    /// Recorded exchanges that no process asked for.
    pub unused: Vec<Unused>,
    /// The faults that were given, where there were any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
}

/// The processes of one session.
#[derive(Debug, Default, Serialize)]
pub struct Session {
    /// Its name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
    /// How many processes it had.
    pub processes: u64,
    /// Requests answered by an exchange of their own.
    pub hits: u64,
    /// Requests answered by an exchange that had been played before.
    pub repeats: u64,
    /// Requests without a recorded answer.
    pub misses: Vec<Missed>,
    /// How many more there were, of which only the number is known.
    #[serde(skip_serializing_if = "is_zero")]
    pub misses_left_out: u64,
    /// Requests that were not recorded and were answered by rule.
    pub unrecorded: Vec<Counted>,
    /// Questions of the server that the client never answered.
    pub pending: Vec<Counted>,
    /// What else was said.
    pub warnings: Vec<Counted>,
    /// How the processes ended.
    pub ended: Vec<Counted>,
    /// How many processes failed for another reason than a miss or an unused exchange.
    pub otherwise_unmet: u64,
    /// Those reasons, as what a process did.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub otherwise: Vec<Counted>,
}

/// A miss and how often it was met.
#[derive(Debug, Serialize)]
pub struct Missed {
    /// How often.
    pub times: u64,
    /// What was asked.
    #[serde(flatten)]
    pub miss: Miss,
}

/// Something that is said of several processes, and how often.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Counted {
    /// What.
    pub what: String,
    /// How often.
    pub times: u64,
}

/// A fault and how often it fired in all processes.
#[derive(Debug, Serialize)]
pub struct Fault {
    /// Its place among the faults.
    pub index: u64,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: String,
    /// How often it fired.
    pub fired: u64,
}

impl Summary {
    /// The picture that rows give. With `require_all_used` every recorded tool call had to be made; else where a
    /// replay was asked for that.
    #[must_use]
    pub fn of(rows: Vec<Row>, torn: Vec<Torn>, require_all_used: bool) -> Self {
        let mut by_server: BTreeMap<(String, String, String), Vec<Row>> = BTreeMap::new();
        for row in rows {
            let key = (row.cassette.clone(), row.server.clone(), row.recorded_at.clone());
            by_server.entry(key).or_default().push(row);
        }
        let played: Vec<Played> = by_server
            .into_iter()
            .map(|((cassette, server, recorded_at), rows)| Played {
                cassette,
                recorded_at,
                server,
                require_all_used: require_all_used || rows.iter().any(|row| row.require_all_used),
                unused: unused(&rows),
                faults: faults(&rows),
                sessions: sessions(rows),
            })
            .collect();
        let exit = if played.iter().any(Played::is_red) {
            exit::MISS
        } else if torn.is_empty() {
            exit::OK
        } else {
            exit::FAILED
        };
        Self { mcpreel_report_summary: 1, exit, played, torn }
    }
}

impl Played {
    /// Whether something was asked that was not recorded, or a requirement was not met.
    #[must_use]
    pub fn is_red(&self) -> bool {
        self.unmet().next().is_some() || self.sessions.iter().any(Session::is_red)
    }

    /// The tool calls that had to be made and were not.
    pub fn unmet(&self) -> impl Iterator<Item = &Unused> {
        self.unused.iter().filter(|unused| self.require_all_used && unused.method == "tools/call")
    }

    /// The sum of a figure over the sessions.
    pub fn sum(&self, figure: impl Fn(&Session) -> u64) -> u64 {
        self.sessions.iter().map(figure).sum()
    }
}

impl Session {
    /// Whether a process of it saw something that fails.
    #[must_use]
    pub fn is_red(&self) -> bool {
        !self.misses.is_empty() || self.otherwise_unmet > 0
    }

    /// How many requests had no recorded answer.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.misses.iter().map(|miss| miss.times).sum::<u64>().saturating_add(self.misses_left_out)
    }
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde asks like this")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What every process left unused. The requests of one batch look alike, and count as one.
fn unused(rows: &[Row]) -> Vec<Unused> {
    let mut counts: BTreeMap<&Unused, usize> = BTreeMap::new();
    for row in rows {
        let own: BTreeSet<&Unused> = row.unused.iter().collect();
        own.into_iter().for_each(|unused| *counts.entry(unused).or_default() += 1);
    }
    counts.into_iter().filter(|(_, count)| *count == rows.len()).map(|(unused, _)| unused.clone()).collect()
}

fn faults(rows: &[Row]) -> Vec<Fault> {
    let mut fired: BTreeMap<(u64, &str), u64> = BTreeMap::new();
    for fault in rows.iter().flat_map(|row| &row.faults) {
        *fired.entry((fault.index, &fault.kind)).or_default() += fault.fired;
    }
    fired.into_iter().map(|((index, kind), fired)| Fault { index, kind: kind.to_owned(), fired }).collect()
}

fn sessions(rows: Vec<Row>) -> Vec<Session> {
    let mut by_name: BTreeMap<Option<String>, Vec<Row>> = BTreeMap::new();
    for row in rows {
        by_name.entry(row.session.clone()).or_default().push(row);
    }
    let sum = |rows: &[Row], figure: fn(&Row) -> u64| rows.iter().map(figure).sum();
    by_name
        .into_iter()
        .map(|(session, rows)| Session {
            session,
            processes: rows.iter().map(|_| 1).sum(),
            hits: sum(&rows, |row| row.hits),
            repeats: sum(&rows, |row| row.repeats),
            misses: misses(&rows),
            misses_left_out: sum(&rows, |row| row.misses_left_out),
            unrecorded: counted(rows.iter().flat_map(|row| &row.unrecorded)),
            pending: counted(rows.iter().flat_map(|row| &row.pending)),
            warnings: counted(rows.iter().flat_map(|row| &row.warnings)),
            ended: counted(rows.iter().map(|row| &row.ended)),
            otherwise_unmet: sum(&rows, |row| u64::from(row.otherwise_unmet().is_some())),
            otherwise: counted(rows.iter().filter_map(Row::otherwise_unmet).collect::<Vec<_>>().iter()),
        })
        .collect()
}

fn misses(rows: &[Row]) -> Vec<Missed> {
    let mut by_text: BTreeMap<String, Missed> = BTreeMap::new();
    for miss in rows.iter().flat_map(|row| &row.misses) {
        // Nothing in it can fail to be written.
        let text = serde_json::to_string(miss).unwrap_or_default();
        by_text.entry(text).or_insert_with(|| Missed { times: 0, miss: miss.clone() }).times += 1;
    }
    by_text.into_values().collect()
}

fn counted<'r>(of: impl Iterator<Item = &'r String>) -> Vec<Counted> {
    let mut counts: BTreeMap<&String, u64> = BTreeMap::new();
    of.for_each(|what| *counts.entry(what).or_default() += 1);
    counts.into_iter().map(|(what, times)| Counted { what: what.clone(), times }).collect()
}

impl Row {
    /// What went wrong besides misses and calls that were not used: what the process did, in words.
    fn otherwise_unmet(&self) -> Option<String> {
        if let Some(why) = self.ended.strip_prefix(NOT_BEGUN) {
            return Some(format!("could not begin: {why}"));
        }
        if let Some(why) = &self.failed {
            return Some(format!("recorded less than was said: {why}"));
        }
        let left_calls = || self.unused.iter().any(|unused| unused.method == "tools/call");
        let told = !self.misses.is_empty() || (self.require_all_used && left_calls());
        // A server that is recorded has a status of its own, and so has one that a fault ends.
        let of_server = self.recorded.is_some() || self.ended == format!("a fault, status {}", self.exit);
        match self.exit {
            exit::OK => None,
            _ if told || of_server => None,
            exit::MISS => Some("ended with status 3: a requirement was not met".to_owned()),
            status => Some(format!("ended with status {status}")),
        }
    }
}
