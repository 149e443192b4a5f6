//! Values that go on over the end of their line: block scalars of YAML, quoted text, settings with a backslash at the
//! end. Where the lines could be more than one value, only what is told surely is one.

use super::reference::is_harmless;
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

/// No value is longer, in bytes and in lines; looking no further keeps long texts linear.
const LONGEST: usize = 16 * 1024;
const MOST_LINES: usize = 200;

/// Where the lines of a block scalar begin, when its indicator stands at `at` and at the end of its line.
pub(super) fn scalar_lines(text: &str, at: usize) -> Option<usize> {
    let rest = text.get(at..)?.strip_prefix(['|', '>'])?;
    let indicator = rest.trim_start_matches(|char: char| char.is_ascii_digit() || matches!(char, '+' | '-'));
    if rest.len() - indicator.len() > 2 {
        return None;
    }
    let end = line_end(indicator);
    let behind = indicator.get(..end)?.trim_start_matches([' ', '\t']);
    // Line ends that are still escaped tell that it is a block, but not where its lines are.
    if behind.starts_with("\\n") || behind.starts_with("\\r") {
        return Some(text.len());
    }
    (behind.is_empty() || behind.starts_with('#')).then_some(text.len() - indicator.len() + end)
}

/// The block scalar whose lines begin at `start`, when it is surely one value. Its name is `key`.
pub(super) fn scalar(rules: &Rules, text: &str, key: Span, start: usize) -> Option<Span> {
    let line = text.get(..key.start)?.rfind('\n').map_or(0, |newline| newline + 1);
    let column = key.start - line;
    let lead = text.get(line..key.start)?;
    if !lead.bytes().all(|byte| matches!(byte, b' ' | b'-' | b'"' | b'\'')) {
        return None;
    }
    let mut value: Option<Span> = None;
    let mut from = start;
    for piece in text.get(start..)?.split_inclusive('\n').take(MOST_LINES) {
        let body = piece.trim_start_matches(' ');
        let indent = piece.len() - body.len();
        let body = body.trim_end();
        if !body.is_empty() {
            if indent <= column {
                break;
            }
            let first = value.map_or(from + indent, |value| value.start);
            value = Some(Span::new(first, from + indent + body.len()));
        }
        from += piece.len();
    }
    value.filter(|value| value.len() <= LONGEST && is_one(rules, key.of(text), value.of(text)))
}

/// Whether the lines of a text are one value and no other text: a key in lines, or one word; for a password, what is on
/// one line.
pub(super) fn is_one(rules: &Rules, name: &str, value: &str) -> bool {
    const LONGEST_PHRASE: usize = 64;
    let is_line = |line: &str| !line.contains(char::is_whitespace);
    let phrase = || {
        let name = name.to_ascii_lowercase();
        (name.ends_with("password") || name.ends_with("passwd")) && value.len() <= LONGEST_PHRASE
    };
    let told = if value.contains(['\n', '\r']) {
        value.lines().map(str::trim).all(is_line_of_key)
    } else {
        is_line(value) || phrase()
    };
    let referred = ["${{", "{{", "$("].iter().any(|sign| value.contains(sign));
    told && value.contains(char::is_alphanumeric)
        && !value.starts_with(['{', '[', '"', '\''])
        && !value.ends_with(['"', '\''])
        && !referred
        && !says_nothing(rules, value)
}

/// Whether a line may be one of several of a key: a word, and no setting.
fn is_line_of_key(line: &str) -> bool {
    let edge = line.starts_with("-----") && line.ends_with("-----");
    let signs = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=_-.\\~".contains(&byte);
    edge || (line.bytes().all(signs) && !line.trim_end_matches('=').contains('='))
}

/// Whether a value that something closes says nothing. One letter is a short one there, and no mask.
pub(super) fn says_nothing(rules: &Rules, value: &str) -> bool {
    // `{name}` of a template.
    let template = value.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
    let path = |text: &str| text.bytes().all(|byte| byte.is_ascii_alphabetic() || b"_. ".contains(&byte));
    value.is_empty()
        || template.is_some_and(path)
        || (is_harmless(rules, value, value)
            && !(value.len() == 1 && value.chars().all(char::is_alphanumeric)))
}

/// Where a value in quotes ends that is not closed on its line: at the quote that closes it, where the lines up to
/// there are words and nothing else follows on the last.
pub(super) fn quoted_on(text: &str, start: usize, quote: u8) -> Option<usize> {
    let rest = near(text, start);
    let first = rest.find('\n')? + 1;
    let len = rest.bytes().skip(first).position(|byte| byte == quote)?;
    let lines = rest.get(first..first + len)?;
    let behind = rest.get(first + len + 1..)?;
    let ends = behind.trim_start_matches([';', ',', ')', ']', '}', ' ']);
    let fits = lines.lines().count() <= MOST_LINES && lines.lines().map(str::trim).all(is_line_of_key);
    (fits && (ends.is_empty() || ends.starts_with(['\n', '\r', '#']))).then_some(start + first + len)
}

/// The three quotes that stand at `start`.
pub(super) fn three_quotes(text: &str, start: usize) -> Option<&'static str> {
    ["\"\"\"", "'''"].into_iter().find(|marks| text.get(start..).is_some_and(|rest| rest.starts_with(marks)))
}

/// The value in three quotes that begin at `start`: on one line whatever it is, on several when they are one value.
pub(super) fn thrice_quoted(
    rules: &Rules,
    name: &str,
    text: &str,
    start: usize,
    marks: &str,
) -> Option<Span> {
    let inside = near(text, start + marks.len());
    let len = inside.find(marks).unwrap_or_else(|| line_end(inside));
    let value = inside.get(..len)?;
    let front = value.len() - value.trim_start().len();
    let value = value.trim();
    let told = if value.contains('\n') { is_one(rules, name, value) } else { !says_nothing(rules, value) };
    let from = start + marks.len() + front;
    told.then(|| Span::new(from, from + value.len()))
}

/// Where the value of a setting ends whose line ends at `end` with a backslash, behind one word on each line that
/// follows.
pub(super) fn continued(text: &str, name: Span, end: usize) -> Option<usize> {
    let lead = text.get(..name.start)?.rsplit('\n').next()?;
    // In a command the next line is the next argument.
    if !lead.bytes().all(|byte| matches!(byte, b' ' | b'\t')) {
        return None;
    }
    let rest = near(text, end);
    let mut at = 0;
    while let Some(next) = ["\\\n", "\\\r\n"].iter().find_map(|mark| rest.get(at..)?.strip_prefix(mark)) {
        let body = next.trim_start_matches([' ', '\t']);
        let word = body.split(|char: char| char.is_whitespace() || char == '\\').next().unwrap_or("");
        let setting = word.trim_end_matches('=').contains(['=', '"', '\'', '$']);
        if word.is_empty() || setting || word.starts_with(['-', '#', '!']) {
            return None;
        }
        at = rest.len() - body.len() + word.len();
    }
    let behind = rest.get(at..)?;
    let ends = behind.is_empty() || behind.trim_start_matches([' ', '\t']).starts_with(['\n', '\r']);
    (at > 0 && ends).then_some(end + at)
}

/// The text from `start` on, as far as a value may go.
fn near(text: &str, start: usize) -> &str {
    let rest = text.get(start..).unwrap_or("");
    let mut end = rest.len().min(LONGEST);
    while !rest.is_char_boundary(end) {
        end -= 1;
    }
    rest.get(..end).unwrap_or("")
}

fn line_end(text: &str) -> usize {
    text.find(['\n', '\r']).unwrap_or(text.len())
}
