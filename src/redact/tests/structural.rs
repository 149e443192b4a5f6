//! "Structural rules" and "Placeholders" of the design, line by line.

use super::super::Redactor;
use super::*;

fn arguments(inside: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{inside}}}}}"#
    )
}

#[track_caller]
fn in_arguments(own: &[&str], inside: &str, expected: &str) {
    assert_eq!(redact(own, &arguments(inside)), arguments(expected));
}

#[test]
fn a_value_under_a_secret_name_is_replaced() {
    for name in [
        "token",
        "accessToken",
        "x-auth-token",
        "SECRET",
        "clientSecret",
        "password",
        "passWord",
        "db_password",
        "passwd",
        "apikey",
        "apiKey",
        "api_key",
        "X-API-Key",
        "Authorization",
        "credential",
        "awsCredentials",
        "private_key",
        "privateKey",
        "privatekey",
        "my token",
        "t\\u006fken",
    ] {
        in_arguments(
            &[],
            &format!(r#"{{"a": 1.0, "{name}" : "s\u00e9\"cret" }}"#),
            &format!(r#"{{"a": 1.0, "{name}" : "REDACTED-1" }}"#),
        );
    }
    for name in ["tok", "author", "key", "authorizationUrl", "pass", "private"] {
        let text = format!(r#"{{"{name}":"value"}}"#);
        in_arguments(&[], &text, &text);
    }
}

#[test]
fn what_replaces_which_value() {
    for (value, expected) in [
        (r#""x""#, r#""REDACTED-1""#),
        ("123", "0"),
        ("-1.5e3", "0"),
        ("0", "0"),
        ("true", "true"),
        ("null", "null"),
        (r#""""#, r#""""#),
        ("[]", "[]"),
        (r#"["a",1,null,"b","a"]"#, r#"["REDACTED-1",0,null,"REDACTED-2","REDACTED-1"]"#),
        (r#"{"user":"u","deep":[{"x":"y"}]}"#, r#"{"user":"REDACTED-1","deep":[{"x":"REDACTED-2"}]}"#),
        (r#""a@b.de""#, r#""redacted-1@redacted.invalid""#),
        (r#""10.0.0.1""#, r#""192.0.2.1""#),
        (r#""REDACTED-7""#, r#""REDACTED-7""#),
        (r#""{\"a\":1}""#, r#""REDACTED-1""#),
        (r#""\ud800""#, r#""REDACTED-1""#),
    ] {
        in_arguments(&[], &format!(r#"{{"secret":{value}}}"#), &format!(r#"{{"secret":{expected}}}"#));
    }
}

#[test]
fn numbers_go_by_first_appearance_in_the_process() {
    let mut first = redactor(&[]);
    let mut say =
        |value: &str| first.redact(&format!(r#"{{"token":"{value}"}}"#), Side::Server).unwrap().text;
    assert_eq!(say("a"), r#"{"token":"REDACTED-1"}"#);
    assert_eq!(say("b"), r#"{"token":"REDACTED-2"}"#);
    assert_eq!(say("a"), r#"{"token":"REDACTED-1"}"#);
    let mut second = Redactor::new(Arc::new(rules(&[])), 2);
    assert_eq!(second.redact(r#"{"token":"b"}"#, Side::Server).unwrap().text, r#"{"token":"REDACTED-2.1"}"#);
}

#[test]
fn rules_and_counts_are_told() {
    let mut redactor = redactor(&["pin"]);
    let redacted =
        redactor.redact(r#"{"token":["a","b"],"pin":1,"secret":"","password":"x"}"#, Side::Server).unwrap();
    assert_eq!(redacted.rules, ["key:*password*", "key:*token*", "key:pin"]);
    assert_eq!(redactor.redact(r#"{"method":"ping","id":1}"#, Side::Server), None);
    let counts: Vec<_> = redactor.counts().iter().map(|(id, count)| (id.as_str(), *count)).collect();
    assert_eq!(counts, [("key:*password*", 1), ("key:*token*", 2), ("key:pin", 1)]);
}

#[test]
fn own_globs_pointers_and_fixed_texts() {
    in_arguments(
        &["customer*"],
        r#"{"customerName":"x","Customer-Id":7}"#,
        r#"{"customerName":"REDACTED-1","Customer-Id":0}"#,
    );
    in_arguments(
        &["pin=a\"b"],
        r#"{"pin":"x","y":"{\"pin\":\"z\"}"}"#,
        r#"{"pin":"a\"b","y":"{\"pin\":\"a\\\"b\"}"}"#,
    );
    in_arguments(&["*token*=T"], r#"{"token":"x","secret":"y"}"#, r#"{"token":"T","secret":"REDACTED-1"}"#);
    in_arguments(
        &["/params/arguments/q"],
        r#"{"q":"x","r":{"q":"y"}}"#,
        r#"{"q":"REDACTED-1","r":{"q":"y"}}"#,
    );
    in_arguments(&["/params/arguments/q"], r#"{"q":{"a":["x",5]}}"#, r#"{"q":{"a":["REDACTED-1",0]}}"#);
    in_arguments(
        &["/params/arguments/*/1=F"],
        r#"{"q":["x","y"],"r":{"1":"z"}}"#,
        r#"{"q":["x","F"],"r":{"1":"F"}}"#,
    );
    in_arguments(&["/params/arguments/a~1b~0"], r#"{"a/b~":"x"}"#, r#"{"a/b~":"REDACTED-1"}"#);
    in_arguments(&["/params/arguments/q"], r#"{"q":"x","q":"y"}"#, r#"{"q":"REDACTED-1","q":"REDACTED-2"}"#);
    assert_eq!(
        redact(
            &["/result/content/*/text"],
            r#"{"id":1,"result":{"content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}}"#
        ),
        r#"{"id":1,"result":{"content":[{"type":"text","text":"REDACTED-1"},{"type":"text","text":"REDACTED-2"}]}}"#
    );
    assert_eq!(
        redact(&["/params/q"], r#"[{"method":"a","params":{"q":"x"}},{"method":"b","params":{"q":"y"}}]"#),
        r#"[{"method":"a","params":{"q":"REDACTED-1"}},{"method":"b","params":{"q":"REDACTED-2"}}]"#
    );
}

#[test]
fn without_defaults_only_own_rules_count() {
    let rules = Rules::new(false, &["pin".to_owned()]).unwrap();
    let found = rules.find(r#"{"params":{"token":"a","pin":"b"}}"#);
    assert_eq!(found.iter().map(|hit| hit.value.as_str()).collect::<Vec<_>>(), ["b"]);
    assert!(Rules::new(false, &[]).unwrap().find(r#"{"token":"a"}"#).is_empty());
}

#[test]
fn protocol_fields_stay() {
    for text in [
        r#"{"id":1,"method":"tools/call","params":{"name":"t","_meta":{"progressToken":"abc"},"arguments":{}}}"#,
        r#"{"method":"notifications/progress","params":{"progressToken":"abc","progress":1,"total":2}}"#,
        r#"{"id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":100}}"#,
        r#"{"id":1,"method":"tools/call","params":{"name":"get_token","requestState":"sealed"}}"#,
        r#"{"id":1,"result":{"tools":[{"name":"token"}],"nextCursor":"abc"}}"#,
        r#"{"id":1,"result":{"structuredContent":{"nextPageToken":"abc","page_token":"x","continuation_token":"y","NextToken":"z"}}}"#,
        r#"{"id":"token","method":"secret","params":{"name":"password"}}"#,
        r#"{"id":1,"method":"completion/complete","params":{"ref":{"type":"ref/prompt","name":"token"},"argument":{"name":"token","value":"a"}}}"#,
    ] {
        assert_eq!(redact(&[], text), text);
    }
    in_arguments(
        &[],
        r#"{"page_token":"p","pageToken":"p","token":"t"}"#,
        r#"{"page_token":"p","pageToken":"p","token":"REDACTED-1"}"#,
    );
}

#[test]
fn json_schemas_stay_but_for_values_of_secret_properties() {
    for member in ["inputSchema", "outputSchema", "requestedSchema"] {
        let schema = |values: &str, enums: &str| {
            format!(
                r#"{{"id":1,"result":{{"tools":[{{"name":"t","{member}":{{"type":"object","properties":{{"page_token":{{"type":"string","default":"p"}},"password":{{"type":"string","description":"the token","title":"secret: x","default":{values},"enum":{enums},"minLength":8}},"max_tokens":{{"type":"integer","default":100,"enum":[1,2]}},"q":{{"default":"q","const":{{"token":{values}}}}},"credentials":{{"type":"object","properties":{{"user":{{"examples":[{values}]}}}},"required":["token"]}}}},"required":["password","token"],"$defs":{{"secret":{{"const":{values}}}}}}}}}]}}}}"#
            )
        };
        assert_eq!(
            redact(&[], &schema(r#""hunter2""#, r#"["hunter2",7,null]"#)),
            schema(r#""REDACTED-1""#, r#"["REDACTED-1",0,null]"#)
        );
    }
    // Every keyword says something of the secret, and is none.
    for keywords in [
        r#""type":"object","maxProperties":5,"minProperties":1,"$vocabulary":{"https://s.example/v":true}"#,
        r#""type":"array","contains":{"type":"string"},"minContains":1,"maxContains":3,"minItems":1,"maxItems":4"#,
        r##""$anchor":"a","$dynamicAnchor":"b","$dynamicRef":"#b","$recursiveRef":"#","$ref":"#/$defs/c","$comment":"d""##,
        r#""type":"integer","minimum":1,"maximum":9,"exclusiveMinimum":0,"exclusiveMaximum":10,"multipleOf":1"#,
        r#""type":"string","minLength":1,"maxLength":9,"pattern":"a","format":"b","contentEncoding":"c","contentMediaType":"d/e""#,
        r#""type":"string","x-mcp-header":"Key""#,
    ] {
        let schema = format!(r#"{{"type":"object","properties":{{"credentials":{{{keywords}}}}}}}"#);
        let list = format!(r#"{{"id":1,"result":{{"tools":[{{"name":"t","inputSchema":{schema}}}]}}}}"#);
        assert_eq!(redact(&[], &list), list);
        in_arguments(&[], &schema, &schema);
    }
    // A schema that is not called so, in nested text.
    in_arguments(
        &[],
        r#"{"x":"{\"parameters\":{\"type\":\"object\",\"properties\":{\"token\":{\"type\":\"string\",\"default\":\"d\"}}}}"}"#,
        r#"{"x":"{\"parameters\":{\"type\":\"object\",\"properties\":{\"token\":{\"type\":\"string\",\"default\":\"REDACTED-1\"}}}}"}"#,
    );
    // Nor one that says what it is only by its members.
    for schema in [
        r#"{"properties":{"token":{"type":"string"}}}"#,
        r##"{"anyOf":[{"properties":{"token":{"type":"string"}}},{"$ref":"#/$defs/secret"}]}"##,
        r#"{"$defs":{"secret":{"type":["string","null"],"minLength":8}}}"#,
        r#"{"token":{"type":"string"}}"#,
        r#"{"password":{"anyOf":[{"type":"string"},{"type":"null"}],"title":"Password","default":null}}"#,
        r#"{"secrets":{"type":"array","items":{"type":"string"}}}"#,
    ] {
        in_arguments(&[], schema, schema);
        in_arguments(
            &[],
            &format!(r#"{{"inputSchema":{schema}}}"#),
            &format!(r#"{{"inputSchema":{schema}}}"#),
        );
    }
    // What a schema has no place for, and what it says of a secret's value.
    for (schema, expected) in [
        (
            r#"{"type":"object","properties":{"token":{"type":"string","value":"x","x-at":"y","x-of":{"v":"z"}}}}"#,
            r#"{"type":"object","properties":{"token":{"type":"string","value":"REDACTED-1","x-at":"REDACTED-2","x-of":{"v":"REDACTED-3"}}}}"#,
        ),
        (r#"{"token":{"type":"string","const":"x"}}"#, r#"{"token":{"type":"string","const":"REDACTED-1"}}"#),
        (
            r#"{"token":{"type":"bearer","title":"x"}}"#,
            r#"{"token":{"type":"REDACTED-1","title":"REDACTED-2"}}"#,
        ),
        (r#"{"token":{"$ref":"x"}}"#, r#"{"token":{"$ref":"REDACTED-1"}}"#),
        (
            r#"{"secret":{"type":"object","properties":{"a":"x"}}}"#,
            r#"{"secret":{"type":"REDACTED-1","properties":{"a":"REDACTED-2"}}}"#,
        ),
        (
            r#"{"secret":{"type":"array","items":["x"]}}"#,
            r#"{"secret":{"type":"REDACTED-1","items":["REDACTED-2"]}}"#,
        ),
    ] {
        in_arguments(&[], schema, expected);
    }
    // Data that only looks like one.
    in_arguments(
        &[],
        r#"{"type":"object","properties":{"token":"x"}}"#,
        r#"{"type":"object","properties":{"token":"REDACTED-1"}}"#,
    );
}

#[test]
fn counts_stay() {
    for inside in [
        r#"{"totalTokens":512,"token_count":7,"tokens":12,"max_tokens":"1,000"}"#,
        r#"{"usage":{"prompt_tokens":5,"prompt_tokens_details":{"cached_tokens":3,"audio":0.5}}}"#,
        r#"{"tokens":[101,2023,102],"tokenUsage":{"input":5,"model":"m"},"secret_count":2}"#,
        r#"{"x":"{\"totalTokens\": 512}","y":"max_tokens=512&page_token=5"}"#,
    ] {
        in_arguments(&[], inside, inside);
    }
    in_arguments(
        &[],
        r#"{"token":482913,"tokens":{"access":"a","n":3},"access_tokens":["b"],"token_limit":"abc"}"#,
        r#"{"token":0,"tokens":{"access":"REDACTED-1","n":3},"access_tokens":["REDACTED-2"],"token_limit":"REDACTED-3"}"#,
    );
}

#[test]
fn text_that_is_json_is_opened() {
    for (inside, expected) in [
        (r#""{\"password\": \"hunter2\", \"n\":1.0}""#, r#""{\"password\": \"REDACTED-1\", \"n\":1.0}""#),
        (r#""[{\"pin\":1,\"token\":2}]""#, r#""[{\"pin\":1,\"token\":0}]""#),
        (
            r#""\u007b\u0022token\u0022:\u0022a\u0022}""#,
            r#""\u007b\u0022token\u0022:\u0022REDACTED-1\u0022}""#,
        ),
        (
            r#""{\"a\":\"{\\\"token\\\":\\\"x\\\\\\\"y\\\"}\"}""#,
            r#""{\"a\":\"{\\\"token\\\":\\\"REDACTED-1\\\"}\"}""#,
        ),
        (r#""\"{\\\"token\\\":\\\"x\\\"}\"""#, r#""\"{\\\"token\\\":\\\"REDACTED-1\\\"}\"""#),
        (
            "\"caf\\u00e9 {\\\"token\\\":\\\"x\\\"}\\n{\\\"token\\\":\\\"y\\\"}\"",
            "\"caf\\u00e9 {\\\"token\\\":\\\"REDACTED-1\\\"}\\n{\\\"token\\\":\\\"REDACTED-2\\\"}\"",
        ),
        (r#""{\"token\":""#, r#""{\"token\":""#),
        (
            r#""grant_type=x&client_secret=a%20b&scope=c+d""#,
            r#""grant_type=x&client_secret=REDACTED-1&scope=c+d""#,
        ),
        (
            r#""a=1&payload=%7B%22token%22%3A%22x%22%7D""#,
            r#""a=1&payload=%7B%22token%22%3A%22REDACTED-1%22%7D""#,
        ),
        (r#""user%5Bpassword%5D=a%40b.de""#, r#""user%5Bpassword%5D=redacted-1%40redacted.invalid""#),
        (
            r#""https://h/p?a=b&access_token=x#id_token=y""#,
            r#""https://h/p?a=b&access_token=REDACTED-1#id_token=REDACTED-2""#,
        ),
        (r#""QmFzZTY0IHNheXMtoKeNcw==""#, r#""QmFzZTY0IHNheXMtoKeNcw==""#),
        (r#""token = a and so on""#, r#""token = a and so on""#),
    ] {
        in_arguments(&[], &format!(r#"{{"x":{inside}}}"#), &format!(r#"{{"x":{expected}}}"#));
        let result =
            |text: &str| format!(r#"{{"id":1,"result":{{"content":[{{"type":"text","text":{text}}}]}}}}"#);
        assert_eq!(redact(&[], &result(inside)), result(expected));
    }
}

#[test]
fn nesting_is_opened_a_few_levels_deep() {
    let mut text = r#"{"token":"x"}"#.to_owned();
    for level in 1..=10 {
        text = format!(r#"{{"a":{}}}"#, crate::jsonrpc::string::encode(&text));
        let found = rules(&[]).find(&text);
        // Deeper ones are found as text.
        assert_eq!(found.len(), 1, "{level}");
        assert_eq!(found[0].span.of(&text), "x");
        assert_eq!(found[0].part, level > 8);
        if level <= 8 {
            assert_eq!(found[0].path, "/a#".repeat(level) + "/token");
        }
    }
}

#[test]
fn what_routes_a_message_stays_under_any_rule() {
    let text = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":3,"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":"y"},"name":"search","arguments":{"name":"n","q":5}}}"#;
    let expected = r#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"_meta":{"progressToken":3,"io.modelcontextprotocol/protocolVersion":"2026-07-28","x":"REDACTED-1"},"name":"search","arguments":{"name":"REDACTED-2","q":0}}}"#;
    for own in ["*", "/params", "/*", "/params/*"] {
        assert_eq!(redact(&[own], text), expected, "{own}");
    }
    for own in ["*", "/result"] {
        assert_eq!(
            redact(
                &[own],
                r#"{"id":1,"result":{"tools":[{"name":"a","description":"b","inputSchema":{"type":"object","properties":{"p":{"type":"string"}}}}],"nextCursor":"c"}}"#
            ),
            r#"{"id":1,"result":{"tools":[{"name":"a","description":"REDACTED-1","inputSchema":{"type":"object","properties":{"p":{"type":"string"}}}}],"nextCursor":"c"}}"#,
            "{own}"
        );
        assert_eq!(
            redact(
                &[own],
                r#"{"id":1,"result":{"contents":[{"uri":"file:///a","mimeType":"text/plain","text":"b"}]}}"#
            ),
            r#"{"id":1,"result":{"contents":[{"uri":"file:///a","mimeType":"text/plain","text":"REDACTED-1"}]}}"#,
            "{own}"
        );
    }
    assert_eq!(
        redact(&["*"], r#"{"id":1,"error":{"code":-32602,"message":"m","data":{"code":5}}}"#),
        r#"{"id":1,"error":{"code":-32602,"message":"REDACTED-1","data":{"code":0}}}"#
    );
    assert_eq!(
        redact(
            &["action", "content"],
            r#"{"id":1,"result":{"action":"accept","content":{"name":"x","action":"y"}}}"#
        ),
        r#"{"id":1,"result":{"action":"accept","content":{"name":"REDACTED-1","action":"REDACTED-2"}}}"#
    );
    assert_eq!(
        redact(&["method"], r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#),
        r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#
    );
}

#[test]
fn covered_values_compare_equal_to_any() {
    let rules = rules(&["/params/arguments/q", "ids"]);
    let same = |recorded: &[&str]| {
        let forms: Vec<String> = recorded.iter().map(|inside| form(&rules, &arguments(inside))).collect();
        assert!(forms.windows(2).all(|two| two[0] == two[1]), "{forms:#?}");
    };
    same(&[
        r#"{"a":1,"token":"REDACTED-1"}"#,
        r#"{"token":"real","a":1.0}"#,
        r#"{"a":1,"token":""}"#,
        r#"{"a":1,"token":null}"#,
        r#"{"a":1}"#,
    ]);
    same(&[r#"{"q":"REDACTED-1"}"#, r#"{"q":"x"}"#, "{}"]);
    same(&[
        r#"{"credentials":{"user":"REDACTED-1","pin":0}}"#,
        r#"{"credentials":{"user":"u","pin":12}}"#,
        r#"{"credentials":{}}"#,
        "{}",
    ]);
    same(&[r#"{"ids":["REDACTED-1","REDACTED-2"]}"#, r#"{"ids":["a"]}"#, r#"{"ids":[]}"#, "{}"]);
    same(&[
        r#"{"x":"{\"a\":1,\"token\":\"REDACTED-1\"}"}"#,
        r#"{"x":"{\"a\":1,\"token\":\"real\"}"}"#,
        r#"{"x":"{\"a\":1}"}"#,
    ]);
    same(&[
        r#"{"x":"{\n \"token\":\"REDACTED-1\",\n \"a\":[1]\n}"}"#,
        r#"{"x":"{\n \"token\":null,\n \"a\":[1]\n}"}"#,
        r#"{"x":"{\n \"a\":[1]\n}"}"#,
    ]);
    same(&[r#"{"x":"a=1&token=REDACTED-1&b=2"}"#, r#"{"x":"a=1&token=&b=2"}"#, r#"{"x":"a=1&b=2"}"#]);
    same(&[r#"{"x":"https://h/?token=REDACTED-1&b=2"}"#, r#"{"x":"https://h/?token=x&b=2"}"#]);
    same(&[
        r#"{"x":"a=%7B%22token%22%3A%22REDACTED-1%22%7D"}"#,
        r#"{"x":"a=%7B%22token%22%3A%22r%22%7D"}"#,
        r#"{"x":"a=%7B%7D"}"#,
    ]);
    same(&[
        r#"{"x":"{\"y\":\"{\\\"token\\\":\\\"REDACTED-1\\\"}\"}"}"#,
        r#"{"x":"{\"y\":\"{\\\"token\\\":\\\"\\\"}\"}"}"#,
        r#"{"x":"{\"y\":\"{}\"}"}"#,
    ]);

    let differ = |one: &str, other: &str| {
        assert_ne!(form(&rules, &arguments(one)), form(&rules, &arguments(other)));
    };
    differ(r#"{"a":1,"token":"x"}"#, r#"{"a":2,"token":"x"}"#);
    differ(r#"{"a":1,"has_token":true}"#, r#"{"a":1,"has_token":false}"#);
    differ(r#"{"tokens":5}"#, r#"{"tokens":6}"#);
    differ(r#"{"x":"{\"a\":1,\"token\":\"x\"}"}"#, r#"{"x":"{\"a\":2,\"token\":\"x\"}"}"#);
    differ(r#"{"x":"a=1&token=x"}"#, r#"{"x":"a=2&token=x"}"#);
    differ(r#"{"credentials":{"on":true,"a":"x"}}"#, "{}");
}

#[test]
fn covered_leaves_are_listed() {
    let text = arguments(r#"{"password":"a","x":"{\"token\":[\"b\",1,\"\"]}","f":"token=c%20d","q":"z"}"#);
    let tree = Tree::of(&text).unwrap();
    let treatments = rules(&[]).treatments(&tree, Written::Live);
    let leaves: Vec<_> =
        treatments.leaves.iter().map(|(path, value)| (path.as_str(), value.as_str())).collect();
    assert_eq!(
        leaves,
        [
            ("/params/arguments/password", "a"),
            ("/params/arguments/x#/token/0", "b"),
            ("/params/arguments/f#token", "c d")
        ]
    );
    let plain = arguments(r#"{"q":"z"}"#);
    assert!(rules(&[]).treatments(&Tree::of(&plain).unwrap(), Written::Live).is_empty());
}

#[test]
fn depth_and_width_are_no_limit() {
    let deep = r#"{"token":{"a":"#.repeat(50_000) + "\"x\"" + &"}}".repeat(50_000);
    let text = format!(r#"{{"result":{deep}}}"#);
    assert_eq!(rules(&[]).find(&text).len(), 1);
    let wide = format!(r#"{{"tokens":[{}]}}"#, vec!["\"x\""; 100_000].join(","));
    assert_eq!(rules(&[]).find(&wide).len(), 100_000);
    let brackets = format!(r#"{{"x":"token={}"}}"#, "[{".repeat(100_000));
    assert_eq!(rules(&[]).find(&brackets).len(), 1);
    let unclosed = format!(r#"{{"x":"\"token\": {}"}}"#, "[".repeat(200_000));
    assert!(rules(&[]).find(&unclosed).is_empty());
}
