//! The configuration file: options that hold for every command line below its folder.
//!
//! That is the nearest `mcpreel.toml` upwards, or `pyproject.toml` with a table `tool.mcpreel`. A key is the name of an
//! option, in the table that it belongs to; the command line goes before it, and lists are added to those typed.

use std::ops::Range;
use std::path::{Path, PathBuf};

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::error::{Error, Result};

const FILE: &str = "mcpreel.toml";
const PYPROJECT: &str = "pyproject.toml";

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
        keys: &["listen", "max_body", "allow_host", "allow_origin", "sse", "report"],
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
}

/// One option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Its name on the command line, without dashes.
    pub option: String,
    /// Its values; none for a switch that is on.
    pub values: Vec<String>,
    /// The commands that it is for.
    pub commands: &'static [&'static str],
    /// Where it stands.
    pub line: usize,
}

impl Settings {
    /// Those that `option` names, else those of the nearest file from `folder` upwards.
    ///
    /// # Errors
    ///
    /// [`Error::Input`] for what cannot be understood, [`Error::Io`] for a named file that cannot be read.
    pub fn find(option: Option<&str>, folder: &Path) -> Result<Self> {
        if let Some(path) = option.map(Path::new) {
            let text = std::fs::read_to_string(path).map_err(Error::io("read the configuration", path))?;
            let is_pyproject = path.file_name().is_some_and(|name| name == PYPROJECT);
            return Self::parse(path, &text, is_pyproject);
        }
        for folder in folder.ancestors() {
            let path = folder.join(FILE);
            match std::fs::read_to_string(&path) {
                Ok(text) => return Self::parse(&path, &text, false),
                // A folder of that name is none, and what may not be read is not ours.
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    return Err(Error::input(&path, "", "is not UTF-8"));
                }
                Err(_) => {}
            }
            let path = folder.join(PYPROJECT);
            if let Ok(text) = std::fs::read_to_string(&path)
                && text.contains("tool.mcpreel")
            {
                return Self::parse(&path, &text, true);
            }
        }
        Ok(Self::default())
    }

    /// What the file says about the mode.
    #[must_use]
    pub fn mode(&self) -> Option<&str> {
        let mode = self.list.iter().find(|setting| setting.option == "mode")?;
        mode.values.first().map(String::as_str)
    }

    fn parse(path: &Path, text: &str, is_pyproject: bool) -> Result<Self> {
        let reader = Reader { path, text, folder: path.parent().unwrap_or(Path::new("")) };
        let root = DeTable::parse(text).map_err(|error| {
            let what = error.message().replace('\n', " ");
            Error::input(path, reader.line(&error.span().unwrap_or_default()), what)
        })?;
        let mut list = Vec::new();
        let mut root = root.get_ref();
        if is_pyproject {
            let tool = root.get("tool").and_then(|tool| tool.get_ref().as_table());
            match tool.and_then(|tool| tool.get("mcpreel")?.get_ref().as_table()) {
                Some(table) => root = table,
                None => return Ok(Self::default()),
            }
        }
        for (key, value) in root {
            match TABLES.iter().find(|table| !table.name.is_empty() && table.name == &**key.get_ref()) {
                Some(table) => reader.table(table.name, value, &mut list)?,
                None => reader.entry("", key, value, &mut list)?,
            }
        }
        list.sort_by_key(|setting| setting.line);
        Ok(Self { path: Some(path.to_owned()), list })
    }
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

impl Reader<'_> {
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
        let values = match value.get_ref() {
            DeValue::Boolean(false) => return Ok(()),
            DeValue::Boolean(true) => Vec::new(),
            DeValue::Array(values) => {
                values.iter().map(|value| self.text_of(&name, value)).collect::<Result<Vec<_>>>()?
            }
            _ => vec![self.text_of(&name, value)?],
        };
        // An empty list is nothing, not a switch.
        if values.is_empty() && value.get_ref().is_array() {
            return Ok(());
        }
        let line = self.number(&key.span());
        list.push(Setting { option: name.replace('_', "-"), values, commands: row.commands, line });
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
        Ok(if is_file { self.folder.join(text).to_string_lossy().into_owned() } else { text })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Vec<(String, Vec<String>)>> {
        let settings = Settings::parse(Path::new("/p/mcpreel.toml"), text, false)?;
        Ok(settings.list.into_iter().map(|setting| (setting.option, setting.values)).collect())
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
            ("max-body", &["1000"]),
            ("report", &["/p/r.jsonl"]),
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
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.to_string().starts_with(expected), "{text}: {error}");
            assert_eq!(error.code(), 2);
        }
    }
}
