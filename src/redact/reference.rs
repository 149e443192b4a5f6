//! Values that say where a secret is and are none: `$TOKEN`, `{{ token }}`, `<your token>`, `get_token()`, `string`.
//! Whatever a person could have chosen for a password is not among them.

use super::placeholder::is_placeholder;
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

/// Words for the type of a value, and for whether there has to be one.
const TYPES: [&str; 22] = [
    "any",
    "array",
    "bool",
    "boolean",
    "bytes",
    "char",
    "date",
    "datetime",
    "dict",
    "float",
    "int",
    "integer",
    "list",
    "nil",
    "none",
    "null",
    "number",
    "object",
    "str",
    "string",
    "text",
    "undefined",
];
const BESIDE_TYPES: [&str; 6] = ["default", "not", "optional", "or", "readonly", "required"];

/// Whether a value says nothing, or is a placeholder. `rest` is the text that it begins.
pub(super) fn is_harmless(rules: &Rules, value: &str, rest: &str) -> bool {
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

/// Whether a whole value is a reference to one that is elsewhere: `$NAME`, `${NAME}`, `$(...)`, `%NAME%`, `{{ name }}`,
/// `<your name>`, `%s`.
pub(super) fn is_reference(rules: &Rules, value: &str) -> bool {
    let value = value.trim_end_matches([';', ',']);
    let Some(first) = value.bytes().next().filter(|first| b"$%{<".contains(first)) else { return false };
    let within = |front: &str, back: &str| value.strip_prefix(front).and_then(|rest| rest.strip_suffix(back));
    match first {
        b'$' => {
            within("$(", ")").is_some()
                || within("${{", "}}").is_some_and(|name| is_dotted(name.trim()))
                || within("${", "}").is_some_and(|name| {
                    let name = name.strip_suffix(":-").unwrap_or(name);
                    // Behind other words a colon begins what stands in when there is no such variable.
                    let kinds = ["env:", "input:", "secrets:"];
                    is_dotted(kinds.iter().find_map(|kind| name.strip_prefix(kind)).unwrap_or(name))
                })
                || value.len() == 2
                || value.strip_prefix('$').is_some_and(|name| {
                    is_name(name) && (is_constant(name) || rules.facts(name).rule.is_some())
                })
        }
        b'%' => {
            matches!(value, "%s" | "%d" | "%v" | "%q" | "%r" | "%@" | "%i" | "%x")
                || within("%(", ")s").is_some_and(is_name)
                || within("%{", "}").is_some_and(is_name)
                || within("%", "%").is_some_and(|name| is_name(name) && !has_digits(name))
        }
        b'{' => within("{{", "}}").is_some_and(|name| is_dotted(name.trim())),
        _ => within("<", ">").is_some_and(is_description),
    }
}

/// Whether an object is given what a variable has: `self.token = token`. Elsewhere a password may well be `password`.
pub(super) fn is_handed_on(name: &str, value: &str) -> bool {
    let own = ["self.", "this.", "cls."].iter().find_map(|object| name.strip_prefix(object));
    let own = own.map(|own| own.trim_start_matches('_'));
    let bare = value.trim_end_matches([';', ',']);
    let is_end = |own: &str| own == bare || own.strip_suffix(bare).is_some_and(|front| front.ends_with('_'));
    own.is_some_and(is_end) && !has_digits(bare) && is_name(bare)
}

/// Whether the value, which stands in no quotes, is a variable that an argument or a member is given: `f(token=token)`,
/// `f(token=cfg.token)`, `f(host="db", password=pw)`, and lines of such that end in a comma. A line that ends without
/// one may be of settings, where a password may well be `password`.
pub(super) fn is_passed(text: &str, name: Span, value: Span) -> bool {
    let written = value.of(text);
    let variable = written.trim_end_matches(',');
    if !is_dotted(variable) {
        return false;
    }
    let last = |path: &str| path.rsplit('.').next().map(str::to_owned);
    let same = last(variable) == last(name.of(text));
    let behind = text.get(value.start + variable.len()..).unwrap_or("");
    let Some(open) = call_around(text, name.start) else {
        let lead = text.get(..name.start).unwrap_or("").bytes().rev();
        let indent = lead.clone().take(LONGEST_CALL).take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        let begins = indent > 0 && lead.clone().nth(indent).is_none_or(|byte| byte == b'\n');
        let ends =
            behind.strip_prefix(',').is_some_and(|rest| rest.is_empty() || rest.starts_with(['\n', '\r']));
        return same && begins && ends;
    };
    let within = text.get(open..name.start).unwrap_or("").bytes();
    let rest = behind.bytes().take(LONGEST_CALL).take_while(|byte| !b")\n".contains(byte));
    // Where strings have quotes, what has none is no string.
    let quoted = || within.chain(rest).any(|byte| matches!(byte, b'"' | b'\''));
    behind.trim_start_matches(' ').starts_with([',', ')']) && (same || (!has_digits(variable) && quoted()))
}

/// How far off the parentheses of a call may be.
const LONGEST_CALL: usize = 256;

/// Behind the parenthesis of the call on the same line in which `at` is.
fn call_around(text: &str, at: usize) -> Option<usize> {
    let front = text.as_bytes().get(at.saturating_sub(LONGEST_CALL)..at)?;
    let line = front
        .iter()
        .rposition(|byte| *byte == b'\n')
        .map_or(front, |newline| front.get(newline + 1..).unwrap_or_default());
    let mut depth = 0_usize;
    for (offset, byte) in line.iter().rev().enumerate() {
        match byte {
            b')' => depth += 1,
            b'(' if depth > 0 => depth -= 1,
            b'(' => {
                let called = line.len().checked_sub(offset + 2).and_then(|before| line.get(before));
                let called = called.is_some_and(|byte| byte.is_ascii_alphanumeric() || b"_)]".contains(byte));
                return called.then_some(at - offset);
            }
            _ => {}
        }
    }
    None
}

/// Whether the help of a program says by this that the option has an argument: `--password PASSWORD`,
/// `--api-key=KEY`.
pub(super) fn is_metavariable(name: &str, value: &str) -> bool {
    const ANY: [&str; 14] = [
        "ENV",
        "FILE",
        "ID",
        "KEY",
        "NAME",
        "PASSPHRASE",
        "PASSWORD",
        "PATH",
        "SECRET",
        "STR",
        "STRING",
        "TEXT",
        "TOKEN",
        "VALUE",
    ];
    let value = value.trim_end_matches(['.', ',', ';']);
    let own = name.trim_start_matches('-').to_ascii_uppercase();
    let mut words = value.split(['_', '-']);
    name.starts_with("--")
        && words.all(|word| ANY.contains(&word) || own.split(['_', '-']).any(|own| own == word))
}

/// Whether a value is one of the few words that this name has in files everybody has, where it names no secret:
/// `secrets: inherit` and `id-token: write` in workflows, `credentials: "include"` in requests of browsers.
pub(super) fn is_known_word(name: &str, value: &str) -> bool {
    let words: &[&str] = match name {
        "secrets" => &["inherit"],
        "id-token" => &["none", "read", "write"],
        "credentials" => &["include", "omit", "same-origin"],
        _ => return false,
    };
    words.contains(&value)
}

/// Whether `text` begins with a reference in braces or brackets and nothing else before the next blank behind it.
pub(super) fn begins_with_reference(rules: &Rules, text: &str) -> bool {
    const LONGEST: usize = 80;
    let close = match () {
        () if text.starts_with("$(") => return true,
        () if text.starts_with("${{") || text.starts_with("{{") => "}}",
        () if text.starts_with("${") || text.starts_with("%{") => "}",
        () => return false,
    };
    let end = text.char_indices().map(|(at, _)| at).take_while(|at| *at <= LONGEST).last().unwrap_or(0);
    let near = text
        .get(..end)
        .and_then(|near| near.find(close).map(|at| at + close.len()))
        .or_else(|| text.ends_with(close).then_some(text.len()).filter(|len| *len <= LONGEST));
    near.and_then(|at| Some((text.get(..at)?, text.get(at..)?)))
        .is_some_and(|(value, behind)| is_reference(rules, value) && ends_there(behind))
}

/// Whether `text` begins with a description in angle brackets and nothing else before the next blank behind it.
pub(super) fn begins_with_description(text: &str) -> bool {
    const LONGEST: usize = 80;
    let Some(rest) = text.strip_prefix('<') else { return false };
    let near = rest.bytes().take(LONGEST).position(|byte| b">\n<".contains(&byte));
    let Some((inside, behind)) =
        near.and_then(|at| Some((rest.get(..at)?, rest.get(at..)?.strip_prefix('>')?)))
    else {
        return false;
    };
    is_description(inside) && ends_there(behind)
}

/// Whether `text` begins with code that gets a value, and nothing else behind it: `os.environ["KEY"]`, `getToken()`,
/// `self.token`.
pub(super) fn begins_with_code(text: &str) -> bool {
    const LONGEST: usize = 200;
    let end = text
        .bytes()
        .take(LONGEST)
        .position(|byte| !(byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'.')))
        .unwrap_or(text.len().min(LONGEST));
    let (Some(head), Some(rest)) = (text.get(..end), text.get(end..)) else { return false };
    if !is_dotted(head.trim_end_matches('.')) {
        return false;
    }
    let (open, close) = match rest.as_bytes().first() {
        Some(b'(') => (b'(', b')'),
        Some(b'[') => (b'[', b']'),
        _ => {
            let first = head.split('.').next().unwrap_or("");
            let known = [
                "self", "this", "os", "process", "env", "config", "settings", "args", "options", "opts",
                "request", "req", "ctx", "data", "user",
            ];
            return head.trim_end_matches('.').contains('.') && known.contains(&first) && ends_there(rest);
        }
    };
    let inside = rest.get(1..).unwrap_or("").trim_start_matches([' ', '\\']);
    let fits = match inside.as_bytes().first() {
        Some(byte) => {
            *byte == close
                || byte.is_ascii_alphabetic()
                || matches!(byte, b'_' | b'"' | b'\'' | b'$' | b'*' | b'&')
        }
        None => true,
    };
    let mut depth = 0_usize;
    let line = rest.bytes().take(LONGEST).take_while(|byte| *byte != b'\n');
    for (at, byte) in line.enumerate() {
        if byte == open {
            depth += 1;
        } else if byte == close {
            depth -= 1;
            if depth == 0 {
                let behind = rest.get(at + 1..).unwrap_or("");
                // A chain goes on: `env["A"].strip()`, `get()!`, `get()?.b`.
                let goes_on = behind.starts_with(['.', '[', '(', '?', '!']);
                return fits && (goes_on || ends_there(behind));
            }
        }
    }
    // It was cut off, or goes on in the next line.
    let is_code = head.contains(['_', '.']);
    depth > 0 && (inside.starts_with(['"', '\'']) || (is_code && inside.starts_with(['\n', '\r'])))
}

/// Whether a value says of what type one is, and no more: `string (required)`, `str | None`.
pub(super) fn is_type(value: &str) -> bool {
    let mut words = value
        .split(|char: char| !char.is_alphanumeric() && char != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_ascii_lowercase)
        .peekable();
    let marks = |byte: u8| b" ()[]<>|,;:.?=/-*`\"'".contains(&byte);
    words.peek().is_some_and(|first| TYPES.contains(&first.as_str()))
        && words.all(|word| TYPES.contains(&word.as_str()) || BESIDE_TYPES.contains(&word.as_str()))
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_' || marks(byte))
}

/// Whether a value may end in front of `behind`.
pub(super) fn ends_there(behind: &str) -> bool {
    behind.trim_start_matches(['"', '\'', ')', ']', '}', ';', ',', '.', '`', '\\', '?', '!', '>']).is_empty()
        || behind.starts_with(|char: char| char.is_whitespace() || ";,)]}`\"'\\&".contains(char))
        || (behind.starts_with('.') && behind.chars().nth(1).is_some_and(char::is_whitespace))
}

/// Words for people, without a digit: `your password`, `redacted`, `API_KEY`.
fn is_description(inside: &str) -> bool {
    !inside.is_empty()
        && inside.bytes().all(|byte| byte.is_ascii_alphabetic() || b" _-.'/:".contains(&byte))
        && inside.bytes().any(|byte| byte.is_ascii_alphabetic())
}

fn is_name(name: &str) -> bool {
    name.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_dotted(name: &str) -> bool {
    !name.is_empty() && name.split('.').all(is_name)
}

/// A name as variables of an environment have them, in which no digit hides that it is a word.
fn is_constant(name: &str) -> bool {
    name.len() >= 3 && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_')
}

fn has_digits(text: &str) -> bool {
    text.bytes().any(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_passed_in_code_only() {
        for (front, name, sign, value, behind, expected) in [
            ("a(", "token", "=", "token", ")", true),
            ("a(b(), ", "token", "=", "cfg.token", ", c)", true),
            ("a(b='x', ", "token", "=", "tok", ")", true),
            ("a(", "token", "=", "tok", ", b=\"x\")", true),
            ("A(\n  ", "token", "=", "token", ",\n)", true),
            ("{\n\t", "token", ": ", "req.token,", "\n}", true),
            // Nothing says that these are code.
            ("a(", "token", "=", "tok", ")", false),
            ("a(b='x', ", "token", "=", "tok9", ")", false),
            ("a(b) ", "token", "=", "token", "", false),
            ("admin (", "token", "=", "token", ")", false),
            ("", "token", "=", "token", ",", false),
            ("x:\n  ", "token", ": ", "token", "\n", false),
            ("x, ", "token", "=", "token", ", y", false),
            ("a('x'\n ", "token", "=", "tok", ")", false),
        ] {
            let text = [front, name, sign, value, behind].concat();
            let at = front.len() + name.len() + sign.len();
            let spans = (Span::new(front.len(), front.len() + name.len()), Span::new(at, at + value.len()));
            assert_eq!(is_passed(&text, spans.0, spans.1), expected, "{text}");
        }
    }

    #[test]
    fn help_names_arguments_in_capitals() {
        for (name, value, expected) in [
            ("--password", "PASSWORD", true),
            ("--db-password", "PASSWORD", true),
            ("--api-key", "API_KEY.", true),
            ("--secret", "SECRET_FILE", true),
            ("--password", "HUNTER", false),
            ("--password", "password", false),
            ("password", "PASSWORD", false),
        ] {
            assert_eq!(is_metavariable(name, value), expected, "{name} {value}");
        }
    }
}
