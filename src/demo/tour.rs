//! The tour for newcomers: a client talks to the demo server through a recorder, then to the cassette alone, gets the
//! same answers, and asks for something that was never recorded. [`http`] is the same over HTTP.

pub mod http;

use std::fmt::{Display, Write as _};
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use crate::cassette::Cassette;
use crate::error::{Error, Result, words};
use crate::jsonrpc::message::View;

/// What the client says. Every step is a request, but for the notification that ends the handshake.
const SESSION: [&str; 5] = [
    r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"mcpreel-tour","version":"1"}}}"#,
    r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"weather","arguments":{"city":"Berlin"}}}"#,
    r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"progress","arguments":{"steps":3},"_meta":{"progressToken":"tour"}}}"#,
    r#"{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo","arguments":{"text":"hello","api_key":"not-for-the-cassette"}}}"#,
];

/// A call that the session above does not make.
const MISS: &str = r#"{"jsonrpc":"2.0","id":4,"method":"tools/call","params":{"name":"weather","arguments":{"city":"Lima"}}}"#;

/// Does the round with `program` (this binary) and tells it on `out`. The folder with the cassette stays.
pub fn run(program: &Path, out: &mut dyn Write) -> Result<()> {
    let folder = new_folder()?;
    let cassette = folder.join("demo.cassette.json");
    let mut text = String::new();

    let _ = writeln!(text, "1. Record: a client calls three tools of the demo server through mcpreel.\n");
    let _ = writeln!(text, "   $ mcpreel record --cassette demo.cassette.json -- mcpreel demo server");
    say(out, &mut text)?;
    let name = program.to_string_lossy();
    let record = [
        "record",
        "-q",
        "--no-config",
        "--cassette",
        "demo.cassette.json",
        "--server",
        "demo",
        "--",
        &name,
        "demo",
        "server",
    ];
    let (recorded, _) = talk(program, &folder, &record, &SESSION)?;
    show(&mut text, &SESSION, &recorded);

    let held = Cassette::read(&cassette)?;
    let _ = writeln!(text, "\n2. The cassette: {} messages in {}.\n", held.records.len(), cassette.display());
    show_secret(&mut text, &cassette)?;

    let _ = writeln!(text, "\n3. Replay: the same client, and no server.\n");
    let _ = writeln!(text, "   $ mcpreel serve demo.cassette.json");
    say(out, &mut text)?;
    let (replayed, _) =
        talk(program, &folder, &["serve", "-q", "--no-config", "demo.cassette.json"], &SESSION)?;
    if replayed != recorded {
        return Err(Error::Failed("the replay differs from the recording; please report this".to_owned()));
    }
    let _ =
        writeln!(text, "   {} messages came back, identical to those of the live server.", replayed.len());

    let _ = writeln!(text, "\n4. A miss: the client asks for something that was not recorded.\n");
    let asked: Vec<&str> = SESSION.iter().take(2).copied().chain([MISS]).collect();
    let (missed, errors) = talk(program, &folder, &["serve", "--no-config", "demo.cassette.json"], &asked)?;
    show(&mut text, &[MISS], missed.get(1..).unwrap_or_default());
    for line in errors.lines() {
        let _ = writeln!(text, "   {line}");
    }
    let _ = writeln!(text, "   exit status 3, so a test that asks for it cannot pass by accident.");
    let _ =
        writeln!(text, "\nNext: put this into your MCP client's configuration as the server's command:\n");
    let _ = writeln!(text, "   mcpreel use --cassette my.cassette.json -- your-server its arguments");
    say(out, &mut text)
}

fn say(out: &mut dyn Write, text: &mut String) -> Result<()> {
    let told = out.write_all(text.as_bytes());
    text.clear();
    // A reader that has seen enough is no failure, and the round goes on to its end.
    if told.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::BrokenPipe) {
        return Ok(());
    }
    told.map_err(Error::failed("tell the tour"))
}

fn new_folder() -> Result<PathBuf> {
    let base = std::env::temp_dir();
    (0..1000)
        .map(|n| base.join(format!("mcpreel-demo-{}-{n}", std::process::id())))
        .find_map(|folder| match fs::create_dir(&folder) {
            Ok(()) => Some(Ok(folder)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => None,
            Err(error) => Some(Err(Error::io("make the folder", &folder)(error))),
        })
        .unwrap_or_else(|| Err(Error::Failed(format!("no free name for a folder in {}", base.display()))))
}

/// Sends the session line by line, each request after the answer to the one before; gives what came, and the
/// program's standard error.
fn talk(
    program: &Path,
    folder: &Path,
    arguments: &[&str],
    session: &[&str],
) -> Result<(Vec<String>, String)> {
    let mut child = command(program, folder, arguments, &arguments.join("-"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| broken(&error))?;
    let pipes = child.stdin.take().zip(child.stdout.take());
    let received = pipes.map_or(Ok(Vec::new()), |(input, output)| converse(input, output, session));
    let errors = rest_of(child).map_err(|error| broken(&error))?;
    // What a program that ended too early had to say tells more than the broken pipe.
    let received = received.map_err(|error| match errors.trim_end() {
        "" => broken(&words(&error)),
        errors => broken(&errors),
    })?;
    Ok((received, errors))
}

/// This program in the folder, in a session of its own, whatever the user's environment says. What can have a
/// configuration is told to have none: a folder for temporary files may be in a project.
fn command(program: &Path, folder: &Path, arguments: &[&str], session: &str) -> Command {
    let mut command = Command::new(program);
    command
        .args(arguments)
        .current_dir(folder)
        .env("MCPREEL_SESSION", format!("tour-{}-{session}", std::process::id()))
        // Unset, it would be looked for in the environments of the processes above, and `none` keeps from recording.
        .env("MCPREEL_MODE", "all");
    command
}

fn broken(why: &dyn Display) -> Error {
    Error::Failed(format!("the tour broke off: {why}"))
}

fn converse(mut input: ChildStdin, output: ChildStdout, session: &[&str]) -> io::Result<Vec<String>> {
    let mut output = BufReader::new(output).lines();
    let mut received = Vec::new();
    for line in session {
        writeln!(input, "{line}")?;
        let Some(id) = id_of(line) else { continue };
        for answer in output.by_ref() {
            received.push(answer?);
            if received.last().is_some_and(|answer| id_of(answer) == Some(id)) {
                break;
            }
        }
    }
    drop(input);
    for line in output {
        received.push(line?);
    }
    Ok(received)
}

fn rest_of(child: Child) -> io::Result<String> {
    let output = child.wait_with_output()?;
    Ok(String::from_utf8_lossy(&output.stderr).into_owned())
}

fn id_of(line: &str) -> Option<&str> {
    View::of(line).ok()?.id.map(|id| id.of(line))
}

fn show(text: &mut String, session: &[&str], received: &[String]) {
    for line in session.iter().filter(|line| line.contains("tools/call")) {
        let _ = writeln!(text, "   -> {}", cut(line));
        let id = id_of(line);
        let answers = received.iter().filter(|answer| {
            id_of(answer) == id || (line.contains("progressToken") && id_of(answer).is_none())
        });
        for answer in answers {
            let _ = writeln!(text, "   <- {}", cut(answer));
        }
    }
}

fn cut(line: &str) -> String {
    const WIDTH: usize = 110;
    match line.char_indices().nth(WIDTH) {
        Some((at, _)) => format!("{}...", line.get(..at).unwrap_or("")),
        None => line.to_owned(),
    }
}

/// The lines of the cassette around the key that the client sent.
fn show_secret(text: &mut String, cassette: &Path) -> Result<()> {
    let content = fs::read_to_string(cassette).map_err(Error::io("read", cassette))?;
    let lines: Vec<&str> = content.lines().collect();
    let at = lines.iter().position(|line| line.contains("\"api_key\"")).unwrap_or(0);
    for line in lines.iter().skip(at.saturating_sub(6)).take(9) {
        let _ = writeln!(text, "   {line}");
    }
    let _ =
        writeln!(text, "\n   The key that the client sent is not in it, and still the call will be found.");
    Ok(())
}
