//! One session at the live server: what is posted there, and the streams that come of it.

use std::collections::HashMap;
use std::io::Read as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender};

use super::{LiveServer, News, Told};
use crate::http::Headers;
use crate::http::client::{Cancel, Lane, Response, SendError};
use crate::http::sse::Parser;
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::string;
use crate::mcp::{self, Era, code, headers};
use crate::replay::facts::Kind;
use crate::replay::player::Framing;

/// One read from the server.
const BUFFER: usize = 16 << 10;
/// Header fields of an answer that its client needs to go on.
const PASSED: [&str; 4] = ["www-authenticate", "retry-after", "allow", "location"];
/// Header fields of a request that are about its connection, its body or its session.
const LEFT_OUT: [&str; 8] = [
    "content-length",
    "content-type",
    "accept",
    "origin",
    "expect",
    headers::SESSION,
    headers::LAST_EVENT,
    "content-encoding",
];
/// What repeats the body of the request that they came with.
const MIRRORS: [&str; 2] = [headers::METHOD, headers::NAME];

/// Something to be done for a session.
pub(super) enum Job {
    Post { fields: Arc<Headers>, id: Option<String>, text: String },
    Stream { fields: Arc<Headers> },
    Delete { fields: Option<Arc<Headers>> },
}

/// What is known of a session at the live server.
pub(super) struct Session {
    number: usize,
    server: Arc<LiveServer>,
    lane: Lane,
    news: Sender<News>,
    known: Mutex<Known>,
    running: Mutex<HashMap<String, Cancel>>,
}

#[derive(Default)]
struct Known {
    /// Those of the last message.
    fields: Arc<Headers>,
    id: Option<Vec<u8>>,
    version: Option<String>,
    /// The client has a standalone stream, whose fields these are.
    wants_stream: Option<Arc<Headers>>,
    /// The live server knows that the client is ready.
    ready: bool,
    /// Its standalone stream is open.
    streams: bool,
}

/// What came on a stream.
#[derive(Debug, Default)]
struct Heard {
    /// It ended properly.
    whole: bool,
    /// An answer was among it.
    answered: bool,
    /// The last event that the server can go on from; empty: it cannot.
    last: Vec<u8>,
    /// When it wants its client back.
    retry: Option<Duration>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn spawn(name: &str, run: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
}

/// Does the jobs of a session, in order: what sets something is through before what comes next.
fn work(session: &Arc<Session>, jobs: &Receiver<Job>) {
    for job in jobs {
        match job {
            Job::Post { fields, id, text } => {
                locked(&session.known).fields = Arc::clone(&fields);
                let method = method_of(&text);
                let in_turn = id.is_none()
                    || matches!(
                        method.as_str(),
                        "initialize" | "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
                    );
                if in_turn {
                    session.ask(&fields, id.as_ref(), &text);
                    if method == "notifications/initialized" {
                        session.is_ready();
                    }
                    continue;
                }
                let (asking, told) = (Arc::clone(session), id.clone());
                let run = move || asking.ask(&fields, id.as_ref(), &text);
                if spawn("live request", run).is_err() {
                    session.tell(told, Told::Failed("the system gives no thread".to_owned()));
                }
            }
            Job::Stream { fields } => session.open_stream(&fields),
            Job::Delete { fields } => {
                let fields = fields.unwrap_or_else(|| Arc::clone(&locked(&session.known).fields));
                let fields = session.fields(&fields, None);
                if locked(&session.known).id.is_some() {
                    let target = session.server.target();
                    let _ = session.lane.exchange().send("DELETE", &target, &fields, None);
                }
                session.end();
            }
        }
    }
}

fn method_of(text: &str) -> String {
    View::of(text).map(|view| view.method_name(text).into_owned()).unwrap_or_default()
}

impl Session {
    /// A session that the live server knows nothing of, and its thread, which does the jobs.
    pub(super) fn start(
        number: usize,
        server: Arc<LiveServer>,
        news: Sender<News>,
        jobs: Receiver<Job>,
    ) -> std::io::Result<Arc<Self>> {
        let (known, running) = (Mutex::default(), Mutex::default());
        let lane = server.upstream.lane();
        let session = Arc::new(Self { number, server, lane, news, known, running });
        let working = Arc::clone(&session);
        spawn("live session", move || work(&working, &jobs))?;
        Ok(session)
    }

    /// The client has a standalone stream.
    pub(super) fn wants_stream(&self, fields: &Arc<Headers>) {
        locked(&self.known).wants_stream = Some(Arc::clone(fields));
    }

    /// Breaks off the answer to a request.
    pub(super) fn hang_up(&self, id: &str) {
        let running = locked(&self.running).remove(id);
        running.iter().for_each(Cancel::cancel);
    }

    /// Breaks off all that runs.
    pub(super) fn end(&self) {
        locked(&self.known).ready = false;
        locked(&self.running).drain().for_each(|(_, cancel)| cancel.cancel());
    }

    fn tell(&self, id: Option<String>, told: Told) {
        let _ = self.news.send((self.number, id, told));
    }

    /// The fields to send with a message, or with a request for a stream.
    fn fields(&self, client: &Headers, text: Option<&str>) -> Headers {
        let mut fields = client.clone();
        fields.remove_hop_by_hop();
        LEFT_OUT.iter().for_each(|name| fields.remove(name));
        let view = text.and_then(|text| View::of(text).ok());
        let modern = text.zip(view).is_some_and(|(text, view)| mcp::era(text, &view) == Era::Modern);
        if text.is_some() {
            fields.set("content-type", "application/json");
            fields.set("accept", "application/json, text/event-stream");
        } else {
            fields.set("accept", "text/event-stream");
        }
        if modern {
            return fields;
        }
        MIRRORS.iter().for_each(|name| fields.remove(name));
        let known = locked(&self.known);
        if text.is_some_and(|text| method_of(text) == "initialize") {
            fields.remove(headers::VERSION);
            return fields;
        }
        if let Some(id) = &known.id {
            fields.set(headers::SESSION, id.clone());
        }
        if let Some(version) = &known.version {
            fields.set(headers::VERSION, version.as_str());
        }
        fields
    }

    /// Posts a message and tells what comes of it.
    fn ask(&self, fields: &Headers, id: Option<&String>, text: &str) {
        let fields = self.fields(fields, Some(text));
        let sending = self.lane.exchange();
        if let Some(id) = id {
            locked(&self.running).insert(id.clone(), sending.canceller());
        }
        match sending.send("POST", &self.server.target(), &fields, Some(text.as_bytes())) {
            Ok(response) => self.answered(id, text, &fields, response),
            // Whoever hung up knows.
            Err(SendError::Cancelled) => {}
            Err(error) => self.tell(id.cloned(), Told::Failed(words(&error))),
        }
        if let Some(id) = id {
            locked(&self.running).remove(id);
        }
    }

    fn answered(&self, id: Option<&String>, text: &str, fields: &Headers, response: Response) {
        let host = fields.text("host").unwrap_or_default();
        let Response { status, headers, mut body, .. } = response;
        let greets = method_of(text) == "initialize";
        {
            let mut known = locked(&self.known);
            if let Some(issued) = headers.get(headers::SESSION) {
                known.id = Some(issued.to_vec());
            }
            if status == 404 && known.id.take().is_some() && !greets {
                (known.ready, known.version) = (false, None);
                drop(known);
                return self.tell(id.cloned(), Told::Forgotten);
            }
        }
        let kept = |name: &&str| {
            headers.text(name).map(|value| ((*name).to_owned(), self.server.localized(value, host)))
        };
        let passed: Vec<(String, String)> = PASSED.iter().filter_map(kept).collect();
        if is(&headers, "text/event-stream") && status == 200 {
            let framing = Framing {
                kind: Kind::Sse,
                status: Some(status),
                headers: passed,
                inner: true,
                ..Framing::default()
            };
            self.tell(id.cloned(), Told::Begins(framing));
            let mut heard = self.events(id, greets, &mut body);
            drop(body);
            // The server may let its client come back for the rest.
            while !heard.answered && !heard.last.is_empty() {
                let Some(more) = self.resumed(id, fields, &heard) else { break };
                heard =
                    Heard { last: if more.last.is_empty() { heard.last } else { more.last.clone() }, ..more };
            }
            return self
                .tell(id.cloned(), if heard.whole { Told::Ended } else { Told::Failed(BROKEN.to_owned()) });
        }
        let mut whole = Vec::new();
        if body.read_to_end(&mut whole).is_err() {
            return self.tell(id.cloned(), Told::Failed(BROKEN.to_owned()));
        }
        // What is only accepted has no answer, whatever stands there.
        let Some(id) = id else { return };
        match answer_in(&whole) {
            Some(_) if is_unreachable(status, &whole) => {
                self.tell(Some(id.clone()), Told::Failed(UNREACHABLE.to_owned()));
            }
            Some(view) if status != 401 => {
                if greets {
                    self.agree(&whole, &view);
                }
                let framing = Framing { status: Some(status), headers: passed, ..Framing::default() };
                self.tell(Some(id.clone()), Told::Begins(framing));
                self.tell(Some(id.clone()), Told::Line(whole));
            }
            _ => {
                let kind =
                    headers.text("content-type").map(|kind| ("content-type".to_owned(), kind.to_owned()));
                let body = self.server.localized(&String::from_utf8_lossy(&whole), host);
                let headers = passed.into_iter().chain(kind).collect();
                self.tell(Some(id.clone()), Told::Refused { status, headers, body });
            }
        }
    }

    /// Comes back for what follows on a stream; `None` when the server does not go on.
    fn resumed(&self, id: Option<&String>, fields: &Headers, heard: &Heard) -> Option<Heard> {
        thread::sleep(heard.retry.unwrap_or(RETRY).min(LONGEST_RETRY));
        let id = id?;
        let sending = self.lane.exchange();
        {
            // Whoever hung up meanwhile has taken it out.
            let mut running = locked(&self.running);
            *running.get_mut(id)? = sending.canceller();
        }
        let mut fields = self.fields(fields, None);
        fields.set(headers::LAST_EVENT, heard.last.clone());
        let mut response = sending.send("GET", &self.server.target(), &fields, None).ok()?;
        let streams = response.status == 200 && is(&response.headers, "text/event-stream");
        let more = streams.then(|| self.events(Some(id), false, &mut response.body))?;
        // One that says nothing more for ever is not asked for ever.
        (more.answered || !more.last.is_empty()).then_some(more)
    }

    /// Tells the messages of a stream.
    fn events(&self, id: Option<&String>, greets: bool, body: &mut impl std::io::Read) -> Heard {
        let (mut parser, mut events) = (Parser::new(), Vec::new());
        let mut buffer = vec![0; BUFFER];
        let mut heard = Heard::default();
        let mut tell = |event: &crate::http::sse::Event| {
            if let Some(retry) = event.retry() {
                heard.retry = Some(Duration::from_millis(retry));
            }
            let data = event.data().filter(|data| !data.is_empty() && event.kind() == b"message");
            let Some(data) = data else { return };
            if let Some(view) = answer_in(data) {
                heard.answered = true;
                if greets {
                    self.agree(data, &view);
                }
            }
            self.tell(id.cloned(), Told::Line(data.to_vec()));
        };
        let whole = loop {
            match body.read(&mut buffer) {
                Ok(0) => break true,
                Ok(length) => parser.push(buffer.get(..length).unwrap_or_default(), &mut events),
                Err(_) => break false,
            }
            events.drain(..).for_each(|event| tell(&event));
        };
        let last = parser.last_event_id().to_vec();
        if whole {
            parser.finish().event.iter().for_each(&mut tell);
        }
        Heard { whole, last, ..heard }
    }

    /// The server has told the revision of the session.
    fn agree(&self, text: &[u8], view: &View) {
        let text = std::str::from_utf8(text).unwrap_or_default();
        let version = view.result.and_then(|result| member(text, result, "protocolVersion"));
        locked(&self.known).version = version.map(|span| string::decode(span.of(text)).into_owned());
    }

    fn is_ready(self: &Arc<Self>) {
        locked(&self.known).ready = true;
        let wanted = locked(&self.known).wants_stream.clone();
        wanted.iter().for_each(|fields| self.open_stream(fields));
    }

    /// Follows the standalone stream of the live server, if it has one.
    fn open_stream(self: &Arc<Self>, fields: &Headers) {
        {
            let mut known = locked(&self.known);
            if !known.ready || known.streams {
                return;
            }
            known.streams = true;
        }
        let fields = self.fields(fields, None);
        let session = Arc::clone(self);
        let _ = spawn("live stream", move || {
            session.follow(fields);
            locked(&session.known).streams = false;
        });
    }

    /// Reads a standalone stream, and comes back to it as long as the server has one.
    fn follow(&self, mut fields: Headers) {
        loop {
            let sending = self.lane.exchange();
            locked(&self.running).insert(STREAM.to_owned(), sending.canceller());
            let answer = sending.send("GET", &self.server.target(), &fields, None).ok();
            let streams = |it: &Response| it.status == 200 && is(&it.headers, "text/event-stream");
            let Some(mut response) = answer.filter(streams) else { break };
            let heard = self.events(None, false, &mut response.body);
            drop(response);
            // Whoever ended all this has taken it out.
            if locked(&self.running).remove(STREAM).is_none() {
                return;
            }
            if !heard.last.is_empty() {
                fields.set(headers::LAST_EVENT, heard.last);
            }
            thread::sleep(heard.retry.unwrap_or(RETRY).min(LONGEST_RETRY));
            if !locked(&self.known).ready {
                return;
            }
        }
        locked(&self.running).remove(STREAM);
    }
}

/// What a standalone stream is called among the requests that run: no id is empty.
const STREAM: &str = "";
/// When a client comes back where the server does not say.
const RETRY: Duration = Duration::from_millis(500);
const LONGEST_RETRY: Duration = Duration::from_secs(30);
const BROKEN: &str = "the live server broke off its answer";
const UNREACHABLE: &str = "the live server cannot be reached";

fn words(error: &SendError) -> String {
    match error {
        SendError::Unreachable(_) => UNREACHABLE.to_owned(),
        SendError::Broken(_) => BROKEN.to_owned(),
        other => format!("the live server was not asked: {other}"),
    }
}

pub(in crate::replay::http) fn is(headers: &Headers, kind: &str) -> bool {
    let given = headers.text("content-type").unwrap_or_default();
    given.split(';').next().unwrap_or_default().trim().eq_ignore_ascii_case(kind)
}

/// The answer, or batch of answers, that a body is.
fn answer_in(body: &[u8]) -> Option<View> {
    let text = std::str::from_utf8(body).ok()?;
    View::of(text).ok().filter(|view| matches!(view.shape, Shape::Response | Shape::Batch))
}

/// Whether the recorder answers for a server that is not there.
fn is_unreachable(status: u16, body: &[u8]) -> bool {
    let code = format!("\"code\":{}", code::UNREACHABLE);
    status == 502 && memchr::memmem::find(body, code.as_bytes()).is_some()
}
