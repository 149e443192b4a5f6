//! The picture for people: short, and what went wrong first.

use super::merge::{Counted, Played, Session, Summary};
use super::row::subject;
use super::{headline, marks, number, words};
use crate::cli::printable;

/// How many lines of one kind are shown of a server; the other formats have them all.
const SHOWN: usize = 20;

/// The whole text.
pub(super) fn write(summary: &Summary) -> String {
    let mut lines = vec![headline(summary)];
    let (red, green): (Vec<&Played>, Vec<&Played>) =
        summary.played.iter().partition(|played| played.is_red());
    red.into_iter().chain(green).for_each(|played| server(&mut lines, played));
    // A name may hold a line end, which is not ours.
    lines.iter().map(|line| printable(line) + "\n").collect()
}

fn server(lines: &mut Vec<String>, played: &Played) {
    lines.push(String::new());
    lines.push(format!(
        "{}{}: {}, {}, {}, {}",
        played.cassette,
        // One that could not begin may not know it.
        if played.server.is_empty() { String::new() } else { format!(", server {}", played.server) },
        number(played.sum(|session| session.processes), "process", "processes"),
        number(played.sum(|session| session.hits), "hit", "hits"),
        number(played.sum(|session| session.repeats), "repeat", "repeats"),
        number(played.sum(Session::missed), "miss", "misses"),
    ));
    let mut misses = Vec::new();
    for session in &played.sessions {
        for miss in &session.misses {
            let marks = marks(session, miss.times);
            let marks = if marks.is_empty() { marks } else { format!(" ({marks})") };
            misses.push((format!("  miss{marks}: {}", words(miss)), format!("    {}", miss.miss.hint)));
        }
    }
    let hidden = misses.len().saturating_sub(SHOWN);
    for (what, hint) in misses.into_iter().take(SHOWN) {
        lines.push(what);
        lines.push(hint);
    }
    if hidden > 0 {
        lines.push(format!("  ... and {hidden} more misses (--format json has all)"));
    }
    let otherwise = played.sessions.iter().flat_map(|session| {
        session.otherwise.iter().map(move |counted| {
            let marks = marks(session, counted.times);
            let marks = if marks.is_empty() { marks } else { format!(" ({marks})") };
            format!("  a process{marks} {}", counted.what)
        })
    });
    some(lines, otherwise.collect());
    let required: Vec<_> = played.unmet().collect();
    let unused = played.unused.iter().map(|unused| {
        let word = if required.contains(&unused) { "not used, and required" } else { "not used" };
        format!("  {word}: message {}, {}", unused.message, subject(&unused.method, unused.name.as_deref()))
    });
    some(lines, unused.collect());
    let idle = played.faults.iter().filter(|fault| fault.fired == 0);
    some(lines, idle.map(|fault| format!("  fault {} ({}) never fired", fault.index, fault.kind)).collect());
    said(lines, played, "answered by rule", |session| &session.unrecorded);
    said(lines, played, "never answered by the client", |session| &session.pending);
    said(lines, played, "warning", |session| &session.warnings);
}

/// What is said of several processes, session by session.
fn said(lines: &mut Vec<String>, played: &Played, kind: &str, list: fn(&Session) -> &[Counted]) {
    let all = played.sessions.iter().flat_map(|session| {
        list(session).iter().map(move |counted| {
            let marks = marks(session, counted.times);
            let marks = if marks.is_empty() { marks } else { format!(" ({marks})") };
            format!("  {kind}{marks}: {}", counted.what)
        })
    });
    some(lines, all.collect());
}

/// The first lines of a kind, and how many more there are.
fn some(lines: &mut Vec<String>, all: Vec<String>) {
    let hidden = all.len().saturating_sub(SHOWN);
    lines.extend(all.into_iter().take(SHOWN));
    if hidden > 0 {
        lines.push(format!("  ... and {hidden} more of these"));
    }
}
