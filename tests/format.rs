//! The cassettes in `testdata/` against the published schema, and the schema against the writer.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::fs;
use std::path::{Path, PathBuf};

use mcpreel::cassette::foreign::mcp_cassette;
use mcpreel::cassette::head::{Head, Process, Server};
use mcpreel::cassette::record::{Body, More, Record};
use mcpreel::cassette::{Cassette, Ended, Exit, Side, Timing, Transport, document, journal, merge, part};
use mcpreel::jsonrpc::string;
use mcpreel::jsonrpc::tree::{Kind, Tree};
use regex::Regex;
use serde_json::Value;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema() -> Value {
    let text = fs::read_to_string(root().join("docs/reference/cassette.schema.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

/// The files in a folder of cassettes, in order of their names; there must be some.
fn cassettes(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files: Vec<PathBuf> = fs::read_dir(root().join("testdata/cassettes").join(folder))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "no cassettes in testdata/cassettes/{folder}");
    files.into_iter().map(|path| (path.clone(), fs::read_to_string(path).unwrap())).collect()
}

fn read(path: &Path, text: &str) -> Cassette {
    Cassette::parse(path, text.as_bytes().to_vec()).unwrap()
}

/// Checks values of our own reader, which holds any number and any string, against the keywords that our schema uses.
pub(crate) struct Validator<'s> {
    pub(crate) schema: &'s Value,
}

impl Validator<'_> {
    pub(crate) fn check(&self, text: &str) -> Vec<String> {
        let tree = Tree::of(text).unwrap();
        let mut faults = Vec::new();
        self.node(&tree, 0, self.schema, &mut faults);
        faults
    }

    fn node(&self, tree: &Tree<'_>, node: usize, schema: &Value, faults: &mut Vec<String>) {
        if *schema == Value::Bool(false) {
            return faults.push(format!("{} is not listed", tree.pointer(node)));
        }
        for (keyword, rule) in schema.as_object().unwrap() {
            if !self.keyword(tree, node, keyword, rule, schema, faults) {
                // Alternatives are long, and many are tried.
                let rule = if keyword == "anyOf" { String::new() } else { rule.to_string() };
                faults.push(format!("{}: {keyword} {rule}", tree.pointer(node)));
            }
        }
    }

    fn fits(&self, tree: &Tree<'_>, node: usize, schema: &Value) -> bool {
        let mut faults = Vec::new();
        self.node(tree, node, schema, &mut faults);
        faults.is_empty()
    }

    /// Whether the node itself fits one keyword; what is below it reports its own faults.
    fn keyword(
        &self,
        tree: &Tree<'_>,
        node: usize,
        keyword: &str,
        rule: &Value,
        schema: &Value,
        faults: &mut Vec<String>,
    ) -> bool {
        let kind = tree.node(node).unwrap().kind;
        let text = tree.text_of(node);
        let word = || string::decode(text).into_owned();
        match keyword {
            "$schema" | "$id" | "$defs" | "title" | "description" => true,
            "$ref" => {
                let target = self.schema.pointer(rule.as_str().unwrap().strip_prefix('#').unwrap()).unwrap();
                self.node(tree, node, target, faults);
                true
            }
            "type" => match rule.as_str().unwrap() {
                "object" => kind == Kind::Object,
                "array" => kind == Kind::Array,
                "string" => kind == Kind::String,
                "number" => kind == Kind::Number,
                "integer" => kind == Kind::Number && !text.contains(['.', 'e', 'E']),
                "boolean" => matches!(text, "true" | "false"),
                other => panic!("type {other}"),
            },
            "const" => serde_json::from_str::<Value>(text).is_ok_and(|value| value == *rule),
            "enum" => serde_json::from_str::<Value>(text)
                .is_ok_and(|value| rule.as_array().unwrap().contains(&value)),
            "minimum" => kind != Kind::Number || text.parse::<f64>().unwrap() >= rule.as_f64().unwrap(),
            "maximum" => kind != Kind::Number || text.parse::<f64>().unwrap() <= rule.as_f64().unwrap(),
            "exclusiveMinimum" => {
                kind != Kind::Number || text.parse::<f64>().unwrap() > rule.as_f64().unwrap()
            }
            "minItems" => kind != Kind::Array || tree.children(node).count() as u64 >= rule.as_u64().unwrap(),
            "pattern" => kind != Kind::String || regex(rule.as_str().unwrap()).is_match(&word()),
            "required" => {
                kind != Kind::Object
                    || rule
                        .as_array()
                        .unwrap()
                        .iter()
                        .all(|name| tree.member(node, name.as_str().unwrap()).is_some())
            }
            "items" => {
                if kind == Kind::Array {
                    tree.children(node).for_each(|child| self.node(tree, child, rule, faults));
                }
                true
            }
            "properties" | "patternProperties" | "additionalProperties" => {
                for child in tree.children(node).filter(|_| kind == Kind::Object) {
                    let name =
                        string::decode(tree.node(child).unwrap().name.unwrap().of(tree.text)).into_owned();
                    for below in members(schema, keyword, rule, &name) {
                        self.node(tree, child, below, faults);
                    }
                }
                true
            }
            "anyOf" => rule.as_array().unwrap().iter().any(|schema| self.fits(tree, node, schema)),
            "not" => !self.fits(tree, node, rule),
            other => panic!("the schema uses {other}, which this test does not know"),
        }
    }
}

/// A compiled pattern; the same ones come again and again.
fn regex(pattern: &str) -> Regex {
    thread_local!(static KNOWN: RefCell<HashMap<String, Regex>> = RefCell::default());
    KNOWN.with_borrow_mut(|known| {
        known.entry(pattern.to_owned()).or_insert_with(|| Regex::new(pattern).unwrap()).clone()
    })
}

/// The schemas of a member called `name` under one of the three keywords about members.
fn members<'s>(schema: &'s Value, keyword: &str, rule: &'s Value, name: &str) -> Vec<&'s Value> {
    let matching = |rule: &'s Value| {
        rule.as_object().unwrap().iter().filter(|(pattern, _)| regex(pattern).is_match(name)).map(|it| it.1)
    };
    match keyword {
        "properties" => rule.get(name).into_iter().collect(),
        "patternProperties" => matching(rule).collect(),
        _ => {
            let listed = schema.get("properties").is_some_and(|listed| listed.get(name).is_some());
            let matched = schema.get("patternProperties").is_some_and(|rule| matching(rule).next().is_some());
            if listed || matched { Vec::new() } else { vec![rule] }
        }
    }
}

#[test]
fn every_cassette_fits_the_schema_and_is_in_our_layout() {
    let schema = schema();
    let validator = Validator { schema: &schema };
    for (path, text) in cassettes("") {
        let cassette = read(&path, &text);
        assert!(cassette.warnings.is_empty(), "{}: {:?}", path.display(), cassette.warnings);
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if merge::is_journal(&path) {
            assert_eq!(journal::write(&cassette), text, "{name}");
        } else {
            assert_eq!(validator.check(&text), [""; 0], "{name}");
            assert_eq!(document::write(&cassette), text, "{name}");
        }
        let other = read(&path, &journal::write(&cassette));
        assert_eq!(document::write(&other), document::write(&cassette), "{name}");
        assert_eq!(validator.check(&document::write(&cassette)), [""; 0], "{name}");
    }
}

#[test]
fn what_is_read_from_other_formats_fits_the_schema() {
    let schema = schema();
    let validator = Validator { schema: &schema };
    for (path, text) in cassettes("foreign") {
        let cassette = read(&path, &text);
        let ours = document::write(&cassette);
        assert_eq!(validator.check(&ours), [""; 0], "{}", path.display());
        let theirs = mcp_cassette::write(&cassette).text;
        assert_eq!(mcp_cassette::write(&read(&path, &ours)).text, theirs);
        assert_eq!(document::write(&read(&path, &theirs)), ours);
    }
    for (path, text) in cassettes("../foreign") {
        // What the tests expect of the others.
        if path.extension().is_some_and(|ending| ending == "txt") {
            continue;
        }
        let ours = document::write(&read(&path, &text));
        assert_eq!(validator.check(&ours), [""; 0], "{}", path.display());
    }
}

#[test]
fn the_schema_refuses_what_a_reader_refuses() {
    let schema = schema();
    let validator = Validator { schema: &schema };
    let whole = |record: &str| format!(r#"{{"mcpreel":1,"servers":{{"a":{{}}}},"messages":[{record}]}}"#);
    assert_eq!(validator.check(&whole(r#"{"from":"client","later":{"x":1},"payload":1E400}"#)), [""; 0]);
    for text in [
        r#"{"mcpreel":2,"servers":{},"messages":[]}"#,
        r#"{"mcpreel":1,"servers":{"a":{"transport":"pigeon"}},"messages":[]}"#,
        r#"{"mcpreel":1,"servers":{"a":{"command":"x"}},"messages":[]}"#,
        &whole("7"),
        &whole("{}"),
        &whole(r#"{"from":"nobody"}"#),
        &whole(r#"{"from":"client","payload":1,"text":"x"}"#),
        &whole(r#"{"from":"client","text":1}"#),
        &whole(r#"{"from":"client","conn":-1}"#),
    ] {
        assert_ne!(validator.check(text), [""; 0], "{text}");
        assert!(Cassette::parse(Path::new("c"), text.into()).is_err(), "{text}");
    }
}

/// A cassette in which every field of the model is set.
fn everything() -> Cassette {
    let text = |word: &str| Some(format!("{{\"x\":{}}}", string::encode(word)));
    let server = Server {
        transport: Transport::Http,
        command: vec!["a".to_owned()],
        url: Some("u".to_owned()),
        protocol: vec!["p".to_owned()],
        info: text("i"),
        recordings: vec![3, 9],
        extra: Vec::new(),
    };
    let process = |exit| Process {
        server: "a".to_owned(),
        conn: 1,
        exit: Some(exit),
        ended: Some(Ended::Signal),
        killed: true,
        stderr: vec!["e".to_owned()],
        extra: Vec::new(),
    };
    let head = Head {
        recorded_at: "2026-11-29T20:33:00.123Z".to_owned(),
        recorder: "mcpreel".to_owned(),
        servers: vec![("a".to_owned(), server.clone()), ("b".to_owned(), server)],
        processes: vec![process(Exit::Code(1)), process(Exit::Signal(9))],
        redaction: Some("{}".to_owned()),
        labels: text("l"),
        matching: Some("{}".to_owned()),
        extra: [mcp_cassette::KEPT, part::FIELD].map(|name| (name.to_owned(), "{}".to_owned())).to_vec(),
        ..Head::default()
    };
    let more = More {
        stream_get: true,
        bom: true,
        http: Some("{}".to_owned()),
        end: Some("cut".to_owned()),
        redacted: vec!["r".to_owned()],
        placeholders: Some("{}".to_owned()),
        live: true,
        extra: Vec::new(),
    };
    let record = Record {
        from: Side::Client,
        server: 0,
        conn: 1,
        session: 1,
        exchange: 1,
        at: 1500,
        body: Body::None,
        more: Some(Box::new(more)),
    };
    let mut cassette = Cassette { head, timing: Timing::Known, ..Cassette::default() };
    cassette.push(record.clone(), "{}").unwrap();
    cassette.push_text(record.clone(), "x");
    cassette.push_text(record, "eA==");
    if let Some(last) = cassette.records.last_mut()
        && let Body::Text(span) = last.body
    {
        last.body = Body::Base64(span);
    }
    cassette
}

/// The member names of all the nodes that `of` picks.
fn names(tree: &Tree<'_>, of: impl Fn(&str) -> bool) -> BTreeSet<String> {
    let parents: Vec<usize> =
        tree.iter().map(|(index, _)| index).filter(|index| of(&tree.pointer(*index))).collect();
    assert!(!parents.is_empty());
    parents
        .into_iter()
        .flat_map(|parent| tree.children(parent).collect::<Vec<_>>())
        .map(|child| string::decode(tree.node(child).unwrap().name.unwrap().of(tree.text)).into_owned())
        .collect()
}

#[test]
fn the_schema_and_the_writer_know_the_same_fields() {
    let schema = schema();
    let text = document::write(&everything());
    assert_eq!(Validator { schema: &schema }.check(&text), [""; 0]);
    let tree = Tree::of(&text).unwrap();
    let under = |prefix: &'static str, depth: usize| {
        move |pointer: &str| pointer.starts_with(prefix) && pointer.matches('/').count() == depth
    };
    let listed = |pointer: &str| -> BTreeSet<String> {
        schema.pointer(pointer).unwrap().as_object().unwrap().keys().cloned().collect()
    };
    assert_eq!(names(&tree, str::is_empty), listed("/properties"));
    assert_eq!(names(&tree, under("/servers/", 2)), listed("/$defs/server/properties"));
    assert_eq!(names(&tree, under("/processes/", 2)), listed("/$defs/process/properties"));
    let exit = |pointer: &str| pointer.starts_with("/processes/") && pointer.ends_with("/exit");
    assert_eq!(names(&tree, exit), listed("/$defs/process/properties/exit/properties"));
    assert_eq!(names(&tree, under("/messages/", 2)), listed("/$defs/record/properties"));
}
