//! Making a cassette out of segments, and writing finished files.

use std::fs::{self, File, Metadata};
use std::io::{self, BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use super::head::Head;
use super::model::{Cassette, Timing, is_journal_head};
use super::record::Side;
use super::segments::{Documents, MergeJob, Merged, SegmentInfo, resolve};
use super::series::Series;
use super::{clock, compare, document, foreign, journal, record};
use crate::error::{Error, Result};
use crate::jsonrpc::message::Shape;
use crate::mcp;

/// From this many bytes of records on, a document is written as a journal: nobody reviews it, and it must be written
/// in the second that some clients leave us.
pub const DOCUMENT_LIMIT: u64 = 64 << 20;

/// What knows the content of cassettes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Files;

impl Documents for Files {
    fn only_probes(&self, path: &Path) -> Result<bool> {
        let cassette = Cassette::read(path)?;
        match foreign::keeps_from_replacing(path, &cassette) {
            Some(why) => Err(Error::input(path, "", format!("would be replaced, but {why}"))),
            None => Ok(is_only_probes(&cassette)),
        }
    }

    fn conns(&self, cassette: &Path, server: &str) -> Result<u32> {
        let cassette = Cassette::read(cassette)?;
        let recorded = cassette.records.iter().filter(|record| cassette.server_name(record) == server);
        let processes = cassette.head.processes.iter().filter(|process| process.server == server);
        let conns = recorded.map(|record| record.conn).chain(processes.map(|process| process.conn));
        Ok(conns.max().map_or(0, |conn| conn + 1))
    }

    fn merge(&self, job: &MergeJob<'_>) -> Result<Merged> {
        let size: u64 =
            job.segments.iter().filter_map(|segment| fs::metadata(&segment.path).ok()).map(|m| m.len()).sum();
        let exists = job.cassette.exists();
        let large = size > DOCUMENT_LIMIT;
        // Strung together, a damaged line would spoil the cassette.
        if large && job.segments.iter().all(|segment| journal::is_sound(&segment.path).unwrap_or(false)) {
            return write_journal(job, exists);
        }
        let mut series = Series::default();
        let damage = add_segments(&mut series, job.segments)?;
        let mut new = series.finish();
        let damaged = !damage.is_empty();
        job.damaged(damage);
        if new.records.is_empty() {
            return Ok(Merged::Nothing);
        }
        if exists && is_only_probes(&new) {
            return Ok(Merged::OnlyProbes);
        }
        if large || is_journal(job.cassette) {
            let unchanged = exists && !job.continues && compare::same(&Cassette::read(job.cassette)?, &new);
            if unchanged {
                return Ok(Merged::Unchanged);
            }
            if !damaged {
                return write_journal(job, exists);
            }
            if exists && job.continues {
                new = joined(Cassette::read(job.cassette)?, new);
            }
            write_temp(job.temp, journal::write(&new).as_bytes(), None)?;
            return commit(job.temp, job);
        }
        if exists {
            let old = Cassette::read(job.cassette)?;
            if job.continues {
                new = joined(old, new);
            } else if compare::same(&old, &new) {
                return Ok(Merged::Unchanged);
            } else {
                keep_what_was_written_by_hand(&old.head, &mut new.head);
            }
        }
        let started = clock::parse(&new.head.recorded_at).unwrap_or(0);
        new.head.recorded_at = clock::from_micros(started, false);
        write_temp(job.temp, document::write(&new).as_bytes(), None)?;
        commit(job.temp, job)
    }
}

/// Whether a file name asks for a journal.
#[must_use]
pub fn is_journal(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"))
}

/// Whether a recording holds nothing but what clients send before they decide to stay.
#[must_use]
pub fn is_only_probes(cassette: &Cassette) -> bool {
    cassette.records.iter().filter(|record| record.from == Side::Client).all(|record| match record.view() {
        Some(view) if matches!(view.shape, Shape::Request | Shape::Notification) => {
            mcp::is_probe(&view.method_name(&cassette.text))
        }
        Some(view) => view.shape == Shape::Response,
        None => true,
    })
}

/// Labels, matching rules and unknown fields are the user's: a new recording keeps them.
fn keep_what_was_written_by_hand(old: &Head, new: &mut Head) {
    new.labels = new.labels.take().or_else(|| old.labels.clone());
    new.matching = new.matching.take().or_else(|| old.matching.clone());
    for field in &old.extra {
        if !new.extra.iter().any(|(name, _)| *name == field.0) {
            new.extra.push(field.clone());
        }
    }
}

/// Strings the segments together without reading what is in them.
fn write_journal(job: &MergeJob<'_>, exists: bool) -> Result<Merged> {
    let continues = exists && job.continues;
    if let [only] = job.segments
        && !only.killed
        && !continues
    {
        let file = File::open(&only.path).map_err(Error::io("read", &only.path))?;
        file.sync_all().map_err(Error::io("write", &only.path))?;
        allow_by_umask(&only.path, job.temp)?;
        return commit(&only.path, job);
    }
    let mut out = File::create(job.temp).map_err(Error::io("write", job.temp))?;
    let mut over = None;
    if continues {
        append_existing(job.cassette, &mut out)?;
        // What is added came later, whatever the clock said.
        over = journal::latest_of_all(job.temp);
    }
    for segment in job.segments {
        append_segment(segment, over, &mut out).map_err(Error::io("write", job.temp))?;
    }
    out.sync_all().map_err(Error::io("write", job.temp))?;
    commit(job.temp, job)
}

fn append_existing(cassette: &Path, out: &mut File) -> Result<()> {
    if ends_a_line(cassette).map_err(Error::io("read", cassette))? {
        let mut old = File::open(cassette).map_err(Error::io("read", cassette))?;
        io::copy(&mut old, out).map_err(Error::io("write", cassette))?;
    } else {
        let old = journal::write(&Cassette::read(cassette)?);
        out.write_all(old.as_bytes()).map_err(Error::io("write", cassette))?;
    }
    Ok(())
}

/// Whether a file is a journal that can be gone on with: its last line is not torn.
fn ends_a_line(path: &Path) -> io::Result<bool> {
    let mut first = Vec::new();
    let mut file = BufReader::new(File::open(path)?);
    file.read_until(b'\n', &mut first)?;
    if !std::str::from_utf8(&first).is_ok_and(is_journal_head) {
        return Ok(false);
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    Ok(last == *b"\n")
}

/// Copies a segment up to its last whole line; one without an end gets one that says so, and one that seems to begin
/// before `over` begins then.
fn append_segment(segment: &SegmentInfo, over: Option<i64>, out: &mut File) -> io::Result<()> {
    let mut file = File::open(&segment.path)?;
    let whole = whole_lines(&mut file)?;
    file.seek(SeekFrom::Start(0))?;
    let mut lines = BufReader::new(file.take(whole));
    let mut head = Vec::new();
    lines.read_until(b'\n', &mut head)?;
    match std::str::from_utf8(&head) {
        Ok(head) => out.write_all(journal::not_before(head, over).as_bytes())?,
        Err(_) => out.write_all(&head)?,
    }
    io::copy(&mut lines, out)?;
    if segment.killed {
        out.write_all(journal::end_line("killed", Vec::new()).as_bytes())?;
    }
    Ok(())
}

/// The length of a file up to and with its last line feed.
fn whole_lines(file: &mut File) -> io::Result<u64> {
    let mut end = file.metadata()?.len();
    let mut block = vec![0; 64 << 10];
    while end > 0 {
        let start = end.saturating_sub(block.len() as u64);
        let size = usize::try_from(end - start).unwrap_or(block.len());
        let part = block.get_mut(..size).unwrap_or_default();
        file.seek(SeekFrom::Start(start))?;
        file.read_exact(part)?;
        if let Some(at) = memchr::memrchr(b'\n', part) {
            return Ok(start + at as u64 + 1);
        }
        end = start;
    }
    Ok(0)
}

fn write_temp(temp: &Path, bytes: &[u8], mode: Option<fs::Permissions>) -> Result<()> {
    let write = || {
        let mut file = File::create(temp)?;
        if let Some(mode) = mode {
            file.set_permissions(mode)?;
        }
        file.write_all(bytes)?;
        file.sync_all()
    };
    write().map_err(Error::io("write", temp))
}

/// Gives a file the mode that a new one would have.
fn allow_by_umask(path: &Path, probe: &Path) -> Result<()> {
    let new = File::create(probe).and_then(|file| file.metadata()).map_err(Error::io("write", probe))?;
    fs::set_permissions(path, new.permissions()).map_err(Error::io("write", path))?;
    fs::remove_file(probe).map_err(Error::io("write", probe))
}

/// Puts the finished cassette in place. One that was there keeps its mode, which is its owner's choice.
fn commit(finished: &Path, job: &MergeJob<'_>) -> Result<Merged> {
    if let Ok(before) = fs::metadata(job.cassette) {
        fs::set_permissions(finished, before.permissions()).map_err(Error::io("write", finished))?;
    }
    let written: Metadata = fs::metadata(finished).map_err(Error::io("read", finished))?;
    job.committing(&written)?;
    put_in_place(finished, job.cassette)?;
    Ok(Merged::Written)
}

/// Renames a finished file to its place and syncs the folder, so that the name survives a crash.
fn put_in_place(finished: &Path, place: &Path) -> Result<()> {
    fs::rename(finished, place).map_err(Error::io("write", place))?;
    if let Some(folder) = place.parent() {
        let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        // Not every system lets a folder be synced; the rename itself has happened.
        if let Ok(folder) = File::open(folder) {
            let _ = folder.sync_all();
        }
    }
    Ok(())
}

/// Writes a file in one step: readers see the old one or the new one, and a link is followed, not replaced. A file that
/// was there keeps its mode.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<()> {
    let place = resolve(path);
    let mut name = std::ffi::OsString::from(".");
    name.push(place.file_name().unwrap_or_default());
    name.push(format!(".{}.tmp", std::process::id()));
    let temp = place.with_file_name(name);
    let like = fs::metadata(&place).ok().map(|meta| meta.permissions());
    let written = write_temp(&temp, bytes, like).and_then(|()| put_in_place(&temp, &place));
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written.map_err(|error| match error {
        Error::Io { source, .. } => Error::Io { doing: "write", path: path.to_path_buf(), source },
        other => other,
    })
}

/// Whether a cassette of that name is written as a journal: its name asks for it, or its size.
#[must_use]
pub fn asks_for_journal(path: &Path, cassette: &Cassette) -> bool {
    let views = cassette.records.iter().filter_map(record::Record::view);
    is_journal(path) || views.map(|view| view.whole.len() as u64).sum::<u64>() > DOCUMENT_LIMIT
}

/// Writes a cassette in the shape that its name and size ask for.
pub fn write(path: &Path, cassette: &Cassette) -> Result<()> {
    let text =
        if asks_for_journal(path, cassette) { journal::write(cassette) } else { document::write(cassette) };
    replace(path, text.as_bytes())
}

/// A cassette and what was recorded later.
fn joined(old: Cassette, mut new: Cassette) -> Cassette {
    // What is added came later, whatever the clock said.
    let last = old.records.iter().map(|record| record.at).max().unwrap_or(0);
    if let (Some(before), Some(began)) =
        (clock::parse(&old.head.recorded_at), clock::parse(&new.head.recorded_at))
    {
        let over = before.saturating_add(i64::try_from(last).unwrap_or(i64::MAX));
        if began < over && old.timing == Timing::Known {
            new.head.recorded_at = clock::from_micros(over, true);
        }
    }
    let mut series = Series::onto(old);
    series.add(new);
    series.finish()
}

/// Reads what stands on disk under a cassette's name: the file, or the segments that are to become it.
pub fn read_segments(segments: &[SegmentInfo], onto: Option<&Path>) -> Result<Cassette> {
    let mut series = Series::default();
    let damage = add_segments(&mut series, segments)?;
    let mut cassette = series.finish();
    if let Some(path) = onto {
        cassette = joined(Cassette::read(path)?, cassette);
    }
    cassette.warnings.extend(damage);
    Ok(cassette)
}

/// Adds what can be read of segments, and gives what could not be read of them, in words.
pub fn add_segments(series: &mut Series, segments: &[SegmentInfo]) -> Result<Vec<String>> {
    let mut damage = Vec::new();
    for segment in segments {
        let salvaged = journal::salvage(segment)?;
        series.add(salvaged.cassette);
        damage.extend(salvaged.damage);
    }
    Ok(damage)
}
