//! What was said on streams that clients can come back to.

use std::collections::BTreeMap;

use super::hub::{Event, Events};
use crate::replay::player::Part;

/// So many streams are kept that have ended; a client that comes back to an older one has to ask again.
const STREAMS: usize = 1000;
/// So many bytes are kept of what was said on streams; of those that have not ended, all.
const BYTES: usize = 64 << 20;

/// One stream.
#[derive(Default)]
pub(super) struct Log {
    pub(super) session: usize,
    said: Vec<(String, Part)>,
    /// It ended without an answer.
    over: bool,
    /// The connection of the client that came back.
    follower: Option<Events>,
}

impl Log {
    /// Nothing more will be said on it.
    fn is_done(&self) -> bool {
        self.over || self.said.last().is_some_and(|(_, part)| *part != Part::Inner)
    }

    fn size(&self) -> usize {
        self.said.iter().map(|(text, _)| text.len()).sum()
    }

    fn say(&mut self, carrier: u64, text: String, part: Part) -> Event {
        self.said.push((text.clone(), part));
        let event = Event::Numbered(format!("{carrier}-{}", self.said.len()), text, part);
        self.follow(event.clone());
        event
    }

    fn follow(&self, event: Event) {
        if let Some(follower) = &self.follower {
            let _ = follower.send(vec![event]);
        }
    }

    /// Sends what was said after the first `seen` messages, and from now on what is.
    pub(super) fn resume(&mut self, carrier: &str, seen: usize, events: &Events) {
        let rest = self.said.iter().zip(1_usize..).skip(seen);
        let rest =
            rest.map(|((text, part), n)| Event::Numbered(format!("{carrier}-{n}"), text.clone(), *part));
        let mut list: Vec<Event> = std::iter::once(Event::Opened).chain(rest).collect();
        if self.over {
            list.push(Event::Over { cut: false });
        }
        let _ = events.send(list);
        self.follower = Some(events.clone());
    }
}

/// All of them, by the number of the request that they answer: the oldest come first.
#[derive(Default)]
pub(super) struct Logs {
    logs: BTreeMap<u64, Log>,
    bytes: usize,
}

impl Logs {
    pub(super) fn has(&self, carrier: u64) -> bool {
        self.logs.contains_key(&carrier)
    }

    pub(super) fn get_mut(&mut self, carrier: u64) -> Option<&mut Log> {
        self.logs.get_mut(&carrier)
    }

    /// A stream begins. Tells whether older ones were forgotten for it.
    pub(super) fn begin(&mut self, carrier: u64, session: usize) -> bool {
        let forgot = self.make_room();
        self.logs.insert(carrier, Log { session, ..Log::default() });
        forgot
    }

    /// A message goes out, on a stream that is kept.
    pub(super) fn say(&mut self, carrier: u64, text: String, part: Part) -> Event {
        match self.logs.get_mut(&carrier) {
            Some(log) => {
                self.bytes += text.len();
                log.say(carrier, text, part)
            }
            None => Event::Message(text, part),
        }
    }

    /// A stream ends without an answer.
    pub(super) fn end(&mut self, carrier: u64, cut: bool) {
        if let Some(log) = self.logs.get_mut(&carrier) {
            log.over = true;
            log.follow(Event::Over { cut });
        }
    }

    pub(super) fn forget_session(&mut self, session: usize) {
        self.logs.retain(|_, log| log.session != session);
        self.bytes = self.logs.values().map(Log::size).sum();
    }

    pub(super) fn followers(&self) -> impl Iterator<Item = &Events> {
        self.logs.values().filter_map(|log| log.follower.as_ref())
    }

    fn make_room(&mut self) -> bool {
        let mut forgot = false;
        while self.logs.len() >= STREAMS || self.bytes > BYTES {
            let oldest = self.logs.iter().find(|(_, log)| log.is_done()).map(|(carrier, _)| *carrier);
            let Some(log) = oldest.and_then(|carrier| self.logs.remove(&carrier)) else { break };
            self.bytes = self.bytes.saturating_sub(log.size());
            forgot = true;
        }
        forgot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_streams_that_have_ended_are_forgotten() {
        let mut logs = Logs::default();
        // One that goes on, and very many that have ended.
        assert!(!logs.begin(0, 7));
        logs.say(0, "more".to_owned(), Part::Inner);
        let forgot: Vec<u64> = (1..1102)
            .filter(|carrier| {
                let forgot = logs.begin(*carrier, 7);
                logs.say(*carrier, "answer".to_owned(), Part::Answer);
                forgot
            })
            .collect();
        assert_eq!(forgot, (1000..1102).collect::<Vec<_>>());
        assert_eq!(logs.logs.len(), STREAMS);
        assert!(logs.has(0) && !logs.has(102) && logs.has(103) && logs.has(1101));
        // A few that are large, too.
        logs.say(1101, "x".repeat(BYTES), Part::Answer);
        assert!(logs.begin(2000, 8));
        assert!(logs.has(0) && logs.has(2000) && !logs.has(1101));
        assert_eq!(logs.bytes, 4);
        logs.forget_session(7);
        assert_eq!((logs.logs.len(), logs.bytes), (1, 0));
    }
}
