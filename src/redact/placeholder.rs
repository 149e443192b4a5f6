//! What stands in the place of a value.

use std::collections::HashMap;
use std::net::Ipv4Addr;

/// The placeholder of head facts, which belong to no process and are not numbered.
pub(super) const PLAIN: &str = "REDACTED";

/// Networks reserved for documentation (RFC 5737).
const TEST_NETS: [[u8; 3]; 3] = [[192, 0, 2], [198, 51, 100], [203, 0, 113]];

/// Numbers the values that one process showed, in order of first appearance.
#[derive(Clone, Debug)]
pub struct Numbers {
    segment: u32,
    known: HashMap<String, usize>,
}

impl Numbers {
    /// For the process with this ordinal in the cassette; the first is 1. Values are never compared across
    /// processes, so the numbers of later ones carry the ordinal: `REDACTED-2.1`.
    #[must_use]
    pub fn new(segment: u32) -> Self {
        Self { segment, known: HashMap::new() }
    }

    /// The placeholder for a value: the same for the same value, in a shape its readers accept.
    pub fn placeholder(&mut self, value: &str) -> String {
        let next = self.known.len() + 1;
        let number = match self.known.get(value) {
            Some(number) => *number,
            None => *self.known.entry(value.to_owned()).or_insert(next),
        };
        if value.parse::<Ipv4Addr>().is_ok() {
            return test_address(number);
        }
        let label = match self.segment {
            0 | 1 => number.to_string(),
            segment => format!("{segment}.{number}"),
        };
        if is_email(value) {
            format!("redacted-{label}@redacted.invalid")
        } else {
            format!("{PLAIN}-{label}")
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

/// Whether a whole value is a placeholder of ours, or one of the documentation addresses we use as such.
#[must_use]
pub fn is_placeholder(value: &str) -> bool {
    let label = value
        .strip_prefix("REDACTED")
        .or_else(|| value.strip_prefix("redacted").and_then(|rest| rest.strip_suffix("@redacted.invalid")));
    match label {
        Some("") => true,
        Some(label) => label.strip_prefix('-').is_some_and(|label| {
            let mut parts = label.split('.');
            let number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
            parts.clone().count() <= 2 && parts.all(number)
        }),
        None => value
            .parse::<Ipv4Addr>()
            .is_ok_and(|address| TEST_NETS.iter().any(|net| address.octets().starts_with(net))),
    }
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
            ("https://u@h.de/", "REDACTED-5"),
            ("ann@example.com", "redacted-2@redacted.invalid"),
        ] {
            assert_eq!(numbers.placeholder(value), expected, "{value}");
            assert!(is_placeholder(expected), "{expected}");
        }
        let mut second = Numbers::new(2);
        assert_eq!(second.placeholder("x"), "REDACTED-2.1");
        assert_eq!(second.placeholder("x@y.zz"), "redacted-2.2@redacted.invalid");
        assert!(is_placeholder("REDACTED-2.1") && is_placeholder("redacted-2.2@redacted.invalid"));
        assert!(is_placeholder("REDACTED"));
        for value in ["REDACTED-", "REDACTED-1.2.3", "REDACTED-x", "REDACTEDx", "redacted-1", "192.0.3.1", ""]
        {
            assert!(!is_placeholder(value), "{value}");
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
