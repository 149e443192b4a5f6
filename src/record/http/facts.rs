//! What a cassette keeps of the heads of requests and answers: an allow-list. Everything else, credentials and ids
//! among it, never gets as far as the queue.

use crate::http::Headers;
use crate::jsonrpc::string;
use crate::mcp::headers;

/// Headers of an answer that are kept.
const ANSWER: [&str; 4] = ["www-authenticate", "retry-after", "allow", "location"];
/// Headers of a request that repeat what its body says.
const MIRRORS: [&str; 3] = [headers::METHOD, headers::NAME, headers::VERSION];
const PARAMETER: &str = "mcp-param-";

/// Members of a JSON object, without its braces.
#[derive(Debug, Default)]
pub(super) struct Facts(String);

impl Facts {
    fn name(&mut self, name: &str) {
        if !self.0.is_empty() {
            self.0.push(',');
        }
        self.0.push_str(&string::encode(name));
        self.0.push(':');
    }

    pub(super) fn text(&mut self, name: &str, value: &str) {
        self.name(name);
        self.0.push_str(&string::encode(value));
    }

    pub(super) fn number(&mut self, name: &str, value: u64) {
        self.name(name);
        self.0.push_str(&value.to_string());
    }

    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// Gives what there is and begins anew.
    pub(super) fn take(&mut self) -> Self {
        std::mem::take(self)
    }

    /// The facts of a request that are not the usual ones. `path` is the server's, where that is not the endpoint.
    pub(super) fn of_request(method: &str, path: Option<&str>, headers: &Headers) -> Self {
        let mut facts = Self::default();
        if method != "POST" {
            facts.text("method", method);
        }
        if let Some(path) = path {
            facts.text("path", path);
        }
        let accept = joined(headers, "accept");
        let wanted: &[&str] = match method {
            "POST" => &["application/json", "text/event-stream"],
            "GET" => &["text/event-stream"],
            _ => &[],
        };
        if let Some(accept) = accept.filter(|accept| !wanted.iter().all(|wanted| accept.contains(wanted)))
            && !wanted.is_empty()
        {
            facts.text("accept", &accept);
        }
        facts
    }

    /// The facts of an answer. `plain`: it comes from an MCP endpoint; elsewhere the query of a location may be a
    /// grant.
    pub(super) fn of_answer(status: u16, headers: &Headers, plain: bool) -> Self {
        let mut facts = Self::default();
        facts.number("status", status.into());
        if let Some(kind) = kind(headers) {
            facts.text("type", &kind);
        }
        for name in ANSWER {
            if let Some(value) = joined(headers, name) {
                let value = if name == "location" { place(&value, plain) } else { value };
                facts.text(name, &value);
            }
        }
        facts
    }
}

/// All values of a name, as one list.
fn joined(headers: &Headers, name: &str) -> Option<String> {
    let values: Vec<_> = headers.all(name).map(String::from_utf8_lossy).collect();
    (!values.is_empty()).then(|| values.join(", "))
}

/// `json`, `sse`, or the media type.
pub(super) fn kind(headers: &Headers) -> Option<String> {
    let value = headers.get("content-type").map(String::from_utf8_lossy)?;
    let kind = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "" => None,
        "application/json" => Some("json".to_owned()),
        "text/event-stream" => Some("sse".to_owned()),
        _ => Some(kind),
    }
}

/// A location without user information, and without its query unless that is `plain`.
fn place(location: &str, plain: bool) -> String {
    let location = location.split('#').next().unwrap_or_default();
    let location = if plain { location } else { location.split('?').next().unwrap_or_default() };
    match location.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find(['/', '?']).unwrap_or(rest.len());
            let host = rest.get(..end).and_then(|authority| authority.rfind('@')).map_or(0, |at| at + 1);
            format!("{scheme}://{}", rest.get(host..).unwrap_or_default())
        }
        None => location.to_owned(),
    }
}

/// The headers of a request that repeat its body, as `name: value` lines.
pub(super) fn mirrors(headers: &Headers) -> String {
    let mut lines = String::new();
    for (name, value) in headers.iter() {
        let name = name.to_ascii_lowercase();
        if MIRRORS.contains(&name.as_str()) || name.starts_with(PARAMETER) {
            lines.push_str(&format!("{name}: {}\n", String::from_utf8_lossy(value)));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_kept() {
        let headers = Headers::new()
            .with("Content-Type", "application/json; charset=utf-8")
            .with("Mcp-Session-Id", "s3cret")
            .with("Set-Cookie", "a=s3cret")
            .with("WWW-Authenticate", "Bearer realm=\"x\"")
            .with("Retry-After", "3")
            .with("Location", "https://u:s3cret@h/cb?code=s3cret#s3cret");
        assert_eq!(
            Facts::of_answer(401, &headers, false).as_str(),
            r#""status":401,"type":"json","www-authenticate":"Bearer realm=\"x\"","retry-after":"3","location":"https://h/cb""#
        );
        let headers = Headers::new()
            .with("accept", "text/event-stream, application/json")
            .with("Authorization", "Bearer s3cret")
            .with("Cookie", "a=s3cret")
            .with("Mcp-Method", "ping")
            .with("Mcp-Param-X", "1");
        assert_eq!(Facts::of_request("POST", None, &headers).as_str(), "");
        assert_eq!(mirrors(&headers), "mcp-method: ping\nmcp-param-x: 1\n");
        let json = Headers::new().with("accept", "application/json");
        assert_eq!(
            Facts::of_request("GET", Some("/x"), &json).as_str(),
            r#""method":"GET","path":"/x","accept":"application/json""#
        );
        assert_eq!(Facts::of_request("DELETE", None, &json).as_str(), r#""method":"DELETE""#);
    }
}
