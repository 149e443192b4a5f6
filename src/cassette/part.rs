//! Parts of a cassette: which of its records go where, and how they find back. A part remembers in its head which
//! cassette it was cut from and which places its records had, so that all parts together are that cassette again.

use super::head::{Head, object};
use super::model::Cassette;
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::{Span, elements};
use crate::jsonrpc::string;

/// The head field that parts have.
pub const FIELD: &str = "part";

/// What a part remembers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// Stands for the cassette that it was cut from.
    pub of: String,
    /// Which parts it is, from 1; several where some were merged again.
    pub is: Vec<u32>,
    /// How many there are.
    pub count: u32,
    /// The servers of the whole cassette, in order.
    pub servers: Vec<String>,
    /// The places of its processes in the whole cassette.
    pub processes: Vec<u32>,
    /// The places of its records in the whole cassette.
    pub messages: Vec<u32>,
}

impl Part {
    /// What the head of a part says; `None` where it is no part, or says nothing that can be used. Of more places than it
    /// has records or processes only one too many is read: it does not fit then.
    #[must_use]
    pub fn read(part: &Cassette) -> Option<Self> {
        let (records, processes) = (part.records.len(), part.head.processes.len());
        let (_, text) = part.head.extra.iter().find(|(name, _)| name == FIELD)?;
        let get = |name| Some(member(text, Span::new(0, text.len()), name)?.of(text));
        let list = |name| {
            let value = member(text, Span::new(0, text.len()), name)?;
            elements(text, value).ok()
        };
        let part = Self {
            of: string::decode(get("of")?).into_owned(),
            is: list("is")?.iter().map(|span| span.of(text).parse().ok()).collect::<Option<_>>()?,
            count: get("count")?.parse().ok()?,
            servers: list("servers")?.iter().map(|span| string::decode(span.of(text)).into_owned()).collect(),
            processes: ranges(&string::decode(get("processes")?), processes)?,
            messages: ranges(&string::decode(get("messages")?), records)?,
        };
        Some(part)
    }

    /// Puts it into a head, in place of what was there.
    pub fn write(&self, head: &mut Head) {
        let numbers: Vec<String> = self.is.iter().map(u32::to_string).collect();
        let servers: Vec<String> = self.servers.iter().map(|name| string::encode(name)).collect();
        let text = object([
            ("of".to_owned(), string::encode(&self.of)),
            ("is".to_owned(), format!("[{}]", numbers.join(","))),
            ("count".to_owned(), self.count.to_string()),
            ("servers".to_owned(), format!("[{}]", servers.join(","))),
            ("processes".to_owned(), string::encode(&spelt(&self.processes))),
            ("messages".to_owned(), string::encode(&spelt(&self.messages))),
        ]);
        remove(head);
        head.extra.push((FIELD.to_owned(), text));
    }

    /// Whether it says the places of all records and processes of `cassette`.
    #[must_use]
    pub fn fits(&self, cassette: &Cassette) -> bool {
        self.messages.len() == cassette.records.len() && self.processes.len() == cassette.head.processes.len()
    }
}

/// Takes the field out of a head.
pub fn remove(head: &mut Head) {
    head.extra.retain(|(name, _)| name != FIELD);
}

/// Stands for a cassette: when it was recorded, and a hash (FNV-1a, 64 bits) of its messages.
#[must_use]
pub fn identity(cassette: &Cassette) -> String {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    for record in &cassette.records {
        let text = cassette.payload(record).unwrap_or("");
        for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
    }
    format!("{} {hash:016x}", cassette.head.recorded_at).trim_start().to_owned()
}

/// `0-3,7`.
fn spelt(numbers: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(number) => *last = number,
            _ => runs.push((number, number)),
        }
    }
    let runs: Vec<String> = runs
        .iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    runs.join(",")
}

/// What [`spelt`] spells; of more than `most` numbers the first ones, one too many. Written by hand, a run may claim more
/// than any memory holds.
fn ranges(text: &str, most: usize) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for run in text.split(',').filter(|run| !run.is_empty()) {
        let (first, last) = run.split_once('-').unwrap_or((run, run));
        let (first, last) = (first.parse::<u32>().ok()?, last.parse::<u32>().ok()?);
        if last < first {
            return None;
        }
        numbers.extend((first..=last).take((most + 1).saturating_sub(numbers.len())));
    }
    Some(numbers)
}

/// What is to be cut out of a cassette: places, in order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Choice<'a> {
    /// The records.
    pub records: &'a [usize],
    /// The processes.
    pub processes: &'a [usize],
    /// Servers that are in it even without a record.
    pub servers: &'a [usize],
}

/// The part of a cassette that is chosen, with the servers that have any message in it. Of a part, it keeps which
/// places the records had.
#[must_use]
pub fn cut(whole: &Cassette, choice: &Choice<'_>) -> Cassette {
    let mut cut = Cassette {
        head: Head { servers: Vec::new(), processes: Vec::new(), ..whole.head.clone() },
        timing: whole.timing,
        ..Cassette::default()
    };
    let mut stay = vec![false; whole.head.servers.len()];
    let records = || choice.records.iter().filter_map(|index| whole.records.get(*index));
    let spoken = records().filter_map(|record| usize::try_from(record.server).ok());
    for server in spoken.chain(choice.servers.iter().copied()) {
        if let Some(stays) = stay.get_mut(server) {
            *stays = true;
        }
    }
    let mut places: Vec<u32> = Vec::with_capacity(stay.len());
    for (server, stays) in whole.head.servers.iter().zip(&stay) {
        places.push(u32::try_from(cut.head.servers.len()).unwrap_or(0));
        if *stays {
            cut.head.servers.push(server.clone());
        }
    }
    let processes = choice.processes.iter().filter_map(|index| whole.head.processes.get(*index));
    cut.head.processes = processes.cloned().collect();
    for record in records() {
        let mut record = record.clone();
        let server = usize::try_from(record.server).ok();
        record.server = server.and_then(|server| places.get(server)).copied().unwrap_or(0);
        cut.take(&whole.text, record);
    }
    match Part::read(whole).filter(|part| part.fits(whole)) {
        Some(part) => {
            let pick = |from: &[u32], places: &[usize]| {
                places.iter().filter_map(|place| from.get(*place)).copied().collect()
            };
            let (messages, processes) =
                (pick(&part.messages, choice.records), pick(&part.processes, choice.processes));
            Part { processes, messages, ..part }.write(&mut cut.head);
        }
        None => remove(&mut cut.head),
    }
    cut
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cassette::{Body, Process, Record, Side};

    fn record() -> Record {
        let from = Side::Server;
        Record { from, server: 0, conn: 0, session: 0, exchange: 0, at: 0, body: Body::None, more: None }
    }

    #[test]
    fn places_are_spelt_in_runs() {
        for (numbers, text) in
            [(&[][..], ""), (&[3], "3"), (&[0, 1, 2, 7, 9, 10], "0-2,7,9-10"), (&[5, 4], "5,4")]
        {
            assert_eq!(spelt(numbers), text);
            assert_eq!(ranges(text, 6).unwrap(), numbers);
        }
        for text in ["x", "3-1", "1-", "0-4294967296"] {
            assert_eq!(ranges(text, 6), None, "{text}");
        }
        for text in ["0-4294967295", "0-4000000000,0-4000000000", "0,0-9,5"] {
            assert_eq!(ranges(text, 2).unwrap().len(), 3, "{text}");
        }
    }

    #[test]
    fn a_part_is_read_as_it_was_written() {
        let part = Part {
            of: "2026 \"x\"".to_owned(),
            is: vec![2, 3],
            count: 4,
            servers: vec!["a".to_owned(), "b \"c\"".to_owned()],
            processes: vec![1],
            messages: vec![0, 1, 5],
        };
        let mut cassette = Cassette::default();
        for text in ["1", "2", "3"] {
            cassette.push_text(record(), text);
        }
        cassette.head.processes.push(Process::default());
        part.write(&mut cassette.head);
        part.write(&mut cassette.head);
        assert_eq!(cassette.head.extra.len(), 1);
        assert_eq!(Part::read(&cassette), Some(part.clone()));
        assert!(part.fits(&cassette));
        cassette.records.pop();
        assert!(!Part::read(&cassette).unwrap().fits(&cassette));
        cassette.head.extra = vec![(FIELD.to_owned(), "{\"of\":1}".to_owned())];
        assert_eq!(Part::read(&cassette), None);
    }
}
