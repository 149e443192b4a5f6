//! `demo`: the built-in server, and a tour for newcomers.

use argh::{ArgsInfo, FromArgs};

use crate::demo;
use crate::error::{Error, Result};
use crate::exit;

/// A complete round with the built-in server: record, look, replay offline, and a miss explained.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(subcommand, name = "demo", example = "{command_name}", example = "{command_name} server")]
pub struct Demo {
    #[argh(subcommand)]
    what: Option<What>,
}

#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(subcommand)]
enum What {
    Server(Server),
}

/// The built-in demo server alone, on standard input and output.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(subcommand, name = "server")]
struct Server {}

/// Runs the command.
pub fn run(command: &Demo) -> Result<u8> {
    match command.what {
        Some(What::Server(_)) => {
            let input = std::io::BufReader::new(std::io::stdin());
            demo::server::serve(input, std::io::stdout(), std::io::stderr())
                .map_err(|error| Error::Failed(format!("the demo server failed: {error}")))
        }
        None => {
            let program = std::env::current_exe()
                .map_err(|error| Error::Failed(format!("cannot find this program again: {error}")))?;
            demo::tour::run(&program, &mut std::io::stdout().lock())?;
            Ok(exit::OK)
        }
    }
}
