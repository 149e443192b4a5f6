//! What goes over the pipes goes over them unchanged, and is in the cassette token for token.

use std::io::{Read as _, Write as _};
use std::process::Stdio;

use crate::support::recording::{as_recorded, lines_of, squeezed, testdata, testdata_files};
use crate::support::{Sandbox, eventually, initialize, messages};

/// Records `stream` through a server that sends back what it gets; gives what the cassette holds.
#[track_caller]
fn there_and_back(stream: &[u8], name: &str) -> Vec<String> {
    let sandbox = Sandbox::new();
    let run = sandbox.recorder("c.json", &["-q"], &["cat"]).input(stream).run().expect(0);
    assert!(run.output.stdout == stream, "{name}: what came back is not what was sent");
    assert_eq!(run.stderr(), "", "{name}");
    messages(&sandbox.path.join("c.json"))
}

/// The lines of one side.
fn of_side(messages: &[String], side: char) -> Vec<&String> {
    messages.iter().filter(|line| line.starts_with(side)).collect()
}

#[track_caller]
fn check_stream(stream: &[u8], name: &str) {
    let kept = there_and_back(stream, name);
    for side in ['c', 's'] {
        let expected: Vec<String> =
            lines_of(stream).into_iter().map(|line| as_recorded(side, line)).collect();
        let kept = of_side(&kept, side);
        assert_eq!(kept.len(), expected.len(), "{name}: number of messages from {side}");
        for (at, (kept, expected)) in kept.into_iter().zip(&expected).enumerate() {
            assert!(kept == expected, "{name}: line {}: kept {kept:.300}, expected {expected:.300}", at + 1);
        }
    }
}

#[track_caller]
fn check_file(name: &str) {
    check_stream(&std::fs::read(testdata("messages").join(name)).unwrap(), name);
}

#[test]
fn r001_every_odd_stream_passes_both_ways_and_is_kept_token_for_token() {
    let files = testdata_files("messages");
    assert!(files.len() > 12);
    for file in files {
        check_stream(&std::fs::read(&file).unwrap(), file.file_name().unwrap().to_str().unwrap());
    }
}

#[test]
fn r002_a_line_that_is_no_json_passes_and_the_session_goes_on() {
    check_file("noise.txt");
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "echo starting...; cat");
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    assert_eq!(client.next(), "starting...");
    assert_eq!(client.ask("{\"a\":1}"), "{\"a\":1}");
    client.close(0);
    assert_eq!(messages(&sandbox.path.join("c.json")), ["s text: starting...", "c {\"a\":1}", "s {\"a\":1}"]);
}

#[test]
fn r003_invalid_utf8_passes_both_ways_and_is_kept_as_base64() {
    check_file("invalid-utf8.txt");
}

#[test]
fn r004_a_line_of_32_mib_passes_both_ways_and_is_kept() {
    let mut line = b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"blob\":\"".to_vec();
    line.resize((32 << 20) - 4, b'x');
    line.extend_from_slice(b"\"}}\n");
    assert_eq!(line.len(), 32 << 20);
    let kept = there_and_back(&line, "32 MiB");
    assert_eq!(kept.len(), 2);
    let text = std::str::from_utf8(&line).unwrap().trim_end();
    assert!(&kept[0][2..] == text && &kept[1][2..] == text, "kept something else");
}

#[test]
fn r005_a_message_nested_1000_deep_and_one_200000_deep_pass_and_are_kept() {
    check_file("deep.txt");
    check_file("deepest.txt");
}

#[test]
fn r006_a_last_line_without_its_end_is_forwarded_before_the_end_of_input() {
    check_file("no-final-newline.txt");
    let sandbox = Sandbox::new();
    // Gives back what it gets byte by byte, so that the client sees when the torn line is through.
    let mut client = sandbox.recorder("c.json", &["-q"], &["cat"]).start_bytes();
    client.write(b"{\"torn\":");
    assert_eq!(client.read_exactly(8), b"{\"torn\":");
    client.write(b"1}");
    assert_eq!(client.read_exactly(2), b"1}");
    client.close(0);
    assert_eq!(messages(&sandbox.path.join("c.json")), ["c {\"torn\":1}", "s {\"torn\":1}"]);
}

/// A server that answers the n-th line with the n-th line of a file.
fn server_of_answers(sandbox: &Sandbox, answers: &str) -> String {
    let file = sandbox.file("answers", answers);
    let body = format!(
        "while read -r line; do read -r answer <&3; printf '%s\\n' \"$answer\"; done 3<{}",
        file.display()
    );
    sandbox.script("server", &body)
}

#[test]
fn values_are_the_same_text_in_the_cassette_and_in_replay_as_argument_and_in_a_result() {
    let values = std::fs::read_to_string(testdata("messages/values.txt")).unwrap();
    let mut session = vec![initialize("{}")];
    let mut answers = vec![
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#.to_owned(),
    ];
    for (number, value) in lines_of(values.as_bytes()).into_iter().enumerate() {
        let value = std::str::from_utf8(value).unwrap();
        let id = number + 1;
        session.push(format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"t{id}","arguments":{{"v": {value} }}}}}}"#
        ));
        answers.push(format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"v": {value} }}}}"#));
    }
    let sandbox = Sandbox::new();
    let server = server_of_answers(&sandbox, &(answers.join("\n") + "\n"));
    let session: Vec<&str> = session.iter().map(String::as_str).collect();
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    for (request, answer) in session.iter().zip(&answers) {
        assert!(client.ask(request) == *answer, "{request:.300}");
    }
    client.close(0);

    let expected: Vec<String> = session
        .iter()
        .zip(&answers)
        .flat_map(|(request, answer)| [format!("c {}", squeezed(request)), format!("s {}", squeezed(answer))])
        .collect();
    assert_eq!(messages(&sandbox.path.join("c.json")), expected);

    let (replayed, _) = sandbox.replay("c.json", &session, 0);
    assert_eq!(replayed, answers.iter().map(|answer| squeezed(answer)).collect::<Vec<_>>());
}

#[test]
fn r019_a_batch_is_forwarded_whole_and_its_requests_are_answered_one_by_one_in_replay() {
    check_file("batches.txt");
    let sandbox = Sandbox::new();
    let answers = [
        r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-03-26","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#,
        r#"[{"jsonrpc":"2.0","id":2,"result":{"content":[],"n":2}},{"jsonrpc":"2.0","id":1,"result":{"content":[],"n":1}}]"#,
    ];
    let server = server_of_answers(&sandbox, &(answers.join("\n") + "\n"));
    let call = |id: u32, name: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{name}","arguments":{{}}}}}}"#
        )
    };
    let init = initialize("{}").replace("2025-11-25", "2025-03-26");
    let batch = format!("[{},{}]", call(1, "one"), call(2, "two"));
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    assert_eq!(client.ask(&init), answers[0]);
    assert_eq!(client.ask(&batch), answers[1]);
    client.close(0);
    assert_eq!(
        messages(&sandbox.path.join("c.json")),
        [format!("c {init}"), format!("s {}", answers[0]), format!("c {batch}"), format!("s {}", answers[1])]
    );
    // Each element is known by itself: a client that sends no batches gets the same answers.
    let (replayed, _) = sandbox.replay("c.json", &[&init, &call(7, "two"), &call(8, "one")], 0);
    assert_eq!(replayed[1], r#"{"jsonrpc":"2.0","id":7,"result":{"content":[],"n":2}}"#);
    assert_eq!(replayed[2], r#"{"jsonrpc":"2.0","id":8,"result":{"content":[],"n":1}}"#);
}

#[test]
fn r020_one_id_used_in_both_directions_at_once_is_paired_by_direction() {
    let sandbox = Sandbox::new();
    let answer = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"done"}]}}"#;
    let ask = r#"{"jsonrpc":"2.0","id":1,"method":"sampling/createMessage","params":{"messages":[],"maxTokens":1}}"#;
    let hello = r#"{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}}"#;
    let server = sandbox.script(
        "server",
        &format!(
            "read -r a; echo '{hello}'; read -r b; echo '{ask}'; read -r c; echo '{answer}'; cat >/dev/null"
        ),
    );
    let init = initialize(r#"{"sampling":{}}"#);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{}}}"#;
    let sampled = r#"{"jsonrpc":"2.0","id":1,"result":{"role":"assistant","content":{"type":"text","text":"hm"},"model":"m"}}"#;
    let mut client = sandbox.recorder("c.json", &["-q"], &[&server]).start();
    assert_eq!(client.ask(&init), hello);
    assert_eq!(client.ask(call), ask);
    assert_eq!(client.ask(sampled), answer);
    client.close(0);

    let mut client = sandbox.mcpreel(["serve", "c.json"]).start();
    assert_eq!(client.ask(&init), hello);
    let asked = client.ask(&call.replace("\"id\":1", "\"id\":5"));
    assert!(asked.contains("sampling/createMessage"), "{asked}");
    let view = mcpreel::jsonrpc::message::View::of(&asked).unwrap();
    let id = view.id.unwrap().of(&asked);
    assert_eq!(
        client.ask(&sampled.replace("\"id\":1", &format!("\"id\":{id}"))),
        answer.replace("\"id\":1", "\"id\":5")
    );
    client.close(0);
}

#[test]
fn r021_the_environment_of_the_server_is_not_in_the_cassette() {
    let sandbox = Sandbox::new();
    let server = sandbox.script("server", "test \"$PLANTED\" = value-of-planted && cat");
    let run = sandbox.recorder("c.json", &[], &[&server]).env("PLANTED", "value-of-planted");
    let done = run.lines(&["{\"a\":1}"]).run().expect(0);
    assert_eq!(done.stdout(), "{\"a\":1}\n");
    for (path, bytes) in sandbox.every_file() {
        if path.file_name().unwrap() != "server" {
            assert!(memchr::memmem::find(&bytes, b"value-of-planted").is_none(), "{}", path.display());
        }
    }
}

/// A parent such as Node makes pipes non-blocking, and whoever shares one has it so too.
#[test]
fn a_pipe_that_does_not_block_gets_every_byte() {
    for number in [1, 2] {
        let sandbox = Sandbox::new();
        let server =
            sandbox.script("server", &format!("head -c 300000 /dev/zero | tr '\\0' x >&{number}; exec cat"));
        let (mut ours, theirs) = std::io::pipe().unwrap();
        rustix::io::ioctl_fionbio(&theirs, true).unwrap();
        let mut run = sandbox.recorder("c.json", &["-q", "--server", "s"], &[&server]);
        run.command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        match number {
            1 => run.command.stdout(theirs),
            _ => run.command.stderr(theirs),
        };
        let mut child = run.command.spawn().unwrap();
        drop(run);
        // Nobody reads until no more fits in.
        eventually("a full pipe", || rustix::io::ioctl_fionread(&ours).unwrap() > 60_000);
        // With a message, there is nothing that we have to say.
        child.stdin.take().unwrap().write_all(b"{}\n").unwrap();
        let mut said = Vec::new();
        ours.read_to_end(&mut said).unwrap();
        child.wait().unwrap();
        let message = if number == 1 { "{}\n" } else { "" };
        assert!(said == ("x".repeat(300_000) + message).as_bytes(), "{number}: {} bytes", said.len());
    }
}

#[test]
fn what_we_say_waits_for_a_full_pipe_that_does_not_block() {
    let sandbox = Sandbox::new();
    sandbox.cassette("c.json", &[]);
    let (mut ours, mut theirs) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&theirs, true).unwrap();
    let mut full = 0;
    while let Ok(length) = theirs.write(&[b'x'; 4096]) {
        full += length;
    }
    let mut run = sandbox.mcpreel(["serve", "c.json"]);
    run.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(theirs);
    let mut child = run.command.spawn().unwrap();
    drop(run);
    let mut input = child.stdin.take().unwrap();
    input
        .write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"a\"}}\n")
        .unwrap();
    let mut answer = [0; 1];
    child.stdout.as_mut().unwrap().read_exact(&mut answer).unwrap();
    ours.read_exact(&mut vec![0; full]).unwrap();
    drop(input);
    assert_eq!(child.wait().unwrap().code(), Some(3));
    let mut said = String::new();
    ours.read_to_string(&mut said).unwrap();
    let line = "mcpreel: no recorded answer for tools/call \"a\"; record again to add it\n";
    assert!(said.starts_with(line), "{said}");
}
