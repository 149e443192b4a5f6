//! What an endpoint answers to: paths and verbs, who may talk to it, and how a body gets to the player.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_channel::{Sender, unbounded};

use super::behind::LiveServer;
use super::checks::{self, Refused, accepts};
use super::hub::{Command, Event, Fields};
use super::paths::Spot;
use super::reply::{Asked, Reply};
use super::sessions::session_of;
use super::stage::Stage;
use super::{Offer, refusals, relay};
use crate::http::Headers;
use crate::http::guard::Guard;
use crate::http::server::Request;
use crate::jsonrpc::message::{Shape, View};
use crate::mcp::{Era, code, headers};
use crate::replay::key::Keys;
use crate::replay::refused::Refusal;

pub(super) struct Endpoint {
    pub(super) offer: Arc<Offer>,
    pub(super) guard: Guard,
    pub(super) stage: Arc<Stage>,
    pub(super) keys: Keys,
    pub(super) carriers: AtomicU64,
    /// The live server behind, where there is one.
    pub(super) live: Option<Arc<LiveServer>>,
}

const JSON: &str = "application/json";
const SSE: &str = "text/event-stream";

impl Endpoint {
    /// Answers one request. Errors of writing mean that the client is gone, which is its own affair.
    pub(super) fn handle(&self, request: Request<'_>) {
        let _ = self.route(request);
    }

    fn route(&self, request: Request<'_>) -> io::Result<()> {
        let common = self.common(request.headers());
        if let Err(forbidden) = self.guard.check(request.target(), request.headers()) {
            let refused = Refused::new(403, "null", code::INVALID_REQUEST, forbidden.why());
            self.stage.take(Command::Warn(forbidden.why()));
            return self.answer(request, common).refuse(&refused);
        }
        let spot = match &self.live {
            Some(live) => match request.path().strip_prefix(&live.own_prefix) {
                Some(path) if path == live.path => Spot::Endpoint,
                // What else the server has, such as where to sign in, has to be found here too.
                Some(_) => return relay::relay(live, request, &common),
                None => return self.status(request, common, 404),
            },
            None => self.offer.paths.at(request.path()),
        };
        match (request.method(), spot) {
            ("OPTIONS", _) => self.preflight(request, common),
            ("POST", Spot::Endpoint) => self.post(request, common),
            ("GET", Spot::Endpoint) => self.get(request, common),
            ("DELETE", Spot::Endpoint) => self.delete(request, common),
            ("GET", Spot::Stream) => self.open_old(request, common),
            ("POST", Spot::Post) => self.post_old(request, common),
            ("POST", Spot::Stream) => self.astray(request, common, 405),
            ("POST", Spot::Nothing) => self.astray(request, common, 404),
            (_, Spot::Endpoint | Spot::Stream) => self.status(request, common, 405),
            (_, Spot::Post | Spot::Nothing) => self.status(request, common, 404),
        }
    }

    /// Only an origin that was allowed by name may read answers from a page.
    fn common(&self, fields: &Headers) -> Headers {
        match self.guard.allowed_origin(fields) {
            Some(origin) => Headers::new()
                .with("Access-Control-Allow-Origin", origin)
                .with("Access-Control-Expose-Headers", "Mcp-Session-Id")
                .with("Vary", "Origin"),
            None => Headers::new(),
        }
    }

    fn asked(request: &Request<'_>) -> Asked {
        Asked {
            era: Era::Legacy,
            batch: false,
            accepts_sse: accepts(request.headers(), SSE),
            accepts_json: accepts(request.headers(), JSON),
        }
    }

    fn answer<'c>(&self, request: Request<'c>, common: Headers) -> Reply<'c, '_> {
        let asked = Self::asked(&request);
        Reply::new(request, &self.offer, asked, common)
    }

    fn status(&self, request: Request<'_>, common: Headers, status: u16) -> io::Result<()> {
        let fields = match status {
            405 => Headers::new().with("Allow", self.offer.allow()),
            _ => Headers::new(),
        };
        self.answer(request, common).respond(status, &fields, b"")
    }

    fn preflight(&self, request: Request<'_>, common: Headers) -> io::Result<()> {
        if common.is_empty() {
            return self.status(request, common, 405);
        }
        let mut fields = Headers::new()
            .with("Access-Control-Allow-Methods", "GET, POST, DELETE")
            .with("Access-Control-Max-Age", "600");
        if let Some(wanted) = request.headers().get("access-control-request-headers") {
            fields.push("Access-Control-Allow-Headers", wanted);
        }
        self.answer(request, common).respond(204, &fields, b"")
    }

    /// What the live server will need of a request's head.
    fn fields(&self, fields: &Headers) -> Fields {
        self.live.as_ref().map(|_| Arc::new(fields.clone()))
    }

    fn carrier(&self) -> u64 {
        self.carriers.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// Has a command of a carrier played and sends what comes of it. A client that leaves meanwhile is the player's to
    /// know, and so is one that does not take its answer to the end: the player need not go on for it.
    fn play(
        &self,
        mut reply: Reply<'_, '_>,
        carrier: u64,
        command: impl FnOnce(Sender<Vec<Event>>) -> Command,
    ) -> io::Result<()> {
        let (events, incoming) = unbounded();
        let (stage, writer) = (Arc::clone(&self.stage), events.clone());
        if !self.stage.take(command(events)) {
            let _ = writer.send(vec![Event::Closing]);
        }
        let gone = move || {
            stage.take(Command::Left { carrier });
            let _ = writer.send(vec![Event::Gone]);
        };
        let played = reply.play(&incoming, gone);
        if played.is_err() {
            self.stage.take(Command::Left { carrier });
        }
        played
    }

    /// The same with a command that is answered at once.
    fn play_at_once(
        &self,
        mut reply: Reply<'_, '_>,
        command: impl FnOnce(Sender<Vec<Event>>) -> Command,
    ) -> io::Result<()> {
        let (events, incoming) = unbounded();
        self.stage.take(command(events));
        reply.play(&incoming, || {})
    }

    fn post(&self, mut request: Request<'_>, common: Headers) -> io::Result<()> {
        let kind = request.headers().text("content-type").unwrap_or(JSON);
        let kind = kind.split(';').next().unwrap_or_default().trim();
        if !kind.eq_ignore_ascii_case(JSON) {
            // What a page can send without asking is not JSON.
            return self.refuse_body(request, common, 415, refusals::of_type());
        }
        let body = match request.read_body() {
            Ok(body) => body,
            Err(refusal) => {
                request.refuse(refusal);
                return Ok(());
            }
        };
        let mut asked = Self::asked(&request);
        let text = checks::text_of(body);
        let sorted = text.as_ref().map_err(Clone::clone);
        let sorted = sorted.and_then(|text| checks::sort(request.headers(), text, &self.offer));
        let text = text.unwrap_or_default();
        let incoming = match sorted {
            Ok(incoming) => incoming,
            Err(refused) => {
                self.stage.take(match refused.code {
                    code::PARSE => Command::Warn("a client sent a body that is not JSON"),
                    _ => Command::Refused { body: text.into_bytes(), refusal: refusals::of_rule(&refused) },
                });
                return Reply::new(request, &self.offer, asked, common).refuse(&refused);
            }
        };
        if incoming.dropped {
            return self.status(request, common, 202);
        }
        (asked.era, asked.batch) = (incoming.era, incoming.batch);
        let (carrier, session) = (self.carrier(), session_of(request.headers()));
        let connection = request.connection();
        let fields = self.fields(request.headers());
        // Here, and not where only one request is looked at at a time.
        let key = self.keys.of(&text, &incoming.view);
        let takes_all = asked.accepts_sse;
        let mut reply = Reply::new(request, &self.offer, asked, common);
        if !takes_all {
            let (stage, body) = (&self.stage, text.clone().into_bytes());
            reply.unacceptable = Some(Box::new(move |answers| {
                stage.take(Command::Unacceptable { carrier, body, answers });
            }));
        }
        self.play(reply, carrier, |events| Command::Post {
            carrier,
            connection,
            session,
            incoming,
            text,
            key,
            fields,
            events,
        })
    }

    /// A post to where nothing takes messages. Clients of both transports try an `initialize` where a stream is.
    fn astray(&self, request: Request<'_>, common: Headers, status: u16) -> io::Result<()> {
        let refusal = refusals::of_path(&self.offer.paths.announced);
        self.refuse_body(request, common, status, refusal)
    }

    /// Answers with a status to a body whose requests are refused.
    fn refuse_body(
        &self,
        mut request: Request<'_>,
        common: Headers,
        status: u16,
        refusal: Refusal,
    ) -> io::Result<()> {
        match request.read_body() {
            Ok(body) if status == 405 && is_initialize(&body) => {}
            Ok(body) => drop(self.stage.take(Command::Refused { body, refusal })),
            Err(refusal) => {
                request.refuse(refusal);
                return Ok(());
            }
        }
        self.status(request, common, status)
    }

    fn get(&self, request: Request<'_>, common: Headers) -> io::Result<()> {
        let fields = request.headers();
        let modern = fields.text(headers::VERSION).is_some_and(|version| !self.offer.is_legacy(version));
        if !self.offer.legacy || modern {
            return self.status(request, common, 405);
        }
        if !accepts(fields, SSE) {
            return self.status(request, common, 406);
        }
        let (carrier, session) = (self.carrier(), session_of(fields));
        let last = fields.text(headers::LAST_EVENT).map(str::to_owned);
        let kept = self.fields(fields);
        self.play(self.answer(request, common), carrier, |events| Command::Open {
            carrier,
            session,
            last,
            fields: kept,
            events,
        })
    }

    fn delete(&self, request: Request<'_>, common: Headers) -> io::Result<()> {
        let modern = request.headers().text(headers::VERSION);
        if !self.offer.legacy || modern.is_some_and(|version| !self.offer.is_legacy(version)) {
            return self.status(request, common, 405);
        }
        let (fields, session) = (self.fields(request.headers()), session_of(request.headers()));
        self.play_at_once(self.answer(request, common), |events| Command::Delete { session, fields, events })
    }

    fn open_old(&self, request: Request<'_>, common: Headers) -> io::Result<()> {
        let carrier = self.carrier();
        self.play(self.answer(request, common), carrier, |events| Command::OpenOld { carrier, events })
    }

    fn post_old(&self, mut request: Request<'_>, common: Headers) -> io::Result<()> {
        let query = request.target().split_once('?').map_or("", |(_, query)| query);
        let session = query.split('&').find_map(|pair| pair.strip_prefix("session_id=")).map(str::to_owned);
        let connection = request.connection();
        let body = match request.read_body() {
            Ok(body) => body,
            Err(refusal) => {
                request.refuse(refusal);
                return Ok(());
            }
        };
        let Some(session) = session else {
            let refused = Refused::new(400, "null", code::INVALID_REQUEST, "session_id is missing");
            let refusal = refusals::of_session(&refused, connection, None);
            self.stage.take(Command::Refused { body, refusal });
            return self.answer(request, common).refuse(&refused);
        };
        self.play_at_once(self.answer(request, common), |events| Command::PostOld {
            connection,
            session,
            body,
            events,
        })
    }
}

fn is_initialize(body: &[u8]) -> bool {
    let text = std::str::from_utf8(body).unwrap_or_default();
    View::of(text).is_ok_and(|view| view.shape == Shape::Request && view.method_name(text) == "initialize")
}
