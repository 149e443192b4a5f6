//! HTTP as bare as it can be: servers of a thread per connection, and clients that look for the end of an answer and
//! for nothing else.

use std::fmt::Write as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::client::{INITIALIZE, Peer};

const BUFFER: usize = 16 << 10;
const JSON: &str = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
const EVENTS: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";
/// The data of an event.
const MESSAGE: &str =
    r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"xxxxxxxx"}}"#;

/// What comes in on a connection.
pub(crate) struct Wire<S> {
    pub(crate) stream: S,
    buffer: Vec<u8>,
    /// Bytes in it.
    filled: usize,
}

impl<S: Read> Wire<S> {
    pub(crate) fn new(stream: S) -> Self {
        Self { stream, buffer: vec![0; BUFFER], filled: 0 }
    }

    /// Reads once; false at the end.
    fn fill(&mut self) -> bool {
        if self.filled == self.buffer.len() {
            self.buffer.resize(self.filled * 2, 0);
        }
        let length = self.stream.read(&mut self.buffer[self.filled..]).unwrap_or(0);
        self.filled += length;
        length > 0
    }

    /// Everything up to and with these bytes.
    pub(crate) fn until(&mut self, end: &[u8]) -> Option<String> {
        loop {
            if let Some(at) = memchr::memmem::find(&self.buffer[..self.filled], end) {
                return Some(self.take(at + end.len()));
            }
            if !self.fill() {
                return None;
            }
        }
    }

    /// Gives its buffer back: it waits, and others do too.
    pub(crate) fn shrink(&mut self) {
        self.buffer.truncate(self.filled.max(64));
        self.buffer.shrink_to_fit();
    }

    fn take(&mut self, count: usize) -> String {
        let taken = String::from_utf8_lossy(&self.buffer[..count]).into_owned();
        self.buffer.copy_within(count..self.filled, 0);
        self.filled -= count;
        taken
    }

    /// A head and the body that it announces.
    pub(crate) fn message(&mut self) -> Option<(String, String)> {
        let head = self.until(b"\r\n\r\n")?;
        if field(&head, "transfer-encoding").is_some() {
            let body = self.until(b"\r\n0\r\n\r\n")?;
            return Some((head, body));
        }
        let length = field(&head, "content-length").map_or(0, |length| length.parse().expect("a length"));
        while self.filled < length {
            if !self.fill() {
                return None;
            }
        }
        Some((head, self.take(length)))
    }
}

pub(crate) fn field<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().skip(1).find_map(|line| {
        let (other, value) = line.split_once(':')?;
        other.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// Accepts for as long as the process lives.
fn listen(serve: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("its address");
    let serve = Arc::new(serve);
    thread::spawn(move || {
        for socket in listener.incoming().flatten() {
            let serve = Arc::clone(&serve);
            socket.set_nodelay(true).expect("a connection");
            thread::spawn(move || serve(socket));
        }
    });
    address
}

/// Answers requests until standard input ends; a tool's answer has about `size` bytes.
pub(crate) fn answer(size: usize) {
    let address = listen(move |socket| {
        let mut wire = Wire::new(socket);
        let mut out = String::new();
        while let Some((_, body)) = wire.message() {
            out.clear();
            match crate::client::id_of(&body) {
                None => out.push_str("HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n"),
                Some(id) => {
                    let first = body.contains("\"initialize\"");
                    let result = if first {
                        r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#.to_owned()
                    } else {
                        crate::client::tool_result(id, size)
                    };
                    let session = if first { "Mcp-Session-Id: bench\r\n" } else { "" };
                    let answer = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
                    let _ = write!(out, "{JSON}{session}Content-Length: {}\r\n\r\n{answer}", answer.len());
                }
            }
            if wire.stream.write_all(out.as_bytes()).is_err() {
                return;
            }
        }
    });
    println!("{address}");
    let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
}

/// A server of one stream of events, in this process, that knows when it has sent each.
pub(crate) struct Events {
    pub(crate) address: SocketAddr,
    next: Sender<()>,
    sent: Arc<Mutex<Instant>>,
}

impl Events {
    pub(crate) fn start() -> Self {
        let (next, wanted) = channel::<()>();
        let sent = Arc::new(Mutex::new(Instant::now()));
        let (wanted, told) = (Mutex::new(wanted), Arc::clone(&sent));
        let address = listen(move |socket| stream(socket, &wanted, &told));
        Self { address, next, sent }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    /// How long each of so many events took to a client at `target`.
    pub(crate) fn times(&self, target: &Target, count: usize) -> Vec<Duration> {
        let mut wire = target.connect();
        wire.stream.write_all(target.post(STREAM_CALL, "").as_bytes()).expect("a server");
        assert!(wire.until(b"\r\n\r\n").expect("a head").contains("200"), "no stream");
        let time = |_| {
            self.next.send(()).expect("a stream");
            wire.until(b"\n\n").expect("an event");
            let came = Instant::now();
            came - *self.sent.lock().unwrap_or_else(PoisonError::into_inner)
        };
        (0..count + 1000).map(time).skip(1000).collect()
    }
}

/// What opens a stream.
pub(crate) const STREAM_CALL: &str =
    r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"watch"}}"#;

fn stream(socket: TcpStream, wanted: &Mutex<Receiver<()>>, sent: &Mutex<Instant>) {
    let mut wire = Wire::new(socket);
    let event = event();
    if wire.message().is_none() || wire.stream.write_all(EVENTS.as_bytes()).is_err() {
        return;
    }
    let wanted = wanted.lock().unwrap_or_else(PoisonError::into_inner);
    while wanted.recv().is_ok() {
        *sent.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
        if wire.stream.write_all(event.as_bytes()).is_err() {
            return;
        }
    }
}

/// As a chunk.
fn event() -> String {
    let text = format!("event: message\ndata: {MESSAGE}\n\n");
    format!("{:x}\r\n{text}\r\n", text.len())
}

/// A server behind TLS whose streams begin with an event and then stay silent.
pub(crate) fn secure() -> SocketAddr {
    let config = crate::tls::config("good");
    listen(move |socket| {
        let mut wire = Wire::new(crate::tls::accept(&config, socket));
        if wire.message().is_some()
            && wire.stream.write_all(format!("{EVENTS}{}", event()).as_bytes()).is_ok()
        {
            while wire.fill() {}
        }
    })
}

/// Where a server is.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) address: SocketAddr,
    pub(crate) path: String,
}

impl Target {
    pub(crate) fn at(address: SocketAddr) -> Self {
        Self { address, path: "/mcp".to_owned() }
    }

    pub(crate) fn connect(&self) -> Wire<TcpStream> {
        let socket = TcpStream::connect(self.address).expect("a server");
        socket.set_nodelay(true).expect("a connection");
        Wire::new(socket)
    }

    /// A request as bytes; `fields` are whole lines.
    pub(crate) fn post(&self, body: &str, fields: &str) -> String {
        format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nAccept: application/json, text/event-stream\r\n\
             Content-Type: application/json\r\n{fields}Content-Length: {}\r\n\r\n{body}",
            self.path,
            self.address,
            body.len()
        )
    }

    /// The handshake; gives the fields of later requests.
    pub(crate) fn greet(&self) -> String {
        let mut wire = self.connect();
        let mut fields = "MCP-Protocol-Version: 2025-11-25\r\n".to_owned();
        for body in INITIALIZE.lines() {
            wire.stream.write_all(self.post(body, &fields).as_bytes()).expect("a server");
            let (head, _) = wire.message().expect("an answer");
            if let Some(session) = field(&head, "mcp-session-id") {
                let _ = write!(fields, "Mcp-Session-Id: {session}\r\n");
            }
        }
        fields
    }

    /// How many requests are answered in a second, over so many connections at once.
    pub(crate) fn rate(&self, bodies: &[&str], connections: usize) -> f64 {
        let fields = self.greet();
        let shares: Vec<Vec<String>> = (0..connections)
            .map(|share| {
                bodies.iter().skip(share).step_by(connections).map(|body| self.post(body, &fields)).collect()
            })
            .collect();
        let wires: Vec<Wire<TcpStream>> = (0..connections).map(|_| self.connect()).collect();
        let started = Instant::now();
        thread::scope(|scope| {
            for (mut wire, share) in wires.into_iter().zip(&shares) {
                scope.spawn(move || {
                    for request in share {
                        wire.stream.write_all(request.as_bytes()).expect("a server");
                        let (head, body) = wire.message().expect("an answer");
                        assert!(
                            head.starts_with("HTTP/1.1 200") && body.contains("\"result\""),
                            "{head}{body}"
                        );
                    }
                });
            }
        });
        crate::table::float(bodies.len()) / started.elapsed().as_secs_f64()
    }
}

/// A program that listens.
pub(crate) struct Listening {
    pub(crate) peer: Peer,
    pub(crate) target: Target,
}

impl Listening {
    /// One of mcpreel's, which says where in a file.
    pub(crate) fn start(program: &Path, arguments: &[&str], ready: &Path) -> Self {
        let _ = std::fs::remove_file(ready);
        let file = ready.display().to_string();
        let peer = Peer::start(program, &[arguments, &["--ready-file", &file]].concat());
        let url = wait(|| std::fs::read_to_string(ready).ok().filter(|url| url.ends_with('\n')));
        let (host, path) =
            url.trim().strip_prefix("http://").and_then(|rest| rest.split_once('/')).expect("a URL");
        let target = Target { address: host.parse().expect("an address"), path: format!("/{path}") };
        Self { peer, target }
    }

    /// One of mcp-cassette's, which is given a port that nobody has.
    pub(crate) fn theirs(program: &Path, arguments: &[&str]) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr());
        let address = free.expect("a free port");
        let port = address.port().to_string();
        let peer = Peer::start(program, &[arguments, &["--port", &port]].concat());
        wait(|| TcpStream::connect(address).ok());
        Self { peer, target: Target::at(address) }
    }

    /// The bare one.
    pub(crate) fn bare(own: &Path, size: usize) -> Self {
        let mut peer = Peer::start(own, &["web", &size.to_string()]);
        let address = peer.line().trim().parse().expect("an address");
        Self { peer, target: Target::at(address) }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}{}", self.target.address, self.target.path)
    }

    pub(crate) fn end(self) {
        self.peer.stop();
    }
}

fn wait<T>(mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < Duration::from_mins(1), "a program is not ready");
        thread::sleep(Duration::from_millis(1));
    }
}

/// A thousand streams are two thousand sockets.
pub(crate) fn raise_nofile() {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit });
}
