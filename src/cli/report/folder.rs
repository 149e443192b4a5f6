//! A folder of reports, in which each process has a file of its own.
//!
//! The file is there from the start and empty until the process ends. Whoever starts processes without seeing their
//! status, as test helpers do, learns from it that one was started, and that one was killed. Recordings leave a row in it
//! too, which says what was kept.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::cli::say;
use crate::error::{Error, Result};
use crate::replay::report::Report;

/// More files than one process number can have had in one folder.
const MOST: u32 = 1000;

/// A new file for this process, if what was named is a folder.
pub fn own_file(named: Option<&str>) -> Result<Option<String>> {
    let Some(folder) = named.map(Path::new).filter(|folder| folder.is_dir()) else { return Ok(None) };
    let (file, _) = new_file(folder, &std::process::id().to_string())?;
    // It was UTF-8 when it was named.
    Ok(Some(file.to_string_lossy().into_owned()))
}

fn new_file(folder: &Path, pid: &str) -> Result<(PathBuf, File)> {
    for nth in 1..MOST {
        let name = if nth == 1 { format!("{pid}.jsonl") } else { format!("{pid}-{nth}.jsonl") };
        let file = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("write the report", &file)(error)),
            Ok(open) => return Ok((file, open)),
        }
    }
    Err(Error::Failed(format!("{}: holds too many reports", folder.display())))
}

/// The process whose file this is.
pub fn pid_of(file: &Path) -> Option<u32> {
    file.file_stem()?.to_str()?.split('-').next()?.parse().ok()
}

/// Adds the file of a process that reported elsewhere, with this text.
pub fn add(folder: &Path, file: &Path, text: &str) -> Result<()> {
    let pid = pid_of(file).unwrap_or_else(std::process::id);
    let (path, mut file) = new_file(folder, &pid.to_string())?;
    file.write_all(text.as_bytes()).map_err(Error::io("write the report", &path))
}

/// Leaves the row of a process that has recorded, or could not begin. That it could not be left is told, and changes
/// nothing else.
pub fn leave(file: Option<&str>, report: &Report) {
    if let Some(Err(error)) = file.map(|file| super::file::append(Path::new(file), &report.json())) {
        say(&error.to_string());
    }
}
