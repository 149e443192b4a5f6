//! The journal: the same records, one per line, valid after every line. Segments of a running recording are journals.

use std::collections::HashMap;
use std::path::Path;

use super::document::fields;
use super::head::{Head, Process, Server, Transport, object, read_process};
use super::model::{Cassette, Timing, check_format, fault};
use super::once::Once;
use super::record::{Defaults, Fault, Names, Record, push_millis, share_text};
use super::segments::SegmentInfo;
use super::series::Series;
use crate::error::Result;
use crate::jsonrpc::scan::{Members, Span, value_end};
use crate::jsonrpc::string;

mod latest;
mod salvage;

pub use latest::{latest, latest_of_all, not_before};
pub use salvage::{Salvaged, is_sound, salvage};

/// The time of a record that says none, while it is read.
const UNTIMED: u64 = u64::MAX;

/// Reads a journal, or several one after the other.
pub fn read(path: &Path, text: String) -> Result<Cassette> {
    Ok(read_lines(path, text, None)?.cassette)
}

/// Lines that were read.
struct Lines {
    cassette: Cassette,
    /// What could not be read, in words.
    damage: Vec<String>,
}

/// Reads all lines. `salvaging` says what is known of a segment besides what it says itself.
fn read_lines(path: &Path, text: String, salvaging: Option<&SegmentInfo>) -> Result<Lines> {
    let mut parts: Vec<Part> = Vec::new();
    let mut broken: Vec<(Span, Fault)> = Vec::new();
    let mut at = 0;
    while at < text.len() {
        let end = memchr::memchr(b'\n', text.as_bytes().get(at..).unwrap_or(&[])).map(|found| at + found);
        let line = Span::new(at, end.unwrap_or(text.len()));
        at = line.end + 1;
        // A torn line must not be completed by what follows it.
        let up_to_here = text.get(..line.end).unwrap_or(&text);
        let read = line_of(up_to_here, line).and_then(|kind| {
            if let (Line::End(_) | Line::Record, true, Some(segment)) = (&kind, parts.is_empty(), salvaging) {
                parts.push(Part::without_head(segment));
            }
            take(path, up_to_here, line, &kind, &mut parts)
        });
        match read {
            Ok(()) => {}
            // Nothing before it to keep: not a journal at all.
            Err(error) if parts.is_empty() && salvaging.is_none() => {
                return Err(fault(path, &text, &error, None));
            }
            Err(error) => broken.push((line, error)),
        }
        if let Some(format) = parts.last_mut().and_then(|part| part.format.take()) {
            check_format(path, &text, format)?;
        }
    }
    for part in &mut parts {
        part.read(&text, &mut broken);
    }
    broken.sort_by_key(|(line, _)| line.start);
    let (mut warnings, mut lost, mut damage) = (Vec::new(), Vec::new(), Vec::new());
    // The last of them, and its number.
    let (mut counted, mut number) = (0, 1);
    for (line, error) in broken {
        let torn = line.end == text.len()
            && if salvaging.is_some() { salvage::is_torn(line.of(&text)) } else { !parts.is_empty() };
        if torn {
            warnings.push(format!("{}: the last line is torn and was left out", path.display()));
        } else if salvaging.is_some() {
            let since = text.as_bytes().get(counted..line.start).unwrap_or_default();
            number += memchr::memchr_iter(b'\n', since).count();
            counted = line.start;
            lost.push(number);
        } else {
            return Err(fault(path, &text, &error, None));
        }
    }
    if !lost.is_empty() {
        damage.push(format!(
            "{} left out, because damaged",
            salvage::numbered(&lost, "could not be read and was", "could not be read and were")
        ));
    }
    let mut series = Series::default();
    for mut part in parts {
        if let (true, Some((name, _))) = (part.headless, part.head.servers.first_mut()) {
            damage
                .push(format!("its head is lost, so that only its file name says that the server is {name}"));
        }
        if part.headless
            && part.records.iter().any(|record| record.more.as_ref().is_some_and(|more| more.http.is_some()))
            && let Some((_, server)) = part.head.servers.first_mut()
        {
            server.transport = Transport::Http;
        }
        if !part.finished {
            part.mark_killed();
            warnings.push(format!(
                "{}: the recording of {} has no end: its recorder was killed, or still runs",
                path.display(),
                part.head.servers.first().map_or("a server", |(name, _)| name)
            ));
        }
        // Spans of all parts belong to the one text, so parts are merged without theirs.
        let timing = if part.timed || part.records.is_empty() { Timing::Known } else { Timing::Absent };
        series.add(Cassette { head: part.head, records: part.records, timing, ..Cassette::default() });
    }
    let cassette = Cassette { text, warnings, ..series.finish() };
    Ok(Lines { cassette, damage })
}

#[derive(Default)]
struct Part {
    head: Head,
    names: Names,
    /// The lines that hold records, until they are read.
    lines: Vec<Span>,
    records: Vec<Record>,
    format: Option<Span>,
    timed: bool,
    finished: bool,
    /// Its head could not be read.
    headless: bool,
}

impl Part {
    /// The part whose head could not be read, with what else is known of it.
    fn without_head(segment: &SegmentInfo) -> Self {
        let head = Head {
            recorder: super::head::recorder(),
            servers: vec![(segment.server.clone(), Server::default())],
            conn: segment.conn,
            ..Head::default()
        };
        let names = Names::new(std::iter::once(segment.server.as_str()));
        Self { head, names, headless: true, ..Self::default() }
    }

    /// Reads the lines that were put aside.
    fn read(&mut self, text: &str, broken: &mut Vec<(Span, Fault)>) {
        let server = self.names.only();
        let defaults = Defaults { servers: &self.names, conn: self.head.conn, server, at: UNTIMED };
        let lines = std::mem::take(&mut self.lines);
        let shares = share_text(&lines, |lines| {
            let mut faults = Vec::new();
            let mut records = Vec::with_capacity(lines.len());
            for &line in lines {
                match read_record(text, line, &defaults) {
                    Ok(record) => records.push(record),
                    Err(fault) => faults.push((line, fault)),
                }
            }
            (records, faults)
        });
        for (mut records, faults) in shares {
            broken.extend(faults);
            if self.records.is_empty() {
                self.records = records;
            } else {
                self.records.append(&mut records);
            }
        }
        // A clock that was set back must not reorder a journal.
        let mut latest = 0;
        for record in &mut self.records {
            if record.at != UNTIMED {
                self.timed = true;
                latest = record.at.max(latest);
            }
            record.at = latest;
        }
        // As its recorder wrote it; what was converted is settled, and what a hand wrote is meant.
        if self.headless || self.head.segment.is_some() {
            settle_sessions(&mut self.records);
        }
    }

    fn mark_killed(&mut self) {
        let Some((server, _)) = self.head.servers.first() else { return };
        self.head.processes.push(Process {
            server: server.clone(),
            conn: self.head.conn,
            killed: true,
            ..Process::default()
        });
    }
}

/// Gives the request that began a session the session that its answer named: when it was recorded, there was none.
fn settle_sessions(records: &mut [Record]) {
    let named = records.iter().filter(|record| record.exchange > 0 && record.session > 0);
    let sessions: HashMap<(u32, u32), u32> =
        named.map(|record| ((record.server, record.exchange), record.session)).collect();
    if sessions.is_empty() {
        return;
    }
    for record in records.iter_mut().filter(|record| record.exchange > 0 && record.session == 0) {
        record.session = sessions.get(&(record.server, record.exchange)).copied().unwrap_or(0);
    }
}

enum Line {
    Blank,
    Head,
    End(Span),
    Record,
}

/// Reads the record on a line of its own.
fn read_record(text: &str, line: Span, defaults: &Defaults<'_>) -> std::result::Result<Record, Fault> {
    // A torn line must not be completed by what follows it.
    let up_to_here = text.get(..line.end).unwrap_or(text);
    let (record, end) = Record::parse(up_to_here, line.start, defaults)?;
    if !Span::new(end, line.end).of(text).trim().is_empty() {
        return Err(Fault { at: end, what: "expected the end of the line".to_owned() });
    }
    Ok(record)
}

fn line_of(text: &str, line: Span) -> std::result::Result<Line, Fault> {
    let content = line.of(text);
    // How this program begins a record.
    if content.starts_with("{\"at\":") {
        return Ok(Line::Record);
    }
    if content.trim().is_empty() {
        return Ok(Line::Blank);
    }
    let start = line.start + (content.len() - content.trim_start().len());
    let mut members = Members::of(text, start)
        .ok_or_else(|| Fault { at: start, what: "expected a record, an object in braces".to_owned() })?;
    let Some((name, value)) = members.next_name()? else {
        return Err(Fault { at: start, what: "expected a record, a head or an end".to_owned() });
    };
    Ok(match name.of(text) {
        "\"mcpreel\"" | "\"journal\"" => Line::Head,
        "\"end\"" if text.as_bytes().get(value) == Some(&b'{') => {
            Line::End(Span::new(value, value_end(text, value)?))
        }
        _ => Line::Record,
    })
}

fn take(
    path: &Path,
    text: &str,
    line: Span,
    kind: &Line,
    parts: &mut Vec<Part>,
) -> std::result::Result<(), Fault> {
    if matches!(kind, Line::Head) {
        let mut part = Part::default();
        read_members(text, line.start, |name, value| match name {
            "mcpreel" => {
                part.format = Some(value);
                Ok(())
            }
            "journal" => Ok(()),
            _ => part.head.read(name, text, value),
        })?;
        part.names = Names::new(part.head.servers.iter().map(|(name, _)| name.as_str()));
        parts.push(part);
        return Ok(());
    }
    let Some(part) = parts.last_mut() else {
        let what = format!("{} must start with a journal's head", path.display());
        return if matches!(kind, Line::Blank) { Ok(()) } else { Err(Fault { at: line.start, what }) };
    };
    match kind {
        Line::End(value) => {
            read_end(text, *value, &mut part.head)?;
            part.finished = true;
        }
        Line::Record => part.lines.push(line),
        Line::Blank | Line::Head => {}
    }
    Ok(())
}

fn read_members(
    text: &str,
    start: usize,
    mut each: impl FnMut(&str, Span) -> std::result::Result<(), Fault>,
) -> std::result::Result<(), Fault> {
    let start = crate::jsonrpc::scan::skip_space(text.as_bytes(), start);
    let mut members = Members::of(text, start)
        .ok_or_else(|| Fault { at: start, what: "expected an object in braces".to_owned() })?;
    let mut once = Once::default();
    while let Some((literal, value)) = members.next()? {
        let name = string::decode(literal.of(text));
        once.take(&name, literal.start)?;
        each(&name, value)?;
    }
    Ok(())
}

/// The facts that were known only at the end overlay the head.
fn read_end(text: &str, value: Span, head: &mut Head) -> std::result::Result<(), Fault> {
    read_members(text, value.start, |name, value| match name {
        "reason" => Ok(()),
        "process" => {
            head.processes.push(read_process(text, value)?);
            Ok(())
        }
        _ => head.read(name, text, value),
    })
}

/// The first line of a journal, with its line end.
#[must_use]
pub fn head_line(head: &Head) -> String {
    let mut members =
        vec![("mcpreel".to_owned(), super::FORMAT.to_string()), ("journal".to_owned(), "true".to_owned())];
    members.extend(head.fields());
    object(members) + "\n"
}

/// The last line of a journal, with its line end: why it ended, and the facts that overlay its head.
#[must_use]
pub fn end_line(reason: &str, overlay: Vec<(String, String)>) -> String {
    let mut members = vec![("reason".to_owned(), string::encode(reason))];
    members.extend(overlay);
    format!("{{\"end\":{}}}\n", object(members))
}

/// Writes a whole cassette as one journal.
#[must_use]
pub fn write(cassette: &Cassette) -> String {
    let mut out = String::with_capacity(cassette.text.len() + 1024);
    out.push_str(&head_line(&cassette.head));
    let single = cassette.head.servers.len() == 1;
    for record in &cassette.records {
        out.push('{');
        if cassette.timing == Timing::Known {
            out.push_str("\"at\":");
            push_millis(&mut out, record.at);
            out.push(',');
        }
        for (index, (name, value)) in fields(cassette, record, single).into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out.push_str(&string::encode(name));
            out.push(':');
            crate::jsonrpc::pretty::pack(&value, Span::new(0, value.len()), &mut out);
        }
        out.push_str("}\n");
    }
    out.push_str(&end_line("converted", Vec::new()));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cassette::document;
    use std::path::PathBuf;

    const HEAD: &str = r#"{"mcpreel":1,"journal":true,"recorded_at":"2026-11-29T20:33:00.000100Z","recorder":"mcpreel 0.1.0","servers":{"a":{"transport":"stdio"}}}"#;
    const PING: &str = r#"{"at":1.5,"from":"client","payload":{"jsonrpc":"2.0","id":1,"method":"ping"}}"#;
    const END: &str = r#"{"end":{"reason":"client_closed","servers":{"a":{"transport":"stdio","protocol":["2025-11-25"]}},"process":{"server":"a","exit":{"code":0}}}}"#;

    fn parsed(lines: &[&str], tail: &str) -> Result<Cassette> {
        let text = lines.join("\n") + "\n" + tail;
        Cassette::parse(&PathBuf::from("c.jsonl"), text.into_bytes())
    }

    #[test]
    fn a_journal_is_read_and_its_end_overlays_the_head() {
        let cassette = parsed(&[HEAD, PING, END], "").unwrap();
        assert_eq!(cassette.records.len(), 1);
        assert_eq!(cassette.head.servers[0].1.protocol, ["2025-11-25"]);
        assert_eq!(cassette.head.processes.len(), 1);
        assert!(cassette.warnings.is_empty());
        let text = write(&cassette);
        let again = Cassette::parse(&PathBuf::from("c.jsonl"), text.clone().into_bytes()).unwrap();
        assert_eq!(write(&again), text);
    }

    #[test]
    fn a_torn_tail_is_left_out_with_a_warning() {
        for cut in 1..PING.len() {
            let cassette = parsed(&[HEAD, PING], &PING[..cut]).unwrap();
            assert_eq!(cassette.records.len(), 1, "{cut}");
            assert!(cassette.warnings.iter().any(|text| text.contains("torn")));
            assert!(cassette.head.processes[0].killed);
        }
        assert_eq!(parsed(&[HEAD, PING], PING).unwrap().records.len(), 2);
        assert!(parsed(&[HEAD, "{\"from\":", PING], "").unwrap_err().to_string().contains("line 2"));
    }

    #[test]
    fn several_journals_are_one_cassette_in_order_of_time() {
        let later = HEAD
            .replace("20:33:00.000100", "20:33:00.001100")
            .replace("\"servers\"", "\"conn\":1,\"servers\"");
        let early = PING.replace("1.5", "0.2");
        let cassette = parsed(&[HEAD, PING, END, &later, &early, END], "").unwrap();
        assert_eq!(
            cassette.records.iter().map(|record| (record.conn, record.at)).collect::<Vec<_>>(),
            [(1, 1200), (0, 1500)]
        );
    }

    /// A session that an answer began, in a journal with this in its head.
    fn began_a_session(head: &str) -> Cassette {
        let head = HEAD.replace("\"servers\"", &format!("{head}\"servers\"")).replace("stdio", "http");
        let asks = r#"{"at":0,"from":"client","exchange":1,"payload":{"id":1,"method":"initialize"}}"#;
        let answers = r#"{"at":1,"session":1,"from":"server","exchange":1,"payload":{"id":1,"result":{}}}"#;
        parsed(&[&head, asks, answers, END], "").unwrap()
    }

    #[test]
    fn the_session_of_a_request_is_that_of_its_answer_where_a_recorder_wrote_it() {
        let sessions = |cassette: &Cassette| -> Vec<u32> {
            cassette.records.iter().map(|record| record.session).collect()
        };
        let recorded = began_a_session("\"segment\":{},");
        assert_eq!(sessions(&recorded), [1, 1]);
        // What somebody wrote stays as it is, on the way to a document and back.
        let written = began_a_session("");
        assert_eq!(sessions(&written), [0, 1]);
        for text in [document::write(&written), write(&written)] {
            let again = Cassette::parse(&PathBuf::from("c"), text.into_bytes()).unwrap();
            assert_eq!(sessions(&again), [0, 1]);
        }
    }

    #[test]
    fn faults_name_file_and_line() {
        for (lines, what) in [
            (&[PING, HEAD][..], "is not a cassette"),
            (&[HEAD, "7"], "line 2"),
            (&[HEAD, "{}"], "line 2"),
            (&["{\"mcpreel\":9,\"journal\":true}"], "newer"),
        ] {
            let error = parsed(lines, "").unwrap_err();
            assert!(error.to_string().contains(what), "{lines:?}: {error}");
        }
    }
}
