//! Servers as bare as they can be: std, one thread, a buffer each way.

use std::io::{self, BufRead, BufReader, BufWriter, Read, Write};

const BUFFER: usize = 64 << 10;

/// Gives every line back.
pub(crate) fn echo() {
    let mut input = BufReader::with_capacity(BUFFER, io::stdin().lock());
    // Not std's own, which looks for line ends.
    let mut output = std::fs::File::options().write(true).open("/dev/stdout").expect("standard output");
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok_and(|length| length > 0) {
        if output.write_all(&line).is_err() {
            return;
        }
        line.clear();
    }
}

/// Reads everything and says how much that was.
pub(crate) fn drain() {
    let mut buffer = vec![0; BUFFER];
    let mut total = 0;
    let mut input = io::stdin().lock();
    while let Ok(length) = input.read(&mut buffer) {
        if length == 0 {
            break;
        }
        total += length;
    }
    println!("{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"data\":{total}}}}}");
}

/// Answers requests; a tool's answer has about `size` bytes. Reads on while it writes, up to a point.
pub(crate) fn answer(size: usize) {
    let mut input = BufReader::with_capacity(BUFFER, io::stdin().lock());
    let mut output = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut line = String::new();
    while input.read_line(&mut line).is_ok_and(|length| length > 0) {
        if let Some(id) = crate::client::id_of(&line) {
            let result = if line.contains("\"initialize\"") {
                r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}"#.to_owned()
            } else {
                crate::client::tool_result(id, size)
            };
            let _ = writeln!(output, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
        }
        line.clear();
        if input.buffer().is_empty() && output.flush().is_err() {
            return;
        }
    }
}
