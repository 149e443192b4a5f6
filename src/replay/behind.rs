//! The live server behind a replay over pipes, from the replay's side: it is started when something is for it, and what
//! it does not answer any more is answered by us.

use crossbeam_channel::{Receiver, Sender};

use super::Aside;
use super::player::Player;

/// A server that can be started.
pub trait LiveServer {
    /// Starts it.
    ///
    /// # Errors
    ///
    /// Why it cannot be, for people.
    fn start(&mut self) -> Result<Wire, String>;

    /// How it has ended, for people. Called once the receiver of its wire is closed.
    fn ended(&mut self) -> String;
}

/// What goes to a server that was started and comes from it.
#[derive(Debug)]
pub struct Wire {
    /// Messages for it, without the ends of their lines. Not to block; dropping it ends the server's input.
    pub to: Sender<String>,
    /// Its lines. Closed when it has ended.
    pub from: Receiver<Vec<Vec<u8>>>,
}

/// How far it is.
pub(super) enum Behind<'l> {
    /// Not started.
    Idle(&'l mut dyn LiveServer),
    Running(&'l mut dyn LiveServer, Wire),
    /// There is none, or none any more, and why.
    Gone(String),
}

impl<'l> Behind<'l> {
    pub(super) fn new(live: Option<&'l mut dyn LiveServer>) -> Self {
        live.map_or_else(|| Self::Gone("there is no live server".to_owned()), Self::Idle)
    }

    /// What it says, while it runs.
    pub(super) fn lines(&self) -> Option<&Receiver<Vec<Vec<u8>>>> {
        match self {
            Self::Running(_, wire) => Some(&wire.from),
            Self::Idle(_) | Self::Gone(_) => None,
        }
    }

    /// Sends it something; a request has an id, and gets an answer in any case.
    pub(super) fn send(&mut self, player: &mut Player, session: usize, id: Option<&str>, text: String) {
        if matches!(self, Self::Idle(_))
            && let Self::Idle(live) = std::mem::replace(self, Self::Gone(String::new()))
        {
            *self = match live.start() {
                Ok(wire) => Self::Running(live, wire),
                Err(why) => Self::Gone(format!("the live server cannot be started: {why}")),
            };
        }
        match self {
            // One that has just ended is heard of by its receiver.
            Self::Running(_, wire) => drop(wire.to.send(text)),
            Self::Gone(why) if id.is_some() => player.unanswered_live(session, id, why),
            Self::Gone(_) | Self::Idle(_) => {}
        }
    }

    /// It has ended, whatever it still had to answer.
    pub(super) fn has_ended(&mut self, player: &mut Player, session: usize, aside: &Aside) {
        if let Self::Running(live, _) = std::mem::replace(self, Self::Gone(String::new())) {
            let why = live.ended();
            (aside.note)(&why);
            player.unanswered_live(session, None, &why);
            *self = Self::Gone(why);
        }
    }
}
