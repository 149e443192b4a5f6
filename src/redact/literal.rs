//! Strings inside of code that gets a value: `os.environ.get('TOKEN', 'hunter2')`, `SecretStr("hunter2")`,
//! `process.env.TOKEN || 'hunter2'`. The code is left alone, what is written out in it is not, unless it is only the name
//! of what is got.

use super::key::{Count, Spared};
use super::placeholder::is_placeholder;
use super::quotes::{Quotes, is_quote, quoted_end};
use super::reference::{ends_there, is_reference};
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

/// Looking no further for where a string begins keeps long texts linear.
const LONGEST: usize = 512;

/// Beginnings of functions whose first argument names what they get, or asks for it.
const GETTERS: [&str; 21] = [
    "get", "read", "load", "fetch", "lookup", "find", "open", "input", "prompt", "ask", "question",
    "require", "env", "var", "query", "param", "header", "path", "describe", "field", "column",
];
/// Ends of such names.
const GETTER_ENDS: [&str; 8] = ["env", "environ", "var", "input", "prompt", "getpass", "param", "header"];
/// Arguments by name that are for people.
const ABOUT: [&str; 12] = [
    "alias",
    "description",
    "encoding",
    "env",
    "errors",
    "help",
    "help_text",
    "label",
    "message",
    "name",
    "prompt",
    "title",
];
/// Arguments by name that say where, who and of which kind.
const PLACES: [&str; 40] = [
    "account",
    "algorithm",
    "audience",
    "base_url",
    "bucket",
    "charset",
    "client_id",
    "database",
    "db",
    "dbname",
    "dialect",
    "domain",
    "driver",
    "email",
    "endpoint",
    "engine",
    "grant_type",
    "host",
    "hostname",
    "issuer",
    "kind",
    "level",
    "method",
    "mode",
    "namespace",
    "path",
    "port",
    "profile",
    "protocol",
    "provider",
    "realm",
    "region",
    "scheme",
    "scope",
    "service",
    "tenant",
    "type",
    "url",
    "user",
    "username",
];
/// Arguments that say how.
const HOW: [&str; 12] = [
    "ascii",
    "base64",
    "base64url",
    "bearer",
    "hex",
    "latin-1",
    "latin1",
    "rb",
    "string",
    "text",
    "utf-8",
    "utf8",
];
/// What stands between a value and the one that counts when it is missing.
const FALLBACKS: [&str; 5] = ["||", "??", "?:", "or ", "else "];

/// The strings that are written out in the code that `text` has at `start`, where that is code. `quotes` are those
/// that it stands in.
pub(super) fn literals(rules: &Rules, text: &str, start: usize, quotes: &Quotes) -> Vec<Span> {
    let bytes = text.as_bytes();
    let mut limit = bytes.len().min(start + LONGEST);
    while !text.is_char_boundary(limit) {
        limit -= 1;
    }
    let near = bytes.get(start..limit).unwrap_or_default();
    let limit = memchr::memchr2(b'\n', b'\r', near).map_or(limit, |line| start + line);
    let mut code = Code { rules, text, quotes, start, at: start, limit, found: Vec::new() };
    let called = near.iter().position(|byte| b"([".contains(byte)).and_then(|open| near.get(open + 1..));
    if code.expression() {
        while code.fallback() {}
        if !ends_there(text.get(code.at..).unwrap_or(""))
            && !text.get(..code.at).is_some_and(|front| front.ends_with(' '))
        {
            return Vec::new();
        }
    } else if !called
        .is_some_and(|inside| inside.iter().find(|byte| **byte != b'\\').copied().is_some_and(is_quote))
    {
        // It is not closed, and may be no code.
        return Vec::new();
    }
    code.found.into_iter().map(|(span, _)| span).collect()
}

struct Code<'a> {
    rules: &'a Rules,
    text: &'a str,
    quotes: &'a Quotes,
    start: usize,
    at: usize,
    limit: usize,
    /// Strings, and whether an argument around each has a secret's name.
    found: Vec<(Span, bool)>,
}

/// An open bracket.
struct Bracket {
    close: u8,
    /// What is in front of it is a getter, or what has parts.
    getter: bool,
    subscript: bool,
    /// How many commas were in it.
    index: usize,
    /// The name of the argument.
    keyword: Option<Span>,
    /// How many strings were noted when it was opened.
    noted: usize,
    /// The argument that it stands in, or one around that, has a secret's name.
    inside: bool,
    /// An argument in it has one.
    tells: bool,
}

impl Bracket {
    /// Whether what stands there now is named as secret.
    fn is_named(&self, code: &Code<'_>) -> bool {
        self.inside || self.keyword.is_some_and(|keyword| code.is_secret_name(keyword))
    }
}

impl Code<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at..self.limit)?.first().copied()
    }

    fn rest(&self) -> &str {
        self.text.get(self.at..self.limit).unwrap_or("")
    }

    fn blanks(&mut self) {
        while self.peek() == Some(b' ') {
            self.at += 1;
        }
    }

    /// A path with calls and subscripts behind its parts; false where there is none, or nothing follows that could.
    fn expression(&mut self) -> bool {
        for word in ["new ", "await "] {
            if self.rest().starts_with(word) {
                self.at += word.len();
            }
        }
        if !self.peek().is_some_and(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
            return false;
        }
        loop {
            let from = self.at;
            while self.peek().is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_.:!?".contains(&byte)) {
                if ["??", "?:"].iter().any(|operator| self.rest().starts_with(operator)) {
                    break;
                }
                self.at += 1;
            }
            let Some(open) = self.peek().filter(|byte| b"([".contains(byte)) else { return true };
            let head = Span::new(from, self.at);
            let mut stack = vec![self.bracket(open, head, open == b'[', None)];
            let closed = self.brackets(&mut stack);
            while let Some(bracket) = stack.pop() {
                self.close(&bracket);
            }
            if !closed {
                return false;
            }
        }
    }

    /// What stands in brackets; false where they are not closed here.
    fn brackets(&mut self, stack: &mut Vec<Bracket>) -> bool {
        self.at += 1;
        let mut word: Option<Span> = None;
        while let Some(byte) = self.peek() {
            let slashes = self.rest().bytes().take_while(|byte| *byte == b'\\').count();
            if self.rest().as_bytes().get(slashes).copied().is_some_and(is_quote) {
                if !self.literal(slashes, stack.last()) {
                    return false;
                }
                word = None;
                continue;
            }
            let here = self.at;
            self.at += 1;
            match byte {
                b'(' | b'[' | b'{' => {
                    let subscript = byte == b'[' && word.is_some();
                    let head = word.take().unwrap_or(Span::new(here, here));
                    let bracket = self.bracket(byte, head, subscript, stack.last());
                    stack.push(bracket);
                }
                b')' | b']' | b'}' => {
                    let Some(bracket) = stack.pop() else { return false };
                    self.close(&bracket);
                    if bracket.close != byte {
                        return false;
                    }
                    if stack.is_empty() {
                        return true;
                    }
                    word = Some(Span::new(here, here + 1));
                }
                b',' => {
                    if let Some(bracket) = stack.last_mut() {
                        bracket.index += 1;
                        bracket.keyword = None;
                    }
                    word = None;
                }
                b'=' | b':' if !self.rest().starts_with([':', '=']) => {
                    if let Some(bracket) = stack.last_mut() {
                        bracket.keyword = word.take();
                        bracket.tells |= bracket.keyword.is_some_and(|keyword| self.is_secret_name(keyword));
                    }
                }
                b' ' => {}
                _ => {
                    word = Some(match word {
                        Some(word) if word.end == here => Span::new(word.start, here + 1),
                        _ => Span::new(here, here + 1),
                    });
                }
            }
        }
        false
    }

    /// Where one argument is named as secret the others are none: `connect(host="db", password="x")`.
    fn close(&mut self, bracket: &Bracket) {
        if bracket.tells && !bracket.inside {
            let noted = self.found.split_off(bracket.noted.min(self.found.len()));
            self.found.extend(noted.into_iter().filter(|(_, named)| *named));
        }
    }

    fn is_secret_name(&self, name: Span) -> bool {
        let facts = self.rules.facts(name.of(self.text));
        facts.rule.is_some() && facts.spared == Spared::No && facts.count != Count::Word
    }

    fn bracket(&self, open: u8, head: Span, subscript: bool, within: Option<&Bracket>) -> Bracket {
        let close = match open {
            b'(' => b')',
            b'[' => b']',
            _ => b'}',
        };
        let head = head.of(self.text).trim_end_matches(['!', '?', '.', ':']);
        let name = head.rsplit(['.', ':']).next().unwrap_or("").to_ascii_lowercase();
        let getter = open == b'('
            && (GETTERS.iter().any(|front| name.starts_with(front))
                || GETTER_ENDS.iter().any(|end| name.ends_with(end)));
        Bracket {
            close,
            getter,
            subscript,
            index: 0,
            keyword: None,
            noted: self.found.len(),
            inside: within.is_some_and(|within| within.is_named(self)),
            tells: false,
        }
    }

    /// A string at the place, which is noted where it could be what is looked for; false where it is none or not closed.
    fn literal(&mut self, slashes: usize, within: Option<&Bracket>) -> bool {
        let bytes = self.text.as_bytes();
        let mark = self.at + slashes;
        let Some(quote) = bytes.get(mark).copied() else { return false };
        if self.quotes.close_with(quote, slashes, bytes.get(mark + 1).copied()) {
            return false;
        }
        let Some(value) = self.text.get(mark + 1..) else { return false };
        let (end, closed) = quoted_end(value.as_bytes(), quote, slashes);
        let span = Span::new(mark + 1, mark + 1 + end);
        if self.is_secret(span.of(self.text), within) {
            let named = within.is_some_and(|bracket| bracket.is_named(self));
            self.found.push((span, named));
        }
        self.at = span.end + slashes + 1;
        closed && self.at <= self.limit
    }

    fn is_secret(&self, value: &str, within: Option<&Bracket>) -> bool {
        if is_placeholder(value) {
            return true;
        }
        let says = |words: &[&str]| words.iter().any(|word| value.eq_ignore_ascii_case(word));
        if value.len() < 3
            || says(&HOW)
            || is_reference(self.rules, value)
            || !value.chars().any(char::is_alphanumeric)
        {
            return false;
        }
        let Some(bracket) = within else { return true };
        // What is named there is looked at by its own name.
        if bracket.close == b'}' {
            return false;
        }
        if let Some(keyword) = bracket.keyword {
            let keyword = keyword.of(self.text);
            return !ABOUT.contains(&keyword) && PLACES.binary_search(&keyword).is_err();
        }
        let key = bracket.subscript
            || (bracket.index == 0
                && (value.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
                    || (bracket.getter && (is_key(value) || is_prompt(value)))));
        !key
    }

    /// An operator and what stands in when there is nothing in front of it.
    fn fallback(&mut self) -> bool {
        self.blanks();
        let Some(operator) = FALLBACKS.iter().find(|operator| self.rest().starts_with(**operator)) else {
            // `a if b else c`.
            return self.rest().starts_with("if ") && {
                self.at += "if ".len();
                self.blanks();
                self.expression()
            };
        };
        // `a or b` may be said by people.
        let front = self.text.get(self.start..self.at).unwrap_or("").trim_end();
        let is_code = front.bytes().any(|byte| b".([_".contains(&byte))
            || !front.bytes().any(|byte| byte.is_ascii_lowercase());
        if operator.ends_with(' ') && !is_code {
            return false;
        }
        self.at += operator.len();
        self.blanks();
        let slashes = self.rest().bytes().take_while(|byte| *byte == b'\\').count();
        if self.rest().as_bytes().get(slashes).copied().is_some_and(is_quote) {
            return self.literal(slashes, None);
        }
        self.expression()
    }
}

/// Whether this names something: `DB_PASSWORD`, `auth.token`, `/run/secrets/token`.
fn is_key(value: &str) -> bool {
    value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-./:".contains(&byte))
}

/// Whether this asks somebody for something.
fn is_prompt(value: &str) -> bool {
    value.trim_end().ends_with([':', '?', '>']) || value.contains(' ')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order() {
        assert!(PLACES.is_sorted());
    }
}
