//! The one error type. A value says what went wrong, where, and what to do about it, in one line, and knows the
//! exit code it leads to.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use crate::exit;

/// Shorthand for results of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that ends a command early.
#[derive(Debug)]
pub enum Error {
    /// The command line or a configuration value makes no sense. Exit 2.
    Usage(String),
    /// A file cannot be understood: where in it (line, JSON pointer; may be empty) and what was expected. Exit 2.
    Input {
        /// The file as the user named it.
        path: PathBuf,
        /// A place inside it, such as `line 12`; empty when the whole file is meant.
        place: String,
        /// What is wrong and what would settle it.
        what: String,
    },
    /// The system refused a file or folder. Exit 1.
    Io {
        /// What was being done, as a verb phrase: `write the cassette`.
        doing: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Another recording owns the cassette. Exit 6.
    Owned {
        /// The cassette.
        path: PathBuf,
        /// Who holds it, for people.
        holder: String,
    },
    /// The wrapped program was not found. Exit 127.
    NotFound(String),
    /// The wrapped program was found and cannot be run. Exit 126.
    CannotRun {
        /// The program as given.
        program: String,
        /// Why not.
        why: String,
    },
    /// It could not be done, for the reason given. Exit 1.
    Failed(String),
}

impl Error {
    /// An [`Error::Input`] about a place in a file.
    pub fn input(path: impl AsRef<Path>, place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Input { path: path.as_ref().to_path_buf(), place: place.into(), what: what.into() }
    }

    /// An [`Error::Io`], for use in `map_err`.
    pub fn io(doing: &'static str, path: impl AsRef<Path>) -> impl FnOnce(io::Error) -> Self {
        let path = path.as_ref().to_path_buf();
        move |source| Self::Io { doing, path, source }
    }

    /// An [`Error::Failed`] about what is no file, for use in `map_err`: `cannot DOING: what the system said`.
    pub fn failed(doing: impl fmt::Display + Copy) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Failed(format!("cannot {doing}: {}", words(&source)))
    }

    /// The exit code this error ends the program with.
    #[must_use]
    pub fn code(&self) -> u8 {
        match self {
            Self::Usage(_) | Self::Input { .. } => exit::USAGE,
            Self::Io { .. } | Self::Failed(_) => exit::FAILED,
            Self::Owned { .. } => exit::OWNED,
            Self::NotFound(_) => exit::NOT_FOUND,
            Self::CannotRun { .. } => exit::CANNOT_RUN,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(what) | Self::Failed(what) => out.write_str(what),
            Self::Input { path, place, what } if place.is_empty() => {
                write!(out, "{}: {what}", path.display())
            }
            Self::Input { path, place, what } => write!(out, "{}: {place}: {what}", path.display()),
            Self::Io { doing, path, source } => {
                write!(out, "cannot {doing} {}: {}", path.display(), words(source))
            }
            Self::Owned { path, holder } => write!(
                out,
                "{}: another recording owns this cassette ({holder}); wait for it, or take over with --force",
                path.display()
            ),
            Self::NotFound(program) => write!(out, "{program}: command not found"),
            Self::CannotRun { program, why } => write!(out, "{program}: cannot be run: {why}"),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

/// What the system said, without Rust's `(os error N)` tail.
#[must_use]
pub fn words(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(at) => text.get(..at).unwrap_or(&text).to_lowercase(),
        None => text,
    }
}
