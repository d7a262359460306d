//! toolgate: a sidecar between AI agents and their MCP tool servers. Every call is judged, sent
//! once and recorded.
//!
//! Floors, lowest first; a file imports from lower floors only (`tests/tidy/floors.rs` keeps this).
//! What stands behind "then" is a floor of its own above what stands before it:
//!
//! 0. [`model`], then [`mcp`]: words and the wire
//! 1. [`telemetry`], [`outlet`], [`failpoint`], [`owners`], then [`store`], [`upstream`],
//!    [`schema`], [`expression`]: the world
//! 2. [`guards`]: one guard, one file
//! 3. [`policy`], then [`side`]: what the files say, and messages beside calls
//! 4. [`gate`], `relay`: the pipeline, and every message that is not a governed call
//! 5. `downstream`, `admin`: the doors; `notify`: telling people elsewhere
//! 6. [`config`], `app`, [`cli`]: the process

/// What is used and given back for long stays in few pieces: with the C library's allocator,
/// resident memory grew with the number of calls, though what lived did not (bench/README.md).
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

pub mod mcp;
pub mod model;

pub mod failpoint;
pub mod outlet;
pub mod owners;
pub mod telemetry;

pub mod expression;
pub mod schema;
pub mod store;
pub mod upstream;

pub mod guards;

pub mod policy;
pub mod side;

pub mod gate;
mod relay;

mod admin;
mod downstream;
mod notify;

mod app;
pub mod cli;
pub mod config;
