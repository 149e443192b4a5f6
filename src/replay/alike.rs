//! Equal requests, sorted by what redaction covers in them, so that the one which is most like a live request is found
//! without looking at all that are open.

use std::collections::{BTreeSet, HashMap};

use super::index::is_open;
use super::session::Process;
use crate::redact::{Cover, distance};

/// The placeholders of a request, with their pointers.
pub(super) type Secrets = Vec<(String, String)>;
/// What a request has in the places that redaction covers.
pub(super) type Covers = Vec<(String, Cover)>;

/// The exchanges of a queue.
#[derive(Debug, Default)]
pub(super) struct Alike {
    /// Mostly one.
    shapes: Vec<Shape>,
}

/// Those with the same kinds of values in the covered places.
#[derive(Debug)]
struct Shape {
    covers: Covers,
    groups: Vec<Group>,
    /// Recorded session, first exchange that may be open, and group.
    order: BTreeSet<Entry>,
}

type Entry = (u32, u32, usize);

/// Those of one recorded session and process with the same placeholders: they agree with what was seen so far, or none
/// does.
#[derive(Debug)]
struct Group {
    process: Process,
    secrets: Secrets,
    exchanges: Vec<u32>,
    /// Those before this one are taken.
    at: usize,
}

/// What one of them is compared by.
pub(super) struct Candidate {
    pub(super) conn: u32,
    pub(super) process: Process,
    pub(super) exchange: u32,
    pub(super) secrets: Secrets,
    pub(super) covers: Covers,
}

/// Whether the placeholders of an exchange, recorded by this process, agree with the live values.
pub(super) type Agree<'a> = &'a dyn Fn(Process, &[(String, String)]) -> bool;

impl Alike {
    /// Sorts exchanges that come in recorded order.
    pub(super) fn of(candidates: impl Iterator<Item = Candidate>) -> Self {
        let mut alike = Self::default();
        let mut shapes: HashMap<Covers, usize> = HashMap::new();
        let mut groups: HashMap<(usize, u32, Process, Secrets), usize> = HashMap::new();
        for Candidate { conn, process, exchange, secrets, covers } in candidates {
            let number = *shapes.entry(covers.clone()).or_insert_with(|| {
                alike.shapes.push(Shape { covers, groups: Vec::new(), order: BTreeSet::new() });
                alike.shapes.len() - 1
            });
            let Some(shape) = alike.shapes.get_mut(number) else { continue };
            let group = *groups.entry((number, conn, process, secrets.clone())).or_insert_with(|| {
                shape.groups.push(Group { process, secrets, exchanges: Vec::new(), at: 0 });
                shape.order.insert((conn, exchange, shape.groups.len() - 1));
                shape.groups.len() - 1
            });
            shape.groups.get_mut(group).into_iter().for_each(|group| group.exchanges.push(exchange));
        }
        alike
    }

    /// The open exchange that a live request with these covers gets, those of the session `own` first, and whether it
    /// agrees; one that does not is the first of all.
    pub(super) fn next(
        &mut self,
        covers: &[(String, Cover)],
        own: Option<u32>,
        taken: &[bool],
        agree: Agree<'_>,
    ) -> Option<(u32, bool)> {
        let distances: Vec<Option<usize>> = self
            .shapes
            .iter_mut()
            .map(|shape| shape.next((0, 0, 0), taken).map(|_| distance(&shape.covers, covers)))
            .collect();
        let least = distances.iter().flatten().min().copied()?;
        let near = self.shapes.iter_mut().zip(distances).filter(|(_, distance)| *distance == Some(least));
        let mut near: Vec<&mut Shape> = near.map(|(shape, _)| shape).collect();
        let mut first = None;
        for mine in [true, false] {
            let start = (own.filter(|_| mine).unwrap_or(0), 0, 0);
            let mut from = vec![start; near.len()];
            if mine && own.is_none() {
                continue;
            }
            loop {
                let next = near.iter_mut().zip(&from).map(|(shape, from)| shape.next(*from, taken));
                let next = next.enumerate().filter_map(|(place, entry)| Some((entry?, place))).min();
                let Some(((conn, exchange, group), place)) =
                    next.filter(|((conn, ..), _)| !mine || Some(*conn) == own)
                else {
                    break;
                };
                let Some(from) = from.get_mut(place) else { break };
                *from = (conn, exchange, group.saturating_add(1));
                if !mine && Some(conn) == own {
                    *from = (conn.saturating_add(1), 0, 0);
                    continue;
                }
                first.get_or_insert(exchange);
                let group = near.get(place).and_then(|shape| shape.groups.get(group));
                if group.is_some_and(|group| agree(group.process, &group.secrets)) {
                    return Some((exchange, true));
                }
            }
        }
        first.map(|first| (first, false))
    }
}

impl Shape {
    /// The next group that has an open exchange, in order of those.
    fn next(&mut self, from: Entry, taken: &[bool]) -> Option<Entry> {
        loop {
            let entry = *self.order.range(from..).next()?;
            let (conn, first, number) = entry;
            if is_open(first, taken) {
                return Some(entry);
            }
            self.order.remove(&entry);
            let group = self.groups.get_mut(number)?;
            let left = group.exchanges.iter().skip(group.at);
            group.at += left.take_while(|exchange| !is_open(**exchange, taken)).count();
            if let Some(next) = group.exchanges.get(group.at) {
                self.order.insert((conn, *next, number));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secrets(placeholder: &str) -> Secrets {
        vec![("/x".to_owned(), placeholder.to_owned())]
    }

    /// `session exchange placeholder cover`, in recorded order.
    fn alike(lines: &[(u32, u32, &str, Cover)]) -> Alike {
        Alike::of(lines.iter().map(|(conn, exchange, placeholder, cover)| Candidate {
            conn: *conn,
            process: (*conn, 0),
            exchange: *exchange,
            secrets: secrets(placeholder),
            covers: vec![("/x".to_owned(), *cover)],
        }))
    }

    #[test]
    fn the_nearest_come_first_then_those_of_the_own_session_then_those_that_agree() {
        let all = [
            (0, 0, "a", Cover::Text),
            (0, 1, "b", Cover::Null),
            (1, 2, "a", Cover::Text),
            (1, 3, "b", Cover::Text),
            (0, 4, "b", Cover::Text),
        ];
        let text = [("/x".to_owned(), Cover::Text)];
        let is =
            |wanted: &'static str| move |_: Process, secrets: &[(String, String)]| secrets[0].1 == wanted;
        for (own, taken, agrees, expected) in [
            (None, [false; 5], "a", Some((0, true))),
            (None, [false; 5], "b", Some((4, true))),
            (Some(1), [false; 5], "a", Some((2, true))),
            (Some(1), [false; 5], "b", Some((3, true))),
            (Some(1), [false, false, true, true, false], "b", Some((4, true))),
            (Some(1), [false; 5], "c", Some((2, false))),
            (Some(7), [false; 5], "b", Some((4, true))),
            (None, [true, false, true, true, true], "b", Some((1, true))),
            (None, [true; 5], "b", None),
        ] {
            let found = alike(&all).next(&text, own, &taken, &is(agrees));
            assert_eq!(found, expected, "{own:?} {taken:?} {agrees}");
        }
    }

    #[test]
    fn what_does_not_agree_is_not_looked_at_again_and_again() {
        // Two values in turn; the client asks for one of them only.
        let lines: Vec<_> =
            (0..2_000).map(|n| (0, n, if n % 2 == 0 { "a" } else { "b" }, Cover::Text)).collect();
        let (mut alike, mut taken) = (alike(&lines), vec![false; lines.len()]);
        let asked = std::cell::Cell::new(0);
        let agree = |_: Process, secrets: &[(String, String)]| {
            asked.set(asked.get() + 1);
            secrets[0].1 == "b"
        };
        let covers = [("/x".to_owned(), Cover::Text)];
        for n in 0..1_000 {
            let found = alike.next(&covers, Some(0), &taken, &agree);
            assert_eq!(found, Some((2 * n + 1, true)));
            taken[2 * n as usize + 1] = true;
        }
        assert_eq!(asked.get(), 2_000);
    }
}
