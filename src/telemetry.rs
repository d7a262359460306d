//! Floor 1: what operators see of a running toolgate.

pub mod metrics;
pub mod tasks;
