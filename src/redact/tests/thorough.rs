//! What the filters leave out is nothing: with them and without them, random texts are redacted alike.

use super::super::look::THOROUGH;
use super::random::Dice;
use super::*;
use crate::jsonrpc::string;

/// What secrets, names, and what stands around them are made of.
const PIECES: [&str; 92] = [
    "password",
    "PassWord",
    "passwd",
    "token",
    "maxTokens",
    "progressToken",
    "api_key",
    "api-key",
    "API Key",
    "apikey",
    "api",
    "key",
    "secret",
    "clientSecret",
    "authorization",
    "credential",
    "private",
    "private_key",
    "--token",
    "name",
    "value",
    "cre",
    "cret",
    "created_at",
    "monkey",
    ":",
    "=",
    ": ",
    " = ",
    ",",
    "\"",
    "'",
    "\\",
    "[",
    "]",
    "{",
    "}",
    "&",
    "?",
    "%",
    "%20",
    "%70",
    "%3A",
    "%3d",
    "%26",
    "+",
    "-",
    "_",
    ".",
    "@",
    "/",
    "://",
    "::",
    " ",
    "\n",
    "\t",
    "é",
    "\u{212a}",
    "\u{0}",
    "0",
    "1",
    "12",
    "255",
    "123",
    "0000",
    "4012888888881881",
    "4012 8888 8888 1881",
    "45",
    "6789",
    "DE89370400440532013000",
    "DE89 3704",
    "AB",
    "ff",
    "db8",
    "2001",
    "fe80",
    "sk-",
    "ghp_",
    "aB3dE5fG7hJ9kL1mN2pQ4rS6tU8v",
    "AKIAZQZQZQZQZQZQ1234",
    "Bearer ",
    "basic ",
    "eyJhbGciOiJIUzI1",
    "hunter2-long",
    "https",
    "h.example",
    "zq",
    "cGFzc3dvcmQ9aHVudGVyMj8/",
    "emFAbWFpbC5leGFtcGxl",
    "xox",
    "b-",
    "true",
];

/// Whole secrets: they are met far more often than by chance.
const SECRETS: [&str; 33] = [
    "za@mail.example",
    "+14155550123",
    "123-45-6789",
    "8.8.4.4",
    "2001:db8::ff00:42:8329",
    "2001:db8:1:2:3:4:5:6",
    "2001:db8:1:2:3:4:8.8.4.4",
    "fe80::1",
    "abcd:beef::",
    "4012 8888 8888 1881",
    "4012888888881881",
    "DE89370400440532013000",
    "password=hunter2",
    "\"token\": \"hunter2-long\"",
    "https://zq:pw@h.example/x?api_key=1",
    "{\"name\":\"password\",\"value\":\"hunter2-long\"}",
    "eyJhbGciOiJIUzI1.eyJzdWIiOiIx.sig",
    "<x:password>hunter</x:password>",
    "<add key='my-token' value=\"hunter\"/>",
    "<name>apiKey</name> <value>hunter</value>",
    "\n| `password` | hunter |\n",
    "\nNAME       VALUE\nPASSWORD   hunter\n",
    "machine h\n  login u\n  password hunter\n",
    "'password'          => 'hunter'",
    "token: |\n      hunter\n",
    "glpat-aB3dE5fG7hJ9kL1mN2pQ",
    "npm_aB3dE5fG7hJ9kL1mN2pQ4rS6tU8vW0xY2zA4",
    "sk_live_aB3dE5fG7hJ9kL1mN2pQ",
    "BASIC enE6aHVudGVyMi1sb25n",
    "https://h.example/x?next=https%3A%2F%2Fh.example%2F%3Faccess_token%3Dhunter2",
    "a%26access_token%3Dhunter2",
    "{\"credentials\":{\"a\":[\"hunter2-long\",",
    "\"tokens\":[\"hunter2-long\"]",
];

fn text(dice: &mut Dice) -> String {
    let mut text = String::new();
    for _ in 0..=dice.roll(10) {
        match dice.roll(8) {
            0 => text += dice.pick(&SECRETS),
            1 => text += &" lorem ipsum".repeat(dice.roll(9)),
            2 => text
                .extend((0..dice.roll(20)).map(|_| char::from(b'0' + u8::try_from(dice.roll(11)).unwrap()))),
            _ => text += dice.pick(&PIECES),
        }
    }
    text
}

/// The text as a literal, some of its letters as escapes.
fn literal(dice: &mut Dice, text: &str) -> String {
    let literal = string::encode(text);
    if dice.roll(3) > 0 {
        return literal;
    }
    let mut out = String::new();
    let mut escaped = false;
    for (at, char) in literal.char_indices() {
        let inside = at > 0 && at + 1 < literal.len();
        if inside && !escaped && char != '\\' && dice.roll(8) == 0 {
            char.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out += &format!("\\u{unit:04x}"));
        } else {
            out += if char == '/' && !escaped && dice.roll(2) == 0 { "\\" } else { "" };
            out.push(char);
        }
        escaped = char == '\\' && !escaped;
    }
    out
}

fn value(dice: &mut Dice, depth: usize) -> String {
    match dice.roll(if depth == 0 { 2 } else { 6 }) {
        0 => dice.pick(&["1", "-2.5e3", "true", "null", "4012888888881881"]).to_owned(),
        1 | 2 => {
            let text = text(dice);
            literal(dice, &text)
        }
        3 => {
            let inside = value(dice, depth - 1);
            literal(dice, &inside)
        }
        4 => {
            let list: Vec<String> = (0..dice.roll(3)).map(|_| value(dice, depth - 1)).collect();
            format!("[{}]", list.join(", "))
        }
        _ => {
            let member = |dice: &mut Dice| {
                let name = if dice.roll(2) == 0 { dice.pick(&PIECES).to_owned() } else { text(dice) };
                format!("{}:{}", literal(dice, &name), value(dice, depth - 1))
            };
            let list: Vec<String> = (0..dice.roll(4)).map(|_| member(dice)).collect();
            format!("{{{}}}", list.join(","))
        }
    }
}

/// What becomes of a text with the filters, and without.
fn both(rules: &Arc<Rules>, redact: impl Fn(&mut Redactor) -> Option<String>) -> [Option<String>; 2] {
    [false, true].map(|thorough| {
        THOROUGH.set(thorough);
        let redacted = redact(&mut Redactor::new(Arc::clone(rules), 1));
        THOROUGH.set(false);
        redacted
    })
}

#[test]
fn filters_leave_nothing_out() {
    let mut dice = Dice(0x2545_f491_4f6c_dd1d);
    let rules = [rules(&[]), rules(&["pw", "*pass?ort*", "/params/arguments/q"])].map(Arc::new);
    let mut redacted = 0;
    for round in 0..12_000 {
        let rules = &rules[round % 2];
        let text = text(&mut dice);
        let [fast, slow] = both(rules, |redactor| Some(redactor.redact_plain(&text, Side::Server)?.text));
        assert_eq!(fast, slow, "{round}: {text:?}");
        let inside = value(&mut dice, 3);
        let message = format!(r#"{{"method":"tools/call","params":{{"arguments":{inside}}}}}"#);
        let [fast, slow] = both(rules, |redactor| Some(redactor.redact(&message, Side::Client)?.text));
        assert_eq!(fast, slow, "{round}: {message}");
        redacted += usize::from(fast.is_some());
    }
    // The texts are neither all clean nor all full.
    assert!((2000..11_000).contains(&redacted), "{redacted}");
}
