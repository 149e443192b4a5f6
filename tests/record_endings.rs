//! How a recorded session ends: whoever goes first, nothing hangs, nothing is lost, and the status is the server's.

use std::os::unix::process::CommandExt as _;
use std::time::{Duration, Instant};

use crate::support::recording::{DEMO, is_alive, pid_in};
use crate::support::{Sandbox, eventually, initialize, messages, signal_to};

const INT: i32 = 2;
const KILL: i32 = 9;
const TERM: i32 = 15;

/// A loop that ends with its process only, whatever happens to its input.
const FOR_EVER: &str = "while :; do sleep 0.02; done";

fn kept(sandbox: &Sandbox) -> Vec<String> {
    messages(&sandbox.path.join("c.json"))
}

fn remove_process(pid: u32) {
    signal_to(pid, KILL);
    eventually("the end of a process", || !is_alive(pid));
}

#[test]
fn r009_a_client_that_does_not_read_still_reaches_the_server() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "(head -c 3000000 /dev/zero | tr '\\0' x) & cat > got; kill $!");
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start_bytes();
    let lines: String = (0..20_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
    client.write(lines.as_bytes());
    let got = sandbox.path.join("got");
    eventually("all of the input at the server", || {
        std::fs::read(&got).is_ok_and(|got| got == lines.as_bytes())
    });
}

#[test]
fn r011_a_server_that_ignores_the_end_of_its_input_is_ended_without_any_signal_from_the_client() {
    let sandbox = Sandbox::new();
    let stubborn = format!(
        "trap '' TERM INT HUP; echo $$ > pid; (echo own >&2; {FOR_EVER}) & echo $! > child; {FOR_EVER}"
    );
    let server = sandbox.script("server", &stubborn);
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    client.send("{\"a\":1}");
    let pids = [pid_in(&sandbox.path.join("pid")), pid_in(&sandbox.path.join("child"))];
    let begun = Instant::now();
    client.close(128 + KILL);
    assert!(begun.elapsed() >= Duration::from_millis(1600), "it was given no time");
    eventually("the end of the server and its child", || !pids.iter().any(|pid| is_alive(*pid)));
    assert_eq!(kept(&sandbox), ["c {\"a\":1}"]);
}

#[test]
fn r011_a_server_that_needs_sigterm_gets_it_after_the_end_of_its_input() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", &format!("trap 'echo bye; exit 4' TERM; echo hello; {FOR_EVER}"));
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    assert_eq!(client.next(), "hello");
    let ended = client.close(4);
    assert_eq!(ended.rest, ["bye"]);
    assert_eq!(kept(&sandbox), ["s text: hello", "s text: bye"]);
}

#[test]
fn r012_no_server_is_left_when_the_recorder_is_killed() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", &format!("trap '' TERM INT HUP; echo $$ > pid; {FOR_EVER}"));
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    let pid = pid_in(&sandbox.path.join("pid"));
    client.kill();
    eventually("the end of the server", || !is_alive(pid));
}

#[test]
fn r013_a_signal_reaches_the_server_and_the_cassette_is_whole() {
    for (signal, name) in [(TERM, "TERM"), (INT, "INT"), (1, "HUP")] {
        let sandbox = Sandbox::new();
        let body =
            format!("trap 'echo told; exit 0' TERM; while read -r l; do echo \"$l\"; done; {FOR_EVER}");
        let server = sandbox.script("server", &body);
        let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
        assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
        client.signal(signal);
        assert_eq!(client.next(), "told", "{name}");
        client.end(128 + signal);
        assert_eq!(kept(&sandbox), ["c {\"a\":1}", "s {\"a\":1}", "s text: told"], "{name}");
        assert_eq!(sandbox.of_cassette("c.json"), ["c.json"], "{name}");
    }
}

#[test]
fn a_signal_to_the_process_group_reaches_the_server_once_before_ours_does() {
    for signal in [TERM, INT] {
        let sandbox = Sandbox::new();
        // Two signals in a row: the group's, and ours 200 ms later to one that is still there.
        let body = format!("now() {{ date +%s%N >> log; }}; trap now INT TERM; echo ready; {FOR_EVER}");
        let server = sandbox.script("server", &body);
        let mut run = sandbox.recorder("c.json", &["-q"], &[&server]);
        run.command.process_group(0);
        let mut client = run.start();
        assert_eq!(client.next(), "ready");
        let group = rustix::process::Pid::from_raw(i32::try_from(client.child.id()).unwrap()).unwrap();
        rustix::process::kill_process_group(group, rustix::process::Signal::from_named_raw(signal).unwrap())
            .unwrap();
        client.end(128 + signal);
        let log = sandbox.read("log");
        let times: Vec<u128> = log.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(times.len(), 2, "{log}");
        // The shell may have logged the first one late, but never early; allow for that.
        assert!(times[1] - times[0] > 100_000_000, "{log}");
        assert_eq!(kept(&sandbox), ["s text: ready"]);
    }
}

#[test]
fn a_server_that_obeys_the_signal_to_the_group_gets_no_second_one() {
    let sandbox = Sandbox::new();
    let server =
        sandbox.script("server", &format!("trap 'echo told >> log; exit 0' TERM; echo ready; {FOR_EVER}"));
    let mut run = sandbox.recorder("c.json", &["-q"], &[&server]);
    run.command.process_group(0);
    let mut client = run.start();
    assert_eq!(client.next(), "ready");
    let group = rustix::process::Pid::from_raw(i32::try_from(client.child.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, rustix::process::Signal::TERM).unwrap();
    client.end(128 + TERM);
    assert_eq!(sandbox.read("log"), "told\n");
}

#[test]
fn r015_the_servers_status_is_ours() {
    for (body, code) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 125", 125),
        ("kill -SEGV $$", 139),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let sandbox = Sandbox::new();
        let server = sandbox.script("server", &format!("read -r a; echo \"$a\"; {body}"));
        // The client stays: our output ends with the server's.
        let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
        assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
        client.expect_end();
        client.end(code);
        let cassette = sandbox.read("c.json");
        let exit =
            if code > 128 { format!("\"signal\": {}", code - 128) } else { format!("\"code\": {code}") };
        assert!(cassette.contains(&exit), "{body}: {cassette}");
        assert!(cassette.contains("\"ended\": \"server_exited\""), "{body}: {cassette}");
    }
}

#[test]
fn r015_a_grandchild_that_holds_the_output_delays_the_end_but_does_not_stop_it() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "read -r a; sleep 300 & echo $! > pid; echo \"$a\"; exit 3");
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
    client.expect_end();
    client.end(3);
    assert_eq!(kept(&sandbox), ["c {\"a\":1}", "s {\"a\":1}"]);
    remove_process(pid_in(&sandbox.path.join("pid")));
}

#[test]
fn what_a_grandchild_says_after_its_server_has_ended_still_passes() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "read -r a; (sleep 0.1; echo late) & echo \"$a\"");
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
    assert_eq!(client.next(), "late");
    client.end(0);
    assert_eq!(kept(&sandbox), ["c {\"a\":1}", "s {\"a\":1}", "s text: late"]);
}

#[test]
fn the_last_lines_of_a_failed_server_are_kept_and_redacted() {
    let sandbox = Sandbox::new();
    let body = "read -r a; for n in $(seq 30); do echo line $n >&2; done; echo '{\"password\":\"hunter2\"}' >&2; exit 9";
    let server = sandbox.script("server", body);
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    client.send("{\"a\":1}");
    let ended = client.end(9);
    assert_eq!(ended.stderr.lines().count(), 31, "{}", ended.stderr);
    let cassette = sandbox.read("c.json");
    assert!(cassette.contains("\"line 12\"") && !cassette.contains("\"line 11\""), "{cassette}");
    assert!(!cassette.contains("hunter2"), "{cassette}");
}

#[test]
fn a_megabyte_on_standard_error_passes_and_stops_nothing() {
    let sandbox = Sandbox::new();
    let server =
        sandbox.script("server", "read -r a; head -c 1000000 /dev/zero | tr '\\0' e >&2; echo \"$a\"");
    let done = sandbox.recorder("c.json", &["-q"], &[&server]).lines(&["{\"a\":1}"]).run().expect(0);
    assert_eq!(done.stdout(), "{\"a\":1}\n");
    assert!(done.output.stderr == vec![b'e'; 1_000_000]);
    assert!(!sandbox.read("c.json").contains("eee"));
}

#[test]
fn a_server_that_never_reads_ends_as_it_likes_and_what_it_was_sent_is_kept() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "sleep 0.2; exit 6");
    let many: String = (0..50_000).map(|number| format!("{{\"n\":{number}}}\n")).collect();
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    client.send("{\"a\":1}");
    // More than the pipes hold: the client blocks until the server has gone, as it would without us.
    let mut stdin = client.stdin.take().unwrap();
    let writer = std::thread::spawn(move || std::io::Write::write_all(&mut stdin, many.as_bytes()));
    client.end(6);
    drop(writer.join().unwrap());
    assert_eq!(kept(&sandbox)[0], "c {\"a\":1}");
}

#[test]
fn a_client_that_stops_reading_for_good_ends_the_session() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", &format!("trap 'exit 5' TERM; echo ready; {FOR_EVER}"));
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start_bytes();
    assert_eq!(client.read_exactly(6), b"ready\n");
    client.stdout = None;
    // Its input stays open meanwhile.
    assert_eq!(client.end(), 5);
    assert_eq!(kept(&sandbox), ["s text: ready"]);
}

#[test]
fn slow_answers_are_waited_for_when_the_input_was_a_file() {
    let sandbox = Sandbox::new();
    // Answers take longer altogether than a server is given that has nothing to do, and one does by itself.
    let body = r#"for n in 1 2; do read -r line; sleep 1.5; echo "{\"jsonrpc\":\"2.0\",\"id\":$n,\"result\":{}}"; done; exec sleep 300"#;
    let server = sandbox.script("server", body);
    let ask = |id: u32| format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
    let done = sandbox.recorder("c.json", &["-q"], &[&server]).lines(&[&ask(1), &ask(2)]).run();
    assert_eq!(done.lines().len(), 2, "{}", done.stderr());
    // The server ignores the end of its input, and gets its SIGTERM only after the last answer.
    done.expect(128 + TERM);
    assert_eq!(kept(&sandbox).len(), 4);
}

#[test]
fn a_shell_between_client_and_recorder_changes_nothing() {
    let sandbox = Sandbox::new();
    let line = format!("{} record -q --cassette c.json -- cat; exit $?", crate::support::MCPREEL);
    let shell = |line: &str| {
        let mut run = sandbox.mcpreel(["--version"]);
        run.command = std::process::Command::new("sh");
        run.command.arg("-c").arg(line).current_dir(&sandbox.path).env("MCPREEL_SESSION", "shell@1");
        run
    };
    let mut client = shell(&line).start();
    assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
    client.close(0);
    assert_eq!(kept(&sandbox).len(), 2);

    // A client that knows only the shell ends only the shell, and lets go of the pipes.
    let mut client = shell(&line.replace("c.json", "d.json")).start();
    assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
    client.signal(TERM);
    client.close(128 + TERM);
    eventually("the cassette", || sandbox.of_cassette("d.json") == ["d.json"]);
    assert_eq!(messages(&sandbox.path.join("d.json")), ["c {\"a\":1}", "s {\"a\":1}"]);
}

#[test]
fn a_command_that_cannot_start_is_told_by_the_status_and_leaves_nothing_behind() {
    let sandbox = Sandbox::new();
    sandbox.file("no-program", "text");
    sandbox.script("no-interpreter", "");
    sandbox.file("no-interpreter", "#!/no/such/interpreter\n");
    for command in ["record", "use"] {
        for (program, code, said) in [
            ("no-such-program", 127, "mcpreel: no-such-program: command not found\n"),
            ("./no-such-program", 127, "mcpreel: ./no-such-program: command not found\n"),
            ("./no-program", 126, "mcpreel: ./no-program: cannot be run: permission denied\n"),
            ("./", 126, "mcpreel: ./: cannot be run: it is a folder\n"),
            (
                "./no-interpreter",
                126,
                "mcpreel: ./no-interpreter: cannot be run: the interpreter it names was not found\n",
            ),
        ] {
            let done =
                sandbox.mcpreel([command, "-q", "--cassette", "c.json", "--", program]).run().expect(code);
            assert_eq!(done.stderr(), said, "{command} {program}");
            assert_eq!(sandbox.of_cassette("c.json"), [""; 0], "{command} {program}");
        }
    }
}

#[test]
fn nothing_captured_is_status_1_and_no_file() {
    let sandbox = Sandbox::new();
    for (server, why) in [
        ("exec <&-; sleep 0.1; exit 0", "the server ended before anything was said"),
        ("cat", "no message came before the client left"),
    ] {
        let server = sandbox.script("server", server);
        let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
        if why.starts_with("no") {
            client.stdin = None;
        }
        let said = client.end(1).stderr;
        assert_eq!(said, format!("mcpreel: nothing was captured, so c.json was not written: {why}\n"));
        assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
    }
    // The server's own failure comes first.
    let server = sandbox.script("server", "exit 7");
    sandbox.recorder("c.json", &[], &[&server]).run().expect(7);
    assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
    // A signal, too.
    let server = sandbox.script("server", &format!("echo $$ > pid; {FOR_EVER}"));
    let client = sandbox.recorder("c.json", &[], &[&server]).start();
    pid_in(&sandbox.path.join("pid"));
    client.signal(TERM);
    client.end(128 + TERM);
    assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
}

#[test]
fn a_replay_that_is_ended_by_a_signal_says_what_it_missed() {
    let sandbox = Sandbox::new();
    let init = initialize("{}");
    let call = |name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"{name}","arguments":{{}}}}}}"#
        )
    };
    sandbox.record_demo("c.json", &[&init, &call("unicode")]);
    for (name, code) in [("unicode", 0), ("counter", 3)] {
        for signal in [TERM, INT] {
            let mut client = sandbox.user("c.json", &["-q"], &DEMO).start();
            client.ask(&init);
            client.ask(&call(name));
            client.signal(signal);
            client.end(code);
        }
    }
}

/// Libraries spell what they have read anew: an answer is one however it spells the id of its request.
#[test]
fn an_answer_that_spells_its_id_otherwise_leaves_no_request_open() {
    for (asked, answered) in [("1.0", "1"), (r#""a\/\u00e9""#, "\"a/\u{e9}\"")] {
        let sandbox = Sandbox::new();
        let answer = format!(r#"{{"jsonrpc":"2.0","id":{answered},"result":{{}}}}"#);
        // It stays when its input has ended.
        let server = sandbox.script("server", &format!("read -r a; echo '{answer}'; exec sleep 1000"));
        let request = format!(r#"{{"jsonrpc":"2.0","id":{asked},"method":"ping"}}"#);
        let run = sandbox.recorder("c.json", &["-q"], &[&server]).lines(&[&request]).run();
        assert_eq!(run.lines(), [answer]);
    }
}
