//! Who may talk to a local endpoint. A web page can make a browser send requests to loopback, by a name of its own
//! that resolves there (DNS rebinding) or straight: `Host` gives the first away, `Origin` both. MCP's transports
//! demand the check on every request, before its body is read (2025-11-25, transports, "Security Warning").

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::Headers;
use crate::error::{Error, Result};

/// The rules of one endpoint.
#[derive(Debug, Clone)]
pub struct Guard {
    port: u16,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request is answered with 403.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Forbidden {
    /// `Host` is missing, repeated, or names neither loopback with our port nor an allowed host.
    Host,
    /// `Origin` is `null`, repeated, or neither a loopback page nor an allowed origin.
    Origin,
    /// The target is neither a path nor `*`: its authority could contradict `Host`.
    Target,
}

impl Forbidden {
    /// A sentence for the body of the answer. It repeats nothing that the client sent.
    #[must_use]
    pub fn why(self) -> &'static str {
        match self {
            Self::Host => "this Host is not allowed here; --allow-host adds one",
            Self::Origin => "this Origin is not allowed here; --allow-origin adds one",
            Self::Target => "the request target must be a path",
        }
    }
}

impl Guard {
    /// Rules for an endpoint on `port`. `hosts` are names or `name:port` (a name alone: any port); `origins` are
    /// whole origins such as `http://localhost:6274`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when one of them is no host or no origin.
    pub fn new(port: u16, hosts: &[String], origins: &[String]) -> Result<Self> {
        for host in hosts {
            if split_host(host).is_none() {
                return Err(Error::Usage(format!("--allow-host {host}: expected a name or name:port")));
            }
        }
        for origin in origins {
            if split_origin(origin).is_none_or(|(_, rest)| split_host(rest).is_none()) {
                return Err(Error::Usage(format!(
                    "--allow-origin {origin}: expected scheme://host or scheme://host:port"
                )));
            }
        }
        let lower = |list: &[String]| list.iter().map(|item| item.to_ascii_lowercase()).collect();
        Ok(Self { port, hosts: lower(hosts), origins: lower(origins) })
    }

    /// Checks a request head.
    ///
    /// # Errors
    ///
    /// When it is to be answered with 403.
    pub fn check(&self, target: &str, headers: &Headers) -> std::result::Result<(), Forbidden> {
        if !target.starts_with('/') && target != "*" {
            return Err(Forbidden::Target);
        }
        let mut hosts = headers.all("host");
        match (hosts.next().and_then(lower_text), hosts.next()) {
            (Some(host), None) if self.is_our_host(&host) => {}
            _ => return Err(Forbidden::Host),
        }
        let mut origins = headers.all("origin");
        match (origins.next(), origins.next()) {
            (None, _) => Ok(()),
            (Some(origin), None)
                if lower_text(origin)
                    .is_some_and(|origin| is_loopback_origin(&origin) || self.origins.contains(&origin)) =>
            {
                Ok(())
            }
            _ => Err(Forbidden::Origin),
        }
    }

    fn is_our_host(&self, host: &str) -> bool {
        let Some((name, port)) = split_host(host) else { return false };
        // No port means the default one of plain HTTP.
        is_loopback_name(name) && port.unwrap_or(80) == self.port
            || self.hosts.iter().any(|allowed| allowed == host || allowed == name)
    }

    /// The request's origin, if it was allowed by name: the one case in which answers carry CORS fields.
    #[must_use]
    pub fn allowed_origin<'h>(&self, headers: &'h Headers) -> Option<&'h str> {
        headers.text("origin").filter(|origin| self.origins.contains(&origin.to_ascii_lowercase()))
    }
}

fn lower_text(value: &[u8]) -> Option<String> {
    value.is_ascii().then(|| String::from_utf8_lossy(value).to_ascii_lowercase())
}

/// `name`, `name:port`, `[v6]` or `[v6]:port`; the name keeps its brackets.
fn split_host(host: &str) -> Option<(&str, Option<u16>)> {
    let end = if host.starts_with('[') { host.find(']')? + 1 } else { host.find(':').unwrap_or(host.len()) };
    let (name, rest) = host.split_at(end);
    if name.bytes().any(|byte| !byte.is_ascii_graphic() || b"/@?#\\,".contains(&byte)) || name.is_empty() {
        return None;
    }
    match rest.strip_prefix(':') {
        None if rest.is_empty() => Some((name, None)),
        // `parse` would take a plus sign.
        Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            Some((name, Some(port.parse().ok()?)))
        }
        _ => None,
    }
}

fn split_origin(origin: &str) -> Option<(&str, &str)> {
    origin.split_once("://").filter(|(scheme, _)| !scheme.is_empty())
}

fn is_loopback_name(name: &str) -> bool {
    matches!(name, "localhost" | "127.0.0.1" | "[::1]")
}

/// A page served from this machine, over any port: a browser inspector.
fn is_loopback_origin(origin: &str) -> bool {
    split_origin(origin).is_some_and(|(scheme, host)| {
        matches!(scheme, "http" | "https") && split_host(host).is_some_and(|(name, _)| is_loopback_name(name))
    })
}

/// Whether an address is reachable from this machine only. An IPv4 address inside IPv6 counts as itself.
#[must_use]
pub fn is_loopback(address: &SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// Reads a bind address: `127.0.0.1:8000`, `[::1]:8000`, `localhost:8000`, `:8000`, `8000`; the last two are on
/// 127.0.0.1. Names other than `localhost` are not looked up: what they resolve to may be any interface.
///
/// # Errors
///
/// [`Error::Usage`] when it is none of these.
pub fn parse_bind(text: &str) -> Result<SocketAddr> {
    let wrong = || {
        Error::Usage(format!("--listen {text}: expected ADDRESS:PORT, such as 127.0.0.1:8000 (port 0: any)"))
    };
    if let Ok(address) = text.parse() {
        return Ok(address);
    }
    let (host, port) = text.rsplit_once(':').unwrap_or(("", text));
    if port.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(wrong());
    }
    let port = port.parse().map_err(|_| wrong())?;
    let ip = match host {
        "" | "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        "*" => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
        "[::]" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        _ => return Err(wrong()),
    };
    Ok(SocketAddr::new(ip, port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guard() -> Guard {
        let hosts = ["build.example".to_owned(), "Docker.internal:9000".to_owned()];
        Guard::new(8000, &hosts, &["https://Inspector.example".to_owned()]).unwrap()
    }

    #[test]
    fn r28_r77_host_and_origin() {
        use Forbidden::{Host, Origin};
        let table = [
            ("127.0.0.1:8000", None, Ok(())),
            ("localhost:8000", None, Ok(())),
            ("LOCALHOST:8000", Some("http://localhost:6274"), Ok(())),
            ("[::1]:8000", Some("http://[::1]:1"), Ok(())),
            ("127.0.0.1:8000", Some("http://127.0.0.1"), Ok(())),
            ("build.example", None, Ok(())),
            ("build.example:1234", None, Ok(())),
            ("docker.internal:9000", None, Ok(())),
            ("127.0.0.1:8000", Some("https://inspector.example"), Ok(())),
            ("127.0.0.1:8001", None, Err(Host)),
            ("127.0.0.1", None, Err(Host)),
            ("localhost.:8000", None, Err(Host)),
            ("localhost:+8000", None, Err(Host)),
            ("localhost:8000@evil.example", None, Err(Host)),
            ("evil.example:8000", None, Err(Host)),
            ("localhost.evil.example:8000", None, Err(Host)),
            ("docker.internal:9001", None, Err(Host)),
            ("[::1:8000", None, Err(Host)),
            ("", None, Err(Host)),
            ("127.0.0.1:8000", Some("null"), Err(Origin)),
            ("127.0.0.1:8000", Some(""), Err(Origin)),
            ("127.0.0.1:8000", Some("file://localhost"), Err(Origin)),
            ("127.0.0.1:8000", Some("http://evil.example"), Err(Origin)),
            ("127.0.0.1:8000", Some("http://localhost.evil.example"), Err(Origin)),
            ("127.0.0.1:8000", Some("http://localhost@evil.example"), Err(Origin)),
            ("127.0.0.1:8000", Some("https://inspector.example:1"), Err(Origin)),
        ];
        for (host, origin, expected) in table {
            let mut headers = Headers::new().with("Host", host);
            if let Some(origin) = origin {
                headers.push("origin", origin);
            }
            assert_eq!(guard().check("/mcp", &headers), expected, "{host} {origin:?}");
        }
        let twice = Headers::new().with("Host", "127.0.0.1:8000").with("host", "127.0.0.1:8000");
        assert_eq!(guard().check("/", &twice), Err(Host));
        let good = Headers::new().with("Host", "127.0.0.1:8000");
        assert_eq!(guard().check("http://evil.example/", &good), Err(Forbidden::Target));
        let two = good.with("Origin", "http://localhost").with("Origin", "http://localhost");
        assert_eq!(guard().check("/", &two), Err(Origin));
    }

    #[test]
    fn bind_addresses() {
        for (text, expected) in [
            ("127.0.0.1:8000", "127.0.0.1:8000"),
            ("[::1]:0", "[::1]:0"),
            ("localhost:1", "127.0.0.1:1"),
            (":8000", "127.0.0.1:8000"),
            ("8000", "127.0.0.1:8000"),
            ("0.0.0.0:80", "0.0.0.0:80"),
            ("*:80", "0.0.0.0:80"),
        ] {
            assert_eq!(parse_bind(text).unwrap().to_string(), expected);
        }
        for text in
            ["", ":", "localhost", "host.example:80", "127.0.0.1:", "127.0.0.1:99999", "1:2:3", ":+80"]
        {
            assert!(matches!(parse_bind(text), Err(Error::Usage(_))), "{text}");
        }
        for (text, expected) in
            [("127.9.9.9:1", true), ("[::1]:1", true), ("[::ffff:127.0.0.1]:1", true), ("0.0.0.0:1", false)]
        {
            assert_eq!(is_loopback(&text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn wrong_rules_are_told() {
        for (hosts, origins) in
            [("a/b", "http://a"), ("", "http://a"), ("a", "a"), ("a", "http://"), ("a", "http://a/b")]
        {
            assert!(Guard::new(1, &[hosts.to_owned()], &[origins.to_owned()]).is_err(), "{hosts} {origins}");
        }
    }
}
