use super::*;

fn decode<'p>(
    pieces: impl IntoIterator<Item = &'p [u8]>,
    limit: u64,
) -> Result<(Vec<u8>, usize, bool), ChunkError> {
    let mut decoder = Decoder::new(limit);
    let (mut data, mut total) = (Vec::new(), 0);
    for mut piece in pieces {
        while !piece.is_empty() && !decoder.is_done() {
            let (used, found) = decoder.decode(piece, 5)?;
            assert!(used > 0 && found.len() <= 5);
            data.extend_from_slice(found);
            total += used;
            piece = &piece[used..];
        }
    }
    Ok((data, total, decoder.is_done()))
}

const GOOD: [(&[u8], &[u8]); 6] = [
    (b"0\r\n\r\n", b""),
    (b"5\r\nhello\r\n0\r\n\r\n", b"hello"),
    (b"00000000000000A\r\n0123456789\r\n000\r\n\r\n", b"0123456789"),
    (b"3;a=b;c=\"d e\"\r\nabc\r\n1 \t;x\r\nd\r\n0;last\r\nX-Trailer: 1\r\nY:\r\n\r\n", b"abcd"),
    (b"2\r\n\r\n\r\n0\r\n\r\n", b"\r\n"),
    (b"1\r\na\r\n0\r\n\r\nGET / HTTP/1.1\r\n", b"a"),
];

#[test]
fn good_bodies_cut_anywhere() {
    for (body, expected) in GOOD {
        let whole = decode([body], 100).unwrap();
        assert_eq!((whole.0.as_slice(), whole.2), (expected, true));
        for cut in 0..=body.len() {
            assert_eq!(decode([&body[..cut], &body[cut..]], 100).unwrap(), whole);
        }
        assert_eq!(decode(body.chunks(1), 100).unwrap(), whole);
    }
    let after = decode([GOOD[5].0], 100).unwrap().1;
    assert_eq!(&GOOD[5].0[after..], b"GET / HTTP/1.1\r\n");
}

#[test]
fn bad_bodies_are_refused_however_they_are_cut() {
    use ChunkError::{Data, Overhead, Size, TooLarge, Trailer};
    let long = [&b"1;"[..], &b"x".repeat(20_000), b"\r\na\r\n0\r\n\r\n"].concat();
    let trailers = [&b"0\r\n"[..], &b"Name: value value\r\n".repeat(2000), b"\r\n"].concat();
    let table: [(&[u8], ChunkError); 24] = [
        (b"\r\n", Size),
        (b"x\r\n", Size),
        (b"-1\r\n", Size),
        (b"+1\r\na", Size),
        (b"0x1\r\na", Size),
        (b" 1\r\na", Size),
        (b"1 \r\na", Size),
        (b"1 1\r\na", Size),
        (b"1\na\r\n", Size),
        (b"1\r\r\na", Size),
        (b"1;\0\r\na", Size),
        (b"1;a\nb\r\n", Size),
        (b"00000000000000001\r\na", Size),
        (b"fffffffffffffffff\r\n", Size),
        (b"ffffffffffffffff\r\n", TooLarge),
        (b"65\r\n", TooLarge),
        (b"64\r\n", Data),
        (b"1\r\nab\r\n", Data),
        (b"1\r\na\n0\r\n\r\n", Data),
        (b"0\r\n folded: 1\r\n\r\n", Trailer),
        (b"0\r\nno colon\r\n\r\n", Trailer),
        (b"0\r\na: b\nc: d\r\n\r\n", Trailer),
        (&long, Overhead),
        (&trailers, Overhead),
    ];
    for (body, expected) in table {
        let filled =
            if expected == Data && body.len() == 4 { [body, &[b'x'; 101]].concat() } else { body.to_vec() };
        for size in [1, 2, 3, 7, filled.len()] {
            assert_eq!(decode(filled.chunks(size), 100), Err(expected), "{}", body.escape_ascii());
        }
    }
    // What the sizes of several chunks add up to counts.
    let many = b"9\r\n123456789\r\n".repeat(12);
    assert_eq!(decode([&many[..]], 100), Err(TooLarge));
}

#[test]
fn one_chunk_per_flush() {
    let mut writer = ChunkWriter::new(Vec::new());
    writer.write_all(b"data: ").unwrap();
    writer.write_all(b"a\n\n").unwrap();
    writer.flush().unwrap();
    writer.flush().unwrap();
    writer.write_chunk(b": ka\n\n").unwrap();
    writer.write_all(b"end").unwrap();
    let out = writer.finish().unwrap();
    assert_eq!(out, b"9\r\ndata: a\n\n\r\n6\r\n: ka\n\n\r\n3\r\nend\r\n0\r\n\r\n");
}

#[test]
fn random_writes_read_back() {
    let mut state: u64 = 0x5eed_0002;
    let mut random = |below: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        usize::try_from(state % below).unwrap()
    };
    for _ in 0..200 {
        let mut expected = Vec::new();
        let mut writer = ChunkWriter::new(Vec::new());
        for _ in 0..random(12) {
            let most = if random(10) == 0 { 200_000 } else { 40 };
            let piece = vec![b'x'; random(most)];
            writer.write_all(&piece).unwrap();
            expected.extend_from_slice(&piece);
            if random(2) == 0 {
                writer.flush().unwrap();
            }
        }
        let body = writer.finish().unwrap();
        let mut decoder = Decoder::new(u64::MAX);
        let (mut data, mut rest) = (Vec::new(), &body[..]);
        while !decoder.is_done() {
            let cut = (1 + random(5000)).min(rest.len());
            let (used, found) = decoder.decode(&rest[..cut], usize::MAX).unwrap();
            data.extend_from_slice(found);
            rest = &rest[used..];
        }
        assert_eq!((data == expected, rest), (true, &b""[..]));
    }
}
