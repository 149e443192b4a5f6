//! Lines of clients that are no JSON text in UTF-8, and that servers read all the same.

use serde_json::Value;

use crate::support::Sandbox;
use crate::support::replay::{call, said};

/// A server that takes this many lines and says what is in `answers`, recorded with a client that writes `line`.
fn record(sandbox: &Sandbox, line: &[u8], answers: &[String]) {
    let file =
        sandbox.file("answers", answers.iter().map(|answer| format!("{answer}\n")).collect::<String>());
    let server =
        sandbox.script("server", &format!("read -r line\ncat '{}'\nread -r line || :", file.display()));
    let run = sandbox.recorder("c.json", &["--session", "odd"], &[&server]);
    run.input([line, b"\n"].concat()).run().expect(0);
    sandbox.mcpreel(["end", "c.json", "--session", "odd"]).run().expect(0);
}

/// What a replay says to this line, its status, and the names of its misses.
fn replay(sandbox: &Sandbox, line: &[u8]) -> (Vec<String>, i32, usize) {
    let run = sandbox.mcpreel(["serve", "c.json", "--report", "r.jsonl"]).input([line, b"\n"].concat()).run();
    let row: Value = serde_json::from_str(sandbox.read("r.jsonl").lines().last().unwrap()).unwrap();
    (run.lines(), run.code(), row["misses"].as_array().unwrap().len())
}

/// A call whose argument is these bytes.
fn with_bytes(bytes: &[u8]) -> Vec<u8> {
    let call = call("1", "t", r#"{"q":"caf*"}"#);
    let (front, back) = call.split_once('*').unwrap();
    [front.as_bytes(), bytes, back.as_bytes()].concat()
}

#[test]
fn a_request_that_is_not_utf8_gets_what_was_recorded_for_its_bytes() {
    let sandbox = Sandbox::new();
    record(&sandbox, &with_bytes(b"\xe9"), &[said("1", "with an e")]);
    assert!(sandbox.read("c.json").contains("\"base64\""));
    assert_eq!(replay(&sandbox, &with_bytes(b"\xe9")), (vec![said("1", "with an e")], 0, 0));
    for other in [&b"\xe8"[..], b"\xe9\xe9", "é".as_bytes(), "\u{fffd}".as_bytes()] {
        let (lines, status, misses) = replay(&sandbox, &with_bytes(other));
        assert!(lines.len() == 1 && lines[0].contains("\"error\":{\"code\":-31001,"), "{other:?}: {lines:?}");
        assert_eq!((status, misses), (3, 1), "{other:?}");
    }
}

#[test]
fn a_request_that_is_not_utf8_and_was_not_recorded_is_a_miss() {
    let sandbox = Sandbox::new();
    record(&sandbox, call("1", "t", "{}").as_bytes(), &[said("1", "x")]);
    let (lines, status, misses) = replay(&sandbox, &with_bytes(b"\xff"));
    assert!(lines[0].contains("-31001"), "{lines:?}");
    assert_eq!((status, misses), (3, 1));
}

#[test]
fn messages_on_one_line_are_each_answered_as_recorded() {
    let sandbox = Sandbox::new();
    let both = |first: &str, second: &str| format!("{}{}", call("1", first, "{}"), call("2", second, "{}"));
    record(&sandbox, both("a", "b").as_bytes(), &[said("1", "A"), said("2", "B")]);
    assert_eq!(replay(&sandbox, both("a", "b").as_bytes()), (vec![said("1", "A"), said("2", "B")], 0, 0));
    // One by one they are the same requests.
    let apart = format!("{}\n{}", call("2", "b", "{}"), call("1", "a", "{}"));
    assert_eq!(replay(&sandbox, apart.as_bytes()), (vec![said("2", "B"), said("1", "A")], 0, 0));
    let (lines, status, misses) = replay(&sandbox, both("a", "c").as_bytes());
    assert_eq!((lines.len(), status, misses), (2, 3, 1));
    // A server that passed over the line passes over it again.
    std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    record(&sandbox, both("a", "b").as_bytes(), &[]);
    assert_eq!(replay(&sandbox, both("a", "b").as_bytes()), (Vec::new(), 0, 0));
    // What is no message among them makes all of it none.
    assert_eq!(replay(&sandbox, format!("{} x", call("1", "a", "{}")).as_bytes()), (Vec::new(), 0, 0));
}
