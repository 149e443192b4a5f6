//! The cassette at a glance.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use super::Filter;
use super::json::{Fields, list, texts};
use super::reel::Reel;
use super::shown::{count, duration, line, quoted};
use crate::cassette::head::{Process, write_exit};
use crate::cassette::{Exit, Server, Side};
use crate::jsonrpc::scan::{Members, Span};
use crate::jsonrpc::{message, string};
use crate::replay::tape::Outcome;

/// What one method of one server did.
struct Method {
    name: String,
    from: Side,
    request: bool,
    count: usize,
    answered: usize,
    errors: usize,
    waits: Vec<u64>,
}

impl Method {
    fn median(&self) -> Option<u64> {
        self.waits.get(self.waits.len() / 2).copied()
    }
}

struct Of<'a> {
    name: &'a str,
    server: &'a Server,
    messages: usize,
    conns: usize,
    sessions: usize,
    methods: Vec<Method>,
    /// Records by kind that are no ordinary message.
    others: Vec<(&'static str, usize)>,
    /// How exchanges ended that were not answered.
    ends: Vec<(String, usize)>,
    processes: Vec<&'a Process>,
}

fn add<T: PartialEq>(list: &mut Vec<(T, usize)>, what: T) {
    match list.iter_mut().find(|(known, _)| *known == what) {
        Some((_, count)) => *count += 1,
        None => list.push((what, 1)),
    }
}

fn servers<'a>(reel: &'a Reel, filter: &Filter) -> Vec<Of<'a>> {
    let head = &reel.cassette.head;
    let mut processes: HashMap<&str, Vec<&Process>> = HashMap::new();
    for process in &head.processes {
        processes.entry(&process.server).or_default().push(process);
    }
    let mut parts: Vec<Part> = vec![Part::default(); head.servers.len()];
    let mut part_of = |index: usize, of: fn(&mut Part) -> &mut Vec<usize>, what: usize| {
        let server = reel.at(index).and_then(|(_, record)| usize::try_from(record.server).ok());
        let part = server.and_then(|server| parts.get_mut(server));
        part.into_iter().for_each(|part| of(part).push(what));
    };
    (0..reel.messages.len()).for_each(|index| part_of(index, |part| &mut part.messages, index));
    for (number, call) in reel.calls.iter().enumerate() {
        part_of(call.request, |part| &mut part.calls, number);
    }
    let chosen = |index: usize| filter.server.is_none_or(|server| usize::try_from(server) == Ok(index));
    head.servers
        .iter()
        .zip(&parts)
        .enumerate()
        .filter(|(index, _)| chosen(*index))
        .map(|(_, ((name, server), part))| {
            let mut of = Of {
                name,
                server,
                messages: 0,
                conns: 0,
                sessions: 0,
                methods: Vec::new(),
                others: Vec::new(),
                ends: Vec::new(),
                processes: processes.get(name.as_str()).cloned().unwrap_or_default(),
            };
            survey(reel, part, &mut of);
            of
        })
        .collect()
}

/// What belongs to one server: messages and calls by their indexes.
#[derive(Clone, Default)]
struct Part {
    messages: Vec<usize>,
    calls: Vec<usize>,
}

fn survey(reel: &Reel, part: &Part, of: &mut Of<'_>) {
    let (mut conns, mut sessions) = (BTreeSet::new(), BTreeSet::new());
    for &index in &part.messages {
        let (Some((_, record)), Some(message)) = (reel.at(index), reel.messages.get(index)) else { continue };
        of.messages += usize::from(reel.kind(index) != "transport");
        conns.insert(record.conn);
        sessions.insert(record.session);
        if let Some(end) = record.more.as_ref().and_then(|more| more.end.clone()) {
            add(&mut of.ends, format!("HTTP exchange {end}"));
        }
        let kind = reel.kind(index);
        if let Some(name) = reel.method(index) {
            let request = kind == "request";
            method(&mut of.methods, &name, record.from, request).count += 1;
        } else if kind != "response" {
            add(&mut of.others, kind);
        } else if let Some(asked) = message.answers {
            let from = if record.from == Side::Client { Side::Server } else { Side::Client };
            let name = reel.method(asked).unwrap_or_default();
            let method = method(&mut of.methods, &name, from, true);
            method.answered += 1;
            method.errors += usize::from(reel.error(index).is_some());
            method.waits.extend(reel.wait(index));
        } else {
            add(&mut of.others, "response to nothing recorded");
        }
    }
    for call in part.calls.iter().filter_map(|&call| reel.calls.get(call)) {
        let end = match call.outcome {
            Outcome::Answered => continue,
            Outcome::Open => "request never answered",
            Outcome::ServerEnded => "request not answered: the server ended",
            Outcome::Lost => "request whose answer is lost",
            Outcome::Cut => "request not answered: the connection was cut",
            Outcome::Bare => "request answered by HTTP alone",
        };
        add(&mut of.ends, end.to_owned());
    }
    of.conns = conns.len();
    of.sessions = sessions.iter().filter(|session| **session > 0).count();
    for method in &mut of.methods {
        method.waits.sort_unstable();
    }
    of.methods.sort_by(|one, other| {
        (one.from == Side::Server, &one.name).cmp(&(other.from == Side::Server, &other.name))
    });
}

fn method<'m>(methods: &'m mut Vec<Method>, name: &str, from: Side, request: bool) -> &'m mut Method {
    let known = methods.iter().position(|it| it.name == name && it.from == from && it.request == request);
    let index = known.unwrap_or_else(|| {
        let name = name.to_owned();
        methods.push(Method { name, from, request, count: 0, answered: 0, errors: 0, waits: Vec::new() });
        methods.len() - 1
    });
    // The lines above made sure that there is one at `index`.
    #[allow(clippy::indexing_slicing)]
    &mut methods[index]
}

/// How many values each redaction rule replaced, and how many messages it touched, whichever is known.
fn redaction(reel: &Reel) -> Vec<(String, u64)> {
    let manifest = reel.cassette.head.redaction.as_deref().unwrap_or("");
    let counts = message::member(manifest, Span::new(0, manifest.len()), "counts");
    let mut rules: Vec<(String, u64)> = Vec::new();
    if let Some(mut counts) = counts.and_then(|counts| Members::of(manifest, counts.start)) {
        while let Ok(Some((name, value))) = counts.next() {
            rules.push((
                string::decode(name.of(manifest)).into_owned(),
                value.of(manifest).parse().unwrap_or(0),
            ));
        }
        return rules;
    }
    for id in
        reel.cassette.records.iter().filter_map(|record| record.more.as_ref()).flat_map(|more| &more.redacted)
    {
        match rules.iter_mut().find(|(known, _)| known == id) {
            Some((_, count)) => *count += 1,
            None => rules.push((id.clone(), 1)),
        }
    }
    rules.sort();
    rules
}

fn length(reel: &Reel) -> Option<u64> {
    (0..reel.messages.len()).filter_map(|index| reel.time(index)).max()
}

/// For people.
pub(super) fn text(reel: &Reel, filter: &Filter, path: &str) -> String {
    let head = &reel.cassette.head;
    let mut out =
        format!("{}\n  recorded {} by {}\n", line(path), line(&head.recorded_at), line(&head.recorder));
    let servers = servers(reel, filter);
    let messages: usize = servers.iter().map(|of| of.messages).sum();
    let errors: usize = servers.iter().flat_map(|of| &of.methods).map(|method| method.errors).sum();
    let _ = write!(out, "  {}, {}", count(messages, "message"), count(errors, "error"));
    if let Some(length) = length(reel) {
        let _ = write!(out, ", {}", duration(length));
    }
    out.push('\n');
    for of in &servers {
        server_text(&mut out, of);
    }
    let rules = redaction(reel);
    if !rules.is_empty() {
        let rules: Vec<String> = rules.iter().map(|(id, count)| format!("{} {count}", line(id))).collect();
        let _ = writeln!(out, "\nredacted: {}", rules.join(", "));
    }
    if let Some(labels) = &head.labels {
        let _ = writeln!(out, "\nlabels: {}", line(labels));
    }
    if let Some(matching) = &head.matching {
        let _ = writeln!(out, "\nmatching rules: {}", line(matching));
    }
    for warning in &reel.cassette.warnings {
        let _ = writeln!(out, "\nwarning: {}", line(warning));
    }
    out
}

fn server_text(out: &mut String, of: &Of<'_>) {
    let reached = match &of.server.url {
        Some(url) => url.clone(),
        None => of.server.command.join(" "),
    };
    let _ = write!(out, "\nserver {}, {}", quoted(of.name), of.server.transport.word());
    let _ =
        writeln!(out, "{}", if reached.is_empty() { String::new() } else { format!(": {}", line(&reached)) });
    let mut facts = Vec::new();
    if !of.server.protocol.is_empty() {
        facts.push(format!("protocol {}", of.server.protocol.join(", ")));
    }
    if let Some(info) = &of.server.info {
        let part = |name| {
            let value = message::member(info, Span::new(0, info.len()), name)?;
            Some(string::decode(value.of(info)).into_owned())
        };
        facts.push(format!(
            "server info {} {}",
            part("name").unwrap_or_default(),
            part("version").unwrap_or_default()
        ));
    }
    facts.push(count(of.messages, "message"));
    if of.conns > 1 {
        facts.push(count(of.conns, "connection"));
    }
    if of.sessions > 0 {
        facts.push(count(of.sessions, "session"));
    }
    let _ = writeln!(out, "  {}", line(&facts.join(", ")));
    let width = of.methods.iter().map(|method| line(&method.name).chars().count()).max().unwrap_or(0);
    for method in &of.methods {
        let arrow = if method.from == Side::Client { "->" } else { "<-" };
        let _ = write!(out, "  {arrow} {:width$}  {:>6}", line(&method.name), method.count);
        if method.request {
            let _ = write!(out, "  {} answered", method.answered);
        }
        if method.errors > 0 {
            let _ = write!(out, ", {}", count(method.errors, "error"));
        }
        if let (Some(median), Some(longest)) = (method.median(), method.waits.last()) {
            let _ = write!(out, ", median {}, longest {}", duration(median), duration(*longest));
        }
        out.push('\n');
    }
    for (what, number) in &of.others {
        let _ = writeln!(out, "  {what}: {number}");
    }
    for (what, number) in &of.ends {
        let _ = writeln!(out, "  {}: {number}", line(what));
    }
    for process in &of.processes {
        let _ = writeln!(out, "  process {}: {}", process.conn, line(&process_end(process)));
        for text in &process.stderr {
            let _ = writeln!(out, "    stderr: {}", line(text));
        }
    }
}

fn process_end(process: &Process) -> String {
    let mut parts = Vec::new();
    parts.extend(process.exit.map(|exit| match exit {
        Exit::Code(code) => format!("exit {code}"),
        Exit::Signal(signal) => format!("ended by signal {signal}"),
    }));
    parts.extend(process.ended.map(|ended| ended.word().replace('_', " ")));
    if process.killed {
        parts.push("its recorder was killed: what followed is not here".to_owned());
    }
    if parts.is_empty() { "end not seen".to_owned() } else { parts.join(", ") }
}

/// For scripts.
pub(super) fn json(reel: &Reel, filter: &Filter, path: &str) -> String {
    let head = &reel.cassette.head;
    let servers = servers(reel, filter);
    let rules = redaction(reel).into_iter().map(|(id, count)| (id, count.to_string()));
    Fields::default()
        .text("cassette", path)
        .text("recorded_at", &head.recorded_at)
        .text("recorder", &head.recorder)
        .number("messages", servers.iter().map(|of| of.messages).sum::<usize>())
        .number(
            "exchanges",
            servers
                .iter()
                .flat_map(|of| &of.methods)
                .filter(|it| it.request && it.from == Side::Client)
                .map(|it| it.count)
                .sum::<usize>(),
        )
        .number("errors", servers.iter().flat_map(|of| &of.methods).map(|it| it.errors).sum::<usize>())
        .millis("duration", length(reel))
        .raw("servers", list(servers.iter().map(server_json)))
        .raw("redacted", crate::cassette::head::object(rules))
        .maybe("labels", head.labels.clone())
        .maybe("match", head.matching.clone())
        .raw("warnings", texts(&reel.cassette.warnings))
        .end()
}

fn server_json(of: &Of<'_>) -> String {
    let methods = of.methods.iter().map(|method| {
        Fields::default()
            .text("method", &method.name)
            .text("from", method.from.word())
            .text("kind", if method.request { "request" } else { "notification" })
            .number("count", method.count)
            .maybe("answered", method.request.then(|| method.answered.to_string()))
            .maybe("errors", method.request.then(|| method.errors.to_string()))
            .millis("median", method.median())
            .millis("longest", method.waits.last().copied())
            .end()
    });
    let counts = |list: Vec<(String, usize)>| {
        crate::cassette::head::object(list.into_iter().map(|(what, number)| (what, number.to_string())))
    };
    let processes = of.processes.iter().map(|process| {
        Fields::default()
            .some("conn", process.conn)
            .maybe("exit", process.exit.map(write_exit))
            .maybe("ended", process.ended.map(|ended| string::encode(ended.word())))
            .flag("killed", process.killed)
            .maybe("stderr", (!process.stderr.is_empty()).then(|| texts(&process.stderr)))
            .end()
    });
    Fields::default()
        .text("name", of.name)
        .text("transport", of.server.transport.word())
        .maybe("url", of.server.url.as_deref().map(string::encode))
        .maybe("command", (!of.server.command.is_empty()).then(|| texts(&of.server.command)))
        .raw("protocol", texts(&of.server.protocol))
        .maybe("info", of.server.info.clone())
        .number("messages", of.messages)
        .number("connections", of.conns)
        .number("sessions", of.sessions)
        .raw("methods", list(methods))
        .raw("others", counts(of.others.iter().map(|(what, number)| ((*what).to_owned(), *number)).collect()))
        .raw("ends", counts(of.ends.clone()))
        .raw("processes", list(processes))
        .end()
}
