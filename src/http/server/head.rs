//! From the bytes of a request head to a checked request: httparse finds the parts, the rules here decide what is
//! accepted. Where RFC 9112 lets a server choose between repairing and refusing, it is refused.

use std::fmt;

use super::Limits;
use crate::http::Headers;
use crate::http::chunked::is_token;

/// A request that is not let in: what is answered before the connection is closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Refusal {
    /// The status, 400 to 599.
    pub status: u16,
    /// Why, for the body of the answer.
    pub why: &'static str,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.status, self.why)
    }
}

impl std::error::Error for Refusal {}

impl Refusal {
    /// Whether the client itself broke off, and waits for no answer.
    #[must_use]
    pub fn client_left(self) -> bool {
        self == BODY_ENDED || self == BODY_UNREADABLE
    }
}

pub(super) const fn refusal(status: u16, why: &'static str) -> Refusal {
    Refusal { status, why }
}

const HEAD_TOO_LARGE: Refusal = refusal(431, "the request head is too large");
const TARGET_TOO_LONG: Refusal = refusal(414, "the request target is too long");
pub(super) const BODY_TOO_LARGE: Refusal = refusal(413, "the request body is too large");
pub(super) const BODY_ENDED: Refusal = refusal(400, "the request body ended early");
pub(super) const BODY_UNREADABLE: Refusal = refusal(400, "the request body could not be read");
pub(super) const BODY_TOO_SLOW: Refusal = refusal(408, "the request body took too long");

/// How the end of a request body is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    Length(u64),
    Chunked,
}

/// A request head that was accepted.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) method: String,
    pub(super) target: String,
    /// The minor version of HTTP/1: 0 or 1.
    pub(super) minor: u8,
    pub(super) headers: Headers,
    pub(super) framing: Framing,
    /// `Expect: 100-continue` was asked for.
    pub(super) expects: bool,
    /// The connection may serve another request.
    pub(super) persistent: bool,
}

/// Looks for the end of a head in a growing buffer. Each byte is looked at once, however slowly they come, and what
/// can be no head is refused without waiting for its end.
#[derive(Debug, Default)]
pub(super) struct Scan {
    looked: usize,
    line: usize,
    lines: usize,
    blank: usize,
}

impl Scan {
    /// Where the head begins and ends in `bytes`, if its end is there.
    pub(super) fn find(&mut self, bytes: &[u8], limits: &Limits) -> Result<Option<(usize, usize)>, Refusal> {
        while let Some(at) = memchr::memchr(b'\n', bytes.get(self.looked..).unwrap_or_default()) {
            let end = self.looked + at;
            let line = bytes.get(self.line..end).unwrap_or_default();
            let Some(line) = line.strip_suffix(b"\r") else {
                return Err(refusal(400, "a line of the request head does not end in CR LF"));
            };
            if self.lines == 0 {
                check_request_line(line, limits)?;
            }
            self.looked = end + 1;
            self.line = end + 1;
            if !line.is_empty() {
                self.lines += 1;
            } else if self.lines > 0 {
                let size = self.looked - self.blank * 2;
                return if size > limits.head {
                    Err(HEAD_TOO_LARGE)
                } else {
                    Ok(Some((self.blank * 2, self.looked)))
                };
            } else {
                // RFC 9112, section 2.2: an empty line before the request line is skipped.
                self.blank += 1;
                if self.blank > 2 {
                    return Err(refusal(400, "empty lines where a request should be"));
                }
            }
        }
        self.looked = bytes.len();
        if self.lines == 0 {
            let line = bytes.get(self.line..).unwrap_or_default();
            check_request_line(line.strip_suffix(b"\r").unwrap_or(line), limits)?;
        }
        if bytes.len() > limits.head { Err(HEAD_TOO_LARGE) } else { Ok(None) }
    }
}

/// Refuses what can be no request line, whole or not: TLS, for one, has no line end to wait for.
fn check_request_line(line: &[u8], limits: &Limits) -> Result<(), Refusal> {
    if line.first().is_some_and(|byte| !is_token(*byte)) {
        return Err(refusal(400, "this is no HTTP request"));
    }
    // Method, spaces and version take no more than the rest.
    if line.len() > limits.target + 32 { Err(TARGET_TOO_LONG) } else { Ok(()) }
}

/// Reads a whole head, blank line included.
pub(super) fn parse(bytes: &[u8], limits: &Limits) -> Result<Head, Refusal> {
    let lines = memchr::memchr_iter(b'\n', bytes).count();
    let mut fields = vec![httparse::EMPTY_HEADER; limits.headers.min(lines)];
    let mut request = httparse::Request::new(&mut fields);
    let (method, target, minor) = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) if length == bytes.len() => (
            request.method.unwrap_or_default(),
            request.path.unwrap_or_default(),
            request.version.unwrap_or(0),
        ),
        Err(httparse::Error::TooManyHeaders) => return Err(refusal(431, "too many header fields")),
        Err(httparse::Error::Version) if names_version(bytes) => {
            return Err(refusal(505, "only HTTP/1.0 and HTTP/1.1 are spoken here"));
        }
        _ => return Err(refusal(400, "the request head is not well formed")),
    };
    if target.len() > limits.target {
        return Err(TARGET_TOO_LONG);
    }
    if !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(refusal(400, "the request target is not well formed"));
    }
    let headers: Headers = request.headers.iter().map(|field| (field.name, field.value)).collect();
    let hosts = headers.all("host").count();
    if hosts > 1 || hosts == 0 && minor == 1 {
        return Err(refusal(400, "a request has one Host header"));
    }
    let framing = framing(&headers, minor, limits)?;
    let expects = match headers.get("expect") {
        Some(value) if !value.eq_ignore_ascii_case(b"100-continue") => {
            return Err(refusal(417, "only 100-continue can be expected here"));
        }
        Some(_) => minor == 1 && framing != Framing::Length(0),
        None => false,
    };
    let persistent = if minor == 1 {
        !headers.lists("connection", "close")
    } else {
        headers.lists("connection", "keep-alive") && !headers.lists("connection", "close")
    };
    let (method, target) = (method.to_owned(), target.to_owned());
    Ok(Head { method, target, minor, headers, framing, expects, persistent })
}

/// Whether the request line is one but for a version that is not spoken here, such as HTTP/2's preface.
fn names_version(bytes: &[u8]) -> bool {
    let line = bytes.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ').skip(2);
    words.next().is_some_and(|version| version.starts_with(b"HTTP/")) && words.next().is_none()
}

/// RFC 9112, section 6: whatever two readers could understand differently is refused.
fn framing(headers: &Headers, minor: u8, limits: &Limits) -> Result<Framing, Refusal> {
    let mut lengths = headers.all("content-length");
    let mut codings = headers.all("transfer-encoding");
    match (codings.next(), lengths.next()) {
        (None, None) => Ok(Framing::Length(0)),
        (Some(_), Some(_)) => Err(refusal(400, "Transfer-Encoding and Content-Length exclude each other")),
        (Some(_), None) if minor == 0 => Err(refusal(400, "HTTP/1.0 has no Transfer-Encoding")),
        (Some(coding), None) if coding.eq_ignore_ascii_case(b"chunked") && codings.next().is_none() => {
            Ok(Framing::Chunked)
        }
        (Some(_), None) => Err(refusal(501, "only the chunked transfer coding is understood")),
        (None, Some(length)) => {
            if lengths.next().is_some() {
                return Err(refusal(400, "a request has one Content-Length"));
            }
            if length.is_empty() || !length.iter().all(u8::is_ascii_digit) {
                return Err(refusal(400, "Content-Length is not a number"));
            }
            // More than 64 bits hold is more than any limit.
            let length = std::str::from_utf8(length).ok().and_then(|digits| digits.parse().ok());
            match length {
                Some(length) if length <= limits.body => Ok(Framing::Length(length)),
                _ => Err(BODY_TOO_LARGE),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    use std::fs;
    use std::path::Path;

    /// What a head comes to when it arrives in pieces of this size.
    fn outcome(bytes: &[u8], size: usize) -> Result<Option<(usize, Head)>, Refusal> {
        let limits = Limits { head: 4096, target: 1024, headers: 32, ..Limits::default() };
        let mut scan = Scan::default();
        for end in (1..=bytes.len()).filter(|end| end % size == 0 || *end == bytes.len()) {
            if let Some((from, to)) = scan.find(&bytes[..end], &limits)? {
                return parse(&bytes[from..to], &limits).map(|head| Some((to, head)));
            }
        }
        Ok(None)
    }

    #[test]
    fn damaged_heads_are_taken_or_refused_alike_however_they_are_cut() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/http");
        let mut state: u64 = 0x5eed_0003;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state % below as u64).unwrap()
        };
        let (mut taken, mut refused) = (0, 0);
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            let original = fs::read(&path).unwrap();
            if path.extension().is_none_or(|extension| extension != "request") || original.len() > 1000 {
                continue;
            }
            for _ in 0..300 {
                let mut bytes = original.clone();
                for _ in 0..=random(3) {
                    let at = random(bytes.len());
                    match random(4) {
                        0 => bytes[at] = b"\r\n\0 :;,\t\xff"[random(9)],
                        1 => bytes.insert(at, b"\r\n\0 :;,\t\xff"[random(9)]),
                        2 if bytes.len() > 1 => drop(bytes.remove(at)),
                        _ => bytes[at] = u8::try_from(random(256)).unwrap(),
                    }
                }
                let whole = outcome(&bytes, bytes.len());
                for size in [1, 2, 7, 50] {
                    let cut = outcome(&bytes, size);
                    let text = bytes.escape_ascii();
                    match (&whole, &cut) {
                        (Ok(Some((to, head))), Ok(Some((other_to, other)))) => {
                            let parts =
                                |head: &Head| (head.target.clone(), head.headers.clone(), head.framing);
                            assert_eq!((to, parts(head)), (other_to, parts(other)), "{text}");
                        }
                        (Ok(None), Ok(None)) | (Err(_), Err(_)) => {}
                        _ => panic!("{whole:?} or {cut:?}: {text}"),
                    }
                }
                match whole {
                    Ok(_) => taken += 1,
                    Err(_) => refused += 1,
                }
            }
        }
        assert!(taken > 1000 && refused > 1000, "{taken} {refused}");
    }
}
