//! A disk that stalls does not delay the session: the pumps, the queue and the recorder thread with a sink that blocks.

use std::io::{self, PipeReader, PipeWriter, Read as _, Write as _};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mcpreel::record::pump::Way;
use mcpreel::record::queue::{Queue, STALLED_BYTES};
use mcpreel::record::recorder::{self, Kept};
use mcpreel::record::{Captured, Ending, From, Reason, Sink};

use crate::support::{LONG, eventually};

/// Ten times what a message may take.
const HANG: Duration = Duration::from_millis(200);

/// A disk whose writes last until the gate is opened, for good.
struct Disk {
    begins: Sender<()>,
    gate: Receiver<()>,
    written: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl Sink for Disk {
    fn begun(&self) -> Instant {
        Instant::now()
    }

    fn append(&mut self, batch: &[Captured<'_>]) -> io::Result<()> {
        let _ = self.begins.send(());
        let _ = self.gate.recv();
        self.written.lock().unwrap().extend(batch.iter().map(|captured| captured.line.to_vec()));
        Ok(())
    }

    fn ending(&mut self, _: &Ending) -> io::Result<()> {
        Ok(())
    }
}

struct Setup {
    queue: Arc<Queue>,
    written: Arc<Mutex<Vec<Vec<u8>>>>,
    begins: Receiver<()>,
    gate: Option<Sender<()>>,
    recorder: std::thread::JoinHandle<Kept>,
    ending: crossbeam_channel::Sender<Ending>,
}

fn setup() -> Setup {
    let queue = Arc::new(Queue::new(Instant::now()));
    let (begins_here, begins) = channel();
    let (gate, gate_here) = channel();
    let written = Arc::new(Mutex::new(Vec::new()));
    let disk = Disk { begins: begins_here, gate: gate_here, written: Arc::clone(&written) };
    let (ending, endings) = crossbeam_channel::bounded(1);
    let recorder =
        recorder::start(Arc::clone(&queue), Box::new(disk), Arc::new(|_: &str| {}), endings, |_| {}).unwrap();
    Setup { queue, written, begins, gate: Some(gate), recorder, ending }
}

impl Setup {
    /// A pump like that of one direction: what is written to the one end is to come out of the other.
    fn way(&self, from: From) -> (PipeWriter, PipeReader) {
        let (source, into) = io::pipe().unwrap();
        let (out, target) = io::pipe().unwrap();
        let queue = Arc::clone(&self.queue);
        std::thread::spawn(move || Way::new(from, target).pump(source, &queue, || {}));
        (into, out)
    }

    /// Lets the disk go on, and gives all that was written when everything has come in.
    fn finish(self) -> Vec<Vec<u8>> {
        drop(self.gate);
        self.queue.close();
        self.ending
            .send(Ending { reason: Reason::ClientClosed, exit: None, stderr_tail: vec![], captured: 0 })
            .unwrap();
        let kept = self.recorder.join().unwrap();
        assert_eq!(kept.failed, None);
        let written = std::mem::take(&mut *self.written.lock().unwrap());
        assert_eq!(kept.captured, written.len() as u64);
        written
    }
}

#[test]
fn r008_messages_are_forwarded_within_the_limit_while_the_disk_stalls() {
    let setup = setup();
    let (mut client, mut server_side) = setup.way(From::Client);
    let (mut server, mut client_side) = setup.way(From::Server);
    let mut sent = Vec::new();
    let mut worst = Vec::new();
    for number in 0..1000 {
        let line = format!("{{\"n\":{number}}}\n");
        let mut buffer = vec![0; line.len()];
        let begun = Instant::now();
        for (into, out) in [(&mut client, &mut server_side), (&mut server, &mut client_side)] {
            into.write_all(line.as_bytes()).unwrap();
            out.read_exact(&mut buffer).unwrap();
            assert_eq!(buffer, line.as_bytes());
            sent.push(line.trim_end().as_bytes().to_vec());
        }
        worst.push(begun.elapsed());
        if number == 0 {
            setup.begins.recv_timeout(LONG).expect("a write");
        }
    }
    worst.sort();
    // All but a few that a busy machine may have held up by itself.
    assert!(worst[990] < HANG, "{:?}", &worst[980..]);
    assert!(setup.written.lock().unwrap().is_empty());
    assert_eq!(setup.finish(), sent);
}

#[test]
fn a_stalled_disk_stops_the_session_when_64_mib_wait_and_not_before() {
    let mut setup = setup();
    let (mut into, mut out) = setup.way(From::Server);
    let line = [vec![b'x'; 65_535], b"\n".to_vec()].concat();
    let lines = STALLED_BYTES / line.len() + 200;
    let drain = std::thread::spawn(move || {
        let mut buffer = vec![0; 65_536];
        let mut count = 0_usize;
        while let Ok(length @ 1..) = out.read(&mut buffer) {
            count += length;
        }
        count
    });
    let passed = Arc::new(Mutex::new(0_usize));
    let (counter, whole) = (Arc::clone(&passed), line.clone());
    let feeder = std::thread::spawn(move || {
        for _ in 0..lines {
            into.write_all(&whole).unwrap();
            *counter.lock().unwrap() += whole.len();
        }
    });
    setup.begins.recv_timeout(LONG).expect("a write");
    eventually("64 MiB in the queue", || *passed.lock().unwrap() + (4 << 20) > STALLED_BYTES);
    std::thread::sleep(Duration::from_millis(100));
    assert!(!feeder.is_finished(), "more than 64 MiB waited");
    setup.gate = None;
    feeder.join().unwrap();
    assert_eq!(drain.join().unwrap(), lines * line.len());
    let written = setup.finish();
    assert_eq!(written.len(), lines);
    assert!(written.iter().all(|kept| kept.len() == line.len() - 1));
}

#[test]
fn r008_over_http_too_nothing_waits_for_the_disk() {
    use crate::support::http::{LAST, SSE, Upstream, Wire, chunk, json};
    use mcpreel::record::http::{Address, Options, Until, bind};
    use std::sync::atomic::{AtomicBool, Ordering};

    let upstream = Upstream::start(|request, socket| {
        if request.text().contains("stream") {
            let event = b"data: {\"id\":1,\"result\":{}}\n\n";
            return socket.write_all(&[SSE.as_bytes(), &chunk(event), LAST].concat()).is_ok();
        }
        socket.write_all(&json(r#"{"id":1,"result":{}}"#)).is_ok()
    });
    let options = Options {
        address: Address::parse(&upstream.url("/mcp")).unwrap(),
        listen: "127.0.0.1:0".parse().unwrap(),
        headers: mcpreel::http::Headers::new(),
        cacert: None,
        allow_host: Vec::new(),
        allow_origin: Vec::new(),
        max_body: None,
        private: false,
    };
    let proxy = bind(options).unwrap();
    let address = proxy.url().strip_prefix("http://").unwrap().split('/').next().unwrap().parse().unwrap();
    let (begins_here, begins) = channel();
    let (gate, gate_here) = channel::<()>();
    let written = Arc::new(Mutex::new(Vec::new()));
    let disk = Disk { begins: begins_here, gate: gate_here, written: Arc::clone(&written) };
    let over = Arc::new(AtomicBool::new(false));
    let alive = Arc::clone(&over);
    let until = Until { max_idle: None, alive: Box::new(move || !alive.load(Ordering::SeqCst)) };
    let running =
        std::thread::spawn(move || proxy.run(Box::new(disk), Arc::new(|_: &str| {}), &until).unwrap());
    let mut wire = Wire::to(address);
    let mut ask = |kind: &str| {
        let body = format!(r#"{{"id":1,"method":"{kind}"}}"#);
        let begun = Instant::now();
        wire.write(format!(
            "POST /mcp HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ));
        assert_eq!(wire.answer().status, 200);
        begun.elapsed()
    };
    ask("json");
    begins.recv_timeout(LONG).unwrap();
    // The disk hangs in a write from here on, and more is said than the queue holds while writing is fast.
    for turn in 0..200 {
        let took = ask(if turn % 2 == 0 { "stream" } else { "json" });
        assert!(took < HANG, "{turn}: {took:?}");
    }
    assert!(written.lock().unwrap().is_empty());
    drop(gate);
    over.store(true, Ordering::SeqCst);
    let ended = running.join().unwrap();
    assert_eq!((ended.unreachable, ended.outcome.recording_failed), (None, None));
    // Each exchange is a request and an answer, and a stream also has an end.
    assert_eq!(written.lock().unwrap().len(), 201 * 2 + 100);
}
