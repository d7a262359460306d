//! What calls leave behind in a process that has ended: bytes on the disk for each, as they are once the segment of the
//! journal in which they stand is closed and compressed.

use crate::caller::{self, Until};
use crate::measure::{Measuring, number};
use crate::run::{RestRow, Run};
use crate::scenes::{DURABLE, LISTS, SCENES, Scene};
use crate::stand::Stand;
use crate::toolgate::{Launch, Toolgate, wait};
use anyhow::Context as _;
use std::fs;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// Agents at once, and calls of each: of the process that makes few and of the one that makes many, which fill a
/// segment of 64 MiB and more.
const CALLERS: usize = 64;
const FEW: usize = 20;
const MANY: usize = 1600;
/// Bytes of a segment's header, and after the table of a compressed one.
const HEADER_BYTES: u64 = 96;
const FOOTER_BYTES: u64 = 24;

/// Bytes that a process has left.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Left {
    /// Of all files but the segments of the journal.
    others: u64,
    /// Of closed segments.
    closed: u64,
    /// Of these as they were written.
    written: u64,
    /// Of the newest segment, which is as it was written.
    newest: u64,
}

impl Measuring<'_> {
    /// Bytes that a read and a call with a side effect leave. A process gives back what it has
    /// reserved when it ends, so two end: what the second left more is of its calls.
    ///
    /// # Errors
    ///
    /// A process does not start or end, or a call fails.
    pub(crate) fn at_rest(&self, stand: &Stand, run: &mut Run) -> anyhow::Result<()> {
        for scene in [&SCENES[0], &DURABLE] {
            eprintln!("{}, at rest", scene.name);
            let few = self.left_by(stand, scene, FEW)?;
            let many = self.left_by(stand, scene, MANY)?;
            let calls = CALLERS * (MANY - FEW);
            run.rest.push(RestRow {
                scene: scene.name.to_owned(),
                calls,
                bytes: settled(many, few) / number(u64::try_from(calls)?),
            });
        }
        Ok(())
    }

    fn left_by(&self, stand: &Stand, scene: &'static Scene, calls: usize) -> anyhow::Result<Left> {
        let directory = stand
            .directory
            .join(format!("rest-{calls}-{}", scene.tool.unwrap_or_default()));
        let process = Toolgate::start(&Launch {
            program: &self.asked.program()?,
            directory: directory.clone(),
            server: &stand.server,
            tools: &LISTS[..1],
            workers: None,
            under: &[],
        })?;
        process.ready()?;
        let way = stand.way("rest", process.agents.clone(), Vec::new());
        let loaded = caller::load(&way, scene, CALLERS, Until::Calls(calls));
        self.runtime.block_on(loaded).context(scene.name)?;
        let data = directory.join("data");
        wait("the compression of closed segments", || {
            left(&data).is_ok_and(|(_, compressed)| compressed)
        })?;
        process.end()?;
        Ok(left(&data)?.0)
    }
}

/// Bytes that one process has left more than the other, with the newest segment as long as it will be once it is
/// compressed like those before it.
fn settled(many: Left, few: Left) -> f64 {
    let ratio = if many.written > 0 {
        number(many.closed) / number(many.written)
    } else {
        1.0
    };
    let bytes = |left: Left| number(left.others + left.closed) + number(left.newest) * ratio;
    (bytes(many) - bytes(few)).max(0.0)
}

/// What is left in the data directory, and whether all closed segments are compressed.
fn left(data: &Path) -> anyhow::Result<(Left, bool)> {
    let mut segments = Vec::new();
    for entry in fs::read_dir(data.join("journal"))? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "journal") {
            segments.push(path);
        }
    }
    segments.sort();
    let newest = segments.pop().context("there is no segment")?;
    let (mut left, mut compressed) = (Left::default(), true);
    left.newest = fs::metadata(newest)?.len();
    for path in segments {
        let (bytes, written) = sizes(&path)?;
        left.closed += bytes;
        left.written += written.unwrap_or(bytes);
        compressed &= written.is_some();
    }
    left.others = size(data)?.saturating_sub(left.newest + left.closed);
    Ok((left, compressed))
}

/// Bytes of the segment at `path`, and as it was written, where it is compressed.
fn sizes(path: &Path) -> anyhow::Result<(u64, Option<u64>)> {
    let file = fs::File::open(path)?;
    let bytes = file.metadata()?.len();
    let (mut version, mut content) = ([0; 4], [0; 8]);
    file.read_exact_at(&mut version, 8)?;
    if u32::from_le_bytes(version) != 2 {
        return Ok((bytes, None));
    }
    file.read_exact_at(&mut content, bytes.saturating_sub(FOOTER_BYTES))?;
    Ok((bytes, Some(HEADER_BYTES + u64::from_le_bytes(content))))
}

/// Bytes of the files below `path`.
fn size(path: &Path) -> anyhow::Result<u64> {
    let about = fs::symlink_metadata(path).with_context(|| path.display().to_string())?;
    if !about.is_dir() {
        return Ok(about.len());
    }
    let mut bytes = 0;
    for entry in fs::read_dir(path)? {
        bytes += size(&entry?.path())?;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::{Left, left, settled, size};

    #[test]
    fn sizes_are_of_all_files_below() {
        let directory = std::env::temp_dir().join(format!("rest-{}", std::process::id()));
        std::fs::create_dir_all(directory.join("a/b")).unwrap();
        std::fs::write(directory.join("one"), [7; 100]).unwrap();
        std::fs::write(directory.join("a/b/two"), [7; 23]).unwrap();
        assert_eq!(size(&directory).unwrap(), 123);
        std::fs::remove_dir_all(&directory).unwrap();
        assert!(size(&directory).is_err());
    }

    #[test]
    fn the_newest_segment_counts_as_it_will_be() {
        let directory = std::env::temp_dir().join(format!("left-{}", std::process::id()));
        let journal = directory.join("journal");
        std::fs::create_dir_all(&journal).unwrap();
        let mut segment = vec![0; 96 + 100];
        segment[8] = 1;
        std::fs::write(journal.join("2.journal"), &segment).unwrap();
        std::fs::write(journal.join("1.journal"), &segment).unwrap();
        std::fs::write(directory.join("epoch"), "1\n").unwrap();
        assert!(
            !left(&directory).unwrap().1,
            "the first is as it was written"
        );
        segment[8] = 2;
        let (content, rest) = (896_u64.to_le_bytes(), [0; 16]);
        segment.splice(172.., content.into_iter().chain(rest));
        std::fs::write(journal.join("1.journal"), &segment).unwrap();
        let (many, compressed) = left(&directory).unwrap();
        let expected = Left {
            others: 2,
            closed: 196,
            written: 992,
            newest: 196,
        };
        assert_eq!((many, compressed), (expected, true));
        let few = Left {
            others: 2,
            newest: 96,
            ..Left::default()
        };
        let bytes = settled(many, few);
        assert!(
            (bytes - (196.0 + 100.0 * 196.0 / 992.0)).abs() < 1e-6,
            "{bytes}"
        );
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
