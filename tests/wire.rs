//! Sessions of real clients with real servers, as they went over the pipe (`testdata/wire`, one event per line: `t` in
//! milliseconds, `dir`, `data`): made into a cassette and replayed to the same client lines, every line that the live
//! server sent must come again, and nothing else.

use std::path::PathBuf;

use mcpreel::jsonrpc::message::View;
use mcpreel::jsonrpc::pretty;
use serde::Deserialize;

use crate::support::{Client, Sandbox};

#[derive(Deserialize)]
struct Event {
    dir: String,
    data: String,
}

/// The processes of a sample, each the messages in order with their side.
fn processes(path: &PathBuf) -> Vec<Vec<(bool, String)>> {
    let mut processes: Vec<Vec<(bool, String)>> = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines() {
        let event: Event = serde_json::from_str(line).unwrap();
        match event.dir.as_str() {
            "ev" if event.data.starts_with("start") => processes.push(Vec::new()),
            "c>s" | "s>c" => {
                let messages = event.data.lines().map(|data| (event.dir == "c>s", data.to_owned()));
                processes.last_mut().unwrap().extend(messages);
            }
            _ => {}
        }
    }
    processes
}

fn is_question(line: &str) -> bool {
    View::of(line).is_ok_and(|view| view.method.is_some() && view.id.is_some())
}

fn with_id(line: &str, id: &str) -> String {
    let view = View::of(line).unwrap();
    mcpreel::replay::live::Splice::new(line, view).id(id).line()
}

/// The id that a line carries.
fn id_of(line: &str) -> String {
    View::of(line).ok().and_then(|view| view.id).map(|id| id.of(line).to_owned()).unwrap_or_default()
}

/// Takes lines until the wanted one is among them. Questions are compared without their ids, which are ours to choose.
fn take(client: &mut Client, bag: &mut Vec<String>, wanted: &str) -> String {
    let same = |line: &String| {
        if is_question(wanted) {
            is_question(line) && with_id(line, "0") == with_id(wanted, "0")
        } else {
            line == wanted
        }
    };
    loop {
        if let Some(at) = bag.iter().position(same) {
            return bag.remove(at);
        }
        bag.push(client.next());
    }
}

fn replay(sandbox: &Sandbox, name: &str, process: &[(bool, String)]) {
    let mut client = sandbox.mcpreel(["serve", "c.json", "--session", name]).start();
    let mut bag = Vec::new();
    let mut ids: Vec<(String, String)> = Vec::new();
    for (from_client, line) in process {
        if *from_client {
            let reply = View::of(line).is_ok_and(|view| view.method.is_none());
            let live =
                ids.iter().find(|(recorded, _)| reply && *recorded == id_of(line)).map(|(_, live)| live);
            client.send(&live.map_or_else(|| line.clone(), |live| with_id(line, live)));
        } else {
            let came = take(&mut client, &mut bag, &pretty::packed(line));
            if is_question(line) {
                ids.push((id_of(line), id_of(&came)));
            }
        }
    }
    let ended = client.close(0);
    assert_eq!((bag, ended.rest), (Vec::<String>::new(), Vec::<String>::new()), "{name}");
    assert_eq!(ended.stderr, "", "{name}");
}

#[test]
fn sessions_of_real_clients_come_again_line_by_line() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("testdata/wire");
    let mut samples: Vec<PathBuf> =
        std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    samples.sort();
    assert!(samples.len() >= 15);
    for sample in samples {
        let sandbox = Sandbox::new();
        let processes = processes(&sample);
        let lines: Vec<String> = processes
            .iter()
            .enumerate()
            .flat_map(|(conn, process)| {
                process
                    .iter()
                    .map(move |(client, line)| format!("{}{conn} {line}", if *client { 'c' } else { 's' }))
            })
            .collect();
        sandbox.cassette("c.json", &lines.iter().map(String::as_str).collect::<Vec<_>>());
        let name = sample.file_stem().unwrap().to_string_lossy().into_owned();
        let session = format!("{name}-{}", std::process::id());
        for process in &processes {
            replay(&sandbox, &session, process);
        }
    }
}
