//! The cassette: the model that every command works on, and its shapes on disk. `docs/reference/cassette-format.md`
//! describes the format; [`document`] and [`journal`] read and write it.

pub mod clock;
pub mod combine;
pub mod compare;
pub mod document;
pub mod foreign;
pub mod head;
pub mod journal;
pub(crate) mod lock;
mod manifest;
pub mod merge;
pub mod model;
mod once;
pub mod owner;
pub mod part;
pub mod record;
pub mod scrub;
pub mod segments;
pub mod series;
pub mod share;
pub mod state;

pub use head::{Ended, Exit, Head, Process, Server, Transport};
pub use model::{Cassette, Timing};
pub use record::{Body, Record, Side};

/// The format number this version writes, and the newest it reads.
pub const FORMAT: u64 = 1;
