//! Answers that are streams of events. Every byte goes on as it comes; the events in it are queued before.

use std::borrow::Cow;
use std::io::Read as _;

use memchr::memchr2;

use super::book::Place;
use super::coding::Reader;
use super::exchange::{BUFFER, Coming, Exchange, LARGEST_KEPT, Outgoing};
use super::facts::Facts;
use super::item::End;
use super::rewrite;
use crate::http::server::Request;
use crate::http::sse::{Event, Parser};

/// What is known of a stream that is being passed on.
struct Stream {
    parser: Parser,
    events: Vec<Event>,
    reader: Reader,
    /// Its events go into the cassette.
    listens: bool,
    /// Its first event has not come, and may announce an endpoint (HTTP+SSE).
    announcing: bool,
    /// How much of the event that is not complete has been passed on.
    sent: usize,
    /// It was recorded up to here and cannot be any further.
    lost: bool,
    /// The facts of its head, until they are queued.
    facts: Facts,
}

impl Stream {
    /// Whether bytes may have to be changed before they go on. What is compressed cannot be.
    fn holds_back(&self) -> bool {
        self.announcing && self.reader.is_plain()
    }

    /// What came, and was not passed on since it may yet be an announcement.
    fn unsent(&self) -> &[u8] {
        if !self.holds_back() {
            return &[];
        }
        self.parser.pending().get(self.sent..).unwrap_or_default()
    }

    /// Bytes are only passed on from here on.
    fn deafen(&mut self) {
        self.lost = self.listens;
        (self.listens, self.announcing) = (false, false);
    }
}

impl Exchange<'_> {
    pub(super) fn stream(
        &mut self,
        request: Request<'_>,
        outgoing: &Outgoing<'_>,
        coming: Coming,
        facts: Facts,
    ) {
        let Coming { answer: mut body, reader, coding } = coming;
        let readable = reader.is_some();
        let mut stream = Stream {
            parser: Parser::new(),
            events: Vec::new(),
            reader: reader.unwrap_or(Reader::Plain),
            listens: self.speaks(),
            announcing: self.may_announce,
            sent: 0,
            lost: false,
            facts,
        };
        if !readable {
            stream.deafen();
        }
        // A standalone stream may be silent for as long as it is there.
        if self.get {
            self.record(&stream.facts.take(), None, false);
        }
        let unbounded = Outgoing { length: None, ..*outgoing };
        let Ok(mut out) = unbounded.begin(request) else { return self.close_stream(&stream, self.gone()) };
        let mut buffer = vec![0; BUFFER];
        loop {
            let piece = match body.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => buffer.get(..length).unwrap_or_default(),
                Err(_) => {
                    self.close_stream(&stream, self.broken());
                    // Dropped unfinished, it cuts the client off.
                    if !stream.unsent().is_empty() {
                        drop(out.send(stream.unsent()));
                    }
                    return;
                }
            };
            let bytes = self.pass(piece, &mut stream);
            if !bytes.is_empty() && out.send(&bytes).is_err() {
                return self.close_stream(&stream, self.gone());
            }
        }
        self.close_stream(&stream, if stream.lost { End::NotKept } else { End::Finished });
        if stream.lost {
            match readable && stream.reader.is_plain() {
                true => self.shared.note_once(&format!(
                    "an event of more than {} MiB was passed on; from there on its stream is not in the cassette",
                    LARGEST_KEPT >> 20
                )),
                false => self.tell_coding(&coding),
            }
        }
        if stream.unsent().is_empty() || out.send(stream.unsent()).is_ok() {
            let _ = out.finish();
        }
    }

    fn close_stream(&self, stream: &Stream, end: End) {
        if !stream.facts.as_str().is_empty() {
            self.record(&stream.facts, None, false);
        }
        self.end(end);
        if self.get {
            self.shared.book().withdraw(self.number);
        }
    }

    /// Queues the events that a piece completes, and gives what is to be passed on now.
    fn pass<'b>(&mut self, piece: &'b [u8], stream: &mut Stream) -> Cow<'b, [u8]> {
        if !stream.listens && !stream.announcing {
            // It may hold an event of any size.
            stream.parser = Parser::new();
            return Cow::Borrowed(piece);
        }
        let changeable = stream.holds_back();
        let mut events = std::mem::take(&mut stream.events);
        match stream.reader.read(piece) {
            Ok(said) => stream.parser.push(&said, &mut events),
            Err(_) => stream.deafen(),
        }
        stream.parser.release(&mut events);
        let mut out = Vec::new();
        for event in events.drain(..) {
            let bytes = self.event(&event, stream);
            if changeable {
                out.extend_from_slice(bytes.get(stream.sent..).unwrap_or_default());
                stream.sent = 0;
            }
        }
        stream.events = events;
        if stream.parser.pending().len() > LARGEST_KEPT {
            stream.deafen();
        }
        if !changeable {
            return Cow::Borrowed(piece);
        }
        let pending = stream.parser.pending();
        let end = if stream.announcing { harmless(pending) } else { pending.len() };
        out.extend_from_slice(pending.get(stream.sent..end).unwrap_or_default());
        stream.sent = end;
        Cow::Owned(out)
    }

    /// Queues an event, and gives the bytes to be passed on.
    fn event<'e>(&mut self, event: &'e Event, stream: &mut Stream) -> Cow<'e, [u8]> {
        let raw = Cow::Borrowed(event.raw());
        let data = event.data().filter(|data| !data.is_empty());
        if let Some(data) = data
            && std::mem::take(&mut stream.announcing)
            && event.kind() == b"endpoint"
        {
            return self.announced(event, data, stream).map_or(raw, Cow::Owned);
        }
        if !stream.listens {
            return raw;
        }
        let id = event.id().filter(|id| !id.is_empty());
        let ordinal = id.map(|id| self.shared.book().event(self.session, self.number, self.get, id));
        self.resumable |= ordinal.is_some();
        if data.is_none() && ordinal.is_none() && event.retry().is_none() {
            return raw;
        }
        let mut facts = stream.facts.take();
        for (name, value) in [("event", ordinal.map(u64::from)), ("retry", event.retry())] {
            if let Some(value) = value {
                facts.number(name, value);
            }
        }
        // Clients act on messages only; what a server calls otherwise has no place in a cassette.
        self.record(&facts, data.filter(|_| event.kind() == b"message"), false);
        raw
    }

    /// HTTP+SSE (2024-11-05): the stream says where to send requests, and a session begins. Wherever that is, it is an
    /// endpoint, as if the URL had named it.
    fn announced(&mut self, event: &Event, endpoint: &[u8], stream: &mut Stream) -> Option<Vec<u8>> {
        let mapping = &self.shared.mapping;
        let target = mapping.target_of(std::str::from_utf8(endpoint).ok()?, &self.target)?;
        self.session = self.shared.book().announce(&target, self.number);
        if !self.speaks() {
            self.shared.book().moved(&self.target);
            (self.place, self.get, stream.listens) = (Place::Moved, true, true);
            self.record(&stream.facts.take(), None, false);
        }
        rewrite::endpoint(event.raw(), endpoint, mapping, &self.host)
    }
}

/// How much of an event that is not complete has no part in what it says: lines in front that are neither data nor its
/// name. A byte order mark hides what the first line is.
fn harmless(pending: &[u8]) -> usize {
    let mut at = 0;
    loop {
        let rest = pending.get(at..).unwrap_or_default();
        match rest.first() {
            None | Some(b'd' | b'e' | 0xef) => return at,
            Some(_) => {}
        }
        match memchr2(b'\r', b'\n', rest) {
            Some(end) => at += end + 1,
            None => return pending.len(),
        }
    }
}
