//! Places where a cassette cannot be written, and files that are none: one clear line, the right status, nothing
//! replaced, and a session that runs goes on.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::recording::testdata;
use crate::support::{MCPREEL, Run, Sandbox, eventually, messages};

const WHOLE: &str = r#"{
  "mcpreel": 1,
  "recorded_at": "2026-11-29T20:33:00.123Z",
  "recorder": "mcpreel 0.1.0",
  "servers": { "s": { "transport": "stdio", "command": ["s"] } },
  "messages": [
    { "from": "client", "payload": { "jsonrpc": "2.0", "id": 1, "method": "tools/list" } },
    { "from": "server", "payload": { "jsonrpc": "2.0", "id": 1, "result": {} } }
  ]
}
"#;

/// What stands where a cassette is wanted, and what is said about it.
fn no_cassettes() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    vec![
        ("future", WHOLE.replace("\"mcpreel\": 1", "\"mcpreel\": 99").into_bytes(), "has cassette format 99"),
        ("future.jsonl", b"{\"mcpreel\":99,\"journal\":true}\n".to_vec(), "has cassette format 99"),
        ("truncated", WHOLE.as_bytes()[..WHOLE.len() / 2].to_vec(), "line "),
        ("cut-in-the-list", WHOLE.split_inclusive('\n').take(7).collect::<String>().into_bytes(), "line "),
        ("empty", Vec::new(), "is empty; expected a cassette"),
        ("blank", b"\n\n".to_vec(), "is empty; expected a cassette"),
        ("text", b"dear diary\n".to_vec(), "is not a cassette"),
        ("json", b"{\"name\":\"package\"}\n".to_vec(), "is not a cassette"),
        ("binary", std::fs::read("/proc/self/exe").unwrap()[..5000].to_vec(), "is not UTF-8"),
        ("invalid", std::fs::read(testdata("messages/invalid-utf8.txt")).unwrap(), "is not UTF-8"),
    ]
}

#[test]
fn a_file_that_is_no_cassette_ends_things_before_the_server_starts_and_stays_as_it_is() {
    for (name, content, what) in no_cassettes() {
        let sandbox = Sandbox::new();
        let server = sandbox.script("server", "touch started; exec cat");
        let file = sandbox.file(name, &content);
        let commands: [&[&str]; 11] = [
            &["record", "--cassette", name, "--", &server],
            &["record", "--force", "--cassette", name, "--", &server],
            &["use", "-q", "--mode", "all", "--cassette", name, "--", &server],
            &["use", "-q", "--mode", "once", "--cassette", name, "--", &server],
            &["use", "-q", "--mode", "none", "--cassette", name, "--", &server],
            &["serve", name],
            &["recover", name],
            &["begin", name, "--session", "s", "--mode", "none"],
            &["begin", name, "--session", "s", "--mode", "once"],
            &["begin", name, "--session", "s", "--mode", "all"],
            &["begin", name, "--session", "s", "--mode", "new_episodes"],
        ];
        for command in commands {
            let done = sandbox.mcpreel(command).lines(&["{\"a\":1}"]).run().expect(2);
            let said = done.stderr();
            let lines: Vec<&str> = said.lines().collect();
            assert_eq!(lines.len(), 1, "{command:?}: {said}");
            assert!(lines[0].starts_with(&format!("mcpreel: {name}: ")), "{command:?}: {said}");
            assert!(lines[0].contains(what), "{command:?}: {said}");
            assert_eq!(done.stdout(), "", "{command:?}");
            assert!(std::fs::read(&file).unwrap() == content, "{command:?}");
            assert_eq!(sandbox.of_cassette(name), [name], "{command:?}");
            assert!(!sandbox.has("started"), "{command:?}");
        }
    }
}

#[test]
fn a_folder_in_the_place_of_a_cassette_is_named() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path.join("c.json")).unwrap();
    for (command, name) in [("record", "c.json"), ("use", "c.json"), ("record", "./c.json/"), ("record", ".")]
    {
        let done = sandbox.mcpreel([command, "-q", "--cassette", name, "--", "cat"]).run().expect(2);
        assert_eq!(
            done.stderr(),
            format!("mcpreel: {name}: is a folder; expected a cassette file\n"),
            "{name}"
        );
        assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
    }
    for mode in ["none", "once", "all", "new_episodes"] {
        let done = sandbox.mcpreel(["begin", "c.json", "--session", "s", "--mode", mode]).run().expect(2);
        assert_eq!(done.stderr(), "mcpreel: c.json: is a folder; expected a cassette file\n", "{mode}");
        assert_eq!(done.stdout(), "", "{mode}");
    }
}

#[test]
fn what_is_to_be_recovered_and_is_no_recording_is_told_as_what_it_is() {
    let sandbox = Sandbox::new();
    for folder in ["plain", "c.json.partial"] {
        std::fs::create_dir(sandbox.path.join(folder)).unwrap();
    }
    let folder =
        "is a folder; expected a cassette, or the folder CASSETTE.partial.N of an interrupted recording";
    for (name, code, expected) in [
        ("plain", 2, folder),
        (
            "c.json.partial",
            2,
            "is the folder that a recording is made in; expected the name of the cassette, c.json",
        ),
        ("/dev/null", 2, "is a device or a pipe; expected a cassette file (- reads from a pipe)"),
        ("gone", 1, "no such cassette; record it first, with `mcpreel record` or in mode once"),
    ] {
        let said = sandbox.mcpreel(["recover", name]).run().expect(code).stderr();
        assert_eq!(said, format!("mcpreel: {name}: {expected}\n"));
    }
    sandbox.file("whole", WHOLE);
    let said = sandbox.mcpreel(["recover", "whole"]).run().expect(1).stderr();
    assert_eq!(said, "mcpreel: whole: is complete; there is nothing to recover\n");
}

#[test]
fn a_name_that_is_empty_is_told_as_such() {
    let sandbox = Sandbox::new();
    sandbox.file("whole", WHOLE);
    for (arguments, expected) in [
        (&["serve", ""][..], "<file> needs the name of a file"),
        (&["recover", ""], "<file> must not be empty; see mcpreel recover --help"),
        (&["inspect", ""], "<cassette> must not be empty; see mcpreel inspect --help"),
        (&["report", ""], "<file> must not be empty; see mcpreel report --help"),
        (&["convert", "", "-o", "x"], "<in> must not be empty; see mcpreel convert --help"),
        (&["merge", "whole", "", "-o", "x"], "<cassettes> must not be empty; see mcpreel merge --help"),
        (&["convert", "whole", "-o", ""], "-o needs the name of a file; see mcpreel convert --help"),
        (&["serve", "whole", "--report="], "--report needs the name of a file; see mcpreel serve --help"),
        (&["serve", "whole", "--faults", ""], "--faults needs the name of a file; see mcpreel serve --help"),
    ] {
        let said = sandbox.mcpreel(arguments).run().expect(2).stderr();
        assert_eq!(said, format!("mcpreel: {expected}\n"), "{arguments:?}");
    }
}

#[test]
fn a_place_that_is_not_there_is_named_and_is_a_failure_of_ours() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "touch started; exec cat");
    sandbox.file("file", "");
    for command in ["record", "use"] {
        let done =
            sandbox.mcpreel([command, "-q", "--cassette", "file/c.json", "--", &server]).run().expect(125);
        let said = done.stderr();
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(said.starts_with("mcpreel: cannot make the cassette's folder "), "{said}");
        assert!(!sandbox.has("started"));
    }
    // A folder that is not there is made.
    for (command, cassette) in [("record", "no/such/a/c.json"), ("use", "no/such/b/c.json")] {
        let run = sandbox.mcpreel([command, "-q", "--cassette", cassette, "--", &server]);
        run.input("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").run().expect(0);
        assert!(sandbox.has(cassette));
    }
    // A file in the place of the recording folder is left alone, too.
    sandbox.file("c.json.partial", "mine");
    let done = sandbox.recorder("c.json", &["-q"], &[&server]).run().expect(125);
    assert_eq!(done.stderr().lines().count(), 1, "{}", done.stderr());
    assert_eq!(sandbox.read("c.json.partial"), "mine");
}

/// A script that runs in a folder of its own file system, mounted with these options; `$OUT` is the sandbox.
fn on_a_disk(sandbox: &Sandbox, options: &str, script: &str) -> Run {
    let disk = sandbox.path.join("disk");
    std::fs::create_dir_all(&disk).unwrap();
    let whole = format!("mount -t tmpfs -o {options} tmpfs disk && cd disk && {{ {script}\n}}");
    let mut run = sandbox.mcpreel(["--version"]);
    // A user namespace lets ordinary users mount; where there are none, root can do without.
    let with_user = Command::new("unshare").args(["-Urm", "true"]).output();
    let allowed = with_user.as_ref().is_ok_and(|done| done.status.success());
    let root = rustix::process::geteuid().is_root();
    assert!(
        allowed || root,
        "this test mounts a small file system in a user namespace, which is not allowed here: {with_user:?}"
    );
    run.command = Command::new("unshare");
    run.command.arg(if allowed { "-Urm" } else { "-m" }).args(["sh", "-c", &whole]);
    run.command.current_dir(&sandbox.path).env("MCPREEL", MCPREEL).env("OUT", &sandbox.path);
    run.command.env("MCPREEL_SESSION", "disk");
    run
}

#[test]
fn a_full_disk_stops_the_recording_not_the_session_and_what_was_kept_is_valid() {
    let sandbox = Sandbox::new();
    let script = r#"
        "$MCPREEL" record -q --cassette c.json -- cat; code=$?
        cp c.json.partial/*.jsonl "$OUT/segment.jsonl"
        mount -o remount,size=16m . && "$MCPREEL" recover c.json && cp c.json "$OUT/"
        exit $code"#;
    let mut client = on_a_disk(&sandbox, "size=400k", script).start();
    let pad = "p".repeat(4000);
    let lines: Vec<String> = (0..200).map(|number| format!("{{\"n\":{number},\"pad\":\"{pad}\"}}")).collect();
    for line in &lines {
        assert!(client.ask(line) == *line);
    }
    let ended = client.close(125);
    let warnings: Vec<&str> = ended.stderr.lines().collect();
    assert!(
        warnings[0].starts_with("mcpreel: recording stopped: ")
            && warnings[0].contains("the session goes on, but of what came after its first "),
        "{warnings:?}"
    );
    assert!(warnings.iter().filter(|line| line.contains("recording stopped")).count() == 1, "{warnings:?}");

    let kept = messages(&sandbox.path.join("c.json"));
    let count = kept.len();
    assert!((40..200).contains(&count), "{count}");
    let expected = lines.iter().flat_map(|line| [format!("c {line}"), format!("s {line}")]);
    let mut expected: Vec<String> = expected.take(count + 2).collect();
    // Both directions are numbered as they come, so the end may be without an echo.
    expected.retain(|line| kept.contains(line));
    assert!(kept.iter().all(|line| expected.contains(line)) && expected.len() == count);
    assert!(sandbox.read("segment.jsonl").starts_with("{\"mcpreel\":1,\"journal\":true"));
    assert!(sandbox.read("c.json").contains("\"killed\": true"));
}

#[test]
fn a_disk_without_any_room_or_that_is_read_only_is_a_failure_of_ours_before_the_server_starts() {
    for (options, prepare) in [("size=1m", "mount -o remount,ro ."), ("size=64k,nr_inodes=2", "touch x")] {
        for command in ["record -q", "use -q", "use -q --mode all"] {
            let sandbox = Sandbox::new();
            let script =
                format!("{prepare}; \"$MCPREEL\" {command} --cassette c.json -- touch \"$OUT/started\"");
            let done = on_a_disk(&sandbox, options, &script).run();
            let said = done.stderr();
            assert_eq!(said.lines().count(), 1, "{options}: {command}: {said}");
            assert!(said.starts_with("mcpreel: cannot "), "{options}: {command}: {said}");
            assert!(!sandbox.has("started"));
            done.expect(125);
        }
    }
}

#[test]
fn a_cassette_on_a_read_only_disk_can_be_replayed() {
    let sandbox = Sandbox::new();
    sandbox.file("c.json", WHOLE);
    let script = r#"cp "$OUT/c.json" . && mount -o remount,ro . && "$MCPREEL" use -q --cassette c.json -- no-such-server"#;
    let done = on_a_disk(&sandbox, "size=1m", script);
    let done = done.lines(&[r#"{"jsonrpc":"2.0","id":7,"method":"tools/list"}"#]).run().expect(0);
    assert_eq!(done.stdout(), "{\"jsonrpc\":\"2.0\",\"id\":7,\"result\":{}}\n");
    assert_eq!(done.stderr(), "");
}

/// A recorder that has recorded one exchange and then loses its folder.
fn recorder_without_folder(sandbox: &Sandbox, server: &str) -> crate::support::Client {
    let mut client = sandbox.recorder("c.json", &["-q"], &[server]).start();
    assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
    std::fs::remove_dir_all(sandbox.path.join("c.json.partial")).unwrap();
    client
}

#[test]
fn a_recording_folder_that_is_removed_stops_the_recording_not_the_session() {
    let sandbox = Sandbox::new();
    let mut client = recorder_without_folder(&sandbox, "cat");
    for number in 0..20 {
        let line = format!("{{\"n\":{number}}}");
        assert_eq!(client.ask(&line), line);
    }
    let ended = client.close(125);
    assert!(
        ended.stderr.starts_with("mcpreel: recording stopped: the recording folder was removed"),
        "{}",
        ended.stderr
    );
    assert_eq!(ended.stderr.lines().filter(|line| line.contains("recording stopped")).count(), 1);
    assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
}

#[test]
fn a_failed_recording_still_knows_when_all_requests_are_answered() {
    let sandbox = Sandbox::new();
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
    let body = format!("read -r a; echo \"$a\"; read -r b; echo '{answer}'; exec sleep 300");
    let mut client = recorder_without_folder(&sandbox, &sandbox.script("server", &body));
    assert_eq!(client.ask(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#), answer);
    // The server ignores the end of its input: it is ended, though recording has failed with the request in hand.
    client.close(128 + 15);
}

#[test]
fn a_link_is_followed_and_not_replaced() {
    let sandbox = Sandbox::new();
    std::fs::create_dir(sandbox.path.join("kept")).unwrap();
    let link = |name: &str, to: &str| std::os::unix::fs::symlink(to, sandbox.path.join(name)).unwrap();
    link("c.json", "kept/real.json");
    link("chain.json", "c.json");
    // The first time the link leads nowhere yet.
    for (number, cassette) in ["c.json", "chain.json", "c.json"].into_iter().enumerate() {
        let line = format!("{{\"n\":{number}}}");
        sandbox.recorder(cassette, &["-q"], &["cat"]).lines(&[&line]).run().expect(0);
        assert!(sandbox.path.join("c.json").is_symlink() && sandbox.path.join("chain.json").is_symlink());
        assert_eq!(messages(&sandbox.path.join("kept/real.json"))[0], format!("c {line}"));
        assert_eq!(names(&sandbox.path.join("kept")), [PathBuf::from("real.json")]);
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap();
    entries.map(|entry| PathBuf::from(entry.unwrap().file_name())).collect()
}

#[test]
fn a_cassette_that_was_broken_while_it_was_recorded_anew_is_not_replaced() {
    let sandbox = Sandbox::new();
    sandbox.file("c.json", WHOLE);
    let mut client = sandbox.recorder("c.json", &["-q"], &["cat"]).start();
    client.ask("{\"a\":1}");
    sandbox.file("c.json", "by hand\n");
    let ended = client.close(125);
    assert!(ended.stderr.contains("the recording could not be completed: "), "{}", ended.stderr);
    assert_eq!(sandbox.read("c.json"), "by hand\n");
    eventually("the segments", || sandbox.has("c.json.partial"));
    // With the file out of the way nothing is lost.
    std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    sandbox.mcpreel(["recover", "c.json"]).run().expect(0);
    assert_eq!(messages(&sandbox.path.join("c.json")), ["c {\"a\":1}", "s {\"a\":1}"]);
}

#[test]
fn a_cassette_needs_a_name_that_a_file_can_have() {
    let sandbox = Sandbox::new();
    for command in ["record", "use"] {
        for (name, why) in [
            ("", "--cassette needs the name of a file"),
            ("-", "--cassette takes a file: a recording goes into no pipe"),
        ] {
            let run =
                sandbox.mcpreel([command, "--cassette", name, "--", "cat"]).lines(&["{}"]).run().expect(2);
            assert_eq!(
                (run.stdout().as_str(), run.stderr().as_str()),
                ("", format!("mcpreel: {why}\n").as_str())
            );
        }
    }
    for command in ["begin", "end"] {
        for (name, why) in [
            ("", format!("<file> must not be empty; see mcpreel {command} --help")),
            ("-", "<file> takes a file: a recording goes into no pipe".to_owned()),
        ] {
            let run = sandbox.mcpreel([command, name, "--session", "s"]).run().expect(2);
            assert_eq!(run.stderr(), format!("mcpreel: {why}\n"), "{command}");
        }
    }
}

#[test]
fn a_file_limit_that_leaves_no_room_is_told() {
    let sandbox = Sandbox::new();
    let script = format!("ulimit -f 0; exec {MCPREEL} record --no-config --cassette c.json -- cat");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).current_dir(&sandbox.path).stdin(std::process::Stdio::null());
    let done = shell.env("MCPREEL_SESSION", "limited").output().unwrap();
    let said = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(125), "{said}");
    assert!(said.starts_with("mcpreel: cannot ") && said.ends_with(": file too large\n"), "{said}");
}

#[test]
fn what_stands_behind_dashes_may_be_the_file_and_a_folder_is_no_standard_output() {
    let sandbox = Sandbox::new();
    sandbox.cassette("c.json", &["c {\"id\":1,\"method\":\"ping\"}"]);
    sandbox.mcpreel(["serve", "-q", "--", "c.json"]).run().expect(0);
    let done = sandbox.mcpreel(["split", "c.json", "--by", "server", "-o", "-"]).run().expect(2);
    let said = "mcpreel: -o takes a folder, since split writes several files; -o ./- is one of that name\n";
    assert_eq!((done.stderr().as_str(), sandbox.has("-")), (said, false));
    sandbox.mcpreel(["split", "c.json", "--by", "server", "-o", "./-"]).run().expect(0);
    assert!(sandbox.has("-/demo.cassette.json"));
}
