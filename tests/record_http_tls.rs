//! Recording a server behind TLS: whose certificate is taken, and what is said when it is not.

use std::io::Write as _;
use std::net::{Shutdown, TcpListener};

use crate::support::http::{LAST, Proxy, SSE, Upstream, answer, chunk, json, read_to_end, records};
use crate::support::{Sandbox, tls};

const PING: &str = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
const PONG: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;
const NOTE: &str = r#"{"jsonrpc":"2.0","method":"notifications/progress"}"#;

fn file(name: &str) -> String {
    tls::file(name).to_str().unwrap().to_owned()
}

fn secure(certificate: &str) -> Upstream {
    Upstream::with_certificate(certificate, |request, stream| {
        if request.text() == PING {
            return stream.write_all(&json(PONG)).is_ok();
        }
        let events =
            [SSE.as_bytes(), &chunk(format!("data: {NOTE}\n\ndata: {PONG}\n\n").as_bytes()), LAST].concat();
        stream.write_all(&events).is_ok()
    })
}

fn url(upstream: &Upstream, host: &str) -> String {
    format!("https://{host}:{}/mcp", upstream.address.port())
}

impl Proxy {
    /// Ends it; gives what it said after it was ready.
    #[track_caller]
    fn said_and_stopped(self, code: i32) -> String {
        let listening = format!("mcpreel: listening on {}\n", self.url);
        let said = self.stop(code).stderr;
        said.strip_prefix(&listening).map_or_else(|| panic!("{said}"), str::to_owned)
    }
}

#[test]
fn a_server_is_recorded_by_the_certificates_that_are_named() {
    let upstream = secure("good");
    for (host, option, variable) in [
        ("127.0.0.1", Some("ca.pem"), None),
        ("localhost", Some("ca.pem"), None),
        ("127.0.0.1", None, Some("ca.pem")),
        // The option is the stronger one.
        ("127.0.0.1", Some("ca.pem"), Some("stranger.pem")),
    ] {
        let sandbox = Sandbox::new();
        let named = option.map(file);
        let more: Vec<&str> = named.iter().flat_map(|path| ["--cacert", path]).chain(["-q"]).collect();
        let mut run = sandbox.url_recorder("c.json", &url(&upstream, host), &more);
        run.command.env_remove("SSL_CERT_FILE");
        if let Some(name) = variable {
            run = run.env("SSL_CERT_FILE", &file(name));
        }
        let proxy = sandbox.proxy_of(run);
        for _ in 0..2 {
            let got = proxy.post("", PING);
            assert_eq!((got.status, got.text()), (200, PONG));
        }
        let streamed = proxy.post("", &PING.replace("ping", "tools/call"));
        assert_eq!(streamed.text(), format!("data: {NOTE}\n\ndata: {PONG}\n\n"));
        let seen = upstream.next();
        assert_eq!(seen.header("host"), Some(&*format!("{host}:{}", upstream.address.port())));
        assert_eq!(proxy.said_and_stopped(0), "");
        assert_eq!(records(&sandbox, "c.json").len(), 7);
        let text = sandbox.read("c.json");
        assert!(text.contains(&format!("\"url\": \"{}\"", url(&upstream, host))), "{text}");
        upstream.received.try_iter().for_each(drop);
    }
}

#[test]
fn a_certificate_that_is_not_accepted_is_told_and_nothing_is_written() {
    let signer = "its certificate is signed by nobody who is trusted here; --cacert FILE or SSL_CERT_FILE names the \
                  authority to trust (a PEM file)";
    for (certificate, authority, why) in [
        ("good", None, signer),
        ("good", Some("stranger.pem"), signer),
        ("expired", Some("ca.pem"), "its certificate has expired"),
        (
            "elsewhere",
            Some("ca.pem"),
            "its certificate is for another host: it is only valid for DnsName(\"mcp.example.com\")",
        ),
    ] {
        let upstream = secure(certificate);
        let sandbox = Sandbox::new();
        let named = authority.map(file);
        let more: Vec<&str> = named.iter().flat_map(|path| ["--cacert", path]).chain(["-q"]).collect();
        let mut run = sandbox.url_recorder("c.json", &url(&upstream, "127.0.0.1"), &more);
        run.command.env_remove("SSL_CERT_FILE");
        let proxy = sandbox.proxy_of(run);
        let got = proxy.post("", PING);
        assert_eq!(got.status, 502);
        let quoted = serde_json::to_string(&format!("mcpreel: the server cannot be reached: {why}")).unwrap();
        let error = format!(r#"{{"jsonrpc":"2.0","id":1,"error":{{"code":-31004,"message":{quoted}}}}}"#);
        assert_eq!(got.text(), error);
        assert_eq!(
            proxy.said_and_stopped(1),
            format!(
                "mcpreel: the server cannot be reached: {why}\n\
                 mcpreel: the server could not be reached, so c.json was not written: {why}\n"
            )
        );
        assert!(upstream.received.try_recv().is_err(), "a request went out");
        assert_eq!(sandbox.of_cassette("c.json"), [""; 0]);
    }
}

#[test]
fn a_plain_server_behind_https_is_told() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let plain = std::thread::spawn(move || {
        let (mut socket, _) = listener.accept().unwrap();
        let _ = socket.write_all(&answer("400 Bad Request", "Connection: close\r\n", ""));
        let _ = socket.shutdown(Shutdown::Write);
        read_to_end(&mut socket);
    });
    let sandbox = Sandbox::new();
    let proxy = sandbox.proxy("c.json", &format!("https://{address}/mcp"), &["-q"]);
    let why = "it does not speak TLS; http:// may be meant instead of https://";
    assert_eq!(proxy.post("", PING).status, 502);
    plain.join().unwrap();
    assert!(proxy.said_and_stopped(1).ends_with(&format!("so c.json was not written: {why}\n")));
}

#[test]
fn a_file_without_certificates_is_told_at_the_start() {
    let sandbox = Sandbox::new();
    sandbox.file("empty.pem", "");
    for (file, why) in [
        ("absent.pem", "mcpreel: cannot read the certificates in absent.pem: no such file or directory\n"),
        ("empty.pem", "mcpreel: empty.pem: no certificate in it; expected a PEM file\n"),
    ] {
        for named in [true, false] {
            let more = if named { vec!["--cacert", file] } else { vec![] };
            let mut run = sandbox.url_recorder("c.json", "https://127.0.0.1:1/mcp", &more);
            if !named {
                run = run.env("SSL_CERT_FILE", file);
            }
            assert_eq!(run.run().stderr(), why);
        }
    }
}
