//! Writing answers: whole ones, streams, refusals, and the ways of breaking off.

use std::io::{self, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Duration;

use super::Peer;
use super::connection::{Answer, Connection};
use super::head::Refusal;
use super::watch::{self, Watch};
use crate::http::Headers;
use crate::http::chunked::ChunkWriter;
use crate::http::headers::is_sound;

/// A body up to this size goes out in one `write` with its head.
const TOGETHER: usize = 64 * 1024;

/// Framing and connection fields are the server's business, whatever a cassette or an upstream says.
const OURS: [&str; 7] = [
    "connection",
    "content-length",
    "keep-alive",
    "proxy-connection",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

pub(super) fn write_all(mut socket: &TcpStream, bytes: &[u8]) -> io::Result<()> {
    socket.write_all(bytes)
}

/// Status codes whose answers have no body, whatever the fields say (RFC 9112, section 6.3).
fn is_bodiless(status: u16) -> bool {
    status < 200 || status == 204 || status == 304
}

/// The status line and the fields, without the blank line. Checks all before a byte is sent.
fn head(status: u16, headers: &Headers) -> io::Result<Vec<u8>> {
    // Unusual ones are for the client to make sense of.
    if !(200..=999).contains(&status) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a final status code"));
    }
    let mut out = Vec::with_capacity(512);
    out.extend_from_slice(format!("HTTP/1.1 {status} {}\r\n", reason(status)).as_bytes());
    for (name, value) in
        headers.iter().filter(|(name, _)| !OURS.iter().any(|ours| name.eq_ignore_ascii_case(ours)))
    {
        if !is_sound(name, value) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a header field would break the answer"));
        }
        out.extend_from_slice(name.as_bytes());
        out.extend_from_slice(b": ");
        out.extend_from_slice(value);
        out.extend_from_slice(b"\r\n");
    }
    Ok(out)
}

fn push_length(out: &mut Vec<u8>, length: u64) {
    out.extend_from_slice(format!("Content-Length: {length}\r\n").as_bytes());
}

/// The `Connection` field where it is not what the version implies, and the blank line.
fn end_head(out: &mut Vec<u8>, connection: &mut Connection) {
    match (connection.keeps(), connection.minor) {
        (false, _) => out.extend_from_slice(b"Connection: close\r\n"),
        (true, 0) => out.extend_from_slice(b"Connection: keep-alive\r\n"),
        (true, _) => {}
    }
    out.extend_from_slice(b"\r\n");
}

fn send(connection: &mut Connection, bytes: &[u8]) -> io::Result<()> {
    write_all(&connection.peer.socket, bytes).inspect_err(|_| connection.answer = Answer::Closed)
}

pub(super) fn respond(
    connection: &mut Connection,
    status: u16,
    headers: &Headers,
    body: &[u8],
) -> io::Result<()> {
    let mut out = head(status, headers)?;
    let theirs = headers.text("content-length").and_then(|length| length.parse().ok());
    match theirs {
        Some(length) if connection.head_only || status == 304 => push_length(&mut out, length),
        _ if is_bodiless(status) => {}
        _ => push_length(&mut out, body.len() as u64),
    }
    end_head(&mut out, connection);
    let body = if connection.head_only || is_bodiless(status) { &[] } else { body };
    if body.len() <= TOGETHER {
        out.extend_from_slice(body);
        send(connection, &out)?;
    } else {
        send(connection, &out)?;
        send(connection, body)?;
    }
    connection.answer = Answer::Complete;
    Ok(())
}

/// An error in few words, after which the connection is closed.
pub(super) fn refuse(socket: &TcpStream, refusal: Refusal) -> io::Result<()> {
    let Refusal { status, why } = refusal;
    let text = format!(
        "HTTP/1.1 {status} {}\r\nContent-Type: text/plain\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{why}\n",
        reason(status),
        why.len() + 1
    );
    write_all(socket, text.as_bytes())
}

pub(super) fn reset(connection: &mut Connection) {
    connection.answer = Answer::Closed;
    // With a linger time of zero, closing sends a reset and drops what is not sent yet.
    let _ = rustix::net::sockopt::set_socket_linger(&connection.peer.socket, Some(Duration::ZERO));
}

/// A peer to write to.
#[derive(Debug)]
struct Out(Arc<Peer>);

impl Write for Out {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0.socket).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
enum Framing {
    Chunked(ChunkWriter<Out>),
    /// Bytes that are still to come.
    Length(Out, u64),
    /// Up to the end of the connection: HTTP/1.0.
    Close(Out),
    /// HEAD, 204, 304.
    Nothing,
}

/// The body of an answer on its way. In a chunked answer each flush makes one chunk of what was written since the
/// last; otherwise bytes go out as they are written.
///
/// Without [`Stream::finish`] the answer is cut: the connection closes, and the client sees that the end is missing.
#[derive(Debug)]
pub struct Stream<'c> {
    connection: &'c mut Connection,
    framing: Framing,
}

impl<'c> Stream<'c> {
    pub(super) fn begin(
        connection: &'c mut Connection,
        status: u16,
        headers: &Headers,
        length: Option<u64>,
    ) -> io::Result<Self> {
        let mut out = head(status, headers)?;
        let writer = Out(Arc::clone(&connection.peer));
        let framing = if is_bodiless(status) {
            Framing::Nothing
        } else if let Some(length) = length {
            push_length(&mut out, length);
            Framing::Length(writer, length)
        } else if connection.minor == 0 {
            connection.persistent = false;
            Framing::Close(writer)
        } else {
            out.extend_from_slice(b"Transfer-Encoding: chunked\r\n");
            Framing::Chunked(ChunkWriter::new(writer))
        };
        let framing = if connection.head_only { Framing::Nothing } else { framing };
        end_head(&mut out, connection);
        send(connection, &out)?;
        connection.answer = Answer::Begun;
        connection.release_buffer();
        Ok(Self { connection, framing })
    }

    /// Writes one piece, such as an event, and flushes: one chunk, one `write`.
    ///
    /// # Errors
    ///
    /// When the client is gone, or does not take bytes for too long.
    pub fn send(&mut self, piece: &[u8]) -> io::Result<()> {
        match &mut self.framing {
            Framing::Chunked(writer) => writer.write_chunk(piece),
            _ => self.write_all(piece),
        }
    }

    /// Ends the body properly. The connection then serves its next request.
    ///
    /// # Errors
    ///
    /// When the client is gone, or fewer bytes were written than announced: the answer is cut.
    pub fn finish(self) -> io::Result<()> {
        match self.framing {
            Framing::Chunked(writer) => drop(writer.finish()?),
            Framing::Length(_, left) if left > 0 => {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "fewer bytes than announced"));
            }
            _ => {}
        }
        self.connection.answer = Answer::Complete;
        Ok(())
    }

    /// Resets the connection (the client sees ECONNRESET and may lose what was sent), when the handler returns.
    pub fn reset(self) {
        reset(self.connection);
    }

    /// As [`Request::is_gone`](super::Request::is_gone).
    #[must_use]
    pub fn is_gone(&self) -> bool {
        watch::is_gone(&self.connection.peer)
    }

    /// As [`Request::watch`](super::Request::watch).
    ///
    /// # Errors
    ///
    /// When there is a watch already, or the system has no room for one.
    pub fn watch(&self, gone: impl FnOnce() + Send + 'static) -> io::Result<Watch> {
        self.connection.shared.watcher.watch(&self.connection.peer, Box::new(gone))
    }
}

impl Write for Stream<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.framing {
            Framing::Chunked(writer) => writer.write(bytes),
            Framing::Close(out) => out.write(bytes),
            Framing::Nothing => Ok(bytes.len()),
            Framing::Length(out, left) => {
                if bytes.len() as u64 > *left {
                    return Err(io::Error::new(io::ErrorKind::InvalidInput, "more bytes than announced"));
                }
                let length = out.write(bytes)?;
                *left -= length as u64;
                Ok(length)
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.framing {
            Framing::Chunked(writer) => writer.flush(),
            _ => Ok(()),
        }
    }
}

/// The usual words for a status code; empty for an unusual one. They mean nothing to any client.
#[must_use]
pub fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        201 => "Created",
        202 => "Accepted",
        204 => "No Content",
        206 => "Partial Content",
        301 => "Moved Permanently",
        302 => "Found",
        303 => "See Other",
        304 => "Not Modified",
        307 => "Temporary Redirect",
        308 => "Permanent Redirect",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        406 => "Not Acceptable",
        408 => "Request Timeout",
        409 => "Conflict",
        410 => "Gone",
        413 => "Content Too Large",
        414 => "URI Too Long",
        415 => "Unsupported Media Type",
        417 => "Expectation Failed",
        421 => "Misdirected Request",
        422 => "Unprocessable Content",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        501 => "Not Implemented",
        502 => "Bad Gateway",
        503 => "Service Unavailable",
        504 => "Gateway Timeout",
        505 => "HTTP Version Not Supported",
        _ => "",
    }
}
