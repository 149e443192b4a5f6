//! The configuration files in which MCP clients name their servers, and the copy of one in which every server goes
//! through mcpreel.
//!
//! Claude Code, Claude Desktop, Cursor and most others have a map `mcpServers`, VS Code has `servers` (in its settings
//! `mcp.servers`). The file is edited as text: what is not about reaching a server stays as it was written, comments
//! included, and `${VAR}` in a command stays for the client to fill in.

mod blanked;

use std::path::Path;

use crate::error::{Error, Result};
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::scan::{Span, SyntaxError};
use crate::jsonrpc::string;
use crate::jsonrpc::tree::{Kind, Tree};
use blanked::blanked;

/// Where the map of servers may be.
const MAPS: [&[&str]; 4] =
    [&["mcpServers"], &["servers"], &["mcp", "servers"], &["projects", ANY, "mcpServers"]];
/// Any name.
const ANY: &str = "*";
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
    /// All that is to be rewritten.
    entries: Vec<Entry>,
}

/// One of the entries of a server, which may be in several maps.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    span: Span,
    /// Entries of the same name in the same map that a reader passes over, or takes in place of this one.
    earlier: Vec<Span>,
    /// All that tells how the server is reached, each as often as it is there.
    command: Vec<Span>,
    args: Vec<Span>,
    urls: Vec<Span>,
    headers: Vec<Span>,
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
    /// Where values of the environment stand in the text, in order, and the variables they are of.
    pub values: Vec<(Span, String)>,
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
        let found: Vec<usize> = MAPS.iter().flat_map(|map| all(&tree, map)).collect();
        let Some(first) = found.first() else {
            let what = "no servers: expected an object `mcpServers` (Claude, Cursor) or `servers` (VS Code)";
            return Err(Error::input(path, "", what));
        };
        let is_object = |map: &usize| tree.node(*map).is_some_and(|node| node.kind == Kind::Object);
        let maps: Vec<usize> = found.iter().copied().filter(is_object).collect();
        if maps.is_empty() {
            return Err(Error::input(path, tree.pointer(*first), "expected an object of servers by name"));
        }
        let mut servers: Vec<(usize, Server)> = Vec::new();
        for map in maps {
            for (at, server) in servers_in(path, &tree, map)? {
                match servers.iter_mut().find(|(_, other)| other.name == server.name) {
                    None => servers.push((at, server)),
                    Some((other, known)) if says(&tree, *other) == says(&tree, at) => {
                        known.entries.extend(server.entries);
                    }
                    Some((_, known)) => {
                        let what = format!(
                            "is another server than the one of this name at {}: give one of them another name",
                            known.place
                        );
                        return Err(Error::input(path, server.place, what));
                    }
                }
            }
        }
        if servers.is_empty() {
            return Err(Error::input(path, tree.pointer(*first), "names no server"));
        }
        Ok(Self { text, servers: servers.into_iter().map(|(_, server)| server).collect() })
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
        let Some(new) = self.values(server, instead) else { return };
        for entry in &server.entries {
            let mut own = Edits::new();
            for (spans, text) in
                [(&entry.args, &new.args), (&entry.urls, &new.url), (&entry.headers, &new.headers)]
            {
                spans.iter().for_each(|span| own.replace(*span, text.as_str()));
            }
            let adds_args = entry.args.is_empty() && matches!(server.reached, Reached::Command { .. });
            for span in &entry.command {
                let more = match adds_args && entry.command.last() == Some(span) {
                    true => format!(", \"args\": {}", new.args),
                    false => String::new(),
                };
                own.replace(*span, format!("{}{more}", new.command));
            }
            let mut text = String::new();
            own.apply_within(&self.text, entry.span, &mut text);
            entry.earlier.iter().for_each(|span| edits.replace(*span, text.as_str()));
            edits.replace(entry.span, text);
        }
    }

    /// What every entry of a server says now. What is not the way to reach it leads nowhere.
    fn values(&self, server: &Server, instead: &Instead) -> Option<Values> {
        let nowhere = || "null".to_owned();
        match (&server.reached, instead) {
            (Reached::Command { command, args }, Instead::Wrapped { program, arguments }) => {
                let own = arguments.iter().map(|argument| string::encode(argument));
                let theirs = args.map(|args| inside(args.of(&self.text))).unwrap_or_default();
                let mut list: Vec<String> = own.chain([command.of(&self.text).to_owned()]).collect();
                if !theirs.trim().is_empty() {
                    list.push(theirs.trim().to_owned());
                }
                Some(Values {
                    command: string::encode(program),
                    args: format!("[{}]", list.join(", ")),
                    url: nowhere(),
                    headers: "{}".to_owned(),
                })
            }
            (Reached::Url { headers, .. }, Instead::At { url, kept }) => {
                let headers = headers.as_ref().map_or(&[][..], |(_, fields)| fields);
                let fields = kept.iter().filter_map(|index| headers.get(*index));
                let fields: Vec<String> = fields
                    .map(|field| format!("{}: {}", field.name.of(&self.text), field.value.of(&self.text)))
                    .collect();
                Some(Values {
                    command: nowhere(),
                    args: "[]".to_owned(),
                    url: string::encode(url),
                    headers: format!("{{{}}}", fields.join(", ")),
                })
            }
            _ => None,
        }
    }
}

/// The values of a rewritten entry.
struct Values {
    command: String,
    args: String,
    url: String,
    headers: String,
}

/// All places that a path of names leads to: names may be there more than once.
fn all(tree: &Tree<'_>, path: &[&str]) -> Vec<usize> {
    path.iter().fold(vec![0], |places, name| {
        let of = |place: usize| {
            let is_meant =
                |child: &usize| if *name == ANY { named(tree, *child) } else { tree.name_is(*child, name) };
            tree.children(place).filter(is_meant).collect::<Vec<_>>()
        };
        places.into_iter().flat_map(of).collect()
    })
}

fn named(tree: &Tree<'_>, node: usize) -> bool {
    tree.node(node).is_some_and(|node| node.name.is_some())
}

/// The servers of one map, each with its place in the tree.
fn servers_in(path: &Path, tree: &Tree<'_>, map: usize) -> Result<Vec<(usize, Server)>> {
    let mut servers: Vec<(usize, Server)> = Vec::new();
    for at in tree.children(map) {
        let mut server = server(path, tree, at)?;
        // As nearly every reader of JSON: the last one counts.
        if let Some(known) = servers.iter().position(|(_, other)| other.name == server.name) {
            let (_, before) = servers.remove(known);
            let spans =
                before.entries.into_iter().flat_map(|entry| entry.earlier.into_iter().chain([entry.span]));
            if let Some(entry) = server.entries.first_mut() {
                entry.earlier.extend(spans);
            }
        }
        servers.push((at, server));
    }
    Ok(servers)
}

/// What an entry says of how its server is reached, to compare it with another.
fn says(tree: &Tree<'_>, entry: usize) -> Vec<Option<serde_json::Value>> {
    let value = |name: &str| serde_json::from_str(tree.text_of(tree.member(entry, name)?)).ok();
    ["type", "command", "args", "env", "cwd", "headers"].into_iter().chain(URLS).map(value).collect()
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
            Some(node) if node.span.of(tree.text) == "null" => Ok(None),
            _ => Err(Error::input(path, tree.pointer(index), format!("expected {}", in_words(kind)))),
        }
    };
    let mut command = member("command", Kind::String)?;
    let (mut url, mut called) = (None, "");
    for name in URLS {
        let Some(found) = member(name, Kind::String)? else { continue };
        match url {
            None => (url, called) = (Some(found), name),
            Some(first) if decoded(tree, first) == decoded(tree, found) => {}
            Some(_) => {
                return Err(wrong(&format!("`{called}` and `{name}` are two addresses: which one is it?")));
            }
        }
    }
    if command.is_some() && url.is_some() {
        let kind = member("type", Kind::String)?.map(|kind| decoded(tree, kind).to_ascii_lowercase());
        match kind.as_deref() {
            Some("stdio") => url = None,
            Some(kind) if kind == "sse" || kind.contains("http") => command = None,
            _ => return Err(wrong("both `command` and `url`: say by `type` how this server is reached")),
        }
    }
    let reached = match (command, url) {
        (Some(command), _) => Reached::Command { command, args: member("args", Kind::Array)? },
        (None, Some(url)) => {
            let map = member("headers", Kind::Object)?.zip(tree.member(entry, "headers"));
            let headers =
                map.map(|(span, map)| fields(path, tree, map).map(|fields| (span, fields))).transpose()?;
            Reached::Url { url, headers }
        }
        (None, None) => return Err(wrong("neither `command` nor `url`: how is this server reached?")),
    };
    let spans = |names: &[&str]| {
        let is_meant = |child: &usize| names.iter().any(|name| tree.name_is(*child, name));
        tree.children(entry)
            .filter(is_meant)
            .filter_map(|child| tree.node(child))
            .map(|node| node.span)
            .collect()
    };
    let entry = Entry {
        span: node.span,
        earlier: Vec::new(),
        command: spans(&["command"]),
        args: spans(&["args"]),
        urls: spans(&URLS),
        headers: spans(&["headers"]),
    };
    Ok(Server { name, reached, place, entries: vec![entry] })
}

fn decoded<'a>(tree: &Tree<'a>, literal: Span) -> std::borrow::Cow<'a, str> {
    string::decode(literal.of(tree.text))
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
    let mut values = Vec::new();
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
        if let Some(value) = &value {
            values.push((Span::new(out.len(), out.len() + value.len()), name.to_owned()));
        }
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
    Filled { text: out, left, values }
}

#[cfg(test)]
mod tests;
