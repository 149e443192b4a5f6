//! Where a replay over HTTP answers, and where it sends its clients: to itself.

use super::support::replay::{OFFERED, call, request, result, said};
use super::support::web::{Endpoint, POST, Record, bare, c, s};
use super::support::{Sandbox, initialize};

fn greeting(id: &str) -> String {
    result(
        id,
        &format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{OFFERED},"serverInfo":{{"name":"demo","version":"1"}}}}"#
        ),
    )
}

fn plain() -> Vec<Record> {
    vec![
        c(1, initialize("{}")),
        s(1, greeting("0")).status(200),
        c(2, call("1", "echo", "{}")),
        s(2, said("1", "echoed")).status(200),
    ]
}

/// Posts as clients do that follow redirects, and gives the answer with the paths that it was led to.
#[track_caller]
fn follow(server: &Endpoint, body: &str) -> (String, Vec<String>) {
    let (mut path, mut led) = (server.path.clone(), Vec::new());
    loop {
        let answer = server.ask("POST", &path, &POST, body);
        let Some(location) = answer.header("location") else { return (answer.expect(200).body, led) };
        assert!(matches!(answer.status, 307 | 308), "{}", answer.head);
        assert!(led.len() < 5, "{led:?}");
        location.clone_into(&mut path);
        led.push(path.clone());
    }
}

#[test]
fn the_path_is_the_recorded_one_and_the_usual_one() {
    let sandbox = Sandbox::new();
    for (url, path) in [
        ("https://mcp.example.com/mcp", "/mcp"),
        ("https://mcp.example.com/api/v1/mcp/", "/api/v1/mcp/"),
        ("https://mcp.example.com", "/"),
        ("https://mcp.example.com/a%20b/mcp?key=REDACTED", "/a%20b/mcp"),
        ("https://mcp.example.com/sse", "/sse"),
    ] {
        let server = sandbox.play_recorded_at(url, &plain(), &["--ordering", "any"]);
        assert_eq!(server.path, path);
        for path in [path, "/mcp"] {
            let answer = server.ask("POST", path, &POST, &call("7", "echo", "{}")).expect(200);
            assert_eq!(answer.body, said("7", "echoed"), "{url} {path}");
        }
        server.ask("GET", path, &[("Accept", "text/event-stream")], "").expect(405);
        server.end(0);
    }
}

#[test]
fn use_replays_where_it_recorded() {
    let sandbox = Sandbox::new();
    sandbox.http_cassette_at("http://127.0.0.1:9/api/v1/mcp/", &plain());
    let arguments =
        ["use", "--cassette", "c.json", "--server", "demo", "--url", "http://127.0.0.1:9/api/v1/mcp/"];
    let server = sandbox.listen(arguments);
    assert_eq!(server.path, "/api/v1/mcp/");
    assert_eq!(server.post(&call("7", "echo", "{}"), &[]).expect(200).body, said("7", "echoed"));
    server.end(0);
}

#[test]
fn r056_the_old_transport_is_where_it_was() {
    let sandbox = Sandbox::new();
    let mut opened = c(1, "").http(r#"{"method":"GET"}"#);
    opened.drop_payload();
    let records = [
        opened,
        bare(1).on(1).get().http(r#"{"status":200,"type":"sse"}"#),
        c(2, initialize("{}")).on(1),
        bare(2).on(1).http(r#"{"status":202}"#),
        s(1, greeting("0")).on(1).get(),
        c(3, call("1", "echo", "{}")).on(1),
        bare(3).on(1).http(r#"{"status":202}"#),
        s(1, said("1", "echoed")).on(1).get(),
    ];
    let server = sandbox.play_recorded_at("https://mcp.example.com/v1/events", &records, &[]);
    assert_eq!(server.path, "/v1/events");
    for path in ["/v1/events", "/sse"] {
        let mut stream = server.open("GET", path, &[("Accept", "text/event-stream")], "");
        let post = stream.next().unwrap();
        server.ask("POST", &post, &POST, &initialize("{}")).expect(202);
        assert_eq!(stream.next().unwrap(), greeting("0"));
        stream.close();
    }
    // A client of both transports tries this first, as it did then.
    let tried = server.ask("POST", "/v1/events", &POST, &initialize("{}")).expect(405);
    assert_eq!(tried.header("allow"), Some("GET, POST, DELETE"));
    let answer = server.ask("POST", "/mcp", &POST, &initialize("{}")).expect(200);
    let session = answer.header("mcp-session-id").unwrap().to_owned();
    let fields = [POST.to_vec(), vec![("Mcp-Session-Id", session.as_str())]].concat();
    let answer = server.ask("POST", "/mcp", &fields, &call("7", "echo", "{}")).expect(200);
    assert_eq!(answer.body, said("7", "echoed"));
    server.end(0);
}

/// The same said at the endpoint, which leads elsewhere, and at the other path.
fn led(status: u16, location: &str) -> Vec<Record> {
    let lead =
        |exchange: u32| bare(exchange).http(&format!(r#"{{"status":{status},"location":"{location}"}}"#));
    let there = r#"{"path":"/mcp/"}"#;
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    vec![
        c(1, initialize("{}")),
        lead(1),
        c(2, initialize("{}")).http(there),
        s(2, greeting("0")).on(1).status(200),
        c(3, initialized).on(1),
        lead(3).on(1),
        c(4, initialized).on(1).http(there),
        bare(4).on(1).http(r#"{"status":202}"#),
        s(5, changed).on(1).get(),
        c(6, call("1", "echo", "{}")).on(1),
        lead(6).on(1),
        c(7, call("1", "echo", "{}")).on(1).http(there),
        s(7, said("1", "echoed")).on(1).status(200),
    ]
}

#[test]
fn a_redirect_leads_to_the_replay_itself() {
    let sandbox = Sandbox::new();
    for (status, location) in [
        (307, "https://mcp.example.com/mcp/"),
        (308, "https://MCP.example.com:443/mcp/"),
        (307, "//mcp.example.com/mcp/"),
        (307, "/mcp/"),
        (307, "mcp/"),
    ] {
        let server = sandbox.play_recorded_http(&led(status, location), &[]);
        let (answer, path) = follow(&server, &initialize("{}"));
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        // Relative to the folder of the endpoint.
        assert_eq!((answer, path), (greeting("0"), vec!["/mcp/"]), "{location}");
        server.end(0);
    }
}

#[test]
fn r073_each_client_that_is_led_gets_its_own_session() {
    let sandbox = Sandbox::new();
    let mut records = led(307, "/mcp/");
    let lead = || bare(8).http(r#"{"status":307,"location":"/mcp/"}"#);
    records.extend([
        c(8, initialize("{}")),
        lead(),
        c(9, initialize("{}")).http(r#"{"path":"/mcp/"}"#),
        s(9, greeting("0")).on(2).status(200),
        c(10, call("1", "count", "{}")).on(1).http(r#"{"path":"/mcp/"}"#),
        s(10, said("1", "first")).on(1).status(200),
        c(11, call("1", "count", "{}")).on(2).http(r#"{"path":"/mcp/"}"#),
        s(11, said("1", "second")).on(2).status(200),
    ]);
    let server = sandbox.play_recorded_http(&records, &[]);
    let greet = || {
        let first = server.ask("POST", "/mcp", &POST, &initialize("{}")).expect(307);
        assert_eq!(first.header("mcp-session-id"), None);
        let then = server.ask("POST", "/mcp/", &POST, &initialize("{}")).expect(200);
        then.header("mcp-session-id").unwrap().to_owned()
    };
    let sessions = [greet(), greet()];
    for (session, text) in sessions.iter().zip(["first", "second"]).rev() {
        let fields = [POST.to_vec(), vec![("Mcp-Session-Id", session.as_str())]].concat();
        let answer = server.ask("POST", "/mcp/", &fields, &call("1", "count", "{}")).expect(200);
        assert_eq!(answer.body, said("1", text));
    }
    // What the client said twice was said once: what followed it comes.
    let fields = [("Mcp-Session-Id", sessions[0].as_str()), ("Accept", "text/event-stream")];
    let mut stream = server.open("GET", "/mcp", &fields, "");
    let fields = [POST.to_vec(), vec![("Mcp-Session-Id", sessions[0].as_str())]].concat();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    server.ask("POST", "/mcp", &fields, initialized).expect(202);
    assert!(stream.next().unwrap().contains("list_changed"));
    server.end(0);
}

#[test]
fn who_cannot_be_led_is_there_already() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&led(307, "/mcp/"), &["--ordering", "any"]);
    let (answer, path) = follow(&server, &initialize("{}"));
    assert_eq!((answer, path), (greeting("0"), vec![]));
    server.end(0);
    let mut client = sandbox.serve(&["--stdio", "--require-all-used"]);
    client.expect(&initialize("{}"), &greeting("0"));
    client.expect(&call("7", "echo", "{}"), &said("7", "echoed"));
    client.close(0);
}

#[test]
fn a_redirect_to_another_server_is_not_served() {
    let sandbox = Sandbox::new();
    for location in
        ["https://other.example.com/mcp", "//evil.example", "http://mcp.example.com/mcp/", "mailto:x"]
    {
        // What stands behind it stands in.
        let server = sandbox.play_recorded_http(&led(307, location), &[]);
        assert_eq!(follow(&server, &initialize("{}")), (greeting("0"), vec![]), "{location}");
        server.end(0);
        // Nothing does: a miss, also where an answer could be made up.
        let http = format!(r#"{{"status":307,"location":"{location}"}}"#);
        let level = request("1", "logging/setLevel", r#"{"level":"info"}"#);
        let records = [c(1, level.clone()), bare(1).http(&http)];
        let server = sandbox.play_recorded_http(&records, &[]);
        let answer = server.post(&level, &[]).fails(200, -31002);
        assert!(answer.body.contains("another server") && !answer.head.contains("ocation"), "{answer:?}");
        assert!(server.end(3).stderr.contains("another server"));
    }
}

#[test]
fn no_served_field_names_the_recorded_server() {
    let sandbox = Sandbox::new();
    let made = |location: &str| {
        let http =
            format!(r#"{{"status":503,"type":"text/plain","location":"{location}","retry-after":"3"}}"#);
        vec![c(1, call("1", "make", "{}")), bare(1).http(&http).body("text", "later")]
    };
    for (location, served) in [
        ("https://mcp.example.com/jobs/1?a=b#c", Some("/jobs/1?a=b")),
        ("https://other.example.com/jobs/1", None),
    ] {
        let server = sandbox.play_recorded_http(&made(location), &[]);
        let answer = server.post(&call("1", "make", "{}"), &[]).expect(503);
        assert_eq!((answer.header("location"), answer.header("retry-after")), (served, Some("3")));
        server.end(0);
    }
}
