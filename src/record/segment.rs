//! A stdio session as a segment: what the pumps captured, and how the process ended.

use std::io;
use std::time::Instant;

use super::writer::{Line, Start, Writer};
use super::{Captured, Ending, Reason, Sink};
use crate::cassette::{Ended, Exit, Process};

/// The recorder's end of a segment.
#[derive(Debug)]
pub struct Segment {
    writer: Writer,
    conn: u32,
}

impl Segment {
    /// Writes the head.
    pub fn start(start: Start) -> io::Result<Self> {
        let conn = start.head.conn;
        Ok(Self { writer: Writer::start(start)?, conn })
    }

    fn process(&self, end: &Ending) -> Process {
        Process {
            server: self.writer.name().to_owned(),
            conn: self.conn,
            exit: end.exit.map(|exit| match exit {
                super::Exit::Code(code) => Exit::Code(code),
                super::Exit::Signal(signal) => Exit::Signal(signal),
            }),
            // Closing our input, signalling us and closing our output are three habits of clients that leave; only
            // a server that ended by itself makes a difference to a replay.
            ended: (end.reason == Reason::ServerExited).then_some(Ended::ServerExited),
            stderr: end.stderr_tail.iter().map(|line| self.writer.scrub(line)).collect(),
            ..Process::default()
        }
    }
}

impl Sink for Segment {
    fn begun(&self) -> Instant {
        self.writer.begun()
    }

    fn prepare(&mut self, batch: &[Captured<'_>]) {
        self.writer.clear();
        for captured in batch {
            self.writer.push(&Line {
                at: captured.at,
                from: captured.from,
                scope: 0,
                session: 0,
                exchange: 0,
                get: false,
                http: "",
                end: None,
                body: Some(captured.line),
            });
        }
    }

    /// Writes what was prepared.
    fn append(&mut self, _batch: &[Captured<'_>]) -> io::Result<()> {
        self.writer.append()
    }

    fn follow(&mut self, batch: &[Captured<'_>]) {
        batch.iter().for_each(|captured| self.writer.follow(captured.from, captured.line));
    }

    fn ending(&mut self, end: &Ending) -> io::Result<()> {
        let process = self.process(end);
        self.writer.end(end.reason.word(), vec![process])
    }

    fn open_requests(&self) -> usize {
        self.writer.open_requests()
    }
}
