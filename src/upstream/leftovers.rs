//! Tool servers that outlived the toolgate that started them, and their end.
//!
//! A guard ends its tool server when toolgate dies, even by SIGKILL. This is the second net, for
//! when the guard was killed too (threat-model §3H H3): one small file per running child names its
//! processes, and the next start ends what still runs.

use super::lineage::{self, Life};
use crate::model::ids::{ServerName, unguessable};
use crate::owners::private::fresh;
use rustix::fs::OFlags;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// First word of a record.
const RECORD_MARK: &str = "toolgate-child-1";
/// Longest record in bytes.
const RECORD_BYTES_MAX: u64 = 16 * 1024;
/// Most records one sweep reads.
const MAX_RECORDS_PER_SWEEP: usize = 4096;
/// How long killed processes may take to be gone.
const KILL_TIMEOUT: Duration = Duration::from_secs(2);

/// Where records of running children are kept.
#[derive(Debug, Clone, Default)]
pub struct Leftovers {
    folder: Option<PathBuf>,
}

/// The record of one running child; removed when dropped.
#[derive(Debug, Default)]
pub struct ChildRecord {
    path: Option<PathBuf>,
}

/// What a sweep did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Swept {
    /// Records whose processes ran on and were ended.
    pub ended: usize,
    /// Records whose processes were gone already.
    pub gone: usize,
    /// Records whose processes could not be ended; they are kept and tried again at the next
    /// start.
    pub stuck: usize,
}

impl Leftovers {
    /// Keeps records in `children` under the data directory, or none without one.
    pub fn open(data: Option<&Path>) -> io::Result<Self> {
        let Some(data) = data else {
            return Ok(Self::default());
        };
        let folder = std::path::absolute(data)?.join("children");
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(crate::owners::private::PRIVATE_DIRECTORY_MODE)
            .create(&folder)?;
        Ok(Self {
            folder: Some(folder),
        })
    }

    /// How many children run of each server, as their records say. Reads the directory.
    pub fn running(&self) -> io::Result<BTreeMap<String, usize>> {
        let mut running = BTreeMap::new();
        let Some(folder) = &self.folder else {
            return Ok(running);
        };
        for entry in std::fs::read_dir(folder)?.take(MAX_RECORDS_PER_SWEEP) {
            if let Some(RecordOwner::Owned(server)) = read_record(&entry?.path()) {
                *running.entry(server).or_default() += 1;
            }
        }
        Ok(running)
    }

    /// Begins the record of a child of `server`; its processes are added once they run.
    pub fn begin(&self, server: &ServerName) -> io::Result<ChildRecord> {
        let Some(folder) = &self.folder else {
            return Ok(ChildRecord::default());
        };
        let owner = lineage::own().ok_or(io::ErrorKind::NotFound)?;
        let path = folder.join(unguessable());
        let words = format!(
            "{RECORD_MARK} {} {} {} {server}\n",
            boot(),
            owner.pid.as_raw_nonzero(),
            owner.started
        );
        fresh(&path)?.write_all(words.as_bytes())?;
        Ok(ChildRecord { path: Some(path) })
    }

    /// Ends what children of earlier runs still do. Blocks until they are gone, at most 2 s for
    /// each. Records of a toolgate that runs are left alone, so call this whenever the data
    /// directory is ours.
    pub fn sweep(&self) -> io::Result<Swept> {
        let mut swept = Swept::default();
        let Some(folder) = &self.folder else {
            return Ok(swept);
        };
        for entry in std::fs::read_dir(folder)?.take(MAX_RECORDS_PER_SWEEP) {
            let path = entry?.path();
            match read_record(&path) {
                Some(RecordOwner::Owned(_)) => continue,
                Some(RecordOwner::Left(server, lives)) if !lives.is_empty() => {
                    if !end(&lives) {
                        tracing::error!(
                            server,
                            "processes of a tool server of an earlier run cannot be ended"
                        );
                        swept.stuck += 1;
                        continue;
                    }
                    tracing::warn!(
                        server,
                        processes = lives.len(),
                        "ended a tool server that an earlier run left behind"
                    );
                    swept.ended += 1;
                }
                Some(RecordOwner::Left(..)) => swept.gone += 1,
                None => {
                    tracing::warn!(path = %path.display(), "removed an unreadable record of a tool server");
                }
            }
            std::fs::remove_file(&path)?;
        }
        Ok(swept)
    }
}

impl ChildRecord {
    /// Where the record is, for the guard, which adds to it.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl Drop for ChildRecord {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Adds a running process to the record at `path`. A record that is gone stays gone.
pub fn add(path: &Path, pid: Pid) -> io::Result<()> {
    let life = lineage::look(pid).ok_or(io::ErrorKind::NotFound)?;
    let words = format!("{} {} {}\n", pid.as_raw_nonzero(), life.started, life.group);
    let flags = OFlags::NOFOLLOW.bits().cast_signed();
    let record = std::fs::OpenOptions::new()
        .append(true)
        .custom_flags(flags)
        .open(path);
    record?.write_all(words.as_bytes())
}

enum RecordOwner {
    /// The toolgate that wrote it runs, and the server it names.
    Owned(String),
    /// The server it names, and those of its processes that run.
    Left(String, Vec<Life>),
}

fn read_record(path: &Path) -> Option<RecordOwner> {
    if std::fs::metadata(path).ok()?.len() > RECORD_BYTES_MAX {
        return None;
    }
    let text = std::fs::read_to_string(path).ok()?;
    let mut lines = text.lines();
    let head: Vec<&str> = lines.next()?.split(' ').collect();
    let [RECORD_MARK, at_boot, pid, started, server] = head[..] else {
        return None;
    };
    if at_boot != boot() {
        return Some(RecordOwner::Left(server.to_owned(), Vec::new()));
    }
    if living(pid, started).is_some() {
        return Some(RecordOwner::Owned(server.to_owned()));
    }
    let running = lines.filter_map(|line| {
        let (pid, rest) = line.split_once(' ')?;
        let (started, group) = rest.split_once(' ')?;
        living(pid, started).filter(|life| life.group.to_string() == group)
    });
    Some(RecordOwner::Left(server.to_owned(), running.collect()))
}

/// The process, if the one that has this id now is the one that had it then.
fn living(pid: &str, started: &str) -> Option<Life> {
    let life = lineage::look(Pid::from_raw(pid.parse().ok()?)?)?;
    (life.started.to_string() == started && !life.over).then_some(life)
}

/// Kills the processes, their descendants and their groups. A group is named by a member that was
/// just seen in it.
fn end(lives: &[Life]) -> bool {
    let pause = Duration::from_millis(5);
    let mut waited = Duration::ZERO;
    loop {
        let left: Vec<&Life> = lives.iter().filter(|life| same(life)).collect();
        if left.is_empty() {
            return true;
        }
        if waited > KILL_TIMEOUT {
            return false;
        }
        for life in left {
            lineage::kill_descendants(life.pid);
            if let Some(group) = Pid::from_raw(life.group) {
                lineage::signal_group(group, Signal::KILL);
            }
            let _ = kill_process(life.pid, Signal::KILL);
        }
        std::thread::sleep(pause);
        waited += pause;
    }
}

fn same(life: &Life) -> bool {
    lineage::look(life.pid).is_some_and(|now| now.started == life.started && !now.over)
}

/// This run of the machine, so that ids of an earlier one are never taken for ids of this one.
fn boot() -> String {
    let id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let id = id.trim();
    if id.is_empty() {
        "unknown".to_owned()
    } else {
        id.to_owned()
    }
}

#[cfg(test)]
mod tests;
