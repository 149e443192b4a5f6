//! Recording folders that nobody completed: finished segments are the cassette for every command, and what is damaged
//! in a folder is made good from the rest.

use crate::support::{Client, Sandbox, messages};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
const ANSWER: &str = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[]}}"#;

fn server(sandbox: &Sandbox) -> String {
    sandbox.script("server", &format!("read -r a; echo '{ANSWER}'; cat"))
}

/// A recording that came to its end, and whose cassette could not be made at that time.
fn finished(sandbox: &Sandbox) {
    let mut client = sandbox.recorder("c.json", &["-q", "--server", "s"], &[&server(sandbox)]).start();
    assert_eq!(client.ask(CALL), ANSWER);
    sandbox.file("c.json", "in the way\n");
    client.close(125);
    std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json.partial"]);
}

#[test]
fn finished_segments_are_read_as_the_cassette_by_those_who_only_read() {
    let sandbox = Sandbox::new();
    finished(&sandbox);
    assert_eq!(sandbox.replay("c.json", &[CALL], 0).0, [ANSWER]);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json.partial"]);
}

#[test]
fn finished_segments_are_completed_by_whoever_comes_by() {
    for command in [
        &["use", "-q", "--mode", "none", "--cassette", "c.json", "--", "no-such-server"][..],
        &["use", "-q", "--mode", "once", "--cassette", "c.json", "--", "no-such-server"],
        &["recover", "c.json"],
    ] {
        let sandbox = Sandbox::new();
        finished(&sandbox);
        let mut client = sandbox.mcpreel(command).start();
        if command[0] == "use" {
            assert_eq!(client.ask(CALL), ANSWER, "{command:?}");
        }
        client.stdin = None;
        client.end(0);
        assert_eq!(sandbox.of_cassette("c.json"), ["c.json"], "{command:?}");
        assert_eq!(messages(&sandbox.path.join("c.json")), [format!("c {CALL}"), format!("s {ANSWER}")]);
    }
    // One that records anew completes the old one first, and replaces it.
    let sandbox = Sandbox::new();
    finished(&sandbox);
    sandbox.recorder("c.json", &["-q"], &["cat"]).lines(&["{\"new\":1}"]).run().expect(0);
    assert_eq!(messages(&sandbox.path.join("c.json")), ["c {\"new\":1}", "s {\"new\":1}"]);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

fn join(sandbox: &Sandbox, text: &str) -> Client {
    let mut client = sandbox.recorder("c.json", &["-q", "--session", "a", "--server", "s"], &["cat"]).start();
    let line = format!("{{\"n\":\"{text}\"}}");
    assert_eq!(client.ask(&line), line);
    client
}

#[test]
fn a_damaged_session_file_is_made_good_from_the_segments() {
    for damage in ["", "{\"owner\":", "\0\0\0\0\0\0\0\0\n"] {
        let sandbox = Sandbox::new();
        let first = join(&sandbox, "one");
        let second = join(&sandbox, "two");
        // In place, as a disk would do it: the file is locked by its number.
        let path = sandbox.path.join("c.json.partial/session.json");
        std::fs::write(&path, damage).unwrap();
        let third = join(&sandbox, "three");
        for client in [second, first, third] {
            client.close(0);
        }
        let kept = mcpreel::cassette::Cassette::read(&sandbox.path.join("c.json")).unwrap();
        let conns: Vec<u32> = kept.records.iter().map(|record| record.conn).collect();
        assert_eq!(conns, [0, 0, 1, 1, 2, 2], "{damage:?}");
        assert_eq!(sandbox.of_cassette("c.json"), ["c.json"], "{damage:?}");
    }
}

#[test]
fn a_recording_folder_is_ignored_by_git_and_keeps_files_of_others() {
    let sandbox = Sandbox::new();
    let client = join(&sandbox, "one");
    assert_eq!(sandbox.read("c.json.partial/.gitignore"), "*\n");
    sandbox.file("c.json.partial/notes.txt", "mine");
    client.close(0);
    assert_eq!(messages(&sandbox.path.join("c.json")).len(), 2);
    assert_eq!(sandbox.read("c.json.partial/notes.txt"), "mine");
    // What is left there does not stand in the way.
    sandbox.mcpreel(["end", "c.json", "--session", "a"]).run().expect(0);
    join(&sandbox, "two").close(0);
    assert_eq!(messages(&sandbox.path.join("c.json")), ["c {\"n\":\"two\"}", "s {\"n\":\"two\"}"]);
}
