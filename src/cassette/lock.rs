//! Locks on files, by `fd-lock`: the kernel frees them when their process ends, however it ends.
//!
//! A lock belongs to the open file, not to a value of this program: it is held until the last descriptor of that
//! opening is closed. That lets a file move between threads without a borrowed guard going with it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use fd_lock::RwLock;

use super::owner::system;

/// Waits for the exclusive lock on an open file and gives the file back locked, until it is closed.
pub(crate) fn hold(file: File) -> io::Result<File> {
    let mut lock = RwLock::new(file);
    loop {
        match lock.write() {
            // The guard would unlock when dropped; it owns nothing else.
            Ok(guard) => {
                std::mem::forget(guard);
                break;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(lock.into_inner())
}

/// Whether some process holds the exclusive lock on the file at `path`. It is told by asking for a shared lock and
/// giving it back at once; nobody asks for an exclusive lock on a file that others can see already, so that this
/// never stands in anybody's way.
pub(crate) fn is_held(path: &Path) -> io::Result<bool> {
    let lock = RwLock::new(File::open(path)?);
    match lock.try_read() {
        Ok(_guard) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(true),
        Err(error) => Err(error),
    }
}

/// Opens the file at `path`, which is created if need be, and waits for its exclusive lock. Who waited may have got
/// the lock of a file that was removed meanwhile: then it starts over with the file that is there now.
pub(crate) fn open_locked(path: &Path) -> io::Result<File> {
    loop {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let file = hold(system::private(&mut options).open(path)?)?;
        if system::is_still_at(&file, path) {
            return Ok(file);
        }
    }
}

/// The first line of a file that [`write_line`] writes.
pub(crate) fn read_line(mut file: &File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.seek(SeekFrom::Start(0))?;
    file.read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.split_once('\n').map_or(String::new(), |(line, _)| line.to_owned()))
}

/// Replaces the content of a file by one line, in place, since a renamed file would lose its lock. The line and its
/// end go out in one write and only the first line counts, so that a reader in between sees the old or the new one.
pub(crate) fn write_line(mut file: &File, line: &str) -> io::Result<()> {
    let text = format!("{line}\n");
    file.seek(SeekFrom::Start(0))?;
    file.write_all(text.as_bytes())?;
    file.set_len(text.len() as u64)
}
