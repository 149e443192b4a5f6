//! Which recorded exchange answers a live request.

use std::cmp::Reverse;

use super::index::{Queue, Sought, is_open};
use super::inputs::{InputPolicy, Inputs};
use super::key::{self, Key, Rules, Values};
use super::player::{Ordering, Player, Repeat, Request};
use super::session::{Process, Session, process_of};
use super::spelled::Spelled;
use super::tape::{Exchange, Outcome};
use crate::jsonrpc::message::{View, member, member_at};
use crate::jsonrpc::scan::Members;
use crate::jsonrpc::string;
use crate::mcp;
use crate::redact::Written;

/// What a request gets.
pub(super) enum Choice {
    /// An exchange that was not played yet.
    Fresh(u32),
    /// One that was.
    Again(u32),
    /// None.
    Miss(Why),
}

/// Why a request has no answer.
pub(super) enum Why {
    /// Nobody recorded it.
    Unknown,
    /// It was recorded, but not as often.
    UsedUp { recorded: usize, asked: usize },
    /// `--ordering strict`: another one comes first, or none any more.
    OutOfOrder { expected: Option<(String, u32)> },
    /// It hands back what the cassette gave, which the live server does not know.
    Bound { what: &'static str },
    /// It holds what stands in the cassette for a secret.
    Placeholder,
    /// It is not UTF-8.
    NoText,
}

impl Player {
    /// Which exchange answers a request, those left out whose answer was lost when their recorder was killed and that
    /// another one, or the live server, makes up for.
    pub(super) fn choose_kept(&mut self, request: &Request<'_>, sought: &Sought) -> Choice {
        loop {
            let choice = self.choose(request, sought);
            let Choice::Fresh(lost) = choice else { return choice };
            let is_lost = |number: u32| {
                let exchange = self.tape.exchange(number);
                exchange.is_some_and(|it| it.outcome == Outcome::Lost && it.steps.is_empty())
            };
            let queue = self.index.queue(sought.place);
            let made_up =
                || queue.is_some_and(|queue| queue.open(None, &self.taken).any(|number| !is_lost(number)));
            if !is_lost(lost) || !(self.has_live_server() || made_up()) {
                return choice;
            }
            if let Some(taken) = self.taken.get_mut(usize::try_from(lost).unwrap_or(usize::MAX)) {
                *taken = true;
            }
            if let Some(queue) = self.index.queue_mut(sought.place) {
                queue.asked = queue.asked.saturating_sub(1);
            }
        }
    }

    /// Which exchange answers a request.
    pub(super) fn choose(&mut self, request: &Request<'_>, sought: &Sought) -> Choice {
        let inputs = Inputs::of_request(request.view.whole.of(request.text), &self.rules, Written::Live);
        let inputs = inputs.as_ref();
        if !self.owed.is_empty()
            && let Some(exchange) = self.owed_to(request, &sought.key, inputs)
        {
            return Choice::Fresh(exchange);
        }
        if self.options.ordering == Ordering::Strict
            && let Some(choice) = self.choose_strictly(request, sought, inputs)
        {
            return choice;
        }
        let stands_for = self.sessions.get(request.session).and_then(|session| session.stands_for);
        let Some(queue) = self.index.queue_mut(sought.place) else {
            return self.choose_otherwise(request, inputs);
        };
        queue.asked += 1;
        if self.options.ordering == Ordering::Any {
            let all: Vec<u32> = match inputs {
                None if !queue.is_covered() && sought.key.literal.is_none() => queue.all().take(1).collect(),
                _ => queue.exact_first(queue.nearest(queue.all().collect(), &sought.key), &sought.key),
            };
            let alike = match inputs {
                None if !queue.is_covered() && sought.key.literal.is_none() => queue.all().collect(),
                _ => all.clone(),
            };
            let Some(&first) = self.fitting(all, inputs).first() else {
                return self.choose_otherwise(request, inputs);
            };
            if !is_open(first, &self.taken) {
                return Choice::Again(first);
            }
            // The others will never be asked for.
            for other in self.fitting(alike, inputs) {
                let other = usize::try_from(other).unwrap_or(usize::MAX);
                self.taken.get_mut(other).into_iter().for_each(|taken| *taken = true);
            }
            return Choice::Fresh(first);
        }
        let next = if inputs.is_none() && sought.key.secrets.is_empty() && !queue.is_covered() {
            queue
                .next_exact(&sought.key, stands_for, &self.taken)
                .or_else(|| queue.next(stands_for, &self.taken))
        } else {
            self.choose_by_values(request, sought, inputs, stands_for)
        };
        match next {
            Some(exchange) => Choice::Fresh(exchange),
            None => self.choose_again(request, sought, inputs, stands_for),
        }
    }

    /// A request that was asked more often than it was recorded.
    fn choose_again(
        &mut self,
        request: &Request<'_>,
        sought: &Sought,
        inputs: Option<&Inputs<'_>>,
        stands_for: Option<u32>,
    ) -> Choice {
        let Some(queue) = self.index.queue(sought.place) else {
            return Choice::Miss(Why::Unknown);
        };
        let repeat = self.options.repeat.unwrap_or(match mcp::repeats(&request.method) {
            true => Repeat::Last,
            false => Repeat::Never,
        });
        let fitting = match inputs {
            None => Vec::new(),
            Some(_) => self.fitting(queue.all().collect(), inputs),
        };
        if inputs.is_some() && fitting.is_empty() {
            return self.choose_otherwise(request, inputs);
        }
        let (recorded, asked) = (queue.len(), queue.asked);
        let again = match repeat {
            Repeat::Never => None,
            _ if inputs.is_some() => fitting.last().copied(),
            Repeat::Last => self.choose_last(request, sought, stands_for),
            Repeat::Cycle => queue.all().nth(asked.saturating_sub(1) % recorded.max(1)),
        };
        again.map_or(Choice::Miss(Why::UsedUp { recorded, asked }), Choice::Again)
    }

    /// The last of the exchanges with the key, of its own recorded session, if it has any; where redacted values tell
    /// them apart, of those that are for the same values.
    fn choose_last(
        &mut self,
        request: &Request<'_>,
        sought: &Sought,
        stands_for: Option<u32>,
    ) -> Option<u32> {
        let queue = self.index.queue(sought.place)?;
        if sought.key.secrets.is_empty() && !queue.is_covered() && queue.exact(&sought.key).is_empty() {
            let own = stands_for.and_then(|own| queue.last_of(own));
            return own.or(queue.last).or_else(|| queue.all().last());
        }
        let near = queue.exact_first(queue.nearest(queue.all().collect(), &sought.key), &sought.key);
        let agreeing: Vec<u32> =
            near.iter().copied().filter(|near| self.agrees(request.session, queue, sought, *near)).collect();
        let fitting = if agreeing.is_empty() { &near } else { &agreeing };
        let is_own = |number: &&u32| self.tape.exchange(**number).map(|exchange| exchange.conn) == stands_for;
        let own = fitting.iter().rfind(is_own).copied();
        let last = own.or(queue.last.filter(|last| fitting.contains(last))).or(fitting.last().copied());
        if agreeing.is_empty() {
            self.warn_of_values(request);
        }
        last
    }

    /// Among open exchanges with the key: those whose recorded inputs the live ones stand for, best first; then those
    /// that are alike without the help of a placeholder; then those whose placeholders agree one to one with the values seen so far.
    fn choose_by_values(
        &mut self,
        request: &Request<'_>,
        sought: &Sought,
        inputs: Option<&Inputs<'_>>,
        stands_for: Option<u32>,
    ) -> Option<u32> {
        let queue = self.index.queue(sought.place)?;
        if inputs.is_none() && queue.exact(&sought.key).is_empty() {
            return self.choose_alike(request, sought, stands_for);
        }
        let open = self.fitting(queue.open(stands_for, &self.taken).collect(), inputs);
        let open = queue.exact_first(queue.nearest(open, &sought.key), &sought.key);
        let first = open.first().copied()?;
        if sought.key.secrets.is_empty() {
            return Some(first);
        }
        if let Some(agreeing) =
            open.iter().find(|open| self.agrees(request.session, queue, sought, **open)).copied()
        {
            return Some(agreeing);
        }
        self.warn_of_values(request);
        Some(first)
    }

    /// The same where no inputs are to be compared: there may be very many.
    fn choose_alike(
        &mut self,
        request: &Request<'_>,
        sought: &Sought,
        stands_for: Option<u32>,
    ) -> Option<u32> {
        let (values, covers) = (sought.key.values(), &sought.key.covers);
        let session = self.sessions.get(request.session);
        let agree = |process: Process, recorded: &[(String, String)]| {
            sought.key.secrets.is_empty()
                || session.is_some_and(|session| agrees(session, process, &values, recorded))
        };
        let queue = self.index.queue_mut(sought.place)?;
        let alike = queue.alike(|exchange| process_of(&self.tape, exchange));
        let (exchange, agrees) = alike.next(covers, stands_for, &self.taken, &agree)?;
        if !agrees {
            self.warn_of_values(request);
        }
        Some(exchange)
    }

    /// Whether the placeholders of an exchange agree one to one with the values that a session has seen so far.
    fn agrees(&self, session: usize, queue: &Queue, sought: &Sought, exchange: u32) -> bool {
        let Some(session) = self.sessions.get(session) else { return false };
        let process = process_of(&self.tape, exchange);
        let values = sought.key.values();
        let recorded = queue.secrets.get(&exchange);
        recorded.is_none_or(|recorded| agrees(session, process, &values, recorded))
    }

    fn warn_of_values(&mut self, request: &Request<'_>) {
        let subject = self.subject(request);
        self.warn(format!(
            "{subject}: the redacted values do not agree with earlier ones; answering in recorded order"
        ));
    }

    /// Those of the exchanges whose recorded inputs the live ones stand for, by the strictest policy that takes any.
    pub(super) fn fitting(&self, exchanges: Vec<u32>, inputs: Option<&Inputs<'_>>) -> Vec<u32> {
        let Some(inputs) = inputs else { return exchanges };
        let fits = |exchange: u32, policy: InputPolicy| {
            let item = self.tape.request(exchange);
            let message = item.map_or("", |item| item.view.whole.of(&self.tape.text));
            let written = item.map_or(Written::Nothing, |item| self.tape.written_within(item));
            Inputs::of_request(message, &self.rules, written)
                .is_some_and(|recorded| inputs.stand_for(&recorded, policy, &self.rules))
        };
        let best = self.options.inputs.best_first().iter().map(|policy| {
            exchanges.iter().copied().filter(|&exchange| fits(exchange, *policy)).collect::<Vec<_>>()
        });
        best.into_iter().find(|fitting| !fitting.is_empty()).unwrap_or_default()
    }

    /// A retry with answers missing gets the same questions again, and a listen the recorded filter nearest to its own.
    fn choose_otherwise(&mut self, request: &Request<'_>, inputs: Option<&Inputs<'_>>) -> Choice {
        let state = request.view.params.and_then(|params| member(request.text, params, "requestState"));
        if inputs.is_some() || state.is_some() {
            let asked = self.asked_for_input.get(&round(request, state.map(|state| state.of(request.text))));
            let is_missing = |name: &String| inputs.is_none_or(|inputs| !inputs.answers(name));
            let asked = asked.copied().filter(|&exchange| self.questions(exchange).iter().any(is_missing));
            return asked.map_or(Choice::Miss(Why::Unknown), Choice::Again);
        }
        if request.method == "subscriptions/listen" {
            let wanted = key::filter_entries(request.text, &request.view);
            let overlap = |exchange: u32| {
                let Some(item) = self.tape.request(exchange) else { return 0 };
                let recorded = key::filter_entries(&self.tape.text, &item.view);
                recorded.iter().filter(|entry| wanted.contains(entry)).count()
            };
            let all = self.index.all(&request.method).iter().copied();
            let open = all.filter(|&exchange| is_open(exchange, &self.taken));
            if let Some(best) = open.filter(|&e| overlap(e) > 0).max_by_key(|&e| (overlap(e), Reverse(e))) {
                return Choice::Fresh(best);
            }
        }
        Choice::Miss(Why::Unknown)
    }

    /// The names of the questions that an exchange's answer asks.
    fn questions(&self, exchange: u32) -> Vec<String> {
        let text = &self.tape.text;
        let result = self.tape.answer(exchange).and_then(|item| item.view.result);
        let asked = result.and_then(|result| member(text, result, "inputRequests"));
        let mut names = Vec::new();
        if let Some(mut members) = asked.and_then(|asked| Members::of(text, asked.start)) {
            while let Ok(Some((name, _))) = members.next() {
                names.push(string::decode(name.of(text)).into_owned());
            }
        }
        names
    }

    /// `--ordering strict`: the next exchange in recorded order, or nothing. `None` leaves the request to the other
    /// rules: extra lists, and what nobody recorded.
    fn choose_strictly(
        &mut self,
        request: &Request<'_>,
        sought: &Sought,
        inputs: Option<&Inputs<'_>>,
    ) -> Option<Choice> {
        let session = self.sessions.get(request.session)?;
        let own = session.stands_for;
        let counts = |exchange: &Exchange| own.is_none_or(|own| exchange.conn == own);
        let from = usize::try_from(session.strict_at).unwrap_or(usize::MAX);
        let next = self
            .tape
            .exchanges
            .iter()
            .zip(0..)
            .skip(from)
            .find(|(exchange, number)| counts(exchange) && is_open(*number, &self.taken));
        let expected = next.and_then(|(exchange, number)| {
            let item = self.tape.item(exchange.request)?;
            Some((
                number,
                item,
                key::of(&self.tape.text, &item.view, exchange.era, &self.rules, self.tape.written(item)),
            ))
        });
        let is_known =
            |value: &str| sought.key.found(value) || session.has_seen(value) || self.rules.is_secret(value);
        let written_alike = || {
            let (exchange, item, _) = expected.as_ref()?;
            let era = self.tape.exchange(*exchange)?.era;
            let spelled = |text, view, era, written| Spelled::of(text, view, era, &self.rules, written);
            let written = self.tape.written(item);
            let recorded = spelled(&self.tape.text, &item.view, era, written).filter(|_| item.redacted)?;
            let live = spelled(request.text, &request.view, request.era, Written::Live)?;
            recorded.stands_for(&live, &self.rules, &is_known).map(drop)
        };
        let same = |recorded: &Key| {
            recorded.is(&sought.key)
                || recorded.stands_for(&sought.key, &is_known).is_some()
                || written_alike().is_some()
        };
        match &expected {
            &Some((number, _, ref recorded))
                if same(recorded) && !self.fitting(vec![number], inputs).is_empty() =>
            {
                if let Some(session) = self.sessions.get_mut(request.session) {
                    session.strict_at = number + 1;
                }
                Some(Choice::Fresh(number))
            }
            _ if mcp::is_list(&request.method) => None,
            _ if self.index.queue(sought.place).is_none() => None,
            Some((_, _, recorded)) if same(recorded) => Some(self.choose_otherwise(request, inputs)),
            Some((_, item, _)) => {
                let expected = key::describe(&self.tape.text, &item.view);
                Some(Choice::Miss(Why::OutOfOrder { expected: Some((expected, item.record)) }))
            }
            None => Some(Choice::Miss(Why::OutOfOrder { expected: None })),
        }
    }

    /// Remembers which questions a request was answered with, for the retries that leave some of them open.
    pub(super) fn remember_questions(&mut self, request: &Request<'_>, exchange: u32) {
        let Some(result) = self.tape.answer(exchange).and_then(|item| item.view.result) else { return };
        let text = &self.tape.text;
        let asks = member(text, result, "resultType")
            .is_some_and(|kind| string::is(kind.of(text), "input_required"));
        if asks {
            let state = member(text, result, "requestState").map(|state| state.of(text));
            self.asked_for_input.insert(round(request, state), exchange);
        }
    }
}

/// Whether recorded placeholders agree one to one with the live values in their places, as far as a session has seen them.
fn agrees(session: &Session, process: Process, live: &Values<'_>, recorded: &[(String, String)]) -> bool {
    recorded.iter().all(|(path, placeholder)| {
        let live = live.get(path);
        live.is_none_or(|live| session.agrees(process, placeholder, live))
    })
}

/// The round that a retry belongs to: it is the same request, with the `requestState` that the server gave, where it
/// gave one.
fn round(request: &Request<'_>, state: Option<&str>) -> Vec<u8> {
    let mut round = base_key(request.text, &request.view);
    if let Some(state) = state {
        round.push(b'|');
        round.extend_from_slice(&string::decode_bytes(state));
    }
    round
}

/// Whether a live text is known to be what is redacted: it stood in the place of a placeholder, or is a known secret.
pub(super) fn is_known(session: Option<&Session>, rules: &Rules, value: &str) -> bool {
    session.is_some_and(|session| session.has_seen(value)) || rules.is_secret(value)
}

/// What identifies a modern request over its rounds when the server gives no `requestState`.
pub(super) fn base_key(text: &str, view: &View) -> Vec<u8> {
    let mut key = view.method_name(text).into_owned().into_bytes();
    key.push(0);
    for name in ["name", "arguments", "uri"] {
        key.push(b'|');
        let value = view.params.and_then(|params| member_at(text, params, &[name]));
        if let Some(form) = value.and_then(|span| crate::jsonrpc::canonical::of(span.of(text))) {
            key.extend(form);
        }
    }
    key
}
