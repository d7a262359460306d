//! What of a toolgate's own life stands in the ledger: starts, stops and reloads.

use crate::gate::Gate;
use crate::policy::live::{ReloadOutcome, ReloadReport};
use crate::store::disabling::note;
use crate::store::state::event::{Note, Noted};

/// It serves from now on.
pub(super) fn started(gate: &Gate) {
    let (version, pid) = (env!("CARGO_PKG_VERSION").to_owned(), std::process::id());
    let policy = gate.policy.status().version;
    keep(
        gate,
        Note::Started {
            version,
            pid,
            policy,
        },
    );
}

/// It ends.
pub(super) fn stopped(gate: &Gate) {
    let policy = gate.policy.status().version;
    let pid = std::process::id();
    keep(gate, Note::Stopped { pid, policy });
}

/// The policy files were read again.
pub(super) fn reloaded(gate: &Gate, report: ReloadReport) {
    let ReloadReport {
        outcome,
        before,
        version: policy,
        errors,
        is_beside: operators,
        ..
    } = report;
    let note = match outcome {
        ReloadOutcome::Swapped | ReloadOutcome::Unchanged => Note::Reloaded {
            before,
            policy,
            operators,
        },
        ReloadOutcome::KeptLastGood => Note::ReloadRefused {
            policy,
            errors: u32::try_from(errors).unwrap_or(u32::MAX),
        },
    };
    keep(gate, note);
}

fn keep(gate: &Gate, what: Note) {
    let noted = Noted {
        at: gate.effects.store.now(),
        note: what,
    };
    if let Err(error) = note(&gate.journal, noted) {
        tracing::error!(%error, "a start, a stop or a reload cannot be recorded");
    }
}
