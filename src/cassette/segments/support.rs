//! What the tests of recordings share: a folder, cassettes of a toy form, and a recorder.

use std::io::Write as _;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use super::*;

/// A folder of its own for one test, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new(name: &str) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let nth = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("mcpreel-{name}-{}-{nth}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path.canonicalize().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub(crate) fn state(&self) -> State {
        State::in_folder(self.0.join("state"))
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(&self.0).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.retain(|name| name != "state");
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Cassettes of a toy form: one record per line, as `server/conn text`; probes have the text `probe`.
#[derive(Default)]
pub(crate) struct Toy {
    /// Fails instead of renaming, or after renaming.
    pub(crate) fails: Option<Fails>,
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Fails {
    Early,
    BeforeRename,
    AfterRename,
}

impl Toy {
    fn fail(&self, at: Fails) -> Result<()> {
        if self.fails == Some(at) { Err(Error::Failed("as asked".into())) } else { Ok(()) }
    }
}

fn probes(text: &str) -> bool {
    text.lines().all(|line| line.ends_with("probe"))
}

impl Documents for Toy {
    fn only_probes(&self, cassette: &Path) -> Result<bool> {
        let text = fs::read_to_string(cassette).map_err(Error::io("read", cassette))?;
        if text.starts_with("foreign") {
            Err(Error::input(cassette, "", "no cassette"))
        } else {
            Ok(probes(&text))
        }
    }

    fn conns(&self, cassette: &Path, server: &str) -> Result<u32> {
        let text = fs::read_to_string(cassette).map_err(Error::io("read", cassette))?;
        let conns = text.lines().filter_map(|line| {
            let (name, conn) = line.split_once(' ')?.0.split_once('/')?;
            (name == server).then(|| conn.parse::<u32>().unwrap() + 1)
        });
        Ok(conns.max().unwrap_or(0))
    }

    fn merge(&self, job: &MergeJob<'_>) -> Result<Merged> {
        self.fail(Fails::Early)?;
        let mut text = String::new();
        if job.continues {
            text.push_str(&fs::read_to_string(job.cassette).unwrap());
        }
        for segment in job.segments {
            for line in fs::read_to_string(&segment.path).unwrap().lines().skip(1) {
                if !line.starts_with('{') {
                    text.push_str(line);
                    text.push_str(if segment.killed { "!\n" } else { "\n" });
                }
            }
        }
        if job.cassette.exists() && probes(&text) {
            return Ok(Merged::OnlyProbes);
        }
        fs::write(job.temp, &text).unwrap();
        job.committing(&fs::metadata(job.temp).unwrap())?;
        self.fail(Fails::BeforeRename)?;
        fs::rename(job.temp, job.cassette).unwrap();
        self.fail(Fails::AfterRename)?;
        Ok(Merged::Written)
    }
}

pub(crate) const TOY: Toy = Toy { fails: None };

/// Joins as `owner` and writes the head and one record.
pub(crate) fn record(
    recording: &Recording<'_>,
    owner: &Owner,
    server: &str,
    policy: Policy,
    text: &str,
) -> Joined {
    match recording.join(owner, server, policy).unwrap() {
        Join::Record(mut joined) => {
            begin(&mut joined, text);
            *joined
        }
        Join::Replay => panic!("replays"),
    }
}

pub(crate) fn begin(joined: &mut Joined, text: &str) {
    let head = serde_json::json!({ "mcpreel": 1, "segment": joined.head });
    let (server, conn) = (&joined.head.server, joined.conn);
    write!(joined.file, "{head}\n{server}/{conn} {text}\n").unwrap();
}

/// What SIGKILL leaves behind of a recorder.
pub(crate) fn kill(joined: Joined) {
    let path = joined.path.clone();
    drop(joined);
    // A child that another test is just starting has a copy of the descriptor until it executes its program.
    let started = Instant::now();
    while lock::is_held(&path).unwrap() && started.elapsed() < Duration::from_secs(5) {
        std::thread::sleep(Duration::from_millis(1));
    }
}
