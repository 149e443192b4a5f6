//! Recording over HTTP: answers and requests that are allowed and rare, or not allowed at all.

use crate::support::Sandbox;
use crate::support::http::{Upstream, answer, json, records};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

#[test]
fn a_length_beside_chunks_does_not_count() {
    let length = PONG.len();
    let fields = "Content-Type: application/json\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n";
    let upstream =
        Upstream::saying(format!("HTTP/1.1 200 OK\r\n{fields}\r\n{length:x}\r\n{PONG}\r\n0\r\n\r\n"));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let got = proxy.post("", PING);
    assert_eq!((got.text(), got.header("content-length")), (PONG, None));
    proxy.stop(0);
    assert!(records(&sandbox, "c.json")[1].ends_with(r#""payload":{"id":1,"jsonrpc":"2.0","result":{}}}"#));
}

#[test]
fn unusual_statuses_pass() {
    for status in [299, 418, 599, 600, 777, 999] {
        let upstream =
            Upstream::saying(answer(&format!("{status} Odd"), "Content-Type: text/plain\r\n", "odd"));
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        let got = proxy.post("", PING);
        assert_eq!((got.status, got.text()), (status, "odd"));
        proxy.stop(0);
        let expected = format!(
            r#"{{"exchange":1,"from":"server","http":{{"status":{status},"type":"text/plain"}},"text":"odd"}}"#
        );
        assert_eq!(records(&sandbox, "c.json")[1], expected);
    }
}

#[test]
fn heads_as_large_as_clients_take_pass() {
    let large = format!("Content-Type: application/json\r\nX-Large: {}\r\n", "a".repeat(64 << 10));
    let many: String = (0..120).map(|number| format!("X-{number}: {number}\r\n")).collect();
    for (fields, name) in [(large, "x-large"), (many, "x-119")] {
        let upstream = Upstream::saying(answer("200 OK", &fields, PONG));
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        let got = proxy.post("", PING);
        assert_eq!((got.text(), got.header(name).is_some()), (PONG, true), "{name}");
        proxy.stop(0);
    }
}

#[test]
fn a_head_that_cannot_be_passed_on_is_a_502_that_says_why() {
    let many: String = (0..300).map(|number| format!("X-{number}: {number}\r\n")).collect();
    for (reply, why) in [
        (answer("200 OK", "X-Folded: one\r\n  two\r\n", PONG), "cannot be read: invalid header name"),
        (answer("200 OK", &many, PONG), "cannot be read: it has more than 128 fields"),
        (
            answer("200 OK", &format!("X-Large: {}\r\n", "a".repeat(200_000)), PONG),
            "cannot be read: it is larger than 72 KiB",
        ),
        (b"HTTP/1.1 abc OK\r\n\r\n".to_vec(), "cannot be read: "),
        (b"\x00\x01garbage\r\n\r\n".to_vec(), "cannot be read: "),
        (
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\nanything".to_vec(),
            "the server changes the protocol (status 101)",
        ),
    ] {
        let upstream = Upstream::saying(reply);
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        for _ in 0..2 {
            let got = proxy.post("", PING);
            assert_eq!(got.status, 502, "{why}");
            assert!(
                got.text().starts_with(r#"{"jsonrpc":"2.0","id":1,"error":{"code":-31004,"#),
                "{}",
                got.text()
            );
            assert!(got.text().contains(why), "{}", got.text());
        }
        let said = proxy.stop(0).stderr;
        // Once, however often it happens.
        assert_eq!(said.matches(why).count(), 1, "{said}");
        assert_eq!(records(&sandbox, "c.json")[3], r#"{"end":"cut","exchange":2,"from":"server"}"#);
    }
}

#[test]
fn a_target_that_is_no_path_goes_nowhere() {
    let upstream = Upstream::saying(json(PONG));
    let elsewhere = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let host = proxy.address.to_string();
    let other = elsewhere.address;
    for target in ["*".to_owned(), format!("@{other}/"), format!(":{}/", other.port()), "mcp".to_owned()] {
        let mut wire = proxy.wire();
        wire.write(format!("OPTIONS {target} HTTP/1.1\r\nHost: {host}\r\n\r\n"));
        assert!(wire.until("\r\n").starts_with("HTTP/1.1 40"), "{target}");
    }
    assert!(elsewhere.received.try_recv().is_err() && upstream.received.try_recv().is_err());
    proxy.post("", PING);
    proxy.stop(0);
    assert_eq!(records(&sandbox, "c.json").len(), 2);
}
