//! What a cassette says about its redaction: the rules that were on, never a value that was found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The `redaction` field of a cassette's head. Empty fields are absent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// The name given with `--redact-profile`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub profile: Option<String>,
    /// The spelling of every rule that was on, in order of precedence: `key:*token*`, `key:pin=TEXT`,
    /// `pointer:/params/arguments/q`. A spelling is also the rule's id.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<String>,
    /// The text packs that were on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packs: Vec<Pack>,
    /// `env` where placeholders are keyed hashes; the key itself is nowhere.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub salt: Option<String>,
    /// How many values each rule replaced, by rule id.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Fields that this version does not know; kept.
    #[serde(flatten)]
    pub other: serde_json::Map<String, serde_json::Value>,
}

impl Manifest {
    /// The rules by key and pointer, spelt as `--redact` takes them.
    #[must_use]
    pub fn own(&self) -> Vec<String> {
        let spelling = |rule: &String| match rule.split_once(':') {
            Some(("key" | "pointer", rest)) => Some(rest.to_owned()),
            _ => None,
        };
        self.rules.iter().filter_map(spelling).collect()
    }
}

/// A text pack by name and content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pack {
    /// Its id.
    pub id: String,
    /// The SHA-256 of its file, in hexadecimal.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub sha256: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_fields_are_absent_and_unknown_ones_kept() {
        assert_eq!(serde_json::to_string(&Manifest::default()).unwrap(), "{}");
        let text = r#"{"profile":"strict","rules":["key:*token*"],"packs":[{"id":"team","sha256":"ab"}],"salt":"env","counts":{"a":1,"b":2},"later":{"x":[1]}}"#;
        let manifest: Manifest = serde_json::from_str(text).unwrap();
        assert_eq!(manifest.other.len(), 1);
        assert_eq!(manifest.own(), ["*token*"]);
        assert_eq!(serde_json::to_string(&manifest).unwrap(), text);
    }
}
