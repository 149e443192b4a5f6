//! What every name under some glob contains, found in a text of any length at gigabytes a second: a few letters of each
//! are looked for first, the rarest there are.

use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

/// The letters that are looked for first, and one more where that costs nothing or pays: few of them have few enough
/// spellings to be looked for together by vector instructions.
const PRINT: usize = 3;
/// What is less rare gets one letter more.
const COMMON: usize = 20;

/// The stems of a rule set, in lower case.
#[derive(Clone, Debug)]
pub(super) struct Stems {
    list: Vec<Stem>,
    /// What they are known by.
    source: String,
    prints: OnceLock<Option<Regex>>,
}

/// Stretches of letters and digits, with any number of separators between them.
#[derive(Clone, Debug)]
struct Stem {
    stretches: Vec<Box<[u8]>>,
    /// The letters it has: most names lack one.
    letters: u32,
    /// The stretch, the place in it and the number of letters that are looked for.
    stretch: usize,
    offset: usize,
    length: usize,
}

impl Stems {
    /// From stems with a `_` for each separator.
    pub(super) fn of(stems: &[&str]) -> Self {
        let mut list: Vec<Stem> = stems.iter().map(|stem| Stem::of(stem)).collect();
        let prints = mark(&mut list);
        Self { list, source: prints.join("|"), prints: OnceLock::new() }
    }

    /// Whether one of them stands in a text.
    pub(super) fn are_in_text(&self, bytes: &[u8]) -> bool {
        // Compiled when it is first needed: a replay may be asked before that.
        let build = || RegexBuilder::new(&self.source).case_insensitive(true).unicode(false).build().ok();
        let Some(prints) = self.prints.get_or_init(build) else { return true };
        let mut from = 0;
        while let Some(found) = prints.find_at(bytes, from) {
            if self.stand_at(bytes, found.start()) {
                return true;
            }
            // Prints may overlap.
            from = found.start() + 1;
        }
        false
    }

    /// Whether one of them stands where its print was found.
    pub(super) fn stand_at(&self, bytes: &[u8], at: usize) -> bool {
        self.list.iter().any(|stem| stem.stands_at(bytes, at))
    }

    /// The letters that they are known by.
    pub(super) fn prints(&self) -> impl Iterator<Item = &str> {
        self.source.split('|')
    }

    /// Whether a name has a stem in it.
    pub(super) fn are_in(&self, name: &[u8]) -> bool {
        let lacks = !letters(name);
        let may_be = |stem: &&Stem| stem.letters & lacks == 0;
        self.list.iter().filter(may_be).any(|stem| (0..name.len()).any(|at| stem.stands_at(name, at)))
    }
}

impl Stem {
    fn of(stem: &str) -> Self {
        let stretches: Vec<Box<[u8]>> = stem
            .split('_')
            .filter(|stretch| !stretch.is_empty())
            .map(|stretch| stretch.to_ascii_lowercase().into_bytes().into_boxed_slice())
            .collect();
        Self { stretches, letters: letters(stem.as_bytes()), stretch: 0, offset: 0, length: 0 }
    }

    /// The prints it can be known by: the stretch, the place in it, the letters.
    fn prints(&self) -> impl Iterator<Item = (usize, usize, &[u8])> {
        let longest = self.stretches.iter().map(|stretch| stretch.len()).max().unwrap_or(0);
        self.stretches.iter().enumerate().flat_map(move |(at, stretch)| {
            let windows = stretch.windows(PRINT.min(longest).max(1)).enumerate();
            windows.map(move |(offset, print)| (at, offset, print))
        })
    }

    /// What it is known by.
    fn print(&self) -> &[u8] {
        self.part(self.offset, self.length).unwrap_or_default()
    }

    fn part(&self, offset: usize, length: usize) -> Option<&[u8]> {
        self.stretches.get(self.stretch)?.get(offset..offset + length)
    }

    /// The place of a longer print that begins one letter earlier, or ends one later.
    fn longer(&self, earlier: bool) -> Option<usize> {
        let offset = if earlier { self.offset.checked_sub(1)? } else { self.offset };
        self.part(offset, self.length + 1).map(|_| offset)
    }

    fn stands_at(&self, bytes: &[u8], at: usize) -> bool {
        let Some(start) = at.checked_sub(self.offset) else { return false };
        let (front, back) = self.stretches.split_at_checked(self.stretch).unwrap_or_default();
        let Some((first, rest)) = back.split_first() else { return false };
        if !begins_with(bytes.get(start..).unwrap_or_default(), first) {
            return false;
        }
        let mut end = start + first.len();
        for stretch in rest {
            end = behind_separators(bytes, end);
            if !begins_with(bytes.get(end..).unwrap_or_default(), stretch) {
                return false;
            }
            end += stretch.len();
        }
        let mut begin = start;
        front.iter().rev().all(|stretch| {
            let before = before_separators(bytes, begin);
            let there = before
                .checked_sub(stretch.len())
                .filter(|from| bytes.get(*from..).is_some_and(|bytes| begins_with(bytes, stretch)));
            begin = there.unwrap_or(0);
            there.is_some()
        })
    }
}

/// Chooses for each stem what it is known by, few prints for all of them.
fn mark(list: &mut [Stem]) -> Vec<String> {
    let mut open: Vec<&mut Stem> = list.iter_mut().collect();
    let mut all = Vec::new();
    while !open.is_empty() {
        let serves =
            |print: &[u8]| open.iter().filter(|stem| stem.prints().any(|(_, _, own)| own == print)).count();
        let prints = open.iter().flat_map(|stem| stem.prints().map(|(_, _, print)| print));
        let best = prints.max_by_key(|print| (serves(print), rarity(print))).map(<[u8]>::to_vec);
        let Some(best) = best else { break };
        let (mut group, mut rest) = (Vec::new(), Vec::new());
        for stem in open {
            let place = stem.prints().find(|(_, _, print)| *print == best);
            let place = place.map(|(stretch, offset, _)| (stretch, offset));
            if let Some((stretch, offset)) = place {
                (stem.stretch, stem.offset, stem.length) = (stretch, offset, best.len());
                group.push(stem);
            } else {
                rest.push(stem);
            }
        }
        open = rest;
        lengthen(&mut group, rarity(&best) < COMMON);
        all.extend(group.iter().map(|stem| String::from_utf8_lossy(stem.print()).into_owned()));
    }
    all.sort_unstable();
    all.dedup();
    all
}

/// Gives the stems of one print a longer one that they share, or one each.
fn lengthen(group: &mut [&mut Stem], apart: bool) {
    let longer = |stem: &Stem, earlier: bool| {
        let offset = stem.longer(earlier)?;
        stem.part(offset, stem.length + 1).map(<[u8]>::to_vec)
    };
    let shared = [true, false].into_iter().filter_map(|earlier| {
        let first = longer(group.first()?, earlier)?;
        let all = group.iter().all(|stem| longer(stem, earlier).as_ref() == Some(&first));
        all.then(|| (rarity(&first), earlier))
    });
    let shared = shared.max().map(|(_, earlier)| earlier);
    if shared.is_none() && !apart {
        return;
    }
    for stem in group {
        let own = |earlier: &bool| longer(stem, *earlier).map(|print| rarity(&print));
        let earlier = shared.or_else(|| [true, false].into_iter().max_by_key(own)).unwrap_or(false);
        if let Some(offset) = stem.longer(earlier) {
            (stem.offset, stem.length) = (offset, stem.length + 1);
        }
    }
}

/// How seldom letters stand in texts.
fn rarity(print: &[u8]) -> usize {
    const BY_FREQUENCY: &[u8] = b"etaoinsrhldcumfpgywbvkxjqz";
    print.iter().filter_map(|byte| BY_FREQUENCY.iter().position(|letter| letter == byte)).sum()
}

fn begins_with(bytes: &[u8], lower: &[u8]) -> bool {
    bytes.get(..lower.len()).is_some_and(|front| front.eq_ignore_ascii_case(lower))
}

/// What a separator can look like in a raw text: plain, or in a form body.
fn is_separator(bytes: &[u8]) -> bool {
    matches!(
        bytes,
        [b'-' | b'_' | b' ' | b'+'] | [b'%', b'2', b'0' | b'd' | b'D'] | [b'%', b'5', b'f' | b'F']
    )
}

fn behind_separators(bytes: &[u8], mut at: usize) -> usize {
    while let Some(len) = [1, 3].into_iter().find(|len| bytes.get(at..at + len).is_some_and(is_separator)) {
        at += len;
    }
    at
}

fn before_separators(bytes: &[u8], mut at: usize) -> usize {
    let in_front = |at: usize, len: usize| at.checked_sub(len).and_then(|from| bytes.get(from..at));
    while let Some(len) = [1, 3].into_iter().find(|len| in_front(at, *len).is_some_and(is_separator)) {
        at -= len;
    }
    at
}

/// A bit for each letter of the alphabet; digits and separators say nothing.
#[allow(clippy::indexing_slicing)] // Computed while compiling: out of bounds would not compile.
const LETTERS: [u32; 256] = {
    let mut bits = [0; 256];
    let mut letter = 0;
    while letter < 26 {
        bits[b'a' as usize + letter] = 1 << letter;
        bits[b'A' as usize + letter] = 1 << letter;
        letter += 1;
    }
    bits
};

fn letters(name: &[u8]) -> u32 {
    name.iter().fold(0, |bits, byte| bits | LETTERS.get(usize::from(*byte)).unwrap_or(&0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stems_are_found_in_every_spelling() {
        let stems = Stems::of(&["token", "api_key", "x_private_key"]);
        for (name, expected) in [
            ("token", true),
            ("myTOKENs", true),
            ("tok-en", false),
            ("apikey", true),
            ("API--_Key", true),
            ("api%20%2d%5Fkey", true),
            ("a+api+key+b", true),
            ("api.key", false),
            ("key", false),
            ("xprivate key", true),
            ("private_key", false),
            ("", false),
        ] {
            assert_eq!(stems.are_in(name.as_bytes()), expected, "{name}");
            let text = format!("a pikey \u{e9} {name}, more text than fits into a register of any size");
            assert_eq!(stems.are_in_text(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn short_stems_and_many_are_found_too() {
        let many: Vec<String> = (100..300).map(|number| format!("n{number}")).collect();
        let mut all: Vec<&str> = many.iter().map(String::as_str).collect();
        all.extend(["pw", "q"]);
        let stems = Stems::of(&all);
        for (text, expected) in
            [("a N123 b", true), ("the PW:", true), ("faq", true), ("N1 23 p_w", false), ("", false)]
        {
            assert_eq!(stems.are_in_text(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn stems_are_known_by_rare_letters() {
        let stems = [
            "token",
            "secret",
            "password",
            "passwd",
            "apikey",
            "api_key",
            "authorization",
            "credential",
            "private_key",
        ];
        assert_eq!(Stems::of(&stems).source, "assw|cred|cret|key|oken|oriz");
    }
}
