//! Many recorders at once, one cassette.

use std::thread;

use mcpreel::cassette::{Cassette, Side};

use crate::support::Sandbox;
use crate::support::recording::DEMO;

#[test]
fn fifty_recorders_lose_and_tear_nothing() {
    const CALLS: usize = 100;
    let sandbox = Sandbox::new();
    // Not pings: those are probes, which add nothing to a cassette that is there.
    let calls: Vec<String> = (1..=CALLS)
        .map(|id| {
            format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"t"}}}}}}"#
            )
        })
        .collect();
    let calls: Vec<&str> = calls.iter().map(String::as_str).collect();
    for cassette in ["c.json", "c.jsonl"] {
        thread::scope(|scope| {
            for number in 0..50 {
                let name = format!("s{}", number % 5);
                let options = ["-q", "--session", "many", "--server", &name].map(str::to_owned);
                let (sandbox, calls) = (&sandbox, &calls);
                scope.spawn(move || {
                    let options: Vec<&str> = options.iter().map(String::as_str).collect();
                    let done = sandbox.recorder(cassette, &options, &DEMO).lines(calls).run().expect(0);
                    assert_eq!(done.lines().len(), CALLS);
                });
            }
        });
        sandbox.mcpreel(["end", cassette, "--session", "many"]).run().expect(0);
        assert_eq!(sandbox.of_cassette(cassette), [cassette]);
        let read = Cassette::read(&sandbox.path.join(cassette)).unwrap();
        assert_eq!(read.warnings, [""; 0]);
        assert_eq!(read.records.len(), 50 * 2 * CALLS);
        for server in ["s0", "s1", "s2", "s3", "s4"] {
            for conn in 0..10 {
                for side in [Side::Client, Side::Server] {
                    let ids: Vec<String> = read
                        .records
                        .iter()
                        .filter(|record| read.server_name(record) == server)
                        .filter(|record| record.conn == conn && record.from == side)
                        .map(|record| record.view().unwrap().id.unwrap().of(&read.text).to_owned())
                        .collect();
                    let expected: Vec<String> = (1..=CALLS).map(|id| id.to_string()).collect();
                    assert_eq!(ids, expected, "{cassette} {server} {conn} {side:?}");
                }
            }
        }
    }
}
