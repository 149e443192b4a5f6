//! The list of tools, and calling one by its name.

use std::sync::atomic::Ordering;

use serde_json::{Value, json};

use super::call::{Call, Handler, Stop};
use super::wire::{METHOD_NOT_FOUND, Object, Revision, RpcError, object};
use super::{interactive, tasks, toolbox};

/// What a tool does to the world, as its annotations say.
#[derive(Debug, Clone, Copy)]
enum Effect {
    Reads,
    Changes,
    Destroys,
}

/// How long a tool keeps its thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pace {
    /// Not worth a thread of its own: calls are answered in the order in which they came.
    Quick,
    /// Waits for the client, where this is a legacy one.
    Asks,
    /// Waits for time.
    Slow,
}

struct Tool {
    name: &'static str,
    about: &'static str,
    /// Name and JSON type of each argument; all are required.
    arguments: &'static [(&'static str, &'static str)],
    run: Handler,
    effect: Effect,
    pace: Pace,
    output: Option<fn() -> Value>,
    can_be_task: bool,
}

impl Tool {
    const fn new(
        name: &'static str,
        about: &'static str,
        arguments: &'static [(&'static str, &'static str)],
        run: Handler,
    ) -> Self {
        let (effect, pace) = (Effect::Reads, Pace::Quick);
        Self { name, about, arguments, run, effect, pace, output: None, can_be_task: false }
    }

    const fn effect(mut self, effect: Effect) -> Self {
        self.effect = effect;
        self
    }

    const fn pace(mut self, pace: Pace) -> Self {
        self.pace = pace;
        self
    }

    const fn output(mut self, schema: fn() -> Value) -> Self {
        self.output = Some(schema);
        self
    }

    const fn can_be_task(mut self) -> Self {
        self.can_be_task = true;
        self
    }

    /// Its entry in `tools/list`, with what the revision knows.
    fn entry(&self, revision: Revision) -> Value {
        let mut entry = described(self.name, self.about, self.arguments);
        if revision >= Revision::V2025_03_26 {
            let (reads, destroys) = match self.effect {
                Effect::Reads => (true, false),
                Effect::Changes => (false, false),
                Effect::Destroys => (false, true),
            };
            let hints = json!({"readOnlyHint": reads, "destructiveHint": destroys, "openWorldHint": false});
            entry.insert("annotations".to_owned(), hints);
        }
        if let Some(schema) = self.output.filter(|_| revision >= Revision::V2025_06_18) {
            entry.insert("outputSchema".to_owned(), schema());
        }
        if self.can_be_task && revision.has_core_tasks() {
            entry.insert("execution".to_owned(), json!({"taskSupport": "optional"}));
        }
        entry.into()
    }
}

fn described(name: &str, about: &str, arguments: &[(&str, &str)]) -> Object {
    let properties: Object =
        arguments.iter().map(|(name, kind)| ((*name).to_owned(), json!({"type": kind}))).collect();
    let required: Vec<&str> = arguments.iter().map(|(name, _)| *name).collect();
    let mut schema = object(json!({"type": "object", "properties": properties}));
    if !required.is_empty() {
        schema.insert("required".to_owned(), json!(required));
    }
    object(json!({"name": name, "description": about, "inputSchema": schema}))
}

static TOOLS: [Tool; 25] = [
    Tool::new("echo", "Returns the text.", &[("text", "string")], toolbox::echo),
    Tool::new("add", "Adds two numbers.", &[("a", "number"), ("b", "number")], toolbox::add)
        .output(toolbox::add_output),
    Tool::new("weather", "The weather in a city, as JSON.", &[("city", "string")], toolbox::weather),
    Tool::new("progress", "Reports its progress.", &[("steps", "integer")], toolbox::progress),
    Tool::new("log", "Logs at every level in turn.", &[("count", "integer")], toolbox::log),
    Tool::new("fail", "Returns a tool error.", &[("message", "string")], toolbox::fail),
    Tool::new("error", "Returns a protocol error.", &[("code", "integer")], toolbox::error),
    Tool::new("big", "Returns a text of that many bytes.", &[("bytes", "integer")], toolbox::big),
    Tool::new("media", "Returns a picture, a sound and a file.", &[], toolbox::media),
    Tool::new("unicode", "Returns texts with unusual characters.", &[], toolbox::unicode),
    Tool::new("counter", "Counts its calls.", &[], toolbox::counter).effect(Effect::Changes),
    Tool::new("slow", "Answers after a while.", &[("ms", "integer"), ("tag", "string")], toolbox::slow)
        .pace(Pace::Slow),
    Tool::new("sample", "Asks the client's model.", &[("prompt", "string")], interactive::sample)
        .pace(Pace::Asks),
    Tool::new("ask", "Asks the user.", &[("message", "string")], interactive::ask_user).pace(Pace::Asks),
    Tool::new("ask_url", "Sends the user to a URL.", &[], interactive::ask_url),
    Tool::new("roots", "Lists the client's root folders.", &[], interactive::roots).pace(Pace::Asks),
    Tool::new("interview", "Asks three times in a row.", &[], interactive::interview).pace(Pace::Asks),
    Tool::new("both", "Asks the model and the user at once.", &[], interactive::both).pace(Pace::Asks),
    Tool::new("grow", "Adds a tool.", &[], toolbox::grow).effect(Effect::Changes),
    Tool::new("touch", "Marks a resource as changed.", &[("uri", "string")], toolbox::touch)
        .effect(Effect::Changes),
    Tool::new("job", "Runs as a task where the client can follow one.", &[("steps", "integer")], tasks::job)
        .can_be_task(),
    Tool::new(
        "delete_everything",
        "Deletes everything (not really).",
        &[("confirm", "boolean")],
        toolbox::delete_everything,
    )
    .effect(Effect::Destroys),
    Tool::new("stderr", "Writes the text to the server's log.", &[("text", "string")], toolbox::stderr),
    Tool::new("noise", "Writes a line that is no message before its answer.", &[], toolbox::noise),
    Tool::new("exit", "Ends the server without an answer.", &[("code", "integer")], toolbox::exit)
        .effect(Effect::Changes),
];

fn find(name: &str) -> Option<&'static Tool> {
    TOOLS.iter().find(|tool| tool.name == name)
}

/// The name of the n-th tool that `grow` adds.
pub(super) fn grown_name(n: u64) -> String {
    format!("grown_{n}")
}

fn grown_names(call: &Call) -> impl Iterator<Item = String> {
    (1..=call.server().grown.load(Ordering::Relaxed)).map(grown_name)
}

/// `tools/list`.
pub(super) fn list(call: &Call) -> Result<Value, Stop> {
    let grown = grown_names(call).map(|name| Value::Object(described(&name, "Added by grow.", &[])));
    page(call, "tools", TOOLS.iter().map(|tool| tool.entry(call.revision)).chain(grown).collect())
}

/// `tools/call`.
pub(super) fn call(call: &Call) -> Result<Value, Stop> {
    let name = call.text_param("name")?;
    if call.param("arguments").is_some_and(|arguments| !arguments.is_object()) {
        return Err(RpcError::params("params.arguments must be an object").into());
    }
    let tool = find(name);
    if call.revision.has_core_tasks()
        && call.param("task").is_some()
        && !tool.is_some_and(|it| it.can_be_task)
    {
        return Err(RpcError::new(METHOD_NOT_FOUND, format!("{name} cannot run as a task")).into());
    }
    match tool {
        Some(tool) => (tool.run)(call),
        None if grown_names(call).any(|grown| grown == name) => Ok(toolbox::text(name)),
        None => Err(RpcError::params(format!("unknown tool: {name}")).into()),
    }
}

/// The name of the thread on which this call should run, if it should not run right here.
pub(super) fn thread_name(call: &Call) -> Option<String> {
    if call.method != "tools/call" {
        return None;
    }
    let tool = find(call.text_param("name").ok()?)?;
    let apart = match tool.pace {
        Pace::Quick => false,
        Pace::Asks => !call.revision.is_modern(),
        Pace::Slow => true,
    };
    apart.then(|| format!("demo {}", tool.name))
}

const PAGE: usize = 8;

/// One page of a list, as its `cursor` says.
pub(super) fn page(call: &Call, key: &str, all: Vec<Value>) -> Result<Value, Stop> {
    let pages = all.len().div_ceil(PAGE).max(1);
    let number = match call.param("cursor") {
        None => Some(1),
        Some(cursor) => {
            cursor.as_str().and_then(|text| text.strip_prefix("page-")).and_then(|n| n.parse().ok())
        }
    };
    let Some(number) = number.filter(|number| (1..=pages).contains(number)) else {
        return Err(RpcError::params("unknown cursor").into());
    };
    let items: Vec<Value> = all.into_iter().skip((number - 1) * PAGE).take(PAGE).collect();
    let mut result = object(json!({key: items}));
    if number < pages {
        result.insert("nextCursor".to_owned(), format!("page-{}", number + 1).into());
    }
    Ok(result.into())
}
