//! Each type of fault on standard output, byte for byte.

use std::time::{Duration, Instant};

use crate::support::replay::{
    answered, c, call, call_with_progress, cancelled, error, fault_on, handshake, progress, request, result,
    s, said,
};
use crate::support::{Client, PONG, Sandbox};

/// Tools `a`, `b` and `c` that say their names, and `steps` with progress before its answer.
fn records() -> Vec<String> {
    let mut records = handshake();
    for (id, name) in [("1", "a"), ("2", "b"), ("3", "c")] {
        records.extend(answered(id, name, "{}", name));
    }
    records.extend([
        c(call_with_progress("4", "steps", "9")),
        s(progress("9", 1)),
        s(progress("9", 2)),
        s(said("4", "stepped")),
    ]);
    records
}

/// A replay with these faults to a client that has shaken hands.
#[track_caller]
fn playing(sandbox: &Sandbox, faults: &[String]) -> Client {
    sandbox.faults(faults);
    let mut client = sandbox.play(&records(), &["--faults", "f.json", "--require-faults"]);
    client.greet("{}");
    client
}

/// What a call of `a` and one of `b` get, `a` having this fault.
#[track_caller]
fn one(kind: &str, params: &str, expected: &[String]) {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", kind, params)]);
    client.send(&call("5", "a", "{}"));
    client.gets(expected);
    client.expect(&call("6", "b", "{}"), &said("6", "b"));
    client.close(0);
}

#[test]
fn answers_that_are_replaced() {
    one("error", "{}", &[error("5", -32603, "mcpreel injected error")]);
    one("error", r#"{"code":-32000,"message":"no"}"#, &[error("5", -32000, "no")]);
    let data = r#"{"jsonrpc":"2.0","id":5,"error":{"code":7,"message":"x","data":{"a":[1]}}}"#;
    one("error", r#"{"code":7,"message":"x","data":{ "a": [1] }}"#, &[data.to_owned()]);
    let whole = said("5", "a");
    one("malformed", "{}", &[whole[..whole.len() / 2].to_owned()]);
    one("malformed", r#"{"strategy":"truncate"}"#, &[whole[..whole.len() / 2].to_owned()]);
    one("malformed", r#"{"strategy":"not_json"}"#, &["mcpreel: this line is not JSON".to_owned()]);
    one("malformed", r#"{"strategy":"wrong_id"}"#, &[said("\"mcpreel-unknown-id\"", "a")]);
    one("duplicate", "{}", &[said("5", "a"), said("5", "a")]);
}

#[test]
fn a_truncated_line_ends_before_a_character() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    let text = "\u{e9}".repeat(60);
    records.extend(answered("1", "a", "{}", &text));
    sandbox.faults(&[fault_on("a", "malformed", "{}")]);
    let mut client = sandbox.play(&records, &["--faults", "f.json"]);
    client.greet("{}");
    let (got, whole) = (client.ask(&call("5", "a", "{}")), said("5", &text));
    assert!(whole.starts_with(&got) && got.len().abs_diff(whole.len() / 2) <= 1, "{got}");
    client.close(0);
}

#[test]
fn inner_messages_of_an_exchange_stay() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("steps", "error", "{}")]);
    client.send(&call_with_progress("5", "steps", "1"));
    client.gets(&[progress("1", 1), progress("1", 2), error("5", -32603, "mcpreel injected error")]);
    client.close(0);
}

#[test]
fn a_delay_holds_up_nobody_else() {
    let sandbox = Sandbox::new();
    let mut client = playing(
        &sandbox,
        &[fault_on("a", "delay", r#"{"ms":150}"#), fault_on("c", "delay", r#"{"ms":150}"#)],
    );
    let begun = Instant::now();
    client.send(&call("5", "a", "{}"));
    client.send(&call("6", "c", "{}"));
    client.expect(&call("7", "b", "{}"), &said("7", "b"));
    client.gets(&[said("5", "a"), said("6", "c")]);
    assert!(begun.elapsed() >= Duration::from_millis(150));
    client.close(0);
}

#[test]
fn a_delay_is_not_waited_for_when_the_client_says_no_more() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", "delay", r#"{"ms":3600000}"#)]);
    client.send(&call("5", "a", "{}"));
    client.nothing_comes();
    assert_eq!(client.close(0).rest, [said("5", "a")]);
}

#[test]
fn a_delay_ends_when_the_client_cancels() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", "delay", r#"{"ms":3600000}"#)]);
    client.send(&call("5", "a", "{}"));
    client.send(&cancelled("5"));
    client.nothing_comes();
    assert!(client.close(0).rest.is_empty());
}

#[test]
fn a_timeout_is_silence() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("steps", "timeout", "{}")]);
    client.send(&call_with_progress("5", "steps", "1"));
    client.expect(&call("6", "b", "{}"), &said("6", "b"));
    client.send(&cancelled("5"));
    client.nothing_comes();
    assert!(client.close(0).rest.is_empty());
}

#[test]
fn an_answer_that_a_fault_kept_comes_when_it_is_asked_for_again() {
    for (kind, params, lines) in [
        ("error", "{}", 1),
        ("timeout", "{}", 0),
        ("malformed", r#"{"strategy":"wrong_id"}"#, 1),
        ("malformed", "{}", 1),
    ] {
        for ordering in ["per-key", "strict"] {
            let sandbox = Sandbox::new();
            let fault = fault_on("a", kind, params).replace("\"name\":\"a\"", "\"name\":\"a\",\"nth\":1");
            sandbox.faults(&[fault]);
            let options = ["--faults", "f.json", "--ordering", ordering, "--require-all-used"];
            let mut client = sandbox.play(&records()[..5], &options);
            client.greet("{}");
            client.send(&call("5", "a", "{}"));
            (0..lines).for_each(|_| drop(client.next()));
            client.expect(&call("6", "a", "{}"), &said("6", "a"));
            client.fails(&call("7", "a", "{}"), -31001);
            client.close(3);
        }
    }
}

#[test]
fn who_does_not_ask_again_goes_on() {
    let sandbox = Sandbox::new();
    sandbox.faults(&[fault_on("a", "error", "{}")]);
    let options = ["--faults", "f.json", "--ordering", "strict", "--require-all-used"];
    let mut client = sandbox.play(&records()[..7], &options);
    client.greet("{}");
    client.fails(&call("5", "a", "{}"), -32603);
    client.expect(&call("6", "b", "{}"), &said("6", "b"));
    client.close(0);
}

#[test]
fn a_late_answer_waits_until_the_client_gives_up() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", "late", "{}")]);
    client.send(&call("5", "a", "{}"));
    client.nothing_comes();
    client.send(&cancelled("5"));
    client.gets(&[said("5", "a")]);
    client.nothing_comes();
    client.close(0);
    // Who says no more has given up as well.
    let mut client = playing(&sandbox, &[fault_on("a", "late", "{}")]);
    client.send(&call("5", "a", "{}"));
    client.nothing_comes();
    assert_eq!(client.close(0).rest, [said("5", "a")]);
}

#[test]
fn a_reordered_answer_follows_the_next_one() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", "reorder", r#"{"within_ms":3600000}"#)]);
    client.send(&call("5", "a", "{}"));
    client.send(&call("6", "b", "{}"));
    client.gets(&[said("6", "b"), said("5", "a")]);
    client.close(0);
    // Two of them change places with each other.
    let sandbox = Sandbox::new();
    let fault = r#"{"target":{"method":"tools/call"},"type":"reorder","params":{"within_ms":3600000}}"#;
    let mut client = playing(&sandbox, &[fault.to_owned()]);
    client.send(&call("5", "a", "{}"));
    client.send(&call("6", "b", "{}"));
    client.gets(&[said("6", "b"), said("5", "a")]);
    client.close(0);
}

#[test]
fn what_nobody_overtakes_comes_all_the_same() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", "reorder", r#"{"within_ms":20}"#)]);
    client.expect(&call("5", "a", "{}"), &said("5", "a"));
    let ended = client.close(3);
    assert!(ended.stderr.contains("fault 0 (reorder on "), "{}", ended.stderr);
}

#[test]
fn a_line_that_drips() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", "drip", r#"{"bytes_per_second":400}"#)]);
    let begun = Instant::now();
    client.send(&call("5", "a", "{}"));
    // A pipe is in order: the next line waits for the end of this one.
    client.send(&call("6", "b", "{}"));
    client.gets(&[said("5", "a"), said("6", "b")]);
    let least = (said("5", "a").len() as u64 + 1) * 1000 / 400;
    assert!(begun.elapsed() >= Duration::from_millis(least), "{:?}", begun.elapsed());
    client.close(0);
}

#[test]
fn a_drip_ends_when_the_client_cancels() {
    let sandbox = Sandbox::new();
    let rate = r#"{"bytes_per_second":1}"#;
    let mut client = playing(&sandbox, &[fault_on("a", "drip", rate), fault_on("b", "drip", rate)]);
    client.send(&call("5", "a", "{}"));
    client.send(&call("6", "b", "{}"));
    client.send(&call("7", "c", "{}"));
    client.send(&cancelled("6"));
    client.send(&cancelled("5"));
    client.gets(&[said("5", "a"), said("6", "b"), said("7", "c")]);
    client.close(0);
}

#[test]
fn a_drip_is_not_waited_for_when_the_client_says_no_more() {
    let sandbox = Sandbox::new();
    let mut client = playing(&sandbox, &[fault_on("a", "drip", r#"{"bytes_per_second":1}"#)]);
    client.send(&call("5", "a", "{}"));
    client.send(&call("6", "b", "{}"));
    assert_eq!(client.close(0).rest, [said("5", "a"), said("6", "b")]);
}

#[test]
fn a_disconnect_is_the_end_of_output() {
    for (after, lines) in [("false", &[][..]), ("true", &[said("5", "a")][..])] {
        let sandbox = Sandbox::new();
        let params = format!(r#"{{"after_response":{after}}}"#);
        let mut client = playing(&sandbox, &[fault_on("a", "disconnect", &params)]);
        client.send(&call("5", "a", "{}"));
        client.send(&call("6", "b", "{}"));
        client.gets(lines);
        client.expect_end();
        client.end(0);
    }
}

#[test]
fn an_exit_has_its_status() {
    for (params, status, lines) in [
        ("{}", 1, &[][..]),
        (r#"{"code":0}"#, 0, &[][..]),
        (r#"{"code":42,"after_response":true}"#, 42, &[said("5", "a")][..]),
    ] {
        let sandbox = Sandbox::new();
        let mut client = playing(&sandbox, &[fault_on("a", "exit", params)]);
        client.send(&call("5", "a", "{}"));
        client.gets(lines);
        client.expect_end();
        client.end(status);
    }
}

#[test]
fn noise_on_standard_error_is_as_it_was_given() {
    let sandbox = Sandbox::new();
    let params = r#"{"text":"Debugger listening on ws://127.0.0.1:9229\nnpm warn","repeat":2}"#;
    let mut client = playing(&sandbox, &[fault_on("a", "stderr_noise", params)]);
    client.expect(&call("5", "a", "{}"), &said("5", "a"));
    let ended = client.close(0);
    assert_eq!(ended.stderr, "Debugger listening on ws://127.0.0.1:9229\nnpm warn\n".repeat(2));
}

#[test]
fn noise_that_nobody_reads_stops_nothing() {
    let sandbox = Sandbox::new();
    let params = format!(r#"{{"text":"{}","repeat":2000}}"#, "x".repeat(500));
    let mut client = playing(&sandbox, &[fault_on("a", "stderr_noise", &params)]);
    client.expect(&call("5", "a", "{}"), &said("5", "a"));
    client.expect(&call("6", "b", "{}"), &said("6", "b"));
    client.close(0);
}

#[test]
fn several_faults_on_one_call() {
    let sandbox = Sandbox::new();
    let faults = [
        fault_on("a", "stderr_noise", "{}"),
        fault_on("a", "delay", r#"{"ms":40}"#),
        fault_on("a", "drip", r#"{"bytes_per_second":1000}"#),
        fault_on("a", "error", r#"{"message":"slow and wrong"}"#),
    ];
    let mut client = playing(&sandbox, &faults);
    let begun = Instant::now();
    client.expect(&call("5", "a", "{}"), &error("5", -32603, "slow and wrong"));
    assert!(begun.elapsed() >= Duration::from_millis(40 + 70), "{:?}", begun.elapsed());
    assert_eq!(client.close(0).stderr, "mcpreel injected noise\n");
}

#[test]
fn an_error_also_ends_what_has_no_recorded_answer() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([c(call("1", "a", "{}")), c(cancelled("1"))]);
    sandbox.faults(&[fault_on("a", "late", "{}"), fault_on("b", "error", "{}")]);
    records.push(c(call("2", "b", "{}")));
    let mut client = sandbox.play(&records, &["--faults", "f.json"]);
    client.greet("{}");
    client.fails(&call("5", "b", "{}"), -32603);
    client.close(0);
}

#[test]
fn faults_inside_a_batch() {
    let sandbox = Sandbox::new();
    let faults = [fault_on("a", "error", "{}"), fault_on("b", "malformed", r#"{"strategy":"wrong_id"}"#)];
    let mut client = playing(&sandbox, &faults);
    let batch = format!("[{},{},{}]", call("5", "a", "{}"), call("6", "b", "{}"), call("7", "c", "{}"));
    let expected =
        [error("5", -32603, "mcpreel injected error"), said("\"mcpreel-unknown-id\"", "b"), said("7", "c")];
    client.expect(&batch, &format!("[{}]", expected.join(",")));
    client.close(0);
}

#[test]
fn b131_faults_at_a_chosen_point_and_only_there() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    for n in 2..6 {
        records.extend(answered(&n.to_string(), "x", "{}", &n.to_string()));
    }
    let at = |nth: u32, kind: &str, params: &str| {
        format!(r#"{{"target":{{"method":"tools/call","nth":{nth}}},"type":"{kind}","params":{params}}}"#)
    };
    sandbox.faults(&[
        at(2, "delay", r#"{"ms":100}"#),
        at(3, "timeout", "{}"),
        at(4, "error", r#"{"code":-32000,"message":"x"}"#),
    ]);
    for _ in 0..2 {
        let mut client = sandbox.play(&records, &["--faults", "f.json", "--require-faults"]);
        client.greet("{}");
        client.expect(&call("2", "x", "{}"), &said("2", "2"));
        let begun = Instant::now();
        client.expect(&call("3", "x", "{}"), &said("3", "3"));
        assert!(begun.elapsed() >= Duration::from_millis(100));
        client.send(&call("4", "x", "{}"));
        client.expect(&call("5", "x", "{}"), &error("5", -32000, "x"));
        assert_eq!(client.ask(r#"{"jsonrpc":"2.0","id":"still?","method":"ping"}"#), PONG);
        client.close(0);
    }
}

#[test]
fn the_greeting_is_spared_unless_it_is_named() {
    let sandbox = Sandbox::new();
    let every = r#"{"target":{},"type":"error"}"#.to_owned();
    sandbox.faults(&[every]);
    let mut client = sandbox.play(&records(), &["--faults", "f.json"]);
    assert!(client.greet("{}").contains("\"result\""));
    client.fails(&call("1", "a", "{}"), -32603);
    client.close(0);
    let named =
        r#"{"target":{"method":"initialize"},"type":"error","params":{"code":-32602,"message":"no"}}"#;
    sandbox.faults(&[named.to_owned()]);
    let mut client = sandbox.play(&records(), &["--faults", "f.json"]);
    assert_eq!(client.greet("{}"), error("0", -32602, "no"));
    client.close(0);
}

#[test]
fn repeated_answers_are_hit_as_well() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([c(request("1", "tools/list", "{}")), s(result("1", r#"{"tools":[]}"#))]);
    sandbox.faults(&[r#"{"target":{"method":"tools/list","nth":"2.."},"type":"error"}"#.to_owned()]);
    let mut client = sandbox.play(&records, &["--faults", "f.json"]);
    client.greet("{}");
    let list = |id: &str| request(id, "tools/list", "{}");
    client.expect(&list("1"), &result("1", r#"{"tools":[]}"#));
    client.fails(&list("2"), -32603);
    client.fails(&list("3"), -32603);
    client.close(0);
}
