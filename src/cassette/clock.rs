//! Wall-clock times as the cassette spells them: RFC 3339, UTC.

use std::time::{Duration, SystemTime};

use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use time::macros::format_description;

/// `2026-11-29T20:33:00.123Z`.
#[must_use]
pub fn millis(at: SystemTime) -> String {
    OffsetDateTime::from(at)
        .format(format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z"))
        .unwrap_or_default()
}

/// `2026-11-29T20:33:00.123456Z`, for segments, which are merged by time.
#[must_use]
pub fn micros(at: SystemTime) -> String {
    OffsetDateTime::from(at)
        .format(format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:6]Z"))
        .unwrap_or_default()
}

/// The wall clock, microseconds since 1970.
#[must_use]
pub fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

/// Microseconds since 1970; `None` when `text` is no RFC 3339 time.
#[must_use]
pub fn parse(text: &str) -> Option<i64> {
    let time = OffsetDateTime::parse(text, &Rfc3339).ok()?;
    i64::try_from(time.unix_timestamp_nanos() / 1000).ok()
}

/// The last microsecond of the year 9999, after which RFC 3339 has no spelling.
const LAST: u64 = 253_402_300_799_999_999;

/// The same spelling for a number of microseconds since 1970, of which it knows no later ones than the year 9999.
#[must_use]
pub fn from_micros(at: i64, fraction: bool) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_micros(u64::try_from(at).unwrap_or(0).min(LAST));
    if fraction { micros(at) } else { millis(at) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_is_too_late() {
        assert_eq!(from_micros(i64::MAX, true), "9999-12-31T23:59:59.999999Z");
    }

    #[test]
    fn spellings() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_micros(1_796_000_000_123_456);
        assert_eq!(millis(at), "2026-11-30T00:53:20.123Z");
        assert_eq!(micros(at), "2026-11-30T00:53:20.123456Z");
        assert_eq!(parse(&micros(at)), Some(1_796_000_000_123_456));
        assert_eq!(parse("2026-11-30T01:53:20.5+01:00"), Some(1_796_000_000_500_000));
        assert_eq!(parse("yesterday"), None);
        assert_eq!(from_micros(1_796_000_000_123_456, true), micros(at));
    }
}
