//! Cassettes to measure with, recorded by the mcpreel under test.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Bench;
use crate::client::{Peer, calls};

impl Bench {
    /// Records a handshake and `count` tool calls, with messages of about `size` bytes. Above 64 MiB mcpreel makes a
    /// journal of it.
    pub(crate) fn recorded(&self, name: &str, count: usize, size: usize) -> PathBuf {
        self.recorded_of(name, calls(count, size), (count, size))
    }

    /// The same with these calls.
    pub(crate) fn recorded_of(&self, name: &str, calls: Vec<u8>, (count, size): (usize, usize)) -> PathBuf {
        let path = self.path(name);
        let mut peer = self.recorder(&path, &[], &["answer", &size.to_string()]);
        peer.greet();
        let sending = peer.send_along(calls);
        peer.lines(count);
        peer.sent(sending);
        peer.end();
        assert!(path.exists(), "no cassette was made");
        path
    }

    /// A recorder around one of our servers.
    pub(crate) fn recorder(&self, cassette: &Path, options: &[&str], server: &[&str]) -> Peer {
        let (cassette, own) = (cassette.display().to_string(), self.own.display().to_string());
        let mut arguments =
            vec!["record", "--session", "bench", "--server", "bench", "--cassette", &cassette];
        arguments.extend(options);
        arguments.extend(["--", &own]);
        arguments.extend(server);
        Peer::start(&self.program, &arguments)
    }

    /// A replay of a cassette.
    pub(crate) fn replayer(&self, cassette: &Path) -> Peer {
        self.replayer_with(cassette, &[])
    }

    /// A replay of a cassette with further options.
    pub(crate) fn replayer_with(&self, cassette: &Path, options: &[&str]) -> Peer {
        let cassette = cassette.display().to_string();
        let mut arguments = vec!["serve", "--session", "bench", &cassette];
        arguments.extend(options);
        Peer::start(&self.program, &arguments)
    }

    /// The same cassette as a document, or as one of mcp-cassette's.
    pub(crate) fn converted(&self, cassette: &Path, name: &str, format: &str) -> PathBuf {
        let path = self.path(name);
        let status = Command::new(&self.program)
            .args(["convert", "--lossy", "--to", format, "-o"])
            .args([&path, cassette])
            .stderr(Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "convert failed");
        path
    }
}

pub(crate) fn size(path: &Path) -> usize {
    std::fs::metadata(path).map_or(0, |meta| usize::try_from(meta.len()).unwrap_or(0))
}

/// For people: `104 MB`.
pub(crate) fn megabytes(path: &Path) -> String {
    format!("{} MB", size(path) / 1_000_000)
}
