//! Our own standard input, output and error as plain files, without std's locks and buffers, and with an output that
//! can be closed; and the news that the client has let go of one of them, which reads and writes tell only when there
//! is something to read or write.

use std::fs::File;
use std::io::{self, PipeReader, PipeWriter, Read, Write};

/// What the client let go of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// Nobody can write to our standard input any more; something may still be in it.
    Input,
    /// Nobody can read our standard output any more.
    Output,
}

/// The three.
#[derive(Debug)]
pub struct Ends {
    /// Standard input.
    pub input: Input,
    /// Standard output. Dropping it closes it.
    pub output: Output,
    /// Standard error.
    pub errors: Output,
}

/// Standard input.
#[derive(Debug)]
pub struct Input(File);

/// Standard output, or standard error.
#[derive(Debug)]
pub struct Output {
    file: File,
    /// Closes with this value and tells the watcher to let go of its own handle.
    _held: Option<PipeWriter>,
}

impl Input {
    /// Standard input. Whoever shares it may have made it non-blocking.
    ///
    /// # Errors
    ///
    /// When the system refuses a handle.
    pub fn standard() -> io::Result<Self> {
        own_input().map(Self)
    }
}

impl Output {
    fn unwatched(file: File) -> Self {
        Self { file, _held: None }
    }

    /// Standard output, which dropping this does not close.
    ///
    /// # Errors
    ///
    /// When the system refuses a handle.
    pub fn standard() -> io::Result<Self> {
        own_output().map(Self::unwatched)
    }

    /// Standard error, for what this program says itself. Whoever shares it may have made it non-blocking.
    ///
    /// # Errors
    ///
    /// When the system refuses a handle.
    pub fn errors() -> io::Result<Self> {
        own_errors().map(Self::unwatched)
    }
}

impl Ends {
    /// Two pipes in place of standard input and output, for a client that is this program itself. Standard error is
    /// ours, and nobody is told of what the client lets go of: it has its own ways to say so.
    ///
    /// # Errors
    ///
    /// When the system refuses a handle.
    pub fn of_pipes(input: PipeReader, output: PipeWriter) -> io::Result<Self> {
        let (input, output) = (Input(file_of_reader(input)), Output::unwatched(file_of_writer(output)));
        Ok(Self { input, output, errors: Output::errors()? })
    }
}

#[cfg(unix)]
fn own_input() -> io::Result<File> {
    use std::os::fd::AsFd;

    io::stdin().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(unix)]
fn own_output() -> io::Result<File> {
    use std::os::fd::AsFd;

    io::stdout().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(unix)]
fn own_errors() -> io::Result<File> {
    use std::os::fd::AsFd;

    io::stderr().as_fd().try_clone_to_owned().map(File::from)
}

#[cfg(unix)]
fn file_of_reader(pipe: PipeReader) -> File {
    std::os::fd::OwnedFd::from(pipe).into()
}

#[cfg(unix)]
fn file_of_writer(pipe: PipeWriter) -> File {
    std::os::fd::OwnedFd::from(pipe).into()
}

#[cfg(windows)]
fn own_input() -> io::Result<File> {
    use std::os::windows::io::AsHandle;

    io::stdin().as_handle().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn own_output() -> io::Result<File> {
    use std::os::windows::io::AsHandle;

    io::stdout().as_handle().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn own_errors() -> io::Result<File> {
    use std::os::windows::io::AsHandle;

    io::stderr().as_handle().try_clone_to_owned().map(File::from)
}

#[cfg(windows)]
fn file_of_reader(pipe: PipeReader) -> File {
    std::os::windows::io::OwnedHandle::from(pipe).into()
}

#[cfg(windows)]
fn file_of_writer(pipe: PipeWriter) -> File {
    std::os::windows::io::OwnedHandle::from(pipe).into()
}

impl Read for Input {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_ready(&self.0, false)?,
                done => return done,
            }
        }
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        loop {
            match self.file.write(bytes) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => wait_ready(&self.file, true)?,
                done => return done,
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Takes the three over. Standard output then leads nowhere for all others, so that only a dropped [`Output`] is needed
/// to close it. What the client lets go of is reported on a thread of its own.
///
/// # Errors
///
/// When the system refuses a handle or the thread.
pub fn take(report: impl Fn(Gone) + Send + 'static) -> io::Result<Ends> {
    let (input, output, errors) = take_files()?;
    let (held_read, held) = io::pipe()?;
    watch(input.try_clone()?, output.try_clone()?, held_read, report)?;
    let output = Output { file: output, _held: Some(held) };
    Ok(Ends { input: Input(input), output, errors: Output::unwatched(errors) })
}

#[cfg(unix)]
fn take_files() -> io::Result<(File, File, File)> {
    use std::os::fd::AsFd;

    let own = |fd: std::os::fd::BorrowedFd<'_>| fd.try_clone_to_owned().map(File::from);
    let output = own(io::stdout().as_fd())?;
    match File::options().write(true).open("/dev/null") {
        Ok(nowhere) => rustix::stdio::dup2_stdout(nowhere)?,
        // An empty root has no devices; a pipe that nobody reads is as good.
        Err(_) => rustix::stdio::dup2_stdout(io::pipe()?.1)?,
    }
    Ok((own(io::stdin().as_fd())?, output, own(io::stderr().as_fd())?))
}

#[cfg(windows)]
fn take_files() -> io::Result<(File, File, File)> {
    use std::os::windows::io::AsHandle;

    let own = |handle: std::os::windows::io::BorrowedHandle<'_>| handle.try_clone_to_owned().map(File::from);
    Ok((own(io::stdin().as_handle())?, own(io::stdout().as_handle())?, own(io::stderr().as_handle())?))
}

#[cfg(unix)]
fn watch(
    input: File,
    output: File,
    held: PipeReader,
    report: impl Fn(Gone) + Send + 'static,
) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};

    // A client may close its half of a socket only; for a pipe this changes nothing.
    #[cfg(target_os = "linux")]
    const HALF: PollFlags = PollFlags::RDHUP;
    #[cfg(not(target_os = "linux"))]
    const HALF: PollFlags = PollFlags::empty();
    let gone = HALF | PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL;

    let mut input = Some(input);
    let mut output = Some((output, held));
    let run = move || {
        while input.is_some() || output.is_some() {
            let (mut input_gone, mut output_gone, mut let_go) = (false, false, false);
            let mut fds = Vec::with_capacity(3);
            // Asking for nothing still tells of hang-ups and errors.
            fds.extend(input.iter().map(|file| PollFd::new(file, HALF)));
            if let Some((file, held)) = &output {
                fds.extend([PollFd::new(file, PollFlags::empty()), PollFd::new(held, PollFlags::empty())]);
            }
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(_) => return,
            }
            let mut seen = fds.iter().map(|fd| fd.revents().intersects(gone));
            if input.is_some() {
                input_gone = seen.next().unwrap_or(false);
            }
            if output.is_some() {
                output_gone = seen.next().unwrap_or(false);
                let_go = seen.next().unwrap_or(false);
            }
            drop(fds);
            if input_gone {
                input = None;
                report(Gone::Input);
            }
            if let_go || output_gone {
                output = None;
                if !let_go {
                    report(Gone::Output);
                }
            }
        }
    };
    std::thread::Builder::new().name("watch".to_owned()).spawn(run)?;
    Ok(())
}

/// Waits for a file that another process, which shares it, has made non-blocking.
#[cfg(unix)]
fn wait_ready(file: &File, to_write: bool) -> io::Result<()> {
    use rustix::event::{PollFd, PollFlags, poll};

    let wanted = if to_write { PollFlags::OUT } else { PollFlags::IN };
    match poll(&mut [PollFd::new(file, wanted)], None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Windows has no such files.
#[cfg(not(unix))]
fn wait_ready(_file: &File, _to_write: bool) -> io::Result<()> {
    Err(io::ErrorKind::WouldBlock.into())
}

/// Windows tells of a closed pipe only when it is used.
#[cfg(not(unix))]
fn watch(
    _input: File,
    _output: File,
    _held: PipeReader,
    _report: impl Fn(Gone) + Send + 'static,
) -> io::Result<()> {
    Ok(())
}

/// How many bytes wait in a pipe; 0 where the system does not tell.
pub fn waiting(pipe: &PipeReader) -> u64 {
    #[cfg(unix)]
    let bytes = rustix::io::ioctl_fionread(pipe).unwrap_or(0);
    #[cfg(not(unix))]
    let bytes = {
        let _ = pipe;
        0
    };
    bytes
}
