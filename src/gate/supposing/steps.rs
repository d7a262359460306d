//! Single steps of the gate, asked of a policy alone.

use super::Question;
use crate::gate::pipeline::Stage;
use crate::gate::steps::judge::Arguments;
use crate::gate::steps::judge::Notes;
use crate::guards::ToolRules;
use crate::guards::allowlist::Admitted;
use crate::guards::secrets::{self, NeededSecrets, Target};
use crate::mcp::headers::params_of;
use crate::mcp::json::Text;
use crate::mcp::tools::hints_idempotent as is_hinted;
use crate::model::caller::Caller;
use crate::model::ids::{self, ServerName, ToolName};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use serde_json::Value;

/// Step 2: may `caller` see `tool`? As enforce mode says it.
pub(crate) fn visible<'p>(
    policy: &'p Policy,
    caller: &Caller,
    tool: &ToolName,
    notes: &mut impl Notes,
) -> Result<Admitted<'p>, Refusal> {
    let offered = if is_unpinned(policy, tool) {
        Err(Refusal::ToolNotAllowlisted)
    } else {
        Ok(())
    };
    notes.note(Stage::Visible, offered)?;
    let admitted = notes.note(
        Stage::Visible,
        policy
            .allowlist
            .admit(caller, tool)
            .map_err(|denied| denied.refusal),
    )?;
    match admitted.would_refuse() {
        Some(refusal) => notes.note(Stage::Visible, Err(refusal)),
        None => Ok(admitted),
    }
}

/// Step 13 without the values: the secrets that a call with these arguments, and this key beside
/// them, would need.
pub(crate) fn wanted(
    policy: &Policy,
    rules: &ToolRules,
    tool: &ToolName,
    arguments: Arguments<'_>,
    key: Option<&Value>,
) -> Result<NeededSecrets, Refusal> {
    let (server, own) = split(tool);
    let has_references = secrets::Rule::is_in(arguments.values);
    let mirrored = if has_references {
        params_of(&arguments.schema.source()).unwrap_or_default()
    } else {
        Vec::new()
    };
    let target = Target {
        server: &server,
        tool: own,
        mirrored: &mirrored,
    };
    rules.secrets.references(
        &policy.secrets,
        target,
        arguments.values,
        &key.map(Text::of),
    )
}

/// The tool's server, and the server's own name for it.
pub(super) fn split(tool: &ToolName) -> (ServerName, &str) {
    let (server, own) = ids::parts(tool.as_str()).unwrap_or(("", tool.as_str()));
    (ServerName::new(server), own)
}

/// Whether the tool's server says that a second call with the same arguments changes nothing, as far
/// as an approved definition tells.
pub(super) fn hints_idempotent(policy: &Policy, tool: &ToolName) -> bool {
    let (server, own) = split(tool);
    let pin = policy.pins.pin(&server, own);
    pin.is_some_and(|pin| is_hinted(&pin.definition))
}

/// Is the tool withheld because no operator has approved any definition of it?
pub(crate) fn is_unpinned(policy: &Policy, tool: &ToolName) -> bool {
    let (server, own) = split(tool);
    policy.pins.lacks(&server, own)
}

/// Which rule of the contract refuses the call, from 0; for a call that [`super::judge`] refuses with a
/// rule's code.
pub(crate) fn deciding(policy: &Policy, call: &Question<'_>) -> Option<usize> {
    let admitted = policy.allowlist.admit(call.caller, call.tool).ok()?;
    let admitted = admitted.on(call.arguments);
    let rules = admitted.rules();
    let taken = rules
        .idempotency
        .as_ref()
        .map(|rule| rule.split(call.schema, call.arguments).0);
    let arguments = rules
        .arguments
        .strip(call.schema, taken.as_deref().unwrap_or(call.arguments));
    let first = rules.rules.deciding(call.caller, &arguments);
    first.or_else(|| {
        rules.rules.deciding(
            call.caller,
            &rules.rewrite.foresee(call.caller, &arguments)?,
        )
    })
}
