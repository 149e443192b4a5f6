//! What the server sent on its own account: who may have it, and on which subscription.

use super::answers::WITHOUT_STRICT;
use super::inputs::Inputs;
use super::live::Splice;
use super::player::{Output, Part, Player};
use super::report::Miss;
use super::session::Play;
use super::tape::Item;
use crate::cassette::Side;
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::string;
use crate::mcp::{self, Era};
use crate::redact::Written;

impl Player {
    pub(super) fn wants_log(&self, session: usize, play: Option<&Play>, item: &Item) -> bool {
        let text = &self.tape.text;
        let level = item.view.params.and_then(|params| member(text, params, "level"));
        let severity = level.and_then(|level| mcp::severity(&string::decode(level.of(text))));
        let era = play.map_or(Era::Legacy, |play| play.era);
        let wanted = match era {
            Era::Modern => play.and_then(|play| play.log_level),
            Era::Legacy => {
                Some(self.sessions.get(session).and_then(|session| session.log_level).unwrap_or(0))
            }
        };
        // What a server sent although its client had asked for less, it would send to a client that asks for the same.
        wanted.is_some_and(|wanted| {
            severity.is_none_or(|severity| severity >= wanted)
                || self.level_when_recorded(play, item) == Some(wanted)
        })
    }

    /// The log level that the recorded client had asked for when the server sent `item`.
    fn level_when_recorded(&self, play: Option<&Play>, item: &Item) -> Option<u8> {
        match play.filter(|play| play.era == Era::Modern) {
            Some(play) => {
                let request = self.tape.request(play.exchange?)?;
                let level = mcp::meta(&self.tape.text, &request.view, mcp::LOG_LEVEL)?;
                mcp::severity(&string::decode(level.of(&self.tape.text)))
            }
            None => {
                let conn = self.tape.conns.get(usize::try_from(item.conn).ok()?)?;
                conn.levels.iter().rev().find(|(record, _)| *record < item.record).map(|(_, level)| *level)
            }
        }
    }

    pub(super) fn is_subscribed(&self, session: usize, item: &Item) -> bool {
        let text = &self.tape.text;
        let uri = item.view.params.and_then(|params| member(text, params, "uri"));
        let uri = uri.map(|uri| string::decode(uri.of(text)));
        self.sessions.get(session).zip(uri).is_some_and(|(session, uri)| session.subscribed.contains(&*uri))
    }

    /// Sends what the server had sent on its own account.
    pub(super) fn release(&mut self, session: usize, items: &[u32], now: u64) {
        for &index in items {
            let Some(item) = self.tape.item(index).copied() else { continue };
            if let Some(&listen) = self.tape.owner.get(&index) {
                self.release_to_listen(session, index, &item, listen, now);
                continue;
            }
            let text = &self.tape.text;
            let method = item.view.method_name(text);
            match (item.from, item.view.shape) {
                (Side::Server, Shape::Request) => {
                    let capabilities =
                        self.sessions.get(session).and_then(|session| session.capabilities.clone());
                    let params = item.view.params.map(|params| params.of(text));
                    if mcp::missing_capability(&method, params, capabilities.as_deref()).is_none() {
                        self.send_question(session, (0, index), None, &item, None);
                    }
                }
                (Side::Server, Shape::Notification) => {
                    let allowed = match &*method {
                        "notifications/message" => {
                            self.wants_log(session, None, &item) && self.is_legacy(session)
                        }
                        "notifications/resources/updated" => self.is_subscribed(session, &item),
                        _ => true,
                    };
                    if allowed {
                        let line = Splice::new(text, item.view).line();
                        let (carrier, part) = (None, Part::Inner);
                        self.out.push(Output::Message { session, carrier, text: line, part, alone: false });
                    }
                }
                _ => {}
            }
        }
    }

    /// The client answers a question that no request waits for.
    pub(super) fn reply_to_nobody(&mut self, ask: u32, text: &str, view: &View) {
        let recorded = self.tape.replies.get(&ask).copied();
        let Some(why) = recorded.and_then(|answer| self.reply_difference(ask, answer, text, view)) else {
            return;
        };
        if !self.options.strict {
            return self.warn(why);
        }
        let question = self.tape.item(ask);
        let method = question.map(|question| question.view.method_name(&self.tape.text).into_owned());
        let hint = WITHOUT_STRICT.to_owned();
        self.add_miss(Miss { method: method.unwrap_or_default(), name: None, why, nearest: None, hint });
    }

    /// How the client's answer to a question differs from the recorded one, as far as it matters, in words.
    pub(super) fn reply_difference(&self, ask: u32, answer: u32, text: &str, view: &View) -> Option<String> {
        let (question, recorded) = self.tape.item(ask).zip(self.tape.item(answer))?;
        let written = self.tape.written_within(recorded);
        let old = Inputs::of_reply(recorded.view.whole.of(&self.tape.text), &self.rules, written);
        let new = Inputs::of_reply(view.whole.of(text), &self.rules, Written::Live);
        let difference = match (old, new) {
            (Some(old), Some(new)) if new.stand_for(&old, self.options.inputs, &self.rules) => return None,
            (Some(_), Some(_)) => "answered otherwise than recorded",
            (Some(_), None) => "refused, and was answered when recorded",
            (None, Some(_)) => "answered, and was refused when recorded",
            (None, None) => return None,
        };
        Some(format!("{} was {difference}", question.view.method_name(&self.tape.text)))
    }

    fn is_legacy(&self, session: usize) -> bool {
        self.sessions.get(session).is_none_or(|session| session.era != Some(Era::Modern))
    }

    fn release_to_listen(&mut self, session: usize, index: u32, item: &Item, listen: u32, now: u64) {
        let text = &self.tape.text;
        let method = item.view.method_name(text);
        let open = |play: &Play| play.session == session && play.listen;
        let own = self.plays.iter().find(|(_, play)| open(play) && play.exchange == Some(listen));
        let fits = |play: &Play| admits(&play.filter, &method, text, item);
        let mut others: Vec<u64> =
            self.plays.iter().filter(|(_, play)| open(play) && fits(play)).map(|(n, _)| *n).collect();
        others.sort_unstable();
        let Some(number) = own.map(|(number, _)| *number).or_else(|| others.first().copied()) else { return };
        let Some(mut play) = self.plays.remove(&number) else { return };
        if item.view.shape == Shape::Response {
            self.send_answer(&mut play, index, now);
            self.finish(number, &play, now);
        } else {
            self.send_notification(&mut play, index, now);
            self.plays.insert(number, play);
        }
    }
}

/// Whether a listen with this filter gets this notification (2026-07-28, "Subscriptions"). Types that the filter has
/// no word for go through.
pub(super) fn admits(filter: &[String], method: &str, text: &str, item: &Item) -> bool {
    let param = |name: &str| {
        let span = item.view.params.and_then(|params| member(text, params, name));
        span.map(|span| string::decode(span.of(text)).into_owned()).unwrap_or_default()
    };
    let entry = match method {
        "notifications/tools/list_changed" => "toolsListChanged".to_owned(),
        "notifications/prompts/list_changed" => "promptsListChanged".to_owned(),
        "notifications/resources/list_changed" => "resourcesListChanged".to_owned(),
        "notifications/resources/updated" => format!("resourceSubscriptions {}", param("uri")),
        "notifications/tasks" => format!("taskIds {}", param("taskId")),
        _ => return true,
    };
    filter.contains(&entry)
}
