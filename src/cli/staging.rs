//! What a replay does on purpose besides giving the recorded answers: faults and pace, as they were typed.

use std::path::Path;

use crate::cassette::{Cassette, Timing};
use crate::error::{Error, Result};
use crate::replay::faults::overlay::Overlay;
use crate::replay::faults::{Faults, Way};
use crate::replay::pace::Pace;
use crate::replay::tape::Tape;

/// `--pace`
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pacing {
    /// At once.
    #[default]
    Instant,
    /// As it was recorded.
    Recorded,
}

impl std::str::FromStr for Pacing {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "instant" => Ok(Self::Instant),
            "recorded" => Ok(Self::Recorded),
            _ => Err(format!("{word:?} is not one of instant, recorded")),
        }
    }
}

/// A factor as `--pace-scale` takes it.
pub fn factor(text: &str) -> std::result::Result<f64, String> {
    let factor = text.parse::<f64>().ok().filter(|factor| factor.is_finite() && *factor >= 0.0);
    factor.ok_or_else(|| "expected a number from 0".to_owned())
}

/// The options.
#[derive(Clone, Debug, Default)]
pub struct Staging {
    /// `--faults`
    pub faults: Option<String>,
    /// `--require-faults`
    pub require: bool,
    /// `--pace`
    pub pace: Pacing,
    /// `--pace-scale`
    pub scale: Option<f64>,
    /// `--pace-cap-ms`
    pub cap_ms: Option<u64>,
}

impl Staging {
    /// That the options go together.
    pub fn check(&self) -> Result<()> {
        let paced = self.pace == Pacing::Recorded;
        match (paced, self.scale.is_some(), self.cap_ms.is_some(), self.require && self.faults.is_none()) {
            (_, _, _, true) => Err(Error::Usage("--require-faults needs --faults FILE".to_owned())),
            (false, true, _, _) => Err(Error::Usage("--pace-scale needs --pace recorded".to_owned())),
            (false, _, true, _) => Err(Error::Usage("--pace-cap-ms needs --pace recorded".to_owned())),
            _ => Ok(()),
        }
    }

    /// That nothing is recorded with faults: what a cassette holds is true.
    pub fn check_no_recording(&self, why: &str) -> Result<()> {
        match &self.faults {
            Some(file) => Err(Error::Usage(format!(
                "--faults {file} is for replays, and this would record ({why}); with --mode none it replays or fails"
            ))),
            None => Ok(()),
        }
    }

    /// The pace, and why there is none although one was asked for.
    pub fn pace(&self, path: &Path, cassette: &Cassette) -> (Option<Pace>, Option<String>) {
        if self.pace == Pacing::Instant {
            return (None, None);
        }
        let why = match cassette.timing {
            Timing::Known => {
                let cap = self
                    .cap_ms
                    .map_or(Pace::default().cap, |ms| Some(ms.saturating_mul(1_000)).filter(|cap| *cap > 0));
                return (Some(Pace { scale: self.scale.unwrap_or(1.0), cap }), None);
            }
            Timing::Absent => "it has no timing_ms".to_owned(),
            Timing::WrongLength(found) => {
                format!("its timing_ms has {found} entries for {} messages", cassette.records.len())
            }
        };
        (None, Some(format!("warning: {}: no recorded pace, answers come at once: {why}", path.display())))
    }

    /// The faults, once they are known to make sense for this tape.
    pub fn faults(&self, tape: &Tape, servers: &[&str], way: Way) -> Result<Option<Faults>> {
        let Some(file) = &self.faults else { return Ok(None) };
        let faults = read(file)?;
        faults.check_servers(servers)?;
        faults.check_way(&tape.server, way, tape.is_modern_only())?;
        faults.clone().rehearse(tape, Some(way))?;
        Ok(Some(faults))
    }
}

/// Reads an overlay.
pub fn read(file: &str) -> Result<Faults> {
    let path = Path::new(file);
    let bytes = std::fs::read(path).map_err(|error| {
        Error::input(path, "", format!("cannot be read: {}", crate::error::words(&error)))
    })?;
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::input(path, "", "is not UTF-8; expected a JSON file of faults"))?;
    Ok(Faults::new(Overlay::parse(path, &text)?))
}
