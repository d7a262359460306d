//! Fetches secrets from where the configuration says, keeps them as long as it says, and makes them
//! known to whatever hands on what servers say, before any of them leaves.

use crate::guards::secrets::{Binding, Bindings, SecretSource};
use crate::model::clock::Clock;
use crate::model::scrub::{KNOWN_SECRETS, MIN_SECRET_BYTES, SecretsTooLong};
use crate::model::secret::Secret;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, kill_process_group};
use secrecy::zeroize::Zeroizing;
use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};

/// Longest value in bytes.
const LONGEST: usize = 4 << 10;
/// How long a file may take to be read.
const READING: Duration = Duration::from_secs(5);
/// For how long a failure is the answer, too: agents repeat their calls, and a program costs.
const PAUSE: Duration = Duration::from_secs(1);
/// Secrets that are kept; more than a configuration may have, since it can be reloaded.
const KEPT: usize = 256;
/// What a program is given of toolgate's environment.
const INHERITED: [&str; 5] = ["PATH", "HOME", "USER", "LANG", "TMPDIR"];

/// Secrets, fetched.
#[derive(Default)]
pub struct Vault {
    shelves: Mutex<HashMap<String, Arc<Shelf>>>,
}

/// One secret; a call that needs it while it is fetched waits for that.
#[derive(Default)]
struct Shelf(tokio::sync::Mutex<Option<FetchedSecret>>);

struct FetchedSecret {
    binding: Arc<Binding>,
    /// Steady time.
    fetched: Duration,
    value: Result<Arc<Secret>, Failed>,
}

/// Why a secret cannot be had. Never holds any of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failed {
    /// The variable is not set.
    #[error("the environment variable is not set")]
    Unset,
    /// The file cannot be read.
    #[error("the file cannot be read: {0}")]
    Unreadable(std::io::ErrorKind),
    /// It is a directory, a pipe or a device.
    #[error("it is no regular file")]
    NoFile,
    /// The program cannot be started.
    #[error("the program cannot be started: {0}")]
    NotStarted(std::io::ErrorKind),
    /// It took too long.
    #[error("it took too long")]
    TooLate,
    /// The program says that it failed.
    #[error("the program failed")]
    Exit,
    /// Not UTF-8, or with a NUL.
    #[error("the value is not text")]
    NoText,
    /// Too short to be told from a word, or too long.
    #[error("the value is not {MIN_SECRET_BYTES} to {LONGEST} bytes long")]
    Length,
    /// There are too many to be looked for.
    #[error(transparent)]
    TooMuch(#[from] SecretsTooLong),
}

impl Vault {
    /// The value; what servers say is looked through for it from now on.
    pub async fn fetch(&self, binding: &Arc<Binding>, clock: Clock) -> Result<Arc<Secret>, Failed> {
        let own = self.shelf(&binding.name);
        let mut held = own.0.lock().await;
        if let Some(held) = held
            .as_ref()
            .filter(|held| held.is_good(binding, clock.steady()))
        {
            return held.value.clone();
        }
        let value = match get(&binding.source).await {
            Ok(value) => KNOWN_SECRETS
                .add(&binding.name, &value)
                .map(|()| value)
                .map_err(Failed::from),
            Err(failed) => Err(failed),
        };
        *held = Some(FetchedSecret {
            binding: binding.clone(),
            fetched: clock.steady(),
            value: value.clone(),
        });
        value
    }

    /// Fetches all of them at once, so that what servers say is looked through for each before any
    /// is sent: a server may have had it from an earlier process (threat-model §3F F2). Says which
    /// cannot be had.
    pub async fn learn(&self, bindings: &Bindings, clock: Clock) -> Vec<(Arc<Binding>, Failed)> {
        let each = bindings.0.values().map(|binding| async move {
            let failed = self.fetch(binding, clock).await.err()?;
            Some((binding.clone(), failed))
        });
        futures_util::future::join_all(each)
            .await
            .into_iter()
            .flatten()
            .collect()
    }

    fn shelf(&self, name: &str) -> Arc<Shelf> {
        let mut shelves = self.shelves.lock();
        if shelves.len() >= KEPT && !shelves.contains_key(name) {
            shelves.clear();
        }
        shelves.entry(name.to_owned()).or_default().clone()
    }
}

impl FetchedSecret {
    fn is_good(&self, binding: &Binding, now: Duration) -> bool {
        let age = now.saturating_sub(self.fetched);
        let good = match (&self.value, &binding.source) {
            (Err(_), _) => age < PAUSE,
            (Ok(_), SecretSource::Variable(_)) => true,
            // It costs little, and may be replaced at any time.
            (Ok(_), SecretSource::File(_)) => false,
            (Ok(_), SecretSource::Command { ttl, .. }) => age < *ttl,
        };
        good && self.binding.source == binding.source
    }
}

/// The value, wherever it comes from; nothing is kept of it.
pub async fn get(source: &SecretSource) -> Result<Arc<Secret>, Failed> {
    let bytes = match source {
        SecretSource::Variable(name) => {
            let value = std::env::var_os(name).ok_or(Failed::Unset)?;
            Zeroizing::new(value.into_encoded_bytes())
        }
        SecretSource::File(path) => tokio::time::timeout(READING, file(path))
            .await
            .unwrap_or(Err(Failed::TooLate))?,
        SecretSource::Command {
            run,
            cwd,
            timeout,
            ttl: _,
        } => command(run, cwd, *timeout).await?,
    };
    let text = std::str::from_utf8(&bytes).map_err(|_| Failed::NoText)?;
    // Editors and `echo` end a file with a line end.
    let text = text.trim_end_matches(['\n', '\r']);
    if text.contains('\0') {
        return Err(Failed::NoText);
    }
    if !(MIN_SECRET_BYTES..=LONGEST).contains(&text.len()) {
        return Err(Failed::Length);
    }
    Ok(Arc::new(Secret::new(text.to_owned())))
}

async fn file(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failed> {
    let unreadable = |error: std::io::Error| Failed::Unreadable(error.kind());
    // Opening a pipe waits for a process to write.
    if !tokio::fs::metadata(path)
        .await
        .map_err(unreadable)?
        .is_file()
    {
        return Err(Failed::NoFile);
    }
    gather(tokio::fs::File::open(path).await.map_err(unreadable)?)
        .await
        .map_err(unreadable)
}

/// What a program prints. Its standard error is not read: it may hold anything.
async fn command(
    run: &[String],
    cwd: &Path,
    timeout: Duration,
) -> Result<Zeroizing<Vec<u8>>, Failed> {
    let (program, arguments) = run
        .split_first()
        .ok_or(Failed::NotStarted(std::io::ErrorKind::NotFound))?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(cwd).env_clear();
    command.envs(
        INHERITED
            .iter()
            .filter_map(|name| Some((name, std::env::var_os(name)?))),
    );
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    let child = command
        .spawn()
        .map_err(|error| Failed::NotStarted(error.kind()))?;
    let mut group = Group(child);
    tokio::time::timeout(timeout, group.output())
        .await
        .unwrap_or(Err(Failed::TooLate))
}

/// A program and what it started; dropping it ends them.
struct Group(Child);

impl Group {
    async fn output(&mut self) -> Result<Zeroizing<Vec<u8>>, Failed> {
        let stdout = self.0.stdout.take().ok_or(Failed::Exit)?;
        let bytes = gather(stdout).await.map_err(|_| Failed::Exit)?;
        if bytes.len() > LONGEST + 2 {
            return Err(Failed::Length);
        }
        match self.0.wait().await {
            Ok(status) if status.success() => Ok(bytes),
            Ok(_) | Err(_) => Err(Failed::Exit),
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // None once it is reaped: the number may be another's then.
        let pid = self
            .0
            .id()
            .and_then(|pid| i32::try_from(pid).ok())
            .and_then(Pid::from_raw);
        if let Some(pid) = pid {
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

/// As much as a value and its line end may have, and a byte more when there is more.
async fn gather(from: impl AsyncRead + Unpin) -> std::io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(Vec::with_capacity(LONGEST + 64));
    from.take(LONGEST as u64 + 3)
        .read_to_end(&mut bytes)
        .await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
