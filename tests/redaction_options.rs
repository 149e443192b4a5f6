//! The options about redaction where sessions are recorded and replayed: packs, known secrets, the salt; and that a
//! suite which was recorded with real keys replays with others.

use crate::support::recording::DEMO;
use crate::support::replay::{c, call, handshake, request, s, said};
use crate::support::{MCPREEL, Sandbox, initialize};

const PACK: &str =
    "version = 1\nid = \"team\"\n[[rules]]\nid = \"emp\"\nlabel = \"EMP\"\nregex = 'emp-[0-9]{4}'\n";

fn echo(id: &str, text: &str) -> String {
    call(id, "echo", &format!(r#"{{"text":{}}}"#, serde_json::to_string(text).unwrap()))
}

/// Records with these options and this environment.
#[track_caller]
fn record(sandbox: &Sandbox, cassette: &str, options: &[&str], env: &[(&str, &str)], session: &[String]) {
    let words =
        [&["record", "-q", "--server", "demo", "--cassette", cassette], options, &["--"], &DEMO].concat();
    let run = env.iter().fold(sandbox.mcpreel(words), |run, (name, value)| run.env(name, value));
    let mut client = run.start();
    client.ask(&initialize("{}"));
    for request in session {
        client.ask(request);
    }
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn a_bundled_pack_that_this_version_does_not_have_is_asked_for() {
    let sandbox = Sandbox::new();
    record(&sandbox, "c.json", &[], &[], &[echo("1", "ann@corp.example")]);
    let text = sandbox.read("c.json");
    let head: serde_json::Value = serde_json::from_str(&text).unwrap();
    let ours = head["redaction"]["packs"][0]["sha256"].as_str().unwrap();
    let later = "0123456789abcdef".repeat(4);
    sandbox.file("c.json", text.replace(ours, &later));
    let refused = sandbox.mcpreel(["serve", "c.json"]).run().expect(2);
    assert_eq!(
        refused.stderr(),
        format!(
            "mcpreel: c.json: /redaction: the cassette was redacted with the pack `common` (sha256 {later}), which is \
             not here; use the mcpreel that recorded it or a newer one, or give its file with --pii-pack\n"
        )
    );
}

fn sha256_of_pack(cassette: &str) -> String {
    let head: serde_json::Value = serde_json::from_str(cassette).unwrap();
    head["redaction"]["packs"][1]["sha256"].as_str().unwrap().to_owned()
}

#[test]
fn a_pack_adds_to_the_defaults_and_a_replay_finds_it_again() {
    let sandbox = Sandbox::new();
    sandbox.file("packs/team.toml", PACK);
    let session = [echo("1", "emp-1234 and ann@corp.example")];
    record(&sandbox, "c.json", &["--pii-pack", "packs/team.toml"], &[], &session);
    let text = sandbox.read("c.json");
    assert!(text.contains("REDACTED-1 and redacted-2@redacted.invalid"), "{text}");
    // Nowhere to be found: the digest says what is wanted.
    let wanted = sha256_of_pack(&text);
    let missing = format!(
        "mcpreel: c.json: /redaction: the cassette was redacted with the pack `team` (sha256 {wanted}), which is not \
         here; give its file with --pii-pack\n"
    );
    let refused = sandbox.mcpreel(["serve", "c.json"]).run().expect(2);
    assert_eq!(refused.stderr(), missing);
    let other = PACK.replace("{4}", "{5}");
    sandbox.file("other.toml", &other);
    let refused = sandbox.mcpreel(["serve", "c.json", "--pii-pack", "other.toml"]).run().expect(2);
    assert_eq!(refused.stderr(), missing);
    let replays = |options: &[&str]| {
        let mut client = sandbox.mcpreel([&["serve", "c.json"], options].concat()).start();
        client.ask(&initialize("{}"));
        let answer = client.ask(&echo("1", "emp-9876 and bob@lab.example"));
        assert!(answer.contains("REDACTED-1 and redacted-2@"), "{answer}");
        assert_eq!(client.close(0).stderr, "");
    };
    replays(&["--pii-pack", "packs/team.toml"]);
    // The configuration file names it, from wherever mcpreel starts.
    sandbox.file("mcpreel.toml", "[redact]\npii_pack = \"packs/team.toml\"\n");
    replays(&[]);
    std::fs::remove_file(sandbox.path.join("mcpreel.toml")).unwrap();
    // It lies beside the cassette, under any name, among other files; its line ends do not count.
    sandbox.file("renamed.toml", PACK.replace('\n', "\r\n"));
    sandbox.file("broken.toml", "= not a pack");
    replays(&[]);
}

#[test]
fn a_rule_of_a_pack_renames_nothing_that_the_protocol_needs() {
    let sandbox = Sandbox::new();
    sandbox.file("team.toml", PACK.replace("emp-[0-9]{4}", r"\b[a-z]{6}\b"));
    record(&sandbox, "c.json", &["--pii-pack", "team.toml"], &[], &[echo("1", "by joedoe")]);
    let text = sandbox.read("c.json");
    assert!(text.contains("by REDACTED-") && !text.contains("joedoe"), "{text}");
    let mut client = sandbox.mcpreel(["serve", "c.json"]).start();
    client.ask(&initialize("{}"));
    let answer = client.ask(&echo("1", "by annroe"));
    assert!(answer.contains("by REDACTED-"), "{answer}");
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn a_known_secret_that_is_a_number_matches_any_number() {
    let sandbox = Sandbox::new();
    let ask = |pin: &str| call("1", "echo", &format!(r#"{{"text":"hi","page":0,"pin":{pin},"on":"x"}}"#));
    let known = ["--secret-env", "PIN"];
    record(&sandbox, "c.json", &known, &[("PIN", "123456")], &[ask("123456")]);
    let text = sandbox.read("c.json");
    assert!(text.contains("\"pin\": -0,") && !text.contains("123456"), "{text}");
    for (options, asked, hits) in [
        (&known[..], ask("123456"), true),
        (&[], ask("123456"), true),
        (&[], ask("-7.5e3"), true),
        (&[], ask("0"), true),
        (&[], ask("\"123456\""), false),
        (&[], ask("[123456]"), false),
        (&[], ask("1,\"more\":2"), false),
        (&[], ask("123456").replace("\"page\":0", "\"page\":1"), false),
    ] {
        let words = [&["serve", "c.json", "--report", "r.jsonl"], options].concat();
        let mut client = sandbox.mcpreel(words).env("PIN", "123456").start();
        client.ask(&initialize("{}"));
        let answer = client.ask(&asked);
        assert_eq!(answer.contains("\"result\""), hits, "{asked} {answer}");
        assert_eq!(client.close(if hits { 0 } else { 3 }).stderr.is_empty(), hits, "{asked}");
    }
}

#[test]
fn a_line_that_is_a_number_stays_one() {
    let sandbox = Sandbox::new();
    let server =
        sandbox.script("server", "IFS= read -r line\nprintf '123456\\n 4012888888881881\\ntrue\\n'\n");
    let words = ["record", "-q", "--cassette", "c.json", "--secret-env", "PIN", "--", &server];
    let done = sandbox.mcpreel(words).env("PIN", "123456").input(initialize("{}") + "\n").run().expect(0);
    assert_eq!(done.stderr(), "");
    let cassette: serde_json::Value = serde_json::from_str(&sandbox.read("c.json")).unwrap();
    let said: Vec<String> = cassette["messages"].as_array().unwrap()[1..]
        .iter()
        .map(|record| record["payload"].to_string())
        .collect();
    assert_eq!(said, ["0", "4012888888881881", "true"]);
}

#[test]
fn a_known_secret_is_in_no_spelling_in_the_cassette() {
    let sandbox = Sandbox::new();
    sandbox.file("keys.txt", "FAKE/pct+6Lk=2\r\n\nFAKE-ansi-4Hj7\n");
    let session = [
        echo("1", "plain zebra-stripes, FAKE%2Fpct%2B6Lk%3D2"),
        echo("2", "FAKE-an\u{1b}[31msi-4Hj7\u{1b}[0m emVicmEtc3RyaXBlcw=="),
        call("zebra-stripes", "zebra-stripes", "{}").replace("\"id\":zebra-stripes", "\"id\":3"),
    ];
    let options = ["--secret-env", "LAB_KEY", "--secret-file", "keys.txt"];
    record(&sandbox, "c.json", &options, &[("LAB_KEY", "zebra-stripes")], &session);
    let text = sandbox.read("c.json");
    for gone in ["zebra", "pct", "4Hj7", "emVicm"] {
        assert!(!text.contains(gone), "{gone}: {text}");
    }
    assert!(text.contains("plain REDACTED-1, REDACTED-2") && text.contains("\"known\""), "{text}");
    // A suite that was recorded with the real key replays with a dummy one and with none.
    for (key, file) in [("zebra-stripes", true), ("dummy-key", false), ("", false)] {
        let options = if file { &options[..] } else { &["--secret-env", "LAB_KEY"] };
        let run = sandbox.mcpreel([&["serve", "c.json"], options].concat()).env("LAB_KEY", key);
        let mut client = run.start();
        client.ask(&initialize("{}"));
        let answer = client.ask(&echo("1", &format!("plain {key}, dummy")));
        assert!(answer.contains("plain REDACTED-1, REDACTED-2"), "{key}: {answer}");
        assert_eq!(client.close(0).stderr, "", "{key}");
    }
}

#[test]
fn a_miss_tells_no_known_secret() {
    let sandbox = Sandbox::new();
    sandbox.cassette("c.json", &[&c(call("1", "echo", r#"{"text":"hi"}"#)), &s(said("1", "hi"))]);
    let serve = ["serve", "c.json", "--secret-env", "LAB_KEY", "--report", "r.jsonl"];
    let mut client = sandbox.mcpreel(serve).env("LAB_KEY", "zebra-stripes").start();
    client.ask(&initialize("{}"));
    let mut told = client.fails(&echo("1", "my zebra-stripes"), -31001);
    told += &client.fails(&call("2", "zebra-stripes", "{}"), -31001);
    told += &client.fails(&call("3", "echo", r#"{"text":"hi","zebra%2Dstripes":1}"#), -31001);
    let ended = client.close(3);
    told += &ended.stderr;
    let report = sandbox.read("r.jsonl");
    assert!(told.contains("my REDACTED") && report.contains("my REDACTED"), "{told}{report}");
    assert!(!told.contains("stripes") && !report.contains("stripes"), "{told}{report}");
    let whole = report.lines().all(|line| serde_json::from_str::<serde_json::Value>(line).is_ok());
    assert!(whole, "{report}");
}

#[test]
fn what_a_rule_finds_in_a_live_request_is_told_nowhere() {
    const TOKEN: &str = "ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA2bC4";
    let sandbox = Sandbox::new();
    let read = |id: &str, uri: &str| request(id, "resources/read", &format!(r#"{{"uri":"{uri}"}}"#));
    let asked = [call("1", "once", "{}"), read("2", "https://h.example/a")];
    record(&sandbox, "c.json", &[], &[], &asked);
    let mut client =
        sandbox.mcpreel(["serve", "-v", "c.json", "--repeat", "never", "--report", "r.jsonl"]).start();
    client.ask(&initialize("{}"));
    let long = "x".repeat(180);
    for (line, code, told) in [
        (
            read("3", &format!("https://user:Zq7livelive12345@h.example/b?access_token={TOKEN}")),
            -31001,
            r#"resources/read \"https://REDACTED-1@h.example/b?access_token=REDACTED-2\""#.to_owned(),
        ),
        (call("4", TOKEN, "{}"), -31001, r#"tools/call \"REDACTED-1\""#.to_owned()),
        // It stands where a long name is cut.
        (
            read("5", &format!("https://h.example/{long}/{TOKEN}")),
            -31001,
            format!(r#"resources/read \"https://h.example/{long}/R..."#),
        ),
        (request("6", TOKEN, "{}"), -31001, "no recorded answer for REDACTED".to_owned()),
        (
            request(
                "7",
                "tools/list",
                &format!(
                    r#"{{"_meta":{{"io.modelcontextprotocol/protocolVersion":"{TOKEN}","io.modelcontextprotocol/clientCapabilities":{{}}}}}}"#
                ),
            ),
            -31001,
            "tools/list".to_owned(),
        ),
    ] {
        let error = client.fails(&line, code);
        assert!(error.contains(&told) && !error.contains("ghp_"), "{error}");
    }
    let by_rule =
        request("8", "resources/subscribe", &format!(r#"{{"uri":"https://h.example/?token={TOKEN}"}}"#));
    client.expect(&by_rule, r#"{"jsonrpc":"2.0","id":8,"result":{}}"#);
    client.send(&format!(r#"{{"jsonrpc":"2.0","id":"{TOKEN}","result":{{}}}}"#));
    let said = client.close(3).stderr;
    let report = sandbox.read("r.jsonl");
    for (text, told) in [
        (
            &said,
            r#"no recorded answer for resources/read "https://REDACTED-1@h.example/b?access_token=REDACTED-2";"#,
        ),
        (&report, r#""name":"https://REDACTED-1@h.example/b?access_token=REDACTED-2""#),
        (&report, r#""unrecorded":["resources/subscribe \"https://h.example/?token=REDACTED-1\""]"#),
        (&said, r#"the client answered id "REDACTED", and no question"#),
        (&report, r#"the client answered id \"REDACTED\", and no question"#),
    ] {
        assert!(text.contains(told), "{told}: {text}");
    }
    for gone in ["ghp_", "Zq7live"] {
        assert!(!said.contains(gone) && !report.contains(gone), "{gone}: {said}{report}");
    }
}

#[test]
fn what_makes_no_secret_stops_a_recording_before_it_starts() {
    let sandbox = Sandbox::new();
    sandbox.file("short.txt", "abc\n");
    sandbox.file("servers/mcp.json", r#"{"mcpServers":{"demo":{"command":"demo"}}}"#);
    for (options, expected) in [
        (
            &["--secret-env", "LAB_KEY"][..],
            "--secret-env LAB_KEY: is not set; a secret that is not known cannot be looked for",
        ),
        (
            &["--secret-file", "short.txt"],
            "short.txt: line 1: a secret of fewer than 4 characters cannot be told from other text",
        ),
        (&["--redact-salt-env", "LAB_SALT"], "--redact-salt-env: LAB_SALT is not set"),
    ] {
        let record = [&["record", "-q", "--cassette", "c.json"], options, &["--"], &DEMO].concat();
        let used = [&["use", "-q", "--cassette", "c.json"], options, &["--"], &DEMO].concat();
        let run = [
            &["run", "-q", "--cassette", "c.json", "--config", "servers/mcp.json"],
            options,
            &["--", "true", "{config}"],
        ]
        .concat();
        for words in [record, used, run] {
            let done = sandbox.mcpreel(&words).run().expect(2);
            let said = done.stderr().replace(&format!("{}/", sandbox.path.display()), "");
            assert_eq!(said, format!("mcpreel: {expected}\n"), "{words:?}");
            assert!(!sandbox.has("c.json") && !sandbox.has("c.json.partial"), "{words:?}");
        }
    }
}

#[test]
fn run_passes_the_options_on_to_every_server() {
    let sandbox = Sandbox::new();
    sandbox.file("packs/team.toml", PACK);
    sandbox.file("keys.txt", "FAKE-file-8Uj3\n");
    let server = format!(r#"{{"mcpServers":{{"demo":{{"command":"{MCPREEL}","args":["demo","server"]}}}}}}"#);
    sandbox.file("mcp.json", server);
    // An agent that starts its servers elsewhere, with an environment of its own.
    let session = [initialize("{}"), echo("1", "emp-1234 zebra-stripes FAKE-file-8Uj3")].join("\n");
    sandbox.file("session.in", session + "\n");
    let agent = sandbox.script(
        "agent",
        "here=$PWD; cd /; set -- $(tr -d '\\n' < \"$1\" | sed 's/.*\"command\": *\"\\([^\"]*\\)\".*\"args\": *\\[\\([^]]*\\)\\].*/\\1 \\2/; s/[\",]/ /g')\n\
         exec env -i \"PATH=$PATH\" \"HOME=$HOME\" \"$@\" < \"$here/session.in\"",
    );
    let options = [
        "--pii-pack",
        "packs/team.toml",
        "--secret-env",
        "LAB_KEY",
        "--secret-file",
        "keys.txt",
        "--redact-profile",
        "strict",
    ];
    let front = ["run", "-q", "--cassette", "c.json", "--config", "mcp.json"];
    let words = [&front[..], &options, &["--", &agent, "{config}"]].concat();
    let done = sandbox.mcpreel(&words).env("LAB_KEY", "zebra-stripes").run().expect(0);
    assert_eq!(done.stderr(), "");
    let text = sandbox.read("c.json");
    assert!(text.contains("REDACTED-2.3 REDACTED-2.1 REDACTED-2.2"), "{text}");
    assert!(text.contains("\"profile\": \"strict\""), "{text}");
}

#[test]
fn different_secrets_have_their_own_answers_and_equal_ones_one_placeholder() {
    let sandbox = Sandbox::new();
    let login =
        |id: &str, password: &str| call(id, "echo", &format!(r#"{{"text":"x","password":"{password}"}}"#));
    let scrub = |whose: &[(&str, &str)]| {
        let logins = whose
            .iter()
            .flat_map(|(id, password)| [c(login(id, password)), s(said(id, &format!("login {id}")))]);
        let records: Vec<String> = handshake().into_iter().chain(logins).collect();
        let records: Vec<&str> = records.iter().map(String::as_str).collect();
        sandbox.cassette("raw.json", &records);
        sandbox.mcpreel(["redact", "raw.json", "-o", "c.json"]).run().expect(0);
        sandbox.read("c.json")
    };
    let text = scrub(&[("1", "FAKE-ann-1"), ("2", "FAKE-bob-2"), ("3", "FAKE-ann-1")]);
    assert_eq!(
        (text.matches("\"REDACTED-1\"").count(), text.matches("\"REDACTED-2\"").count()),
        (2, 1),
        "{text}"
    );
    // Whatever the two passwords are now: they are told apart, in the order in which they come.
    for (ann, bob) in [("FAKE-ann-1", "FAKE-bob-2"), ("dummy-1", "dummy-2")] {
        let mut client = sandbox.serve(&[]);
        client.ask(&initialize("{}"));
        for (id, password, expected) in [("7", ann, "login 1"), ("8", bob, "login 2"), ("9", ann, "login 3")]
        {
            let answer = client.ask(&login(id, password));
            assert!(answer.contains(expected), "{password}: {answer}");
        }
        assert_eq!(client.close(0).stderr, "");
    }
    // One dummy for both, or none: recorded order decides, and nothing is missed.
    scrub(&[("1", "FAKE-ann-1"), ("2", "FAKE-bob-2")]);
    for dummy in ["dummy", ""] {
        let mut client = sandbox.serve(&[]);
        client.ask(&initialize("{}"));
        for expected in ["login 1", "login 2"] {
            assert!(client.ask(&login("9", dummy)).contains(expected), "{dummy}");
        }
        client.close(0);
    }
}

#[test]
fn a_salt_makes_placeholders_equal_across_recordings_and_is_in_no_file() {
    let sandbox = Sandbox::new();
    let salt = "FAKE-salt-9Pl4-grain";
    let placeholder = |cassette: &str| {
        let text = sandbox.read(cassette);
        assert!(!text.contains("FAKE"), "{text}");
        assert!(text.contains("\"salt\": \"env\""), "{text}");
        let (_, rest) = text.split_once("by ").unwrap();
        rest.split('"').next().unwrap().to_owned()
    };
    let by = |who: &str| [echo("1", &format!("by {who}"))];
    let (ann, bob) = ("FAKE-ann@corp.example", "FAKE-bob@corp.example");
    record(&sandbox, "a.json", &[], &[("MCPREEL_REDACT_SALT", salt)], &by(ann));
    record(&sandbox, "b.json", &["--redact-salt-env", "LAB_SALT"], &[("LAB_SALT", salt)], &by(ann));
    record(&sandbox, "c.json", &[], &[("MCPREEL_REDACT_SALT", salt)], &by(bob));
    record(&sandbox, "d.json", &[], &[("MCPREEL_REDACT_SALT", "other")], &by(ann));
    let [a, b, c, d] = ["a.json", "b.json", "c.json", "d.json"].map(placeholder);
    assert!(a == b && a != c && a != d, "{a} {b} {c} {d}");
    let raw = [crate::support::replay::c(echo("1", &format!("by {ann}")))];
    sandbox.cassette("raw.json", &[&raw[0]]);
    sandbox.mcpreel(["redact", "raw.json", "-o", "e.json"]).env("MCPREEL_REDACT_SALT", salt).run().expect(0);
    assert_eq!(placeholder("e.json"), a);
    // A replay needs no salt.
    let mut client = sandbox.mcpreel(["serve", "a.json"]).start();
    client.ask(&initialize("{}"));
    assert!(client.ask(&echo("1", "by me@lab.example")).contains(&a));
    client.close(0);
}
