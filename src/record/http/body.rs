//! Answers with one body: passed on as it comes, kept as a whole.

use std::io::Read as _;

use super::coding::Reader;
use super::exchange::{BUFFER, Coming, Exchange, LARGEST_KEPT, LARGEST_METADATA, Outgoing};
use super::facts::Facts;
use super::item::End;
use super::rewrite;
use crate::http::client::Answer;
use crate::http::server::Request;

impl Exchange<'_> {
    /// Passes an answer on. The bytes that complete it go out after the record is queued, the others at once.
    pub(super) fn whole(
        &self,
        request: Request<'_>,
        outgoing: &Outgoing<'_>,
        coming: Coming,
        facts: &Facts,
        keeps: usize,
    ) {
        let Coming { answer: mut body, reader, coding } = coming;
        let speaks = self.speaks();
        if !speaks {
            // There is nothing to wait for.
            self.record(facts, None, true);
        }
        let mut buffer = vec![0; BUFFER];
        let mut kept = Kept::new(reader, keeps);
        let mut held = Vec::new();
        // A body of known length that has come with its head goes out with it in one piece.
        if outgoing.length.is_some() {
            match body.read_ready(&mut buffer) {
                Ok(None) => {}
                Ok(Some(length)) => {
                    held.extend_from_slice(buffer.get(..length).unwrap_or_default());
                    kept.add(&held);
                    if held.is_empty() || outgoing.length == Some(held.len() as u64) {
                        kept.complete();
                        self.keep((outgoing.status, facts), &kept, &coding);
                        drop(request.respond(outgoing.status, outgoing.headers, &held));
                        // Only a body that was read to its end leaves the connection for the next request.
                        let _ = body.read_ready(&mut buffer);
                        return;
                    }
                }
                Err(_) => {
                    self.cut(facts, &kept);
                    return drop(outgoing.begin(request));
                }
            }
        }
        let Ok(mut out) = outgoing.begin(request) else { return self.left(facts) };
        loop {
            let read = match body.read_ready(&mut buffer) {
                Ok(None) => {
                    // Nobody knows for how long: all goes out, but for the byte that may be the last one.
                    let may_be_last = usize::from(speaks && outgoing.length.is_none());
                    let rest = held.split_off(held.len().saturating_sub(may_be_last));
                    if !held.is_empty() && out.send(&held).is_err() {
                        return self.left(facts);
                    }
                    held = rest;
                    body.read(&mut buffer)
                }
                Ok(Some(length)) => Ok(length),
                Err(error) => Err(error),
            };
            match read {
                Ok(0) => break,
                Ok(length) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    kept.add(bytes);
                    if held.len() > 1 {
                        if out.send(&held).is_err() {
                            return self.left(facts);
                        }
                        held.clear();
                    }
                    held.extend_from_slice(bytes);
                }
                Err(_) => {
                    self.cut(facts, &kept);
                    // Dropped unfinished, it cuts the client off as we were.
                    if !held.is_empty() {
                        drop(out.send(&held));
                    }
                    return;
                }
            }
        }
        kept.complete();
        self.keep((outgoing.status, facts), &kept, &coding);
        if held.is_empty() || out.send(&held).is_ok() {
            let _ = out.finish();
        }
    }

    /// Queues a whole answer.
    fn keep(&self, (status, facts): (u16, &Facts), kept: &Kept, coding: &str) {
        if !self.speaks() {
            return;
        }
        let lost = match kept.lost {
            // A page that is too large is not worth a word: it was no answer to the request.
            Some(Lost::Large) => kept.limit == LARGEST_KEPT,
            Some(Lost::Coding) => kept.limit > 0,
            None => false,
        };
        if !lost {
            // That nothing came is something to know of a request that nothing refused.
            let empty = (status / 100 == 2 && !matches!(status, 202 | 204 | 205)).then_some(&[][..]);
            return self.record(facts, kept.body().or(empty), true);
        }
        self.record(facts, None, false);
        self.end(End::NotKept);
        if kept.lost == Some(Lost::Coding) {
            self.tell_coding(coding);
        } else {
            self.shared.note(&format!(
                "an answer of more than {} MiB was passed on and is not in the cassette; a replay of its request is a miss",
                LARGEST_KEPT >> 20
            ));
        }
    }

    /// Queues what came of an answer that the server did not end.
    fn cut(&self, facts: &Facts, kept: &Kept) {
        if !self.speaks() {
            return;
        }
        let end = self.broken();
        // Of what a client did not wait for, it has seen nothing that could be told.
        let seen = kept.body().filter(|_| end == End::Cut);
        self.record(facts, seen, false);
        self.end(if seen.is_some() { End::CutBody } else { end });
    }

    /// Queues that nobody took an answer.
    fn left(&self, facts: &Facts) {
        if self.speaks() {
            self.record(facts, None, false);
            self.end(self.gone());
        }
    }

    /// A description that names the server as the resource.
    pub(super) fn metadata(
        &self,
        request: Request<'_>,
        outgoing: &Outgoing<'_>,
        body: Answer,
        facts: &Facts,
    ) {
        let mut text = Vec::new();
        let mut body = body.take(LARGEST_METADATA);
        self.record(facts, None, true);
        if body.read_to_end(&mut text).is_err() || text.len() as u64 == LARGEST_METADATA {
            return request.close();
        }
        let local = rewrite::metadata(&text, &self.shared.mapping, &self.host);
        drop(request.respond(outgoing.status, outgoing.headers, local.as_deref().unwrap_or(&text)));
    }
}

/// Why a body is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lost {
    Large,
    Coding,
}

/// A copy of a body, decoded, up to a limit.
struct Kept {
    bytes: Vec<u8>,
    limit: usize,
    reader: Option<Reader>,
    /// Something came.
    begun: bool,
    lost: Option<Lost>,
}

impl Kept {
    fn new(reader: Option<Reader>, limit: usize) -> Self {
        Self { bytes: Vec::new(), limit, reader, begun: false, lost: None }
    }

    fn add(&mut self, bytes: &[u8]) {
        if self.limit == 0 || self.lost.is_some() || bytes.is_empty() {
            return;
        }
        self.begun = true;
        let said = self.reader.as_mut().and_then(|reader| reader.read(bytes).ok());
        match said {
            None => self.lose(Lost::Coding),
            Some(said) if self.bytes.len() + said.len() > self.limit => self.lose(Lost::Large),
            Some(said) => self.bytes.extend_from_slice(&said),
        }
    }

    /// Nothing more comes.
    fn complete(&mut self) {
        if self.begun
            && self.lost.is_none()
            && self.reader.as_mut().is_some_and(|reader| !reader.is_complete())
        {
            self.lose(Lost::Coding);
        }
    }

    fn lose(&mut self, why: Lost) {
        (self.bytes, self.lost) = (Vec::new(), Some(why));
    }

    fn body(&self) -> Option<&[u8]> {
        (!self.bytes.is_empty()).then_some(&self.bytes)
    }
}
