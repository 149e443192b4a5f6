//! The server behind a pair of pipes: one message per line.

use std::io::{self, BufRead, Write};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use super::server::Server;
use super::session::{Flow, Session};
use super::sink::{Sink, lock};
use super::wire::{PARSE_ERROR, RpcError, error_response};

/// Serves one client until `input` ends, and returns the exit code that the process should end with: 0, or what the
/// `exit` tool was asked for.
///
/// At the end of input, calls that only wait for time answer at once, calls that wait for the client are dropped. A
/// client that no longer reads ends the session too; that is no error. `log` gets what the `stderr` tool is told.
///
/// # Errors
///
/// When `input` cannot be read, or `output` cannot be written for another reason than that its reader left.
pub fn serve(
    mut input: impl BufRead,
    output: impl Write + Send + 'static,
    log: impl Write + Send + 'static,
) -> io::Result<u8> {
    let pipe = Arc::new(Pipe { state: Mutex::new(Output { writer: Box::new(output), failure: None }) });
    let sink: Arc<dyn Sink> = Arc::<Pipe>::clone(&pipe);
    let session = Session::new(Server::new(log), Arc::clone(&sink));
    let mut line = Vec::new();
    let mut ending = Ok(());
    while !pipe.is_broken() {
        line.clear();
        match input.read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) => {
                ending = Err(error);
                break;
            }
        }
        if let Flow::Exit(code) = take_line(&session, &sink, &line) {
            session.abort();
            return Ok(code);
        }
    }
    session.close();
    ending.and_then(|()| pipe.outcome()).map(|()| 0)
}

/// Hands one line to the session. Only `\n` ends a line: U+2028 and its like stand unescaped inside strings.
fn take_line(session: &Arc<Session>, sink: &Arc<dyn Sink>, line: &[u8]) -> Flow {
    let text = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line).trim_ascii();
    if text.is_empty() {
        return Flow::Continue;
    }
    match serde_json::from_slice::<Value>(text) {
        Ok(message) => session.receive(message, sink),
        Err(why) => {
            let error = RpcError::new(PARSE_ERROR, format!("not JSON: {why}"));
            sink.answer(&error_response(&Value::Null, &error));
            Flow::Continue
        }
    }
}

/// Standard output: whole lines, one write each, and the first failure kept for the end.
struct Pipe {
    state: Mutex<Output>,
}

struct Output {
    writer: Box<dyn Write + Send>,
    failure: Option<io::Error>,
}

impl Pipe {
    fn write_line(&self, mut text: String) {
        text.push('\n');
        let mut state = lock(&self.state);
        if state.failure.is_some() {
            return;
        }
        let written = state.writer.write_all(text.as_bytes()).and_then(|()| state.writer.flush());
        state.failure = written.err();
    }

    fn is_broken(&self) -> bool {
        lock(&self.state).failure.is_some()
    }

    fn outcome(&self) -> io::Result<()> {
        match lock(&self.state).failure.take() {
            Some(failure) if failure.kind() != io::ErrorKind::BrokenPipe => Err(failure),
            _ => Ok(()),
        }
    }
}

impl Sink for Pipe {
    fn send(&self, message: &Value) {
        self.write_line(message.to_string());
    }

    fn answer(&self, message: &Value) {
        self.write_line(message.to_string());
    }

    fn noise(&self, line: &str) {
        self.write_line(line.to_owned());
    }
}
