//! How long a large cassette takes to load, and how much memory.

use crate::Bench;
use crate::cassettes::{megabytes, size};
use crate::client::{Peer, calls};
use crate::table::{Sample, Table, float, millis};

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    table.part(
        "load of 100,000 messages: start to the answer of the first call (ms), peak memory (times the file)",
    );
    for (name, bytes) in [("500 B", 500), ("200 B", 200)] {
        let cassette = bench.recorded(&format!("load-{bytes}.json"), 50_000, bytes);
        let journal = bench.converted(&cassette, &format!("load-{bytes}.jsonl"), "journal");
        let mut ours = Sample::default();
        for (shape, path) in [("document", &cassette), ("journal", &journal)] {
            let (mut greeting, mut first, mut memory) =
                (Sample::default(), Sample::default(), Sample::default());
            for _ in 0..7 {
                let (greeted, answered, peak) = loaded(bench.replayer(path), bytes);
                greeting.push(greeted);
                first.push(answered);
                memory.push(float(peak) / float(size(path)));
            }
            let what = format!("messages of {name}, {shape}, {}", megabytes(path));
            table.row(&format!("{what}: initialize"), "ms", &greeting, None);
            table.row(&format!("{what}: first call"), "ms", &first, None);
            table.row(&format!("{what}: memory"), "x", &memory, None);
            if shape == "document" {
                ours = first;
            }
        }
        if let (Some(program), 500) = (&bench.theirs, bytes) {
            let cassette = bench.converted(&cassette, "their-load.json", "mcp-cassette");
            let (_, answered, peak) =
                loaded(Peer::start(program, &["serve", &cassette.display().to_string()]), bytes);
            let (mut first, mut memory) = (Sample::default(), Sample::default());
            first.push(answered);
            memory.push(float(peak) / float(size(&cassette)));
            table.row("mcp-cassette: first call", "ms", &first, Some(("mcpreel", &ours)));
            table.row("mcp-cassette: memory", "x", &memory, None);
        }
    }
}

/// When the answers to the handshake and to the first call came, and the peak of memory then.
fn loaded(mut peer: Peer, bytes: usize) -> (f64, f64, usize) {
    let greeted = millis(peer.greet());
    let first = calls(1, bytes);
    peer.ask(&first);
    let answered = millis(peer.started.elapsed());
    let peak = peer.peak_memory();
    peer.end();
    (greeted, answered, peak)
}
