//! Recording over HTTP: sessions, several recorders, how a recording ends, and what is refused at the start.

use std::io::Write as _;
use std::time::{Duration, Instant};

use crate::support::Sandbox;
use crate::support::http::{SSE, Upstream, answer, json, read_to_end, records};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
const WELCOME: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-11-25"}}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

#[test]
fn sessions_are_numbered_by_order_of_creation_and_requests_know_theirs() {
    let upstream = Upstream::start(|request, socket| {
        let reply = if request.text().contains("initialize") {
            let id = if request.text().contains("\"b\"") { "beta" } else { "alpha" };
            answer("200 OK", &format!("Content-Type: application/json\r\nMcp-Session-Id: {id}\r\n"), WELCOME)
        } else {
            json(PONG)
        };
        socket.write_all(&reply).is_ok()
    });
    let sandbox = Sandbox::new();
    let init = |name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"clientInfo":{{"name":"{name}"}}}}}}"#
        )
    };
    for cassette in ["c.json", "c.jsonl"] {
        let proxy = sandbox.proxy(cassette, &upstream.url("/mcp"), &["-q"]);
        for (name, id) in [("b", "beta"), ("a", "alpha")] {
            assert_eq!(proxy.post("", &init(name)).header("mcp-session-id"), Some(id));
            proxy.post(&format!("Mcp-Session-Id: {id}\r\n"), PING);
        }
        proxy.post("Mcp-Session-Id: beta\r\nMcp-Protocol-Version: 2025-11-25\r\n", PING);
        let agreed = "Mcp-Session-Id: alpha\r\nMcp-Protocol-Version: 2025-11-25\r\n";
        proxy.begin("DELETE", "/mcp", agreed).answer();
        proxy.stop(0);
        assert!(!sandbox.read(cassette).contains("mcp-protocol-version"), "{}", sandbox.read(cassette));
        let read = mcpreel::cassette::Cassette::read(&sandbox.path.join(cassette)).unwrap();
        let numbers: Vec<(u32, u32)> =
            read.records.iter().map(|record| (record.session, record.exchange)).collect();
        let expected = [(1, 1), (1, 2), (2, 3), (2, 4), (1, 5), (2, 6)].map(|pair| [pair, pair]).concat();
        assert_eq!(numbers, expected, "{cassette}");
    }
}

#[test]
fn two_recorders_of_one_session_make_one_cassette() {
    let upstream = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    let first = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--session", "s"]);
    let second = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--session", "s"]);
    first.post("", PING);
    second.post("", PING);
    first.stop(0);
    second.stop(0);
    let exchanges: Vec<bool> = [1, 2]
        .map(|number| sandbox.read("c.json").matches(&format!("\"exchange\": {number},")).count() == 2)
        .to_vec();
    assert_eq!(exchanges, [true, true], "{}", sandbox.read("c.json"));
}

#[test]
fn recording_the_same_again_leaves_the_file_alone() {
    let upstream = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    let record = || {
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &[]);
        proxy.post("", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
        proxy.stop(0).stderr
    };
    record();
    let before = sandbox.read("c.json");
    let said = record();
    assert!(said.contains("says the same already"), "{said}");
    assert_eq!(sandbox.read("c.json"), before);
}

#[test]
fn it_ends_by_signals_when_idle_and_when_its_owner_has_ended() {
    let upstream = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    for signal in [15, 2, 1] {
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        proxy.post("", PING);
        proxy.client.signal(signal);
        proxy.client.end(0);
        assert_eq!(records(&sandbox, "c.json").len(), 2);
    }
    let proxy = sandbox.proxy("idle.json", &upstream.url("/mcp"), &["-q", "--max-idle", "0.4"]);
    proxy.post("", PING);
    proxy.client.end(0);
    assert_eq!(records(&sandbox, "idle.json").len(), 2);

    let mut owner = std::process::Command::new("sleep").arg("300").spawn().unwrap();
    let session = format!("s@{}", owner.id());
    let proxy = sandbox.proxy("owned.json", &upstream.url("/mcp"), &["-q", "--session", &session]);
    proxy.post("", PING);
    owner.kill().unwrap();
    owner.wait().unwrap();
    proxy.client.end(0);
    assert_eq!(records(&sandbox, "owned.json").len(), 2);

    let proxy = sandbox.proxy("named.json", &upstream.url("/mcp"), &["-q", "--session", "n"]);
    proxy.post("", PING);
    let other = sandbox.proxy("other.json", &upstream.url("/mcp"), &["-q", "--session", "n"]);
    sandbox.mcpreel(["end", "named.json", "--session", "n"]).run().expect(0);
    assert_eq!(records(&sandbox, "named.json").len(), 2);
    proxy.client.end(0);
    // The same session at another cassette goes on.
    other.post("", PING);
    other.stop(0);

    let proxy = sandbox.proxy("none.json", &upstream.url("/mcp"), &["-q"]);
    let said = proxy.stop(1).stderr;
    assert!(said.contains("nothing was captured, so none.json was not written"), "{said}");
    assert_eq!(sandbox.of_cassette("none.json"), [""; 0]);
}

#[test]
fn an_idle_recorder_does_not_end_while_a_stream_is_open() {
    let upstream = Upstream::start(|_, socket| {
        socket.write_all(SSE.as_bytes()).unwrap();
        read_to_end(socket);
        false
    });
    let sandbox = Sandbox::new();
    let mut proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--max-idle", "0.3"]);
    let mut stream = proxy.begin("GET", "/mcp", "Accept: text/event-stream\r\n");
    stream.until("\r\n\r\n");
    // Longer than it would wait without the stream: nothing to wait for but time.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(900) {
        assert!(proxy.client.child.try_wait().unwrap().is_none());
        std::thread::sleep(Duration::from_millis(20));
    }
    stream.close();
    proxy.client.end(0);
}

/// The same command line ends by itself whether it records or replays, and a stream that is open keeps it.
#[test]
fn an_idle_replay_ends_too() {
    let sandbox = Sandbox::new();
    let upstream = Upstream::saying(json(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#));
    let url = upstream.url("/mcp");
    let using = [
        "use",
        "-q",
        "--cassette",
        "c.json",
        "--url",
        &url,
        "--max-idle",
        "1",
        "--ready-file",
        "ready",
        "--report",
        "r.jsonl",
    ];
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    for (arguments, asked, code) in [
        (&using[..], list, 0),
        (&using, list, 0),
        (&using, &list.replace("list", "call"), 3),
        (
            &["serve", "-q", "c.json", "--max-idle", "1", "--ready-file", "ready", "--report", "r.jsonl"],
            list,
            0,
        ),
    ] {
        let proxy = sandbox.proxy_of(sandbox.mcpreel(arguments));
        proxy.post("", asked);
        proxy.client.end(code);
    }
    let rows = sandbox.read("r.jsonl");
    assert_eq!(rows.matches(r#""ended":"end of input""#).count(), 3, "{rows}");
    let refused = sandbox.mcpreel(["serve", "c.json", "--stdio", "--max-idle", "1"]).run().expect(2).stderr();
    assert_eq!(refused, "mcpreel: --stdio does not go with the options of HTTP\n");
}

#[test]
fn use_records_a_url_by_mode() {
    let upstream = Upstream::saying(json(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}"#));
    let sandbox = Sandbox::new();
    let url = upstream.url("/mcp");
    let args = ["use", "--cassette", "c.json", "--url", &url, "--ready-file", "ready", "--server", "tracker"];
    let proxy = sandbox.proxy_of(sandbox.mcpreel(args));
    proxy.post("", r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    let said = proxy.stop(0).stderr;
    assert!(said.contains("mode once (default): recording into c.json"), "{said}");
    assert!(sandbox.read("c.json").contains("\"tracker\": {"));
}

#[test]
fn options_that_make_no_sense_are_told_before_anything_starts() {
    let sandbox = Sandbox::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap().to_string();
    for (args, code, what) in [
        (vec!["--url", "http://h/", "--", "cat"], 2, "not both"),
        (vec![], 2, "--url"),
        (vec!["--listen", "1", "--", "cat"], 2, "--listen goes with --url only"),
        (vec!["--url", "h/mcp"], 2, "expected http://"),
        (vec!["--url", "http://h/", "--header", "x"], 2, "expected 'NAME: VALUE'"),
        (vec!["--url", "http://h/", "--header", "Host: x"], 2, "set by the connection"),
        (vec!["--url", "http://h/", "--header-env", "X=MCPREEL_NO_SUCH"], 2, "is not set"),
        (vec!["--url", "http://h/", "--header", "a b: s3cret"], 2, "not a header field"),
        (vec!["--url", "http://h/", "--listen", "x"], 2, "expected ADDRESS:PORT"),
        (vec!["--url", "http://h/", "--listen", &taken], 1, "cannot listen on"),
        (vec!["--url", "https://h/", "--cacert", "none.pem"], 1, "none.pem"),
    ] {
        for command in ["record", "use"] {
            let mut all = vec![command, "--cassette", "c.json"];
            all.extend(&args);
            let done = sandbox.mcpreel(all).run();
            assert!(done.stderr().contains(what), "{args:?}: {}", done.stderr());
            assert!(!done.stderr().contains("s3cret"), "{}", done.stderr());
            done.expect(code);
            assert_eq!(sandbox.of_cassette("c.json"), [""; 0], "{args:?}");
        }
    }
}

#[test]
fn open_streams_and_hanging_requests_do_not_hold_up_the_end() {
    let upstream = Upstream::start(|request, socket| {
        if request.method == "GET" {
            socket.write_all(SSE.as_bytes()).unwrap();
        }
        read_to_end(socket);
        false
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let mut streams: Vec<_> =
        (0..20).map(|_| proxy.begin("GET", "/mcp", "Accept: text/event-stream\r\n")).collect();
    streams.iter_mut().for_each(|stream| drop(stream.until("\r\n\r\n")));
    let hanging: Vec<_> = (0..20).map(|_| proxy.begin_post("", PING)).collect();
    for _ in 0..40 {
        upstream.next();
    }
    let begun = Instant::now();
    proxy.stop(0);
    // Clients that wait for us give a second or two.
    assert!(begun.elapsed() < Duration::from_millis(1500), "{:?}", begun.elapsed());
    let kept = records(&sandbox, "c.json");
    let ends = |end: &str| kept.iter().filter(|record| record.contains(end)).count();
    // A stream ends with its client anyway; a request has missed its answer.
    let streams_closed = ends(r#"{"end":"client_closed","exchange""#);
    let requests_missed = ends(r#"{"end":"recorder_ended","exchange""#);
    assert_eq!((streams_closed, requests_missed, kept.len()), (20, 20, 20 * 3 + 20 * 2), "{kept:?}");
    drop((streams, hanging));
}

#[test]
fn an_answer_too_large_to_be_kept_passes_and_the_cassette_says_that_it_is_missing() {
    const SIZE: usize = (256 << 20) + 1;
    let upstream = Upstream::start(|_, socket| {
        let head = format!(
            "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {SIZE}\r\n\r\n{PONG}"
        );
        socket.write_all(head.as_bytes()).unwrap();
        let mut rest = SIZE - PONG.len();
        let blanks = vec![b' '; 1 << 20];
        while rest > 0 {
            let piece = &blanks[..rest.min(blanks.len())];
            if socket.write_all(piece).is_err() {
                return false;
            }
            rest -= piece.len();
        }
        true
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    assert_eq!(proxy.post("", CALL).body.len(), SIZE);
    let said = proxy.stop(0).stderr;
    assert!(
        said.contains("an answer of more than 256 MiB was passed on and is not in the cassette"),
        "{said}"
    );
    let kept = records(&sandbox, "c.json");
    assert_eq!(kept[2..], [r#"{"end":"not_kept","exchange":1,"from":"server"}"#], "{kept:?}");
    // Its request is answered with an error, never with a part of it or with nothing.
    let replay = sandbox.listen(["serve", "c.json", "--listen", "127.0.0.1:0"]);
    replay.post(CALL, &[]).fails(200, -31002);
    replay.end(3);
}

#[test]
fn a_request_that_was_open_when_the_recorder_was_ended_is_a_miss_and_a_listen_is_still_open() {
    let listen = crate::support::modern("7", "subscriptions/listen", "", "{}");
    let upstream = Upstream::start(|request, socket| {
        if request.text().contains("listen") {
            socket.write_all(SSE.as_bytes()).unwrap();
            socket.write_all(b"d\r\ndata: {\"a\":1\r\n").unwrap();
        }
        read_to_end(socket);
        false
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let call = proxy.begin_post("", CALL);
    upstream.next();
    let mut listening =
        proxy.begin_post("Mcp-Method: subscriptions/listen\r\nMcp-Protocol-Version: 2026-07-28\r\n", &listen);
    listening.until("data: ");
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    let ends: Vec<&String> = kept.iter().filter(|record| record.contains("\"end\"")).collect();
    assert!(
        ends.iter().any(|end| *end == r#"{"end":"recorder_ended","exchange":1,"from":"server"}"#),
        "{ends:?}"
    );
    assert!(
        ends.iter().any(|end| *end == r#"{"end":"client_closed","exchange":2,"from":"server"}"#),
        "{ends:?}"
    );
    drop((call, listening));
    let replay = sandbox.listen(["serve", "c.json", "--listen", "127.0.0.1:0"]);
    replay.post(CALL, &[]).fails(200, -31002);
    replay.end(3);
}

#[test]
fn two_signals_in_a_row_are_one_wish() {
    let upstream = Upstream::start(|request, socket| {
        if request.text() == PING {
            return socket.write_all(&json(PONG)).is_ok();
        }
        socket.write_all(SSE.as_bytes()).unwrap();
        read_to_end(socket);
        false
    });
    for signals in [[2, 15], [15, 15], [15, 2], [1, 15]] {
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &[]);
        proxy.post("", PING);
        // It holds up the end for a while, so that both signals come before it.
        let mut stream = proxy.begin_post("", CALL);
        stream.until("\r\n\r\n");
        signals.iter().for_each(|signal| proxy.client.signal(*signal));
        let said = proxy.client.end(0).stderr;
        assert!(said.contains("recorded 5 messages into c.json"), "{said}");
        assert!(!said.contains("killed"), "{said}");
        assert_eq!(records(&sandbox, "c.json").len(), 5);
    }
}
