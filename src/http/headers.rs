//! A list of header fields: order and duplicates kept, values as bytes, names as they came and compared without
//! regard to case.

use std::fmt;

use super::chunked::is_token;

/// Header fields in order. Names and values each stand one behind the other, since every request and answer has many.
#[derive(Default, Clone, PartialEq, Eq)]
pub struct Headers {
    names: String,
    values: Vec<u8>,
    /// Where the name and the value of each field end.
    ends: Vec<(usize, usize)>,
}

impl fmt::Debug for Headers {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_map()
            .entries(self.iter().map(|(name, value)| (name, String::from_utf8_lossy(value))))
            .finish()
    }
}

/// Fields about one connection, which a proxy does not pass on (RFC 9110, section 7.6.1). `expect` is here because
/// the whole body has been read by then, and `content-length` because framing is done anew.
const HOP_BY_HOP: [&str; 11] = [
    "connection",
    "content-length",
    "expect",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

impl Headers {
    /// An empty list.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a field at the end. One of that name is kept.
    pub fn push(&mut self, name: impl AsRef<str>, value: impl AsRef<[u8]>) {
        self.names.push_str(name.as_ref());
        self.values.extend_from_slice(value.as_ref());
        self.ends.push((self.names.len(), self.values.len()));
    }

    /// Removes all fields of that name and adds this one at the end.
    pub fn set(&mut self, name: &str, value: impl AsRef<[u8]>) {
        self.remove(name);
        self.push(name, value);
    }

    /// Adds a field at the end; for tables.
    #[must_use]
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.push(name, value);
        self
    }

    /// Removes all fields of that name.
    pub fn remove(&mut self, name: &str) {
        if self.get(name).is_some() {
            self.retain(|other| !other.eq_ignore_ascii_case(name));
        }
    }

    /// The first value of that name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.all(name).next()
    }

    /// The first value of that name, if it is UTF-8.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.get(name).and_then(|value| std::str::from_utf8(value).ok())
    }

    /// All values of that name, in order.
    pub fn all<'h, 'n>(&'h self, name: &'n str) -> impl Iterator<Item = &'h [u8]> + use<'h, 'n> {
        let fields = self.iter().filter(move |(other, _)| other.eq_ignore_ascii_case(name));
        fields.map(|(_, value)| value)
    }

    /// All fields, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &[u8])> {
        let mut from = (0, 0);
        self.ends.iter().map(move |&end| {
            let name = self.names.get(from.0..end.0).unwrap_or_default();
            let value = self.values.get(from.1..end.1).unwrap_or_default();
            from = end;
            (name, value)
        })
    }

    fn retain(&mut self, keeps: impl Fn(&str) -> bool) {
        *self = self.iter().filter(|(name, _)| keeps(name)).collect();
    }

    /// How many fields there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no field.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Whether a comma-separated list of that name holds the word, in any case.
    #[must_use]
    pub fn lists(&self, name: &str, word: &str) -> bool {
        self.all(name).any(|value| {
            value
                .split(|byte| *byte == b',')
                .any(|item| item.trim_ascii().eq_ignore_ascii_case(word.as_bytes()))
        })
    }

    /// Removes what is about one connection: the known fields and those that `Connection` names.
    pub fn remove_hop_by_hop(&mut self) {
        let named: Vec<Vec<u8>> = self
            .all("connection")
            .flat_map(|value| value.split(|byte| *byte == b','))
            .map(|item| item.trim_ascii().to_ascii_lowercase())
            .collect();
        self.retain(|name| {
            !HOP_BY_HOP.iter().any(|hop| name.eq_ignore_ascii_case(hop))
                && !named.iter().any(|word| name.as_bytes().eq_ignore_ascii_case(word))
        });
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> FromIterator<(N, V)> for Headers {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(fields: I) -> Self {
        let mut headers = Self::new();
        headers.extend(fields);
        headers
    }
}

impl<N: AsRef<str>, V: AsRef<[u8]>> Extend<(N, V)> for Headers {
    fn extend<I: IntoIterator<Item = (N, V)>>(&mut self, fields: I) {
        let fields = fields.into_iter();
        // What most fields fit in.
        let expected = fields.size_hint().0;
        self.ends.reserve(expected);
        self.names.reserve(expected * 16);
        self.values.reserve(expected * 24);
        fields.for_each(|(name, value)| self.push(name, value));
    }
}

/// Whether a field may be written: the name is a token, and no byte of the value ends the line or is a control
/// character other than the tab. Values come from cassettes and from the other side.
#[must_use]
pub fn is_sound(name: &str, value: &[u8]) -> bool {
    !name.is_empty()
        && name.bytes().all(is_token)
        && value.iter().all(|byte| *byte == b'\t' || *byte >= 0x20 && *byte != 0x7f)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r26_what_is_about_one_connection_is_not_passed_on() {
        let mut headers = Headers::new()
            .with("Mcp-Session-Id", "1")
            .with("Connection", "keep-alive, X-Hop")
            .with("x-hop", "1")
            .with("Transfer-Encoding", "chunked")
            .with("TE", "trailers")
            .with("X-Keep", "1")
            .with("x-keep", "2");
        headers.remove_hop_by_hop();
        let names: Vec<&str> = headers.iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["Mcp-Session-Id", "X-Keep", "x-keep"]);
        assert_eq!(headers.all("X-KEEP").collect::<Vec<_>>(), [b"1", b"2"]);
    }

    #[test]
    fn r115_no_value_ends_its_line() {
        assert!(is_sound("x", b"caf\xc3\xa9\tx"));
        for (name, value) in
            [("x", &b"a\r\nb"[..]), ("x", b"a\nb"), ("x", b"\0"), ("", b""), ("a b", b""), ("a:", b"")]
        {
            assert!(!is_sound(name, value), "{name:?} {value:?}");
        }
    }
}
