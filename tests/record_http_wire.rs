//! Exchanges of real clients with real servers, as they went over the sockets (`testdata/wire-http`, one event per
//! line: `conn`, `dir`, `data`), each sent through the recorder again: the client gets what the server said, byte for
//! byte inside its framing, and the cassette has every message once.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use mcpreel::cassette::{Cassette, Side};
use mcpreel::http::sse::Parser;
use mcpreel::jsonrpc::message::View;
use mcpreel::jsonrpc::pretty;
use serde::Deserialize;

use crate::support::Sandbox;
use crate::support::http::{LAST, Proxy, SSE, Upstream, Wire, chunk};
use crate::support::recording::{Random, testdata_files};

#[derive(Deserialize)]
struct Event {
    dir: String,
    #[serde(default)]
    conn: u32,
    data: String,
}

/// A request or an answer as it went over the socket.
#[derive(Debug, Default, Clone)]
struct Message {
    head: String,
    raw: Vec<u8>,
    /// Taken out of its framing.
    body: Vec<u8>,
    complete: bool,
}

impl Message {
    fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    /// Cuts the first one off a stream.
    fn cut(bytes: &mut &[u8]) -> Option<Self> {
        let whole = *bytes;
        let end = memchr::memmem::find(whole, b"\r\n\r\n")?;
        let head = String::from_utf8(whole[..end].to_vec()).unwrap();
        let mut message = Self { head, complete: true, ..Self::default() };
        let mut rest = &whole[end + 4..];
        if message.header("transfer-encoding").is_some() {
            loop {
                let Some(line) = memchr::memmem::find(rest, b"\r\n") else {
                    message.complete = false;
                    break;
                };
                let size = usize::from_str_radix(std::str::from_utf8(&rest[..line]).unwrap(), 16).unwrap();
                rest = &rest[line + 2..];
                message.body.extend_from_slice(&rest[..size]);
                rest = &rest[size + 2..];
                if size == 0 {
                    break;
                }
            }
        } else {
            let length = message.header("content-length").map_or(0, |length| length.parse().unwrap());
            message.body.extend_from_slice(&rest[..length]);
            rest = &rest[length..];
        }
        message.raw = whole[..whole.len() - rest.len()].to_vec();
        *bytes = rest;
        Some(message)
    }

    /// The JSON texts in it, packed.
    fn payloads(&self) -> Vec<String> {
        if self.header("content-type").is_none_or(|kind| !kind.starts_with("text/event-stream")) {
            return json(&self.body).into_iter().collect();
        }
        let (mut parser, mut events) = (Parser::new(), Vec::new());
        parser.push(&self.body, &mut events);
        events.iter().filter_map(|event| json(event.data()?)).collect()
    }
}

fn json(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).unwrap();
    View::of(text).ok().map(|_| pretty::packed(text))
}

/// The exchanges of a sample, connection by connection.
fn exchanges(path: &Path) -> Vec<(Message, Message)> {
    let mut streams: BTreeMap<u32, [Vec<u8>; 2]> = BTreeMap::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        let side = match event.dir.as_str() {
            "c>s" => 0,
            "s>c" => 1,
            _ => continue,
        };
        streams.entry(event.conn).or_default()[side].extend_from_slice(event.data.as_bytes());
    }
    let mut found = Vec::new();
    for [client, server] in streams.values() {
        let (mut client, mut server) = (client.as_slice(), server.as_slice());
        while let Some(request) = Message::cut(&mut client) {
            let Some(answer) = Message::cut(&mut server) else { break };
            found.push((request, answer));
        }
    }
    found
}

fn sorted(mut list: Vec<String>) -> Vec<String> {
    list.sort();
    list
}

/// Sends a request of a sample, with its number in a header.
fn send(proxy: &Proxy, request: &Message, nth: usize) -> Wire {
    let mut wire = proxy.wire();
    let head: Vec<String> = request
        .head
        .lines()
        .map(|line| match line.to_ascii_lowercase().starts_with("host:") {
            true => format!("Host: {}", proxy.address),
            false => line.to_owned(),
        })
        .collect();
    wire.write(format!("{}\r\nX-Nth: {nth}\r\n\r\n", head.join("\r\n")));
    wire.write(&request.body);
    wire
}

fn record(path: &Path) {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    let exchanges = Arc::new(exchanges(path));
    assert!(exchanges.len() > 4, "{name}");
    let (said, asked) = (Arc::clone(&exchanges), Mutex::new(()));
    let upstream = Upstream::start(move |request, socket| {
        let _one = asked.lock().unwrap();
        let (_, answer) = &said[request.header("x-nth").unwrap().parse::<usize>().unwrap()];
        socket.write_all(&answer.raw).unwrap();
        answer.complete
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--no-default-redactions"]);
    for (nth, (request, answer)) in exchanges.iter().enumerate() {
        let mut wire = send(&proxy, request, nth);
        let got = if answer.complete {
            let got = wire.answer();
            Message { head: got.head, body: got.body, ..Message::default() }
        } else {
            Message::cut(&mut wire.rest().as_slice()).unwrap()
        };
        let mine = upstream.next();
        assert_eq!(mine.body, request.body, "{name} {nth}");
        assert_eq!(got.body, answer.body, "{name} {nth}");
        let status = |message: &Message| message.head.split(' ').nth(1).unwrap().to_owned();
        assert_eq!(status(&got), status(answer), "{name} {nth}");
        for header in ["content-type", "mcp-session-id", "allow"] {
            assert_eq!(got.header(header), answer.header(header), "{name} {nth}");
        }
    }
    proxy.stop(0);
    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    for side in [Side::Client, Side::Server] {
        let kept = cassette.records.iter().filter(|record| record.from == side);
        let kept = kept.filter_map(|record| cassette.payload(record).map(pretty::packed)).collect();
        let sent = exchanges.iter().flat_map(|(request, answer)| match side {
            Side::Client => request.payloads(),
            Side::Server => answer.payloads(),
        });
        assert_eq!(sorted(kept), sorted(sent.collect()), "{name}");
    }
    let text = sandbox.read("c.json");
    for (_, answer) in exchanges.iter() {
        if let Some(session) = answer.header("mcp-session-id") {
            assert!(!text.contains(session), "{name}");
        }
    }
}

fn samples() -> Vec<PathBuf> {
    let samples = testdata_files("wire-http");
    assert!(samples.len() >= 10);
    samples
}

#[test]
fn r022_r025_exchanges_of_real_clients_pass_unchanged_and_are_kept() {
    samples().iter().for_each(|sample| record(sample));
}

/// How often real streams are cut.
const CUTS: usize = 10_000;

/// The streams of the samples, with their requests.
fn streams() -> Vec<(Message, Message)> {
    let streams = samples().into_iter().flat_map(|sample| exchanges(&sample)).filter(|(_, answer)| {
        answer.complete && answer.header("content-type").is_some_and(|kind| kind.contains("event-stream"))
    });
    let streams: Vec<_> = streams.collect();
    assert!(streams.len() > 50, "{}", streams.len());
    streams
}

/// Cuts bytes at so many places at random, some of which may be the same.
fn pieces<'b>(bytes: &'b [u8], cuts: u64, random: &mut Random) -> Vec<&'b [u8]> {
    let place = |random: &mut Random| usize::try_from(random.below(bytes.len() as u64 + 1)).unwrap();
    let mut places: Vec<usize> = (0..cuts).map(|_| place(random)).collect();
    places.extend([0, bytes.len()]);
    places.sort_unstable();
    places.windows(2).map(|pair| &bytes[pair[0]..pair[1]]).collect()
}

#[test]
fn r024_real_streams_read_the_same_wherever_they_are_cut() {
    let streams = streams();
    let mut random = Random(0x5eed_0024);
    for nth in 0..CUTS {
        let (_, answer) = &streams[nth % streams.len()];
        let (mut parser, mut events) = (Parser::new(), Vec::new());
        let cuts = 1 + random.below(8);
        for piece in pieces(&answer.body, cuts, &mut random) {
            parser.push(piece, &mut events);
        }
        let rest = parser.finish();
        events.extend(rest.event);
        let said: Vec<String> = events.iter().filter_map(|event| json(event.data()?)).collect();
        assert_eq!(said, answer.payloads(), "{nth}");
        let mut raw: Vec<u8> = events.iter().flat_map(|event| event.raw().to_vec()).collect();
        raw.extend(rest.tail);
        assert_eq!(raw, answer.body, "{nth}");
    }
}

#[test]
fn r024_real_streams_pass_the_same_wherever_they_are_cut() {
    let streams = streams();
    let mut random = Random(0x5eed_0124);
    // Each answer as its head and the pieces of its body, every one of which is written by itself.
    let mut answers = Vec::new();
    let mut cuts = 0;
    while cuts < CUTS {
        let (request, answer) = &streams[answers.len() % streams.len()];
        let some = 16 + random.below(48);
        cuts += usize::try_from(some).unwrap();
        let framed: Vec<Vec<u8>> = pieces(&answer.body, some, &mut random)
            .into_iter()
            .filter(|piece| !piece.is_empty())
            .map(chunk)
            .collect();
        answers.push((request, answer, framed));
    }
    let framed: Vec<Vec<Vec<u8>>> = answers.iter().map(|(.., framed)| framed.clone()).collect();
    let upstream = Upstream::start(move |request, socket| {
        let nth: usize = request.header("x-nth").unwrap().parse().unwrap();
        socket.write_all(SSE.as_bytes()).unwrap();
        framed[nth].iter().for_each(|piece| socket.write_all(piece).unwrap());
        socket.write_all(LAST).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--no-default-redactions"]);
    for (nth, (request, answer, _)) in answers.iter().enumerate() {
        assert_eq!(send(&proxy, request, nth).answer().body, answer.body, "{nth}");
    }
    proxy.stop(0);
    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    let kept = cassette.records.iter().filter(|record| record.from == Side::Server);
    let kept: Vec<String> = kept.filter_map(|record| cassette.payload(record).map(pretty::packed)).collect();
    let said: Vec<String> = answers.iter().flat_map(|(_, answer, _)| answer.payloads()).collect();
    assert_eq!(kept, said);
}
