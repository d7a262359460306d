//! Floor 2: the guards, in the order of the gate (SEMANTICS §2). One guard, one file, one shape: header, `Settings` as
//! written, `Rule` as run, evidence, `impl Section`, `impl Rule` with one verb.

pub mod arguments;
pub mod evidence;
pub mod permission;
pub mod rules;

use crate::model::diagnostic::Problems;

/// A guard's part of a contract: how what the author wrote becomes what runs.
pub trait Section: Sized {
    /// What runs.
    type Rule;
    /// The key in the file.
    const NAME: &'static str;
    /// Judges the settings; notes every problem and goes on.
    fn compile(self, problems: &mut Problems) -> Self::Rule;
}
