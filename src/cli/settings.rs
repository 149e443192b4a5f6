//! The configuration file: options that hold for every command line below its folder.
//!
//! That is the nearest `mcpreel.toml` upwards, or `pyproject.toml` with a table `tool.mcpreel`. A key is the name of an
//! option, in the table that it belongs to; the command line goes before it, and lists are added to those typed.

use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::door::Mode;
use crate::error::{Error, Result, words};

const FILE: &str = "mcpreel.toml";
const PYPROJECT: &str = "pyproject.toml";
/// The largest configuration file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

/// A table, options in it, and the commands that they are for. A table may stand here more than once.
struct Table {
    name: &'static str,
    keys: &'static [&'static str],
    commands: &'static [&'static str],
}

const TABLES: [Table; 6] = [
    Table { name: "", keys: &["mode", "claim_wait"], commands: &["use", "run", "begin"] },
    Table {
        name: "match",
        keys: &[
            "ordering",
            "ignore",
            "ignore_value",
            "match_inputs",
            "repeat",
            "strict",
            "rewrite_protocol_version",
            "require_all_used",
            "answer_timeout",
            "faults",
            "require_faults",
            "pace",
            "pace_scale",
            "pace_cap_ms",
        ],
        commands: &["use", "run", "serve"],
    },
    Table {
        name: "redact",
        keys: &["redact", "no_default_redactions"],
        commands: &["use", "run", "record", "redact", "serve"],
    },
    Table {
        name: "redact",
        keys: &["redact_profile", "redact_salt_env"],
        commands: &["use", "run", "record", "redact"],
    },
    Table {
        name: "redact",
        keys: &["pii_pack", "secret_env", "secret_file"],
        commands: &["use", "run", "record", "serve", "redact"],
    },
    Table {
        name: "serve",
        keys: &["listen", "max_body", "max_idle", "allow_host", "allow_origin", "sse", "report"],
        commands: &["serve"],
    },
];

/// Options whose values are files: in a configuration file they are relative to its folder.
const FILES: [&str; 4] = ["report", "faults", "pii_pack", "secret_file"];

/// What a configuration file says.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The file.
    pub path: Option<PathBuf>,
    /// In the order of the file.
    pub list: Vec<Setting>,
    /// The values that were added to what was typed.
    pub used: Vec<Used>,
}

/// A value of an option that comes from the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Used {
    /// The option's name on the command line, without dashes.
    pub option: String,
    /// The value.
    pub value: String,
    /// Where it stands.
    pub line: usize,
    /// The option has no other value.
    pub alone: bool,
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name on the command line, without dashes.
    pub option: String,
    /// Its values; none where it is a switch or an empty list.
    pub values: Vec<String>,
    /// What it is besides.
    pub kind: Kind,
    /// The line of each value.
    pub lines: Vec<usize>,
    /// The commands that it is for.
    pub commands: &'static [&'static str],
    /// Where it stands.
    pub line: usize,
}

/// What stands behind a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Text, or a number.
    Text,
    /// A list of them.
    List,
    /// A switch that is on or off.
    Switch(bool),
}

impl Setting {
    /// What is wrong with it for an option that is a switch, or takes many values or one.
    #[must_use]
    pub fn fault(&self, switch: bool, many: bool) -> Option<&'static str> {
        match (self.kind, self.values.len()) {
            (Kind::Switch(_), _) if switch => None,
            _ if switch => Some("is true or false"),
            (Kind::Switch(_), _) => Some("takes a value"),
            (_, 1) => None,
            _ if many => None,
            (_, 0) => Some("takes a value"),
            _ => Some("takes one value"),
        }
    }

    /// Its values, each with its place; `typed`: there are others.
    pub fn used(&self, typed: bool) -> impl Iterator<Item = Used> + '_ {
        let used = move |(value, line): (&String, &usize)| Used {
            option: self.option.clone(),
            value: value.clone(),
            line: *line,
            alone: !typed && self.values.len() == 1,
        };
        self.values.iter().zip(&self.lines).map(used)
    }
}

impl Settings {
    /// Those that `option` names, else those of the nearest file from `folder` upwards.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] for what cannot be understood, and for a `mcpreel.toml` that is there and cannot be read;
    /// [`Error::Io`] for a named file that cannot be read.
    pub fn find(option: Option<&str>, folder: &Path) -> Result<Self> {
        if let Some(path) = option.map(Path::new) {
            let text = read_named(path)?;
            if path.file_name().is_none_or(|name| name != PYPROJECT) {
                return Self::parse(path, &text);
            }
            let what = "has no table tool.mcpreel, so no configuration";
            return Self::parse_pyproject(path, &text)?.ok_or_else(|| Error::input(path, "", what));
        }
        for folder in folder.ancestors() {
            let path = folder.join(FILE);
            // A link that leads nowhere is there too.
            if std::fs::symlink_metadata(&path).is_ok() {
                if is_of_a_stranger(&path, folder) {
                    super::say(&format!(
                        "note: {} is passed over: another user owns it, in a folder that everyone can write to",
                        path.display()
                    ));
                } else {
                    let text = read(&path).map_err(|what| Error::input(&path, "", what))?;
                    return Self::parse(&path, &text);
                }
            }
            // This one is another tool's, which may make of it what it wants.
            let path = folder.join(PYPROJECT);
            if let Ok(text) = read(&path)
                && text.contains("mcpreel")
                && !is_of_a_stranger(&path, folder)
                && let Some(found) = Self::parse_pyproject(&path, &text)?
            {
                return Ok(found);
            }
        }
        Ok(Self::default())
    }

    /// What the file says about the mode, and the file.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] when there is no such mode.
    pub fn mode(&self) -> Result<Option<(&str, &Path)>> {
        let Some(setting) = self.list.iter().find(|setting| setting.option == "mode") else {
            return Ok(None);
        };
        let file = self.path.as_deref().unwrap_or(Path::new(""));
        if let Some(what) = setting.fault(false, false) {
            return Err(Error::input(file, format!("line {}", setting.line), format!("mode {what}")));
        }
        let mode = setting.values.first().map_or("", |mode| mode.trim());
        if Mode::EVERY.iter().any(|known| known.name() == mode) {
            return Ok(Some((mode, file)));
        }
        let valid = Mode::EVERY.map(Mode::name).join(", ");
        Err(Error::input(
            file,
            format!("line {}", setting.line),
            format!("unknown mode {mode}; valid are: {valid}"),
        ))
    }

    /// An error with its place in the file where it is about a value from there. Such an error begins with the option and
    /// its value, or is about the file that the value names.
    #[must_use]
    pub fn place(&self, error: Error) -> Error {
        let placed = match &error {
            Error::Usage(text) => self.place_text(text),
            Error::Io { path, .. } => self.of_file(path, &error),
            Error::Input { path, place, .. } if place.is_empty() => self.of_file(path, &error),
            _ => None,
        };
        placed.unwrap_or(error)
    }

    /// What was said about the value of an option, with its place where it is from the file.
    #[must_use]
    pub fn place_text(&self, text: &str) -> Option<Error> {
        let about = |used: &Used| {
            let rest = text.strip_prefix("--")?.strip_prefix(&used.option)?;
            rest.starts_with([' ', ':']).then_some(rest)
        };
        let named = |used: &&Used| {
            let Some(rest) = about(used).and_then(|rest| rest.strip_prefix(' ')) else { return false };
            let rest = rest.trim_start_matches('"');
            let all = rest.strip_prefix(&used.value).is_some_and(|after| after.starts_with([':', '"']));
            // Of KEY=TEXT only the key is told.
            let left = rest.split_once(": ").and_then(|(told, _)| used.value.strip_prefix(told));
            all || left.is_some_and(|left| left.starts_with('='))
        };
        let only = |used: &&Used| used.alone && about(used).is_some();
        let used = self.used.iter().find(named).or_else(|| self.used.iter().find(only))?;
        Some(self.error(used, about(used)?))
    }

    /// What was said about a file, where it is the value of an option from here.
    fn of_file(&self, path: &Path, error: &Error) -> Option<Error> {
        let names = |used: &&Used| FILES.contains(&&*key(&used.option)) && Path::new(&used.value) == path;
        self.used.iter().find(names).map(|used| self.error(used, &format!(": {error}")))
    }

    fn error(&self, used: &Used, what: &str) -> Error {
        let file = self.path.as_deref().unwrap_or(Path::new(""));
        Error::input(file, format!("line {}", used.line), format!("{}{what}", key(&used.option)))
    }

    fn parse(path: &Path, text: &str) -> Result<Self> {
        let reader = Reader::of(path, text);
        Self::of_table(&reader, reader.root()?.get_ref())
    }

    /// What the table `tool.mcpreel` says, where there is one.
    fn parse_pyproject(path: &Path, text: &str) -> Result<Option<Self>> {
        let reader = Reader::of(path, text);
        let root = match reader.root() {
            Ok(root) => root,
            // Other tools complain about their own tables.
            Err(_) if !text.contains("tool.mcpreel") => return Ok(None),
            Err(error) => return Err(error),
        };
        let tool = root.get_ref().get("tool").and_then(|tool| tool.get_ref().as_table());
        let Some(ours) = tool.and_then(|tool| tool.get("mcpreel")) else { return Ok(None) };
        match ours.get_ref().as_table() {
            Some(table) => Self::of_table(&reader, table).map(Some),
            None => Err(Error::input(path, reader.line(&ours.span()), "tool.mcpreel is a table of options")),
        }
    }

    fn of_table(reader: &Reader<'_>, table: &DeTable<'_>) -> Result<Self> {
        let mut list = Vec::new();
        for (key, value) in table {
            match TABLES.iter().find(|table| !table.name.is_empty() && table.name == &**key.get_ref()) {
                Some(table) => reader.table(table.name, value, &mut list)?,
                None => reader.entry("", key, value, &mut list)?,
            }
        }
        list.sort_by_key(|setting| setting.line);
        Ok(Self { path: Some(reader.path.to_owned()), list, used: Vec::new() })
    }
}

/// How an option is called in the file.
fn key(option: &str) -> String {
    option.replace('-', "_")
}

/// The text of a configuration file, or why it is none. Nothing else than a regular file is opened: others may never
/// end.
fn read(path: &Path) -> std::result::Result<String, String> {
    let cannot = |error: std::io::Error| format!("the configuration cannot be read: {}", words(&error));
    let found = std::fs::metadata(path).map_err(cannot)?;
    if !found.is_file() {
        return Err("is no regular file, so no configuration; rename it, or give --no-config".to_owned());
    }
    match read_some(path).map_err(cannot)? {
        Some(bytes) => String::from_utf8(bytes).map_err(|_| "is not UTF-8".to_owned()),
        None => Err(format!("{TOO_LONG}; rename it, or give --no-config")),
    }
}

const TOO_LONG: &str = "is larger than 1 MiB, which no configuration is";

/// The text of the configuration file that was named. It may be a pipe: shells make files of them. What has no end is cut.
fn read_named(path: &Path) -> Result<String> {
    let bytes = read_some(path).map_err(Error::io("read the configuration", path))?;
    let bytes = bytes.ok_or_else(|| Error::input(path, "", TOO_LONG))?;
    String::from_utf8(bytes).map_err(|_| Error::input(path, "", "is not UTF-8"))
}

/// What a file holds; `None`: more than any configuration.
fn read_some(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)?.take(LONGEST + 1).read_to_end(&mut bytes)?;
    Ok((u64::try_from(bytes.len()).is_ok_and(|length| length <= LONGEST)).then_some(bytes))
}

/// Whether anybody could have put the file there: it belongs neither to this user nor to root, and everyone can write
/// to its folder.
#[cfg(unix)]
fn is_of_a_stranger(path: &Path, folder: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    // The link counts, not what it leads to: who made it chose that.
    let owner = std::fs::symlink_metadata(path).map_or(0, |found| found.uid());
    let mode = std::fs::metadata(folder).map_or(0, |found| found.mode());
    may_be_planted(owner, rustix::process::geteuid().as_raw(), mode)
}

#[cfg(unix)]
fn may_be_planted(owner: u32, us: u32, folder_mode: u32) -> bool {
    folder_mode & 0o002 != 0 && owner != 0 && owner != us
}

#[cfg(not(unix))]
fn is_of_a_stranger(_path: &Path, _folder: &Path) -> bool {
    false
}

/// Every key and the commands that it is for.
#[cfg(test)]
pub(super) fn keys() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    TABLES.iter().flat_map(|table| table.keys.iter().map(|key| (*key, table.commands)))
}

struct Reader<'a> {
    path: &'a Path,
    text: &'a str,
    folder: &'a Path,
}

impl<'a> Reader<'a> {
    fn of(path: &'a Path, text: &'a str) -> Self {
        Self { path, text, folder: path.parent().unwrap_or(Path::new("")) }
    }

    fn root(&self) -> Result<Spanned<DeTable<'a>>> {
        DeTable::parse(self.text).map_err(|error| {
            let what = error.message().replace('\n', " ");
            Error::input(self.path, self.line(&error.span().unwrap_or_default()), what)
        })
    }

    fn number(&self, span: &Range<usize>) -> usize {
        self.text.get(..span.start).unwrap_or(self.text).matches('\n').count() + 1
    }

    fn line(&self, span: &Range<usize>) -> String {
        format!("line {}", self.number(span))
    }

    fn table(&self, table: &str, value: &Spanned<DeValue<'_>>, list: &mut Vec<Setting>) -> Result<()> {
        let Some(entries) = value.get_ref().as_table() else {
            let what = format!("[{table}] is a table of options");
            return Err(Error::input(self.path, self.line(&value.span()), what));
        };
        entries.iter().try_for_each(|(key, value)| self.entry(table, key, value, list))
    }

    fn entry(
        &self,
        table: &str,
        key: &Spanned<std::borrow::Cow<'_, str>>,
        value: &Spanned<DeValue<'_>>,
        list: &mut Vec<Setting>,
    ) -> Result<()> {
        let name = key.get_ref().replace('-', "_");
        let wrong = |what: String| Error::input(self.path, self.line(&key.span()), what);
        let mut tables = TABLES.iter().filter(|other| other.name == table);
        let Some(row) = tables.clone().find(|row| row.keys.contains(&&*name)) else {
            let known =
                tables.by_ref().flat_map(|row| row.keys.iter().copied()).collect::<Vec<_>>().join(", ");
            let (of, also) = match table {
                "" => (String::new(), "; tables are [match], [redact] and [serve]"),
                name => (format!(" in [{name}]"), ""),
            };
            return Err(wrong(format!("unknown key {:?}{of}; known are {known}{also}", key.get_ref())));
        };
        let kind = match value.get_ref() {
            DeValue::Boolean(on) => Kind::Switch(*on),
            DeValue::Array(_) => Kind::List,
            _ => Kind::Text,
        };
        let values = match value.get_ref() {
            DeValue::Boolean(_) => Vec::new(),
            DeValue::Array(values) => {
                values.iter().map(|value| self.text_of(&name, value)).collect::<Result<Vec<_>>>()?
            }
            _ => vec![self.text_of(&name, value)?],
        };
        let lines = match value.get_ref() {
            DeValue::Array(values) => values.iter().map(|value| self.number(&value.span())).collect(),
            _ => vec![self.number(&value.span()); values.len()],
        };
        let line = self.number(&key.span());
        list.push(Setting {
            option: name.replace('_', "-"),
            values,
            kind,
            lines,
            commands: row.commands,
            line,
        });
        Ok(())
    }

    fn text_of(&self, name: &str, value: &Spanned<DeValue<'_>>) -> Result<String> {
        let text = match value.get_ref() {
            DeValue::String(text) => text.clone().into_owned(),
            DeValue::Integer(number) => number.to_string(),
            DeValue::Float(number) => number.to_string(),
            _ => {
                let what = format!("{name} takes text, a number, or a list of them");
                return Err(Error::input(self.path, self.line(&value.span()), what));
            }
        };
        let is_file = FILES.contains(&name);
        if is_file && text.is_empty() {
            let what = format!("{name} needs the name of a file");
            return Err(Error::input(self.path, self.line(&value.span()), what));
        }
        Ok(if is_file { self.folder.join(text).to_string_lossy().into_owned() } else { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(String, Vec<String>)>> {
        let settings = Settings::parse(Path::new("/p/mcpreel.toml"), text)?;
        Ok(settings.list.into_iter().map(|setting| (setting.option, setting.values)).collect())
    }

    #[cfg(unix)]
    #[test]
    fn a_stranger_s_file_in_a_folder_for_everyone_is_not_ours() {
        for (owner, us, folder, expected) in [
            (1001, 1000, 0o41777, true),
            (1001, 0, 0o40777, true),
            (1001, 1000, 0o40755, false),
            (1000, 1000, 0o41777, false),
            (0, 1000, 0o41777, false),
        ] {
            assert_eq!(may_be_planted(owner, us, folder), expected, "{owner} {us} {folder:o}");
        }
    }

    #[test]
    fn keys_are_options() {
        let text = "mode = \"none\"\nclaim-wait = 1.5\n[match]\nignore = [\"/a\", \"/b\"]\nstrict = true\nrequire_all_used = false\n\
                    [serve]\nmax_body = 1_000\nreport = \"r.jsonl\"\nallow_host = []\n[redact]\nredact = \"*x*\"\n";
        let expected = [
            ("mode", &["none"][..]),
            ("claim-wait", &["1.5"]),
            ("ignore", &["/a", "/b"]),
            ("strict", &[]),
            ("require-all-used", &[]),
            ("max-body", &["1000"]),
            ("report", &["/p/r.jsonl"]),
            ("allow-host", &[]),
            ("redact", &["*x*"]),
        ];
        let expected: Vec<(String, Vec<String>)> = expected
            .iter()
            .map(|(name, values)| ((*name).to_owned(), values.iter().map(|it| (*it).to_owned()).collect()))
            .collect();
        assert_eq!(parse(text).unwrap(), expected);
        assert_eq!(parse("").unwrap(), []);
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        for (text, expected) in [
            ("\nmode = none", "/p/mcpreel.toml: line 2: "),
            (
                "[match]\n\nignores = []",
                "/p/mcpreel.toml: line 3: unknown key \"ignores\" in [match]; known are ordering, ignore,",
            ),
            (
                "[matching]\nx = 1",
                "/p/mcpreel.toml: line 1: unknown key \"matching\"; known are mode, claim_wait; tables are [match]",
            ),
            ("match = 1", "/p/mcpreel.toml: line 1: [match] is a table of options"),
            (
                "[match]\nignore = [\n  1,\n  {}\n]",
                "/p/mcpreel.toml: line 4: ignore takes text, a number, or a list",
            ),
            ("mode = 1979-05-27", "/p/mcpreel.toml: line 1: mode takes text"),
            ("[serve]\nreport = \"\"", "/p/mcpreel.toml: line 2: report needs the name of a file"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{text}: {error}");
            assert_eq!(error.code(), 2);
        }
    }
}
