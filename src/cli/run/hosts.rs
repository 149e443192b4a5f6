//! The listeners in front of an agent's servers at a URL, as its configuration describes them.

use std::cell::OnceCell;
use std::path::Path;

use crate::cli::host::Host;
use crate::cli::redaction::{SHORTEST_FOUND, is_credential, secrets_in};
use crate::cli::session::Session;
use crate::door::config::{Config, Field, Filled, Reached, Server};
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::jsonrpc::edit::Edits;
use crate::jsonrpc::scan::Span;
use crate::record::http::Address;

/// A listener, and the headers that the agent keeps sending: those that only it can fill in.
pub(super) type Kept = (Host, Vec<usize>);

/// One for each server with a URL, in the order of the configuration, whose file is `path`.
pub(super) fn start(session: &mut Session, config: &Config, path: &Path) -> Result<Vec<Kept>> {
    let mut hosts: Vec<Kept> = Vec::new();
    // What is replayed is read once. Nothing changes it before the agent starts.
    let loaded = OnceCell::new();
    for server in config.servers() {
        let Reached::Url { url, headers } = &server.reached else { continue };
        let fields = headers.as_ref().map_or(&[][..], |(_, fields)| fields);
        let (headers, kept) = fill(config, fields);
        let host = if session.replays() {
            session.replay_url(&server.name, &loaded)
        } else {
            address(config, path, server, *url)
                .and_then(|address| session.record_url(&server.name, (address, headers), &loaded))
        };
        match host {
            Ok(host) => hosts.push((host, kept)),
            Err(error) => {
                hosts.into_iter().for_each(|(host, _)| host.finish());
                return Err(match error {
                    Error::Usage(what) => Error::input(path, &server.place, what),
                    other => other,
                });
            }
        }
    }
    Ok(hosts)
}

/// What the environment put into the URLs and header fields of servers, where that may be a credential: in user
/// information, path and query. Where a server is, and by which scheme, is none.
#[derive(Debug, Default)]
pub(super) struct FromEnvironment {
    /// Variables whose values are secrets.
    pub(super) variables: Vec<String>,
    /// Secrets that are not the whole value of a variable.
    pub(super) parts: Vec<String>,
}

impl FromEnvironment {
    pub(super) fn of(config: &Config) -> Self {
        let mut all = Self::default();
        for server in config.servers() {
            let Reached::Url { url, headers } = &server.reached else { continue };
            for field in headers.as_ref().map_or(&[][..], |(_, fields)| fields) {
                let (name, Filled { text, values, .. }) = config.header(field, &variable);
                if is_credential(&name) {
                    all.parts.extend(values.iter().flat_map(|(span, _)| secrets_in(span.of(&text))));
                }
            }
            let Filled { text, values, .. } = config.url(*url, &variable);
            for (span, name) in values {
                let hidden = hidden(&text, span);
                let told = hidden.of(&text).trim_matches('/');
                if told.is_empty() && user_of(&text, span).is_empty() {
                    continue;
                }
                if span.of(&text).chars().count() >= SHORTEST_FOUND && !all.variables.contains(&name) {
                    all.variables.push(name);
                }
                let user = user_of(&text, span).of(&text);
                let pieces = told.split(['/', '?', '&', '=', ';']).filter(|piece| is_made(piece));
                let parts = [told, user].into_iter().filter(|part| *part != span.of(&text)).chain(pieces);
                all.parts
                    .extend(parts.filter(|part| part.chars().count() >= SHORTEST_FOUND).map(str::to_owned));
            }
        }
        all
    }
}

/// The part of a value in a URL that is not where the server is.
fn hidden(url: &str, value: Span) -> Span {
    let scheme = url.find("://").map_or(0, |at| at + 3);
    let authority = url.get(scheme..).unwrap_or("");
    let authority = authority.split(['/', '?', '#']).next().unwrap_or("");
    let user = authority.rfind('@').map_or(scheme, |at| scheme + at);
    let end = scheme + authority.len();
    // A value has a part before the host, or behind it; over both it is behind.
    if value.end <= user { value } else { Span::new(value.start.max(end).min(value.end), value.end) }
}

/// The part of a value that is user information, where it goes on behind that.
fn user_of(url: &str, value: Span) -> Span {
    let scheme = url.find("://").map_or(0, |at| at + 3);
    let authority = url.get(scheme..).unwrap_or("").split(['/', '?', '#']).next().unwrap_or("");
    let user = authority.rfind('@').map_or(scheme, |at| scheme + at);
    if value.end <= user { Span::default() } else { Span::new(value.start.max(scheme).min(user), user) }
}

/// Whether a piece of a path is no word.
fn is_made(piece: &str) -> bool {
    piece.bytes().any(|byte| byte.is_ascii_digit()) && piece.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// A URL as it is recorded: with placeholders for what the environment put into its path and query.
fn shown(url: &str, values: &[(Span, String)]) -> String {
    let mut edits = Edits::new();
    for (value, _) in values {
        let hidden = hidden(url, *value);
        let text = hidden.of(url);
        let bare = text.trim_matches('/');
        if !bare.is_empty() {
            let start = hidden.start + text.len() - text.trim_start_matches('/').len();
            edits.replace(Span::new(start, start + bare.len()), PLACEHOLDER);
        }
    }
    edits.apply(url)
}

/// What stands for a value in a URL, as in what is redacted there.
const PLACEHOLDER: &str = "REDACTED";

fn address(config: &Config, path: &Path, server: &Server, url: Span) -> Result<Address> {
    let Filled { text, left, values } = config.url(url, &variable);
    match left.first() {
        Some(reference) => {
            let what = format!(
                "{reference} in the URL is not set in the environment, and only the URL tells what to record"
            );
            Err(Error::input(path, &server.place, what))
        }
        None => Ok(Address::parse(&text)?.recorded_as(Address::parse(&shown(&text, &values))?)),
    }
}

/// The headers to send in the agent's place, and those that it has to send itself.
fn fill(config: &Config, fields: &[Field]) -> (Headers, Vec<usize>) {
    let (mut headers, mut kept) = (Headers::new(), Vec::new());
    for (index, field) in fields.iter().enumerate() {
        let (name, Filled { text, left, .. }) = config.header(field, &variable);
        if left.is_empty() {
            headers.push(&name, text.as_str());
        } else {
            kept.push(index);
        }
    }
    (headers, kept)
}

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_environment_put_into_a_url_is_not_shown() {
        for (before, value, after, expected, hides) in [
            ("https://h/", "k3y", "/mcp", "https://h/REDACTED/mcp", "k3y"),
            ("https://h/mcp?k=", "a/b?c", "&x=1", "https://h/mcp?k=REDACTED&x=1", "a/b?c"),
            ("https://", "h.io", "/mcp", "https://h.io/mcp", ""),
            ("https://", "h.io:1", "", "https://h.io:1", ""),
            ("", "https://h.io", "/mcp", "https://h.io/mcp", ""),
            ("", "https://h.io/", "mcp", "https://h.io/mcp", "/"),
            ("", "https://h.io/s/k3y/", "mcp", "https://h.io/REDACTED/mcp", "/s/k3y/"),
            ("", "https://h.io/s?k=1", "", "https://h.io/REDACTED", "/s?k=1"),
            ("https://", "u:p", "@h/mcp", "https://REDACTED@h/mcp", "u:p"),
            ("https://u:", "p", "@h/mcp", "https://u:REDACTED@h/mcp", "p"),
            ("", "https://u:p@h/k3y", "", "https://u:p@h/REDACTED", "/k3y"),
        ] {
            let url = format!("{before}{value}{after}");
            let span = Span::new(before.len(), before.len() + value.len());
            assert_eq!(shown(&url, &[(span, "V".to_owned())]), expected);
            assert_eq!(hidden(&url, span).of(&url), hides, "{url}");
        }
    }
}
