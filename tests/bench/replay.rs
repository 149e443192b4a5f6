//! Replay of many calls: everything is sent at once, and one call at a time.

use std::time::Instant;

use crate::Bench;
use crate::client::{Peer, calls};
use crate::table::{Sample, Table, float};

const SIZE: usize = 150;
const ROUNDS: usize = 7;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    table.part("replay of unique tools/call (1,000 calls a second)");
    let mut rates = Vec::new();
    for count in [10_000, 50_000] {
        let cassette = bench.recorded(&format!("calls-{count}.json"), count, SIZE);
        let (mut bare, mut own, mut theirs) = (Sample::default(), Sample::default(), Sample::default());
        for _ in 0..ROUNDS {
            bare.push(pipelined(Peer::start(&bench.own, &["echo"]), count, 2));
            own.push(pipelined(bench.replayer(&cassette), count, 1));
        }
        table.row(&format!("{count} at once, echo"), "k/s", &bare, None);
        table.row(&format!("{count} at once, serve"), "k/s", &own, Some(("echo", &bare)));
        rates.push(own.clone());
        if let (Some(program), 10_000) = (&bench.theirs, count) {
            let cassette = bench.converted(&cassette, "their-calls.json", "mcp-cassette");
            theirs.push(pipelined(
                Peer::start(program, &["serve", &cassette.display().to_string()]),
                count,
                1,
            ));
            table.row(&format!("{count} at once, mcp-cassette"), "k/s", &theirs, Some(("mcpreel", &own)));
        }
    }
    if let [few, many] = rates.as_slice() {
        table.note(&format!("10,000 at {:.2} times the rate of 50,000", few.median() / many.median()));
    }
    let cassette = bench.recorded("one-by-one.json", 10_000, SIZE);
    let (mut bare, mut own) = (Sample::default(), Sample::default());
    for _ in 0..ROUNDS {
        bare.push(one_by_one(Peer::start(&bench.own, &["echo"]), 2));
        own.push(one_by_one(bench.replayer(&cassette), 1));
    }
    table.row("10000 one by one, echo", "k/s", &bare, None);
    table.row("10000 one by one, serve", "k/s", &own, Some(("echo", &bare)));
}

fn pipelined(mut peer: Peer, count: usize, greeting: usize) -> f64 {
    peer.send(crate::client::INITIALIZE.as_bytes());
    peer.lines(greeting);
    let requests = calls(count, SIZE);
    let started = Instant::now();
    let sending = peer.send_along(requests);
    peer.lines(count);
    let rate = float(count) / started.elapsed().as_secs_f64() / 1e3;
    peer.sent(sending);
    peer.end();
    rate
}

fn one_by_one(mut peer: Peer, greeting: usize) -> f64 {
    peer.send(crate::client::INITIALIZE.as_bytes());
    peer.lines(greeting);
    let requests = calls(10_000, SIZE);
    let started = Instant::now();
    for request in requests.split_inclusive(|byte| *byte == b'\n') {
        peer.ask(request);
    }
    let rate = 10_000.0 / started.elapsed().as_secs_f64() / 1e3;
    peer.end();
    rate
}
