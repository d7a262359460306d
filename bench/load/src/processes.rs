//! Starts what stands in between, reads its CPU time and memory, and ends it.

use crate::scenes;
use anyhow::Context as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// One way to the tool server.
pub(crate) struct Way {
    /// `direct`, `nginx` or `toolgate`.
    pub(crate) name: &'static str,
    /// Where it begins.
    pub(crate) address: String,
    /// The processes in between.
    pub(crate) processes: Vec<u32>,
}

/// All that was started; dropping it ends it.
pub(crate) struct Stand {
    /// The ways, direct first.
    pub(crate) ways: Vec<Way>,
    /// Resident memory of toolgate before any load, in KiB.
    pub(crate) idle: u64,
    /// Where they write.
    pub(crate) directory: PathBuf,
    started: Vec<Child>,
}

impl Stand {
    /// Starts the tool server, nginx if there is one, and toolgate.
    pub(crate) fn start(toolgate: &Path) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("toolgate-load-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut stand = Self {
            ways: Vec::new(),
            idle: 0,
            started: Vec::new(),
            directory,
        };
        let server = stand.server()?;
        stand.ways.push(Way {
            name: "direct",
            address: server.clone(),
            processes: Vec::new(),
        });
        if let Err(error) = stand.nginx(&server) {
            eprintln!("nginx is left out: {error:#}");
        }
        stand.toolgate(toolgate, &server)?;
        Ok(stand)
    }

    fn server(&mut self) -> anyhow::Result<String> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .stdout(Stdio::piped())
            .spawn()?;
        let out = child.stdout.take().context("no stdout")?;
        self.started.push(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        Ok(line.trim().to_owned())
    }

    fn nginx(&mut self, server: &str) -> anyhow::Result<()> {
        let address = free()?;
        let (directory, file) = (
            self.directory.display().to_string(),
            self.directory.join("nginx.conf"),
        );
        fs::write(&file, scenes::nginx(&directory, &address, server))?;
        let child = Command::new("nginx")
            .arg("-p")
            .arg(&directory)
            .arg("-c")
            .arg(&file)
            .args(["-g", "daemon off;"])
            .spawn()?;
        let master = child.id();
        self.started.push(child);
        wait("nginx", || TcpStream::connect(&address).is_ok())?;
        self.ways.push(Way {
            name: "nginx",
            address,
            processes: with_children(master),
        });
        Ok(())
    }

    fn toolgate(&mut self, program: &Path, server: &str) -> anyhow::Result<()> {
        fs::write(
            self.directory.join("toolgate.yaml"),
            scenes::configuration(&free()?, server),
        )?;
        fs::write(self.directory.join("policy.yaml"), scenes::policy())?;
        let mut child = Command::new(program.canonicalize()?)
            .args(["serve", "--config", "toolgate.yaml"])
            .current_dir(&self.directory)
            .stdout(Stdio::piped())
            .stderr(fs::File::create(self.directory.join("toolgate.log"))?)
            .spawn()?;
        let (out, id) = (child.stdout.take().context("no stdout")?, child.id());
        self.started.push(child);
        let mut said = [String::new(), String::new()];
        let mut out = BufReader::new(out);
        for line in &mut said {
            out.read_line(line)?;
        }
        let address = |line: &str| {
            line.split("http://")
                .nth(1)
                .map(|rest| rest.trim().trim_end_matches("/mcp").to_owned())
        };
        let agents = address(&said[0]).with_context(|| self.log())?;
        let operators = address(&said[1]).with_context(|| self.log())?;
        wait("toolgate", || ready(&operators)).with_context(|| self.log())?;
        self.idle = memory(id, "VmRSS:");
        self.ways.push(Way {
            name: "toolgate",
            address: agents,
            processes: vec![id],
        });
        Ok(())
    }

    fn log(&self) -> String {
        fs::read_to_string(self.directory.join("toolgate.log")).unwrap_or_default()
    }

    /// The process of toolgate.
    pub(crate) fn toolgate_process(&self) -> u32 {
        self.ways.last().map_or(0, |way| way.processes[0])
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        for mut child in self.started.drain(..).rev() {
            let asked = Command::new("kill").arg(child.id().to_string()).status();
            if !asked.is_ok_and(|status| status.success()) {
                let _ = child.kill();
            }
            let _ = child.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// An address that nobody listens on.
fn free() -> anyhow::Result<String> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string())
}

fn ready(operators: &str) -> bool {
    use std::io::{Read as _, Write as _};
    let Ok(mut stream) = TcpStream::connect(operators) else {
        return false;
    };
    let asked = format!("GET /readyz HTTP/1.1\r\nhost: {operators}\r\nconnection: close\r\n\r\n");
    let mut said = String::new();
    stream.write_all(asked.as_bytes()).is_ok()
        && stream.read_to_string(&mut said).is_ok()
        && said.starts_with("HTTP/1.1 200")
}

fn wait(what: &str, done: impl Fn() -> bool) -> anyhow::Result<()> {
    for _ in 0..600 {
        if done() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    anyhow::bail!("{what} is not ready after 30 s")
}

/// A process and those it started.
fn with_children(process: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id == process || stat(*id).is_some_and(|stat| stat[1] == u64::from(process)))
        .collect()
}

/// The numbers of `/proc/PID/stat` after the name; the state counts as zero.
fn stat(process: u32) -> Option<Vec<u64>> {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    Some(
        rest.split_whitespace()
            .map(|word| word.parse().unwrap_or(0))
            .collect(),
    )
}

/// User and system time of the processes so far.
pub(crate) fn cpu(processes: &[u32]) -> Duration {
    // Linux counts in hundredths of a second here, on every machine that this runs on.
    let ticks: u64 = processes
        .iter()
        .filter_map(|id| stat(*id))
        .map(|stat| stat[11] + stat[12])
        .sum();
    Duration::from_millis(ticks * 10)
}

/// A size from `/proc/PID/status`, in KiB.
pub(crate) fn memory(process: u32, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok())
        .unwrap_or(0)
}
