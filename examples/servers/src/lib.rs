//! The tool servers that toolgate's examples and tests run against, and what they share.

#![warn(missing_docs)]

pub mod billing;
pub mod conformance;
pub mod serve;
