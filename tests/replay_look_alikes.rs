//! Text of a client's own that looks like a placeholder, in messages that redaction changed: it is text, and what
//! redaction wrote beside it still equals any value.

use crate::support::recording::DEMO;
use crate::support::replay::{c, call, s, said};
use crate::support::web::Endpoint;
use crate::support::{Sandbox, initialize};

/// What redaction might have written, in every form, and did not.
const LOOK_ALIKES: [&str; 16] = [
    "REDACTED",
    "REDACTED-1",
    "REDACTED-2.1",
    "REDACTED-0ae25ee7e80b",
    "redacted-1@redacted.invalid",
    "https://redacted.invalid/1",
    "00000000-0000-4000-8000-000000000001",
    "urn:uuid:00000000-0000-4000-8000-000000000001",
    "1970-01-01T00:00:01Z",
    "1800-01-01",
    "00:00:01-00:00",
    "P0Y0M0DT0H0M1S",
    "192.0.2.7",
    "2001:db8::7",
    "<EMAIL>_0ae25ee7e80b",
    "••••1234",
];

fn json(text: &str) -> String {
    serde_json::to_string(text).unwrap()
}

/// Records calls of `echo` with these arguments, and gives the cassette.
fn recorded(sandbox: &Sandbox, calls: &[&str]) -> String {
    let mut lines = vec![initialize("{}")];
    lines
        .extend(calls.iter().enumerate().map(|(n, arguments)| call(&(n + 1).to_string(), "echo", arguments)));
    sandbox.record_demo("c.json", &lines.iter().map(String::as_str).collect::<Vec<_>>());
    sandbox.read("c.json")
}

/// Whether the cassette answers a call with these arguments, without a word.
fn is_answered(sandbox: &Sandbox, options: &[&str], arguments: &str) -> bool {
    let mut client = sandbox.serve(options);
    client.ask(&initialize("{}"));
    let answer = client.ask(&call("1", "echo", arguments));
    let is_miss = answer.contains("-31001");
    let ended = client.close(if is_miss { 3 } else { 0 });
    assert!(is_miss || ended.stderr.is_empty(), "{arguments}: {}", ended.stderr);
    !is_miss
}

#[track_caller]
fn answers(sandbox: &Sandbox, cassette: &str, rows: &[(String, bool)]) {
    for (arguments, expected) in rows {
        assert_eq!(is_answered(sandbox, &[], arguments), *expected, "{arguments}\n{cassette}");
    }
}

#[test]
fn an_argument_that_looks_like_a_placeholder_is_that_text() {
    let sandbox = Sandbox::new();
    let arguments =
        |from: &str, key: &str| format!(r#"{{"text":"t","from":{},"api_key":{key}}}"#, json(from));
    for look_alike in LOOK_ALIKES {
        let cassette = recorded(&sandbox, &[&arguments(look_alike, r#""FAKE-key-1""#)]);
        assert!(!cassette.contains("FAKE-key"), "{cassette}");
        assert!(cassette.contains("\"placeholders\": {},"), "{cassette}");
        let mut rows = vec![(format!(r#"{{"text":"t","from":{}}}"#, json(look_alike)), true)];
        rows.extend([r#""dummy""#, r#""FAKE-key-1""#, "null"].map(|key| (arguments(look_alike, key), true)));
        rows.extend(["2024-05-05", "REDACTED-3"].map(|other| (arguments(other, r#""dummy""#), false)));
        answers(&sandbox, &cassette, &rows);
    }
}

#[test]
fn it_is_text_in_prose_beside_what_redaction_wrote() {
    let sandbox = Sandbox::new();
    let said =
        |at: &str, to: &str| format!(r#"{{"text":{}}}"#, json(&format!("from {at} on, mail {to} daily")));
    for look_alike in LOOK_ALIKES {
        let cassette = recorded(&sandbox, &[&said(look_alike, "ann@corp.example")]);
        assert!(!cassette.contains("corp.example"), "{cassette}");
        let mut rows = ["ann@corp.example", "dummy", ""].map(|to| (said(look_alike, to), true)).to_vec();
        rows.extend(["2024-05-05", "REDACTED-3"].map(|at| (said(at, "dummy"), false)));
        answers(&sandbox, &cassette, &rows);
    }
}

#[test]
fn the_very_text_that_redaction_writes_elsewhere_in_the_message_is_text() {
    let sandbox = Sandbox::new();
    let own = "redacted-1@redacted.invalid";
    let said = |cc: &str, to: &str| format!(r#"{{"text":"to {to} cc {cc}","to":"{to}"}}"#);
    let cassette = recorded(&sandbox, &[&said(own, "ann@corp.example")]);
    assert!(cassette.contains(&format!("to {own} cc {own}")), "{cassette}");
    answers(
        &sandbox,
        &cassette,
        &[
            (said(own, "ann@corp.example"), true),
            (said(own, "dummy"), true),
            (said("bob@lab.example", "ann@corp.example"), false),
            (said("dummy", "dummy"), false),
        ],
    );
}

#[test]
fn it_is_text_in_json_and_forms_inside_of_texts() {
    let sandbox = Sandbox::new();
    for (inside, others) in [
        (r#"{"from":"1800-01-01","password":"SECRET","to":"MAIL"}"#, ["2024-05-05", "REDACTED-1", ""]),
        (r#"as {"from":["1800-01-01"],"password":"SECRET"} to MAIL"#, ["2024-05-05", "REDACTED-1", ""]),
        ("from=1800-01-01&password=SECRET&to=MAIL", ["2024-05-05", "REDACTED-1", "1"]),
        (r#"{"in":"{\"from\":\"1800-01-01\",\"password\":\"SECRET\"}"}"#, ["2024-05-05", "REDACTED-1", ""]),
        ("https://h.io/1800-01-01?password=SECRET&to=MAIL", ["2024-05-05", "REDACTED-1", "1"]),
    ] {
        let said = |from: &str, secret: &str, mail: &str| {
            let text = inside.replace("1800-01-01", from).replace("SECRET", secret).replace("MAIL", mail);
            format!(r#"{{"text":{}}}"#, json(&text))
        };
        let cassette = recorded(&sandbox, &[&said("1800-01-01", "FAKE-pw-1", "ann@corp.example")]);
        assert!(!cassette.contains("corp.example") && !cassette.contains("FAKE-pw"), "{cassette}");
        let mut rows = [("FAKE-pw-1", "ann@corp.example"), ("dummy", "dummy"), ("", "bob@lab.example")]
            .map(|(secret, mail)| (said("1800-01-01", secret, mail), true))
            .to_vec();
        rows.extend(others.map(|other| (said(other, "dummy", "dummy"), false)));
        answers(&sandbox, &cassette, &rows);
    }
}

#[test]
fn it_is_text_as_the_name_of_a_member() {
    let sandbox = Sandbox::new();
    for look_alike in LOOK_ALIKES {
        let named = |name: &str, key: &str| {
            format!(r#"{{"text":"t","hosts":{{{}:"up","z":"down"}},"api_key":"{key}"}}"#, json(name))
        };
        let cassette = recorded(&sandbox, &[&named(look_alike, "FAKE-key-1")]);
        assert!(cassette.contains("\"placeholders\": {},"), "{cassette}");
        let mut rows = ["FAKE-key-1", "dummy"].map(|key| (named(look_alike, key), true)).to_vec();
        rows.extend(["bob", "REDACTED-3"].map(|name| (named(name, "dummy"), false)));
        answers(&sandbox, &cassette, &rows);
        // Nor is it anything else where nothing is redacted.
        let plain = |name: &str| format!(r#"{{"text":"t","hosts":{{{}:"up","z":"down"}}}}"#, json(name));
        let cassette = recorded(&sandbox, &[&plain(look_alike), &named("x", "FAKE-key-1")]);
        let rows = [(look_alike, true), ("bob", false), ("REDACTED-3", false)];
        answers(&sandbox, &cassette, &rows.map(|(name, expected)| (plain(name), expected)));
    }
}

/// Arguments of a call with text of its own, in an argument and in prose, a key and an address.
fn booking(from: &str, key: &str, to: &str) -> String {
    format!(r#"{{"text":"{from}, to {to}","from":"{from}","api_key":"{key}"}}"#)
}

/// What of these a replay is to answer.
fn bookings() -> [(String, bool); 4] {
    [
        (booking("1800-01-01", "FAKE-key-1", "ann@corp.example"), true),
        (booking("1800-01-01", "", "dummy"), true),
        (booking("2024-05-05", "FAKE-key-1", "ann@corp.example"), false),
        (booking("1800-01-02", "dummy", "redacted-1@redacted.invalid"), false),
    ]
}

/// Records one of them.
fn recorded_booking(sandbox: &Sandbox) -> String {
    recorded(sandbox, &[&booking("1800-01-01", "FAKE-key-1", "ann@corp.example")])
}

/// What a cassette says of its placeholders.
const NOTE: &str = r#""placeholders": {
        "redacted-1@redacted.invalid": [106]
      },
"#;

#[test]
fn it_is_text_over_http() {
    let sandbox = Sandbox::new();
    let ask =
        |server: &Endpoint, arguments: &str| server.greet("{}").post(&call("1", "echo", arguments)).last();
    sandbox.record_demo_http(|server| ask(server, &bookings()[0].0));
    let cassette = sandbox.read("c.json");
    for (arguments, expected) in bookings() {
        let server = sandbox.replay_http(&[]);
        let answer = ask(&server, &arguments);
        assert_eq!(!answer.contains("-31001"), expected, "{arguments}: {answer}\n{cassette}");
        server.end(if expected { 0 } else { 3 });
    }
}

#[test]
fn it_is_text_in_every_ordering_and_with_the_best_hint() {
    let sandbox = Sandbox::new();
    recorded_booking(&sandbox);
    for ordering in ["per-key", "strict", "any"] {
        for (arguments, expected) in bookings() {
            assert_eq!(
                is_answered(&sandbox, &["--ordering", ordering], &arguments),
                expected,
                "{ordering} {arguments}"
            );
        }
    }
    let mut client = sandbox.serve(&[]);
    client.ask(&initialize("{}"));
    let miss = client.fails(&call("1", "echo", &booking("2024-05-05", "x", "dummy")), -31001);
    let place = r#"{"path":"/params/arguments/from","recorded":"1800-01-01","live":"2024-05-05"}"#;
    assert!(miss.contains(place), "{miss}");
    client.close(3);
}

#[test]
fn a_cassette_without_the_note_or_with_that_of_another_message_reads_as_before() {
    let sandbox = Sandbox::new();
    let cassette = recorded_booking(&sandbox);
    assert!(cassette.contains(NOTE), "{cassette}");
    let told = "mcpreel: message 2 of the recording: its `placeholders` do not fit its payload; \
                all that looks like a placeholder there stands for any value\n";
    for (note, expected) in [
        (String::new(), ""),
        (NOTE.replace("106", "105"), told),
        (NOTE.replace("d-1@", "d-2@"), told),
        (r#""placeholders": 7,"#.to_owned(), told),
    ] {
        sandbox.file("c.json", cassette.replace(NOTE, &note));
        for (arguments, _) in &bookings()[..3] {
            let mut client = sandbox.serve(&[]);
            client.ask(&initialize("{}"));
            let answer = client.ask(&call("1", "echo", arguments));
            assert!(!answer.contains("-31001"), "{note} {arguments}: {answer}");
            assert_eq!(client.close(0).stderr, expected, "{note}");
        }
    }
}

#[test]
fn a_fixed_text_is_told_from_the_same_text_of_the_clients() {
    let sandbox = Sandbox::new();
    let key = "FAKE-echo-4Vb6-long";
    let arguments =
        |mode: &str, key: &str| format!(r#"{{"text":"{mode} for {key}","mode":"{mode}","api_key":"{key}"}}"#);
    let mut client = sandbox.recorder("c.json", &["-q", "--redact", "api_key=none"], &DEMO).start();
    client.ask(&initialize("{}"));
    client.ask(&call("1", "echo", &arguments("none", key)));
    client.close(0);
    let cassette = sandbox.read("c.json");
    assert!(cassette.contains(r#""none for none""#), "{cassette}");
    answers(
        &sandbox,
        &cassette,
        &[
            (arguments("none", key), true),
            (arguments("none", "dummy"), true),
            (arguments("all", key), false),
            (arguments("all", "dummy"), false),
        ],
    );
}

#[test]
fn what_rewrites_a_cassette_keeps_the_note() {
    let sandbox = Sandbox::new();
    let run = |arguments: &[&str], code: i32| sandbox.mcpreel(arguments).run().expect(code).stderr();
    let cassette = recorded_booking(&sandbox);
    run(&["convert", "c.json", "-o", "c.jsonl"], 0);
    assert!(sandbox.read("c.jsonl").contains(r#""placeholders":{"redacted-1@redacted.invalid":[106]}"#));
    run(&["convert", "c.jsonl", "-o", "again.json"], 0);
    assert_eq!(sandbox.read("again.json"), cassette);
    run(&["merge", "c.json", "-o", "merged.json"], 0);
    assert!(sandbox.read("merged.json").contains(NOTE));
    // Redacting once more finds nothing, and nothing wrong with it.
    run(&["redact", "c.json", "--in-place"], 0);
    assert_eq!(sandbox.read("c.json"), cassette);
    run(&["redact", "--check", "c.json"], 0);
    // What cannot say it would answer more.
    let lost = run(&["convert", "c.json", "-o", "v3.json", "--to", "mcp-cassette"], 2);
    assert!(lost.contains("that text in a redacted message only looks like a placeholder"), "{lost}");
    // A second look with another rule takes more out; what was text stays text.
    let more = [(r#""from":"1800-01-01""#, r#""from":"1800-01-01","badge":"b-77""#)];
    let with_badge =
        |arguments: &str| more.iter().fold(arguments.to_owned(), |text, (old, new)| text.replace(old, new));
    let badged = with_badge(&booking("1800-01-01", "FAKE-key-1", "ann@corp.example"));
    recorded(&sandbox, &[&badged]);
    run(&["redact", "c.json", "--in-place", "--redact", "badge", "--redact", "/params/arguments/none"], 0);
    let scrubbed = sandbox.read("c.json");
    assert!(!scrubbed.contains("b-77") && scrubbed.contains("\"placeholders\""), "{scrubbed}");
    let rows =
        bookings().map(|(arguments, expected)| (with_badge(&arguments).replace("b-77", "x"), expected));
    answers(&sandbox, &scrubbed, &rows);
    run(&["redact", "c.json", "--in-place"], 0);
    assert_eq!(sandbox.read("c.json"), scrubbed);
}

#[test]
fn scrubbing_a_cassette_from_before_redaction_tells_text_from_placeholders() {
    let sandbox = Sandbox::new();
    let request = call("1", "echo", &bookings()[0].0);
    let head = [c(request.replacen("\"1\"", "1", 1)), s(said("1", "booked"))];
    let records: Vec<&str> = head.iter().map(String::as_str).collect();
    sandbox.cassette("c.json", &records);
    sandbox.mcpreel(["redact", "c.json", "--in-place"]).run().expect(0);
    let cassette = sandbox.read("c.json");
    assert!(cassette.contains("\"placeholders\"") && !cassette.contains("corp.example"), "{cassette}");
    for (arguments, expected) in bookings() {
        let mut client = sandbox.serve(&[]);
        let answer = client.ask(&call("1", "echo", &arguments));
        assert_eq!(answer.contains("booked"), expected, "{arguments}: {answer}\n{cassette}");
        client.close(if expected { 0 } else { 3 });
    }
}

#[test]
fn recording_again_adds_the_note_once() {
    let sandbox = Sandbox::new();
    let cassette = recorded_booking(&sandbox);
    let bare = cassette.replace(NOTE, "");
    sandbox.file("c.json", &bare);
    let again = recorded_booking(&sandbox);
    assert!(again.contains(NOTE), "{again}");
    assert_eq!(recorded_booking(&sandbox), again);
}

#[test]
fn what_is_appended_has_the_note() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &[r#"{"text":"first"}"#]);
    let said = |at: &str, to: &str| format!(r#"{{"text":"at {at} to {to}"}}"#);
    let mut client =
        sandbox.user("c.json", &["-q", "--mode", "new_episodes", "--server", "demo"], &DEMO).start();
    client.ask(&initialize("{}"));
    client.ask(&call("1", "echo", &said("1800-01-01", "ann@corp.example")));
    client.close(0);
    let cassette = sandbox.read("c.json");
    assert!(cassette.contains("\"origin\": \"live\""), "{cassette}");
    let rows = [("1800-01-01", "dummy", true), ("1800-01-01", "", true), ("2024-05-05", "dummy", false)];
    answers(&sandbox, &cassette, &rows.map(|(at, to, expected)| (said(at, to), expected)));
}

#[test]
fn a_batch_has_one_note_for_all_of_its_messages() {
    let sandbox = Sandbox::new();
    let [own, other] =
        ["1800-01-01", "1800-01-02"].map(|from| booking(from, "FAKE-key-1", "ann@corp.example"));
    let requests = format!("[{},{}]", call("1", "echo", &own), call("2", "echo", &other));
    sandbox.cassette("c.json", &[&c(requests), &s(said("1", "one")), &s(said("2", "two"))]);
    sandbox.mcpreel(["redact", "c.json", "--in-place"]).run().expect(0);
    let cassette = sandbox.read("c.json");
    assert_eq!(cassette.matches("\"placeholders\"").count(), 1, "{cassette}");
    for (from, expected) in [("1800-01-01", "one"), ("1800-01-02", "two"), ("2024-05-05", "-31001")] {
        let mut client = sandbox.serve(&[]);
        let answer = client.ask(&call("7", "echo", &booking(from, "x", "dummy")));
        assert!(answer.contains(expected), "{from}: {answer}\n{cassette}");
        client.close(if expected == "-31001" { 3 } else { 0 });
    }
}

#[test]
fn it_is_text_in_a_message_that_nothing_was_taken_out_of() {
    let sandbox = Sandbox::new();
    let said = |to: &str| format!(r#"{{"text":"mail {to} daily"}}"#);
    let cassette =
        recorded(&sandbox, &[&said("redacted-1@redacted.invalid"), r#"{"text":"ann@corp.example"}"#]);
    assert!(!cassette.contains("\"placeholders\""), "{cassette}");
    let rows = [("redacted-1@redacted.invalid", true), ("bob@lab.example", false), ("dummy", false)];
    answers(&sandbox, &cassette, &rows.map(|(to, expected)| (said(to), expected)));
}
