//! Where a drill keeps its own ledger: beside the data directory of the configuration, never in it. The
//! directory goes when nothing is left behind; else it stays, and the next drill names it first.

use crate::cli::files;
use crate::owners::private::PRIVATE_FILE_MODE;
use anyhow::{Context as _, bail};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// What follows the name of the data directory, and holds the drills on its configuration.
const SUFFIX: &str = "-drills";
/// What the directory of one drill is called; only one runs at a time.
const DRILL: &str = "drill";
/// What has been done in it, step by step.
const STEPS: &str = "steps";
/// Bytes of that file that are read: far more than the steps of all contracts take.
const MAX_STEPS_BYTES: u64 = 4 << 20;

/// How far a drill of a tool is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum DrillStep {
    /// Its call is about to be made.
    Calling,
    /// It was made.
    Called,
    /// The call that takes it back is about to be made.
    Undoing,
    /// Nothing is left of it.
    Ended,
    /// Something is left of it, or may be.
    Left,
}

/// A step, as it is noted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct StepNote {
    /// The contract whose rollback is drilled.
    pub(super) contract: String,
    /// How far it is.
    pub(super) step: DrillStep,
    /// The call, once it has an id.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) action: Option<String>,
}

/// The drills on one configuration: this process's alone, as long as this lives.
pub(super) struct DrillPlace {
    directory: PathBuf,
    _alone: File,
}

/// What is noted of one drill.
pub(super) struct DrillNotes(File);

impl DrillStep {
    /// What that says of its effect.
    fn words(self) -> &'static str {
        match self {
            Self::Calling => "was being called: it may have run",
            Self::Called => "had run: nothing has taken it back",
            Self::Undoing => "was being taken back: that may have run",
            Self::Ended => "nothing is left of it",
            Self::Left => "an effect is left, or may be",
        }
    }
}

impl DrillPlace {
    /// The place for the configuration whose data directory is `data`.
    ///
    /// # Errors
    /// Another drill runs there, or it cannot be made.
    pub(super) fn open(data: &Path) -> anyhow::Result<Self> {
        let data = std::path::absolute(data).context("the data directory cannot be named")?;
        // Without a slash at the end, behind which the name would be one in that directory.
        let data: PathBuf = data.components().collect();
        let mut name = OsString::from(data);
        name.push(SUFFIX);
        let above = PathBuf::from(name);
        files::private_directory(&above)?;
        let alone =
            File::open(&above).with_context(|| format!("{} cannot be opened", above.display()))?;
        if alone.try_lock().is_err() {
            bail!(
                "another drill runs in {}; wait until it has ended",
                above.display()
            );
        }
        Ok(Self {
            directory: above.join(DRILL),
            _alone: alone,
        })
    }

    /// The drill's directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The drill's own data directory.
    pub(super) fn data_directory(&self) -> PathBuf {
        self.directory.join("data")
    }

    /// What an earlier drill has left, or may have; one that has left nothing is cleared away.
    ///
    /// # Errors
    /// What is there cannot be read, so that nobody knows.
    pub(super) fn left(&self) -> anyhow::Result<Vec<StepNote>> {
        if !self.directory.exists() {
            return Ok(Vec::new());
        }
        let steps = self.directory.join(STEPS);
        let left = if steps.exists() {
            let cannot = || format!("{} cannot be read", steps.display());
            let bytes = files::read(&steps, MAX_STEPS_BYTES).with_context(cannot)?;
            last_steps(&String::from_utf8(bytes).with_context(cannot)?).with_context(cannot)?
        } else {
            // Nothing is called before there are notes.
            Vec::new()
        };
        if left.is_empty() {
            self.clear()?;
        }
        Ok(left)
    }

    /// Begins a drill: nothing of an earlier one is there.
    pub(super) fn begin(&self) -> anyhow::Result<DrillNotes> {
        files::private_directory(&self.directory)?;
        let steps = self.directory.join(STEPS);
        let file = OpenOptions::new()
            .create_new(true)
            .append(true)
            .mode(PRIVATE_FILE_MODE)
            .open(&steps)
            .with_context(|| format!("{} cannot be made", steps.display()))?;
        // The notes are found after a crash only if their directory is.
        for directory in [self.directory.as_path(), parent(&self.directory)] {
            let synced = File::open(directory).and_then(|directory| directory.sync_all());
            synced.with_context(|| format!("{} cannot be written", directory.display()))?;
        }
        Ok(DrillNotes(file))
    }

    /// Removes the directory of the drill: nothing is left of it.
    pub(super) fn clear(&self) -> anyhow::Result<()> {
        fs::remove_dir_all(&self.directory)
            .with_context(|| format!("{} cannot be removed", self.directory.display()))
    }
}

impl DrillNotes {
    /// Notes a step, durably: what is about to be sent is known before it is.
    pub(super) fn note(&mut self, step: &StepNote) -> anyhow::Result<()> {
        let line = serde_json::to_string(step)? + "\n";
        self.0
            .write_all(line.as_bytes())
            .and_then(|()| self.0.sync_data())
            .context("the step of a drill cannot be noted")
    }
}

impl StepNote {
    /// What its operator has to look at.
    pub(super) fn words(&self) -> String {
        let action = self.action.as_deref();
        let action = action.map_or_else(String::new, |action| format!(" ({action})"));
        format!("{}{action}: {}", self.contract, self.step.words())
    }
}

fn parent(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("/"))
}

/// The last step of each contract of which something is left, or may be. A last line that was cut by a
/// crash says nothing that the one before it does not: a step is noted before it is taken.
fn last_steps(text: &str) -> anyhow::Result<Vec<StepNote>> {
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut last: BTreeMap<String, StepNote> = BTreeMap::new();
    for line in whole.lines() {
        let mut note: StepNote = serde_json::from_str(line)?;
        if note.action.is_none() {
            let before = last.get(&note.contract);
            let before = before.filter(|before| before.step != DrillStep::Ended);
            note.action = before.and_then(|before| before.action.clone());
        }
        let is_left = last
            .get(&note.contract)
            .is_some_and(|before| before.step == DrillStep::Left);
        // A later drill of the same contract takes nothing of an earlier one back.
        if !is_left {
            last.insert(note.contract.clone(), note);
        }
    }
    last.retain(|_, note| note.step != DrillStep::Ended);
    Ok(last.into_values().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(contract: &str, step: DrillStep, action: Option<&str>) -> StepNote {
        StepNote {
            contract: contract.to_owned(),
            step,
            action: action.map(str::to_owned),
        }
    }

    /// What an earlier drill may have left is known by its last step; and nothing but that keeps its
    /// directory.
    #[test]
    fn a_drill_that_was_killed_says_what_it_may_have_left() {
        use DrillStep::{Called, Calling, Ended, Left, Undoing};
        let held = tempfile::tempdir().unwrap();
        for (steps, left) in [
            (vec![], vec![]),
            (
                vec![("a", Calling)],
                vec!["a: was being called: it may have run"],
            ),
            (
                vec![("a", Calling), ("a", Called)],
                vec!["a (one): had run: nothing has taken it back"],
            ),
            (
                vec![("a", Calling), ("a", Called), ("a", Undoing)],
                vec!["a (one): was being taken back: that may have run"],
            ),
            (
                vec![
                    ("a", Calling),
                    ("a", Called),
                    ("a", Undoing),
                    ("a", Ended),
                    ("b", Calling),
                ],
                vec!["b: was being called: it may have run"],
            ),
            (vec![("a", Calling), ("a", Ended)], vec![]),
            (
                vec![("a", Left), ("a", Calling), ("a", Ended)],
                vec!["a: an effect is left, or may be"],
            ),
        ] {
            let place = DrillPlace::open(&held.path().join("data")).unwrap();
            let mut notes = place.begin().unwrap();
            for (contract, done) in &steps {
                let action = (*done == Called).then_some("one");
                notes.note(&step(contract, *done, action)).unwrap();
            }
            // Cut in the middle of the next.
            notes.0.write_all(b"{\"contract\":\"c").unwrap();
            let found: Vec<String> = place.left().unwrap().iter().map(StepNote::words).collect();
            assert_eq!(found, left, "{steps:?}");
            assert_eq!(place.directory().exists(), !left.is_empty());
            if place.directory().exists() {
                place.clear().unwrap();
            }
        }
    }

    /// What cannot be read is no proof that nothing is left; and two drills at once would see each
    /// other's effects.
    #[test]
    fn nothing_begins_where_nobody_knows() {
        let held = tempfile::tempdir().unwrap();
        let data = held.path().join("data");
        let place = DrillPlace::open(&data).unwrap();
        assert!(DrillPlace::open(&data).is_err(), "another one runs");
        let mut notes = place.begin().unwrap();
        notes.0.write_all(b"nonsense\n").unwrap();
        assert!(place.left().is_err());
        assert!(place.begin().is_err(), "there is one already");
        drop(place);
        assert!(DrillPlace::open(&data).is_ok());
    }
}
