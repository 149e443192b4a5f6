//! Tasks in both designs.

use serde_json::{Value, json};

use super::{Client, able, accepted, text};

fn job(steps: u64) -> Value {
    json!({"name": "job", "arguments": {"steps": steps}, "task": {"ttl": 5000}})
}

fn named(id: &str) -> Value {
    json!({"taskId": id})
}

#[test]
fn a_legacy_task_moves_by_polls() {
    let mut client = Client::able_legacy();
    let mut call = job(3);
    call["_meta"] = json!({"progressToken": "p"});
    let created = client.ask("tools/call", call)["result"]["task"].clone();
    assert_eq!((&created["taskId"], &created["status"]), (&json!("task-1"), &json!("working")));
    assert_eq!((&created["ttl"], &created["createdAt"]), (&json!(5000), &created["lastUpdatedAt"]));
    for (done, status) in [(1, "working"), (2, "working"), (3, "completed")] {
        let id = client.request("tasks/get", named("task-1"));
        let progress = client.next();
        let got = (&progress["params"]["progressToken"], &progress["params"]["progress"]);
        assert_eq!(got, (&json!("p"), &json!(done)));
        let task = client.next();
        assert_eq!((&task["id"], &task["result"]["status"]), (&json!(id), &json!(status)));
        assert_eq!(task["result"]["statusMessage"], format!("step {done} of 3"));
    }
    let status = client.next();
    assert_eq!(status["method"], "notifications/tasks/status");
    assert_eq!(
        (&status["params"]["taskId"], &status["params"]["status"]),
        (&json!("task-1"), &json!("completed"))
    );
    assert_eq!(client.ask("tasks/get", named("task-1"))["result"]["status"], "completed");
    for _ in 0..2 {
        let result = client.ask("tasks/result", named("task-1"));
        assert_eq!(text(&result), "finished 3 steps");
        let related = json!({"io.modelcontextprotocol/related-task": {"taskId": "task-1"}});
        assert_eq!(result["result"]["_meta"], related);
    }
    assert_eq!(client.ask("tasks/cancel", named("task-1"))["error"]["code"], -32602);
    client.end_quietly();
}

#[test]
fn a_legacy_result_needs_no_poll() {
    let mut client = Client::able_legacy();
    client.ask("tools/call", job(9));
    assert_eq!(text(&client.ask("tasks/result", named("task-1"))), "finished 9 steps");
    assert_eq!(client.next()["method"], "notifications/tasks/status");
}

#[test]
fn legacy_tasks_are_listed_and_cancelled() {
    let mut client = Client::able_legacy();
    client.ask("tools/call", job(2));
    client.ask("tools/call", job(2));
    let cancelled = client.ask("tasks/cancel", named("task-2"));
    assert_eq!(cancelled["result"]["status"], "cancelled");
    assert_eq!(client.next()["params"]["status"], "cancelled");
    let listed = client.ask("tasks/list", json!({}));
    let states: Vec<(&Value, &Value)> = listed["result"]["tasks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|task| (&task["taskId"], &task["status"]))
        .collect();
    assert_eq!(states, [(&json!("task-1"), &json!("working")), (&json!("task-2"), &json!("cancelled"))]);
    for method in ["tasks/result", "tasks/cancel"] {
        assert_eq!(client.ask(method, named("task-2"))["error"]["code"], -32602);
    }
    let other = json!({"name": "echo", "arguments": {"text": "x"}, "task": {}});
    assert_eq!(client.ask("tools/call", other)["error"]["code"], -32601);
}

#[test]
fn older_revisions_ignore_the_task() {
    let mut client = Client::legacy("2025-06-18", &able());
    assert_eq!(text(&client.ask("tools/call", job(2))), "finished 2 steps");
}

#[test]
fn a_modern_task_asks_on_its_way() {
    let mut client = Client::modern(&able());
    let created = client.call("job", &json!({"steps": 3}))["result"].clone();
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")));
    assert!(created["ttlMs"].is_u64() && created["pollIntervalMs"].is_u64());
    let get = |client: &mut Client| client.ask("tasks/get", named("task-1"))["result"].clone();
    let update = |client: &mut Client, responses: Value| {
        let mut params = named("task-1");
        params["inputResponses"] = responses;
        let answer = client.ask("tasks/update", params);
        assert_eq!(answer["result"]["resultType"], "complete");
    };
    assert_eq!(get(&mut client)["statusMessage"], "step 1 of 3");
    for _ in 0..2 {
        let asking = get(&mut client);
        assert_eq!(asking["status"], "input_required");
        let keys: Vec<&String> = asking["inputRequests"].as_object().unwrap().keys().collect();
        assert_eq!(keys, ["confirm", "note"]);
    }
    update(&mut client, json!({"confirm": {"action": "decline"}, "unknown": {}}));
    let keys = get(&mut client)["inputRequests"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
    assert_eq!(keys, ["note"]);
    update(&mut client, json!({"note": accepted(&json!({"note": "n"}))}));
    assert_eq!(get(&mut client)["statusMessage"], "step 2 of 3");
    for _ in 0..2 {
        let done = get(&mut client);
        assert_eq!((&done["status"], &done["resultType"]), (&json!("completed"), &json!("complete")));
        let said = done["result"]["content"][0]["text"].as_str().unwrap();
        assert!(said.starts_with("finished 3 steps; confirm: {") && said.contains("; note: {"), "{said}");
    }
    client.end_quietly();
}

#[test]
fn modern_tasks_need_the_extension() {
    let mut client = Client::modern(&json!({"elicitation": {}}));
    assert_eq!(text(&client.call("job", &json!({"steps": 3}))), "finished 3 steps");
    for method in ["tasks/get", "tasks/cancel", "tasks/update"] {
        let error = client.ask(method, json!({"taskId": "task-1", "inputResponses": {}}))["error"].clone();
        assert_eq!(error["code"], -32021, "{method}");
        let required = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
        assert_eq!(error["data"]["requiredCapabilities"], required);
    }
}

#[test]
fn a_modern_task_without_forms_does_not_ask() {
    let mut client = Client::modern(&json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}));
    client.call("job", &json!({"steps": 3}));
    let states: Vec<Value> =
        (0..3).map(|_| client.ask("tasks/get", named("task-1"))["result"]["status"].clone()).collect();
    assert_eq!(states, ["working", "working", "completed"]);
}

#[test]
fn modern_tasks_are_cancelled_and_watched() {
    let mut client = Client::modern(&able());
    client.call("job", &json!({"steps": 2}));
    client.request("subscriptions/listen", json!({"notifications": {"taskIds": ["task-1", "task-9"]}}));
    assert_eq!(client.next()["params"]["notifications"], json!({"taskIds": ["task-1"]}));
    client.ask("tasks/get", named("task-1"));
    let moved = client.next();
    assert_eq!(
        (&moved["method"], &moved["params"]["status"]),
        (&json!("notifications/tasks"), &json!("working"))
    );
    assert_eq!(client.ask("tasks/cancel", named("task-1"))["result"]["resultType"], "complete");
    assert_eq!(client.next()["params"]["status"], "cancelled");
    // Once more is no error here, and no news.
    assert_eq!(client.ask("tasks/cancel", named("task-1"))["result"]["resultType"], "complete");
    assert_eq!(client.ask("tasks/get", named("task-1"))["result"]["status"], "cancelled");
    // The designs do not see each other's tasks.
    client.meta = Value::Null;
    client.ask("initialize", json!({"protocolVersion": "2025-11-25", "capabilities": {}}));
    assert_eq!(client.ask("tasks/get", named("task-1"))["error"]["code"], -32602);
}
