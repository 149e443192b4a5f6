//! What a replay did, for its exit status and for `--report`. `docs/reference/report.md` describes the JSON.

use super::faults::Row;
use super::index::is_open;
use super::nearest::Difference;
use super::player::Player;
use super::told::Subject;
use crate::jsonrpc::string;
use crate::mcp;

/// So many misses are kept, and so many requests that were answered by rule: a client may ask for ever.
pub const NAMED: usize = 1000;

/// A request that was not recorded.
#[derive(Clone, Debug)]
pub struct Miss {
    /// Its method.
    pub method: String,
    /// The tool, prompt or resource it is about.
    pub name: Option<String>,
    /// Why it has no answer, for people.
    pub why: String,
    /// The message index of the most similar recorded request, and where it differs.
    pub nearest: Option<(u32, Vec<Difference>)>,
    /// A command or flag that would settle it.
    pub hint: String,
}

impl Miss {
    /// `tools/call "search"`.
    #[must_use]
    pub fn subject(&self) -> String {
        Subject { method: self.method.clone(), name: self.name.clone() }.to_string()
    }

    /// The `data` of the error that the client gets.
    #[must_use]
    pub fn json(&self) -> String {
        self.members(None)
    }

    /// The same with `why`, which the client reads in the error's message: an entry of `misses`.
    #[must_use]
    pub fn row(&self) -> String {
        self.members(Some(&self.why))
    }

    fn members(&self, why: Option<&str>) -> String {
        let mut out = format!("{{\"method\":{}", string::encode(&self.method));
        if let Some(name) = &self.name {
            out += &format!(",\"name\":{}", string::encode(name));
        }
        if let Some(why) = why {
            out += &format!(",\"why\":{}", string::encode(why));
        }
        if let Some((message, differs)) = &self.nearest {
            let differs: Vec<String> = differs.iter().map(Difference::json).collect();
            out += &format!(",\"nearest\":{{\"message\":{message},\"differs\":[{}]}}", differs.join(","));
        }
        out + &format!(",\"hint\":{}}}", string::encode(&self.hint))
    }

    /// For stderr: what was asked, the nearest recorded request, the way out.
    #[must_use]
    pub fn words(&self) -> String {
        let mut out = self.why.clone();
        if let Some((message, differs)) = &self.nearest {
            out += &format!("; nearest is message {message}");
            for difference in differs {
                out += &format!("; {}", difference.words());
            }
        }
        format!("{out}; {}", self.hint)
    }
}

/// What a replay did, or a recording behind the same door.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// The session's name, where one was given.
    pub session: Option<String>,
    /// The absolute path of the cassette.
    pub cassette: String,
    /// When the cassette was recorded, RFC 3339: what a later recording under the same name leaves unused is another.
    pub recorded_at: String,
    /// The server that was played.
    pub server: String,
    /// How it was played: `stdio` or `http`.
    pub transport: &'static str,
    /// Requests answered by an exchange of their own.
    pub hits: usize,
    /// Requests answered by an exchange that had been played before.
    pub repeats: usize,
    /// Requests that the live server answered, where there is one.
    pub live: Option<usize>,
    /// Requests that were not recorded and are answered by rule, by method; the first [`NAMED`].
    pub unrecorded: Vec<String>,
    /// Requests that were not recorded, the first [`NAMED`].
    pub misses: Vec<Miss>,
    /// How many more there were.
    pub misses_left_out: usize,
    /// Recorded exchanges that nobody asked for: message index, method, name.
    pub unused: Vec<(u32, String, Option<String>)>,
    /// Questions of the server that the client never answered.
    pub pending: Vec<String>,
    /// What became of the faults, where there are any.
    pub faults: Option<Vec<Row>>,
    /// What else a reader should know.
    pub warnings: Vec<String>,
    /// How the session ended.
    pub ended: String,
    /// Whether every recorded tool call was to be used.
    pub require_all_used: bool,
    /// The exit status.
    pub exit: u8,
    /// How many messages were kept, where it was a recording.
    pub recorded: Option<u64>,
    /// Why a recording kept less than was said.
    pub failed: Option<String>,
}

impl Report {
    /// How many requests were not recorded.
    #[must_use]
    pub fn missed(&self) -> usize {
        self.misses.len().saturating_add(self.misses_left_out)
    }

    /// The faults that never fired.
    pub fn unfired(&self) -> impl Iterator<Item = &Row> {
        self.faults.iter().flatten().filter(|row| row.fired == 0)
    }

    /// One line of JSON.
    #[must_use]
    pub fn json(&self) -> String {
        let list = |items: &[String]| {
            let items: Vec<String> = items.iter().map(|item| string::encode(item)).collect();
            format!("[{}]", items.join(","))
        };
        let misses: Vec<String> = self.misses.iter().map(Miss::row).collect();
        let unused: Vec<String> = self
            .unused
            .iter()
            .map(|(message, method, name)| {
                let name = name.as_ref().map(|name| format!(",\"name\":{}", string::encode(name)));
                format!(
                    "{{\"message\":{message},\"method\":{}{}}}",
                    string::encode(method),
                    name.unwrap_or_default()
                )
            })
            .collect();
        let faults = self.faults.as_ref().map(|rows| {
            let rows: Vec<String> = rows.iter().map(Row::json).collect();
            let unfired: Vec<String> = self.unfired().map(|row| row.index.to_string()).collect();
            format!("\"faults\":[{}],\"unfired\":[{}],", rows.join(","), unfired.join(","))
        });
        let left_out = Some(self.misses_left_out).filter(|count| *count > 0);
        let left_out = left_out.map(|count| format!("\"misses_left_out\":{count},"));
        let live = self.live.map(|live| format!("\"live\":{live},"));
        let session =
            self.session.as_ref().map(|session| format!("\"session\":{},", string::encode(session)));
        let recorded = self.recorded.map(|count| format!(",\"recorded\":{count}"));
        let failed = self.failed.as_ref().map(|why| format!(",\"failed\":{}", string::encode(why)));
        format!(
            "{{\"mcpreel_report\":1,{}\"cassette\":{},\"recorded_at\":{},\"server\":{},\"transport\":\"{}\",\
             \"hits\":{},\"repeats\":{},{}\"misses\":[{}],{}\"unrecorded\":{},\"unused\":[{}],\"pending\":{},{}\"warnings\":{},\
             \"ended\":{},\"require_all_used\":{},\"exit\":{}{}{}}}",
            session.unwrap_or_default(),
            string::encode(&self.cassette),
            string::encode(&self.recorded_at),
            string::encode(&self.server),
            self.transport,
            self.hits,
            self.repeats,
            live.unwrap_or_default(),
            misses.join(","),
            left_out.unwrap_or_default(),
            list(&self.unrecorded),
            unused.join(","),
            list(&self.pending),
            faults.unwrap_or_default(),
            list(&self.warnings),
            string::encode(&self.ended),
            self.require_all_used,
            self.exit,
            recorded.unwrap_or_default(),
            failed.unwrap_or_default()
        )
    }
}

impl Player {
    /// Counts a miss, and names it in the report if those before it leave room for that.
    pub(super) fn count_miss(&mut self, miss: Miss) {
        if self.report.misses.len() < NAMED {
            return self.report.misses.push(miss);
        }
        self.report.misses_left_out = self.report.misses_left_out.saturating_add(1);
        self.warn(format!(
            "there were more than {NAMED} misses: the report names the first ones, and counts the others"
        ));
    }

    /// A request is answered by rule.
    pub(super) fn count_unrecorded(&mut self, what: String) {
        if self.report.unrecorded.len() < NAMED {
            return self.report.unrecorded.push(what);
        }
        self.warn(format!(
            "more than {NAMED} requests were answered by rule: the report names the first ones"
        ));
    }

    /// The report as it stands; `ended` says how the session ended.
    #[must_use]
    pub fn report(&self, ended: &str) -> Report {
        let mut report = self.report.clone();
        ended.clone_into(&mut report.ended);
        report.faults = self.fault_rows();
        for (exchange, number) in self.tape.exchanges.iter().zip(0..) {
            if is_open(number, &self.taken)
                && let Some(item) = self.tape.item(exchange.request)
            {
                let method = item.view.method_name(&self.tape.text).into_owned();
                let name = mcp::target(&method, &self.tape.text, &item.view);
                report.unused.push((item.record, method, name));
            }
        }
        for session in &self.sessions {
            for (_, ask) in session.asked.values() {
                if let Some(item) = self.tape.item(*ask) {
                    report.pending.push(item.view.method_name(&self.tape.text).into_owned());
                }
            }
        }
        report.pending.sort();
        report
    }
}
