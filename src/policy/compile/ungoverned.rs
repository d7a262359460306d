//! Does the policy say anything of calls? Enforce mode with no contract at all refuses every call,
//! whose author meant something else (003-123).

use super::compiler::{Compiler, about};
use crate::guards::Mode;
use crate::model::diagnostic::{Problems, Severity};
use crate::policy::layers::WrittenLayers;
use std::path::PathBuf;

/// What to do.
const HINT: &str = "write a contract for each tool that agents may call (`toolgate init` drafts them), or `mode: observe` until \
                    there are some";

/// Notes an error at the `first` of the policy files where none has a contract, and a warning where
/// layers open what is no tool. Limits are there even where none is written; a contract is not.
pub(super) fn judge(compiler: &mut Compiler, mode: Mode, first: Option<&PathBuf>) {
    let Some(first) = first else {
        // Said of the configuration, or no policy of a gate.
        return;
    };
    // A contract that cannot be used is no missing one.
    let is_broken = compiler
        .diagnostics
        .iter()
        .any(|diagnostic| diagnostic.severity == Severity::Error);
    if mode == Mode::Observe || is_broken || !compiler.contracts.is_empty() {
        return;
    }
    let opens = compiler
        .written
        .iter()
        .any(|(_, written)| speaks_of_sides(written));
    let (severity, message) = if opens {
        let message = "no policy file has a contract, so every tool call is refused";
        (Severity::Warning, message)
    } else {
        let message = "no policy file has a contract: enforce mode would refuse everything, so it does not start, and at a reload \
                       the policy before stays in force";
        (Severity::Error, message)
    };
    let found = about(first, severity, message, HINT);
    compiler.diagnostics.push(found);
}

/// Whether a layer says something of what is no tool: a server may have nothing else.
fn speaks_of_sides(written: &WrittenLayers) -> bool {
    let mut speaks = false;
    written
        .layers
        .each(&mut Problems::default(), &mut |layer, _| {
            speaks |= layer.sides.iter().any(|(_, section)| section.is_some());
        });
    speaks
}
