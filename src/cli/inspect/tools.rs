//! The tools that the servers offered, as last listed.

use std::collections::HashMap;
use std::fmt::Write as _;

use super::Filter;
use super::json::{Fields, list};
use super::reel::Reel;
use super::shown::{count, line, quoted, short};
use crate::jsonrpc::message::{member, member_at};
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::string;

struct Tool {
    server: u32,
    name: String,
    /// The whole definition.
    span: Span,
    /// The message that listed it last.
    listed: usize,
    /// The list changed what it said about it.
    changed: bool,
    calls: usize,
    errors: usize,
}

struct Parameter {
    name: String,
    kind: String,
    required: bool,
}

fn tools(reel: &Reel, filter: &Filter) -> Vec<Tool> {
    let mut tools: Vec<Tool> = Vec::new();
    let mut places: HashMap<(u32, String), usize> = HashMap::new();
    let text = &reel.cassette.text;
    for call in &reel.calls {
        let Some((_, record)) = reel.at(call.request) else { continue };
        if filter.server.is_some_and(|server| server != record.server) {
            continue;
        }
        let method = reel.method(call.request).unwrap_or_default();
        if method == "tools/call" {
            let name = reel.target(call.request).unwrap_or_default();
            let place = places.get(&(record.server, name));
            if let Some(tool) = place.and_then(|&place| tools.get_mut(place)) {
                tool.calls += 1;
                tool.errors += usize::from(call.answer.and_then(|answer| reel.error(answer)).is_some());
            }
        }
        let answer = call.answer.filter(|_| method == "tools/list").and_then(|answer| reel.at(answer));
        let Some((answer, record)) = answer else { continue };
        let found = answer.view.and_then(|view| member(text, view.result?, "tools"));
        for span in found.and_then(|found| elements(text, found).ok()).unwrap_or_default() {
            let name = member(text, span, "name").map(|name| string::decode(name.of(text)).into_owned());
            let Some(name) = name else { continue };
            let place = places.get(&(record.server, name.clone()));
            if let Some(tool) = place.and_then(|&place| tools.get_mut(place)) {
                tool.changed |= canonical(tool.span.of(text)) != canonical(span.of(text));
                (tool.span, tool.listed) = (span, answer.record);
            } else {
                let server = record.server;
                places.insert((server, name.clone()), tools.len());
                tools.push(Tool {
                    server,
                    name,
                    span,
                    listed: answer.record,
                    changed: false,
                    calls: 0,
                    errors: 0,
                });
            }
        }
    }
    tools
}

fn canonical(text: &str) -> Option<Vec<u8>> {
    crate::jsonrpc::canonical::of(text)
}

fn parameters(text: &str, tool: Span) -> Vec<Parameter> {
    let Some(schema) = member(text, tool, "inputSchema") else { return Vec::new() };
    let required: Vec<String> = member(text, schema, "required")
        .and_then(|list| elements(text, list).ok())
        .unwrap_or_default()
        .iter()
        .map(|name| string::decode(name.of(text)).into_owned())
        .collect();
    let mut found = Vec::new();
    let properties =
        member(text, schema, "properties").and_then(|properties| Members::of(text, properties.start));
    let Some(mut properties) = properties else { return found };
    while let Ok(Some((name, value))) = properties.next() {
        let name = string::decode(name.of(text)).into_owned();
        let kind = member(text, value, "type").map(|kind| kind.of(text));
        let kind = match kind {
            Some(literal) if literal.starts_with('"') => string::decode(literal).into_owned(),
            Some(list) => crate::jsonrpc::pretty::packed(list),
            None => "any".to_owned(),
        };
        found.push(Parameter { required: required.contains(&name), name, kind });
    }
    found
}

/// For people.
pub(super) fn text(reel: &Reel, filter: &Filter) -> String {
    let text = &reel.cassette.text;
    let mut out = String::new();
    let mut server = None;
    for tool in tools(reel, filter) {
        if server != Some(tool.server) {
            server = Some(tool.server);
            let name = reel.cassette.server(tool.server).map_or("", |(name, _)| name);
            let _ = writeln!(out, "{}server {}", if out.is_empty() { "" } else { "\n" }, quoted(name));
        }
        let parameters: Vec<String> = parameters(text, tool.span)
            .iter()
            .map(|own| {
                format!("{}{}: {}", line(&own.name), if own.required { "" } else { "?" }, line(&own.kind))
            })
            .collect();
        let mut remarks = vec![count(tool.calls, "call")];
        if tool.errors > 0 {
            remarks.push(count(tool.errors, "error"));
        }
        if tool.changed {
            remarks.push("changed during the recording".to_owned());
        }
        let _ = writeln!(out, "  {}({})  [{}]", line(&tool.name), parameters.join(", "), remarks.join(", "));
        let about = member(text, tool.span, "description").map(|about| string::decode(about.of(text)));
        if let Some(about) = about {
            let first = about.trim().lines().next().unwrap_or_default();
            let _ = writeln!(out, "      {}", short(first, 160));
        }
    }
    if out.is_empty() {
        out.push_str("no tools were listed\n");
    }
    out
}

/// For scripts.
pub(super) fn json(reel: &Reel, filter: &Filter) -> String {
    let text = &reel.cassette.text;
    let tools = tools(reel, filter).into_iter().map(|tool| {
        let parameters = parameters(text, tool.span).into_iter().map(|own| {
            Fields::default()
                .text("name", &own.name)
                .text("type", &own.kind)
                .flag("required", own.required)
                .end()
        });
        let copy = |path: &[&str]| member_at(text, tool.span, path).map(|value| value.of(text).to_owned());
        Fields::default()
            .text("server", reel.cassette.server(tool.server).map_or("", |(name, _)| name))
            .text("name", &tool.name)
            .maybe("title", copy(&["title"]))
            .maybe("description", copy(&["description"]))
            .raw("parameters", list(parameters))
            .maybe("annotations", copy(&["annotations"]))
            .flag("output_schema", copy(&["outputSchema"]).is_some())
            .number("listed_by", tool.listed)
            .flag("changed", tool.changed)
            .number("calls", tool.calls)
            .number("errors", tool.errors)
            .end()
    });
    Fields::default().raw("tools", list(tools)).end()
}
