//! Calls without an answer, messages that nobody asked for, and how a replay ends.

use std::io::{Read, Write};
use std::process::Stdio;

use crate::support::replay::{
    INITIALIZED, answered, c, call, call_with_progress, cancelled, handshake, notification, progress,
    request, result, s, said,
};
use crate::support::{LONG, MCPREEL, Sandbox, eventually, initialize, signal_to};

const CHANGED: &str = r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#;

/// A call that hangs until it is cancelled, then another.
fn with_cancel(after: &[String]) -> Vec<String> {
    let mut records = handshake();
    records.extend([c(call("1", "slow", "{}")), c(cancelled("1"))]);
    records.extend(after.iter().cloned());
    records.extend(answered("2", "t", "{}", "x"));
    records
}

#[test]
fn a_call_that_was_cancelled_is_held_until_the_client_cancels() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&with_cancel(&[]), &[]);
    client.greet("{}");
    client.send(&call("7", "slow", "{}"));
    client.nothing_comes();
    client.expect(&call("8", "t", "{}"), &said("8", "x"));
    client.send(&cancelled("7"));
    client.nothing_comes();
    let ended = client.close(0);
    assert_eq!((ended.rest, ended.stderr.as_str()), (Vec::new(), ""));
}

#[test]
fn an_answer_that_came_after_the_cancel_comes_after_the_live_one_only() {
    let late = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32800,"message":"Request cancelled"}}"#;
    for late in [late.to_owned(), said("1", "crossed")] {
        let sandbox = Sandbox::new();
        let records = with_cancel(&[s(&late)]);
        let mut client = sandbox.play(&records, &[]);
        client.greet("{}");
        client.send(&call("\"z\"", "slow", "{}"));
        client.nothing_comes();
        client.send(&cancelled("\"z\""));
        assert_eq!(client.next(), late.replace("\"id\":1", "\"id\":\"z\""));
        client.close(0);
        // A client that waits in vain gets nothing, at its end neither.
        let mut client = sandbox.play(&records, &[]);
        client.greet("{}");
        client.send(&call("\"z\"", "slow", "{}"));
        client.nothing_comes();
        assert_eq!(client.close(0).rest, Vec::<String>::new());
    }
}

#[test]
fn a_call_whose_client_left_is_held() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.push(c(call("1", "slow", "{}")));
    sandbox.tape_with(r#""processes":[{"server":"demo","exit":{"code":0}}],"#, &records);
    let mut client = sandbox.serve(&[]);
    client.greet("{}");
    client.send(&call("7", "slow", "{}"));
    client.nothing_comes();
    assert_eq!(client.close(0).stderr, "");
}

#[test]
fn where_the_server_ended_the_stream_ends() {
    for (process, words) in [
        (r#"{"server":"demo","exit":{"code":7},"ended":"server_exited"}"#, "with status 7"),
        (r#"{"server":"demo","exit":{"signal":11},"ended":"server_exited"}"#, "by signal 11"),
    ] {
        let sandbox = Sandbox::new();
        let mut records = handshake();
        records.extend([c(call_with_progress("1", "crash", "1")), s(progress("1", 1))]);
        sandbox.tape_with(&format!("\"processes\":[{process}],"), &records);
        let mut client = sandbox.serve(&[]);
        client.greet("{}");
        client.expect(&call_with_progress("7", "crash", "\"p\""), &progress("\"p\"", 1));
        client.expect_end();
        let ended = client.end(0);
        assert_eq!(ended.stderr, format!("mcpreel: the recorded server ended {words}, so the replay does\n"));
    }
    // What the demo server does when asked to.
    let sandbox = Sandbox::new();
    let mut client =
        sandbox.mcpreel(["record", "-q", "--cassette", "c.json", "--", MCPREEL, "demo", "server"]).start();
    client.greet("{}");
    client.send(&call("1", "exit", r#"{"code":9}"#));
    client.expect_end();
    client.end(9);
    let mut client = sandbox.serve(&[]);
    client.greet("{}");
    client.send(&call("3", "exit", r#"{"code":9}"#));
    client.expect_end();
    assert!(client.end(0).stderr.contains("with status 9"));
}

#[test]
fn a_miss_before_the_recorded_end_still_counts() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.push(c(call("1", "crash", "{}")));
    sandbox
        .tape_with(r#""processes":[{"server":"demo","exit":{"code":1},"ended":"server_exited"}],"#, &records);
    let mut client = sandbox.serve(&["--report", "r.jsonl"]);
    client.greet("{}");
    client.fails(&call("1", "other", "{}"), -31001);
    client.send(&call("2", "crash", "{}"));
    client.expect_end();
    client.end(3);
    assert!(sandbox.read("r.jsonl").contains(r#""ended":"the recorded server ended""#));
}

#[test]
fn an_answer_that_was_lost_is_an_error_and_a_miss() {
    let lost: [(&str, Vec<String>); 2] = [
        (r#""processes":[{"server":"demo","killed":true}],"#, vec![]),
        ("", vec![r#"s text: {"jsonrpc":"2.0","id":1,"result":{"content":[{"ty"#.to_owned()]),
    ];
    for (head, after) in lost {
        let sandbox = Sandbox::new();
        let mut records = handshake();
        records.push(c(call("1", "t", "{}")));
        records.extend(after);
        sandbox.tape_with(head, &records);
        let mut client = sandbox.serve(&[]);
        client.greet("{}");
        let error = client.fails(&call("7", "t", "{}"), -31002);
        assert_eq!(
            error,
            r#"{"jsonrpc":"2.0","id":7,"error":{"code":-31002,"message":"mcpreel: the answer to this request is not in the cassette (the recorder was killed, or the line is damaged)","data":{"method":"tools/call","name":"t","hint":"record again to complete it"}}}"#
        );
        assert_eq!(
            client.close(3).stderr,
            "mcpreel: tools/call \"t\": the answer to this request is not in the cassette (the recorder was killed, or the line is damaged); record again to complete it\nmcpreel: 1 request without a recorded answer\n"
        );
    }
    // Not UTF-8: the record holds bytes.
    let sandbox = Sandbox::new();
    sandbox.tape_with("", &[c(call("1", "t", "{}")), s("text: BYTES")]);
    let text = sandbox
        .read("c.json")
        .replace(r#""text":"BYTES""#, r#""base64":"eyJqc29ucnBjIjoiMi4wIiwiaWQiOjEs/yI=""#);
    sandbox.file("c.json", text);
    let mut client = sandbox.serve(&[]);
    client.fails(&call("7", "t", "{}"), -31002);
    client.close(3);
}

#[test]
fn noise_of_the_server_loses_no_answer() {
    let sandbox = Sandbox::new();
    let records = [
        c(call("1", "t", "{}")),
        s("text: starting up"),
        s("text: {debug} not a message"),
        s(said("1", "x")),
    ];
    let mut client = sandbox.play(&records, &[]);
    client.expect(&call("7", "t", "{}"), &said("7", "x"));
    client.close(0);
}

#[test]
fn r098_what_followed_a_call_follows_its_live_answer() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "grow", "{}", "grown"));
    records.push(s(CHANGED));
    records.extend(answered("2", "t", "{}", "x"));
    let mut client = sandbox.play(&records, &["--repeat", "last"]);
    client.greet("{}");
    client.expect(&call("5", "t", "{}"), &said("5", "x"));
    client.nothing_comes();
    client.send(&call("6", "grow", "{}"));
    client.gets(&[said("6", "grown"), CHANGED.to_owned()]);
    // Only once: the answer is repeated, what followed it is not.
    client.expect(&call("6", "grow", "{}"), &said("6", "grown"));
    client.nothing_comes();
    client.close(0);
}

#[test]
fn what_the_server_sent_on_its_own_account_comes_at_its_place() {
    let sandbox = Sandbox::new();
    let log = |n: u32| notification("message", &format!(r#"{{"level":"info","data":{n}}}"#));
    let mut records = vec![s(log(0))];
    records.extend(handshake());
    records.extend([s(log(1)), s(request("7", "roots/list", "{}")), c(result("7", r#"{"roots":[]}"#))]);
    records.push(c(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#));
    records.push(s(log(2)));
    let mut client = sandbox.play(&records, &[]);
    client.send(&initialize(r#"{"roots":{}}"#));
    assert_eq!(client.next(), log(0));
    assert!(client.next().contains("serverInfo"));
    client.nothing_comes();
    client.send(INITIALIZED);
    client.gets(&[log(1), request("0", "roots/list", "{}")]);
    client.send(&result("0", r#"{"roots":[]}"#));
    client.nothing_comes();
    client.send(r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#);
    assert_eq!(client.next(), log(2));
    client.close(0);
}

#[test]
fn r099_updates_go_to_those_who_subscribed() {
    let sandbox = Sandbox::new();
    let subscribe =
        |id: &str, uri: &str| request(id, "resources/subscribe", &format!(r#"{{"uri":"{uri}"}}"#));
    let updated = |uri: &str| notification("resources/updated", &format!(r#"{{"uri":"{uri}"}}"#));
    let mut records = handshake();
    records.extend([c(subscribe("1", "a:")), s(result("1", "{}"))]);
    records.extend(answered("2", "touch", "{}", "touched"));
    records.extend([s(updated("a:")), s(updated("b:"))]);
    for (subscribed, expected) in
        [(&[][..], &[][..]), (&["a:"], &["a:"]), (&["b:"], &["b:"]), (&["a:", "b:"], &["a:", "b:"])]
    {
        let mut client = sandbox.play(&records, &[]);
        client.greet("{}");
        for uri in subscribed {
            client.expect(&subscribe("9", uri), &result("9", "{}"));
        }
        client.expect(&call("5", "touch", "{}"), &said("5", "touched"));
        client.gets(&expected.iter().map(|uri| updated(uri)).collect::<Vec<_>>());
        client.nothing_comes();
        client.close(0);
    }
    let mut client = sandbox.play(&records, &[]);
    client.greet("{}");
    client.ask(&subscribe("9", "a:"));
    client.ask(&request("9", "resources/unsubscribe", r#"{"uri":"a:"}"#));
    client.expect(&call("5", "touch", "{}"), &said("5", "touched"));
    client.nothing_comes();
    client.close(0);
}

#[test]
fn r052_the_replay_ends_with_its_input_a_signal_or_its_reader() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", "x"));
    let mut client = sandbox.play(&records, &[]);
    client.greet("{}");
    assert_eq!(client.close(0).stderr, "");
    for signal in [15, 2] {
        for (name, code) in [("t", 0), ("unknown", 3)] {
            let mut client = sandbox.play(&records, &["--report", "r.jsonl"]);
            client.greet("{}");
            client.ask(&call("1", name, "{}"));
            client.signal(signal);
            client.end(code);
            let report = sandbox.read("r.jsonl");
            let last = report.lines().last().unwrap();
            assert!(last.contains(&format!(r#""ended":"signal {signal}","#)), "{last}");
            assert!(last.ends_with(&format!(r#""exit":{code}}}"#)), "{last}");
            assert_eq!(last.contains(r#""misses":[]"#), code == 0, "{last}");
        }
    }
}

#[test]
fn r052_a_reader_that_leaves_ends_it_quietly() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", &"x".repeat(300_000)));
    sandbox.tape_with("", &records);
    for (name, code) in [("t", 0), ("unknown", 3)] {
        let mut command = sandbox.mcpreel(["serve", "c.json", "--repeat", "last"]).command;
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        drop(child.stdout.take());
        let mut stderr = child.stderr.take().unwrap();
        // It may be gone before the last of these.
        for _ in 0..3 {
            let _ = stdin.write_all(format!("{}\n", call("1", name, "{}")).as_bytes());
        }
        let started = std::time::Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if started.elapsed() > LONG {
                child.kill().unwrap();
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        };
        assert_eq!(status.code(), Some(code));
        let mut text = String::new();
        stderr.read_to_string(&mut text).unwrap();
        assert_eq!(text.is_empty(), code == 0, "{text}");
        assert!(!text.contains("pipe"), "{text}");
        drop(stdin);
    }
}

#[test]
fn at_the_end_of_input_what_is_due_is_sent() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([c(call_with_progress("1", "t", "1")), s(progress("1", 1)), s(said("1", "x"))]);
    records.extend(answered("2", "u", "{}", "y"));
    sandbox.tape_with("", &records);
    let lines = [
        initialize("{}"),
        call_with_progress("5", "t", "5"),
        call("6", "u", "{}"),
        // Without its line end.
        request("7", "ping", "{}"),
    ];
    let run = sandbox.mcpreel(["serve", "c.json"]).input(lines.join("\n")).run().expect(0);
    let mut lines = run.lines();
    lines.remove(0);
    assert_eq!(lines, [progress("5", 1), said("6", "y"), result("7", "{}"), said("5", "x")]);
    assert_eq!(run.stderr(), "");
}

#[test]
fn r053_noise_of_the_client_gets_no_answer() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", "x"));
    let mut client = sandbox.play(&records, &["--repeat", "last"]);
    client.write(b"\xef\xbb\xbf");
    client.ask(&format!("{}\r", initialize("{}")));
    for noise in [
        &b"\n"[..],
        b"\r\n",
        b"   \n",
        b"hello\n",
        b"{\"jsonrpc\n",
        b"\xff\xfe\n",
        b"42\n",
        b"\"x\"\n",
        b"{}\n",
        b"[]\n",
        b"null\n",
        b"{\"jsonrpc\":\"2.0\",\"id\":5,\"result\":{}}\n",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"notifications/unknown\"}\n",
    ] {
        client.write(noise);
    }
    client.expect(&format!(" {} \r", call("1", "t", "{}")), &said("1", "x"));
    // Only a line feed ends a line.
    client.expect(&call("\"a\u{2028}b\u{85}\"", "t", "{}"), &said("\"a\u{2028}b\u{85}\"", "x"));
    // Said once, and no line of it on standard output.
    assert_eq!(
        client.close(0).stderr,
        "mcpreel: the client sent a line that is no message; it gets no answer\n\
         mcpreel: the client answered id 5, and no question of the server has it open\n"
    );
}

#[test]
fn r053_json_that_is_no_message_is_noise_too() {
    for noise in ["{}", "42", "null", r#"{"jsonrpc":"2.0"}"#, r#"{"Method":"ping"}"#, "[7]", "[[]]"] {
        let sandbox = Sandbox::new();
        let mut client = sandbox.play(&handshake(), &[]);
        client.send(noise);
        client.nothing_comes();
        let told = "mcpreel: the client sent a line that is no message; it gets no answer\n";
        assert_eq!(client.close(0).stderr, told, "{noise}");
    }
}

#[test]
fn what_a_client_can_make_us_say_has_an_end() {
    let sandbox = Sandbox::new();
    let mut client = sandbox.play(&handshake(), &["--report", "r.jsonl"]);
    for id in 0..1_500 {
        client.send(&result(&id.to_string(), "{}"));
    }
    let ended = client.close(0);
    let last = "mcpreel: what else there was to say is left out";
    assert_eq!((ended.stderr.lines().count(), ended.stderr.lines().last()), (1_001, Some(last)));
    let report: serde_json::Value = serde_json::from_str(sandbox.read("r.jsonl").trim()).unwrap();
    assert_eq!(report["warnings"].as_array().unwrap().len(), 1_001);
}

#[test]
fn r051_standard_output_carries_messages_only() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", "x"));
    sandbox.tape_with("", &records);
    let run = sandbox
        .mcpreel(["serve", "c.json", "-v"])
        .lines(&[&initialize("{}"), INITIALIZED, &call("1", "unknown", "{}"), &call("2", "t", "{}")])
        .run()
        .expect(3);
    assert!(run.stderr().lines().all(|line| line.starts_with("mcpreel: ")), "{}", run.stderr());
    assert_eq!(run.lines().len(), 3);
    for line in run.lines() {
        assert!(line.starts_with(r#"{"jsonrpc":"2.0","#), "{line}");
    }
}

#[test]
fn r054_a_large_cassette_answers_soon() {
    let sandbox = Sandbox::new();
    let text = "y".repeat(100_000);
    let mut records = handshake();
    for n in 0..200 {
        records.extend(answered("1", "t", &format!(r#"{{"n":{n}}}"#), &text));
    }
    let mut client = sandbox.play(&records, &[]);
    client.greet("{}");
    client.expect(&call("1", "t", r#"{"n":199}"#), &said("1", &text));
    client.close(0);
}

#[test]
fn signals_to_a_client_that_does_not_read_are_heard() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", &"x".repeat(1_000_000)));
    sandbox.tape_with("", &records);
    let mut command = sandbox.mcpreel(["serve", "c.json", "--repeat", "last"]).command;
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for _ in 0..3 {
        stdin.write_all(format!("{}\n", call("1", "t", "{}")).as_bytes()).unwrap();
    }
    let mut stdout = child.stdout.take().unwrap();
    let mut first = [0; 1];
    stdout.read_exact(&mut first).unwrap();
    signal_to(child.id(), 15);
    eventually("the end", || child.try_wait().unwrap().is_some());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_came_behind_a_late_cancellation_is_not_lost() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend(answered("1", "t", "{}", "x"));
    // The client gave up when the answer was on its way, and told of its own progress.
    records.extend([c(cancelled("1")), c(progress("9", 1)), s(CHANGED)]);
    let mut client = sandbox.play(&records, &[]);
    client.greet("{}");
    client.expect(&call("5", "t", "{}"), &said("5", "x"));
    assert_eq!(client.next(), CHANGED);
    client.send(&cancelled("5"));
    client.nothing_comes();
    client.close(0);
}

#[test]
fn the_end_that_is_told_is_that_of_the_process_that_was_asked() {
    let sandbox = Sandbox::new();
    let records = [
        answered("1", "t", "{}", "x").to_vec(),
        vec![crate::support::replay::on(1, &c(call("1", "crash", "{}")))],
    ]
    .concat();
    let processes = r#""processes":[{"server":"demo","exit":{"code":0}},{"server":"demo","conn":1,"exit":{"code":5},"ended":"server_exited"}],"#;
    sandbox.tape_with(processes, &records);
    let mut client = sandbox.serve(&[]);
    client.expect(&call("1", "t", "{}"), &said("1", "x"));
    client.send(&call("2", "crash", "{}"));
    client.expect_end();
    assert_eq!(
        client.end(0).stderr,
        "mcpreel: the recorded server ended with status 5, so the replay does\n"
    );
}

#[test]
fn the_recorded_end_takes_no_answer_along_that_came_before_it() {
    let sandbox = Sandbox::new();
    let mut records = handshake();
    records.extend([
        c(call("1", "crash", "{}")),
        c(call_with_progress("2", "t", "2")),
        s(progress("2", 1)),
        s(said("2", "x")),
    ]);
    sandbox
        .tape_with(r#""processes":[{"server":"demo","exit":{"code":1},"ended":"server_exited"}],"#, &records);
    for calls in [["5", "6"], ["6", "5"]] {
        let mut client = sandbox.serve(&[]);
        client.greet("{}");
        let line = |id: &&str| match *id {
            "5" => call("5", "crash", "{}"),
            id => call_with_progress(id, "t", id),
        };
        client.write(format!("{}\n", calls.iter().map(line).collect::<Vec<_>>().join("\n")).as_bytes());
        client.gets(&[progress("6", 1), said("6", "x")]);
        client.expect_end();
        client.end(0);
    }
    // Where they do not come, neither does the client wait for ever.
    let mut client = sandbox.serve(&[]);
    client.greet("{}");
    client.send(&call("5", "crash", "{}"));
    client.expect_end();
    client.end(0);
}
