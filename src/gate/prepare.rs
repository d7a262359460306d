//! What is made of a call before the first step looks at it: its arguments as the tool's own schema
//! means them, its server's own state, and nothing that no guard and no tool server is to see.

use crate::failpoint;
use crate::gate::Gate;
use crate::gate::call::ArgumentOrigin;
use crate::gate::call::Call;
use crate::gate::case::Case;
use crate::gate::catalogue::tool::Tool;
use crate::gate::steps::opened_page::taken_back;
use crate::gate::steps::rounds::opened;
use crate::guards::idempotency;
use crate::guards::rewrite::ChangedArguments;
use crate::guards::{Mode, ToolRules};
use crate::model::reads::Profile;
use crate::policy::Policy;
use crate::schema::Schema;
use crate::upstream::catalog::Catalog;
use serde_json::Value;
use std::borrow::Cow;
use std::sync::Arc;

/// What the ledger calls the taking away of empty optional arguments (002-23).
pub(crate) const STRIPPED: &str = "strip_empty_optionals";

/// The call as the first step gets it.
pub(in crate::gate) fn prepared(gate: &Gate, policy: &Policy, call: Call) -> Case {
    failpoint::reached("preparing");
    let tool = gate
        .tool_of(Some(&call.origin.links), &call.judged.tool)
        .or_else(|| unlisted(gate, policy, &call));
    // What enforce mode would refuse unread, observe mode sends as it was written.
    let is_odd = call.message.odd.is_some();
    let (tool, call) = if is_odd {
        (tool, call)
    } else {
        read_back(gate, policy, tool, call)
    };
    let call = taken_back(match &tool {
        Some(tool) if is_odd || !tool.is_listed => opened(&gate.seal, tool, call),
        Some(tool) => without_own(policy, opened(&gate.seal, tool, call), tool),
        None => call,
    });
    Case {
        call: Arc::new(call),
        tool,
    }
}

/// A tool that its server does not list, where nothing is enforced and its name says whose it would
/// be: its server answers. What is listed and quarantined is called by nobody.
fn unlisted(gate: &Gate, policy: &Policy, call: &Call) -> Option<Arc<Tool>> {
    if policy.mode == Mode::Enforce {
        return None;
    }
    let (judged, links) = (&call.judged, &call.origin.links);
    let server = links.servers().get(judged.server.as_ref()?.as_str())?;
    // Of a server that is down nobody knows what it quarantines.
    let up = server.up()?;
    let is_listed = |catalog: &Catalog| {
        let names = catalog.tools.iter().map(|tool| &tool.name);
        let mut names = names.chain(catalog.quarantined.iter().map(|(name, ..)| name));
        names.any(|name| *name == judged.own_name)
    };
    let own = links.own_catalogs();
    let own = own.iter().flat_map(|own| &own.servers);
    let mut own = own.filter(|own| own.server == server.settings.name);
    let is_known = is_listed(&up.catalog)
        || own.any(|own| is_listed(&own.catalog))
        || gate.tools_of(Some(links)).parted.contains(&judged.tool);
    if is_known {
        return None;
    }
    Tool::unlisted(judged, server).map(Arc::new)
}

/// The tool, if the caller's profile shows it, and the call as that tool's own schema means it.
pub(in crate::gate) fn read_back(
    gate: &Gate,
    policy: &Policy,
    tool: Option<Arc<Tool>>,
    mut call: Call,
) -> (Option<Arc<Tool>>, Call) {
    if call.origin.caller.reads.profile == Profile::None {
        return (tool, call);
    }
    let Some(tool) = tool else {
        return (None, call);
    };
    // No schema says what its caller meant by it.
    if !tool.is_listed {
        return (Some(tool), call);
    }
    let Ok(variant) = gate.variant(policy, &call.origin.caller, &tool) else {
        // Nobody is shown it; but observe mode refuses nothing.
        return ((policy.mode == Mode::Observe).then_some(tool), call);
    };
    match variant.back.read(&call.judged.arguments) {
        Ok(None) => {}
        Ok(Some(meant)) => (call.judged.arguments, call.reading) = (meant, ArgumentOrigin::Back),
        Err(violation) => call.reading = ArgumentOrigin::Impossible(violation.into()),
    }
    (Some(tool), call)
}

/// Without the idempotency key where it is ours, and without empty optional arguments where the
/// contract says so.
fn without_own(policy: &Policy, call: Call, tool: &Tool) -> Call {
    // Most contracts do, whichever caller they let through.
    if policy.allowlist.takes_as_written(&call.judged.tool) {
        return call;
    }
    let Ok(admitted) = call.admitted(policy) else {
        return call;
    };
    let rules = admitted.rules();
    let call = match &rules.idempotency {
        // What nobody was shown is the tool server's, where nothing is enforced.
        Some(rule) if policy.mode == Mode::Enforce || rule.is_exposed() => {
            without_key(call, rule, tool)
        }
        Some(_) | None => call,
    };
    if policy.mode == Mode::Observe {
        call
    } else {
        stripped(call, rules, tool)
    }
}

fn without_key(mut call: Call, rule: &idempotency::Rule, tool: &Tool) -> Call {
    let (rest, key) = rule.split(&tool.schema, &call.judged.arguments);
    let (rest, key) = (owned(rest), key.map(Cow::into_owned));
    call.judged.key_argument = key;
    if let Some(rest) = rest {
        (call.judged.arguments, call.judged.key_taken) = (rest, true);
    }
    call
}

fn owned(value: Cow<'_, Value>) -> Option<Value> {
    match value {
        Cow::Owned(value) => Some(value),
        Cow::Borrowed(_) => None,
    }
}

/// What step 6 made of the arguments, without the empty texts that count as absent by the contract
/// that counts now: what is judged again is what is sent.
pub(in crate::gate) fn without_empty(
    changed: ChangedArguments,
    rules: &ToolRules,
    schema: &Schema,
) -> ChangedArguments {
    let ChangedArguments { arguments, mut by } = changed;
    match owned(rules.arguments.strip(schema, &arguments)) {
        None => ChangedArguments { arguments, by },
        Some(arguments) => {
            by.push(STRIPPED.to_owned());
            ChangedArguments { arguments, by }
        }
    }
}

/// Step 3, first part: an empty text that nobody requires counts as absent, where the contract says
/// so.
fn stripped(mut call: Call, rules: &ToolRules, tool: &Tool) -> Call {
    if let Cow::Owned(arguments) = rules.arguments.strip(&tool.schema, &call.judged.arguments) {
        call.become_of(ChangedArguments {
            arguments,
            by: vec![STRIPPED.to_owned()],
        });
    }
    call
}
