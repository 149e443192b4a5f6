//! Command lines that stand in one string.

/// The words of a command line, as a shell would tell them apart: blanks, quotes and backslashes.
pub(super) fn split(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = line.chars();
    while let Some(char) = chars.next() {
        match (quote, char) {
            (Some(open), char) if char == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(char);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, char) if char.is_ascii_whitespace() => words.extend(word.take()),
            (_, char) => word.get_or_insert_default().push(char),
        }
    }
    words.extend(word);
    words
}

/// The command line that [`split`] takes apart into these words.
pub(super) fn join(words: &[String]) -> String {
    let plain = |char: char| char.is_alphanumeric() || "-_./:@=,+%^~{}<>[]*?&|$!#".contains(char);
    let quoted: Vec<String> = words
        .iter()
        .map(|word| {
            if !word.is_empty() && word.chars().all(plain) {
                word.clone()
            } else {
                format!("'{}'", word.replace('\'', "'\\''"))
            }
        })
        .collect();
    quoted.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back() {
        for (line, words) in [
            ("", &[][..]),
            ("npx -y  server\t.", &["npx", "-y", "server", "."]),
            (r#"a 'b c' "d \" e" f\ g '' h'i'j"#, &["a", "b c", "d \" e", "f g", "", "hij"]),
            ("'open", &["open"]),
        ] {
            let split = split(line);
            assert_eq!(split, words, "{line}");
            assert_eq!(super::split(&join(&split)), words, "{line}");
        }
        assert_eq!(join(&["it's".to_owned(), String::new()]), r"'it'\''s' ''");
    }
}
