//! Mode `new_episodes` in front of a server at a URL.

use std::io::Write as _;
use std::time::SystemTime;

use mcpreel::cassette::{Cassette, Side};

use crate::support::http::{Upstream, answer, chunk, json};
use crate::support::replay::{INITIALIZED, call, cancelled, request, result};
use crate::support::web::{Endpoint, Legacy, c, s};
use crate::support::{Sandbox, eventually, initialize, modern};

const TOKEN: &str = "Bearer tr4cker-T0ken-9f8e7d6c5b4a";

fn echo(id: &str, text: &str) -> String {
    call(id, "echo", &format!("{{\"text\":\"{text}\"}}"))
}

fn modern_echo(id: &str, text: &str) -> String {
    modern(id, "tools/call", &format!(r#""name":"echo","arguments":{{"text":"{text}"}}"#), "{}")
}

fn demo(sandbox: &Sandbox) -> Endpoint {
    sandbox.listen(["demo", "server", "--listen", "127.0.0.1:0"])
}

fn url(server: &Endpoint) -> String {
    format!("http://{}{}", server.host, server.path)
}

/// `use --mode new_episodes` in front of a URL.
fn append(sandbox: &Sandbox, url: &str, more: &[&str]) -> Endpoint {
    let args =
        ["use", "-q", "--cassette", "c.json", "--server", "demo", "--mode", "new_episodes", "--url", url];
    sandbox.listen(args.iter().chain(more).copied())
}

#[track_caller]
fn said(client: &Legacy<'_>, id: &str, text: &str) {
    let answer = client.post(&echo(id, text)).expect(200).last();
    assert!(
        answer.contains(&format!("\"id\":{id},")) && answer.contains(&format!("\"text\":\"{text}\"")),
        "{answer}"
    );
}

/// The appended messages of the client: `session exchange method text`.
fn appended(sandbox: &Sandbox) -> Vec<String> {
    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    let live = cassette.records.iter().filter(|record| record.more.as_ref().is_some_and(|more| more.live));
    live.filter(|record| record.from == Side::Client)
        .map(|record| {
            let payload = mcpreel::jsonrpc::pretty::packed(cassette.payload(record).unwrap_or("-"));
            let part = |name: &str| payload.split(&format!("\"{name}\":\"")).nth(1)?.split('"').next();
            let method = part("method").unwrap_or("-");
            format!("{} {method} {}", record.session, part("text").unwrap_or("")).trim_end().to_owned()
        })
        .collect()
}

fn stamp(sandbox: &Sandbox) -> (Vec<u8>, SystemTime) {
    let path = sandbox.path.join("c.json");
    (std::fs::read(&path).unwrap(), std::fs::metadata(path).unwrap().modified().unwrap())
}

#[test]
fn what_is_new_is_asked_of_the_live_server_and_appended_once() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| {
        let client = server.greet("{}");
        said(&client, "1", "one");
        client.delete().expect(200);
    });
    let server = demo(&sandbox);
    let address = url(&server);
    let talk = |texts: &[&str]| {
        let front = append(&sandbox, &address, &[]);
        let client = front.greet("{}");
        for (id, text) in (1..).zip(texts) {
            said(&client, &id.to_string(), text);
        }
        client.delete().expect(200);
        // The session is over here, as it is there.
        assert_eq!(client.post(&echo("9", "one")).status, 404);
        front.end(0)
    };
    talk(&["one", "two", "three"]);
    assert_eq!(
        appended(&sandbox),
        ["2 initialize", "2 notifications/initialized", "2 tools/call two", "2 tools/call three", "2 -"]
    );
    let untouched = stamp(&sandbox);
    talk(&["one", "two", "three"]);
    server.end(0);
    talk(&["three", "one", "two"]);
    assert!(stamp(&sandbox) == untouched, "the file was touched");
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
    // Over either transport.
    let replay = sandbox.replay_http(&[]);
    let client = replay.greet("{}");
    said(&client, "1", "two");
    said(&client, "2", "one");
    replay.end(0);
    let mut client = sandbox.mcpreel(["serve", "c.json", "--stdio"]).start();
    client.greet("{}");
    let got = client.ask(&echo("1", "three"));
    assert!(got.contains("three"), "{got}");
    client.close(0);
}

#[test]
fn a_live_server_that_answers_with_a_stream_opens_a_session_too() {
    let sandbox = Sandbox::new();
    // Nothing legacy is recorded, so the live server is greeted by the client itself.
    sandbox.http_cassette(&[c(1, modern_echo("1", "recorded")), s(1, result("1", "{}")).status(200)]);
    let upstream = Upstream::start(|request, socket| {
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let Some(id) = message.get("id") else {
            return socket.write_all(&answer("202 Accepted", "", "")).is_ok();
        };
        let event = format!("data: {}\n\n", result(&id.to_string(), r#"{"protocolVersion":"2025-11-25"}"#));
        let fields = "Content-Type: text/event-stream\r\nMcp-Session-Id: s\r\n";
        socket.write_all(&answer("200 OK", fields, &event)).is_ok()
    });
    let front = append(&sandbox, &upstream.url("/mcp"), &[]);
    let client = front.greet("{}");
    assert!(client.session.is_some());
    client.post(&echo("2", "x")).expect(200);
    drop(client);
    front.end(0);
}

#[test]
fn several_sessions_and_eras_have_live_sides_of_their_own() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| said(&server.greet("{}"), "1", "one"));
    let server = demo(&sandbox);
    let front = append(&sandbox, &url(&server), &[]);
    let clients = [front.greet("{}"), front.greet("{}"), front.greet("{}")];
    for text in ["a", "b"] {
        // Ids are those of each client.
        for (client, who) in clients.iter().zip(["x", "y", "z"]) {
            said(client, "1", &format!("{text}{who}"));
        }
    }
    for (id, text) in [("1", "m"), ("1", "n")] {
        let answer = front.modern(&modern_echo(id, text)).expect(200).last();
        assert!(answer.contains(&format!("\"text\":\"{text}\"")), "{answer}");
    }
    front.end(0);
    server.end(0);
    let asked = appended(&sandbox);
    for (session, who) in [(2, "x"), (3, "y"), (4, "z")] {
        for text in ["a", "b"] {
            let wanted = format!("{session} tools/call {text}{who}");
            assert!(asked.contains(&wanted), "{wanted}: {asked:?}");
        }
    }
    // A modern one has no session and needs no greeting.
    assert_eq!(asked.iter().filter(|line| line.contains("initialize")).count(), 6, "{asked:?}");
    assert!(asked.contains(&"0 tools/call m".to_owned()), "{asked:?}");
    let replay = sandbox.replay_http(&[]);
    let client = replay.greet("{}");
    for text in ["one", "ax", "bz", "ay"] {
        said(&client, "4", text);
    }
    replay.modern(&modern_echo("9", "n")).expect(200);
    replay.end(0);
}

#[test]
fn questions_progress_and_notifications_of_the_live_server_come_through() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| said(&server.greet("{}"), "1", "one"));
    let server = demo(&sandbox);
    let front = append(&sandbox, &url(&server), &[]);
    let client = front.greet(r#"{"sampling":{}}"#);
    let mut standalone = client.get();
    // A question, whose answer is a post of its own.
    let mut stream = client.stream(&call("1", "sample", r#"{"prompt":"hi"}"#));
    let asked = stream.next().unwrap();
    assert!(asked.contains("\"id\":0,") && asked.contains("sampling/createMessage"), "{asked}");
    let sampled = r#"{"role":"assistant","model":"m","content":{"type":"text","text":"from the client"}}"#;
    client.post(&result("0", sampled)).expect(202);
    let answer = stream.next().unwrap();
    assert!(answer.contains("\"id\":1,") && answer.contains("sampled: from the client"), "{answer}");
    assert_eq!(stream.next(), None);
    // Progress, on the stream of its call.
    let steps = request(
        "2",
        "tools/call",
        r#"{"name":"progress","arguments":{"steps":2},"_meta":{"progressToken":"t"}}"#,
    );
    let got = client.post(&steps).expect(200).messages();
    assert_eq!(got.len(), 3, "{got:?}");
    assert!(got[1].contains("\"progressToken\":\"t\""), "{got:?}");
    // What the live server says on its own account comes on the standalone stream.
    client.post(&call("3", "grow", "{}")).expect(200);
    let changed = standalone.next().unwrap();
    assert!(changed.contains("notifications/tools/list_changed"), "{changed}");
    // A call that is cancelled gets no answer.
    let mut open = client.stream(&call("4", "sample", r#"{"prompt":"again"}"#));
    let asked = open.next().unwrap();
    assert!(asked.contains("\"id\":1,") && asked.contains("again"), "{asked}");
    client.post(&cancelled("4")).expect(202);
    while let Some(message) = open.next() {
        assert!(!message.contains("\"id\":4"), "{message}");
    }
    front.end(0);
    server.end(0);
    let replay = sandbox.replay_http(&[]);
    let client = replay.greet(r#"{"sampling":{}}"#);
    let mut stream = client.stream(&call("1", "sample", r#"{"prompt":"hi"}"#));
    let asked = stream.next().unwrap();
    assert!(asked.contains("sampling/createMessage"), "{asked}");
    client.post(&result("0", sampled)).expect(202);
    assert!(stream.next().unwrap().contains("sampled: from the client"));
    assert_eq!(client.post(&steps).expect(200).messages().len(), 3);
    replay.end(0);
}

#[test]
fn rounds_listens_and_batches_go_over_http_too() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| drop(server.modern(&modern_echo("1", "one")).expect(200)));
    let server = demo(&sandbox);
    let front = append(&sandbox, &url(&server), &[]);
    let able = r#"{"elicitation":{}}"#;
    let ask = |id: &str, more: &str| {
        modern(id, "tools/call", &format!(r#""name":"ask","arguments":{{"message":"who?"}}{more}"#), able)
    };
    let answer = front.modern(&ask("1", "")).expect(200).last();
    let state = answer
        .split("\"requestState\":\"")
        .nth(1)
        .unwrap_or_else(|| panic!("{answer}"))
        .split('"')
        .next()
        .unwrap();
    let retry = format!(
        r#","inputResponses":{{"ask":{{"action":"accept","content":{{"name":"bob"}}}}}},"requestState":"{state}""#
    );
    let answer = front.modern(&ask("2", &retry)).expect(200).last();
    assert!(answer.contains("bob"), "{answer}");
    // A listen lasts until its client leaves.
    let mut listen = front.modern_stream(&modern(
        "1",
        "subscriptions/listen",
        r#""notifications":{"toolsListChanged":true}"#,
        "{}",
    ));
    let acknowledged = listen.next().unwrap();
    assert!(acknowledged.contains("subscriptionId\":1"), "{acknowledged}");
    front.modern(&modern("3", "tools/call", r#""name":"grow","arguments":{}"#, "{}")).expect(200);
    let changed = listen.next().unwrap();
    assert!(changed.contains("tools/list_changed") && changed.contains("subscriptionId\":1"), "{changed}");
    listen.close();
    // A legacy client of this modern cassette is welcome, and may send batches.
    let hello = initialize("{}").replace("2025-11-25", "2025-03-26");
    let welcome = front.post(&hello, &[]).expect(200);
    let session = welcome.header("mcp-session-id").unwrap().to_owned();
    let fields = [("Mcp-Session-Id", session.as_str())];
    front.post(INITIALIZED, &fields).expect(202);
    let batch = format!("[{},{}]", echo("1", "x"), echo("2", "y"));
    let answers = front.post(&batch, &fields).expect(200).body;
    assert!(answers.contains("\"text\":\"x\"") && answers.contains("\"text\":\"y\""), "{answers}");
    front.end(0);
    server.end(0);
    let replay = sandbox.replay_http(&[]);
    replay.modern(&ask("1", "")).expect(200);
    assert!(replay.modern(&ask("2", &retry)).expect(200).last().contains("bob"));
    replay.end(0);
}

/// A server of one legacy session that wants a credential, and shows what it was sent.
fn guarded(sandbox: &Sandbox) -> Upstream {
    sandbox.http_cassette(&[
        c(1, initialize("{}")),
        s(1, result("0", r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"g","version":"1"}}"#)).on(1),
        c(2, INITIALIZED).on(1),
        c(3, echo("1", "one")).on(1),
        s(3, result("1", r#"{"content":[{"type":"text","text":"one"}]}"#)).on(1),
    ]);
    Upstream::start(move |request, socket| {
        let host = request.header("host").unwrap();
        if request.target.starts_with("/.well-known/") {
            let body =
                format!(r#"{{"resource":"http://{host}/v1/mcp","authorization_servers":["http://{host}"]}}"#);
            return socket.write_all(&json(&body)).is_ok();
        }
        if request.target == "/token" {
            return socket.write_all(&json(r#"{"access_token":"tr4cker-T0ken-9f8e7d6c5b4a"}"#)).is_ok();
        }
        if request.header("authorization") != Some(TOKEN) {
            let challenge = format!(
                "WWW-Authenticate: Bearer resource_metadata=\"http://{host}/.well-known/oauth-protected-resource/v1/mcp\"\r\n"
            );
            return socket.write_all(&answer("401 Unauthorized", &challenge, "who are you?")).is_ok();
        }
        if request.method != "POST" {
            return socket.write_all(&answer("405 Method Not Allowed", "", "")).is_ok();
        }
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap();
        let Some(id) = message.get("id") else {
            return socket.write_all(&answer("202 Accepted", "", "")).is_ok();
        };
        let text = message["params"]["arguments"]["text"].as_str().unwrap_or_default();
        let body = match message["method"].as_str().unwrap() {
            "initialize" => r#"{"protocolVersion":"2025-06-18","capabilities":{}}"#.to_owned(),
            _ => format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#),
        };
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{body}}}"#);
        let session = "Content-Type: application/json\r\nMcp-Session-Id: l1ve-s3ssion-0123456789\r\n";
        socket.write_all(&answer("200 OK", session, &body)).is_ok()
    })
}

/// Waits until a text is in the running recording so often.
#[track_caller]
fn in_segment(sandbox: &Sandbox, text: &str, times: usize) {
    let folder = sandbox.path.join("c.json.partial");
    eventually("a text in the segment", || {
        std::fs::read_dir(&folder).unwrap().flatten().any(|entry| {
            std::fs::read_to_string(entry.path()).is_ok_and(|found| found.matches(text).count() >= times)
        })
    });
}

fn nothing_secret(sandbox: &Sandbox) {
    for (path, text) in sandbox.every_file() {
        let text = String::from_utf8_lossy(&text).into_owned();
        for secret in ["tr4cker", "l1ve-s3ssion"] {
            assert!(!text.contains(secret), "{}: {text}", path.display());
        }
    }
}

#[test]
fn a_client_signs_in_at_the_live_server() {
    let sandbox = Sandbox::new();
    let upstream = guarded(&sandbox);
    let front = append(&sandbox, &upstream.url("/v1/mcp"), &[]);
    assert_eq!(front.path, "/v1/mcp");
    let client = front.greet("{}");
    said(&client, "1", "one");
    assert!(upstream.received.try_recv().is_err(), "what is recorded needs no server");
    // The demand passes, with addresses here.
    let refused = client.post(&echo("2", "two"));
    assert_eq!((refused.status, refused.body.as_str()), (401, "who are you?"));
    let metadata = format!("http://{}/.well-known/oauth-protected-resource/v1/mcp", front.host);
    assert_eq!(
        refused.header("www-authenticate"),
        Some(&*format!("Bearer resource_metadata=\"{metadata}\""))
    );
    let described =
        front.ask("GET", "/.well-known/oauth-protected-resource/v1/mcp", &[], "").expect(200).body;
    assert!(described.contains(&format!("\"resource\":\"http://{}/v1/mcp\"", front.host)), "{described}");
    let granted = front.ask("POST", "/token", &[], "grant_type=x").expect(200).body;
    assert!(granted.contains("access_token"), "{granted}");
    // Signed in, the same call passes, under a session that is the live server's own affair.
    let session = client.session.clone().unwrap();
    let fields = [
        ("Authorization", TOKEN),
        ("Mcp-Session-Id", session.as_str()),
        ("MCP-Protocol-Version", "2025-11-25"),
    ];
    let answer = front.post(&echo("2", "two"), &fields).expect(200);
    assert!(answer.body.contains("\"text\":\"two\""), "{}", answer.body);
    assert_eq!(answer.header("mcp-session-id"), None);
    let sent: Vec<_> = upstream.received.try_iter().collect();
    let last = sent.last().unwrap();
    assert_eq!(last.header("authorization"), Some(TOKEN));
    assert_eq!(last.all("mcp-session-id"), ["l1ve-s3ssion-0123456789"]);
    assert_eq!(last.header("mcp-protocol-version"), Some("2025-06-18"));
    assert!(sent.iter().all(|request| !request.head.contains(&session)));
    front.end(0);
    nothing_secret(&sandbox);
    let replay = sandbox.replay_http(&[]);
    said(&replay.greet("{}"), "1", "two");
    replay.end(0);
}

#[test]
fn a_credential_of_ours_is_sent_along_and_the_url_is_a_secret_then() {
    let sandbox = Sandbox::new();
    let upstream = guarded(&sandbox);
    let header = format!("Authorization: {TOKEN}");
    let front = append(&sandbox, &upstream.url("/v1/mcp"), &["--header", &header]);
    assert!(front.path.len() > "/v1/mcp".len() + 30 && front.path.ends_with("/v1/mcp"), "{}", front.path);
    let client = front.greet("{}");
    said(&client, "2", "two");
    // Who does not know the path gets in nowhere.
    for path in ["/v1/mcp", "/mcp", "/", "/token"] {
        front.ask("POST", path, &[("Content-Type", "application/json")], &echo("1", "x")).expect(404);
    }
    front.end(0);
    nothing_secret(&sandbox);
}

#[test]
fn a_server_that_is_not_there_is_an_error_for_what_is_new_only() {
    let sandbox = Sandbox::new();
    let gone = guarded(&sandbox);
    let url = gone.url("/v1/mcp");
    gone.die();
    let untouched = stamp(&sandbox);
    let front = append(&sandbox, &url, &[]);
    let client = front.greet("{}");
    client.post(&echo("2", "two")).fails(200, -31004);
    said(&client, "3", "one");
    let ended = front.end(3);
    assert!(
        ended.stderr.contains("tools/call \"echo\": the live server cannot be reached"),
        "{}",
        ended.stderr
    );
    assert!(stamp(&sandbox) == untouched);
    assert_eq!(sandbox.of_cassette("c.json"), ["c.json"]);
}

#[test]
fn a_live_session_that_was_lost_is_begun_anew() {
    let sandbox = Sandbox::new();
    guarded(&sandbox);
    let forgetful = Upstream::start(|request, socket| {
        let message: serde_json::Value = serde_json::from_slice(&request.body).unwrap_or_default();
        let session = "Content-Type: application/json\r\nMcp-Session-Id: s\r\n";
        let bytes = match message["params"]["arguments"]["text"].as_str() {
            Some("lost") => answer("404 Not Found", "", ""),
            Some("cut") => {
                let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
                [&head[..], &chunk(b": no more\n\n")].concat()
            }
            _ if message.get("id").is_none() => answer("202 Accepted", "", ""),
            _ => answer(
                "200 OK",
                session,
                &result(&message["id"].to_string(), r#"{"protocolVersion":"2025-11-25"}"#),
            ),
        };
        socket.write_all(&bytes).is_ok() && !request.text().contains("\"cut\"")
    });
    let front = append(&sandbox, &forgetful.url("/mcp"), &[]);
    let client = front.greet("{}");
    client.post(&echo("1", "a")).expect(200);
    client.post(&echo("2", "lost")).fails(200, -31004);
    client.post(&echo("3", "b")).expect(200);
    let broken = client.post(&echo("4", "cut")).last();
    assert!(broken.contains("-31004") && broken.contains("broke off"), "{broken}");
    let greetings =
        forgetful.received.try_iter().filter(|request| request.text().contains("\"initialize\"")).count();
    assert_eq!(greetings, 2);
    front.end(3);
}

#[test]
fn a_killed_run_keeps_what_it_appended_and_a_signal_takes_no_time() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| said(&server.greet("{}"), "1", "one"));
    let server = demo(&sandbox);
    let front = append(&sandbox, &url(&server), &[]);
    let client = front.greet("{}");
    said(&client, "2", "two");
    in_segment(&sandbox, "two", 2);
    front.end_by(9, 137);
    // The next one finds it, and answers it from the cassette.
    let front = append(&sandbox, &url(&server), &[]);
    said(&front.greet("{}"), "1", "two");
    // A call is still running when the end comes.
    let client = front.greet("{}");
    said(&client, "1", "three");
    let _listen = client.get();
    let slow = call("2", "slow", r#"{"ms":60000,"tag":"x"}"#);
    std::thread::scope(|scope| {
        let open = scope.spawn(|| client.post(&slow));
        in_segment(&sandbox, "60000", 1);
        front.signal(15);
        assert_eq!(open.join().unwrap().status, 503);
    });
    front.exits(0);
    server.end(0);
    let replay = sandbox.replay_http(&[]);
    let client = replay.greet("{}");
    for text in ["one", "two", "three"] {
        said(&client, "1", text);
    }
    replay.end(0);
}

#[test]
fn options_of_http_count_without_a_cassette_too_and_only_with_a_url() {
    let sandbox = Sandbox::new();
    let server = demo(&sandbox);
    let front = sandbox.listen([
        "serve",
        "c.json",
        "--new-episodes",
        "--url",
        &url(&server),
        "--max-body",
        "1000",
        "--sse",
        "faithful",
    ]);
    let client = front.greet("{}");
    client.post(&echo("1", &"x".repeat(1000))).expect(413);
    said(&client, "2", "short");
    let stderr = front.end(0).stderr;
    for line in [
        "mcpreel: a message was refused with status 413: the request body is too large\n",
        "mcpreel: --sse faithful is for what is replayed: now all streams go as they come\n",
    ] {
        assert_eq!(stderr.matches(line).count(), 1, "{stderr}");
    }
    server.end(0);
    for (option, value) in [("--max-body", "1000"), ("--sse", "faithful")] {
        let run = sandbox.mcpreel(["serve", "n.json", "--new-episodes", option, value, "--", "cat"]);
        assert_eq!(run.run().expect(2).stderr(), format!("mcpreel: {option} goes with --url only\n"));
    }
}

#[test]
fn without_a_cassette_a_url_is_recorded() {
    let sandbox = Sandbox::new();
    let server = demo(&sandbox);
    for text in ["one", "two"] {
        let front =
            sandbox.listen(["serve", "c.json", "--new-episodes", "--server", "demo", "--url", &url(&server)]);
        said(&front.greet("{}"), "1", text);
        front.end(0);
    }
    server.end(0);
    assert_eq!(appended(&sandbox), ["2 initialize", "2 notifications/initialized", "2 tools/call two"]);
    let refused = sandbox
        .mcpreel(["use", "--cassette", "c.json", "--server", "demo", "--mode", "new_episodes", "--", "x"])
        .run()
        .expect(2)
        .stderr();
    assert!(
        refused.contains("server demo was recorded over HTTP, and what is new has to come the same way"),
        "{refused}"
    );
}
