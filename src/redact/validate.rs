//! What a regular expression cannot say about a match: check digits, and what stands around it.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::placeholder::is_documentation;
use super::versions;
use crate::jsonrpc::scan::Span;

/// A further check of a match.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Validator {
    None,
    Luhn,
    Mod97,
    /// It does not go on as a word on either side.
    Word,
    /// The same, and it looks made by a machine.
    Token,
    Userinfo,
    Email,
    Phone,
    Ipv4,
    Ipv6,
    Ssn,
    Iban,
    Card,
}

const WORDS: [(&str, Validator); 13] = [
    ("none", Validator::None),
    ("luhn", Validator::Luhn),
    ("mod97", Validator::Mod97),
    ("word", Validator::Word),
    ("token", Validator::Token),
    ("userinfo", Validator::Userinfo),
    ("email", Validator::Email),
    ("phone", Validator::Phone),
    ("ipv4", Validator::Ipv4),
    ("ipv6", Validator::Ipv6),
    ("ssn", Validator::Ssn),
    ("iban", Validator::Iban),
    ("card", Validator::Card),
];

/// Lengths of the account numbers of each country (ISO 13616 registry).
const IBAN_LENGTHS: [(&str, usize); 79] = [
    ("AD", 24),
    ("AE", 23),
    ("AL", 28),
    ("AT", 20),
    ("AZ", 28),
    ("BA", 20),
    ("BE", 16),
    ("BG", 22),
    ("BH", 22),
    ("BI", 27),
    ("BR", 29),
    ("BY", 28),
    ("CH", 21),
    ("CR", 22),
    ("CY", 28),
    ("CZ", 24),
    ("DE", 22),
    ("DJ", 27),
    ("DK", 18),
    ("DO", 28),
    ("EE", 20),
    ("EG", 29),
    ("ES", 24),
    ("FI", 18),
    ("FK", 18),
    ("FO", 18),
    ("FR", 27),
    ("GB", 22),
    ("GE", 22),
    ("GI", 23),
    ("GL", 18),
    ("GR", 27),
    ("GT", 28),
    ("HR", 21),
    ("HU", 28),
    ("IE", 22),
    ("IL", 23),
    ("IQ", 23),
    ("IS", 26),
    ("IT", 27),
    ("JO", 30),
    ("KW", 30),
    ("KZ", 20),
    ("LB", 28),
    ("LC", 32),
    ("LI", 21),
    ("LT", 20),
    ("LU", 20),
    ("LV", 21),
    ("LY", 25),
    ("MC", 27),
    ("MD", 24),
    ("ME", 22),
    ("MK", 19),
    ("MN", 20),
    ("MR", 27),
    ("MT", 31),
    ("MU", 30),
    ("NI", 28),
    ("NL", 18),
    ("NO", 15),
    ("OM", 23),
    ("PK", 24),
    ("PL", 28),
    ("PS", 29),
    ("PT", 25),
    ("QA", 29),
    ("RO", 24),
    ("RS", 22),
    ("RU", 33),
    ("SA", 24),
    ("SC", 31),
    ("SD", 18),
    ("SE", 24),
    ("SI", 19),
    ("SK", 24),
    ("SM", 27),
    ("TN", 24),
    ("TR", 26),
];

/// What ends the name of a picture in two sizes (`icon@2x.png`), and no mail domain.
const FILE_ENDINGS: [&str; 9] = ["png", "jpg", "jpeg", "gif", "svg", "webp", "ico", "js", "css"];

impl Validator {
    pub(super) fn of(word: &str) -> Option<Self> {
        WORDS.iter().find(|(known, _)| *known == word).map(|(_, validator)| *validator)
    }

    /// All of them, for messages.
    pub(super) fn words() -> String {
        WORDS.map(|(word, _)| word).join(", ")
    }

    /// The part of the match at `span` that counts, if it does.
    pub(super) fn accepts(self, text: &str, span: Span) -> Option<Span> {
        let value = span.of(text);
        let accepted = match self {
            Self::None => true,
            Self::Luhn => luhn(value),
            Self::Mod97 => (15..=34).contains(&value.replace(' ', "").len()) && mod97(value),
            Self::Word => is_alone(text, span),
            Self::Token => is_alone(text, span) && looks_made(value),
            Self::Userinfo => userinfo(text, span),
            Self::Email => email(text, span),
            Self::Phone => is_alone(text, span) && !matches!(before(text, span), Some('+' | '.' | '-')),
            Self::Ipv4 => ipv4(text, span),
            Self::Ipv6 => return ipv6(text, span),
            Self::Ssn => ssn(text, span),
            Self::Iban => return iban(text, span),
            Self::Card => is_alone(text, span) && !is_decimal(text, span) && card(value),
        };
        accepted.then_some(span)
    }
}

fn before(text: &str, span: Span) -> Option<char> {
    text.get(..span.start)?.chars().next_back()
}

fn after(text: &str, span: Span) -> Option<char> {
    text.get(span.end..)?.chars().next()
}

/// Whether a match is not part of a longer word.
fn is_alone(text: &str, span: Span) -> bool {
    let word = |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || char == '_');
    // In text with JSON's escapes left in it, the letter before may be a line break's.
    let escaped = || {
        let front = text.get(..span.start).unwrap_or("");
        ["\\n", "\\r", "\\t"].iter().any(|escape| front.ends_with(escape))
    };
    (!word(before(text, span)) || escaped()) && !word(after(text, span))
}

/// Whether a text looks like a token and not like words: it has digits, or letters of both cases in disorder.
fn looks_made(value: &str) -> bool {
    let body = value.trim_end_matches('=');
    let digits = body.bytes().filter(u8::is_ascii_digit).count();
    let upper = body.bytes().filter(u8::is_ascii_uppercase).count();
    let lower = body.bytes().filter(u8::is_ascii_lowercase).count();
    let first_word = body.split(|char: char| !char.is_ascii_alphanumeric()).next().unwrap_or("");
    let capitals = first_word.bytes().skip(1).filter(u8::is_ascii_uppercase).count();
    let placeholder = ["your", "xxxx", "example", "placeholder", "<"].iter().any(|word| {
        body.get(..body.len().min(24)).is_some_and(|front| front.to_ascii_lowercase().contains(word))
    });
    let varied = body.bytes().collect::<std::collections::HashSet<_>>().len() >= 5;
    varied
        && !(placeholder && digits < 4)
        && (digits >= 2 || (upper >= 2 && lower >= 2 && capitals >= 2) || (digits >= 1 && body.len() >= 12))
}

fn userinfo(text: &str, span: Span) -> bool {
    let value = span.of(text);
    let scheme_end = span.start.saturating_sub(3);
    let scheme = text
        .get(..scheme_end)
        .and_then(|front| {
            front.rsplit(|char: char| !char.is_ascii_alphanumeric() && !"+.-".contains(char)).next()
        })
        .unwrap_or("")
        .to_ascii_lowercase();
    match value.split_once(':') {
        Some((_, password)) => {
            !password.is_empty()
                && !password.starts_with(['$', '{', '<', '*'])
                && !password.starts_with("%7B")
        }
        // A name alone is one in ssh, ftp and databases, and a token over HTTP.
        None => scheme.starts_with("http") && !value.starts_with(['$', '{', '<', '*']) && value != "git",
    }
}

fn email(text: &str, span: Span) -> bool {
    let value = span.of(text);
    let Some((local, domain)) = value.split_once('@') else { return false };
    let ending = domain.rsplit('.').next().unwrap_or("").to_ascii_lowercase();
    if FILE_ENDINGS.contains(&ending.as_str()) || local.starts_with('.') || local.ends_with('.') {
        return false;
    }
    // What `git clone` takes.
    if local == "git" && matches!(after(text, span), Some(':' | '/')) {
        return false;
    }
    // A word that goes on in another script is not what was meant.
    if after(text, span).is_some_and(|char| char.is_alphanumeric() || char == '_') {
        return false;
    }
    // In front of the host of a URL it is no address.
    let front = text.get(..span.start).unwrap_or("");
    let token =
        front.rsplit(|char: char| char.is_whitespace() || "\"'<>()".contains(char)).next().unwrap_or("");
    token.rsplit_once("://").is_none_or(|(scheme, rest)| scheme.is_empty() || rest.contains(['/', '?', '#']))
}

/// Whether digits are part of a decimal number.
fn is_decimal(text: &str, span: Span) -> bool {
    let digit = |char: Option<char>| char.is_some_and(|char| char.is_ascii_digit());
    let front = text.get(..span.start).unwrap_or("");
    let back = text.get(span.end..).unwrap_or("");
    let before = front.ends_with(['.', ',']) && digit(front.chars().rev().nth(1));
    let after = back.starts_with('.') && digit(back.chars().nth(1));
    before || after
}

fn ipv4(text: &str, span: Span) -> bool {
    let Ok(address) = span.of(text).parse::<Ipv4Addr>() else { return false };
    let [first, ..] = address.octets();
    if first == 0 || address.is_loopback() || address.is_broadcast() || is_documentation(address.into()) {
        return false;
    }
    // Netmasks tell nothing.
    if first == 255 {
        return false;
    }
    let front = text.get(..span.start).unwrap_or("");
    let back = text.get(span.end..).unwrap_or("");
    if !is_alone(text, span) {
        return false;
    }
    if back.starts_with(['-', '+']) && back.chars().nth(1).is_some_and(char::is_alphanumeric) {
        return false;
    }
    if back.starts_with('.') && back.chars().nth(1).is_some_and(|char| char.is_ascii_digit()) {
        return false;
    }
    !is_version_mark(front) && !versions::is_one_of_a_package(text, span, address)
}

/// Whether what stands in front says that numbers are a version: `v`, `version `, `Chrome/`, `pkg@`, `==`, an OID's dot.
fn is_version_mark(front: &str) -> bool {
    let mut near = front.len().saturating_sub(24);
    while !front.is_char_boundary(near) {
        near += 1;
    }
    let near = front.get(near..).unwrap_or("");
    let lower = near.to_ascii_lowercase();
    let trimmed = lower.trim_end_matches([' ', ':', '=', '"', '\'', '\\', '(', '`', '*']);
    let word = trimmed.rsplit(|char: char| !char.is_ascii_alphabetic()).next().unwrap_or("");
    let product = lower.ends_with('/')
        && !lower.ends_with("//")
        && lower.trim_end_matches('/').ends_with(|char: char| char.is_ascii_alphabetic())
        && !lower.contains("://");
    matches!(
        word,
        "v" | "ver"
            | "version"
            | "versions"
            | "release"
            | "build"
            | "firmware"
            | "rev"
            | "revision"
            | "section"
            | "chapter"
            | "oid"
            | "upgrade"
            | "assemblyversion"
            | "fileversion"
    ) || product
        || lower.ends_with('.')
        || lower.ends_with('-')
            && lower.trim_end_matches('-').ends_with(|char: char| char.is_ascii_alphanumeric())
        || lower.ends_with("==")
        || lower.ends_with(['~', '^'])
        || [">=", "<=", "~=", "!="].iter().any(|sign| lower.ends_with(sign))
}

fn ipv6(text: &str, span: Span) -> Option<Span> {
    let value = span.of(text);
    // The colon of a label in front, or of a port behind, may have been taken along.
    for trimmed in [value, value.trim_end_matches(':')] {
        let span = Span::new(span.start, span.start + trimmed.len());
        let Ok(address) = trimmed.parse::<Ipv6Addr>() else { continue };
        let joined = |char: Option<char>| {
            char.is_some_and(|char| char.is_alphanumeric() || matches!(char, ':' | '.' | '_'))
        };
        let dot_ends =
            |text: &str| text.starts_with('.') && !text.chars().nth(1).is_some_and(char::is_alphanumeric);
        let behind = text.get(span.end..).unwrap_or("");
        if joined(before(text, span))
            || (joined(after(text, span)) && !dot_ends(behind) && !behind.starts_with(": "))
        {
            continue;
        }
        let groups: Vec<&str> = trimmed.split(':').filter(|group| !group.is_empty()).collect();
        let told = groups.len() >= 2 && trimmed.bytes().any(|byte| byte.is_ascii_digit());
        // Times and MAC addresses have no such form; Rust's paths have no digits at the start of each part.
        let paths = groups.iter().all(|group| group.starts_with(|char: char| char.is_ascii_alphabetic()))
            && groups.len() < 3;
        let fe80 = address.is_unicast_link_local();
        if told && (!paths || fe80) && !address.is_loopback() && !is_documentation(address.into()) {
            return Some(span);
        }
    }
    None
}

fn ssn(text: &str, span: Span) -> bool {
    let joined =
        |char: Option<char>| char.is_some_and(|char| char.is_alphanumeric() || matches!(char, '_' | '-'));
    let value = span.of(text);
    let part = |from: usize, to: usize| value.get(from..to).unwrap_or("");
    let area = part(0, 3);
    !joined(before(text, span))
        && !joined(after(text, span))
        && !is_decimal(text, span)
        && !matches!(area, "000" | "666")
        && !area.starts_with('9')
        && part(4, 6) != "00"
        && part(7, 11) != "0000"
}

fn iban(text: &str, span: Span) -> Option<Span> {
    let value = span.of(text);
    let country = value.get(..2)?;
    let length = IBAN_LENGTHS.iter().find(|(code, _)| *code == country).map_or_else(
        || {
            matches!(country, "UA" | "VA" | "VG" | "XK").then_some(match country {
                "UA" => 29,
                "VA" => 22,
                "VG" => 24,
                _ => 20,
            })
        },
        |(_, length)| Some(*length),
    )?;
    let mut left = length;
    let mut end = 0;
    for (at, byte) in value.bytes().enumerate() {
        if byte != b' ' {
            left -= 1;
        }
        if left == 0 {
            end = at + 1;
            break;
        }
    }
    let span = Span::new(span.start, span.start + end);
    (end > 0 && is_alone(text, span) && mod97(span.of(text))).then_some(span)
}

fn luhn(value: &str) -> bool {
    let digits = value.bytes().rev().filter(u8::is_ascii_digit).map(|byte| u32::from(byte - b'0'));
    let sum: u32 = digits
        .enumerate()
        .map(|(at, digit)| match (at % 2, digit * 2) {
            (0, _) => digit,
            (_, double) if double > 9 => double - 9,
            (_, double) => double,
        })
        .sum();
    sum.is_multiple_of(10) && value.bytes().any(|byte| matches!(byte, b'1'..=b'9'))
}

/// Whether digits (with separators) are the number of a payment card: the issuer's range, its length, the grouping
/// that is printed on cards, and the check digit.
pub(super) fn card(value: &str) -> bool {
    let digits: String = value.chars().filter(char::is_ascii_digit).collect();
    let front = |len: usize| digits.get(..len).and_then(|front| front.parse::<u32>().ok()).unwrap_or(0);
    let issued = match digits.len() {
        13 => front(1) == 4,
        14 => matches!(front(2), 36 | 38) || (300..=305).contains(&front(3)),
        15 => matches!(front(2), 34 | 37),
        16 => {
            front(1) == 4
                || (51..=55).contains(&front(2))
                || (2221..=2720).contains(&front(4))
                || matches!(front(2), 62 | 65)
                || front(4) == 6011
                || (644..=649).contains(&front(3))
                || (3528..=3589).contains(&front(4))
                || matches!(front(4), 5018 | 5020 | 5038 | 6304)
        }
        19 => front(2) == 62,
        _ => false,
    };
    if !issued || !luhn(&digits) {
        return false;
    }
    let groups: Vec<usize> = value.split([' ', '-']).map(str::len).collect();
    groups.len() == 1
        || matches!(groups.as_slice(), [4, 6, 5 | 4])
        || groups.split_last().is_some_and(|(last, front)| front.iter().all(|len| *len == 4) && *last <= 4)
}

fn mod97(value: &str) -> bool {
    let clean: Vec<u8> = value.bytes().filter(u8::is_ascii_alphanumeric).collect();
    let rearranged = clean.iter().skip(4).chain(clean.iter().take(4));
    let rest = rearranged.fold(0u32, |rest, byte| match byte {
        b'0'..=b'9' => (rest * 10 + u32::from(byte - b'0')) % 97,
        _ => (rest * 100 + u32::from(byte.to_ascii_uppercase() - b'A') + 10) % 97,
    });
    rest == 1
}
