//! Sessions with the demo server that were recorded over HTTP and are replayed over HTTP, in both eras: what a live client
//! gets of messages that are not plain answers.

use super::support::replay::{INITIALIZED, call, notification, request, result, said};
use super::support::web::{Answer, Endpoint, Legacy, Record, Stream, c, s};
use super::support::{Sandbox, initialize, modern};

fn tool(id: &str, name: &str, arguments: &str, capabilities: &str) -> String {
    modern(id, "tools/call", &format!("\"name\":\"{name}\",\"arguments\":{arguments}"), capabilities)
}

fn value(text: &str) -> serde_json::Value {
    serde_json::from_str(text).unwrap()
}

/// The text that a tool said in an answer.
#[track_caller]
fn text(answer: &str) -> String {
    value(answer)["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[track_caller]
fn pong(client: &Legacy<'_>, id: &str) {
    let answer = client.post(&request(id, "ping", "{}")).expect(200);
    assert_eq!(value(&answer.last()), value(&result(id, "{}")));
}

#[test]
fn r088_a_ping_is_answered_at_any_time() {
    let sandbox = Sandbox::new();
    let session = |server: &Endpoint| {
        let answer = server.post(&initialize(r#"{"elicitation":{}}"#), &[]).expect(200);
        let client = Legacy { endpoint: server, session: answer.header("mcp-session-id").map(str::to_owned) };
        pong(&client, "1");
        client.post(INITIALIZED).expect(202);
        pong(&client, "1");
        let standalone = client.get();
        pong(&client, "\"1\"");
        let mut stream = client.stream(&call("1", "ask", r#"{"message":"who?"}"#));
        let question = value(&stream.next().unwrap());
        // Its id is like that of the call, and that of the question.
        pong(&client, "\"1\"");
        pong(&client, &question["id"].to_string());
        client.post(&result(&question["id"].to_string(), r#"{"action":"decline"}"#)).expect(202);
        let said = stream.next().unwrap();
        pong(&client, "1");
        standalone.close();
        pong(&client, "2");
        said
    };
    assert_eq!(text(&sandbox.twice(&["--ordering", "strict"], session)), "decline");
}

#[test]
fn r088_recorded_pings_are_neither_sent_nor_missed_nor_in_the_way() {
    let sandbox = Sandbox::new();
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"d","version":"1"}}"#;
    let changed = notification("tools/list_changed", "{}");
    let records = [
        c(1, initialize("{}")),
        s(1, result("0", greeting)).status(200),
        s(2, request("0", "ping", "{}")).get(),
        c(3, result("0", "{}")),
        c(4, call("1", "t", "{}")),
        s(4, request("1", "ping", "{}")).sse(),
        c(5, result("1", "{}")),
        s(4, said("1", "x")),
        c(6, request("2", "ping", "{}")),
        s(6, result("2", "{}")).status(200),
        s(2, changed.clone()).get(),
    ];
    let records: Vec<Record> = records.into_iter().map(|record| record.on(1)).collect();
    let server = sandbox.play_recorded_http(&records, &["--report", "r.jsonl"]);
    let client = server.greet("{}");
    let mut standalone = client.get();
    assert_eq!(client.post(&call("7", "t", "{}")).expect(200).events(), [said("7", "x")]);
    assert_eq!(standalone.next().unwrap(), changed);
    drop(client);
    server.end(0);
    let report = sandbox.read("r.jsonl");
    assert!(report.contains(r#""unused":[]"#), "{report}");
}

const INTERVIEWED: &str = r#"{"elicitation":{},"sampling":{}}"#;

/// The next round of an interview with the client `who`: the answers and the state of the round before.
#[track_caller]
fn interview(server: &Endpoint, id: &str, who: &str, before: Option<&str>) -> String {
    let more = before.map(value).map(|before| {
        let requests = before["result"]["inputRequests"].as_object().unwrap_or_else(|| panic!("{before}"));
        let (key, question) = requests.iter().next().unwrap();
        let answer = match (question["method"].as_str().unwrap(), key.as_str()) {
            // A model says something else each time.
            ("sampling/createMessage", _) => {
                format!(r#"{{"role":"assistant","content":{{"type":"text","text":"by {who}"}},"model":"m"}}"#)
            }
            (_, "right") => r#"{"action":"accept","content":{"right":true}}"#.to_owned(),
            _ => r#"{"action":"accept","content":{"name":"Ada"}}"#.to_owned(),
        };
        let state = &before["result"]["requestState"];
        format!(r#","inputResponses":{{"{key}":{answer}}},"requestState":{state}"#)
    });
    let params = format!("\"name\":\"interview\",\"arguments\":{{}}{}", more.unwrap_or_default());
    server.modern(&modern(id, "tools/call", &params, INTERVIEWED)).expect(200).last()
}

fn state(answer: &str) -> String {
    value(answer)["result"]["requestState"].as_str().unwrap_or_else(|| panic!("{answer}")).to_owned()
}

#[test]
fn r093_three_rounds_and_concurrent_calls_do_not_cross() {
    let sandbox = Sandbox::new();
    let clients = ["one", "two", "three"];
    // Equal calls, one after the other; the first state of each, and what became of it.
    let recorded = sandbox.record_demo_http(|server| {
        clients.map(|who| {
            let mut answer = interview(server, "0", who, None);
            let first = state(&answer);
            for round in ["1", "2", "3"] {
                answer = interview(server, round, who, Some(&answer));
            }
            (first, text(&answer))
        })
    });
    for (who, (_, got)) in clients.iter().zip(&recorded) {
        assert!(got.contains(&format!("motto: by {who}")), "{got}");
    }
    // All at once, round by round, and every client uses the same ids: each stays with the states that it was given.
    let server = sandbox.replay_http(&[]);
    let mut answers: Vec<Option<String>> = clients.iter().map(|_| None).collect();
    let mut first = Vec::new();
    for round in ["0", "1", "2", "3"] {
        answers = std::thread::scope(|scope| {
            let rounds: Vec<_> = answers
                .iter()
                .map(|before| scope.spawn(|| interview(&server, round, "nobody", before.as_deref())))
                .collect();
            rounds.into_iter().map(|round| Some(round.join().unwrap())).collect()
        });
        if round == "0" {
            first = answers.iter().flatten().map(|answer| state(answer)).collect();
        }
    }
    let last = answers.iter().flatten().map(|answer| text(answer));
    let mut replayed: Vec<(String, String)> = first.into_iter().zip(last).collect();
    replayed.sort();
    let mut recorded = recorded.to_vec();
    recorded.sort();
    assert_eq!(replayed, recorded);
    server.end(0);
}

#[test]
fn r095_modern_log_messages_need_a_level_in_the_request() {
    let sandbox = Sandbox::new();
    let log = |level: &str| {
        let plain = tool("1", "log", r#"{"count":8}"#, "{}");
        let level = format!(r#""_meta":{{"io.modelcontextprotocol/logLevel":"{level}","#);
        if level.contains("\"\"") { plain } else { plain.replacen("\"_meta\":{", &level, 1) }
    };
    let levels = ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
    let seen = |answer: &Answer| -> Vec<String> {
        let messages = answer.messages();
        let (said, logged) = messages.split_last().unwrap();
        assert_eq!(text(said), "logged 8 messages");
        logged.iter().map(|message| value(message)["params"]["level"].as_str().unwrap().to_owned()).collect()
    };
    let recorded = sandbox.record_demo_http(|server| seen(&server.modern(&log("debug")).expect(200)));
    assert_eq!(recorded, levels);
    let server = sandbox.replay_http(&["--repeat", "last"]);
    assert_eq!(seen(&server.modern(&log("")).expect(200)), [""; 0]);
    for from in 0..levels.len() {
        assert_eq!(seen(&server.modern(&log(levels[from])).expect(200)), levels[from..]);
    }
    server.end(0);
}

#[test]
fn r095_legacy_log_messages_follow_the_level_that_was_set() {
    let sandbox = Sandbox::new();
    let level = |client: &Legacy<'_>, level: &str| {
        client.post(&request("1", "logging/setLevel", &format!(r#"{{"level":"{level}"}}"#))).expect(200);
    };
    let count = |client: &Legacy<'_>| {
        client.post(&call("2", "log", r#"{"count":8}"#)).expect(200).messages().len() - 1
    };
    let recorded = sandbox.record_demo_http(|server| {
        let client = server.greet("{}");
        level(&client, "debug");
        count(&client)
    });
    assert_eq!(recorded, 8);
    let server = sandbox.replay_http(&["--repeat", "last"]);
    let (one, other) = (server.greet("{}"), server.greet("{}"));
    // Each session has a level of its own.
    level(&one, "error");
    level(&other, "debug");
    assert_eq!((count(&one), count(&other)), (4, 8));
    level(&one, "emergency");
    assert_eq!((count(&one), count(&other)), (1, 8));
    drop((one, other));
    server.end(0);
}

fn listen(server: &Endpoint, id: &str, filter: &str) -> Stream {
    let params = format!("\"notifications\":{filter}");
    let mut stream = server.modern_stream(&modern(id, "subscriptions/listen", &params, "{}"));
    let acknowledged = stream.next().unwrap();
    assert!(acknowledged.contains("notifications/subscriptions/acknowledged"), "{acknowledged}");
    assert!(acknowledged.contains(&subscription(id)), "{acknowledged}");
    stream
}

fn subscription(id: &str) -> String {
    format!(r#""io.modelcontextprotocol/subscriptionId":{id}"#)
}

/// The method of the next message on a listen, which is to be of that listen.
#[track_caller]
fn heard(stream: &mut Stream, id: &str) -> String {
    let message = stream.next().unwrap();
    assert!(message.contains(&subscription(id)), "{message}");
    value(&message)["method"].as_str().unwrap().to_owned()
}

const TOOLS: &str = r#"{"toolsListChanged":true}"#;
const README: &str = r#"{"resourceSubscriptions":["demo://readme"]}"#;
const TOUCH: &str = r#"{"uri":"demo://readme"}"#;

#[test]
fn r097_two_listens_are_told_apart_and_leaving_one_leaves_the_other() {
    let sandbox = Sandbox::new();
    // Of two clients, or of one that is careless with its ids.
    for (one, other) in [("1", "2"), ("1", "1"), ("\"1\"", "1")] {
        let session = |server: &Endpoint| {
            let mut tools = listen(server, one, TOOLS);
            let mut readme = listen(server, other, README);
            let mut got = vec![server.modern(&tool("1", "touch", TOUCH, "{}")).expect(200).last()];
            got.push(heard(&mut readme, other));
            got.push(server.modern(&tool("1", "grow", "{}", "{}")).expect(200).last());
            got.push(heard(&mut tools, one));
            readme.close();
            got.push(server.modern(&tool("2", "touch", TOUCH, "{}")).expect(200).last());
            got.push(server.modern(&tool("2", "grow", "{}", "{}")).expect(200).last());
            got.push(heard(&mut tools, one));
            tools.close();
            got
        };
        let got = sandbox.twice(&[], session);
        assert_eq!(got[1], "notifications/resources/updated");
        assert_eq!((got[3].as_str(), got[6].as_str()), (got[6].as_str(), "notifications/tools/list_changed"));
        std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    }
}

#[test]
fn r098_modern_what_followed_a_call_follows_its_live_answer() {
    let sandbox = Sandbox::new();
    let both = r#"{"toolsListChanged":true,"resourceSubscriptions":["demo://readme"]}"#;
    let session = |server: &Endpoint, calls: [(&str, &str); 2]| {
        let mut stream = listen(server, "\"l\"", both);
        let heard = calls.map(|(name, arguments)| {
            server.modern(&tool("1", name, arguments, "{}")).expect(200);
            heard(&mut stream, "\"l\"")
        });
        stream.close();
        heard
    };
    let recorded = sandbox.record_demo_http(|server| session(server, [("grow", "{}"), ("touch", TOUCH)]));
    assert_eq!(recorded, ["notifications/tools/list_changed", "notifications/resources/updated"]);
    // In the other order of calls the notifications come in the other order: each waits for its own.
    let server = sandbox.replay_http(&[]);
    let replayed = session(&server, [("touch", TOUCH), ("grow", "{}")]);
    assert_eq!(replayed, ["notifications/resources/updated", "notifications/tools/list_changed"]);
    server.end(0);
}

#[test]
fn r098_legacy_what_followed_a_call_follows_its_live_answer() {
    let sandbox = Sandbox::new();
    let session = |server: &Endpoint, calls: [(&str, &str); 2]| {
        let client = server.greet("{}");
        client.post(&request("1", "resources/subscribe", TOUCH)).expect(200);
        let mut stream = client.get();
        let heard = calls.map(|(name, arguments)| {
            client.post(&call("2", name, arguments)).expect(200);
            value(&stream.next().unwrap())["method"].as_str().unwrap().to_owned()
        });
        client.delete().expect(200);
        assert_eq!(stream.next(), None);
        heard
    };
    let recorded = sandbox.record_demo_http(|server| session(server, [("grow", "{}"), ("touch", TOUCH)]));
    assert_eq!(recorded, ["notifications/tools/list_changed", "notifications/resources/updated"]);
    let server = sandbox.replay_http(&[]);
    let replayed = session(&server, [("touch", TOUCH), ("grow", "{}")]);
    assert_eq!(replayed, ["notifications/resources/updated", "notifications/tools/list_changed"]);
    server.end(0);
}

#[test]
fn r100_an_error_sends_the_user_to_a_url_and_the_retry_succeeds() {
    let sandbox = Sandbox::new();
    let session = |server: &Endpoint| {
        let client = server.greet(r#"{"elicitation":{"url":{}}}"#);
        let mut stream = client.get();
        let refused = client.post(&call("1", "ask_url", "{}")).fails(200, -32042).last();
        let complete = stream.next().unwrap();
        let again = client.post(&call("2", "ask_url", "{}")).expect(200).last();
        client.delete().expect(200);
        [refused, complete, again]
    };
    let [refused, complete, again] = sandbox.twice(&[], session);
    let id = &value(&refused)["error"]["data"]["elicitations"][0]["elicitationId"];
    let complete = value(&complete);
    assert_eq!(complete["method"], "notifications/elicitation/complete");
    assert_eq!(&complete["params"]["elicitationId"], id);
    assert_eq!(text(&again), format!("confirmed {}", id.as_str().unwrap()));
}

#[test]
fn r100_the_completion_follows_the_accept_with_the_same_id() {
    let sandbox = Sandbox::new();
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"d","version":"1"}}"#;
    let url = r#"{"mode":"url","elicitationId":"e-1","url":"https://example.com/","message":"m"}"#;
    let complete = notification("elicitation/complete", r#"{"elicitationId":"e-1"}"#);
    let accept = |id: &str| result(id, r#"{"action":"accept"}"#);
    // The completion came on the call's stream, or on the session's own.
    for standalone in [false, true] {
        let completed = if standalone { s(2, complete.clone()).get() } else { s(3, complete.clone()) };
        let records = [
            c(1, initialize("{}")),
            s(1, result("0", greeting)).status(200),
            c(3, call("1", "t", "{}")),
            s(3, request("9", "elicitation/create", url)).sse(),
            c(4, accept("9")),
            completed,
            s(3, said("1", "x")),
        ];
        let records: Vec<Record> = records.into_iter().map(|record| record.on(1)).collect();
        let server = sandbox.play_recorded_http(&records, &[]);
        let client = server.greet(r#"{"elicitation":{"url":{}}}"#);
        let mut own = client.get();
        let mut stream = client.stream(&call("5", "t", "{}"));
        let question = stream.next().unwrap();
        let id = value(&question)["id"].to_string();
        assert_eq!(question, request(&id, "elicitation/create", url));
        client.post(&accept(&id)).expect(202);
        let carrier = if standalone { &mut own } else { &mut stream };
        assert_eq!(carrier.next().unwrap(), complete);
        assert_eq!(stream.next().unwrap(), said("5", "x"));
        drop(client);
        server.end(0);
    }
}

#[test]
fn r100_modern_clients_are_sent_to_a_url_by_a_result() {
    let sandbox = Sandbox::new();
    let able = r#"{"elicitation":{"url":{}}}"#;
    let session = |server: &Endpoint| {
        let asked = server.modern(&tool("1", "ask_url", "{}", able)).expect(200).last();
        let state = &value(&asked)["result"]["requestState"];
        let state = if state.is_null() { String::new() } else { format!(",\"requestState\":{state}") };
        let params = format!(
            r#""name":"ask_url","arguments":{{}},"inputResponses":{{"ask_url":{{"action":"accept"}}}}{state}"#
        );
        let done = server.modern(&modern("2", "tools/call", &params, able)).expect(200).last();
        [asked, done]
    };
    let [asked, done] = sandbox.twice(&[], session);
    let asked = value(&asked);
    assert_eq!(asked["result"]["resultType"], "input_required");
    assert_eq!(asked["result"]["inputRequests"]["ask_url"]["params"]["mode"], "url");
    assert_eq!(text(&done), "accept");
    // Without the mode there is no asking.
    let server = sandbox.replay_http(&[]);
    server.modern(&tool("3", "ask_url", "{}", r#"{"elicitation":{}}"#)).fails(400, -32021);
    server.end(0);
}

#[test]
fn r086_one_exchange_played_twice_at_once_asks_two_questions() {
    let sandbox = Sandbox::new();
    let answer = |client: &Legacy<'_>, question: &str, name: &str| {
        let content = format!(r#"{{"action":"accept","content":{{"name":"{name}"}}}}"#);
        client.post(&result(&value(question)["id"].to_string(), &content)).expect(202);
    };
    let ask = call("\"a\"", "ask", r#"{"message":"who?"}"#);
    let said = sandbox.record_demo_http(|server| {
        let client = server.greet(r#"{"elicitation":{}}"#);
        let mut stream = client.stream(&ask);
        answer(&client, &stream.next().unwrap(), "Ada");
        stream.next().unwrap()
    });
    let server = sandbox.replay_http(&["--repeat", "last"]);
    let client = server.greet(r#"{"elicitation":{}}"#);
    let mut streams = [client.stream(&ask), client.stream(&ask.replace("\"a\"", "0"))];
    let questions = streams.each_mut().map(|stream| stream.next().unwrap());
    assert_ne!(value(&questions[0])["id"], value(&questions[1])["id"]);
    // The second is answered first, and its call alone goes on.
    answer(&client, &questions[1], "Ada");
    assert_eq!(value(&streams[1].next().unwrap()), value(&said.replace("\"a\"", "0")));
    assert_eq!(streams[1].next(), None);
    answer(&client, &questions[0], "Ada");
    assert_eq!(streams[0].next().unwrap(), said);
    drop((client, streams));
    server.end(0);
}

#[test]
fn r096_the_live_id_is_everywhere_and_only_what_was_asked_for_comes() {
    let sandbox = Sandbox::new();
    let meta = |id: &str| format!(r#""_meta":{{{}}}"#, subscription(id));
    let over = |id: &str| result(id, &format!(r#"{{"resultType":"complete",{}}}"#, meta(id)));
    let both = r#"{"toolsListChanged":true,"resourceSubscriptions":["demo://readme"]}"#;
    let notified = |id: &str, name: &str, more: &str| notification(name, &format!("{{{}{more}}}", meta(id)));
    let params = format!("\"notifications\":{both}");
    let records = [
        c(1, modern("7", "subscriptions/listen", &params, "{}")),
        s(1, notified("7", "subscriptions/acknowledged", &format!(",{params}"))).sse(),
        c(2, tool("1", "t", "{}", "{}")),
        s(2, said("1", "x")).status(200),
        s(1, notified("7", "tools/list_changed", "")),
        s(1, notified("7", "resources/updated", r#","uri":"demo://readme""#)),
        c(3, tool("1", "end", "{}", "{}")),
        s(3, said("1", "y")).status(200),
        s(1, over("7")),
        c(4, tool("1", "later", "{}", "{}")),
        s(4, said("1", "z")).status(200),
    ];
    for (id, filter, expected) in [
        ("7", both, &["tools/list_changed", "resources/updated"][..]),
        ("\"7\"", both, &["tools/list_changed", "resources/updated"]),
        ("8", README, &["resources/updated"]),
        ("\"\u{e9}\"", TOOLS, &["tools/list_changed"]),
    ] {
        let server = sandbox.play_recorded_http(&records, &[]);
        let mut stream = listen(&server, id, filter);
        server.modern(&tool("1", "t", "{}", "{}")).expect(200);
        for name in expected {
            assert_eq!(heard(&mut stream, id), format!("notifications/{name}"));
        }
        server.modern(&tool("1", "end", "{}", "{}")).expect(200);
        assert_eq!(stream.next().unwrap(), over(id));
        assert_eq!(stream.next(), None);
        server.end(0);
    }
}
