//! What a data directory's journal says, for the invariants.

use std::path::Path;
use toolgate::store::journal::JournalReader;
use toolgate_faults::rows::{Row, row};

/// The rows of a data directory, oldest first.
pub fn rows(data: &Path) -> anyhow::Result<Vec<Row>> {
    let records = JournalReader::open(data)?.map(|record| {
        let record = record?;
        row(record.seq, &record.bytes)
    });
    records.filter_map(Result::transpose).collect()
}
