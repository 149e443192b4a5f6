//! Replacing byte spans of a text and leaving every other byte as it was.

use super::scan::Span;

/// One replacement that was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// Where it was made in the old text.
    pub old: Span,
    /// Where what was put there stands in the new one.
    pub new: Span,
}

/// A list of replacements for one text.
#[derive(Clone, Debug, Default)]
pub struct Edits {
    list: Vec<(Span, String)>,
}

impl Edits {
    /// No replacements yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Puts `text` in the place of `span`.
    pub fn replace(&mut self, span: Span, text: impl Into<String>) {
        self.list.push((span, text.into()));
    }

    /// Whether nothing would change.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Appends `text[within]` with the replacements made. Of two that overlap, the one that starts first (then the
    /// one that was added first) is made and the other left out.
    pub fn apply_within(&mut self, text: &str, within: Span, out: &mut String) {
        self.make(text, within, out, |_| {});
    }

    fn make(&mut self, text: &str, within: Span, out: &mut String, mut made: impl FnMut(Change)) {
        self.list.sort_by_key(|(span, _)| span.start);
        let mut at = within.start;
        for (span, replacement) in &self.list {
            if span.start < at || span.end > within.end {
                continue;
            }
            out.push_str(Span::new(at, span.start).of(text));
            let start = out.len();
            out.push_str(replacement);
            made(Change { old: *span, new: Span::new(start, out.len()) });
            at = span.end;
        }
        out.push_str(Span::new(at, within.end).of(text));
    }

    /// `text` with the replacements made.
    #[must_use]
    pub fn apply(&mut self, text: &str) -> String {
        self.apply_telling(text).0
    }

    /// The same, and which were made, in order.
    #[must_use]
    pub fn apply_telling(&mut self, text: &str) -> (String, Vec<Change>) {
        let mut out = String::with_capacity(text.len() + 16);
        let mut changes = Vec::with_capacity(self.list.len());
        self.make(text, Span::new(0, text.len()), &mut out, |change| changes.push(change));
        (out, changes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_spans_change() {
        let mut edits = Edits::new();
        edits.replace(Span::new(4, 5), "LONG");
        edits.replace(Span::new(0, 1), "");
        edits.replace(Span::new(4, 6), "overlaps and is left out");
        let change = |old: (usize, usize), new: (usize, usize)| Change {
            old: Span::new(old.0, old.1),
            new: Span::new(new.0, new.1),
        };
        let changes = vec![change((0, 1), (0, 0)), change((4, 5), (3, 7))];
        assert_eq!(edits.apply_telling("abcdefg"), ("bcdLONGfg".to_owned(), changes));
        assert_eq!(Edits::new().apply("é"), "é");
    }
}
