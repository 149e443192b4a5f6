//! `mcpreel __exec`: the step between us and a server, on Linux.
//!
//! A server has to die with us, even when we are killed. Linux offers that by the parent-death signal, which a process
//! can only ask for itself; without `unsafe` nothing can be done between fork and exec, so we start ourselves, ask
//! for it, and become the server.
//!
//! That way an exec that fails would look like a server that exits. So the step starts with one end of a socket pair
//! as its standard input, gets the real one over it, and keeps a close-on-exec copy of the socket: when the other end
//! sees it close after `READY` the server runs, and an error number after `READY` says why it does not.

use std::ffi::OsString;
use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use rustix::process::{
    Resource, Rlimit, Signal, getppid, getrlimit, set_parent_process_death_signal, setrlimit,
};

use crate::exit;

/// The hidden command's name.
pub const NAME: &str = "__exec";

const READY: u8 = b'x';

/// What the starting side learns.
#[derive(Debug)]
pub enum Started {
    /// The server runs.
    Yes,
    /// It could not be executed.
    No(io::Error),
    /// The step itself ended early: it was killed, or is not this program.
    Lost,
}

/// Becomes the command: `PARENT_PID [NOFILE] -- CMD...`, what follows [`NAME`] on the command line. Returns, with an
/// exit status, only when that fails.
pub fn exec_main(arguments: Vec<OsString>) -> u8 {
    let mut arguments = arguments.into_iter();
    let front: Vec<OsString> = arguments.by_ref().take_while(|argument| argument != "--").collect();
    let number =
        |at: usize| front.get(at).and_then(|text| text.to_str()).and_then(|text| text.parse::<u64>().ok());
    let (Some(parent), Some(program)) = (number(0), arguments.next()) else { return exit::USAGE };
    let mut line = receive_stdin();

    if set_parent_process_death_signal(Some(Signal::KILL)).is_err() {
        return exit::WRAPPER_FAILED;
    }
    // Had the parent died before, the signal would never come.
    let now = getppid().map(|pid| u64::from(pid.as_raw_nonzero().get().unsigned_abs()));
    if now != Some(parent) {
        return exit::WRAPPER_FAILED;
    }
    if let Some(soft) = number(1) {
        let maximum = getrlimit(Resource::Nofile).maximum;
        // A limit that cannot be lowered is no reason not to start.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(soft), maximum });
    }
    if let Some(line) = &mut line {
        let _ = line.write_all(&[READY]);
    }
    let error = Command::new(&program).args(arguments).exec();
    if let Some(line) = &mut line {
        let _ = line.write_all(error.raw_os_error().unwrap_or(0).to_string().as_bytes());
    }
    if error.kind() == io::ErrorKind::NotFound { exit::NOT_FOUND } else { exit::CANNOT_RUN }
}

/// Gives the step its standard input and waits until it has become the server, or has not.
pub(super) fn hand_over(line: UnixStream, stdin: impl AsFd) -> io::Result<Started> {
    let rights = [stdin.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    control.push(SendAncillaryMessage::ScmRights(&rights));
    match sendmsg(&line, &[IoSlice::new(&[READY])], &mut control, SendFlags::NOSIGNAL) {
        // The step has gone already: reading tells.
        Ok(_) | Err(rustix::io::Errno::PIPE | rustix::io::Errno::CONNRESET) => {}
        Err(error) => return Err(error.into()),
    }
    let mut line = line;
    let mut reply = Vec::new();
    match line.read_to_end(&mut reply) {
        Ok(_) => {}
        // The step ended without reading what was sent.
        Err(error) if error.kind() == io::ErrorKind::ConnectionReset => {}
        Err(error) => return Err(error),
    }
    Ok(match reply.split_first() {
        None => Started::Lost,
        Some((_, [])) => Started::Yes,
        Some((_, number)) => {
            let number = std::str::from_utf8(number).ok().and_then(|text| text.parse().ok());
            Started::No(io::Error::from_raw_os_error(number.unwrap_or(0)))
        }
    })
}

/// Puts the real standard input into place and gives the socket that stood there. `None` when there was none: someone
/// typed the hidden command.
fn receive_stdin() -> Option<UnixStream> {
    let line = UnixStream::from(rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3).ok()?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    recvmsg(&line, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC).ok()?;
    let stdin: OwnedFd = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    })?;
    rustix::stdio::dup2_stdin(stdin).ok()?;
    Some(line)
}
