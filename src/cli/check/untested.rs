//! Contracts of which no test pack has a sample: nobody would notice if they said something else.

use crate::cli::test::find::beside;
use crate::model::diagnostic::{Diagnostic, Severity};
use crate::model::ids::ToolName;
use crate::policy::Policy;
use crate::policy::pack::Pack;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Names in a warning at most.
const MAX_TOOLS_NAMED: usize = 8;

/// Judges the packs beside the policies of the configuration, which reads `files`, and warns of
/// contracts without a sample.
pub(super) fn judge(
    configuration: &Path,
    files: &BTreeSet<PathBuf>,
    policy: &Policy,
) -> Vec<Diagnostic> {
    let (mut diagnostics, mut sampled) = (Vec::new(), BTreeSet::new());
    for file in beside(configuration, files).unwrap_or_default() {
        let (pack, found) = Pack::read(&file);
        diagnostics.extend(found);
        sampled.extend(
            pack.into_iter()
                .flat_map(|pack| pack.samples)
                .map(|sample| sample.tool),
        );
    }
    let without: BTreeSet<&ToolName> = policy
        .allowlist
        .contracts()
        .filter(|tool| !sampled.contains(*tool))
        .collect();
    if !without.is_empty() {
        let names: Vec<&str> = without
            .iter()
            .take(MAX_TOOLS_NAMED)
            .map(|tool| tool.as_str())
            .collect();
        let more = without.len() - names.len();
        let more = if more > 0 {
            format!(" and {more} more")
        } else {
            String::new()
        };
        diagnostics.push(Diagnostic {
            severity: Severity::Warning,
            file: configuration.display().to_string(),
            line: 0,
            column: 0,
            length: 0,
            message: format!("no test pack has a sample of {}{more}", names.join(", ")),
            hint: Some(
                "write packs in `tests` beside the policies; `toolgate test --coverage` says what is missing"
                    .to_owned(),
            ),
        });
    }
    diagnostics
}
