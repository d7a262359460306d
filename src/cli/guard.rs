//! `toolgate __guard`: the process between toolgate and a tool server, so that no tool server
//! outlives toolgate.
//!
//! toolgate may die by SIGKILL, and a tool server may ignore the end of its input, every signal but
//! SIGKILL, and leave its process group. The guard leads the group, adopts orphans, and holds the
//! write end of the pipe that toolgate reads standard error from: when no one reads it, toolgate is
//! gone and everything below the guard is killed. A death signal from the kernel would not do: it
//! is tied to the thread that spawned, not to the process (threat-model §2.4). Nothing runs here
//! but two threads that wait.

use crate::upstream::child::sandbox::{self, Sandbox};
use crate::upstream::{child, leftovers, lineage};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, WaitStatus, getpid, set_child_subreaper, wait};
use std::ffi::OsString;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

pub use child::GUARD_VERB;
pub use sandbox::CONFINE_VERB;

/// As shells say: found, but not executable.
const EXIT_NOT_EXECUTABLE: u8 = 126;
/// As shells say: not found.
const EXIT_NOT_FOUND: u8 = 127;
/// How long what is left below the guard may take to be gone once it was killed.
const KILLED_GONE_TIMEOUT: Duration = Duration::from_secs(5);

/// What a guard is told, before the program.
struct ChildGuardArgs {
    /// Where it notes the processes.
    record: Option<PathBuf>,
    /// The umask of the program, where it is not toolgate's own.
    umask: Option<u32>,
    /// How the program is confined.
    confine: Option<OsString>,
    command: Vec<OsString>,
}

/// Runs `[--record FILE] [--umask OCTAL] [--confine TOLD] -- PROGRAM [ARGUMENT…]` and ends as the
/// program ends: its status, or 128 and the number of the signal that ended it.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let Some(ChildGuardArgs {
        record,
        umask,
        confine,
        command,
    }) = parse(arguments)
    else {
        say(
            "usage: toolgate __guard [--record FILE] [--umask OCTAL] [--confine TOLD] -- PROGRAM [ARGUMENT...]",
        );
        return ExitCode::from(2);
    };
    // An operator who kills toolgate by name must not hit its guards: they have to outlive it for a
    // moment.
    let _ = rustix::thread::set_name(c"tg-guard");
    let _ = set_child_subreaper(Some(getpid()));
    if let Err(error) = outlive_signals() {
        say(&format!("toolgate: cannot guard a tool server: {error}"));
        return ExitCode::FAILURE;
    }
    if let Some(umask) = umask {
        rustix::process::umask(rustix::fs::Mode::from_raw_mode(umask));
    }
    sandbox::leave_no_core();
    let program = match start(confine, command) {
        Ok(program) => program,
        Err(code) => return code,
    };
    if let Some(record) = record {
        note(&record, program);
    }
    let_go_of_the_pipes();
    if std::thread::Builder::new().spawn(watch_toolgate).is_err() {
        end_everything();
        return ExitCode::FAILURE;
    }
    let status = reap_until(program);
    end_descendants();
    ExitCode::from(code(status))
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Option<ChildGuardArgs> {
    let mut arguments = arguments.into_iter();
    let (mut record, mut umask, mut confine) = (None, None, None);
    loop {
        let argument = arguments.next()?;
        if argument == "--" {
            let command: Vec<OsString> = arguments.collect();
            return (!command.is_empty()).then_some(ChildGuardArgs {
                record,
                umask,
                confine,
                command,
            });
        }
        match argument.to_str()? {
            "--record" => record = Some(PathBuf::from(arguments.next()?)),
            "--umask" => umask = Some(u32::from_str_radix(arguments.next()?.to_str()?, 8).ok()?),
            child::CONFINE_FLAG => confine = Some(arguments.next()?),
            _ => return None,
        }
    }
}

/// SIGTERM goes to the whole group, and is meant for the tool server. The signals are caught, not
/// ignored: a program inherits ignored signals, caught ones go back to what they do by default. The
/// runtime never runs.
fn outlive_signals() -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()?;
    let _inside = runtime.enter();
    for kind in [
        SignalKind::terminate(),
        SignalKind::interrupt(),
        SignalKind::hangup(),
        SignalKind::quit(),
    ] {
        drop(signal(kind)?);
    }
    Ok(())
}

fn start(confine: Option<OsString>, command: Vec<OsString>) -> Result<Pid, ExitCode> {
    let mut words = command.into_iter();
    let program = words.next().unwrap_or_default();
    let mut starting = match confine {
        // This very program, whatever has become of its file.
        Some(told) => {
            let mut confined = Command::new("/proc/self/exe");
            confined.arg(sandbox::CONFINE_VERB).arg(told).arg(&program);
            confined
        }
        None => Command::new(&program),
    };
    let started = starting.args(words).spawn();
    match started.map(|child| i32::try_from(child.id()).ok().and_then(Pid::from_raw)) {
        Ok(Some(pid)) => Ok(pid),
        Ok(None) => Err(ExitCode::FAILURE),
        Err(error) => {
            say(&format!(
                "toolgate: cannot start {}: {error}",
                Path::new(&program).display()
            ));
            let found = error.kind() != std::io::ErrorKind::NotFound;
            Err(ExitCode::from(if found {
                EXIT_NOT_EXECUTABLE
            } else {
                EXIT_NOT_FOUND
            }))
        }
    }
}

/// Runs `TOLD PROGRAM [ARGUMENT…]` and becomes the program, confined as told.
pub fn confine(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let mut arguments = arguments.into_iter();
    let (told, program) = (
        arguments.next().unwrap_or_default(),
        arguments.next().unwrap_or_default(),
    );
    let mut command = Command::new(&program);
    command.args(arguments);
    let unconfined =
        Sandbox::become_confined(&told.to_string_lossy(), Path::new(&program), command, say);
    say(&format!(
        "toolgate: cannot start {} confined: {unconfined}",
        Path::new(&program).display()
    ));
    ExitCode::from(EXIT_NOT_EXECUTABLE)
}

fn note(record: &Path, program: Pid) {
    for pid in [getpid(), program] {
        // Without a record only the second net is missing; the program may also have ended already.
        let _ = leftovers::add(record, pid);
    }
}

/// The pipes of the conversation belong to the program alone, so that either side sees when the
/// other closes them.
fn let_go_of_the_pipes() {
    if let Ok(null) = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open("/dev/null")
    {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
    }
}

fn watch_toolgate() {
    let stderr = std::io::stderr();
    let gone = PollFlags::ERR | PollFlags::HUP | PollFlags::NVAL;
    loop {
        let mut pipe = [PollFd::new(&stderr, PollFlags::empty())];
        match poll(&mut pipe, None) {
            Ok(_) if pipe[0].revents().intersects(gone) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    end_everything();
}

/// The descendants first, wherever they went; then the group, and the guard with it.
fn end_everything() {
    end_descendants();
    lineage::signal_group(getpid(), Signal::KILL);
}

/// Kills until nothing is below the guard, reaping on the way.
fn end_descendants() {
    let pause = Duration::from_millis(2);
    let mut waited = Duration::ZERO;
    while waited < KILLED_GONE_TIMEOUT {
        if lineage::kill_descendants(getpid()) == 0 {
            return;
        }
        while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
        std::thread::sleep(pause);
        waited += pause;
    }
}

/// Reaps whatever ends below the guard until `program` does.
fn reap_until(program: Pid) -> Option<WaitStatus> {
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == program => return Some(status),
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return None,
        }
    }
}

fn code(status: Option<WaitStatus>) -> u8 {
    let Some(status) = status else { return 1 };
    let code = status
        .exit_status()
        .or_else(|| Some(128 + status.terminating_signal()?));
    code.and_then(|code| u8::try_from(code).ok()).unwrap_or(1)
}

fn say(words: &str) {
    let _ = writeln!(std::io::stderr(), "{words}");
}
