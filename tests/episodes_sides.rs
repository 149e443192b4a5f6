//! Mode `new_episodes`: what passes between the client, the cassette and the live server, and what must not.

use std::path::Path;

use crate::support::recording::DEMO;
use crate::support::replay::{INITIALIZED, OFFERED, c, call, cancelled, handshake, request, result, s, said};
use crate::support::{Client, Sandbox, eventually, initialize, messages, modern};

/// The capabilities of a client that can be asked.
const ABLE: &str = r#"{"sampling":{},"elicitation":{},"roots":{}}"#;

fn echo(id: &str, text: &str) -> String {
    call(id, "echo", &format!("{{\"text\":\"{text}\"}}"))
}

fn start(sandbox: &Sandbox, server: &[&str]) -> Client {
    sandbox.user("c.json", &["-q", "--mode", "new_episodes", "--server", "demo"], server).start()
}

/// A cassette of these records, and a client of it with the demo server behind.
fn live(sandbox: &Sandbox, records: &[String]) -> Client {
    sandbox.tape_with("", records);
    start(sandbox, &DEMO)
}

/// A server that answers `initialize` and `echo`, and writes down what it is told.
fn scribe(sandbox: &Sandbox) -> String {
    let answer = r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#;
    sandbox.script(
        "scribe",
        &format!(
            r#"while read -r line; do
                printf '%s\n' "$line" >> told
                id=${{line#*\"id\":}}; id=${{id%%,*}}
                case $line in
                    *'"method":"initialize"'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{answer}}}\n' "$id";;
                    *'"id":'*'"method":'*) printf '{{"jsonrpc":"2.0","id":%s,"result":{{}}}}\n' "$id";;
                esac
            done"#
        ),
    )
}

fn told(sandbox: &Sandbox) -> Vec<String> {
    sandbox.read("told").lines().map(str::to_owned).collect()
}

fn text_of(answer: &str) -> &str {
    answer.split("\"text\":\"").nth(1).unwrap_or(answer).split("\",").next().unwrap()
}

/// Plays the cassette without a live server.
fn replayed(sandbox: &Sandbox) -> Client {
    sandbox.mcpreel(["serve", "c.json"]).start()
}

#[test]
fn the_live_server_is_greeted_as_the_client_greeted_us() {
    let sandbox = Sandbox::new();
    let level =
        |id: &str, level: &str| request(id, "logging/setLevel", &format!("{{\"level\":\"{level}\"}}"));
    let subscribe = |id: &str, what: &str, uri: &str| {
        request(id, &format!("resources/{what}"), &format!("{{\"uri\":\"{uri}\"}}"))
    };
    let recorded = [
        level("1", "debug"),
        level("2", "error"),
        subscribe("3", "subscribe", "a:1"),
        subscribe("4", "subscribe", "a:2"),
        subscribe("5", "unsubscribe", "a:1"),
    ];
    let mut records = handshake();
    for (line, id) in recorded.iter().zip(["1", "2", "3", "4", "5"]) {
        records.extend([c(line), s(result(id, "{}"))]);
    }
    sandbox.tape_with("", &records);
    let server = scribe(&sandbox);
    let mut client = start(&sandbox, &[&server]);
    let hello = initialize(r#"{"roots":{"listChanged":true}}"#);
    client.ask(&hello);
    client.send(INITIALIZED);
    for (line, id) in recorded.iter().zip(["1", "2", "3", "4", "5"]) {
        client.expect(line, &result(id, "{}"));
    }
    assert!(!sandbox.has("told"));
    client.expect(&echo("6", "new"), &result("6", "{}"));
    let greeting = vec![
        hello,
        INITIALIZED.to_owned(),
        level("2", "error"),
        subscribe("4", "subscribe", "a:2"),
        echo("6", "new"),
    ];
    assert_eq!(told(&sandbox), greeting);
    // From now on it is told what the client sets, whoever answers; notifications too.
    client.expect(&level("7", "debug"), &result("7", "{}"));
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    client.expect(&echo("8", "newer"), &result("8", "{}"));
    assert_eq!(
        told(&sandbox)[5..],
        [
            level("7", "debug"),
            r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#.to_owned(),
            echo("8", "newer")
        ]
    );
    client.close(0);
    // A session of its own, as the cassette has it.
    let appended: Vec<String> = messages(&sandbox.path.join("c.json")).split_off(records.len());
    let said_by_client: Vec<&String> = appended.iter().filter(|line| line.starts_with("c ")).collect();
    assert_eq!(said_by_client.len(), 8, "{appended:?}");
}

#[test]
fn questions_of_both_sides_and_their_answers_do_not_meet() {
    let sandbox = Sandbox::new();
    // The recorded server asked under id 0, as the live one does.
    let mut records = handshake();
    records.extend([
        c(call("1", "old", "{}")),
        s(request("0", "roots/list", "{}")),
        c(result("0", r#"{"roots":[]}"#)),
        s(said("1", "old")),
    ]);
    let mut client = live(&sandbox, &records);
    client.greet(ABLE);
    // Both wait for an answer at once.
    client.expect(&call("1", "old", "{}"), &request("0", "roots/list", "{}"));
    let asked = client.ask(&call("2", "sample", r#"{"prompt":"hi"}"#));
    assert!(asked.contains("\"id\":1,") && asked.contains("sampling/createMessage"), "{asked}");
    let sampled = r#"{"role":"assistant","model":"m","content":{"type":"text","text":"from the client"}}"#;
    let answer = client.ask(&result("1", sampled));
    assert!(answer.contains("\"id\":2,") && answer.contains("sampled: from the client"), "{answer}");
    client.expect(&result("0", r#"{"roots":[]}"#), &said("1", "old"));
    let asked = client.ask(&call("3", "roots", "{}"));
    assert!(asked.contains("\"id\":2,") && asked.contains("roots/list"), "{asked}");
    let answer = client.ask(&result("2", r#"{"roots":[{"uri":"file:///x"}]}"#));
    assert!(answer.contains("file:///x"), "{answer}");
    client.close(0);
    // All of it is an episode that replays.
    let mut client = replayed(&sandbox);
    client.greet(ABLE);
    let asked = client.ask(&call("2", "sample", r#"{"prompt":"hi"}"#));
    assert!(asked.contains("\"id\":0,") && asked.contains("sampling/createMessage"), "{asked}");
    assert!(client.ask(&result("0", sampled)).contains("sampled: from the client"));
    client.close(0);
}

#[test]
fn progress_logs_and_cancellations_reach_the_side_that_they_are_about() {
    let sandbox = Sandbox::new();
    let mut client = live(&sandbox, &handshake());
    client.greet("{}");
    let steps = |id: &str, token: &str| {
        request(
            id,
            "tools/call",
            &format!(
                r#"{{"name":"progress","arguments":{{"steps":2}},"_meta":{{"progressToken":{token}}}}}"#
            ),
        )
    };
    for (id, token) in [("1", "\"t\""), ("2", "7")] {
        let got = client.converse(&[&steps(id, token)]);
        assert_eq!(got.len(), 3, "{got:?}");
        assert!(got[..2].iter().all(|line| line.contains(&format!("\"progressToken\":{token}"))), "{got:?}");
    }
    let got = client.converse(&[&call("3", "log", r#"{"count":2}"#)]);
    assert!(got.len() == 2 && got[0].contains("notifications/message"), "{got:?}");
    // One that is cancelled gets no answer, and the session goes on.
    client.send(&call("4", "slow", r#"{"ms":60000,"tag":"never"}"#));
    client.send(&cancelled("4"));
    let got = client.ask(&echo("5", "after"));
    assert_eq!(text_of(&got), "after");
    client.close(0);
    let asked = messages(&sandbox.path.join("c.json"));
    assert!(asked.contains(&format!("c {}", cancelled("4"))), "{asked:?}");
    let mut client = replayed(&sandbox);
    client.greet("{}");
    assert_eq!(client.converse(&[&steps("1", "9"), &steps("1", "9")]).len(), 6);
    client.send(&call("4", "slow", r#"{"ms":60000,"tag":"never"}"#));
    client.send(&cancelled("4"));
    assert_eq!(text_of(&client.ask(&echo("5", "after"))), "after");
    client.close(0);
}

#[test]
fn a_cancellation_names_the_id_that_the_live_server_knows() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &handshake());
    let server = scribe(&sandbox);
    let mut client = start(&sandbox, &[&server]);
    client.greet("{}");
    client.expect(&echo("1", "a"), &result("1", "{}"));
    // The id of the handshake, and one that was used: they get others on the way, and come back as they were.
    client.expect(&echo("0", "b"), &result("0", "{}"));
    client.expect(&echo("1", "c"), &result("1", "{}"));
    let ids: Vec<String> = told(&sandbox)
        .iter()
        .filter(|line| line.contains("tools/call"))
        .map(|line| line.split(',').nth(1).unwrap().to_owned())
        .collect();
    assert_eq!(ids, ["\"id\":1", "\"id\":\"mcpreel-1\"", "\"id\":\"mcpreel-2\""]);
    // A cancellation of what was recorded, or of nothing, is none of its business.
    client.send(&cancelled("5"));
    client.nothing_comes();
    assert!(!sandbox.read("told").contains("cancelled"));
    client.close(0);
}

#[test]
fn modern_rounds_stay_on_the_side_that_began_them() {
    let sandbox = Sandbox::new();
    let ask = |id: &str, more: &str| {
        modern(id, "tools/call", &format!(r#""name":"ask","arguments":{{"message":"who?"}}{more}"#), ABLE)
    };
    let reply = |state: &str, name: &str| {
        format!(
            r#","inputResponses":{{"ask":{{"action":"accept","content":{{"name":"{name}"}}}}}},"requestState":{state}"#
        )
    };
    let state_of = |answer: &str| {
        let rest = answer.split("\"requestState\":").nth(1).unwrap_or_else(|| panic!("{answer}"));
        format!("\"{}\"", rest.split('"').nth(1).unwrap())
    };
    // Recorded is one round that ended, under a state that the live server never gave.
    let asks = r#"{"resultType":"input_required","inputRequests":{"ask":{"method":"elicitation/create","params":{"message":"who?","requestedSchema":{"type":"object","properties":{}}}}},"requestState":"r1"}"#;
    let done = r#"{"resultType":"complete","content":[{"type":"text","text":"recorded"}]}"#;
    let records =
        [c(ask("1", "")), s(result("1", asks)), c(ask("2", &reply("\"r1\"", "ann"))), s(result("2", done))];
    let mut client = live(&sandbox, &records);
    client.expect(&ask("1", ""), &result("1", asks));
    client.expect(&ask("2", &reply("\"r1\"", "ann")), &result("2", done));
    // A second call is a new episode, and its retry goes where the state came from.
    let answer = client.ask(&ask("3", ""));
    let state = state_of(&answer);
    assert_ne!(state, "\"r1\"");
    let answer = client.ask(&ask("4", &reply(&state, "bob")));
    assert!(answer.contains("bob"), "{answer}");
    // A state of the cassette is not shown to the live server.
    let error = client.fails(&ask("5", &reply("\"r1\"", "eve")), -31001);
    assert!(error.contains("and its requestState came from the cassette"), "{error}");
    let ended = client.close(3);
    assert!(
        ended.stderr.contains("the live server did not make it, so it was not asked; record again"),
        "{}",
        ended.stderr
    );
    // The whole is replayed.
    let mut client = replayed(&sandbox);
    client.expect(&ask("1", ""), &result("1", asks));
    client.expect(&ask("2", &reply("\"r1\"", "ann")), &result("2", done));
    assert_eq!(state_of(&client.ask(&ask("3", ""))), state);
    assert!(client.ask(&ask("4", &reply(&state, "bob"))).contains("bob"));
    client.close(0);
}

#[test]
fn what_the_cassette_gave_never_reaches_the_live_server() {
    let sandbox = Sandbox::new();
    let page = |id: &str, cursor: &str| request(id, "tools/list", &format!("{{\"cursor\":\"{cursor}\"}}"));
    let task = r#"{"taskId":"t-1","status":"completed","createdAt":"2026-11-29T20:33:00Z","lastUpdatedAt":"2026-11-29T20:33:00Z","ttl":1000}"#;
    let mut records = handshake();
    records.extend([
        c(request("1", "tools/list", "{}")),
        s(result("1", r#"{"tools":[],"nextCursor":"c-1"}"#)),
        c(request("2", "tools/call", r#"{"name":"job","arguments":{},"task":{}}"#)),
        s(result("2", &format!("{{\"task\":{task}}}"))),
        c(call("3", "login", r#"{"token":"REDACTED-1"}"#)),
        s(said("3", "key REDACTED-2")),
    ]);
    sandbox.tape_with("", &records);
    let server = scribe(&sandbox);
    let mut client = start(&sandbox, &[&server]);
    client.greet("{}");
    client.ask(&request("1", "tools/list", "{}"));
    for (line, why) in [
        (page("2", "c-1"), "and its cursor came from the cassette"),
        (request("3", "tasks/get", r#"{"taskId":"t-1"}"#), "and its taskId came from the cassette"),
        (call("4", "send", r#"{"key":"REDACTED-2"}"#), "which holds a redacted value of the cassette"),
        (
            call("5", "send", r#"{"header":["Bearer REDACTED-2.1"]}"#),
            "which holds a redacted value of the cassette",
        ),
        (
            call("6", "send", r#"{"to":"redacted-3@redacted.invalid"}"#),
            "which holds a redacted value of the cassette",
        ),
    ] {
        let error = client.fails(&line, -31001);
        assert!(error.contains(why), "{error}");
    }
    assert!(!sandbox.has("told"), "{:?}", told(&sandbox));
    // A cursor of another list, and one that nobody gave, are the client's own affair.
    client.expect(&request("7", "prompts/list", r#"{"cursor":"c-1"}"#), &result("7", "{}"));
    client.expect(&page("8", "c-9"), &result("8", "{}"));
    // So are values that only look like those of a cassette.
    let own = r#"{"at":"1970-01-01T00:00:01Z","id":"00000000-0000-4000-8000-000000000001","ip":"192.0.2.1"}"#;
    client.expect(&call("9", "send", own), &result("9", "{}"));
    assert_eq!(told(&sandbox).len(), 5);
    let ended = client.close(3);
    assert!(ended.stderr.contains("mcpreel: 5 requests without a recorded answer"), "{}", ended.stderr);
}

#[test]
fn pages_and_tasks_of_the_live_server_go_on_there() {
    let sandbox = Sandbox::new();
    // Nothing of a list and of tasks was recorded.
    let mut client = live(&sandbox, &handshake());
    client.greet("{}");
    let first = client.ask(&request("1", "tools/list", "{}"));
    assert!(first.contains("\"nextCursor\":\"page-2\""), "{first}");
    let second = client.ask(&request("2", "tools/list", r#"{"cursor":"page-2"}"#));
    assert!(second.contains("\"tools\":["), "{second}");
    let created = client.ask(&request(
        "3",
        "tools/call",
        r#"{"name":"job","arguments":{"steps":1},"task":{"ttl":60000}}"#,
    ));
    let id = created
        .split("\"taskId\":\"")
        .nth(1)
        .unwrap_or_else(|| panic!("{created}"))
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let about =
        |number: u32, method: &str| request(&number.to_string(), method, &format!("{{\"taskId\":\"{id}\"}}"));
    // Its notifications may come in between.
    let done = |client: &mut Client, number: u32| {
        let got = client.converse(&[&about(number, "tasks/get")]);
        got.last().unwrap().contains("\"status\":\"completed\"")
    };
    let mut number = 3;
    eventually("the end of the task", || {
        number += 1;
        done(&mut client, number)
    });
    let got = client.converse(&[&about(900, "tasks/result")]);
    assert!(got.last().unwrap().contains("\"content\":["), "{got:?}");
    client.close(0);
    let mut client = replayed(&sandbox);
    client.greet("{}");
    assert_eq!(client.ask(&request("1", "tools/list", "{}")), first);
    assert_eq!(client.ask(&request("2", "tools/list", r#"{"cursor":"page-2"}"#)), second);
    client.close(0);
}

#[test]
fn a_listen_that_was_not_recorded_listens_to_the_live_server() {
    let sandbox = Sandbox::new();
    let tool = |id: &str, name: &str, arguments: &str| {
        modern(id, "tools/call", &format!(r#""name":"{name}","arguments":{arguments}"#), "{}")
    };
    let records = [
        c(tool("1", "echo", r#"{"text":"one"}"#)),
        s(result("1", r#"{"resultType":"complete","content":[]}"#)),
    ];
    let mut client = live(&sandbox, &records);
    let listen = modern("1", "subscriptions/listen", r#""notifications":{"toolsListChanged":true}"#, "{}");
    client.send(&tool("7", "echo", r#"{"text":"one"}"#));
    client.next();
    client.send(&tool("1", "echo", r#"{"text":"two"}"#));
    assert_eq!(text_of(&client.next()), "two");
    // Its id was used: it is another one on the way, and the client's own in what comes of it.
    let acknowledged = client.ask(&listen);
    assert!(
        acknowledged.contains("notifications/subscriptions/acknowledged")
            && acknowledged.contains("subscriptionId\":1"),
        "{acknowledged}"
    );
    client.send(&tool("3", "grow", "{}"));
    let got = [client.next(), client.next()];
    let changed =
        got.iter().find(|line| line.contains("tools/list_changed")).unwrap_or_else(|| panic!("{got:?}"));
    assert!(changed.contains("subscriptionId\":1"), "{changed}");
    client.send(&cancelled("1"));
    let got = client.converse(&[&tool("4", "echo", r#"{"text":"three"}"#)]);
    assert_eq!(text_of(got.last().unwrap()), "three");
    client.close(0);
    let mut client = replayed(&sandbox);
    let acknowledged = client.ask(&listen);
    assert!(acknowledged.contains("acknowledged"), "{acknowledged}");
    client.send(&tool("3", "grow", "{}"));
    let got = [client.next(), client.next()];
    assert!(got.iter().any(|line| line.contains("tools/list_changed")), "{got:?}");
    client.close(0);
}

#[test]
fn a_batch_may_be_answered_by_both_sides() {
    let sandbox = Sandbox::new();
    let hello = initialize("{}").replace("2025-11-25", "2025-03-26");
    let welcome = format!(
        r#"{{"protocolVersion":"2025-03-26","capabilities":{OFFERED},"serverInfo":{{"name":"demo","version":"1"}}}}"#
    );
    let records =
        [c(&hello), s(result("0", &welcome)), c(INITIALIZED), c(echo("1", "one")), s(said("1", "one"))];
    let mut client = live(&sandbox, &records);
    client.ask(&hello);
    client.send(INITIALIZED);
    let batch = format!("[{},{},{}]", echo("1", "one"), echo("2", "two"), echo("3", "three"));
    let answer = client.ask(&batch);
    assert!(answer.starts_with('[') && answer.ends_with(']'), "{answer}");
    for (id, text) in [("1", "one"), ("2", "two"), ("3", "three")] {
        assert!(
            answer.contains(&format!("\"id\":{id},")) && answer.contains(&format!("\"text\":\"{text}\"")),
            "{answer}"
        );
    }
    client.close(0);
    let mut client = replayed(&sandbox);
    client.ask(&hello);
    client.send(INITIALIZED);
    let answer = client.ask(&batch);
    assert!(answer.contains("two") && answer.contains("three"), "{answer}");
    client.close(0);
}

#[test]
fn a_client_of_another_era_than_recorded_meets_the_live_server() {
    let sandbox = Sandbox::new();
    let tool = |id: &str, text: &str| {
        modern(id, "tools/call", &format!(r#""name":"echo","arguments":{{"text":"{text}"}}"#), "{}")
    };
    // A legacy client of a modern cassette.
    let records = [c(tool("1", "one")), s(result("1", r#"{"resultType":"complete","content":[]}"#))];
    let mut client = live(&sandbox, &records);
    let welcome = client.greet("{}");
    assert!(welcome.contains("\"protocolVersion\":\"2025-11-25\""), "{welcome}");
    assert_eq!(text_of(&client.ask(&echo("1", "two"))), "two");
    client.close(0);
    let mut client = replayed(&sandbox);
    assert_eq!(client.greet("{}"), welcome);
    assert_eq!(text_of(&client.ask(&echo("1", "two"))), "two");
    client.close(0);
    // A modern client of a legacy cassette, which need not be greeted.
    let sandbox = Sandbox::new();
    let mut client = live(&sandbox, &handshake());
    assert_eq!(text_of(&client.ask(&tool("1", "three"))), "three");
    client.close(0);
    let asked = messages(Path::new(&sandbox.path.join("c.json")));
    assert_eq!(asked.len(), handshake().len() + 2, "{asked:?}");
}

#[test]
fn a_live_server_that_refuses_its_greeting_is_told_as_such() {
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &[handshake(), vec![c(echo("1", "one")), s(said("1", "one"))]].concat());
    let server = sandbox.script(
        "server",
        r#"read -r line; echo '{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"not you"}}'; cat > /dev/null"#,
    );
    let mut client = start(&sandbox, &[&server]);
    client.greet("{}");
    let error = client.fails(&echo("2", "two"), -31004);
    assert!(error.contains("the live server refused initialize: ") && error.contains("not you"), "{error}");
    client.expect(&echo("3", "one"), &said("3", "one"));
    client.close(3);
}

/// The player alone: over HTTP sessions come and go.
#[test]
fn what_one_client_has_set_is_not_set_for_the_next() {
    use mcpreel::cassette::Cassette;
    use mcpreel::redact;
    use mcpreel::replay::key::Rules;
    use mcpreel::replay::player::{Options, Output, Player};
    use mcpreel::replay::tape::Tape;

    let sandbox = Sandbox::new();
    let level = request("1", "logging/setLevel", r#"{"level":"error"}"#);
    let subscribe = request("2", "resources/subscribe", r#"{"uri":"file:///a"}"#);
    let mut records = handshake();
    records.extend([c(&level), s(result("1", "{}")), c(&subscribe), s(result("2", "{}"))]);
    sandbox.tape_with("", &records);
    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    let rules = Rules::new(&[], &[], redact::Rules::new(false, &[]).unwrap().into()).unwrap();
    let options = Options { http: true, sessions: true, ..Options::default() };
    let mut player = Player::new(Tape::new(cassette, 0), rules, options).with_live_server();
    let says = |player: &mut Player, session: usize, message: &str| {
        player.receive(session, message.as_bytes(), 0);
        let onward = |output| match output {
            Output::Onward { text, .. } => Some(text),
            _ => None,
        };
        player.outputs().filter_map(onward).collect::<Vec<String>>()
    };
    let first = player.open(Box::new(|_| 0));
    says(&mut player, first, &initialize("{}"));
    says(&mut player, first, &level);
    says(&mut player, first, &subscribe);
    player.close(first);
    let second = player.open(Box::new(|_| 1));
    assert_eq!(first, second);
    says(&mut player, second, &initialize("{}"));
    says(&mut player, second, INITIALIZED);
    assert_eq!(says(&mut player, second, &echo("5", "x")), [initialize("{}")]);
    player.live_says(second, None, result("0", "{}").as_bytes());
    assert_eq!(
        says(&mut player, second, &request("6", "ping", "{}")),
        [INITIALIZED.to_owned(), echo("5", "x")]
    );
}
