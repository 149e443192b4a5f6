//! Playing tasks: a live task goes through the recorded snapshots at the pace of its client.

use std::collections::HashSet;

use super::live;
use super::player::{Output, Player, Request};
use super::session::Play;
use super::tape::Item;
use super::tasks::{Gate, Instance, names_in, object_in, task_id};
use crate::jsonrpc::message::{member, member_at};
use crate::jsonrpc::{pretty, string};
use crate::mcp::{self, Era, code};

impl Player {
    /// An answer that creates a task creates a live one.
    pub(super) fn task_created(&mut self, play: &mut Play, item: &Item, now: u64) {
        if self.tasks.timelines.is_empty() || play.task.is_some() {
            return;
        }
        let text = &self.tape.text;
        let Some(object) = item.view.result.and_then(|result| object_in(text, result)) else { return };
        let Some(recorded) = task_id(text, object) else { return };
        let Some(&timeline) = self.tasks.by_id.get(&recorded) else { return };
        let Some(known) = self.tasks.timelines.get(timeline) else { return };
        let taken = self.tasks.instances.iter().filter(|instance| instance.timeline == timeline).count();
        let id = if taken == 0 { recorded } else { format!("{recorded}-{}", taken + 1) };
        let wall = self.options.started.saturating_add(i64::try_from(now).unwrap_or(0));
        play.task = Some(self.tasks.instances.len());
        self.tasks.instances.push(Instance {
            timeline,
            session: play.session,
            id,
            at: 0,
            shift: known.created.map_or(0, |created| wall.saturating_sub(created)),
            provided: HashSet::new(),
            replied: false,
            cancelled: false,
            results: 0,
        });
    }

    /// After an answer: a task that was never polled moves on by itself, and its result ends it.
    pub(super) fn task_answered(&mut self, play: &Play, now: u64) {
        let Some(index) = play.task else { return };
        let is_result = play.exchange.is_some_and(|exchange| {
            self.tasks.timelines.iter().any(|timeline| timeline.results.contains(&exchange))
        });
        if is_result {
            let last = self.tasks.instances.get(index).and_then(|instance| {
                self.tasks
                    .timelines
                    .get(instance.timeline)
                    .map(|timeline| timeline.snapshots.len().saturating_sub(1))
            });
            if let (Some(last), Some(instance)) = (last, self.tasks.instances.get_mut(index)) {
                instance.at = last;
            }
        } else {
            self.task_moves(index, now);
        }
    }

    fn task_moves(&mut self, index: usize, now: u64) {
        let instance = self.tasks.instances.get(index);
        let polled = instance
            .and_then(|instance| self.tasks.timelines.get(instance.timeline))
            .is_none_or(|t| t.polled);
        while !polled && self.task_steps(index, now) {}
    }

    /// Enters the next snapshot, if it may be; says so where the recorded server said so.
    fn task_steps(&mut self, index: usize, now: u64) -> bool {
        let Some(next) = self.tasks.reachable(&self.tape.text, index) else { return false };
        let Some(instance) = self.tasks.instances.get_mut(index) else { return false };
        instance.at = next;
        let session = instance.session;
        let timeline = self.tasks.timelines.get(instance.timeline);
        let announced = timeline
            .and_then(|timeline| timeline.snapshots.get(next))
            .and_then(|snapshot| snapshot.announced);
        if let Some(item) = announced {
            self.announce(session, index, item, now);
        }
        true
    }

    fn announce(&mut self, session: usize, index: usize, item: u32, _now: u64) {
        let Some(item) = self.tape.item(item).copied() else { return };
        let text = &self.tape.text;
        let mut splice = live::Splice::new(text, item.view);
        for (span, value) in self.tasks.edits(text, &item.view, Some(index)) {
            splice.put(Some(span), &value);
        }
        if live::subscription(text, &item.view).is_some() {
            let id = self.tasks.instances.get(index).map(|instance| format!("taskIds {}", instance.id));
            let listen = self.plays.values().find(|play| {
                play.session == session
                    && play.listen
                    && id.as_ref().is_some_and(|id| play.filter.contains(id))
            });
            let Some(listen) = listen else { return };
            splice.subscription(&listen.id);
        }
        let line = splice.line();
        self.out.push(Output::Message { session, text: line, alone: false });
    }

    /// Answers `tasks/*` about a live task from its timeline. `false`: not about one.
    pub(super) fn task_request(&mut self, request: &Request<'_>, now: u64) -> bool {
        if self.tasks.instances.is_empty() || !request.method.starts_with("tasks/") {
            return false;
        }
        if request.method == "tasks/list" {
            return self.list_tasks(request);
        }
        let Some(id) = mcp::target(&request.method, request.text, &request.view) else { return false };
        let Some(index) = self.tasks.live(request.session, &id) else { return false };
        self.report.hits += 1;
        self.mark_task_exchanges(index);
        match request.method.as_str() {
            "tasks/get" => {
                self.task_steps(index, now);
                self.answer_task(request, index);
            }
            "tasks/update" => {
                let responses =
                    request.view.params.and_then(|params| member(request.text, params, "inputResponses"));
                if let Some(instance) = self.tasks.instances.get_mut(index) {
                    instance.provided.extend(names_in(request.text, responses));
                }
                self.answer(
                    request.session,
                    request.batch,
                    live::result(request.id, "{\"resultType\":\"complete\"}"),
                );
                self.task_moves(index, now);
            }
            "tasks/cancel" => self.cancel_task(request, index),
            "tasks/result" => self.task_result(request, index, now),
            _ => return false,
        }
        true
    }

    /// Polling at another pace than recorded leaves none of the task's exchanges unused.
    fn mark_task_exchanges(&mut self, index: usize) {
        let instance = self.tasks.instances.get(index);
        let Some(timeline) = instance.and_then(|instance| self.tasks.timelines.get(instance.timeline)) else {
            return;
        };
        for &exchange in &timeline.exchanges {
            if let Some(taken) = self.taken.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
                *taken = true;
            }
        }
    }

    fn answer_task(&mut self, request: &Request<'_>, index: usize) {
        let object = self.tasks.current(&self.tape.text, index).unwrap_or_default();
        let modern = request.era == Era::Modern;
        // Creation and notifications carry no result type of a poll (tasks extension, "Polling").
        let result = match object.strip_prefix('{') {
            Some(rest) if modern && !object.contains("\"resultType\":\"complete\"") => {
                let rest = rest.replacen("\"resultType\":\"task\",", "", 1).replacen(
                    ",\"resultType\":\"task\"",
                    "",
                    1,
                );
                format!("{{\"resultType\":\"complete\",{rest}")
            }
            _ => object,
        };
        self.answer(request.session, request.batch, live::result(request.id, &result));
    }

    fn cancel_task(&mut self, request: &Request<'_>, index: usize) {
        let text = &self.tape.text;
        let terminal = self.tasks.is_terminal(text, index);
        if terminal && request.era == Era::Legacy {
            let error = live::error(request.id, code::INVALID_PARAMS, "the task has already ended", None);
            return self.answer(request.session, request.batch, error);
        }
        let Some(instance) = self.tasks.instances.get_mut(index) else { return };
        if !terminal {
            instance.cancelled = true;
            let snapshots = self.tasks.timelines.get(instance.timeline).map(|timeline| &timeline.snapshots);
            let aftermath =
                snapshots.and_then(|list| list.iter().position(|snapshot| snapshot.gate == Gate::Cancel));
            if let Some(aftermath) = aftermath.filter(|aftermath| *aftermath > instance.at) {
                instance.at = aftermath;
            }
        }
        if request.era == Era::Legacy {
            return self.answer_task(request, index);
        }
        let timeline =
            self.tasks.instances.get(index).and_then(|instance| self.tasks.timelines.get(instance.timeline));
        let recorded =
            timeline.and_then(|timeline| timeline.cancel_answer).map(|span| pretty::packed(span.of(text)));
        let result = recorded.unwrap_or_else(|| "{\"resultType\":\"complete\"}".to_owned());
        self.answer(request.session, request.batch, live::result(request.id, &result));
    }

    /// The recorded result, with the questions that were asked on its stream, whenever the client asks for it.
    fn task_result(&mut self, request: &Request<'_>, index: usize, now: u64) {
        let instance = self.tasks.instances.get_mut(index);
        let timeline = instance.and_then(|instance| {
            let timeline = self.tasks.timelines.get(instance.timeline)?;
            let nth = instance.results.min(timeline.results.len().checked_sub(1)?);
            instance.results += 1;
            timeline.results.get(nth).copied().map(|exchange| (exchange, instance.results == 1))
        });
        match timeline {
            Some((exchange, first)) => self.start_for_task(request, exchange, first, index, now),
            None => {
                let error =
                    live::error(request.id, code::LOST, "mcpreel: this task's result was not recorded", None);
                self.warn("a task's result was asked for and is not in the cassette".to_owned());
                self.answer(request.session, request.batch, error);
            }
        }
    }

    /// A reply to a question that belongs to a task opens the gate behind it.
    pub(super) fn task_replied(&mut self, ask: u32) {
        let Some(item) = self.tape.item(ask) else { return };
        let text = &self.tape.text;
        let meta = ["_meta", "io.modelcontextprotocol/related-task", "taskId"];
        let id = item.view.params.and_then(|params| member_at(text, params, &meta));
        let Some(id) = id.map(|span| string::decode(span.of(text)).into_owned()) else { return };
        if let Some(&timeline) = self.tasks.by_id.get(&id) {
            for instance in self.tasks.instances.iter_mut().filter(|instance| instance.timeline == timeline) {
                instance.replied = true;
            }
        }
    }

    fn list_tasks(&mut self, request: &Request<'_>) -> bool {
        let text = &self.tape.text;
        let mine = |instance: &Instance| instance.session == request.session;
        let objects: Vec<String> = (0..self.tasks.instances.len())
            .filter(|&index| self.tasks.instances.get(index).is_some_and(mine))
            .filter_map(|index| self.tasks.current(text, index))
            .collect();
        self.report.hits += 1;
        let result = format!("{{\"tasks\":[{}]}}", objects.join(","));
        self.answer(request.session, request.batch, live::result(request.id, &result));
        true
    }
}
