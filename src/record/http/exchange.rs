//! One request and all that comes back on it.

use std::borrow::Cow;
use std::io::Read as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, PoisonError};

use super::super::From;
use super::Shared;
use super::book::Place;
use super::facts::{self, Facts};
use super::item::{End, Item};
use super::rewrite;
use crate::http::Headers;
use crate::http::client::{Answer, Lane, Response, SendError};
use crate::http::server::Request;
use crate::http::sse::{Event, Parser};
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::string;

/// One read from the server.
const BUFFER: usize = 16 << 10;
/// A larger answer is passed on and not kept, which the cassette says.
const LARGEST_KEPT: usize = 256 << 20;
/// A larger text that is not JSON, such as a page about an error, is not kept.
const LARGEST_TEXT: usize = 64 << 10;
/// Larger metadata is passed on as it is.
const LARGEST_METADATA: u64 = 1 << 20;
/// The error of a request that got no answer since the server is not there. Never in a cassette.
const UNREACHABLE: i32 = -31004;

/// Counts a request as running.
struct Busy<'a>(&'a Shared);

impl<'a> Busy<'a> {
    fn new(shared: &'a Shared) -> Self {
        shared.running.fetch_add(1, Ordering::SeqCst);
        Self(shared)
    }
}

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Answers a request.
pub(super) fn handle(shared: &Shared, lane: &Lane, mut request: Request<'_>) {
    let _busy = Busy::new(shared);
    if let Err(forbidden) = shared.guard.check(request.target(), request.headers()) {
        return refuse(request, 403, forbidden.why());
    }
    let Some(target) = shared.mapping.upstream(request.target()) else {
        return refuse(request, 404, "not found; the URL that mcpreel told has a path");
    };
    let body = match request.read_body() {
        Ok(body) => body,
        Err(refusal) => return request.refuse(refusal),
    };
    let has_body = !body.is_empty() || request.headers().get("content-length").is_some();
    let exchange = Exchange::begin(shared, &request, &target, &body);
    exchange.serve(lane, request, &target, has_body.then_some(body));
}

fn refuse(request: Request<'_>, status: u16, why: &str) {
    let headers = Headers::new().with("content-type", "text/plain; charset=utf-8");
    let _ = request.respond(status, &headers, format!("{why}\n").as_bytes());
}

struct Exchange<'a> {
    shared: &'a Shared,
    /// Under which name the client came.
    host: String,
    place: Place,
    number: u32,
    session: u32,
    scope: u32,
    get: bool,
    /// A session id that was not known when the request came.
    unknown: Option<Vec<u8>>,
    /// The client can come back for the rest.
    resumable: bool,
    left: Arc<AtomicBool>,
}

impl<'a> Exchange<'a> {
    /// Numbers a request and queues it.
    fn begin(shared: &'a Shared, request: &Request<'_>, target: &str, body: &[u8]) -> Self {
        let (headers, method) = (request.headers(), request.method());
        let mut book = shared.book();
        let place = book.place(target, shared.mapping.address().path());
        let id = headers.get("mcp-session-id");
        let known = id.and_then(|id| book.known_session(id));
        let mut session = known.unwrap_or(0);
        let resumed = headers.get("last-event-id").filter(|_| method == "GET");
        let resumed = resumed.and_then(|id| book.seen(session, id));
        let number = resumed.map_or_else(|| book.exchange(), |seen| seen.exchange);
        drop(book);
        let mut scope = number;
        if let Place::Announced(announced) = place
            && method == "POST"
        {
            (session, scope) = (announced.session, announced.exchange);
        }
        let speaks = !matches!(place, Place::Metadata | Place::Other);
        let exchange = Self {
            shared,
            host: headers.text("host").unwrap_or_default().to_owned(),
            place,
            number,
            session,
            scope,
            get: speaks && method == "GET" && resumed.is_none_or(|seen| seen.get),
            unknown: id.filter(|_| speaks && known.is_none()).map(<[u8]>::to_vec),
            resumable: resumed.is_some(),
            left: Arc::default(),
        };
        let path = target.split(['?', '#']).next();
        let mut facts = match place {
            Place::Endpoint => Facts::of_request(method, None, headers),
            // Its answers come elsewhere, so what would be accepted here says nothing.
            Place::Announced(_) => Facts::of_request(method, None, &Headers::new()),
            Place::Moved => Facts::of_request(method, path, headers),
            Place::Metadata | Place::Other => Facts::of_request(method, path, &Headers::new()),
        };
        if let Some(seen) = resumed {
            facts.number("last-event-id", seen.ordinal.into());
        }
        let mirrors = if speaks { facts::mirrors(headers) } else { String::new() };
        shared.push(&Item {
            scope: exchange.scope,
            facts: facts.as_str(),
            mirrors: &mirrors,
            body: (speaks && !body.is_empty()).then_some(body),
            ..Item::of(From::Client, number, session)
        });
        exchange
    }

    fn speaks(&self) -> bool {
        !matches!(self.place, Place::Metadata | Place::Other)
    }

    /// Queues a record of the server.
    fn record(&self, facts: &Facts, body: Option<&[u8]>, whole: bool) {
        self.shared.push(&Item {
            scope: self.scope,
            get: self.get,
            whole,
            facts: facts.as_str(),
            body,
            ..Item::of(From::Server, self.number, self.session)
        });
    }

    /// Queues how it ended.
    fn end(&self, end: End) {
        self.shared.push(&Item {
            scope: self.scope,
            get: self.get,
            whole: !self.resumable,
            end: Some(end),
            ..Item::of(From::Server, self.number, self.session)
        });
    }

    /// The end of an exchange whose server has stopped in the middle.
    fn broken(&self) {
        let left = self.left.load(Ordering::SeqCst);
        self.end(if left { End::ClientClosed } else { End::Cut });
    }

    fn serve(mut self, lane: &Lane, request: Request<'_>, target: &str, body: Option<Vec<u8>>) {
        let sending = lane.exchange();
        let (cancel, left) = (sending.canceller(), Arc::clone(&self.left));
        // Where there is no room for a watch, a client that has left is seen by the next write.
        let _watch = request.watch(move || {
            left.store(true, Ordering::SeqCst);
            cancel.cancel();
        });
        match sending.send(request.method(), target, request.headers(), body.as_deref()) {
            Ok(response) => {
                // A stream may stay open for hours.
                drop(body);
                self.answer(request, response);
            }
            Err(SendError::Cancelled) => {
                self.end(End::ClientClosed);
                request.close();
            }
            // As it would be without us: the connection ends before an answer.
            Err(SendError::Broken(_) | SendError::Unreadable(_)) => {
                self.broken();
                request.close();
            }
            Err(SendError::Unreachable(why)) => {
                self.end(End::Cut);
                self.tell_unreachable(&why);
                decline(request, 502, &format!("the server cannot be reached: {why}"), body.as_deref());
            }
            // Its words may repeat the target.
            Err(SendError::Request(_)) => {
                self.end(End::Cut);
                decline(request, 400, "this request cannot be passed on", body.as_deref());
            }
        }
    }

    fn tell_unreachable(&self, why: &str) {
        let mut last = self.unreachable();
        if last.is_none() {
            self.shared.note(&format!("the server cannot be reached: {why}"));
        }
        *last = Some(why.to_owned());
    }

    fn unreachable(&self) -> MutexGuard<'_, Option<String>> {
        self.shared.unreachable.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn answer(&mut self, request: Request<'_>, response: Response) {
        self.shared.reached.store(true, Ordering::SeqCst);
        *self.unreachable() = None;
        let readable = response.codings().is_empty();
        let Response { status, headers, length, body } = response;
        self.learn(status, &headers);
        // A server may send its clients on with the query that they came with, and that may hold a key.
        let plain = self.speaks() && self.shared.mapping.address().query().is_none();
        let facts = Facts::of_answer(status, &headers, plain);
        let local = rewrite::headers(&headers, &self.shared.mapping, &self.host);
        let kind = facts::kind(&headers);
        let outgoing = Outgoing { status, headers: &local, length };
        let short = length.is_none_or(|length| length < LARGEST_METADATA);
        if self.place == Place::Metadata && status == 200 && readable && short {
            self.metadata(request, &outgoing, body, &facts);
        } else if self.speaks() && readable && kind.as_deref() == Some("sse") {
            self.stream(request, &outgoing, body, facts);
        } else {
            // A refused stream is none.
            self.get = false;
            let keeps = match kind.as_deref() {
                // Who may not come in gets a page or an error of the authorization, and some servers put a word of
                // confirmation under a 202: no answers to the request.
                _ if !readable || !self.speaks() || matches!(status, 202 | 401 | 403) => 0,
                Some("json") => LARGEST_KEPT,
                _ => LARGEST_TEXT,
            };
            self.whole(request, &outgoing, body, &facts, keeps);
        }
    }

    /// Takes from the head of an answer what later requests refer to.
    fn learn(&mut self, status: u16, headers: &Headers) {
        let shared = self.shared;
        if self.speaks() {
            let issued = headers.get("mcp-session-id");
            let accepted = self.unknown.as_deref().filter(|_| (200..300).contains(&status));
            if let Some(id) = issued.or(accepted) {
                self.session = shared.book().session(id);
            }
            let moved = headers.text("location").filter(|_| (300..400).contains(&status));
            if let Some(target) = moved.and_then(|location| shared.mapping.target_of(location)) {
                shared.book().moved(&target);
            }
        }
        let challenge = headers.text("www-authenticate");
        let named = challenge.and_then(rewrite::metadata_in).map(|(_, url)| url);
        if let Some(target) = named.and_then(|url| shared.mapping.target_of(url)) {
            shared.book().metadata(&target);
        }
        if status == 401 && !shared.asked_for_authorization.swap(true, Ordering::SeqCst) {
            shared.note(
                "the server asks for authorization; where the client's own sign-in does not come through \
                 a proxy, --header-env Authorization=VARIABLE sends a credential",
            );
        }
    }

    /// An answer with one body.
    fn whole(
        &self,
        request: Request<'_>,
        outgoing: &Outgoing<'_>,
        mut body: Answer,
        facts: &Facts,
        keeps: usize,
    ) {
        let mut buffer = vec![0; BUFFER];
        let mut kept = Kept { bytes: Vec::new(), limit: keeps };
        let mut held = Vec::new();
        // A body of known length comes with its head or soon after, and mostly goes out with it in one piece.
        if outgoing.length.is_some() {
            match body.read(&mut buffer) {
                Ok(length) => held.extend_from_slice(buffer.get(..length).unwrap_or_default()),
                Err(_) => {
                    self.record(facts, None, false);
                    self.broken();
                    return drop(outgoing.begin(request));
                }
            }
            kept.add(&held);
            if held.is_empty() || outgoing.length == Some(held.len() as u64) {
                self.record(facts, kept.body(), true);
                drop(request.respond(outgoing.status, outgoing.headers, &held));
                // Only a body that was read to its end leaves the connection for the next request.
                let _ = body.read_ready(&mut buffer);
                return;
            }
        }
        let Ok(mut out) = outgoing.begin(request) else {
            self.record(facts, None, false);
            return self.end(End::ClientClosed);
        };
        loop {
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    kept.add(bytes);
                    // The last piece goes out after the record is queued, so one is always held back.
                    if !held.is_empty() && out.send(&held).is_err() {
                        self.record(facts, None, false);
                        return self.end(End::ClientClosed);
                    }
                    held.clear();
                    held.extend_from_slice(bytes);
                }
                Err(_) => {
                    self.record(facts, None, false);
                    self.broken();
                    // Dropped unfinished, it cuts the client off as we were.
                    return drop(out.send(&held));
                }
            }
        }
        if kept.limit == 0 && keeps == LARGEST_KEPT {
            self.record(facts, None, false);
            self.end(End::NotKept);
            self.shared.note(&format!(
                "an answer of more than {} MiB was passed on and is not in the cassette; a replay of its request is a miss",
                LARGEST_KEPT >> 20
            ));
        } else {
            self.record(facts, kept.body(), true);
        }
        if held.is_empty() || out.send(&held).is_ok() {
            let _ = out.finish();
        }
    }

    /// A description that names the server as the resource.
    fn metadata(&self, request: Request<'_>, outgoing: &Outgoing<'_>, body: Answer, facts: &Facts) {
        let mut text = Vec::new();
        let mut body = body.take(LARGEST_METADATA);
        if body.read_to_end(&mut text).is_err() || text.len() as u64 == LARGEST_METADATA {
            self.record(facts, None, true);
            return request.close();
        }
        let local = rewrite::metadata(&text, &self.shared.mapping, &self.host);
        self.record(facts, None, true);
        drop(request.respond(outgoing.status, outgoing.headers, local.as_deref().unwrap_or(&text)));
    }

    /// A stream of events, each passed on as soon as it is complete.
    fn stream(&mut self, request: Request<'_>, outgoing: &Outgoing<'_>, mut body: Answer, mut facts: Facts) {
        // A standalone stream may be silent for as long as it is there.
        if self.get {
            self.record(&facts.take(), None, false);
        }
        let unbounded = Outgoing { length: None, ..*outgoing };
        let Ok(mut out) = unbounded.begin(request) else {
            self.close_stream(&facts, End::ClientClosed);
            return;
        };
        let (mut parser, mut events) = (Parser::new(), Vec::new());
        let mut buffer = vec![0; BUFFER];
        loop {
            match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => parser.push(buffer.get(..length).unwrap_or_default(), &mut events),
                Err(_) => {
                    let left = self.left.load(Ordering::SeqCst);
                    self.close_stream(&facts, if left { End::ClientClosed } else { End::Cut });
                    // Half an event came through without us, too. Dropped unfinished, it cuts the client off.
                    return drop(out.send(parser.pending()));
                }
            }
            for event in events.drain(..) {
                if out.send(&self.event(&event, &mut facts)).is_err() {
                    self.close_stream(&facts, End::ClientClosed);
                    return;
                }
            }
        }
        let rest = parser.finish();
        let last = rest.event.map(|event| self.event(&event, &mut facts).into_owned()).unwrap_or_default();
        self.close_stream(&facts, End::Finished);
        if [&last, &rest.tail].iter().all(|bytes| bytes.is_empty() || out.send(bytes).is_ok()) {
            let _ = out.finish();
        }
    }

    fn close_stream(&self, facts: &Facts, end: End) {
        if !facts.as_str().is_empty() {
            self.record(facts, None, false);
        }
        self.end(end);
        if self.get {
            self.shared.book().withdraw(self.number);
        }
    }

    /// Queues an event, and gives the bytes to be passed on.
    fn event<'e>(&mut self, event: &'e Event, facts: &mut Facts) -> Cow<'e, [u8]> {
        let raw = Cow::Borrowed(event.raw());
        let data = event.data().filter(|data| !data.is_empty());
        if event.kind() == b"endpoint" && self.get {
            return data.and_then(|data| self.announced(event, data)).map_or(raw, Cow::Owned);
        }
        let id = event.id().filter(|id| !id.is_empty());
        let ordinal = id.map(|id| self.shared.book().event(self.session, self.number, self.get, id));
        self.resumable |= ordinal.is_some();
        if data.is_none() && ordinal.is_none() && event.retry().is_none() {
            return raw;
        }
        let mut facts = facts.take();
        for (name, value) in [("event", ordinal.map(u64::from)), ("retry", event.retry())] {
            if let Some(value) = value {
                facts.number(name, value);
            }
        }
        // Clients act on messages only; what a server calls otherwise has no place in a cassette.
        self.record(&facts, data.filter(|_| event.kind() == b"message"), false);
        raw
    }

    /// HTTP+SSE (2024-11-05): the stream says where to send requests, and a session begins.
    fn announced(&mut self, event: &Event, endpoint: &[u8]) -> Option<Vec<u8>> {
        let target = self.shared.mapping.target_of(std::str::from_utf8(endpoint).ok()?)?;
        self.session = self.shared.book().announce(&target, self.number);
        rewrite::endpoint(event.raw(), endpoint, &self.shared.mapping, &self.host)
    }
}

/// The head of an answer on its way to the client.
#[derive(Clone, Copy)]
struct Outgoing<'h> {
    status: u16,
    headers: &'h Headers,
    length: Option<u64>,
}

impl Outgoing<'_> {
    fn begin<'c>(&self, request: Request<'c>) -> std::io::Result<crate::http::server::Stream<'c>> {
        request.into_writer(self.status, self.headers, self.length)
    }
}

/// A copy of a body, up to a limit.
struct Kept {
    bytes: Vec<u8>,
    limit: usize,
}

impl Kept {
    fn add(&mut self, bytes: &[u8]) {
        if self.bytes.len() + bytes.len() <= self.limit {
            self.bytes.extend_from_slice(bytes);
        } else {
            (self.bytes, self.limit) = (Vec::new(), 0);
        }
    }

    fn body(&self) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(&self.bytes)
    }
}

/// Answers for a server that gave no answer.
fn decline(request: Request<'_>, status: u16, why: &str, body: Option<&[u8]>) {
    let text = body.and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default();
    let view = View::of(text).ok().filter(|view| view.shape == Shape::Request);
    let id = view.and_then(|view| view.id).map_or("null", |id| id.of(text));
    let message = string::encode(&format!("mcpreel: {why}"));
    let answer =
        format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{UNREACHABLE},"message":{message}}}}}"#);
    let headers = Headers::new().with("content-type", "application/json");
    let _ = request.respond(status, &headers, answer.as_bytes());
}
