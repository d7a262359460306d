//! What `doctor` says of the ledger, which it only reads, and where it records what happens while
//! it looks.

use super::DoctorFindings;
use crate::app::ledger;
use crate::config::{Config, Ledger};
use crate::model::counted::counted;
use crate::owners::{self, ExposureReason};
use crate::store::journal::{JournalError, SealingKeys, VerifyOptions, VerifyReport, check};
use anyhow::Context as _;
use rustix::fs::{Access, access};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// The file in which operators' disabled tools stand.
const DISABLED_TOOLS_FILE: &str = "disabled.json";

/// Whether the ledger is as it was written and can be written on, and what it proves.
pub(super) async fn judge(config: &Config, found: &mut DoctorFindings) {
    check_directory(&config.data, found);
    match ledger::keys(&config.ledger).await {
        Ok(keys) => whole(&config.data, keys, found),
        Err(error) => found.wrong(&format!("{error:#}")),
    }
    kept(config, found);
}

/// Whether toolgate could write there, and nobody else in its place.
fn check_directory(data: &Path, found: &mut DoctorFindings) {
    for exposed in owners::exposed(data)
        .into_iter()
        .filter(|exposed| matches!(exposed.why, ExposureReason::Foreign(_)))
    {
        found.wrong(&format!(
            "{}: {}; {}",
            exposed.path.display(),
            exposed.message(),
            exposed.hint()
        ));
    }
    // The directory, or what it is to be made in.
    let there = data.ancestors().map(|above| {
        if above.as_os_str().is_empty() {
            Path::new(".")
        } else {
            above
        }
    });
    let Some(there) = there.into_iter().find(|above| above.exists()) else {
        return;
    };
    match access(there, Access::WRITE_OK | Access::EXEC_OK) {
        Ok(()) if there.is_dir() => {
            found.fine(&format!("the ledger in {} can be written", data.display()));
        }
        Ok(()) => found.wrong(&format!(
            "{} is no directory; correct `data`",
            there.display()
        )),
        Err(error) => found.wrong(&format!(
            "the ledger in {} cannot be written: {error}",
            data.display()
        )),
    }
}

fn whole(data: &Path, mut keys: SealingKeys, found: &mut DoctorFindings) {
    let sealing = keys.sealing();
    // Between configuring a key and the start that first seals with it, the one before is rightly
    // the last.
    keys.previous.extend(keys.current.take());
    match check(
        data,
        &VerifyOptions {
            keys,
            ..VerifyOptions::default()
        },
    ) {
        Err(JournalError::NoJournal(_)) => {
            found.fine("there is no ledger yet; toolgate begins one");
        }
        Err(error) => found.wrong(&error.to_string()),
        Ok(VerifyReport {
            problem: Some(problem),
            ..
        }) => {
            found.wrong(&format!(
                "the ledger is damaged: {problem}; see `toolgate ledger verify`"
            ));
        }
        Ok(report) => {
            found.fine(&format!(
                "the ledger is as it was written: {}",
                counted(report.records, "record")
            ));
            let last = report.stretches.last().and_then(|stretch| stretch.key);
            let Some(sealing) = sealing.filter(|sealing| last != Some(*sealing)) else {
                return;
            };
            if report
                .stretches
                .iter()
                .any(|stretch| stretch.key == Some(sealing))
            {
                found.wrong(&JournalError::KeyReplaced { key: sealing }.to_string());
            } else if report.records > 0 {
                found.note(&format!(
                    "the key `{sealing}` seals the ledger from the next start on"
                ));
            }
        }
    }
}

/// What the record proves, and how far back it goes.
fn kept(config: &Config, found: &mut DoctorFindings) {
    let Ledger {
        keep,
        max_bytes,
        archive,
        compress,
        seal,
        content,
        heads,
    } = &config.ledger;
    if seal.key.is_some() {
        found.fine("the ledger is sealed: nobody without the key can write it anew");
    } else {
        found.note(
            "the ledger is not sealed: a process that can write its directory can write it anew; see `ledger.seal`",
        );
    }
    if content.key.is_some() {
        found.fine("what contracts have the ledger keep of calls is encrypted");
    }
    if heads.is_some() {
        found.fine(
            "heads of the ledger leave by themselves, so that its end cannot be cut off unseen",
        );
    } else {
        found.note(
            "no head of the ledger leaves: its end can be cut off unseen; see `ledger.heads`",
        );
    }
    let hours = keep.as_secs() / 3600;
    let kept = if hours < 48 {
        counted(hours, "hour")
    } else {
        counted(hours / 24, "day")
    };
    let kept = max_bytes.map_or(kept.clone(), |most| {
        format!("{kept}, or beyond {} MiB in all", most >> 20)
    });
    match archive {
        Some(archive) => found.fine(&format!(
            "closed segments go to {} after {kept}",
            archive.display()
        )),
        None => {
            found.note(&format!(
                "closed segments of the ledger are dropped after {kept}; see `ledger.archive`"
            ));
        }
    }
    if !compress {
        found.note("closed segments of the ledger are not compressed: they take about nine times the room; see `ledger.compress`");
    }
    let lean = config.ledger.sizes().lean >> 20;
    found.fine(&format!(
        "from {lean} MiB on, reads and refusals are only summed up in the ledger"
    ));
}

/// A data directory of doctor's own, for what is recorded while it looks; removed when it is
/// dropped.
pub(super) struct Scratch(PathBuf);

impl Scratch {
    /// Lets `config` record there, unsealed and with no head that leaves, without the tools that
    /// operators have disabled.
    pub(super) fn of(config: &mut Config) -> anyhow::Result<Self> {
        let own = std::env::temp_dir().join(format!("toolgate-doctor-{}", uuid::Uuid::now_v7()));
        let made = std::fs::DirBuilder::new()
            .mode(crate::owners::private::PRIVATE_DIRECTORY_MODE)
            .create(&own);
        made.with_context(|| {
            format!(
                "doctor needs a directory of its own, and cannot make {}; set TMPDIR",
                own.display()
            )
        })?;
        let disabled = config.data.join(DISABLED_TOOLS_FILE);
        if disabled.exists() {
            std::fs::copy(&disabled, own.join(DISABLED_TOOLS_FILE))
                .with_context(|| disabled.display().to_string())?;
        }
        config.data.clone_from(&own);
        config.ledger = Ledger::default();
        Ok(Self(own))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // What stays behind is in a directory for what need not stay.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
