//! What a fast look at the bytes says about which detectors of the bundled pack can find anything in a text. It may
//! say yes in vain, never no: most texts hold nothing, and they must cost next to nothing. It works on decoded text
//! as well as on raw JSON, so it asks nothing of what stands in front of a find: there may be an escape.

use std::sync::LazyLock;

use regex::bytes::{Regex, RegexBuilder};

use super::glance::Glance;
use super::sieve::tokens;
use super::validate::card;

const EMAIL: u16 = 1;
const PHONE: u16 = 1 << 1;
const IPV4: u16 = 1 << 2;
const IPV6: u16 = 1 << 3;
const SSN: u16 = 1 << 4;
const IBAN: u16 = 1 << 5;
const CARD: u16 = 1 << 6;
/// One of [`tokens`].
const LITERAL: u16 = 1 << 7;

/// No token is shorter than `Basic abcdefgh`.
const SHORTEST_TOKEN: usize = 14;

/// The detectors that a text may concern.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Triggers(u16);

/// What has to be in a text so that a rule can match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hints {
    bits: u16,
    needles: &'static [&'static str],
}

/// The bundled pack's rules: what they need.
const HINTS: [(&str, Hints); 23] = [
    ("pem-private-key", hint(LITERAL, &["PRIVATE KEY"])),
    ("url-userinfo", hint(EMAIL, &["://"])),
    ("jwt", hint(LITERAL, &["eyJ"])),
    ("http-auth", hint(LITERAL, &["earer", "BEARER", "asic", "BASIC"])),
    ("aws-access-key-id", hint(LITERAL, &["AKIA", "ASIA", "ABIA", "ACCA"])),
    ("github-token", hint(LITERAL, &["gh", "github_pat_"])),
    ("gitlab-token", hint(LITERAL, &["gl"])),
    ("slack-token", hint(LITERAL, &["xox", "xapp-"])),
    ("slack-webhook", hint(LITERAL, &["hooks.slack"])),
    ("stripe-key", hint(LITERAL, &["k_live", "k_test", "whsec_"])),
    ("google-key", hint(LITERAL, &["AIza", "GOCSPX-", "ya29."])),
    ("anthropic-key", hint(LITERAL, &["sk-ant-"])),
    ("openai-key", hint(LITERAL, &["sk-"])),
    ("npm-token", hint(LITERAL, &["npm_"])),
    ("pypi-token", hint(LITERAL, &["pypi-"])),
    ("huggingface-token", hint(LITERAL, &["hf_"])),
    ("email", hint(EMAIL, &[])),
    ("phone-e164", hint(PHONE, &[])),
    ("ipv4", hint(IPV4, &[])),
    ("ipv6", hint(IPV6, &[])),
    ("us-ssn", hint(SSN, &[])),
    ("iban", hint(IBAN, &[])),
    ("payment-card", hint(CARD, &[])),
];

const fn hint(bits: u16, needles: &'static [&'static str]) -> Hints {
    Hints { bits, needles }
}

impl Hints {
    /// Of the rule with this id.
    pub(super) fn of(id: &str) -> Self {
        let name = id.strip_prefix("common/");
        let known = HINTS.iter().find(|(known, _)| Some(*known) == name);
        known.map_or(hint(0, &[]), |(_, hints)| *hints)
    }

    /// Nothing is known about the rule, so it has to be tried on every text.
    pub(super) fn is_unknown(self) -> bool {
        self.bits == 0
    }

    /// The rule is about people and machines, not about credentials.
    pub(super) fn is_personal(self) -> bool {
        self.needles.is_empty() && !self.is_unknown()
    }

    pub(super) fn may_match(self, text: &str, triggers: Triggers) -> bool {
        self.is_unknown()
            || (triggers.0 & self.bits != 0
                && (self.needles.is_empty()
                    || self
                        .needles
                        .iter()
                        .any(|needle| memchr::memmem::find(text.as_bytes(), needle.as_bytes()).is_some())))
    }
}

/// An IPv6 address without two colons side by side has no fewer; then one of IPv4 ends it.
pub(super) const COLONS: u32 = 6;
/// No IPv6 address is longer.
const LONGEST_ADDRESS: usize = 64;

impl Triggers {
    /// All of them.
    pub(super) const ALL: Self = Self(u16::MAX);

    /// Whether nothing of the bundled pack can match.
    pub(super) fn is_none(self) -> bool {
        self.0 == 0
    }

    /// Looks at a text.
    pub(super) fn of(bytes: &[u8]) -> Self {
        let literal = if has_token(bytes) { LITERAL } else { 0 };
        let Self(bits) = Self::of_numbers(bytes);
        Self(bits | literal)
    }

    /// Looks at a text for what goes by digits and signs only.
    pub(super) fn of_numbers(bytes: &[u8]) -> Self {
        let Glance(bits) = Glance::of(bytes);
        Self(bits)
    }
}

/// Whether a token may stand in a text.
pub(super) fn has_token(bytes: &[u8]) -> bool {
    static COMPILED: LazyLock<Option<Regex>> = LazyLock::new(|| {
        let tokens: Vec<String> = tokens().map(regex::escape).collect();
        RegexBuilder::new(&tokens.join("|")).unicode(false).build().ok()
    });
    thread_local! {
        // Shared among threads, all but the first to use it would wait for each other.
        static OWN: Option<Regex> = COMPILED.clone();
    }
    bytes.len() >= SHORTEST_TOKEN
        && OWN.with(|regex| regex.as_ref().is_none_or(|regex| regex.is_match(bytes)))
}

/// Looks for addresses of IPv6 whose colons stand from `from` up to `until`, but not at colons in front of `done`, which
/// were looked at before. Gives the end of what was looked at now.
pub(super) fn addresses(bytes: &[u8], from: usize, until: usize, done: usize, bits: &mut u16) -> usize {
    // They are told by all of their groups.
    let start = from.saturating_sub(LONGEST_ADDRESS).max(done);
    let until = until.min(bytes.len());
    let part = bytes.get(start..until).unwrap_or_default();
    memchr::memchr_iter(b':', part).for_each(|offset| colon(bytes, start + offset, bits));
    until
}

/// Looks byte by byte for whatever else is told by digits and signs, and begins from `from` up to `until`; `done` as
/// above.
pub(super) fn numbers(bytes: &[u8], from: usize, until: usize, done: usize, bits: &mut u16) -> usize {
    // The letters in front of an IBAN's digits.
    const LETTERS: usize = 2;
    let mut at = from.max(done);
    // What is longer than a card's number was seen where it begins.
    while at > done && digit(bytes, at) && digit(bytes, at - 1) {
        at -= 1;
    }
    while let Some(byte) = bytes.get(at).filter(|_| at < until + LETTERS) {
        match byte {
            b'0'..=b'9' => at = digits(bytes, at, bits),
            b'@' => {
                if bytes.get(at + 1).is_some_and(|next| next.is_ascii_alphanumeric() || *next == b'[') {
                    *bits |= EMAIL;
                }
                at += 1;
            }
            b'+' => {
                let number = bytes.get(at + 1..at + 9);
                if number.is_some_and(|number| number.iter().all(u8::is_ascii_digit)) {
                    *bits |= PHONE;
                }
                at += 1;
            }
            _ => at += 1,
        }
    }
    at
}

fn digit(bytes: &[u8], at: usize) -> bool {
    bytes.get(at).is_some_and(u8::is_ascii_digit)
}

fn run(bytes: &[u8], at: usize) -> usize {
    bytes.get(at..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// What the digits that begin at `at` may be, and where to go on.
fn digits(bytes: &[u8], at: usize, bits: &mut u16) -> usize {
    let len = run(bytes, at);
    let end = at + len;
    if len >= 2
        && let Some([first, second]) = at.checked_sub(2).and_then(|from| bytes.get(from..at))
        && first.is_ascii_uppercase()
        && second.is_ascii_uppercase()
        && bytes.get(end).is_none_or(|next| len > 2 || next.is_ascii_uppercase() || *next == b' ')
    {
        *bits |= IBAN;
    }
    match bytes.get(end) {
        Some(b'.') if digit(bytes, end + 1) => {
            let second = run(bytes, end + 1);
            let dot = end + 1 + second;
            let third = run(bytes, dot + 1);
            if second <= 3
                && bytes.get(dot) == Some(&b'.')
                && (1..=3).contains(&third)
                && bytes.get(dot + 1 + third) == Some(&b'.')
                && digit(bytes, dot + third + 2)
            {
                *bits |= IPV4;
            }
            // Each of the groups may begin an address.
            end
        }
        Some(b'-' | b' ') if digit(bytes, end + 1) => {
            let second = run(bytes, end + 1);
            if len >= 3 && second == 2 && bytes.get(end + 3) == Some(&b'-') && run(bytes, end + 4) >= 4 {
                *bits |= SSN;
            }
            if len >= 2 {
                separated(bytes, at, bits);
            }
            end
        }
        _ => {
            // Longer runs are no cards, unless an escape stands in front.
            if len >= 13 && (is_escaped(bytes, at) || (len <= 19 && bytes.get(at..end).is_some_and(is_card)))
            {
                *bits |= CARD;
            }
            end
        }
    }
}

/// Whether the digits at `at` stand right behind an escape: then the first may be the escape's own, and they are as
/// good as anything.
fn is_escaped(bytes: &[u8], at: usize) -> bool {
    let behind = |mark: &[u8], back: usize| {
        let front = at.checked_sub(back).and_then(|from| bytes.get(from..at)).unwrap_or_default();
        front.strip_prefix(mark).is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    (2..=5).any(|back| behind(b"\\u", back)) || (1..=2).any(|back| behind(b"%", back))
}

/// A card's number in groups.
fn separated(bytes: &[u8], at: usize, bits: &mut u16) {
    let mut end = at;
    let mut count = 0;
    while count <= 30 {
        let len = run(bytes, end);
        count += len;
        end += len;
        if matches!(bytes.get(end), Some(b' ' | b'-')) && digit(bytes, end + 1) {
            end += 1;
        } else {
            break;
        }
    }
    if count >= 13 && (count > 19 || is_escaped(bytes, at) || bytes.get(at..end).is_some_and(is_card)) {
        *bits |= CARD;
    }
}

fn is_card(bytes: &[u8]) -> bool {
    std::str::from_utf8(bytes).is_ok_and(card)
}

/// Whether the colon at `at` may stand in an IPv6 address.
fn colon(bytes: &[u8], at: usize, bits: &mut u16) {
    let in_address = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit() || *byte == b':');
    if !in_address(bytes.get(at + 1)) {
        return;
    }
    let rest = bytes.get(at..).unwrap_or_default();
    let len = rest.iter().take(LONGEST_ADDRESS).take_while(|byte| in_address(Some(byte))).count();
    let part = rest.get(..len).unwrap_or_default();
    let colons: u32 = part.iter().map(|byte| u32::from(*byte == b':')).sum();
    let start = at.saturating_sub(LONGEST_ADDRESS);
    let before = bytes.get(start..at).unwrap_or_default();
    let front = before.iter().rev().take_while(|byte| in_address(Some(byte))).count();
    // Of a word (`u8::from`), unless that is an escape.
    let word = |byte: Option<&u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric() || *byte == b'_');
    let edge = before.len() - front;
    let letter = edge.checked_sub(1).and_then(|last| before.get(last));
    let escape = edge.checked_sub(2).is_some_and(|mark| before.get(mark) == Some(&b'\\'));
    if (word(letter) && edge > 1 && !escape) || (len < LONGEST_ADDRESS && word(rest.get(len))) {
        return;
    }
    let told = before.iter().rev().take(front.min(4)).chain(part).any(u8::is_ascii_digit);
    // In a JSON text a number may stand right behind a member's colon.
    if told && (colons >= COLONS || (colons >= 2 && memchr::memmem::find(part, b"::").is_some())) {
        *bits |= IPV6;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_without_anything_trigger_nothing() {
        for text in [
            "",
            "plain prose, with a number 12 and 1,024 and 3.14",
            r#"{"id":123,"at":1732929482123,"v":"1.2.3","t":"12:34:56","u":"https://h/x?y=z"}"#,
            "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
            "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "2026-11-30T01:02:03+01:00",
            "order 4012888888881882, 123-456-789",
            r#"{\"id\": 1732929482041}"#,
            "std::vec::Vec",
        ] {
            assert!(Triggers::of(text.as_bytes()).is_none(), "{text}: {:?}", Triggers::of(text.as_bytes()));
        }
    }

    #[test]
    fn escapes_in_front_hide_no_card() {
        for text in [
            "4012888888881881",
            "%204012888888881881",
            "a%3D4012 8888 8888 1881",
            r"\u00094012888888881881",
            "x4012-8888-8888-1881y",
        ] {
            let padded = format!("{}{text}", " ".repeat(60));
            for text in [text, &padded] {
                assert!(!Triggers::of(text.as_bytes()).is_none(), "{text}");
            }
        }
    }
}
