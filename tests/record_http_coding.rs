//! Recording over HTTP: answers that are compressed although nobody asked for it.

use std::io::Write;

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use crate::support::Sandbox;
use crate::support::http::{LAST, SSE, Upstream, chunk, records};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}"#;

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

fn coded(coding: &str, text: &[u8]) -> Vec<u8> {
    let level = Compression::default();
    match coding {
        "gzip" => gzip(text),
        "deflate" => {
            let mut encoder = ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
        // As many servers do it.
        _ => {
            let mut encoder = DeflateEncoder::new(Vec::new(), level);
            encoder.write_all(text).unwrap();
            encoder.finish().unwrap()
        }
    }
}

fn reply(kind: &str, coding: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Encoding: {coding}\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

#[test]
fn r034_a_compressed_answer_passes_as_it_is_and_is_kept_as_if_it_were_not() {
    for (name, coding) in [("gzip", "gzip"), ("X-Gzip", "gzip"), ("deflate", "deflate"), ("deflate", "bare")]
    {
        let body = coded(coding, RESULT.as_bytes());
        let upstream = Upstream::saying(reply("application/json", name, &body));
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &[]);
        let got = proxy.post("Accept-Encoding: gzip\r\n", CALL);
        assert_eq!((got.header("content-encoding"), &got.body), (Some(name), &body));
        let said = proxy.stop(0).stderr;
        assert!(!said.contains("coding"), "{said}");
        let kept = records(&sandbox, "c.json");
        assert_eq!(
            kept[1..],
            [
                r#"{"exchange":1,"from":"server","http":{"status":200,"type":"json"},"payload":{"id":1,"jsonrpc":"2.0","result":{}}}"#
            ]
        );
        let replay = sandbox.listen(["serve", "c.json", "--listen", "127.0.0.1:0"]);
        assert_eq!(replay.post(CALL, &[]).expect(200).body, RESULT);
        replay.end(0);
    }
}

#[test]
fn r034_events_in_a_compressed_stream_are_kept_before_they_are_passed_on() {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    let mut pieces = Vec::new();
    for event in [format!("data: {PROGRESS}\n\n"), format!("id: 7\ndata: {RESULT}\n\n")] {
        // As a server that streams does it: what is there goes out.
        encoder.write_all(event.as_bytes()).unwrap();
        encoder.flush().unwrap();
        pieces.push(std::mem::take(encoder.get_mut()));
    }
    let rest = encoder.finish().unwrap();
    let sent = [&*pieces.concat(), &rest].concat();
    for size in [1, 5, sent.len()] {
        let whole = sent.clone();
        let upstream = Upstream::start(move |_, socket| {
            let head = SSE.replace("Transfer", "Content-Encoding: gzip\r\nTransfer");
            socket.write_all(head.as_bytes()).unwrap();
            whole.chunks(size).for_each(|piece| socket.write_all(&chunk(piece)).unwrap());
            socket.write_all(LAST).is_ok()
        });
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        assert_eq!(proxy.post("", CALL).body, sent);
        proxy.stop(0);
        assert_eq!(
            records(&sandbox, "c.json")[1..],
            [
                r#"{"exchange":1,"from":"server","http":{"status":200,"type":"sse"},"payload":{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}}"#,
                r#"{"exchange":1,"from":"server","http":{"event":1},"payload":{"id":1,"jsonrpc":"2.0","result":{}}}"#,
            ]
        );
    }
}

#[test]
fn r034_an_answer_that_cannot_be_read_passes_and_its_replay_is_a_miss() {
    let short = gzip(RESULT.as_bytes());
    for (kind, name, body) in [
        ("application/json", "br", b"\x8b\x02\x80abc\x03".to_vec()),
        ("application/json", "gzip, br", b"abc".to_vec()),
        ("application/json", "gzip", RESULT.as_bytes().to_vec()),
        ("application/json", "gzip", short[..short.len() - 1].to_vec()),
        ("text/event-stream", "zstd", b"abc".to_vec()),
        ("text/event-stream", "gzip", format!("data: {RESULT}\n\n").into_bytes()),
    ] {
        let upstream = Upstream::saying(reply(kind, name, &body));
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        for _ in 0..2 {
            assert_eq!(proxy.post("", CALL).body, body);
        }
        let said = proxy.stop(0).stderr;
        let note = format!(
            "an answer in the content coding {name} cannot be read: it was passed on and is not in the cassette"
        );
        assert_eq!(said.matches(&note).count(), 1, "{said}");
        let kept = records(&sandbox, "c.json");
        assert_eq!(kept[2], r#"{"end":"not_kept","exchange":1,"from":"server"}"#, "{kept:?}");
        let replay = sandbox.listen(["serve", "c.json", "--listen", "127.0.0.1:0"]);
        replay.post(CALL, &[]).fails(200, -31002);
        replay.end(3);
    }
}

#[test]
fn what_a_compressed_body_grows_to_is_what_counts() {
    // A page of 64 KiB is kept, one byte more is not, however small they come.
    for (size, kept) in [(64 << 10, true), ((64 << 10) + 1, false)] {
        let text = "x".repeat(size);
        let upstream = Upstream::saying(reply("text/plain", "gzip", &gzip(text.as_bytes())));
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        proxy.post("", CALL);
        proxy.stop(0);
        assert_eq!(records(&sandbox, "c.json")[1].contains(&text), kept, "{size}");
    }
}
