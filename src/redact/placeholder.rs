//! What stands in the place of a value.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::pack::hex;

/// The placeholder of head facts, which belong to no process and are not numbered.
pub(super) const PLAIN: &str = "REDACTED";

/// What stands for the characters of a masked value, but for the last four.
pub(super) const BULLET: char = '\u{2022}';

/// Digits of a keyed hash that are shown.
const SHOWN: usize = 12;

/// Networks reserved for documentation (RFC 5737).
const TEST_NETS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];

/// Every form that [`Numbers`] and the strategies of packs write, as a regular expression: how a placeholder is told
/// from the text around it.
pub(super) const FORMS: &str = r"REDACTED(?:-(?:[0-9a-f]{12}|[0-9]+(?:\.[0-9]+)?))?|redacted(?:-(?:[0-9a-f]{12}|[0-9]+(?:\.[0-9]+)?))?@redacted\.invalid|https://redacted\.invalid/(?:[0-9a-f]{12}|[0-9]+(?:\.[0-9]+)?)|00000000-0000-4000-8000-[0-9a-f]{12}|1970-01-01T[0-9]{2}:[0-9]{2}:[0-9]{2}Z|192\.0\.2\.[0-9]{1,3}|198\.51\.100\.[0-9]{1,3}|203\.0\.113\.[0-9]{1,3}|2001:db8:[0-9a-f:]*|<[A-Z][A-Z0-9_]*>_[0-9a-f]{12}|\x{2022}+.{0,4}";

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
    Time,
    Uri,
}

impl Shape {
    fn of(value: &str) -> Self {
        match () {
            () if value.parse::<Ipv4Addr>().is_ok() => Self::V4,
            () if value.contains(':') && value.parse::<Ipv6Addr>().is_ok() => Self::V6,
            () if is_email(value) => Self::Email,
            () if is_uuid(value) => Self::Uuid,
            () if is_time(value) => Self::Time,
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
            Self::Time => {
                let second = number % 86_400;
                let (hour, minute) = (second / 3600, second / 60 % 60);
                format!("1970-01-01T{hour:02}:{minute:02}:{:02}Z", second % 60)
            }
        }
    }
}

fn test_address(number: usize) -> String {
    let slot = (number.saturating_sub(1)) % (254 * TEST_NETS.len());
    let [a, b, c] = TEST_NETS.get(slot / 254).copied().unwrap_or_default();
    format!("{a}.{b}.{c}.{}", slot % 254 + 1)
}

fn is_email(value: &str) -> bool {
    let Some((local, domain)) = value.split_once('@') else { return false };
    let plain = |text: &str| {
        !text.is_empty()
            && text.chars().all(|char| char.is_alphanumeric() || matches!(char, '.' | '_' | '%' | '+' | '-'))
    };
    plain(local)
        && plain(domain)
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

/// RFC 3339, as JSON Schema's `date-time` wants it.
fn is_time(value: &str) -> bool {
    let (Some(front), Some(rest)) = (value.get(..19), value.get(19..)) else { return false };
    let zone = match rest.strip_prefix('.') {
        Some(fraction) => fraction.trim_start_matches(|char: char| char.is_ascii_digit()),
        None => rest,
    };
    has_shape(front, "0000-00-00T00:00:00")
        && (zone == "Z" || has_shape(zone, "+00:00") || has_shape(zone, "-00:00"))
}

fn is_uri(value: &str) -> bool {
    value.split_once("://").is_some_and(|(scheme, rest)| {
        scheme.starts_with(|char: char| char.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
            && !rest.is_empty()
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
    match value.as_bytes().first() {
        Some(b'0') => is_uuid(value) && value.starts_with("00000000-0000-4000-8000-"),
        Some(b'1') if value.starts_with("1970-01-01T") => is_time(value) && value.len() == 20,
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
