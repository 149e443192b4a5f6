//! The overlay: a JSON file that says which faults there are. `docs/reference/faults.md` describes it, and
//! `docs/reference/faults.schema.json` in a form for editors.

use std::path::{Path, PathBuf};

use super::target::{Glob, Nth, Target, word};
use super::{Fault, Kind, Strategy};
use crate::error::{Error, Result};
use crate::http::headers::is_sound;
use crate::jsonrpc::tree::{Kind as Node, Tree};
use crate::jsonrpc::{canonical, pointer, pretty};

/// The faults of one file.
#[derive(Clone, Debug)]
pub struct Overlay {
    /// The file, as the user named it.
    pub path: PathBuf,
    /// The faults, in order.
    pub faults: Vec<Fault>,
}

/// The types, each with its parameters.
const TYPES: [(&str, &[&str]); 14] = [
    ("delay", &["ms"]),
    ("timeout", &[]),
    ("error", &["code", "message", "data"]),
    ("malformed", &["strategy"]),
    ("disconnect", &["after_response"]),
    ("http_status", &["status", "headers", "body"]),
    ("session_expired", &[]),
    ("cut_stream", &["after_events"]),
    ("drip", &["bytes_per_second"]),
    ("duplicate", &[]),
    ("late", &[]),
    ("reorder", &["within_ms"]),
    ("stderr_noise", &["text", "repeat"]),
    ("exit", &["code", "after_response"]),
];

impl Overlay {
    /// Reads an overlay.
    ///
    /// # Errors
    ///
    /// One line about the first thing that is not as it must be.
    pub fn parse(path: &Path, text: &str) -> Result<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let tree = Tree::of(text).map_err(|error| {
            Error::input(
                path,
                format!("line {}", Ends::of(text).line(error.at)),
                format!("not JSON: expected {}", error.expected),
            )
        })?;
        let reader = Reader { path, tree: &tree, ends: Ends::of(text) };
        let [faults, _schema] = reader.members(0, "an overlay", ["faults", "$schema"])?;
        let Some(faults) = faults else {
            return Err(reader.fail(0, "has no \"faults\"; an overlay is {\"faults\": [...]}"));
        };
        if tree.node(faults).is_none_or(|node| node.kind != Node::Array) {
            return Err(reader.fail(faults, "must be a list of faults"));
        }
        let faults = tree.children(faults).map(|node| reader.fault(node)).collect::<Result<_>>()?;
        Ok(Self { path: path.to_path_buf(), faults })
    }

    /// An error about one of its faults.
    #[must_use]
    pub fn wrong(&self, index: usize, what: impl Into<String>) -> Error {
        let line = self.faults.get(index).map_or(0, |fault| fault.line);
        Error::input(&self.path, format!("line {line}, /faults/{index}"), what)
    }
}

/// Where the lines of a text end. Each fault asks for its line, so they are counted once.
struct Ends(Vec<usize>);

impl Ends {
    fn of(text: &str) -> Self {
        Self(memchr::memchr_iter(b'\n', text.as_bytes()).collect())
    }

    fn line(&self, at: usize) -> usize {
        self.0.partition_point(|end| *end < at) + 1
    }
}

struct Reader<'t> {
    path: &'t Path,
    tree: &'t Tree<'t>,
    ends: Ends,
}

impl Reader<'_> {
    fn fail(&self, node: usize, what: impl Into<String>) -> Error {
        let start = self.tree.node(node).map_or(0, |node| node.span.start);
        let (line, pointer) = (self.ends.line(start), self.tree.pointer(node));
        let shown = |char: char| match char.is_control() {
            true => char.escape_default().to_string(),
            false => char.to_string(),
        };
        let pointer: String = pointer.chars().map(shown).collect();
        let place =
            if pointer.is_empty() { format!("line {line}") } else { format!("line {line}, {pointer}") };
        Error::input(self.path, place, what)
    }

    fn text(&self, node: usize) -> &str {
        self.tree.text_of(node)
    }

    fn is(&self, node: usize, kind: Node) -> bool {
        self.tree.node(node).is_some_and(|node| node.kind == kind)
    }

    /// The members of an object, in the order of `known`; `null` is as good as absent.
    fn members<const N: usize>(
        &self,
        node: usize,
        what: &str,
        known: [&str; N],
    ) -> Result<[Option<usize>; N]> {
        let mut found = [None; N];
        self.each_member(node, what, &known, |at, child| {
            if let Some(slot) = found.get_mut(at) {
                *slot = Some(child);
            }
        })?;
        Ok(found)
    }

    fn each_member(
        &self,
        node: usize,
        what: &str,
        known: &[&str],
        mut take: impl FnMut(usize, usize),
    ) -> Result<()> {
        if !self.is(node, Node::Object) {
            return Err(self.fail(node, format!("must be an object: {what}")));
        }
        let mut seen = vec![false; known.len()];
        for child in self.tree.children(node) {
            let name =
                self.tree.node(child).and_then(|child| child.name).map(|name| word(name.of(self.tree.text)));
            let name = name.unwrap_or_default();
            let Some(at) = known.iter().position(|known| *known == name) else {
                let known = match known {
                    [] => "nothing".to_owned(),
                    known => known.join(", "),
                };
                return Err(self.fail(child, format!("is unknown; {what} has {known}")));
            };
            if seen.get(at).copied().unwrap_or_default() {
                return Err(self.fail(child, "stands there twice"));
            }
            seen.get_mut(at).into_iter().for_each(|seen| *seen = true);
            if self.text(child) != "null" {
                take(at, child);
            }
        }
        Ok(())
    }

    fn string(&self, node: Option<usize>, fallback: &str) -> Result<String> {
        match node {
            None => Ok(fallback.to_owned()),
            Some(node) if self.is(node, Node::String) => Ok(word(self.text(node))),
            Some(node) => Err(self.fail(node, "must be a string")),
        }
    }

    fn number(&self, node: Option<usize>, least: u64, most: u64, fallback: u64) -> Result<u64> {
        let Some(node) = node else { return Ok(fallback) };
        match self.text(node).parse::<u64>().ok().filter(|number| (least..=most).contains(number)) {
            Some(number) if self.is(node, Node::Number) => Ok(number),
            _ if most == u64::MAX => Err(self.fail(node, format!("must be a whole number from {least}"))),
            _ => Err(self.fail(node, format!("must be a whole number from {least} to {most}"))),
        }
    }

    fn flag(&self, node: Option<usize>) -> Result<bool> {
        match node.map(|node| (node, self.text(node))) {
            None | Some((_, "false")) => Ok(false),
            Some((_, "true")) => Ok(true),
            Some((node, _)) => Err(self.fail(node, "must be true or false")),
        }
    }

    fn fault(&self, node: usize) -> Result<Fault> {
        let [target, kind, params] = self.members(node, "a fault", ["target", "type", "params"])?;
        let Some(kind) = kind else { return Err(self.fail(node, "has no \"type\"")) };
        let name = self.string(Some(kind), "")?;
        let Some((_, known)) = TYPES.iter().find(|(known, _)| *known == name) else {
            let types = TYPES.map(|(name, _)| name).join(", ");
            return Err(self.fail(kind, format!("{name:?} is no type of fault; there are {types}")));
        };
        let mut found = [None; 3];
        if let Some(params) = params {
            self.each_member(params, &format!("{name:?}"), known, |at, child| {
                found.get_mut(at).into_iter().for_each(|slot| *slot = Some(child));
            })?;
        }
        let kind = self.kind(node, &name, found)?;
        let Some(target) = target else { return Err(self.fail(node, "has no \"target\"")) };
        let start = self.tree.node(node).map_or(0, |node| node.span.start);
        Ok(Fault {
            kind,
            target: self.target(target)?,
            line: self.ends.line(start),
            shown: pretty::packed(self.text(target)),
        })
    }

    fn kind(&self, fault: usize, name: &str, params: [Option<usize>; 3]) -> Result<Kind> {
        let [first, second, third] = params;
        Ok(match name {
            "delay" => Kind::Delay { micros: self.number(first, 0, MOST_MS, 0)? * 1_000 },
            "timeout" => Kind::Timeout,
            "error" => {
                let code = match first {
                    None => -32603,
                    Some(node) => self
                        .text(node)
                        .parse()
                        .map_err(|_| self.fail(node, "must be a whole number: a JSON-RPC error code"))?,
                };
                let message = self.string(second, "mcpreel injected error")?;
                Kind::Error { code, message, data: third.map(|data| pretty::packed(self.text(data))) }
            }
            "malformed" => Kind::Malformed(match &*self.string(first, "truncate")? {
                "truncate" => Strategy::Truncate,
                "not_json" => Strategy::NotJson,
                "wrong_id" => Strategy::WrongId,
                _ => {
                    let node = first.unwrap_or(fault);
                    return Err(self.fail(node, "must be truncate, not_json or wrong_id"));
                }
            }),
            "disconnect" => Kind::Disconnect { after_response: self.flag(first)? },
            "http_status" => {
                if first.is_none() {
                    return Err(self.fail(fault, "\"http_status\" needs params.status, from 200 to 599"));
                }
                let status = self.number(first, 200, 599, 200)?;
                let status = u16::try_from(status).unwrap_or(500);
                Kind::HttpStatus { status, headers: self.headers(second)?, body: self.string(third, "")? }
            }
            "session_expired" => Kind::SessionExpired,
            "cut_stream" => Kind::CutStream { after_events: self.number(first, 0, u64::MAX, 0)? },
            "drip" => {
                if first.is_none() {
                    return Err(self.fail(fault, "\"drip\" needs params.bytes_per_second, from 1"));
                }
                Kind::Drip { bytes_per_second: self.number(first, 1, u64::MAX, 1)? }
            }
            "duplicate" => Kind::Duplicate,
            "late" => Kind::Late,
            "reorder" => Kind::Reorder { within: self.number(first, 1, MOST_MS, 1_000)? * 1_000 },
            "stderr_noise" => {
                let text = self.string(first, "mcpreel injected noise")?;
                Kind::StderrNoise { text, repeat: self.number(second, 1, 100_000, 1)? }
            }
            _ => {
                let code = self.number(first, 0, 255, 1)?;
                let code = u8::try_from(code).unwrap_or(1);
                Kind::Exit { code, after_response: self.flag(second)? }
            }
        })
    }

    fn headers(&self, node: Option<usize>) -> Result<Vec<(String, String)>> {
        let Some(node) = node else { return Ok(Vec::new()) };
        if !self.is(node, Node::Object) {
            return Err(self.fail(node, "must be an object of header fields"));
        }
        let field = |child: usize| {
            let name = self.tree.node(child).and_then(|child| child.name);
            let name = name.map(|name| word(name.of(self.tree.text))).unwrap_or_default();
            let value = self.string(Some(child), "")?;
            match is_sound(&name, value.as_bytes()) {
                true => Ok((name, value)),
                false => Err(self.fail(child, "is no header field that could be sent")),
            }
        };
        self.tree.children(node).map(field).collect()
    }

    fn target(&self, node: usize) -> Result<Target> {
        let known = ["method", "server", "name", "arguments", "nth", "probability", "seed"];
        let [method, server, name, arguments, nth, probability, seed] =
            self.members(node, "a target", known)?;
        let glob = |node: Option<usize>| match node {
            Some(_) => self.string(node, "").map(|given| Some(Glob::new(&given))),
            None => Ok(None),
        };
        let chance = match (probability, seed) {
            (None, None) => None,
            (None, Some(seed)) => return Err(self.fail(seed, "goes with a probability only")),
            (Some(node), seed) => {
                let probability = self.text(node).parse::<f64>().ok().filter(|p| *p > 0.0 && *p <= 1.0);
                let probability =
                    probability.ok_or_else(|| self.fail(node, "must be a number above 0 and up to 1"))?;
                Some((probability, self.number(seed, 0, u64::MAX, 0)?))
            }
        };
        Ok(Target {
            method: glob(method)?,
            server: glob(server)?,
            name: glob(name)?,
            arguments: self.arguments(arguments)?,
            nth: self.nth(nth)?,
            chance,
        })
    }

    fn arguments(&self, node: Option<usize>) -> Result<Vec<(Vec<String>, Vec<u8>)>> {
        let Some(node) = node else { return Ok(Vec::new()) };
        if !self.is(node, Node::Object) {
            return Err(
                self.fail(node, "must be an object: a JSON pointer into the arguments, and the value there")
            );
        }
        let pair = |child: usize| {
            let name = self.tree.node(child).and_then(|child| child.name);
            let name = name.map(|name| word(name.of(self.tree.text))).unwrap_or_default();
            let path = pointer::segments(&name).map_err(|why| self.fail(child, why))?;
            Ok((path, canonical::of(self.text(child)).unwrap_or_default()))
        };
        self.tree.children(node).map(pair).collect()
    }

    fn nth(&self, node: Option<usize>) -> Result<Nth> {
        const EXPECTED: &str = "must be a number from 1, a list of such numbers, or a range such as \"2..4\"";
        let Some(node) = node else { return Ok(Nth::Every) };
        let wrong = |node: usize| self.fail(node, EXPECTED);
        let number = |node: usize| {
            let number =
                self.text(node).parse::<u64>().ok().filter(|n| *n > 0 && self.is(node, Node::Number));
            number.ok_or_else(|| wrong(node))
        };
        if self.is(node, Node::Array) {
            let list = self.tree.children(node).map(number).collect::<Result<Vec<u64>>>()?;
            return if list.is_empty() { Err(wrong(node)) } else { Ok(Nth::Listed(list)) };
        }
        if !self.is(node, Node::String) {
            return Ok(Nth::Listed(vec![number(node)?]));
        }
        let range = word(self.text(node));
        let (first, last) = range.split_once("..").ok_or_else(|| wrong(node))?;
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if !digits(first) || !digits(last) {
            return Err(wrong(node));
        }
        let first = first.parse::<u64>().map_err(|_| wrong(node))?;
        let last = if last.is_empty() { u64::MAX } else { last.parse().map_err(|_| wrong(node))? };
        match first {
            0 => Err(wrong(node)),
            first if first > last => {
                Err(self.fail(node, "is a range that holds nothing: its end is before its start"))
            }
            first => Ok(Nth::Range(first, last)),
        }
    }
}

/// Ten years, so that no sum of times overflows.
const MOST_MS: u64 = 315_360_000_000;
