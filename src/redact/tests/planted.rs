//! Random messages with secrets planted in texts, in every place a text can be.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::super::fit;
use super::random::Dice;
use super::*;
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
}

impl Writer {
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
                let word = self.dice.pick(&WORDS).to_owned();
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
                let name = self.dice.pick(&["a", "b", "täg", "q\"uote", "uri", "text"]).to_owned();
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
    let mut writer = Writer { dice: Dice(0x2545_f491_4f6c_dd1d), planted: Vec::new() };
    for round in 0..800 {
        writer.planted.clear();
        let (inside, expected) = writer.object(4);
        let frame =
            |inside: &str| format!(r#"{{"id":1,"method":"tools/call","params":{{"arguments":{inside}}}}}"#);
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

        let key = |text: &str, written: Written<'_>| {
            let tree = Tree::of(text).unwrap();
            let treatments = rules.treatments(&tree, written);
            let mut out = Vec::new();
            canonical::write(&tree, 0, &mut out, &mut |node| treatments.treat(node));
            let _ = treatments.settle(&mut out, 0);
            out
        };
        let old = key(&recorded, Written::All);
        for live in [&text, &recorded] {
            let new = key(live, Written::Live);
            assert!(old == new || fit(&old, &new).is_some(), "{round}: {recorded}\n{live}");
        }
    }
}
