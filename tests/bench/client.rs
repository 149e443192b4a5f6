//! A client that is never the slow one: requests are made beforehand, and answers are counted, not parsed.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

pub(crate) const INITIALIZE: &str = concat!(
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","#,
    r#""capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}"#,
    "\n",
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    "\n"
);

/// A program whose standard input and output are ours.
pub(crate) struct Peer {
    pub(crate) process: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    pub(crate) started: Instant,
}

impl Peer {
    pub(crate) fn start<S: AsRef<OsStr>>(program: &Path, arguments: &[S]) -> Self {
        let started = Instant::now();
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let (input, output) = (process.stdin.take(), process.stdout.take());
        Self { process, input, output, started }
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.input.as_mut().expect("an open input").write_all(bytes).expect("a program that reads");
    }

    /// Sends on a thread, so that this one can read.
    pub(crate) fn send_along(&mut self, bytes: Vec<u8>) -> JoinHandle<ChildStdin> {
        let mut input = self.input.take().expect("an open input");
        thread::spawn(move || {
            input.write_all(&bytes).expect("a program that reads");
            input
        })
    }

    pub(crate) fn sent(&mut self, sending: JoinHandle<ChildStdin>) {
        self.input = Some(sending.join().expect("everything sent"));
    }

    /// Reads until so many lines have come.
    pub(crate) fn lines(&mut self, wanted: usize) {
        let mut buffer = vec![0; 64 << 10];
        let mut found = 0;
        while found < wanted {
            let length = self.output.as_mut().expect("an output").read(&mut buffer).expect("answers");
            assert!(length > 0, "the program ended after {found} of {wanted} answers");
            found += memchr::memchr_iter(b'\n', &buffer[..length]).count();
        }
    }

    /// One round trip.
    pub(crate) fn ask(&mut self, request: &[u8]) -> Duration {
        let started = Instant::now();
        self.send(request);
        self.lines(1);
        started.elapsed()
    }

    /// The handshake; how long after the start the first answer came.
    pub(crate) fn greet(&mut self) -> Duration {
        self.send(INITIALIZE.as_bytes());
        self.lines(1);
        self.started.elapsed()
    }

    pub(crate) fn close_input(&mut self) {
        self.input = None;
    }

    /// Lets it end.
    pub(crate) fn end(mut self) {
        self.close_input();
        // Whoever is still writing finds a reader.
        let mut output = self.output.take().expect("an output");
        let _ = std::io::copy(&mut output, &mut std::io::sink());
        let _ = self.process.wait();
    }

    /// The most memory it has had, in bytes.
    pub(crate) fn peak_memory(&self) -> usize {
        self.memory("VmHWM:")
    }

    /// The memory that it has now, in bytes.
    pub(crate) fn resident_memory(&self) -> usize {
        self.memory("VmRSS:")
    }

    fn memory(&self, name: &str) -> usize {
        let status =
            std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        let kilobytes = line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<usize>().ok());
        kilobytes.unwrap_or(0) * 1024
    }

    /// A line of its output.
    pub(crate) fn line(&mut self) -> String {
        let (mut line, mut byte) = (Vec::new(), [0]);
        let output = self.output.as_mut().expect("an output");
        while !line.ends_with(b"\n") && output.read(&mut byte).is_ok_and(|length| length > 0) {
            line.push(byte[0]);
        }
        String::from_utf8(line).expect("text")
    }

    /// Ends it by SIGTERM.
    pub(crate) fn stop(self) {
        let id = i32::try_from(self.process.id()).ok().and_then(Pid::from_raw).expect("a process id");
        // It may have ended by itself.
        let _ = kill_process(id, Signal::TERM);
        self.end();
    }
}

/// The same with an argument that is redacted.
pub(crate) fn calls_with_secrets(count: usize, size: usize) -> Vec<u8> {
    let text = String::from_utf8(calls(count, size)).expect("text");
    text.replace(r#""limit":10"#, r#""api_key":"k1""#).into_bytes()
}

/// The tool calls with the ids from 1 to `count`, each about `size` bytes and unlike the others.
pub(crate) fn calls(count: usize, size: usize) -> Vec<u8> {
    let mut text = String::with_capacity(count * (size + 32));
    for id in 1..=count {
        let start = text.len();
        let _ = write!(
            text,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"search","arguments":{{"query":"item {id}","limit":10"#
        );
        let used = text.len() - start + r#","note":""}}}"#.len();
        if size > used {
            text.push_str(r#","note":""#);
            push_prose(&mut text, size - used);
            text.push('"');
        }
        text.push_str("}}}\n");
    }
    text.into_bytes()
}

/// A result of about `size` bytes: half text, half structure.
pub(crate) fn tool_result(id: usize, size: usize) -> String {
    let mut text = String::with_capacity(size + 128);
    let _ = write!(text, r#"{{"content":[{{"type":"text","text":"item {id}: "#);
    let frame = text.len() + r#""}],"structuredContent":{"rows":[]},"isError":false}"#.len() + 40;
    let free = size.saturating_sub(frame);
    push_prose(&mut text, if free < 200 { free } else { free / 2 });
    text.push_str("\"}]");
    if free >= 200 {
        text.push_str(r#","structuredContent":{"rows":["#);
        let mut row = 0;
        while text.len() + 40 < size {
            let comma = if row == 0 { "" } else { "," };
            let _ =
                write!(text, r#"{comma}{{"row":{row},"name":"row {row} of {id}","ok":true,"score":0.25}}"#);
            row += 1;
        }
        text.push_str("]}");
    }
    text.push_str(r#","isError":false}"#);
    text
}

/// Words with a line end and a quotation here and there, as tools write them.
pub(crate) fn push_prose(text: &mut String, length: usize) {
    const PROSE: &str = r#"The quick brown fox jumps over the lazy dog, says \"the report\" of last week.\nNothing else was found in this place; see the other one. "#;
    let end = text.len() + length;
    while text.len() < end {
        let left = end - text.len();
        let mut piece = PROSE.get(..left).unwrap_or(PROSE);
        // No half escape.
        piece = piece.strip_suffix('\\').unwrap_or(piece);
        text.push_str(piece);
        if piece.len() < PROSE.len() {
            break;
        }
    }
}

/// The id of a request made by [`calls`].
pub(crate) fn id_of(line: &str) -> Option<usize> {
    let (_, rest) = line.split_once("\"id\":")?;
    rest.split([',', '}']).next()?.parse().ok()
}
