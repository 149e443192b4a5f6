//! The latest time that a journal knows, without taking its records apart.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use crate::cassette::clock;
use crate::cassette::model::is_journal_head;
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;

/// The last records are sought in so many bytes.
const TAIL: u64 = 4 << 10;
/// How the recorder begins a record.
const START: &[u8] = b"{\"at\":";

/// When the last record of a segment was written, in microseconds since 1970: where its last lines are very long, when
/// the segment was begun. `None` when it does not say.
#[must_use]
pub fn latest(segment: &Path) -> Option<i64> {
    let mut file = BufReader::new(File::open(segment).ok()?);
    let mut head = String::new();
    file.read_line(&mut head).ok()?;
    let began = began_at(&head)?;
    let length = file.seek(SeekFrom::End(0)).ok()?;
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL))).ok()?;
    let mut tail = Vec::new();
    file.take(TAIL).read_to_end(&mut tail).ok()?;
    let at = tail.split(|byte| *byte == b'\n').rev().find_map(millis).unwrap_or(0);
    Some(began.saturating_add(at))
}

/// The same of a file of several journals, all of which are looked at.
#[must_use]
pub fn latest_of_all(journals: &Path) -> Option<i64> {
    let (mut began, mut latest) = (None, None);
    for line in BufReader::new(File::open(journals).ok()?).split(b'\n').map_while(Result::ok) {
        if let Some(at) = millis(&line) {
            latest = latest.max(began.map(|began: i64| began.saturating_add(at)));
        } else if let Some(head) = std::str::from_utf8(&line).ok().filter(|line| is_journal_head(line)) {
            began = began_at(head);
            latest = latest.max(began);
        }
    }
    latest
}

/// The head of a journal that begins no earlier than `over`.
#[must_use]
pub fn not_before(head: &str, over: Option<i64>) -> String {
    let mut edits = Edits::new();
    if let (Some(over), Some(began)) = (over, began_at(head))
        && began < over
        && let Some(span) = member(head, Span::new(0, head.len()), "recorded_at")
    {
        edits.replace(span, string::encode(&clock::from_micros(over, true)));
    }
    edits.apply(head)
}

fn began_at(head: &str) -> Option<i64> {
    let began = member(head, Span::new(0, head.len()), "recorded_at")?;
    clock::parse(&string::decode(began.of(head)))
}

/// The time of a record in microseconds.
fn millis(line: &[u8]) -> Option<i64> {
    let number = line.strip_prefix(START)?;
    let end = number.iter().position(|byte| !byte.is_ascii_digit() && *byte != b'.')?;
    let number = std::str::from_utf8(number.get(..end)?).ok()?;
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let fraction: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    whole.parse::<i64>().ok()?.checked_mul(1000)?.checked_add(fraction)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_time_is_found_at_the_end() {
        let path = std::env::temp_dir().join(format!("mcpreel-latest-{}", std::process::id()));
        let head = "{\"mcpreel\":1,\"journal\":true,\"recorded_at\":\"1970-01-01T00:00:01.000002Z\"}\n";
        let long = format!("{{\"at\":9,\"from\":\"client\",\"payload\":\"{}\"}}\n", "x".repeat(5000));
        for (rest, expected) in [
            ("", Some(1_000_002)),
            (
                "{\"at\":1.5,\"from\":\"client\"}\n{\"at\":2.001,\"from\":\"client\"}\n{\"end\":{}}\n",
                Some(1_002_003),
            ),
            ("{\"at\":7,\"from\":\"client\"}\n{\"at\":8", Some(1_007_002)),
            (&long, Some(1_000_002)),
        ] {
            std::fs::write(&path, format!("{head}{rest}")).unwrap();
            assert_eq!(latest(&path), expected, "{rest}");
        }
        let later = head.replace("00:00:01", "00:00:05");
        std::fs::write(&path, format!("{head}{{\"at\":9000}}\n{{\"end\":{{}}}}\n{later}{{\"at\":1}}\n"))
            .unwrap();
        assert_eq!(latest_of_all(&path), Some(10_000_002));
        assert_eq!(not_before(head, Some(5)), head);
        assert_eq!(not_before(head, None), head);
        assert_eq!(not_before(head, Some(5_000_002)), later);
        std::fs::write(&path, "{}\n").unwrap();
        assert_eq!(latest(&path), None);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(latest(&path), None);
    }
}
