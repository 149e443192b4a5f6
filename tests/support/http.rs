//! Raw HTTP over real sockets: servers that send exact bytes, a client that sees exact bytes, and a recorder between
//! them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::{Client, Ended, LONG, Run, Sandbox, eventually, tls};

/// A request as it came to a server.
#[derive(Debug, Clone)]
pub struct Received {
    /// The head as it came, without its blank line.
    pub head: String,
    pub method: String,
    pub target: String,
    pub body: Vec<u8>,
}

impl Received {
    pub fn all(&self, name: &str) -> Vec<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).collect()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.all(name).first().copied()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// A server whose handler writes bytes to the socket. It goes on with the connection while the handler says `true`.
pub struct Upstream {
    pub address: SocketAddr,
    pub received: Receiver<Received>,
    listener: Arc<TcpListener>,
    sockets: Arc<Mutex<Vec<TcpStream>>>,
}

impl Upstream {
    pub fn start(handler: impl Fn(&Received, &mut TcpStream) -> bool + Send + Sync + 'static) -> Self {
        Self::start_at("127.0.0.1:0".parse().unwrap(), handler)
    }

    pub fn start_at(
        address: SocketAddr,
        handler: impl Fn(&Received, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self::listen(address, move |mut socket, tell| answer_all(&mut socket, tell, &handler))
    }

    /// One behind TLS that shows this certificate of `testdata/tls`.
    pub fn with_certificate(
        name: &str,
        handler: impl Fn(&Received, &mut tls::Stream) -> bool + Send + Sync + 'static,
    ) -> Self {
        let config = tls::config(name);
        Self::listen("127.0.0.1:0".parse().unwrap(), move |socket, tell| {
            let mut stream = tls::accept(&config, socket);
            answer_all(&mut stream, tell, &handler);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        })
    }

    fn listen(
        address: SocketAddr,
        serve: impl Fn(TcpStream, &Sender<Received>) + Send + Sync + 'static,
    ) -> Self {
        let listener = Arc::new(TcpListener::bind(address).unwrap());
        let address = listener.local_addr().unwrap();
        let (tell, received) = channel();
        let (serve, accepting) = (Arc::new(serve), Arc::clone(&listener));
        let sockets = Arc::new(Mutex::new(Vec::new()));
        let open = Arc::clone(&sockets);
        std::thread::spawn(move || {
            while let Ok((socket, _)) = accepting.accept() {
                let (serve, tell) = (Arc::clone(&serve), tell.clone());
                let ours = socket.try_clone().unwrap();
                open.lock().unwrap().push(socket.try_clone().unwrap());
                std::thread::spawn(move || {
                    socket.set_nodelay(true).unwrap();
                    serve(socket, &tell);
                    let _ = ours.shutdown(Shutdown::Both);
                });
            }
        });
        Self { address, received, listener, sockets }
    }

    /// One that answers every request with these bytes.
    pub fn saying(answer: impl Into<Vec<u8>>) -> Self {
        let answer = answer.into();
        Self::start(move |_, socket| socket.write_all(&answer).is_ok())
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// The next request that came.
    #[track_caller]
    pub fn next(&self) -> Received {
        self.received.recv_timeout(LONG).expect("a request at the server")
    }

    /// Closes everything: the server is gone.
    pub fn die(self) -> SocketAddr {
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
        for socket in self.sockets.lock().unwrap().drain(..) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        self.address
    }
}

impl Drop for Upstream {
    fn drop(&mut self) {
        let _ = rustix::net::shutdown(&*self.listener, rustix::net::Shutdown::Both);
    }
}

/// Waits until the other side has closed a socket; gives what came until then.
pub fn read_to_end(socket: &mut TcpStream) -> Vec<u8> {
    socket.set_read_timeout(Some(LONG)).unwrap();
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        match socket.read(&mut buffer) {
            Ok(0) => return bytes,
            Ok(length) => bytes.extend_from_slice(&buffer[..length]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                panic!("the socket was not closed; it said {}", String::from_utf8_lossy(&bytes))
            }
            Err(_) => return bytes,
        }
    }
}

/// Closes with a reset: what was sent before may be lost, too.
pub fn reset(socket: &TcpStream) {
    rustix::net::sockopt::set_socket_linger(socket, Some(Duration::ZERO)).unwrap();
}

fn answer_all<S: Read>(
    stream: &mut S,
    tell: &Sender<Received>,
    handler: &impl Fn(&Received, &mut S) -> bool,
) {
    while let Some(request) = read_request(stream) {
        let _ = tell.send(request.clone());
        if !handler(&request, stream) {
            break;
        }
    }
}

fn read_request(socket: &mut impl Read) -> Option<Received> {
    let mut bytes = Vec::new();
    let mut byte = [0];
    while !bytes.ends_with(b"\r\n\r\n") {
        if socket.read(&mut byte).ok()? == 0 {
            return None;
        }
        bytes.push(byte[0]);
    }
    let head = String::from_utf8(bytes).unwrap().trim_end().to_owned();
    let mut words = head.split(' ');
    let (method, target) = (words.next().unwrap().to_owned(), words.next().unwrap().to_owned());
    let mut request = Received { head, method, target, body: Vec::new() };
    let length = request.header("content-length").map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    socket.read_exact(&mut body).ok()?;
    request.body = body;
    Some(request)
}

/// A whole answer with a `Content-Length`.
pub fn answer(status: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: {}\r\n\r\n{body}", body.len()).into_bytes()
}

/// A JSON answer.
pub fn json(body: &str) -> Vec<u8> {
    answer("200 OK", "Content-Type: application/json\r\n", body)
}

/// The head of a stream of events.
pub const SSE: &str =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n";

/// A piece of a chunked body.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

/// The end of a chunked body.
pub const LAST: &[u8] = b"0\r\n\r\n";

/// A client's connection.
pub struct Wire {
    pub socket: TcpStream,
    seen: Vec<u8>,
}

/// An answer as it came.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: Vec<u8>,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let fields = self.head.lines().skip(1).filter_map(|line| line.split_once(':'));
        fields.filter(|(other, _)| other.eq_ignore_ascii_case(name)).map(|(_, value)| value.trim()).next()
    }

    pub fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

impl Wire {
    pub fn to(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        socket.set_nodelay(true).unwrap();
        Self { socket, seen: Vec::new() }
    }

    pub fn write(&mut self, bytes: impl AsRef<[u8]>) {
        self.socket.write_all(bytes.as_ref()).unwrap();
    }

    /// Reads until the text has come, and gives everything up to and with it.
    #[track_caller]
    pub fn until(&mut self, text: &str) -> String {
        let mut buffer = [0; 4096];
        loop {
            if let Some(at) = memchr::memmem::find(&self.seen, text.as_bytes()) {
                let rest = self.seen.split_off(at + text.len());
                return String::from_utf8(std::mem::replace(&mut self.seen, rest)).unwrap();
            }
            let length = self.socket.read(&mut buffer).unwrap_or(0);
            assert!(length > 0, "{text:?} did not come, but {:?}", String::from_utf8_lossy(&self.seen));
            self.seen.extend_from_slice(&buffer[..length]);
        }
    }

    /// The next answer, its body taken out of its framing.
    #[track_caller]
    pub fn answer(&mut self) -> Answer {
        let head = self.until("\r\n\r\n").trim_end().to_owned();
        let status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let mut answer = Answer { status, head, body: Vec::new() };
        if answer.header("transfer-encoding").is_some() {
            loop {
                let size = self.until("\r\n");
                let size = usize::from_str_radix(size.trim(), 16).unwrap();
                let data = self.exactly(size + 2);
                if size == 0 {
                    return answer;
                }
                answer.body.extend_from_slice(&data[..size]);
            }
        }
        let length = answer.header("content-length").map_or(0, |length| length.parse().unwrap());
        answer.body = self.exactly(length);
        answer
    }

    #[track_caller]
    fn exactly(&mut self, count: usize) -> Vec<u8> {
        let mut buffer = [0; 4096];
        while self.seen.len() < count {
            let length = self.socket.read(&mut buffer).unwrap_or(0);
            assert!(length > 0, "the answer was cut: {:?}", String::from_utf8_lossy(&self.seen));
            self.seen.extend_from_slice(&buffer[..length]);
        }
        let rest = self.seen.split_off(count);
        std::mem::replace(&mut self.seen, rest)
    }

    /// Everything up to the end of the connection.
    pub fn rest(mut self) -> Vec<u8> {
        let more = read_to_end(&mut self.socket);
        [self.seen, more].concat()
    }

    /// Closes it, and what is in it.
    pub fn close(self) {
        drop(self.socket);
    }
}

/// A recorder in front of a server.
pub struct Proxy {
    pub client: Client,
    /// The URL for clients.
    pub url: String,
    pub address: SocketAddr,
    /// The path of the URL.
    pub path: String,
}

impl Sandbox {
    /// `record --url`, not started.
    pub fn url_recorder(&self, cassette: &str, url: &str, more: &[&str]) -> Run {
        let mut args = vec!["record", "--cassette", cassette, "--url", url, "--ready-file", "ready"];
        args.extend(more);
        self.mcpreel(args)
    }

    /// A recorder in front of `url`, ready.
    #[track_caller]
    pub fn proxy(&self, cassette: &str, url: &str, more: &[&str]) -> Proxy {
        self.proxy_of(self.url_recorder(cassette, url, more))
    }

    #[track_caller]
    pub fn proxy_of(&self, run: Run) -> Proxy {
        let ready: PathBuf = self.path.join("ready");
        let _ = std::fs::remove_file(&ready);
        let mut client = run.start();
        eventually("the file that says ready", || {
            if let Ok(Some(status)) = client.child.try_wait() {
                panic!("{status}: {}", client.stderr());
            }
            ready.exists()
        });
        let url = std::fs::read_to_string(ready).unwrap().trim_end().to_owned();
        let rest = url.strip_prefix("http://").unwrap();
        let (address, path) = rest.split_at(rest.find('/').unwrap());
        Proxy { client, address: address.parse().unwrap(), path: path.to_owned(), url }
    }
}

impl Proxy {
    pub fn wire(&self) -> Wire {
        Wire::to(self.address)
    }

    /// The head of a request to a path, with further lines.
    pub fn head(&self, method: &str, path: &str, headers: &str) -> String {
        format!("{method} {path} HTTP/1.1\r\nHost: {}\r\n{headers}", self.address)
    }

    /// Begins a POST to the endpoint.
    pub fn begin_post(&self, headers: &str, body: &str) -> Wire {
        self.begin_post_to(&self.path, headers, body)
    }

    pub fn begin_post_to(&self, path: &str, headers: &str, body: &str) -> Wire {
        let mut wire = self.wire();
        let usual = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
        let head = self.head("POST", path, usual);
        wire.write(format!("{head}{headers}Content-Length: {}\r\n\r\n{body}", body.len()));
        wire
    }

    #[track_caller]
    pub fn post(&self, headers: &str, body: &str) -> Answer {
        self.begin_post(headers, body).answer()
    }

    /// Begins a request without a body.
    pub fn begin(&self, method: &str, path: &str, headers: &str) -> Wire {
        let mut wire = self.wire();
        wire.write(format!("{}\r\n", self.head(method, path, headers)));
        wire
    }

    #[track_caller]
    pub fn get(&self, path: &str, headers: &str) -> Answer {
        self.begin("GET", path, headers).answer()
    }

    /// Ends it by SIGTERM.
    #[track_caller]
    pub fn stop(self, code: i32) -> Ended {
        self.client.signal(15);
        self.client.end(code)
    }
}

/// The records of a document, each as compact JSON with its members in alphabetical order.
#[track_caller]
pub fn records(sandbox: &Sandbox, cassette: &str) -> Vec<String> {
    let document: serde_json::Value = serde_json::from_str(&sandbox.read(cassette)).unwrap();
    document["messages"].as_array().unwrap().iter().map(ToString::to_string).collect()
}

/// How long something took.
pub fn timed<T>(run: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (run(), begun.elapsed())
}
