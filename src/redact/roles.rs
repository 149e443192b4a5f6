//! What members' names mean to MCP and to JSON Schema.

/// Members whose values MCP gives a meaning that clients and servers act on: routing, types, cursors. They stay where
/// they are the protocol's.
const PROTOCOL_MEMBERS: [&str; 31] = [
    "action",
    "cacheScope",
    "code",
    "cursor",
    "id",
    "includeContext",
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
    "taskSupport",
    "theme",
    "toolUseId",
    "type",
    "uri",
    "uriTemplate",
];

/// The names of all members that MCP defines: they stay where they are the protocol's, as no message means anything
/// without them.
const MEMBERS: [&str; 137] = [
    "_meta",
    "action",
    "annotations",
    "argument",
    "arguments",
    "audience",
    "baggage",
    "blob",
    "cacheScope",
    "call",
    "cancel",
    "capabilities",
    "clientInfo",
    "code",
    "completion",
    "completions",
    "content",
    "contents",
    "context",
    "costPriority",
    "create",
    "createdAt",
    "cursor",
    "data",
    "description",
    "destructiveHint",
    "elicitation",
    "elicitationId",
    "elicitations",
    "error",
    "execution",
    "experimental",
    "extensions",
    "form",
    "hasMore",
    "hints",
    "icons",
    "id",
    "idempotentHint",
    "includeContext",
    "input",
    "inputRequests",
    "inputResponses",
    "inputSchema",
    "instructions",
    "intelligencePriority",
    "isError",
    "jsonrpc",
    "lastModified",
    "lastUpdatedAt",
    "level",
    "list",
    "listChanged",
    "logger",
    "logging",
    "maxTokens",
    "message",
    "messages",
    "metadata",
    "method",
    "mimeType",
    "mode",
    "model",
    "modelPreferences",
    "name",
    "nextCursor",
    "notifications",
    "openWorldHint",
    "outputSchema",
    "params",
    "pollInterval",
    "priority",
    "progress",
    "progressToken",
    "prompts",
    "promptsListChanged",
    "protocolVersion",
    "readOnlyHint",
    "reason",
    "ref",
    "requestId",
    "requestState",
    "requested",
    "requestedSchema",
    "requests",
    "required",
    "requiredCapabilities",
    "resource",
    "resourceSubscriptions",
    "resourceTemplates",
    "resources",
    "resourcesListChanged",
    "result",
    "resultType",
    "role",
    "roots",
    "sampling",
    "serverInfo",
    "size",
    "sizes",
    "speedPriority",
    "src",
    "status",
    "statusMessage",
    "stopReason",
    "stopSequences",
    "structuredContent",
    "subscribe",
    "subscriptionId",
    "supported",
    "supportedVersions",
    "systemPrompt",
    "task",
    "taskId",
    "taskSupport",
    "tasks",
    "temperature",
    "text",
    "theme",
    "title",
    "toolChoice",
    "toolUseId",
    "tools",
    "toolsListChanged",
    "total",
    "traceparent",
    "tracestate",
    "ttl",
    "ttlMs",
    "type",
    "uri",
    "uriTemplate",
    "url",
    "value",
    "values",
    "version",
    "websiteUrl",
];

/// Members of the protocol that hold what users, tools and applications put there.
const USER_DATA: [&str; 6] = ["arguments", "context", "data", "input", "metadata", "structuredContent"];

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

/// Keywords that hold schemas, lists of them, or lists of names, and no data.
const APPLICATORS: [&str; 17] = [
    "allOf",
    "anyOf",
    "contains",
    "dependencies",
    "dependentRequired",
    "discriminator",
    "else",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "required",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];

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
    /// One that holds schemas or names.
    pub(super) applicator: bool,
    /// One that is nobody's but its writer's: `x-...`, but for MCP's.
    pub(super) extension: bool,
    /// The name of a member that MCP defines.
    pub(super) member: bool,
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
            applicator: APPLICATORS.contains(&name),
            extension: name.starts_with("x-") && name != MIRRORED,
            member: MEMBERS.binary_search(&name).is_ok(),
            prose: ["title", "description", "$comment"].contains(&name),
            binary: ["data", "blob"].contains(&name),
            version: name.len() >= 7
                && name.get(name.len() - 7..).is_some_and(|end| end.eq_ignore_ascii_case("version")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_in_order_and_hold_the_others() {
        assert!(MEMBERS.is_sorted());
        let others = PROTOCOL_MEMBERS.iter().chain(&USER_DATA).chain(&SCHEMA_MEMBERS).chain(&FIXED_MEMBERS);
        for name in others {
            assert!(Roles::of(name).member, "{name}");
        }
    }
}
