//! What can be read of a segment whose recorder was killed, or whose disk failed.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::path::Path;

use super::{Line, Part, line_of, read_lines, read_record, take};
use crate::cassette::clock;
use crate::cassette::model::Cassette;
use crate::cassette::record::Defaults;
use crate::cassette::segments::SegmentInfo;
use crate::error::{Error, Result};
use crate::jsonrpc::scan::Span;

/// One read of a segment that is too large to be read at once.
const BUFFER: usize = 1 << 20;

/// What could be read of a segment.
#[derive(Debug, Default)]
pub struct Salvaged {
    /// Its records.
    pub cassette: Cassette,
    /// What could not be read, in words; a last line that a killed recorder left torn is none of it.
    pub damage: Option<String>,
}

/// Reads a segment as far as it can be read: a damaged line costs that line, never the recording. Without a readable
/// head it is the recording that its file name tells of.
pub fn salvage(segment: &SegmentInfo) -> Result<Salvaged> {
    let path = &segment.path;
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    // Cut short between two bytes of a letter, the last line is torn like any other.
    let whole = memchr::memrchr(b'\n', &bytes).map_or(0, |at| at + 1);
    let lines = bytes.get(..whole).unwrap_or_default().split(|byte| *byte == b'\n').zip(1..);
    let odd: Vec<usize> =
        lines.filter(|(line, _)| std::str::from_utf8(line).is_err()).map(|(_, number)| number).collect();
    let text = String::from_utf8(bytes)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned());
    let mut read = read_lines(path, text, Some(segment))?;
    if read.cassette.head.recorded_at.is_empty() {
        // It was written to last when its last record was.
        let written = std::fs::metadata(path).and_then(|found| found.modified());
        let written = written.ok().and_then(|at| clock::parse(&clock::micros(at))).unwrap_or(0);
        let length = read.cassette.records.last().map_or(0, |record| record.at);
        let began = written.saturating_sub_unsigned(length).max(0);
        read.cassette.head.recorded_at = clock::from_micros(began, true);
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut damage = read.damage;
    if !odd.is_empty() {
        damage.push(format!("{} not UTF-8 and kept as far as legible", numbered(&odd, "is", "are")));
    }
    let damage = (!damage.is_empty()).then(|| format!("segment {name}: {}", damage.join("; ")));
    Ok(Salvaged { cassette: read.cassette, damage })
}

/// `line 4 is`, `3 lines are (2, 3, 9)`; the numbers of the first ten.
pub(super) fn numbered(lines: &[usize], one: &str, many: &str) -> String {
    if let [line] = lines {
        return format!("line {line} {one}");
    }
    let first: Vec<String> = lines.iter().take(10).map(usize::to_string).collect();
    let more = if lines.len() > first.len() { ", ..." } else { "" };
    format!("{} lines ({}{more}) {many}", lines.len(), first.join(", "))
}

/// Whether a last line is what a killed recorder leaves of its record, rather than damage, of which a loss of power
/// leaves zeros.
pub(super) fn is_torn(line: &str) -> bool {
    line.starts_with('{') && !line.contains('\0')
}

/// Whether all of a segment can be read, but for a last line that a killed recorder left torn. In memory there is one line
/// at a time.
pub fn is_sound(path: &Path) -> io::Result<bool> {
    let mut reader = BufReader::with_capacity(BUFFER, File::open(path)?);
    let mut parts = Vec::new();
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line)? == 0 {
            return Ok(!parts.is_empty());
        }
        if line.pop_if(|byte| *byte == b'\n').is_none() {
            return Ok(!parts.is_empty() && is_torn(&String::from_utf8_lossy(&line)));
        }
        if !std::str::from_utf8(&line).is_ok_and(|line| is_readable(path, line, &mut parts)) {
            return Ok(false);
        }
    }
}

/// Whether a whole line can be read; one that begins a journal begins a part.
fn is_readable(path: &Path, line: &str, parts: &mut Vec<Part>) -> bool {
    let whole = Span::new(0, line.len());
    let Ok(kind) = line_of(line, whole) else { return false };
    match (kind, parts.last()) {
        (Line::Record, Some(part)) => {
            let defaults = Defaults { servers: &part.names, conn: 0, server: part.names.only(), at: 0 };
            read_record(line, whole, &defaults).is_ok()
        }
        (kind, _) => take(path, line, whole, &kind, parts).is_ok(),
    }
}
