//! `merge`: several cassettes as one.

use std::io::Write;

use argh::{ArgsInfo, FromArgs};

use super::files::{self, Output};
use crate::cassette::combine::{self, Input};
use crate::error::{Error, Result};

/// Make one cassette of several: of several servers, of several sessions, of the parts that split made.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "merge",
    example = "{command_name} files.cassette.json tracker.cassette.json -o all.cassette.json",
    example = "{command_name} monday.json tuesday.json --rename server=notes -o week.cassette.jsonl",
    note = "Messages are put in order of time; where a cassette has no times, they follow each other as given. A server that was recorded more than once gets further connections and sessions. What two heads say differently is listed, and needs --lossy.",
    error_code(1, "a file cannot be read or written"),
    error_code(
        2,
        "an input is no cassette, two servers share a name, heads disagree, or OUT is no cassette"
    )
)]
pub struct Merge {
    /// the cassettes, in any format; - is standard input
    #[argh(positional, arg_name = "cassettes")]
    pub inputs: Vec<String>,
    /// where to write; - is standard output
    #[argh(option, short = 'o', arg_name = "out")]
    pub output: String,
    /// OLD=NEW: another name for a server; of servers that share a name, those behind the first get it (repeatable)
    #[argh(option, arg_name = "old=new")]
    pub rename: Vec<Renaming>,
    /// write even if heads disagree; the first one counts
    #[argh(switch)]
    pub lossy: bool,
}

/// An old and a new name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renaming(String, String);

impl std::str::FromStr for Renaming {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.split_once('=') {
            Some((old, new)) if !old.is_empty() && !new.is_empty() => {
                Ok(Self(old.to_owned(), new.to_owned()))
            }
            _ => Err("expected OLD=NEW, two names of servers".to_owned()),
        }
    }
}

impl Merge {
    /// Merges; a cassette for standard output goes to `out`, remarks go to `notes`.
    pub fn run(&self, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
        if self.inputs.is_empty() {
            return Err(Error::Usage("merge needs cassettes to merge; see mcpreel merge --help".to_owned()));
        }
        if self.inputs.iter().filter(|input| *input == "-").count() > 1 {
            return Err(Error::Usage("standard input can be read only once".to_owned()));
        }
        let output = Output::to(&self.output);
        output.check()?;
        let mut inputs = Vec::with_capacity(self.inputs.len());
        for input in &self.inputs {
            let cassette = files::read(input)?;
            files::tell(notes, &files::remarks(&cassette), &[]);
            inputs.push(Input { name: files::called(input).to_owned(), cassette });
        }
        let renames: Vec<(String, String)> =
            self.rename.iter().map(|Renaming(old, new)| (old.clone(), new.clone())).collect();
        let combined = combine::combine(inputs, &renames)?;
        files::tell(notes, &combined.notes, &combined.lost);
        if !combined.lost.is_empty() && !self.lossy {
            return Err(Error::Usage(
                "the cassettes disagree, see above; --lossy keeps what the first one says".to_owned(),
            ));
        }
        output.put_cassette(&combined.cassette, out)
    }
}
