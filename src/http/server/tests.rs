use super::*;

use std::fs;
use std::io::{Read, Write};
use std::path::Path;
use std::sync::mpsc;

use crate::http::Headers;

/// A server with a handler for each path of the tests; stopped when dropped.
struct Running {
    address: SocketAddr,
    stopper: Stopper,
    thread: Option<thread::JoinHandle<()>>,
}

fn start(limits: Limits, handler: impl Fn(Request<'_>) + Send + Sync + 'static) -> Running {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), limits).unwrap();
    let (address, stopper) = (server.address(), server.stopper());
    let thread = Some(thread::spawn(move || server.run(&Arc::new(handler))));
    Running { address, stopper, thread }
}

impl Running {
    fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(self.address).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        socket.set_nodelay(true).unwrap();
        socket
    }

    /// Sends bytes and closes the sending side; gives all that comes back.
    fn exchange(&self, pieces: &[&[u8]]) -> Vec<u8> {
        let mut socket = self.connect();
        for (at, piece) in pieces.iter().enumerate() {
            if at > 0 {
                thread::sleep(Duration::from_millis(3));
            }
            // The server may have refused it by now.
            if socket.write_all(piece).is_err() {
                break;
            }
        }
        let _ = socket.shutdown(std::net::Shutdown::Write);
        let (mut reply, mut buffer) = (Vec::new(), [0; 4096]);
        // A reset is an end too: that of a client that goes on sending to a closed connection.
        while let Ok(length @ 1..) = socket.read(&mut buffer) {
            reply.extend_from_slice(&buffer[..length]);
        }
        reply
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stopper.stop(Duration::ZERO);
        self.thread.take().unwrap().join().unwrap();
    }
}

fn read_all(socket: &mut TcpStream) -> Vec<u8> {
    let mut reply = Vec::new();
    socket.read_to_end(&mut reply).unwrap();
    reply
}

/// Reads until the reply ends with `end`.
fn read_until(socket: &mut TcpStream, end: &[u8]) -> Vec<u8> {
    let mut reply = Vec::new();
    let mut byte = [0];
    while !reply.ends_with(end) {
        let read = socket.read(&mut byte);
        assert!(
            matches!(read, Ok(1)),
            "{read:?} after {}, wants {}",
            reply.escape_ascii(),
            end.escape_ascii()
        );
        reply.push(byte[0]);
    }
    reply
}

fn small() -> Limits {
    Limits { head: 4096, target: 1024, headers: 32, ..Limits::default() }
}

fn echo(mut request: Request<'_>) {
    let path = request.path().to_owned();
    let stream = Headers::new().with("Content-Type", "text/event-stream");
    match path.as_str() {
        "/stream" => {
            let mut out = request.into_writer(200, &stream, None).unwrap();
            out.write_all(b"data: ").unwrap();
            out.write_all(b"1\n\n").unwrap();
            out.flush().unwrap();
            out.send(b"data: 2\n\n").unwrap();
            out.finish().unwrap();
        }
        "/cut" | "/panic-late" => {
            let mut out = request.into_writer(200, &Headers::new(), None).unwrap();
            out.send(b"abc").unwrap();
            assert_eq!(path, "/cut");
        }
        "/cut-length" => {
            let mut out = request.into_writer(200, &Headers::new(), Some(10)).unwrap();
            out.send(b"abc").unwrap();
        }
        "/short" => {
            let mut out = request.into_writer(200, &Headers::new(), Some(10)).unwrap();
            out.send(b"abc").unwrap();
            assert!(out.write(b"more than ten").is_err());
            assert!(out.finish().is_err());
        }
        "/204" => request.respond(204, &Headers::new().with("Content-Length", "3"), b"abc").unwrap(),
        "/close" => request.close(),
        "/silent" => {}
        "/panic" => panic!("as asked"),
        "/inject" => {
            let bad = Headers::new().with("X-Evil", "a\r\nSet-Cookie: b");
            assert!(request.respond(200, &bad, b"").is_err());
        }
        _ => {
            let mut body = format!("{} {} ", request.method(), request.target()).into_bytes();
            if path != "/unread" {
                match request.read_body() {
                    Ok(read) => body.extend(read),
                    Err(refusal) => return request.refuse(refusal),
                }
            }
            let headers = Headers::new().with("X-Case", "echo").with("Transfer-Encoding", "gzip");
            request.respond(200, &headers, &body).unwrap();
        }
    }
}

#[test]
fn every_raw_request_has_its_reply() {
    std::panic::set_hook(Box::new(|info| {
        if !thread::current().name().is_some_and(|name| name.starts_with("http-")) {
            eprintln!("{info}");
        }
    }));
    let server = start(small(), echo);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/http");
    let mut count = 0;
    thread::scope(|scope| {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.extension().is_none_or(|extension| extension != "request") {
                continue;
            }
            count += 1;
            let server = &server;
            scope.spawn(move || {
                let request = fs::read(&path).unwrap();
                let expected = fs::read(path.with_extension("reply")).unwrap();
                let name = path.file_stem().unwrap().to_string_lossy().into_owned();
                let mut cuts: Vec<Vec<&[u8]>> = vec![vec![&request]];
                cuts.push(request.chunks(request.len().div_ceil(2).max(1)).collect());
                cuts.push(request.chunks(request.len().div_ceil(23).max(1)).collect());
                for pieces in cuts {
                    let reply = server.exchange(&pieces);
                    assert_eq!(
                        reply.escape_ascii().to_string(),
                        expected.escape_ascii().to_string(),
                        "{name} in {} pieces",
                        pieces.len()
                    );
                }
            });
        }
    });
    assert!(count >= 70, "{count}");
}

#[test]
fn the_client_that_waits_is_told_to_continue() {
    let server = start(small(), echo);
    let mut socket = server.connect();
    let head = b"POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 2\r\nConnection: close\r\n\r\n";
    socket.write_all(head).unwrap();
    read_until(&mut socket, b"HTTP/1.1 100 Continue\r\n\r\n");
    socket.write_all(b"hi").unwrap();
    assert!(read_all(&mut socket).ends_with(b"\r\n\r\nPOST / hi"));
    // Not told so, it may send the body or not: the connection cannot go on.
    let mut socket = server.connect();
    socket
        .write_all(b"POST /unread HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n")
        .unwrap();
    let reply = read_until(&mut socket, b"\r\n\r\nPOST /unread ");
    assert!(reply.starts_with(b"HTTP/1.1 200") && reply.windows(17).any(|part| part == b"Connection: close"));
}

#[test]
fn slow_clients_are_let_go() {
    let limits = Limits {
        head_time: Duration::from_millis(200),
        idle_time: Duration::from_millis(300),
        body_wait: Duration::from_millis(200),
        body_time: Duration::from_millis(500),
        ..small()
    };
    let server = start(limits, echo);
    let timed = |send: &[u8], trickle: &[u8]| {
        let begun = Instant::now();
        let mut socket = server.connect();
        socket.write_all(send).unwrap();
        for byte in trickle {
            thread::sleep(Duration::from_millis(40));
            if socket.write_all(&[*byte]).is_err() {
                break;
            }
        }
        let reply = read_all(&mut socket);
        (reply.get(9..12).map(<[u8]>::to_vec), begun.elapsed())
    };
    let (status, time) = timed(b"", b"");
    assert!(
        status.is_none() && time >= Duration::from_millis(290) && time < Duration::from_secs(2),
        "{time:?}"
    );
    assert_eq!(timed(b"GET / HT", b"").0.unwrap(), b"408");
    assert_eq!(timed(b"GET / HTTP/1.1\r\n", b"Host: aaaaaaaaaaaaaa").0.unwrap(), b"408");
    let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n";
    assert_eq!(timed(post, b"").0.unwrap(), b"408");
    assert_eq!(timed(post, b"a body that comes too slowly").0.unwrap(), b"408");
}

#[test]
fn a_burst_is_answered_whole() {
    raise_nofile();
    let server = start(small(), echo);
    let begun = Instant::now();
    let mut sockets: Vec<_> = (0..300).map(|_| server.connect()).collect();
    for (at, socket) in sockets.iter_mut().enumerate() {
        write!(socket, "GET /burst/{at} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    }
    for (at, socket) in sockets.iter_mut().enumerate() {
        read_until(socket, format!("GET /burst/{at} ").as_bytes());
    }
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    assert_eq!(server.stopper.connections(), 300);
}

#[test]
fn too_many_connections_are_turned_away_and_room_comes_back() {
    let server = start(Limits { connections: 2, ..small() }, echo);
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut socket = server.connect();
        socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        read_until(&mut socket, b"GET / ");
        held.push(socket);
    }
    let request: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    for _ in 0..5 {
        assert!(server.exchange(&[request]).starts_with(b"HTTP/1.1 503 "));
    }
    held.clear();
    while server.stopper.connections() > 0 {
        thread::sleep(Duration::from_millis(5));
    }
    assert!(server.exchange(&[request]).starts_with(b"HTTP/1.1 200 "));
}

/// A handler that opens a stream and tells when its client is gone and how that was seen.
fn idle_streams() -> (Running, mpsc::Receiver<&'static str>) {
    let (tell, told) = mpsc::channel();
    let tell = Mutex::new(tell);
    let server = start(small(), move |request: Request<'_>| {
        let tell = tell.lock().unwrap().clone();
        let (left, gone) = crossbeam_channel::bounded(1);
        let _watch = request.watch(move || left.send("watch").unwrap_or_default()).unwrap();
        assert!(request.watch(|| {}).is_err());
        let mut out = request.into_writer(200, &Headers::new(), None).unwrap();
        out.send(b": open\n\n").unwrap();
        assert!(!out.is_gone());
        tell.send("open").unwrap();
        let _ = gone.recv();
        assert!(out.is_gone());
        tell.send("gone").unwrap();
    });
    (server, told)
}

#[test]
fn r29_a_client_that_leaves_an_idle_stream_is_noticed_at_once() {
    let (server, told) = idle_streams();
    for reset in [false, true] {
        let mut socket = server.connect();
        // Pipelined bytes that nobody reads do not hide the end behind them.
        socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n").unwrap();
        read_until(&mut socket, b": open\n\n\r\n");
        assert_eq!(told.recv().unwrap(), "open");
        assert!(told.recv_timeout(Duration::from_millis(100)).is_err());
        if reset {
            rustix::net::sockopt::set_socket_linger(&socket, Some(Duration::ZERO)).unwrap();
        }
        let begun = Instant::now();
        drop(socket);
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), "gone");
        assert!(begun.elapsed() < Duration::from_millis(500), "{:?}", begun.elapsed());
    }
}

#[test]
fn a_reset_is_a_reset() {
    let server = start(small(), |request: Request<'_>| {
        if request.path() == "/before" {
            return request.reset();
        }
        let mut out = request.into_writer(200, &Headers::new(), None).unwrap();
        out.send(b"abc").unwrap();
        // The client has taken it before the reset wipes it.
        thread::sleep(Duration::from_millis(50));
        out.reset();
    });
    for path in ["/before", "/after"] {
        let mut socket = server.connect();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        if path == "/after" {
            read_until(&mut socket, b"3\r\nabc\r\n");
        }
        let error = socket.read(&mut [0; 16]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::ConnectionReset, "{path}");
    }
}

#[test]
fn a_stop_lets_requests_end_and_closes_the_rest() {
    let (slow_began, began) = crossbeam_channel::bounded(1);
    let server = start(small(), move |request: Request<'_>| {
        if request.path() == "/slow" {
            slow_began.send(()).unwrap();
            thread::sleep(Duration::from_millis(300));
        }
        if request.path() == "/held" {
            let (left, gone) = crossbeam_channel::bounded(1);
            let _watch = request.watch(move || left.send(()).unwrap_or_default()).unwrap();
            let mut out = request.into_writer(200, &Headers::new(), None).unwrap();
            out.send(b"abc").unwrap();
            let _ = gone.recv();
            return;
        }
        request.respond(200, &Headers::new(), b"done").unwrap();
    });
    let [mut idle, mut slow, mut held] = ["/", "/slow", "/held"].map(|path| {
        let mut socket = server.connect();
        write!(socket, "GET {path} HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
        socket
    });
    read_until(&mut idle, b"done");
    read_until(&mut held, b"abc\r\n");
    began.recv().unwrap();
    let begun = Instant::now();
    assert_eq!(server.stopper.stop(Duration::from_millis(600)), 0);
    assert!(begun.elapsed() >= Duration::from_millis(590) && begun.elapsed() < Duration::from_millis(1500));
    assert!(read_all(&mut idle).is_empty());
    let reply = read_all(&mut slow);
    assert!(reply.ends_with(b"done") && reply.windows(17).any(|part| part == b"Connection: close"));
    assert!(read_all(&mut held).is_empty());
    assert!(TcpStream::connect(server.address).is_err());
}

#[test]
fn memory_follows_what_comes_not_what_is_claimed() {
    let server = start(Limits { body: u64::MAX, ..small() }, echo);
    for length in ["100000000000", "18446744073709551615"] {
        let request = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\n\r\nshort");
        assert!(server.exchange(&[request.as_bytes()]).starts_with(b"HTTP/1.1 400 "));
    }
}

#[test]
fn large_bodies_go_through() {
    let server = start(small(), |mut request: Request<'_>| {
        let body = request.read_body().unwrap();
        request.respond(200, &Headers::new(), &body).unwrap();
    });
    let body = vec![b'x'; 20 * 1024 * 1024];
    let mut socket = server.connect();
    write!(
        socket,
        "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
        body.len()
    )
    .unwrap();
    socket.write_all(&body).unwrap();
    let reply = read_all(&mut socket);
    assert!(reply.ends_with(&body));
    let mut socket = server.connect();
    write!(socket, "POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
        .unwrap();
    let mut chunks = crate::http::chunked::ChunkWriter::new(socket);
    body.chunks(100_000).for_each(|piece| chunks.write_chunk(piece).unwrap());
    assert!(read_all(&mut chunks.finish().unwrap()).ends_with(&body));
}

/// The tests' own: `http` does not know `stdio`.
fn raise_nofile() {
    use rustix::process::{Resource, getrlimit, setrlimit};

    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, rustix::process::Rlimit { current: limit.maximum, ..limit }).unwrap();
}
