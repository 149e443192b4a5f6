//! Replay: a recorded session played to a live client. The [`tape`] is what was recorded, the [`player`] decides what
//! the client gets, and neither does any I/O; [`stdio`] connects a player to pipes, [`http`] to sockets.

mod alike;
mod answers;
pub mod behind;
mod choose;
pub mod facts;
mod fault_play;
pub mod faults;
mod framing;
pub mod http;
mod index;
pub mod inputs;
pub mod key;
mod leaving;
mod lenient;
pub mod live;
mod miss;
pub mod nearest;
mod onward;
mod options;
mod output;
pub mod pace;
mod place;
mod placeholders;
pub mod player;
pub mod refused;
mod replaced;
pub mod report;
pub mod session;
mod spelled;
pub mod stdio;
pub mod tape;
mod task_play;
pub mod tasks;
mod threads;
pub mod told;
mod unrecorded;
mod unsolicited;

/// Where a replay says what is not for its client. `Debug` is not asked for: these are closures.
#[allow(missing_debug_implementations, reason = "closures have none")]
pub struct Aside {
    /// Something for the user to know. Not to wait for anyone.
    pub note: Box<dyn Fn(&str) + Send>,
    /// Something that only those want to know who ask for more. Not to wait for anyone.
    pub detail: Box<dyn Fn(&str) + Send>,
    /// Text for standard error as it is, which a fault puts there.
    pub noise: Box<dyn Fn(&str) + Send>,
}
