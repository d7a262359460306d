//! Floor 1: what operators see of a running toolgate.

pub mod tasks;
