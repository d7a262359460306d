//! What the ledger says of a story's calls, while toolgate writes it.

use crate::cli::ledger::calls::LedgerCalls;
use crate::model::entry::Entry;
use crate::store::journal::JournalError;
use std::path::Path;
use std::time::Duration;

/// How long what nobody waits for may take to be written.
const WRITTEN_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the ledger is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(10);
/// Calls that one entry may stand for here: an agent that waits for a person asks again and again.
const MAX_COUNTED_CALLS: usize = 1 << 10;

/// The outcome of a call that has none yet.
const IN_FLIGHT: &str = "dispatching";
/// What a call reads that has to be sent again: no end of it.
pub(super) const TO_ASK_AGAIN: &str = "approval_pending";

/// The words for the calls of `tool` (`server__tool`) in the data directory, once there are `count`; those that are
/// there when that takes too long.
pub(super) async fn recorded(
    data: &Path,
    tool: &str,
    count: usize,
) -> Result<Vec<String>, JournalError> {
    let read = async {
        loop {
            let words = now(data, tool)?;
            if words.len() >= count {
                return Ok(words);
            }
            tokio::time::sleep(LOOK_INTERVAL).await;
        }
    };
    match tokio::time::timeout(WRITTEN_TIMEOUT, read).await {
        Ok(words) => words,
        Err(_) => now(data, tool),
    }
}

fn now(data: &Path, tool: &str) -> Result<Vec<String>, JournalError> {
    let mut words = Vec::new();
    for call in LedgerCalls::open(data)? {
        let entry = call?.entry;
        let word = word(&entry);
        if entry.tool == tool && word != IN_FLIGHT && word != TO_ASK_AGAIN {
            let times = entry
                .count
                .map_or(1, |count| count.try_into().unwrap_or(usize::MAX));
            words.extend(std::iter::repeat_n(word, times.min(MAX_COUNTED_CALLS)));
        }
    }
    Ok(words)
}

/// What became of a call, in a word.
fn word(entry: &Entry) -> String {
    match &entry.aborted_reason {
        Some(code) => code.clone(),
        None if entry.replayed => "replayed".to_owned(),
        None => entry.outcome.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_says_more_than_an_outcome() {
        let entry = |outcome: &str, code: Option<&str>, replayed| Entry {
            outcome: outcome.to_owned(),
            aborted_reason: code.map(str::to_owned),
            replayed,
            ..Entry::default()
        };
        for (entry, expected) in [
            (entry("answered", None, false), "answered"),
            (entry("answered", None, true), "replayed"),
            (entry("unknown", None, false), "unknown"),
            (
                entry("unknown", Some("outcome_unknown"), false),
                "outcome_unknown",
            ),
            (
                entry("refused", Some("tenant_mismatch"), false),
                "tenant_mismatch",
            ),
        ] {
            assert_eq!(word(&entry), expected);
        }
    }
}
