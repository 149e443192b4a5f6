use super::*;

use std::io::Write;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
const OPEN: &[u8] = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n";

/// Answers each connection's requests with raw bytes, in order; tells what it received.
fn raw_server(replies: &'static [&'static [u8]]) -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (tell, told) = mpsc::channel();
    thread::spawn(move || {
        let mut replies = replies.iter();
        for (number, socket) in listener.incoming().enumerate() {
            let mut socket = socket.unwrap();
            while let Some(request) = read_request(&mut socket) {
                tell.send(format!("{number} {request}")).unwrap();
                let Some(reply) = replies.next() else { break };
                socket.write_all(reply).unwrap();
                if reply.is_empty() {
                    return;
                }
                if reply.windows(5).any(|part| part == b"close" || part == b"short") {
                    break;
                }
            }
            if replies.len() == 0 {
                // Left open, so that only a client ends it.
                tell.send(format!(
                    "{number} ended: {:?}",
                    socket.read(&mut [0]).map_err(|error| error.kind())
                ))
                .unwrap();
                return;
            }
        }
    });
    (address, told)
}

fn read_request(socket: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    let mut head = None;
    loop {
        if let Some((end, length)) = head
            && bytes.len() == end + length
        {
            return Some(String::from_utf8_lossy(&bytes).into_owned());
        }
        if socket.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
        if head.is_none() && bytes.ends_with(b"\r\n\r\n") {
            let text = String::from_utf8_lossy(&bytes).to_lowercase();
            let length = text
                .split("content-length: ")
                .nth(1)
                .map_or(0, |rest| rest.split('\r').next().unwrap().parse().unwrap());
            head = Some((bytes.len(), length));
        }
    }
}

fn upstream(address: SocketAddr) -> Lane {
    Upstream::new(&format!("http://{address}/mcp?a=b"), &Options::default()).unwrap().lane()
}

fn sorted(request: &str) -> Vec<String> {
    let (head, body) = request.split_once("\r\n\r\n").unwrap();
    let mut lines: Vec<String> = head.split("\r\n").skip(1).map(str::to_owned).collect();
    lines.sort();
    lines.push(body.to_owned());
    lines
}

#[test]
fn r26_r27_requests_go_out_as_they_came_but_for_the_connection() {
    let (address, told) = raw_server(&[EMPTY, EMPTY, EMPTY, EMPTY, EMPTY]);
    let mut options = Options::default();
    options.headers.push("Authorization", "Bearer secret");
    let upstream = Upstream::new(&format!("http://{address}/mcp?a=b"), &options).unwrap().lane();
    assert_eq!((upstream.home.origin(), upstream.home.path()), (format!("http://{address}"), "/mcp?a=b"));
    let mut headers = Headers::new()
        .with("Host", "127.0.0.1:1")
        .with("Accept-Encoding", "gzip, br")
        .with("Connection", "keep-alive, x-hop")
        .with("X-Hop", "1")
        .with("Content-Length", "99")
        .with("Expect", "100-continue")
        .with("Mcp-Session-Id", "s")
        .with("authorization", "Bearer other")
        .with("X-Two", "1")
        .with("X-Two", "2");
    headers.push("X-Bytes", b"caf\xc3\xa9 \xff".as_slice());
    let expected = |extra: &[&str], body: &str| {
        let mut lines = vec![
            "accept-encoding: identity".to_owned(),
            "authorization: Bearer secret".to_owned(),
            format!("host: {address}"),
            "mcp-session-id: s".to_owned(),
            "x-bytes: caf\u{e9} \u{fffd}".to_owned(),
            "x-two: 1".to_owned(),
            "x-two: 2".to_owned(),
        ];
        lines.extend(extra.iter().map(|line| (*line).to_owned()));
        lines.sort();
        lines.push(body.to_owned());
        lines
    };
    for (method, body, extra, sent) in [
        ("POST", Some(&b"{}"[..]), &["content-length: 2"][..], "{}"),
        ("POST", Some(b""), &["content-length: 0"], ""),
        ("GET", None, &[], ""),
        ("DELETE", Some(b"{}"), &["content-length: 2"], "{}"),
        ("PURGE", None, &[], ""),
    ] {
        let response = upstream.exchange().send(method, "/x?y", &headers, body).unwrap();
        assert_eq!((response.status, response.length), (200, Some(0)));
        drop(response);
        let request = told.recv().unwrap();
        // All on one connection.
        assert!(request.starts_with(&format!("0 {method} /x?y HTTP/1.1\r\n")), "{request}");
        assert_eq!(sorted(&request), expected(extra, sent), "{method}");
    }
}

#[test]
fn answers_come_as_they_are() {
    let (address, _told) = raw_server(&[
        b"HTTP/1.1 307 Temporary Redirect\r\nLocation: /else\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\nx-a: 2\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x08",
        b"HTTP/1.1 200 OK\r\nX-Bytes: caf\xc3\xa9\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n",
        b"HTTP/1.1 500 Oops\r\nContent-Length: 10\r\n\r\nshort",
        b"",
    ]);
    let upstream = upstream(address);
    let get = |method: &str| {
        let mut response = upstream.exchange().send(method, "/", &Headers::new(), None)?;
        let mut body = Vec::new();
        let ended = response.body.read_to_end(&mut body).is_ok();
        Ok::<_, SendError>((
            response.status,
            response.headers.clone(),
            !response.codings().is_empty(),
            body,
            ended,
        ))
    };
    assert_eq!(get("GET").unwrap(), (307, Headers::new().with("location", "/else"), false, Vec::new(), true));
    let (status, headers, _, body, _) = get("GET").unwrap();
    assert_eq!(
        (status, headers, body),
        (404, Headers::new().with("x-a", "1").with("x-a", "2"), b"{}".to_vec())
    );
    let (_, headers, encoded, body, _) = get("GET").unwrap();
    assert_eq!(
        (headers.get("content-encoding"), encoded, body),
        (Some(&b"gzip"[..]), true, b"\x1f\x8b\x08".to_vec())
    );
    let (_, headers, encoded, body, _) = get("GET").unwrap();
    assert_eq!(
        (headers.get("x-bytes"), encoded, body),
        (Some("caf\u{e9}".as_bytes()), false, b"abc".to_vec())
    );
    let (_, headers, _, body, ended) = get("HEAD").unwrap();
    assert_eq!((headers.text("content-length"), body, ended), (Some("10"), Vec::new(), true));
    let (status, _, _, body, ended) = get("GET").unwrap();
    assert_eq!((status, body, ended), (500, b"short".to_vec(), false));
    assert!(matches!(get("GET"), Err(SendError::Broken(_))));
}

#[test]
fn an_exchange_is_cancelled_before_and_within_its_answer() {
    for replies in [&[][..], &[OPEN][..]] {
        let (address, told) = raw_server(replies);
        let exchange = upstream(address).exchange();
        let cancel = exchange.canceller();
        let late = thread::spawn(move || {
            let mut response = exchange.send("POST", "/mcp", &Headers::new(), Some(b"{}"))?;
            let mut event = [0; 100];
            let length = response.body.read(&mut event).unwrap();
            assert_eq!(&event[..length], b"data: 1\n\n");
            let error = response.body.read(&mut event).unwrap_err();
            assert!(response.body.canceller().is_cancelled(), "{error}");
            Ok::<_, SendError>(Instant::now())
        });
        assert!(told.recv().unwrap().starts_with("0 POST"));
        thread::sleep(Duration::from_millis(100));
        let begun = Instant::now();
        cancel.cancel();
        match late.join().unwrap() {
            Ok(_) => assert!(!replies.is_empty()),
            Err(error) => assert!(replies.is_empty() && matches!(error, SendError::Cancelled), "{error}"),
        }
        // The server sees the end too.
        assert!(told.recv_timeout(Duration::from_secs(5)).unwrap().contains("ended: Ok(0)"));
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
}

#[test]
fn dropping_a_stream_closes_it_and_a_late_cancel_does_nothing() {
    let (address, told) = raw_server(&[EMPTY, OPEN]);
    let upstream = upstream(address);
    let exchange = upstream.exchange();
    let cancel = exchange.canceller();
    let mut response = exchange.send("GET", "/", &Headers::new(), None).unwrap();
    response.body.read_to_end(&mut Vec::new()).unwrap();
    drop(response);
    let mut response = upstream.exchange().send("GET", "/", &Headers::new(), None).unwrap();
    cancel.cancel();
    assert_eq!(response.body.read(&mut [0; 100]).unwrap(), 9);
    drop(response);
    assert!(told.recv().unwrap().starts_with("0 GET"));
    assert!(told.recv().unwrap().starts_with("0 GET"));
    assert!(told.recv_timeout(Duration::from_secs(5)).unwrap().contains("ended"));
}

#[test]
fn r39_an_upstream_that_is_not_there() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let send = |upstream: &Lane, method: &str, target: &str| {
        upstream.exchange().send(method, target, &Headers::new(), Some(b"{}")).unwrap_err()
    };
    assert!(matches!(send(&upstream(address), "POST", "/"), SendError::Unreachable(_)));
    let nowhere = Upstream::new("http://does-not-exist.invalid/", &Options::default()).unwrap().lane();
    assert!(matches!(send(&nowhere, "POST", "/"), SendError::Unreachable(_)));
    assert!(matches!(send(&upstream(address), "PO ST", "/"), SendError::Request(_)));
    for target in ["/a b", "*", "http://elsewhere/", "@elsewhere/", "", ":80/"] {
        assert!(matches!(send(&upstream(address), "POST", target), SendError::Request(_)), "{target}");
    }
}

#[test]
fn tls_to_a_server_that_speaks_none_is_not_reached() {
    let (address, _told) = raw_server(&[b"HTTP/1.1 400 Bad Request\r\n\r\n"]);
    let upstream = Upstream::new(&format!("https://{address}/"), &Options::default()).unwrap().lane();
    thread::spawn(move || {
        // The server reads a handshake that never holds a blank line, so only cancelling ends this.
        let exchange = upstream.exchange();
        let cancel = exchange.canceller();
        thread::spawn(move || {
            thread::sleep(Duration::from_millis(100));
            cancel.cancel();
        });
        assert!(matches!(exchange.send("GET", "/", &Headers::new(), None), Err(SendError::Cancelled)));
    })
    .join()
    .unwrap();
}

#[test]
fn urls_and_certificates_that_are_wrong() {
    for url in ["", "mcp", "ftp://a/", "http://", "http://user:pw@host/", "http://a b/"] {
        assert!(matches!(Upstream::new(url, &Options::default()), Err(Error::Usage(_))), "{url}");
    }
    let options = |path: &str| Options { cacert: Some(path.into()), ..Options::default() };
    assert!(matches!(Upstream::new("https://a/", &options("/does/not/exist")), Err(Error::Io { .. })));
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    assert!(matches!(Upstream::new("https://a/", &options(here)), Err(Error::Input { .. })));
    let bad = Options { headers: Headers::new().with("a", "b\r\nc: d"), ..Options::default() };
    assert!(matches!(Upstream::new("https://a/", &bad), Err(Error::Usage(_))));
}
