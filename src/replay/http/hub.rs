//! The player's side: knows which session and which open request each message goes to.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crossbeam_channel::Sender;

use super::behind::{Behind, News};
use super::checks::{Incoming, Refused};
use super::ids::Issuer;
use super::logs::Logs;
use super::sessions::no_session;
use super::{Offer, refusals};
use crate::http::Headers;
use crate::mcp::{Era, code};
use crate::replay::Aside;
use crate::replay::facts::Kind;
use crate::replay::key::Key;
use crate::replay::player::{Framing, Output, Part, Player};
use crate::replay::refused::Refusal;

/// Said once.
const FORGOTTEN: &str =
    "very much was said on streams that clients may come back to: the oldest ones are forgotten";

/// What a connection tells the player.
pub(super) enum Command {
    /// A message was posted. `fields` are there where there is a live server, which will need them.
    Post {
        carrier: u64,
        connection: u64,
        session: Option<String>,
        incoming: Incoming,
        text: String,
        key: Option<Key>,
        fields: Fields,
        events: Events,
    },
    /// The live server has said something.
    Live(News),
    /// A legacy client opens its standalone stream.
    Open { carrier: u64, session: Option<String>, last: Option<String>, fields: Fields, events: Events },
    /// A client of HTTP+SSE (2024-11-05) opens its only stream.
    OpenOld { carrier: u64, events: Events },
    /// A client of HTTP+SSE posts a message, which is answered on its stream.
    PostOld { connection: u64, session: String, body: Vec<u8>, events: Events },
    /// A legacy client ends its session.
    Delete { session: Option<String>, fields: Fields, events: Events },
    /// The client of a request or stream has left.
    Left { carrier: u64 },
    /// A body was refused.
    Refused { body: Vec<u8>, refusal: Refusal },
    /// A message was refused that nobody has read.
    Unread { why: String, hint: &'static str },
    /// The client does not take the answer to a request as it comes: these exchanges of the tape.
    Unacceptable { carrier: u64, body: Vec<u8>, answers: Vec<u32> },
    /// The user should know.
    Warn(&'static str),
}

/// The head of a request, for the live server.
pub(super) type Fields = Option<Arc<Headers>>;

/// Takes what a connection is to send. What goes together comes together.
pub(super) type Events = Sender<Vec<Event>>;

/// What goes to each connection, in the order of their requests.
pub(super) type Sent = BTreeMap<u64, (Events, Vec<Event>)>;

/// What a connection is to send.
#[derive(Clone, Debug)]
pub(super) enum Event {
    /// This status, and nothing else.
    Status(u16),
    /// An error of ours.
    Refused(Refused),
    /// The answer opens this session.
    Session(String),
    /// The stream is there.
    Opened,
    /// HTTP+SSE: where to post.
    Endpoint(String),
    /// How the answer goes out.
    Begins(Box<Framing>),
    /// A message of the stream.
    Message(String, Part),
    /// The same, with an id to come back with.
    Numbered(String, String, Part),
    /// An id alone.
    Prime(String, Option<u64>),
    /// There is no more, and no answer; the connection breaks off or not.
    Over { cut: bool },
    /// The head of the answer; `mute`: and nothing ever follows it.
    Head { mute: bool },
    /// An answer that is no message.
    Whole { status: u16, headers: Vec<(String, String)>, body: String },
    /// The next message goes out at so many bytes per second.
    Slow(u64),
    /// The answer goes out up to its half.
    Half(String),
    /// The answer goes out, and then the connection closes.
    Hangup(String),
    /// The connection is reset.
    Reset,
    /// The replay ends.
    Closing,
    /// The client has left.
    Gone,
}

/// A live session that can be told something.
#[derive(Default)]
pub(super) struct Live {
    pub(super) id: Option<String>,
    /// The request that is its standalone stream, and its connection.
    pub(super) stream: Option<(u64, Events)>,
    /// What came before there was a stream.
    backlog: Vec<String>,
    /// Everything goes to the stream (HTTP+SSE).
    pub(super) old: bool,
    /// The bytes per second of the next message.
    pub(super) rate: Option<u64>,
    /// When something last came for it.
    pub(super) used: u64,
}

impl Live {
    pub(super) fn tell(&mut self, text: String) {
        match &self.stream {
            Some((_, events)) => {
                let slow = self.rate.take().map(Event::Slow);
                let message = Event::Message(text, Part::Inner);
                let _ = events.send(slow.into_iter().chain([message]).collect());
            }
            None => self.backlog.push(text),
        }
    }

    fn open(&mut self, carrier: u64, events: Events, first: Event) {
        let told = self.backlog.drain(..).map(|text| Event::Message(text, Part::Inner));
        let _ = events.send(std::iter::once(first).chain(told).collect());
        self.stream = Some((carrier, events));
    }
}

/// A request that waits for its answer.
pub(super) struct Waiter {
    pub(super) session: usize,
    pub(super) events: Events,
    pub(super) opens: bool,
}

pub(super) struct Hub {
    pub(super) player: Player,
    pub(super) offer: Arc<Offer>,
    /// What the user is told.
    pub(super) aside: Aside,
    pub(super) ids: HashMap<String, usize>,
    pub(super) lives: HashMap<usize, Live>,
    pub(super) waiters: HashMap<u64, Waiter>,
    /// What was said on streams that clients can come back to.
    pub(super) logs: Logs,
    /// All modern clients: they have no sessions, and share what was recorded.
    pub(super) modern: Option<usize>,
    /// All clients of a server that issued no sessions.
    pub(super) anonymous: Option<usize>,
    counters: Arc<[AtomicUsize; 2]>,
    /// A fault ends the program with this status.
    pub(super) exit: Option<u8>,
    /// How many sessions clients wanted to end.
    pub(super) deletes: usize,
    /// How many messages came for sessions.
    pub(super) clock: u64,
    pub(super) issuer: Issuer,
    /// The session of an `initialize` that was led elsewhere.
    pub(super) led: Option<usize>,
    /// The way to the live server, where there is one.
    pub(super) behind: Option<Behind>,
}

impl Hub {
    pub(super) fn new(player: Player, offer: Arc<Offer>, aside: Aside, behind: Option<Behind>) -> Self {
        Self {
            player,
            offer,
            aside,
            ids: HashMap::new(),
            lives: HashMap::new(),
            waiters: HashMap::new(),
            logs: Logs::default(),
            modern: None,
            anonymous: None,
            counters: Arc::default(),
            exit: None,
            deletes: 0,
            clock: 0,
            issuer: Issuer::default(),
            led: None,
            behind,
        }
    }

    pub(super) fn into_player(self) -> Player {
        self.player
    }

    pub(super) fn next_deadline(&self) -> Option<u64> {
        self.player.next_deadline()
    }

    pub(super) fn tick(&mut self, now: u64) {
        self.player.tick(now);
    }

    /// A session of the player. It stands for the recorded one that was as many sessions of its era later than the
    /// first as it is in this process.
    pub(super) fn new_session(&mut self) -> usize {
        let counters = Arc::clone(&self.counters);
        let ordinal = move |era| match (&*counters, era) {
            ([legacy, _], Era::Legacy) => legacy.fetch_add(1, Ordering::Relaxed),
            ([_, modern], Era::Modern) => modern.fetch_add(1, Ordering::Relaxed),
        };
        self.player.open(Box::new(ordinal))
    }

    pub(super) fn take(&mut self, command: Command, now: u64) {
        match command {
            Command::Post { carrier, connection, session, incoming, text, key, fields, events } => {
                if incoming.opens {
                    self.player.recovers(connection);
                }
                let named = session;
                let session = match self.session_of(incoming, named.as_deref()) {
                    Ok(session) => session,
                    Err(refused) => {
                        self.stray(text.as_bytes(), connection, named.as_deref(), &refused);
                        return drop(events.send(vec![Event::Refused(refused)]));
                    }
                };
                self.touch(session);
                if let (Some(behind), Some(fields)) = (&mut self.behind, fields) {
                    behind.fields.insert(carrier, fields);
                }
                if incoming.asks {
                    let opens = incoming.opens && self.offer.sessions;
                    self.waiters.insert(carrier, Waiter { session, events, opens });
                    self.player.receive_as(carrier, session, &text, incoming.view, key, now);
                } else {
                    self.player.receive_as(carrier, session, &text, incoming.view, key, now);
                    let _ = events.send(vec![Event::Status(202)]);
                }
            }
            Command::Open { session, last: Some(last), events, .. } if self.offer.faithful => {
                if let Err(refused) = self.resume(session.as_deref(), &last, &events) {
                    let _ = events.send(vec![Event::Refused(refused)]);
                }
            }
            Command::Open { carrier, session, fields, events, .. } => {
                match self.stream_of(session.as_deref()) {
                    Ok((number, live)) => {
                        live.open(carrier, events, Event::Opened);
                        self.behind.iter_mut().for_each(|behind| behind.stream(number, fields.as_ref()));
                    }
                    Err(event) => drop(events.send(vec![event])),
                }
            }
            Command::Live((session, id, told)) => told.to(&mut self.player, session, id.as_deref()),
            Command::OpenOld { carrier, events } => {
                let Some(id) = self.issuer.issue() else { return };
                let session = self.new_session();
                self.player.pipe(session);
                self.ids.insert(id.clone(), session);
                let mut live = Live { id: Some(id.clone()), old: true, ..Live::default() };
                live.open(carrier, events, Event::Endpoint(id));
                self.lives.insert(session, live);
            }
            Command::PostOld { connection, session, body, events } => {
                let Some(&session) = self.ids.get(&session) else {
                    self.stray(&body, connection, Some(&session), &no_session());
                    return drop(events.send(vec![Event::Refused(no_session())]));
                };
                let _ = events.send(vec![Event::Status(202)]);
                self.player.receive(session, &body, now);
            }
            Command::Delete { session, fields, events } => {
                let event = self.delete(session.as_deref(), &fields);
                let _ = events.send(vec![event]);
            }
            Command::Left { carrier } => self.left(carrier, now),
            Command::Refused { body, refusal } => self.player.refused(&body, &refusal),
            Command::Unread { why, hint } => self.player.refused_unread(why, hint),
            Command::Unacceptable { carrier, body, answers } => {
                self.player.not_given(carrier, answers, now);
                self.left(carrier, now);
                self.player.refused(&body, &refusals::of_accept());
            }
            Command::Warn(what) => self.player.warn(what.to_owned()),
        }
    }

    /// A client comes back for the rest of a stream.
    fn resume(&mut self, session: Option<&str>, last: &str, events: &Events) -> Result<(), Refused> {
        let session = match self.offer.sessions {
            true => Some(self.known(session)?),
            false => self.anonymous,
        };
        let (carrier, seen) = last.split_once('-').unwrap_or_default();
        let log = carrier.parse().ok().and_then(|carrier| self.logs.get_mut(carrier));
        let (Some(log), Ok(seen)) = (log.filter(|log| Some(log.session) == session), seen.parse::<usize>())
        else {
            return Err(Refused::new(400, "null", code::INVALID_REQUEST, "Last-Event-ID is not known here"));
        };
        log.resume(carrier, seen, events);
        Ok(())
    }

    fn left(&mut self, carrier: u64, now: u64) {
        if let Some(waiter) = self.waiters.remove(&carrier) {
            self.player.left(carrier, now);
            // Who was told its id may come back to it.
            let live = self.lives.get(&waiter.session).filter(|_| waiter.opens);
            if live.is_some_and(|live| live.id.is_none()) {
                self.forget(waiter.session);
            }
            return;
        }
        let streams = |live: &Live| live.stream.as_ref().is_some_and(|(stream, _)| *stream == carrier);
        let Some((&session, live)) = self.lives.iter_mut().find(|(_, live)| streams(live)) else { return };
        live.stream = None;
        if live.old {
            self.player.left_session(session, now);
            self.forget(session);
        }
    }

    /// Hands what the player decided to the connections and to the user.
    pub(super) fn pass_on(&mut self) {
        let outputs: Vec<Output> = self.player.outputs().collect();
        let mut sent = Sent::new();
        for output in outputs {
            match output {
                Output::Note(text) => (self.aside.note)(&text),
                Output::Detail(text) => (self.aside.detail)(&text),
                Output::Onward { session, carrier, id, text } => {
                    self.behind
                        .iter_mut()
                        .for_each(|behind| behind.post(session, carrier, id.clone(), text.clone()));
                }
                Output::HangUp { session, id } => {
                    self.behind.iter().for_each(|behind| behind.hang_up(session, &id));
                }
                Output::Fault(effect) => self.carry_out(&mut sent, effect),
                Output::Begins { carrier, framing } => {
                    self.begin(&mut sent, carrier, framing);
                }
                Output::Pause { carrier } => {
                    if self.logs.has(carrier) {
                        self.push(&mut sent, carrier, Event::Over { cut: false });
                        self.waiters.remove(&carrier);
                    }
                }
                Output::Over { carrier, cut } => {
                    self.logs.end(carrier, cut);
                    self.push(&mut sent, carrier, Event::Over { cut });
                    if let Some(waiter) = self.waiters.remove(&carrier).filter(|waiter| waiter.opens) {
                        let live = self.lives.remove(&waiter.session);
                        live.and_then(|live| self.ids.remove(&live.id?));
                        self.led = Some(waiter.session);
                    }
                }
                Output::Message { session, carrier, text, part, .. } => {
                    let carrier = carrier.filter(|_| !self.lives.get(&session).is_some_and(|live| live.old));
                    let Some(carrier) = carrier else {
                        if let Some(live) = self.lives.get_mut(&session) {
                            live.tell(text);
                        }
                        continue;
                    };
                    if part != Part::Inner {
                        self.settle_session(&mut sent, carrier, &text);
                    }
                    let event = self.logs.say(carrier, text, part);
                    self.push(&mut sent, carrier, event);
                    if part != Part::Inner {
                        self.waiters.remove(&carrier);
                    }
                }
                Output::EndOfStream { session } => {
                    let open = self.waiters.iter().filter(|(_, waiter)| waiter.session == session);
                    let open: Vec<u64> = open.map(|(carrier, _)| *carrier).collect();
                    for carrier in open {
                        self.push(&mut sent, carrier, Event::Over { cut: true });
                        self.waiters.remove(&carrier);
                    }
                    self.forget(session);
                    (self.aside.note)(
                        "the recorded server ended here: the session and its open requests end",
                    );
                }
            }
        }
        for (events, list) in sent.into_values() {
            let _ = events.send(list);
        }
        if let Some(behind) = &mut self.behind {
            behind.fields.retain(|carrier, _| self.waiters.contains_key(carrier));
        }
    }

    fn begin(&mut self, sent: &mut Sent, carrier: u64, framing: Framing) {
        let prime = (framing.primed, framing.retry);
        let numbered = self.offer.faithful && framing.resumable;
        // A stream may go out before its answer is there, and its head names the session.
        if framing.kind == Kind::Sse && !framing.bare {
            self.name_session(sent, carrier);
        }
        self.push(sent, carrier, Event::Begins(Box::new(framing)));
        let Some(waiter) = self.waiters.get(&carrier).filter(|_| numbered) else { return };
        if self.logs.begin(carrier, waiter.session) {
            self.player.warn(FORGOTTEN.to_owned());
        }
        if let (true, retry) = prime {
            self.push(sent, carrier, Event::Prime(format!("{carrier}-0"), retry));
        }
    }

    pub(super) fn push(&self, sent: &mut Sent, carrier: u64, event: Event) {
        if let Some(waiter) = self.waiters.get(&carrier) {
            sent.entry(carrier).or_insert_with(|| (waiter.events.clone(), Vec::new())).1.push(event);
        }
    }

    /// The replay ends: what is due goes out, and then all answers end.
    pub(super) fn end(&mut self, now: u64) {
        let mut sessions: Vec<usize> = self.lives.keys().copied().chain(self.modern).collect();
        sessions.sort_unstable();
        sessions.into_iter().for_each(|session| self.player.end_of_input(session, now));
        self.player.settle_refused();
        self.pass_on();
        self.behind.iter_mut().for_each(Behind::end);
        self.tell_all(&Event::Closing);
    }

    /// The program ends here and now: all connections break off.
    pub(super) fn abandon(&mut self) {
        self.player.settle_refused();
        self.pass_on();
        self.tell_all(&Event::Over { cut: true });
    }

    fn tell_all(&self, event: &Event) {
        let streams = self.lives.values().filter_map(|live| live.stream.as_ref().map(|(_, events)| events));
        let waiting = self.waiters.values().map(|waiter| &waiter.events);
        for events in waiting.chain(streams).chain(self.logs.followers()) {
            let _ = events.send(vec![event.clone()]);
        }
    }
}
