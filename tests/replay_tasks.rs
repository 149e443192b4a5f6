//! Tasks of both designs: the core one of 2025-11-25 and the extension of 2026-07-28.

use serde_json::Value;

use crate::support::replay::{c, cancelled, fault_on, handshake, notification, request, result, s, said};
use crate::support::{Client, Sandbox, modern};

const ABLE: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
const ACK: &str = r#"{"resultType":"complete"}"#;

fn job(id: &str) -> String {
    modern(id, "tools/call", r#""name":"job","arguments":{}"#, ABLE)
}

fn about(id: &str, method: &str, task: &str, more: &str) -> String {
    modern(id, method, &format!(r#""taskId":"{task}"{more}"#), ABLE)
}

fn get(id: &str, task: &str) -> String {
    about(id, "tasks/get", task, "")
}

fn update(id: &str, task: &str, responses: &str) -> String {
    about(id, "tasks/update", task, &format!(r#","inputResponses":{responses}"#))
}

/// A task object of the extension as the server dates it, `more` in front.
fn task(kind: &str, id: &str, status: &str, updated: u32, more: &str) -> String {
    format!(
        r#"{{"resultType":"{kind}","taskId":"{id}","status":"{status}","createdAt":"2026-11-29T20:33:00.000Z","lastUpdatedAt":"2026-11-29T20:33:{updated:02}.000Z","ttlMs":60000,"pollIntervalMs":5{more}}}"#
    )
}

const QUESTIONS: &str = r#","inputRequests":{"a":{"method":"elicitation/create","params":{"message":"?"}},"b":{"method":"roots/list"}}"#;
const QUESTION_B: &str = r#","inputRequests":{"b":{"method":"roots/list"}}"#;
const RESULT: &str = r#","result":{"resultType":"complete","content":[{"type":"text","text":"the end"}]}"#;
const ACCEPT: &str = r#""a":{"action":"accept","content":{}}"#;
const ROOTS: &str = r#""b":{"roots":[]}"#;

/// Working, asking for two answers that come one by one, done.
fn asking() -> Vec<String> {
    vec![
        c(job("1")),
        s(result("1", &task("task", "t-1", "working", 0, ""))),
        c(get("2", "t-1")),
        s(result("2", &task("complete", "t-1", "working", 1, ""))),
        c(get("3", "t-1")),
        s(result("3", &task("complete", "t-1", "input_required", 2, QUESTIONS))),
        c(update("4", "t-1", &format!("{{{ACCEPT}}}"))),
        s(result("4", ACK)),
        c(get("5", "t-1")),
        s(result("5", &task("complete", "t-1", "input_required", 3, QUESTION_B))),
        c(update("6", "t-1", &format!("{{{ROOTS}}}"))),
        s(result("6", ACK)),
        c(get("7", "t-1")),
        s(result("7", &task("complete", "t-1", "working", 4, ""))),
        c(get("8", "t-1")),
        s(result("8", &task("complete", "t-1", "completed", 5, RESULT))),
    ]
}

/// Working twice, done.
fn plain() -> Vec<String> {
    vec![
        c(job("1")),
        s(result("1", &task("task", "t-1", "working", 0, ""))),
        c(get("2", "t-1")),
        s(result("2", &task("complete", "t-1", "working", 1, r#","statusMessage":"half""#))),
        c(get("3", "t-1")),
        s(result("3", &task("complete", "t-1", "working", 2, r#","statusMessage":"half""#))),
        c(get("4", "t-1")),
        s(result("4", &task("complete", "t-1", "completed", 3, RESULT))),
    ]
}

#[track_caller]
fn asks(client: &mut Client, line: &str) -> Value {
    let answer: Value = serde_json::from_str(&client.ask(line)).unwrap();
    assert!(answer.get("error").is_none(), "{answer}");
    answer["result"].clone()
}

/// A date in seconds since 1970.
fn seconds(value: &Value) -> i64 {
    mcpreel::cassette::clock::parse(value.as_str().unwrap()).unwrap() / 1_000_000
}

#[test]
fn r101_a_task_completes_within_its_distinct_states_and_stays() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&plain(), &["--require-all-used", "--report", "r.jsonl"]);
    assert_eq!(asks(&mut client, &job("1"))["resultType"], "task");
    let first = asks(&mut client, &get("2", "t-1"));
    assert_eq!((&first["resultType"], &first["statusMessage"]), (&"complete".into(), &"half".into()));
    for _ in 0..4 {
        let done = asks(&mut client, &get("3", "t-1"));
        assert_eq!((&done["status"], &done["resultType"]), (&"completed".into(), &"complete".into()));
        assert_eq!(done["result"]["content"][0]["text"], "the end");
    }
    assert_eq!(client.close(0).stderr, "");
    assert!(sandbox.read("r.jsonl").contains(r#""unused":[]"#));
}

#[test]
fn r101_a_recorded_task_of_the_demo_server_replays() {
    let sandbox = Sandbox::new();
    let capabilities = r#"{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    let make = modern("1", "tools/call", r#""name":"job","arguments":{"steps":2}"#, capabilities);
    let poll = |id: &str| modern(id, "tasks/get", r#""taskId":"task-1""#, capabilities);
    let recorded = sandbox.record_demo("c.json", &[&make, &poll("2"), &poll("3")]);
    let (replayed, ended) = sandbox.replay("c.json", &[&make, &poll("2"), &poll("3")], 0);
    let undated = |lines: &[String]| {
        let undate = |line: &String| {
            let mut value: Value = serde_json::from_str(line).unwrap();
            for date in ["createdAt", "lastUpdatedAt"] {
                value["result"][date] = Value::Null;
            }
            value
        };
        lines.iter().map(undate).collect::<Vec<_>>()
    };
    assert_eq!(undated(&replayed), undated(&recorded));
    assert_eq!(ended.stderr, "");
}

#[test]
fn r102_a_task_asks_until_it_has_every_answer() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&asking(), &[]);
    client.ask(&job("1"));
    assert_eq!(asks(&mut client, &get("2", "t-1"))["status"], "input_required");
    for _ in 0..2 {
        let asking = asks(&mut client, &get("3", "t-1"));
        assert_eq!(asking["inputRequests"].as_object().unwrap().len(), 2);
    }
    client.expect(&update("4", "t-1", r#"{"unknown":{}}"#), &result("4", ACK));
    assert_eq!(asks(&mut client, &get("3", "t-1"))["inputRequests"].as_object().unwrap().len(), 2);
    // In another order than recorded.
    client.expect(&update("4", "t-1", &format!("{{{ROOTS}}}")), &result("4", ACK));
    let rest = asks(&mut client, &get("5", "t-1"));
    assert_eq!(rest["status"], "input_required");
    assert_eq!(rest["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), ["a"]);
    client.expect(&update("6", "t-1", &format!("{{{ACCEPT}}}")), &result("6", ACK));
    assert_eq!(asks(&mut client, &get("7", "t-1"))["status"], "working");
    assert_eq!(asks(&mut client, &get("8", "t-1"))["status"], "completed");
    client.close(0);
    // All at once.
    let mut client = sandbox.play(&asking(), &[]);
    client.ask(&job("1"));
    client.ask(&get("2", "t-1"));
    client.expect(&update("4", "t-1", &format!("{{{ROOTS},{ACCEPT}}}")), &result("4", ACK));
    assert_eq!(asks(&mut client, &get("5", "t-1"))["status"], "working");
    assert_eq!(asks(&mut client, &get("6", "t-1"))["status"], "completed");
    client.close(0);
}

#[test]
fn r102_an_answer_that_differs_from_the_recorded_one_is_a_miss() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&asking(), &[]);
    client.ask(&job("1"));
    client.ask(&get("2", "t-1"));
    client.fails(&update("3", "t-1", r#"{"a":{"action":"decline"}}"#), -31001);
    assert_eq!(asks(&mut client, &get("4", "t-1"))["inputRequests"].as_object().unwrap().len(), 2);
    client.close(3);
}

#[test]
fn r103_a_live_task_is_dated_now() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&plain(), &[]);
    let now = mcpreel::cassette::clock::now() / 1_000_000;
    let made = asks(&mut client, &job("1"));
    let created = seconds(&made["createdAt"]);
    assert!((created - now).abs() < 60, "{made}");
    for _ in 0..3 {
        let state = asks(&mut client, &get("2", "t-1"));
        assert_eq!(state["createdAt"], made["createdAt"]);
        assert!(seconds(&state["lastUpdatedAt"]) >= created, "{state}");
    }
    client.close(0);
}

#[test]
fn r104_a_task_made_twice_is_two_tasks() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&plain(), &["--repeat", "last"]);
    let ids: Vec<String> =
        (0..3).map(|_| asks(&mut client, &job("1"))["taskId"].as_str().unwrap().to_owned()).collect();
    assert_eq!(ids[0], "t-1");
    assert!(ids[1] != ids[0] && ids[2] != ids[1] && ids[2] != ids[0], "{ids:?}");
    assert_eq!(asks(&mut client, &get("2", &ids[1]))["statusMessage"], "half");
    assert_eq!(asks(&mut client, &get("3", &ids[1]))["status"], "completed");
    let other = asks(&mut client, &get("4", &ids[0]));
    assert_eq!((&other["taskId"], &other["statusMessage"]), (&ids[0].as_str().into(), &"half".into()));
    assert_eq!(asks(&mut client, &get("4", &ids[2]))["taskId"], ids[2].as_str());
    client.close(0);
}

#[test]
fn r104_two_recorded_tasks_of_one_name_are_two_timelines() {
    let sandbox = Sandbox::new();
    let second = |record: &String| {
        crate::support::replay::on(1, &record.replace("half", "other").replace("the end", "another end"))
    };
    let mut records = plain();
    records.extend(plain().iter().map(second));
    let mut client = sandbox.play(&records, &[]);
    let one = asks(&mut client, &job("1"))["taskId"].as_str().unwrap().to_owned();
    let two = asks(&mut client, &job("2"))["taskId"].as_str().unwrap().to_owned();
    assert_ne!(one, two);
    for (id, half, end) in [(&two, "other", "another end"), (&one, "half", "the end")] {
        assert_eq!(asks(&mut client, &get("3", id))["statusMessage"], half);
        let done = asks(&mut client, &get("4", id));
        assert_eq!(done["result"]["content"][0]["text"], end);
    }
    client.close(0);
}

/// The core design: a task whose result is asked for, with a question on the way.
fn core() -> Vec<String> {
    let object = |status: &str, n: u32| {
        format!(
            r#"{{"taskId":"k-1","status":"{status}","createdAt":"2026-11-29T20:33:00.000Z","lastUpdatedAt":"2026-11-29T20:33:{n:02}.000Z","ttl":60000,"pollInterval":5}}"#
        )
    };
    let mut records = handshake();
    records.extend([
        c(core_job("1")),
        s(result("1", &format!(r#"{{"task":{}}}"#, object("working", 0)))),
        c(request("2", "tasks/get", r#"{"taskId":"k-1"}"#)),
        s(result("2", &object("working", 1))),
        c(request("3", "tasks/get", r#"{"taskId":"k-1"}"#)),
        s(result("3", &object("input_required", 2))),
        c(request("4", "tasks/result", r#"{"taskId":"k-1"}"#)),
        s(request("0", "elicitation/create", &format!(r#"{{"message":"?",{RELATED}}}"#))),
        c(result("0", r#"{"action":"accept","content":{}}"#)),
        s(result("4", &format!(r#"{{"content":[],{RELATED}}}"#))),
        c(request("5", "tasks/get", r#"{"taskId":"k-1"}"#)),
        s(result("5", &object("completed", 4))),
    ]);
    records
}

const RELATED: &str = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"k-1"}}"#;

fn core_job(id: &str) -> String {
    request(id, "tools/call", r#"{"name":"job","arguments":{},"task":{"ttl":60000}}"#)
}

fn core_about(id: &str, method: &str, task: &str) -> String {
    request(id, method, &format!(r#"{{"taskId":"{task}"}}"#))
}

#[test]
fn a_result_that_was_not_recorded_is_a_miss() {
    let sandbox = Sandbox::new();
    let made = handshake().len() + 2;
    let mut client = sandbox.play(&core()[..made], &[]);
    client.greet(r#"{"elicitation":{}}"#);
    let task = asks(&mut client, &core_job("1"));
    let id = task["task"]["taskId"].as_str().unwrap();
    client.fails(&core_about("2", "tasks/result", id), -31002);
    assert!(client.close(3).stderr.contains("this task's result was not recorded"));
}

#[test]
fn r105_the_result_may_be_asked_for_at_once_and_brings_the_question() {
    let sandbox = Sandbox::new();
    for runs in [1, 2] {
        let mut client = sandbox.play(&core(), &["--repeat", "last"]);
        client.greet(r#"{"elicitation":{}}"#);
        let mut id = String::new();
        for run in 0..runs {
            // Another time to live is the same request.
            let made = asks(&mut client, &core_job("1").replace("60000", "5000"));
            made["task"]["taskId"].as_str().unwrap().clone_into(&mut id);
            let related = RELATED.replace("k-1", &id);
            client.expect(
                &core_about("\"r\"", "tasks/result", &id),
                &request(&run.to_string(), "elicitation/create", &format!(r#"{{"message":"?",{related}}}"#)),
            );
            client.nothing_comes();
            client.expect(
                &result(&run.to_string(), r#"{"action":"accept","content":{}}"#),
                &result("\"r\"", &format!(r#"{{"content":[],{related}}}"#)),
            );
            assert_eq!(asks(&mut client, &core_about("3", "tasks/get", &id))["status"], "completed");
        }
        client.close(0);
    }
}

#[test]
fn r105_a_core_task_goes_on_once_its_question_is_answered() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&core(), &[]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&core_job("1"));
    for _ in 0..3 {
        let state = asks(&mut client, &core_about("2", "tasks/get", "k-1"));
        assert_eq!(state["status"], "input_required");
    }
    client.ask(&core_about("4", "tasks/result", "k-1"));
    client.ask(&result("0", r#"{"action":"accept","content":{}}"#));
    let list = asks(&mut client, &request("5", "tasks/list", "{}"));
    assert_eq!(list["tasks"][0]["status"], "completed");
    client.close(0);
}

#[test]
fn a_call_without_a_task_is_another_request() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&core(), &[]);
    client.greet("{}");
    client.fails(&request("1", "tools/call", r#"{"name":"job","arguments":{}}"#), -31001);
    client.close(3);
}

#[test]
fn the_list_of_tasks_is_that_of_the_live_ones() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&core(), &["--repeat", "last"]);
    client.greet(r#"{"elicitation":{}}"#);
    assert_eq!(asks(&mut client, &request("5", "tasks/list", "{}"))["tasks"].as_array().unwrap().len(), 0);
    for n in 1..3 {
        client.ask(&core_job("1"));
        let list = asks(&mut client, &request("5", "tasks/list", "{}"));
        assert_eq!(list["tasks"].as_array().unwrap().len(), n);
    }
    client.close(0);
}

#[test]
fn r106_a_task_may_be_cancelled_whether_that_was_recorded_or_not() {
    // Extension, not recorded.
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&plain(), &[]);
    client.ask(&job("1"));
    client.expect(&about("2", "tasks/cancel", "t-1", ""), &result("2", ACK));
    for _ in 0..2 {
        let state = asks(&mut client, &get("3", "t-1"));
        assert_eq!(state["status"], "cancelled");
        assert!(state.get("result").is_none(), "{state}");
    }
    // Terminal: acknowledged all the same.
    client.expect(&about("4", "tasks/cancel", "t-1", ""), &result("4", ACK));
    client.close(0);
    // Extension, recorded.
    let records = [
        c(job("1")),
        s(result("1", &task("task", "t-1", "working", 0, ""))),
        c(about("2", "tasks/cancel", "t-1", "")),
        s(result("2", r#"{"resultType":"complete","_meta":{"n":1}}"#)),
        c(get("3", "t-1")),
        s(result("3", &task("complete", "t-1", "cancelled", 3, r#","statusMessage":"as asked""#))),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.ask(&job("1"));
    assert_eq!(asks(&mut client, &get("3", "t-1"))["status"], "working");
    client.expect(
        &about("4", "tasks/cancel", "t-1", ""),
        &result("4", r#"{"resultType":"complete","_meta":{"n":1}}"#),
    );
    assert_eq!(asks(&mut client, &get("5", "t-1"))["statusMessage"], "as asked");
    client.close(0);
    // Core: the answer is the task, and a second time is an error.
    let mut client = sandbox.play(&core(), &[]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&core_job("1"));
    assert_eq!(asks(&mut client, &core_about("2", "tasks/cancel", "k-1"))["status"], "cancelled");
    client.fails(&core_about("3", "tasks/cancel", "k-1"), -32602);
    assert_eq!(asks(&mut client, &core_about("4", "tasks/get", "k-1"))["status"], "cancelled");
    // What was recorded is the result of a task that went on.
    client.fails(&core_about("5", "tasks/result", "k-1"), -31001);
    assert!(client.close(3).stderr.contains("this task was cancelled, which it was not when recorded"));
    // One that has ended by itself.
    let mut client = sandbox.play(&core(), &[]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&core_job("1"));
    client.ask(&core_about("2", "tasks/result", "k-1"));
    client.ask(&result("0", r#"{"action":"accept","content":{}}"#));
    client.fails(&core_about("3", "tasks/cancel", "k-1"), -32602);
    client.close(0);
}

#[test]
fn r106_what_nobody_recorded_of_cancelling_is_told_as_answered_by_rule() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&plain(), &["--report", "r.jsonl"]);
    client.ask(&job("1"));
    client.expect(&about("2", "tasks/cancel", "t-1", ""), &result("2", ACK));
    assert_eq!(asks(&mut client, &get("3", "t-1"))["status"], "cancelled");
    client.close(0);
    let row: Value = serde_json::from_str(&sandbox.read("r.jsonl")).unwrap();
    assert_eq!(row["unrecorded"], serde_json::json!(["tasks/cancel \"t-1\"", "tasks/get \"t-1\""]));
    assert_eq!((&row["hits"], &row["misses"]), (&1.into(), &serde_json::json!([])));
}

/// An error with `data`, as the server of a job that cannot be stopped says it.
fn refusal(id: &str, text: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":-32602,"message":"{text}","data":{{"job":17}}}}}}"#
    )
}

#[test]
fn r106_a_recorded_refusal_to_cancel_is_the_answer_and_the_task_goes_on() {
    let sandbox = Sandbox::new();
    for before in [0, 1] {
        let mut records = plain();
        let cancel = |id: &str| about(id, "tasks/cancel", "t-1", "");
        records.splice(4..4, [c(cancel("7")), s(refusal("7", "it has begun"))]);
        records.extend([c(cancel("8")), s(refusal("8", "it is done"))]);
        let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
        client.ask(&job("1"));
        for _ in 0..before {
            client.ask(&get("2", "t-1"));
        }
        client.expect(&cancel("3"), &refusal("3", "it has begun"));
        client.expect(&cancel("4"), &refusal("4", "it is done"));
        client.expect(&cancel("5"), &refusal("5", "it is done"));
        for _ in before..3 {
            client.ask(&get("6", "t-1"));
        }
        assert_eq!(asks(&mut client, &get("6", "t-1"))["status"], "completed");
        client.close(0);
        assert!(sandbox.read("r.jsonl").contains(r#""unrecorded":[]"#));
        std::fs::remove_file(sandbox.path.join("r.jsonl")).unwrap();
    }
    // Core: a task that is over, with the server's own words.
    let mut records = core();
    records.extend([c(core_about("6", "tasks/cancel", "k-1")), s(refusal("6", "it is done"))]);
    let mut client = sandbox.play(&records, &[]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&core_job("1"));
    client.ask(&core_about("2", "tasks/result", "k-1"));
    client.ask(&result("0", r#"{"action":"accept","content":{}}"#));
    client.expect(&core_about("3", "tasks/cancel", "k-1"), &refusal("3", "it is done"));
    client.close(0);
}

#[test]
fn an_error_that_a_poll_or_an_update_got_is_given_again() {
    let sandbox = Sandbox::new();
    let mut records = plain();
    records.splice(4..4, [c(get("7", "t-1")), s(refusal("7", "busy"))]);
    let mut client = sandbox.play(&records, &[]);
    client.ask(&job("1"));
    assert_eq!(asks(&mut client, &get("2", "t-1"))["statusMessage"], "half");
    client.expect(&get("3", "t-1"), &refusal("3", "busy"));
    assert_eq!(asks(&mut client, &get("4", "t-1"))["statusMessage"], "half");
    assert_eq!(asks(&mut client, &get("4", "t-1"))["status"], "completed");
    client.close(0);
    let records = [
        c(job("1")),
        s(result("1", &task("task", "t-1", "input_required", 0, QUESTIONS))),
        c(update("2", "t-1", &format!("{{{ROOTS}}}"))),
        s(refusal("2", "no such root")),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.ask(&job("1"));
    client.expect(&update("3", "t-1", &format!("{{{ROOTS}}}")), &refusal("3", "no such root"));
    assert_eq!(asks(&mut client, &get("4", "t-1"))["status"], "input_required");
    client.close(0);
}

#[test]
fn r107_a_client_without_the_extension_gets_no_task() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&plain(), &[]);
    assert_eq!(
        client.ask(&modern("1", "tools/call", r#""name":"job","arguments":{}"#, "{}")),
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32021,"message":"the client does not declare extensions.io.modelcontextprotocol/tasks","data":{"requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}}}}"#
    );
    client.close(0);
}

#[test]
fn r108_an_unknown_task_is_an_invalid_parameter() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&plain(), &[]);
    client.ask(&job("1"));
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        client.fails(&about("2", method, "t-9", ""), -32602);
    }
    client.close(0);
    let mut client = sandbox.play(&core(), &[]);
    client.greet("{}");
    for method in ["tasks/get", "tasks/result", "tasks/cancel"] {
        client.fails(&core_about("2", method, "k-9"), -32602);
    }
    client.close(0);
}

#[test]
fn a_task_that_was_announced_is_announced_to_those_who_listen() {
    let sandbox = Sandbox::new();
    let listen = |id: &str, task: &str| {
        modern(id, "subscriptions/listen", &format!(r#""notifications":{{"taskIds":["{task}"]}}"#), ABLE)
    };
    let meta = |id: &str| format!(r#""_meta":{{"io.modelcontextprotocol/subscriptionId":{id}}}"#);
    let state = |status: &str, n: u32, more: &str| {
        let object = task("x", "t-1", status, n, more);
        object.replacen(r#""resultType":"x","#, "", 1)
    };
    let announce = |listen: &str, status: &str, n: u32, more: &str| {
        notification("tasks", &state(status, n, more).replacen('{', &format!("{{{},", meta(listen)), 1))
    };
    let ack = |id: &str| {
        notification(
            "subscriptions/acknowledged",
            &format!(r#"{{{},"notifications":{{"taskIds":["t-1"]}}}}"#, meta(id)),
        )
    };
    let records = [
        c(job("1")),
        s(result("1", &task("task", "t-1", "working", 0, ""))),
        c(listen("2", "t-1")),
        s(ack("2")),
        s(announce("2", "working", 1, r#","statusMessage":"half""#)),
        s(announce("2", "completed", 2, RESULT)),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.ask(&job("1"));
    client.expect(&listen("\"l\"", "t-1"), &ack("\"l\""));
    let half = client.next();
    assert!(half.contains(r#""statusMessage":"half""#) && half.contains(&meta("\"l\"")), "{half}");
    let done = client.next();
    assert!(done.contains(r#""status":"completed""#) && done.contains("the end"), "{done}");
    let polled = asks(&mut client, &get("5", "t-1"));
    assert_eq!((&polled["status"], &polled["resultType"]), (&"completed".into(), &"complete".into()));
    client.send(&cancelled("\"l\""));
    client.nothing_comes();
    client.close(0);
    // Nobody listens: polls see the same states.
    let mut client = sandbox.play(&records, &[]);
    client.ask(&job("1"));
    let states: Vec<Value> = (0..2).map(|_| asks(&mut client, &get("5", "t-1"))["status"].clone()).collect();
    assert_eq!(states.last().unwrap(), "completed");
    client.close(0);
}

#[test]
fn what_followed_a_poll_is_not_lost() {
    let sandbox = Sandbox::new();
    let changed = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;
    let mut records = core();
    records.push(s(changed));
    records.extend([c(crate::support::replay::call("9", "t", "{}")), s(said("9", "x"))]);
    let mut client = sandbox.play(&records, &[]);
    client.greet(r#"{"elicitation":{}}"#);
    client.ask(&core_job("1"));
    client.ask(&core_about("2", "tasks/result", "k-1"));
    client.ask(&result("0", r#"{"action":"accept","content":{}}"#));
    client.send(&core_about("3", "tasks/get", "k-1"));
    assert!(client.next().contains("completed"));
    assert_eq!(client.next(), changed);
    client.close(0);
}

#[test]
fn a_task_whose_creation_was_refused_is_created_when_asked_again() {
    let sandbox = Sandbox::new();
    sandbox.faults(&[fault_on("job", "error", "{}").replace("\"name\":", "\"nth\":1,\"name\":")]);
    let options = ["--faults", "f.json", "--require-faults", "--require-all-used"];
    let mut client = sandbox.play(&plain(), &options);
    client.fails(&job("1"), -32603);
    assert_eq!(asks(&mut client, &job("3"))["taskId"], "t-1");
    assert_eq!(asks(&mut client, &get("4", "t-1"))["status"], "working");
    assert_eq!(asks(&mut client, &get("5", "t-1"))["status"], "completed");
    client.close(0);
}
