//! How a tape is played, as the caller wants it.

use super::inputs::InputPolicy;
use super::pace::Pace;

/// In which order exchanges may be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Ordering {
    /// Equal requests get their answers in recorded order; different requests come in any order.
    #[default]
    PerKey,
    /// Requests come in recorded order.
    Strict,
    /// The first recorded answer, as often as asked.
    Any,
}

/// What a request gets that is asked more often than it was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeat {
    /// The last answer again.
    Last,
    /// The answers from the first one on.
    Cycle,
    /// A miss.
    Never,
}

macro_rules! words {
    ($type:ty, $($word:literal => $value:expr),+) => {
        impl std::str::FromStr for $type {
            type Err = String;

            fn from_str(word: &str) -> Result<Self, String> {
                match word {
                    $($word => Ok($value),)+
                    _ => Err(format!("{word:?} is not one of {}", [$($word),+].join(", "))),
                }
            }
        }
    };
}

words!(Ordering, "per-key" => Self::PerKey, "strict" => Self::Strict, "any" => Self::Any);
words!(Repeat, "last" => Self::Last, "cycle" => Self::Cycle, "never" => Self::Never);

/// How a tape is played.
#[derive(Clone, Debug)]
pub struct Options {
    /// In which order exchanges may be asked for.
    pub ordering: Ordering,
    /// `None`: what changes nothing repeats its last answer, a tool call does not.
    pub repeat: Option<Repeat>,
    /// How the client's answers to the server's questions are compared.
    pub inputs: InputPolicy,
    /// What is a warning otherwise is an error.
    pub strict: bool,
    /// Answer `initialize` with the revision that the client asks for.
    pub rewrite_version: bool,
    /// How long a client may take to answer a question, in microseconds.
    pub answer_timeout: u64,
    /// How long a result stays behind the last progress of its call, in microseconds.
    pub progress_gap: u64,
    /// The caller speaks HTTP: it is told what belongs to which request, and what was recorded of HTTP.
    pub http: bool,
    /// HTTP: legacy sessions have ids.
    pub sessions: bool,
    /// HTTP: clients come back for the rest of streams that broke off.
    pub faithful: bool,
    /// Messages come as they did; `None`: at once.
    pub pace: Option<Pace>,
    /// The wall clock when the caller's time was 0, microseconds since 1970; live tasks are dated by it.
    pub started: i64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            ordering: Ordering::PerKey,
            repeat: None,
            inputs: InputPolicy::Action,
            strict: false,
            rewrite_version: false,
            answer_timeout: 60_000_000,
            progress_gap: 10_000,
            http: false,
            sessions: false,
            faithful: false,
            pace: None,
            started: 0,
        }
    }
}
