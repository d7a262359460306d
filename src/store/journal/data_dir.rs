//! The data directory: made durably, claimed by one process, opened in a new epoch each time.

use super::error::JournalError;
use super::private;
use crate::model::ids::unguessable;
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE, replace_file};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How often the lock is tried while nobody but lookers has it …
const MAX_LOCK_TRIES: u32 = 10;
/// … and the time between two tries: about 100 ms in all, of which a look takes a few microseconds.
const LOCK_TRY_INTERVAL: Duration = Duration::from_millis(10);
/// Bytes of a lock's note: a process id and an instance, each on a line.
const MAX_NOTE_BYTES: u64 = 80;

/// A data directory this process may write to, until this is dropped.
pub(super) struct DataDir {
    data: PathBuf,
    /// Where the segments lie.
    pub(super) dir: PathBuf,
    lock: DataLock,
}

/// Keeps what is in the data directory out of the repository that it may stand in: there are keys in it, and
/// what agents sent.
const IGNORE_ALL: &str = "# Made by toolgate: keys and calls are nothing to commit.\n*\n";

/// Where the segments of the data directory `data` lie.
pub(super) fn journal_dir(data: &Path) -> PathBuf {
    data.join("journal")
}

impl DataDir {
    /// Makes `data` and the journal's directory where they don't exist, and takes the lock.
    pub(super) fn claim(data: &Path) -> Result<Self, JournalError> {
        let is_new = !data.exists();
        make_dir(data)
            .map_err(|source| JournalError::io("make the data directory", data, source))?;
        private::check_exposure(data)?;
        let lock = lock(data)?;
        private::narrow(data)?;
        if is_new {
            let ignore = data.join(".gitignore");
            replace(data, &ignore, IGNORE_ALL)
                .map_err(|source| JournalError::io("write", &ignore, source))?;
        }
        let dir = journal_dir(data);
        make_dir(&dir)
            .map_err(|source| JournalError::io("make the journal directory", &dir, source))?;
        Ok(Self {
            data: data.to_owned(),
            dir,
            lock,
        })
    }

    /// What tells this opening of the directory from every other of any directory.
    pub(super) fn instance(&self) -> &str {
        &self.lock.instance
    }

    /// Counts the epoch up, durably. `seen` is the highest the journal itself names, so that the
    /// epoch never goes back when its file is lost.
    pub(super) fn next_epoch(&self, seen: u64) -> Result<u64, JournalError> {
        let path = self.data.join("epoch");
        let kept = match std::fs::read_to_string(&path) {
            Ok(text) => text.trim().parse().unwrap_or_else(|_| {
                tracing::warn!(path = %path.display(), "the epoch is unreadable; it goes on from the journal's");
                0
            }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
            Err(error) => return Err(JournalError::io("read the epoch", &path, error)),
        };
        let next = seen.max(kept).saturating_add(1);
        replace(&self.data, &path, &format!("{next}\n"))
            .map_err(|source| JournalError::io("write the epoch", &path, source))?;
        Ok(next)
    }
}

/// Makes `dir`, for us alone, so that it is either there for good or not at all.
pub(super) fn make_dir(dir: &Path) -> io::Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let parent = match dir.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    std::fs::create_dir_all(parent)?;
    let mut new = dir.as_os_str().to_owned();
    new.push(".new");
    let new = PathBuf::from(new);
    // What a crash left is empty; anything else that stands there is nobody's to take over, a link
    // least of all.
    match std::fs::remove_dir(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    DirBuilder::new()
        .mode(PRIVATE_DIRECTORY_MODE)
        .create(&new)?;
    sync_dir(&new)?;
    match std::fs::rename(&new, dir) {
        // Another process was quicker; the lock decides between us.
        Err(_) if dir.is_dir() => {}
        done => done?,
    }
    sync_dir(parent)
}

/// Makes what was created or renamed in `dir` durable.
pub(super) fn sync_dir(dir: &Path) -> io::Result<()> {
    File::open(dir)?.sync_all()
}

/// Replaces the file at `path`, in `dir`, by one that holds `text`, durably.
pub(in crate::store) fn replace(dir: &Path, path: &Path, text: &str) -> io::Result<()> {
    let beside = path.with_extension("new");
    replace_file(path, &beside, text.as_bytes(), PRIVATE_FILE_MODE)?;
    sync_dir(dir)
}

/// What the process that writes to a data directory has noted in its lock; only a hint.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LockNote {
    /// Its process id, if it could be read.
    pub pid: Option<u32>,
    /// What tells this opening of the directory from every other of any directory: [`super::Journal::instance`]. None
    /// where it could not be read, or that process is of a version before there were any.
    pub instance: Option<String>,
}

impl LockNote {
    /// That of `lock`.
    fn read(lock: &mut File) -> Self {
        let mut text = String::new();
        if lock.take(MAX_NOTE_BYTES).read_to_string(&mut text).is_err() {
            return Self::default();
        }
        let mut lines = text.lines();
        let pid = lines.next().and_then(|pid| pid.trim().parse().ok());
        let instance = lines.next().filter(|instance| !instance.is_empty());
        Self {
            pid,
            instance: instance.map(ToOwned::to_owned),
        }
    }
}

/// Who writes to a data directory now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DataHolder {
    /// A process.
    Process(LockNote),
    /// No process.
    Free,
    /// The lock is another user's to look at.
    Hidden,
}

impl DataHolder {
    /// That of the data directory `data`. Nothing is made, and nobody is kept from the lock for longer than it
    /// takes to look.
    pub fn of(data: &Path) -> Self {
        let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(data.join("lock"));
        let mut file = match opened {
            Ok(file) => file,
            // Nothing that is no directory has a lock.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                return Self::Free;
            }
            Err(_) => return Self::Hidden,
        };
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockShared) {
            Ok(()) => Self::Free,
            Err(_) => Self::Process(LockNote::read(&mut file)),
        }
    }
}

/// The lock of a data directory, until it is dropped.
pub(super) struct DataLock {
    _file: File,
    /// What is noted in it of this process, beside its id.
    instance: String,
}

/// The lock of the data directory `data`, with the note of this process in it. Who only looks ([`DataHolder::of`]) has it,
/// too, for an instant: that is waited for, about 100 ms at most.
///
/// # Errors
/// [`JournalError::Locked`]: another process writes there, or lookers were there all the time.
pub(super) fn lock(data: &Path) -> Result<DataLock, JournalError> {
    let path = data.join("lock");
    let failed = |source: io::Error| JournalError::io("lock", &path, source);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(PRIVATE_FILE_MODE)
        .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed())
        .open(&path)
        .map_err(failed)?;
    match claimed(&file, || std::thread::sleep(LOCK_TRY_INTERVAL)) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            return Err(JournalError::Locked {
                data: data.to_owned(),
                pid: LockNote::read(&mut file).pid.map(|pid| pid.to_string()),
            });
        }
        Err(error) => return Err(failed(error.into())),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .map_err(failed)?;
    let instance = unguessable();
    // In one piece, since others read it at any time.
    let note = format!("{}\n{instance}\n", std::process::id());
    file.write_all(note.as_bytes()).map_err(failed)?;
    Ok(DataLock {
        _file: file,
        instance,
    })
}

/// Takes the lock for writing, after those who only look, for whom it waits.
fn claimed(file: &File, mut wait: impl FnMut()) -> rustix::io::Result<()> {
    use rustix::fs::{FlockOperation, flock};
    for _ in 0..MAX_LOCK_TRIES {
        match flock(file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            done => return done,
        }
        // Beside a process that writes nobody can look, and waiting for it would be in vain.
        flock(file, FlockOperation::NonBlockingLockShared)?;
        flock(file, FlockOperation::Unlock)?;
        wait();
    }
    flock(file, FlockOperation::NonBlockingLockExclusive)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FlockOperation, flock};

    /// Has the lock as `status` and `doctor` have it, until it is dropped.
    fn look(data: &Path) -> File {
        let file = File::open(data.join("lock")).unwrap();
        flock(&file, FlockOperation::NonBlockingLockShared).unwrap();
        file
    }

    /// What taking the lock comes to beside a look that ends while it is waited for the nth time, and how
    /// often it is waited for.
    fn claim_beside_a_look(ends: u32) -> (rustix::io::Result<()>, u32) {
        let temp = tempfile::tempdir().unwrap();
        drop(lock(temp.path()).unwrap());
        let mut looking = Some(look(temp.path()));
        let mut waits = 0;
        let file = File::open(temp.path().join("lock")).unwrap();
        let claimed = claimed(&file, || {
            waits += 1;
            looking = looking.take().filter(|_| waits < ends);
        });
        (claimed, waits)
    }

    /// An operator's look at a directory must not keep a toolgate from starting there.
    #[test]
    fn a_look_is_waited_for() {
        for ends in [1, 3, MAX_LOCK_TRIES] {
            assert_eq!(claim_beside_a_look(ends), (Ok(()), ends));
        }
    }

    #[test]
    fn who_looks_on_and_on_is_not_waited_for_without_end() {
        let blocked = Err(rustix::io::Errno::WOULDBLOCK);
        let never = MAX_LOCK_TRIES + 1;
        assert_eq!(claim_beside_a_look(never), (blocked, MAX_LOCK_TRIES));
        let temp = tempfile::tempdir().unwrap();
        drop(lock(temp.path()).unwrap());
        let looking = look(temp.path());
        let locked = lock(temp.path());
        assert!(matches!(locked, Err(JournalError::Locked { .. })));
        drop(looking);
        assert!(lock(temp.path()).is_ok());
    }

    /// A second toolgate is told at once, and the first goes on having the lock.
    #[test]
    fn who_writes_is_not_waited_for() {
        let temp = tempfile::tempdir().unwrap();
        let first = lock(temp.path()).unwrap();
        let file = File::open(temp.path().join("lock")).unwrap();
        let claimed = claimed(&file, || panic!("it is waited for"));
        assert_eq!(claimed, Err(rustix::io::Errno::WOULDBLOCK));
        let note = LockNote {
            pid: Some(std::process::id()),
            instance: Some(first.instance.clone()),
        };
        assert_eq!(DataHolder::of(temp.path()), DataHolder::Process(note));
        drop(first);
        assert_eq!(DataHolder::of(temp.path()), DataHolder::Free);
        let file = temp.path().join("lock");
        assert_eq!(DataHolder::of(&file), DataHolder::Free, "no directory");
    }

    /// A toolgate of an earlier version notes its process id alone, with and without the end of the line.
    #[test]
    fn a_lock_tells_what_is_in_it() {
        let temp = tempfile::tempdir().unwrap();
        let first = lock(temp.path()).unwrap();
        for (text, pid, instance) in [
            ("17", Some(17), None),
            ("17\n", Some(17), None),
            ("17\n\n", Some(17), None),
            ("17\nab\n", Some(17), Some("ab")),
            ("", None, None),
            ("x\ny", None, Some("y")),
        ] {
            std::fs::write(temp.path().join("lock"), text).unwrap();
            let instance = instance.map(ToOwned::to_owned);
            let note = LockNote { pid, instance };
            assert_eq!(DataHolder::of(temp.path()), DataHolder::Process(note));
        }
        drop(first);
        let again = lock(temp.path()).unwrap();
        let one = again.instance.clone();
        drop(again);
        assert_ne!(lock(temp.path()).unwrap().instance, one);
    }
}
