use super::*;

use std::fs;
use std::path::Path;

/// What a test looks at: kind, data, id, retry, comments, raw.
type Seen = (String, Option<String>, Option<String>, Option<u64>, usize, Vec<u8>);

fn text(bytes: &[u8]) -> String {
    bytes.escape_ascii().to_string()
}

fn seen(event: &Event) -> Seen {
    (
        text(event.kind()),
        event.data().map(text),
        event.id().map(text),
        event.retry(),
        event.comments().count(),
        event.raw().to_vec(),
    )
}

/// Parses pieces; checks that ranges and bytes make up the stream again.
fn parse<'p>(pieces: impl IntoIterator<Item = &'p [u8]>) -> (Vec<Seen>, Vec<u8>, String) {
    let (mut parser, mut events, mut stream) = (Parser::new(), Vec::new(), Vec::new());
    for piece in pieces {
        stream.extend_from_slice(piece);
        parser.push(piece, &mut events);
    }
    let last = text(parser.last_event_id());
    let rest = parser.finish();
    events.extend(rest.event);
    let mut whole = Vec::new();
    for event in &events {
        assert_eq!(event.range().start, whole.len() as u64);
        whole.extend_from_slice(event.raw());
        assert_eq!(event.range().end, whole.len() as u64);
    }
    whole.extend_from_slice(&rest.tail);
    assert_eq!(whole, stream);
    (events.iter().map(seen).collect(), rest.tail, last)
}

fn streams() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/sse");
    let mut all: Vec<_> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "sse"))
        .map(|path| (path.file_stem().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    all.sort();
    assert!(all.len() >= 12);
    all
}

/// Data of the events that a client sees.
fn data(name: &str) -> Vec<String> {
    let (_, bytes) = streams().into_iter().find(|(stem, _)| stem == name).unwrap();
    let (mut parser, mut events) = (Parser::new(), Vec::new());
    parser.push(&bytes, &mut events);
    events.iter().filter(|event| event.dispatches()).map(|event| text(event.data().unwrap())).collect()
}

#[test]
fn r24_the_odd_streams_read_by_the_rules() {
    let table: [(&str, &[&str]); 16] = [
        ("01-lf", &["{\\\"a\\\":1}", "{\\\"b\\\":2}"]),
        ("02-crlf", &["{\\\"a\\\":1}", "{\\\"b\\\":2}"]),
        ("03-cr", &["a", "b"]),
        ("04-mixed", &["a", "b", "c", "d", "e"]),
        ("05-bom", &["a", "c"]),
        ("06-multi", &["one\\n\\n\\n two \\n\\xe2\\x80\\xa8three"]),
        ("07-comments", &["x"]),
        ("08-priming", &["{\\\"r\\\":1}"]),
        ("09-fields", &["x", "y"]),
        ("10-pending", &["a"]),
        ("11-crlf-cut", &[]),
        ("12-not-utf8", &["\\xff\\xfe\\xc3", "a\\x00b"]),
        ("13-blank", &[]),
        ("14-bom-only", &[]),
        ("15-empty", &[]),
        ("16-endless-digits", &["x", "y"]),
    ];
    assert_eq!(table.len(), streams().len());
    for (name, expected) in table {
        assert_eq!(data(name), expected, "{name}");
    }
}

#[test]
fn fields_count_without_data_too() {
    let (events, tail, last) =
        parse([&b"id: 1\ndata: \n\nid: 0/9\nretry: 3000\ndata:\n\nid:\n\nid: lost"[..]]);
    assert_eq!(events[0].2.as_deref(), Some("1"));
    assert_eq!((events[1].2.as_deref(), events[1].3), (Some("0/9"), Some(3000)));
    assert_eq!(events[2].2.as_deref(), Some(""));
    assert_eq!((text(&tail), last), ("id: lost".to_owned(), String::new()));
    let (events, _, _) = parse([&b"event: odd\nid\nretry: 10x\nretry:\nretry: 007\ndata: x\n\n"[..]]);
    assert_eq!((events[0].0.as_str(), events[0].2.as_deref(), events[0].3), ("odd", Some(""), Some(7)));
    let (events, ..) = parse([&b"event: odd\nevent:\ndata: x\nid: a\0b\n\n"[..]]);
    assert_eq!((events[0].0.as_str(), &events[0].2), ("message", &None));
    // WHATWG dispatches at the CR; nothing follows that could belong to it.
    let (events, tail, _) = parse([&b"data: a\r\n\r"[..]]);
    assert_eq!((events[0].1.as_deref(), tail), (Some("a"), Vec::new()));
}

#[test]
fn r23_an_event_comes_with_the_last_byte_of_its_blank_line() {
    for (stream, torn) in
        [(&b"data: a\n\n"[..], 0), (b"data: a\r\n\r\n", 0), (b"data: a\r\r", 0), (b"data: a\r\r\n", 1)]
    {
        let (mut parser, mut events) = (Parser::new(), Vec::new());
        let (whole, rest) = stream.split_at(stream.len() - torn);
        for (at, byte) in whole.iter().enumerate() {
            assert!(events.is_empty(), "after {at} bytes");
            parser.push(&[*byte], &mut events);
        }
        assert_eq!(events.len(), 1);
        parser.push(rest, &mut events);
        assert_eq!((events.len(), parser.pending()), (1, rest));
    }
}

#[test]
fn r24_a_stream_cut_anywhere_reads_the_same() {
    for (name, bytes) in streams() {
        let whole = parse([&bytes[..]]);
        for cut in 0..=bytes.len() {
            let (front, back) = bytes.split_at(cut);
            assert_eq!(parse([front, back]), whole, "{name} cut at {cut}");
            for second in cut..=bytes.len() {
                let (middle, end) = back.split_at(second - cut);
                assert_eq!(parse([front, middle, end]), whole, "{name} cut at {cut} and {second}");
            }
        }
        assert_eq!(parse(bytes.chunks(1)), whole, "{name} byte by byte");
    }
}

/// xorshift64: the same numbers in every run.
fn random(state: &mut u64, below: usize) -> usize {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    usize::try_from(*state % below as u64).unwrap()
}

#[test]
fn random_streams_cut_at_random_read_the_same() {
    let parts: [&[u8]; 14] = [
        b"\n",
        b"\r",
        b"\r\n",
        b"\n\n",
        b"\r\n\r\n",
        b"data",
        b":",
        b" ",
        b"data: x",
        b"id: 1",
        b"retry: 5",
        b"event: e",
        b": c",
        b"\xef\xbb\xbf",
    ];
    let mut state = 0x5eed_0001;
    for _ in 0..3000 {
        let count = random(&mut state, 24);
        let bytes: Vec<u8> =
            (0..count).flat_map(|_| parts[random(&mut state, parts.len())].to_vec()).collect();
        let whole = parse([&bytes[..]]);
        let mut pieces = Vec::new();
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            let (piece, after) = rest.split_at(1 + random(&mut state, rest.len().min(7)));
            pieces.push(piece);
            rest = after;
        }
        assert_eq!(parse(pieces), whole, "{}", text(&bytes));
    }
}

#[test]
fn what_is_written_reads_back() {
    let table: [(Outgoing<'_>, &[u8]); 5] = [
        (
            Outgoing { kind: Some("message"), data: Some(b"{}"), ..Outgoing::default() },
            b"event: message\ndata: {}\n\n",
        ),
        (Outgoing { id: Some("7"), data: Some(b""), ..Outgoing::default() }, b"id: 7\ndata: \n\n"),
        (Outgoing { retry: Some(200), ..Outgoing::default() }, b"retry: 200\n\n"),
        (
            Outgoing { data: Some(b" a\r\nb\rc\n"), ..Outgoing::default() },
            b"data:  a\ndata: b\ndata: c\ndata: \n\n",
        ),
        (Outgoing::default(), b"\n"),
    ];
    for (event, expected) in table {
        assert_eq!(text(&event.encode().unwrap()), text(expected));
    }
    let event = Outgoing { kind: Some("e"), id: Some("i"), retry: Some(1), data: Some(b" x\ny") };
    let (events, ..) = parse([&event.encode().unwrap()[..]]);
    let (kind, data, id, retry, ..) = &events[0];
    assert_eq!(
        (kind.as_str(), data.as_deref(), id.as_deref(), *retry),
        ("e", Some(" x\\ny"), Some("i"), Some(1))
    );
    for bad in ["a\nb", "a\rb", "a\0"] {
        assert_eq!(Outgoing { id: Some(bad), ..Outgoing::default() }.encode(), Err(BadField));
        assert_eq!(Outgoing { kind: Some(bad), ..Outgoing::default() }.encode(), Err(BadField));
    }
    assert_eq!(parse([KEEP_ALIVE]).0[0].4, 1);
}

#[test]
fn a_large_event_takes_linear_time() {
    let mut stream = b"data: ".to_vec();
    stream.resize(32 * 1024 * 1024, b'x');
    stream.extend_from_slice(b"\n\n");
    let (mut parser, mut events) = (Parser::new(), Vec::new());
    for piece in stream.chunks(1000) {
        parser.push(piece, &mut events);
    }
    assert_eq!(events[0].raw().len(), stream.len());
}

#[test]
fn an_event_that_is_released_before_its_lf_is_the_same_event() {
    for line in ["\r\n", "\r", "\n"] {
        let stream = format!("id: 1{line}data: a{line}{line}: b{line}data: c{line}{line}");
        for size in 1..=stream.len() {
            let (mut parser, mut events, mut whole) = (Parser::new(), Vec::new(), Vec::new());
            for piece in stream.as_bytes().chunks(size) {
                parser.push(piece, &mut events);
                parser.release(&mut events);
                // Nothing that a client has seen the end of is still waited for.
                let mut again = Vec::new();
                parser.release(&mut again);
                assert!(again.is_empty());
            }
            let rest = parser.finish();
            assert!(rest.event.is_none(), "{stream:?} {size}");
            events.iter().for_each(|event| whole.extend_from_slice(event.raw()));
            whole.extend_from_slice(&rest.tail);
            assert_eq!(whole, stream.as_bytes());
            let said: Vec<_> = events.iter().filter_map(|event| event.data()).collect();
            assert_eq!(said, [b"a", b"c"], "{stream:?} {size}");
        }
    }
}
