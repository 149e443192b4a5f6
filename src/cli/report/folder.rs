//! A folder of reports, in which each process has a file of its own.
//!
//! The file is there from the start and empty until the process ends. Whoever starts processes without seeing their
//! status, as test helpers do, learns from it that one was started, and that one was killed. Recordings leave a row in it
//! too, which says what was kept.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::path::Path;

use crate::cli::say;
use crate::error::{Error, Result};
use crate::replay::report::Report;

/// More files than one process number can have had in one folder.
const MOST: u32 = 1000;

/// A new file for this process, if what was named is a folder.
pub fn own_file(named: Option<&str>) -> Result<Option<String>> {
    let Some(folder) = named.map(Path::new).filter(|folder| folder.is_dir()) else { return Ok(None) };
    let pid = std::process::id();
    for nth in 1..MOST {
        let name = if nth == 1 { format!("{pid}.jsonl") } else { format!("{pid}-{nth}.jsonl") };
        let file = folder.join(name);
        match OpenOptions::new().write(true).create_new(true).open(&file) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            Err(error) => return Err(Error::io("write the report", &file)(error)),
            // It was UTF-8 when it was named.
            Ok(_) => return Ok(Some(file.to_string_lossy().into_owned())),
        }
    }
    Err(Error::Failed(format!("{}: holds too many reports", folder.display())))
}

/// Leaves the row of a process that has recorded, or could not begin. That it could not be left is told, and changes
/// nothing else.
pub fn leave(file: Option<&str>, report: &Report) {
    if let Some(Err(error)) = file.map(|file| super::file::append(Path::new(file), &report.json())) {
        say(&error.to_string());
    }
}
