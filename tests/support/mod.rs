//! What the tests share: a folder of their own, the binary, and a client that speaks over real pipes.

mod demo;
pub mod http;
pub mod replay;
pub mod tls;
pub mod web;

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, ExitStatus, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

pub mod recording;

/// The binary under test.
pub const MCPREEL: &str = env!("CARGO_BIN_EXE_mcpreel");

/// A hang limit, far above anything that is expected.
pub const LONG: Duration = Duration::from_secs(20);

/// Makes names of folders and sessions unique.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// A folder that goes away with the test.
pub struct Sandbox {
    pub path: PathBuf,
}

impl Sandbox {
    pub fn new() -> Self {
        Self::new_in(&std::env::temp_dir())
    }

    fn new_in(base: &Path) -> Self {
        let name = format!("mcpreel-test-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = base.join(name);
        std::fs::create_dir(&path).unwrap();
        Self { path }
    }

    /// A file with this content; parent folders are made.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, content).unwrap();
        path
    }

    /// A shell script that can be run as a server.
    pub fn script(&self, name: &str, body: &str) -> String {
        use std::os::unix::fs::PermissionsExt;
        let path = self.file(name, format!("#!/bin/sh\n{body}\n"));
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    }

    pub fn read(&self, name: &str) -> String {
        let path = self.path.join(name);
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    pub fn has(&self, name: &str) -> bool {
        self.path.join(name).exists()
    }

    /// The binary in this folder, in a session of its own unless the arguments name one.
    pub fn mcpreel<I: IntoIterator>(&self, args: I) -> Run
    where
        I::Item: AsRef<OsStr>,
    {
        let mut command = Command::new(MCPREEL);
        command.args(args).current_dir(&self.path);
        for variable in ["MCPREEL_MODE", "MCP_CASSETTE_MODE", "MCPREEL_SESSION", "CI"] {
            command.env_remove(variable);
        }
        // Tests stand for different clients, and all of them are this process.
        command.env(
            "MCPREEL_SESSION",
            format!("run-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed)),
        );
        Run { command, input: Vec::new() }
    }

    /// Records a session with the built-in demo server, one request after the other; gives what the client got.
    #[track_caller]
    pub fn record_demo(&self, cassette: &str, session: &[&str]) -> Vec<String> {
        let mut client = self
            .mcpreel([
                "record",
                "-q",
                "--cassette",
                cassette,
                "--server",
                "demo",
                "--",
                MCPREEL,
                "demo",
                "server",
            ])
            .start();
        let got = client.converse(session);
        client.close(0);
        got
    }

    /// Replays a cassette to the same session.
    #[track_caller]
    pub fn replay(&self, cassette: &str, session: &[&str], code: i32) -> (Vec<String>, Ended) {
        let mut client = self.mcpreel(["serve", cassette]).start();
        let got = client.converse(session);
        (got, client.close(code))
    }

    /// A document with these messages of one stdio server, written by hand: each line starts with `c ` or `s `.
    pub fn cassette(&self, name: &str, messages: &[&str]) -> PathBuf {
        self.cassette_with(name, "", messages)
    }

    /// The same with further members of the head, each followed by a comma.
    pub fn cassette_with(&self, name: &str, head: &str, messages: &[&str]) -> PathBuf {
        let records: Vec<String> = messages.iter().map(|line| record(line)).collect();
        let text = format!(
            "{{\"mcpreel\":1,\"recorded_at\":\"2026-11-29T20:33:00.000Z\",\"recorder\":\"mcpreel 0.1.0\",\
             \"servers\":{{\"demo\":{{\"transport\":\"stdio\",\"command\":[\"demo\"]}}}},{head}\"messages\":[{}]}}\n",
            records.join(",\n")
        );
        self.file(name, text)
    }
}

/// `c {...}`, `s {...}`, or with a connection: `c1 {...}`; `s text: noise` is a line that is not JSON.
fn record(line: &str) -> String {
    let (side, message) = line.split_once(' ').unwrap();
    let from = if side.starts_with('c') { "client" } else { "server" };
    let conn = if side.len() > 1 { format!("\"conn\":{},", &side[1..]) } else { String::new() };
    match message.strip_prefix("text: ") {
        Some(text) => {
            format!("{{{conn}\"from\":\"{from}\",\"text\":{}}}", serde_json::to_string(text).unwrap())
        }
        None => format!("{{{conn}\"from\":\"{from}\",\"payload\":{message}}}"),
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// One start of the binary.
pub struct Run {
    pub command: Command,
    input: Vec<u8>,
}

impl Run {
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.command.env(name, value);
        self
    }

    /// Standard input as bytes.
    pub fn input(mut self, bytes: impl AsRef<[u8]>) -> Self {
        self.input.extend_from_slice(bytes.as_ref());
        self
    }

    /// Standard input as lines.
    pub fn lines(mut self, lines: &[&str]) -> Self {
        for line in lines {
            self.input.extend_from_slice(line.as_bytes());
            self.input.push(b'\n');
        }
        self
    }

    /// Runs to the end.
    pub fn run(mut self) -> Done {
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let input = self.input;
        let writer = std::thread::spawn(move || {
            let _ = stdin.write_all(&input);
        });
        let output = wait_with_output(child);
        writer.join().unwrap();
        Done { output }
    }

    /// Starts it and leaves the pipes to the test.
    pub fn start(mut self) -> Client {
        let mut child =
            self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdin = child.stdin.take();
        let lines = follow(child.stdout.take().unwrap());
        let errors = follow(child.stderr.take().unwrap());
        let mut client = Client { child, stdin, lines, errors };
        if !self.input.is_empty() {
            client.write(&self.input);
        }
        client
    }
}

fn wait_with_output(mut child: Child) -> Output {
    let mut stdout = child.stdout.take().unwrap();
    let mut stderr = child.stderr.take().unwrap();
    let out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stdout.read_to_end(&mut bytes);
        bytes
    });
    let err = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = stderr.read_to_end(&mut bytes);
        bytes
    });
    let status = wait(&mut child);
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

/// Waits with the hang limit.
fn wait(child: &mut Child) -> ExitStatus {
    let deadline = Instant::now() + LONG;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            panic!("the program did not end within {LONG:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn follow(stream: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut stream = BufReader::new(stream);
        loop {
            let mut line = Vec::new();
            match stream.read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}

/// What a finished run left.
pub struct Done {
    pub output: Output,
}

impl Done {
    /// The exit status; a death by signal is 128 plus its number.
    pub fn code(&self) -> i32 {
        code_of(self.output.status)
    }

    pub fn stdout(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    pub fn stderr(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    /// Checks the exit status and shows the rest when it is another.
    #[track_caller]
    pub fn expect(self, code: i32) -> Self {
        assert_eq!(self.code(), code, "stderr: {}\nstdout: {}", self.stderr(), self.stdout());
        self
    }

    /// Lines of standard output.
    pub fn lines(&self) -> Vec<String> {
        self.stdout().lines().map(str::to_owned).collect()
    }
}

fn code_of(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt;
    status.code().or_else(|| status.signal().map(|signal| 128 + signal)).unwrap()
}

/// A client at the pipes of a running program.
pub struct Client {
    pub child: Child,
    pub stdin: Option<ChildStdin>,
    lines: Receiver<Vec<u8>>,
    errors: Receiver<Vec<u8>>,
}

impl Client {
    pub fn write(&mut self, bytes: &[u8]) {
        self.stdin.as_mut().unwrap().write_all(bytes).unwrap();
    }

    /// Sends one line.
    pub fn send(&mut self, line: &str) {
        self.write(format!("{line}\n").as_bytes());
    }

    /// The next line of standard output, without its end.
    #[track_caller]
    pub fn next(&mut self) -> String {
        match self.lines.recv_timeout(LONG) {
            Ok(line) => String::from_utf8(line).unwrap().trim_end_matches('\n').to_owned(),
            Err(RecvTimeoutError::Timeout) => panic!("nothing came on standard output within {LONG:?}"),
            Err(RecvTimeoutError::Disconnected) => {
                panic!("standard output has ended; stderr: {}", self.stderr())
            }
        }
    }

    /// Sends a request and gives the next line.
    #[track_caller]
    pub fn ask(&mut self, line: &str) -> String {
        self.send(line);
        self.next()
    }

    /// Sends each line and waits for the answers of those that are requests; gives all that came.
    #[track_caller]
    pub fn converse(&mut self, session: &[&str]) -> Vec<String> {
        let mut got = Vec::new();
        for line in session {
            self.send(line);
            let id = mcpreel::jsonrpc::message::View::of(line).ok().filter(|view| view.method.is_some());
            let Some(id) = id.and_then(|view| view.id).map(|id| id.of(line)) else { continue };
            loop {
                let answer = self.next();
                let view = mcpreel::jsonrpc::message::View::of(&answer);
                got.push(answer.clone());
                if view.is_ok_and(|view| {
                    view.method.is_none() && view.id.is_some_and(|own| own.of(&answer) == id)
                }) {
                    break;
                }
            }
        }
        got
    }

    /// That nothing comes until a ping is answered: what was sent before it has been dealt with, and got no answer.
    #[track_caller]
    pub fn nothing_comes(&mut self) {
        assert_eq!(self.ask(r#"{"jsonrpc":"2.0","id":"still?","method":"ping"}"#), PONG);
    }

    /// That standard output ends.
    #[track_caller]
    pub fn expect_end(&mut self) {
        match self.lines.recv_timeout(LONG) {
            Ok(line) => panic!("expected the end of output, got {}", String::from_utf8_lossy(&line)),
            Err(RecvTimeoutError::Timeout) => panic!("standard output did not end within {LONG:?}"),
            Err(RecvTimeoutError::Disconnected) => {}
        }
    }

    /// Closes our end, waits, and checks the status.
    #[track_caller]
    pub fn close(mut self, code: i32) -> Ended {
        self.stdin = None;
        self.end(code)
    }

    /// Waits for it to end by itself, and checks the status.
    #[track_caller]
    pub fn end(mut self, code: i32) -> Ended {
        let status = code_of(wait(&mut self.child));
        let rest: Vec<String> =
            self.lines.iter().map(|line| String::from_utf8_lossy(&line).trim_end().to_owned()).collect();
        let stderr = self.stderr();
        assert_eq!(status, code, "stderr: {stderr}\nrest of stdout: {rest:?}");
        Ended { rest, stderr }
    }

    /// Sends a signal by number.
    pub fn signal(&self, signal: i32) {
        signal_to(self.child.id(), signal);
    }

    /// All of standard error, once it has ended.
    pub fn stderr(&self) -> String {
        let mut all = Vec::new();
        while let Ok(line) =
            self.errors.recv_timeout(Duration::from_millis(if self.stdin.is_some() { 200 } else { 5000 }))
        {
            all.extend(line);
        }
        String::from_utf8_lossy(&all).into_owned()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What was left when a client's program had ended.
pub struct Ended {
    pub rest: Vec<String>,
    pub stderr: String,
}

/// The answer to the ping of [`Client::nothing_comes`].
pub const PONG: &str = r#"{"jsonrpc":"2.0","id":"still?","result":{}}"#;

pub fn signal_to(pid: u32, signal: i32) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::from_named_raw(signal).unwrap());
}

/// Waits until something holds.
#[track_caller]
pub fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + LONG;
    while !holds() {
        assert!(Instant::now() < deadline, "{what} did not come true within {LONG:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The messages of a cassette as JSON texts, packed, with `c ` or `s ` in front.
pub fn messages(path: &Path) -> Vec<String> {
    let cassette = mcpreel::cassette::Cassette::read(path).unwrap_or_else(|error| panic!("{error}"));
    cassette
        .records
        .iter()
        .map(|record| {
            let side = if record.from == mcpreel::cassette::Side::Client { 'c' } else { 's' };
            match record.body {
                mcpreel::cassette::Body::Payload(view) => {
                    format!("{side} {}", mcpreel::jsonrpc::pretty::packed(view.whole.of(&cassette.text)))
                }
                mcpreel::cassette::Body::Text(span) => {
                    format!("{side} text: {}", mcpreel::jsonrpc::string::decode(span.of(&cassette.text)))
                }
                mcpreel::cassette::Body::Base64(span) => {
                    format!("{side} base64: {}", span.of(&cassette.text))
                }
                mcpreel::cassette::Body::None => format!("{side} -"),
            }
        })
        .collect()
}

/// An `initialize` of a client with these capabilities.
pub fn initialize(capabilities: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":0,"method":"initialize","params":{{"protocolVersion":"2025-11-25","capabilities":{capabilities},"clientInfo":{{"name":"test","version":"1"}}}}}}"#
    )
}

/// A modern request: its `_meta` names the revision and these capabilities.
pub fn modern(id: &str, method: &str, params: &str, capabilities: &str) -> String {
    let rest = if params.is_empty() { String::new() } else { format!(",{params}") };
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{capabilities}}}{rest}}}}}"#
    )
}
