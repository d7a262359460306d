//! The tool servers that toolgate's examples and tests run against, and what they share.

pub mod billing;
pub mod conformance;
pub mod effects;
pub mod oracle;
pub mod serve;
