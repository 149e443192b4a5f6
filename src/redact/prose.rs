//! Values that text names: `password=x`, `--api-key x`, `token: "x"`, lines that look like headers, and JSON that was
//! cut off in the middle. Prose that only speaks of tokens is left alone.

use super::blocks::{continued, quoted_on, scalar, scalar_lines, three_quotes, thrice_quoted};
use super::layouts;
use super::literal::literals;
use super::placeholder::is_placeholder;
use super::quotes::{Quotes, is_quote, quoted_end, slashes_behind};
use super::reference::{is_handed_on, is_harmless, is_metavariable, is_passed, is_reference};
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

/// The named values of a text outside `inside` (in order), with the rule and the name.
pub(super) fn find<'t>(rules: &Rules, text: &'t str, inside: &[Span]) -> Vec<(usize, Span, &'t str)> {
    let mut found = layouts::find(rules, text, inside);
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
        let mut values = code_behind(text, &name, separator)
            .map_or_else(Vec::new, |start| literals(rules, text, start, &quotes));
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

/// How many blanks may stand between a name and its separator, where lists are aligned.
const MOST_BLANKS: usize = 40;

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
        while end > 0 && at - end < MOST_BLANKS && byte(end - 1) == Some(b' ') {
            end -= 1;
        }
    }
    // `[password] => x`.
    let listed =
        byte(at) == Some(b'=') && byte(at + 1) == Some(b'>') && end > 0 && byte(end - 1) == Some(b']');
    end -= usize::from(listed);
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
    let open = start.checked_sub(1).and_then(byte) == Some(b'[') && quote.is_none();
    (!spaced && (open || !listed)).then_some(Named { span: Span::new(start, end), quote })
}

/// The name in double quotes that what stands at `at` is the value of.
pub(super) fn quoted_name_in_front(text: &str, at: usize) -> Option<&str> {
    /// Looking no further keeps long texts linear.
    const BLANKS: usize = 64;
    let front = text.as_bytes().get(..at)?;
    let blanks = front.iter().rev().take(BLANKS).take_while(|byte| byte.is_ascii_whitespace()).count();
    let colon = (at - blanks).checked_sub(1).filter(|colon| front.get(*colon) == Some(&b':'))?;
    let name = name_before(text, colon).filter(|name| name.quote == Some((b'"', 0)))?;
    Some(name.span.of(text))
}

/// Where code that gets a value could start behind the separator at `at`.
fn code_behind(text: &str, name: &Named, at: usize) -> Option<usize> {
    let (separator, rest) = text.as_bytes().get(at..)?.split_first()?;
    let sign = match (separator, rest.first()) {
        (b' ', _) | (_, Some(b'=')) => return None,
        (_, Some(b'>')) if !(*separator == b'=' && is_arrow(text, name)) => return None,
        (_, Some(b'>')) => 2,
        _ => 1,
    };
    Some(at + sign + rest.iter().skip(sign - 1).take_while(|byte| **byte == b' ').count())
}

/// Whether `=>` gives a member of a list its value, and is no function or case: the name is in quotes, or is a symbol.
fn is_arrow(text: &str, name: &Named) -> bool {
    let front = text.get(..name.span.start).unwrap_or("");
    match name.quote {
        // All that stands in the quotes is the name.
        Some((mark, _)) => front.ends_with(char::from(mark)),
        None => front.ends_with(':') && !front.ends_with("::"),
    }
}

/// The value behind an arrow, for which `start` is: in quotes, or in a list that is printed, to the end of its line.
fn arrow_value(rules: &Rules, text: &str, name: &Named, start: usize) -> Option<Span> {
    /// What a value has to be, in words of a framework.
    const RULES: [&str; 10] = [
        "confirmed",
        "encrypted",
        "filled",
        "hashed",
        "nullable",
        "present",
        "required",
        "sometimes",
        "string",
        "[FILTERED]",
    ];
    let rest = text.get(start..)?;
    if name.quote.is_none() && text.get(..name.span.start)?.ends_with('[') {
        let value = rest.split(['\n', '\r']).next()?.trim_end();
        let nothing = is_harmless(rules, value, rest) || value.ends_with(" Object") || value == "Array";
        return (is_placeholder(value) || !nothing).then(|| Span::new(start, start + value.len()));
    }
    let slashes = rest.bytes().take_while(|byte| *byte == b'\\').count();
    let quote =
        rest.as_bytes().get(slashes).copied().filter(|byte| is_quote(*byte) && is_arrow(text, name))?;
    let inside = start + slashes + 1;
    let value = text.get(inside..)?;
    let value = value.get(..quoted_end(value.as_bytes(), quote, slashes).0)?;
    let says = value.split(['|', ':']).next().is_some_and(|first| RULES.contains(&first));
    let told = value.chars().any(char::is_alphanumeric) && !says && !is_reference(rules, value);
    told.then(|| Span::new(inside, inside + value.len()))
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
        // `a == b`, and `token::read()`.
        b'=' | b':' if bytes.get(start) == Some(&separator) => return None,
        b'=' if bytes.get(start) == Some(&b'>') => {
            start += 1;
            return arrow_value(rules, text, name, start + blanks(start)?);
        }
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
        if let Some(marks) = three_quotes(text, start) {
            return thrice_quoted(rules, name.span.of(text), text, start, marks);
        }
        let inside = start + slashes + 1;
        let value = text.get(inside..)?;
        let (end, closed) = quoted_end(value.as_bytes(), quote, slashes);
        if !closed
            && slashes == 0
            && let Some(end) = quoted_on(text, inside, quote)
        {
            return Some(Span::new(inside, end));
        }
        let value = value.get(..end)?;
        let hidden = value.bytes().all(|byte| matches!(byte, b'*' | b'.'));
        // It closes what was opened on an earlier line.
        let told = closed && value.chars().any(char::is_alphanumeric);
        let closes = !own && !told && value.starts_with([' ', '\t', ')', ']', '}', ',', ';', '+']);
        return (!is_reference(rules, value) && !hidden && !closes).then(|| Span::new(inside, inside + end));
    }
    if separator == b':'
        && let Some(lines) = scalar_lines(text, start)
    {
        return scalar(rules, text, name.span, lines);
    }
    let length = match (rest.first()?, separator) {
        (b'{' | b'[' | b'(', _) | (b'-' | b'|' | b'&' | b'>', b' ') => return None,
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
    let last = start + value.trim_end_matches('\\').len();
    let value = match continued(text, name.span, last) {
        Some(end) if separator != b' ' && last > start => text.get(start..end)?,
        _ => value,
    };
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

/// How much of `rest` is the value of a header: the rest of its line, or of the quotes it stands in, up to where another
/// name follows or another command. In the middle of a line an unquoted `name: word` is prose, unless the word looks like
/// no word.
fn header_len(bytes: &[u8], name: &Named, rest: &[u8]) -> Option<usize> {
    let length = longest_header_len(bytes, name, rest)?;
    let value = rest.get(..length)?;
    let named = bytes.get(name.span.start..name.span.end)?;
    if HAVE_PARTS.iter().any(|tail| ends_with_ignoring_case(named, tail)) {
        return Some(length);
    }
    let mut at = 0;
    while let Some(mark) = value.get(at..).and_then(|rest| memchr::memchr3(b',', b';', b' ', rest)) {
        let mark = at + mark;
        if mark > 0 && ends_value(value.get(mark..)?) {
            return Some(mark);
        }
        at = mark + 1;
    }
    Some(length)
}

/// What the names of headers end in whose values have names in them, in lower case.
const HAVE_PARTS: [&str; 4] = ["authorization", "cookie", "authenticate", "credentials"];

fn ends_with_ignoring_case(name: &[u8], tail: &str) -> bool {
    let start = name.len().checked_sub(tail.len());
    start.and_then(|start| name.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(tail.as_bytes()))
}

/// Whether something else begins with this comma, semicolon or blank: `, role: user`, `; a=b`, ` path: /a`, ` && curl`.
fn ends_value(rest: &[u8]) -> bool {
    /// Names are no longer.
    const LONGEST: usize = 64;
    let Some((mark, behind)) = rest.split_first() else { return false };
    let begin = behind.iter().take(LONGEST).take_while(|byte| **byte == b' ').count();
    let begun = behind.get(begin..).unwrap_or_default();
    if *mark == b' ' && [&b"&& "[..], b"|| ", b"| ", b"; "].iter().any(|sign| begun.starts_with(sign)) {
        return true;
    }
    // The name may be in quotes, escaped ones where the text was cut out of JSON.
    let quoted = |byte: &u8| is_quote(*byte) || *byte == b'\\';
    let begun =
        begun.get(begun.iter().take(LONGEST).take_while(|byte| quoted(byte)).count()..).unwrap_or_default();
    let name = begun.iter().take(LONGEST).take_while(|byte| is_name_byte(**byte)).count();
    let is_name = begun.first().is_some_and(|byte| byte.is_ascii_alphabetic() || *byte == b'_');
    let sign = begun.get(name..).unwrap_or_default();
    let sign =
        sign.get(sign.iter().take(LONGEST).take_while(|byte| quoted(byte)).count()..).unwrap_or_default();
    is_name && (sign.starts_with(b": ") || *mark != b' ' && sign.starts_with(b"="))
}

/// The same, whatever follows.
fn longest_header_len(bytes: &[u8], name: &Named, rest: &[u8]) -> Option<usize> {
    const LONGEST_LEAD: usize = 32;
    /// Looking no further before it is known to be a value keeps long texts linear.
    const LONGEST_WORD: usize = 1024;
    let line = |rest: &[u8]| {
        let line = memchr::memchr2(b'\n', b'\r', rest).unwrap_or(rest.len());
        // Line ends that are still escaped.
        [&b"\\n"[..], b"\\r"].iter().fold(line, |line, escape| {
            memchr::memmem::find(rest.get(..line).unwrap_or_default(), escape).unwrap_or(line)
        })
    };
    let before = name.span.start.checked_sub(1).and_then(|before| bytes.get(before)).copied();
    if let Some(quote) = before.filter(|byte| is_quote(*byte)) {
        let own = name.quote.is_some_and(|(mark, _)| mark == quote);
        let depth = slashes_behind(bytes.get(..name.span.start - 1)?);
        // The quotes are mostly closed soon, and lines can be long.
        let end = if own { rest.len() } else { quoted_end(rest, quote, depth).0 };
        return Some(line(rest.get(..end)?));
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
        return Some(line(rest));
    }
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b",;\"'`)}]".contains(byte);
    let near = rest.get(..LONGEST_WORD.min(rest.len()))?;
    let word = near.get(..near.iter().position(ends).unwrap_or(near.len()))?;
    let told = word.len() >= 5
        && word.iter().any(u8::is_ascii_digit)
        && memchr::memmem::find(word, b"://").is_none();
    told.then(|| rest.iter().position(ends).unwrap_or(rest.len()))
}
