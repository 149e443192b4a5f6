use std::path::Path;

use super::*;
use crate::cassette::record::{Body, Side};
use crate::cassette::{Cassette, document};

const V3_HTTP: &str = include_str!("../../../../testdata/cassettes/foreign/mcp-cassette-v3-http.json");
const V3_STDIO: &str = include_str!("../../../../testdata/cassettes/foreign/mcp-cassette-v3-stdio.json");
const V2_HTTP: &str = include_str!("../../../../testdata/cassettes/foreign/mcp-cassette-v2-http.json");

fn parsed(text: &str) -> Cassette {
    Cassette::parse(Path::new("c.json"), text.as_bytes().to_vec()).unwrap()
}

/// Through our document, as `convert` to ours and back would go.
fn around(cassette: &Cassette) -> Cassette {
    parsed(&document::write(cassette))
}

#[test]
fn version_3_comes_back_byte_for_byte() {
    for text in [V3_HTTP, V3_STDIO] {
        let cassette = parsed(text);
        assert_eq!(write(&cassette).text, text);
        assert_eq!(write(&around(&cassette)).text, text);
        assert_eq!(document::write(&around(&cassette)), document::write(&cassette));
    }
    assert_eq!(write(&parsed(V3_HTTP)).dropped, [""; 0]);
    assert_eq!(
        write(&parsed(V3_STDIO)).dropped,
        ["a batch becomes a raw line, which mcp-cassette does not answer: /messages/3, /messages/4"]
    );
}

#[test]
fn http_facts_are_kept() {
    let cassette = parsed(V3_HTTP);
    let (name, server) = &cassette.head.servers[0];
    assert_eq!((name.as_str(), server.url.as_deref()), ("weather", Some("http://127.0.0.1:9100/mcp")));
    assert_eq!(server.protocol, ["2025-06-18"]);
    let places: Vec<_> =
        cassette.records.iter().map(|record| (record.exchange, record.session, record.at)).collect();
    assert_eq!(
        places,
        [
            (1, 1, 12_000),
            (1, 1, 20_000),
            (2, 1, 22_000),
            (4, 1, 40_000),
            (4, 1, 55_000),
            (4, 1, 71_000),
            (3, 1, 90_000)
        ]
    );
    let more = |index: usize| cassette.records[index].more.clone().unwrap_or_default();
    assert_eq!(
        (more(3).redacted, more(4).redacted, more(5).redacted.len()),
        (vec![RULE.to_owned()], vec![RULE.to_owned()], 0)
    );
    assert!(more(6).stream_get && !more(5).stream_get);
    assert!(cassette.head.extra[0].1.starts_with(r#"{"session_id":"s-4711","redaction":{"profile":null"#));
}

#[test]
fn raw_lines_are_what_they_say() {
    let cassette = parsed(V3_STDIO);
    assert!(matches!(cassette.records[1].body, Body::Text(_)));
    assert_eq!(cassette.payload(&cassette.records[3]), Some(r#"[{"jsonrpc":"2.0","id":2,"method":"ping"}]"#));
    let conns: Vec<_> = cassette.records.iter().map(|record| record.conn).collect();
    assert_eq!(conns, [0, 0, 0, 0, 0, 0, 0, 1, 1, 1]);
}

#[test]
fn older_versions_lack_fields() {
    let cassette = parsed(V2_HTTP);
    let exchanges: Vec<_> = cassette.records.iter().map(|record| (record.exchange, record.session)).collect();
    assert_eq!(exchanges, [(1, 0), (1, 0), (2, 0), (2, 0)]);
    let once = write(&cassette).text;
    assert!(once.contains("\"format_version\": 3,\n  \"recorded_at\": \"2026-07-20T08:00:00Z\""), "{once}");
    assert_eq!(write(&parsed(&once)).text, once);
    let bare = parsed(r#"{"format_version":1,"recorded_at":"2026-07-20T08:00:00Z"}"#);
    assert_eq!((bare.records.len(), bare.head.servers[0].0.as_str()), (0, "server"));
    assert!(write(&bare).text.ends_with("  \"redaction\": null,\n  \"messages\": []\n}\n"));
}

#[test]
fn appended_episodes_go_on_in_time() {
    let message = |t: u32, method: &str| {
        format!(r#"{{"t_offset_ms":{t},"sender":"client","payload":{{"id":1,"method":"{method}"}}}}"#)
    };
    let list = [(5, "initialize"), (90, "a"), (80, "b"), (2, "initialize"), (7, "c")]
        .map(|(t, method)| message(t, method));
    let cassette = parsed(&format!(r#"{{"format_version":3,"messages":[{}]}}"#, list.join(",")));
    let times: Vec<_> = cassette.records.iter().map(|record| record.at / 1000).collect();
    assert_eq!(times, [5, 90, 90, 92, 97]);
}

#[test]
fn unknown_fields_are_kept_both_ways() {
    let text = r#"{"format_version":3,"recorded_at":"2026-07-20T08:00:00Z","later":{"n": 1},"messages":[{"seq":0,"t_offset_ms":0,"sender":"client","payload":{},"mark":null}]}"#;
    let written = write(&parsed(text));
    assert!(written.text.contains("      \"channel\": null,\n      \"mark\": null\n    }\n  ],\n  \"later\": {\n    \"n\": 1\n  }\n}\n"), "{}", written.text);
    assert_eq!(written.dropped, [""; 0]);
}

#[test]
fn faults_name_the_place() {
    for (text, what) in [
        (r#"{"format_version":4,"messages":[]}"#, "format 4; this mcpreel reads its formats 1 to 3"),
        (r#"{"format_version":"3"}"#, "line 1: \"format_version\" must be a whole number"),
        (r#"{"format_version":3,"transport":"pigeon"}"#, "must be \"stdio\" or \"http\""),
        (r#"{"format_version":3,"messages":[{"sender":"me","payload":{}}]}"#, "(/messages/0): \"sender\""),
        (r#"{"format_version":3,"messages":[{"sender":"client"}]}"#, "expected \"payload\""),
        (r#"{"format_version":3,"messages":{}}"#, "must be a list"),
        (r#"{"format_version":3} x"#, "end of the file"),
        (r#"{"format_version":3"#, "comma or the end"),
    ] {
        let error = Cassette::parse(Path::new("c.json"), text.as_bytes().to_vec()).unwrap_err();
        assert!(error.to_string().contains(what), "{text}: {error}");
        assert_eq!(error.code(), 2);
    }
}

const OURS: &str = r#"{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00Z","recorder":"mcpreel 0.1.0","servers":{"a":{"transport":"stdio","command":["srv"],"protocol":["2025-11-25"]},"b":{"transport":"stdio"}},
"processes":[{"server":"a","exit":{"code":0}},{"server":"b","exit":{"code":1}}],"redaction":{"rules":[]},"labels":{"x":1},"match":{},
"messages":[{"server":"a","from":"client","payload":{"id":1.5,"method":"x","n":[1E400,0.12345678901234567890],"s":"\ud800","n":1e2,"k":1,"k":2}},
{"server":"b","from":"client","payload":{}},{"server":"a","conn":1,"from":"server","text":"x\r"},{"server":"a","from":"server","base64":"eP8="},
{"server":"a","from":"server","redacted":["key:*token*"],"payload":{"id":true,"result":{}}},{"server":"a","from":"server","payload":{"id":2.0,"result":{}}},{"server":"a","from":"server","payload":42}],
"timing_ms":[0,0.5,1,2,3,4,5]}"#;

#[test]
fn what_is_lost_is_named() {
    let written = write(&parsed(OURS));
    assert_eq!(
        written.dropped,
        [
            "server \"b\" and its 1 messages: the format has one server",
            "the labels",
            "the matching rules",
            "how a server process ended",
            "an id that is neither a string nor a whole number: /messages/0",
            "of repeated keys in an object only the last stays: /messages/0",
            "a lone surrogate becomes U+FFFD: /messages/0",
            "bytes that are not UTF-8 become U+FFFD: /messages/3",
            "the ids of the rules that redacted a message: /messages/4",
            "which connection a message belongs to: /messages/2",
        ]
    );
    assert_eq!(written.notes.len(), 5, "{:?}", written.notes);
    let again = parsed(&written.text);
    assert_eq!(write(&again).text, written.text);
    assert_eq!(again.records.len(), 6);
    assert!(
        written.text.contains("\"n\": 100.0,\n        \"s\": \"\u{fffd}\",\n        \"k\": 2"),
        "{}",
        written.text
    );
    assert!(written.text.contains("\"msg_id\": 2,"));
}

#[test]
fn depth_does_not_explode_the_file() {
    let deep = "[".repeat(50_000) + &"]".repeat(50_000);
    let text = format!(
        r#"{{"mcpreel":1,"servers":{{"a":{{"transport":"stdio"}}}},"messages":[{{"from":"client","payload":{{"method":"x","params":{deep}}}}}]}}"#
    );
    let written = write(&parsed(&text));
    assert!(written.text.len() < 110_000);
    let again = parsed(&written.text);
    assert_eq!(again.records[0].from, Side::Client);
    assert_eq!(
        again.payload(&again.records[0]),
        Some(format!(r#"{{"method":"x","params":{deep}}}"#).as_str())
    );
}

#[test]
fn usual_http_facts_need_no_loss() {
    let text = |http: &str| {
        format!(
            r#"{{"mcpreel":1,"servers":{{"a":{{"transport":"http","url":"http://x/"}}}},"messages":[{{"session":1,"exchange":1,"from":"client","payload":{{"id":1,"method":"initialize"}}}},{{"session":1,"exchange":1,"from":"server","http":{http},"payload":{{"id":1,"result":{{}}}}}},{{"session":1,"exchange":2,"from":"server","http":{{"status":202}}}}]}}"#
        )
    };
    let usual = write(&parsed(&text(r#"{"status":200,"type":"json"}"#)));
    assert_eq!(usual.dropped, [""; 0]);
    assert!(usual.text.contains("\"session_id\": \"session-1\""));
    for http in [r#"{"status":401}"#, r#"{"status":200,"type":"sse"}"#] {
        assert_eq!(
            write(&parsed(&text(http))).dropped,
            ["HTTP facts: status, headers, or JSON against a stream: /messages/1"]
        );
    }
}

#[test]
fn a_replay_gets_the_rules_that_made_the_placeholders() {
    let text = r#"{"format_version":3,"messages":[{"t_offset_ms":1,"sender":"client","redacted":true,"payload":{"id":1,"method":"tools/call","params":{"_meta":{"progressToken":"REDACTED"},"name":"x","arguments":{"api-key":"REDACTED","list":["a","REDACTED"],"api-key":"REDACTED"}}}},
{"sender":"client","payload":{"id":2,"method":"a","params":{"plain":"REDACTED"}}},{"sender":"server","redacted":true,"payload":{"id":2,"result":{"token":"REDACTED"}}}]}"#;
    let cassette = parsed(text);
    let rules =
        r#"{"rules":["key:api-key","pointer:/params/arguments/list/1"],"derived_from":"mcp-cassette"}"#;
    assert_eq!(cassette.head.redaction.as_deref(), Some(rules));
    let written = write(&around(&cassette));
    assert_eq!(written.dropped, ["of repeated keys in an object only the last stays: /messages/0"]);
    assert!(written.text.contains("\"redaction\": null"));
}

#[test]
fn placeholders_are_known() {
    for text in [
        "REDACTED",
        "mail <EMAIL>_0ae25ee7e80b now",
        "<A B>_000000000000",
        "\u{2022}\u{2022}\u{2022}\u{2022}1234",
    ] {
        assert!(is_placeholder(text), "{text}");
    }
    for text in [
        "",
        "redacted",
        "REDACTED-1",
        "<EMAIL>_0ae25",
        ">_0ae25ee7e80b",
        "<>_0ae25ee7e80b",
        "<A>_0AE25EE7E80B",
    ] {
        assert!(!is_placeholder(text), "{text}");
    }
}

#[test]
fn unknown_fields_may_have_the_names_of_ours() {
    let text = r#"{"format_version":3,"servers":7,"labels":"x","messages":[{"sender":"client","payload":{"id":1,"method":"a"},"from":"me","text":1,"later":2}]}"#;
    let cassette = parsed(text);
    let written = write(&around(&cassette));
    assert_eq!(written.dropped, [""; 0]);
    for field in
        ["\n  \"servers\": 7", "\n  \"labels\": \"x\"", "\"from\": \"me\"", "\"text\": 1", "\"later\": 2"]
    {
        assert!(written.text.contains(field), "{field}: {}", written.text);
    }
}

#[test]
fn no_number_of_an_exchange_is_too_high() {
    let text = r#"{"format_version":3,"transport":"http","messages":[{"sender":"client","exchange":4294967294,"payload":{"id":1,"method":"a"}},{"sender":"client","payload":{"id":2,"method":"a"}}]}"#;
    let exchanges: Vec<u32> = parsed(text).records.iter().map(|record| record.exchange).collect();
    assert_eq!(exchanges, [u32::MAX, u32::MAX]);
}
