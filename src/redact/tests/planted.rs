//! Random messages with secrets planted in texts, in every place a text can be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::{fit, fit_whole, noted};
use super::random::Dice;
use super::*;
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;

const WORDS: [&str; 9] = [
    "alpha",
    "the token",
    "é😀",
    "line\nbreak",
    "\"quoted\"",
    "back\\slash",
    "{not json",
    "[1, 2]",
    "tab\tbed",
];

/// What stands for any placeholder in expected texts.
const MARK: &str = "REDACTED-0";

struct Writer {
    dice: Dice,
    /// What must not be left, by spelling.
    planted: Vec<String>,
    /// Text that only looks like placeholders, each once, where such is wanted.
    own: Option<Vec<String>>,
}

impl Writer {
    /// Text that looks like a placeholder.
    fn look_alike(&mut self) -> Option<String> {
        let own = self.own.as_mut()?;
        if own.len() == 100 || self.dice.roll(3) > 0 {
            return None;
        }
        let n = 100 + own.len();
        let forms = [
            format!("192.0.2.{n}"),
            format!("redacted-{n}@redacted.invalid"),
            format!("00000000-0000-4000-8000-000000000{n}"),
            format!("REDACTED-{n}"),
            format!("https://redacted.invalid/{n}"),
        ];
        let chosen = forms[self.dice.roll(forms.len())].clone();
        own.push(chosen.clone());
        Some(chosen)
    }

    /// A text with a secret in it, and what is to become of it.
    fn secret(&mut self, kinds: &[usize]) -> (String, String) {
        let n = 1000 + self.planted.len();
        let (front, value, back) = match kinds[self.dice.roll(kinds.len())] {
            0 => ("", format!("zq{n}@mail.example"), ""),
            1 => ("", format!("ghp_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8v{n}"), ""),
            2 => ("https://", format!("zq:pw{n}"), "@h.example/x"),
            3 => ("password=", format!("hunter{n}"), ""),
            4 => ("ssn ", format!("123-45-{n}"), ""),
            5 => ("", format!("AKIAZQZQZQZQZQZQ{n}"), ""),
            6 => ("", format!("eyJhbGciOiJIUzI1.eyJzdWIiOiIx.sig{n}"), ""),
            _ => {
                ("", format!("-----BEGIN PRIVATE KEY-----\nMIIEvQIBADANBg{n}\n-----END PRIVATE KEY-----"), "")
            }
        };
        self.planted.push(n.to_string());
        (format!("{front}{value}{back}"), format!("{front}{MARK}{back}"))
    }

    fn text(&mut self) -> (String, String) {
        let (mut one, mut other) = (String::new(), String::new());
        for _ in 0..self.dice.roll(4) {
            let (left, right) = if self.dice.roll(3) == 0 {
                self.secret(&[0, 1, 2, 3, 4, 5, 6, 7])
            } else {
                let word = self.look_alike().unwrap_or_else(|| self.dice.pick(&WORDS).to_owned());
                (word.clone(), word)
            };
            one += &left;
            other += &right;
            one.push(' ');
            other.push(' ');
        }
        if self.dice.roll(6) == 0 {
            let (left, _) = self.secret(&[0, 1, 2, 3, 4, 5, 6, 7]);
            let encoded = STANDARD.encode(format!("some words and {left} here"));
            one += &encoded;
            other += MARK;
        }
        (one, other)
    }

    fn value(&mut self, depth: usize) -> (String, String) {
        match self.dice.roll(if depth == 0 { 3 } else { 6 }) {
            0 => {
                let word = self.dice.pick(&["1", "-2.50", "1E400", "true", "null", "[]", "{}"]).to_owned();
                (word.clone(), word)
            }
            1 | 2 => {
                let (one, other) = self.text();
                (string::encode(&one), string::encode(&other))
            }
            3 => {
                let (one, other) = self.value(depth - 1);
                (string::encode(&one), string::encode(&other))
            }
            4 => {
                let (mut one, mut other) = ("[".to_owned(), "[".to_owned());
                for at in 0..self.dice.roll(4) {
                    let comma = if at > 0 { ", " } else { "" };
                    let (left, right) = self.value(depth - 1);
                    one += &(comma.to_owned() + &left);
                    other += &(comma.to_owned() + &right);
                }
                (one + "]", other + "]")
            }
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> (String, String) {
        let (mut one, mut other) = ("{".to_owned(), "{".to_owned());
        for at in 0..self.dice.roll(4) {
            let comma = if at > 0 { "," } else { "" };
            let (name, renamed) = if self.dice.roll(8) == 0 {
                // Some of the others are names that a rule over names knows.
                self.secret(&[0, 1, 4, 5])
            } else {
                let own = self.look_alike();
                let name = own.unwrap_or_else(|| {
                    self.dice.pick(&["a", "b", "täg", "q\"uote", "uri", "text"]).to_owned()
                });
                (name.clone(), name)
            };
            let (left, right) = self.value(depth);
            one += &[comma, &string::encode(&name), " :", &left].concat();
            other += &[comma, &string::encode(&renamed), " :", &right].concat();
        }
        (one + "}", other + "}")
    }
}

#[test]
fn no_planted_secret_is_left_and_nothing_else_changes() {
    let rules = Arc::new(rules(&[]));
    let forms = regex::Regex::new(r"REDACTED-[0-9]+|redacted-[0-9]+@redacted\.invalid").unwrap();
    let mut writer = Writer { dice: Dice(0x2545_f491_4f6c_dd1d), planted: Vec::new(), own: None };
    for round in 0..800 {
        writer.planted.clear();
        let (inside, expected) = writer.object(4);
        let (text, expected) = (frame(&inside), frame(&expected));
        let mut redactor = Redactor::new(Arc::clone(&rules), 1);
        let recorded =
            redactor.redact(&text, Side::Client).map_or_else(|| text.clone(), |redacted| redacted.text);
        assert_eq!(forms.replace_all(&recorded, MARK), expected, "{round}: {text}");
        for secret in &writer.planted {
            assert!(!recorded.contains(secret.as_str()), "{round}: {secret} in {recorded}");
        }
        assert!(Tree::of(&recorded).is_ok(), "{round}: {recorded}");
        assert_eq!(redactor.redact(&recorded, Side::Client), None, "{round}: {recorded}");

        let old = key(&rules, &recorded, Written::All);
        for live in [&text, &recorded] {
            let new = key(&rules, live, Written::Live);
            assert!(old == new || fit(&old, &new).is_some(), "{round}: {recorded}\n{live}");
        }
    }
}

fn frame(inside: &str) -> String {
    format!(r#"{{"id":1,"method":"tools/call","params":{{"arguments":{inside}}}}}"#)
}

fn in_order(rules: &Rules, text: &str, written: Written<'_>) -> Vec<u8> {
    let tree = Tree::of(text).unwrap();
    let treatments = rules.verbatim(&tree, written);
    let mut out = Vec::new();
    canonical::write_in_order(&tree, 0, &mut out, &mut |node| treatments.treat(node));
    let _ = treatments.settle(&mut out, 0);
    out
}

#[test]
fn text_that_looks_like_a_placeholder_stands_for_itself_only() {
    let rules = Arc::new(rules(&[]));
    let mut writer = Writer { dice: Dice(0x1234_5678_9abc_def1), planted: Vec::new(), own: Some(Vec::new()) };
    let (mut told, mut tried) = (0, 0);
    for round in 0..300 {
        writer.planted.clear();
        writer.own.as_mut().unwrap().clear();
        let text = frame(&writer.object(4).0);
        let mut redactor = Redactor::new(Arc::clone(&rules), 1);
        let redacted = redactor.redact(&text, Side::Client);
        let note = redactor.note(&text, redacted.as_ref(), Written::Nothing);
        let recorded = redacted.as_ref().map_or(&text, |redacted| &redacted.text);
        let whole = Span::new(0, recorded.len());
        let spans = note.as_ref().map(|note| noted(note, recorded, whole).unwrap());
        let written = match (&redacted, &spans) {
            (None, _) => Written::Nothing,
            (_, None) => Written::All,
            (_, Some(spans)) => Written::At { spans, base: 0 },
        };
        told += usize::from(redacted.is_some() && spans.is_some());
        let old = key(&rules, recorded, written);
        let answers = |live: &str| {
            let (new, spelled) = (key(&rules, live, Written::Live), canonical::of(live).unwrap());
            // Names that are placeholders on one side only are in other places among the others.
            let in_order = || {
                let (old, new) = (in_order(&rules, recorded, written), in_order(&rules, live, Written::Live));
                fit_whole(&old, &new).is_some()
            };
            old == new || [new, spelled].iter().any(|new| fit(&old, new).is_some()) || in_order()
        };
        assert!(answers(&text), "{round}: {recorded}\n{text}\n{note:?}");
        for own in writer.own.as_ref().unwrap() {
            for other in ["other", "192.0.2.99", "eve@mail.example"] {
                let live = text.replace(own.as_str(), other);
                tried += usize::from(live != text);
                assert!(live == text || !answers(&live), "{round}: {recorded}\n{live}\n{note:?}");
            }
        }
    }
    assert!(told > 50 && tried > 500, "{told} {tried}");
}
