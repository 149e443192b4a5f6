//! Five hundred secrets of all kinds in all places that a session has, over both transports: none of them is in any file
//! that any command writes, whole, killed or changed afterwards, nor in what the commands say; and what stands right
//! beside each of them is still there.

use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use regex::bytes::Regex;
use serde_json::{Value, json};

use crate::support::http::{Proxy, Upstream};
use crate::support::recording::{Random, is_json};
use crate::support::replay::call;
use crate::support::{Client, Sandbox, initialize};

const COUNT: usize = 500;
/// How often a recorder is killed.
const KILLS: u64 = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Its shape tells, wherever it stands.
    Shape,
    /// The name in front of it tells.
    Named,
    /// It was named as known.
    Known,
}

#[derive(Clone, Debug)]
struct Secret {
    kind: Kind,
    value: String,
}

const LOWER: &str = "abcdefghijklmnopqrstuvwxyz";
const DIGITS: &str = "0123456789";
const UPPER_DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";
const ALL: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

fn letters(random: &mut Random, of: &str, count: usize) -> String {
    let of = of.as_bytes();
    (0..count).map(|_| char::from(random.pick(of))).collect()
}

/// Letters of all kinds, as tokens have them.
fn token(random: &mut Random, count: usize) -> String {
    format!("{}{}", letters(random, ALL, count - 3), "7aQ")
}

/// A card's number: its last digit by Luhn.
fn card(random: &mut Random) -> String {
    let front = format!("4{}", letters(random, DIGITS, 14));
    let sum: u32 = front
        .bytes()
        .enumerate()
        .map(|(place, digit)| {
            let digit = u32::from(digit - b'0');
            let double = if place % 2 == 0 { digit * 2 } else { digit };
            if double > 9 { double - 9 } else { double }
        })
        .sum();
    format!("{front}{}", (10 - sum % 10) % 10)
}

/// A German account: its check digits by ISO 7064.
fn iban(random: &mut Random) -> String {
    let account = letters(random, DIGITS, 18);
    let rest =
        format!("{account}131400").bytes().fold(0, |rest, digit| (rest * 10 + u32::from(digit - b'0')) % 97);
    format!("DE{:02}{account}", 98 - rest)
}

fn shape(random: &mut Random, which: usize) -> String {
    match which {
        0 => format!("{}@{}.example", letters(random, LOWER, 9), letters(random, LOWER, 7)),
        1 => format!("ghp_{}", token(random, 36)),
        2 => format!("glpat-{}", token(random, 20)),
        3 => format!("xoxb-{}-{}", letters(random, DIGITS, 12), token(random, 24)),
        4 => format!("sk_live_{}", token(random, 24)),
        5 => format!("AIza{}", token(random, 35)),
        6 => format!("sk-proj-{}", token(random, 40)),
        7 => format!("sk-ant-{}", token(random, 40)),
        8 => format!("npm_{}", token(random, 36)),
        9 => format!("pypi-{}", token(random, 40)),
        10 => format!("hf_{}", token(random, 34)),
        11 => format!("AKIA{}", letters(random, UPPER_DIGITS, 16)),
        12 => {
            let claims = URL_SAFE_NO_PAD.encode(format!("{{\"sub\":\"{}\"}}", letters(random, LOWER, 12)));
            format!("eyJhbGciOiJIUzI1NiJ9.{claims}.{}", token(random, 30))
        }
        13 => iban(random),
        14 => card(random),
        15 => format!("+4915{}", letters(random, DIGITS, 9)),
        16 => format!("{}-{}-{}", 100 + random.below(500), 10 + random.below(80), 1000 + random.below(8000)),
        _ => {
            let mut part = || 1 + random.below(250);
            format!("10.{}.{}.{}", part(), part(), part())
        }
    }
}

fn secrets() -> Vec<Secret> {
    let mut random = Random(0x5eed_0f5e);
    (0..COUNT)
        .map(|number| match number % 10 {
            0 | 1 | 5 | 6 | 9 => Secret { kind: Kind::Shape, value: shape(&mut random, number / 5 % 18) },
            2 | 3 | 7 | 8 => Secret { kind: Kind::Named, value: token(&mut random, 20) },
            _ => Secret {
                kind: Kind::Known,
                value: format!(
                    "{}/{}+ {}",
                    letters(&mut random, LOWER, 6),
                    token(&mut random, 8),
                    letters(&mut random, LOWER, 4)
                ),
            },
        })
        .collect()
}

fn percent(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
        out
    })
}

fn hex(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        let _ = write!(out, "{byte:02x}");
        out
    })
}

/// Base64 in which the secret begins at any of the three alignments.
fn base64(secret: &str, alignment: usize) -> String {
    STANDARD.encode(format!("{}we say {secret} and go on", &"ab"[..alignment]))
}

/// What stands beside the secret with this number, on both sides.
fn beside(number: usize) -> (String, String) {
    (format!("left{number}x"), format!("right{number}x"))
}

/// User data with a secret at some place, between its neighbours.
fn data(number: usize, secret: &Secret) -> Value {
    let (left, right) = beside(number);
    let value = secret.value.as_str();
    let near = format!("{left} {right}");
    let text = |middle: &str| json!({"text": format!("{left} {middle} {right}")});
    let place = number / 5;
    match secret.kind {
        Kind::Shape => match place % 10 {
            0 => text(value),
            1 => json!({"text": text(value).to_string()}),
            2 => json!({"text": json!({"inner": text(value).to_string()}).to_string()}),
            3 => json!({"url": format!("https://lab.example/{left}?q={}&r={right}", percent(value))}),
            4..=6 => text(&base64(value, place % 10 - 4)),
            7 => json!({"near": left, value: right}),
            8 => text(&format!("see <https://lab.example/x?q={}>,", percent(value))),
            _ => json!([[{"list": [left, value, right]}]]),
        },
        Kind::Named => match place % 11 {
            0 => json!({"api_key": value, "near": near}),
            1 => json!({"fields": [{"name": "password", "value": value}, {"name": "region", "value": near}]}),
            2 => json!({"args": ["--token", value, left, right]}),
            3 => json!({"headers": {"X-Api-Key": value, "X-Near": near}}),
            4 => json!({"body": format!("a={left}&password={value}&b={right}")}),
            5 => json!({"url": format!("https://ann:{value}@lab.example/{left}/{right}")}),
            6 => text(&format!("password={value}")),
            7 => json!({"text": json!({"client_secret": value, "near": near}).to_string()}),
            8 => json!({"pairs": [["X-Api-Key", value], ["near", near]]}),
            9 => json!({"credentials": {"a": [value]}, "near": near}),
            _ => json!({"text": format!("{left}\nAuthorization: Bearer {value}\n{right}")}),
        },
        Kind::Known => match place % 9 {
            0 => text(value),
            1 => text(&percent(value)),
            2 => text(&hex(value)),
            3..=5 => text(&base64(value, place % 9 - 3)),
            6 => text(&format!("{}\u{1b}[31m{}", &value[..3], &value[3..])),
            // Members are compared in the order of their names, which in a request would be another one.
            7 if !matches!(number % 8, 0 | 1 | 6) => json!({"near": left, value: right}),
            _ => json!({"text": json!({"inner": text(value).to_string()}).to_string()}),
        },
    }
}

/// A request and what the server says to it.
struct Exchange {
    request: String,
    answers: Vec<String>,
}

/// The exchange that carries the secret with this number, in a request, a result, an error, a notification, a list, a
/// resource or a prompt.
fn exchange(number: usize, secret: &Secret) -> Exchange {
    let id = number + 1;
    let data = data(number, secret);
    let plain = json!({"content": [{"type": "text", "text": "done"}]});
    let request =
        |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
    let tool = |arguments: Value| request("tools/call", json!({"name": "echo", "arguments": arguments}));
    let result = |result: Value| json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string();
    let said = |method: &str, params: Value| {
        json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string()
    };
    let ask = json!({"n": number});
    let (request, answers) = match number % 8 {
        0 => (tool(data), vec![result(plain)]),
        1 => (
            tool(data.clone()),
            vec![result(
                json!({"content": [{"type": "text", "text": data.to_string()}], "structuredContent": data}),
            )],
        ),
        2 => {
            let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": "refused", "data": data}});
            (tool(ask), vec![error.to_string()])
        }
        3 => (
            tool(ask),
            vec![said("notifications/message", json!({"level": "info", "data": data})), result(plain)],
        ),
        4 => {
            let (left, right) = beside(number);
            let property = match secret.kind {
                Kind::Named => {
                    json!({"password": {"type": "string", "default": secret.value, "title": format!("{left} {right}")}})
                }
                _ => {
                    json!({"q": {"type": "string", "description": format!("{left} {} {right}", secret.value)}})
                }
            };
            let schema = json!({"type": "object", "properties": property});
            (
                request("tools/list", json!({"cursor": format!("c{number}")})),
                vec![result(json!({"tools": [{"name": format!("t{number}"), "inputSchema": schema}]}))],
            )
        }
        5 => {
            let uri = format!("lab://n/{number}");
            let contents = json!([{"uri": uri, "mimeType": "application/json", "text": data.to_string()}]);
            (request("resources/read", json!({"uri": uri})), vec![result(json!({"contents": contents}))])
        }
        6 => {
            let messages =
                json!([{"role": "user", "content": {"type": "text", "text": format!("hello {number}")}}]);
            (
                request(
                    "prompts/get",
                    json!({"name": "p", "arguments": {"q": data.to_string(), "n": number.to_string()}}),
                ),
                vec![result(json!({"messages": messages}))],
            )
        }
        _ => (
            tool(ask),
            vec![
                said("notifications/message", json!({"level": "info", "data": format!("got {data}")})),
                result(plain),
            ],
        ),
    };
    Exchange { request: request.to_string(), answers }
}

fn session(secrets: &[Secret]) -> Vec<Exchange> {
    let answer = json!({"jsonrpc": "2.0", "id": 0, "result": {"protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}}, "serverInfo": {"name": "lab", "version": "1"}}});
    let first = Exchange { request: initialize("{}"), answers: vec![answer.to_string()] };
    let others = secrets.iter().enumerate().map(|(number, secret)| exchange(number, secret));
    std::iter::once(first).chain(others).collect()
}

/// Finds any of the secrets in any spelling that a file may have it in.
struct Needles(Regex, RefCell<HashSet<(PathBuf, usize)>>);

impl Needles {
    fn of(secrets: &[Secret]) -> Self {
        let mut list = Vec::new();
        for secret in secrets {
            let value = secret.value.as_str();
            list.extend([value.to_owned(), percent(value), hex(value)]);
            // Without the letters at the ends, which say what stands beside.
            for alignment in 0..3 {
                let encoded = STANDARD.encode(format!("{}{value}", &"abc"[..alignment]));
                list.push(encoded[4..encoded.len() - 4].to_owned());
            }
        }
        let list: Vec<String> =
            list.iter().filter(|needle| needle.len() > 7).map(|it| regex::escape(it)).collect();
        Self(Regex::new(&list.join("|")).unwrap(), RefCell::default())
    }

    #[track_caller]
    fn in_none(&self, what: &str, bytes: &[u8]) {
        if let Some(found) = self.0.find(bytes) {
            let from = found.start().saturating_sub(200);
            let around =
                String::from_utf8_lossy(&bytes[from..(found.end() + 60).min(bytes.len())]).into_owned();
            panic!("{what}: {:?} in {around}", String::from_utf8_lossy(found.as_bytes()));
        }
    }

    /// No file of the sandbox has one, and all are whole.
    #[track_caller]
    fn in_no_file(&self, sandbox: &Sandbox) {
        for (path, bytes) in sandbox.every_file() {
            // What was looked through and has not grown since takes no second look.
            if !self.1.borrow_mut().insert((path.clone(), bytes.len())) {
                continue;
            }
            let name = path.display().to_string();
            self.in_none(&name, &bytes);
            let text = String::from_utf8(bytes).unwrap();
            if Path::new(&name).extension().is_some_and(|ending| ending == "json") && !text.is_empty() {
                assert!(is_json(&text), "{name}");
            }
        }
    }
}

/// A server that says what is in its file, and fails in the end with the last lines of its standard error.
const SERVER: &str = r#"while IFS= read -r line; do
  IFS= read -r count <&3 || break
  while [ "$count" -gt 0 ]; do IFS= read -r answer <&3; printf '%s\n' "$answer"; count=$((count - 1)); done
done 3<"$1"
cat "$2" >&2
exit 1"#;

/// What is read by the servers, and holds all secrets.
struct Inputs {
    folder: Sandbox,
    secrets: Vec<Secret>,
    session: Vec<Exchange>,
}

impl Inputs {
    fn new() -> Self {
        let (folder, secrets) = (Sandbox::new(), secrets());
        let session = session(&secrets);
        let answers = session.iter().fold(String::new(), |mut out, exchange| {
            let _ = writeln!(out, "{}\n{}", exchange.answers.len(), exchange.answers.join("\n"));
            out
        });
        folder.file("answers", answers);
        let errors =
            secrets.iter().enumerate().rev().take(19).fold(String::new(), |mut out, (number, secret)| {
                let _ = writeln!(out, "{}", data(number, secret));
                out
            });
        folder.file("errors", errors);
        let known: Vec<&str> =
            secrets.iter().filter(|it| it.kind == Kind::Known).map(|it| it.value.as_str()).collect();
        folder.file("known", known.join("\n"));
        folder.script("server", SERVER);
        Self { folder, secrets, session }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path.join(name).display().to_string()
    }

    /// The options that name the known secrets.
    fn known(&self) -> [String; 2] {
        ["--secret-file".to_owned(), self.path("known")]
    }

    /// Starts a recorder of the server, whose command line has secrets too.
    fn recorder(&self, sandbox: &Sandbox, cassette: &str) -> Client {
        let named = &self.secrets[2].value;
        let url = format!("--url=https://ann:{named}@lab.example/?token={named}&page=2");
        let words = [
            self.path("server"),
            self.path("answers"),
            self.path("errors"),
            "--token".to_owned(),
            named.clone(),
            url,
            self.secrets[0].value.clone(),
            self.secrets[14].value.clone(),
        ];
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let known = self.known();
        sandbox.recorder(cassette, &["-q", "--server", "lab", &known[0], &known[1]], &words).start()
    }

    /// Speaks the session, or its beginning.
    fn speak(&self, client: &mut Client, count: usize) {
        for exchange in self.session.iter().take(count) {
            client.send(&exchange.request);
            for _ in &exchange.answers {
                client.next();
            }
        }
    }

    /// What stands beside each secret is in the text.
    #[track_caller]
    fn neighbours_are_in(&self, name: &str, text: &str) {
        for number in 0..self.secrets.len() {
            let (left, right) = beside(number);
            assert!(
                text.contains(&left) && text.contains(&right),
                "{name}: the neighbours of {:?}",
                self.secrets[number]
            );
        }
    }

    fn over_http(&self, sandbox: &Sandbox) {
        let answers: std::collections::HashMap<String, Vec<String>> = self
            .session
            .iter()
            .map(|exchange| (exchange.request.clone(), exchange.answers.clone()))
            .collect();
        let (named, shape) = (self.secrets[3].value.clone(), self.secrets[6].value.clone());
        let fields = format!(
            "Set-Cookie: sid={named}\r\nX-Auth-Token: {named}\r\nWWW-Authenticate: Bearer realm=\"lab\", error_description=\"token={named}\"\r\n\
             Location: https://lab.example/?code={shape}&access_token={named}\r\n"
        );
        let upstream = Upstream::start(move |request, socket| {
            let events = answers.get(&request.text()).map(|answers| {
                answers
                    .iter()
                    .fold(String::new(), |out, answer| out + "event: message\ndata: " + answer + "\n\n")
            });
            let body = events.unwrap_or_default();
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n{fields}Content-Length: {}\r\n\r\n",
                body.len()
            );
            socket.write_all((head + &body).as_bytes()).is_ok()
        });
        let key = &self.secrets[7].value;
        let known = self.known();
        let url = upstream.url(&format!("/mcp?api_key={key}&page=2"));
        let proxy: Proxy = sandbox.proxy("http.json", &url, &["-q", "--server", "web", &known[0], &known[1]]);
        let headers = format!(
            "Authorization: Bearer {key}\r\nX-Api-Key: {key}\r\nMcp-Param-Api-Key: {key}\r\nReferer: https://lab.example/?token={key}\r\n"
        );
        let mut wire = proxy.wire();
        for exchange in &self.session {
            let usual = "Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n";
            let head = proxy.head("POST", &proxy.path, usual);
            wire.write(format!(
                "{head}{headers}Content-Length: {}\r\n\r\n{}",
                exchange.request.len(),
                exchange.request
            ));
            assert_eq!(wire.answer().status, 200);
        }
        wire.close();
        proxy.stop(0);
    }
}

#[test]
fn five_hundred_secrets_are_in_no_file_and_nothing_beside_them_is_lost() {
    let inputs = Inputs::new();
    let needles = Needles::of(&inputs.secrets);
    // The search finds what it is to find.
    let all = std::fs::read(inputs.path("answers")).unwrap();
    assert!(needles.0.find_iter(&all).count() > COUNT / 2);

    let sandbox = Sandbox::new();
    let mut client = inputs.recorder(&sandbox, "a.json");
    inputs.speak(&mut client, inputs.session.len());
    client.close(1);
    inputs.over_http(&sandbox);
    needles.in_no_file(&sandbox);
    for name in ["a.json", "http.json"] {
        inputs.neighbours_are_in(name, &sandbox.read(name));
    }
    let head = sandbox.read("a.json");
    assert!(head.contains("\"stderr\"") && head.contains("page=2"), "the head keeps the rest");

    // Killed at any moment: what is left has none, and neither has the cassette that it becomes.
    let mut random = Random(0x00dd_ba11);
    for round in 0..KILLS {
        let name = format!("killed-{round}.json");
        let mut client = inputs.recorder(&sandbox, &name);
        let count = 1 + usize::try_from(random.below(inputs.session.len() as u64 - 1)).unwrap();
        inputs.speak(&mut client, count);
        client.child.kill().unwrap();
        client.child.wait().unwrap();
        needles.in_no_file(&sandbox);
        sandbox.mcpreel(["recover", &name]).run();
        needles.in_no_file(&sandbox);
    }

    // Whatever is made of them.
    let run = |arguments: &[&str], codes: &[i32]| {
        let done = sandbox.mcpreel(arguments).run();
        assert!(codes.contains(&done.code()), "{arguments:?}: {}", done.stderr());
        let what = arguments.join(" ");
        needles.in_none(&what, done.stdout().as_bytes());
        needles.in_none(&what, done.stderr().as_bytes());
        done
    };
    run(&["merge", "a.json", "http.json", "-o", "all.json"], &[0]);
    run(&["convert", "all.json", "-o", "all.jsonl"], &[0]);
    for format in ["mcp-cassette", "mcp-cassette-npm", "mcp-recorder", "ctpf", "har", "jsonl"] {
        run(&["convert", "a.json", "-o", &format!("a.{format}"), "--to", format, "--lossy"], &[0]);
        run(&["inspect", &format!("a.{format}")], &[0]);
    }
    for view in [&[][..], &["--timeline"], &["--tools"], &["--exchange", "5"]] {
        run(&[&["inspect", "a.json"], view].concat(), &[0]);
        run(&[&["inspect", "http.json"], view].concat(), &[0]);
    }
    run(&["trim", "a.json", "-o", "short.json", "--keep", "exchange=3..70"], &[0]);
    needles.in_no_file(&sandbox);
    for name in ["a.json", "http.json", "all.json", "all.jsonl", "a.mcp-cassette"] {
        run(&["redact", "--check", name, &inputs.known()[0], &inputs.known()[1]], &[0]);
    }
    inputs.neighbours_are_in("all.json", &sandbox.read("all.json"));

    // Replayed: with the same secrets everything is found, and where it is not, the errors and reports have none.
    let known = inputs.known();
    let serve = ["serve", "a.json", "--report", "r.jsonl", &known[0], &known[1]];
    let mut client = sandbox.mcpreel(serve).start();
    inputs.speak(&mut client, inputs.session.len());
    let ended = client.close(0);
    needles.in_none("serve", ended.stderr.as_bytes());
    let mut client = sandbox.mcpreel(serve).start();
    client.ask(&initialize("{}"));
    for (number, secret) in inputs.secrets.iter().enumerate() {
        let arguments = json!({"unknown": number, "was": data(number, secret)});
        let miss = client.fails(&call("\"m\"", "echo", &arguments.to_string()), -31001);
        needles.in_none("the error of a miss", miss.as_bytes());
    }
    let ended = client.close(3);
    needles.in_none("serve", ended.stderr.as_bytes());
    for format in ["text", "json", "junit", "md"] {
        run(&["report", "r.jsonl", "--format", format], &[3]);
    }
    needles.in_no_file(&sandbox);
}
