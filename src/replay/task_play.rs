//! Playing tasks: a live task goes through the recorded snapshots at the pace of its client.

use std::collections::HashSet;

use super::choose::Why;
use super::inputs::Inputs;
use super::live;
use super::player::{Output, Part, Player, Request};
use super::report::Miss;
use super::session::Play;
use super::tape::{Item, Step};
use super::tasks::{Gate, Instance, Snapshot, names_in, object_in, task_id};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::message::{member, member_at};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;
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
            cancels: 0,
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
        self.mark_task_exchanges(index);
        match request.method.as_str() {
            "tasks/get" => {
                self.task_steps(index);
                // A state whose questions were all answered while another one asked them is behind the client.
                while self.tasks.is_answered(&self.tape.text, index) && self.task_steps(index) {}
                self.get_task(request, index, now);
            }
            "tasks/update" => self.update_task(request, index, now),
            "tasks/cancel" => self.cancel_task(request, index, now),
            "tasks/result" => self.task_result(request, index, now),
            _ => return false,
        }
        self.follow_task(request, index, now);
        true
    }

    /// The client answers a task's questions.
    fn update_task(&mut self, request: &Request<'_>, index: usize, now: u64) {
        let timeline =
            self.tasks.instances.get(index).and_then(|instance| self.tasks.timelines.get(instance.timeline));
        let about = timeline.map_or(&[][..], |timeline| &timeline.exchanges).iter().copied();
        let of_exchange = |exchange: u32| {
            let item = self.tape.request(exchange)?;
            let written = self.tape.written_within(item);
            Inputs::of_request(item.view.whole.of(&self.tape.text), &self.rules, written)
        };
        let (refused, taken): (Vec<u32>, Vec<u32>) = about
            .filter(|exchange| of_exchange(*exchange).is_some())
            .partition(|it| self.tape.answer(*it).is_some_and(|answer| answer.view.error.is_some()));
        let given = Inputs::of_request(request.view.whole.of(request.text), &self.rules, Written::Live);
        let were_given = |exchanges: &[u32]| {
            let recorded: Vec<Inputs<'_>> = exchanges.iter().copied().filter_map(of_exchange).collect();
            given.as_ref().is_none_or(|given| given.were_given(&recorded, self.options.inputs, &self.rules))
        };
        if !were_given(&taken) || (taken.is_empty() && !refused.is_empty()) {
            let refused = refused.into_iter().find(|exchange| were_given(&[*exchange]));
            return match refused {
                Some(refused) => {
                    self.report.hits += 1;
                    self.start_for_task(request, refused, true, index, now);
                }
                None => self.miss(request, Why::Unknown),
            };
        }
        self.report.hits += 1;
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
        // Questions and their results are played as they are, and so is what came of cancelling.
        let as_they_are = [&timeline.results, &timeline.cancels];
        let passed = passed.iter().filter(|it| !as_they_are.iter().any(|exchanges| exchanges.contains(it)));
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

    /// The state of a task, or what stood in its place.
    fn get_task(&mut self, request: &Request<'_>, index: usize, now: u64) {
        let instance = self.tasks.instances.get(index);
        if instance.is_some_and(|instance| instance.cancelled && !instance.aftermath) {
            self.count_unrecorded(self.subject(request).to_string());
            return self.answer_task(request, index);
        }
        self.report.hits += 1;
        let timeline = instance.and_then(|it| Some((self.tasks.timelines.get(it.timeline)?, it.at)));
        let error = timeline.and_then(|(timeline, at)| timeline.snapshots.get(at)?.error);
        match error {
            Some(exchange) => self.start_for_task(request, exchange, false, index, now),
            None => self.answer_task(request, index),
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

    /// What was recorded of cancelling this task, whenever the client asks for it: as often as it was recorded, and then
    /// the last of it. Where nothing was, or the task has ended since, a rule answers: a client may give up at any time.
    fn cancel_task(&mut self, request: &Request<'_>, index: usize, now: u64) {
        let terminal = self.tasks.is_terminal(&self.tape.text, index);
        let Some(instance) = self.tasks.instances.get_mut(index) else { return };
        let timeline = self.tasks.timelines.get(instance.timeline);
        let cancels = timeline.map_or(&[][..], |timeline| &timeline.cancels);
        let ended = terminal && request.era == Era::Legacy;
        let is_error =
            |exchange: &u32| self.tape.answer(*exchange).is_some_and(|answer| answer.view.error.is_some());
        let next = cancels.get(instance.cancels);
        let recorded = next.or(cancels.last().filter(|last| !ended || is_error(last))).copied();
        if recorded.is_none() && self.onwards.is_some() {
            return self.pass_on(request, Why::Unknown).unwrap_or_else(|why| self.miss(request, why));
        }
        if !terminal && !recorded.as_ref().is_some_and(is_error) {
            instance.cancelled = true;
            let after = |snapshot: &Snapshot| snapshot.gate == Gate::Cancel;
            let aftermath = timeline.and_then(|timeline| timeline.snapshots.iter().position(after));
            if let Some(aftermath) = aftermath.filter(|aftermath| *aftermath > instance.at) {
                instance.at = aftermath;
                instance.aftermath = true;
            }
        }
        if let Some(exchange) = recorded {
            let first = next.is_some();
            instance.cancels += 1;
            self.report.hits += 1;
            return self.start_for_task(request, exchange, first, index, now);
        }
        self.count_unrecorded(self.subject(request).to_string());
        if ended {
            let error = live::error(request.id, code::INVALID_PARAMS, "the task has already ended", None);
            return self.answer(request.to(), Part::Made, error);
        }
        if request.era == Era::Legacy {
            return self.answer_task(request, index);
        }
        self.answer(request.to(), Part::Made, live::result(request.id, "{\"resultType\":\"complete\"}"));
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
            self.report.hits += 1;
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
