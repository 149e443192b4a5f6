//! Base64 in text: stretches that decode to text, at any alignment.

use base64::Engine as _;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

use crate::jsonrpc::scan::Span;

/// Shorter stretches are words: seventeen bytes of text.
const SHORTEST: usize = 23;
/// How much is decoded to see whether it is text at all.
const HEAD: usize = 24;

const CONFIG: GeneralPurposeConfig = GeneralPurposeConfig::new()
    .with_decode_padding_mode(DecodePaddingMode::Indifferent)
    .with_decode_allow_trailing_bits(true);
const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, CONFIG);
const URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, CONFIG);

#[allow(clippy::indexing_slicing)] // Computed while compiling: out of bounds would not compile.
const ALPHABET: [bool; 256] = {
    let mut known = [false; 256];
    let mut char = 0_u8;
    while char < 128 {
        known[char as usize] = char.is_ascii_alphanumeric() || matches!(char, b'+' | b'/' | b'-' | b'_');
        char += 1;
    }
    known
};

fn in_alphabet(byte: u8) -> bool {
    ALPHABET.get(usize::from(byte)) == Some(&true)
}

/// Whether a stretch of Base64 that looks like encoded text may stand in these bytes, decoded or as raw JSON.
pub(super) fn may_hold_text(bytes: &[u8]) -> bool {
    let mut at = 0;
    while let Some(span) = next(bytes, at, Slashes::Escaped) {
        let stretch = bytes.get(span.start..span.end).unwrap_or_default();
        // An escape in front lends it up to five letters.
        let before = span.start.checked_sub(1).and_then(|before| bytes.get(before));
        let most = if matches!(before, Some(b'\\' | b'%')) { 4 + 5 } else { 4 };
        let begins = |stretch: &[u8], most: usize| {
            (0..most).any(|skip| stretch.get(skip..).is_some_and(begins_as_text))
        };
        if memchr::memchr(b'\\', stretch).is_none() {
            if begins(stretch, most) {
                return true;
            }
        } else {
            // Decoded already, the backslashes are what they are.
            let whole: Vec<u8> = stretch.iter().copied().filter(|byte| *byte != b'\\').collect();
            let mut parts = stretch.split(|byte| *byte == b'\\').filter(|part| part.len() >= SHORTEST);
            if begins(&whole, most) || parts.any(|part| begins(part, most)) {
                return true;
            }
        }
        at = span.end;
    }
    false
}

/// The stretches of Base64 in a text that decode to text: where each stands (padding included), and what it says.
pub(super) fn texts(text: &str) -> Vec<(Span, String)> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    while let Some(span) = next(bytes, at, Slashes::Plain) {
        at = span.end;
        let stretch = span.of(text);
        let decoded = (0..4).find_map(|skip| {
            let inner = stretch.as_bytes().get(skip..).filter(|inner| begins_as_text(inner))?;
            let decoded = String::from_utf8(decode(inner)?).ok()?;
            is_text(&decoded).then_some(decoded)
        });
        let Some(decoded) = decoded else { continue };
        let padding = bytes.get(span.end..).unwrap_or_default().iter().take(2);
        let padding = padding.take_while(|byte| **byte == b'=').count();
        found.push((Span::new(span.start, span.end + padding), decoded));
    }
    found
}

/// The byte that a percent sign and two digits stand for.
fn escaped(bytes: &[u8], at: usize) -> Option<u8> {
    let digits = bytes.get(at + 1..at + 3).filter(|digits| digits.iter().all(u8::is_ascii_hexdigit))?;
    u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// The percent-encoded stretches of a text, as they stand in URLs in the middle of prose: where each stands, and what it
/// says.
pub(super) fn percent_texts(text: &str) -> Vec<(Span, String)> {
    let bytes = text.as_bytes();
    let part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~%+".contains(byte);
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(offset) = bytes.get(from..).and_then(|rest| memchr::memchr(b'%', rest)) {
        let at = from + offset;
        let front =
            bytes.get(from..at).unwrap_or_default().iter().rev().take_while(|byte| part(byte)).count();
        let behind = bytes.get(at..).unwrap_or_default().iter().take_while(|byte| part(byte)).count();
        let span = Span::new(at - front, at + behind);
        from = span.end.max(at + 1);
        let stretch = span.of(text).as_bytes();
        let (mut decoded, mut at, mut any) = (Vec::with_capacity(stretch.len()), 0, false);
        while let Some(byte) = stretch.get(at) {
            let byte_there = escaped(stretch, at).filter(|_| *byte == b'%');
            any |= byte_there.is_some();
            decoded.push(byte_there.unwrap_or(*byte));
            at += if byte_there.is_some() { 3 } else { 1 };
        }
        if let Some(decoded) = any.then(|| String::from_utf8(decoded).ok()).flatten() {
            found.push((span, decoded));
        }
    }
    found
}

/// How the slashes of the alphabet are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slashes {
    Plain,
    /// There may be a backslash in front, which some encoders of JSON put there.
    Escaped,
}

/// The next stretch that is long enough.
fn next(bytes: &[u8], from: usize, slashes: Slashes) -> Option<Span> {
    let escapes = |at: usize| {
        slashes == Slashes::Escaped && bytes.get(at..).is_some_and(|rest| rest.starts_with(b"\\/"))
    };
    let mut floor = from;
    let mut at = from;
    while let Some(window) = next_window(bytes, at) {
        let (mut start, mut end, mut escaped) = (window, window, 0);
        loop {
            let front = bytes.get(floor..start).unwrap_or_default();
            start -= front.iter().rev().position(|byte| !in_alphabet(*byte)).unwrap_or(front.len());
            if start == floor || !escapes(start - 1) {
                break;
            }
            start -= 1;
            escaped += 1;
        }
        loop {
            let rest = bytes.get(end..).unwrap_or_default();
            end += rest.iter().position(|byte| !in_alphabet(*byte)).unwrap_or(rest.len());
            if !escapes(end) {
                break;
            }
            end += 1;
            escaped += 1;
        }
        if end - start - escaped >= SHORTEST {
            return Some(Span::new(start, end));
        }
        floor = end;
        at = end + 1;
    }
    None
}

// Whatever is long enough covers a whole window, and of words few do.
const WINDOW: usize = 8;
const STRIDE: usize = SHORTEST - WINDOW + 1;

/// Where the next window is that a stretch may cover.
fn next_window(bytes: &[u8], mut at: usize) -> Option<usize> {
    loop {
        // Two are looked at together: in most texts neither is one.
        while let Some(both) = bytes.get(at..at + STRIDE + WINDOW)
            && let (Some(first), Some(second)) = (both.first_chunk(), both.last_chunk())
            && !(is_dense(*first) | is_dense(*second))
        {
            at += 2 * STRIDE;
        }
        let window = bytes.get(at..at + WINDOW)?;
        if window.first_chunk().is_some_and(|window| is_dense(*window)) && are_near(window) {
            return Some(at);
        }
        at += STRIDE;
    }
}

/// Whether there is no blank among these, no quote, and nothing else in front of the alphabet or behind it.
fn is_dense(window: [u8; WINDOW]) -> bool {
    const ONES: u64 = u64::MAX / 0xff;
    const HIGH: u64 = ONES << 7;
    let word = u64::from_le_bytes(window);
    // What is carried from byte to byte comes from one that is too large anyway.
    word.wrapping_add(ONES * u64::from(0x80 - b'+')) & !word & HIGH == HIGH
}

/// Whether all bytes are of the alphabet, backslashes, or of few others: that takes few instructions, for many bytes at
/// once.
#[inline(never)]
#[allow(clippy::needless_bitwise_bool)] // Without branches the compiler looks at many bytes at once.
fn are_near(window: &[u8]) -> bool {
    // Letters and the signs among them, digits and signs like dots, and the plus.
    let is_near = |byte: u8| (byte & 0xc0 == 0x40) | (byte.wrapping_sub(b'-') < 13) | (byte == b'+');
    window.iter().fold(true, |all, byte| all & is_near(*byte))
}

fn begins_as_text(stretch: &[u8]) -> bool {
    let head = stretch.get(..HEAD.min(stretch.len() / 4 * 4)).unwrap_or_default();
    // Words, paths and hashes fail on the first bytes.
    if !head.first_chunk::<8>().copied().is_some_and(first_bytes_are_text)
        || head.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-')
    {
        return false;
    }
    let Some(decoded) = decode(head).filter(|decoded| decoded.len() >= 6) else { return false };
    let valid = match std::str::from_utf8(&decoded) {
        Ok(text) => text,
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(decoded.get(..error.valid_up_to()).unwrap_or_default()).unwrap_or("\0")
        }
        Err(_) => return false,
    };
    is_text(valid)
}

/// Whether the six bytes that eight letters stand for can begin a text.
fn first_bytes_are_text(letters: [u8; 8]) -> bool {
    let sextet = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        _ => 63,
    };
    let bits = letters.iter().fold(0_u64, |bits, byte| bits << 6 | u64::from(sextet(*byte)));
    let [_, _, bytes @ ..] = bits.to_be_bytes();
    let shown = |byte: &u8| (*byte >= b' ' && *byte != 0x7f) || matches!(byte, b'\n' | b'\r' | b'\t');
    bytes.iter().all(shown)
        && std::str::from_utf8(&bytes).map_or_else(|error| error.error_len().is_none(), |_| true)
}

fn is_text(text: &str) -> bool {
    !text.chars().any(|char| char.is_control() && !matches!(char, '\n' | '\r' | '\t'))
}

fn decode(stretch: &[u8]) -> Option<Vec<u8>> {
    // A single letter too many stands for no byte.
    let whole = if stretch.len() % 4 == 1 { stretch.len() - 1 } else { stretch.len() };
    let stretch = stretch.get(..whole)?;
    let url = memchr::memchr2(b'-', b'_', stretch).is_some();
    if url { URL.decode(stretch).ok() } else { PLAIN.decode(stretch).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stretches_that_say_something_are_decoded() {
        for (text, expected) in [
            ("eyJwYXNzd29yZCI6ImFiYyJ9", Some(r#"{"password":"abc"}"#)),
            ("data=eyJwYXNzd29yZCI6ImFiYyJ9.", Some(r#"{"password":"abc"}"#)),
            ("xyeyJwYXNzd29yZCI6ImFiYyJ9", Some(r#"{"password":"abc"}"#)),
            ("cGFzc3dvcmQ9aHVudGVyMj8/", Some("password=hunter2??")),
            ("cGFzc3dvcmQ9aHVudGVyMj8_Pw==", Some("password=hunter2???")),
            ("a b cGFzc3dvcmQ9aHVudGVyMj8_P c", Some("password=hunter2??")),
            ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ", None),
            ("normalizeToolResultImages", None),
            ("/usr/local/lib/node_modules/package", None),
            ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", None),
            ("short", None),
        ] {
            let found = texts(text);
            assert_eq!(found.first().map(|found| found.1.as_str()), expected, "{text}");
            assert!(expected.is_none() || may_hold_text(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn escapes_around_a_stretch_hide_nothing() {
        for raw in [
            r"\u000acGFzc3dvcmQ9aHVudGVyMj8/",
            r"\ncGFzc3dvcmQ9aHVudGVyMj8/",
            r"%0AcGFzc3dvcmQ9aHVudGVyMj8/",
            r"cHcgYWI\/IHBhc3N3b3JkPXgy",
            r"credential\/cGFzc3dvcmQ9aHVudGVyMj8/",
        ] {
            assert!(may_hold_text(raw.as_bytes()), "{raw}");
        }
    }
}
