//! How exactly `--pace recorded` keeps a gap: what a client waits for, less what was recorded. Within 2 ms or 5 % is the
//! aim.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::Bench;
use crate::table::{Sample, Table};

/// Recorded gaps, in milliseconds.
const GAPS: [u32; 4] = [5, 20, 100, 500];
const ROUNDS: u32 = 20;

pub(crate) fn measure(bench: &Bench, table: &mut Table) {
    table.part("replay at the recorded pace: later than recorded");
    let cassette = recorded(bench);
    for (number, gap) in GAPS.iter().enumerate() {
        let mut late = Sample::default();
        let (mut good, mut all) = (0, 0);
        let mut replay = bench.replayer_with(&cassette, &["--pace", "recorded"]);
        replay.greet();
        for round in 0..ROUNDS.min(4_000 / gap) {
            let waited = replay.ask(call(&format!("t{number}"), round).as_bytes());
            let off = (waited.as_secs_f64() - Duration::from_millis((*gap).into()).as_secs_f64()) * 1e3;
            good += u32::from(off.abs() <= (f64::from(*gap) * 0.05).max(2.0));
            all += 1;
            late.push(off);
        }
        replay.end();
        table.row(&format!("a gap of {gap} ms, {good} of {all} as exact as that"), "ms", &late, None);
    }
}

fn call(tool: &str, round: u32) -> String {
    format!(
        "{{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/call\",\"params\":{{\"name\":\"{tool}\",\"arguments\":{{\"n\":{round}}}}}}}\n",
        round + 1
    )
}

/// A cassette of calls that were answered after each of the gaps.
fn recorded(bench: &Bench) -> PathBuf {
    let (mut messages, mut times, mut now) = (String::new(), String::new(), 0);
    let mut push = |from: &str, payload: &str, at: u32| {
        let comma = if messages.is_empty() { "" } else { "," };
        let _ = write!(messages, "{comma}{{\"from\":\"{from}\",\"payload\":{payload}}}");
        let _ = write!(times, "{comma}{at}");
    };
    let hello = crate::client::INITIALIZE.lines().next().unwrap_or_default();
    push("client", hello, 0);
    let offer = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"bench","version":"1"}}}"#;
    push("server", offer, 0);
    for (number, gap) in GAPS.iter().enumerate() {
        for round in 0..ROUNDS {
            push("client", call(&format!("t{number}"), round).trim_end(), now);
            now += gap;
            push(
                "server",
                &format!("{{\"jsonrpc\":\"2.0\",\"id\":{},\"result\":{{\"content\":[]}}}}", round + 1),
                now,
            );
        }
    }
    let path = bench.path("paced.json");
    let text = format!(
        "{{\"mcpreel\":1,\"servers\":{{\"bench\":{{}}}},\"timing_ms\":[{times}],\"messages\":[{messages}]}}\n"
    );
    std::fs::write(&path, text).expect("write a cassette");
    path
}
