//! The listeners in front of an agent's servers at a URL, as its configuration describes them.

use std::path::Path;

use crate::cli::host::Host;
use crate::cli::session::Session;
use crate::door::config::{Config, Field, Filled, Reached, Server};
use crate::error::{Error, Result};
use crate::http::Headers;
use crate::jsonrpc::scan::Span;
use crate::record::http::Address;

/// A listener, and the headers that the agent keeps sending: those that only it can fill in.
pub(super) type Kept = (Host, Vec<usize>);

/// One for each server with a URL, in the order of the configuration, whose file is `path`.
pub(super) fn start(session: &mut Session, config: &Config, path: &Path) -> Result<Vec<Kept>> {
    let mut hosts: Vec<Kept> = Vec::new();
    for server in config.servers() {
        let Reached::Url { url, headers } = &server.reached else { continue };
        let fields = headers.as_ref().map_or(&[][..], |(_, fields)| fields);
        let (headers, kept) = fill(config, fields);
        let host = if session.replays() {
            session.replay_url(&server.name)
        } else {
            address(config, path, server, *url)
                .and_then(|address| session.record_url(&server.name, address, headers))
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

fn address(config: &Config, path: &Path, server: &Server, url: Span) -> Result<Address> {
    let Filled { text, left } = config.url(url, &variable);
    match left.first() {
        Some(reference) => {
            let what = format!(
                "{reference} in the URL is not set in the environment, and only the URL tells what to record"
            );
            Err(Error::input(path, &server.place, what))
        }
        None => Address::parse(&text),
    }
}

/// The headers to send in the agent's place, and those that it has to send itself.
fn fill(config: &Config, fields: &[Field]) -> (Headers, Vec<usize>) {
    let (mut headers, mut kept) = (Headers::new(), Vec::new());
    for (index, field) in fields.iter().enumerate() {
        let (name, Filled { text, left }) = config.header(field, &variable);
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
