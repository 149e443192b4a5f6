//! Text that is no message: command lines, URLs, lines of logs. Values get the placeholder without a number, as such
//! text may stand in a cassette's head, which belongs to no process.

use std::borrow::Cow;

use super::document::Hit;
use super::nested::{documents, in_fields, in_json, is_url, url_fields};
use super::placeholder::{PLAIN, is_placeholder};
use super::redactor::replace_unnumbered;
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

impl Rules {
    /// A command line with values replaced: the globs apply to `--k v`, `--k=v` and `K=V`, and inside an argument as
    /// in [`Rules::redact_url`] and [`Rules::redact_plain`].
    #[must_use]
    pub fn redact_command(&self, command: &[String]) -> Vec<String> {
        let mut out: Vec<String> = Vec::with_capacity(command.len());
        let mut named: Option<&str> = None;
        for argument in command {
            let name = named.take();
            if let Some(rule) = name.filter(|_| !is_flag(argument)).and_then(|name| self.pair(name, argument))
            {
                out.push(self.stand_in(rule, argument).to_owned());
                continue;
            }
            let option = argument.trim_start_matches('-');
            if option.len() < argument.len() && is_name(option) {
                named = Some(option);
            }
            let pair = option.split_once('=').filter(|(name, _)| is_name(name));
            out.push(match pair {
                Some((name, value)) => {
                    let front = argument.get(..argument.len() - value.len()).unwrap_or("");
                    let value = match self.pair(name, value) {
                        Some(rule) => self.stand_in(rule, value).to_owned(),
                        None => self.redact_argument(value),
                    };
                    front.to_owned() + &value
                }
                None => self.redact_argument(argument),
            });
        }
        out
    }

    fn redact_argument(&self, argument: &str) -> String {
        if is_url(argument) { self.redact_url(argument) } else { self.redact_plain(argument).into_owned() }
    }

    fn stand_in<'a>(&'a self, rule: usize, value: &'a str) -> &'a str {
        if value.is_empty() || is_placeholder(value) { value } else { self.text(rule).unwrap_or(PLAIN) }
    }

    /// A URL with values of its query and fragment replaced by name, and its user information whatever it is.
    #[must_use]
    pub fn redact_url(&self, url: &str) -> String {
        if self.is_empty() {
            return url.to_owned();
        }
        let mut hits = in_fields(self, url, &url_fields(url), 0, "").hits;
        hits.retain(|hit| !hit.stays);
        let redacted = replace_unnumbered(self, url, &hits);
        let Some((scheme, rest)) = redacted.split_once("://") else { return redacted };
        let authority = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        match rest.get(..authority).and_then(|authority| authority.rfind('@')) {
            Some(at) => format!("{scheme}://{PLAIN}{}", rest.get(at..).unwrap_or("")),
            None => redacted,
        }
    }

    /// The value of a header field with each URL in it as in [`Rules::redact_url`].
    #[must_use]
    pub fn redact_urls<'a>(&self, field: &'a str) -> Cow<'a, str> {
        if !field.contains("://") {
            return Cow::Borrowed(field);
        }
        let ends = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | ',' | ';' | '<' | '>' | '=');
        // A `=` ends a parameter's name only; behind the scheme it belongs to the URL.
        let mut out = String::with_capacity(field.len());
        let mut rest = field;
        while let Some(scheme) = rest.find("://") {
            let start = rest.get(..scheme).and_then(|front| front.rfind(ends)).map_or(0, |at| at + 1);
            let behind = rest.get(scheme..).unwrap_or_default();
            let length = behind.find(|c| ends(c) && c != '=').unwrap_or(behind.len());
            let url = rest.get(start..scheme + length).unwrap_or_default();
            out.push_str(rest.get(..start).unwrap_or_default());
            out.push_str(&self.redact_url(url));
            rest = rest.get(scheme + length..).unwrap_or_default();
        }
        out.push_str(rest);
        Cow::Owned(out)
    }

    /// Free text with values replaced: in JSON that stands in it, `K=V`, `--k v`, `k: "v"`, and lines that look like
    /// headers (`Authorization: ...`). Prose is left alone.
    #[must_use]
    pub fn redact_plain<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let hits = self.find_plain(text);
        if hits.is_empty() { Cow::Borrowed(text) } else { Cow::Owned(replace_unnumbered(self, text, &hits)) }
    }

    /// Every value in free text that has to be replaced, in order. The path of a hit is the name it stands under.
    #[must_use]
    pub fn find_plain(&self, text: &str) -> Vec<Hit> {
        if !self.prefilter().plain(text) {
            return Vec::new();
        }
        let documents = documents(text);
        let mut hits = in_json(self, text, &documents, 0, "").hits;
        let mut documents = documents.iter().peekable();
        let mut at = 0;
        while let Some(separator) = next_separator(text, at) {
            at = separator + 1;
            while documents.next_if(|span| span.end <= separator).is_some() {}
            if let Some(inside) = documents.peek().filter(|span| span.start < separator) {
                at = inside.end;
                continue;
            }
            let Some(name) = name_before(text, separator) else { continue };
            if self.facts(name.of(text)).rule.is_none() {
                continue;
            }
            let Some(value) = value_behind(text, name, separator) else { continue };
            let Some(rule) = self.pair(name.of(text), value.of(text)) else { continue };
            let stays = is_harmless(value.of(text)) || self.text(rule) == Some(value.of(text));
            at = value.end.max(at);
            hits.push(Hit {
                span: value,
                rule,
                path: name.of(text).to_owned(),
                value: value.of(text).to_owned(),
                number: false,
                encodings: Vec::new(),
                stays,
            });
        }
        hits.retain(|hit| !hit.stays);
        hits.sort_by_key(|hit| hit.span);
        hits
    }
}

/// Whether an argument cannot be the value of the option before it.
fn is_flag(argument: &str) -> bool {
    argument.starts_with("--") || (argument.starts_with('-') && argument.len() <= 2)
}

fn is_harmless(value: &str) -> bool {
    is_placeholder(value)
        || ["", "true", "false", "null", "none", "nil", "undefined"]
            .iter()
            .any(|word| value.eq_ignore_ascii_case(word))
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(is_name_byte)
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The next `=`, `:`, or space behind an option, at or after `at`.
fn next_separator(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    memchr::memchr3(b'=', b':', b' ', rest).map(|offset| at + offset)
}

/// The name in front of the separator at `at`, which may be in quotes.
fn name_before(text: &str, at: usize) -> Option<Span> {
    // A name is short; looking no further keeps long texts linear.
    const LONG: usize = 128;
    let bytes = text.as_bytes();
    let quoted = at.checked_sub(1).and_then(|before| bytes.get(before)).is_some_and(|byte| is_quote(*byte));
    let end = if quoted { at - 1 } else { at };
    let near = end.saturating_sub(LONG);
    let front = bytes.get(near..end)?;
    let start = front.iter().rposition(|byte| !is_name_byte(*byte)).map_or(near, |before| near + before + 1);
    (start < end).then_some(Span::new(start, end))
}

/// The value behind the separator at `at`, when this looks like somebody naming a value.
fn value_behind(text: &str, name: Span, at: usize) -> Option<Span> {
    let bytes = text.as_bytes();
    let separator = *bytes.get(at)?;
    let mut start = at + 1;
    match separator {
        b' ' if !name.of(text).starts_with("--") => return None,
        b':' => start += bytes.get(start..)?.iter().take_while(|byte| **byte == b' ').count(),
        _ => {}
    }
    let rest = bytes.get(start..)?;
    let length = match (rest.first()?, separator) {
        (quote, _) if is_quote(*quote) => {
            let close = memchr::memchr(*quote, rest.get(1..)?)?;
            return Some(Span::new(start + 1, start + 1 + close));
        }
        (b'{' | b'[', _) | (b'-', b' ') => return None,
        (_, b':') => header_len(bytes, name, rest)?,
        _ => rest
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || b",;&\"'`)}]".contains(byte))
            .unwrap_or(rest.len()),
    };
    let value = text.get(start..start + length)?.trim_end();
    Some(Span::new(start, start + value.len()))
}

/// How much of `rest` is the value of a header: the rest of its line, or of the quotes it stands in. In the middle
/// of a line an unquoted `name: word` is prose.
fn header_len(bytes: &[u8], name: Span, rest: &[u8]) -> Option<usize> {
    const LONGEST_LEAD: usize = 32;
    let line = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
    let before = name.start.checked_sub(1).and_then(|before| bytes.get(before)).copied();
    if let Some(quote) = before.filter(|byte| is_quote(*byte)) {
        let own = bytes.get(name.end) == Some(&quote);
        return Some(if own { line } else { memchr::memchr(quote, rest.get(..line)?).unwrap_or(line) });
    }
    let near = name.start.saturating_sub(LONGEST_LEAD);
    let lead = bytes.get(near..name.start)?;
    let newline = lead.iter().rposition(|byte| *byte == b'\n');
    let lead = match newline {
        Some(newline) => lead.get(newline + 1..)?,
        None if near == 0 => lead,
        None => return None,
    };
    lead.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'<' | b'>' | b'*')).then_some(line)
}

fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}
