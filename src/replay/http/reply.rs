//! The connection's side of an answer: takes the player's events and writes HTTP. What goes out as JSON is held until it
//! is complete; a stream begins with its first event, or when the first has to be waited for.

use std::collections::VecDeque;
use std::io;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, RecvTimeoutError, TryRecvError};

use super::Offer;
use super::checks::Refused;
use super::head::{add_recorded, push_kind, status};
use super::hub::Event;
use crate::http::Headers;
use crate::http::server::{Request, Stream, Watch};
use crate::http::sse::{KEEP_ALIVE, Outgoing};
use crate::jsonrpc::message::{Shape, View};
use crate::jsonrpc::scan::elements;
use crate::mcp::{Era, code};
use crate::replay::facts::Kind;
use crate::replay::faults::effect::half;
use crate::replay::pace::Drip;
use crate::replay::player::{Framing, Part};

/// How long a stream may be silent before a comment goes out: what all servers do, and proxies wait for.
const IDLE: Duration = Duration::from_secs(15);

/// An answer on its way.
enum Out<'c> {
    Waiting(Request<'c>),
    Begun(Stream<'c>),
    Done,
}

/// What is known of a request when it is answered.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) era: Era,
    pub(super) batch: bool,
    pub(super) accepts_sse: bool,
    pub(super) accepts_json: bool,
}

/// Whether there is more to say.
#[derive(PartialEq, Eq)]
enum Next {
    More,
    End,
}

pub(super) struct Reply<'c, 'o> {
    out: Out<'c>,
    offer: &'o Offer,
    asked: Asked,
    /// On every answer.
    common: Headers,
    framing: Option<Framing>,
    /// Nothing goes out any more, not even a comment.
    mute: bool,
    /// The bytes per second of the next message.
    rate: Option<u64>,
    events: Option<Receiver<Vec<Event>>>,
    /// What came while a slow message was going out.
    later: VecDeque<Vec<Event>>,
    /// Is told when the client does not take what the answer is, and which exchanges of the tape it would have been.
    pub(super) unacceptable: Option<Box<dyn FnOnce(Vec<u32>) + 'o>>,
}

impl<'c, 'o> Reply<'c, 'o> {
    pub(super) fn new(request: Request<'c>, offer: &'o Offer, asked: Asked, common: Headers) -> Self {
        Self {
            out: Out::Waiting(request),
            offer,
            asked,
            common,
            framing: None,
            mute: false,
            rate: None,
            events: None,
            later: VecDeque::new(),
            unacceptable: None,
        }
    }

    /// Answers with a status and a body, unless something was said already.
    pub(super) fn respond(&mut self, status: u16, fields: &Headers, body: &[u8]) -> io::Result<()> {
        match std::mem::replace(&mut self.out, Out::Done) {
            Out::Waiting(request) => {
                let mut all = self.common.clone();
                all.extend(fields.iter());
                match self.rate.take() {
                    None => request.respond(status, &all, body),
                    Some(rate) => {
                        let length = u64::try_from(body.len()).ok();
                        let mut stream = request.into_writer(status, &all, length)?;
                        self.pour(&mut stream, body, rate)?;
                        stream.finish()
                    }
                }
            }
            other => {
                self.out = other;
                Ok(())
            }
        }
    }

    pub(super) fn refuse(&mut self, refused: &Refused) -> io::Result<()> {
        self.json(refused.status, &refused.text)
    }

    fn json(&mut self, status: u16, text: &str) -> io::Result<()> {
        self.respond(status, &Headers::new().with("Content-Type", "application/json"), text.as_bytes())
    }

    /// Sends what comes until the answer is complete, or the client or the player is gone. `gone` is called when the
    /// client leaves while something has to be waited for.
    pub(super) fn play(
        &mut self,
        events: &Receiver<Vec<Event>>,
        gone: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.events = Some(events.clone());
        let mut gone = Some(gone);
        // Two calls into the system: not for what is there already.
        let mut watch = None;
        loop {
            let there = self.later.pop_front().map_or_else(|| events.try_recv(), Ok);
            let list = match there {
                Ok(list) => list,
                Err(TryRecvError::Disconnected) if self.mute => return Ok(()),
                Err(TryRecvError::Disconnected) => return self.finish(),
                Err(TryRecvError::Empty) => {
                    watch = watch.or_else(|| self.watch(gone.take()?));
                    match events.recv_timeout(IDLE) {
                        Ok(list) => list,
                        Err(RecvTimeoutError::Timeout) => {
                            if let (Out::Begun(stream), false) = (&mut self.out, self.mute) {
                                stream.send(KEEP_ALIVE)?;
                            }
                            continue;
                        }
                        Err(RecvTimeoutError::Disconnected) if self.mute => return Ok(()),
                        Err(RecvTimeoutError::Disconnected) => return self.finish(),
                    }
                }
            };
            // What takes its time is left to itself, so the client is watched before.
            if list.iter().any(|event| matches!(event, Event::Slow(_))) {
                watch = watch.or_else(|| self.watch(gone.take()?));
            }
            for event in list {
                if self.take(event)? == Next::End {
                    return Ok(());
                }
            }
            // Nothing more for now: a stream shows that it is one.
            let streams = self.framing.as_ref().is_some_and(|framing| framing.kind == Kind::Sse);
            if streams && matches!(self.out, Out::Waiting(_)) && self.asked.accepts_sse {
                self.begin()?;
            }
        }
    }

    fn watch(&self, gone: impl FnOnce() + Send + 'static) -> Option<Watch> {
        match &self.out {
            Out::Waiting(request) => request.watch(gone).ok(),
            Out::Begun(stream) => stream.watch(gone).ok(),
            Out::Done => None,
        }
    }

    fn take(&mut self, event: Event) -> io::Result<Next> {
        match event {
            Event::Status(status) => {
                let mut fields = Headers::new();
                if status == 405 {
                    fields.push("Allow", self.offer.allow());
                }
                self.respond(status, &fields, b"")?;
            }
            Event::Refused(refused) => self.refuse(&refused)?,
            Event::Session(id) => {
                self.common.push("Mcp-Session-Id", id);
                return Ok(Next::More);
            }
            Event::Opened => {
                self.begin()?;
                return Ok(Next::More);
            }
            Event::Endpoint(id) => {
                self.begin()?;
                let target = format!("{}?session_id={id}", super::OLD_POST);
                let endpoint = Some(target.as_bytes());
                self.send(Outgoing { kind: Some("endpoint"), data: endpoint, ..Outgoing::default() })?;
                return Ok(Next::More);
            }
            Event::Begins(framing) => {
                self.merge(*framing);
                return Ok(Next::More);
            }
            Event::Prime(id, retry) => {
                self.begin()?;
                self.send(Outgoing { id: Some(&id), retry, data: Some(b""), ..Outgoing::default() })?;
                return Ok(Next::More);
            }
            Event::Message(text, Part::Inner) => return self.inner(&text, None),
            Event::Message(text, part) => self.last(&text, part, None)?,
            Event::Numbered(id, text, Part::Inner) => return self.inner(&text, Some(&id)),
            Event::Numbered(id, text, part) => self.last(&text, part, Some(&id))?,
            Event::Head { mute } => {
                self.mute = mute;
                if self.is_stream() {
                    self.begin()?;
                } else {
                    let (status, fields) = self.json_head();
                    if let Out::Waiting(request) = std::mem::replace(&mut self.out, Out::Done) {
                        self.out = Out::Begun(request.into_writer(status, &fields, None)?);
                    }
                }
                return Ok(Next::More);
            }
            Event::Slow(rate) => {
                self.rate = Some(rate);
                return Ok(Next::More);
            }
            Event::Whole { status, headers, body } => {
                let mut fields = Headers::new();
                headers.iter().for_each(|(name, value)| fields.push(name.as_str(), value.as_bytes()));
                self.respond(status, &fields, body.as_bytes())?;
            }
            Event::Half(text) if self.is_stream() => {
                self.begin()?;
                self.message(half(&text), None)?;
                self.finish()?;
            }
            Event::Half(text) => self.part_of(text.len(), half(&text))?,
            Event::Hangup(text) if self.is_stream() => {
                self.begin()?;
                self.message(&text, None)?;
                // Not finished.
                self.out = Out::Done;
            }
            Event::Hangup(text) => self.part_of(text.len(), &text)?,
            Event::Reset => match std::mem::replace(&mut self.out, Out::Done) {
                Out::Waiting(request) => request.reset(),
                Out::Begun(stream) => stream.reset(),
                Out::Done => {}
            },
            Event::Closing if self.mute => {}
            Event::Closing if matches!(self.out, Out::Waiting(_)) => {
                self.respond(503, &Headers::new(), b"the replay ended\n")?;
            }
            Event::Closing | Event::Over { cut: false } => self.finish()?,
            Event::Over { cut: true } => self.break_off()?,
            // Who closed its side may still read, but not that there is no answer: it has left.
            Event::Gone => {
                if let Out::Waiting(request) = std::mem::replace(&mut self.out, Out::Done) {
                    request.close();
                }
            }
        }
        Ok(Next::End)
    }

    /// Whether the answer goes out as events.
    fn is_stream(&self) -> bool {
        let sse = self.framing.as_ref().is_some_and(|framing| framing.kind == Kind::Sse);
        matches!(self.out, Out::Begun(_)) || (self.asked.accepts_sse && (sse || !self.asked.accepts_json))
    }

    /// The head of a recorded answer that goes out as JSON.
    fn json_head(&self) -> (u16, Headers) {
        let mut fields = self.common.clone();
        let framing = self.framing.as_ref().filter(|framing| framing.kind == Kind::Json);
        framing.into_iter().for_each(|framing| add_recorded(&mut fields, framing));
        fields.push("Content-Type", "application/json");
        (framing.and_then(|framing| framing.status).unwrap_or(200), fields)
    }

    /// Sends `body` as if it was all of `length` bytes, after which the connection closes.
    fn part_of(&mut self, length: usize, body: &str) -> io::Result<()> {
        let (status, fields) = self.json_head();
        if let Out::Waiting(request) = std::mem::replace(&mut self.out, Out::Done) {
            let mut stream = request.into_writer(status, &fields, u64::try_from(length).ok())?;
            match self.rate.take() {
                Some(rate) => self.pour(&mut stream, body.as_bytes(), rate)?,
                None => stream.send(body.as_bytes())?,
            }
        }
        Ok(())
    }

    /// Sends bytes at a rate. A client that leaves ends it; the end of the replay lets the rest out.
    fn pour(&mut self, stream: &mut Stream<'_>, bytes: &[u8], rate: u64) -> io::Result<()> {
        let started = Instant::now();
        let now = || u64::try_from(started.elapsed().as_micros()).unwrap_or(u64::MAX);
        let (drip, mut sent, mut hurry) = (Drip::new(rate, 0), 0, false);
        while sent < bytes.len() {
            let due = if hurry { bytes.len() } else { drip.due(now()).min(bytes.len()) };
            if due > sent {
                stream.send(bytes.get(sent..due).unwrap_or_default())?;
                sent = due;
                continue;
            }
            let wait = Duration::from_micros(drip.next(sent, now()).saturating_sub(now()));
            match self.events.as_ref().map(|events| events.recv_timeout(wait)) {
                Some(Err(RecvTimeoutError::Timeout)) => {}
                Some(Ok(list)) => {
                    if list.iter().any(|event| matches!(event, Event::Gone)) {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                    hurry |= list.iter().any(|event| matches!(event, Event::Closing));
                    self.later.push_back(list);
                }
                Some(Err(RecvTimeoutError::Disconnected)) | None => hurry = true,
            }
        }
        Ok(())
    }

    /// The connection breaks off, behind as much of the answer as came when it was recorded.
    fn break_off(&mut self) -> io::Result<()> {
        let recorded = self.framing.take().filter(|framing| framing.cut);
        let body = recorded.as_ref().map(|framing| framing.body.clone()).unwrap_or_default();
        match std::mem::replace(&mut self.out, Out::Done) {
            Out::Waiting(request) => match recorded.filter(|framing| framing.status.is_some()) {
                Some(framing) => {
                    let mut fields = self.common.clone();
                    add_recorded(&mut fields, &framing);
                    push_kind(&mut fields, &framing.kind);
                    cut_behind(request, framing.status.unwrap_or(200), &fields, &framing.kind, &body)
                }
                None => {
                    request.close();
                    Ok(())
                }
            },
            // A stream that is not finished is cut.
            Out::Begun(mut stream) if !body.is_empty() => stream.send(&body),
            Out::Begun(_) | Out::Done => Ok(()),
        }
    }

    /// A batch is answered as a stream when one of its requests was.
    fn merge(&mut self, framing: Framing) {
        match &mut self.framing {
            None if self.asked.batch => self.framing = Some(Framing { status: None, ..framing }),
            None => self.framing = Some(framing),
            Some(known) => {
                known.inner |= framing.inner;
                known.answers.extend(framing.answers);
                if framing.kind == Kind::Sse {
                    known.kind = Kind::Sse;
                }
            }
        }
    }

    fn inner(&mut self, text: &str, id: Option<&str>) -> io::Result<Next> {
        if self.framing.as_ref().is_some_and(|framing| framing.answer_only) {
            return Ok(Next::More);
        }
        if matches!(self.out, Out::Waiting(_)) {
            if !self.asked.accepts_sse {
                self.not_acceptable()?;
                return Ok(Next::End);
            }
            self.begin()?;
        }
        self.message(text, id)?;
        Ok(Next::More)
    }

    fn not_acceptable(&mut self) -> io::Result<()> {
        if let Some(tell) = self.unacceptable.take() {
            tell(self.framing.take().unwrap_or_default().answers);
        }
        let message = "the answer is a stream of events, which Accept does not name";
        self.refuse(&Refused::new(406, "null", code::INVALID_REQUEST, message))
    }

    fn last(&mut self, text: &str, part: Part, id: Option<&str>) -> io::Result<()> {
        let framing = self.framing.clone().unwrap_or_default();
        if matches!(self.out, Out::Waiting(_)) {
            let streams = (framing.kind == Kind::Sse && part == Part::Answer) || !self.asked.accepts_json;
            if !(streams && self.asked.accepts_sse) {
                if streams && framing.inner {
                    return self.not_acceptable();
                }
                let recorded = framing.status.filter(|_| part == Part::Answer);
                let status = status(self.asked.era, self.offer, text, recorded);
                let mut fields = Headers::new();
                if part == Part::Answer {
                    add_recorded(&mut fields, &framing);
                }
                fields.push("Content-Type", "application/json");
                if !(framing.cut && part == Part::Answer) {
                    return self.respond(status, &fields, text.as_bytes());
                }
                let mut all = self.common.clone();
                all.extend(fields.iter());
                if let Out::Waiting(request) = std::mem::replace(&mut self.out, Out::Done) {
                    cut_behind(request, status, &all, &Kind::Json, text.as_bytes())?;
                }
                return Ok(());
            }
            self.begin()?;
        }
        match View::of(text).map(|view| (view.shape, view.whole)) {
            // Clients read one message from an event.
            Ok((Shape::Batch, whole)) => {
                for item in elements(text, whole).unwrap_or_default() {
                    self.message(item.of(text), None)?;
                }
            }
            _ => self.message(text, id)?,
        }
        if framing.cut && part == Part::Answer {
            self.out = Out::Done;
        }
        self.finish()
    }

    /// Sends the head of a stream.
    fn begin(&mut self) -> io::Result<()> {
        if !matches!(self.out, Out::Waiting(_)) {
            return Ok(());
        }
        let mut fields = self.common.clone();
        let framing = self.framing.as_ref();
        framing.iter().for_each(|framing| add_recorded(&mut fields, framing));
        fields.push("Content-Type", "text/event-stream");
        fields.push("Cache-Control", "no-cache, no-transform");
        fields.push("X-Accel-Buffering", "no");
        let status = framing.filter(|framing| framing.kind == Kind::Sse).and_then(|framing| framing.status);
        if let Out::Waiting(request) = std::mem::replace(&mut self.out, Out::Done) {
            self.out = Out::Begun(request.into_writer(status.unwrap_or(200), &fields, None)?);
        }
        Ok(())
    }

    fn message(&mut self, text: &str, id: Option<&str>) -> io::Result<()> {
        self.send(Outgoing { kind: Some("message"), id, retry: None, data: Some(text.as_bytes()) })
    }

    fn send(&mut self, event: Outgoing<'_>) -> io::Result<()> {
        let bytes = event.encode().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let rate = self.rate.take();
        let Out::Begun(mut stream) = std::mem::replace(&mut self.out, Out::Done) else { return Ok(()) };
        match rate {
            Some(rate) => self.pour(&mut stream, &bytes, rate)?,
            None => stream.send(&bytes)?,
        }
        self.out = Out::Begun(stream);
        Ok(())
    }

    /// Nothing follows.
    fn finish(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.out, Out::Done) {
            Out::Begun(stream) => stream.finish(),
            Out::Waiting(request) => {
                self.out = Out::Waiting(request);
                let framing = self.framing.clone().unwrap_or_default();
                let mut fields = Headers::new();
                match (&framing.kind, framing.status) {
                    (Kind::Other(_) | Kind::Json, Some(status)) if framing.bare => {
                        add_recorded(&mut fields, &framing);
                        push_kind(&mut fields, &framing.kind);
                        self.respond(status, &fields, &framing.body)
                    }
                    // It was cancelled, or the player is gone: a stream with nothing in it says that there is no answer.
                    _ if self.asked.accepts_sse => {
                        self.begin()?;
                        self.finish()
                    }
                    _ => self.respond(503, &fields, b""),
                }
            }
            Out::Done => Ok(()),
        }
    }
}

/// Sends a part of an answer, after which the connection closes: a stream without its end, or one byte too few.
fn cut_behind(
    request: Request<'_>,
    status: u16,
    fields: &Headers,
    kind: &Kind,
    body: &[u8],
) -> io::Result<()> {
    let length = u64::try_from(body.len()).ok().map(|length| length + 1).filter(|_| *kind != Kind::Sse);
    let mut stream = request.into_writer(status, fields, length)?;
    if body.is_empty() { Ok(()) } else { stream.send(body) }
}
