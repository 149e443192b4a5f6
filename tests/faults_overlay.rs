//! Overlays: what is refused and where, what is reported, and the dry run.

use std::fs;
use std::path::Path;

use mcpreel::replay::faults::overlay::Overlay;
use serde_json::Value;

use crate::format::Validator;
use crate::support::replay::{answered, call, fault_on, handshake, on, said};
use crate::support::web;
use crate::support::{MCPREEL, Sandbox, modern};

/// Two calls of `a`, one of `b`.
fn records() -> Vec<String> {
    let mut records = handshake();
    for (id, name, arguments) in [("1", "a", r#"{"q":1}"#), ("2", "b", "{}"), ("3", "a", r#"{"q":2}"#)] {
        records.extend(answered(id, name, arguments, name));
    }
    records
}

fn fault(target: &str, rest: &str) -> String {
    format!("{{\"target\":{target},{rest}}}")
}

const TIMEOUT: &str = "\"type\":\"timeout\"";

/// Checks that `serve` refuses with this line and that nothing was served.
#[track_caller]
fn refused(sandbox: &Sandbox, options: &[&str], line: &str) {
    let arguments = ["serve", "c.json"].iter().chain(options);
    let done = sandbox.mcpreel(arguments).lines(&[&call("1", "a", "{}")]).run().expect(2);
    assert_eq!((done.stderr(), done.stdout()), (format!("mcpreel: {line}\n"), String::new()));
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_served() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &records());
    let with = ["--faults", "f.json"];
    for (faults, line) in [
        (
            vec![fault(r#"{"nht":1}"#, TIMEOUT)],
            "f.json: line 2, /faults/0/target/nht: is unknown; a target has method, server, name, arguments, nth, probability, seed",
        ),
        (
            vec![fault("{}", TIMEOUT), fault(r#"{"nth":"4..2"}"#, TIMEOUT)],
            "f.json: line 3, /faults/1/target/nth: is a range that holds nothing: its end is before its start",
        ),
        (
            vec![fault(r#"{"name":"a"}"#, TIMEOUT), fault(r#"{"nth":3}"#, "\"type\":\"error\"")],
            "f.json: line 3, /faults/1: \"error\" contradicts \"timeout\" of /faults/0: both hit the recorded tools/call \"a\" \
             (message 7); an \"nth\" keeps them apart",
        ),
        (
            vec![fault(r#"{"arguments":{"/x~2":1}}"#, TIMEOUT)],
            "f.json: line 2, /faults/0/target/arguments/~1x~02: in a JSON pointer ~ is written ~0, and / inside a name ~1",
        ),
        (
            vec![fault(r#"{"server":"other"}"#, TIMEOUT)],
            "f.json: line 2, /faults/0: is for server \"other\"; the cassette has demo",
        ),
        (
            vec![fault_on("a", "http_status", r#"{"status":503}"#)],
            "f.json: line 2, /faults/0: \"http_status\" cannot be had here: standard input and output have no statuses",
        ),
        (
            vec![fault_on("a", "cut_stream", "{}")],
            "f.json: line 2, /faults/0: \"cut_stream\" cannot be had here: standard input and output have no streams of events",
        ),
        (
            vec![fault_on("a", "session_expired", "{}")],
            "f.json: line 2, /faults/0: \"session_expired\" cannot be had here: standard input and output have no sessions that expire",
        ),
    ] {
        sandbox.faults(&faults);
        refused(&sandbox, &with, line);
    }
    refused(&sandbox, &["--faults", "none.json"], "none.json: cannot be read: no such file or directory");
    sandbox.file("f.json", b"\xff");
    refused(&sandbox, &with, "f.json: is not UTF-8; expected a JSON file of faults");
    refused(&sandbox, &["--require-faults"], "--require-faults needs --faults FILE");
}

#[test]
fn thousands_of_faults_are_ready_at_once() {
    let sandbox = Sandbox::new();
    let noise = |n: usize| match n % 2 {
        0 => fault(r#"{"name":"b"}"#, "\"type\":\"stderr_noise\""),
        _ => fault(&format!("{{\"name\":\"a\",\"nth\":{n}}}"), "\"type\":\"stderr_noise\""),
    };
    sandbox.faults(&(0..60_000).map(noise).collect::<Vec<_>>());
    let mut client = sandbox.play(&records(), &["-q", "--faults", "f.json"]);
    let answers = client.converse(&[&call("1", "a", r#"{"q":1}"#), &call("2", "b", "{}")]);
    assert_eq!(answers.len(), 2, "{answers:?}");
    let said = client.close(0).stderr;
    assert_eq!(said.matches("mcpreel injected noise\n").count(), 30_001);
}

#[test]
fn what_http_does_not_have_either() {
    let sandbox = Sandbox::new();
    let call = modern("1", "tools/call", r#""name":"a","arguments":{}"#, "{}");
    sandbox.http_cassette(&[web::c(1, call), web::s(1, said("1", "a")).status(200)]);
    for (kind, why) in [
        ("late", "a modern client gives up by closing the stream that the answer would come on"),
        ("session_expired", "the server issued no sessions"),
    ] {
        sandbox.faults(&[fault_on("a", kind, "{}")]);
        let line = format!("f.json: line 2, /faults/0: {kind:?} cannot be had here: {why}");
        refused(&sandbox, &["--faults", "f.json"], &line);
    }
}

#[test]
fn nothing_is_recorded_with_faults() {
    let sandbox = Sandbox::new();
    sandbox.faults(&[fault_on("a", "timeout", "{}")]);
    for mode in ["once", "all"] {
        let arguments = [
            "use",
            "--cassette",
            "c.json",
            "--mode",
            mode,
            "--faults",
            "f.json",
            "--",
            MCPREEL,
            "demo",
            "server",
        ];
        let done = sandbox.mcpreel(arguments).run().expect(2);
        let line = format!(
            "mcpreel: --faults f.json is for replays, and this would record (mode {mode} (--mode)); \
             with --mode none it replays or fails\n"
        );
        assert_eq!((done.stderr(), done.stdout()), (line, String::new()));
        let left: Vec<_> =
            fs::read_dir(&sandbox.path).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(left, ["f.json"], "{mode}");
    }
    let done = sandbox.mcpreel(["record", "--faults", "f.json", "--cassette", "c.json", "--", "true"]).run();
    done.expect(2);
}

#[test]
fn use_replays_with_faults() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &records());
    sandbox.faults(&[fault_on("b", "error", "{}")]);
    let arguments = [
        "use",
        "-q",
        "--cassette",
        "c.json",
        "--faults",
        "f.json",
        "--require-faults",
        "--pace",
        "instant",
        "--",
        "demo",
    ];
    let mut client = sandbox.mcpreel(arguments).start();
    client.greet("{}");
    client.fails(&call("5", "b", "{}"), -32603);
    client.close(0);
}

#[test]
fn faults_that_never_fired() {
    let faults = [fault_on("a", "timeout", "{}"), fault_on("nosuch", "error", "{}")];
    let row = |index: u32, kind: &str, name: &str, fired: u32, exchanges: &str| {
        format!(
            "{{\"index\":{index},\"type\":\"{kind}\",\"target\":{{\"method\":\"tools/call\",\"name\":\"{name}\"}},\
             \"fired\":{fired},\"exchanges\":{exchanges}}}"
        )
    };
    let rows = format!(
        "\"faults\":[{},{}],\"unfired\":[1],",
        row(0, "timeout", "a", 2, "[3,7]"),
        row(1, "error", "nosuch", 0, "[]")
    );
    let note = "mcpreel: fault 1 (error on {\"method\":\"tools/call\",\"name\":\"nosuch\"}) never fired";
    for http in [false, true] {
        for (require, status) in [(None, 0), (Some("--require-faults"), 3)] {
            let sandbox = Sandbox::new();
            sandbox.faults(&faults);
            let options: Vec<&str> =
                ["--faults", "f.json", "--report", "report.jsonl"].into_iter().chain(require).collect();
            let calls = [call("5", "a", r#"{"q":1}"#), call("6", "a", r#"{"q":2}"#)];
            let stderr = if http {
                let server = sandbox.play_http(&records(), &options);
                let client = server.greet("{}");
                let streams: Vec<_> = calls.iter().map(|call| client.stream(call)).collect();
                drop((streams, client));
                server.end(status).stderr
            } else {
                let mut client = sandbox.play(&records(), &options);
                client.greet("{}");
                calls.iter().for_each(|call| client.send(call));
                client.nothing_comes();
                client.close(status).stderr
            };
            let said: Vec<&str> = stderr.lines().filter(|line| line.contains("never fired")).collect();
            assert_eq!(said, [note], "http: {http}");
            let report = sandbox.read("report.jsonl");
            assert!(report.contains(&rows), "http: {http}\n{report}");
        }
    }
}

#[test]
fn a_report_without_faults_has_no_word_of_them() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&records(), &["--report", "report.jsonl"]);
    client.greet("{}");
    client.close(0);
    assert!(!sandbox.read("report.jsonl").contains("fault"));
}

#[test]
fn how_a_replay_ended_by_a_fault() {
    for (kind, params, status) in [("exit", r#"{"code":9}"#, 9), ("disconnect", "{}", 0)] {
        let sandbox = Sandbox::new();
        sandbox.faults(&[fault_on("b", kind, params)]);
        let mut client = sandbox.play(&records(), &["--faults", "f.json", "--report", "report.jsonl"]);
        client.greet("{}");
        client.send(&call("5", "b", "{}"));
        client.end(status);
        let report = sandbox.read("report.jsonl");
        assert!(report.contains(&format!("\"ended\":\"a fault, status {status}\"")), "{report}");
    }
    // What the replay found out goes before the status of a fault.
    let sandbox = Sandbox::new();
    sandbox.faults(&[fault_on("b", "exit", r#"{"code":9}"#)]);
    let mut client = sandbox.play(&records(), &["--faults", "f.json"]);
    client.greet("{}");
    client.fails(&call("4", "unknown", "{}"), -31001);
    client.send(&call("5", "b", "{}"));
    client.end(3);
}

#[test]
fn faults_that_meet_only_live() {
    // In the recording the second call of `a` is the third of all; here it is the second.
    let sandbox = Sandbox::new();
    sandbox.faults(&[
        fault(r#"{"name":"a","nth":2}"#, "\"type\":\"error\""),
        fault(r#"{"method":"tools/call","nth":2}"#, TIMEOUT),
    ]);
    let mut client = sandbox.play(&records(), &["--faults", "f.json", "--require-faults"]);
    client.greet("{}");
    client.expect(&call("5", "a", r#"{"q":1}"#), &said("5", "a"));
    client.fails(&call("6", "a", r#"{"q":2}"#), -32603);
    let stderr = client.close(3).stderr;
    assert!(stderr.contains("fault 1 (timeout) contradicts fault 0, which goes before it"), "{stderr}");
    assert!(stderr.contains("fault 1 (timeout on "), "{stderr}");
}

#[test]
fn the_same_seed_is_the_same_run() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    for id in 0..40 {
        records.extend(answered(&id.to_string(), "x", &format!("{{\"n\":{id}}}"), "ok"));
    }
    sandbox.tape_with("", &records);
    let run = |seed: u32| {
        sandbox.faults(&[fault(
            &format!(r#"{{"name":"x","probability":0.5,"seed":{seed}}}"#),
            "\"type\":\"error\"",
        )]);
        let mut client = sandbox.serve(&["--faults", "f.json"]);
        client.greet("{}");
        let got: Vec<bool> = (0..40)
            .map(|id| {
                client.ask(&call(&id.to_string(), "x", &format!("{{\"n\":{id}}}"))).contains("\"error\"")
            })
            .collect();
        client.close(0);
        got
    };
    let first = run(11);
    assert_eq!(first, run(11));
    assert_ne!(first, run(12));
    // And what the dry run says.
    sandbox.faults(&[fault(r#"{"name":"x","probability":0.5,"seed":11}"#, "\"type\":\"error\"")]);
    let done =
        sandbox.mcpreel(["inspect", "c.json", "--faults", "f.json", "--format", "json"]).run().expect(0);
    let said: Value = serde_json::from_str(&done.stdout()).unwrap();
    let hits = said["faults"][0]["hits"].as_array().unwrap();
    let hits: Vec<u64> = hits.iter().map(|hit| (hit["message"].as_u64().unwrap() - 3) / 2).collect();
    let hit: Vec<u64> = (0..40).filter(|id| first[usize::try_from(*id).unwrap()]).collect();
    assert_eq!(hits, hit);
}

#[test]
fn the_dry_run() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &records());
    sandbox.faults(&[
        fault(r#"{ "name": "a" }"#, "\"type\":\"delay\",\"params\":{\"ms\":5}"),
        fault(r#"{"method":"tools/call","nth":"2..3"}"#, TIMEOUT).replace("timeout", "malformed"),
        fault_on("nosuch", "error", "{}"),
        fault(r#"{"name":"a","nth":1}"#, "\"type\":\"http_status\",\"params\":{\"status\":429}"),
    ]);
    let inspect = ["inspect", "c.json", "--faults", "f.json"];
    assert_eq!(
        sandbox.mcpreel(inspect).run().expect(0).stdout(),
        r#"fault 0 (line 2): delay on {"name":"a"}: hits 2 recorded requests
  exchange 2 (#3) tools/call "a"
  exchange 4 (#7) tools/call "a"
fault 1 (line 3): malformed on {"method":"tools/call","nth":"2..3"}: hits 2 recorded requests
  exchange 3 (#5) tools/call "b"
  exchange 4 (#7) tools/call "a"
fault 2 (line 4): error on {"method":"tools/call","name":"nosuch"}: hits nothing
fault 3 (line 5): http_status on {"name":"a","nth":1}: hits 1 recorded request
  refused for "demo", served as it was recorded: standard input and output have no statuses
  exchange 2 (#3) tools/call "a"
"#
    );
    let done = sandbox.mcpreel(inspect.iter().chain(&["--format", "json"])).run().expect(0);
    let said: Value = serde_json::from_str(&done.stdout()).unwrap();
    assert_eq!(said["unfired"], serde_json::json!([2]));
    assert_eq!(
        said["faults"][3],
        serde_json::json!({
            "index": 3, "line": 5, "type": "http_status", "target": {"name": "a", "nth": 1},
            "hits": [{"exchange": 2, "message": 3, "server": "demo", "method": "tools/call", "name": "a"}],
            "refused": [{"server": "demo", "why": "standard input and output have no statuses"}],
        })
    );
    sandbox.faults(&[fault("{}", TIMEOUT), fault("{}", TIMEOUT)]);
    let stderr = sandbox.mcpreel(inspect).run().expect(2).stderr();
    assert!(stderr.starts_with("mcpreel: f.json: line 3, /faults/1: \"timeout\" contradicts"), "{stderr}");
    sandbox.mcpreel(inspect.iter().chain(&["--timeline"])).run().expect(2);
}

#[test]
fn faults_of_other_servers_are_left_to_them() {
    let sandbox = Sandbox::new();
    let message = |server: &str, record: &str| {
        let (side, payload) = record.split_once(' ').unwrap();
        let from = if side.starts_with('c') { "client" } else { "server" };
        format!("{{\"from\":\"{from}\",\"server\":\"{server}\",\"payload\":{payload}}}")
    };
    let records: Vec<String> = ["one", "two"]
        .iter()
        .flat_map(|server| records().into_iter().map(|record| message(server, &record)))
        .collect();
    sandbox.file(
        "c.json",
        format!(
            "{{\"mcpreel\":1,\"servers\":{{\"one\":{{}},\"two\":{{\"transport\":\"http\"}}}},\"messages\":[{}]}}",
            records.join(",")
        ),
    );
    sandbox.faults(&[
        fault(r#"{"server":"two","name":"b"}"#, "\"type\":\"http_status\",\"params\":{\"status\":503}"),
        fault(r#"{"server":"o*","name":"b"}"#, "\"type\":\"error\""),
    ]);
    let mut client = sandbox.serve(&["--server", "one", "--faults", "f.json", "--require-faults"]);
    client.greet("{}");
    client.fails(&call("5", "b", "{}"), -32603);
    client.close(0);
    let text = sandbox.mcpreel(["inspect", "c.json", "--faults", "f.json"]).run().expect(0).stdout();
    assert!(text.contains("http_status") && text.contains(") tools/call \"b\", server \"two\"\n"), "{text}");
    let text = sandbox
        .mcpreel(["inspect", "c.json", "--faults", "f.json", "--server", "one"])
        .run()
        .expect(0)
        .stdout();
    assert!(text.contains("{\"server\":\"two\",\"name\":\"b\"}: hits nothing\n"), "{text}");
}

#[test]
fn each_process_counts_for_itself() {
    let sandbox = Sandbox::new();
    let mut both = records();
    both.extend(records().iter().map(|record| on(1, record)));
    sandbox.tape_with("", &both);
    sandbox.faults(&[fault(r#"{"method":"tools/call","nth":1}"#, "\"type\":\"error\"")]);
    for _ in 0..2 {
        let mut client = sandbox.serve(&["--faults", "f.json", "--require-faults"]);
        client.greet("{}");
        client.fails(&call("5", "b", "{}"), -32603);
        client.expect(&call("6", "b", "{}"), &said("6", "b"));
        client.close(0);
    }
}

fn loads(text: &str) -> bool {
    Overlay::parse(Path::new("f.json"), text).is_ok()
}

/// The types that the schema has, each with its parameters.
fn types(schema: &Value) -> Vec<(String, Vec<String>)> {
    let variants = schema["$defs"]["fault"]["anyOf"].as_array().unwrap();
    let variant = |variant: &Value| {
        let params = &variant["properties"]["params"];
        let params = params.get("properties").unwrap_or_else(|| &params["anyOf"][1]["properties"]);
        let names = params.as_object().unwrap().keys().cloned().collect();
        (variant["properties"]["type"]["const"].as_str().unwrap().to_owned(), names)
    };
    variants.iter().map(variant).collect()
}

#[test]
fn the_schema_takes_what_is_read_and_nothing_else() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/faults.schema.json");
    let schema: Value = serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    let validator = Validator { schema: &schema };
    let mut taken = 0;
    let mut agree = |text: &str| {
        let (read, faults) = (loads(text), validator.check(text));
        assert_eq!(read, faults.is_empty(), "{text}: {faults:?}");
        taken += u32::from(read);
    };
    let values = [
        "null",
        "true",
        "false",
        "-1",
        "0",
        "1",
        "2",
        "200",
        "255",
        "256",
        "599",
        "600",
        "100000",
        "100001",
        "1.5",
        "\"\"",
        "\"x\"",
        "\"truncate\"",
        "\"not_json\"",
        "\"2..4\"",
        "\"2..\"",
        "\"0..1\"",
        "\"1..x\"",
        "[]",
        "[1]",
        "[0]",
        "[\"1\"]",
        "{}",
        "{\"\":1}",
        "{\"/a\":1}",
        "{\"/a~1b/~0\":1}",
        "{\"/x~2\":1}",
        "{\"/~\":1}",
        "{\"a\":1}",
        "{\"a b\":\"x\"}",
        "{\"a\":\"x\"}",
        "{\"a\":\"x\\ny\"}",
        "0.5",
        "315360000000",
        "315360000001",
        "-32603",
        "-2147483649",
    ];
    let types = types(&schema);
    assert_eq!(types.len(), 14);
    let mut names: Vec<&str> = types.iter().flat_map(|(_, names)| names.iter().map(String::as_str)).collect();
    names.extend(["nosuch", "ms "]);
    for (kind, own) in types.iter().chain([&("nosuch".to_owned(), Vec::new())]) {
        agree(&format!(r#"{{"faults":[{{"type":"{kind}","target":{{}}}}]}}"#));
        agree(&format!(r#"{{"faults":[{{"type":"{kind}","target":{{}},"params":null}}]}}"#));
        agree(&format!(r#"{{"faults":[{{"type":"{kind}","target":{{}},"params":[]}}]}}"#));
        // What must be there stands beside what is tried.
        let needed = match kind.as_str() {
            "http_status" => "\"status\":500",
            "drip" => "\"bytes_per_second\":9",
            _ => "",
        };
        // A parameter of another type is refused whatever it is.
        let tried = |name: &str| if own.iter().any(|own| own == name) { &values[..] } else { &values[6..7] };
        for (name, value) in
            names.iter().flat_map(|name| tried(name).iter().map(move |value| (*name, *value)))
        {
            let comma = if needed.is_empty() || needed.contains(name) { "" } else { "," };
            let needed = if needed.contains(name) { "" } else { needed };
            agree(&format!(
                r#"{{"faults":[{{"type":"{kind}","target":{{}},"params":{{{needed}{comma}"{name}":{value}}}}}]}}"#
            ));
        }
    }
    for name in ["method", "server", "name", "arguments", "nth", "probability", "seed", "nosuch"] {
        for value in values {
            agree(&format!(r#"{{"faults":[{{"type":"late","target":{{"{name}":{value}}}}}]}}"#));
            agree(&format!(
                r#"{{"faults":[{{"type":"late","target":{{"probability":0.5,"seed":{value}}}}}]}}"#
            ));
        }
    }
    for text in [
        "[]",
        "{}",
        r#"{"faults":{}}"#,
        r#"{"faults":[1]}"#,
        r#"{"faults":[]}"#,
        r#"{"faults":[{}]}"#,
        r#"{"$schema":"x","faults":[]}"#,
        r#"{"fault":[],"faults":[]}"#,
        r#"{"faults":[{"type":"late"}]}"#,
        r#"{"faults":[{"target":{}}]}"#,
        r#"{"faults":[{"type":"late","target":[]}]}"#,
        r#"{"faults":[{"type":"late","target":{},"param":{}}]}"#,
    ] {
        agree(text);
    }
    assert!(taken > 100, "{taken}");
}

/// The player alone: what HTTP tells it of a client that leaves.
#[test]
fn who_leaves_a_held_call_has_given_up() {
    use mcpreel::cassette::Cassette;
    use mcpreel::jsonrpc::message::View;
    use mcpreel::redact;
    use mcpreel::replay::faults::Faults;
    use mcpreel::replay::key::Rules;
    use mcpreel::replay::player::{Options, Output, Player};
    use mcpreel::replay::tape::Tape;

    let sandbox = Sandbox::new();
    sandbox.tape_with("", &records());
    for (kind, params, before) in
        [("late", "{}", 0), ("timeout", "{}", 1), ("delay", r#"{"ms":3600000}"#, 1), ("reorder", "{}", 0)]
    {
        let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
        let rules = Rules::new(&[], &[], redact::Rules::new(false, &[]).unwrap().into()).unwrap();
        let text = format!("{{\"faults\":[{}]}}", fault_on("a", kind, params));
        let faults = Faults::new(Overlay::parse(Path::new("f.json"), &text).unwrap());
        let options = Options { http: true, sessions: true, ..Options::default() };
        let mut player = Player::new(Tape::new(cassette, 0), rules, options).with_faults(faults);
        let session = player.open(Box::new(|_| 0));
        let fired = |player: &Player| player.fault_rows().unwrap()[0].fired;
        let call_to = |id, tool, arguments| {
            let text = call(id, tool, arguments);
            let view = View::of(&text).unwrap();
            (text, view, None)
        };
        let (text, view, key) = call_to("5", "a", r#"{"q":1}"#);
        player.receive_as(1, session, &text, view, key, 0);
        assert_eq!(fired(&player), before, "{kind}");
        player.outputs().for_each(drop);
        player.left(1, 10);
        assert_eq!(fired(&player), usize::from(kind != "reorder"), "{kind}");
        let answers = player.outputs().filter(|output| matches!(output, Output::Message { .. })).count();
        assert_eq!(answers, 0, "{kind}");
        // Nothing is left that a later cancellation or call would stir up.
        let (text, view, key) = call_to("6", "b", "{}");
        player.receive_as(2, session, &text, view, key, 20);
        let answers = player.outputs().filter(|output| matches!(output, Output::Message { .. })).count();
        assert_eq!(answers, 1, "{kind}");
    }
}
