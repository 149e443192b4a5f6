//! A small HTTP client for tests: raw requests over sockets, whole answers, and streams read event by event.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::path::PathBuf;
use std::sync::Mutex;

use super::{Client, Ended, LONG, Sandbox, eventually};

/// A program that listens.
pub struct Endpoint {
    /// Locked, so that threads can share the rest.
    client: Mutex<Client>,
    pub host: String,
    pub path: String,
}

/// An answer that is complete.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    /// The first value of a header field.
    pub fn header(&self, name: &str) -> Option<&str> {
        header(&self.head, name)
    }

    #[track_caller]
    pub fn expect(self, status: u16) -> Self {
        assert_eq!(self.status, status, "{}{}", self.head, self.body);
        self
    }

    /// Checks the status and the code of the error in the body.
    #[track_caller]
    pub fn fails(self, status: u16, code: i32) -> Self {
        let answer = self.expect(status);
        assert!(answer.body.contains(&format!("\"error\":{{\"code\":{code},")), "{}", answer.body);
        answer
    }

    /// Its messages, as JSON or as events.
    pub fn messages(&self) -> Vec<String> {
        match self.header("content-type") {
            Some("text/event-stream") => self.events(),
            _ => vec![self.body.clone()],
        }
    }

    /// The last of them.
    #[track_caller]
    pub fn last(&self) -> String {
        self.messages().pop().unwrap()
    }

    /// The data of its events.
    pub fn events(&self) -> Vec<String> {
        self.body.lines().filter_map(|line| line.strip_prefix("data: ")).map(str::to_owned).collect()
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().skip(1).find_map(|line| {
        let (other, value) = line.split_once(':')?;
        other.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

/// An answer that is being read.
pub struct Stream {
    reader: BufReader<TcpStream>,
    pub status: u16,
    pub head: String,
    chunked: bool,
    left: usize,
    text: Vec<u8>,
}

impl Stream {
    /// More of the body; false at its proper end. A cut is an error.
    fn more(&mut self) -> std::io::Result<bool> {
        if self.chunked {
            let mut line = String::new();
            self.reader.read_line(&mut line)?;
            let size =
                usize::from_str_radix(line.trim(), 16).map_err(|_| std::io::ErrorKind::UnexpectedEof)?;
            let mut chunk = vec![0; size + 2];
            self.reader.read_exact(&mut chunk)?;
            self.text.extend_from_slice(&chunk[..size]);
            return Ok(size > 0);
        }
        if self.left == 0 {
            return Ok(false);
        }
        let mut body = vec![0; std::mem::take(&mut self.left)];
        self.reader.read_exact(&mut body)?;
        self.text.extend(body);
        Ok(true)
    }

    /// The next event's data, comments left out; `None` at the end.
    #[track_caller]
    pub fn next(&mut self) -> Option<String> {
        loop {
            while let Some(end) = self.text.windows(2).position(|pair| pair == b"\n\n") {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                let event = String::from_utf8(event).unwrap();
                if let Some(data) = event.lines().find_map(|line| line.strip_prefix("data: ")) {
                    return Some(data.to_owned());
                }
            }
            if !self.more().unwrap() {
                return None;
            }
        }
    }

    /// The next comment.
    #[track_caller]
    pub fn comment(&mut self) -> String {
        while self.text.is_empty() {
            assert!(self.more().unwrap(), "the stream has ended");
        }
        let end = self.text.windows(2).position(|pair| pair == b"\n\n").unwrap();
        let event: Vec<u8> = self.text.drain(..end + 2).collect();
        String::from_utf8(event).unwrap().trim_end().to_owned()
    }

    /// That the connection breaks off before the answer is complete.
    #[track_caller]
    pub fn is_cut(&mut self) {
        while let Ok(more) = self.more() {
            assert!(more, "the answer was complete");
        }
    }

    /// Reads to the end.
    #[track_caller]
    pub fn whole(mut self) -> Answer {
        while self.more().unwrap() {}
        Answer { status: self.status, head: self.head, body: String::from_utf8(self.text).unwrap() }
    }

    /// Leaves.
    pub fn close(self) {
        let _ = self.reader.get_ref().shutdown(Shutdown::Both);
    }
}

/// Header fields in tests.
pub type Fields<'a> = &'a [(&'a str, &'a str)];

/// What every POST of a client carries.
pub const POST: [(&str, &str); 2] =
    [("Accept", "application/json, text/event-stream"), ("Content-Type", "application/json")];

/// The header fields that go with a modern body.
pub fn modern_fields(body: &str) -> Vec<(String, String)> {
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    let method = body["method"].as_str().unwrap();
    let version = &body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    let mut fields = vec![
        ("MCP-Protocol-Version".to_owned(), version.as_str().unwrap_or("2026-07-28").to_owned()),
        ("Mcp-Method".to_owned(), method.to_owned()),
    ];
    let name = match method {
        "tools/call" | "prompts/get" => body["params"]["name"].as_str(),
        "resources/read" => body["params"]["uri"].as_str(),
        _ => None,
    };
    fields.extend(name.map(|name| ("Mcp-Name".to_owned(), name.to_owned())));
    fields
}

impl Endpoint {
    /// Sends a request and gives its answer as it comes.
    #[track_caller]
    pub fn open(&self, method: &str, path: &str, fields: Fields<'_>, body: &str) -> Stream {
        let mut socket = TcpStream::connect(&self.host).unwrap();
        socket.set_read_timeout(Some(LONG)).unwrap();
        let mut text = format!("{method} {path} HTTP/1.1\r\n");
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            text += &format!("Host: {}\r\n", self.host);
        }
        for (name, value) in fields {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        socket.write_all(text.as_bytes()).unwrap();
        read_head(socket).unwrap_or_else(|error| panic!("no answer to {text}: {error}"))
    }

    #[track_caller]
    pub fn ask(&self, method: &str, path: &str, fields: Fields<'_>, body: &str) -> Answer {
        self.open(method, path, fields, body).whole()
    }

    /// Posts a message of a legacy client.
    #[track_caller]
    pub fn post(&self, body: &str, fields: Fields<'_>) -> Answer {
        self.stream(body, fields).whole()
    }

    /// The same, read as it comes.
    #[track_caller]
    pub fn stream(&self, body: &str, fields: Fields<'_>) -> Stream {
        let mut all: Vec<(&str, &str)> = POST.to_vec();
        all.retain(|(name, _)| !fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
        all.extend(fields);
        self.open("POST", &self.path, &all, body)
    }

    /// Posts a modern request with the fields that it needs.
    #[track_caller]
    pub fn modern(&self, body: &str) -> Answer {
        self.modern_stream(body).whole()
    }

    #[track_caller]
    pub fn modern_stream(&self, body: &str) -> Stream {
        let fields = modern_fields(body);
        let fields: Vec<(&str, &str)> = fields.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
        self.stream(body, &fields)
    }

    /// Posts a modern request and gives the connection, before anything is read from it.
    #[track_caller]
    pub fn begin(&self, body: &str) -> Begun {
        let mut socket = TcpStream::connect(&self.host).unwrap();
        let mut text = format!("POST {} HTTP/1.1\r\nHost: {}\r\n", self.path, self.host);
        for (name, value) in modern_fields(body) {
            text += &format!("{name}: {value}\r\n");
        }
        text += &format!("Content-Length: {}\r\n\r\n{body}", body.len());
        socket.write_all(text.as_bytes()).unwrap();
        Begun(socket)
    }

    /// Whether the program has ended.
    pub fn has_ended(&self) -> bool {
        self.client.lock().unwrap().child.try_wait().unwrap().is_some()
    }

    /// Shakes hands as a legacy client and gives its session.
    #[track_caller]
    pub fn greet(&self, capabilities: &str) -> Legacy<'_> {
        let answer = self.post(&super::initialize(capabilities), &[]).expect(200);
        let session = answer.header("mcp-session-id").map(str::to_owned);
        let legacy = Legacy { endpoint: self, session };
        legacy.post(super::replay::INITIALIZED).expect(202);
        legacy
    }

    /// The standalone stream of a session.
    #[track_caller]
    pub fn get(&self, fields: Fields<'_>) -> Stream {
        let mut all = vec![("Accept", "text/event-stream")];
        all.extend(fields);
        self.open("GET", &self.path, &all, "")
    }

    /// Ends the program by a signal, and checks its status.
    #[track_caller]
    pub fn end(self, code: i32) -> Ended {
        self.end_by(15, code)
    }

    /// Waits for it to end by itself, and checks the status.
    #[track_caller]
    pub fn exits(self, code: i32) -> Ended {
        self.client.into_inner().unwrap().end(code)
    }

    /// Sends the program a signal.
    pub fn signal(&self, signal: i32) {
        self.client.lock().unwrap().signal(signal);
    }

    /// Ends it by another signal.
    #[track_caller]
    pub fn end_by(self, signal: i32, code: i32) -> Ended {
        let client = self.client.into_inner().unwrap();
        client.signal(signal);
        client.end(code)
    }
}

fn read_head(socket: TcpStream) -> std::io::Result<Stream> {
    let mut reader = BufReader::new(socket);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(std::io::ErrorKind::UnexpectedEof.into());
        }
    }
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    let chunked = header(&head, "transfer-encoding") == Some("chunked");
    let left = header(&head, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
    Ok(Stream { reader, status, head, chunked, left, text: Vec::new() })
}

/// A request whose answer was not read.
pub struct Begun(TcpStream);

impl Begun {
    /// Leaves.
    pub fn close(self) {
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// A legacy client with its session.
pub struct Legacy<'e> {
    pub endpoint: &'e Endpoint,
    pub session: Option<String>,
}

impl Legacy<'_> {
    fn fields(&self) -> Vec<(&str, &str)> {
        let mut fields = vec![("MCP-Protocol-Version", "2025-11-25")];
        fields.extend(self.session.as_deref().map(|session| ("Mcp-Session-Id", session)));
        fields
    }

    #[track_caller]
    pub fn post(&self, body: &str) -> Answer {
        self.endpoint.post(body, &self.fields())
    }

    #[track_caller]
    pub fn stream(&self, body: &str) -> Stream {
        self.endpoint.stream(body, &self.fields())
    }

    #[track_caller]
    pub fn get(&self) -> Stream {
        self.endpoint.get(&self.fields())
    }

    /// Comes back for what followed an event.
    #[track_caller]
    pub fn get_after(&self, event: &str) -> Stream {
        let mut fields = self.fields();
        fields.push(("Last-Event-ID", event));
        self.endpoint.get(&fields)
    }

    #[track_caller]
    pub fn delete(&self) -> Answer {
        self.endpoint.ask("DELETE", &self.endpoint.path, &self.fields(), "")
    }
}

impl Sandbox {
    /// Starts a program that listens and writes a ready file.
    #[track_caller]
    pub fn listen<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Endpoint {
        let ready = self.path.join("ready");
        let _ = std::fs::remove_file(&ready);
        let arguments = arguments.into_iter().chain(["--ready-file", "ready"]);
        let mut client = self.mcpreel(arguments).start();
        eventually("the ready file", || {
            if let Some(status) = client.child.try_wait().unwrap() {
                panic!("it ended with {status}: {}", client.stderr());
            }
            ready.exists()
        });
        let url = self.read("ready");
        let rest = url.trim().strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        Endpoint { client: Mutex::new(client), host: host.to_owned(), path: format!("/{path}") }
    }

    /// Serves a cassette of these stdio records over HTTP.
    #[track_caller]
    pub fn play_http(&self, records: &[String], options: &[&str]) -> Endpoint {
        self.tape_with("", records);
        let arguments = ["serve", "c.json", "--listen", "127.0.0.1:0"];
        self.listen(arguments.iter().chain(options).copied())
    }

    /// Serves a cassette of these records, which were recorded over HTTP.
    #[track_caller]
    pub fn play_recorded_http(&self, records: &[Record], options: &[&str]) -> Endpoint {
        self.http_cassette(records);
        self.listen(["serve", "c.json"].iter().chain(options).copied())
    }

    /// The same with a server that was reached at this URL.
    #[track_caller]
    pub fn play_recorded_at(&self, url: &str, records: &[Record], options: &[&str]) -> Endpoint {
        self.http_cassette_at(url, records);
        self.listen(["serve", "c.json"].iter().chain(options).copied())
    }

    /// A cassette `c.json` of records of an HTTP server.
    pub fn http_cassette(&self, records: &[Record]) -> PathBuf {
        self.http_cassette_at("https://mcp.example.com/mcp", records)
    }

    /// The same with a server that was reached at this URL.
    pub fn http_cassette_at(&self, url: &str, records: &[Record]) -> PathBuf {
        let records: Vec<String> = records.iter().map(Record::json).collect();
        let text = format!(
            "{{\"mcpreel\":1,\"recorded_at\":\"2026-11-29T20:33:00.000Z\",\"recorder\":\"mcpreel 0.1.0\",\
             \"servers\":{{\"demo\":{{\"transport\":\"http\",\"url\":\"{url}\"}}}},\
             \"messages\":[{}]}}\n",
            records.join(",\n")
        );
        self.file("c.json", text)
    }
}

/// A record of an HTTP cassette.
#[derive(Clone, Debug)]
pub struct Record {
    from: &'static str,
    exchange: u32,
    session: u32,
    more: String,
    payload: Option<String>,
}

/// The client's message of an exchange.
pub fn c(exchange: u32, payload: impl Into<String>) -> Record {
    Record { from: "client", exchange, session: 0, more: String::new(), payload: Some(payload.into()) }
}

/// A server's message of an exchange.
pub fn s(exchange: u32, payload: impl Into<String>) -> Record {
    Record { from: "server", ..c(exchange, payload) }
}

/// A server's record without a message.
pub fn bare(exchange: u32) -> Record {
    Record { payload: None, ..s(exchange, "") }
}

impl Record {
    /// In this session.
    pub fn on(self, session: u32) -> Self {
        Self { session, ..self }
    }

    /// With these HTTP facts.
    pub fn http(self, facts: &str) -> Self {
        let more = format!("{}\"http\":{facts},", self.more);
        Self { more, ..self }
    }

    /// As events with status 200.
    pub fn sse(self) -> Self {
        self.http(r#"{"status":200,"type":"sse"}"#)
    }

    /// As JSON with this status.
    pub fn status(self, status: u16) -> Self {
        self.http(&format!(r#"{{"status":{status},"type":"json"}}"#))
    }

    /// On the standalone stream.
    pub fn get(self) -> Self {
        let more = format!("{}\"stream\":\"get\",", self.more);
        Self { more, ..self }
    }

    /// How the exchange ended.
    pub fn end(self, end: &str) -> Self {
        let more = format!("{}\"end\":\"{end}\",", self.more);
        Self { more, ..self }
    }

    /// With a body that holds no message: `text` or `base64`.
    pub fn body(self, field: &str, body: &str) -> Self {
        let more = format!("{}\"{field}\":{},", self.more, serde_json::Value::from(body));
        Self { more, ..self }
    }

    /// A challenge of an authorization server's client.
    pub fn challenge(exchange: u32) -> Self {
        bare(exchange).http(r#"{"status":401,"www-authenticate":"Bearer realm=x"}"#)
    }

    /// Without a message.
    pub fn drop_payload(&mut self) {
        self.payload = None;
    }

    fn json(&self) -> String {
        let session = match self.session {
            0 => String::new(),
            session => format!("\"session\":{session},"),
        };
        let payload = self.payload.as_ref().map(|payload| format!("\"payload\":{payload},"));
        let text = format!(
            "{{\"from\":\"{}\",{session}\"exchange\":{},{}{}",
            self.from,
            self.exchange,
            self.more,
            payload.unwrap_or_default()
        );
        format!("{}}}", text.trim_end_matches(','))
    }
}
