//! The picture as Markdown, for the summary of a CI step.

use std::fmt::Write as _;

use super::merge::{Session, Summary};
use super::row::subject;
use super::{headline, marks, words};
use crate::cli::printable;

/// How many misses and unused exchanges are shown of a server: summaries of a step have a limit.
const SHOWN: usize = 50;

/// The whole page.
pub(super) fn write(summary: &Summary) -> String {
    let mut out = format!("### mcpreel: {}\n\n", headline(summary));
    out += "| cassette | server | processes | hits | repeats | misses | not used |\n";
    out += "|---|---|--:|--:|--:|--:|--:|\n";
    for played in &summary.played {
        let _ = writeln!(
            out,
            "| {} | {} | {} | {} | {} | {} | {} |",
            code(&played.cassette).replace('|', "\\|"),
            code(&played.server).replace('|', "\\|"),
            played.sum(|session| session.processes),
            played.sum(|session| session.hits),
            played.sum(|session| session.repeats),
            played.sum(Session::missed),
            played.unused.len()
        );
    }
    for played in &summary.played {
        let title = format!("{}, {}", code(&played.cassette), code(&played.server));
        let misses: Vec<String> = played
            .sessions
            .iter()
            .flat_map(|session| {
                session.misses.iter().map(move |miss| {
                    let marks = marks(session, miss.times);
                    let marks = if marks.is_empty() { marks } else { format!(" ({})", code(&marks)) };
                    format!("{}{marks}<br>{}", code(&words(miss)), code(&miss.miss.hint))
                })
            })
            .collect();
        list(&mut out, &format!("Without a recorded answer: {title}"), &misses);
        let unmet: Vec<String> = played
            .unmet()
            .map(|unused| {
                let what = subject(&unused.method, unused.name.as_deref());
                format!("message {}, {}", unused.message, code(&what))
            })
            .collect();
        list(&mut out, &format!("Recorded and not used: {title}"), &unmet);
        let otherwise: Vec<String> = played
            .sessions
            .iter()
            .flat_map(|session| {
                session.otherwise.iter().map(move |counted| {
                    let marks = marks(session, counted.times);
                    let marks = if marks.is_empty() { marks } else { format!(" ({})", code(&marks)) };
                    format!("{}{marks}", code(&counted.what))
                })
            })
            .collect();
        list(&mut out, &format!("Processes that failed: {title}"), &otherwise);
        let idle = played.faults.iter().filter(|fault| fault.fired == 0);
        let idle: Vec<String> =
            idle.map(|fault| format!("fault {}, {}", fault.index, code(&fault.kind))).collect();
        list(&mut out, &format!("Faults that never fired: {title}"), &idle);
    }
    let torn: Vec<String> =
        summary.torn.iter().map(|torn| format!("{}, line {}", code(&torn.file), torn.line)).collect();
    list(&mut out, "Rows that a killed process left cut off", &torn);
    out
}

fn list(out: &mut String, title: &str, items: &[String]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(out, "\n**{title}**\n\n");
    for item in items.iter().take(SHOWN) {
        let _ = writeln!(out, "- {item}");
    }
    if items.len() > SHOWN {
        let _ = writeln!(out, "- and {} more", items.len() - SHOWN);
    }
}

/// Text of others, which is to be shown and not to be taken for Markdown or HTML: a code span behind more back quotes
/// than it holds.
fn code(text: &str) -> String {
    let text = printable(text);
    let longest = text.split(|char| char != '`').map(str::len).max().unwrap_or(0);
    let fence = "`".repeat(longest + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') || text.is_empty() { " " } else { "" };
    format!("{fence}{pad}{text}{pad}{fence}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_of_others_stays_text() {
        for (text, shown) in [
            ("plain", "`plain`"),
            ("a`b", "``a`b``"),
            ("``", "``` `` ```"),
            ("<b>\n# x", r"`<b>\n# x`"),
            ("", "`  `"),
        ] {
            assert_eq!(code(text), shown);
        }
    }
}
