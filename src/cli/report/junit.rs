//! The picture as `JUnit` XML: a suite for each server of a cassette, a case for each session.

use std::fmt::Write as _;

use super::merge::{Played, Summary};
use super::row::subject;
use super::{marks, number, words};
use crate::cli::printable;

/// The whole document.
pub(super) fn write(summary: &Summary) -> String {
    let mut suites: Vec<Suite> = summary.played.iter().map(suite).collect();
    if !summary.torn.is_empty() {
        let cases = summary.torn.iter().map(|torn| Case {
            name: format!("{}, line {}", torn.file, torn.line),
            fault: Some(Fault {
                element: "error",
                kind: "torn",
                message: "a process was killed while it wrote its report".to_owned(),
                lines: Vec::new(),
            }),
            said: Vec::new(),
        });
        suites.push(Suite { name: "reports".to_owned(), cases: cases.collect() });
    }
    let count = |element: &str| suites.iter().map(|suite| suite.count(element)).sum::<usize>();
    let tests: usize = suites.iter().map(|suite| suite.cases.len()).sum();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites name=\"mcpreel\" tests=\"{tests}\" failures=\"{}\" errors=\"{}\">",
        count("failure"),
        count("error")
    );
    suites.iter().for_each(|suite| suite.write(&mut out));
    out + "</testsuites>\n"
}

struct Suite {
    name: String,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    fault: Option<Fault>,
    /// What else is to be known.
    said: Vec<String>,
}

struct Fault {
    element: &'static str,
    kind: &'static str,
    message: String,
    lines: Vec<String>,
}

fn suite(played: &Played) -> Suite {
    let mut cases: Vec<Case> = Vec::new();
    for session in &played.sessions {
        let mut lines = Vec::new();
        for miss in &session.misses {
            let mut marks = marks(session, miss.times);
            if !marks.is_empty() {
                marks = format!(" ({marks})");
            }
            lines.push(format!("{}{marks}", words(miss)));
            lines.push(format!("  {}", miss.miss.hint));
        }
        let missed = session.missed();
        let fault = if missed > 0 {
            Some((
                "miss",
                number(missed, "request without a recorded answer", "requests without a recorded answer"),
            ))
        } else if session.otherwise_unmet > 0 {
            lines.extend(session.otherwise.iter().map(|counted| format!("a process {}", counted.what)));
            Some(("requirement", number(session.otherwise_unmet, "process failed", "processes failed")))
        } else {
            None
        };
        let said = [
            ("answered by rule", &session.unrecorded),
            ("pending", &session.pending),
            ("warning", &session.warnings),
        ];
        cases.push(Case {
            name: session.session.as_ref().map_or("no session".to_owned(), |name| format!("session {name}")),
            fault: fault.map(|(kind, message)| Fault { element: "failure", kind, message, lines }),
            said: said
                .into_iter()
                .flat_map(|(kind, list)| list.iter().map(move |counted| format!("{kind}: {}", counted.what)))
                .collect(),
        });
    }
    if played.require_all_used {
        let unused = played.unmet().map(|unused| {
            format!("message {}, {}", unused.message, subject(&unused.method, unused.name.as_deref()))
        });
        let lines: Vec<String> = unused.collect();
        let count = u64::try_from(lines.len()).unwrap_or(u64::MAX);
        cases.push(Case {
            name: "every recorded tool call is used".to_owned(),
            fault: (count > 0).then(|| Fault {
                element: "failure",
                kind: "unused",
                message: number(count, "recorded tool call not used", "recorded tool calls not used"),
                lines,
            }),
            said: Vec::new(),
        });
    }
    Suite { name: format!("{} {}", played.cassette, played.server), cases }
}

impl Suite {
    fn count(&self, element: &str) -> usize {
        let faults = self.cases.iter().filter_map(|case| case.fault.as_ref());
        faults.filter(|fault| fault.element == element).count()
    }

    fn write(&self, out: &mut String) {
        let name = escaped(&self.name);
        let (tests, failures, errors) = (self.cases.len(), self.count("failure"), self.count("error"));
        let _ = writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\">"
        );
        for case in &self.cases {
            let _ = write!(out, "    <testcase classname=\"{name}\" name=\"{}\"", escaped(&case.name));
            if case.fault.is_none() && case.said.is_empty() {
                out.push_str("/>\n");
                continue;
            }
            out.push_str(">\n");
            if let Some(Fault { element, kind, message, lines }) = &case.fault {
                let _ = write!(out, "      <{element} type=\"{kind}\" message=\"{}\">", escaped(message));
                out.push_str(&lines.iter().map(|line| escaped(line)).collect::<Vec<_>>().join("\n"));
                let _ = writeln!(out, "</{element}>");
            }
            if !case.said.is_empty() {
                let said: Vec<String> = case.said.iter().map(|line| escaped(line)).collect();
                let _ = writeln!(out, "      <system-err>{}</system-err>", said.join("\n"));
            }
            out.push_str("    </testcase>\n");
        }
        out.push_str("  </testsuite>\n");
    }
}

/// Text as it may stand in an attribute or an element. Control characters, which XML 1.0 cannot hold, are spelt out.
fn escaped(text: &str) -> String {
    let text = printable(text)
        .replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;");
    text.replace(['\u{fffe}', '\u{ffff}'], "\u{fffd}")
}
