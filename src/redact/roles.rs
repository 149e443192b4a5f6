//! What members' names mean to MCP and to JSON Schema.

/// Members whose values MCP gives a meaning that clients and servers act on: routing, types, cursors. They stay where
/// they are the protocol's.
const PROTOCOL_MEMBERS: [&str; 27] = [
    "action",
    "code",
    "cursor",
    "id",
    "jsonrpc",
    "level",
    "logger",
    "method",
    "mimeType",
    "mode",
    "name",
    "nextCursor",
    "progress",
    "progressToken",
    "protocolVersion",
    "requestId",
    "requestState",
    "resultType",
    "role",
    "status",
    "stopReason",
    "subscriptionId",
    "taskId",
    "toolUseId",
    "type",
    "uri",
    "uriTemplate",
];

/// Members of the protocol that hold what users, tools and applications put there.
const USER_DATA: [&str; 7] =
    ["arguments", "context", "data", "input", "inputResponses", "metadata", "structuredContent"];

const SCHEMA_MEMBERS: [&str; 3] = ["inputSchema", "outputSchema", "requestedSchema"];

/// The keywords of a JSON Schema whose members are names of properties, not keywords.
const SCHEMA_NAMES: [&str; 5] =
    ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

/// Keywords of JSON Schema that hold scalars.
const KEYWORDS: [&str; 39] = [
    "$anchor",
    "$comment",
    "$dynamicAnchor",
    "$dynamicRef",
    "$id",
    "$recursiveRef",
    "$ref",
    "$schema",
    "$vocabulary",
    "additionalProperties",
    "const",
    "contentEncoding",
    "contentMediaType",
    "default",
    "deprecated",
    "description",
    "example",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "maxContains",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minContains",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "nullable",
    "pattern",
    "readOnly",
    "title",
    "type",
    "uniqueItems",
    "writeOnly",
    MIRRORED,
];

/// The keyword by which a tool's property is said in a header field of that name.
const MIRRORED: &str = "x-mcp-header";

/// The keywords of a JSON Schema that hold values of the property.
const SCHEMA_VALUES: [&str; 5] = ["default", "const", "enum", "examples", "example"];

/// Members of the protocol whose values are one of a few words, or a type.
const FIXED_MEMBERS: [&str; 12] = [
    "action",
    "code",
    "id",
    "jsonrpc",
    "level",
    "method",
    "mimeType",
    "mode",
    "protocolVersion",
    "role",
    "status",
    "type",
];

/// What a name means to MCP or JSON Schema, in the places where it means something.
#[derive(Clone, Copy, Default, Debug)]
#[allow(clippy::struct_excessive_bools)]
pub(super) struct Roles {
    pub(super) routes: bool,
    pub(super) opens: bool,
    pub(super) meta: bool,
    pub(super) protocol: bool,
    pub(super) reserved: bool,
    pub(super) user: bool,
    pub(super) content: bool,
    pub(super) schema: bool,
    pub(super) schema_names: bool,
    pub(super) schema_values: bool,
    /// The protocol and its extensions give the value itself a meaning: never looked into.
    pub(super) fixed: bool,
    /// A keyword of JSON Schema.
    pub(super) keyword: bool,
    /// One that is nobody's but its writer's: `x-...`, but for MCP's.
    pub(super) extension: bool,
    /// Words for people in a JSON Schema.
    pub(super) prose: bool,
    /// Bytes of a picture, sound or file.
    pub(super) binary: bool,
    pub(super) version: bool,
}

impl Roles {
    pub(super) fn of(name: &str) -> Self {
        Self {
            routes: ["jsonrpc", "id", "method"].contains(&name),
            opens: ["params", "result", "error"].contains(&name),
            meta: name == "_meta",
            protocol: PROTOCOL_MEMBERS.contains(&name),
            reserved: name == "progressToken" || name.starts_with("io.modelcontextprotocol/"),
            user: USER_DATA.contains(&name),
            content: name == "content",
            schema: SCHEMA_MEMBERS.contains(&name),
            schema_names: SCHEMA_NAMES.contains(&name),
            schema_values: SCHEMA_VALUES.contains(&name),
            fixed: FIXED_MEMBERS.contains(&name),
            keyword: KEYWORDS.contains(&name) || name.starts_with("x-"),
            extension: name.starts_with("x-") && name != MIRRORED,
            prose: ["title", "description", "$comment"].contains(&name),
            binary: ["data", "blob"].contains(&name),
            version: name.len() >= 7
                && name.get(name.len() - 7..).is_some_and(|end| end.eq_ignore_ascii_case("version")),
        }
    }
}
