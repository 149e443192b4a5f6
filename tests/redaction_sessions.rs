//! Sessions in which redaction is easily got wrong: recorded with the rules, and recorded without and scrubbed afterwards.

use std::fmt::Write as _;

use serde_json::Value;

use crate::support::Sandbox;
use crate::support::recording::{squeezed, testdata_files};

/// What a file of `testdata/redaction-sessions` says.
#[derive(Default)]
struct Session {
    name: String,
    client: String,
    /// A script for a server: what it reads, says and complains of, in order.
    server: String,
    lacks: Vec<String>,
    has: Vec<String>,
    secrets: Vec<String>,
}

fn sessions() -> Vec<Session> {
    let files = testdata_files("redaction-sessions").into_iter();
    files
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let mut session = Session { name, ..Session::default() };
            let text = std::fs::read_to_string(&path).unwrap();
            for line in text.lines().filter(|line| !line.starts_with('#')) {
                let (what, rest) = line.split_once(' ').unwrap();
                let quoted = rest.replace('\'', r"'\''");
                match what {
                    "c" => {
                        session.client.push_str(&format!("{rest}\n"));
                        session.server.push_str("IFS= read -r line\n");
                    }
                    "s" => writeln!(session.server, "printf '%s\\n' '{quoted}'").unwrap(),
                    "e" => writeln!(session.server, "printf '%s\\n' '{quoted}' >&2").unwrap(),
                    "lacks" => session.lacks.push(rest.to_owned()),
                    "has" => session.has.push(rest.to_owned()),
                    "secret" => session.secrets.push(rest.to_owned()),
                    other => panic!("{other} in {}", path.display()),
                }
            }
            // A server that fails leaves its last words.
            session.server.push_str("exit 1");
            session
        })
        .collect()
}

/// Every string of a document, decoded, one to a line.
fn strings(value: &Value, out: &mut String) {
    match value {
        Value::String(text) => writeln!(out, "{text}").unwrap(),
        Value::Array(list) => list.iter().for_each(|value| strings(value, out)),
        Value::Object(members) => {
            for (name, value) in members {
                writeln!(out, "{name}").unwrap();
                strings(value, out);
            }
        }
        _ => {}
    }
}

/// Only values changed: the same members in the same places, and what was JSON in a text still is.
fn is_alike(name: &str, raw: &Value, redacted: &Value) {
    match (raw, redacted) {
        (Value::Object(raw), Value::Object(redacted)) => {
            assert!(raw.keys().eq(redacted.keys()), "{name}: {raw:?} {redacted:?}");
            raw.values().zip(redacted.values()).for_each(|(raw, redacted)| is_alike(name, raw, redacted));
        }
        (Value::Array(raw), Value::Array(redacted)) => {
            assert_eq!(raw.len(), redacted.len(), "{name}");
            raw.iter().zip(redacted).for_each(|(raw, redacted)| is_alike(name, raw, redacted));
        }
        (Value::String(raw), Value::String(redacted)) if raw != redacted => {
            let inner = |text: &str| serde_json::from_str::<Value>(text).ok();
            if let Some(raw) = inner(raw) {
                is_alike(name, &raw, &inner(redacted).expect("it was JSON"));
            }
        }
        (raw, redacted) => {
            assert!(raw == redacted || (raw.is_number() && *redacted == 0), "{name}: {raw} {redacted}");
        }
    }
}

#[test]
fn easily_got_wrong_and_right_here() {
    let all = sessions();
    assert!(all.len() > 10);
    for session in all {
        let sandbox = Sandbox::new();
        let server = sandbox.script("server", &session.server);
        sandbox.file("secrets", session.secrets.join("\n"));
        let named: &[&str] = if session.secrets.is_empty() { &[] } else { &["--secret-file", "secrets"] };
        let record = |cassette: &str, options: &[&str]| {
            let words = [&["record", "-q", "--cassette", cassette], options, &["--", &server]].concat();
            sandbox.mcpreel(words).input(&session.client).run().expect(1);
        };
        record("raw.json", &["--no-default-redactions"]);
        record("recorded.json", named);
        sandbox.mcpreel([&["redact", "raw.json", "-o", "scrubbed.json"], named].concat()).run().expect(0);
        let raw: Value = serde_json::from_str(&sandbox.read("raw.json")).unwrap();
        for cassette in ["recorded.json", "scrubbed.json"] {
            let what = format!("{}, {cassette}", session.name);
            let text = sandbox.read(cassette);
            let document: Value = serde_json::from_str(&text).expect(&what);
            let mut decoded = String::new();
            strings(&document, &mut decoded);
            let seen = strip(&decoded);
            for gone in &session.lacks {
                assert!(
                    !text.contains(gone) && !decoded.contains(gone) && !seen.contains(gone),
                    "{what}: {gone} in {text}"
                );
            }
            let compact = squeezed(&text);
            for there in &session.has {
                assert!(compact.contains(there), "{what}: {there} not in {text}");
            }
            let messages = |document: &Value| -> Vec<Value> {
                let list = document["messages"].as_array().unwrap().iter();
                list.map(|record| record["payload"].clone()).collect()
            };
            for (raw, redacted) in messages(&raw).iter().zip(messages(&document)) {
                is_alike(&what, raw, &redacted);
            }
            sandbox.mcpreel([&["redact", "--check", cassette], named].concat()).run().expect(0);
            let again = sandbox.mcpreel(["redact", cassette, "-o", "again.json"]).run().expect(0);
            assert!(again.stderr().contains(": 0 values replaced\n"), "{what}: {}", again.stderr());
            assert_eq!(sandbox.read("again.json"), text, "{what}");
        }
        // What is printed of it has none either.
        for view in [&[][..], &["--timeline"], &["--exchange", "1"]] {
            let shown = sandbox.mcpreel([&["inspect", "recorded.json"], view].concat()).run().expect(0);
            for gone in &session.lacks {
                assert!(
                    !shown.stdout().contains(gone) && !shown.stderr().contains(gone),
                    "{}: {gone}",
                    session.name
                );
            }
        }
        let misses = session.client.replace("\"name\":", "\"else\":1,\"name\":");
        let serve = sandbox.mcpreel([&["serve", "recorded.json", "--report", "r.jsonl"], named].concat());
        let played = serve.input(misses).run();
        for gone in &session.lacks {
            let told = [played.stdout(), played.stderr(), sandbox.read("r.jsonl")].concat();
            assert!(!told.contains(gone), "{}: {gone} in {told}", session.name);
        }
    }
}

/// A text as a terminal shows it: without escapes and what nobody sees.
fn strip(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        match char {
            '\u{1b}' => drop(chars.by_ref().find(char::is_ascii_alphabetic)),
            '\u{200b}'..='\u{200f}' | '\u{feff}' | '\u{ad}' => {}
            char => out.push(char),
        }
    }
    out
}
