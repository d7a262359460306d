//! The tool servers as programs: started, spoken to on the wire, ended.

#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says so by panicking"
)]

mod billing;
mod conformance;
mod effects;
mod running;
