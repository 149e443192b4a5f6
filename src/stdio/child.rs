//! Starting a server: looking its program up, running it with its three pipes, waiting for it.

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io::{self, PipeReader, PipeWriter};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use super::tree::Process;
use crate::error::{Error, Result, words};

/// Whether this program answers to the hidden command of [`super::exec`].
static ANSWERS_EXEC: AtomicBool = AtomicBool::new(false);

/// Says that this program runs [`super::exec::exec_main`] for the hidden command. Without it servers are started
/// directly: a program that only uses this library must not be started by it a second time.
pub fn answers_exec() {
    ANSWERS_EXEC.store(true, Ordering::Relaxed);
}

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It returned this status.
    Code(i32),
    /// This signal ended it.
    Signal(i32),
}

impl Exit {
    /// It returned 0.
    #[must_use]
    pub fn is_success(self) -> bool {
        self == Self::Code(0)
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Code(code) => write!(out, "exit status {code}"),
            Self::Signal(signal) => write!(out, "signal {signal}"),
        }
    }
}

/// A server that runs.
#[derive(Debug)]
pub struct Child {
    /// The only handle to its standard input: dropping it is the end of file.
    pub stdin: PipeWriter,
    /// Its standard output.
    pub stdout: PipeReader,
    /// Its standard error.
    pub stderr: PipeReader,
    /// The process itself.
    pub process: Process,
}

/// Starts a command with pipes, in our process group and our environment.
///
/// To be called on the main thread: on Linux the server is killed when the *thread* that started it ends. On Linux we
/// become the reaper of its orphans, so that its descendants can be found.
///
/// # Errors
///
/// [`Error::NotFound`] and [`Error::CannotRun`] when the program does not start, [`Error::Failed`] when the system
/// gives no pipe or process.
pub fn spawn(command: &[OsString]) -> Result<Child> {
    let Some((program, arguments)) = command.split_first() else {
        return Err(Error::Usage("no command to run was given".to_owned()));
    };
    find(program)?;
    let system = Error::failed("start a process");
    let (stdin_read, stdin) = io::pipe().map_err(system)?;
    let (stdout, stdout_write) = io::pipe().map_err(system)?;
    let (stderr, stderr_write) = io::pipe().map_err(system)?;
    super::tree::adopt_orphans();
    #[cfg(target_os = "linux")]
    if ANSWERS_EXEC.load(Ordering::Relaxed) && Path::new(OURSELVES).exists() {
        let process = spawn_by_exec(command, &stdin_read, stdout_write, stderr_write)?;
        return Ok(Child { stdin, stdout, stderr, process });
    }
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::from(stdin_read))
        .stdout(Stdio::from(stdout_write))
        .stderr(Stdio::from(stderr_write))
        .spawn()
        .map_err(|error| cannot_run(program, &error))?;
    Ok(Child { stdin, stdout, stderr, process: Process::new(child) })
}

/// Ourselves, also when the file was replaced meanwhile.
#[cfg(target_os = "linux")]
const OURSELVES: &str = "/proc/self/exe";

#[cfg(target_os = "linux")]
fn spawn_by_exec(
    command: &[OsString],
    stdin: &PipeReader,
    stdout: PipeWriter,
    stderr: PipeWriter,
) -> Result<Process> {
    use super::exec::{NAME, Started, hand_over};
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::CommandExt;

    let system = Error::failed("start a process");
    let (line, theirs) = UnixStream::pair().map_err(system)?;
    let mut step = Command::new(OURSELVES);
    step.arg0("mcpreel").arg(NAME).arg(std::process::id().to_string());
    step.args(super::tree::original_nofile().map(|soft| soft.to_string()));
    step.arg("--").args(command);
    step.stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs))).stdout(stdout).stderr(stderr);
    let child = step.spawn().map_err(system)?;
    // It holds the write ends of the pipes and the other end of the line, which has to close here.
    drop(step);
    let mut process = Process::new(child);
    let started = hand_over(line, stdin);
    let failed = match started {
        Ok(Started::Yes) => return Ok(process),
        Ok(Started::No(error)) => {
            cannot_run(command.first().map_or(OsStr::new(""), OsString::as_os_str), &error)
        }
        Ok(Started::Lost) => {
            Error::Failed("cannot start a process: it ended before the server ran".to_owned())
        }
        Err(error) => system(error),
    };
    process.discard();
    Err(failed)
}

/// What a failed exec means. The program was found before, so "not found" is about its interpreter.
fn cannot_run(program: &OsStr, error: &io::Error) -> Error {
    let why = match error.kind() {
        io::ErrorKind::NotFound => "the interpreter it names was not found".to_owned(),
        _ => words(error),
    };
    Error::CannotRun { program: shown(program), why }
}

fn shown(program: &OsStr) -> String {
    program.to_string_lossy().into_owned()
}

/// The file that a program name means, looked up as `execvp` does.
///
/// # Errors
///
/// [`Error::NotFound`] when there is none, [`Error::CannotRun`] when the only ones are folders, may not be executed, or
/// are no programs.
#[cfg(unix)]
pub fn find(program: &OsStr) -> Result<PathBuf> {
    find_in(program, std::env::var_os("PATH").as_deref())
}

/// On Windows the system looks programs up, with its own endings and folders.
#[cfg(not(unix))]
pub fn find(program: &OsStr) -> Result<PathBuf> {
    Ok(PathBuf::from(program))
}

#[cfg(unix)]
fn find_in(program: &OsStr, path: Option<&OsStr>) -> Result<PathBuf> {
    use std::os::unix::ffi::OsStrExt;

    let cannot = |why: &str| Error::CannotRun { program: shown(program), why: why.to_owned() };
    if program.as_bytes().contains(&b'/') {
        return match check(Path::new(program)) {
            Found::Program => Ok(PathBuf::from(program)),
            Found::Nothing => Err(Error::NotFound(shown(program))),
            Found::Useless(why) => Err(cannot(why)),
        };
    }
    let mut useless = None;
    if !program.is_empty() {
        for folder in std::env::split_paths(path.unwrap_or(OsStr::new("/bin:/usr/bin"))) {
            // An empty entry is the current folder; `join` makes it a bare name, which means the same to the system.
            let candidate = folder.join(program);
            match check(&candidate) {
                Found::Program => return Ok(candidate),
                Found::Nothing => {}
                Found::Useless(why) => useless = useless.or(Some(why)),
            }
        }
    }
    Err(useless.map_or_else(|| Error::NotFound(shown(program)), cannot))
}

#[cfg(unix)]
enum Found {
    Program,
    Nothing,
    Useless(&'static str),
}

#[cfg(unix)]
fn check(file: &Path) -> Found {
    use rustix::fs::{Access, access};

    let metadata = match std::fs::metadata(file) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return Found::Useless("permission denied");
        }
        Err(_) => return Found::Nothing,
    };
    if metadata.is_dir() {
        return Found::Useless("it is a folder");
    }
    if !metadata.is_file() || access(file, Access::EXEC_OK).is_err() {
        return Found::Useless("permission denied");
    }
    if is_foreign(file).unwrap_or(false) {
        return Found::Useless("it is not a program for this system");
    }
    Found::Program
}

/// Whether a file is binary, but no binary of this system. `execvp` gives what the kernel refuses to `/bin/sh`; for a
/// script without `#!` that is right, for this it would be a syntax error that looks like the server's own.
#[cfg(unix)]
fn is_foreign(file: &Path) -> io::Result<bool> {
    use std::io::Read;

    let mut head = Vec::new();
    std::fs::File::open(file)?.take(80).read_to_end(&mut head)?;
    if cfg!(target_os = "linux") && head.starts_with(b"\x7fELF") {
        let mut own = Vec::new();
        std::fs::File::open("/proc/self/exe")?.take(20).read_to_end(&mut own)?;
        let machine = |head: &[u8]| head.get(18..20).map(<[u8]>::to_vec);
        // 32-bit programs run on x86-64; anything else runs where binfmt_misc knows an emulator.
        let related = cfg!(target_arch = "x86_64") && machine(&head) == Some(vec![3, 0]);
        return Ok(machine(&head) != machine(&own) && !related && !emulators_known());
    }
    let first = head.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok(!head.starts_with(b"#!") && !emulators_known() && cfg!(target_os = "linux") && first.contains(&0))
}

#[cfg(unix)]
fn emulators_known() -> bool {
    std::fs::read_dir("/proc/sys/fs/binfmt_misc").is_ok_and(|entries| {
        entries.flatten().any(|entry| entry.file_name() != "register" && entry.file_name() != "status")
    })
}

#[cfg(unix)]
#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mcpreel-child-{}-{name}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        folder
    }

    fn file(folder: &Path, name: &str, content: &[u8], mode: u32) -> PathBuf {
        let file = folder.join(name);
        std::fs::write(&file, content).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
        file
    }

    #[test]
    fn programs_are_looked_up_as_execvp_does() {
        let (one, two) = (folder("one"), folder("two"));
        file(&one, "plain", b"#!/bin/sh\n", 0o644);
        let plain = file(&two, "plain", b"#!/bin/sh\n", 0o755);
        file(&two, "locked", b"#!/bin/sh\n", 0o644);
        let bare = file(&two, "bare", b"echo hello\n", 0o755);
        let junk = file(&two, "junk", b"\x00\x01\x02\x03", 0o755);
        let elf = file(&two, "elf", b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xf4\xf4\0\0", 0o755);
        std::fs::create_dir_all(one.join("folder")).unwrap();
        let path = std::env::join_paths([&one, &two]).unwrap();
        let look = |program: &str| find_in(OsStr::new(program), Some(&path));
        let code = |program: &str| look(program).map_err(|error| error.code());

        assert_eq!(look("plain").unwrap(), plain);
        assert_eq!(look("bare").unwrap(), bare);
        assert_eq!(code("locked"), Err(126));
        assert_eq!(code("folder"), Err(126));
        assert_eq!(code("junk"), Err(126));
        assert_eq!(code("absent"), Err(127));
        assert_eq!(code(""), Err(127));
        assert_eq!(look(plain.to_str().unwrap()).unwrap(), plain);
        assert_eq!(code(one.to_str().unwrap()), Err(126));
        assert_eq!(code(junk.to_str().unwrap()), Err(126));
        assert_eq!(code(one.join("absent").to_str().unwrap()), Err(127));
        assert_eq!(code(plain.join("below").to_str().unwrap()), Err(127));
        if cfg!(target_os = "linux") && !emulators_known() {
            assert_eq!(code(elf.to_str().unwrap()), Err(126));
        }
        std::fs::remove_dir_all(one).unwrap();
        std::fs::remove_dir_all(two).unwrap();
    }

    #[test]
    fn a_message_says_what_is_wrong() {
        let error = find_in(OsStr::new("/"), None).unwrap_err();
        assert_eq!(error.to_string(), "/: cannot be run: it is a folder");
        let error = find_in(OsStr::new("no-such-program"), Some(OsStr::new("/"))).unwrap_err();
        assert_eq!(error.to_string(), "no-such-program: command not found");
    }
}
