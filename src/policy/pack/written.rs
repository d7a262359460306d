//! A test pack as written. Unknown keys are refused, as in policy files.

use crate::guards::identity::CallerSettings;
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

/// Calls that nobody makes, and what the policies are to say of them. `toolgate test` reads the
/// packs in `tests` beside the policies.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "toolgate test pack", rename = "PackFile")]
pub(crate) struct PackFile {
    /// what the pack is called
    #[schemars(length(min = 1, max = 100))]
    pub pack: String,
    /// Policy files, and directories of them, from this file's directory; then no configuration is
    /// read [default: the policies of the configuration].
    #[serde(default)]
    pub policies: Vec<String>,
    /// What tool servers define, so that none has to run. Without it only the contracts' own
    /// schemas are judged.
    #[serde(default)]
    pub servers: BTreeMap<String, PackServer>,
    /// Names of secrets that the configuration will bind to wherever the pack's own policies take
    /// one. Names only: no value is read. A reference to another secret is refused. [default:
    /// none; without `policies`: those of the configuration]
    #[serde(default)]
    pub secrets: Vec<String>,
    /// Who calls, by names for this pack. The agents of a configuration are known by their own.
    #[serde(default)]
    pub callers: BTreeMap<String, CallerSettings>,
    /// the calls, and what is expected of each
    #[schemars(length(min = 1))]
    pub samples: Vec<PackSample>,
}

/// What one tool server defines.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
#[schemars(rename = "PackServer")]
pub(crate) struct PackServer {
    /// Its tools, all of them: another of its tools is not there.
    pub tools: Vec<ToolSettings>,
}

/// What a tool server says of a tool.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "PackTool")]
pub(crate) struct ToolSettings {
    /// the tool's name at its server
    #[schemars(length(min = 1))]
    pub name: String,
    /// the JSON Schema of its arguments
    #[serde(rename = "inputSchema")]
    pub input_schema: Map<String, Value>,
}

/// One call.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackSample {
    /// what it shows; no two samples of a pack show the same
    #[schemars(length(min = 1, max = 200))]
    pub name: String,
    /// who calls: a name under `callers`, or an agent of the configuration
    pub caller: String,
    /// the user for whom it asks
    #[schemars(length(min = 1, max = 256))]
    pub user: Option<String>,
    /// what is called: `server__tool`
    pub tool: String,
    /// The arguments.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// The idempotency key that the agent gives beside them.
    pub key: Option<String>,
    /// The call's task as it is before [default: it has just begun].
    pub state: Option<PackTaskState>,
    /// `allow`, or the code of the refusal
    #[schemars(length(min = 1))]
    pub expect: String,
    /// Why that is right; for readers.
    pub because: Option<String>,
    /// What the sample repeats: the action id of a recorded call, or the number of a report.
    pub repro: Option<String>,
    /// What has mended it: a change, a version; `test` reminds of samples that repeat something
    /// and say nothing of it.
    pub fix_ref: Option<String>,
    /// `toolgate test --drill` makes the call, at its tool server, and takes it back; `{}` looks at what the
    /// contract's `rollback.verify` reads.
    pub drill: Option<PackDrill>,
}

/// How a drill of a sample finds out that nothing is left of its call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PackDrill {
    /// What is read before the call, after it, and once it was taken back [default: what the contract's
    /// `rollback.verify` reads, where that names no part of the result].
    pub baseline: Option<PackBaseline>,
}

/// A read, and what of its result is compared.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PackBaseline {
    /// what is read with: `server__tool`
    #[schemars(length(min = 1))]
    pub tool: String,
    /// Its arguments; `arguments#/…` stands for a part of those of the call.
    #[serde(default)]
    pub arguments: Map<String, Value>,
    /// the values that are compared, by JSON pointers into the structured result
    #[schemars(length(min = 1))]
    pub fields: Vec<String>,
}

/// What a task has used and done before the call.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PackTaskState {
    /// Calls of the same tool.
    pub calls_used: u64,
    /// Those of them at this very moment, for a rate.
    pub calls_now: u64,
    /// Calls of all tools [default: as `calls_used`].
    pub tool_calls: Option<u64>,
    /// Judged calls [default: as `tool_calls`].
    pub steps_used: Option<u64>,
    /// Cost, in the units of the contracts.
    pub cost_used: f64,
    /// Time since its first call, such as 10m.
    pub elapsed: Option<String>,
    /// Failed calls [default: as `failures_in_a_row`].
    pub failures: Option<u64>,
    /// Failed calls since the last that did not fail.
    pub failures_in_a_row: u64,
    /// Failed calls of the same tool since the last of it that did not fail.
    pub tool_failures: u64,
    /// It has made the draft that the call confirms.
    pub drafted: bool,
    /// A person has allowed the call, where one has to.
    pub approved: bool,
    /// How often the very same call was made last, with the same outcome every time; at most 32.
    pub repeated: u64,
    /// How many calls were refused last; at most 32.
    pub refused: u64,
}
