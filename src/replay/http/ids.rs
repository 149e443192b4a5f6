//! Session ids: whoever knows one has the session, so they come from the system's generator.

use std::fmt::Write as _;

/// 128 random bits in hexadecimal; `None` when the system has no randomness to give.
#[must_use]
pub fn fresh() -> Option<String> {
    let bytes = random()?;
    Some(bytes.iter().fold(String::with_capacity(32), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    }))
}

#[cfg(target_os = "linux")]
fn random() -> Option<[u8; 16]> {
    use rustix::rand::{GetRandomFlags, getrandom};

    let mut bytes = [0; 16];
    // Less than 256 bytes come whole or not at all (getrandom(2)).
    let got = getrandom(&mut bytes[..], GetRandomFlags::empty()).ok()?;
    (got == bytes.len()).then_some(bytes)
}

/// Elsewhere what the standard library has: a keyed hash whose key is the system's. Not made for secrets, but nobody
/// gets to see enough of it to guess the key.
#[cfg(not(target_os = "linux"))]
fn random() -> Option<[u8; 16]> {
    use std::hash::{BuildHasher, RandomState};

    let mut bytes = [0; 16];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_ne_bytes());
    }
    Some(bytes)
}
