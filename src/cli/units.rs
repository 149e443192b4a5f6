//! What of a cassette belongs together: exchanges as `inspect` numbers them, with everything inside them, and what
//! stands by itself.

use std::collections::HashMap;

use super::inspect::reel::Reel;
use crate::cassette::{Cassette, Record, Side};
use crate::jsonrpc::message::{Shape, member};
use crate::jsonrpc::scan::Span;

/// Fields that tie a later request to the result that named their value.
const TIES: [&str; 2] = ["taskId", "requestState"];

/// A request and what came of it, or a message by itself. Its records go together.
#[derive(Debug, Default)]
pub(super) struct Unit {
    /// The records, in order.
    pub(super) records: Vec<usize>,
    /// The exchanges in it, from 1, as `inspect` counts them.
    pub(super) exchanges: Vec<usize>,
    /// What the requests in it, or the message, say: method and target.
    pub(super) heads: Vec<(String, Option<String>)>,
    pub(super) server: u32,
    /// The client it is of: connection and session.
    pub(super) client: (u32, u32),
    /// It begins a connection: `initialize`, its answer and `notifications/initialized`, or `server/discover`.
    pub(super) handshake: bool,
    /// The units whose result this one goes on with.
    pub(super) follows: Vec<usize>,
}

pub(super) struct Units {
    pub(super) cassette: Cassette,
    pub(super) list: Vec<Unit>,
    /// How many exchanges there are.
    pub(super) exchanges: usize,
}

/// Sets of records that grow together.
struct Sets(Vec<usize>);

impl Sets {
    fn root(&mut self, mut at: usize) -> usize {
        while let Some(&up) = self.0.get(at).filter(|up| **up != at) {
            let above = self.0.get(up).copied().unwrap_or(up);
            if let Some(slot) = self.0.get_mut(at) {
                *slot = above;
            }
            at = above;
        }
        at
    }

    fn join(&mut self, one: usize, other: usize) {
        let (one, other) = (self.root(one), self.root(other));
        let (first, second) = (one.min(other), one.max(other));
        if let Some(slot) = self.0.get_mut(second) {
            *slot = first;
        }
    }
}

impl Units {
    pub(super) fn of(cassette: Cassette) -> Self {
        let reel = Reel::new(cassette);
        let mut sets = Sets((0..reel.cassette.records.len()).collect());
        join(&reel, &mut sets);
        let mut places: HashMap<usize, usize> = HashMap::new();
        let mut list: Vec<Unit> = Vec::new();
        let mut unit_of = Vec::with_capacity(reel.cassette.records.len());
        for (index, record) in reel.cassette.records.iter().enumerate() {
            let root = sets.root(index);
            let place = *places.entry(root).or_insert_with(|| {
                let client = (record.conn, record.session);
                list.push(Unit { server: record.server, client, ..Unit::default() });
                list.len() - 1
            });
            unit_of.push(place);
            if let Some(unit) = list.get_mut(place) {
                unit.records.push(index);
                // The request that begins a session does not name it yet, and its answer does.
                unit.client.1 = unit.client.1.max(record.session);
            }
        }
        for (number, call) in (1..).zip(&reel.calls) {
            let Some(unit) = unit_at(&reel, &unit_of, &mut list, call.request) else { continue };
            unit.exchanges.push(number);
            let method = reel.method(call.request).unwrap_or_default();
            unit.handshake |= matches!(&*method, "initialize" | "server/discover");
            unit.heads.push((method, reel.target(call.request)));
        }
        for index in 0..reel.messages.len() {
            let target = reel.target(index);
            let Some(unit) = unit_at(&reel, &unit_of, &mut list, index) else { continue };
            if unit.exchanges.is_empty()
                && let Some(method) = reel.method(index)
            {
                unit.heads.push((method, target));
            }
        }
        tie(&reel, &unit_of, &mut list);
        Self { exchanges: reel.calls.len(), cassette: reel.cassette, list }
    }
}

fn unit_at<'u>(reel: &Reel, of: &[usize], list: &'u mut [Unit], message: usize) -> Option<&'u mut Unit> {
    let record = reel.messages.get(message)?.record;
    list.get_mut(*of.get(record)?)
}

/// Joins the records that go together.
fn join(reel: &Reel, sets: &mut Sets) {
    let record = |message: usize| reel.messages.get(message).map(|message| message.record);
    for call in &reel.calls {
        let Some(request) = record(call.request) else { continue };
        for message in call.messages.iter().chain(&call.answer) {
            if let Some(other) = record(*message) {
                sets.join(request, other);
            }
        }
    }
    for message in &reel.messages {
        // A question of the server and the client's answer, wherever they stand.
        if let Some(asked) = message.answers.and_then(record) {
            sets.join(asked, message.record);
        }
    }
    // One HTTP exchange is one, with its status and its end. The messages of a standalone stream only share the stream.
    let mut posts: HashMap<(u32, u32), usize> = HashMap::new();
    // Of each client: the request that began it.
    let mut began: HashMap<(u32, u32, u32), usize> = HashMap::new();
    for (index, record) in reel.cassette.records.iter().enumerate() {
        let on_get = record.more.as_ref().is_some_and(|more| more.stream_get);
        if record.exchange > 0 && !on_get {
            let first = *posts.entry((record.server, record.exchange)).or_insert(index);
            sets.join(first, index);
        }
        let Some(view) = record.view().filter(|_| record.from == Side::Client) else { continue };
        let client = |record: &Record| (record.server, record.conn, record.session);
        match &*view.method_name(&reel.cassette.text) {
            "initialize" => {
                began.insert(client(record), index);
            }
            "notifications/initialized" => {
                let session = began.get(&client(record));
                // Where only the answer named the session.
                let first = session.or_else(|| began.get(&(record.server, record.conn, 0)));
                if let Some(first) = first {
                    sets.join(*first, index);
                }
            }
            _ => {}
        }
    }
}

/// Finds the units that go on with the result of another.
fn tie(reel: &Reel, of: &[usize], list: &mut [Unit]) {
    let text = &reel.cassette.text;
    // By server, name and literal: the unit whose result said it first.
    let mut named: HashMap<(u32, &str, &str), usize> = HashMap::new();
    for (index, record) in reel.cassette.records.iter().enumerate() {
        let (Some(view), Some(unit)) = (record.view(), of.get(index)) else { continue };
        let (holder, says) = match (record.from, view.shape) {
            (Side::Server, Shape::Response) => (view.result, true),
            (Side::Client, Shape::Request) | (Side::Server, Shape::Notification) => (view.params, false),
            _ => continue,
        };
        let Some(holder) = holder else { continue };
        for name in TIES {
            for value in values(text, holder, name) {
                let key = (record.server, name, value.of(text));
                if says {
                    named.entry(key).or_insert(*unit);
                } else if let Some(first) = named.get(&key).filter(|first| *first != unit)
                    && let Some(unit) = list.get_mut(*unit)
                    && !unit.follows.contains(first)
                {
                    unit.follows.push(*first);
                }
            }
        }
    }
}

/// The member `name` of a result or of params, or of the task in it.
fn values(text: &str, holder: Span, name: &str) -> impl Iterator<Item = Span> {
    let holds = holder.of(text).contains(name);
    let own = if holds { member(text, holder, name) } else { None };
    let task =
        if holds { member(text, holder, "task").and_then(|task| member(text, task, name)) } else { None };
    own.into_iter().chain(task)
}
