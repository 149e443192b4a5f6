//! What a player has its caller do.

use super::faults::effect::Effect;
use super::framing::Framing;

/// What the caller is to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send this message, one line without its end.
    Message {
        /// To this session.
        session: usize,
        /// On the stream of the request that came with this number; `None` for what belongs to no request.
        carrier: Option<u64>,
        /// The message.
        text: String,
        /// What it is to its request.
        part: Part,
        /// Nothing may share a write with it.
        alone: bool,
    },
    /// HTTP: an exchange begins to answer a request.
    Begins {
        /// The request.
        carrier: u64,
        /// How its answer goes out.
        framing: Framing,
    },
    /// HTTP: the stream of a request ended here, and its client came back for the rest.
    Pause {
        /// The request.
        carrier: u64,
    },
    /// A request gets no message any more, and no answer: it was cancelled, or HTTP said all.
    Over {
        /// The request.
        carrier: u64,
        /// Its connection breaks off.
        cut: bool,
    },
    /// Tell the user.
    Note(String),
    /// Tell a user who asks for more.
    Detail(String),
    /// A fault.
    Fault(Effect),
    /// Send this to the live server.
    Onward {
        /// Of this session.
        session: usize,
        /// What the client sent it with.
        carrier: u64,
        /// The id under which the live server answers; `None`: it does not.
        id: Option<String>,
        /// The message, one line without its end.
        text: String,
    },
    /// HTTP: break off what the live server answers to the request of this id.
    HangUp {
        /// Of this session.
        session: usize,
        /// The id that the live server knows.
        id: String,
    },
    /// The recorded server ended here: end the stream.
    EndOfStream {
        /// Of this session.
        session: usize,
    },
}

/// What a message is to the request that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// More follows.
    Inner,
    /// The recorded answer, the last message.
    Answer,
    /// An answer that is not recorded as it is, the last message.
    Made,
}
