//! Playing with faults and at a pace: what holds a message back, and what becomes of an answer.

use std::cmp::Reverse;

use super::answers::Flow;
use super::choose::is_known;
use super::facts::Kind as Body;
use super::faults::effect::{Act, Effect, half};
use super::faults::target::Subject;
use super::faults::{Faults, Hit, Kind, Row, Strategy, Way};
use super::framing::Framing;
use super::inputs::Inputs;
use super::key::{self, Key};
use super::live::{self, Splice};
use super::pace::Anchor;
use super::player::{Output, Part, Player, Request};
use super::session::{Asked, Play};
use super::tape::{Item, Step};
use crate::jsonrpc::message::{View, member};
use crate::mcp;

/// What a client gets in the place of JSON.
const NOT_JSON: &str = "mcpreel: this line is not JSON";
/// The id of an answer to nobody.
const NOBODY: &str = "\"mcpreel-unknown-id\"";

/// How far an exchange is in its faults and its pace.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// What hits it.
    pub(super) hit: Hit,
    /// Nothing goes out before this time (microseconds).
    start_at: u64,
    /// The answer has begun.
    begun: bool,
    /// No time is waited for any more.
    pub(super) hurried: bool,
    /// The client has given up.
    gave_up: bool,
    /// Until when it waits to be overtaken.
    overtaken_by: Option<u64>,
    /// Another answer went before this one.
    overtaken: bool,
    /// Messages sent on the stream.
    events: u64,
    /// What the next message keeps its distance from.
    anchor: Option<Anchor>,
}

impl Course {
    /// Whether nothing will ever come.
    pub(super) fn is_mute(&self) -> bool {
        self.begun && matches!(self.hit.holds, Some((_, Kind::Timeout)))
    }

    /// Whether only the client's giving up lets the answer out.
    fn is_late(&self) -> bool {
        !self.gave_up && matches!(self.hit.holds, Some((_, Kind::Late)))
    }

    /// Whether it may be waiting for a time that does not matter when the client says no more.
    pub(super) fn is_waiting(&self) -> bool {
        !self.hurried
            && (!self.begun || self.overtaken_by.is_some() || self.anchor.is_some() || self.is_late())
    }
}

impl Player {
    /// The same player with faults.
    #[must_use]
    pub fn with_faults(mut self, faults: Faults) -> Self {
        self.faults = Some(faults);
        self
    }

    /// What became of the faults.
    #[must_use]
    pub fn fault_rows(&self) -> Option<Vec<Row>> {
        self.faults.as_ref().map(|faults| faults.rows(&self.tape.server))
    }

    /// The session has one stream for everything (HTTP+SSE, 2024-11-05), as on a pipe.
    pub fn pipe(&mut self, session: usize) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.piped = true;
        }
    }

    /// How an exchange will go that answers `request`.
    pub(super) fn course(&mut self, request: &Request<'_>, exchange: Option<u32>, now: u64) -> Course {
        let recorded = exchange.and_then(|exchange| self.tape.request(exchange)).map(|item| item.at);
        let hit = match exchange {
            Some(exchange) => self.hit(request, exchange),
            None => Hit::default(),
        };
        let start_at = now.saturating_add(hit.delay.map_or(0, |(_, micros)| micros));
        let anchor = recorded.filter(|_| self.options.pace.is_some());
        let anchor = anchor.map(|recorded| Anchor { recorded, live: start_at });
        Course { hit, start_at, anchor, begun: exchange.is_none(), ..Course::default() }
    }

    fn hit(&mut self, request: &Request<'_>, exchange: u32) -> Hit {
        let piped = !self.options.http || self.sessions.get(request.session).is_some_and(|live| live.piped);
        let way = if piped { Way::Pipe } else { Way::Http { sessions: self.options.sessions } };
        let Some(faults) = &mut self.faults else { return Hit::default() };
        let name = mcp::target(&request.method, request.text, &request.view);
        let arguments = request.view.params.and_then(|params| member(request.text, params, "arguments"));
        let subject = Subject {
            server: &self.tape.server,
            method: &request.method,
            name: name.as_deref(),
            arguments: arguments.map(|span| span.of(request.text)),
        };
        let (hit, warnings) = faults.pick(&subject, way, request.era);
        warnings.into_iter().for_each(|warning| self.warn(warning));
        for (index, text) in &hit.noise {
            self.effect(request.session, request.carrier, Act::Noise(text.clone()));
            self.fired(*index, exchange);
        }
        // Who gives up meanwhile was hit by it.
        if let Some((index, _)) = hit.delay {
            self.fired(index, exchange);
        }
        hit
    }

    fn fired(&mut self, index: usize, exchange: u32) {
        let message = self.tape.request(exchange).map_or(0, |item| item.record);
        if let Some(faults) = &mut self.faults {
            faults.fired(index, message);
        }
    }

    fn play_fired(&mut self, index: usize, play: &Play) {
        if let Some(exchange) = play.exchange {
            self.fired(index, exchange);
        }
    }

    fn effect(&mut self, session: usize, carrier: u64, act: Act) {
        self.out.push(Output::Fault(Effect { session, carrier, act }));
    }

    /// Before the first step: the delay, the head of the answer, and what takes the place of all the rest.
    pub(super) fn open_play(
        &mut self,
        play: &mut Play,
        number: u64,
        exchange: u32,
        now: u64,
    ) -> Option<Flow> {
        if play.course.begun {
            return play.course.is_mute().then_some(Flow::Wait);
        }
        if now < play.course.start_at && !play.course.hurried {
            self.timers.push(Reverse((play.course.start_at, number)));
            return Some(Flow::Wait);
        }
        play.course.begun = true;
        if let Some((index, _)) = play.course.hit.drip {
            self.fired(index, exchange);
        }
        let (session, carrier) = (play.session, play.carrier);
        if let Some((index, Kind::Timeout)) = play.course.hit.holds {
            self.begin(carrier, Some(exchange), |_| {});
            self.effect(session, carrier, Act::Head { mute: true });
            self.fired(index, exchange);
            self.owe(play);
            return Some(Flow::Wait);
        }
        let Some((index, kind)) = play.course.hit.answer.clone() else {
            self.begin(carrier, Some(exchange), |_| {});
            return None;
        };
        let act = match kind {
            Kind::HttpStatus { status, headers, body } => Act::Status { status, headers, body },
            Kind::SessionExpired => Act::Expired,
            Kind::Disconnect { after_response: false } => Act::Reset,
            Kind::Exit { code, after_response: false } => Act::Exit(code),
            Kind::CutStream { after_events: 0 } => {
                self.begin(carrier, Some(exchange), |_| {});
                self.effect(session, carrier, Act::Head { mute: false });
                return self.cut(play, index);
            }
            kind => {
                self.begin(carrier, Some(exchange), |framing| prepare(framing, &kind));
                return None;
            }
        };
        self.effect(session, carrier, act);
        self.fired(index, exchange);
        self.owe(play);
        Some(Flow::Done)
    }

    /// Whether a step has to wait for its time.
    pub(super) fn is_early(&mut self, play: &mut Play, number: u64, step: Step, now: u64) -> bool {
        let (Some(pace), Some(anchor)) = (self.options.pace, play.course.anchor) else { return false };
        let at = |index: u32| self.tape.item(index).map_or(anchor.recorded, |item| item.at);
        match step {
            Step::Send(item) | Step::Ask(item) | Step::Answer(item) => {
                let due = anchor.due(at(item), &pace);
                if now < due && !play.course.hurried {
                    self.timers.push(Reverse((due, number)));
                    return true;
                }
                play.course.anchor = Some(Anchor { recorded: at(item), live: due });
            }
            // What follows the client's own messages keeps its distance from the live ones.
            Step::Await(ask, answer) if play.asks.get(&ask) != Some(&Asked::Sent) => {
                play.course.anchor = Some(Anchor { recorded: at(answer), live: now.max(anchor.live) });
            }
            _ => {}
        }
        false
    }

    /// After a step, which had begun with `before` outputs: what was sent on the stream is slow, or was the last.
    pub(super) fn sent(&mut self, play: &mut Play, before: usize) -> Option<Flow> {
        let ours = |output: &Output| matches!(output, Output::Message { carrier, .. } if *carrier == Some(play.carrier));
        if self.out.len() <= before || !self.out.last().is_some_and(ours) {
            return None;
        }
        if let Some(act) = slow(play) {
            let (session, carrier) = (play.session, play.carrier);
            self.out.insert(before, Output::Fault(Effect { session, carrier, act }));
        }
        play.course.events += 1;
        match play.course.hit.answer {
            Some((index, Kind::CutStream { after_events })) if after_events == play.course.events => {
                self.cut(play, index)
            }
            _ => None,
        }
    }

    /// The stream breaks off. A client that can come back gets the rest then; another one has to ask again.
    fn cut(&mut self, play: &mut Play, index: usize) -> Option<Flow> {
        self.play_fired(index, play);
        self.effect(play.session, play.carrier, Act::Break);
        play.course.hit.answer = None;
        let resumable = play.exchange.and_then(|exchange| self.tape.facts(exchange));
        if self.options.faithful && resumable.is_some_and(|facts| facts.resumable) {
            return None;
        }
        self.owe(play);
        Some(Flow::Done)
    }

    fn slow(&mut self, play: &Play) {
        if let Some(act) = slow(play) {
            self.effect(play.session, play.carrier, act);
        }
    }

    /// The client cancels what has its answer.
    pub(super) fn hurry(&mut self, session: usize, id: &str) {
        if self.faults.is_some() {
            self.effect(session, 0, Act::Hurry(id.to_owned()));
        }
    }

    /// Whether the answer is held back by a fault.
    pub(super) fn is_held(&mut self, play: &mut Play, number: u64, now: u64) -> bool {
        match play.course.hit.holds {
            // Who says no more has given up.
            Some((index, Kind::Late)) if play.course.is_late() && play.course.hurried => {
                self.play_fired(index, play);
                false
            }
            Some((_, Kind::Late)) => play.course.is_late(),
            Some((index, Kind::Reorder { within })) => {
                let until = *play.course.overtaken_by.get_or_insert(now.saturating_add(within));
                let overtakes = !play.course.overtaken && self.waits_to_be_overtaken(play.session);
                if play.course.overtaken || overtakes {
                    self.play_fired(index, play);
                    return false;
                }
                if now >= until || play.course.hurried {
                    return false;
                }
                self.timers.push(Reverse((until, number)));
                true
            }
            _ => false,
        }
    }

    fn waits_to_be_overtaken(&self, session: usize) -> bool {
        self.plays.values().any(|play| play.session == session && play.course.overtaken_by.is_some())
    }

    /// An answer has gone out: those that waited for one follow.
    pub(super) fn overtake(&mut self, session: usize) {
        if self.faults.is_none() {
            return;
        }
        for (number, play) in &mut self.plays {
            if play.session == session && play.course.overtaken_by.is_some() {
                play.course.overtaken = true;
                self.timers.push(Reverse((0, *number)));
            }
        }
    }

    /// The client cancels a request that a fault holds. `false`: none does.
    pub(super) fn cancel_held(&mut self, number: u64, left: bool, now: u64) -> bool {
        let Some(play) = self.plays.get_mut(&number) else { return false };
        if !play.course.is_late() && !play.course.is_mute() {
            return false;
        }
        let late = play.course.hit.holds.as_ref().filter(|_| play.course.is_late()).map(|(index, _)| *index);
        play.course.gave_up = true;
        let exchange = play.exchange;
        if let (Some(index), Some(exchange)) = (late, exchange) {
            self.fired(index, exchange);
            if !left {
                self.advance(number, now);
                return true;
            }
        }
        if let Some(play) = self.plays.remove(&number) {
            self.withdraw(play.to(), true);
            self.finish(number, &play, now);
        }
        true
    }

    /// The recorded answer goes out, or what a fault makes of it.
    pub(super) fn give(&mut self, play: &mut Play, line: String) {
        let to = play.to();
        if to.batch.is_none() {
            self.slow(play);
        }
        let Some((index, kind)) = play.course.hit.answer.take() else {
            return self.answer(to, Part::Answer, line);
        };
        let mut happened = true;
        match kind {
            Kind::Error { .. } => {
                self.answer(to, Part::Answer, injected(&play.id, &kind));
                self.owe(play);
            }
            Kind::Malformed(strategy) => {
                match strategy {
                    Strategy::NotJson => self.answer(to, Part::Answer, NOT_JSON.to_owned()),
                    Strategy::WrongId => self.answer(to, Part::Answer, answers_nobody(&line)),
                    Strategy::Truncate if to.batch.is_some() => {
                        self.answer(to, Part::Answer, half(&line).to_owned());
                    }
                    Strategy::Truncate => {
                        self.effect(to.session, to.carrier, Act::Half(line));
                        self.overtake(to.session);
                    }
                }
                self.owe(play);
            }
            Kind::Duplicate if to.batch.is_none() => {
                let (session, carrier) = (to.session, Some(to.carrier));
                let (text, part) = (line.clone(), Part::Inner);
                self.out.push(Output::Message { session, carrier, text, part, alone: false });
                self.slow(play);
                self.answer(to, Part::Answer, line);
            }
            Kind::Disconnect { after_response: true } if to.batch.is_none() => {
                self.effect(to.session, to.carrier, Act::Hangup(line));
            }
            Kind::CutStream { after_events } => {
                happened = after_events == play.course.events + 1 && self.streams(play) && to.batch.is_none();
                match happened {
                    true => self.effect(to.session, to.carrier, Act::Hangup(line)),
                    false => self.answer(to, Part::Answer, line),
                }
            }
            Kind::Exit { code, .. } => {
                self.answer(to, Part::Answer, line);
                self.effect(to.session, to.carrier, Act::Exit(code));
            }
            _ => {
                happened = false;
                self.answer(to, Part::Answer, line);
            }
        }
        if happened {
            self.play_fired(index, play);
        }
    }

    fn streams(&self, play: &Play) -> bool {
        let number = play.exchange.unwrap_or(u32::MAX);
        let framing = self.tape.exchange(number).map(|exchange| self.framing(number, exchange));
        framing.is_some_and(|framing| framing.kind == Body::Sse)
    }

    /// An injected error also ends what has no recorded answer.
    pub(super) fn give_error(&mut self, play: &mut Play) -> bool {
        let errs = matches!(play.course.hit.answer, Some((_, Kind::Error { .. })));
        if errs {
            self.give(play, String::new());
        }
        errs
    }

    /// The recorded answer was not given: who asks again gets it.
    pub(super) fn owe(&mut self, play: &mut Play) {
        if let Some(exchange) = play.exchange.filter(|_| play.first)
            && !self.owed.contains(&exchange)
        {
            self.owed.push(exchange);
        }
        play.first = false;
    }

    /// An exchange that was begun for an equal request and not given to it.
    pub(super) fn owed_to(
        &mut self,
        request: &Request<'_>,
        key: &Key,
        inputs: Option<&Inputs<'_>>,
    ) -> Option<u32> {
        let session = self.sessions.get(request.session);
        let seen = |value: &str| is_known(session, &self.rules, value);
        let fits = |exchange: u32| {
            let recorded = self.tape.exchange(exchange)?;
            let item: &Item = self.tape.item(recorded.request)?;
            if item.view.method_name(&self.tape.text) != request.method {
                return None;
            }
            let written = self.tape.written(item);
            let own = key::of(&self.tape.text, &item.view, recorded.era, &self.rules, written);
            let equal = own.is(key) || (item.redacted && own.stands_for(key, &seen).is_some());
            equal.then_some(exchange)
        };
        let equal: Vec<u32> = self.owed.iter().copied().filter_map(fits).collect();
        let exchange = self.fitting(equal, inputs).first().copied()?;
        self.owed.retain(|owed| *owed != exchange);
        Some(exchange)
    }
}

fn slow(play: &Play) -> Option<Act> {
    play.course.hit.drip.map(|(_, rate)| Act::Slow { rate, id: play.id.clone() })
}

/// How the answer goes out that a fault makes.
fn prepare(framing: &mut Framing, kind: &Kind) {
    match kind {
        Kind::Error { .. } => {
            framing.status = None;
            framing.body.clear();
            if matches!(framing.kind, Body::Other(_)) {
                framing.kind = Body::Json;
            }
        }
        // A body holds one message.
        Kind::Duplicate if framing.kind == Body::Json => {
            framing.kind = Body::Sse;
            framing.inner = true;
            framing.answer_only = false;
        }
        _ => {}
    }
}

fn injected(id: &str, kind: &Kind) -> String {
    match kind {
        Kind::Error { code, message, data } => live::error(id, *code, message, data.as_deref()),
        _ => String::new(),
    }
}

fn answers_nobody(line: &str) -> String {
    View::of(line).map_or_else(|_| line.to_owned(), |view| Splice::new(line, view).id(NOBODY).line())
}
