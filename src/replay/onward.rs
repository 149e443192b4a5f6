//! Requests that nobody recorded and that go on to the live server behind the replay (mode `new_episodes`). Here is what
//! goes there; [`back`](self) is what comes back, [`minted`](self) knows which of the two a token belongs to.
//!
//! The live server knows nothing of what was replayed. So at the first such request it is greeted as the client greeted
//! us, with what the client has set since then, and it is told no more than what belongs to requests of its own. On its
//! connection every request has an id of its own: those of the client, which may be used again, are put back on the way.

mod back;
mod minted;

use std::collections::{BTreeMap, HashMap, HashSet};

use super::choose::{Why, base_key};
use super::leaving::AMBIGUOUS;
use super::lenient;
use super::live::{self, Splice};
use super::player::{Output, Part, Player, Request, To};
use super::report::Miss;
use crate::jsonrpc::message::{View, member};
use crate::jsonrpc::string;
use crate::mcp::{self, Era, code};
use minted::Minted;

/// The way out of a request that the live server did not answer.
const LOOK: &str = "what was recorded is still answered; see to it that the server is there";

/// The live side of all sessions.
#[derive(Debug, Default)]
pub(super) struct Onwards {
    lines: HashMap<usize, Onward>,
    minted: Minted,
}

/// How far the live server knows the client.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Greeting {
    /// Not at all.
    #[default]
    None,
    /// It has been sent `initialize`.
    Asked,
    /// It has answered.
    Done,
}

/// A request of the client, to be repeated to the live server.
#[derive(Clone, Debug)]
struct Kept {
    id: String,
    text: String,
}

/// The live side of one session.
#[derive(Debug, Default)]
struct Onward {
    greeting: Greeting,
    /// The client's `initialize`, and its notification that it is done.
    initialize: Option<Kept>,
    initialized: Option<String>,
    /// Something was answered by no message.
    refused: bool,
    /// The client greeted the live server itself.
    greeted_by_client: bool,
    level: Option<Kept>,
    subscriptions: BTreeMap<String, Kept>,
    /// The ids that were used.
    used: HashSet<String>,
    next: u64,
    /// Requests that wait for the live server, by the id that it knows.
    open: HashMap<String, Open>,
    /// Requests that wait until it has been greeted, with what the client sent.
    waiting: Vec<(Open, String)>,
    /// The live server's questions, by the id that the client knows.
    questions: HashMap<String, Question>,
}

/// A request that the live server has.
#[derive(Clone, Debug)]
struct Open {
    to: To,
    /// The id that the client knows.
    id: String,
    method: String,
    name: Option<String>,
    token: Option<String>,
    /// What identifies it over its rounds.
    round: Vec<u8>,
    purpose: Purpose,
    /// The client has cancelled it.
    cancelled: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    /// The client waits for the answer.
    Client,
    /// The client waits, but for what comes before the answer.
    Listen,
    /// The answer is for us: the server has been greeted.
    Greeting,
    /// The answer is for nobody: the client has got one already.
    Silent,
}

/// A request of the live server.
#[derive(Clone, Debug)]
struct Question {
    /// The id that it knows.
    id: String,
    token: Option<String>,
}

impl Onward {
    /// An id for a request of the client: its own, unless that was used.
    fn claim(&mut self, wanted: &str) -> String {
        let mut id = wanted.to_owned();
        while !self.used.insert(id.clone()) {
            self.next += 1;
            id = format!("\"mcpreel-{}\"", self.next);
        }
        id
    }

    fn client_waits(&self) -> usize {
        let open = self.open.values().filter(|open| open.purpose == Purpose::Client && !open.cancelled);
        open.count() + self.waiting.iter().filter(|(open, _)| open.purpose == Purpose::Client).count()
    }
}

impl Player {
    /// What was not recorded goes on to a live server: the caller has to carry [`Output::Onward`] there.
    #[must_use]
    pub fn with_live_server(mut self) -> Self {
        self.onwards = Some(Onwards::default());
        self.report.live = Some(0);
        self
    }

    /// Whether there is a live server behind this replay.
    #[must_use]
    pub fn has_live_server(&self) -> bool {
        self.onwards.is_some()
    }

    /// Whether all that the live server had to say was that it wants none of this: demands for authorization, mostly.
    #[must_use]
    pub fn was_only_refused(&self) -> bool {
        let mut lines = self.onwards.iter().flat_map(|onwards| onwards.lines.values());
        self.report.live == Some(0) && lines.any(|line| line.refused)
    }

    /// Whether anything of a session went on to the live server.
    pub(super) fn has_gone_on(&self, session: usize) -> bool {
        let line = self.onwards.as_ref().and_then(|onwards| onwards.lines.get(&session));
        line.is_some_and(|line| !line.used.is_empty())
    }

    /// A session is over, of which nothing went on: what its client has set is not the next one's.
    pub(super) fn forget_kept(&mut self, session: usize) {
        self.onwards.iter_mut().for_each(|onwards| drop(onwards.lines.remove(&session)));
    }

    /// How many requests of a session wait for the live server.
    #[must_use]
    pub fn awaited(&self, session: usize) -> usize {
        let line = self.onwards.as_ref().and_then(|onwards| onwards.lines.get(&session));
        line.map_or(0, Onward::client_waits)
    }

    /// Whether a request that nobody recorded is no reason to trouble the live server: what the recorded one would have
    /// said to the probe is known.
    pub(super) fn is_known_probe(&self, request: &Request<'_>) -> bool {
        request.method == "server/discover" && !self.tape.exchanges.is_empty()
    }

    fn line(&mut self, session: usize) -> Option<&mut Onward> {
        Some(self.onwards.as_mut()?.lines.entry(session).or_default())
    }

    /// Remembers what the live server will have to know.
    pub(super) fn keep_for_live(&mut self, request: &Request<'_>) {
        if request.era != Era::Legacy {
            return;
        }
        let uri = || mcp::target(&request.method, request.text, &request.view).unwrap_or_default();
        let kept = || Kept { id: request.id.to_owned(), text: packed(request) };
        let (method, uri) = (request.method.as_str(), uri);
        let Some(line) = self.line(request.session) else { return };
        match method {
            "initialize" => line.initialize = Some(kept()),
            "logging/setLevel" => line.level = Some(kept()),
            "resources/subscribe" => drop(line.subscriptions.insert(uri(), kept())),
            "resources/unsubscribe" => drop(line.subscriptions.remove(&uri())),
            _ => {}
        }
    }

    /// A request that was answered as recorded and that a live server, where it is there, has to know of too.
    pub(super) fn mirror(&mut self, request: &Request<'_>) {
        let sets = matches!(
            request.method.as_str(),
            "logging/setLevel" | "resources/subscribe" | "resources/unsubscribe"
        );
        if sets
            && request.era == Era::Legacy
            && self.line(request.session).is_some_and(|line| line.greeting == Greeting::Done)
        {
            let open = Open { purpose: Purpose::Silent, ..open(request) };
            self.forward(open, &packed(request));
        }
    }

    /// Whether a request belongs to what the live server has begun.
    pub(super) fn belongs_to_live(&mut self, request: &Request<'_>) -> bool {
        self.onwards.as_ref().is_some_and(|onwards| onwards.minted.is_live(request))
    }

    /// Has the live server answer a request, if it may: `Err` says why not.
    pub(super) fn pass_on(&mut self, request: &Request<'_>, why: Why) -> Result<(), Why> {
        let Some(onwards) = self.onwards.as_mut() else { return Err(why) };
        if matches!(why, Why::OutOfOrder { expected: Some(_) }) {
            return Err(why);
        }
        if let Some(what) = onwards.minted.of_cassette(request, &self.tape, &self.tasks) {
            return Err(Why::Bound { what });
        }
        if minted::has_placeholder(request, &self.tape) {
            return Err(Why::Placeholder);
        }
        if lenient::is_replaced(request.text) {
            return Err(Why::NoText);
        }
        let subject = self.subject(request);
        self.out.push(Output::Detail(format!("{subject} is not recorded: the live server is asked")));
        self.send_on(request);
        Ok(())
    }

    /// Has the live server answer a request.
    pub(super) fn send_on(&mut self, request: &Request<'_>) {
        let (carrier, session) = (request.carrier, request.session);
        let open = open(request);
        let text = packed(request);
        let Some(line) = self.line(session) else { return };
        if request.method == "initialize" {
            line.greeting = Greeting::Done;
            line.greeted_by_client = true;
            return self.forward(open, &text);
        }
        let initialize = line.initialize.clone().filter(|_| request.era == Era::Legacy);
        match (line.greeting.clone(), initialize) {
            (Greeting::None, Some(Kept { id, text: greeting })) => {
                line.greeting = Greeting::Asked;
                line.waiting.push((open, text));
                let to = To { session, batch: None, carrier };
                let greets = Open { to, purpose: Purpose::Greeting, ..made("initialize", &id) };
                self.forward(greets, &greeting);
            }
            (Greeting::Asked, Some(_)) => line.waiting.push((open, text)),
            _ => self.forward(open, &text),
        }
    }

    /// Sends a request on, under an id of its own.
    fn forward(&mut self, open: Open, text: &str) {
        let (session, carrier) = (open.to.session, open.to.carrier);
        let Some(line) = self.line(session) else { return };
        let id = line.claim(&open.id);
        let Ok(view) = View::of(text) else { return };
        let text = Splice::new(text, view).id(&id).line();
        line.open.insert(id.clone(), open);
        self.out.push(Output::Onward { session, carrier, id: Some(id), text });
    }

    /// Sends what wants no answer on.
    fn send(&mut self, session: usize, text: String) {
        let carrier = self.posting;
        self.out.push(Output::Onward { session, carrier, id: None, text });
    }

    /// A notification of the client: those about requests of the live server are for it alone, and then this gives
    /// `true`.
    pub(super) fn notify_live(&mut self, session: usize, method: &str, text: &str, view: &View) -> bool {
        let Some(line) = self.line(session) else { return false };
        let param = |name: &str| view.params.and_then(|params| member(text, params, name));
        match method {
            "notifications/cancelled" => {
                let Some(id) = param("requestId").map(|id| id.of(text)) else { return false };
                self.cancel_live(session, id, text, view)
            }
            "notifications/progress" => {
                let token = param("progressToken").map(|token| token.of(text).to_owned());
                let theirs = line.questions.values().any(|question| question.token == token);
                if theirs && token.is_some() {
                    let text = Splice::new(text, *view).line();
                    self.send(session, text);
                    return true;
                }
                false
            }
            _ => {
                if method == "notifications/initialized" {
                    line.initialized = Some(Splice::new(text, *view).line());
                    if !line.greeted_by_client {
                        return false;
                    }
                }
                if line.greeting == Greeting::Done {
                    let text = Splice::new(text, *view).line();
                    self.send(session, text);
                }
                false
            }
        }
    }

    fn cancel_live(&mut self, session: usize, id: &str, text: &str, view: &View) -> bool {
        let http = self.options.http;
        let Some(line) = self.line(session) else { return false };
        let waits = line.waiting.iter().position(|(open, _)| open.id == id);
        if let Some(at) = waits {
            let (open, _) = line.waiting.remove(at);
            self.withdraw(open.to, false);
            return true;
        }
        let asked = |open: &Open| open.purpose != Purpose::Silent && open.purpose != Purpose::Greeting;
        let is_meant = |open: &Open| open.id == id && !open.cancelled && asked(open);
        let several = line.open.values().filter(|open| is_meant(open)).nth(1).is_some();
        if several && http {
            self.warn(AMBIGUOUS.to_owned());
            return true;
        }
        let open = line.open.iter_mut().find(|(_, open)| is_meant(open));
        let Some((live, open)) = open.map(|(live, open)| (live.clone(), open)) else { return false };
        open.cancelled = true;
        let to = open.to;
        let text = Splice::new(text, *view).request_id(&live).line();
        self.send(session, text);
        if to.batch.is_some() {
            self.withdraw(to, false);
        }
        true
    }

    /// The client's answer to a question. `false`: it was not one of the live server.
    pub(super) fn reply_to_live(&mut self, session: usize, id: &str, text: &str, view: &View) -> bool {
        let question = self.line(session).and_then(|line| line.questions.remove(id));
        let Some(question) = question else { return false };
        let text = Splice::new(text, *view).id(&question.id).line();
        self.send(session, text);
        true
    }

    /// HTTP: the client of a request has left, and with it goes what it asked of the live server.
    pub(super) fn left_live(&mut self, carrier: u64) {
        let Some(onwards) = &mut self.onwards else { return };
        for (&session, line) in &mut onwards.lines {
            line.waiting.retain(|(open, _)| open.to.carrier != carrier);
            let gone = line.open.iter().filter(|(_, open)| open.to.carrier == carrier);
            let gone: Vec<String> = gone
                .filter(|(_, open)| matches!(open.purpose, Purpose::Client | Purpose::Listen))
                .map(|(id, _)| id.clone())
                .collect();
            for id in gone {
                line.open.remove(&id);
                self.out.push(Output::HangUp { session, id });
            }
        }
    }

    /// The live server does not answer a request, or none of a session.
    pub fn unanswered_live(&mut self, session: usize, id: Option<&str>, why: &str) {
        let Some(line) = self.line(session) else { return };
        let mut lost: Vec<Open> = Vec::new();
        match id {
            Some(id) => lost.extend(line.open.remove(id)),
            None => {
                line.questions.clear();
                let mut all: Vec<(String, Open)> = line.open.drain().collect();
                all.sort_by(|a, b| a.0.cmp(&b.0));
                lost.extend(all.into_iter().map(|(_, open)| open));
            }
        }
        if id.is_none() || lost.iter().any(|open| open.purpose == Purpose::Greeting) {
            line.greeting = Greeting::None;
            lost.extend(line.waiting.drain(..).map(|(open, _)| open));
        }
        for open in lost {
            self.lose(&open, why);
        }
    }

    /// Tells the client that the live server does not answer.
    fn lose(&mut self, open: &Open, why: &str) {
        match open.purpose {
            Purpose::Greeting | Purpose::Silent => return,
            // It was taken out of its batch when it was cancelled.
            _ if open.cancelled && open.to.batch.is_some() => return,
            _ if open.cancelled => return self.withdraw(open.to, false),
            Purpose::Client | Purpose::Listen => {}
        }
        let subject = self.rules.subject(&open.method, open.name.as_deref());
        let miss = Miss {
            method: subject.method,
            name: subject.name,
            why: why.to_owned(),
            nearest: None,
            hint: LOOK.to_owned(),
        };
        self.out.push(Output::Note(format!("{}: {}", miss.subject(), miss.why)));
        let line = live::error(&open.id, code::UNREACHABLE, &format!("mcpreel: {why}"), Some(&miss.json()));
        self.count_miss(miss);
        self.answer(open.to, Part::Made, line);
    }
}

fn packed(request: &Request<'_>) -> String {
    Splice::new(request.text, request.view).line()
}

fn open(request: &Request<'_>) -> Open {
    let listens = request.method == "subscriptions/listen";
    Open {
        to: request.to(),
        id: request.id.to_owned(),
        method: request.method.clone(),
        name: mcp::target(&request.method, request.text, &request.view),
        token: live::progress_token(request.text, &request.view).map(str::to_owned),
        round: base_key(request.text, &request.view),
        purpose: if listens { Purpose::Listen } else { Purpose::Client },
        cancelled: false,
    }
}

/// A request of ours under an id of the client.
fn made(method: &str, id: &str) -> Open {
    Open {
        to: To { session: 0, batch: None, carrier: 0 },
        id: id.to_owned(),
        method: method.to_owned(),
        name: None,
        token: None,
        round: Vec::new(),
        purpose: Purpose::Silent,
        cancelled: false,
    }
}

/// The text of a JSON string, or the literal itself.
fn plain(literal: &str) -> String {
    string::decode(literal).into_owned()
}
