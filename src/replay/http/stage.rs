//! Where all threads meet the player: one at a time.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded};

use super::hub::{Command, Hub};
use crate::replay::player::Player;
use crate::replay::stdio::Ended;

/// The player's side behind its lock. What goes to connections is in their channels when the lock is given back.
pub(super) struct Stage {
    /// Until the end. Poisoned, it is as good as over.
    hub: Mutex<Option<Hub>>,
    started: Instant,
    /// Wakes the thread that plays what time brings, and ends it all.
    wake: Sender<()>,
}

impl Stage {
    /// A stage, and what tells that [`Stage::until_due`] has become shorter or [`Stage::exit`] is set.
    pub(super) fn new(hub: Hub) -> (Self, Receiver<()>) {
        let (wake, woken) = bounded(1);
        (Self { hub: Mutex::new(Some(hub)), started: Instant::now(), wake }, woken)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Has a command played; `false` when the replay is over.
    pub(super) fn take(&self, command: Command) -> bool {
        let sooner = self.with(|hub, now| {
            let due = hub.next_deadline();
            hub.take(command, now);
            hub.tick(now);
            hub.pass_on();
            hub.exit.is_some() || hub.next_deadline().is_some_and(|at| due.is_none_or(|due| at < due))
        });
        if sooner == Some(true) {
            // One that is on its way is enough.
            let _ = self.wake.try_send(());
        }
        sooner.is_some()
    }

    /// Plays what is due.
    pub(super) fn tick(&self) {
        self.with(|hub, now| {
            hub.tick(now);
            hub.pass_on();
        });
    }

    /// How long nothing is due; `None`: for ever.
    pub(super) fn until_due(&self) -> Option<Duration> {
        let at = self.with(|hub, _| hub.next_deadline())??;
        Some(Duration::from_micros(at.saturating_sub(self.now())))
    }

    /// The status with which a fault ends the program.
    pub(super) fn exit(&self) -> Option<u8> {
        self.with(|hub, _| hub.exit)?
    }

    fn with<T>(&self, play: impl FnOnce(&mut Hub, u64) -> T) -> Option<T> {
        let mut hub = self.hub.lock().ok()?;
        // Looked at under the lock: time does not go backwards for the player.
        let now = self.now();
        hub.as_mut().map(|hub| play(hub, now))
    }

    /// Ends all answers and sessions, and gives the player back. What still comes in finds nobody. `None` if a request
    /// made it panic.
    pub(super) fn end(&self, how: Ended) -> Option<Player> {
        let now = self.now();
        let mut hub = self.hub.lock().ok()?.take()?;
        match how {
            Ended::Fault(_) => hub.abandon(),
            _ => hub.end(now),
        }
        Some(hub.into_player())
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::cassette::Cassette;
    use crate::jsonrpc::message::View;
    use crate::mcp::Era;
    use crate::redact;
    use crate::replay::Aside;
    use crate::replay::http::checks::Incoming;
    use crate::replay::http::hub::Event;
    use crate::replay::key::Rules;
    use crate::replay::player::Options;
    use crate::replay::tape::Tape;

    const WEB: &str = r#""servers":{"demo":{"transport":"http","url":"http://127.0.0.1:1/mcp"}}"#;
    const EMPTY: &str = "";
    /// A session, and what was never answered: a call, and an `initialize`.
    const HELD: &str = r#"
{"from":"client","exchange":1,"payload":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}},
{"from":"server","exchange":1,"session":1,"http":{"status":200,"type":"json"},"payload":{"jsonrpc":"2.0","id":0,"result":{}}},
{"from":"client","exchange":2,"session":1,"payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}},
{"from":"server","exchange":2,"session":1,"http":{"status":200,"type":"sse"},"end":"client_closed"},
{"from":"client","exchange":3,"payload":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}},
{"from":"server","exchange":3,"session":2,"http":{"status":200,"type":"json"},"end":"client_closed"}"#;

    const PIPED: &str = r#""servers":{"demo":{"transport":"stdio","command":["x"]}},"processes":[{"server":"demo","ended":"server_exited"}]"#;
    /// A request that was cancelled, and one at which the server died.
    const DIES: &str = r#"
{"from":"client","payload":{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}},
{"from":"server","payload":{"jsonrpc":"2.0","id":0,"result":{}}},
{"from":"client","payload":{"jsonrpc":"2.0","id":1,"method":"held","params":{"name":"x"}}},
{"from":"client","payload":{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}},
{"from":"client","payload":{"jsonrpc":"2.0","id":2,"method":"dies","params":{"name":"x"}}}"#;

    type Say = Box<dyn Fn(&str) + Send>;

    fn stage(head: &str, messages: &str, aside: fn() -> Say) -> Stage {
        let text = format!(
            r#"{{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"mcpreel 0.1.0",{head},"messages":[{messages}]}}"#
        );
        let cassette = Cassette::parse(Path::new("c.json"), text.into()).unwrap();
        let rules = Rules::new(&[], &[], Arc::new(redact::Rules::new(false, &[]).unwrap())).unwrap();
        let options = Options { http: true, sessions: true, ..Options::default() };
        let player = Player::new(Tape::new(cassette, 0), rules, options);
        let offer = Arc::new(player.offer());
        let aside = Aside { note: aside(), detail: aside(), noise: aside() };
        Stage::new(Hub::new(player, offer, aside, None)).0
    }

    /// Posts a request, and gives what it was told at once.
    fn post(stage: &Stage, carrier: u64, method: &str, session: Option<&str>) -> Option<Vec<Event>> {
        let text = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"{method}","params":{{"name":"x"}}}}"#);
        let view = View::of(&text).unwrap();
        let opens = method == "initialize";
        let incoming = Incoming { era: Era::Legacy, opens, asks: true, batch: false, dropped: false, view };
        let (events, told) = crossbeam_channel::unbounded();
        let session = session.map(str::to_owned);
        let (connection, fields) = (carrier, None);
        let key = stage.with(|hub, _| hub.player.keys()).and_then(|keys| keys.of(&text, &view));
        let post = Command::Post { carrier, connection, session, incoming, text, key, fields, events };
        stage.take(post).then(|| told.try_iter().flatten().collect())
    }

    /// The sessions that clients have, and the place of the player's next one.
    fn kept(stage: &Stage) -> (usize, usize) {
        stage.with(|hub, _| (hub.lives.len() + hub.ids.len() + hub.waiters.len(), hub.new_session())).unwrap()
    }

    #[test]
    fn a_session_whose_client_left_before_it_was_opened_leaves_nothing() {
        let stage = stage(WEB, HELD, || Box::new(|_| {}));
        assert!(matches!(&post(&stage, 1, "initialize", None).unwrap()[..], [Event::Session(_), ..]));
        for carrier in 2..5 {
            let told = post(&stage, carrier, "initialize", None).unwrap();
            assert!(!told.iter().any(|event| matches!(event, Event::Message(..))), "{told:?}");
            assert!(stage.take(Command::Left { carrier }));
        }
        assert_eq!(kept(&stage), (2, 1));
    }

    #[test]
    fn a_session_that_ends_during_a_call_is_given_up_with_it() {
        let stage = stage(WEB, HELD, || Box::new(|_| {}));
        let told = post(&stage, 1, "initialize", None).unwrap();
        let [Event::Session(id), ..] = &told[..] else { panic!("{told:?}") };
        post(&stage, 2, "tools/call", Some(id)).unwrap();
        let (events, _told) = crossbeam_channel::unbounded();
        assert!(stage.take(Command::Delete { session: Some(id.clone()), fields: None, events }));
        assert!(stage.take(Command::Left { carrier: 2 }));
        assert_eq!(kept(&stage), (0, 0));
    }

    #[test]
    fn a_client_of_the_old_transport_that_leaves_during_a_call_leaves_nothing() {
        let stage = stage(WEB, HELD, || Box::new(|_| {}));
        let (events, told) = crossbeam_channel::unbounded();
        assert!(stage.take(Command::OpenOld { carrier: 1, events }));
        let told: Vec<Event> = told.try_iter().flatten().collect();
        let [Event::Endpoint(session)] = &told[..] else { panic!("{told:?}") };
        let (events, _told) = crossbeam_channel::unbounded();
        let body = br#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x"}}"#.to_vec();
        assert!(stage.take(Command::PostOld { connection: 2, session: session.clone(), body, events }));
        assert!(stage.take(Command::Left { carrier: 1 }));
        assert_eq!(kept(&stage), (0, 0));
    }

    #[test]
    fn a_session_that_ends_with_the_recorded_server_leaves_nothing() {
        let stage = stage(PIPED, DIES, || Box::new(|_| {}));
        let told = post(&stage, 1, "initialize", None).unwrap();
        let [Event::Session(id), ..] = &told[..] else { panic!("{told:?}") };
        post(&stage, 2, "held", Some(id)).unwrap();
        let told = post(&stage, 3, "dies", Some(id)).unwrap();
        assert!(matches!(told.last(), Some(Event::Over { cut: true })), "{told:?}");
        assert_eq!(kept(&stage), (0, 0));
    }

    #[test]
    fn after_a_request_that_cannot_be_played_there_are_no_answers_and_no_good_end() {
        let stage = stage(WEB, EMPTY, || Box::new(|text| panic!("{text}")));
        // A miss, which is to be told.
        let miss = || post(&stage, 1, "tools/call", None);
        assert!(catch_unwind(AssertUnwindSafe(miss)).is_err());
        assert!(miss().is_none());
        assert!(stage.until_due().is_none());
        assert!(stage.end(Ended::Signal(15)).is_none());
    }
}
