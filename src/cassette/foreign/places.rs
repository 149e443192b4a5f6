//! Connections, sessions, exchanges and times of formats that do not say them, from the order of messages.

use std::collections::HashMap;

use crate::cassette::head::Transport;
use crate::cassette::record::{Record, Side};
use crate::jsonrpc::message::Shape;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;

/// Works out times, connections, sessions and exchanges while messages pass in order.
#[derive(Debug, Default)]
pub(super) struct Places {
    http: bool,
    sessions: bool,
    /// How many handshakes there were beyond the first.
    round: u32,
    initialized: bool,
    exchange: u32,
    /// The round of the client message of an exchange.
    rounds: HashMap<u32, u32>,
    /// The exchange of a request by its id.
    open: HashMap<String, u32>,
    base: u64,
    latest: u64,
}

impl Places {
    /// For a server that is reached like this, and issues session ids or not.
    pub(super) fn new(transport: Transport, sessions: bool) -> Self {
        Self { http: transport == Transport::Http, sessions, ..Self::default() }
    }

    pub(super) fn put(
        &mut self,
        record: &mut Record,
        exchange: Option<u32>,
        time: u64,
        of: &dyn Fn(Span) -> String,
    ) {
        let view = record.view().copied();
        let request = record.from == Side::Client && record.is(Shape::Request);
        let handshake = request
            && view.and_then(|view| view.method).is_some_and(|method| string::is(&of(method), "initialize"));
        if handshake {
            // Its appended episodes begin with a handshake of their own and count time from zero again.
            self.round += u32::from(self.initialized);
            if self.initialized && time < self.latest {
                self.base = self.latest;
            }
            self.initialized = true;
        }
        self.latest = self.latest.max(self.base.saturating_add(time));
        record.at = self.latest;
        if !self.http {
            record.conn = self.round;
            return;
        }
        let id = view.and_then(|view| view.id).map(of);
        record.exchange = exchange.unwrap_or_else(|| match record.from {
            Side::Client => self.exchange.saturating_add(1),
            Side::Server => {
                let answered = id.as_ref().filter(|_| record.is(Shape::Response));
                answered.and_then(|id| self.open.remove(id)).unwrap_or_else(|| self.exchange.max(1))
            }
        });
        self.exchange = self.exchange.max(record.exchange);
        if request && let Some(id) = id {
            self.open.insert(id, record.exchange);
        }
        let round = match record.from {
            Side::Client => *self.rounds.entry(record.exchange).or_insert(self.round),
            Side::Server => self.rounds.get(&record.exchange).copied().unwrap_or(self.round),
        };
        record.session = if self.sessions { round + 1 } else { 0 };
    }
}
