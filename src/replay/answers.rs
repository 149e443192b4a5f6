//! Playing an exchange to a live client: what goes out, when, and what the client may not be sent; and the answers to
//! requests that nobody records but clients send all the same.

use std::cmp::Reverse;

use super::choose::base_key;
use super::facts::{GET, Redirect};
use super::index::is_open;
use super::key;
use super::live::{self, Splice};
use super::player::{Output, Part, Player};
use super::report::Miss;
use super::session::{Asked, Play};
use super::tape::{Item, Outcome, Step};
use super::unsolicited::admits;
use crate::jsonrpc::canonical;
use crate::jsonrpc::message::{View, member, member_at};
use crate::jsonrpc::scan::{Members, Span};
use crate::jsonrpc::string;
use crate::mcp::{self, Era, code};

/// What playing on came to.
pub(super) enum Flow {
    /// The exchange is over.
    Done,
    /// Something must happen first: a reply, a cancellation, a time.
    Wait,
    /// It ends with an error of ours: its code, why, and the way out.
    Fail(i32, String, &'static str),
}

/// The way out of an error that `--strict` made of a warning.
pub(super) const WITHOUT_STRICT: &str = "without --strict this is a warning";

/// Why what was recorded over HTTP is no answer on a pipe, and the way out.
const NO_ANSWER: &str = "the recorded server answered over HTTP, and not with a message";
const SERVE_HTTP: &str = "to see what it did, serve it with --listen";

/// How long the recorded end of a server waits for calls that were answered before it, in microseconds.
const END_GRACE: u64 = 250_000;

impl Player {
    /// Plays on as far as possible.
    pub(super) fn advance(&mut self, number: u64, now: u64) {
        let Some(mut play) = self.plays.remove(&number) else { return };
        match self.run(&mut play, number, now) {
            Flow::Wait => {
                self.plays.insert(number, play);
            }
            Flow::Done => self.finish(number, &play, now),
            Flow::Fail(code, why, hint) => {
                self.plays.insert(number, play);
                self.fail_play(number, code, &why, hint);
            }
        }
    }

    fn run(&mut self, play: &mut Play, number: u64, now: u64) -> Flow {
        let Some(exchange) = play.exchange else { return Flow::Wait };
        if let Some(flow) = self.open_play(play, number, exchange, now) {
            return flow;
        }
        if play.deadline.is_some_and(|deadline| deadline <= now) {
            return self.unanswered(play);
        }
        loop {
            let step = self.tape.exchange(exchange).and_then(|exchange| exchange.steps.get(play.at)).copied();
            let Some(step) = step else { return self.after_last_step(play, number, exchange, now) };
            if self.is_early(play, number, step, now) {
                return Flow::Wait;
            }
            let before = self.out.len();
            match step {
                // Asked for again, a subscription is acknowledged and held, however it once ended.
                Step::Send(_) | Step::Answer(_) if play.listen && !play.first && play.at > 0 => {
                    return Flow::Wait;
                }
                // It goes out with the answer.
                Step::Send(item) | Step::Ask(item) if self.shares_its_array(play, exchange, item) => {}
                Step::Send(item) => self.send_notification(play, item, now),
                Step::Ask(item) => {
                    if let Err(missing) = self.ask(play, number, item) {
                        return Flow::Fail(code::UNANSWERED, missing, WITHOUT_STRICT);
                    }
                }
                Step::Await(ask, _) => {
                    if play.asks.get(&ask) == Some(&Asked::Sent) {
                        if play.deadline.is_none() {
                            let deadline = now.saturating_add(self.options.answer_timeout);
                            play.deadline = Some(deadline);
                            self.timers.push(Reverse((deadline, number)));
                        }
                        return Flow::Wait;
                    }
                }
                Step::Resumed => self.out.push(Output::Pause { carrier: play.carrier }),
                Step::Cancelled if !play.cancelled => return Flow::Wait,
                Step::Cancelled => {}
                Step::Answer(item) => {
                    if now < play.not_before {
                        self.timers.push(Reverse((play.not_before, number)));
                        return Flow::Wait;
                    }
                    if self.is_held(play, number, now) {
                        return Flow::Wait;
                    }
                    return self.send_answer(play, item, now);
                }
            }
            play.at += 1;
            if let Some(flow) = self.sent(play, before) {
                return flow;
            }
        }
    }

    fn after_last_step(&mut self, play: &mut Play, number: u64, exchange: u32, now: u64) -> Flow {
        if self.give_error(play) {
            return Flow::Done;
        }
        match self.tape.exchange(exchange).map(|exchange| exchange.outcome) {
            Some(Outcome::ServerEnded) => {
                let end_at = *play.end_at.get_or_insert(now.saturating_add(END_GRACE));
                if now < end_at && self.is_outlived(exchange) {
                    self.timers.push(Reverse((end_at, number)));
                    if let Some(session) = self.sessions.get_mut(play.session) {
                        session.ending.push(number);
                    }
                    return Flow::Wait;
                }
                self.send_due(play.session, now);
                let conn = self.tape.exchange(exchange).map(|exchange| exchange.conn);
                if let Some(session) = self.sessions.get_mut(play.session) {
                    session.ended_with = conn;
                }
                self.out.push(Output::EndOfStream { session: play.session });
                // With the server goes all that it had not answered.
                self.plays.retain(|_, other| other.session != play.session);
                Flow::Done
            }
            Some(Outcome::Cut | Outcome::Bare) if !self.options.http => {
                Flow::Fail(code::LOST, NO_ANSWER.to_owned(), SERVE_HTTP)
            }
            Some(outcome @ (Outcome::Cut | Outcome::Bare)) => {
                self.withdraw(play.to(), outcome == Outcome::Cut);
                Flow::Done
            }
            Some(Outcome::Lost) if self.leads_elsewhere(exchange) => Flow::Fail(
                code::LOST,
                "the recorded server led the client to another server, which was not recorded".to_owned(),
                "record the server that answers",
            ),
            Some(Outcome::Lost) => Flow::Fail(
                code::LOST,
                "the answer to this request is not in the cassette (the recorder was killed, or the line is damaged)"
                    .to_owned(),
                "record again to complete it",
            ),
            _ if play.cancelled => {
                self.withdraw(play.to(), false);
                Flow::Done
            }
            _ => Flow::Wait,
        }
    }

    fn leads_elsewhere(&self, exchange: u32) -> bool {
        self.tape.facts(exchange).is_some_and(|facts| facts.redirect == Some(Redirect::Elsewhere))
    }

    /// Whether requests that came after this one were answered before the server's end, and are not yet.
    fn is_outlived(&self, exchange: u32) -> bool {
        let conn = self.tape.exchange(exchange).map(|exchange| exchange.conn);
        let later = self.tape.exchanges.iter().zip(0..).skip(usize::try_from(exchange).unwrap_or(usize::MAX));
        let mut answered = later.filter(|(later, number)| {
            Some(later.conn) == conn && *number != exchange && later.outcome == Outcome::Answered
        });
        answered.any(|(_, number)| {
            is_open(number, &self.taken) || self.plays.values().any(|play| play.exchange == Some(number))
        })
    }

    /// The client took too long over a question.
    fn unanswered(&self, play: &Play) -> Flow {
        let mut open: Vec<u32> =
            play.asks.iter().filter(|(_, asked)| **asked == Asked::Sent).map(|(ask, _)| *ask).collect();
        open.sort_unstable();
        let names: Vec<String> = open
            .iter()
            .filter_map(|ask| self.tape.item(*ask))
            .map(|item| item.view.method_name(&self.tape.text).into_owned())
            .collect();
        let why = format!("the client did not answer a recorded request of the server: {}", names.join(", "));
        Flow::Fail(code::UNANSWERED, why, "to give the client more time, --answer-timeout")
    }

    /// Ends a play with an error, which counts as a miss.
    pub(super) fn fail_play(&mut self, number: u64, code: i32, why: &str, hint: &str) {
        let Some(play) = self.plays.remove(&number) else { return };
        let request = play.exchange.and_then(|exchange| self.tape.request(exchange));
        let (method, name) = request.map_or((String::new(), None), |item| {
            let method = item.view.method_name(&self.tape.text).into_owned();
            let name = mcp::target(&method, &self.tape.text, &item.view);
            (method, name)
        });
        let miss = Miss { method, name, why: why.to_owned(), nearest: None, hint: hint.to_owned() };
        self.out.push(Output::Note(format!("{}: {}", miss.subject(), miss.words())));
        let line = live::error(&play.id, code, &format!("mcpreel: {why}"), Some(&miss.json()));
        self.count_miss(miss);
        self.answer(play.to(), Part::Made, line);
        self.forget(number, &play);
        self.close_over(play.session);
    }

    fn forget(&mut self, number: u64, play: &Play) {
        let Some(session) = self.sessions.get_mut(play.session) else { return };
        if session.running.get(&play.id) == Some(&number) {
            session.running.remove(&play.id);
        }
        session.asked.retain(|_, (asking, _)| *asking != number);
    }

    pub(super) fn finish(&mut self, number: u64, play: &Play, now: u64) {
        self.forget(number, play);
        if play.first {
            let after = play
                .exchange
                .and_then(|exchange| self.tape.exchange(exchange))
                .map(|exchange| exchange.after.clone());
            self.release(play.session, &after.unwrap_or_default(), now);
        }
        let ending = self.sessions.get_mut(play.session).map(|session| std::mem::take(&mut session.ending));
        ending.unwrap_or_default().into_iter().for_each(|number| self.advance(number, now));
        self.close_over(play.session);
    }

    /// The array that the answer to a request came in which was no array itself. On a pipe it would be no answer.
    fn array_of(&self, play: &Play, item: &Item) -> Option<Span> {
        self.tape.wire.array(item).filter(|_| self.options.http && play.batch.is_none())
    }

    fn shares_its_array(&self, play: &Play, exchange: u32, item: u32) -> bool {
        let (Some(item), Some(answer)) = (self.tape.item(item), self.tape.answer(exchange)) else {
            return false;
        };
        item.record == answer.record && self.array_of(play, answer).is_some()
    }

    /// Whether the answer names another request than the one it came on the exchange of.
    fn names_another(&self, play: &Play, item: &Item) -> bool {
        let text = &self.tape.text;
        let request =
            play.exchange.and_then(|exchange| self.tape.request(exchange)).and_then(|it| it.view.id);
        let (Some(asked), Some(named)) = (request, item.view.id) else { return false };
        let (asked, named) = (asked.of(text), named.of(text));
        item.exchange != 0
            && named != "null"
            && asked != named
            && canonical::id(asked) != canonical::id(named)
    }

    /// What the client learns of its revision.
    fn agree(&mut self, play: &Play, answer: &Item) {
        let text = &self.tape.text;
        let request = play.exchange.and_then(|exchange| self.tape.request(exchange));
        let Some(result) = answer
            .view
            .result
            .filter(|_| request.is_some_and(|request| request.view.method_name(text) == "initialize"))
        else {
            return;
        };
        let recorded = member(text, result, "protocolVersion").map(|span| span.of(text));
        let agreed = play.version.as_deref().or(recorded).map(string::decode);
        let batches = agreed.as_deref() == Some(mcp::WITH_BATCHES);
        if let Some(session) = self.sessions.get_mut(play.session) {
            session.has_batches = batches;
        }
    }

    pub(super) fn send_answer(&mut self, play: &mut Play, index: u32, now: u64) -> Flow {
        // The rest is about what the client learns from the answer.
        if self.give_error(play) {
            return Flow::Done;
        }
        let Some(item) = self.tape.item(index).copied() else { return Flow::Done };
        let names_another = self.names_another(play, &item);
        if !self.options.http {
            // What a client on a pipe could not tell from an answer to its request.
            let why = match self.tape.wire.breaks_off(item.exchange) {
                true => Some("the recorded server broke off in its answer"),
                false if item.view.id.is_none() => Some("the recorded server's answer names no request"),
                false => names_another.then_some("the recorded server's answer names another request"),
            };
            if let Some(why) = why {
                return Flow::Fail(code::LOST, why.to_owned(), SERVE_HTTP);
            }
        }
        if let Some(error) = self.forbidden_answer(play, &item) {
            // A client that learns may come back for it. Until then nobody has used it.
            let exchange = play.exchange.filter(|_| play.first);
            if let Some(taken) = exchange.and_then(|it| self.taken.get_mut(usize::try_from(it).ok()?)) {
                *taken = false;
            }
            self.owe(play);
            self.answer(play.to(), Part::Made, error);
            return Flow::Done;
        }
        self.agree(play, &item);
        self.task_created(play, &item, now);
        let text = &self.tape.text;
        let whole = self.array_of(play, &item).unwrap_or(item.view.whole);
        let mut splice = Splice::new(text, View { whole, ..item.view });
        // An answer to nobody in particular stays one, where the connection tells whose it is.
        let nobody = names_another || item.view.id.is_none_or(|id| id.of(text) == "null");
        if !(nobody && self.options.http) {
            splice.id(&play.id);
        }
        if play.listen {
            splice.subscription(&play.id);
        }
        if let Some(version) = &play.version {
            let span = splice.result(&["protocolVersion"]);
            splice.put(span, version);
        }
        for (span, value) in self.tasks.edits(text, &item.view, item.conn, play.task) {
            splice.put(Some(span), &value);
        }
        let line = splice.line();
        if self.has_live_server() {
            self.note_served(play.exchange, &line);
        }
        self.give(play, line);
        self.task_answered(play);
        Flow::Done
    }

    /// Remembers that what an answer hands out is the cassette's.
    fn note_served(&mut self, exchange: Option<u32>, line: &str) {
        let Some(request) = exchange.and_then(|exchange| self.tape.request(exchange)) else { return };
        let method = request.view.method_name(&self.tape.text).into_owned();
        let round = base_key(&self.tape.text, &request.view);
        if let Ok(view) = View::of(line) {
            self.served(line, &view, &method, &round, false);
        }
    }

    /// A modern result that the client cannot understand, by its declared capabilities: the error it gets instead.
    fn forbidden_answer(&mut self, play: &Play, item: &Item) -> Option<String> {
        if play.era != Era::Modern {
            return None;
        }
        let text = &self.tape.text;
        let result = item.view.result?;
        let kind = member(text, result, "resultType").map(|span| string::decode(span.of(text)))?;
        let missing: Vec<&'static [&'static str]> = match &*kind {
            "task" => {
                let declared = play.capabilities.as_deref().is_some_and(|capabilities| {
                    let whole = Span::new(0, capabilities.len());
                    member_at(capabilities, whole, &["extensions", mcp::TASKS]).is_some()
                });
                if declared { Vec::new() } else { vec![&["extensions", mcp::TASKS]] }
            }
            "input_required" => {
                let mut missing = Vec::new();
                let mut questions = Members::of(text, member(text, result, "inputRequests")?.start)?;
                while let Ok(Some((_, question))) = questions.next() {
                    let method =
                        member(text, question, "method").map(|span| string::decode(span.of(text)))?;
                    let params = member(text, question, "params").map(|span| span.of(text));
                    missing.extend(mcp::missing_capability(&method, params, play.capabilities.as_deref()));
                }
                missing
            }
            _ => Vec::new(),
        };
        if missing.is_empty() {
            return None;
        }
        let names: Vec<String> = missing.iter().map(|path| path.join(".")).collect();
        let data = format!("{{\"requiredCapabilities\":{}}}", nested(&missing));
        let message = format!("the client does not declare {}", names.join(", "));
        let error = live::error(&play.id, code::MISSING_CAPABILITY, &message, Some(&data));
        self.warn(message);
        Some(error)
    }

    /// Asks the client what the server asked; `Err` says why that is an error.
    fn ask(&mut self, play: &mut Play, number: u64, index: u32) -> Result<(), String> {
        let Some(item) = self.tape.item(index).copied() else { return Ok(()) };
        let method = item.view.method_name(&self.tape.text).into_owned();
        let params = item.view.params.map(|params| params.of(&self.tape.text));
        if let Some(missing) = mcp::missing_capability(&method, params, play.capabilities.as_deref()) {
            let warning = format!("{method} was not sent: the client does not declare {}", missing.join("."));
            if self.options.strict {
                return Err(warning);
            }
            play.asks.insert(index, Asked::Skipped);
            self.warn(warning);
            return Ok(());
        }
        play.asks.insert(index, Asked::Sent);
        let carrier = Some(play.carrier).filter(|_| item.exchange != GET);
        self.send_question(play.session, (number, index), carrier, &item, play.task);
        Ok(())
    }

    pub(super) fn send_question(
        &mut self,
        session: usize,
        asking: (u64, u32),
        carrier: Option<u64>,
        item: &Item,
        task: Option<usize>,
    ) {
        let Some(live) = self.sessions.get_mut(session) else { return };
        let id = live.next_ask.to_string();
        live.next_ask += 1;
        live.asked.insert(id.clone(), asking);
        let mut splice = Splice::new(&self.tape.text, item.view);
        splice.id(&id);
        for (span, value) in self.tasks.edits(&self.tape.text, &item.view, item.conn, task) {
            splice.put(Some(span), &value);
        }
        let text = splice.line();
        self.out.push(Output::Message { session, carrier, text, part: Part::Inner, alone: false });
    }

    /// Sends a notification that belongs to a play, if the client may have it.
    pub(super) fn send_notification(&mut self, play: &mut Play, index: u32, now: u64) {
        let Some(item) = self.tape.item(index).copied() else { return };
        let text = &self.tape.text;
        let method = item.view.method_name(text).into_owned();
        let mut splice = Splice::new(text, item.view);
        let mut alone = false;
        match method.as_str() {
            "notifications/progress" => {
                let Some(token) = &play.token else { return };
                splice.progress_token(token);
                play.not_before = now.saturating_add(self.options.progress_gap);
                alone = true;
            }
            "notifications/message" if !self.wants_log(play.session, Some(play), &item) => return,
            "notifications/subscriptions/acknowledged" => {
                let recorded = splice.param(&["notifications"]);
                if let Some(honoured) = recorded.and_then(|span| intersect(span.of(text), &play.filter)) {
                    splice.put(recorded, &honoured);
                }
                splice.subscription(&play.id);
            }
            "notifications/cancelled" => {
                let session = self.sessions.get(play.session);
                let asked =
                    item.view.params.and_then(|params| member(text, params, "requestId")).and_then(|id| {
                        session?.asked.iter().find(|(_, (_, ask))| {
                            self.tape
                                .item(*ask)
                                .and_then(|ask| ask.view.id)
                                .is_some_and(|own| own.of(text) == id.of(text))
                        })
                    });
                let id = if play.listen { Some(play.id.clone()) } else { asked.map(|(id, _)| id.clone()) };
                let Some(id) = id else { return };
                splice.request_id(&id).subscription(&id);
            }
            _ if play.listen => {
                if !admits(&play.filter, &method, text, &item) {
                    return;
                }
                splice.subscription(&play.id);
            }
            "notifications/resources/updated" if !self.is_subscribed(play.session, &item) => return,
            _ => {}
        }
        for (span, value) in self.tasks.edits(text, &item.view, item.conn, play.task) {
            splice.put(Some(span), &value);
        }
        let line = splice.line();
        let carrier = Some(play.carrier).filter(|_| item.exchange != GET);
        let part = Part::Inner;
        self.out.push(Output::Message { session: play.session, carrier, text: line, part, alone });
    }
}

/// What was acknowledged and is asked for now; `None` when all of it is.
fn intersect(acknowledged: &str, filter: &[String]) -> Option<String> {
    let recorded = key::entries_of(acknowledged);
    if recorded.iter().all(|entry| filter.contains(entry)) {
        return None;
    }
    let kept = recorded.iter().filter(|entry| filter.contains(entry));
    let mut members: Vec<(String, Vec<String>)> = Vec::new();
    for entry in kept {
        match entry.split_once(' ') {
            None => members.push((entry.clone(), Vec::new())),
            Some((name, value)) => match members.iter_mut().find(|(known, _)| known == name) {
                Some((_, values)) => values.push(string::encode(value)),
                None => members.push((name.to_owned(), vec![string::encode(value)])),
            },
        }
    }
    let members: Vec<String> = members
        .iter()
        .map(|(name, values)| match values.is_empty() {
            true => format!("{}:true", string::encode(name)),
            false => format!("{}:[{}]", string::encode(name), values.join(",")),
        })
        .collect();
    Some(format!("{{{}}}", members.join(",")))
}

/// Capability paths as one object: `[["sampling"],["sampling","tools"]]` is `{"sampling":{"tools":{}}}`.
fn nested(paths: &[&'static [&'static str]]) -> String {
    let mut heads: Vec<&str> = paths.iter().filter_map(|path| path.first().copied()).collect();
    heads.sort_unstable();
    heads.dedup();
    let members: Vec<String> = heads
        .iter()
        .map(|head| {
            let below: Vec<&'static [&'static str]> = paths
                .iter()
                .filter(|path| path.first() == Some(head))
                .filter_map(|path| path.get(1..).filter(|rest| !rest.is_empty()))
                .collect();
            format!("{}:{}", string::encode(head), nested(&below))
        })
        .collect();
    format!("{{{}}}", members.join(","))
}
