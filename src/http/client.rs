//! The upstream side of a proxy: requests go out as they came in, answers come back as they are. Nothing is
//! followed, retried, decoded or added.
//!
//! A connection to the server belongs to one client's connection, its [`Lane`]: it serves that client's later requests
//! and ends with it. Shared among clients, an idle one that the server has just closed would cost a client an answer
//! that it would have got by itself.
//!
//! An exchange must be breakable at any time, also while the upstream has not sent a head yet (a server may think
//! for 15 s before it chooses between JSON and a stream, and a client that leaves then cancels). ureq can break off
//! an agent only as a whole, so every lane has an agent of its own.

use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use ureq::config::Config;
use ureq::http::{Method, Request, Uri};
use ureq::tls::{PemItem, RootCerts, TlsConfig, parse_pem};
use ureq::typestate::WithoutBody;
use ureq::unversioned::resolver::DefaultResolver;
use ureq::unversioned::transport::{Connector as _, DefaultConnector};
use ureq::{Agent, BodyReader, RequestBuilder};

pub use super::failure::SendError;

use super::Headers;
use super::failure::{Failure, is_lookup, is_unreachable};
use super::guard::is_loopback;
use super::headers::is_sound;
use super::patience::Patience;
use crate::error::{Error, Result};

/// Bytes of the head of an answer: more than the clients of the usual languages take. The buffers must hold a head, and
/// every open stream has two of each over TLS, all of it in memory.
pub(super) const LARGEST_HEAD: usize = 72 << 10;

/// How an upstream is reached.
#[derive(Debug, Default, Clone)]
pub struct Options {
    /// A PEM file whose certificates are the only trusted roots. Without it the one that `SSL_CERT_FILE` names, and
    /// without that the roots compiled in.
    pub cacert: Option<PathBuf>,
    /// Fields that replace the client's, such as a credential.
    pub headers: Headers,
    /// For connecting and the TLS handshake together; 10 s without it. Looking up the name takes what the system's
    /// resolver allows it: a limit of ours would cost a thread per request.
    pub connect: Option<Duration>,
}

/// A server to send requests to.
#[derive(Debug, Clone)]
pub struct Upstream(Arc<Inner>);

struct Inner {
    scheme: String,
    authority: String,
    path: String,
    headers: Headers,
    config: Config,
}

impl fmt::Debug for Inner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        // No header values: they hold credentials.
        out.debug_struct("Inner")
            .field("scheme", &self.scheme)
            .field("authority", &self.authority)
            .finish_non_exhaustive()
    }
}

impl Upstream {
    /// Prepares for the server at `url`; connects to nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when the URL is not one of http or https, or a header cannot be sent; [`Error::Input`] or
    /// [`Error::Io`] about the file of certificates.
    pub fn new(url: &str, options: &Options) -> Result<Self> {
        let wrong = |why: &str| Error::Usage(format!("{url}: {why}"));
        let uri: Uri = url.parse().map_err(|_| wrong("not a URL"))?;
        let scheme = uri.scheme_str().unwrap_or_default().to_owned();
        if !matches!(scheme.as_str(), "http" | "https") {
            return Err(wrong("expected a URL that begins with http:// or https://"));
        }
        let authority = uri.authority().ok_or_else(|| wrong("the URL has no host"))?;
        if authority.as_str().contains('@') {
            return Err(wrong("no user and password in the URL, please; --header adds credentials"));
        }
        if let Some((name, _)) = options.headers.iter().find(|(name, value)| !is_sound(name, value)) {
            return Err(Error::Usage(format!("--header {name}: not a header field")));
        }
        let mut tls = TlsConfig::builder().root_certs(RootCerts::WebPki);
        // A variable that is set to nothing is as good as not set.
        let named = || std::env::var_os("SSL_CERT_FILE").filter(|path| !path.is_empty()).map(PathBuf::from);
        if scheme == "https"
            && let Some(path) = options.cacert.clone().or_else(named)
        {
            tls = tls.root_certs(read_roots(&path)?);
        }
        let mut config = Agent::config_builder()
            .max_redirects(0)
            .max_redirects_will_error(false)
            .http_status_as_error(false)
            .user_agent("")
            .accept("")
            .accept_encoding("")
            .allow_non_standard_methods(true)
            .max_idle_connections(1)
            .max_idle_connections_per_host(1)
            // Node's servers and uvicorn close a connection that idles for 5 s. A request that meets the close is lost,
            // and may not be repeated.
            .max_idle_age(Duration::from_secs(4))
            .max_response_header_size(LARGEST_HEAD)
            .input_buffer_size(LARGEST_HEAD + 4 * 1024)
            .output_buffer_size(LARGEST_HEAD + 16 * 1024)
            .timeout_connect(Some(options.connect.unwrap_or(Duration::from_secs(10))))
            .tls_config(tls.build());
        // ureq would ask a proxy for loopback addresses too.
        if is_local(authority.host()) {
            config = config.proxy(None);
        }
        let path = uri.path_and_query().map_or("/", |path| path.as_str()).to_owned();
        Ok(Self(Arc::new(Inner {
            scheme,
            authority: authority.as_str().to_owned(),
            path,
            headers: options.headers.clone(),
            config: config.build(),
        })))
    }

    /// `scheme://host` or `scheme://host:port`, as in the URL.
    #[must_use]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.0.scheme, self.0.authority)
    }

    /// The URL's path with its query; `/` for an empty one.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.0.path
    }

    /// The way to the server for one client's connection; connects to nothing yet.
    #[must_use]
    pub fn lane(&self) -> Lane {
        Lane { home: self.clone(), idle: Arc::default() }
    }
}

/// The requests of one client's connection. They share a connection to the server as long as it stays open; a request
/// that comes while another is under way gets one of its own.
#[derive(Debug)]
pub struct Lane {
    home: Upstream,
    idle: Arc<Mutex<Option<Line>>>,
}

impl Lane {
    /// Begins an exchange: it can be cancelled from here on.
    #[must_use]
    pub fn exchange(&self) -> Exchange {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).take();
        let line = idle.unwrap_or_else(|| Line::new(&self.home.0.config));
        let slot = Slot {
            line: Mutex::new(Some(line)),
            cancelled: AtomicBool::new(false),
            home: self.home.clone(),
            idle: Arc::downgrade(&self.idle),
        };
        Exchange(Arc::new(slot))
    }
}

/// An agent, which has one connection.
#[derive(Debug, Clone)]
struct Line {
    agent: Agent,
    patience: Patience,
}

impl Line {
    fn new(config: &Config) -> Self {
        let patience = Patience::default();
        let connector = DefaultConnector::default().chain(patience.clone());
        Self { agent: Agent::with_parts(config.clone(), connector, DefaultResolver::default()), patience }
    }
}

fn is_local(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || format!("{host}:0").parse().is_ok_and(|address| is_loopback(&address))
}

fn read_roots(path: &Path) -> Result<RootCerts> {
    let pem = std::fs::read(path).map_err(Error::io("read the certificates in", path))?;
    let mut roots = Vec::new();
    for item in parse_pem(&pem) {
        match item {
            Ok(PemItem::Certificate(certificate)) => roots.push(certificate),
            Ok(_) => {}
            Err(error) => return Err(Error::input(path, "", format!("not a PEM file: {error}"))),
        }
    }
    if roots.is_empty() {
        return Err(Error::input(path, "", "no certificate in it; expected a PEM file"));
    }
    Ok(RootCerts::new_with_certs(&roots))
}

/// The agent of one exchange, until the exchange is over or cancelled.
#[derive(Debug)]
struct Slot {
    line: Mutex<Option<Line>>,
    cancelled: AtomicBool,
    home: Upstream,
    idle: Weak<Mutex<Option<Line>>>,
}

impl Slot {
    fn take(&self) -> Option<Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    fn line(&self) -> Option<Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Gives the agent back for the next exchange of the lane.
    fn release(&self) {
        if let (Some(line), Some(idle)) = (self.take(), self.idle.upgrade()) {
            *idle.lock().unwrap_or_else(PoisonError::into_inner) = Some(line);
        }
    }
}

/// Breaks an exchange off, from any thread and at any time. After its end it does nothing.
#[derive(Debug, Clone)]
pub struct Cancel(Arc<Slot>);

impl Cancel {
    /// Closes the connection under the exchange. A call that waits for the server returns at once; only looking up a
    /// name and connecting are waited for.
    pub fn cancel(&self) {
        self.0.cancelled.store(true, Ordering::SeqCst);
        if let Some(line) = self.0.take() {
            line.agent.shutdown();
        }
    }

    /// Whether it was cancelled.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.0.cancelled.load(Ordering::SeqCst)
    }
}

/// An exchange that has not been sent.
#[derive(Debug)]
pub struct Exchange(Arc<Slot>);

impl Exchange {
    /// A handle that breaks the exchange off.
    #[must_use]
    pub fn canceller(&self) -> Cancel {
        Cancel(Arc::clone(&self.0))
    }

    /// Sends a request and waits for the head of the answer, for as long as it takes.
    ///
    /// `target` is a path with an optional query. Of the client's `headers` those about the connection, `Host` and
    /// `Accept-Encoding` do not go along: the server gets its own `Host` (some refuse any other) and is asked for
    /// `identity`. Names go out in lower case. `body` `None` is no body at all, empty is `Content-Length: 0`.
    ///
    /// # Errors
    ///
    /// When there is no answer. Any status is an answer.
    pub fn send(
        self,
        method: &str,
        target: &str,
        headers: &Headers,
        body: Option<&[u8]>,
    ) -> std::result::Result<Response, SendError> {
        let result = self.try_send(method, target, headers, body);
        if result.is_err() {
            self.0.release();
        }
        result
    }

    fn try_send(
        &self,
        method: &str,
        target: &str,
        headers: &Headers,
        body: Option<&[u8]>,
    ) -> std::result::Result<Response, SendError> {
        let home = &self.0.home.0;
        let Line { agent, .. } = self.0.line().ok_or(SendError::Cancelled)?;
        // Behind the authority anything else would change where the request goes.
        if !target.starts_with('/') {
            return Err(SendError::Request("its target is not a path".to_owned()));
        }
        let fields = passed_on(headers, &home.headers);
        let run = |authority: &str| -> std::result::Result<Response, Failure> {
            let uri = format!("{}://{authority}{target}", home.scheme);
            let host = (authority != home.authority).then_some(("host", home.authority.as_bytes()));
            let fields = fields.iter().chain(host);
            let answer = match (body, rarely_with_body(&agent, method, &uri)) {
                (Some(body), Some(request)) if !body.is_empty() => {
                    let request = fields.fold(request, |request, (name, value)| request.header(name, value));
                    request.force_send_body().send(body)
                }
                (body, _) => {
                    let request = Request::builder().method(method).uri(uri);
                    let request = fields.fold(request, |request, (name, value)| request.header(name, value));
                    match body {
                        None => agent.run(request.body(()).map_err(Failure::Request)?),
                        Some(body) => agent.run(request.body(body).map_err(Failure::Request)?),
                    }
                }
            };
            answer.map(|answer| self.respond(answer, method)).map_err(Failure::Send)
        };
        let failure = match run(&home.authority) {
            Ok(response) => return Ok(response),
            Err(Failure::Send(error)) if is_lookup(&error) => match self.without_resolver(error, &run) {
                Ok(response) => return Ok(response),
                Err(failure) => failure,
            },
            Err(failure) => failure,
        };
        if self.0.cancelled.load(Ordering::SeqCst) {
            return Err(SendError::Cancelled);
        }
        Err(failure.into())
    }

    /// In a container without `/etc/hosts` not even `localhost` has an address.
    fn without_resolver(
        &self,
        error: ureq::Error,
        run: &dyn Fn(&str) -> std::result::Result<Response, Failure>,
    ) -> std::result::Result<Response, Failure> {
        let home = &self.0.home.0;
        let (name, port) =
            home.authority.split_once(':').map_or((home.authority.as_str(), ""), |(n, p)| (n, p));
        // Over TLS the certificate is about the name, which an address would lose.
        if !name.eq_ignore_ascii_case("localhost") || home.scheme != "http" {
            return Err(Failure::Send(error));
        }
        let port = if port.is_empty() { "80" } else { port };
        match run(&format!("127.0.0.1:{port}")) {
            Err(Failure::Send(error)) if is_unreachable(&error) => run(&format!("[::1]:{port}")),
            other => other,
        }
    }

    fn respond(&self, answer: ureq::http::Response<ureq::Body>, method: &str) -> Response {
        let (head, body) = answer.into_parts();
        let mut headers: Headers =
            head.headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        // The chunks win over a length beside them (RFC 9112, section 6.3).
        let length = match headers.lists("transfer-encoding", "chunked") {
            true => None,
            false => headers.text("content-length").and_then(|length| length.parse().ok()),
        };
        headers.remove_hop_by_hop();
        let status = head.status.as_u16();
        if let Some(length) = length
            && (method == Method::HEAD.as_str() || status == 304)
        {
            headers.push("content-length", u64::to_string(&length));
        }
        let patience = self.0.line().map(|line| line.patience);
        let body = Answer { reader: Some(body.into_reader()), patience, slot: Arc::clone(&self.0) };
        Response { status, headers, length, body }
    }
}

/// A request by one of the methods with which ureq sends a body only when it is told to.
fn rarely_with_body(agent: &Agent, method: &str, uri: &str) -> Option<RequestBuilder<WithoutBody>> {
    match method {
        "GET" => Some(agent.get(uri)),
        "DELETE" => Some(agent.delete(uri)),
        "OPTIONS" => Some(agent.options(uri)),
        _ => None,
    }
}

fn passed_on(headers: &Headers, injected: &Headers) -> Headers {
    let mut fields = headers.clone();
    fields.remove_hop_by_hop();
    fields.remove("host");
    for (name, _) in injected.iter() {
        fields.remove(name);
    }
    fields.extend(injected.iter());
    fields.set("accept-encoding", "identity");
    fields
}

/// An answer, its body not read yet.
#[derive(Debug)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The fields, names in lower case, without those about the connection.
    pub headers: Headers,
    /// Bytes of the body, where the server announced them.
    pub length: Option<u64>,
    /// The body.
    pub body: Answer,
}

impl Response {
    /// The codings of the body, where it is compressed although `identity` was asked for. It is passed on as it is,
    /// with its `Content-Encoding`: the client can decode it as it would have without us.
    #[must_use]
    pub fn codings(&self) -> Vec<String> {
        let fields = self.headers.all("content-encoding").map(String::from_utf8_lossy);
        let words: Vec<String> = fields
            .flat_map(|field| {
                field.split(',').map(|word| word.trim().to_ascii_lowercase()).collect::<Vec<_>>()
            })
            .collect();
        words.into_iter().filter(|word| !matches!(word.as_str(), "" | "identity")).collect()
    }
}

/// The body of an answer. A read returns what is there, as it comes, and waits without a limit for more; an end that
/// is too early is an error. Dropping it closes the connection unless the body was read to its end.
pub struct Answer {
    /// There until it is dropped.
    reader: Option<BodyReader<'static>>,
    patience: Option<Patience>,
    slot: Arc<Slot>,
}

impl fmt::Debug for Answer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Answer").finish_non_exhaustive()
    }
}

impl Answer {
    /// A handle that breaks the exchange off.
    #[must_use]
    pub fn canceller(&self) -> Cancel {
        Cancel(Arc::clone(&self.slot))
    }

    /// Reads what has come already, without waiting for more; `None` where that is nothing.
    ///
    /// # Errors
    ///
    /// As for any read.
    pub fn read_ready(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let (Some(reader), Some(patience)) = (&mut self.reader, &self.patience) else { return Ok(None) };
        match patience.without(|| reader.read(into)) {
            Ok(length) => Ok(Some(length)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error),
        }
    }
}

impl Read for Answer {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.reader.as_mut().map_or(Ok(0), |reader| reader.read(into))
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        // The connection goes back to its agent, or is closed, before the agent is free for others.
        drop(self.reader.take());
        self.slot.release();
    }
}

#[cfg(test)]
#[path = "client_tests.rs"]
mod tests;
