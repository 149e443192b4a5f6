//! What is found beyond keys: neighbours, texts, encodings, echoes, known secrets; and what must stay.

use super::super::{Options, TextPack};
use super::*;
use std::path::Path;

/// Redacts a text as the text of a tool's result.
fn in_result(text: &str) -> String {
    let message = format!(
        r#"{{"jsonrpc":"2.0","id":1,"result":{{"content":[{{"type":"text","text":{}}}]}}}}"#,
        crate::jsonrpc::string::encode(text)
    );
    let redacted = redact(&[], &message);
    let tree = Tree::of(&redacted).unwrap();
    let node = (0..tree.len()).find(|node| tree.name_is(*node, "text")).unwrap();
    crate::jsonrpc::string::decode(tree.text_of(node)).into_owned()
}

fn session(redactor: &mut Redactor, lines: &[(Side, &str, &str)]) {
    for (side, line, expected) in lines {
        let got = redactor.redact(line, *side).map_or_else(|| (*line).to_owned(), |redacted| redacted.text);
        assert_eq!(got, *expected);
    }
}

fn arguments(inside: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{inside}}}}}"#
    )
}

#[test]
fn neighbours_name_values() {
    for (given, expected) in [
        (
            r#"{"env":[{"name":"API_KEY","value":"abc"}]}"#,
            r#"{"env":[{"name":"API_KEY","value":"REDACTED-1"}]}"#,
        ),
        (
            r#"{"h":[{"value":"abc","key":"Authorization"}]}"#,
            r#"{"h":[{"value":"REDACTED-1","key":"Authorization"}]}"#,
        ),
        (r#"{"h":[{"name":"Accept","value":"abc"}]}"#, r#"{"h":[{"name":"Accept","value":"abc"}]}"#),
        (
            r#"{"h":[{"name":"X-Api-Key","values":["abc"]},{"key":"password","value":{"is":"def","n":5}},{"k":"passwd","value":123}]}"#,
            r#"{"h":[{"name":"X-Api-Key","values":["REDACTED-1"]},{"key":"password","value":{"is":"REDACTED-2","n":0}},{"k":"passwd","value":0}]}"#,
        ),
        (
            r#"{"h":[{"name":"tokens","value":{"in":5}},{"name":"max_tokens","value":5},{"name":"token","value":{"type":"string"}}]}"#,
            r#"{"h":[{"name":"tokens","value":{"in":5}},{"name":"max_tokens","value":5},{"name":"token","value":{"type":"string"}}]}"#,
        ),
        (
            r#"{"h":[["X-Api-Key","abc"],["Accept","b"]]}"#,
            r#"{"h":[["X-Api-Key","REDACTED-1"],["Accept","b"]]}"#,
        ),
        (
            r#"{"args":["-y","srv","--api-key","abc","--port","1"]}"#,
            r#"{"args":["-y","srv","--api-key","REDACTED-1","--port","1"]}"#,
        ),
        (r#"{"args":["--token","--verbose"]}"#, r#"{"args":["--token","--verbose"]}"#),
        (r#"{"env":["API_KEY=abc","A=b"]}"#, r#"{"env":["API_KEY=REDACTED-1","A=b"]}"#),
        (r#"{"words":["token","secret","key"]}"#, r#"{"words":["token","secret","key"]}"#),
        // The protocol's names are its own only where the protocol has them.
        (r#"{"progressToken":"abc"}"#, r#"{"progressToken":"REDACTED-1"}"#),
        (r#"{"progressToken":7,"page_token":"x"}"#, r#"{"progressToken":7,"page_token":"x"}"#),
        (r#"{"inputSchema":{"token":"abc"}}"#, r#"{"inputSchema":{"token":"REDACTED-1"}}"#),
        (
            r#"{"inputSchema":{"type":"object","properties":{"token":{"type":"string"}},"password":"x"}}"#,
            r#"{"inputSchema":{"type":"object","properties":{"token":{"type":"string"}},"password":"REDACTED-1"}}"#,
        ),
    ] {
        assert_eq!(redact(&[], &arguments(given)), arguments(expected));
    }
}

#[test]
fn neighbours_name_values_wherever_they_stand() {
    let pairs = [
        (r#"[{"name":"password","value":"abc"}]"#, r#"[{"name":"password","value":"REDACTED-1"}]"#),
        (r#"[["X-Api-Key","abc"]]"#, r#"[["X-Api-Key","REDACTED-1"]]"#),
        (r#"["--token","abc"]"#, r#"["--token","REDACTED-1"]"#),
    ];
    for message in [
        r#"{"id":1,"method":"x/y","params":{"h":@}}"#,
        r#"{"id":1,"method":"x/y","params":{"a":{"b":@}}}"#,
        r#"{"id":1,"result":{"h":@}}"#,
        r#"{"id":1,"result":{"content":[],"h":@}}"#,
        r#"{"id":1,"result":@}"#,
        r#"{"method":"notifications/x","params":@}"#,
        r#"{"id":1,"method":"initialize","params":{"capabilities":{"experimental":{"h":{"a":@}}}}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"t","_meta":{"h":@}}}"#,
        r#"{"id":1,"error":{"code":1,"message":"m","h":@}}"#,
        r#"{"id":1,"method":"x","h":@}"#,
    ] {
        for (given, expected) in pairs {
            assert_eq!(redact(&[], &message.replace('@', given)), message.replace('@', expected), "{given}");
        }
    }
    // What the protocol has in such places means what it says.
    for message in [
        r#"{"id":1,"result":{"completion":{"values":["password","secret"],"total":2}}}"#,
        r#"{"id":1,"result":{"content":[{"type":"text","text":"","annotations":{"audience":["token","user"]}}]}}"#,
        r#"{"id":1,"method":"sampling/createMessage","params":{"messages":[],"stopSequences":["token","end"]}}"#,
    ] {
        assert_eq!(redact(&[], message), message);
    }
}

#[test]
fn text_is_looked_through() {
    for (given, expected) in [
        // URLs inside text.
        (
            "see https://u:FAKE-up-1Ab2@lab.example/mcp?api_key=FAKE-uq-3Cd4&page=2#access_token=FAKE-uf-5Ef6 ok",
            "see https://REDACTED-1@lab.example/mcp?api_key=REDACTED-2&page=2#access_token=REDACTED-3 ok",
        ),
        ("https://u:p4ss@h/x?token=t0k&a=b", "https://REDACTED-1@h/x?token=REDACTED-2&a=b"),
        // JSON that was cut off.
        (r#"{"password":"abc"#, r#"{"password":"REDACTED-1"#),
        (r#"{"a":"{\"password\":\"abc"#, r#"{"a":"{\"password\":\"REDACTED-1"#),
        // JSON that was laid out for people.
        (
            "{\n  \"h\": [\n    [\n      \"X-Api-Key\",\n      \"abc\"\n    ]\n  ]\n}",
            "{\n  \"h\": [\n    [\n      \"X-Api-Key\",\n      \"REDACTED-1\"\n    ]\n  ]\n}",
        ),
        ("[\r\n\t\"X-Api-Key\",\r\n\t\"abc\"\r\n]", "[\r\n\t\"X-Api-Key\",\r\n\t\"REDACTED-1\"\r\n]"),
        (r#"[{"password":"a\"bc","user":"x""#, r#"[{"password":"REDACTED-1","user":"x""#),
        (r#"{"tokens":["abc","#, r#"{"tokens":["REDACTED-1","#),
        (r#"{"tokens":["abc","de"#, r#"{"tokens":["REDACTED-1","REDACTED-2"#),
        (r#"{"tokens":["abc","d\u00"#, r#"{"tokens":["REDACTED-1","REDACTED-2"#),
        (
            r#"{"a":1,"credentials":{"user":"joe","pin":[77],"value":"abc"},"list":["a","b"#,
            r#"{"a":1,"credentials":{"user":"REDACTED-1","pin":[0],"value":"REDACTED-2"},"list":["a","b"#,
        ),
        (r#"{"headers":[["X-Api-Key","abc"],["a"#, r#"{"headers":[["X-Api-Key","REDACTED-1"],["a"#),
        (r#"[{"name":"password","value":"abc"#, r#"[{"name":"password","value":"REDACTED-1"#),
        (r#"{"a":"{\"tokens\":[\"abc\",\""#, r#"{"a":"{\"tokens\":[\"REDACTED-1\",\""#),
        (r#"got {"tokens":["abc", ... (9 more)"#, r#"got {"tokens":["REDACTED-1", ... (9 more)"#),
        ("{\"tokens\":[\"abc\nnext line", "{\"tokens\":[\"REDACTED-1\nnext line"),
        (r#"{"a":{"b":1},"password": hunter2"#, r#"{"a":{"b":1},"password": REDACTED-1"#),
        (r#"{"a":"b","password":"c:\xyz"#, r#"{"a":"b","password":"REDACTED-1"#),
        (r#"rue,"tokens":["abc","d"],"a":["b"]}"#, r#"rue,"tokens":["REDACTED-1","REDACTED-2"],"a":["b"]}"#),
        (r#"{"a":["x","#, r#"{"a":["x","#),
        (r#"{"tokens":{"in":5,"of":["#, r#"{"tokens":{"in":5,"of":["#),
        (r#"in "password":{"type":"string"}"#, r#"in "password":{"type":"string"}"#),
        ("{'password': 'abc', 'n': 1}", "{'password': 'REDACTED-1', 'n': 1}"),
        // Base64.
        ("see cGFzc3dvcmQ9aHVudGVyMiEh there", "see REDACTED-1 there"),
        ("dXNlciBib2JAZXhhbXBsZS5jb20gc2F5cyBoaQ", "REDACTED-1"),
        ("xdXNlciBib2JAZXhhbXBsZS5jb20gc2F5cyBoaQ", "REDACTED-1"),
        ("bm90aGluZyB0byBzZWUgaGVyZSBhdCBhbGw=", "bm90aGluZyB0byBzZWUgaGVyZSBhdCBhbGw="),
        // What stays.
        (r#"print "--- rotate token ---""#, r#"print "--- rotate token ---""#),
        (
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
        ),
        ("normalizeToolResultImages", "normalizeToolResultImages"),
        (
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
            "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
        ),
        ("2025-06-18", "2025-06-18"),
        // Pseudonyms of mcp-cassette and placeholders of ours are none to replace.
        (
            "mail <EMAIL>_0ae25ee7e80b, REDACTED-3, redacted-1@redacted.invalid at 192.0.2.1 or 2001:db8::1",
            "mail <EMAIL>_0ae25ee7e80b, REDACTED-3, redacted-1@redacted.invalid at 192.0.2.1 or 2001:db8::1",
        ),
        ("password=<EMAIL>_0ae25ee7e80b", "password=<EMAIL>_0ae25ee7e80b"),
        ("••••1111", "••••1111"),
    ] {
        assert_eq!(in_result(given), expected, "{given}");
    }
}

#[test]
fn values_that_route_lose_credentials_only() {
    for (given, expected) in [
        (
            r#"{"id":1,"method":"resources/read","params":{"uri":"http://10.0.0.1/bob@example.com"}}"#,
            r#"{"id":1,"method":"resources/read","params":{"uri":"http://10.0.0.1/bob@example.com"}}"#,
        ),
        (
            r#"{"id":1,"method":"resources/read","params":{"uri":"https://u:pw1@h/x?token=abc"}}"#,
            r#"{"id":1,"method":"resources/read","params":{"uri":"https://REDACTED-1@h/x?token=REDACTED-2"}}"#,
        ),
        (
            r#"{"id":1,"result":{"tools":[{"name":"AKIAIOSFODNN7EXAMPLE","description":"mail bob@example.com"}]}}"#,
            r#"{"id":1,"result":{"tools":[{"name":"REDACTED-1","description":"mail redacted-2@redacted.invalid"}]}}"#,
        ),
        (
            r#"{"id":1,"method":"tools/list","params":{"cursor":"cGFzc3dvcmQ9aHVudGVyMiEh"}}"#,
            r#"{"id":1,"method":"tools/list","params":{"cursor":"cGFzc3dvcmQ9aHVudGVyMiEh"}}"#,
        ),
        (
            r#"{"id":1,"result":{"nextCursor":"sk-ant-api03-a1B2c3D4e5F6g7H8i9J0"}}"#,
            r#"{"id":1,"result":{"nextCursor":"REDACTED-1"}}"#,
        ),
        (
            r#"{"id":1,"result":{"serverInfo":{"name":"x","version":"10.1.2.3"}}}"#,
            r#"{"id":1,"result":{"serverInfo":{"name":"x","version":"10.1.2.3"}}}"#,
        ),
        (
            r#"{"id":1,"result":{"content":[{"type":"image","mimeType":"image/png","data":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
            r#"{"id":1,"result":{"content":[{"type":"image","mimeType":"image/png","data":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
        ),
        (
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/toml","blob":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/toml","blob":"REDACTED-1"}]}}"#,
        ),
        (
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"","blob":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"","blob":"REDACTED-1"}]}}"#,
        ),
        (
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/x-sh","blob":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/x-sh","blob":"REDACTED-1"}]}}"#,
        ),
        (
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/yaml; charset=utf-8","blob":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/yaml; charset=utf-8","blob":"REDACTED-1"}]}}"#,
        ),
        (
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/geo+json","blob":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"application/geo+json","blob":"REDACTED-1"}]}}"#,
        ),
        (
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"text/plain","blob":"cGFzc3dvcmQ9aHVudGVyMiEh"}]}}"#,
            r#"{"id":1,"result":{"contents":[{"uri":"x:y","mimeType":"text/plain","blob":"REDACTED-1"}]}}"#,
        ),
        (
            r#"{"id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"m":{"type":"string","format":"email","pattern":"^a@b.cd$","default":"bob@example.com"}}}}]}}"#,
            r#"{"id":1,"result":{"tools":[{"name":"t","inputSchema":{"type":"object","properties":{"m":{"type":"string","format":"email","pattern":"^a@b.cd$","default":"redacted-1@redacted.invalid"}}}}]}}"#,
        ),
        // A name is text as well.
        (
            r#"{"id":1,"result":{"structuredContent":{"bob@example.com":{"n":1}}}}"#,
            r#"{"id":1,"result":{"structuredContent":{"redacted-1@redacted.invalid":{"n":1}}}}"#,
        ),
    ] {
        assert_eq!(redact(&[], given), expected);
    }
}

#[test]
fn a_value_is_found_again_without_its_key() {
    let mut redactor = redactor(&[]);
    session(
        &mut redactor,
        &[
            (
                Side::Server,
                r#"{"id":0,"result":{"t":"too early: FAKE-echo/4Vb6"}}"#,
                r#"{"id":0,"result":{"t":"too early: FAKE-echo/4Vb6"}}"#,
            ),
            (
                Side::Client,
                &arguments(r#"{"api_key":"FAKE-echo/4Vb6","pin_token":"short1","q":"FAKE-echo/4Vb6"}"#),
                &arguments(r#"{"api_key":"REDACTED-1","pin_token":"REDACTED-2","q":"REDACTED-1"}"#),
            ),
            (
                Side::Server,
                r#"{"id":1,"error":{"code":1,"message":"its value was FAKE-echo/4Vb6."}}"#,
                r#"{"id":1,"error":{"code":1,"message":"its value was REDACTED-1."}}"#,
            ),
            (
                Side::Server,
                r#"{"id":1,"result":{"x":"https://h/?q=FAKE-echo%2F4Vb6&r=FAKE-echo%2f4Vb6"}}"#,
                r#"{"id":1,"result":{"x":"https://h/?q=REDACTED-1&r=REDACTED-1"}}"#,
            ),
            (
                Side::Server,
                r#"{"id":1,"result":{"x":"{\"y\":\"FAKE-echo\\/4Vb6\"}","z":"short1"}}"#,
                r#"{"id":1,"result":{"x":"{\"y\":\"REDACTED-1\"}","z":"short1"}}"#,
            ),
            (
                Side::Server,
                r#"{"id":1,"result":{"x":"RkFLRS1lY2hvLzRWYjYgd2FzIHNlZW4="}}"#,
                r#"{"id":1,"result":{"x":"REDACTED-3"}}"#,
            ),
            (
                Side::Server,
                r#"{"method":"FAKE-echo/4Vb6","params":{"x":[{"type":"FAKE-echo/4Vb6"}]}}"#,
                r#"{"method":"FAKE-echo/4Vb6","params":{"x":[{"type":"FAKE-echo/4Vb6"}]}}"#,
            ),
            (
                Side::Client,
                &arguments(r#"{"Authorization":"Bearer FAKE-bear-7Hj9"}"#),
                &arguments(r#"{"Authorization":"REDACTED-4"}"#),
            ),
            (
                Side::Server,
                r#"{"id":1,"result":{"x":"got FAKE-bear-7Hj9"}}"#,
                r#"{"id":1,"result":{"x":"got REDACTED-5"}}"#,
            ),
            (Side::Server, "plain line: FAKE-bear-7Hj9", "plain line: REDACTED-5"),
        ],
    );
    assert_eq!(redactor.scrub("stderr: FAKE-bear-7Hj9"), "stderr: REDACTED");
    assert_eq!(redactor.counts()["key:*api_key*"], 7);
}

#[test]
fn known_secrets_are_nowhere() {
    let secrets = ["FAKE/pct+6Lk=2".to_owned(), "FAKE-ansi-4Hj7".to_owned()];
    let options = Options { defaults: true, secrets: &secrets, ..Options::default() };
    let rules = Arc::new(Rules::build(&options).unwrap());
    let mut redactor = Redactor::new(Arc::clone(&rules), 1);
    session(
        &mut redactor,
        &[
            (
                Side::Client,
                r#"{"id":"FAKE-ansi-4Hj7","method":"FAKE-ansi-4Hj7","FAKE-ansi-4Hj7":1}"#,
                r#"{"id":"REDACTED-1","method":"REDACTED-1","REDACTED-1":1}"#,
            ),
            (
                Side::Server,
                r#"{"id":1,"result":{"x":"FAKE-an\u001b[31msi-4Hj7","y":"q=FAKE%2fpct%2b6Lk%3d2"}}"#,
                r#"{"id":1,"result":{"x":"REDACTED-1","y":"q=REDACTED-2"}}"#,
            ),
            (Side::Server, "log: FAKE-ansi-4Hj7", "log: REDACTED-1"),
        ],
    );
    let bytes = redactor.redact_bytes(b"\xb0 FAKE-ansi-4Hj7 \xb0", Side::Server).unwrap();
    assert_eq!(bytes.0, b"\xb0 REDACTED-1 \xb0");
    assert_eq!(bytes.1, ["known"]);
    assert_eq!(redactor.scrub("x FAKE-ansi-4Hj7"), "x REDACTED");
    assert_eq!(rules.redact_url("https://h/FAKE-ansi-4Hj7"), "https://h/REDACTED");
    assert_eq!(rules.redact_command(&["x=FAKE-ansi-4Hj7".to_owned()]), ["x=REDACTED"]);
    let manifest = rules.manifest(redactor.counts());
    assert_eq!(manifest.rules[0], "known");
    assert_eq!(manifest.counts["known"], 7);
    assert!(!format!("{rules:?} {options:?}").contains("FAKE"));
    assert!(!serde_json::to_string(&manifest).unwrap().contains("FAKE"));
    // Replay has no secrets, and needs none.
    assert_eq!(Rules::from_manifest(&manifest, &[]).unwrap().manifest(&manifest.counts), manifest);
}

const TEAM: &str = r#"
version = 1
id = "team"
[[rules]]
id = "employee"
label = "EMPLOYEE"
regex = 'emp-[0-9]+'
flags = ["i"]
[[rules]]
id = "ticket"
label = "TICKET"
regex = 'T-[0-9]{6}'
strategy = "mask"
[[rules]]
id = "host"
label = "HOST"
regex = '[a-z]+\.corp'
strategy = "replace"
direction = "server"
"#;

#[test]
fn packs_add_rules() {
    let pack = TextPack::parse(Path::new("team.toml"), TEAM).unwrap();
    let packs = [pack];
    let options = Options { packs: &packs, profile: Some("strict"), ..Options::default() };
    let rules = Arc::new(Rules::build(&options).unwrap());
    let mut redactor = Redactor::new(Arc::clone(&rules), 1);
    session(
        &mut redactor,
        &[
            (
                Side::Client,
                &arguments(r#"{"a":"EMP-12 on db.corp, T-123456"}"#),
                &arguments(r#"{"a":"REDACTED-1 on db.corp, ••••3456"}"#),
            ),
            (
                Side::Server,
                r#"{"id":1,"result":{"a":"emp-7 on db.corp"}}"#,
                r#"{"id":1,"result":{"a":"REDACTED-2 on <HOST>"}}"#,
            ),
            (
                Side::Server,
                r#"{"id":1,"result":{"a":"REDACTED-2 on <HOST>, ••••3456"}}"#,
                r#"{"id":1,"result":{"a":"REDACTED-2 on <HOST>, ••••3456"}}"#,
            ),
        ],
    );
    let manifest = rules.manifest(redactor.counts());
    assert_eq!(manifest.rules, ["team/employee", "team/ticket", "team/host"]);
    assert_eq!(manifest.profile.as_deref(), Some("strict"));
    assert_eq!(manifest.packs[0].sha256, packs[0].sha256);
    assert_eq!(Rules::from_manifest(&manifest, &packs).unwrap().manifest(&manifest.counts), manifest);
    let error = Rules::from_manifest(&manifest, &[]).unwrap_err();
    assert_eq!(error.code(), 2);
    assert_eq!(
        error.to_string(),
        format!(
            "the cassette was redacted with the pack `team` (sha256 {}), which is not here; give its file with --pii-pack",
            packs[0].sha256
        )
    );
    // Another file of the same name is another pack.
    let other = TextPack::parse(Path::new("t.toml"), &TEAM.replace("emp-", "mit-")).unwrap();
    assert!(Rules::from_manifest(&manifest, std::slice::from_ref(&other)).is_err());
    let both = [packs[0].clone(), other];
    let error = Rules::build(&Options { packs: &both, ..Options::default() }).unwrap_err();
    assert_eq!(error.to_string(), "two redaction packs have the id `team`; rename one");
}

#[test]
fn a_salt_makes_placeholders_equal_across_recordings() {
    let pack = TEAM.replace("strategy = \"mask\"", "strategy = \"hash\"");
    let packs = [TextPack::parse(Path::new("team.toml"), &pack).unwrap()];
    let without = Rules::build(&Options { packs: &packs, ..Options::default() }).unwrap_err();
    assert_eq!(without.to_string(), "the rule `team/ticket` hashes, which needs a salt");
    let options = Options { defaults: true, packs: &packs, salt: Some(b"pepper"), ..Options::default() };
    let rules = Arc::new(Rules::build(&options).unwrap());
    let text = arguments(r#"{"token":"abc","m":"bob@example.com, 10.0.0.1, T-123456"}"#);
    let one = Redactor::new(Arc::clone(&rules), 1).redact(&text, Side::Client).unwrap().text;
    let mut other = Redactor::new(Arc::clone(&rules), 3);
    assert!(other.redact(&arguments(r#"{"token":"another"}"#), Side::Client).is_some());
    assert_eq!(other.redact(&text, Side::Client).unwrap().text, one);
    assert!(
        one.contains("\"REDACTED-") && one.contains("@redacted.invalid") && one.contains("<TICKET>_"),
        "{one}"
    );
    assert_eq!(other.redact(&one, Side::Client), None);
    let manifest = serde_json::to_string(&rules.manifest(&std::collections::BTreeMap::new())).unwrap();
    assert!(manifest.contains(r#""salt":"env""#) && !manifest.contains("pepper"), "{manifest}");
    assert!(!format!("{rules:?} {options:?}").contains("pepper"));
}

#[test]
fn formats_of_structured_values_are_kept() {
    assert_eq!(
        redact(
            &[],
            &arguments(
                r#"{"token_url":"https://h/x","token_id":"6f9619ff-8b86-d011-b42d-00cf4fc964ff","token_at":"2026-11-29T20:33:00Z","token_ip":"fe80::1"}"#
            )
        ),
        arguments(
            r#"{"token_url":"https://redacted.invalid/1","token_id":"00000000-0000-4000-8000-000000000002","token_at":"1970-01-01T00:00:03Z","token_ip":"2001:db8::0:4"}"#
        ),
    );
}

#[test]
fn hostile_texts_take_no_quadratic_time() {
    for piece in [
        "token:",
        "token=\"",
        "token=\\\"",
        "'token:",
        "a@",
        "a.a@b.png ",
        "x.",
        "::",
        "1:",
        "1.2.3.4.",
        "4111-",
        "--token ",
        "-----BEGIN PRIVATE KEY-----\n",
        "eyJ",
        "[",
        "{\"a\":",
        "https://u:",
        "Basic ",
        "AKIA",
        "ghp_aaaa",
        "a=b&",
        "8.8.8.8 ",
        "DE89 3704 ",
        "QUJD",
        "\\u0041",
        "%41",
        "password=hunter2;",
        "token=f('",
        "token=f(\\\"",
        "token=f(",
        "token=get(\"a\",",
        "token=x || ",
        "input('Token: ')",
    ] {
        let text = piece.repeat(100_000 / piece.len());
        let once = in_result(&text);
        assert!(!once.contains("hunter2") && !once.contains("8.8.8.8"), "{piece}");
    }
}
