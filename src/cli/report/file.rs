//! A report file: lines of JSON, one for each replay that has ended, appended by any number of processes at once.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use serde::Serialize;

use super::row::Row;
use crate::cassette::{Cassette, lock};
use crate::cli::{files, standard};
use crate::error::{Error, Result, words};

const DOING: &str = "write the report";
/// What is written at once where a reader may take nothing, in bytes.
const PART: usize = 4096;
/// How long such a reader may take nothing. Clients kill a server that takes longer than two seconds to end.
const PATIENCE: Duration = Duration::from_millis(1500);

/// Says now what would keep the report from being written later.
pub fn check(path: &Path) -> Result<()> {
    // Opening and closing a pipe would tell its reader that this was all: it is kept open until the report is written.
    let there = std::fs::metadata(path);
    if there.is_ok_and(|there| !there.is_file() && !there.is_dir()) {
        return files::hold_pipe(path).map_err(Error::io(DOING, path));
    }
    refuse_cassette(path)?;
    open(path).map(|_| ()).map_err(Error::io(DOING, path))
}

/// Refuses a cassette as the report: its rows would spoil it.
pub fn refuse_cassette(path: &Path) -> Result<()> {
    if !is_cassette(path) {
        return Ok(());
    }
    let what = "is a cassette; a report goes into a file or a folder of its own";
    Err(Error::Usage(format!("--report {}: {what}", path.display())))
}

/// Whether the file is a cassette of any format, or damaged and begins as one does. A report is told by its first row.
fn is_cassette(path: &Path) -> bool {
    if !std::fs::metadata(path).is_ok_and(|there| there.is_file()) {
        return false;
    }
    let mut start = Vec::new();
    let read = File::open(path).and_then(|file| file.take(4096).read_to_end(&mut start));
    if read.is_err() || start.is_empty() || start.trim_ascii_start().starts_with(START) {
        return false;
    }
    let opened = start.trim_ascii_start().strip_prefix(b"{").unwrap_or_default().trim_ascii_start();
    opened.starts_with(b"\"mcpreel\"") || Cassette::read(path).is_ok()
}

/// Adds a line, whole or not at all.
///
/// The kernel puts each write of an appending file behind all others, but a long one may take several: a lock keeps
/// others from coming in between. What a killed process left of its line is closed by a line end first, so that it
/// spoils no other line.
pub fn append(path: &Path, line: &str) -> Result<()> {
    let file = open(path).and_then(lock_if_possible).map_err(Error::io(DOING, path))?;
    let added = match file.metadata() {
        Ok(there) if !there.is_file() => hand_over(file, format!("{line}\n").into_bytes()),
        _ => add(&file, line),
    };
    added.map_err(Error::io(DOING, path))
}

/// Writes to what is no regular file, and may have a reader that takes nothing: the end of a program waits for no such
/// reader. A thread writes, since nothing ends a write that waits but the end of the program.
fn hand_over(mut file: File, text: Vec<u8>) -> io::Result<()> {
    let (tell, told) = channel();
    let write = move || {
        for part in text.chunks(PART) {
            let written = file.write_all(part);
            let failed = written.is_err();
            // Nobody listens any more when it took too long.
            if tell.send(written).is_err() || failed {
                return;
            }
        }
    };
    std::thread::Builder::new().name("report".to_owned()).spawn(write)?;
    loop {
        match told.recv_timeout(PATIENCE) {
            Ok(written) => written?,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => return Err(io::Error::other("its reader takes nothing")),
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    if files::is_pipe(path) {
        return files::open_pipe(path);
    }
    let mut options = OpenOptions::new();
    options.create(true).append(true);
    let may_read = std::fs::metadata(path).map_or(true, |there| there.is_file());
    // Only who can read it sees whether the last line is whole; a file for writing alone does as well.
    options.clone().read(may_read).open(path).or_else(|_| options.open(path))
}

/// Some file systems have no locks. There, one write is all that can be done.
fn lock_if_possible(file: File) -> io::Result<File> {
    let spare = file.try_clone()?;
    Ok(lock::hold(file).unwrap_or(spare))
}

fn add(mut file: &File, line: &str) -> io::Result<()> {
    let before = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|found| found.len());
    let torn =
        before.is_some_and(|length| length > 0 && last_byte(file, length).is_some_and(|byte| byte != b'\n'));
    let text = format!("{}{line}\n", if torn { "\n" } else { "" });
    let written = file.write_all(text.as_bytes());
    if let (Err(_), Some(before)) = (&written, before) {
        // Half a line would be taken for the work of a killed process.
        let _ = file.set_len(before);
    }
    written
}

fn last_byte(mut file: &File, length: u64) -> Option<u8> {
    use std::io::{Seek as _, SeekFrom};
    let mut byte = [0];
    file.seek(SeekFrom::Start(length - 1)).ok()?;
    file.read_exact(&mut byte).ok()?;
    Some(byte[0])
}

/// A line of a report that holds no whole row, because its process was killed while it wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Torn {
    /// The file as the user named it.
    pub file: String,
    /// The line, from 1.
    pub line: usize,
}

/// How every row begins.
const START: &[u8] = b"{\"mcpreel_report\":";

/// Reads the rows of a report and where there are torn ones; `-` is standard input.
pub fn read(input: &str) -> Result<(Vec<Row>, Vec<Torn>)> {
    let name = if input == "-" { "standard input" } else { input };
    let read = if input == "-" { standard::read_to_end() } else { std::fs::read(input) };
    let bytes = read.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::input(name, "", "no such report: no replay has written one"),
        _ => Error::input(name, "", format!("cannot be read: {}", words(&error))),
    })?;
    let (rows, torn) = parse(name, &bytes)?;
    if rows.is_empty() && torn.is_empty() {
        return Err(Error::input(name, "", "holds no report: no replay that was to write one has ended"));
    }
    Ok((rows, torn))
}

/// The rows of a report file that may be empty or not there, and where there are torn ones.
pub fn read_any(path: &Path) -> Result<(Vec<Row>, Vec<Torn>)> {
    match std::fs::read(path) {
        Ok(bytes) => parse(&path.to_string_lossy(), &bytes),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok((Vec::new(), Vec::new())),
        Err(error) => Err(Error::io("read the report", path)(error)),
    }
}

fn parse(name: &str, bytes: &[u8]) -> Result<(Vec<Row>, Vec<Torn>)> {
    let (mut rows, mut torn) = (Vec::new(), Vec::new());
    for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1..) {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        match serde_json::from_slice::<Row>(line) {
            Ok(row) if row.mcpreel_report == 1 => rows.push(row),
            Ok(row) => {
                let what = format!(
                    "is a report of format {}, and this mcpreel reads format 1; use a newer one",
                    row.mcpreel_report
                );
                return Err(Error::input(name, format!("line {number}"), what));
            }
            Err(error) if error.is_eof() && (line.starts_with(START) || START.starts_with(line)) => {
                torn.push(Torn { file: name.to_owned(), line: number });
            }
            Err(error) => {
                let why = error.to_string();
                let why = why.split(" at line ").next().unwrap_or_default();
                let what = format!("is no report of a replay, as --report writes them: {why}");
                return Err(Error::input(name, format!("line {number}"), what));
            }
        }
    }
    Ok((rows, torn))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_is_closed_and_a_whole_one_is_not() {
        let path = std::env::temp_dir().join(format!("mcpreel-report-{}", std::process::id()));
        for (before, after) in
            [("", "row\n"), ("a\n", "a\nrow\n"), ("a\nhal", "a\nhal\nrow\n"), ("\n", "\nrow\n")]
        {
            std::fs::write(&path, before).unwrap();
            append(&path, "row").unwrap();
            assert_eq!(std::fs::read_to_string(&path).unwrap(), after);
        }
        std::fs::remove_file(&path).unwrap();
    }
}
