//! Standard input, output and error of the commands. Whoever shares them may have made them non-blocking, which a write
//! or a read then has to wait out; and what could not be written is told.

use std::io::{self, LineWriter, Read as _, Write};

use crate::error::{Error, Result};
use crate::stdio::ends::{Input, Output};

/// What errors call it.
const OUTPUT: &str = "standard output";
const INPUT: &str = "standard input";

/// All of standard input.
///
/// # Errors
///
/// What the system says.
pub fn read_to_end() -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    Input::standard()?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Standard input.
///
/// # Errors
///
/// [`Error::Io`] when the system refuses a handle.
pub fn input() -> Result<Input> {
    Input::standard().map_err(Error::io("read", INPUT))
}

/// Standard output, without a buffer.
///
/// # Errors
///
/// [`Error::Io`] when the system refuses a handle.
pub fn output() -> Result<Output> {
    Output::standard().map_err(Error::io("write", OUTPUT))
}

/// Standard error, for what is not said in lines of ours.
///
/// # Errors
///
/// [`Error::Io`] when the system refuses a handle.
pub fn errors() -> Result<Output> {
    Output::errors().map_err(Error::io("write", "standard error"))
}

/// Runs a command that writes its result to standard output, and notes to standard error.
///
/// # Errors
///
/// Those of the command; [`Error::Io`] when its last words cannot be written. Nobody reading them is no failure.
pub fn with_output(run: impl FnOnce(&mut dyn Write, &mut dyn Write) -> Result<u8>) -> Result<u8> {
    let mut out = LineWriter::new(output()?);
    let code = run(&mut out, &mut errors()?)?;
    written(out.flush())?;
    Ok(code)
}

/// Prints a result.
///
/// # Errors
///
/// [`Error::Io`] when it cannot be written. Nobody reading it is no failure.
pub fn print(text: &str) -> Result<()> {
    written(output()?.write_all(text.as_bytes()))
}

fn written(done: io::Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(Error::io("write", OUTPUT)(error)),
        _ => Ok(()),
    }
}
