//! Questions in results: a modern call goes in rounds, and each retry carries the answers.

use crate::support::replay::{c, notification, result, s};
use crate::support::{Sandbox, modern};

const ASKS: &str = r#"{"resultType":"input_required","inputRequests":{"name":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object","properties":{}}}},"text":{"method":"sampling/createMessage","params":{"messages":[]}}},"requestState":"r1"}"#;
const DONE: &str = r#"{"resultType":"complete","content":[]}"#;
const ACCEPT: &str = r#"{"action":"accept","content":{"n":"ann"}}"#;
const ALL: &str = r#"{"elicitation":{},"sampling":{},"roots":{}}"#;

fn first(id: &str, capabilities: &str) -> String {
    modern(id, "tools/call", r#""name":"t","arguments":{"a":1}"#, capabilities)
}

fn retry(id: &str, responses: &str, state: &str) -> String {
    modern(
        id,
        "tools/call",
        &format!(r#""name":"t","arguments":{{"a":1}},"inputResponses":{responses},"requestState":"{state}""#),
        ALL,
    )
}

fn responses(name: &str, text: &str) -> String {
    format!(r#"{{"name":{name},"text":{{"role":"assistant","content":{{"type":"text","text":"{text}"}}}}}}"#)
}

fn rounds() -> Vec<String> {
    vec![
        c(first("1", ALL)),
        s(result("1", ASKS)),
        c(retry("2", &responses(ACCEPT, "hello"), "r1")),
        s(result("2", DONE)),
    ]
}

#[test]
fn r090_a_retry_with_its_state_and_answers_reaches_the_result() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&rounds(), &[]);
    client.expect(&first("5", ALL), &result("5", ASKS));
    client.expect(&retry("6", &responses(ACCEPT, "hello"), "r1"), &result("6", DONE));
    client.close(0);
    // A retry may come on a connection of its own.
    let session = format!("--session={}", sandbox.path.display());
    let mut client = sandbox.play(&rounds(), &[&session]);
    client.expect(&first("5", ALL), &result("5", ASKS));
    client.close(0);
    let mut client = sandbox.play(&rounds(), &[&session]);
    client.expect(&retry("6", &responses(ACCEPT, "hello"), "r1"), &result("6", DONE));
    client.close(0);
}

#[test]
fn r091_a_wrong_state_is_an_error_and_missing_answers_are_asked_for_again() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&rounds(), &[]);
    client.expect(&first("1", ALL), &result("1", ASKS));
    client.fails(&retry("2", &responses(ACCEPT, "hello"), "r2"), -31001);
    client.expect(&retry("3", &format!(r#"{{"name":{ACCEPT}}}"#), "r1"), &result("3", ASKS));
    client.expect(&retry("4", "{}", "r1"), &result("4", ASKS));
    let bare = modern("5", "tools/call", r#""name":"t","arguments":{"a":1},"requestState":"r1""#, ALL);
    client.expect(&bare, &result("5", ASKS));
    let more = responses(ACCEPT, "x").replacen('{', r#"{"extra":{"action":"decline"},"#, 1);
    client.expect(&retry("6", &more, "r1"), &result("6", DONE));
    client.close(3);
}

#[test]
fn r091_the_state_of_one_request_asks_for_nothing_in_another() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&rounds(), &[]);
    client.expect(&first("1", ALL), &result("1", ASKS));
    for other in [r#""name":"other","arguments":{"a":1}"#, r#""name":"t","arguments":{"a":2}"#] {
        let other = modern("2", "tools/call", &format!(r#"{other},"requestState":"r1""#), ALL);
        client.fails(&other, -31001);
    }
    client.expect(&retry("3", "{}", "r1"), &result("3", ASKS));
    client.close(3);
}

#[test]
fn r092_a_decline_is_no_accept_and_a_models_text_is_free() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&rounds(), &[]);
    client.expect(&first("1", ALL), &result("1", ASKS));
    let miss = client.fails(&retry("2", &responses(r#"{"action":"decline"}"#, "hello"), "r1"), -31001);
    assert!(miss.contains("/params/inputResponses/name/action"), "{miss}");
    assert!(!miss.contains("/params/inputResponses/text"), "{miss}");
    client.expect(&retry("3", &responses(ACCEPT, "quite different"), "r1"), &result("3", DONE));
    client.close(3);
    let mut client = sandbox.play(&rounds(), &["--match-inputs", "exact"]);
    client.expect(&first("1", ALL), &result("1", ASKS));
    client.fails(&retry("2", &responses(ACCEPT, "quite different"), "r1"), -31001);
    client.expect(&retry("3", &responses(ACCEPT, "hello"), "r1"), &result("3", DONE));
    client.close(3);
    let mut client = sandbox.play(&rounds(), &["--match-inputs", "keys"]);
    client.expect(&first("1", ALL), &result("1", ASKS));
    client.expect(&retry("2", &responses(r#"{"action":"decline"}"#, "x"), "r1"), &result("2", DONE));
    client.close(0);
}

#[test]
fn r092_where_both_were_recorded_each_answer_leads_to_its_own_result() {
    let sandbox = Sandbox::new();
    let declined = DONE.replace("[]", r#"[{"type":"text","text":"declined"}]"#);
    let mut records = rounds();
    records.extend([
        c(first("3", ALL)),
        s(result("3", ASKS)),
        c(retry("4", &responses(r#"{"action":"decline"}"#, "hello"), "r1")),
        s(result("4", &declined)),
    ]);
    for options in [&[][..], &["--ordering", "any"][..]] {
        let mut client = sandbox.play(&records, options);
        client.expect(&first("1", ALL), &result("1", ASKS));
        client.expect(&retry("2", &responses(r#"{"action":"decline"}"#, "a"), "r1"), &result("2", &declined));
        client.expect(&first("3", ALL), &result("3", ASKS));
        client.expect(&retry("4", &responses(ACCEPT, "b"), "r1"), &result("4", DONE));
        client.close(0);
    }
}

#[test]
fn r093_three_rounds_replay_and_concurrent_calls_do_not_cross() {
    let sandbox = Sandbox::new();
    let asks = |n: u32| {
        format!(
            r#"{{"resultType":"input_required","inputRequests":{{"q{n}":{{"method":"roots/list"}}}},"requestState":"s{n}"}}"#
        )
    };
    let done = |who: &str| DONE.replace("[]", &format!(r#"[{{"type":"text","text":"{who}"}}]"#));
    let call = |id: &str, who: &str| {
        modern(id, "tools/call", &format!(r#""name":"t","arguments":{{"who":"{who}"}}"#), ALL)
    };
    let again = |id: &str, who: &str, n: u32| {
        let params = format!(
            r#""name":"t","arguments":{{"who":"{who}"}},"inputResponses":{{"q{n}":{{"roots":[]}}}},"requestState":"s{n}""#
        );
        modern(id, "tools/call", &params, ALL)
    };
    let mut records = Vec::new();
    for (who, from) in [("a", 0), ("b", 10)] {
        records.extend([c(call("1", who)), s(result("1", &asks(from + 1)))]);
        for n in 1..3 {
            records.extend([c(again("2", who, from + n)), s(result("2", &asks(from + n + 1)))]);
        }
        records.extend([c(again("3", who, from + 3)), s(result("3", &done(who)))]);
    }
    let mut client = sandbox.play(&records, &[]);
    client.expect(&call("1", "b"), &result("1", &asks(11)));
    client.expect(&call("2", "a"), &result("2", &asks(1)));
    for n in 1..3 {
        client.expect(&again("3", "a", n), &result("3", &asks(n + 1)));
        client.expect(&again("4", "b", 10 + n), &result("4", &asks(10 + n + 1)));
    }
    client.fails(&again("5", "a", 13), -31001);
    client.expect(&again("5", "b", 13), &result("5", &done("b")));
    client.expect(&again("6", "a", 3), &result("6", &done("a")));
    client.close(3);
}

#[test]
fn r094_a_missing_capability_is_named_in_full() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&rounds(), &[]);
    assert_eq!(
        client.ask(&first("1", r#"{"elicitation":{}}"#)),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"the client does not declare sampling","data":{"requiredCapabilities":{"sampling":{}}}}}"#
    );
    assert_eq!(
        client.ask(&first("2", "{}")),
        r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32021,"message":"the client does not declare elicitation, sampling","data":{"requiredCapabilities":{"elicitation":{},"sampling":{}}}}}"#
    );
    // The recorded answer is still there for a client that comes back with what it takes.
    client.expect(&first("3", ALL), &result("3", ASKS));
    client.close(0);
}

#[test]
fn r094_who_comes_back_with_the_capability_gets_the_answer_and_what_followed_it() {
    let listen =
        |id: &str| modern(id, "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#, ALL);
    let on_it = |id: &str, method: &str, more: &str| {
        notification(
            method,
            &format!(r#"{{"_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}{more}}}"#),
        )
    };
    let acknowledged =
        |id: &str| on_it(id, "subscriptions/acknowledged", r#","notifications":{"toolsListChanged":true}"#);
    let changed = |id: &str| on_it(id, "tools/list_changed", "");
    let mut records = vec![c(listen("9")), s(acknowledged("9"))];
    records.extend(rounds().drain(..2));
    records.push(s(changed("9")));
    let sandbox = Sandbox::new();
    for options in [&[][..], &["--ordering", "strict"]] {
        let mut client = sandbox.play(&records, options);
        client.expect(&listen("5"), &acknowledged("5"));
        client.fails(&first("6", "{}"), -32021);
        client.nothing_comes();
        client.send(&first("7", ALL));
        client.gets(&[result("7", ASKS), changed("5")]);
        client.nothing_comes();
        client.close(0);
    }
}
