//! The server behind an HTTP endpoint: a session per `Mcp-Session-Id` for legacy clients, one per request for modern
//! ones. An answer that comes first goes as JSON; when something comes before it, all goes as events.

use std::collections::HashMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, select, unbounded};
use serde_json::{Value, json};

use super::server::Server;
use super::session::{Flow, Session};
use super::sink::{Sink, lock};
use crate::http::Headers;
use crate::http::guard::Guard;
use crate::http::server::{Request, Server as Listener};
use crate::http::sse::{KEEP_ALIVE, Outgoing};
use crate::mcp::{Era, code, headers};
use crate::replay::http::checks::{self, Incoming, Refused, accepts};
use crate::replay::http::{Offer, ids};

/// How long a stream may be silent.
const IDLE: Duration = Duration::from_secs(15);
/// How long connections have to end when the server does.
const GRACE: Duration = Duration::from_millis(250);

/// Serves clients until a signal comes or a tool ends the process, and returns the exit code.
///
/// # Errors
///
/// When no thread can be started.
pub fn serve(
    listener: Listener,
    guard: Guard,
    log: impl Write + Send + 'static,
    signals: &Receiver<i32>,
) -> io::Result<u8> {
    let (exit, exits) = unbounded();
    let offer = Offer { modern: true, legacy: true, sessions: true, unsolicited: true, ..Offer::default() };
    let front = Arc::new(Front { core: Server::new(log), guard, offer, sessions: Mutex::default(), exit });
    let stopper = listener.stopper();
    let handler = Arc::clone(&front);
    std::thread::Builder::new()
        .name("http-accept".to_owned())
        .spawn(move || listener.run(&Arc::new(move |request: Request<'_>| drop(handler.handle(request)))))?;
    let code = select! {
        recv(exits) -> code => code.unwrap_or_default(),
        recv(signals) -> _ => 0,
    };
    if code == 0 {
        front.core.sessions().iter().for_each(Session::close);
    }
    for seat in lock(&front.sessions).drain().map(|(_, seat)| seat) {
        seat.events.end();
    }
    stopper.stop(if code == 0 { GRACE } else { Duration::ZERO });
    Ok(code)
}

struct Front {
    core: Arc<Server>,
    guard: Guard,
    offer: Offer,
    sessions: Mutex<HashMap<String, Seat>>,
    exit: Sender<u8>,
}

/// A legacy client.
#[derive(Clone)]
struct Seat {
    session: Arc<Session>,
    events: Arc<Standalone>,
}

/// What is said on one stream.
enum Said {
    /// More follows.
    Message(String),
    /// The last message.
    Answer(String),
    /// There is no more.
    End,
    /// The client has left.
    Gone,
}

/// The stream of a POST.
struct Post(Sender<Said>);

impl Sink for Post {
    fn send(&self, message: &Value) {
        let _ = self.0.send(Said::Message(message.to_string()));
    }

    fn answer(&self, message: &Value) {
        let _ = self.0.send(Said::Answer(message.to_string()));
    }

    fn withdraw(&self) {
        let _ = self.0.send(Said::End);
    }
}

/// The standalone stream of a legacy session; what comes before it is opened waits for it.
#[derive(Default)]
struct Standalone(Mutex<(Option<Sender<Said>>, Vec<String>)>);

impl Sink for Standalone {
    fn send(&self, message: &Value) {
        let mut state = lock(&self.0);
        match &state.0 {
            Some(stream) => drop(stream.send(Said::Message(message.to_string()))),
            None => state.1.push(message.to_string()),
        }
    }

    fn answer(&self, message: &Value) {
        self.send(message);
    }
}

impl Standalone {
    /// False when it is open already.
    fn open(&self, stream: Sender<Said>) -> bool {
        let mut state = lock(&self.0);
        if state.0.is_some() {
            return false;
        }
        for text in state.1.drain(..) {
            let _ = stream.send(Said::Message(text));
        }
        state.0 = Some(stream);
        true
    }

    fn close(&self) {
        lock(&self.0).0 = None;
    }

    fn end(&self) {
        if let Some(stream) = lock(&self.0).0.take() {
            let _ = stream.send(Said::End);
        }
    }
}

impl Front {
    fn handle(&self, request: Request<'_>) -> io::Result<()> {
        if let Err(forbidden) = self.guard.check(request.target(), request.headers()) {
            let refused = Refused::new(403, "null", code::INVALID_REQUEST, forbidden.why());
            return refuse(request, &refused);
        }
        let modern = request.headers().text(headers::VERSION);
        let modern = modern.is_some_and(|version| !self.offer.is_legacy(version));
        match (request.path(), request.method()) {
            ("/mcp" | "/mcp/" | "/", "POST") => self.post(request),
            ("/mcp" | "/mcp/" | "/", "GET") if !modern => self.get(request),
            ("/mcp" | "/mcp/" | "/", "DELETE") if !modern => self.delete(request),
            ("/mcp" | "/mcp/" | "/", _) => {
                let allowed = if modern { "POST" } else { "GET, POST, DELETE" };
                request.respond(405, &Headers::new().with("Allow", allowed), b"")
            }
            _ => request.respond(404, &Headers::new(), b""),
        }
    }

    fn post(&self, mut request: Request<'_>) -> io::Result<()> {
        let body = match request.read_body() {
            Ok(body) => body,
            Err(refusal) => {
                request.refuse(refusal);
                return Ok(());
            }
        };
        let taken = checks::text_of(body).and_then(|text| {
            let incoming = checks::sort(request.headers(), &text, &self.offer)?;
            let message = serde_json::from_str::<Value>(&text)
                .map_err(|_| Refused::new(400, "null", code::PARSE, "the body is too deep"))?;
            Ok((incoming, message))
        });
        let (incoming, message) = match taken {
            Ok(taken) => taken,
            Err(refused) => return refuse(request, &refused),
        };
        if incoming.dropped {
            return request.respond(202, &Headers::new(), b"");
        }
        let seat = match self.seat(incoming, request.headers()) {
            Ok(seat) => seat,
            Err(refused) => return refuse(request, &refused),
        };
        let (say, said) = unbounded();
        let sink: Arc<dyn Sink> = Arc::new(Post(say.clone()));
        if let Flow::Exit(code) = seat.session.receive(message, &sink) {
            let _ = self.exit.send(code);
            request.close();
            return Ok(());
        }
        if !incoming.asks {
            return request.respond(202, &Headers::new(), b"");
        }
        let gone = say.clone();
        let watch = request.watch(move || drop(gone.send(Said::Gone)));
        let answered = self.answer(request, incoming, &seat, &said);
        drop(watch);
        if incoming.era == Era::Modern {
            // Closing the stream is how a modern client cancels; after an answer there is nothing to abort.
            seat.session.abort();
        }
        answered
    }

    /// The session that takes a message.
    fn seat(&self, incoming: Incoming, fields: &Headers) -> Result<Seat, Refused> {
        if incoming.opens || incoming.era == Era::Modern {
            let events = Arc::new(Standalone::default());
            let sink: Arc<dyn Sink> = Arc::<Standalone>::clone(&events);
            return Ok(Seat { session: Session::new(Arc::clone(&self.core), sink), events });
        }
        self.known(fields)
    }

    fn known(&self, fields: &Headers) -> Result<Seat, Refused> {
        let Some(id) = fields.text(headers::SESSION) else {
            return Err(Refused::new(400, "null", code::INVALID_REQUEST, "Mcp-Session-Id is missing"));
        };
        let seat = lock(&self.sessions).get(id).cloned();
        seat.ok_or_else(|| Refused::new(404, "null", code::NO_SESSION, "Session not found"))
    }

    fn answer(
        &self,
        request: Request<'_>,
        incoming: Incoming,
        seat: &Seat,
        said: &Receiver<Said>,
    ) -> io::Result<()> {
        let streams = accepts(request.headers(), "text/event-stream");
        let mut fields = Headers::new();
        let first = loop {
            match said.recv() {
                // Who takes no events hears the answer only.
                Ok(Said::Message(_)) if !streams => {}
                first => break first,
            }
        };
        match first {
            Ok(Said::Answer(text)) => {
                if incoming.opens
                    && let Some(id) = ids::fresh()
                {
                    lock(&self.sessions).insert(id.clone(), seat.clone());
                    fields.push("Mcp-Session-Id", id);
                }
                fields.push("Content-Type", "application/json");
                request.respond(status(incoming.era, &text), &fields, text.as_bytes())
            }
            Ok(Said::Message(text)) => stream(request, Some(Said::Message(text)), said),
            Ok(Said::End) => stream(request, Some(Said::End), said),
            Ok(Said::Gone) | Err(_) => {
                request.close();
                Ok(())
            }
        }
    }

    fn get(&self, request: Request<'_>) -> io::Result<()> {
        if !accepts(request.headers(), "text/event-stream") {
            return request.respond(406, &Headers::new(), b"");
        }
        let seat = match self.known(request.headers()) {
            Ok(seat) => seat,
            Err(refused) => return refuse(request, &refused),
        };
        let (say, said) = unbounded();
        if !seat.events.open(say.clone()) {
            let message = "this session has a standalone stream already";
            return refuse(request, &Refused::new(409, "null", code::INVALID_REQUEST, message));
        }
        let watch = request.watch(move || drop(say.send(Said::Gone)));
        let ended = stream(request, None, &said);
        drop(watch);
        seat.events.close();
        ended
    }

    fn delete(&self, request: Request<'_>) -> io::Result<()> {
        let seat = match self.known(request.headers()) {
            Ok(seat) => seat,
            Err(refused) => return refuse(request, &refused),
        };
        let id = request.headers().text(headers::SESSION).unwrap_or_default().to_owned();
        lock(&self.sessions).remove(&id);
        seat.events.end();
        seat.session.abort();
        request.respond(200, &Headers::new(), b"")
    }
}

/// Sends events until the last one.
fn stream(request: Request<'_>, first: Option<Said>, said: &Receiver<Said>) -> io::Result<()> {
    let fields = Headers::new()
        .with("Content-Type", "text/event-stream")
        .with("Cache-Control", "no-cache, no-transform")
        .with("X-Accel-Buffering", "no");
    let mut stream = request.into_writer(200, &fields, None)?;
    let mut next = first;
    loop {
        let now = match next.take().map_or_else(|| said.recv_timeout(IDLE), Ok) {
            Ok(now) => now,
            Err(RecvTimeoutError::Timeout) => {
                stream.send(KEEP_ALIVE)?;
                continue;
            }
            Err(RecvTimeoutError::Disconnected) => Said::End,
        };
        match now {
            Said::Message(text) => stream.send(&event(&text)?)?,
            Said::Answer(text) => {
                stream.send(&event(&text)?)?;
                return stream.finish();
            }
            Said::End => return stream.finish(),
            Said::Gone => return Ok(()),
        }
    }
}

fn event(text: &str) -> io::Result<Vec<u8>> {
    let event = Outgoing { kind: Some("message"), data: Some(text.as_bytes()), ..Outgoing::default() };
    event.encode().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))
}

fn refuse(request: Request<'_>, refused: &Refused) -> io::Result<()> {
    let fields = Headers::new().with("Content-Type", "application/json");
    request.respond(refused.status, &fields, refused.text.as_bytes())
}

/// The status of an answer that nothing came before (2026-07-28, transports, "Errors").
fn status(era: Era, text: &str) -> u16 {
    let answer: Value = serde_json::from_str(text).unwrap_or(json!(null));
    let error = answer.get("error").and_then(|error| error.get("code")).and_then(Value::as_i64);
    match error.and_then(|code| i32::try_from(code).ok()).filter(|_| era == Era::Modern) {
        Some(code::METHOD_NOT_FOUND) => 404,
        Some(code::MISSING_CAPABILITY | code::UNSUPPORTED_VERSION) => 400,
        _ => 200,
    }
}
