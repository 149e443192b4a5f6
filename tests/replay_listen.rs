//! `subscriptions/listen` of the modern era.

use crate::support::replay::{c, cancelled, notification, result, s};
use crate::support::{Sandbox, modern};

const DONE: &str = r#"{"resultType":"complete","content":[]}"#;

fn listen(id: &str, filter: &str) -> String {
    modern(id, "subscriptions/listen", &format!(r#""notifications":{filter}"#), "{}")
}

fn call(id: &str, name: &str) -> String {
    modern(id, "tools/call", &format!(r#""name":"{name}""#), "{}")
}

fn meta(id: &str) -> String {
    format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#)
}

fn acknowledged(id: &str, honoured: &str) -> String {
    notification("subscriptions/acknowledged", &format!("{{{},\"notifications\":{honoured}}}", meta(id)))
}

fn tools(id: &str) -> String {
    notification("tools/list_changed", &format!("{{{}}}", meta(id)))
}

fn updated(id: &str, uri: &str) -> String {
    notification("resources/updated", &format!("{{\"uri\":\"{uri}\",{}}}", meta(id)))
}

fn over(id: &str) -> String {
    result(id, &format!("{{\"resultType\":\"complete\",{}}}", meta(id)))
}

const BOTH: &str = r#"{"toolsListChanged":true,"resourceSubscriptions":["a:"]}"#;

fn records() -> Vec<String> {
    vec![
        c(listen("\"listen-1\"", BOTH)),
        s(acknowledged("\"listen-1\"", BOTH)),
        c(call("2", "grow")),
        s(result("2", DONE)),
        s(tools("\"listen-1\"")),
        s(updated("\"listen-1\"", "a:")),
        c(call("3", "end")),
        s(result("3", DONE)),
        s(over("\"listen-1\"")),
        // A result behind the last word of the client is taken to be its leaving.
        c(call("4", "later")),
        s(result("4", DONE)),
    ]
}

#[test]
fn r096_the_live_id_is_everywhere_and_only_what_was_asked_for_comes() {
    let sandbox = Sandbox::new();
    for id in ["7", "\"listen:0\"", "\"\\u00e9\""] {
        let mut client = sandbox.play(&records(), &[]);
        client.expect(&listen(id, BOTH), &acknowledged(id, BOTH));
        client.send(&call("8", "grow"));
        client.gets(&[result("8", DONE), tools(id), updated(id, "a:")]);
        client.send(&call("9", "end"));
        client.gets(&[result("9", DONE), over(id)]);
        assert_eq!(client.close(0).stderr, "");
    }
    // The filter is a set.
    let mut client = sandbox.play(&records(), &[]);
    let same = r#"{"promptsListChanged":false,"resourceSubscriptions":["a:","a:"],"toolsListChanged":true}"#;
    client.expect(&listen("1", same), &acknowledged("1", BOTH));
    client.close(0);
    // Less is acknowledged, and comes.
    let mut client = sandbox.play(&records(), &[]);
    let less = r#"{"resourceSubscriptions":["a:","b:"]}"#;
    client.expect(&listen("1", less), &acknowledged("1", r#"{"resourceSubscriptions":["a:"]}"#));
    client.send(&call("8", "grow"));
    client.gets(&[result("8", DONE), updated("1", "a:")]);
    client.close(0);
}

#[test]
fn r097_two_listens_on_one_pipe_are_told_apart() {
    let sandbox = Sandbox::new();
    let (one, other) = (r#"{"toolsListChanged":true}"#, r#"{"resourceSubscriptions":["a:"]}"#);
    let records = [
        c(listen("1", one)),
        s(acknowledged("1", one)),
        c(listen("2", other)),
        s(acknowledged("2", other)),
        c(call("3", "t")),
        s(result("3", DONE)),
        s(updated("2", "a:")),
        s(tools("1")),
        c(call("4", "u")),
        s(result("4", DONE)),
        s(updated("2", "a:")),
        s(tools("1")),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.expect(&listen("\"b\"", other), &acknowledged("\"b\"", other));
    client.expect(&listen("\"a\"", one), &acknowledged("\"a\"", one));
    client.send(&call("5", "t"));
    client.gets(&[result("5", DONE), updated("\"b\"", "a:"), tools("\"a\"")]);
    client.send(&cancelled("\"b\""));
    client.send(&call("6", "u"));
    client.gets(&[result("6", DONE), tools("\"a\"")]);
    client.nothing_comes();
    client.close(0);
}

#[test]
fn a_listen_that_nobody_recorded_is_acknowledged_and_held() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&[c(call("3", "t")), s(result("3", DONE))], &[]);
    client.expect(&listen("\"l\"", BOTH), &format!(r#"{{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{{{},"notifications":{{}}}}}}"#, meta("\"l\"")));
    client.expect(&call("4", "t"), &result("4", DONE));
    client.send(&cancelled("\"l\""));
    client.nothing_comes();
    client.close(0);
}

#[test]
fn a_repeated_listen_is_acknowledged_and_held() {
    let sandbox = Sandbox::new();
    // Recorded, this one ended by itself.
    let records = [
        c(listen("1", BOTH)),
        s(acknowledged("1", BOTH)),
        s(tools("1")),
        s(over("1")),
        c(call("3", "t")),
        s(result("3", DONE)),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.send(&listen("5", BOTH));
    client.gets(&[acknowledged("5", BOTH), tools("5"), over("5")]);
    client.expect(&listen("6", BOTH), &acknowledged("6", BOTH));
    client.expect(&call("7", "t"), &result("7", DONE));
    client.close(0);
}

#[test]
fn the_server_may_end_a_listen_by_cancelling_it() {
    let sandbox = Sandbox::new();
    let records = [
        c(listen("1", BOTH)),
        s(acknowledged("1", BOTH)),
        c(call("3", "t")),
        s(result("3", DONE)),
        s(cancelled("1")),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.ask(&listen("\"x\"", BOTH));
    client.send(&call("7", "t"));
    client.gets(&[result("7", DONE), cancelled("\"x\"")]);
    client.close(0);
}

#[test]
fn a_result_that_came_when_the_client_left_comes_when_it_leaves() {
    let sandbox = Sandbox::new();
    let records = [
        c(listen("1", BOTH)),
        s(acknowledged("1", BOTH)),
        c(call("3", "t")),
        s(result("3", DONE)),
        s(over("1")),
    ];
    // However the server's own end was seen.
    for processes in ["", r#""processes":[{"server":"demo","exit":{"code":0},"ended":"server_exited"}],"#] {
        sandbox.tape_with(processes, &records);
        let mut client = sandbox.serve(&[]);
        client.ask(&listen("\"x\"", BOTH));
        client.ask(&call("7", "t"));
        assert_eq!(client.close(0).rest, [over("\"x\"")]);
    }
}

#[test]
fn a_recorded_session_of_the_demo_server_replays() {
    let sandbox = Sandbox::new();
    let filter = r#"{"toolsListChanged":true}"#;
    let mut client = sandbox
        .mcpreel([
            "record",
            "-q",
            "--cassette",
            "c.json",
            "--server",
            "demo",
            "--",
            crate::support::MCPREEL,
            "demo",
            "server",
        ])
        .start();
    let session = |client: &mut crate::support::Client| {
        let mut got = vec![client.ask(&listen("1", filter)), client.ask(&call("2", "grow"))];
        got.push(client.next());
        got
    };
    let recorded = session(&mut client);
    let recorded_end = client.close(0).rest;
    let mut client = sandbox.serve(&[]);
    assert_eq!(session(&mut client), recorded);
    assert_eq!(client.close(0).rest, recorded_end);
    assert_eq!(recorded_end.len(), 1);
}
