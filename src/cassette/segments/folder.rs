//! The folder of segments as it is found on disk: which segments there are, who still holds them, how they ended,
//! and what follows from that. Nothing here changes anything or takes a lock that others could notice.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use super::{SegmentHead, SegmentInfo};
use crate::cassette::lock;
use crate::cassette::owner::Owner;
use crate::error::{Error, Result};

/// How the last line of a segment begins that came to an orderly end.
const END: &[u8] = b"{\"end\":";

/// How the head of a segment begins.
const HEAD: &[u8] = b"{\"mcpreel\":";

/// How much of the end of a segment is read at first; an end line is mostly shorter.
const TAIL: u64 = 16 * 1024;

/// What a folder of segments amounts to.
#[derive(Debug)]
pub(super) enum Found {
    /// No segment holds a record.
    Empty,
    /// Some process still records.
    Recording(Vec<u32>),
    /// Nobody records any more, and there is a cassette to be made.
    Mergeable(Vec<SegmentInfo>),
    /// All recorders were killed and their owner is gone.
    Interrupted,
}

/// `<cassette>.partial`.
pub(super) fn partial(cassette: &Path) -> PathBuf {
    with_suffix(cassette, ".partial")
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// The recordings of a cassette that were set aside, `<cassette>.partial.1` and so on, in that order.
pub(super) fn set_aside_folders(cassette: &Path) -> Vec<PathBuf> {
    let prefix = with_suffix(cassette, ".partial.");
    let (Some(folder), Some(prefix)) = (cassette.parent(), prefix.file_name()) else { return Vec::new() };
    let prefix = prefix.to_string_lossy();
    let names = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.file_name());
    let mut numbers: Vec<u32> =
        names.filter_map(|name| name.to_string_lossy().strip_prefix(prefix.as_ref())?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    numbers.into_iter().map(|number| aside(cassette, number)).filter(|path| path.is_dir()).collect()
}

pub(super) fn aside(cassette: &Path, number: u32) -> PathBuf {
    with_suffix(cassette, &format!(".partial.{number}"))
}

/// The name of a segment's file. What is odd in a file name is left out of the server's.
pub(super) fn file_name(number: u32, server: &str, pid: u32) -> String {
    let plain =
        |letter: char| if letter.is_ascii_alphanumeric() || "._".contains(letter) { letter } else { '-' };
    let server: String = server.chars().take(40).map(plain).collect();
    format!("{number:03}-{server}-{pid}.jsonl")
}

fn parse_file_name(name: &str) -> Option<(u32, &str, u32)> {
    let (number, rest) = name.strip_suffix(".jsonl")?.split_once('-')?;
    let (server, pid) = rest.rsplit_once('-')?;
    Some((number.parse().ok()?, server, pid.parse().ok()?))
}

/// Fills in what a segment with a damaged head is read with. `conns` are the next `conn` of each server where the
/// session is known.
pub(super) fn guess_heads(segments: &mut [SegmentInfo], conns: &BTreeMap<String, u32>) {
    let mut next: BTreeMap<String, u32> = conns.clone();
    for segment in segments.iter_mut() {
        let head = head(&segment.path);
        let named =
            || conns.keys().find(|name| file_name(0, name, 0) == file_name(0, &segment.server, 0)).cloned();
        let server = head.as_ref().map(|head| head.server.clone()).or_else(named);
        segment.server = server.unwrap_or_else(|| segment.server.clone());
        if !conns.contains_key(&segment.server) {
            let after = head.map_or(0, |head| head.conn);
            let next = next.entry(segment.server.clone()).or_default();
            *next = (*next).max(after).saturating_add(1);
        }
    }
    for segment in segments.iter_mut().rev() {
        let next = next.entry(segment.server.clone()).or_default();
        segment.conn = head(&segment.path).map_or(next.saturating_sub(1), |head| head.conn);
        *next = segment.conn;
    }
}

/// The segments of a folder in the order in which they were begun. `killed` says only that the end line is missing:
/// as long as a process holds a segment, it is simply not there yet.
pub(super) fn segments(folder: &Path) -> Result<Vec<SegmentInfo>> {
    let mut found = list(folder)?;
    for segment in &mut found {
        segment.killed = is_without_end(&segment.path)?;
    }
    guess_heads(&mut found, &BTreeMap::new());
    Ok(found)
}

/// The segments of a folder by their names, without a look at how they ended.
fn list(folder: &Path) -> Result<Vec<SegmentInfo>> {
    let reading = "read the recording folder";
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(Error::io(reading, folder))? {
        let entry = entry.map_err(Error::io(reading, folder))?;
        // What is no file is nobody's journal, whatever it is called.
        let is_file = || entry.file_type().is_ok_and(|kind| kind.is_file());
        if let Some((number, server, pid)) = entry.file_name().to_str().and_then(parse_file_name)
            && is_file()
        {
            let (path, server) = (entry.path(), server.to_owned());
            found.push(SegmentInfo { path, number, pid, killed: false, server, conn: 0 });
        }
    }
    found.sort_by_key(|segment| (segment.number, segment.pid));
    Ok(found)
}

fn is_without_end(path: &Path) -> Result<bool> {
    has_end(path).map(|end| !end).map_err(Error::io("read the segment", path))
}

/// What the folder amounts to. `good_enough`: what was only killed is a recording too, since its owner is
/// alive or it adds to a cassette. `own` is a segment that the asking process has done with; `replaces` says that a
/// cassette would make way, which nothing that was only killed is good enough for.
pub(super) fn assess(folder: &Path, good_enough: bool, own: Option<&Path>, replaces: bool) -> Result<Found> {
    let mut holders = Vec::new();
    let mut kept = Vec::new();
    for mut segment in list(folder)? {
        let path = &segment.path;
        // In this order: who lets go of a segment has written its end line before.
        if own != Some(path) && lock::is_held(path).map_err(Error::io("look at the lock of", path))? {
            holders.push(segment.pid);
            continue;
        }
        segment.killed = is_without_end(path)?;
        if !segment.killed || has_record(path).map_err(Error::io("read the segment", path))? {
            kept.push(segment);
        }
    }
    Ok(if !holders.is_empty() {
        Found::Recording(holders)
    } else if kept.is_empty() {
        Found::Empty
    } else if (good_enough && !replaces) || kept.iter().any(|segment| !segment.killed) {
        Found::Mergeable(kept)
    } else {
        Found::Interrupted
    })
}

/// The head object that says to whom a segment belongs, if its first line has come that far.
pub(super) fn head(path: &Path) -> Option<SegmentHead> {
    #[derive(serde::Deserialize)]
    struct Line {
        segment: SegmentHead,
    }
    let mut line = Vec::new();
    BufReader::new(File::open(path).ok()?).read_until(b'\n', &mut line).ok()?;
    Some(serde_json::from_slice::<Line>(&line).ok()?.segment)
}

/// Whether the last whole line is an end line and nothing comes after it. Reads only the tail of the file.
fn has_end(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let mut tail = TAIL;
    loop {
        let start = length.saturating_sub(tail);
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(start))?;
        (&file).take(length - start).read_to_end(&mut bytes)?;
        let Some(line) = bytes.strip_suffix(b"\n") else { return Ok(false) };
        if let Some(at) = memchr::memrchr(b'\n', line) {
            return Ok(line.get(at + 1..).is_some_and(|line| line.starts_with(END)));
        }
        if start == 0 {
            return Ok(line.starts_with(END));
        }
        tail = tail.saturating_mul(4);
    }
}

/// Whether there is a whole line after the head, or the head is none.
fn has_record(path: &Path) -> io::Result<bool> {
    let mut reader = BufReader::new(File::open(path)?);
    let start = reader.fill_buf()?;
    if !start.iter().zip(HEAD).all(|(found, wanted)| found == wanted) {
        return Ok(true);
    }
    let mut lines = 0;
    loop {
        let chunk = reader.fill_buf()?;
        let length = chunk.len();
        lines += memchr::memchr_iter(b'\n', chunk).count();
        if length == 0 || lines > 1 {
            return Ok(lines > 1);
        }
        reader.consume(length);
    }
}

/// Whether the owner, in its text form, can still start recorders.
pub(super) fn is_alive(owner: &str) -> bool {
    Owner::parse(owner).is_some_and(|owner| owner.is_alive())
}
