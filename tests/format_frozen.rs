//! Cassettes of earlier versions go on to replay as they did: each one in `testdata/cassettes` that has a transcript in
//! `testdata/transcripts` gives exactly that.
//!
//! `NAME.in` is what a client sends, a line at a time, waiting for the answer to every request; `# next process` starts
//! a further process of the same session. `NAME.out` is all that came. `make bless` writes `NAME.out` anew, and records
//! a cassette that is not there; a cassette that is there is never recorded again, since old files must stay readable.

use std::path::{Path, PathBuf};

use mcpreel::jsonrpc::message::View;

use crate::support::recording::{MCPREEL_BLESS, testdata, testdata_files};
use crate::support::{Client, LONG, MCPREEL, Run, Sandbox};

const NEXT: &str = "# next process";

/// Sends one process's lines; gives all that came.
fn talk(run: Run, lines: &[&str]) -> Vec<u8> {
    let mut client: Client = run.start();
    let mut came = Vec::new();
    for line in lines {
        client.send(line);
        let view = View::of(line).ok().filter(|view| view.method.is_some());
        let Some(id) = view.and_then(|view| view.id).map(|id| id.of(line)) else { continue };
        loop {
            let answer = client
                .bytes_within(LONG)
                .unwrap_or_else(|| panic!("no answer to {line}; {}", client.stderr()));
            came.extend_from_slice(&answer);
            let text = String::from_utf8_lossy(&answer);
            let answers =
                |view: View| view.method.is_none() && view.id.is_some_and(|own| own.of(&text) == id);
            if View::of(&text).is_ok_and(answers) {
                break;
            }
        }
    }
    client.stdin = None;
    while let Some(line) = client.bytes_within(LONG) {
        came.extend_from_slice(&line);
    }
    client.close(0);
    came
}

fn transcript(input: &str, start: impl Fn() -> Run) -> Vec<u8> {
    let lines: Vec<&str> = input.lines().collect();
    let processes: Vec<Vec<u8>> =
        lines.split(|line| *line == NEXT).map(|lines| talk(start(), lines)).collect();
    processes.join(format!("{NEXT}\n").as_bytes())
}

fn inputs() -> Vec<PathBuf> {
    let inputs = testdata_files("transcripts");
    inputs.into_iter().filter(|path| path.extension().is_some_and(|end| end == "in")).collect()
}

/// The server that a cassette was recorded with: the demo server, or one that says more than it should.
fn server(sandbox: &Sandbox, name: &str) -> Vec<String> {
    if name == "noise" {
        let body = format!(
            "echo 'Server is starting…'; printf 'half a \\303 character\\n'; exec {MCPREEL} demo server"
        );
        return vec![sandbox.script("noisy", &body)];
    }
    [MCPREEL, "demo", "server"].map(str::to_owned).to_vec()
}

fn record(cassette: &Path, name: &str, input: &str) {
    let sandbox = Sandbox::new();
    let server = server(&sandbox, name);
    let server: Vec<&str> = server.iter().map(String::as_str).collect();
    let options = ["-q", "--server", "demo", "--session", "golden"];
    transcript(input, || sandbox.recorder("c.json", &options, &server));
    // The path of this build says nothing to anybody.
    let text = sandbox.read("c.json").replace(server[0], "mcpreel");
    std::fs::write(cassette, text).unwrap();
}

#[test]
fn golden_cassettes_replay_their_transcripts() {
    let bless = std::env::var_os(MCPREEL_BLESS).is_some();
    let inputs = inputs();
    assert!(inputs.len() >= 4);
    for path in inputs {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let input = std::fs::read_to_string(&path).unwrap();
        let cassette = testdata("cassettes").join(format!("{name}.cassette.json"));
        if bless && !cassette.exists() {
            record(&cassette, name, &input);
        }
        let sandbox = Sandbox::new();
        let file = cassette.to_str().unwrap();
        // Sessions are counted for as long as their process lives: another run of this test is another session.
        let session = format!("{name}@{}", std::process::id());
        let got = transcript(&input, || sandbox.mcpreel(["serve", file, "--session", &session]));
        let golden = path.with_extension("out");
        if bless {
            std::fs::write(&golden, &got).unwrap();
        }
        let wanted = std::fs::read(&golden).unwrap_or_else(|error| panic!("{}: {error}", golden.display()));
        assert!(
            got == wanted,
            "{name}: got\n{}\nwanted\n{}",
            String::from_utf8_lossy(&got),
            String::from_utf8_lossy(&wanted)
        );
    }
}
