//! From what was typed to a command's struct. argh parses values and writes the help pages; this layer in front of
//! it adds what people expect of a command line: `--key=value`, `-h`, `-V`, grouped short switches, `-` as a file, a
//! wrapped command of any bytes behind `--` (or without it), suggestions, and usage errors of one line with exit 2.
//!
//! [`split`] sorts the arguments by what the command's own description says takes a value, and puts every positional
//! behind a `--`, so that argh never has to guess.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::Path;

use argh::{ArgsInfo, CommandInfoWithArgs, EarlyExit, FlagInfo, FlagInfoKind, FromArgs, Optionality};

use super::settings::{Kind, Settings};
use crate::exit;

mod pages;
mod suggest;
#[cfg(test)]
mod tests;

pub(super) use pages::reworded;
use pages::{overview, with_command};

/// The option that names a configuration file, and the one that wants none.
const CONFIG: &str = "config-file";
const NO_CONFIG: &str = "no-config";

/// What the normaliser must know and argh does not say.
#[derive(Clone, Copy, Debug)]
pub struct Program<'a> {
    /// The name in messages.
    pub name: &'a str,
    /// What `-V` prints behind the name.
    pub version: &'a str,
    /// The subcommands that take a wrapped command.
    pub wrapping: &'a [&'a str],
    /// The configuration: that of the named file, else the nearest one.
    pub settings: fn(Option<&str>) -> crate::error::Result<Settings>,
}

/// What to do.
#[derive(Debug)]
pub enum Parsed<T> {
    /// Run this, around this command where one was given, under this configuration.
    Run(T, Option<Vec<OsString>>, Settings),
    /// Print this and end: to standard output when the code is 0, else to standard error.
    Print {
        /// Whole lines.
        text: String,
        /// The exit code.
        code: u8,
    },
}

/// Arguments in the order and spelling that argh takes, and the wrapped command.
#[derive(Debug, PartialEq, Eq)]
pub struct Split {
    /// Subcommands, options, and behind `--` the positionals.
    pub front: Vec<String>,
    /// The subcommands alone.
    pub path: Vec<String>,
    /// The wrapped command, byte for byte.
    pub command: Option<Vec<OsString>>,
    /// The configuration that was taken into account.
    pub settings: Settings,
}

/// Why nothing is to be run.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// The help page of this subcommand is wanted.
    Help(Vec<String>),
    /// The version is wanted.
    Version,
    /// Nothing was typed.
    Nothing,
    /// What was typed makes no sense: why, and the subcommand it was said to.
    Usage(String, Vec<String>),
    /// The configuration file cannot be taken as it is.
    Configuration(String),
}

/// Turns arguments (program name left out) into the struct of a command.
pub fn parse<T: FromArgs + ArgsInfo>(program: &Program<'_>, raw: Vec<OsString>) -> Parsed<T> {
    let info = T::get_args_info();
    let split = match split(program, &info, raw) {
        Ok(split) => split,
        Err(stop) => return stopped::<T>(program, &info, stop),
    };
    let front: Vec<&str> = split.front.iter().map(String::as_str).collect();
    match T::from_args(&[program.name], &front) {
        Ok(top) => Parsed::Run(top, split.command, split.settings),
        Err(EarlyExit { output, status: Ok(()) }) => Parsed::Print { text: output, code: exit::OK },
        Err(EarlyExit { output, .. }) => {
            let what = reworded(&output);
            let stop = match split.settings.place_text(&what) {
                Some(error) => Stop::Configuration(error.to_string()),
                None => Stop::Usage(what, split.path),
            };
            stopped::<T>(program, &info, stop)
        }
    }
}

fn stopped<T: FromArgs>(program: &Program<'_>, info: &CommandInfoWithArgs, stop: Stop) -> Parsed<T> {
    match stop {
        Stop::Version => {
            Parsed::Print { text: format!("{} {}\n", program.name, program.version), code: exit::OK }
        }
        Stop::Nothing => Parsed::Print { text: overview(program, info), code: exit::USAGE },
        Stop::Usage(what, path) => {
            let page = [program.name].into_iter().chain(path.iter().map(String::as_str));
            let page = page.collect::<Vec<_>>().join(" ");
            let text = format!("{}: {what}; see {page} --help\n", program.name);
            Parsed::Print { text, code: exit::USAGE }
        }
        Stop::Configuration(what) => {
            Parsed::Print { text: format!("{}: {what}\n", program.name), code: exit::USAGE }
        }
        Stop::Help(path) => {
            let asked: Vec<&str> = path.iter().map(String::as_str).chain(["--help"]).collect();
            let text = match T::from_args(&[program.name], &asked) {
                Ok(_) => overview(program, info),
                Err(EarlyExit { output, .. }) => output,
            };
            Parsed::Print { text: with_command(program, &path, text), code: exit::OK }
        }
    }
}

/// Sorts the arguments. Nothing is looked up in argh but the description of the program.
pub fn split(program: &Program<'_>, info: &CommandInfoWithArgs, raw: Vec<OsString>) -> Result<Split, Stop> {
    if raw.is_empty() {
        return Err(Stop::Nothing);
    }
    let mut walk = Walk {
        program,
        level: info,
        front: Vec::new(),
        path: Vec::new(),
        positionals: Vec::new(),
        given: Vec::new(),
        config: None,
        rest: raw.into(),
        command: None,
        bare_command: false,
    };
    while let Some(arg) = walk.rest.pop_front() {
        walk.take(arg)?;
    }
    walk.finish()
}

struct Walk<'a> {
    program: &'a Program<'a>,
    /// The command whose options and positionals are being read.
    level: &'a CommandInfoWithArgs,
    front: Vec<String>,
    path: Vec<String>,
    positionals: Vec<String>,
    given: Vec<&'static str>,
    /// The configuration file that was named.
    config: Option<String>,
    rest: VecDeque<OsString>,
    command: Option<Vec<OsString>>,
    /// The command began without a `--`.
    bare_command: bool,
}

impl<'a> Walk<'a> {
    fn usage<T>(&self, what: impl Into<String>) -> Result<T, Stop> {
        Err(Stop::Usage(what.into(), self.path.clone()))
    }

    fn wraps(&self) -> bool {
        self.path.last().is_some_and(|name| self.program.wrapping.contains(&name.as_str()))
    }

    /// What errors call the command being read.
    fn called(&self) -> String {
        if self.path.is_empty() { self.program.name.to_owned() } else { self.path.join(" ") }
    }

    fn has_no(&self) -> String {
        if self.path.is_empty() { "there is no".to_owned() } else { format!("{} has no", self.called()) }
    }

    fn take(&mut self, arg: OsString) -> Result<(), Stop> {
        if arg == "--" {
            return self.dashes();
        }
        let starts_command = self.wraps() && self.own_positionals_complete();
        let Some(text) = arg.to_str() else {
            if starts_command {
                self.start_command(arg);
                return Ok(());
            }
            return self.not_utf8(&arg);
        };
        if text.len() > 1 && text.starts_with('-') {
            let text = text.to_owned();
            return match text.strip_prefix("--") {
                Some(long) => self.long(long),
                None => self.short(&text),
            };
        }
        let asks_help = text == "help" && self.positionals.is_empty();
        if asks_help && !self.level.commands.is_empty() {
            return Err(self.help_words());
        }
        if asks_help && self.rest.is_empty() && self.given.is_empty() {
            return Err(Stop::Help(self.path.clone()));
        }
        if let Some(next) = self.level.commands.iter().find(|command| command.name == text) {
            self.descend(text.to_owned(), &next.command)
        } else if !self.level.commands.is_empty() && self.level.positionals.is_empty() {
            let known = self.level.commands.iter().map(|command| command.name);
            let hint = suggest::did_you_mean(text, known.filter(|name| !name.starts_with("__")), "");
            self.usage(format!("{} command {text:?}{hint}", self.has_no()))
        } else if starts_command {
            self.start_command(arg);
            Ok(())
        } else {
            let text = text.to_owned();
            self.positional(text)
        }
    }

    fn not_utf8<T>(&self, arg: &OsString) -> Result<T, Stop> {
        self.usage(format!("the argument {:?} is not UTF-8", arg.to_string_lossy()))
    }

    /// `help record` is `record --help`.
    fn help_words(&mut self) -> Stop {
        let mut path = self.path.clone();
        let mut level = self.level;
        while let Some(word) = self.rest.pop_front() {
            let word = word.to_string_lossy().into_owned();
            match level.commands.iter().find(|command| command.name == word) {
                Some(next) => level = &next.command,
                None if word.starts_with('-') => continue,
                None => {
                    let hint =
                        suggest::did_you_mean(&word, level.commands.iter().map(|command| command.name), "");
                    return Stop::Usage(format!("there is no command {word:?}{hint}"), path);
                }
            }
            path.push(word);
        }
        Stop::Help(path)
    }

    fn descend(&mut self, name: String, next: &'a CommandInfoWithArgs) -> Result<(), Stop> {
        self.check_required()?;
        self.front.push(name.clone());
        self.path.push(name);
        self.level = next;
        self.given.clear();
        Ok(())
    }

    /// `--`: what follows is the wrapped command, or positionals where there is none.
    fn dashes(&mut self) -> Result<(), Stop> {
        let mut rest: Vec<OsString> = self.rest.drain(..).collect();
        if self.wraps() && !self.lack_only(&rest) {
            // `-- --` lets one configuration line work below a launcher that eats the first one and alone.
            if rest.first().is_some_and(|word| word == "--") {
                rest.remove(0);
            }
            if rest.is_empty() {
                return self.usage("there is no command behind --");
            }
            self.command = Some(rest);
            return Ok(());
        }
        for word in rest {
            match word.to_str() {
                Some(text) => self.positional(text.to_owned())?,
                None => return self.not_utf8(&word),
            }
        }
        Ok(())
    }

    /// Whether what stands behind `--` is just what the subcommand itself still needs: then it is no command.
    fn lack_only(&self, rest: &[OsString]) -> bool {
        let own = self.level.positionals.iter();
        let needed = own.filter(|own| matches!(own.optionality, Optionality::Required)).count();
        !rest.is_empty() && needed.checked_sub(self.positionals.len()) == Some(rest.len())
    }

    fn start_command(&mut self, program: OsString) {
        self.bare_command = true;
        self.command = Some([program].into_iter().chain(self.rest.drain(..)).collect());
    }

    /// Whether the next word cannot be one of the subcommand's own positionals.
    fn own_positionals_complete(&self) -> bool {
        let fixed = self.level.positionals.iter().all(|own| matches!(own.optionality, Optionality::Required));
        fixed && self.positionals.len() == self.level.positionals.len()
    }

    fn positional(&mut self, text: String) -> Result<(), Stop> {
        let own = self.level.positionals;
        let many = own
            .last()
            .is_some_and(|last| matches!(last.optionality, Optionality::Repeating | Optionality::Greedy));
        if !many && self.positionals.len() >= own.len() {
            let hint = if self.wraps() { " (a command to run goes behind --)" } else { "" };
            return self.usage(format!("{} takes no argument {text:?}{hint}", self.called()));
        }
        if text.is_empty() && !self.has_ready_file() {
            let name = own.get(self.positionals.len()).or(own.last()).map_or("", |own| own.name);
            return self.usage(format!("<{name}> must not be empty"));
        }
        self.positionals.push(text);
        Ok(())
    }

    fn find(&self, matches: impl Fn(&FlagInfo<'static>) -> bool) -> Option<&'a FlagInfo<'static>> {
        self.level.flags.iter().find(|flag| matches(flag))
    }

    fn long(&mut self, body: &str) -> Result<(), Stop> {
        let (name, value) = match body.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (body, None),
        };
        let Some(flag) = self.find(|flag| bare(flag) == name && name != "help") else {
            return match name {
                "help" => Err(Stop::Help(self.path.clone())),
                "version" => Err(Stop::Version),
                _ => {
                    let known = self.level.flags.iter().filter(|flag| !flag.hidden).map(bare);
                    let hint = suggest::did_you_mean(name, known, "--");
                    self.usage(format!("{} option {:?}{hint}", self.has_no(), format!("--{name}")))
                }
            };
        };
        self.flag(flag, &format!("--{name}"), value)
    }

    /// `-x`, `-xyz` of switches, `-ovalue`.
    fn short(&mut self, text: &str) -> Result<(), Stop> {
        let mut letters = text.chars();
        letters.next();
        while let Some(letter) = letters.next() {
            let Some(flag) = self.find(|flag| flag.short == Some(letter)) else {
                return match letter {
                    'h' => Err(Stop::Help(self.path.clone())),
                    'V' => Err(Stop::Version),
                    _ => self.usage(format!("{} option {:?}", self.has_no(), format!("-{letter}"))),
                };
            };
            let name = format!("-{letter}");
            if matches!(flag.kind, FlagInfoKind::Option { .. }) {
                let value = letters.as_str();
                let value = value.strip_prefix('=').unwrap_or(value);
                return self.flag(flag, &name, (!value.is_empty()).then(|| value.to_owned()));
            }
            self.flag(flag, &name, None)?;
        }
        Ok(())
    }

    /// Whether the command has a file to take away before it complains about a cassette: it looks at the name itself.
    fn has_ready_file(&self) -> bool {
        self.find(|flag| bare(flag) == "ready-file").is_some()
    }

    fn flag(&mut self, flag: &'a FlagInfo<'static>, name: &str, value: Option<String>) -> Result<(), Stop> {
        let switch = matches!(flag.kind, FlagInfoKind::Switch);
        let again = self.given.contains(&flag.long);
        if again && !switch && !matches!(flag.optionality, Optionality::Repeating | Optionality::Greedy) {
            return self.usage(format!("{name} is given twice"));
        }
        self.given.push(flag.long);
        self.front.push(format!("--{}", bare(flag)));
        if switch {
            return match value {
                Some(_) => self.usage(format!("{name} takes no value")),
                None => Ok(()),
            };
        }
        let value = match value {
            Some(value) => value,
            None => self.next_value(name)?,
        };
        if value.is_empty() && is_file(flag) && !(bare(flag) == "cassette" && self.has_ready_file()) {
            return self.usage(format!("{name} needs the name of a file"));
        }
        if bare(flag) == CONFIG {
            self.config = Some(value.clone());
        }
        self.front.push(value);
        Ok(())
    }

    /// A value that looks like one of this command's options is more likely a forgotten value.
    fn next_value(&mut self, name: &str) -> Result<String, Stop> {
        let Some(next) = self.rest.front() else { return self.usage(format!("{name} needs a value")) };
        let Some(text) = next.to_str().map(str::to_owned) else { return self.not_utf8(next) };
        if text == "--" {
            return self.usage(format!("{name} needs a value"));
        }
        if self.is_own_option(&text) {
            return self.usage(format!(
                "{name} needs a value before {text} (a value that starts with a dash goes behind an equals sign: {name}=...)"
            ));
        }
        self.rest.pop_front();
        Ok(text)
    }

    fn is_own_option(&self, text: &str) -> bool {
        let name = text.split('=').next().unwrap_or(text);
        if let Some(long) = name.strip_prefix("--") {
            return self.find(|flag| bare(flag) == long).is_some();
        }
        let mut letters = name.strip_prefix('-').unwrap_or("").chars();
        let letter = letters.next();
        letters.next().is_none() && letter.is_some() && self.find(|flag| flag.short == letter).is_some()
    }

    fn check_required(&self) -> Result<(), Stop> {
        let missing = self.find(|flag| {
            matches!(flag.optionality, Optionality::Required)
                && matches!(flag.kind, FlagInfoKind::Option { .. })
                && !self.given.contains(&flag.long)
        });
        let Some(missing) = missing else { return Ok(()) };
        let hint = if self.bare_command { " (options go before the command to run)" } else { "" };
        self.usage(format!("{} needs --{}{hint}", self.called(), bare(missing)))
    }

    fn finish(mut self) -> Result<Split, Stop> {
        if self.bare_command {
            self.check_command()?;
        }
        self.check_required()?;
        let needed = self
            .level
            .positionals
            .iter()
            .filter(|own| matches!(own.optionality, Optionality::Required))
            .nth(self.positionals.len());
        if let Some(missing) = needed {
            return self.usage(format!("{} needs <{}>", self.called(), missing.name));
        }
        if !self.level.commands.is_empty() && self.path.is_empty() {
            return self.usage(format!("{} needs a command", self.called()));
        }
        let settings = self.configure()?;
        if !self.positionals.is_empty() {
            self.front.push("--".to_owned());
            self.front.append(&mut self.positionals);
        }
        Ok(Split { front: self.front, path: self.path, command: self.command, settings })
    }

    /// Adds what the configuration file says to what was typed.
    fn configure(&mut self) -> Result<Settings, Stop> {
        let Some(command) = self.path.first().filter(|_| self.find(|flag| bare(flag) == CONFIG).is_some())
        else {
            return Ok(Settings::default());
        };
        let wants_none = self.given.iter().any(|given| given.trim_start_matches('-') == NO_CONFIG);
        match (&self.config, wants_none) {
            (Some(_), true) => return self.usage(format!("--{CONFIG} and --{NO_CONFIG} exclude each other")),
            (None, true) => return Ok(Settings::default()),
            _ => {}
        }
        let mut settings = (self.program.settings)(self.config.as_deref())
            .map_err(|error| Stop::Configuration(error.to_string()))?;
        let (mut added, mut used) = (Vec::new(), Vec::new());
        for setting in settings.list.iter().filter(|setting| setting.commands.contains(&command.as_str())) {
            // What the command has no option for is meant for others, and a mode has a rank of its own.
            let Some(flag) = self.find(|flag| bare(flag) == setting.option && setting.option != "mode")
            else {
                continue;
            };
            let wrong = |what: &str| {
                let file = settings.path.as_deref().unwrap_or(Path::new("")).display();
                Stop::Configuration(format!(
                    "{file}: line {}: {} {what}",
                    setting.line,
                    setting.option.replace('-', "_")
                ))
            };
            let switch = matches!(flag.kind, FlagInfoKind::Switch);
            let many = matches!(flag.optionality, Optionality::Repeating | Optionality::Greedy);
            if let Some(what) = setting.fault(switch, many) {
                return Err(wrong(what));
            }
            if many || !self.given.contains(&flag.long) {
                let name = format!("--{}", bare(flag));
                if switch {
                    added.extend((setting.kind == Kind::Switch(true)).then_some(name));
                } else {
                    added.extend(setting.values.iter().flat_map(|value| [name.clone(), value.clone()]));
                    used.extend(setting.used(self.given.contains(&flag.long)));
                }
            }
        }
        self.front.append(&mut added);
        settings.used = used;
        Ok(settings)
    }

    /// Words, then options of ours, then `--`: nobody can tell which of them is the command.
    fn check_command(&self) -> Result<(), Stop> {
        let words = self.command.as_deref().unwrap_or_default();
        let Some(dashes) = words.iter().position(|word| word == "--") else { return Ok(()) };
        let ours = words.iter().take(dashes).filter_map(|word| word.to_str());
        if ours.clone().any(|word| self.is_own_option(word)) {
            let first = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
            return self.usage(format!(
                "{first:?} stands before --, and it is unclear whether it is the command to run"
            ));
        }
        Ok(())
    }
}

/// Whether the value of an option is the name of a file, or of a folder for files.
fn is_file(flag: &FlagInfo<'static>) -> bool {
    matches!(flag.kind, FlagInfoKind::Option { arg_name: "file" | "folder" | "out" })
}

fn bare(flag: &FlagInfo<'static>) -> &'static str {
    flag.long.trim_start_matches('-')
}
