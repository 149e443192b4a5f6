//! The tour over HTTP: a client of each era talks to the listening demo server through a recorder, then to the cassette.

use std::fmt::Write as _;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::{broken, command, cut, new_folder, say, show_secret};
use crate::cassette::Cassette;
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::http::client::{Options, Upstream};
use crate::http::sse::Parser;
use crate::jsonrpc::message::View;
use crate::mcp::{self, Era, headers};
use crate::stdio::tree::{Stop, terminate};

/// What a client of 2025-11-25 says, in a session that the server gives it.
const LEGACY: [&str; 4] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcpreel-tour","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress","arguments":{"steps":2},"_meta":{"progressToken":"tour"}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","api_key":"not-for-the-cassette"}}}"#,
];

/// What a client of 2026-07-28 says, each request by itself.
const MODERN: [&str; 3] = [
    r#"{"jsonrpc":"2.0","id":"a","method":"server/discover","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"weather","arguments":{"city":"Berlin"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    r#"{"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"progress","arguments":{"steps":2},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"progressToken":1}}}"#,
];

/// A call that neither makes.
const MISS: [&str; 1] = [
    r#"{"jsonrpc":"2.0","id":"d","method":"tools/call","params":{"name":"weather","arguments":{"city":"Lima"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
];

/// How long a program may take until it listens, on the slowest of machines.
const START: Duration = Duration::from_secs(30);

/// Does the round with `program` (this binary) and tells it on `out`. The folder with the cassette stays.
pub fn run(program: &Path, out: &mut dyn Write) -> Result<()> {
    if cfg!(not(unix)) {
        // A recorder that is ended in another way leaves its cassette unfinished.
        return Err(Error::Failed("demo --http needs a system with signals; demo needs none".to_owned()));
    }
    let folder = new_folder()?;
    let cassette = folder.join("demo.cassette.json");
    let start = |name, arguments: &[&str]| Listening::start(program, &folder, name, arguments);
    let mut text = String::new();

    let _ =
        writeln!(text, "1. Record: two clients call tools of the demo server through mcpreel, over HTTP.\n");
    let _ = writeln!(text, "   $ mcpreel demo server --listen 127.0.0.1:0");
    let server = start("server", &["demo", "server", "--listen", "127.0.0.1:0"])?;
    let _ = writeln!(
        text,
        "   $ mcpreel record --cassette demo.cassette.json --server demo --url {}",
        server.url
    );
    say(out, &mut text)?;
    let record = [
        "record",
        "-q",
        "--no-config",
        "--cassette",
        "demo.cassette.json",
        "--server",
        "demo",
        "--url",
        &server.url,
    ];
    let recorder = start("recorder", &record)?;
    let recorded = both(&recorder.url)?;
    recorder.end(0)?;
    server.end(0)?;
    let (legacy, modern) = recorded.split_at(LEGACY.len());
    let _ = writeln!(text, "\n   A client of 2025-11-25, in a session:\n");
    show(&mut text, &LEGACY, legacy);
    let _ = writeln!(text, "\n   A client of 2026-07-28, without one:\n");
    show(&mut text, &MODERN, modern);

    let held = Cassette::read(&cassette)?;
    let _ = writeln!(text, "\n2. The cassette: {} records in {}.\n", held.records.len(), cassette.display());
    show_secret(&mut text, &cassette)?;

    let _ = writeln!(text, "\n3. Replay: the same clients, and no server.\n");
    let _ = writeln!(text, "   $ mcpreel serve demo.cassette.json");
    say(out, &mut text)?;
    let replay = start("replay", &["serve", "-q", "--no-config", "demo.cassette.json"])?;
    let replayed = both(&replay.url)?;
    replay.end(0)?;
    if replayed != recorded {
        return Err(Error::Failed("the replay differs from the recording; please report this".to_owned()));
    }
    let count: usize = replayed.iter().map(|answer| answer.messages.len()).sum();
    let _ = writeln!(text, "   {count} messages came back, identical to those of the live server,");
    let _ = writeln!(text, "   as JSON where it sent JSON and as events where it sent events.");

    let _ = writeln!(text, "\n4. A miss: a client asks for something that was not recorded.\n");
    let replay = start("miss", &["serve", "-q", "--no-config", "demo.cassette.json"])?;
    let missed = talk(&replay.url, &MISS)?;
    show(&mut text, &MISS, &missed);
    for line in replay.end(3)?.lines() {
        let _ = writeln!(text, "   {line}");
    }
    let _ = writeln!(text, "   exit status 3, so a test that asks for it cannot pass by accident.");
    let _ =
        writeln!(text, "\nNext: record your own server, with your MCP client at the URL that this prints:\n");
    let _ = writeln!(text, "   mcpreel use --cassette my.cassette.json --url https://your-server/mcp");
    say(out, &mut text)
}

/// One answer.
#[derive(Debug, PartialEq, Eq)]
struct Heard {
    status: u16,
    /// As events, not as JSON.
    events: bool,
    messages: Vec<String>,
}

fn both(url: &str) -> Result<Vec<Heard>> {
    let mut heard = talk(url, &LEGACY)?;
    heard.extend(talk(url, &MODERN)?);
    Ok(heard)
}

/// Posts the messages one after the other.
fn talk(url: &str, session: &[&str]) -> Result<Vec<Heard>> {
    let upstream = Upstream::new(url, &Options::default())?;
    let lane = upstream.lane();
    let mut id: Option<Vec<u8>> = None;
    let mut heard = Vec::new();
    for message in session {
        let mut fields = fields(message).ok_or_else(|| broken(&"a message of it is not one"))?;
        if let Some(id) = &id {
            fields.push("Mcp-Session-Id", id.clone());
            fields.push("MCP-Protocol-Version", "2025-11-25");
        }
        let sent = lane.exchange().send("POST", upstream.path(), &fields, Some(message.as_bytes()));
        let mut answer = sent.map_err(|error| broken(&error))?;
        id = answer.headers.get(headers::SESSION).map(<[u8]>::to_vec).or(id);
        let mut body = Vec::new();
        answer.body.read_to_end(&mut body).map_err(|error| broken(&error))?;
        let events = answer.headers.text("content-type") == Some("text/event-stream");
        heard.push(Heard { status: answer.status, events, messages: messages(&body, events) });
    }
    Ok(heard)
}

/// The header fields of a message.
fn fields(message: &str) -> Option<Headers> {
    let view = View::of(message).ok()?;
    let mut fields = Headers::new()
        .with("Content-Type", "application/json")
        .with("Accept", "application/json, text/event-stream");
    if mcp::era(message, &view) == Era::Modern {
        let method = view.method_name(message);
        fields.push("MCP-Protocol-Version", mcp::version(message, &view)?);
        fields.push("Mcp-Method", method.as_bytes());
        if let Some(name) = mcp::target(&method, message, &view).filter(|_| headers::needs_name(&method)) {
            fields.push("Mcp-Name", name);
        }
    }
    Some(fields)
}

fn messages(body: &[u8], events: bool) -> Vec<String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if events {
        let (mut parser, mut found) = (Parser::new(), Vec::new());
        parser.push(body, &mut found);
        return found
            .iter()
            .filter(|event| event.dispatches())
            .filter_map(|event| event.data().map(text))
            .collect();
    }
    if body.is_empty() { Vec::new() } else { vec![text(body)] }
}

fn show(text: &mut String, session: &[&str], heard: &[Heard]) {
    for (line, answer) in session.iter().zip(heard).filter(|(line, _)| line.contains("tools/call")) {
        let _ = writeln!(text, "   -> {}", cut(line));
        for message in &answer.messages {
            let kind = if answer.events { "event" } else { "json " };
            let _ = writeln!(text, "   <- {} {kind} {}", answer.status, cut(message));
        }
    }
}

/// A program of ours that listens. It does not outlive the tour.
struct Listening {
    child: Child,
    name: &'static str,
    url: String,
}

impl Listening {
    fn start(program: &Path, folder: &Path, name: &'static str, arguments: &[&str]) -> Result<Self> {
        let ready = format!("{name}.url");
        let arguments = [arguments, &["--ready-file", &ready]].concat();
        let child = command(program, folder, &arguments, name)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| broken(&error))?;
        let mut started = Self { child, name, url: String::new() };
        let (ready, begun) = (folder.join(ready), Instant::now());
        loop {
            if let Ok(url) = fs::read_to_string(&ready) {
                url.trim_end().clone_into(&mut started.url);
                let _ = fs::remove_file(&ready);
                return Ok(started);
            }
            let ended = started.child.try_wait().map_err(|error| broken(&error))?;
            if let Some(status) = ended {
                return Err(broken(&format!("the {name} ended with {status}: {}", started.errors())));
            }
            if begun.elapsed() > START {
                return Err(broken(&format!("the {name} did not start in {} s", START.as_secs())));
            }
            thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends it as a user would, and gives what it said on standard error.
    fn end(mut self, expected: i32) -> Result<String> {
        terminate(&[self.child.id()], Stop::Terminate);
        let errors = self.errors();
        let status = self.child.wait().map_err(|error| broken(&error))?;
        if status.code() != Some(expected) {
            return Err(broken(&format!("the {} ended with {status}: {errors}", self.name)));
        }
        Ok(errors)
    }

    fn errors(&mut self) -> String {
        let mut bytes = Vec::new();
        if let Some(mut pipe) = self.child.stderr.take() {
            let _ = pipe.read_to_end(&mut bytes);
        }
        String::from_utf8_lossy(&bytes).trim_end().to_owned()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
