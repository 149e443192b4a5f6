//! Mode `new_episodes`: sessions that end otherwise than by their client, streams that go on later, and what is not worth
//! appending.

use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::support::http::{Upstream, Wire, answer, chunk, json};
use crate::support::recording::DEMO;
use crate::support::replay::{INITIALIZED, call, handshake, result, said};
use crate::support::web::{Endpoint, c, s};
use crate::support::{Sandbox, initialize, tls};

const WELCOME: &str =
    r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"g","version":"1"}}"#;

/// A cassette of an HTTP server with nothing but a handshake.
fn greeted(sandbox: &Sandbox) {
    sandbox.http_cassette(&[
        c(1, initialize("{}")),
        s(1, result("0", WELCOME)).on(1),
        c(2, INITIALIZED).on(1),
    ]);
}

fn append(sandbox: &Sandbox, url: &str, more: &[&str]) -> Endpoint {
    let args = ["use", "--cassette", "c.json", "--mode", "new_episodes", "--url", url];
    sandbox.listen(args.iter().chain(more).copied())
}

#[test]
fn a_stream_that_the_live_server_broke_off_is_gone_on_with() {
    let sandbox = Sandbox::new();
    greeted(&sandbox);
    let rounds = AtomicUsize::new(0);
    let upstream = Upstream::start(move |request, socket| {
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let stream = |event: &str| [&head[..], &chunk(event.as_bytes()), b"0\r\n\r\n"].concat();
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let bytes = match (request.method.as_str(), message.get("id")) {
            // The answer comes with the second return.
            ("GET", _) => match (request.header("last-event-id"), rounds.fetch_add(1, Ordering::SeqCst)) {
                (Some("e-1"), 0) => stream("id: e-2\nretry: 1\ndata: \n\n"),
                (Some("e-2"), 1) => stream(&format!("id: e-3\ndata: {}\n\n", said("1", "at last"))),
                other => panic!("{other:?}"),
            },
            (_, None) => answer("202 Accepted", "", ""),
            _ if message["method"] == "initialize" => json(&result("0", WELCOME)),
            _ => stream("id: e-1\nretry: 1\ndata: \n\n"),
        };
        socket.write_all(&bytes).is_ok()
    });
    let front = append(&sandbox, &upstream.url("/mcp"), &["-q"]);
    let client = front.greet("{}");
    assert_eq!(client.post(&call("1", "long", "{}")).expect(200).last(), said("1", "at last"));
    front.end(0);
    let replay = sandbox.replay_http(&[]);
    assert_eq!(replay.greet("{}").post(&call("7", "long", "{}")).expect(200).last(), said("7", "at last"));
    replay.end(0);
}

#[test]
fn a_standalone_stream_of_the_live_server_is_come_back_to() {
    let sandbox = Sandbox::new();
    greeted(&sandbox);
    let upstream = Upstream::start(|request, socket| {
        let head =
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
        let news = |id: &str, number: u32| {
            let text = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/message","params":{{"level":"info","data":{number}}}}}"#
            );
            chunk(format!("id: {id}\nretry: 1\ndata: {text}\n\n").as_bytes())
        };
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let bytes = match (request.method.as_str(), message.get("id")) {
            ("GET", _) => match request.header("last-event-id") {
                None => [&head[..], &news("n-1", 1), b"0\r\n\r\n"].concat(),
                Some("n-1") => [&head[..], &news("n-2", 2)].concat(),
                other => panic!("{other:?}"),
            },
            (_, None) => answer("202 Accepted", "", ""),
            (_, Some(id)) => json(&result(&id.to_string(), WELCOME)),
        };
        socket.write_all(&bytes).is_ok()
    });
    let front = append(&sandbox, &upstream.url("/mcp"), &["-q"]);
    let client = front.greet("{}");
    let mut stream = client.get();
    // Nobody listens at the live server before it has something to do with this client.
    assert!(upstream.received.try_recv().is_err());
    client.post(&call("1", "new", "{}")).expect(200);
    for number in ["1", "2"] {
        let news = stream.next().unwrap();
        assert!(news.contains(&format!("\"data\":{number}")), "{news}");
    }
    front.end(0);
}

#[test]
fn a_live_server_behind_tls_shows_a_certificate_that_is_trusted() {
    let sandbox = Sandbox::new();
    greeted(&sandbox);
    let upstream = Upstream::with_certificate("good", |request, stream| {
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let bytes = match message.get("id") {
            None => answer("202 Accepted", "", ""),
            Some(id) => json(&result(&id.to_string(), r#"{"content":[]}"#)),
        };
        stream.write_all(&bytes).is_ok()
    });
    let url = format!("https://localhost:{}/mcp", upstream.address.port());
    let named = |name: &str| tls::file(name).to_str().unwrap().to_owned();
    for (roots, code) in [("stranger.pem", 3), ("ca.pem", 0)] {
        let front = append(&sandbox, &url, &["-q", "--cacert", &named(roots)]);
        let answer = front.greet("{}").post(&call("1", "new", "{}")).expect(200).body;
        assert_eq!(answer.contains("-31004"), code == 3, "{answer}");
        front.end(code);
    }
}

#[test]
fn refusals_are_not_worth_a_line() {
    let sandbox = Sandbox::new();
    greeted(&sandbox);
    let before = sandbox.read("c.json");
    let upstream = Upstream::saying(answer("401 Unauthorized", "WWW-Authenticate: Bearer\r\n", "no"));
    let front = append(&sandbox, &upstream.url("/mcp"), &["-v"]);
    let client = front.greet("{}");
    for id in ["1", "2"] {
        client.post(&call(id, "x", "{}")).expect(401);
    }
    let stderr = front.end(0).stderr;
    assert!(
        stderr.contains("mcpreel: tools/call \"x\" is not recorded: the live server is asked\n"),
        "{stderr}"
    );
    assert!(stderr.contains("mcpreel: nothing new: c.json was left as it is\n"), "{stderr}");
    assert_eq!(sandbox.read("c.json"), before);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

#[test]
fn a_session_is_ended_by_name() {
    let sandbox = Sandbox::new();
    greeted(&sandbox);
    let upstream = Upstream::start(|request, socket| {
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let bytes = match message.get("id") {
            None => answer("202 Accepted", "", ""),
            Some(id) => json(&result(&id.to_string(), r#"{"content":[]}"#)),
        };
        socket.write_all(&bytes).is_ok()
    });
    let front = append(&sandbox, &upstream.url("/mcp"), &["--session", "nightly"]);
    front.greet("{}").post(&call("1", "new", "{}")).expect(200);
    sandbox.mcpreel(["end", "c.json", "--session", "nightly"]).run().expect(0);
    let ended = front.exits(0);
    assert!(ended.stderr.contains("c.json"), "{}", ended.stderr);
    assert!(sandbox.read("c.json").contains("\"origin\": \"live\""));
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

/// Sessions that were unused for the longest time are forgotten where there are very many.
#[test]
fn a_session_that_is_forgotten_here_is_ended_at_the_live_server() {
    let sandbox = Sandbox::new();
    greeted(&sandbox);
    let upstream = Upstream::start(|request, socket| {
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let fields = "Content-Type: application/json\r\nMcp-Session-Id: live-1\r\n";
        let bytes = match message.get("id") {
            _ if request.method == "DELETE" => answer("204 No Content", "", ""),
            None => answer("202 Accepted", "", ""),
            Some(id) => answer("200 OK", fields, &result(&id.to_string(), WELCOME)),
        };
        socket.write_all(&bytes).is_ok()
    });
    let front = append(&sandbox, &upstream.url("/mcp"), &["-q"]);
    let client = front.greet("{}");
    client.post(&call("1", "new", "{}")).expect(200);
    let body = initialize("{}");
    let text = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        front.host,
        body.len()
    );
    let mut wire = Wire::to(front.host.parse().unwrap());
    for _ in 0..10_000 {
        wire.write(&text);
        assert_eq!(wire.answer().status, 200);
    }
    let deleted = loop {
        let request = upstream.next();
        if request.method == "DELETE" {
            break request;
        }
    };
    assert_eq!(deleted.header("mcp-session-id"), Some("live-1"));
    front.end(0);
}

#[test]
fn a_recording_that_fails_leaves_the_session_alone() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let args = ["-q", "--mode", "new_episodes", "--server", "demo"];
    let mut client = sandbox.user("c.json", &args, &DEMO).start();
    client.greet("{}");
    assert!(client.ask(&call("1", "echo", r#"{"text":"one"}"#)).contains("one"));
    std::fs::remove_dir_all(sandbox.path.join("c.json.partial")).unwrap();
    for text in ["two", "three"] {
        let answer = client.ask(&call("2", "echo", &format!("{{\"text\":\"{text}\"}}")));
        assert!(answer.contains(text), "{answer}");
    }
    let ended = client.close(125);
    assert!(
        ended.stderr.contains("mcpreel: recording stopped: the recording folder was removed"),
        "{}",
        ended.stderr
    );
}
