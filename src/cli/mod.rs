//! The command line: one file per command, which holds what can be typed, turns it into plain options for the rest of
//! the crate, and prints the result. Only this module and its children print, and only here are exit codes decided.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the part that talks to people")]

pub mod append;
pub mod args;
pub mod begin;
pub mod carried;
pub mod convert;
pub mod demo;
pub mod end;
pub mod files;
pub mod host;
pub mod init;
pub mod inspect;
pub mod listen;
pub mod merge;
pub mod options;
pub mod ready;
pub mod record;
pub mod recover;
pub mod redact;
pub mod redaction;
pub mod report;
pub mod run;
pub mod serve;
pub mod session;
pub mod settings;
pub mod split;
pub mod staging;
pub mod standard;
mod stderr;
pub mod trim;
mod units;
pub mod upstream;
pub mod use_;
pub mod uses;

use std::ffi::OsString;
use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

use crate::error::{Error, Result};
use crate::exit;
use crate::stdio::{child, exec, signals};
use inspect::shown::is_hidden;
use settings::Settings;
use standard::{print, with_output};

/// Record MCP sessions into cassettes and replay them: no server, no credentials, no network.
#[derive(ArgsInfo, FromArgs, Debug)]
struct Top {
    #[argh(subcommand)]
    command: Command,
}

#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(subcommand)]
enum Command {
    Use(use_::Use),
    Run(run::Run),
    Record(record::Record),
    Serve(serve::Serve),
    Inspect(inspect::Inspect),
    Convert(convert::Convert),
    Merge(merge::Merge),
    Split(split::Split),
    Trim(trim::Trim),
    Recover(recover::Recover),
    Redact(redact::Redact),
    Report(report::Report),
    Begin(begin::Begin),
    End(end::End),
    Init(init::Init),
    Demo(demo::Demo),
}

/// Runs the program with the given arguments (program name left out) and returns its exit status.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if arguments.first().is_some_and(|first| first == exec::NAME) {
        return ExitCode::from(exec::exec_main(arguments.into_iter().skip(1).collect()));
    }
    child::answers_exec();
    signals::outlive_file_limits();
    let program = args::Program {
        name: "mcpreel",
        version: env!("CARGO_PKG_VERSION"),
        wrapping: &["use", "run", "record", "serve"],
        settings,
    };
    let own = arguments.clone();
    let told = |error: Error| {
        say(&error.to_string());
        error.code()
    };
    let code = match args::parse::<Top>(&program, arguments) {
        args::Parsed::Run(top, wrapped, settings) => {
            start(top.command, wrapped, &settings, &own).unwrap_or_else(|error| told(settings.place(error)))
        }
        args::Parsed::Print { text, code } => {
            if code == exit::OK {
                print(&text).map_or_else(told, |()| code)
            } else {
                stderr::write(&text);
                code
            }
        }
    };
    stderr::finish();
    ExitCode::from(code)
}

/// The configuration file that counts here.
fn settings(named: Option<&str>) -> Result<Settings> {
    Settings::find(named, &std::env::current_dir().unwrap_or_default())
}

fn start(
    command: Command,
    wrapped: Option<Vec<OsString>>,
    settings: &Settings,
    own: &[OsString],
) -> Result<u8> {
    match command {
        Command::Use(command) => use_::run(&command, &wrapped.unwrap_or_default(), settings.mode()?, own),
        Command::Run(command) => run::run(&command, &wrapped.unwrap_or_default(), settings.mode()?),
        Command::Record(command) => record::run(&command, &wrapped.unwrap_or_default(), own),
        Command::Serve(command) => serve::run(command, wrapped.as_deref(), settings, own),
        Command::Inspect(command) => with_output(|out, notes| command.run(out, notes)),
        Command::Convert(command) => with_output(|out, notes| command.run(out, notes)),
        Command::Merge(command) => with_output(|out, notes| command.run(out, notes)),
        Command::Split(command) => with_output(|out, notes| command.run(out, notes)),
        Command::Trim(command) => with_output(|out, notes| command.run(out, notes)),
        Command::Recover(command) => recover::run(&command),
        Command::Redact(command) => with_output(|out, notes| command.run(out, notes)),
        Command::Report(command) => with_output(|out, _| command.run(out)),
        Command::Begin(command) => begin::run(&command, settings.mode()?),
        Command::End(command) => end::run(&command),
        Command::Init(command) => init::run(&command),
        Command::Demo(command) => demo::run(&command),
    }
}

/// Tells the user something: one line on standard error.
fn say(text: &str) {
    stderr::write(&format!("mcpreel: {}\n", printable(text)));
}

/// Text from a cassette or a client as it may be shown on a terminal: control characters, and what cannot be seen, are
/// spelt out.
#[must_use]
pub fn printable(text: &str) -> String {
    if !text.contains(is_hidden) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len() + 8), |mut out, char| {
        if is_hidden(char) {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_has_nothing_that_cannot_be_seen() {
        for (text, expected) in [
            ("plain é", "plain é"),
            ("\u{1b}[2J\n", "\\u{1b}[2J\\n"),
            ("a\u{202e}b\u{200b}\u{feff}", "a\\u{202e}b\\u{200b}\\u{feff}"),
        ] {
            assert_eq!(printable(text), expected);
        }
    }

    #[test]
    fn every_key_of_a_configuration_is_an_option_of_each_command_it_is_for() {
        let info = Top::get_args_info();
        for (key, commands) in settings::keys() {
            for command in commands {
                let found = info.commands.iter().find(|other| other.name == *command).unwrap();
                let option = format!("--{}", key.replace('_', "-"));
                assert!(found.command.flags.iter().any(|flag| flag.long == option), "{command} {option}");
            }
        }
    }
}
