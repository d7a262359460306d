//! Scenarios against the built program and real processes.

#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on says so")]

mod children;
mod example_003;
mod order;
mod puppet;
mod stage;
