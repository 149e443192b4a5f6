//! `mcpreel.toml`: options that hold below its folder.

use crate::support::recording::DEMO;
use crate::support::replay::handshake;
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
        (&["--config-file", "../../elsewhere.toml"], "mode all (elsewhere.toml): recording into c.json"),
        (&["--no-config"], "mode once (default): replaying c.json"),
        // A value is none of the options.
        (&["--session", "config-file", "--repeat", "last"], "mode none (mcpreel.toml): replaying c.json"),
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
        (
            "mode = \"never\"\n",
            "mcpreel.toml: line 1: unknown mode never; valid are: once, none, all, new_episodes",
        ),
        ("[match]\nordering = [\"any\", \"strict\"]\n", "line 2: ordering takes one value"),
        ("[match]\nstrict = \"yes\"\n", "line 2: strict is true or false"),
        ("[match]\nstrict = []\n", "line 2: strict is true or false"),
        ("[match]\nstrict = 1\n", "line 2: strict is true or false"),
        ("[match]\nrepeat = false\n", "line 2: repeat takes a value"),
        ("[match]\nrepeat = true\n", "line 2: repeat takes a value"),
        ("[match]\nrepeat = []\n", "line 2: repeat takes a value"),
        ("[match]\nignore = false\n", "line 2: ignore takes a value"),
        ("[match]\nignore = [false]\n", "line 2: ignore takes text, a number, or a list of them"),
        ("[match]\nfaults = \"\"\n", "line 2: faults needs the name of a file"),
        ("mode = false\n", "line 1: mode takes a value"),
        ("mode = []\n", "line 1: mode takes a value"),
        ("mode = [\"none\", \"all\"]\n", "line 1: mode takes one value"),
        ("[match\n", "line 1: "),
        ("[redact]\nredact = [\"/id\"]\n", "mcpreel.toml: line 2: redact /id: this value routes the message"),
    ] {
        sandbox.file("mcpreel.toml", text);
        let said = said(&sandbox, &with(&["-q"]), 2);
        assert!(said.contains(expected) && said.lines().count() == 1, "{text}: {said}");
        assert_eq!(sandbox.of_cassette("a/b/c.json"), [""; 0]);
    }
    let missing =
        said(&sandbox, &["use", "--config-file", "none.toml", "--cassette", "c.json", "--", MCPREEL], 2);
    assert!(missing.contains("cannot read the configuration none.toml"), "{missing}");
    assert_eq!(
        said(&sandbox, &with(&["--config-file", "none.toml", "--no-config"]), 2),
        "mcpreel: --config-file and --no-config exclude each other; see mcpreel use --help\n"
    );
}

#[test]
fn a_switch_that_is_off_and_an_empty_list_are_what_they_say() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    sandbox.file("mcpreel.toml", "mode = [\"none\"]\n[match]\nstrict = false\nignore = []\n");
    assert!(said(&sandbox, &["use", "--cassette", "../../c.json", "--", "cat"], 3).contains("mode none"));
}

#[test]
fn a_table_for_us_in_pyproject_is_found_however_it_is_spelled() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let file = sandbox.path.join("pyproject.toml");
    let near = ["use", "--cassette", "../../c.json", "--", "cat"];
    for text in [
        "[tool.mcpreel]\nmode = \"none\"\n",
        "[tool]\nmcpreel.mode = \"none\"\n",
        "[ tool . \"mcpreel\" ]\nmode = \"none\"\n",
        "tool = { mcpreel = { mode = \"none\" } }\n",
    ] {
        sandbox.file("pyproject.toml", text);
        assert!(said(&sandbox, &near, 3).contains("mode none (pyproject.toml)"), "{text}");
    }
    sandbox.file("pyproject.toml", "[tool]\nmcpreel = \"none\"\n");
    assert_eq!(
        said(&sandbox, &near, 2),
        format!("mcpreel: {}: line 2: tool.mcpreel is a table of options\n", file.display())
    );
    // One that only speaks of it, whole or not, is passed over, and does not hide the next one; named, it is an error.
    sandbox.file("mcpreel.toml", "mode = \"none\"\n");
    for text in ["# tool.mcpreel comes later\n", "dependencies = [\"mcpreel\"\n"] {
        sandbox.file("a/pyproject.toml", text);
        assert!(said(&sandbox, &near, 3).contains("mode none (mcpreel.toml)"), "{text}");
    }
    sandbox.file("a/pyproject.toml", "");
    let named = [&near[..1], &["--config-file", "../pyproject.toml"], &near[1..]].concat();
    assert_eq!(
        said(&sandbox, &named, 2),
        "mcpreel: ../pyproject.toml: has no table tool.mcpreel, so no configuration\n"
    );
}

#[test]
fn a_value_that_makes_no_sense_is_told_with_its_file_and_line() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let file = sandbox.path.join("mcpreel.toml");
    let of = |name: &str| sandbox.path.join(name).display().to_string();
    let in_match = |setting: &str| format!("[match]\n{setting}\n");
    let in_redact = |setting: &str| format!("[redact]\n{setting}\n");
    let in_serve = |setting: &str| format!("[serve]\n{setting}\n");
    let (using, record, serve) =
        (with(&["-q"]), vec!["record", "--cassette", "x.json", "--", MCPREEL], vec!["serve", "../../c.json"]);
    let web = [&serve[..], &["--listen", "127.0.0.1:0"]].concat();
    for (arguments, text, expected) in [
        (&using, "\nclaim_wait = -1\n".to_owned(), "line 2: claim_wait \"-1\": expected a number of seconds from 0".to_owned()),
        (&using, "mode = \"never\"\n".to_owned(), "line 1: unknown mode never; valid are: once, none, all, new_episodes".to_owned()),
        (&using, in_redact("redact = [\n  \"*pin*\",\n  \"/id=0\",\n]"), "line 4: redact /id: this value routes the message and has to stay; name a value below `arguments`, `result` or `error/data`".to_owned()),
        (&serve, in_match("ordering = \"x\""), "line 2: ordering \"x\": \"x\" is not one of per-key, strict, any".to_owned()),
        (&serve, in_match("ignore = [\"/params/arguments/x\",\n \"/x~2\"]"), "line 3: ignore /x~2: in a JSON pointer ~ is written ~0, and / inside a name ~1; expected is one into the request, such as /params/arguments/timestamp".to_owned()),
        (&serve, in_match("ignore_value = \"(\""), "line 2: ignore_value (: not a regular expression: error: unclosed group".to_owned()),
        (&serve, in_match("match_inputs = \"x\""), "line 2: match_inputs \"x\": \"x\" is not one of action, exact, keys".to_owned()),
        (&serve, in_match("repeat = \"x\""), "line 2: repeat \"x\": \"x\" is not one of last, cycle, never".to_owned()),
        (&serve, in_match("answer_timeout = \"x\""), "line 2: answer_timeout \"x\": expected a number of seconds from 0".to_owned()),
        (&serve, in_match("pace = \"x\""), "line 2: pace \"x\": \"x\" is not one of instant, recorded".to_owned()),
        (&serve, in_match("pace_scale = \"x\""), "line 2: pace_scale \"x\": expected a number from 0".to_owned()),
        (&serve, in_match("pace_cap_ms = -1"), "line 2: pace_cap_ms \"-1\": expected a whole number".to_owned()),
        (&serve, in_match("faults = \"no.json\""), format!("line 2: faults: {}: cannot be read: no such file or directory", of("no.json"))),
        (&record, in_redact("redact = \"/x~2\""), "line 2: redact /x~2: in a JSON pointer ~ is written ~0, and / inside a name ~1".to_owned()),
        (&record, in_redact("redact_salt_env = \"NO_SUCH_SALT\""), "line 2: redact_salt_env: NO_SUCH_SALT is not set".to_owned()),
        (&record, in_redact("pii_pack = \"no.toml\""), format!("line 2: pii_pack: cannot read the redaction pack {}: no such file or directory", of("no.toml"))),
        (&record, in_redact("secret_env = [\"NO_SUCH_SECRET\"]"), "line 2: secret_env NO_SUCH_SECRET: is not set; a secret that is not known cannot be looked for".to_owned()),
        (&record, in_redact("secret_file = \"no.txt\""), format!("line 2: secret_file: cannot read the secrets in {}: no such file or directory", of("no.txt"))),
        (&serve, in_serve("listen = \"x\""), "line 2: listen x: expected ADDRESS:PORT, such as 127.0.0.1:8000 (port 0: any)".to_owned()),
        (&web, in_serve("max_body = \"x\""), "line 2: max_body \"x\": expected a whole number".to_owned()),
        (&web, in_serve("allow_host = [\"a\",\n\"a b\"]"), "line 3: allow_host a b: expected a name or name:port".to_owned()),
        (&web, in_serve("allow_origin = \"x\""), "line 2: allow_origin x: expected scheme://host or scheme://host:port".to_owned()),
        (&web, in_serve("sse = \"x\""), "line 2: sse \"x\": \"x\" is not one of plain, faithful".to_owned()),
        (&serve, in_serve("report = \"no/r.jsonl\""), format!("line 2: report: cannot write the report {}: no such file or directory", of("no/r.jsonl"))),
    ] {
        sandbox.file("mcpreel.toml", &text);
        assert_eq!(said(&sandbox, arguments, 2), format!("mcpreel: {}: {expected}\n", file.display()), "{text}");
    }
    // What was typed is told as such, whatever the file says.
    sandbox.file("mcpreel.toml", "[match]\nignore = [\"/a\"]\nrepeat = \"x\"\n");
    let typed = said(&sandbox, &[&serve[..], &["--repeat", "last", "--ignore", "/a~"]].concat(), 2);
    assert!(typed.starts_with("mcpreel: --ignore /a~: in a JSON pointer"), "{typed}");
}

#[test]
fn a_named_configuration_may_be_a_pipe_and_ends() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let long = sandbox.file("long.toml", "#".repeat((1 << 20) + 1));
    for (named, expected) in [
        ("/dev/zero", "mcpreel: /dev/zero: is larger than 1 MiB, which no configuration is\n".to_owned()),
        (
            long.to_str().unwrap(),
            format!("mcpreel: {}: is larger than 1 MiB, which no configuration is\n", long.display()),
        ),
    ] {
        assert_eq!(said(&sandbox, &["serve", "../../c.json", "--config-file", named], 2), expected);
    }
    let run = sandbox.mcpreel(["serve", "c.json", "--config-file", "/dev/stdin"]);
    assert_eq!(
        run.input("[match]\nrepeat = 1\n").run().expect(2).stderr(),
        "mcpreel: /dev/stdin: line 2: repeat \"1\": \"1\" is not one of last, cycle, never\n"
    );
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

#[test]
fn what_is_said_about_http_is_not_meant_for_pipes() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let others = "allow_host = \"h\"\nmax_body = 5\nsse = \"faithful\"\n";
    for (text, options, code, expected) in [
        (format!("[serve]\nlisten = \"127.0.0.1:0\"\n{others}"), &["--stdio"][..], 0, ""),
        (format!("[serve]\n{others}"), &[], 0, ""),
        (
            format!("[serve]\n{others}"),
            &["--allow-host", "other"],
            2,
            "mcpreel: ../../c.json: was recorded over standard input and output; to serve it over HTTP, --listen\n",
        ),
        (
            format!("[serve]\n{others}"),
            &["--stdio", "--max-body", "7"],
            2,
            "mcpreel: --stdio does not go with the options of HTTP\n",
        ),
    ] {
        sandbox.file("mcpreel.toml", &text);
        let mut run = sandbox.mcpreel(["serve", "../../c.json"].iter().chain(options));
        std::fs::create_dir_all(sandbox.path.join("a/b")).unwrap();
        run.command.current_dir(sandbox.path.join("a/b"));
        assert_eq!(
            run.lines(&[&initialize("{}")]).run().expect(code).stderr(),
            expected,
            "{text} {options:?}"
        );
    }
    // Where nothing was typed that would choose HTTP, but the file does.
    sandbox.file("mcpreel.toml", "[serve]\nlisten = \"127.0.0.1:0\"\n");
    let live = [&["serve", "../../c.json", "--new-episodes", "--"][..], &DEMO].concat();
    let live = said(&sandbox, &live, 0);
    assert!(live.contains("appended"), "{live}");
}
