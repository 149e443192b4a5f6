//! The door for Rust tests, used as a test would.

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, Stdio};

use mcpreel::{Finished, Mode, UseCassette, use_cassette};

use crate::support::http::{Upstream, answer, json};
use crate::support::recording::DEMO;
use crate::support::{MCPREEL, Sandbox, initialize};

/// A cassette in this folder, for a mode that no environment changes.
fn cassette(sandbox: &Sandbox, mode: Mode) -> UseCassette {
    use_cassette(sandbox.path.join("c.json")).mode(mode).binary(MCPREEL)
}

fn call(text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
    )
}

/// A client that starts a server and has it say something; gives the answer.
fn meet(command: &[OsString], text: &str) -> String {
    let mut child = Command::new(&command[0])
        .args(&command[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap());
    let mut last = String::new();
    for message in [initialize("{}"), call(text)] {
        writeln!(input, "{message}").unwrap();
        last.clear();
        output.read_line(&mut last).unwrap();
    }
    drop(input);
    child.wait().unwrap();
    last
}

fn post(url: &str, text: &str) -> String {
    let agent: ureq::Agent =
        ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
    let sent = agent
        .post(url)
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .send(call(text));
    sent.unwrap().body_mut().read_to_string().unwrap()
}

#[test]
fn a_command_and_a_url_are_recorded_and_met_again() {
    let sandbox = Sandbox::new();
    let upstream = Upstream::start(|request, socket| {
        let reply = match request.header("x-key") {
            Some("k3y-0f-the-l1brary") => json(r#"{"jsonrpc":"2.0","id":1,"result":{"said":"web"}}"#),
            _ => answer("401 Unauthorized", "", "no"),
        };
        socket.write_all(&reply).is_ok()
    });
    let url = upstream.url("/mcp");
    let mut said = Vec::new();
    for (mode, expected) in
        [(Mode::Once, Finished::Recorded), (Mode::Once, Finished::Replayed), (Mode::None, Finished::Replayed)]
    {
        let mut used = cassette(&sandbox, mode).require_all_used();
        let command = used.server_command("demo", DEMO).unwrap();
        let local = used.server_url_with("web", &url, &[("X-Key", "k3y-0f-the-l1brary")]).unwrap();
        said.push((meet(&command, "hi"), post(&local, "ho")));
        assert_eq!(used.finish().unwrap(), expected);
    }
    assert!(said[0].0.contains(r#""text":"hi""#) && said[0].1.contains("web"), "{said:?}");
    assert_eq!(said[0], said[1]);
    assert_eq!(said[0], said[2]);
    assert_eq!(upstream.received.try_iter().count(), 1, "a replay contacts nobody");
    assert!(!sandbox.read("c.json").contains("k3y-0f"));
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
    let mut again = cassette(&sandbox, Mode::All);
    let command = again.server_command("demo", DEMO).unwrap();
    let local = again.server_url_with("web", &url, &[("X-Key", "k3y-0f-the-l1brary")]).unwrap();
    meet(&command, "hi");
    post(&local, "ho");
    assert_eq!(again.finish().unwrap(), Finished::Unchanged);
}

#[test]
fn what_went_wrong_fails_the_test() {
    let sandbox = Sandbox::new();
    let record = || {
        let mut used = cassette(&sandbox, Mode::Once);
        let command = used.server_command("demo", DEMO).unwrap();
        meet(&command, "one");
        used.finish().unwrap();
    };
    record();
    let fails = |used: UseCassette, text: Option<&str>| {
        let mut used = used;
        let command = used.server_command("demo", DEMO).unwrap();
        if let Some(text) = text {
            meet(&command, text);
        }
        used.finish().unwrap_err().to_string()
    };
    assert_eq!(fails(cassette(&sandbox, Mode::None), None), "demo: its command was never started");
    let missed = fails(cassette(&sandbox, Mode::None), Some("two"));
    assert!(missed.starts_with("demo: no recorded answer for tools/call \"echo\"; nearest is message 2; /params/arguments/text: recorded \"one\", live \"two\""), "{missed}");
    let unused = fails(cassette(&sandbox, Mode::None).require_all_used(), Some("two"));
    assert!(unused.ends_with("demo: message 2, tools/call \"echo\", was not used"), "{unused}");
    sandbox.file("f.json", r#"{"faults":[{"target":{"name":"other"},"type":"error"}]}"#);
    let unfired = fails(cassette(&sandbox, Mode::None).faults(sandbox.path.join("f.json")), Some("one"));
    assert!(unfired.ends_with("never fired"), "{unfired}");
    // A part that does not count.
    let mut used = cassette(&sandbox, Mode::None).ignore("/params/arguments/text");
    let command = used.server_command("demo", DEMO).unwrap();
    meet(&command, "two");
    assert_eq!(used.finish().unwrap(), Finished::Replayed);
    // A test that forgets to look.
    let mut used = cassette(&sandbox, Mode::None);
    let command = used.server_command("demo", DEMO).unwrap();
    meet(&command, "two");
    let panic = catch_unwind(AssertUnwindSafe(|| drop(used))).unwrap_err();
    assert!(panic.downcast_ref::<String>().unwrap().contains("no recorded answer"));
    // A recording without a message.
    let mut used = use_cassette(sandbox.path.join("none.json")).mode(Mode::Once).binary(MCPREEL);
    used.server_command("demo", DEMO).unwrap();
    let nothing = used.finish().unwrap_err().to_string();
    assert!(nothing.contains("nothing was captured"), "{nothing}");
    assert_eq!(sandbox.of_cassette("none.json"), [""; 0]);
}

#[test]
fn a_command_that_was_killed_is_told_once() {
    let sandbox = Sandbox::new();
    let mut used = cassette(&sandbox, Mode::Once);
    let command = used.server_command("demo", DEMO).unwrap();
    meet(&command, "one");
    used.finish().unwrap();
    for all in [false, true] {
        let used = cassette(&sandbox, Mode::None);
        let mut used = if all { used.require_all_used() } else { used };
        let command = used.server_command("demo", DEMO).unwrap();
        let mut child = Command::new(&command[0])
            .args(&command[1..])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        writeln!(child.stdin.as_mut().unwrap(), "{}", initialize("{}")).unwrap();
        let mut answer = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut answer).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(
            used.finish().unwrap_err().to_string(),
            "demo: a process was killed before it could report; what it was asked is not known"
        );
    }
}

#[test]
fn what_cannot_be_is_told_before_anything_starts() {
    let sandbox = Sandbox::new();
    let told = |mut used: UseCassette| used.server_command("demo", DEMO).unwrap_err().to_string();
    let missing = told(cassette(&sandbox, Mode::None));
    assert!(missing.contains("c.json: no such cassette"), "{missing}");
    let binary = told(use_cassette(sandbox.path.join("c.json")).binary("/no/such/mcpreel"));
    assert!(binary.contains("/no/such/mcpreel") && binary.contains("MCPREEL_BIN"), "{binary}");
    let option = told(cassette(&sandbox, Mode::Once).option("--ordering=odd"));
    assert_eq!(option, "--ordering \"odd\": \"odd\" is not one of per-key, strict, any");
    let url = cassette(&sandbox, Mode::Once).server_url("web", "ftp://h").unwrap_err().to_string();
    assert!(url.contains("http"), "{url}");
    assert_eq!(cassette(&sandbox, Mode::None).finish().unwrap(), Finished::Unused);
    assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
}
