//! `run`: what the environment puts into the URLs of servers.

use std::io::Write as _;

use crate::run::{logging, run};
use crate::support::http::{Upstream, answer, json};
use crate::support::{Run, Sandbox};

/// A server that says what it was asked for, and whose URL is its key.
fn keyed() -> Upstream {
    Upstream::start(|request, socket| {
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(id) = message.get("id") else {
            return socket.write_all(&answer("202 Accepted", "", "")).is_ok();
        };
        let body = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"result":{{"protocolVersion":"2025-11-25","tools":[],"at":"{}","key":"{}"}}}}"#,
            request.target,
            request.all("x-api-key").concat()
        );
        socket.write_all(&json(&body)).is_ok()
    })
}

#[test]
fn what_the_environment_puts_into_a_url_is_in_no_cassette() {
    const KEY: &str = "FAKEpath-9f8e7d6c5b4a";
    const TEAM: &str = "FAKEquery-5b4a9f8e";
    for (url, shown) in [
        ("${BASE}/s/${KEY}/mcp?team=${TEAM}&n=1", "/s/REDACTED/mcp?team=REDACTED&n=1"),
        ("${WHOLE}", "/REDACTED"),
        ("${WHOLE}&v=${VERSION:-2}", "/REDACTED&v=2"),
    ] {
        let sandbox = Sandbox::new();
        let upstream = keyed();
        let base = upstream.url("");
        let whole = format!("{base}/s/{KEY}/mcp?team={TEAM}");
        sandbox.file(
            "mcp.json",
            format!(
                r#"{{"mcpServers":{{"files":{{"command":"{}"}},"keyed":{{"type":"http","url":"{url}"}}}}}}"#,
                logging(&sandbox, "files")
            ),
        );
        let say = format!("the key is {KEY}");
        let with = |run: Run| run.env("BASE", &base).env("KEY", KEY).env("TEAM", TEAM).env("WHOLE", &whole);
        let asked = with(run(&sandbox, &[], &["--say", &say])).run().expect(0);
        assert!(upstream.received.try_iter().any(|request| request.target.contains(KEY)), "{url}");
        let text = sandbox.read("c.json");
        assert!(text.contains(&format!("\"url\": \"{base}{shown}\"")), "{url}: {text}");
        // What the server of the URL says of it goes in any case; what others say, where it is a variable.
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let messages = document["messages"].as_array().unwrap().iter();
        let of_keyed: Vec<_> = messages.filter(|message| message["server"] == "keyed").collect();
        assert!(of_keyed.len() > 4, "{url}: {text}");
        let of_keyed = format!("{of_keyed:?}");
        assert!(!of_keyed.contains(KEY) && !of_keyed.contains(TEAM), "{url}: {of_keyed}");
        if url.contains("${KEY}") {
            assert!(!text.contains(KEY) && !text.contains(TEAM), "{url}: {text}");
        }
        upstream.die();
        // The replay needs none of it.
        let again = run(&sandbox, &["--mode", "none"], &["--say", &say]).run().expect(0);
        assert_eq!(again.lines().len(), asked.lines().len(), "{url}");
    }
}

#[test]
fn what_the_environment_puts_into_a_header_is_in_no_cassette_when_the_server_says_it() {
    const KEY: &str = "FAKEheader-9f8e7d6c5b4a";
    let sandbox = Sandbox::new();
    let upstream = keyed();
    let url = upstream.url("/mcp");
    sandbox.file(
        "mcp.json",
        format!(
            r#"{{"mcpServers":{{"keyed":{{"type":"http","url":"{url}","headers":{{"X-Api-Key":"${{KEY}}","X-Team":"${{TEAM}}"}}}}}}}}"#
        ),
    );
    run(&sandbox, &[], &[]).env("KEY", KEY).env("TEAM", "the mcp team").run().expect(0);
    assert!(upstream.received.try_iter().any(|request| request.all("x-api-key") == [KEY]));
    let text = sandbox.read("c.json");
    assert!(!text.contains(KEY) && text.contains(r#""key": "REDACTED-"#), "{text}");
}

/// A large one takes its time.
#[test]
fn a_cassette_is_read_once_for_all_servers_at_a_url() {
    let sandbox = Sandbox::new();
    let names = ["a", "b", "c"];
    let servers = names.map(|name| format!(r#""{name}":{{"url":"http://127.0.0.1:9/{name}"}}"#)).join(",");
    sandbox.file("mcp.json", format!(r#"{{"mcpServers":{{{servers}}}}}"#));
    let recorded =
        names.map(|name| format!(r#""{name}":{{"transport":"http","url":"http://127.0.0.1:9/{name}"}}"#));
    sandbox.file(
        "c.jsonl",
        format!(
            "{{\"mcpreel\":1,\"journal\":true,\"recorded_at\":\"2026-11-29T20:33:00.000Z\",\"recorder\":\"mcpreel 0.1.0\",\"servers\":{{{}}}}}\n{{\"at\":1,\"serv",
            recorded.join(",")
        ),
    );
    for mode in ["none", "new_episodes"] {
        let agent = ["--", "sh", "-c", "test -s \"$1\"", "sh", "{config}"];
        let arguments = ["run", "-q", "--cassette", "c.jsonl", "--config", "mcp.json", "--mode", mode];
        let said = sandbox.mcpreel(arguments.iter().chain(&agent)).run().expect(0).stderr();
        assert_eq!(said.matches("the last line is torn and was left out").count(), 1, "{mode}: {said}");
    }
}
