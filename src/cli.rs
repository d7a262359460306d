//! Floor 6: the commands, one file a verb.

pub mod check;
pub mod schema;
