//! The files that recordings become: their shape, what a second recording changes in them, and what it keeps.

use crate::support::recording::DEMO;
use crate::support::{Sandbox, initialize, messages};

fn call(id: u32, tool: &str, arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}","arguments":{arguments}}}}}"#
    )
}

fn session() -> Vec<String> {
    vec![
        initialize("{}"),
        r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#.to_owned(),
        call(2, "add", r#"{"a":1,"b":2.50}"#),
        call(3, "unicode", "{}"),
        call(4, "noise", "{}"),
    ]
}

/// Records a session with the demo server; gives what was said on standard error.
#[track_caller]
fn record(sandbox: &Sandbox, cassette: &str, session: &[String], more: &[&str]) -> String {
    let mut args = vec!["--server", "demo"];
    args.extend(more);
    let mut client = sandbox.recorder(cassette, &args, &DEMO).start();
    let session: Vec<&str> = session.iter().map(String::as_str).collect();
    client.converse(&session);
    client.close(0).stderr
}

/// Whoever made a cassette readable for others, or for nobody else, need not do it again after each recording.
#[test]
fn a_cassette_that_is_recorded_again_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    for name in ["c.json", "c.jsonl"] {
        let sandbox = Sandbox::new();
        let record = |text: &str, options: &[&str]| {
            let line = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{text}"}}"#);
            sandbox.recorder(name, options, &["cat"]).lines(&[&line]).run().expect(0);
        };
        record("one", &["-q"]);
        let path = sandbox.path.join(name);
        for (mode, text) in [(0o600, "two"), (0o664, "three"), (0o444, "four")] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            record(text, &["-q"]);
            assert!(sandbox.read(name).contains(text));
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, mode, "{name} {text}");
        }
    }
}

#[test]
fn two_recordings_of_one_session_differ_in_two_lines() {
    let sandbox = Sandbox::new();
    for cassette in ["one.json", "two.json"] {
        record(&sandbox, cassette, &session(), &[]);
    }
    let (one, two) = (sandbox.read("one.json"), sandbox.read("two.json"));
    assert_eq!(one.lines().count(), two.lines().count());
    let different: Vec<&str> = one.lines().zip(two.lines()).filter(|(a, b)| a != b).map(|(a, _)| a).collect();
    assert_eq!(different.len(), 2, "{different:?}");
    assert!(different[0].starts_with("  \"recorded_at\": "), "{different:?}");
    assert!(different[1].starts_with("  \"timing_ms\": ["), "{different:?}");
    assert!(one.ends_with("]\n}\n") && !one.contains('\r') && !one.contains("null,"), "{one}");
}

#[test]
fn recording_the_same_session_again_leaves_the_file_untouched_and_says_so() {
    for cassette in ["c.json", "c.jsonl"] {
        let sandbox = Sandbox::new();
        record(&sandbox, cassette, &session(), &[]);
        let before = (sandbox.read(cassette), std::fs::metadata(sandbox.path.join(cassette)).unwrap());
        // Other ids and a progress token are the same session; so is a client of another version.
        let other: Vec<String> = session()
            .iter()
            .map(|line| {
                line.replace("\"id\":", "\"id\":70").replace("\"version\":\"1\"", "\"version\":\"2\"")
            })
            .collect();
        for session in [session(), other] {
            let said = record(&sandbox, cassette, &session, &[]);
            assert!(
                said.ends_with(&format!("{cassette} says the same already and was left untouched\n")),
                "{said}"
            );
            let mut user = sandbox.user(cassette, &["--mode", "all", "--server", "demo"], &DEMO).start();
            user.converse(&session.iter().map(String::as_str).collect::<Vec<_>>());
            let said = user.close(0).stderr;
            assert!(
                said.ends_with(&format!("{cassette} says the same already and was left untouched\n")),
                "{said}"
            );
        }
        assert_eq!(sandbox.read(cassette), before.0);
        let after = std::fs::metadata(sandbox.path.join(cassette)).unwrap();
        assert_eq!(after.modified().unwrap(), before.1.modified().unwrap());
        assert_eq!(sandbox.of_cassette("c.json"), [cassette]);

        let mut changed = session();
        changed.push(call(5, "add", r#"{"a":1,"b":3}"#));
        let said = record(&sandbox, cassette, &changed, &[]);
        assert!(said.ends_with(&format!("recorded 14 messages into {cassette}\n")), "{said}");
        assert_ne!(sandbox.read(cassette), before.0);
    }
}

#[test]
fn what_people_wrote_into_a_cassette_survives_a_new_recording() {
    let sandbox = Sandbox::new();
    record(&sandbox, "c.json", &session(), &[]);
    let by_hand = concat!(
        "  \"labels\": {\n    \"test\": \"summarise\"\n  },\n",
        "  \"match\": {\n    \"ignore\": [\"/params/arguments/b\"]\n  },\n",
        "  \"reviewed\": {\n    \"by\": \"someone\",\n    \"n\": 1E400\n  },\n"
    );
    let edited = sandbox.read("c.json").replace("  \"messages\": [", &format!("{by_hand}  \"messages\": ["));
    sandbox.file("c.json", &edited);
    // Unchanged traffic: the edited file stays.
    record(&sandbox, "c.json", &session(), &[]);
    assert_eq!(sandbox.read("c.json"), edited);
    let mut changed = session();
    changed[3] = call(2, "add", r#"{"a":5,"b":6}"#);
    record(&sandbox, "c.json", &changed, &[]);
    let again = sandbox.read("c.json");
    assert!(again.contains(by_hand) && again.contains("\"a\": 5"), "{again}");
}

#[test]
fn a_jsonl_name_makes_a_journal_of_one_segment_or_of_several() {
    let sandbox = Sandbox::new();
    record(&sandbox, "c.jsonl", &session(), &["--session", "a"]);
    let one = sandbox.read("c.jsonl");
    let lines: Vec<&str> = one.lines().collect();
    assert!(lines[0].starts_with("{\"mcpreel\":1,\"journal\":true,"), "{one}");
    assert!(lines.last().unwrap().starts_with("{\"end\":{\"reason\":\"client_closed\""), "{one}");
    assert_eq!(lines.len(), 2 + 12);
    assert!(lines[1..13].iter().all(|line| line.starts_with("{\"at\":")), "{one}");
    // The same maker adds a second segment behind the first.
    let mut second = sandbox.user("c.jsonl", &["--session", "a", "--server", "demo"], &DEMO).start();
    second.converse(&[&initialize("{}"), &call(9, "add", r#"{"a":7,"b":8}"#)]);
    second.close(0);
    let two = sandbox.read("c.jsonl");
    assert!(two.starts_with(&one) && two.len() > one.len(), "{two}");
    assert_eq!(messages(&sandbox.path.join("c.jsonl")).len(), 16);
    let mut replay = sandbox.user("c.jsonl", &["-q", "--mode", "none", "--session", "b"], &DEMO).start();
    let got = replay.converse(&[&initialize("{}"), &call(3, "unicode", "{}")]);
    assert!(got[0].contains("serverInfo") && got[1].contains("\"result\""), "{got:?}");
    replay.close(0);
}

#[test]
fn whatever_has_a_jsonl_name_is_gone_on_with() {
    let journal = |sandbox: &Sandbox| {
        record(sandbox, "c.jsonl", &session(), &[]);
        sandbox.read("c.jsonl")
    };
    // Its last record is torn, its last line has lost its newline, or it is a document that has the word in its first line.
    let torn = |text: &str| {
        let records: Vec<&str> = text.lines().take(13).collect();
        let whole = records.join("\n");
        whole[..whole.len() - 9].to_owned()
    };
    let bare = |text: &str| text.trim_end().to_owned();
    let asked = call(1, "journal", "{}");
    let document = format!(
        r#"{{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","labels":{{"x":{{"journal":1}}}},"servers":{{"demo":{{"transport":"stdio"}}}},"messages":[{{"from":"client","payload":{asked}}},{{"from":"server","payload":{{"jsonrpc":"2.0","id":1,"result":{{}}}}}}]}}"#
    );
    for (name, count) in [("torn", 11), ("bare", 12), ("document", 2)] {
        let sandbox = Sandbox::new();
        let text = journal(&sandbox);
        let shaped = match name {
            "torn" => torn(&text),
            "bare" => bare(&text),
            _ => document.clone(),
        };
        sandbox.file("c.jsonl", shaped);
        let mut client =
            sandbox.user("c.jsonl", &["-q", "--mode", "new_episodes", "--server", "demo"], &DEMO).start();
        client.converse(&[&initialize("{}"), &call(9, "add", r#"{"a":7,"b":8}"#)]);
        client.close(0);
        let kept = messages(&sandbox.path.join("c.jsonl"));
        assert!(kept.len() > count, "{name}: {kept:?}");
        assert!(kept.last().unwrap().contains("15"), "{name}: {kept:?}");
    }
}

#[test]
fn more_than_64_mib_become_a_journal_under_the_same_name() {
    let sandbox = Sandbox::new();
    let blob = "x".repeat(2 << 20);
    let lines: Vec<String> =
        (0..17).map(|number| format!("{{\"n\":{number},\"blob\":\"{blob}\"}}\n")).collect();
    // 34 MiB each way.
    let done = sandbox.recorder("c.json", &["-q"], &["cat"]).input(lines.concat()).run().expect(0);
    assert_eq!(done.output.stdout.len(), lines.concat().len());
    let path = sandbox.path.join("c.json");
    let head = {
        use std::io::Read as _;
        let mut head = [0; 28];
        std::fs::File::open(&path).unwrap().read_exact(&mut head).unwrap();
        head
    };
    assert_eq!(&head, b"{\"mcpreel\":1,\"journal\":true,");
    let kept = messages(&path);
    assert_eq!(kept.len(), 34);
    for side in ["c", "s"] {
        let own = kept.iter().filter(|line| line.starts_with(side)).map(|line| &line[2..]);
        assert!(own.eq(lines.iter().map(|line| line.trim_end())), "{side}");
    }
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

#[test]
fn what_several_recorders_redacted_adds_up() {
    for cassette in ["c.json", "c.jsonl"] {
        let sandbox = Sandbox::new();
        let say = |rule: &str, lines: &[&str]| {
            let mut client = sandbox
                .recorder(cassette, &["-q", "--session", "a", "--redact", rule, "--server", "s"], &["cat"])
                .start();
            for line in lines {
                client.ask(line);
            }
            client.close(0);
        };
        // Each line is counted twice: it comes back.
        say("pin", &["{\"password\":\"one\",\"pin\":\"1234\"}"]);
        say("code", &["{\"password\":\"two\"}", "{\"password\":\"three\",\"code\":\"5678\"}"]);
        let kept = mcpreel::cassette::Cassette::read(&sandbox.path.join(cassette)).unwrap();
        let manifest: serde_json::Value = serde_json::from_str(&kept.head.redaction.unwrap()).unwrap();
        let count = |name: &str| {
            let counts = manifest["counts"].as_object().unwrap();
            counts
                .iter()
                .filter(|(rule, _)| rule.contains(name))
                .map(|(_, count)| count.as_u64().unwrap())
                .sum::<u64>()
        };
        assert_eq!((count("password"), count("pin"), count("code")), (6, 2, 2), "{manifest}");
        let rules = manifest["rules"].to_string();
        assert!(rules.contains("pin") && rules.contains("code"), "{rules}");
    }
}
