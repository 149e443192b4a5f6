//! `--ready-file`: the file that says where an endpoint is, once clients can connect.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use crate::cassette::owner::system::private;
use crate::error::{Error, Result};

/// Takes away the file of an earlier run, at the start of a command: whoever waits for it must not find an address where
/// nobody listens any more.
///
/// # Errors
///
/// [`Error::Usage`] for what is no regular file: it cannot be written in one step, and is left alone.
pub fn clear(file: Option<&str>) -> Result<()> {
    let Some(path) = file.map(Path::new) else { return Ok(()) };
    let removed = match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => fs::remove_file(path),
        Ok(_) => {
            return Err(Error::Usage(format!(
                "--ready-file {}: is there and no regular file; name one that may be replaced",
                path.display()
            )));
        }
        // Where there is no folder either, the URL cannot be written, which is told then.
        Err(_) => Ok(()),
    };
    match removed {
        Err(error) if error.kind() != ErrorKind::NotFound => {
            Err(Error::io("replace the ready file", path)(error))
        }
        _ => Ok(()),
    }
}

/// Puts the URL there, in one step. It may hold a secret.
///
/// # Errors
///
/// When that cannot be done.
pub fn write(path: &Path, url: &str) -> Result<()> {
    let mut temp = path.as_os_str().to_owned();
    temp.push(format!(".{}.tmp", std::process::id()));
    let temp = PathBuf::from(temp);
    let written = private(fs::OpenOptions::new().write(true).create(true).truncate(true))
        .open(&temp)
        .and_then(|mut file| writeln!(file, "{url}"))
        .and_then(|()| fs::rename(&temp, path));
    if written.is_err() {
        let _ = fs::remove_file(&temp);
    }
    written.map_err(Error::io("write the ready file", path))
}
