//! Step 13: the values of secret references, fetched when everything else has passed, for the copy
//! that leaves.

use crate::gate::Gate;
use crate::gate::case::Subject;
use crate::guards::secrets::{Sealed, Target};
use crate::mcp::json::Text;
use crate::model::refusal::Refusal;
use crate::policy::Policy;

/// What travels beside the arguments and comes from the agent.
const BESIDE: [&str; 3] = ["_meta", "task", "inputResponses"];

/// Seals a call that every guard has passed. Why it is refused is for the log: the agent is not told
/// which secrets there are.
pub(in crate::gate) async fn seal(
    gate: &Gate,
    policy: &Policy,
    subject: &Subject<'_>,
) -> Result<Sealed, Refusal> {
    let Subject { call, tool, rules } = subject;
    let body = call.message.body.as_ref();
    let (server, definition) = (&tool.server.settings.name, &*tool.definition);
    let target = Target {
        server,
        tool: &definition.name,
        mirrored: &definition.header_params,
    };
    let action = call.judged.action;
    // Gone before anything is waited for.
    let wanted = {
        let beside: [Option<Text>; BESIDE.len()] = BESIDE.map(|key| body?.get(key));
        let (arguments, beside) = (&call.judged.arguments, beside.iter().flatten());
        rules
            .secrets
            .references(&policy.secrets, target, arguments, beside)
    };
    let wanted = wanted.inspect_err(|_| {
        tracing::warn!(%action, tool = %tool.name, "a secret reference stands where none may, or is not well-formed");
    })?;
    let mut values = Vec::new();
    for binding in wanted.bindings() {
        let fetched = gate.vault.fetch(binding, gate.clock).await;
        values.push(fetched.map_err(|failed| {
            tracing::warn!(%action, secret = binding.name, %failed, "a secret cannot be had; the call is refused");
            Refusal::SecretDenied
        })?);
    }
    wanted.seal(values)
}
