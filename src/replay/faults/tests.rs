//! What an overlay may say, and whom its faults hit.

use std::path::Path;

use super::overlay::Overlay;
use super::target::Subject;
use super::{Faults, Kind, Way};
use crate::mcp::Era;

fn parse(text: &str) -> Result<Overlay, String> {
    Overlay::parse(Path::new("f.json"), text).map_err(|error| error.to_string())
}

fn one(fault: &str) -> Result<Overlay, String> {
    parse(&format!("{{\"faults\":[{fault}]}}"))
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    for (text, expected) in [
        ("{\"faults\":\n[x", "f.json: line 2: not JSON: expected a value"),
        ("[]", "f.json: line 1: must be an object: an overlay"),
        ("{}", "f.json: line 1: has no \"faults\"; an overlay is {\"faults\": [...]}"),
        ("{\"faults\":{}}", "f.json: line 1, /faults: must be a list of faults"),
        (
            "{\"faults\":[],\n\"fault\":1}",
            "f.json: line 2, /fault: is unknown; an overlay has faults, $schema",
        ),
    ] {
        assert_eq!(parse(text).unwrap_err(), expected, "{text}");
    }
    for (fault, expected) in [
        ("7", ": must be an object: a fault"),
        (r#"{"target":{}}"#, ": has no \"type\""),
        (r#"{"type":"timeout"}"#, ": has no \"target\""),
        (r#"{"type":"timeout","target":[]}"#, "/target: must be an object: a target"),
        (
            r#"{"type":"slow","target":{}}"#,
            "/type: \"slow\" is no type of fault; there are delay, timeout, error, malformed, disconnect, http_status, \
             session_expired, cut_stream, drip, duplicate, late, reorder, stderr_noise, exit",
        ),
        (
            r#"{"type":"timeout","target":{"nht":1}}"#,
            "/target/nht: is unknown; a target has method, server, name, arguments, nth, probability, seed",
        ),
        (r#"{"type":"timeout","target":{"nth":1,"nth":2}}"#, "/target/nth: stands there twice"),
        (
            r#"{"type":"timeout","target":{},"params":{"ms":1}}"#,
            "/params/ms: is unknown; \"timeout\" has nothing",
        ),
        (r#"{"type":"delay","target":{},"params":{"msec":1}}"#, "/params/msec: is unknown; \"delay\" has ms"),
        (
            r#"{"type":"delay","target":{},"params":{"ms":-1}}"#,
            "/params/ms: must be a whole number from 0 to 315360000000",
        ),
        (
            r#"{"type":"error","target":{},"params":{"code":1.5}}"#,
            "/params/code: must be a whole number: a JSON-RPC error code",
        ),
        (r#"{"type":"error","target":{},"params":{"message":1}}"#, "/params/message: must be a string"),
        (
            r#"{"type":"malformed","target":{},"params":{"strategy":"x"}}"#,
            "/params/strategy: must be truncate, not_json or wrong_id",
        ),
        (
            r#"{"type":"disconnect","target":{},"params":{"after_response":1}}"#,
            "/params/after_response: must be true or false",
        ),
        (r#"{"type":"http_status","target":{}}"#, ": \"http_status\" needs params.status, from 200 to 599"),
        (
            r#"{"type":"http_status","target":{},"params":{"status":99}}"#,
            "/params/status: must be a whole number from 200 to 599",
        ),
        (
            r#"{"type":"http_status","target":{},"params":{"status":429,"headers":{"A\nB":"x"}}}"#,
            "/params/headers/A\\nB: is no header field that could be sent",
        ),
        (r#"{"type":"drip","target":{}}"#, ": \"drip\" needs params.bytes_per_second, from 1"),
        (
            r#"{"type":"drip","target":{},"params":{"bytes_per_second":0}}"#,
            "/params/bytes_per_second: must be a whole number from 1",
        ),
        (
            r#"{"type":"exit","target":{},"params":{"code":256}}"#,
            "/params/code: must be a whole number from 0 to 255",
        ),
        (r#"{"type":"timeout","target":{"seed":1}}"#, "/target/seed: goes with a probability only"),
        (
            r#"{"type":"timeout","target":{"probability":0}}"#,
            "/target/probability: must be a number above 0 and up to 1",
        ),
        (
            r#"{"type":"timeout","target":{"arguments":{"q":1}}}"#,
            "/target/arguments/q: a JSON pointer begins with /",
        ),
    ] {
        let (pointer, what) = expected.split_once(": ").unwrap();
        assert_eq!(one(fault).unwrap_err(), format!("f.json: line 1, /faults/0{pointer}: {what}"), "{fault}");
    }
}

#[test]
fn an_nth_that_is_impossible_is_refused() {
    let expected = "must be a number from 1, a list of such numbers, or a range such as \"2..4\"";
    for nth in ["0", "-1", "1.5", "true", "{}", "[]", "\"\"", "\"x\"", "\"0..2\"", "\"1..x\"", "\"-1..2\""] {
        let error = one(&format!("{{\"type\":\"timeout\",\"target\":{{\"nth\":{nth}}}}}")).unwrap_err();
        assert_eq!(error, format!("f.json: line 1, /faults/0/target/nth: {expected}"), "{nth}");
    }
    let error = one(r#"{"type":"timeout","target":{"nth":[1,0]}}"#).unwrap_err();
    assert_eq!(error, format!("f.json: line 1, /faults/0/target/nth/1: {expected}"));
    let error = one(r#"{"type":"timeout","target":{"nth":"4..2"}}"#).unwrap_err();
    assert_eq!(
        error,
        "f.json: line 1, /faults/0/target/nth: is a range that holds nothing: its end is before its start"
    );
}

#[test]
fn overlays_of_mcp_cassette_are_read_unchanged() {
    let text = r#"{"faults": [
        {"target": {"method": "tools/call", "nth": 1}, "type": "delay", "params": {"ms": 50}},
        {"target": {"method": "tools/call", "nth": 2}, "type": "timeout", "params": {}},
        {"target": {"method": "tools/call", "nth": 3}, "type": "error", "params": {"code": -32000, "message": "x"}},
        {"target": {"method": "tools/call", "nth": 4}, "type": "error"},
        {"target": {"method": "tools/call", "nth": 5}, "type": "malformed", "params": {"strategy": "wrong_id"}},
        {"target": {"method": "tools/call", "nth": 6}, "type": "malformed", "params": null},
        {"target": {"method": "tools/list", "nth": null}, "type": "disconnect", "params": {"after_response": true}}
    ]}"#;
    let overlay = parse(text).unwrap();
    let words: Vec<&str> = overlay.faults.iter().map(|fault| fault.kind.word()).collect();
    assert_eq!(words, ["delay", "timeout", "error", "error", "malformed", "malformed", "disconnect"]);
    assert_eq!(
        overlay.faults[3].kind,
        Kind::Error { code: -32603, message: "mcpreel injected error".to_owned(), data: None }
    );
    assert_eq!(overlay.faults.iter().map(|fault| fault.line).collect::<Vec<_>>(), [2, 3, 4, 5, 6, 7, 8]);
}

/// Which of these requests, by number from 1, a target hits.
fn hits(target: &str, requests: &[(&str, Option<&str>, Option<&str>)]) -> Vec<usize> {
    let overlay = one(&format!("{{\"type\":\"timeout\",\"target\":{target}}}")).unwrap();
    let mut faults = Faults::new(overlay);
    let hit = |(method, name, arguments): &(&str, Option<&str>, Option<&str>)| {
        let subject = Subject { server: "demo", method, name: *name, arguments: *arguments };
        faults.pick(&subject, Way::Pipe, Era::Legacy).0.holds.is_some()
    };
    let hits: Vec<bool> = requests.iter().map(hit).collect();
    hits.iter().zip(1..).filter(|(hit, _)| **hit).map(|(_, n)| n).collect()
}

#[test]
fn whom_a_target_means() {
    let requests = [
        ("initialize", None, None),
        ("tools/list", None, None),
        ("tools/call", Some("search"), Some(r#"{"q":"a","page":1}"#)),
        ("tools/call", Some("search"), Some(r#"{"q":"a","page":2.0}"#)),
        ("tools/call", Some("fetch"), Some(r#"{"q":"b"}"#)),
        ("resources/read", Some("file:///a.md"), None),
        ("tools/call", Some("search"), None),
        ("server/discover", None, None),
    ];
    for (target, expected) in [
        ("{}", &[2, 3, 4, 5, 6, 7][..]),
        (r#"{"method":"*"}"#, &[1, 2, 3, 4, 5, 6, 7, 8]),
        (r#"{"method":"initialize"}"#, &[1]),
        (r#"{"method":"tools/*"}"#, &[2, 3, 4, 5, 7]),
        (r#"{"method":"tools/call"}"#, &[3, 4, 5, 7]),
        (r#"{"name":"search"}"#, &[3, 4, 7]),
        (r#"{"name":"*e*c*"}"#, &[3, 4, 5, 7]),
        (r#"{"name":"file:///*.md"}"#, &[6]),
        (r#"{"server":"demo","name":"fetch"}"#, &[5]),
        (r#"{"server":"other"}"#, &[]),
        (r#"{"arguments":{"/q":"a"}}"#, &[3, 4]),
        (r#"{"arguments":{"/q":"a","/page":2}}"#, &[4]),
        (r#"{"arguments":{"":{"q":"b"}}}"#, &[5]),
        (r#"{"method":"tools/call","nth":2}"#, &[4]),
        (r#"{"method":"tools/call","nth":[1,4,9]}"#, &[3, 7]),
        (r#"{"method":"tools/call","nth":"2..3"}"#, &[4, 5]),
        (r#"{"method":"tools/call","nth":"3.."}"#, &[5, 7]),
        (r#"{"name":"search","nth":3}"#, &[7]),
        (r#"{"method":"tools/call","probability":1}"#, &[3, 4, 5, 7]),
    ] {
        assert_eq!(hits(target, &requests), expected, "{target}");
    }
}

#[test]
fn the_same_seed_is_the_same_schedule() {
    let requests = vec![("tools/call", Some("x"), None); 200];
    let schedule = |seed| hits(&format!(r#"{{"probability":0.25,"seed":{seed}}}"#), &requests);
    assert_eq!(schedule(1), schedule(1));
    assert_ne!(schedule(1), schedule(2));
    assert!((25..75).contains(&schedule(1).len()), "{:?}", schedule(1));
    // An nth goes first.
    let both = hits(r#"{"probability":0.25,"seed":1,"nth":"1..100"}"#, &requests);
    let first: Vec<usize> = schedule(1).into_iter().filter(|n| *n <= 100).collect();
    assert_eq!(both, first);
}

#[test]
fn which_faults_contradict_each_other() {
    let kind = |fault: &str| one(&format!("{{{fault},\"target\":{{}}}}")).unwrap().faults[0].kind.clone();
    let delay = r#""type":"delay","params":{"ms":1}"#;
    let drip = r#""type":"drip","params":{"bytes_per_second":1}"#;
    let status = r#""type":"http_status","params":{"status":503}"#;
    let after = r#""type":"disconnect","params":{"after_response":true}"#;
    let [timeout, error, late, noise, reorder, exit] =
        ["timeout", "error", "late", "stderr_noise", "reorder", "exit"]
            .map(|name| format!("\"type\":\"{name}\""));
    for (one, two, contradict) in [
        (delay, &*error, false),
        (delay, delay, true),
        (delay, &*timeout, true),
        (delay, &*late, false),
        (delay, status, false),
        (drip, &*error, false),
        (drip, after, false),
        (drip, status, true),
        (&*error, after, true),
        (&*error, status, true),
        (&*timeout, &*error, true),
        (&*timeout, &*late, true),
        (&*late, &*error, false),
        (&*late, &*exit, true),
        (&*reorder, &*error, false),
        (&*reorder, status, true),
        (&*noise, &*timeout, false),
        (&*noise, &*noise, false),
    ] {
        assert_eq!(kind(one).contradicts(&kind(two)), contradict, "{one} {two}");
        assert_eq!(kind(two).contradicts(&kind(one)), contradict, "{two} {one}");
    }
}
