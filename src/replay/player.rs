//! The player: takes what a live client says and yields what it gets. Pure: no I/O, no clock; time is microseconds
//! that the caller counts. `choose` decides which exchange answers a request, `answers` plays it, `unrecorded` and `miss`
//! answer what nobody recorded.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;

use super::answers::WITHOUT_STRICT;
use super::choose::{Choice, Why, is_known};
use super::faults::Faults;
pub use super::framing::Framing;
use super::index::{Index, Recorded, Sought};
use super::key::{self, Key, Keys, Rules};
use super::lenient;
use super::live;
use super::onward::Onwards;
pub use super::options::{Options, Ordering, Repeat};
pub use super::output::{Output, Part};
use super::refused::Stray;
use super::report::Report;
use super::session::{Asked, Batch, Ordinal, Play, Session, process_of};
use super::tape::{Step, Tape, index_of};
use super::tasks::Tasks;
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::scan::elements;
use crate::jsonrpc::string;
use crate::mcp::{self, Era, code};
use crate::redact::Written;

/// What is said of what is not JSON-RPC.
const NO_MESSAGE: &str = "the client sent a line that is no message; it gets no answer";
/// What is said of an array without anything in it, and of an element that is no message. JSON-RPC 2.0, section 6, says
/// what they get, where the revision has batches.
const EMPTY_BATCH: &str = "the client sent an array with no message in it; it gets the error Invalid Request";
const NO_ELEMENT: &str =
    "the client sent an array with something in it that is no message; that gets the error Invalid Request";
/// What an empty array gets.
pub(super) const NEEDS_MESSAGES: &str = "a batch must hold messages, and at least one";
/// So many warnings are told.
const WARNINGS: usize = 1000;

/// Where an answer goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct To {
    pub(super) session: usize,
    pub(super) batch: Option<u64>,
    pub(super) carrier: u64,
}

/// A request of the live client.
pub(super) struct Request<'a> {
    pub(super) session: usize,
    pub(super) text: &'a str,
    pub(super) view: View,
    pub(super) era: Era,
    pub(super) method: String,
    pub(super) id: &'a str,
    pub(super) batch: Option<u64>,
    pub(super) carrier: u64,
}

impl Request<'_> {
    pub(super) fn to(&self) -> To {
        To { session: self.session, batch: self.batch, carrier: self.carrier }
    }
}

/// Plays one tape to any number of live sessions.
#[derive(Debug)]
pub struct Player {
    pub(super) tape: Tape,
    pub(super) rules: Arc<Rules>,
    pub(super) options: Options,
    pub(super) sessions: Vec<Session>,
    pub(super) plays: HashMap<u64, Play>,
    pub(super) timers: BinaryHeap<Reverse<(u64, u64)>>,
    pub(super) out: Vec<Output>,
    pub(super) report: Report,
    pub(super) tasks: Tasks,
    pub(super) index: Index,
    pub(super) taken: Vec<bool>,
    pub(super) faults: Option<Faults>,
    /// Exchanges that were begun and whose answers the client did not get.
    pub(super) owed: Vec<u32>,
    /// Requests that were refused and may come again.
    pub(super) strays: Vec<Stray>,
    /// How many sessions there have been.
    pub(super) births: u64,
    /// The places of sessions that are over.
    pub(super) free: Vec<usize>,
    /// What goes on to a live server, where there is one.
    pub(super) onwards: Option<Onwards>,
    /// What the message came with that is being looked at.
    pub(super) posting: u64,
    next_play: u64,
    next_batch: u64,
    /// The last exchange that asked for input, by the round that it began.
    pub(super) asked_for_input: HashMap<Vec<u8>, u32>,
}

impl Player {
    /// A player at the beginning of its tape.
    #[must_use]
    pub fn new(tape: Tape, rules: Rules, options: Options) -> Self {
        let report = Report {
            server: tape.server.clone(),
            recorded_at: tape.head.recorded_at.clone(),
            transport: if options.http { "http" } else { "stdio" },
            ..Report::default()
        };
        let tasks = Tasks::new(&tape);
        // Who cannot be led elsewhere, or would be led there for ever, is there already.
        let leads = options.http && options.ordering != Ordering::Any;
        let plays = |number: u32| leads || !tape.is_detour(number);
        let notes = tape.notes.clone();
        let mut player = Self {
            taken: (0..index_of(tape.exchanges.len())).map(|number| !plays(number)).collect(),
            index: Index::new(&tape, &plays),
            faults: None,
            owed: Vec::new(),
            onwards: None,
            posting: 0,
            rules: Arc::new(rules),
            options,
            sessions: Vec::new(),
            plays: HashMap::new(),
            timers: BinaryHeap::new(),
            out: Vec::new(),
            report,
            tasks,
            tape,
            strays: Vec::new(),
            births: 0,
            free: Vec::new(),
            next_play: 0,
            next_batch: 0,
            asked_for_input: HashMap::new(),
        };
        notes.into_iter().for_each(|note| player.warn(note));
        player
    }

    /// A new live session.
    pub fn open(&mut self, ordinal: Ordinal) -> usize {
        self.births += 1;
        let mut new = Session::new(ordinal);
        new.born = self.births;
        if let Some(session) = self.free.pop()
            && let Some(place) = self.sessions.get_mut(session)
        {
            *place = new;
            return session;
        }
        self.sessions.push(new);
        self.sessions.len() - 1
    }

    /// What was decided since the last call.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.out.drain(..)
    }

    /// When [`Player::tick`] has something to do, in microseconds.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) {
        while let Some(&Reverse((at, play))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.advance(play, now);
        }
    }

    /// Takes one line of the client, without its end.
    pub fn receive(&mut self, session: usize, line: &[u8], now: u64) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        if let Some((text, view)) =
            std::str::from_utf8(line).ok().and_then(|it| Some((it, View::of(it).ok()?)))
        {
            return self.receive_as(0, session, text, view, None, now);
        }
        let text = lenient::text_of(line);
        let messages = lenient::messages(&text);
        if messages.is_empty() && !line.trim_ascii().is_empty() {
            self.warn(NO_MESSAGE.to_owned());
        }
        for view in messages {
            self.receive_as(0, session, &text, view, None, now);
        }
    }

    /// What makes keys of messages, wherever there is time for it.
    #[must_use]
    pub fn keys(&self) -> Keys {
        Keys(Arc::clone(&self.rules))
    }

    /// Takes one message or batch of the client, of which `view` is the view and `key` the key, where it was made
    /// before; what it leads to carries the number `carrier`.
    pub fn receive_as(
        &mut self,
        carrier: u64,
        session: usize,
        text: &str,
        view: View,
        key: Option<Key>,
        now: u64,
    ) {
        self.posting = carrier;
        if view.shape == Shape::Batch {
            self.receive_batch(carrier, session, text, &view, now);
        } else {
            self.receive_one(To { session, batch: None, carrier }, text, view, key, now);
        }
    }

    fn receive_batch(&mut self, carrier: u64, session: usize, text: &str, view: &View, now: u64) {
        let elements = elements(text, view.whole).unwrap_or_default();
        let views: Vec<View> = elements.iter().filter_map(|span| View::at(text, span.start).ok()).collect();
        // Where there are no batches an array is noise, but for the messages in it.
        let batches = self.sessions.get(session).is_some_and(|session| session.has_batches);
        if views.is_empty() && !batches {
            return self.warn(NO_MESSAGE.to_owned());
        }
        if views.is_empty() {
            self.warn(EMPTY_BATCH.to_owned());
            let line = live::error("null", code::INVALID_REQUEST, NEEDS_MESSAGES, None);
            return self.answer(To { session, batch: None, carrier }, Part::Made, line);
        }
        let answered = |view: &&View| match view.shape {
            Shape::Request => true,
            Shape::Notification | Shape::Response => false,
            Shape::Batch | Shape::Other => batches,
        };
        let waiting = views.iter().filter(answered).count();
        self.next_batch += 1;
        let batch = self.next_batch;
        if let Some(live) = self.sessions.get_mut(session).filter(|_| waiting > 0) {
            live.batches.insert(batch, Batch { waiting, answers: Vec::new() });
        }
        for view in views {
            self.receive_one(To { session, batch: Some(batch), carrier }, text, view, None, now);
        }
    }

    fn receive_one(&mut self, from: To, text: &str, view: View, key: Option<Key>, now: u64) {
        let To { session, batch, carrier } = from;
        match view.shape {
            Shape::Request => {
                let request = Request {
                    session,
                    text,
                    view,
                    era: mcp::era(text, &view),
                    method: view.method_name(text).into_owned(),
                    id: view.id.map_or("null", |id| id.of(text)),
                    batch,
                    carrier,
                };
                self.request(&request, key, now);
            }
            Shape::Notification => self.notification(session, text, &view, now),
            Shape::Response => self.reply(session, text, &view, now),
            Shape::Batch | Shape::Other
                if batch.is_some() && self.sessions.get(session).is_some_and(|it| it.has_batches) =>
            {
                self.warn(NO_ELEMENT.to_owned());
                let line = live::error("null", code::INVALID_REQUEST, "this is no message", None);
                self.answer(from, Part::Made, line);
            }
            Shape::Batch | Shape::Other => self.warn(NO_MESSAGE.to_owned()),
        }
    }

    fn request(&mut self, request: &Request<'_>, key: Option<Key>, now: u64) {
        self.greet(request, now);
        self.note_level(request);
        self.asked_again(request);
        if request.method == "ping" {
            return self.answer(request.to(), Part::Made, live::result(request.id, "{}"));
        }
        if self.belongs_to_live(request) && !lenient::is_replaced(request.text) {
            return self.send_on(request);
        }
        if self.is_of_another_revision(request) || self.task_request(request, now) {
            return;
        }
        let key = key
            .unwrap_or_else(|| key::of(request.text, &request.view, request.era, &self.rules, Written::Live));
        let reuse = self.options.ordering == Ordering::Any;
        let recorded = Recorded { tape: &self.tape, rules: &self.rules, taken: &self.taken, reuse };
        let (tape, session) = (&self.tape, self.sessions.get(request.session));
        let agrees = |exchange: u32, values: &[(&str, String)]| {
            let process = process_of(tape, exchange);
            let agrees = |(placeholder, live): &(&str, String)| {
                session.is_none_or(|session| session.agrees(process, placeholder, live))
            };
            values.iter().all(agrees)
        };
        let rules = &self.rules;
        let seen = |value: &str| is_known(session, rules, value);
        let sought = self.index.seek(request, key, recorded, &agrees, &seen);
        match self.choose_kept(request, &sought) {
            Choice::Fresh(exchange) => {
                self.take(exchange, request, &sought);
                self.mirror(request);
                self.start(request, Some(exchange), true, now);
            }
            Choice::Again(exchange) => {
                self.report.repeats += 1;
                self.mirror(request);
                self.start(request, Some(exchange), false, now);
            }
            Choice::Miss(why) => {
                // It is as large as the request, and has done its work.
                drop(sought);
                let by_rule =
                    matches!(why, Why::Unknown) && (!self.has_live_server() || self.is_known_probe(request));
                if by_rule && self.answer_by_rule(request, now) {
                    return;
                }
                if let Err(why) = self.pass_on(request, why) {
                    self.miss(request, why);
                }
            }
        }
        self.keep_for_live(request);
    }

    /// The first request of a session settles its era and the recorded session it stands for.
    fn greet(&mut self, request: &Request<'_>, now: u64) {
        let Some(session) = self.sessions.get_mut(request.session) else { return };
        if request.method == "initialize" {
            let capabilities =
                request.view.params.and_then(|params| member(request.text, params, "capabilities"));
            session.capabilities = capabilities.map(|span| span.of(request.text).to_owned());
        }
        // A probe that a legacy server refuses says nothing about the client behind it.
        let refused = request.method == "server/discover" && self.tape.modern_versions.is_empty();
        if session.era.is_some() || refused {
            return;
        }
        session.era = Some(request.era);
        let n = (session.ordinal)(request.era);
        let same_era = self.tape.conns.iter().enumerate().filter(|(_, conn)| conn.era == Some(request.era));
        session.stands_for = same_era.map(|(index, _)| u32::try_from(index).unwrap_or(u32::MAX)).nth(n);
        let start = session.stands_for.and_then(|conn| self.tape.conns.get(usize::try_from(conn).ok()?));
        let start = start.map(|conn| conn.start.clone()).unwrap_or_default();
        self.release(request.session, &start, now);
    }

    fn take(&mut self, exchange: u32, request: &Request<'_>, Sought { key, place }: &Sought) {
        if let Some(taken) = self.taken.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
            *taken = true;
        }
        self.report.hits += 1;
        let Some(queue) = self.index.queue_mut(*place) else { return };
        queue.last = Some(exchange);
        let Some(recorded) = queue.secrets.get(&exchange).filter(|_| !key.secrets.is_empty()) else { return };
        let Some(session) = self.sessions.get_mut(request.session) else { return };
        let process = process_of(&self.tape, exchange);
        let values = key.values();
        for (path, placeholder) in recorded {
            if let Some(live) = values.get(path) {
                session.saw(process, placeholder, live);
            }
        }
    }

    /// Starts playing an exchange (or an unrecorded listen) to a request.
    pub(super) fn start(&mut self, request: &Request<'_>, exchange: Option<u32>, first: bool, now: u64) {
        self.play(request, exchange, first, None, now);
    }

    /// Starts playing an exchange that is about a live task.
    pub(super) fn start_for_task(
        &mut self,
        request: &Request<'_>,
        exchange: u32,
        first: bool,
        task: usize,
        now: u64,
    ) {
        self.play(request, Some(exchange), first, Some(task), now);
    }

    fn play(
        &mut self,
        request: &Request<'_>,
        exchange: Option<u32>,
        first: bool,
        task: Option<usize>,
        now: u64,
    ) {
        let course = self.course(request, exchange, now);
        let Some(session) = self.sessions.get_mut(request.session) else { return };
        let meta = |name| mcp::meta(request.text, &request.view, name).map(|span| span.of(request.text));
        let (log_level, capabilities) = match request.era {
            Era::Modern => {
                let level = meta(mcp::LOG_LEVEL).and_then(|level| mcp::severity(&string::decode(level)));
                (level, meta(mcp::CAPABILITIES).map(str::to_owned))
            }
            Era::Legacy => (Some(0), session.capabilities.clone()),
        };
        let asks_version = request.method == "initialize" && self.options.rewrite_version;
        let version = request.view.params.filter(|_| asks_version);
        let version = version.and_then(|params| member(request.text, params, "protocolVersion"));
        self.next_play += 1;
        let number = self.next_play;
        let other = session.running.insert(request.id.to_owned(), number);
        // Over HTTP clients may share a session, and their ids are their own.
        if other.is_some() && !self.options.http {
            let id = self.rules.told(request.id);
            self.warn(format!(
                "the client asked with id {id} while another request of that id was open: both are answered, and a \
                 cancellation is taken for the later one"
            ));
        }
        let listen = request.method == "subscriptions/listen";
        let play = Play {
            session: request.session,
            exchange,
            id: request.id.to_owned(),
            token: live::progress_token(request.text, &request.view).map(str::to_owned),
            log_level,
            capabilities,
            era: request.era,
            filter: if listen { key::filter_entries(request.text, &request.view) } else { Vec::new() },
            listen,
            at: 0,
            not_before: 0,
            deadline: None,
            end_at: None,
            asks: HashMap::new(),
            cancelled: false,
            first,
            version: version.map(|span| span.of(request.text).to_owned()),
            batch: request.batch,
            carrier: request.carrier,
            course,
            task,
        };
        self.plays.insert(number, play);
        if let Some(exchange) = exchange.filter(|_| request.era == Era::Modern) {
            self.remember_questions(request, exchange);
        }
        self.advance(number, now);
        if listen {
            self.tasks_move();
        }
    }

    fn note_level(&mut self, request: &Request<'_>) {
        let Some(session) = self.sessions.get_mut(request.session).filter(|_| request.era == Era::Legacy)
        else {
            return;
        };
        let target = || mcp::target(&request.method, request.text, &request.view);
        match request.method.as_str() {
            "logging/setLevel" => session.log_level = target().and_then(|level| mcp::severity(&level)),
            "resources/subscribe" => session.subscribed.extend(target()),
            "resources/unsubscribe" => {
                if let Some(uri) = target() {
                    session.subscribed.remove(&uri);
                }
            }
            _ => {}
        }
    }

    fn notification(&mut self, session: usize, text: &str, view: &View, now: u64) {
        let method = view.method_name(text).into_owned();
        if self.notify_live(session, &method, text, view) {
            return;
        }
        if method == "notifications/cancelled" {
            let id = view.params.and_then(|params| member(text, params, "requestId"));
            return id.into_iter().for_each(|id| self.cancel_by_id(session, id.of(text), now));
        }
        let Some(live) = self.sessions.get_mut(session) else { return };
        let nth = live.notifications.entry(method.clone()).or_default();
        let key = (method, *nth);
        *nth += 1;
        let conn = live.stands_for.and_then(|conn| self.tape.conns.get(usize::try_from(conn).ok()?));
        let items = conn.and_then(|conn| conn.after_notification.get(&key)).cloned().unwrap_or_default();
        self.release(session, &items, now);
    }

    /// The client answers a question of the server.
    fn reply(&mut self, session: usize, text: &str, view: &View, now: u64) {
        let id = view.id.map_or("", |id| id.of(text));
        if self.reply_to_live(session, id, text, view) {
            return;
        }
        let Some((number, ask)) = self.sessions.get_mut(session).and_then(|session| session.asked.remove(id))
        else {
            let id = self.rules.told(id);
            return self
                .warn(format!("the client answered id {id}, and no question of the server has it open"));
        };
        let Some(play) = self.plays.get_mut(&number) else {
            return self.reply_to_nobody(ask, text, view);
        };
        play.asks.insert(ask, Asked::Answered);
        play.deadline = None;
        let task = play.task;
        self.task_replied(ask, task);
        let Some(play) = self.plays.get_mut(&number) else { return };
        let recorded = play.exchange.and_then(|exchange| self.tape.exchange(exchange)).and_then(|exchange| {
            exchange.steps.iter().find_map(|step| match step {
                Step::Await(question, answer) if *question == ask => Some(*answer),
                _ => None,
            })
        });
        let difference = recorded.and_then(|answer| self.reply_difference(ask, answer, text, view));
        if let Some(difference) = difference {
            if self.options.strict {
                return self.fail_play(number, code::MISS, &difference, WITHOUT_STRICT);
            }
            self.warn(difference);
        }
        self.advance(number, now);
    }

    /// A warning for stderr and the report, said once. Some name what a client sent, which may be ever new.
    pub(super) fn warn(&mut self, warning: String) {
        let told = &mut self.report.warnings;
        if told.len() > WARNINGS || told.contains(&warning) {
            return;
        }
        let warning = if told.len() == WARNINGS {
            "what else there was to say is left out".to_owned()
        } else {
            warning
        };
        told.push(warning.clone());
        self.out.push(Output::Note(warning));
    }

    /// The name of the server that is played.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.tape.server
    }

    /// How the recorded server ended, for the note at the end of the stream.
    #[must_use]
    pub fn recorded_exit(&self, session: usize) -> Option<crate::cassette::Exit> {
        let conn = self.sessions.get(session)?.ended_with?;
        self.tape.conns.get(usize::try_from(conn).ok()?)?.exit
    }
}
