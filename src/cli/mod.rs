//! The command line: one file per command, which holds what can be typed, turns it into plain options for the rest of
//! the crate, and prints the result. Only this module and its children print, and only here are exit codes decided.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "this is the part that talks to people")]

pub mod args;
pub mod convert;
pub mod demo;
pub mod end;
pub mod files;
pub mod inspect;
pub mod listen;
pub mod merge;
pub mod options;
pub mod record;
pub mod recover;
pub mod serve;
pub mod split;
mod stderr;
pub mod trim;
mod units;
pub mod upstream;
pub mod use_;

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

use argh::{ArgsInfo, FromArgs};

use crate::error::Result;
use crate::exit;
use crate::stdio::{child, exec};

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
    Record(record::Record),
    Serve(serve::Serve),
    Inspect(inspect::Inspect),
    Convert(convert::Convert),
    Merge(merge::Merge),
    Split(split::Split),
    Trim(trim::Trim),
    Recover(recover::Recover),
    End(end::End),
    Demo(demo::Demo),
}

/// Runs the program with the given arguments (program name left out) and returns its exit status.
#[must_use]
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    if arguments.first().is_some_and(|first| first == exec::NAME) {
        return ExitCode::from(exec::exec_main(arguments.into_iter().skip(1).collect()));
    }
    child::answers_exec();
    let program =
        args::Program { name: "mcpreel", version: env!("CARGO_PKG_VERSION"), wrapping: &["use", "record"] };
    let own = arguments.clone();
    let code = match args::parse::<Top>(&program, arguments) {
        args::Parsed::Run(top, wrapped) => run(top.command, wrapped, &own).unwrap_or_else(|error| {
            say(&error.to_string());
            error.code()
        }),
        args::Parsed::Print { text, code } => {
            if code == exit::OK {
                print(&text);
            } else {
                stderr::write(text);
            }
            code
        }
    };
    stderr::finish();
    ExitCode::from(code)
}

fn run(command: Command, wrapped: Option<Vec<OsString>>, own: &[OsString]) -> Result<u8> {
    match command {
        Command::Use(command) => use_::run(&command, &wrapped.unwrap_or_default(), own),
        Command::Record(command) => record::run(&command, &wrapped.unwrap_or_default(), own),
        Command::Serve(command) => serve::run(&command, own),
        Command::Inspect(command) => {
            command.run(&mut std::io::stdout().lock(), &mut std::io::stderr().lock())
        }
        Command::Convert(command) => {
            command.run(&mut std::io::stdout().lock(), &mut std::io::stderr().lock())
        }
        Command::Merge(command) => command.run(&mut std::io::stdout().lock(), &mut std::io::stderr().lock()),
        Command::Split(command) => command.run(&mut std::io::stdout().lock(), &mut std::io::stderr().lock()),
        Command::Trim(command) => command.run(&mut std::io::stdout().lock(), &mut std::io::stderr().lock()),
        Command::Recover(command) => recover::run(&command),
        Command::End(command) => end::run(&command),
        Command::Demo(command) => demo::run(&command),
    }
}

/// Prints a result. Nobody reading it is no failure.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

/// Tells the user something: one line on standard error.
fn say(text: &str) {
    stderr::write(format!("mcpreel: {}\n", printable(text)));
}

/// Text from a cassette or a client as it may be shown on a terminal: control characters are spelt out.
#[must_use]
pub fn printable(text: &str) -> String {
    let risky = |char: char| {
        char.is_control()
            || matches!(char, '\u{2028}' | '\u{2029}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(risky) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len() + 8), |mut out, char| {
        if risky(char) {
            out.extend(char.escape_default());
        } else {
            out.push(char);
        }
        out
    })
}
