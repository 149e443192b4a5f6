//! What a proxy remembers between requests: which sessions, events and endpoints it has seen. Session and event ids
//! stay in here; a cassette has their numbers.

use std::collections::{HashMap, HashSet, VecDeque};

/// Events that can be resumed from. Whoever comes back later than that gets an exchange of its own.
const EVENTS: usize = 65_536;

/// An event that was passed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Seen {
    /// The exchange it came in.
    pub(super) exchange: u32,
    /// Its place among the exchange's event ids, from 1.
    pub(super) ordinal: u32,
    /// It came on a standalone stream.
    pub(super) get: bool,
}

/// The stream that the answers to an announced endpoint come on (HTTP+SSE).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Announced {
    pub(super) session: u32,
    pub(super) exchange: u32,
}

/// What a target is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    /// The MCP endpoint of the URL.
    Endpoint,
    /// The endpoint under another path: where it was redirected to.
    Moved,
    /// An endpoint that a stream announced.
    Announced(Announced),
    /// A description of how to get authorized (RFC 9728).
    Metadata,
    /// Anything else of the server: its bodies are nobody's business.
    Other,
}

#[derive(Debug, Default)]
pub(super) struct Book {
    exchanges: u32,
    sessions: HashMap<Vec<u8>, u32>,
    /// Sessions altogether: those of HTTP+SSE have no id of their own.
    count: u32,
    /// By session and id.
    events: HashMap<(u32, Vec<u8>), Seen>,
    /// The keys of `events`, and the exchange each came in then.
    order: VecDeque<((u32, Vec<u8>), u32)>,
    /// The last ordinal of each exchange. They stay: a stream may go on for as long as we run.
    ordinals: HashMap<u32, u32>,
    announced: HashMap<String, Announced>,
    moved: HashSet<String>,
    metadata: HashSet<String>,
}

impl Book {
    /// The number of a new exchange.
    pub(super) fn exchange(&mut self) -> u32 {
        self.exchanges += 1;
        self.exchanges
    }

    /// The number of a session, if it is known.
    pub(super) fn known_session(&self, id: &[u8]) -> Option<u32> {
        self.sessions.get(id).copied()
    }

    /// The number of a session that the server has issued or accepted.
    pub(super) fn session(&mut self, id: &[u8]) -> u32 {
        if let Some(known) = self.known_session(id) {
            return known;
        }
        self.count += 1;
        self.sessions.insert(id.to_vec(), self.count);
        self.count
    }

    /// A stream has announced an endpoint: a session begins.
    pub(super) fn announce(&mut self, target: &str, exchange: u32) -> u32 {
        self.count += 1;
        self.announced.insert(target.to_owned(), Announced { session: self.count, exchange });
        self.count
    }

    /// A stream has ended, and its endpoint with it.
    pub(super) fn withdraw(&mut self, exchange: u32) {
        self.announced.retain(|_, announced| announced.exchange != exchange);
    }

    /// The endpoint has moved.
    pub(super) fn moved(&mut self, target: &str) {
        self.moved.insert(path_of(target).to_owned());
    }

    /// The server has named this as its metadata.
    pub(super) fn metadata(&mut self, target: &str) {
        self.metadata.insert(path_of(target).to_owned());
    }

    /// What a target of the server is; `endpoint` is the path of the URL.
    pub(super) fn place(&self, target: &str, endpoint: &str) -> Place {
        let path = path_of(target);
        if let Some(announced) = self.announced.get(target) {
            return Place::Announced(*announced);
        }
        if path == endpoint {
            return Place::Endpoint;
        }
        if self.moved.contains(path) {
            return Place::Moved;
        }
        if path.starts_with("/.well-known/oauth-protected-resource") || self.metadata.contains(path) {
            return Place::Metadata;
        }
        Place::Other
    }

    /// The number of an event id within its exchange, the same for the same id.
    pub(super) fn event(&mut self, session: u32, exchange: u32, get: bool, id: &[u8]) -> u32 {
        let key = (session, id.to_vec());
        if let Some(seen) = self.events.get(&key).filter(|seen| seen.exchange == exchange) {
            return seen.ordinal;
        }
        let ordinal = self.ordinals.entry(exchange).or_default();
        *ordinal += 1;
        let seen = Seen { exchange, ordinal: *ordinal, get };
        self.events.insert(key.clone(), seen);
        self.order.push_back((key, exchange));
        if self.order.len() > EVENTS
            && let Some((oldest, exchange)) = self.order.pop_front()
            && self.events.get(&oldest).is_some_and(|seen| seen.exchange == exchange)
        {
            self.events.remove(&oldest);
        }
        seen.ordinal
    }

    /// Where an event came that a client names in `Last-Event-ID`.
    pub(super) fn seen(&self, session: u32, id: &[u8]) -> Option<Seen> {
        self.events.get(&(session, id.to_vec())).copied()
    }
}

fn path_of(target: &str) -> &str {
    target.split(['?', '#']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_get_numbers() {
        let mut book = Book::default();
        assert_eq!((book.exchange(), book.exchange()), (1, 2));
        assert_eq!(book.known_session(b"a"), None);
        assert_eq!((book.session(b"a"), book.session(b"b"), book.session(b"a")), (1, 2, 1));
        assert_eq!(book.announce("/m?s=1", 9), 3);
        assert_eq!((book.event(1, 4, true, b"x"), book.event(1, 4, true, b"y")), (1, 2));
        assert_eq!(book.event(1, 4, true, b"x"), 1);
        assert_eq!(book.seen(1, b"y"), Some(Seen { exchange: 4, ordinal: 2, get: true }));
        assert_eq!(book.seen(2, b"y"), None);
    }

    #[test]
    fn a_stream_goes_on_counting_when_its_first_events_are_forgotten() {
        let mut book = Book::default();
        assert_eq!(book.event(1, 4, true, b"mine"), 1);
        // An id that comes a second time, in another stream, is remembered as it came last.
        assert_eq!((book.event(1, 4, true, b"twice"), book.event(1, 5, false, b"twice")), (2, 1));
        for number in 3..EVENTS {
            book.event(1, 6, false, number.to_string().as_bytes());
        }
        let last = Some(Seen { exchange: 5, ordinal: 1, get: false });
        assert_eq!((book.seen(1, b"mine").is_some(), book.seen(1, b"twice")), (true, last));
        assert_eq!(book.event(1, 6, false, b"one more"), u32::try_from(EVENTS - 2).unwrap());
        assert_eq!((book.seen(1, b"mine"), book.seen(1, b"twice")), (None, last));
        assert_eq!(book.event(1, 4, true, b"another"), 3);
        assert_eq!(book.seen(1, b"twice"), last);
        book.event(1, 4, true, b"and another");
        assert_eq!(book.seen(1, b"twice"), None);
        assert_eq!(book.event(1, 5, false, b"later"), 2);
        assert_eq!((book.events.len(), book.order.len()), (EVENTS, EVENTS));
    }

    #[test]
    fn places() {
        let mut book = Book::default();
        let announced = Announced { session: book.announce("/m?s=1", 9), exchange: 9 };
        book.moved("/mcp/?x");
        book.metadata("/meta");
        for (target, place) in [
            ("/mcp?x", Place::Endpoint),
            ("/mcp/", Place::Moved),
            ("/m?s=1", Place::Announced(announced)),
            ("/m?s=2", Place::Other),
            ("/meta", Place::Metadata),
            ("/.well-known/oauth-protected-resource/mcp", Place::Metadata),
            ("/token", Place::Other),
        ] {
            assert_eq!(book.place(target, "/mcp"), place, "{target}");
        }
        book.withdraw(9);
        assert_eq!(book.place("/m?s=1", "/mcp"), Place::Other);
    }
}
