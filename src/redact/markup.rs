//! Values that markup names: `<password>x</password>`, `<add key="password" value="x"/>`,
//! `<name>password</name><value>x</value>`, cells of tables in HTML. Attributes that are secret by their own name are
//! found as any `name="value"` is.

use super::blocks::{is_one, says_nothing};
use super::placeholder::is_placeholder;
use super::rules::Rules;
use super::tables::is_told;
use crate::jsonrpc::scan::Span;

/// Tags, and what stands between two of them, are looked through no further: that keeps long texts linear.
const LONGEST_TAG: usize = 2048;
const LONGEST_TEXT: usize = 16 * 1024;

/// Attributes that name what an element is about, and those that hold it.
const NAMES: [&str; 7] = ["field", "header", "key", "name", "param", "property", "variable"];
const VALUES: [&str; 2] = ["content", "value"];
/// Elements whose text is the value of what an attribute names. Many others hold text for people.
const HOLDERS: [&str; 9] =
    ["add", "entry", "env", "item", "parameter", "prop", "property", "setting", "variable"];
/// Kinds of fields that say what a button does.
const BUTTONS: [&str; 6] = ["button", "checkbox", "image", "radio", "reset", "submit"];

struct Tag<'t> {
    name: &'t str,
    /// What stands behind the name.
    attributes: Span,
    /// Behind the `>`.
    end: usize,
    empty: bool,
}

impl Tag<'_> {
    /// The name without the prefix of a name space.
    fn local(&self) -> &str {
        self.name.rsplit(':').next().unwrap_or(self.name)
    }

    fn is(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.local().eq_ignore_ascii_case(name))
    }
}

/// Appends the values that the markup in a text names, with rule and name.
pub(super) fn find<'t>(rules: &Rules, text: &'t str, found: &mut Vec<(usize, Span, &'t str)>) {
    let mut at = 0;
    while let Some(tag) = next_tag(text, at) {
        at = tag.end;
        let inside = || content(text, &tag);
        let local = tag.name.get(tag.name.len() - tag.local().len()..).unwrap_or(tag.name);
        let mut note = |name: &'t str, value: Span, told: bool| {
            let is_value = is_placeholder(value.of(text)) || (told && is_value(rules, name, value.of(text)));
            if let Some(rule) = rules.pair(name, value.of(text)).filter(|_| is_value) {
                found.push((rule, value, name));
            }
        };
        let is_secret = |name: &str| rules.facts(name).rule.is_some();
        if is_secret(local)
            && let Some((value, _)) = inside()
        {
            note(local, value, true);
        }
        if rules.prefilter().name(tag.attributes.of(text).as_bytes()) {
            let list = attributes(text, tag.attributes);
            let get = |names: &[&str]| {
                list.iter().find(|(name, _)| names.iter().any(|wanted| name.eq_ignore_ascii_case(wanted)))
            };
            let name = get(&NAMES).map(|(_, name)| name.of(text)).filter(|name| is_secret(name));
            let is_button = get(&["type"]).is_some_and(|(_, kind)| {
                BUTTONS.iter().any(|button| kind.of(text).eq_ignore_ascii_case(button))
            });
            if let Some(name) = name.filter(|_| !is_button) {
                if let Some((_, value)) = get(&VALUES) {
                    note(name, *value, true);
                } else if tag.is(&HOLDERS)
                    && let Some((value, _)) = inside()
                {
                    note(name, value, !value.of(text).contains(char::is_whitespace));
                }
            }
        }
        // A name and its value beside each other.
        let (pair, cell) = (tag.is(&["key", "name"]), tag.is(&["dt", "td", "th"]));
        if (pair || cell)
            && let Some((name, end)) = inside()
            && is_secret(name.of(text))
            && let Some(next) = next_sibling(text, end)
        {
            let holds = if pair { next.is(&["string", "value"]) } else { next.is(&["dd", "td"]) };
            let nested = || next_sibling(text, next.end).filter(|inner| pair && inner.is(&["string"]));
            let value = content(text, &next).or_else(|| content(text, &nested()?));
            if let Some((value, _)) = value.filter(|_| holds) {
                let word = value.of(text);
                let told = !word.contains(char::is_whitespace) && (pair || is_told(word));
                note(name.of(text), value, told);
            }
        }
    }
}

fn is_value(rules: &Rules, name: &str, value: &str) -> bool {
    // `@Model.Token`.
    let path = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_.".contains(&byte));
    let template = value.strip_prefix('@').is_some_and(|rest| rest.contains('.') && path(rest));
    // Maven encrypts passwords in braces, which are no JSON.
    let braced = value.strip_prefix('{').map_or(value, |rest| rest.strip_suffix('}').unwrap_or(value));
    // What stands between two tags that are spoken of.
    let spoken = ["and", "or", "to", "with", "in", "then", "..."].contains(&value);
    !template && !spoken && !says_nothing(rules, value) && is_one(rules, name, braced)
}

/// The next tag that opens an element, at or after `from`.
fn next_tag(text: &str, from: usize) -> Option<Tag<'_>> {
    let mut at = from;
    while let Some(offset) = memchr::memchr(b'<', text.as_bytes().get(at..)?) {
        at += offset + 1;
        if let Some(tag) = tag_at(text, at) {
            return Some(tag);
        }
    }
    None
}

/// The tag that stands behind nothing but white space.
fn next_sibling(text: &str, from: usize) -> Option<Tag<'_>> {
    let rest = text.get(from..)?.as_bytes();
    let blanks = rest.iter().take(LONGEST_TAG).take_while(|byte| byte.is_ascii_whitespace()).count();
    (rest.get(blanks) == Some(&b'<')).then(|| tag_at(text, from + blanks + 1))?
}

/// The tag whose name begins at `start`.
fn tag_at(text: &str, start: usize) -> Option<Tag<'_>> {
    let rest = text.as_bytes().get(start..)?;
    let rest = rest.get(..rest.len().min(LONGEST_TAG))?;
    let len = rest.iter().take_while(|byte| is_name_byte(**byte)).count();
    let goes_on = rest.get(len).is_some_and(|byte| byte.is_ascii_whitespace() || b"/>".contains(byte));
    if !(goes_on && rest.first().is_some_and(u8::is_ascii_alphabetic)) {
        return None;
    }
    let mut quote = None;
    for (at, byte) in rest.iter().enumerate().skip(len) {
        match (quote, byte) {
            (None, b'>') => {
                let empty = rest.get(at - 1) == Some(&b'/');
                return Some(Tag {
                    name: text.get(start..start + len)?,
                    attributes: Span::new(start + len, start + at),
                    end: start + at + 1,
                    empty,
                });
            }
            (None, b'<') => return None,
            (None, b'"' | b'\'') => quote = Some(*byte),
            (Some(mark), byte) if *byte == mark => quote = None,
            _ => {}
        }
    }
    None
}

fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':')
}

/// The text of an element that has nothing else in it, and where the element ends.
fn content(text: &str, tag: &Tag<'_>) -> Option<(Span, usize)> {
    const DATA: (&str, &str) = ("<![CDATA[", "]]>");
    if tag.empty {
        return None;
    }
    let rest = text.as_bytes().get(tag.end..)?;
    let rest = rest.get(..rest.len().min(LONGEST_TEXT))?;
    let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let (start, end, close) = match rest.get(blanks..)?.strip_prefix(DATA.0.as_bytes()) {
        Some(data) => {
            let start = blanks + DATA.0.len();
            let end = start + memchr::memmem::find(data, DATA.1.as_bytes())?;
            let close = end + DATA.1.len();
            (
                start,
                end,
                close + rest.get(close..)?.iter().take_while(|byte| byte.is_ascii_whitespace()).count(),
            )
        }
        None => {
            let end = memchr::memchr(b'<', rest)?;
            (blanks, end, end)
        }
    };
    let behind = rest.get(close..)?.strip_prefix(b"</")?.strip_prefix(tag.name.as_bytes())?;
    let spaces = behind.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
    let value = text.get(tag.end + start..tag.end + end)?;
    let front = value.len() - value.trim_start().len();
    let value = value.trim();
    let start = tag.end + start + front;
    let closed = behind.get(spaces) == Some(&b'>') && !value.is_empty();
    let end = tag.end + rest.len() - behind.len() + spaces + 1;
    closed.then(|| (Span::new(start, start + value.len()), end))
}

/// The attributes of a tag that have a value in quotes.
fn attributes(text: &str, within: Span) -> Vec<(&str, Span)> {
    let mut list = Vec::new();
    let mut at = within.start;
    while let Some(offset) = text.get(at..within.end).and_then(|rest| rest.find('=')) {
        let equals = at + offset;
        let front = text.get(at..equals).unwrap_or("").trim_end();
        let name =
            front.rsplit(|char: char| !u8::try_from(char).is_ok_and(is_name_byte)).next().unwrap_or("");
        let name = name.rsplit(':').next().unwrap_or("");
        let rest = text.get(equals + 1..within.end).unwrap_or("");
        let value = rest.trim_start();
        let quoted = value.bytes().next().filter(|byte| matches!(byte, b'"' | b'\''));
        let len = quoted.and_then(|quote| memchr::memchr(quote, value.as_bytes().get(1..)?));
        at = equals + 1 + rest.len() - value.len();
        if let Some(len) = len {
            list.push((name, Span::new(at + 1, at + 1 + len)));
            at += len + 2;
        }
    }
    list
}
