//! The processes below a process, as /proc tells: which live, which descend from which, and ending
//! them.
//!
//! A process group is not enough: a tool server may put its own children into new groups and
//! sessions. The guard of a tool server adopts every orphan below it, so that while the guard lives
//! its descendants are the whole tree.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use std::collections::HashMap;

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Life {
    /// Its id.
    pub pid: Pid,
    /// The id of its parent; 0 for the first process and for parents outside the container.
    pub parent: i32,
    /// Its process group.
    pub group: i32,
    /// When it started, in clock ticks since the machine did. With the id this names a process for
    /// good.
    pub started: u64,
    /// Whether it has ended and only waits to be reaped.
    pub over: bool,
}

/// The process `pid`, if there is one.
pub(crate) fn look(pid: Pid) -> Option<Life> {
    read(
        pid,
        &std::fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?,
    )
}

/// This process.
pub(crate) fn own() -> Option<Life> {
    look(rustix::process::getpid())
}

/// Everything below `root` that has not ended, without `root`.
pub(crate) fn descendants(root: Pid) -> Vec<Life> {
    let mut below: HashMap<i32, Vec<Life>> = HashMap::new();
    for life in all() {
        below.entry(life.parent).or_default().push(life);
    }
    let mut found: Vec<Life> = Vec::new();
    let mut next = below.remove(&root.as_raw_nonzero().get());
    let mut at = 0;
    while let Some(children) = next.take() {
        found.extend(children);
        while next.is_none() && at < found.len() {
            next = below.remove(&found[at].pid.as_raw_nonzero().get());
            at += 1;
        }
    }
    found.retain(|life| !life.over);
    found
}

/// Kills everything below `root` once. Returns how many there were: a process may start another one
/// meanwhile, so the caller repeats this until it returns 0.
pub(crate) fn kill_descendants(root: Pid) -> usize {
    let found = descendants(root);
    for life in &found {
        let _ = kill_process(life.pid, Signal::KILL);
    }
    found.len()
}

/// Sends `signal` to the group that `leader` leads. A group that is gone is fine.
pub(crate) fn signal_group(leader: Pid, signal: Signal) {
    let _ = kill_process_group(leader, signal);
}

fn all() -> impl Iterator<Item = Life> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten();
    entries.filter_map(|entry| {
        look(Pid::from_raw(
            entry.ok()?.file_name().to_str()?.parse().ok()?,
        )?)
    })
}

/// Reads `/proc/PID/stat` (`man 5 proc_pid_stat`). The second field is the program's name and may
/// hold anything, so reading starts behind its last closing bracket.
fn read(pid: Pid, stat: &str) -> Option<Life> {
    let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
    Some(Life {
        pid,
        over: matches!(*fields.first()?, "Z" | "X"),
        parent: fields.get(1)?.parse().ok()?,
        group: fields.get(2)?.parse().ok()?,
        started: fields.get(19)?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_does_not_shift_the_fields() {
        let stat = "7 (a) S 1 (b) Z 3 7 7 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 4242 1 1";
        let pid = Pid::from_raw(7).unwrap();
        assert_eq!(
            read(pid, stat),
            Some(Life {
                pid,
                parent: 3,
                group: 7,
                started: 4242,
                over: true
            })
        );
    }

    #[test]
    fn a_child_is_found_below_this_process_and_can_be_ended() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        assert!(
            descendants(rustix::process::getpid())
                .iter()
                .any(|life| life.pid == pid)
        );
        assert_eq!(
            look(pid).unwrap().parent,
            own().unwrap().pid.as_raw_nonzero().get()
        );
        kill_process(pid, Signal::KILL).unwrap();
        child.wait().unwrap();
        assert_eq!(look(pid), None);
    }
}
