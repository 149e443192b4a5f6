//! The demo server over HTTP, in both eras.

use super::support::replay::{call, call_with_progress, request, result};
use super::support::web::Endpoint;
use super::support::{Sandbox, eventually, modern};

#[track_caller]
fn demo(sandbox: &Sandbox) -> Endpoint {
    sandbox.listen(["demo", "server", "--listen", "127.0.0.1:0"])
}

fn tool(id: &str, name: &str, arguments: &str) -> String {
    let params = format!("\"name\":\"{name}\",\"arguments\":{arguments}");
    modern(id, "tools/call", &params, r#"{"elicitation":{}}"#)
}

#[test]
fn modern_requests_stand_alone() {
    let sandbox = Sandbox::new();
    let server = demo(&sandbox);
    let found = server.modern(&modern("1", "server/discover", "", "{}")).expect(200);
    assert_eq!(found.header("content-type"), Some("application/json"));
    assert_eq!(found.header("mcp-session-id"), None);
    let echoed = server.modern(&tool("\"a\"", "echo", r#"{"text":"hi"}"#)).expect(200);
    assert!(echoed.body.contains("\"hi\""), "{}", echoed.body);
    let body =
        tool("7", "progress", r#"{"steps":2}"#).replacen("\"_meta\":{", "\"_meta\":{\"progressToken\":1,", 1);
    let answer = server.modern(&body).expect(200);
    assert_eq!(answer.header("content-type"), Some("text/event-stream"));
    assert_eq!(answer.events().len(), 3);
    server.modern(&modern("1", "nosuch", "", "{}")).fails(404, -32601);
    server.post(&tool("1", "echo", r#"{"text":"hi"}"#), &[]).fails(400, -32020);
    server.end(0);
}

#[test]
fn modern_subscriptions_and_cancelling_by_leaving() {
    let sandbox = Sandbox::new();
    let server = demo(&sandbox);
    let filter = "\"notifications\":{\"toolsListChanged\":true}";
    let mut listen = server.modern_stream(&modern("1", "subscriptions/listen", filter, "{}"));
    assert!(listen.next().unwrap().contains("acknowledged"));
    server.modern(&tool("2", "grow", "{}")).expect(200);
    assert!(listen.next().unwrap().contains("tools/list_changed"));
    listen.close();
    let slow = tool("3", "slow", r#"{"ms":60000,"tag":"t"}"#);
    let slow = slow.replacen("\"_meta\":{", "\"_meta\":{\"progressToken\":1,", 1);
    std::thread::scope(|scope| {
        let other = scope.spawn(|| server.modern(&tool("4", "counter", "{}")).expect(200));
        other.join().unwrap();
    });
    server.begin(&slow).close();
    // A minute's sleep would hold up the end.
    let begun = std::time::Instant::now();
    server.end(0);
    assert!(begun.elapsed() < super::support::LONG / 4);
}

#[test]
fn a_legacy_session() {
    let sandbox = Sandbox::new();
    let server = demo(&sandbox);
    let client = server.greet(r#"{"elicitation":{}}"#);
    assert!(client.session.is_some());
    let list = request("1", "tools/list", "{}");
    server.post(&list, &[]).expect(400);
    server.post(&list, &[("Mcp-Session-Id", "made-up")]).expect(404);
    let mut events = client.get();
    client.get().whole().expect(409);
    client.post(&call("1", "grow", "{}")).expect(200);
    assert!(events.next().unwrap().contains("tools/list_changed"));
    let answer = client.post(
        &call_with_progress("2", "progress", "9").replace("\"arguments\":{}", "\"arguments\":{\"steps\":2}"),
    );
    assert_eq!(answer.expect(200).events().len(), 3);
    let mut stream = client.stream(&call("3", "ask", r#"{"message":"who?"}"#));
    let question = stream.next().unwrap();
    assert!(question.contains("elicitation/create"), "{question}");
    let asked: serde_json::Value = serde_json::from_str(&question).unwrap();
    client.post(&result(&asked["id"].to_string(), r#"{"action":"decline"}"#)).expect(202);
    assert!(stream.next().unwrap().contains("\"id\":3"));
    assert_eq!(stream.next(), None);
    client.delete().expect(200);
    assert_eq!(events.next(), None);
    client.post(&list).expect(404);
    drop(client);
    server.end(0);
}

#[test]
fn the_process_ends_when_a_tool_says_so() {
    let sandbox = Sandbox::new();
    let server = demo(&sandbox);
    let client = server.greet("{}");
    let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        client.post(&call("1", "exit", r#"{"code":7}"#))
    }));
    assert!(died.is_err());
    drop(client);
    eventually("the program ends", || server.has_ended());
    server.end(7);
}
