//! Mode `new_episodes` around a command: what was recorded is replayed, the rest is asked of the live server and appended.
//! What passes between the two sides is in `episodes_sides.rs`.

use std::time::SystemTime;

use mcpreel::cassette::Cassette;

use crate::support::recording::{DEMO, Random};
use crate::support::replay::{INITIALIZED, c, call, handshake, request, s, said};
use crate::support::{Client, MCPREEL, Run, Sandbox, eventually, initialize, modern};

const START: &str = "mcpreel: mode new_episodes (--mode): replaying, and appending what is new to c.json\n";

fn echo(id: &str, text: &str) -> String {
    call(id, "echo", &format!("{{\"text\":\"{text}\"}}"))
}

/// `use --mode new_episodes` around a server.
fn around(sandbox: &Sandbox, more: &[&str], server: &[&str]) -> Run {
    let mut args = vec!["--mode", "new_episodes", "--server", "demo"];
    args.extend(more);
    sandbox.user("c.json", &args, server)
}

fn append(sandbox: &Sandbox, more: &[&str]) -> Run {
    around(sandbox, more, &DEMO)
}

/// A session that shakes hands and says these texts by `echo`, with ids from 1.
fn session(texts: &[&str]) -> Vec<String> {
    let calls = (1..).zip(texts).map(|(id, text)| echo(&id.to_string(), text));
    [initialize("{}"), INITIALIZED.to_owned()].into_iter().chain(calls).collect()
}

#[track_caller]
fn converse(client: &mut Client, lines: &[String]) -> Vec<String> {
    client.converse(&lines.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A whole run; gives what the client got and what was said on standard error.
#[track_caller]
fn whole(run: Run, lines: &[String], code: i32) -> (Vec<String>, String) {
    let mut client = run.start();
    let got = converse(&mut client, lines);
    (got, client.close(code).stderr)
}

/// Records a session of these texts.
#[track_caller]
fn recorded(sandbox: &Sandbox, texts: &[&str]) -> Vec<String> {
    let lines = session(texts);
    sandbox.record_demo("c.json", &lines.iter().map(String::as_str).collect::<Vec<_>>())
}

/// The messages of the cassette: `0 c {...}`, with ` live` where they were appended.
fn messages(sandbox: &Sandbox) -> Vec<String> {
    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    let shown = |record: &mcpreel::cassette::Record| {
        let side = if record.from == mcpreel::cassette::Side::Client { 'c' } else { 's' };
        let live = if record.more.as_ref().is_some_and(|more| more.live) { " live" } else { "" };
        let payload = mcpreel::jsonrpc::pretty::packed(cassette.payload(record).unwrap_or("-"));
        format!("{} {side}{live} {payload}", record.conn)
    };
    cassette.records.iter().map(shown).collect()
}

/// The requests and notifications of the client, shortened: `1 live tools/call two`.
fn asked(sandbox: &Sandbox) -> Vec<String> {
    let all = messages(sandbox);
    let client = all.iter().filter_map(|line| {
        let (front, payload) = line.split_once('{')?;
        let conn = front.split(' ').next()?;
        let live = if front.contains("live") { " live" } else { "" };
        let method = payload.split("\"method\":\"").nth(1)?.split('"').next()?;
        let text = payload.split("\"text\":\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or("");
        front.contains(" c").then(|| format!("{conn}{live} {method} {text}").trim_end().to_owned())
    });
    client.collect()
}

fn stamp(sandbox: &Sandbox) -> (Vec<u8>, SystemTime) {
    let path = sandbox.path.join("c.json");
    (std::fs::read(&path).unwrap(), std::fs::metadata(path).unwrap().modified().unwrap())
}

#[test]
fn what_is_new_is_asked_of_the_live_server_and_appended_once() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    let before = messages(&sandbox);
    // The id of the new call is that of the recorded one, and comes twice.
    let mut lines = session(&["one"]);
    lines.extend([echo("1", "two"), echo("1", "three")]);
    let (got, said_) = whole(append(&sandbox, &[]), &lines, 0);
    assert!(got[0].contains("\"id\":0"), "{got:?}");
    for (answer, text) in got[1..].iter().zip(["one", "two", "three"]) {
        assert!(answer.contains("\"id\":1,") && answer.contains(&format!("\"text\":\"{text}\"")), "{answer}");
    }
    assert!(said_.starts_with(START), "{said_}");
    assert!(said_.ends_with("mcpreel: appended 7 messages to c.json\n"), "{said_}");
    let after = messages(&sandbox);
    assert_eq!(after[..before.len()], before, "what was there stays");
    assert!(
        after[before.len()..]
            .iter()
            .all(|line| line.starts_with("1 c live ") || line.starts_with("1 s live "))
    );
    assert_eq!(
        asked(&sandbox)[3..],
        [
            "1 live initialize",
            "1 live notifications/initialized",
            "1 live tools/call two",
            "1 live tools/call three"
        ]
    );
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);

    // Asked for the same again, nothing is new.
    let untouched = stamp(&sandbox);
    let (again, said_) = whole(append(&sandbox, &["-v"]), &lines, 0);
    assert_eq!(again, got);
    assert!(said_.contains("mcpreel: nothing new: c.json was left as it is\n"), "{said_}");
    for (mode, program) in
        [("none", "no-such-program"), ("once", "no-such-program"), ("new_episodes", "no-such-program")]
    {
        let run = sandbox.user("c.json", &["--mode", mode, "--server", "demo"], &[program]);
        assert_eq!(whole(run, &lines, 0).0, got, "{mode}");
    }
    assert_eq!(whole(sandbox.mcpreel(["serve", "c.json"]), &lines, 0).0, got);
    assert!(stamp(&sandbox) == untouched, "the file was touched");
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

#[test]
fn any_split_of_a_session_gives_a_cassette_that_replays_all_of_it() {
    let texts = ["a", "b", "a", "c", "b", "a"];
    let calls: Vec<String> = (1..).zip(texts).map(|(id, text)| echo(&id.to_string(), text)).collect();
    let more = [
        request("90", "tools/list", "{}"),
        request("91", "prompts/list", "{}"),
        request("92", "resources/list", "{}"),
        call("93", "weather", r#"{"city":"Lima"}"#),
        call("94", "error", r#"{"code":-32001}"#),
        call("95", "fail", r#"{"message":"no"}"#),
    ];
    let start = [initialize("{}"), INITIALIZED.to_owned()];
    let all: Vec<String> = calls.into_iter().chain(more).collect();
    let with_start = |rest: &[String]| start.iter().chain(rest).cloned().collect::<Vec<_>>();
    let reference = {
        let sandbox = Sandbox::new();
        let lines = with_start(&all);
        sandbox.record_demo("c.json", &lines.iter().map(String::as_str).collect::<Vec<_>>())
    };
    let mut random = Random(0x5eed_cafe);
    for round in 0..12 {
        let sandbox = Sandbox::new();
        // Each request is recorded in the first, second or third run, and the runs ask for all up to theirs.
        let share: Vec<u64> = all.iter().map(|_| random.below(3)).collect();
        let of = |run: u64| -> Vec<String> {
            let picked = all.iter().zip(&share).filter(|(_, share)| **share <= run);
            with_start(&picked.map(|(line, _)| line.clone()).collect::<Vec<_>>())
        };
        let first = of(0);
        sandbox.record_demo("c.json", &first.iter().map(String::as_str).collect::<Vec<_>>());
        whole(append(&sandbox, &["-q"]), &of(1), 0);
        let (got, _) = whole(append(&sandbox, &["-q"]), &of(2), 0);
        assert_eq!(got, reference, "round {round}: {share:?}");
        let untouched = stamp(&sandbox);
        let (got, _) = whole(sandbox.mcpreel(["serve", "c.json", "--require-all-used"]), &of(2), 0);
        assert_eq!(got, reference, "round {round}: {share:?}");
        let (got, _) = whole(append(&sandbox, &["-q"]), &of(2), 0);
        assert_eq!(got, reference, "round {round}: {share:?}");
        assert!(stamp(&sandbox) == untouched, "round {round}: {share:?}");
    }
}

#[test]
fn a_live_server_is_started_for_nothing_that_was_recorded() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    let server = sandbox.script("server", &format!("touch started; exec {MCPREEL} demo server"));
    let mut client = around(&sandbox, &[], &[&server]).start();
    converse(&mut client, &session(&["one"]));
    // What everybody asks and nobody records needs no server either.
    client.nothing_comes();
    client.fails(&request("5", "server/discover", "{}"), -32601);
    assert!(!sandbox.has("started"));
    client.ask(&echo("6", "two"));
    assert!(sandbox.has("started"));
    client.close(0);
}

#[test]
fn without_a_cassette_or_its_server_everything_is_new() {
    let sandbox = Sandbox::new();
    let (_, said_) = whole(append(&sandbox, &[]), &session(&["one"]), 0);
    assert!(said_.starts_with("mcpreel: mode new_episodes (--mode): recording into c.json\n"), "{said_}");
    assert_eq!(asked(&sandbox), ["0 initialize", "0 notifications/initialized", "0 tools/call one"]);
    // Another server goes into the same cassette.
    let run = sandbox.user("c.json", &["--mode", "new_episodes", "--server", "other"], &DEMO);
    let (got, _) = whole(run, &session(&["two"]), 0);
    let run = sandbox.mcpreel(["serve", "c.json", "--server", "other"]);
    assert_eq!(whole(run, &session(&["two"]), 0).0, got);
    let run = sandbox.mcpreel(["serve", "c.json", "--server", "demo"]);
    whole(run, &session(&["one"]), 0);
    let refused = sandbox.user("c.json", &["--mode", "new_episodes"], &DEMO).run().expect(2).stderr();
    let words =
        "the cassette has several servers; choose one with --server: demo, other, or the name of a new one";
    assert!(refused.contains(words), "{refused}");
    // The only one of a cassette is meant where none is named, whatever the program is called.
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    let run = sandbox.user("c.json", &["--mode", "new_episodes"], &DEMO);
    whole(run, &session(&["two"]), 0);
    assert!(!sandbox.read("c.json").contains("\"mcpreel\": {"));
    whole(sandbox.mcpreel(["serve", "c.json"]), &session(&["one", "two"]), 0);
}

#[test]
fn a_server_that_cannot_be_started_is_an_error_for_what_is_new_only() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one", "two"]);
    let untouched = stamp(&sandbox);
    let locked = sandbox.file("locked", "no program").to_str().unwrap().to_owned();
    for (program, code, why) in [
        ("no-such-program", 127, "no-such-program: command not found"),
        (&locked, 126, &*format!("{locked}: cannot be run: permission denied")),
    ] {
        let mut client = around(&sandbox, &[], &[program]).start();
        converse(&mut client, &session(&["one"]));
        let error = client.fails(&echo("7", "new"), -31004);
        let wanted = format!("\"message\":\"mcpreel: the live server cannot be started: {why}\"");
        assert!(error.contains(&wanted), "{error}");
        let answer = client.ask(&echo("8", "two"));
        assert!(answer.contains("\"text\":\"two\""), "{answer}");
        let ended = client.close(code);
        let wanted = format!("mcpreel: tools/call \"echo\": the live server cannot be started: {why}\n");
        assert!(ended.stderr.contains(&wanted), "{}", ended.stderr);
        assert!(ended.stderr.ends_with("mcpreel: 1 request without a recorded answer\n"), "{}", ended.stderr);
    }
    assert!(stamp(&sandbox) == untouched);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

#[test]
fn a_revision_that_was_not_recorded_is_the_live_servers_business() {
    let sandbox = Sandbox::new();
    let call = modern("1", "tools/call", r#""name":"echo""#, "{}");
    sandbox.cassette("c.json", &[&c(&call), &s(said("1", "one"))]);
    let other = |line: String| line.replace("2026-07-28", "2099-01-01");
    let mut client = around(&sandbox, &[], &["no-such-program"]).start();
    client.fails(&other(modern("7", "tools/call", r#""name":"echo""#, "{}")), -31004);
    // A probe asks what there is.
    client.fails(&other(modern("8", "server/discover", "", "{}")), -32022);
    client.close(127);
}

#[test]
fn a_live_server_that_ends_leaves_what_was_recorded() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    let mut client = append(&sandbox, &[]).start();
    converse(&mut client, &session(&[]));
    client.ask(&echo("1", "new"));
    let error = client.fails(&call("2", "exit", r#"{"code":7}"#), -31004);
    assert!(error.contains("mcpreel: the live server ended (exit status 7)"), "{error}");
    client.fails(&echo("3", "newer"), -31004);
    client.ask(&echo("4", "one"));
    let ended = client.close(3);
    assert_eq!(
        ended.stderr.matches("mcpreel: the live server ended (exit status 7)\n").count(),
        1,
        "{}",
        ended.stderr
    );
    assert_eq!(
        asked(&sandbox)[3..],
        [
            "1 live initialize",
            "1 live notifications/initialized",
            "1 live tools/call new",
            "1 live tools/call"
        ]
    );
    // What came before is an answer from now on.
    let mut client = sandbox.serve(&[]);
    converse(&mut client, &session(&["new", "one"]));
    client.close(0);
}

#[test]
fn what_a_killed_run_appended_is_kept() {
    for by in ["recover", "next"] {
        let sandbox = Sandbox::new();
        recorded(&sandbox, &["one"]);
        let mut client = append(&sandbox, &[]).start();
        converse(&mut client, &session(&["one", "two"]));
        client.send(&call("8", "slow", r#"{"ms":60000,"tag":"x"}"#));
        let folder = sandbox.path.join("c.json.partial");
        eventually("the slow call in the segment", || {
            std::fs::read_dir(&folder)
                .unwrap()
                .flatten()
                .any(|entry| std::fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("60000")))
        });
        client.signal(9);
        client.end(137);
        let words = "was killed while recording; its last moments may be missing";
        if by == "recover" {
            let said_ = sandbox.mcpreel(["recover", "c.json"]).run().expect(0).stderr();
            assert!(said_.contains("c.json is complete"), "{said_}");
        } else {
            let (_, said_) = whole(append(&sandbox, &[]), &session(&["one", "two"]), 0);
            assert!(said_.contains(words), "{said_}");
        }
        assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
        whole(sandbox.mcpreel(["serve", "c.json"]), &session(&["one", "two"]), 0);
        // The call that was cut short is asked again, and its answer is the one that is replayed.
        let mut lines = session(&["one"]);
        lines.push(call("8", "slow", r#"{"ms":60000,"tag":"x"}"#));
        let server = r#"while read -r line; do
            case $line in
                *'"method":"initialize"'*) echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{}}}';;
                *slow*) echo '{"jsonrpc":"2.0","id":8,"result":{"content":[]}}';;
            esac
        done"#;
        let server = sandbox.script("server", server);
        let (got, _) = whole(around(&sandbox, &[], &[&server]), &lines, 0);
        assert_eq!(got[2], r#"{"jsonrpc":"2.0","id":8,"result":{"content":[]}}"#);
        assert_eq!(whole(sandbox.mcpreel(["serve", "c.json"]), &lines, 0).0[2], got[2]);
    }
}

#[test]
fn a_signal_keeps_what_is_new() {
    for signal in [15, 2] {
        let sandbox = Sandbox::new();
        recorded(&sandbox, &["one"]);
        // A server that does not care for the end of its input.
        let server = sandbox.script("server", &format!("{MCPREEL} demo server; sleep 60"));
        let mut client = around(&sandbox, &[], &[&server]).start();
        converse(&mut client, &session(&["one", "two"]));
        client.signal(signal);
        let ended = client.end(0);
        assert!(ended.stderr.contains("appended 5 messages to c.json"), "{}", ended.stderr);
        whole(sandbox.mcpreel(["serve", "c.json"]), &session(&["one", "two"]), 0);
    }
}

#[test]
fn a_client_that_has_said_all_waits_for_what_is_new() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    let mut lines = session(&["one", "two"]);
    lines.insert(3, call("9", "slow", r#"{"ms":300,"tag":"late"}"#));
    let input = lines.join("\n") + "\n";
    let done = append(&sandbox, &["-q"]).input(&input).run().expect(0);
    let ids: Vec<bool> = ["\"id\":1,", "\"id\":2,", "\"id\":9,"].map(|id| done.stdout().contains(id)).into();
    assert_eq!(ids, [true; 3], "{}", done.stdout());
    whole(sandbox.mcpreel(["serve", "c.json"]), &lines, 0);
}

#[test]
fn processes_of_one_owner_append_together_and_others_keep_out() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    let mut first = append(&sandbox, &["--session", "a"]).start();
    converse(&mut first, &session(&["one", "two"]));
    let mut second = append(&sandbox, &["--session", "a"]).start();
    converse(&mut second, &session(&["three"]));
    // Another owner may replay, and neither append nor record.
    for mode in ["new_episodes", "all"] {
        let refused =
            sandbox.user("c.json", &["-q", "--mode", mode, "--session", "b"], &DEMO).run().expect(6);
        let words = "mcpreel: c.json: another recording owns this cassette (session a, recorded by process ";
        assert!(refused.stderr().starts_with(words), "{}", refused.stderr());
    }
    for mode in ["once", "none"] {
        let run = sandbox.user("c.json", &["--mode", mode, "--session", "b", "--server", "demo"], &DEMO);
        whole(run, &session(&["one"]), 0);
    }
    let mut waiting = append(&sandbox, &["--session", "b", "--claim-wait", "20"]).start();
    let ended = first.close(0);
    assert!(
        ended.stderr.ends_with("mcpreel: recorded 5 messages; others still record into c.json\n"),
        "{}",
        ended.stderr
    );
    second.close(0);
    converse(&mut waiting, &session(&["two", "three", "four"]));
    waiting.close(0);
    let calls: Vec<String> = asked(&sandbox).into_iter().filter(|line| line.contains("tools/call")).collect();
    assert_eq!(
        calls,
        ["0 tools/call one", "1 live tools/call two", "2 live tools/call three", "3 live tools/call four"]
    );
    // Who appended has not made the cassette: in mode once it replays.
    let run = sandbox.user("c.json", &["--session", "b", "--server", "demo"], &DEMO);
    whole(run, &session(&["five"]), 3);
    // One that was taken over goes on, and says that nothing is kept.
    let mut old = append(&sandbox, &["--session", "c", "-q"]).start();
    converse(&mut old, &session(&["six"]));
    let (_, said_) = whole(append(&sandbox, &["--session", "d", "--force"]), &session(&["seven"]), 0);
    assert!(said_.contains("taken over from session c, recorded by process "), "{said_}");
    old.ask(&echo("8", "eight"));
    let ended = old.close(125);
    assert!(ended.stderr.contains("recording stopped: the recording "), "{}", ended.stderr);
    let last = asked(&sandbox).pop().unwrap();
    assert_eq!(last, "4 live tools/call seven");
}

#[test]
fn the_maker_of_a_cassette_appends_to_it_too_and_goes_on_recording_anew() {
    let sandbox = Sandbox::new();
    let all = |text: &str| {
        let args = ["--session", "a", "--mode", "all", "--server", "demo"];
        let mut client = sandbox.user("c.json", &args, &DEMO).start();
        converse(&mut client, &session(&[text]));
        client
    };
    all("old").close(0);
    // It has made the cassette, and is asked for what is not there.
    let (_, said_) = whole(append(&sandbox, &["--session", "a"]), &session(&["old", "new"]), 0);
    assert!(said_.contains("appended 5 messages"), "{said_}");
    assert_eq!(
        asked(&sandbox)[2..],
        [
            "0 tools/call old",
            "1 live initialize",
            "1 live notifications/initialized",
            "1 live tools/call new"
        ]
    );
    sandbox.mcpreel(["end", "c.json", "--session", "a"]).run().expect(0);
    // While it records anew, what is there is about to go: all of it is recorded.
    let anew = all("first");
    let (_, said_) = whole(append(&sandbox, &["--session", "a"]), &session(&["old"]), 0);
    assert!(said_.starts_with("mcpreel: mode new_episodes (--mode): recording into c.json\n"), "{said_}");
    anew.close(0);
    let calls: Vec<String> = asked(&sandbox).into_iter().filter(|line| line.contains("tools/call")).collect();
    assert_eq!(calls, ["0 tools/call first", "1 tools/call old"]);
}

#[test]
fn the_mode_is_taken_from_everywhere() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    for (text, variable) in [("two", "MCPREEL_MODE"), ("three", "MCP_CASSETTE_MODE")] {
        let run = sandbox.user("c.json", &["--server", "demo"], &DEMO).env(variable, "new_episodes");
        let (_, said_) = whole(run, &session(&["one", text]), 0);
        let words =
            format!("mcpreel: mode new_episodes ({variable} in the environment): replaying, and appending");
        assert!(said_.starts_with(&words), "{said_}");
    }
    let mut args = vec!["serve", "c.json", "--new-episodes", "--"];
    args.extend(DEMO);
    let (_, said_) = whole(sandbox.mcpreel(&args), &session(&["one", "two", "three", "four"]), 0);
    assert!(said_.starts_with("mcpreel: replaying, and appending what is new to c.json\n"), "{said_}");
    whole(sandbox.mcpreel(["serve", "c.json"]), &session(&["one", "two", "three", "four"]), 0);
    args[1] = "new.json";
    let (_, said_) = whole(sandbox.mcpreel(&args), &session(&["one"]), 0);
    assert!(said_.starts_with("mcpreel: recording into new.json\n"), "{said_}");
    let refused = sandbox.mcpreel(&args).env("MCPREEL_MODE", "none").run().expect(2).stderr();
    assert!(refused.contains("nothing is to be recorded here"), "{refused}");
}

#[test]
fn what_makes_no_sense_is_said_before_anything_starts() {
    let sandbox = Sandbox::new();
    recorded(&sandbox, &["one"]);
    sandbox.file("f.json", r#"{"faults":[]}"#);
    let url = "http://127.0.0.1:9/mcp";
    for (args, words) in [
        (
            &["use", "--cassette", "c.json", "--mode", "new_episodes", "--faults", "f.json", "--", "x"][..],
            "--faults f.json is for replays, and this would record (mode new_episodes (--mode))",
        ),
        (
            &["serve", "c.json", "--new-episodes", "--faults", "f.json", "--", "x"],
            "--faults f.json is for replays, and this would record (--new-episodes)",
        ),
        (
            &["use", "--cassette", "c.json", "--mode", "new_episodes", "--url", url],
            "server demo was recorded from a command, and what is new has to come the same way: give a command, or another --server name",
        ),
        (
            &["serve", "c.json", "--", "x"],
            "a command behind -- is for a live server, and that needs --new-episodes",
        ),
        (&["serve", "c.json", "--url", url], "--url is for a live server, and that needs --new-episodes"),
        (&["serve", "c.json", "--force"], "--force is for a live server, and that needs --new-episodes"),
        (
            &["serve", "c.json", "--redact", "*pin*"],
            "--redact is for a live server, and that needs --new-episodes",
        ),
        (
            &["serve", "c.json", "--new-episodes"],
            "serve --new-episodes needs the server's command line after --",
        ),
        (&["serve", "c.json", "--new-episodes", "--stdio", "--url", url], "--stdio does not go with --url"),
        (
            &["serve", "c.json", "--new-episodes", "--listen", "127.0.0.1:0", "--", "x"],
            "--listen goes with --url only",
        ),
    ] {
        let said_ = sandbox.mcpreel(args).run().expect(2).stderr();
        assert!(said_.starts_with("mcpreel: ") && said_.contains(words), "{args:?}: {said_}");
    }
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

#[test]
fn what_the_cassette_redacts_is_redacted_in_what_is_new() {
    let sandbox = Sandbox::new();
    let lines = session(&["one"]);
    let args = ["-q", "--server", "demo", "--redact", "/params/arguments/city=SOMEWHERE"];
    whole(sandbox.recorder("c.json", &args, &DEMO), &lines, 0);
    let mut lines = lines;
    lines.push(call("8", "weather", r#"{"city":"Lima","token":"s3cr3t-value"}"#));
    lines.push(call("9", "echo", r#"{"text":"b","note":"n0te-value"}"#));
    lines.push(call("10", "echo", r#"{"text":"mail ann.smith@corp.example now"}"#));
    whole(append(&sandbox, &["--redact", "*note*"]), &lines, 0);
    let text = sandbox.read("c.json");
    for secret in ["\"city\": \"Lima\"", "s3cr3t-value", "n0te-value", "ann.smith"] {
        assert!(!text.contains(secret), "{secret}: {text}");
    }
    assert!(text.contains("SOMEWHERE") && text.contains("key:*note*"), "{text}");
    whole(sandbox.mcpreel(["serve", "c.json"]), &lines, 0);
}

#[test]
fn a_journal_grows_at_its_end() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let cassette = sandbox.path.join("c.json");
    std::fs::rename(&cassette, sandbox.path.join("d.json")).unwrap();
    sandbox.mcpreel(["convert", "d.json", "-o", "c.jsonl"]).run().expect(0);
    let before = sandbox.read("c.jsonl");
    let run = || {
        let args = ["-q", "--mode", "new_episodes", "--server", "demo"];
        sandbox.user("c.jsonl", &args, &DEMO)
    };
    for text in ["two", "three"] {
        whole(run(), &session(&[text]), 0);
    }
    let after = sandbox.read("c.jsonl");
    assert!(after.starts_with(&before), "{after}");
    whole(run(), &session(&["two", "three"]), 0);
    assert_eq!(sandbox.read("c.jsonl"), after);
    whole(sandbox.mcpreel(["serve", "c.jsonl"]), &session(&["two", "three"]), 0);
}

#[test]
fn a_report_counts_what_the_live_server_answered() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &[handshake(), vec![c(echo("1", "one")), s(said("1", "one"))]].concat());
    whole(append(&sandbox, &["--report", "r.jsonl"]), &session(&["one", "two", "three"]), 0);
    let report = sandbox.read("r.jsonl");
    assert!(report.contains("\"hits\":2,\"repeats\":0,\"live\":2,\"misses\":[]"), "{report}");
    assert!(report.contains("\"exit\":0"), "{report}");
}

#[test]
fn around_a_command_what_we_could_not_do_has_a_status_of_its_own() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &[handshake(), vec![c(echo("1", "one")), s(said("1", "one"))]].concat());
    let told = |report: &str, why: &str| format!("mcpreel: cannot write the report {report}: {why}\n");
    let (gone, full) =
        (told("no/r.jsonl", "no such file or directory"), told("/dev/full", "no space left on device"));
    let serve = [
        &["serve", "-q", "c.json", "--new-episodes", "--server", "demo", "--report", "no/r.jsonl", "--"],
        &DEMO[..],
    ]
    .concat();
    for (run, expected) in [
        (append(&sandbox, &["-q", "--report", "no/r.jsonl"]), &gone),
        (sandbox.mcpreel(serve), &gone),
        (append(&sandbox, &["-q", "--report", "/dev/full"]), &full),
    ] {
        let done =
            run.lines(&session(&["one"]).iter().map(String::as_str).collect::<Vec<_>>()).run().expect(125);
        assert_eq!(done.stderr(), *expected);
    }
    // The report says the same.
    std::fs::create_dir(sandbox.path.join("reports")).unwrap();
    sandbox.file("c.json.partial", "in the way");
    append(&sandbox, &["-q", "--report", "reports"]).run().expect(125);
    let row = std::fs::read_dir(sandbox.path.join("reports")).unwrap().next().unwrap().unwrap().path();
    let row = std::fs::read_to_string(row).unwrap();
    assert!(row.contains("\"exit\":125"), "{row}");
}
