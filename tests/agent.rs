//! An agent for the tests: it reads a configuration of MCP servers, meets all of them at once, asks each for its tools and
//! to echo what stands behind `--say`, in turns, and prints what it got. Options decide how it behaves otherwise.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, clippy::exit)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

enum Server {
    Process { child: Child, input: ChildStdin, output: BufReader<ChildStdout> },
    Url { url: String, headers: Vec<(String, String)>, session: Option<String> },
}

impl Server {
    fn of(entry: &Value) -> Self {
        if let Some(command) = entry["command"].as_str() {
            let args = entry["args"].as_array().into_iter().flatten().filter_map(Value::as_str);
            let env = entry["env"].as_object().into_iter().flatten();
            let mut child = Command::new(command)
                .args(args)
                .envs(env.map(|(name, value)| (name, value.as_str().unwrap())))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
            return Self::Process { child, input, output };
        }
        let headers = entry["headers"].as_object().into_iter().flatten();
        let headers =
            headers.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned())).collect();
        Self::Url { url: entry["url"].as_str().unwrap().to_owned(), headers, session: None }
    }

    /// Sends a message; gives the answer to a request.
    fn say(&mut self, message: &Value) -> Option<String> {
        let expects = message.get("id").is_some();
        match self {
            Self::Process { input, output, .. } => {
                writeln!(input, "{message}").ok()?;
                let mut line = String::new();
                if expects {
                    output.read_line(&mut line).ok()?;
                }
                expects.then(|| line.trim_end().to_owned())
            }
            Self::Url { url, headers, session } => {
                let agent: ureq::Agent =
                    ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build().into();
                let mut request = agent
                    .post(url.as_str())
                    .header("content-type", "application/json")
                    .header("accept", "application/json, text/event-stream");
                for (name, value) in headers.iter() {
                    request = request.header(name.as_str(), value.as_str());
                }
                if let Some(session) = &session {
                    request = request.header("mcp-session-id", session.as_str());
                }
                let mut answer = match request.send(message.to_string()) {
                    Ok(answer) => answer,
                    Err(error) => return expects.then(|| format!("unreachable: {error}")),
                };
                if let Some(id) = answer.headers().get("mcp-session-id") {
                    *session = Some(id.to_str().unwrap().to_owned());
                }
                let body = answer.body_mut().read_to_string().unwrap();
                let data = body.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
                expects.then(|| data.unwrap_or(body.trim_end()).to_owned())
            }
        }
    }

    fn close(self) {
        if let Self::Process { mut child, input, output } = self {
            drop(input);
            drop(output);
            child.wait().unwrap();
        }
    }
}

fn main() {
    let mut arguments = std::env::args().skip(1).peekable();
    let (mut config, mut texts, mut status, mut only) =
        (std::env::var("MCP_CONFIG").ok(), Vec::new(), 0, None);
    let (mut waits, mut leaves, mut signal) = (false, false, None);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--say" => texts.push(arguments.next().unwrap()),
            "--status" => status = arguments.next().unwrap().parse().unwrap(),
            "--only" => only = arguments.next(),
            // Goes on until it is signalled.
            "--wait" => waits = true,
            // Sends this signal to its servers and ends.
            "--signal" => signal = arguments.next(),
            // Ends without closing its servers.
            "--leave" => leaves = true,
            _ => config = Some(argument.trim_start_matches("config=").to_owned()),
        }
    }
    let text = std::fs::read_to_string(config.unwrap()).unwrap();
    let config: Value = serde_json::from_str(&text).unwrap();
    let map = config["mcpServers"].as_object().or_else(|| config["servers"].as_object()).unwrap();
    let mut servers: Vec<(&String, Server)> = map
        .iter()
        .filter(|(name, _)| only.as_ref().is_none_or(|only| only == *name))
        .map(|(name, entry)| (name, Server::of(entry)))
        .collect();
    let hello = json!({"jsonrpc":"2.0","id":0,"method":"initialize","params":{
        "protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"agent","version":"1"}}});
    let ready = json!({"jsonrpc":"2.0","method":"notifications/initialized"});
    let list = json!({"jsonrpc":"2.0","id":1,"method":"tools/list"});
    let calls = (2..).zip(&texts).map(|(id, text)| {
        json!({"jsonrpc":"2.0","id":id,"method":"tools/call","params":{"name":"echo","arguments":{"text":text}}})
    });
    for message in [hello, ready, list].into_iter().chain(calls) {
        for (name, server) in &mut servers {
            if let Some(answer) = server.say(&message) {
                println!("{name} {} {answer}", message["method"].as_str().unwrap());
            }
        }
    }
    if let Some(signal) = signal {
        for (_, server) in &servers {
            if let Server::Process { child, .. } = server {
                Command::new("kill").args(["-s", &signal, &child.id().to_string()]).status().unwrap();
            }
        }
        leaves = true;
    }
    if waits {
        loop {
            std::thread::park();
        }
    }
    if !leaves {
        servers.into_iter().for_each(|(_, server)| server.close());
    }
    std::process::exit(status);
}
