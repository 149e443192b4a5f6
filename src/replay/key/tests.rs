//! Keys of random requests: spelt anew they stay the same, changed in one place they do not.

use super::*;

/// Xorshift: small, and the same on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).unwrap()).unwrap()
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())]
    }
}

#[derive(Clone, Debug)]
enum Json {
    Literal(&'static str),
    /// Sign, digits without zeros at either end, power of ten of the last one.
    Number(bool, u64, i32),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

const CHARS: [char; 18] =
    ['a', 'b', 'Z', '0', ' ', '/', '"', '\\', '\n', '\t', '\u{1}', 'é', 'ß', '\u{2028}', '😀', '~', '*', '{'];

fn text(random: &mut Random) -> String {
    (0..random.below(6)).map(|_| random.pick(&CHARS)).collect()
}

fn number(random: &mut Random) -> Json {
    let digits = random.next() % 100_000 * 10 + 1 + random.next() % 9;
    Json::Number(random.below(4) == 0, digits, i32::try_from(random.below(13)).unwrap() - 6)
}

fn json(random: &mut Random, depth: usize) -> Json {
    match random.below(if depth == 0 { 4 } else { 8 }) {
        0 => Json::Literal(random.pick(&["true", "false", "null"])),
        1 | 2 => number(random),
        3 => Json::Text(text(random)),
        4 | 5 => Json::List((0..random.below(4)).map(|_| json(random, depth - 1)).collect()),
        _ => object(random, depth),
    }
}

fn object(random: &mut Random, depth: usize) -> Json {
    let count = random.below(5);
    let members = (0..count).map(|n| (format!("{}{n}", text(random)), json(random, depth - 1)));
    Json::Object(members.collect())
}

fn leaves(value: &Json) -> usize {
    match value {
        Json::List(items) if !items.is_empty() => items.iter().map(leaves).sum(),
        Json::Object(members) if !members.is_empty() => members.iter().map(|(_, value)| leaves(value)).sum(),
        _ => 1,
    }
}

/// Changes the n-th leaf to a value that is not equal to it.
fn change(value: &mut Json, n: &mut usize, random: &mut Random) {
    match value {
        Json::List(items) if !items.is_empty() => items.iter_mut().for_each(|item| change(item, n, random)),
        Json::Object(members) if !members.is_empty() => {
            members.iter_mut().for_each(|(_, value)| change(value, n, random));
        }
        leaf if *n == 0 => {
            *n = usize::MAX;
            *leaf = match leaf {
                Json::Literal("true" | "null") => Json::Literal("false"),
                Json::Literal(_) => Json::Literal("null"),
                Json::Number(minus, digits, power) => match random.below(4) {
                    0 => Json::Number(!*minus, *digits, *power),
                    1 => Json::Number(*minus, *digits, *power + 1),
                    2 => Json::Text(spell_number(*minus, *digits, *power, &mut Random(1))),
                    _ => Json::Number(*minus, *digits * 10 + 1, *power),
                },
                Json::Text(text) => Json::Text(format!("{text}x")),
                Json::List(_) => Json::Object(Vec::new()),
                Json::Object(_) => Json::List(Vec::new()),
            };
        }
        _ => *n = n.wrapping_sub(1),
    }
}

fn spell_number(minus: bool, digits: u64, power: i32, random: &mut Random) -> String {
    let sign = if minus { "-" } else { "" };
    // The point wanders, and the exponent makes up for it.
    let zeros = random.below(4);
    let shifted = format!("{digits}{}", "0".repeat(zeros));
    let power = power - i32::try_from(zeros).unwrap();
    let places = random.below(shifted.len());
    let (whole, fraction) = shifted.split_at(shifted.len() - places);
    let power = power + i32::try_from(places).unwrap();
    let fraction = if fraction.is_empty() { String::new() } else { format!(".{fraction}") };
    let exponent = match power {
        0 if random.below(2) == 0 => String::new(),
        _ => format!(
            "{}{}{}",
            random.pick(&["e", "E"]),
            if power < 0 { "-" } else { random.pick(&["", "+"]) },
            power.abs()
        ),
    };
    format!("{sign}{whole}{fraction}{exponent}")
}

fn spell_text(text: &str, random: &mut Random) -> String {
    let mut out = String::from("\"");
    for char in text.chars() {
        let short = match char {
            '"' => Some("\\\""),
            '\\' => Some("\\\\"),
            '/' => Some("\\/"),
            '\n' => Some("\\n"),
            '\t' => Some("\\t"),
            _ => None,
        };
        let must = char < ' ' || matches!(char, '"' | '\\');
        match (random.below(3), short) {
            (0, _) => {
                for unit in char.encode_utf16(&mut [0; 2]) {
                    out += &if random.below(2) == 0 {
                        format!("\\u{unit:04x}")
                    } else {
                        format!("\\u{unit:04X}")
                    };
                }
            }
            (_, Some(short)) if must || random.below(2) == 0 => out += short,
            (_, None) if must => out += &format!("\\u{:04x}", u32::from(char)),
            _ => out.push(char),
        }
    }
    out + "\""
}

fn spell(value: &Json, random: &mut Random) -> String {
    let space = |random: &mut Random| random.pick(&["", "", " ", "\n\t", "\r\n"]);
    match value {
        Json::Literal(word) => (*word).to_owned(),
        Json::Number(minus, digits, power) => spell_number(*minus, *digits, *power, random),
        Json::Text(text) => spell_text(text, random),
        Json::List(items) => {
            let items: Vec<String> = items
                .iter()
                .map(|item| format!("{}{}{}", space(random), spell(item, random), space(random)))
                .collect();
            format!("[{}{}]", items.join(","), space(random))
        }
        Json::Object(members) => {
            let mut members: Vec<String> = members
                .iter()
                .map(|(name, value)| {
                    format!(
                        "{}{}{}:{}{}",
                        space(random),
                        spell_text(name, random),
                        space(random),
                        spell(value, random),
                        space(random)
                    )
                })
                .collect();
            for at in (1..members.len()).rev() {
                members.swap(at, random.below(at + 1));
            }
            format!("{{{}{}}}", members.join(","), space(random))
        }
    }
}

fn rules(ignore: &[&str], classes: &[&str], redaction: redact::Rules) -> Rules {
    let owned = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    Rules::new(&owned(ignore), &owned(classes), Arc::new(redaction)).unwrap()
}

fn plain() -> Rules {
    rules(&[], &[], redact::Rules::new(false, &[]).unwrap())
}

fn key(message: &str, rules: &Rules) -> Vec<u8> {
    let view = View::of(message).unwrap_or_else(|error| panic!("{error:?}: {message}"));
    of(message, &view, mcp::era(message, &view), rules, Written::Live).bytes
}

fn request(arguments: &Json, random: &mut Random) -> String {
    let id = random.pick(&["1", "\"x\"", "0"]);
    let meta = random.pick(&["", r#","_meta":{"progressToken":7}"#, r#","_meta":{}"#]);
    let arguments = spell(arguments, random);
    format!(
        "{{\"id\":{id},\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"arguments\":{arguments}{meta}}}}}"
    )
}

#[test]
fn spelt_anew_a_request_keeps_its_key_and_changed_in_one_leaf_it_does_not() {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let rules = plain();
    for _ in 0..2_000 {
        let arguments = object(&mut random, 4);
        let (one, other) = (request(&arguments, &mut random), request(&arguments, &mut random));
        assert_eq!(key(&one, &rules), key(&other, &rules), "{one}\n{other}");
        if matches!(&arguments, Json::Object(members) if members.is_empty()) {
            continue;
        }
        let mut changed = arguments.clone();
        let mut leaf = random.below(leaves(&arguments));
        change(&mut changed, &mut leaf, &mut random);
        let changed = request(&changed, &mut random);
        assert_ne!(key(&one, &rules), key(&changed, &rules), "{one}\n{changed}");
    }
}

#[test]
fn a_leaf_that_is_ignored_or_redacted_may_be_anything() {
    let mut random = Random(0x0dd_ba11);
    let ignoring = rules(
        &["/params/arguments/at", "/params/arguments/list/*/at"],
        &[],
        redact::Rules::new(true, &[]).unwrap(),
    );
    for _ in 0..500 {
        let Json::Object(rest) = object(&mut random, 2) else { unreachable!() };
        let build = |random: &mut Random| {
            let mut members = rest.clone();
            let item = Json::Object(vec![
                ("at".to_owned(), json(random, 1)),
                ("v".to_owned(), Json::Literal("true")),
            ]);
            members.push(("at".to_owned(), json(random, 2)));
            members.push(("list".to_owned(), Json::List(vec![item])));
            members.push(("api_key".to_owned(), Json::Text(text(random))));
            request(&Json::Object(members), random)
        };
        let (one, other) = (build(&mut random), build(&mut random));
        assert_eq!(key(&one, &ignoring), key(&other, &ignoring), "{one}\n{other}");
    }
}

#[test]
fn what_takes_part_and_what_does_not() {
    let modern = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}"#;
    for (method, one, other, same) in [
        ("tools/list", "{}", r#"{"cursor":null}"#, true),
        ("tools/list", "{}", r#"{"cursor":""}"#, false),
        ("tools/list", r#"{"cursor":"a"}"#, r#"{"cursor":"b"}"#, false),
        ("tools/list", "{}", r#"{"x":1}"#, false),
        ("initialize", r#"{"protocolVersion":"1"}"#, r#"{"capabilities":{}}"#, true),
        ("tools/call", r#"{"name":"t"}"#, r#"{"name":"t","arguments":{}}"#, true),
        ("tools/call", r#"{"name":"t"}"#, r#"{"name":"u"}"#, false),
        ("tools/call", r#"{"name":"t"}"#, r#"{"name":"t","task":{}}"#, false),
        ("tools/call", r#"{"name":"t","task":{"ttl":1}}"#, r#"{"name":"t","task":{"ttl":2}}"#, true),
        ("tools/call", r#"{"name":"t"}"#, r#"{"name":"t","requestState":"s"}"#, false),
        ("tools/call", r#"{"name":"t","requestState":"s"}"#, r#"{"name":"t","requestState":"r"}"#, false),
        (
            "tools/call",
            r#"{"name":"t","inputResponses":{"a":1}}"#,
            r#"{"name":"t","inputResponses":{"a":2}}"#,
            true,
        ),
        (
            "tools/call",
            r#"{"name":"t","arguments":{"_meta":1}}"#,
            r#"{"name":"t","arguments":{"_meta":2}}"#,
            false,
        ),
        ("resources/read", r#"{"uri":"a:"}"#, r#"{"uri":"b:"}"#, false),
        ("prompts/get", r#"{"name":"p","arguments":{}}"#, r#"{"name":"p"}"#, true),
        (
            "completion/complete",
            r#"{"ref":{"type":"ref/prompt","name":"p"},"argument":{"name":"a","value":"b"}}"#,
            r#"{"argument":{"value":"b","name":"a"},"ref":{"name":"p","type":"ref/prompt"}}"#,
            true,
        ),
        (
            "subscriptions/listen",
            r#"{"notifications":{"toolsListChanged":true,"resourceSubscriptions":["a:","b:"]}}"#,
            r#"{"notifications":{"resourceSubscriptions":["b:","a:","b:"],"promptsListChanged":false,"toolsListChanged":true,"taskIds":[]}}"#,
            true,
        ),
        (
            "subscriptions/listen",
            r#"{"notifications":{"resourceSubscriptions":["a:"]}}"#,
            r#"{"notifications":{"taskIds":["a:"]}}"#,
            false,
        ),
    ] {
        let message = |params: &str| format!("{{\"id\":1,\"method\":\"{method}\",\"params\":{params}}}");
        let rules = plain();
        assert_eq!(
            key(&message(one), &rules) == key(&message(other), &rules),
            same,
            "{method} {one} {other}"
        );
        // The era takes part, what else is in `_meta` does not.
        let as_modern = message(&one.replacen('{', &format!("{{{modern},"), 1).replace(",}", "}"));
        assert_ne!(key(&message(one), &rules), key(&as_modern, &rules), "{method} {one}");
    }
}

#[test]
fn classes_are_told_apart() {
    let rules = rules(&[], &["uuid", "timestamp"], redact::Rules::new(false, &[]).unwrap());
    let message = |value: &str| {
        format!(
            "{{\"id\":1,\"method\":\"tools/call\",\"params\":{{\"name\":\"t\",\"arguments\":{{\"v\":{value}}}}}}}"
        )
    };
    let [uuid, other_uuid, time, text] = [
        "\"6f9619ff-8b86-d011-b42d-00cf4fc964ff\"",
        "\"00000000-8b86-d011-b42d-00cf4fc964ff\"",
        "\"2026-01-02T03:04:05Z\"",
        // What stands for a class in the key is no string that a client could send.
        "\"~0\"",
    ]
    .map(|value| key(&message(value), &rules));
    assert_eq!(uuid, other_uuid);
    assert!(uuid != time && uuid != text && time != text);
}

#[test]
fn very_many_values_are_found_in_no_quadratic_time() {
    let count = 100_000;
    let secrets = (0..count).map(|n| (format!("*{n}"), format!("v {n}"))).collect();
    let live = Key { secrets, ..Key::default() };
    let values = live.values();
    assert!((0..count).all(|n| values.get(&format!("*{n}")) == Some(&format!("v {n}"))));
    assert_eq!(values.get("*x"), None);
    // Blanks are plausible where redaction finds the value.
    let form = |value: &dyn Fn(usize) -> String| (0..count).map(value).collect::<Vec<_>>().join("\n");
    let bytes = form(&|_| "*".to_owned());
    let bytes = bytes.bytes().map(|byte| if byte == b'*' { redact::ANY } else { byte });
    let recorded = Key { bytes: bytes.collect(), ..Key::default() };
    let live = Key { bytes: form(&|n| format!("v {n}")).into_bytes(), ..live };
    assert!(recorded.stands_for(&live, &|_| false).is_some());
}

#[test]
fn a_session_that_saw_very_many_values_agrees_in_no_quadratic_time() {
    let mut session = crate::replay::session::Session::new(Box::new(|_| 0));
    let (process, count) = ((0, 0), 50_000);
    for n in 0..count {
        let (placeholder, live) = (format!("REDACTED-{n}"), format!("v {n}"));
        assert!(session.agrees(process, &placeholder, &live));
        session.saw(process, &placeholder, &live);
    }
    assert!((0..count).all(|n| session.has_seen(&format!("v {n}"))));
    assert!(session.agrees(process, "REDACTED-7", "v 7") && !session.agrees(process, "REDACTED-7", "v 8"));
    assert!(!session.agrees(process, "REDACTED-x", "v 8") && session.agrees((0, 1), "REDACTED-7", "v 8"));
}
