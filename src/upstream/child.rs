//! A tool server that is a child process: how it starts, what it inherits, how it ends.
//!
//! What toolgate starts is its own guard (`cli/guard.rs`), which starts the program; both are in
//! one process group, and every way to end goes through the guard, so that nothing the program
//! started stays behind (threat-model §3H H3, §3I).

use super::leftovers::{ChildRecord, Leftovers};
use super::lineage;
use crate::model::ids::ServerName;
use crate::model::reply::Fault;
use crate::owners::umask_of_others;
use crate::telemetry::tasks;
use rustix::process::{Pid, Signal};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::process::{Child, ChildStdin, ChildStdout};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) mod program;
pub mod sandbox;
mod stderr;

use sandbox::Sandbox;
use stderr::StderrCapture;

/// The hidden verb that makes toolgate a guard.
pub const GUARD_VERB: &str = "__guard";
/// Tells a guard how to confine what it starts.
pub const CONFINE_FLAG: &str = "--confine";
/// How long a tool server may take to end once its input was closed, unless configured.
pub const DEFAULT_SHUTDOWN_GRACE: Duration = Duration::from_secs(2);
/// How long it may take to end after SIGTERM, and the guard to end what was killed.
const SIGTERM_GRACE: Duration = Duration::from_secs(2);
/// How long what was said last may take to arrive after the end.
const STDERR_DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// What to start.
#[derive(Clone)]
pub struct ChildCommand {
    /// The program: a path, or a name that is looked up in the `PATH` of `env`, else in toolgate's
    /// own.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its whole environment; nothing is inherited.
    pub env: Vec<(String, String)>,
    /// Where it runs; toolgate's own directory if none.
    pub cwd: Option<PathBuf>,
    /// What it may do to the machine.
    pub sandbox: Sandbox,
    /// The server it is, for logs and faults.
    pub name: ServerName,
}

/// How a process ended. A program that a signal ended has the status 128 and the signal's number,
/// as in shells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exit {
    /// The status; none when the guard itself was killed.
    pub status: Option<i32>,
}

/// A running tool server. Dropping it ends it and everything it started.
pub struct ChildProcess {
    pid: Pid,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    said: Arc<StderrCapture>,
    exit: watch::Receiver<Option<Exit>>,
    end: CancellationToken,
}

impl ChildProcess {
    /// Starts `command` under a guard. `guard_program` is the path of the toolgate binary. Call it
    /// inside the runtime. A program that cannot be found or executed is a fault; one that ends
    /// at once is a process that ends.
    pub fn spawn(
        command: &ChildCommand,
        guard_program: &Path,
        record: &Leftovers,
    ) -> Result<Self, Fault> {
        let program = program::find(command)?;
        let record = record.begin(&command.name).unwrap_or_else(|error| {
            tracing::warn!(server = %command.name, %error, "a tool server is started without a record of its process");
            ChildRecord::default()
        });
        let mut guard = std::process::Command::new(guard_program);
        guard.arg(GUARD_VERB);
        if let Some(path) = record.path() {
            guard.arg("--record").arg(path);
        }
        if let Some(umask) = umask_of_others() {
            guard.arg("--umask").arg(format!("{umask:o}"));
        }
        if !command.sandbox.is_none() {
            guard.arg(CONFINE_FLAG).arg(command.sandbox.told());
        }
        guard.arg("--").arg(program).args(&command.args);
        guard
            .env_clear()
            .envs(command.env.iter().map(|(name, value)| (name, value)));
        if let Some(cwd) = &command.cwd {
            guard.current_dir(cwd);
        }
        let mut guard = tokio::process::Command::from(guard);
        guard
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let child = guard.spawn().map_err(|error| {
            Fault::unsent(format!(
                "server `{}` cannot be started: its guard {}: {error}",
                command.name,
                guard_program.display()
            ))
        })?;
        Self::watched(command, child, record)
    }

    fn watched(
        command: &ChildCommand,
        mut child: Child,
        record: ChildRecord,
    ) -> Result<Self, Fault> {
        let pid = child
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        let (stdin, stdout, stderr) =
            (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(pid), Some(stderr)) = (pid, stderr) else {
            return Err(Fault::unsent(format!(
                "server `{}` ended while it was started",
                command.name
            )));
        };
        let said = Arc::new(StderrCapture::new(command));
        let listening = tasks::spawn("child_stderr", Arc::clone(&said).listen(stderr));
        let (exited, exit) = watch::channel(None);
        let end = CancellationToken::new();
        let watch = ChildWatcher {
            child,
            pid,
            listening,
            exited,
            end: end.clone(),
            _record: record,
        };
        tasks::spawn("child", watch.until_reaped());
        Ok(Self {
            pid,
            stdin,
            stdout,
            said,
            exit,
            end,
        })
    }

    /// Both ends of the conversation, once. Standard input is closed by dropping it.
    pub fn take_pipes(&mut self) -> Option<(ChildStdin, ChildStdout)> {
        Some((self.stdin.take()?, self.stdout.take()?))
    }

    /// The process id of the guard, which is also the process group.
    pub fn id(&self) -> i32 {
        self.pid.as_raw_nonzero().get()
    }

    /// How it ended, if it has.
    pub fn exit(&self) -> Option<Exit> {
        *self.exit.borrow()
    }

    /// Waits until it has ended and is reaped.
    pub async fn ended(&self) -> Exit {
        until_ended(self.exit.clone()).await
    }

    /// Waits until it has ended, and says how, with the last line of its standard error: for
    /// faults.
    pub fn ending(&self) -> impl Future<Output = String> + Send + 'static + use<> {
        let (exit, said) = (self.exit.clone(), Arc::clone(&self.said));
        async move {
            let exit = until_ended(exit).await;
            match said.last_line() {
                Some(line) => format!("{exit}; it last said: {line}"),
                None => exit.to_string(),
            }
        }
    }

    /// Up to 64 KiB of what it last said on standard error: cleaned lines, oldest first.
    pub fn stderr_tail(&self) -> Vec<String> {
        self.said.kept()
    }

    /// Ends it in good order and waits until it is reaped: its input closed, `grace`, SIGTERM, 2 s,
    /// SIGKILL. The caller drops the standard input it took before.
    pub async fn shutdown(mut self, grace: Duration) -> Exit {
        self.stdin = None;
        if let Ok(exit) = tokio::time::timeout(grace, self.ended()).await {
            return exit;
        }
        if self.exit().is_none() {
            lineage::signal_group(self.pid, Signal::TERM);
        }
        if let Ok(exit) = tokio::time::timeout(SIGTERM_GRACE, self.ended()).await {
            return exit;
        }
        self.end.cancel();
        self.ended().await
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        // The task that waits for the process ends it. Should the runtime go first, the guard sees
        // the pipe close.
        self.end.cancel();
    }
}

impl fmt::Debug for ChildProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("pid", &self.id())
            .field("exit", &self.exit())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.status {
            Some(status) if status > 128 => write!(
                f,
                "it exited with status {status} (signal {})",
                status - 128
            ),
            Some(status) => write!(f, "it exited with status {status}"),
            None => write!(f, "it was killed"),
        }
    }
}

async fn until_ended(mut exit: watch::Receiver<Option<Exit>>) -> Exit {
    // The sender goes without a word only with the runtime.
    exit.wait_for(Option::is_some)
        .await
        .ok()
        .and_then(|exit| *exit)
        .unwrap_or(Exit { status: None })
}

/// Waits for one guard, ends it when told to, and reaps it always.
struct ChildWatcher {
    child: Child,
    pid: Pid,
    listening: JoinHandle<()>,
    exited: watch::Sender<Option<Exit>>,
    end: CancellationToken,
    /// Removed once the process is gone.
    _record: ChildRecord,
}

impl ChildWatcher {
    async fn until_reaped(mut self) {
        let status = tokio::select! {
            status = self.child.wait() => status,
            () = self.end.cancelled() => self.kill().await,
        };
        let status = status
            .ok()
            .and_then(|status| status.code().or_else(|| self.killed(status)));
        if tokio::time::timeout(STDERR_DRAIN_TIMEOUT, &mut self.listening)
            .await
            .is_err()
        {
            self.listening.abort();
        }
        self.exited.send_replace(Some(Exit { status }));
    }

    /// A guard that was killed could not end what it guarded.
    fn killed(&self, status: std::process::ExitStatus) -> Option<i32> {
        status
            .signal()
            .inspect(|_| lineage::signal_group(self.pid, Signal::KILL))
            .and(None)
    }

    /// Kills everything below the guard, which then ends by itself; and the guard, should it not.
    async fn kill(&mut self) -> std::io::Result<std::process::ExitStatus> {
        let pause = Duration::from_millis(20);
        let mut waited = Duration::ZERO;
        while waited < SIGTERM_GRACE {
            lineage::kill_descendants(self.pid);
            if let Ok(status) = tokio::time::timeout(pause, self.child.wait()).await {
                return status;
            }
            waited += pause;
        }
        lineage::signal_group(self.pid, Signal::KILL);
        self.child.wait().await
    }
}
