//! Several cassettes as one: parts of a cassette are put together again, a server that was recorded more than once gets
//! further connections and sessions, and heads are united. What two heads say differently is named.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::clock;
use super::manifest;
use super::model::{Cassette, Timing};
use super::part::{self, Part};
use super::record::Record;
use crate::error::{Error, Result};

mod heads;
mod names;

use heads::{Heads, Said};

/// A cassette, and what its file is called.
#[derive(Clone, Debug)]
pub struct Input {
    /// For messages.
    pub name: String,
    /// What it holds.
    pub cassette: Cassette,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Combined {
    /// The one cassette.
    pub cassette: Cassette,
    /// What a user should know.
    pub notes: Vec<String>,
    /// What one of the heads said and the result does not.
    pub lost: Vec<String>,
}

/// Makes one cassette of all. `renames` are old and new names of servers: of servers that share a name and are not the
/// same, those behind the first get the new name; a name that stands for one server is replaced everywhere.
///
/// # Errors
///
/// [`Error::Usage`] where there is nothing to merge or a renamed server is not there, [`Error::Input`] where servers
/// that are not the same are left with one name.
pub fn combine(inputs: Vec<Input>, renames: &[(String, String)]) -> Result<Combined> {
    let mut said = Said::default();
    let mut inputs = assembled(inputs, &mut said)?;
    names::rename(&mut inputs, renames)?;
    let timed = is_timed(&inputs, &mut said.notes);
    let start = |input: &Input| clock::parse(&input.cassette.head.recorded_at);
    let first =
        inputs.iter().filter(|input| timed && !input.cassette.records.is_empty()).filter_map(start).min();
    let first = first.or_else(|| inputs.iter().filter_map(start).min());
    let began = inputs.iter().find(|input| start(input) == first || first.is_none());
    let mut whole = Whole::default();
    whole.heads.head.recorded_at =
        began.map_or_else(String::new, |input| input.cassette.head.recorded_at.clone());
    for input in inputs {
        whole.add(input, timed.then_some(first).flatten(), &mut said);
    }
    let mut cassette = Cassette { head: whole.heads.head, ..whole.cassette };
    if timed {
        cassette.records.sort_by_key(|record| record.at);
        cassette.timing = Timing::Known;
    }
    Ok(Combined { cassette, notes: said.notes, lost: said.lost })
}

/// Whether all inputs say when their messages came, so that these can be put in order.
fn is_timed(inputs: &[Input], notes: &mut Vec<String>) -> bool {
    if let [only] = inputs {
        return only.cassette.timing == Timing::Known;
    }
    let without = inputs.iter().find(|input| {
        let untimed = input.cassette.timing != Timing::Known
            || clock::parse(&input.cassette.head.recorded_at).is_none();
        untimed && !input.cassette.records.is_empty()
    });
    if let Some(input) = without {
        let note = format!(
            "{} does not say when its messages came: the cassettes follow each other as given, without times",
            input.name
        );
        notes.push(note);
    }
    without.is_none()
}

/// Parts of one cassette that were found so far, or a cassette by itself.
#[derive(Default)]
struct Group {
    members: Vec<(Input, Option<Part>)>,
    /// Which parts these are.
    is: HashSet<u32>,
}

/// Puts parts of one cassette together; what is no part, or was changed since, stays by itself.
fn assembled(inputs: Vec<Input>, said: &mut Said) -> Result<Vec<Input>> {
    let mut groups: Vec<Group> = Vec::new();
    // By what all parts of a cassette say alike.
    let mut known: HashMap<(String, u32, String), Vec<usize>> = HashMap::new();
    for mut input in inputs {
        let part = Part::read(&input.cassette);
        let fitting = part.clone().filter(|part| part.fits(&input.cassette));
        if part.is_some() && fitting.is_none() {
            said.notes.push(format!(
                "{} was changed since it was split: its messages go by their times",
                input.name
            ));
        }
        let Some(part) = fitting else {
            part::remove(&mut input.cassette.head);
            groups.push(Group { members: vec![(input, None)], ..Group::default() });
            continue;
        };
        let alike =
            known.entry((part.of.clone(), part.count, input.cassette.head.recorded_at.clone())).or_default();
        let free = |place: &&usize| {
            groups.get(**place).is_some_and(|group| part.is.iter().all(|number| !group.is.contains(number)))
        };
        let place = alike.iter().find(free).copied().unwrap_or_else(|| {
            alike.push(groups.len());
            groups.push(Group::default());
            groups.len() - 1
        });
        if let Some(group) = groups.get_mut(place) {
            group.is.extend(&part.is);
            group.members.push((input, Some(part)));
        }
    }
    groups.into_iter().map(|group| assemble(group.members, said)).collect()
}

fn assemble(mut group: Vec<(Input, Option<Part>)>, said: &mut Said) -> Result<Input> {
    group.sort_by_key(|(_, part)| part.as_ref().map(|part| part.is.clone()));
    let parts: Vec<&Part> = group.iter().filter_map(|(_, part)| part.as_ref()).collect();
    let Some(first) = parts.first().copied().cloned() else {
        let only = group.into_iter().next().map(|(input, _)| input);
        return only.ok_or_else(|| Error::Usage("there is nothing to merge".to_owned()));
    };
    let mut is: Vec<u32> = parts.iter().flat_map(|part| part.is.iter().copied()).collect();
    is.sort_unstable();
    let complete = u32::try_from(is.len()) == Ok(first.count);
    let names: Vec<&str> = group.iter().map(|(input, _)| input.name.as_str()).collect();
    let mut whole = Input { name: names.join(" and "), cassette: Cassette::default() };
    let mut heads = Heads::default();
    let mut places = BTreeMap::new();
    let mut processes = BTreeMap::new();
    let mut timing = None;
    for (input, part) in group {
        let part = part.unwrap_or_default();
        let Input { name, cassette } = input;
        let Cassette { head, text, records, timing: own, warnings } = cassette;
        timing = match timing {
            None => Some(own),
            Some(known) if known == own => Some(known),
            Some(_) => Some(Timing::Absent),
        };
        whole.cassette.warnings.extend(warnings);
        for (place, process) in part.processes.iter().zip(&head.processes) {
            processes.entry(*place).or_insert_with(|| process.clone());
        }
        let map = heads.unite(&name, head, true, said);
        for (place, mut record) in part.messages.iter().zip(records) {
            if places.contains_key(place) {
                continue;
            }
            record.server = mapped(&map, record.server);
            whole.cassette.take(&text, record);
            places.insert(*place, whole.cassette.records.len() - 1);
        }
    }
    whole.cassette.head = heads.head;
    whole.cassette.timing = timing.unwrap_or_default();
    let records = std::mem::take(&mut whole.cassette.records);
    let order = places.values().filter_map(|index| records.get(*index).cloned());
    whole.cassette.records = order.collect();
    whole.cassette.head.processes = processes.values().cloned().collect();
    in_order(&mut whole.cassette, &first.servers);
    part::remove(&mut whole.cassette.head);
    if !complete {
        let messages = places.keys().copied().collect();
        let part = Part { is, messages, processes: processes.keys().copied().collect(), ..first };
        part.write(&mut whole.cassette.head);
    }
    Ok(whole)
}

/// Puts the servers in the order of `names`; others follow.
fn in_order(cassette: &mut Cassette, names: &[String]) {
    let places: HashMap<&str, usize> =
        names.iter().rev().map(String::as_str).zip((0..names.len()).rev()).collect();
    let mut order: Vec<usize> = (0..cassette.head.servers.len()).collect();
    let servers = std::mem::take(&mut cassette.head.servers);
    order.sort_by_key(|index| {
        servers.get(*index).and_then(|(name, _)| places.get(name.as_str())).map_or(usize::MAX, |place| *place)
    });
    let mut map = vec![0; servers.len()];
    for (new, old) in (0_u32..).zip(&order) {
        if let Some(place) = map.get_mut(*old) {
            *place = new;
        }
    }
    cassette.head.servers = order.iter().filter_map(|index| servers.get(*index).cloned()).collect();
    cassette.records.iter_mut().for_each(|record| record.server = mapped(&map, record.server));
}

fn mapped(map: &[u32], server: u32) -> u32 {
    usize::try_from(server).ok().and_then(|at| map.get(at)).copied().unwrap_or(0)
}

/// The numbers of one kind that a server has.
#[derive(Default)]
struct Taken {
    numbers: HashSet<u32>,
    highest: Option<u32>,
}

impl Taken {
    fn add(&mut self, number: u32) {
        self.numbers.insert(number);
        self.highest = self.highest.max(Some(number));
    }

    /// How far `own` has to move so that no number is there twice; `first` is the lowest that there is.
    fn shift(&self, own: &Self, first: u32) -> u32 {
        if self.numbers.is_disjoint(&own.numbers) {
            return 0;
        }
        self.highest.map_or(0, |highest| highest.saturating_add(1).saturating_sub(first))
    }

    /// How far `own` has to move so that all its numbers, from 1 on, are higher.
    fn behind(&self, own: &Self) -> u32 {
        let highest = self.highest.unwrap_or(0);
        if own.numbers.iter().all(|number| *number > highest) { 0 } else { highest }
    }

    fn extend(&mut self, own: &Self, by: u32) {
        own.numbers.iter().for_each(|number| self.add(number.saturating_add(by)));
    }
}

/// The numbers of a server.
#[derive(Default)]
struct Numbers {
    conns: Taken,
    sessions: Taken,
    exchanges: Taken,
}

/// How far the numbers of a server move.
#[derive(Clone, Copy, Default)]
struct Shift {
    conns: u32,
    sessions: u32,
    exchanges: u32,
    /// It is a further recording, the placeholders of which are its own.
    further: bool,
}

/// The numbers of all servers, in their order.
fn numbers(cassette: &Cassette, places: &HashMap<&str, usize>) -> Vec<Numbers> {
    let mut all: Vec<Numbers> = cassette.head.servers.iter().map(|_| Numbers::default()).collect();
    for process in &cassette.head.processes {
        if let Some(numbers) = places.get(process.server.as_str()).and_then(|place| all.get_mut(*place)) {
            numbers.conns.add(process.conn);
        }
    }
    for record in &cassette.records {
        let place = usize::try_from(record.server).ok();
        let Some(numbers) = place.and_then(|place| all.get_mut(place)) else { continue };
        if record.exchange == 0 {
            numbers.conns.add(record.conn);
        }
        for (taken, number) in
            [(&mut numbers.sessions, record.session), (&mut numbers.exchanges, record.exchange)]
        {
            if number > 0 {
                taken.add(number);
            }
        }
    }
    all
}

/// What the inputs become.
#[derive(Default)]
struct Whole {
    /// All but the head.
    cassette: Cassette,
    heads: Heads,
    /// What is taken, by server.
    taken: Vec<Numbers>,
}

impl Whole {
    /// Adds an input; its times count from `start`, where that is known.
    fn add(&mut self, input: Input, start: Option<i64>, said: &mut Said) {
        let Input { name, cassette } = input;
        let mut places = HashMap::with_capacity(cassette.head.servers.len());
        for (place, (server, _)) in cassette.head.servers.iter().enumerate() {
            places.entry(server.as_str()).or_insert(place);
        }
        let own = numbers(&cassette, &places);
        let mine = self.heads.head.redaction.as_deref();
        let apart = manifest::are_numbered(mine, cassette.head.redaction.as_deref());
        let shifts = self.shifts(&cassette, &own, apart, &name, &mut said.notes);
        let of_process = |server: &str| places.get(server).and_then(|place| shifts.get(*place));
        let mut processes = cassette.head.processes.clone();
        for process in &mut processes {
            let by = of_process(&process.server).map_or(0, |shift| shift.conns);
            process.conn = process.conn.saturating_add(by);
        }
        self.heads.head.processes.append(&mut processes);
        let delay = match (start, clock::parse(&cassette.head.recorded_at)) {
            (Some(start), Some(own)) => u64::try_from(own - start).unwrap_or(0),
            _ => 0,
        };
        let Cassette { mut head, text, records, timing, warnings } = cassette;
        self.cassette.warnings.extend(warnings);
        for ((_, server), (own, by)) in head.servers.iter_mut().zip(own.iter().zip(&shifts)) {
            for exchange in &mut server.recordings {
                *exchange = exchange.saturating_add(by.exchanges);
            }
            let first = own.exchanges.numbers.iter().min().filter(|_| by.further);
            server.recordings.extend(first.map(|first| first.saturating_add(by.exchanges)));
        }
        let map = self.heads.unite(&name, head, false, said);
        self.taken.resize_with(self.heads.head.servers.len(), Numbers::default);
        for ((place, own), by) in map.iter().zip(&own).zip(&shifts) {
            let place = usize::try_from(*place).ok();
            let Some(taken) = place.and_then(|place| self.taken.get_mut(place)) else { continue };
            taken.conns.extend(&own.conns, by.conns);
            taken.sessions.extend(&own.sessions, by.sessions);
            taken.exchanges.extend(&own.exchanges, by.exchanges);
        }
        if self.cassette.records.is_empty() && self.cassette.text.is_empty() {
            self.cassette.timing = timing;
        } else if timing != Timing::Known {
            self.cassette.timing = Timing::Absent;
        }
        let offset = self.cassette.text.len();
        self.cassette.text.push_str(&text);
        self.cassette.records.reserve(records.len());
        for mut record in records {
            let place = usize::try_from(record.server).ok();
            let by = place.and_then(|place| shifts.get(place)).copied().unwrap_or_default();
            renumber(&mut record, by);
            record.shift(offset);
            record.at = record.at.saturating_add(delay);
            record.server = mapped(&map, record.server);
            self.cassette.records.push(record);
        }
    }

    /// How far the numbers of each server of an input have to move.
    /// `apart`: the placeholders of what was added before say nothing of its own.
    fn shifts(
        &self,
        input: &Cassette,
        own: &[Numbers],
        apart: bool,
        name: &str,
        notes: &mut Vec<String>,
    ) -> Vec<Shift> {
        let mut shifts = Vec::with_capacity(own.len());
        for ((server, _), own) in input.head.servers.iter().zip(own) {
            let taken = self.heads.place(server).and_then(|place| self.taken.get(place));
            let shift = taken.map_or_else(Shift::default, |taken| {
                let further = apart && taken.exchanges.highest.is_some();
                Shift {
                    conns: taken.conns.shift(&own.conns, 0),
                    sessions: taken.sessions.shift(&own.sessions, 1),
                    exchanges: match further {
                        true => taken.exchanges.behind(&own.exchanges),
                        false => taken.exchanges.shift(&own.exchanges, 1),
                    },
                    further,
                }
            });
            for (what, by) in [("connections", shift.conns), ("sessions", shift.sessions)] {
                if by > 0 {
                    notes.push(format!(
                        "server {server:?} was recorded before: {name} adds {what} to it, {by} further on"
                    ));
                }
            }
            shifts.push(shift);
        }
        shifts
    }
}

fn renumber(record: &mut Record, by: Shift) {
    if record.exchange == 0 {
        record.conn = record.conn.saturating_add(by.conns);
    }
    for (number, by) in [(&mut record.session, by.sessions), (&mut record.exchange, by.exchanges)] {
        if *number > 0 {
            *number = number.saturating_add(by);
        }
    }
}
