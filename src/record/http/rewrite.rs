//! The few places of an answer in which a server names itself. A client that went there would be past us, or, where
//! it compares them with the URL it was given, would refuse to go on.

use super::address::Mapping;
use crate::http::Headers;
use crate::jsonrpc::message::{View, member};
use crate::jsonrpc::string;

/// Makes `Location`, `Content-Location` and `resource_metadata` local, for a client that reaches us at `host`.
pub(super) fn headers(headers: &Headers, mapping: &Mapping, host: &str) -> Headers {
    let local = |name: &str, value: &[u8]| -> Option<String> {
        let text = std::str::from_utf8(value).ok()?;
        if name.eq_ignore_ascii_case("location") || name.eq_ignore_ascii_case("content-location") {
            return mapping.localize(text, host);
        }
        if name.eq_ignore_ascii_case("www-authenticate") {
            let (at, url) = metadata_in(text)?;
            let local = mapping.localize(url, host)?;
            let (front, back) = text.split_at(at);
            return Some(format!("{front}{local}{}", back.get(url.len()..)?));
        }
        None
    };
    let fields = headers.iter().map(|(name, value)| {
        (name.to_owned(), local(name, value).map_or_else(|| value.to_vec(), String::into_bytes))
    });
    fields.collect()
}

/// The value of `resource_metadata` in a challenge (RFC 9728, section 5.1), and where it stands.
pub(super) fn metadata_in(challenge: &str) -> Option<(usize, &str)> {
    const NAME: &str = "resource_metadata";
    let lower = challenge.to_ascii_lowercase();
    let name = lower.find(NAME)?;
    let rest = challenge.get(name + NAME.len()..)?;
    let value = rest.trim_start().strip_prefix('=')?.trim_start();
    let quoted = value.strip_prefix('"');
    let value = quoted.unwrap_or(value);
    let end = match quoted {
        Some(_) => value.find('"')?,
        None => value.find([',', ' ']).unwrap_or(value.len()),
    };
    Some((challenge.len() - value.len(), value.get(..end)?))
}

/// Makes the `resource` of a protected resource's metadata local. `None`: the body may stay as it is.
pub(super) fn metadata(body: &[u8], mapping: &Mapping, host: &str) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(body).ok()?;
    let view = View::of(text).ok()?;
    let resource = member(text, view.whole, "resource")?;
    let local = mapping.localize(&string::decode(resource.of(text)), host)?;
    let (front, back) = (text.get(..resource.start)?, text.get(resource.end..)?);
    Some(format!("{front}{}{back}", string::encode(&local)).into_bytes())
}

/// The bytes of an `endpoint` event with the endpoint made local. `None`: they may stay as they are.
pub(super) fn endpoint(raw: &[u8], data: &[u8], mapping: &Mapping, host: &str) -> Option<Vec<u8>> {
    let local = mapping.localize(std::str::from_utf8(data).ok()?, host)?;
    // A comment in front may say the same.
    let in_field = |at: &usize| {
        raw.get(..*at).is_some_and(|front| {
            [&b"data:"[..], b"data: "].iter().any(|name| {
                front
                    .strip_suffix(*name)
                    .is_some_and(|line| line.last().is_none_or(|end| b"\r\n\xbf".contains(end)))
            })
        })
    };
    let at = memchr::memmem::find_iter(raw, data).find(in_field)?;
    let (front, back) = raw.split_at(at);
    Some([front, local.as_bytes(), back.get(data.len()..)?].concat())
}

#[cfg(test)]
mod tests {
    use super::super::address::Address;
    use super::*;

    fn mapping() -> Mapping {
        Mapping::new(Address::parse("https://up.example/mcp").unwrap(), false).unwrap()
    }

    #[test]
    fn r33_r36_headers() {
        for (name, value, local) in [
            ("location", "https://up.example/mcp/", "http://l:1/mcp/"),
            ("location", "/mcp/", "/mcp/"),
            ("location", "https://other.example/x", "https://other.example/x"),
            (
                "WWW-Authenticate",
                r#"Bearer error="x", resource_metadata="https://up.example/.well-known/p?a", scope="y""#,
                r#"Bearer error="x", resource_metadata="http://l:1/.well-known/p?a", scope="y""#,
            ),
            (
                "www-authenticate",
                "Bearer resource_metadata=https://up.example/p",
                "Bearer resource_metadata=http://l:1/p",
            ),
            ("www-authenticate", "Bearer", "Bearer"),
            ("x-other", "https://up.example/mcp/", "https://up.example/mcp/"),
        ] {
            let rewritten = headers(&Headers::new().with(name, value), &mapping(), "l:1");
            assert_eq!(rewritten.text(name), Some(local), "{value}");
        }
    }

    #[test]
    fn r36_metadata() {
        let body =
            br#"{ "resource" : "https:\/\/up.example/mcp", "authorization_servers":["https://up.example"]}"#;
        let local = metadata(body, &mapping(), "l:1").unwrap();
        assert_eq!(
            String::from_utf8(local).unwrap(),
            r#"{ "resource" : "http://l:1/mcp", "authorization_servers":["https://up.example"]}"#
        );
        assert_eq!(metadata(br#"{"resource":"https://other/"}"#, &mapping(), "l:1"), None);
        assert_eq!(metadata(b"no", &mapping(), "l:1"), None);
    }

    #[test]
    fn r35_endpoint() {
        let raw = b"event: endpoint\r\ndata: https://up.example/m?s=1\r\n\r\n";
        let local = endpoint(raw, b"https://up.example/m?s=1", &mapping(), "l:1").unwrap();
        assert_eq!(local, b"event: endpoint\r\ndata: http://l:1/m?s=1\r\n\r\n");
        let said_before =
            b": data:https://up.example/m\nid: https://up.example/m\ndata:https://up.example/m\n\n";
        let local = endpoint(said_before, b"https://up.example/m", &mapping(), "l:1").unwrap();
        assert_eq!(local, b": data:https://up.example/m\nid: https://up.example/m\ndata:http://l:1/m\n\n");
        assert_eq!(endpoint(b"data: /m\n\n", b"/m", &mapping(), "l:1"), None);
    }
}
