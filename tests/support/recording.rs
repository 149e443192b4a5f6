//! What the tests of recording share: test data, what a line is to look like in a cassette, and looks at processes.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::{Client, MCPREEL, Sandbox};

/// A file of `testdata/`.
pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(name)
}

/// The files of a folder of `testdata/`, by name.
pub fn testdata_files(folder: &str) -> Vec<PathBuf> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(testdata(folder)).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

/// The lines of a stream as a recorder counts them: a last one without `\n` is one, nothing after the last `\n` is
/// none.
pub fn lines_of(stream: &[u8]) -> Vec<&[u8]> {
    let mut lines: Vec<&[u8]> = stream.split(|byte| *byte == b'\n').collect();
    lines.pop_if(|last| last.is_empty());
    lines
}

/// A line as [`super::messages`] shows it: the value without insignificant white space, else the text, else base64.
/// Written without the code under test, but for base64.
pub fn as_recorded(side: char, line: &[u8]) -> String {
    use base64::Engine as _;

    let Ok(text) = std::str::from_utf8(line) else {
        return format!("{side} base64: \"{}\"", base64::engine::general_purpose::STANDARD.encode(line));
    };
    let bare = text.strip_prefix('\u{feff}').unwrap_or(text);
    if is_json(bare) { format!("{side} {}", squeezed(bare)) } else { format!("{side} text: {text}") }
}

/// Whether a text is one JSON value, by `serde_json`, which takes every depth and number when it only looks.
pub fn is_json(text: &str) -> bool {
    let mut reader = serde_json::Deserializer::from_str(text);
    let looked = <serde::de::IgnoredAny as serde::Deserialize>::deserialize(&mut reader);
    looked.is_ok() && reader.end().is_ok()
}

/// A JSON text without the white space between its tokens.
pub fn squeezed(text: &str) -> String {
    let (mut quoted, mut escaped) = (false, false);
    let keep = |letter: &char| {
        let keep = quoted || !matches!(letter, ' ' | '\t' | '\r' | '\n');
        if *letter == '"' && !escaped {
            quoted = !quoted;
        }
        escaped = quoted && *letter == '\\' && !escaped;
        keep
    };
    text.chars().filter(keep).collect()
}

/// Numbers that look random and are the same on every run (xorshift).
pub struct Random(pub u64);

impl Random {
    /// From 0 to `below - 1`.
    pub fn below(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }

    pub fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[usize::try_from(self.below(list.len() as u64)).unwrap()]
    }
}

/// Whether a process is there and not a zombie.
pub fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit_once(')').unwrap().1.trim_start().starts_with(['Z', 'X']))
}

/// A process number that a script wrote into a file (`echo $$ > file`), once it is there.
#[track_caller]
pub fn pid_in(path: &Path) -> u32 {
    let mut pid = None;
    super::eventually("a process number in a file", || {
        let text = std::fs::read_to_string(path).unwrap_or_default();
        pid = text.strip_suffix('\n').and_then(|text| text.trim().parse().ok());
        pid.is_some()
    });
    pid.unwrap()
}

impl Sandbox {
    /// A folder that is on no disk, where there is such a thing.
    pub fn in_memory() -> Self {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        Self::new_in(&base)
    }

    /// Starts a recorder of `server` with further arguments, e.g. `--session x`.
    pub fn recorder(&self, cassette: &str, more: &[&str], server: &[&str]) -> super::Run {
        let mut args = vec!["record", "--cassette", cassette];
        args.extend(more);
        args.push("--");
        args.extend(server);
        self.mcpreel(args)
    }

    /// `mcpreel use` in a mode, around `server`.
    pub fn user(&self, cassette: &str, more: &[&str], server: &[&str]) -> super::Run {
        let mut args = vec!["use", "--cassette", cassette];
        args.extend(more);
        args.push("--");
        args.extend(server);
        self.mcpreel(args)
    }

    /// The names of the files and folders in the sandbox that belong to a cassette, sorted.
    pub fn of_cassette(&self, cassette: &str) -> Vec<String> {
        let names = std::fs::read_dir(&self.path).unwrap();
        let mut names: Vec<String> = names
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(cassette))
            .collect();
        names.sort();
        names
    }

    /// The text of every file below the sandbox, recording folders included, with its path.
    pub fn every_file(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let mut found = Vec::new();
        let mut folders = vec![self.path.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap().flatten() {
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(entry.path()),
                    _ => found.extend(std::fs::read(entry.path()).ok().map(|bytes| (entry.path(), bytes))),
                }
            }
        }
        found
    }
}

impl Client {
    /// The next line of standard output as bytes with its end, or what there is of it; `None` when output has ended
    /// or nothing came in time.
    pub fn bytes_within(&mut self, limit: Duration) -> Option<Vec<u8>> {
        self.lines.recv_timeout(limit).ok()
    }

    /// Kills the program, reaps it, and leaves what it had written.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// The command of the built-in demo server.
pub const DEMO: [&str; 3] = [MCPREEL, "demo", "server"];

/// A client that looks at bytes, not lines.
pub struct ByteClient {
    pub child: std::process::Child,
    pub stdin: Option<std::process::ChildStdin>,
    pub stdout: Option<std::process::ChildStdout>,
}

impl super::Run {
    /// Starts it with pipes; what it says on standard error goes where that of the tests goes.
    pub fn start_bytes(mut self) -> ByteClient {
        use std::process::Stdio;
        let mut child = self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        ByteClient { stdin: child.stdin.take(), stdout: child.stdout.take(), child }
    }
}

impl ByteClient {
    pub fn write(&mut self, bytes: &[u8]) {
        use std::io::Write as _;
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// So many bytes, as soon as they are there.
    pub fn read_exactly(&mut self, count: usize) -> Vec<u8> {
        use std::io::Read as _;
        let mut stdout = self.stdout.take().unwrap();
        let (done, wait) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut bytes = vec![0; count];
            let read = stdout.read_exact(&mut bytes).map(|()| bytes);
            let _ = done.send((stdout, read));
        });
        let (stdout, read) = wait.recv_timeout(super::LONG).expect("bytes on standard output");
        self.stdout = Some(stdout);
        read.unwrap()
    }

    /// Closes our end, waits, and checks the status.
    #[track_caller]
    pub fn close(mut self, code: i32) {
        self.stdin = None;
        assert_eq!(self.end(), code);
    }

    /// Waits for it to end by itself, and gives the status.
    #[track_caller]
    pub fn end(mut self) -> i32 {
        super::code_of(super::wait(&mut self.child))
    }
}

impl Drop for ByteClient {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Set by `make bless`: golden files are written anew.
pub const MCPREEL_BLESS: &str = "MCPREEL_BLESS";
