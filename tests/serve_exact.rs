//! Replay over HTTP: answers that are wrong or incomplete go out as they were recorded, or are misses.

use std::net::Shutdown;

use super::support::http::Wire;
use super::support::replay::{OFFERED, call, call_with_progress, progress, result, said};
use super::support::web::{Endpoint, Record, bare, c, s};
use super::support::{Sandbox, initialize};

const JSON: &str = r#"{"status":200,"type":"json"}"#;
const SSE: &str = r#"{"status":200,"type":"sse"}"#;

/// Everything that the server sends to a call, up to the end of the connection.
fn raw(server: &Endpoint, body: &str) -> String {
    let mut wire = Wire::to(server.host.parse().unwrap());
    wire.write(format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        server.host,
        body.len()
    ));
    String::from_utf8(wire.rest()).unwrap()
}

/// A call with these records of its answer, played over HTTP: what comes, and the exit status.
#[track_caller]
fn played(answer: &[Record], code: i32) -> String {
    let sandbox = Sandbox::new();
    let records = [&[c(3, call("1", "x", "{}"))], answer].concat();
    let server = sandbox.play_recorded_http(&records, &[]);
    let said = raw(&server, &call("7", "x", "{}"));
    server.end(code);
    said
}

/// The same over standard output.
#[track_caller]
fn piped(answer: &[Record], code: i32) -> String {
    let sandbox = Sandbox::new();
    sandbox.http_cassette(&[&[c(3, call("1", "x", "{}"))], answer].concat());
    let mut client = sandbox.serve(&["--stdio"]);
    let answer = client.ask(&call("7", "x", "{}"));
    client.close(code);
    answer
}

#[test]
fn what_was_not_kept_is_a_miss() {
    let empty = Record::body;
    for (what, answer) in [
        ("not UTF-8, as JSON", empty(bare(3).http(JSON), "base64", "eyJqc29ucnBjIjoi//4=")),
        ("not UTF-8, as events", empty(bare(3).http(SSE), "base64", "//4=")),
        ("half a message", empty(bare(3).http(JSON), "text", "{\"jsonrpc\":")),
        ("compressed, or none", bare(3).http(JSON)),
        ("a large page, or none", bare(3).http(r#"{"status":200,"type":"text/html"}"#)),
        ("no type and no body", bare(3).http(r#"{"status":200}"#)),
        ("a stream that says nothing", bare(3).http(SSE)),
        ("too large", bare(3).http(JSON).end("not_kept")),
        ("the recorder ended", bare(3).http(JSON).end("recorder_ended")),
        ("an end of a later program", bare(3).end("washed_away")),
        ("a notification alone", s(3, progress("1", 1)).status(200)),
    ] {
        let said = played(std::slice::from_ref(&answer), 3);
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{what}: {said}");
        assert!(said.contains(r#"{"jsonrpc":"2.0","id":7,"error":{"code":-31002,"#), "{what}: {said}");
        assert!(piped(&[answer], 3).contains(r#""id":7,"error":{"code":-31002,"#), "{what}");
    }
}

#[test]
fn what_is_no_message_goes_out_as_it_was() {
    let head = |status: &str, kind: &str, length: usize| {
        format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    };
    for (answer, said) in [
        (bare(3).http(JSON).body("text", ""), head("200 OK", "application/json", 0)),
        (bare(3).http(JSON).body("text", "hello"), head("200 OK", "application/json", 5) + "hello"),
        (
            s(3, r#"{"error":"busy"}"#).status(500),
            head("500 Internal Server Error", "application/json", 16) + r#"{"error":"busy"}"#,
        ),
        (s(3, "42").status(200), head("200 OK", "application/json", 2) + "42"),
        (
            bare(3).http(r#"{"status":200,"type":"image/png"}"#).body("base64", "AAEC"),
            head("200 OK", "image/png", 3) + "\0\x01\x02",
        ),
        (
            bare(3).http(r#"{"status":202}"#),
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".to_owned(),
        ),
        (bare(3).http(r#"{"status":403,"type":"text/html"}"#), head("403 Forbidden", "text/html", 0)),
    ] {
        assert_eq!(played(std::slice::from_ref(&answer), 0), said);
        assert!(piped(&[answer], 3).contains("-31002"));
    }
}

#[test]
fn a_cut_answer_is_cut_where_it_was() {
    let half = r#"{"jsonrpc":"2.0","id":1,"res"#;
    let whole = said("1", "done");
    let live = said("7", "done");
    let head = |kind: &str, length: usize| {
        format!(
            "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n"
        )
    };
    let cut = || bare(3).end("cut");
    for (answer, said) in [
        (vec![cut()], String::new()),
        (vec![bare(3).http(JSON), cut()], head("application/json", 1)),
        (vec![bare(3).http(JSON).body("text", half), cut()], head("application/json", half.len() + 1) + half),
        (
            vec![bare(3).http(JSON).body("text", half).end("cut")],
            head("application/json", half.len() + 1) + half,
        ),
        (
            vec![bare(3).http(r#"{"status":200,"type":"text/html"}"#).body("text", "<p>"), cut()],
            head("text/html", 4) + "<p>",
        ),
        // All of a message came, and the connection broke off all the same.
        (vec![s(3, whole.clone()).status(200), cut()], head("application/json", live.len() + 1) + &live),
    ] {
        assert_eq!(played(&answer, 0), said);
        assert!(piped(&answer, 3).contains(r#""id":7,"error":{"code":-31002,"#));
    }
    // Events: no last chunk.
    let event = |text: &str| {
        let event = format!("event: message\ndata: {text}\n\n");
        format!("{:x}\r\n{event}\r\n", event.len())
    };
    for (answer, events) in [
        (vec![bare(3).http(SSE), cut()], String::new()),
        (vec![bare(3).http(SSE).body("text", "data: {\"js"), cut()], "a\r\ndata: {\"js\r\n".to_owned()),
        (vec![s(3, whole).sse(), cut()], event(&live)),
    ] {
        let said = played(&answer, 0);
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.contains("text/event-stream"), "{head}");
        assert_eq!(body, events);
    }
}

#[test]
fn a_stream_is_cut_in_the_middle_of_an_event() {
    let sandbox = Sandbox::new();
    let records = [
        c(3, call_with_progress("1", "x", "1")),
        s(3, progress("1", 1)).sse(),
        bare(3).body("text", "event: message\nda"),
        bare(3).end("cut"),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    let mut stream = server.stream(&call_with_progress("7", "x", "2"), &[]);
    assert_eq!(stream.next().unwrap(), progress("2", 1));
    stream.is_cut();
    let said = raw(&server, &call_with_progress("8", "x", "3"));
    assert!(said.contains("-31001"), "{said}");
    server.end(3);
}

#[test]
fn r076_a_cut_that_the_client_came_back_from_is_none() {
    let mut back = c(3, "").http(r#"{"method":"GET","last-event-id":1}"#);
    back.drop_payload();
    let answer = [
        s(3, progress("1", 1)).http(r#"{"status":200,"type":"sse","event":1}"#),
        bare(3).end("cut"),
        back,
        s(3, said("1", "done")).http(r#"{"status":200,"type":"sse","event":2}"#),
    ];
    let sent = played(&answer, 0);
    assert!(sent.contains(&said("7", "done")) && sent.ends_with("\r\n0\r\n\r\n"), "{sent}");
}

#[test]
fn an_id_that_is_wrong_stays_wrong() {
    for (id, served) in [
        ("99", "99"),
        ("\"1\"", "\"1\""),
        ("1.5", "1.5"),
        // This is the request's id.
        ("1.0", "7"),
        ("1", "7"),
        ("null", "null"),
    ] {
        for answer in [s(3, said(id, "done")).status(200), s(3, said(id, "done")).sse()] {
            let said_here = played(&[answer], 0);
            assert!(said_here.contains(&said(served, "done")), "{id}: {said_here}");
        }
    }
    // A client on a pipe would wait for ever.
    assert!(piped(&[s(3, said("99", "done")).status(200)], 3).contains("names another request"));
    assert_eq!(piped(&[s(3, said("1", "done")).status(200)], 0), said("7", "done"));
}

#[test]
fn an_array_stays_an_array() {
    let log = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}"#;
    for (recorded, served) in [
        (format!("[{}]", said("1", "done")), format!("[{}]", said("7", "done"))),
        (format!("[{log},{}]", said("1", "done")), format!("[{log},{}]", said("7", "done"))),
        (format!("[{}]", said("99", "done")), format!("[{}]", said("99", "done"))),
    ] {
        let said = played(&[s(3, recorded.clone()).status(200)], 0);
        let (head, body) = said.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/json"), "{head}");
        assert_eq!(body, served);
    }
    assert_eq!(piped(&[s(3, format!("[{}]", said("1", "done"))).status(200)], 0), said("7", "done"));
    // The answer to a batch is one anyway, and a batch that was recorded one by one is still a batch.
    let sandbox = Sandbox::new();
    let batch = |a: &str, b: &str| format!("[{},{}]", call(a, "a", "{}"), call(b, "b", "{}"));
    let records = [
        c(3, batch("1", "2")),
        s(3, format!("[{},{}]", said("1", "one"), said("2", "two"))).status(200),
        c(4, call("3", "c", "{}")),
        s(4, format!("[{}]", said("3", "three"))).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &["--repeat", "last"]);
    let both = format!("[{},{}]", said("8", "one"), said("9", "two"));
    assert_eq!(server.post(&batch("8", "9"), &[]).expect(200).body, both);
    assert_eq!(server.post(&call("8", "b", "{}"), &[]).expect(200).body, said("8", "two"));
    let single = format!("[{}]", call("8", "c", "{}"));
    assert_eq!(server.post(&single, &[]).expect(200).body, format!("[{}]", said("8", "three")));
    server.end(0);
}

#[test]
fn sessions_end_with_the_recorded_statuses() {
    let greeting = result(
        "0",
        &format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{OFFERED},"serverInfo":{{"name":"demo","version":"1"}}}}"#
        ),
    );
    // The statuses as they were recorded, and each as it is played, with that of a ping behind it.
    for (recorded, played) in [
        (&[][..], &[(200, 404)][..]),
        (&[204], &[(204, 404), (204, 404)]),
        (&[202], &[(202, 404)]),
        (&[404], &[(404, 404)]),
        (&[405], &[(405, 200), (405, 200)]),
        (&[500, 204], &[(500, 200), (204, 404), (204, 404)]),
        (&[401, 200], &[(200, 404)]),
    ] {
        let sandbox = Sandbox::new();
        let mut records = vec![c(1, initialize("{}")), s(1, greeting.clone()).on(1).status(200)];
        for (exchange, status) in (2..).zip(recorded) {
            let mut delete = c(exchange, "").http(r#"{"method":"DELETE"}"#).on(1);
            delete.drop_payload();
            records.extend([delete, bare(exchange).http(&format!(r#"{{"status":{status}}}"#)).on(1)]);
        }
        let server = sandbox.play_recorded_http(&records, &[]);
        let mut client = server.greet("{}");
        for (delete, ping) in played {
            if client.post(&super::support::replay::request("1", "ping", "{}")).status == 404 {
                client = server.greet("{}");
            }
            client.delete().expect(*delete);
            let pong = client.post(&super::support::replay::request("2", "ping", "{}"));
            assert_eq!(pong.status, *ping, "{recorded:?} {delete}");
        }
        server.end(0);
    }
}

#[test]
fn r072_who_closed_its_side_gets_what_is_there() {
    let sandbox = Sandbox::new();
    let listed = super::support::replay::request("7", "tools/list", "{}");
    let records = [
        c(3, super::support::replay::request("1", "tools/list", "{}")),
        s(3, result("1", r#"{"tools":[]}"#)).status(200),
        c(4, call("2", "never", "{}")),
    ];
    let records: Vec<Record> = records.into_iter().chain([bare(4).http(JSON).end("client_closed")]).collect();
    let server = sandbox.play_recorded_http(&records, &[]);
    let closing = |body: &str| {
        let mut wire = Wire::to(server.host.parse().unwrap());
        wire.write(format!(
            "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Length: {}\r\n\r\n{body}",
            server.host,
            body.len()
        ));
        wire.socket.shutdown(Shutdown::Write).unwrap();
        String::from_utf8(wire.rest()).unwrap()
    };
    for _ in 0..50 {
        let said = closing(&listed);
        assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with(r#"{"tools":[]}}"#), "{said}");
    }
    // There will be none: the client has left, and is told nothing.
    assert_eq!(closing(&call("8", "never", "{}")), "");
    server.end(0);
}
