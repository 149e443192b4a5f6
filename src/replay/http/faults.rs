//! What faults do to connections.

use super::hub::{Event, Hub, Sent};
use super::sessions::no_session;
use crate::replay::faults::effect::{Act, Effect, half};

impl Hub {
    /// Carries out a fault.
    pub(super) fn carry_out(&mut self, sent: &mut Sent, effect: Effect) {
        let Effect { session, carrier, act } = effect;
        let mut old = self.lives.get_mut(&session).filter(|live| live.old);
        let last = match act {
            Act::Noise(text) => return (self.aside.noise)(&text),
            Act::Exit(status) => return self.exit = Some(status),
            Act::Hurry(_) => return,
            Act::Slow { rate, .. } => match old {
                Some(live) => return live.rate = Some(rate),
                None => return self.push(sent, carrier, Event::Slow(rate)),
            },
            Act::Head { mute } => return self.push(sent, carrier, Event::Head { mute }),
            Act::Half(text) => match &mut old {
                Some(live) => return live.tell(half(&text).to_owned()),
                None => Event::Half(text),
            },
            Act::Hangup(text) => {
                if let Some(live) = &mut old {
                    live.tell(text);
                    return self.forget(session);
                }
                self.settle_session(sent, carrier, &text);
                Event::Hangup(text)
            }
            Act::Reset if old.is_some() => return self.forget(session),
            Act::Reset => Event::Reset,
            Act::Status { status, headers, body } => Event::Whole { status, headers, body },
            Act::Expired => Event::Refused(no_session()),
            Act::Break => Event::Over { cut: true },
        };
        let expired = matches!(last, Event::Refused(_));
        if !matches!(last, Event::Hangup(_) | Event::Over { .. }) {
            // An `initialize` that gets no answer opens nothing.
            self.settle_session(sent, carrier, "");
        }
        self.push(sent, carrier, last);
        self.waiters.remove(&carrier);
        if expired {
            self.forget(session);
        }
    }
}
