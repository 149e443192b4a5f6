//! Tasks: a recorded task is a timeline of snapshots, not a list of polls, so a client may poll at any pace. Both
//! designs are covered: the core one of 2025-11-25 (`params.task`, `tasks/result`) and the extension of 2026-07-28
//! (`resultType: "task"`, `tasks/update`).

use std::collections::{HashMap, HashSet};

use super::live;
use super::player::{Output, Player, Request};
use super::session::Play;
use super::tape::{Item, Step, Tape};
use crate::cassette::{Side, clock};
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::{Members, Span};
use crate::jsonrpc::tree::{Kind, Tree};
use crate::jsonrpc::{pretty, string};
use crate::mcp::{self, Era, code};

/// What must have happened before a snapshot can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gate {
    Open,
    /// The client has answered what the snapshot before it asks (extension: `tasks/update`; core: its replies).
    Input,
    /// The client cancelled the task.
    Cancel,
}

/// One distinct state of a recorded task.
#[derive(Clone, Debug)]
struct Snapshot {
    /// The task object.
    object: Span,
    /// Its comparison form without the time of the last update.
    form: Vec<u8>,
    gate: Gate,
    /// The notification that announced it.
    announced: Option<u32>,
}

/// Everything that was recorded of one task.
#[derive(Clone, Debug)]
struct Timeline {
    era: Era,
    /// When the recorded server says it was created, microseconds since 1970.
    created: Option<i64>,
    snapshots: Vec<Snapshot>,
    /// The exchanges that asked for its result (2025-11-25).
    results: Vec<u32>,
    /// The answer to a recorded `tasks/cancel`.
    cancel_answer: Option<Span>,
    /// Whether the recorded client polled it, or learnt of its progress by notifications alone.
    polled: bool,
    /// The recorded exchanges that were about this task.
    exchanges: Vec<u32>,
}

/// A task that was created live.
#[derive(Clone, Debug)]
struct Instance {
    timeline: usize,
    session: usize,
    id: String,
    at: usize,
    /// What is added to recorded times, in microseconds.
    shift: i64,
    provided: HashSet<String>,
    replied: bool,
    cancelled: bool,
    results: usize,
}

/// The recorded timelines and the live tasks.
#[derive(Debug, Default)]
pub struct Tasks {
    timelines: Vec<Timeline>,
    by_id: HashMap<String, usize>,
    instances: Vec<Instance>,
}

/// The object of a task in a result: core creation wraps it, everything else is flat.
fn object_in(text: &str, holder: Span) -> Option<Span> {
    if member(text, holder, "taskId").is_some() && member(text, holder, "status").is_some() {
        return Some(holder);
    }
    let task = member(text, holder, "task")?;
    member(text, task, "taskId").map(|_| task)
}

fn task_id(text: &str, object: Span) -> Option<String> {
    member(text, object, "taskId").map(|span| string::decode(span.of(text)).into_owned())
}

fn form_of(text: &str, object: Span) -> Vec<u8> {
    let object = object.of(text);
    let mut form = Vec::new();
    if let Ok(tree) = Tree::of(object) {
        let skipped = ["lastUpdatedAt", "resultType", "_meta"];
        canonical::write(&tree, 0, &mut form, &mut |index| {
            let top = index != 0 && tree.node(index).is_some_and(|node| node.parent == 0);
            if top && skipped.iter().any(|name| tree.name_is(index, name)) {
                Treat::Drop
            } else {
                Treat::Keep
            }
        });
    }
    form
}

impl Tasks {
    /// The timelines of a tape.
    #[must_use]
    pub fn new(tape: &Tape) -> Self {
        let mut tasks = Self::default();
        if memchr::memmem::find(tape.text.as_bytes(), b"taskId").is_none() {
            return tasks;
        }
        tasks.find_created(tape);
        tasks.follow(tape);
        tasks
    }

    fn find_created(&mut self, tape: &Tape) {
        let text = &tape.text;
        for (number, exchange) in tape.exchanges.iter().enumerate() {
            let number = u32::try_from(number).unwrap_or(u32::MAX);
            let Some(request) = tape.item(exchange.request) else { continue };
            if request.view.method_name(text).starts_with("tasks/") {
                continue;
            }
            let Some(result) = tape.answer(number).and_then(|answer| answer.view.result) else { continue };
            let Some(object) = object_in(text, result) else { continue };
            let Some(id) = task_id(text, object) else { continue };
            let created = member(text, object, "createdAt")
                .and_then(|span| clock::parse(&string::decode(span.of(text))));
            let first = Snapshot { object, form: form_of(text, object), gate: Gate::Open, announced: None };
            self.by_id.insert(id, self.timelines.len());
            self.timelines.push(Timeline {
                era: exchange.era,
                created,
                snapshots: vec![first],
                results: Vec::new(),
                cancel_answer: None,
                polled: false,
                exchanges: Vec::new(),
            });
        }
    }

    /// Walks through the messages in order and lines up what they say of each task.
    fn follow(&mut self, tape: &Tape) {
        let text = &tape.text;
        let by_request: HashMap<u32, u32> =
            tape.exchanges.iter().zip(0..).map(|(exchange, number)| (exchange.request, number)).collect();
        let by_answer: HashMap<u32, u32> = tape
            .exchanges
            .iter()
            .zip(0..)
            .flat_map(|(exchange, number)| {
                exchange.steps.iter().filter_map(move |step| match step {
                    Step::Answer(item) => Some((*item, number)),
                    _ => None,
                })
            })
            .collect();
        let mut gates: HashMap<usize, Gate> = HashMap::new();
        for (index, item) in tape.items.iter().enumerate() {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            match (item.from, item.view.shape) {
                (Side::Client, Shape::Request) => {
                    let method = item.view.method_name(text);
                    let id = mcp::target(&method, text, &item.view);
                    let Some(&timeline) = id.and_then(|id| self.by_id.get(&id)) else { continue };
                    let Some(&exchange) = by_request.get(&index) else { continue };
                    self.about(timeline, exchange, &method, &mut gates);
                }
                (Side::Client, Shape::Response) => {
                    for (timeline, known) in self.timelines.iter().enumerate() {
                        let asking = known.snapshots.last().is_some_and(|last| is_asking(text, last.object));
                        if known.era == Era::Legacy && asking {
                            gates.insert(timeline, Gate::Input);
                        }
                    }
                }
                (Side::Server, Shape::Notification) => {
                    let method = item.view.method_name(text);
                    if matches!(&*method, "notifications/tasks" | "notifications/tasks/status")
                        && let Some(params) = item.view.params
                    {
                        self.seen(text, params, Some(index), &mut gates);
                    }
                }
                (Side::Server, Shape::Response) => {
                    let Some(exchange) = by_answer.get(&index) else { continue };
                    let Some(request) = tape.request(*exchange) else { continue };
                    let Some(result) = item.view.result else { continue };
                    match &*request.view.method_name(text) {
                        "tasks/get" => self.seen(text, result, None, &mut gates),
                        "tasks/cancel" => {
                            let id = mcp::target("tasks/cancel", text, &request.view);
                            if let Some(timeline) =
                                id.and_then(|id| self.timelines.get_mut(*self.by_id.get(&id)?))
                            {
                                timeline.cancel_answer = Some(result);
                            }
                            if object_in(text, result).is_some() {
                                self.seen(text, result, None, &mut gates);
                            }
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    fn about(&mut self, number: usize, exchange: u32, method: &str, gates: &mut HashMap<usize, Gate>) {
        let Some(timeline) = self.timelines.get_mut(number) else { return };
        timeline.exchanges.push(exchange);
        match method {
            "tasks/get" => timeline.polled = true,
            "tasks/result" => timeline.results.push(exchange),
            "tasks/update" => {
                gates.insert(number, Gate::Input);
            }
            "tasks/cancel" => {
                gates.insert(number, Gate::Cancel);
            }
            _ => {}
        }
    }

    fn seen(&mut self, text: &str, holder: Span, announced: Option<u32>, gates: &mut HashMap<usize, Gate>) {
        let Some(object) = object_in(text, holder) else { return };
        let Some(number) = task_id(text, object).and_then(|id| self.by_id.get(&id).copied()) else { return };
        let Some(timeline) = self.timelines.get_mut(number) else { return };
        let form = form_of(text, object);
        if timeline.snapshots.last().is_some_and(|last| last.form == form) {
            return;
        }
        let gate = gates.remove(&number).unwrap_or(Gate::Open);
        timeline.snapshots.push(Snapshot { object, form, gate, announced });
    }

    /// The live task that a message of the tape belongs to.
    fn instance_for(&self, recorded: &str, preferred: Option<usize>) -> Option<&Instance> {
        let timeline = *self.by_id.get(recorded)?;
        let fits = |instance: &&Instance| instance.timeline == timeline;
        preferred
            .and_then(|index| self.instances.get(index))
            .filter(fits)
            .or_else(|| self.instances.iter().rev().find(fits))
    }

    /// What must change in a recorded message so that it speaks of the live task: its id and its times.
    #[must_use]
    pub fn edits(&self, text: &str, view: &View, preferred: Option<usize>) -> Vec<(Span, String)> {
        let whole = view.whole.of(text);
        if self.instances.is_empty() || memchr::memmem::find(whole.as_bytes(), b"taskId").is_none() {
            return Vec::new();
        }
        let Ok(tree) = Tree::of(whole) else { return Vec::new() };
        let mut edits = Vec::new();
        for (index, node) in
            tree.iter().filter(|(index, node)| node.kind == Kind::String && tree.name_is(*index, "taskId"))
        {
            let Some(instance) = self.instance_for(&string::decode(tree.text_of(index)), preferred) else {
                continue;
            };
            edits.push((node.span.shifted(view.whole.start), string::encode(&instance.id)));
            for sibling in tree.children(node.parent) {
                let dated = tree.name_is(sibling, "createdAt") || tree.name_is(sibling, "lastUpdatedAt");
                let Some(date) = tree.node(sibling).filter(|_| dated) else { continue };
                if let Some(time) = clock::parse(&string::decode(date.span.of(tree.text))) {
                    let shifted = clock::from_micros(time.saturating_add(instance.shift), true);
                    edits.push((date.span.shifted(view.whole.start), string::encode(&shifted)));
                }
            }
        }
        edits
    }

    fn live(&self, session: usize, id: &str) -> Option<usize> {
        let fits = |instance: &Instance| {
            instance.id == id && (instance.session == session || self.is_shared(instance))
        };
        self.instances.iter().position(fits)
    }

    /// Modern requests belong to no session: any of them may ask for any task.
    fn is_shared(&self, instance: &Instance) -> bool {
        self.timelines.get(instance.timeline).is_some_and(|timeline| timeline.era == Era::Modern)
    }

    /// The next snapshot that may be reached, if there is one.
    fn reachable(&self, text: &str, index: usize) -> Option<usize> {
        let instance = self.instances.get(index)?;
        let timeline = self.timelines.get(instance.timeline)?;
        let next = timeline.snapshots.get(instance.at + 1)?;
        let current = timeline.snapshots.get(instance.at)?;
        let open = match next.gate {
            Gate::Open => true,
            Gate::Cancel => instance.cancelled,
            Gate::Input if timeline.era == Era::Modern => {
                questions(text, current.object).iter().all(|name| instance.provided.contains(name))
            }
            Gate::Input => instance.replied,
        };
        open.then_some(instance.at + 1)
    }

    fn is_terminal(&self, text: &str, index: usize) -> bool {
        let Some(instance) = self.instances.get(index) else { return false };
        let object =
            self.timelines.get(instance.timeline).and_then(|timeline| timeline.snapshots.get(instance.at));
        instance.cancelled
            || object.is_some_and(|snapshot| {
                matches!(&*status(text, snapshot.object), "completed" | "failed" | "cancelled")
            })
    }

    /// The task object that a client may see now.
    fn current(&self, text: &str, index: usize) -> Option<String> {
        let instance = self.instances.get(index)?;
        let snapshot = self.timelines.get(instance.timeline)?.snapshots.get(instance.at)?;
        let object = snapshot.object.of(text);
        let view = View::of(object).ok()?;
        let mut edits = Edits::new();
        for (span, value) in self.edits(object, &view, Some(index)) {
            edits.replace(span, value);
        }
        if instance.cancelled
            && status(text, snapshot.object) != "cancelled"
            && let Some(span) = member(object, view.whole, "status")
        {
            edits.replace(span, "\"cancelled\"");
        }
        if !instance.provided.is_empty()
            && let Some(span) = member(object, view.whole, "inputRequests")
        {
            edits.replace(span, without(object, span, &instance.provided));
        }
        Some(pretty::packed(&edits.apply(object)))
    }
}

fn status(text: &str, object: Span) -> String {
    member(text, object, "status").map(|span| string::decode(span.of(text)).into_owned()).unwrap_or_default()
}

fn is_asking(text: &str, object: Span) -> bool {
    status(text, object) == "input_required"
}

fn names_in(text: &str, object: Option<Span>) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(mut members) = object.and_then(|span| Members::of(text, span.start)) {
        while let Ok(Some((name, _))) = members.next() {
            names.push(string::decode(name.of(text)).into_owned());
        }
    }
    names
}

fn questions(text: &str, object: Span) -> Vec<String> {
    names_in(text, member(text, object, "inputRequests"))
}

/// The object at `span` without the members in `gone`.
fn without(text: &str, span: Span, gone: &HashSet<String>) -> String {
    let mut kept = Vec::new();
    if let Some(mut members) = Members::of(text, span.start) {
        while let Ok(Some((name, value))) = members.next() {
            if !gone.contains(&*string::decode(name.of(text))) {
                kept.push(format!("{}:{}", name.of(text), value.of(text)));
            }
        }
    }
    format!("{{{}}}", kept.join(","))
}

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
