//! Random messages with planted secrets.

use super::*;
use crate::jsonrpc::string;

pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    pub(super) fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }
}

const SECRET_NAMES: [&str; 8] = [
    "token",
    "api-key",
    "clientSecret",
    "PASSWORD",
    "Authorization",
    "db_credentials",
    "privateKey",
    "x token",
];
const NAMES: [&str; 10] =
    ["a", "b", "page_token", "name", "täg", "q\"uote", "back\\slash", "", "type", "nextCursor"];
const WORDS: [&str; 9] =
    ["", "x", "a token", "é😀", "line\nbreak", "\"quoted\"", "back\\slash", "{not json", "a=b"];

/// Writes a value twice: as recorded live, and with other secrets in the same places.
struct Writer {
    dice: Dice,
    planted: Vec<String>,
}

impl Writer {
    fn secret(&mut self) -> (String, String) {
        let number = self.planted.len();
        let style = self.dice.roll(4);
        let make = |which: &str| match style {
            0 => format!("Zq{which}{number}@mail.example"),
            1 => format!("Zq{which}{number} \"x\\y\n"),
            2 => format!("{{\"Zq{which}{number}\":1}}"),
            _ => format!("Zq{which}{number}é"),
        };
        self.planted.push(format!("Zqone{number}"));
        (make("one"), make("two"))
    }

    /// Two texts as literals, in the same spelling: what is nested in a string is compared as text.
    fn pair(&mut self, one: &str, other: &str) -> (String, String) {
        let (one, other) = (string::encode(one), string::encode(other));
        // Next to a backslash a letter may be part of an escape.
        if self.dice.roll(4) > 0 || one.contains('\\') {
            return (one, other);
        }
        let escape = |text: &str| text.replace('t', "\\u0074").replace('é', "\\u00e9");
        (escape(&one), escape(&other))
    }

    fn value(&mut self, depth: usize) -> (String, String) {
        let same = |text: String| (text.clone(), text);
        match self.dice.roll(if depth == 0 { 5 } else { 9 }) {
            0 => same(self.dice.pick(&["1", "1.0", "-2e9", "123456789012345678901234", "0"]).to_owned()),
            1 => same(self.dice.pick(&["true", "false", "null"]).to_owned()),
            2..=4 => {
                let word = self.dice.pick(&WORDS);
                self.pair(word, word)
            }
            5 => {
                let (one, other) = self.value(depth - 1);
                if one.starts_with(['{', '[']) && self.dice.roll(3) == 0 {
                    let frame = |text: &str| format!("before {{ {text} [after");
                    let (one, other) = (frame(&one), frame(&other));
                    return self.pair(&one, &other);
                }
                self.pair(&one, &other)
            }
            6 => {
                let (one, other) = self.secret();
                let encode =
                    |text: &str| text.bytes().fold(String::new(), |out, byte| out + &format!("%{byte:02X}"));
                let name = self.dice.pick(&["token", "client_secret", "user%5Bpassword%5D"]);
                let form = |value: &str| format!("a=1&{name}={}&b=c+d", encode(value));
                let (one, other) = (form(&one), form(&other));
                let hidden = self.planted.last().unwrap().clone();
                // In the text it is percent-encoded, so what must not survive is that spelling.
                *self.planted.last_mut().unwrap() = encode(&hidden);
                self.pair(&one, &other)
            }
            7 => {
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
        for at in 0..self.dice.roll(5) {
            let comma = if at > 0 { "," } else { "" };
            let secret = self.dice.roll(3) == 0;
            let name = if secret { self.dice.pick(&SECRET_NAMES) } else { self.dice.pick(&NAMES) };
            let (left, right) = if secret {
                let (left, right) = self.secret();
                self.pair(&left, &right)
            } else {
                self.value(depth)
            };
            let (name, _) = self.pair(name, name);
            one += &[comma, &name, " :", &left].concat();
            other += &[comma, &name, " :", &right].concat();
        }
        (one + "}", other + "}")
    }
}

#[test]
fn planted_secrets_go_and_nothing_else_changes() {
    let rules = Arc::new(rules(&[]));
    let mut writer = Writer { dice: Dice(0x9e37_79b9_7f4a_7c15), planted: Vec::new() };
    for round in 0..3000 {
        writer.planted.clear();
        let (inside, other) = writer.object(4);
        let frame =
            |inside: &str| format!(r#"{{"id":1,"method":"tools/call","params":{{"arguments":{inside}}}}}"#);
        let (text, live) = (frame(&inside), frame(&other));
        let mut redactor = Redactor::new(Arc::clone(&rules), 1);
        let redacted = redactor.redact(&text, Side::Server);
        assert_eq!(redacted.is_some(), !writer.planted.is_empty(), "{round}: {text}");
        let recorded = redacted.map_or_else(|| text.clone(), |redacted| redacted.text);

        for secret in &writer.planted {
            assert!(!recorded.contains(secret.as_str()), "{round}: {secret} in {recorded}");
        }
        assert!(Tree::of(&recorded).is_ok(), "{round}: {recorded}");
        assert_eq!(redactor.redact(&recorded, Side::Server), None, "{round}: {recorded}");

        let hits = rules.find(&text);
        assert_eq!(hits.len(), writer.planted.len(), "{round}: {text}");
        // Everything between the hits is in the recorded text, in order, and nothing else but placeholders.
        let (mut from, mut at) = (0, 0);
        for hit in &hits {
            let between = &text[from..hit.span.start];
            assert!(recorded[at..].starts_with(between), "{round}: {between}");
            at += between.len();
            at += recorded[at..].find(['"', '\\', '&']).unwrap();
            from = hit.span.end;
        }
        assert_eq!(text[from..], recorded[at..], "{round}");

        assert_eq!(form(&rules, &recorded), form(&rules, &text), "{round}: {recorded}");
        assert_eq!(form(&rules, &recorded), form(&rules, &live), "{round}: {recorded}");
        let paths = |text: &str| {
            let leaves = rules.treatments(&Tree::of(text).unwrap(), Written::Live).leaves;
            leaves.into_iter().map(|leaf| leaf.0).collect::<Vec<_>>()
        };
        assert_eq!(paths(&recorded), paths(&live), "{round}");
    }
}
