//! What stands in the place of a value.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::pack::hex;

/// The placeholder of head facts, which belong to no process and are not numbered.
pub(super) const PLAIN: &str = "REDACTED";

/// What stands for a number.
pub(super) const ZERO: &str = "0";

/// What stands for a number of a client that holds a known secret: no rule says in a replay where one was, so it must be
/// told from zeros.
pub(super) const NEGATIVE_ZERO: &str = "-0";

/// What stands for the characters of a masked value, but for the last four.
pub(super) const BULLET: char = '\u{2022}';

/// Digits of a keyed hash that are shown.
const SHOWN: usize = 12;

/// The year of our dates: one that no session speaks of, since a placeholder equals any live value.
const YEAR: &str = "1800-";

/// What programs say for "no time".
const EPOCH: &str = "1970-01-01T00:00:00Z";

/// The zone of our times of day: RFC 3339 has it for "not known".
const NO_ZONE: &str = "-00:00";

/// How our durations begin: nobody else writes all the zeros.
const NO_TIME: &str = "P0Y0M0DT0H0M";

const URN: &str = "urn:uuid:";

/// Schemes of URIs that have no `//`.
const OPAQUE: [&str; 7] = ["urn:", "mailto:", "tel:", "data:", "tag:", "did:", "geo:"];

/// Networks reserved for documentation (RFC 5737).
const TEST_NETS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];

/// Every form that [`Numbers`] and the strategies of packs write, as a regular expression: how a placeholder is told
/// from the text around it.
pub(super) const FORMS: &str = r"REDACTED(?:-(?:[0-9a-f]{12}|[0-9]+(?:\.[0-9]+)?))?|redacted(?:-(?:[0-9a-f]{12}|[0-9]+(?:\.[0-9]+)?))?@redacted\.invalid|https://redacted\.invalid/(?:[0-9a-f]{12}|[0-9]+(?:\.[0-9]+)?)|(?:urn:uuid:)?00000000-0000-4000-8000-[0-9a-f]{12}|1970-01-01T(?:00:00:(?:0[1-9]|[1-5][0-9])|00:(?:0[1-9]|[1-5][0-9]):[0-9]{2}|(?:0[1-9]|[12][0-9]):[0-9]{2}:[0-9]{2})Z|\b1800-(?:0[1-9]|1[0-2])-[0-2][0-9]\b|\b[0-2][0-9]:[0-5][0-9]:[0-5][0-9]-00:00\b|P0Y0M0DT0H0M[0-9]+S|192\.0\.2\.[0-9]{1,3}|198\.51\.100\.[0-9]{1,3}|203\.0\.113\.[0-9]{1,3}|2001:db8:[0-9a-f:]*|<[A-Z][A-Z0-9_]*>_[0-9a-f]{12}|\x{2022}+.{0,4}";

/// Numbers the values that one process showed, in order of first appearance; with a salt each value has a keyed hash
/// instead, the same in every recording.
#[derive(Clone, Debug)]
pub struct Numbers {
    segment: u32,
    known: HashMap<String, usize>,
    salt: Option<Arc<[u8]>>,
}

impl Numbers {
    /// For the process with this ordinal in the cassette; the first is 1. Values are never compared across
    /// processes, so the numbers of later ones carry the ordinal: `REDACTED-2.1`.
    #[must_use]
    pub fn new(segment: u32) -> Self {
        Self { segment, known: HashMap::new(), salt: None }
    }

    /// The same with keyed hashes in the place of numbers.
    #[must_use]
    pub fn salted(segment: u32, salt: Option<Arc<[u8]>>) -> Self {
        Self { salt, ..Self::new(segment) }
    }

    /// The placeholder for a value without regard to its shape: letters, digits and `-`, which no encoding changes.
    pub(super) fn label(&mut self, value: &str) -> String {
        self.shaped(value, &Shape::Plain)
    }

    /// The placeholder for a value: the same for the same value, in a shape its readers accept.
    pub fn placeholder(&mut self, value: &str) -> String {
        self.shaped(value, &Shape::of(value))
    }

    fn shaped(&mut self, value: &str, shape: &Shape) -> String {
        if let Some(salt) = &self.salt {
            let digits = keyed(salt, value);
            let number = usize::from_str_radix(digits.get(..7).unwrap_or(""), 16).unwrap_or(0);
            return shape.write(number + 1, 0, &digits, Some(&digits));
        }
        let next = self.known.len() + 1;
        let number = match self.known.get(value) {
            Some(number) => *number,
            None => *self.known.entry(value.to_owned()).or_insert(next),
        };
        let segment = if self.segment > 1 { self.segment } else { 0 };
        let label = match segment {
            0 => number.to_string(),
            segment => format!("{segment}.{number}"),
        };
        shape.write(number, segment, &label, None)
    }
}

/// The first digits of the keyed hash of a value.
fn keyed(salt: &[u8], value: &str) -> String {
    let mut digits = mac(salt, value.as_bytes());
    digits.truncate(SHOWN);
    digits
}

fn mac(key: &[u8], text: &[u8]) -> String {
    match Hmac::<Sha256>::new_from_slice(key) {
        Ok(mut mac) => {
            mac.update(text);
            hex(&mac.finalize().into_bytes())
        }
        // Keys of any length are taken.
        Err(_) => String::new(),
    }
}

/// `<LABEL>_` and the first digits of the keyed hash that a pack's rule gives to a value.
pub(super) fn pseudonym(salt: &[u8], rule: &str, label: &str, value: &str) -> String {
    let key = Hmac::<Sha256>::new_from_slice(salt).map(|mut mac| {
        mac.update(rule.as_bytes());
        mac.finalize().into_bytes()
    });
    format!("<{label}>_{}", key.map_or_else(|_| String::new(), |key| keyed(&key, value)))
}

/// A value with bullets for all but its last four characters.
pub(super) fn mask(value: &str) -> String {
    let count = value.chars().count();
    let shown = if count > 4 { 4 } else { 0 };
    std::iter::repeat_n(BULLET, count - shown).chain(value.chars().skip(count - shown)).collect()
}

/// What a value looks like to those who check it.
enum Shape {
    Plain,
    Email,
    V4,
    V6,
    Uuid,
    Urn,
    Time,
    Date,
    Clock,
    Duration,
    Uri,
}

impl Shape {
    fn of(value: &str) -> Self {
        match () {
            () if value.parse::<Ipv4Addr>().is_ok() => Self::V4,
            () if value.contains(':') && value.parse::<Ipv6Addr>().is_ok() => Self::V6,
            () if is_email(value) => Self::Email,
            () if is_uuid(value) => Self::Uuid,
            () if value.strip_prefix(URN).is_some_and(is_uuid) => Self::Urn,
            () if is_time(value) => Self::Time,
            () if has_shape(value, "0000-00-00") => Self::Date,
            () if is_clock(value) => Self::Clock,
            () if is_duration(value) => Self::Duration,
            () if is_uri(value) => Self::Uri,
            () => Self::Plain,
        }
    }

    fn write(&self, number: usize, segment: u32, label: &str, digits: Option<&str>) -> String {
        match self {
            Self::Plain => format!("{PLAIN}-{label}"),
            Self::Email => format!("redacted-{label}@redacted.invalid"),
            Self::Uri => format!("https://redacted.invalid/{label}"),
            Self::V4 => test_address(number),
            Self::V6 if segment > 0 => format!("2001:db8:{segment:x}::{number:x}"),
            Self::V6 => format!("2001:db8::{:x}:{:x}", number >> 16, number & 0xffff),
            Self::Uuid => match digits {
                Some(digits) => format!("00000000-0000-4000-8000-{digits}"),
                None => format!("00000000-0000-4000-8000-{segment:04x}{number:08x}"),
            },
            Self::Urn => format!("{URN}{}", Self::Uuid.write(number, segment, label, digits)),
            Self::Time => format!("1970-01-01T{}Z", clock(number)),
            Self::Date => {
                let day = number.saturating_sub(1) % (12 * 28);
                format!("{YEAR}{:02}-{:02}", day / 28 + 1, day % 28 + 1)
            }
            Self::Clock => format!("{}{NO_ZONE}", clock(number)),
            Self::Duration => format!("{NO_TIME}{number}S"),
        }
    }
}

/// A second of the day, but not the first one, with which a date and time would be [`EPOCH`].
fn clock(number: usize) -> String {
    let second = number.saturating_sub(1) % 86_399 + 1;
    format!("{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)
}

fn test_address(number: usize) -> String {
    let slot = (number.saturating_sub(1)) % (254 * TEST_NETS.len());
    let [a, b, c] = TEST_NETS.get(slot / 254).copied().unwrap_or_default();
    format!("{a}.{b}.{c}.{}", slot % 254 + 1)
}

fn is_email(value: &str) -> bool {
    let Some((local, domain)) = value.split_once('@') else { return false };
    let plain = |text: &str, more: &str| {
        !text.is_empty() && text.chars().all(|char| char.is_alphanumeric() || more.contains(char))
    };
    plain(local, "!#$%&'*+-/=?^_`{|}~.")
        && plain(domain, ".-_%+")
        && !domain.starts_with('.')
        && domain.rsplit_once('.').is_some_and(|(host, top)| !host.is_empty() && top.len() >= 2)
}

/// Whether a text has the shape of a pattern: `0` stands for a digit, `f` for a hexadecimal one.
fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, wanted)| match wanted {
            b'0' => byte.is_ascii_digit(),
            b'f' => byte.is_ascii_hexdigit(),
            _ => byte == wanted,
        })
}

fn is_uuid(value: &str) -> bool {
    has_shape(value, "ffffffff-ffff-ffff-ffff-ffffffffffff")
}

/// A date and a time, as widely as checks of JSON Schema's `date-time` and its kin take them.
fn is_time(value: &str) -> bool {
    let (Some(date), Some(rest)) = (value.get(..10), value.get(10..)) else { return false };
    has_shape(date, "0000-00-00") && rest.strip_prefix(['T', 't', ' ']).is_some_and(is_clock)
}

/// A time of day, with a zone or without.
fn is_clock(value: &str) -> bool {
    let (Some(front), Some(rest)) = (value.get(..8), value.get(8..)) else { return false };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|char: char| char.is_ascii_digit()),
        None => rest,
    };
    let is_offset = |offset: &str| ["00:00", "0000", "00"].iter().any(|shape| has_shape(offset, shape));
    has_shape(front, "00:00:00")
        && (matches!(zone, "" | "Z" | "z") || zone.strip_prefix(['+', '-']).is_some_and(is_offset))
}

/// ISO 8601, such as `P1DT2H`.
fn is_duration(value: &str) -> bool {
    let Some(rest) = value.strip_prefix('P') else { return false };
    let (days, time) = rest.split_once('T').map_or((rest, None), |(days, time)| (days, Some(time)));
    let counts = |text: &str, units: &str| {
        let mut left = units;
        let mut parts = text.split_inclusive(|char: char| char.is_ascii_alphabetic());
        parts.all(|part| {
            let number = part.trim_end_matches(|char: char| char.is_ascii_alphabetic());
            let unit = part.get(number.len()..).unwrap_or("");
            let known = (unit.len() == 1).then(|| left.split_once(unit)).flatten();
            left = known.map_or("", |(_, rest)| rest);
            known.is_some() && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
        })
    };
    !rest.is_empty()
        && counts(days, "YMWD")
        && time.is_none_or(|time| !time.is_empty() && counts(time, "HMS"))
}

fn is_uri(value: &str) -> bool {
    let is_scheme = |scheme: &str| {
        scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
    };
    let opaque = OPAQUE.iter().find_map(|scheme| value.strip_prefix(scheme));
    let named = value.split_once("://").filter(|(scheme, _)| is_scheme(scheme)).map(|(_, rest)| rest);
    named.or(opaque).is_some_and(|rest| {
        !rest.is_empty()
            && rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"\"<>\\^`{|}".contains(&byte))
    })
}

/// Whether an address is reserved for documentation (RFC 5737, RFC 3849): ours are.
pub(super) fn is_documentation(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => TEST_NETS.iter().any(|net| address.octets().starts_with(net)),
        IpAddr::V6(address) => address.segments().starts_with(&[0x2001, 0xdb8]),
    }
}

/// Whether a whole value is a placeholder of ours, or one of the documentation addresses we use as such.
#[must_use]
pub fn is_placeholder(value: &str) -> bool {
    let labelled = value
        .strip_prefix(PLAIN)
        .or_else(|| value.strip_prefix("redacted").and_then(|rest| rest.strip_suffix("@redacted.invalid")));
    if let Some(label) = labelled {
        return label.is_empty() || label.strip_prefix('-').is_some_and(is_label);
    }
    let days = value.strip_prefix(YEAR);
    if days.is_some_and(|days| has_shape(days, "00-00")) {
        return true;
    }
    if value.strip_suffix(NO_ZONE).is_some_and(|front| has_shape(front, "00:00:00")) {
        return true;
    }
    let value = value.strip_prefix(URN).unwrap_or(value);
    match value.as_bytes().first() {
        Some(b'0') => is_uuid(value) && value.starts_with("00000000-0000-4000-8000-"),
        Some(b'1') if value.starts_with("1970-01-01T") => {
            is_time(value) && value.ends_with('Z') && value.len() == 20 && value != EPOCH
        }
        Some(b'P') => value
            .strip_prefix(NO_TIME)
            .and_then(|rest| rest.strip_suffix('S'))
            .is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())),
        Some(b'1' | b'2') => value.parse::<IpAddr>().is_ok_and(is_documentation),
        Some(b'h') => value.strip_prefix("https://redacted.invalid/").is_some_and(is_label),
        Some(b'<') => {
            value.strip_prefix('<').and_then(|rest| rest.split_once(">_")).is_some_and(|(label, digits)| {
                !label.is_empty()
                    && label
                        .bytes()
                        .all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_')
                    && is_digits(digits)
            })
        }
        _ => value.starts_with(BULLET) && value.trim_start_matches(BULLET).chars().count() <= 4,
    }
}

fn is_digits(text: &str) -> bool {
    text.len() == SHOWN && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// `1`, `2.1`, or the digits of a hash.
fn is_label(label: &str) -> bool {
    let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let mut parts = label.split('.');
    (parts.clone().count() <= 2 && parts.all(number)) || is_digits(label)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_write_is_no_placeholder_in_a_text() {
        let forms = regex::Regex::new(FORMS).unwrap();
        for text in [
            "2026-01-01T00:12:13-00:00",
            "1800-01-01T00:00:00Z",
            "PT30S, P0DT0H0M30S",
            "21800-01-01",
            "1970-01-01T00:00:00Z",
        ] {
            assert!(!forms.is_match(text), "{text}");
        }
    }

    #[test]
    fn placeholders_keep_the_shape() {
        let mut numbers = Numbers::new(1);
        for (value, expected) in [
            ("s3cr3t", "REDACTED-1"),
            ("ann@example.com", "redacted-2@redacted.invalid"),
            ("10.1.2.3", "192.0.2.3"),
            ("s3cr3t", "REDACTED-1"),
            ("a@b", "REDACTED-4"),
            ("https://u@h.de/", "https://redacted.invalid/5"),
            ("ann@example.com", "redacted-2@redacted.invalid"),
            ("fe80::1", "2001:db8::0:6"),
            ("6f9619ff-8b86-d011-b42d-00cf4fc964ff", "00000000-0000-4000-8000-000000000007"),
            ("2026-11-29T20:33:00.123Z", "1970-01-01T00:00:08Z"),
            ("2026-11-29T20:33:00+01:00", "1970-01-01T00:00:09Z"),
            ("not a uri://x y", "REDACTED-10"),
            ("2026-11-29t20:33:00+0530", "1970-01-01T00:00:11Z"),
            ("2026-11-29 20:33:00", "1970-01-01T00:00:12Z"),
            ("2026-11-29", "1800-01-13"),
            ("20:33:00.5+02:00", "00:00:14-00:00"),
            ("20:33:00", "00:00:15-00:00"),
            ("P1DT2H", "P0Y0M0DT0H0M16S"),
            ("PT0S", "P0Y0M0DT0H0M17S"),
            ("PASS", "REDACTED-18"),
            ("P1H", "REDACTED-19"),
            ("P1DT", "REDACTED-20"),
            ("P", "REDACTED-21"),
            (
                "urn:uuid:6f9619ff-8b86-d011-b42d-00cf4fc964ff",
                "urn:uuid:00000000-0000-4000-8000-000000000016",
            ),
            ("urn:example:vault", "https://redacted.invalid/23"),
            ("user:password", "REDACTED-24"),
            ("o'dan/ops=1@initech.io", "redacted-25@redacted.invalid"),
            ("2026-11-29T20:33", "REDACTED-26"),
        ] {
            assert_eq!(numbers.placeholder(value), expected, "{value}");
            assert!(is_placeholder(expected), "{expected}");
        }
        let mut second = Numbers::new(2);
        assert_eq!(second.placeholder("x"), "REDACTED-2.1");
        assert_eq!(second.placeholder("x@y.zz"), "redacted-2.2@redacted.invalid");
        assert_eq!(second.placeholder("fe80::1"), "2001:db8:2::3");
        assert_eq!(
            second.placeholder("6f9619ff-8b86-d011-b42d-00cf4fc964ff"),
            "00000000-0000-4000-8000-000200000004"
        );
        assert!(is_placeholder("REDACTED-2.1") && is_placeholder("redacted-2.2@redacted.invalid"));
        assert!(is_placeholder("REDACTED"));
        for value in [
            "REDACTED-",
            "REDACTED-1.2.3",
            "REDACTED-x",
            "REDACTEDx",
            "redacted-1",
            "192.0.3.1",
            "",
            "00000000-0000-4000-9000-000000000001",
            "<EMAIL>_xyz",
            "https://redacted.invalid/x",
            "1800-1-1",
            "00:00:01",
            "00:00:01Z",
            "PT1S",
            "P0Y0M0DT0H0MS",
            "urn:uuid:",
            "1970-01-01T00:00:01",
            "1970-01-01T00:00:00Z",
        ] {
            assert!(!is_placeholder(value), "{value}");
        }
    }

    #[test]
    fn the_forms_are_the_placeholders() {
        let forms = regex::Regex::new(&format!("^(?:{FORMS})$")).unwrap();
        let salted = Some(Arc::from(&b"salt"[..]));
        for mut numbers in [Numbers::new(1), Numbers::new(3), Numbers::salted(1, salted)] {
            for value in [
                "x",
                "a@b.cd",
                "10.0.0.1",
                "fe80::1",
                "http://h/x",
                "6f9619ff-8b86-d011-b42d-00cf4fc964ff",
                "2026-11-29T20:33:00Z",
                "2026-11-29",
                "20:33:00Z",
                "PT2H",
                "urn:uuid:6f9619ff-8b86-d011-b42d-00cf4fc964ff",
            ] {
                let placeholder = numbers.placeholder(value);
                assert!(forms.is_match(&placeholder) && is_placeholder(&placeholder), "{placeholder}");
                assert!(!is_placeholder(value), "{value}");
            }
        }
        for value in ["<EMAIL>_0ae25ee7e80b", "••••1234", "•••"] {
            assert!(forms.is_match(value) && is_placeholder(value), "{value}");
        }
    }

    #[test]
    fn no_time_is_the_epoch() {
        for number in [1, 86_399, 86_400, 86_401, 2 * 86_399] {
            let time = Shape::Time.write(number, 0, "", None);
            assert!(time != EPOCH && is_placeholder(&time), "{number}: {time}");
        }
    }

    #[test]
    fn hashes_are_those_of_mcp_cassette() {
        let key = b"mcp-cassette/redaction/stable/v1";
        assert_eq!(pseudonym(key, "common/email", "EMAIL", "bob@example.com"), "<EMAIL>_0ae25ee7e80b");
    }

    #[test]
    fn masks_show_the_last_four() {
        for (value, expected) in
            [("4111111111111111", "••••••••••••1111"), ("abcd", "••••"), ("abcde", "•bcde")]
        {
            assert_eq!(mask(value), expected);
        }
    }

    #[test]
    fn test_addresses_repeat() {
        assert_eq!(test_address(1), "192.0.2.1");
        assert_eq!(test_address(255), "198.51.100.1");
        assert_eq!(test_address(762), "203.0.113.254");
        assert_eq!(test_address(763), "192.0.2.1");
    }
}
