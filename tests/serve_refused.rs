//! Replay over HTTP: what is refused before it comes to be matched counts, unless the client does as it was told.

use super::support::http::Wire;
use super::support::replay::{INITIALIZED, OFFERED, call, request, result, said};
use super::support::web::{Answer, Endpoint, POST, Record, c, modern_fields, s};
use super::support::{Sandbox, initialize};

fn greeting() -> String {
    result(
        "0",
        &format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{OFFERED},"serverInfo":{{"name":"demo","version":"1"}}}}"#
        ),
    )
}

/// A server with sessions, and one call.
fn legacy() -> Vec<Record> {
    vec![
        c(1, initialize("{}")),
        s(1, greeting()).on(1).status(200),
        c(3, call("1", "echo", "{}")).on(1),
        s(3, said("1", "echoed")).on(1).status(200),
    ]
}

fn modern(id: &str, name: &str) -> String {
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;
    request(id, "tools/call", &format!(r#"{{"name":"{name}","arguments":{{}},{meta}}}"#))
}

#[test]
fn a_request_where_nothing_takes_messages_is_a_miss() {
    let sandbox = Sandbox::new();
    let two = format!("[{},{INITIALIZED},{}]", call("1", "a", "{}"), call("2", "b", "{}"));
    for (method, path, body, misses) in [
        ("POST", "/other", call("1", "echo", "{}"), 1),
        ("POST", "/mcp/v2", initialize("{}"), 1),
        ("POST", "/mcp/v2", two, 2),
        ("POST", "/other", INITIALIZED.to_owned(), 0),
        ("POST", "/other", result("1", "{}"), 0),
        ("POST", "/register", r#"{"redirect_uris":[]}"#.to_owned(), 0),
        ("POST", "/other", "no JSON".to_owned(), 0),
        ("GET", "/.well-known/oauth-protected-resource", String::new(), 0),
    ] {
        let server = sandbox.play_recorded_http(&legacy(), &["--report", "report"]);
        server.ask(method, path, &POST, &body).expect(404);
        let ended = server.end(if misses > 0 { 3 } else { 0 });
        let report: serde_json::Value = serde_json::from_str(sandbox.read("report").trim()).unwrap();
        assert_eq!(report["misses"].as_array().unwrap().len(), misses, "{path} {body}");
        let told =
            ended.stderr.matches("nothing takes messages at this path; the endpoint is at /mcp").count();
        assert_eq!(told, misses, "{}", ended.stderr);
        std::fs::remove_file(sandbox.path.join("report")).unwrap();
    }
}

#[test]
fn r074_a_session_that_never_was_is_a_miss() {
    let sandbox = Sandbox::new();
    let call = call("1", "echo", "{}");
    for (fields, status) in [(&[][..], 400), (&[("Mcp-Session-Id", "made-up")], 404)] {
        let server = sandbox.play_recorded_http(&legacy(), &["--report", "report"]);
        server.post(INITIALIZED, fields).expect(status);
        server.post(&call, fields).expect(status);
        let ended = server.end(3);
        assert!(ended.stderr.contains(r#"tools/call "echo" was refused: "#), "{}", ended.stderr);
        let report: serde_json::Value = serde_json::from_str(sandbox.read("report").trim()).unwrap();
        assert_eq!(report["misses"][0]["name"], "echo");
        assert_eq!(report["misses"].as_array().unwrap().len(), 1);
        std::fs::remove_file(sandbox.path.join("report")).unwrap();
    }
    // The old transport knows its sessions as well.
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    server.ask("POST", "/messages?session_id=made-up", &POST, &call).expect(404);
    server.end(3);
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    server.ask("POST", "/messages", &POST, &call).expect(400);
    server.end(3);
}

#[test]
fn r074_a_client_that_begins_anew_is_not_punished() {
    let sandbox = Sandbox::new();
    let call = call("1", "echo", "{}");
    let stale = [("Mcp-Session-Id", "of-an-earlier-replay")];
    // It asks again, on whatever connection.
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    server.post(&call, &stale).expect(404);
    server.post(&call, &stale).expect(404);
    assert_eq!(server.greet("{}").post(&call).expect(200).body, said("1", "echoed"));
    server.end(0);
    // It gives up what it asked, on the same connection.
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    let mut wire = Wire::to(server.host.parse().unwrap());
    let mut post = |more: &str, body: &str| {
        let length = body.len();
        wire.write(format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n{more}Content-Length: {length}\r\n\r\n{body}",
            server.host
        ));
        wire.answer().status
    };
    assert_eq!(post("Mcp-Session-Id: of-an-earlier-replay\r\n", &call), 404);
    assert_eq!(post("", &initialize("{}")), 200);
    server.end(0);
    // Another client does, and asks the same in a session that it had before.
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    let other = server.greet("{}");
    server.post(&call, &stale).expect(404);
    other.post(&call).expect(200);
    server.end(3);
    // It begins anew and asks something else.
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    server.post(&super::support::replay::call("1", "lost", "{}"), &stale).expect(404);
    server.greet("{}").post(&call).expect(200);
    server.end(3);
}

#[test]
fn r074_a_session_that_was_is_over() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    let client = server.greet("{}");
    client.delete().expect(200);
    client.post(&call("1", "echo", "{}")).expect(404);
    client.post(&request("2", "ping", "{}")).expect(404);
    server.end(0);
}

#[track_caller]
fn post(server: &Endpoint, body: &str, change: impl Fn(&mut Vec<(String, String)>)) -> Answer {
    let mut fields = modern_fields(body);
    change(&mut fields);
    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    server.post(body, &fields)
}

/// Changes the header fields of a request.
type Change = fn(&mut Vec<(String, String)>);

#[test]
fn r065_r067_r070_what_a_modern_server_must_refuse_is_a_miss() {
    let sandbox = Sandbox::new();
    let records = [c(1, modern("1", "echo")), s(1, said("1", "echoed")).status(200)];
    let echo = modern("1", "echo");
    let without = echo.replacen(r#","io.modelcontextprotocol/clientCapabilities":{}"#, "", 1);
    let array = format!("[{echo}]");
    let table: [(&str, Change, u16, &str); 6] = [
        (&echo, |fields| drop(fields.remove(1)), 400, "Mcp-Method is missing"),
        (&echo, |fields| "Other".clone_into(&mut fields[2].1), 400, "Mcp-Name is not that of the body"),
        (&without, |_| {}, 400, "params._meta has no io.modelcontextprotocol/clientCapabilities"),
        (&array, |_| {}, 400, "a body must be one request or one notification"),
        (&echo, |fields| fields.push(("Content-Type".into(), "text/plain".into())), 415, "Content-Type"),
        (&echo, |fields| fields.push(("Accept".into(), "application/json;q=0".into())), 200, ""),
    ];
    for (body, change, status, why) in table {
        let server = sandbox.play_recorded_http(&records, &[]);
        let one = body.trim_start_matches('[').trim_end_matches(']');
        let mut fields = modern_fields(one);
        change(&mut fields);
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        server.post(body, &fields).expect(status);
        let ended = server.end(if status == 200 { 0 } else { 3 });
        assert!(ended.stderr.contains(why), "{}", ended.stderr);
        // Asked again as it should be, it is answered.
        let server = sandbox.play_recorded_http(&records, &[]);
        if status != 200 {
            server.post(body, &fields).expect(status);
        }
        assert!(server.modern(&echo).expect(200).body.contains("echoed"));
        server.end(0);
    }
}

#[test]
fn a_refusal_that_was_recorded_is_none() {
    let sandbox = Sandbox::new();
    let refused = super::support::replay::error("1", -32020, "Mcp-Name is missing");
    let alone = [
        c(1, modern("1", "strict")),
        s(1, refused.clone()).status(400),
        c(2, modern("2", "echo")),
        s(2, said("2", "echoed")).status(200),
    ];
    let batch = [
        c(1, format!("[{},{}]", modern("1", "strict"), modern("2", "echo"))),
        s(1, refused).status(200),
        s(1, said("2", "echoed")).status(200),
    ];
    for records in [&alone[..], &batch] {
        for (name, code) in [("strict", 0), ("echo", 3)] {
            let server = sandbox.play_recorded_http(records, &[]);
            post(&server, &modern("1", name), |fields| drop(fields.pop())).fails(400, -32020);
            server.end(code);
        }
    }
}

#[test]
fn r081_an_answer_that_the_client_does_not_take_is_a_miss() {
    let sandbox = Sandbox::new();
    let progress = super::support::replay::progress("1", 1);
    let body = modern("1", "steps").replacen(r#""_meta":{"#, r#""_meta":{"progressToken":1,"#, 1);
    let records = [c(1, body.clone()), s(1, progress).sse(), s(1, said("1", "stepped"))];
    let server = sandbox.play_recorded_http(&records, &[]);
    post(&server, &body, |fields| fields.push(("Accept".into(), "application/json".into()))).expect(406);
    assert!(server.end(3).stderr.contains("which Accept does not name"));
    // Who asks again as it should gets it.
    let server = sandbox.play_recorded_http(&records, &["--require-all-used"]);
    post(&server, &body, |fields| fields.push(("Accept".into(), "application/json".into()))).expect(406);
    assert_eq!(server.modern(&body).expect(200).last(), said("1", "stepped"));
    server.end(0);
}

#[test]
fn r028_r077_strangers_are_told_of_and_miss_nothing() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&legacy(), &["--report", "report"]);
    for _ in 0..2 {
        server.post(&call("1", "echo", "{}"), &[("Host", "evil.example")]).expect(403);
        server.post(&call("1", "echo", "{}"), &[("Origin", "http://evil.example")]).expect(403);
    }
    let ended = server.end(0);
    for told in ["this Host is not allowed here", "this Origin is not allowed here"] {
        assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
    }
    let report: serde_json::Value = serde_json::from_str(sandbox.read("report").trim()).unwrap();
    assert_eq!(report["warnings"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_refused_unread_is_a_miss() {
    let sandbox = Sandbox::new();
    let long = call("1", "echo", &format!("{{\"text\":\"{}\"}}", "x".repeat(2_000)));
    let chunked = format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n0\r\n\r\n", long.len());
    let sized = format!("Content-Length: {}\r\n\r\n{long}", long.len());
    let endless = format!("Content-Length: {}\r\n\r\n", "9".repeat(30));
    let fields = (0..200).fold(String::new(), |fields, n| format!("{fields}X-{n}: x\r\n"));
    let fields = format!("{fields}Content-Length: 2\r\n\r\n{{}}");
    for (message, status, told) in [
        (&chunked, 413, "413: the request body is too large; serve --max-body takes larger ones"),
        (&sized, 413, "413: the request body is too large; serve --max-body takes larger ones"),
        (&endless, 413, "413: the request body is too large; serve --max-body takes larger ones"),
        (&fields, 431, "431: too many header fields; send fewer or shorter header fields"),
    ] {
        for (path, kind) in
            [("/mcp", "application/json"), ("/other", "application/json"), ("/mcp", "text/plain")]
        {
            let server = sandbox.play_recorded_http(&legacy(), &["--max-body", "1000", "--report", "report"]);
            let mut wire = Wire::to(server.host.parse().unwrap());
            wire.write(format!(
                "POST {path} HTTP/1.1\r\nHost: {}\r\nContent-Type: {kind}\r\n{message}",
                server.host
            ));
            assert_eq!(wire.answer().status, status, "{path} {kind} {message}");
            let ended = server.end(3);
            let line = format!("mcpreel: a message was refused with status {told}\n");
            assert_eq!(ended.stderr.matches(&line).count(), 1, "{}", ended.stderr);
            let report: serde_json::Value = serde_json::from_str(sandbox.read("report").trim()).unwrap();
            assert_eq!(report["misses"][0]["method"], "(not read)");
            assert_eq!(report["misses"].as_array().unwrap().len(), 1);
            std::fs::remove_file(sandbox.path.join("report")).unwrap();
        }
    }
}

#[test]
fn what_is_no_http_is_a_miss_unless_its_client_has_left() {
    let sandbox = Sandbox::new();
    let said = |why: &str| {
        format!("mcpreel: a message was refused with status {why}; send it as HTTP/1.1 says, without TLS\n")
    };
    let post = "POST /mcp HTTP/1.1\r\nHost: HOST\r\nContent-Type: application/json\r\n";
    for (message, status, why) in [
        (
            format!("{post}Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n"),
            400,
            "Transfer-Encoding and Content-Length exclude each other",
        ),
        (
            format!("{post}Content-Length: 2\r\nContent-Length: 3\r\n\r\n"),
            400,
            "a request has one Content-Length",
        ),
        (format!("{post}Transfer-Encoding: chunked\r\n\r\nxyz\r\n"), 400, "bad chunk size"),
        (
            format!("{post}Transfer-Encoding: gzip\r\n\r\n"),
            501,
            "only the chunked transfer coding is understood",
        ),
        (format!("{post}Expect: more\r\n\r\n"), 417, "only 100-continue can be expected here"),
        ("POST /mcp HTTP/1.1\r\n\r\n".to_owned(), 400, "a request has one Host header"),
        ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(), 505, "only HTTP/1.0 and HTTP/1.1 are spoken here"),
        ("\u{16}\u{3}\u{1}".to_owned(), 400, "this is no HTTP request"),
    ] {
        let server = sandbox.play_recorded_http(&legacy(), &["--report", "report"]);
        let mut wire = Wire::to(server.host.parse().unwrap());
        wire.write(message.replace("HOST", &server.host));
        assert_eq!(wire.answer().status, status, "{message}");
        let ended = server.end(3);
        assert_eq!(ended.stderr.matches(&said(&format!("{status}: {why}"))).count(), 1, "{}", ended.stderr);
        let report: serde_json::Value = serde_json::from_str(sandbox.read("report").trim()).unwrap();
        assert_eq!(report["misses"][0]["method"], "(not read)");
        assert_eq!(report["misses"].as_array().unwrap().len(), 1);
        std::fs::remove_file(sandbox.path.join("report")).unwrap();
    }
    // Who looks whether somebody listens, or breaks off, waits for nothing.
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    drop(Wire::to(server.host.parse().unwrap()));
    let mut wire = Wire::to(server.host.parse().unwrap());
    wire.write(format!("{post}Content-Length: 20\r\n\r\n{{").replace("HOST", &server.host));
    wire.socket.shutdown(std::net::Shutdown::Write).unwrap();
    assert_eq!(wire.answer().status, 400);
    server.end(0);
}

#[test]
fn what_is_no_json_is_told() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    server.post("{\"jsonrpc\":", &[]).fails(400, -32700);
    assert!(server.end(0).stderr.contains("a client sent a body that is not JSON"));
}

#[test]
fn very_many_sessions_do_not_use_up_the_memory() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&legacy(), &[]);
    let (idle, streaming) = (server.greet("{}"), server.greet("{}"));
    let stream = streaming.get();
    let mut wire = Wire::to(server.host.parse().unwrap());
    let body = initialize("{}");
    let text = format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        server.host,
        body.len()
    );
    let mut open = |count: usize| {
        let mut last = String::new();
        for _ in 0..count {
            wire.write(&text);
            last = wire.answer().header("mcp-session-id").unwrap().to_owned();
        }
        last
    };
    open(9_998);
    assert_eq!(idle.post(&request("1", "ping", "{}")).expect(200).body, result("1", "{}"));
    // The one that was used last stays, the oldest of the others goes.
    let last = open(9_999);
    idle.post(&request("2", "ping", "{}")).expect(404);
    assert_eq!(streaming.post(&request("3", "ping", "{}")).expect(200).body, result("3", "{}"));
    let fields = [("Mcp-Session-Id", last.as_str())];
    assert_eq!(server.post(&call("4", "echo", "{}"), &fields).expect(200).body, said("4", "echoed"));
    stream.close();
    let ended = server.end(0);
    assert_eq!(ended.stderr.matches("there were 10000 sessions").count(), 1, "{}", ended.stderr);
}
