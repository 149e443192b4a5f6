//! Tasks, in both of their designs: experimental core of 2025-11-25, extension of the modern era.
//!
//! A task moves when somebody looks at it, by one step per `tasks/get`, never by the clock: so a recording of it is the
//! same every time, its dates apart.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::inputs::{Capability, Input};
use super::listen::Event;
use super::sink::lock;
use super::toolbox::text;
use super::wire::{Object, RELATED_TASK, Revision, RpcError, object};

/// Where a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Status {
    Working,
    InputRequired,
    Completed,
    Cancelled,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Working => "working",
            Self::InputRequired => "input_required",
            Self::Completed => "completed",
            Self::Cancelled => "cancelled",
        }
    }

    fn is_terminal(self) -> bool {
        matches!(self, Self::Completed | Self::Cancelled)
    }
}

/// A run of the `job` tool.
pub(super) struct Task {
    id: String,
    revision: Revision,
    status: Status,
    steps: u64,
    done: u64,
    /// Questions that stand between the first step and the second.
    questions: Vec<Input>,
    answers: Object,
    created: String,
    updated: String,
    /// How long the client wants it kept, in milliseconds.
    ttl: Value,
    /// The progress token of the call that made it.
    token: Option<Value>,
}

/// Milliseconds between polls that clients are asked to keep.
const POLL_INTERVAL: u64 = 20;

impl Task {
    /// Whether it has this id, for a client of that revision: the designs do not see each other's tasks.
    pub(super) fn is(&self, id: &str, revision: Revision) -> bool {
        self.id == id && self.revision == revision
    }

    /// Goes on by one step, if nothing stands in the way.
    fn advance(&mut self) {
        if self.status.is_terminal() {
            return;
        }
        self.updated = now();
        if self.done == 1 && !self.questions.is_empty() {
            self.status = Status::InputRequired;
            return;
        }
        self.done += 1;
        self.status = if self.done >= self.steps { Status::Completed } else { Status::Working };
    }

    fn cancel(&mut self) {
        if !self.status.is_terminal() {
            self.status = Status::Cancelled;
            self.updated = now();
        }
    }

    /// Takes answers to open questions, and ignores others.
    fn answer(&mut self, given: &Object) {
        let Self { questions, answers, .. } = self;
        if self.status != Status::InputRequired {
            return;
        }
        questions.retain(|question| match given.get(question.key) {
            Some(answer) => {
                answers.insert(question.key.to_owned(), answer.clone());
                false
            }
            None => true,
        });
        if questions.is_empty() {
            self.status = Status::Working;
        }
        self.updated = now();
    }

    /// Its state as both designs show it.
    fn summary(&self) -> Object {
        let (ttl, interval) =
            if self.revision.is_modern() { ("ttlMs", "pollIntervalMs") } else { ("ttl", "pollInterval") };
        object(json!({
            "taskId": self.id,
            "status": self.status.name(),
            "statusMessage": format!("step {} of {}", self.done, self.steps),
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            ttl: self.ttl,
            interval: POLL_INTERVAL,
        }))
    }

    /// Its state with what it asks or has come to, as the extension shows it.
    fn details(&self) -> Value {
        let mut fields = self.summary();
        match self.status {
            Status::InputRequired => {
                fields.insert("inputRequests".to_owned(), Input::embed(&self.questions).into());
            }
            Status::Completed => {
                fields.insert("result".to_owned(), self.result());
            }
            Status::Working | Status::Cancelled => {}
        }
        fields.into()
    }

    /// What the call would have returned.
    fn result(&self) -> Value {
        let mut parts = vec![format!("finished {} steps", self.steps)];
        parts.extend(self.answers.iter().map(|(key, answer)| format!("{key}: {answer}")));
        text(&parts.join("; "))
    }
}

/// `job`.
pub(super) fn job(call: &Call) -> Result<Value, Stop> {
    let steps = call.count("steps")?.max(1);
    let asked_for = call.revision.has_core_tasks() && call.param("task").is_some();
    let modern = call.revision.is_modern() && Capability::Tasks.is_declared(call);
    if !asked_for && !modern {
        for step in 1..=steps {
            call.progress(step, steps);
        }
        call.progress_gap()?;
        return Ok(text(&format!("finished {steps} steps")));
    }
    let summary = create(call, steps);
    Ok(if modern {
        let mut flat = summary;
        flat.insert("resultType".to_owned(), "task".into());
        flat.into()
    } else {
        json!({"task": summary})
    })
}

fn create(call: &Call, steps: u64) -> Object {
    let can_ask = call.revision.is_modern() && Capability::Form.is_declared(call);
    let questions = if steps >= 3 && can_ask {
        vec![
            Input::form(call, "confirm", "Go on with the job?", "confirm", "boolean"),
            Input::form(call, "note", "Anything to note?", "note", "string"),
        ]
    } else {
        Vec::new()
    };
    let wish = call.param("task").and_then(|task| task.get("ttl")).filter(|ttl| ttl.is_u64());
    let created = now();
    let mut tasks = lock(&call.server().tasks);
    let task = Task {
        id: format!("task-{}", tasks.len() + 1),
        revision: call.revision,
        status: Status::Working,
        steps,
        done: 0,
        questions,
        answers: Object::new(),
        updated: created.clone(),
        created,
        ttl: wish.cloned().unwrap_or_else(|| 60_000.into()),
        token: call.progress_token().cloned().filter(|_| !call.revision.is_modern()),
    };
    let summary = task.summary();
    tasks.push(task);
    summary
}

/// Lets `change` work on the task that the call names, and tells others if its state is another one afterwards.
fn with_task<T>(call: &Call, change: impl FnOnce(&mut Task) -> Result<T, Stop>) -> Result<T, Stop> {
    if call.revision.is_modern() {
        Capability::Tasks.demand(call)?;
    }
    let id = call.text_param("taskId")?;
    let mut tasks = lock(&call.server().tasks);
    let Some(task) = tasks.iter_mut().find(|task| task.is(id, call.revision)) else {
        return Err(RpcError::params(format!("unknown task: {id}")).into());
    };
    let before = (task.status, task.done);
    let outcome = change(task)?;
    if call.revision.is_modern() {
        if before != (task.status, task.done) {
            call.afterwards(Event::Task(task.details()));
        }
    } else if before.0 != task.status {
        call.afterwards(Event::LegacyTask(task.summary().into()));
    }
    Ok(outcome)
}

/// `tasks/get`.
pub(super) fn get(call: &Call) -> Result<Value, Stop> {
    let (state, progressed) = with_task(call, |task| {
        let before = task.done;
        task.advance();
        let state = if call.revision.is_modern() { task.details() } else { task.summary().into() };
        let moved = task.done > before;
        if let Some(token) = task.token.as_ref().filter(|_| moved) {
            call.progress_for(token, task.done, task.steps);
        }
        Ok((state, moved && task.token.is_some()))
    })?;
    if progressed {
        call.progress_gap()?;
    }
    Ok(state)
}

/// `tasks/update`: answers to a task's questions.
pub(super) fn update(call: &Call) -> Result<Value, Stop> {
    let Some(given) = call.param("inputResponses").and_then(Value::as_object) else {
        return Err(RpcError::params("params.inputResponses must be an object").into());
    };
    with_task(call, |task| {
        task.answer(given);
        Ok(json!({}))
    })
}

/// `tasks/cancel`. The core design wants an error for a task that is over, the extension an acknowledgement.
pub(super) fn cancel(call: &Call) -> Result<Value, Stop> {
    with_task(call, |task| {
        if call.revision.is_modern() {
            task.cancel();
            return Ok(json!({}));
        }
        if task.status.is_terminal() {
            let why = format!("task {} is {} already", task.id, task.status.name());
            return Err(RpcError::params(why).into());
        }
        task.cancel();
        Ok(task.summary().into())
    })
}

/// `tasks/result`: runs the task to its end and returns what the call would have returned.
pub(super) fn result(call: &Call) -> Result<Value, Stop> {
    with_task(call, |task| {
        while !task.status.is_terminal() {
            task.advance();
        }
        if task.status == Status::Cancelled {
            return Err(RpcError::params(format!("task {} was cancelled", task.id)).into());
        }
        let mut result = object(task.result());
        result.insert("_meta".to_owned(), json!({RELATED_TASK: {"taskId": task.id}}));
        Ok(result.into())
    })
}

/// `tasks/list`.
pub(super) fn list(call: &Call) -> Result<Value, Stop> {
    let tasks = lock(&call.server().tasks);
    let own = tasks.iter().filter(|task| task.revision == call.revision);
    super::tools::page(call, "tasks", own.map(|task| task.summary().into()).collect())
}

/// The time as the protocol writes it.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    date(since.as_secs(), since.subsec_millis())
}

/// ISO 8601 in UTC. Days become a date by counting in years that begin in March, where the leap day comes last
/// (a method of Howard Hinnant's); for times from 1970 on nothing here is ever negative.
fn date(seconds: u64, millis: u32) -> String {
    let (days, clock) = (seconds / 86_400 + 719_468, seconds % 86_400);
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute, second) = (clock / 3_600, clock / 60 % 60, clock % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millis:03}Z")
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn seconds_become_dates() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.007Z"),
            (951_782_400, "2000-02-29T00:00:00.007Z"),
            (1_785_283_199, "2026-07-28T23:59:59.007Z"),
            (4_107_542_400, "2100-03-01T00:00:00.007Z"),
        ] {
            assert_eq!(date(seconds, 7), expected);
        }
    }
}
