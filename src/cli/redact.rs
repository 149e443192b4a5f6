//! `redact`: cassettes that exist, scrubbed, or proved to be clean.

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use argh::{ArgsInfo, FromArgs};

use super::files::{self, Output};
use super::redaction::{Redaction, Secrets, manifest_of, named_packs, packs_for};
use crate::cassette::foreign::{self, Format, mcp_cassette};
use crate::cassette::scrub::{self, Left, Marks};
use crate::cassette::{Cassette, document, journal};
use crate::error::{Error, Result};
use crate::exit;
use crate::jsonrpc::{pretty, string};
use crate::redact::Rules;

/// Take secrets and personal data out of cassettes that exist, or prove that none is in them.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "redact",
    example = "{command_name} old.cassette.json --in-place",
    example = "{command_name} old.cassette.json -o clean.cassette.json --redact '*ssn*' --pii-pack team.toml",
    example = "{command_name} --check tests/cassettes/*.json",
    example = "{command_name} --check --secret-env API_KEY tests/cassettes/* report.jsonl",
    note = "Every format is written back as what it is. Messages in which nothing is found keep their bytes, and a second run changes nothing. --check also applies the rules that a cassette names, and with --secret-env or --secret-file it looks through files of any kind. The salt of placeholders is MCPREEL_REDACT_SALT in the environment, unless --redact-salt-env names another variable.",
    error_code(1, "a file cannot be read or written"),
    error_code(2, "wrong usage, or a file is no cassette"),
    error_code(4, "--check: something is left to redact")
)]
pub struct Redact {
    /// the cassettes, in any format; - is standard input
    #[argh(positional, arg_name = "file")]
    pub files: Vec<String>,
    /// change nothing, and exit with 4 when something is left to redact
    #[argh(switch)]
    pub check: bool,
    /// write each cassette back to where it was
    #[argh(switch)]
    pub in_place: bool,
    /// where to write the one cassette; - is standard output
    #[argh(option, short = 'o', arg_name = "out")]
    pub output: Option<String>,
    /// with --check: text (default) or json
    #[argh(option, arg_name = "format")]
    pub format: Option<Shown>,
    /// also redact values of keys like this, or at this JSON pointer: KEYGLOB[=TEXT] or /pointer[=TEXT]
    #[argh(option, arg_name = "rule")]
    pub redact: Vec<String>,
    /// redact nothing but what --redact and --pii-pack name
    #[argh(switch)]
    pub no_default_redactions: bool,
    /// also redact by the rules of this pack, a TOML file
    #[argh(option, arg_name = "file")]
    pub pii_pack: Vec<String>,
    /// the value of this variable is a secret that must be nowhere, in no spelling
    #[argh(option, arg_name = "variable")]
    pub secret_env: Vec<String>,
    /// so is each line of this file
    #[argh(option, arg_name = "file")]
    pub secret_file: Vec<String>,
    /// the name that the cassette gives to these rules
    #[argh(option, arg_name = "name")]
    pub redact_profile: Option<String>,
    /// the variable with the salt that makes placeholders equal in all recordings
    #[argh(option, arg_name = "variable")]
    pub redact_salt_env: Option<String>,
    /// the configuration file (default: the nearest mcpreel.toml upwards)
    #[argh(option, arg_name = "file")]
    pub config_file: Option<String>,
    /// no configuration file
    #[argh(switch)]
    pub no_config: bool,
}

/// How findings are printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// One line each.
    Text,
    /// One document.
    Json,
}

impl std::str::FromStr for Shown {
    type Err = String;

    fn from_str(word: &str) -> std::result::Result<Self, String> {
        match word {
            "text" => Ok(Self::Text),
            "json" => Ok(Self::Json),
            _ => Err("expected text or json".to_owned()),
        }
    }
}

/// Something that is left, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Finding {
    file: String,
    line: Option<usize>,
    pointer: String,
    rule: String,
}

/// A file as it was read.
struct Input {
    name: String,
    bytes: Vec<u8>,
}

impl Redact {
    /// Scrubs, or checks; a cassette for standard output and findings go to `out`, remarks to `notes`.
    pub fn run(&self, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
        let usage = |what: &str| Err(Error::Usage(what.to_owned()));
        if self.files.is_empty() {
            return usage("redact needs <file>; see mcpreel redact --help");
        }
        if self.files.iter().filter(|file| *file == "-").count() > 1 {
            return usage("redact reads standard input once");
        }
        match (self.check, self.in_place, &self.output) {
            (true, true, _) | (true, _, Some(_)) => {
                usage("--check writes nothing: leave out --in-place and -o")
            }
            (true, ..) => self.check(out, notes),
            _ if self.format.is_some() => usage("--format goes with --check"),
            (false, true, Some(_)) => usage("either --in-place or -o"),
            (false, false, None) => {
                usage("say where the result goes: --in-place, or -o OUT (- is standard output); or --check")
            }
            (false, true, None) if self.files.iter().any(|file| file == "-") => {
                usage("--in-place takes files; for standard input say where the result goes, with -o")
            }
            (false, true, None) => {
                self.files.iter().try_for_each(|file| self.scrub(file, &Output::to(file), out, notes))?;
                Ok(exit::OK)
            }
            (false, false, Some(output)) => match self.files.as_slice() {
                [file] => self.scrub(file, &Output::to(output), out, notes).map(|()| exit::OK),
                _ => usage("-o takes one cassette; for several --in-place"),
            },
        }
    }

    fn redaction(&self) -> Redaction<'_> {
        Redaction {
            own: &self.redact,
            no_defaults: self.no_default_redactions,
            packs: &self.pii_pack,
            secrets: self.secrets(),
            profile: self.redact_profile.as_deref(),
            salt_env: self.redact_salt_env.as_deref(),
        }
    }

    fn secrets(&self) -> Secrets<'_> {
        Secrets { env: &self.secret_env, files: &self.secret_file, ..Secrets::default() }
    }

    /// The rules for one cassette: those of the options and those that it was redacted with.
    fn rules(&self, path: &Path, cassette: &Cassette) -> Result<Arc<Rules>> {
        let manifest = manifest_of(path, cassette.head.redaction.as_deref())?;
        let packs = named_packs(path, &manifest, &packs_for(path, &manifest, &self.pii_pack)?)?;
        Ok(Arc::new(self.redaction().rules_besides(&manifest, &packs)?))
    }

    fn scrub(&self, file: &str, output: &Output, out: &mut dyn Write, notes: &mut dyn Write) -> Result<()> {
        let input = read(file)?;
        let path = Path::new(&input.name);
        let format = format_of(&input.bytes);
        let cassette = Cassette::parse(path, input.bytes.clone())?;
        output.check()?;
        let rules = self.rules(path, &cassette)?;
        let marks = match format {
            Some(Format::Har) => {
                let what = "a HAR file has headers and requests that no cassette has, and rules do not reach; \
                            mcpreel convert makes a cassette of it, and this command takes that";
                return Err(Error::input(path, "", what));
            }
            Some(Format::McpCassette) => Marks::Word(mcp_cassette::RULE),
            Some(_) => Marks::None,
            None => Marks::Ids,
        };
        let scrubbed = scrub::scrub(&cassette, &rules, marks);
        files::tell(notes, &files::remarks(&cassette), &[]);
        let unseen = !self.secrets().are_none() && scrubbed.secrets == 0;
        let what = format!(
            "{}: {} replaced{}",
            input.name,
            match scrubbed.values {
                1 => "1 value".to_owned(),
                values => format!("{values} values"),
            },
            if unseen { "; none of the given secrets was in it" } else { "" }
        );
        files::tell(notes, [&what], &[]);
        if !scrubbed.changed {
            // A file that is clean stays as it is, byte for byte.
            return match *output == Output::to(file) {
                true => Ok(()),
                false => output.put(&String::from_utf8_lossy(&input.bytes), out).map(drop),
            };
        }
        let scrubbed = scrubbed.cassette;
        let text = match format {
            Some(format) => {
                let written = foreign::write(format, &scrubbed)?;
                if !written.dropped.is_empty() {
                    files::tell(notes, &[], &written.dropped);
                    let what = "its format cannot hold all that was read from it, see above; mcpreel convert makes \
                                a cassette of it, and this command takes that";
                    return Err(Error::input(path, "", what));
                }
                if marks == Marks::None {
                    let what = format!(
                        "{}: {} cannot say that a message was redacted, so a replay takes placeholders for text; \
                         a cassette that mcpreel convert makes can",
                        input.name,
                        format.word()
                    );
                    files::tell(notes, [&what], &[]);
                }
                written.text
            }
            None if cassette.is_journal() => journal::write(&scrubbed),
            None => document::write(&scrubbed),
        };
        Self::prove(&input.name, &text, &rules)?;
        output.put(&text, out).map(drop)
    }

    /// Better no file than one that still holds what was to go.
    fn prove(name: &str, text: &str, rules: &Arc<Rules>) -> Result<()> {
        let again = Cassette::parse(Path::new(name), text.as_bytes().to_vec())?;
        let input = Input { name: name.to_owned(), bytes: text.as_bytes().to_vec() };
        let left = findings(&input, Some(&again), rules);
        let Some(first) = left.first() else { return Ok(()) };
        let what = format!(
            "{} would be left and cannot be replaced where it stands, by the rule {}; nothing was written",
            if left.len() == 1 { "something".to_owned() } else { format!("{} values", left.len()) },
            first.rule
        );
        Err(Error::input(name, place(first), what))
    }

    fn check(&self, out: &mut dyn Write, notes: &mut dyn Write) -> Result<u8> {
        let mut found = Vec::new();
        let plain = if self.secrets().are_none() { None } else { Some(Arc::new(self.redaction().rules()?)) };
        for file in &self.files {
            let input = read(file)?;
            let path = Path::new(&input.name);
            match (Cassette::parse(path, input.bytes.clone()), &plain) {
                (Ok(cassette), _) => {
                    let rules = self.rules(path, &cassette)?;
                    found.extend(findings(&input, Some(&cassette), &rules));
                }
                (Err(_), Some(rules)) => {
                    let what = format!("{}: no cassette; only the secrets were looked for", input.name);
                    files::tell(notes, [&what], &[]);
                    found.extend(findings(&input, None, rules));
                }
                (Err(error), None) => return Err(error),
            }
        }
        let text = match self.format.unwrap_or(Shown::Text) {
            Shown::Text => found.iter().map(Finding::line).collect(),
            Shown::Json => json(&found),
        };
        Output::Standard.put(&text, out)?;
        Ok(if found.is_empty() { exit::OK } else { exit::FOUND })
    }
}

impl Finding {
    fn line(&self) -> String {
        let line = format!("{}: {}: {}", self.file, place(self), self.rule);
        super::printable(&line) + "\n"
    }
}

/// Line and pointer, as far as they are known.
fn place(finding: &Finding) -> String {
    match (finding.line, finding.pointer.as_str()) {
        (Some(line), "") => format!("line {line}"),
        (Some(line), pointer) => format!("line {line} ({pointer})"),
        (None, pointer) => pointer.to_owned(),
    }
}

fn json(found: &[Finding]) -> String {
    let rows: Vec<String> = found
        .iter()
        .map(|finding| {
            format!(
                "{{\"file\":{},\"line\":{},\"pointer\":{},\"rule\":{}}}",
                string::encode(&finding.file),
                finding.line.map_or("null".to_owned(), |line| line.to_string()),
                string::encode(&finding.pointer),
                string::encode(&finding.rule)
            )
        })
        .collect();
    let mut text = String::new();
    // What is made here is JSON.
    let _ = pretty::indent(&format!("{{\"findings\":[{}]}}", rows.join(",")), 0, &mut text);
    text + "\n"
}

/// Reads a file or standard input. A folder of a recording is none.
fn read(file: &str) -> Result<Input> {
    if file == "-" {
        let bytes = super::standard::read_to_end().map_err(Error::io("read", "standard input"))?;
        return Ok(Input { name: files::called(file).to_owned(), bytes });
    }
    let path = Path::new(file);
    if path.is_dir() {
        let what = if file.contains(".partial") {
            "is the folder of a recording that has not ended, or was interrupted; mcpreel end or mcpreel recover makes \
             a cassette of it first"
        } else {
            "is a folder; expected cassettes"
        };
        return Err(Error::input(path, "", what));
    }
    if !path.exists() {
        // Says what there is in its place, if anything.
        files::read(file)?;
        return Err(Error::input(path, "", "is a recording that is not merged yet; mcpreel end finishes it"));
    }
    if !path.is_file() {
        return Err(Error::input(
            path,
            "",
            "is a device or a pipe; expected a cassette file (- reads from a pipe)",
        ));
    }
    let bytes = std::fs::read(path).map_err(Error::io("read", path))?;
    Ok(Input { name: file.to_owned(), bytes })
}

fn format_of(bytes: &[u8]) -> Option<Format> {
    std::str::from_utf8(bytes).ok().and_then(foreign::recognise)
}

/// What is left in a file.
fn findings(input: &Input, cassette: Option<&Cassette>, rules: &Arc<Rules>) -> Vec<Finding> {
    let line_at =
        |at: usize| 1 + memchr::memchr_iter(b'\n', input.bytes.get(..at).unwrap_or(&input.bytes)).count();
    // A name in a pointer may be what was found.
    let shown = |pointer: &str| {
        pointer.split('/').map(|segment| rules.redact_plain(segment)).collect::<Vec<_>>().join("/")
    };
    let row = |left: Left, lines: bool| Finding {
        file: input.name.clone(),
        line: left.at.filter(|_| lines).map(line_at),
        pointer: shown(&left.pointer),
        rule: left.rule,
    };
    // Only ours is the text that it was read from.
    let ours = cassette.filter(|cassette| cassette.text.as_bytes() == input.bytes);
    let mut found: Vec<Finding> = match ours {
        Some(cassette) => scrub::known(cassette, rules).into_iter().map(|left| row(left, true)).collect(),
        None => {
            let known = rules.find_known(&input.bytes).into_iter();
            let rule = crate::redact::KNOWN.to_owned();
            known
                .map(|span| Left { at: Some(span.start), pointer: String::new(), rule: rule.clone() })
                .map(|left| row(left, true))
                .collect()
        }
    };
    if let Some(cassette) = cassette {
        let left = scrub::left(cassette, rules);
        found.extend(left.into_iter().map(|left| row(left, ours.is_some())));
    }
    found.dedup();
    found
}
