//! Named pipes as the place for what is written: with a reader they work, without one nobody waits for it.

use std::path::PathBuf;

use crate::support::replay::{answered, handshake};
use crate::support::{Sandbox, eventually};

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
