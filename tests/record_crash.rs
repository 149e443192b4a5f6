//! What is left when a recorder is killed: everything but the last moments, nothing torn, no secret, private files.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

use crate::support::recording::{Random, pid_in};
use crate::support::{MCPREEL, Sandbox, eventually, messages};

/// What may be lost: the promise of the design.
const LOSS: Duration = Duration::from_millis(50);
const KILLS: u64 = 200;
const LANES: u64 = 2;
/// Requests that wait for their echo.
const WINDOW: usize = 16;

/// The number of a process that has ended.
fn dead_process() -> u32 {
    let mut child = Command::new("true").spawn().unwrap();
    child.wait().unwrap();
    child.id()
}

/// How long the threads of a process, which wait for each other, have been ready to run and were not let to, by the
/// kernel's count: what a busy machine takes away is not the recorder's. Zero where the kernel does not count.
fn held_back(pid: u32) -> Duration {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let counts = tasks.filter_map(|task| std::fs::read_to_string(task.path().join("schedstat")).ok());
    Duration::from_nanos(counts.filter_map(|counts| counts.split(' ').nth(1)?.parse::<u64>().ok()).sum())
}

/// Sends numbered messages about as fast as they come back, until the recorder is killed after `life`. Gives when each came
/// back, when the recorder was killed, and how long it had been held back by then.
fn talk_until_killed(
    mut child: Child,
    life: Duration,
    random: &mut Random,
) -> (Vec<Instant>, Instant, Duration) {
    let (mut stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let (back, window) = sync_channel::<()>(WINDOW);
    let pads: Vec<usize> = (0..64).map(|_| usize::try_from(random.below(500)).unwrap()).collect();
    let writer = std::thread::spawn(move || {
        for number in 0_usize.. {
            let pad = "x".repeat(pads[number % pads.len()]);
            let line = format!("{{\"n\":{number},\"pad\":\"{pad}\"}}\n");
            // Bursts: a processor that is never free says more about the machine than about the recorder.
            if number.is_multiple_of(8) {
                std::thread::sleep(Duration::from_micros(300));
            }
            if back.send(()).is_err() || stdin.write_all(line.as_bytes()).is_err() {
                return;
            }
        }
    });
    let (first, begun) = std::sync::mpsc::channel();
    let reader = std::thread::spawn(move || {
        let mut came = Vec::new();
        let mut stdout = BufReader::new(stdout);
        let mut line = Vec::new();
        loop {
            line.clear();
            // What was cut off by the kill did not come back.
            if stdout.read_until(b'\n', &mut line).is_err() || !line.ends_with(b"\n") {
                return came;
            }
            let begins = format!("{{\"n\":{},", came.len());
            assert!(line.starts_with(begins.as_bytes()), "out of order: {}", String::from_utf8_lossy(&line));
            came.push(Instant::now());
            let _ = first.send(());
            let _ = window.try_recv();
        }
    });
    begun.recv().expect("the first echo");
    std::thread::sleep(life);
    let held_back = held_back(child.id());
    let killed = Instant::now();
    child.kill().unwrap();
    child.wait().unwrap();
    let came = reader.join().unwrap();
    writer.join().unwrap();
    (came, killed, held_back)
}

/// The numbers of the messages of one side, which must be complete from 0 on.
fn numbers(messages: &[String], side: &str) -> usize {
    let begins = |number: usize| format!("{side} {{\"n\":{number},\"pad\":\"");
    let mut count = 0;
    for message in messages.iter().filter(|message| message.starts_with(side)) {
        assert!(message.starts_with(&begins(count)), "expected number {count}, found {message:.60}");
        assert!(message.ends_with("\"}"), "torn: {message}");
        count += 1;
    }
    count
}

fn kill_once(number: u64, dead: u32) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ (number + 1));
    let life = Duration::from_micros(random.below(100_000));
    // In memory: the promise is about a disk that does not stall.
    let sandbox = Sandbox::in_memory();
    // Of every second one the client is gone, too: that is an interrupted recording, the other a partly killed one.
    let session =
        if number.is_multiple_of(2) { format!("kill-{number}@{dead}") } else { format!("kill-{number}") };
    let mut run = sandbox.recorder("c.json", &["-q", "--session", &session], &["cat"]);
    let child = run.command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (came, killed, held_back) = talk_until_killed(child, life, &mut random);
    let recovered = sandbox.mcpreel(["recover", "c.json"]).run();
    // Nothing may be there yet of a recording that was killed in its first moments.
    let kept = if recovered.code() == 1 { Vec::new() } else { messages(&sandbox.path.join("c.json")) };
    let (sent, answered) = (numbers(&kept, "c"), numbers(&kept, "s"));
    let allowed = LOSS + held_back;
    let due = came.iter().filter(|at| **at + allowed < killed).count();
    assert!(
        sent >= due && answered >= due,
        "kill {number} after {life:?}: {due} came back over {allowed:?} before, kept are {sent} and {answered}; {}",
        recovered.stderr()
    );
    assert!(sent >= answered, "an echo stands without its message");
    if recovered.code() == 1 {
        assert!(recovered.stderr().contains("no such cassette"), "{}", recovered.stderr());
        assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
    } else {
        assert!(sandbox.read("c.json").contains("\"killed\": true"));
    }
}

#[test]
fn r014_at_200_random_moments_a_kill_loses_no_more_than_the_last_moments() {
    let dead = dead_process();
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= KILLS {
                        return;
                    }
                    kill_once(number, dead);
                }
            });
        }
    });
}

/// Waits until something is in a segment of the recording.
fn wait_for_segment(sandbox: &Sandbox, cassette: &str, text: &str) {
    let folder = sandbox.path.join(format!("{cassette}.partial"));
    eventually("a message in the segment", || {
        std::fs::read_dir(&folder).unwrap().flatten().any(|entry| {
            std::fs::read(entry.path())
                .is_ok_and(|bytes| memchr::memmem::find(&bytes, text.as_bytes()).is_some())
        })
    });
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn r014_what_was_forwarded_before_a_kill_can_be_recovered_and_replayed() {
    let sandbox = Sandbox::new();
    let dead = format!("gone@{}", dead_process());
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;
    let server = sandbox.script("server", &format!("read -r a; echo '{answer}'; exec sleep 300"));
    let mut client = sandbox.recorder("c.json", &["--session", &dead], &[&server]).start();
    assert_eq!(client.ask(call), answer);
    wait_for_segment(&sandbox, "c.json", "\"result\"");
    client.kill();

    // Not a cassette yet, and whoever wants one is told where it is and what makes it one.
    let folder = sandbox.path.join("c.json.partial").canonicalize().unwrap();
    let said = format!(
        "mcpreel: c.json: no cassette, but an interrupted recording in {}; `mcpreel recover` makes a cassette of it\n",
        folder.display()
    );
    assert_eq!(sandbox.mcpreel(["serve", "c.json"]).run().expect(2).stderr(), said);
    let none = sandbox.user("c.json", &["--mode", "none"], &["cat"]).run().expect(2);
    assert_eq!(none.stderr(), said);

    let recovered = sandbox.mcpreel(["recover", "c.json"]).run().expect(0);
    assert!(recovered.stderr().contains("was killed while recording"), "{}", recovered.stderr());
    assert!(recovered.stderr().ends_with("mcpreel: c.json is complete\n"), "{}", recovered.stderr());
    assert_eq!(messages(&sandbox.path.join("c.json")), [format!("c {call}"), format!("s {answer}")]);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
    assert_eq!(sandbox.replay("c.json", &[call], 0).0, [answer]);

    let again = sandbox.mcpreel(["recover", "c.json"]).run().expect(1);
    assert_eq!(again.stderr(), "mcpreel: c.json: is complete; there is nothing to recover\n");
}

#[test]
fn a_torn_or_damaged_line_costs_that_line_only() {
    let sandbox = Sandbox::new();
    let dead = format!("torn@{}", dead_process());
    let mut client = sandbox.recorder("c.json", &["--session", &dead], &["cat"]).start();
    for line in ["{\"a\":1}", "{\"a\":2}", "{\"a\":3}"] {
        assert_eq!(client.ask(line), line);
    }
    wait_for_segment(&sandbox, "c.json", "\"from\":\"server\",\"payload\":{\"a\":3}");
    client.kill();
    let folder = sandbox.path.join("c.json.partial");
    let mut segment = std::fs::read_dir(&folder).unwrap().flatten().map(|entry| entry.path());
    let segment = segment.find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap();
    let text = std::fs::read_to_string(&segment).unwrap();
    let damaged = text.replacen("\"from\":\"server\",\"payload\":{\"a\":2}", "\"from\":\"ser\0\0\0\0", 1);
    assert_ne!(text, damaged);
    std::fs::write(&segment, &damaged[..damaged.len() - 5]).unwrap();

    let said = sandbox.mcpreel(["recover", "c.json"]).run().expect(1).stderr();
    assert_eq!(
        messages(&sandbox.path.join("c.json")),
        ["c {\"a\":1}", "s {\"a\":1}", "c {\"a\":2}", "c {\"a\":3}"]
    );
    // The torn line is what a kill leaves; the damaged one is not.
    assert!(
        said.contains("killed") && said.contains(": line 5 could not be read and was left out"),
        "{said}"
    );
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json", "c.json.partial.1"]);
}

#[test]
fn r117_a_secret_under_its_key_reaches_no_file_also_when_the_recorder_is_killed() {
    const SECRET: &str = "planted-5ecret-Value-9";
    let sandbox = Sandbox::new();
    let check = |when: &str| {
        for (path, bytes) in sandbox.every_file() {
            assert!(
                memchr::memmem::find(&bytes, SECRET.as_bytes()).is_none(),
                "{when}: in {}",
                path.display()
            );
        }
    };
    let lines = [
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"login","arguments":{{"password":"{SECRET}"}}}}}}"#
        ),
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":"{{\"apiKey\":\"{SECRET}\"}}"}}]}}}}"#
        ),
        format!(r#"[{{"jsonrpc":"2.0","id":2,"method":"x","params":{{"accessToken":["{SECRET}"]}}}}]"#),
        "{\"last\":1}".to_owned(),
    ];
    let dead = dead_process();
    let server = sandbox.script("server", "exec cat");
    let command = [server.as_str(), "--token", SECRET];
    for end in ["kill", "close"] {
        let mut client =
            sandbox.recorder("c.json", &["--session", &format!("{end}@{dead}")], &command).start();
        for line in &lines {
            assert_eq!(client.ask(line), *line);
        }
        wait_for_segment(&sandbox, "c.json", "\"from\":\"server\",\"payload\":{\"last\":1}");
        check("while recording");
        if end == "kill" {
            client.kill();
        } else {
            client.close(0);
        }
        check(end);
    }
    // The killed one was moved aside by the second.
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json", "c.json.partial.1"]);
    assert!(sandbox.read("c.json").contains("REDACTED-1"));
}

#[test]
fn r118_files_are_private_while_recording_and_have_the_umasks_mode_afterwards() {
    for (umask, expected) in [("022", 0o644), ("027", 0o640), ("077", 0o600), ("000", 0o666)] {
        for cassette in ["c.json", "c.jsonl"] {
            let sandbox = Sandbox::new();
            let mut run = sandbox.mcpreel(["--version"]);
            let line = format!("umask {umask}; exec {MCPREEL} record -q --cassette {cassette} -- cat");
            run.command = Command::new("sh");
            run.command.arg("-c").arg(line).current_dir(&sandbox.path).env("MCPREEL_SESSION", "modes");
            let mut client = run.start();
            client.ask("{\"a\":1}");
            let folder = sandbox.path.join(format!("{cassette}.partial"));
            assert_eq!(mode(&folder), 0o700, "{umask}");
            let mut seen = 0;
            for entry in std::fs::read_dir(&folder).unwrap().flatten() {
                if entry.file_name() != ".gitignore" {
                    assert_eq!(mode(&entry.path()), 0o600, "{umask}: {}", entry.path().display());
                    seen += 1;
                }
            }
            assert_eq!(seen, 2);
            client.close(0);
            assert_eq!(mode(&sandbox.path.join(cassette)), expected, "{umask} {cassette}");
        }
    }
}

#[test]
fn a_recorder_killed_while_others_go_on_is_marked_and_told() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "echo $$ > pid-$1; exec cat");
    let start = |name: &str| {
        sandbox.recorder("c.json", &["--session", "both", "--server", "s"], &[&server, name]).start()
    };
    let (mut first, mut second) = (start("one"), start("two"));
    pid_in(&sandbox.path.join("pid-one"));
    first.ask("{\"a\":1}");
    second.ask("{\"b\":1}");
    wait_for_segment(&sandbox, "c.json", "\"from\":\"server\",\"payload\":{\"a\":1}");
    first.kill();
    second.ask("{\"b\":2}");
    let ended = second.close(0);
    assert!(
        ended.stderr.contains("was killed while recording; its last moments may be missing"),
        "{}",
        ended.stderr
    );
    let cassette = sandbox.read("c.json");
    assert!(cassette.contains("\"killed\": true"), "{cassette}");
    assert_eq!(messages(&sandbox.path.join("c.json")).len(), 6);
}

#[test]
fn r117_a_secret_in_a_line_that_is_not_utf8_reaches_no_file() {
    use base64::Engine as _;

    let sandbox = Sandbox::new();
    let line =
        b"{\"id\":1,\"method\":\"m\",\"params\":{\"password\":\"Zq9x7Kp2mVbTr4\",\"note\":\"caf\xe9\"}}\n";
    let run = sandbox.recorder("c.json", &["-q"], &["cat"]).input(line).run().expect(0);
    assert_eq!(run.output.stdout, line);
    let expected =
        b"{\"id\":1,\"method\":\"m\",\"params\":{\"password\":\"REDACTED-1\",\"note\":\"caf\xe9\"}}";
    let kept = base64::engine::general_purpose::STANDARD.encode(expected);
    let messages = messages(&sandbox.path.join("c.json"));
    assert_eq!(messages, [format!("c base64: \"{kept}\""), format!("s base64: \"{kept}\"")]);
}
