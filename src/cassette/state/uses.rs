//! Which recorded exchanges the replays of one owner have left unused, together: a client that starts several
//! processes uses a cassette with all of them.
//!
//! Processes that want to know are entered when they begin. One that ends while others still play leaves its part and
//! the decision to them; the last one decides over all. What was not all used then is kept for the processes that
//! follow, so that a client with one process after another gets there with its last. Once all was used, the next
//! process starts from nothing: a green of the past never covers what is played later.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::State;
use crate::cassette::owner::Owner;

/// What one owner's replays of one server have done so far.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Uses {
    pub(super) owner: String,
    server: String,
    /// What the numbers of `unused` are about: another recording under the same name has other messages.
    tape: String,
    /// The processes that play.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) playing: Vec<String>,
    /// What none of those that have ended used; nothing is known before the first has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unused: Option<Vec<u32>>,
}

/// Whose replays count together, and of what.
#[derive(Clone, Debug)]
pub struct Together<'a> {
    /// The cassette, resolved as by [`resolve`](crate::cassette::segments::resolve).
    pub cassette: &'a Path,
    /// The server.
    pub server: &'a str,
    /// The owner.
    pub owner: &'a Owner,
    /// What tells this recording from others under its name.
    pub tape: &'a str,
}

/// What is known at the end of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Left {
    /// This many other processes still play, and the last of them decides.
    ToOthers(usize),
    /// These are unused by all of them, in ascending order.
    Unused(Vec<u32>),
}

impl State {
    /// Enters a replay that begins. Returns a note when that is not possible; the process then counts alone.
    #[must_use]
    pub fn begin_use(&self, of: &Together<'_>, process: &Owner) -> Option<String> {
        let entered = self.change(of.cassette, |entry| {
            let own = entry
                .uses
                .iter()
                .position(|uses| uses.owner == of.owner.to_string() && uses.server == of.server);
            let own = own.map(|at| entry.uses.swap_remove(at)).filter(|uses| uses.tape == of.tape);
            let mut uses = own.unwrap_or_else(|| Uses {
                owner: of.owner.to_string(),
                server: of.server.to_owned(),
                tape: of.tape.to_owned(),
                playing: Vec::new(),
                unused: None,
            });
            uses.playing.push(process.to_string());
            entry.uses.push(uses);
        });
        entered.err().map(|error| self.note(&error))
    }

    /// Takes a replay that ends out again; `unused`, in ascending order, is what it did not use itself. Without an
    /// entry, it counts alone.
    #[must_use]
    pub fn end_use(&self, of: &Together<'_>, process: &Owner, unused: &[u32]) -> Left {
        let process = process.to_string();
        let left = self.change(of.cassette, |entry| {
            let at = entry.uses.iter().position(|uses| {
                uses.owner == of.owner.to_string()
                    && uses.server == of.server
                    && uses.tape == of.tape
                    && uses.playing.contains(&process)
            })?;
            let uses = entry.uses.get_mut(at)?;
            uses.playing.retain(|other| *other != process);
            let all = match uses.unused.take() {
                Some(before) => before.into_iter().filter(|it| unused.binary_search(it).is_ok()).collect(),
                None => unused.to_vec(),
            };
            let others = uses.playing.len();
            uses.unused = Some(all.clone());
            if others > 0 {
                return Some(Left::ToOthers(others));
            }
            if all.is_empty() {
                entry.uses.swap_remove(at);
            }
            Some(Left::Unused(all))
        });
        left.ok().flatten().unwrap_or_else(|| Left::Unused(unused.to_vec()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cassette::segments::support::Folder;

    /// Another process that is alive as long as the test: process numbers are told apart by their text alone.
    fn process(name: &str) -> Owner {
        Owner::session(name)
    }

    fn of<'a>(cassette: &'a Path, owner: &'a Owner, tape: &'a str) -> Together<'a> {
        Together { cassette, server: "s", owner, tape }
    }

    #[test]
    fn the_last_of_several_decides_over_all() {
        let folder = Folder::new("uses-last");
        let (state, cassette, owner) = (folder.state(), folder.path("c.json"), Owner::session("ci"));
        let of = of(&cassette, &owner, "1");
        for name in ["a", "b", "c"] {
            assert_eq!(state.begin_use(&of, &process(name)), None);
        }
        assert_eq!(state.end_use(&of, &process("b"), &[1, 2, 3]), Left::ToOthers(2));
        assert_eq!(state.end_use(&of, &process("a"), &[2, 3, 4]), Left::ToOthers(1));
        assert_eq!(state.end_use(&of, &process("c"), &[3, 4]), Left::Unused(vec![3]));
        // Who comes later completes it.
        assert_eq!(state.begin_use(&of, &process("d")), None);
        assert_eq!(state.end_use(&of, &process("d"), &[1, 2]), Left::Unused(vec![]));
        // All used: the next one begins anew.
        assert_eq!(state.begin_use(&of, &process("e")), None);
        assert_eq!(state.end_use(&of, &process("e"), &[1, 2, 3]), Left::Unused(vec![1, 2, 3]));
    }

    #[test]
    fn other_owners_servers_and_recordings_count_for_themselves() {
        let folder = Folder::new("uses-apart");
        let (state, cassette) = (folder.state(), folder.path("c.json"));
        let (ci, dev) = (Owner::session("ci"), Owner::session("dev"));
        let mail = Together { server: "mail", ..of(&cassette, &ci, "1") };
        let rows = [of(&cassette, &ci, "1"), of(&cassette, &dev, "1"), mail];
        for of in &rows {
            assert_eq!(state.begin_use(of, &process("p")), None);
        }
        for (of, unused) in rows.iter().zip(1..) {
            assert_eq!(state.end_use(of, &process("p"), &[unused]), Left::Unused(vec![unused]));
        }
        let again = of(&cassette, &ci, "2");
        assert_eq!(state.begin_use(&again, &process("p")), None);
        assert_eq!(state.end_use(&again, &process("p"), &[7]), Left::Unused(vec![7]), "another recording");
    }

    #[test]
    fn a_process_that_died_is_waited_for_by_nobody() {
        let folder = Folder::new("uses-dead");
        let (state, cassette, owner) = (folder.state(), folder.path("c.json"), Owner::session("ci"));
        let of = of(&cassette, &owner, "1");
        let dead = Owner::Process { pid: std::process::id(), start_time: 1 };
        assert_eq!(state.begin_use(&of, &dead), None);
        assert_eq!(state.begin_use(&of, &process("p")), None);
        assert_eq!(state.end_use(&of, &process("p"), &[1]), Left::Unused(vec![1]));
        assert_eq!(state.end_use(&of, &dead, &[5]), Left::Unused(vec![5]), "who is not entered counts alone");
    }

    #[test]
    fn ending_a_session_forgets_what_it_used() {
        let folder = Folder::new("uses-end");
        let (state, cassette, owner) = (folder.state(), folder.path("c.json"), Owner::session("ci"));
        let of = of(&cassette, &owner, "1");
        assert_eq!(state.begin_use(&of, &process("a")), None);
        assert_eq!(state.end_use(&of, &process("a"), &[1]), Left::Unused(vec![1]));
        assert!(state.end_session(&cassette, "ci"));
        assert_eq!(state.begin_use(&of, &process("b")), None);
        assert_eq!(state.end_use(&of, &process("b"), &[1, 2]), Left::Unused(vec![1, 2]));
    }
}
