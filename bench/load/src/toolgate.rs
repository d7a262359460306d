//! One process of toolgate: started, known by its addresses, asked for its memory and its metrics,
//! and ended as an operator would end it.

use crate::caller::now;
use crate::scenes;
use anyhow::{Context as _, ensure};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// Memory of histograms that sled makes and nobody reads, in KiB: 41 with 65,536 places of 8 bytes
/// and what holds them, as page faults were counted. It is told apart, since toolgate cannot leave
/// it out.
pub(crate) const SLED_HISTOGRAMS_KIB: u64 = 21_156;
/// A name of sled's threads: a program that holds it has sled in it.
const SLED_MARK: &[u8] = b"sled-io-";
/// How often it is asked whether something is ready.
const LOOK_EVERY: Duration = Duration::from_millis(2);
/// How long it may take to be ready, also when it is counted instruction by instruction.
const READY_WITHIN: Duration = Duration::from_mins(3);

/// How a process is started.
pub(crate) struct Launch<'a> {
    /// The program.
    pub(crate) program: &'a Path,
    /// Where it runs and writes; made when it is missing.
    pub(crate) directory: PathBuf,
    /// Address of the tool server.
    pub(crate) server: &'a str,
    /// The tool servers it has, by the number of their tools.
    pub(crate) tools: &'a [usize],
    /// Threads that serve; none: as it decides itself.
    pub(crate) workers: Option<usize>,
    /// A program with its options that runs it, such as valgrind.
    pub(crate) under: &'a [String],
}

/// A process that serves. Dropped, it is ended.
pub(crate) struct Toolgate {
    /// Where agents call, without a path.
    pub(crate) agents: String,
    /// Where operators ask.
    pub(crate) operators: String,
    /// When it was started.
    pub(crate) began: Instant,
    child: Child,
    /// Read to the end it would be closed, and what the process says later would fail.
    _said: BufReader<ChildStdout>,
}

impl Toolgate {
    /// Starts it, and waits until it has said where it serves.
    ///
    /// # Errors
    ///
    /// It cannot be started, or ends; with what it wrote to its log.
    pub(crate) fn start(launch: &Launch<'_>) -> anyhow::Result<Self> {
        let directory = &launch.directory;
        fs::create_dir_all(directory)?;
        let configuration = scenes::configuration(&free()?, launch.server, launch.tools);
        fs::write(directory.join("toolgate.yaml"), configuration)?;
        fs::write(directory.join("policy.yaml"), scenes::policy(launch.tools))?;
        let program = launch
            .program
            .canonicalize()
            .with_context(|| format!("{} is missing", launch.program.display()))?;
        let mut command = match launch.under {
            [] => Command::new(program),
            [first, options @ ..] => {
                let mut command = Command::new(first);
                command.args(options).arg(program);
                command
            }
        };
        if let Some(workers) = launch.workers {
            command.env("TOKIO_WORKER_THREADS", workers.to_string());
        }
        let log = directory.join("toolgate.log");
        let began = now();
        let mut child = command
            .args(["serve", "--config", "toolgate.yaml"])
            .current_dir(directory)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(&log)?)
            .spawn()?;
        let mut said = BufReader::new(child.stdout.take().context("no stdout")?);
        let mut started = [String::new(), String::new()];
        for address in &mut started {
            let mut line = String::new();
            said.read_line(&mut line)?;
            *address =
                address_in(&line).with_context(|| fs::read_to_string(&log).unwrap_or_default())?;
        }
        let [agents, operators] = started;
        Ok(Self {
            agents,
            operators,
            began,
            child,
            _said: said,
        })
    }

    /// Waits until calls can be judged and the tool servers were asked.
    ///
    /// # Errors
    ///
    /// That takes too long.
    pub(crate) fn ready(&self) -> anyhow::Result<()> {
        wait("toolgate", || {
            ask(&self.operators, "/readyz").is_some_and(|said| said.starts_with("HTTP/1.1 200"))
        })
    }

    /// The process.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to end, and waits until it has.
    ///
    /// # Errors
    ///
    /// It does not end well.
    pub(crate) fn end(mut self) -> anyhow::Result<()> {
        kill_process(Pid::from_child(&self.child), Signal::TERM)?;
        let status = self.child.wait()?;
        ensure!(status.success(), "toolgate ended with {status}");
        Ok(())
    }
}

impl Drop for Toolgate {
    fn drop(&mut self) {
        // After `end` it is no more; nothing else is told then.
        if matches!(self.child.try_wait(), Ok(None)) {
            end_child(&mut self.child);
        }
    }
}

/// Tells a child to end, and waits until it has.
pub(crate) fn end_child(child: &mut Child) {
    if kill_process(Pid::from_child(child), Signal::TERM).is_err() {
        let _ = child.kill();
    }
    let _ = child.wait();
}

/// Of a line such as `agents at http://127.0.0.1:7777/mcp`.
fn address_in(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("http://")?;
    let end = rest.find(['/', ' ', '\n']).unwrap_or(rest.len());
    Some(rest[..end].to_owned())
}

/// An address that nobody listens on.
pub(crate) fn free() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

/// What is answered to a `GET`, head and body; none where nobody answers.
pub(crate) fn ask(address: &str, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    let asked = format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n");
    stream.write_all(asked.as_bytes()).ok()?;
    let mut said = String::new();
    stream.read_to_string(&mut said).ok()?;
    Some(said)
}

/// Syncs of the journal so far, as the process counts them.
pub(crate) fn syncs(operators: &str) -> Option<u64> {
    syncs_in(&ask(operators, "/metrics")?)
}

fn syncs_in(metrics: &str) -> Option<u64> {
    let counts = metrics.lines().filter_map(|line| {
        line.strip_prefix("toolgate_journal_sync_seconds_count")?
            .rsplit(' ')
            .next()?
            .parse::<u64>()
            .ok()
    });
    counts.reduce(|sum, count| sum + count)
}

/// Looks until `done`.
///
/// # Errors
///
/// It takes too long.
pub(crate) fn wait(what: &str, done: impl Fn() -> bool) -> anyhow::Result<()> {
    let began = now();
    while !done() {
        ensure!(began.elapsed() < READY_WITHIN, "{what} is not ready");
        std::thread::sleep(LOOK_EVERY);
    }
    Ok(())
}

/// A size from `/proc/PID/status`, in KiB; zero if the process has ended.
pub(crate) fn memory(process: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}

/// What sled's histograms take in a process of this program, in KiB.
pub(crate) fn sled_kib(program: &Path) -> u64 {
    let bytes = fs::read(program).unwrap_or_default();
    let has_sled = bytes
        .windows(SLED_MARK.len())
        .any(|window| window == SLED_MARK);
    if has_sled { SLED_HISTOGRAMS_KIB } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::{address_in, memory, sled_kib, syncs_in};

    #[test]
    fn addresses_are_read_from_what_is_said() {
        for line in [
            "agents at http://127.0.0.1:7777/mcp\n",
            "operators at http://127.0.0.1:7777\n",
            "see http://127.0.0.1:7777 and more",
        ] {
            assert_eq!(
                address_in(line).as_deref(),
                Some("127.0.0.1:7777"),
                "{line}"
            );
        }
        assert_eq!(address_in("nothing"), None);
    }

    #[test]
    fn syncs_are_read_from_metrics() {
        let metrics = "HTTP/1.1 200 OK\r\n\r\ntoolgate_journal_sync_seconds_bucket{le=\"1\"} 7\n\
                       toolgate_journal_sync_seconds_sum 0.5\ntoolgate_journal_sync_seconds_count 41\n";
        assert_eq!(syncs_in(metrics), Some(41));
        assert_eq!(syncs_in("toolgate_calls_total 3\n"), None);
    }

    #[test]
    fn this_process_has_memory_and_no_sled() {
        let own = std::env::current_exe().unwrap();
        assert!(memory(std::process::id(), "VmRSS:") > 100);
        // The mark itself stands in this program.
        assert_eq!(sled_kib(&own), super::SLED_HISTOGRAMS_KIB);
        assert_eq!(sled_kib(&own.with_file_name("missing")), 0);
    }
}
