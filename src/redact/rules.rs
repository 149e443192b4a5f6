//! The compiled rule set.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use super::detect::{Strategy, TextRule};
use super::document::Hit;
use super::forms::Forms;
use super::key::{Count, Glob, Name, Spared, is_count, is_protocol, nature};
use super::known::Known;
use super::look::Look;
use super::manifest::{Manifest, Pack};
use super::names::Names;
use super::pack::TextPack;
use super::placeholder::{mask, pseudonym};
use super::prefilter::Prefilter;
use super::reference::{is_known_word, is_reference};
use super::triggers::Triggers;
use crate::error::{Error, Result};
use crate::jsonrpc::scan::Span;

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

/// The id of the rule that known secrets go by; it says nothing of how many there are.
pub const KNOWN: &str = "known";

/// What a hit of [`KNOWN`] has for a rule.
pub(super) const KNOWN_SECRET: usize = usize::MAX - 1;

/// What a placeholder that was there already has for a rule.
pub(super) const PLACEHOLDER: usize = usize::MAX;

/// What a recording redacts.
#[derive(Clone, Default)]
pub struct Options<'a> {
    /// The default key rules and the bundled pack.
    pub defaults: bool,
    /// `KEYGLOB[=TEXT]` or `/json/pointer[=TEXT]`, where a `*` stands for one segment and the pointer leads into the
    /// message (`/params/arguments/q`). The first `=` begins the text.
    pub own: &'a [String],
    /// Packs besides the bundled one.
    pub packs: &'a [TextPack],
    /// Literal values that must be nowhere, in no spelling.
    pub secrets: &'a [String],
    /// The key of keyed hashes in the place of numbers.
    pub salt: Option<&'a [u8]>,
    /// The name that the manifest carries.
    pub profile: Option<&'a str>,
}

/// Never shows the secrets or the salt.
impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Options")
            .field("defaults", &self.defaults)
            .field("own", &self.own)
            .finish_non_exhaustive()
    }
}

/// A compiled set of redaction rules. The first rule that covers a value is the one that counts: the user's own in
/// the order given, then the defaults.
#[derive(Clone)]
pub struct Rules {
    list: Vec<Rule>,
    prefilter: Prefilter,
    /// The rules of the packs; their numbers go on behind those of `list`.
    texts: Vec<TextRule>,
    packs: Vec<Pack>,
    /// Whether any of them, or none, can be ruled out by a look at the bytes.
    hinted: bool,
    unhinted: bool,
    known: Known,
    /// Known secrets were looked for, whether or not we have them.
    pub(super) with_known: bool,
    salt: Option<Arc<[u8]>>,
    salted: bool,
    profile: Option<String>,
    /// How placeholders are told from other text.
    forms: OnceLock<Option<Forms>>,
    names: Names,
}

/// Never shows the secrets or the salt.
impl std::fmt::Debug for Rules {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.debug_struct("Rules")
            .field("list", &self.list)
            .field("packs", &self.packs)
            .finish_non_exhaustive()
    }
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
    /// The defaults, when wanted, and the values of `--redact`; see [`Options`].
    ///
    /// # Errors
    ///
    /// As [`Rules::build`].
    pub fn new(defaults: bool, own: &[String]) -> Result<Self> {
        Self::build(&Options { defaults, own, ..Options::default() })
    }

    /// The rules of a recording.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for an empty glob, a malformed pointer, a pointer to what routes a message, two packs with
    /// one id, a rule that hashes where there is no salt, and a secret that is too short.
    pub fn build(options: &Options<'_>) -> Result<Self> {
        let mut list = Vec::new();
        for value in options.own {
            let (locator, text) = match value.split_once('=') {
                Some((locator, text)) => (locator, Some(text)),
                None => (value.as_str(), None),
            };
            let spelling = if locator.starts_with('/') { "pointer" } else { "key" };
            let rule = Rule::of(spelling, locator, text)
                .map_err(|why| Error::Usage(format!("--redact {locator}: {why}")))?;
            list.push(rule);
        }
        let mut packs = Vec::new();
        if options.defaults {
            for glob in DEFAULT_GLOBS {
                list.extend(Rule::of("key", glob, None));
            }
            packs.push(TextPack::common()?);
        }
        for pack in options.packs {
            if let Some(known) = packs.iter().find(|known| known.id == pack.id) {
                if known.sha256 == pack.sha256 {
                    continue;
                }
                return Err(Error::Usage(format!(
                    "two redaction packs have the id `{}`; rename one",
                    pack.id
                )));
            }
            packs.push(pack.clone());
        }
        let texts: Vec<TextRule> = packs.iter().flat_map(|pack| pack.rules.iter().cloned()).collect();
        let hashes = texts.iter().find(|rule| rule.strategy == Strategy::Hash);
        if let Some(rule) = hashes.filter(|_| options.salt.is_none()) {
            return Err(Error::Usage(format!("the rule `{}` hashes, which needs a salt", rule.id)));
        }
        let packs = packs.into_iter().map(|pack| Pack { id: pack.id, sha256: pack.sha256 }).collect();
        let mut rules = Self::compile(list, texts, packs);
        rules.known = Known::new(options.secrets)?;
        rules.with_known = !options.secrets.is_empty();
        rules.salt = options.salt.map(Arc::from);
        rules.salted = options.salt.is_some();
        rules.profile = options.profile.map(str::to_owned);
        Ok(rules)
    }

    /// The rules that a cassette was redacted with, from its manifest, the bundled pack and `given` ones. Neither its
    /// salt nor its secrets are needed: comparing takes no placeholders into account.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] for a rule that this version cannot apply, and a pack that is not there: with its digest.
    pub fn from_manifest(manifest: &Manifest, given: &[TextPack]) -> Result<Self> {
        let mut packs = Vec::new();
        for pack in &manifest.packs {
            let mut known = given.iter().cloned().chain(TextPack::bundled(pack));
            let found = known.find(|known| known.id == pack.id && known.sha256 == pack.sha256);
            packs.push(found.ok_or_else(|| {
                let newer = if pack.id == "common" { "use the mcpreel that recorded it or a newer one, or " } else { "" };
                Error::Usage(format!(
                    "the cassette was redacted with the pack `{}` (sha256 {}), which is not here; {newer}give its \
                     file with --pii-pack",
                    pack.id, pack.sha256
                ))
            })?);
        }
        let mut list = Vec::new();
        let mut texts = Vec::new();
        let mut with_known = false;
        for spelling in &manifest.rules {
            let unknown = |why: String| {
                Error::Usage(format!("the cassette was redacted with the rule `{spelling}`: {why}"))
            };
            if spelling == KNOWN {
                with_known = true;
                continue;
            }
            if let Some((kind @ ("key" | "pointer"), rest)) = spelling.split_once(':') {
                let (locator, text) = match rest.split_once('=') {
                    Some((locator, text)) => (locator, Some(text)),
                    None => (rest, None),
                };
                list.push(Rule::of(kind, locator, text).map_err(unknown)?);
                continue;
            }
            let rule = packs.iter().flat_map(|pack| &pack.rules).find(|rule| rule.id == *spelling);
            let why = || unknown("this version does not know such rules".to_owned());
            texts.push(rule.cloned().ok_or_else(why)?);
        }
        let mut rules = Self::compile(list, texts, manifest.packs.clone());
        rules.with_known = with_known;
        rules.salted = manifest.salt.is_some();
        rules.profile.clone_from(&manifest.profile);
        Ok(rules)
    }

    /// The same rules, and the known secrets of other ones.
    #[must_use]
    pub fn with_secrets_of(mut self, other: &Self) -> Self {
        self.known = other.known.clone();
        self.with_known |= !self.known.is_empty();
        self
    }

    /// Where known secrets stand in bytes of any kind, in any spelling, in order.
    #[must_use]
    pub fn find_known(&self, bytes: &[u8]) -> Vec<Span> {
        self.known.find(bytes).into_iter().map(|(span, _)| span).collect()
    }

    /// The same for comparing: of the rules over text only those with these ids, which changed what clients said.
    /// What others would find in a live message is in no recorded one.
    #[must_use]
    pub fn for_matching(&self, fired: &BTreeSet<&str>) -> Self {
        let texts = self.texts.iter().filter(|rule| fired.contains(rule.id.as_str())).cloned().collect();
        let mut rules = Self::compile(self.list.clone(), texts, self.packs.clone());
        rules.salted = self.salted;
        rules.with_known = self.with_known;
        rules
    }

    /// The manifest of a recording under these rules. What else a cassette had in its manifest is the caller's to
    /// keep.
    #[must_use]
    pub fn manifest(&self, counts: &BTreeMap<String, u64>) -> Manifest {
        let known = self.with_known.then(|| KNOWN.to_owned());
        let texts = self.texts.iter().map(|rule| rule.id.clone());
        Manifest {
            profile: self.profile.clone(),
            rules: known
                .into_iter()
                .chain(self.list.iter().map(|rule| rule.id.clone()))
                .chain(texts)
                .collect(),
            packs: self.packs.clone(),
            salt: self.salted.then(|| "env".to_owned()),
            counts: counts.clone(),
            ..Manifest::default()
        }
    }

    fn compile(mut list: Vec<Rule>, texts: Vec<TextRule>, packs: Vec<Pack>) -> Self {
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
        let hinted = texts.iter().any(TextRule::has_hints);
        let prefilter = Prefilter::new(globs, pointers, hinted);
        Self {
            prefilter,
            hinted,
            unhinted: texts.iter().any(|rule| !rule.has_hints()),
            list,
            texts,
            packs,
            known: Known::default(),
            with_known: false,
            salt: None,
            salted: false,
            profile: None,
            forms: OnceLock::new(),
            names: Names::default(),
        }
    }

    /// Whether there is no rule at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty() && self.texts.is_empty() && self.known.is_empty()
    }

    /// The id of a rule, as in manifests and `redacted` lists.
    #[must_use]
    pub fn id(&self, rule: usize) -> &str {
        match (self.list.get(rule), self.pattern(rule)) {
            (Some(rule), _) => rule.id.as_str(),
            (None, Some(pattern)) => pattern.id.as_str(),
            (None, None) if rule == KNOWN_SECRET => KNOWN,
            (None, None) => "",
        }
    }

    /// The fixed text of a rule, when it has one.
    #[must_use]
    pub fn text(&self, rule: usize) -> Option<&str> {
        match (self.list.get(rule), self.pattern(rule).map(|pattern| &pattern.strategy)) {
            (Some(rule), _) => rule.text.as_deref(),
            (None, Some(Strategy::Fixed(text))) => Some(text),
            _ => None,
        }
    }

    /// What stands for a value that a rule found, unless it is a placeholder as any other.
    pub(super) fn stand_in(&self, rule: usize, value: &str) -> Option<String> {
        match (self.text(rule), self.pattern(rule), &self.salt) {
            (Some(text), ..) => Some(text.to_owned()),
            (None, Some(pattern), salt) => match (&pattern.strategy, salt) {
                (Strategy::Mask, _) => Some(mask(value)),
                (Strategy::Hash, Some(salt)) => Some(pseudonym(salt, &pattern.id, &pattern.label, value)),
                _ => None,
            },
            _ => None,
        }
    }

    fn pattern(&self, rule: usize) -> Option<&TextRule> {
        rule.checked_sub(self.list.len()).and_then(|index| self.texts.get(index))
    }

    /// Every value of one JSON message (or batch) that has to be replaced, in document order. Values that are
    /// placeholders already are none; text that is not JSON has none. What earlier messages showed is not known here,
    /// nor are known secrets.
    #[must_use]
    pub fn find(&self, text: &str) -> Vec<Hit> {
        Look::of(self).hits(text)
    }

    pub(super) fn known(&self) -> &Known {
        &self.known
    }

    pub(super) fn salt(&self) -> Option<Arc<[u8]>> {
        self.salt.clone()
    }

    /// The rules over text, with their numbers.
    pub(super) fn texts(&self) -> impl Iterator<Item = (usize, &TextRule)> {
        self.texts.iter().zip(self.list.len()..).map(|(rule, number)| (number, rule))
    }

    /// Whether a rule over text may match somewhere in a text, given raw or decoded. `escapes`: what hides behind
    /// escapes has not been looked for.
    pub(super) fn may_match(&self, text: &str, escapes: bool) -> bool {
        self.unhinted
            || (self.hinted
                && (!Triggers::of(text.as_bytes()).is_none()
                    || (escapes && self.prefilter.hides_names(text.as_bytes()))))
    }

    /// The same where tokens and what hides behind escapes were looked for.
    pub(super) fn may_match_besides(&self, text: &str) -> bool {
        self.unhinted || !Triggers::of_numbers(text.as_bytes()).is_none()
    }

    /// Whether a look at the bytes can rule out any rule over text.
    pub(super) fn has_hinted(&self) -> bool {
        self.hinted
    }

    pub(super) fn is_structural(&self, rule: usize) -> bool {
        rule < self.list.len()
    }

    /// Where placeholders stand in a text, in order: ours, and the fixed texts of the rules.
    pub(super) fn placeholders(&self, text: &str) -> Vec<Span> {
        self.forms().map_or_else(Vec::new, |forms| forms.find(text))
    }

    /// What looks like a placeholder.
    pub(super) fn forms(&self) -> Option<&Forms> {
        let numbers = 0..self.list.len() + self.texts.len();
        let build = || Forms::new(numbers.filter_map(|rule| self.text(rule)));
        self.forms.get_or_init(build).as_ref()
    }

    /// What was said about names so far.
    pub(super) fn names(&self) -> &Names {
        &self.names
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
        // In words of the dictionary the defaults find nothing.
        let without = name.without_words();
        let matches = |rule: &Rule| {
            let name = without.as_ref().filter(|_| rule.default).unwrap_or(&name);
            matches!(&rule.what, What::Key(glob) if glob.matches(name))
        };
        let Some(rule) = self.list.iter().position(matches) else { return unmatched(protocol()) };
        let (count, spared) = nature(raw, &name);
        Facts { rule: Some(rule), count, spared }
    }

    /// The rule for a name of a list or an object, and whether numbers in it are counts.
    pub(super) fn named(&self, name: &str) -> Option<(usize, bool)> {
        let facts = self.facts(name);
        let rule = facts.rule.filter(|_| facts.spared == Spared::No)?;
        Some((rule, facts.count != Count::No && self.is_default(rule)))
    }

    /// The rule for a name and its value where values are all text: forms, URLs, command lines, prose.
    pub(super) fn pair(&self, name: &str, value: &str) -> Option<usize> {
        let facts = self.facts(name);
        let rule = facts.rule.filter(|_| facts.spared == Spared::No)?;
        let count = || facts.count != Count::No && is_count(value);
        let harmless = || count() || is_known_word(name, value) || is_reference(self, value);
        (!self.is_default(rule) || !harmless()).then_some(rule)
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
    if pointer.is_empty() {
        return Err("a JSON pointer begins with /".to_owned());
    }
    // A star is written in one way only.
    let segments = crate::jsonrpc::pointer::segments(pointer)?;
    Ok(segments.into_iter().map(|segment| (segment != "*").then_some(segment)).collect())
}
