//! Refuses a call that confirms a draft which its task has not made.
//!
//! With idempotency: a confirmation that was given gets its answer again, however old its draft is;
//! before budget, so that one without a draft costs nothing (003-P4d). The ledger says which drafts
//! there are; here is only what a draft is.

use super::Section;
use crate::model::diagnostic::Problems;
use crate::model::ids::{ActionId, ToolName};
use crate::model::pointer::{is_pointer, steps};
use crate::model::refusal::{Refusal, RefusalCode, RefusalFacts, RefusalKind};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;

/// Which draft the call confirms.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Confirms")]
pub(crate) struct Settings {
    /// the tool that makes the draft: `server__tool`, of the same server
    pub tool: String,
    /// JSON pointer to the argument that names the draft
    pub draft: String,
    /// JSON pointer into the structured result of `tool` to that name [default: as `draft`].
    pub result: Option<String>,
}

/// As run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// The tool that makes the draft.
    pub tool: ToolName,
    draft: String,
    result: String,
}

pub(super) const DRAFT_REQUIRED: RefusalCode = RefusalCode {
    code: "draft_required",
    meaning: "the call confirms a draft that its task has not made",
    remedy: "make the draft with the tool that the answer names, then confirm that one",
    kind: RefusalKind::Other,
};

/// 003-P4d: the argument at `pointer` names no draft that `tool` has made.
pub(super) fn draft_required(pointer: &str, tool: &ToolName) -> Refusal {
    let facts = RefusalFacts {
        pointer: Some(pointer.to_owned()),
        ..RefusalFacts::new(
            &DRAFT_REQUIRED,
            format!("expected a draft that `{tool}` has made in this task"),
            "Make the draft first, then call again and name it.",
        )
    };
    facts.into()
}

/// What the call confirms, if it confirms anything, is a draft that its task has made.
#[must_use]
#[derive(Debug)]
pub struct Confirmed(Option<ActionId>);

// === impl Settings ===

impl Section for Settings {
    type Rule = Rule;
    const NAME: &'static str = "confirms";

    fn compile(self, problems: &mut Problems) -> Rule {
        let Self {
            tool,
            draft,
            result,
        } = self;
        for (key, pointer) in [("draft", Some(&draft)), ("result", result.as_ref())] {
            if pointer.is_some_and(|pointer| !is_pointer(pointer)) {
                problems.under(key, |problems| {
                    problems.error("not a JSON pointer", "write `/` and a name, such as `/id`");
                });
            }
        }
        let result = result.unwrap_or_else(|| draft.clone());
        Rule {
            tool: ToolName::new(&tool),
            draft,
            result,
        }
    }
}

// === impl Confirmed ===

impl Confirmed {
    /// The call that made the draft.
    pub fn draft(&self) -> Option<ActionId> {
        self.0
    }
}

// === impl Rule ===

impl Rule {
    /// A call of a contract that confirms nothing needs no draft.
    pub fn unneeded(rule: Option<&Self>) -> Option<Confirmed> {
        rule.is_none().then_some(Confirmed(None))
    }

    /// Confirms `draft`, a call of the rule's tool with its structured result, if that is what
    /// `arguments` name.
    pub fn confirm(&self, arguments: &Value, draft: ActionId, result: &Value) -> Option<Confirmed> {
        let named = arguments
            .pointer(&self.draft)
            .filter(|named| named.is_string() || named.is_i64() || named.is_u64())?;
        (result.pointer(&self.result) == Some(named)).then_some(Confirmed(Some(draft)))
    }

    /// The refusal, when no draft is the one.
    pub fn refuse(&self) -> Refusal {
        draft_required(&self.draft, &self.tool)
    }

    /// The argument that names the draft, as a pointer.
    pub fn draft(&self) -> &str {
        &self.draft
    }

    /// The same, as a path from the root.
    pub fn path(&self) -> Vec<String> {
        steps(&self.draft)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// 003-P4d: the argument names the draft exactly, or there is none.
    #[test]
    fn a_draft_is_confirmed_by_its_very_name() {
        let written = Settings {
            tool: "shop__draft".into(),
            draft: "/order/id".into(),
            result: Some("/id".into()),
        };
        let mut problems = Problems::default();
        let rule = written.compile(&mut problems);
        assert_eq!(problems.into_found(), []);
        let action = ActionId::generate();
        for (named, made, fits) in [
            (json!("o_1"), json!("o_1"), true),
            (json!(17), json!(17), true),
            (json!("17"), json!(17), false),
            (json!("o_1"), json!("o_2"), false),
            (json!(null), json!(null), false),
            (json!({}), json!({}), false),
        ] {
            let confirmed = rule.confirm(
                &json!({ "order": { "id": named } }),
                action,
                &json!({ "id": made }),
            );
            assert_eq!(confirmed.is_some(), fits, "{named} {made}");
            assert!(confirmed.is_none_or(|confirmed| confirmed.draft() == Some(action)));
        }
        assert!(
            rule.confirm(&json!({}), action, &json!({})).is_none(),
            "nothing is no name"
        );
        assert!(Rule::unneeded(Some(&rule)).is_none());
    }
}
