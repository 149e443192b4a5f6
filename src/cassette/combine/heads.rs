//! Heads as one, and what two of them say differently.

use std::collections::HashMap;

use crate::cassette::head::{Head, Server};
use crate::cassette::{manifest, part};
use crate::jsonrpc::message::member;
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::{canonical, string};

/// What the parts of heads are called.
const MANIFEST: &str = "the field of the redaction manifest";
const LABEL: &str = "the label";
const MATCHING: &str = "the matching rule";

/// Heads that become one.
#[derive(Debug, Default)]
pub(super) struct Heads {
    /// The one.
    pub(super) head: Head,
    /// The places of its servers, by name.
    places: HashMap<String, usize>,
    sources: Sources,
}

/// Which file first said a thing, for messages about those who say otherwise.
#[derive(Debug, Default)]
struct Sources(HashMap<String, String>);

impl Sources {
    fn of(&mut self, what: String, file: &str) -> &str {
        self.0.entry(what).or_insert_with(|| file.to_owned())
    }
}

/// What comes to light while heads are united, for people.
#[derive(Debug, Default)]
pub(super) struct Said {
    /// Worth a note.
    pub(super) notes: Vec<String>,
    /// What one of them said and the result does not.
    pub(super) lost: Vec<String>,
}

impl Heads {
    /// The place of a server.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.places.get(name).copied()
    }

    /// Adds another head, that of `file`, but for its processes and times; gives where each of its servers is now.
    /// `same`: all are parts of one recording.
    pub(super) fn unite(&mut self, file: &str, theirs: Head, same: bool, said: &mut Said) -> Vec<u32> {
        let mine = &mut self.head;
        if mine.recorder.is_empty() {
            mine.recorder.clone_from(&theirs.recorder);
        } else if mine.recorder != theirs.recorder {
            let note =
                format!("{file} was recorded by {:?}, the first by {:?}", theirs.recorder, mine.recorder);
            said.notes.push(note);
        }
        if mine.recorded_at.is_empty() && same {
            mine.recorded_at.clone_from(&theirs.recorded_at);
        }
        let map = self.unite_servers(file, theirs.servers, said);
        self.unite_objects(
            file,
            [theirs.redaction.as_deref(), theirs.labels.as_deref(), theirs.matching.as_deref()],
            same,
            said,
        );
        self.unite_extra(file, theirs.extra, same, said);
        map
    }

    fn unite_servers(&mut self, file: &str, theirs: Vec<(String, Server)>, said: &mut Said) -> Vec<u32> {
        let mut map = Vec::with_capacity(theirs.len());
        for (name, server) in theirs {
            let next = self.head.servers.len();
            let place = *self.places.entry(name.clone()).or_insert(next);
            map.push(u32::try_from(place).unwrap_or(0));
            let first = self.sources.of(format!("server {name:?}"), file);
            match self.head.servers.get_mut(place) {
                None => self.head.servers.push((name, server)),
                Some((_, known)) => {
                    for what in unite_servers(known, server) {
                        let line =
                            format!("the {what} of server {name:?} in {file}: that of {first} is kept");
                        said.lost.push(line);
                    }
                }
            }
        }
        map
    }

    /// The manifest, the labels and the matching rules.
    fn unite_objects(
        &mut self,
        file: &str,
        [redaction, labels, matching]: [Option<&str>; 3],
        same: bool,
        said: &mut Said,
    ) {
        let Self { head: mine, sources, .. } = self;
        for (slot, value, what, lists) in [
            (&mut mine.redaction, redaction, MANIFEST, &["counts", "rules", "packs"][..]),
            (&mut mine.labels, labels, LABEL, &[][..]),
            (&mut mine.matching, matching, MATCHING, &["ignore", "ignore_value"][..]),
        ] {
            let Some(other) = value else { continue };
            let mut members = Members::of(other, 0);
            while let Some(Ok(Some((name, _)))) = members.as_mut().map(Members::next) {
                sources.of(format!("{what} {:?}", string::decode(name.of(other))), file);
            }
            let Some(one) = slot.as_deref() else {
                *slot = Some(other.to_owned());
                continue;
            };
            // Each part of a recording has the whole manifest.
            if what == MANIFEST && same && one == other {
                continue;
            }
            for (name, one, other) in conflicts(one, other, lists) {
                said.differ(sources, &format!("{what} {name:?}"), [&one, &other], file);
            }
            *slot = Some(match what {
                MANIFEST => manifest::merged(one, other),
                _ => manifest::united(one, other, lists),
            });
        }
    }

    fn unite_extra(&mut self, file: &str, theirs: Vec<(String, String)>, same: bool, said: &mut Said) {
        let Self { head: mine, sources, .. } = self;
        for (name, value) in theirs {
            let what = format!("the head field {name:?}");
            match mine.extra.iter().find(|(known, _)| *known == name) {
                // Each part has its own.
                Some(_) if name == part::FIELD && same => {}
                Some((_, known)) if canonical::of(known) == canonical::of(&value) => {}
                Some((_, known)) => said.differ(sources, &what, [known, &value], file),
                None => {
                    sources.of(what, file);
                    mine.extra.push((name, value));
                }
            }
        }
    }
}

impl Said {
    fn differ(&mut self, sources: &mut Sources, what: &str, [one, other]: [&str; 2], file: &str) {
        let first = sources.of(what.to_owned(), file);
        self.lost.push(format!("{what}: {one} in {first}, {other} in {file}; the first is kept"));
    }
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
    mine.recordings.extend(theirs.recordings);
    mine.recordings.sort_unstable();
    mine.recordings.dedup();
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
