//! Bodies over HTTP that are no messages: what of them is kept, and that a replay sends it again.

use std::io::Write as _;

use super::support::http::{Upstream, answer, records};
use super::support::web::modern_fields;
use super::support::{Sandbox, modern};

/// What is kept at the most.
const MOST: usize = 64 << 10;

fn call(tool: &str) -> String {
    modern("1", "tools/call", &format!("\"name\":\"{tool}\",\"arguments\":{{}}"), "{}")
}

/// By tool: the status, header fields and the body that the server answers with.
fn said(tool: &str) -> (&'static str, &'static str, Vec<u8>) {
    let most = || vec![b'x'; MOST];
    match tool {
        "page" => {
            ("502 Bad Gateway", "Content-Type: text/html; charset=utf-8\r\n", b"<p>\xc3\xa9</p>\r\n".to_vec())
        }
        "latin" => ("500 Internal Server Error", "Content-Type: text/html\r\n", b"<p>\xe9</p>".to_vec()),
        "broken" => {
            ("500 Internal Server Error", "Content-Type: application/json\r\n", b"{\"oops\"".to_vec())
        }
        "untyped" => ("503 Service Unavailable", "Retry-After: 1\r\n", b"later".to_vec()),
        "most" => ("500 Internal Server Error", "Content-Type: text/plain\r\n", most()),
        "more" => {
            ("500 Internal Server Error", "Content-Type: text/plain\r\n", [most(), vec![b'x']].concat())
        }
        "empty" => ("500 Internal Server Error", "Content-Type: text/plain\r\n", Vec::new()),
        "forbidden" => ("403 Forbidden", "Content-Type: text/plain\r\n", b"not you".to_vec()),
        _ => panic!("{tool}"),
    }
}

#[test]
fn r025_r080_bodies_that_are_no_messages() {
    let upstream = Upstream::start(|request, socket| {
        let (status, fields, body) = match request.header("mcp-name") {
            Some(tool) => said(tool),
            None => ("200 OK", "Content-Type: text/plain\r\n", b"elsewhere".to_vec()),
        };
        let head = answer(status, fields, "");
        let head = String::from_utf8(head)
            .unwrap()
            .replace("Content-Length: 0", &format!("Content-Length: {}", body.len()));
        socket.write_all(head.as_bytes()).unwrap();
        socket.write_all(&body).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let most = format!("\"text\":\"{}\"", "x".repeat(MOST));
    // What follows the record's status and type, and whether the replay gives the same body.
    let table = [
        ("page", r#""http":{"status":502,"type":"text/html"},"text":"<p>é</p>\r\n""#, true),
        (
            "latin",
            r#""base64":"PHA+6TwvcD4=","exchange":2,"from":"server","http":{"status":500,"type":"text/html"}"#,
            true,
        ),
        ("broken", r#""http":{"status":500,"type":"json"},"text":"{\"oops\"""#, false),
        ("untyped", r#""http":{"retry-after":"1","status":503},"text":"later""#, true),
        ("most", most.as_str(), true),
        ("more", r#""http":{"status":500,"type":"text/plain"}}"#, false),
        ("empty", r#""http":{"status":500,"type":"text/plain"}}"#, true),
        ("forbidden", r#""http":{"status":403,"type":"text/plain"}}"#, false),
    ];
    let fields = |body: &str| -> String {
        modern_fields(body).iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect()
    };
    for (tool, ..) in table {
        let body = call(tool);
        assert_eq!(proxy.post(&fields(&body), &body).body, said(tool).2, "{tool}");
    }
    assert_eq!(proxy.get("/elsewhere", "").text(), "elsewhere");
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    assert_eq!(kept.len(), 2 * table.len() + 2);
    for ((tool, expected, _), record) in table.iter().zip(kept.iter().skip(1).step_by(2)) {
        assert!(record.contains(expected), "{tool}: {record:.300}");
    }
    assert!(kept.last().unwrap().ends_with(r#""http":{"status":200,"type":"text/plain"}}"#), "{kept:?}");

    let server = sandbox.proxy_of(sandbox.mcpreel(["serve", "c.json", "--ready-file", "ready"]));
    for (tool, _, same) in table.iter().filter(|(tool, ..)| *tool != "broken") {
        let (status, _, body) = said(tool);
        let body = if *same { body } else { Vec::new() };
        let request = call(tool);
        let got = server.post(&fields(&request), &request);
        assert_eq!((&status[..3], got.body), (got.status.to_string().as_str(), body), "{tool}");
    }
    // What was to be an answer, and is torn, is a miss.
    let torn = server.post(&fields(&call("broken")), &call("broken"));
    assert!(torn.text().contains("\"code\":-31002"), "{}", torn.text());
    server.stop(3);
}

#[test]
fn r025_json_is_kept_whatever_the_status_but_where_a_client_is_to_sign_in() {
    for (status, kept) in [
        ("202 Accepted", true),
        ("403 Forbidden", true),
        ("404 Not Found", true),
        ("401 Unauthorized", false),
    ] {
        let body = r#"{"jsonrpc":"2.0","id":"1","error":{"code":-32000,"message":"no","data":{"api_key":"s3cret"}}}"#;
        let upstream = Upstream::saying(answer(status, "Content-Type: application/json\r\n", body));
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        assert_eq!(proxy.post("", &call("a")).text(), body);
        proxy.stop(0);
        let records = records(&sandbox, "c.json");
        assert_eq!(records[1].contains(r#""message":"no""#), kept, "{records:?}");
        assert!(!sandbox.read("c.json").contains("s3cret"));
    }
}

#[test]
fn r030_what_came_of_a_body_before_it_was_cut_is_kept() {
    let whole = r#"{"jsonrpc":"2.0","id":"1","result":{}}"#;
    let json = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    let plain = "HTTP/1.1 500 Oops\r\nContent-Type: text/plain\r\n";
    for (head, piece, body) in [
        (
            format!("{json}Content-Length: 99\r\n\r\n"),
            whole.to_owned(),
            r#""payload":{"id":"1","jsonrpc":"2.0","result":{}}"#,
        ),
        (
            format!("{json}Content-Length: 99\r\n\r\n"),
            r#"{"api_key": "s3cret", "#.to_owned(),
            r#""text":"{\"api_key\": \"REDACTED"#,
        ),
        (
            format!("{json}Transfer-Encoding: chunked\r\n\r\n"),
            format!("{:x}\r\n{whole}\r\n", whole.len()),
            r#""payload":{"id":"1","jsonrpc":"2.0","result":{}}"#,
        ),
        (
            format!("{json}Transfer-Encoding: chunked\r\n\r\n"),
            "ff\r\n{\"jsonrpc\"".to_owned(),
            r#""text":"{\"jsonrpc\"""#,
        ),
        (format!("{plain}Content-Length: 99\r\n\r\n"), "half".to_owned(), r#""text":"half""#),
    ] {
        let reply = format!("{head}{piece}");
        let upstream = Upstream::start(move |_, socket| {
            socket.write_all(reply.as_bytes()).unwrap();
            false
        });
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        proxy.begin_post("", &call("a")).rest();
        proxy.stop(0);
        let kept = records(&sandbox, "c.json");
        assert_eq!(kept.len(), 3, "{kept:?}");
        assert!(
            kept[1].contains(r#""from":"server","http":{"status":"#) && kept[1].contains(body),
            "{kept:?}"
        );
        assert_eq!(kept[2], r#"{"end":"cut","exchange":1,"from":"server"}"#);
        assert!(!sandbox.read("c.json").contains("s3cret"));
    }
}

#[test]
fn r037_challenges_are_redacted_like_any_text() {
    let challenge = concat!(
        r#"Bearer realm="x", access_token="SECRET1", error_description="token=SECRET2 is not known", "#,
        r#"resource_metadata="https://u:SECRET3@h.example/.well-known/x?api_key=SECRET4&a=b""#
    );
    let upstream =
        Upstream::saying(answer("401 Unauthorized", &format!("WWW-Authenticate: {challenge}\r\n"), ""));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    assert_eq!(proxy.post("", &call("a")).header("www-authenticate"), Some(challenge));
    proxy.stop(0);
    let record = &records(&sandbox, "c.json")[1];
    assert!(!record.contains("SECRET"), "{record}");
    for plain in
        [r#"Bearer realm=\"x\", access_token="#, "h.example/.well-known/x?api_key=", "a=b", "\"redacted\":["]
    {
        assert!(record.contains(plain), "{plain}: {record}");
    }
}
