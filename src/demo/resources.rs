//! Resources: a text, a picture, and a template of items.

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::toolbox::PNG;
use super::tools::page;
use super::wire::{INVALID_PARAMS, RESOURCE_NOT_FOUND, RpcError};

/// `resources/list`.
pub(super) fn list(call: &Call) -> Result<Value, Stop> {
    let readme = json!({"uri": "demo://readme", "name": "readme", "mimeType": "text/plain"});
    let logo = json!({"uri": "demo://logo", "name": "logo", "mimeType": "image/png"});
    page(call, "resources", vec![readme, logo])
}

/// `resources/templates/list`.
pub(super) fn templates(call: &Call) -> Result<Value, Stop> {
    let item = json!({"uriTemplate": "demo://item/{id}", "name": "item", "mimeType": "application/json"});
    page(call, "resourceTemplates", vec![item])
}

/// `resources/read`.
pub(super) fn read(call: &Call) -> Result<Value, Stop> {
    let uri = call.text_param("uri")?;
    let item = uri.strip_prefix("demo://item/").filter(|id| !id.is_empty() && !id.contains('/'));
    let content = match (uri, item) {
        ("demo://readme", _) => {
            json!({"uri": uri, "mimeType": "text/plain", "text": "The demo server of mcpreel.\n"})
        }
        ("demo://logo", _) => json!({"uri": uri, "mimeType": "image/png", "blob": PNG}),
        (_, Some(id)) => {
            let text = json!({"id": id, "name": format!("Item {id}")}).to_string();
            json!({"uri": uri, "mimeType": "application/json", "text": text})
        }
        _ => {
            let code = if call.revision.is_modern() { INVALID_PARAMS } else { RESOURCE_NOT_FOUND };
            return Err(RpcError::new(code, format!("unknown resource: {uri}"))
                .with(json!({"uri": uri}))
                .into());
        }
    };
    Ok(json!({"contents": [content]}))
}
