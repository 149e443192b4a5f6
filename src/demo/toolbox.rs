//! Tools that need nothing but themselves.

use std::time::Duration;

use serde_json::{Value, json};

use super::call::{Call, Stop};
use super::listen::Event;
use super::server::next;
use super::tools::grown_name;
use super::wire::{Level, Revision, RpcError};

/// A tool result with one text.
pub(super) fn text(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

/// A tool result that says that the tool failed.
pub(super) fn failure(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}], "isError": true})
}

/// A tool result with structured content, where the revision knows it, and a text for those who do not.
pub(super) fn structured(call: &Call, summary: &str, content: Value) -> Value {
    let mut result = text(summary);
    if let (Some(fields), true) = (result.as_object_mut(), call.revision >= Revision::V2025_06_18) {
        fields.insert("structuredContent".to_owned(), content);
    }
    result
}

/// `echo`.
pub(super) fn echo(call: &Call) -> Result<Value, Stop> {
    Ok(text(call.text("text")?))
}

/// `add`. Whole numbers stay whole as long as they fit.
pub(super) fn add(call: &Call) -> Result<Value, Stop> {
    let number = |name| call.argument(name, "a number", |value| value.as_number().cloned());
    let (a, b) = (number("a")?, number("b")?);
    let whole = a.as_i64().zip(b.as_i64()).and_then(|(a, b)| a.checked_add(b));
    let sum = whole.map_or_else(|| json!(a.as_f64().zip(b.as_f64()).map(|(a, b)| a + b)), Value::from);
    let content = json!({"sum": sum});
    Ok(structured(call, &content.to_string(), content))
}

/// What `add` returns.
pub(super) fn add_output() -> Value {
    json!({"type": "object", "properties": {"sum": {"type": "number"}}, "required": ["sum"]})
}

/// `weather`.
pub(super) fn weather(call: &Call) -> Result<Value, Stop> {
    let city = call.text("city")?;
    let (sky, degrees) = match city {
        "Berlin" => ("rain", 11),
        "Cairo" => ("sun", 33),
        "Lima" => ("fog", 17),
        "Tokyo" => ("clouds", 22),
        _ => return Ok(failure(&format!("unknown city: {city}"))),
    };
    Ok(text(&json!({"city": city, "sky": sky, "temperature": degrees, "unit": "C"}).to_string()))
}

/// `progress`.
pub(super) fn progress(call: &Call) -> Result<Value, Stop> {
    let steps = call.count("steps")?;
    for step in 1..=steps {
        call.progress(step, steps);
    }
    call.progress_gap()?;
    Ok(text(&format!("finished {steps} steps")))
}

/// `log`.
pub(super) fn log(call: &Call) -> Result<Value, Stop> {
    let count = call.count("count")?;
    for (index, number) in (1..=count).enumerate() {
        call.log(Level::nth(index), &json!({"number": number, "text": format!("log message {number}")}));
    }
    Ok(text(&format!("logged {count} messages")))
}

/// `fail`.
pub(super) fn fail(call: &Call) -> Result<Value, Stop> {
    Ok(failure(call.text("message")?))
}

/// `error`.
pub(super) fn error(call: &Call) -> Result<Value, Stop> {
    let code = call.argument("code", "a whole number", Value::as_i64)?;
    Err(RpcError::new(code, format!("demo error {code}")).with(json!({"asked": code})).into())
}

/// Enough to break every limit there is, and no reason to bring the machine down.
const BIGGEST: usize = 256 << 20;

/// `big`. The text has no long repetition of one letter, so that it does not compress to nothing.
pub(super) fn big(call: &Call) -> Result<Value, Stop> {
    let bytes = usize::try_from(call.count("bytes")?).ok().filter(|bytes| *bytes <= BIGGEST);
    let bytes = bytes.ok_or_else(|| RpcError::params(format!("bytes is limited to {BIGGEST}")))?;
    Ok(text(&"abcdefghijklmnopqrstuvwxyz0123456789 ".chars().cycle().take(bytes).collect::<String>()))
}

/// One red pixel.
pub(super) const PNG: &str =
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAIAAACQd1PeAAAADElEQVR4nGO4oKAAAALUARHMX99WAAAAAElFTkSuQmCC";
/// A millisecond of silence.
const WAV: &str = "UklGRiwAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQgAAACAgICAgICAgA==";
/// The bytes 0 to 15.
const BYTES: &str = "AAECAwQFBgcICQoLDA0ODw==";

/// `media`. Sounds came with the second revision.
pub(super) fn media(call: &Call) -> Result<Value, Stop> {
    let mut content = vec![json!({"type": "image", "data": PNG, "mimeType": "image/png"})];
    if call.revision >= Revision::V2025_03_26 {
        content.push(json!({"type": "audio", "data": WAV, "mimeType": "audio/wav"}));
    }
    let file = json!({"uri": "demo://bytes", "mimeType": "application/octet-stream", "blob": BYTES});
    content.push(json!({"type": "resource", "resource": file}));
    Ok(json!({"content": content}))
}

/// `unicode`.
pub(super) fn unicode(_call: &Call) -> Result<Value, Stop> {
    let texts = [
        "line\u{2028}paragraph\u{2029}next\u{85}end",
        "emoji \u{1f600} \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467} \u{1f1e9}\u{1f1ea}",
        "combining e\u{301} and \u{e9}, \u{1e9b}\u{323}",
        "quotes \" ' ` and \\ and / and \u{ab}\u{bb}",
        "control \0 \u{1} \u{8} \t \r\n \u{1b}[31m \u{7f}",
        "right to left \u{202e}abc\u{202c} \u{5e9}\u{5dc}\u{5d5}\u{5dd}",
        "wide \u{4f60}\u{597d} \u{feff}\u{fffd}\u{10ffff}",
        "",
    ];
    let content: Vec<Value> = texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
    Ok(json!({"content": content}))
}

/// `counter`.
pub(super) fn counter(call: &Call) -> Result<Value, Stop> {
    Ok(text(&next(&call.server().counter).to_string()))
}

/// `slow`.
pub(super) fn slow(call: &Call) -> Result<Value, Stop> {
    let (ms, tag) = (call.count("ms")?, call.text("tag")?);
    call.pause(Duration::from_millis(ms))?;
    Ok(text(tag))
}

/// `grow`.
pub(super) fn grow(call: &Call) -> Result<Value, Stop> {
    let name = grown_name(next(&call.server().grown));
    call.afterwards(Event::ToolsChanged);
    Ok(text(&name))
}

/// `touch`.
pub(super) fn touch(call: &Call) -> Result<Value, Stop> {
    let uri = call.text("uri")?;
    call.afterwards(Event::ResourceUpdated(uri.to_owned()));
    Ok(text(&format!("touched {uri}")))
}

/// `delete_everything`.
pub(super) fn delete_everything(call: &Call) -> Result<Value, Stop> {
    let confirmed = call.argument("confirm", "a boolean", Value::as_bool)?;
    Ok(if confirmed { text("everything is deleted (not really)") } else { failure("not confirmed") })
}

/// `stderr`.
pub(super) fn stderr(call: &Call) -> Result<Value, Stop> {
    call.server().write_log(&format!("{}\n", call.text("text")?));
    Ok(text("written"))
}

/// `noise`.
pub(super) fn noise(call: &Call) -> Result<Value, Stop> {
    call.sink.noise("this line is not a message");
    Ok(text("noise made"))
}

/// `exit`.
pub(super) fn exit(call: &Call) -> Result<Value, Stop> {
    let code = call.argument("code", "an exit code, 0 to 255", |value| value.as_u64()?.try_into().ok())?;
    Err(Stop::Exit(code))
}
