//! Ids that were used twice or are spelt in two ways: what a replay does about them, and that it says so.

use serde_json::Value;

use crate::support::Sandbox;
use crate::support::replay::{answered, c, call, error, handshake, notification, request, result, s, said};

/// The warnings of the last row.
fn warnings(sandbox: &Sandbox) -> Vec<String> {
    let text = sandbox.read("r.jsonl");
    let row: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    row["warnings"].as_array().unwrap().iter().map(|it| it.as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_a_recording_pairs_otherwise_than_it_came_is_told() {
    let second = |message: &str| {
        format!(
            "message {message} of the recording: no open request is answered; a second answer, or one to an unknown id, is not replayed"
        )
    };
    let in_use = |message: &str| {
        format!(
            "message {message} of the recording: the id of the request was in use; requests with equal ids get their answers in recorded order"
        )
    };
    let a = || answered("1", "a", "{}", "a").to_vec();
    let b = || answered("1", "b", "{}", "b").to_vec();
    for (more, notes) in [
        // An id may be used again once it was answered.
        ([a(), b()].concat(), vec![]),
        ([a(), vec![s(said("1", "again"))], b()].concat(), vec![second("5")]),
        (
            [a(), vec![s(said("1", "again")), s(error("1", -1, "and again"))], b()].concat(),
            vec![second("5 and 1 more")],
        ),
        ([a(), vec![s(said("77", "unasked"))], b()].concat(), vec![second("5")]),
        // What was no message has no id.
        ([a(), vec![s(error("null", -32700, "Parse error"))], b()].concat(), vec![]),
        // The client's pings are not part of it.
        ([a(), vec![c(request("1", "ping", "{}")), s(result("1", "{}"))], b()].concat(), vec![]),
        (
            vec![c(call("1", "a", "{}")), c(call("1", "b", "{}")), s(said("1", "a")), s(said("1", "b"))],
            vec![in_use("4")],
        ),
        (
            vec![
                c(call("1", "a", "{}")),
                c(call("1", "b", "{}")),
                s(said("1", "a")),
                s(said("1", "b")),
                s(said("1", "c")),
            ],
            vec![second("7"), in_use("4")],
        ),
        // The other direction has ids of its own.
        (
            vec![
                c(call("0", "a", "{}")),
                s(request("0", "roots/list", "{}")),
                c(result("0", r#"{"roots":[]}"#)),
                s(said("0", "a")),
                c(call("0", "b", "{}")),
                s(said("0", "b")),
            ],
            vec![],
        ),
    ] {
        let sandbox = Sandbox::new();
        let records = [handshake(), more].concat();
        let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
        client.greet("{}");
        client.expect(&call("5", "b", "{}"), &said("5", "b"));
        client.expect(&call("6", "a", "{}"), &said("6", "a"));
        let ended = client.close(0);
        let told: Vec<&str> = ended.stderr.lines().filter(|line| !line.contains("was not sent")).collect();
        let expected: Vec<String> = notes.iter().map(|note| format!("mcpreel: {note}")).collect();
        assert_eq!(told, expected, "{records:?}");
        let kept = warnings(&sandbox);
        assert!(notes.iter().all(|note| kept.contains(note)), "{kept:?}");
    }
}

#[test]
fn a_client_that_uses_an_id_twice_is_told() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([
        c(call("1", "asks", "{}")),
        s(request("0", "roots/list", "{}")),
        c(result("0", r#"{"roots":[]}"#)),
        s(said("1", "asked")),
    ]);
    records.extend(answered("2", "t", "{}", "x"));
    let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
    client.greet(r#"{"roots":{}}"#);
    // The first one waits for the client.
    assert_eq!(client.ask(&call("7", "asks", "{}")), request("0", "roots/list", "{}"));
    client.expect(&call("7", "t", "{}"), &said("7", "x"));
    client.expect(&result("0", r#"{"roots":[]}"#), &said("7", "asked"));
    // The question has its answer.
    client.send(&result("0", r#"{"roots":[]}"#));
    client.nothing_comes();
    // Once answered, an id is free again.
    client.ask(&request("7", "tools/list", "{}"));
    let notes = [
        "the client asked with id 7 while another request of that id was open: both are answered, and a cancellation is taken for the later one",
        "the client answered id 0, and no question of the server has it open",
    ];
    assert_eq!(
        client.close(3).stderr.lines().take(2).collect::<Vec<_>>(),
        notes.map(|note| format!("mcpreel: {note}"))
    );
    assert_eq!(warnings(&sandbox), notes);
}

/// Servers answer with what their JSON library made of the id.
#[test]
fn a_recorded_answer_that_spells_the_id_otherwise_is_the_answer() {
    for (asked, answered) in [("1.0", "1"), ("1e1", "10"), ("10", "10.0"), (r#""\u0061""#, r#""a""#)] {
        let token = |token: &str| format!(r#"{{"progressToken":{token},"progress":1}}"#);
        let with_token = |id: &str, token: &str| {
            request(id, "tools/call", &format!(r#"{{"name":"a","_meta":{{"progressToken":{token}}}}}"#))
        };
        let sandbox = Sandbox::new();
        let records = [
            handshake(),
            vec![
                c(with_token(asked, asked)),
                s(notification("progress", &token(answered))),
                s(said(answered, "yes")),
            ],
        ]
        .concat();
        let mut client = sandbox.play(&records, &[]);
        client.greet("{}");
        client.send(&with_token("7", "70"));
        assert_eq!(client.next(), notification("progress", &token("70")), "{asked}");
        assert_eq!(client.next(), said("7", "yes"), "{asked}");
        assert_eq!(client.close(0).stderr, "", "{asked}");
    }
}
