//! `mcpreel.toml`: options that hold below its folder.

use crate::support::recording::DEMO;
use crate::support::{MCPREEL, Sandbox, initialize};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hi","pin":"12"}}}"#;

/// What a start in a folder below the configuration says, or its error.
fn said(sandbox: &Sandbox, arguments: &[&str], code: i32) -> String {
    let below = sandbox.path.join("a/b");
    std::fs::create_dir_all(&below).unwrap();
    let mut run = sandbox.mcpreel(arguments.iter().copied());
    run.command.current_dir(&below);
    run.lines(&[&initialize("{}"), CALL]).run().expect(code).stderr()
}

fn with<'a>(options: &[&'a str]) -> Vec<&'a str> {
    let front = ["use", "--cassette", "c.json"];
    front.iter().chain(options).chain(&["--"]).chain(&DEMO).copied().collect()
}

#[test]
fn the_mode_is_that_of_the_nearest_file_unless_something_else_says_one() {
    let sandbox = Sandbox::new();
    sandbox.file("mcpreel.toml", "mode = \"none\"\n");
    assert_eq!(
        said(&sandbox, &with(&[]), 2),
        "mcpreel: c.json: no such cassette; record it first, with `mcpreel record` or in mode once\n"
    );
    sandbox.file("elsewhere.toml", "mode = \"all\"\n");
    for (options, expected) in [
        (&["--mode", "once"][..], "mode once (--mode): recording into c.json"),
        (&[], "mode none (mcpreel.toml): replaying c.json"),
        (&["--config-file", "../../elsewhere.toml"], "mode all (mcpreel.toml): recording into c.json"),
        (&["--no-config"], "mode once (default): replaying c.json"),
    ] {
        let said = said(&sandbox, &with(options), 0);
        assert!(said.contains(expected), "{options:?}: {said}");
    }
    // A nearer one takes its place, whole.
    sandbox.file("a/pyproject.toml", "[project]\nname = \"x\"\n[tool.mcpreel.match]\nstrict = true\n");
    let near = said(&sandbox, &with(&[]), 0);
    assert!(near.contains("mode once (default)"), "{near}");
    // One that is about other tools does not.
    sandbox.file("a/pyproject.toml", "[project]\nname = \"x\"\n");
    let far = said(&sandbox, &with(&[]), 0);
    assert!(far.contains("mode none (mcpreel.toml)"), "{far}");
}

#[test]
fn tables_hold_for_their_commands_and_add_to_what_is_typed() {
    let sandbox = Sandbox::new();
    sandbox.file(
        "mcpreel.toml",
        "[redact]\nredact = [\"*pin*\"]\n[match]\nignore = [\"/params/arguments/text\"]\nrepeat = \"last\"\n[serve]\nreport = \"r.jsonl\"\n",
    );
    said(&sandbox, &with(&["-q"]), 0);
    let cassette = sandbox.read("a/b/c.json");
    assert!(cassette.contains("REDACTED-1") && !cassette.contains("\"12\""), "{cassette}");
    let other = CALL.replace("\"hi\"", "\"ho\"");
    for (options, code) in [(&[][..], 0), (&["--repeat", "never"], 0), (&["--no-config"], 3)] {
        let mut client = sandbox.mcpreel(["serve", "a/b/c.json"].iter().chain(options)).start();
        client.converse(&[&initialize("{}"), &other]);
        client.close(code);
    }
    assert_eq!(sandbox.read("r.jsonl").lines().count(), 2);
}

#[test]
fn mistakes_are_told_before_anything_starts() {
    let sandbox = Sandbox::new();
    for (text, expected) in [
        ("[match]\norder = \"any\"\n", "line 2: unknown key \"order\" in [match]; known are ordering,"),
        ("mode = \"never\"\n", "unknown mode never (mcpreel.toml)"),
        ("[match]\nordering = [\"any\", \"strict\"]\n", "line 2: ordering takes one value"),
        ("[match]\nstrict = \"yes\"\n", "line 2: strict is true or false"),
        ("[match\n", "line 1: "),
        ("[redact]\nredact = [\"/id\"]\n", "--redact /id: this value routes the message"),
    ] {
        sandbox.file("mcpreel.toml", text);
        let said = said(&sandbox, &with(&["-q"]), 2);
        assert!(said.contains(expected) && said.lines().count() == 1, "{text}: {said}");
        assert_eq!(sandbox.of_cassette("a/b/c.json"), [""; 0]);
    }
    let missing =
        said(&sandbox, &["use", "--config-file", "none.toml", "--cassette", "c.json", "--", MCPREEL], 2);
    assert!(missing.contains("cannot read the configuration none.toml"), "{missing}");
}

#[test]
fn a_configuration_that_cannot_be_read_is_never_passed_over() {
    for (kind, expected) in [
        ("folder", "is no regular file"),
        ("loop", "cannot be read: "),
        ("dangling", "cannot be read: "),
        ("device", "is no regular file"),
        ("pipe", "is no regular file"),
        ("large", "is larger than 1 MiB"),
        ("binary", "is not UTF-8"),
    ] {
        for (name, code) in [("mcpreel.toml", 2), ("pyproject.toml", 0)] {
            let sandbox = Sandbox::new();
            let path = sandbox.path.join(name);
            match kind {
                "folder" => std::fs::create_dir(&path).unwrap(),
                "loop" => std::os::unix::fs::symlink(name, &path).unwrap(),
                "dangling" => std::os::unix::fs::symlink("nowhere", &path).unwrap(),
                "device" => std::os::unix::fs::symlink("/dev/zero", &path).unwrap(),
                "pipe" => {
                    let made = std::process::Command::new("mkfifo").arg(&path).status().unwrap();
                    assert!(made.success());
                }
                "large" => drop(sandbox.file(name, "#".repeat((1 << 20) + 1))),
                _ => drop(sandbox.file(name, b"# \xff")),
            }
            let said = said(&sandbox, &with(&["-q"]), code);
            if code == 2 {
                assert!(said.contains("/mcpreel.toml: ") && said.contains(expected), "{kind}: {said}");
                assert_eq!(said.lines().count(), 1, "{said}");
                assert_eq!(sandbox.of_cassette("a/b/c.json"), [""; 0]);
            }
        }
    }
}
