//! `run`: an agent with several servers, one cassette.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use mcpreel::cassette::{Cassette, Side};

use crate::support::http::{Upstream, answer, json};
use crate::support::{Done, MCPREEL, Run, Sandbox, eventually};

const TOKEN: &str = "tr4cker-T0ken-9f8e7d6c5b4a";

/// The agent of the tests, which is built along with them.
fn agent() -> String {
    let path = PathBuf::from(MCPREEL).parent().unwrap().join("examples/agent");
    assert!(path.exists(), "{} is missing: cargo builds it with the tests", path.display());
    path.to_str().unwrap().to_owned()
}

/// A server that answers requests at once, echoes what is said, and lets in those who know the token.
fn tracker() -> Upstream {
    Upstream::start(|request, socket| {
        if request.header("authorization") != Some(&format!("Bearer {TOKEN}")) {
            return socket.write_all(&answer("401 Unauthorized", "", "who are you?")).is_ok();
        }
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let Some(id) = message.get("id") else {
            return socket.write_all(&answer("202 Accepted", "", "")).is_ok();
        };
        let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","tools":[],"said":"{text}"}}}}"#
        );
        socket.write_all(&json(&body)).is_ok()
    })
}

/// A demo server that keeps a log of what it was asked.
pub fn logging(sandbox: &Sandbox, name: &str) -> String {
    sandbox.script(
        name,
        &format!(
            "exec tee -a '{}' | '{MCPREEL}' demo server",
            sandbox.path.join(format!("{name}.log")).display()
        ),
    )
}

/// The command, for the tests' agent.
pub fn run(sandbox: &Sandbox, options: &[&str], agent_options: &[&str]) -> Run {
    let agent = agent();
    let mut arguments = vec!["run", "--cassette", "c.json", "--config", "mcp.json"];
    arguments.extend(options);
    arguments.extend(["--", &agent, "config={config}"]);
    arguments.extend(agent_options);
    let mut run = sandbox.mcpreel(arguments).env("TRACKER_TOKEN", TOKEN);
    run.command.env_remove("MCPREEL_SESSION");
    run
}

/// Two demo servers and nothing else.
fn two(sandbox: &Sandbox) {
    let server = format!(r#"{{"command":"{MCPREEL}","args":["demo","server"]}}"#);
    sandbox.file("mcp.json", format!(r#"{{"mcpServers":{{"a":{server},"b":{server}}}}}"#));
}

fn requests(log: &str) -> usize {
    log.lines().filter(|line| line.contains("\"id\"")).count()
}

#[test]
fn four_servers_make_one_cassette_and_the_agent_meets_them_again_when_they_are_gone() {
    let sandbox = Sandbox::new();
    let upstream = tracker();
    let names = ["files", "mail", "notes"];
    let entries: Vec<String> =
        names.iter().map(|name| format!(r#""{name}":{{"command":"{}"}}"#, logging(&sandbox, name))).collect();
    sandbox.file(
        "mcp.json",
        format!(
            r#"{{"mcpServers":{{{},"tracker":{{"type":"http","url":"{}","headers":{{"Authorization":"Bearer ${{TRACKER_TOKEN}}"}}}}}}}}"#,
            entries.join(","),
            upstream.url("/mcp")
        ),
    );
    let said = ["--say", "one", "--say", "two", "--say", "three"];
    let recorded = run(&sandbox, &[], &said).run().expect(0);
    assert!(
        recorded.stderr().contains("mcpreel: mode once (default): recording into c.json\n"),
        "{}",
        recorded.stderr()
    );
    assert_eq!(recorded.lines().len(), 4 * 5);

    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    let mut served = cassette.head.names();
    served.sort_unstable();
    assert_eq!(served, ["files", "mail", "notes", "tracker"]);
    let of = |name: &str| {
        let asked = |record: &&mcpreel::cassette::Record| {
            record.from == Side::Client
                && cassette.server_name(record) == name
                && cassette.payload(record).is_some_and(|text| text.contains("\"id\""))
        };
        cassette.records.iter().filter(asked).count()
    };
    for name in names {
        assert_eq!(of(name), requests(&sandbox.read(&format!("{name}.log"))), "{name}");
        assert_eq!(of(name), 5);
    }
    assert_eq!(
        of("tracker"),
        upstream.received.try_iter().filter(|request| request.text().contains("\"id\"")).count()
    );
    // The agent asks its servers in turns, and so they stand in the cassette.
    let turns: Vec<&str> = cassette
        .records
        .iter()
        .filter(|record| record.from == Side::Client)
        .filter(|record| cassette.payload(record).is_some_and(|text| text.contains("\"two\"")))
        .map(|record| cassette.server_name(record))
        .collect();
    assert_eq!(turns, ["files", "mail", "notes", "tracker"]);
    let found = std::process::Command::new("grep").args(["-rl", TOKEN]).arg(&sandbox.path).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");

    // The servers are gone, and so is the credential.
    upstream.die();
    for name in names {
        std::fs::remove_file(sandbox.path.join(name)).unwrap();
    }
    for _ in 0..3 {
        let mut again = run(&sandbox, &["--mode", "none"], &said);
        again.command.env_remove("TRACKER_TOKEN");
        assert_eq!(again.run().expect(0).stdout(), recorded.stdout());
    }
    let missed = run(&sandbox, &[], &["--say", "one", "--say", "other"]).run().expect(3);
    for name in ["files", "mail", "notes", "tracker"] {
        let line =
            format!("mcpreel: {name}: no recorded answer for tools/call \"echo\"; nearest is message ");
        assert!(missed.stderr().contains(&line), "{}", missed.stderr());
    }
    // What the agent leaves out only counts where that is wanted.
    let part = ["--say", "one", "--say", "two", "--only", "mail"];
    run(&sandbox, &[], &part).run().expect(0);
    run(&sandbox, &["--require-all-used"], &said).run().expect(0);
    let unused = run(&sandbox, &["-q", "--require-all-used"], &part).run().expect(3).stderr();
    for line in [
        "mcpreel: files: none of its 3 recorded tool calls was used\n",
        "mcpreel: notes: none of its 3 recorded tool calls was used\n",
        "mcpreel: mail: message ",
        "mcpreel: tracker: message ",
    ] {
        assert!(unused.contains(line), "{unused}");
    }
    assert_eq!(unused.matches(", tools/call \"echo\", was not used\n").count(), 1 + 3, "{unused}");
    assert_eq!(unused.lines().count(), 6, "{unused}");
    // The agent's own failure goes before.
    run(&sandbox, &[], &["--say", "other", "--status", "7"]).run().expect(7);
}

#[test]
fn configurations_of_real_clients_are_rewritten_and_nothing_secret_is_written() {
    for (file, expected) in [
        (
            "claude-code.json",
            &[
                "\"${ROOT_FOLDER:-.}\", \"--label\", \"é \\\"quoted\\\"\"]",
                "\"API_KEY\": \"${FILES_API_KEY}\"",
                "\"headers\": {}",
            ][..],
        ),
        (
            "cursor.json",
            &[
                "\"${workspaceFolder}\"]",
                "\"autoApprove\": [\"echo\"]",
                "\"envFile\": \"${workspaceFolder}/.env\"",
                "\"headers\": {}",
                "\"CLIENT_ID\": \"${env:TRACKER_CLIENT}\"",
            ],
        ),
        (
            "vscode.json",
            &[
                "// Secrets are asked for once",
                "\"${workspaceFolder}\"",
                "\"headers\": {\"X-Workspace\": \"${input:workspace}\"}",
                "\"watch\": \"src/**/*.ts\"",
            ],
        ),
    ] {
        let sandbox = Sandbox::new();
        let upstream = tracker();
        let text = std::fs::read_to_string(format!("{}/testdata/configs/{file}", env!("CARGO_MANIFEST_DIR")))
            .unwrap();
        let text = text.replace("SERVER", "./files").replace("UPSTREAM", &upstream.url(""));
        sandbox.file("in/mcp.json", &text);
        let before = sandbox.read("in/mcp.json");
        let script = "cp -p \"$CONFIG\" copy.json; stat -c '%a %n' \"$CONFIG\"; exit 4";
        let done = sandbox
            .mcpreel([
                "run",
                "-q",
                "--cassette",
                "c.json",
                "--config",
                "in/mcp.json",
                "--config-env",
                "CONFIG",
                "--",
                "sh",
                "-c",
                script,
            ])
            .env("TRACKER_TOKEN", TOKEN)
            .run()
            .expect(4);
        let copy = sandbox.read("copy.json");
        for part in expected {
            assert!(copy.contains(part), "{file}: no {part} in {copy}");
        }
        assert!(copy.contains("\"./files\""), "{copy}");
        assert!(!copy.contains(TOKEN) && !copy.contains(&upstream.address.to_string()), "{copy}");
        assert_eq!(sandbox.read("in/mcp.json"), before);
        // Only its owner could read it, and it is gone.
        let printed = done.stdout();
        let (mode, path) = printed.trim_end().split_once(' ').unwrap();
        assert_eq!(mode, "600");
        assert!(path.ends_with("/mcp.json"), "{path}");
        assert!(!PathBuf::from(path).parent().unwrap().exists(), "{path}");
        assert!(
            done.stderr().contains("nothing was captured, so c.json was not written"),
            "{}",
            done.stderr()
        );
    }
}

#[test]
fn no_map_of_servers_is_left_as_it_was() {
    let sandbox = Sandbox::new();
    let server = format!(r#"{{"command":"{MCPREEL}","args":["demo","server"]}}"#);
    let config = |left: &str| {
        sandbox.file(
            "mcp.json",
            format!(
                r#"{{"mcpServers":{{"a":{server}}},"servers":{{"web":{{"url":"http://127.0.0.1:9/old","serverUrl":"http://127.0.0.1:9/old"}}}},"projects":{{"/x":{{"mcpServers":{{"b":{server},"a":{left}}}}}}}}}"#
            ),
        );
    };
    config(&server);
    let options = ["run", "-q", "--cassette", "c.json", "--config", "mcp.json", "--", "cat", "{config}"];
    let copy = sandbox.mcpreel(options).run().expect(1).stdout();
    assert_eq!(copy.matches("\"use\", ").count(), 3, "{copy}");
    assert_eq!(
        (copy.matches("\"--server=a\"").count(), copy.matches("127.0.0.1:9/").count()),
        (2, 0),
        "{copy}"
    );
    config(r#"{"command":"other"}"#);
    let said = sandbox.mcpreel(options).run().expect(2).stderr();
    assert!(
        said.contains("/projects/~1x/mcpServers/a: is another server than the one of this name at"),
        "{said}"
    );
}

#[test]
fn the_agent_is_told_where_its_configuration_is() {
    let sandbox = Sandbox::new();
    two(&sandbox);
    sandbox.file("show", "#!/bin/sh\nfor word; do echo \"$word\"; done; echo \"in $WHERE\"\n");
    std::fs::set_permissions(sandbox.path.join("show"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let options = ["run", "-q", "--cassette", "c.json", "--config", "mcp.json"];
    let shown = |more: &[&str]| -> Vec<String> {
        let done = sandbox.mcpreel(options.iter().chain(more)).run().expect(1);
        let replaced = |line: &String| {
            let start = line.find("/tmp/mcpreel-run-").or_else(|| line.find("mcpreel-run-"));
            start.map_or_else(|| line.clone(), |at| format!("{}PATH", &line[..at]))
        };
        done.lines().iter().map(replaced).collect()
    };
    assert_eq!(shown(&["--", "./show", "a={config}", "b"])[..2], ["a=PATH", "b"]);
    assert_eq!(shown(&["--config-arg", "--mcp", "--", "./show", "b"])[..3], ["b", "--mcp", "PATH"]);
    assert_eq!(shown(&["--config-env", "WHERE", "--", "./show"]), ["in PATH"]);
    let untold = sandbox.mcpreel(options.iter().chain(&["--", "./show"])).run().expect(2);
    assert!(
        untold.stderr().contains("by {config} in its arguments, --config-env or --config-arg"),
        "{}",
        untold.stderr()
    );
}

#[test]
fn statuses_say_what_happened() {
    let sandbox = Sandbox::new();
    two(&sandbox);
    sandbox.file("bad.json", "{\n  \"mcpServers\": {\"a\": {}}\n}\n");
    sandbox.file("unset.json", r#"{"mcpServers":{"web":{"url":"https://${NO_SUCH_HOST}/mcp"}}}"#);
    let agent = agent();
    let agent = agent.as_str();
    for (arguments, code, expected) in [
        (
            &["--config", "mcp.json", "--mode", "none", "--", agent, "{config}"][..],
            2,
            "c.json: no such cassette",
        ),
        (&["--config", "mcp.json", "--", "no-such-agent", "{config}"], 127, "no-such-agent"),
        (&["--config", "mcp.json", "--", "./mcp.json", "{config}"], 126, "./mcp.json"),
        (&["--config", "mcp.json"], 2, "run needs the agent's command line"),
        (
            &["--config", "none.json", "--", agent, "{config}"],
            2,
            "none.json: cannot read the configuration: ",
        ),
        (
            &["--config", "bad.json", "--", agent, "{config}"],
            2,
            "bad.json: /mcpServers/a: neither `command` nor `url`",
        ),
        (
            &["--config", "unset.json", "--", agent, "{config}"],
            2,
            "unset.json: /mcpServers/web: ${NO_SUCH_HOST} in the URL is not set",
        ),
        (
            &["--config", "mcp.json", "--ordering", "odd", "--", agent, "{config}"],
            2,
            "mcpreel: --ordering \"odd\": \"odd\" is not one of per-key, strict, any",
        ),
        (
            &["--config", "mcp.json", "--", "true", "{config}"],
            1,
            "nothing was captured, so c.json was not written",
        ),
        (
            &["--config", "mcp.json", "--", "sh", "-c", "kill -TERM $$", "{config}"],
            143,
            "nothing was captured",
        ),
    ] {
        let done =
            sandbox.mcpreel(["run", "-q", "--cassette", "c.json"].iter().chain(arguments)).run().expect(code);
        let said = done.stderr();
        assert!(said.contains(expected) && said.lines().count() == 1, "{arguments:?}: {said}");
        assert_eq!(sandbox.of_cassette("c.json"), [""; 0], "{arguments:?}");
    }
    // What keeps mcpreel from its work is not the agent's failure.
    let begin = |cassette: &str, temp: &str| {
        let options = ["run", "-q", "--config", "mcp.json", "--cassette", cassette, "--", agent, "{config}"];
        sandbox.mcpreel(options).env("TMPDIR", temp).run().expect(125).stderr()
    };
    for (cassette, temp, expected) in [
        ("mcp.json/c.json", "/tmp", "mcpreel: cannot "),
        (
            "c.json",
            "/no/such/folder",
            "mcpreel: cannot make a folder for the session /no/such/folder/mcpreel-run-",
        ),
    ] {
        let said = begin(cassette, temp);
        assert!(said.starts_with(expected) && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn what_is_new_is_asked_of_all_live_servers_and_appended() {
    let sandbox = Sandbox::new();
    let upstream = tracker();
    let server = |gone: bool| {
        let command = if gone { "no-such-program".to_owned() } else { logging(&sandbox, "files") };
        sandbox.file(
            "mcp.json",
            format!(
                r#"{{"mcpServers":{{"files":{{"command":"{command}"}},"tracker":{{"type":"http","url":"{}","headers":{{"Authorization":"Bearer ${{TRACKER_TOKEN}}"}}}}}}}}"#,
                upstream.url("/mcp")
            ),
        );
    };
    server(false);
    run(&sandbox, &[], &["--say", "one"]).run().expect(0);
    let before = sandbox.read("c.json");
    let (asked, log) = (upstream.received.try_iter().count(), sandbox.read("files.log"));
    assert!(asked > 0);
    // Nothing new: no server is troubled.
    let said = run(&sandbox, &["--mode", "new_episodes"], &["--say", "one"]).run().expect(0).stderr();
    let start = "mcpreel: mode new_episodes (--mode): replaying, and appending what is new to c.json\n";
    assert!(
        said.starts_with(start) && said.contains("mcpreel: nothing new: c.json was left as it is\n"),
        "{said}"
    );
    assert_eq!(sandbox.read("c.json"), before);
    assert_eq!((upstream.received.try_iter().count(), sandbox.read("files.log")), (0, log));
    let both = ["--say", "one", "--say", "two"];
    let done = run(&sandbox, &["--mode", "new_episodes"], &both).run().expect(0);
    assert!(done.stderr().ends_with("mcpreel: recorded into c.json\n"), "{}", done.stderr());
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
    for name in ["files", "tracker"] {
        let live = format!("\"server\": \"{name}\"");
        assert!(sandbox.read("c.json").matches(&live).count() > before.matches(&live).count(), "{name}");
    }
    let found = std::process::Command::new("grep").args(["-rl", TOKEN]).arg(&sandbox.path).output().unwrap();
    assert_eq!(String::from_utf8(found.stdout).unwrap(), "");
    // All of it is replayed without the servers.
    server(true);
    upstream.die();
    for mode in ["none", "new_episodes"] {
        let again = run(&sandbox, &["--mode", mode], &both).run().expect(0);
        assert_eq!(again.stdout(), done.stdout(), "{mode}");
    }
    // What cannot be asked of anybody is a miss.
    let missed = run(&sandbox, &["--mode", "new_episodes"], &["--say", "three"]).run().expect(3).stderr();
    assert!(
        missed.contains("files: tools/call \"echo\": the live server cannot be started: no-such-program: command not found"),
        "{missed}"
    );
    assert!(missed.contains("tracker: tools/call \"echo\": the live server cannot be reached"), "{missed}");
}

#[test]
fn a_server_that_was_not_used_while_recording_is_a_miss_in_a_replay() {
    let sandbox = Sandbox::new();
    let upstream = tracker();
    sandbox.file(
        "mcp.json",
        format!(
            r#"{{"servers":{{"a":{{"command":"{MCPREEL}","args":["demo","server"]}},"b":{{"command":"{MCPREEL}","args":["demo","server"]}},"web":{{"url":"{}"}}}}}}"#,
            upstream.url("/mcp")
        ),
    );
    run(&sandbox, &[], &["--only", "a", "--say", "x"]).run().expect(0);
    run(&sandbox, &[], &["--only", "a", "--say", "x"]).run().expect(0);
    for (name, expected) in
        [("b", "mcpreel: b: c.json: has no server \"b\""), ("web", "mcpreel: web: no recorded answer for")]
    {
        let done = run(&sandbox, &["--report", "report.jsonl"], &["--only", name]).run().expect(3);
        let said = done.stderr().replace(&format!("{}/", sandbox.path.display()), "");
        assert!(said.contains(expected), "{said}");
    }
    assert!(upstream.received.try_recv().is_err(), "the server was contacted");
}

#[test]
fn an_agent_that_is_signalled_or_leaves_its_servers_behind_is_recorded_too() {
    for (signal, code) in [(15, 143), (2, 130), (1, 129), (3, 131)] {
        let sandbox = Sandbox::new();
        two(&sandbox);
        let mut client = run(&sandbox, &[], &["--say", "x", "--wait"]).start();
        for _ in 0..6 {
            client.next();
        }
        client.signal(signal);
        client.end(code);
        assert_eq!(Cassette::read(&sandbox.path.join("c.json")).unwrap().head.names().len(), 2);
    }
    let sandbox = Sandbox::new();
    two(&sandbox);
    run(&sandbox, &[], &["--say", "x", "--leave"]).run().expect(0);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
    run(&sandbox, &["--mode", "none"], &["--say", "y", "--leave"]).run().expect(3);
}

#[test]
fn a_replay_whose_process_is_killed_before_it_reports_does_not_end_well() {
    let sandbox = Sandbox::new();
    two(&sandbox);
    run(&sandbox, &[], &["--only", "a", "--say", "x"]).run().expect(0);
    std::fs::create_dir(sandbox.path.join("reports")).unwrap();
    let told = "mcpreel: a: a process was killed before it could report; what it was asked is not known\n";
    // One that is stopped does not hear SIGTERM, and is ended all the same.
    for (signal, report) in [("KILL", "report.jsonl"), ("STOP", "reports")] {
        let options = ["-q", "--mode", "none", "--report", report];
        let done =
            run(&sandbox, &options, &["--only", "a", "--say", "y", "--signal", signal]).run().expect(3);
        assert!(done.stderr().ends_with(told), "{signal}: {}", done.stderr());
    }
    assert_eq!(sandbox.read("report.jsonl"), "");
    let reports =
        || std::fs::read_dir(sandbox.path.join("reports")).unwrap().map(|entry| entry.unwrap().path());
    assert_eq!(reports().map(|path| std::fs::metadata(path).unwrap().len()).collect::<Vec<_>>(), [0]);
    // The others report as ever, into a file of the user's or into a folder.
    for report in ["report.jsonl", "reports"] {
        let options = ["-q", "--mode", "none", "--report", report];
        let done = run(&sandbox, &options, &["--only", "a", "--say", "x"]).run().expect(0);
        assert!(!done.stderr().contains("killed"), "{}", done.stderr());
    }
    let row = "{\"mcpreel_report\":1,";
    assert!(
        sandbox.read("report.jsonl").starts_with(row) && sandbox.read("report.jsonl").lines().count() == 1
    );
    let rows = reports().filter(|path| std::fs::read_to_string(path).unwrap().starts_with(row)).count();
    assert_eq!((rows, reports().count()), (1, 2));
    // A recording leaves its reports in a folder only.
    run(&sandbox, &["--mode", "all", "--report", "reports"], &["--say", "x"]).run().expect(0);
    run(&sandbox, &["--mode", "all", "--report", "none.jsonl"], &["--say", "x"]).run().expect(0);
    assert_eq!(reports().count(), 4);
    assert!(!sandbox.path.join("none.jsonl").exists());
}

#[test]
fn what_a_run_that_was_killed_has_left_is_removed_by_the_next_one() {
    let sandbox = Sandbox::new();
    two(&sandbox);
    let temp = sandbox.path.join("temp");
    // Somebody else's, and one whose owner cannot be told.
    for other in ["mcpreel-run-notes", "mcpreel-run-1-x", "mcpreel-run-99999999-x"] {
        std::fs::create_dir_all(temp.join(other)).unwrap();
    }
    let folders = || {
        let names =
            std::fs::read_dir(&temp).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
        let mut names: Vec<String> = names.collect();
        names.sort_unstable();
        names
    };
    let before = folders();
    let mut killed = sandbox.mcpreel(["run", "-q", "--config", "mcp.json", "--cassette", "c.json", "--"]);
    killed.command.args(["sh", "-c", "kill -KILL $PPID", "{config}"]).env("TMPDIR", &temp);
    killed.run().expect(137);
    assert_eq!(folders().len(), before.len() + 1);
    // It goes, and that of a run under way stays.
    let options = ["run", "-q", "--config", "mcp.json", "--cassette", "c.json", "--mode", "all", "--"];
    let script = r#"ls -d "$TMPDIR"/mcpreel-run-*; "$0" run -q --config "$1" --cassette d.json -- cat {config} > copy; cat "$1""#;
    let mut next = sandbox.mcpreel(options);
    next.command.args(["sh", "-c", script, MCPREEL, "{config}"]).env("TMPDIR", &temp);
    let done = next.run().expect(1);
    let shown = done.stdout();
    assert_eq!(
        shown.matches("/mcpreel-run-").count() - shown.matches("--report=").count(),
        before.len() + 1,
        "{shown}"
    );
    assert!(shown.contains("\"mcpServers\""), "{shown}");
    assert_eq!(folders(), before);
}

#[test]
fn another_recording_of_the_cassette_is_waited_for_or_told() {
    let sandbox = Sandbox::new();
    two(&sandbox);
    let mut first = run(&sandbox, &[], &["--say", "x", "--wait"]).start();
    for _ in 0..6 {
        first.next();
    }
    for options in [&["--mode", "all"][..], &["--claim-wait", "0"]] {
        let done: Done = run(&sandbox, options, &["--say", "x"]).run().expect(6);
        assert!(done.stderr().contains("another recording owns this cassette"), "{}", done.stderr());
    }
    let mut waiting = run(&sandbox, &[], &["--say", "x"]).start();
    first.signal(15);
    first.end(143);
    for _ in 0..6 {
        waiting.next();
    }
    let said = waiting.end(0).stderr;
    assert!(said.contains("replaying c.json"), "{said}");
}

#[test]
fn a_recorder_that_is_killed_takes_nobody_along() {
    let sandbox = Sandbox::new();
    let entries: Vec<String> =
        (1..=5).map(|n| format!(r#""s{n}":{{"command":"{MCPREEL}","args":["demo","server"]}}"#)).collect();
    sandbox.file("mcp.json", format!(r#"{{"mcpServers":{{{}}}}}"#, entries.join(",")));
    let mut client = run(&sandbox, &[], &["--say", "x", "--wait"]).start();
    for _ in 0..15 {
        client.next();
    }
    let folder = sandbox.path.join("c.json.partial");
    let third = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .find(|name| name.contains("-s3-"))
        .unwrap();
    // What has passed is on the disk after the bound for a kill, so the answer to the call is waited for.
    eventually("the last answer in the segment", || {
        std::fs::read_to_string(folder.join(&third)).unwrap().contains("\"content\"")
    });
    let pid: i32 = third.trim_end_matches(".jsonl").rsplit('-').next().unwrap().parse().unwrap();
    rustix::process::kill_process(
        rustix::process::Pid::from_raw(pid).unwrap(),
        rustix::process::Signal::KILL,
    )
    .unwrap();
    client.signal(15);
    let said = client.end(143).stderr;
    assert!(said.contains("warning: ") && said.contains("killed"), "{said}");
    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    for name in ["s1", "s2", "s3", "s4", "s5"] {
        let answers = cassette.records.iter().filter(|record| {
            cassette.server_name(record) == name
                && cassette.payload(record).is_some_and(|text| text.contains("\"content\""))
        });
        assert_eq!(answers.count(), 1, "{name}");
    }
}
