//! The configuration files in which MCP clients name their servers, and the copy of one in which every server goes
//! through mcpreel.
//!
//! Claude Code, Claude Desktop, Cursor and most others have a map `mcpServers`, VS Code has `servers` (in its settings
//! `mcp.servers`). The file is edited as text: what is not about reaching a server stays as it was written, comments
//! included, and `${VAR}` in a command stays for the client to fill in.

use std::ops::Range;
use std::path::Path;

use crate::error::{Error, Result};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::scan::{Span, SyntaxError};
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};

/// Where the map of servers may be.
const MAPS: [&[&str]; 3] = [&["mcpServers"], &["servers"], &["mcp", "servers"]];
/// What clients call the URL of a server.
const URLS: [&str; 3] = ["url", "serverUrl", "httpUrl"];

/// A configuration file that was read.
#[derive(Debug)]
pub struct Config {
    text: String,
    servers: Vec<Server>,
}

/// One of its servers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// How it is reached.
    pub reached: Reached,
    /// Where its entry is, for messages.
    pub place: String,
}

/// How a server is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reached {
    /// The client starts it.
    Command {
        /// The program, as a literal.
        command: Span,
        /// The array of its arguments.
        args: Option<Span>,
    },
    /// It is there already.
    Url {
        /// The URL, as a literal.
        url: Span,
        /// The object `headers`, and its members.
        headers: Option<(Span, Vec<Field>)>,
    },
}

/// A member of `headers`: name and value, as literals.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Field {
    name: Span,
    value: Span,
}

/// What is put in the place of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Instead {
    /// The client starts this program with these arguments, in front of what it would have started.
    Wrapped {
        /// The program.
        program: String,
        /// Its arguments; the server's own command line follows them.
        arguments: Vec<String>,
    },
    /// The client finds it here.
    At {
        /// The local URL.
        url: String,
        /// The headers that the client keeps sending, as positions in the list of the entry. The others are gone.
        kept: Vec<usize>,
    },
}

/// A text with references to variables, filled in as far as that is possible.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filled {
    /// The text.
    pub text: String,
    /// The references that stayed: `${input:key}`, or a variable that is not set.
    pub left: Vec<String>,
}

impl Config {
    /// Reads a configuration; `path` is for messages. Comments and trailing commas are allowed, as in VS Code.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] where it is no configuration of servers.
    pub fn parse(path: &Path, text: String) -> Result<Self> {
        let plain = blanked(&text);
        let tree = Tree::of(&plain).map_err(|error| not_json(path, &plain, &error))?;
        let Some(map) = MAPS.iter().find_map(|map| tree.path(map)) else {
            let what = "no servers: expected an object `mcpServers` (Claude, Cursor) or `servers` (VS Code)";
            return Err(Error::input(path, "", what));
        };
        if tree.node(map).is_none_or(|node| node.kind != Kind::Object) {
            return Err(Error::input(path, tree.pointer(map), "expected an object of servers by name"));
        }
        let mut servers: Vec<Server> = Vec::new();
        for entry in tree.children(map) {
            let server = server(path, &tree, entry)?;
            // As every reader of JSON: the last one counts.
            servers.retain(|other| other.name != server.name);
            servers.push(server);
        }
        if servers.is_empty() {
            return Err(Error::input(path, tree.pointer(map), "names no server"));
        }
        Ok(Self { text, servers })
    }

    /// The servers, in the order of the file.
    #[must_use]
    pub fn servers(&self) -> &[Server] {
        &self.servers
    }

    /// The URL of a server, with variables filled in.
    #[must_use]
    pub fn url(&self, url: Span, variable: &dyn Fn(&str) -> Option<String>) -> Filled {
        fill(&string::decode(url.of(&self.text)), variable)
    }

    /// A header of a server, its value with variables filled in.
    #[must_use]
    pub fn header(&self, field: &Field, variable: &dyn Fn(&str) -> Option<String>) -> (String, Filled) {
        let name = string::decode(field.name.of(&self.text)).into_owned();
        (name, fill(&string::decode(field.value.of(&self.text)), variable))
    }

    /// The file with something else in the place of each server, in the order of [`Config::servers`].
    #[must_use]
    pub fn rewritten(&self, instead: &[Instead]) -> String {
        let mut edits = Edits::new();
        for (server, instead) in self.servers.iter().zip(instead) {
            self.put(&mut edits, server, instead);
        }
        edits.apply(&self.text)
    }

    fn put(&self, edits: &mut Edits, server: &Server, instead: &Instead) {
        match (&server.reached, instead) {
            (Reached::Command { command, args }, Instead::Wrapped { program, arguments }) => {
                let own = arguments.iter().map(|argument| string::encode(argument));
                let theirs = args.map(|args| inside(args.of(&self.text))).unwrap_or_default();
                let mut list: Vec<String> = own.chain([command.of(&self.text).to_owned()]).collect();
                if !theirs.trim().is_empty() {
                    list.push(theirs.trim().to_owned());
                }
                let list = format!("[{}]", list.join(", "));
                match args {
                    Some(args) => {
                        edits.replace(*command, string::encode(program));
                        edits.replace(*args, list);
                    }
                    None => edits.replace(*command, format!("{}, \"args\": {list}", string::encode(program))),
                }
            }
            (Reached::Url { url, headers }, Instead::At { url: local, kept }) => {
                edits.replace(*url, string::encode(local));
                if let Some((map, headers)) = headers {
                    let fields = kept.iter().filter_map(|index| headers.get(*index));
                    let fields: Vec<String> = fields
                        .map(|field| format!("{}: {}", field.name.of(&self.text), field.value.of(&self.text)))
                        .collect();
                    edits.replace(*map, format!("{{{}}}", fields.join(", ")));
                }
            }
            _ => {}
        }
    }
}

/// What is between the brackets of an array, without a trailing comma.
fn inside(array: &str) -> String {
    let plain = blanked(array);
    let inner = plain.trim().trim_start_matches('[').trim_end_matches(']');
    inner.to_owned()
}

fn not_json(path: &Path, text: &str, error: &SyntaxError) -> Error {
    let before = text.get(..error.at).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    Error::input(path, format!("line {line}"), format!("not a client's configuration: {error}"))
}

fn server(path: &Path, tree: &Tree<'_>, entry: usize) -> Result<Server> {
    let place = tree.pointer(entry);
    let wrong = |what: &str| Error::input(path, &place, what);
    let node = tree.node(entry).ok_or_else(|| wrong("cannot be read"))?;
    let name = node.name.map(|name| string::decode(name.of(tree.text)).into_owned()).unwrap_or_default();
    if name.is_empty() || name.chars().any(char::is_control) {
        return Err(wrong("a server needs a name"));
    }
    if node.kind != Kind::Object {
        return Err(wrong("expected an object with `command` or `url`"));
    }
    let member = |name: &str, kind: Kind| -> Result<Option<Span>> {
        let Some(index) = tree.children(entry).filter(|child| tree.name_is(*child, name)).last() else {
            return Ok(None);
        };
        match tree.node(index) {
            Some(node) if node.kind == kind => Ok(Some(node.span)),
            _ => Err(Error::input(path, tree.pointer(index), format!("expected {}", in_words(kind)))),
        }
    };
    let reached = if let Some(command) = member("command", Kind::String)? {
        let args = member("args", Kind::Array)?;
        Reached::Command { command, args }
    } else {
        let mut found = None;
        for name in URLS {
            found = found.or(member(name, Kind::String)?);
        }
        let url = found.ok_or_else(|| wrong("neither `command` nor `url`: how is this server reached?"))?;
        let map = member("headers", Kind::Object)?.zip(tree.member(entry, "headers"));
        let headers =
            map.map(|(span, map)| fields(path, tree, map).map(|fields| (span, fields))).transpose()?;
        Reached::Url { url, headers }
    };
    Ok(Server { name, reached, place })
}

fn fields(path: &Path, tree: &Tree<'_>, map: usize) -> Result<Vec<Field>> {
    let field = |child: usize| match tree.node(child) {
        Some(node) if node.kind == Kind::String => node.name.map(|name| Field { name, value: node.span }),
        _ => None,
    };
    tree.children(map)
        .map(|child| field(child).ok_or_else(|| Error::input(path, tree.pointer(child), "expected a string")))
        .collect()
}

fn in_words(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "an object",
        Kind::Array => "an array",
        Kind::String => "a string",
        Kind::Number => "a number",
        Kind::Literal => "true, false or null",
    }
}

/// Fills in `${VAR}`, `${env:VAR}` and `${VAR:-default}`. Other references are the client's.
fn fill(text: &str, variable: &dyn Fn(&str) -> Option<String>) -> Filled {
    let (mut out, mut left, mut rest) = (String::new(), Vec::new(), text);
    while let Some(start) = rest.find("${") {
        let (before, reference) = rest.split_at(start);
        out.push_str(before);
        let Some(end) = reference.find('}') else {
            rest = reference;
            break;
        };
        let (reference, after) = reference.split_at(end + 1);
        let inner = reference.trim_start_matches("${").trim_end_matches('}');
        let (name, default) = match inner.split_once(":-") {
            Some((name, default)) => (name, Some(default)),
            None => (inner.strip_prefix("env:").unwrap_or(inner), None),
        };
        let is_name =
            !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let value = if is_name { variable(name).filter(|value| !value.is_empty()) } else { None };
        match value.or_else(|| default.map(str::to_owned)) {
            Some(value) => out.push_str(&value),
            None => {
                left.push(reference.to_owned());
                out.push_str(reference);
            }
        }
        rest = after;
    }
    out.push_str(rest);
    Filled { text: out, left }
}

/// The text with blanks in the place of comments, trailing commas and a byte order mark: JSON of the same length.
fn blanked(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut blank = |range: Range<usize>| {
        for byte in bytes.get_mut(range).unwrap_or_default() {
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    };
    if text.starts_with('\u{feff}') {
        blank(0..3);
    }
    let source = text.as_bytes();
    let at = |index: usize| source.get(index).copied();
    let (mut index, mut comma) = (0, None);
    while let Some(byte) = at(index) {
        match byte {
            b'"' => {
                comma = None;
                index += 1;
                while let Some(byte) = at(index).filter(|byte| *byte != b'"') {
                    index += if byte == b'\\' { 2 } else { 1 };
                }
                index += 1;
            }
            b'/' if at(index + 1) == Some(b'/') => {
                let length = source.iter().skip(index).take_while(|byte| **byte != b'\n').count();
                blank(index..index + length);
                index += length;
            }
            b'/' if at(index + 1) == Some(b'*') => {
                let rest = text.get(index + 2..).unwrap_or_default();
                let length = rest.find("*/").map_or(source.len() - index, |end| end + 4);
                blank(index..index + length);
                index += length;
            }
            b',' => {
                comma = Some(index);
                index += 1;
            }
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    blank(comma..comma + 1);
                }
                index += 1;
            }
            _ => {
                if !byte.is_ascii_whitespace() {
                    comma = None;
                }
                index += 1;
            }
        }
    }
    // Whole characters were replaced by as many blanks as they had bytes.
    String::from_utf8(bytes).unwrap_or_default()
}

#[cfg(test)]
mod tests;
