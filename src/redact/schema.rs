//! JSON Schemas that stand where nothing says so, told from data by their members.

use super::roles::Roles;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

const TYPES: [&str; 7] = ["array", "boolean", "integer", "null", "number", "object", "string"];

/// Keywords of which one is enough where all other members are keywords too.
const TELLING: [&str; 6] = ["$ref", "allOf", "anyOf", "oneOf", "properties", "type"];

/// Whether an object is a schema and cannot be anything else: all of its members are keywords, one of them tells, and
/// `type` is one of the seven.
pub(super) fn is_one(tree: &Tree<'_>, index: usize) -> bool {
    if tree.node(index).is_none_or(|node| node.kind != Kind::Object) {
        return false;
    }
    let mut tells = false;
    for child in tree.children(index) {
        let name = name_of(tree, child);
        let roles = Roles::of(&name);
        let known = roles.keyword || roles.schema_names || roles.schema_values;
        if roles.extension || !(known || roles.applicator) || !has_its_kind(tree, child, &name) {
            return false;
        }
        tells |= TELLING.contains(&name.as_str());
    }
    tells
}

/// Whether an object is a schema that may say something about properties: `type` and `properties`, or a schema whose
/// properties and alternatives are schemas.
pub(super) fn describes_properties(tree: &Tree<'_>, index: usize) -> bool {
    if tree.node(index).is_none_or(|node| node.kind != Kind::Object) {
        return false;
    }
    let (typed, holds) = told(tree, index);
    typed || (holds && holds_schemas(tree, index))
}

/// Whether an object has `"type": "object"` and `properties`, and whether it may hold schemas at all.
fn told(tree: &Tree<'_>, index: usize) -> (bool, bool) {
    let (mut typed, mut properties, mut holds) = (false, false, false);
    for child in tree.children(index) {
        match tree.node(child).and_then(|node| node.name).map_or("", |name| name.of(tree.text)) {
            "\"type\"" => typed |= tree.text_of(child) == "\"object\"",
            "\"properties\"" => {
                properties |= tree.text_of(child).starts_with('{');
                holds = true;
            }
            "\"anyOf\"" | "\"oneOf\"" | "\"allOf\"" | "\"$defs\"" | "\"definitions\"" | "\"items\"" => {
                holds = true;
            }
            _ => {}
        }
    }
    (typed && properties, holds)
}

/// Whether what a schema holds are schemas, one level down; below they are looked at where they are met.
fn holds_schemas(tree: &Tree<'_>, index: usize) -> bool {
    let mut some = false;
    for child in tree.children(index) {
        let name = name_of(tree, child);
        let roles = Roles::of(&name);
        if !(roles.keyword || roles.schema_names || roles.schema_values || roles.applicator)
            || !has_its_kind(tree, child, &name)
        {
            return false;
        }
        if roles.schema_names || ["anyOf", "oneOf", "allOf"].contains(&name.as_str()) {
            let mut below = tree.children(child).peekable();
            some |= below.peek().is_some();
            if !below.all(|schema| is_schema_or_flag(tree, schema)) {
                return false;
            }
        } else if name == "items" {
            some = true;
            if !is_schema_or_flag(tree, child) {
                return false;
            }
        }
    }
    some
}

fn is_schema_or_flag(tree: &Tree<'_>, index: usize) -> bool {
    matches!(tree.text_of(index), "true" | "false" | "{}")
        || is_one(tree, index)
        || describes_properties(tree, index)
}

/// Whether the value of a keyword is of the kind that it has in a schema.
fn has_its_kind(tree: &Tree<'_>, index: usize, name: &str) -> bool {
    let Some(node) = tree.node(index) else { return false };
    let is_type = |index: usize| {
        let literal = tree.text_of(index);
        literal.starts_with('"') && TYPES.contains(&&*string::decode(literal))
    };
    let may_be_schema = |index: usize| {
        matches!(tree.text_of(index), "true" | "false")
            || tree.node(index).is_some_and(|node| node.kind == Kind::Object)
    };
    match name {
        "type" => is_type(index) || (node.kind == Kind::Array && tree.children(index).all(is_type)),
        "properties" | "patternProperties" | "$defs" | "definitions" | "dependentSchemas" => {
            node.kind == Kind::Object && tree.children(index).all(may_be_schema)
        }
        "$ref" => tree.text_of(index).starts_with("\"#"),
        "anyOf" | "oneOf" | "allOf" | "prefixItems" => {
            node.kind == Kind::Array && tree.children(index).all(may_be_schema)
        }
        "items" if node.kind == Kind::Array => tree.children(index).all(may_be_schema),
        "additionalProperties"
        | "contains"
        | "else"
        | "if"
        | "items"
        | "not"
        | "propertyNames"
        | "then"
        | "unevaluatedItems"
        | "unevaluatedProperties" => may_be_schema(index),
        "required" | "enum" | "examples" => matches!(node.kind, Kind::Array | Kind::Literal),
        "maxContains" | "maxItems" | "maxLength" | "maxProperties" | "maximum" | "minContains"
        | "minItems" | "minLength" | "minProperties" | "minimum" => node.kind == Kind::Number,
        "title" | "description" | "$id" | "$schema" | "$comment" | "$dynamicAnchor" | "pattern"
        | "format" => node.kind == Kind::String,
        _ => true,
    }
}

fn name_of(tree: &Tree<'_>, index: usize) -> String {
    let name = tree.node(index).and_then(|node| node.name);
    name.map(|name| string::decode(name.of(tree.text)).into_owned()).unwrap_or_default()
}
