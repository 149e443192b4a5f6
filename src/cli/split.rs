//! `split`: one cassette as several files, which `merge` makes one again.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use argh::{ArgsInfo, FromArgs};

use super::files::{self, Output};
use super::units::Units;
use crate::cassette::part::{Choice, Part, cut, identity};
use crate::cassette::{Cassette, Timing, merge};
use crate::error::{Error, Result};
use crate::exit;

/// Make several cassettes of one. merge makes the same cassette of them again.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "split",
    example = "{command_name} all.cassette.json --by server -o servers",
    example = "{command_name} long.cassette.jsonl --by time --gap 300 -o parts",
    note = "Exchanges stay whole. With --by time, each part has the handshakes of its clients, so that it can be replayed alone. The files are named by server, and have the shape of the input. Their names are printed.",
    error_code(1, "a file cannot be read or written"),
    error_code(2, "the input is no cassette, or a file in FOLDER would be replaced that is none")
)]
pub struct Split {
    /// the cassette; - is standard input
    #[argh(positional)]
    pub cassette: String,
    /// server, session (also each connection of a stdio server) or time
    #[argh(option, arg_name = "what")]
    pub by: By,
    /// the folder for the files; it is made if need be
    #[argh(option, short = 'o', arg_name = "folder")]
    pub output: String,
    /// by time: a pause of so many seconds begins another part (default: 60)
    #[argh(option, arg_name = "seconds")]
    pub gap: Option<Seconds>,
    /// by time: another part every so many seconds
    #[argh(option, arg_name = "seconds")]
    pub every: Option<Seconds>,
}

/// What the parts are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// One for each server.
    Server,
    /// One for each connection and session.
    Session,
    /// One for each stretch of time.
    Time,
}

impl std::str::FromStr for By {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "server" => Ok(Self::Server),
            "session" => Ok(Self::Session),
            "time" => Ok(Self::Time),
            _ => Err("expected server, session or time".to_owned()),
        }
    }
}

/// A time, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seconds(u64);

impl std::str::FromStr for Seconds {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let seconds = text.parse::<f64>().ok().filter(|seconds| *seconds > 0.0 && *seconds < 1e9);
        let seconds = seconds.ok_or_else(|| "expected a number of seconds, more than 0".to_owned())?;
        // The range was looked at above.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(Self((seconds * 1e6) as u64))
    }
}

/// A server, and the connection and session of a client.
type Client = (u32, (u32, u32));

/// One part: its name, and which records are in it.
struct Piece {
    name: String,
    /// In order.
    records: Vec<usize>,
}

impl Split {
    /// Splits; the names of the files go to `out`, remarks go to `notes`.
    pub fn run(&self, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
        if self.output == "-" {
            let what = "-o takes a folder, since split writes several files; -o ./- is one of that name";
            return Err(Error::Usage(what.to_owned()));
        }
        let cassette = files::read(&self.cassette)?;
        files::tell(notes, &files::remarks(&cassette), &[]);
        let file = files::called(&self.cassette);
        if self.by != By::Time && (self.gap.is_some() || self.every.is_some()) {
            return Err(Error::Usage("--gap and --every go with --by time".to_owned()));
        }
        if self.gap.is_some() && self.every.is_some() {
            return Err(Error::Usage("--gap and --every exclude each other".to_owned()));
        }
        if cassette.records.is_empty() {
            return Err(Error::input(file, "", "holds no messages that could be split"));
        }
        if self.by == By::Time && cassette.timing != Timing::Known {
            let what = "does not say when its messages came, so it cannot be split by time";
            return Err(Error::input(file, "", what));
        }
        let (cassette, pieces) = match self.by {
            By::Server => {
                let pieces = by_server(&cassette);
                (cassette, pieces)
            }
            By::Session => {
                let pieces = by_session(&cassette);
                (cassette, pieces)
            }
            By::Time => {
                let units = Units::of(cassette);
                let pieces = self.by_time(&units);
                (units.cassette, pieces)
            }
        };
        // What comes by a pipe has no name that would tell.
        let as_journal = match self.cassette.as_str() {
            "-" => cassette.is_journal(),
            named => merge::is_journal(Path::new(named)),
        };
        let paths = self.paths(&pieces, as_journal);
        for path in &paths {
            Output::Path(path.clone()).check()?;
        }
        fs::create_dir_all(&self.output).map_err(Error::io("make the folder", &self.output))?;
        let whole = Whole::new(&cassette, &pieces);
        for ((number, piece), path) in (0..).zip(&pieces).zip(&paths) {
            let part = whole.part(number, piece);
            Output::Path(path.clone()).put_cassette(&part, &mut std::io::sink())?;
            let line = format!(
                "{}\t{} messages\n",
                super::printable(&path.display().to_string()),
                part.records.len()
            );
            // Nobody reading the names is no failure.
            let _ = out.write_all(line.as_bytes());
        }
        let _ = out.flush();
        Ok(exit::OK)
    }

    /// Names that any file system takes, each once.
    fn paths(&self, pieces: &[Piece], as_journal: bool) -> Vec<PathBuf> {
        let ending = if as_journal { "cassette.jsonl" } else { "cassette.json" };
        let mut taken: HashSet<String> = HashSet::new();
        let mut paths = Vec::new();
        for piece in pieces {
            let plain = |char: char| if char.is_alphanumeric() || "-_.".contains(char) { char } else { '_' };
            let base: String = piece.name.chars().map(plain).take(100).collect();
            let base = base.trim_start_matches('.').to_owned();
            let base = if base.is_empty() { "server".to_owned() } else { base };
            let mut name = base.clone();
            let mut count = 1;
            // Some file systems do not tell letters apart by case.
            while !taken.insert(name.to_lowercase()) {
                count += 1;
                name = format!("{base}_{count}");
            }
            paths.push(Path::new(&self.output).join(format!("{name}.{ending}")));
        }
        paths
    }

    fn by_time(&self, units: &Units) -> Vec<Piece> {
        let at = |index: &usize| units.cassette.records.get(*index).map_or(0, |record| record.at);
        let gap = self.gap.map_or(60_000_000, |gap| gap.0);
        let mut part_of: Vec<usize> = vec![0; units.list.len()];
        let mut part = 0;
        let mut latest: Option<u64> = None;
        let mut stretch = None;
        let mut order: Vec<usize> = (0..units.list.len()).collect();
        let start = |unit: usize| units.list.get(unit).and_then(|unit| unit.records.first()).map_or(0, at);
        order.sort_by_key(|unit| start(*unit));
        let first = order.first().map_or(0, |unit| start(*unit));
        for index in order {
            let Some(unit) = units.list.get(index) else { continue };
            let begin = start(index);
            if unit.follows.is_empty() {
                let own = self.every.map(|every| (begin - first) / every.0);
                let new = match (stretch, own, latest) {
                    // The first part begins with the first of those that may begin one.
                    (None, ..) => false,
                    (Some(stretch), Some(_), _) => own != stretch,
                    (_, None, latest) => latest.is_some_and(|latest| begin.saturating_sub(latest) >= gap),
                };
                part += usize::from(new);
                stretch = Some(own);
                if let Some(slot) = part_of.get_mut(index) {
                    *slot = part;
                }
            }
            let end = unit.records.iter().map(at).max().unwrap_or(begin);
            latest = Some(latest.map_or(end, |latest| latest.max(end)));
        }
        // What goes on with a result stays with it, also where its time is before that.
        for (index, unit) in units.list.iter().enumerate() {
            let with = unit.follows.first().and_then(|first| part_of.get(*first)).copied();
            if let (Some(with), Some(slot)) = (with, part_of.get_mut(index)) {
                *slot = with;
            }
        }
        let mut pieces: Vec<Piece> = (0..=part)
            .map(|part| Piece { name: format!("part-{}", part + 1), records: Vec::new() })
            .collect();
        let mut clients: HashMap<usize, HashSet<Client>> = HashMap::new();
        for (unit, part) in units.list.iter().zip(&part_of) {
            clients.entry(*part).or_default().insert((unit.server, unit.client));
            if let Some(piece) = pieces.get_mut(*part) {
                piece.records.extend(&unit.records);
            }
        }
        for unit in units.list.iter().filter(|unit| unit.handshake) {
            for (part, clients) in &clients {
                if clients.contains(&(unit.server, unit.client))
                    && let Some(piece) = pieces.get_mut(*part)
                {
                    piece.records.extend(&unit.records);
                }
            }
        }
        for piece in &mut pieces {
            piece.records.sort_unstable();
            piece.records.dedup();
        }
        pieces
    }
}

fn by_server(cassette: &Cassette) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = cassette
        .head
        .servers
        .iter()
        .map(|(name, _)| Piece { name: name.clone(), records: Vec::new() })
        .collect();
    for (index, record) in cassette.records.iter().enumerate() {
        let piece = usize::try_from(record.server).ok().and_then(|server| pieces.get_mut(server));
        if let Some(piece) = piece {
            piece.records.push(index);
        }
    }
    pieces.retain(|piece| !piece.records.is_empty());
    pieces
}

fn by_session(cassette: &Cassette) -> Vec<Piece> {
    let mut order: Vec<(u32, u32, u32)> = Vec::new();
    let mut records: HashMap<(u32, u32, u32), Vec<usize>> = HashMap::new();
    // The request that begins a session does not name it yet.
    let named = cassette.records.iter().filter(|record| record.exchange > 0 && record.session > 0);
    let sessions: HashMap<(u32, u32), u32> =
        named.map(|record| ((record.server, record.exchange), record.session)).collect();
    for (index, record) in cassette.records.iter().enumerate() {
        let session = match record.session {
            0 => sessions.get(&(record.server, record.exchange)).copied().unwrap_or(0),
            session => session,
        };
        let key = (record.server, record.conn, session);
        records.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        if let Some(list) = records.get_mut(&key) {
            list.push(index);
        }
    }
    let name = |(server, conn, session): (u32, u32, u32)| {
        let name = cassette.server(server).map_or("server", |(name, _)| name);
        // Sessions count from 1, and connections from 0.
        let number = if session > 0 { session } else { conn + 1 };
        format!("{name}-{number}")
    };
    let pieces =
        order.into_iter().filter_map(|key| Some(Piece { name: name(key), records: records.remove(&key)? }));
    pieces.collect()
}

/// What all parts are cut from.
struct Whole<'a> {
    cassette: &'a Cassette,
    of: String,
    count: usize,
    /// By part: the places of its processes.
    processes: Vec<Vec<usize>>,
    /// The servers of which nothing was recorded.
    idle: Vec<usize>,
}

impl<'a> Whole<'a> {
    fn new(cassette: &'a Cassette, pieces: &[Piece]) -> Self {
        let mut parts: HashMap<(&str, u32), Vec<usize>> = HashMap::new();
        let mut first: HashMap<&str, usize> = HashMap::new();
        for (number, piece) in pieces.iter().enumerate() {
            for record in piece.records.iter().filter_map(|index| cassette.records.get(*index)) {
                let name = cassette.server_name(record);
                let list = parts.entry((name, record.conn)).or_default();
                if list.last() != Some(&number) {
                    list.push(number);
                }
                first.entry(name).or_insert(number);
            }
        }
        let mut processes = vec![Vec::new(); pieces.len()];
        for (index, process) in cassette.head.processes.iter().enumerate() {
            let server = process.server.as_str();
            // A process of which nothing was recorded goes with its server, or with the first part.
            let own = parts.get(&(server, process.conn)).cloned();
            let own = own.unwrap_or_else(|| vec![first.get(server).copied().unwrap_or(0)]);
            for number in own {
                if let Some(list) = processes.get_mut(number) {
                    list.push(index);
                }
            }
        }
        let servers = cassette.head.servers.iter().enumerate();
        let idle = servers.filter(|(_, (name, _))| !first.contains_key(name.as_str()));
        Self {
            cassette,
            of: identity(cassette),
            count: pieces.len(),
            processes,
            idle: idle.map(|(index, _)| index).collect(),
        }
    }

    /// One part, which remembers its place in the whole.
    fn part(&self, number: usize, piece: &Piece) -> Cassette {
        let processes = self.processes.get(number).map_or(&[][..], Vec::as_slice);
        let servers = if number == 0 { self.idle.as_slice() } else { &[] };
        let mut cut = cut(self.cassette, &Choice { records: &piece.records, processes, servers });
        let narrow = |index: &usize| u32::try_from(*index).unwrap_or(u32::MAX);
        let part = Part {
            of: self.of.clone(),
            is: vec![narrow(&(number + 1))],
            count: narrow(&self.count),
            servers: self.cassette.head.names(),
            processes: processes.iter().map(narrow).collect(),
            messages: piece.records.iter().map(narrow).collect(),
        };
        part.write(&mut cut.head);
        cut
    }
}
