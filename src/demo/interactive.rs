//! Tools that need the client: its model, its user, its folders.

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::inputs::{Capability, Input, ask, ask_one};
use super::listen::Event;
use super::server::next;
use super::sink::lock;
use super::toolbox::{failure, structured, text};
use super::wire::{Answer, Revision, RpcError, URL_ELICITATION_REQUIRED};

/// What the client answered, or the end of the call with a complaint.
fn accepted(answer: Answer) -> Result<Value, Stop> {
    answer.map_err(|why| Stop::With(failure(&format!("the client refused: {why}"))))
}

/// The text of a sampled message. Newer clients may answer with a list of contents.
fn sampled(answer: &Value) -> &str {
    let content = answer.get("content").unwrap_or(&Value::Null);
    let first = content.get(0).unwrap_or(content);
    first.get("text").and_then(Value::as_str).unwrap_or("(no text)")
}

fn action(answer: &Value) -> &str {
    answer.get("action").and_then(Value::as_str).unwrap_or("(no action)")
}

/// `accept {"name":"Ada"}`, or only the action where there is no content.
fn summary(answer: &Value) -> String {
    match answer.get("content") {
        Some(content) => format!("{} {content}", action(answer)),
        None => action(answer).to_owned(),
    }
}

/// `sample`.
pub(super) fn sample(call: &Call) -> Result<Value, Stop> {
    let answer = accepted(ask_one(call, Input::sampling("sample", call.text("prompt")?))?)?;
    Ok(text(&format!("sampled: {}", sampled(&answer))))
}

/// `ask`.
pub(super) fn ask_user(call: &Call) -> Result<Value, Stop> {
    let form = Input::form(call, "ask", call.text("message")?, "name", "string");
    let answer = accepted(ask_one(call, form)?)?;
    let report = json!({"action": action(&answer), "content": answer.get("content")});
    Ok(structured(call, &summary(&answer), report))
}

/// `ask_url`. 2025-11-25 refuses the call with an error until the user has been at the URL; nobody goes there in a
/// demo, so that the notification of success follows the error at once, and the next call stands behind it.
pub(super) fn ask_url(call: &Call) -> Result<Value, Stop> {
    let message = "Please confirm in the browser";
    if call.revision.is_modern() {
        let answer = accepted(ask_one(call, Input::url("ask_url", message, "https://example.com/confirm"))?)?;
        return Ok(text(action(&answer)));
    }
    if call.revision < Revision::V2025_11_25 {
        return Ok(failure("URL elicitation came with 2025-11-25"));
    }
    Capability::Url.demand(call)?;
    let mut passed = lock(&call.session.url_elicitation);
    if let Some(id) = passed.take() {
        return Ok(text(&format!("confirmed {id}")));
    }
    let id = format!("elicitation-{}", next(&call.server().elicitations));
    let url = format!("https://example.com/confirm/{id}");
    let elicitation = json!({"mode": "url", "elicitationId": id, "url": url, "message": message});
    call.afterwards(Event::UrlCompleted(id.clone()));
    *passed = Some(id);
    let error = RpcError::new(URL_ELICITATION_REQUIRED, "the user must confirm in the browser first");
    Err(error.with(json!({"elicitations": [elicitation]})).into())
}

/// `roots`.
pub(super) fn roots(call: &Call) -> Result<Value, Stop> {
    let answer = accepted(ask_one(call, Input::roots("roots"))?)?;
    let roots = answer.get("roots").and_then(Value::as_array).cloned().unwrap_or_default();
    let uris: Vec<&str> = roots.iter().filter_map(|root| root.get("uri").and_then(Value::as_str)).collect();
    Ok(text(&if uris.is_empty() { "no roots".to_owned() } else { uris.join("\n") }))
}

/// `interview`: three rounds, each built on the one before.
pub(super) fn interview(call: &Call) -> Result<Value, Stop> {
    let name = accepted(ask_one(call, Input::form(call, "name", "What is your name?", "name", "string"))?)?;
    if action(&name) != "accept" {
        return Ok(text(&format!("interview ended at question 1: {}", action(&name))));
    }
    let prompt = format!("A motto for somebody who said {}", summary(&name));
    let motto = accepted(ask_one(call, Input::sampling("motto", &prompt))?)?;
    let message = format!("Is this right: {}?", sampled(&motto));
    let right = accepted(ask_one(call, Input::form(call, "right", &message, "right", "boolean"))?)?;
    let lines = [format!("name: {}", summary(&name)), format!("motto: {}", sampled(&motto))];
    Ok(text(&format!("{}\nright: {}", lines.join("\n"), summary(&right))))
}

/// `both`: two questions at once, whose answers may come in any order.
pub(super) fn both(call: &Call) -> Result<Value, Stop> {
    let form = Input::form(call, "ask", "What is your name?", "name", "string");
    let mut answers = ask(call, &[Input::sampling("sample", "Say something"), form])?.into_iter();
    let mut following = || answers.next().ok_or(Stop::Cancelled).and_then(accepted);
    let (sample, name) = (following()?, following()?);
    Ok(text(&format!("sampled: {}\nasked: {}", sampled(&sample), summary(&name))))
}
