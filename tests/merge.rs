//! `merge`: several cassettes as one.

use mcpreel::cassette::{Cassette, Exit};

use crate::support::replay::said;
use crate::support::{Done, Sandbox, modern};

fn merge(sandbox: &Sandbox, args: &[&str]) -> Done {
    sandbox.mcpreel([&["merge"], args].concat()).run()
}

/// A cassette of one server: the start of the recording in seconds past the minute, its head, its messages as
/// `c 3 {...}` with their milliseconds.
fn cassette(sandbox: &Sandbox, name: &str, second: u32, head: &str, messages: &[&str]) {
    let mut records = Vec::new();
    let mut times = Vec::new();
    for line in messages {
        let [side, at, payload] = line.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let from = if side == "c" { "client" } else { "server" };
        records.push(format!("{{\"from\":\"{from}\",{payload}}}"));
        times.push(at);
    }
    let text = format!(
        "{{\"mcpreel\":1,\"recorded_at\":\"2026-11-29T20:33:{second:02}.000Z\",\"recorder\":\"mcpreel 0.1.0\",{head},\"messages\":[{}],\"timing_ms\":[{}]}}",
        records.join(","),
        times.join(",")
    );
    sandbox.file(name, text);
}

const CALL: &str =
    r#""payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","arguments":{"n":1.0}}}"#;
const ANSWER: &str = r#""payload":{"jsonrpc":"2.0","id":1,"result":{"big":123456789012345678901234}}"#;

fn stdio(name: &str, command: &str) -> String {
    format!("\"servers\":{{\"{name}\":{{\"transport\":\"stdio\",\"command\":[\"{command}\"]}}}}")
}

/// Records as server, connection/session/exchange, microseconds.
fn placed(sandbox: &Sandbox, name: &str) -> Vec<String> {
    let cassette = Cassette::read(&sandbox.path.join(name)).unwrap();
    let line = |record: &mcpreel::cassette::Record| {
        let place = format!("{}/{}/{}", record.conn, record.session, record.exchange);
        format!("{} {place} @{}", cassette.server_name(record), record.at)
    };
    cassette.records.iter().map(line).collect()
}

#[test]
fn two_servers_are_put_in_order_of_time() {
    let sandbox = Sandbox::new();
    cassette(
        &sandbox,
        "a.json",
        2,
        &stdio("a", "a"),
        &[&format!("c 0 {CALL}"), &format!("s 3000.5 {ANSWER}")],
    );
    cassette(
        &sandbox,
        "b.json",
        1,
        &stdio("b", "b"),
        &[&format!("c 500 {CALL}"), &format!("s 2000 {ANSWER}")],
    );
    for order in [["a.json", "b.json"], ["b.json", "a.json"]] {
        let done = merge(&sandbox, &[order[0], order[1], "-o", "ab.json"]).expect(0);
        assert_eq!(done.stderr(), "");
        assert_eq!(
            placed(&sandbox, "ab.json"),
            ["b 0/0/0 @500000", "a 0/0/0 @1000000", "b 0/0/0 @2000000", "a 0/0/0 @4000500"]
        );
        let text = sandbox.read("ab.json");
        assert!(text.contains("\"recorded_at\": \"2026-11-29T20:33:01.000Z\""), "{text}");
        assert_eq!(text.matches("\"n\": 1.0").count(), 2);
        assert_eq!(text.matches("\"big\": 123456789012345678901234").count(), 2);
    }
    for name in ["a", "b"] {
        let ask =
            r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"x","arguments":{"n":1}}}"#;
        let mut client = sandbox.mcpreel(["serve", "ab.json", "--server", name]).start();
        assert!(client.ask(ask).contains("123456789012345678901234"));
    }
}

#[test]
fn a_server_recorded_again_gets_further_connections_and_sessions() {
    let sandbox = Sandbox::new();
    let head = format!("{},\"processes\":[{{\"server\":\"a\",\"exit\":{{\"code\":0}}}}]", stdio("a", "a"));
    cassette(&sandbox, "a.json", 1, &head, &[&format!("c 0 {CALL}"), &format!("s 1 {ANSWER}")]);
    cassette(&sandbox, "b.json", 2, &head.replace("\"code\":0", "\"code\":3"), &[&format!("c 0 {CALL}")]);
    let done = merge(&sandbox, &["a.json", "b.json", "a.json", "-o", "out.json"]).expect(0);
    assert_eq!(
        done.stderr(),
        "mcpreel: note: server \"a\" was recorded before: b.json adds connections to it, 1 further on\n\
         mcpreel: note: server \"a\" was recorded before: a.json adds connections to it, 2 further on\n"
    );
    assert_eq!(
        placed(&sandbox, "out.json"),
        ["a 0/0/0 @0", "a 2/0/0 @0", "a 0/0/0 @1000", "a 2/0/0 @1000", "a 1/0/0 @1000000"]
    );
    let cassette_ = Cassette::read(&sandbox.path.join("out.json")).unwrap();
    let conns: Vec<(u32, Option<Exit>)> =
        cassette_.head.processes.iter().map(|process| (process.conn, process.exit)).collect();

    assert_eq!(conns, [(0, Some(Exit::Code(0))), (1, Some(Exit::Code(3))), (2, Some(Exit::Code(0)))]);

    let web = r#""servers":{"w":{"transport":"http","url":"http://x/"}}"#;
    let call = format!("c 0 \"session\":1,\"exchange\":1,{CALL}");
    let answer = format!("s 1 \"session\":1,\"exchange\":1,{ANSWER}");
    cassette(&sandbox, "w.json", 1, web, &[&call, &answer]);
    cassette(&sandbox, "v.json", 3, web, &[&call, &answer]);
    merge(&sandbox, &["w.json", "v.json", "-o", "out.jsonl"]).expect(0);
    assert!(sandbox.read("out.jsonl").starts_with("{\"mcpreel\":1,\"journal\":true"));
    assert_eq!(
        placed(&sandbox, "out.jsonl"),
        ["w 0/1/1 @0", "w 0/1/1 @1000", "w 0/2/2 @2000000", "w 0/2/2 @2001000"]
    );
}

#[test]
fn without_times_the_given_order_counts() {
    let sandbox = Sandbox::new();
    cassette(&sandbox, "a.json", 9, &stdio("a", "a"), &[&format!("c 0 {CALL}")]);
    sandbox.file("b.jsonl", format!("{{\"dir\":\"c2s\",\"msg\":{}}}\n", CALL.split_once(':').unwrap().1));
    let done = merge(&sandbox, &["a.json", "b.jsonl", "-o", "out.json"]).expect(0);
    let line = "mcpreel: note: b.jsonl does not say when its messages came: the cassettes follow each other as given, without times\n";
    assert!(done.stderr().contains(line), "{}", done.stderr());
    assert_eq!(placed(&sandbox, "out.json"), ["a 0/0/0 @0", "server 0/0/0 @0"]);
    assert!(!sandbox.read("out.json").contains("timing_ms"));
}

#[test]
fn servers_that_share_a_name_and_differ_are_told_apart_by_renaming() {
    let sandbox = Sandbox::new();
    cassette(&sandbox, "a.json", 1, &stdio("s", "one"), &[&format!("c 0 {CALL}")]);
    cassette(&sandbox, "b.json", 2, &stdio("s", "two"), &[&format!("c 0 {CALL}")]);
    cassette(&sandbox, "c.json", 3, &stdio("s", "three"), &[&format!("c 0 {CALL}")]);
    for (args, line) in [
        (
            &["a.json", "b.json"][..],
            "b.json: server \"s\" (two) is not the server \"s\" of a.json (one); give it another name with --rename s=NEW",
        ),
        (
            &["a.json", "b.json", "c.json", "--rename", "s=t"],
            "c.json: server \"s\" (three) is not the server \"s\" of a.json (one); give it another name with --rename s=NEW",
        ),
        (
            &["a.json", "b.json", "--rename", "x=t"],
            "--rename x=...: there is no server \"x\"; the servers are \"s\"",
        ),
        (
            &["a.json", "--rename", "s"],
            "--rename \"s\": expected OLD=NEW, two names of servers; see mcpreel merge --help",
        ),
        (&["-", "-"], "standard input can be read only once"),
        (&[], "merge needs cassettes to merge; see mcpreel merge --help"),
    ] {
        let done = merge(&sandbox, &[args, &["-o", "out.json"]].concat()).expect(2);
        assert_eq!(done.stderr(), format!("mcpreel: {line}\n"), "{args:?}");
        assert!(!sandbox.has("out.json"));
    }
    merge(&sandbox, &["a.json", "b.json", "c.json", "--rename", "s=t", "--rename", "s=u", "-o", "out.json"])
        .expect(0);
    assert_eq!(placed(&sandbox, "out.json"), ["s 0/0/0 @0", "t 0/0/0 @1000000", "u 0/0/0 @2000000"]);
    merge(&sandbox, &["a.json", "--rename", "s=only", "-o", "out.json"]).expect(0);
    assert_eq!(placed(&sandbox, "out.json"), ["only 0/0/0 @0"]);
}

#[test]
fn heads_are_united_and_conflicts_named() {
    let sandbox = Sandbox::new();
    let head = |more: &str, server: &str| {
        format!(
            "\"servers\":{{\"s\":{{\"transport\":\"stdio\",\"info\":{{\"name\":\"s\"}}{server}}}}},{more}"
        )
    };
    let first = head(
        r#""redaction":{"profile":"p","rules":["key:a"],"counts":{"key:a":1}},"labels":{"test":"x","who":"me"},"match":{"ignore":["/a"],"ignore_value":["uuid"]},"later":1"#,
        r#","protocol":["2025-06-18"]"#,
    );
    let second = head(
        r#""redaction":{"profile":"q","rules":["key:b"],"counts":{"key:a":2,"key:b":1}},"labels":{"test":"y","what":"it"},"match":{"ignore":["/a","/b"]},"later":2,"more":3"#,
        r#","protocol":["2025-11-25"],"note":1"#,
    );
    cassette(&sandbox, "a.json", 1, &first, &[&format!("c 0 {CALL}")]);
    cassette(&sandbox, "b.json", 2, &second, &[&format!("c 0 {CALL}")]);
    let done = merge(&sandbox, &["a.json", "b.json", "-o", "out.json"]).expect(2);
    let lines = [
        "note: server \"s\" was recorded before: b.json adds connections to it, 1 further on",
        "lost: the field of the redaction manifest \"profile\": \"p\" in a.json, \"q\" in b.json; the first is kept",
        "lost: the label \"test\": \"x\" in a.json, \"y\" in b.json; the first is kept",
        "lost: the head field \"later\": 1 in a.json, 2 in b.json; the first is kept",
        "the cassettes disagree, see above; --lossy keeps what the first one says",
    ];
    let expected: String = lines.iter().map(|line| format!("mcpreel: {line}\n")).collect();
    assert_eq!(done.stderr(), expected);
    assert!(!sandbox.has("out.json"));
    merge(&sandbox, &["a.json", "b.json", "--lossy", "-o", "out.json"]).expect(0);
    let out = Cassette::read(&sandbox.path.join("out.json")).unwrap();
    assert_eq!(
        out.head.redaction.as_deref(),
        Some(r#"{"profile":"p","rules":["key:a","key:b"],"counts":{"key:a":3,"key:b":1}}"#)
    );
    assert_eq!(out.head.labels.as_deref(), Some(r#"{"test":"x","who":"me","what":"it"}"#));
    assert_eq!(out.head.matching.as_deref(), Some(r#"{"ignore":["/a","/b"],"ignore_value":["uuid"]}"#));
    assert_eq!(out.head.extra, [("later".to_owned(), "1".to_owned()), ("more".to_owned(), "3".to_owned())]);
    let server = &out.head.servers[0].1;
    assert_eq!(server.protocol, ["2025-06-18", "2025-11-25"]);
    assert_eq!(server.extra, [("note".to_owned(), "1".to_owned())]);
}

#[test]
fn outputs_are_cassettes_or_pipes() {
    let sandbox = Sandbox::new();
    cassette(&sandbox, "a.json", 1, &stdio("a", "a"), &[&format!("c 0 {CALL}")]);
    sandbox.file("notes.txt", "mine");
    let done = merge(&sandbox, &["a.json", "-o", "notes.txt"]).expect(2);
    assert!(
        done.stderr().starts_with("mcpreel: notes.txt: exists and would be replaced"),
        "{}",
        done.stderr()
    );
    assert_eq!(sandbox.read("notes.txt"), "mine");
    let piped = sandbox.mcpreel(["merge", "-", "-o", "-"]).input(sandbox.read("a.json")).run().expect(0);
    merge(&sandbox, &["a.json", "-o", "a.json"]).expect(0);
    assert_eq!(sandbox.read("a.json"), piped.stdout());
    let done = merge(&sandbox, &["a.json", "none.json", "-o", "out.json"]).expect(2);
    assert_eq!(done.stderr(), "mcpreel: none.json: no such cassette\n");
}

/// A recording of a modern server over HTTP: `who` logs in and gets something, with a password that is then redacted.
fn users(sandbox: &Sandbox, name: &str, second: u32, who: &str) {
    let ask = |n: u32, tool: &str| {
        let line = modern(&n.to_string(), "tools/call", &login(tool, who), "{}");
        format!("c {n} \"exchange\":{n},\"payload\":{line}")
    };
    let answer = |n: u32, tool: &str| {
        let line = said(&n.to_string(), &format!("{tool} of {who}"));
        format!("s {n} \"exchange\":{n},\"http\":{{\"status\":200,\"type\":\"json\"}},\"payload\":{line}")
    };
    let lines = [ask(1, "login"), answer(1, "login"), ask(2, "get"), answer(2, "get")];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let head = r#""servers":{"s":{"transport":"http","url":"http://127.0.0.1:1/mcp"}}"#;
    cassette(sandbox, name, second, head, &lines);
    sandbox.mcpreel(["redact", "--in-place", name]).run().expect(0);
    assert!(sandbox.read(name).contains("\"REDACTED-1\""));
}

/// The parameters of a call with the password of `who`.
fn login(tool: &str, who: &str) -> String {
    format!(r#""name":"{tool}","arguments":{{"password":"{who}-Zq7-5512"}}"#)
}

#[test]
fn placeholders_of_two_recordings_of_one_server_are_two_values() {
    let sandbox = Sandbox::new();
    for (second, who) in [(1, "alice"), (2, "bob"), (3, "carol")] {
        users(&sandbox, &format!("{who}.json"), second, who);
    }
    merge(&sandbox, &["alice.json", "bob.json", "-o", "two.json"]).expect(0);
    assert!(sandbox.read("two.json").contains(r#""recordings": [3]"#), "{}", sandbox.read("two.json"));
    merge(&sandbox, &["two.json", "carol.json", "-o", "right.json"]).expect(0);
    merge(&sandbox, &["carol.json", "two.json", "-o", "left.json"]).expect(0);
    for (name, users) in [
        ("two.json", &["alice", "bob"][..]),
        ("right.json", &["alice", "bob", "carol"]),
        ("left.json", &["alice", "bob", "carol"]),
    ] {
        let mut client = sandbox.mcpreel(["serve", name, "--stdio"]).start();
        for who in users {
            let ask = modern("5", "tools/call", &login("login", who), "{}");
            assert!(client.ask(&ask).contains("login of"), "{name} {who}");
        }
        for who in users.iter().rev() {
            let ask = modern("6", "tools/call", &login("get", who), "{}");
            assert_eq!(client.ask(&ask), said("6", &format!("get of {who}")), "{name}");
        }
        client.close(0);
    }
}
