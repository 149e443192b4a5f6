//! Recording and replay over HTTP: the delay of events, answers per second, the memory of open streams.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::Bench;
use crate::client::{Peer, calls};
use crate::table::{Sample, Table, float};
use crate::web::{Events, Listening, STREAM_CALL, Target, Wire, raise_nofile, secure};

const SIZE: usize = 150;
const CALLS: usize = 10_000;
const ROUNDS: usize = 7;
const EVENTS: usize = 5000;
const LISTENERS: usize = 1000;
const SECURE: usize = 200;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    raise_nofile();
    events(bench, table);
    replay(bench, table);
    listeners(bench, table);
    streams_over_tls(bench, table);
}

impl Bench {
    fn recorder_of(&self, url: &str, more: &[&str]) -> Listening {
        let cassette = self.path("web.json").display().to_string();
        let _ = std::fs::remove_file(&cassette);
        let mut arguments = vec!["record", "--session", "bench", "--cassette", &cassette, "--url", url];
        arguments.extend(more);
        Listening::start(&self.program, &arguments, &self.path("ready"))
    }

    fn server_of(&self, cassette: &Path, more: &[&str]) -> Listening {
        let cassette = cassette.display().to_string();
        let mut arguments = vec!["serve", "--session", "bench", "--listen", "127.0.0.1:0", &cassette];
        arguments.extend(more);
        Listening::start(&self.program, &arguments, &self.path("ready"))
    }

    fn their_recorder(&self, program: &Path, url: &str) -> Listening {
        let cassette = self.path("their-web.json").display().to_string();
        let _ = std::fs::remove_file(&cassette);
        Listening::theirs(program, &["record", "--cassette", &cassette, "--url", url])
    }
}

/// The median and the 99th percentile of a round.
#[derive(Default)]
struct Times {
    middle: Sample,
    late: Sample,
}

impl Times {
    fn push(&mut self, mut times: Vec<Duration>) {
        times.sort_unstable();
        let at = |place: usize| times[place].as_secs_f64() * 1e6;
        self.middle.push(at(times.len() / 2));
        self.late.push(at(times.len() * 99 / 100));
    }

    fn rows(&self, table: &mut Table, what: &str, than: Option<(&str, &Self)>) {
        table.row(what, "us", &self.middle, than.map(|(name, base)| (name, &base.middle)));
        let late = format!("{what}, 99th of 100");
        table.row(&late, "us", &self.late, than.map(|(name, base)| (name, &base.late)));
    }
}

fn events(bench: &Bench, table: &mut Table) {
    table.part(
        "recording over HTTP: from the server's event to the client (us; rounds of 5,000, one at a time)",
    );
    let (mut bare, mut own, mut theirs) = (Times::default(), Times::default(), Times::default());
    let (mut added, mut added_late) = (Sample::default(), Sample::default());
    for round in 0..ROUNDS {
        let direct = Events::start();
        bare.push(direct.times(&Target::at(direct.address), EVENTS));
        let upstream = Events::start();
        let recorder = bench.recorder_of(&upstream.url(), &[]);
        own.push(upstream.times(&recorder.target, EVENTS));
        recorder.end();
        added.push(own.middle.last() - bare.middle.last());
        added_late.push(own.late.last() - bare.late.last());
        if let (Some(program), true) = (&bench.theirs, round < 3) {
            let upstream = Events::start();
            let recorder = bench.their_recorder(program, &upstream.url());
            theirs.push(upstream.times(&recorder.target, EVENTS));
            recorder.end();
        }
    }
    bare.rows(table, "direct", None);
    own.rows(table, "through record", Some(("direct", &bare)));
    table.row("added", "us", &added, None);
    table.row("added, 99th of 100", "us", &added_late, None);
    if bench.theirs.is_some() {
        theirs.rows(table, "through mcp-cassette", Some(("mcpreel", &own)));
    }
}

fn replay(bench: &Bench, table: &mut Table) {
    table.part("replay over HTTP (1,000 tools/call a second)");
    let text = String::from_utf8(calls(CALLS, SIZE)).expect("text");
    let unique: Vec<&str> = text.lines().collect();
    let repeated = vec![unique[0]; CALLS];
    let cassette = bench.recorded("web-calls.json", CALLS, SIZE);
    let their_cassette = bench.theirs.as_deref().map(|program| (program, their_calls(bench, &unique)));
    for connections in [1, 8] {
        let (mut bare, mut own, mut again) = (Sample::default(), Sample::default(), Sample::default());
        let mut theirs = Sample::default();
        for round in 0..ROUNDS {
            bare.push(rate(Listening::bare(&bench.own, SIZE), &unique, connections));
            own.push(rate(bench.server_of(&cassette, &[]), &unique, connections));
            let repeating = bench.server_of(&cassette, &["--repeat", "last"]);
            again.push(rate(repeating, &repeated, connections));
            if let (Some((program, cassette)), 0) = (&their_cassette, round) {
                let cassette = cassette.display().to_string();
                let server = Listening::theirs(program, &["serve", &cassette]);
                theirs.push(rate(server, &unique, connections));
            }
        }
        let over = if connections == 1 { "one connection" } else { "8 connections" };
        table.row(&format!("{over}, bare server"), "k/s", &bare, None);
        table.row(&format!("{over}, serve, all different"), "k/s", &own, Some(("bare", &bare)));
        table.row(&format!("{over}, serve, always the same"), "k/s", &again, Some(("bare", &bare)));
        if their_cassette.is_some() {
            table.row(&format!("{over}, mcp-cassette"), "k/s", &theirs, Some(("mcpreel", &own)));
        }
    }
}

fn rate(server: Listening, bodies: &[&str], connections: usize) -> f64 {
    let rate = server.target.rate(bodies, connections) / 1e3;
    server.end();
    rate
}

/// The same calls recorded over HTTP, since mcp-cassette replays a cassette the way it was recorded.
fn their_calls(bench: &Bench, bodies: &[&str]) -> PathBuf {
    let server = Listening::bare(&bench.own, SIZE);
    let recorder = bench.recorder_of(&server.url(), &[]);
    recorder.target.rate(bodies, 1);
    recorder.end();
    server.end();
    bench.converted(&bench.path("web.json"), "their-web-calls.json", "mcp-cassette")
}

const LISTEN: &str = r#"{"jsonrpc":"2.0","id":"ID","method":"subscriptions/listen","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}},"notifications":{"toolsListChanged":true}}}"#;
const LISTEN_FIELDS: &str = "MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: subscriptions/listen\r\n";

/// A recording in which so many clients listened and nothing happened.
fn listened(bench: &Bench, count: usize) -> PathBuf {
    let mut text = concat!(
        r#"{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"mcpreel 0.1.0","#,
        r#""servers":{"bench":{"transport":"http","url":"http://127.0.0.1:1/mcp"}},"messages":["#
    )
    .to_owned();
    for exchange in 1..=count {
        let request = LISTEN.replace("ID", &exchange.to_string());
        let _ = write!(
            text,
            "{}\n{{\"from\":\"client\",\"exchange\":{exchange},\"payload\":{request}}},\n\
             {{\"from\":\"server\",\"exchange\":{exchange},\"http\":{{\"status\":200,\"type\":\"sse\"}},\
             \"payload\":{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/subscriptions/acknowledged\",\"params\":\
             {{\"_meta\":{{\"io.modelcontextprotocol/subscriptionId\":\"{exchange}\"}},\"notifications\":\
             {{\"toolsListChanged\":true}}}}}}}}",
            if exchange == 1 { "" } else { "," }
        );
    }
    text.push_str("\n]}\n");
    let path = bench.path("listened.json");
    std::fs::write(&path, text).expect("a cassette");
    path
}

fn listeners(bench: &Bench, table: &mut Table) {
    table.part("memory of serve with 1,000 open subscriptions/listen streams (MB)");
    let cassette = listened(bench, LISTENERS);
    let (mut before, mut after) = (Sample::default(), Sample::default());
    for _ in 0..3 {
        let server = bench.server_of(&cassette, &[]);
        before.push(megabytes(&server.peer));
        let open: Vec<_> = (1..=LISTENERS)
            .map(|id| {
                let body = LISTEN.replace("ID", &id.to_string());
                opened(&server.target, &body, LISTEN_FIELDS, "subscriptions/acknowledged")
            })
            .collect();
        after.push(megabytes(&server.peer));
        drop(open);
        server.end();
    }
    table.row("none open", "MB", &before, None);
    table.row("1,000 open", "MB", &after, None);
}

fn streams_over_tls(bench: &Bench, table: &mut Table) {
    table.part("memory of a recorder with 200 open streams of a server behind TLS (MB)");
    let url = format!("https://{}/mcp", secure());
    let authority = crate::tls::file("ca.pem").display().to_string();
    let (mut before, mut after) = (Sample::default(), Sample::default());
    for _ in 0..3 {
        let recorder = bench.recorder_of(&url, &["--cacert", &authority]);
        before.push(megabytes(&recorder.peer));
        let open: Vec<_> =
            (0..SECURE).map(|_| opened(&recorder.target, STREAM_CALL, "", "notifications/message")).collect();
        after.push(megabytes(&recorder.peer));
        drop(open);
        recorder.end();
    }
    table.row("none open", "MB", &before, None);
    table.row("200 open", "MB", &after, None);
}

/// A stream whose first message has come.
fn opened(target: &Target, body: &str, fields: &str, first: &str) -> Wire<std::net::TcpStream> {
    let mut wire = target.connect();
    wire.stream.write_all(target.post(body, fields).as_bytes()).expect("a server");
    let (head, event) = (wire.until(b"\r\n\r\n").expect("a head"), wire.until(b"\n\n").expect("an event"));
    assert!(event.contains(first), "{head}{event}");
    wire.shrink();
    wire
}

fn megabytes(peer: &Peer) -> f64 {
    float(peer.resident_memory()) / 1e6
}
