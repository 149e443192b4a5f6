//! Replay to legacy clients over HTTP: sessions, standalone streams, questions, and both transports for one cassette.

use super::support::replay::{
    self, INITIALIZED, OFFERED, call, call_with_progress, cancelled, error, notification, progress, request,
    result, said,
};
use super::support::web::{Endpoint, Record, c, s};
use super::support::{LONG, Sandbox, eventually, initialize};

fn greeting() -> String {
    result(
        "0",
        &format!(
            r#"{{"protocolVersion":"2025-11-25","capabilities":{OFFERED},"serverInfo":{{"name":"demo","version":"1"}}}}"#
        ),
    )
}

/// The handshake of a session; the first record does not know its session yet.
fn opened(session: u32, first: u32) -> Vec<Record> {
    vec![
        c(first, initialize("{}")),
        s(first, greeting()).on(session).sse(),
        c(first + 1, INITIALIZED).on(session),
        super::support::web::bare(first + 1).on(session).http(r#"{"status":202}"#),
    ]
}

fn with(more: impl IntoIterator<Item = Record>) -> Vec<Record> {
    let mut records = opened(1, 1);
    records.extend(more.into_iter().map(|record| record.on(1)));
    records
}

#[track_caller]
fn listening(sandbox: &Sandbox, more: impl IntoIterator<Item = Record>) -> Endpoint {
    sandbox.play_recorded_http(&with(more), &[])
}

#[test]
fn r073_fresh_session_ids() {
    let sandbox = Sandbox::new();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let server = listening(&sandbox, []);
        for _ in 0..2 {
            seen.push(server.greet("{}").session.unwrap());
        }
        server.end(0);
    }
    for (at, id) in seen.iter().enumerate() {
        assert!(id.len() >= 32 && id.bytes().all(|byte| byte.is_ascii_graphic()), "{id}");
        assert!(!seen[..at].contains(id));
    }
}

#[test]
fn r074_sessions_that_are_not_there() {
    let sandbox = Sandbox::new();
    let server = listening(
        &sandbox,
        [c(3, request("1", "tools/list", "{}")), s(3, result("1", r#"{"tools":[]}"#)).status(200)],
    );
    let list = request("1", "tools/list", "{}");
    server.post(&list, &[]).expect(400);
    server.post(&list, &[("Mcp-Session-Id", "made-up")]).expect(404);
    let client = server.greet("{}");
    assert_eq!(client.post(&list).expect(200).body, result("1", r#"{"tools":[]}"#));
    client.delete().expect(200);
    client.post(&list).expect(404);
    client.get().whole().expect(404);
    client.delete().expect(404);
    let again = server.greet("{}");
    assert_eq!(again.post(&list).expect(200).body, result("1", r#"{"tools":[]}"#));
    drop((client, again));
    server.end(0);
}

#[test]
fn r075_one_standalone_stream() {
    let sandbox = Sandbox::new();
    let changed = notification("tools/list_changed", "{}");
    let server = listening(
        &sandbox,
        [c(4, call("1", "grow", "{}")), s(3, changed.clone()).get(), s(4, said("1", "grown")).status(200)],
    );
    let client = server.greet("{}");
    let mut first = client.get();
    assert_eq!(first.status, 200);
    client.get().whole().expect(409);
    // R-98: it comes once the call is answered, on its own stream.
    assert_eq!(client.post(&call("1", "grow", "{}")).expect(200).body, said("1", "grown"));
    assert_eq!(first.next().unwrap(), changed);
    first.close();
    // Who comes back gets a stream again.
    eventually("the stream is free", || client.get().status == 200);
    drop(client);
    server.end(0);
}

#[test]
fn what_comes_before_the_stream_waits_for_it() {
    let sandbox = Sandbox::new();
    let changed = notification("tools/list_changed", "{}");
    let server = listening(
        &sandbox,
        [c(4, call("1", "grow", "{}")), s(4, said("1", "grown")).status(200), s(3, changed.clone()).get()],
    );
    let client = server.greet("{}");
    client.post(&call("1", "grow", "{}")).expect(200);
    let mut stream = client.get();
    assert_eq!(stream.next().unwrap(), changed);
    client.delete().expect(200);
    assert_eq!(stream.next(), None);
    drop(client);
    server.end(0);
}

#[test]
fn a_server_without_sessions_stays_one() {
    let sandbox = Sandbox::new();
    let records = [
        c(1, initialize("{}")),
        s(1, greeting()).status(200),
        c(2, INITIALIZED),
        super::support::web::bare(2).http(r#"{"status":202}"#),
        c(3, call("1", "echo", "{}")),
        s(3, said("1", "echoed")).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    let client = server.greet("{}");
    assert_eq!(client.session, None);
    client.get().whole().expect(405);
    client.delete().expect(405);
    assert_eq!(client.post(&call("1", "echo", "{}")).expect(200).body, said("1", "echoed"));
    drop(client);
    server.end(0);
}

#[test]
fn a_ping_takes_no_other_client_s_answer() {
    let sandbox = Sandbox::new();
    // Clients of a server without sessions are told apart by nothing, and their ids repeat.
    let records = [
        c(1, call("1", "slow", "{}")),
        c(2, request("1", "ping", "{}")),
        s(2, result("1", "{}")).status(200),
        s(1, said("1", "slept")).status(200),
    ];
    let server = sandbox.play_recorded_http(&records, &[]);
    assert_eq!(server.post(&call("7", "slow", "{}"), &[]).expect(200).body, said("7", "slept"));
    assert_eq!(server.end(0).stderr.matches("of the recording").count(), 0);
}

#[test]
fn sessions_stand_for_the_recorded_ones_in_order() {
    let sandbox = Sandbox::new();
    let mut records = opened(1, 1);
    records.extend(opened(2, 3));
    for (session, exchange) in [(1, 5), (2, 6)] {
        let text = format!("of session {session}");
        records.push(c(exchange, call("1", "count", "{}")).on(session));
        records.push(s(exchange, said("1", &text)).on(session).status(200));
    }
    let server = sandbox.play_recorded_http(&records, &[]);
    let (first, second) = (server.greet("{}"), server.greet("{}"));
    let count = call("1", "count", "{}");
    assert_eq!(second.post(&count).expect(200).body, said("1", "of session 2"));
    assert_eq!(first.post(&count).expect(200).body, said("1", "of session 1"));
    drop((first, second));
    server.end(0);
}

#[test]
fn r045_a_repeat_is_the_answer_of_its_own_session() {
    let sandbox = Sandbox::new();
    let list = |id: &str| request(id, "tools/list", "{}");
    let listed = |id: &str, name: &str| result(id, &format!(r#"{{"tools":[{{"name":"{name}"}}]}}"#));
    let mut records = opened(1, 1);
    records.extend(opened(2, 3));
    records.extend([
        c(5, list("1")).on(1),
        s(5, listed("1", "first")).on(1).status(200),
        c(6, list("1")).on(2),
        s(6, listed("1", "second")).on(2).status(200),
    ]);
    let server = sandbox.play_recorded_http(&records, &[]);
    let (first, second) = (server.greet("{}"), server.greet("{}"));
    for id in ["7", "8", "9"] {
        for (client, name) in [(&first, "first"), (&second, "second")] {
            assert_eq!(client.post(&list(id)).expect(200).body, listed(id, name));
        }
    }
    drop((first, second));
    server.end(0);
}

#[test]
fn r082_r083_r086_questions_on_the_stream_of_the_call() {
    let sandbox = Sandbox::new();
    let ask = |id: &str, text: &str| {
        request(
            id,
            "elicitation/create",
            &format!(r#"{{"message":"{text}","requestedSchema":{{"type":"object","properties":{{}}}}}}"#),
        )
    };
    let decline = |id: &str| result(id, r#"{"action":"decline"}"#);
    let server = listening(
        &sandbox,
        [
            c(3, call("1", "ask", "{}")),
            s(3, ask("0", "one")).sse(),
            s(3, ask("1", "two")),
            c(4, decline("0")),
            c(5, decline("1")),
            s(3, said("1", "declined")),
        ],
    );
    let client = server.greet(r#"{"elicitation":{}}"#);
    let mut stream = client.stream(&call("\"c\"", "ask", "{}"));
    assert_eq!(stream.next().unwrap(), ask("0", "one"));
    assert_eq!(stream.next().unwrap(), ask("1", "two"));
    client.post(&decline("1")).expect(202);
    // R-88
    assert_eq!(client.post(&request("5", "ping", "{}")).expect(200).body, result("5", "{}"));
    client.post(&decline("0")).expect(202);
    assert_eq!(stream.next().unwrap(), said("\"c\"", "declined"));
    assert_eq!(stream.next(), None);
    drop(client);
    server.end(0);
}

#[test]
fn a_question_on_the_standalone_stream() {
    let sandbox = Sandbox::new();
    let sampling = request("0", "sampling/createMessage", r#"{"messages":[],"maxTokens":1}"#);
    let sampled = result("0", r#"{"role":"assistant","content":{"type":"text","text":"x"},"model":"m"}"#);
    let server = listening(
        &sandbox,
        [
            c(4, call("1", "sample", "{}")),
            s(3, sampling.clone()).get(),
            c(5, sampled.clone()),
            s(4, said("1", "sampled")).status(200),
        ],
    );
    let client = server.greet(r#"{"sampling":{}}"#);
    let mut stream = client.get();
    let mut answer = None;
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| client.post(&call("1", "sample", "{}")));
        assert_eq!(stream.next().unwrap(), sampling);
        client.post(&sampled).expect(202);
        answer = Some(waiting.join().unwrap());
    });
    assert_eq!(answer.unwrap().expect(200).body, said("1", "sampled"));
    drop(client);
    server.end(0);
}

#[test]
fn r085_who_cannot_be_asked_is_not() {
    let sandbox = Sandbox::new();
    let server = listening(
        &sandbox,
        [
            c(3, call("1", "roots", "{}")),
            s(3, request("0", "roots/list", "{}")).sse(),
            c(4, result("0", r#"{"roots":[]}"#)),
            s(3, said("1", "rooted")),
        ],
    );
    let client = server.greet("{}");
    assert_eq!(client.post(&call("1", "roots", "{}")).expect(200).events(), [said("1", "rooted")]);
    drop(client);
    server.end(0);
}

#[test]
fn r089_a_cancelled_call_gets_no_answer() {
    let sandbox = Sandbox::new();
    let server = listening(
        &sandbox,
        [
            c(3, call_with_progress("1", "slow", "1")),
            s(3, progress("1", 1)).sse(),
            c(4, cancelled("1")),
            c(5, call("2", "echo", "{}")),
            s(5, said("2", "echoed")).status(200),
        ],
    );
    let client = server.greet("{}");
    let mut stream = client.stream(&call_with_progress("\"s\"", "slow", "2"));
    assert_eq!(stream.next().unwrap(), progress("2", 1));
    client.post(&cancelled("\"s\"")).expect(202);
    assert_eq!(stream.next(), None);
    assert!(client.post(&call("2", "echo", "{}")).expect(200).body.contains("echoed"));
    drop(client);
    server.end(0);
}

#[test]
fn leaving_is_not_cancelling() {
    let sandbox = Sandbox::new();
    let ask = request("0", "roots/list", "{}");
    let changed = notification("tools/list_changed", "{}");
    let server = listening(
        &sandbox,
        [
            c(4, call("1", "roots", "{}")),
            s(4, ask.clone()).sse(),
            c(5, result("0", r#"{"roots":[]}"#)),
            s(4, said("1", "rooted")),
            s(3, changed.clone()).get(),
        ],
    );
    let client = server.greet(r#"{"roots":{}}"#);
    let mut standalone = client.get();
    let mut stream = client.stream(&call("1", "roots", "{}"));
    assert_eq!(stream.next().unwrap(), ask);
    stream.close();
    client.post(&result("0", r#"{"roots":[]}"#)).expect(202);
    // The call went on to its end without its client: what followed it comes.
    assert_eq!(standalone.next().unwrap(), changed);
    drop(client);
    server.end(0);
}

#[test]
fn r080_recorded_errors_without_a_message_or_an_id() {
    let sandbox = Sandbox::new();
    let gone = r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#;
    let server = listening(
        &sandbox,
        [
            c(3, call("1", "a", "{}")),
            s(3, gone).status(404),
            c(4, call("2", "b", "{}")),
            s(4, error("2", -32603, "oops")).status(500),
        ],
    );
    let client = server.greet("{}");
    assert_eq!(client.post(&call("8", "a", "{}")).expect(404).body, gone);
    client.post(&call("9", "b", "{}")).fails(500, -32603);
    drop(client);
    server.end(0);
}

#[test]
fn r056_old_clients_over_two_endpoints() {
    let sandbox = Sandbox::new();
    let records = replay::handshake().into_iter().chain(replay::answered("1", "echo", "{}", "echoed"));
    let server = sandbox.play_http(&records.collect::<Vec<_>>(), &[]);
    let mut stream = server.open("GET", "/sse", &[("Accept", "text/event-stream")], "");
    let post = stream.next().unwrap();
    assert!(post.starts_with("/messages?session_id="), "{post}");
    let json = [("Content-Type", "application/json")];
    server.ask("POST", &post, &json, &initialize("{}")).expect(202);
    assert_eq!(stream.next().unwrap(), greeting());
    server.ask("POST", &post, &json, INITIALIZED).expect(202);
    server.ask("POST", &post, &json, &call("\"x\"", "echo", "{}")).expect(202);
    assert_eq!(stream.next().unwrap(), said("\"x\"", "echoed"));
    server.ask("POST", "/messages", &json, INITIALIZED).expect(400);
    server.ask("POST", "/messages?session_id=0", &json, INITIALIZED).expect(404);
    stream.close();
    eventually("the session has ended", || server.ask("POST", &post, &json, INITIALIZED).status == 404);
    server.end(0);
}

#[test]
fn r055_what_was_recorded_on_a_pipe_over_http() {
    let sandbox = Sandbox::new();
    let large = "x".repeat(2 << 20);
    let mut records = replay::handshake();
    records.extend(replay::answered("1", "echo", "{}", "echoed"));
    records.extend([
        replay::c(call_with_progress("2", "steps", "1")),
        replay::s(progress("1", 1)),
        replay::s(said("2", "stepped")),
        replay::c(call_with_progress("3", "large", "1")),
        replay::s(progress("1", 1)),
        replay::s(said("3", &large)),
    ]);
    let server = sandbox.play_http(&records, &[]);
    let client = server.greet("{}");
    assert!(client.session.is_some());
    let plain = client.post(&call("1", "echo", "{}")).expect(200);
    assert_eq!(plain.header("content-type"), Some("application/json"));
    assert_eq!(plain.body, said("1", "echoed"));
    let streamed = client.post(&call_with_progress("2", "steps", "\"t\"")).expect(200);
    assert_eq!(streamed.events(), [progress("\"t\"", 1), said("2", "stepped")]);
    let answer = client.post(&call_with_progress("3", "large", "\"t\"")).expect(200);
    assert_eq!(answer.header("content-type"), Some("application/json"));
    assert_eq!(answer.body, said("3", &large));
    drop(client);
    assert!(server.end(0).stderr.contains("1 MiB"));
}

#[test]
fn r055_what_was_recorded_over_http_on_a_pipe() {
    let sandbox = Sandbox::new();
    sandbox.http_cassette(&with([
        c(3, call_with_progress("1", "steps", "1")),
        s(3, progress("1", 1)).sse(),
        c(4, call("2", "echo", "{}")),
        s(4, said("2", "echoed")).status(200),
        s(3, progress("1", 2)),
        s(3, said("1", "stepped")),
    ]));
    let mut client = sandbox.serve(&["--stdio"]);
    assert_eq!(client.greet("{}"), greeting());
    client.send(&call_with_progress("1", "steps", "9"));
    client.gets(&[progress("9", 1), progress("9", 2), said("1", "stepped")]);
    client.expect(&call("2", "echo", "{}"), &said("2", "echoed"));
    client.close(0);
}

#[test]
fn r019_batches() {
    let sandbox = Sandbox::new();
    let records = replay::handshake()
        .into_iter()
        .chain(replay::answered("1", "a", "{}", "one"))
        .chain(replay::answered("2", "b", "{}", "two"));
    let server = sandbox.play_http(&records.collect::<Vec<_>>(), &[]);
    let client = server.greet("{}");
    let batch = format!("[{},{}]", call("1", "a", "{}"), call("2", "b", "{}"));
    assert_eq!(client.post(&batch).expect(200).body, format!("[{},{}]", said("1", "one"), said("2", "two")));
    client.post(&format!("[{INITIALIZED}]")).expect(202);
    client.post("[]").expect(400);
    drop(client);
    server.end(0);
}

#[test]
fn r081_r074_what_a_get_must_accept() {
    let sandbox = Sandbox::new();
    let server = listening(&sandbox, []);
    server.ask("GET", &server.path, &[("Accept", "application/json")], "").expect(406);
    server.get(&[]).whole().expect(400);
    server.get(&[("Mcp-Session-Id", "made-up")]).whole().expect(404);
    server.ask("GET", "/elsewhere", &[], "").expect(404);
    server.end(0);
}

#[test]
fn the_recorded_end_of_a_server_ends_its_session() {
    let sandbox = Sandbox::new();
    let head = r#""processes":[{"server":"demo","exit":{"code":3},"ended":"server_exited"}],"#;
    let mut records = replay::handshake();
    records.push(replay::c(call("1", "crash", "{}")));
    sandbox.tape_with(head, &records);
    let server = sandbox.listen(["serve", "c.json", "--listen", "127.0.0.1:0"]);
    let client = server.greet("{}");
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        client.stream(&call("1", "crash", "{}")).whole()
    }));
    assert!(died.is_err());
    client.post(&request("2", "ping", "{}")).expect(404);
    drop(client);
    server.end(0);
}

#[test]
fn r048_misses_are_counted_at_a_signal() {
    let sandbox = Sandbox::new();
    for signal in [1, 2, 15] {
        let server = listening(&sandbox, []);
        let client = server.greet("{}");
        client.post(&call("1", "nothing", "{}")).fails(200, -31001);
        drop(client);
        let begun = std::time::Instant::now();
        server.end_by(signal, 3);
        assert!(begun.elapsed() < LONG / 4);
    }
}

#[test]
fn options_that_do_not_fit() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &replay::handshake());
    for options in [
        &["--stdio", "--listen", "127.0.0.1:0"][..],
        &["--ready-file", "ready"],
        &["--listen", "nowhere.example:1"],
        &["--listen", "127.0.0.1:0", "--allow-host", "a/b"],
    ] {
        sandbox.mcpreel(["serve", "c.json"].iter().chain(options)).run().expect(2);
    }
}

#[test]
fn r076_streams_that_break_off_and_go_on() {
    let sandbox = Sandbox::new();
    let event = |n: u32| format!(r#"{{"event":{n}}}"#);
    let records = || {
        let mut primed = s(3, "").http(r#"{"status":200,"type":"sse","event":1,"retry":40}"#);
        primed.drop_payload();
        let mut back = c(3, "").http(r#"{"method":"GET","last-event-id":2}"#);
        back.drop_payload();
        with([
            c(3, call_with_progress("1", "steps", "1")),
            primed,
            s(3, progress("1", 1)).http(&event(2)),
            back,
            s(3, progress("1", 2)).http(r#"{"status":200,"type":"sse","event":3}"#),
            s(3, said("1", "stepped")).http(&event(4)),
        ])
    };
    let steps = call_with_progress("\"s\"", "steps", "7");
    let server = sandbox.play_recorded_http(&records(), &["--sse", "faithful"]);
    let client = server.greet("{}");
    let first = client.post(&steps).expect(200);
    assert!(
        first.body.starts_with("id: ") && first.body.contains("\nretry: 40\ndata: \n\n"),
        "{}",
        first.body
    );
    assert_eq!(first.events().last(), Some(&progress("7", 1)));
    let last = first.body.lines().filter_map(|line| line.strip_prefix("id: ")).next_back().unwrap();
    let rest = client.get_after(last).whole().expect(200);
    assert_eq!(rest.events(), [progress("7", 2), said("\"s\"", "stepped")]);
    // Whoever lost that, too, gets it again.
    assert_eq!(client.get_after(last).whole().expect(200).events().len(), 2);
    client.get_after("nothing").whole().expect(400);
    let other = server.greet("{}");
    other.get_after(last).whole().expect(400);
    drop((client, other));
    server.end(0);
    // Unless told, the whole comes on the first stream.
    let server = sandbox.play_recorded_http(&records(), &[]);
    let client = server.greet("{}");
    let whole = client.post(&steps).expect(200);
    assert!(!whole.body.contains("id: "), "{}", whole.body);
    assert_eq!(whole.events(), [progress("7", 1), progress("7", 2), said("\"s\"", "stepped")]);
    drop(client);
    server.end(0);
}

#[test]
fn r076_a_primed_answer_to_initialize_names_the_session_in_its_head() {
    let sandbox = Sandbox::new();
    let mut primed = s(1, "").http(r#"{"status":200,"type":"sse","event":1,"retry":500}"#).on(1);
    primed.drop_payload();
    let mut records = vec![c(1, initialize("{}")), primed, s(1, greeting()).http(r#"{"event":2}"#).on(1)];
    records.push(c(2, INITIALIZED).on(1));
    records.push(super::support::web::bare(2).on(1).http(r#"{"status":202}"#));
    let server = sandbox.play_recorded_http(&records, &["--sse", "faithful"]);
    let client = server.greet("{}");
    assert!(client.session.is_some());
    drop(client);
    server.end(0);
}

#[test]
fn r073_a_stream_that_begins_before_its_answer_names_the_session() {
    let sandbox = Sandbox::new();
    sandbox.http_cassette(&with([c(3, call("1", "echo", "{}")), s(3, said("1", "echoed")).sse()]));
    let paced =
        sandbox.read("c.json").replace("\"messages\":", "\"timing_ms\":[0,80,90,90,100,110],\"messages\":");
    sandbox.file("c.json", paced);
    let server = sandbox.listen(["serve", "c.json", "--pace", "recorded"]);
    let client = server.greet("{}");
    assert!(client.session.is_some());
    assert_eq!(client.post(&call("7", "echo", "{}")).expect(200).events(), [said("7", "echoed")]);
    assert_eq!(client.delete().expect(200).status, 200);
    client.post(&call("8", "echo", "{}")).expect(404);
    drop(client);
    server.end(0);
}
