//! One request and all that comes back on it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{MutexGuard, PoisonError};

use super::super::From;
use super::Shared;
use super::book::Place;
use super::coding::Reader;
use super::facts::{self, Facts};
use super::item::{End, Item};
use super::rewrite;
use crate::http::Headers;
use crate::http::client::{Answer, Lane, Response, SendError};
use crate::http::server::Request;
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::string;
use crate::mcp::code;
use crate::mcp::headers::{LAST_EVENT, SESSION};

/// One read from the server.
pub(super) const BUFFER: usize = 16 << 10;
/// A larger answer is passed on and not kept, which the cassette says.
pub(super) const LARGEST_KEPT: usize = 256 << 20;
/// A larger text that is not JSON, such as a page about an error, is not kept.
const LARGEST_TEXT: usize = 64 << 10;
/// Larger metadata is passed on as it is.
pub(super) const LARGEST_METADATA: u64 = 1 << 20;

/// Answers a request.
pub(super) fn handle(shared: &Shared, lane: &Lane, mut request: Request<'_>) {
    let _busy = shared.idle.busy();
    if let Err(forbidden) = shared.guard.check(request.target(), request.headers()) {
        return refuse(request, 403, forbidden.why());
    }
    // `*` is about the server as a whole, and behind an authority it would not even be that (RFC 9112, section 3.2.4).
    if !request.target().starts_with('/') {
        return refuse(request, 400, "the target of a request is to be a path");
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
    exchange.serve(lane, request, has_body.then_some(body));
}

fn refuse(request: Request<'_>, status: u16, why: &str) {
    let headers = Headers::new().with("content-type", "text/plain; charset=utf-8");
    let _ = request.respond(status, &headers, format!("{why}\n").as_bytes());
}

pub(super) struct Exchange<'a> {
    pub(super) shared: &'a Shared,
    /// Under which name the client came.
    pub(super) host: String,
    /// The target at the server.
    pub(super) target: String,
    pub(super) place: Place,
    pub(super) number: u32,
    pub(super) session: u32,
    scope: u32,
    /// It is a standalone stream.
    pub(super) get: bool,
    /// The stream of a GET may announce where to send requests.
    pub(super) may_announce: bool,
    /// A session id that was not known when the request came.
    unknown: Option<Vec<u8>>,
    /// The client can come back for the rest.
    pub(super) resumable: bool,
    left: Arc<AtomicBool>,
}

impl<'a> Exchange<'a> {
    /// Numbers a request and queues it.
    fn begin(shared: &'a Shared, request: &Request<'_>, target: &str, body: &[u8]) -> Self {
        let (headers, method) = (request.headers(), request.method());
        let mut book = shared.book();
        let place = book.place(target, shared.mapping.address().path());
        let id = headers.get(SESSION);
        let known = id.and_then(|id| book.known_session(id));
        let mut session = known.unwrap_or(0);
        let resumed = headers.get(LAST_EVENT).filter(|_| method == "GET");
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
            target: target.to_owned(),
            place,
            number,
            session,
            scope,
            get: speaks && method == "GET" && resumed.is_none_or(|seen| seen.get),
            may_announce: method == "GET" && resumed.is_none(),
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
            facts.number(LAST_EVENT, seen.ordinal.into());
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

    /// Whether its bodies are messages.
    pub(super) fn speaks(&self) -> bool {
        !matches!(self.place, Place::Metadata | Place::Other)
    }

    /// Queues a record of the server.
    pub(super) fn record(&self, facts: &Facts, body: Option<&[u8]>, whole: bool) {
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
    pub(super) fn end(&self, end: End) {
        self.shared.push(&Item {
            scope: self.scope,
            get: self.get,
            whole: !self.resumable,
            end: Some(end),
            ..Item::of(From::Server, self.number, self.session)
        });
    }

    /// What it means that the client is gone: where we are ending, it has not left, and nobody was answered.
    pub(super) fn gone(&self) -> End {
        if self.shared.ending.load(Ordering::SeqCst) { End::RecorderEnded } else { End::ClientClosed }
    }

    /// What it means that the server has stopped in the middle.
    pub(super) fn broken(&self) -> End {
        if self.left.load(Ordering::SeqCst) { self.gone() } else { End::Cut }
    }

    fn serve(mut self, lane: &Lane, request: Request<'_>, body: Option<Vec<u8>>) {
        let sending = lane.exchange();
        let (cancel, left) = (sending.canceller(), Arc::clone(&self.left));
        // Where there is no room for a watch, a client that has left is seen by the next write.
        let _watch = request.watch(move || {
            left.store(true, Ordering::SeqCst);
            cancel.cancel();
        });
        match sending.send(request.method(), &self.target, request.headers(), body.as_deref()) {
            Ok(response) if response.status < 200 => {
                // It speaks something else from here on, so nobody may use the connection again.
                response.body.canceller().cancel();
                let why = format!("the server changes the protocol (status {})", response.status);
                self.unusable(request, &why, body.as_deref());
            }
            Ok(response) => {
                // A stream may stay open for hours.
                drop(body);
                self.answer(request, response);
            }
            Err(SendError::Cancelled) => {
                self.end(self.gone());
                request.close();
            }
            // As it would be without us: the connection ends before an answer.
            Err(SendError::Broken(_)) => {
                self.end(self.broken());
                request.close();
            }
            Err(SendError::Unreadable(why)) => {
                let why = format!("the head of the server's answer cannot be read: {why}");
                self.unusable(request, &why, body.as_deref());
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

    /// The server has said something that cannot be passed on.
    fn unusable(&self, request: Request<'_>, why: &str, body: Option<&[u8]>) {
        self.reached();
        self.end(End::Cut);
        self.shared.note_once(why);
        decline(request, 502, why, body);
    }

    fn reached(&self) {
        self.shared.reached.store(true, Ordering::SeqCst);
        *self.unreachable() = None;
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
        self.reached();
        let codings = response.codings();
        let Response { status, headers, length, body } = response;
        self.learn(status, &headers);
        // A server may send its clients on with the query that they came with, and that may hold a key.
        let plain = self.speaks() && self.shared.mapping.address().query().is_none();
        let facts = Facts::of_answer(status, &headers, plain);
        let local = rewrite::headers(&headers, &self.shared.mapping, &self.host);
        let kind = facts::kind(&headers);
        let outgoing = Outgoing { status, headers: &local, length };
        let short = length.is_none_or(|length| length < LARGEST_METADATA);
        let body = Coming { answer: body, reader: Reader::of(&codings), coding: codings.join(", ") };
        if self.place == Place::Metadata && status == 200 && codings.is_empty() && short {
            self.metadata(request, &outgoing, body.answer, &facts);
        } else if kind.as_deref() == Some("sse") {
            self.stream(request, &outgoing, body, facts);
        } else {
            // A refused stream is none.
            self.get = false;
            let keeps = match kind.as_deref() {
                // Who is asked to sign in gets an error of the authorization.
                _ if !self.speaks() || status == 401 => 0,
                Some("json") => LARGEST_KEPT,
                // Some servers put a word of confirmation under a 202, and who may not come in gets a page: no answers
                // to the request.
                _ if matches!(status, 202 | 403) => 0,
                _ => LARGEST_TEXT,
            };
            self.whole(request, &outgoing, body, &facts, keeps);
        }
    }

    /// Tells of a body that was passed on unread.
    pub(super) fn tell_coding(&self, coding: &str) {
        self.shared.note_once(&format!(
            "an answer in the content coding {coding} cannot be read: it was passed on and is not in the cassette; a replay \
             of its request is a miss"
        ));
    }

    /// Takes from the head of an answer what later requests refer to.
    fn learn(&mut self, status: u16, headers: &Headers) {
        let shared = self.shared;
        if self.speaks() {
            let issued = headers.get(SESSION);
            let accepted = self.unknown.as_deref().filter(|_| (200..300).contains(&status));
            if let Some(id) = issued.or(accepted) {
                self.session = shared.book().session(id);
            }
            let moved = headers.text("location").filter(|_| (300..400).contains(&status));
            if let Some(target) = moved.and_then(|location| shared.mapping.target_of(location, &self.target))
            {
                shared.book().moved(&target);
            }
        }
        let challenge = headers.text("www-authenticate");
        let named = challenge.and_then(rewrite::metadata_in).map(|(_, url)| url);
        if let Some(target) = named.and_then(|url| shared.mapping.target_of(url, &self.target)) {
            shared.book().metadata(&target);
        }
        if status == 401 && !shared.asked_for_authorization.swap(true, Ordering::SeqCst) {
            shared.note(
                "the server asks for authorization; where the client's own sign-in does not come through \
                 a proxy, --header-env Authorization=VARIABLE sends a credential",
            );
        }
    }
}

/// The body of an answer on its way from the server.
pub(super) struct Coming {
    pub(super) answer: Answer,
    /// Reads it for the cassette; `None`: it is in a coding that cannot be read here.
    pub(super) reader: Option<Reader>,
    /// The name of the coding.
    pub(super) coding: String,
}

/// The head of an answer on its way to the client.
#[derive(Clone, Copy)]
pub(super) struct Outgoing<'h> {
    pub(super) status: u16,
    pub(super) headers: &'h Headers,
    pub(super) length: Option<u64>,
}

impl Outgoing<'_> {
    pub(super) fn begin<'c>(&self, request: Request<'c>) -> std::io::Result<crate::http::server::Stream<'c>> {
        request.into_writer(self.status, self.headers, self.length)
    }
}

/// Answers for a server that gave no answer.
fn decline(request: Request<'_>, status: u16, why: &str, body: Option<&[u8]>) {
    let text = body.and_then(|body| std::str::from_utf8(body).ok()).unwrap_or_default();
    let view = View::of(text).ok().filter(|view| view.shape == Shape::Request);
    let id = view.and_then(|view| view.id).map_or("null", |id| id.of(text));
    let message = string::encode(&format!("mcpreel: {why}"));
    let answer = format!(
        r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{},"message":{message}}}}}"#,
        code::UNREACHABLE
    );
    let headers = Headers::new().with("content-type", "application/json");
    let _ = request.respond(status, &headers, answer.as_bytes());
}
