//! The recorded requests by their keys.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hasher as _};
use std::num::NonZeroU32;

use super::alike::{Alike, Candidate};
use super::key::{self, IsKnown, Key, Rules};
use super::player::Request;
use super::replaced::Replaced;
use super::session::Process;
use super::spelled::Spelled;
use super::tape::{Exchange, Tape};
use crate::cassette::share::share;
use crate::mcp::Era;
use crate::redact::{ANY, Cover, Written, distance, is_placeholder};

/// The exchanges of a tape by method and key. When a method is first asked for, the keys of its exchanges are hashed;
/// a key itself is kept only when it is asked for, since a cassette may hold very many.
#[derive(Debug, Default)]
pub(super) struct Index {
    names: HashMap<String, usize>,
    methods: Vec<Method>,
}

#[derive(Debug, Default)]
struct Method {
    queues: Vec<Queue>,
    /// One of each exchange, sorted by hash, those with equal hashes in recorded order. Empty until asked for.
    hashes: Vec<Hashed>,
    /// All exchanges of the method, in recorded order.
    all: Vec<u32>,
    /// The keys with placeholders in the middle of text, each once, those with the most other text first.
    patterns: Vec<Key>,
    /// What was redacted, as it is written, and one exchange each; those with the most other text first. Absent until
    /// a request has no exchange otherwise.
    spelled: Option<Vec<(Spelled, u32)>>,
    /// The same requests as redaction wrote them. Absent until that finds nothing.
    replaced: Option<Replaced>,
}

/// What is known of an exchange before its key is asked for.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Hashed {
    /// The hash of its key.
    hash: u64,
    exchange: u32,
    /// The place of its queue, when its key was asked for.
    queue: Option<NonZeroU32>,
}

/// Whether what stands in the places of an exchange's placeholders agrees with what was seen so far.
pub(super) type Agrees<'a> = &'a dyn Fn(u32, &[(&str, String)]) -> bool;

/// Where the exchanges with some key are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    method: usize,
    queue: usize,
}

/// What a live request asks for.
#[derive(Debug)]
pub(super) struct Sought {
    /// Its key, or the one that the exchanges are known by which answer it.
    pub(super) key: Key,
    /// Those exchanges; `None` when it was not recorded.
    pub(super) place: Option<Place>,
}

/// The recorded requests and how they are compared.
#[derive(Clone, Copy)]
pub(super) struct Recorded<'t> {
    pub(super) tape: &'t Tape,
    pub(super) rules: &'t Rules,
    pub(super) taken: &'t [bool],
    /// Played ones are as good as others.
    pub(super) reuse: bool,
}

impl Recorded<'_> {
    fn key_of(&self, number: u32) -> Option<Key> {
        let exchange = self.tape.exchange(number)?;
        let item = self.tape.item(exchange.request)?;
        Some(key::of(&self.tape.text, &item.view, exchange.era, self.rules, self.tape.written(item)))
    }

    /// Whether a recorded request has the parameters of a live one, letter by letter, where redaction has nothing to do
    /// with either of them: then they have one key.
    fn is_alike(&self, number: u32, live: &Live<'_>) -> bool {
        let alike = |exchange: &Exchange| {
            let item = self.tape.item(exchange.request)?;
            let params = item.view.params.map(|params| params.of(&self.tape.text));
            Some(!item.redacted && exchange.era == live.era && params == live.params)
        };
        live.is_plain && self.tape.exchange(number).and_then(alike) == Some(true)
    }
}

/// A live request as it was written.
struct Live<'r> {
    era: Era,
    params: Option<&'r str>,
    /// Redaction finds nothing in it.
    is_plain: bool,
}

impl<'r> Live<'r> {
    fn new(request: &Request<'r>, key: &Key) -> Self {
        let params = request.view.params.map(|params| params.of(request.text));
        let is_plain = key.secrets.is_empty() && key.covers.is_empty() && key.spelled.is_none();
        Self { era: request.era, params, is_plain }
    }
}

impl Index {
    /// The index of those exchanges of a tape that are played.
    pub(super) fn new(tape: &Tape, plays: &dyn Fn(u32) -> bool) -> Self {
        let mut index = Self::default();
        for (exchange, number) in tape.exchanges.iter().zip(0..).filter(|(_, number)| plays(*number)) {
            let Some(item) = tape.item(exchange.request) else { continue };
            let method = item.view.method_name(&tape.text);
            let known = index.names.get(&*method).and_then(|at| index.methods.get_mut(*at));
            match known {
                Some(known) => known.all.push(number),
                None => {
                    index.names.insert(method.into_owned(), index.methods.len());
                    index.methods.push(Method { all: vec![number], ..Method::default() });
                }
            }
        }
        index
    }

    /// Finds the exchanges for a live request with this key: those that are equal as they are, then those with
    /// placeholders in recorded text that stand for what is in the live one, then, as a last resort, those that are
    /// written alike with placeholders in the place of live text. `agrees` decides among the last; `seen`: a live text stood
    /// in the place of a placeholder before.
    pub(super) fn seek(
        &mut self,
        request: &Request<'_>,
        key: Key,
        recorded: Recorded<'_>,
        agrees: Agrees<'_>,
        seen: IsKnown<'_>,
    ) -> Sought {
        let Some(&number) = self.names.get(&request.method) else { return Sought { key, place: None } };
        let Some(method) = self.methods.get_mut(number) else { return Sought { key, place: None } };
        let place = |queue| Some(Place { method: number, queue });
        let live = Live::new(request, &key);
        let mut found = None;
        // What looks like a secret or a placeholder may have been recorded as it is.
        if method.find_open(key.as_written().into_iter().collect(), &mut found, recorded) {
            return found
                .map_or(Sought { key, place: None }, |(key, queue)| Sought { key, place: place(queue) });
        }
        let equal = method.queue_of(&key, Some(&live), recorded);
        if let Some(queue) = equal.filter(|queue| method.is_open(*queue, recorded)) {
            return Sought { key, place: place(queue) };
        }
        let standing = method.patterns.iter().filter_map(|known| known.stands_for(&key, seen)).collect();
        found = found.or_else(|| equal.map(|queue| (key.clone(), queue)));
        if !method.find_open(standing, &mut found, recorded) {
            let written =
                method.written_like(request, recorded, agrees, &|value| key.found(value) || seen(value));
            if !method.find_open(written, &mut found, recorded) {
                let all = &method.all;
                let replaced = method.replaced.get_or_insert_with(|| Replaced::of(all, recorded));
                let replaced = replaced.find(request, &key, recorded).into_iter().collect();
                method.find_open(replaced, &mut found, recorded);
            }
        }
        match found {
            Some((key, queue)) => Sought { key, place: place(queue) },
            None => Sought { key, place: None },
        }
    }

    /// The exchanges at a place.
    pub(super) fn queue(&self, place: Option<Place>) -> Option<&Queue> {
        let Place { method, queue } = place?;
        self.methods.get(method)?.queues.get(queue)
    }

    /// The same, to take from.
    pub(super) fn queue_mut(&mut self, place: Option<Place>) -> Option<&mut Queue> {
        let Place { method, queue } = place?;
        self.methods.get_mut(method)?.queues.get_mut(queue)
    }

    /// All exchanges of a method, in recorded order.
    pub(super) fn all(&self, method: &str) -> &[u32] {
        let method = self.names.get(method).and_then(|at| self.methods.get(*at));
        method.map_or(&[], |method| &method.all)
    }
}

/// Fewer keys than these are not worth a thread.
const SHARED_WORK: usize = 512;

impl Method {
    /// Whether an exchange of a queue can be played.
    fn is_open(&mut self, queue: usize, recorded: Recorded<'_>) -> bool {
        let queue = self.queues.get_mut(queue);
        queue.is_some_and(|queue| recorded.reuse || queue.next(None, recorded.taken).is_some())
    }

    /// Finds the first of some keys that has exchanges which can be played, and `true`; else the first that has any,
    /// where none was found before.
    fn find_open(
        &mut self,
        candidates: Vec<Key>,
        found: &mut Option<(Key, usize)>,
        recorded: Recorded<'_>,
    ) -> bool {
        for candidate in candidates {
            let Some(queue) = self.queue_of(&candidate, None, recorded) else { continue };
            if self.is_open(queue, recorded) {
                *found = Some((candidate, queue));
                return true;
            }
            found.get_or_insert((candidate, queue));
        }
        false
    }

    /// The keys of exchanges that are written as a live request is, each as if redaction had found in the request what
    /// the placeholders stand for: those with the most other text first, then those whose placeholders agree, then those
    /// that were recorded first.
    fn written_like(
        &mut self,
        request: &Request<'_>,
        Recorded { tape, rules, .. }: Recorded<'_>,
        agrees: Agrees<'_>,
        is_known: IsKnown<'_>,
    ) -> Vec<Key> {
        let all = &self.all;
        let spelled = self.spelled.get_or_insert_with(|| {
            let mut seen = HashSet::new();
            let redacted = all.iter().filter_map(|&number| {
                let exchange = tape.exchange(number)?;
                let item = tape.item(exchange.request).filter(|item| item.redacted)?;
                let spelled = Spelled::of(&tape.text, &item.view, exchange.era, rules, tape.written(item))?;
                seen.insert(spelled.clone()).then_some((spelled, number))
            });
            let mut list: Vec<(Spelled, u32)> = redacted.collect();
            list.sort_by_key(|(spelled, _)| Reverse(spelled.told()));
            list
        });
        if spelled.is_empty() {
            return Vec::new();
        }
        let live = Spelled::of(request.text, &request.view, request.era, rules, Written::Live);
        let fitting = spelled.iter().filter_map(|(spelled, number)| {
            let values = spelled.stands_for(live.as_ref()?, rules, is_known)?;
            let item = tape.item(tape.exchange(*number)?.request)?;
            let recorded = key::of(&tape.text, &item.view, request.era, rules, tape.written(item));
            let mut by_placeholder: HashMap<&str, &String> = HashMap::with_capacity(values.len());
            for (placeholder, value) in &values {
                by_placeholder.entry(placeholder).or_insert(value);
            }
            let secrets = recorded
                .secrets
                .iter()
                .filter_map(|(path, placeholder)| {
                    let value = by_placeholder.get(placeholder.as_str())?;
                    Some((path.clone(), (*value).clone()))
                })
                .collect();
            let rank = (Reverse(spelled.told()), !agrees(*number, &values), *number);
            Some((rank, Key { secrets, spelled: None, ..recorded }))
        });
        let mut fitting: Vec<_> = fitting.collect();
        fitting.sort_by_key(|(rank, _)| *rank);
        fitting.into_iter().map(|(_, key)| key).collect()
    }

    /// The exchanges with a key, which is that of `live`, if it is given; `None` when there are none.
    fn queue_of(&mut self, key: &Key, live: Option<&Live<'_>>, recorded: Recorded<'_>) -> Option<usize> {
        if self.hashes.is_empty() {
            self.hash_all(recorded);
        }
        let wanted = hash(&key.bytes);
        let from = self.hashes.partition_point(|hashed| hashed.hash < wanted);
        let mut queue = Queue::default();
        let (number, own) = Hashed::place(self.queues.len())?;
        for hashed in self.hashes.get_mut(from..)?.iter_mut().take_while(|hashed| hashed.hash == wanted) {
            if let Some(queue) = hashed.place_of_queue() {
                if self.queues.get(queue).is_some_and(|queue| queue.key == key.bytes) {
                    return Some(queue);
                }
                continue;
            }
            let conn = recorded.tape.exchange(hashed.exchange).map_or(0, |exchange| exchange.conn);
            if live.is_some_and(|live| recorded.is_alike(hashed.exchange, live)) {
                queue.push(conn, hashed.exchange, Key { literal: key.literal, ..Key::default() });
            } else if let Some(found) =
                recorded.key_of(hashed.exchange).filter(|found| found.bytes == key.bytes)
            {
                queue.push(conn, hashed.exchange, found);
            } else {
                continue;
            }
            hashed.queue = Some(own);
        }
        if queue.len() == 0 {
            return None;
        }
        queue.key.clone_from(&key.bytes);
        self.queues.push(queue);
        Some(number)
    }

    fn hash_all(&mut self, recorded: Recorded<'_>) {
        let hashed = |numbers: &[u32]| {
            let mut hashes = Vec::with_capacity(numbers.len());
            let mut patterns: Vec<Key> = Vec::new();
            for &number in numbers {
                let Some(key) = recorded.key_of(number) else { continue };
                hashes.push(Hashed { hash: hash(&key.bytes), exchange: number, queue: None });
                if key.bytes.contains(&ANY) {
                    patterns.push(key);
                }
            }
            (hashes, patterns)
        };
        for (hashes, patterns) in share(&self.all, self.all.len() >= SHARED_WORK, hashed) {
            self.hashes.extend(hashes);
            self.patterns.extend(patterns);
        }
        self.hashes.sort_unstable();
        let mut seen = HashSet::new();
        self.patterns.retain(|key| seen.insert(key.bytes.clone()));
        let text = |key: &Key| key.bytes.iter().filter(|byte| **byte != ANY).count();
        self.patterns.sort_by_key(|key| Reverse(text(key)));
    }
}

impl Hashed {
    /// A place in a list of queues, and how it is kept.
    fn place(queue: usize) -> Option<(usize, NonZeroU32)> {
        Some((queue, NonZeroU32::new(u32::try_from(queue + 1).ok()?)?))
    }

    fn place_of_queue(&self) -> Option<usize> {
        self.queue.and_then(|queue| usize::try_from(queue.get() - 1).ok())
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

/// Equal requests of one recorded session, in recorded order.
#[derive(Debug)]
struct List {
    conn: u32,
    exchanges: Vec<u32>,
    /// How many of them are known to be taken.
    taken: usize,
}

/// Equal requests, per recorded session and in recorded order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    /// The bytes of their key.
    key: Vec<u8>,
    lists: Vec<List>,
    /// Lists before this one are used up.
    first_open: usize,
    /// The exchange that was played last.
    pub(super) last: Option<u32>,
    /// How often the request was asked.
    pub(super) asked: usize,
    /// The placeholders in each exchange, where there are any, with their pointers.
    pub(super) secrets: HashMap<u32, Vec<(String, String)>>,
    /// What each exchange has in the places that redaction covers, where there are any.
    covers: HashMap<u32, Vec<(String, Cover)>>,
    /// The exchanges by both, once they have been asked for like that.
    alike: Option<Alike>,
    /// The exchanges by what they have in the places that `--ignore-value` is about, where there are any.
    literal: HashMap<u64, Vec<u32>>,
}

impl Queue {
    fn push(&mut self, conn: u32, exchange: u32, key: Key) {
        let Key { mut secrets, covers, literal, .. } = key;
        if let Some(literal) = literal {
            self.literal.entry(literal).or_default().push(exchange);
        }
        if !covers.is_empty() {
            self.covers.insert(exchange, covers);
        }
        // A fixed text says nothing of the value it stands for.
        secrets.retain(|(_, value)| is_placeholder(value));
        if !secrets.is_empty() {
            self.secrets.insert(exchange, secrets);
        }
        match self.place_of(conn) {
            Ok(at) => self.lists.get_mut(at).into_iter().for_each(|list| list.exchanges.push(exchange)),
            Err(at) => self.lists.insert(at, List { conn, exchanges: vec![exchange], taken: 0 }),
        }
    }

    /// Where the list of a recorded session is, or where it would be.
    fn place_of(&self, conn: u32) -> Result<usize, usize> {
        self.lists.binary_search_by_key(&conn, |list| list.conn)
    }

    /// The exchanges that are not taken, those of `own` first, then session by session.
    pub(super) fn open<'q>(&'q self, own: Option<u32>, taken: &'q [bool]) -> impl Iterator<Item = u32> + 'q {
        let is_open = |exchange: &u32| is_open(*exchange, taken);
        let mine = self.lists.iter().filter(move |list| Some(list.conn) == own);
        let others = self.lists.iter().filter(move |list| Some(list.conn) != own);
        mine.chain(others).flat_map(|list| list.exchanges.iter().copied()).filter(is_open)
    }

    /// The next open exchange, in constant time over the life of the queue.
    pub(super) fn next(&mut self, own: Option<u32>, taken: &[bool]) -> Option<u32> {
        let position = own.and_then(|own| self.place_of(own).ok());
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
        let list = self.lists.get_mut(list)?;
        while let Some(&exchange) = list.exchanges.get(list.taken) {
            if is_open(exchange, taken) {
                return Some(exchange);
            }
            list.taken += 1;
        }
        None
    }

    /// The exchanges by what redaction covers in them.
    pub(super) fn alike(&mut self, process: impl Fn(u32) -> Process) -> &mut Alike {
        let Self { lists, secrets, covers, alike, .. } = self;
        alike.get_or_insert_with(|| {
            let all =
                lists.iter().flat_map(|list| list.exchanges.iter().map(|exchange| (list.conn, *exchange)));
            Alike::of(all.map(|(conn, exchange)| Candidate {
                conn,
                process: process(exchange),
                exchange,
                secrets: secrets.get(&exchange).cloned().unwrap_or_default(),
                covers: covers.get(&exchange).cloned().unwrap_or_default(),
            }))
        })
    }

    /// Whether redaction covers anything in the exchanges.
    pub(super) fn is_covered(&self) -> bool {
        !self.covers.is_empty()
    }

    /// Those of the exchanges in which what redaction covers is written most like in a live request.
    pub(super) fn nearest(&self, exchanges: Vec<u32>, key: &Key) -> Vec<u32> {
        if !self.is_covered() {
            return exchanges;
        }
        let known = |exchange: u32| self.covers.get(&exchange).map_or(&[][..], Vec::as_slice);
        let distances: Vec<usize> =
            exchanges.iter().map(|exchange| distance(known(*exchange), &key.covers)).collect();
        let least = distances.iter().min().copied();
        let near = exchanges.into_iter().zip(distances);
        near.filter(|(_, distance)| Some(*distance) == least).map(|(exchange, _)| exchange).collect()
    }

    /// Those of the exchanges that are not only equal to a live request under `--ignore-value`, but have its very values;
    /// all of them where none has.
    pub(super) fn exact_first(&self, exchanges: Vec<u32>, key: &Key) -> Vec<u32> {
        let exact = self.exact(key);
        let (exact, others): (Vec<u32>, Vec<u32>) =
            exchanges.into_iter().partition(|exchange| exact.binary_search(exchange).is_ok());
        if exact.is_empty() { others } else { exact }
    }

    /// The exchanges that have the very values of a live request, in recorded order.
    pub(super) fn exact(&self, key: &Key) -> &[u32] {
        key.literal.and_then(|literal| self.literal.get(&literal)).map_or(&[], Vec::as_slice)
    }

    /// The next open one of these, those of `own` first.
    pub(super) fn next_exact(&self, key: &Key, own: Option<u32>, taken: &[bool]) -> Option<u32> {
        let list = own.and_then(|own| self.lists.get(self.place_of(own).ok()?));
        let is_own = |exchange: &u32| list.is_some_and(|list| list.exchanges.binary_search(exchange).is_ok());
        let mut open =
            self.exact(key).iter().copied().filter(|exchange| is_open(*exchange, taken)).peekable();
        let first = open.peek().copied();
        open.find(is_own).or(first)
    }

    /// The last exchange of a recorded session.
    pub(super) fn last_of(&self, own: u32) -> Option<u32> {
        self.lists.get(self.place_of(own).ok()?)?.exchanges.last().copied()
    }

    /// All exchanges, session by session.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter().flat_map(|list| list.exchanges.iter().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.lists.iter().map(|list| list.exchanges.len()).sum()
    }
}

/// Whether an exchange was not played yet.
pub(super) fn is_open(exchange: u32, taken: &[bool]) -> bool {
    usize::try_from(exchange).ok().and_then(|index| taken.get(index)) == Some(&false)
}
