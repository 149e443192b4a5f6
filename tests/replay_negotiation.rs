//! Which era a client and a cassette speak, and how they find out.

use crate::support::replay::{answered, c, call, error, handshake, request, result, s, said};
use crate::support::{Sandbox, initialize, modern};

const TOOLS: &str = r#"{"resultType":"complete","tools":[],"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"3"}}}"#;
const DONE: &str = r#"{"resultType":"complete","content":[]}"#;

fn discover(id: &str) -> String {
    modern(id, "server/discover", "", "{}")
}

fn legacy() -> Vec<String> {
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", "x"));
    records
}

/// What a client with a pinned revision records: no discovery.
fn pinned() -> Vec<String> {
    vec![
        c(modern("1", "tools/list", "", "{}")),
        s(result("1", TOOLS)),
        c(modern("2", "tools/call", r#""name":"t""#, "{}")),
        s(result("2", DONE)),
    ]
}

#[test]
fn r058_a_probe_on_a_legacy_cassette_is_refused_at_once() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&legacy(), &[]);
    for id in ["1", "\"server-discover-probe-1\""] {
        let answer = client.fails(&discover(id), -32601);
        assert!(answer.starts_with(&format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},")), "{answer}");
    }
    client.close(0);
}

#[test]
fn r059_a_pinned_client_needs_no_discovery_and_a_discovering_one_no_recorded_one() {
    let sandbox = Sandbox::new();
    let found = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{"listChanged":true}},"ttlMs":0,"cacheScope":"private"}"#;
    let mut records = vec![c(discover("\"d\"")), s(result("\"d\"", found))];
    records.extend(pinned());
    let mut client = sandbox.play(&records, &[]);
    client.expect(&modern("7", "tools/list", "", "{}"), &result("7", TOOLS));
    client.close(0);
    let mut client = sandbox.play(&records, &[]);
    for id in ["1", "2"] {
        client.expect(&discover(id), &result(id, found));
    }
    client.close(0);
    let mut client = sandbox.play(&pinned(), &["--report", "r.jsonl"]);
    client.expect(
        &discover("0"),
        r#"{"jsonrpc":"2.0","id":0,"result":{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"demo","version":"3"}}}}"#,
    );
    client.expect(&modern("2", "tools/call", r#""name":"t""#, "{}"), &result("2", DONE));
    client.close(0);
    assert!(sandbox.read("r.jsonl").contains(r#""unrecorded":["server/discover"]"#));
}

#[test]
fn r060_initialize_on_a_modern_cassette_names_what_is_supported() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&pinned(), &[]);
    assert_eq!(
        client.ask(&initialize("{}")),
        r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32022,"message":"unsupported protocol version 2025-11-25","data":{"supported":["2026-07-28"],"requested":"2025-11-25"}}}"#
    );
    client.expect(&modern("7", "tools/list", "", "{}"), &result("7", TOOLS));
    client.close(0);
}

#[test]
fn r061_an_unknown_revision_is_refused_with_the_known_ones() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&pinned(), &[]);
    let live = modern("7", "tools/list", "", "{}").replace("2026-07-28", "2027-01-01");
    assert_eq!(
        client.ask(&live),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32022,"message":"unsupported protocol version 2027-01-01","data":{"supported":["2026-07-28"],"requested":"2027-01-01"}}}"#
    );
    client.close(0);
}

#[test]
fn r063_initialize_succeeds_behind_a_failed_probe() {
    let sandbox = Sandbox::new();
    let mut records = legacy();
    // What the server says on its own account belongs to the session all the same.
    records.insert(3, s(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#));
    let recorded = records[1].split_once(' ').unwrap().1.to_owned();
    for options in [&[][..], &["--ordering", "strict"][..]] {
        let mut client = sandbox.play(&records, options);
        client.fails(&discover("\"p\""), -32601);
        assert_eq!(client.greet("{}"), recorded);
        assert_eq!(client.next(), r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        client.expect(&call("1", "t", "{}"), &said("1", "x"));
        client.close(0);
    }
}

#[test]
fn r063_a_probe_that_was_recorded_too_need_not_be_asked() {
    let sandbox = Sandbox::new();
    let mut records = vec![c(discover("1")), s(error("1", -32601, "recorded refusal"))];
    records.extend(legacy());
    records.push(s(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#));
    for probes in [true, false] {
        let mut client = sandbox.play(&records, &[]);
        if probes {
            client.expect(&discover("5"), &error("5", -32601, "recorded refusal"));
        }
        client.greet("{}");
        client.expect(&call("1", "t", "{}"), &said("1", "x"));
        assert_eq!(client.next(), r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
        client.close(0);
    }
}

#[test]
fn r064_the_recorded_revision_stands_unless_it_is_to_be_rewritten() {
    let sandbox = Sandbox::new();
    let asks = initialize("{}").replace("2025-11-25", "2025-03-26");
    let recorded = handshake()[1].split_once(' ').unwrap().1.to_owned();
    let mut client = sandbox.play(&legacy(), &[]);
    client.expect(&asks, &recorded);
    client.close(0);
    let mut client = sandbox.play(&legacy(), &["--rewrite-protocol-version"]);
    client.expect(&asks, &recorded.replace("2025-11-25", "2025-03-26"));
    client.close(0);
}

#[test]
fn a_client_of_the_other_era_is_told_so() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&pinned(), &[]);
    let miss = client.fails(&call("1", "t", "{}"), -31001);
    assert!(
        miss.contains(
            "the cassette was recorded with a modern client (2026-07-28); use such a client, or record again"
        ),
        "{miss}"
    );
    client.close(3);
    let mut client = sandbox.play(&legacy(), &[]);
    let miss = client.fails(&modern("1", "tools/list", "", "{}"), -31001);
    let why =
        "the cassette was recorded with a legacy client (initialize); use such a client, or record again";
    assert!(miss.contains(why), "{miss}");
    let ended = client.close(3);
    assert!(ended.stderr.contains(why), "{}", ended.stderr);
}

#[test]
fn both_eras_of_one_cassette_are_served_on_one_pipe() {
    let sandbox = Sandbox::new();
    let mut records = legacy();
    records.extend(pinned().iter().map(|record| crate::support::replay::on(1, record)));
    let mut client = sandbox.play(&records, &[]);
    client.greet("{}");
    client.expect(&call("1", "t", "{}"), &said("1", "x"));
    client.expect(&modern("2", "tools/call", r#""name":"t""#, "{}"), &result("2", DONE));
    client.close(0);
}

#[test]
fn methods_that_clients_call_on_their_own_account_are_answered_by_what_was_declared() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&legacy(), &["--report", "r.jsonl"]);
    client.greet("{}");
    client.expect(&request("1", "logging/setLevel", r#"{"level":"info"}"#), &result("1", "{}"));
    client.expect(&request("2", "resources/subscribe", r#"{"uri":"x:"}"#), &result("2", "{}"));
    client.expect(&request("3", "resources/unsubscribe", r#"{"uri":"x:"}"#), &result("3", "{}"));
    client.fails(&request("4", "tasks/get", r#"{"taskId":"t"}"#), -32602);
    client.close(0);
    let report = sandbox.read("r.jsonl");
    assert!(
        report.contains(r#""unrecorded":["logging/setLevel","resources/subscribe \"x:\"","#)
            || report.contains(r#""unrecorded":["logging/setLevel \"info\"","#),
        "{report}"
    );
    // A list of something that the server does offer is a miss.
    let mut client = sandbox.play(&legacy(), &[]);
    client.greet("{}");
    client.fails(&request("4", "prompts/list", "{}"), -31001);
    client.close(3);
    let bare: Vec<String> =
        legacy().iter().map(|record| record.replace(crate::support::replay::OFFERED, "{}")).collect();
    let mut client = sandbox.play(&bare, &[]);
    client.greet("{}");
    for (method, params) in [
        ("tools/list", "{}"),
        ("prompts/list", "{}"),
        ("resources/list", "{}"),
        ("resources/templates/list", "{}"),
        ("logging/setLevel", r#"{"level":"info"}"#),
        ("resources/subscribe", r#"{"uri":"x:"}"#),
    ] {
        client.fails(&request("4", method, params), -32601);
    }
    client.close(0);
}

#[test]
fn another_page_of_a_recorded_list_is_a_miss_also_without_a_handshake() {
    let sandbox = Sandbox::new();
    let page = |id: &str, cursor: &str| request(id, "tools/list", &format!(r#"{{"cursor":"{cursor}"}}"#));
    let mut client = sandbox.play(&[c(page("1", "a")), s(result("1", r#"{"tools":[]}"#))], &[]);
    client.fails(&page("2", "b"), -31001);
    client.close(3);
}
