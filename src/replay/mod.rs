//! Replay: a recorded session played to a live client. The [`tape`] is what was recorded, the [`player`] decides what
//! the client gets, and neither does any I/O; [`stdio`] connects a player to pipes.

pub mod answers;
pub mod key;
pub mod live;
pub mod nearest;
pub mod player;
pub mod report;
pub mod session;
pub mod stdio;
pub mod tape;
pub mod tasks;
