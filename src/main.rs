//! The `mcpreel` binary: hands its arguments to the library and ends with the status that it names.

use std::process::ExitCode;

fn main() -> ExitCode {
    mcpreel::cli::main(std::env::args_os().skip(1).collect())
}
