//! What may go to a terminal.

use std::fmt::Write as _;

/// `text` on one line: control characters, line ends and invisible formatting as `\u00XX`, which is also how JSON
/// spells them inside a string.
pub(super) fn line(text: &str) -> String {
    escaped(text, false)
}

/// The same for text of several lines.
pub(in crate::cli) fn lines(text: &str) -> String {
    escaped(text, true)
}

fn escaped(text: &str, keep_lines: bool) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        if !is_hidden(letter) || (keep_lines && letter == '\n') {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            let _ = write!(out, "\\u{unit:04x}");
        }
    }
    out
}

/// Control characters, and what changes the order or the look of other characters without being seen.
pub(in crate::cli) fn is_hidden(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
            | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// The start of a long text, on one line.
pub(super) fn short(text: &str, length: usize) -> String {
    let mut start: String = text.chars().take(length).collect();
    if start.len() < text.len() {
        start.push_str("...");
    }
    line(&start)
}

/// A name in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", line(&text.replace('\\', "\\\\").replace('"', "\\\"")))
}

/// Microseconds as a length of time.
pub(super) fn duration(micros: u64) -> String {
    match micros {
        0..10_000 => format!("{}.{} ms", micros / 1000, micros % 1000 / 100),
        10_000..1_000_000 => format!("{} ms", micros / 1000),
        1_000_000..60_000_000 => format!("{}.{} s", micros / 1_000_000, micros % 1_000_000 / 100_000),
        _ => format!("{} min {} s", micros / 60_000_000, micros / 1_000_000 % 60),
    }
}

/// Microseconds since the recording began.
pub(super) fn moment(micros: u64) -> String {
    format!("+{}.{:03}", micros / 1_000_000, micros / 1000 % 1000)
}

/// Bytes.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        0..10_000 => format!("{bytes} B"),
        10_000..10_000_000 => format!("{} kB", bytes / 1000),
        _ => format!("{} MB", bytes / 1_000_000),
    }
}

/// `1 message`, `2 messages`.
pub(super) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_reaches_the_terminal_but_letters() {
        for (text, safe) in [
            ("plain é😀", "plain é😀"),
            ("\u{1b}[31m\u{7}", "\\u001b[31m\\u0007"),
            ("a\nb\r", "a\\u000ab\\u000d"),
            ("\u{9b}2J\u{7f}", "\\u009b2J\\u007f"),
            ("\u{202e}x\u{200b}", "\\u202ex\\u200b"),
            ("\u{e0041}", "\\udb40\\udc41"),
        ] {
            assert_eq!(line(text), safe);
        }
        assert_eq!(lines("a\n\tb"), "a\n\\u0009b");
        assert_eq!(
            (quoted("a\"\n"), short("abcdef", 3)),
            ("\"a\\\"\\u000a\"".to_owned(), "abc...".to_owned())
        );
    }

    #[test]
    fn amounts() {
        let lengths = [0, 1_230, 12_300, 1_230_000, 90_000_000].map(duration);
        assert_eq!(lengths, ["0.0 ms", "1.2 ms", "12 ms", "1.2 s", "1 min 30 s"]);
        assert_eq!((moment(1_234_567), size(12_345)), ("+1.234".to_owned(), "12 kB".to_owned()));
    }
}
