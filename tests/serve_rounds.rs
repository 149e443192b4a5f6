//! Over HTTP: questions in results, tasks, subscriptions to resources, deadlines; what only a browser sees, and what a
//! hostile cassette cannot do.

use super::support::replay::{
    self, answered, call, call_with_progress, handshake, notification, progress, request, result, said,
};
use super::support::web::{self, bare, modern_fields};
use super::support::{Sandbox, initialize, modern};

const ASKS: &str = r#"{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"r1"}"#;
const DONE: &str = r#"{"resultType":"complete","content":[]}"#;
const ABLE: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

fn round(id: &str, more: &str) -> String {
    modern(id, "tools/call", &format!("\"name\":\"t\",\"arguments\":{{\"a\":1}}{more}"), ABLE)
}

fn answer(id: &str, action: &str, state: &str) -> String {
    let more = format!(r#","inputResponses":{{"name":{{"action":"{action}"}}}},"requestState":"{state}""#);
    round(id, &more)
}

#[test]
fn r090_r091_r092_rounds_over_connections_of_their_own() {
    let sandbox = Sandbox::new();
    let records = [
        web::c(1, round("1", "")),
        web::s(1, result("1", ASKS)).status(200),
        web::c(2, answer("2", "accept", "r1")),
        web::s(2, result("2", DONE)).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    assert_eq!(server.modern(&round("7", "")).expect(200).body, result("7", ASKS));
    server.modern(&answer("8", "accept", "r2")).fails(200, -31001);
    server.modern(&answer("8", "decline", "r1")).fails(200, -31001);
    let missing = round("9", r#","inputResponses":{},"requestState":"r1""#);
    assert_eq!(server.modern(&missing).expect(200).body, result("9", ASKS));
    assert_eq!(server.modern(&answer("10", "accept", "r1")).expect(200).body, result("10", DONE));
    server.end(3);
}

#[test]
fn r101_r107_r108_tasks() {
    let sandbox = Sandbox::new();
    let task = |kind: &str, status: &str, more: &str| {
        format!(
            r#"{{"resultType":"{kind}","taskId":"t-1","status":"{status}","createdAt":"2026-11-29T20:33:00.000Z","lastUpdatedAt":"2026-11-29T20:33:00.000Z","ttlMs":60000{more}}}"#
        )
    };
    let get = |id: &str, task: &str| modern(id, "tasks/get", &format!("\"taskId\":\"{task}\""), ABLE);
    let done = r#","result":{"resultType":"complete","content":[]}"#;
    let records = [
        web::c(1, round("1", "")),
        web::s(1, result("1", &task("task", "working", ""))).status(200),
        web::c(2, get("2", "t-1")),
        web::s(2, result("2", &task("complete", "working", ""))).status(200),
        web::c(3, get("3", "t-1")),
        web::s(3, result("3", &task("complete", "completed", done))).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    server.modern(&round("4", "").replace(ABLE, "{}")).fails(400, -32021);
    assert!(server.modern(&round("5", "")).expect(200).body.contains("\"taskId\":\"t-1\""));
    let mut polls = 0;
    while !server.modern(&get("6", "t-1")).expect(200).body.contains("\"completed\"") {
        polls += 1;
        assert!(polls < 3);
    }
    server.modern(&get("7", "t-9")).fails(200, -32602);
    server.end(0);
}

#[test]
fn r084_r087_questions_that_are_refused_or_not_answered() {
    let sandbox = Sandbox::new();
    let ask = request(
        "0",
        "elicitation/create",
        r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#,
    );
    let mut records = handshake();
    for id in ["1", "2"] {
        records.extend([
            replay::c(call(id, "ask", "{}")),
            replay::s(ask.replacen(
                "\"id\":0",
                &format!("\"id\":{}", id.len() - 1 + id.parse::<usize>().unwrap()),
                1,
            )),
            replay::c(result(id, r#"{"action":"accept","content":{}}"#)),
            replay::s(said(id, "accepted")),
        ]);
    }
    let server = sandbox.play_http(&records, &["--answer-timeout", "0.2"]);
    let client = server.greet(r#"{"elicitation":{}}"#);
    let mut stream = client.stream(&call("1", "ask", "{}"));
    let asked: serde_json::Value = serde_json::from_str(&stream.next().unwrap()).unwrap();
    client.post(&replay::error(&asked["id"].to_string(), -1, "no")).expect(202);
    assert_eq!(stream.next().unwrap(), said("1", "accepted"));
    let late = client.post(&call("2", "ask", "{}")).expect(200);
    assert!(late.events()[1].contains("-31003"), "{}", late.body);
    drop(client);
    let ended = server.end(3);
    assert!(ended.stderr.contains("refused"), "{}", ended.stderr);
}

#[test]
fn r099_updates_of_what_the_client_subscribed_to() {
    let sandbox = Sandbox::new();
    let updated = |uri: &str| notification("resources/updated", &format!(r#"{{"uri":"{uri}"}}"#));
    let subscribe =
        |id: &str, uri: &str| request(id, "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#));
    let mut records = handshake();
    for (id, uri) in [("1", "a:1"), ("2", "a:2")] {
        records.extend([replay::c(subscribe(id, uri)), replay::s(result(id, "{}"))]);
    }
    records.extend(answered("3", "touch", "{}", "touched"));
    records.extend([replay::s(updated("a:1")), replay::s(updated("a:2"))]);
    let server = sandbox.play_http(&records, &[]);
    let client = server.greet("{}");
    let mut stream = client.get();
    client.post(&subscribe("1", "a:2")).expect(200);
    client.post(&call("2", "touch", "{}")).expect(200);
    assert_eq!(stream.next().unwrap(), updated("a:2"));
    drop(client);
    server.end(0);
}

#[test]
fn r045_r046_equal_calls_in_order_and_none_waits_for_another() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.push(replay::c(call("1", "held", "{}")));
    records.extend(answered("2", "count", "{}", "one"));
    records.extend(answered("3", "count", "{}", "two"));
    let server = sandbox.play_http(&records, &[]);
    let client = server.greet("{}");
    // Never answered, so it stays open.
    let held = client.stream(&call("1", "held", "{}"));
    assert_eq!(client.post(&call("2", "count", "{}")).expect(200).body, said("2", "one"));
    assert_eq!(client.post(&call("2", "count", "{}")).expect(200).body, said("2", "two"));
    client.post(&call("2", "count", "{}")).fails(200, -31001);
    held.close();
    drop(client);
    server.end(3);
}

#[test]
fn progress_that_came_on_the_standalone_stream_comes_there() {
    let sandbox = Sandbox::new();
    let records = [
        web::c(1, initialize("{}")),
        web::s(1, result("0", r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}"#))
            .on(1)
            .status(200),
        web::c(3, call_with_progress("1", "steps", "1")).on(1),
        web::s(2, progress("1", 1)).on(1).get(),
        web::s(3, said("1", "stepped")).on(1).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    let client = server.greet("{}");
    let mut stream = client.get();
    let answer = client.post(&call_with_progress("5", "steps", "\"t\"")).expect(200);
    assert_eq!(answer.body, said("5", "stepped"));
    assert_eq!(stream.next().unwrap(), progress("\"t\"", 1));
    drop(client);
    server.end(0);
}

#[test]
fn a_bare_status_on_a_pipe_is_an_error() {
    let sandbox = Sandbox::new();
    sandbox.http_cassette(&[
        web::c(1, modern("1", "server/discover", "", "{}")),
        bare(1).http(r#"{"status":503,"type":"text/html"}"#),
    ]);
    let mut client = sandbox.serve(&["--stdio"]);
    client.fails(&modern("1", "server/discover", "", "{}"), -31002);
    client.close(3);
}

#[test]
fn r115_no_recorded_value_ends_its_line() {
    let sandbox = Sandbox::new();
    let records = [
        web::c(1, round("1", "")),
        bare(1).http(r#"{"status":429,"type":"text/plain","retry-after":"1\r\nX-Evil: 1","allow":"a"}"#),
        web::c(2, round("2", ",\"x\":1")),
        bare(2).http(r#"{"status":700,"type":"text/plain\r\nX-Evil: 1"}"#),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    let answer = server.modern(&round("1", "")).expect(429);
    assert_eq!((answer.header("x-evil"), answer.header("retry-after")), (None, None));
    assert_eq!(answer.header("allow"), Some("a"));
    let answer = server.modern(&round("2", ",\"x\":1")).expect(500);
    assert_eq!(answer.header("x-evil"), None);
    server.end(0);
}

#[test]
fn r077_origins_and_hosts_that_are_allowed() {
    let sandbox = Sandbox::new();
    let records = [web::c(1, round("1", "")), web::s(1, result("1", DONE)).status(200)];
    let options = ["--allow-origin", "https://inspector.example", "--allow-host", "box.internal"];
    let server = sandbox.play_recorded_http(&records, &options);
    let origin = ("Origin", "https://inspector.example");
    let wanted = ("Access-Control-Request-Headers", "mcp-method, mcp-name");
    let answer = server.ask("OPTIONS", &server.path, &[origin, wanted], "").expect(204);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://inspector.example"));
    assert_eq!(answer.header("access-control-allow-headers"), Some("mcp-method, mcp-name"));
    server.ask("OPTIONS", &server.path, &[], "").expect(405);
    let body = round("1", "");
    let fields = modern_fields(&body);
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    fields.extend([origin, ("Host", "box.internal:1234")]);
    let answer = server.post(&body, &fields).expect(200);
    assert_eq!(answer.header("access-control-allow-origin"), Some("https://inspector.example"));
    let simple = [("Content-Type", "text/plain")];
    server.post(&body, &simple).expect(415);
    server.end(3);
}
