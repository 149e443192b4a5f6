//! Replay to modern clients over HTTP: header checks, statuses, streams that are cancelled by closing them.

use super::support::replay::{call, error, handshake, notification, progress, result, said};
use super::support::web::{Endpoint, POST, Record, c, modern_fields, s};
use super::support::{LONG, Sandbox, eventually, initialize, modern};

const DISCOVERY: &str = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true},"logging":{}},"ttlMs":0,"cacheScope":"private"}"#;

fn tool(id: &str, name: &str) -> String {
    modern(id, "tools/call", &format!("\"name\":\"{name}\",\"arguments\":{{}}"), "{}")
}

/// Progress is asked for.
fn tool_with_progress(id: &str, name: &str) -> String {
    let plain = tool(id, name);
    plain.replacen("\"_meta\":{", "\"_meta\":{\"progressToken\":7,", 1)
}

fn records() -> Vec<Record> {
    vec![
        c(1, modern("1", "server/discover", "", "{}")),
        s(1, result("1", DISCOVERY)).status(200),
        c(2, tool("2", "echo")),
        s(2, said("2", "echoed")).status(200),
        c(3, tool_with_progress("3", "steps")),
        s(3, progress("7", 1)).sse(),
        s(3, said("3", "stepped")),
        c(4, tool("4", "\u{e9}")),
        s(4, said("4", "accented")).status(200),
        c(5, modern("5", "nosuch/method", "", "{}")),
        s(5, error("5", -32601, "no such method")).status(404),
    ]
}

#[track_caller]
fn listening(sandbox: &Sandbox) -> Endpoint {
    sandbox.play_recorded_http(&records(), &[])
}

#[test]
fn r065_header_fields_must_agree_with_the_body() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let body = tool("\"x\"", "echo");
    let right = modern_fields(&body);
    for at in 0..right.len() {
        for change in ["missing", "other", "twice"] {
            let mut fields = right.clone();
            match change {
                "missing" => drop(fields.remove(at)),
                "other" => fields[at].1 = "Other".to_owned(),
                _ => fields.push(right[at].clone()),
            }
            let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
            let answer = server.post(&body, &fields).fails(400, -32020);
            assert!(answer.body.contains("\"id\":\"x\""), "{}", answer.body);
        }
    }
    assert!(server.modern(&body).expect(200).body.contains("echoed"));
    server.end(3);
}

#[test]
fn r066_names_in_base64_and_field_names_in_any_case() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let accented = tool("1", "\u{e9}");
    for (name, status) in [("=?base64?w6k=?=", 200), ("=?base64?w6k?=", 400), ("=?base64?!?=", 400)] {
        let fields =
            [("mcp-PROTOCOL-version", "2026-07-28"), ("MCP-METHOD", "tools/call"), ("mcp-name", name)];
        let answer = server.post(&accented, &fields);
        if status == 200 {
            assert!(answer.expect(200).body.contains("accented"));
        } else {
            answer.fails(400, -32020);
        }
    }
    server.end(3);
}

#[test]
fn r067_what_meta_must_hold() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let whole = tool("9", "echo");
    let version = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#;
    let capabilities = r#","io.modelcontextprotocol/clientCapabilities":{}"#;
    for part in [version, capabilities] {
        let body = whole.replacen(part, "", 1);
        assert_ne!(body, whole);
        assert!(server.modern(&body).fails(400, -32602).body.contains("\"id\":9"));
    }
    server.end(3);
}

#[test]
fn r068_only_posts_and_no_sessions() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    for method in ["GET", "DELETE", "PUT"] {
        let fields = [("Accept", "text/event-stream"), ("MCP-Protocol-Version", "2026-07-28")];
        let answer = server.ask(method, &server.path, &fields, "").expect(405);
        assert_eq!(answer.header("allow"), Some("POST"));
    }
    let body = tool("1", "echo");
    let fields = modern_fields(&body);
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    fields.extend([("Mcp-Session-Id", "made-up"), ("Last-Event-ID", "3")]);
    let answer = server.post(&body, &fields).expect(200);
    assert_eq!(answer.header("mcp-session-id"), None);
    server.end(0);
}

#[test]
fn r069_r080_recorded_statuses_of_errors() {
    let sandbox = Sandbox::new();
    let mut records = records();
    records.extend([
        c(6, tool("6", "strict")),
        s(6, error("6", -32602, "bad arguments")).status(400),
        c(7, tool("7", "lenient")),
        s(7, error("7", -32602, "bad arguments")).status(200),
    ]);
    let server = sandbox.play_recorded_http(&records, &[]);
    server.modern(&modern("1", "nosuch/method", "", "{}")).fails(404, -32601);
    server.modern(&tool("2", "strict")).fails(400, -32602);
    server.modern(&tool("3", "lenient")).fails(200, -32602);
    server.end(0);
}

#[test]
fn r069_lists_of_what_is_not_offered() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    server.modern(&modern("1", "prompts/list", "", "{}")).fails(404, -32601);
    server.end(0);
}

#[test]
fn r070_answers_arrays_and_notifications() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let fields = [("MCP-Protocol-Version", "2026-07-28")];
    server.post(&result("1", "{}"), &fields).fails(400, -32600);
    server.post(&format!("[{}]", tool("1", "echo")), &fields).fails(400, -32600);
    server.post("{", &fields).fails(400, -32700);
    server.post("3", &fields).fails(400, -32600);
    let answer = server.post(&notification("cancelled", r#"{"requestId":1}"#), &fields).expect(202);
    assert_eq!(answer.body, "");
    server.end(3);
}

#[test]
fn r071_streams_are_not_to_be_buffered() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let answer = server.modern(&tool_with_progress("\"a\"", "steps")).expect(200);
    assert_eq!(answer.header("x-accel-buffering"), Some("no"));
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.events(), [progress("7", 1), said("\"a\"", "stepped")]);
    server.end(0);
}

#[test]
fn r071_an_idle_stream_gets_a_comment() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let listen = modern("1", "subscriptions/listen", "\"notifications\":{\"toolsListChanged\":true}", "{}");
    let mut stream = server.modern_stream(&listen);
    assert!(stream.next().unwrap().contains("acknowledged"));
    assert_eq!(stream.comment(), ":");
    stream.close();
    server.end(0);
}

#[test]
fn r072_closing_the_stream_cancels() {
    let sandbox = Sandbox::new();
    let mut records = records();
    // The client left when this was recorded, too.
    records.extend([
        c(6, tool_with_progress("6", "hangs")),
        s(6, progress("7", 1)).sse(),
        s(6, "{}").end("client_closed"),
    ]);
    records.last_mut().unwrap().drop_payload();
    let server = sandbox.play_recorded_http(&records, &[]);
    let mut stream = server.modern_stream(&tool_with_progress("1", "hangs"));
    assert_eq!(stream.next().unwrap(), progress("7", 1));
    stream.close();
    assert!(server.modern(&tool("2", "echo")).expect(200).body.contains("echoed"));
    server.end(0);
}

#[test]
fn r058_a_probe_of_a_legacy_cassette() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_http(&handshake(), &[]);
    let answer = server.modern(&modern("\"p-1\"", "server/discover", "", "{}")).fails(400, -32601);
    assert!(answer.body.contains("\"id\":\"p-1\""), "{}", answer.body);
    server.greet("{}");
    server.end(0);
}

#[test]
fn r059_discovery_that_was_not_recorded() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&records()[2..4], &[]);
    let answer = server.modern(&modern("1", "server/discover", "", "{}")).expect(200);
    assert!(answer.body.contains(r#""supportedVersions":["2026-07-28"]"#), "{}", answer.body);
    assert!(server.modern(&tool("2", "echo")).expect(200).body.contains("echoed"));
    server.end(0);
    // The other way round: a pinned client asks for no discovery.
    let server = listening(&sandbox);
    assert!(server.modern(&tool("1", "echo")).expect(200).body.contains("echoed"));
    server.end(0);
}

#[test]
fn r060_initialize_on_a_modern_cassette() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let answer = server.post(&initialize("{}"), &[]).fails(400, -32022);
    assert!(answer.body.contains(r#""supported":["2026-07-28"]"#), "{}", answer.body);
    assert_eq!(answer.header("mcp-session-id"), None);
    server.end(0);
}

#[test]
fn r061_another_revision() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let body = tool("1", "echo").replace("2026-07-28", "2027-01-01");
    let answer = server.modern(&body).fails(400, -32022);
    assert!(
        answer.body.contains(r#""supported":["2026-07-28"],"requested":"2027-01-01""#),
        "{}",
        answer.body
    );
    server.end(0);
}

#[test]
fn r062_both_eras_at_once() {
    let sandbox = Sandbox::new();
    let mut records = records();
    let legacy = [
        (
            initialize("{}"),
            result(
                "0",
                r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"d","version":"1"}}"#,
            ),
        ),
        (call("1", "echo", "{}"), said("1", "legacy echo")),
    ];
    for ((asked, answer), exchange) in legacy.into_iter().zip(10..) {
        records.extend([c(exchange, asked).on(1), s(exchange, answer).on(1).status(200)]);
    }
    let server = sandbox.play_recorded_http(&records, &[]);
    let old = server.greet("{}");
    let new = server.modern(&tool("1", "echo")).expect(200);
    assert_eq!(new.body, said("1", "echoed"));
    assert_eq!(old.post(&call("1", "echo", "{}")).expect(200).body, said("1", "legacy echo"));
    assert!(old.session.is_some());
    drop(old);
    server.end(0);
}

#[test]
fn r041_r048_ids_and_misses() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    for id in ["9007199254740993", "\"\u{e9}\"", "-1"] {
        let body = modern(id, "server/discover", "", "{}");
        assert_eq!(server.modern(&body).expect(200).body, result(id, DISCOVERY));
    }
    server.modern(&tool("1", "nothing")).fails(200, -31001);
    let ended = server.end(3);
    assert!(ended.stderr.contains("tools/call \"nothing\""), "{}", ended.stderr);
}

#[test]
fn r094_a_missing_capability() {
    let sandbox = Sandbox::new();
    let asks = r#"{"resultType":"input_required","inputRequests":{"who":{"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s1"}"#;
    let with = |id: &str, capabilities: &str| {
        modern(id, "tools/call", "\"name\":\"ask\",\"arguments\":{}", capabilities)
    };
    let records = [c(1, with("1", r#"{"elicitation":{}}"#)), s(1, result("1", asks)).sse()];
    let server = sandbox.play_recorded_http(&records, &[]);
    let answer = server.modern(&with("1", "{}")).fails(400, -32021);
    assert!(answer.body.contains(r#""requiredCapabilities":{"elicitation":{}}"#), "{}", answer.body);
    let answer = server.modern(&with("2", r#"{"elicitation":{}}"#)).expect(200);
    assert_eq!(answer.events(), [result("2", asks)]);
    server.end(0);
}

#[test]
fn r096_listening() {
    let sandbox = Sandbox::new();
    let filter = "\"notifications\":{\"toolsListChanged\":true}";
    let listen = |id: &str| modern(id, "subscriptions/listen", filter, "{}");
    let on = |id: &str, name: &str, rest: &str| {
        notification(name, &format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}{rest}}}"#))
    };
    let acknowledged =
        |id: &str| on(id, "subscriptions/acknowledged", r#","notifications":{"toolsListChanged":true}"#);
    // Another client uses the same id.
    let records = [
        c(1, listen("1")),
        s(1, acknowledged("1")).sse(),
        c(2, tool("1", "grow")),
        s(2, said("1", "grown")).status(200),
        s(1, on("1", "tools/list_changed", "")),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    let mut stream = server.modern_stream(&listen("\"l\""));
    assert_eq!(stream.next().unwrap(), acknowledged("\"l\""));
    assert_eq!(server.modern(&tool("\"l\"", "grow")).expect(200).body, said("\"l\"", "grown"));
    assert_eq!(stream.next().unwrap(), on("\"l\"", "tools/list_changed", ""));
    let ended = server.end(0);
    assert_eq!(stream.next(), None);
    drop(ended);
}

#[test]
fn r081_who_takes_no_events() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let body = tool_with_progress("1", "steps");
    let mut fields: Vec<(String, String)> = modern_fields(&body);
    fields.push(("Accept".to_owned(), "application/json".to_owned()));
    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    server.post(&body, &fields).expect(406);
    server.end(3);
}

#[test]
fn r079_bodies_over_the_limit() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&records(), &["--max-body", "4096"]);
    let large = tool("1", &"x".repeat(5000));
    server.post(&large, &POST).expect(413);
    assert!(server.modern(&tool("2", "echo")).expect(200).body.contains("echoed"));
    assert!(server.end(3).stderr.contains("status 413: the request body is too large"));
}

#[test]
fn many_clients_at_once() {
    let sandbox = Sandbox::new();
    let records: Vec<Record> = (0..40)
        .flat_map(|n| {
            let name = format!("t{n}");
            [c(n + 1, tool("1", &name)), s(n + 1, said("1", &name)).status(200)]
        })
        .collect();
    let server = sandbox.play_recorded_http(&records, &[]);
    std::thread::scope(|scope| {
        for n in 0..40 {
            let server = &server;
            scope.spawn(move || {
                let name = format!("t{n}");
                assert_eq!(server.modern(&tool("1", &name)).expect(200).body, said("1", &name));
            });
        }
    });
    server.end(0);
}

#[test]
fn r078_no_authorization_and_no_metadata() {
    let sandbox = Sandbox::new();
    let mut records = records();
    records.insert(0, c(20, tool("0", "echo")));
    records.insert(1, Record::challenge(20));
    let server = sandbox.play_recorded_http(&records, &[]);
    for path in ["/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server/mcp"] {
        server.ask("GET", path, &[], "").expect(404);
    }
    let body = tool("1", "echo");
    let mut fields = modern_fields(&body);
    fields.push(("Authorization".to_owned(), "Bearer x".to_owned()));
    let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    assert!(server.post(&body, &fields).expect(200).body.contains("echoed"));
    server.end(0);
}

#[test]
fn r077_who_may_ask() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    assert!(server.host.starts_with("127.0.0.1:"));
    let body = tool("1", "echo");
    for (name, value) in [("Host", "evil.example"), ("Origin", "http://evil.example"), ("Origin", "null")] {
        let mut fields = modern_fields(&body);
        fields.push((name.to_owned(), value.to_owned()));
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        let answer = server.post(&body, &fields).expect(403);
        assert_eq!(answer.header("access-control-allow-origin"), None);
    }
    server.end(0);
}

#[test]
fn a_cut_is_a_cut_and_a_bare_status_one() {
    let sandbox = Sandbox::new();
    let mut cut = s(6, "").end("cut");
    cut.drop_payload();
    let records = [
        c(6, tool_with_progress("6", "cut")),
        s(6, progress("7", 1)).sse(),
        cut,
        c(7, tool("7", "busy")),
        super::support::web::bare(7).http(r#"{"status":503,"type":"text/html","retry-after":"3"}"#),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    let mut stream = server.modern_stream(&tool_with_progress("1", "cut"));
    assert_eq!(stream.next().unwrap(), progress("7", 1));
    stream.is_cut();
    let answer = server.modern(&tool("2", "busy")).expect(503);
    assert_eq!(answer.header("retry-after"), Some("3"));
    server.end(0);
}

#[test]
fn a_signal_ends_open_streams() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox);
    let mut stream = server.modern_stream(&modern("1", "subscriptions/listen", "\"notifications\":{}", "{}"));
    assert!(stream.next().unwrap().contains("acknowledged"));
    let begun = std::time::Instant::now();
    server.end(0);
    assert_eq!(stream.next(), None);
    assert!(begun.elapsed() < LONG / 4);
    eventually("the ready file stays", || sandbox.has("ready"));
}
