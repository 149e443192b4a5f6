//! What recording costs: delay, throughput, and the end.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::Bench;
use crate::client::{Peer, calls, push_prose};
use crate::table::{Sample, Table, float, millis};

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    delay(bench, table);
    throughput(bench, table);
}

fn delay(bench: &Bench, table: &mut Table) {
    table.part(
        "recording: delay per direction of a 95-byte message (us; median of 10,000 round trips, halved)",
    );
    let mut message =
        br#"{"jsonrpc":"2.0","id":123456,"method":"tools/call","params":{"name":"echo","q":"xxxxxxxxxxx"}}"#
            .to_vec();
    message.push(b'\n');
    let (mut bare, mut own, mut added) = (Sample::default(), Sample::default(), Sample::default());
    let (mut late_bare, mut late_own) = (Sample::default(), Sample::default());
    for round in 0..9 {
        let (direct, late) = ping_pong(Peer::start(&bench.own, &["echo"]), &message);
        let cassette = bench.path(&format!("ping-{round}.json"));
        let (recorded, late_recorded) = ping_pong(bench.recorder(&cassette, &[], &["echo"]), &message);
        bare.push(direct);
        own.push(recorded);
        added.push(recorded - direct);
        late_bare.push(late);
        late_own.push(late_recorded);
    }
    table.row("direct", "us", &bare, None);
    table.row("through record", "us", &own, Some(("direct", &bare)));
    table.row("added", "us", &added, None);
    table.row("direct, 99th of 100", "us", &late_bare, None);
    table.row("through record, 99th of 100", "us", &late_own, Some(("direct", &late_bare)));
}

/// The median and the 99th percentile of half a round trip.
fn ping_pong(mut peer: Peer, message: &[u8]) -> (f64, f64) {
    let mut times: Vec<Duration> = (0..11_000).map(|_| peer.ask(message)).skip(1000).collect();
    peer.end();
    times.sort_unstable();
    let at = |place: usize| times[place].as_secs_f64() * 1e6 / 2.0;
    (at(times.len() / 2), at(times.len() * 99 / 100))
}

fn throughput(bench: &Bench, table: &mut Table) {
    table.part("recording: what a client can send (MB/s)");
    for (name, size, total) in [("200 B", 200, 100_000_000), ("100 KB", 100_000, 400_000_000)] {
        let bytes = lines(size, total, push_prose);
        let secrets = lines(size, total, push_secret);
        let (mut cat, mut bare, mut own) = (Sample::default(), Sample::default(), Sample::default());
        let (mut plain, mut secret) = (Sample::default(), Sample::default());
        for _ in 0..5 {
            let record = |options: &[&str], bytes: &[u8]| {
                let cassette = bench.path("stream.jsonl");
                let rate = sent(bench.recorder(&cassette, options, &["drain"]), bytes);
                let _ = std::fs::remove_file(cassette);
                rate
            };
            cat.push(through_cat(&bytes));
            bare.push(sent(Peer::start(&bench.own, &["drain"]), &bytes));
            own.push(record(&[], &bytes));
            plain.push(record(&["--no-default-redactions"], &bytes));
            secret.push(record(&[], &secrets));
        }
        table.row(&format!("lines of {name}, cat"), "MB/s", &cat, None);
        table.row(&format!("lines of {name}, direct"), "MB/s", &bare, None);
        table.row(&format!("lines of {name}, record"), "MB/s", &own, Some(("direct", &bare)));
        table.row(&format!("lines of {name}, without redaction"), "MB/s", &plain, Some(("record", &own)));
        table.row(&format!("lines of {name}, a secret in each"), "MB/s", &secret, Some(("record", &own)));
    }
    let bytes = lines(10_000, 200_000_000, push_rows);
    let (mut own, mut plain) = (Sample::default(), Sample::default());
    for _ in 0..5 {
        for (options, sample) in [(&["--no-default-redactions"][..], &mut plain), (&[], &mut own)] {
            let cassette = bench.path("stream.jsonl");
            sample.push(sent(bench.recorder(&cassette, options, &["drain"]), &bytes));
            let _ = std::fs::remove_file(cassette);
        }
    }
    table.row("lines of 10 KB, JSON in their text, without redaction", "MB/s", &plain, None);
    table.row("lines of 10 KB, JSON in their text, record", "MB/s", &own, Some(("without", &plain)));
}

/// Notifications of about `size` bytes, whose text is what `push` makes.
fn lines(size: usize, total: usize, push: fn(&mut String, usize)) -> Vec<u8> {
    let mut line = String::from(
        r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":""#,
    );
    let free = size - line.len() - 4;
    push(&mut line, free);
    line.push_str("\"}}\n");
    let mut bytes = Vec::with_capacity(total + size);
    while bytes.len() < total {
        bytes.extend_from_slice(line.as_bytes());
    }
    bytes
}

/// Prose, and a member beside it that holds a secret.
fn push_secret(line: &mut String, length: usize) {
    const BESIDE: &str = r#"","password":"open sesame"#;
    push_prose(line, length - BESIDE.len());
    line.push_str(BESIDE);
}

/// Rows of JSON inside a JSON string: most tools answer so.
fn push_rows(line: &mut String, length: usize) {
    let start = line.len();
    line.push('[');
    let mut row = 0;
    while line.len() - start + 120 < length {
        let comma = if row == 0 { "" } else { "," };
        let _ = write!(
            line,
            r#"{comma}{{\"id\":{row},\"name\":\"row {row}\",\"size\":{},\"kind\":\"file\",\"open\":true}}"#,
            row * 37
        );
        row += 1;
    }
    line.push(']');
}

/// Until the server has it all and the program is gone.
fn sent(mut peer: Peer, bytes: &[u8]) -> f64 {
    let started = Instant::now();
    peer.send(bytes);
    peer.close_input();
    peer.lines(1);
    let rate = float(bytes.len()) / started.elapsed().as_secs_f64() / 1e6;
    peer.end();
    rate
}

fn through_cat(bytes: &[u8]) -> f64 {
    let mut peer = Peer::start::<&str>(Path::new("cat"), &[]);
    let started = Instant::now();
    let sending = peer.send_along(bytes.to_vec());
    peer.lines(memchr::memchr_iter(b'\n', bytes).count());
    let rate = float(bytes.len()) / started.elapsed().as_secs_f64() / 1e6;
    peer.sent(sending);
    peer.end();
    rate
}

/// A long recording that is told to end.
pub(crate) fn measure_end(bench: &Bench, table: &mut Table) {
    table.part("recording of 500 MB, ended by SIGTERM (ms)");
    let (mut whole, mut gone) = (Sample::default(), Sample::default());
    let bytes = calls(500_000, 500);
    for round in 0..3 {
        let cassette = bench.path(&format!("long-{round}.json"));
        let mut peer = bench.recorder(&cassette, &[], &["answer", "500"]);
        peer.greet();
        let sending = peer.send_along(bytes.clone());
        peer.lines(500_000);
        peer.sent(sending);
        let id = i32::try_from(peer.process.id()).ok().and_then(Pid::from_raw).expect("a process id");
        let told = Instant::now();
        kill_process(id, Signal::TERM).expect("a running recorder");
        let partial = bench.path(&format!("long-{round}.json.partial"));
        while !has_end(&partial, &cassette) {
            assert!(told.elapsed() < Duration::from_secs(30), "the recording has no end");
            std::thread::sleep(Duration::from_millis(1));
        }
        whole.push(millis(told.elapsed()));
        peer.end();
        gone.push(millis(told.elapsed()));
        if round == 2 {
            table.row("until the end line is written", "ms", &whole, None);
            table.row("until the recorder has left", "ms", &gone, None);
            let mut time = Sample::default();
            for _ in 0..3 {
                let started = Instant::now();
                Peer::start(&bench.program, &["inspect", &cassette.display().to_string()]).end();
                time.push(millis(started.elapsed()));
            }
            table.row(
                &format!("inspect of it, {}", crate::cassettes::megabytes(&cassette)),
                "ms",
                &time,
                None,
            );
        }
        let _ = std::fs::remove_file(&cassette);
    }
}

/// Whether the only segment, or the cassette it has become, has its last line.
fn has_end(partial: &Path, cassette: &Path) -> bool {
    let segments = std::fs::read_dir(partial).into_iter().flatten().flatten().map(|entry| entry.path());
    let segment = segments.into_iter().find(|path| path.extension().is_some_and(|ending| ending == "jsonl"));
    let Ok(mut file) = File::open(segment.as_deref().unwrap_or(cassette)) else { return false };
    let length = file.metadata().map_or(0, |meta| meta.len());
    let mut tail = String::new();
    let read =
        file.seek(SeekFrom::Start(length.saturating_sub(2048))).and_then(|_| file.read_to_string(&mut tail));
    read.is_ok()
        && tail.ends_with('\n')
        && tail.lines().last().is_some_and(|line| line.starts_with("{\"end\":"))
}
