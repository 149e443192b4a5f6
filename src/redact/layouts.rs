//! Values that are named by where they stand: in markup, in tables, in lines of `.netrc`.

use super::blocks::says_nothing;
use super::placeholder::is_placeholder;
use super::reference::is_metavariable;
use super::rules::Rules;
use super::{markup, tables};
use crate::jsonrpc::scan::Span;

/// The values named so in a text outside `inside` (in order), in order, with the rule and the name.
pub(super) fn find<'t>(rules: &Rules, text: &'t str, inside: &[Span]) -> Vec<(usize, Span, &'t str)> {
    let mut found = Vec::new();
    if memchr::memchr(b'<', text.as_bytes()).is_some() {
        markup::find(rules, text, &mut found);
    }
    tables::find(rules, text, &mut found);
    netrc(rules, text, &mut found);
    if !inside.is_empty() {
        found.retain(|(_, span, _)| {
            let next = inside.partition_point(|document| document.end <= span.start);
            inside.get(next).is_none_or(|document| span.end <= document.start)
        });
    }
    found.sort_by_key(|(_, span, _)| *span);
    found
}

/// `machine HOST login USER password PASSWORD`, on one line or more.
fn netrc<'t>(rules: &Rules, text: &'t str, found: &mut Vec<(usize, Span, &'t str)>) {
    /// Of what stands behind a host.
    const MOST_WORDS: usize = 6;
    if !is_netrc(text.as_bytes()) {
        return;
    }
    for at in memchr::memmem::find_iter(text.as_bytes(), "machine") {
        let begins =
            text.get(..at).is_some_and(|front| !front.ends_with(|char: char| char.is_alphanumeric()));
        let mut words = words(text, at + "machine".len()).take(1 + MOST_WORDS).skip(1);
        let (mut login, mut password) = (false, None);
        while let Some(key) = words.next().filter(|_| begins) {
            let Some(value) = words.next() else { break };
            match key.of(text) {
                "login" => login = true,
                "account" => {}
                "password" => password = Some((key, value)),
                _ => break,
            }
        }
        let Some((key, value)) = password.filter(|_| login) else { continue };
        let Some(value) = unquoted(text, at, value) else { continue };
        let written = value.of(text);
        let told = is_placeholder(written)
            || !(says_nothing(rules, written) || is_metavariable("--password", written));
        if let Some(rule) = rules.pair(key.of(text), written).filter(|_| told) {
            found.push((rule, value, key.of(text)));
        }
    }
}

/// The value that begins with a word, without quotes of its own and what stands behind those around the line, which
/// begins at `line`.
fn unquoted(text: &str, line: usize, word: Span) -> Option<Span> {
    let own = text.get(word.start..)?.chars().next().filter(|char| matches!(char, '"' | '\''));
    let around = text.get(..line)?.chars().next_back().filter(|char| matches!(char, '"' | '\'' | '`'));
    let start = word.start + own.map_or(0, char::len_utf8);
    let rest = text.get(start..)?.lines().next()?;
    let len = match own {
        Some(quote) => rest.find(quote)?,
        None => around.and_then(|quote| word.of(text).find(quote)).unwrap_or(word.len()),
    };
    (len > 0).then(|| Span::new(start, start + len))
}

fn is_netrc(bytes: &[u8]) -> bool {
    ["machine", "login", "password"].iter().all(|word| memchr::memmem::find(bytes, word.as_bytes()).is_some())
}

/// The words of a text from `at` on, which white space parts.
fn words(text: &str, mut at: usize) -> impl Iterator<Item = Span> {
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        let start = rest.find(|char: char| !char.is_ascii_whitespace())?;
        let len =
            rest.get(start..)?.find(|char: char| char.is_ascii_whitespace()).unwrap_or(rest.len() - start);
        let word = Span::new(at + start, at + start + len);
        at = word.end;
        Some(word)
    })
}

/// Whether a layout may name a value in these bytes, which may be raw JSON; `is_name` says whether something in a name
/// may be secret.
pub(super) fn may_name(bytes: &[u8], is_name: &dyn Fn(&[u8]) -> bool) -> bool {
    const LONGEST: usize = 128;
    let sign = |byte: &u8| b" \t\"'\\*`".contains(byte);
    let name = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.:".contains(byte);
    let behind = |at: usize| {
        let rest = bytes.get(at..).unwrap_or_default();
        let start = rest.iter().take(LONGEST).take_while(|byte| sign(byte)).count();
        let rest = rest.get(start..).unwrap_or_default();
        is_name(
            rest.get(..rest.iter().take(LONGEST).take_while(|byte| name(byte)).count()).unwrap_or_default(),
        )
    };
    let before = |at: usize| {
        let front = bytes.get(..at).unwrap_or_default();
        let end = front.len() - front.iter().rev().take(LONGEST).take_while(|byte| sign(byte)).count();
        let front = front.get(..end).unwrap_or_default();
        let len = front.iter().rev().take(LONGEST).take_while(|byte| name(byte)).count();
        is_name(front.get(end - len..).unwrap_or_default())
    };
    // `<` and `>` may be written as escapes.
    let escapes = || memchr::memmem::find_iter(bytes, "u003").map(|at| at + "u003c".len());
    let closes =
        ["</", "/>", "<\\/"].iter().any(|mark| memchr::memmem::find(bytes, mark.as_bytes()).is_some());
    // A name stands right behind a bracket, or in quotes behind an equals sign.
    let mark = |at: usize| {
        let next = bytes.get(at + 1).copied().unwrap_or_default();
        let begins = match bytes.get(at) {
            Some(b'=') => b"\"'\\".contains(&next),
            _ => closes && next.is_ascii_alphanumeric(),
        };
        begins && behind(at + 1)
    };
    let opens = memchr::memchr(b'<', bytes).is_some();
    let markup = (opens && memchr::memchr3_iter(b'<', b'>', b'=', bytes).any(mark)) || escapes().any(behind);
    markup
        || memchr::memchr_iter(b'|', bytes).any(|at| behind(at + 1) || before(at))
        || tables::may_be_aligned(bytes)
        || is_netrc(bytes)
}
