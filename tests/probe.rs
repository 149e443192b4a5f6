//! The simplest streaming session that recorders of MCP traffic are known to get wrong: progress, a fresh token, pages,
//! and a call that nobody recorded.

use crate::support::replay::{INITIALIZED, call, progress, request, said};
use crate::support::{Sandbox, initialize};

const SERVER: &str = r#"
while read -r line; do
    id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\),.*/\1/')
    token=$(printf '%s' "$line" | sed 's/.*"progressToken":\("[^"]*"\|[0-9]*\).*/\1/')
    case $line in
    *'"initialize"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"probe","version":"1"}}}' ;;
    *'"cursor":"two"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"b","inputSchema":{"type":"object"}}]}}' ;;
    *'"tools/list"'*) echo '{"jsonrpc":"2.0","id":'$id',"result":{"tools":[{"name":"a","inputSchema":{"type":"object"}}],"nextCursor":"two"}}' ;;
    *'"tools/call"'*)
        for done in 1 2; do
            echo '{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":'$token',"progress":'$done'}}'
        done
        echo '{"jsonrpc":"2.0","id":'$id',"result":{"content":[{"type":"text","text":"counted"}]}}' ;;
    esac
done"#;

fn count(id: &str, token: &str) -> String {
    request(
        id,
        "tools/call",
        &format!(r#"{{"name":"a","arguments":{{"upTo":2}},"_meta":{{"progressToken":{token}}}}}"#),
    )
}

fn page(id: &str, cursor: &str) -> String {
    request(id, "tools/list", cursor)
}

#[test]
fn progress_tokens_pages_and_an_unknown_call() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", SERVER);
    let mut client = sandbox.mcpreel(["record", "-q", "--cassette", "c.json", "--", &server]).start();
    client.greet("{}");
    client.send(&count("1", "\"secret-looking\""));
    client.gets(&[
        progress("\"secret-looking\"", 1),
        progress("\"secret-looking\"", 2),
        said("1", "counted"),
    ]);
    let first = client.ask(&page("2", "{}"));
    let second = client.ask(&page("3", r#"{"cursor":"two"}"#));
    client.close(0);
    assert!(first.contains(r#""name":"a""#) && second.contains(r#""name":"b""#), "{first} {second}");

    // The same again.
    let session = [
        &initialize("{}"),
        INITIALIZED,
        &count("1", "\"secret-looking\""),
        &page("2", "{}"),
        &page("3", r#"{"cursor":"two"}"#),
    ];
    let (got, ended) = sandbox.replay("c.json", &session, 0);
    assert_eq!(
        got[1..],
        [
            progress("\"secret-looking\"", 1),
            progress("\"secret-looking\"", 2),
            said("1", "counted"),
            first.clone(),
            second.clone()
        ]
    );
    assert_eq!(ended.stderr, "");

    // Fresh ids and a fresh token, pages in another order.
    let session = [
        &initialize("{}"),
        INITIALIZED,
        &page("11", r#"{"cursor":"two"}"#),
        &count("12", "99"),
        &page("13", "{}"),
    ];
    let (got, ended) = sandbox.replay("c.json", &session, 0);
    let renumbered =
        |line: &str, old: u32, new: u32| line.replace(&format!("\"id\":{old}"), &format!("\"id\":{new}"));
    assert_eq!(
        got[1..],
        [
            renumbered(&second, 3, 11),
            progress("99", 1),
            progress("99", 2),
            said("12", "counted"),
            renumbered(&first, 2, 13)
        ]
    );
    assert_eq!(ended.stderr, "");

    // What was not recorded, and only that, is an error and exit 3.
    for unknown in [call("5", "b", "{}"), call("5", "a", r#"{"upTo":3}"#), page("5", r#"{"cursor":"three"}"#)]
    {
        let (got, ended) =
            sandbox.replay("c.json", &[&initialize("{}"), INITIALIZED, &unknown, &count("6", "1")], 3);
        assert!(got[1].starts_with(r#"{"jsonrpc":"2.0","id":5,"error":{"code":-31001,"#), "{}", got[1]);
        assert_eq!(got[2..], [progress("1", 1), progress("1", 2), said("6", "counted")]);
        assert!(ended.stderr.ends_with("mcpreel: 1 request without a recorded answer\n"), "{}", ended.stderr);
    }
}
