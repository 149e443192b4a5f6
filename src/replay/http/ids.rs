//! Session ids: whoever knows one has the session, so they come from the system's generator.

use std::fmt::Write as _;

use rustix::rand::{GetRandomFlags, getrandom};

/// 128 random bits in hexadecimal; `None` when the system has no randomness to give.
#[must_use]
pub fn fresh() -> Option<String> {
    let mut bytes = [0_u8; 16];
    // Less than 256 bytes come whole or not at all (getrandom(2)).
    let got = getrandom(&mut bytes[..], GetRandomFlags::empty()).ok()?;
    (got == bytes.len()).then(|| {
        bytes.iter().fold(String::with_capacity(32), |mut id, byte| {
            let _ = write!(id, "{byte:02x}");
            id
        })
    })
}
