//! JSON pointers (RFC 6901).

/// The segments of a pointer, decoded; the empty pointer has none.
///
/// # Errors
///
/// What a pointer looks like, when it neither is empty nor begins with a slash, or has a `~` that stands for nothing.
pub fn segments(pointer: &str) -> Result<Vec<String>, &'static str> {
    if pointer.is_empty() {
        return Ok(Vec::new());
    }
    let rest = pointer.strip_prefix('/').ok_or("a JSON pointer begins with /")?;
    rest.split('/').map(decode).collect()
}

fn decode(segment: &str) -> Result<String, &'static str> {
    let mut parts = segment.split('~');
    let mut text = parts.next().unwrap_or("").to_owned();
    for part in parts {
        let (escaped, rest) = match part.strip_prefix('0') {
            Some(rest) => ('~', rest),
            None => (
                '/',
                part.strip_prefix('1').ok_or("in a JSON pointer ~ is written ~0, and / inside a name ~1")?,
            ),
        };
        text.push(escaped);
        text.push_str(rest);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_pointer() {
        for (pointer, expected) in [
            ("", &[][..]),
            ("/", &[""]),
            ("/a/b", &["a", "b"]),
            ("/a~1b/~0/~01/", &["a/b", "~", "~1", ""]),
            ("/~00~11", &["~0/1"]),
        ] {
            assert_eq!(segments(pointer).unwrap(), expected, "{pointer}");
        }
        for pointer in ["a", "a/b", "#/a", "/x~2", "/~", "/a~/b", "/~~0"] {
            assert!(segments(pointer).is_err(), "{pointer}");
        }
    }
}
