//! The live server behind a replay over HTTP: each message for it is posted, and what comes of that is handed to the
//! player. A line for each session (`session`) keeps the session that the live server issued, which is not the client's.
//!
//! What is posted goes to a recorder in front of the live server, so that this part need not know of recording.

mod session;

use std::collections::HashMap;
use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, unbounded};

use crate::http::Headers;
use crate::http::client::Upstream;
use crate::replay::player::{Framing, Player};
pub(super) use session::is;
use session::{Job, Session};

/// Where the live server is.
#[derive(Clone, Debug)]
pub struct LiveServer {
    /// The recorder in front of it.
    pub upstream: Upstream,
    /// Where that serves the server's `/`, as in `http://127.0.0.1:1/x`.
    pub base: String,
    /// The same, as a path.
    pub prefix: String,
    /// The path of its endpoint, with which clients find it here, too.
    pub path: String,
    /// What stands in front of every path of ours: a secret, where whoever gets in spends a credential.
    pub own_prefix: String,
}

impl LiveServer {
    fn target(&self) -> String {
        format!("{}{}", self.prefix, self.path)
    }

    /// A text of the server as a client at `host` has to see it.
    #[must_use]
    pub fn localized(&self, text: &str, host: &str) -> String {
        text.replace(&self.base, &format!("http://{host}{}", self.own_prefix))
    }
}

/// What became of a message.
#[derive(Debug)]
pub(super) enum Told {
    /// Its answer comes like this.
    Begins(Framing),
    /// A message.
    Line(Vec<u8>),
    /// It was answered by no message.
    Refused { status: u16, headers: Vec<(String, String)>, body: String },
    /// Nothing more comes.
    Ended,
    /// It got no answer: why.
    Failed(String),
    /// The live server has ended the session.
    Forgotten,
}

impl Told {
    /// Hands it to the player.
    pub(super) fn to(self, player: &mut Player, session: usize, id: Option<&str>) {
        match (self, id) {
            (Self::Line(line), _) => player.live_says(session, id, &line),
            (Self::Begins(framing), Some(id)) => player.live_begins(session, id, framing),
            (Self::Refused { status, headers, body }, Some(id)) => {
                player.live_refuses(session, id, status, &headers, &body);
            }
            (Self::Ended, Some(id)) => player.live_ends(session, id),
            (Self::Failed(why), _) => player.unanswered_live(session, id, &why),
            (Self::Forgotten, _) => {
                player.unanswered_live(session, None, "the live server has ended the session");
            }
            (Self::Begins(_) | Self::Refused { .. } | Self::Ended, None) => {}
        }
    }
}

/// What became of it, for whom: a session, and the id of the request.
pub(super) type News = (usize, Option<String>, Told);

/// The player's end.
pub(super) struct Behind {
    server: Arc<LiveServer>,
    news: Sender<News>,
    lines: HashMap<usize, Line>,
    /// The header fields that each request came with.
    pub(super) fields: HashMap<u64, Arc<Headers>>,
}

struct Line {
    jobs: Sender<Job>,
    session: Arc<Session>,
}

impl Behind {
    pub(super) fn new(server: Arc<LiveServer>) -> (Self, Receiver<News>) {
        let (news, told) = unbounded();
        (Self { server, news, lines: HashMap::new(), fields: HashMap::new() }, told)
    }

    fn line(&mut self, number: usize) -> Option<&Line> {
        if !self.lines.contains_key(&number) {
            let (jobs, queue) = unbounded();
            let session = Session::start(number, Arc::clone(&self.server), self.news.clone(), queue).ok()?;
            self.lines.insert(number, Line { jobs, session });
        }
        self.lines.get(&number)
    }

    /// Posts a message of a session.
    pub(super) fn post(&mut self, number: usize, carrier: u64, id: Option<String>, text: String) {
        let fields = self.fields.get(&carrier).cloned().unwrap_or_default();
        let told = id.clone();
        match self.line(number) {
            Some(line) => drop(line.jobs.send(Job::Post { fields, id, text })),
            None => {
                let _ = self.news.send((number, told, Told::Failed("the system gives no thread".to_owned())));
            }
        }
    }

    /// The client of a request has left.
    pub(super) fn hang_up(&self, number: usize, id: &str) {
        if let Some(line) = self.lines.get(&number) {
            line.session.hang_up(id);
        }
    }

    /// The client of a session has opened its standalone stream: what the live server says there belongs on it.
    pub(super) fn stream(&mut self, number: usize, fields: Option<&Arc<Headers>>) {
        let fields = fields.cloned().unwrap_or_default();
        let Some(line) = self.line(number) else { return };
        line.session.wants_stream(&fields);
        let _ = line.jobs.send(Job::Stream { fields });
    }

    /// The client has ended its session, or it is over here: then nobody else would end it there. Without `fields` those
    /// of its last request are taken.
    pub(super) fn delete(&mut self, number: usize, fields: Option<&Arc<Headers>>) {
        let fields = fields.cloned();
        if let Some(line) = self.lines.remove(&number) {
            let _ = line.jobs.send(Job::Delete { fields });
        }
    }

    /// Breaks off all that runs.
    pub(super) fn end(&mut self) {
        self.lines.values().for_each(|line| line.session.end());
        self.lines.clear();
    }
}
