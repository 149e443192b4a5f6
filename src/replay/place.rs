//! Where the recorded server was, and which path of the replay an address of it becomes.

/// The origin and the path of a recorded URL.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// `https://h.example`, in lower case and without the default port; empty where no URL was recorded.
    origin: String,
    /// Begins with `/`; empty where no URL was recorded.
    path: String,
}

impl Place {
    /// Takes a URL apart. What is no URL of HTTP is no place.
    #[must_use]
    pub fn of(url: &str) -> Self {
        let url = url.split('#').next().unwrap_or_default();
        let Some((scheme, rest)) = url.split_once("://") else { return Self::default() };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        let path = target.split('?').next().unwrap_or_default();
        let path = if path.is_empty() { "/" } else { path };
        match path.bytes().all(|byte| byte.is_ascii_graphic()) {
            true => Self { origin: origin(scheme, authority), path: path.to_owned() },
            false => Self::default(),
        }
    }

    /// The path of the URL.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        Some(self.path.as_str()).filter(|path| !path.is_empty())
    }

    /// What a recorded `Location` is on the origin of a replay: a path, with its query. `None` where it leads to
    /// another origin. (RFC 3986, section 5; a client reads `\` as it reads `/`.)
    #[must_use]
    pub fn local(&self, location: &str) -> Option<String> {
        let location = location.trim();
        if !location.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') {
            return None;
        }
        let location = location.split('#').next().unwrap_or_default();
        let scheme = self.origin.split("://").next().unwrap_or_default();
        let before_path = location.find(['/', '?']).unwrap_or(location.len());
        let absolute = match location.strip_prefix("//") {
            Some(rest) => Some((scheme, rest)),
            None if location.get(..before_path).is_some_and(|front| front.contains(':')) => {
                Some(location.split_once("://")?)
            }
            None => None,
        };
        let Some((scheme, rest)) = absolute else { return Some(self.resolve(location)) };
        let (authority, target) = rest.split_at(rest.find(['/', '?']).unwrap_or(rest.len()));
        if self.origin.is_empty() || origin(scheme, authority) != self.origin {
            return None;
        }
        Some(if target.starts_with('/') { flat(target) } else { format!("/{target}") })
    }

    /// A reference without an authority, from the recorded path.
    fn resolve(&self, reference: &str) -> String {
        if reference.starts_with('/') {
            return flat(reference);
        }
        if reference.is_empty() || reference.starts_with('?') {
            return format!("{}{reference}", self.path().unwrap_or("/"));
        }
        let folder = self.path.rfind('/').and_then(|at| self.path.get(..=at)).unwrap_or("/");
        flat(&format!("{folder}{reference}"))
    }
}

/// Scheme and authority as they are compared: no user, no default port.
fn origin(scheme: &str, authority: &str) -> String {
    let scheme = scheme.to_ascii_lowercase();
    let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
    let port = if scheme == "https" { ":443" } else { ":80" };
    format!("{scheme}://{}", host.strip_suffix(port).unwrap_or(&host))
}

/// A path without `.` and `..`, and with one `/` at its beginning: two would name a host.
fn flat(target: &str) -> String {
    let (path, query) = target.split_at(target.find('?').unwrap_or(target.len()));
    let mut out: Vec<&str> = Vec::new();
    for segment in path.trim_start_matches('/').split('/') {
        match segment {
            "." => {}
            ".." => drop(out.pop()),
            _ => out.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") {
        out.push("");
    }
    let path = out.join("/");
    format!("/{}{query}", path.trim_start_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_where() {
        let place = Place::of("https://u:REDACTED@H.example:443/v1/mcp?key=REDACTED#f");
        assert_eq!(place.path(), Some("/v1/mcp"));
        for (location, local) in [
            ("https://h.example/v1/mcp/", Some("/v1/mcp/")),
            ("HTTPS://H.EXAMPLE:443/x?y=/z#f", Some("/x?y=/z")),
            ("https://h.example", Some("/")),
            ("https://h.example?x", Some("/?x")),
            ("//h.example/x", Some("/x")),
            ("https://h.example//evil/x", Some("/evil/x")),
            ("https://h.example/../x", Some("/x")),
            ("/x", Some("/x")),
            ("mcp/", Some("/v1/mcp/")),
            ("../x/.", Some("/x/")),
            ("?y", Some("/v1/mcp?y")),
            ("", Some("/v1/mcp")),
            ("x?u=http://other/", Some("/v1/x?u=http://other/")),
            ("http://h.example/x", None),
            ("https://h.example:8443/x", None),
            ("https://h.example.evil/x", None),
            ("https://h.example@evil/x", None),
            ("//evil/x", None),
            ("/\\evil/x", None),
            ("mailto:x", None),
            ("javascript:x//y", None),
            ("/a b", None),
        ] {
            assert_eq!(place.local(location).as_deref(), local, "{location}");
        }
        let nowhere = Place::of("no url");
        assert_eq!((nowhere.path(), nowhere.local("http://h/x")), (None, None));
        assert_eq!(nowhere.local("mcp/").as_deref(), Some("/mcp/"));
        assert_eq!(Place::of("http://h").path(), Some("/"));
    }
}
