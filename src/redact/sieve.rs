//! One search over a text for all that is told by letters: the stems of names, and what tokens begin with. A few letters
//! of each are looked for, whatever their case.

use std::cell::Cell;
use std::sync::OnceLock;

use regex::bytes::{Regex, RegexBuilder};

use super::stems::Stems;

/// What tokens begin with, or have in them, and where the letters stand that it is looked for by: together they are
/// confused with little else.
const PRINTED: [(&str, usize); 44] = [
    ("PRIVATE KEY", 8),
    ("eyJ", 0),
    ("Bearer", 1),
    ("bearer", 1),
    ("BEARER", 1),
    ("Basic", 1),
    ("basic", 1),
    ("BASIC", 1),
    ("AKIA", 0),
    ("ASIA", 0),
    ("ABIA", 0),
    ("ACCA", 0),
    ("ghp_", 0),
    ("gho_", 0),
    ("ghu_", 0),
    ("ghs_", 0),
    ("ghr_", 0),
    ("github_pat_", 5),
    ("glpat-", 1),
    ("glptt-", 1),
    ("gldt-", 0),
    ("glrt-", 1),
    ("glcbt-", 2),
    ("glsoat-", 0),
    ("glft-", 0),
    ("glimt-", 1),
    ("glagent-", 0),
    ("gloas-", 0),
    ("glffct-", 0),
    ("xox", 0),
    ("xapp-", 0),
    ("hooks.slack", 5),
    ("rk_live", 0),
    ("sk_live", 0),
    ("rk_test", 0),
    ("sk_test", 0),
    ("whsec_", 0),
    ("AIza", 0),
    ("GOCSPX-", 0),
    ("ya29.", 0),
    ("sk-", 0),
    ("npm_", 0),
    ("pypi-", 1),
    ("hf_", 0),
];
/// None is longer.
const LONGEST: usize = 16;

/// How many letters are looked for: few have an expression searched for by vector instructions, and more would be cut.
const PRINT: usize = 4;
/// So many can be looked for that way.
const MOST: usize = 64;
/// How much is folded at once: what the processor has at hand.
const CHUNK: usize = 4096;

/// What is looked for.
#[derive(Clone, Debug)]
pub(super) struct Sieve {
    source: String,
    /// Compiled when it is first needed: a replay may be asked before that.
    compiled: OnceLock<Option<Regex>>,
}

/// What was found first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Catch {
    /// A token begins.
    Token,
    /// A stem stands here; no token begins in front of it, but for one that is not yet over.
    Stem(usize),
}

thread_local! {
    static FOLDED: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Sieve {
    /// For these stems and all tokens; `None` when that is too much for one search.
    pub(super) fn of(stems: &Stems) -> Option<Self> {
        let mut prints: Vec<String> = stems.prints().map(str::to_owned).collect();
        prints.extend(PRINTED.iter().map(|(token, at)| {
            token.bytes().skip(*at).take(PRINT).map(|byte| char::from(fold(byte))).collect()
        }));
        prints.sort_unstable();
        prints.dedup();
        let source: Vec<String> = dealt(&prints).map(|print| regex::escape(print)).collect();
        (prints.len() <= MOST).then(|| Self { source: source.join("|"), compiled: OnceLock::new() })
    }

    /// The first that is found in a text; of `stems`, which it was made for.
    pub(super) fn first(&self, bytes: &[u8], stems: &Stems) -> Option<Catch> {
        let build = || RegexBuilder::new(&self.source).unicode(false).build().ok();
        let Some(prints) = self.compiled.get_or_init(build) else { return Some(Catch::Stem(0)) };
        let mut folded = FOLDED.take();
        let mut at = 0;
        let mut caught = None;
        while let Some(part) = bytes.get(at..).filter(|rest| !rest.is_empty() && caught.is_none()) {
            folded.clear();
            folded.extend(part.iter().take(CHUNK + PRINT).map(|byte| fold(*byte)));
            let mut from = 0;
            while let Some(found) = prints.find_at(&folded, from) {
                let place = at + found.start();
                caught = match () {
                    () if stems.stand_at(bytes, place) => Some(Catch::Stem(place)),
                    () if token_at(bytes, place) => Some(Catch::Token),
                    () => None,
                };
                if caught.is_some() {
                    break;
                }
                // Prints may overlap.
                from = found.start() + 1;
            }
            at += CHUNK;
        }
        FOLDED.set(folded);
        caught
    }
}

/// What tokens begin with, or have in them.
pub(super) fn tokens() -> impl Iterator<Item = &'static str> {
    PRINTED.iter().map(|(token, _)| *token)
}

/// From where on tokens have to be looked for when a stem stands at `at`.
pub(super) fn behind(bytes: &[u8], at: usize) -> &[u8] {
    bytes.get(at.saturating_sub(LONGEST)..).unwrap_or_default()
}

/// Capitals become small letters; some signs become others.
const fn fold(byte: u8) -> u8 {
    byte | 0x20
}

/// The prints in the order in which those that are alike get into one bucket, when they are dealt out to the buckets of the
/// search one by one: what is in one bucket is not told apart at first.
fn dealt(prints: &[String]) -> impl Iterator<Item = &String> {
    const BUCKETS: usize = 16;
    let (each, more) = (prints.len() / BUCKETS, prints.len() % BUCKETS);
    let (long, short) = prints.split_at_checked(more * (each + 1)).unwrap_or_default();
    let buckets: Vec<&[String]> = long.chunks(each + 1).chain(short.chunks(each.max(1))).collect();
    (0..=each).flat_map(move |turn| buckets.iter().filter_map(|bucket| bucket.get(turn)).collect::<Vec<_>>())
}

/// For each byte, which of the tokens are looked for by letters that begin with it, folded: a bit for each.
#[allow(clippy::indexing_slicing)] // Computed while compiling: out of bounds would not compile.
const BY_LETTER: [u64; 256] = {
    let mut known = [0; 256];
    let mut index = 0;
    while index < PRINTED.len() {
        let (token, at) = PRINTED[index];
        known[fold(token.as_bytes()[at]) as usize] |= 1 << index;
        index += 1;
    }
    known
};

/// Whether a token stands where its print was found.
fn token_at(bytes: &[u8], at: usize) -> bool {
    let letter = bytes.get(at).map_or(0, |byte| usize::from(fold(*byte)));
    let mut left = BY_LETTER.get(letter).copied().unwrap_or_default();
    while let Some((token, offset)) = PRINTED.get(left.trailing_zeros() as usize) {
        let start = at.checked_sub(*offset);
        if start.and_then(|start| bytes.get(start..)).is_some_and(|rest| rest.starts_with(token.as_bytes())) {
            return true;
        }
        left &= left - 1;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_and_stems_are_found_wherever_they_stand() {
        let stems = Stems::of(&["token", "api_key"]);
        let sieve = Sieve::of(&stems).unwrap();
        for at in (0..80).chain(CHUNK - 20..CHUNK + 20) {
            let text = |word: &str| format!("{}{word} and more", ".".repeat(at)).into_bytes();
            for token in tokens() {
                assert!(token.len() < LONGEST, "{token}");
                let text = text(token);
                let caught = sieve.first(&text, &stems);
                assert_eq!(caught, Some(Catch::Token), "{at} {token}");
            }
            for stem in ["myTOKEN", "api-Key", "APIKEY", "api%20key"] {
                assert!(matches!(sieve.first(&text(stem), &stems), Some(Catch::Stem(_))), "{at} {stem}");
            }
            for word in ["a key", "AKEY", "bEARER", "Asian", "task_", "tok-en"] {
                assert_eq!(sieve.first(&text(word), &stems), None, "{at} {word}");
            }
        }
    }

    #[test]
    fn too_much_is_no_sieve() {
        let many: Vec<String> = (100..200).map(|number| format!("n{number}")).collect();
        let stems: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(Sieve::of(&Stems::of(&stems)).is_none());
    }
}
