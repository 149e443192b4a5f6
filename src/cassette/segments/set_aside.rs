//! Recordings that were moved out of the way, `<cassette>.partial.N`. Nobody writes into one any more, so there is
//! nothing to lock.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::session::{IGNORE, NOTE, TEMP_DOCUMENT};
use super::{folder, segments_in};
use crate::cassette::series::Series;
use crate::cassette::{Cassette, clock, merge};
use crate::error::{Error, Result};

/// The cassette that a folder of this name was a recording of; `None` when it is no such name.
#[must_use]
pub fn cassette_of(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name()?.to_str()?;
    let (cassette, number) = name.rsplit_once(".partial.")?;
    let is_number = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit());
    (is_number && !cassette.is_empty()).then(|| folder.with_file_name(cassette))
}

/// What had been recorded, as a cassette, and what could not be read of it, in words.
pub fn read(folder: &Path) -> Result<(Cassette, Vec<String>)> {
    let mut series = Series::default();
    let damage = merge::add_segments(&mut series, &segments_in(folder)?)?;
    let mut cassette = series.finish();
    if let Some(started) = clock::parse(&cassette.head.recorded_at) {
        cassette.head.recorded_at = clock::from_micros(started, false);
    }
    Ok((cassette, damage))
}

/// Removes the folder with all that is ours in it.
pub fn remove(folder: &Path) -> Result<()> {
    let removing = "remove the recording folder";
    let ours = folder::segments(folder)?.into_iter().map(|segment| segment.path);
    for file in ours.chain([IGNORE, NOTE, TEMP_DOCUMENT].map(|name| folder.join(name))) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(Error::io(removing, &file)(error));
            }
            _ => {}
        }
    }
    match fs::remove_dir(folder) {
        // Somebody keeps files of their own there.
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(()),
        other => other.map_err(Error::io(removing, folder)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_folder_tells_its_cassette() {
        for (folder, cassette) in [
            ("a/c.json.partial.1", Some("a/c.json")),
            ("c.partial.12", Some("c")),
            ("c.json.partial", None),
            ("c.json.partial.", None),
            ("c.json.partial.x", None),
            (".partial.1", None),
            ("..", None),
        ] {
            assert_eq!(cassette_of(Path::new(folder)), cassette.map(PathBuf::from), "{folder}");
        }
    }
}
