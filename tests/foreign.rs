//! Recordings of other programs: read wherever a cassette is read, written by `convert`, and the same when they come
//! back. The files in `testdata/foreign` are made by hand from what those programs write.

use std::fs;
use std::path::{Path, PathBuf};

use mcpreel::cassette::foreign::Format;
use mcpreel::cassette::{Body, Cassette, Side, Timing};

use crate::support::recording::DEMO;
use crate::support::{Done, Sandbox, initialize};

/// The parts of a file of expectations: the words behind `==`, and the lines below.
fn expected(name: &str) -> Vec<(Vec<String>, Vec<String>)> {
    let text = fs::read_to_string(fixture(name)).unwrap();
    let parts = text.split("== ").filter(|part| !part.is_empty()).map(|part| {
        let mut lines = part.lines();
        let words = lines.next().unwrap().split(' ').map(str::to_owned).collect();
        (words, lines.map(str::to_owned).collect())
    });
    parts.collect()
}

/// Each fixture with the word for its format and its records, as [`listed`] tells them.
fn fixtures() -> Vec<(String, String, Vec<String>)> {
    let parts = expected("records.txt").into_iter();
    parts.map(|(words, records)| (words[0].clone(), words[1].clone(), records)).collect()
}

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/foreign").join(name)
}

/// Each record in one line: server, connection/session/exchange, who, when, HTTP facts, what.
fn listed(cassette: &Cassette) -> Vec<String> {
    let line = |record: &mcpreel::cassette::Record| {
        let text = &cassette.text;
        let what = match &record.body {
            Body::None => "-".to_owned(),
            Body::Text(span) => format!("text {}", span.of(text)),
            Body::Base64(span) => format!("base64 {}", span.of(text)),
            Body::Payload(view) if view.method.is_some() => view.method_name(text).into_owned(),
            Body::Payload(view) => match view.id {
                Some(id) => format!("answer {}", id.of(text)),
                None => format!("{} bytes", view.whole.len()),
            },
        };
        let at = if cassette.timing == Timing::Known { record.at.to_string() } else { "?".to_owned() };
        let from = if record.from == Side::Client { 'c' } else { 's' };
        let more = record.more.as_deref();
        let facts = more.and_then(|more| more.http.clone()).unwrap_or_default().replace('"', "");
        let get = more.is_some_and(|more| more.stream_get);
        let end = more.and_then(|more| more.end.clone()).unwrap_or_default();
        let place = format!("{}/{}/{}", record.conn, record.session, record.exchange);
        let flags = [facts, if get { "get".to_owned() } else { String::new() }, end];
        let flags: Vec<String> = flags.into_iter().filter(|flag| !flag.is_empty()).collect();
        format!("{} {place} {from}@{at} {} {what}", cassette.server_name(record), flags.join(" "))
            .replace("  ", " ")
    };
    cassette.records.iter().map(line).collect()
}

fn convert(sandbox: &Sandbox, args: &[&str]) -> Done {
    sandbox.mcpreel([&["convert"], args].concat()).run()
}

#[test]
fn every_format_is_read_record_for_record() {
    for (name, _, records) in fixtures() {
        let cassette = Cassette::read(&fixture(&name)).unwrap();
        assert_eq!(listed(&cassette), records, "{name}");
    }
}

#[test]
fn what_is_read_written_and_read_again_is_the_same() {
    for (name, format, _) in fixtures() {
        let sandbox = Sandbox::new();
        let path = fixture(&name);
        convert(&sandbox, &[path.to_str().unwrap(), "-o", "1.json"]).expect(0);
        let written = convert(&sandbox, &["1.json", "-o", "2", "--to", &format]).expect(0);
        assert!(!written.stderr().contains("lost"), "{name}: {}", written.stderr());
        convert(&sandbox, &["2", "-o", "3.json", "--to", "cassette"]).expect(0);
        assert_eq!(sandbox.read("3.json"), sandbox.read("1.json"), "{name}");
        convert(&sandbox, &["3.json", "-o", "4", "--to", &format]).expect(0);
        assert_eq!(sandbox.read("4"), sandbox.read("2"), "{name}");
    }
}

#[test]
fn messages_keep_every_token() {
    for (name, tokens) in [
        (
            "npm-v1-stdio.jsonl",
            &[r#""n":1.0,"big":123456789012345678901234,"huge":1E400,"word":"caf\u00e9""#][..],
        ),
        ("npm-v2-http.jsonl", &[r#""progress":0.50"#]),
        ("mcp-recorder-http.json", &[r#""a":2.0,"b":1e2,"s":"\u00e9""#]),
        ("ctpf-stdio.json", &[r#""n":1.50"#]),
        ("browser.har", &[r#""n":1.0,"w":"caf\u00e9""#]),
        ("mcp-rec.jsonl", &[r#""a":1.0,"b":2e0"#]),
    ] {
        let sandbox = Sandbox::new();
        let path = fixture(name);
        let format = fixtures().into_iter().find(|(known, ..)| known == name).unwrap().1;
        for to in ["journal", &format] {
            let out = convert(&sandbox, &[path.to_str().unwrap(), "-o", "-", "--to", to]).expect(0).stdout();
            // In a HAR file the messages stand in strings.
            let out = if to == "har" { out.replace("\\\"", "\"").replace("\\\\", "\\") } else { out };
            let packed: String = out.chars().filter(|char| !char.is_whitespace()).collect();
            for token in tokens {
                assert!(packed.contains(token), "{name} to {to}: {token}\n{out}");
            }
        }
    }
}

#[test]
fn commands_read_them_like_cassettes_of_our_own() {
    let sandbox = Sandbox::new();
    for (name, ..) in fixtures() {
        let path = fixture(&name);
        let path = path.to_str().unwrap();
        let done = sandbox.mcpreel(["inspect", path, "--timeline", "--format", "json"]).run().expect(0);
        assert!(serde_json::from_str::<serde_json::Value>(&done.stdout()).is_ok(), "{name}");
        let bytes = fs::read(path).unwrap();
        sandbox.mcpreel(["inspect", "-"]).input(bytes).run().expect(0);
    }
    for (name, lines) in [
        (
            "npm-v1-stdio.jsonl",
            &[(
                r#"{"jsonrpc":"2.0","id":"x","method":"tools/list"}"#,
                r#"{"jsonrpc":"2.0","id":"x","result":{"tools":[]}}"#,
            )][..],
        ),
        (
            "mcp-recorder-http.json",
            &[(
                r#"{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"add","arguments":{"a":2.0,"b":1e2,"s":"é"}}}"#,
                r#"{"jsonrpc":"2.0","id":5,"result":{"content":[{"type":"text","text":"102"}]}}"#,
            )],
        ),
        (
            "mcp-rec.jsonl",
            &[(
                r#"{"jsonrpc":"2.0","id":9,"method":"tools/call","params":{"name":"add","arguments":{"a":1.0,"b":2}}}"#,
                r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"adding"}}"#,
            )],
        ),
    ] {
        let path = fixture(name);
        let mut client = sandbox.mcpreel(["serve", "--stdio", path.to_str().unwrap()]).start();
        let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
        let mut got = client.ask(hello);
        while !got.contains("serverInfo") {
            got = client.next();
        }
        client.send(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
        for (request, answer) in lines {
            let got = client.ask(request);
            let value = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
            assert_eq!(value(&got), value(answer), "{name}");
        }
    }
}

#[test]
fn headers_of_a_har_file_are_not_kept() {
    let sandbox = Sandbox::new();
    let path = fixture("browser.har");
    for to in ["cassette", "har"] {
        let out = convert(&sandbox, &[path.to_str().unwrap(), "-o", "-", "--to", to]).expect(0).stdout();
        for secret in ["tok-123", "8f3c", "a=b", "Authorization"] {
            assert!(!out.contains(secret), "{secret}");
        }
    }
}

#[test]
fn broken_files_get_one_line_with_the_place() {
    let npm = r#"{"type":"header","cassetteVersion":2,"transport":"http"}"#;
    let har = |entry: &str| format!("{{\"log\":{{\"entries\":[\n{entry}]}}}}");
    let ctpf = |message: &str| format!("{{\"messages\":[\n{{\"proxy_id\":\"a\"{message}}}]}}");
    let recorder = |entry: &str| format!("{{\"version\":\"1.0\",\"interactions\":[\n{entry}]}}");
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    for (text, line) in [
        (
            r#"{"type":"header","cassetteVersion":3}"#.to_owned(),
            "is an npm mcp-cassette file of version 3; this mcpreel reads its versions 1 to 2",
        ),
        (
            r#"{"type":"header","cassetteVersion":"x"}"#.to_owned(),
            "line 1: \"cassetteVersion\" must be 1 or 2",
        ),
        (format!("{npm}\n{{\"type\":\"frame\",\"t\":1}}\n"), "line 2: expected \"dir\": \"c2s\" or \"s2c\""),
        (
            format!("{npm}\n{{\"type\":\"frame\",\"t\":\"soon\",\"dir\":\"c2s\",\"frame\":{{}}}}\n"),
            "line 2: \"t\" must be milliseconds",
        ),
        (format!("{npm}\n{{\"dir\":\"c2s\"}}\n"), "line 2: expected \"type\": frame, raw or chunks"),
        (
            format!("{npm}\n{{\"type\":\"chunks\",\"dir\":\"s2c\",\"chunks\":[7]}}\n"),
            "line 2: expected \"frame\": the message",
        ),
        (format!("{npm}\n{{\"type\":\n{{}}\n"), "line 2: not JSON: expected a value"),
        (format!("{npm}\n{{\"type\":\"mark\"}} x\n"), "line 2: expected the end of the line"),
        (recorder("7"), "line 2 (/interactions/0): an interaction must be an object in braces"),
        (
            recorder("{\"type\":\"song\"}"),
            "line 2 (/interactions/0): \"type\" must be \"jsonrpc_request\", \"notification\" or \"lifecycle\"",
        ),
        (
            recorder("{\"type\":\"notification\"}"),
            "line 2 (/interactions/0): expected \"request\": the message",
        ),
        (
            "{\"version\":\"2.0\",\"interactions\":[]}".to_owned(),
            "line 1: is version 2.0 of mcp-recorder's format; this mcpreel reads version 1",
        ),
        ("{\"interactions\":[]} x".to_owned(), "line 1: expected the end of the file"),
        (ctpf(""), "line 2 (/messages/0): expected \"direction\""),
        (
            ctpf(",\"direction\":\"up\""),
            "line 2 (/messages/0): \"direction\" must be \"client_to_server\" or \"server_to_client\"",
        ),
        (
            ctpf(",\"direction\":\"client_to_server\",\"timestamp\":\"noon\""),
            "line 2 (/messages/0): \"timestamp\" must be a date and time",
        ),
        (
            ctpf(",\"direction\":\"client_to_server\""),
            "line 2 (/messages/0): expected \"payload\": the message",
        ),
        (
            ctpf(",\"transport\":\"pigeon\""),
            "line 2: \"transport\" must be \"stdio\", \"sse\" or \"streamable-http\"",
        ),
        (har("7"), "line 2 (/log/entries/0): an entry must be an object in braces"),
        (
            har("{\"startedDateTime\":\"noon\"}"),
            "line 2 (/log/entries/0): \"startedDateTime\" must be a date and time",
        ),
        (
            har("{\"request\":{\"method\":\"GET\",\"url\":\"http://x/\"}}"),
            "/log/entries: holds no MCP: none of its 1 entries is a POST of a JSON-RPC message",
        ),
        ("{\"log\":{\"entries\":{}}}".to_owned(), "line 1: \"entries\" must be a list"),
        (
            format!("{{\"ts\":1,\"dir\":\"up\",\"msg\":{call}}}\n"),
            "line 1: \"dir\" must be \"client->server\" or \"server->client\"",
        ),
        (
            format!("{{\"ts\":\"noon\",\"dir\":\"c2s\",\"msg\":{call}}}\n"),
            "line 1: \"ts\" must be seconds since 1970 or a date",
        ),
        (
            format!("{{\"dir\":\"c2s\",\"msg\":{call}}}\n{{\"dir\":\"c2s\"}}\n"),
            "line 2: expected \"msg\": the message",
        ),
        ("{\"interactions\":7}".to_owned(), "is not a cassette: no \"mcpreel\" format number in it"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("x", &text);
        let done = convert(&sandbox, &["x", "-o", "out.json"]).expect(2);
        assert_eq!(done.stderr(), format!("mcpreel: x: {line}\n"), "{text}");
        assert!(!sandbox.has("out.json"));
    }
}

#[test]
fn a_torn_last_line_is_left_out_with_a_warning() {
    for name in ["npm-v1-stdio.jsonl", "mcp-rec.jsonl"] {
        let sandbox = Sandbox::new();
        let text = fs::read_to_string(fixture(name)).unwrap();
        sandbox.file("x", &text[..text.len() - 20]);
        let done = convert(&sandbox, &["x", "-o", "out.json"]).expect(0);
        let note = "mcpreel: note: x: the last line is torn and was left out\n";
        assert!(done.stderr().contains(note), "{}", done.stderr());
        let whole = Cassette::read(&fixture(name)).unwrap().records.len();
        let cut = Cassette::read(&sandbox.path.join("out.json")).unwrap().records.len();
        assert_eq!(cut, whole - 1);
    }
}

#[test]
fn a_warning_about_a_cassette_is_told_once_in_each_view() {
    let sandbox = Sandbox::new();
    let text = fs::read_to_string(fixture("npm-v1-stdio.jsonl")).unwrap();
    sandbox.file("x", &text[..text.len() - 20]);
    let told = "x: the last line is torn and was left out";
    for (view, on_stderr) in [
        (&[][..], false),
        (&["--format", "json"], false),
        (&["--timeline"], true),
        (&["--method", "*"], true),
        (&["--tools", "--format", "json"], true),
        (&["--exchange", "1"], true),
    ] {
        let done = sandbox.mcpreel(["inspect", "x"].iter().chain(view)).run().expect(0);
        let (out, err) = (done.stdout(), done.stderr());
        assert_eq!(
            (out.matches(told).count(), err.matches(told).count()),
            (usize::from(!on_stderr), usize::from(on_stderr)),
            "{view:?}: {out}{err}"
        );
    }
}

#[test]
fn empty_recordings_are_cassettes_without_messages() {
    for text in [
        r#"{"type":"header","cassetteVersion":1}"#,
        r#"{"interactions":[]}"#,
        r#"{"started_at":null,"messages":[]}"#,
        r#"{"log":{"entries":[]}}"#,
        "\u{feff}{\"log\":{\"entries\":[]}}",
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("x", text);
        convert(&sandbox, &["x", "-o", "out.json"]).expect(0);
        assert_eq!(Cassette::read(&sandbox.path.join("out.json")).unwrap().records.len(), 0, "{text}");
    }
}

#[test]
fn what_a_format_cannot_hold_is_listed_with_its_place() {
    let listed = expected("losses.txt");
    assert_eq!(listed.len(), Format::ALL.len());
    for (words, lost) in listed {
        let format = words[0].as_str();
        let sandbox = Sandbox::new();
        sandbox.file("full.json", fs::read(fixture("full.cassette.json")).unwrap());
        let done = convert(&sandbox, &["full.json", "-o", "out", "--to", format]).expect(2);
        let lines: Vec<String> = done.stderr().lines().map(str::to_owned).collect();
        let (last, lines) = lines.split_last().unwrap();
        let told: Vec<&str> = lines.iter().map(|line| line.strip_prefix("mcpreel: ").unwrap()).collect();
        assert_eq!(told, lost, "{format}");
        assert_eq!(
            last,
            "mcpreel: full.json: not everything in it can be written in this format, see above; --lossy writes the rest"
        );
        assert!(!sandbox.has("out"));
        convert(&sandbox, &["full.json", "-o", "out", "--to", format, "--lossy"]).expect(0);
        sandbox.mcpreel(["inspect", "out"]).run().expect(0);
    }
}

#[test]
fn small_files_are_laid_out_as_their_programs_do() {
    let cassette =
        [r#"c {"jsonrpc":"2.0","id":1,"method":"ping"}"#, r#"s {"jsonrpc":"2.0","id":1,"result":{}}"#];
    for (format, expected) in [
        (
            "mcp-cassette-npm",
            r#"{"type":"header","cassetteVersion":2,"recorder":"mcpreel 0.1.0","startedAt":"2026-11-29T20:33:00.000Z","transport":"stdio","command":["demo"],"era":"legacy","redaction":{"applied":false}}
{"type":"frame","t":0,"dir":"c2s","frame":{"jsonrpc":"2.0","id":1,"method":"ping"}}
{"type":"frame","t":0,"dir":"s2c","frame":{"jsonrpc":"2.0","id":1,"result":{}}}
"#,
        ),
        (
            "mcp-recorder",
            r#"{
  "version": "1.0",
  "metadata": {
    "recorded_at": "2026-11-29T20:33:00.000Z",
    "server_url": "stdio://demo",
    "protocol_version": null,
    "server_info": null
  },
  "interactions": [
    {
      "type": "jsonrpc_request",
      "request": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "ping"
      },
      "response": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {}
      },
      "response_is_sse": false,
      "response_status": 200,
      "latency_ms": 0,
      "http_method": null,
      "http_path": null
    }
  ]
}
"#,
        ),
        (
            "ctpf",
            r#"{
  "id": "00000000-0000-4000-8000-000000000000",
  "started_at": "2026-11-29T20:33:00.000Z",
  "ended_at": null,
  "transport": "stdio",
  "server_command": "demo",
  "server_url": null,
  "messages": [
    {
      "proxy_id": "00000000-0000-4000-8000-000000000001",
      "sequence": 0,
      "timestamp": "1970-01-01T00:00:00.000000Z",
      "direction": "client_to_server",
      "transport": "stdio",
      "jsonrpc_id": 1,
      "method": "ping",
      "correlated_id": null,
      "modified": false,
      "payload": {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "ping"
      }
    },
    {
      "proxy_id": "00000000-0000-4000-8000-000000000002",
      "sequence": 1,
      "timestamp": "1970-01-01T00:00:00.000000Z",
      "direction": "server_to_client",
      "transport": "stdio",
      "jsonrpc_id": 1,
      "method": null,
      "correlated_id": "00000000-0000-4000-8000-000000000001",
      "modified": false,
      "payload": {
        "jsonrpc": "2.0",
        "id": 1,
        "result": {}
      }
    }
  ],
  "metadata": {}
}
"#,
        ),
        (
            "jsonl",
            r#"{"dir":"client->server","msg":{"jsonrpc":"2.0","id":1,"method":"ping"}}
{"dir":"server->client","msg":{"jsonrpc":"2.0","id":1,"result":{}}}
"#,
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.cassette("c.json", &cassette);
        let done = convert(&sandbox, &["c.json", "-o", "-", "--to", format]).expect(0);
        assert_eq!(done.stdout(), expected, "{format}");
    }
}

#[test]
fn outputs_and_inputs_may_be_pipes_or_the_same_file() {
    let sandbox = Sandbox::new();
    let bytes = fs::read(fixture("browser.har")).unwrap();
    let out = sandbox.mcpreel(["convert", "-", "-o", "-"]).input(&bytes).run().expect(0).stdout();
    sandbox.file("same.har", &bytes);
    convert(&sandbox, &["same.har", "-o", "same.har"]).expect(0);
    assert!(sandbox.read("same.har").starts_with("{\n  \"log\": {"), "the ending .har asks for that format");
    convert(&sandbox, &["same.har", "-o", "same.har", "--to", "cassette"]).expect(0);
    let untold =
        |text: &str| text.lines().filter(|line| !line.contains("recorder")).collect::<Vec<_>>().join("\n");
    assert_eq!(untold(&sandbox.read("same.har")), untold(&out));
    sandbox.file("notes.txt", "not a cassette");
    let done = convert(&sandbox, &["same.har", "-o", "notes.txt"]).expect(2);
    assert!(
        done.stderr().starts_with("mcpreel: notes.txt: exists and would be replaced"),
        "{}",
        done.stderr()
    );
    assert_eq!(sandbox.read("notes.txt"), "not a cassette");
}

#[test]
fn what_may_be_another_program_s_is_replaced_by_nothing() {
    let sandbox = Sandbox::new();
    sandbox.cassette("c.json", &[r#"c {"jsonrpc":"2.0","id":1,"method":"ping"}"#]);
    let page = r#"{"startedDateTime":"2026-11-29T20:33:00.000Z","time":1,"request":{"method":"GET","url":"https://example.com/","headers":[]},"response":{"status":200,"headers":[],"content":{"text":"x"}}}"#;
    let texts = [
        r#"{"log":{"version":"1.2","creator":{"name":"browser","version":"1"},"entries":[]}}"#.to_owned(),
        format!(
            r#"{{"log":{{"version":"1.2","creator":{{"name":"browser","version":"1"}},"entries":[{page}]}}}}"#
        ),
        r#"{"version":"1.0","metadata":{},"interactions":[]}"#.to_owned(),
        r#"{"id":"x","started_at":null,"messages":[]}"#.to_owned(),
        r#"{"format_version":1,"recorded_at":"2026-01-01T00:00:00Z","messages":[]}"#.to_owned(),
    ];
    let commands: [&[&str]; 4] = [
        &["convert", "c.json", "-o", "out"],
        &["convert", "c.json", "-o", "out", "--to", "har", "--lossy"],
        &["merge", "c.json", "-o", "out"],
        &["trim", "c.json", "-o", "out", "--keep", "method=ping"],
    ];
    for text in &texts {
        sandbox.file("out", text);
        for command in commands {
            let said = sandbox.mcpreel(command).run().expect(2).stderr();
            let last = said.lines().last().unwrap();
            assert!(
                last.starts_with("mcpreel: out: exists and would be replaced, but "),
                "{command:?}: {said}"
            );
            assert_eq!(sandbox.read("out"), *text, "{command:?}");
        }
    }
    // A recording goes by the same rule.
    let recorders = [&["record"][..], &["use", "--mode", "all"], &["use", "--mode", "once"]];
    let record = |how: &[&str]| {
        let arguments = [how, &["--cassette", "out", "--"], &DEMO].concat();
        sandbox.mcpreel(arguments).lines(&[&initialize("{}")]).run().expect(2).stderr()
    };
    for text in &texts {
        sandbox.file("out", text);
        for how in recorders {
            let said = record(how);
            assert!(said.starts_with("mcpreel: out: ") && said.lines().count() == 1, "{how:?}: {said}");
            assert_eq!(sandbox.read("out"), *text, "{how:?}");
            assert_eq!(sandbox.of_cassette("out"), ["out"], "{how:?}");
        }
    }
    fs::remove_file(sandbox.path.join("out")).unwrap();
    std::os::unix::fs::symlink("out", sandbox.path.join("out")).unwrap();
    for command in commands {
        let said = sandbox.mcpreel(command).run().expect(2).stderr();
        let last = said.lines().last().unwrap();
        assert!(
            last.starts_with("mcpreel: out: cannot be looked at before it would be replaced: "),
            "{command:?}: {said}"
        );
        assert!(fs::symlink_metadata(sandbox.path.join("out")).unwrap().is_symlink());
    }
    for how in recorders {
        assert_eq!(record(how), "mcpreel: out: is a link that leads back to itself; remove it\n", "{how:?}");
        assert!(fs::symlink_metadata(sandbox.path.join("out")).unwrap().is_symlink());
    }
}

#[test]
fn times_beyond_all_count_are_held_at_the_end_of_it() {
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let entry = |took: &str| {
        format!(
            r#"{{"type":"jsonrpc_request","request":{message},"response":{{"jsonrpc":"2.0","id":1,"result":{{}}}},"latency_ms":{took}}}"#
        )
    };
    for took in ["18446744073709551", "1e18", "1e300"] {
        let sandbox = Sandbox::new();
        let entries = [entry("1"), entry(took), entry(took)].join(",");
        sandbox.file("x", format!(r#"{{"version":"1.0","metadata":{{}},"interactions":[{entries}]}}"#));
        for args in
            [&["inspect", "x"][..], &["inspect", "--timeline", "x"], &["convert", "x", "-o", "out.json"]]
        {
            let done = sandbox.mcpreel(args).run().expect(0);
            assert_eq!(done.stderr(), "", "{took} {args:?}");
        }
        for format in ["mcp-cassette", "mcp-cassette-npm", "mcp-recorder", "ctpf", "har", "jsonl", "journal"]
        {
            convert(&sandbox, &["out.json", "-o", "there", "--to", format, "--lossy"]).expect(0);
        }
    }
    // The years from the first to the last that a time can have.
    let lines = ["9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z"]
        .map(|at| format!(r#"{{"ts":"{at}","dir":"c2s","msg":{message}}}"#));
    let sandbox = Sandbox::new();
    sandbox.file("x.jsonl", lines.join("\n"));
    convert(&sandbox, &["x.jsonl", "-o", "out.json"]).expect(0);
}
