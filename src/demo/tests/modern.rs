//! Requests that describe themselves: multi-round calls, levels per request, listens.

use serde_json::{Value, json};

use super::{Client, able, accepted, sampled, text};

/// Calls a tool again with the answers that its last result asked for.
fn retry(client: &mut Client, tool: &str, arguments: &Value, asked: &Value, responses: &Value) -> Value {
    let state = &asked["result"]["requestState"];
    let params =
        json!({"name": tool, "arguments": arguments, "requestState": state, "inputResponses": responses});
    client.ask("tools/call", params)
}

#[test]
fn results_introduce_the_server() {
    let mut client = Client::modern(&json!({}));
    let info = json!({"io.modelcontextprotocol/serverInfo": {"name": "mcpreel-demo", "version": "1.0.0"}});
    for (method, params, is_cacheable) in [
        ("server/discover", json!({}), true),
        ("tools/list", json!({}), true),
        ("prompts/list", json!({}), true),
        ("resources/list", json!({}), true),
        ("resources/templates/list", json!({}), true),
        ("resources/read", json!({"uri": "demo://logo"}), true),
        ("prompts/get", json!({"name": "review"}), false),
        ("tools/call", json!({"name": "counter"}), false),
    ] {
        let result = client.ask(method, params)["result"].clone();
        assert_eq!(result["resultType"], "complete");
        assert_eq!(result["_meta"], info);
        assert_eq!(
            result.get("ttlMs").is_some() && result.get("cacheScope").is_some(),
            is_cacheable,
            "{method}"
        );
    }
}

#[test]
fn removed_methods_are_unknown() {
    let mut client = Client::modern(&able());
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "tasks/list",
        "tasks/result",
    ] {
        assert_eq!(client.ask(method, json!({}))["error"]["code"], -32601, "{method}");
    }
}

#[test]
fn one_round_of_questions() {
    for (tool, arguments, requests, responses, expected) in [
        (
            "sample",
            json!({"prompt": "p"}),
            json!([["sample", "sampling/createMessage"]]),
            json!({"sample": sampled("s")}),
            "sampled: s",
        ),
        (
            "ask",
            json!({"message": "m"}),
            json!([["ask", "elicitation/create"]]),
            json!({"ask": accepted(&json!({"name": "Ada"}))}),
            r#"accept {"name":"Ada"}"#,
        ),
        (
            "ask_url",
            json!({}),
            json!([["ask_url", "elicitation/create"]]),
            json!({"ask_url": {"action": "accept"}}),
            "accept",
        ),
        (
            "roots",
            json!({}),
            json!([["roots", "roots/list"]]),
            json!({"roots": {"roots": []}, "extra": {}}),
            "no roots",
        ),
        (
            "both",
            json!({}),
            json!([["ask", "elicitation/create"], ["sample", "sampling/createMessage"]]),
            json!({"sample": sampled("s"), "ask": {"action": "cancel"}}),
            "sampled: s\nasked: cancel",
        ),
    ] {
        let mut client = Client::modern(&able());
        let asked = client.call(tool, &arguments);
        assert_eq!(asked["result"]["resultType"], "input_required");
        assert_eq!(asked["result"]["requestState"], "round-1");
        let asked_for: Vec<Value> = asked["result"]["inputRequests"]
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, input)| json!([key, input["method"]]))
            .collect();
        assert_eq!(Value::from(asked_for), requests);
        // Too few answers: the same question again.
        let again = retry(&mut client, tool, &arguments, &asked, &json!({}));
        assert_eq!(again["result"], asked["result"]);
        let answer = retry(&mut client, tool, &arguments, &asked, &responses);
        assert_eq!(text(&answer), expected);
        client.end_quietly();
    }
}

#[test]
fn an_interview_takes_three_rounds() {
    let mut client = Client::modern(&able());
    let none = json!({});
    // Two at once do not cross.
    let others = client.call("interview", &none);
    let mut asked = client.call("interview", &none);
    for (key, answer) in [("name", accepted(&json!({"name": "Ada"}))), ("motto", sampled("Count"))] {
        assert_eq!(asked["result"]["inputRequests"].as_object().unwrap().keys().collect::<Vec<_>>(), [key]);
        asked = retry(&mut client, "interview", &none, &asked, &json!({key: answer}));
    }
    let last = retry(&mut client, "interview", &none, &asked, &json!({"right": {"action": "decline"}}));
    assert_eq!(text(&last), "name: accept {\"name\":\"Ada\"}\nmotto: Count\nright: decline");
    let ended = retry(&mut client, "interview", &none, &others, &json!({"name": {"action": "decline"}}));
    assert_eq!(text(&ended), "interview ended at question 1: decline");
    // A round may be taken again, also with another answer.
    let twice = retry(&mut client, "interview", &none, &asked, &json!({"right": {"action": "cancel"}}));
    assert!(text(&twice).ends_with("right: cancel"));
}

#[test]
fn a_state_belongs_to_its_call() {
    let mut client = Client::modern(&able());
    let asked = client.call("sample", &json!({"prompt": "p"}));
    let responses = json!({"sample": sampled("s")});
    let other = retry(&mut client, "sample", &json!({"prompt": "q"}), &asked, &responses);
    assert_eq!(other["error"]["code"], -32602);
    let forged = json!({"result": {"requestState": "round-2"}});
    let answer = retry(&mut client, "sample", &json!({"prompt": "p"}), &forged, &responses);
    assert_eq!(answer["error"]["code"], -32602);
}

#[test]
fn missing_capabilities_are_named() {
    for (tool, required) in [
        ("sample", json!({"sampling": {}})),
        ("ask", json!({"elicitation": {"form": {}}})),
        ("ask_url", json!({"elicitation": {"url": {}}})),
        ("roots", json!({"roots": {}})),
        ("interview", json!({"elicitation": {"form": {}}})),
        ("both", json!({"sampling": {}, "elicitation": {"form": {}}})),
    ] {
        let mut client = Client::modern(&json!({}));
        let error = client.call(tool, &json!({"prompt": "p", "message": "m"}))["error"].clone();
        assert_eq!((&error["code"], &error["data"]["requiredCapabilities"]), (&json!(-32021), &required));
    }
}

#[test]
fn logs_are_asked_for_per_request() {
    let mut client = Client::modern(&json!({}));
    assert_eq!(text(&client.call("log", &json!({"count": 3}))), "logged 3 messages");
    let mut call = json!({"name": "log", "arguments": {"count": 3}});
    call["_meta"] = json!({"io.modelcontextprotocol/logLevel": "info"});
    client.request("tools/call", call.clone());
    for level in ["info", "notice"] {
        assert_eq!(client.next()["params"]["level"], level);
    }
    assert_eq!(text(&client.next()), "logged 3 messages");
    call["_meta"] = json!({"io.modelcontextprotocol/logLevel": "loud"});
    assert_eq!(client.ask("tools/call", call)["error"]["code"], -32602);
}

/// Opens a listen with any id, and returns what was acknowledged.
fn listen(client: &mut Client, id: &Value, filter: &Value) -> Value {
    let params = json!({"_meta": client.meta, "notifications": filter});
    client.say(&json!({"jsonrpc": "2.0", "id": id, "method": "subscriptions/listen", "params": params}));
    let message = client.next();
    assert_eq!(message["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(message["params"]["_meta"], json!({"io.modelcontextprotocol/subscriptionId": id}));
    message["params"]["notifications"].clone()
}

#[test]
fn listens_hear_what_they_name() {
    let mut client = Client::modern(&able());
    let (tools, files) = (json!("tools"), json!(77));
    let everything =
        json!({"toolsListChanged": true, "promptsListChanged": true, "resourcesListChanged": true});
    assert_eq!(listen(&mut client, &tools, &everything), json!({"toolsListChanged": true}));
    let filter = json!({"toolsListChanged": false, "resourceSubscriptions": ["demo://readme"]});
    assert_eq!(listen(&mut client, &files, &filter), json!({"resourceSubscriptions": ["demo://readme"]}));
    client.call("touch", &json!({"uri": "demo://logo"}));
    client.call("touch", &json!({"uri": "demo://readme"}));
    let update = json!({
        "uri": "demo://readme", "_meta": {"io.modelcontextprotocol/subscriptionId": files}
    });
    assert_eq!(client.next()["params"], update);
    client.call("grow", &json!({}));
    let change = client.next();
    assert_eq!(change["method"], "notifications/tools/list_changed");
    assert_eq!(change["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], tools);
    // One ends, the other goes on, and gets its result at the end.
    client.cancel(&tools);
    client.call("grow", &json!({}));
    let (rest, code) = client.end();
    assert_eq!((rest.len(), code), (1, 0));
    assert_eq!((&rest[0]["id"], &rest[0]["result"]["resultType"]), (&files, &json!("complete")));
    assert_eq!(rest[0]["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"], files);
}

#[test]
fn listens_are_checked() {
    let mut client = Client::modern(&json!({}));
    for (params, code) in [
        (json!({}), -32602),
        (json!({"notifications": {"resourceSubscriptions": "demo://readme"}}), -32602),
        (json!({"notifications": {"taskIds": ["task-1"]}}), -32021),
    ] {
        assert_eq!(client.ask("subscriptions/listen", params)["error"]["code"], code);
    }
    client.end_quietly();
}
