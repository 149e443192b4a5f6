//! The player: takes what a live client says and yields what it gets. Pure: no I/O, no clock; time is microseconds
//! that the caller counts. This file decides which exchange answers a request; [`super::answers`] plays it.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::key::{self, InputPolicy, Key, Rules};
use super::live;
use super::nearest::{self, CANDIDATES};
use super::report::{Miss, Report};
use super::session::{Asked, Ordinal, Play, Session};
use super::tape::{Exchange, Tape};
use super::tasks::Tasks;
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::elements;
use crate::jsonrpc::string;
use crate::mcp::{self, Era};

/// In which order exchanges may be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Equal requests get their answers in recorded order; different requests come in any order.
    #[default]
    PerKey,
    /// Requests come in recorded order.
    Strict,
    /// The first recorded answer, as often as asked.
    Any,
}

/// What a request gets that is asked more often than it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The last answer again.
    Last,
    /// The answers from the first one on.
    Cycle,
    /// A miss.
    Never,
}

macro_rules! words {
    ($type:ty, $($word:literal => $value:expr),+) => {
        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok($value),)+
                    _ => Err(format!("{word:?} is not one of {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

words!(Ordering, "per-key" => Self::PerKey, "strict" => Self::Strict, "any" => Self::Any);
words!(Repeat, "last" => Self::Last, "cycle" => Self::Cycle, "never" => Self::Never);

/// How a tape is played.
#[derive(Clone, Debug)]
pub struct Options {
    /// In which order exchanges may be asked for.
    pub ordering: Ordering,
    /// `None`: what changes nothing repeats its last answer, a tool call does not.
    pub repeat: Option<Repeat>,
    /// How the client's answers to the server's questions are compared.
    pub inputs: InputPolicy,
    /// What is a warning otherwise is an error.
    pub strict: bool,
    /// Answer `initialize` with the revision that the client asks for.
    pub rewrite_version: bool,
    /// How long a client may take to answer a question, in microseconds.
    pub answer_timeout: u64,
    /// How long a result stays behind the last progress of its call, in microseconds.
    pub progress_gap: u64,
    /// The wall clock when the caller's time was 0, microseconds since 1970; live tasks are dated by it.
    pub started: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ordering: Ordering::PerKey,
            repeat: None,
            inputs: InputPolicy::Action,
            strict: false,
            rewrite_version: false,
            answer_timeout: 60_000_000,
            progress_gap: 10_000,
            started: 0,
        }
    }
}

/// What the caller is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this message, one line without its end.
    Message {
        /// To this session.
        session: usize,
        /// The message.
        text: String,
        /// Nothing may share a write with it.
        alone: bool,
    },
    /// Tell the user.
    Note(String),
    /// The recorded server ended here: end the stream.
    EndOfStream {
        /// Of this session.
        session: usize,
    },
}

/// The requests of one method by key.
#[derive(Debug, Default)]
struct Index {
    queues: HashMap<Vec<u8>, Queue>,
    /// All exchanges of the method, in recorded order.
    all: Vec<u32>,
}

/// Equal requests, per recorded session and in recorded order.
#[derive(Debug, Default)]
struct Queue {
    lists: Vec<(u32, Vec<u32>)>,
    /// Per list, how many are known to be taken.
    taken: Vec<usize>,
    /// Lists before this one are used up.
    first_open: usize,
    /// The exchange that was played last.
    last: Option<u32>,
    /// How often the request was asked.
    asked: usize,
    /// The redacted values of each exchange, where there are any.
    secrets: HashMap<u32, Vec<(String, String)>>,
}

impl Queue {
    fn push(&mut self, conn: u32, exchange: u32, secrets: Vec<(String, String)>) {
        if !secrets.is_empty() {
            self.secrets.insert(exchange, secrets);
        }
        match self.lists.iter_mut().find(|(list, _)| *list == conn) {
            Some((_, list)) => list.push(exchange),
            None => {
                self.lists.push((conn, vec![exchange]));
                self.taken.push(0);
            }
        }
    }

    /// The exchanges that are not taken, those of `own` first, then session by session.
    fn open<'q>(&'q self, own: Option<u32>, taken: &'q [bool]) -> impl Iterator<Item = u32> + 'q {
        let is_open = |exchange: &u32| {
            !taken.get(usize::try_from(*exchange).unwrap_or(usize::MAX)).copied().unwrap_or(true)
        };
        let mine = self.lists.iter().filter(move |(conn, _)| Some(*conn) == own);
        let others = self.lists.iter().filter(move |(conn, _)| Some(*conn) != own);
        mine.chain(others).flat_map(|(_, list)| list.iter().copied()).filter(is_open)
    }

    /// The next open exchange, in constant time over the life of the queue.
    fn next(&mut self, own: Option<u32>, taken: &[bool]) -> Option<u32> {
        let position = own.and_then(|own| self.lists.iter().position(|(conn, _)| *conn == own));
        if let Some(found) = position.and_then(|at| self.next_in(at, taken)) {
            return Some(found);
        }
        while self.first_open < self.lists.len() {
            if let Some(found) = self.next_in(self.first_open, taken) {
                return Some(found);
            }
            self.first_open += 1;
        }
        None
    }

    fn next_in(&mut self, list: usize, taken: &[bool]) -> Option<u32> {
        let at = self.taken.get_mut(list)?;
        let exchanges = &self.lists.get(list)?.1;
        while let Some(&exchange) = exchanges.get(*at) {
            if !taken.get(usize::try_from(exchange).ok()?).copied().unwrap_or(true) {
                return Some(exchange);
            }
            *at += 1;
        }
        None
    }

    fn len(&self) -> usize {
        self.lists.iter().map(|(_, list)| list.len()).sum()
    }

    fn nth(&self, n: usize) -> Option<u32> {
        self.lists.iter().flat_map(|(_, list)| list.iter().copied()).nth(n)
    }
}

/// A request of the live client.
pub(super) struct Request<'a> {
    pub(super) session: usize,
    pub(super) text: &'a str,
    pub(super) view: View,
    pub(super) era: Era,
    pub(super) method: String,
    pub(super) id: &'a str,
    pub(super) batch: Option<u64>,
}

/// Plays one tape to any number of live sessions.
#[derive(Debug)]
pub struct Player {
    pub(super) tape: Tape,
    pub(super) rules: Rules,
    pub(super) options: Options,
    pub(super) sessions: Vec<Session>,
    pub(super) plays: HashMap<u64, Play>,
    pub(super) timers: BinaryHeap<Reverse<(u64, u64)>>,
    pub(super) out: Vec<Output>,
    pub(super) report: Report,
    pub(super) tasks: Tasks,
    index: HashMap<String, Index>,
    pub(super) taken: Vec<bool>,
    next_play: u64,
    next_batch: u64,
    /// The exchange whose answer carried this `requestState`, and the last one that asked for input, by base key.
    asked_for_input: HashMap<Vec<u8>, u32>,
}

impl Player {
    /// A player at the beginning of its tape.
    #[must_use]
    pub fn new(tape: Tape, rules: Rules, options: Options) -> Self {
        let mut index: HashMap<String, Index> = HashMap::new();
        for (number, exchange) in tape.exchanges.iter().enumerate() {
            let Some(item) = tape.item(exchange.request) else { continue };
            let method = item.view.method_name(&tape.text);
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            match index.get_mut(&*method) {
                Some(entry) => entry.all.push(number),
                None => {
                    index.insert(method.into_owned(), Index { all: vec![number], ..Index::default() });
                }
            }
        }
        let report = Report { server: tape.server.clone(), ..Report::default() };
        let tasks = Tasks::new(&tape);
        Self {
            taken: vec![false; tape.exchanges.len()],
            tape,
            rules,
            options,
            sessions: Vec::new(),
            plays: HashMap::new(),
            timers: BinaryHeap::new(),
            out: Vec::new(),
            report,
            tasks,
            index,
            next_play: 0,
            next_batch: 0,
            asked_for_input: HashMap::new(),
        }
    }

    /// A new live session.
    pub fn open(&mut self, ordinal: Ordinal) -> usize {
        self.sessions.push(Session::new(ordinal));
        self.sessions.len() - 1
    }

    /// What was decided since the last call.
    pub fn outputs(&mut self) -> std::vec::Drain<'_, Output> {
        self.out.drain(..)
    }

    /// When [`Player::tick`] has something to do, in microseconds.
    #[must_use]
    pub fn next_deadline(&self) -> Option<u64> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Does what is due.
    pub fn tick(&mut self, now: u64) {
        while let Some(&Reverse((at, play))) = self.timers.peek() {
            if at > now {
                break;
            }
            self.timers.pop();
            self.advance(play, now);
        }
    }

    /// Takes one line of the client, without its end.
    pub fn receive(&mut self, session: usize, line: &[u8], now: u64) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let Ok(text) = std::str::from_utf8(line) else { return };
        let Ok(view) = View::of(text) else { return };
        if view.shape == Shape::Batch {
            self.receive_batch(session, text, &view, now);
        } else {
            self.receive_one(session, text, view, None, now);
        }
    }

    fn receive_batch(&mut self, session: usize, text: &str, view: &View, now: u64) {
        let elements = elements(text, view.whole).unwrap_or_default();
        let views: Vec<View> = elements.iter().filter_map(|span| View::at(text, span.start).ok()).collect();
        let waiting = views.iter().filter(|view| view.shape == Shape::Request).count();
        self.next_batch += 1;
        let batch = self.next_batch;
        if let Some(session) = self.sessions.get_mut(session).filter(|_| waiting > 0) {
            session.batches.insert(batch, super::session::Batch { waiting, answers: Vec::new() });
        }
        for view in views {
            self.receive_one(session, text, view, Some(batch), now);
        }
    }

    fn receive_one(&mut self, session: usize, text: &str, view: View, batch: Option<u64>, now: u64) {
        match view.shape {
            Shape::Request => {
                let request = Request {
                    session,
                    text,
                    view,
                    era: mcp::era(text, &view),
                    method: view.method_name(text).into_owned(),
                    id: view.id.map_or("null", |id| id.of(text)),
                    batch,
                };
                self.request(&request, now);
            }
            Shape::Notification => self.notification(session, text, &view, now),
            Shape::Response => self.reply(session, text, &view, now),
            Shape::Batch | Shape::Other => {}
        }
    }

    fn request(&mut self, request: &Request<'_>, now: u64) {
        self.greet(request, now);
        self.note_level(request);
        if request.method == "ping" {
            return self.answer(request.session, request.batch, live::result(request.id, "{}"));
        }
        if self.refuses_version(request) || self.task_request(request, now) {
            return;
        }
        let key = key::of(request.text, &request.view, request.era, &self.rules);
        match self.choose(request, &key) {
            Choice::Fresh(exchange) => {
                self.take(exchange, request, &key);
                self.start(request, Some(exchange), true, now);
            }
            Choice::Again(exchange) => {
                self.report.repeats += 1;
                self.start(request, Some(exchange), false, now);
            }
            Choice::Miss(why) => {
                if !self.answer_by_rule(request, now) {
                    self.miss(request, why);
                }
            }
        }
    }

    /// The first request of a session settles its era and the recorded session it stands for.
    fn greet(&mut self, request: &Request<'_>, now: u64) {
        let Some(session) = self.sessions.get_mut(request.session) else { return };
        if request.method == "initialize" {
            let capabilities =
                request.view.params.and_then(|params| member(request.text, params, "capabilities"));
            session.capabilities = capabilities.map(|span| span.of(request.text).to_owned());
        }
        if session.era.is_some() {
            return;
        }
        session.era = Some(request.era);
        let n = (session.ordinal)(request.era);
        let same_era = self.tape.conns.iter().enumerate().filter(|(_, conn)| conn.era == Some(request.era));
        session.stands_for = same_era.map(|(index, _)| u32::try_from(index).unwrap_or(u32::MAX)).nth(n);
        let start = session.stands_for.and_then(|conn| self.tape.conns.get(usize::try_from(conn).ok()?));
        let start = start.map(|conn| conn.start.clone()).unwrap_or_default();
        self.release(request.session, &start, now);
    }

    /// Which exchange answers a request.
    fn choose(&mut self, request: &Request<'_>, key: &Key) -> Choice {
        self.prepare(&request.method);
        let inputs = key::input_responses(request.text, &request.view);
        let stands_for = self.sessions.get(request.session).and_then(|session| session.stands_for);
        if self.options.ordering == Ordering::Strict
            && let Some(choice) = self.choose_strictly(request, key)
        {
            return choice;
        }
        let Some(queue) =
            self.index.get_mut(&request.method).and_then(|index| index.queues.get_mut(&key.bytes))
        else {
            return self.choose_otherwise(request, inputs.as_deref());
        };
        queue.asked += 1;
        if self.options.ordering == Ordering::Any
            && let Some(first) = queue.nth(0)
        {
            let fresh = self.taken.get(usize::try_from(first).unwrap_or(usize::MAX)) == Some(&false);
            return if fresh { Choice::Fresh(first) } else { Choice::Again(first) };
        }
        let plain = inputs.is_none() && key.secrets.is_empty();
        let next = if plain {
            queue.next(stands_for, &self.taken)
        } else {
            self.choose_by_values(request, key, inputs.as_deref(), stands_for)
        };
        if let Some(exchange) = next {
            return Choice::Fresh(exchange);
        }
        self.choose_again(request, key, inputs.as_deref())
    }

    /// A request that was asked more often than it was recorded.
    fn choose_again(
        &mut self,
        request: &Request<'_>,
        key: &Key,
        inputs: Option<&[(String, &str)]>,
    ) -> Choice {
        let Some(queue) = self.index.get(&request.method).and_then(|index| index.queues.get(&key.bytes))
        else {
            return Choice::Miss(Why::Unknown);
        };
        let repeat = self.options.repeat.unwrap_or(match mcp::repeats(&request.method) {
            true => Repeat::Last,
            false => Repeat::Never,
        });
        let (recorded, asked) = (queue.len(), queue.asked);
        let again = match repeat {
            Repeat::Last => queue.last.or_else(|| queue.nth(recorded.saturating_sub(1))),
            Repeat::Cycle => queue.nth((asked.saturating_sub(1)) % recorded.max(1)),
            Repeat::Never => None,
        };
        let fits = |exchange: u32| {
            inputs.is_none_or(|inputs| self.inputs_fit(exchange, inputs, self.options.inputs))
        };
        match again.filter(|&exchange| fits(exchange)) {
            Some(exchange) => Choice::Again(exchange),
            None if inputs.is_some() && self.open_inputs_differ(request, key) => {
                self.choose_otherwise(request, inputs)
            }
            None => Choice::Miss(Why::UsedUp { recorded, asked }),
        }
    }

    fn open_inputs_differ(&self, request: &Request<'_>, key: &Key) -> bool {
        let queue = self.index.get(&request.method).and_then(|index| index.queues.get(&key.bytes));
        queue.is_some_and(|queue| queue.open(None, &self.taken).next().is_some())
    }

    /// Among open exchanges with the key: those whose recorded inputs the live ones stand for, best first; then those
    /// whose placeholders agree one to one with the values seen so far.
    fn choose_by_values(
        &mut self,
        request: &Request<'_>,
        key: &Key,
        inputs: Option<&[(String, &str)]>,
        stands_for: Option<u32>,
    ) -> Option<u32> {
        let queue = self.index.get(&request.method)?.queues.get(&key.bytes)?;
        let mut open: Vec<u32> = queue.open(stands_for, &self.taken).collect();
        if let Some(inputs) = inputs {
            let policies: &[InputPolicy] = match self.options.inputs {
                InputPolicy::Exact => &[InputPolicy::Exact],
                InputPolicy::Action => &[InputPolicy::Exact, InputPolicy::Action],
                InputPolicy::Keys => &[InputPolicy::Exact, InputPolicy::Action, InputPolicy::Keys],
            };
            open = policies
                .iter()
                .map(|policy| {
                    open.iter().copied().filter(|&e| self.inputs_fit(e, inputs, *policy)).collect::<Vec<_>>()
                })
                .find(|fitting| !fitting.is_empty())?;
        }
        let first = open.first().copied()?;
        if key.secrets.is_empty() {
            return Some(first);
        }
        let session = self.sessions.get(request.session)?;
        let agrees = |exchange: &u32| {
            queue.secrets.get(exchange).is_none_or(|recorded| {
                recorded.iter().all(|(path, placeholder)| {
                    let live = key.secrets.iter().find(|(other, _)| other == path).map(|(_, value)| value);
                    live.is_none_or(|live| {
                        match (session.values.get(placeholder), session.placeholders.get(live)) {
                            (Some(known), _) => known == live,
                            (None, Some(_)) => false,
                            (None, None) => true,
                        }
                    })
                })
            })
        };
        if let Some(agreeing) = open.iter().find(|exchange| agrees(exchange)) {
            return Some(*agreeing);
        }
        let subject = key::describe(request.text, &request.view);
        self.out.push(Output::Note(format!(
            "{subject}: the redacted values do not agree with earlier ones; answering in recorded order"
        )));
        Some(first)
    }

    /// Whether live answers to the server's questions stand for those of a recorded retry. More than was asked for is
    /// ignored (2026-07-28, "Multi round-trip requests").
    fn inputs_fit(&self, exchange: u32, live: &[(String, &str)], policy: InputPolicy) -> bool {
        let Some(item) = self.tape.request(exchange) else { return false };
        let Some(recorded) = key::input_responses(&self.tape.text, &item.view) else { return false };
        recorded.iter().all(|(name, value)| {
            live.iter().any(|(other, given)| other == name && key::same_input(policy, value, given))
        })
    }

    /// A retry with answers missing gets the same questions again, and a listen the recorded filter nearest to its own.
    fn choose_otherwise(&mut self, request: &Request<'_>, inputs: Option<&[(String, &str)]>) -> Choice {
        if let Some(inputs) = inputs {
            let state = request.view.params.and_then(|params| member(request.text, params, "requestState"));
            let asked = match state {
                Some(state) => self.asked_for_input.get(&*string::decode_bytes(state.of(request.text))),
                None => self.asked_for_input.get(&base_key(request)),
            };
            let asked = asked.copied().filter(|&exchange| {
                self.questions(exchange).iter().any(|name| !inputs.iter().any(|(given, _)| given == name))
            });
            return asked.map_or(Choice::Miss(Why::Unknown), Choice::Again);
        }
        if request.method == "subscriptions/listen" {
            let wanted = key::filter_entries(request.text, &request.view);
            let overlap = |exchange: u32| {
                let Some(item) = self.tape.request(exchange) else { return 0 };
                let recorded = key::filter_entries(&self.tape.text, &item.view);
                recorded.iter().filter(|entry| wanted.contains(entry)).count()
            };
            let all = self.index.get(&request.method).map_or(&[][..], |index| &index.all);
            let open = all
                .iter()
                .copied()
                .filter(|&e| self.taken.get(usize::try_from(e).unwrap_or(0)) == Some(&false));
            if let Some(best) = open.filter(|&e| overlap(e) > 0).max_by_key(|&e| (overlap(e), Reverse(e))) {
                return Choice::Fresh(best);
            }
        }
        Choice::Miss(Why::Unknown)
    }

    /// The names of the questions that an exchange's answer asks.
    fn questions(&self, exchange: u32) -> Vec<String> {
        let result = self.tape.answer(exchange).and_then(|item| item.view.result);
        let asked = result.and_then(|result| member(&self.tape.text, result, "inputRequests"));
        let mut names = Vec::new();
        if let Some(mut members) =
            asked.and_then(|asked| crate::jsonrpc::scan::Members::of(&self.tape.text, asked.start))
        {
            while let Ok(Some((name, _))) = members.next() {
                names.push(string::decode(name.of(&self.tape.text)).into_owned());
            }
        }
        names
    }

    /// `--ordering strict`: the next exchange in recorded order, or nothing; extra lists are let through.
    fn choose_strictly(&mut self, request: &Request<'_>, key: &Key) -> Option<Choice> {
        let session = self.sessions.get_mut(request.session)?;
        let own = session.stands_for;
        let counts = |exchange: &Exchange| own.is_none_or(|own| exchange.conn == own);
        let from = usize::try_from(session.strict_at).unwrap_or(usize::MAX);
        let next = self.tape.exchanges.iter().enumerate().skip(from).find(|(number, exchange)| {
            counts(exchange)
                && self.taken.get(*number) == Some(&false)
                && self
                    .tape
                    .item(exchange.request)
                    .is_some_and(|item| item.view.method_name(&self.tape.text) != "ping")
        });
        let expected = next.and_then(|(number, exchange)| {
            let item = self.tape.item(exchange.request)?;
            let recorded = key::of(&self.tape.text, &item.view, exchange.era, &self.rules);
            Some((u32::try_from(number).ok()?, item, recorded))
        });
        match expected {
            Some((number, _, recorded)) if recorded.bytes == key.bytes => {
                session.strict_at = number + 1;
                Some(Choice::Fresh(number))
            }
            _ if mcp::is_list(&request.method) => None,
            Some((_, item, _)) => {
                let expected = key::describe(&self.tape.text, &item.view);
                Some(Choice::Miss(Why::OutOfOrder { expected: Some((expected, item.record)) }))
            }
            None => Some(Choice::Miss(Why::OutOfOrder { expected: None })),
        }
    }

    /// Computes the keys of a method's exchanges when the method is first asked for.
    fn prepare(&mut self, method: &str) {
        let Some(index) = self.index.get_mut(method) else { return };
        if !index.queues.is_empty() {
            return;
        }
        for &number in &index.all {
            let Some(exchange) = self.tape.exchange(number) else { continue };
            let Some(item) = self.tape.item(exchange.request) else { continue };
            let key = key::of(&self.tape.text, &item.view, exchange.era, &self.rules);
            index.queues.entry(key.bytes).or_default().push(exchange.conn, number, key.secrets);
        }
    }

    fn take(&mut self, exchange: u32, request: &Request<'_>, key: &Key) {
        if let Some(taken) = self.taken.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
            *taken = true;
        }
        self.report.hits += 1;
        let Some(queue) =
            self.index.get_mut(&request.method).and_then(|index| index.queues.get_mut(&key.bytes))
        else {
            return;
        };
        queue.last = Some(exchange);
        let Some(recorded) = queue.secrets.get(&exchange).filter(|_| !key.secrets.is_empty()) else { return };
        let Some(session) = self.sessions.get_mut(request.session) else { return };
        for (path, placeholder) in recorded {
            if let Some((_, live)) = key.secrets.iter().find(|(other, _)| other == path) {
                session.values.entry(placeholder.clone()).or_insert_with(|| live.clone());
                session.placeholders.entry(live.clone()).or_insert_with(|| placeholder.clone());
            }
        }
    }

    /// Starts playing an exchange (or an unrecorded listen) to a request.
    pub(super) fn start(&mut self, request: &Request<'_>, exchange: Option<u32>, first: bool, now: u64) {
        self.play(request, exchange, first, None, now);
    }

    /// Starts playing an exchange that is about a live task.
    pub(super) fn start_for_task(
        &mut self,
        request: &Request<'_>,
        exchange: u32,
        first: bool,
        task: usize,
        now: u64,
    ) {
        self.play(request, Some(exchange), first, Some(task), now);
    }

    fn play(
        &mut self,
        request: &Request<'_>,
        exchange: Option<u32>,
        first: bool,
        task: Option<usize>,
        now: u64,
    ) {
        let Some(session) = self.sessions.get_mut(request.session) else { return };
        let meta = |name| mcp::meta(request.text, &request.view, name).map(|span| span.of(request.text));
        let (log_level, capabilities) = match request.era {
            Era::Modern => {
                let level = meta(mcp::LOG_LEVEL).and_then(|level| mcp::severity(&string::decode(level)));
                (level, meta(mcp::CAPABILITIES).map(str::to_owned))
            }
            Era::Legacy => (Some(0), session.capabilities.clone()),
        };
        let asks_version = request.method == "initialize" && self.options.rewrite_version;
        let version = request.view.params.filter(|_| asks_version);
        let version = version.and_then(|params| member(request.text, params, "protocolVersion"));
        self.next_play += 1;
        let number = self.next_play;
        session.running.insert(request.id.to_owned(), number);
        let listen = request.method == "subscriptions/listen";
        let play = Play {
            session: request.session,
            exchange,
            id: request.id.to_owned(),
            token: live::progress_token(request.text, &request.view).map(str::to_owned),
            log_level,
            capabilities,
            era: request.era,
            filter: if listen { key::filter_entries(request.text, &request.view) } else { Vec::new() },
            listen,
            at: 0,
            not_before: 0,
            deadline: None,
            asks: HashMap::new(),
            cancelled: false,
            first,
            version: version.map(|span| span.of(request.text).to_owned()),
            batch: request.batch,
            task,
        };
        self.plays.insert(number, play);
        if let Some(exchange) = exchange {
            self.remember_questions(request, exchange);
        }
        self.advance(number, now);
    }

    /// A retry names the round it belongs to by `requestState`, or, where the server gave none, by being the same
    /// request.
    fn remember_questions(&mut self, request: &Request<'_>, exchange: u32) {
        if request.era != Era::Modern {
            return;
        }
        let Some(result) = self.tape.answer(exchange).and_then(|item| item.view.result) else { return };
        let text = &self.tape.text;
        let asks = member(text, result, "resultType")
            .is_some_and(|kind| string::is(kind.of(text), "input_required"));
        if !asks {
            return;
        }
        match member(text, result, "requestState") {
            Some(state) => {
                let state = string::decode_bytes(state.of(text)).into_owned();
                self.asked_for_input.insert(state, exchange);
            }
            None => {
                self.asked_for_input.insert(base_key(request), exchange);
            }
        }
    }

    fn note_level(&mut self, request: &Request<'_>) {
        let Some(session) = self.sessions.get_mut(request.session).filter(|_| request.era == Era::Legacy)
        else {
            return;
        };
        let target = || mcp::target(&request.method, request.text, &request.view);
        match request.method.as_str() {
            "logging/setLevel" => session.log_level = target().and_then(|level| mcp::severity(&level)),
            "resources/subscribe" => session.subscribed.extend(target()),
            "resources/unsubscribe" => {
                if let Some(uri) = target() {
                    session.subscribed.remove(&uri);
                }
            }
            _ => {}
        }
    }

    fn notification(&mut self, session: usize, text: &str, view: &View, now: u64) {
        let method = view.method_name(text).into_owned();
        if method == "notifications/cancelled" {
            let id = view.params.and_then(|params| member(text, params, "requestId"));
            let play = id.and_then(|id| self.sessions.get(session)?.running.get(id.of(text)).copied());
            if let Some(play) = play {
                self.cancel(play, now);
            }
            return;
        }
        let Some(live) = self.sessions.get_mut(session) else { return };
        let nth = live.notifications.entry(method.clone()).or_default();
        let key = (method, *nth);
        *nth += 1;
        let conn = live.stands_for.and_then(|conn| self.tape.conns.get(usize::try_from(conn).ok()?));
        let items = conn.and_then(|conn| conn.after_notification.get(&key)).cloned().unwrap_or_default();
        self.release(session, &items, now);
    }

    /// The client answers a question of the server.
    fn reply(&mut self, session: usize, text: &str, view: &View, now: u64) {
        let id = view.id.map_or("", |id| id.of(text));
        let Some((number, ask)) = self.sessions.get_mut(session).and_then(|session| session.asked.remove(id))
        else {
            return;
        };
        let Some(play) = self.plays.get_mut(&number) else { return };
        play.asks.insert(ask, Asked::Answered);
        play.deadline = None;
        self.task_replied(ask);
        let Some(play) = self.plays.get_mut(&number) else { return };
        let recorded = play.exchange.and_then(|exchange| self.tape.exchange(exchange)).and_then(|exchange| {
            exchange.steps.iter().find_map(|step| match step {
                super::tape::Step::Await(question, answer) if *question == ask => self.tape.item(*answer),
                _ => None,
            })
        });
        if let (Some(recorded), Some(question)) = (recorded, self.tape.item(ask)) {
            let difference = match (recorded.view.result, view.result) {
                (Some(old), Some(new)) => {
                    let same = key::same_input(self.options.inputs, old.of(&self.tape.text), new.of(text));
                    (!same).then_some("answered otherwise than recorded")
                }
                (Some(_), None) => Some("refused, and was answered when recorded"),
                (None, Some(_)) => Some("answered, and was refused when recorded"),
                (None, None) => None,
            };
            if let Some(difference) = difference {
                let method = question.view.method_name(&self.tape.text);
                let warning = format!("{method} was {difference}");
                if self.options.strict {
                    return self.fail_play(number, mcp::code::MISS, &format!("mcpreel: {warning}"));
                }
                self.warn(warning);
            }
        }
        self.advance(number, now);
    }

    /// Records a miss and answers it.
    fn miss(&mut self, request: &Request<'_>, why: Why) {
        let subject = key::describe(request.text, &request.view);
        let name = mcp::target(&request.method, request.text, &request.view);
        let nearest = self.nearest(request, name.as_deref());
        let (why, hint) = match why {
            Why::Unknown if nearest.is_none() => {
                let other = match request.era {
                    Era::Legacy if !self.tape.legacy => Some("a modern client (2026-07-28)"),
                    Era::Modern if self.tape.modern_versions.is_empty() => {
                        Some("a legacy client (initialize)")
                    }
                    _ => None,
                };
                let hint = match other {
                    Some(other) => {
                        format!("the cassette was recorded with {other}; use such a client, or record again")
                    }
                    None => "record again to add it".to_owned(),
                };
                (format!("no recorded answer for {subject}"), hint)
            }
            Why::Unknown => (
                format!("no recorded answer for {subject}"),
                match nearest.as_ref().and_then(|(_, differs)| differs.first()) {
                    Some(first) => format!(
                        "if the difference does not matter, --ignore {}; else record again",
                        first.path
                    ),
                    None => "record again to add it".to_owned(),
                },
            ),
            Why::UsedUp { recorded, asked } => (
                format!(
                    "no recorded answer for {subject}: recorded {}, this is call {asked}",
                    times(recorded)
                ),
                "to answer again, --repeat last or --repeat cycle; else record again".to_owned(),
            ),
            Why::OutOfOrder { expected } => (
                match expected {
                    Some((expected, message)) => {
                        format!("{subject} is out of order: message {message}, {expected}, comes first")
                    }
                    None => format!("{subject} comes after the last recorded request"),
                },
                "to allow any order, --ordering per-key".to_owned(),
            ),
        };
        let miss = Miss { method: request.method.clone(), name, why, nearest, hint };
        let line =
            live::error(request.id, mcp::code::MISS, &format!("mcpreel: {}", miss.why), Some(&miss.json()));
        self.out.push(Output::Note(miss.words()));
        self.report.misses.push(miss);
        self.answer(request.session, request.batch, line);
    }

    /// The recorded request of the same method and name with the fewest differences; redacted values are none.
    fn nearest(&self, request: &Request<'_>, name: Option<&str>) -> Option<(u32, Vec<nearest::Difference>)> {
        let candidates = &self.index.get(&request.method)?.all;
        let message = request.view.whole.of(request.text);
        let redacted = self.rules.redaction().find(message);
        let live = self.rules.redacted(message);
        let view = View::of(&live).ok()?;
        let live = view.params.map_or("{}", |params| params.of(&live));
        let skip =
            |path: &str| path.starts_with("/params/_meta") || redacted.iter().any(|hit| hit.path == path);
        let text = &self.tape.text;
        candidates
            .iter()
            .filter_map(|&exchange| self.tape.request(exchange))
            .filter(|item| mcp::target(&request.method, text, &item.view).as_deref() == name)
            .take(CANDIDATES)
            .map(|item| {
                let recorded = item.view.params.map_or("{}", |params| params.of(text));
                (item.record, nearest::differences("/params", recorded, live, &skip))
            })
            .min_by_key(|(_, differs)| differs.len())
    }

    /// A warning for stderr and the report, said once.
    pub(super) fn warn(&mut self, warning: String) {
        if !self.report.warnings.contains(&warning) {
            self.out.push(Output::Note(warning.clone()));
            self.report.warnings.push(warning);
        }
    }

    /// The report as it stands; `ended` says how the session ended.
    #[must_use]
    pub fn report(&self, ended: &str) -> Report {
        let mut report = self.report.clone();
        ended.clone_into(&mut report.ended);
        for (number, exchange) in self.tape.exchanges.iter().enumerate() {
            if self.taken.get(number) == Some(&false)
                && let Some(item) = self.tape.item(exchange.request)
            {
                let method = item.view.method_name(&self.tape.text).into_owned();
                let name = mcp::target(&method, &self.tape.text, &item.view);
                report.unused.push((item.record, method, name));
            }
        }
        for session in &self.sessions {
            for (_, ask) in session.asked.values() {
                if let Some(item) = self.tape.item(*ask) {
                    report.pending.push(item.view.method_name(&self.tape.text).into_owned());
                }
            }
        }
        report.pending.sort();
        report
    }

    /// The name of the server that is played.
    #[must_use]
    pub fn server(&self) -> &str {
        &self.tape.server
    }

    /// How the recorded server ended, for the note at the end of the stream.
    #[must_use]
    pub fn recorded_exit(&self, session: usize) -> Option<crate::cassette::Exit> {
        let conn = self.sessions.get(session)?.stands_for?;
        self.tape.conns.get(usize::try_from(conn).ok()?)?.exit
    }
}

enum Choice {
    /// An exchange that was not played yet.
    Fresh(u32),
    /// One that was.
    Again(u32),
    /// None.
    Miss(Why),
}

enum Why {
    Unknown,
    UsedUp { recorded: usize, asked: usize },
    OutOfOrder { expected: Option<(String, u32)> },
}

fn times(n: usize) -> String {
    match n {
        1 => "once".to_owned(),
        n => format!("{n} times"),
    }
}

/// What identifies a modern request over its rounds when the server gives no `requestState`.
fn base_key(request: &Request<'_>) -> Vec<u8> {
    let mut key = request.method.clone().into_bytes();
    key.push(0);
    let params = request.view.params;
    for name in ["name", "arguments", "uri"] {
        key.push(b'|');
        let value = params.and_then(|params| member_at(request.text, params, &[name]));
        if let Some(form) = value.and_then(|span| crate::jsonrpc::canonical::of(span.of(request.text))) {
            key.extend(form);
        }
    }
    key
}
