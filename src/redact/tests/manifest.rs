//! Rules from options and from manifests.

use std::collections::BTreeMap;

use super::super::{Manifest, Pack};
use super::*;
use crate::error::{Error, Result};

fn own(values: &[&str]) -> Result<Rules> {
    Rules::new(true, &values.iter().map(|value| (*value).to_owned()).collect::<Vec<_>>())
}

#[test]
fn a_manifest_rebuilds_the_rules() {
    let rules = own(&["ssn", "pin=0000", "/params/arguments/*/q=a=b", "*token*"]).unwrap();
    let counts = BTreeMap::from([("key:ssn".to_owned(), 2)]);
    let manifest = rules.manifest(&counts);
    assert_eq!(
        manifest.rules[..5],
        ["key:ssn", "key:pin=0000", "pointer:/params/arguments/*/q=a=b", "key:*token*", "key:*secret*"]
    );
    assert_eq!(manifest.rules.len(), 12 + 23, "a repeated rule is one rule");
    assert_eq!(manifest.rules[12], "common/pem-private-key");
    let again = Rules::from_manifest(&manifest, &[]).unwrap();
    assert_eq!(again.manifest(&counts), manifest);
    let text = r#"{"params":{"arguments":{"x":{"q":"v"},"pin":"1","ssn":"2","max_tokens":3}}}"#;
    let found: Vec<String> = again.find(text).iter().map(|hit| again.id(hit.rule).to_owned()).collect();
    assert_eq!(found, ["pointer:/params/arguments/*/q=a=b", "key:pin=0000", "key:ssn"]);
    assert!(Rules::from_manifest(&Manifest::default(), &[]).unwrap().is_empty());
}

#[test]
fn what_cannot_be_applied_is_named() {
    for (manifest, named) in [
        (Manifest { rules: vec!["common/email".into()], ..Manifest::default() }, "`common/email`"),
        (Manifest { rules: vec!["text:x".into()], ..Manifest::default() }, "`text:x`"),
        (Manifest { rules: vec!["pointer:x".into()], ..Manifest::default() }, "`pointer:x`"),
        (
            Manifest { packs: vec![Pack { id: "team".into(), sha256: "abc".into() }], ..Manifest::default() },
            "`team` (sha256 abc)",
        ),
    ] {
        let error = Rules::from_manifest(&manifest, &[]).unwrap_err();
        assert!(error.to_string().contains(named), "{error}");
        assert_eq!(error.code(), 2);
    }
}

#[test]
fn bad_rules_are_usage_errors() {
    for (value, named) in [
        ("", "a name"),
        ("=x", "a name"),
        ("/a~2b", "written ~0"),
        ("/id", "routes"),
        ("/params/name=x", "routes"),
    ] {
        let error = own(&[value]).unwrap_err();
        assert!(matches!(error, Error::Usage(_)), "{value}");
        assert!(error.to_string().contains(named), "{value}: {error}");
    }
}
