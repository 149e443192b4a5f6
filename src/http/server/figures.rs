//! Figures, not assertions: `cargo test --lib http::server::tests::figures -- --ignored --nocapture --test-threads 1`.

use super::*;

use std::io::BufRead;

fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[test]
#[ignore = "measures"]
fn memory_of_idle_streams() {
    raise_nofile();
    let (server, told) = idle_streams();
    let before = resident();
    let sockets: Vec<_> = (0..1000)
        .map(|_| {
            let mut socket = server.connect();
            socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert_eq!(told.recv().unwrap(), "open");
            socket
        })
        .collect();
    eprintln!("1000 idle streams: {} KiB, both ends in one process", resident() - before);
    let begun = Instant::now();
    drop(sockets);
    (0..1000).for_each(|_| assert_eq!(told.recv().unwrap(), "gone"));
    eprintln!("1000 departures at once: {:?}", begun.elapsed());
    let mut times: Vec<Duration> = (0..200)
        .map(|_| {
            let mut socket = server.connect();
            socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            assert_eq!(told.recv().unwrap(), "open");
            let begun = Instant::now();
            drop(socket);
            assert_eq!(told.recv().unwrap(), "gone");
            begun.elapsed()
        })
        .collect();
    times.sort();
    eprintln!("a departure is noticed: p50 {:?}, p99 {:?}", times[100], times[198]);
}

#[test]
#[ignore = "measures"]
fn latency_of_events() {
    let (sent, received) = mpsc::channel();
    let sent = Mutex::new(sent);
    let server = start(small(), move |request: Request<'_>| {
        let mut out = request.into_writer(200, &Headers::new(), None).unwrap();
        for _ in 0..500 {
            thread::sleep(Duration::from_millis(1));
            sent.lock().unwrap().send(Instant::now()).unwrap();
            out.send(b"data: {\"jsonrpc\":\"2.0\"}\n\n").unwrap();
        }
        out.finish().unwrap();
    });
    let mut socket = server.connect();
    socket.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
    let mut lines =
        io::BufReader::new(socket).lines().map(Result::unwrap).filter(|line| line.starts_with("data"));
    let mut times: Vec<Duration> = (0..500)
        .map(|_| {
            lines.next().unwrap();
            received.recv().unwrap().elapsed()
        })
        .collect();
    times.sort();
    eprintln!("an event arrives: p50 {:?}, p99 {:?}", times[250], times[494]);
}

/// The least that a thread per connection can do: no parsing, one buffer.
fn bare() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for socket in listener.incoming().map(Result::unwrap) {
            thread::spawn(move || {
                socket.set_nodelay(true).unwrap();
                let mut buffer = [0; 16384];
                while (&socket).read(&mut buffer).is_ok_and(|length| length > 0) {
                    (&socket).write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").unwrap();
                }
            });
        }
    });
    address
}

fn rate(address: SocketAddr, clients: u32) -> f64 {
    let begun = Instant::now();
    let each = 20_000 / clients;
    thread::scope(|scope| {
        for _ in 0..clients {
            scope.spawn(move || {
                let mut socket = TcpStream::connect(address).unwrap();
                socket.set_nodelay(true).unwrap();
                let request: &[u8] =
                    b"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json, text/event-stream\r\nContent-Type: application/json\r\nContent-Length: 46\r\n\r\n{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"tools/list\"}";
                for _ in 0..each {
                    socket.write_all(request).unwrap();
                    assert!(socket.read(&mut [0; 200]).unwrap() > 2);
                }
            });
        }
    });
    f64::from(each * clients) / begun.elapsed().as_secs_f64()
}

#[test]
#[ignore = "measures"]
fn requests_per_second() {
    let server = start(small(), |mut request: Request<'_>| {
        request.read_body().unwrap();
        request.respond(200, &Headers::new(), b"{}").unwrap();
    });
    let bare = bare();
    for clients in [1, 8, 64] {
        let rounds: Vec<_> = (0..3).map(|_| (rate(server.address, clients), rate(bare, clients))).collect();
        let best = |pick: fn(&(f64, f64)) -> f64| rounds.iter().map(pick).fold(0.0, f64::max);
        let (ours, theirs) = (best(|pair| pair.0), best(|pair| pair.1));
        eprintln!("{clients} clients: {ours:.0}/s, bare {theirs:.0}/s, ratio {:.2}", ours / theirs);
    }
}
