//! White space only: indenting a JSON text for people and packing it for the wire, without touching a token.

use super::lexer::{Lexer, Token};
use super::scan::{Span, SyntaxError, string_end};

/// Containers deeper than this stay on one line, so that 200,000 levels do not become 200,000 lines of blanks.
const DEEPEST: usize = 16;

/// Appends `text` (one JSON value) indented by two blanks a level, as if it stood `level` levels deep. Arrays of
/// scalars, empty containers, and every container deeper than 16 levels inside `text` stay on one line.
pub fn indent(text: &str, level: usize, out: &mut String) -> Result<(), SyntaxError> {
    let mut lexer = Lexer::new(text);
    let mut previous = None;
    // Depth of the container from which on everything stays on its line.
    let mut flat: Option<usize> = None;
    while let Some((token, span)) = lexer.next()? {
        let closes = matches!(token, Token::EndObject | Token::EndArray);
        let opens = matches!(token, Token::BeginObject | Token::BeginArray);
        // The depth of the line this token stands on.
        let depth = lexer.depth() - usize::from(opens);
        let own_line = flat.is_none();
        match previous {
            None | Some(Token::Key) => {}
            Some(Token::BeginObject | Token::BeginArray) => {
                if own_line && !closes {
                    new_line(out, level + depth);
                }
            }
            Some(_) => {
                if !closes {
                    out.push(',');
                }
                if own_line {
                    new_line(out, level + depth);
                } else if !closes {
                    out.push(' ');
                }
            }
        }
        out.push_str(span.of(text));
        if token == Token::Key {
            out.push_str(": ");
        }
        if opens && flat.is_none() {
            let stays = lexer.depth() > DEEPEST
                || (token == Token::BeginArray && only_scalars(text, lexer.position())?);
            if stays {
                flat = Some(lexer.depth());
            }
        }
        if closes && flat == Some(lexer.depth() + 1) {
            flat = None;
        }
        previous = Some(token);
    }
    Ok(())
}

fn new_line(out: &mut String, level: usize) {
    out.push('\n');
    for _ in 0..level {
        out.push_str("  ");
    }
}

/// Whether the array whose first element would stand at `at` holds no container.
fn only_scalars(text: &str, at: usize) -> Result<bool, SyntaxError> {
    let bytes = text.as_bytes();
    let mut at = at;
    loop {
        match bytes.get(at) {
            Some(b'"') => at = string_end(bytes, at)?,
            Some(b'[' | b'{') => return Ok(false),
            Some(b']') | None => return Ok(true),
            Some(_) => at += 1,
        }
    }
}

/// Appends `text[span]` (valid JSON) without the white space between its tokens.
pub fn pack(text: &str, span: Span, out: &mut String) {
    pieces(text, span, |piece| out.push_str(piece.of(text)));
}

/// Hands over what [`pack`] leaves of a text, in order.
fn pieces(text: &str, span: Span, mut each: impl FnMut(Span)) {
    let bytes = text.as_bytes();
    let mut at = span.start;
    let mut from = at;
    while at < span.end {
        match bytes.get(at) {
            Some(b'"') => at = string_end(bytes, at).unwrap_or(span.end).min(span.end),
            Some(b' ' | b'\n' | b'\r' | b'\t') => {
                each(Span::new(from, at));
                at = super::scan::skip_space(bytes, at);
                from = at;
            }
            Some(_) => at += 1,
            None => break,
        }
    }
    each(Span::new(from.min(span.end), span.end));
}

/// Where places of `text[span]`, in order, are when it is packed, from 0.
#[must_use]
pub fn places_packed(text: &str, span: Span, places: &[usize]) -> Vec<usize> {
    let mut found = Vec::with_capacity(places.len());
    let mut length = 0;
    pieces(text, span, |piece| {
        let inside = places.iter().skip(found.len()).take_while(|place| **place < piece.end);
        let moved: Vec<usize> = inside.map(|place| length + place.saturating_sub(piece.start)).collect();
        found.extend(moved);
        length += piece.len();
    });
    found
}

/// The other way round: where the places of the packed text, in order, are in `text`. Those behind its end are left out.
#[must_use]
pub fn places_unpacked(text: &str, span: Span, places: &[usize]) -> Vec<usize> {
    let mut found = Vec::with_capacity(places.len());
    let mut length = 0;
    pieces(text, span, |piece| {
        let inside = places.iter().skip(found.len()).take_while(|place| **place < length + piece.len());
        let moved: Vec<usize> = inside.map(|place| piece.start + place - length).collect();
        found.extend(moved);
        length += piece.len();
    });
    found
}

/// `text` without the white space between its tokens.
#[must_use]
pub fn packed(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    pack(text, Span::new(0, text.len()), &mut out);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indented(text: &str) -> String {
        let mut out = String::new();
        indent(text, 0, &mut out).unwrap();
        out
    }

    #[test]
    fn layout() {
        assert_eq!(
            indented(r#"{"a":{},"b":[ ],"c":[1,"x",null],"d":[[1,2],{"e":1.0}]}"#),
            "{\n  \"a\": {},\n  \"b\": [],\n  \"c\": [1, \"x\", null],\n  \"d\": [\n    [1, 2],\n    {\n      \"e\": 1.0\n    }\n  ]\n}"
        );
        assert_eq!(indented("42"), "42");
    }

    #[test]
    fn deep_containers_stay_on_one_line() {
        let deep = "{\"a\":".repeat(20) + "[{\"b\":1},2]" + &"}".repeat(20);
        let text = indented(&deep);
        assert_eq!(text.lines().count(), 2 * 16 + 1);
        assert!(text.contains("\"a\": {\"a\": {\"a\": {\"a\": [{\"b\": 1}, 2]}}}"));
        let deepest = "[".repeat(200_000) + &"]".repeat(200_000);
        assert!(indented(&deepest).len() < 500_000);
    }

    #[test]
    fn only_white_space_changes() {
        for text in [
            r#"{"a":"\u00e9 \/ \ud800","n":[1.0,1e2,123456789012345678901234,1E400],"a":[[],{}," x "]}"#,
            "[ [ [\t[ 1 ] ,\r\n 2 ] ] ]",
            "\"  \"",
        ] {
            assert_eq!(packed(&indented(text)), packed(text));
            assert_eq!(packed(&packed(text)), packed(text));
        }
        assert_eq!(packed("{ \"a b\" : [ 1 , 2 ] }\n"), "{\"a b\":[1,2]}");
    }

    #[test]
    fn places_are_found_again() {
        let text = "x { \"a b\" :\n [ 1 , \"c\" ] }";
        let whole = Span::new(2, text.len());
        let places: Vec<usize> = ["a b", " b", "1", "\"c", "c"].map(|part| text.find(part).unwrap()).into();
        let packed = places_packed(text, whole, &places);
        assert_eq!(packed, [2, 3, 8, 10, 11]);
        assert_eq!(places_unpacked(text, whole, &packed), places);
        assert_eq!(places_unpacked(text, whole, &[0, 99]), [2]);
    }
}
