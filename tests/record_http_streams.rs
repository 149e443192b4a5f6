//! Recording streams of events over HTTP: each event when it comes, cuts as cuts, and peers that break off.

use std::io::Write as _;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use crate::support::http::{LAST, SSE, Upstream, answer, chunk, json, read_to_end, records, reset, timed};
use crate::support::{LONG, Sandbox, eventually};

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a"}}"#;
const RESULT: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const PROGRESS: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"n":1}}"#;
const STREAM: &str = "Accept: text/event-stream\r\n";

fn event(data: &str) -> String {
    format!("event: message\ndata: {data}\n\n")
}

/// A server that sends what it is told to, when it is told to: `None` ends the stream.
fn told() -> (Upstream, Sender<Option<Vec<u8>>>) {
    let (tell, told) = channel::<Option<Vec<u8>>>();
    let told = Mutex::new(told);
    let upstream = Upstream::start(move |_, socket| {
        let told = told.lock().unwrap();
        socket.write_all(SSE.as_bytes()).unwrap();
        while let Ok(Some(bytes)) = told.recv() {
            socket.write_all(&bytes).unwrap();
        }
        socket.write_all(LAST).is_ok()
    });
    (upstream, tell)
}

/// A server that begins a stream and waits for the other side to leave, which it reports.
fn silent(head: &'static str) -> (Upstream, Receiver<()>) {
    let (tell, left) = channel();
    let upstream = Upstream::start(move |request, socket| {
        if request.text().contains("ping") {
            return socket.write_all(&json(RESULT)).is_ok();
        }
        socket.write_all(head.as_bytes()).unwrap();
        read_to_end(socket);
        let _ = tell.send(());
        false
    });
    (upstream, left)
}

#[test]
fn r023_an_event_is_passed_on_before_the_next_one_comes() {
    let (upstream, tell) = told();
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let mut wire = proxy.begin_post("", CALL);
    // Nothing is sent before the event before it has arrived: a proxy that held one back would never end this.
    wire.until("\r\n\r\n");
    for _ in 0..20 {
        tell.send(Some(chunk(event(PROGRESS).as_bytes()))).unwrap();
        let (got, took) = timed(|| wire.until("\n\n\r\n"));
        assert!(got.ends_with(&format!("{}\r\n", event(PROGRESS))), "{got}");
        assert!(took < Duration::from_secs(2), "{took:?}");
    }
    tell.send(Some(chunk(event(RESULT).as_bytes()))).unwrap();
    wire.until("\n\n\r\n");
    tell.send(None).unwrap();
    wire.until("0\r\n\r\n");
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    assert_eq!(kept.len(), 22);
    assert!(
        kept[1]
            .starts_with(r#"{"exchange":1,"from":"server","http":{"status":200,"type":"sse"},"payload":{"#)
    );
    assert!(kept[2].starts_with(r#"{"exchange":1,"from":"server","payload":{"#), "{}", kept[2]);
}

#[test]
fn r024_every_way_to_write_events_is_understood_and_passed_on_as_it_is() {
    let streams: [(&[u8], usize); 5] = [
        (b"event: message\r\nid: 1\r\ndata: {\"a\":1}\r\n\r\n: ping\r\n\r\ndata: {\"jsonrpc\":\"2.0\",\r\ndata: \"id\":1,\"result\":{}}\r\n\r\n", 2),
        (b"data: {\"a\":1}\r\rdata:{\"id\":1,\"result\":{}}\r\r", 2),
        (b"\xef\xbb\xbfdata: {\"a\":1}\n\nretry: 5\nid: 3\ndata\n\ndata: {\"id\":1,\"result\":{}}\nunknown: x\n\n", 3),
        (b":\n\n:\n\ndata: not JSON\n\nevent: other\ndata: {\"b\":1}\n\ndata: {\"id\":1,\"result\":{}}\n\n", 2),
        (b"data: {\"id\":1,\"result\":{}}\n\ndata: half an ev", 1),
    ];
    for (stream, messages) in streams {
        for size in [1, 3, stream.len()] {
            let upstream = Upstream::start(move |_, socket| {
                socket.write_all(SSE.as_bytes()).unwrap();
                for piece in stream.chunks(size) {
                    socket.write_all(&chunk(piece)).unwrap();
                }
                socket.write_all(LAST).is_ok()
            });
            let sandbox = Sandbox::new();
            let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
            let got = proxy.post("", CALL);
            assert_eq!(got.body, stream, "{}", String::from_utf8_lossy(stream));
            proxy.stop(0);
            let kept = records(&sandbox, "c.json");
            let (other, shown) = (kept.iter().any(|record| record.contains("\"b\"")), kept.len() - 1);
            // An event of another kind has no message in it.
            let expected = messages + usize::from(stream.starts_with(b":"));
            assert_eq!((other, shown), (false, expected), "{kept:?}");
            assert!(kept.last().unwrap().contains(r#""id":1"#), "{kept:?}");
        }
    }
}

#[test]
fn r029_a_client_that_leaves_takes_the_request_at_the_server_along() {
    // While it streams, and before there is a head.
    for head in [SSE, ""] {
        let (upstream, left) = silent(head);
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        let mut wire = proxy.begin_post("", CALL);
        upstream.next();
        if !head.is_empty() {
            wire.until("\r\n\r\n");
        }
        let ((), took) = timed(|| {
            wire.close();
            left.recv_timeout(LONG).unwrap();
        });
        assert!(took < Duration::from_secs(1), "{took:?}");
        eventually("the end on disk", || {
            sandbox
                .every_file()
                .iter()
                .any(|(_, bytes)| memchr::memmem::find(bytes, b"client_closed").is_some())
        });
        proxy.stop(0);
        let kept = records(&sandbox, "c.json");
        assert_eq!(kept.last().unwrap(), r#"{"end":"client_closed","exchange":1,"from":"server"}"#);
    }
}

#[test]
fn r029_a_client_that_leaves_after_its_answer_has_not_broken_off() {
    let (upstream, tell) = told();
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let mut wire = proxy.begin_post("", CALL);
    tell.send(Some(chunk(event(RESULT).as_bytes()))).unwrap();
    wire.until(RESULT);
    // As Python does: with a reset, and the stream still open.
    reset(&wire.socket);
    wire.close();
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    assert_eq!(kept.len(), 2, "{kept:?}");
}

#[test]
fn r030_a_server_that_breaks_off_is_a_cut_for_the_client_and_in_the_cassette() {
    let half = "data: {\"half\":";
    for how in ["close", "reset", "no head", "reset before a head", "half a head", "json", "chunk", "end"] {
        let upstream = Upstream::start(move |_, socket| {
            match how {
                "close" | "reset" | "end" => {
                    socket.write_all(SSE.as_bytes()).unwrap();
                    socket.write_all(&chunk(event(PROGRESS).as_bytes())).unwrap();
                    if how == "end" {
                        return socket.write_all(LAST).is_ok();
                    }
                    socket.write_all(&chunk(half.as_bytes())).unwrap();
                    // The reset must not take what was sent along.
                    std::thread::sleep(Duration::from_millis(if how == "reset" { 100 } else { 0 }));
                }
                "half a head" => socket.write_all(b"HTTP/1.1 200 OK\r\nContent-").unwrap(),
                "json" => socket
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"id\"")
                    .unwrap(),
                "chunk" => socket
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"id\"\r\n")
                    .unwrap(),
                _ => {}
            }
            if how.starts_with("reset") {
                reset(socket);
            }
            false
        });
        let sandbox = Sandbox::new();
        let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
        let got = String::from_utf8(proxy.begin_post("Connection: close\r\n", CALL).rest()).unwrap();
        match how {
            "close" | "reset" => {
                assert!(got.contains(PROGRESS) && got.ends_with(&format!("{half}\r\n")), "{how}: {got}");
            }
            "json" => assert!(got.contains("Content-Length: 99") && got.ends_with("{\"id\""), "{got}"),
            // The last byte of what might have been all waits for the record.
            "chunk" => assert!(got.ends_with("4\r\n{\"id\r\n1\r\n\"\r\n"), "{got}"),
            "end" => assert!(got.ends_with("0\r\n\r\n"), "{got}"),
            _ => assert_eq!(got, "", "{how}"),
        }
        proxy.stop(0);
        let kept = records(&sandbox, "c.json");
        assert_eq!(kept.last().unwrap(), r#"{"end":"cut","exchange":1,"from":"server"}"#, "{how}: {kept:?}");
        assert!(!kept.iter().any(|record| record.contains("half")), "{kept:?}");
    }
}

#[test]
fn r031_a_stream_that_is_resumed_is_one_exchange() {
    let upstream = Upstream::start(|request, socket| {
        let session = "HTTP/1.1 200 OK\r\nMcp-Session-Id: s\r\n";
        let body = match (request.method.as_str(), request.header("last-event-id")) {
            ("POST", _) if request.text().contains("initialize") => {
                socket.write_all(format!("{session}Content-Length: 0\r\n\r\n").as_bytes()).unwrap();
                return true;
            }
            ("POST", _) => "id: x-1\nretry: 200\ndata: \n\n".to_owned(),
            (_, Some("x-1")) => format!("id: x-2\ndata: {PROGRESS}\n\n"),
            (_, Some("x-2")) => format!("id: x-3\ndata: {RESULT}\n\n"),
            (_, Some("g-1")) => format!("id: g-2\ndata: {PROGRESS}\n\n"),
            _ => format!("id: g-1\ndata: {PROGRESS}\n\n"),
        };
        let answer = format!("{SSE}{}0\r\n\r\n", String::from_utf8(chunk(body.as_bytes())).unwrap());
        socket.write_all(answer.as_bytes()).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let session = "Mcp-Session-Id: s\r\n";
    proxy.post("", r#"{"jsonrpc":"2.0","id":0,"method":"initialize"}"#);
    proxy.get("/mcp", &format!("{STREAM}{session}"));
    proxy.post(session, CALL);
    for id in ["x-1", "g-1", "x-2", "never-seen"] {
        proxy.get("/mcp", &format!("{STREAM}{session}Last-Event-ID: {id}\r\n"));
    }
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    let of = |exchange: u32| -> Vec<String> {
        let mark = format!("\"exchange\":{exchange},");
        let short = |record: &String| {
            record.replace(&mark, "").replace("\"session\":1", "").replace(PROGRESS, "P").replace(RESULT, "R")
        };
        kept.iter().filter(|record| record.contains(&mark)).map(short).collect()
    };
    let shape = |records: Vec<String>| -> Vec<String> {
        records.into_iter().map(|record| record.replace(",,", ",").replace(",}", "}")).collect()
    };
    let call = shape(of(3));
    assert_eq!(call.len(), 8, "{call:?}");
    assert!(call[1].contains(r#""http":{"event":1,"retry":200,"status":200,"type":"sse"}"#), "{call:?}");
    assert!(call[2].contains(r#""end":"cut""#), "{call:?}");
    assert!(call[3].contains(r#""http":{"last-event-id":1,"method":"GET"}"#), "{call:?}");
    assert!(call[4].contains(r#""http":{"event":2,"status":200,"type":"sse"}"#), "{call:?}");
    assert!(call[5].contains(r#""end":"cut""#), "{call:?}");
    assert!(call[6].contains(r#""last-event-id":2"#), "{call:?}");
    assert!(call[7].contains(r#""event":3"#) && call[7].contains("\"result\":{}"), "{call:?}");
    assert!(!call.iter().any(|record| record.contains("stream")), "{call:?}");
    let get = of(2);
    assert_eq!(get.len(), 8, "{get:?}");
    assert!(
        get.iter()
            .all(|record| record.contains("\"stream\":\"get\"") == record.contains("\"from\":\"server\"")),
        "{get:?}"
    );
    // Not one of ours: a stream of its own.
    assert_eq!(of(4).len(), 4, "{kept:?}");
    assert!(kept.iter().all(|record| record.contains("\"session\":1")), "{kept:?}");
    let text = sandbox.read("c.json");
    assert!(!text.contains("x-1") && !text.contains("g-1") && !text.contains("never-seen"), "{text}");
}

#[test]
fn r032_fifty_open_streams_block_nobody() {
    let (upstream, left) = silent(SSE);
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let mut streams: Vec<_> = (0..50).map(|_| proxy.begin("GET", "/mcp", STREAM)).collect();
    for stream in &mut streams {
        stream.until("\r\n\r\n");
    }
    let ((), took) = timed(|| {
        for _ in 0..50 {
            assert_eq!(proxy.post("", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).text(), RESULT);
        }
    });
    assert!(took < Duration::from_secs(5), "{took:?}");
    drop(streams);
    for _ in 0..50 {
        left.recv_timeout(LONG).unwrap();
    }
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    assert_eq!(kept.iter().filter(|record| record.contains("\"end\":\"client_closed\"")).count(), 50);
    assert_eq!(kept.len(), 50 * 3 + 50 * 2);
}

#[test]
fn r035_http_with_sse_works_whatever_the_endpoint_looks_like() {
    for relative in [true, false] {
        for more in [&["-q"][..], &["-q", "--header", "X-Key: k"]] {
            let (tell, told) = channel();
            let told: Mutex<Receiver<String>> = Mutex::new(told);
            let upstream = Upstream::start(move |request, socket| match request.method.as_str() {
                "GET" => {
                    let own = format!("http://{}", request.header("host").unwrap());
                    let origin = if relative { "" } else { &own };
                    let endpoint =
                        format!("event: endpoint\r\ndata: {origin}/messages/?session_id=s3cret\r\n\r\n");
                    socket.write_all(SSE.as_bytes()).unwrap();
                    socket.write_all(&chunk(endpoint.as_bytes())).unwrap();
                    let told = told.lock().unwrap().recv_timeout(LONG).unwrap();
                    let event = format!("event: message\r\ndata: {told}\r\n\r\n");
                    socket.write_all(&chunk(event.as_bytes())).unwrap();
                    read_to_end(socket);
                    false
                }
                _ => {
                    assert_eq!(request.target, "/messages/?session_id=s3cret");
                    socket.write_all(&answer("202 Accepted", "", "Accepted")).is_ok()
                }
            });
            let sandbox = Sandbox::new();
            let proxy = sandbox.proxy("c.json", &upstream.url("/sse"), more);
            let mut stream = proxy.begin("GET", &proxy.path, STREAM);
            let got = stream.until("\r\n\r\n\r\n");
            let endpoint = got.split("data: ").nth(1).unwrap().trim().to_owned();
            let prefix = proxy.path.strip_suffix("/sse").unwrap();
            let origin = if relative { String::new() } else { format!("http://{}", proxy.address) };
            assert_eq!(endpoint, format!("{origin}{prefix}/messages/?session_id=s3cret"));
            let path = endpoint.strip_prefix(&*origin).unwrap();
            assert_eq!(proxy.begin_post_to(path, "", CALL).answer().status, 202);
            tell.send(RESULT.to_owned()).unwrap();
            stream.until(RESULT);
            stream.close();
            eventually("the end on disk", || {
                let files = sandbox.every_file();
                files.iter().any(|(_, bytes)| memchr::memmem::find(bytes, b"client_closed").is_some())
            });
            proxy.stop(0);
            assert_eq!(
                records(&sandbox, "c.json"),
                [
                    r#"{"exchange":1,"from":"client","http":{"method":"GET"},"session":1}"#,
                    r#"{"exchange":1,"from":"server","http":{"status":200,"type":"sse"},"session":1,"stream":"get"}"#,
                    r#"{"exchange":2,"from":"client","payload":{"id":1,"jsonrpc":"2.0","method":"tools/call","params":{"name":"a"}},"session":1}"#,
                    r#"{"exchange":2,"from":"server","http":{"status":202},"session":1}"#,
                    r#"{"exchange":1,"from":"server","payload":{"id":1,"jsonrpc":"2.0","result":{}},"session":1,"stream":"get"}"#,
                    r#"{"end":"client_closed","exchange":1,"from":"server","session":1,"stream":"get"}"#,
                ]
            );
            assert!(!sandbox.read("c.json").contains("s3cret"));
        }
    }
}

#[test]
fn r071_nothing_is_added_to_a_silent_stream() {
    let (upstream, tell) = told();
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let mut wire = proxy.begin("GET", "/mcp", STREAM);
    wire.until("\r\n\r\n");
    tell.send(Some(chunk(b": from the server\n\n"))).unwrap();
    tell.send(None).unwrap();
    assert_eq!(wire.until("0\r\n\r\n"), "13\r\n: from the server\n\n\r\n0\r\n\r\n");
    proxy.stop(0);
}

#[test]
fn a_gigantic_answer_passes_in_pieces_and_is_kept_whole() {
    let text = "x".repeat(5_000_000);
    let body = format!(r#"{{"jsonrpc":"2.0","id":1,"result":{{"text":"{text}"}}}}"#);
    let reply = json(&body);
    let upstream = Upstream::start(move |request, socket| {
        assert_eq!(request.body.len(), 3_000_000 + 12);
        socket.write_all(&reply).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let request = format!(r#"{{"text": "{}"}}"#, "y".repeat(3_000_000));
    assert!(proxy.post("", &request).text() == body);
    proxy.stop(0);
    assert!(sandbox.read("c.json").contains(&text));
}

#[test]
fn what_was_passed_on_survives_a_kill() {
    let (upstream, tell) = told();
    let sandbox = Sandbox::new();
    let mut proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let mut wire = proxy.begin_post("", CALL);
    tell.send(Some(chunk(event(PROGRESS).as_bytes()))).unwrap();
    wire.until(PROGRESS);
    std::thread::sleep(Duration::from_millis(50));
    proxy.client.kill();
    let files = sandbox.every_file();
    let kept = files.iter().find(|(path, _)| path.extension().is_some_and(|end| end == "jsonl")).unwrap();
    let lines: Vec<&[u8]> = kept.1.split(|byte| *byte == b'\n').collect();
    assert_eq!(lines.len(), 4, "{}", String::from_utf8_lossy(&kept.1));
    sandbox.mcpreel(["recover", "c.json"]).run().expect(0);
    assert_eq!(records(&sandbox, "c.json").len(), 2);
}

#[test]
fn a_recording_that_fails_leaves_the_session_alone() {
    let upstream = Upstream::saying(json(RESULT));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    assert_eq!(proxy.post("", CALL).text(), RESULT);
    std::fs::remove_dir_all(sandbox.path.join("c.json.partial")).unwrap();
    for _ in 0..200 {
        assert_eq!(proxy.post("", CALL).text(), RESULT);
    }
    let said = proxy.stop(1).stderr;
    assert!(said.contains("recording stopped: the recording folder was removed"), "{said}");
}

#[test]
fn a_batch_is_one_message_and_each_of_its_answers_counts() {
    let upstream = Upstream::start(|_, socket| {
        let events = format!("{}{}", event(r#"{"id":1,"result":{}}"#), event(r#"[{"id":2,"result":{}}]"#));
        socket.write_all(&[SSE.as_bytes(), &chunk(events.as_bytes()), LAST].concat()).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    proxy.post("", r#"[{"id":1,"method":"a"},{"id":2,"method":"b"}]"#);
    proxy.post("", r#"[{"id":1,"method":"a"},{"id":3,"method":"b"}]"#);
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    assert_eq!(kept.iter().filter(|record| record.contains("\"end\"")).count(), 1, "{kept:?}");
    assert_eq!(kept[6], r#"{"end":"cut","exchange":2,"from":"server"}"#);
}
