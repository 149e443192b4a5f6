//! Lines, ids, batches and the way into a session.

use serde_json::{Value, json};

use super::{Client, able, text};

#[test]
fn odd_lines_are_survived() {
    let mut client = Client::able_legacy();
    client.raw(b"\n\r\n  \n\xEF\xBB\xBF\n");
    client.raw("\u{feff}{\"jsonrpc\":\"2.0\",\"id\":\"crlf\",\"method\":\"ping\"}\r\n".as_bytes());
    assert_eq!(client.next(), json!({"jsonrpc": "2.0", "id": "crlf", "result": {}}));
    for (line, code, id) in [
        (b"noise\n".as_slice(), -32700, Value::Null),
        (b"\xff\xfe\n", -32700, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"\n", -32700, Value::Null),
        (b"1\n", -32600, Value::Null),
        (b"{}\n", -32600, Value::Null),
        (b"{\"id\":1,\"method\":\"ping\"}\n", -32600, json!(1)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"ping\"}\n", -32600, Value::Null),
        (b"{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":3}\n", -32600, json!(2)),
        (b"{\"jsonrpc\":\"2.0\",\"id\":\"x\",\"method\":\"ping\",\"params\":[]}\n", -32600, json!("x")),
        (b"[]\n", -32600, Value::Null),
        (b"[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}]\n", -32600, Value::Null),
    ] {
        client.raw(line);
        let answer = client.next();
        assert_eq!((&answer["error"]["code"], &answer["id"]), (&json!(code), &id), "{answer}");
    }
    // Nothing to answer here, and the last line needs no end.
    client.raw(b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\"}\n");
    client.raw(b"{\"jsonrpc\":\"2.0\",\"id\":99,\"result\":{}}\n");
    client.raw("{\"jsonrpc\":\"2.0\",\"id\":\"\u{2028}\",\"method\":\"ping\"}".as_bytes());
    assert_eq!(client.end(), (vec![json!({"jsonrpc": "2.0", "id": "\u{2028}", "result": {}})], 0));
}

#[test]
fn ids_come_back_as_they_were() {
    let mut client = Client::able_legacy();
    for id in ["1", "\"1\"", "9007199254740993", "-3", "\"\u{e9}\"", "0"] {
        client.raw(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}\n").as_bytes());
        assert_eq!(client.line(), format!("{{\"id\":{id},\"jsonrpc\":\"2.0\",\"result\":{{}}}}"));
    }
    let id = client.start("slow", &json!({"ms": 600_000, "tag": "x"}));
    client.last_id -= 1;
    assert_eq!(client.ask("ping", json!({}))["error"]["code"], -32600);
    client.cancel(&json!(id));
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn first_requests() {
    let mut client = Client::silent();
    for (method, params, code) in [
        ("tools/list", json!({}), -32602),
        ("server/discover", json!({}), -32602),
        ("logging/setLevel", json!({"level": "info"}), -32602),
        ("no/such", json!({}), -32601),
        ("initialize", json!({}), -32602),
        ("tools/list", json!({"_meta": {"io.modelcontextprotocol/clientCapabilities": {}}}), -32602),
        ("tools/list", json!({"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}), -32602),
    ] {
        let answer = client.ask(method, params.clone());
        assert_eq!(answer["error"]["code"], code, "{method} {params}: {answer}");
    }
    for version in [json!("2025-11-25"), json!("1900-01-01"), json!(1)] {
        let meta = json!({"io.modelcontextprotocol/protocolVersion": version});
        let answer = client.ask("server/discover", json!({"_meta": meta}));
        assert_eq!(answer["error"]["code"], -32022);
        assert_eq!(answer["error"]["data"], json!({"supported": ["2026-07-28"], "requested": version}));
    }
    assert_eq!(client.ask("ping", json!({}))["result"], json!({}));
}

#[test]
fn versions_are_negotiated() {
    for (asked, answered) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1900-01-01", "2025-11-25"),
    ] {
        let mut client = Client::silent();
        let answer = client.ask("initialize", json!({"protocolVersion": asked, "capabilities": {}}));
        assert_eq!(answer["result"]["protocolVersion"], answered);
        assert_eq!(answer["result"]["serverInfo"]["name"], "mcpreel-demo");
        let has_tasks = answer["result"]["capabilities"].get("tasks").is_some();
        assert_eq!(has_tasks, answered == "2025-11-25");
    }
}

#[test]
fn both_eras_share_one_pipe() {
    let mut client = Client::modern(&able());
    assert_eq!(
        client.ask("server/discover", json!({}))["result"]["supportedVersions"],
        json!(["2026-07-28"])
    );
    let modern = std::mem::take(&mut client.meta);
    client.ask("initialize", json!({"protocolVersion": "2025-06-18", "capabilities": {}}));
    assert_eq!(client.ask("server/discover", json!({}))["error"]["code"], -32601);
    assert_eq!(client.call("echo", &json!({"text": "x"}))["result"].get("resultType"), None);
    client.meta = modern;
    assert_eq!(client.call("echo", &json!({"text": "x"}))["result"]["resultType"], "complete");
}

#[test]
fn batches_belong_to_one_revision() {
    let mut client = Client::legacy("2025-03-26", &able());
    let call = |id: u64, tool: &str, arguments: &Value| {
        let params = json!({"name": tool, "arguments": arguments});
        json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
    };
    client.say(&json!([
        call(1, "slow", &json!({"ms": 1, "tag": "slow"})),
        call(2, "echo", &json!({"text": "quick"})),
        {"jsonrpc": "2.0", "method": "notifications/whatever"},
        {"jsonrpc": "2.0", "id": 3, "method": "initialize", "params": {"protocolVersion": "2025-03-26"}},
        7,
    ]));
    let answers = client.next();
    let mut ids: Vec<String> = answers.as_array().unwrap().iter().map(|one| one["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["1", "2", "3", "null"]);
    client.say(&json!([{"jsonrpc": "2.0", "method": "notifications/whatever"}]));
    client.say(&json!([call(5, "slow", &json!({"ms": 600_000, "tag": "x"}))]));
    client.cancel(&json!(5));
    assert_eq!(text(&client.call("echo", &json!({"text": "no array for those"}))), "no array for those");
    client.end_quietly();
}

#[test]
fn a_gone_reader_ends_the_session_quietly() {
    struct Gone;
    impl std::io::Write for Gone {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::BrokenPipe.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let ping = format!("{}\n", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).repeat(3);
    assert_eq!(super::serve(ping.as_bytes(), Gone, std::io::sink()).unwrap(), 0);
}
