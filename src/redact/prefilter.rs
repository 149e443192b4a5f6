//! Decides in one pass over the bytes whether a text can hold anything that a rule covers. It may say yes in vain,
//! never no: most messages hold no suspicious name, and they must cost nothing.

use std::sync::OnceLock;

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use super::layouts;
use super::sieve::{Catch, Sieve, behind};
use super::stems::Stems;
use super::triggers::has_token;

/// What is longer and followed by `=` is no field of a form but the end of some Base64.
pub(super) const LONGEST_FIELD_NAME: usize = 128;

/// Names that match a default glob, stand in every other message, and whose numbers are never a secret.
const SPARED: [&[u8]; 2] = [b"progressToken", b"maxTokens"];

/// What texts must have in them.
#[derive(Clone, Debug)]
enum Needs<T> {
    /// There is nothing to look for.
    Never,
    /// Nothing can be said from the bytes.
    Always,
    /// Some of these.
    Some(T),
}

impl<T> Needs<T> {
    fn of(stems: &[Option<String>], build: impl FnOnce(&[&str]) -> T) -> Self {
        if stems.is_empty() {
            return Self::Never;
        }
        let known: Vec<&str> = stems.iter().flatten().map(String::as_str).collect();
        if known.len() < stems.len() { Self::Always } else { Self::Some(build(&known)) }
    }
}

/// Words in any case, as a regular expression that is compiled when it is first needed: a replay may be asked before
/// that, and compiling takes longer than all else that a start does.
#[derive(Clone, Debug)]
struct Words {
    source: String,
    compiled: OnceLock<Option<Regex>>,
}

impl Words {
    fn of(words: &[&str]) -> Self {
        Self { source: words.join("|"), compiled: OnceLock::new() }
    }

    /// Always true for an expression that is too large to compile.
    fn are_in(&self, bytes: &[u8]) -> bool {
        let build = || RegexBuilder::new(&self.source).case_insensitive(true).unicode(false).build().ok();
        self.compiled.get_or_init(build).as_ref().is_none_or(|regex| regex.is_match(bytes))
    }
}

/// The compiled filter of a rule set.
#[derive(Clone, Debug)]
pub(super) struct Prefilter {
    keys: Needs<Stems>,
    /// For the stems of `keys` and for tokens, where both are looked for.
    sieve: Option<Sieve>,
    pointers: Needs<Words>,
    escape: memmem::Finder<'static>,
    dashes: memmem::Finder<'static>,
    value: memmem::Finder<'static>,
}

impl Prefilter {
    /// From the normalised globs, and the segments of the pointers; `tokens`: whether they are looked for too.
    pub(super) fn new<'a>(
        globs: impl Iterator<Item = &'a str>,
        pointers: impl Iterator<Item = &'a [Option<String>]>,
        tokens: bool,
    ) -> Self {
        let globs: Vec<_> = globs.map(glob_stem).collect();
        let pointers: Vec<_> = pointers.map(pointer_stem).collect();
        let keys = Needs::of(&globs, Stems::of);
        Self {
            sieve: match &keys {
                Needs::Some(stems) if tokens => Sieve::of(stems),
                _ => None,
            },
            keys,
            pointers: Needs::of(&pointers, Words::of),
            escape: memmem::Finder::new(b"\\u00"),
            dashes: memmem::Finder::new(b"--"),
            value: memmem::Finder::new(b"alue"),
        }
    }

    /// Whether a pointer may lead to something in this message.
    pub(super) fn pointers(&self, text: &str) -> bool {
        match &self.pointers {
            Needs::Never => false,
            Needs::Always => true,
            Needs::Some(words) => words.are_in(text.as_bytes()) || self.hides_names(text.as_bytes()),
        }
    }

    /// The same as [`Prefilter::keys`], and whether a token may stand in the text, by one search; `None` where there is none
    /// for both.
    pub(super) fn keys_and_tokens(&self, text: &str) -> Option<bool> {
        let (Some(sieve), Needs::Some(stems)) = (&self.sieve, &self.keys) else { return None };
        let bytes = text.as_bytes();
        let caught = match sieve.first(bytes, stems) {
            Some(Catch::Token) => true,
            Some(Catch::Stem(at)) => self.names(bytes) || has_token(behind(bytes, at)),
            None => false,
        };
        Some(caught || self.hides_names(bytes))
    }

    /// Whether a name that a glob matches may stand in this text, as a member or a form's field.
    pub(super) fn keys(&self, text: &str) -> bool {
        let bytes = text.as_bytes();
        match &self.keys {
            Needs::Never => false,
            Needs::Always => true,
            Needs::Some(stems) => (stems.are_in_text(bytes) && self.names(bytes)) || self.hides_names(bytes),
        }
    }

    /// Whether a name that a glob matches may stand in these bytes, which hold a stem.
    fn names(&self, bytes: &[u8]) -> bool {
        memchr::memchr2_iter(b':', b'=', bytes).any(|at| self.is_named(bytes, at))
            || memchr::memchr_iter(b'[', bytes).any(|at| self.begins_with_name(bytes, at + 1))
            || self.dashes.find_iter(bytes).any(|at| self.begins_with_name(bytes, at + 2))
            // Names may stand beside their values: `{"name":"password","value":"x"}`.
            || self.value.find_iter(bytes).any(|at| names_value(bytes, at))
            || layouts::may_name(bytes, &|name| self.name(name))
            || has_encoded_sign(bytes)
    }

    /// Whether a name that a glob matches stands right behind, perhaps in quotes.
    fn begins_with_name(&self, bytes: &[u8], at: usize) -> bool {
        let rest = behind_blanks(bytes.get(at..).unwrap_or_default());
        let len = rest.iter().take(LONGEST_FIELD_NAME).take_while(|byte| is_name_byte(**byte)).count();
        len > 0 && rest.get(..len).is_some_and(|name| self.name(name))
    }

    /// Whether [`Prefilter::keys`] looks for escapes that hide something.
    pub(super) fn sees_escapes(&self) -> bool {
        matches!(self.keys, Needs::Some(_))
    }

    /// The same for free text, where names stand in any syntax.
    pub(super) fn plain(&self, text: &str) -> bool {
        match &self.keys {
            Needs::Never => false,
            Needs::Always => true,
            Needs::Some(stems) => stems.are_in_text(text.as_bytes()) || self.hides_names(text.as_bytes()),
        }
    }

    /// Whether a glob may match this name.
    pub(super) fn name(&self, name: &[u8]) -> bool {
        match &self.keys {
            Needs::Never => false,
            Needs::Always => true,
            Needs::Some(stems) => stems.are_in(name),
        }
    }

    /// Whether what stands in front of the colon or equals sign at `at` may be a name that a glob matches.
    fn is_named(&self, bytes: &[u8], at: usize) -> bool {
        let front = bytes.get(..at).unwrap_or_default();
        if bytes.get(at) == Some(&b'=') {
            let blanks = front.iter().rev().take(40).take_while(|byte| **byte == b' ').count();
            let front = front.get(..at - blanks).unwrap_or_default();
            // In text a name may be in quotes, escaped ones perhaps.
            let quoted = front.strip_suffix(b"\"").or_else(|| front.strip_suffix(b"'"));
            let front = quoted.map_or(front, without_slashes);
            let field = |byte: &&u8| is_field_byte(**byte);
            let name = front.iter().rev().take(LONGEST_FIELD_NAME).take_while(field).count();
            return front.get(front.len() - name..).is_some_and(|name| self.name(name));
        }
        // In text names may stand without quotes, or in single ones, escaped ones perhaps.
        let escaped = matches!(front, [.., b'\\', b'n' | b'r' | b't']);
        if let Some(byte) = front.last().filter(|_| !escaped)
            && (is_name_byte(*byte) || *byte == b'\'')
        {
            let front = front.strip_suffix(b"'").map_or(front, without_slashes);
            let field = |byte: &&u8| is_name_byte(**byte);
            let name = front.iter().rev().take(LONGEST_FIELD_NAME).take_while(field).count();
            return front.get(front.len() - name..).is_some_and(|name| self.name(name));
        }
        let end = match front.last() {
            Some(b'"') => front.len() - 1,
            Some(b' ' | b'\n' | b'\r' | b'\t') => {
                let blank = |byte: &&u8| matches!(byte, b' ' | b'\n' | b'\r' | b'\t');
                match front.len() - front.iter().rev().take_while(blank).count() {
                    0 => return false,
                    end => end - 1,
                }
            }
            _ => front.len().saturating_sub(1),
        };
        match front.get(end) {
            Some(b'"') => {}
            // White space of nested text, perhaps.
            Some(b'n' | b'r' | b't') => return end > 0 && front.get(end - 1) == Some(&b'\\'),
            _ => return false,
        }
        let front = front.get(..end).unwrap_or_default();
        // Names are short: no call is worth it.
        let Some(start) = front.iter().rposition(|byte| *byte == b'"') else {
            // The text was cut off in the middle of a name.
            return front
                .get(front.len().saturating_sub(LONGEST_FIELD_NAME)..)
                .is_some_and(|name| self.name(name));
        };
        let mut depth = 0;
        let before = front.get(..start).unwrap_or_default();
        if front.last() == Some(&b'\\') || before.last() == Some(&b'\\') {
            let slashes = |front: &[u8]| front.iter().rev().take_while(|byte| **byte == b'\\').count();
            depth = slashes(front);
            // An escaped quote may be part of the name: too much for this pass.
            if depth != slashes(before) {
                return true;
            }
        }
        let name = front.get(start + 1..end - depth).unwrap_or_default();
        self.name(name) && !(SPARED.contains(&name) && is_number_behind(bytes, at))
    }

    /// Whether an escape stands for a character that names, or what marks them as names, are made of: then the bytes
    /// prove nothing.
    pub(super) fn hides_names(&self, bytes: &[u8]) -> bool {
        if memchr::memchr2(b'\\', b'%', bytes).is_none() {
            return false;
        }
        let escape = self.escape.find_iter(bytes).any(|at| {
            hex_byte(bytes, at + 4).is_some_and(|byte| {
                (b' '..0x7f).contains(&byte) && !matches!(byte, b'<' | b'>' | b'&' | b'\'')
            })
        });
        escape
            || memchr::memchr_iter(b'%', bytes).any(|at| {
                hex_byte(bytes, at + 1).is_some_and(|byte| {
                    byte.is_ascii_alphanumeric() || matches!(byte, b'%' | b'\\' | b'"' | b'@' | b'+')
                })
            })
    }
}

/// Without the backslashes at the end.
fn without_slashes(front: &[u8]) -> &[u8] {
    let slashes = front.iter().rev().take_while(|byte| **byte == b'\\').count();
    front.get(..front.len() - slashes).unwrap_or_default()
}

/// What stands behind quotes and white space, escaped to any depth.
fn behind_blanks(mut rest: &[u8]) -> &[u8] {
    loop {
        rest = match rest {
            [b'\\', b'n' | b'r' | b't', behind @ ..]
            | [b'\\', b'u', b'0', b'0', b'0', b'a' | b'A' | b'd' | b'D' | b'9', behind @ ..]
            | [b'"' | b'\\' | b' ' | b'\n' | b'\r' | b'\t', behind @ ..] => behind,
            _ => return rest,
        }
    }
}

/// Whether these letters end `"value` or `"Value`.
fn names_value(bytes: &[u8], at: usize) -> bool {
    bytes.get(..at).is_some_and(|front| front.ends_with(b"\"v") || front.ends_with(b"\"V"))
}

/// Whether a sign is percent-encoded: it may be what marks a name in a text inside, as in `?next=https%3A%2F%2Fh%2F%3Ftoken%3Dx`.
fn has_encoded_sign(bytes: &[u8]) -> bool {
    memchr::memchr_iter(b'%', bytes)
        .any(|at| hex_byte(bytes, at + 1).is_some_and(|byte| matches!(byte, b':' | b'=' | b'[' | b'-')))
}

/// Whether a number stands behind the colon at `at`.
fn is_number_behind(bytes: &[u8], at: usize) -> bool {
    let rest = bytes.get(at + 1..).unwrap_or_default();
    rest.iter().find(|byte| **byte != b' ').is_some_and(u8::is_ascii_digit)
}

/// What every name under the glob contains: its longest literal stretch of letters and digits, with a `_` for the
/// separators in it; `None` when there is none.
fn glob_stem(pattern: &str) -> Option<String> {
    let stretch = pattern
        .split(|char: char| !char.is_ascii_alphanumeric() && char != '_')
        .map(|stretch| stretch.trim_matches('_'))
        .max_by_key(|stretch| stretch.len())
        .filter(|stretch| !stretch.is_empty())?;
    Some(stretch.to_owned())
}

/// A pattern that every text with such a pointer contains. Numbers may be positions, which leave no trace.
fn pointer_stem(segments: &[Option<String>]) -> Option<String> {
    segments
        .iter()
        .flatten()
        .filter(|segment| !segment.bytes().all(|byte| byte.is_ascii_digit()))
        .flat_map(|segment| segment.split(|char: char| !char.is_ascii_alphanumeric()))
        .max_by_key(|stretch| stretch.len())
        .filter(|stretch| !stretch.is_empty())
        .map(str::to_owned)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

fn hex_byte(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = std::str::from_utf8(bytes.get(at..at + 2)?).ok()?;
    u8::from_str_radix(digits, 16).ok()
}

/// Whether the name of a form's field may have this byte in it.
pub(super) fn is_field_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'+' | b'%' | b'[' | b']' | b'$')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filter(globs: &[&str]) -> Prefilter {
        Prefilter::new(globs.iter().copied(), std::iter::empty(), false)
    }

    #[test]
    fn only_names_count() {
        let filter = filter(&["*token*", "*api_key*"]);
        for (text, expected) in [
            (r#"{"a":"b"}"#, false),
            (r#"{"token":"b"}"#, true),
            (r#"{"x TOKEN y" : 1}"#, true),
            (r#"{"a":"the token","b":"token tokens"}"#, false),
            (r#"{"a":"the token","token":1}"#, true),
            (r#"{"progressToken":1,"maxTokens":2}"#, false),
            (r#"{"progressToken":1,"myToken":2}"#, true),
            (r#"{"my progressToken":1}"#, true),
            (r#"{"my \"progressToken":1}"#, true),
            (r#"{"a":"{\"progressToken\" : 1}"}"#, false),
            (r#"{"a":"{\"token\"\n: 1}"}"#, true),
            (r#"{"a":"see https://h/token: \"x\""}"#, true),
            (r#"{"a":"{\"token\":1}"}"#, true),
            (r#"{"a":"{\"b\":\"token\"}"}"#, false),
            (r#"{"t\u006fken":1}"#, true),
            (r#"{"a":"caf\u00e9 \u003cb\u003e"}"#, false),
            (r#"{"a":"token=1"}"#, true),
            (r#"{"a":"my_token[x]\u003d1"}"#, true),
            (r#"{"a":"t%6fken=1"}"#, true),
            (r#"{"a":"%22token%22%3A"}"#, true),
            (r#"{"a":"%20 100%"}"#, false),
            (r#"{"a":"h?b=c%3Ftoken%3Dx"}"#, true),
            (r#"{"a":"token%3A%20x"}"#, true),
            (r#"{"a":"token%20c%3a"}"#, true),
            (r#"{"a":"the token, 100%20"}"#, false),
            (r#"{"api-key":1}"#, true),
            (r#"{"api__key":1}"#, true),
            (r#"{"apiKey":1}"#, true),
            ("[\"token\"", true),
            ("[\r\n\t\"token\"", true),
            (r#"{"a":"[\n  \"token\",\n  \"x\"\n]"}"#, true),
            (r#"{"a":"[\u000a\u0009\"token\",\"x\"]"}"#, true),
            (r#"{"a":"{\"b\":\"[\\n \\\"token\\\",\\\"x\\\"]\"}"}"#, true),
            ("oken\":1,\"my-token\":1", true),
            ("my token\": 1", true),
            ("'token'=1 ", true),
            (r"token\':1", true),
            (r#"{"a":"\"token\" = 1"}"#, true),
            ("", false),
        ] {
            assert_eq!(filter.keys(text), expected, "{text}");
        }
    }

    #[test]
    fn a_glob_without_letters_is_always_possible() {
        assert!(filter(&["*"]).keys(""));
        assert!(filter(&["*token*", "*пароль*"]).keys(""));
        assert!(!filter(&[]).keys("token"));
    }
}
