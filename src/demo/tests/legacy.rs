//! Sessions with a handshake: server requests, levels, subscriptions, URL elicitation.

use serde_json::{Value, json};

use super::{Client, accepted, sampled, text};

#[test]
fn the_model_is_asked() {
    let mut client = Client::able_legacy();
    let call = client.start("sample", &json!({"prompt": "p"}));
    let request = client.next();
    assert_eq!(request["method"], "sampling/createMessage");
    assert_eq!(request["params"]["messages"][0]["content"]["text"], "p");
    // The server goes on listening while it waits.
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
    client.reply(&request, &sampled("s"));
    let answer = client.next();
    assert_eq!((&answer["id"], text(&answer)), (&json!(call), "sampled: s"));
    client.end_quietly();
}

#[test]
fn the_user_is_asked() {
    let mut client = Client::able_legacy();
    for (reply, expected, structured) in [
        (
            accepted(&json!({"name": "Ada"})),
            r#"accept {"name":"Ada"}"#,
            json!({"action": "accept", "content": {"name": "Ada"}}),
        ),
        (json!({"action": "decline"}), "decline", json!({"action": "decline", "content": null})),
    ] {
        client.start("ask", &json!({"message": "m"}));
        let request = client.next();
        assert_eq!(request["method"], "elicitation/create");
        assert_eq!(
            (&request["params"]["mode"], &request["params"]["message"]),
            (&json!("form"), &json!("m"))
        );
        client.reply(&request, &reply);
        let answer = client.next();
        assert_eq!(text(&answer), expected);
        assert_eq!(answer["result"]["structuredContent"], structured);
    }
}

#[test]
fn roots_are_listed() {
    let mut client = Client::able_legacy();
    client.start("roots", &json!({}));
    let request = client.next();
    assert_eq!((&request["method"], request.get("params")), (&json!("roots/list"), None));
    client.reply(&request, &json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}));
    assert_eq!(text(&client.next()), "file:///a\nfile:///b");
}

#[test]
fn an_interview_takes_three_requests() {
    let mut client = Client::able_legacy();
    client.start("interview", &json!({}));
    for (method, reply) in [
        ("elicitation/create", accepted(&json!({"name": "Ada"}))),
        ("sampling/createMessage", sampled("Count")),
        ("elicitation/create", accepted(&json!({"right": true}))),
    ] {
        let request = client.next();
        assert_eq!(request["method"], method);
        client.reply(&request, &reply);
    }
    let expected = "name: accept {\"name\":\"Ada\"}\nmotto: Count\nright: accept {\"right\":true}";
    assert_eq!(text(&client.next()), expected);
}

#[test]
fn two_requests_are_open_at_once() {
    let mut client = Client::able_legacy();
    for reversed in [false, true] {
        client.start("both", &json!({}));
        let (first, second) = (client.next(), client.next());
        assert_ne!(first["id"], second["id"]);
        let mut replies = [(first, sampled("s")), (second, accepted(&json!({"name": "Ada"})))];
        if reversed {
            replies.reverse();
        }
        for (request, reply) in replies {
            client.reply(&request, &reply);
        }
        assert_eq!(text(&client.next()), "sampled: s\nasked: accept {\"name\":\"Ada\"}");
    }
}

#[test]
fn a_refusal_is_reported() {
    let mut client = Client::able_legacy();
    client.start("sample", &json!({"prompt": "p"}));
    let request = client.next();
    client.say(&json!({"jsonrpc": "2.0", "id": request["id"], "error": {"code": -1, "message": "rejected"}}));
    let answer = client.next();
    assert_eq!((text(&answer), &answer["result"]["isError"]), ("the client refused: rejected", &json!(true)));
}

#[test]
fn nobody_is_asked_for_what_they_cannot_do() {
    for (tool, capabilities, missing) in [
        ("sample", json!({}), r#"{"sampling":{}}"#),
        ("ask", json!({}), r#"{"elicitation":{"form":{}}}"#),
        ("ask", json!({"elicitation": {"url": {}}}), r#"{"elicitation":{"form":{}}}"#),
        ("ask_url", json!({"elicitation": {}}), r#"{"elicitation":{"url":{}}}"#),
        ("roots", json!({}), r#"{"roots":{}}"#),
        ("interview", json!({}), r#"{"elicitation":{"form":{}}}"#),
        ("both", json!({"sampling": {}}), r#"{"elicitation":{"form":{}}}"#),
    ] {
        let mut client = Client::legacy("2025-11-25", &capabilities);
        let answer = client.call(tool, &json!({"prompt": "p", "message": "m"}));
        assert_eq!(text(&answer), format!("the client did not declare {missing}"));
        assert_eq!(answer["result"]["isError"], true);
    }
}

#[test]
fn a_cancelled_call_is_never_answered() {
    let mut client = Client::able_legacy();
    let call = client.start("ask", &json!({"message": "m"}));
    let request = client.next();
    client.cancel(&json!(call));
    client.reply(&request, &json!({"action": "cancel"}));
    assert_eq!(text(&client.call("echo", &json!({"text": "x"}))), "x");
    // Nor is one whose client left.
    client.start("ask", &json!({"message": "m"}));
    client.next();
    client.end_quietly();
}

#[test]
fn an_answer_counts_though_its_sender_left_at_once() {
    let mut client = Client::able_legacy();
    let call = client.start("sample", &json!({"prompt": "p"}));
    let request = client.next();
    client.reply(&request, &sampled("s"));
    let (rest, _) = client.end();
    assert_eq!((rest.len(), &rest[0]["id"], text(&rest[0])), (1, &json!(call), "sampled: s"));
}

#[test]
fn a_url_is_demanded_and_passed() {
    let mut client = Client::able_legacy();
    for id in ["elicitation-1", "elicitation-2"] {
        let refused = client.call("ask_url", &json!({}));
        assert_eq!(refused["error"]["code"], -32042);
        let elicitation = &refused["error"]["data"]["elicitations"][0];
        assert_eq!((&elicitation["mode"], &elicitation["elicitationId"]), (&json!("url"), &json!(id)));
        let done = client.next();
        assert_eq!(done["method"], "notifications/elicitation/complete");
        assert_eq!(done["params"], json!({"elicitationId": id}));
        assert_eq!(text(&client.call("ask_url", &json!({}))), format!("confirmed {id}"));
    }
    let mut older = Client::legacy("2025-06-18", &super::able());
    assert_eq!(older.call("ask_url", &json!({}))["result"]["isError"], true);
}

#[test]
fn levels_gate_the_log() {
    let mut client = Client::able_legacy();
    for (level, expected) in [
        (None, ["info", "notice", "warning", "error"].as_slice()),
        (Some("debug"), &["debug", "info", "notice", "warning", "error"]),
        (Some("warning"), &["warning", "error"]),
        (Some("emergency"), &[]),
    ] {
        if let Some(level) = level {
            assert_eq!(client.ask("logging/setLevel", json!({"level": level}))["result"], json!({}));
        }
        client.start("log", &json!({"count": 5}));
        for level in expected {
            let message = client.next();
            assert_eq!(message["method"], "notifications/message");
            assert_eq!(message["params"]["level"], *level);
        }
        assert_eq!(text(&client.next()), "logged 5 messages");
    }
    assert_eq!(client.ask("logging/setLevel", json!({"level": "loud"}))["error"]["code"], -32602);
}

#[test]
fn changes_follow_the_answer() {
    let mut client = Client::able_legacy();
    for name in ["grown_1", "grown_2"] {
        assert_eq!(text(&client.call("grow", &json!({}))), name);
        assert_eq!(client.next(), json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}));
        assert_eq!(text(&client.call(name, &json!({}))), name);
    }
    let last = client.ask("tools/list", json!({"cursor": "page-4"}));
    let names: Vec<&Value> =
        last["result"]["tools"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
    assert_eq!(names, ["exit", "grown_1", "grown_2"]);
}

#[test]
fn updates_reach_subscribers_only() {
    let mut client = Client::able_legacy();
    let uri = json!({"uri": "demo://readme"});
    client.call("touch", &uri);
    assert_eq!(client.ask("resources/subscribe", uri.clone())["result"], json!({}));
    client.call("touch", &json!({"uri": "demo://logo"}));
    client.call("touch", &uri);
    let update = client.next();
    assert_eq!((&update["method"], &update["params"]), (&json!("notifications/resources/updated"), &uri));
    assert_eq!(client.ask("resources/unsubscribe", uri.clone())["result"], json!({}));
    client.call("touch", &uri);
    client.end_quietly();
}

#[test]
fn old_revisions_get_no_new_fields() {
    for (revision, annotations, output, task) in [
        ("2024-11-05", false, false, false),
        ("2025-03-26", true, false, false),
        ("2025-06-18", true, true, false),
        ("2025-11-25", true, true, true),
    ] {
        let mut client = Client::legacy(revision, &json!({}));
        let first = client.ask("tools/list", json!({}));
        let third = client.ask("tools/list", json!({"cursor": "page-3"}));
        let add = &first["result"]["tools"][1];
        let job = &third["result"]["tools"][4];
        assert_eq!((&add["name"], &job["name"]), (&json!("add"), &json!("job")));
        assert_eq!(add.get("annotations").is_some(), annotations, "{revision}");
        assert_eq!(add.get("outputSchema").is_some(), output, "{revision}");
        assert_eq!(job.get("execution").is_some(), task, "{revision}");
        let tasks = client.ask("tasks/list", json!({}));
        assert_eq!(tasks["error"]["code"] == -32601, !task, "{revision}: {tasks}");
    }
}
