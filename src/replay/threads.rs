//! Puts the messages of a cassette together: which answers which, and which request each of the others belongs to.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::facts::GET;
use super::live;
use super::tape::{Conn, Exchange, Item, Outcome, Step, Tape, index_of};
use crate::cassette::Side;
use crate::jsonrpc::canonical;
use crate::jsonrpc::message::{Shape, member};
use crate::mcp;

impl Tape {
    /// Which message answers which.
    pub(super) fn pair(&mut self) -> Pairs {
        let mut pairs = Pairs { links: vec![NONE; self.items.len()], ..Pairs::default() };
        let text = &self.text;
        let (mut client, mut server) = (Waiting::default(), Waiting::default());
        // The unanswered requests of each HTTP exchange.
        let mut open: HashMap<u32, Vec<(Cow<'_, str>, u32)>> = HashMap::new();
        let (mut strays, mut doubles) = (Vec::new(), Vec::new());
        for (index, item) in self.items.iter().enumerate() {
            let at = index_of(index);
            let id: Id<'_> = (item.conn, canonical::id(item.view.id.map_or("", |id| id.of(text))));
            let linked = match (item.from, item.view.shape) {
                // A client's ping belongs to no conversation: it is answered as it comes, and nothing follows from it.
                (Side::Client, Shape::Request) if item.view.method_name(text) == "ping" => {
                    client.push(id.clone(), PING);
                    if item.exchange != 0 {
                        open.entry(item.exchange).or_default().push((id.1, PING));
                    }
                    None
                }
                (Side::Client, Shape::Request) => {
                    let era = mcp::era(text, &item.view);
                    let exchange = index_of(self.exchanges.len());
                    let alone = client.push(id.clone(), exchange);
                    // Over HTTP the exchange tells whose an answer is.
                    if !alone && item.exchange == 0 {
                        doubles.push(item.record);
                    }
                    if item.exchange != 0 {
                        pairs.posts.entry(item.exchange).or_default().push(exchange);
                        open.entry(item.exchange).or_default().push((id.1, exchange));
                    }
                    pairs.answered_at.push(NONE);
                    self.exchanges.push(Exchange {
                        request: at,
                        conn: item.conn,
                        era,
                        steps: Vec::with_capacity(1),
                        outcome: Outcome::Open,
                        after: Vec::new(),
                    });
                    Some(exchange)
                }
                (Side::Server, Shape::Response) => {
                    let exchange = match open.get_mut(&item.exchange) {
                        // What an exchange answers is what it asked, also where the id is null or another one.
                        Some(open) if !open.is_empty() => {
                            let own = open.iter().position(|(asked, _)| *asked == id.1).unwrap_or(0);
                            let (asked, exchange) = open.remove(own);
                            client.take(&(item.conn, asked), exchange);
                            Some(exchange)
                        }
                        Some(_) => None,
                        None => client.pop(&id),
                    };
                    match exchange {
                        Some(PING) => None,
                        Some(exchange) => {
                            set(&mut pairs.answered_at, exchange, at);
                            Some(exchange)
                        }
                        None => {
                            // Without an id it answers what was no message.
                            if id.1 != "null" {
                                strays.push(item.record);
                            }
                            None
                        }
                    }
                }
                (Side::Server, Shape::Request) => {
                    server.push(id, at);
                    None
                }
                (Side::Client, Shape::Response) => {
                    let ask = server.pop(&id);
                    if let Some(ask) = ask {
                        set(&mut pairs.links, ask, at);
                    }
                    ask
                }
                (Side::Client, Shape::Notification)
                    if item.view.method_name(text) == "notifications/cancelled" =>
                {
                    let id = item.view.params.and_then(|params| member(text, params, "requestId"));
                    id.and_then(|id| client.first(&(item.conn, canonical::id(id.of(text)))))
                }
                _ => None,
            };
            if let Some(linked) = linked {
                set(&mut pairs.links, at, linked);
            }
        }
        self.notes.extend(note(
            &strays,
            "no open request is answered",
            "a second answer, or one to an unknown id, is not replayed",
        ));
        self.notes.extend(note(
            &doubles,
            "the id of the request was in use",
            "requests with equal ids get their answers in recorded order",
        ));
        pairs
    }

    /// Puts every message behind the request it belongs to.
    pub(super) fn thread(&mut self, pairs: &Pairs) {
        let mut threads: Vec<Thread> = Vec::new();
        threads.resize_with(self.conns.len(), Thread::default);
        let mut running = vec![false; self.exchanges.len()];
        let mut last_client = vec![0; self.conns.len()];
        for (index, item) in self.items.iter().enumerate().filter(|(_, item)| item.from == Side::Client) {
            set(&mut last_client, item.conn, index_of(index));
        }
        for index in 0..self.items.len() {
            let at = index_of(index);
            let Some(item) = self.items.get(index).copied() else { continue };
            let Some(thread) = usize::try_from(item.conn).ok().and_then(|conn| threads.get_mut(conn)) else {
                continue;
            };
            match (item.from, item.view.shape) {
                (Side::Client, Shape::Request) => {
                    let Some(exchange) = pairs.link(at) else { continue };
                    thread.anchor = Anchor::Exchange(exchange);
                    if item.view.method_name(&self.text) == "subscriptions/listen" {
                        let id = item.view.id.map_or("", |id| id.of(&self.text));
                        thread.listens.insert(canonical::id(id).into_owned(), exchange);
                        thread.listening.insert(exchange);
                    } else {
                        let end = get(&pairs.answered_at, exchange).unwrap_or(u32::MAX);
                        thread.open.insert((end, u32::MAX - at, exchange));
                        set(&mut running, exchange, true);
                        if let Some(token) = live::progress_token(&self.text, &item.view) {
                            thread.tokens.insert(canonical::id(token).into_owned(), exchange);
                        }
                    }
                }
                (Side::Client, Shape::Notification) => {
                    if let Some(exchange) = pairs.link(at) {
                        self.push_step(exchange, Step::Cancelled);
                    } else if let method = item.view.method_name(&self.text).into_owned()
                        && !mcp::is_incidental(&method)
                    {
                        let nth = thread.notifications.entry(method.clone()).or_default();
                        thread.anchor = Anchor::Notification(method, *nth);
                        *nth += 1;
                    }
                }
                (Side::Client, Shape::Response) => {
                    let Some(ask) = pairs.link(at) else { continue };
                    match self.owner.get(&ask).filter(|exchange| get(&running, **exchange) == Some(true)) {
                        Some(exchange) => self.push_step(*exchange, Step::Await(ask, at)),
                        None => drop(self.replies.insert(ask, at)),
                    }
                }
                (Side::Server, Shape::Response) => {
                    let Some(exchange) = pairs.link(at) else { continue };
                    let request = self.exchange(exchange).map_or(0, |exchange| exchange.request);
                    let listen = thread.listening.contains(&exchange);
                    if listen && thread.anchor != Anchor::Exchange(exchange) {
                        self.owner.insert(at, exchange);
                        // It has its result, which only comes at another place.
                        self.set_answered(exchange);
                        if get(&last_client, item.conn).is_none_or(|last| last < at) {
                            self.conn_mut(item.conn).at_end.push(at);
                        } else {
                            let anchor = thread.anchor.clone();
                            self.release_after(item.conn, &anchor, at);
                        }
                    } else {
                        self.push_step(exchange, Step::Answer(at));
                    }
                    thread.open.remove(&(at, u32::MAX - request, exchange));
                    set(&mut running, exchange, false);
                }
                (Side::Server, Shape::Request) => {
                    if item.view.method_name(&self.text) == "ping" {
                        continue;
                    }
                    // A question is part of the request that is answered next after the client's reply: the server
                    // waits for the one to finish the other.
                    let reply = pairs.link(at).unwrap_or(at);
                    match pairs.post(&item).or_else(|| thread.owner_of(reply)) {
                        Some(exchange) => {
                            self.owner.insert(at, exchange);
                            self.push_step(exchange, Step::Ask(at));
                        }
                        None => {
                            let anchor = thread.anchor.clone();
                            self.release_after(item.conn, &anchor, at);
                        }
                    }
                }
                (Side::Server, Shape::Notification) => {
                    self.thread_notification(thread, &running, pairs.post(&item), at, &item);
                }
                _ => {}
            }
        }
    }

    /// Puts a notification where it belongs; `post` is the exchange of the stream that it came on.
    fn thread_notification(
        &mut self,
        thread: &Thread,
        running: &[bool],
        post: Option<u32>,
        at: u32,
        item: &Item,
    ) {
        let method = item.view.method_name(&self.text).into_owned();
        if method == "notifications/progress" {
            // Without a running request of its token it is late, and no client may be sent it.
            let token = live::token_of_progress(&self.text, &item.view).map(canonical::id);
            let own = post.filter(|post| {
                let request = self.request(*post);
                let asked = request.and_then(|request| live::progress_token(&self.text, &request.view));
                token == asked.map(canonical::id)
            });
            let known = token.and_then(|token| thread.tokens.get(&*token).copied());
            if let Some(exchange) = own.or(known)
                && get(running, exchange) == Some(true)
            {
                self.push_step(exchange, Step::Send(at));
            }
            return;
        }
        if method.starts_with("notifications/tasks") {
            // Part of a task's timeline, which is played by its own rules.
            return;
        }
        let subscription = live::subscription(&self.text, &item.view).or_else(|| {
            let cancelled = method == "notifications/cancelled";
            item.view.params.filter(|_| cancelled).and_then(|params| member(&self.text, params, "requestId"))
        });
        let listen = match post {
            Some(post) => thread.listening.contains(&post).then_some(post),
            None => {
                subscription.and_then(|id| thread.listens.get(&*canonical::id(id.of(&self.text))).copied())
            }
        };
        if let Some(listen) = listen {
            self.owner.insert(at, listen);
            if thread.anchor == Anchor::Exchange(listen)
                || method == "notifications/subscriptions/acknowledged"
            {
                self.push_step(listen, Step::Send(at));
            } else {
                let anchor = thread.anchor.clone();
                self.release_after(item.conn, &anchor, at);
            }
            return;
        }
        let owner = match post {
            Some(post) => Some(post).filter(|post| get(running, *post) == Some(true)),
            // What came on a stream of its own has nothing to do with the requests that were running.
            None if item.exchange == GET => None,
            None => thread.owner_of(at),
        };
        match owner {
            Some(exchange) => self.push_step(exchange, Step::Send(at)),
            None => {
                let anchor = thread.anchor.clone();
                self.release_after(item.conn, &anchor, at);
            }
        }
    }

    fn push_step(&mut self, exchange: u32, step: Step) {
        if matches!(step, Step::Answer(_)) {
            self.set_answered(exchange);
        }
        let resumed = match step {
            Step::Send(item) | Step::Ask(item) | Step::Answer(item) => self.item(item).copied(),
            _ => None,
        };
        let resumed = resumed.is_some_and(|item| self.wire.was_resumed(item.exchange, item.record));
        if let Some(exchange) = self.exchanges.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
            if resumed {
                exchange.steps.push(Step::Resumed);
            }
            exchange.steps.push(step);
        }
    }

    fn set_answered(&mut self, exchange: u32) {
        if let Some(exchange) = self.exchanges.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
            exchange.outcome = Outcome::Answered;
        }
    }

    fn conn_mut(&mut self, conn: u32) -> &mut Conn {
        let index = usize::try_from(conn).unwrap_or(usize::MAX).min(self.conns.len());
        if index == self.conns.len() {
            self.conns.push(Conn::default());
        }
        // The line above made sure that there is one at `index`.
        #[allow(clippy::indexing_slicing)]
        &mut self.conns[index]
    }

    fn release_after(&mut self, conn: u32, anchor: &Anchor, item: u32) {
        match anchor {
            Anchor::Start => self.conn_mut(conn).start.push(item),
            Anchor::Notification(method, nth) => {
                let key = (method.clone(), *nth);
                self.conn_mut(conn).after_notification.entry(key).or_default().push(item);
            }
            Anchor::Exchange(exchange) => {
                if let Some(exchange) =
                    self.exchanges.get_mut(usize::try_from(*exchange).unwrap_or(usize::MAX))
                {
                    exchange.after.push(item);
                }
            }
        }
    }
}

/// What stands in the place of an index that is not there.
const NONE: u32 = u32::MAX;

/// Stands for a ping among the requests that wait for their answers.
const PING: u32 = NONE - 1;

/// What belongs together.
#[derive(Default)]
pub(super) struct Pairs {
    /// By item, [`NONE`] where there is none: the exchange that a client's request begins, a server's response answers
    /// or a cancellation ends; the question that a client's response answers, and the response to a server's question.
    links: Vec<u32>,
    /// The answer of each exchange.
    answered_at: Vec<u32>,
    /// The exchanges of the tape that an HTTP exchange asked for; several where it posted a batch.
    posts: HashMap<u32, Vec<u32>>,
}

impl Pairs {
    /// The exchange of the tape that a message came on.
    fn post(&self, item: &Item) -> Option<u32> {
        self.posts.get(&item.exchange)?.first().copied()
    }

    fn link(&self, item: u32) -> Option<u32> {
        get(&self.links, item).filter(|link| *link != NONE)
    }
}

/// A connection, and an id in one spelling.
type Id<'t> = (u32, Cow<'t, str>);

/// Requests of one direction that wait for their response, by connection and id; those with equal ids in order.
#[derive(Default)]
struct Waiting<'t> {
    first: HashMap<Id<'t>, u32>,
    later: HashMap<Id<'t>, VecDeque<u32>>,
}

impl<'t> Waiting<'t> {
    /// Adds a request; `false` when another with its id waits already.
    fn push(&mut self, id: Id<'t>, request: u32) -> bool {
        match self.first.entry(id) {
            Entry::Vacant(place) => {
                place.insert(request);
                true
            }
            Entry::Occupied(place) => {
                self.later.entry(place.key().clone()).or_default().push_back(request);
                false
            }
        }
    }

    fn first(&self, id: &Id<'t>) -> Option<u32> {
        self.first.get(id).copied()
    }

    /// Takes one of those with equal ids.
    fn take(&mut self, id: &Id<'t>, request: u32) {
        if self.first(id) == Some(request) {
            self.pop(id);
        } else if let Some(later) = self.later.get_mut(id) {
            later.retain(|other| *other != request);
        }
    }

    fn pop(&mut self, id: &Id<'t>) -> Option<u32> {
        let first = self.first.remove(id)?;
        if !self.later.is_empty()
            && let Some(later) = self.later.get_mut(id)
        {
            if let Some(next) = later.pop_front() {
                self.first.insert(id.clone(), next);
            } else {
                self.later.remove(id);
            }
        }
        Some(first)
    }
}

/// Says where something is so in the recording, and what comes of it.
pub(super) fn note(records: &[u32], what: &str, so: &str) -> Option<String> {
    let first = records.first()?;
    let more = match records.len() - 1 {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Some(format!("message {first}{more} of the recording: {what}; {so}"))
}

fn get<T: Copy>(list: &[T], index: u32) -> Option<T> {
    list.get(usize::try_from(index).ok()?).copied()
}

fn set<T>(list: &mut [T], index: u32, value: T) {
    if let Some(slot) = usize::try_from(index).ok().and_then(|index| list.get_mut(index)) {
        *slot = value;
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Anchor {
    #[default]
    Start,
    Exchange(u32),
    Notification(String, usize),
}

/// Where one connection stands while its messages are put in order.
#[derive(Default)]
struct Thread {
    anchor: Anchor,
    /// Running requests by the place of their answer, then the latest first.
    open: BTreeSet<(u32, u32, u32)>,
    tokens: HashMap<String, u32>,
    /// By request id. Over HTTP, where clients share a thread, ids repeat.
    listens: HashMap<String, u32>,
    listening: HashSet<u32>,
    notifications: HashMap<String, usize>,
}

impl Thread {
    /// The running request that a message of the server most likely belongs to, which nothing on stdio says: the next
    /// one to be answered after `at`.
    fn owner_of(&self, at: u32) -> Option<u32> {
        self.open.range((at, 0, 0)..).next().map(|(_, _, exchange)| *exchange)
    }
}
