//! Replay to modern clients over HTTP: header fields that repeat arguments (`Mcp-Param-*`), as the recorded lists of tools
//! declare them.

use super::support::http::{Upstream, answer, json, records};
use super::support::replay::{error, result, said};
use super::support::web::{Answer, Endpoint, Record, c, modern_fields, s};
use super::support::{Sandbox, modern};

fn call(id: &str, tool: &str, arguments: &str) -> String {
    modern(id, "tools/call", &format!("\"name\":\"{tool}\",\"arguments\":{arguments}"), "{}")
}

fn list(id: &str) -> String {
    modern(id, "tools/list", "", "{}")
}

/// A list with one tool of these properties.
fn listed(id: &str, tool: &str, properties: &str) -> String {
    let schema = format!(r#"{{"type":"object","properties":{{{properties}}}}}"#);
    result(
        id,
        &format!(r#"{{"resultType":"complete","tools":[{{"name":"{tool}","inputSchema":{schema}}}]}}"#),
    )
}

const REGION: &str = r#""region":{"type":"string","x-mcp-header":"Region"}"#;

/// The replay of a list and of calls.
fn playing(sandbox: &Sandbox, lists: &[&str], calls: &[(&str, &str)]) -> Endpoint {
    let mut records: Vec<Record> = Vec::new();
    let mut exchange = 0;
    for properties in lists {
        exchange += 1;
        records.extend([c(exchange, list("1")), s(exchange, listed("1", "deploy", properties)).status(200)]);
    }
    for (tool, arguments) in calls {
        exchange += 1;
        records.extend([c(exchange, call("1", tool, arguments)), s(exchange, said("1", "done")).status(200)]);
    }
    sandbox.play_recorded_http(&records, &["--repeat", "last"])
}

/// Posts a modern request with further fields.
#[track_caller]
fn post(server: &Endpoint, body: &str, more: &[(&str, &str)]) -> Answer {
    let fields = modern_fields(body);
    let mut fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    fields.extend(more);
    server.post(body, &fields)
}

#[test]
fn r065_r066_fields_that_repeat_arguments() {
    let sandbox = Sandbox::new();
    let properties = format!(
        r#"{REGION},"opts":{{"type":"object","properties":{{"n":{{"type":"integer","x-mcp-header":"N"}}}}}},"dry":{{"type":"boolean","x-mcp-header":"Dry"}}"#
    );
    let all = r#"{"region":"us","opts":{"n":7},"dry":true}"#;
    let calls = [
        ("deploy", all),
        ("deploy", r#"{"region":"h\u00e9"}"#),
        ("deploy", r#"{"region":null}"#),
        ("other", "{}"),
    ];
    let server = playing(&sandbox, &[&properties], &calls);
    let right = [("Mcp-Param-Region", "us"), ("MCP-PARAM-N", "7.0"), ("mcp-param-dry", "true")];
    let body = call("\"x\"", "deploy", all);
    assert_eq!(post(&server, &body, &right).expect(200).body, said("\"x\"", "done"));
    for at in 0..right.len() {
        for change in ["is missing", "is not that of the body", "stands there twice"] {
            let mut fields = right.to_vec();
            match change {
                "is missing" => drop(fields.remove(at)),
                "is not that of the body" => fields[at].1 = "8",
                _ => fields.push(right[at]),
            }
            let answer = post(&server, &body, &fields).fails(400, -32020);
            assert!(answer.body.starts_with(r#"{"jsonrpc":"2.0","id":"x","#), "{}", answer.body);
            let field = ["Mcp-Param-Region", "Mcp-Param-N", "Mcp-Param-Dry"][at];
            assert!(answer.body.contains(&format!("{field} {change}")), "{}", answer.body);
        }
    }
    for (arguments, value, status) in [
        (r#"{"region":"hé"}"#, Some("=?base64?aMOp?="), 200),
        (r#"{"region":"h\u00e9"}"#, Some("=?base64?aMOp?="), 200),
        (r#"{"region":"hé"}"#, Some("=?base64?aMO?="), 400),
        (r#"{"region":"hé"}"#, Some("=?base64?!!?="), 400),
        (r#"{"region":"hé"}"#, Some("h\u{e9}"), 400),
        (r#"{"region":null}"#, None, 200),
        (r#"{"region":null}"#, Some("null"), 400),
        ("{}", Some("us"), 400),
    ] {
        let fields: Vec<(&str, &str)> = value.iter().map(|value| ("Mcp-Param-Region", *value)).collect();
        let answer = post(&server, &call("1", "deploy", arguments), &fields);
        assert_eq!(answer.status, status, "{arguments} {value:?}: {}", answer.body);
    }
    // What no list declares is nobody's business.
    post(&server, &call("1", "other", "{}"), &[("Mcp-Param-Region", "us"), ("Mcp-Param-X", "")]).expect(200);
    // Another revision is refused as such, whatever else is wrong.
    post(&server, &body.replace("2026-07-28", "2099-01-01"), &[]).fails(400, -32022);
    server.end(3);
}

#[test]
fn r065_any_of_the_recorded_lists_will_do() {
    let sandbox = Sandbox::new();
    let zone = r#""region":{"type":"string","x-mcp-header":"Zone"}"#;
    let body = call("1", "deploy", r#"{"region":"us"}"#);
    let calls = [("deploy", r#"{"region":"us"}"#)];
    let server = playing(&sandbox, &[REGION, zone], &calls);
    post(&server, &body, &[("Mcp-Param-Region", "us")]).expect(200);
    post(&server, &body, &[("Mcp-Param-Zone", "us")]).expect(200);
    post(&server, &body, &[]).fails(400, -32020);
    server.end(3);
    // A list without any declaration, or with one that no client may heed, asks for nothing.
    for other in [r#""region":{"type":"string"}"#, r#""region":{"type":"number","x-mcp-header":"Region"}"#] {
        let server = playing(&sandbox, &[REGION, other], &calls);
        post(&server, &body, &[]).expect(200);
        server.end(0);
    }
}

#[test]
fn lists_for_legacy_clients_say_nothing_to_modern_ones() {
    let sandbox = Sandbox::new();
    let legacy = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#;
    let records = [
        c(1, legacy).on(1),
        s(1, listed("1", "deploy", REGION)).on(1).status(200),
        c(2, call("1", "deploy", r#"{"region":"us"}"#)),
        s(2, said("1", "done")).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    post(&server, &call("1", "deploy", r#"{"region":"us"}"#), &[]).expect(200);
    server.end(0);
}

/// A server that wants `Mcp-Param-Region`, and clients that have not heard of it when they call.
fn deploying() -> Upstream {
    use std::io::Write as _;

    Upstream::start(|request, socket| {
        let body = request.text();
        let answer = if body.contains("tools/list") {
            json(&listed("2", "deploy", REGION))
        } else if request.header("mcp-param-region").is_none() {
            let body = error("1", -32020, "Mcp-Param-Region is missing");
            answer("400 Bad Request", "Content-Type: application/json\r\n", &body)
        } else {
            json(&said("3", "deployed"))
        };
        socket.write_all(&answer).is_ok()
    })
}

#[test]
fn r065_a_call_that_the_server_complained_of_and_the_client_mended() {
    let sandbox = Sandbox::new();
    let upstream = deploying();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let fields = |body: &str, more: &str| {
        let fields: Vec<String> = modern_fields(body).iter().map(|(n, v)| format!("{n}: {v}\r\n")).collect();
        format!("{}{more}", fields.concat())
    };
    let arguments = r#"{"region":"us"}"#;
    let (first, second) = (call("1", "deploy", arguments), call("3", "deploy", arguments));
    assert_eq!(proxy.post(&fields(&first, ""), &first).status, 400);
    assert_eq!(proxy.post(&fields(&list("2"), ""), &list("2")).status, 200);
    assert_eq!(proxy.post(&fields(&second, "Mcp-Param-Region: us\r\n"), &second).status, 200);
    proxy.stop(0);
    assert_eq!(records(&sandbox, "c.json").len(), 6);

    // The same client again.
    let server = sandbox.listen(["serve", "c.json"]);
    post(&server, &first, &[]).fails(400, -32020);
    assert_eq!(server.modern(&list("2")).expect(200).body, listed("2", "deploy", REGION));
    let region = ("Mcp-Param-Region", "us");
    assert_eq!(post(&server, &second, &[region]).expect(200).body, said("3", "deployed"));
    post(&server, &second, &[region]).fails(200, -31001);
    server.end(3);
    // One that has kept the list.
    let server = sandbox.listen(["serve", "c.json"]);
    assert_eq!(post(&server, &first, &[region]).expect(200).body, said("1", "deployed"));
    server.end(0);
    // On a pipe there are no header fields.
    let mut client = sandbox.serve(&["--stdio"]);
    client.expect(&first, &said("1", "deployed"));
    client.close(0);
}

#[test]
fn a_complaint_that_was_not_mended_is_played() {
    let sandbox = Sandbox::new();
    let body = call("1", "deploy", r#"{"region":"us"}"#);
    let other = call("1", "deploy", r#"{"region":"eu"}"#);
    let records = [
        c(1, body.clone()),
        s(1, error("1", -32020, "no such field")).status(400),
        c(2, other),
        s(2, said("1", "done")).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    assert!(server.modern(&body).fails(400, -32020).body.contains("no such field"));
    server.end(0);
}

#[test]
fn r065_what_redaction_covers_turns_nobody_away() {
    let sandbox = Sandbox::new();
    let key = r#""api_key":{"type":"string","x-mcp-header":"Api-Key"}"#;
    let properties = format!("{REGION},{key}");
    let arguments = r#"{"region":"us","api_key":"s3cret-value"}"#;
    let name = "/result/tools/*/inputSchema/properties/region/x-mcp-header";
    let kind = "/result/tools/*/inputSchema/properties/region/type=anything";
    // Whether the name of the field is still known: a rule by key does not reach into schemas.
    for (rules, known) in [
        (&[][..], true),
        (&["--redact", name][..], false),
        (&["--redact", "x-mcp-header=Hidden"], true),
        (&["--redact", kind], true),
    ] {
        let upstream = {
            let properties = properties.clone();
            Upstream::start(move |request, socket| {
                use std::io::Write as _;
                let list = request.text().contains("tools/list");
                let said = if list { listed("1", "deploy", &properties) } else { said("1", "done") };
                socket.write_all(&json(&said)).is_ok()
            })
        };
        let options = [&["-q"], rules].concat();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &options);
        proxy.post("", &list("1"));
        let body = call("1", "deploy", arguments);
        proxy.post("Mcp-Param-Region: us\r\nMcp-Param-Api-Key: s3cret-value\r\n", &body);
        proxy.stop(0);
        assert!(!sandbox.read("c.json").contains("s3cret-value"));

        let server = sandbox.listen(["serve", "c.json", "--repeat", "last"]);
        for secret in ["s3cret-value", "dummy", "REDACTED-1"] {
            let fields = [("Mcp-Param-Region", "us"), ("Mcp-Param-Api-Key", secret)];
            let body = body.replace("s3cret-value", secret);
            let answer = post(&server, &body, &fields);
            assert_eq!((answer.status, answer.body), (200, said("1", "done")), "{rules:?} {secret}");
        }
        // A client goes by the list that it was served, and sends what that names.
        let fields = [("Mcp-Param-REDACTED-1", "us"), ("Mcp-Param-Api-Key", "dummy")];
        let answer = post(&server, &body.replace("s3cret-value", "dummy"), &fields);
        assert_eq!(answer.status, if known { 400 } else { 200 }, "{rules:?} {}", answer.body);
        // The name of the field that repeats a secret is none, and the field is asked for.
        let region = ("Mcp-Param-Region", "us");
        for fields in [&[region][..], &[region, ("Mcp-Param-Api-Key", "another")]] {
            let answer = post(&server, &body.replace("s3cret-value", "dummy"), fields);
            assert_eq!(answer.status, 400, "{rules:?} {}", answer.body);
        }
        server.end(3);
        std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    }
}
