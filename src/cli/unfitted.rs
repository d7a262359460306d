//! Callers without a `model`, with tools whose schemas are a choice
//! at the root: providers refuse or drop those, and the agent never learns that it has the tool
//! (001-20).

use crate::guards::Mode;
use crate::model::caller::Caller;
use crate::model::diagnostic::{Diagnostic, Problem, Severity};
use crate::model::ids::ToolName;
use crate::model::reads::Profile;
use crate::policy::Policy;
use crate::policy::locate::YamlDocument;
use serde_json::Value;
use std::path::Path;

/// Tools that one warning names at most.
const MAX_TOOLS_NAMED: usize = 8;
/// What no provider takes at the root of a tool's schema.
const ROOT_UNIONS: [&str; 3] = ["anyOf", "oneOf", "allOf"];

/// A tool and its input schema.
pub(super) struct ToolSchema {
    pub(super) name: ToolName,
    pub(super) schema: Value,
}

/// Those that are pinned.
pub(super) fn pinned(policy: &Policy) -> Vec<ToolSchema> {
    let pins = policy.pins.pins();
    let tools = pins.filter_map(|(server, tool, pin)| {
        Some(ToolSchema {
            name: ToolName::of(server, tool),
            schema: pin.definition.get("inputSchema")?.value(),
        })
    });
    tools.collect()
}

/// A warning for each caller that is concerned; one whose configuration says which schemas it is
/// shown is not.
pub(super) fn judge(
    configuration: &Path,
    policy: &Policy,
    tools: &[ToolSchema],
) -> Vec<Diagnostic> {
    let mut unions: Vec<&ToolSchema> = tools.iter().filter(|tool| is_union(&tool.schema)).collect();
    unions.sort_by(|one, other| one.name.cmp(&other.name));
    if unions.is_empty() {
        return Vec::new();
    }
    let document = YamlDocument::read(configuration).ok();
    let callers = policy.identity.callers().iter().enumerate();
    let one = |(index, caller): (usize, &std::sync::Arc<Caller>)| {
        let document = document.as_ref()?;
        let written = &document.tree()["callers"][index];
        let is_said = !written["schemas"]["profile"].is_null();
        if caller.model.is_some() || caller.reads.profile != Profile::None || is_said {
            return None;
        }
        let seen: Vec<&str> = unions
            .iter()
            .filter(|tool| sees(policy, caller, &tool.name))
            .map(|tool| tool.name.as_str())
            .collect();
        let path = vec!["callers".to_owned(), index.to_string(), "agent".to_owned()];
        Some(document.locate(Problem {
            part: None,
            severity: Severity::Warning,
            path,
            message: words(caller, &seen)?,
            hint: Some(
                "give the caller its `model`, such as `openai/gpt-5`, or `schemas: { profile: portable }`"
                    .to_owned(),
            ),
        }))
    };
    callers.filter_map(one).collect()
}

fn words(caller: &Caller, seen: &[&str]) -> Option<String> {
    let more = seen.len().saturating_sub(MAX_TOOLS_NAMED);
    let shown = seen.get(..seen.len() - more)?.join(", ");
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    (!seen.is_empty()).then(|| {
        format!(
            "the caller `{}` has no `model`, and providers refuse or drop tools whose schema is a choice at its root: {shown}{more}",
            caller.agent
        )
    })
}

fn is_union(schema: &Value) -> bool {
    ROOT_UNIONS
        .iter()
        .any(|keyword| schema.get(keyword).is_some())
}

fn sees(policy: &Policy, caller: &Caller, tool: &ToolName) -> bool {
    let admitted = policy.allowlist.admit(caller, tool);
    admitted.is_ok_and(|admitted| policy.mode == Mode::Observe || admitted.would_refuse().is_none())
}
