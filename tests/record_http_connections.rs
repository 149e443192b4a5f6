//! Recording over HTTP: a connection to the server belongs to a client's connection.

use std::collections::HashSet;
use std::io::Write as _;
use std::net::Shutdown;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};

use crate::support::http::{Upstream, Wire, chunk, json, read_to_end, records};
use crate::support::{LONG, Sandbox, tls};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// A request on a connection that is there already.
fn ask(wire: &mut Wire, host: &str) {
    let head = format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n");
    wire.write(format!("{head}Content-Length: {}\r\n\r\n{PING}", PING.len()));
}

#[test]
fn a_client_that_keeps_its_connection_has_one_to_the_server_and_others_have_theirs() {
    let ports: Arc<Mutex<Vec<u16>>> = Arc::default();
    let (seen, seen_behind_tls) = (Arc::clone(&ports), Arc::clone(&ports));
    let (tell, ended) = channel();
    let plain = Upstream::start(move |request, socket| {
        seen.lock().unwrap().push(socket.peer_addr().unwrap().port());
        socket.write_all(&json(PONG)).unwrap();
        if request.header("x-last").is_some() {
            read_to_end(socket);
            tell.send(()).unwrap();
            return false;
        }
        true
    });
    let secure = Upstream::with_certificate("good", move |_, stream| {
        seen_behind_tls.lock().unwrap().push(stream.sock.peer_addr().unwrap().port());
        stream.write_all(&json(PONG)).is_ok()
    });
    let authority = tls::file("ca.pem").to_str().unwrap().to_owned();
    for (url, more) in [
        (plain.url("/mcp"), vec!["-q"]),
        (format!("https://{}/mcp", secure.address), vec!["-q", "--cacert", &authority]),
    ] {
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &url, &more);
        let host = proxy.address.to_string();
        let mut wires = [proxy.wire(), proxy.wire()];
        for wire in [0, 1, 0, 1, 0] {
            ask(&mut wires[wire], &host);
            assert_eq!(wires[wire].answer().text(), PONG);
        }
        let used: Vec<u16> = std::mem::take(&mut *ports.lock().unwrap());
        assert_eq!(used, [used[0], used[1], used[0], used[1], used[0]], "{url}");
        assert_ne!(used[0], used[1]);
        proxy.stop(0);
    }
    // It goes when its client goes.
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &plain.url("/mcp"), &["-q"]);
    let mut wire = proxy.begin_post("X-Last: 1\r\n", PING);
    wire.answer();
    wire.close();
    ended.recv_timeout(LONG).unwrap();
    proxy.stop(0);
}

#[test]
fn a_server_that_closes_after_each_answer_without_a_word_loses_none() {
    for reply in [json(PONG), chunked(PONG)] {
        let ports: Arc<Mutex<HashSet<u16>>> = Arc::default();
        let seen = Arc::clone(&ports);
        let upstream = Upstream::start(move |_, socket| {
            seen.lock().unwrap().insert(socket.peer_addr().unwrap().port());
            socket.write_all(&reply).unwrap();
            false
        });
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        for _ in 0..300 {
            assert_eq!(proxy.post("", PING).text(), PONG);
        }
        assert_eq!(ports.lock().unwrap().len(), 300);
        proxy.stop(0);
        assert_eq!(records(&sandbox, "c.json").len(), 600);
    }
}

fn chunked(body: &str) -> Vec<u8> {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    [&head[..], &chunk(body.as_bytes()), b"0\r\n\r\n"].concat()
}

#[test]
fn a_connection_that_the_server_has_closed_is_replaced_and_one_that_it_closes_under_a_request_is_passed_on() {
    let (tell, closed) = channel();
    let upstream = Upstream::start(move |request, socket| {
        if request.header("x-close").is_some() {
            return false;
        }
        socket.write_all(&json(PONG)).unwrap();
        if request.header("x-once").is_some() {
            socket.shutdown(Shutdown::Both).unwrap();
            tell.send(()).unwrap();
        }
        true
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let host = proxy.address.to_string();
    let mut wire = proxy.begin_post("X-Once: 1\r\n", PING);
    assert_eq!(wire.answer().text(), PONG);
    closed.recv_timeout(LONG).unwrap();
    ask(&mut wire, &host);
    assert_eq!(wire.answer().text(), PONG);
    // No answer, and no retry: as it would be without us.
    wire.write(format!("POST /mcp HTTP/1.1\r\nHost: {host}\r\nX-Close: 1\r\nContent-Length: 0\r\n\r\n"));
    assert_eq!(wire.rest(), b"");
    assert_eq!(upstream.received.try_iter().count(), 3);
    proxy.stop(0);
}
