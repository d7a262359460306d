//! The tool server that the official conformance suite expects: each of its scenarios names the
//! tools, prompts and resources it calls and what these must answer.

mod ask;
mod call;
mod changes;
mod content;
mod eras;
mod interruption;
mod long_calls;
mod prompts;
mod resources;
mod rounds;
mod schemas;
mod server;
mod tasks;

pub use eras::{OnlyEra, serve_only};
pub use interruption::InterruptedSessions;
pub use server::Fixture;
