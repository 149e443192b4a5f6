//! Which requests a fault is for.

use regex::Regex;

use crate::jsonrpc::canonical;
use crate::jsonrpc::scan::{Span, elements};
use crate::jsonrpc::{message::member, string};

/// A request as far as targets look at it.
#[derive(Clone, Copy, Debug)]
pub struct Subject<'a> {
    /// The server that is asked.
    pub server: &'a str,
    /// The method.
    pub method: &'a str,
    /// The tool, prompt, resource or task it is about.
    pub name: Option<&'a str>,
    /// `params.arguments`, JSON.
    pub arguments: Option<&'a str>,
}

/// What a client asks before it asks for anything; spared where no method is named.
const GREETINGS: [&str; 2] = ["initialize", "server/discover"];

/// A text with `*` for any number of characters and `?` for one.
#[derive(Clone, Debug)]
pub struct Glob {
    /// As it was given.
    pub given: String,
    pattern: Option<Regex>,
}

impl Glob {
    /// Takes `given` as it is but for its wildcards.
    #[must_use]
    pub fn new(given: &str) -> Self {
        let pattern = given.contains(['*', '?']).then(|| {
            let escaped = regex::escape(given).replace(r"\*", ".*").replace(r"\?", ".");
            Regex::new(&format!("(?s)^{escaped}$")).ok()
        });
        Self { given: given.to_owned(), pattern: pattern.flatten() }
    }

    /// Whether `text` is such a text.
    #[must_use]
    pub fn fits(&self, text: &str) -> bool {
        self.pattern.as_ref().map_or(self.given == text, |pattern| pattern.is_match(text))
    }
}

/// Which of the requests that fit, counted from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nth {
    /// All of them.
    Every,
    /// These.
    Listed(Vec<u64>),
    /// From one to another, both included.
    Range(u64, u64),
}

impl Nth {
    fn holds(&self, n: u64) -> bool {
        match self {
            Self::Every => true,
            Self::Listed(list) => list.contains(&n),
            Self::Range(first, last) => (*first..=*last).contains(&n),
        }
    }
}

/// Which requests a fault is for.
#[derive(Clone, Debug)]
pub struct Target {
    /// The method; `None` is any but the greetings.
    pub method: Option<Glob>,
    /// The server.
    pub server: Option<Glob>,
    /// The tool, prompt, resource or task.
    pub name: Option<Glob>,
    /// Values in `arguments`: segments of a pointer, and the value in canonical form.
    pub arguments: Vec<(Vec<String>, Vec<u8>)>,
    /// Which of the requests that fit all that.
    pub nth: Nth,
    /// How likely each of those is hit, and what the chances are drawn from.
    pub chance: Option<(f64, u64)>,
}

impl Target {
    /// Whether a request is one of those that are counted.
    #[must_use]
    pub fn fits(&self, subject: &Subject<'_>) -> bool {
        let method = match &self.method {
            Some(method) => method.fits(subject.method),
            None => !GREETINGS.contains(&subject.method),
        };
        method
            && self.server.as_ref().is_none_or(|server| server.fits(subject.server))
            && self.name.as_ref().is_none_or(|name| subject.name.is_some_and(|text| name.fits(text)))
            && self.arguments.iter().all(|(path, value)| {
                subject.arguments.and_then(|text| at(text, path)).is_some_and(|found| found == *value)
            })
    }

    /// Whether the `n`-th request that fits, counted from 1, is hit. Depends on nothing else.
    #[must_use]
    pub fn hits(&self, n: u64) -> bool {
        self.nth.holds(n) && self.chance.is_none_or(|(probability, seed)| draw(seed, n) < probability)
    }
}

/// The value at a path of member names and indexes, in canonical form.
fn at(text: &str, path: &[String]) -> Option<Vec<u8>> {
    let mut span = Span::new(0, text.len());
    for segment in path {
        span = match member(text, span, segment) {
            Some(found) => found,
            None => *elements(text, span).ok()?.get(segment.parse::<usize>().ok()?)?,
        };
    }
    canonical::of(span.of(text))
}

/// A number from 0 up to 1 that is the same for the same seed and place (`SplitMix64`).
#[allow(clippy::cast_precision_loss, reason = "53 bits fit")]
fn draw(seed: u64, n: u64) -> f64 {
    let mut z = seed.wrapping_add(n.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    ((z ^ (z >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
}

/// A string value of a JSON text, decoded.
pub(super) fn word(literal: &str) -> String {
    string::decode(literal).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::jsonrpc::pointer::segments;

    #[test]
    fn chances_come_from_the_seed_alone_and_keep_their_share() {
        let schedule = |seed| (1..=1_000).filter(|&n| draw(seed, n) < 0.3).collect::<Vec<u64>>();
        assert_eq!(schedule(7), schedule(7));
        assert_ne!(schedule(7), schedule(8));
        for seed in 0..20 {
            assert!((230..370).contains(&schedule(seed).len()), "{seed}: {}", schedule(seed).len());
        }
        assert!((1..1_000).all(|n| (0.0..1.0).contains(&draw(0, n))));
    }

    #[test]
    fn globs_and_pointers() {
        for (glob, text, fits) in [
            ("search", "search", true),
            ("search", "search2", false),
            ("search*", "search2", true),
            ("file:///*.md", "file:///a/b.md", true),
            ("file:///*.md", "file:///axmd", false),
            ("a?c", "a.c", true),
            ("a.c", "abc", false),
        ] {
            assert_eq!(Glob::new(glob).fits(text), fits, "{glob} {text}");
        }
        let text = r#"{"a/b":[1,{"c":1.50}]}"#;
        let found = |pointer| at(text, &segments(pointer).unwrap());
        assert_eq!(found("/a~1b/1/c"), canonical::of("1.5"));
        assert_eq!(found("/a~1b/2"), None);
        assert_eq!(found("").as_deref(), canonical::of(text).as_deref());
    }
}
