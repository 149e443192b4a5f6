//! The compiled rule set.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::document::{Document, Hit};
use super::key::{Count, Glob, Name, Spared, is_count, is_protocol, nature};
use super::manifest::Manifest;
use super::prefilter::Prefilter;
use super::treatments::Treatments;
use crate::error::{Error, Result};
use crate::jsonrpc::tree::Tree;

/// Names whose values are secrets unless something says otherwise.
const DEFAULT_GLOBS: [&str; 9] = [
    "*token*",
    "*secret*",
    "*password*",
    "*passwd*",
    "*apikey*",
    "*api_key*",
    "authorization",
    "*credential*",
    "*private_key*",
];

/// Members of a message that a pointer cannot name: without them nothing can be matched.
const ROUTING_POINTERS: [&str; 8] = [
    "/jsonrpc",
    "/id",
    "/method",
    "/params/name",
    "/params/uri",
    "/params/ref",
    "/params/protocolVersion",
    "/error/code",
];

#[derive(Clone, Debug)]
enum What {
    Key(Glob),
    /// `None` stands for any one segment.
    Pointer(Vec<Option<String>>),
}

#[derive(Clone, Debug)]
struct Rule {
    id: String,
    what: What,
    /// What to put in the place of a value; a placeholder when there is none.
    text: Option<String>,
    /// Whether it is one of the defaults, which leave counts alone.
    default: bool,
}

/// A compiled set of redaction rules. The first rule that covers a value is the one that counts: the user's own in
/// the order given, then the defaults.
#[derive(Clone, Debug)]
pub struct Rules {
    list: Vec<Rule>,
    prefilter: Prefilter,
}

/// What the rules say about a name.
#[derive(Clone, Copy, Debug)]
pub(super) struct Facts {
    /// The rule whose glob matches.
    pub(super) rule: Option<usize>,
    pub(super) count: Count,
    pub(super) spared: Spared,
}

impl Rules {
    /// The defaults, when wanted, and the values of `--redact`: `KEYGLOB[=TEXT]` or `/json/pointer[=TEXT]`, where a
    /// `*` stands for one segment and the pointer leads into the message (`/params/arguments/q`). The first `=`
    /// begins the text.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for an empty glob, a malformed pointer, and a pointer to what routes a message.
    pub fn new(defaults: bool, own: &[String]) -> Result<Self> {
        let mut list = Vec::new();
        for value in own {
            let (locator, text) = match value.split_once('=') {
                Some((locator, text)) => (locator, Some(text)),
                None => (value.as_str(), None),
            };
            let spelling = if locator.starts_with('/') { "pointer" } else { "key" };
            let rule = Rule::of(spelling, locator, text)
                .map_err(|why| Error::Usage(format!("--redact {locator}: {why}")))?;
            list.push(rule);
        }
        if defaults {
            for glob in DEFAULT_GLOBS {
                list.extend(Rule::of("key", glob, None));
            }
        }
        Ok(Self::compile(list))
    }

    /// The rules that a cassette was redacted with. Its salt is not needed: comparing takes no placeholders into
    /// account.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for a rule or a pack that this version cannot apply.
    pub fn from_manifest(manifest: &Manifest) -> Result<Self> {
        if let Some(pack) = manifest.packs.first() {
            return Err(Error::Usage(format!(
                "the cassette was redacted with the pack `{}` (sha256 {}), which this version cannot load",
                pack.id, pack.sha256
            )));
        }
        let mut list = Vec::new();
        for spelling in &manifest.rules {
            let rule = match spelling.split_once(':') {
                Some((kind @ ("key" | "pointer"), rest)) => {
                    let (locator, text) = match rest.split_once('=') {
                        Some((locator, text)) => (locator, Some(text)),
                        None => (rest, None),
                    };
                    Rule::of(kind, locator, text)
                }
                _ => Err("this version does not know such rules".to_owned()),
            };
            list.push(rule.map_err(|why| {
                Error::Usage(format!("the cassette was redacted with the rule `{spelling}`: {why}"))
            })?);
        }
        Ok(Self::compile(list))
    }

    /// The manifest of a recording under these rules. The profile and what else a cassette had in its manifest are
    /// the caller's to keep.
    #[must_use]
    pub fn manifest(&self, counts: &BTreeMap<String, u64>) -> Manifest {
        Manifest {
            rules: self.list.iter().map(|rule| rule.id.clone()).collect(),
            counts: counts.clone(),
            ..Manifest::default()
        }
    }

    fn compile(mut list: Vec<Rule>) -> Self {
        let mut seen = std::collections::HashSet::new();
        list.retain(|rule| seen.insert(rule.id.clone()));
        let globs = list.iter().filter_map(|rule| match &rule.what {
            What::Key(glob) => Some(glob.pattern.as_str()),
            What::Pointer(_) => None,
        });
        let pointers = list.iter().filter_map(|rule| match &rule.what {
            What::Pointer(segments) => Some(segments.as_slice()),
            What::Key(_) => None,
        });
        let prefilter = Prefilter::new(globs, pointers);
        Self { list, prefilter }
    }

    /// Whether there is no rule at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The id of a rule, as in manifests and `redacted` lists.
    #[must_use]
    pub fn id(&self, rule: usize) -> &str {
        self.list.get(rule).map_or("", |rule| rule.id.as_str())
    }

    /// The fixed text of a rule, when it has one.
    #[must_use]
    pub fn text(&self, rule: usize) -> Option<&str> {
        self.list.get(rule).and_then(|rule| rule.text.as_deref())
    }

    /// Every value of one JSON message (or batch) that has to be replaced, in document order. Values that are
    /// placeholders already are none; text that is not JSON has none.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Hit> {
        if !self.prefilter.message(text) {
            return Vec::new();
        }
        Tree::of(text).map_or_else(|_| Vec::new(), |tree| Document::message(self, &tree).hits())
    }

    /// How the values of one message are to be compared so that a redacted value equals any live one.
    #[must_use]
    pub fn treatments(&self, tree: &Tree<'_>) -> Treatments {
        if !self.prefilter.message(tree.text) {
            return Treatments::default();
        }
        Treatments::of(&Document::message(self, tree))
    }

    pub(super) fn prefilter(&self) -> &Prefilter {
        &self.prefilter
    }

    pub(super) fn is_default(&self, rule: usize) -> bool {
        self.list.get(rule).is_some_and(|rule| rule.default)
    }

    pub(super) fn pointers(&self) -> impl Iterator<Item = (usize, &[Option<String>])> {
        self.list.iter().enumerate().filter_map(|(index, rule)| match &rule.what {
            What::Pointer(segments) => Some((index, segments.as_slice())),
            What::Key(_) => None,
        })
    }

    /// What the rules say about a decoded name.
    pub(super) fn facts(&self, raw: &str) -> Facts {
        let unmatched = |spared| Facts { rule: None, count: Count::No, spared };
        let protocol = || if is_protocol(raw) { Spared::Protocol } else { Spared::No };
        // Most names have nothing to do with any rule.
        if !self.prefilter.name(raw.as_bytes()) {
            return unmatched(protocol());
        }
        let name = Name::of(raw);
        let matches = |rule: &Rule| matches!(&rule.what, What::Key(glob) if glob.matches(&name));
        let Some(rule) = self.list.iter().position(matches) else { return unmatched(protocol()) };
        let (count, spared) = nature(raw, &name);
        Facts { rule: Some(rule), count, spared }
    }

    /// The rule for a name and its value where values are all text: forms, URLs, command lines.
    pub(super) fn pair(&self, name: &str, value: &str) -> Option<usize> {
        let facts = self.facts(name);
        let rule = facts.rule.filter(|_| facts.spared == Spared::No)?;
        let count = facts.count != Count::No && self.is_default(rule) && is_count(value);
        (!count).then_some(rule)
    }
}

impl Rule {
    fn of(kind: &str, locator: &str, text: Option<&str>) -> std::result::Result<Self, String> {
        let what = if kind == "pointer" {
            What::Pointer(segments(locator)?)
        } else if locator.is_empty() {
            return Err(
                "a name, a glob (`*token*`) or a JSON pointer (`/params/arguments/q`) is expected".into()
            );
        } else {
            What::Key(Glob::of(locator))
        };
        let mut id = format!("{kind}:{locator}");
        if let Some(text) = text {
            let _ = write!(id, "={text}");
        }
        let default = kind == "key" && DEFAULT_GLOBS.contains(&locator);
        Ok(Self { id, what, text: text.map(str::to_owned), default })
    }
}

fn segments(pointer: &str) -> std::result::Result<Vec<Option<String>>, String> {
    if ROUTING_POINTERS.contains(&pointer) {
        return Err("this value routes the message and has to stay; name a value below `arguments`, \
                    `result` or `error/data`"
            .into());
    }
    let Some(rest) = pointer.strip_prefix('/') else { return Err("a JSON pointer begins with `/`".into()) };
    rest.split('/')
        .map(|segment| match segment {
            "*" => Ok(None),
            _ if segment.replace("~0", "").replace("~1", "").contains('~') => {
                Err("in a JSON pointer `~` is written `~0` and `/` inside a name `~1`".to_owned())
            }
            _ => Ok(Some(segment.replace("~1", "/").replace("~0", "~"))),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Pack;
    use super::*;

    fn own(values: &[&str]) -> Result<Rules> {
        Rules::new(true, &values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_manifest_rebuilds_the_rules() {
        let rules = own(&["ssn", "pin=0000", "/params/arguments/*/q=a=b", "*token*"]).unwrap();
        let counts = BTreeMap::from([("key:ssn".to_owned(), 2)]);
        let manifest = rules.manifest(&counts);
        assert_eq!(
            manifest.rules[..5],
            ["key:ssn", "key:pin=0000", "pointer:/params/arguments/*/q=a=b", "key:*token*", "key:*secret*"]
        );
        assert_eq!(manifest.rules.len(), 12, "a repeated rule is one rule");
        let again = Rules::from_manifest(&manifest).unwrap();
        assert_eq!(again.manifest(&counts), manifest);
        let text = r#"{"params":{"arguments":{"x":{"q":"v"},"pin":"1","ssn":"2","max_tokens":3}}}"#;
        let found: Vec<String> = again.find(text).iter().map(|hit| again.id(hit.rule).to_owned()).collect();
        assert_eq!(found, ["pointer:/params/arguments/*/q=a=b", "key:pin=0000", "key:ssn"]);
        assert!(Rules::from_manifest(&Manifest::default()).unwrap().is_empty());
    }

    #[test]
    fn what_cannot_be_applied_is_named() {
        for (manifest, named) in [
            (Manifest { rules: vec!["common/email".into()], ..Manifest::default() }, "`common/email`"),
            (Manifest { rules: vec!["text:x".into()], ..Manifest::default() }, "`text:x`"),
            (Manifest { rules: vec!["pointer:x".into()], ..Manifest::default() }, "`pointer:x`"),
            (
                Manifest {
                    packs: vec![Pack { id: "team".into(), sha256: "abc".into() }],
                    ..Manifest::default()
                },
                "`team` (sha256 abc)",
            ),
        ] {
            let error = Rules::from_manifest(&manifest).unwrap_err();
            assert!(error.to_string().contains(named), "{error}");
            assert_eq!(error.code(), 2);
        }
    }

    #[test]
    fn bad_rules_are_usage_errors() {
        for (value, named) in [
            ("", "a name"),
            ("=x", "a name"),
            ("/a~2b", "`~0`"),
            ("/id", "routes"),
            ("/params/name=x", "routes"),
        ] {
            let error = own(&[value]).unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{value}");
            assert!(error.to_string().contains(named), "{value}: {error}");
        }
    }
}
