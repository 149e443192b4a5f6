//! What the live server says, on its way to the client.

use super::{Greeting, Kept, Onward, Open, Purpose, Question, made, plain};
use crate::jsonrpc::message::{Shape, View, member, member_at};
use crate::jsonrpc::scan::elements;
use crate::replay::faults::effect::{Act, Effect};
use crate::replay::framing::Framing;
use crate::replay::live::{self, Splice};
use crate::replay::nearest::cut;
use crate::replay::player::{Output, Part, Player, To};

/// What says that a client is ready, where it has not said so yet.
const INITIALIZED: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

impl Player {
    /// Takes a line of the live server; over HTTP `via` is the id of the request on whose answer it came.
    pub fn live_says(&mut self, session: usize, via: Option<&str>, line: &[u8]) {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        let message = std::str::from_utf8(line).ok().and_then(|text| Some((text, View::of(text).ok()?)));
        let Some((text, view)) = message else { return };
        if view.shape != Shape::Batch {
            return self.live_said_one(session, via, text, &view);
        }
        for span in elements(text, view.whole).unwrap_or_default() {
            if let Ok(view) = View::at(text, span.start) {
                self.live_said_one(session, via, text, &view);
            }
        }
    }

    /// HTTP: how the answer to a request comes.
    pub fn live_begins(&mut self, session: usize, id: &str, framing: Framing) {
        let open = self.line(session).and_then(|line| line.open.get(id));
        let carrier = open.filter(|open| open.is_the_clients() && open.to.batch.is_none());
        if let Some(carrier) = carrier.map(|open| open.to.carrier) {
            self.out.push(Output::Begins { carrier, framing });
        }
    }

    /// HTTP: a request was answered by no message. Whoever waits gets what came, a demand for authorization too.
    pub fn live_refuses(
        &mut self,
        session: usize,
        id: &str,
        status: u16,
        headers: &[(String, String)],
        body: &str,
    ) {
        let Some(line) = self.line(session) else { return };
        let Some(open) = line.open.remove(id) else { return };
        line.refused = true;
        let mut refused = vec![open];
        if refused.iter().any(|open| open.purpose == Purpose::Greeting) {
            line.greeting = Greeting::None;
            refused.extend(line.waiting.drain(..).map(|(open, _)| open));
        }
        for open in refused.into_iter().filter(Open::is_the_clients) {
            let To { session, batch, carrier } = open.to;
            if batch.is_some() || self.sessions.get(session).is_some_and(|session| session.piped) {
                self.lose(&open, &format!("the live server answered with status {status}"));
                continue;
            }
            let act = Act::Status { status, headers: headers.to_vec(), body: body.to_owned() };
            self.out.push(Output::Fault(Effect { session, carrier, act }));
        }
    }

    /// HTTP: nothing more comes for a request.
    pub fn live_ends(&mut self, session: usize, id: &str) {
        let open = self.line(session).and_then(|line| line.open.get(id));
        match open.map(|open| (open.to, open.cancelled, open.purpose)) {
            Some((to, true, _) | (to, _, Purpose::Listen)) => {
                self.line(session).and_then(|line| line.open.remove(id));
                self.withdraw(to, false);
            }
            Some(_) => self.unanswered_live(session, Some(id), "the live server broke off its answer"),
            None => {}
        }
    }

    fn live_said_one(&mut self, session: usize, via: Option<&str>, text: &str, view: &View) {
        match view.shape {
            Shape::Response => self.live_answered(session, via, text, view),
            Shape::Request => self.live_asked(session, via, text, view),
            Shape::Notification => self.live_notified(session, via, text, view),
            Shape::Batch | Shape::Other => {}
        }
    }

    fn live_answered(&mut self, session: usize, via: Option<&str>, text: &str, view: &View) {
        let id = view.id.map_or("null", |id| id.of(text));
        let Some(line) = self.line(session) else { return };
        let open = line.open.remove(id).or_else(|| line.open.remove(via?));
        let Some(open) = open else { return };
        match open.purpose {
            Purpose::Silent => return,
            Purpose::Greeting if view.result.is_some() => return self.greeted(session),
            Purpose::Greeting => {
                line.greeting = Greeting::None;
                let said = view.error.and_then(|error| member(text, error, "message"));
                let said =
                    said.map_or_else(|| "no reason given".to_owned(), |said| cut(&plain(said.of(text))));
                let why = format!("the live server refused initialize: {said}");
                let waiting: Vec<_> = line.waiting.drain(..).collect();
                waiting.iter().for_each(|(open, _)| self.lose(open, &why));
                return;
            }
            Purpose::Client | Purpose::Listen => {}
        }
        if open.cancelled && open.to.batch.is_some() {
            return;
        }
        self.served(text, view, &open.method, &open.round, true);
        let mut splice = Splice::new(text, *view);
        splice.id(&open.id);
        if open.purpose == Purpose::Listen {
            splice.subscription(&open.id);
        }
        let answer = splice.line();
        if let Some(live) = &mut self.report.live {
            *live += 1;
        }
        self.answer(open.to, Part::Answer, answer);
    }

    /// The live server knows the client: what that has set so far follows, and then what waits.
    fn greeted(&mut self, session: usize) {
        let Some(line) = self.line(session) else { return };
        line.greeting = Greeting::Done;
        let initialized = line.initialized.clone().unwrap_or_else(|| INITIALIZED.to_owned());
        let waiting = std::mem::take(&mut line.waiting);
        let Some(carrier) = waiting.first().map(|(open, _)| open.to.carrier) else {
            return self.send(session, initialized);
        };
        // What comes next is not to be said twice.
        let is_next = |kept: &&Kept| !waiting.iter().any(|(open, _)| open.id == kept.id);
        let set = line.level.iter().chain(line.subscriptions.values()).filter(is_next);
        let set: Vec<Kept> = set.cloned().collect();
        self.out.push(Output::Onward { session, carrier, id: None, text: initialized });
        for Kept { id, text } in set {
            let to = To { session, batch: None, carrier };
            self.forward(Open { to, ..made("", &id) }, &text);
        }
        waiting.into_iter().for_each(|(open, text)| self.forward(open, &text));
    }

    fn live_asked(&mut self, session: usize, via: Option<&str>, text: &str, view: &View) {
        let carrier = self.carrier_of(session, via);
        let id = view.id.map_or("null", |id| id.of(text)).to_owned();
        let token = live::progress_token(text, view).map(str::to_owned);
        let Some(live) = self.sessions.get_mut(session) else { return };
        let ours = live.next_ask.to_string();
        live.next_ask += 1;
        if let Some(line) = self.line(session) {
            line.questions.insert(ours.clone(), Question { id, token });
        }
        self.served(text, view, "", &[], true);
        let text = Splice::new(text, *view).id(&ours).line();
        self.out.push(Output::Message { session, carrier, text, part: Part::Inner, alone: false });
    }

    fn live_notified(&mut self, session: usize, via: Option<&str>, text: &str, view: &View) {
        let method = view.method_name(text);
        let mut carrier = self.carrier_of(session, via);
        let Some(line) = self.line(session) else { return };
        let mut splice = Splice::new(text, *view);
        let alone = method == "notifications/progress";
        if alone {
            // After the answer the client may have given its token to another request.
            let token = live::token_of_progress(text, view);
            let Some(open) = line.by_token(token) else { return };
            carrier = Some(open.to.carrier);
        } else if method == "notifications/cancelled" {
            let id = view.params.and_then(|params| member(text, params, "requestId")).map(|id| id.of(text));
            let asked = line.questions.iter().find(|(_, question)| Some(question.id.as_str()) == id);
            let ours = asked.map(|(ours, _)| ours.clone());
            let listen = id.and_then(|id| line.open.get(id)).map(|open| open.id.clone());
            let Some(known) = ours.clone().or(listen) else { return };
            splice.request_id(&known);
            ours.and_then(|ours| line.questions.remove(&ours));
        }
        if let Some(span) = live::subscription(text, view)
            && let Some(open) = line.open.get(span.of(text))
        {
            splice.subscription(&open.id);
            carrier = Some(open.to.carrier);
        }
        let line = splice.line();
        self.served(text, view, "", &[], true);
        self.out.push(Output::Message { session, carrier, text: line, part: Part::Inner, alone });
    }

    /// The client's request on whose answer something came.
    fn carrier_of(&mut self, session: usize, via: Option<&str>) -> Option<u64> {
        let line = self.line(session)?;
        let open = line.open.get(via?).filter(|open| open.is_the_clients())?;
        Some(open.to.carrier)
    }

    /// Remembers who a token in a message to the client is of.
    pub(in crate::replay) fn served(
        &mut self,
        text: &str,
        view: &View,
        method: &str,
        round: &[u8],
        by_live: bool,
    ) {
        if let Some(onwards) = &mut self.onwards {
            onwards.minted.note(text, view, method, round, by_live);
        }
    }
}

impl Onward {
    fn by_token(&self, token: Option<&str>) -> Option<&Open> {
        self.open.values().find(|open| open.token.is_some() && open.token.as_deref() == token)
    }
}

impl Open {
    fn is_the_clients(&self) -> bool {
        matches!(self.purpose, Purpose::Client | Purpose::Listen)
    }
}

/// Where a message may name a task.
pub(super) fn task_in(text: &str, view: &View) -> Vec<String> {
    let mut found = Vec::new();
    for holder in view.params.into_iter().chain(view.result) {
        for path in [
            &["taskId"][..],
            &["task", "taskId"],
            &["_meta", "io.modelcontextprotocol/related-task", "taskId"],
        ] {
            found.extend(member_at(text, holder, path).map(|span| plain(span.of(text))));
        }
        let tasks = member(text, holder, "tasks").and_then(|list| elements(text, list).ok());
        for task in tasks.unwrap_or_default() {
            found.extend(member(text, task, "taskId").map(|span| plain(span.of(text))));
        }
    }
    found
}
