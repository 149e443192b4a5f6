//! `split`, `trim` and what `merge` makes of the parts. A cassette that is split and merged is the same file.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mcpreel::cassette::{Cassette, Side};
use mcpreel::jsonrpc::message::Shape;
use mcpreel::jsonrpc::pretty;

use crate::support::{Done, Sandbox};

/// Two stdio servers and one over HTTP; the second connection of `a` has a call with everything that can be inside,
/// and one with a task that is asked for later.
const SHOW: &str = r#"{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"mcpreel 0.1.0",
"servers":{"a":{"transport":"stdio","command":["a"]},"b/c":{"transport":"http","url":"http://x/mcp"},"idle":{"transport":"stdio"}},
"processes":[{"server":"a","exit":{"code":0}},{"server":"a","conn":1,"exit":{"code":3}},{"server":"idle","exit":{"code":0}}],
"redaction":{"rules":["key:pin"],"counts":{"key:pin":1}},"labels":{"test":"show"},"later":{"n":1E400},
"messages":[
{"server":"a","from":"client","payload":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}},
{"server":"a","from":"server","payload":{"jsonrpc":"2.0","id":1,"result":{}}},
{"server":"a","from":"client","payload":{"jsonrpc":"2.0","method":"notifications/initialized"}},
{"server":"b/c","session":1,"from":"client","exchange":1,"payload":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}},
{"server":"b/c","session":1,"from":"server","exchange":1,"http":{"status":200,"type":"json"},"payload":{"jsonrpc":"2.0","id":1,"result":{}}},
{"server":"a","from":"client","payload":{"jsonrpc":"2.0","id":2,"method":"tools/list"}},
{"server":"b/c","session":1,"from":"client","exchange":2,"payload":{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"doc:1,2"}}},
{"server":"a","from":"server","text":"noise"},
{"server":"b/c","session":1,"from":"server","exchange":2,"http":{"status":200,"type":"sse"},"payload":{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info"}}},
{"server":"a","from":"server","payload":{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}},
{"server":"b/c","session":1,"from":"server","exchange":2,"end":"cut"},
{"server":"a","conn":1,"from":"client","payload":{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}},
{"server":"a","conn":1,"from":"server","payload":{"jsonrpc":"2.0","id":1,"result":{}}},
{"server":"a","conn":1,"from":"client","payload":{"jsonrpc":"2.0","method":"notifications/initialized"}},
{"server":"a","conn":1,"from":"client","payload":{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"ask","_meta":{"progressToken":"p"},"arguments":{"n":1.0}}}},
{"server":"a","conn":1,"from":"server","payload":{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"p","progress":1}}},
{"server":"a","conn":1,"from":"server","payload":{"jsonrpc":"2.0","id":2,"method":"elicitation/create","params":{}}},
{"server":"a","conn":1,"from":"client","payload":{"jsonrpc":"2.0","id":2,"result":{"action":"accept"}}},
{"server":"a","conn":1,"from":"server","payload":{"jsonrpc":"2.0","id":2,"result":{"content":[]}}},
{"server":"a","conn":1,"from":"client","payload":{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"slow","task":{}}}},
{"server":"a","conn":1,"from":"server","payload":{"jsonrpc":"2.0","id":3,"result":{"task":{"taskId":"t-1","status":"working"}}}},
{"server":"a","conn":1,"from":"server","payload":{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}},
{"server":"a","conn":1,"from":"client","payload":{"jsonrpc":"2.0","id":4,"method":"tasks/result","params":{"taskId":"t-1"}}},
{"server":"a","conn":1,"from":"server","payload":{"jsonrpc":"2.0","id":4,"result":{"content":[{"type":"text","text":"caf\u00e9"}]}}}],
"timing_ms":[0,1,2,3,4,5,6,7,8,9,10,100000,100001,100002,100003,100004,100005,100006,100007,100008,100009,100010,300000,300001]}
"#;

fn run(sandbox: &Sandbox, args: &[&str]) -> Done {
    sandbox.mcpreel(args).run()
}

/// The places in [`SHOW`] of the records that are left, told by their times.
fn places(sandbox: &Sandbox, file: &str) -> Vec<usize> {
    let whole = Cassette::parse(Path::new("show"), SHOW.as_bytes().to_vec()).unwrap();
    let left = Cassette::read(&sandbox.path.join(file)).unwrap();
    let place = |at: u64| whole.records.iter().position(|record| record.at == at).unwrap();
    for record in &left.records {
        let same = &whole.records[place(record.at)];
        let tokens = |text: Option<&str>| text.map(pretty::packed);
        assert_eq!(tokens(left.payload(record)), tokens(whole.payload(same)));
        assert_eq!((record.conn, record.exchange), (same.conn, same.exchange));
    }
    left.records.iter().map(|record| place(record.at)).collect()
}

#[test]
fn parts_are_the_cassette_again() {
    for (by, files) in [
        (&["server"][..], &["a.cassette.json", "b_c.cassette.json"][..]),
        (&["session"], &["a-1.cassette.json", "a-2.cassette.json", "b_c-1.cassette.json"]),
        (&["time"], &["part-1.cassette.json", "part-2.cassette.json"]),
        (
            &["time", "--every", "0.005"],
            &[
                "part-1.cassette.json",
                "part-2.cassette.json",
                "part-3.cassette.json",
                "part-4.cassette.json",
                "part-5.cassette.json",
            ],
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("show.json", SHOW);
        run(&sandbox, &["convert", "show.json", "-o", "same.json"]).expect(0);
        let split = [&["split", "show.json", "-o", "parts", "--by"], by].concat();
        let printed = run(&sandbox, &split).expect(0).stdout();
        let mut made: Vec<String> = fs::read_dir(sandbox.path.join("parts"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        made.sort();
        assert_eq!(made, files, "{by:?}");
        for file in files {
            assert!(printed.contains(&format!("parts/{file}\t")), "{printed}");
            run(&sandbox, &["inspect", &format!("parts/{file}")]).expect(0);
        }
        // In any order, and some first.
        let mut paths: Vec<String> = files.iter().map(|file| format!("parts/{file}")).collect();
        for _ in 0..2 {
            let args: Vec<&str> = paths.iter().map(String::as_str).collect();
            let done = run(&sandbox, &[&["merge", "-o", "whole.json"], &args[..]].concat()).expect(0);
            assert_eq!(done.stderr(), "", "{by:?}");
            assert_eq!(sandbox.read("whole.json"), sandbox.read("same.json"), "{by:?}");
            paths.reverse();
        }
        let (last, first) = paths.split_last().unwrap();
        let first: Vec<&str> = first.iter().map(String::as_str).collect();
        run(&sandbox, &[&["merge", "-o", "some.jsonl"], &first[..]].concat()).expect(0);
        run(&sandbox, &["merge", last, "some.jsonl", "-o", "whole.json"]).expect(0);
        assert_eq!(sandbox.read("whole.json"), sandbox.read("same.json"), "{by:?}");
    }
}

#[test]
fn a_part_by_time_has_the_handshakes_that_it_needs() {
    let sandbox = Sandbox::new();
    sandbox.file("show.json", SHOW);
    run(&sandbox, &["split", "show.json", "--by", "time", "--gap", "50", "-o", "p"]).expect(0);
    assert_eq!(places(&sandbox, "p/part-1.cassette.json"), (0..=10).collect::<Vec<_>>());
    // The result of the task stays with the call that began it, though it came much later.
    assert_eq!(places(&sandbox, "p/part-2.cassette.json"), (11..=23).collect::<Vec<_>>());
    run(&sandbox, &["split", "show.json", "--by", "time", "--every", "0.005", "-o", "q"]).expect(0);
    assert_eq!(places(&sandbox, "q/part-2.cassette.json"), [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
}

/// A clock that was set back, or a hand, may put a request before the result that it goes on with.
#[test]
fn what_goes_on_with_a_result_stays_with_it_whatever_its_time_is() {
    let show = |times: &str| {
        format!(
            r#"{{"mcpreel":1,"servers":{{"a":{{"transport":"stdio"}}}},"messages":[
            {{"from":"client","payload":{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"x","task":{{}}}}}}}},
            {{"from":"server","payload":{{"jsonrpc":"2.0","id":1,"result":{{"task":{{"taskId":"t-1"}}}}}}}},
            {{"from":"client","payload":{{"jsonrpc":"2.0","id":2,"method":"tasks/get","params":{{"taskId":"t-1"}}}}}},
            {{"from":"server","payload":{{"jsonrpc":"2.0","id":2,"result":{{"taskId":"t-1"}}}}}},
            {{"from":"client","payload":{{"jsonrpc":"2.0","id":3,"method":"ping"}}}}],"timing_ms":[{times}]}}"#
        )
    };
    let one = "p/part-1.cassette.json\t5 messages\n";
    let two = "p/part-1.cassette.json\t4 messages\np/part-2.cassette.json\t1 messages\n";
    for (times, how, expected) in [
        ("100000,101000,0,100,102000", &[][..], one),
        ("100000,101000,0,100,300000", &[], two),
        ("100000,101000,0,100,300000", &["--every", "60"], two),
        ("0,1,300000,300001,300002", &[], one),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("c.json", show(times));
        let done = run(&sandbox, &[&["split", "c.json", "--by", "time", "-o", "p"], how].concat()).expect(0);
        assert_eq!(done.stdout(), expected, "{times} {how:?}");
    }
}

#[test]
fn parts_have_the_shape_of_what_came_by_a_pipe() {
    let sandbox = Sandbox::new();
    sandbox.file("show.json", SHOW);
    run(&sandbox, &["convert", "show.json", "-o", "show.jsonl"]).expect(0);
    for (name, ending) in [("show.json", "json"), ("show.jsonl", "jsonl")] {
        let split =
            sandbox.mcpreel(&["split", "-", "--by", "server", "-o", ending]).input(sandbox.read(name));
        let first = format!("{ending}/a.cassette.{ending}\t");
        assert!(split.run().expect(0).stdout().starts_with(&first), "{name}");
    }
}

#[test]
fn a_part_that_was_changed_goes_by_its_times() {
    let sandbox = Sandbox::new();
    sandbox.file("show.json", SHOW);
    run(&sandbox, &["split", "show.json", "--by", "server", "-o", "p"]).expect(0);
    run(&sandbox, &["trim", "p/a.cassette.json", "-o", "a.json", "--drop", "method=tools/list"]).expect(0);
    let done = run(&sandbox, &["merge", "a.json", "p/b_c.cassette.json", "-o", "less.json"]).expect(0);
    assert_eq!(done.stderr(), "", "a trimmed part still knows its places");
    assert_eq!(places(&sandbox, "less.json").len(), 22);
    let text = sandbox.read("p/a.cassette.json").replacen(
        "{\n      \"server\": \"a\",\n      \"from\": \"server\",\n      \"text\": \"noise\"\n    },",
        "",
        1,
    );
    sandbox.file("edited.json", text);
    let done = run(&sandbox, &["merge", "edited.json", "p/b_c.cassette.json", "-o", "less.json"]).expect(0);
    assert!(
        done.stderr().contains(
            "mcpreel: note: edited.json was changed since it was split: its messages go by their times\n"
        ),
        "{}",
        done.stderr()
    );
    assert_eq!(Cassette::read(&sandbox.path.join("less.json")).unwrap().records.len(), 23);
}

#[test]
fn split_says_what_it_cannot_do() {
    let none = SHOW.replace("timing_ms", "no_times");
    for (text, args, line) in [
        (
            none.as_str(),
            &["--by", "time"][..],
            "x.json: does not say when its messages came, so it cannot be split by time",
        ),
        (SHOW, &["--by", "server", "--gap", "3"], "--gap and --every go with --by time"),
        (SHOW, &["--by", "time", "--gap", "3", "--every", "4"], "--gap and --every exclude each other"),
        (
            "{\"mcpreel\":1,\"servers\":{},\"messages\":[]}",
            &["--by", "server"],
            "x.json: holds no messages that could be split",
        ),
        (
            SHOW,
            &["--by", "colour"],
            "--by \"colour\": expected server, session or time; see mcpreel split --help",
        ),
        (
            SHOW,
            &["--by", "time", "--gap", "-1"],
            "--gap \"-1\": expected a number of seconds, more than 0; see mcpreel split --help",
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("x.json", text);
        let done = run(&sandbox, &[&["split", "x.json", "-o", "parts"], args].concat()).expect(2);
        assert_eq!(done.stderr(), format!("mcpreel: {line}\n"));
        assert!(!sandbox.has("parts"));
    }
    let sandbox = Sandbox::new();
    sandbox.file("x.json", SHOW);
    sandbox.file("parts/b_c.cassette.json", "somebody's work");
    let done = run(&sandbox, &["split", "x.json", "--by", "server", "-o", "parts"]).expect(2);
    assert!(
        done.stderr().contains("parts/b_c.cassette.json: exists and would be replaced"),
        "{}",
        done.stderr()
    );
    assert!(!sandbox.has("parts/a.cassette.json"), "nothing is written where one file would be lost");
}

/// What `trim` leaves of [`SHOW`].
#[test]
fn trim_keeps_and_drops_whole_exchanges() {
    let handshake_1 = [11, 12, 13];
    for (args, left) in [
        (&["--keep", "exchange=3"][..], &[0, 1, 2, 5, 9][..]),
        (&["--keep", "name=ask"], &[&handshake_1[..], &[14, 15, 16, 17, 18]].concat()),
        (&["--keep", "server=b/c"], &[3, 4, 6, 8, 10]),
        (&["--keep", "name=doc:1,2"], &[3, 4, 6, 8, 10]),
        (&["--keep", "method=resources/read,name=doc:*,server=b/c"], &[3, 4, 6, 8, 10]),
        (&["--keep", "method=tasks/result"], &[11, 12, 13, 19, 20, 22, 23]),
        (&["--keep", "exchange=3", "--keep", "exchange=4"], &[0, 1, 2, 3, 4, 5, 6, 8, 9, 10]),
        (&["--keep", "exchange=3..4"], &[0, 1, 2, 3, 4, 5, 6, 8, 9, 10]),
        (&["--keep", "exchange=3", "--drop", "method=initialize"], &[5, 9]),
        (&["--drop", "server=a"], &[3, 4, 6, 8, 10]),
        (
            &["--drop", "method=tools/*,name=slow"],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 21],
        ),
        (
            &["--drop", "method=tasks/result"],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21],
        ),
        (&["--drop", "exchange=..7", "--drop", "server=b/c"], &[7, 21]),
        (
            &["--drop", "method=notifications/tools/list_changed"],
            &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 22, 23],
        ),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("show.json", SHOW);
        run(&sandbox, &[&["trim", "show.json", "-o", "out.json"], args].concat()).expect(0);
        assert_eq!(places(&sandbox, "out.json"), left, "{args:?}");
        let out = Cassette::read(&sandbox.path.join("out.json")).unwrap();
        let servers: BTreeSet<u32> = out.records.iter().map(|record| record.server).collect();
        assert_eq!(servers.len(), out.head.servers.len(), "{args:?}");
        let conns: BTreeSet<(&str, u32)> =
            out.records.iter().map(|record| (out.server_name(record), record.conn)).collect();
        for process in &out.head.processes {
            assert!(conns.contains(&(process.server.as_str(), process.conn)), "{args:?}");
        }
        assert_eq!(out.head.extra, [("later".to_owned(), "{\"n\":1E400}".to_owned())]);
        assert_eq!(out.head.labels.as_deref(), Some("{\"test\":\"show\"}"));
    }
}

#[test]
fn trim_says_what_it_cannot_do() {
    for (args, code, line) in [
        (&["-o", "out.json"][..], 2, "trim needs --keep or --drop; see mcpreel trim --help"),
        (&["--keep", "exchange=3"], 2, "trim needs either -o OUT or --in-place"),
        (&["--keep", "exchange=3", "-o", "x", "--in-place"], 2, "trim needs either -o OUT or --in-place"),
        (&["--keep", "exchange=9", "-o", "x"], 2, "show.json: has no exchange 9; its exchanges are 1 to 8"),
        (
            &["--keep", "server=z", "-o", "x"],
            2,
            "show.json: has no server \"z\"; its servers are \"a\", \"b/c\", \"idle\"",
        ),
        (
            &["--drop", "method=*", "--drop", "server=a", "--drop", "server=b/c", "-o", "x"],
            2,
            "show.json: nothing would be left of it",
        ),
        (
            &["--keep", "colour=red", "-o", "x"],
            2,
            "--keep \"colour=red\": expected method=, name=, server= or exchange=; see mcpreel trim --help",
        ),
        (
            &["--keep", "exchange=5..2", "-o", "x"],
            2,
            "--keep \"exchange=5..2\": expected a number of an exchange, from 1, or N..M; see mcpreel trim --help",
        ),
        (&["--drop", "name=none", "-o", "x"], 0, "note: nothing in show.json is name=none"),
    ] {
        let sandbox = Sandbox::new();
        sandbox.file("show.json", SHOW);
        let done = run(&sandbox, &[&["trim", "show.json"], args].concat()).expect(code);
        assert_eq!(done.stderr(), format!("mcpreel: {line}\n"));
        assert_eq!(sandbox.read("show.json"), SHOW);
    }
    let sandbox = Sandbox::new();
    let done =
        sandbox.mcpreel(["trim", "-", "--in-place", "--keep", "exchange=1"]).input(SHOW).run().expect(2);
    assert_eq!(done.stderr(), "mcpreel: standard input cannot be written in place; give -o OUT\n");
}

#[test]
fn trim_in_place_and_through_pipes() {
    let sandbox = Sandbox::new();
    sandbox.file("show.json", SHOW);
    let piped = sandbox
        .mcpreel(["trim", "-", "-o", "-", "--keep", "exchange=3"])
        .input(SHOW)
        .run()
        .expect(0)
        .stdout();
    run(&sandbox, &["trim", "show.json", "-o", "out.cassette.jsonl", "--keep", "exchange=3"]).expect(0);
    assert!(sandbox.read("out.cassette.jsonl").starts_with("{\"mcpreel\":1,\"journal\":true"));
    run(&sandbox, &["trim", "show.json", "--in-place", "--keep", "exchange=3"]).expect(0);
    assert_eq!(sandbox.read("show.json"), piped);
    assert_eq!(places(&sandbox, "out.cassette.jsonl"), [0, 1, 2, 5, 9]);
}

/// Numbers that look random and are the same each time (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, below: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % below
    }
}

/// A cassette in which requests of several clients are under way at once.
fn random(dice: &mut Dice) -> String {
    let timed = dice.roll(4) > 0;
    let mut records = Vec::new();
    let mut times = Vec::new();
    let mut open: Vec<(u64, u64, u64, u64)> = Vec::new();
    let (mut next, mut now) = (0, 0);
    for _ in 0..=dice.roll(60) {
        let (server, conn) = (dice.roll(3), dice.roll(2));
        // The third server is reached over HTTP, in two sessions.
        let place = |exchange: u64, conn: u64| match server {
            2 => format!("\"server\":\"s2\",\"session\":{},\"exchange\":{exchange},", conn + 1),
            _ if conn > 0 => format!("\"server\":\"s{server}\",\"conn\":{conn},"),
            _ => format!("\"server\":\"s{server}\","),
        };
        now += if dice.roll(9) == 0 { 90_000 } else { dice.roll(3) };
        times.push(now);
        match dice.roll(6) {
            0 => {
                next += 1;
                let text = place(next, conn);
                records.push(format!("{{{text}\"from\":\"server\",\"text\":\"noise {next}\"}}"));
            }
            1 | 2 if !open.is_empty() => {
                let (server, conn, id, exchange) =
                    open.remove(usize::try_from(dice.roll(open.len() as u64)).unwrap());
                let place = match server {
                    2 => format!("\"server\":\"s2\",\"session\":{},\"exchange\":{exchange},", conn + 1),
                    _ if conn > 0 => format!("\"server\":\"s{server}\",\"conn\":{conn},"),
                    _ => format!("\"server\":\"s{server}\","),
                };
                records.push(format!(
                    "{{{place}\"from\":\"server\",\"payload\":{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"n\":{id}.0}}}}}}"
                ));
            }
            _ => {
                next += 1;
                let method = ["initialize", "tools/call", "tools/call", "ping"]
                    [usize::try_from(dice.roll(4)).unwrap()];
                let text = place(next, conn);
                records.push(format!(
                    "{{{text}\"from\":\"client\",\"payload\":{{\"jsonrpc\":\"2.0\",\"id\":{next},\"method\":\"{method}\",\"params\":{{\"name\":\"t{}\"}}}}}}",
                    dice.roll(3)
                ));
                open.push((server, conn, next, next));
            }
        }
    }
    let times = if timed { format!(",\"timing_ms\":{times:?}") } else { String::new() };
    format!(
        "{{\"mcpreel\":1,\"recorded_at\":\"2026-11-29T20:33:00.000Z\",\"recorder\":\"dice\",\"servers\":{{\"s0\":{{\"transport\":\"stdio\"}},\"s1\":{{\"transport\":\"stdio\"}},\"s2\":{{\"transport\":\"http\",\"url\":\"http://x/\"}}}},\"processes\":[{{\"server\":\"s1\",\"conn\":1,\"exit\":{{\"code\":0}}}},{{\"server\":\"s0\",\"exit\":{{\"code\":1}}}}],\"messages\":[{}]{times}}}",
        records.join(",")
    )
}

#[test]
fn random_cassettes_are_split_merged_and_trimmed_whole() {
    let mut dice = Dice(0x9e37_79b9_7f4a_7c15);
    let mut timed = 0;
    for round in 0..40 {
        let sandbox = Sandbox::new();
        let text = random(&mut dice);
        sandbox.file("c.json", &text);
        run(&sandbox, &["convert", "c.json", "-o", "same.json"]).expect(0);
        let with_times = text.contains("timing_ms");
        timed += usize::from(with_times);
        for by in ["server", "session", "time"].iter().filter(|by| with_times || **by != "time") {
            let printed = run(&sandbox, &["split", "c.json", "--by", by, "-o", by]).expect(0).stdout();
            let parts: Vec<&str> = printed.lines().map(|line| line.split('\t').next().unwrap()).collect();
            let done = run(&sandbox, &[&["merge", "-o", "whole.json"], &parts[..]].concat()).expect(0);
            assert_eq!(done.stderr(), "", "round {round}, {by}");
            assert_eq!(sandbox.read("whole.json"), sandbox.read("same.json"), "round {round}, {by}");
        }
        for selection in [["--keep", "name=t1"], ["--drop", "name=t0"], ["--keep", "method=tools/*"]] {
            let done = run(&sandbox, &[&["trim", "c.json", "-o", "trimmed.json"], &selection[..]].concat());
            if done.code() == 2 {
                assert!(done.stderr().contains("nothing would be left"), "{}", done.stderr());
                continue;
            }
            done.expect(0);
            let whole = Cassette::read(&sandbox.path.join("c.json")).unwrap();
            let left = Cassette::read(&sandbox.path.join("trimmed.json")).unwrap();
            assert_eq!(left.timing, whole.timing);
            // Ids are unique here, so a request stays exactly with its answer.
            let ids = |cassette: &Cassette, from: Side| -> BTreeSet<String> {
                let records = cassette.records.iter().filter(|record| record.from == from);
                let views = records.filter_map(|record| record.view());
                let views = views.filter(|view| matches!(view.shape, Shape::Request | Shape::Response));
                views.filter_map(|view| view.id).map(|id| id.of(&cassette.text).to_owned()).collect()
            };
            let (asked, answered) = (ids(&left, Side::Client), ids(&left, Side::Server));
            assert!(answered.is_subset(&asked), "round {round}");
            let due: BTreeSet<String> = asked.intersection(&ids(&whole, Side::Server)).cloned().collect();
            assert_eq!(answered, due, "round {round}: {selection:?}");
        }
    }
    assert!((20..40).contains(&timed), "both kinds are tried");
}
