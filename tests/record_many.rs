//! Many recorders at once, one cassette.

use std::thread;

use mcpreel::cassette::{Cassette, Side};

use crate::support::Sandbox;
use crate::support::recording::DEMO;

#[test]
fn fifty_recorders_lose_and_tear_nothing() {
    const PINGS: usize = 100;
    let sandbox = Sandbox::new();
    let pings: Vec<String> =
        (1..=PINGS).map(|id| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#)).collect();
    let pings: Vec<&str> = pings.iter().map(String::as_str).collect();
    for cassette in ["c.json", "c.jsonl"] {
        thread::scope(|scope| {
            for number in 0..50 {
                let name = format!("s{}", number % 5);
                let options = ["-q", "--session", "many", "--server", &name].map(str::to_owned);
                let (sandbox, pings) = (&sandbox, &pings);
                scope.spawn(move || {
                    let options: Vec<&str> = options.iter().map(String::as_str).collect();
                    let done = sandbox.recorder(cassette, &options, &DEMO).lines(pings).run().expect(0);
                    assert_eq!(done.lines().len(), PINGS);
                });
            }
        });
        sandbox.mcpreel(["end", cassette, "--session", "many"]).run().expect(0);
        assert_eq!(sandbox.of_cassette(cassette), [cassette]);
        let read = Cassette::read(&sandbox.path.join(cassette)).unwrap();
        assert_eq!(read.warnings, [""; 0]);
        assert_eq!(read.records.len(), 50 * 2 * PINGS);
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
                    let expected: Vec<String> = (1..=PINGS).map(|id| id.to_string()).collect();
                    assert_eq!(ids, expected, "{cassette} {server} {conn} {side:?}");
                }
            }
        }
    }
}
