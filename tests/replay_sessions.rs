//! What is counted over a replay and over several: the report, sessions, servers.

use crate::support::Sandbox;
use crate::support::replay::{answered, c, call, handshake, notification, on, request, result, s, said};

#[test]
fn the_report_says_what_happened() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", r#"{"q":1}"#, "x"));
    records.extend([
        c(call("2", "asks", "{}")),
        s(request("0", "roots/list", "{}")),
        c(result("0", r#"{"roots":[]}"#)),
        s(said("2", "y")),
    ]);
    records.extend([c(request("3", "tools/list", "{}")), s(result("3", r#"{"tools":[]}"#))]);
    records.extend(answered("4", "never", "{}", "z"));
    let mut client = sandbox.play(&records, &["--report", "r.jsonl", "--session", "run-1"]);
    client.greet(r#"{"roots":{}}"#);
    client.ask(&request("1", "tools/list", "{}"));
    client.ask(&request("1", "tools/list", "{}"));
    client.ask(&call("2", "t", r#"{"q":2}"#));
    client.ask(&request("3", "logging/setLevel", r#"{"level":"info"}"#));
    client.ask(&call("4", "asks", "{}"));
    client.close(3);
    let text = sandbox.read("r.jsonl");
    assert!(text.starts_with(r#"{"mcpreel_report":1,"session":"run-1","cassette":""#), "{text}");
    assert_eq!(
        &text[text.find("\"server\"").unwrap()..],
        concat!(
            r#""server":"demo","transport":"stdio","hits":3,"repeats":1,"misses":[{"method":"tools/call","name":"t","why":"no recorded answer for tools/call \"t\"","nearest":{"message":3,"differs":[{"path":"/params/arguments/q","recorded":1,"live":2}]},"hint":"if the difference does not matter, --ignore /params/arguments/q; else record again"}],"#,
            r#""unrecorded":["logging/setLevel \"info\""],"unused":[{"message":3,"method":"tools/call","name":"t"},{"message":11,"method":"tools/call","name":"never"}],"pending":["roots/list"],"warnings":[],"ended":"end of input","require_all_used":false,"exit":3}"#,
            "\n"
        )
    );
    // Several processes share one file.
    let client = sandbox.serve(&["--report", "r.jsonl"]);
    client.close(0);
    assert_eq!(sandbox.read("r.jsonl").lines().count(), 2);
    let run = sandbox.mcpreel(["serve", "c.json", "--report", "no/such/folder/r"]).run().expect(1);
    assert!(run.stderr().contains("no/such/folder/r"), "{}", run.stderr());
}

#[test]
fn require_all_used_wants_every_recorded_tool_call() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", "x"));
    records.extend(answered("2", "t", "{}", "y"));
    for (calls, code) in [(2, 0), (1, 3)] {
        let mut client = sandbox.play(&records, &["--require-all-used"]);
        client.greet("{}");
        for _ in 0..calls {
            client.ask(&call("1", "t", "{}"));
        }
        let ended = client.close(code);
        let expected = if code == 0 { "" } else { "mcpreel: message 5, tools/call \"t\", was not used\n" };
        assert_eq!(ended.stderr, expected);
    }
}

#[test]
fn the_nth_process_of_a_session_stands_for_the_nth_recorded_one() {
    let sandbox = Sandbox::new();
    let conn = |n: u32, text: &str| {
        let mut records = handshake();
        records.extend(answered("1", "t", "{}", text));
        records.push(s(notification("message", &format!(r#"{{"level":"info","data":{n}}}"#))));
        records.iter().map(|record| if n == 0 { record.clone() } else { on(n, record) }).collect::<Vec<_>>()
    };
    // The second process was faster.
    let records = [conn(1, "second"), conn(0, "first"), conn(2, "third")].concat();
    sandbox.tape_with("", &records);
    let session = format!("--session=s{}", sandbox.path.display());
    for (n, text) in [(0, "first"), (1, "second"), (2, "third")] {
        let mut client = sandbox.serve(&[&session]);
        client.greet("{}");
        client.expect(&call("5", "t", "{}"), &said("5", text));
        assert_eq!(client.next(), notification("message", &format!(r#"{{"level":"info","data":{n}}}"#)));
        // Then those of the others, in their order.
        let others: Vec<&str> =
            ["first", "second", "third"].into_iter().filter(|other| *other != text).collect();
        for other in others {
            client.expect(&call("6", "t", "{}"), &said("6", other));
            client.next();
        }
        client.fails(&call("7", "t", "{}"), -31001);
        client.close(3);
    }
    // Two at once.
    let mut clients: Vec<_> = (0..2).map(|_| sandbox.serve(&[&format!("{session}-2")])).collect();
    for client in &mut clients {
        client.greet("{}");
    }
    for (client, text) in clients.iter_mut().zip(["first", "second"]) {
        client.expect(&call("5", "t", "{}"), &said("5", text));
    }
    // Another session counts from the beginning.
    let mut client = sandbox.serve(&["--session=other"]);
    client.greet("{}");
    client.expect(&call("5", "t", "{}"), &said("5", "first"));
    client.close(0);
}

#[test]
fn sessions_are_counted_per_era() {
    let sandbox = Sandbox::new();
    let modern = |id: &str| crate::support::modern(id, "tools/call", r#""name":"t""#, "{}");
    let said_modern = |id: &str, text: &str| {
        result(id, &format!(r#"{{"resultType":"complete","content":[{{"type":"text","text":"{text}"}}]}}"#))
    };
    let records = [
        c(modern("1")),
        s(said_modern("1", "modern one")),
        on(1, &c(call("1", "t", "{}"))),
        on(1, &s(said("1", "legacy one"))),
        on(2, &c(modern("1"))),
        on(2, &s(said_modern("1", "modern two"))),
        on(3, &c(call("1", "t", "{}"))),
        on(3, &s(said("1", "legacy two"))),
    ];
    sandbox.tape_with("", &records);
    let session = format!("--session=s{}", sandbox.path.display());
    for (live, answer) in [
        (call("1", "t", "{}"), said("1", "legacy one")),
        (modern("1"), said_modern("1", "modern one")),
        (modern("1"), said_modern("1", "modern two")),
        (call("1", "t", "{}"), said("1", "legacy two")),
    ] {
        let mut client = sandbox.serve(&[&session]);
        client.expect(&live, &answer);
        client.close(0);
    }
}

#[test]
fn one_of_several_servers_is_chosen_by_name() {
    let sandbox = Sandbox::new();
    let record = |server: &str, from: &str, message: &str| {
        format!(r#"{{"server":"{server}","from":"{from}","payload":{message}}}"#)
    };
    let records: Vec<String> = ["a", "b"]
        .iter()
        .flat_map(|server| {
            [record(server, "client", &call("1", "t", "{}")), record(server, "server", &said("1", server))]
        })
        .collect();
    let document = format!(
        r#"{{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"mcpreel 0.1.0","servers":{{"a":{{"transport":"stdio","command":["a"]}},"b":{{"transport":"stdio","command":["b"]}}}},"messages":[{}]}}"#,
        records.join(",")
    );
    sandbox.file("c.json", document);
    for server in ["a", "b"] {
        let mut client = sandbox.serve(&["--server", server]);
        client.expect(&call("5", "t", "{}"), &said("5", server));
        client.fails(&call("6", "t", "{}"), -31001);
        client.close(3);
    }
    let run = sandbox.mcpreel(["serve", "c.json"]).run().expect(2);
    assert_eq!(run.stderr(), "mcpreel: c.json: has several servers; choose one with --server: a, b\n");
    let run = sandbox.mcpreel(["serve", "c.json", "--server", "c"]).run().expect(2);
    assert_eq!(run.stderr(), "mcpreel: c.json: has no server \"c\"; --server takes one of: a, b\n");
}
