//! Servers that share a name: which of them are the same, and what the others are called.

use std::collections::{HashMap, HashSet};

use super::Input;
use crate::cassette::head::{Server, Transport};
use crate::error::{Error, Result};
use crate::jsonrpc::canonical;
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::Span;

/// What servers of one name are told apart by.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Face {
    transport: Transport,
    /// The comparison form of its own name.
    name: Option<Vec<u8>>,
    command: Vec<String>,
    url: Option<String>,
}

impl Face {
    fn of(server: &Server) -> Self {
        let name = server
            .info
            .as_deref()
            .and_then(|info| canonical::of(member(info, Span::new(0, info.len()), "name")?.of(info)));
        Self { transport: server.transport, name, command: server.command.clone(), url: server.url.clone() }
    }

    /// Whether both may be the same server, judged by what both say.
    fn may_be(&self, other: &Self) -> bool {
        if self.transport != other.transport {
            return false;
        }
        if let (Some(one), Some(other)) = (&self.name, &other.name) {
            return one == other;
        }
        match self.transport {
            Transport::Stdio => {
                self.command.is_empty() || other.command.is_empty() || self.command == other.command
            }
            Transport::Http => self.url.is_none() || other.url.is_none() || self.url == other.url,
        }
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

/// The first server of a name, and the file it came from.
struct Taken {
    face: Face,
    described: String,
    file: String,
}

/// Gives every server its final name, see [`combine`](super::combine).
pub(super) fn rename(inputs: &mut [Input], renames: &[(String, String)]) -> Result<()> {
    let mut faces: HashMap<&str, HashSet<Face>> = HashMap::new();
    for (name, server) in inputs.iter().flat_map(|input| &input.cassette.head.servers) {
        faces.entry(name).or_default().insert(Face::of(server));
    }
    if let Some((old, _)) = renames.iter().find(|(old, _)| !faces.contains_key(old.as_str())) {
        let mut names: Vec<String> = faces.keys().map(|name| format!("{name:?}")).collect();
        names.sort();
        let what =
            format!("--rename {old}=...: there is no server {old:?}; the servers are {}", names.join(", "));
        return Err(Error::Usage(what));
    }
    let clash = |faces: &HashSet<Face>| faces.iter().any(|one| !faces.iter().all(|other| one.may_be(other)));
    let clashing: HashSet<String> =
        faces.iter().filter(|(_, faces)| clash(faces)).map(|(name, _)| (*name).to_owned()).collect();
    let mut taken: HashMap<String, Taken> = HashMap::new();
    for input in inputs.iter_mut() {
        let head = &mut input.cassette.head;
        let mut news: HashMap<String, String> = HashMap::with_capacity(head.servers.len());
        let mut fresh = HashSet::new();
        for (name, server) in &mut head.servers {
            let face = Face::of(server);
            let wanted = final_name(name, &face, &taken, renames, clashing.contains(name)).map(str::to_owned);
            let Some(new) = wanted else {
                let known = taken.get(name);
                let (theirs, file) =
                    known.map_or(("", ""), |known| (known.described.as_str(), known.file.as_str()));
                let what = format!(
                    "server {name:?} ({}) is not the server {name:?} of {file} ({theirs}); give it another name with --rename {name}=NEW",
                    described(server)
                );
                return Err(Error::input(&input.name, "", what));
            };
            taken.entry(new.clone()).or_insert_with(|| Taken {
                face,
                described: described(server),
                file: input.name.clone(),
            });
            if !fresh.insert(new.clone()) {
                let what = format!("would have two servers {new:?}; choose another name");
                return Err(Error::input(&input.name, "", what));
            }
            news.entry(std::mem::replace(name, new.clone())).or_insert(new);
        }
        for process in &mut head.processes {
            if let Some(new) = news.get(&process.server) {
                process.server.clone_from(new);
            }
        }
    }
    Ok(())
}

/// The first name that a server can have, its own or one of the new ones.
fn final_name<'n>(
    name: &'n str,
    face: &Face,
    taken: &HashMap<String, Taken>,
    renames: &'n [(String, String)],
    clashes: bool,
) -> Option<&'n str> {
    let is_free = |wanted: &str| taken.get(wanted).is_none_or(|known| known.face.may_be(face));
    let mut targets = renames.iter().filter(|(old, _)| old == name).map(|(_, new)| new.as_str());
    match clashes {
        true if is_free(name) => Some(name),
        true => targets.find(|new| is_free(new)),
        false => Some(targets.next().unwrap_or(name)).filter(|new| is_free(new)),
    }
}
