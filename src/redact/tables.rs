//! Values that a table names: by the first cell of a row (`| password | x |`), by the head of a column, by columns that
//! are aligned under `NAME` and `VALUE`. Most tables that speak of passwords are for people, so more than a name has to
//! say that something is a value: that there is no head, the word for values in it, or a word that looks made.

use super::blocks::says_nothing;
use super::placeholder::is_placeholder;
use super::rules::Rules;
use crate::jsonrpc::scan::Span;

/// Heads of columns over what is said about names.
const ABOUT: [&str; 18] = [
    "default",
    "description",
    "details",
    "env",
    "environment variable",
    "example",
    "format",
    "kind",
    "length",
    "meaning",
    "notes",
    "purpose",
    "required",
    "requirement",
    "rule",
    "scope",
    "type",
    "usage",
];
/// Heads of columns over names.
const KEYS: [&str; 7] = ["key", "name", "option", "parameter", "property", "setting", "variable"];

/// Appends the values that the tables in a text name, with rule and name.
pub(super) fn find<'t>(rules: &Rules, text: &'t str, found: &mut Vec<(usize, Span, &'t str)>) {
    if memchr::memchr(b'|', text.as_bytes()).is_some() {
        barred(rules, text, found);
    }
    if may_be_aligned(text.as_bytes()) {
        aligned(rules, text, found);
    }
}

/// Whether a head of columns could stand in the bytes.
pub(super) fn may_be_aligned(bytes: &[u8]) -> bool {
    ["  VALUE", "  Value", "  value"]
        .iter()
        .any(|head| memchr::memmem::find(bytes, head.as_bytes()).is_some())
}

/// Whether a word looks as if it had been made: it has a digit, and is no short one and no address.
pub(super) fn is_told(word: &str) -> bool {
    word.len() >= 5 && word.bytes().any(|byte| byte.is_ascii_digit()) && !word.contains("://")
}

/// The same beyond doubt: tokens are also what designs, grammars and languages are made of.
fn is_random(word: &str) -> bool {
    let count = |of: fn(&u8) -> bool| word.bytes().filter(of).count();
    let digits = count(u8::is_ascii_digit);
    word.len() >= 8
        && digits >= 2
        && (count(u8::is_ascii_uppercase) > 0 && count(u8::is_ascii_lowercase) > 0
            || (word.len() >= 16 && digits >= 4 && word.bytes().all(|byte| byte.is_ascii_alphanumeric())))
}

struct Row<'t> {
    cells: Vec<(Span, &'t str)>,
    /// It has bars at both ends.
    framed: bool,
}

impl<'t> Row<'t> {
    /// The cells of a line that starts at `start`, each without what makes it bold or code.
    fn of(line: &'t str, start: usize) -> Option<Self> {
        let mut cells = Vec::new();
        let mut from = 0;
        let bytes = line.as_bytes();
        let bars = memchr::memchr_iter(b'|', bytes)
            .filter(|at| at.checked_sub(1).and_then(|before| bytes.get(before)) != Some(&b'\\'));
        for end in bars.chain([line.len()]) {
            let cell = line.get(from..end)?;
            let bare = cell.trim_start_matches([' ', '\t', '*', '`', '"', '\'']);
            let front = cell.len() - bare.len();
            let bare = bare.trim_end_matches([' ', '\t', '*', '`', '"', '\'']);
            cells.push((Span::new(start + from + front, start + from + front + bare.len()), bare));
            from = end + 1;
        }
        let is_empty = |cell: Option<&(Span, &str)>| cell.is_some_and(|(_, cell)| cell.is_empty());
        let framed = cells.len() > 2 && is_empty(cells.first()) && is_empty(cells.last());
        if framed {
            cells.pop();
            cells.remove(0);
        }
        (cells.len() > 1).then_some(Self { cells, framed })
    }

    fn cell(&self, at: usize) -> &'t str {
        self.cells.get(at).map_or("", |(_, cell)| *cell)
    }

    fn column(&self, head: &str) -> Option<usize> {
        self.cells.iter().position(|(_, cell)| cell.eq_ignore_ascii_case(head))
    }
}

/// The line under the head of a table, or around one.
fn is_ruler(line: &str) -> bool {
    line.contains('-') && line.contains(['|', '+']) && line.bytes().all(|byte| b"-:|+= \t\r".contains(&byte))
}

fn barred<'t>(rules: &Rules, text: &'t str, found: &mut Vec<(usize, Span, &'t str)>) {
    let mut lines = Lines { text, at: 0 }.peekable();
    let mut head: Option<Row<'t>> = None;
    // What was seen of the table so far says that it is one.
    let mut ruled = false;
    while let Some((start, line)) = lines.next() {
        if is_ruler(line) || line.starts_with("-[ RECORD ") {
            ruled = true;
            continue;
        }
        let Some(row) = Row::of(line, start) else {
            (head, ruled) = (None, false);
            continue;
        };
        if head.is_none() && lines.peek().is_some_and(|(_, next)| is_ruler(next)) {
            head = Some(row);
        } else if row.framed || ruled {
            found.extend(in_row(rules, &row, head.as_ref()));
        }
    }
}

/// The values of one row.
fn in_row<'t>(rules: &Rules, row: &Row<'t>, head: Option<&Row<'t>>) -> Vec<(usize, Span, &'t str)> {
    let mut values = Vec::new();
    let mut note = |name: &'t str, at: usize, told: bool| {
        if let Some((span, value)) = row.cells.get(at)
            && is_value(rules, value, told)
            && let Some(rule) = rules.pair(name, value)
        {
            values.push((rule, *span, name));
        }
    };
    // Options stand in tables of what they mean.
    let is_secret = |name: &str| !name.starts_with('-') && rules.facts(name).rule.is_some();
    let is_about = |head: &str| ABOUT.iter().any(|word| head.eq_ignore_ascii_case(word));
    let name = row.cell(0);
    if is_secret(name) {
        let two = row.cells.len() == 2;
        match head {
            None => note(name, 1, two && !is_about(row.cell(1))),
            Some(head) => match head.column("value").filter(|at| *at > 0) {
                Some(at) => note(name, at, true),
                None => {
                    note(name, 1, two && !is_about(head.cell(1)) && is_told(row.cell(1)));
                }
            },
        }
        return values;
    }
    // The first column says what the row is about.
    let head = head.filter(|head| head.cells.len() == row.cells.len());
    for (at, (_, name)) in head.iter().flat_map(|head| head.cells.iter()).enumerate().skip(1) {
        if is_secret(name) {
            let plain = name.eq_ignore_ascii_case("token") || name.eq_ignore_ascii_case("tokens");
            let word = row.cell(at);
            note(name, at, if plain { is_random(word) } else { is_told(word) });
        }
    }
    values
}

/// Whether a cell holds a value; `told` says that something makes it one.
fn is_value(rules: &Rules, cell: &str, told: bool) -> bool {
    let lower = || cell.to_ascii_lowercase();
    let stands_for_one = || ["your", "example", "placeholder"].iter().any(|word| lower().contains(word));
    is_placeholder(cell)
        || (told
            && !cell.contains(char::is_whitespace)
            && !cell.contains("://")
            && !cell.starts_with(['<', '[', '{', '(', '-', '/'])
            && cell.contains(char::is_alphanumeric)
            && !matches!(lower().as_str(), "yes" | "no" | "n/a" | "set" | "unset" | "hidden" | "masked")
            && !says_nothing(rules, cell)
            && !stands_for_one())
}

/// Columns that are aligned with blanks, under a head that has the words for names and values.
fn aligned<'t>(rules: &Rules, text: &'t str, found: &mut Vec<(usize, Span, &'t str)>) {
    // Where the columns of names and values begin.
    let mut columns: Option<(usize, usize)> = None;
    for (start, line) in (Lines { text, at: 0 }) {
        let words = columns_of(line);
        let is = |at: usize, heads: &[&str]| {
            words.get(at).is_some_and(|(_, word)| heads.iter().any(|head| head.eq_ignore_ascii_case(word)))
        };
        if let Some(at) = (1..words.len()).find(|at| is(0, &KEYS) && is(*at, &["value"])) {
            columns = words.first().zip(words.get(at)).map(|((name, _), (value, _))| (*name, *value));
            continue;
        }
        if words.is_empty() {
            columns = None;
        }
        let Some((names, values)) = columns else { continue };
        let at = |column: usize| words.iter().find(|(at, _)| *at == column);
        let (Some((_, name)), Some((from, value))) = (at(names), at(values)) else { continue };
        let span = Span::new(start + from, start + from + value.len());
        if rules.facts(name).rule.is_some()
            && is_value(rules, value, true)
            && let Some(rule) = rules.pair(name, value)
        {
            found.push((rule, span, name));
        }
    }
}

/// What stands between two blanks or more in a line, and where.
fn columns_of(line: &str) -> Vec<(usize, &str)> {
    let mut words = Vec::new();
    let mut at = 0;
    for piece in line.split("  ") {
        let word = piece.trim();
        if !word.is_empty() {
            words.push((at + piece.len() - piece.trim_start().len(), word));
        }
        at += piece.len() + 2;
    }
    words
}

/// The lines of a text, and where each starts.
struct Lines<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Iterator for Lines<'t> {
    type Item = (usize, &'t str);

    fn next(&mut self) -> Option<Self::Item> {
        let start = self.at;
        let rest = self.text.get(start..).filter(|rest| !rest.is_empty())?;
        let len = memchr::memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len());
        self.at = start + len + 1;
        let line = rest.get(..len)?;
        Some((start, line.strip_suffix('\r').unwrap_or(line)))
    }
}
