//! Ids that were used twice or are spelt in two ways: what a replay does about them, and that it says so.

use serde_json::Value;

use crate::support::http::Wire;
use crate::support::replay::{
    answered, c, call, cancelled, error, handshake, notification, request, result, s, said,
};
use crate::support::web::{self, Record, Stream};
use crate::support::{Sandbox, initialize};

/// Clients of a server that issued no sessions: a call that was cancelled, and one that asks.
fn without_sessions() -> Vec<Record> {
    let welcome = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"demo","version":"1"}}"#;
    vec![
        web::c(1, initialize("{}")),
        web::s(1, result("0", welcome)).status(200),
        web::c(2, call("1", "slow", "{}")),
        web::s(2, notification("begun", "{}")).sse(),
        web::c(3, cancelled("1")),
        web::bare(3).http(r#"{"status":202}"#),
        web::c(4, call("2", "asks", "{}")),
        web::s(4, request("0", "roots/list", "{}")).sse(),
        web::c(5, result("0", r#"{"roots":[]}"#)),
        web::bare(5).http(r#"{"status":202}"#),
        web::s(4, said("2", "asked")).sse(),
    ]
}

#[test]
fn a_cancellation_without_sessions_takes_no_answer_from_another_client() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&without_sessions(), &["--repeat", "last"]);
    let client = server.greet(r#"{"roots":{}}"#);
    // Both clients count from 1, and the one that is cancelled is not the latest.
    let body = call("1", "slow", "{}");
    let mut slow = Wire::to(server.host.parse().unwrap());
    slow.write(format!(
        "POST /mcp HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        server.host,
        body.len()
    ));
    let ask = |stream: &mut Stream| {
        let question = stream.next().unwrap();
        serde_json::from_str::<Value>(&question).unwrap()["id"].to_string()
    };
    slow.until("notifications/begun");
    let mut asks = client.stream(&call("1", "asks", "{}"));
    let question = ask(&mut asks);
    client.post(&cancelled("1")).expect(202);
    slow.until("0\r\n\r\n");
    client.post(&result(&question, r#"{"roots":[]}"#)).expect(202);
    assert_eq!(asks.next().as_deref(), Some(&*said("1", "asked")));
    // Neither of these was cancelled when it was recorded.
    let mut both = [client.stream(&call("1", "asks", "{}")), client.stream(&call("1", "asks", "{}"))];
    let questions: Vec<String> = both.iter_mut().map(ask).collect();
    client.post(&cancelled("1")).expect(202);
    for question in &questions {
        client.post(&result(question, r#"{"roots":[]}"#)).expect(202);
    }
    for stream in &mut both {
        assert_eq!(stream.next().as_deref(), Some(&*said("1", "asked")));
    }
    let told = "mcpreel: a cancellation names an id that several clients have open, none of them as it was recorded: nothing was cancelled\n";
    let ended = server.end(0);
    assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
}

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
