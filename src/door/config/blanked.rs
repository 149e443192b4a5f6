//! JSON as people write it into configurations: with comments, trailing commas and a byte order mark.

use std::ops::Range;

/// The text with blanks in the place of comments, trailing commas and a byte order mark: JSON of the same length.
pub(super) fn blanked(text: &str) -> String {
    let mut bytes = text.as_bytes().to_vec();
    let mut blank = |range: Range<usize>| {
        for byte in bytes.get_mut(range).unwrap_or_default() {
            if !matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    };
    if text.starts_with('\u{feff}') {
        blank(0..3);
    }
    let source = text.as_bytes();
    let at = |index: usize| source.get(index).copied();
    let (mut index, mut comma) = (0, None);
    while let Some(byte) = at(index) {
        match byte {
            b'"' => {
                comma = None;
                index += 1;
                while let Some(byte) = at(index).filter(|byte| *byte != b'"') {
                    index += if byte == b'\\' { 2 } else { 1 };
                }
                index += 1;
            }
            b'/' if at(index + 1) == Some(b'/') => {
                let length = source.iter().skip(index).take_while(|byte| **byte != b'\n').count();
                blank(index..index + length);
                index += length;
            }
            b'/' if at(index + 1) == Some(b'*') => {
                let rest = text.get(index + 2..).unwrap_or_default();
                let length = rest.find("*/").map_or(source.len() - index, |end| end + 4);
                blank(index..index + length);
                index += length;
            }
            b',' => {
                comma = Some(index);
                index += 1;
            }
            b'}' | b']' => {
                if let Some(comma) = comma.take() {
                    blank(comma..comma + 1);
                }
                index += 1;
            }
            _ => {
                if !byte.is_ascii_whitespace() {
                    comma = None;
                }
                index += 1;
            }
        }
    }
    // Whole characters were replaced by as many blanks as they had bytes.
    String::from_utf8(bytes).unwrap_or_default()
}
