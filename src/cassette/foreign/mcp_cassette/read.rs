//! Reading: every field with a default may be missing, `kind`, `method` and `msg_id` are ignored (the payload says
//! it), and what the format does not say (connections, sessions) is worked out from the order of messages.

use std::collections::HashSet;
use std::path::Path;

use super::{DERIVED, FORMAT, HEAD_FIELDS, KEPT, MESSAGE_FIELDS, OUR_HEAD, OUR_RECORD, RULE, aside};
use crate::cassette::foreign::build::{server_name, string_at, wrong};
use crate::cassette::foreign::places::Places;
use crate::cassette::head::{Head, Server, Transport, object};
use crate::cassette::model::{Cassette, Timing, fault};
use crate::cassette::record::{Body, Fault, Record, Side, micros};
use crate::error::{Error, Result};
use crate::jsonrpc::message::View;
use crate::jsonrpc::scan::{Members, Span, elements, skip_space};
use crate::jsonrpc::tree::{Kind, Tree};
use crate::jsonrpc::{pretty, string};

/// Reads a file of format version 1 to 3.
pub fn read(path: &Path, text: String) -> Result<Cassette> {
    let mut file = File::default();
    let mut failed = None;
    let what = file.walk(&text, &mut failed);
    if let Some(version) = file.too_new.take() {
        return Err(Error::input(
            path,
            "",
            format!(
                "is an mcp-cassette file of format {version}; this mcpreel reads its formats 1 to {FORMAT}"
            ),
        ));
    }
    what.map_err(|error| fault(path, &text, &error, failed))?;
    Ok(file.finish(text))
}

#[derive(Default)]
struct File {
    head: Head,
    server: Server,
    session_id: Option<String>,
    redaction: Option<String>,
    records: Vec<Record>,
    /// Payloads that stand in the file as strings; they follow the file's own text.
    appended: String,
    untimed: bool,
    places: Places,
    /// The rules that a replay needs, see [`Rules::derive`].
    rules: Rules,
    too_new: Option<String>,
}

impl File {
    fn walk(&mut self, text: &str, failed: &mut Option<usize>) -> std::result::Result<(), Fault> {
        let start = skip_space(text.as_bytes(), 0);
        let mut members = Members::of(text, start)
            .ok_or_else(|| Fault { at: start, what: "expected an object in braces".to_owned() })?;
        let mut messages = None;
        while let Some((name, value)) = members.next()? {
            let name = string::decode(name.of(text));
            let literal = value.of(text);
            if literal == "null" && HEAD_FIELDS.contains(&&*name) {
                continue;
            }
            match &*name {
                "format_version" => match literal.parse::<u64>() {
                    Ok(version) if version <= FORMAT => {}
                    Ok(_) => {
                        self.too_new = Some(literal.to_owned());
                        return Ok(());
                    }
                    Err(_) => return Err(wrong(value, "\"format_version\" must be a whole number")),
                },
                "recorded_at" => self.head.recorded_at = string_at(text, value, &name)?,
                "transport" => {
                    self.server.transport = match &*string_at(text, value, &name)? {
                        "stdio" => Transport::Stdio,
                        "http" => Transport::Http,
                        _ => return Err(wrong(value, "\"transport\" must be \"stdio\" or \"http\"")),
                    };
                }
                "server_url" => self.server.url = Some(string_at(text, value, &name)?),
                "protocol_version" => self.server.protocol = vec![string_at(text, value, &name)?],
                "server_info" => self.server.info = Some(pretty::packed(literal)),
                "session_id" => self.session_id = Some(pretty::packed(literal)),
                "redaction" => self.redaction = Some(pretty::packed(literal)),
                "messages" => messages = Some(value),
                _ => self.head.extra.push((aside(&name, &OUR_HEAD), pretty::packed(literal))),
            }
        }
        let end = skip_space(text.as_bytes(), members.position());
        if end < text.len() {
            return Err(Fault { at: end, what: "expected the end of the file".to_owned() });
        }
        let Some(messages) = messages else { return Ok(()) };
        if !messages.of(text).starts_with('[') {
            return Err(wrong(messages, "\"messages\" must be a list"));
        }
        self.places = Places::new(self.server.transport, self.session_id.is_some());
        for (index, message) in elements(text, messages)?.into_iter().enumerate() {
            *failed = Some(index);
            self.message(text, message)?;
        }
        *failed = None;
        Ok(())
    }

    fn message(&mut self, text: &str, message: Span) -> std::result::Result<(), Fault> {
        let mut members = Members::of(text, message.start)
            .ok_or_else(|| wrong(message, "expected a message, an object in braces"))?;
        let mut record = Record {
            from: Side::Client,
            server: 0,
            conn: 0,
            session: 0,
            exchange: 0,
            at: 0,
            body: Body::None,
            more: None,
        };
        let mut sender = None;
        let mut time = None;
        let mut exchange = None;
        while let Some((name, value)) = members.next()? {
            let name = string::decode(name.of(text));
            let literal = value.of(text);
            match &*name {
                "seq" | "kind" | "method" | "msg_id" => {}
                "payload" => record.body = self.body(text, value)?,
                name if literal == "null" && MESSAGE_FIELDS.contains(&name) => {}
                "sender" => sender = Some(string_at(text, value, &name)?),
                "t_offset_ms" => {
                    let at = micros(literal);
                    time = Some(at.ok_or_else(|| wrong(value, "\"t_offset_ms\" must be milliseconds"))?);
                }
                "redacted" if literal == "true" => record.more().redacted = vec![RULE.to_owned()],
                "redacted" => {}
                "exchange" => {
                    let number = literal.parse::<u32>().ok().and_then(|number| number.checked_add(1));
                    let fault = || wrong(value, "\"exchange\" must be a whole number from 0");
                    exchange = Some(number.ok_or_else(fault)?);
                }
                "channel" if string::is(literal, "get") => record.more().stream_get = true,
                "channel" if string::is(literal, "post") => {}
                _ => record.more().extra.push((aside(&name, &OUR_RECORD), pretty::packed(literal))),
            }
        }
        record.from = match sender.as_deref() {
            Some("client") => Side::Client,
            Some("server") => Side::Server,
            _ => return Err(wrong(message, "\"sender\" must be \"client\" or \"server\"")),
        };
        if matches!(record.body, Body::None) {
            return Err(wrong(message, "expected \"payload\""));
        }
        if record.from == Side::Client
            && record.more.as_ref().is_some_and(|more| !more.redacted.is_empty())
            && let Body::Payload(view) = &record.body
        {
            self.rules.derive(view.whole.of(text));
        }
        self.untimed |= time.is_none();
        let appended = &self.appended;
        let of = |span: Span| match span.start.checked_sub(text.len()) {
            Some(start) => Span::new(start, start + span.len()).of(appended).to_owned(),
            None => span.of(text).to_owned(),
        };
        self.places.put(&mut record, exchange, time.unwrap_or(0), &of);
        self.records.push(record);
        Ok(())
    }

    /// A string is a line that its recorder could not use: a batch or a number is JSON for us, the rest is text.
    fn body(&mut self, text: &str, value: Span) -> std::result::Result<Body, Fault> {
        let literal = value.of(text);
        if !literal.starts_with('"') {
            return Ok(Body::Payload(View::at(text, value.start)?));
        }
        let line = string::decode_bytes(literal);
        let json = std::str::from_utf8(&line).ok().and_then(|line| Some((line, View::of(line).ok()?)));
        Ok(match json {
            Some((line, view)) => {
                let start = text.len() + self.appended.len();
                self.appended.push_str(line);
                Body::Payload(view.shifted(start))
            }
            None => Body::Text(value),
        })
    }

    fn finish(mut self, mut text: String) -> Cassette {
        let name = self.server.info.as_deref().and_then(server_name).unwrap_or_else(|| "server".to_owned());
        "mcp-cassette".clone_into(&mut self.head.recorder);
        self.head.servers = vec![(name, self.server)];
        if !self.rules.list.is_empty() {
            let rules: Vec<String> = self.rules.list.iter().map(|rule| string::encode(rule)).collect();
            self.head.redaction = Some(object([
                ("rules".to_owned(), format!("[{}]", rules.join(","))),
                (DERIVED.to_owned(), string::encode("mcp-cassette")),
            ]));
        }
        let kept = [("session_id", self.session_id), ("redaction", self.redaction)];
        let kept: Vec<_> =
            kept.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?))).collect();
        if !kept.is_empty() {
            self.head.extra.push((KEPT.to_owned(), object(kept)));
        }
        text.push_str(&self.appended);
        let timing = if self.untimed { Timing::Absent } else { Timing::Known };
        Cassette { head: self.head, text, records: self.records, timing, warnings: Vec::new() }
    }
}

/// Redaction rules in the order in which they were first needed.
#[derive(Default)]
struct Rules {
    list: Vec<String>,
    known: HashSet<String>,
}

impl Rules {
    /// Adds the rules under which a live request equals this redacted one. The file names none of those that replace a
    /// value by its key, so they are read off the keys whose value is the literal they leave.
    fn derive(&mut self, payload: &str) {
        let Ok(tree) = Tree::of(payload) else { return };
        for (index, node) in tree.iter().filter(|(_, node)| node.kind == Kind::String) {
            if !string::is(node.span.of(payload), "REDACTED") {
                continue;
            }
            let rule = match node.name.map(|name| string::decode(name.of(payload))) {
                // A progress token is never compared.
                Some(name) if name == "progressToken" || name.contains(['*', '?', '[', ']', '=']) => continue,
                Some(name) => format!("key:{name}"),
                None => format!("pointer:{}", tree.pointer(index)),
            };
            if self.known.insert(rule.clone()) {
                self.list.push(rule);
            }
        }
    }
}
