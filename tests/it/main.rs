//! Scenarios against the built program and real processes. A scenario goes where its feature is;
//! what several features need goes into `harness`.

#![expect(clippy::unwrap_used, reason = "a scenario that cannot go on says so")]
#![expect(
    clippy::disallowed_methods,
    reason = "a scenario is no part of toolgate's process"
)]
#![expect(
    clippy::large_futures,
    reason = "the future of a scenario is on no call's way"
)]
#![expect(
    unreachable_pub,
    reason = "one program; `pub` says what the harness offers to scenarios"
)]

/// Processes, agents and tool servers that scenarios are made of.
mod harness;

// === One call, in the gate's order ===

// The operator's programs that hear how a call ended.
mod after_hooks;
// What arguments have to be; who may call, for whom, on what.
mod arguments;
// The operator's programs that are asked before a call is sent.
mod before_hooks;
// Agents and servers of different eras.
mod bridging;
// Budgets under load.
mod budgets;
// How often a caller, or a group, may call.
mod caller_limits;
// What a contract says beyond who may call: variants, drafts, errors.
mod contracts;
// Numbers of 64 bits, and keys alike but for case, in arguments.
mod exact_arguments;
// The example contract of the documents, code by code.
mod example_003;
// Failed calls of a task: in all, and in a row.
mod failure_limits;
// Of several faults at once, the earliest step's code is the answer.
mod guard_order;
// Calls that a person has to allow.
mod held_calls;
// Calls that take long.
mod long_calls;
// People elsewhere are told of them.
mod notices;
// The idempotency key as an argument.
mod key_argument;
// Agents and operators whom an identity provider names.
mod jwt;
// Identity providers behind TLS.
mod https_issuers;
// Tokens that tool servers want of toolgate.
mod upstream_oauth;
// Who is in which layer, and what a layer hides.
mod layers;
// Tasks that go in circles.
mod loops;
// Observe mode: what enforce mode would have refused.
mod observe;
// Answers of tool servers in JSON that agents may read differently.
mod odd_answers;
// Calls in JSON that tool servers may read differently, in observe mode.
mod odd_calls;
// Secrets that a tool server knows from earlier.
mod old_secrets;
// What becomes of results before an agent reads them.
mod results;
// What a contract's own steps make of a call.
mod rewriting;
// Listings fitted to the caller's model, and the calls that come back from them.
mod schema_profiles;
// A machine that knows nobody's certificate.
mod no_roots;
// Tool servers that say nothing for long, and the agents that wait.
mod silent_servers;
// References become values in the copy that leaves, and nowhere else.
mod secrets;
// Where a task is, and which calls it may make there.
mod task_limits;
mod task_states;
// `tools/list`: what this caller may call, page by page.
mod tool_listing;

// === Once: effects, retries, crashes ===

// A network that breaks three of ten exchanges.
mod chaos;
// Many calls at once: exactly as many run as may, each once.
mod concurrency;
// The fencing token of a call stands with its outcome.
mod fences;
// A ledger that cannot be written.
mod full_disk;
// The incident of document 004: one order per intended order.
mod incident_004;
// Toolgate is killed at every point of a call, and started again.
mod kills;
// Which calls are sent again, and which are meant again.
mod reissues;
// A panic of toolgate's ends one call.
mod panics;
// Unknown outcomes that looks and servers' own keys end.
mod reconciling;
// What becomes of a call with a side effect, event by event.
mod settle;
// A status code is no proof of what ran.
mod statuses;
// What is written, synced and sent in which order.
mod sync_order;
// Calls that are taken back.
mod undoing;
// The call that takes another one back is tried at a real server.
mod drills;
// An unknown outcome ends by an operator's word.
mod unknown_outcomes;
// A store that is opened without its index, beside the reads.
mod opening;
// What could not leave before its deadline never leaves.
mod unsent_calls;
mod users;

// === The wire: both eras, every door ===

// Bad input at the agents' doors.
mod bad_input;
// Which eras a server speaks.
mod probing;
// Only what is known leaves, in either direction.
mod envelopes;
// Calls that become tasks of the protocol.
mod mcp_tasks;
// The headers that mirror a modern body.
mod mirrored_headers;
// States, progress and tasks belong to one agent.
mod ownership;
// What is no governed call arrives as the same JSON value.
mod passthrough;
// A real agent, rmcp's client, through every door.
mod rmcp_agents;
// What agents and servers do besides calling tools.
mod side_doors;
// Legacy streams that are taken up again.
mod stream_resumption;
// Metrics and log lines for a collector.
mod otlp;
// Spans and trace contexts.
mod traces;
// Where requests that come often are worked on.
mod work_places;

// === Tool servers ===

// Tool servers as child processes: started, ended, reaped.
mod child_servers;
// Which sessions share a process, and when it ends.
mod shared_children;
// Toolgates in a row.
mod gate_chains;
// Several servers at one address.
mod many_servers;
// What a server says of its tools counts as it was approved.
mod pins;
// What a child process may do to the machine.
mod sandbox;
// A server changes its tools and says nothing.
mod tool_refresh;

// === Attacks on resources ===

// Attacks on what has a bound, beside a good agent.
mod exhaustion;
// The fuzz targets on their corpus and its mutations.
mod fuzz;
// What hostile schemas and arguments cost, and whom.
mod hostile_schemas;

// === Files, policy, reload ===

// What a caller may do is what the policy in force says.
mod current_rights;
// Configurations in which much is wrong: what `check` says.
mod diagnostics;
// Slips in a policy: found by pins and listings, before they leave a bound that binds nothing.
mod misspelt;
// Files are trusted when nobody else can change them.
mod file_ownership;
// One call is judged by one version of the files.
mod policy_versions;
// A changed policy is in force whole or not at all.
mod reload;
// How a policy comes in force, and how one goes back.
mod releases;
// Doors with TLS, and callers who are known by certificates.
mod tls;
// Tokens that change while they are used.
mod token_rotation;
// Doors that are Unix sockets.
mod unix_door;
// How toolgate starts, refuses to start, and ends.
mod start;

// === Operators and their verbs ===

// The walk of `examples/adopt/README.md`, command by command.
mod adopt;
// `toolgate approvals`: deciding on calls that are held.
mod approvals;
// What every verb has in common: exit codes, JSON, colours, width.
mod command_line;
// Output that nobody reads.
mod closed_pipes;
// Which ledger a verb reads.
mod data_places;
// `toolgate demo`: its stories come out, and nothing of it stays.
mod demo;
// The recording of it, and the table of README.
mod recording;
// `toolgate verify`: what is promised is tried with a configuration, and what does not hold is said.
mod verify;
// `toolgate disable`: a tool is taken away and given back.
mod disable;
// Calls that were executed although they are forbidden.
mod exemptions;
// Incidents that open by themselves, and what does not open one.
mod incident_breakers;
// Incidents: careless operators, operators elsewhere, and kills at bad times.
mod incident_enemies;
// An incident that opens while many calls run.
mod incident_load;
// The page of an incident, from the first alert to the closed incident, command by command.
mod incident_page;
// `toolgate incident`: tools are frozen until a sample shows that it is mended.
mod incidents;
// `toolgate init`: from servers to files that `check` accepts.
mod init;
// One entry for every judged call, and no value in it.
mod ledger;
// What `ledger verify` proves, and what it cannot.
mod ledger_verify;
// What an operator may do is what its roles say.
mod operator_roles;
// `doctor`, `ledger` and `calls`, whole.
mod operator_screens;
// What the ledger says of a changed policy.
mod policy_report;
// The dashboard and the alerts, on a real Prometheus.
mod dashboard;
// What operators see of a toolgate that runs: status, doctor, ledger and metrics.
mod seeing;
// What a supervisor's probe asks.
mod ready_probe;
// Which toolgate a verb asks, where several have one address; and directories without any.
mod one_door;
// What `toolgate stdio` hands on, and where it keeps ledgers.
mod stdio_places;
// `suggest`: from recorded calls to contracts, bounds and a pack.
mod suggest;
// Contracts for well-known tool servers, as they are shipped.
mod templates;
// Recorded calls and test packs: a changed policy is tried.
mod test_packs;
