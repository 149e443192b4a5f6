//! How replayed messages are cut into writes: TypeScript clients drop progress that they read together with the result.

use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use crate::support::replay::{answered, c, call, call_with_progress, progress, s, said};
use crate::support::{LONG, Sandbox};

/// A replay whose standard output keeps writes apart: each of them is one datagram.
struct Writes {
    child: Child,
    output: UnixDatagram,
}

impl Writes {
    fn of(sandbox: &Sandbox, records: &[String]) -> Self {
        sandbox.tape_with("", records);
        let (ours, theirs) = UnixDatagram::pair().unwrap();
        ours.set_read_timeout(Some(LONG)).unwrap();
        let mut command = sandbox.mcpreel(["serve", "c.json", "--repeat", "last"]).command;
        let child = command.stdin(Stdio::piped()).stdout(Stdio::from(OwnedFd::from(theirs))).spawn().unwrap();
        Self { child, output: ours }
    }

    fn send(&mut self, lines: &[String]) {
        let text = lines.join("\n") + "\n";
        self.child.stdin.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }

    /// The lines of the next write, and when it came.
    #[track_caller]
    fn next(&self) -> (Vec<String>, Instant) {
        let mut bytes = vec![0; 1 << 20];
        let size = self.output.recv(&mut bytes).unwrap();
        let text = String::from_utf8(bytes[..size].to_vec()).unwrap();
        assert!(text.ends_with('\n'), "{text}");
        (text.lines().map(str::to_owned).collect(), Instant::now())
    }

    /// Reads writes until one holds this line; gives all lines in order and checks that progress stands last in its.
    #[track_caller]
    fn until(&self, line: &str) -> Vec<String> {
        let mut all = Vec::new();
        loop {
            let (lines, _) = self.next();
            let before = &lines[..lines.len() - 1];
            assert!(!before.iter().any(|line| line.contains("notifications/progress")), "{lines:?}");
            let last = lines.iter().any(|other| other == line);
            all.extend(lines);
            if last {
                return all;
            }
        }
    }
}

impl Drop for Writes {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn with_progress() -> Vec<String> {
    let mut records = vec![
        c(call_with_progress("1", "t", "1")),
        s(progress("1", 1)),
        s(progress("1", 2)),
        s(said("1", "x")),
    ];
    records.extend(answered("2", "quick", "{}", "y"));
    records
}

#[test]
fn progress_shares_no_write_with_what_follows_it() {
    let sandbox = Sandbox::new();
    let mut replay = Writes::of(&sandbox, &with_progress());
    for n in 0..20 {
        let (id, token) = (n.to_string(), format!("\"{n}\""));
        replay.send(&[call_with_progress(&id, "t", &token)]);
        let got = replay.until(&said(&id, "x"));
        assert_eq!(got, [progress(&token, 1), progress(&token, 2), said(&id, "x")]);
    }
}

#[test]
fn the_result_keeps_its_distance_from_the_last_progress() {
    let sandbox = Sandbox::new();
    let mut replay = Writes::of(&sandbox, &with_progress());
    // A reader that was late for the progress sees less than there was, and never more.
    let widest = (0..10).map(|_| {
        replay.send(&[call_with_progress("1", "t", "1")]);
        let (_, _) = replay.next();
        let (_, last) = replay.next();
        let (lines, result) = replay.next();
        assert_eq!(lines, [said("1", "x")]);
        result.duration_since(last)
    });
    let widest = widest.max().unwrap();
    assert!(widest >= Duration::from_millis(10), "{widest:?}");
}

#[test]
fn nobody_else_waits_for_that() {
    let sandbox = Sandbox::new();
    let mut replay = Writes::of(&sandbox, &with_progress());
    replay.send(&[
        call_with_progress("1", "t", "1"),
        call("2", "quick", "{}"),
        call_with_progress("3", "t", "3"),
        call("4", "quick", "{}"),
        // Without a token there is nothing to keep a distance from.
        call("5", "t", "{}"),
    ]);
    let got = replay.until(&said("3", "x"));
    let at =
        |line: &str| got.iter().position(|other| other == line).unwrap_or_else(|| panic!("{line}: {got:?}"));
    for answer in [said("2", "y"), said("4", "y"), said("5", "x")] {
        assert!(at(&answer) < at(&said("1", "x")), "{got:?}");
        assert!(at(&answer) < at(&said("3", "x")), "{got:?}");
    }
    assert!(at(&progress("1", 2)) < at(&said("1", "x")) && at(&progress("3", 2)) < at(&said("3", "x")));
}

#[test]
fn other_messages_may_share_a_write() {
    let sandbox = Sandbox::new();
    let mut replay = Writes::of(&sandbox, &with_progress());
    replay.send(&(0..100).map(|n| call(&n.to_string(), "quick", "{}")).collect::<Vec<_>>());
    let got = replay.until(&said("99", "y"));
    assert_eq!(got, (0..100).map(|n| said(&n.to_string(), "y")).collect::<Vec<_>>());
}
