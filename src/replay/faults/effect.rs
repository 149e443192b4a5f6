//! What a fault asks of the transport.

/// Something for the transport to do, for one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Effect {
    /// The session of the request.
    pub session: usize,
    /// The request.
    pub carrier: u64,
    /// What to do.
    pub act: Act,
}

/// What is to be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Act {
    /// HTTP: the head of the answer goes out. `mute`: and nothing ever follows it, not even a comment.
    Head {
        /// Nothing follows.
        mute: bool,
    },
    /// HTTP: this is the answer.
    Status {
        /// The status.
        status: u16,
        /// Its header fields.
        headers: Vec<(String, String)>,
        /// Its body.
        body: String,
    },
    /// HTTP: the session is over, and the request is refused as one of a session that nobody knows.
    Expired,
    /// The connection is gone, without an answer. On a pipe: the end.
    Reset,
    /// HTTP: the answer breaks off here; what follows is for a client that comes back.
    Break,
    /// The next message goes out slowly.
    Slow {
        /// Bytes per second.
        rate: u64,
        /// The id of the request that it belongs to.
        id: String,
    },
    /// The client has cancelled the request with this id, which is answered: what is slow about it hurries. Over HTTP
    /// its connection tells.
    Hurry(String),
    /// This answer goes out up to its half.
    Half(String),
    /// This answer goes out, and then the connection closes. On a pipe: the end.
    Hangup(String),
    /// Standard error gets this.
    Noise(String),
    /// The program ends with this status.
    Exit(u8),
}

/// The first half of a text, up to the beginning of a character.
#[must_use]
pub fn half(text: &str) -> &str {
    let mut end = text.len() / 2;
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_half_is_text() {
        assert_eq!(["", "a", "abcd", "é", "aéb"].map(super::half), ["", "", "ab", "", "a"]);
    }
}
