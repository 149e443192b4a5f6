//! Which paths a replay answers at: where the recorded server was, and where clients look that are not told.

use super::{OLD_POST, OLD_STREAM, PATH};
use crate::replay::tape::Tape;

/// The paths of an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    /// Where clients are told to go.
    pub announced: String,
    /// Streamable HTTP.
    endpoints: Vec<String>,
    /// Where a stream of HTTP+SSE begins.
    streams: Vec<String>,
}

/// What is at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// The endpoint.
    Endpoint,
    /// HTTP+SSE: the stream.
    Stream,
    /// HTTP+SSE: where messages are posted.
    Post,
    /// Nothing.
    Nothing,
}

impl Default for Paths {
    fn default() -> Self {
        let endpoints = [PATH, "/mcp/", "/"].map(str::to_owned).to_vec();
        Self { announced: PATH.to_owned(), endpoints, streams: Vec::new() }
    }
}

impl Paths {
    /// The paths of the server of a tape: that of its URL, those where it led its clients, and the usual ones.
    #[must_use]
    pub fn of(tape: &Tape) -> Self {
        let mut paths = Self::default();
        let manners = tape.manners();
        if let Some(path) = tape.place.path() {
            path.clone_into(&mut paths.announced);
        }
        if manners.old {
            paths.endpoints.retain(|path| *path != paths.announced);
            paths.streams.push(paths.announced.clone());
        } else {
            paths.endpoints.push(paths.announced.clone());
        }
        paths.endpoints.extend(manners.moved.iter().cloned());
        if tape.legacy && !paths.endpoints.iter().any(|path| path == OLD_STREAM) {
            paths.streams.push(OLD_STREAM.to_owned());
        }
        paths
    }

    /// What is at a path.
    #[must_use]
    pub fn at(&self, path: &str) -> Spot {
        let among = |list: &[String]| list.iter().any(|known| known == path);
        match path {
            _ if among(&self.streams) => Spot::Stream,
            _ if among(&self.endpoints) => Spot::Endpoint,
            OLD_POST if !self.streams.is_empty() => Spot::Post,
            _ => Spot::Nothing,
        }
    }
}
