//! Listener, client and event parser put together as a proxy does it: the least that recording over HTTP needs.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use super::Headers;
use super::client::{Options, Response, SendError, Upstream};
use super::server::{Limits, Request, Server, Stopper};
use super::sse::Parser;

struct Running(Stopper);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.stop(Duration::ZERO);
    }
}

fn start(handler: impl Fn(Request<'_>) + Send + Sync + 'static) -> (SocketAddr, Running) {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), Limits::default()).unwrap();
    let (address, stopper) = (server.address(), server.stopper());
    thread::spawn(move || server.run(&Arc::new(handler)));
    (address, Running(stopper))
}

fn pass_on(upstream: &Upstream, mut request: Request<'_>) {
    let body = match request.read_body() {
        Ok(body) => body,
        Err(refusal) => return request.refuse(refusal),
    };
    let body = (!body.is_empty()).then_some(body);
    let exchange = upstream.lane().exchange();
    let cancel = exchange.canceller();
    let _watch = request.watch(move || cancel.cancel()).unwrap();
    match exchange.send(request.method(), request.target(), request.headers(), body.as_deref()) {
        Ok(response) => {
            let _ = answer(request, response);
        }
        Err(SendError::Cancelled) => request.close(),
        Err(error) => drop(request.respond(502, &Headers::new(), error.to_string().as_bytes())),
    }
}

fn answer(request: Request<'_>, mut response: Response) -> std::io::Result<()> {
    let mut out = request.into_writer(response.status, &response.headers, response.length)?;
    let (mut parser, mut events) = (Parser::new(), Vec::new());
    let streams = response.headers.text("content-type") == Some("text/event-stream");
    let mut buffer = vec![0; 16 * 1024];
    loop {
        // An error here ends without `finish`: the client is cut off as we were.
        let length = response.body.read(&mut buffer)?;
        if length == 0 {
            break;
        }
        if streams {
            parser.push(&buffer[..length], &mut events);
            for event in events.drain(..) {
                out.send(event.raw())?;
            }
        } else {
            out.send(&buffer[..length])?;
        }
    }
    let rest = parser.finish();
    out.write_all(&rest.event.map_or_else(Vec::new, super::sse::Event::into_raw))?;
    out.write_all(&rest.tail)?;
    out.finish()
}

const EVENTS: [&[u8]; 3] = [
    b"event: message\r\ndata: {\"a\":1}\r\n\r\n",
    b": ping\r\n\r\n",
    b"id: 2\r\ndata: {\"b\":2}\r\ndata: x\r\n\r\n",
];

/// A proxy before a server that tells when its client has left.
fn chain() -> (SocketAddr, Receiver<&'static str>, [Running; 2]) {
    let (tell, told) = channel();
    let tell = Mutex::new(tell);
    let (origin, first) = start(move |mut request: Request<'_>| {
        let tell = tell.lock().unwrap().clone();
        let body = request.read_body().unwrap();
        let path = request.path().to_owned();
        let sse = Headers::new().with("content-type", "text/event-stream");
        let (left, gone) = crossbeam_channel::bounded(1);
        let watch = request.watch(move || left.send(()).unwrap_or_default()).unwrap();
        match path.as_str() {
            "/no-head" => {
                tell.send("begun").unwrap();
                gone.recv_timeout(Duration::from_secs(5)).unwrap();
                tell.send("left").unwrap();
            }
            "/silent" => {
                let mut out = request.into_writer(200, &sse, None).unwrap();
                out.send(b": open\n\n").unwrap();
                tell.send("begun").unwrap();
                gone.recv_timeout(Duration::from_secs(5)).unwrap();
                tell.send("left").unwrap();
            }
            "/events" | "/cut" => {
                let mut out = request.into_writer(200, &sse, None).unwrap();
                for event in EVENTS {
                    thread::sleep(Duration::from_millis(60));
                    let (front, back) = event.split_at(event.len() - 1);
                    // The CR LF of the blank line comes in two packets.
                    out.send(front).unwrap();
                    thread::sleep(Duration::from_millis(5));
                    out.send(back).unwrap();
                }
                if path == "/events" {
                    out.finish().unwrap();
                }
            }
            _ => {
                let headers =
                    Headers::new().with("content-type", "application/json").with("mcp-session-id", "s");
                request.respond(if path == "/404" { 404 } else { 200 }, &headers, &body).unwrap();
            }
        }
        drop(watch);
    });
    let upstream = Upstream::new(&format!("http://{origin}/mcp"), &Options::default()).unwrap();
    let (address, second) = start(move |request: Request<'_>| pass_on(&upstream, request));
    (address, told, [second, first])
}

fn send(address: SocketAddr, path: &str, body: &str) -> TcpStream {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    let length = body.len();
    write!(socket, "POST {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}")
        .unwrap();
    socket
}

fn read_all(mut socket: TcpStream) -> String {
    let mut reply = Vec::new();
    socket.read_to_end(&mut reply).unwrap();
    String::from_utf8(reply).unwrap()
}

#[test]
fn r22_r25_an_answer_is_passed_on_as_it_is() {
    let (address, _told, _running) = chain();
    assert_eq!(
        read_all(send(address, "/json?x", "{\"id\": 1}")),
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nmcp-session-id: s\r\nContent-Length: 9\r\nConnection: close\r\n\r\n{\"id\": 1}"
    );
    assert!(read_all(send(address, "/404", "")).starts_with("HTTP/1.1 404 Not Found\r\n"));
}

#[test]
fn r23_r24_r30_events_are_passed_on_one_by_one_and_a_cut_is_a_cut() {
    let (address, _told, _running) = chain();
    for path in ["/events", "/cut"] {
        let reply = read_all(send(address, path, "{}"));
        let (_, body) = reply.split_once("\r\n\r\n").unwrap();
        let mut expected = String::new();
        for event in EVENTS {
            expected += &format!("{:x}\r\n{}\r\n", event.len(), str::from_utf8(event).unwrap());
        }
        if path == "/events" {
            expected += "0\r\n\r\n";
        }
        assert_eq!(body, expected);
    }
}

#[test]
fn r29_a_client_that_leaves_takes_the_upstream_exchange_along() {
    let (address, told, _running) = chain();
    for path in ["/no-head", "/silent"] {
        let socket = send(address, path, "{}");
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), "begun");
        // The answer's head is on its way through the proxy.
        thread::sleep(Duration::from_millis(50));
        let begun = Instant::now();
        drop(socket);
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), "left", "{path}");
        assert!(begun.elapsed() < Duration::from_secs(1), "{path}: {:?}", begun.elapsed());
    }
    // Nothing is left behind: the next request goes through.
    assert!(read_all(send(address, "/json", "{}")).ends_with("{}"));
}

#[test]
fn r32_open_streams_block_nobody() {
    let (address, told, _running) = chain();
    let streams: Vec<_> = (0..50).map(|_| send(address, "/silent", "{}")).collect();
    for _ in &streams {
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), "begun");
    }
    let begun = Instant::now();
    for _ in 0..50 {
        assert!(read_all(send(address, "/json", "{}")).ends_with("{}"));
    }
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    drop(streams);
    for _ in 0..50 {
        assert_eq!(told.recv_timeout(Duration::from_secs(5)).unwrap(), "left");
    }
}
