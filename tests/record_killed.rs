//! Recordings whose processes were killed, and what becomes of them when somebody else records.

use crate::support::recording::DEMO;
use crate::support::{Client, Run, Sandbox, eventually, messages};

/// Not a probe, and unlike what any other one says.
fn call(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"text":"{text}"}}}}}}"#
    )
}

fn in_folder(sandbox: &Sandbox, folder: &str, text: &str) -> bool {
    let entries = std::fs::read_dir(sandbox.path.join(folder)).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| {
        std::fs::read(entry.path()).is_ok_and(|bytes| memchr::memmem::find(&bytes, text.as_bytes()).is_some())
    })
}

/// A recorder that has recorded this text.
fn recorder(sandbox: &Sandbox, options: &[&str], text: &str) -> Client {
    let mut client = sandbox.recorder("c.json", options, &["cat"]).start();
    let line = call(text);
    assert_eq!(client.ask(&line), line);
    eventually("the call in the segment", || in_folder(sandbox, "c.json.partial", text));
    client
}

/// All texts are in the folder that was set aside, and in the cassette that is recovered from it; the cassette is new.
#[track_caller]
fn is_kept(sandbox: &Sandbox, run: Run, texts: &[&str]) {
    let done = run.lines(&[&call("new")]).run().expect(0);
    let said = done.stderr();
    assert!(said.contains("was interrupted; what it had recorded is in "), "{said}");
    assert!(!said.contains("was killed while recording"), "{said}");
    assert!(messages(&sandbox.path.join("c.json")).iter().all(|message| message.contains("new")), "{said}");
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json", "c.json.partial.1"]);
    sandbox.mcpreel(["recover", "c.json.partial.1", "-o", "earlier.json"]).run().expect(0);
    let earlier = messages(&sandbox.path.join("earlier.json"));
    for text in texts {
        assert!(earlier.contains(&format!("c {}", call(text))), "{text}: {earlier:?}");
    }
}

/// The recordings that replace a cassette, by another owner than session a.
fn replacing(sandbox: &Sandbox) -> Vec<Run> {
    vec![
        sandbox.recorder("c.json", &["--session", "b"], &["cat"]),
        sandbox.recorder("c.json", &[], &["cat"]),
        sandbox.user("c.json", &["--mode", "all", "--session", "b"], &["cat"]),
        sandbox.user("c.json", &["--mode", "all"], &["cat"]),
    ]
}

#[test]
fn a_killed_recording_is_not_replaced_by_the_next_one_of_somebody_else() {
    // Without a session this process, which lives, is the owner; another one of it goes on.
    for options in [&["--session", "a"][..], &["--session", "a@1"], &[]] {
        for (nth, processes) in [(0, 1), (1, 5), (2, 1), (3, 5)] {
            if options.is_empty() && nth % 2 == 1 {
                continue;
            }
            let sandbox = Sandbox::new();
            let texts: Vec<String> = (0..processes).map(|number| format!("old {number}")).collect();
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let clients: Vec<Client> = texts.iter().map(|text| recorder(&sandbox, options, text)).collect();
            for mut client in clients {
                client.kill();
            }
            is_kept(&sandbox, replacing(&sandbox).swap_remove(nth), &texts);
        }
    }
}

#[test]
fn what_ended_well_beside_a_killed_process_is_kept_too() {
    let sandbox = Sandbox::new();
    let (first, mut second) =
        (recorder(&sandbox, &["--session", "a"], "well"), recorder(&sandbox, &["--session", "a"], "killed"));
    first.close(0);
    second.kill();
    is_kept(&sandbox, replacing(&sandbox).swap_remove(0), &["well", "killed"]);
}

#[test]
fn a_session_that_begins_leaves_what_was_killed_to_its_recorder() {
    let sandbox = Sandbox::new();
    recorder(&sandbox, &["--session", "a"], "old").kill();
    sandbox.mcpreel(["begin", "c.json", "--mode", "all", "--session", "b"]).run().expect(0);
    is_kept(&sandbox, replacing(&sandbox).swap_remove(0), &["old"]);
}

#[test]
fn run_sets_aside_what_was_killed() {
    let sandbox = Sandbox::new();
    recorder(&sandbox, &["--session", "a"], "old").kill();
    let config =
        serde_json::json!({ "mcpServers": { "demo": { "command": DEMO[0], "args": ["demo", "server"] } } });
    sandbox.file("mcp.json", config.to_string());
    let arguments = [
        "run",
        "--cassette",
        "c.json",
        "--config",
        "mcp.json",
        "--mode",
        "all",
        "--session",
        "b",
        "--",
        "true",
        "{config}",
    ];
    let said = sandbox.mcpreel(arguments).run().stderr();
    assert!(in_folder(&sandbox, "c.json.partial.1", "old"), "{said}");
    assert!(!sandbox.has("c.json"), "{said}");
}

#[test]
fn a_killed_recorder_of_a_url_is_set_aside() {
    let sandbox = Sandbox::new();
    let server = sandbox.listen(["demo", "server", "--listen", "127.0.0.1:0"]);
    let url = format!("http://{}{}", server.host, server.path);
    let recorder = sandbox.listen(["record", "--cassette", "c.json", "--session", "a", "--url", &url]);
    recorder.modern(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#);
    eventually("the call in the segment", || in_folder(&sandbox, "c.json.partial", "tools/list"));
    recorder.end_by(9, 128 + 9);
    let run = sandbox.recorder("c.json", &["--session", "b"], &["cat"]);
    is_kept(&sandbox, run, &[]);
    assert!(sandbox.read("earlier.json").contains("tools/list"));
    server.signal(15);
}
