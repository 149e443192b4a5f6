//! `trim`: part of a cassette. What goes, goes as a whole: an exchange with everything inside it.

use std::collections::HashSet;
use std::io::Write;

use argh::{ArgsInfo, FromArgs};
use regex::Regex;

use super::files::{self, Output};
use super::units::{Unit, Units};
use crate::cassette::part::{Choice, cut};
use crate::cassette::{Process, Record};
use crate::error::{Error, Result};

/// Keep part of a cassette, or drop part of it.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "trim",
    example = "{command_name} long.cassette.json -o short.cassette.json --keep exchange=3..7",
    example = "{command_name} c.cassette.json --in-place --drop method=resources/*",
    example = "{command_name} c.cassette.json -o - --keep server=tracker,name=create_*",
    note = "A SELECTION is one or more of method=GLOB, name=GLOB (of the tool, prompt or resource), server=NAME and exchange=N or N..M as inspect counts them. Joined by commas all must hold; repeated options add up. Exchanges stay or go whole. The handshake of a client of which anything stays, stays too, unless it is dropped.",
    error_code(1, "a file cannot be read or written"),
    error_code(2, "the input is no cassette, there is no such server or exchange, or nothing would be left")
)]
pub struct Trim {
    /// the cassette; - is standard input
    #[argh(positional)]
    pub cassette: String,
    /// where to write; - is standard output
    #[argh(option, short = 'o', arg_name = "out")]
    pub output: Option<String>,
    /// write the cassette itself
    #[argh(switch)]
    pub in_place: bool,
    /// keep only what is selected (repeatable)
    #[argh(option, arg_name = "selection")]
    pub keep: Vec<Selection>,
    /// drop what is selected (repeatable)
    #[argh(option, arg_name = "selection")]
    pub drop: Vec<Selection>,
}

/// Conditions that must all hold.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    text: String,
    methods: Vec<Regex>,
    names: Vec<Regex>,
    servers: Vec<String>,
    exchanges: Vec<(usize, Option<usize>)>,
}

impl std::str::FromStr for Selection {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let mut selection = Self { text: text.to_owned(), ..Self::default() };
        for condition in conditions(text) {
            match condition.split_once('=') {
                Some(("method", value)) => selection.methods.push(glob(value)?),
                Some(("name", value)) => selection.names.push(glob(value)?),
                Some(("server", value)) => selection.servers.push(value.to_owned()),
                Some(("exchange", value)) => selection.exchanges.push(range(value)?),
                _ => return Err("expected method=, name=, server= or exchange=".to_owned()),
            }
        }
        Ok(selection)
    }
}

/// The conditions between commas; a comma belongs to a value where no condition follows it.
fn conditions(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for piece in text.split(',') {
        let starts = ["method=", "name=", "server=", "exchange="].iter().any(|key| piece.starts_with(key));
        match found.last_mut() {
            Some(last) if !starts => {
                last.push(',');
                last.push_str(piece);
            }
            _ => found.push(piece.to_owned()),
        }
    }
    found
}

/// `*` stands for any text, `?` for one character.
fn glob(pattern: &str) -> std::result::Result<Regex, String> {
    let pattern = regex::escape(pattern).replace(r"\*", ".*").replace(r"\?", ".");
    Regex::new(&format!("^(?s:{pattern})$")).map_err(|_| "the pattern is too long".to_owned())
}

fn range(text: &str) -> std::result::Result<(usize, Option<usize>), String> {
    let wrong = || "expected a number of an exchange, from 1, or N..M".to_owned();
    let number = |text: &str| text.parse::<usize>().ok().filter(|number| *number > 0).ok_or_else(wrong);
    let Some((first, last)) = text.split_once("..") else {
        let number = number(text)?;
        return Ok((number, Some(number)));
    };
    let first = if first.is_empty() { 1 } else { number(first)? };
    let last = if last.is_empty() { None } else { Some(number(last)?) };
    if last.is_some_and(|last| last < first) {
        return Err(wrong());
    }
    Ok((first, last))
}

impl Selection {
    fn check(&self, file: &str, units: &Units) -> Result<()> {
        let names = units.cassette.head.names();
        if let Some(unknown) = self.servers.iter().find(|name| !names.contains(name)) {
            let names: Vec<String> = names.iter().map(|name| format!("{name:?}")).collect();
            let what = format!("has no server {unknown:?}; its servers are {}", names.join(", "));
            return Err(Error::input(file, "", what));
        }
        let numbers = self.exchanges.iter().flat_map(|(first, last)| [Some(*first), *last]).flatten();
        if let Some(number) = numbers.filter(|number| *number > units.exchanges).min() {
            let what = format!("has no exchange {number}; its exchanges are 1 to {}", units.exchanges);
            return Err(Error::input(file, "", what));
        }
        Ok(())
    }

    fn selects(&self, units: &Units, unit: &Unit) -> bool {
        let name = units.cassette.server(unit.server).map_or("", |(name, _)| name);
        let within = |number: &usize| {
            self.exchanges
                .iter()
                .any(|(first, last)| number >= first && last.is_none_or(|last| *number <= last))
        };
        let heads = |(method, target): &(String, Option<String>)| {
            let named = |name: &Regex| target.as_deref().is_some_and(|target| name.is_match(target));
            (self.methods.is_empty() || self.methods.iter().any(|wanted| wanted.is_match(method)))
                && (self.names.is_empty() || self.names.iter().any(named))
        };
        let about = self.methods.is_empty() && self.names.is_empty();
        (self.servers.is_empty() || self.servers.iter().any(|server| server == name))
            && (self.exchanges.is_empty() || unit.exchanges.iter().any(within))
            && (about || unit.heads.iter().any(heads))
    }
}

impl Trim {
    /// Trims; a cassette for standard output goes to `out`, remarks go to `notes`.
    pub fn run(&self, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
        let output = self.output()?;
        if self.keep.is_empty() && self.drop.is_empty() {
            return Err(Error::Usage("trim needs --keep or --drop; see mcpreel trim --help".to_owned()));
        }
        output.check()?;
        let cassette = files::read(&self.cassette)?;
        files::tell(notes, &files::remarks(&cassette), &[]);
        let units = Units::of(cassette);
        let file = files::called(&self.cassette);
        for selection in self.keep.iter().chain(&self.drop) {
            selection.check(file, &units)?;
            if !units.list.iter().any(|unit| selection.selects(&units, unit)) {
                let note = format!("nothing in {file} is {}", selection.text);
                files::tell(notes, &[note], &[]);
            }
        }
        let stays = self.stays(&units);
        let mut records: Vec<usize> = Vec::new();
        for (unit, _) in units.list.iter().zip(&stays).filter(|(_, stays)| **stays) {
            records.extend(&unit.records);
        }
        records.sort_unstable();
        if records.is_empty() {
            return Err(Error::input(file, "", "nothing would be left of it"));
        }
        let whole = &units.cassette;
        let client = |record: &'_ Record| (record.server, record.conn);
        let stay: HashSet<(u32, u32)> =
            records.iter().filter_map(|index| whole.records.get(*index)).map(client).collect();
        let spoke: HashSet<(u32, u32)> = whole.records.iter().map(client).collect();
        let servers: HashSet<u32> = stay.iter().map(|(server, _)| *server).collect();
        let keeps = |process: &Process| {
            let server = whole.head.servers.iter().position(|(name, _)| *name == process.server);
            let Some(server) = server.and_then(|server| u32::try_from(server).ok()) else { return false };
            let key = (server, process.conn);
            // One of which nothing was recorded stays with its server.
            stay.contains(&key) || (servers.contains(&server) && !spoke.contains(&key))
        };
        let processes = whole.head.processes.iter().enumerate();
        let processes: Vec<usize> =
            processes.filter(|(_, process)| keeps(process)).map(|(index, _)| index).collect();
        let trimmed = cut(whole, &Choice { records: &records, processes: &processes, servers: &[] });
        output.put_cassette(&trimmed, out)
    }

    fn output(&self) -> Result<Output> {
        match (&self.output, self.in_place) {
            (Some(output), false) => Ok(Output::to(output)),
            (None, true) if self.cassette != "-" => Ok(Output::to(&self.cassette)),
            (None, true) => {
                Err(Error::Usage("standard input cannot be written in place; give -o OUT".to_owned()))
            }
            _ => Err(Error::Usage("trim needs either -o OUT or --in-place".to_owned())),
        }
    }

    /// Which units stay.
    fn stays(&self, units: &Units) -> Vec<bool> {
        let any = |list: &[Selection], unit: &Unit| list.iter().any(|it| it.selects(units, unit));
        let mut stays: Vec<bool> =
            units.list.iter().map(|unit| self.keep.is_empty() || any(&self.keep, unit)).collect();
        if !self.keep.is_empty() {
            // A call, its polls and its later rounds belong together, whichever of them was named.
            let mut changed = true;
            while changed {
                changed = false;
                for (index, unit) in units.list.iter().enumerate() {
                    let group = || std::iter::once(index).chain(unit.follows.iter().copied());
                    let some = group().any(|place| stays.get(place) == Some(&true));
                    for place in group().filter(|_| some) {
                        if let Some(stays) = stays.get_mut(place) {
                            changed |= !std::mem::replace(stays, true);
                        }
                    }
                }
            }
            let clients: HashSet<(u32, (u32, u32))> = units
                .list
                .iter()
                .zip(&stays)
                .filter(|(_, stays)| **stays)
                .map(|(unit, _)| (unit.server, unit.client))
                .collect();
            for (unit, stays) in units.list.iter().zip(&mut stays) {
                *stays |= unit.handshake && clients.contains(&(unit.server, unit.client));
            }
        }
        for (unit, stays) in units.list.iter().zip(&mut stays) {
            *stays &= !any(&self.drop, unit);
        }
        if self.keep.is_empty() {
            // What goes on with a result that is gone cannot stay; units follow only earlier ones.
            for (index, unit) in units.list.iter().enumerate() {
                let orphan = unit.follows.iter().any(|first| stays.get(*first) == Some(&false));
                if orphan && let Some(stays) = stays.get_mut(index) {
                    *stays = false;
                }
            }
        }
        stays
    }
}
