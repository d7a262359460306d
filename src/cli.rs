//! Floor 6: the verbs, one file each.

pub mod guard;
