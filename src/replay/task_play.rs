//! Playing tasks: a live task goes through the recorded snapshots at the pace of its client.

use std::collections::HashSet;

use super::choose::Why;
use super::inputs::Inputs;
use super::live;
use super::player::{Output, Part, Player, Request};
use super::report::Miss;
use super::session::Play;
use super::tape::{Item, Step};
use super::tasks::{Gate, Instance, names_in, object_in, task_id};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::message::{member, member_at};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::{pretty, string};
use crate::mcp::{self, Era, code};
use crate::redact::Written;

impl Player {
    /// An answer that creates a task creates a live one.
    pub(super) fn task_created(&mut self, play: &mut Play, item: &Item, now: u64) {
        if self.tasks.timelines.is_empty() || play.task.is_some() {
            return;
        }
        let text = &self.tape.text;
        let Some(object) = item.view.result.and_then(|result| object_in(text, result)) else { return };
        let Some(recorded) = task_id(text, object) else { return };
        let Some(timeline) = self.tasks.named(item.conn, &recorded) else { return };
        let Some(known) = self.tasks.timelines.get(timeline) else { return };
        let id = self.tasks.fresh_id(&recorded);
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
            aftermath: false,
            followed: 0,
            results: 0,
        });
    }

    /// After an answer: a task that was never polled moves on by itself, and its result ends it.
    pub(super) fn task_answered(&mut self, play: &Play) {
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
            self.task_moves(index);
        }
    }

    /// A subscription was opened: the tasks that it names may go on.
    pub(super) fn tasks_move(&mut self) {
        (0..self.tasks.instances.len()).for_each(|index| self.task_moves(index));
    }

    fn task_moves(&mut self, index: usize) {
        let instance = self.tasks.instances.get(index);
        let polled = instance
            .and_then(|instance| self.tasks.timelines.get(instance.timeline))
            .is_none_or(|t| t.polled);
        while !polled && self.can_hear_of_next(index) && self.task_steps(index) {}
    }

    /// Whether the client can be told of the next snapshot the way the recorded one was.
    fn can_hear_of_next(&self, index: usize) -> bool {
        let announced = self.tasks.instances.get(index).and_then(|instance| {
            self.tasks.timelines.get(instance.timeline)?.snapshots.get(instance.at + 1)?.announced
        });
        let item = announced.and_then(|item| self.tape.item(item));
        item.is_none_or(|item| {
            live::subscription(&self.tape.text, &item.view).is_none() || self.listen_for(index).is_some()
        })
    }

    /// The open subscription that names a task.
    fn listen_for(&self, index: usize) -> Option<&Play> {
        let instance = self.tasks.instances.get(index)?;
        let entry = format!("taskIds {}", instance.id);
        let hears =
            |play: &Play| play.session == instance.session && play.listen && play.filter.contains(&entry);
        let first = self.plays.iter().filter(|(_, play)| hears(play)).min_by_key(|(number, _)| **number);
        first.map(|(_, play)| play)
    }

    /// Enters the next snapshot, if it may be; says so where the recorded server said so.
    fn task_steps(&mut self, index: usize) -> bool {
        let Some(next) = self.tasks.reachable(&self.tape.text, index) else { return false };
        let Some(instance) = self.tasks.instances.get_mut(index) else { return false };
        instance.at = next;
        let session = instance.session;
        let timeline = self.tasks.timelines.get(instance.timeline);
        let Some(snapshot) = timeline.and_then(|timeline| timeline.snapshots.get(next)) else { return true };
        if snapshot.gate == Gate::Input {
            // The next question is another one.
            instance.replied = false;
        }
        if let Some(item) = snapshot.announced {
            self.announce(session, index, item);
        }
        true
    }

    fn announce(&mut self, session: usize, index: usize, item: u32) {
        let Some(item) = self.tape.item(item).copied() else { return };
        let text = &self.tape.text;
        let mut carrier = None;
        let mut splice = live::Splice::new(text, item.view);
        for (span, value) in self.tasks.edits(text, &item.view, item.conn, Some(index)) {
            splice.put(Some(span), &value);
        }
        if live::subscription(text, &item.view).is_some() {
            let Some(listen) = self.listen_for(index) else { return };
            carrier = Some(listen.carrier);
            splice.subscription(&listen.id);
        }
        let text = splice.line();
        self.out.push(Output::Message { session, carrier, text, part: Part::Inner, alone: false });
    }

    /// Answers `tasks/*` about a live task from its timeline. `false`: not about one.
    pub(super) fn task_request(&mut self, request: &Request<'_>, now: u64) -> bool {
        if self.tasks.timelines.is_empty() || !request.method.starts_with("tasks/") {
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
                self.task_steps(index);
                // A state whose questions were all answered while another one asked them is behind the client.
                while self.tasks.is_answered(&self.tape.text, index) && self.task_steps(index) {}
                self.answer_task(request, index);
            }
            "tasks/update" => self.update_task(request, index),
            "tasks/cancel" => self.cancel_task(request, index),
            "tasks/result" => self.task_result(request, index, now),
            _ => return false,
        }
        self.follow_task(request, index, now);
        true
    }

    /// The client answers a task's questions.
    fn update_task(&mut self, request: &Request<'_>, index: usize) {
        let timeline =
            self.tasks.instances.get(index).and_then(|instance| self.tasks.timelines.get(instance.timeline));
        let about = timeline.map_or(&[][..], |timeline| &timeline.exchanges);
        let recorded: Vec<Inputs<'_>> = about
            .iter()
            .filter_map(|exchange| self.tape.request(*exchange))
            .filter_map(|item| {
                let written = self.tape.written_within(item);
                Inputs::of_request(item.view.whole.of(&self.tape.text), &self.rules, written)
            })
            .collect();
        let given = Inputs::of_request(request.view.whole.of(request.text), &self.rules, Written::Live);
        if given.is_some_and(|given| !given.were_given(&recorded, self.options.inputs, &self.rules)) {
            return self.miss(request, Why::Unknown);
        }
        let responses = request.view.params.and_then(|params| member(request.text, params, "inputResponses"));
        if let Some(instance) = self.tasks.instances.get_mut(index) {
            instance.provided.extend(names_in(request.text, responses));
        }
        self.answer(request.to(), Part::Made, live::result(request.id, "{\"resultType\":\"complete\"}"));
        self.task_moves(index);
    }

    /// What the server sent on its own account while it was asked about a task comes when that is asked live; polls
    /// need not be as many as they were, so the last one brings what is left.
    fn follow_task(&mut self, request: &Request<'_>, index: usize, now: u64) {
        let text = &self.tape.text;
        let terminal = self.tasks.is_terminal(text, index);
        let Some(instance) = self.tasks.instances.get_mut(index) else { return };
        let Some(timeline) = self.tasks.timelines.get(instance.timeline) else { return };
        let methods = timeline.exchanges.iter().skip(instance.followed).map(|exchange| {
            self.tape.request(*exchange).map(|item| item.view.method_name(text)).unwrap_or_default()
        });
        let up_to = match terminal {
            true => timeline.exchanges.len(),
            false => {
                let next = methods.into_iter().position(|method| method == request.method);
                next.map_or(instance.followed, |next| instance.followed + next + 1)
            }
        };
        let passed = timeline.exchanges.get(instance.followed..up_to).unwrap_or_default();
        instance.followed = up_to;
        if instance.id != timeline.id {
            return;
        }
        // Questions and their results are played as they are.
        let passed = passed.iter().filter(|exchange| !timeline.results.contains(exchange));
        let mut items = Vec::new();
        for exchange in passed.filter_map(|exchange| self.tape.exchange(*exchange)) {
            items.extend(exchange.steps.iter().filter_map(|step| match step {
                Step::Send(item) => Some(*item),
                _ => None,
            }));
            items.extend(&exchange.after);
        }
        items.retain(|item| {
            let item = self.tape.item(*item);
            item.is_some_and(|item| item.view.method_name(text) != "notifications/progress")
        });
        self.release(request.session, &items, now);
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
        let mut object = self.tasks.current(&self.tape.text, index).unwrap_or_default();
        if request.era == Era::Modern {
            // Creation and notifications carry no result type of a poll (tasks extension, "Polling").
            let whole = Span::new(0, object.len());
            let mut edits = Edits::new();
            match member(&object, whole, "resultType") {
                Some(kind) => edits.replace(kind, "\"complete\""),
                None => edits.replace(Span::new(1, 1), "\"resultType\":\"complete\","),
            }
            object = edits.apply(&object);
        }
        self.answer(request.to(), Part::Made, live::result(request.id, &object));
    }

    fn cancel_task(&mut self, request: &Request<'_>, index: usize) {
        let text = &self.tape.text;
        let terminal = self.tasks.is_terminal(text, index);
        if terminal && request.era == Era::Legacy {
            let error = live::error(request.id, code::INVALID_PARAMS, "the task has already ended", None);
            return self.answer(request.to(), Part::Made, error);
        }
        let Some(instance) = self.tasks.instances.get_mut(index) else { return };
        if !terminal {
            instance.cancelled = true;
            let snapshots = self.tasks.timelines.get(instance.timeline).map(|timeline| &timeline.snapshots);
            let aftermath =
                snapshots.and_then(|list| list.iter().position(|snapshot| snapshot.gate == Gate::Cancel));
            if let Some(aftermath) = aftermath.filter(|aftermath| *aftermath > instance.at) {
                instance.at = aftermath;
                instance.aftermath = true;
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
        self.answer(request.to(), Part::Made, live::result(request.id, &result));
    }

    /// The recorded result, with the questions that were asked on its stream, whenever the client asks for it.
    fn task_result(&mut self, request: &Request<'_>, index: usize, now: u64) {
        let Some(instance) = self.tasks.instances.get_mut(index) else { return };
        let results =
            self.tasks.timelines.get(instance.timeline).map_or(&[][..], |timeline| &timeline.results);
        let recorded = results.get(instance.results).or(results.last()).copied();
        // What is recorded then is the result of a task that went on.
        let stopped = instance.cancelled && !instance.aftermath;
        if let Some(exchange) = recorded.filter(|_| !stopped) {
            instance.results += 1;
            let first = instance.results == 1;
            return self.start_for_task(request, exchange, first, index, now);
        }
        let (code, why, hint) = if stopped {
            (code::MISS, "this task was cancelled, which it was not when recorded", "record again with that")
        } else {
            (code::LOST, "this task's result was not recorded", "record again, and let the client ask for it")
        };
        let miss = Miss {
            method: request.method.clone(),
            name: None,
            why: why.to_owned(),
            nearest: None,
            hint: hint.to_owned(),
        };
        let error = live::error(request.id, code, &format!("mcpreel: {why}"), Some(&miss.json()));
        self.add_miss(miss);
        self.answer(request.to(), Part::Made, error);
    }

    /// A reply to a question that belongs to a task opens the gate behind it.
    pub(super) fn task_replied(&mut self, ask: u32, task: Option<usize>) {
        let Some(item) = self.tape.item(ask) else { return };
        let text = &self.tape.text;
        let meta = ["_meta", "io.modelcontextprotocol/related-task", "taskId"];
        let id = item.view.params.and_then(|params| member_at(text, params, &meta));
        let Some(id) = id.map(|span| string::decode(span.of(text)).into_owned()) else { return };
        let named = self.tasks.named(item.conn, &id);
        let instances = &mut self.tasks.instances;
        let latest = || instances.iter().rposition(|instance| Some(instance.timeline) == named);
        let Some(index) = task.or_else(latest) else { return };
        if let Some(instance) = instances.get_mut(index) {
            instance.replied = true;
        }
    }

    /// Lists the live tasks. `false`: the recorded server had none of this design.
    fn list_tasks(&mut self, request: &Request<'_>) -> bool {
        let text = &self.tape.text;
        if !self.tasks.timelines.iter().any(|timeline| timeline.era == request.era) {
            return false;
        }
        for &exchange in self.index.all("tasks/list") {
            if let Some(taken) = self.taken.get_mut(usize::try_from(exchange).unwrap_or(usize::MAX)) {
                *taken = true;
            }
        }
        let mine = |instance: &Instance| instance.session == request.session;
        let objects: Vec<String> = (0..self.tasks.instances.len())
            .filter(|&index| self.tasks.instances.get(index).is_some_and(mine))
            .filter_map(|index| self.tasks.current(text, index))
            .collect();
        self.report.hits += 1;
        let result = format!("{{\"tasks\":[{}]}}", objects.join(","));
        self.answer(request.to(), Part::Made, live::result(request.id, &result));
        true
    }
}
