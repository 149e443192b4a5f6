//! `demo`: the built-in server, and a tour for newcomers.

use argh::{ArgsInfo, FromArgs};

use super::listen::{Http, announce, bind};
use super::options::{Voice, caught_signals};
use super::ready;
use super::standard;
use crate::demo;
use crate::error::{Error, Result};
use crate::exit;
use crate::replay;

/// A complete round with the built-in server: record, look, replay offline, and a miss explained.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "demo",
    example = "{command_name}",
    example = "{command_name} --http",
    example = "{command_name} server"
)]
pub struct Demo {
    /// the same round over HTTP, with a client of each era
    #[argh(switch)]
    http: bool,
    #[argh(subcommand)]
    what: Option<What>,
}

#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(subcommand)]
enum What {
    Server(Server),
}

/// The built-in demo server alone, on standard input and output or over HTTP.
#[derive(ArgsInfo, FromArgs, Debug)]
#[argh(
    subcommand,
    name = "server",
    example = "{command_name}",
    example = "{command_name} --listen 127.0.0.1:8000"
)]
struct Server {
    /// over HTTP at this address; port 0 is any free one
    #[argh(option, arg_name = "address")]
    listen: Option<String>,
    /// over HTTP: write the URL to this file when clients can connect
    #[argh(option, arg_name = "file")]
    ready_file: Option<String>,
}

/// Runs the command.
pub fn run(command: &Demo) -> Result<u8> {
    match &command.what {
        Some(What::Server(_)) if command.http => {
            Err(Error::Usage("--http is for the round; the server alone takes --listen".to_owned()))
        }
        Some(What::Server(server)) if server.listen.is_some() => listening(server),
        Some(What::Server(Server { ready_file: Some(_), .. })) => {
            Err(Error::Usage("--ready-file goes with --listen".to_owned()))
        }
        Some(What::Server(_)) => {
            let input = std::io::BufReader::new(standard::input()?);
            demo::server::serve(input, standard::output()?, standard::errors()?)
                .map_err(Error::failed("go on with the demo server"))
        }
        None => {
            let program = std::env::current_exe().map_err(Error::failed("find this program again"))?;
            let out = &mut std::io::LineWriter::new(standard::output()?);
            if command.http {
                demo::tour::http::run(&program, out)?;
            } else {
                demo::tour::run(&program, out)?;
            }
            Ok(exit::OK)
        }
    }
}

fn listening(server: &Server) -> Result<u8> {
    ready::clear(server.ready_file.as_deref())?;
    let http =
        Http { listen: server.listen.clone(), ready_file: server.ready_file.clone(), ..Http::default() };
    let caught = caught_signals()?;
    let (listener, guard) = bind(&http)?;
    announce(&listener, replay::http::PATH, &http, Voice { quiet: false, verbose: false })?;
    demo::http::serve(listener, guard, std::io::stderr(), &caught)
        .map_err(Error::failed("go on with the demo server"))
}
