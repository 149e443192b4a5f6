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

#[test]
fn a_recording_that_was_only_killed_does_not_stand_in_the_way_of_a_cassette() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.recorder("c.json", &["-q", "--server", "s"], &[&server(&sandbox)]).start();
    assert_eq!(client.ask(CALL), ANSWER);
    client.close(0);
    let before = sandbox.read("c.json");
    let mut killed = sandbox.recorder("c.json", &["-q", "--session", "b", "--server", "s"], &["cat"]).start();
    killed.ask(CALL);
    killed.signal(9);
    killed.end(128 + 9);
    // For those who read, for the owner's next process, and for everybody else.
    assert_eq!(sandbox.replay("c.json", &[CALL], 0).0, [ANSWER]);
    let run = sandbox.recorder("c.json", &["--session", "b", "--server", "s"], &["true"]).run();
    assert_eq!(sandbox.read("c.json"), before, "{}", run.stderr());
    assert_eq!(sandbox.replay("c.json", &[CALL], 0).0, [ANSWER]);
}

#[test]
fn a_segment_that_is_taken_away_is_noticed() {
    for cut in [false, true] {
        let sandbox = Sandbox::new();
        let mut client = sandbox.recorder("c.json", &["--server", "s"], &["cat"]).start();
        assert_eq!(client.ask(CALL), CALL);
        let folder = sandbox.path.join("c.json.partial");
        let segment = || {
            let mut names = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
            names.find(|path| path.extension().is_some_and(|ending| ending == "jsonl")).unwrap()
        };
        crate::support::eventually("a record", || {
            std::fs::read_to_string(segment()).unwrap().contains("tools/call")
        });
        if cut {
            std::fs::write(segment(), "").unwrap();
        } else {
            std::fs::remove_file(segment()).unwrap();
        }
        assert_eq!(client.ask(CALL), CALL);
        let ended = client.close(125);
        assert!(ended.stderr.contains("was removed or cut short"), "{}", ended.stderr);
    }
}

#[test]
fn a_device_or_a_pipe_is_no_cassette() {
    let sandbox = Sandbox::new();
    for command in [
        &["serve", "/dev/zero"][..],
        &["inspect", "/dev/zero"],
        &["redact", "--check", "/dev/zero"],
        &["record", "--cassette", "/dev/zero", "--", "cat"],
    ] {
        let stderr = sandbox.mcpreel(command).run().expect(2).stderr();
        assert_eq!(
            stderr,
            "mcpreel: /dev/zero: is a device or a pipe; expected a cassette file (- reads from a pipe)\n",
            "{command:?}"
        );
    }
}

/// The only segment in a recording folder.
fn segment_in(folder: &std::path::Path) -> std::path::PathBuf {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    names.into_iter().find(|path| path.extension().is_some_and(|end| end == "jsonl")).unwrap()
}

#[test]
fn recover_keeps_all_that_can_be_read_and_the_damaged_folder() {
    // What stands in place of a line, by its index; what is left of the two messages; what is said.
    let (asked, answered) = (format!("c {CALL}"), format!("s {ANSWER}"));
    let nuls = "\0".repeat(64);
    let headless = "its head is lost, so that only its file name says that the server is s";
    for (at, line, kept, said) in [
        (0, Some("garbage"), vec![&asked, &answered], "line 1 could not be read and was left out"),
        (0, Some("garbage"), vec![&asked, &answered], headless),
        (0, None, vec![&asked, &answered], headless),
        (1, Some("garbage"), vec![&answered], "line 2 could not be read and was left out"),
        (2, Some(nuls.as_str()), vec![&asked], "line 3 could not be read and was left out"),
        // After a loss of power: zeros up to the end.
        (4, Some(nuls.as_str()), vec![&asked, &answered], "line 5 could not be read and was left out"),
    ] {
        for set_aside in [false, true] {
            let sandbox = Sandbox::new();
            finished(&sandbox);
            let segment = segment_in(&sandbox.path.join("c.json.partial"));
            let text = std::fs::read_to_string(&segment).unwrap();
            let mut lines: Vec<&str> = text.lines().collect();
            match line {
                Some(line) if at == lines.len() => lines.push(line),
                Some(line) => lines[at] = line,
                None => drop(lines.remove(at)),
            }
            let end = if at == 4 { "" } else { "\n" };
            let damaged = lines.join("\n") + end;
            std::fs::write(&segment, &damaged).unwrap();
            if set_aside {
                std::fs::remove_file(sandbox.path.join("c.json.partial/session.json")).unwrap();
                let (from, to) = ("c.json.partial", "c.json.partial.1");
                std::fs::rename(sandbox.path.join(from), sandbox.path.join(to)).unwrap();
            }
            let told = sandbox.mcpreel(["recover", "c.json"]).run().expect(1).stderr();
            let name = segment.file_name().unwrap().to_str().unwrap();
            assert!(told.contains(&format!("segment {name}: ")) && told.contains(said), "{told}");
            assert!(told.contains("c.json holds what could be read; the rest is in "), "{told}");
            assert_eq!(messages(&sandbox.path.join("c.json")).iter().collect::<Vec<_>>(), kept, "{told}");
            assert!(sandbox.read("c.json").contains("\"s\""), "the server's name");
            assert_eq!(sandbox.of_cassette("c.json"), ["c.json", "c.json.partial.1"]);
            let left = segment_in(&sandbox.path.join("c.json.partial.1"));
            assert_eq!(std::fs::read_to_string(left).unwrap(), damaged);
        }
    }
}

#[test]
fn a_damaged_line_costs_that_line_only_in_a_recording_of_more_than_64_mib_too() {
    let sandbox = Sandbox::new();
    finished(&sandbox);
    let segment = segment_in(&sandbox.path.join("c.json.partial"));
    let text = std::fs::read_to_string(&segment).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    let large = format!(r#"{{"at":1,"from":"server","payload":{{"blob":"{}"}}}}"#, "x".repeat(2 << 20));
    lines.splice(2..2, [&*large; 33]);
    lines.insert(20, &large[..1 << 20]);
    std::fs::write(&segment, lines.join("\n") + "\n").unwrap();
    let told = sandbox.mcpreel(["recover", "c.json"]).run().expect(1).stderr();
    assert!(told.contains("line 21 could not be read and was left out"), "{told}");
    let kept = messages(&sandbox.path.join("c.json"));
    assert_eq!((kept.len(), &*kept[0], &*kept[34]), (35, &*format!("c {CALL}"), &*format!("s {ANSWER}")));
    assert!(sandbox.read("c.json").starts_with(r#"{"mcpreel":1,"journal":true,"#));
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json", "c.json.partial.1"]);
}

#[test]
fn a_folder_that_is_called_like_a_segment_is_none() {
    for set_aside in [false, true] {
        let sandbox = Sandbox::new();
        finished(&sandbox);
        std::fs::create_dir(sandbox.path.join("c.json.partial/002-x-77.jsonl")).unwrap();
        if set_aside {
            std::fs::remove_file(sandbox.path.join("c.json.partial/session.json")).unwrap();
            let (from, to) = ("c.json.partial", "c.json.partial.1");
            std::fs::rename(sandbox.path.join(from), sandbox.path.join(to)).unwrap();
            // No recording that was set aside either.
            sandbox.file("c.json.partial.2", "");
        }
        sandbox.mcpreel(["recover", "c.json"]).run().expect(0);
        assert_eq!(messages(&sandbox.path.join("c.json")), [format!("c {CALL}"), format!("s {ANSWER}")]);
        // It is somebody's, and does not stand in the way of the next recording.
        sandbox.recorder("c.json", &["-q"], &["cat"]).lines(&["{\"new\":1}"]).run().expect(0);
        assert_eq!(messages(&sandbox.path.join("c.json")), ["c {\"new\":1}", "s {\"new\":1}"]);
    }
}

#[test]
fn end_tells_by_its_status_that_not_all_could_be_read() {
    let sandbox = Sandbox::new();
    let options = ["-q", "--session", "a", "--server", "s"];
    let mut client = sandbox.recorder("c.json", &options, &[&server(&sandbox)]).start();
    assert_eq!(client.ask(CALL), ANSWER);
    sandbox.file("c.json", "in the way\n");
    client.close(125);
    std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    let segment = segment_in(&sandbox.path.join("c.json.partial"));
    let text = std::fs::read_to_string(&segment).unwrap();
    let mut lines: Vec<&str> = text.lines().collect();
    lines[1] = "garbage";
    std::fs::write(&segment, lines.join("\n") + "\n").unwrap();
    let told = sandbox.mcpreel(["end", "c.json", "--session", "a"]).run().expect(1).stderr();
    assert!(told.contains("line 2 could not be read and was left out"), "{told}");
    assert!(told.contains("c.json holds what could be read; the rest is in "), "{told}");
    assert_eq!(messages(&sandbox.path.join("c.json")), [format!("s {ANSWER}")]);
}

#[test]
fn a_recording_of_which_nothing_can_be_read_is_kept() {
    for rest in ["garbage\n", "garbage", "\0\0\0\0"] {
        let sandbox = Sandbox::new();
        finished(&sandbox);
        std::fs::write(segment_in(&sandbox.path.join("c.json.partial")), rest).unwrap();
        let told = sandbox.mcpreel(["recover", "c.json"]).run().expect(1).stderr();
        assert!(told.contains("c.json could not be made: nothing could be read; the rest is in "), "{told}");
        assert_eq!(sandbox.of_cassette("c.json"), ["c.json.partial.1"]);
    }
}
