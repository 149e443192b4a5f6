//! The recorded requests by their keys.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hasher as _};

use super::key::{self, Key, Rules};
use super::tape::Tape;
use crate::redact::{ANY, Cover, distance, is_placeholder};

/// The exchanges of a tape by method and key. When a method is first asked for, the keys of its exchanges are hashed;
/// a key itself is kept only when it is asked for, since a cassette may hold very many.
#[derive(Debug, Default)]
pub(super) struct Index {
    methods: HashMap<String, Method>,
}

#[derive(Debug, Default)]
struct Method {
    /// By the keys that were asked for.
    queues: HashMap<Vec<u8>, Queue>,
    /// The hash of each exchange's key, sorted, those with equal hashes in recorded order. Empty until asked for.
    hashes: Vec<(u64, u32)>,
    /// All exchanges of the method, in recorded order.
    all: Vec<u32>,
    /// The keys with placeholders in the middle of text, each once, those with the most other text first.
    patterns: Vec<Key>,
}

impl Index {
    /// The index of those exchanges of a tape that are played.
    pub(super) fn new(tape: &Tape, plays: &dyn Fn(u32) -> bool) -> Self {
        let mut methods: HashMap<String, Method> = HashMap::new();
        for (exchange, number) in tape.exchanges.iter().zip(0..).filter(|(_, number)| plays(*number)) {
            let Some(item) = tape.item(exchange.request) else { continue };
            let method = item.view.method_name(&tape.text);
            match methods.get_mut(&*method) {
                Some(known) => known.all.push(number),
                None => {
                    methods.insert(method.into_owned(), Method { all: vec![number], ..Method::default() });
                }
            }
        }
        Self { methods }
    }

    /// Makes the exchanges with a key known to [`Index::queue`], and gives the key they are known by: another one
    /// where placeholders in recorded text stand for what is in the live one. Exchanges that are equal as they are go
    /// first, then those with placeholders; `reuse`: played ones are as good as others.
    pub(super) fn prepare(
        &mut self,
        method: &str,
        key: Key,
        tape: &Tape,
        taken: &[bool],
        rules: &Rules,
        reuse: bool,
    ) -> Key {
        let Some(method) = self.methods.get_mut(method) else { return key };
        let equal = method.prepare(&key.bytes, tape, rules);
        let is_open = |method: &Method, key: &Key| {
            let queue = method.queues.get(&key.bytes);
            queue.is_some_and(|queue| reuse || queue.open(None, taken).next().is_some())
        };
        if equal && is_open(method, &key) {
            return key;
        }
        let standing: Vec<Key> = method.patterns.iter().filter_map(|known| known.stands_for(&key)).collect();
        for candidate in &standing {
            method.prepare(&candidate.bytes, tape, rules);
        }
        let open = standing.iter().find(|candidate| is_open(method, candidate));
        match open.or(standing.first().filter(|_| !equal)) {
            Some(found) => found.clone(),
            None => key,
        }
    }

    /// The exchanges with a key.
    pub(super) fn queue(&self, method: &str, key: &[u8]) -> Option<&Queue> {
        self.methods.get(method)?.queues.get(key)
    }

    /// The same, to take from.
    pub(super) fn queue_mut(&mut self, method: &str, key: &[u8]) -> Option<&mut Queue> {
        self.methods.get_mut(method)?.queues.get_mut(key)
    }

    /// All exchanges of a method, in recorded order.
    pub(super) fn all(&self, method: &str) -> &[u32] {
        self.methods.get(method).map_or(&[], |method| &method.all)
    }
}

impl Method {
    /// Whether there are exchanges with a key.
    fn prepare(&mut self, key: &[u8], tape: &Tape, rules: &Rules) -> bool {
        if self.queues.contains_key(key) {
            return true;
        }
        let key_of = |number: u32| {
            let exchange = tape.exchange(number)?;
            let item = tape.item(exchange.request)?;
            Some((exchange.conn, key::of(&tape.text, &item.view, exchange.era, rules, item.redacted)))
        };
        if self.hashes.is_empty() {
            for &number in &self.all {
                let Some((_, key)) = key_of(number) else { continue };
                self.hashes.push((hash(&key.bytes), number));
                if key.bytes.contains(&ANY) && !self.patterns.iter().any(|known| known.bytes == key.bytes) {
                    self.patterns.push(key);
                }
            }
            self.hashes.sort_unstable();
            let text = |key: &Key| key.bytes.iter().filter(|byte| **byte != ANY).count();
            self.patterns.sort_by_key(|key| Reverse(text(key)));
        }
        let wanted = hash(key);
        let from = self.hashes.partition_point(|(hash, _)| *hash < wanted);
        let mut queue = Queue::default();
        for &(_, number) in self.hashes.iter().skip(from).take_while(|(hash, _)| *hash == wanted) {
            match key_of(number) {
                Some((conn, recorded)) if recorded.bytes == key => queue.push(conn, number, recorded),
                _ => {}
            }
        }
        let some = queue.len() > 0;
        if some {
            self.queues.insert(key.to_vec(), queue);
        }
        some
    }
}

fn hash(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

/// Equal requests, per recorded session and in recorded order.
#[derive(Debug, Default)]
pub(super) struct Queue {
    lists: Vec<(u32, Vec<u32>)>,
    /// Per list, how many are known to be taken.
    taken: Vec<usize>,
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
}

impl Queue {
    fn push(&mut self, conn: u32, exchange: u32, key: Key) {
        let Key { mut secrets, covers, .. } = key;
        if !covers.is_empty() {
            self.covers.insert(exchange, covers);
        }
        // A fixed text says nothing of the value it stands for.
        secrets.retain(|(_, value)| is_placeholder(value));
        if !secrets.is_empty() {
            self.secrets.insert(exchange, secrets);
        }
        match self.lists.binary_search_by_key(&conn, |(list, _)| *list) {
            Ok(at) => self.lists.get_mut(at).into_iter().for_each(|(_, list)| list.push(exchange)),
            Err(at) => {
                self.lists.insert(at, (conn, vec![exchange]));
                self.taken.push(0);
            }
        }
    }

    /// The exchanges that are not taken, those of `own` first, then session by session.
    pub(super) fn open<'q>(&'q self, own: Option<u32>, taken: &'q [bool]) -> impl Iterator<Item = u32> + 'q {
        let is_open = |exchange: &u32| is_open(*exchange, taken);
        let mine = self.lists.iter().filter(move |(conn, _)| Some(*conn) == own);
        let others = self.lists.iter().filter(move |(conn, _)| Some(*conn) != own);
        mine.chain(others).flat_map(|(_, list)| list.iter().copied()).filter(is_open)
    }

    /// The next open exchange, in constant time over the life of the queue.
    pub(super) fn next(&mut self, own: Option<u32>, taken: &[bool]) -> Option<u32> {
        let position = own.and_then(|own| self.lists.binary_search_by_key(&own, |(conn, _)| *conn).ok());
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
            if is_open(exchange, taken) {
                return Some(exchange);
            }
            *at += 1;
        }
        None
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

    /// All exchanges, session by session.
    pub(super) fn all(&self) -> impl Iterator<Item = u32> + '_ {
        self.lists.iter().flat_map(|(_, list)| list.iter().copied())
    }

    pub(super) fn len(&self) -> usize {
        self.lists.iter().map(|(_, list)| list.len()).sum()
    }
}

/// Whether an exchange was not played yet.
pub(super) fn is_open(exchange: u32, taken: &[bool]) -> bool {
    usize::try_from(exchange).ok().and_then(|index| taken.get(index)) == Some(&false)
}
