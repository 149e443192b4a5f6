//! Prompts, and completion of their arguments (and of the resource template's).

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::tools::page;
use super::wire::RpcError;

/// `prompts/list`.
pub(super) fn list(call: &Call) -> Result<Value, Stop> {
    let name = json!({"name": "name", "description": "Who is greeted.", "required": true});
    let greet = json!({"name": "greet", "description": "Greets somebody.", "arguments": [name]});
    let review = json!({"name": "review", "description": "Asks for a review."});
    page(call, "prompts", vec![greet, review])
}

/// `prompts/get`.
pub(super) fn get(call: &Call) -> Result<Value, Stop> {
    let (about, text) = match call.text_param("name")? {
        "greet" => ("Greets somebody.", format!("Say hello to {}.", call.text("name")?)),
        "review" => ("Asks for a review.", "Review the change and name its weakest spot.".to_owned()),
        other => return Err(RpcError::params(format!("unknown prompt: {other}")).into()),
    };
    let message = json!({"role": "user", "content": {"type": "text", "text": text}});
    Ok(json!({"description": about, "messages": [message]}))
}

/// `completion/complete`: what starts with the text so far.
pub(super) fn complete(call: &Call) -> Result<Value, Stop> {
    let field = |object: &str, name: &str| {
        let text = call.param(object).and_then(|object| object.get(name)).and_then(Value::as_str);
        text.ok_or_else(|| RpcError::params(format!("params.{object}.{name} must be a string")))
    };
    let target = match field("ref", "type")? {
        "ref/prompt" => field("ref", "name")?,
        "ref/resource" => field("ref", "uri")?,
        other => return Err(RpcError::params(format!("unknown reference type: {other}")).into()),
    };
    let argument = field("argument", "name")?;
    let all: &[&str] = match (target, argument) {
        ("greet", "name") => &["Ada", "Alan", "Barbara", "Grace"],
        ("demo://item/{id}", "id") => &["1", "2", "10", "11", "12"],
        _ => {
            return Err(
                RpcError::params(format!("nothing to complete: {target}, argument {argument}")).into()
            );
        }
    };
    let begun = field("argument", "value")?;
    let values: Vec<&&str> = all.iter().filter(|value| value.starts_with(begun)).collect();
    Ok(json!({"completion": {"total": values.len(), "hasMore": false, "values": values}}))
}
