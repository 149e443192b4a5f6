//! A request as the handler sees it.

use std::fmt;
use std::io::{self, Read};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use super::connection::{Answer, Connection};
use super::head::{BODY_UNREADABLE, Head, Refusal};
use super::reply::{self, Stream};
use super::watch::{self, Watch};
use crate::http::Headers;

/// A request whose head is read and checked. It is answered by exactly one of [`Request::respond`],
/// [`Request::into_writer`], [`Request::refuse`], [`Request::close`] and [`Request::reset`]; dropped without, the
/// client gets a 500.
pub struct Request<'c> {
    connection: &'c mut Connection,
    method: String,
    target: String,
    headers: Headers,
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No header values: they hold credentials.
        out.debug_struct("Request")
            .field("method", &self.method)
            .field("target", &self.target)
            .finish_non_exhaustive()
    }
}

impl<'c> Request<'c> {
    pub(super) fn new(connection: &'c mut Connection, head: Head) -> Self {
        Self { connection, method: head.method, target: head.target, headers: head.headers }
    }

    /// The method, as received: `POST`.
    #[must_use]
    pub fn method(&self) -> &str {
        &self.method
    }

    /// The target, as received: visible ASCII. Nearly always a path with an optional query; `*` and the absolute form
    /// are possible.
    #[must_use]
    pub fn target(&self) -> &str {
        &self.target
    }

    /// The target up to its first `?`.
    #[must_use]
    pub fn path(&self) -> &str {
        self.target.split('?').next().unwrap_or_default()
    }

    /// The minor version of HTTP/1: 0 or 1.
    #[must_use]
    pub fn version(&self) -> u8 {
        self.connection.minor
    }

    /// The header fields, in order, duplicates kept.
    #[must_use]
    pub fn headers(&self) -> &Headers {
        &self.headers
    }

    /// The number of the connection it came on.
    #[must_use]
    pub fn connection(&self) -> u64 {
        self.connection.number()
    }

    /// The client's address.
    ///
    /// # Errors
    ///
    /// When the connection is broken.
    pub fn client(&self) -> io::Result<SocketAddr> {
        self.socket().peer_addr()
    }

    fn socket(&self) -> &TcpStream {
        &self.connection.peer.socket
    }

    /// Reads the body as it comes; sends `100 Continue` first where the client waits for it. An error that the client
    /// should hear of carries a [`Refusal`], which [`refusal_of`] takes out.
    pub fn as_reader(&mut self) -> Body<'_> {
        Body(self.connection)
    }

    /// Reads the whole body. Memory grows with what comes, not with what a header claims.
    ///
    /// # Errors
    ///
    /// What [`Request::refuse`] should be called with: 413 over the limit, 400 for broken framing or an early end, 408
    /// for one that is too slow.
    pub fn read_body(&mut self) -> Result<Vec<u8>, Refusal> {
        if let Some(body) = self.connection.body_at_hand() {
            return Ok(body);
        }
        let mut body = Vec::new();
        match self.as_reader().read_to_end(&mut body) {
            Ok(_) => Ok(body),
            Err(error) => Err(refusal_of(&error).unwrap_or(BODY_UNREADABLE)),
        }
    }

    /// Answers with a whole body. `Content-Length` and `Connection` are set here; fields about one connection are left
    /// out, and nothing else is added. With HEAD, 204 and 304 no body goes out; with HEAD and 304 a `Content-Length`
    /// of yours is kept.
    ///
    /// # Errors
    ///
    /// [`io::ErrorKind::InvalidInput`] when a field would break the head: nothing was sent then, and the client gets a
    /// 500. Any other: the client is gone.
    pub fn respond(self, status: u16, headers: &Headers, body: &[u8]) -> io::Result<()> {
        reply::respond(self.connection, status, headers, body)
    }

    /// Sends the head at once and gives a writer for the body. With `length` the body is of that many bytes;
    /// without, it is chunked (for an HTTP/1.0 client: up to the end of the connection). An end without
    /// [`Stream::finish`] cuts the answer off.
    ///
    /// # Errors
    ///
    /// As [`Request::respond`].
    pub fn into_writer(self, status: u16, headers: &Headers, length: Option<u64>) -> io::Result<Stream<'c>> {
        Stream::begin(self.connection, status, headers, length)
    }

    /// Answers with an error and closes the connection.
    pub fn refuse(self, refusal: Refusal) {
        self.connection.shared.tell(refusal);
        let refused = reply::refuse(&self.connection.peer.socket, refusal);
        self.connection.answer = Answer::Closed;
        if refused.is_ok() {
            super::connection::linger(&self.connection.peer.socket, Duration::from_secs(2));
        }
    }

    /// Closes the connection without an answer, when the handler returns.
    pub fn close(self) {
        self.connection.answer = Answer::Closed;
    }

    /// Resets the connection (the client sees ECONNRESET), when the handler returns.
    pub fn reset(self) {
        reply::reset(self.connection);
    }

    /// Whether the client has left, or has closed its sending side. On Linux; elsewhere only a broken connection is
    /// seen.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        watch::is_gone(&self.connection.peer)
    }

    /// Calls `gone` once, on the server's one watcher thread, as soon as the client has left; it should return at
    /// once. The watch goes on in the writer that this request becomes, and ends when the [`Watch`] is dropped. One
    /// watch per connection at a time. On Linux; elsewhere it never calls.
    ///
    /// # Errors
    ///
    /// When there is a watch already, or the system has no room for one.
    pub fn watch(&self, gone: impl FnOnce() + Send + 'static) -> io::Result<Watch> {
        self.connection.shared.watcher.watch(&self.connection.peer, Box::new(gone))
    }
}

/// The body of a request.
#[derive(Debug)]
pub struct Body<'r>(&'r mut Connection);

impl Read for Body<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read_body(into)
    }
}

/// The refusal that an error of [`Body`] carries.
#[must_use]
pub fn refusal_of(error: &io::Error) -> Option<Refusal> {
    error.get_ref().and_then(|inner| inner.downcast_ref()).copied()
}
