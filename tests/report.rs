//! `mcpreel report`, and the rows that replays append for it.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::format::Validator;
use crate::support::replay::{answered, c, call, handshake, request, result, s, said};
use crate::support::{Sandbox, eventually};

fn schema() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/reference/report.schema.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
}

/// The names of an object's members.
fn names(value: &Value) -> Vec<String> {
    let mut names: Vec<String> = value.as_object().unwrap().keys().cloned().collect();
    names.sort();
    names
}

/// A row of a replay of `/c.json` with these members before the others.
pub fn row(members: &str, misses: &str, unused: &str, more: &str) -> String {
    format!(
        r#"{{"mcpreel_report":1,{members}"cassette":"/c.json","recorded_at":"2026-11-29T20:33:00.000Z","server":"demo","transport":"stdio","hits":2,"repeats":1,"misses":[{misses}],"unrecorded":[],"unused":[{unused}],"pending":[],"warnings":[],"ended":"end of input","require_all_used":false,"exit":0{more}}}"#
    )
}

const MISS: &str = r#"{"method":"tools/call","name":"a<b","why":"no recorded answer for tools/call \"a<b\"","nearest":{"message":3,"differs":[{"path":"/params/arguments/q","recorded":1,"live":12345678901234567890123}]},"hint":"--ignore it"}"#;
const UNUSED: &str = r#"{"message":5,"method":"tools/call","name":"t"}"#;

#[test]
fn a_row_says_everything_that_the_schema_lists() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", r#"{"q":1}"#, "x"));
    records.extend([
        c(call("2", "asks", "{}")),
        s(request("0", "roots/list", "{}")),
        c(result("0", r#"{"roots":[]}"#)),
        s(request("1", "elicitation/create", r#"{"message":"?","requestedSchema":{}}"#)),
        c(result("1", r#"{"action":"decline"}"#)),
        s(said("2", "y")),
    ]);
    let mut client =
        sandbox.play(&records, &["--report", "r.jsonl", "--session", "run-1", "--require-all-used"]);
    client.greet(r#"{"roots":{}}"#);
    client.ask(&call("2", "t", r#"{"q":2}"#));
    client.ask(&request("3", "logging/setLevel", r#"{"level":"info"}"#));
    client.ask(&call("4", "asks", "{}"));
    client.close(3);
    let text = sandbox.read("r.jsonl");
    let schema = schema();
    assert_eq!(Validator { schema: &schema }.check(text.trim_end()), [""; 0]);
    let row: Value = serde_json::from_str(&text).unwrap();
    // Faults and a live server are only told of where there are any, and two members are those of a recording; few misses are all named.
    let elsewhere = ["faults", "live", "recorded", "failed", "misses_left_out"];
    let listed = names(&schema["properties"]).into_iter().filter(|name| !elsewhere.contains(&name.as_str()));
    let listed = listed.collect::<Vec<_>>();
    assert_eq!(names(&row), listed);
    let cassette = fs::canonicalize(sandbox.path.join("c.json")).unwrap();
    for (pointer, expected) in [
        ("/session", r#""run-1""#.to_owned()),
        ("/cassette", format!("{:?}", cassette.to_string_lossy())),
        ("/recorded_at", r#""2026-11-29T20:33:00.000Z""#.to_owned()),
        ("/transport", r#""stdio""#.to_owned()),
        ("/misses/0/why", r#""no recorded answer for tools/call \"t\"""#.to_owned()),
        ("/pending", r#"["roots/list"]"#.to_owned()),
        ("/require_all_used", "true".to_owned()),
        ("/exit", "3".to_owned()),
    ] {
        assert_eq!(row.pointer(pointer).unwrap().to_string(), expected, "{pointer}");
    }
    // The session of the environment counts as well.
    let run = sandbox.mcpreel(["serve", "c.json", "--report", "s.jsonl"]).env("MCPREEL_SESSION", "env-1@1");
    run.run().expect(0);
    assert!(sandbox.read("s.jsonl").contains(r#""session":"env-1","#));
    // The summary fits its part of the schema.
    let run = sandbox.mcpreel(["report", "r.jsonl", "s.jsonl", "--format", "json"]).run().expect(3);
    let mut part = schema.clone();
    part.as_object_mut().unwrap().retain(|name, _| name == "$defs");
    part["$ref"] = Value::from("#/$defs/summary");
    assert_eq!(Validator { schema: &part }.check(run.stdout().trim_end()), [""; 0]);
}

#[test]
fn what_the_cassette_lacks_is_a_warning_of_the_row() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([
        c(call("2", "asks", "{}")),
        s(request("0", "roots/list", "{}")),
        c(result("0", r#"{"roots":[]}"#)),
        s(said("2", "y")),
    ]);
    let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
    client.greet("{}");
    client.ask(&call("4", "asks", "{}"));
    client.close(0);
    let row: Value = serde_json::from_str(&sandbox.read("r.jsonl")).unwrap();
    assert_eq!(
        row["warnings"],
        Value::from(vec!["roots/list was not sent: the client does not declare roots"])
    );
    // So is the choice among redacted values that agree with nothing.
    let rules = r#""redaction":{"rules":["key:*token*"]},"#;
    let login = |id: &str, token: &str| answered(id, "login", &format!(r#"{{"token":"{token}"}}"#), "x");
    sandbox.tape_with(rules, &[login("1", "REDACTED-1"), login("2", "REDACTED-2")].concat());
    let mut client = sandbox.serve(&["--report", "s.jsonl"]);
    client.ask(&call("1", "login", r#"{"token":"dummy"}"#));
    client.ask(&call("2", "login", r#"{"token":"dummy"}"#));
    client.close(0);
    let row: Value = serde_json::from_str(&sandbox.read("s.jsonl")).unwrap();
    let note = "tools/call \"login\": the redacted values do not agree with earlier ones; answering in recorded order";
    assert_eq!(row["warnings"], Value::from(vec![note]));
    // And what was found when the cassette was read.
    let lines = [
        r#"{"mcpreel":1,"journal":true,"recorded_at":"2026-11-29T20:33:00.000Z","servers":{"demo":{"transport":"stdio","command":["demo"]}}}"#,
        &format!(r#"{{"server":"demo","from":"client","payload":{}}}"#, call("1", "t", "{}")),
        &format!(r#"{{"server":"demo","from":"server","payload":{}}}"#, said("1", "x")),
        r#"{"server":"demo","from":"cl"#,
    ];
    sandbox.file("torn.jsonl", lines.join("\n"));
    sandbox.mcpreel(["serve", "torn.jsonl", "--report", "t.jsonl"]).run().expect(0);
    let row: Value = serde_json::from_str(&sandbox.read("t.jsonl")).unwrap();
    assert_eq!(
        row["warnings"],
        Value::from(vec![
            "torn.jsonl: the last line is torn and was left out",
            "torn.jsonl: the recording of demo has no end: its recorder was killed, or still runs"
        ])
    );
}

#[test]
fn twenty_processes_share_a_file() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &answered("1", "t", r#"{"q":0}"#, "x"));
    let long = "x".repeat(150);
    let mut clients: Vec<_> = (0..20).map(|_| sandbox.serve(&["-q", "--report", "r.jsonl"])).collect();
    for (n, client) in clients.iter_mut().enumerate() {
        for miss in 0..100 {
            client.send(&call(&miss.to_string(), "t", &format!(r#"{{"q":"{n} {miss} {long}"}}"#)));
        }
        for _ in 0..100 {
            client.next();
        }
    }
    // All of them end at once.
    clients.iter_mut().for_each(|client| client.stdin = None);
    clients.into_iter().for_each(|client| drop(client.end(3)));
    let text = sandbox.read("r.jsonl");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 20);
    for line in lines {
        assert!(line.len() > 20_000);
        let row: Value = serde_json::from_str(line).unwrap();
        assert_eq!(row["misses"].as_array().unwrap().len(), 100);
    }
    let run = sandbox.mcpreel(["report", "r.jsonl", "--format", "json"]).run().expect(3);
    assert_eq!(run.stdout().matches("\"times\": 1,").count(), 2000);
}

#[test]
fn processes_of_one_cassette_and_server_are_one_picture() {
    let sandbox = Sandbox::new();
    let both = r#"{"message":3,"method":"tools/list"},{"message":5,"method":"tools/call","name":"t"}"#;
    for (rows, options, code, unused) in [
        (vec![row("", "", UNUSED, "")], &[][..], 0, 1),
        (vec![row("", "", UNUSED, "")], &["--require-all-used"], 3, 1),
        // What one leaves another may use.
        (
            vec![row("", "", UNUSED, ""), row("", "", r#"{"message":3,"method":"tools/list"}"#, "")],
            &["--require-all-used"],
            0,
            0,
        ),
        (vec![row("", "", UNUSED, ""), row("", "", both, "")], &["--require-all-used"], 3, 1),
        // In another session too.
        (
            vec![row(r#""session":"a","#, "", UNUSED, ""), row(r#""session":"b","#, "", "", "")],
            &["--require-all-used"],
            0,
            0,
        ),
        // But not for another cassette, server or recording.
        (
            vec![row("", "", UNUSED, ""), row("", "", "", "").replace("/c.json", "/d.json")],
            &["--require-all-used"],
            3,
            1,
        ),
        (
            vec![row("", "", UNUSED, ""), row("", "", "", "").replace("demo", "other")],
            &["--require-all-used"],
            3,
            1,
        ),
        (
            vec![row("", "", UNUSED, ""), row("", "", "", "").replace("20:33", "20:34")],
            &["--require-all-used"],
            3,
            1,
        ),
        // Only tool calls have to be used.
        (vec![row("", "", r#"{"message":3,"method":"tools/list"}"#, "")], &["--require-all-used"], 0, 1),
        // Two requests of one batch look alike.
        (vec![row("", "", &format!("{UNUSED},{UNUSED}"), "")], &["--require-all-used"], 3, 1),
        // A replay that was to use everything says so itself.
        (
            vec![row("", "", UNUSED, "").replace("used\":false,\"exit\":0", "used\":true,\"exit\":3")],
            &[],
            3,
            1,
        ),
        (
            vec![
                row("", "", UNUSED, "").replace("used\":false,\"exit\":0", "used\":true,\"exit\":3"),
                row("", "", "", ""),
            ],
            &[],
            0,
            0,
        ),
        // So does one with a requirement that this version does not know.
        (vec![row("", "", "", "").replace("\"exit\":0", "\"exit\":3")], &[], 3, 0),
        // But a status that a fault was to have, or the server that was recorded, says nothing of that kind.
        (
            vec![
                row("", "", "", "")
                    .replace("\"exit\":0", "\"exit\":137")
                    .replace("end of input", "a fault, status 137"),
                row("", "", "", r#","recorded":3"#).replace("\"exit\":0", "\"exit\":1"),
            ],
            &[],
            0,
            0,
        ),
        (vec![row("", MISS, "", "")], &[], 3, 0),
    ] {
        let text = rows.join("\n");
        sandbox.file("r.jsonl", &text);
        let run = sandbox.mcpreel(["report", "r.jsonl", "--format", "json"].iter().chain(options)).run();
        let summary: Value = serde_json::from_str(&run.stdout()).unwrap();
        assert_eq!((run.code(), run.stderr()), (code, String::new()), "{text}");
        assert_eq!(summary["exit"], code, "{text}");
        let count: usize = summary["played"]
            .as_array()
            .unwrap()
            .iter()
            .map(|it| it["unused"].as_array().unwrap().len())
            .sum();
        assert_eq!(count, unused, "{text}");
        // The order of the rows, the files they are in, and standard input make no difference.
        let mut rows = rows.clone();
        rows.reverse();
        let (last, others) = rows.split_first().unwrap();
        sandbox.file("last", last);
        let turned = if others.is_empty() {
            sandbox.mcpreel(["report", "--format=json", "-"].iter().chain(options)).input(last)
        } else {
            sandbox
                .mcpreel(["report", "--format=json", "last", "-"].iter().chain(options))
                .input(others.join("\n"))
        };
        assert_eq!(turned.run().stdout(), run.stdout(), "{text}");
    }
}

#[test]
fn the_formats_say_the_same() {
    let sandbox = Sandbox::new();
    let rows = [
        row(r#""session":"a","#, MISS, UNUSED, ""),
        row(
            r#""session":"a","#,
            MISS,
            UNUSED,
            r#","faults":[{"index":0,"type":"delay","target":{},"fired":0,"exchanges":[]}]"#,
        ),
        row("", "", UNUSED, "")
            .replace(r#""unrecorded":[]"#, r#""unrecorded":["logging/setLevel \"info\""]"#),
        row("", "", "", "")
            .replace("/c.json", "/a\\u001b|`.json")
            .replace("\"pending\":[]", "\"pending\":[\"roots/list\"]"),
    ];
    sandbox.file("r.jsonl", rows.join("\n"));
    let run = |format: &str| {
        sandbox
            .mcpreel(["report", "r.jsonl", "--require-all-used", "--format", format])
            .run()
            .expect(3)
            .stdout()
    };
    assert_eq!(
        run("text"),
        r#"4 replays: 2 requests without a recorded answer, 1 recorded tool call not used

/c.json, server demo: 3 processes, 6 hits, 3 repeats, 2 misses
  miss (session a, 2 times): no recorded answer for tools/call "a<b"; nearest is message 3; /params/arguments/q: recorded 1, live 12345678901234567890123
    --ignore it
  not used, and required: message 5, tools/call "t"
  fault 0 (delay) never fired
  answered by rule: logging/setLevel "info"

/a\u{1b}|`.json, server demo: 1 process, 2 hits, 1 repeat, 0 misses
  never answered by the client: roots/list
"#
    );
    assert_eq!(
        run("md"),
        r#"### mcpreel: 4 replays: 2 requests without a recorded answer, 1 recorded tool call not used

| cassette | server | processes | hits | repeats | misses | not used |
|---|---|--:|--:|--:|--:|--:|
| ``/a\u{1b}\|`.json`` | `demo` | 1 | 2 | 1 | 0 | 0 |
| `/c.json` | `demo` | 3 | 6 | 3 | 2 | 1 |

**Without a recorded answer: `/c.json`, `demo`**

- `no recorded answer for tools/call "a<b"; nearest is message 3; /params/arguments/q: recorded 1, live 12345678901234567890123` (`session a, 2 times`)<br>`--ignore it`

**Recorded and not used: `/c.json`, `demo`**

- message 5, `tools/call "t"`

**Faults that never fired: `/c.json`, `demo`**

- fault 0, `delay`
"#
    );
    assert_eq!(
        run("junit"),
        r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="mcpreel" tests="5" failures="2" errors="0">
  <testsuite name="/a\u{1b}|`.json demo" tests="2" failures="0" errors="0">
    <testcase classname="/a\u{1b}|`.json demo" name="no session">
      <system-err>pending: roots/list</system-err>
    </testcase>
    <testcase classname="/a\u{1b}|`.json demo" name="every recorded tool call is used"/>
  </testsuite>
  <testsuite name="/c.json demo" tests="3" failures="2" errors="0">
    <testcase classname="/c.json demo" name="no session">
      <system-err>answered by rule: logging/setLevel &quot;info&quot;</system-err>
    </testcase>
    <testcase classname="/c.json demo" name="session a">
      <failure type="miss" message="2 requests without a recorded answer">no recorded answer for tools/call &quot;a&lt;b&quot;; nearest is message 3; /params/arguments/q: recorded 1, live 12345678901234567890123 (session a, 2 times)
  --ignore it</failure>
    </testcase>
    <testcase classname="/c.json demo" name="every recorded tool call is used">
      <failure type="unused" message="1 recorded tool call not used">message 5, tools/call &quot;t&quot;</failure>
    </testcase>
  </testsuite>
</testsuites>
"#
    );
    let summary: Value = serde_json::from_str(&run("json")).unwrap();
    assert_eq!(summary["played"][1]["sessions"][1]["misses"][0]["times"], 2);
    assert!(run("json").contains("12345678901234567890123"), "no number is written anew");
    assert!(!run("json").contains('\u{1b}'));
}

#[test]
fn what_is_green_is_short() {
    let sandbox = Sandbox::new();
    sandbox.file("r.jsonl", row("", "", "", ""));
    let run = sandbox.mcpreel(["report", "r.jsonl"]).run().expect(0);
    assert_eq!(
        run.stdout(),
        "1 replay: everything that was asked was recorded\n\n/c.json, server demo: 1 process, 2 hits, 1 repeat, 0 misses\n"
    );
}

#[test]
fn a_torn_row_is_told_and_passed_over() {
    let sandbox = Sandbox::new();
    let whole = row("", "", "", "");
    let told = "mcpreel: r.jsonl: line 2: is cut off: a process was killed while it wrote, and what it did is not known\n";
    for torn in [&whole[..1], &whole[..12], &whole[..60], &whole[..whole.len() - 1]] {
        sandbox.file("r.jsonl", format!("{whole}\n{torn}\n{whole}\n"));
        let run = sandbox.mcpreel(["report", "r.jsonl"]).run().expect(1);
        assert_eq!(run.stderr(), told, "{torn}");
        assert!(run.stdout().starts_with("2 replays: 1 row cut off\n"), "{}", run.stdout());
        let run = sandbox.mcpreel(["report", "r.jsonl", "--format", "junit"]).run().expect(1);
        assert!(run.stdout().contains(r#"tests="2" failures="0" errors="1">"#), "{}", run.stdout());
        // A miss weighs more.
        sandbox.file("r.jsonl", format!("{}\n{torn}", row("", MISS, "", "")));
        assert_eq!(sandbox.mcpreel(["report", "r.jsonl"]).run().expect(3).stderr(), told);
    }
    // The next replay keeps its row apart from what is torn.
    sandbox.tape_with("", &answered("1", "t", "{}", "x"));
    sandbox.file("r.jsonl", format!("{whole}\n{}", &whole[..60]));
    sandbox.mcpreel(["serve", "c.json", "--report", "r.jsonl"]).run().expect(0);
    assert_eq!(sandbox.read("r.jsonl").lines().count(), 3);
    assert_eq!(sandbox.mcpreel(["report", "r.jsonl"]).run().expect(1).stderr(), told);
}

#[test]
fn what_is_no_report_is_named_by_file_and_line() {
    let sandbox = Sandbox::new();
    let whole = row("", "", "", "");
    for (text, complaint) in [
        (String::new(), "r: holds no report: no replay that was to write one has ended"),
        ("\n\n".to_owned(), "r: holds no report: no replay that was to write one has ended"),
        (
            "hello\n".to_owned(),
            "r: line 1: is no report of a replay, as --report writes them: expected value",
        ),
        (
            format!("{whole}\n{{\"a\":1}}\n"),
            "r: line 2: is no report of a replay, as --report writes them: missing field `mcpreel_report`",
        ),
        (
            format!("{whole}\n\n{{\"a\":"),
            "r: line 3: is no report of a replay, as --report writes them: EOF while parsing a value",
        ),
        (
            whole.replace("\"misses\":[]", "\"misses\":1"),
            "r: line 1: is no report of a replay, as --report writes them: invalid type: integer `1`, expected a sequence",
        ),
        (
            whole.replace("report\":1", "report\":2"),
            "r: line 1: is a report of format 2, and this mcpreel reads format 1; use a newer one",
        ),
    ] {
        sandbox.file("r", &text);
        let run = sandbox.mcpreel(["report", "r"]).run().expect(2);
        assert_eq!((run.stderr(), run.stdout()), (format!("mcpreel: {complaint}\n"), String::new()));
        let run = sandbox.mcpreel(["report", "-"]).input(&text).run().expect(2);
        assert_eq!(run.stderr(), format!("mcpreel: standard input{}\n", &complaint[1..]));
    }
    for (arguments, complaint) in [
        (&["none"][..], "none: no such report: no replay has written one"),
        (&["."], ".: cannot be read: is a directory"),
        (&[], "report needs <file>; see mcpreel report --help"),
        (&["-", "-"], "report reads standard input once"),
        (
            &["r", "--format", "xml"],
            "--format \"xml\": expected text, json, junit or md; see mcpreel report --help",
        ),
    ] {
        let run = sandbox.mcpreel(["report"].iter().chain(arguments)).run().expect(2);
        assert_eq!(run.stderr(), format!("mcpreel: {complaint}\n"));
    }
}

#[test]
fn a_report_that_cannot_be_written_is_told_at_once_and_at_the_end() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &answered("1", "t", "{}", "x"));
    // Before anything is played, where that can be known.
    let (path, why) = ("no/such/folder/r", "no such file or directory");
    let run =
        sandbox.mcpreel(["serve", "c.json", "--report", path]).input(call("1", "t", "{}")).run().expect(1);
    assert_eq!(run.stderr(), format!("mcpreel: cannot write the report {path}: {why}\n"));
    assert_eq!(run.stdout(), "");
    // Else at the end; what the replay found goes before it.
    for (asked, code, words) in
        [("{}", 1, ""), (r#"{"q":1}"#, 3, "mcpreel: 1 request without a recorded answer\n")]
    {
        let mut client = sandbox.serve(&["--report", "/dev/full"]);
        client.ask(&call("1", "t", asked));
        let ended = client.close(code);
        let end = format!("{words}mcpreel: cannot write the report /dev/full: no space left on device\n");
        assert!(ended.stderr.ends_with(&end), "{}", ended.stderr);
    }
    // A pipe is a file too.
    let run = sandbox.mcpreel(["serve", "c.json", "--report", "/dev/stderr"]).run().expect(0);
    assert!(run.stderr().starts_with("{\"mcpreel_report\":1,"), "{}", run.stderr());
}

#[test]
fn a_cassette_is_never_taken_for_the_report() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &answered("1", "t", "{}", "x"));
    let whole = sandbox.read("c.json");
    sandbox.mcpreel(["convert", "c.json", "-o", "c.jsonl"]).run().expect(0);
    sandbox.mcpreel(["convert", "c.json", "-o", "x.har", "--to", "har", "--lossy"]).run().expect(0);
    sandbox.file("torn.json", whole.split_at(whole.len() / 2).0);
    for name in ["c.json", "./c.json", "c.jsonl", "x.har", "torn.json"] {
        let before = sandbox.read(name);
        let args = ["serve", "c.json", "--report", name];
        let run = sandbox.mcpreel(args).input(call("1", "t", "{}")).run().expect(2);
        let what = "is a cassette; a report goes into a file or a folder of its own";
        assert_eq!(run.stderr(), format!("mcpreel: --report {name}: {what}\n"));
        assert_eq!((run.stdout().as_str(), sandbox.read(name)), ("", before));
    }
    // A report that is there, torn or not, is gone on with.
    for there in ["", "{\"mcpreel_report\":1,\"ser"] {
        sandbox.file("r.jsonl", there);
        let args = ["serve", "c.json", "--report", "r.jsonl"];
        sandbox.mcpreel(args).input(call("1", "t", "{}")).run().expect(0);
        assert_ne!(sandbox.read("r.jsonl"), there);
    }
}

/// A cassette with two tool calls `a` and `b`.
fn two_calls() -> Vec<String> {
    let mut records = handshake();
    records.extend(answered("1", "a", "{}", "x"));
    records.extend(answered("2", "b", "{}", "y"));
    records
}

#[test]
fn the_last_process_of_a_session_decides_whether_all_is_used() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &two_calls());
    let session = format!("--session=s{}", sandbox.path.display());
    let name = session.strip_prefix("--session=").unwrap();
    let doors: [&[&str]; 2] = [
        &["serve", "c.json", &session, "--require-all-used", "--report", "r.jsonl"],
        &["use", "--cassette", "c.json", &session, "--require-all-used", "--report", "r.jsonl", "--", "demo"],
    ];
    for arguments in doors {
        let start = || {
            let mut client = sandbox.mcpreel(arguments).start();
            client.greet("{}");
            client
        };
        // Two at once, each with one of the calls.
        let (mut one, mut other) = (start(), start());
        one.ask(&call("1", "a", "{}"));
        other.ask(&call("1", "b", "{}"));
        let told = one.close(0).stderr;
        let note = format!(
            "mcpreel: 1 other process of session {name} still plays: the last one decides about --require-all-used\n"
        );
        assert!(told.ends_with(&note), "{told}");
        other.close(0);
        // Two at once that leave the same: the last says so.
        let (mut one, mut other) = (start(), start());
        one.ask(&call("1", "a", "{}"));
        other.ask(&call("1", "a", "{}"));
        one.close(0);
        let told = other.close(3).stderr;
        assert!(told.ends_with("mcpreel: message 5, tools/call \"b\", was not used\n"), "{told}");
        // One after the other: it is complete with the last.
        let mut next = start();
        next.ask(&call("1", "b", "{}"));
        next.close(0);
        // And then begins anew.
        let mut next = start();
        next.ask(&call("1", "b", "{}"));
        next.close(3);
        // A killed process decides nothing, and is not waited for.
        let killed = start();
        killed.signal(9);
        killed.end(137);
        let mut next = start();
        next.ask(&call("1", "b", "{}"));
        next.close(3);
        sandbox.mcpreel(["end", "c.json", "--session", name]).run().expect(0);
    }
    // The report sees all of it.
    sandbox.mcpreel(["report", "r.jsonl", "--require-all-used"]).run().expect(0);
}

#[test]
fn a_client_over_http_counts_like_one_on_a_pipe() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &two_calls());
    let session = format!("--session=h{}", sandbox.path.display());
    let arguments = [
        "serve",
        "c.json",
        "--listen",
        "127.0.0.1:0",
        "--ready-file",
        "url",
        &session,
        "--require-all-used",
        "--report",
        "r.jsonl",
    ];
    let over_http = sandbox.mcpreel(arguments).start();
    eventually("the ready file", || sandbox.path.join("url").exists());
    let mut client = sandbox.serve(&[&session, "--require-all-used"]);
    client.greet("{}");
    client.ask(&call("1", "a", "{}"));
    client.ask(&call("1", "b", "{}"));
    let told = client.close(0).stderr;
    assert_eq!(told, "");
    over_http.signal(15);
    over_http.end(0);
    let row: Value = serde_json::from_str(&sandbox.read("r.jsonl")).unwrap();
    assert_eq!((&row["transport"], &row["ended"]), (&Value::from("http"), &Value::from("signal 15")));
}
