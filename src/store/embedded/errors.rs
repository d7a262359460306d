//! How what goes wrong underneath is told.

use crate::store::claims::StoreError;
use crate::store::journal;

pub(super) fn unwritten(error: journal::JournalError) -> StoreError {
    if let journal::JournalError::NoSpace(why) = error {
        StoreError::Full(why)
    } else {
        StoreError::Broken(error.to_string())
    }
}

/// Why nothing can be begun.
pub(super) fn unwritable(state: journal::JournalState) -> StoreError {
    match state {
        journal::JournalState::Full(why) => StoreError::Full(why),
        journal::JournalState::Poisoned(why) => StoreError::Broken(why),
        journal::JournalState::Closed => StoreError::Broken("the journal is closed".to_owned()),
        journal::JournalState::Writing => {
            StoreError::Full("there was no room a moment ago".to_owned())
        }
    }
}

/// Why nothing more is taken into memory.
pub(super) fn crowded() -> StoreError {
    StoreError::Full("the index waits for room".to_owned())
}

pub(super) fn unkept(error: &std::io::Error) -> StoreError {
    if journal::is_full(error) {
        StoreError::Full(error.to_string())
    } else {
        StoreError::Broken(format!("a long result cannot be kept: {error}"))
    }
}
