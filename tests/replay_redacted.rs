//! Matching where the cassette holds placeholders: the same rules run on the live request.

use crate::support::replay::{INITIALIZED, answered, c, call, request, result, s, said};
use crate::support::{Sandbox, initialize};

const RULES: &str = r#""redaction":{"rules":["key:*token*","key:*password*","key:*secret*"]},"#;

fn login(id: &str, token: &str) -> String {
    call(id, "login", &format!(r#"{{"token":"{token}"}}"#))
}

#[test]
fn a_time_that_means_none_is_no_placeholder() {
    let sandbox = Sandbox::new();
    let arguments = |token: &str, since: &str| format!(r#"{{"token":"{token}","since":"{since}"}}"#);
    let lines = [
        initialize("{}"),
        INITIALIZED.to_owned(),
        call("1", "echo", &arguments("s3cr3t-one", "1970-01-01T00:00:00Z")),
    ];
    sandbox.record_demo("c.json", &lines.iter().map(String::as_str).collect::<Vec<_>>());
    for (since, code) in [("1970-01-01T00:00:00Z", 0), ("2026-01-01T00:00:00Z", 3)] {
        let mut client = sandbox.serve(&[]);
        client.converse(&[&lines[0], &lines[1], &call("1", "echo", &arguments("another", since))]);
        client.close(code);
    }
}

#[test]
fn a_redacted_value_equals_any_string_an_empty_one_and_none() {
    for live in [
        r#"{"user":"ann","token":"the real one"}"#,
        r#"{"user":"ann","token":"dummy"}"#,
        r#"{"user":"ann","token":""}"#,
        r#"{"user":"ann","token":null}"#,
        r#"{"user":"ann","token":"REDACTED-1"}"#,
        r#"{"user":"ann"}"#,
    ] {
        let sandbox = Sandbox::new();
        sandbox.tape_with(RULES, &answered("1", "t", r#"{"user":"ann","token":"REDACTED-1"}"#, "x"));
        let mut client = sandbox.serve(&[]);
        client.expect(&call("2", "t", live), &said("2", "x"));
        assert_eq!(client.close(0).stderr, "", "{live}");
    }
}

#[test]
fn what_a_layout_names_is_matched_whatever_stands_there() {
    let texts = |value: &str| {
        [
            format!("<login><user>ann</user><password>{value}</password></login>"),
            format!(r#"<add key="password" value="{value}"/>"#),
            format!("| user | ann |\n| password | {value} |"),
            format!("NAME       VALUE\nPASSWORD   {value}\nUSER       ann"),
            format!("machine h.example\n  login ann\n  password {value}\n"),
            format!("user: ann\npassword: |\n  {value}\nport: 1"),
            format!("'user' => 'ann', 'password' => '{value}'"),
            format!("password = \"\"\"\n{value}\n\"\"\"\nuser = ann"),
        ]
    };
    let lines = |value: &str| -> Vec<String> {
        let call = |(at, text): (usize, &String)| {
            call(&at.to_string(), "echo", &serde_json::json!({"text": text}).to_string())
        };
        let calls = texts(value);
        let calls = calls.iter().enumerate().map(|(at, text)| call((at + 1, text)));
        [initialize("{}"), INITIALIZED.to_owned()].into_iter().chain(calls).collect()
    };
    let sandbox = Sandbox::new();
    let real = lines("FAKE-real-7Kq");
    sandbox.record_demo("c.json", &real.iter().map(String::as_str).collect::<Vec<_>>());
    let cassette = sandbox.read("c.json");
    assert!(!cassette.contains("FAKE-real-7Kq"), "{cassette}");
    for live in ["FAKE-real-7Kq", "another", "REDACTED-1"] {
        let live = lines(live);
        let mut client = sandbox.serve(&[]);
        client.converse(&live.iter().map(String::as_str).collect::<Vec<_>>());
        client.close(0);
    }
    // What is not the value still counts.
    let mut client = sandbox.serve(&[]);
    client.converse(&[&real[0], &real[1]]);
    client.fails(&real[2].replace("ann", "bob"), -31001);
    client.close(3);
}

#[test]
fn what_is_not_redacted_still_counts_and_no_secret_is_shown() {
    let sandbox = Sandbox::new();
    sandbox.tape_with(RULES, &answered("1", "t", r#"{"user":"ann","token":"REDACTED-1"}"#, "x"));
    for live in [r#"{"user":"bob","token":"hunter2"}"#, r#"{"user":"bob"}"#] {
        let mut client = sandbox.serve(&["--report", "r.jsonl"]);
        let miss = client.fails(&call("2", "t", live), -31001);
        assert!(
            miss.contains(r#""differs":[{"path":"/params/arguments/user","recorded":"ann","live":"bob"}]"#),
            "{miss}"
        );
        let ended = client.close(3);
        assert!(!(miss + &ended.stderr + &sandbox.read("r.jsonl")).contains("hunter2"));
    }
}

#[test]
fn placeholders_agree_one_to_one_with_live_values() {
    let sandbox = Sandbox::new();
    let records = [
        answered("1", "login", r#"{"token":"REDACTED-1"}"#, "for A"),
        answered("2", "login", r#"{"token":"REDACTED-2"}"#, "for B"),
        answered("3", "login", r#"{"token":"REDACTED-1"}"#, "for A again"),
        answered("4", "login", r#"{"token":"REDACTED-2"}"#, "for B again"),
    ]
    .concat();
    sandbox.tape_with(RULES, &records);
    let mut client = sandbox.serve(&[]);
    for (token, text) in [("A", "for A"), ("B", "for B"), ("B", "for B again"), ("A", "for A again")] {
        client.expect(&login("7", token), &said("7", text));
    }
    assert_eq!(client.close(0).stderr, "");
    // Calls at once: both values are new, so the recorded order decides, and from then on they agree.
    let mut client = sandbox.serve(&[]);
    client.write(format!("{}\n{}\n{}\n", login("1", "A"), login("2", "A"), login("3", "B")).as_bytes());
    client.gets(&[said("1", "for A"), said("2", "for A again"), said("3", "for B")]);
    client.close(0);
}

#[test]
fn a_repeat_is_the_answer_for_the_same_value() {
    let get = |id: &str, token: &str| {
        request(id, "prompts/get", &format!(r#"{{"name":"p","arguments":{{"token":"{token}"}}}}"#))
    };
    let got = |id: &str, text: &str| result(id, &format!(r#"{{"description":"{text}","messages":[]}}"#));
    let records = [
        c(get("1", "REDACTED-1")),
        s(got("1", "for A")),
        c(get("2", "REDACTED-2")),
        s(got("2", "for B")),
        c(get("3", "REDACTED-1")),
        s(got("3", "for A again")),
    ];
    let sandbox = Sandbox::new();
    sandbox.tape_with(RULES, &records);
    let mut client = sandbox.serve(&[]);
    for (token, text) in [
        ("A", "for A"),
        ("B", "for B"),
        ("A", "for A again"),
        ("B", "for B"),
        ("A", "for A again"),
        ("REDACTED-2", "for B"),
    ] {
        client.expect(&get("7", token), &got("7", text));
    }
    assert_eq!(client.close(0).stderr, "");
    // Nobody's answer is as good as another's, which is told.
    let mut client = sandbox.serve(&[]);
    for (token, text) in [("A", "for A"), ("B", "for B"), ("A", "for A again"), ("C", "for A again")] {
        client.expect(&get("7", token), &got("7", text));
    }
    assert_eq!(
        client.close(0).stderr,
        "mcpreel: prompts/get \"p\": the redacted values do not agree with earlier ones; answering in recorded order\n"
    );
}

#[test]
fn one_dummy_for_two_keys_is_answered_in_recorded_order_with_a_note() {
    let sandbox = Sandbox::new();
    let records = [
        answered("1", "login", r#"{"token":"REDACTED-1"}"#, "for A"),
        answered("2", "login", r#"{"token":"REDACTED-2"}"#, "for B"),
        answered("3", "login", r#"{"token":"REDACTED-3"}"#, "for C"),
    ]
    .concat();
    sandbox.tape_with(RULES, &records);
    let mut client = sandbox.serve(&[]);
    for text in ["for A", "for B", "for C"] {
        client.expect(&login("7", "dummy"), &said("7", text));
    }
    assert_eq!(
        client.close(0).stderr,
        "mcpreel: tools/call \"login\": the redacted values do not agree with earlier ones; answering in recorded order\n"
    );
    // No key at all is no disagreement.
    let mut client = sandbox.serve(&[]);
    for text in ["for A", "for B", "for C"] {
        client.expect(&call("7", "login", "{}"), &said("7", text));
    }
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn placeholders_of_different_processes_are_different_values() {
    let sandbox = Sandbox::new();
    let login = |id: &str, value: &str| call(id, "login", &format!(r#"{{"token":"{value}"}}"#));
    // The second process met other values in another order; addresses carry no process in them.
    let records = [
        c(login("1", "192.0.2.1")),
        s(said("1", "first process")),
        "c1 ".to_owned() + &login("1", "192.0.2.1"),
        "s1 ".to_owned() + &said("1", "second process"),
    ];
    sandbox.tape_with(RULES, &records);
    let mut client = sandbox.serve(&[]);
    client.expect(&login("1", "10.0.0.1"), &said("1", "first process"));
    client.expect(&login("2", "10.0.0.2"), &said("2", "second process"));
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn a_fixed_text_stands_for_many_values() {
    let sandbox = Sandbox::new();
    let rules = r#""redaction":{"rules":["key:token=GONE"]},"#;
    let records = [
        answered("1", "login", r#"{"token":"GONE"}"#, "one"),
        answered("2", "login", r#"{"token":"GONE"}"#, "two"),
    ]
    .concat();
    sandbox.tape_with(rules, &records);
    let mut client = sandbox.serve(&[]);
    client.expect(&login("1", "A"), &said("1", "one"));
    client.expect(&login("2", "B"), &said("2", "two"));
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn what_a_user_typed_into_a_form_is_redacted_too() {
    let sandbox = Sandbox::new();
    let meta = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"elicitation":{}}}"#;
    let first = |id: &str| request(id, "tools/call", &format!(r#"{{{meta},"name":"t","arguments":{{}}}}"#));
    let retry = |id: &str, password: &str| {
        let responses =
            format!(r#"{{"q":{{"action":"accept","content":{{"user":"ann","password":"{password}"}}}}}}"#);
        request(
            id,
            "tools/call",
            &format!(
                r#"{{{meta},"name":"t","arguments":{{}},"inputResponses":{responses},"requestState":"s1"}}"#
            ),
        )
    };
    let asks = r#"{"resultType":"input_required","inputRequests":{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"s1"}"#;
    let done = r#"{"resultType":"complete","content":[]}"#;
    let records = [c(first("1")), s(result("1", asks)), c(retry("2", "REDACTED-1")), s(result("2", done))];
    sandbox.tape_with(RULES, &records);
    let mut client = sandbox.serve(&[]);
    client.expect(&first("1"), &result("1", asks));
    client.expect(&retry("2", "hunter2"), &result("2", done));
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn r117_a_recording_with_secrets_replays_with_a_dummy_and_with_none() {
    let sandbox = Sandbox::new();
    let call = |id: &str, key: &str| call(id, "echo", &format!(r#"{{"text":"hi","api_key":"{key}"}}"#));
    let start = initialize("{}");
    let one = call("1", "sk-very-secret-1");
    let two = call("2", "sk-very-secret-2");
    sandbox.record_demo("c.json", &[&start, &one, &two]);
    assert!(!sandbox.read("c.json").contains("very-secret"));
    for (a, b) in [("sk-very-secret-1", "sk-very-secret-2"), ("dummy", "other"), ("dummy", "dummy"), ("", "")]
    {
        let mut client = sandbox.serve(&[]);
        client.ask(&start);
        let answer = client.ask(&call("1", a));
        assert!(answer.contains(r#""text":"hi""#), "{answer}");
        client.ask(&call("2", b));
        client.close(0);
    }
}
