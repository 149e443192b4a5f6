//! Replay at the recorded pace: lower bounds and order, never how exact; `make bench` measures that.

use std::time::{Duration, Instant};

use crate::support::replay::{
    answered, c, call, call_with_progress, cancelled, fault_on, handshake, notification, progress, s, said,
};
use crate::support::{Client, Sandbox};

/// A cassette of these records, each with the milliseconds since the recording began.
fn timed(sandbox: &Sandbox, records: &[(u64, String)]) {
    let mut all = handshake();
    let mut times = vec![0, 0, 0];
    for (at, record) in records {
        all.push(record.clone());
        times.push(*at);
    }
    let times: Vec<String> = times.iter().map(u64::to_string).collect();
    sandbox.tape_with(&format!("\"timing_ms\":[{}],", times.join(",")), &all);
}

#[track_caller]
fn playing(sandbox: &Sandbox, options: &[&str]) -> Client {
    let options: Vec<&str> = ["--pace", "recorded"].iter().chain(options).copied().collect();
    let mut client = sandbox.serve(&options);
    client.greet("{}");
    client
}

fn at(base: u64, gaps: &[u64], records: impl IntoIterator<Item = String>) -> Vec<(u64, String)> {
    let mut time = base;
    let times = std::iter::once(0).chain(gaps.iter().copied());
    records
        .into_iter()
        .zip(times)
        .map(|(record, gap)| {
            time += gap;
            (time, record)
        })
        .collect()
}

/// Two notifications 100 ms apart, the first 50 ms after the call, and the answer 80 ms later.
fn steps() -> Vec<(u64, String)> {
    let records = [
        c(call_with_progress("1", "steps", "1")),
        s(progress("1", 1)),
        s(progress("1", 2)),
        s(said("1", "done")),
    ];
    at(1_000, &[50, 100, 80], records)
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// How long after the request each of the lines came.
#[track_caller]
fn arrivals(client: &mut Client, request: &str, expected: &[String]) -> Vec<Duration> {
    let begun = Instant::now();
    client.send(request);
    let next = |line: &String| {
        assert_eq!(client.next(), *line);
        begun.elapsed()
    };
    expected.iter().map(next).collect()
}

#[test]
fn gaps_are_as_they_were() {
    let expected = [progress("5", 1), progress("5", 2), said("5", "done")];
    for (options, least) in [
        (&[][..], [ms(50), ms(150), ms(230)]),
        (&["--pace-scale", "2"], [ms(100), ms(300), ms(460)]),
        (&["--pace-scale", "0.5"], [ms(25), ms(75), ms(115)]),
        (&["--pace-cap-ms", "60"], [ms(50), ms(110), ms(170)]),
        (&["--pace-scale", "2", "--pace-cap-ms", "150"], [ms(100), ms(250), ms(400)]),
    ] {
        let sandbox = Sandbox::new();
        timed(&sandbox, &steps());
        let mut client = playing(&sandbox, options);
        let got = arrivals(&mut client, &call_with_progress("5", "steps", "5"), &expected);
        assert!(got.iter().zip(least).all(|(got, least)| *got >= least), "{options:?}: {got:?} {least:?}");
        client.close(0);
    }
}

#[test]
fn a_client_that_wants_no_progress_waits_as_long_for_the_answer() {
    let sandbox = Sandbox::new();
    timed(&sandbox, &steps());
    let mut client = playing(&sandbox, &[]);
    let got = arrivals(&mut client, &call("5", "steps", "{}"), &[said("5", "done")]);
    assert!(got[0] >= ms(230), "{got:?}");
    client.close(0);
}

#[test]
fn a_gap_is_capped_at_five_seconds_unless_told() {
    // An hour that was recorded and an hour that is not waited for.
    let sandbox = Sandbox::new();
    timed(&sandbox, &at(0, &[3_600_000], answered("1", "a", "{}", "x")));
    let mut client = playing(&sandbox, &["--pace-cap-ms", "0", "--pace-scale", "0.00001"]);
    let got = arrivals(&mut client, &call("5", "a", "{}"), &[said("5", "x")]);
    assert!(got[0] >= ms(36), "{got:?}");
    client.close(0);
    let mut client = playing(&sandbox, &[]);
    let got = arrivals(&mut client, &call("5", "a", "{}"), &[said("5", "x")]);
    assert!(got[0] >= ms(5_000), "{got:?}");
    client.close(0);
}

#[test]
fn calls_at_once_are_not_added_up() {
    let sandbox = Sandbox::new();
    let mut records = Vec::new();
    for n in 0..10 {
        records.extend(at(n * 1_000, &[400], answered(&n.to_string(), &format!("t{n}"), "{}", "x")));
    }
    timed(&sandbox, &records);
    let mut client = playing(&sandbox, &[]);
    let begun = Instant::now();
    (0..10).for_each(|n| client.send(&call(&n.to_string(), &format!("t{n}"), "{}")));
    client.nothing_comes();
    (0..10).for_each(|n| assert_eq!(client.next(), said(&n.to_string(), "x")));
    let took = begun.elapsed();
    assert!(took >= ms(400) && took < ms(4_000), "{took:?}");
    client.close(0);
}

#[test]
fn answers_come_in_the_order_of_their_times() {
    let sandbox = Sandbox::new();
    let mut records = at(0, &[300], answered("1", "slow", "{}", "slow"));
    records.extend(at(400, &[20], answered("2", "quick", "{}", "quick")));
    timed(&sandbox, &records);
    let mut client = playing(&sandbox, &[]);
    client.send(&call("5", "slow", "{}"));
    client.send(&call("6", "quick", "{}"));
    client.gets(&[said("6", "quick"), said("5", "slow")]);
    client.close(0);
}

#[test]
fn a_delay_comes_on_top() {
    let sandbox = Sandbox::new();
    timed(&sandbox, &at(0, &[100], answered("1", "a", "{}", "x")));
    sandbox.faults(&[fault_on("a", "delay", r#"{"ms":150}"#)]);
    let mut client = playing(&sandbox, &["--faults", "f.json"]);
    let got = arrivals(&mut client, &call("5", "a", "{}"), &[said("5", "x")]);
    assert!(got[0] >= ms(250), "{got:?}");
    client.close(0);
}

#[test]
fn the_client_s_own_time_is_not_counted() {
    // The client took an hour to answer; the server 60 ms after that.
    let sandbox = Sandbox::new();
    let ask = r#"{"jsonrpc":"2.0","id":7,"method":"roots/list"}"#;
    let roots = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"roots":[]}}}}"#);
    let records = [c(call("1", "a", "{}")), s(ask), c(roots("7")), s(said("1", "x"))];
    timed(&sandbox, &at(0, &[20, 3_600_000, 60], records));
    let mut client = sandbox.serve(&["--pace", "recorded"]);
    client.greet(r#"{"roots":{}}"#);
    let begun = Instant::now();
    client.send(&call("5", "a", "{}"));
    assert!(client.next().contains("roots/list"));
    assert!(begun.elapsed() >= ms(20));
    let answered = Instant::now();
    client.expect(&roots("0"), &said("5", "x"));
    assert!(answered.elapsed() >= ms(60) && answered.elapsed() < ms(4_000), "{:?}", answered.elapsed());
    client.close(0);
}

#[test]
fn a_client_that_cancels_or_leaves_waits_for_nothing() {
    let sandbox = Sandbox::new();
    let mut records = at(0, &[3_600_000], answered("1", "a", "{}", "x"));
    records.extend(at(3_600_000, &[3_600_000], answered("2", "b", "{}", "y")));
    timed(&sandbox, &records);
    let mut client = playing(&sandbox, &["--pace-cap-ms", "0"]);
    client.send(&call("5", "a", "{}"));
    client.send(&call("6", "b", "{}"));
    client.send(&cancelled("5"));
    client.nothing_comes();
    assert_eq!(client.close(0).rest, [said("6", "y")]);
}

#[test]
fn all_of_an_exchange_comes_when_the_client_says_no_more() {
    let sandbox = Sandbox::new();
    let records = [
        c(call("1", "a", "{}")),
        s(notification("message", r#"{"level":"error","data":1}"#)),
        s(notification("message", r#"{"level":"error","data":2}"#)),
        s(said("1", "x")),
    ];
    timed(&sandbox, &at(0, &[3_600_000, 3_600_000, 3_600_000], records));
    let mut client = playing(&sandbox, &["--pace-cap-ms", "0"]);
    client.send(&call("5", "a", "{}"));
    client.nothing_comes();
    let log = |n: u32| notification("message", &format!(r#"{{"level":"error","data":{n}}}"#));
    assert_eq!(client.close(0).rest, [log(1), log(2), said("5", "x")]);
}

#[test]
fn the_pace_over_http() {
    let sandbox = Sandbox::new();
    timed(&sandbox, &steps());
    let arguments = ["serve", "c.json", "--listen", "127.0.0.1:0", "--pace", "recorded"];
    let server = sandbox.listen(arguments);
    let client = server.greet("{}");
    let begun = Instant::now();
    let mut stream = client.stream(&call_with_progress("5", "steps", "5"));
    for (least, line) in [(50, progress("5", 1)), (150, progress("5", 2)), (230, said("5", "done"))] {
        assert_eq!(stream.next(), Some(line));
        assert!(begun.elapsed() >= ms(least), "{:?}", begun.elapsed());
    }
    drop(client);
    server.end(0);
}

#[test]
fn a_cassette_without_times_is_played_at_once_with_a_warning() {
    for (head, why) in
        [("", "it has no timing_ms"), ("\"timing_ms\":[1,2],", "its timing_ms has 2 entries for 5 messages")]
    {
        let sandbox = Sandbox::new();
        let mut records = handshake();
        records.extend(answered("1", "a", "{}", "x"));
        sandbox.tape_with(head, &records);
        let mut client = playing(&sandbox, &[]);
        client.expect(&call("5", "a", "{}"), &said("5", "x"));
        let ended = client.close(0);
        let warning = format!("mcpreel: warning: c.json: no recorded pace, answers come at once: {why}\n");
        assert!(ended.stderr.contains(&warning), "{}", ended.stderr);
    }
}

#[test]
fn a_pace_that_makes_no_sense() {
    let sandbox = Sandbox::new();
    timed(&sandbox, &steps());
    for (options, what) in [
        (&["--pace", "fast"][..], "\"fast\" is not one of instant, recorded"),
        (&["--pace", "recorded", "--pace-scale", "-1"], "expected a number from 0"),
        (&["--pace", "recorded", "--pace-scale", "inf"], "expected a number from 0"),
        (&["--pace", "recorded", "--pace-cap-ms", "-1"], "--pace-cap-ms"),
        (&["--pace-scale", "2"], "--pace-scale needs --pace recorded"),
        (&["--pace", "instant", "--pace-cap-ms", "9"], "--pace-cap-ms needs --pace recorded"),
    ] {
        let done = sandbox.mcpreel(["serve", "c.json"].iter().chain(options)).run().expect(2);
        assert!(done.stderr().contains(what) && done.stderr().lines().count() == 1, "{}", done.stderr());
    }
}

/// The player alone, on a clock of the test: every message is due when it was, to the microsecond, however late the
/// one before it was sent, and whatever else is being played.
#[test]
fn due_times_are_exact() {
    use mcpreel::cassette::Cassette;
    use mcpreel::redact;
    use mcpreel::replay::key::Rules;
    use mcpreel::replay::pace::Pace;
    use mcpreel::replay::player::{Options, Output, Player};
    use mcpreel::replay::tape::Tape;

    let sandbox = Sandbox::new();
    let mut records = steps();
    records.extend(at(5_000, &[70], answered("2", "other", "{}", "x")));
    timed(&sandbox, &records);
    let cassette = Cassette::read(&sandbox.path.join("c.json")).unwrap();
    let rules = Rules::new(&[], &[], redact::Rules::new(false, &[]).unwrap().into()).unwrap();
    let options = Options { pace: Some(Pace::default()), progress_gap: 0, ..Options::default() };
    let mut player = Player::new(Tape::new(cassette, 0), rules, options);
    let session = player.open(Box::new(|_| 0));
    player.receive(session, call_with_progress("5", "steps", "5").as_bytes(), 1_000_000);
    player.receive(session, call("6", "other", "{}").as_bytes(), 1_020_000);
    let mut sent = Vec::new();
    while let Some(due) = player.next_deadline() {
        // Seven milliseconds late, each time.
        player.tick(due + 7_000);
        let texts = player.outputs().filter_map(|output| match output {
            Output::Message { text, .. } => Some(text),
            _ => None,
        });
        sent.extend(texts.map(|text| (due, text)));
    }
    let expected = [
        (1_050_000, progress("5", 1)),
        (1_090_000, said("6", "x")),
        (1_150_000, progress("5", 2)),
        (1_230_000, said("5", "done")),
    ];
    assert_eq!(sent, expected);
}
