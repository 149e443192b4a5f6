//! `--ignore-value`: what it makes equal, and what it does not.

use crate::support::replay::{answered, c, call, handshake, request, result, s, said};
use crate::support::{Sandbox, modern};

/// A UUID for each number.
fn id(n: u32) -> String {
    format!("3f2504e0-4f89-41d3-9a0c-0305e82c330{n}")
}

/// What the client of a multi round-trip request declares.
const ABLE_TO_ASK: &str = r#"{"elicitation":{"form":{}}}"#;

const UUID: [&str; 2] = ["--ignore-value", "uuid"];

#[test]
fn what_the_server_made_up_is_exact_whatever_class_it_has() {
    let sandbox = Sandbox::new();
    // Pages.
    let list = |n: &str, cursor: u32| request(n, "tools/list", &format!(r#"{{"cursor":"{}"}}"#, id(cursor)));
    let page = |n: &str, name: &str| result(n, &format!(r#"{{"tools":[{{"name":"{name}"}}]}}"#));
    let mut records = handshake();
    records.extend([c(list("1", 1)), s(page("1", "one")), c(list("2", 2)), s(page("2", "two"))]);
    let mut client = sandbox.play(&records, &UUID);
    client.greet("{}");
    for (cursor, name) in [(2, "two"), (1, "one"), (2, "two"), (1, "one")] {
        client.expect(&list("5", cursor), &page("5", name));
    }
    let miss = client.fails(&list("6", 3), -31001);
    assert!(miss.contains(&format!(r#""path":"/params/cursor","recorded":"{}""#, id(1))), "{miss}");
    client.close(3);
    // Rounds.
    let ask = |n: &str, state: Option<u32>| {
        let answer = r#""inputResponses":{"q":{"action":"accept","content":{}}}"#;
        let more = state.map(|state| format!(r#","requestState":"{}",{answer}"#, id(state)));
        let params = format!(r#""name":"ask","arguments":{{}}{}"#, more.unwrap_or_default());
        modern(n, "tools/call", &params, ABLE_TO_ASK)
    };
    let asked = |n: &str, state: u32| {
        let questions = r#"{"q":{"method":"elicitation/create","params":{"message":"?","requestedSchema":{"type":"object"}}}}"#;
        let state = id(state);
        result(
            n,
            &format!(
                r#"{{"resultType":"input_required","inputRequests":{questions},"requestState":"{state}"}}"#
            ),
        )
    };
    let records = [
        [c(ask("1", None)), s(asked("1", 1)), c(ask("2", None)), s(asked("2", 2))],
        [c(ask("3", Some(1))), s(said("3", "first")), c(ask("4", Some(2))), s(said("4", "second"))],
    ];
    let mut client = sandbox.play(&records.concat(), &UUID);
    client.converse(&[&ask("1", None), &ask("2", None)]);
    client.expect(&ask("3", Some(2)), &said("3", "second"));
    client.expect(&ask("4", Some(1)), &said("4", "first"));
    client.close(0);
    // Names, and what a completion is about.
    let complete = |n: &str, about: u32| {
        let about = id(about);
        request(
            n,
            "completion/complete",
            &format!(
                r#"{{"ref":{{"type":"ref/prompt","name":"{about}"}},"argument":{{"name":"x","value":""}}}}"#
            ),
        )
    };
    let records = [
        [c(call("1", &id(1), "{}")), s(said("1", "one")), c(call("2", &id(2), "{}")), s(said("2", "two"))],
        [
            c(complete("3", 1)),
            s(result("3", r#"{"n":1}"#)),
            c(complete("4", 2)),
            s(result("4", r#"{"n":2}"#)),
        ],
    ];
    let mut client = sandbox.play(&records.concat(), &UUID);
    client.expect(&call("5", &id(2), "{}"), &said("5", "two"));
    client.expect(&complete("6", 2), &result("6", r#"{"n":2}"#));
    client.expect(&complete("7", 1), &result("7", r#"{"n":1}"#));
    client.close(0);
}

#[test]
fn among_equal_requests_the_one_with_the_same_values_goes_first() {
    let sandbox = Sandbox::new();
    let get = |n: &str, what: u32| call(n, "get", &format!(r#"{{"id":"{}","at":["x"]}}"#, id(what)));
    let records = [1, 2, 3].map(|n| [c(get(&n.to_string(), n)), s(said(&n.to_string(), &n.to_string()))]);
    for options in [&["--ordering", "per-key"][..], &["--ordering", "any"], &["--repeat", "last"]] {
        let mut client = sandbox.play(&records.concat(), &[&UUID[..], options].concat());
        for n in [3, 1, 2] {
            client.expect(&get("9", n), &said("9", &n.to_string()));
        }
        if options != ["--ordering", "per-key"] {
            client.expect(&get("9", 3), &said("9", "3"));
        }
        client.close(0);
    }
    // What is left goes in recorded order to those that have values of their own.
    let mut client = sandbox.play(&records.concat(), &UUID);
    for (live, recorded) in [(2, 2), (8, 1), (9, 3)] {
        client.expect(&get("9", live), &said("9", &recorded.to_string()));
    }
    client.close(0);
}

#[test]
fn a_class_of_everything_is_wrong_usage() {
    let sandbox = Sandbox::new();
    let everything = "matches every text, the empty one included, so that all of them would be equal; to take whole values \
         as equal, begin with ^ and end with $, and to leave a place out, --ignore POINTER";
    let empty = "is empty; expected is uuid, timestamp, path or a regular expression";
    for (class, shown, what) in [
        ("", "\"\"", empty),
        (" ", "\" \"", empty),
        (".*", ".*", everything),
        ("x?", "x?", everything),
        ("a|", "a|", everything),
    ] {
        let records = answered("1", "t", "{}", "x");
        sandbox.tape_with("", &records);
        let run = sandbox.mcpreel(["serve", "c.json", "--ignore-value", class]).run().expect(2);
        assert_eq!(run.stderr(), format!("mcpreel: --ignore-value {shown}: {what}\n"));
        sandbox.file("own.toml", format!("[match]\nignore_value = [\"uuid\",\n \"{class}\"]\n"));
        let run = sandbox.mcpreel(["serve", "c.json", "--config-file", "own.toml"]).run().expect(2);
        assert_eq!(run.stderr(), format!("mcpreel: own.toml: line 3: ignore_value {shown}: {what}\n"));
        sandbox.tape_with(&format!(r#""match":{{"ignore_value":["{class}"]}},"#), &records);
        let run = sandbox.mcpreel(["serve", "c.json"]).run().expect(2);
        assert_eq!(run.stderr(), format!("mcpreel: c.json: /match/ignore_value: {shown}: {what}\n"));
    }
    // Those that take some texts, the empty one among them, are none.
    let mut client = sandbox.play(&answered("1", "t", r#"{"n":""}"#, "x"), &["--ignore-value", "^[0-9]*$"]);
    client.expect(&call("2", "t", r#"{"n":"17"}"#), &said("2", "x"));
    client.close(0);
}
