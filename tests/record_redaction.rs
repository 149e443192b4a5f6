//! Redaction from the wire to the file and back: what was recorded with real values is played to other ones.

use crate::support::replay::{call, request};
use crate::support::{Sandbox, initialize};

const TOKEN: &str = "ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2z4A";

fn echo(id: &str, text: &str) -> String {
    call(id, "echo", &format!(r#"{{"text":{}}}"#, serde_json::to_string(text).unwrap()))
}

#[test]
fn a_part_of_a_text_equals_any_text_there() {
    let sandbox = Sandbox::new();
    let start = initialize("{}");
    let said = format!("mail ann@corp.example with {TOKEN} today");
    sandbox.record_demo("c.json", &[&start, &echo("1", &said)]);
    let cassette = sandbox.read("c.json");
    assert!(!cassette.contains("corp.example") && !cassette.contains("ghp_"), "{cassette}");
    assert!(cassette.contains("mail redacted-1@redacted.invalid with REDACTED-2 today"), "{cassette}");
    for live in [
        said.as_str(),
        "mail bob@lab.example with ghp_zZ3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2z4B today",
        "mail nobody with dummy today",
        "mail  with  today",
        "mail redacted-1@redacted.invalid with REDACTED-2 today",
    ] {
        let mut client = sandbox.serve(&[]);
        client.ask(&start);
        let answer = client.ask(&echo("2", live));
        assert!(answer.contains("with REDACTED-2 today"), "{live}: {answer}");
        assert_eq!(client.close(0).stderr, "", "{live}");
    }
    for live in
        ["mail ann@corp.example with nothing", "post ann@corp.example with x today", "mail a with b today!"]
    {
        let mut client = sandbox.serve(&[]);
        client.ask(&start);
        let miss = client.fails(&echo("2", live), -31001);
        assert!(!miss.contains("corp.example"), "{miss}");
        client.close(3);
    }
}

#[test]
fn placeholders_in_texts_agree_one_to_one_with_live_values() {
    let sandbox = Sandbox::new();
    let start = initialize("{}");
    let call = |id: &str, who: &str, n: u32| call(id, "echo", &format!(r#"{{"text":"for {who}","n":{n}}}"#));
    let (ann, bob) = ("ann@corp.example", "bob@corp.example");
    sandbox.record_demo(
        "c.json",
        &[&start, &call("1", ann, 1), &call("2", bob, 1), &call("3", bob, 2), &call("4", ann, 2)],
    );
    for (one, other) in [(ann, bob), ("dummy-a", "dummy-b")] {
        let mut client = sandbox.serve(&[]);
        client.ask(&start);
        for (who, n, expected) in [(one, 1, "1@"), (other, 1, "2@"), (one, 2, "1@"), (other, 2, "2@")] {
            let answer = client.ask(&call("9", who, n));
            assert!(answer.contains(&format!("for redacted-{expected}redacted.invalid")), "{who}: {answer}");
        }
        assert_eq!(client.close(0).stderr, "");
    }
}

#[test]
fn an_echo_matches_a_client_that_has_another_secret_or_none() {
    let sandbox = Sandbox::new();
    let start = initialize("{}");
    let login = |id: &str, key: &str| call(id, "echo", &format!(r#"{{"text":"login","api_key":"{key}"}}"#));
    let secret = "FAKE-echo-4Vb6-long";
    sandbox.record_demo(
        "c.json",
        &[&start, &login("1", secret), &echo("2", secret), &echo("3", &format!("<{secret}>"))],
    );
    assert!(!sandbox.read("c.json").contains("FAKE-echo"));
    for live in [secret, "dummy", ""] {
        let mut client = sandbox.serve(&[]);
        client.ask(&start);
        client.ask(&login("1", live));
        assert!(client.ask(&echo("2", live)).contains(r#""text":"REDACTED-1""#), "{live}");
        assert!(client.ask(&echo("3", &format!("<{live}>"))).contains("<REDACTED-1>"), "{live}");
        assert_eq!(client.close(0).stderr, "", "{live}");
    }
}

#[test]
fn a_credential_in_a_value_that_routes_is_not_written_and_costs_no_match() {
    let sandbox = Sandbox::new();
    let start = initialize("{}");
    let read = |id: &str, uri: &str| request(id, "resources/read", &format!(r#"{{"uri":"{uri}"}}"#));
    let uri = "https://ann:FAKE-pw-1@lab.example/x?token=FAKE-tk-2";
    let named = call("2", TOKEN, "{}");
    sandbox.record_demo(
        "c.json",
        &[&start, &read("1", uri), &named, &read("3", "https://lab.example/10.1.2.3")],
    );
    let cassette = sandbox.read("c.json");
    assert!(!cassette.contains("FAKE") && !cassette.contains("ghp_"), "{cassette}");
    assert!(cassette.contains("https://lab.example/10.1.2.3"), "{cassette}");
    for live in [uri, "https://REDACTED-1@lab.example/x?token=REDACTED-2", "https://x@lab.example/x?token="] {
        let mut client = sandbox.serve(&[]);
        client.ask(&start);
        assert!(!client.ask(&read("1", live)).contains("-31001"), "{live}");
        assert!(!client.ask(&named).contains("-31001"), "{live}");
        client.close(0);
    }
}

#[test]
fn without_the_defaults_nothing_is_looked_for() {
    let sandbox = Sandbox::new();
    let start = initialize("{}");
    let mut client = sandbox
        .mcpreel([
            "record",
            "-q",
            "--no-default-redactions",
            "--cassette",
            "c.json",
            "--",
            crate::support::MCPREEL,
            "demo",
            "server",
        ])
        .start();
    client.converse(&[&start, &echo("1", "mail ann@corp.example, password=hunter2")]);
    client.close(0);
    assert!(sandbox.read("c.json").contains("mail ann@corp.example, password=hunter2"));
}
