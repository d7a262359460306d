//! What calls leave behind in a process that has ended: bytes on the disk for each.

use crate::caller::{self, Until};
use crate::measure::{Measuring, number};
use crate::run::{RestRow, Run};
use crate::scenes::{DURABLE, LISTS, SCENES, Scene};
use crate::stand::Stand;
use crate::toolgate::{Launch, Toolgate};
use anyhow::Context as _;
use std::fs;
use std::path::Path;

/// Agents at once, and calls of each: of the process that makes few and of the one that makes many.
const CALLERS: usize = 64;
const FEW: usize = 20;
const MANY: usize = 320;

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
                bytes: number(many.saturating_sub(few)) / number(u64::try_from(calls)?),
            });
        }
        Ok(())
    }

    fn left_by(&self, stand: &Stand, scene: &'static Scene, calls: usize) -> anyhow::Result<u64> {
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
        process.end()?;
        size(&directory.join("data"))
    }
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
    use super::size;

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
}
