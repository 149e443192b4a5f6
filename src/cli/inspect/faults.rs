//! What each fault of an overlay would hit, if the recorded requests came again in their order.

use std::fmt::Write as _;

use super::Filter;
use super::json::{Fields, list};
use super::reel::Reel;
use super::shown::{line, quoted};
use crate::cassette::Transport;
use crate::cli::staging;
use crate::error::Result;
use crate::jsonrpc::string;
use crate::replay::faults::{Faults, Way};
use crate::replay::http::Offer;
use crate::replay::tape::Tape;

/// A request that a fault hits.
struct Hit {
    /// The exchange's number, from 1.
    exchange: usize,
    /// The message's index.
    message: usize,
    method: String,
    name: Option<String>,
    server: String,
}

/// A fault and its hits.
pub(super) struct Rehearsed {
    index: usize,
    line: usize,
    kind: &'static str,
    target: String,
    hits: Vec<Hit>,
    /// Servers as they were recorded that cannot have it, and why.
    refused: Vec<(String, &'static str)>,
}

/// Goes through the recorded requests of each server.
pub(super) fn rehearse(reel: &Reel, filter: &Filter, file: &str) -> Result<Vec<Rehearsed>> {
    let faults = staging::read(file)?;
    let servers = &reel.cassette.head.servers;
    let names: Vec<&str> = servers.iter().map(|(name, _)| name.as_str()).collect();
    faults.check_servers(&names)?;
    let mut all: Vec<Rehearsed> = faults
        .all()
        .iter()
        .map(|row| Rehearsed {
            index: row.index,
            line: faults.get(row.index).map_or(0, |fault| fault.line),
            kind: row.kind,
            target: row.target.clone(),
            hits: Vec::new(),
            refused: Vec::new(),
        })
        .collect();
    for ((name, server), number) in servers.iter().zip(0..) {
        if filter.server.is_some_and(|wanted| wanted != number) {
            continue;
        }
        let tape = Tape::new(reel.cassette.clone(), number);
        let way = match server.transport {
            Transport::Stdio => Way::Pipe,
            Transport::Http => Way::Http { sessions: Offer::has_sessions(&tape) },
        };
        let mut played: Faults = faults.clone();
        played.rehearse(&tape, None)?;
        for row in played.rows(name) {
            let Some(fault) = all.get_mut(row.index) else { continue };
            fault.hits.extend(row.exchanges.iter().filter_map(|message| hit(reel, *message, name)));
            let why = faults.refusal(row.index, way, tape.is_modern_only());
            fault.refused.extend(why.map(|why| (name.clone(), why)));
        }
    }
    Ok(all)
}

fn hit(reel: &Reel, message: u32, server: &str) -> Option<Hit> {
    let message = usize::try_from(message).ok()?;
    let is_it = |call: &&super::reel::Call| {
        reel.messages.get(call.request).is_some_and(|request| request.record == message)
    };
    let call = reel.calls.iter().find(is_it)?;
    Some(Hit {
        exchange: reel.calls.iter().position(|other| other.request == call.request)? + 1,
        message,
        method: reel.method(call.request).unwrap_or_default(),
        name: reel.target(call.request),
        server: server.to_owned(),
    })
}

/// For people.
pub(super) fn text(all: &[Rehearsed], several: bool) -> String {
    let mut out = String::new();
    for fault in all {
        let hits = match fault.hits.len() {
            0 => "hits nothing".to_owned(),
            1 => "hits 1 recorded request".to_owned(),
            n => format!("hits {n} recorded requests"),
        };
        let _ = writeln!(
            out,
            "fault {} (line {}): {} on {}: {hits}",
            fault.index,
            fault.line,
            fault.kind,
            line(&fault.target)
        );
        for (server, why) in &fault.refused {
            let _ = writeln!(out, "  refused for {}, served as it was recorded: {why}", quoted(server));
        }
        for hit in &fault.hits {
            let name = hit.name.as_ref().map(|name| format!(" {}", quoted(name))).unwrap_or_default();
            let server = if several { format!(", server {}", quoted(&hit.server)) } else { String::new() };
            let _ = writeln!(
                out,
                "  exchange {} (#{}) {}{name}{server}",
                hit.exchange,
                hit.message,
                line(&hit.method)
            );
        }
    }
    if all.is_empty() {
        out.push_str("no faults\n");
    }
    out
}

/// For scripts.
pub(super) fn json(all: &[Rehearsed]) -> String {
    let hit = |hit: &Hit| {
        Fields::default()
            .number("exchange", hit.exchange)
            .number("message", hit.message)
            .text("server", &hit.server)
            .text("method", &hit.method)
            .maybe("name", hit.name.as_ref().map(|name| string::encode(name)))
            .end()
    };
    let refused = |(server, why): &(String, &'static str)| {
        Fields::default().text("server", server).text("why", why).end()
    };
    let faults = all.iter().map(|fault| {
        Fields::default()
            .number("index", fault.index)
            .number("line", fault.line)
            .text("type", fault.kind)
            .raw("target", fault.target.clone())
            .raw("hits", list(fault.hits.iter().map(hit)))
            .maybe("refused", (!fault.refused.is_empty()).then(|| list(fault.refused.iter().map(refused))))
            .end()
    });
    let idle = all.iter().filter(|fault| fault.hits.is_empty()).map(|fault| fault.index.to_string());
    Fields::default().raw("faults", list(faults)).raw("unfired", list(idle)).end()
}
