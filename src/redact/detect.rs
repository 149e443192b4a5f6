//! One rule over text: a regular expression with a validator, and what is put in the place of a match.

use std::sync::OnceLock;

use regex::{Regex, RegexBuilder};

use super::pack::regex_error;
use super::triggers::{Hints, Triggers};
use super::validate::Validator;
use crate::jsonrpc::scan::Span;

/// What is put in the place of a match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Strategy {
    /// A numbered placeholder in the value's shape.
    Number,
    /// This text.
    Fixed(String),
    /// `<LABEL>_` and twelve hexadecimal digits of a keyed hash.
    Hash,
    /// Bullets and the last four characters.
    Mask,
}

/// A compiled-when-needed rule of a pack.
#[derive(Clone, Debug)]
pub(super) struct TextRule {
    /// `pack/rule`.
    pub(super) id: String,
    pub(super) label: String,
    pub(super) strategy: Strategy,
    /// It is about what servers say only.
    pub(super) server_only: bool,
    /// It finds what identifies people or machines, and no credentials.
    pub(super) personal: bool,
    /// Line of the regular expression in its file.
    pub(super) line: usize,
    source: String,
    validator: Validator,
    hints: Hints,
    regex: OnceLock<Option<Compiled>>,
}

#[derive(Clone, Debug)]
struct Compiled {
    regex: Regex,
    /// The number of the group called `secret`.
    group: Option<usize>,
}

impl TextRule {
    pub(super) fn new(
        id: String,
        label: &str,
        source: String,
        strategy: Strategy,
        server_only: bool,
        validator: Validator,
    ) -> Self {
        let hints = Hints::of(&id);
        // What packs of users look for is unknown, so it does not touch values that route.
        let personal = hints.is_unknown() || hints.is_personal();
        Self {
            label: label.to_owned(),
            strategy,
            server_only,
            personal,
            line: 0,
            source,
            validator,
            hints,
            regex: OnceLock::new(),
            id,
        }
    }

    /// Whether a hint can rule it out for a text.
    pub(super) fn has_hints(&self) -> bool {
        !self.hints.is_unknown()
    }

    /// Compiles the regular expression.
    pub(super) fn check(&self) -> Result<(), String> {
        match self.build() {
            Ok(compiled) => {
                let _ = self.regex.set(Some(compiled));
                Ok(())
            }
            Err(error) => Err(regex_error(&self.source, &error)),
        }
    }

    fn build(&self) -> Result<Compiled, regex::Error> {
        let regex = RegexBuilder::new(&self.source).build()?;
        let group = regex.capture_names().position(|name| name == Some("secret"));
        Ok(Compiled { regex, group })
    }

    /// Appends the matches in `text` that count. `triggers` is what a look at the text found.
    pub(super) fn find(&self, text: &str, triggers: Triggers, found: &mut Vec<Span>) {
        if !self.hints.may_match(text, triggers) {
            return;
        }
        let Some(compiled) = self.regex.get_or_init(|| self.build().ok()) else { return };
        let mut at = 0;
        while at <= text.len() {
            let matched = match compiled.group {
                None => compiled.regex.find_at(text, at),
                Some(group) => compiled.regex.captures_at(text, at).and_then(|captures| captures.get(group)),
            };
            let Some(matched) = matched else { break };
            let span = Span::new(matched.start(), matched.end());
            let accepted = self.validator.accepts(text, span).filter(|span| !span.is_empty());
            // A match that does not count may hide one that begins inside it, but not behind its first word.
            at = match accepted {
                Some(span) => {
                    found.push(span);
                    span.end
                }
                None => next_start(text, span),
            };
        }
    }
}

/// Where to look on behind a match that was refused: the next place in it where a word begins, or its end.
fn next_start(text: &str, span: Span) -> usize {
    /// Longer matches are not looked into: they would take quadratic time.
    const LONG: usize = 256;
    if span.len() > LONG {
        return span.end;
    }
    let inside = span.of(text);
    let mut word = true;
    for (at, char) in inside.char_indices().skip(1) {
        let now = char.is_alphanumeric();
        if now && !word {
            return span.start + at;
        }
        word = now;
    }
    span.end.max(span.start + inside.chars().next().map_or(1, char::len_utf8))
}
