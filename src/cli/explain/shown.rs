//! How the caller's profile shows the tool, and what its schema no longer says; and how a call can be
//! taken back.

use super::Screen;
use super::steps::ExplainedSteps;
use crate::cli::ledger::text::plain;
use crate::gate::catalogue::view::variant_of;
use crate::gate::supposing::{Passed, Question, judge};
use crate::guards::ToolRules;
use crate::guards::rollback::{Rollback, Undo};
use crate::mcp::json::Text;
use crate::model::caller::Caller;
use crate::model::ids::ToolName;
use crate::model::reads::Profile;
use crate::model::refusal::Refusal;
use crate::model::times::told;
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

impl<'a> Screen<'a> {
    /// Judges the call; of one that is held it is said here how it is undone, since a person decides about it.
    pub(super) fn judged(&mut self, question: &Question<'_>) -> Result<Passed<'a>, Refusal> {
        let verdict = judge(self.policy, question, self);
        let is_held = matches!(verdict, Err(Refusal::ApprovalPending { .. }));
        let known = self.policy.allowlist.contract_of(question.tool);
        if let Some(whole) = known.filter(|_| is_held) {
            let variants = whole.variants.as_ref();
            let chosen = variants.and_then(|variants| variants.choose(question.arguments));
            undoing(&chosen.unwrap_or(whole).undo, &mut self.out);
        }
        verdict
    }
}

/// Whether and how the call can be undone, and for how long after its end.
pub(super) fn undoing(undo: &Undo, out: &mut ExplainedSteps) {
    match undo {
        Undo::Unsaid => {}
        Undo::Call(Rollback { tool, within, .. }) => {
            let within = told(*within);
            let words =
                format!("an operator can have it taken back by {tool}, for {within} after its end");
            out.add("undo", "possible", words);
        }
        Undo::Manual(how) => out.add("undo", "by hand", plain(how)),
        Undo::Additive => out.add("undo", "no need", "nothing is lost"),
        Undo::Irreversible => out.add("undo", "never", "nothing takes it back"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use std::time::Duration;

    /// 003-52: each word that a contract has for undoing, and until when; nothing where it has none.
    #[test]
    fn each_way_of_undoing_is_told() {
        let call = |within: Duration| {
            Undo::Call(Rollback {
                tool: ToolName::new("bank__undo"),
                arguments: Map::new(),
                within,
                check: None,
                by_agent: false,
            })
        };
        let by_hand = Undo::Manual("ask the bank\u{1b}[2K".to_owned());
        for (undo, expected) in [
            (Undo::Unsaid, ""),
            (
                call(Duration::from_hours(24)),
                "possible an operator can have it taken back by bank__undo, for 24 h after its end",
            ),
            (
                call(Duration::from_mins(1)),
                "possible an operator can have it taken back by bank__undo, for 1 min after its end",
            ),
            (by_hand, "by hand  ask the bank\\u{1b}[2K"),
            (Undo::Additive, "no need  nothing is lost"),
            (Undo::Irreversible, "never    nothing takes it back"),
        ] {
            let mut out = ExplainedSteps::under(String::new());
            undoing(&undo, &mut out);
            let said = out.to_string();
            let said = said.strip_prefix("  undo        ").unwrap_or(&said);
            assert_eq!(said.trim_end(), expected, "{undo:?}");
        }
    }
}
