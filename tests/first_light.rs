//! The walking skeleton: bytes go through untouched, a cassette comes of it, and it answers like the server did.

use crate::support::Sandbox;

const INITIALIZE: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[test]
fn r001_client_and_server_bytes_pass_unchanged() {
    let sandbox = Sandbox::new();
    let odd = concat!(
        "{ \"z\" : 1.0,\"a\":123456789012345678901234 , \"s\":\"\\u00e9\\/ \\ud800\" }\r\n",
        "\n",
        "not json\n",
        "{\"x\":\"\u{2028}\"}\n"
    );
    let run = sandbox.mcpreel(["record", "--cassette", "c.json", "--", "cat"]).input(odd).run().expect(0);
    assert_eq!(run.stdout(), odd);
}

#[test]
fn r007_stderr_of_the_server_is_ours_and_not_on_stdout() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "echo to the log >&2; cat");
    let run =
        sandbox.mcpreel(["record", "-q", "--cassette", "c.json", "--", &server]).lines(&["{\"a\":1}"]).run();
    let run = run.expect(0);
    assert_eq!(run.stderr(), "to the log\n");
    assert_eq!(run.stdout(), "{\"a\":1}\n");
}

#[test]
fn r010_closing_our_input_closes_the_servers() {
    let sandbox = Sandbox::new();
    let server =
        sandbox.script("server", "read line; echo \"$line\"; read more || echo '{\"input\":\"closed\"}'");
    let mut client = sandbox.mcpreel(["record", "-q", "--cassette", "c.json", "--", &server]).start();
    assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
    client.stdin = None;
    assert_eq!(client.next(), "{\"input\":\"closed\"}");
    client.end(0);
}

#[test]
fn r041_the_answer_has_the_id_of_the_request_in_type_and_spelling() {
    let sandbox = Sandbox::new();
    let call = |id: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"hi"}}}}}}"#
        )
    };
    sandbox.record_demo("c.json", &[INITIALIZE, INITIALIZED, &call("1")]);
    for id in ["1", "\"1\"", "9007199254740993", "\"é\"", "\"\\u00e9\"", "1.0"] {
        let (mut got, _) = sandbox.replay("c.json", &[INITIALIZE, INITIALIZED, &call(id)], 0);
        assert_eq!(
            got.pop().unwrap(),
            format!(
                r#"{{"id":{id},"jsonrpc":"2.0","result":{{"content":[{{"text":"hi","type":"text"}}]}}}}"#
            )
        );
    }
}

#[test]
fn r048_a_miss_is_an_error_that_names_the_nearest_request_and_exit_3() {
    let sandbox = Sandbox::new();
    let call = |text: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"echo","arguments":{{"text":"{text}"}}}}}}"#
        )
    };
    sandbox.record_demo("c.json", &[INITIALIZE, INITIALIZED, &call("hi")]);
    let (mut got, ended) = sandbox.replay("c.json", &[INITIALIZE, INITIALIZED, &call("ho")], 3);
    assert_eq!(
        got.pop().unwrap(),
        concat!(
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-31001,"message":"mcpreel: no recorded answer for tools/call \"echo\"","#,
            r#""data":{"method":"tools/call","name":"echo","nearest":{"message":3,"differs":[{"path":"/params/arguments/text","#,
            r#""recorded":"hi","live":"ho"}]},"hint":"if the difference does not matter, --ignore /params/arguments/text; else record again"}}}"#
        )
    );
    assert_eq!(
        ended.stderr,
        concat!(
            "mcpreel: no recorded answer for tools/call \"echo\"; nearest is message 3; /params/arguments/text: ",
            "recorded \"hi\", live \"ho\"; if the difference does not matter, --ignore /params/arguments/text; else record again\n",
            "mcpreel: 1 request without a recorded answer\n"
        )
    );
}

#[test]
fn a_recorded_session_replays_byte_for_byte() {
    let sandbox = Sandbox::new();
    let session = [
        INITIALIZE,
        INITIALIZED,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
        r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"progress","arguments":{"steps":3},"_meta":{"progressToken":"t"}}}"#,
        r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"unicode","arguments":{}}}"#,
    ];
    let recorded = sandbox.record_demo("c.json", &session);
    let direct = sandbox.mcpreel(["demo", "server"]).start().converse(&session);
    assert_eq!(recorded, direct);
    let (replayed, ended) = sandbox.replay("c.json", &session, 0);
    assert_eq!(replayed, recorded);
    assert_eq!(ended.stderr, "");
}
