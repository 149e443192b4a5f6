//! Random JSON texts of odd spellings, from a fixed seed, through the message view and the pretty printer.

use mcpreel::jsonrpc::message::{Shape, View};
use mcpreel::jsonrpc::pretty::{indent, packed};

use crate::support::Sandbox;
use crate::support::recording::{Random, is_json, squeezed};

const SPACE: [&str; 8] = ["", "", "", " ", "\t", "\r", "\n", "  \r\n\t "];
const NUMBERS: [&str; 16] = [
    "0",
    "-0",
    "1",
    "1.0",
    "1e2",
    "1E+2",
    "-1e-2",
    "0.1000",
    "1E400",
    "-1E400",
    "1e-400",
    "9007199254740993",
    "123456789012345678901234",
    "-0.0",
    "3.141592653589793238462643383279",
    "10",
];
const PIECES: [&str; 22] = [
    "a",
    " ",
    "id",
    "é",
    "\u{2028}",
    "\u{2029}",
    "\u{85}",
    "\u{feff}",
    "😀",
    "\u{7f}",
    "\\\"",
    "\\\\",
    "\\/",
    "\\n",
    "\\u0000",
    "\\u00e9",
    "\\ud800",
    "\\udfff\\ud800",
    "\\uD83D\\uDE00",
    "[",
    "}",
    ",: ",
];

fn space(random: &mut Random, out: &mut String) {
    out.push_str(random.pick(&SPACE));
}

fn string(random: &mut Random, out: &mut String) {
    out.push('"');
    for _ in 0..random.below(6) {
        out.push_str(random.pick(&PIECES));
    }
    out.push('"');
}

fn value(random: &mut Random, depth: u64, out: &mut String) {
    match random.below(if depth == 0 { 5 } else { 9 }) {
        0 => out.push_str(random.pick(&["null", "true", "false"])),
        1 | 2 => out.push_str(random.pick(&NUMBERS)),
        3 | 4 => string(random, out),
        5 | 6 => {
            let count = random.below(5);
            list(random, out, ['[', ']'], count, |random, out| value(random, depth - 1, out));
        }
        7 => {
            let count = random.below(5);
            list(random, out, ['{', '}'], count, |random, out| {
                string(random, out);
                space(random, out);
                out.push(':');
                space(random, out);
                value(random, depth - 1, out);
            });
        }
        _ => {
            // Deeper than the pretty printer goes.
            let levels = usize::try_from(random.below(40)).unwrap();
            out.push_str(&"[".repeat(levels));
            value(random, depth - 1, out);
            out.push_str(&"]".repeat(levels));
        }
    }
}

fn list(
    random: &mut Random,
    out: &mut String,
    ends: [char; 2],
    count: u64,
    mut each: impl FnMut(&mut Random, &mut String),
) {
    out.push(ends[0]);
    for number in 0..count {
        if number > 0 {
            out.push(',');
        }
        space(random, out);
        each(random, out);
        space(random, out);
    }
    if count == 0 {
        space(random, out);
    }
    out.push(ends[1]);
}

#[test]
fn indenting_and_packing_touch_nothing_but_white_space() {
    let mut random = Random(0x5eed_0001);
    for _ in 0..20_000 {
        let mut text = String::new();
        space(&mut random, &mut text);
        value(&mut random, 5, &mut text);
        space(&mut random, &mut text);
        assert!(is_json(&text), "the test makes bad JSON: {text}");
        let wanted = squeezed(&text);
        assert_eq!(packed(&text), wanted, "{text}");
        let mut pretty = String::new();
        indent(&text, 3, &mut pretty).unwrap_or_else(|error| panic!("{error:?}: {text}"));
        assert_eq!(squeezed(&pretty), wanted, "{text}");
        assert_eq!(packed(&pretty), wanted, "{text}");
        let mut again = String::new();
        indent(&pretty, 3, &mut again).unwrap();
        assert_eq!(again, pretty, "{text}");
        let mut other = String::new();
        indent(&wanted, 3, &mut other).unwrap();
        assert_eq!(other, pretty, "{text}: the layout depends on the white space before");
    }
}

/// The same name with some of its letters as escapes.
fn respelt(random: &mut Random, name: &str) -> String {
    name.chars()
        .map(|letter| match random.below(8) {
            0 => format!("\\u{:04x}", u32::from(letter)),
            1 => format!("\\u{:04X}", u32::from(letter)),
            _ => letter.to_string(),
        })
        .collect()
}

#[test]
fn the_view_finds_every_member_as_it_is_spelt() {
    let mut random = Random(0x5eed_0002);
    for _ in 0..20_000 {
        let mut text = String::new();
        let mut expected: Vec<(&str, String)> = Vec::new();
        space(&mut random, &mut text);
        let before = text.len();
        let count = random.below(8);
        list(&mut random, &mut text, ['{', '}'], count, |random, text| {
            let name =
                random.pick(&["id", "method", "params", "result", "error", "jsonrpc", "ID", "i", "x id"]);
            text.push_str(&format!("\"{}\"", respelt(random, name)));
            space(random, text);
            text.push(':');
            space(random, text);
            let start = text.len();
            if name == "method" && random.below(4) > 0 {
                string(random, text);
            } else {
                value(random, 3, text);
            }
            expected.retain(|(known, _)| *known != name);
            expected.push((name, text[start..].to_owned()));
        });
        let end = text.len();
        space(&mut random, &mut text);

        let view = View::of(&text).unwrap_or_else(|error| panic!("{error:?}: {text}"));
        let member =
            |name: &str| expected.iter().find(|(known, _)| *known == name).map(|(_, text)| text.as_str());
        let method = member("method").filter(|method| method.starts_with('"'));
        assert_eq!(view.whole.of(&text), &text[before..end]);
        for (found, wanted) in [
            (view.id, member("id")),
            (view.method, method),
            (view.params, member("params")),
            (view.result, member("result")),
            (view.error, member("error")),
        ] {
            assert_eq!(found.map(|span| span.of(&text)), wanted, "{text}");
        }
        let answer = ["id", "result", "error"].iter().any(|name| member(name).is_some());
        let shape = match (method, member("id")) {
            (Some(_), Some(_)) => Shape::Request,
            (Some(_), None) => Shape::Notification,
            _ if answer => Shape::Response,
            _ => Shape::Other,
        };
        assert_eq!(view.shape, shape, "{text}");
        assert_eq!(View::at(&format!("{text}]"), before).unwrap(), view);
    }
}

#[test]
fn a_text_with_one_letter_changed_is_json_for_the_view_exactly_when_it_is_json() {
    let mut random = Random(0x5eed_0003);
    let letters: Vec<char> = "{}[]\",:\\ \n01-+.eEntu\u{1}é".chars().collect();
    for _ in 0..20_000 {
        let mut text = String::new();
        value(&mut random, 3, &mut text);
        let mut changed: Vec<char> = text.chars().collect();
        let at = usize::try_from(random.below(changed.len() as u64)).unwrap();
        match random.below(3) {
            0 => drop(changed.remove(at)),
            1 => changed.insert(at, random.pick(&letters)),
            _ => changed[at] = random.pick(&letters),
        }
        let changed: String = changed.into_iter().collect();
        assert_eq!(View::of(&changed).is_ok(), is_json(&changed), "{changed:?}");
    }
}

/// Names that hold what is not to be shown as it is: it is spelt out as JSON spells it.
#[test]
fn what_commands_print_as_json_is_json() {
    let letters = [
        '\u{1b}',
        '\u{7f}',
        '\u{85}',
        '\u{9b}',
        '\u{ad}',
        '\u{600}',
        '\u{200b}',
        '\u{200d}',
        '\u{2028}',
        '\u{2029}',
        '\u{202e}',
        '\u{feff}',
        '\u{fffe}',
        '\u{e0041}',
        '\u{10ffff}',
    ];
    let letters: String = letters.iter().collect();
    let name = serde_json::to_string(&format!("n{letters}x")).unwrap();
    let sandbox = Sandbox::new();
    let call = |id: u8| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":{name},"arguments":{{{name}:{id}}}}}}}"#
        )
    };
    let found =
        r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"password=hunter-2-x"}]}}"#;
    sandbox.file(
        "c.json",
        format!(
            r#"{{"mcpreel":1,"servers":{{{name}:{{"transport":"stdio","command":[{name}]}}}},"labels":{{{name}:{name}}},"messages":[{{"from":"client","payload":{}}},{{"from":"server","payload":{found}}}]}}"#,
            call(1)
        ),
    );
    let miss = call(2);
    sandbox.mcpreel(["serve", "c.json", "--report", "r.jsonl"]).lines(&[&miss]).run().expect(3);
    for (command, code) in [
        (&["report", "r.jsonl", "--format", "json"][..], 3),
        (&["inspect", "c.json", "--format", "json"], 0),
        (&["inspect", "c.json", "--timeline", "--format", "json"], 0),
        (&["inspect", "c.json", "--exchange", "1", "--format", "json"], 0),
        (&["redact", "--check", "c.json", "--format", "json"], 4),
        (&["convert", "c.json", "-o", "-"], 0),
    ] {
        let out = sandbox.mcpreel(command).run().expect(code).stdout();
        let value: serde_json::Value =
            serde_json::from_str(&out).unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let hidden = |letter: char| letter == '\u{202e}' || letter == '\u{1b}';
        assert!(command[0] == "convert" || !out.contains(hidden), "{command:?}");
        assert!(command[0] == "redact" || value.to_string().contains("\u{2028}"), "{command:?}: {value}");
    }
}
