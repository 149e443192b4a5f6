//! Who records into a cassette and who replays it: the table of modes and owners, and named sessions.

use std::process::Command;

use crate::support::recording::{DEMO, lines_of};
use crate::support::{Client, MCPREEL, Run, Sandbox, eventually, initialize, messages, signal_to};

const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

fn call(id: u32, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    )
}

/// `use` for a session, around the demo server.
fn user(sandbox: &Sandbox, session: &str, more: &[&str]) -> Run {
    let mut args = vec!["--session", session];
    args.extend(more);
    sandbox.user("c.json", &args, &DEMO)
}

fn record(sandbox: &Sandbox, session: &str, more: &[&str]) -> Run {
    let mut args = vec!["--session", session];
    args.extend(more);
    sandbox.recorder("c.json", &args, &DEMO)
}

/// Lets a client say these texts by `echo`.
#[track_caller]
fn say(client: &mut Client, texts: &[&str]) -> Vec<String> {
    let mut session = vec![initialize("{}"), INITIALIZED.to_owned()];
    session.extend((1..).zip(texts).map(|(id, text)| call(id, text)));
    let session: Vec<&str> = session.iter().map(String::as_str).collect();
    client.converse(&session)
}

/// A whole run of `use` or `record` that says these texts; gives what it said on standard error.
#[track_caller]
fn whole(run: Run, texts: &[&str], code: i32) -> String {
    let mut client = run.start();
    say(&mut client, texts);
    client.close(code).stderr
}

/// The texts that were said in the cassette, with their connection: `0 hello`.
fn said(sandbox: &Sandbox) -> Vec<String> {
    let cassette = mcpreel::cassette::Cassette::read(&sandbox.path.join("c.json")).unwrap();
    let text_of = |payload: &str| {
        let (_, rest) = payload.split_once("\"arguments\":{\"text\":\"")?;
        Some(rest.split('"').next().unwrap().to_owned())
    };
    let packed = |record: &mcpreel::cassette::Record| {
        mcpreel::jsonrpc::pretty::packed(cassette.payload(record).unwrap_or_default())
    };
    cassette
        .records
        .iter()
        .filter_map(|record| Some(format!("{} {}", record.conn, text_of(&packed(record))?)))
        .collect()
}

#[test]
fn once_records_what_is_absent_goes_on_for_its_maker_and_replays_for_others() {
    let sandbox = Sandbox::new();
    let first = whole(user(&sandbox, "a", &[]), &["one"], 0);
    assert!(first.starts_with("mcpreel: mode once (default): recording into c.json\n"), "{first}");
    assert_eq!(said(&sandbox), ["0 one"]);
    // Another owner replays, and misses what was not recorded.
    let other = whole(user(&sandbox, "b", &[]), &["one"], 0);
    assert!(other.starts_with("mcpreel: mode once (default): replaying c.json\n"), "{other}");
    whole(user(&sandbox, "b", &[]), &["two"], 3);
    assert_eq!(said(&sandbox), ["0 one"]);
    // The maker goes on recording, as further connections.
    let again = whole(user(&sandbox, "a", &[]), &["two"], 0);
    assert!(again.contains("session a made this cassette and is still there: recording goes on"), "{again}");
    whole(user(&sandbox, "a", &[]), &["three"], 0);
    assert_eq!(said(&sandbox), ["0 one", "1 two", "2 three"]);
    // Until its session is ended.
    sandbox.mcpreel(["end", "c.json", "--session", "a"]).run().expect(0);
    whole(user(&sandbox, "a", &[]), &["four"], 3);
    assert_eq!(said(&sandbox), ["0 one", "1 two", "2 three"]);
}

#[test]
fn a_recording_under_way_takes_in_its_owner_and_keeps_others_waiting() {
    for first in [user as fn(&Sandbox, &str, &[&str]) -> Run, record] {
        let sandbox = Sandbox::new();
        let mut owner = first(&sandbox, "a", &[]).start();
        say(&mut owner, &["one"]);
        let mut second = user(&sandbox, "a", &[]).start();
        say(&mut second, &["two"]);
        // Others: `once` waits and gives up, `none` has nothing to replay, `all` and `record` do not wait.
        let once = user(&sandbox, "b", &["-q", "--claim-wait", "0.1"]).run().expect(6).stderr();
        let all = user(&sandbox, "b", &["-q", "--mode", "all"]).run().expect(6).stderr();
        let bare = record(&sandbox, "b", &["-q"]).run().expect(6).stderr();
        for said in [once, all, bare] {
            assert_eq!(said.lines().count(), 1, "{said}");
            assert!(
                said.starts_with(
                    "mcpreel: c.json: another recording owns this cassette (session a, recorded by process "
                ),
                "{said}"
            );
            assert!(said.contains(&owner.child.id().to_string()), "{said}");
        }
        let none = user(&sandbox, "b", &["-q", "--mode", "none"]).run().expect(2).stderr();
        assert!(none.contains("no cassette yet: session a is recording it; wait"), "{none}");
        let recover = sandbox.mcpreel(["recover", "c.json"]).run().expect(6).stderr();
        assert!(recover.contains("session a, recording in process "), "{recover}");
        // Who waits long enough replays.
        let mut waiting = user(&sandbox, "b", &["--claim-wait", "20"]).start();
        let left = owner.close(0).stderr;
        assert!(left.contains("others still record into c.json"), "{left}");
        assert!(!sandbox.has("c.json"));
        second.close(0);
        say(&mut waiting, &["one"]);
        waiting.close(0);
        assert_eq!(said(&sandbox), ["0 one", "1 two"]);
    }
}

#[test]
fn while_it_is_recorded_anew_others_replay_what_is_there() {
    let sandbox = Sandbox::new();
    whole(record(&sandbox, "a", &[]), &["old"], 0);
    let mut owner = user(&sandbox, "b", &["--mode", "all"]).start();
    say(&mut owner, &["new"]);
    for mode in ["once", "none"] {
        whole(user(&sandbox, "c", &["--mode", mode]), &["old"], 0);
    }
    whole(sandbox.mcpreel(["serve", "c.json"]), &["old"], 0);
    record(&sandbox, "c", &[]).run().expect(6);
    // A further connection of the new one.
    whole(user(&sandbox, "b", &["--mode", "all"]), &["more"], 0);
    assert_eq!(said(&sandbox), ["0 old"]);
    owner.close(0);
    assert_eq!(said(&sandbox), ["0 new", "1 more"]);
    // The maker is still there, and so `all` goes on instead of starting anew.
    whole(user(&sandbox, "b", &["--mode", "all"]), &["again"], 0);
    assert_eq!(said(&sandbox), ["0 new", "1 more", "2 again"]);
    whole(record(&sandbox, "d", &[]), &["last"], 0);
    assert_eq!(said(&sandbox), ["0 last"]);
}

#[test]
fn a_recorder_can_wait_for_another_owner() {
    let sandbox = Sandbox::new();
    let mut owner = record(&sandbox, "a", &[]).start();
    say(&mut owner, &["one"]);
    let mut waiting = record(&sandbox, "b", &["--claim-wait", "20"]).start();
    waiting.send(&initialize("{}"));
    owner.close(0);
    waiting.next();
    waiting.ask(&call(1, "two"));
    waiting.close(0);
    assert_eq!(said(&sandbox), ["0 two"]);
}

#[test]
fn force_takes_over_and_the_other_goes_on_without_recording() {
    let sandbox = Sandbox::new();
    let mut old = record(&sandbox, "a", &["-q"]).start();
    say(&mut old, &["one"]);
    eventually("the answer in the segment", || {
        let entries = std::fs::read_dir(sandbox.path.join("c.json.partial")).unwrap();
        let texts = entries.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok());
        texts.into_iter().any(|text| text.contains("\"content\""))
    });
    let mut new = record(&sandbox, "b", &["--force"]).start();
    say(&mut new, &["two"]);
    let answer = old.ask(&call(9, "still there?"));
    assert!(answer.contains("still there?"), "{answer}");
    let ended = old.close(125);
    assert!(
        ended
            .stderr
            .contains("recording stopped: the recording was taken over by session b; the session goes on"),
        "{}",
        ended.stderr
    );
    let ended = new.close(0);
    assert!(ended.stderr.contains("taken over from session a, recorded by process "), "{}", ended.stderr);
    assert!(ended.stderr.contains("c.json.partial.1"), "{}", ended.stderr);
    assert_eq!(said(&sandbox), ["0 two"]);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json", "c.json.partial.1"]);

    // One that had nothing to record any more has to say so, too.
    let mut old = record(&sandbox, "c", &["-q"]).start();
    say(&mut old, &["three"]);
    whole(record(&sandbox, "d", &["--force"]), &["four"], 0);
    let ended = old.close(125);
    let words = "recording stopped: the recording folder was removed; nothing of this session is in c.json";
    assert_eq!(ended.stderr, format!("mcpreel: {words}\n"));
    assert_eq!(said(&sandbox), ["0 four"]);
}

#[test]
fn an_interrupted_recording_is_moved_aside_by_the_next_one_and_named() {
    let sandbox = Sandbox::new();
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    for number in 1..3 {
        let session = format!("killed-{number}@{}", gone.id());
        let mut client = record(&sandbox, &session, &["-q"]).start();
        say(&mut client, &["lost"]);
        let folder = sandbox.path.join("c.json.partial");
        eventually("the message in the segment", || {
            std::fs::read_dir(&folder)
                .unwrap()
                .flatten()
                .any(|entry| std::fs::read_to_string(entry.path()).is_ok_and(|text| text.contains("lost")))
        });
        client.kill();
        let said = whole(user(&sandbox, "b", &["--mode", "all"]), &["kept"], 0);
        let aside = sandbox.path.canonicalize().unwrap().join(format!("c.json.partial.{number}"));
        let words = format!(
            "an earlier recording by session killed-{number} was interrupted; what it had recorded is in {}, and `mcpreel recover` with that folder makes a cassette of it",
            aside.display()
        );
        assert!(said.contains(&words), "{said}");
        assert!(aside.is_dir());
        sandbox.mcpreel(["end", "c.json", "--session", "b"]).run().expect(0);
    }
    assert_eq!(said(&sandbox), ["0 kept"]);

    // They can be recovered one by one, never over something that is there.
    let recover = |args: &[&str], code: i32| {
        let args = ["recover"].iter().chain(args).copied().collect::<Vec<_>>();
        sandbox.mcpreel(args).run().expect(code).stderr()
    };
    let refused = recover(&["c.json.partial.1"], 2);
    assert!(refused.contains("c.json is there already; say with -o where"), "{refused}");
    let done = recover(&["c.json.partial.1", "-o", "lost.json"], 0);
    assert!(
        done.contains("no end: its recorder was killed") && done.ends_with("lost.json is complete\n"),
        "{done}"
    );
    assert!(sandbox.read("lost.json").contains("\"killed\": true"));
    assert_eq!(said(&sandbox), ["0 kept"]);
    std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    recover(&["c.json"], 0);
    assert_eq!(said(&sandbox), ["0 lost"]);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
    let nothing = recover(&["c.json", "-o", "d.json"], 2);
    assert!(nothing.contains("is no folder of an interrupted recording"), "{nothing}");
}

#[test]
fn probes_never_replace_a_cassette_and_are_kept_where_there_is_none() {
    const DISCOVER: &str = r#"{"jsonrpc":"2.0","id":"server-discover-probe-1","method":"server/discover"}"#;
    let sandbox = Sandbox::new();
    // A probe and then the real process, as the TypeScript SDK starts them.
    let mut probe = user(&sandbox, "a", &[]).start();
    probe.ask(DISCOVER);
    probe.stdin = None;
    probe.signal(15);
    eventually("the end of the probe", || !crate::support::recording::is_alive(probe.child.id()));
    drop(probe);
    let kept = messages(&sandbox.path.join("c.json"));
    assert_eq!(kept[0], format!("c {DISCOVER}"));
    // Others see nothing in it that could be replayed yet.
    whole(user(&sandbox, "a", &[]), &["one"], 0);
    assert_eq!(said(&sandbox), ["1 one"]);

    let before = sandbox.read("c.json");
    for (probe, mode) in [(initialize("{}"), "once"), (DISCOVER.to_owned(), "all")] {
        for session in ["b", "c"] {
            let mut client = if mode == "once" {
                record(&sandbox, session, &[]).start()
            } else {
                user(&sandbox, session, &["--mode", "all"]).start()
            };
            client.ask(&probe);
            let ended = client.close(0);
            assert!(ended.stderr.contains("only probes, which do not replace c.json"), "{}", ended.stderr);
            assert_eq!(sandbox.read("c.json"), before);
        }
    }
}

#[test]
fn only_probes_in_a_cassette_are_recorded_over_by_anybody() {
    let sandbox = Sandbox::new();
    let mut probe = user(&sandbox, "a", &[]).start();
    probe.ask(&initialize("{}"));
    probe.close(0);
    sandbox.mcpreel(["end", "c.json", "--session", "a"]).run().expect(0);
    whole(user(&sandbox, "b", &[]), &["one"], 0);
    assert_eq!(said(&sandbox), ["0 one"]);
}

#[test]
fn the_mode_of_the_environment_goes_first() {
    let sandbox = Sandbox::new();
    whole(record(&sandbox, "a", &[]), &["one"], 0);
    for (variables, option, expected) in [
        (&[("MCPREEL_MODE", "all")][..], "none", "mode all (MCPREEL_MODE in the environment): recording"),
        (
            &[("MCP_CASSETTE_MODE", "all")],
            "none",
            "mode all (MCP_CASSETTE_MODE in the environment): recording",
        ),
        (
            &[("MCPREEL_MODE", "none"), ("MCP_CASSETTE_MODE", "all")],
            "all",
            "mode none (MCPREEL_MODE in the environment): replaying",
        ),
        (&[("MCPREEL_MODE", "")], "none", "mode none (--mode): replaying"),
        (&[], "none", "mode none (--mode): replaying"),
    ] {
        let mut run = user(&sandbox, "b", &["--mode", option]);
        for (name, value) in variables {
            run = run.env(name, value);
        }
        let said = whole(run, &["one"], 0);
        assert!(said.starts_with(&format!("mcpreel: {expected} ")), "{variables:?}: {said}");
    }
    let said = user(&sandbox, "b", &[]).env("MCPREEL_MODE", "sometimes").run().expect(2).stderr();
    assert!(
        said.contains("unknown mode sometimes (MCPREEL_MODE in the environment); valid are: once"),
        "{said}"
    );
    let said = user(&sandbox, "b", &["--mode", "sometimes"]).run().expect(2).stderr();
    assert!(said.contains("unknown mode sometimes (--mode)"), "{said}");
}

#[test]
fn the_mode_is_found_in_the_environment_of_a_parent_when_ours_was_stripped() {
    let sandbox = Sandbox::new();
    whole(record(&sandbox, "a", &[]), &["one"], 0);
    let script = format!("env -i PATH=\"$PATH\" {MCPREEL} use --session b --cassette c.json -- cat; exit $?");
    for (variable, value, expected) in [
        ("MCPREEL_MODE", "none", "mode none (MCPREEL_MODE in the environment of process "),
        ("MCP_CASSETTE_MODE", "none", "mode none (MCP_CASSETTE_MODE in the environment of process "),
    ] {
        let mut run = sandbox.mcpreel(["--version"]);
        run.command = Command::new("sh");
        run.command.args(["-c", &script]).current_dir(&sandbox.path).env(variable, value);
        let mut client = run.start();
        let parent = client.child.id();
        say(&mut client, &["one"]);
        let said = client.close(0).stderr;
        assert!(said.starts_with(&format!("mcpreel: {expected}{parent}): replaying c.json\n")), "{said}");
    }
}

#[test]
fn mode_none_records_nothing_not_even_by_record() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "touch started; exec cat");
    for variable in ["MCPREEL_MODE", "MCP_CASSETTE_MODE"] {
        let done = sandbox.recorder("c.json", &[], &[&server]).env(variable, "none").run().expect(2);
        let said = done.stderr();
        assert!(
            said.starts_with(&format!(
                "mcpreel: mode none ({variable} in the environment): nothing is to be recorded here"
            )),
            "{said}"
        );
    }
    let done = sandbox.user("c.json", &["-q", "--mode", "none"], &[&server]).run().expect(2);
    assert!(
        done.stderr().starts_with("mcpreel: c.json: no such cassette; record it first"),
        "{}",
        done.stderr()
    );
    assert!(!sandbox.has("started"));
    assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
}

#[test]
fn end_names_what_it_did() {
    let sandbox = Sandbox::new();
    let end = |session: &str, code| {
        sandbox.mcpreel(["end", "c.json", "--session", session]).run().expect(code).stderr()
    };
    assert!(end("a", 2).contains("no session a here"), "");
    let mut owner = record(&sandbox, &format!("a@{}", std::process::id()), &[]).start();
    say(&mut owner, &["one"]);
    // It waits for recorders that are about to leave.
    let ended = std::thread::scope(|scope| {
        let ending = scope.spawn(|| end("a", 0));
        owner.close(0);
        ending.join().unwrap()
    });
    assert!(ended.contains("c.json"), "{ended}");
    assert_eq!(said(&sandbox), ["0 one"]);
    assert!(end("a", 2).contains("no session a here"), "");
    // A session whose process has gone has ended by itself.
    let mut gone = Command::new("sleep").arg("300").spawn().unwrap();
    let session = format!("b@{}", gone.id());
    whole(record(&sandbox, &session, &[]), &["two"], 0);
    whole(user(&sandbox, &session, &[]), &["three"], 0);
    assert_eq!(said(&sandbox), ["0 two", "1 three"]);
    signal_to(gone.id(), 9);
    gone.wait().unwrap();
    whole(user(&sandbox, &session, &[]), &["four"], 3);
}

/// Without a session the client process is the owner; here that is this test.
fn of_this_process(mut run: Run) -> Run {
    run.command.env_remove("MCPREEL_SESSION");
    run
}

#[test]
fn r016_one_process_per_call_and_a_probe_beside_its_sibling_record_together() {
    let sandbox = Sandbox::new();
    let start = |shell: bool| {
        let mut run = of_this_process(sandbox.user("c.json", &["-q"], &DEMO));
        if shell {
            let words: Vec<String> = std::iter::once(MCPREEL.to_owned())
                .chain(run.command.get_args().map(|word| word.to_str().unwrap().to_owned()))
                .collect();
            run.command = Command::new("sh");
            run.command.args(["-c", &format!("{}; exit $?", words.join(" "))]).current_dir(&sandbox.path);
            run.command.env_remove("MCPREEL_SESSION");
        }
        run.start()
    };
    let mut probe = start(false);
    probe.ask(r#"{"jsonrpc":"2.0","id":"p","method":"server/discover"}"#);
    // The real one starts while the probe is still there, and through a shell.
    let mut real = start(true);
    say(&mut real, &["one"]);
    probe.signal(15);
    probe.end(143);
    real.close(0);
    for text in ["two", "three", "four"] {
        let mut next = start(false);
        say(&mut next, &[text]);
        next.close(0);
    }
    assert_eq!(said(&sandbox), ["1 one", "2 two", "3 three", "4 four"]);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

#[test]
fn r016_five_recorders_of_200_messages_each_lose_and_tear_nothing() {
    let sandbox = Sandbox::new();
    for cassette in ["c.json", "c.jsonl"] {
        let texts: Vec<String> = (0..5)
            .map(|who| (0..200).map(|number| format!("{{\"who\":{who},\"n\":{number}}}\n")).collect())
            .collect();
        // None ends before all have begun.
        let mut clients: Vec<Client> = texts
            .iter()
            .map(|_| {
                sandbox.recorder(cassette, &["-q", "--session", "five", "--server", "s"], &["cat"]).start()
            })
            .collect();
        let folder = sandbox.path.join(format!("{cassette}.partial"));
        eventually("five segments", || {
            std::fs::read_dir(&folder).is_ok_and(|entries| entries.flatten().count() >= 7)
        });
        for (client, text) in clients.iter_mut().zip(&texts) {
            client.write(text.as_bytes());
        }
        for client in clients {
            let rest = client.close(0).rest;
            assert_eq!(rest.len(), 200);
        }
        let kept = mcpreel::cassette::Cassette::read(&sandbox.path.join(cassette)).unwrap();
        assert_eq!(kept.records.len(), 2000);
        let lines = messages(&sandbox.path.join(cassette));
        for (who, text) in texts.iter().enumerate() {
            for side in ["c", "s"] {
                let begins = format!("{side} {{\"who\":{who},");
                let own: Vec<&String> = lines.iter().filter(|line| line.starts_with(&begins)).collect();
                let expected: Vec<String> = lines_of(text.as_bytes())
                    .into_iter()
                    .map(|line| format!("{side} {}", String::from_utf8_lossy(line)))
                    .collect();
                assert!(own.into_iter().eq(expected.iter()), "{cassette}: {who} {side}");
            }
        }
        let mut conns: Vec<u32> = kept.records.iter().map(|record| record.conn).collect();
        conns.sort_unstable();
        conns.dedup();
        assert_eq!(conns, [0, 1, 2, 3, 4]);
        assert_eq!(kept.head.processes.len(), 5);
        assert_eq!(kept.warnings, [""; 0]);
        assert!(!folder.exists());
    }
}

#[test]
fn five_servers_of_one_client_make_one_cassette() {
    let sandbox = Sandbox::new();
    let names = ["files", "mail", "calendar", "tracker", "search"];
    let start = |name: &&str| user(&sandbox, "agent", &["-q", "--server", name]).start();
    let mut clients: Vec<Client> = names.iter().map(start).collect();
    for (client, name) in clients.iter_mut().zip(names) {
        say(client, &[name]);
    }
    clients.into_iter().for_each(|client| drop(client.close(0)));
    let mut all = said(&sandbox);
    all.sort();
    assert_eq!(all, ["0 calendar", "0 files", "0 mail", "0 search", "0 tracker"]);
    for name in names {
        whole(user(&sandbox, "other", &["-q", "--mode", "none", "--server", name]), &[name], 0);
    }
    let unknown =
        user(&sandbox, "other", &["-q", "--mode", "none", "--server", "fax"]).run().expect(2).stderr();
    for name in names {
        assert!(unknown.contains(name), "{unknown}");
    }
}

#[test]
fn for_a_session_that_has_ended_nothing_is_recorded_anew() {
    let sandbox = Sandbox::new();
    whole(user(&sandbox, "a", &["-q", "--mode", "all"]), &["one"], 0);
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let session = format!("b@{}", gone.id());
    for mode in ["all", "new_episodes"] {
        let said = user(&sandbox, &session, &["-q", "--mode", mode]).run().expect(2).stderr();
        assert_eq!(said, "mcpreel: session b has ended: nothing is recorded for it\n");
    }
    whole(user(&sandbox, &session, &["-q"]), &["one"], 0);
    assert_eq!(said(&sandbox), ["0 one"]);
}
