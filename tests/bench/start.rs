//! From start to first answer.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use crate::Bench;
use crate::cassettes::megabytes;
use crate::client::{Peer, calls_with_secrets};
use crate::table::{Sample, Table, millis};

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    table.part("start to first answer of serve (ms)");
    let small = bench.recorded("small.json", 10, 200);
    let theirs = bench
        .theirs
        .as_deref()
        .map(|program| (program, bench.converted(&small, "theirs.json", "mcp-cassette")));
    let (mut bare, mut own, mut other) = (Sample::default(), Sample::default(), Sample::default());
    for round in 0..101 {
        bare.push(run("/bin/true", &[]));
        own.push(greeted(bench.replayer(&small)));
        if let (Some((program, cassette)), true) = (&theirs, round % 20 == 0) {
            other.push(greeted(Peer::start(program, &["serve", &cassette.display().to_string()])));
        }
    }
    table.row("/bin/true, start to end", "ms", &bare, None);
    table.row("small cassette", "ms", &own, Some(("/bin/true", &bare)));
    if theirs.is_some() {
        table.row("small cassette, mcp-cassette", "ms", &other, Some(("mcpreel", &own)));
    }
    for (name, count, size) in [("1 KB", 50_000, 1000), ("200 B", 215_000, 200)] {
        let journal = bench.recorded(&format!("big-{size}.json"), count, size);
        row(bench, table, &format!("messages of {name}, journal"), &journal);
        let document = bench.converted(&journal, &format!("document-{size}.json"), "cassette");
        row(bench, table, &format!("messages of {name}, document"), &document);
    }
    let (count, size) = (50_000, 1000);
    let redacted = bench.recorded_of("redacted.json", calls_with_secrets(count, size), (count, size));
    row(bench, table, "messages of 1 KB, every request redacted", &redacted);
}

fn row(bench: &Bench, table: &mut Table, what: &str, cassette: &Path) {
    let (mut read, mut own) = (Sample::default(), Sample::default());
    for _ in 0..7 {
        read.push(run("cat", &[&cassette.display().to_string()]));
        own.push(greeted(bench.replayer(cassette)));
    }
    table.row(&format!("{what}, {}", megabytes(cassette)), "ms", &own, Some(("cat", &read)));
}

fn greeted(mut peer: Peer) -> f64 {
    let time = peer.greet();
    peer.end();
    millis(time)
}

/// How long a command takes, whose output nobody sees. `cat` into a pipe moves its bytes.
fn run(program: &str, arguments: &[&str]) -> f64 {
    let started = Instant::now();
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .expect("a command of the system");
    let mut output = child.stdout.take().expect("its output");
    let mut buffer = vec![0; 64 << 10];
    while std::io::Read::read(&mut output, &mut buffer).is_ok_and(|length| length > 0) {}
    let _ = child.wait();
    millis(started.elapsed())
}
