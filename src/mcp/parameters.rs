//! Arguments of a tool that its client repeats in header fields, `Mcp-Param-*`, for intermediaries that do not read
//! bodies (2026-07-28, transports, "Custom headers from tool parameters").

use super::headers::decoded;
use crate::jsonrpc::canonical;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

/// What the names of these fields begin with.
const PREFIX: &str = "Mcp-Param-";
/// The member of a property's schema that names its field.
const ANNOTATION: &str = "x-mcp-header";
/// Deeper properties are not looked for: no tool has them, and a schema comes from elsewhere.
const DEEPEST: usize = 32;

/// Keywords whose value is a schema or a list of schemas, none of which an argument reaches for certain.
const SCHEMAS: [&str; 15] = [
    "items",
    "prefixItems",
    "contains",
    "unevaluatedItems",
    "additionalProperties",
    "unevaluatedProperties",
    "propertyNames",
    "not",
    "if",
    "then",
    "else",
    "contentSchema",
    "allOf",
    "anyOf",
    "oneOf",
];
/// Keywords whose value maps names to such schemas.
const MAPS: [&str; 4] = ["patternProperties", "dependentSchemas", "$defs", "definitions"];

/// An argument that is repeated in a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    field: String,
    path: Vec<String>,
}

impl Parameter {
    /// All of an input schema. None where an annotation stands on what cannot have one: clients leave such a tool out,
    /// and there is nothing to hold others to. What is `hidden` is not the server's text: the field that it would name is not
    /// known.
    #[must_use]
    pub fn of_schema(tree: &Tree<'_>, schema: usize, hidden: &dyn Fn(usize) -> bool) -> Vec<Self> {
        let mut found: Vec<Self> = Vec::new();
        // Schemas to look at, and how many properties lead there from the root, where nothing else does.
        let mut open = vec![(schema, Some(0))];
        while let Some((node, depth)) = open.pop() {
            if tree.node(node).is_none_or(|node| node.kind != Kind::Object) {
                continue;
            }
            if let Some(annotation) = tree.member(node, ANNOTATION) {
                match Self::annotated(tree, node, annotation, depth.unwrap_or(0), hidden) {
                    Annotated::Parameter(parameter) => {
                        let twin = |other: &Self| other.field.eq_ignore_ascii_case(&parameter.field);
                        if found.iter().any(twin) {
                            return Vec::new();
                        }
                        found.push(parameter);
                    }
                    Annotated::Unknown => {}
                    Annotated::Wrong => return Vec::new(),
                }
            }
            for child in tree.children(node) {
                if tree.name_is(child, "properties") {
                    let below = depth.map(|depth| depth + 1).filter(|depth| *depth <= DEEPEST);
                    open.extend(tree.children(child).map(|property| (property, below)));
                } else if MAPS.iter().any(|name| tree.name_is(child, name)) {
                    open.extend(tree.children(child).map(|schema| (schema, None)));
                } else if SCHEMAS.iter().any(|name| tree.name_is(child, name)) {
                    match tree.node(child).map(|node| node.kind) {
                        Some(Kind::Array) => open.extend(tree.children(child).map(|schema| (schema, None))),
                        _ => open.push((child, None)),
                    }
                }
            }
        }
        found
    }

    fn annotated(
        tree: &Tree<'_>,
        node: usize,
        annotation: usize,
        depth: usize,
        hidden: &dyn Fn(usize) -> bool,
    ) -> Annotated {
        if depth == 0 {
            return Annotated::Wrong;
        }
        if hidden(annotation) {
            return Annotated::Unknown;
        }
        let text = |node: usize| {
            let literal =
                tree.node(node).filter(|node| node.kind == Kind::String).map(|_| tree.text_of(node));
            literal.map(string::decode)
        };
        let Some(name) = text(annotation).filter(|name| is_token(name)) else { return Annotated::Wrong };
        let kind = tree.member(node, "type");
        let plain =
            kind.and_then(text).is_some_and(|kind| matches!(&*kind, "string" | "integer" | "boolean"));
        if !plain && !kind.is_some_and(hidden) {
            return Annotated::Wrong;
        }
        let mut path = Vec::with_capacity(depth);
        let mut at = node;
        for _ in 0..depth {
            let Some(property) = tree.node(at) else { break };
            path.push(string::decode(property.name.map_or("", |name| name.of(tree.text))).into_owned());
            at = tree.node(property.parent).map_or(0, |properties| properties.parent);
        }
        path.reverse();
        Annotated::Parameter(Self { field: format!("{PREFIX}{name}"), path })
    }

    /// The name of the header field, as the schema spells it.
    #[must_use]
    pub fn field(&self) -> &str {
        &self.field
    }

    /// Whether the values of its field agree with the arguments of a call, the node `arguments` of `call`.
    ///
    /// # Errors
    ///
    /// In what they do not: words that follow the field's name.
    pub fn check<'v>(
        &self,
        call: &Tree<'_>,
        arguments: Option<usize>,
        mut values: impl Iterator<Item = &'v [u8]>,
    ) -> Result<(), &'static str> {
        let header = values.next();
        if values.next().is_some() {
            return Err("stands there twice");
        }
        let argument =
            arguments.and_then(|root| self.path.iter().try_fold(root, |node, name| call.member(node, name)));
        let literal = argument.map(|node| call.text_of(node)).filter(|literal| *literal != "null");
        match (header, literal) {
            (None, None) => Ok(()),
            // There is no way to write these into a field.
            (None, Some(literal)) if literal.starts_with(['{', '[']) => Ok(()),
            (None, Some(_)) => Err("is missing"),
            (Some(value), Some(literal)) if decoded(value).is_some_and(|value| is(literal, &value)) => Ok(()),
            (Some(_), _) => Err("is not that of the body"),
        }
    }
}

enum Annotated {
    Parameter(Parameter),
    /// It may name any field.
    Unknown,
    Wrong,
}

/// Whether a string, number or boolean reads like `value`; numbers do by value.
fn is(literal: &str, value: &str) -> bool {
    let number = |text: &str| {
        let tree = Tree::of(text).ok()?;
        tree.node(0).filter(|node| node.kind == Kind::Number)?;
        let mut form = Vec::new();
        canonical::write_number(tree.text_of(0), &mut form);
        Some(form)
    };
    match literal.as_bytes().first() {
        Some(b'"') => string::decode(literal) == value,
        Some(b'{' | b'[') => false,
        Some(b't' | b'f') => literal == value,
        _ => number(literal).is_some_and(|form| number(value) == Some(form)),
    }
}

/// RFC 9110, section 5.6.2.
fn is_token(name: &str) -> bool {
    let mark = |byte: u8| b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || mark(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(schema: &str, hidden: &str) -> Vec<(String, String)> {
        let tree = Tree::of(schema).unwrap();
        let hidden = |node: usize| tree.text_of(node) == hidden;
        let mut found: Vec<_> = Parameter::of_schema(&tree, 0, &hidden)
            .into_iter()
            .map(|parameter| (parameter.field, parameter.path.join(".")))
            .collect();
        found.sort();
        found
    }

    #[test]
    fn what_a_schema_may_annotate() {
        let property = |more: &str| format!(r#"{{"properties":{{"a":{{{more}}}}}}}"#);
        let right = r#""type":"string","x-mcp-header":"A""#;
        let table: [(String, &[(&str, &str)]); 16] = [
            (property(right), &[("Mcp-Param-A", "a")]),
            (property(r#""type":"integer","x-mcp-header":"B-1""#), &[("Mcp-Param-B-1", "a")]),
            (property(&format!(r#""properties":{{"b":{{{right}}}}}"#)), &[("Mcp-Param-A", "a.b")]),
            (
                format!(
                    r#"{{"properties":{{"a":{{{right}}},"b":{{"type":"boolean","x-mcp-header":"B"}}}}}}"#
                ),
                &[("Mcp-Param-A", "a"), ("Mcp-Param-B", "b")],
            ),
            // Data that looks like an annotation is none.
            (property(&format!(r#"{right},"default":{{"x-mcp-header":1}}"#)), &[("Mcp-Param-A", "a")]),
            (
                format!(r#"{{"properties":{{"x-mcp-header":{{{right}}}}}}}"#),
                &[("Mcp-Param-A", "x-mcp-header")],
            ),
            // One that is wrong spoils the schema.
            (property(r#""type":"number","x-mcp-header":"A""#), &[]),
            (property(r#""type":["string","null"],"x-mcp-header":"A""#), &[]),
            (property(r#""x-mcp-header":"A""#), &[]),
            (property(r#""type":"string","x-mcp-header":"""#), &[]),
            (property(r#""type":"string","x-mcp-header":"A B""#), &[]),
            (property(r#""type":"string","x-mcp-header":"A\r\nB""#), &[]),
            (property(r#""type":"string","x-mcp-header":7"#), &[]),
            (
                format!(r#"{{"properties":{{"a":{{{right}}},"b":{{"type":"string","x-mcp-header":"a"}}}}}}"#),
                &[],
            ),
            (
                format!(
                    r#"{{"properties":{{"a":{{{right}}}}},"anyOf":[{{"properties":{{"b":{{{right}}}}}}}]}}"#
                ),
                &[],
            ),
            (format!("{{{right}}}"), &[]),
        ];
        for (schema, expected) in table {
            let found = parameters(&schema, "");
            let found: Vec<(&str, &str)> = found.iter().map(|(f, p)| (f.as_str(), p.as_str())).collect();
            assert_eq!(found, expected, "{schema}");
        }
        for keyword in SCHEMAS {
            let inner = format!(r#"{{"properties":{{"a":{{{right}}}}},"{keyword}":[{{{right}}}]}}"#);
            assert_eq!(parameters(&inner, ""), [], "{keyword}");
            let inner = format!(r#"{{"properties":{{"a":{{{right}}}}},"{keyword}":{{{right}}}}}"#);
            assert_eq!(parameters(&inner, ""), [], "{keyword}");
        }
        for keyword in MAPS {
            let inner = format!(r#"{{"properties":{{"a":{{{right}}}}},"{keyword}":{{"x":{{{right}}}}}}}"#);
            assert_eq!(parameters(&inner, ""), [], "{keyword}");
        }
    }

    #[test]
    fn what_is_hidden_names_no_field_and_spoils_nothing() {
        let schema = r#"{"properties":{"a":{"type":"string","x-mcp-header":"X"},"b":{"type":"Y","x-mcp-header":"B"}}}"#;
        assert_eq!(parameters(schema, ""), []);
        assert_eq!(parameters(schema, r#""Y""#).len(), 2);
        let right = schema.replace("\"Y\"", "\"string\"");
        assert_eq!(parameters(&right, r#""X""#), [("Mcp-Param-B".to_owned(), "b".to_owned())]);
    }

    #[test]
    fn fields_and_arguments() {
        const OTHER: Result<(), &str> = Err("is not that of the body");
        const MISSING: Result<(), &str> = Err("is missing");
        let schema = r#"{"properties":{"o":{"properties":{"p":{"type":"integer","x-mcp-header":"P"}}}}}"#;
        let tree = Tree::of(schema).unwrap();
        let [parameter] = &Parameter::of_schema(&tree, 0, &|_| false)[..] else { panic!() };
        for (argument, header, expected) in [
            ("\"a\"", Some("a"), Ok(())),
            ("\"a\"", Some("b"), OTHER),
            ("\"a\"", Some("A"), OTHER),
            ("\"a\"", None, MISSING),
            ("\"\"", Some(""), Ok(())),
            ("\"\\u00e9\"", Some("=?base64?w6k=?="), Ok(())),
            ("\"e\"", Some("=?base64?ZQ==?="), Ok(())),
            ("\"e\"", Some("=?base64?ZQ?="), OTHER),
            ("\"=?base64?ZQ\"", Some("=?base64?ZQ"), Ok(())),
            ("\"\u{e9}\"", Some("\u{e9}"), OTHER),
            ("42", Some("42"), Ok(())),
            ("42.0", Some("42"), Ok(())),
            ("42", Some("42.0"), Ok(())),
            ("4.2e1", Some("=?base64?NDI=?="), Ok(())),
            ("123456789012345678901234", Some("123456789012345678901235"), OTHER),
            ("42", Some("\"42\""), OTHER),
            ("\"42\"", Some("42"), Ok(())),
            ("\"42\"", Some("42.0"), OTHER),
            ("true", Some("true"), Ok(())),
            ("true", Some("True"), OTHER),
            ("false", None, MISSING),
            ("null", None, Ok(())),
            ("null", Some("null"), OTHER),
            ("[1]", None, Ok(())),
            ("{}", Some("{}"), OTHER),
        ] {
            let call = format!(r#"{{"o":{{"p":{argument}}}}}"#);
            let call = Tree::of(&call).unwrap();
            let got = parameter.check(&call, Some(0), header.into_iter().map(str::as_bytes));
            assert_eq!(got, expected, "{argument} {header:?}");
        }
        for arguments in ["{}", r#"{"o":null}"#, r#"{"o":[1]}"#, r#"{"o":"p"}"#] {
            let call = Tree::of(arguments).unwrap();
            assert_eq!(parameter.check(&call, Some(0), [].into_iter()), Ok(()), "{arguments}");
            assert_eq!(parameter.check(&call, Some(0), [&b"1"[..]].into_iter()), OTHER, "{arguments}");
        }
        let call = Tree::of(r#"{"o":{"p":1}}"#).unwrap();
        let twice = [&b"1"[..], b"1"].into_iter();
        assert_eq!(parameter.check(&call, Some(0), twice), Err("stands there twice"));
        assert_eq!(parameter.check(&call, None, [].into_iter()), Ok(()));
    }

    #[test]
    fn depth_is_no_limit_and_no_cost() {
        let deep = r#"{"properties":{"a":"#.repeat(50_000);
        let schema = format!(r#"{deep}{{"type":"string","x-mcp-header":"A"}}{}"#, "}}".repeat(50_000));
        assert_eq!(parameters(&schema, ""), []);
    }
}
