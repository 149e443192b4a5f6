//! Recording over HTTP: what passes, how, and what of it is in the cassette. Streams are in `record_http_streams.rs`.

use std::io::Write as _;

use crate::support::http::{Upstream, answer, chunk, json, records};
use crate::support::{Sandbox, eventually};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

#[test]
fn r022_a_json_answer_is_passed_on_as_it_is() {
    let body = "{ \"jsonrpc\": \"2.0\",\r\n \"result\": {\"n\": 1.0, \"s\": \"\\u00e9\"}, \"id\": 1}";
    let upstream = Upstream::start(move |request, socket| {
        let whole = request.text().contains("whole");
        let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json; charset=utf-8\r\n";
        if whole {
            socket
                .write_all(&answer("200 OK", "Content-Type: application/json; charset=utf-8\r\n", body))
                .unwrap();
        } else {
            socket.write_all(format!("{head}Transfer-Encoding: chunked\r\n\r\n").as_bytes()).unwrap();
            for piece in body.as_bytes().chunks(7) {
                socket.write_all(&chunk(piece)).unwrap();
            }
            socket.write_all(b"0\r\n\r\n").unwrap();
        }
        true
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    assert_eq!(proxy.path, "/mcp");
    let sent = " {\"jsonrpc\":\"2.0\", \"id\":1,\"method\":\"whole\"}\n";
    for request in [sent, PING] {
        let answer = proxy.post("", request);
        assert_eq!((answer.status, answer.text()), (200, body));
        assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
        assert_eq!(upstream.next().text(), request);
    }
    proxy.stop(0);
    assert_eq!(
        records(&sandbox, "c.json"),
        [
            r#"{"exchange":1,"from":"client","payload":{"id":1,"jsonrpc":"2.0","method":"whole"}}"#,
            r#"{"exchange":1,"from":"server","http":{"status":200,"type":"json"},"payload":{"id":1,"jsonrpc":"2.0","result":{"n":1.0,"s":"é"}}}"#,
            r#"{"exchange":2,"from":"client","payload":{"id":1,"jsonrpc":"2.0","method":"ping"}}"#,
            r#"{"exchange":2,"from":"server","http":{"status":200,"type":"json"},"payload":{"id":1,"jsonrpc":"2.0","result":{"n":1.0,"s":"é"}}}"#,
        ]
    );
    let text = sandbox.read("c.json");
    assert!(text.contains("\"s\": \"\\u00e9\"") && text.contains("\"n\": 1.0"), "{text}");
    assert!(text.contains("\"transport\": \"http\"") && text.contains(&upstream.url("/mcp")), "{text}");
    assert!(!text.contains("\"conn\""), "{text}");
}

#[test]
fn r025_every_status_and_method_passes() {
    let upstream = Upstream::start(|request, socket| {
        let reply = match request.method.as_str() {
            "GET" => answer("405 Method Not Allowed", "Allow: POST\r\n", ""),
            "DELETE" => answer("200 OK", "", ""),
            "OPTIONS" => b"HTTP/1.1 204 No Content\r\nX-Own: 1\r\n\r\n".to_vec(),
            _ => match request.text().as_str() {
                NOTE => b"HTTP/1.1 202 Accepted\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec(),
                "406" => answer("406 Not Acceptable", "", ""),
                "413" => answer("413 Content Too Large", "Content-Type: text/html\r\n", "<p>big</p>"),
                "429" => answer("429 Too Many Requests", "Retry-After: 7\r\n", ""),
                _ => answer(
                    "404 Not Found",
                    "Content-Type: application/json\r\n",
                    r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}"#,
                ),
            },
        };
        socket.write_all(&reply).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    assert_eq!(proxy.post("", NOTE).status, 202);
    assert_eq!(proxy.post("", "406").status, 406);
    let big = proxy.post("", "413");
    assert_eq!((big.status, big.text()), (413, "<p>big</p>"));
    assert_eq!(proxy.post("", "429").header("retry-after"), Some("7"));
    assert_eq!(proxy.post("Mcp-Session-Id: gone\r\n", PING).status, 404);
    let get = proxy.get("/mcp", "Accept: text/event-stream\r\n");
    assert_eq!((get.status, get.header("allow")), (405, Some("POST")));
    assert_eq!(proxy.begin("DELETE", "/mcp", "Mcp-Session-Id: gone\r\n").answer().status, 200);
    let options = proxy.begin("OPTIONS", "/mcp", "").answer();
    assert_eq!((options.status, options.header("x-own")), (204, Some("1")));
    proxy.stop(0);
    assert_eq!(
        records(&sandbox, "c.json"),
        [
            r#"{"exchange":1,"from":"client","payload":{"jsonrpc":"2.0","method":"notifications/initialized"}}"#,
            r#"{"exchange":1,"from":"server","http":{"status":202}}"#,
            r#"{"exchange":2,"from":"client","payload":406}"#,
            r#"{"exchange":2,"from":"server","http":{"status":406}}"#,
            r#"{"exchange":3,"from":"client","payload":413}"#,
            r#"{"exchange":3,"from":"server","http":{"status":413,"type":"text/html"},"text":"<p>big</p>"}"#,
            r#"{"exchange":4,"from":"client","payload":429}"#,
            r#"{"exchange":4,"from":"server","http":{"retry-after":"7","status":429}}"#,
            r#"{"exchange":5,"from":"client","payload":{"id":1,"jsonrpc":"2.0","method":"ping"}}"#,
            r#"{"exchange":5,"from":"server","http":{"status":404,"type":"json"},"payload":{"error":{"code":-32001,"message":"Session not found"},"id":null,"jsonrpc":"2.0"}}"#,
            r#"{"exchange":6,"from":"client","http":{"method":"GET"}}"#,
            r#"{"exchange":6,"from":"server","http":{"allow":"POST","status":405}}"#,
            r#"{"exchange":7,"from":"client","http":{"method":"DELETE"},"session":1}"#,
            r#"{"exchange":7,"from":"server","http":{"status":200},"session":1}"#,
            r#"{"exchange":8,"from":"client","http":{"method":"OPTIONS"}}"#,
            r#"{"exchange":8,"from":"server","http":{"status":204}}"#,
        ]
    );
}

#[test]
fn r026_headers_pass_both_ways_but_for_those_of_the_connection() {
    let upstream = Upstream::saying(answer(
        "200 OK",
        "Content-Type: application/json\r\nMcp-Session-Id: s-1\r\nX-Own: a\r\nX-Own: b\r\nConnection: keep-alive, X-Hop\r\nX-Hop: 1\r\n",
        PONG,
    ));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let sent = [
        ("mcp-session-id", "s-0"),
        ("last-event-id", "9"),
        ("mcp-protocol-version", "2026-07-28"),
        ("mcp-method", "ping"),
        ("mcp-name", "=?base64?w6k=?="),
        ("mcp-param-region", "eu"),
        ("x-unknown", "?"),
        ("origin", "http://localhost:6274"),
        ("authorization", "Bearer k"),
    ];
    let lines: String = sent.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let got = proxy.post(&format!("{lines}Connection: X-Mine\r\nX-Mine: 1\r\nTE: trailers\r\n"), PING);
    let seen = upstream.next();
    for (name, value) in sent {
        assert_eq!(seen.all(name), [value], "{name}");
    }
    for name in ["x-mine", "te"] {
        assert_eq!(seen.header(name), None);
    }
    assert_eq!(got.header("mcp-session-id"), Some("s-1"));
    assert_eq!(got.head.matches("x-own: ").count(), 2, "{}", got.head);
    assert_eq!(got.header("x-hop"), None);
    proxy.stop(0);
}

#[test]
fn r027_the_server_sees_its_own_name() {
    let upstream = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    proxy.post("", PING);
    let seen = upstream.next();
    assert_eq!(seen.all("host"), [upstream.address.to_string()]);
    assert_eq!(seen.all("accept-encoding"), ["identity"]);
    proxy.stop(0);
}

#[test]
fn r028_foreign_pages_and_names_are_turned_away_before_the_server_hears_of_them() {
    let upstream = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy(
        "c.json",
        &upstream.url("/mcp"),
        &["-q", "--allow-origin", "https://inspector.example"],
    );
    for headers in ["Origin: http://evil.example\r\n", "Origin: null\r\n"] {
        assert_eq!(proxy.post(headers, PING).status, 403, "{headers}");
        assert_eq!(proxy.get("/.well-known/oauth-protected-resource", headers).status, 403, "{headers}");
    }
    let mut wire = proxy.wire();
    wire.write(format!(
        "POST /mcp HTTP/1.1\r\nHost: evil.example\r\nContent-Length: {}\r\n\r\n{PING}",
        PING.len()
    ));
    assert_eq!(wire.answer().status, 403);
    assert!(upstream.received.try_recv().is_err());
    assert_eq!(proxy.post("Origin: https://inspector.example\r\n", PING).status, 200);
    upstream.next();
    proxy.stop(0);
    assert_eq!(records(&sandbox, "c.json").len(), 2);
}

#[test]
fn r033_redirects_are_not_followed_and_those_to_the_server_stay_here() {
    let upstream = Upstream::start(|request, socket| {
        let own = format!("http://{}", request.header("host").unwrap());
        let reply = match request.target.as_str() {
            "/mcp" => answer("307 Temporary Redirect", &format!("Location: {own}/mcp/\r\n"), ""),
            "/mcp/" => json(PONG),
            "/away" => answer("302 Found", "Location: https://login.example/start?state=s3cret\r\n", ""),
            _ => answer("302 Found", &format!("Location: {own}/callback?code=s3cret\r\n"), ""),
        };
        socket.write_all(&reply).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let local = format!("http://{}", proxy.address);
    let moved = proxy.post("", PING);
    assert_eq!((moved.status, moved.header("location")), (307, Some(&*format!("{local}/mcp/"))));
    assert_eq!(proxy.begin_post_to("/mcp/", "", PING).answer().text(), PONG);
    let away = proxy.get("/away", "");
    assert_eq!(away.header("location"), Some("https://login.example/start?state=s3cret"));
    let back = proxy.get("/authorize?x", "");
    assert_eq!(back.header("location"), Some(&*format!("{local}/callback?code=s3cret")));
    assert_eq!(upstream.received.try_iter().count(), 4);
    proxy.stop(0);
    let own = upstream.url("");
    assert_eq!(
        records(&sandbox, "c.json"),
        [
            r#"{"exchange":1,"from":"client","payload":{"id":1,"jsonrpc":"2.0","method":"ping"}}"#.to_owned(),
            format!(r#"{{"exchange":1,"from":"server","http":{{"location":"{own}/mcp/","status":307}}}}"#),
            r#"{"exchange":2,"from":"client","http":{"path":"/mcp/"},"payload":{"id":1,"jsonrpc":"2.0","method":"ping"}}"#.to_owned(),
            r#"{"exchange":2,"from":"server","http":{"status":200,"type":"json"},"payload":{"id":1,"jsonrpc":"2.0","result":{}}}"#.to_owned(),
            r#"{"exchange":3,"from":"client","http":{"method":"GET","path":"/away"}}"#.to_owned(),
            r#"{"exchange":3,"from":"server","http":{"location":"https://login.example/start","status":302}}"#.to_owned(),
            r#"{"exchange":4,"from":"client","http":{"method":"GET","path":"/authorize"}}"#.to_owned(),
            format!(r#"{{"exchange":4,"from":"server","http":{{"location":"{own}/callback","status":302}}}}"#),
        ]
    );
}

#[test]
fn r034_a_compressed_answer_stays_what_it_is() {
    let packed = b"\x1f\x8b\x08\x00not really\xff";
    let mut reply = answer(
        "200 OK",
        "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        &"x".repeat(packed.len()),
    );
    let body = reply.len() - packed.len();
    reply[body..].copy_from_slice(packed);
    let upstream = Upstream::saying(reply);
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let got = proxy.post("Accept-Encoding: gzip\r\n", PING);
    assert_eq!((got.header("content-encoding"), &got.body[..]), (Some("gzip"), &packed[..]));
    proxy.stop(0);
    assert_eq!(
        records(&sandbox, "c.json")[1],
        r#"{"exchange":1,"from":"server","http":{"status":200,"type":"json"}}"#
    );
}

#[test]
fn r036_a_client_that_signs_in_finds_the_way_through_us() {
    let upstream = Upstream::start(|request, socket| {
        let own = format!("http://{}", request.header("host").unwrap());
        let reply = if request.target == "/mcp" {
            let challenge = format!(
                "WWW-Authenticate: Bearer error=\"invalid_token\", resource_metadata=\"{own}/meta/mcp\"\r\n"
            );
            answer(
                "401 Unauthorized",
                &format!("Content-Type: application/json\r\n{challenge}"),
                r#"{"error":"s3cret"}"#,
            )
        } else {
            json(&format!(r#"{{"resource":"{own}/mcp", "authorization_servers":["{own}"]}}"#))
        };
        socket.write_all(&reply).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &[]);
    let refused = proxy.post("", PING);
    assert_eq!((refused.status, refused.text()), (401, r#"{"error":"s3cret"}"#));
    let challenge =
        format!("Bearer error=\"invalid_token\", resource_metadata=\"http://{}/meta/mcp\"", proxy.address);
    assert_eq!(refused.header("www-authenticate"), Some(&*challenge));
    for path in ["/meta/mcp", "/.well-known/oauth-protected-resource/mcp"] {
        let metadata = proxy.get(path, "");
        let expected =
            format!(r#"{{"resource":"{}", "authorization_servers":["{}"]}}"#, proxy.url, upstream.url(""));
        assert_eq!(metadata.text(), expected);
    }
    let said = proxy.stop(0).stderr;
    assert!(said.contains("the server asks for authorization"), "{said}");
    let kept = records(&sandbox, "c.json");
    assert!(kept[1].contains("\"www-authenticate\"") && !kept[1].contains("payload"), "{kept:?}");
    assert!(kept[3].ends_with(r#""http":{"status":200,"type":"json"}}"#), "{kept:?}");
}

#[test]
fn r037_no_credential_is_in_any_file() {
    const SECRET: &str = "s3cretK3yOfTheDay";
    let upstream = Upstream::start(|request, socket| {
        let reply = match request.target.split('?').next().unwrap() {
            "/token" => json(&format!(r#"{{"access":"{SECRET}"}}"#)),
            _ => answer(
                "200 OK",
                &format!(
                    "Content-Type: application/json\r\nMcp-Session-Id: {SECRET}\r\nSet-Cookie: sid={SECRET}\r\nX-Api-Key: {SECRET}\r\n"
                ),
                PONG,
            ),
        };
        socket.write_all(&reply).is_ok()
    });
    let url = format!("http://user:{SECRET}@{}/mcp?api_key={SECRET}", upstream.address);
    let sandbox = Sandbox::new();
    let run = sandbox
        .url_recorder(
            "c.json",
            &url,
            &["-v", "--header", &format!("X-Api-Key: {SECRET}"), "--header-env", "X-Other=OTHER_KEY"],
        )
        .env("OTHER_KEY", SECRET);
    let proxy = sandbox.proxy_of(run);
    let headers = format!(
        "Authorization: Bearer {SECRET}\r\nCookie: sid={SECRET}\r\nMcp-Session-Id: {SECRET}\r\nLast-Event-ID: {SECRET}\r\nMcp-Param-Token: {SECRET}\r\n"
    );
    let got = proxy.post(&headers, PING);
    assert_eq!(got.header("set-cookie"), Some(&*format!("sid={SECRET}")));
    let seen = upstream.next();
    assert_eq!(seen.target, format!("/mcp?api_key={SECRET}"));
    assert_eq!(seen.all("x-api-key"), [SECRET]);
    assert_eq!(seen.all("x-other"), [SECRET]);
    assert!(seen.header("authorization").unwrap().starts_with("Basic "), "{}", seen.head);
    assert_eq!(seen.all("cookie"), [format!("sid={SECRET}")]);
    let prefix = proxy.path.strip_suffix("/mcp").unwrap().to_owned();
    let form = format!("grant_type=refresh_token&refresh_token={SECRET}");
    let token = proxy.begin_post_to(&format!("{prefix}/token?key={SECRET}"), "", &form).answer();
    assert!(token.text().contains(SECRET));
    eventually("four records on disk", || {
        sandbox
            .every_file()
            .iter()
            .any(|(_, bytes)| memchr::memmem::find_iter(bytes, "\"exchange\":").count() == 4)
    });
    let look = |when: &str| {
        for (path, bytes) in sandbox.every_file() {
            for secret in [SECRET, "dXNlcjpzM2NyZXR"] {
                assert!(
                    memchr::memmem::find(&bytes, secret.as_bytes()).is_none(),
                    "{when}: {}",
                    path.display()
                );
            }
        }
    };
    look("while recording");
    let said = proxy.stop(0).stderr;
    assert!(!said.contains(SECRET), "{said}");
    look("afterwards");
    let text = sandbox.read("c.json");
    assert!(text.contains("\"mcp-param-token\": \"REDACTED-1\""), "{text}");
    assert!(text.contains("://REDACTED@") && text.contains("?api_key=REDACTED"), "{text}");
    assert!(text.contains("\"path\": \"/token\""), "{text}");
}

#[test]
fn r037_a_credential_that_was_given_is_found_in_what_the_server_says() {
    const SECRET: &str = "correct horse 88";
    let reply = format!(
        r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-1,"message":"the key {SECRET} is not valid, nor is plain-77"}}}}"#
    );
    for (name, options) in [
        ("X-Api-Key", ["--header-env", "X-Api-Key=OTHER_KEY"]),
        ("Authorization", ["--header", "Authorization: Bearer correct horse 88"]),
    ] {
        let upstream = Upstream::saying(json(&reply));
        let sandbox = Sandbox::new();
        let run = sandbox.url_recorder("c.json", &upstream.url("/mcp"), &options).env("OTHER_KEY", SECRET);
        let proxy = sandbox.proxy_of(run);
        assert_eq!(proxy.post("X-Plain: plain-77\r\n", PING).text(), reply, "{name}");
        proxy.stop(0);
        let text = sandbox.read("c.json");
        assert!(text.contains("the key REDACTED-1 is not valid, nor is plain-77"), "{name}: {text}");
    }
}

#[test]
fn r038_injected_headers_go_with_every_request_and_only_who_knows_the_path_gets_in() {
    let upstream = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    let proxy =
        sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--header", "Authorization: Bearer injected"]);
    let prefix = proxy.path.strip_suffix("/mcp").unwrap();
    assert_eq!(prefix.len(), 33, "{}", proxy.path);
    proxy.post("Authorization: Bearer mine\r\n", PING);
    proxy.get(&proxy.path, "");
    proxy.begin("DELETE", &proxy.path, "").answer();
    for method in ["POST", "GET", "DELETE"] {
        let seen = upstream.next();
        assert_eq!((&*seen.method, &*seen.target), (method, "/mcp"));
        assert_eq!(seen.all("authorization"), ["Bearer injected"]);
    }
    for path in ["/mcp", "/", &format!("{prefix}mcp"), &format!("/{}/mcp", "0".repeat(32))] {
        assert_eq!(proxy.get(path, "").status, 404, "{path}");
    }
    assert!(upstream.received.try_recv().is_err());
    proxy.stop(0);
}

#[test]
fn r039_a_server_that_is_not_there_is_told_to_the_client_and_not_stored() {
    let upstream = Upstream::saying(json(PONG));
    let url = upstream.url("/mcp");
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &url, &["-q"]);
    assert_eq!(proxy.post("", PING).status, 200);
    // It dies between two calls.
    let address = upstream.die();
    let answer = proxy.post("", r#"{"jsonrpc":"2.0","id":"\u00e9","method":"tools/call"}"#);
    assert_eq!(answer.status, 502);
    assert!(
        answer.text().starts_with(r#"{"jsonrpc":"2.0","id":"\u00e9","error":{"code":-31004,"#),
        "{}",
        answer.text()
    );
    assert!(proxy.get("/mcp", "").text().contains("\"id\":null"));
    // And comes back.
    let upstream = Upstream::start_at(address, |_, socket| socket.write_all(&json(PONG)).is_ok());
    assert_eq!(proxy.post("", PING).text(), PONG);
    drop(upstream);
    let said = proxy.stop(0).stderr;
    assert_eq!(said.matches("the server cannot be reached").count(), 1, "{said}");
    let kept = records(&sandbox, "c.json");
    assert_eq!(kept[3], r#"{"end":"cut","exchange":2,"from":"server"}"#);
    assert_eq!(kept.len(), 8, "{kept:?}");
    assert!(!sandbox.read("c.json").contains("31004"));
}

#[test]
fn r039_a_server_that_was_never_there_leaves_no_cassette() {
    let url = { Upstream::saying("").url("/mcp") };
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &url, &["-q"]);
    assert_eq!(proxy.post("", PING).status, 502);
    let said = proxy.stop(1).stderr;
    assert!(said.contains("could not be reached, so c.json was not written"), "{said}");
    assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
}

#[test]
fn r040_headers_that_contradict_the_body_are_the_servers_to_judge() {
    let refusal = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32020,"message":"header mismatch"}}"#;
    let upstream = Upstream::saying(answer("400 Bad Request", "Content-Type: application/json\r\n", refusal));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"é","arguments":{"where":{"region":"eu"},"n":3},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#;
    for (name, value) in [
        ("Mcp-Method", "tools/call"),
        ("Mcp-Name", "=?base64?w6k=?="),
        ("Mcp-Protocol-Version", "2026-07-28"),
    ] {
        let parameters = "Mcp-Param-Region: eu\r\nMcp-Param-N: 3\r\n";
        let good = proxy.post(&format!("{name}: {value}\r\n{parameters}"), call);
        let bad = proxy.post(&format!("{name}: other\r\nMcp-Param-Region: us\r\n"), call);
        for answer in [good, bad] {
            assert_eq!((answer.status, answer.text()), (400, refusal));
        }
    }
    proxy.stop(0);
    let kept = records(&sandbox, "c.json");
    let facts: Vec<bool> = kept.iter().step_by(2).map(|record| record.contains("\"http\"")).collect();
    assert_eq!(facts, [false, true, false, true, false, true], "{kept:?}");
    assert!(kept[2].contains(r#""http":{"mcp-method":"other","mcp-param-region":"us"}"#), "{kept:?}");
}

#[test]
fn heads_are_passed_on_up_to_64_kib() {
    let upstream = Upstream::start(|request, socket| {
        let size = request.header("x-wanted").unwrap().parse().unwrap();
        let fields = format!("Content-Type: application/json\r\nX-Long: {}\r\n", "y".repeat(size));
        socket.write_all(&answer("200 OK", &fields, PONG)).is_ok()
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q", "--header", "X-Ours: o"]);
    let long = "x".repeat(65_000);
    for size in [65_000, 65_300, 1] {
        let got = proxy.post(&format!("X-Wanted: {size}\r\nX-Long: {long}\r\n"), PING);
        assert_eq!((got.status, got.text()), (200, PONG));
        assert_eq!(got.header("x-long").map(str::len), Some(size));
        assert_eq!(upstream.next().header("x-long"), Some(&*long));
    }
    // An answer with more is refused; the next request is not the worse for it.
    assert_eq!(proxy.post("X-Wanted: 74000\r\n", PING).status, 502);
    assert_eq!(proxy.post("X-Wanted: 1\r\n", PING).text(), PONG);
    // Many short fields grow more than others.
    let many: String = (0..120).map(|n| format!("F{n}:{}\r\n", "z".repeat(500))).collect();
    assert_eq!(proxy.post(&format!("X-Wanted:1\r\n{many}"), PING).text(), PONG);
    proxy.stop(0);
}

#[test]
fn r040_a_header_is_compared_with_what_is_not_too_deep() {
    let upstream = Upstream::saying(json(PONG));
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &upstream.url("/mcp"), &["-q"]);
    let call = |depth: usize| {
        let (open, close) = ("{\"a\":".repeat(depth), "}".repeat(depth));
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"arguments":{open}"eu"{close}}}}}"#
        )
    };
    let depths = [1, 16, 17, 100_000];
    for depth in depths {
        assert_eq!(proxy.post("Mcp-Param-Region: eu\r\n", &call(depth)).text(), PONG);
    }
    proxy.stop(0);
    let path = sandbox.path.join("c.json");
    let cassette = mcpreel::cassette::Cassette::read(&path).unwrap();
    let kept = cassette.records.iter().step_by(2);
    let kept: Vec<bool> =
        kept.map(|record| record.more.as_ref().is_some_and(|more| more.http.is_some())).collect();
    assert_eq!(kept, [false, false, true, true]);
}
