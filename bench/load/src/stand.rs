//! All that is started for a measurement: the tool server, what stands in between, and the ways
//! through them.

use crate::scenes::{self, Dialect, LISTS};
use crate::toolgate::{Launch, Toolgate, end_child, free, memory, sled_kib, wait};
use anyhow::Context as _;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The way without anything in between.
pub(crate) const DIRECT: &str = "direct";
/// The way to which the others are compared.
pub(crate) const NGINX: &str = "nginx";
/// The build that is measured.
pub(crate) const TOOLGATE: &str = "toolgate";
/// The build to which it is compared.
pub(crate) const BEFORE: &str = "toolgate before";

/// One way to the tool server.
pub(crate) struct Way {
    /// In tables.
    pub(crate) name: String,
    /// Where it begins.
    pub(crate) address: String,
    /// How requests are written.
    pub(crate) dialect: Dialect,
    /// The path, where it is another than the tool server's.
    pub(crate) path: Option<&'static str>,
    /// What it puts before the names of tools.
    pub(crate) prefix: &'static str,
    /// The processes in between: their CPU time is what the way costs.
    pub(crate) processes: Vec<u32>,
    /// Tool servers that they have started for themselves.
    pub(crate) servers: Vec<u32>,
}

/// A build of toolgate with the threads that it serves with.
pub(crate) struct Build {
    /// In tables.
    pub(crate) name: String,
    /// The program.
    pub(crate) program: PathBuf,
    /// Threads that serve; none: as it decides itself.
    pub(crate) workers: Option<usize>,
}

/// A process of toolgate that stands in between.
pub(crate) struct Running {
    /// As its way is called.
    pub(crate) name: String,
    /// The process.
    pub(crate) process: Toolgate,
    /// Resident memory before any load, in KiB.
    pub(crate) idle: u64,
    /// What of it is sled's histograms, in KiB.
    pub(crate) sled: u64,
}

/// All that was started; dropping it ends it.
pub(crate) struct Stand {
    /// The ways, direct first.
    pub(crate) ways: Vec<Way>,
    /// The processes of toolgate.
    pub(crate) builds: Vec<Running>,
    /// Where they write.
    pub(crate) directory: PathBuf,
    /// Address of the tool server.
    pub(crate) server: String,
    /// The load is written so.
    dialect: Dialect,
    server_process: u32,
    started: Vec<Child>,
}

impl Stand {
    /// Starts the tool server, to which requests are written in `dialect`.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub(crate) fn start(dialect: Dialect) -> anyhow::Result<Self> {
        let directory = std::env::temp_dir().join(format!("toolgate-load-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        let mut stand = Self {
            ways: Vec::new(),
            builds: Vec::new(),
            directory,
            server: String::new(),
            dialect,
            server_process: 0,
            started: Vec::new(),
        };
        let mut child = Command::new(std::env::current_exe()?)
            .arg("--serve")
            .stdout(Stdio::piped())
            .spawn()?;
        stand.server_process = child.id();
        let out = child.stdout.take().context("no stdout")?;
        stand.started.push(child);
        let mut line = String::new();
        BufReader::new(out).read_line(&mut line)?;
        line.trim().clone_into(&mut stand.server);
        let direct = stand.way(DIRECT, stand.server.clone(), Vec::new());
        stand.ways.push(direct);
        Ok(stand)
    }

    /// Starts nginx with one process that serves.
    ///
    /// # Errors
    ///
    /// There is none, or it does not start.
    pub(crate) fn nginx(&mut self) -> anyhow::Result<()> {
        let address = free()?;
        let (directory, file) = (
            self.directory.display().to_string(),
            self.directory.join("nginx.conf"),
        );
        fs::write(&file, scenes::nginx(&directory, &address, &self.server))?;
        let mut command = Command::new(NGINX);
        command
            .arg("-p")
            .arg(&directory)
            .arg("-c")
            .arg(&file)
            .args(["-g", "daemon off;"]);
        let master = self.spawn(&mut command)?;
        // It listens before the process is there that serves.
        wait(NGINX, || {
            with_children(master).len() > 1 && TcpStream::connect(&address).is_ok()
        })?;
        let way = self.way(NGINX, address, with_children(master));
        self.ways.push(way);
        Ok(())
    }

    /// Starts a build of toolgate, and waits until it can judge calls.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub(crate) fn build(&mut self, build: &Build) -> anyhow::Result<()> {
        let process = Toolgate::start(&Launch {
            program: &build.program,
            directory: self.directory.join(format!("build-{}", self.builds.len())),
            server: &self.server,
            tools: &LISTS,
            workers: build.workers,
            under: &[],
        })?;
        process.ready()?;
        let way = self.way(&build.name, process.agents.clone(), vec![process.process()]);
        self.ways.push(way);
        self.builds.push(Running {
            name: build.name.clone(),
            idle: memory(process.process(), "VmRSS:"),
            sled: sled_kib(&build.program),
            process,
        });
        Ok(())
    }

    /// A way through these processes that changes neither paths nor names.
    pub(crate) fn way(&self, name: &str, address: String, processes: Vec<u32>) -> Way {
        Way {
            name: name.to_owned(),
            address,
            dialect: self.dialect,
            path: None,
            prefix: "",
            processes,
            servers: Vec::new(),
        }
    }

    /// Starts a program that is ended with the rest; gives its process.
    ///
    /// # Errors
    ///
    /// It does not start.
    pub(crate) fn spawn(&mut self, command: &mut Command) -> anyhow::Result<u32> {
        let child = command
            .spawn()
            .with_context(|| command.get_program().display().to_string())?;
        let process = child.id();
        self.started.push(child);
        Ok(process)
    }

    /// The processes that stand nowhere in between: tool servers.
    pub(crate) fn others(&self) -> impl Iterator<Item = u32> {
        let own = self.ways.iter().flat_map(|way| way.servers.iter().copied());
        own.chain([self.server_process])
    }

    /// The way of that name.
    pub(crate) fn find(&self, name: &str) -> anyhow::Result<&Way> {
        let found = self.ways.iter().find(|way| way.name == name);
        found.with_context(|| format!("there is no way `{name}`"))
    }
}

impl Drop for Stand {
    fn drop(&mut self) {
        self.builds.clear();
        for mut child in self.started.drain(..).rev() {
            end_child(&mut child);
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}

/// A process and those it started.
pub(crate) fn with_children(process: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(|id| *id == process || parent(*id) == Some(process))
        .collect()
}

fn parent(process: u32) -> Option<u32> {
    let text =
        fs::read_to_string(Path::new("/proc").join(process.to_string()).join("stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{parent, with_children};
    use std::process::{Command, Stdio};

    #[test]
    fn a_family_is_a_process_and_its_children() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let own = std::process::id();
        let family = with_children(own);
        assert!(family.contains(&own) && family.contains(&child.id()));
        assert_eq!(parent(child.id()), Some(own));
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
    }
}
