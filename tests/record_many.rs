//! Many recorders at once, one cassette.

use std::os::unix::fs::FileExt as _;
use std::thread;

use mcpreel::cassette::{Cassette, Side};

use crate::support::recording::DEMO;
use crate::support::{Sandbox, eventually, messages};

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

/// The clock is set back by making what was written before seem later.
#[test]
fn a_clock_that_is_set_back_puts_nothing_in_front_of_what_came_before() {
    let message = |text: &str| format!(r#"{{"jsonrpc":"2.0","method":"{text}"}}"#);
    for cassette in ["c.json", "c.jsonl"] {
        let sandbox = Sandbox::new();
        let start =
            || sandbox.recorder(cassette, &["-q", "--session", "s", "--server", "cat"], &["cat"]).start();
        let mut one = start();
        one.expect(&message("one"), &message("one"));
        one.expect(&message("two"), &message("two"));
        let folder = sandbox.path.join(format!("{cassette}.partial"));
        let mut files = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let segment = files.find(|path| path.extension().is_some_and(|ext| ext == "jsonl")).unwrap();
        let read = || std::fs::read_to_string(&segment).unwrap();
        eventually("what was said in the file", || read().matches("\"two\"").count() == 2);
        let text = read();
        let at = text.find("\"recorded_at\":\"20").unwrap() + "\"recorded_at\":\"20".len();
        let file = std::fs::File::options().write(true).open(&segment).unwrap();
        file.write_all_at(b"9", u64::try_from(at).unwrap()).unwrap();
        let mut two = start();
        two.expect(&message("three"), &message("three"));
        two.close(0);
        one.close(0);
        let mut three = start();
        three.expect(&message("four"), &message("four"));
        three.close(0);
        sandbox.mcpreel(["end", cassette, "--session", "s"]).run().expect(0);
        let said = messages(&sandbox.path.join(cassette));
        let said: Vec<&str> = said.iter().map(String::as_str).filter(|line| line.starts_with("c ")).collect();
        let expected = ["one", "two", "three", "four"].map(|text| format!("c {}", message(text)));
        assert_eq!(said, expected, "{cassette}");
    }
}
