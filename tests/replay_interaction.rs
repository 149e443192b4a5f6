//! Questions of the server to the client while a call runs, in both eras, and what else happens inside an exchange.

use crate::support::replay::{
    answered, c, call, call_with_progress, cancelled, error, handshake, notification, progress, request,
    result, s, said,
};
use crate::support::{Sandbox, modern};

const SAMPLING: &str = r#"{"messages":[],"maxTokens":5}"#;
const ANSWER: &str = r#"{"role":"assistant","content":{"type":"text","text":"hello"},"model":"m"}"#;

/// A call that asks the client's model once.
fn sampled() -> Vec<String> {
    let mut records = handshake();
    records.extend([
        c(call("1", "t", "{}")),
        s(notification("message", r#"{"level":"info","data":"before"}"#)),
        s(request("0", "sampling/createMessage", SAMPLING)),
        c(result("0", ANSWER)),
        s(notification("message", r#"{"level":"info","data":"after"}"#)),
        s(said("1", "done")),
    ]);
    records
}

#[test]
fn r042_progress_carries_the_live_token_and_nothing_comes_without_one() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([
        c(call_with_progress("1", "t", "\"old\"")),
        s(progress("\"old\"", 1)),
        s(progress("\"old\"", 2)),
        s(said("1", "x")),
        s(progress("\"old\"", 3)),
    ]);
    let mut client = sandbox.play(&records, &["--repeat", "last"]);
    client.greet("{}");
    for token in ["7", "\"t\"", "0", "\"\\u00e9\"", "9007199254740993"] {
        client.send(&call_with_progress("5", "t", token));
        client.gets(&[progress(token, 1), progress(token, 2), said("5", "x")]);
        client.nothing_comes();
    }
    for live in [call("6", "t", "{}"), call_with_progress("6", "t", "null")] {
        client.expect(&live, &said("6", "x"));
        client.nothing_comes();
    }
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn r046_a_call_that_waits_keeps_nobody_else_waiting() {
    let sandbox = Sandbox::new();
    let mut records = sampled();
    records.extend([c(call("2", "quick", "{}")), s(said("2", "quick"))]);
    let mut client = sandbox.play(&records, &[]);
    client.greet(r#"{"sampling":{}}"#);
    client.send(&call("7", "t", "{}"));
    client.next();
    let question = client.next();
    client.expect(&call("8", "quick", "{}"), &said("8", "quick"));
    assert_eq!(question, request("0", "sampling/createMessage", SAMPLING));
    client.send(&result("0", ANSWER));
    client.next();
    assert_eq!(client.next(), said("7", "done"));
    client.close(0);
}

#[test]
fn r082_the_result_is_withheld_until_the_client_has_answered() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&sampled(), &[]);
    client.greet(r#"{"sampling":{}}"#);
    client.send(&call("\"x\"", "t", "{}"));
    client.gets(&[
        notification("message", r#"{"level":"info","data":"before"}"#),
        request("0", "sampling/createMessage", SAMPLING),
    ]);
    client.nothing_comes();
    client.send(&result("0", &ANSWER.replace("hello", "another text")));
    client.gets(&[notification("message", r#"{"level":"info","data":"after"}"#), said("\"x\"", "done")]);
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn r083_two_questions_may_be_answered_in_either_order() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([
        c(call("1", "t", "{}")),
        s(request("0", "sampling/createMessage", SAMPLING)),
        s(request("1", "roots/list", "{}")),
        c(result("0", ANSWER)),
        c(result("1", r#"{"roots":[]}"#)),
        s(said("1", "done")),
    ]);
    for order in [["0", "1"], ["1", "0"]] {
        let mut client = sandbox.play(&records, &[]);
        client.greet(r#"{"sampling":{},"roots":{}}"#);
        client.send(&call("1", "t", "{}"));
        client.gets(&[request("0", "sampling/createMessage", SAMPLING), request("1", "roots/list", "{}")]);
        for id in order {
            client.nothing_comes();
            client.send(&result(id, if id == "0" { ANSWER } else { r#"{"roots":[{"uri":"file:///x"}]}"# }));
        }
        assert_eq!(client.next(), said("1", "done"));
        client.close(0);
    }
}

fn elicited() -> Vec<String> {
    let mut records = handshake();
    records.extend([
        c(call("1", "t", "{}")),
        s(request(
            "0",
            "elicitation/create",
            r#"{"message":"?","requestedSchema":{"type":"object","properties":{}}}"#,
        )),
        c(result("0", r#"{"action":"accept","content":{"a":1}}"#)),
        s(said("1", "done")),
    ]);
    records
}

#[test]
fn r084_a_refused_question_is_a_warning_and_an_error_when_strict() {
    let sandbox = Sandbox::new();
    let refusal = r#"{"jsonrpc":"2.0","id":0,"error":{"code":-32601,"message":"no"}}"#;
    let mut client = sandbox.play(&elicited(), &[]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&call("1", "t", "{}"));
    client.expect(refusal, &said("1", "done"));
    assert_eq!(
        client.close(0).stderr,
        "mcpreel: elicitation/create was refused, and was answered when recorded\n"
    );

    let mut client = sandbox.play(&elicited(), &["--strict"]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&call("1", "t", "{}"));
    let miss = client.fails(refusal, -31001);
    assert!(
        miss.contains("mcpreel: elicitation/create was refused, and was answered when recorded"),
        "{miss}"
    );
    client.close(3);
}

#[test]
fn inputs_are_compared_by_policy() {
    for (policy, live, differs) in [
        ("action", r#"{"action":"accept","content":{"a":1.0}}"#, false),
        ("action", r#"{"action":"accept","content":{"a":2}}"#, true),
        ("action", r#"{"action":"decline"}"#, true),
        ("keys", r#"{"action":"decline"}"#, false),
        ("exact", r#"{"action":"accept","content":{"a":1},"_meta":{}}"#, true),
    ] {
        let sandbox = Sandbox::new();
        let mut client = sandbox.play(&elicited(), &["--match-inputs", policy, "--strict"]);
        client.greet(r#"{"elicitation":{}}"#);
        client.ask(&call("1", "t", "{}"));
        let answer = client.ask(&result("0", live));
        assert_eq!(answer != said("1", "done"), differs, "{policy} {live}: {answer}");
        client.close(if differs { 3 } else { 0 });
    }
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&elicited(), &["--ignore", "/result/content/a", "--strict"]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&call("1", "t", "{}"));
    client.expect(&result("0", r#"{"action":"accept","content":{"a":2}}"#), &said("1", "done"));
    client.close(0);
}

#[test]
fn r085_a_client_without_the_capability_is_not_asked() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&sampled(), &[]);
    client.greet(r#"{"roots":{}}"#);
    client.send(&call("1", "t", "{}"));
    client.gets(&[
        notification("message", r#"{"level":"info","data":"before"}"#),
        notification("message", r#"{"level":"info","data":"after"}"#),
        said("1", "done"),
    ]);
    assert_eq!(
        client.close(0).stderr,
        "mcpreel: sampling/createMessage was not sent: the client does not declare sampling\n"
    );
    let mut client = sandbox.play(&sampled(), &["--strict"]);
    client.greet("{}");
    client.send(&call("1", "t", "{}"));
    client.next();
    let miss = client.next();
    assert!(miss.contains("\"error\":{\"code\":-31003,"), "{miss}");
    client.close(3);
}

#[test]
fn r085_each_question_needs_its_own_capability() {
    for (method, params, capabilities, asked) in [
        ("sampling/createMessage", r#"{"messages":[],"tools":[]}"#, r#"{"sampling":{}}"#, false),
        ("sampling/createMessage", r#"{"messages":[],"tools":[]}"#, r#"{"sampling":{"tools":{}}}"#, true),
        (
            "elicitation/create",
            r#"{"mode":"url","url":"x:","elicitationId":"e"}"#,
            r#"{"elicitation":{}}"#,
            false,
        ),
        (
            "elicitation/create",
            r#"{"mode":"url","url":"x:","elicitationId":"e"}"#,
            r#"{"elicitation":{"url":{}}}"#,
            true,
        ),
        ("elicitation/create", r#"{"message":"?"}"#, r#"{"elicitation":{"url":{}}}"#, false),
        ("elicitation/create", r#"{"message":"?"}"#, r#"{"elicitation":{}}"#, true),
        ("roots/list", "{}", r#"{"roots":{"listChanged":true}}"#, true),
        ("roots/list", "{}", "{}", false),
        ("vendor/ask", "{}", "{}", true),
    ] {
        let sandbox = Sandbox::new();
        let mut records = handshake();
        records.extend([
            c(call("1", "t", "{}")),
            s(request("\"q\"", method, params)),
            c(result("\"q\"", r#"{"action":"decline"}"#)),
            s(said("1", "done")),
        ]);
        let mut client = sandbox.play(&records, &[]);
        client.greet(capabilities);
        let first = client.ask(&call("1", "t", "{}"));
        assert_eq!(first == request("0", method, params), asked, "{method} {capabilities}: {first}");
        client.close(0);
    }
}

#[test]
fn the_answer_to_a_question_that_no_request_waits_for_is_compared_too() {
    let roots = |uri: &str| format!(r#"{{"roots":[{{"uri":"file:///{uri}"}}]}}"#);
    let mut records = handshake();
    records.extend([s(request("7", "roots/list", "{}")), c(result("7", &roots("a")))]);
    records.extend(answered("1", "t", "{}", "x"));
    let refused = error("0", -32601, "no roots");
    let (other, same) = (result("0", &roots("b")), result("0", &roots("a")));
    let otherwise = "mcpreel: roots/list was answered otherwise than recorded";
    let no_answer = "mcpreel: roots/list was refused, and was answered when recorded";
    for (options, answer, code, told) in [
        (&[][..], &refused, 0, Some(no_answer)),
        (&["--strict"], &refused, 3, Some(no_answer)),
        (&["--strict"], &other, 0, None),
        (&["--match-inputs", "exact"], &other, 0, Some(otherwise)),
        (&["--match-inputs", "exact", "--strict"], &other, 3, Some(otherwise)),
        (&["--match-inputs", "exact", "--strict"], &same, 0, None),
    ] {
        let sandbox = Sandbox::new();
        let mut client = sandbox.play(&records, &[options, &["--report", "r.jsonl"][..]].concat());
        client.greet(r#"{"roots":{}}"#);
        assert_eq!(client.next(), request("0", "roots/list", "{}"));
        client.send(answer);
        client.expect(&call("2", "t", "{}"), &said("2", "x"));
        let stderr = client.close(code).stderr;
        let lines = [otherwise, no_answer].map(|line| stderr.matches(line).count());
        assert_eq!(lines, [otherwise, no_answer].map(|line| usize::from(told == Some(line))), "{stderr}");
        let named = sandbox.read("r.jsonl").contains(r#""misses":[{"method":"roots/list","#);
        assert_eq!(named, code == 3, "{options:?}");
    }
}

#[test]
fn r086_questions_of_two_runs_of_one_exchange_have_their_own_ids() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&sampled(), &["--repeat", "last"]);
    client.greet(r#"{"sampling":{}}"#);
    client.send(&call("1", "t", "{}"));
    client.next();
    assert_eq!(client.next(), request("0", "sampling/createMessage", SAMPLING));
    client.send(&call("2", "t", "{}"));
    client.next();
    assert_eq!(client.next(), request("1", "sampling/createMessage", SAMPLING));
    for (question, call) in [("1", "2"), ("0", "1")] {
        client.send(&result(question, ANSWER));
        client.next();
        assert_eq!(client.next(), said(call, "done"));
    }
    client.close(0);
}

#[test]
fn r087_a_question_that_nobody_answers_becomes_an_error_of_the_call() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&sampled(), &["--answer-timeout", "0.05"]);
    client.greet(r#"{"sampling":{}}"#);
    client.send(&call("4", "t", "{}"));
    client.next();
    client.next();
    let error = client.next();
    assert!(
        error.starts_with(
            r#"{"jsonrpc":"2.0","id":4,"error":{"code":-31003,"message":"mcpreel: the client did not answer a recorded request of the server: sampling/createMessage","#
        ),
        "{error}"
    );
    assert!(error.contains("--answer-timeout"), "{error}");
    // Too late.
    client.send(&result("0", ANSWER));
    client.nothing_comes();
    let ended = client.close(3);
    assert!(ended.stderr.contains("sampling/createMessage"), "{}", ended.stderr);
}

#[test]
fn r088_a_ping_is_answered_at_any_time() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&sampled(), &["--ordering", "strict"]);
    client.nothing_comes();
    client.greet(r#"{"sampling":{}}"#);
    client.nothing_comes();
    client.send(&call("1", "t", "{}"));
    client.next();
    client.next();
    for id in ["1", "\"1\"", "0"] {
        client.expect(&request(id, "ping", "{}"), &result(id, "{}"));
    }
    client.close(0);
}

#[test]
fn r088_recorded_pings_are_neither_sent_nor_missed_nor_in_the_way() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([
        c(request("5", "ping", "{}")),
        s(notification("message", r#"{"level":"info","data":"while pinged"}"#)),
        s(result("5", "{}")),
        s(request("0", "ping", "{}")),
        c(result("0", "{}")),
    ]);
    records.extend(answered("1", "t", "{}", "x"));
    records.extend([c(request("6", "ping", "{}")), s(result("6", "{}"))]);
    records.push(s(notification("tools/list_changed", "{}")));
    let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
    client.greet("{}");
    assert_eq!(client.next(), notification("message", r#"{"level":"info","data":"while pinged"}"#));
    client.expect(&call("1", "t", "{}"), &said("1", "x"));
    assert_eq!(client.next(), notification("tools/list_changed", "{}"));
    client.close(0);
    let report = sandbox.read("r.jsonl");
    assert!(report.contains(r#""unused":[]"#), "{report}");
}

#[test]
fn r089_a_cancelled_call_says_no_more() {
    let sandbox = Sandbox::new();
    let mut records = sampled();
    records.extend(answered("2", "other", "{}", "y"));
    let mut client = sandbox.play(&records, &[]);
    client.greet(r#"{"sampling":{}}"#);
    client.send(&call("\"a\"", "t", "{}"));
    client.next();
    client.next();
    // Another call's id, in another type.
    client.send(&cancelled("0"));
    client.send(&cancelled("\"a\""));
    client.send(&result("0", ANSWER));
    client.nothing_comes();
    client.expect(&call("3", "other", "{}"), &said("3", "y"));
    client.close(0);
    // In the pause behind its progress.
    let mut records = handshake();
    records.extend([c(call_with_progress("1", "t", "1")), s(progress("1", 1)), s(said("1", "x"))]);
    let mut client = sandbox.play(&records, &[]);
    client.greet("{}");
    client.write(format!("{}\n{}\n", call_with_progress("9", "t", "9"), cancelled("9")).as_bytes());
    assert_eq!(client.next(), progress("9", 1));
    client.nothing_comes();
    assert_eq!(client.close(0).rest, Vec::<String>::new());
}

const DONE: &str = r#"{"resultType":"complete","content":[]}"#;

#[test]
fn r095_modern_log_messages_need_a_level_in_the_request() {
    let sandbox = Sandbox::new();
    let leveled = |level: &str| {
        let level = if level.is_empty() {
            String::new()
        } else {
            format!(r#","io.modelcontextprotocol/logLevel":"{level}""#)
        };
        modern("1", "tools/call", r#""name":"t""#, "{}").replacen("{}}", &format!("{{}}{level}}}"), 1)
    };
    let log = |level: &str| notification("message", &format!(r#"{{"level":"{level}","data":1}}"#));
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let mut records = vec![c(leveled("debug"))];
    records.extend(levels.iter().map(|level| s(log(level))));
    records.push(s(result("1", DONE)));
    let mut client = sandbox.play(&records, &["--repeat", "last"]);
    client.expect(&leveled(""), &result("1", DONE));
    for from in 0..levels.len() {
        client.send(&leveled(levels[from]));
        client.gets(&levels[from..].iter().map(|level| log(level)).collect::<Vec<_>>());
        assert_eq!(client.next(), result("1", DONE));
    }
    client.close(0);
}

#[test]
fn legacy_log_messages_follow_the_level_that_was_set() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    let log = |level: &str| notification("message", &format!(r#"{{"level":"{level}","data":1}}"#));
    records.extend([c(call("1", "t", "{}")), s(log("info")), s(log("error")), s(said("1", "x"))]);
    let mut client = sandbox.play(&records, &["--repeat", "last"]);
    client.greet("{}");
    client.send(&call("1", "t", "{}"));
    client.gets(&[log("info"), log("error"), said("1", "x")]);
    // Not recorded, and of no consequence but this one.
    client.expect(&request("2", "logging/setLevel", r#"{"level":"warning"}"#), &result("2", "{}"));
    client.send(&call("1", "t", "{}"));
    client.gets(&[log("error"), said("1", "x")]);
    client.close(0);
}

#[test]
fn a_server_that_sends_more_than_was_asked_for_does_so_again() {
    let sandbox = Sandbox::new();
    let level = |id: &str, level: &str| request(id, "logging/setLevel", &format!(r#"{{"level":"{level}"}}"#));
    let debug = notification("message", r#"{"level":"debug","data":1}"#);
    let mut records = handshake();
    records.extend([c(level("1", "error")), s(result("1", "{}"))]);
    records.extend([c(call("2", "t", "{}")), s(&debug), s(said("2", "x"))]);
    let mut client = sandbox.play(&records, &["--repeat", "last"]);
    client.greet("{}");
    client.expect(&level("1", "error"), &result("1", "{}"));
    client.send(&call("2", "t", "{}"));
    client.gets(&[debug, said("2", "x")]);
    // Another level than the recorded one is kept to.
    client.expect(&level("3", "info"), &result("3", "{}"));
    client.expect(&call("4", "t", "{}"), &said("4", "x"));
    client.close(0);
}

#[test]
fn r100_url_elicitation_by_error_then_complete_then_the_retry_succeeds() {
    let sandbox = Sandbox::new();
    let url = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32042,"message":"go there","data":{"elicitations":[{"mode":"url","elicitationId":"e-1","url":"https://example.com/","message":"m"}]}}}"#;
    let complete = notification("elicitation/complete", r#"{"elicitationId":"e-1"}"#);
    let mut records = handshake();
    records.extend([
        c(call("1", "t", "{}")),
        s(url),
        s(&complete),
        c(call("2", "t", "{}")),
        s(said("2", "x")),
    ]);
    let mut client = sandbox.play(&records, &[]);
    client.greet(r#"{"elicitation":{"url":{}}}"#);
    client.send(&call("1", "t", "{}"));
    client.gets(&[url.to_owned(), complete.clone()]);
    client.expect(&call("2", "t", "{}"), &said("2", "x"));
    client.close(0);
    // As a question, with the completion behind the accept.
    let question = r#"{"mode":"url","elicitationId":"e-1","url":"https://example.com/","message":"m"}"#;
    let mut records = handshake();
    records.extend([
        c(call("1", "t", "{}")),
        s(request("9", "elicitation/create", question)),
        c(result("9", r#"{"action":"accept"}"#)),
        s(&complete),
        s(said("1", "x")),
    ]);
    let mut client = sandbox.play(&records, &[]);
    client.greet(r#"{"elicitation":{"url":{}}}"#);
    client.expect(&call("1", "t", "{}"), &request("0", "elicitation/create", question));
    client.nothing_comes();
    client.expect(&result("0", r#"{"action":"accept"}"#), &complete);
    assert_eq!(client.next(), said("1", "x"));
    client.close(0);
}
