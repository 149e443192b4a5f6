//! Puts the messages of a cassette together: which answers which, and which request each of the others belongs to.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use super::live;
use super::tape::{Conn, Exchange, Item, Outcome, Step, Tape, index_of};
use crate::cassette::Side;
use crate::jsonrpc::message::{Shape, member};
use crate::mcp;

impl Tape {
    /// Which message answers which.
    pub(super) fn pair(&mut self) -> Pairs {
        let mut pairs = Pairs::default();
        let text = &self.text;
        let mut client: HashMap<(u32, &str), VecDeque<u32>> = HashMap::new();
        let mut server: HashMap<(u32, &str), VecDeque<u32>> = HashMap::new();
        for (index, item) in self.items.iter().enumerate() {
            let at = index_of(index);
            let id = item.view.id.map_or("", |id| id.of(text));
            match (item.from, item.view.shape) {
                // A client's ping belongs to no conversation: it is answered as it comes, and nothing follows from it.
                (Side::Client, Shape::Request) if item.view.method_name(text) == "ping" => {
                    client.entry((item.conn, id)).or_default().push_back(PING);
                }
                (Side::Client, Shape::Request) => {
                    let era = mcp::era(text, &item.view);
                    pairs.exchange_at.insert(at, index_of(self.exchanges.len()));
                    client.entry((item.conn, id)).or_default().push_back(index_of(self.exchanges.len()));
                    self.exchanges.push(Exchange {
                        request: at,
                        conn: item.conn,
                        era,
                        steps: Vec::with_capacity(1),
                        outcome: Outcome::Open,
                        after: Vec::new(),
                    });
                }
                (Side::Server, Shape::Response) => {
                    let asked = client.get_mut(&(item.conn, id)).and_then(VecDeque::pop_front);
                    if let Some(exchange) = asked.filter(|asked| *asked != PING) {
                        pairs.answered_at.insert(exchange, at);
                        pairs.answers.insert(at, exchange);
                    }
                }
                (Side::Server, Shape::Request) => server.entry((item.conn, id)).or_default().push_back(at),
                (Side::Client, Shape::Response) => {
                    if let Some(ask) = server.get_mut(&(item.conn, id)).and_then(VecDeque::pop_front) {
                        pairs.replied_at.insert(ask, at);
                        pairs.replies.insert(at, ask);
                    }
                }
                (Side::Client, Shape::Notification)
                    if item.view.method_name(text) == "notifications/cancelled" =>
                {
                    let id = item.view.params.and_then(|params| member(text, params, "requestId"));
                    let open = id.and_then(|id| client.get(&(item.conn, id.of(text))));
                    if let Some(&exchange) = open.and_then(VecDeque::front) {
                        pairs.cancels.insert(at, exchange);
                    }
                }
                _ => {}
            }
        }
        pairs
    }

    /// Puts every message behind the request it belongs to.
    pub(super) fn thread(&mut self, pairs: &Pairs) {
        let mut threads: HashMap<u32, Thread> = HashMap::new();
        let last_client: HashMap<u32, u32> = self
            .items
            .iter()
            .enumerate()
            .filter(|(_, item)| item.from == Side::Client)
            .map(|(index, item)| (item.conn, index_of(index)))
            .collect();
        for index in 0..self.items.len() {
            let at = index_of(index);
            let Some(item) = self.items.get(index).copied() else { continue };
            let thread = threads.entry(item.conn).or_default();
            match (item.from, item.view.shape) {
                (Side::Client, Shape::Request) => {
                    let Some(&exchange) = pairs.exchange_at.get(&at) else { continue };
                    thread.anchor = Anchor::Exchange(exchange);
                    let id = item.view.id.map_or("", |id| id.of(&self.text)).to_owned();
                    if item.view.method_name(&self.text) == "subscriptions/listen" {
                        thread.listens.insert(id, exchange);
                    } else {
                        let end = pairs.answered_at.get(&exchange).copied().unwrap_or(u32::MAX);
                        thread.open.insert((end, u32::MAX - at, exchange));
                        thread.running.insert(exchange);
                        if let Some(token) = live::progress_token(&self.text, &item.view) {
                            thread.tokens.insert(token.to_owned(), exchange);
                        }
                    }
                }
                (Side::Client, Shape::Notification) => {
                    if let Some(&exchange) = pairs.cancels.get(&at) {
                        self.push_step(exchange, Step::Cancelled);
                    } else {
                        let method = item.view.method_name(&self.text).into_owned();
                        let nth = thread.notifications.entry(method.clone()).or_default();
                        thread.anchor = Anchor::Notification(method, *nth);
                        *nth += 1;
                    }
                }
                (Side::Client, Shape::Response) => {
                    let ask = pairs.replies.get(&at).copied();
                    if let Some((ask, exchange)) = ask.and_then(|ask| Some((ask, *self.owner.get(&ask)?)))
                        && thread.running.contains(&exchange)
                    {
                        self.push_step(exchange, Step::Await(ask, at));
                    }
                }
                (Side::Server, Shape::Response) => {
                    let Some(&exchange) = pairs.answers.get(&at) else { continue };
                    let request = self.exchange(exchange).map_or(0, |exchange| exchange.request);
                    let listen = thread.listens.values().any(|listen| *listen == exchange);
                    if listen && thread.anchor != Anchor::Exchange(exchange) {
                        self.owner.insert(at, exchange);
                        if last_client.get(&item.conn).is_none_or(|last| *last < at) {
                            self.conn_mut(item.conn).at_end.push(at);
                        } else {
                            let anchor = thread.anchor.clone();
                            self.release_after(item.conn, &anchor, at);
                        }
                    } else {
                        self.push_step(exchange, Step::Answer(at));
                    }
                    thread.open.remove(&(at, u32::MAX - request, exchange));
                    thread.running.remove(&exchange);
                }
                (Side::Server, Shape::Request) => {
                    if item.view.method_name(&self.text) == "ping" {
                        continue;
                    }
                    // A question is part of the request that is answered next after the client's reply: the server
                    // waits for the one to finish the other.
                    let reply = pairs.replied_at.get(&at).copied().unwrap_or(at);
                    match thread.owner_of(reply) {
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
                (Side::Server, Shape::Notification) => self.thread_notification(thread, at, &item),
                _ => {}
            }
        }
    }

    fn thread_notification(&mut self, thread: &Thread, at: u32, item: &Item) {
        let method = item.view.method_name(&self.text).into_owned();
        if method == "notifications/progress" {
            // Without a running request of its token it is late, and no client may be sent it.
            let token =
                live::token_of_progress(&self.text, &item.view).and_then(|token| thread.tokens.get(token));
            if let Some(&exchange) = token
                && thread.running.contains(&exchange)
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
        if let Some(&listen) = subscription.and_then(|id| thread.listens.get(id.of(&self.text))) {
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
        match thread.owner_of(at) {
            Some(exchange) => self.push_step(exchange, Step::Send(at)),
            None => {
                let anchor = thread.anchor.clone();
                self.release_after(item.conn, &anchor, at);
            }
        }
    }

    fn push_step(&mut self, exchange: u32, step: Step) {
        if let Some(exchange) = self.exchanges.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
            if matches!(step, Step::Answer(_)) {
                exchange.outcome = Outcome::Answered;
            }
            exchange.steps.push(step);
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

/// Stands for a ping among the requests that wait for their answers.
const PING: u32 = u32::MAX;

#[derive(Default)]
pub(super) struct Pairs {
    exchange_at: HashMap<u32, u32>,
    answered_at: HashMap<u32, u32>,
    answers: HashMap<u32, u32>,
    replied_at: HashMap<u32, u32>,
    replies: HashMap<u32, u32>,
    cancels: HashMap<u32, u32>,
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
    running: HashSet<u32>,
    tokens: HashMap<String, u32>,
    listens: HashMap<String, u32>,
    notifications: HashMap<String, usize>,
}

impl Thread {
    /// The running request that a message of the server most likely belongs to, which nothing on stdio says: the next
    /// one to be answered after `at`.
    fn owner_of(&self, at: u32) -> Option<u32> {
        self.open.range((at, 0, 0)..).next().map(|(_, _, exchange)| *exchange)
    }
}
