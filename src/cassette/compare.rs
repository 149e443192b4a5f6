//! Whether two recordings say the same, so that recording unchanged traffic again leaves the file untouched.
//!
//! Compared are, per connection, every request with its answers in order, what the server asked and announced, and
//! lines that are not JSON. Left out is what varies without meaning: ids, `_meta`, the client's `initialize`
//! parameters, the protocol's own times, the values of its cursors, request states and task ids, how many progress and
//! log notifications came, and how concurrent exchanges interleaved.

use std::collections::{BTreeMap, HashMap, VecDeque};

use super::head::{Process, Server};
use super::model::Cassette;
use super::record::{Body, Record, Side};
use crate::jsonrpc::canonical::{self, Treat};
use crate::jsonrpc::message::{Shape, View, member};
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::tree::Tree;

/// Whether `new` may be left unwritten where `old` stands.
#[must_use]
pub fn same(old: &Cassette, new: &Cassette) -> bool {
    servers(old) == servers(new)
        && processes(old) == processes(new)
        && rules(old.head.redaction.as_deref()) == rules(new.head.redaction.as_deref())
        && traffic(old) == traffic(new)
}

/// What the servers are without what they say of themselves, and that in its comparison form.
fn servers(cassette: &Cassette) -> BTreeMap<&str, (Server, Option<Vec<u8>>)> {
    let entries = cassette.head.servers.iter().map(|(name, server)| {
        let info = server.info.as_deref().map(|info| canonical::of(info).unwrap_or_default());
        (name.as_str(), (Server { info: None, recordings: Vec::new(), ..server.clone() }, info))
    });
    entries.collect()
}

fn processes(cassette: &Cassette) -> Vec<(&str, u32, &Process)> {
    let entries = cassette.head.processes.iter();
    let mut list: Vec<_> = entries.map(|process| (process.server.as_str(), process.conn, process)).collect();
    list.sort_by_key(|(server, conn, _)| (*server, *conn));
    list
}

/// The redaction manifest without its counts.
fn rules(manifest: Option<&str>) -> Vec<(String, Vec<u8>)> {
    let mut rules = Vec::new();
    if let Some((text, mut members)) = manifest.and_then(|text| Some((text, Members::of(text, 0)?))) {
        while let Ok(Some((name, value))) = members.next() {
            if name.of(text) != "\"counts\"" {
                rules.push((name.of(text).to_owned(), canonical::of(value.of(text)).unwrap_or_default()));
            }
        }
    }
    rules.sort();
    rules
}

/// A comparison form and where it came: server, connection, session.
type Placed = (String, u32, u32, Vec<u8>);

/// What is compared: for each connection and request, the answers in order; for anything else, how often it came.
#[derive(Debug, Default, PartialEq, Eq)]
struct Traffic {
    answers: BTreeMap<Placed, Vec<Vec<u8>>>,
    others: BTreeMap<Placed, usize>,
}

fn traffic(cassette: &Cassette) -> Traffic {
    let mut traffic = Traffic::default();
    let mut open: HashMap<(u32, u32, u32, &str), VecDeque<Vec<u8>>> = HashMap::new();
    for record in &cassette.records {
        let place = |form| (cassette.server_name(record).to_owned(), record.conn, record.session, form);
        for view in views(cassette, record) {
            let id = view.id.map_or("", |id| id.of(&cassette.text));
            let key = (record.server, record.conn, record.session, id);
            match (record.from, view.shape) {
                (Side::Client, Shape::Request) => {
                    open.entry(key).or_default().push_back(asked(cassette, record, &view));
                }
                (Side::Server, Shape::Response) => {
                    if let Some(request) = open.get_mut(&key).and_then(VecDeque::pop_front) {
                        let answer = form(cassette, &view);
                        traffic.answers.entry(place(request)).or_default().push(answer);
                    }
                }
                (_, Shape::Notification) if is_uncounted(&view.method_name(&cassette.text)) => {}
                _ => *traffic.others.entry(place(asked(cassette, record, &view))).or_default() += 1,
            }
        }
        let line = match record.body {
            Body::Text(span) | Body::Base64(span) => Some(span.of(&cassette.text).as_bytes().to_vec()),
            _ => None,
        };
        // A standalone stream ends, and is opened again, as time will have it.
        let more = record.more.as_ref().filter(|more| !more.stream_get);
        let end = more.and_then(|more| more.end.as_deref()).map(|end| format!("end {end}").into_bytes());
        let refused = more.and_then(|more| more.http.as_deref()).and_then(refusal);
        for form in line.into_iter().chain(end).chain(refused) {
            *traffic.others.entry(place(form)).or_default() += 1;
        }
    }
    for ((server, conn, session, _), requests) in open {
        let name = cassette.server(server).map_or("", |(name, _)| name).to_owned();
        for request in requests {
            *traffic.others.entry((name.clone(), conn, session, request)).or_default() += 1;
        }
    }
    traffic
}

/// The comparison form of a message, and for one of a client what redaction did to it: a replay takes the same text for
/// a placeholder in one message, and for itself in another.
fn asked(cassette: &Cassette, record: &Record, view: &View) -> Vec<u8> {
    let mut form = form(cassette, view);
    let more = record.more.as_ref().filter(|more| record.from == Side::Client && !more.redacted.is_empty());
    if let Some(more) = more {
        let note = more.placeholders.as_deref().unwrap_or_default();
        form.extend_from_slice(format!(" redacted {note}").as_bytes());
    }
    form
}

/// The status of an answer that is no success.
fn refusal(http: &str) -> Option<Vec<u8>> {
    let status = member(http, Span::new(0, http.len()), "status")?.of(http);
    (!status.starts_with('2')).then(|| format!("status {status}").into_bytes())
}

fn is_uncounted(method: &str) -> bool {
    matches!(method, "notifications/progress" | "notifications/message")
}

/// The messages of a record, batches taken apart.
fn views(cassette: &Cassette, record: &Record) -> Vec<View> {
    match record.view() {
        Some(view) if view.shape == Shape::Batch => elements(&cassette.text, view.whole)
            .unwrap_or_default()
            .iter()
            .filter_map(|span| View::at(&cassette.text, span.start).ok())
            .collect(),
        Some(view) => vec![*view],
        None => Vec::new(),
    }
}

/// What varies by value, and what may be there or not: where the protocol has it. The same names in arguments,
/// structured content, schemas and errors are data like any other.
const VARYING: [&str; 5] = ["nextCursor", "cursor", "requestState", "taskId", "requestId"];
const TIMES: [&str; 3] = ["createdAt", "lastUpdatedAt", "ttlMs"];

/// The comparison form of a message without what varies.
fn form(cassette: &Cassette, view: &View) -> Vec<u8> {
    let text = view.whole.of(&cassette.text);
    let mut out = Vec::with_capacity(text.len());
    let Ok(tree) = Tree::of(text) else { return text.as_bytes().to_vec() };
    let initialize = view.method_name(&cassette.text) == "initialize";
    canonical::write(&tree, 0, &mut out, &mut |index| {
        let Some(node) = tree.node(index).filter(|_| index != 0) else { return Treat::Keep };
        if node.parent == 0 {
            let drop = tree.name_is(index, "id") || (initialize && tree.name_is(index, "params"));
            return if drop { Treat::Drop } else { Treat::Keep };
        }
        let named = |names: &[&str]| names.iter().any(|name| tree.name_is(index, name));
        if is_body(&tree, node.parent) && named(&["_meta"]) {
            return Treat::Drop;
        }
        if !(is_body(&tree, node.parent) || is_task(&tree, node.parent)) {
            return Treat::Keep;
        }
        if named(&TIMES) {
            return Treat::Drop;
        }
        if named(&VARYING) { Treat::As(b"*".to_vec()) } else { Treat::Keep }
    });
    out
}

/// Whether a value is the `params` or the `result` of its message.
fn is_body(tree: &Tree<'_>, index: usize) -> bool {
    let at_top = index != 0 && tree.node(index).is_some_and(|node| node.parent == 0);
    at_top && (tree.name_is(index, "params") || tree.name_is(index, "result"))
}

/// Whether a value is a task of a result (2025-11-25, "Tasks"): its `task`, or one of its `tasks`.
fn is_task(tree: &Tree<'_>, index: usize) -> bool {
    let Some(parent) = tree.node(index).map(|node| node.parent) else { return false };
    let holder = |list: usize| tree.node(list).map_or(0, |node| node.parent);
    let of_result = |index: usize| is_body(tree, index) && tree.name_is(index, "result");
    (tree.name_is(index, "task") && of_result(parent))
        || (tree.name_is(parent, "tasks") && of_result(holder(parent)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn cassette(messages: &[&str]) -> Cassette {
        let text = format!(
            r#"{{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.123Z","servers":{{"a":{{"transport":"stdio"}}}},"messages":[{}]}}"#,
            messages.join(",")
        );
        Cassette::parse(&PathBuf::from("c.json"), text.into_bytes()).unwrap()
    }

    const ASK_A: &str = r#"{"from":"client","payload":{"id":1,"method":"tools/call","params":{"name":"a","_meta":{"progressToken":1}}}}"#;
    const ASK_B: &str = r#"{"from":"client","payload":{"id":2,"method":"tools/call","params":{"name":"b"}}}"#;
    const ANSWER_A: &str =
        r#"{"from":"server","payload":{"id":1,"result":{"n":1,"_meta":{"x":1},"nextCursor":"p"}}}"#;
    const ANSWER_B: &str = r#"{"from":"server","payload":{"id":2,"result":{"n":2}}}"#;
    const PROGRESS: &str =
        r#"{"from":"server","payload":{"method":"notifications/progress","params":{"progressToken":1}}}"#;

    #[test]
    fn what_varies_without_meaning_is_left_out() {
        let old = cassette(&[ASK_A, ANSWER_A, ASK_B, ANSWER_B]);
        for messages in [
            vec![ASK_A, ASK_B, PROGRESS, ANSWER_B, ANSWER_A],
            vec![ASK_B, ANSWER_B, ASK_A, &ANSWER_A.replace("\"p\"", "\"q\"").replace("\"x\":1", "\"x\":2")],
            vec![
                &ASK_A.replace("\"id\":1", "\"id\":\"x\""),
                &ANSWER_A.replace("\"id\":1", "\"id\":\"x\"").replace("\"n\":1", "\"n\":1.0"),
                ASK_B,
                ANSWER_B,
            ],
        ] {
            assert!(same(&old, &cassette(&messages)), "{messages:?}");
        }
    }

    #[test]
    fn what_is_text_in_one_message_may_be_a_placeholder_in_another() {
        let ask = |marks: &str| {
            let text = r#"{"id":1,"method":"tools/call","params":{"arguments":{"ip":"192.0.2.1"}}}"#;
            cassette(&[
                &format!(r#"{{"from":"client",{marks}"payload":{text}}}"#),
                r#"{"from":"server","payload":{"id":1,"result":{}}}"#,
            ])
        };
        let forms = ["", r#""redacted":["r"],"#, r#""redacted":["r"],"placeholders":{},"#];
        for (one, left) in forms.iter().enumerate() {
            for (other, right) in forms.iter().enumerate() {
                assert_eq!(same(&ask(left), &ask(right)), one == other, "{left} {right}");
            }
        }
    }

    #[test]
    fn names_of_the_protocol_vary_where_the_protocol_has_them() {
        let answer = |result: &str| format!(r#"{{"from":"server","payload":{{"id":1,"result":{result}}}}}"#);
        let ask = |params: &str| {
            format!(r#"{{"from":"client","payload":{{"id":1,"method":"tools/call","params":{params}}}}}"#)
        };
        for name in ["nextCursor", "cursor", "requestState", "taskId", "requestId", "createdAt", "ttlMs"] {
            let value = |value: u8| format!(r#"{{"{name}":"{value}"}}"#);
            for (places, same_already) in [
                (&[r#"{"arguments":@}"#, r#"{"arguments":{"_meta":@}}"#, r#"{"task":@}"#][..], false),
                (&["@"], true),
            ] {
                for place in places {
                    let of = |n| cassette(&[&ask(&place.replace('@', &value(n))), &answer("{}")]);
                    assert_eq!(same(&of(1), &of(2)), same_already, "{name} in params {place}");
                }
            }
            for (places, same_already) in [
                (
                    &[
                        r#"{"structuredContent":@}"#,
                        r#"{"structuredContent":{"result":@,"task":@,"tasks":[@]}}"#,
                        r#"{"tools":[{"name":"t","inputSchema":{"properties":@}}]}"#,
                        r#"{"content":[@]}"#,
                        r#"{"tasks":[{"data":@}]}"#,
                    ][..],
                    false,
                ),
                (&["@", r#"{"task":@}"#, r#"{"tasks":[@]}"#], true),
            ] {
                for place in places {
                    let of = |n| cassette(&[ASK_A, &answer(&place.replace('@', &value(n)))]);
                    assert_eq!(same(&of(1), &of(2)), same_already, "{name} in result {place}");
                }
            }
            let of = |n| {
                let refused = format!(
                    r#"{{"from":"server","payload":{{"id":1,"error":{{"code":1,"message":"m","data":{}}}}}}}"#,
                    value(n)
                );
                cassette(&[ASK_A, &refused])
            };
            assert!(!same(&of(1), &of(2)), "{name} in the data of an error");
        }
    }

    #[test]
    fn servers_are_compared_by_what_they_say_and_not_by_how_they_spell_it() {
        let of = |info: &str| {
            let mut cassette = cassette(&[ASK_A, ANSWER_A]);
            cassette.head.servers[0].1.info = Some(info.to_owned());
            cassette
        };
        let old = of(r#"{"name":"caf\u00e9","version":"1","n":1.0}"#);
        assert!(same(&old, &of(r#"{"version":"1","name":"café","n":1}"#)));
        assert!(!same(&old, &of(r#"{"version":"2","name":"café","n":1}"#)));
        assert!(!same(&old, &cassette(&[ASK_A, ANSWER_A])));
    }

    #[test]
    fn what_counts_is_compared() {
        let old = cassette(&[ASK_A, ANSWER_A, ASK_B, ANSWER_B]);
        for messages in [
            vec![ASK_A, ANSWER_A, ASK_B],
            vec![ASK_A, ANSWER_A, ASK_B, &ANSWER_B.replace(":2}", ":3}")],
            vec![ASK_A, &ANSWER_A.replace(",\"nextCursor\":\"p\"", ""), ASK_B, ANSWER_B],
            vec![ASK_A, ANSWER_A, ASK_B, ANSWER_B, r#"{"from":"server","text":"noise"}"#],
            vec![ASK_A, ANSWER_A, ASK_B, ANSWER_B, ASK_B, ANSWER_B],
        ] {
            assert!(!same(&old, &cassette(&messages)), "{messages:?}");
        }
    }
}
