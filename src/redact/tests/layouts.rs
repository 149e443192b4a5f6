//! What text names, by a sign or by its layout, costs no match: whatever stands in the place of a value is equal to it.

use super::super::fit;
use super::*;
use crate::jsonrpc::string;

/// Lines of the corpus in which something goes, as they are written.
fn corpus() -> impl Iterator<Item = String> {
    let lines = include_str!("../../../testdata/redaction/named-values.txt").lines();
    lines.filter_map(|line| line.strip_prefix("hit\t")).map(|line| {
        let text = line.split('\t').next().unwrap().replace(r"\\", "\u{1}");
        text.replace(r"\n", "\n").replace(r"\r", "\r").replace(r"\t", "\t").replace('\u{1}', r"\")
    })
}

fn message(text: &str) -> String {
    let text = string::encode(text);
    format!(r#"{{"id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"q":{text}}}}}}}"#)
}

#[test]
fn what_is_found_in_text_is_matched() {
    let rules = Arc::new(rules(&[]));
    let placeholder = regex::Regex::new("REDACTED-[0-9]+").unwrap();
    let mut seen = 0;
    for text in corpus() {
        let live = message(&text);
        let mut redactor = Redactor::new(Arc::clone(&rules), 1);
        let recorded = redactor.redact(&live, Side::Client).expect(&text).text;
        assert_eq!(redactor.redact(&recorded, Side::Client), None, "{recorded}");
        let old = key(&rules, &recorded, Written::All);
        let matches = |live: &str| {
            let new = key(&rules, live, Written::Live);
            old == new || fit(&old, &new).is_some()
        };
        assert!(matches(&live), "{recorded}\n{live}");
        let other = placeholder.replace_all(&recorded, "qqOther7x");
        assert!(matches(&other), "{recorded}\n{other}");
        let more = message(&format!("more {text}"));
        assert!(!matches(&more), "{recorded}\n{more}");
        seen += 1;
    }
    assert!(seen > 100, "{seen}");
}

#[test]
fn values_of_several_lines_are_matched() {
    let rules = Arc::new(rules(&[]));
    for (front, values, back) in [
        ("<private_key>\n", ["QUJD\nREVG", "QQ==", "x"], "\n</private_key>"),
        ("<password><![CDATA[", ["a<b", "two words", "x"], "]]></password>"),
        ("x:\n  token: |\n    ", ["abc\n    def\n\n    ghi", "abc", "x"], "\n  y: z"),
        ("private_key = \"", ["QUJD\nREVG=", "QQ", "two words"], "\"\nx"),
        ("password = '''", ["abc\ndef", "abc", "two words"], "'''\nx"),
        ("password=", ["abc\\\n   def\\\n ghi", "abc", "x1"], "\nx=y"),
        ("machine h login u password ", ["hunter", "$ecret", "x1"], "\nx"),
    ] {
        let lives = values.map(|value| message(&[front, value, back].concat()));
        for of in &lives {
            let mut redactor = Redactor::new(Arc::clone(&rules), 1);
            let recorded = redactor.redact(of, Side::Client).expect(of).text;
            assert_eq!(redactor.redact(&recorded, Side::Client), None, "{recorded}");
            let old = key(&rules, &recorded, Written::All);
            for live in &lives {
                let new = key(&rules, live, Written::Live);
                assert!(old == new || fit(&old, &new).is_some(), "{recorded}\n{live}");
            }
        }
    }
}
