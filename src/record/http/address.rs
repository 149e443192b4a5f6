//! Where the server is, where we stand in for it, and how addresses of the one become those of the other.

use std::fmt::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::{Error, Result};

/// The URL of a server, taken apart.
#[derive(Clone, PartialEq, Eq)]
pub struct Address {
    scheme: String,
    authority: String,
    /// Begins with `/`.
    path: String,
    query: Option<String>,
    userinfo: Option<String>,
    /// What is recorded of path and query, where that is not what they are.
    recorded: Option<(String, Option<String>)>,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // User information and query may hold credentials.
        out.debug_struct("Address").field("url", &self.bare()).finish_non_exhaustive()
    }
}

impl Address {
    /// Takes a URL apart. A fragment is left out: it is not sent.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] when it is no URL of http or https. The text of the URL is not repeated: it may hold a key.
    pub fn parse(url: &str) -> Result<Self> {
        let wrong = || Error::Usage("--url: expected http://HOST/PATH or https://HOST/PATH".to_owned());
        let url = url.split('#').next().unwrap_or_default();
        let (scheme, rest) = url.split_once("://").ok_or_else(wrong)?;
        let scheme = scheme.to_ascii_lowercase();
        if !matches!(scheme.as_str(), "http" | "https") || !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(wrong());
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, rest) = rest.split_at(end);
        let (userinfo, authority) = match authority.rsplit_once('@') {
            Some((userinfo, authority)) => (Some(userinfo.to_owned()), authority),
            None => (None, authority),
        };
        if authority.is_empty() {
            return Err(wrong());
        }
        let (path, query) = match rest.split_once('?') {
            Some((path, query)) => (path, Some(query.to_owned())),
            None => (rest, None),
        };
        let path = if path.is_empty() { "/" } else { path }.to_owned();
        Ok(Self { scheme, authority: authority.to_owned(), path, query, userinfo, recorded: None })
    }

    /// The same server, of whose path and query those of another URL are recorded.
    #[must_use]
    pub fn recorded_as(mut self, shown: Self) -> Self {
        self.recorded = Some((shown.path, shown.query));
        self
    }

    /// The URL without user information, query and fragment.
    #[must_use]
    pub fn bare(&self) -> String {
        format!("{}://{}{}", self.scheme, self.authority, self.path)
    }

    /// The URL as it may go into a cassette, which says that there was user information but not what. Its query is
    /// still to be redacted.
    #[must_use]
    pub fn recordable(&self) -> String {
        let user = if self.userinfo.is_some() { "REDACTED@" } else { "" };
        let (path, query) =
            self.recorded.as_ref().map_or((&self.path, &self.query), |(path, query)| (path, query));
        let query = query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        format!("{}://{user}{}{path}{query}", self.scheme, self.authority)
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Its query, without the question mark.
    #[must_use]
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    /// What the user information means as a header (RFC 7617).
    #[must_use]
    pub fn authorization(&self) -> Option<String> {
        let userinfo = self.userinfo.as_deref()?;
        let user = unescaped(userinfo);
        let pair = if userinfo.contains(':') { user } else { [user, b":".to_vec()].concat() };
        Some(format!("Basic {}", STANDARD.encode(pair)))
    }

    /// Whether two authorities of this scheme are the same.
    fn is_same(&self, scheme: &str, authority: &str) -> bool {
        scheme.eq_ignore_ascii_case(&self.scheme)
            && without_default_port(scheme, authority)
                .eq_ignore_ascii_case(without_default_port(&self.scheme, &self.authority))
    }
}

fn without_default_port<'a>(scheme: &str, authority: &'a str) -> &'a str {
    let port = if scheme.eq_ignore_ascii_case("https") { ":443" } else { ":80" };
    authority.strip_suffix(port).unwrap_or(authority)
}

/// Percent escapes undone.
fn unescaped(text: &str) -> Vec<u8> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| after.get(..2)).flatten();
        let escaped = escaped.and_then(|digits| std::str::from_utf8(digits).ok());
        match escaped.and_then(|digits| u8::from_str_radix(digits, 16).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push(*first);
                rest = after;
            }
        }
    }
    out
}

/// Maps targets of local requests to those of the server, and addresses of the server to local ones.
#[derive(Debug, Clone)]
pub(super) struct Mapping {
    address: Address,
    /// `/` and a random word in front of every local path, or nothing.
    prefix: String,
}

impl Mapping {
    /// `secret`: what goes upstream holds a credential of ours, so who does not know the local URL must not get in.
    pub(super) fn new(address: Address, secret: bool) -> Result<Self> {
        let prefix = if secret { format!("/{}", random_word()?) } else { String::new() };
        Ok(Self { address, prefix })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// The path of the local URL.
    pub(super) fn local_path(&self) -> String {
        format!("{}{}", self.prefix, self.address.path)
    }

    /// The target at the server; `None` for one that lacks the prefix. The query of the URL belongs to its path, and
    /// what a client adds comes behind it.
    pub(super) fn upstream(&self, target: &str) -> Option<String> {
        if self.prefix.is_empty() && self.address.query.is_none() {
            return Some(target.to_owned());
        }
        let target = target.strip_prefix(&self.prefix)?;
        if !target.starts_with('/') {
            return None;
        }
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        match &self.address.query {
            Some(own) if path == self.address.path && query.is_empty() => Some(format!("{path}?{own}")),
            Some(own) if path == self.address.path => Some(format!("{path}?{own}&{query}")),
            _ => Some(target.to_owned()),
        }
    }

    /// An address of the server as a client at `host` reaches it through us. `None`: it may stay as it is.
    pub(super) fn localize(&self, url: &str, host: &str) -> Option<String> {
        if let Some(rest) = url.strip_prefix("//") {
            return self.local(&self.address.scheme, rest, host);
        }
        if url.starts_with('/') {
            return (!self.prefix.is_empty()).then(|| format!("{}{url}", self.prefix));
        }
        let (scheme, rest) = url.split_once("://")?;
        self.local(scheme, rest, host)
    }

    fn local(&self, scheme: &str, rest: &str, host: &str) -> Option<String> {
        let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
        let same = self.address.is_same(scheme, authority);
        same.then(|| format!("http://{host}{}{path}", self.prefix))
    }

    /// The path and query behind an address of the server: absolute, relative to its root, or to the `base` that the
    /// answer with it came from.
    pub(super) fn target_of(&self, url: &str, base: &str) -> Option<String> {
        let path = match url.split_once("://") {
            Some((scheme, rest)) => {
                let (authority, path) = rest.split_at(rest.find(['/', '?', '#']).unwrap_or(rest.len()));
                self.address.is_same(scheme, authority).then_some(path)?
            }
            None if url.starts_with("//") => return None,
            None => url,
        };
        let path = path.split('#').next().unwrap_or_default();
        if path.starts_with('/') {
            return Some(path.to_owned());
        }
        let base = base.split('?').next().unwrap_or_default();
        let folder = base.rfind('/').and_then(|at| base.get(..at)).unwrap_or_default();
        Some(format!("{folder}/{path}"))
    }
}

/// 128 bits from the system, in hexadecimal.
fn random_word() -> Result<String> {
    let mut bytes = [0; 16];
    let read = std::fs::File::open("/dev/urandom")
        .and_then(|mut file| std::io::Read::read_exact(&mut file, &mut bytes));
    read.map_err(Error::io("read random numbers from", "/dev/urandom"))?;
    Ok(bytes.iter().fold(String::new(), |mut word, byte| {
        let _ = write!(word, "{byte:02x}");
        word
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart() {
        let address = Address::parse("HTTPS://al%3Aice:s%40@h.example:443/a/mcp?key=k#f").unwrap();
        assert_eq!(address.bare(), "https://h.example:443/a/mcp");
        assert_eq!((address.path(), address.query()), ("/a/mcp", Some("key=k")));
        assert_eq!(address.recordable(), "https://REDACTED@h.example:443/a/mcp?key=k");
        assert_eq!(address.authorization().unwrap(), format!("Basic {}", STANDARD.encode("al:ice:s@")));
        assert!(!format!("{address:?}").contains("key"));
        assert_eq!(Address::parse("http://h").unwrap().path(), "/");
        for url in ["h/mcp", "ftp://h/", "http://", "http://u@/x", "http://h/a b"] {
            assert!(matches!(Address::parse(url), Err(Error::Usage(_))), "{url}");
        }
    }

    #[test]
    fn addresses_of_the_server_become_local() {
        let plain = Mapping::new(Address::parse("https://Up.example/v1/mcp").unwrap(), false).unwrap();
        for (url, local) in [
            ("https://up.example:443/x?y#z", Some("http://localhost:9/x?y#z")),
            ("HTTPS://up.example", Some("http://localhost:9")),
            ("//up.example/x", Some("http://localhost:9/x")),
            ("http://up.example/x", None),
            ("https://up.example.evil/x", None),
            ("https://up.example@evil/x", None),
            ("/x", None),
            ("x", None),
        ] {
            assert_eq!(plain.localize(url, "localhost:9").as_deref(), local, "{url}");
        }
        assert_eq!(plain.upstream("/x?y").as_deref(), Some("/x?y"));
        for (url, target) in [
            ("https://up.example/m?s=1", Some("/m?s=1")),
            ("/m?s=1", Some("/m?s=1")),
            ("m?s=1", Some("/v1/m?s=1")),
            ("https://other/m", None),
        ] {
            assert_eq!(plain.target_of(url, "/v1/mcp?a=/b").as_deref(), target, "{url}");
        }

        let secret = Mapping::new(Address::parse("http://h:80/mcp?key=k").unwrap(), true).unwrap();
        let prefix = secret.local_path().strip_suffix("/mcp").unwrap().to_owned();
        assert_eq!(prefix.len(), 33);
        for (target, upstream) in [
            ("/mcp", Some("/mcp?key=k")),
            ("/mcp?a=b", Some("/mcp?key=k&a=b")),
            ("/other?a", Some("/other?a")),
            ("", None),
        ] {
            assert_eq!(secret.upstream(&format!("{prefix}{target}")).as_deref(), upstream, "{target}");
            assert_eq!(secret.upstream(target), None);
        }
        assert_eq!(secret.localize("/m?s=1", "l").unwrap(), format!("{prefix}/m?s=1"));
        assert_eq!(secret.localize("http://h/m", "l").unwrap(), format!("http://l{prefix}/m"));
    }
}
