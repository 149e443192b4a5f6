//! Cassettes and clients that are malformed or hostile: an error that says so, never a panic, never a hang.

use crate::support::replay::{answered, c, call, handshake, request, result, s, said};
use crate::support::{Sandbox, initialize};

const HEAD: &str = r#""recorded_at":"2026-11-29T20:33:00.000Z","recorder":"x","servers":{"d":{"transport":"stdio","command":["d"]}}"#;

#[test]
fn r116_a_malformed_cassette_is_refused() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    for (name, text) in [
        ("empty", String::new()),
        ("no json", "hello".to_owned()),
        ("truncated", format!("{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"from\":\"client\",\"pay")),
        ("array", "[1,2]".to_owned()),
        ("another program's", "{\"log\":1}".to_owned()),
        ("newer", format!("{{\"mcpreel\":99,{HEAD},\"messages\":[]}}")),
        ("no number", format!("{{\"mcpreel\":\"1\",{HEAD},\"messages\":[]}}")),
        ("messages of another kind", format!("{{\"mcpreel\":1,{HEAD},\"messages\":{{}}}}")),
        ("a record that is none", format!("{{\"mcpreel\":1,{HEAD},\"messages\":[42]}}")),
        ("from nobody", format!("{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"payload\":{{}}}}]}}")),
        (
            "from somebody",
            format!("{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"from\":\"x\",\"payload\":{{}}}}]}}"),
        ),
        (
            "unknown server",
            format!(
                "{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"server\":\"no\",\"from\":\"client\",\"payload\":{{}}}}]}}"
            ),
        ),
        (
            "negative conn",
            format!(
                "{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"conn\":-1,\"from\":\"client\",\"payload\":{{}}}}]}}"
            ),
        ),
        (
            "huge conn",
            format!(
                "{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"conn\":99999999999999999999,\"from\":\"client\",\"payload\":{{}}}}]}}"
            ),
        ),
        (
            "bad base64",
            format!("{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"from\":\"client\",\"base64\":7}}]}}"),
        ),
        ("no servers", "{\"mcpreel\":1,\"messages\":[]}".to_owned()),
        ("servers of another kind", "{\"mcpreel\":1,\"servers\":[],\"messages\":[]}".to_owned()),
        ("match of another kind", format!("{{\"mcpreel\":1,{HEAD},\"match\":7,\"messages\":[]}}")),
        ("redaction of another kind", format!("{{\"mcpreel\":1,{HEAD},\"redaction\":7,\"messages\":[]}}")),
        ("deep and open", "[".repeat(1_000_000)),
        ("deep head", format!("{{\"mcpreel\":1,{HEAD},\"messages\":[{{\"from\":{deep}}}]}}")),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("c.json", &text);
        let run = sandbox.mcpreel(["serve", "c.json"]).lines(&[&initialize("{}")]).run();
        let stderr = run.stderr();
        assert_eq!(run.code(), 2, "{name}: {stderr}");
        assert_eq!(run.stdout(), "", "{name}");
        assert!(stderr.starts_with("mcpreel: c.json") && !stderr.contains("panicked"), "{name}: {stderr}");
    }
    let sandbox = Sandbox::new();
    sandbox.file("c.json", b"{\"mcpreel\":1,\xff");
    sandbox.mcpreel(["serve", "c.json"]).run().expect(2);
    sandbox.mcpreel(["serve", "none.json"]).run().expect(2);
    sandbox.mcpreel(["serve", "."]).run().expect(2);
}

#[test]
fn r116_odd_records_do_no_harm() {
    let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_objects = format!("{}1{}", "{\"a\":".repeat(100_000), "}".repeat(100_000));
    let mut records = handshake();
    records.extend(
        [
            "42",
            "null",
            "\"x\"",
            "[]",
            "{}",
            "[[]]",
            "[1,null]",
            r#"{"method":7,"id":1}"#,
            r#"{"id":{"a":1},"method":"x"}"#,
            r#"{"id":1,"id":2,"method":"tools/call","method":"ping"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":[]}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":7}}"#,
            r#"{"jsonrpc":"2.0","id":77,"result":{"taskId":1,"status":2}}"#,
            &deep,
            &deep_objects,
        ]
        .iter()
        .flat_map(|message| [c(message), s(message)]),
    );
    records.extend([c(call("5", "deep", &format!(r#"{{"v":{deep}}}"#))), s(result("5", &deep_objects))]);
    records.extend(answered("1", "t", "{}", "x"));
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&records, &["--ignore", "/params/arguments/z"]);
    client.greet("{}");
    client.expect(&call("6", "deep", &format!(r#"{{"v":{deep}}}"#)), &result("6", &deep_objects));
    let other = deep.replace('1', "2");
    let miss = client.fails(&call("6", "deep", &format!(r#"{{"v":{other}}}"#)), -31001);
    assert!(miss.len() < 5_000, "{} bytes", miss.len());
    client.expect(&call("1", "t", "{}"), &said("1", "x"));
    client.fails(&call("1", "t", &format!(r#"{{"v":{deep}}}"#)), -31001);
    client.close(3);
}

#[test]
fn r116_tasks_that_point_at_each_other_end() {
    let task = |id: &str, status: &str, more: &str| {
        format!(
            r#"{{"resultType":"task","taskId":"{id}","status":"{status}","createdAt":"never","lastUpdatedAt":"9999-99-99T00:00:00Z"{more}}}"#
        )
    };
    let able = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let make =
        |id: &str, n: u32| crate::support::modern(id, "tools/call", &format!(r#""name":"t{n}""#), able);
    let get = |id: &str, task: &str| {
        crate::support::modern(id, "tasks/get", &format!(r#""taskId":"{task}""#), able)
    };
    let records = [
        c(make("1", 1)),
        s(result("1", &task("a", "working", r#","result":{"taskId":"b","status":"working"}"#))),
        c(make("2", 2)),
        s(result("2", &task("b", "input_required", r#","inputRequests":{"x":{"taskId":"a"}}"#))),
        c(make("3", 3)),
        s(result("3", &task("a", "working", r#","task":{"taskId":"a","task":{"taskId":"a"}}"#))),
        c(get("4", "a")),
        s(result("4", &task("b", "working", ""))),
        c(get("5", "b")),
        s(result("5", &task("a", "completed", ""))),
    ];
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&records, &["--repeat", "last"]);
    for n in 1..4 {
        client.ask(&make("1", n));
        for id in ["a", "b", "a-2", "b-2"] {
            client.ask(&get("2", id));
        }
    }
    client.ask(&crate::support::modern("1", "tasks/list", "", able));
    client.close(0);
}

#[test]
fn r116_hostile_input_does_no_harm() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&answered("1", "t", "{}", "x"), &["--repeat", "last"]);
    let deep = "[".repeat(200_000);
    client.send(&deep);
    client.send(&format!("{deep}{}", "]".repeat(200_000)));
    client.send(&format!("{{\"a\":{}", "{\"a\":".repeat(200_000)));
    client.fails(&call("1", "t", &format!("{{\"a\":{deep}1{}}}", "]".repeat(200_000))), -31001);
    client.send(r#"{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"t"}}"#);
    assert_eq!(client.next(), said("null", "x"));
    client.send(r#"{"jsonrpc":"2.0","id":{"x":[1]},"method":"tools/call","params":{"name":"t"}}"#);
    assert_eq!(client.next(), said(r#"{"x":[1]}"#, "x"));
    for params in
        ["[]", "7", "\"x\"", r#"{"name":7}"#, r#"{"name":{"a":1},"arguments":[]}"#, r#"{"_meta":7}"#]
    {
        client.fails(&request("1", "tools/call", params), -31001);
    }
    client.expect(&call("9", "t", "{}"), &said("9", "x"));
    client.close(3);
}

#[test]
fn text_of_a_client_cannot_steer_the_terminal() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&answered("1", "t", "{}", "x"), &[]);
    client.fails(&call("1", "t\\u001b[31m\u{9b}2J\u{202e}", "{}"), -31001);
    let ended = client.close(3);
    assert!(!ended.stderr.contains(['\u{1b}', '\u{9b}', '\u{202e}']), "{:?}", ended.stderr);
}

/// The most memory that a process has had, in bytes.
fn peak(pid: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<usize>().unwrap() << 10
}

#[test]
fn a_miss_on_something_large_takes_little_more_than_its_request_and_key() {
    const SIZE: usize = 8 << 20;
    let sandbox = Sandbox::new();
    let records: Vec<String> =
        (0..5).flat_map(|n| answered(&n.to_string(), "t", &format!(r#"{{"q":{n}}}"#), "x")).collect();
    let large = "a".repeat(SIZE);
    for (arguments, most) in [
        (format!(r#"{{"q":"{large}"}}"#), 3),
        (format!(r#"{{"q":{{"x":["{large}"]}}}}"#), 3),
        // The pointer to it is as large.
        (format!(r#"{{"{large}":1}}"#), 6),
    ] {
        let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
        client.nothing_comes();
        let before = peak(client.child.id());
        let miss = client.fails(&call("1", "t", &arguments), -31001);
        let grown = peak(client.child.id()) - before;
        assert!(grown < most * SIZE, "{grown}");
        let ended = client.close(3);
        for text in [miss, ended.stderr, sandbox.read("r.jsonl")] {
            assert!(text.len() < 10_000, "{}", text.len());
        }
        std::fs::remove_file(sandbox.path.join("r.jsonl")).unwrap();
    }
    // A name as large is cut too.
    let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
    let miss = client.fails(&call("1", &large, "{}"), -31001);
    let miss = [miss, client.fails(&request("1", &large, "{}"), -31001)].concat();
    let ended = client.close(3);
    for text in [miss, ended.stderr, sandbox.read("r.jsonl")] {
        assert!(text.len() < 10_000, "{}", text.len());
    }
}
