//! The chain of what was recorded: of all that was tried, and of the ledger that the configuration names, which is only
//! read.

use crate::cli::verify::plan::row;
use crate::cli::verify::rows::{Guarantee, GuaranteeRow, RowVerdict};
use crate::config::Config;
use crate::model::counted::counted;
use crate::store::journal::{DataHolder, VerifyOptions, VerifyReport, check};

/// The ledger of what was tried.
pub(in crate::cli::verify) fn of_trial(report: &VerifyReport) -> GuaranteeRow {
    row(
        Guarantee::LedgerChain,
        None,
        None,
        judged(report, "after all of that"),
    )
}

/// That of the configuration, as far as it can be read; without its keys, which may be behind a program.
pub(in crate::cli::verify) fn of_configuration(config: &Config) -> GuaranteeRow {
    row(Guarantee::OwnLedger, None, None, own(config))
}

fn own(config: &Config) -> RowVerdict {
    if !config.data.exists() {
        return RowVerdict::NotShown("there is none yet".to_owned());
    }
    let holder = match DataHolder::of(&config.data) {
        DataHolder::Process(_) => "read while a running toolgate writes it",
        DataHolder::Free => "no toolgate runs on it",
        DataHolder::Hidden => "who writes it cannot be seen",
    };
    let against = VerifyOptions {
        archive: config.ledger.archive.clone(),
        ..VerifyOptions::default()
    };
    match check(&config.data, &against) {
        Ok(report) => judged(&report, holder),
        Err(error) => RowVerdict::NotShown(format!("it cannot be read: {error}")),
    }
}

fn judged(report: &VerifyReport, when: &str) -> RowVerdict {
    if let Some(problem) = &report.problem {
        return RowVerdict::Broken(problem.to_string());
    }
    let is_sealed = report.stretches.iter().any(|stretch| stretch.key.is_some());
    let seals = if is_sealed {
        "; its seals are for `toolgate ledger verify`"
    } else {
        ""
    };
    let records = counted(report.records, "record");
    RowVerdict::Holds(format!("{records} as they were written, {when}{seals}"))
}
