//! Recording over HTTP: what is passed on at once, and the little that is not.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::support::http::{LAST, SSE, Upstream, answer, chunk, read_to_end, records};
use crate::support::{LONG, Sandbox};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const STREAM: &str = "Accept: text/event-stream\r\n";
const TEXT: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A server that begins each answer with `head` and a piece of its body, and says no more until the client leaves: a
/// recorder that held anything back would show nothing.
fn stuck(head: &'static str, piece: &'static str) -> Upstream {
    Upstream::start(move |_, socket| {
        let body = if head.contains("chunked") && !piece.is_empty() {
            chunk(piece.as_bytes())
        } else {
            piece.into()
        };
        socket.write_all(head.as_bytes()).unwrap();
        // In a segment of its own: the head has been passed on before.
        let _ = socket.write_all(&body);
        read_to_end(socket);
        false
    })
}

#[test]
fn r023_what_is_no_whole_event_is_passed_on_at_once() {
    let half = "data: {\"jsonrpc\":";
    for (head, method, path, piece, shown) in [
        (SSE, "POST", "/mcp", "retry: 100\n", "retry: 100\n"),
        (SSE, "POST", "/mcp", ": waiting\n", ": waiting\n"),
        (SSE, "POST", "/mcp", ": wai", ": wai"),
        (SSE, "POST", "/mcp", half, half),
        (SSE, "POST", "/mcp", "data: {}\n", "data: {}\n"),
        // The blank line may be a CR, and its LF may never come.
        (SSE, "POST", "/mcp", "data: {}\r\n\r", "data: {}\r\n\r"),
        (SSE, "GET", "/mcp", ": waiting\n", ": waiting\n"),
        (SSE, "GET", "/mcp", "retry: 100\nid: 7\n", "id: 7\n"),
        (SSE, "GET", "/mcp", ": a\n\ndata: {}\n\ndata: {\"id\"", "data: {\"id\""),
        (SSE, "POST", "/other", half, half),
        (SSE, "GET", "/other", ": waiting\n", ": waiting\n"),
        (SSE, "GET", "/other?x=1", "data: {}\n\ndata: {\"id\"", "data: {\"id\""),
        (TEXT, "GET", "/other", "whole", "whole"),
        (TEXT, "POST", "/other", "whole", "whole"),
        // All but the byte with which it may be complete.
        (JSON, "POST", "/mcp", "{\"a\": [1, 2", "{\"a\": [1, "),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "POST", "/mcp", "{\"a\": [1, 2", "{\"a\": [1, 2"),
        // Heads do not wait for bodies.
        ("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "POST", "/mcp", "", "99\r\n\r\n"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "GET", "/other", "", "99\r\n\r\n"),
    ] {
        let upstream = stuck(head, piece);
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        let mut wire = match method {
            "POST" => proxy.begin_post_to(path, "", CALL),
            _ => proxy.begin(method, path, STREAM),
        };
        wire.until(shown);
        wire.close();
        proxy.stop(0);
    }
}

/// A server of HTTP+SSE: its stream sends what it is told, when it is told to. `None` ends it.
fn old() -> (Upstream, Sender<Option<&'static str>>) {
    let (tell, told) = channel::<Option<&'static str>>();
    let told: Mutex<Receiver<_>> = Mutex::new(told);
    let upstream = Upstream::start(move |request, socket| {
        if request.method == "POST" {
            return socket.write_all(&answer("202 Accepted", "", "Accepted")).is_ok();
        }
        let told = told.lock().unwrap();
        socket.write_all(SSE.as_bytes()).unwrap();
        while let Ok(Some(text)) = told.recv_timeout(LONG) {
            socket.write_all(&chunk(text.as_bytes())).unwrap();
        }
        socket.write_all(LAST).is_ok()
    });
    (upstream, tell)
}

#[test]
fn r035_http_with_sse_works_at_any_path() {
    // With a header of ours the server is behind a random path, and what is announced has to be made local.
    for more in [&["-q"][..], &["-q", "--header", "X-Key: k"]] {
        for (pieces, endpoint) in [
            (
                ["event: endp", "oint\ndata: /api/mes", "sages/?session_id=s3cret\n", "\n"],
                "/api/messages/?session_id=s3cret",
            ),
            // Relative to where the stream is.
            (
                ["event: endp", "oint\ndata: mes", "sages/?session_id=s3cret\n", "\n"],
                "messages/?session_id=s3cret",
            ),
        ] {
            let (upstream, tell) = old();
            let sandbox = Sandbox::new();
            let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), more);
            let prefix = proxy.path.strip_suffix("/mcp").unwrap();
            let mut stream = proxy.begin("GET", &format!("{prefix}/api/sse"), STREAM);
            tell.send(Some(": hello\n")).unwrap();
            stream.until(": hello\n\r\n");
            for piece in pieces {
                tell.send(Some(piece)).unwrap();
            }
            let local =
                if endpoint.starts_with('/') { format!("{prefix}{endpoint}") } else { endpoint.to_owned() };
            let got = stream.until("\n\n\r\n");
            assert!(got.ends_with(&format!("\r\nevent: endpoint\ndata: {local}\n\n\r\n")), "{got}");
            let path = if endpoint.starts_with('/') { local } else { format!("{prefix}/api/{local}") };
            assert_eq!(proxy.begin_post_to(&path, "", CALL).answer().status, 202);
            upstream.next();
            assert_eq!(upstream.next().target, "/api/messages/?session_id=s3cret");
            tell.send(Some("event: message\ndata: ")).unwrap();
            stream.until("data: ");
            tell.send(Some(RESULT)).unwrap();
            stream.until(RESULT);
            tell.send(Some("\n\n")).unwrap();
            tell.send(None).unwrap();
            stream.until("0\r\n\r\n");
            proxy.stop(0);
            assert_eq!(
                records(&sandbox, "c.json"),
                [
                    r#"{"exchange":1,"from":"client","http":{"method":"GET","path":"/api/sse"},"session":1}"#,
                    r#"{"exchange":1,"from":"server","http":{"status":200,"type":"sse"},"session":1,"stream":"get"}"#,
                    r#"{"exchange":2,"from":"client","payload":{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}},"session":1}"#,
                    r#"{"exchange":2,"from":"server","http":{"status":202},"session":1}"#,
                    r#"{"exchange":1,"from":"server","payload":{"id":1,"jsonrpc":"2.0","result":{}},"session":1,"stream":"get"}"#,
                    r#"{"end":"cut","exchange":1,"from":"server","session":1,"stream":"get"}"#,
                ]
            );
            assert!(!sandbox.read("c.json").contains("s3cret"));
            let replay = sandbox.proxy_of(sandbox.mcpreel(["serve", "c.json", "--ready-file", "ready"]));
            let mut stream = replay.begin("GET", "/sse", STREAM);
            let got = stream.until("\n\n");
            let path = got.split("data: ").nth(1).unwrap().trim();
            assert_eq!(replay.begin_post_to(path, "", CALL).answer().status, 202);
            stream.until(RESULT);
            replay.stop(0);
        }
    }
}

#[test]
fn a_request_over_http_with_sse_that_was_open_when_the_recorder_was_ended_is_a_miss() {
    let (upstream, tell) = old();
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/sse"), &["-q"]);
    let mut stream = proxy.begin("GET", "/sse", STREAM);
    tell.send(Some("event: endpoint\ndata: /messages?session_id=1\n\n")).unwrap();
    stream.until("session_id=1\n\n");
    assert_eq!(proxy.begin_post_to("/messages?session_id=1", "", CALL).answer().status, 202);
    proxy.stop(0);
    drop((stream, tell));
    let kept = records(&sandbox, "c.json");
    assert_eq!(
        kept[4..],
        [
            r#"{"end":"recorder_ended","exchange":2,"from":"server","session":1}"#,
            r#"{"end":"client_closed","exchange":1,"from":"server","session":1,"stream":"get"}"#,
        ],
        "{kept:?}"
    );
    let replay = sandbox.proxy_of(sandbox.mcpreel(["serve", "c.json", "--ready-file", "ready"]));
    let mut stream = replay.begin("GET", "/sse", STREAM);
    let got = stream.until("\n\n");
    let path = got.split("data: ").nth(1).unwrap().trim();
    assert_eq!(replay.begin_post_to(path, "", CALL).answer().status, 202);
    stream.until("\"code\":-31002");
    replay.stop(3);
}

#[test]
fn a_stream_of_another_path_that_announces_nothing_is_nobodys_business() {
    let upstream = Upstream::start(|_, socket| {
        let body = "data: {\"private\":1}\n\nevent: endpoint\ndata: /late\n\n";
        socket.write_all(&[SSE.as_bytes(), &chunk(body.as_bytes()), LAST].concat()).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--header", "X-Key: k"]);
    let prefix = proxy.path.strip_suffix("/mcp").unwrap();
    let got = proxy.get(&format!("{prefix}/feed"), STREAM);
    assert_eq!(got.text(), "data: {\"private\":1}\n\nevent: endpoint\ndata: /late\n\n");
    proxy.stop(0);
    assert_eq!(
        records(&sandbox, "c.json"),
        [
            r#"{"exchange":1,"from":"client","http":{"method":"GET","path":"/feed"}}"#,
            r#"{"exchange":1,"from":"server","http":{"status":200,"type":"sse"}}"#,
        ]
    );
}
