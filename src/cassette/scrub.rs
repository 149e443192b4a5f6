//! Redaction of a cassette that exists: what the recorder would have replaced is replaced now, and what is left is found.
//!
//! Messages in which nothing is found keep their bytes. Placeholders of before stay, and new ones carry a process number
//! that no placeholder of the file has, so that no two values get the same one.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::head::Head;
use super::manifest;
use super::model::Cassette;
use super::record::{Body, Names, Record, Side};
use crate::jsonrpc::scan::Span;
use crate::jsonrpc::string;
use crate::jsonrpc::tree::Tree;
use crate::redact::{self, KNOWN, Redacted, Redactor, Rules, Steps, Written, noted};

/// How messages say that they were redacted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marks {
    /// By the ids of the rules; the head gets the manifest.
    Ids,
    /// By this word; the head stays.
    Word(&'static str),
    /// Not at all.
    None,
}

/// Something that is left in a cassette.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Left {
    /// The byte of the cassette's text, where it is known.
    pub at: Option<usize>,
    /// The JSON pointer into the document: `/messages/3/payload/params/arguments/key`.
    pub pointer: String,
    /// The rule that finds it.
    pub rule: String,
}

/// The redactors of the recorded processes.
struct Redactors {
    rules: Arc<Rules>,
    /// By server and connection.
    list: BTreeMap<(u32, u32), Redactor>,
    first: u32,
}

impl Redactors {
    fn of(cassette: &Cassette, rules: &Arc<Rules>) -> Self {
        Self { rules: Arc::clone(rules), list: BTreeMap::new(), first: free_number(&cassette.text) }
    }

    fn get(&mut self, server: u32, conn: u32) -> &mut Redactor {
        let next = self.first + u32::try_from(self.list.len()).unwrap_or(0);
        let rules = &self.rules;
        self.list.entry((server, conn)).or_insert_with(|| Redactor::new(Arc::clone(rules), next))
    }

    /// What any process of a server learnt, for what the head says about it.
    fn of_server(&mut self, server: u32) -> &mut Redactor {
        let conn = self.list.range((server, 0)..=(server, u32::MAX)).next().map(|((_, conn), _)| *conn);
        self.get(server, conn.unwrap_or(0))
    }

    fn counts(&self) -> BTreeMap<String, u64> {
        let mut sum: BTreeMap<String, u64> = BTreeMap::new();
        for (rule, count) in self.list.values().flat_map(Redactor::counts) {
            *sum.entry(rule.clone()).or_default() += count;
        }
        sum
    }
}

/// The first process number of which no placeholder is in the text.
fn free_number(text: &str) -> u32 {
    let number = |text: &str| {
        let digits = text.bytes().take_while(u8::is_ascii_digit).count();
        let rest = text.get(digits..).unwrap_or("");
        let process =
            rest.strip_prefix('.').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
        let number = text.get(..digits)?.parse::<u32>().ok()?;
        Some(if process { number } else { 1 })
    };
    let mut highest = 0;
    for mark in ["EDACTED-", "edacted-", "edacted.invalid/"] {
        for at in memchr::memmem::find_iter(text.as_bytes(), mark) {
            let found = text.get(at + mark.len()..).and_then(number);
            highest = highest.max(found.unwrap_or(0));
        }
    }
    highest.saturating_add(1)
}

fn side(record: &Record) -> redact::Side {
    match record.from {
        Side::Client => redact::Side::Client,
        Side::Server => redact::Side::Server,
    }
}

/// A cassette after redaction.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// The cassette.
    pub cassette: Cassette,
    /// Whether it differs from what it was: new rules are in its manifest, even where they found nothing.
    pub changed: bool,
    /// How many values were replaced.
    pub values: u64,
    /// How many of them were known secrets.
    pub secrets: u64,
}

/// The cassette with everything replaced that the rules find.
#[must_use]
pub fn scrub(cassette: &Cassette, rules: &Arc<Rules>, marks: Marks) -> Scrubbed {
    let mut redactors = Redactors::of(cassette, rules);
    let mut new = Cassette {
        head: cassette.head.clone(),
        timing: cassette.timing,
        warnings: cassette.warnings.clone(),
        ..Cassette::default()
    };
    let mut changed = false;
    for record in &cassette.records {
        changed |= scrub_record(cassette, record, redactors.get(record.server, record.conn), marks, &mut new);
    }
    let in_head = scrub_head(&mut new.head, &mut redactors);
    let counts = redactors.counts();
    changed |= in_head > 0;
    if marks == Marks::Ids {
        let theirs = serde_json::to_string(&rules.manifest(&counts)).unwrap_or_default();
        let head = manifest::extended(cassette.head.redaction.as_deref(), &theirs);
        changed |= cassette.head.redaction.as_ref() != Some(&head);
        new.head.redaction = Some(head);
    }
    Scrubbed {
        cassette: new,
        changed,
        values: counts.values().sum::<u64>() + in_head,
        secrets: counts.get(KNOWN).copied().unwrap_or(0),
    }
}

/// How a text is written as a body.
type Write = fn(&str) -> String;

/// Adds the record to `new`; whether it changed.
fn scrub_record(
    cassette: &Cassette,
    record: &Record,
    redactor: &mut Redactor,
    marks: Marks,
    new: &mut Cassette,
) -> bool {
    let side = side(record);
    let mut copy = record.clone();
    let mut fired: Vec<String> = Vec::new();
    let mut changed = false;
    let places = places(record, &cassette.text);
    if let Some(more) = &mut copy.more {
        if let Some(redacted) = more.http.as_ref().and_then(|http| redactor.redact_facts(http, side)) {
            more.http = Some(redacted.text);
            fired.extend(redacted.rules);
        }
        // What is about another message may say anything.
        let stale = more.placeholders.as_mut().filter(|_| places.is_none());
        for value in more.extra.iter_mut().map(|(_, value)| value).chain(stale) {
            let scrubbed = redactor.scrub(value);
            changed |= scrubbed != *value;
            *value = scrubbed;
        }
    }
    let text = &cassette.text;
    let body: Option<(Redacted, Write)> = match &record.body {
        Body::None => None,
        Body::Payload(view) => {
            redactor.redact(view.whole.of(text), side).map(|redacted| (redacted, str::to_owned as Write))
        }
        Body::Text(span) => {
            let line = string::decode(span.of(text));
            redactor.redact_plain(&line, side).map(|redacted| (redacted, string::encode as Write))
        }
        Body::Base64(span) => STANDARD.decode(&*string::decode(span.of(text))).ok().and_then(|bytes| {
            let (bytes, rules) = redactor.redact_bytes(&bytes, side)?;
            let redacted = Redacted { text: STANDARD.encode(bytes), rules, steps: Steps::default() };
            Some((redacted, string::encode as Write))
        }),
    };
    fired.extend(body.iter().flat_map(|(redacted, _)| redacted.rules.iter().cloned()));
    changed |= !fired.is_empty();
    if !fired.is_empty() && marks != Marks::None {
        let mine = &mut copy.more().redacted;
        match marks {
            Marks::Word(word) => mine.push(word.to_owned()),
            _ => mine.append(&mut fired),
        }
        mine.sort();
        mine.dedup();
        if marks == Marks::Ids
            && let Body::Payload(view) = &record.body
            && side == redact::Side::Client
        {
            let before = match (&record.more, &places) {
                (Some(more), Some(spans)) if !more.redacted.is_empty() => {
                    Written::At { spans, base: view.whole.start }
                }
                (Some(more), None) if !more.redacted.is_empty() => Written::All,
                _ => Written::Nothing,
            };
            let redacted = body.as_ref().map(|(redacted, _)| redacted);
            copy.more().placeholders = redactor.note(view.whole.of(text), redacted, before);
        }
    }
    match body {
        None => new.take(text, copy),
        Some((redacted, write)) => {
            let literal = write(&redacted.text);
            let whole = Span::new(0, literal.len());
            match copy.body {
                // What redaction makes of JSON is JSON.
                Body::Payload(_) => {
                    if new.push(copy.clone(), &literal).is_err() {
                        new.push_text(copy, &redacted.text);
                    }
                }
                Body::Text(_) => {
                    copy.body = Body::Text(whole);
                    new.take(&literal, copy);
                }
                _ => {
                    copy.body = Body::Base64(whole);
                    new.take(&literal, copy);
                }
            }
        }
    }
    changed
}

/// Where placeholders are in a message, where its record has to say it.
fn places(record: &Record, text: &str) -> Option<Vec<Span>> {
    noted(record.more.as_ref()?.placeholders.as_deref()?, text, record.view()?.whole)
}

/// How many texts of the head changed.
fn scrub_head(head: &mut Head, redactors: &mut Redactors) -> u64 {
    let mut changed = 0;
    each_place(head, redactors, &mut |_, old, new| {
        if *old != new {
            changed += 1;
            *old = new;
        }
    });
    changed + rename_servers(head, &redactors.rules)
}

/// Takes out of the names of servers what is found in them; they stay different. How many changed.
fn rename_servers(head: &mut Head, rules: &Rules) -> u64 {
    let mut changed = 0;
    for index in 0..head.servers.len() {
        let Some(old) = head.servers.get(index).map(|(name, _)| name.clone()) else { break };
        let base = rules.redact_url(&old);
        if base == old {
            continue;
        }
        let is_taken = |name: &String| head.servers.iter().any(|(other, _)| other == name);
        let mut others = (2_u32..).map(|number| format!("{base}-{number}"));
        let new = if is_taken(&base) { others.find(|name| !is_taken(name)) } else { None };
        let new = new.unwrap_or(base);
        for process in head.processes.iter_mut().filter(|process| process.server == old) {
            process.server.clone_from(&new);
        }
        if let Some((name, _)) = head.servers.get_mut(index) {
            *name = new;
        }
        changed += 1;
    }
    changed
}

/// Calls `each` for every text of a head with its pointer, and with what it is after redaction.
fn each_place(head: &mut Head, redactors: &mut Redactors, each: &mut dyn FnMut(String, &mut String, String)) {
    let segment = |name: &str| name.replace('~', "~0").replace('/', "~1");
    for ((name, server), index) in head.servers.iter_mut().zip(0..) {
        let at = format!("/servers/{}", segment(name));
        let command = redactors.rules.redact_command(&server.command);
        for (position, (old, new)) in server.command.iter_mut().zip(command).enumerate() {
            each(format!("{at}/command/{position}"), old, new);
        }
        if let Some(url) = &mut server.url {
            let new = redactors.rules.redact_url(url);
            each(format!("{at}/url"), url, new);
        }
        let redactor = redactors.of_server(index);
        if let Some(info) = &mut server.info {
            let new = redactor.scrub(info);
            each(format!("{at}/info"), info, new);
        }
        // Words of a protocol, which lose credentials only.
        for (position, version) in server.protocol.iter_mut().enumerate() {
            let new = redactor.rules().redact_url(version);
            each(format!("{at}/protocol/{position}"), version, new);
        }
        for (name, value) in &mut server.extra {
            let new = redactor.scrub(value);
            each(format!("{at}/{}", segment(name)), value, new);
        }
    }
    let names = Names::new(head.servers.iter().map(|(name, _)| name.as_str()));
    for (index, process) in head.processes.iter_mut().enumerate() {
        let redactor = redactors.get(names.place(&process.server).unwrap_or(0), process.conn);
        for (line, text) in process.stderr.iter_mut().enumerate() {
            let new = redactor.scrub(text);
            each(format!("/processes/{index}/stderr/{line}"), text, new);
        }
        for (name, value) in &mut process.extra {
            let new = redactor.scrub(value);
            each(format!("/processes/{index}/{}", segment(name)), value, new);
        }
    }
    for (name, text) in [("recorded_at", &mut head.recorded_at), ("recorder", &mut head.recorder)] {
        let new = redactors.rules.redact_url(text);
        each(format!("/{name}"), text, new);
    }
    let redactor = Redactor::new(Arc::clone(&redactors.rules), redactors.first);
    for (name, value) in [("labels", &mut head.labels), ("match", &mut head.matching)] {
        if let Some(value) = value {
            let new = redactor.scrub(value);
            each(format!("/{name}"), value, new);
        }
    }
    for (name, value) in &mut head.extra {
        let new = redactor.scrub(value);
        each(format!("/{}", segment(name)), value, new);
    }
}

/// Everything that the rules still find, in the order of the file. Known secrets are found in the text as it stands:
/// see [`known`].
#[must_use]
pub fn left(cassette: &Cassette, rules: &Arc<Rules>) -> Vec<Left> {
    let mut redactors = Redactors::of(cassette, rules);
    let mut found = Vec::new();
    for (index, record) in cassette.records.iter().enumerate() {
        let redactor = redactors.get(record.server, record.conn);
        let side = side(record);
        let mut add = |at: Option<usize>, place: String, rule: usize| {
            found.push(Left {
                at,
                pointer: format!("/messages/{index}/{place}"),
                rule: rules.id(rule).to_owned(),
            });
        };
        let start = body(record).map(|span| span.start);
        if let Some(http) = record.more.as_ref().and_then(|more| more.http.as_ref()) {
            for (pointer, rule) in redactor.find_facts(http, side) {
                add(start, format!("http{pointer}"), rule);
            }
        }
        match &record.body {
            Body::None => {}
            Body::Payload(view) => {
                for hit in redactor.find(view.whole.of(&cassette.text), side) {
                    add(Some(view.whole.start + hit.span.start), format!("payload{}", hit.path), hit.rule);
                }
            }
            Body::Text(span) => {
                let line = string::decode(span.of(&cassette.text));
                for hit in redactor.find_plain(&line, side) {
                    add(start, "text".to_owned(), hit.rule);
                }
            }
            Body::Base64(span) => {
                let bytes = STANDARD.decode(&*string::decode(span.of(&cassette.text))).unwrap_or_default();
                for hit in redactor.find(&String::from_utf8_lossy(&bytes), side) {
                    add(start, "base64".to_owned(), hit.rule);
                }
            }
        }
        let own = record.more.iter().flat_map(|more| &more.extra).map(|(name, value)| (name.as_str(), value));
        let note = record.more.iter().filter_map(|more| Some(("placeholders", more.placeholders.as_ref()?)));
        let stale = note.filter(|_| places(record, &cassette.text).is_none());
        for (name, value) in own.chain(stale) {
            if redactor.scrub(value) != *value {
                let rule = rule_of(rules, &[value]);
                found.push(Left { at: start, pointer: format!("/messages/{index}/{name}"), rule });
            }
        }
    }
    for (name, _) in &cassette.head.servers {
        if rules.redact_url(name) != *name && rules.without_known(name) == *name {
            let pointer = format!("/servers/{}", name.replace('~', "~0").replace('/', "~1"));
            found.push(Left { at: None, pointer, rule: rule_of(rules, &[name]) });
        }
    }
    // An argument of a command line has its name in front of it.
    let mut before = String::new();
    each_place(&mut cassette.head.clone(), &mut redactors, &mut |pointer, old, new| {
        if *old != new && rules.without_known(old) == *old {
            let rule = rule_of(rules, &[old, &format!("{before} {old}")]);
            found.push(Left { at: None, pointer, rule });
        }
        before.clone_from(old);
    });
    found.dedup();
    found
}

/// The rule that finds something in the first of some texts that were found to change.
fn rule_of(rules: &Rules, texts: &[&str]) -> String {
    let hits = texts.iter().flat_map(|text| rules.find(text).into_iter().chain(rules.find_plain(text)));
    // What an earlier message showed under its name is found here without it.
    hits.map(|hit| rules.id(hit.rule).to_owned()).next().unwrap_or_else(|| "key".to_owned())
}

fn body(record: &Record) -> Option<Span> {
    match &record.body {
        Body::None => None,
        Body::Payload(view) => Some(view.whole),
        Body::Text(span) | Body::Base64(span) => Some(*span),
    }
}

/// Where known secrets stand in the text of a cassette: in messages with their pointers, elsewhere without.
#[must_use]
pub fn known(cassette: &Cassette, rules: &Rules) -> Vec<Left> {
    let mut bodies: Vec<(Span, usize, &Record)> = cassette
        .records
        .iter()
        .enumerate()
        .filter_map(|(index, record)| Some((body(record)?, index, record)))
        .collect();
    bodies.sort_by_key(|(span, ..)| span.start);
    let spans = rules.find_known(cassette.text.as_bytes());
    let place = |found: &Span| {
        let at = bodies.partition_point(|(span, ..)| span.start <= found.start).checked_sub(1)?;
        let (span, index, record) = bodies.get(at)?;
        (found.start < span.end).then(|| {
            let inner = match &record.body {
                Body::Text(_) => "text".to_owned(),
                Body::Base64(_) => "base64".to_owned(),
                _ => format!("payload{}", pointer_at(span.of(&cassette.text), found.start - span.start)),
            };
            format!("/messages/{index}/{inner}")
        })
    };
    spans
        .iter()
        .map(|found| Left {
            at: Some(found.start),
            pointer: place(found).unwrap_or_default(),
            rule: KNOWN.to_owned(),
        })
        .collect()
}

/// The pointer of the innermost value at a byte of a JSON text; a member's name belongs to its value.
fn pointer_at(text: &str, at: usize) -> String {
    let Ok(tree) = Tree::of(text) else { return String::new() };
    let holds = |index: usize| {
        tree.node(index).is_some_and(|node| {
            let start = node.name.map_or(node.span.start, |name| name.start);
            start <= at && at < node.span.end
        })
    };
    let mut index = 0;
    while let Some(child) = tree.children(index).find(|child| holds(*child)) {
        index = child;
    }
    tree.pointer(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_no_placeholder_has() {
        for (text, free) in [
            ("", 1),
            ("REDACTED", 1),
            ("a REDACTED-7 b", 2),
            ("redacted-3.12@redacted.invalid REDACTED-2.1", 4),
            ("https://redacted.invalid/5.1", 6),
            ("REDACTED-1.", 2),
        ] {
            assert_eq!(free_number(text), free, "{text}");
        }
    }

    #[test]
    fn a_byte_has_a_pointer() {
        let text = r#"{"a":{"b~":[1,"x"]},"c":2}"#;
        for (part, pointer) in [("1", "/a/b~0/0"), ("x", "/a/b~0/1"), ("b~", "/a/b~0"), ("c", "/c")] {
            assert_eq!(pointer_at(text, text.find(part).unwrap()), pointer, "{part}");
        }
    }
}
