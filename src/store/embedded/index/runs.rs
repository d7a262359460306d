//! An index that is made anew, on its way: rows gather in memory, go into sorted runs on the disk,
//! and come out of them once, in order of their names. sled gets each page's rows together, and each
//! page once; in the order of the calls, whose keys are hashes, nearly every row would have sled read
//! and write a page of its own.
//!
//! A run is a file without a name: what a crash leaves of it is nothing.

use super::IndexProgress;
use super::merge_ahead::MergeAhead;
use super::names::{
    GRANT_PREFIX, HOLD_PREFIX, KEY_BYTES, SESSION_PREFIX, TASK_PREFIX, UNDO_PREFIX, named_by,
};
use super::rows::{IndexRow, IndexRows};
use crate::model::digest::Digest;
use crate::owners::private::fresh;
use crate::store::embedded::key_filter::KeyFilter;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

/// Bytes of rows in memory before they become a run.
const RUN_BYTES: usize = 32 << 20;
/// Bytes of rows that are read at once.
const BLOCK_BYTES: usize = 16 << 10;
/// Bytes that a row takes in memory beside its name and value, about.
const ROW_OVERHEAD_BYTES: usize = 96;
/// The length that stands for a name whose value goes.
const REMOVED_LENGTH: u32 = u32::MAX;

/// The rows so far.
pub(super) struct IndexRuns {
    /// Where runs are made.
    dir: PathBuf,
    pending: IndexRows,
    /// Bytes of what is pending.
    bytes: usize,
    /// Bytes that may be.
    most: usize,
    /// The newest last.
    runs: Vec<SortedRun>,
    /// Tasks, sessions, held calls, grants and undos that there are: others are not looked for.
    seen: KeyFilter,
    merge: Option<MergeAhead>,
    /// Rows in all runs, those too in whose place newer ones come.
    pub(super) written: u64,
    /// Rows that came out.
    pub(super) taken: u64,
    /// How far the rows go.
    pub(super) progress: Option<IndexProgress>,
}

impl IndexRuns {
    /// None yet; runs are made in `dir`.
    pub(super) fn new(dir: &Path) -> Self {
        let mut seen = KeyFilter::new();
        seen.learn(&[], true);
        Self {
            dir: dir.to_owned(),
            pending: IndexRows::default(),
            bytes: 0,
            most: RUN_BYTES,
            runs: Vec::new(),
            seen,
            merge: None,
            written: 0,
            taken: 0,
            progress: None,
        }
    }

    /// By so many bytes at a time.
    #[cfg(test)]
    pub(super) fn by(self, most: usize) -> Self {
        Self { most, ..self }
    }

    /// Adds `rows`, which are newer than all before and go as far as `progress` says.
    pub(super) fn add(&mut self, rows: IndexRows, progress: IndexProgress) -> io::Result<()> {
        for (name, value) in rows {
            if let Some(key) = filtered(&name) {
                self.seen.add(&key);
            }
            let value_bytes = value.as_ref().map_or(0, Vec::len);
            self.bytes += name.len() + value_bytes + ROW_OVERHEAD_BYTES;
            self.pending.put(name, value);
        }
        self.progress = Some(progress);
        if self.bytes >= self.most {
            self.spill()?;
        }
        Ok(())
    }

    /// What `name` stands for.
    pub(super) fn get(&self, name: &[u8]) -> io::Result<Option<Vec<u8>>> {
        if filtered(name).is_some_and(|key| !self.seen.may_hold(&key)) {
            return Ok(None);
        }
        if let Some((_, value)) = self.pending.find(name) {
            return Ok(value);
        }
        for run in self.runs.iter().rev() {
            if let Some((_, value)) = run.find(name)? {
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// The next rows, in order of their names; fewer than `most` when these were the last, which is as
    /// many each time as the first time.
    pub(super) fn next_rows(&mut self, most: usize) -> io::Result<Vec<IndexRow>> {
        let merge = if let Some(merge) = self.merge.take() {
            merge
        } else {
            self.spill()?;
            let mut merge = RunMerge::new(std::mem::take(&mut self.runs))?;
            let rows = std::iter::from_fn(move || merge.next_row().transpose());
            MergeAhead::begin(rows, most)?
        };
        let rows = self.merge.insert(merge).next_rows()?;
        self.taken += rows.len() as u64;
        Ok(rows)
    }

    /// Whether rows come out already.
    pub(super) fn is_merging(&self) -> bool {
        self.merge.is_some()
    }

    fn spill(&mut self) -> io::Result<()> {
        let rows = std::mem::take(&mut self.pending);
        self.bytes = 0;
        self.written += rows.count();
        self.runs.push(SortedRun::write(&self.dir, rows)?);
        Ok(())
    }
}

/// The key in `name`, where only those are looked for that there may be. Which claims there are the
/// index knows itself.
fn filtered(name: &[u8]) -> Option<Digest> {
    let kinds = [
        TASK_PREFIX,
        SESSION_PREFIX,
        HOLD_PREFIX,
        GRANT_PREFIX,
        UNDO_PREFIX,
    ];
    let is_one = name.len() == 1 + KEY_BYTES && kinds.contains(name.first()?);
    named_by(name).filter(|_| is_one)
}

/// Rows in a file, in order.
struct SortedRun {
    file: File,
    /// Where each block begins, and with which name.
    blocks: Vec<(Vec<u8>, u64)>,
    /// Bytes.
    length: u64,
}

impl SortedRun {
    fn write(dir: &Path, rows: IndexRows) -> io::Result<Self> {
        let path = dir.join("run.new");
        let file = fresh(&path)?;
        std::fs::remove_file(&path)?;
        let (mut length, mut blocks, mut block) = (0, Vec::new(), Vec::new());
        let mut out = BufWriter::with_capacity(16 * BLOCK_BYTES, &file);
        for (name, value) in rows {
            if block.is_empty() {
                blocks.push((name.clone(), length));
            }
            encode(&mut block, &name, value.as_deref())?;
            if block.len() >= BLOCK_BYTES {
                out.write_all(&block)?;
                length += block.len() as u64;
                block.clear();
            }
        }
        out.write_all(&block)?;
        length += block.len() as u64;
        out.flush()?;
        drop(out);
        Ok(Self {
            file,
            blocks,
            length,
        })
    }

    /// The row of that name.
    fn find(&self, name: &[u8]) -> io::Result<Option<IndexRow>> {
        let after = self.blocks.partition_point(|(first, _)| &**first <= name);
        let Some(block) = after.checked_sub(1) else {
            return Ok(None);
        };
        let rows = self.block(block)?;
        Ok(rows.into_iter().find(|(found, _)| found == name))
    }

    /// The rows of block number `block`; none when there is no such block.
    fn block(&self, block: usize) -> io::Result<Vec<IndexRow>> {
        let Some((_, begins)) = self.blocks.get(block) else {
            return Ok(Vec::new());
        };
        let next = self.blocks.get(block + 1);
        let ends = next.map_or(self.length, |(_, begins)| *begins);
        let length = usize::try_from(ends - begins).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        self.file.read_exact_at(&mut bytes, *begins)?;
        decode(&bytes)
    }
}

/// Appends a row to `block`: the lengths of its name and value, then both.
fn encode(block: &mut Vec<u8>, name: &[u8], value: Option<&[u8]>) -> io::Result<()> {
    let name_length = u16::try_from(name.len()).map_err(io::Error::other)?;
    let value_length = match value {
        Some(value) => u32::try_from(value.len()).map_err(io::Error::other)?,
        None => REMOVED_LENGTH,
    };
    block.extend_from_slice(&name_length.to_le_bytes());
    block.extend_from_slice(&value_length.to_le_bytes());
    block.extend_from_slice(name);
    block.extend_from_slice(value.unwrap_or_default());
    Ok(())
}

/// The rows in `bytes`.
fn decode(bytes: &[u8]) -> io::Result<Vec<IndexRow>> {
    let (mut rest, mut rows) = (bytes, Vec::new());
    while !rest.is_empty() {
        let row = take_row(&mut rest);
        rows.push(row.ok_or_else(|| io::Error::other("a run is not as it was written"))?);
    }
    Ok(rows)
}

fn take_row(rest: &mut &[u8]) -> Option<IndexRow> {
    let name_length = u16::from_le_bytes(*rest.split_off(..2)?.first_chunk()?);
    let value_length = u32::from_le_bytes(*rest.split_off(..4)?.first_chunk()?);
    let name = rest.split_off(..usize::from(name_length))?.to_vec();
    if value_length == REMOVED_LENGTH {
        return Some((name, None));
    }
    let value = rest.split_off(..usize::try_from(value_length).ok()?)?;
    Some((name, Some(value.to_vec())))
}

/// Several runs as one: of a name that stands in several, the newest row counts.
struct RunMerge {
    /// The newest first.
    cursors: Vec<RunCursor>,
    /// The next row of each run that has one, by its name and the number of its cursor.
    fronts: BTreeMap<(Vec<u8>, usize), Option<Vec<u8>>>,
}

/// A way through a run.
struct RunCursor {
    run: SortedRun,
    /// The block after the one whose `rows` come next.
    block: usize,
    rows: std::vec::IntoIter<IndexRow>,
}

impl RunCursor {
    fn next_row(&mut self) -> io::Result<Option<IndexRow>> {
        if self.rows.as_slice().is_empty() {
            self.rows = self.run.block(self.block)?.into_iter();
            self.block += 1;
        }
        Ok(self.rows.next())
    }
}

impl RunMerge {
    /// Of `runs`, the newest of which is the last.
    fn new(runs: Vec<SortedRun>) -> io::Result<Self> {
        let cursors = runs.into_iter().rev().map(|run| RunCursor {
            run,
            block: 0,
            rows: Vec::new().into_iter(),
        });
        let mut merge = Self {
            cursors: cursors.collect(),
            fronts: BTreeMap::new(),
        };
        for cursor in 0..merge.cursors.len() {
            merge.go_on(cursor)?;
        }
        Ok(merge)
    }

    /// Puts the next row of that cursor among the others'.
    fn go_on(&mut self, cursor: usize) -> io::Result<()> {
        if let Some((name, value)) = self.cursors[cursor].next_row()? {
            self.fronts.insert((name, cursor), value);
        }
        Ok(())
    }

    fn next_row(&mut self) -> io::Result<Option<IndexRow>> {
        let Some(((name, cursor), value)) = self.fronts.pop_first() else {
            return Ok(None);
        };
        self.go_on(cursor)?;
        while let Some(front) = self.fronts.first_entry()
            && front.key().0 == name
        {
            let older = front.key().1;
            front.remove();
            self.go_on(older)?;
        }
        Ok(Some((name, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sixteen names of claims and sixteen of tasks.
    fn name(n: u64) -> Vec<u8> {
        let kind = if n.is_multiple_of(2) {
            b'c'
        } else {
            TASK_PREFIX
        };
        let key = Digest::of(&(n % 32).to_le_bytes());
        [&[kind][..], key.as_bytes()].concat()
    }

    fn progress(seq: u64) -> IndexProgress {
        IndexProgress {
            seq,
            ..IndexProgress::default()
        }
    }

    // Whatever the runs, what counts is what was said last of a name, while they gather and when they
    // come out, in order.
    #[test]
    fn runs_say_what_was_said_last() {
        for most in [1, 3_000, usize::MAX] {
            let temp = tempfile::tempdir().unwrap();
            let mut runs = IndexRuns::new(temp.path()).by(most);
            let mut model = BTreeMap::new();
            for round in 0..400_u64 {
                let mut rows = IndexRows::default();
                for n in [round * 7, round * 11, round * 13] {
                    let value = (n + round) % 5;
                    let length = usize::try_from(value * 100).unwrap();
                    let value =
                        (value > 0).then(|| vec![u8::try_from(round % 251).unwrap(); length]);
                    match &value {
                        Some(value) => rows.insert(name(n), value.clone()),
                        None => rows.remove(name(n)),
                    }
                    model.insert(name(n), value);
                }
                runs.add(rows, progress(round)).unwrap();
                let asked = name(round * 17 % 40);
                let expected = model.get(&asked).cloned().flatten();
                assert_eq!(runs.get(&asked).unwrap(), expected, "{most} {round}");
            }
            assert_eq!(runs.progress, Some(progress(399)));
            assert!(!runs.is_merging());
            let mut merged = Vec::new();
            loop {
                let rows = runs.next_rows(5).unwrap();
                let is_last = rows.len() < 5;
                merged.extend(rows);
                if is_last {
                    break;
                }
            }
            assert!(runs.is_merging());
            assert_eq!(merged, model.into_iter().collect::<Vec<_>>());
            let left = std::fs::read_dir(temp.path()).unwrap().count();
            assert_eq!(left, 0, "no file has a name");
        }
    }

    #[test]
    fn without_rows_nothing_comes_out() {
        let temp = tempfile::tempdir().unwrap();
        let mut runs = IndexRuns::new(temp.path());
        assert_eq!(runs.get(&name(1)).unwrap(), None);
        assert!(runs.next_rows(9).unwrap().is_empty());
        assert_eq!(runs.progress, None);
    }

    #[test]
    fn a_run_that_was_changed_is_an_error() {
        let mut block = Vec::new();
        encode(&mut block, b"name", Some(b"value")).unwrap();
        encode(&mut block, b"gone", None).unwrap();
        let rows = decode(&block).unwrap();
        let value = |name: &[u8], value: Option<&[u8]>| (name.to_vec(), value.map(<[u8]>::to_vec));
        assert_eq!(rows, [value(b"name", Some(b"value")), value(b"gone", None)]);
        for length in [1, 5, 8, 14, block.len() - 1] {
            assert!(decode(&block[..length]).is_err(), "{length}");
        }
    }
}
