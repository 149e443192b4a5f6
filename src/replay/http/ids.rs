//! Session ids: whoever knows one has the session, so they come from the system's generator.

use std::fmt::Write as _;
use std::hash::{BuildHasher as _, RandomState};

/// 128 random bits in hexadecimal; `None` when the system has no randomness to give.
#[must_use]
pub fn fresh() -> Option<String> {
    let bytes = random()?;
    Some(bytes.iter().fold(String::with_capacity(32), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    }))
}

/// Makes ids that it knows again, however many it made and forgot.
#[derive(Debug, Default)]
pub struct Issuer(RandomState);

impl Issuer {
    /// A fresh id, with a mark of this issuer behind it.
    #[must_use]
    pub fn issue(&self) -> Option<String> {
        let id = fresh()?;
        Some(format!("{id}{:016x}", self.0.hash_one(&id)))
    }

    /// Whether an id came from this issuer. The mark tells the ids of this replay from those of an earlier one; it
    /// gives access to nothing.
    #[must_use]
    pub fn issued(&self, id: &str) -> bool {
        id.len() == 48
            && id
                .split_at_checked(32)
                .is_some_and(|(id, mark)| mark == format!("{:016x}", self.0.hash_one(id)))
    }
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
    let mut bytes = [0; 16];
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&RandomState::new().hash_one(std::process::id()).to_ne_bytes());
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_issuer_knows_its_ids() {
        let (one, other) = (Issuer::default(), Issuer::default());
        let id = one.issue().unwrap();
        assert_eq!(id.len(), 48);
        assert!(one.issued(&id) && !other.issued(&id));
        for wrong in
            ["", "made-up", &id[1..], &format!("{id}0"), &id.replace(|c: char| c.is_ascii_digit(), "a")]
        {
            assert!(!one.issued(wrong), "{wrong}");
        }
    }
}
