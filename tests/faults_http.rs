//! Each type of fault over HTTP, byte for byte: answers that were recorded as JSON, and as events.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::support::replay::{INITIALIZED, cancelled, error, fault_on, progress, result, said};
use crate::support::web::{Endpoint, Legacy, Record, bare, c, modern_fields, s};
use crate::support::{LONG, Sandbox, eventually, initialize, modern};

const DISCOVERY: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;

fn tool(id: &str, name: &str) -> String {
    let plain = modern(id, "tools/call", &format!("\"name\":\"{name}\",\"arguments\":{{}}"), "{}");
    plain.replacen("\"_meta\":{", "\"_meta\":{\"progressToken\":7,", 1)
}

/// A tool `json`, answered as JSON, a tool `events`, answered by two notifications and the answer, and `other`.
fn records() -> Vec<Record> {
    vec![
        c(1, modern("1", "server/discover", "", "{}")),
        s(1, result("1", DISCOVERY)).status(200),
        c(2, tool("2", "json")),
        s(2, said("2", "j")).status(200),
        c(3, tool("3", "events")),
        s(3, progress("7", 1)).sse(),
        s(3, progress("7", 2)),
        s(3, said("3", "e")),
        c(4, tool("4", "other")),
        s(4, said("4", "o")).status(200),
    ]
}

#[track_caller]
fn serving(sandbox: &Sandbox, faults: &[String]) -> Endpoint {
    sandbox.faults(faults);
    sandbox.play_recorded_http(&records(), &["--faults", "f.json", "--require-faults"])
}

/// Posts a request on a connection of its own, which is to be closed after the answer.
fn post(server: &Endpoint, body: &str, fields: &[(String, String)]) -> TcpStream {
    let mut socket = TcpStream::connect(&server.host).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut text = format!("POST {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n", server.path, server.host);
    text += "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
    for (name, value) in fields {
        text += &format!("{name}: {value}\r\n");
    }
    text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
    socket.write_all(text.as_bytes()).unwrap();
    socket
}

/// All that comes, and whether the connection was reset at the end.
fn all(mut socket: TcpStream) -> (String, bool) {
    let (mut bytes, mut chunk) = (Vec::new(), [0; 4096]);
    let reset = loop {
        match socket.read(&mut chunk) {
            Ok(0) => break false,
            Ok(size) => bytes.extend_from_slice(&chunk[..size]),
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{error}");
                break true;
            }
        }
    };
    (String::from_utf8(bytes).unwrap(), reset)
}

fn json(length: usize, body: &str) -> String {
    format!(
        "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

const SSE_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nCache-Control: no-cache, no-transform\r\n\
                        X-Accel-Buffering: no\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
const LAST_CHUNK: &str = "0\r\n\r\n";

fn chunk(text: &str) -> String {
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// An event as one chunk.
fn event(message: &str) -> String {
    chunk(&format!("event: message\ndata: {message}\n\n"))
}

/// The head and these events, and the end.
fn events(messages: &[String]) -> String {
    let events: String = messages.iter().map(|message| event(message)).collect();
    format!("{SSE_HEAD}{events}{LAST_CHUNK}")
}

/// The two notifications of `events` and this answer.
fn stepped(answer: &str) -> String {
    events(&[progress("7", 1), progress("7", 2), answer.to_owned()])
}

/// What a call of `tool` with this fault gets, to the byte; the call of another tool gets its answer.
#[track_caller]
fn gets(name: &str, kind: &str, params: &str, expected: &str) {
    let sandbox = Sandbox::new();
    let server = serving(&sandbox, &[fault_on(name, kind, params)]);
    let body = tool("5", name);
    let (got, reset) = all(post(&server, &body, &modern_fields(&body)));
    assert_eq!((&*got, reset), (expected, false), "{name} {kind} {params}");
    assert_eq!(server.modern(&tool("6", "other")).expect(200).body, said("6", "o"));
    server.end(0);
}

fn half(text: &str) -> &str {
    &text[..text.len() / 2]
}

#[test]
fn answers_without_a_fault() {
    let other = r#"{"target":{"method":"tools/call","name":"other"},"type":"delay"}"#;
    for (name, expected) in
        [("json", json(said("5", "j").len(), &said("5", "j"))), ("events", stepped(&said("5", "e")))]
    {
        let sandbox = Sandbox::new();
        let server = serving(&sandbox, &[other.to_owned()]);
        let body = tool("5", name);
        assert_eq!(all(post(&server, &body, &modern_fields(&body))), (expected, false));
        server.end(3);
    }
}

#[test]
fn answers_that_are_replaced() {
    let error = error("5", -32603, "mcpreel injected error");
    gets("json", "error", "{}", &json(error.len(), &error));
    gets("events", "error", "{}", &stepped(&error));
    let no_json = "mcpreel: this line is not JSON";
    gets("json", "malformed", r#"{"strategy":"not_json"}"#, &json(no_json.len(), no_json));
    gets("events", "malformed", r#"{"strategy":"not_json"}"#, &stepped(no_json));
    let nobody = said("\"mcpreel-unknown-id\"", "j");
    gets("json", "malformed", r#"{"strategy":"wrong_id"}"#, &json(nobody.len(), &nobody));
    gets("events", "malformed", r#"{"strategy":"wrong_id"}"#, &stepped(&said("\"mcpreel-unknown-id\"", "e")));
    let answer = said("5", "j");
    gets("json", "malformed", "{}", &json(answer.len(), half(&answer)));
    gets("events", "malformed", "{}", &stepped(half(&said("5", "e"))));
}

#[test]
fn an_injected_error_has_the_status_that_a_server_gives_it() {
    let sandbox = Sandbox::new();
    let server = serving(&sandbox, &[fault_on("json", "error", r#"{"code":-32601,"message":"gone"}"#)]);
    assert_eq!(server.modern(&tool("5", "json")).expect(404).body, error("5", -32601, "gone"));
    server.end(0);
}

#[test]
fn answers_that_come_twice() {
    // A body holds one message, so what was recorded as JSON comes as events.
    gets("json", "duplicate", "{}", &events(&[said("5", "j"), said("5", "j")]));
    let (one, two, answer) = (progress("7", 1), progress("7", 2), said("5", "e"));
    gets("events", "duplicate", "{}", &events(&[one, two, answer.clone(), answer]));
}

#[test]
fn statuses_with_their_fields() {
    let params =
        r#"{"status":429,"headers":{"Retry-After":"1","Content-Type":"text/plain"},"body":"slow down\n"}"#;
    let expected = "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 1\r\nContent-Type: text/plain\r\n\
                    Content-Length: 10\r\nConnection: close\r\n\r\nslow down\n";
    for name in ["json", "events"] {
        gets(name, "http_status", params, expected);
    }
    let bare = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    gets("json", "http_status", r#"{"status":503}"#, bare);
}

#[test]
fn who_comes_back_after_a_status_gets_the_answer() {
    let sandbox = Sandbox::new();
    let fault = fault_on("json", "http_status", r#"{"status":429}"#);
    let server = serving(&sandbox, &[fault.replace("\"name\":", "\"nth\":\"1..2\",\"name\":")]);
    server.modern(&tool("5", "json")).expect(429);
    server.modern(&tool("6", "json")).expect(429);
    assert_eq!(server.modern(&tool("7", "json")).expect(200).body, said("7", "j"));
    server.modern(&tool("8", "json")).fails(200, -31001);
    server.end(3);
}

#[test]
fn connections_that_break_off() {
    // Before any answer.
    for name in ["json", "events"] {
        let sandbox = Sandbox::new();
        let server = serving(&sandbox, &[fault_on(name, "disconnect", "{}")]);
        let body = tool("5", name);
        assert_eq!(all(post(&server, &body, &modern_fields(&body))), (String::new(), true));
        assert_eq!(server.modern(&tool("6", "other")).expect(200).body, said("6", "o"));
        server.end(0);
    }
    // After it: the answer is whole, the stream has no proper end.
    let whole = said("5", "j");
    gets("json", "disconnect", r#"{"after_response":true}"#, &json(whole.len(), &whole));
    let stream = stepped(&said("5", "e"));
    gets("events", "disconnect", r#"{"after_response":true}"#, stream.strip_suffix(LAST_CHUNK).unwrap());
}

#[test]
fn a_connection_that_was_kept_ends_after_the_answer() {
    let sandbox = Sandbox::new();
    let server = serving(&sandbox, &[fault_on("json", "disconnect", r#"{"after_response":true}"#)]);
    let body = tool("5", "json");
    let mut socket = TcpStream::connect(&server.host).unwrap();
    socket.set_read_timeout(Some(LONG)).unwrap();
    let fields: String =
        modern_fields(&body).iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let length = body.len();
    write!(
        socket,
        "POST {} HTTP/1.1\r\nHost: {}\r\n{fields}Content-Length: {length}\r\n\r\n{body}",
        server.path, server.host
    )
    .unwrap();
    let (got, reset) = all(socket);
    assert!(got.ends_with(&said("5", "j")) && !got.contains("Connection:") && !reset, "{got}");
    server.end(0);
}

#[test]
fn streams_that_break_off() {
    let parts =
        [SSE_HEAD.to_owned(), event(&progress("7", 1)), event(&progress("7", 2)), event(&said("5", "e"))];
    for after in 0..4 {
        let expected: String = parts[..=after].concat();
        gets("events", "cut_stream", &format!(r#"{{"after_events":{after}}}"#), &expected);
    }
    // A body is cut after its head: nothing of it comes.
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    gets("json", "cut_stream", "{}", head);
}

#[test]
fn a_cut_that_never_comes_is_reported() {
    for (name, after) in [("json", 1), ("events", 4)] {
        let sandbox = Sandbox::new();
        let params = format!(r#"{{"after_events":{after}}}"#);
        let server = serving(&sandbox, &[fault_on(name, "cut_stream", &params)]);
        server.modern(&tool("5", name)).expect(200);
        let stderr = server.end(3).stderr;
        assert!(stderr.contains("fault 0 (cut_stream on ") && stderr.contains(" never fired"), "{stderr}");
    }
}

#[test]
fn a_resumable_stream_that_breaks_off_is_resumed() {
    let sandbox = Sandbox::new();
    let event = |n: u32| format!(r#"{{"event":{n}}}"#);
    let steps = crate::support::replay::call_with_progress("2", "steps", "7");
    let mut primed = s(3, "").http(r#"{"status":200,"type":"sse","event":1,"retry":40}"#);
    primed.drop_payload();
    let mut records = legacy();
    records.truncate(4);
    records.extend([
        c(3, steps.clone()).on(1),
        primed.on(1),
        s(3, progress("7", 1)).on(1).http(&event(2)),
        s(3, progress("7", 2)).on(1).http(&event(3)),
        s(3, said("2", "stepped")).on(1).http(&event(4)),
    ]);
    sandbox.faults(&[fault_on("steps", "cut_stream", r#"{"after_events":1}"#)]);
    let options = ["--faults", "f.json", "--sse", "faithful", "--require-faults"];
    let server = sandbox.play_recorded_http(&records, &options);
    let client = server.greet("{}");
    let (got, reset) = all(post(&server, &steps, &session(&client)));
    assert!(got.contains(&progress("7", 1)) && !got.contains(&progress("7", 2)) && !reset, "{got}");
    assert!(!got.ends_with(LAST_CHUNK), "{got}");
    let last = got.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    let rest = client.get_after(last).whole().expect(200);
    assert_eq!(rest.events(), [progress("7", 2), said("2", "stepped")]);
    drop(client);
    server.end(0);
}

fn session(client: &Legacy<'_>) -> Vec<(String, String)> {
    client.session.iter().map(|session| ("Mcp-Session-Id".to_owned(), session.clone())).collect()
}

/// A legacy session with an id, and two calls.
fn legacy() -> Vec<Record> {
    let answer = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"demo","version":"1"}}"#;
    let mut records = vec![
        c(1, initialize("{}")),
        s(1, result("0", answer)).on(1).status(200),
        c(2, INITIALIZED).on(1),
        bare(2).on(1).http(r#"{"status":202}"#),
    ];
    for (n, id, name) in [(3, "1", "a"), (4, "2", "b")] {
        records.push(c(n, call(id, name)).on(1));
        records.push(s(n, said(id, name)).on(1).status(200));
    }
    records
}

fn call(id: &str, name: &str) -> String {
    crate::support::replay::call(id, name, "{}")
}

#[test]
fn a_session_that_expires() {
    let sandbox = Sandbox::new();
    let fault = fault_on("a", "session_expired", "{}").replace("\"name\":", "\"nth\":1,\"name\":");
    sandbox.faults(&[fault]);
    let options = ["--faults", "f.json", "--require-faults", "--require-all-used"];
    let server = sandbox.play_recorded_http(&legacy(), &options);
    let first = server.greet("{}");
    assert!(first.session.is_some());
    let mut stream = first.get();
    assert_eq!(first.post(&call("5", "b")).expect(200).body, said("5", "b"));
    first.post(&call("6", "a")).fails(404, -32001);
    assert_eq!(stream.next(), None);
    // The id is dead, and a client that starts again gets its answer.
    first.post(&call("7", "a")).fails(404, -32001);
    let second = server.greet("{}");
    assert_eq!(second.post(&call("8", "a")).expect(200).body, said("8", "a"));
    server.end(0);
}

#[test]
fn a_session_that_does_not_open() {
    let whole = r#""serverInfo":{"name":"demo","version":"1"}"#;
    for (kind, params, start) in [
        ("http_status", r#"{"status":503}"#, "HTTP/1.1 503 "),
        ("malformed", "{}", "HTTP/1.1 200 OK"),
        ("error", "{}", "HTTP/1.1 200 OK"),
        ("disconnect", "{}", ""),
        ("session_expired", "{}", "HTTP/1.1 404 "),
    ] {
        let sandbox = Sandbox::new();
        let target = r#"{"method":"initialize","nth":1}"#;
        sandbox.faults(&[format!("{{\"target\":{target},\"type\":\"{kind}\",\"params\":{params}}}")]);
        let server = sandbox.play_recorded_http(&legacy(), &["--faults", "f.json", "--require-faults"]);
        let (got, _) = all(post(&server, &initialize("{}"), &[]));
        assert!(
            got.starts_with(start) && !got.contains("Mcp-Session-Id") && !got.contains(whole),
            "{kind}: {got}"
        );
        let client = server.greet("{}");
        assert_eq!(client.post(&call("5", "a")).expect(200).body, said("5", "a"));
        drop(client);
        server.end(0);
    }
}

#[test]
fn a_late_answer_waits_until_the_client_gives_up() {
    let sandbox = Sandbox::new();
    sandbox.faults(&[fault_on("a", "late", "{}")]);
    let server = sandbox.play_recorded_http(&legacy(), &["--faults", "f.json", "--require-faults"]);
    let client = server.greet("{}");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.post(&call("5", "a")));
        // The other call's answer is sent after the first one was taken, so cancelling meets it.
        eventually("the call is being held", || {
            client.post(&cancelled("5")).expect(202);
            waiting.is_finished()
        });
        assert_eq!(waiting.join().unwrap().expect(200).body, said("5", "a"));
    });
    server.end(0);
}

#[test]
fn a_delay_and_a_timeout_end_when_the_client_cancels() {
    for (kind, params) in [("delay", r#"{"ms":3600000}"#), ("timeout", "{}")] {
        let sandbox = Sandbox::new();
        sandbox.faults(&[fault_on("a", kind, params)]);
        let server = sandbox.play_recorded_http(&legacy(), &["--faults", "f.json", "--require-faults"]);
        let client = server.greet("{}");
        std::thread::scope(|scope| {
            let socket = post(&server, &call("5", "a"), &session(&client));
            let waiting = scope.spawn(|| all(socket));
            eventually("the call has ended", || {
                client.post(&cancelled("5")).expect(202);
                waiting.is_finished()
            });
            let (got, _) = waiting.join().unwrap();
            assert!(!got.contains("jsonrpc"), "{kind}: {got}");
        });
        assert_eq!(client.post(&call("6", "b")).expect(200).body, said("6", "b"));
        drop(client);
        server.end(0);
    }
}

#[test]
fn a_client_that_leaves_has_given_up() {
    let sandbox = Sandbox::new();
    sandbox.faults(&[fault_on("a", "timeout", "{}")]);
    let server = sandbox.play_recorded_http(&legacy(), &["--faults", "f.json", "--require-faults"]);
    let client = server.greet("{}");
    let mut socket = post(&server, &call("5", "a"), &session(&client));
    socket.read_exact(&mut [0; 8]).unwrap();
    drop(socket);
    assert_eq!(client.post(&call("6", "b")).expect(200).body, said("6", "b"));
    drop(client);
    server.end(0);
}

#[test]
fn a_reordered_answer_follows_the_next_one() {
    let sandbox = Sandbox::new();
    sandbox.faults(&[fault_on("json", "reorder", r#"{"within_ms":3600000}"#)]);
    let options = ["--faults", "f.json", "--require-faults", "--repeat", "last"];
    let server = sandbox.play_recorded_http(&records(), &options);
    let body = tool("5", "json");
    let socket = post(&server, &body, &modern_fields(&body));
    socket.set_nonblocking(true).unwrap();
    eventually("another answer overtakes it", || {
        server.modern(&tool("6", "events")).expect(200);
        !matches!(socket.peek(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    });
    socket.set_nonblocking(false).unwrap();
    assert!(all(socket).0.ends_with(&said("5", "j")));
    server.end(0);
}

#[test]
fn answers_that_drip() {
    for (name, whole) in
        [("json", json(said("5", "j").len(), &said("5", "j"))), ("events", stepped(&said("5", "e")))]
    {
        let sandbox = Sandbox::new();
        let server = serving(&sandbox, &[fault_on(name, "drip", r#"{"bytes_per_second":500}"#)]);
        let body = tool("5", name);
        let begun = Instant::now();
        let socket = post(&server, &body, &modern_fields(&body));
        // Nobody else waits.
        assert_eq!(server.modern(&tool("6", "other")).expect(200).body, said("6", "o"));
        let (got, reset) = all(socket);
        let took = begun.elapsed();
        assert_eq!(unchunked(&got), unchunked(&whole));
        let length = unchunked(&got).split_once("\r\n\r\n").unwrap().1.len() as u64;
        assert!(!reset && took >= Duration::from_millis(length * 2 - 1), "{took:?} for {length} bytes");
        server.end(0);
    }
}

/// A head and what its body says.
fn unchunked(text: &str) -> String {
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    if !head.contains("chunked") {
        return text.to_owned();
    }
    let mut out = format!("{head}\r\n\r\n");
    let mut rest = body;
    while let Some((size, after)) = rest.split_once("\r\n") {
        let size = usize::from_str_radix(size, 16).unwrap();
        out += &after[..size];
        rest = &after[size + 2..];
    }
    out
}

#[test]
fn a_drip_ends_with_the_replay() {
    let sandbox = Sandbox::new();
    let server = serving(&sandbox, &[fault_on("json", "drip", r#"{"bytes_per_second":1}"#)]);
    let body = tool("5", "json");
    let mut socket = post(&server, &body, &modern_fields(&body));
    let mut start = [0; 16];
    socket.read_exact(&mut start).unwrap();
    server.end(0);
}

#[test]
fn a_delay_holds_up_nobody_else() {
    let sandbox = Sandbox::new();
    let delay = r#"{"ms":200}"#;
    let server = serving(&sandbox, &[fault_on("json", "delay", delay), fault_on("events", "delay", delay)]);
    let begun = Instant::now();
    let sockets = ["json", "events"].map(|name| {
        let body = tool("5", name);
        post(&server, &body, &modern_fields(&body))
    });
    assert_eq!(server.modern(&tool("6", "other")).expect(200).body, said("6", "o"));
    let [one, two] = sockets.map(all);
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(one, (json(said("5", "j").len(), &said("5", "j")), false));
    assert_eq!(two, (stepped(&said("5", "e")), false));
    server.end(0);
}

#[test]
fn an_exit_cuts_everything() {
    for (params, status, expected) in [
        (r#"{"code":7}"#, 7, String::new()),
        (r#"{"code":0,"after_response":true}"#, 0, json(said("5", "j").len(), &said("5", "j"))),
    ] {
        let sandbox = Sandbox::new();
        let server = serving(&sandbox, &[fault_on("json", "exit", params)]);
        let body = tool("5", "json");
        let (got, _) = all(post(&server, &body, &modern_fields(&body)));
        assert_eq!(got, expected);
        server.exits(status);
    }
}

#[test]
fn what_was_refused_is_missed_however_the_program_ends() {
    let sandbox = Sandbox::new();
    let server = serving(&sandbox, &[fault_on("json", "exit", r#"{"code":0}"#)]);
    let refused = tool("4", "events");
    server.post(&refused, &[]).fails(400, -32020);
    let body = tool("5", "json");
    all(post(&server, &body, &modern_fields(&body)));
    assert!(
        server.exits(3).stderr.contains("tools/call \"events\" was refused: MCP-Protocol-Version is missing")
    );
}

#[test]
fn noise_on_standard_error() {
    let sandbox = Sandbox::new();
    let server = serving(&sandbox, &[fault_on("json", "stderr_noise", r#"{"text":"panic!"}"#)]);
    server.modern(&tool("5", "json")).expect(200);
    let stderr = server.end(0).stderr;
    assert!(stderr.lines().any(|line| line == "panic!"), "{stderr}");
}

#[test]
fn r071_no_comment_keeps_a_timeout_alive() {
    let sandbox = Sandbox::new();
    let server = serving(&sandbox, &[fault_on("json", "timeout", "{}"), fault_on("events", "timeout", "{}")]);
    let open = |name: &str| {
        let body = tool("5", name);
        let mut socket = post(&server, &body, &modern_fields(&body));
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            let mut byte = [0];
            socket.read_exact(&mut byte).unwrap();
            head.push(char::from(byte[0]));
        }
        (socket, head)
    };
    let (events, json) = (open("events"), open("json"));
    assert_eq!(events.1, SSE_HEAD);
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";
    assert_eq!(json.1, head);
    // Another stream that was opened later has its comment by then.
    let listen = modern("9", "subscriptions/listen", r#""notifications":{}"#, "{}");
    let mut stream = server.modern_stream(&listen);
    assert!(stream.next().unwrap().contains("acknowledged"));
    assert_eq!(stream.comment(), ":");
    for socket in [events.0, json.0] {
        socket.set_nonblocking(true).unwrap();
        assert_eq!(socket.peek(&mut [0]).unwrap_err().kind(), ErrorKind::WouldBlock);
    }
    server.end(0);
}

#[test]
fn the_stream_of_http_with_sse_is_like_a_pipe() {
    let sandbox = Sandbox::new();
    let whole = said("5", "a");
    for (kind, params, expected) in [
        ("error", "{}", vec![error("5", -32603, "mcpreel injected error")]),
        ("malformed", "{}", vec![half(&whole).to_owned()]),
        ("duplicate", "{}", vec![whole.clone(), whole.clone()]),
        ("drip", r#"{"bytes_per_second":2000}"#, vec![whole.clone()]),
        ("disconnect", "{}", vec![]),
        ("disconnect", r#"{"after_response":true}"#, vec![whole.clone()]),
    ] {
        sandbox.faults(&[fault_on("a", kind, params)]);
        let server = sandbox.play_recorded_http(&legacy(), &["--faults", "f.json", "--require-faults"]);
        let mut stream = server.open("GET", "/sse", &[("Accept", "text/event-stream")], "");
        let target = stream.next().unwrap();
        let post = |body: &str| {
            server.ask("POST", &target, &[("Content-Type", "application/json")], body).expect(202)
        };
        post(&initialize("{}"));
        stream.next().unwrap();
        post(INITIALIZED);
        post(&call("5", "a"));
        for line in expected {
            assert_eq!(stream.next().as_deref(), Some(&*line), "{kind} {params}");
        }
        if kind == "disconnect" {
            assert_eq!(stream.next(), None);
        }
        server.end(0);
    }
}
