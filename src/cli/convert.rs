//! `convert`: one cassette, another format. Nothing is lost without being named, and what counts needs `--lossy`.

use std::io::Write;
use std::path::Path;

use argh::{ArgsInfo, FromArgs};

use super::files::{self, Output};
use crate::cassette::foreign::{self, Format, Written};
use crate::cassette::{Cassette, document, journal};
use crate::error::{Error, Result};

/// Write a cassette in another format. Reads every format that mcpreel knows.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "convert",
    example = "{command_name} long.cassette.jsonl -o long.cassette.json",
    example = "{command_name} theirs.json -o ours.cassette.json",
    example = "{command_name} ours.cassette.json -o theirs.json --to mcp-cassette",
    note = "Formats: cassette, journal, mcp-cassette (Python), mcp-cassette-npm, mcp-recorder, ctpf, har, jsonl. What a format cannot express is listed; if a replay or a reader would miss it, --lossy is needed.",
    error_code(1, "a file cannot be read or written"),
    error_code(2, "the input is no cassette, something would be lost, or OUT is a file that is no cassette")
)]
pub struct Convert {
    /// the cassette to read; - is standard input
    #[argh(positional, arg_name = "in")]
    pub input: String,
    /// where to write; - is standard output
    #[argh(option, short = 'o', arg_name = "out")]
    pub output: String,
    /// the format, see below (default: journal if OUT ends in .jsonl, har if in .har, else cassette)
    #[argh(option, arg_name = "format")]
    pub to: Option<Target>,
    /// write even if something is lost
    #[argh(switch)]
    pub lossy: bool,
}

/// A format to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// Our document.
    Document,
    /// Our journal.
    Journal,
    /// Another program's.
    Foreign(Format),
}

impl std::str::FromStr for Target {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "cassette" => Ok(Self::Document),
            "journal" => Ok(Self::Journal),
            _ => match Format::ALL.into_iter().find(|format| format.word() == word) {
                Some(format) => Ok(Self::Foreign(format)),
                None => {
                    let words: Vec<&str> = Format::ALL.iter().map(|format| format.word()).collect();
                    Err(format!("expected cassette, journal, {}", words.join(", ")))
                }
            },
        }
    }
}

impl Target {
    /// The format that the ending of a file name asks for.
    fn by_ending(path: &str) -> Self {
        let ending = Path::new(path).extension().map(std::ffi::OsStr::to_ascii_lowercase);
        match ending.as_ref().and_then(|ending| ending.to_str()) {
            Some("jsonl") => Self::Journal,
            Some("har") => Self::Foreign(Format::Har),
            _ => Self::Document,
        }
    }
}

impl Convert {
    /// Converts; a cassette for standard output goes to `out`, remarks go to `notes`.
    pub fn run(&self, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
        let cassette = files::read(&self.input)?;
        let target = self.to.unwrap_or_else(|| Target::by_ending(&self.output));
        let written = render(&cassette, target)?;
        let remarks = files::remarks(&cassette);
        files::tell(notes, remarks.iter().chain(&written.notes), &written.dropped);
        if !written.dropped.is_empty() && !self.lossy {
            return Err(Error::Usage(format!(
                "{}: not everything in it can be written in this format, see above; --lossy writes the rest",
                files::called(&self.input)
            )));
        }
        Output::to(&self.output).put(&written.text, out)
    }
}

fn render(cassette: &Cassette, target: Target) -> Result<Written> {
    let text = match target {
        Target::Foreign(format) => return foreign::write(format, cassette),
        Target::Document => document::write(cassette),
        Target::Journal => journal::write(cassette),
    };
    Ok(Written { text, ..Written::default() })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use super::*;

    const OURS: &str = r#"{"mcpreel":1,"recorded_at":"2026-11-29T20:33:00.000Z","recorder":"x","servers":{"a":{"transport":"stdio"}},"messages":[{"from":"client","payload":[{"id":1,"method":"ping"}]}],"timing_ms":[0.5]}"#;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("mcpreel-convert-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&path);
            fs::create_dir_all(&path).unwrap();
            Self(path)
        }

        fn file(&self, name: &str, text: &str) -> String {
            let path = self.0.join(name);
            fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        }

        fn path(&self, name: &str) -> String {
            self.0.join(name).to_str().unwrap().to_owned()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn run(input: &str, output: &str, to: Option<Target>, lossy: bool) -> Result<(String, String)> {
        let (mut out, mut notes) = (Vec::new(), Vec::new());
        let convert = Convert { input: input.to_owned(), output: output.to_owned(), to, lossy };
        assert_eq!(convert.run(&mut out, &mut notes)?, 0);
        Ok((String::from_utf8(out).unwrap(), String::from_utf8(notes).unwrap()))
    }

    #[test]
    fn the_ending_names_the_format_and_all_come_back() {
        let folder = Folder::new("formats");
        let ours = folder.file("a.json", OURS);
        let (journal, document, theirs) =
            (folder.path("b.jsonl"), folder.path("c.json"), folder.path("d.json"));
        run(&ours, &journal, None, false).unwrap();
        assert!(fs::read_to_string(&journal).unwrap().starts_with("{\"mcpreel\":1,\"journal\":true"));
        run(&journal, &document, None, false).unwrap();
        let (same, _) = run(&ours, "-", None, false).unwrap();
        assert_eq!(fs::read_to_string(&document).unwrap(), same);
        let (_, notes) = run(&document, &theirs, Some(Target::Foreign(Format::McpCassette)), true).unwrap();
        assert!(notes.contains("mcpreel: lost: a batch becomes a raw line"), "{notes}");
        let (again, _) = run(&theirs, "-", Some(Target::Foreign(Format::McpCassette)), true).unwrap();
        assert_eq!(fs::read_to_string(&theirs).unwrap(), again);
        assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 4, "no temporary file stays");
    }

    #[test]
    fn what_would_be_lost_stops_it() {
        let folder = Folder::new("lossy");
        let ours = folder.file("a.json", OURS);
        let theirs = folder.path("d.json");
        let error = run(&ours, &theirs, Some(Target::Foreign(Format::McpCassette)), false).unwrap_err();
        assert_eq!(error.code(), 2);
        assert!(error.to_string().contains("--lossy writes the rest"), "{error}");
        assert!(!Path::new(&theirs).exists());
    }

    #[test]
    fn only_cassettes_are_replaced() {
        let folder = Folder::new("replace");
        let ours = folder.file("a.json", OURS);
        let note = folder.file("notes.json", "{\"todo\": 1}");
        let error = run(&ours, &note, None, false).unwrap_err();
        assert_eq!(error.code(), 2);
        assert_eq!(fs::read_to_string(&note).unwrap(), "{\"todo\": 1}");
        run(&ours, &folder.file("empty.json", ""), None, false).unwrap();
        run(&ours, &ours, None, false).unwrap();
        let error = run(&ours, folder.0.to_str().unwrap(), None, false).unwrap_err();
        assert_eq!(error.code(), 2);
        let error = run(&ours, &folder.path("none/x.json"), None, false).unwrap_err();
        assert_eq!((error.code(), error.to_string().contains("cannot write")), (1, true));
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed() {
        let folder = Folder::new("links");
        let ours = folder.file("a.json", OURS);
        std::os::unix::fs::symlink("real.json", folder.path("link.json")).unwrap();
        for _ in 0..2 {
            run(&ours, &folder.path("link.json"), None, false).unwrap();
            assert!(fs::symlink_metadata(folder.path("link.json")).unwrap().is_symlink());
            assert!(fs::symlink_metadata(folder.path("real.json")).unwrap().is_file());
        }
    }

    #[test]
    fn words() {
        assert_eq!("journal".parse(), Ok(Target::Journal));
        assert_eq!("har".parse(), Ok(Target::Foreign(Format::Har)));
        assert!("yaml".parse::<Target>().unwrap_err().ends_with("ctpf, har, jsonl"));
        for (path, target) in [
            ("a.jsonl", Target::Journal),
            ("a.cassette.json", Target::Document),
            ("-", Target::Document),
            ("a.HAR", Target::Foreign(Format::Har)),
        ] {
            assert_eq!(Target::by_ending(path), target);
        }
    }
}
