//! Batches, which only 2025-03-26 has: several messages in one array.

use crate::support::Sandbox;
use crate::support::replay::{
    answered, c, call, call_with_progress, cancelled, handshake, notification, progress, request, result, s,
    said,
};

fn batch(messages: &[String]) -> String {
    format!("[{}]", messages.join(","))
}

#[test]
fn a_live_batch_is_answered_by_one() {
    let sandbox = Sandbox::new();
    let records = [answered("1", "a", "{}", "a"), answered("2", "b", "{}", "b")].concat();
    let mut client = sandbox.play(&records, &[]);
    let live =
        [call("7", "b", "{}"), notification("x", "{}"), call("\"8\"", "a", "{}"), request("9", "ping", "{}")];
    client.expect(&batch(&live), &batch(&[said("7", "b"), said("\"8\"", "a"), result("9", "{}")]));
    // Nothing in it wants an answer.
    client.send(&batch(&[notification("x", "{}"), notification("y", "{}")]));
    client.nothing_comes();
    client.close(0);
}

#[test]
fn an_array_that_is_no_batch_is_an_invalid_request() {
    let sandbox = Sandbox::new();
    let invalid =
        |why: &str| format!(r#"{{"jsonrpc":"2.0","id":null,"error":{{"code":-32600,"message":"{why}"}}}}"#);
    let empty = invalid("a batch must hold messages, and at least one");
    let element = invalid("this is no message");
    let records = |version: &str| {
        let mut records = handshake();
        records[1] = records[1].replace("2025-11-25", version);
        records.extend(answered("1", "a", "{}", "a"));
        records
    };
    let mut client = sandbox.play(&records("2025-03-26"), &[]);
    client.greet("{}");
    client.expect("[]", &empty);
    client.expect(" [ ] ", &empty);
    // Each element that is no message has an answer of its own, as JSON-RPC says.
    client.expect("[1]", &batch(std::slice::from_ref(&element)));
    client.expect(
        &batch(&["1".to_owned(), call("7", "a", "{}"), "[]".to_owned()]),
        &batch(&[element.clone(), said("7", "a"), element.clone()]),
    );
    let ended = client.close(0);
    for told in [
        "the client sent an array with no message in it",
        "the client sent an array with something in it that is no message",
    ] {
        assert_eq!(ended.stderr.matches(told).count(), 1, "{}", ended.stderr);
    }
    // Revisions without batches have no words for an array: it is noise.
    let mut client = sandbox.play(&records("2025-06-18"), &[]);
    client.greet("{}");
    client.send("[]");
    client.send("[1]");
    client.expect(&call("7", "a", "{}"), &said("7", "a"));
    assert_eq!(
        client.close(0).stderr,
        "mcpreel: the client sent a line that is no message; it gets no answer\n"
    );
}

#[test]
fn a_recorded_batch_is_played_element_by_element() {
    let sandbox = Sandbox::new();
    let records = [
        c(batch(&[call("1", "a", "{}"), notification("x", "{}"), call_with_progress("2", "b", "5")])),
        s(progress("5", 1)),
        s(batch(&[said("2", "b"), said("1", "a")])),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.expect(&call("7", "a", "{}"), &said("7", "a"));
    client.send(&call_with_progress("8", "b", "\"t\""));
    client.gets(&[progress("\"t\"", 1), said("8", "b")]);
    client.close(0);
    let mut client = sandbox.play(&records, &[]);
    client.send(&batch(&[call("7", "a", "{}"), call("8", "b", "{}")]));
    assert_eq!(client.next(), batch(&[said("7", "a"), said("8", "b")]));
    client.close(0);
}

#[test]
fn misses_and_lost_answers_stand_in_the_batch() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&answered("1", "a", "{}", "a"), &[]);
    let answer = client.ask(&batch(&[call("1", "unknown", "{}"), call("2", "a", "{}")]));
    assert!(answer.starts_with(r#"[{"jsonrpc":"2.0","id":1,"error":{"code":-31001,"#), "{answer}");
    assert!(answer.ends_with(&format!(",{}]", said("2", "a"))), "{answer}");
    client.close(3);
}

#[test]
fn a_question_does_not_wait_for_the_batch() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([
        c(call("1", "asks", "{}")),
        s(request("0", "roots/list", "{}")),
        c(result("0", r#"{"roots":[]}"#)),
        s(said("1", "asked")),
    ]);
    records.extend(answered("2", "a", "{}", "a"));
    let mut client = sandbox.play(&records, &[]);
    client.greet(r#"{"roots":{}}"#);
    client
        .expect(&batch(&[call("1", "asks", "{}"), call("2", "a", "{}")]), &request("0", "roots/list", "{}"));
    client.nothing_comes();
    // The client's answers may come in a batch as well.
    client.expect(&batch(&[result("0", r#"{"roots":[]}"#)]), &batch(&[said("2", "a"), said("1", "asked")]));
    client.close(0);
}

#[test]
fn a_cancelled_call_keeps_no_batch_waiting() {
    let sandbox = Sandbox::new();
    let mut records = vec![c(call("1", "slow", "{}")), c(cancelled("1"))];
    records.extend(answered("2", "a", "{}", "a"));
    let mut client = sandbox.play(&records, &[]);
    client.send(&batch(&[call("7", "slow", "{}"), call("8", "a", "{}")]));
    client.nothing_comes();
    client.expect(&cancelled("7"), &batch(&[said("8", "a")]));
    client.close(0);
}
