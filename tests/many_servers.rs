//! Cassettes with very much of one kind, of servers mostly: what a command takes grows with them, and not with their
//! square.

use mcpreel::cassette::Cassette;

use crate::support::Sandbox;
use crate::support::replay::{call, request, result, said};

const SERVERS: usize = 16_000;

/// A document of [`SERVERS`] servers.
fn document(sandbox: &Sandbox) {
    let servers: Vec<String> =
        (0..SERVERS).map(|n| format!(r#""s{n}":{{"transport":"stdio","command":["s"]}}"#)).collect();
    let processes: Vec<String> =
        (0..SERVERS).map(|n| format!(r#"{{"server":"s{n}","exit":{{"code":{}}}}}"#, n % 7)).collect();
    let records: Vec<String> = (0..SERVERS)
        .flat_map(|n| {
            [
                ("client", request("1", "tools/list", "{}")),
                ("server", result("1", r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#)),
                ("client", call("2", "t", "{}")),
                ("server", said("2", "x")),
            ]
            .map(|(from, message)| format!(r#"{{"server":"s{n}","from":"{from}","payload":{message}}}"#))
        })
        .collect();
    sandbox.file(
        "c.json",
        format!(
            r#"{{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"mcpreel 0.1.0","servers":{{{}}},"processes":[{}],"messages":[{}]}}"#,
            servers.join(","),
            processes.join(","),
            records.join(",\n")
        ),
    );
}

#[test]
fn many_servers_are_looked_at_within_the_hang_limit() {
    let sandbox = Sandbox::new();
    document(&sandbox);
    for (view, last) in [
        (
            &[][..],
            "server \"s15999\", stdio: s\n  4 messages\n  -> tools/call       1  1 answered\n  -> tools/list       1  1 answered\n  process 0: exit 4\n",
        ),
        (&["--timeline"], "s15999"),
        (&["--tools"], "s15999"),
        (&["--exchange", "31999"], "tools/list"),
        (&["--server", "s15999", "--format", "json"], r#""code": 4"#),
    ] {
        let run = sandbox.mcpreel(["inspect", "c.json"].iter().chain(view)).run().expect(0);
        assert!(
            run.stdout().contains(last),
            "{view:?}: {}",
            run.stdout().chars().take(2000).collect::<String>()
        );
    }
}

#[test]
fn many_servers_are_converted_and_merged_within_the_hang_limit() {
    let sandbox = Sandbox::new();
    document(&sandbox);
    let run = |args: &[&str]| {
        let done = sandbox.mcpreel(args).run().expect(0);
        assert!(done.stderr().lines().count() <= 2 * SERVERS, "{}", done.stderr().lines().count());
    };
    run(&["convert", "c.json", "-o", "c.jsonl"]);
    run(&["convert", "c.jsonl", "-o", "back.json"]);
    run(&["convert", "c.json", "--to", "jsonl", "--lossy", "-o", "lines.jsonl"]);
    run(&["convert", "lines.jsonl", "-o", "named.json"]);
    run(&["merge", "c.json", "c.jsonl", "-o", "both.json"]);
    run(&["redact", "c.json", "-o", "redacted.json"]);
    let whole = Cassette::read(&sandbox.path.join("back.json")).unwrap();
    assert_eq!((whole.head.servers.len(), whole.records.len()), (SERVERS, 4 * SERVERS));
    let both = Cassette::read(&sandbox.path.join("both.json")).unwrap();
    assert_eq!((both.head.servers.len(), both.records.len()), (SERVERS, 8 * SERVERS));
    assert_eq!(both.records.iter().map(|record| record.conn).max(), Some(1));
    let named = Cassette::read(&sandbox.path.join("named.json")).unwrap();
    assert_eq!(named.head.servers.len(), SERVERS);
}

#[test]
fn many_values_and_requests_of_one_kind_are_converted_within_the_hang_limit() {
    const MANY: usize = 20_000;
    let sandbox = Sandbox::new();
    // Each element of the list needs a rule of its own.
    let list = vec![r#""REDACTED""#; 4 * MANY].join(",");
    sandbox.file(
        "list.json",
        format!(
            r#"{{"format_version":3,"transport":"stdio","messages":[{{"sender":"client","redacted":true,"payload":{{"jsonrpc":"2.0","id":1,"method":"x","params":{{"a":[{list}]}}}}}}]}}"#
        ),
    );
    sandbox.mcpreel(["convert", "list.json", "-o", "c.json"]).run().expect(0);
    assert!(sandbox.read("c.json").contains(&format!("\"pointer:/params/a/{}\"", 4 * MANY - 1)));
    // And nothing tells these exchanges apart.
    let refused: Vec<String> = (2..MANY)
        .map(|n| {
            format!(
                r#"{{"from":"client","exchange":{n},"http":{{"method":"DELETE"}}}},{{"from":"server","exchange":{n},"http":{{"status":405}}}}"#
            )
        })
        .collect();
    sandbox.file(
        "refused.json",
        format!(
            r#"{{"mcpreel":1,"servers":{{"s":{{"transport":"http","url":"http://s/mcp"}}}},"messages":[{{"from":"client","exchange":1,"payload":{}}},{{"from":"server","exchange":1,"http":{{"status":200,"type":"json"}},"payload":{}}},{}]}}"#,
            request("1", "tools/list", "{}"),
            result("1", "{}"),
            refused.join(",")
        ),
    );
    let done = sandbox.mcpreel(["convert", "refused.json", "-o", "refused.har"]).run().expect(0);
    assert!(!done.stderr().contains("no place"), "{}", done.stderr());
}
