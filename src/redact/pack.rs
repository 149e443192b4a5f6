//! Text packs: files of rules that find secrets and personal data in any string, and the one that comes with us.
//!
//! A pack is TOML with the keys of mcp-cassette's, so its packs load as they are, unless they use what only a
//! backtracking regular expression can do. Three things are more than there: a group called `secret` limits what is
//! replaced, there are further validators, and a rule without a strategy makes numbered placeholders.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use toml::Spanned;

use super::detect::{Strategy, TextRule};
use super::manifest::Pack;
use super::validate::Validator;
use crate::error::{Error, Result};

/// The files of the bundled pack, oldest first; recordings use the last. Cassettes name a pack by its digest and are
/// replayed with that one, so a file that a release has shipped stays here as it is: a change is a new file beside it.
/// What is known about a rule by its id (`triggers`) has to hold in each file that has the rule.
const COMMON: [&str; 1] = [include_str!("packs/common-1.toml")];

/// What only backtracking engines know, by how it is written, and what it is called.
const ELSEWHERE: [(&str, &str); 12] = [
    ("(?=", "look-ahead"),
    ("(?!", "negative look-ahead"),
    ("(?<=", "look-behind"),
    ("(?<!", "negative look-behind"),
    ("(?P=", "a back-reference"),
    ("(?(", "a condition"),
    ("(?>", "an atomic group"),
    ("(?#", "a comment group"),
    (r"\Z", r"`\Z` (write `\z`)"),
    ("*+", "a possessive repeat"),
    ("++", "a possessive repeat"),
    ("?+", "a possessive repeat"),
];

/// A pack of text rules.
#[derive(Clone, Debug)]
pub struct TextPack {
    /// Its id, the front part of its rules' ids.
    pub id: String,
    /// The SHA-256 of its file with LF line ends, in hexadecimal.
    pub sha256: String,
    pub(super) rules: Vec<TextRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PackFile {
    version: Spanned<i64>,
    id: Spanned<String>,
    #[serde(default)]
    rules: Vec<Spanned<RuleFile>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleFile {
    id: Spanned<String>,
    label: Spanned<String>,
    regex: Spanned<String>,
    #[serde(default)]
    flags: Vec<Spanned<String>>,
    strategy: Option<Spanned<String>>,
    replacement: Option<Spanned<String>>,
    direction: Option<Spanned<String>>,
    validator: Option<Spanned<String>>,
}

impl TextPack {
    /// The bundled pack, `common`, as recordings use it.
    ///
    /// # Errors
    ///
    /// None that a tested build can have.
    pub fn common() -> Result<Self> {
        static PARSED: OnceLock<Option<TextPack>> = OnceLock::new();
        let newest = || Self::parse_unchecked(Path::new("common.toml"), COMMON.last()?).ok();
        match PARSED.get_or_init(newest) {
            Some(pack) => Ok(pack.clone()),
            None => Err(Error::Failed("the bundled redaction pack cannot be read".to_owned())),
        }
    }

    /// The bundled pack that a cassette names, of this version or of an earlier one.
    #[must_use]
    pub fn bundled(named: &Pack) -> Option<Self> {
        let newest = Self::common().ok()?;
        if named.id != newest.id {
            return None;
        }
        if named.sha256 == newest.sha256 {
            return Some(newest);
        }
        let older = COMMON.iter().find(|text| digest(text) == named.sha256)?;
        Self::parse_unchecked(Path::new("common.toml"), older).ok()
    }

    /// Reads a pack; `path` is for messages.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] with the line for what is no TOML, an unknown key or word, an id that is malformed or used
    /// twice, and a regular expression that cannot be compiled.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let pack = Self::parse_unchecked(path, text)?;
        for rule in &pack.rules {
            rule.check().map_err(|why| Error::input(path, format!("line {}", rule.line), why))?;
        }
        Ok(pack)
    }

    /// The same without compiling the regular expressions: in a replay most of them are never needed.
    ///
    /// # Errors
    ///
    /// As [`TextPack::parse`], without the regular expressions.
    pub fn parse_unchecked(path: &Path, text: &str) -> Result<Self> {
        let line = |at: usize| 1 + text.get(..at).map_or(0, |front| front.matches('\n').count());
        let wrong = |at: usize, what: String| Error::input(path, format!("line {}", line(at)), what);
        let file: PackFile = toml::from_str(text).map_err(|error| {
            let what = error.message().lines().next().unwrap_or("is no TOML").to_owned();
            wrong(error.span().map_or(0, |span| span.start), what)
        })?;
        if *file.version.get_ref() != 1 {
            let what =
                format!("version {} of packs is unknown; this program reads 1", file.version.get_ref());
            return Err(wrong(file.version.span().start, what));
        }
        let id = file.id.get_ref();
        let is_id = |id: &str| {
            id.len() <= 32
                && id.starts_with(|char: char| char.is_ascii_alphabetic())
                && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        };
        let bad_id = |id: &Spanned<String>| {
            let what =
                format!("{:?} is no id: a letter, then at most 31 letters, digits, `_` or `-`", id.get_ref());
            wrong(id.span().start, what)
        };
        if !is_id(id) {
            return Err(bad_id(&file.id));
        }
        let mut rules: Vec<TextRule> = Vec::with_capacity(file.rules.len());
        for entry in &file.rules {
            let rule = entry.get_ref();
            if !is_id(rule.id.get_ref()) {
                return Err(bad_id(&rule.id));
            }
            let full = format!("{id}/{}", rule.id.get_ref());
            if rules.iter().any(|known| known.id == full) {
                let what = format!("a second rule with the id {:?}", rule.id.get_ref());
                return Err(wrong(rule.id.span().start, what));
            }
            let mut parsed = rule.read(&full).map_err(|(at, what)| wrong(at, what))?;
            parsed.line = line(rule.regex.span().start);
            rules.push(parsed);
        }
        Ok(Self { id: id.clone(), sha256: digest(text), rules })
    }
}

impl RuleFile {
    fn read(&self, full: &str) -> std::result::Result<TextRule, (usize, String)> {
        let word = |value: &Option<Spanned<String>>| {
            value.as_ref().map(|value| (value.get_ref().clone(), value.span().start))
        };
        let mut flags = String::new();
        for flag in &self.flags {
            match flag.get_ref().as_str() {
                known @ ("i" | "m" | "s" | "x") => flags.push_str(known),
                other => {
                    return Err((flag.span().start, format!("the flag {other:?} is none of i, m, s, x")));
                }
            }
        }
        let server_only = match word(&self.direction) {
            None => false,
            Some((word, _)) if word == "both" => false,
            Some((word, _)) if word == "server" => true,
            Some((word, at)) => return Err((at, format!("the direction {word:?} is none of both, server"))),
        };
        let replacement = word(&self.replacement).map(|(text, _)| text);
        let strategy = match word(&self.strategy) {
            None => replacement.map_or(Strategy::Number, Strategy::Fixed),
            Some((word, _)) if word == "hash" => Strategy::Hash,
            Some((word, _)) if word == "mask" => Strategy::Mask,
            Some((word, _)) if word == "replace" => {
                Strategy::Fixed(replacement.unwrap_or_else(|| format!("<{}>", self.label.get_ref())))
            }
            Some((word, at)) => {
                return Err((at, format!("the strategy {word:?} is none of replace, hash, mask")));
            }
        };
        let validator = match word(&self.validator) {
            None => Validator::None,
            Some((word, at)) => Validator::of(&word)
                .ok_or_else(|| (at, format!("the validator {word:?} is none of {}", Validator::words())))?,
        };
        let mut source = self.regex.get_ref().clone();
        if !flags.is_empty() {
            source = format!("(?{flags}){source}");
        }
        Ok(TextRule::new(full.to_owned(), self.label.get_ref(), source, strategy, server_only, validator))
    }
}

/// Why a regular expression cannot be used, in one line.
pub(super) fn regex_error(source: &str, error: &regex::Error) -> String {
    let back = (1..=9).any(|digit| source.contains(&format!("\\{digit}")));
    let found = ELSEWHERE.iter().find(|(written, _)| source.contains(written)).map(|(_, name)| *name);
    if let Some(name) = found.or_else(|| back.then_some("a back-reference")) {
        return format!("the regex uses {name}, which does not run in linear time and is not supported here");
    }
    let last = error.to_string();
    format!("the regex cannot be used: {}", last.lines().last().unwrap_or("").trim())
}

/// The SHA-256 of a pack's file with LF line ends, in hexadecimal.
fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.replace("\r\n", "\n").as_bytes()))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<TextPack> {
        TextPack::parse(Path::new("team.toml"), text)
    }

    fn with(rule: &str) -> String {
        format!("version = 1\nid = \"team\"\n[[rules]]\nid = \"a\"\nlabel = \"A\"\n{rule}\n")
    }

    #[test]
    fn a_pack_is_read() {
        let text = with("regex = 'EMP-[0-9]+'\nflags = [\"i\"]\nstrategy = \"mask\"\ndirection = \"server\"");
        let pack = parse(&text).unwrap();
        assert_eq!((pack.id.as_str(), pack.rules.len()), ("team", 1));
        assert_eq!(pack.rules[0].id, "team/a");
        assert!(pack.rules[0].server_only);
        assert_eq!(parse(&text.replace('\n', "\r\n")).unwrap().sha256, pack.sha256);
        // The digest of an empty pack, as `sha256sum` gives it.
        let empty = parse("version = 1\nid = \"t\"\n").unwrap();
        assert_eq!(empty.sha256, "60cd35d6ab8e7024389f5d967a791098df79f108fc7d4b57c365b74526c78d97");
    }

    #[test]
    fn the_bundled_pack_is_sound() {
        for text in COMMON {
            let pack = TextPack::parse(Path::new("common.toml"), text).unwrap();
            assert_eq!((pack.id.as_str(), pack.rules.len()), ("common", text.matches("[[rules]]").count()));
        }
    }

    /// The digests of the bundled pack, oldest first, with the first release that shipped each. A line of a release stays
    /// as it is for good: cassettes name these digests. A change of the pack is a new file, and a new line here.
    const SHIPPED: [(&str, &str); 1] =
        [("0.1.0", "753f9cbdf85324e642bae6d69af7a911dbf4df942765f3a3af9cbb2b612a1e91")];

    #[test]
    fn no_pack_that_a_release_has_shipped_is_edited_or_missing() {
        assert_eq!(COMMON.map(digest), SHIPPED.map(|(_, digest)| digest.to_owned()));
        for (release, digest) in SHIPPED {
            let named = Pack { id: "common".to_owned(), sha256: digest.to_owned() };
            let found = TextPack::bundled(&named).map(|pack| (pack.id, pack.sha256));
            assert_eq!(found, Some((named.id, named.sha256)), "{release}");
        }
        assert_eq!(TextPack::common().unwrap().sha256, SHIPPED[SHIPPED.len() - 1].1);
        for (id, sha256) in [("common", "0"), ("team", SHIPPED[0].1)] {
            assert!(TextPack::bundled(&Pack { id: id.to_owned(), sha256: sha256.to_owned() }).is_none());
        }
    }

    #[test]
    fn errors_name_file_and_line() {
        for (text, expected) in [
            (
                "version = 2\nid = \"t\"".to_owned(),
                "team.toml: line 1: version 2 of packs is unknown; this program reads 1",
            ),
            (
                "version = 1\nid = \"1t\"".to_owned(),
                "team.toml: line 2: \"1t\" is no id: a letter, then at most 31 letters, digits, `_` or `-`",
            ),
            ("version = 1\n".to_owned(), "team.toml: line 1: missing field `id`"),
            (
                "version = 1\nid = \"t\"\nname = \"x\"".to_owned(),
                "team.toml: line 3: unknown field `name`, expected one of `version`, `id`, `rules`",
            ),
            (
                with("regex = 'a'\nbackend = 1"),
                "team.toml: line 7: unknown field `backend`, expected one of `id`, `label`, `regex`, `flags`, `strategy`, `replacement`, `direction`, `validator`",
            ),
            (
                with("regex = 'a'") + "[[rules]]\nid = \"a\"\nlabel = \"A\"\nregex = 'b'",
                "team.toml: line 8: a second rule with the id \"a\"",
            ),
            (with("regex = '(a'"), "team.toml: line 6: the regex cannot be used: error: unclosed group"),
            (
                with("regex = '(?<!x)a'"),
                "team.toml: line 6: the regex uses negative look-behind, which does not run in linear time and is not supported here",
            ),
            (
                with(r"regex = '(a)\1'"),
                "team.toml: line 6: the regex uses a back-reference, which does not run in linear time and is not supported here",
            ),
            (
                with(r"regex = 'a\Z'"),
                r"team.toml: line 6: the regex uses `\Z` (write `\z`), which does not run in linear time and is not supported here",
            ),
            (with("regex = 'a'\nflags = [\"u\"]"), "team.toml: line 7: the flag \"u\" is none of i, m, s, x"),
            (
                with("regex = 'a'\nstrategy = \"drop\""),
                "team.toml: line 7: the strategy \"drop\" is none of replace, hash, mask",
            ),
            (
                with("regex = 'a'\ndirection = \"client\""),
                "team.toml: line 7: the direction \"client\" is none of both, server",
            ),
            (
                with("regex = 'a'\nvalidator = \"x\""),
                "team.toml: line 7: the validator \"x\" is none of none, luhn, mod97, word, token, userinfo, email, phone, ipv4, ipv6, ssn, iban, card",
            ),
            (with("regex = "), "team.toml: line 6: string values must be quoted, expected literal string"),
        ] {
            let error = parse(&text).unwrap_err();
            assert_eq!(error.to_string(), expected);
            assert_eq!(error.code(), 2);
        }
    }
}
