//! A session that was redacted while it was recorded, and then the same session again.

use std::sync::Arc;

use mcpreel::redact::{Redactor, Rules, Side};

use crate::support::Sandbox;
use crate::support::replay::{c, call, s, said};

/// Records calls of the tool `t` with these arguments; the n-th answer says `n<n>`.
fn recorded(sandbox: &Sandbox, calls: &[String]) -> String {
    let rules = Arc::new(Rules::new(true, &[]).unwrap());
    let mut redactor = Redactor::new(Arc::clone(&rules), 1);
    let mut records = Vec::new();
    for (n, arguments) in calls.iter().enumerate() {
        let request = call(&n.to_string(), "t", arguments);
        let mut told = String::new();
        let payload = redactor.redact(&request, Side::Client).map_or(request, |redacted| {
            told = format!(r#""redacted":{},"#, serde_json::to_string(&redacted.rules).unwrap());
            redacted.text
        });
        records.push(format!(r#"{{"from":"client",{told}"payload":{payload}}}"#));
        let answer = said(&n.to_string(), &format!("n{n}"));
        records.push(format!(r#"{{"from":"server","payload":{answer}}}"#));
    }
    let manifest = serde_json::to_string(&rules.manifest(redactor.counts())).unwrap();
    let cassette = format!(
        r#"{{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"mcpreel 0.1.0","servers":{{"demo":{{"transport":"stdio","command":["demo"]}}}},"redaction":{manifest},"messages":[{}]}}"#,
        records.join(",\n")
    );
    sandbox.file("c.json", cassette + "\n");
    records.join("\n")
}

fn owned(calls: &[&str]) -> Vec<String> {
    calls.iter().map(|call| (*call).to_owned()).collect()
}

/// Plays calls, without a word where all are answered, and gives the numbers of the answers; `None` for a miss.
fn played(sandbox: &Sandbox, calls: &[String], options: &[&str]) -> Vec<Option<usize>> {
    let (got, stderr) = play(sandbox, calls, options);
    assert!(got.contains(&None) || stderr.is_empty(), "{stderr}");
    got
}

fn play(sandbox: &Sandbox, calls: &[String], options: &[&str]) -> (Vec<Option<usize>>, String) {
    let mut client = sandbox.serve(options);
    let mut got = Vec::new();
    for (n, arguments) in calls.iter().enumerate() {
        let answer = client.ask(&call(&n.to_string(), "t", arguments));
        let text = answer.split_once(r#""text":"n"#).and_then(|(_, rest)| rest.split_once('"'));
        got.push(text.map(|(number, _)| number.parse().unwrap()));
    }
    let missed = got.contains(&None);
    let ended = client.close(if missed { 3 } else { 0 });
    (got, ended.stderr)
}

#[track_caller]
fn plays_again(calls: &[&str]) -> String {
    let sandbox = Sandbox::new();
    let calls = owned(calls);
    let cassette = recorded(&sandbox, &calls);
    let expected: Vec<_> = (0..calls.len()).map(Some).collect();
    assert_eq!(played(&sandbox, &calls, &[]), expected, "{cassette}");
    cassette
}

#[test]
fn what_was_said_before_its_key_named_it_is_one_queue_with_what_was_said_after() {
    let calls = [
        r#"{"path":"/a/FAKE-value-123"}"#,
        r#"{"token":"FAKE-value-123"}"#,
        r#"{"path":"/a/FAKE-value-123"}"#,
        r#"{"path":"/a/FAKE-value-123"}"#,
    ];
    let cassette = plays_again(&calls);
    assert!(cassette.contains("/a/FAKE-value-123") && cassette.contains("/a/REDACTED-1"), "{cassette}");
    let sandbox = Sandbox::new();
    recorded(&sandbox, &owned(&calls));
    // Once too often is too often.
    let more = [0, 2, 2, 2].map(|at: usize| calls[at].to_owned());
    assert_eq!(played(&sandbox, &more, &[]), [Some(0), Some(2), Some(3), None]);
    // The first recorded one stays the first where nothing is used up.
    assert_eq!(played(&sandbox, &more, &["--ordering", "any"]), [Some(0); 4]);
}

#[test]
fn a_secret_that_holds_another_find_is_one_placeholder_where_it_stands_again() {
    for (calls, stored) in [
        (
            vec![r#"{"db_secret":"host=10.1.2.2 db=1"}"#, r#"{"q":"host=10.1.2.2 db=1"}"#],
            r#"{"q":"REDACTED-1"}"#,
        ),
        (
            vec![r#"{"credential":"ann@corp.io/key-77"}"#, r#"{"q":"is ann@corp.io/key-77 ok?"}"#],
            r#"{"q":"is REDACTED-1 ok?"}"#,
        ),
        (
            vec![
                r#"{"db_password_dsn":"postgres://u:p4ss@10.1.2.3:5432/db"}"#,
                r#"{"dsn":"postgres://u:p4ss@10.1.2.3:5432/db"}"#,
            ],
            r#"{"dsn":"https://redacted.invalid/1"}"#,
        ),
        (
            vec![
                r#"{"hook_secret":"https://h.io/p?token=abc123def456&a=1"}"#,
                r#"{"url":"https://h.io/p?token=abc123def456&a=1"}"#,
                r#"{"q":"post to https://h.io/p?token=abc123def456&a=1 now"}"#,
            ],
            r#"{"q":"post to https://redacted.invalid/1 now"}"#,
        ),
        (
            vec![
                r#"{"token":"{\"password\":\"x-1\",\"k\":1}"}"#,
                r#"{"q":"as {\"password\":\"x-1\",\"k\":1} was"}"#,
            ],
            r#"{"q":"as REDACTED-1 was"}"#,
        ),
        (
            vec![
                r#"{"password":"https://h.io/p?token=abc123def456&a=1"}"#,
                r#"{"q":"password=https://h.io/p?token=abc123def456&a=1"}"#,
            ],
            r#"{"q":"REDACTED-2"}"#,
        ),
        (
            vec![r#"{"token":"start 10.1.2.2","q":"start 10.1.2.2"}"#],
            r#"{"token":"REDACTED-1","q":"REDACTED-1"}"#,
        ),
    ] {
        let cassette = plays_again(&calls);
        assert!(cassette.contains(stored), "{stored}: {cassette}");
    }
}

#[test]
fn what_is_alike_without_a_placeholder_goes_first() {
    for (calls, live, expected) in [
        (
            vec![r#"{"user":"x","password":"hunter2"}"#, r#"{"user":"x","password":""}"#],
            vec![r#"{"user":"x","password":""}"#, r#"{"user":"x","password":"other"}"#],
            [1, 0],
        ),
        (vec![r#"{"token":"a"}"#, "{}"], vec!["{}", r#"{"token":"zz"}"#], [1, 0]),
        (vec!["{}", r#"{"token":"a"}"#], vec![r#"{"token":"zz"}"#, "{}"], [1, 0]),
        (
            vec![r#"{"token":"a"}"#, r#"{"token":null}"#],
            vec![r#"{"token":null}"#, r#"{"token":"a"}"#],
            [1, 0],
        ),
        (vec![r#"{"token":""}"#, r#"{"token":null}"#], vec![r#"{"token":null}"#, r#"{"token":"a"}"#], [1, 0]),
        (vec![r#"{"token":"a"}"#, r#"{"token":[]}"#], vec![r#"{"token":[]}"#, r#"{"token":"a"}"#], [1, 0]),
        (
            vec![r#"{"token":["a"]}"#, r#"{"token":[""]}"#],
            vec![r#"{"token":[""]}"#, r#"{"token":["b"]}"#],
            [1, 0],
        ),
        (
            vec![r#"{"q":"password=abc&x=1"}"#, r#"{"q":"password=&x=1"}"#],
            vec![r#"{"q":"password=&x=1"}"#, r#"{"q":"password=z&x=1"}"#],
            [1, 0],
        ),
        // Where there is nothing nearer, any will do.
        (vec![r#"{"token":"a"}"#, r#"{"token":""}"#], vec!["{}", "{}"], [1, 0]),
    ] {
        let sandbox = Sandbox::new();
        let cassette = recorded(&sandbox, &owned(&calls));
        assert_eq!(played(&sandbox, &owned(&live), &[]), expected.map(Some), "{cassette}");
        let any = played(&sandbox, &owned(&live), &["--ordering", "any"]);
        assert_eq!(any.first(), Some(&Some(expected[0])), "{cassette}");
    }
}

/// Xorshift.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % u64::try_from(sides).unwrap()).unwrap()
    }

    fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.roll(list.len())]
    }

    /// A value, as JSON: one of few, so that they come again, alone or inside one another.
    fn value(&mut self) -> serde_json::Value {
        use serde_json::{Value, json};
        let secret = self.pick(&[
            "FAKE-value-123",
            "FAKE-value-123/ann@corp.io",
            "host=10.1.2.2 db=1",
            "10.1.2.2",
            "ann@corp.io",
            "hunter2",
            "https://u:p4ss@h.io/p?token=abc123def456&a=1",
            "abc123def456",
            "plain",
            "user=ann&host=10.1.2.2 db=1",
            "say \"FAKE-value-123\", 2",
            "",
        ]);
        match self.roll(20) {
            0 => Value::Null,
            1 => json!([]),
            2 => json!(""),
            3 => json!(format!("start {secret}")),
            4 => json!(format!("{secret} end")),
            5 => json!(format!("a {secret} b")),
            6 => json!(json!({"password": secret, "k": 1}).to_string()),
            7 => json!(format!("password={secret}")),
            12 => json!(format!("a=1&password={secret}&b={secret}")),
            13 => json!(format!("{{\"password\":\"{secret}\"}} {secret} {{\"pin\":\"{secret}\"}}")),
            14 if !secret.contains("token") => json!({secret: 1, "z": 2, "a": 3}),
            15 => json!(["--password", secret, secret]),
            16 => json!(format!("--password {secret} password: {secret}")),
            8 => json!([secret, "x"]),
            9 => json!({"token": secret}),
            _ => json!(secret),
        }
    }

    /// The arguments of a call; `n` is there to be told by, or not.
    fn arguments(&mut self) -> serde_json::Value {
        let mut arguments = serde_json::Map::new();
        for _ in 0..=self.roll(2) {
            let name = self.pick(&["q", "text", "token", "password", "db_secret"]);
            arguments.insert(name.to_owned(), self.value());
        }
        if self.roll(2) == 0 {
            arguments.insert("n".to_owned(), self.roll(3).into());
        }
        arguments.into()
    }
}

/// What of the arguments no rule can touch.
fn untouched(arguments: &str) -> Option<serde_json::Value> {
    serde_json::from_str::<serde_json::Value>(arguments).unwrap().get("n").cloned()
}

#[test]
fn random_sessions_replay_as_they_were_recorded() {
    for seed in [0x5eed_1e55, 0x0dd_ba11, 0xca55_e77e] {
        let mut dice = Dice(seed);
        for _ in 0..40 {
            let sandbox = Sandbox::new();
            let calls: Vec<String> = (0..2 + dice.roll(7)).map(|_| dice.arguments().to_string()).collect();
            let cassette = recorded(&sandbox, &calls);
            let (got, _) = play(&sandbox, &calls, &[]);
            for (own, got) in got.iter().enumerate() {
                let got = got.unwrap_or_else(|| panic!("call {own} missed\n{calls:#?}\n{cassette}"));
                let same = calls[own] == calls[got] || untouched(&calls[own]) == untouched(&calls[got]);
                assert!(same, "call {own} got the answer of {got}\n{calls:#?}\n{cassette}");
            }
        }
    }
}

#[test]
fn what_a_placeholder_is_read_as_is_not_what_it_stands_for() {
    let secret = r#"{"token":"host=10.1.2.2 db=1"}"#;
    // A call, what is stored of it, and one that differs from it outside of the placeholder.
    for (call, stored, differs) in [
        (
            r#"{"q":"password=host=10.1.2.2 db=1"}"#,
            r#"{"q":"password=REDACTED-1"}"#,
            r#"{"q":"passwort=host=10.1.2.2 db=1"}"#,
        ),
        (
            r#"{"q":"a=1&password=host=10.1.2.2 db=1"}"#,
            r#"{"q":"a=1&password=REDACTED-1"}"#,
            r#"{"q":"a=2&password=host=10.1.2.2 db=1"}"#,
        ),
        (
            r#"{"q":"{\"password\":\"host=10.1.2.2 db=1\"} password=host=10.1.2.2 db=1"}"#,
            r#"{"q":"{\"password\":\"REDACTED-1\"} password=REDACTED-1"}"#,
            r#"{"q":"{\"password\":\"host=10.1.2.2 db=1\",\"n\":1} password=host=10.1.2.2 db=1"}"#,
        ),
        (
            r#"{"host=10.1.2.2 db=1":"x","z":2,"a":3}"#,
            r#"{"REDACTED-1":"x","z":2,"a":3}"#,
            r#"{"host=10.1.2.2 db=1":"x","z":2,"a":4}"#,
        ),
    ] {
        let cassette = plays_again(&[secret, call]);
        assert!(cassette.contains(stored), "{stored}: {cassette}");
        let sandbox = Sandbox::new();
        let calls = owned(&[secret, call]);
        recorded(&sandbox, &calls);
        assert_eq!(played(&sandbox, &calls, &["--ordering", "strict"]), [Some(0), Some(1)], "{call}");
        assert_eq!(play(&sandbox, &owned(&[secret, differs]), &[]).0, [Some(0), None], "{differs}");
    }
}

#[test]
fn a_text_that_would_go_over_the_edge_of_a_field_is_a_miss() {
    let sandbox = Sandbox::new();
    recorded(
        &sandbox,
        &owned(&[r#"{"q":"password=hunter2x&n=1"}"#, r#"{"q":"{\"password\":\"x-1\",\"n\":1} a@b.cd"}"#]),
    );
    for (live, expected) in [
        (r#"{"q":"password=x&n=1"}"#, Some(0)),
        (r#"{"q":"password=x&m=2&n=1"}"#, None),
        (r#"{"q":"{\"password\":\"y\",\"n\":1} c@d.ef"}"#, Some(1)),
        (r#"{"q":"{\"password\":\"y\",\"m\":2,\"n\":1} c@d.ef"}"#, None),
    ] {
        assert_eq!(play(&sandbox, &owned(&[live]), &[]).0, [expected], "{live}");
    }
}

#[test]
fn a_class_of_values_and_a_placeholder_stand_for_the_same_text() {
    let sandbox = Sandbox::new();
    let calls = owned(&[
        r#"{"token":"FAKE-value-123"}"#,
        r#"{"path":"/a/FAKE-value-123"}"#,
        r#"{"path":"FAKE-value-123"}"#,
    ]);
    recorded(&sandbox, &calls);
    let class = ["--ignore-value", "^/|^FAKE-value-123$"];
    assert_eq!(played(&sandbox, &calls, &class), [Some(0), Some(1), Some(2)]);
}

/// Who has a dummy in the place of a secret has a word there. More than that is another request.
#[test]
fn a_placeholder_in_text_stands_for_a_word_or_for_what_is_known() {
    for (call, live, answer) in [
        (
            r#"{"q":"deploy --token abc123def456 --env staging"}"#,
            r#"{"q":"deploy --token x --env staging"}"#,
            true,
        ),
        (
            r#"{"q":"deploy --token abc123def456 --env staging"}"#,
            r#"{"q":"deploy --token abc123def456 --env prod --force --env staging"}"#,
            false,
        ),
        (r#"{"q":"ping 10.1.2.3 now"}"#, r#"{"q":"ping localhost now"}"#, true),
        (r#"{"q":"ping 10.1.2.3 now"}"#, r#"{"q":"ping localhost; rm -rf / now"}"#, false),
        (
            r#"{"q":"DELETE FROM u WHERE email='ann@corp.com' AND x=1"}"#,
            r#"{"q":"DELETE FROM u WHERE email='' OR 1=1 OR email='' AND x=1"}"#,
            false,
        ),
        (r#"{"q":"mail ann@corp.com"}"#, r#"{"q":"mail "}"#, true),
    ] {
        let sandbox = Sandbox::new();
        recorded(&sandbox, &owned(&[call]));
        for options in [&[][..], &["--ordering", "strict"], &["--ordering", "any"]] {
            let got = play(&sandbox, &owned(&[live]), options).0;
            assert_eq!(got, [answer.then_some(0)], "{live} {options:?}");
        }
    }
}

#[test]
fn what_leaves_nothing_or_touches_other_text_matches_the_same_request() {
    let pack = |strategy: &str| {
        format!(
            "version = 1\nid = \"team\"\n[[rules]]\nid = \"r\"\nlabel = \"L\"\nregex = '[0-9]{{2}}'\n{strategy}\n"
        )
    };
    let (empty, mask) = (pack("strategy = \"replace\"\nreplacement = \"\""), pack("strategy = \"mask\""));
    for (option, pack, recorded, written, same, other) in [
        (&["--redact", "pin="][..], "", "pin=1234 x", "pin= x", "pin=99 x", "pin=1234 y"),
        (
            &["--redact", "pin="],
            "",
            "pin=1234 token=abc x",
            "pin= token=REDACTED-1 x",
            "pin=9 token=d x",
            "pin=9 token=d y",
        ),
        (&["--pii-pack", "p.toml"], &empty, "no 12 from a", "no  from a", "no 34 from a", "no 34 from b"),
        (
            &["--pii-pack", "p.toml"],
            &mask,
            "no 12345 from",
            "no ••••5 from",
            "no 67895 from",
            "no 12345 frxm",
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("p.toml", pack);
        let ask = |text: &str| call("1", "t", &format!(r#"{{"q":"{text}"}}"#));
        sandbox.tape_with("", &[c(ask(recorded)), s(said("1", "x"))]);
        sandbox.mcpreel([&["redact", "--in-place", "c.json"], option].concat()).run().expect(0);
        assert!(
            sandbox.read("c.json").contains(&format!("\"q\": \"{written}\"")),
            "{}",
            sandbox.read("c.json")
        );
        for live in [recorded, same] {
            let mut client = sandbox.serve(&[]);
            client.expect(&ask(live), &said("1", "x"));
            client.close(0);
        }
        let mut client = sandbox.serve(&[]);
        client.fails(&ask(other), -31001);
        client.close(3);
    }
}
