//! `redact`: cassettes that exist, scrubbed or checked.

use std::fs;

use crate::support::recording::{DEMO, testdata};
use crate::support::replay::{c, call, s, said};
use crate::support::{Sandbox, initialize};

const KEY: &str = "FAKE-old-7Hj4-key";

/// A cassette from before redaction: a key under its name and without, an address, and a message without anything.
fn old(sandbox: &Sandbox) {
    sandbox.cassette(
        "c.json",
        &[
            &c(call("1", "login", &format!(r#"{{"api_key":"{KEY}","n":1.50}}"#))),
            &s(said("1", &format!("your key was {KEY}, ann@corp.example"))),
            &c(call("2", "echo", r#"{"text":"plain \u00e9","n":9007199254740993}"#)),
            &s(said("2", "plain")),
        ],
    );
    sandbox.mcpreel(["convert", "c.json", "-o", "c.json"]).run().expect(0);
}

fn redact(sandbox: &Sandbox, arguments: &[&str], code: i32) -> (String, String) {
    let done = sandbox.mcpreel([&["redact"], arguments].concat()).run().expect(code);
    (done.stdout(), done.stderr())
}

#[test]
fn what_was_recorded_without_rules_is_scrubbed_and_the_rest_keeps_its_bytes() {
    let sandbox = Sandbox::new();
    for name in ["c.json", "c.jsonl"] {
        old(&sandbox);
        if name == "c.jsonl" {
            sandbox.mcpreel(["convert", "c.json", "-o", name]).run().expect(0);
        }
        let before = sandbox.read(name);
        assert_eq!(
            redact(&sandbox, &[name, "--in-place"], 0).1,
            format!("mcpreel: note: {name}: 3 values replaced\n")
        );
        let after = sandbox.read(name);
        assert!(!after.contains("FAKE") && !after.contains("corp.example"), "{after}");
        assert!(after.contains("your key was REDACTED-1, redacted-2@redacted.invalid"), "{after}");
        let changed: Vec<&str> =
            after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect();
        let expected =
            if name == "c.json" { "\"text\": \"plain \\u00e9\"" } else { "\"text\":\"plain \\u00e9\"" };
        assert!(
            after.contains(expected) && !changed.iter().any(|line| line.contains("plain")),
            "{changed:?}"
        );
        assert!(after.contains("9007199254740993") && after.contains("1.50"), "{after}");
        assert!(after.contains("key:*api_key*") && after.contains("common/email"), "{after}");
        assert_eq!(redact(&sandbox, &["--check", name], 0), (String::new(), String::new()));
        // Nothing is left to do, and nothing is done.
        assert_eq!(
            redact(&sandbox, &[name, "--in-place"], 0).1,
            format!("mcpreel: note: {name}: 0 values replaced\n")
        );
        assert_eq!(sandbox.read(name), after);
        // Another client with another key gets the same answers.
        let (got, _) =
            sandbox.replay(name, &[&initialize("{}"), &call("5", "login", r#"{"api_key":"","n":1.50}"#)], 3);
        assert!(got[1].contains("your key was REDACTED-1"), "{got:?}");
    }
}

#[test]
fn new_placeholders_are_not_those_that_are_there() {
    let sandbox = Sandbox::new();
    sandbox.cassette(
        "c.json",
        &[
            &c(call("1", "login", r#"{"password":"REDACTED-1","other":"redacted-3.4@redacted.invalid"}"#)),
            &s(said("1", "ann@corp.example")),
            &s(said("2", "ann@corp.example bob@corp.example")).replacen("s ", "s1 ", 1),
        ],
    );
    redact(&sandbox, &["c.json", "-o", "d.json"], 0);
    let after = sandbox.read("d.json");
    assert!(after.contains("\"password\": \"REDACTED-1\""), "{after}");
    assert!(after.contains("\"text\": \"redacted-4.1@redacted.invalid\""), "{after}");
    // What different processes showed is never compared, not even here.
    assert!(after.contains("\"redacted-5.1@redacted.invalid redacted-5.2@redacted.invalid\""), "{after}");
}

#[test]
fn a_check_names_place_and_rule_and_never_the_value() {
    let sandbox = Sandbox::new();
    old(&sandbox);
    let before = sandbox.read("c.json");
    let (found, said) = redact(&sandbox, &["--check", "c.json"], 4);
    assert_eq!(
        found,
        "c.json: line 21 (/messages/0/payload/params/arguments/api_key): key:*api_key*\n\
         c.json: line 36 (/messages/1/payload/result/content/0/text): key:*api_key*\n\
         c.json: line 36 (/messages/1/payload/result/content/0/text): common/email\n"
    );
    assert_eq!((said.as_str(), sandbox.read("c.json")), ("", before));
    let (found, _) = redact(&sandbox, &["--check", "c.json", "--format", "json"], 4);
    let found: serde_json::Value = serde_json::from_str(&found).unwrap();
    assert_eq!(
        found["findings"][0],
        serde_json::json!({"file":"c.json","line":21,"pointer":"/messages/0/payload/params/arguments/api_key","rule":"key:*api_key*"})
    );
    // A name that is one is not shown either; nor is anything of the head forgotten.
    sandbox.cassette_with(
        "d.json",
        r#""processes":[{"server":"demo","stderr":["login of ann@corp.example failed"]}],"labels":{"by":"bob@corp.example"},"#,
        &[&c(call("1", "x", r#"{"ann@corp.example":1}"#)), "s text: token=FAKE-text-1234"],
    );
    let text = sandbox.read("d.json").replace("[\"demo\"]", "[\"demo\",\"--token\",\"FAKE-argv-1\"]");
    sandbox.file("d.json", text);
    let (found, _) = redact(&sandbox, &["--check", "d.json"], 4);
    let lines: Vec<&str> = found.lines().map(|line| line.split(": ").nth(1).unwrap()).collect();
    assert_eq!(
        lines,
        [
            "line 1 (/messages/0/payload/params/arguments/REDACTED)",
            "line 2 (/messages/1/text)",
            "/servers/demo/command/2",
            "/processes/0/stderr/0",
            "/labels",
        ],
        "{found}"
    );
    assert!(!found.contains("FAKE") && !found.contains("corp.example"), "{found}");
    assert!(found.contains("/servers/demo/command/2: key:*token*\n"), "{found}");
    redact(&sandbox, &["d.json", "--in-place"], 0);
    let after = sandbox.read("d.json");
    assert!(!after.contains("FAKE") && !after.contains("corp.example"), "{after}");
    redact(&sandbox, &["--check", "d.json"], 0);
}

#[test]
fn a_check_knows_the_rules_that_the_cassette_was_recorded_with() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "team.toml",
        "version = 1\nid = \"team\"\n[[rules]]\nid = \"emp\"\nlabel = \"EMP\"\nregex = 'emp-[0-9]{4}'\n",
    );
    let session = [initialize("{}"), call("1", "echo", r#"{"text":"emp-1234","pin":"4711"}"#)];
    let options =
        ["record", "-q", "--cassette", "c.json", "--redact", "*pin*", "--pii-pack", "team.toml", "--"];
    let mut client = sandbox.mcpreel(options.iter().chain(&DEMO)).start();
    client.converse(&[&session[0], &session[1]]);
    client.close(0);
    redact(&sandbox, &["--check", "c.json"], 0);
    let text = sandbox.read("c.json");
    assert!(!text.contains("emp-1234") && !text.contains("4711"), "{text}");
    // Somebody pastes a value back in.
    sandbox.file(
        "d.json",
        text.replacen("\"REDACTED-1\"", "\"emp-9999\"", 1).replacen("\"REDACTED-2\"", "\"0815\"", 1),
    );
    let (found, _) = redact(&sandbox, &["--check", "d.json"], 4);
    assert!(found.contains(": team/emp\n") && found.contains(": key:*pin*\n"), "{found}");
    fs::rename(sandbox.path.join("team.toml"), sandbox.path.join("team.txt")).unwrap();
    let (_, said) = redact(&sandbox, &["--check", "d.json"], 2);
    assert!(
        said.contains("the pack `team` (sha256 ") && said.contains("give its file with --pii-pack"),
        "{said}"
    );
    redact(&sandbox, &["--check", "d.json", "--pii-pack", "team.txt"], 4);
}

#[test]
fn a_given_secret_is_proved_to_be_in_no_file_of_any_kind() {
    let sandbox = Sandbox::new();
    sandbox.cassette("clean.json", &[&c(call("1", "echo", r#"{"text":"hi"}"#))]);
    sandbox.cassette("held.json", &[&c(call("1", "echo", r#"{"text":"a zebra\u002dstripes b"}"#))]);
    sandbox.file("log.txt", "one\ntwo emVicmEtc3RyaXBlcw== three\n");
    sandbox.file("blob.bin", [b"\xff\xfe\x00" as &[u8], b"zebra%2Dstripes\xff"].concat());
    sandbox.file("secrets.txt", "\nzebra-stripes\n");
    let all = ["--check", "--secret-file", "secrets.txt", "clean.json", "held.json", "log.txt", "blob.bin"];
    let (found, said) = redact(&sandbox, &all, 4);
    assert_eq!(
        found,
        "held.json: line 1 (/messages/0/payload/params/arguments/text): known\n\
         log.txt: line 2: known\nblob.bin: line 1: known\n"
    );
    assert!(said.contains("log.txt: no cassette; only the secrets were looked for"), "{said}");
    let run = |code: i32, value: Option<&str>| {
        let run = sandbox.mcpreel(["redact", "--check", "--secret-env", "LAB_KEY", "clean.json"]);
        let run = match value {
            Some(value) => run.env("LAB_KEY", value),
            None => run,
        };
        run.run().expect(code).stderr()
    };
    assert_eq!(run(0, Some("zebra-stripes")), "");
    assert_eq!(
        run(2, None),
        "mcpreel: --secret-env LAB_KEY: is not set; a secret that is not known cannot be looked for\n"
    );
    assert!(run(2, Some("abc")).contains("--secret-env LAB_KEY: a secret of fewer than 4 characters"));
    let (_, said) = redact(&sandbox, &["held.json", "--in-place", "--secret-file", "secrets.txt"], 0);
    assert_eq!(said, "mcpreel: note: held.json: 1 value replaced\n");
    let (_, said) = redact(&sandbox, &["clean.json", "-o", "-", "--secret-file", "secrets.txt"], 0);
    assert_eq!(said, "mcpreel: note: clean.json: 0 values replaced; none of the given secrets was in it\n");
}

#[test]
fn foreign_formats_stay_what_they_are() {
    let sandbox = Sandbox::new();
    old(&sandbox);
    for word in ["mcp-cassette", "mcp-cassette-npm", "mcp-recorder", "ctpf", "jsonl"] {
        sandbox.mcpreel(["convert", "c.json", "-o", "f", "--to", word, "--lossy"]).run().expect(0);
        let before = sandbox.read("f");
        assert!(before.contains("FAKE"), "{word}");
        redact(&sandbox, &["--check", "f"], 4);
        redact(&sandbox, &["f", "--in-place"], 0);
        let after = sandbox.read("f");
        assert!(!after.contains("FAKE") && !after.contains("corp.example"), "{word}: {after}");
        assert!(after.contains("your key was REDACTED-1, redacted-2@redacted.invalid"), "{word}: {after}");
        assert_eq!(after.lines().count(), before.lines().count(), "{word}");
        redact(&sandbox, &["--check", "f"], 0);
        redact(&sandbox, &["f", "--in-place"], 0);
        assert_eq!(sandbox.read("f"), after, "{word}");
    }
    let har = testdata("foreign/browser.har");
    let (_, said) = redact(&sandbox, &[har.to_str().unwrap(), "-o", "x.har"], 2);
    assert!(said.contains("mcpreel convert makes a cassette of it"), "{said}");
    assert!(!sandbox.has("x.har"));
}

#[test]
fn the_source_is_never_cut() {
    let sandbox = Sandbox::new();
    fs::create_dir(sandbox.path.join("sub")).unwrap();
    for output in ["c.json", "sub/../c.json", "hard.json", "soft.json", "other.json"] {
        old(&sandbox);
        for link in ["hard.json", "soft.json"] {
            let _ = fs::remove_file(sandbox.path.join(link));
        }
        let source = sandbox.path.join("c.json");
        fs::hard_link(&source, sandbox.path.join("hard.json")).unwrap();
        std::os::unix::fs::symlink("c.json", sandbox.path.join("soft.json")).unwrap();
        let before = sandbox.read("c.json");
        redact(&sandbox, &["c.json", "-o", output], 0);
        let after = sandbox.read(output);
        assert!(!after.contains("FAKE") && after.ends_with("}\n"), "{output}");
        assert!([&before, &after].contains(&&sandbox.read("c.json")), "{output}");
    }
}

#[test]
fn a_file_keeps_its_mode() {
    use std::os::unix::fs::PermissionsExt as _;
    let sandbox = Sandbox::new();
    for mode in [0o600, 0o640, 0o664] {
        old(&sandbox);
        let path = sandbox.path.join("c.json");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        redact(&sandbox, &["c.json", "--in-place"], 0);
        assert!(!sandbox.read("c.json").contains("FAKE"));
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, mode);
    }
}

#[test]
fn what_cannot_be_done_is_told_in_one_line() {
    let sandbox = Sandbox::new();
    old(&sandbox);
    sandbox.file("notes.txt", "no cassette");
    sandbox.file("empty.txt", "\u{feff}\r\n \n");
    sandbox.file("short.txt", "long enough\nabc\n");
    sandbox
        .file("bad.toml", "version = 1\nid = \"x\"\n[[rules]]\nid = \"r\"\nlabel = \"R\"\nregex = '(?=a)'\n");
    fs::create_dir(sandbox.path.join("c.json.partial.1")).unwrap();
    for (arguments, code, expected) in [
        (&[][..], 2, "redact needs <file>; see mcpreel redact --help"),
        (
            &["c.json"],
            2,
            "say where the result goes: --in-place, or -o OUT (- is standard output); or --check",
        ),
        (&["c.json", "--in-place", "-o", "x"], 2, "either --in-place or -o"),
        (&["c.json", "--in-place", "--format", "json"], 2, "--format goes with --check"),
        (&["c.json", "--check", "--in-place"], 2, "--check writes nothing: leave out --in-place and -o"),
        (&["c.json", "c.json", "-o", "x"], 2, "-o takes one cassette; for several --in-place"),
        (
            &["-", "--in-place"],
            2,
            "--in-place takes files; for standard input say where the result goes, with -o",
        ),
        (&["-", "-", "--check"], 2, "redact reads standard input once"),
        (&["none.json", "--check"], 2, "none.json: no such cassette"),
        (&["notes.txt", "--check"], 2, "notes.txt: is not a cassette: no \"mcpreel\" format number in it"),
        (
            &["c.json.partial.1", "--check"],
            2,
            "c.json.partial.1: is the folder of a recording that has not ended, or was interrupted; mcpreel end or \
             mcpreel recover makes a cassette of it first",
        ),
        (
            &["c.json", "-o", "notes.txt"],
            2,
            "notes.txt: exists and would be replaced, but is not a cassette that can be read (notes.txt: is not a cassette: no \"mcpreel\" format number in it)",
        ),
        (
            &["c.json", "--check", "--secret-file", "short.txt"],
            2,
            "short.txt: line 2: a secret of fewer than 4 characters cannot be told from other text",
        ),
        (
            &["c.json", "--check", "--secret-file", "empty.txt"],
            2,
            "empty.txt: holds no secret; expected one a line",
        ),
        (
            &["c.json", "--check", "--secret-file", "none.txt"],
            1,
            "cannot read the secrets in none.txt: no such file or directory",
        ),
        (
            &["c.json", "--check", "--redact-salt-env", "LAB_SALT"],
            2,
            "--redact-salt-env: LAB_SALT is not set",
        ),
        (
            &["c.json", "--check", "--redact", "/id"],
            2,
            "--redact /id: this value routes the message and has to stay; name a value below `arguments`, `result` or `error/data`",
        ),
        (
            &["c.json", "--check", "--pii-pack", "none.toml"],
            1,
            "cannot read the redaction pack none.toml: no such file or directory",
        ),
    ] {
        let (out, said) = redact(&sandbox, arguments, code);
        assert_eq!(
            (out.as_str(), said.as_str()),
            ("", format!("mcpreel: {expected}\n").as_str()),
            "{arguments:?}"
        );
    }
    let (_, said) = redact(&sandbox, &["c.json", "--check", "--pii-pack", "bad.toml"], 2);
    assert!(said.starts_with("mcpreel: bad.toml: line 6: ") && said.contains("look-ahead"), "{said}");
}

/// A value is what stands in its line or variable, without what editors and shells put around it.
#[test]
fn a_secret_is_found_without_what_stands_around_it() {
    let sandbox = Sandbox::new();
    sandbox.cassette("c.json", &[&c(call("1", "t", r#"{"a":"x plainword-known y","b":"second-known z"}"#))]);
    let check = |options: &[&str], value: &str| {
        let run = sandbox.mcpreel([&["redact", "--check", "--format", "json", "c.json"], options].concat());
        let out = run.env("LAB_KEY", value).run().expect(4).stdout();
        out.matches("\"known\"").count()
    };
    for (text, count) in [
        ("\u{feff}plainword-known\r\n", 1),
        ("\u{feff}plainword-known", 1),
        ("plainword-known\rsecond-known\r", 2),
        ("  plainword-known \t\n\nsecond-known", 2),
    ] {
        sandbox.file("keys.txt", text);
        assert_eq!(check(&["--secret-file", "keys.txt"], ""), count, "{text:?}");
    }
    for value in ["plainword-known\n", "\u{feff}plainword-known\r\n", " plainword-known"] {
        assert_eq!(check(&["--secret-env", "LAB_KEY"], value), 1, "{value:?}");
    }
}

/// What a command would not see, it must not pass: a second member of the same name, texts among the times.
#[test]
fn what_is_hidden_is_no_cassette() {
    const TOKEN: &str = "ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA2bC4";
    let sandbox = Sandbox::new();
    let head = r#""mcpreel":1,"servers":{"s":{}}"#;
    let record = r#"{"from":"client","payload":{"b":1}}"#;
    let twice = |name: &str| {
        format!(
            "line 2: \"{name}\" stands here for the second time, which hides the first; leave one of them out"
        )
    };
    let times = "line 2: \"timing_ms\" must be a list of numbers, milliseconds since the beginning";
    let at_record = |name: &str| twice(name).replace("line 2", "line 2 (/messages/0)");
    for (text, place) in [
        (format!("{{{head},\"messages\":[{record}],\n\"messages\":[{record}]}}"), twice("messages")),
        (
            format!("{{{head},\"labels\":{{\"a\":\"{TOKEN}\"}},\n\"labels\":{{}},\"messages\":[]}}"),
            twice("labels"),
        ),
        (format!("{{{head},\n\"servers\":{{}},\"messages\":[]}}"), twice("servers")),
        (format!("{{{head},\"later\":\"{TOKEN}\",\n\"l\\u0061ter\":1,\"messages\":[]}}"), twice("later")),
        (
            format!(
                "{{\"mcpreel\":1,\"servers\":{{\"s\":{{\"url\":\"{TOKEN}\"}},\n\"s\":{{}}}},\"messages\":[]}}"
            ),
            twice("s"),
        ),
        (
            format!("{{{head},\"messages\":[{{\"from\":\"client\",\"http\":{{}},\n\"http\":{{}}}}]}}"),
            at_record("http"),
        ),
        (
            format!("{{{head},\"messages\":[{{\"from\":\"client\",\"x\":\"{TOKEN}\",\n\"x\":1}}]}}"),
            at_record("x"),
        ),
        (format!("{{{head},\"messages\":[{record}],\n\"timing_ms\":[\"{TOKEN}\"]}}"), times.to_owned()),
        (format!("{{{head},\"messages\":[{record}],\n\"timing_ms\":\"{TOKEN}\"}}"), times.to_owned()),
        (
            format!(
                "{{\"mcpreel\":1,\"journal\":true,\"servers\":{{\"s\":{{}}}}}}\n{{\"at\":1,\"from\":\"client\",\"at\":2}}\n{record}\n"
            ),
            twice("at"),
        ),
    ] {
        sandbox.file("c.json", &text);
        for command in [&["redact", "--check", "c.json"][..], &["serve", "c.json"], &["inspect", "c.json"]] {
            let done = sandbox.mcpreel(command).run().expect(2);
            assert_eq!(done.stderr(), format!("mcpreel: c.json: {place}\n"), "{command:?} {text}");
        }
    }
}

#[test]
fn credentials_in_the_names_of_the_head_are_found_and_replaced() {
    const TOKEN: &str = "ghp_aB3dE5gH7jK9mN1pQ3rS5tU7vW9xY1zA2bC4";
    let sandbox = Sandbox::new();
    let text = format!(
        r#"{{"mcpreel":1,"recorder":"r {TOKEN}","servers":{{"{TOKEN}":{{"protocol":["{TOKEN}"]}},"10.1.2.3":{{}},"REDACTED":{{}}}},"processes":[{{"server":"{TOKEN}"}}],"messages":[{{"server":"{TOKEN}","from":"client","payload":{{"id":1}}}}]}}"#
    );
    sandbox.file("c.json", &text);
    let found = sandbox.mcpreel(["redact", "--check", "c.json"]).run().expect(4).stdout();
    for pointer in ["/recorder:", "/servers/REDACTED:", "/servers/REDACTED/protocol/0:"] {
        assert!(found.contains(pointer) && !found.contains(TOKEN), "{found}");
    }
    sandbox.mcpreel(["redact", "--in-place", "c.json"]).run().expect(0);
    sandbox.mcpreel(["redact", "--check", "c.json"]).run().expect(0);
    let text = sandbox.read("c.json");
    assert_eq!((text.matches("REDACTED-2").count(), text.matches("10.1.2.3").count()), (3, 1), "{text}");
}
