//! What commands that listen share: the address, who may connect, and telling where.

use std::path::Path;
use std::time::Duration;

use super::options::Voice;
use super::ready;
use crate::error::{Error, Result};
use crate::http::guard::{Guard, is_loopback, parse_bind};
use crate::http::server::{Limits, Server};

/// Any free port, on this machine only.
const ANYWHERE: &str = "127.0.0.1:0";

/// The options of an endpoint as they were typed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Http {
    /// `--listen`
    pub listen: Option<String>,
    /// `--ready-file`
    pub ready_file: Option<String>,
    /// `--max-body`
    pub max_body: Option<u64>,
    /// `--allow-host`
    pub allow_host: Vec<String>,
    /// `--allow-origin`
    pub allow_origin: Vec<String>,
    /// `--sse faithful`
    pub faithful: bool,
    /// `--max-idle`
    pub max_idle: Option<Duration>,
    /// A configuration file says all of them: they are not meant for what goes over pipes.
    pub only_configured: bool,
}

/// Binds the address. Clients can connect from now on, and wait.
pub fn bind(http: &Http) -> Result<(Server, Guard)> {
    let typed = http.listen.as_deref().unwrap_or(ANYWHERE);
    let address = parse_bind(typed)?;
    let mut limits = Limits::default();
    if let Some(body) = http.max_body {
        limits.body = body;
    }
    // Wrong rules are a matter of the command line, and told before the port is taken.
    Guard::new(address.port(), &http.allow_host, &http.allow_origin)?;
    let server = Server::bind(address, limits).map_err(Error::failed(format_args!("listen on {address}")))?;
    let guard = Guard::new(server.address().port(), &http.allow_host, &http.allow_origin)?;
    Ok((server, guard))
}

/// Says where the endpoint is: on standard error and in the ready file, which appears whole.
pub fn announce(server: &Server, path: &str, http: &Http, voice: Voice) -> Result<()> {
    let mut address = server.address();
    if !is_loopback(&address) {
        super::say(&format!("warning: {address} can be reached from other machines"));
    }
    if address.ip().is_unspecified() {
        address.set_ip(if address.is_ipv4() {
            std::net::Ipv4Addr::LOCALHOST.into()
        } else {
            std::net::Ipv6Addr::LOCALHOST.into()
        });
    }
    let url = format!("http://{address}{path}");
    voice.note(&format!("listening on {url}"));
    http.ready_file.as_ref().map_or(Ok(()), |file| ready::write(Path::new(file), &url))
}
