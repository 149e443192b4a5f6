//! Words for writing cassettes by hand and for playing them.

use super::{Client, Sandbox};

/// A request; `id` and `params` are JSON.
pub fn request(id: &str, method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#)
}

/// A tool call.
pub fn call(id: &str, name: &str, arguments: &str) -> String {
    request(id, "tools/call", &format!(r#"{{"name":"{name}","arguments":{arguments}}}"#))
}

/// A tool call that wants progress.
pub fn call_with_progress(id: &str, name: &str, token: &str) -> String {
    request(
        id,
        "tools/call",
        &format!(r#"{{"name":"{name}","arguments":{{}},"_meta":{{"progressToken":{token}}}}}"#),
    )
}

/// An answer.
pub fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

/// The answer of a tool that says this.
pub fn said(id: &str, text: &str) -> String {
    result(id, &format!(r#"{{"content":[{{"type":"text","text":"{text}"}}]}}"#))
}

/// An error.
pub fn error(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

/// A notification.
pub fn notification(method: &str, params: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/{method}","params":{params}}}"#)
}

/// A progress notification.
pub fn progress(token: &str, done: u32) -> String {
    notification("progress", &format!(r#"{{"progressToken":{token},"progress":{done}}}"#))
}

/// The client's cancellation of a request.
pub fn cancelled(id: &str) -> String {
    notification("cancelled", &format!(r#"{{"requestId":{id}}}"#))
}

/// A record of the client.
pub fn c(message: impl AsRef<str>) -> String {
    format!("c {}", message.as_ref())
}

/// A record of the server.
pub fn s(message: impl AsRef<str>) -> String {
    format!("s {}", message.as_ref())
}

/// The same record on another connection.
pub fn on(conn: u32, record: &str) -> String {
    format!("{}{conn}{}", &record[..1], &record[1..])
}

/// A tool call and what it said.
pub fn answered(id: &str, name: &str, arguments: &str, text: &str) -> [String; 2] {
    [c(call(id, name, arguments)), s(said(id, text))]
}

/// A fault on the tool `name`; `params` is JSON.
pub fn fault_on(name: &str, kind: &str, params: &str) -> String {
    format!(r#"{{"target":{{"method":"tools/call","name":"{name}"}},"type":"{kind}","params":{params}}}"#)
}

/// The start of a legacy session in which the server offers everything.
pub fn handshake() -> Vec<String> {
    vec![
        c(super::initialize("{}")),
        s(result(
            "0",
            &format!(
                r#"{{"protocolVersion":"2025-11-25","capabilities":{OFFERED},"serverInfo":{{"name":"demo","version":"1"}}}}"#
            ),
        )),
        c(INITIALIZED),
    ]
}

/// The capabilities of that server.
pub const OFFERED: &str =
    r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"prompts":{},"logging":{}}"#;

/// What a legacy client says next.
pub const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Sandbox {
    /// A cassette `c.json` of these records, with further members of the head.
    pub fn tape_with(&self, head: &str, records: &[String]) {
        let lines: Vec<&str> = records.iter().map(String::as_str).collect();
        self.cassette_with("c.json", head, &lines);
    }

    /// Starts a replay of a cassette of these records.
    pub fn play(&self, records: &[String], options: &[&str]) -> Client {
        self.tape_with("", records);
        self.serve(options)
    }

    /// An overlay `f.json` of these faults.
    pub fn faults(&self, faults: &[String]) {
        self.file("f.json", format!("{{\"faults\":[\n{}\n]}}\n", faults.join(",\n")));
    }

    /// Starts a replay of `c.json`.
    pub fn serve(&self, options: &[&str]) -> Client {
        self.mcpreel(["serve", "c.json"].iter().chain(options)).start()
    }
}

impl Client {
    /// Shakes hands as a client with these capabilities.
    #[track_caller]
    pub fn greet(&mut self, capabilities: &str) -> String {
        let answer = self.ask(&super::initialize(capabilities));
        self.send(INITIALIZED);
        answer
    }

    /// Sends a request and checks the line that comes.
    #[track_caller]
    pub fn expect(&mut self, line: &str, answer: &str) {
        assert_eq!(self.ask(line), answer);
    }

    /// Checks the next lines.
    #[track_caller]
    pub fn gets(&mut self, lines: &[String]) {
        for line in lines {
            assert_eq!(self.next(), *line);
        }
    }

    /// Sends a request and checks the code of the error that comes; gives the whole of it.
    #[track_caller]
    pub fn fails(&mut self, line: &str, code: i32) -> String {
        let answer = self.ask(line);
        assert!(answer.contains(&format!("\"error\":{{\"code\":{code},")), "{answer}");
        answer
    }
}
