//! What the processes of a session report: each into a file of its own, in a folder for each server. A file that stays
//! without a row tells of a process that was killed, which a file that all share would not.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use super::text_of;
use crate::cassette::owner::system::create_private_folder;
use crate::cli::report::row::Row;
use crate::cli::report::{file, folder};
use crate::error::{Error, Result};

/// The reports of one session.
#[derive(Debug)]
pub(super) struct Reports {
    folder: PathBuf,
    /// Whose reports are in the folders `0`, `1` and so on: a server's name need not be one for a file.
    servers: Vec<String>,
}

/// What was reported.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// In the order in which the processes ended.
    pub(super) rows: Vec<Row>,
    /// The servers of processes that began and left no row, once for each.
    pub(super) silent: Vec<String>,
}

/// The file of one process.
struct One {
    server: String,
    path: PathBuf,
    changed: Option<SystemTime>,
}

impl Reports {
    /// Reports below this folder.
    pub(super) fn below(folder: &Path) -> Self {
        // The copy of the configuration is beside it, under the name that the original has.
        Self { folder: folder.join(".mcpreel-reports"), servers: Vec::new() }
    }

    /// The folder for the processes of a server.
    pub(super) fn folder_of(&mut self, server: &str) -> Result<String> {
        let place = self.servers.iter().position(|known| known == server).unwrap_or(self.servers.len());
        let folder = self.folder.join(place.to_string());
        for folder in [&self.folder, &folder] {
            create_private_folder(folder).map_err(Error::io("make a folder for reports", folder))?;
        }
        if place == self.servers.len() {
            self.servers.push(server.to_owned());
        }
        text_of(&folder)
    }

    fn files(&self) -> Result<Vec<One>> {
        let mut files = Vec::new();
        for (place, server) in self.servers.iter().enumerate() {
            let folder = self.folder.join(place.to_string());
            let entries = std::fs::read_dir(&folder).map_err(Error::io("read the reports", &folder))?;
            for entry in entries {
                let entry = entry.map_err(Error::io("read the reports", &folder))?;
                let changed = entry.metadata().and_then(|found| found.modified()).ok();
                files.push(One { server: server.clone(), path: entry.path(), changed });
            }
        }
        files.sort_by(|one, other| (one.changed, &one.path).cmp(&(other.changed, &other.path)));
        Ok(files)
    }

    /// What was reported until now.
    pub(super) fn read(&self) -> Result<Reported> {
        let mut reported = Reported::default();
        for One { server, path, .. } in self.files()? {
            let (rows, _) = file::read_any(&path)?;
            if rows.is_empty() {
                reported.silent.push(server);
            }
            reported.rows.extend(rows);
        }
        Ok(reported)
    }

    /// The numbers of the processes that have not reported yet.
    pub(super) fn unfinished(&self) -> Vec<u32> {
        let empty = |one: &One| std::fs::metadata(&one.path).is_ok_and(|found| found.len() == 0);
        let files = self.files().unwrap_or_default();
        files.iter().filter(|one| empty(one)).filter_map(|one| folder::pid_of(&one.path)).collect()
    }

    /// Adds all of it to a report of the user's: to a folder a file for each process, to a file the rows, where they are
    /// of replays.
    pub(super) fn hand_on(&self, to: &Path, replays: bool) -> Result<()> {
        if !to.is_dir() && !replays {
            return Ok(());
        }
        for One { path, .. } in self.files()? {
            let text = std::fs::read_to_string(&path).map_err(Error::io("read the report", &path))?;
            if to.is_dir() {
                folder::add(to, &path, &text)?;
                continue;
            }
            for row in text.lines() {
                file::append(to, row)?;
            }
        }
        Ok(())
    }
}
