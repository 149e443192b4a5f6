//! Tasks: a recorded task is a timeline of snapshots, not a list of polls, so a client may poll at any pace. Both
//! designs are covered: the core one of 2025-11-25 (`params.task`, `tasks/result`) and the extension of 2026-07-28
//! (`resultType: "task"`, `tasks/update`).

use std::collections::{HashMap, HashSet};

use super::tape::{Step, Tape};
use crate::cassette::{Side, clock};
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::scan::{Members, Span};
use crate::jsonrpc::tree::{Kind, Tree};
use crate::jsonrpc::{pretty, string};
use crate::mcp::{self, Era};

/// What must have happened before a snapshot can be reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Open,
    /// The client has answered what the snapshot before it asks (extension: `tasks/update`; core: its replies).
    Input,
    /// The client cancelled the task.
    Cancel,
}

/// One distinct state of a recorded task, or an error in the place of one.
#[derive(Clone, Debug)]
pub(super) struct Snapshot {
    /// The task object, or the error.
    pub(super) object: Span,
    /// It is an error: the exchange that it answered.
    pub(super) error: Option<u32>,
    /// Its comparison form without the time of the last update.
    pub(super) form: Vec<u8>,
    pub(super) gate: Gate,
    /// The notification that announced it.
    pub(super) announced: Option<u32>,
}

/// Everything that was recorded of one task.
#[derive(Clone, Debug)]
pub(super) struct Timeline {
    pub(super) era: Era,
    /// The recorded session that created it.
    pub(super) conn: u32,
    /// Its id there.
    pub(super) id: String,
    /// When the recorded server says it was created, microseconds since 1970.
    pub(super) created: Option<i64>,
    pub(super) snapshots: Vec<Snapshot>,
    /// The exchanges that asked for its result (2025-11-25).
    pub(super) results: Vec<u32>,
    /// The exchanges that cancelled it, or tried to.
    pub(super) cancels: Vec<u32>,
    /// Whether the recorded client polled it, or learnt of its progress by notifications alone.
    pub(super) polled: bool,
    /// The recorded exchanges that were about this task.
    pub(super) exchanges: Vec<u32>,
}

/// A task that was created live.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) timeline: usize,
    pub(super) session: usize,
    pub(super) id: String,
    pub(super) at: usize,
    /// What is added to recorded times, in microseconds.
    pub(super) shift: i64,
    pub(super) provided: HashSet<String>,
    pub(super) replied: bool,
    /// The client cancelled it.
    pub(super) cancelled: bool,
    /// How it went on after that was recorded.
    pub(super) aftermath: bool,
    /// How many of the recorded exchanges about it are behind us, with what followed them.
    pub(super) followed: usize,
    pub(super) results: usize,
    /// How often the client asked to cancel it.
    pub(super) cancels: usize,
}

/// The recorded timelines and the live tasks.
#[derive(Debug, Default)]
pub struct Tasks {
    pub(super) timelines: Vec<Timeline>,
    /// By recorded session and id: ids repeat across sessions.
    by_id: HashMap<(u32, String), usize>,
    pub(super) instances: Vec<Instance>,
}

/// The object of a task in a result: core creation wraps it, everything else is flat.
pub(super) fn object_in(text: &str, holder: Span) -> Option<Span> {
    if member(text, holder, "taskId").is_some() && member(text, holder, "status").is_some() {
        return Some(holder);
    }
    let task = member(text, holder, "task")?;
    member(text, task, "taskId").map(|_| task)
}

pub(super) fn task_id(text: &str, object: Span) -> Option<String> {
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
            let form = form_of(text, object);
            let first = Snapshot { object, error: None, form, gate: Gate::Open, announced: None };
            self.by_id.insert((exchange.conn, id.clone()), self.timelines.len());
            self.timelines.push(Timeline {
                era: exchange.era,
                conn: exchange.conn,
                id,
                created,
                snapshots: vec![first],
                results: Vec::new(),
                cancels: Vec::new(),
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
                    let Some(timeline) = id.and_then(|id| self.named(item.conn, &id)) else { continue };
                    let Some(&exchange) = by_request.get(&index) else { continue };
                    let refused = tape.answer(exchange).is_some_and(|answer| answer.view.error.is_some());
                    self.about(timeline, (exchange, refused), &method, &mut gates);
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
                        self.seen(text, item.conn, params, Some(index), &mut gates);
                    }
                }
                (Side::Server, Shape::Response) => {
                    let Some(exchange) = by_answer.get(&index) else { continue };
                    let Some(request) = tape.request(*exchange) else { continue };
                    let method = request.view.method_name(text);
                    match item.view.result {
                        Some(result) if matches!(&*method, "tasks/get" | "tasks/cancel") => {
                            self.seen(text, item.conn, result, None, &mut gates);
                        }
                        None if method == "tasks/get" => {
                            let id = mcp::target(&method, text, &request.view);
                            let timeline = id.and_then(|id| self.named(item.conn, &id));
                            if let Some((timeline, error)) = timeline.zip(item.view.error) {
                                self.refused(text, timeline, error, *exchange, &mut gates);
                            }
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
        }
    }

    /// A request about a task; `refused`: it was answered with an error.
    fn about(
        &mut self,
        number: usize,
        (exchange, refused): (u32, bool),
        method: &str,
        gates: &mut HashMap<usize, Gate>,
    ) {
        let Some(timeline) = self.timelines.get_mut(number) else { return };
        timeline.exchanges.push(exchange);
        match method {
            "tasks/get" => timeline.polled = true,
            "tasks/result" => timeline.results.push(exchange),
            "tasks/update" if !refused => {
                gates.insert(number, Gate::Input);
            }
            "tasks/cancel" => {
                timeline.cancels.push(exchange);
                // A task that was not to be cancelled goes on by itself.
                if !refused {
                    gates.insert(number, Gate::Cancel);
                }
            }
            _ => {}
        }
    }

    /// The timeline of a task that a message of this recorded session names: its own, or, since a modern client may
    /// come back to a task on another connection, one of another session.
    pub(super) fn named(&self, conn: u32, id: &str) -> Option<usize> {
        let own = self.by_id.get(&(conn, id.to_owned()));
        own.or_else(|| self.by_id.iter().filter(|((_, known), _)| known == id).map(|(_, it)| it).min())
            .copied()
    }

    /// An id for a live task: the recorded one, or, where that is taken, one made of it.
    pub(super) fn fresh_id(&self, recorded: &str) -> String {
        let ids: HashSet<&str> = self.instances.iter().map(|instance| instance.id.as_str()).collect();
        let mut id = recorded.to_owned();
        let mut n = 1;
        while ids.contains(id.as_str()) {
            n += 1;
            id = format!("{recorded}-{n}");
        }
        id
    }

    fn seen(
        &mut self,
        text: &str,
        conn: u32,
        holder: Span,
        announced: Option<u32>,
        gates: &mut HashMap<usize, Gate>,
    ) {
        let Some(object) = object_in(text, holder) else { return };
        let Some(number) = task_id(text, object).and_then(|id| self.named(conn, &id)) else { return };
        let Some(timeline) = self.timelines.get_mut(number) else { return };
        let form = form_of(text, object);
        if timeline.snapshots.last().is_some_and(|last| last.form == form) {
            return;
        }
        let gate = gates.remove(&number).unwrap_or(Gate::Open);
        timeline.snapshots.push(Snapshot { object, error: None, form, gate, announced });
    }

    /// A poll that was answered with an error.
    fn refused(
        &mut self,
        text: &str,
        number: usize,
        error: Span,
        exchange: u32,
        gates: &mut HashMap<usize, Gate>,
    ) {
        let Some(timeline) = self.timelines.get_mut(number) else { return };
        let form = form_of(text, error);
        if timeline.snapshots.last().is_some_and(|last| last.form == form) {
            return;
        }
        let gate = gates.remove(&number).unwrap_or(Gate::Open);
        let error = Snapshot { object: error, error: Some(exchange), form, gate, announced: None };
        timeline.snapshots.push(error);
    }

    /// The live task that a message of the tape belongs to.
    fn instance_for(&self, conn: u32, recorded: &str, preferred: Option<usize>) -> Option<&Instance> {
        let timeline = self.named(conn, recorded)?;
        let fits = |instance: &&Instance| instance.timeline == timeline;
        preferred
            .and_then(|index| self.instances.get(index))
            .filter(fits)
            .or_else(|| self.instances.iter().rev().find(fits))
    }

    /// What must change in a recorded message so that it speaks of the live task: its id and its times.
    #[must_use]
    pub fn edits(&self, text: &str, view: &View, conn: u32, preferred: Option<usize>) -> Vec<(Span, String)> {
        let whole = view.whole.of(text);
        if self.instances.is_empty() || memchr::memmem::find(whole.as_bytes(), b"taskId").is_none() {
            return Vec::new();
        }
        let Ok(tree) = Tree::of(whole) else { return Vec::new() };
        let mut edits = Vec::new();
        for (index, node) in
            tree.iter().filter(|(index, node)| node.kind == Kind::String && tree.name_is(*index, "taskId"))
        {
            let Some(instance) = self.instance_for(conn, &string::decode(tree.text_of(index)), preferred)
            else {
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

    /// Whether a live session has a task.
    pub(super) fn has(&self, session: usize) -> bool {
        self.instances.iter().any(|instance| instance.session == session)
    }

    pub(super) fn live(&self, session: usize, id: &str) -> Option<usize> {
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
    pub(super) fn reachable(&self, text: &str, index: usize) -> Option<usize> {
        let instance = self.instances.get(index)?;
        let timeline = self.timelines.get(instance.timeline)?;
        let next = timeline.snapshots.get(instance.at + 1)?;
        let current = timeline.snapshots.get(instance.at)?;
        if instance.cancelled && !instance.aftermath {
            return None;
        }
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

    /// Whether a snapshot asks for nothing that the client has not given (extension).
    pub(super) fn is_answered(&self, text: &str, index: usize) -> bool {
        let Some(instance) = self.instances.get(index) else { return false };
        let timeline = self.timelines.get(instance.timeline).filter(|timeline| timeline.era == Era::Modern);
        let Some(snapshot) = timeline.and_then(|timeline| timeline.snapshots.get(instance.at)) else {
            return false;
        };
        let asked = questions(text, snapshot.object);
        !asked.is_empty() && asked.iter().all(|name| instance.provided.contains(name))
    }

    pub(super) fn is_terminal(&self, text: &str, index: usize) -> bool {
        let Some(instance) = self.instances.get(index) else { return false };
        let object =
            self.timelines.get(instance.timeline).and_then(|timeline| timeline.snapshots.get(instance.at));
        instance.cancelled
            || object.is_some_and(|snapshot| {
                matches!(&*status(text, snapshot.object), "completed" | "failed" | "cancelled")
            })
    }

    /// The task object that a client may see now.
    pub(super) fn current(&self, text: &str, index: usize) -> Option<String> {
        let instance = self.instances.get(index)?;
        let timeline = self.timelines.get(instance.timeline)?;
        // An error says nothing of the state.
        let states = timeline.snapshots.get(..=instance.at)?;
        let snapshot = states.iter().rfind(|snapshot| snapshot.error.is_none())?;
        let object = snapshot.object.of(text);
        let view = View::of(object).ok()?;
        let mut edits = Edits::new();
        for (span, value) in self.edits(object, &view, timeline.conn, Some(index)) {
            edits.replace(span, value);
        }
        if instance.cancelled && !instance.aftermath {
            if let Some(span) = member(object, view.whole, "status") {
                edits.replace(span, "\"cancelled\"");
            }
            let gone = ["inputRequests", "result", "error"].map(str::to_owned);
            let edited = edits.apply(object);
            return Some(pretty::packed(&without(&edited, Span::new(0, edited.len()), &gone.into())));
        }
        if !instance.provided.is_empty()
            && let Some(span) = member(object, view.whole, "inputRequests")
        {
            edits.replace(span, without(object, span, &instance.provided));
        }
        Some(pretty::packed(&edits.apply(object)))
    }
}

pub(super) fn status(text: &str, object: Span) -> String {
    member(text, object, "status").map(|span| string::decode(span.of(text)).into_owned()).unwrap_or_default()
}

pub(super) fn is_asking(text: &str, object: Span) -> bool {
    status(text, object) == "input_required"
}

pub(super) fn names_in(text: &str, object: Option<Span>) -> Vec<String> {
    let mut names = Vec::new();
    if let Some(mut members) = object.and_then(|span| Members::of(text, span.start)) {
        while let Ok(Some((name, _))) = members.next() {
            names.push(string::decode(name.of(text)).into_owned());
        }
    }
    names
}

pub(super) fn questions(text: &str, object: Span) -> Vec<String> {
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
