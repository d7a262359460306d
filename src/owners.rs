//! Who else could change a file: its own rights, and those of every directory and link on the way
//! to it, because a user who may rename a directory chooses what is in it (threat-model §9, §10).
//! And what this process keeps others from reading of itself.
//!
//! Trusted are root and the account that runs this. A directory in which everybody may make files
//! but nobody may touch those of others (the sticky bit, as `/tmp` has it) is no way in: what is
//! next on the way has to be a trusted account's own. On a file system that is mounted read-only
//! rights to write are none: so Kubernetes mounts its volumes of configuration.

use rustix::fs::{StatVfsMountFlags, statvfs};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, geteuid, set_dumpable_behavior, setrlimit, umask,
};
use std::ffi::OsString;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};
use std::sync::OnceLock;

pub(crate) mod private;
pub(crate) mod regular;

/// Links that are followed on one way, as many as the kernel follows.
const MAX_LINKS: usize = 40;
/// The bits of a mode that let others than the owner read.
pub(crate) const OTHERS_READ_BITS: u32 = 0o044;
/// The bits of a mode that let others than the owner write.
const OTHERS_WRITE_BITS: u32 = 0o022;
/// The bit of a directory's mode that keeps what is in it from others than its owner.
const STICKY_BIT: u32 = 0o1000;
/// Who owns what an account owns that a user namespace does not know.
const OVERFLOW_UID: u32 = 65_534;

/// What is on the way to a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PathKind {
    /// The file itself.
    File,
    /// A directory, of which one name is on the way.
    Directory,
    /// A symbolic link.
    Link,
}

/// Why it can be changed by others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ExposureReason {
    /// Its mode lets them.
    Writable(u32),
    /// It belongs to another account than root or ours.
    Foreign(u32),
}

/// Something on the way to a file that others can change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ExposedPath {
    /// What it is called.
    pub(crate) path: PathBuf,
    /// What it is.
    pub(crate) kind: PathKind,
    /// Why.
    pub(crate) why: ExposureReason,
}

impl ExposedPath {
    /// What is wrong, in words.
    pub(crate) fn message(&self) -> String {
        match (self.why, self.kind) {
            (ExposureReason::Writable(_), PathKind::Directory) => {
                "others than its owner may change what is in this directory, and so what the files say".to_owned()
            }
            (ExposureReason::Writable(_), PathKind::File | PathKind::Link) => "others than its owner may write this file".to_owned(),
            (ExposureReason::Foreign(owner), kind) => {
                let what = match kind {
                    PathKind::File => "file",
                    PathKind::Directory => "directory",
                    PathKind::Link => "link",
                };
                let own = geteuid().as_raw();
                format!(
                    "this {what} belongs to another account (uid {owner}), neither to root nor to toolgate's (uid {own})"
                )
            }
        }
    }

    /// What mends it.
    pub(crate) fn hint(&self) -> String {
        let shown = self.path.display();
        match self.why {
            ExposureReason::Writable(mode) => format!("run `chmod {} {shown}`", taken_away(mode)),
            ExposureReason::Foreign(_) => {
                let option = if self.kind == PathKind::Link {
                    "-h "
                } else {
                    ""
                };
                let own = geteuid().as_raw();
                format!(
                    "run `chown {option}{own} {shown}`, or keep it where only root and that account may write"
                )
            }
        }
    }
}

/// What takes the others' right to write away.
fn taken_away(mode: u32) -> &'static str {
    match (mode & 0o020 != 0, mode & 0o002 != 0) {
        (true, true) => "go-w",
        (true, false) => "g-w",
        (false, _) => "o-w",
    }
}

/// Everything on the way to `path`, itself included, that others than root and ourselves can
/// change. What is not there, or cannot be looked at, ends the way without a word: who reads it
/// says so.
pub(crate) fn exposed(path: &Path) -> Vec<ExposedPath> {
    let mut found = Vec::new();
    let Ok(whole) = std::path::absolute(path) else {
        return found;
    };
    let mut left: Vec<OsString> = parts(&whole);
    let mut at = PathBuf::from("/");
    let mut links = 0;
    judge_directory(&at, &mut found);
    while let Some(part) = left.pop() {
        if part == ".." {
            at.pop();
            continue;
        }
        let next = at.join(&part);
        let Ok(known) = std::fs::symlink_metadata(&next) else {
            return found;
        };
        if known.is_symlink() {
            judge_owner(&next, PathKind::Link, &known, &mut found);
            links += 1;
            let Some(target) = std::fs::read_link(&next)
                .ok()
                .filter(|_| links <= MAX_LINKS)
            else {
                return found;
            };
            if target.is_absolute() {
                at = PathBuf::from("/");
            }
            left.extend(parts(&target));
        } else if known.is_dir() {
            at = next;
            judge_directory(&at, &mut found);
        } else {
            // As it was named, where no link leads elsewhere.
            let shown = if links == 0 { path } else { &next };
            judge_owner(shown, PathKind::File, &known, &mut found);
            judge_mode(shown, PathKind::File, &known, &mut found);
        }
    }
    found
}

/// The names of a path, the last one first.
fn parts(path: &Path) -> Vec<OsString> {
    let named = path.components().filter_map(|part| match part {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsString::from("..")),
        Component::RootDir | Component::CurDir | Component::Prefix(_) => None,
    });
    let mut named: Vec<OsString> = named.collect();
    named.reverse();
    named
}

fn judge_directory(path: &Path, found: &mut Vec<ExposedPath>) {
    let Ok(known) = std::fs::symlink_metadata(path) else {
        return;
    };
    if !(known.uid() == OVERFLOW_UID && is_root_unknown()) {
        judge_owner(path, PathKind::Directory, &known, found);
    }
    if known.mode() & STICKY_BIT == 0 {
        judge_mode(path, PathKind::Directory, &known, found);
    }
}

fn judge_owner(path: &Path, kind: PathKind, known: &Metadata, found: &mut Vec<ExposedPath>) {
    let owner = known.uid();
    if owner != 0 && owner != geteuid().as_raw() {
        found.push(ExposedPath {
            path: path.to_owned(),
            kind,
            why: ExposureReason::Foreign(owner),
        });
    }
}

fn judge_mode(path: &Path, kind: PathKind, known: &Metadata, found: &mut Vec<ExposedPath>) {
    if known.mode() & OTHERS_WRITE_BITS != 0 && !is_read_only(path) {
        found.push(ExposedPath {
            path: path.to_owned(),
            kind,
            why: ExposureReason::Writable(known.mode()),
        });
    }
}

fn is_read_only(path: &Path) -> bool {
    statvfs(path).is_ok_and(|mounted| mounted.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Whether this runs in a user namespace that does not know root: then `/` seems to be nobody's.
fn is_root_unknown() -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line
            .split_whitespace()
            .map(|number| number.parse::<u64>().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    });
    let ranges: Vec<(u64, u64, u64)> = ranges.collect();
    let knows = |outside: u64| {
        ranges
            .iter()
            .any(|(_, from, count)| (*from..from + count).contains(&outside))
    };
    let is_given = ranges
        .iter()
        .any(|(inside, _, count)| (*inside..inside + count).contains(&OVERFLOW_UID.into()));
    !ranges.is_empty() && !knows(0) && !is_given
}

/// The umask that this process was started with, once [`keep_private`] has changed it.
static INITIAL_UMASK: OnceLock<u32> = OnceLock::new();

/// From now on what this process makes is for its owner alone, whatever makes it; tool servers are
/// started with the umask that toolgate was started with.
pub(crate) fn keep_private() {
    INITIAL_UMASK.get_or_init(|| umask(rustix::fs::Mode::from_raw_mode(0o077)).as_raw_mode());
}

/// The umask for programs that this one starts; none: ours.
pub(crate) fn umask_of_others() -> Option<u32> {
    INITIAL_UMASK.get().copied()
}

/// Keeps tokens and arguments in this process's memory: no core dump, and no look into it by
/// processes of the same account that are not root's (threat-model §10). Programs that it starts
/// leave no core dumps either.
pub fn seal_memory() {
    // Where the kernel refuses either, nothing else is worse than before.
    let _ = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    let _ = setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    );
}
