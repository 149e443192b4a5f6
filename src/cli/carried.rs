//! The matching rules that a cassette carries itself, in the member `match` of its head.

use std::path::Path;
use std::sync::Arc;

use crate::cassette::Cassette;
use crate::error::{Error, Result};
use crate::jsonrpc::scan::{Members, elements};
use crate::jsonrpc::string;
use crate::redact;
use crate::replay::key::Rules;

/// What stands there, spelt as the options of these names take it.
#[derive(Debug, Default)]
pub struct Carried {
    /// As `--ignore`.
    pub ignore: Vec<String>,
    /// As `--ignore-value`.
    pub ignore_value: Vec<String>,
}

/// Reads them.
///
/// # Errors
///
/// [`Error::Input`] for what is no such rule; `path` is that of the cassette.
pub fn read(path: &Path, cassette: &Cassette, redaction: &Arc<redact::Rules>) -> Result<Carried> {
    let mut carried = Carried::default();
    let Some(text) = &cassette.head.matching else { return Ok(carried) };
    let wrong = |place: &str, what: &str| Error::input(path, place, what);
    let mut members =
        Members::of(text, 0).ok_or_else(|| wrong("/match", "must be an object of matching rules"))?;
    while let Ok(Some((name, value))) = members.next() {
        let name = string::decode(name.of(text)).into_owned();
        let list = match &*name {
            "ignore" => &mut carried.ignore,
            "ignore_value" => &mut carried.ignore_value,
            other => {
                let what = format!("has an unknown rule {other:?}; known are ignore, ignore_value");
                return Err(wrong("/match", &what));
            }
        };
        let place = format!("/match/{name}");
        let found = value.of(text).starts_with('[').then(|| elements(text, value).ok()).flatten();
        for item in found.ok_or_else(|| wrong(&place, "must be a list of strings"))? {
            let item = item.of(text);
            if !item.starts_with('"') {
                return Err(wrong(&place, "must be a list of strings"));
            }
            list.push(string::decode(item).into_owned());
        }
    }
    // Told here, an error has its file.
    for (place, ignore, ignore_value) in
        [("/match/ignore", &carried.ignore[..], &[][..]), ("/match/ignore_value", &[], &carried.ignore_value)]
    {
        Rules::new(ignore, ignore_value, Arc::clone(redaction)).map_err(|error| {
            let what = error.to_string();
            let option = if ignore.is_empty() { "--ignore-value " } else { "--ignore " };
            wrong(place, what.strip_prefix(option).unwrap_or(&what))
        })?;
    }
    Ok(carried)
}
