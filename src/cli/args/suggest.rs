//! "Did you mean": the known word nearest to a misspelt one.

/// ` (did you mean PREFIX+WORD?)`, or nothing when no known word is near.
pub(super) fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>, prefix: &str) -> String {
    let word = word.to_lowercase();
    let nearest = known
        .filter_map(|name| {
            let starts = word.len() >= 3 && (name.starts_with(&word) || word.starts_with(name));
            let distance = if starts { 1 } else { distance(&word, name) };
            (distance <= (name.len().max(3) / 3).min(3)).then_some((distance, name))
        })
        .min_by_key(|(distance, _)| *distance);
    nearest.map_or(String::new(), |(_, name)| format!(" (did you mean {prefix}{name}?)"))
}

/// Edits between two words: insertions, deletions, replacements, and swaps of neighbours.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=other.len()).collect();
    let mut last = None;
    for (row, letter) in one.chars().enumerate() {
        let mut current = vec![row + 1];
        for (column, candidate) in other.iter().enumerate() {
            let at = |line: &[usize], index: usize| line.get(index).copied().unwrap_or(usize::MAX / 2);
            let mut best = (at(&above, column) + usize::from(letter != *candidate))
                .min(at(&above, column + 1) + 1)
                .min(at(&current, column) + 1);
            let swapped = column > 0 && other.get(column - 1) == Some(&letter) && last == Some(*candidate);
            if swapped {
                best = best.min(at(&before, column - 1) + 1);
            }
            current.push(best);
        }
        before = std::mem::replace(&mut above, current);
        last = Some(letter);
    }
    above.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (one, other, edits) in [
            ("", "", 0),
            ("a", "", 1),
            ("", "ab", 2),
            ("serve", "sevre", 1),
            ("record", "recrod", 1),
            ("abc", "xyz", 3),
        ] {
            assert_eq!(distance(one, other), edits, "{one} {other}");
        }
    }

    #[test]
    fn only_near_words_are_suggested() {
        let known = ["record", "serve", "inspect", "convert"];
        for (word, text) in [
            ("recrod", " (did you mean --record?)"),
            ("insp", " (did you mean --inspect?)"),
            ("SERVE", " (did you mean --serve?)"),
            ("play", ""),
            ("x", ""),
        ] {
            assert_eq!(did_you_mean(word, known.into_iter(), "--"), text, "{word}");
        }
    }
}
