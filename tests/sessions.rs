//! Named sessions from their beginning to their end, as test helpers use them, and what their processes report.

use std::fs;
use std::process::Command;

use crate::support::recording::DEMO;
use crate::support::{Run, Sandbox, eventually, initialize, signal_to};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
const CALL: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi"}}}"#;
const OTHER: &str =
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"ho"}}}"#;

/// Begins a session without waiting; what was said.
fn begin(sandbox: &Sandbox, session: &str, mode: &str) -> (i32, String) {
    let done =
        sandbox.mcpreel(["begin", "c.json", "--session", session, "--mode", mode, "--claim-wait", "0"]).run();
    (done.code(), done.stdout() + &done.stderr())
}

fn user(sandbox: &Sandbox, session: &str, more: &[&str]) -> Run {
    let mut args = vec!["--session", session];
    args.extend(more);
    sandbox.user("c.json", &args, &DEMO)
}

/// A whole process that makes a call.
#[track_caller]
fn whole(run: Run, call: &str, code: i32) {
    let mut client = run.start();
    client.converse(&[&initialize("{}"), INITIALIZED, call]);
    client.close(code);
}

fn end(sandbox: &Sandbox, session: &str) {
    sandbox.mcpreel(["end", "c.json", "--session", session]).run().expect(0);
}

fn said(what: &str, mode: &str) -> (i32, String) {
    (0, format!("{what} {mode}\n"))
}

#[test]
fn a_session_that_records_has_the_cassette_for_itself_until_it_ends() {
    for first in ["once", "all"] {
        let sandbox = Sandbox::new();
        assert_eq!(begin(&sandbox, "a", first), said("record", first));
        assert_eq!(begin(&sandbox, "a", first), said("record", first), "again, for nothing has changed");
        for other in ["once", "all"] {
            let (code, words) = begin(&sandbox, "b", other);
            assert_eq!(code, 6);
            assert!(words.contains("c.json: another recording owns this cassette (session a)"), "{words}");
        }
        // Between the processes of a client that starts one per call, too.
        whole(user(&sandbox, "a", &["-q", "--mode", first]), CALL, 0);
        assert_eq!(begin(&sandbox, "b", "once").0, 6, "it is not whole");
        assert_eq!(begin(&sandbox, "b", "all").0, 6);
        whole(user(&sandbox, "a", &["-q", "--mode", first]), OTHER, 0);
        end(&sandbox, "a");
        assert_eq!(begin(&sandbox, "b", "once"), said("replay", "once"));
        assert_eq!(begin(&sandbox, "b", "none"), said("replay", "none"));
        whole(user(&sandbox, "b", &["-q"]), OTHER, 0);
        assert_eq!(begin(&sandbox, "b", "all"), said("record", "all"));
        end(&sandbox, "b");
    }
}

#[test]
fn a_session_waits_for_the_recorders_of_another_one() {
    let sandbox = Sandbox::new();
    let mut recorder = sandbox.recorder("c.json", &["-q", "--session", "a"], &DEMO).start();
    recorder.converse(&[&initialize("{}"), INITIALIZED, CALL]);
    let (code, words) = begin(&sandbox, "b", "once");
    assert_eq!((code, words.contains("(session a, recorded by process ")), (6, true), "{words}");
    let mut waiting = sandbox.mcpreel(["begin", "c.json", "--session", "b"]).start();
    recorder.close(0);
    assert_eq!(waiting.next(), "replay once");
    waiting.close(0);
    // Nothing is left of the wait: the next one records at once.
    assert_eq!(begin(&sandbox, "d", "all"), said("record", "all"));
    end(&sandbox, "d");
}

#[test]
fn while_it_is_made_anew_what_is_there_is_replayed() {
    let sandbox = Sandbox::new();
    whole(user(&sandbox, "a", &["-q"]), CALL, 0);
    end(&sandbox, "a");
    // By a session that has begun, after the wait for it; by a recorder, at once.
    assert_eq!(begin(&sandbox, "b", "all"), said("record", "all"));
    assert_eq!(begin(&sandbox, "c", "once"), said("replay", "once"));
    end(&sandbox, "b");
    let mut recorder = sandbox.recorder("c.json", &["-q", "--session", "d"], &DEMO).start();
    recorder.converse(&[&initialize("{}"), INITIALIZED, CALL]);
    let at_once = sandbox.mcpreel(["begin", "c.json", "--session", "c", "--claim-wait", "1e9"]).run();
    assert_eq!(at_once.expect(0).stdout(), "replay once\n");
    recorder.close(0);
}

#[test]
fn none_begins_with_a_cassette_only_and_the_environment_rules() {
    let sandbox = Sandbox::new();
    let (code, words) = begin(&sandbox, "a", "none");
    assert_eq!(code, 2);
    assert!(words.starts_with("mcpreel: c.json: no such cassette; record it first"), "{words}");
    let all = sandbox.mcpreel(["begin", "c.json", "--session", "a", "--mode", "all"]);
    all.env("MCPREEL_MODE", "none").run().expect(2);
    assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
}

#[test]
fn a_session_ends_with_its_process() {
    let sandbox = Sandbox::new();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    assert_eq!(begin(&sandbox, &format!("a@{}", gone.id()), "once"), said("record", "once"));
    assert_eq!(begin(&sandbox, "b", "once"), said("record", "once"));
    // A session that recorded nothing can be ended all the same, once.
    end(&sandbox, "b");
    sandbox.mcpreel(["end", "c.json", "--session", "b"]).run().expect(2);
}

/// The reports in a folder, without what differs from run to run.
fn reports(sandbox: &Sandbox) -> Vec<String> {
    let mut files: Vec<_> =
        fs::read_dir(sandbox.path.join("reports")).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    files.iter().map(|file| fs::read_to_string(file).unwrap()).collect()
}

#[test]
fn in_a_folder_each_process_reports_in_a_file_of_its_own() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path.join("reports")).unwrap();
    let options = ["-q", "--report", "reports", "--server", "demo"];
    let mut client = user(&sandbox, "a", &options).start();
    client.converse(&[&initialize("{}")]);
    assert_eq!(reports(&sandbox), [""], "it has begun");
    client.converse(&[INITIALIZED, CALL]);
    client.close(0);
    let told = reports(&sandbox).concat();
    assert!(told.starts_with("{\"mcpreel_report\":1,\"session\":\"a\",\"cassette\":\"/"), "{told}");
    let ends = "\"server\":\"demo\",\"transport\":\"\",\"hits\":0,\"repeats\":0,\"misses\":[],\"unrecorded\":[],\"unused\":[],\"pending\":[],\"warnings\":[],\"ended\":\"end of input\",\"require_all_used\":false,\"exit\":0,\"recorded\":5}\n";
    assert!(told.ends_with(ends), "{told}");
    end(&sandbox, "a");

    fs::remove_dir_all(sandbox.path.join("reports")).unwrap();
    fs::create_dir(sandbox.path.join("reports")).unwrap();
    whole(user(&sandbox, "b", &options), OTHER, 3);
    let told = reports(&sandbox).concat();
    assert!(told.contains(r#""why":"no recorded answer for tools/call \"echo\"""#), "{told}");
    assert!(!told.contains("\"recorded\":5") && !told.contains("\"failed\""), "{told}");

    // One that was killed leaves its file empty.
    let mut killed = user(&sandbox, "b", &options).start();
    killed.ask(&initialize("{}"));
    killed.kill();
    assert_eq!(reports(&sandbox).iter().filter(|text| text.is_empty()).count(), 1);
}

#[test]
fn what_could_not_begin_is_reported_too() {
    // The command, its status, and what is said.
    let rows: [(&[&str], i32, &str); 8] = [
        (
            &["use", "--cassette", "c.json", "--mode", "none", "--", "x"],
            2,
            "c.json: no such cassette; record",
        ),
        (&["use", "--cassette", "c.json", "--", "./nobody"], 127, "./nobody: command not found"),
        (&["use", "--cassette", "bad.json", "--", "x"], 2, "bad.json: "),
        (&["serve", "bad.json"], 2, "bad.json: "),
        (
            &["use", "--cassette", "c.json", "--faults", "bad.json", "--", "x"],
            2,
            "--faults bad.json is for replays, and this would record (mode once (default))",
        ),
        (&["use", "--cassette", "c.json", "--pace-scale", "2", "--", "x"], 2, "--pace-scale needs --pace"),
        (
            &["use", "--cassette", "c.json", "--url", "http://127.0.0.1:1", "--header-env", "A=NO_SUCH"],
            2,
            "--header-env A: NO_SUCH is not set",
        ),
        (&["use", "--cassette", "c.json", "--mode", "never", "--", "x"], 2, "unknown mode never"),
    ];
    for (args, code, words) in rows {
        let sandbox = Sandbox::new();
        fs::create_dir(sandbox.path.join("reports")).unwrap();
        sandbox.file("bad.json", "{}");
        let at = args.iter().position(|arg| *arg == "--").unwrap_or(args.len());
        let args = [&args[..at], &["--report", "reports"], &args[at..]].concat();
        sandbox.mcpreel(&args).run().expect(code);
        let told = reports(&sandbox).concat();
        assert!(told.contains(&format!("\"ended\":\"not begun: {words}")), "{args:?}: {told}");
        assert!(told.contains(&format!("\"exit\":{code}}}")), "{told}");
    }
}

#[test]
fn a_recording_that_a_signal_ends_is_reported() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path.join("reports")).unwrap();
    let mut client = user(&sandbox, "a", &["-q", "--report", "reports"]).start();
    client.converse(&[&initialize("{}"), INITIALIZED, CALL]);
    signal_to(client.child.id(), 15);
    eventually("the report", || !reports(&sandbox).concat().is_empty());
    assert!(
        reports(&sandbox)
            .concat()
            .contains(r#""ended":"signal 15","require_all_used":false,"exit":143,"recorded":5}"#)
    );
}

#[test]
fn a_replay_over_http_ends_with_the_process_of_its_session() {
    let sandbox = Sandbox::new();
    whole(user(&sandbox, "a", &["-q"]), CALL, 0);
    end(&sandbox, "a");
    for command in [
        &["serve", "c.json", "--listen", "127.0.0.1:0"][..],
        &["use", "--cassette", "c.json", "--mode", "none", "--url", "http://127.0.0.1:9/mcp"],
    ] {
        let mut owner = Command::new("sleep").arg("60").spawn().unwrap();
        let session = format!("b@{}", owner.id());
        let args = [command, &["--session", &session, "--ready-file", "ready"]].concat();
        let mut door = sandbox.mcpreel(args).start();
        eventually("the URL", || sandbox.has("ready"));
        owner.kill().unwrap();
        owner.wait().unwrap();
        eventually("the end", || door.child.try_wait().unwrap().is_some());
        assert_eq!(door.child.wait().unwrap().code(), Some(0));
        fs::remove_file(sandbox.path.join("ready")).unwrap();
    }
}

#[test]
fn a_session_needs_a_name_that_can_be_told() {
    for (name, expected) in [
        ("", "--session \"\": needs a name, as ID or ID@PID"),
        ("@1", "--session \"@1\": needs a name, as ID or ID@PID"),
        ("a\nb", "--session \"a\\nb\": a name has no control characters"),
        ("a\u{1b}[m@5", "--session \"a\\u{1b}[m@5\": a name has no control characters"),
    ] {
        let sandbox = Sandbox::new();
        let expected = (2, format!("mcpreel: {expected}\n"));
        assert_eq!(begin(&sandbox, name, "once"), expected);
        for command in ["use", "record"] {
            let args = [command, "--cassette", "c.json", "--session", name, "--", "cat"];
            let done = sandbox.mcpreel(args).run();
            assert_eq!((done.code(), done.stderr()), expected, "{command}");
        }
        let done = sandbox.mcpreel(["serve", "c.json", "--session", name]).run();
        assert_eq!((done.code(), done.stderr()), expected);
        assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
    }
}
