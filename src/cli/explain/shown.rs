//! How the caller's profile shows the tool, and what its schema no longer says; and how a call can be
//! taken back.

use super::steps::ExplainedSteps;
use crate::gate::catalogue::view::variant_of;
use crate::guards::ToolRules;
use crate::guards::rollback::Undo;
use crate::mcp::json::Text;
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::model::reads::Profile;
use crate::model::refusal::Refusal;
use crate::schema::limits;
use crate::schema::validate::Schema;
use serde_json::{Value, json};
use std::borrow::Cow;

/// A tool that the caller may see.
#[derive(Clone, Copy)]
pub(super) struct AdmittedTool<'a> {
    pub(super) name: &'a ToolName,
    pub(super) rules: &'a ToolRules,
    pub(super) schema: &'a Schema,
}

/// Writes what there is to say, and reads `arguments` back.
pub(super) fn read_back<'a>(
    caller: &Caller,
    tool: AdmittedTool<'_>,
    arguments: &'a Value,
    out: &mut ExplainedSteps,
) -> Result<Cow<'a, Value>, Refusal> {
    let AdmittedTool {
        name: tool,
        rules,
        schema,
    } = tool;
    let profile = caller.reads.profile;
    let alphabet = limits::of(profile).tool_name.within(&caller.reads.caps);
    if !alphabet.takes(tool.as_str()) {
        out.add("shown", "renamed", alphabet.fit(tool.as_str()));
    }
    if profile == Profile::None {
        return Ok(Cow::Borrowed(arguments));
    }
    let key = rules
        .idempotency
        .as_ref()
        .and_then(|rule| rule.shown(schema));
    let written = Text::of(&json!({ "inputSchema": schema.source() }));
    let variant = match variant_of(&written, key, profile) {
        Ok(variant) => variant,
        Err(unfit) => {
            let words = format!("profile {profile} cannot show the tool: {unfit}");
            out.add("shown", "refused", words);
            return Err(Refusal::ToolNotAllowlisted);
        }
    };
    let words = format!("in profile {profile}, by limits of {}", limits::as_of());
    out.add("shown", "passed", words);
    for loss in &variant.losses.named {
        out.more(loss);
    }
    if variant.losses.more > 0 {
        out.more(format!("and {} more", variant.losses.more));
    }
    for (name, shown) in variant.back.renamed() {
        out.more(format!("`{}` is shown as `{shown}`", name.escape_debug()));
    }
    Ok(variant
        .back
        .read(arguments)?
        .map_or(Cow::Borrowed(arguments), Cow::Owned))
}

/// By which call an operator can have the call taken back, and for how long.
pub(super) fn undoing(undo: &Undo) -> Option<String> {
    let rollback = undo.call()?;
    let (tool, within) = (&rollback.tool, rollback.within.as_secs());
    Some(format!(
        "an operator can have it taken back by {tool}, for {within} s after its end"
    ))
}
