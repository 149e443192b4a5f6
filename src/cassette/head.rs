//! The head of a cassette: everything but its records.

use super::once::Once;
use super::record::Fault;
use crate::jsonrpc::scan::{Members, Span, elements};
use crate::jsonrpc::{pretty, string};

/// How a server was reached when it was recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Transport {
    /// A child process.
    #[default]
    Stdio,
    /// A URL.
    Http,
}

impl Transport {
    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
        }
    }
}

/// A recorded server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Server {
    /// How it was reached.
    pub transport: Transport,
    /// The command line, redacted (stdio).
    pub command: Vec<String>,
    /// The URL, redacted (HTTP).
    pub url: Option<String>,
    /// The protocol revisions that were agreed on, in order of appearance.
    pub protocol: Vec<String>,
    /// `serverInfo` as JSON text.
    pub info: Option<String>,
    /// The exchanges (HTTP) with which further recordings begin, in order: a placeholder of one recording stands for
    /// another value in the next.
    pub recordings: Vec<u32>,
    /// Fields this version does not know.
    pub extra: Vec<(String, String)>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// By itself, with this status.
    Code(i32),
    /// By this signal.
    Signal(i32),
}

/// Why a recorded process ended when it was not the client that closed its input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The server ended by itself.
    ServerExited,
    /// The recorder was asked to end by a signal.
    Signal,
    /// The client stopped reading.
    OutputClosed,
}

impl Ended {
    /// The word in the file.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::ServerExited => "server_exited",
            Self::Signal => "signal",
            Self::OutputClosed => "output_closed",
        }
    }

    /// The reason a word stands for.
    #[must_use]
    pub fn of(word: &str) -> Option<Self> {
        [Self::ServerExited, Self::Signal, Self::OutputClosed]
            .into_iter()
            .find(|reason| reason.word() == word)
    }
}

/// A recorded server process (stdio).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Process {
    /// Its server's name.
    pub server: String,
    /// Its connection, from 0.
    pub conn: u32,
    /// How it ended, where that was seen.
    pub exit: Option<Exit>,
    /// Why it ended, when not because the client closed its input.
    pub ended: Option<Ended>,
    /// Its recorder was killed: what followed is not in the cassette.
    pub killed: bool,
    /// The last lines of its stderr, redacted; only when it failed.
    pub stderr: Vec<String>,
    /// Fields this version does not know.
    pub extra: Vec<(String, String)>,
}

/// Everything but the records.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// When the recording began, RFC 3339.
    pub recorded_at: String,
    /// The program and version that wrote it.
    pub recorder: String,
    /// The servers by name, in order of appearance.
    pub servers: Vec<(String, Server)>,
    /// The server processes.
    pub processes: Vec<Process>,
    /// The redaction manifest as JSON text.
    pub redaction: Option<String>,
    /// The user's labels as JSON text.
    pub labels: Option<String>,
    /// The matching rules that everyone who replays it has, as JSON text.
    pub matching: Option<String>,
    /// The connection of the records that name none (journals).
    pub conn: u32,
    /// Who wrote a segment, as JSON text (journals of a recording that still runs).
    pub segment: Option<String>,
    /// Fields this version does not know.
    pub extra: Vec<(String, String)>,
}

/// The name and version that this program signs with.
#[must_use]
pub fn recorder() -> String {
    format!("mcpreel {}", env!("CARGO_PKG_VERSION"))
}

impl Head {
    /// Takes one member of the head, other than `mcpreel`, `messages` and `timing_ms`.
    pub fn read(&mut self, name: &str, text: &str, value: Span) -> Result<(), Fault> {
        match name {
            "recorded_at" => self.recorded_at = text_at(text, value, name)?,
            "recorder" => self.recorder = text_at(text, value, name)?,
            "servers" => self.servers = read_servers(text, value)?,
            "processes" => {
                let list = elements(text, value)?;
                self.processes =
                    list.iter().map(|span| read_process(text, *span)).collect::<Result<_, _>>()?;
            }
            "redaction" => self.redaction = Some(pretty::packed(value.of(text))),
            "labels" => self.labels = Some(pretty::packed(value.of(text))),
            "match" => self.matching = Some(pretty::packed(value.of(text))),
            "conn" => self.conn = whole_at(text, value, name)?,
            "segment" => self.segment = Some(pretty::packed(value.of(text))),
            _ => self.extra.push((name.to_owned(), pretty::packed(value.of(text)))),
        }
        Ok(())
    }

    /// The names of the servers, in order.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.servers.iter().map(|(name, _)| name.clone()).collect()
    }

    /// The fields in the order they are written, each as JSON text; what is absent is left out.
    #[must_use]
    pub fn fields(&self) -> Vec<(String, String)> {
        let mut fields = Vec::new();
        for (name, text) in [("recorded_at", &self.recorded_at), ("recorder", &self.recorder)] {
            if !text.is_empty() {
                fields.push((name.to_owned(), string::encode(text)));
            }
        }
        let mut add = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                fields.push((name.to_owned(), value));
            }
        };
        let servers = self.servers.iter().map(|(name, server)| (name.clone(), write_server(server)));
        add("servers", Some(object(servers)));
        let processes: Vec<String> = self.processes.iter().map(write_process).collect();
        add("processes", (!processes.is_empty()).then(|| format!("[{}]", processes.join(","))));
        add("redaction", self.redaction.clone());
        add("labels", self.labels.clone());
        add("match", self.matching.clone());
        add("conn", (self.conn > 0).then(|| self.conn.to_string()));
        add("segment", self.segment.clone());
        fields.extend(self.extra.iter().cloned());
        fields
    }
}

/// An object of members that are JSON text already.
pub fn object(members: impl IntoIterator<Item = (String, String)>) -> String {
    let members: Vec<String> =
        members.into_iter().map(|(name, value)| format!("{}:{value}", string::encode(&name))).collect();
    format!("{{{}}}", members.join(","))
}

fn strings(list: &[String]) -> String {
    let list: Vec<String> = list.iter().map(|text| string::encode(text)).collect();
    format!("[{}]", list.join(","))
}

fn write_server(server: &Server) -> String {
    let mut members = vec![("transport".to_owned(), string::encode(server.transport.word()))];
    let mut add =
        |name: &str, value: Option<String>| members.extend(value.map(|value| (name.to_owned(), value)));
    add("url", server.url.as_deref().map(string::encode));
    add("command", (!server.command.is_empty()).then(|| strings(&server.command)));
    add("protocol", (!server.protocol.is_empty()).then(|| strings(&server.protocol)));
    add("info", server.info.clone());
    let recordings: Vec<String> = server.recordings.iter().map(u32::to_string).collect();
    add("recordings", (!recordings.is_empty()).then(|| format!("[{}]", recordings.join(","))));
    members.extend(server.extra.iter().cloned());
    object(members)
}

fn write_process(process: &Process) -> String {
    let mut members = vec![("server".to_owned(), string::encode(&process.server))];
    let mut add =
        |name: &str, value: Option<String>| members.extend(value.map(|value| (name.to_owned(), value)));
    add("conn", (process.conn > 0).then(|| process.conn.to_string()));
    add("exit", process.exit.map(write_exit));
    add("ended", process.ended.map(|ended| string::encode(ended.word())));
    add("killed", process.killed.then(|| "true".to_owned()));
    add("stderr", (!process.stderr.is_empty()).then(|| strings(&process.stderr)));
    members.extend(process.extra.iter().cloned());
    object(members)
}

/// An exit as JSON text.
#[must_use]
pub fn write_exit(exit: Exit) -> String {
    match exit {
        Exit::Code(code) => format!("{{\"code\":{code}}}"),
        Exit::Signal(signal) => format!("{{\"signal\":{signal}}}"),
    }
}

fn text_at(text: &str, value: Span, name: &str) -> Result<String, Fault> {
    let literal = value.of(text);
    if literal.starts_with('"') {
        Ok(string::decode(literal).into_owned())
    } else {
        Err(Fault { at: value.start, what: format!("{name:?} must be a string") })
    }
}

fn whole_at<N: std::str::FromStr>(text: &str, value: Span, name: &str) -> Result<N, Fault> {
    value
        .of(text)
        .parse()
        .map_err(|_| Fault { at: value.start, what: format!("{name:?} must be a whole number") })
}

fn texts_at(text: &str, value: Span, name: &str) -> Result<Vec<String>, Fault> {
    if !value.of(text).starts_with('[') {
        return Err(Fault { at: value.start, what: format!("{name:?} must be a list of strings") });
    }
    elements(text, value)?.into_iter().map(|span| text_at(text, span, name)).collect()
}

/// Calls `each` for every member of the object at `value`.
pub(super) fn members(
    text: &str,
    value: Span,
    what: &str,
    mut each: impl FnMut(&str, Span) -> Result<(), Fault>,
) -> Result<(), Fault> {
    let mut members = Members::of(text, value.start)
        .ok_or_else(|| Fault { at: value.start, what: format!("{what} must be an object in braces") })?;
    let mut once = Once::default();
    while let Some((literal, value)) = members.next()? {
        let name = string::decode(literal.of(text));
        once.take(&name, literal.start)?;
        each(&name, value)?;
    }
    Ok(())
}

fn read_servers(text: &str, value: Span) -> Result<Vec<(String, Server)>, Fault> {
    let mut servers = Vec::new();
    members(text, value, "\"servers\"", |name, value| {
        let mut server = Server::default();
        members(text, value, "a server", |field, value| {
            match field {
                "transport" => {
                    server.transport = match &*text_at(text, value, field)? {
                        "stdio" => Transport::Stdio,
                        "http" => Transport::Http,
                        other => {
                            let what = format!("\"transport\" is {other:?}; expected \"stdio\" or \"http\"");
                            return Err(Fault { at: value.start, what });
                        }
                    }
                }
                "command" => server.command = texts_at(text, value, field)?,
                "url" => server.url = Some(text_at(text, value, field)?),
                "protocol" => server.protocol = texts_at(text, value, field)?,
                "info" => server.info = Some(pretty::packed(value.of(text))),
                "recordings" => {
                    let list = elements(text, value)?;
                    server.recordings =
                        list.iter().map(|span| whole_at(text, *span, field)).collect::<Result<_, _>>()?;
                }
                _ => server.extra.push((field.to_owned(), pretty::packed(value.of(text)))),
            }
            Ok(())
        })?;
        servers.push((name.to_owned(), server));
        Ok(())
    })?;
    Ok(servers)
}

/// Reads one entry of `processes`; also the `process` of a journal's last line.
pub fn read_process(text: &str, value: Span) -> Result<Process, Fault> {
    let mut process = Process::default();
    members(text, value, "a process", |field, value| {
        match field {
            "server" => process.server = text_at(text, value, field)?,
            "conn" => process.conn = whole_at(text, value, field)?,
            "exit" => members(text, value, "\"exit\"", |kind, value| {
                match kind {
                    "code" => process.exit = Some(Exit::Code(whole_at(text, value, kind)?)),
                    "signal" => process.exit = Some(Exit::Signal(whole_at(text, value, kind)?)),
                    _ => {}
                }
                Ok(())
            })?,
            "ended" => {
                let word = text_at(text, value, field)?;
                match Ended::of(&word) {
                    Some(ended) => process.ended = Some(ended),
                    None => process.extra.push((field.to_owned(), string::encode(&word))),
                }
            }
            "killed" => process.killed = value.of(text) == "true",
            "stderr" => process.stderr = texts_at(text, value, field)?,
            _ => process.extra.push((field.to_owned(), pretty::packed(value.of(text)))),
        }
        Ok(())
    })?;
    Ok(process)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Head, Fault> {
        let mut head = Head::default();
        members(text, Span::new(0, text.len()), "head", |name, value| head.read(name, text, value))?;
        Ok(head)
    }

    #[test]
    fn what_is_read_is_written() {
        let text = concat!(
            r#"{"recorded_at":"2026-11-29T20:33:00.123Z","recorder":"mcpreel 0.1.0","#,
            r#""servers":{"t":{"transport":"http","url":"http://x/","protocol":["2026-07-28"],"info":{"name":"t","n":1.0}},"#,
            r#""f":{"transport":"stdio","command":["npx","-y"],"later":[1]}},"#,
            r#""processes":[{"server":"f","conn":1,"exit":{"code":3},"ended":"server_exited","killed":true,"stderr":["x"],"later":2},{"server":"f","exit":{"signal":9}}],"#,
            r#""redaction":{"rules":[]},"labels":{"test":"a"},"match":{"ignore":["/x"]},"later":{"y":1E400}}"#
        );
        assert_eq!(object(read(text).unwrap().fields()), text);
    }

    #[test]
    fn faults_are_named() {
        for (text, what) in [
            (r#"{"recorded_at":7}"#, "\"recorded_at\" must be a string"),
            (r#"{"servers":[]}"#, "\"servers\" must be an object"),
            (r#"{"servers":{"a":{"transport":"pigeon"}}}"#, "pigeon"),
            (r#"{"servers":{"a":{"command":"x"}}}"#, "list of strings"),
            (r#"{"processes":[7]}"#, "a process must be an object"),
            (r#"{"processes":[{"server":"f","exit":{"code":"x"}}]}"#, "\"code\" must be a whole number"),
        ] {
            assert!(read(text).unwrap_err().what.contains(what), "{text}");
        }
    }
}
