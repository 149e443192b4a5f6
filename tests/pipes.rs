//! Named pipes as the place for what is written: with a reader they work, without one nobody waits for it. And standard
//! input and output that do not block, or fail.

use std::path::PathBuf;

use crate::support::replay::{answered, call, handshake};
use crate::support::{MCPREEL, Sandbox, eventually, initialize};

fn pipe(sandbox: &Sandbox) -> PathBuf {
    let path = sandbox.path.join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
    path
}

fn sandbox() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    sandbox
}

const WRITERS: [&[&str]; 7] = [
    &["serve", "-q", "c.json", "--report", "pipe"],
    &["serve", "-q", "c.json", "--listen", "127.0.0.1:0", "--report", "pipe"],
    &["use", "-q", "--mode", "none", "--cassette", "c.json", "--report", "pipe", "--", "cat"],
    &["convert", "c.json", "-o", "pipe"],
    &["merge", "c.json", "-o", "pipe"],
    &["trim", "c.json", "--keep", "method=x", "-o", "pipe"],
    &["redact", "c.json", "-o", "pipe"],
];

#[test]
fn a_pipe_that_nobody_reads_is_told_at_once() {
    let sandbox = sandbox();
    pipe(&sandbox);
    for arguments in WRITERS {
        let done = sandbox.mcpreel(arguments).run();
        let said = done.stderr();
        assert!(done.code() != 0 && said.lines().count() == 1, "{arguments:?}: {said}");
        assert!(said.ends_with("pipe: it is a pipe that nobody reads\n"), "{arguments:?}: {said}");
    }
}

/// A report that does not fit into a pipe, and a reader that has opened it and takes nothing.
#[test]
fn a_reader_that_takes_nothing_does_not_keep_a_replay_from_its_end() {
    let sandbox = Sandbox::new();
    let records: Vec<String> =
        (0..2000).flat_map(|id| answered(&id.to_string(), &format!("{id:-<60}"), "{}", "x")).collect();
    sandbox.tape_with("", &records);
    let path = pipe(&sandbox);
    let reader = std::fs::File::options().read(true).write(true).open(&path).unwrap();
    let done = sandbox.mcpreel(WRITERS[0]).run().expect(1);
    assert_eq!(done.stderr(), "mcpreel: cannot write the report pipe: its reader takes nothing\n");
    drop(reader);
    // One that takes it all, however much it is, gets it.
    let reader = std::thread::spawn(move || std::fs::read_to_string(path).unwrap());
    sandbox.mcpreel(WRITERS[0]).run().expect(0);
    let text = reader.join().unwrap();
    assert!(text.len() > 100_000 && text.ends_with("}\n"), "{}", text.len());
}

#[test]
fn a_pipe_with_a_reader_gets_everything() {
    let sandbox = sandbox();
    let path = pipe(&sandbox);
    for (arguments, expected) in [(WRITERS[0], "\"mcpreel_report\":1"), (WRITERS[3], "\"mcpreel\"")] {
        let path = path.clone();
        let reader = std::thread::spawn(move || std::fs::read_to_string(path).unwrap());
        sandbox.mcpreel(arguments).run().expect(0);
        eventually("the reader's end", || reader.is_finished());
        let text = reader.join().unwrap();
        assert!(text.contains(expected), "{arguments:?}: {text}");
    }
}

/// Whoever shares a pipe with us may have made it non-blocking: nothing is lost for it, in either direction.
#[test]
fn pipes_that_do_not_block_carry_everything() {
    use std::io::{BufRead as _, BufReader, Read as _, Write as _};
    use std::process::{Command, Stdio};

    let sandbox = Sandbox::new();
    let mut records = handshake();
    let long = "x".repeat(20_000);
    records
        .extend((0..100).flat_map(|id| answered(&id.to_string(), "t", &format!(r#"{{"i":{id}}}"#), &long)));
    sandbox.tape_with("", &records);
    let unblocked = || {
        let (read, write) = std::io::pipe().unwrap();
        for end in [std::os::fd::AsFd::as_fd(&read), std::os::fd::AsFd::as_fd(&write)] {
            rustix::io::ioctl_fionbio(end, true).unwrap();
        }
        (read, write)
    };
    let start = |arguments: &[&str], input: Stdio, output: Stdio| {
        let mut command = Command::new(MCPREEL);
        command.args(arguments).current_dir(&sandbox.path).env("MCPREEL_SESSION", "unblocked");
        command.stdin(input).stdout(output).stderr(Stdio::piped()).spawn().unwrap()
    };
    // All is sent before anything is read, and more is answered than a pipe takes.
    let asked: String =
        (0..100).map(|id| call(&id.to_string(), "t", &format!(r#"{{"i":{id}}}"#)) + "\n").collect();
    let (to, from_test) = unblocked();
    let (for_test, from) = unblocked();
    let mut child = start(&["serve", "--no-config", "--stdio", "c.json"], to.into(), from.into());
    rustix::io::ioctl_fionbio(&from_test, false).unwrap();
    rustix::io::ioctl_fionbio(&for_test, false).unwrap();
    let mut lines = BufReader::new(for_test);
    let mut line = String::new();
    let mut input = from_test;
    // It waits for its client first.
    writeln!(input, "{}", initialize("{}")).unwrap();
    lines.read_line(&mut line).unwrap();
    input.write_all(asked.as_bytes()).unwrap();
    drop(input);
    let mut rest = String::new();
    lines.read_to_string(&mut rest).unwrap();
    assert_eq!((rest.lines().count(), child.wait().unwrap().code()), (100, Some(0)));
    // Commands that read a file from there wait for it as well.
    let (to, mut from_test) = unblocked();
    let mut child = start(&["inspect", "-"], to.into(), Stdio::piped());
    let text = sandbox.read("c.json");
    rustix::io::ioctl_fionbio(&from_test, false).unwrap();
    from_test.write_all(text.as_bytes()).unwrap();
    drop(from_test);
    let (mut out, mut said) = (String::new(), String::new());
    child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!((said.as_str(), child.wait().unwrap().code()), ("", Some(0)));
    assert!(out.contains("203"), "{out}");
}

/// What cannot be written, or read, is told, and is a failure.
#[test]
fn an_end_that_fails_is_told() {
    let sandbox = sandbox();
    let full = |arguments: &str, input: &str, end: &str| {
        let script = format!("printf '%s\\n' '{input}' | {MCPREEL} {arguments} {end}");
        let mut shell = std::process::Command::new("sh");
        shell.args(["-c", &script]).current_dir(&sandbox.path).env("MCPREEL_SESSION", "full");
        let done = shell.output().unwrap();
        (done.status.code(), String::from_utf8(done.stderr).unwrap())
    };
    let hello = initialize("{}");
    let written = "mcpreel: cannot write standard output: no space left on device\n";
    let answers = "mcpreel: answers could not be written to standard output: no storage space\n";
    for (arguments, said) in [
        ("serve -q c.json", answers),
        ("use -q --mode none --cassette c.json -- cat", answers),
        ("inspect c.json", written),
        ("convert c.json -o -", written),
        ("redact --check --format json c.json", written),
        ("--help", written),
        ("demo server", "mcpreel: cannot go on with the demo server: no space left on device\n"),
    ] {
        assert_eq!(full(arguments, &hello, "> /dev/full"), (Some(1), said.to_owned()), "{arguments}");
    }
    let recorder = format!("record -q --cassette new.json -- {MCPREEL} demo server");
    assert_eq!(full(&recorder, &hello, "> /dev/full"), (Some(125), answers.to_owned()));
    let unread = "mcpreel: standard input cannot be read: is a directory\n";
    assert_eq!(full("serve -q c.json", "", "< ."), (Some(1), unread.to_owned()));
    full("serve -q c.json --report r.jsonl", &hello, "> /dev/full");
    let row = sandbox.read("r.jsonl");
    assert!(
        row.contains(r#""ended":"output failed: no storage space","#) && row.contains(r#""exit":1}"#),
        "{row}"
    );
}
