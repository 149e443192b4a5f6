use super::*;

const CASSETTE: &str = r#"{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"mcpreel 0.1.0",
"servers":{"files":{"transport":"stdio","command":["srv","\u001b[2J"],"protocol":["2025-11-25"],"info":{"name":"files","version":"2"}},"web":{"transport":"http","url":"https://x/mcp"}},
"processes":[{"server":"files","exit":{"code":3},"stderr":["oops\u0007"]}],"labels":{"test":"a"},
"messages":[
{"server":"files","from":"client","payload":{"jsonrpc":"2.0","id":1,"method":"tools/list"}},
{"server":"files","from":"server","payload":{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"read","description":"Reads\u001b[1m a file.\nMore.","inputSchema":{"type":"object","properties":{"path":{"type":"string"},"lines":{"type":["integer","null"]}},"required":["path"]}}]}}},
{"server":"files","from":"client","redacted":["key:*token*"],"payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"read","arguments":{"path":"/a","token":"REDACTED-1"},"_meta":{"progressToken":7}}}},
{"server":"files","from":"server","text":"listening\u001b]0;x\u0007\r"},
{"server":"files","from":"server","payload":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":7,"progress":1}}},
{"server":"files","from":"server","payload":{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{}}},
{"server":"files","from":"client","payload":{"jsonrpc":"2.0","id":1,"result":{}}},
{"server":"files","from":"server","payload":{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"no such\nfile"}]}}},
{"server":"web","from":"client","exchange":1,"payload":{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get"}}},
{"server":"web","from":"server","exchange":1,"http":{"status":200,"type":"sse"},"payload":{"jsonrpc":"2.0","method":"notifications/message","params":{"data":1.0}}},
{"server":"web","from":"server","exchange":1,"end":"cut"},
{"server":"files","from":"client","payload":[{"jsonrpc":"2.0","id":8,"method":"ping"},{"jsonrpc":"2.0","id":9,"method":"ping"}]},
{"server":"files","from":"server","payload":[{"jsonrpc":"2.0","id":9,"result":{}},{"jsonrpc":"2.0","id":8,"error":{"code":-32601,"message":"no\u009bping"}}]},
{"server":"files","from":"server","payload":{"jsonrpc":"2.0","id":77,"result":{}}}],
"timing_ms":[0,1.5,10,11,12,13,14,1300,1301,1302,1303,1400,1401,1402]}"#;

fn view(inspect: &Inspect) -> Result<String> {
    inspect.check()?;
    let cassette = crate::cassette::Cassette::parse(std::path::Path::new("c.json"), CASSETTE.into())?;
    inspect.view(&Reel::new(cassette))
}

fn asked() -> Inspect {
    Inspect { cassette: "c.json".to_owned(), ..Inspect::default() }
}

#[test]
fn the_timeline_pairs_what_belongs_together() {
    let text = view(&Inspect { timeline: true, ..asked() }).unwrap();
    assert_eq!(
        text,
        r#"   #0  +0.000  files   -> request tools/list id 1 46 B
   #1  +0.001  files   <- response tools/list id 1 235 B (answers #0 after 1.5 ms)
   #2  +0.010  files   -> request tools/call "read" id 1 146 B [redacted]
   #3  +0.011  files   <- text listening\u001b]0;x\u0007\u000d
   #4  +0.012  files   <- notification notifications/progress 93 B
   #5  +0.013  files   <- request sampling/createMessage id 1 70 B
   #6  +0.014  files   -> response sampling/createMessage id 1 36 B (answers #5 after 1.0 ms)
   #7  +1.300  files   <- response tools/call "read" id 1 101 B (answers #2 after 1.2 s) [tool error no such\u000afile]
   #8  +1.301  web x1  -> request tools/call "get" id 1 70 B
   #9  +1.302  web x1  <- notification notifications/message 72 B {"status":200,"type":"sse"}
  #10  +1.303  web x1  <- transport [end: cut]
#11.0  +1.400  files   -> request ping id 8 40 B
#11.1  +1.400  files   -> request ping id 9 40 B
#12.0  +1.401  files   <- response ping id 9 36 B (answers #11.1 after 1.0 ms)
#12.1  +1.401  files   <- response ping id 8 73 B (answers #11.0 after 1.0 ms) [error -32601 no\u009bping]
  #13  +1.402  files   <- response id 77 37 B (answers nothing recorded)
"#
    );
}

#[test]
fn filters_pick_messages_and_their_answers() {
    let numbers = |inspect: Inspect| {
        let text = view(&inspect).unwrap();
        text.lines().map(|line| line.split_whitespace().next().unwrap_or("").to_owned()).collect::<Vec<_>>()
    };
    let some = |text: &str| Some(text.to_owned());
    assert_eq!(numbers(Inspect { method: some("tools/call"), ..asked() }), ["#2", "#7", "#8"]);
    assert_eq!(
        numbers(Inspect { method: some("tools/*"), server: some("files"), ..asked() }),
        ["#0", "#1", "#2", "#7"]
    );
    assert_eq!(numbers(Inspect { grep: some(r#""id":(8|77)"#), ..asked() }), ["#11.0", "#12.1", "#13"]);
    assert_eq!(numbers(Inspect { grep: some("never"), ..asked() }), ["no"]);
}

#[test]
fn an_exchange_is_shown_whole() {
    let text = view(&Inspect { exchange: Some(2), ..asked() }).unwrap();
    assert!(text.starts_with("exchange 2 of 5: tools/call \"read\", server \"files\", answered after 1.2 s\n\n#2 +0.010 -> request"), "{text}");
    let headings: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(headings.iter().map(|line| &line[..2]).collect::<Vec<_>>(), ["#2", "#4", "#5", "#6", "#7"]);
    assert!(text.contains("\n  \"params\": {\n    \"name\": \"read\","), "{text}");
    let cut = view(&Inspect { exchange: Some(3), ..asked() }).unwrap();
    assert!(
        cut.starts_with(
            "exchange 3 of 5: tools/call \"get\", server \"web\", not answered: the connection was cut\n"
        ),
        "{cut}"
    );
    assert!(cut.contains("\n#9 ") && cut.contains("\n#10 +1.303 <- transport [end: cut]\n"), "{cut}");
    for (number, what) in [(0, "no exchange 0"), (6, "exchanges are 1 to 5")] {
        let error = view(&Inspect { exchange: Some(number), ..asked() }).unwrap_err();
        assert_eq!((error.code(), error.to_string().contains(what)), (2, true), "{error}");
    }
}

#[test]
fn the_summary_counts() {
    let text = view(&asked()).unwrap();
    for line in [
        "  15 messages, 2 errors, 1.4 s",
        "server \"files\", stdio: srv \\u001b[2J",
        "  protocol 2025-11-25, server info files 2, 13 messages",
        "  -> ping                         2  2 answered, 1 error, median 1.0 ms, longest 1.0 ms",
        "  -> tools/call                   1  1 answered, 1 error, median 1.2 s, longest 1.2 s",
        "  <- notifications/progress       1",
        "  <- sampling/createMessage       1  1 answered, median 1.0 ms, longest 1.0 ms",
        "  text: 1",
        "  response to nothing recorded: 1",
        "  process 0: exit 3",
        "    stderr: oops\\u0007",
        "server \"web\", http: https://x/mcp",
        "  HTTP exchange cut: 1",
        "  request not answered: the connection was cut: 1",
        "redacted: key:*token* 1",
        "labels: {\"test\":\"a\"}",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}\n{text}");
    }
}

#[test]
fn tools_are_listed_with_their_parameters() {
    let text = view(&Inspect { tools: true, ..asked() }).unwrap();
    assert_eq!(
        text,
        "server \"files\"\n  read(path: string, lines?: [\"integer\",\"null\"])  [1 call, 1 error]\n      Reads\\u001b[1m a file.\n"
    );
    assert_eq!(
        view(&Inspect { tools: true, server: Some("web".into()), ..asked() }).unwrap(),
        "no tools were listed\n"
    );
}

#[test]
fn json_is_json_and_harmless() {
    for inspect in [
        asked(),
        Inspect { timeline: true, ..asked() },
        Inspect { tools: true, ..asked() },
        Inspect { exchange: Some(2), ..asked() },
        Inspect { exchange: Some(3), ..asked() },
    ] {
        let inspect = Inspect { format: Format::Json, ..inspect };
        let text = view(&inspect).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(value.is_object());
        assert!(!text.chars().any(|letter| letter.is_control() && letter != '\n'), "{text}");
        assert_eq!(view(&inspect).unwrap(), text);
    }
    let text = view(&Inspect { exchange: Some(3), format: Format::Json, ..asked() }).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["messages"][2]["end"], "cut");
    assert_eq!(value["outcome"], "not answered: the connection was cut");
    assert!(text.contains("\"data\": 1.0"));
}

#[test]
fn usage_errors() {
    let some = |text: &str| Some(text.to_owned());
    for (inspect, what) in [
        (Inspect { timeline: true, tools: true, ..asked() }, "one view"),
        (Inspect { exchange: Some(1), grep: some("x"), ..asked() }, "pick messages of the timeline"),
        (Inspect { grep: some("("), ..asked() }, "--grep \"(\": not a regular expression: unclosed group"),
        (Inspect { server: some("x"), ..asked() }, "has no server \"x\"; its servers are \"files\", \"web\""),
    ] {
        let error = view(&inspect).unwrap_err();
        assert_eq!((error.code(), error.to_string().contains(what)), (2, true), "{error}");
    }
}
