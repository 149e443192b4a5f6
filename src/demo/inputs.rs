//! Questions to the client, asked the same way by a tool in both eras. A legacy client gets requests and the call
//! waits for the answers. A modern one gets the questions as a result and calls again with the answers; the tool then
//! runs again from its start, and the rounds that are answered already pass at once.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::sink::lock;
use super::toolbox::failure;
use super::wire::{Answer, MISSING_CAPABILITY, Object, Revision, RpcError, TASKS_EXTENSION, object, request};

/// Something that not every client can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Capability {
    /// Asking a model.
    Sampling,
    /// Showing a form to the user.
    Form,
    /// Sending the user to a URL.
    Url,
    /// Naming its root folders.
    Roots,
    /// Modern: polling tasks.
    Tasks,
}

impl Capability {
    /// What a client declares that has it.
    fn required(self) -> Value {
        match self {
            Self::Sampling => json!({"sampling": {}}),
            Self::Form => json!({"elicitation": {"form": {}}}),
            Self::Url => json!({"elicitation": {"url": {}}}),
            Self::Roots => json!({"roots": {}}),
            Self::Tasks => json!({"extensions": {TASKS_EXTENSION: {}}}),
        }
    }

    /// Whether the client of this call declared it. An empty `elicitation` stands for forms.
    pub(super) fn is_declared(self, call: &Call) -> bool {
        let has = |path: &str| call.capabilities.pointer(path).is_some_and(Value::is_object);
        match self {
            Self::Sampling => has("/sampling"),
            Self::Form => has("/elicitation/form") || (has("/elicitation") && !has("/elicitation/url")),
            Self::Url => has("/elicitation/url"),
            Self::Roots => has("/roots"),
            // The slash in the extension's name keeps a JSON pointer from naming it plainly.
            Self::Tasks => {
                call.capabilities.get("extensions").is_some_and(|all| all.get(TASKS_EXTENSION).is_some())
            }
        }
    }

    /// Ends the call if the client did not declare it.
    pub(super) fn demand(self, call: &Call) -> Result<(), Stop> {
        demand(call, &[self])
    }
}

/// Ends the call if the client lacks any of these. Modern clients get the error made for this; legacy revisions have
/// none, so the tool itself complains.
fn demand(call: &Call, capabilities: &[Capability]) -> Result<(), Stop> {
    let missing: Object = capabilities
        .iter()
        .filter(|capability| !capability.is_declared(call))
        .flat_map(|capability| object(capability.required()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    if call.revision.is_modern() {
        let data = json!({"requiredCapabilities": missing});
        return Err(RpcError::new(MISSING_CAPABILITY, "missing required client capability")
            .with(data)
            .into());
    }
    Err(Stop::With(failure(&format!("the client did not declare {}", Value::Object(missing)))))
}

/// One question.
#[derive(Debug, Clone)]
pub(super) struct Input {
    /// Its name within the round.
    pub(super) key: &'static str,
    method: &'static str,
    params: Value,
    capability: Capability,
}

impl Input {
    /// Asks the client's model.
    pub(super) fn sampling(key: &'static str, prompt: &str) -> Self {
        let message = json!({"role": "user", "content": {"type": "text", "text": prompt}});
        let params = json!({"messages": [message], "maxTokens": 100});
        Self { key, method: "sampling/createMessage", params, capability: Capability::Sampling }
    }

    /// Asks the user to fill in one field; `kind` is its JSON type.
    pub(super) fn form(call: &Call, key: &'static str, message: &str, field: &str, kind: &str) -> Self {
        let schema = json!({"type": "object", "properties": {field: {"type": kind}}, "required": [field]});
        let mut params = object(json!({"message": message, "requestedSchema": schema}));
        if call.revision >= Revision::V2025_11_25 {
            params.insert("mode".to_owned(), "form".into());
        }
        Self { key, method: "elicitation/create", params: params.into(), capability: Capability::Form }
    }

    /// Sends the user to a URL.
    pub(super) fn url(key: &'static str, message: &str, url: &str) -> Self {
        let params = json!({"mode": "url", "message": message, "url": url});
        Self { key, method: "elicitation/create", params, capability: Capability::Url }
    }

    /// Asks for the client's root folders.
    pub(super) fn roots(key: &'static str) -> Self {
        Self { key, method: "roots/list", params: Value::Null, capability: Capability::Roots }
    }

    /// Questions as they stand in a modern result.
    pub(super) fn embed<'a>(inputs: impl IntoIterator<Item = &'a Self>) -> Object {
        let embed = |input: &Self| match &input.params {
            Value::Null => json!({"method": input.method}),
            params => json!({"method": input.method, "params": params}),
        };
        inputs.into_iter().map(|input| (input.key.to_owned(), embed(input))).collect()
    }
}

/// Multi-round calls that wait, by their `requestState`. Nothing is ever dropped: a client may retry a round as often
/// as it likes, and a demo does not run for long.
#[derive(Default)]
pub(super) struct Rounds {
    waiting: HashMap<String, Waiting>,
}

struct Waiting {
    /// The method and what of its params must be the same in the next round.
    call: Value,
    /// The answers to earlier rounds.
    answers: Vec<Value>,
    /// What this round asked.
    question: Value,
}

/// Asks the client all of `inputs` at once, and returns the answers in the same order.
pub(super) fn ask(call: &Call, inputs: &[Input]) -> Result<Vec<Answer>, Stop> {
    demand(call, &inputs.iter().map(|input| input.capability).collect::<Vec<_>>())?;
    if call.revision.is_modern() { ask_by_result(call, inputs) } else { ask_by_request(call, inputs) }
}

/// Asks one question.
pub(super) fn ask_one(call: &Call, input: Input) -> Result<Answer, Stop> {
    let mut answers = ask(call, &[input])?;
    answers.pop().ok_or(Stop::Cancelled)
}

fn ask_by_request(call: &Call, inputs: &[Input]) -> Result<Vec<Answer>, Stop> {
    let mut open = Vec::new();
    for input in inputs {
        let id = call.session.expect_answer(&call.mailbox);
        call.sink.send(&request(id, input.method, &input.params));
        open.push(id);
    }
    let mut answers = HashMap::new();
    while answers.len() < open.len() {
        match call.next_answer() {
            Ok((id, answer)) => answers.insert(id, answer),
            Err(stop) => {
                for id in open {
                    call.session.forget_answer(id);
                }
                return Err(stop);
            }
        };
    }
    Ok(open.iter().filter_map(|id| answers.remove(id)).collect())
}

fn ask_by_result(call: &Call, inputs: &[Input]) -> Result<Vec<Answer>, Stop> {
    let round = call.round.replace(call.round.get() + 1);
    let identity = json!([call.method, call.param("name"), call.arguments()]);
    let mut rounds = lock(&call.server().rounds);
    let mut answers = Vec::new();
    if call.param("requestState").is_some() {
        let known = rounds.waiting.get(call.text_param("requestState")?);
        let Some(state) = known.filter(|state| state.call == identity) else {
            return Err(RpcError::params("requestState is not one that this call was given").into());
        };
        if let Some(earlier) = state.answers.get(round) {
            return Ok(pick(inputs, earlier).unwrap_or_default());
        }
        let given = call.param("inputResponses").cloned().unwrap_or_default();
        if round == state.answers.len() {
            return pick(inputs, &given).ok_or_else(|| Stop::With(state.question.clone()));
        }
        answers.clone_from(&state.answers);
        answers.push(given);
    }
    let name = format!("round-{}", rounds.waiting.len() + 1);
    let requests = Input::embed(inputs);
    let question = json!({"resultType": "input_required", "inputRequests": requests, "requestState": name});
    rounds.waiting.insert(name, Waiting { call: identity, answers, question: question.clone() });
    Err(Stop::With(question))
}

/// The answers to these questions, if all are there. Others are ignored.
fn pick(inputs: &[Input], given: &Value) -> Option<Vec<Answer>> {
    inputs.iter().map(|input| given.get(input.key).cloned().map(Ok)).collect()
}
