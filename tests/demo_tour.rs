//! The tours for newcomers: what they tell, and that they leave nothing behind but the cassette.

use std::path::PathBuf;

use super::support::{Sandbox, messages};

/// Takes a tour in a folder of its own; gives what it told, and its cassette.
#[track_caller]
fn tour(sandbox: &Sandbox, arguments: &[&str]) -> (String, PathBuf) {
    let temporary = sandbox.path.to_str().unwrap();
    let done = sandbox.mcpreel(arguments).env("TMPDIR", temporary).run().expect(0);
    assert_eq!(done.stderr(), "");
    let folders: Vec<PathBuf> =
        std::fs::read_dir(&sandbox.path).unwrap().map(|entry| entry.unwrap().path()).collect();
    let [folder] = &folders[..] else { panic!("not one folder: {folders:?}") };
    let left: Vec<String> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left, ["demo.cassette.json"]);
    let told = done.stdout().replace(folder.to_str().unwrap(), "FOLDER");
    (told, folder.join("demo.cassette.json"))
}

/// The lines, those that were cut to the width of a terminal without the dots that say so.
fn lines(told: &str) -> Vec<String> {
    told.lines().map(|line| line.split("...").next().unwrap().to_owned()).collect()
}

#[test]
fn the_tour_on_a_pipe() {
    let sandbox = Sandbox::new();
    let (told, cassette) = tour(&sandbox, &["demo"]);
    for part in [
        "1. Record: a client calls three tools",
        r#"<- {"id":1,"jsonrpc":"2.0","result":"#,
        "in FOLDER/demo.cassette.json.",
        r#""api_key": "REDACTED-1""#,
        "identical to those of the live server.",
        r#"/params/arguments/city: recorded "Berlin", live "Lima""#,
        "exit status 3",
    ] {
        assert!(told.contains(part), "{part} is not in {told}");
    }
    assert!(!std::fs::read_to_string(cassette).unwrap().contains("not-for-the-cassette"));
}

#[test]
fn neither_a_project_around_the_temporary_folder_nor_a_mode_has_a_say() {
    let sandbox = Sandbox::new();
    sandbox.file("mcpreel.toml", "[match]\nfaults = \"none.json\"\n[redact]\npii_pack = \"none.toml\"\n");
    for arguments in [&["demo"][..], &["demo", "--http"]] {
        let run = sandbox.mcpreel(arguments).env("TMPDIR", sandbox.path.to_str().unwrap());
        let done = run.env("MCPREEL_MODE", "none").run();
        assert_eq!(done.expect(0).stderr(), "", "{arguments:?}");
    }
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let sandbox = Sandbox::new();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut run = sandbox.mcpreel(["demo"]).env("TMPDIR", sandbox.path.to_str().unwrap());
    let done = run.command.stdout(writer).output().unwrap();
    assert_eq!((done.status.code(), String::from_utf8(done.stderr).unwrap()), (Some(0), String::new()));
}

#[test]
fn the_tour_over_http() {
    let sandbox = Sandbox::new();
    let (told, cassette) = tour(&sandbox, &["demo", "--http"]);
    let port = told.split("--url http://127.0.0.1:").nth(1).unwrap().split('/').next().unwrap();
    let told = told.replace(&format!("127.0.0.1:{port}"), "127.0.0.1:PORT");
    let expected = r#"1. Record: two clients call tools of the demo server through mcpreel, over HTTP.

   $ mcpreel demo server --listen 127.0.0.1:0
   $ mcpreel record --cassette demo.cassette.json --server demo --url http://127.0.0.1:PORT/mcp

   A client of 2025-11-25, in a session:

   -> {"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"progress","arguments":{"steps":2},"_meta":{"pr
   <- 200 event {"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"step 1 of 2","progress":1,"progressTok
   <- 200 event {"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"step 2 of 2","progress":2,"progressTok
   <- 200 event {"id":1,"jsonrpc":"2.0","result":{"content":[{"text":"finished 2 steps","type":"text"}]}}
   -> {"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","api_key":"n
   <- 200 json  {"id":2,"jsonrpc":"2.0","result":{"content":[{"text":"hello","type":"text"}]}}

   A client of 2026-07-28, without one:

   -> {"jsonrpc":"2.0","id":"b","method":"tools/call","params":{"name":"weather","arguments":{"city":"Berlin"},"_met
   <- 200 json  {"id":"b","jsonrpc":"2.0","result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcpreel-demo","vers
   -> {"jsonrpc":"2.0","id":"c","method":"tools/call","params":{"name":"progress","arguments":{"steps":2},"_meta":{"
   <- 200 event {"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"step 1 of 2","progress":1,"progressTok
   <- 200 event {"jsonrpc":"2.0","method":"notifications/progress","params":{"message":"step 2 of 2","progress":2,"progressTok
   <- 200 event {"id":"c","jsonrpc":"2.0","result":{"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"mcpreel-demo","vers

2. The cassette: 18 records in FOLDER/demo.cassette.json.

           "id": 2,
           "method": "tools/call",
           "params": {
             "name": "echo",
             "arguments": {
               "text": "hello",
               "api_key": "REDACTED-1"
             }
           }

   The key that the client sent is not in it, and still the call will be found.

3. Replay: the same clients, and no server.

   $ mcpreel serve demo.cassette.json
   10 messages came back, identical to those of the live server,
   as JSON where it sent JSON and as events where it sent events.

4. A miss: a client asks for something that was not recorded.

   -> {"jsonrpc":"2.0","id":"d","method":"tools/call","params":{"name":"weather","arguments":{"city":"Lima"},"_meta"
   <- 200 json  {"jsonrpc":"2.0","id":"d","error":{"code":-31001,"message":"mcpreel: no recorded answer for tools/call \"weath
   mcpreel: no recorded answer for tools/call "weather"; nearest is message 12; /params/arguments/city: recorded "Berlin", live "Lima"; if the difference does not matter, --ignore /params/arguments/city; else record again
   mcpreel: 1 request without a recorded answer
   exit status 3, so a test that asks for it cannot pass by accident.

Next: record your own server, with your MCP client at the URL that this prints:

   mcpreel use --cassette my.cassette.json --url https://your-server/mcp
"#;
    assert_eq!(lines(&told), lines(expected));
    assert!(!std::fs::read_to_string(&cassette).unwrap().contains("not-for-the-cassette"));
    let recorded = messages(&cassette);
    assert_eq!(recorded.iter().filter(|message| message.contains("2026-07-28")).count(), 4, "{recorded:#?}");
    assert_eq!(recorded.iter().filter(|message| message.contains("2025-11-25")).count(), 2, "{recorded:#?}");
}

#[test]
fn the_server_alone_takes_no_http() {
    let sandbox = Sandbox::new();
    let done = sandbox.mcpreel(["demo", "--http", "server"]).run().expect(2);
    assert_eq!(done.stderr(), "mcpreel: --http is for the round; the server alone takes --listen\n");
}
