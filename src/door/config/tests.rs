use super::*;

fn parse(text: &str) -> Result<Config> {
    Config::parse(Path::new("mcp.json"), text.to_owned())
}

fn variables(name: &str) -> Option<String> {
    match name {
        "TOKEN" => Some("s3cret".to_owned()),
        "EMPTY" => Some(String::new()),
        _ => None,
    }
}

fn wrapped() -> Instead {
    Instead::Wrapped {
        program: "/bin/mcpreel".to_owned(),
        arguments: vec!["use".to_owned(), "--".to_owned()],
    }
}

fn at(kept: &[usize]) -> Instead {
    Instead::At { url: "http://127.0.0.1:1/x/mcp".to_owned(), kept: kept.to_vec() }
}

#[test]
fn only_what_reaches_a_server_changes() {
    for (text, instead, expected) in [
        (
            r#"{"mcpServers":{"a":{"command":"npx","args":["-y","x"],"env":{"K":"${K}"},"new":[1.0]}},"o":1e2}"#,
            vec![wrapped()],
            r#"{"mcpServers":{"a":{"command":"/bin/mcpreel","args":["use", "--", "npx", "-y","x"],"env":{"K":"${K}"},"new":[1.0]}},"o":1e2}"#,
        ),
        (
            r#"{"servers":{"a":{"type":"stdio","command":"${workspaceFolder}/s\u00e9"}}}"#,
            vec![wrapped()],
            r#"{"servers":{"a":{"type":"stdio","command":"/bin/mcpreel", "args": ["use", "--", "${workspaceFolder}/s\u00e9"]}}}"#,
        ),
        (
            r#"{"mcpServers":{"a":{"args":[],"command":"s"}}}"#,
            vec![wrapped()],
            r#"{"mcpServers":{"a":{"args":["use", "--", "s"],"command":"/bin/mcpreel"}}}"#,
        ),
        (
            "// all\n{\"servers\": {\n  /* one, \"two\" */ \"a\": {\"command\": \"s\", \"args\": [\"x\", // why\n  \"y\",], },\n},}\n",
            vec![wrapped()],
            "// all\n{\"servers\": {\n  /* one, \"two\" */ \"a\": {\"command\": \"/bin/mcpreel\", \"args\": [\"use\", \"--\", \"s\", \"x\",       \n  \"y\"], },\n},}\n",
        ),
        (
            r#"{"mcpServers":{"a":{"type":"http","url":"https://h/mcp","headers":{"Authorization":"Bearer s3cret","X-Key":"${input:key}"},"oauth":{}}}}"#,
            vec![at(&[1])],
            r#"{"mcpServers":{"a":{"type":"http","url":"http://127.0.0.1:1/x/mcp","headers":{"X-Key": "${input:key}"},"oauth":{}}}}"#,
        ),
        (
            r#"{"mcp":{"servers":{"a":{"httpUrl":"https://h/mcp"},"b":{"command":"s"}}}}"#,
            vec![at(&[]), wrapped()],
            r#"{"mcp":{"servers":{"a":{"httpUrl":"http://127.0.0.1:1/x/mcp"},"b":{"command":"/bin/mcpreel", "args": ["use", "--", "s"]}}}}"#,
        ),
        (
            "\u{feff}{\"servers\":{\"a\":{\"command\":\"s\",\"args\":[ ]}}}",
            vec![wrapped()],
            "\u{feff}{\"servers\":{\"a\":{\"command\":\"/bin/mcpreel\",\"args\":[\"use\", \"--\", \"s\"]}}}",
        ),
    ] {
        assert_eq!(parse(text).unwrap().rewritten(&instead), expected, "{text}");
    }
}

#[test]
fn every_entry_of_every_map_is_rewritten_and_no_address_is_left() {
    let new = r#"{"command":"/bin/mcpreel", "args": ["use", "--", "s"]}"#;
    let url = r#"{"url":"http://127.0.0.1:1/x/mcp"}"#;
    for (text, instead, expected) in [
        (
            r#"{"mcpServers":{"a":{"command":"s"}},"servers":{"b":{"url":"u"}},"mcp":{"servers":{"c":{"command":"s"}}},"projects":{"/x":{"mcpServers":{"d":{"command":"s"},"a":{"command":"s"}}},"/y":{"mcpServers":{}},"/z":{}}}"#,
            vec![wrapped(), at(&[]), wrapped(), wrapped()],
            format!(
                r#"{{"mcpServers":{{"a":{new}}},"servers":{{"b":{url}}},"mcp":{{"servers":{{"c":{new}}}}},"projects":{{"/x":{{"mcpServers":{{"d":{new},"a":{new}}}}},"/y":{{"mcpServers":{{}}}},"/z":{{}}}}}}"#
            ),
        ),
        // A name twice in one map: the last one, in both places; a map twice: both.
        (
            r#"{"mcpServers":{"a":{"url":"first"},"a":{"command":"s"}},"mcpServers":{"b":{"url":"u"}}}"#,
            vec![wrapped(), at(&[])],
            format!(r#"{{"mcpServers":{{"a":{new},"a":{new}}},"mcpServers":{{"b":{url}}}}}"#),
        ),
        // A key twice, and all names of the URL.
        (
            r#"{"servers":{"a":{"url":"x","serverUrl":"u","httpUrl":"\u0075","url":"u","headers":{"K":"1"},"headers":{}}}}"#,
            vec![at(&[])],
            r#"{"servers":{"a":{"url":"L","serverUrl":"L","httpUrl":"L","url":"L","headers":{},"headers":{}}}}"#
                .replace('L', "http://127.0.0.1:1/x/mcp"),
        ),
        (
            r#"{"servers":{"a":{"command":"x","args":["1"],"command":"s","args":[]}}}"#,
            vec![wrapped()],
            r#"{"servers":{"a":{"command":"/bin/mcpreel","args":["use", "--", "s"],"command":"/bin/mcpreel","args":["use", "--", "s"]}}}"#.to_owned(),
        ),
        // The type tells which way is meant, and the other one leads nowhere.
        (
            r#"{"servers":{"a":{"type":"http","command":"s","args":["x"],"url":"u"}}}"#,
            vec![at(&[])],
            r#"{"servers":{"a":{"type":"http","command":null,"args":[],"url":"http://127.0.0.1:1/x/mcp"}}}"#.to_owned(),
        ),
        (
            r#"{"servers":{"a":{"type":"stdio","command":"s","url":"u","headers":{"K":"v"}}}}"#,
            vec![wrapped()],
            r#"{"servers":{"a":{"type":"stdio","command":"/bin/mcpreel", "args": ["use", "--", "s"],"url":null,"headers":{}}}}"#.to_owned(),
        ),
        // What only has the name of a map is none.
        (
            r#"{"servers":["h1"],"mcpServers":{"a":{"command":"s"}}}"#,
            vec![wrapped()],
            format!(r#"{{"servers":["h1"],"mcpServers":{{"a":{new}}}}}"#),
        ),
    ] {
        assert_eq!(parse(text).unwrap().rewritten(&instead), expected, "{text}");
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

#[test]
fn variables_are_filled_in_as_clients_do() {
    for (text, filled, left) in [
        ("Bearer ${TOKEN}", "Bearer s3cret", &[][..]),
        ("${env:TOKEN}${TOKEN:-x}", "s3crets3cret", &[]),
        ("${NONE:-a:-b}/${EMPTY:-c}", "a:-b/c", &[]),
        (
            "${NONE}-${input:key}-${EMPTY}",
            "${NONE}-${input:key}-${EMPTY}",
            &["${NONE}", "${input:key}", "${EMPTY}"],
        ),
        ("$TOKEN {TOKEN} ${TOKEN", "$TOKEN {TOKEN} ${TOKEN", &[]),
        ("", "", &[]),
    ] {
        let got = fill(text, &variables);
        assert_eq!((got.text.as_str(), got.left.as_slice()), (filled, &owned(left)[..]), "{text}");
        // Defaults are not of the environment.
        let values: Vec<_> =
            got.values.iter().map(|(span, name)| (span.of(&got.text), name.as_str())).collect();
        assert_eq!(values, vec![("s3cret", "TOKEN"); filled.matches("s3cret").count()], "{text}");
    }
}

#[test]
fn names_urls_and_headers_are_read() {
    let config = parse(
        r#"{"mcpServers":{"a b":{"url":"https://h/${TOKEN}","headers":{"K":"v"}},"a":{"command":"x"},"a":{"serverUrl":"u"}}}"#,
    )
    .unwrap();
    let names: Vec<&str> = config.servers().iter().map(|server| server.name.as_str()).collect();
    assert_eq!(names, ["a b", "a"]);
    let Reached::Url { url, headers: Some((_, fields)) } = &config.servers()[0].reached else { panic!() };
    assert_eq!(config.url(*url, &variables).text, "https://h/s3cret");
    assert_eq!(config.header(&fields[0], &variables).0, "K");
    assert!(matches!(config.servers()[1].reached, Reached::Url { .. }));
}

#[test]
fn what_is_no_configuration_is_told_with_its_place() {
    for (text, expected) in [
        ("", "mcp.json: line 1: not a client's configuration: "),
        ("{\n\"mcpServers\": {]}", "mcp.json: line 2: not a client's configuration: "),
        (
            "{}",
            "mcp.json: no servers: expected an object `mcpServers` (Claude, Cursor) or `servers` (VS Code)",
        ),
        (r#"{"mcpServers":[]}"#, "mcp.json: /mcpServers: expected an object of servers by name"),
        (r#"{"mcpServers":{}}"#, "mcp.json: /mcpServers: names no server"),
        (r#"{"mcpServers":{"a":1}}"#, "mcp.json: /mcpServers/a: expected an object with `command` or `url`"),
        (r#"{"mcpServers":{"a":{"type":"http"}}}"#, "mcp.json: /mcpServers/a: neither `command` nor `url`"),
        (r#"{"mcpServers":{"a":{"command":["x"]}}}"#, "mcp.json: /mcpServers/a/command: expected a string"),
        (
            r#"{"mcpServers":{"a":{"command":"x","args":"y"}}}"#,
            "mcp.json: /mcpServers/a/args: expected an array",
        ),
        (
            r#"{"servers":{"a":{"url":"u","headers":{"K":1}}}}"#,
            "mcp.json: /servers/a/headers/K: expected a string",
        ),
        (
            r#"{"servers":{"a":{"command":"x","url":"u"}}}"#,
            "mcp.json: /servers/a: both `command` and `url`: say by `type` how this server is reached",
        ),
        (
            r#"{"servers":{"a":{"url":"u","httpUrl":"v"}}}"#,
            "mcp.json: /servers/a: `url` and `httpUrl` are two addresses: which one is it?",
        ),
        (
            r#"{"servers":{"a":{"command":"x"}},"mcpServers":{"a":{"command":"x","args":["y"]}}}"#,
            "mcp.json: /servers/a: is another server than the one of this name at /mcpServers/a: give one of them",
        ),
        (r#"{"mcpServers":{"":{"command":"x"}}}"#, "mcp.json: /mcpServers/: a server needs a name"),
    ] {
        let error = parse(text).unwrap_err();
        assert!(error.to_string().starts_with(expected), "{text}: {error}");
        assert_eq!(error.code(), 2);
    }
}
