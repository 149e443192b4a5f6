//! How requests end: their answers go out, alone or as a batch, the client cancels them, leaves, or says no more.

use super::player::{Output, Part, Player, To};
use super::session::{Play, Session};
use super::tape::Step;
use crate::mcp::Era;

/// Nothing says whose request is meant: a cancellation comes on another connection than the request that is open on one.
pub(super) const AMBIGUOUS: &str = "a cancellation names an id that several clients have open, none of them as it was recorded: nothing was cancelled";

impl Player {
    /// The client of a session cancels its request with this id. Where several are open, clients share the session over
    /// HTTP, or one has used an id twice: then it is one that was cancelled when it was recorded. Taking the answer from
    /// another client would be worse than not cancelling, which every server may do.
    pub(super) fn cancel_by_id(&mut self, session: usize, id: &str, now: u64) {
        let named = self.plays.iter().filter(|(_, play)| play.session == session && play.id == id);
        let mut open: Vec<(bool, u64)> =
            named.map(|(number, play)| (self.is_to_be_cancelled(play), *number)).collect();
        open.sort_unstable();
        match open.as_slice() {
            [] => self.hurry(session, id),
            [.., (false, _), (false, _)] if self.options.http => self.warn(AMBIGUOUS.to_owned()),
            [.., (_, latest)] => self.cancel(*latest, now),
        }
    }

    fn is_to_be_cancelled(&self, play: &Play) -> bool {
        let steps = play.exchange.and_then(|exchange| self.tape.exchange(exchange)).map(|it| &it.steps);
        let ahead =
            steps.is_some_and(|steps| steps.iter().skip(play.at).any(|step| *step == Step::Cancelled));
        !play.cancelled && ahead
    }

    /// The client cancels a request: what was recorded after its cancellation follows, or nothing.
    pub(super) fn cancel(&mut self, number: u64, now: u64) {
        if self.cancel_held(number, false, now) {
            return;
        }
        let Some(play) = self.plays.get_mut(&number) else { return };
        let steps =
            play.exchange.and_then(|exchange| self.tape.exchange(exchange)).map(|exchange| &exchange.steps);
        let at = steps.and_then(|steps| steps.iter().skip(play.at).position(|step| *step == Step::Cancelled));
        if let Some(at) = at {
            play.cancelled = true;
            play.deadline = None;
            play.at += at;
            self.advance(number, now);
        } else if let Some(play) = self.plays.remove(&number) {
            self.withdraw(play.to(), false);
            self.finish(number, &play, now);
        }
    }

    /// The client closed the stream of a request. A modern one is cancelled by that; a legacy one goes on, unless only
    /// the client's leaving was to end it.
    pub fn left(&mut self, carrier: u64, now: u64) {
        self.left_live(carrier);
        self.left_plays(now, |play| play.carrier == carrier);
    }

    /// The client closed the one stream that everything of a session goes to: with it goes what waits for its leaving.
    pub fn left_session(&mut self, session: usize, now: u64) {
        self.left_plays(now, |play| play.session == session);
    }

    fn left_plays(&mut self, now: u64, went: impl Fn(&Play) -> bool) {
        let gone = self.plays.iter().filter(|(_, play)| went(play));
        let mut numbers: Vec<u64> = gone.map(|(number, _)| *number).collect();
        numbers.sort_unstable();
        for number in numbers {
            if self.cancel_held(number, true, now) {
                continue;
            }
            let Some(play) = self.plays.get(&number) else { continue };
            let steps = play.exchange.and_then(|exchange| self.tape.exchange(exchange));
            if play.era == Era::Modern || steps.is_none_or(|exchange| play.at >= exchange.steps.len()) {
                self.cancel(number, now);
            }
        }
    }

    /// HTTP: what answers a request comes in a way that its client does not take. It got nothing, and may ask again.
    pub fn not_given(&mut self, carrier: u64, answers: Vec<u32>, now: u64) {
        let on_it = self.plays.iter_mut().filter(|(_, play)| play.carrier == carrier);
        let mut numbers: Vec<u64> = on_it
            .map(|(number, play)| {
                play.first = false;
                *number
            })
            .collect();
        numbers.sort_unstable();
        numbers.into_iter().for_each(|number| self.cancel(number, now));
        for exchange in answers {
            if !self.owed.contains(&exchange) {
                self.owed.push(exchange);
            }
        }
    }

    /// A session is over: nothing is sent to it any more, and what it held is given back, when nothing that was recorded
    /// goes on in it any more.
    pub fn close(&mut self, session: usize) {
        let goes_on = self.plays.values().any(|play| play.session == session) || self.tasks.has(session);
        // What the live server still has to say to it is not to reach another one in its place.
        let goes_on = goes_on || self.has_gone_on(session);
        let Some(place) = self.sessions.get_mut(session) else { return };
        if goes_on {
            place.over = true;
            return;
        }
        let over = std::mem::replace(place, Session::new(Box::new(|_| usize::MAX)));
        let asked = over.asked.values().filter_map(|(_, ask)| self.tape.item(*ask));
        self.report.pending.extend(asked.map(|item| item.view.method_name(&self.tape.text).into_owned()));
        self.forget_kept(session);
        self.free.push(session);
    }

    /// Something that went on in a session is over.
    pub(super) fn close_over(&mut self, session: usize) {
        if self.sessions.get(session).is_some_and(|session| session.over) {
            self.close(session);
        }
    }

    /// The client will say no more: what is due goes out without delay.
    pub fn end_of_input(&mut self, session: usize, now: u64) {
        self.send_due(session, now);
        let conn = self.sessions.get(session).and_then(|session| session.stands_for);
        let conn = conn.and_then(|conn| self.tape.conns.get(usize::try_from(conn).ok()?));
        let at_end = conn.map(|conn| conn.at_end.clone()).unwrap_or_default();
        self.release(session, &at_end, now);
    }

    /// Sends what only waits for its time.
    pub(super) fn send_due(&mut self, session: usize, now: u64) {
        let mut due: Vec<u64> = self
            .plays
            .iter()
            .filter(|(_, play)| play.session == session)
            .filter(|(_, play)| play.not_before > now || play.course.is_waiting())
            .map(|(number, _)| *number)
            .collect();
        due.sort_unstable();
        for number in due {
            if let Some(play) = self.plays.get_mut(&number) {
                play.not_before = now;
                play.course.hurried = true;
            }
            self.advance(number, now);
        }
    }

    /// Sends a finished answer, or keeps it until its batch is complete.
    pub(super) fn answer(&mut self, to: To, part: Part, text: String) {
        let To { session, batch, carrier } = to;
        // What is made here may tell of what the client sent.
        let text =
            if part == Part::Made { self.rules.redaction().without_known(&text).into_owned() } else { text };
        let Some(live) = self.sessions.get_mut(session) else { return };
        let Some(number) = batch else {
            let carrier = Some(carrier);
            self.out.push(Output::Message { session, carrier, text, part, alone: false });
            self.overtake(session);
            return;
        };
        if let Some(batch) = live.batches.get_mut(&number) {
            batch.answers.push(text);
        }
        self.leave_batch(to, false);
    }

    /// A request gets no answer: its stream ends, or its batch is complete without.
    pub(super) fn withdraw(&mut self, to: To, cut: bool) {
        match to.batch {
            Some(_) => self.leave_batch(to, cut),
            None => self.out.push(Output::Over { carrier: to.carrier, cut }),
        }
    }

    fn leave_batch(&mut self, to: To, cut: bool) {
        let To { session, batch, carrier } = to;
        let Some(live) = self.sessions.get_mut(session) else { return };
        let Some(number) = batch else { return };
        let Some(batch) = live.batches.get_mut(&number) else { return };
        batch.waiting = batch.waiting.saturating_sub(1);
        if batch.waiting > 0 {
            return;
        }
        match live.batches.remove(&number).filter(|batch| !batch.answers.is_empty()) {
            Some(batch) => {
                let text = format!("[{}]", batch.answers.join(","));
                let (carrier, part) = (Some(carrier), Part::Answer);
                self.out.push(Output::Message { session, carrier, text, part, alone: false });
            }
            None => self.out.push(Output::Over { carrier, cut }),
        }
    }
}
