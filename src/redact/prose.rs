//! Values that text names: `password=x`, `--api-key x`, `token: "x"`, lines that look like headers, and JSON that was
//! cut off in the middle. Prose that only speaks of tokens is left alone.

use super::literal::literals;
use super::placeholder::is_placeholder;
use super::quotes::{Quotes, is_quote, quoted_end, slashes_behind};
use super::reference::{
    begins_with_code, begins_with_description, begins_with_reference, is_handed_on, is_metavariable,
    is_passed, is_reference, is_type,
};
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

/// The named values of a text outside `inside` (in order), with the rule and the name.
pub(super) fn find<'t>(rules: &Rules, text: &'t str, inside: &[Span]) -> Vec<(usize, Span, &'t str)> {
    let mut found = Vec::new();
    let mut inside = inside.iter().peekable();
    let mut quotes = Quotes::default();
    let mut at = 0;
    while let Some(separator) = next_separator(text, at) {
        at = separator + 1;
        while inside.next_if(|span| span.end <= separator).is_some() {}
        if let Some(document) = inside.peek().filter(|span| span.start < separator) {
            at = document.end;
            continue;
        }
        let Some(name) = name_before(text, separator) else { continue };
        if rules.facts(name.span.of(text)).rule.is_none() {
            continue;
        }
        quotes.advance(text, name.start());
        let mut values =
            code_behind(text, separator).map_or_else(Vec::new, |start| literals(rules, text, start, &quotes));
        if values.is_empty() {
            values.extend(value_behind(rules, text, &name, separator, &quotes));
        }
        for value in values {
            let Some(rule) = rules.pair(name.span.of(text), value.of(text)) else { continue };
            at = value.end.max(at);
            found.push((rule, value, name.span.of(text)));
        }
    }
    found
}

/// Whether a value says nothing, or is a placeholder. `rest` is the text that it begins.
fn is_harmless(rules: &Rules, value: &str, rest: &str) -> bool {
    const WORDS: [&str; 24] = [
        "",
        "true",
        "false",
        "null",
        "none",
        "nil",
        "undefined",
        "string",
        "str",
        "number",
        "int",
        "integer",
        "boolean",
        "bool",
        "any",
        "bytes",
        "object",
        "required",
        "optional",
        "missing",
        "invalid",
        "expired",
        "empty",
        "secret",
    ];
    let bare = value.trim_end_matches([';', ',', '.', '?', ')']);
    is_placeholder(value)
        || is_placeholder(bare)
        || WORDS.iter().any(|word| bare.eq_ignore_ascii_case(word))
        || bare.bytes().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X' | b'-' | b'_'))
        || matches!(value, "\\t" | "\\t\\t")
        || is_reference(rules, value)
        || is_reference(rules, bare)
        || begins_with_reference(rules, rest)
        || begins_with_description(rest)
        || begins_with_code(rest)
        || is_type(value)
}

/// A name and how it is quoted.
struct Named {
    span: Span,
    /// The quote, and the backslashes in front of it.
    quote: Option<(u8, usize)>,
}

impl Named {
    /// Where it starts with its quote.
    fn start(&self) -> usize {
        self.span.start.saturating_sub(self.quote.map_or(0, |(_, slashes)| slashes + 1))
    }
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.')
}

/// The next `=`, `:`, or space behind an option, at or after `at`.
fn next_separator(text: &str, at: usize) -> Option<usize> {
    let rest = text.as_bytes().get(at..)?;
    memchr::memchr3(b'=', b':', b' ', rest).map(|offset| at + offset)
}

/// The name in front of the separator at `at`, which may be in quotes, escaped ones where the text was cut out of
/// JSON.
fn name_before(text: &str, at: usize) -> Option<Named> {
    // A name is short; looking no further keeps long texts linear.
    const LONG: usize = 128;
    let bytes = text.as_bytes();
    let byte = |at: usize| bytes.get(at).copied();
    // `password = x`, `"password" : "x"`: white space in front of the separator.
    let mut end = at;
    if byte(at) != Some(b' ') {
        while end > 0 && at - end < 4 && byte(end - 1) == Some(b' ') {
            end -= 1;
        }
    }
    let mut quote = None;
    if let Some(mark) = end.checked_sub(1).and_then(byte).filter(|byte| is_quote(*byte)) {
        let front = bytes.get(..end - 1)?;
        let slashes = slashes_behind(front);
        end -= 1 + slashes;
        quote = Some((mark, slashes));
    }
    let near = end.saturating_sub(LONG);
    let front = bytes.get(near..end)?;
    let start = front.iter().rposition(|byte| !is_name_byte(*byte)).map_or(near, |before| near + before + 1);
    if start >= end {
        return None;
    }
    // A blank in front of the separator is only that behind a name that stands alone or in quotes.
    let spaced = end < at && quote.is_none() && byte(at) != Some(b'=');
    (!spaced).then_some(Named { span: Span::new(start, end), quote })
}

/// Where code that gets a value could start behind the separator at `at`.
fn code_behind(text: &str, at: usize) -> Option<usize> {
    let (separator, rest) = text.as_bytes().get(at..)?.split_first()?;
    if *separator == b' ' || matches!(rest.first(), Some(b'=' | b'>')) {
        return None;
    }
    Some(at + 1 + rest.iter().take_while(|byte| **byte == b' ').count())
}

/// The value behind the separator at `at`, when this looks like somebody naming a value.
fn value_behind(rules: &Rules, text: &str, name: &Named, at: usize, quotes: &Quotes) -> Option<Span> {
    let bytes = text.as_bytes();
    let separator = *bytes.get(at)?;
    let blanks = |from: usize| -> Option<usize> {
        Some(bytes.get(from..)?.iter().take_while(|byte| **byte == b' ').count())
    };
    let mut start = at + 1;
    match separator {
        b' ' if !name.span.of(text).starts_with("--") => return None,
        b' ' => {}
        // `a == b`, `a => b`, `a := b`.
        b'=' if matches!(bytes.get(start), Some(b'=' | b'>')) => return None,
        b'=' => {
            let space = blanks(start)?;
            // `password = hunter2` in a settings file; `token = get()` is code.
            start += space;
        }
        _ => start += blanks(start)?,
    }
    let rest = bytes.get(start..)?;
    let slashes = rest.iter().take_while(|byte| **byte == b'\\').count();
    if let Some(quote) = rest.get(slashes).copied().filter(|byte| is_quote(*byte)) {
        let own = name.quote.is_some_and(|(mark, _)| mark == quote);
        if !own && quotes.close_with(quote, slashes, rest.get(slashes + 1).copied()) {
            return None;
        }
        let inside = start + slashes + 1;
        let value = text.get(inside..)?;
        let (end, closed) = quoted_end(value.as_bytes(), quote, slashes);
        let value = value.get(..end)?;
        let hidden = value.bytes().all(|byte| matches!(byte, b'*' | b'.'));
        // It closes what was opened on an earlier line.
        let told = closed && value.chars().any(char::is_alphanumeric);
        let closes = !own && !told && value.starts_with([' ', '\t', ')', ']', '}', ',', ';', '+']);
        return (!is_reference(rules, value) && !hidden && !closes).then(|| Span::new(inside, inside + end));
    }
    let length = match (rest.first()?, separator) {
        (b'{' | b'[' | b'(', _) | (b'-', b' ') => return None,
        (_, b':') => header_len(bytes, name, rest)?,
        _ => rest
            .iter()
            .position(|byte| byte.is_ascii_whitespace() || b",;&\"'`)}]\\".contains(byte))
            .unwrap_or(rest.len()),
    };
    // With blanks around the sign it is a setting when the value ends the line; else it is prose about one.
    if separator == b'=' && start > at + 1 {
        let behind = text.get(start + length..)?.trim_start_matches([' ', '\t']);
        if !(behind.is_empty() || behind.starts_with(['\n', '\r', ';', ',', '#', '\\'])) {
            return None;
        }
    }
    let value = text.get(start..start + length)?.trim_end();
    let value = value.get(..closing(text, name, value).unwrap_or(value.len()))?;
    let span = Span::new(start, start + value.len());
    let named = name.span.of(text);
    let harmless = is_harmless(rules, value, text.get(start..)?)
        || is_handed_on(named, value)
        || is_metavariable(named, value)
        || is_passed(text, name.span, span);
    (!harmless || is_placeholder(value)).then_some(span)
}

/// Where the `>` stands that closes what the name stands in, as in `<https://h/?token=x>.`: it is no part of the value.
fn closing(text: &str, name: &Named, value: &str) -> Option<usize> {
    /// Looking no further keeps long texts linear.
    const LONGEST: usize = 512;
    let at = value.rfind('>')?;
    let behind = value.get(at + 1..)?;
    let front = text.as_bytes().get(name.span.start.saturating_sub(LONGEST)..name.span.start)?;
    let opens =
        front.iter().rev().take_while(|byte| !byte.is_ascii_whitespace()).find(|byte| b"<>".contains(byte));
    (opens == Some(&b'<') && behind.bytes().all(|byte| byte.is_ascii_punctuation())).then_some(at)
}

/// How much of `rest` is the value of a header: the rest of its line, or of the quotes it stands in. In the middle
/// of a line an unquoted `name: word` is prose, unless the word looks like no word.
fn header_len(bytes: &[u8], name: &Named, rest: &[u8]) -> Option<usize> {
    const LONGEST_LEAD: usize = 32;
    /// Looking no further before it is known to be a value keeps long texts linear.
    const LONGEST_WORD: usize = 1024;
    let line = || {
        let line = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        // Line ends that are still escaped.
        [&b"\\n"[..], b"\\r"].iter().fold(line, |line, escape| {
            memchr::memmem::find(rest.get(..line).unwrap_or_default(), escape).unwrap_or(line)
        })
    };
    let before = name.span.start.checked_sub(1).and_then(|before| bytes.get(before)).copied();
    if let Some(quote) = before.filter(|byte| is_quote(*byte)) {
        let own = name.quote.is_some_and(|(mark, _)| mark == quote);
        let line = line();
        let depth = slashes_behind(bytes.get(..name.span.start - 1)?);
        return Some(if own { line } else { quoted_end(rest.get(..line)?, quote, depth).0 });
    }
    let near = name.span.start.saturating_sub(LONGEST_LEAD);
    let lead = bytes.get(near..name.span.start)?;
    let newline = lead.iter().rposition(|byte| *byte == b'\n');
    let lead = match newline {
        Some(newline) => Some(lead.get(newline + 1..)?),
        None if near == 0 => Some(lead),
        None => None,
    };
    let blank =
        |lead: &[u8]| lead.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'<' | b'>' | b'*' | b'-' | b'#'));
    if lead.is_some_and(blank) {
        return Some(line());
    }
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b",;\"'`)}]".contains(byte);
    let near = rest.get(..LONGEST_WORD.min(rest.len()))?;
    let word = near.get(..near.iter().position(ends).unwrap_or(near.len()))?;
    let told = word.len() >= 5
        && word.iter().any(u8::is_ascii_digit)
        && memchr::memmem::find(word, b"://").is_none();
    told.then(|| rest.iter().position(ends).unwrap_or(rest.len()))
}
