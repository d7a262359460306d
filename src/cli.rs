//! Floor 6: the command line, one file per verb.

pub mod ledger;
