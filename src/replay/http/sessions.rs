//! The sessions of legacy clients: which one a request is of, how they begin, and how they end.

use std::collections::HashSet;

use super::checks::{Incoming, Refused};
use super::hub::{Event, Fields, Hub, Live, Sent};
use super::refusals;
use crate::http::Headers;
use crate::jsonrpc::message::View;
use crate::mcp::{Era, code, headers};

/// So many sessions may be live at once.
const SESSIONS: usize = 10_000;

/// The session that a request names.
pub(super) fn session_of(fields: &Headers) -> Option<String> {
    fields.text(headers::SESSION).map(str::to_owned)
}

impl Hub {
    /// Requests of a session that is not there. One that was there has ended, which its client may not know yet.
    pub(super) fn stray(&mut self, body: &[u8], connection: u64, session: Option<&str>, refused: &Refused) {
        if !session.is_some_and(|session| self.issuer.issued(session)) {
            self.player.refused(body, &refusals::of_session(refused, connection, session));
        }
    }

    /// Something came for a session.
    pub(super) fn touch(&mut self, session: usize) {
        self.clock += 1;
        if let Some(live) = self.lives.get_mut(&session) {
            live.used = self.clock;
        }
    }

    /// Ends the session that was unused for the longest time, where there are very many: clients that never end theirs
    /// are not to use up the memory.
    fn make_room(&mut self) {
        if self.lives.len() < SESSIONS {
            return;
        }
        let busy: HashSet<usize> = self.waiters.values().map(|waiter| waiter.session).collect();
        let idle = self
            .lives
            .iter()
            .filter(|(session, live)| live.id.is_some() && live.stream.is_none() && !busy.contains(session));
        if let Some((&oldest, _)) = idle.min_by_key(|(_, live)| live.used) {
            self.forget(oldest);
            self.player.warn(format!(
                "there were {SESSIONS} sessions: those that were unused for the longest time were ended"
            ));
        }
    }

    pub(super) fn session_of(&mut self, incoming: Incoming, id: Option<&str>) -> Result<usize, Refused> {
        if incoming.era == Era::Modern {
            if let Some(session) = self.modern {
                return Ok(session);
            }
            let session = self.new_session();
            self.modern = Some(session);
            return Ok(session);
        }
        if !self.offer.sessions {
            if let Some(session) = self.anonymous {
                return Ok(session);
            }
            let session = self.new_session();
            self.lives.insert(session, Live::default());
            self.anonymous = Some(session);
            return Ok(session);
        }
        if incoming.opens {
            // Who was led here from another path is no further client.
            self.make_room();
            let session = self.led.take().unwrap_or_else(|| self.new_session());
            self.lives.insert(session, Live::default());
            return Ok(session);
        }
        self.known(id)
    }

    pub(super) fn known(&self, id: Option<&str>) -> Result<usize, Refused> {
        let Some(id) = id else {
            let message = "Mcp-Session-Id is missing";
            return Err(Refused::new(400, "null", code::INVALID_REQUEST, message));
        };
        self.ids.get(id).copied().ok_or_else(no_session)
    }

    /// The session that a standalone stream is opened for.
    pub(super) fn stream_of(&mut self, id: Option<&str>) -> Result<(usize, &mut Live), Event> {
        let session = match self.offer.sessions {
            true => Some(self.known(id).map_err(Event::Refused)?),
            false => self.anonymous,
        };
        let refused = self.offer.get_refused || (!self.offer.sessions && !self.offer.unsolicited);
        let number = session.unwrap_or_default();
        let live = session.and_then(|session| self.lives.get_mut(&session));
        match live {
            _ if refused => Err(Event::Status(405)),
            Some(live) if live.stream.is_some() => {
                let message = "this session has a standalone stream already";
                Err(Event::Refused(Refused::new(409, "null", code::INVALID_REQUEST, message)))
            }
            Some(live) => Ok((number, live)),
            None => Err(Event::Refused(no_session())),
        }
    }

    pub(super) fn delete(&mut self, id: Option<&str>, fields: &Fields) -> Event {
        if !self.offer.sessions {
            return Event::Status(405);
        }
        let session = match self.known(id) {
            Ok(session) => session,
            Err(refused) => return Event::Refused(refused),
        };
        let status =
            self.offer.deletes.get(self.deletes).or(self.offer.deletes.last()).copied().unwrap_or(200);
        self.deletes += 1;
        if matches!(status, 200..=299 | 404) {
            self.behind.iter_mut().for_each(|behind| behind.delete(session, fields.as_ref()));
            self.forget(session);
        }
        Event::Status(status)
    }

    /// An `initialize` that succeeded opens its session.
    pub(super) fn settle_session(&mut self, sent: &mut Sent, carrier: u64, text: &str) {
        let opener = self.waiters.get(&carrier).filter(|waiter| waiter.opens);
        let Some(session) = opener.map(|waiter| waiter.session) else { return };
        let opened = View::of(text).is_ok_and(|view| view.result.is_some());
        if !(opened && self.name_session(sent, carrier)) {
            self.forget(session);
        }
    }

    /// Tells the client the id of the session that it opens, unless it was told; `false` when there is none.
    pub(super) fn name_session(&mut self, sent: &mut Sent, carrier: u64) -> bool {
        let Some(waiter) = self.waiters.get(&carrier).filter(|waiter| waiter.opens) else { return false };
        let Some(live) = self.lives.get_mut(&waiter.session) else { return false };
        if live.id.is_none()
            && let Some(id) = self.issuer.issue()
        {
            self.ids.insert(id.clone(), waiter.session);
            live.id = Some(id.clone());
            // In front of all that may send the head.
            let list = &mut sent.entry(carrier).or_insert_with(|| (waiter.events.clone(), Vec::new())).1;
            list.insert(0, Event::Session(id));
        }
        live.id.is_some()
    }

    /// A session is over: its id is dead, its stream ends, and so does what it was at the live server.
    pub(super) fn forget(&mut self, session: usize) {
        self.logs.forget_session(session);
        self.behind.iter_mut().for_each(|behind| behind.delete(session, None));
        let Some(live) = self.lives.remove(&session) else { return };
        if let Some(id) = live.id {
            self.ids.remove(&id);
        }
        if let Some((_, events)) = live.stream {
            let _ = events.send(vec![Event::Over { cut: false }]);
        }
        self.player.close(session);
    }
}

pub(super) fn no_session() -> Refused {
    Refused::new(404, "null", code::NO_SESSION, "Session not found")
}
