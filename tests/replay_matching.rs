//! Which recorded answer a live request gets, and what it gets when there is none.

use crate::support::replay::{answered, c, call, error, request, result, s, said};
use crate::support::{Sandbox, initialize};

#[test]
fn r043_what_the_client_varies_without_meaning_does_not_matter() {
    let sandbox = Sandbox::new();
    let recorded = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"a":1,"b":"é"},"_meta":{"progressToken":7,"traceparent":"00-1"}}}"#;
    let mut client = sandbox.play(&[c(recorded), s(said("1", "x"))], &["--repeat", "last"]);
    for live in [
        r#"{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"name":"t","arguments":{"a":1,"b":"é"}}}"#,
        r#"{"params":{"arguments":{"b":"\u00e9","a":1},"name":"t"},"method":"tools\/call","id":"q","jsonrpc":"2.0"}"#,
        r#"{"jsonrpc":"2.0","id":"q","method":"tools/call","params":{"_meta":{"progressToken":"other","tracestate":"z","vendor/key":[1]},"name":"t","arguments":{"a":1.0,"b":"é"}}}"#,
        " { \"jsonrpc\" : \"2.0\", \"id\" : \"q\", \"method\" : \"tools/call\", \"params\" : {\"name\":\"t\",\t\"arguments\":{\"a\":1e0, \"b\":\"\\u00E9\"}}} ",
    ] {
        client.expect(live, &said("\"q\"", "x"));
    }
    client.close(0);
}

#[test]
fn r043_absent_null_and_empty_parameters_are_equal() {
    let spellings = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":null}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{"progressToken":1}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":null}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"_meta":{},"cursor":null}}"#,
    ];
    for recorded in spellings {
        let sandbox = Sandbox::new();
        let mut client = sandbox.play(&[c(recorded), s(result("1", r#"{"tools":[]}"#))], &[]);
        for live in spellings {
            client.expect(live, &result("1", r#"{"tools":[]}"#));
        }
        client.close(0);
    }
    let calls = [
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":null}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}"#,
    ];
    for recorded in calls {
        let sandbox = Sandbox::new();
        let mut client = sandbox.play(&[c(recorded), s(said("1", "x"))], &["--repeat", "last"]);
        for live in calls {
            client.expect(live, &said("1", "x"));
        }
        client.close(0);
    }
}

#[test]
fn r043_who_the_client_is_does_not_matter() {
    let sandbox = Sandbox::new();
    let answer = result(
        "0",
        r#"{"protocolVersion":"2025-11-25","capabilities":{},"serverInfo":{"name":"d","version":"1"}}"#,
    );
    let mut client = sandbox.play(&[c(initialize("{}")), s(&answer)], &[]);
    client.expect(
        r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{"sampling":{},"x":{"y":1}},"clientInfo":{"name":"other","title":"O","version":"9"}}}"#,
        &answer,
    );
    client.close(0);
}

#[test]
fn r044_arguments_are_compared_by_value_and_type() {
    for (recorded, live, same) in [
        (r#"{"a":1}"#, r#"{"a":2}"#, false),
        (r#"{"a":1}"#, r#"{"a":1.0}"#, true),
        (r#"{"a":10}"#, r#"{"a":1e1}"#, true),
        (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
        (r#"{"a":null}"#, r#"{"a":null}"#, true),
        (r#"{"a":null}"#, "{}", false),
        (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
        (r#"{"a":{}}"#, r#"{"a":[]}"#, false),
        (r#"{"a":true}"#, r#"{"a":1}"#, false),
        (r#"{"a":123456789012345678901234}"#, r#"{"a":123456789012345678901235}"#, false),
        (r#"{"a":1E400}"#, r#"{"a":1e400}"#, true),
        (r#"{"a":"\ud800"}"#, r#"{"a":"\ud801"}"#, false),
        (r#"{"a":-0}"#, r#"{"a":0}"#, true),
    ] {
        let sandbox = Sandbox::new();
        let mut client = sandbox.play(&answered("1", "t", recorded, "x"), &[]);
        let answer = client.ask(&call("2", "t", live));
        assert_eq!(answer == said("2", "x"), same, "{recorded} {live}: {answer}");
        client.close(if same { 0 } else { 3 });
    }
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&answered("1", "t", "{}", "x"), &[]);
    client.fails(&call("2", "T", "{}"), -31001);
    client.close(3);
}

#[test]
fn r045_equal_calls_get_their_answers_in_turn_and_no_more() {
    let sandbox = Sandbox::new();
    let records = [answered("1", "t", "{}", "one"), answered("2", "t", "{}", "two")].concat();
    let mut client = sandbox.play(&records, &[]);
    client.expect(&call("5", "t", "{}"), &said("5", "one"));
    client.expect(&call("6", "t", "{}"), &said("6", "two"));
    assert_eq!(
        client.ask(&call("7", "t", "{}")),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-31001,"message":"mcpreel: no recorded answer for tools/call \"t\": recorded 2 times, this is call 3","data":{"method":"tools/call","name":"t","hint":"to answer again, --repeat last or --repeat cycle; else record again"}}}"#
    );
    assert_eq!(
        client.close(3).stderr,
        "mcpreel: no recorded answer for tools/call \"t\": recorded 2 times, this is call 3; to answer again, --repeat last or --repeat cycle; else record again\nmcpreel: 1 request without a recorded answer\n"
    );
}

#[test]
fn r045_what_changes_nothing_repeats_its_last_answer() {
    for (method, params) in [
        ("tools/list", "{}"),
        ("prompts/list", "{}"),
        ("resources/list", "{}"),
        ("resources/templates/list", "{}"),
        ("resources/read", r#"{"uri":"x:y"}"#),
        ("prompts/get", r#"{"name":"p"}"#),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}"#,
        ),
        ("logging/setLevel", r#"{"level":"info"}"#),
        ("resources/subscribe", r#"{"uri":"x:y"}"#),
        ("resources/unsubscribe", r#"{"uri":"x:y"}"#),
    ] {
        let sandbox = Sandbox::new();
        let ask = |id: &str| request(id, method, params);
        let records = [c(ask("1")), s(result("1", r#"{"n":1}"#)), c(ask("2")), s(result("2", r#"{"n":2}"#))];
        let mut client = sandbox.play(&records, &[]);
        for (id, n) in [("4", 1), ("5", 2), ("6", 2), ("7", 2)] {
            client.expect(&ask(id), &result(id, &format!(r#"{{"n":{n}}}"#)));
        }
        client.close(0);
    }
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&[c(request("1", "vendor/x", "{}")), s(result("1", "{}"))], &[]);
    client.expect(&request("2", "vendor/x", "{}"), &result("2", "{}"));
    client.fails(&request("3", "vendor/x", "{}"), -31001);
    client.close(3);
}

#[test]
fn repeat_says_what_comes_after_the_recorded_answers() {
    let records = [answered("1", "t", "{}", "one"), answered("2", "t", "{}", "two")].concat();
    for (repeat, expected) in
        [("last", ["one", "two", "two", "two", "two"]), ("cycle", ["one", "two", "one", "two", "one"])]
    {
        let sandbox = Sandbox::new();
        let mut client = sandbox.play(&records, &["--repeat", repeat]);
        for text in expected {
            client.expect(&call("9", "t", "{}"), &said("9", text));
        }
        client.close(0);
    }
    let sandbox = Sandbox::new();
    let list = request("1", "tools/list", "{}");
    let mut client = sandbox.play(&[c(&list), s(result("1", r#"{"tools":[]}"#))], &["--repeat", "never"]);
    client.expect(&list, &result("1", r#"{"tools":[]}"#));
    client.fails(&list, -31001);
    client.close(3);
}

#[test]
fn r047_a_path_that_is_declared_volatile_does_not_matter() {
    let arguments =
        |n: u32| format!(r#"{{"q":"x","at":{n},"list":[{{"id":{n},"v":1}},{{"id":{n},"v":2}}]}}"#);
    let sandbox = Sandbox::new();
    let records = answered("1", "t", &arguments(1), "x");
    let options = ["--ignore", "/params/arguments/at", "--ignore=/params/arguments/list/*/id"];
    let mut client = sandbox.play(&records, &options);
    client.expect(&call("2", "t", &arguments(2)), &said("2", "x"));
    client.close(0);
    // Absent is as good as anything.
    let mut client = sandbox.play(&records, &options);
    client.expect(&call("2", "t", r#"{"q":"x","list":[{"v":1},{"v":2}]}"#), &said("2", "x"));
    client.close(0);
    // What is not ignored still counts, and what is ignored is not named as a difference.
    let mut client = sandbox.play(&records, &options);
    let miss = client.fails(&call("2", "t", &arguments(2).replace("\"v\":2", "\"v\":3")), -31001);
    assert!(
        miss.contains(r#""differs":[{"path":"/params/arguments/list/1/v","recorded":2,"live":3}]"#),
        "{miss}"
    );
    client.close(3);
}

#[test]
fn a_pointer_that_is_none_is_wrong_usage() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &answered("1", "t", "{}", "x"));
    for option in [
        "--ignore=arguments",
        "--ignore=",
        "--ignore=/x~2",
        "--ignore-value=(",
        "--ordering=random",
        "--repeat=x",
        "--match-inputs=no",
    ] {
        let run = sandbox.mcpreel(["serve", "c.json", option]).run().expect(2);
        assert_eq!(run.stdout(), "", "{option}");
        assert!(run.stderr().starts_with("mcpreel: "), "{option}: {}", run.stderr());
    }
}

#[test]
fn classes_of_values_are_equal_among_themselves() {
    for (class, recorded, live, same) in [
        ("uuid", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "6F9619FF-8B86-D011-B42D-00CF4FC964F0", true),
        ("uuid", "6f9619ff-8b86-d011-b42d-00cf4fc964ff", "6f9619ff", false),
        ("timestamp", "2026-01-02T03:04:05Z", "2026-01-02T03:04:05.678+02:00", true),
        ("timestamp", "2026-01-02 03:04", "2026-12-31T23:59:59Z", true),
        ("timestamp", "2026-01-02T03:04:05Z", "yesterday", false),
        ("path", "/tmp/a1/b.txt", "/home/u/c", true),
        ("path", "/tmp/a1", r"C:\\tmp\\b", true),
        ("path", "file:///tmp/a", "/tmp/b", true),
        ("path", "/tmp/a1", "tmp", false),
        ("^run-[0-9]+$", "run-1", "run-22", true),
        ("^run-[0-9]+$", "run-1", "run-x", false),
    ] {
        let sandbox = Sandbox::new();
        let arguments = |value: &str| format!(r#"{{"deep":[{{"v":"{value}"}}]}}"#);
        let mut client =
            sandbox.play(&answered("1", "t", &arguments(recorded), "x"), &["--ignore-value", class]);
        let answer = client.ask(&call("2", "t", &arguments(live)));
        assert_eq!(answer == said("2", "x"), same, "{class} {recorded} {live}: {answer}");
        client.close(if same { 0 } else { 3 });
    }
}

#[test]
fn the_cassettes_own_rules_hold_for_everyone() {
    let sandbox = Sandbox::new();
    let records = answered("1", "t", r#"{"at":1,"id":"6f9619ff-8b86-d011-b42d-00cf4fc964ff","q":1}"#, "x");
    sandbox.tape_with(r#""match":{"ignore":["/params/arguments/at"],"ignore_value":["uuid"]},"#, &records);
    let mut client = sandbox.serve(&["--ignore", "/params/arguments/q"]);
    let live = call("2", "t", r#"{"at":2,"id":"00000000-8b86-d011-b42d-00cf4fc964ff","q":2}"#);
    client.expect(&live, &said("2", "x"));
    client.close(0);
    let pointer = "expected is one into the request, such as /params/arguments/timestamp";
    for (own, expected) in [
        (
            r#"{"ignored":["/x"]}"#,
            "/match: has an unknown rule \"ignored\"; known are ignore, ignore_value".to_owned(),
        ),
        (r#"{"ignore":"/x"}"#, "/match/ignore: must be a list of strings".to_owned()),
        (r#"{"ignore":["/x",1]}"#, "/match/ignore: must be a list of strings".to_owned()),
        (r#"{"ignore":["x"]}"#, format!("/match/ignore: x: a JSON pointer begins with /; {pointer}")),
        (
            r#"{"ignore":["/x","/x~2"]}"#,
            format!(
                "/match/ignore: /x~2: in a JSON pointer ~ is written ~0, and / inside a name ~1; {pointer}"
            ),
        ),
        (r#"{"ignore_value":{}}"#, "/match/ignore_value: must be a list of strings".to_owned()),
        (
            r#"{"ignore_value":["("]}"#,
            "/match/ignore_value: (: not a regular expression: error: unclosed group".to_owned(),
        ),
    ] {
        sandbox.tape_with(&format!("\"match\":{own},"), &records);
        let run = sandbox.mcpreel(["serve", "c.json"]).run().expect(2);
        assert_eq!(run.stderr(), format!("mcpreel: c.json: {expected}\n"), "{own}");
    }
}

#[test]
fn r048_the_nearest_recorded_request_is_named_and_its_values_are_cut() {
    let sandbox = Sandbox::new();
    let long = "v".repeat(500);
    let records = [
        answered("1", "t", r#"{"a":1,"b":2,"c":3}"#, "far"),
        answered("2", "t", &format!(r#"{{"a":1,"b":2,"c":"{long}"}}"#), "near"),
        answered("3", "other", r#"{"a":1,"b":2,"c":9}"#, "another tool"),
    ]
    .concat();
    let mut client = sandbox.play(&records, &[]);
    let miss = client.fails(&call("9", "t", r#"{"a":1,"b":3,"c":3}"#), -31001);
    assert!(
        miss.contains(
            r#""nearest":{"message":0,"differs":[{"path":"/params/arguments/b","recorded":2,"live":3}]}"#
        ),
        "{miss}"
    );
    let miss = client.fails(&call("9", "t", r#"{"a":1,"b":2,"c":"w"}"#), -31001);
    // Two are as near; the first one is named.
    assert!(miss.contains(r#""nearest":{"message":0,"#), "{miss}");
    let miss = client.fails(&call("9", "unknown", "{}"), -31001);
    assert!(!miss.contains("nearest"), "{miss}");
    assert!(miss.contains(r#""hint":"record again to add it""#), "{miss}");
    let ended = client.close(3);
    assert!(ended.stderr.ends_with("mcpreel: 3 requests without a recorded answer\n"), "{}", ended.stderr);

    let records = answered("2", "t", &format!(r#"{{"a":1,"c":"{long}"}}"#), "near");
    let mut client = sandbox.play(&records, &[]);
    let miss = client.fails(&call("9", "t", r#"{"a":1,"c":"w"}"#), -31001);
    assert!(miss.contains("vvv") && miss.len() < 700, "{miss}");
    client.close(3);
}

#[test]
fn r049_lists_that_nobody_asks_for_are_no_failure() {
    let sandbox = Sandbox::new();
    let mut records = vec![c(request("1", "tools/list", "{}")), s(result("1", r#"{"tools":[]}"#))];
    records.extend(answered("2", "t", "{}", "x"));
    for options in [&[][..], &["--require-all-used"][..]] {
        let mut client = sandbox.play(&records, options);
        client.expect(&call("1", "t", "{}"), &said("1", "x"));
        assert_eq!(client.close(0).stderr, "");
    }
}

#[test]
fn r050_cursors_lead_through_all_recorded_pages() {
    let sandbox = Sandbox::new();
    let page = |id: &str, cursor: Option<&str>| {
        let params = cursor.map_or("{}".to_owned(), |cursor| format!(r#"{{"cursor":"{cursor}"}}"#));
        request(id, "tools/list", &params)
    };
    let session =
        [page("1", None), page("2", Some("page-2")), page("3", Some("page-3")), page("4", Some("page-4"))];
    let mut lines = vec![initialize("{}")];
    lines.extend(session.clone());
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let recorded = sandbox.record_demo("c.json", &lines);
    assert!(recorded[1].contains(r#""nextCursor":"page-2""#), "{}", recorded[1]);
    assert!(!recorded[4].contains("nextCursor"), "{}", recorded[4]);
    // In any order, and again.
    let mut client = sandbox.serve(&[]);
    client.greet("{}");
    for n in [3, 0, 1, 2, 0, 1, 2, 3] {
        client.expect(&session[n], &recorded[n + 1]);
    }
    client.fails(&page("5", Some("page-5")), -31001);
    client.close(3);
}

#[test]
fn strict_order_is_that_of_the_recording() {
    let sandbox = Sandbox::new();
    let list = request("9", "tools/list", "{}");
    let mut records = vec![c(initialize("{}")), s(result("0", r#"{"capabilities":{"logging":{}}}"#))];
    records.extend(answered("1", "a", "{}", "a"));
    records.extend([c(&list), s(result("9", r#"{"tools":[]}"#))]);
    records.extend(answered("2", "b", "{}", "b"));
    records.extend([c(request("3", "logging/setLevel", r#"{"level":"info"}"#)), s(result("3", "{}"))]);
    let strict = ["--ordering", "strict"];

    let mut client = sandbox.play(&records, &strict);
    client.ask(&initialize("{}"));
    client.expect(&list, &result("9", r#"{"tools":[]}"#));
    client.expect(&call("1", "a", "{}"), &said("1", "a"));
    client.nothing_comes();
    client.expect(&list, &result("9", r#"{"tools":[]}"#));
    client.expect(&call("1", "b", "{}"), &said("1", "b"));
    client.expect(&request("3", "logging/setLevel", r#"{"level":"info"}"#), &result("3", "{}"));
    client.expect(&list, &result("9", r#"{"tools":[]}"#));
    client.close(0);

    let mut client = sandbox.play(&records, &strict);
    client.ask(&initialize("{}"));
    let miss = client.fails(&call("1", "b", "{}"), -31001);
    assert!(
        miss.contains(r#"tools/call \"b\" is out of order: message 2, tools/call \"a\", comes first"#),
        "{miss}"
    );
    assert!(miss.contains("--ordering per-key"), "{miss}");
    // A level that was recorded later is no probe.
    client.fails(&request("3", "logging/setLevel", r#"{"level":"info"}"#), -31001);
    // What was never recorded is not out of order.
    let miss = client.fails(&call("1", "c", "{}"), -31001);
    assert!(miss.contains(r#"no recorded answer for tools/call \"c\""#), "{miss}");
    client.expect(&call("1", "a", "{}"), &said("1", "a"));
    client.close(3);

    // The handshake too.
    let mut client = sandbox.play(&records, &strict);
    client.fails(&call("1", "a", "{}"), -31001);
    client.close(3);
}

#[test]
fn any_order_gives_the_first_answer_as_often_as_asked() {
    let sandbox = Sandbox::new();
    let records = [answered("1", "t", "{}", "one"), answered("2", "t", "{}", "two")].concat();
    let mut client = sandbox.play(&records, &["--ordering", "any"]);
    for _ in 0..3 {
        client.expect(&call("5", "t", "{}"), &said("5", "one"));
    }
    client.fails(&call("5", "u", "{}"), -31001);
    client.close(3);
}

#[test]
fn recorded_errors_are_answers() {
    let sandbox = Sandbox::new();
    let records = [
        c(call("1", "t", "{}")),
        s(error("1", -32602, "no")),
        c(call("2", "u", "{}")),
        s(result("2", r#"{"content":[],"isError":true}"#)),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.expect(&call("8", "t", "{}"), &error("8", -32602, "no"));
    client.expect(&call("9", "u", "{}"), &result("9", r#"{"content":[],"isError":true}"#));
    client.close(0);
}

#[test]
fn ids_that_repeat_are_paired_by_connection_direction_and_order() {
    let sandbox = Sandbox::new();
    let question = request("1", "sampling/createMessage", "{}");
    let records = [
        c(call("1", "a", "{}")),
        s(question),
        c(result("1", r#"{"role":"assistant"}"#)),
        s(said("1", "a")),
        c(call("1", "b", "{}")),
        s(said("1", "b")),
        "c1 ".to_owned() + &call("1", "c", "{}"),
        c(call("2", "d", "{}")),
        "s1 ".to_owned() + &said("1", "c"),
        s(said("2", "d")),
    ];
    let mut client = sandbox.play(&records, &[]);
    for (name, id) in [("d", "1"), ("c", "2"), ("b", "3"), ("a", "4")] {
        client.expect(&call(id, name, "{}"), &said(id, name));
    }
    let ended = client.close(0);
    assert!(ended.stderr.contains("sampling/createMessage was not sent"), "{}", ended.stderr);
}

#[test]
fn where_nothing_is_used_up_one_answer_stands_for_all_of_its_request() {
    let sandbox = Sandbox::new();
    let records =
        [answered("1", "t", "{}", "x"), answered("2", "t", "{}", "y"), answered("3", "u", "{}", "z")]
            .concat();
    let options = ["--ordering", "any", "--require-all-used"];
    let mut client = sandbox.play(&records, &options);
    for _ in 0..3 {
        client.expect(&call("7", "t", "{}"), &said("7", "x"));
    }
    client.expect(&call("8", "u", "{}"), &said("8", "z"));
    client.close(0);
    let mut client = sandbox.play(&records, &options);
    client.ask(&call("7", "t", "{}"));
    let ended = client.close(3);
    assert!(ended.stderr.contains("tools/call \"u\""), "{}", ended.stderr);
}

#[test]
fn a_list_that_lost_an_element_which_is_left_out_is_named_as_a_whole() {
    let sandbox = Sandbox::new();
    let arguments = |list: &str| format!(r#"{{"list":{list}}}"#);
    let records = answered("1", "t", &arguments("[1,2]"), "x");
    let mut client = sandbox.play(&records, &["--ignore", "/params/arguments/list/1"]);
    client.expect(&call("2", "t", &arguments("[1,3]")), &said("2", "x"));
    let miss = client.fails(&call("3", "t", &arguments("[1]")), -31001);
    assert!(miss.contains(r#""path":"/params/arguments/list","recorded":[1,2],"live":[1]"#), "{miss}");
    assert!(miss.contains("--ignore /params/arguments/list;"), "{miss}");
    client.close(3);
}
