//! Tools and lists that work the same in both eras.

use serde_json::{Value, json};

use super::{Client, text};

#[test]
fn tools_answer() {
    for mut client in Client::both_eras() {
        for (tool, arguments, expected) in [
            ("echo", json!({"text": "h\u{e9} \u{2028} \u{1f600}"}), "h\u{e9} \u{2028} \u{1f600}"),
            ("add", json!({"a": 1, "b": 2}), r#"{"sum":3}"#),
            ("add", json!({"a": 1.5, "b": 2}), r#"{"sum":3.5}"#),
            ("add", json!({"a": i64::MAX, "b": 1}), r#"{"sum":9.223372036854776e+18}"#),
            (
                "weather",
                json!({"city": "Lima"}),
                r#"{"city":"Lima","sky":"fog","temperature":17,"unit":"C"}"#,
            ),
            ("weather", json!({"city": "Atlantis"}), "unknown city: Atlantis"),
            ("progress", json!({"steps": 3}), "finished 3 steps"),
            ("log", json!({"count": 0}), "logged 0 messages"),
            ("fail", json!({"message": "no"}), "no"),
            ("big", json!({"bytes": 0}), ""),
            ("big", json!({"bytes": 5}), "abcde"),
            ("counter", json!({}), "1"),
            ("counter", json!(null), "2"),
            ("slow", json!({"ms": 0, "tag": "t"}), "t"),
            ("touch", json!({"uri": "demo://readme"}), "touched demo://readme"),
            ("job", json!({"steps": 2}), "finished 2 steps"),
            ("delete_everything", json!({"confirm": true}), "everything is deleted (not really)"),
            ("delete_everything", json!({"confirm": false}), "not confirmed"),
            ("stderr", json!({"text": "to the log"}), "written"),
        ] {
            // A modern client with the tasks extension would get a task.
            if tool == "job" && client.is_modern() {
                continue;
            }
            let answer = client.call(tool, &arguments);
            assert_eq!(text(&answer), expected);
            let failed = ["Atlantis", "no", "not confirmed"].iter().any(|it| expected.ends_with(it));
            assert_eq!(answer["result"]["isError"] == true, failed, "{answer}");
            let result_type = if client.is_modern() { json!("complete") } else { Value::Null };
            assert_eq!(answer["result"]["resultType"], result_type);
        }
        assert_eq!(client.log.text(), "to the log\n");
        client.end_quietly();
    }
}

#[test]
fn add_is_structured() {
    for mut client in Client::both_eras() {
        assert_eq!(
            client.call("add", &json!({"a": 2, "b": 3}))["result"]["structuredContent"],
            json!({"sum": 5})
        );
    }
    let mut old = Client::legacy("2025-03-26", &json!({}));
    assert_eq!(old.call("add", &json!({"a": 2, "b": 3}))["result"].get("structuredContent"), None);
}

#[test]
fn big_is_exact() {
    let mut client = Client::able_legacy();
    assert_eq!(text(&client.call("big", &json!({"bytes": 3_000_000}))).len(), 3_000_000);
}

#[test]
fn media_and_unicode_hold_all_kinds() {
    for mut client in Client::both_eras() {
        let media = client.call("media", &json!({}));
        let kinds: Vec<&Value> =
            media["result"]["content"].as_array().unwrap().iter().map(|c| &c["type"]).collect();
        assert_eq!(kinds, ["image", "audio", "resource"]);
        client.start("unicode", &json!({}));
        let line = client.line();
        assert!(line.contains('\u{2028}') && line.contains(r"\u0000") && line.contains("e\u{301}"), "{line}");
    }
    let mut old = Client::legacy("2024-11-05", &json!({}));
    assert_eq!(old.call("media", &json!({}))["result"]["content"].as_array().unwrap().len(), 2);
}

#[test]
fn progress_carries_the_live_token() {
    for mut client in Client::both_eras() {
        for token in [json!("t"), json!(7)] {
            let params =
                json!({"name": "progress", "arguments": {"steps": 2}, "_meta": {"progressToken": token}});
            client.request("tools/call", params);
            for step in 1..=2 {
                let expected = json!({
                    "progressToken": token, "progress": step, "total": 2, "message": format!("step {step} of 2")
                });
                let message = client.next();
                assert_eq!(message["method"], "notifications/progress");
                assert_eq!(message["params"], expected);
            }
            assert_eq!(text(&client.next()), "finished 2 steps");
        }
    }
}

#[test]
fn noise_comes_before_the_answer() {
    for mut client in Client::both_eras() {
        client.start("noise", &json!({}));
        assert_eq!(client.line(), "this line is not a message");
        assert_eq!(text(&client.next()), "noise made");
    }
}

#[test]
fn exit_ends_without_an_answer() {
    for mut client in Client::both_eras() {
        client.start("slow", &json!({"ms": 600_000, "tag": "never"}));
        client.start("exit", &json!({"code": 9}));
        assert_eq!(client.server.join().unwrap().unwrap(), 9);
        assert_eq!(client.lines.iter().collect::<Vec<_>>(), Vec::<String>::new());
    }
}

#[test]
fn errors_have_their_codes() {
    for mut client in Client::both_eras() {
        let missing_resource = if client.is_modern() { -32602 } else { -32002 };
        for (method, params, code) in [
            ("tools/call", json!({"name": "error", "arguments": {"code": -31999}}), -31999),
            ("tools/call", json!({"name": "nope"}), -32602),
            ("tools/call", json!({}), -32602),
            ("tools/call", json!({"name": "echo"}), -32602),
            ("tools/call", json!({"name": "echo", "arguments": 1}), -32602),
            ("tools/call", json!({"name": "slow", "arguments": {"ms": -1, "tag": ""}}), -32602),
            ("tools/call", json!({"name": "exit", "arguments": {"code": 256}}), -32602),
            ("tools/call", json!({"name": "big", "arguments": {"bytes": 1_u64 << 40}}), -32602),
            ("tools/call", json!({"name": "grown_1"}), -32602),
            ("tools/list", json!({"cursor": "page-9"}), -32602),
            ("prompts/list", json!({"cursor": "x"}), -32602),
            ("prompts/get", json!({"name": "nope"}), -32602),
            ("prompts/get", json!({"name": "greet"}), -32602),
            ("resources/read", json!({"uri": "demo://nope"}), missing_resource),
            ("completion/complete", json!({"ref": {"type": "ref/prompt", "name": "review"}}), -32602),
            ("tasks/get", json!({"taskId": "task-1"}), -32602),
            ("no/such", json!({}), -32601),
        ] {
            let answer = client.ask(method, params.clone());
            assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
        }
    }
}

#[test]
fn tools_are_listed_in_pages() {
    for mut client in Client::both_eras() {
        let mut names = Vec::new();
        let mut sizes = Vec::new();
        let mut cursor = Value::Null;
        loop {
            let page = client.ask("tools/list", json!({"cursor": cursor}))["result"].clone();
            let tools = page["tools"].as_array().unwrap();
            sizes.push(tools.len());
            for tool in tools {
                assert_eq!(tool["inputSchema"]["type"], "object");
                let destroys = tool["name"] == "delete_everything";
                assert_eq!(tool["annotations"]["destructiveHint"], destroys);
                names.push(tool["name"].as_str().unwrap().to_owned());
            }
            cursor = page["nextCursor"].clone();
            if cursor.is_null() {
                break;
            }
        }
        assert_eq!(sizes, [8, 8, 8, 1]);
        assert_eq!((names[0].as_str(), names[24].as_str()), ("echo", "exit"));
    }
}

#[test]
fn prompts_resources_and_completions() {
    let item = json!([{
        "uri": "demo://item/7", "mimeType": "application/json", "text": r#"{"id":"7","name":"Item 7"}"#
    }]);
    let prompt = json!({"type": "ref/prompt", "name": "greet"});
    let template = json!({"type": "ref/resource", "uri": "demo://item/{id}"});
    for mut client in Client::both_eras() {
        for (method, params, pointer, expected) in [
            ("prompts/list", json!({}), "/prompts/0/name", json!("greet")),
            ("prompts/list", json!({}), "/prompts/1/name", json!("review")),
            (
                "prompts/get",
                json!({"name": "greet", "arguments": {"name": "Ada"}}),
                "/messages/0/content/text",
                json!("Say hello to Ada."),
            ),
            ("prompts/get", json!({"name": "review"}), "/messages/0/role", json!("user")),
            ("resources/list", json!({}), "/resources/0/uri", json!("demo://readme")),
            ("resources/list", json!({}), "/resources/1/uri", json!("demo://logo")),
            (
                "resources/templates/list",
                json!({}),
                "/resourceTemplates/0/uriTemplate",
                json!("demo://item/{id}"),
            ),
            (
                "resources/read",
                json!({"uri": "demo://readme"}),
                "/contents/0/text",
                json!("The demo server of mcpreel.\n"),
            ),
            ("resources/read", json!({"uri": "demo://logo"}), "/contents/0/mimeType", json!("image/png")),
            ("resources/read", json!({"uri": "demo://item/7"}), "/contents", item.clone()),
            (
                "completion/complete",
                json!({"ref": prompt, "argument": {"name": "name", "value": "A"}}),
                "/completion/values",
                json!(["Ada", "Alan"]),
            ),
            (
                "completion/complete",
                json!({"ref": template, "argument": {"name": "id", "value": "1"}}),
                "/completion",
                json!({"values": ["1", "10", "11", "12"], "total": 4, "hasMore": false}),
            ),
        ] {
            let answer = client.ask(method, params.clone());
            assert_eq!(answer["result"].pointer(pointer), Some(&expected), "{method} {params}: {answer}");
        }
    }
}

#[test]
fn calls_run_side_by_side() {
    for mut client in Client::both_eras() {
        let slow = client.start("slow", &json!({"ms": 600_000, "tag": "slow"}));
        assert_eq!(text(&client.call("echo", &json!({"text": "quick"}))), "quick");
        client.cancel(&json!(slow));
        assert_eq!(text(&client.call("echo", &json!({"text": "after"}))), "after");
        // What only waits for time is answered when the input ends.
        let last = client.start("slow", &json!({"ms": 600_000, "tag": "due"}));
        let (rest, code) = client.end();
        assert_eq!((rest.len(), code), (1, 0));
        assert_eq!((&rest[0]["id"], text(&rest[0])), (&json!(last), "due"));
    }
}
