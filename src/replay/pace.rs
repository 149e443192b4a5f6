//! Pacing: how long after the message before it a recorded message goes out, and how many bytes of a slow line are due.
//! Pure: times are microseconds that the caller counts.

/// How recorded gaps are reproduced.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// What gaps are multiplied by; finite and not negative.
    pub scale: f64,
    /// The longest gap, in microseconds, after scaling; `None` has no limit.
    pub cap: Option<u64>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { scale: 1.0, cap: Some(5_000_000) }
    }
}

impl Pace {
    /// The gap between two recorded times, as it is to be, in microseconds.
    #[must_use]
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a gap of 2^53 microseconds is 285 years, and a cast from a float saturates"
    )]
    pub fn gap(&self, before: u64, at: u64) -> u64 {
        let scaled = (at.saturating_sub(before) as f64 * self.scale).round() as u64;
        self.cap.map_or(scaled, |cap| scaled.min(cap))
    }
}

/// The message that the next one of an exchange keeps its distance from: when it was recorded, and when it was due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Microseconds since the recording began.
    pub recorded: u64,
    /// Microseconds on the caller's clock.
    pub live: u64,
}

impl Anchor {
    /// When a message that was recorded at `at` is due. Counted from when the one before it was due, so that what
    /// came late does not make the rest late.
    #[must_use]
    pub fn due(self, at: u64, pace: &Pace) -> u64 {
        self.live.saturating_add(pace.gap(self.recorded, at))
    }
}

/// A line that goes out slowly.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drip {
    rate: u64,
    started: u64,
}

/// How often a slow line grows, in microseconds, where its rate allows.
const BEAT: u64 = 20_000;

impl Drip {
    /// A line at `rate` bytes per second, at least one.
    #[must_use]
    pub fn new(rate: u64, now: u64) -> Self {
        Self { rate: rate.max(1), started: now }
    }

    /// How many bytes are due by now.
    #[must_use]
    pub fn due(self, now: u64) -> usize {
        let bytes = u128::from(now.saturating_sub(self.started)) * u128::from(self.rate) / 1_000_000;
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }

    /// When more than `sent` bytes are due: at the next beat, or the next byte where that is later.
    #[must_use]
    pub fn next(self, sent: usize, now: u64) -> u64 {
        let micros = (sent as u128 + 1) * 1_000_000;
        let byte = micros.div_ceil(u128::from(self.rate));
        let byte = self.started.saturating_add(u64::try_from(byte).unwrap_or(u64::MAX));
        byte.max(now.saturating_add(BEAT))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_scaled_and_then_capped() {
        for (scale, cap, before, at, expected) in [
            (1.0, None, 1_000, 4_000, 3_000),
            (2.0, None, 1_000, 4_000, 6_000),
            (0.5, None, 1_000, 4_001, 1_501),
            (0.0, None, 1_000, 4_000, 0),
            (1.0, Some(2_000), 0, 4_000, 2_000),
            (0.25, Some(2_000), 0, 4_000, 1_000),
            (1.0, None, 4_000, 1_000, 0),
            (1e300, None, 0, 1, u64::MAX),
        ] {
            assert_eq!(Pace { scale, cap }.gap(before, at), expected, "{scale} {cap:?} {before} {at}");
        }
        assert_eq!(Pace::default().gap(0, 9_000_000), 5_000_000);
    }

    #[test]
    fn lateness_is_not_handed_on() {
        let pace = Pace::default();
        let first = Anchor { recorded: 100, live: 5_000 };
        let second = Anchor { recorded: 300, live: first.due(300, &pace) };
        assert_eq!((second.live, second.due(450, &pace)), (5_200, 5_350));
    }

    #[test]
    fn a_slow_line_has_its_rate() {
        let drip = Drip::new(100, 1_000);
        assert_eq!([1_000, 10_999, 11_000, 501_000, 1_001_000].map(|now| drip.due(now)), [0, 0, 1, 50, 100]);
        assert_eq!(drip.next(0, 1_000), 21_000);
        assert_eq!(drip.next(2, 21_000), 41_000);
        assert_eq!(Drip::new(1, 0).next(0, 0), 1_000_000);
        assert_eq!(Drip::new(0, 0).due(3_000_000), 3);
    }
}
