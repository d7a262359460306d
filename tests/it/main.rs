//! Scenarios against the built program and real processes.

#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "a scenario is no part of toolgate's process"
)]
#![expect(
    unreachable_pub,
    reason = "one program; `pub` says what the harness offers to scenarios"
)]

mod adopt;
mod after_hooks;
mod agents;
mod approvals;
mod arguments;
mod bad_input;
mod before_hooks;
mod belongings;
mod calls;
mod canary;
mod chaos;
mod children;
mod contracts;
mod cost;
mod diagnostics;
mod disable;
mod envelopes;
mod example_003;
mod exemptions;
mod exhaustion;
mod failures;
mod fences;
mod full_disk;
mod fuzz;
mod harness;
mod headers;
mod held;
mod hops;
mod incident_004;
mod init;
mod keys;
mod kills;
mod layers;
mod ledger;
mod list;
mod loops;
mod observe;
mod order;
mod overruns;
mod owners;
mod packs;
mod passthrough;
mod pins;
mod races;
mod relist;
mod reload;
mod reports;
mod results;
mod resume;
mod rewriting;
mod roles;
mod sandbox;
mod screens;
mod sealed;
mod secrets;
mod settle;
mod shown;
mod side_doors;
mod standing;
mod start;
mod states;
mod statuses;
mod synced;
mod tasks;
mod together;
mod traces;
mod unsent;
mod versions;

use harness::{puppet, stage};
