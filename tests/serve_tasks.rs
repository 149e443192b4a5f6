//! Tasks of both designs that were recorded over HTTP and are replayed over HTTP: the core one of 2025-11-25, and the
//! extension of 2026-07-28.

use serde_json::Value;

use super::support::replay::{call, request, result};
use super::support::web::{Endpoint, Legacy, Record, bare, c, s};
use super::support::{Sandbox, initialize, modern};

const ABLE: &str = r#"{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;

fn value(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A date in seconds since 1970.
fn seconds(value: &Value) -> i64 {
    mcpreel::cassette::clock::parse(value.as_str().unwrap()).unwrap() / 1_000_000
}

/// A result without what differs from run to run.
fn undated(mut result: Value) -> Value {
    for task in [&[][..], &["task"]] {
        let object = task.iter().try_fold(&mut result, |value, name| value.get_mut(*name));
        if let Some(object) = object.and_then(Value::as_object_mut) {
            object.retain(|name, _| !matches!(name.as_str(), "createdAt" | "lastUpdatedAt"));
        }
    }
    result
}

/// A client that polls, in either design.
enum Client<'e> {
    Core(Legacy<'e>),
    Extension(&'e Endpoint),
}

impl<'e> Client<'e> {
    fn both(server: &'e Endpoint) -> [Self; 2] {
        [Self::core(server), Self::Extension(server)]
    }

    fn core(server: &'e Endpoint) -> Self {
        Self::Core(server.greet(r#"{"elicitation":{}}"#))
    }

    fn answer(&self, method: &str, params: &str) -> Value {
        let answer = match self {
            Self::Core(client) => client.post(&request("1", method, &format!("{{{params}}}"))),
            Self::Extension(server) => server.modern(&modern("1", method, params, ABLE)),
        };
        value(&answer.expect(200).last())
    }

    #[track_caller]
    fn asks(&self, method: &str, params: &str) -> Value {
        let answer = self.answer(method, params);
        assert!(answer.get("error").is_none(), "{answer}");
        answer["result"].clone()
    }

    #[track_caller]
    fn fails(&self, method: &str, task: &str, code: i32) {
        let answer = self.answer(method, &format!(r#""taskId":"{task}""#));
        assert_eq!(answer["error"]["code"], code, "{method} {task}: {answer}");
    }

    /// Makes a task of so many steps; gives it as it is described.
    #[track_caller]
    fn job(&self, steps: u32) -> Value {
        let task = if matches!(self, Self::Core(_)) { r#","task":{"ttl":60000}"# } else { "" };
        let made = self.asks("tools/call", &format!(r#""name":"job","arguments":{{"steps":{steps}}}{task}"#));
        made.get("task").unwrap_or(&made).clone()
    }

    #[track_caller]
    fn about(&self, method: &str, task: &str) -> Value {
        self.asks(method, &format!(r#""taskId":"{task}""#))
    }

    #[track_caller]
    fn get(&self, task: &str) -> Value {
        self.about("tasks/get", task)
    }

    #[track_caller]
    fn update(&self, task: &str, responses: &str) {
        let done =
            self.asks("tasks/update", &format!(r#""taskId":"{task}","inputResponses":{{{responses}}}"#));
        assert_eq!(done["resultType"], "complete", "{done}");
    }

    #[track_caller]
    fn status(&self, task: &str) -> String {
        self.get(task)["status"].as_str().unwrap().to_owned()
    }

    /// Polls until the task has another status, no more often than any task here has states.
    #[track_caller]
    fn leaves(&self, task: &str, status: &str) -> String {
        let mut states = (0..5).map(|_| self.status(task));
        states.find(|state| state != status).unwrap_or_else(|| panic!("{task} stays {status}"))
    }

    #[track_caller]
    fn completes(&self, task: &str) {
        assert_eq!(self.leaves(task, "working"), "completed");
    }
}

fn id(task: &Value) -> String {
    task["taskId"].as_str().unwrap_or_else(|| panic!("{task}")).to_owned()
}

/// Makes a task of two steps and polls until it is over.
fn run(client: &Client<'_>) -> Vec<Value> {
    let made = client.job(2);
    let mut states = vec![made.clone()];
    while states.last().unwrap()["status"] != "completed" {
        assert!(states.len() < 4, "{states:?}");
        states.push(client.get(&id(&made)));
    }
    states
}

#[test]
fn r101_r103_a_task_completes_and_is_dated_now() {
    let sandbox = Sandbox::new();
    let recorded = sandbox.record_demo_http(|server| Client::both(server).map(|client| run(&client)));
    // Long ago.
    let text = sandbox.read("c.json");
    let year = &recorded[0][0]["createdAt"].as_str().unwrap()[..4];
    let old = ["createdAt", "lastUpdatedAt"].iter().fold(text, |text, name| {
        text.replace(&format!("\"{name}\": \"{year}"), &format!("\"{name}\": \"2019"))
    });
    assert!(old.contains("\"createdAt\": \"2019"), "{old}");
    sandbox.file("c.json", old);
    let server = sandbox.replay_http(&[]);
    let now = mcpreel::cassette::clock::now() / 1_000_000;
    let replayed = Client::both(&server).map(|client| run(&client));
    for (replayed, recorded) in replayed.iter().zip(&recorded) {
        let plain = |states: &[Value]| states.iter().cloned().map(undated).collect::<Vec<_>>();
        assert_eq!(plain(replayed), plain(recorded));
        let created = seconds(&replayed[0]["createdAt"]);
        assert!((created - now).abs() < 60, "{replayed:?}");
        for state in replayed {
            assert_eq!(state["createdAt"], replayed[0]["createdAt"]);
            assert!(seconds(&state["lastUpdatedAt"]) >= created, "{state}");
        }
    }
    server.end(0);
}

const CONFIRM: &str = r#""confirm":{"action":"accept","content":{"confirm":true}}"#;
const NOTE: &str = r#""note":{"action":"accept","content":{"note":"none"}}"#;

#[test]
fn r102_a_task_asks_until_it_has_every_answer() {
    let sandbox = Sandbox::new();
    let open = |client: &Client<'_>, task: &str| -> Vec<String> {
        let state = client.get(task);
        assert_eq!(state["status"], "input_required", "{state}");
        state["inputRequests"].as_object().unwrap().keys().cloned().collect()
    };
    let recorded = sandbox.record_demo_http(|server| {
        let client = Client::Extension(server);
        let task = id(&client.job(3));
        assert_eq!(client.status(&task), "working");
        assert_eq!(open(&client, &task), ["confirm", "note"]);
        client.update(&task, CONFIRM);
        assert_eq!(open(&client, &task), ["note"]);
        client.update(&task, NOTE);
        assert_eq!(client.status(&task), "working");
        let done = client.get(&task);
        assert_eq!(done["status"], "completed");
        undated(done)
    });
    // Another pace, another order, and an answer to what was not asked.
    let server = sandbox.replay_http(&["--repeat", "last"]);
    let client = Client::Extension(&server);
    let task = id(&client.job(3));
    client.leaves(&task, "working");
    for _ in 0..3 {
        assert_eq!(open(&client, &task), ["confirm", "note"]);
    }
    client.update(&task, r#""unknown":{"action":"decline"}"#);
    assert_eq!(open(&client, &task), ["confirm", "note"]);
    client.update(&task, NOTE);
    for _ in 0..2 {
        assert_eq!(open(&client, &task), ["confirm"]);
    }
    client.update(&task, CONFIRM);
    client.leaves(&task, "working");
    for _ in 0..2 {
        assert_eq!(undated(client.get(&task)), recorded);
    }
    // Both at once.
    let task = id(&client.job(3));
    client.leaves(&task, "working");
    client.update(&task, &format!("{NOTE},{CONFIRM}"));
    client.leaves(&task, "working");
    assert_eq!(client.status(&task), "completed");
    // What differs from the recorded answer is a miss.
    let task = id(&client.job(3));
    client.leaves(&task, "working");
    let declined = format!(r#""taskId":"{task}","inputResponses":{{"confirm":{{"action":"decline"}}}}"#);
    assert_eq!(client.answer("tasks/update", &declined)["error"]["code"], -31001);
    assert_eq!(open(&client, &task), ["confirm", "note"]);
    server.end(3);
}

#[test]
fn r104_a_task_made_twice_is_two_tasks() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| {
        for client in Client::both(server) {
            let states = run(&client);
            if let Client::Core(_) = client {
                client.about("tasks/result", &id(&states[0]));
            }
        }
    });
    let server = sandbox.replay_http(&["--repeat", "last"]);
    for client in Client::both(&server) {
        let made = [client.job(2), client.job(2), client.job(2)];
        let ids = made.each_ref().map(id);
        assert!(ids[0] != ids[1] && ids[1] != ids[2] && ids[0] != ids[2], "{ids:?}");
        // The first goes to its end; the others stand where they stood.
        client.completes(&ids[0]);
        let state = client.get(&ids[1]);
        assert_eq!((id(&state), &state["status"]), (ids[1].clone(), &"working".into()));
        client.completes(&ids[1]);
        assert_eq!(client.status(&ids[2]), "working");
        if let Client::Core(_) = client {
            for task in &ids {
                let result = client.about("tasks/result", task);
                let related = &result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"];
                assert_eq!(related, task, "{result}");
            }
        }
    }
    server.end(0);
}

#[test]
fn r105_the_result_may_be_asked_for_at_once() {
    let sandbox = Sandbox::new();
    // Recorded with polls in front, which the live client does not make.
    let recorded = sandbox.record_demo_http(|server| {
        let client = Client::core(server);
        let task = id(&client.job(2));
        client.completes(&task);
        client.about("tasks/result", &task)
    });
    let server = sandbox.replay_http(&[]);
    let client = Client::core(&server);
    let task = id(&client.job(2));
    let result = client.about("tasks/result", &task);
    assert_eq!(result, recorded);
    assert_eq!(result["_meta"]["io.modelcontextprotocol/related-task"]["taskId"], task.as_str());
    assert_eq!(client.status(&task), "completed");
    drop(client);
    server.end(0);
}

const RELATED: &str = r#""_meta":{"io.modelcontextprotocol/related-task":{"taskId":"k-1"}}"#;
const ACCEPT: &str = r#"{"action":"accept","content":{}}"#;

/// A task whose question came on the stream of `tasks/result`.
fn asking() -> Vec<Record> {
    let object = |status: &str| {
        format!(
            r#"{{"taskId":"k-1","status":"{status}","createdAt":"2026-11-29T20:33:00.000Z","lastUpdatedAt":"2026-11-29T20:33:00.000Z","ttl":60000}}"#
        )
    };
    let greeting = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"tasks":{"cancel":{},"requests":{"tools":{"call":{}}}}},"serverInfo":{"name":"d","version":"1"}}"#;
    let about = |method: &str| request("1", method, r#"{"taskId":"k-1"}"#);
    let job = r#"{"name":"job","arguments":{"steps":2},"task":{"ttl":60000}}"#;
    let records = [
        c(1, initialize("{}")),
        s(1, result("0", greeting)).status(200),
        c(2, request("1", "tools/call", job)),
        s(2, result("1", &format!(r#"{{"task":{}}}"#, object("working")))).status(200),
        c(3, about("tasks/get")),
        s(3, result("1", &object("input_required"))).status(200),
        c(4, about("tasks/result")),
        s(4, request("0", "elicitation/create", &format!(r#"{{"message":"?",{RELATED}}}"#))).sse(),
        c(5, result("0", ACCEPT)),
        bare(5).http(r#"{"status":202}"#),
        s(4, result("1", &format!(r#"{{"content":[],{RELATED}}}"#))),
        c(6, about("tasks/get")),
        s(6, result("1", &object("completed"))).status(200),
    ];
    records.into_iter().map(|record| record.on(1)).collect()
}

#[test]
fn r105_the_question_comes_on_the_stream_of_the_result() {
    let sandbox = Sandbox::new();
    let server = sandbox.play_recorded_http(&asking(), &["--repeat", "last"]);
    let client = Client::core(&server);
    let mut before = String::new();
    for _ in 0..2 {
        let task = id(&client.job(2));
        assert_ne!(task, before);
        let related = RELATED.replace("k-1", &task);
        let Client::Core(legacy) = &client else { unreachable!() };
        let mut stream =
            legacy.stream(&request("\"r\"", "tasks/result", &format!(r#"{{"taskId":"{task}"}}"#)));
        let question = stream.next().unwrap();
        let asked = value(&question)["id"].to_string();
        let params = format!(r#"{{"message":"?",{related}}}"#);
        assert_eq!(question, request(&asked, "elicitation/create", &params));
        assert_eq!(client.status(&task), "input_required");
        legacy.post(&result(&asked, ACCEPT)).expect(202);
        assert_eq!(stream.next().unwrap(), result("\"r\"", &format!(r#"{{"content":[],{related}}}"#)));
        assert_eq!(stream.next(), None);
        assert_eq!(client.status(&task), "completed");
        before = task;
    }
    drop(client);
    server.end(0);
}

#[test]
fn r106_a_task_may_be_cancelled_whether_that_was_recorded_or_not() {
    let sandbox = Sandbox::new();
    for recorded in [true, false] {
        sandbox.record_demo_http(|server| {
            for client in Client::both(server) {
                let task = id(&client.job(2));
                if recorded {
                    client.about("tasks/cancel", &task);
                    assert_eq!(client.status(&task), "cancelled");
                } else {
                    client.completes(&task);
                }
            }
        });
        let server = sandbox.replay_http(&["--repeat", "last"]);
        for client in Client::both(&server) {
            let task = id(&client.job(2));
            let answer = client.about("tasks/cancel", &task);
            match &client {
                Client::Core(_) => assert_eq!(answer["status"], "cancelled", "{answer}"),
                Client::Extension(_) => assert_eq!(answer["resultType"], "complete", "{answer}"),
            }
            for _ in 0..2 {
                let state = client.get(&task);
                assert_eq!((&state["status"], state.get("result")), (&"cancelled".into(), None));
            }
            // It is over: an error in the core design, and no matter in the extension.
            match &client {
                Client::Core(_) => client.fails("tasks/cancel", &task, -32602),
                Client::Extension(_) => assert_eq!(client.about("tasks/cancel", &task), answer),
            }
            if !recorded {
                let task = id(&client.job(2));
                client.completes(&task);
                match &client {
                    Client::Core(_) => client.fails("tasks/cancel", &task, -32602),
                    Client::Extension(_) => {
                        assert_eq!(client.about("tasks/cancel", &task)["resultType"], "complete");
                    }
                }
                assert_eq!(client.status(&task), "completed");
            }
        }
        server.end(0);
        std::fs::remove_file(sandbox.path.join("c.json")).unwrap();
    }
}

#[test]
fn r107_who_cannot_follow_a_task_gets_none() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| Client::both(server).map(|client| run(&client)));
    let server = sandbox.replay_http(&[]);
    let plain = modern("1", "tools/call", r#""name":"job","arguments":{"steps":2}"#, "{}");
    let refused = server.modern(&plain).fails(400, -32021);
    let needed = r#""requiredCapabilities":{"extensions":{"io.modelcontextprotocol/tasks":{}}}"#;
    assert!(refused.body.contains(needed), "{}", refused.body);
    // In the core design a call without a task is another call.
    let client = server.greet("{}");
    client.post(&call("1", "job", r#"{"steps":2}"#)).fails(200, -31001);
    drop(client);
    server.end(3);
}

#[test]
fn r108_an_unknown_task_is_an_invalid_parameter() {
    let sandbox = Sandbox::new();
    sandbox.record_demo_http(|server| Client::both(server).map(|client| run(&client)));
    let server = sandbox.replay_http(&[]);
    let [core, extension] = Client::both(&server);
    for (client, methods) in [
        (&core, ["tasks/get", "tasks/result", "tasks/cancel"]),
        (&extension, ["tasks/get", "tasks/update", "tasks/cancel"]),
    ] {
        client.job(2);
        methods.iter().for_each(|method| client.fails(method, "task-99", -32602));
    }
    drop((core, extension));
    server.end(0);
}
