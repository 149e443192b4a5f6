//! Several cassettes as one: parts of a cassette are put together again, a server that was recorded more than once gets
//! further connections and sessions, and heads are united. What two heads say differently is named.

use std::collections::{BTreeMap, HashSet};

use super::clock;
use super::head::{Head, Server, Transport};
use super::manifest;
use super::model::{Cassette, Timing};
use super::part::{self, Part};
use super::record::Record;
use crate::error::{Error, Result};
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::{canonical, string};

/// What the parts of heads are called.
const MANIFEST: &str = "the field of the redaction manifest";
const LABEL: &str = "the label";
const MATCHING: &str = "the matching rule";

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
pub fn combine(inputs: Vec<Input>, renames: &[(String, String)]) -> Result<Combined> {
    let mut out = Combined::default();
    let mut inputs = assembled(inputs, &mut out)?;
    rename(&mut inputs, renames)?;
    let mut whole = Cassette::default();
    let timed = is_timed(&inputs, &mut out.notes);
    let start = |input: &Input| clock::parse(&input.cassette.head.recorded_at);
    let first =
        inputs.iter().filter(|input| timed && !input.cassette.records.is_empty()).filter_map(start).min();
    let first = first.or_else(|| inputs.iter().filter_map(start).min());
    let began = inputs.iter().find(|input| start(input) == first || first.is_none());
    whole.head.recorded_at = began.map_or_else(String::new, |input| input.cassette.head.recorded_at.clone());
    let mut sources = Sources::default();
    for input in inputs {
        unite(&mut whole, &mut sources, input, timed.then_some(first).flatten(), &mut out);
    }
    if timed {
        whole.records.sort_by_key(|record| record.at);
        whole.timing = Timing::Known;
    }
    out.cassette = whole;
    Ok(out)
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

/// Puts parts of one cassette together; what is no part, or was changed since, stays by itself.
fn assembled(inputs: Vec<Input>, out: &mut Combined) -> Result<Vec<Input>> {
    let mut groups: Vec<Vec<(Input, Option<Part>)>> = Vec::new();
    for mut input in inputs {
        let part = Part::read(&input.cassette.head);
        let fitting = part.clone().filter(|part| part.fits(&input.cassette));
        if part.is_some() && fitting.is_none() {
            out.notes.push(format!(
                "{} was changed since it was split: its messages go by their times",
                input.name
            ));
        }
        let Some(part) = fitting else {
            part::remove(&mut input.cassette.head);
            groups.push(vec![(input, None)]);
            continue;
        };
        let belongs = |(other, known): &(Input, Option<Part>)| {
            known.as_ref().is_some_and(|known| {
                known.of == part.of
                    && known.count == part.count
                    && !known.is.iter().any(|number| part.is.contains(number))
                    && other.cassette.head.recorded_at == input.cassette.head.recorded_at
            })
        };
        match groups.iter_mut().find(|group| group.iter().all(belongs)) {
            Some(group) => group.push((input, Some(part))),
            None => groups.push(vec![(input, Some(part))]),
        }
    }
    let mut whole = Vec::new();
    for group in groups {
        whole.push(assemble(group, out)?);
    }
    Ok(whole)
}

fn assemble(mut group: Vec<(Input, Option<Part>)>, out: &mut Combined) -> Result<Input> {
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
    let mut sources = Sources::default();
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
        let map = unite_heads(&mut whole.cassette.head, &mut sources, &name, head, true, out);
        for (place, mut record) in part.messages.iter().zip(records) {
            if places.contains_key(place) {
                continue;
            }
            record.server = mapped(&map, record.server);
            whole.cassette.take(&text, record);
            places.insert(*place, whole.cassette.records.len() - 1);
        }
    }
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
    let place = |name: &str| names.iter().position(|known| known == name).unwrap_or(usize::MAX);
    let before = cassette.head.names();
    cassette.head.servers.sort_by_key(|(name, _)| place(name));
    let after = cassette.head.names();
    let map: Vec<u32> = before
        .iter()
        .map(|name| {
            let at = after.iter().position(|known| known == name).unwrap_or(0);
            u32::try_from(at).unwrap_or(0)
        })
        .collect();
    cassette.records.iter_mut().for_each(|record| record.server = mapped(&map, record.server));
}

fn mapped(map: &[u32], server: u32) -> u32 {
    usize::try_from(server).ok().and_then(|at| map.get(at)).copied().unwrap_or(0)
}

/// Whether two entries of one name may be the same server, judged by what both say.
fn is_same(one: &Server, other: &Server) -> bool {
    let name = |server: &Server| {
        let info = server.info.as_deref()?;
        canonical::of(member(info, Span::new(0, info.len()), "name")?.of(info))
    };
    if one.transport != other.transport {
        return false;
    }
    if let (Some(one), Some(other)) = (name(one), name(other)) {
        return one == other;
    }
    match one.transport {
        Transport::Stdio => {
            one.command.is_empty() || other.command.is_empty() || one.command == other.command
        }
        Transport::Http => one.url.is_none() || other.url.is_none() || one.url == other.url,
    }
}

/// How a server is told from another of its name.
fn described(server: &Server) -> String {
    match (&server.url, server.command.is_empty()) {
        (Some(url), _) => url.clone(),
        (None, false) => server.command.join(" "),
        (None, true) => server.info.clone().unwrap_or_else(|| server.transport.word().to_owned()),
    }
}

fn rename(inputs: &mut [Input], renames: &[(String, String)]) -> Result<()> {
    let all = || inputs.iter().flat_map(|input| input.cassette.head.servers.iter());
    for (old, _) in renames {
        if !all().any(|(name, _)| name == old) {
            let mut names: Vec<String> = all().map(|(name, _)| format!("{name:?}")).collect();
            names.sort();
            names.dedup();
            let what = format!(
                "--rename {old}=...: there is no server {old:?}; the servers are {}",
                names.join(", ")
            );
            return Err(Error::Usage(what));
        }
    }
    let clashing: HashSet<String> = all()
        .filter(|(name, server)| all().any(|(other, twin)| other == name && !is_same(server, twin)))
        .map(|(name, _)| name.clone())
        .collect();
    // By final name: the server, and the file it came from.
    let mut taken: Vec<(String, Server, String)> = Vec::new();
    for input in inputs.iter_mut() {
        let mut names = Vec::new();
        for (name, server) in &input.cassette.head.servers {
            let free = |wanted: &str| {
                let known = taken.iter().find(|(name, ..)| name == wanted);
                known.is_none_or(|(_, known, _)| is_same(known, server))
            };
            let mut targets = renames.iter().filter(|(old, _)| old == name).map(|(_, new)| new.as_str());
            let wanted = match clashing.contains(name) {
                true if free(name) => Some(name.as_str()),
                true => targets.find(|new| free(new)),
                false => Some(targets.next().unwrap_or(name)).filter(|new| free(new)),
            };
            let Some(wanted) = wanted else {
                let known = taken.iter().find(|(taken, ..)| taken == name);
                let (theirs, file) = known
                    .map_or_else(Default::default, |(_, server, file)| (described(server), file.clone()));
                let what = format!(
                    "server {name:?} ({}) is not the server {name:?} of {file} ({theirs}); give it another name with --rename {name}=NEW",
                    described(server)
                );
                return Err(Error::input(&input.name, "", what));
            };
            taken.push((wanted.to_owned(), server.clone(), input.name.clone()));
            names.push((name.clone(), wanted.to_owned()));
        }
        let head = &mut input.cassette.head;
        let mut fresh = HashSet::new();
        for ((name, _), (_, new)) in head.servers.iter_mut().zip(&names) {
            name.clone_from(new);
            if !fresh.insert(new.clone()) {
                let what = format!("would have two servers {new:?}; choose another name");
                return Err(Error::input(&input.name, "", what));
            }
        }
        for process in &mut head.processes {
            if let Some((_, new)) = names.iter().find(|(old, _)| *old == process.server) {
                process.server.clone_from(new);
            }
        }
    }
    Ok(())
}

/// Which file first said a thing, for messages about those who say otherwise.
#[derive(Debug, Default)]
struct Sources(Vec<(String, String)>);

impl Sources {
    fn of(&mut self, what: &str, file: &str) -> String {
        if let Some((_, known)) = self.0.iter().find(|(known, _)| known == what) {
            return known.clone();
        }
        self.0.push((what.to_owned(), file.to_owned()));
        file.to_owned()
    }
}

/// The numbers of a server that are taken: connections, sessions, exchanges.
#[derive(Default)]
struct Numbers {
    conns: HashSet<u32>,
    sessions: HashSet<u32>,
    exchanges: HashSet<u32>,
}

fn numbers(cassette: &Cassette, server: u32) -> Numbers {
    let mut numbers = Numbers::default();
    let name = cassette.server(server).map_or("", |(name, _)| name);
    numbers.conns.extend(
        cassette.head.processes.iter().filter(|process| process.server == name).map(|process| process.conn),
    );
    for record in cassette.records.iter().filter(|record| record.server == server) {
        if record.exchange == 0 {
            numbers.conns.insert(record.conn);
        }
        numbers.sessions.extend(Some(record.session).filter(|session| *session > 0));
        numbers.exchanges.extend(Some(record.exchange).filter(|exchange| *exchange > 0));
    }
    numbers
}

/// How far numbers have to move so that none is used twice.
fn shift(taken: &HashSet<u32>, own: &HashSet<u32>, first: u32) -> u32 {
    if taken.is_disjoint(own) {
        return 0;
    }
    taken.iter().max().map_or(0, |max| max.saturating_add(1).saturating_sub(first))
}

fn unite(whole: &mut Cassette, sources: &mut Sources, input: Input, start: Option<i64>, out: &mut Combined) {
    let Input { name, cassette } = input;
    let mut shifts: Vec<(u32, u32, u32)> = Vec::new();
    for (index, (server, _)) in (0_u32..).zip(&cassette.head.servers) {
        let known = whole.head.servers.iter().position(|(known, _)| known == server);
        let Some(known) = known.and_then(|known| u32::try_from(known).ok()) else {
            shifts.push((0, 0, 0));
            continue;
        };
        let (taken, own) = (numbers(whole, known), numbers(&cassette, index));
        let moved = (
            shift(&taken.conns, &own.conns, 0),
            shift(&taken.sessions, &own.sessions, 1),
            shift(&taken.exchanges, &own.exchanges, 1),
        );
        for (what, by) in [("connections", moved.0), ("sessions", moved.1)] {
            if by > 0 {
                let note = format!(
                    "server {server:?} was recorded before: {name} adds {what} to it, {by} further on"
                );
                out.notes.push(note);
            }
        }
        shifts.push(moved);
    }
    let delay = match (start, clock::parse(&cassette.head.recorded_at)) {
        (Some(start), Some(own)) => u64::try_from(own - start).unwrap_or(0),
        _ => 0,
    };
    let Cassette { mut head, text, records, timing, warnings } = cassette;
    whole.warnings.extend(warnings);
    let names = head.names();
    for process in &mut head.processes {
        let server = names.iter().position(|name| *name == process.server);
        let by = server.and_then(|server| shifts.get(server)).map_or(0, |(conns, ..)| *conns);
        process.conn = process.conn.saturating_add(by);
    }
    whole.head.processes.append(&mut head.processes);
    let map = unite_heads(&mut whole.head, sources, &name, head, false, out);
    if whole.records.is_empty() && whole.text.is_empty() {
        whole.timing = timing;
    } else if timing != Timing::Known {
        whole.timing = Timing::Absent;
    }
    let offset = whole.text.len();
    whole.text.push_str(&text);
    whole.records.reserve(records.len());
    for mut record in records {
        let at = usize::try_from(record.server).ok();
        let (conns, sessions, exchanges) = at.and_then(|at| shifts.get(at)).copied().unwrap_or_default();
        renumber(&mut record, conns, sessions, exchanges);
        record.shift(offset);
        record.at = record.at.saturating_add(delay);
        record.server = mapped(&map, record.server);
        whole.records.push(record);
    }
}

fn renumber(record: &mut Record, conns: u32, sessions: u32, exchanges: u32) {
    if record.exchange == 0 {
        record.conn = record.conn.saturating_add(conns);
    }
    for (number, by) in [(&mut record.session, sessions), (&mut record.exchange, exchanges)] {
        if *number > 0 {
            *number = number.saturating_add(by);
        }
    }
}

/// Unites heads but for their processes and times; gives where each server of `theirs` is now. `same`: both are parts
/// of one recording.
fn unite_heads(
    mine: &mut Head,
    sources: &mut Sources,
    file: &str,
    theirs: Head,
    same: bool,
    out: &mut Combined,
) -> Vec<u32> {
    if mine.recorder.is_empty() {
        mine.recorder.clone_from(&theirs.recorder);
    } else if mine.recorder != theirs.recorder {
        let note = format!("{file} was recorded by {:?}, the first by {:?}", theirs.recorder, mine.recorder);
        out.notes.push(note);
    }
    if mine.recorded_at.is_empty() && same {
        mine.recorded_at.clone_from(&theirs.recorded_at);
    }
    let mut map = Vec::new();
    for (name, server) in theirs.servers {
        let known = mine.servers.iter().position(|(known, _)| *known == name);
        let index = known.unwrap_or(mine.servers.len());
        map.push(u32::try_from(index).unwrap_or(0));
        match mine.servers.get_mut(index) {
            None => {
                sources.of(&format!("server {name:?}"), file);
                mine.servers.push((name, server));
            }
            Some((_, known)) => {
                let first = sources.of(&format!("server {name:?}"), file);
                for what in unite_servers(known, server) {
                    let line = format!("the {what} of server {name:?} in {file}: that of {first} is kept");
                    out.lost.push(line);
                }
            }
        }
    }
    let said = [
        (theirs.redaction.as_deref(), MANIFEST),
        (theirs.labels.as_deref(), LABEL),
        (theirs.matching.as_deref(), MATCHING),
    ];
    for (object, what) in said {
        let Some(object) = object else { continue };
        let Some(mut members) = Members::of(object, 0) else { continue };
        while let Ok(Some((name, _))) = members.next() {
            sources.of(&format!("{what} {:?}", string::decode(name.of(object))), file);
        }
    }
    let mut differs = |sources: &mut Sources, what: &str, one: &str, other: &str| {
        let first = sources.of(what, file);
        out.lost.push(format!("{what}: {one} in {first}, {other} in {file}; the first is kept"));
    };
    mine.redaction = match (mine.redaction.take(), theirs.redaction) {
        (Some(one), Some(other)) if one == other && same => Some(one),
        (Some(one), Some(other)) => {
            for (name, one, other) in conflicts(&one, &other, &["counts", "rules", "packs"]) {
                differs(sources, &format!("{MANIFEST} {name:?}"), &one, &other);
            }
            Some(manifest::merged(&one, &other))
        }
        (one, other) => one.or(other),
    };
    for (slot, value, what, lists) in [
        (&mut mine.labels, theirs.labels, LABEL, &[][..]),
        (&mut mine.matching, theirs.matching, MATCHING, &["ignore", "ignore_value"][..]),
    ] {
        match (slot.as_deref(), value) {
            (Some(one), Some(other)) => {
                for (name, one, other) in conflicts(one, &other, lists) {
                    differs(sources, &format!("{what} {name:?}"), &one, &other);
                }
                *slot = Some(manifest::united(one, &other, lists));
            }
            (None, Some(other)) => *slot = Some(other),
            (_, None) => {}
        }
    }
    for (name, value) in theirs.extra {
        let what = format!("the head field {name:?}");
        match mine.extra.iter().find(|(known, _)| *known == name) {
            // Each part has its own.
            Some(_) if name == part::FIELD && same => {}
            Some((_, known)) if canonical::of(known) == canonical::of(&value) => {}
            Some((_, known)) => differs(sources, &what, &known.clone(), &value),
            None => {
                sources.of(&what, file);
                mine.extra.push((name, value));
            }
        }
    }
    map
}

/// Puts what `theirs` says of a server into `mine`; gives what both say differently.
fn unite_servers(mine: &mut Server, theirs: Server) -> Vec<String> {
    let mut differs = Vec::new();
    if mine.command.is_empty() {
        mine.command = theirs.command;
    } else if !theirs.command.is_empty() && mine.command != theirs.command {
        differs.push("command line".to_owned());
    }
    for revision in theirs.protocol {
        if !mine.protocol.contains(&revision) {
            mine.protocol.push(revision);
        }
    }
    for (mine, theirs, what) in
        [(&mut mine.url, theirs.url, "URL"), (&mut mine.info, theirs.info, "name and version")]
    {
        match (mine.as_deref(), theirs) {
            (None, theirs) => *mine = theirs,
            (Some(one), Some(other)) if one != other && canonical::of(one) != canonical::of(&other) => {
                differs.push(what.to_owned());
            }
            _ => {}
        }
    }
    for (name, value) in theirs.extra {
        match mine.extra.iter().find(|(known, _)| *known == name) {
            Some((_, known)) if *known != value => differs.push(format!("field {name:?}")),
            Some(_) => {}
            None => mine.extra.push((name, value)),
        }
    }
    differs
}

/// The members that two objects both have and say differently, less those that are united.
fn conflicts(one: &str, other: &str, united: &[&str]) -> Vec<(String, String, String)> {
    let Some(mut members) = Members::of(other, 0) else {
        return vec![(String::new(), one.to_owned(), other.to_owned())];
    };
    let mut found = Vec::new();
    while let Ok(Some((name, value))) = members.next() {
        let name = string::decode(name.of(other)).into_owned();
        let Some(mine) = member(one, Span::new(0, one.len()), &name) else { continue };
        let list = |text: &str| elements(text, Span::new(0, text.len())).is_ok() && text.starts_with('[');
        let both = list(mine.of(one)) && list(value.of(other));
        let counts = name == "counts";
        if united.contains(&name.as_str()) && (both || counts) {
            continue;
        }
        if canonical::of(mine.of(one)) != canonical::of(value.of(other)) {
            found.push((name, mine.of(one).to_owned(), value.of(other).to_owned()));
        }
    }
    found
}
