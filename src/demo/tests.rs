//! Drives [`serve`](super::server::serve) through real pipes, as a client would.

mod legacy;
mod modern;
mod plain;
mod tasks;
mod wire;

use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::{Value, json};

use super::server::serve;

/// Long enough for a busy machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Everything a client can declare.
fn able() -> Value {
    json!({
        "sampling": {},
        "elicitation": {"form": {}, "url": {}},
        "roots": {},
        "extensions": {"io.modelcontextprotocol/tasks": {}},
    })
}

/// What the `stderr` tool wrote.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client of its own server.
struct Client {
    input: Option<PipeWriter>,
    lines: Receiver<String>,
    server: JoinHandle<io::Result<u8>>,
    log: Log,
    last_id: u64,
    /// `_meta` of every request.
    meta: Value,
}

impl Client {
    /// A client that has said nothing yet.
    fn silent() -> Self {
        let (server_input, input) = io::pipe().unwrap();
        let (output, server_output) = io::pipe().unwrap();
        let (sender, lines) = channel();
        thread::spawn(move || {
            for line in BufReader::new(output).split(b'\n').map_while(Result::ok) {
                let _ = sender.send(String::from_utf8(line).unwrap());
            }
        });
        let log = Log::default();
        let server_log = log.clone();
        let server = thread::spawn(move || serve(BufReader::new(server_input), server_output, server_log));
        Self { input: Some(input), lines, server, log, last_id: 0, meta: Value::Null }
    }

    /// A client after the handshake.
    fn legacy(revision: &str, capabilities: &Value) -> Self {
        let mut client = Self::silent();
        let params = json!({
            "protocolVersion": revision,
            "capabilities": capabilities,
            "clientInfo": {"name": "test", "version": "1"},
        });
        let answer = client.ask("initialize", params);
        assert_eq!(answer["result"]["protocolVersion"], revision);
        client.say(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
        client
    }

    /// A client of the newest legacy revision that can do everything.
    fn able_legacy() -> Self {
        Self::legacy("2025-11-25", &able())
    }

    /// A client without a handshake.
    fn modern(capabilities: &Value) -> Self {
        let mut client = Self::silent();
        client.meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": capabilities,
        });
        client
    }

    /// A client of each era that can do everything.
    fn both_eras() -> [Self; 2] {
        [Self::able_legacy(), Self::modern(&able())]
    }

    fn is_modern(&self) -> bool {
        self.meta.is_object()
    }

    fn raw(&mut self, bytes: &[u8]) {
        self.input.as_mut().unwrap().write_all(bytes).unwrap();
    }

    fn say(&mut self, message: &Value) {
        self.raw(format!("{message}\n").as_bytes());
    }

    /// Sends a request and returns its id.
    fn request(&mut self, method: &str, mut params: Value) -> u64 {
        self.last_id += 1;
        if self.is_modern() {
            let mut meta = self.meta.as_object().unwrap().clone();
            meta.extend(params["_meta"].as_object().cloned().unwrap_or_default());
            params["_meta"] = meta.into();
        }
        let id = self.last_id;
        self.say(&json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
        id
    }

    /// Sends a request, and returns its answer, which must be the next message.
    fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.request(method, params);
        let answer = self.next();
        assert_eq!(answer["id"], id, "{answer}");
        answer
    }

    fn start(&mut self, tool: &str, arguments: &Value) -> u64 {
        self.request("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    /// The answer to a tool call, which must be the next message.
    fn call(&mut self, tool: &str, arguments: &Value) -> Value {
        self.ask("tools/call", json!({"name": tool, "arguments": arguments}))
    }

    fn cancel(&mut self, id: &Value) {
        let params = json!({"requestId": id});
        self.say(&json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}));
    }

    /// Answers a request of the server.
    fn reply(&mut self, request: &Value, result: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": request["id"], "result": result}));
    }

    fn line(&mut self) -> String {
        self.lines.recv_timeout(PATIENCE).expect("the server should have said something")
    }

    fn next(&mut self) -> Value {
        let line = self.line();
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|why| panic!("{why}: {line}"));
        assert!(message.is_array() || message["jsonrpc"] == "2.0", "{line}");
        message
    }

    /// Closes the pipe, and returns what the server still said and how it ended.
    fn end(mut self) -> (Vec<Value>, u8) {
        self.input = None;
        let code = self.server.join().unwrap().unwrap();
        (self.lines.iter().map(|line| serde_json::from_str(&line).unwrap()).collect(), code)
    }

    /// Closes the pipe and checks that everything has been said.
    fn end_quietly(self) {
        assert_eq!(self.end(), (Vec::new(), 0));
    }
}

/// The first text of a tool result.
fn text(answer: &Value) -> &str {
    answer["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("no text: {answer}"))
}

fn sampled(text: &str) -> Value {
    json!({"role": "assistant", "model": "test", "content": {"type": "text", "text": text}})
}

fn accepted(content: &Value) -> Value {
    json!({"action": "accept", "content": content})
}
