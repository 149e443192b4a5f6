//! Quotes in free text and code: which are open where a name stands, and where a quoted value ends.

/// The quotes that are open at a place in a text. Nothing stays open over the end of a line.
#[derive(Default)]
pub(super) struct Quotes {
    at: usize,
    /// The outermost first: each mark, and the backslashes in front of it.
    open: Vec<(u8, usize)>,
}

impl Quotes {
    /// Reads on to `end`; all steps together read a text once.
    pub(super) fn advance(&mut self, text: &str, end: usize) {
        let bytes = text.as_bytes();
        while let Some(offset) =
            bytes.get(self.at..end).and_then(|rest| memchr::memchr3(b'"', b'\'', b'\n', rest))
        {
            let at = self.at + offset;
            self.at = at + 1;
            match bytes.get(at) {
                Some(b'\n') | None => self.open.clear(),
                Some(mark) => self.meet(bytes, at, *mark),
            }
        }
        self.at = self.at.max(end);
    }

    fn meet(&mut self, bytes: &[u8], at: usize, mark: u8) {
        let front = bytes.get(..at).unwrap_or_default();
        let slashes = slashes_behind(front);
        let front = front.get(..at - slashes).unwrap_or_default();
        let behind = bytes.get(at + 1).copied();
        if let Some(place) = self.place(mark, slashes) {
            let apostrophe =
                mark == b'\'' && front.last().copied().is_some_and(is_word) && behind.is_some_and(is_word);
            if !apostrophe {
                self.open.truncate(place);
            }
        } else if !ends_in_word(front) {
            self.open.push((mark, slashes));
        }
    }

    fn place(&self, mark: u8, slashes: usize) -> Option<usize> {
        let of = |slashes: usize| self.open.iter().rposition(|open| *open == (mark, slashes));
        // An even number of backslashes is that many halves.
        of(slashes).or_else(|| (slashes > 0 && slashes.is_multiple_of(2)).then(|| of(0)).flatten())
    }

    /// Whether such a quote, with `behind` behind it, closes one of these. A word behind it would be its own.
    pub(super) fn close_with(&self, mark: u8, slashes: usize, behind: Option<u8>) -> bool {
        self.place(mark, slashes).is_some() && !behind.is_some_and(is_word)
    }
}

pub(super) fn is_quote(byte: u8) -> bool {
    matches!(byte, b'"' | b'\'')
}

/// A letter or digit, or a part of what is not ASCII.
fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || !byte.is_ascii()
}

/// The backslashes at the end of `front`.
pub(super) fn slashes_behind(front: &[u8]) -> usize {
    front.iter().rev().take(64).take_while(|byte| **byte == b'\\').count()
}

/// Whether a quote behind `front` can open nothing: `don't`, `5"`. The letter of `f"x"` and of `\n"x"` is no word.
fn ends_in_word(front: &[u8]) -> bool {
    let mut bytes = front.iter().rev();
    let Some(last) = bytes.next().copied().filter(|byte| is_word(*byte)) else { return false };
    match bytes.next() {
        Some(b'\\') => false,
        Some(byte) if is_word(*byte) => true,
        _ => !b"fFrRbBuU".contains(&last),
    }
}

/// Where a quoted value ends, and whether it is closed there: at the next quote that is escaped no deeper, or with its
/// line when that has none.
pub(super) fn quoted_end(value: &[u8], quote: u8, depth: usize) -> (usize, bool) {
    for at in memchr::memchr3_iter(quote, b'\n', b'\r', value) {
        if value.get(at) != Some(&quote) {
            return (at, false);
        }
        let front = value.get(..at).unwrap_or_default();
        let slashes = front.iter().rev().take_while(|byte| **byte == b'\\').count();
        if slashes <= depth {
            return (at - slashes, true);
        }
        // An even number of backslashes in front of a bare quote is that many halves, and the quote ends.
        if depth == 0 && slashes % 2 == 0 {
            return (at, true);
        }
    }
    (value.len(), false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_closes_what_was_opened_on_its_line() {
        for (front, mark, slashes, closes) in [
            ("input('", b'\'', 0, true),
            ("input(\"", b'"', 0, true),
            ("input(\"", b'\'', 0, false),
            ("print(f'", b'\'', 0, true),
            ("print(\"\"\"", b'"', 0, true),
            ("don't set ", b'\'', 0, false),
            ("a 5\" one, ", b'"', 0, false),
            ("'a'\n", b'\'', 0, false),
            ("'a\r\n", b'\'', 0, false),
            ("[\"'\", '", b'\'', 0, true),
            ("{\"a\":\"x(\\\"", b'"', 1, true),
            ("x(\"C:\\\\\", ", b'"', 0, false),
            ("'it\\'s ", b'\'', 0, true),
        ] {
            let mut quotes = Quotes::default();
            quotes.advance(front, front.len());
            assert_eq!(quotes.close_with(mark, slashes, Some(b')')), closes, "{front}");
            assert!(!quotes.close_with(mark, slashes, Some(b'x')), "{front}");
        }
    }
}
