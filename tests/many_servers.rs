//! `inspect` of a cassette with very many servers: what it takes grows with the cassette, and not with its square.

use crate::support::Sandbox;
use crate::support::replay::{call, request, result, said};

const SERVERS: usize = 8_000;

#[test]
fn many_servers_are_looked_at_within_the_hang_limit() {
    let sandbox = Sandbox::new();
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
    for (view, last) in [
        (
            &[][..],
            "server \"s7999\", stdio: s\n  4 messages\n  -> tools/call       1  1 answered\n  -> tools/list       1  1 answered\n  process 0: exit 5\n",
        ),
        (&["--timeline"], "s7999"),
        (&["--tools"], "s7999"),
        (&["--exchange", "15999"], "tools/list"),
        (&["--server", "s7999", "--format", "json"], r#""code": 5"#),
    ] {
        let run = sandbox.mcpreel(["inspect", "c.json"].iter().chain(view)).run().expect(0);
        assert!(
            run.stdout().contains(last),
            "{view:?}: {}",
            run.stdout().chars().take(2000).collect::<String>()
        );
    }
}
