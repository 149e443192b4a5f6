//! What rules over text leave of a message.

use super::super::{Options, TextPack};
use super::*;
use std::path::Path;

/// A redactor with a rule of an own pack.
fn with_pack(regex: &str) -> Redactor {
    let text = format!(
        "version = 1\nid = \"team\"\n[[rules]]\nid = \"r\"\nlabel = \"R\"\nregex = '{regex}'\nreplacement = \"X\"\n"
    );
    let text = text.replace("replacement", "strategy = \"replace\"\nreplacement");
    let packs = [TextPack::parse(Path::new("team.toml"), &text).unwrap()];
    let rules = Rules::build(&Options { defaults: true, packs: &packs, ..Options::default() });
    Redactor::new(Arc::new(rules.unwrap()), 1)
}

#[test]
fn what_the_protocol_needs_stays_whatever_a_rule_over_text_says() {
    for message in [
        r#"{"jsonrpc":"2.0","id":"abc","method":"tools/call","params":{"name":"search","arguments":{},"_meta":{"progressToken":"tok","io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"search","version":"2026-01-02"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"","annotations":{"audience":["user"],"priority":1}}],"isError":false}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"search","inputSchema":{"type":"object","properties":{},"required":[],"additionalProperties":false,"minProperties":1,"oneOf":[],"$schema":"https"}}]}}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32022,"message":"","data":{"supported":["2025-06-18"],"requested":"2024-11-05"}}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"resultType":"complete","supportedVersions":["2025-06-18","2026-07-28"],"cacheScope":"private","ttlMs":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","inputResponses":{"1":{"action":"accept","content":{}}},"requestState":"s"}}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":""},"context":{"arguments":{}}}}"#,
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","logger":"l","data":1}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"t","icons":[{"theme":"light"}],"execution":{"taskSupport":"required"}}]}}"#,
    ] {
        for regex in [r"\b[a-z]{3,}\b", r"[a-zA-Z]+", r"\d{4}-\d\d-\d\d"] {
            assert_eq!(with_pack(regex).redact(message, Side::Server), None, "{regex}");
        }
    }
    // What others put there does not.
    for (given, expected) in [
        (
            r#"{"id":1,"result":{"joedoe":1,"result":{"a-joedoe":"joedoe"}}}"#,
            r#"{"id":1,"result":{"X":1,"result":{"a-X":"X"}}}"#,
        ),
        (
            r#"{"id":1,"method":"m","params":{"arguments":{"method":"joedoe"}}}"#,
            r#"{"id":1,"method":"m","params":{"arguments":{"X":"X"}}}"#,
        ),
    ] {
        assert_eq!(with_pack(r"\b[a-z]{6}\b").redact(given, Side::Client).unwrap().text, expected);
    }
    let dates = r#"{"method":"m","params":{"arguments":{"supportedVersions":["2025-06-18"],"requested":"2025-06-18"}}}"#;
    let redacted = with_pack(r"\d{4}-\d\d-\d\d").redact(dates, Side::Client).unwrap();
    assert_eq!(redacted.text, dates.replace("2025-06-18", "X"));
    let mut redactor = with_pack("[a-z]{3,}");
    for facts in
        [r#"{"status":200,"type":"json"}"#, r#"{"method":"get","path":"/"}"#, r#"{"event":1,"retry":100}"#]
    {
        assert_eq!(redactor.redact_facts(facts, Side::Server), None);
    }
    let facts = redactor.redact_facts(r#"{"status":401,"allow":"joedoe"}"#, Side::Server).unwrap();
    assert_eq!(facts.text, r#"{"status":401,"allow":"X"}"#);
}
