//! Judges the drafts before they are written, in a directory of their own: a file that is not good
//! loses what is wrong with it, and the other files stay as they are.

use super::drafted::DraftedTool;
use super::written::{DraftedFile, ServerDraft, paths};
use crate::cli::{files, test};
use crate::mcp::pretty::plain;
use crate::model::ids::unguessable;
use crate::owners::private::{PRIVATE_DIRECTORY_MODE, PRIVATE_FILE_MODE};
use anyhow::Context as _;
use std::fs;
use std::path::{Path, PathBuf};

const UNWRITTEN_NOTE: &str = "what was drafted was not good, which is a defect of toolgate";

/// Where drafts are tried. What had to be made for that goes with it, unless something was written
/// there.
pub(super) struct DraftTrials {
    place: PathBuf,
    /// Directories that were not there, the deepest first.
    made: Vec<PathBuf>,
}

impl DraftTrials {
    /// In `place`, where the drafts will be.
    pub(super) fn begin(place: &Path) -> anyhow::Result<Self> {
        let is_missing =
            |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
        let made = place
            .ancestors()
            .take_while(is_missing)
            .map(Path::to_path_buf);
        let trials = Self {
            made: made.collect(),
            place: place.join(format!(".toolgate-suggest-{}", unguessable())),
        };
        make(&trials.place)?;
        Ok(trials)
    }

    /// The draft of `file`, mended if it has to be; none where nothing helps. What became of its
    /// tools is noted.
    pub(super) fn mended(
        &self,
        file: &mut DraftedFile<'_>,
        notes: &mut Vec<String>,
    ) -> anyhow::Result<Option<ServerDraft>> {
        let draft = file.draft();
        if self.is_good(&draft)? {
            return Ok(Some(draft));
        }
        let mut tools = Vec::new();
        for mut tool in std::mem::take(&mut file.tools) {
            // Each alone tells which of them it is.
            let is_good =
                |tool: &DraftedTool<'_>| self.is_good(&file.draft_of(std::slice::from_ref(tool)));
            if !is_good(&tool)? {
                tool.strip();
                if !is_good(&tool)? {
                    notes.push(format!(
                        "{} has no draft: {UNWRITTEN_NOTE}",
                        plain(tool.name)
                    ));
                    continue;
                }
            }
            tools.push(tool);
        }
        file.tools = tools;
        let draft = file.draft();
        if file.tools.is_empty() || !self.is_good(&draft)? {
            notes.push(format!("{}.yaml is not there: {UNWRITTEN_NOTE}", file.name));
            return Ok(None);
        }
        Ok(Some(draft))
    }

    /// Whether the policies and the pack are as they say; of a draft without a pack, whether a
    /// pack could read its policies.
    fn is_good(&self, draft: &ServerDraft) -> anyhow::Result<bool> {
        let at = self.place.join(unguessable());
        let [contracts, pack] = paths(&draft.name);
        let unpacked = draft.unpacked();
        let judged = draft.pack.as_ref().unwrap_or(&unpacked);
        let texts = [
            (contracts, draft.contracts.as_str()),
            (pack.clone(), judged),
        ];
        write(&at, &texts)?;
        test::is_as_expected(&[at.join(pack)])
    }
}

impl Drop for DraftTrials {
    fn drop(&mut self) {
        drop(fs::remove_dir_all(&self.place));
        // It goes only where nothing was written to it.
        for made in &self.made {
            drop(fs::remove_dir(made));
        }
    }
}

/// Writes texts below `place`, for their owner only.
pub(super) fn write(place: &Path, texts: &[(PathBuf, &str)]) -> anyhow::Result<()> {
    for (name, text) in texts {
        let path = place.join(name);
        make(path.parent().unwrap_or(place))?;
        files::replace(&path, text.as_bytes(), PRIVATE_FILE_MODE)?;
    }
    Ok(())
}

fn make(directory: &Path) -> anyhow::Result<()> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut making = fs::DirBuilder::new();
    let made = making
        .recursive(true)
        .mode(PRIVATE_DIRECTORY_MODE)
        .create(directory);
    made.with_context(|| format!("{} cannot be made", directory.display()))
}
