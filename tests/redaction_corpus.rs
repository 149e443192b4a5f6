//! The detectors against `testdata/redaction`: for each a file of lines with what has to go, and of lines that only look
//! so. Words of a line are parted by tabs: `hit`, the text, and each stretch that goes, in order; or `miss` and the text.
//! A `?` behind the first word says that we know to be wrong about the line; it counts in the table of
//! docs/reference/redaction.md all the same, and a line that has become right must lose its mark.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use mcpreel::redact::{Redactor, Rules, Side, is_placeholder};

use crate::support::recording::MCPREEL_BLESS;

struct Line {
    hit: bool,
    known: bool,
    text: String,
    goes: Vec<String>,
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(char) = chars.next() {
        out.push(match char {
            '\\' => match chars.next() {
                Some('n') => '\n',
                Some('r') => '\r',
                Some('t') => '\t',
                other => other.unwrap(),
            },
            other => other,
        });
    }
    out
}

fn corpus() -> Vec<(String, Vec<Line>)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(root().join("testdata/redaction")).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
        .iter()
        .map(|path| {
            let text = fs::read_to_string(path).unwrap();
            let lines = text.lines().filter(|line| !line.starts_with('#')).map(|line| {
                let mut words = line.split('\t').map(unescape);
                let kind = words.next().unwrap();
                let text = words.next().unwrap();
                let hit = kind.starts_with("hit");
                assert!(hit || kind.starts_with("miss"), "{}: {line}", path.display());
                Line { hit, known: kind.ends_with('?'), text, goes: words.collect() }
            });
            (path.file_stem().unwrap().to_string_lossy().into_owned(), lines.collect())
        })
        .collect()
}

/// What is left of a text in the result of a tool, and the rules that changed it.
fn redacted(text: &str) -> (String, Vec<String>) {
    let mut redactor = Redactor::new(Arc::new(Rules::new(true, &[]).unwrap()), 1);
    let message = serde_json::json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": text}]}});
    match redactor.redact(&message.to_string(), Side::Server) {
        None => (text.to_owned(), Vec::new()),
        Some(redacted) => {
            assert_eq!(
                redactor.redact(&redacted.text, Side::Server),
                None,
                "a second time: {}",
                redacted.text
            );
            let value: serde_json::Value = serde_json::from_str(&redacted.text).unwrap();
            (value["result"]["content"][0]["text"].as_str().unwrap().to_owned(), redacted.rules)
        }
    }
}

/// Whether exactly the stretches of a line went, each replaced by a placeholder.
fn is_right(line: &Line, got: &str) -> bool {
    let (mut rest, mut got) = (line.text.as_str(), got);
    for value in &line.goes {
        let at = rest.find(value.as_str()).unwrap_or_else(|| panic!("{value:?} is not in {rest:?}"));
        let (front, back) = (&rest[..at], &rest[at + value.len()..]);
        let Some(after) = got.strip_prefix(front) else { return false };
        let ends = (1..=after.len()).filter(|end| after.is_char_boundary(*end));
        let Some(end) = ends.rev().find(|end| is_placeholder(&after[..*end])) else { return false };
        got = &after[end..];
        rest = back;
    }
    rest == got
}

#[test]
fn golden_the_corpus_is_told_apart() {
    let mut wrong = String::new();
    let mut table =
        String::from("| detector | precision | recall | true | near misses |\n|---|---|---|---|---|\n");
    for (name, lines) in corpus() {
        let (mut found, mut missed, mut vain) = (0, 0, 0);
        let hits = lines.iter().filter(|line| line.hit).count();
        assert!(hits >= 10 && lines.len() - hits >= 10, "{name}: ten of each are wanted");
        for line in &lines {
            let (got, rules) = redacted(&line.text);
            let rule = name == "named-values" || rules.contains(&format!("common/{name}"));
            let right = is_right(line, &got) && (!line.hit || rule);
            match (line.hit, right) {
                (true, true) => found += 1,
                (true, false) => missed += 1,
                (false, true) => {}
                (false, false) => vain += 1,
            }
            if right == line.known {
                let _ = writeln!(wrong, "{name}: {:?} became {got:?} by {rules:?}", line.text);
            }
        }
        let percent = |part: usize, whole: usize| format!("{}%", part * 100 / whole.max(1));
        let precision = percent(found, found + vain);
        let recall = percent(found, found + missed);
        let _ = writeln!(table, "| {name} | {precision} | {recall} | {hits} | {} |", lines.len() - hits);
    }
    assert!(wrong.is_empty(), "\n{wrong}");

    let path = root().join("docs/reference/redaction.md");
    let text = fs::read_to_string(&path).unwrap();
    let (front, rest) = text.split_once("<!-- corpus -->\n").unwrap();
    let (_, back) = rest.split_once("<!-- /corpus -->").unwrap();
    let wanted = format!("{front}<!-- corpus -->\n{table}<!-- /corpus -->{back}");
    if std::env::var_os(MCPREEL_BLESS).is_some() {
        fs::write(&path, &wanted).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap();
    assert!(kept == wanted, "the table in docs/reference/redaction.md is old; `make bless` writes it anew");
}
