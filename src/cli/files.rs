//! Files that commands read and write: any cassette in, and out to a file, a pipe or standard output. Never replaced is
//! a file that is not a cassette.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cassette::segments::{self, CassetteOnDisk};
use crate::cassette::{Cassette, Timing, document, foreign, journal, merge};
use crate::error::{Error, Result, words};
use crate::exit;

/// Reads a cassette: a file, a recording that has ended and is not merged yet, or standard input for `-`.
pub fn read(input: &str) -> Result<Cassette> {
    if input == "-" {
        let bytes = super::standard::read_to_end().map_err(Error::io("read", "standard input"))?;
        return Cassette::parse(Path::new("standard input"), bytes);
    }
    let path = Path::new(input);
    match segments::find(path)? {
        CassetteOnDisk::Document(_) | CassetteOnDisk::Absent => Cassette::read(path),
        CassetteOnDisk::Segments { segments, onto } => merge::read_segments(&segments, onto.as_deref()),
        CassetteOnDisk::Recording { owner, .. } => {
            Err(Error::input(path, "", format!("is being recorded ({owner}); try again when that has ended")))
        }
        CassetteOnDisk::Interrupted { folders } => {
            let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
            let what = format!(
                "no such cassette, but an interrupted recording is left in {}; mcpreel recover makes a cassette of it",
                folders.join(", ")
            );
            Err(Error::input(path, "", what))
        }
    }
}

/// What errors call an input.
pub fn called(input: &str) -> &str {
    if input == "-" { "standard input" } else { input }
}

/// Tells what a command has to say about its result: remarks, and what is lost.
pub fn tell<'a>(notes: &mut dyn Write, remarks: impl IntoIterator<Item = &'a String>, lost: &[String]) {
    for remark in remarks {
        // A note that cannot be printed must not stop the command.
        let _ = writeln!(notes, "mcpreel: note: {}", super::printable(&super::redaction::sayable(remark)));
    }
    for what in lost {
        let _ = writeln!(notes, "mcpreel: lost: {}", super::printable(&super::redaction::sayable(what)));
    }
}

/// What there is to say about a cassette that is rewritten.
pub fn remarks(cassette: &Cassette) -> Vec<String> {
    let mut remarks = cassette.warnings.clone();
    if let Timing::WrongLength(count) = cassette.timing {
        remarks.push(format!(
            "the {count} times in \"timing_ms\" do not fit the {} messages and are left out",
            cassette.records.len()
        ));
    }
    remarks
}

/// Where a result goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Standard output.
    Standard,
    /// A file, or something else that has a name.
    Path(PathBuf),
}

impl Output {
    /// What was typed behind `-o`.
    #[must_use]
    pub fn to(typed: &str) -> Self {
        if typed == "-" { Self::Standard } else { Self::Path(PathBuf::from(typed)) }
    }

    /// Refuses to replace what is no cassette, or what a recording is about to become.
    pub fn check(&self) -> Result<()> {
        match self {
            Self::Standard => Ok(()),
            Self::Path(path) => refuse_other_files(path),
        }
    }

    /// Writes the text; standard output is `out`.
    pub fn put(&self, text: &str, out: &mut dyn Write) -> Result<u8> {
        self.check()?;
        match self {
            Self::Standard => match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
                Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                    Err(Error::io("write", "standard output")(error))
                }
                _ => Ok(exit::OK),
            },
            Self::Path(path) => write(path, text).map(|()| exit::OK),
        }
    }

    /// Writes a cassette, in the shape that the name asks for.
    pub fn put_cassette(&self, cassette: &Cassette, out: &mut dyn Write) -> Result<u8> {
        let as_journal = match self {
            Self::Standard => false,
            Self::Path(path) => merge::asks_for_journal(path, cassette),
        };
        let text = if as_journal { journal::write(cassette) } else { document::write(cassette) };
        self.put(&text, out)
    }
}

/// A file that is no cassette is somebody's work; an empty one is nobody's.
fn refuse_other_files(path: &Path) -> Result<()> {
    match fs::metadata(path) {
        Ok(meta) if meta.is_file() && meta.len() > 0 => {
            let why = match Cassette::read(path) {
                Err(error) => format!("is not a cassette that can be read ({error})"),
                Ok(cassette) => foreign::keeps_from_replacing(path, &cassette).unwrap_or("").to_owned(),
            };
            if !why.is_empty() {
                return Err(Error::input(path, "", format!("exists and would be replaced, but {why}")));
            }
        }
        Ok(meta) if meta.is_dir() => {
            return Err(Error::input(path, "", "is a folder; expected a file to write"));
        }
        Ok(meta) if !meta.is_file() => return hold_pipe(path).map_err(Error::io("write", path)),
        Ok(_) => {}
        // A link to a file that is to come is one like any other.
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
        Err(error) => {
            let what = format!("cannot be looked at before it would be replaced: {}", words(&error));
            return Err(Error::input(path, "", what));
        }
    }
    match segments::find(path)? {
        CassetteOnDisk::Recording { owner, .. } => {
            Err(Error::input(path, "", format!("is being recorded ({owner}); try again when that has ended")))
        }
        CassetteOnDisk::Segments { .. } => {
            let what = "has a recording beside it that is not merged yet; mcpreel end finishes it";
            Err(Error::input(path, "", what))
        }
        _ => Ok(()),
    }
}

/// The pipes that have a reader: one opened and closed again would tell the reader that this was all.
static HELD: Mutex<Vec<(PathBuf, File)>> = Mutex::new(Vec::new());

/// How long the reader of a named pipe may take to open it.
const READER_WAIT: Duration = Duration::from_millis(200);

/// Whether there is a named pipe.
pub fn is_pipe(path: &Path) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt as _;
        fs::metadata(path).is_ok_and(|meta| meta.file_type().is_fifo())
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        false
    }
}

/// Says whether what is to be written is a named pipe that nobody reads, and keeps one with a reader open.
pub fn hold_pipe(path: &Path) -> io::Result<()> {
    if is_pipe(path) { open_pipe(path).map(|_| ()) } else { Ok(()) }
}

/// The named pipe, if somebody reads it. Opening it does not wait for that, writing to it does. Its reader sees the end
/// when this process ends.
pub fn open_pipe(path: &Path) -> io::Result<File> {
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((_, pipe)) = held.iter().find(|(name, _)| name == path) {
        return pipe.try_clone();
    }
    let started = Instant::now();
    let pipe = loop {
        match open_now(path) {
            // A shell starts the reader at the same time.
            Err(_) if started.elapsed() < READER_WAIT => std::thread::sleep(READER_WAIT / 20),
            opened => break opened?,
        }
    };
    held.push((path.to_path_buf(), pipe.try_clone()?));
    Ok(pipe)
}

#[cfg(unix)]
fn open_now(path: &Path) -> io::Result<File> {
    use rustix::fs::{Mode, OFlags, fcntl_getfl, fcntl_setfl, open};
    let flags = OFlags::WRONLY | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let pipe = open(path, flags, Mode::empty()).map_err(|error| match error {
        rustix::io::Errno::NXIO => io::Error::other("it is a pipe that nobody reads"),
        other => other.into(),
    })?;
    fcntl_setfl(&pipe, fcntl_getfl(&pipe)?.difference(OFlags::NONBLOCK))?;
    Ok(pipe.into())
}

#[cfg(not(unix))]
fn open_now(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).open(path)
}

/// Writes the file in one step. What is no regular file (a pipe, a device) is written to as it is.
fn write(path: &Path, text: &str) -> Result<()> {
    if fs::metadata(path).is_ok_and(|meta| !meta.is_file()) {
        let file = if is_pipe(path) { open_pipe(path) } else { OpenOptions::new().write(true).open(path) };
        return file.and_then(|mut file| file.write_all(text.as_bytes())).map_err(Error::io("write", path));
    }
    merge::replace(path, text.as_bytes())
}
