//! What is read before and after a call is taken back, where its contract says what shows that: the
//! effect is there before, and gone afterwards.

use super::sending::{MadeCall, UndoEnd};
use super::{CallUndoer, UndoPlan};
use crate::gate::catalogue::pinned;
use crate::gate::record::is_tool_error;
use crate::guards::rollback::UndoCheck;
use crate::mcp::message::Message;
use crate::store::undos::NoUndo;
use serde_json::Value;

pub(super) const GONE_BEFORE: &str =
    "by its check the effect is gone already: nothing is there to take back";
const NO_READ: &str =
    "its check is no read, or no tool server lists it as an operator has approved it";

/// What a check has shown.
pub(super) enum CheckResult {
    /// The effect is gone.
    Gone,
    /// It is there.
    There,
    /// It could not be read; why.
    Unread(String),
}

impl CallUndoer {
    /// Before the call is made: that there is something to take back.
    pub(super) async fn is_there(&self, plan: &UndoPlan) -> Result<(), NoUndo> {
        let Some(check) = &plan.check else {
            return Ok(());
        };
        match self.look(plan, check).await? {
            CheckResult::There => Ok(()),
            CheckResult::Gone => Err(NoUndo::Lacking(GONE_BEFORE.to_owned())),
            CheckResult::Unread(why) => {
                Err(NoUndo::Lacking(format!("its check cannot be made: {why}")))
            }
        }
    }

    /// Afterwards: whether it is seen to be gone; none where nothing is to be looked for. What was made was
    /// made, whether it can be looked for or not.
    pub(super) async fn is_gone(&self, plan: &UndoPlan) -> Option<bool> {
        let check = plan.check.as_ref()?;
        let seen = self.look(plan, check).await;
        Some(matches!(seen, Ok(CheckResult::Gone)))
    }

    /// Reads, as a call of the agent like any other.
    async fn look(&self, plan: &UndoPlan, check: &UndoCheck) -> Result<CheckResult, NoUndo> {
        let lacking = || NoUndo::Lacking(NO_READ.to_owned());
        let tool = self.gate.tool_of(Some(&*self.links), &check.tool);
        let tool = tool.filter(|tool| pinned::is_offered(&plan.policy, tool));
        let tool = tool.ok_or_else(lacking)?;
        let arguments = Value::Object(check.arguments.clone());
        let admitted = plan.policy.allowlist.admit(&plan.caller, &tool.name);
        let admitted = admitted.map_err(|_| lacking())?.on(&arguments);
        if admitted.rules().side_effect {
            return Err(lacking());
        }
        let made = MadeCall {
            tool: &tool,
            arguments: &check.arguments,
            undoes: None,
        };
        let answer = self.answered(plan, made).await?;
        let result = answer.as_ref().filter(|answer| !answer.is_error);
        let result = result.and_then(|answer| answer.body.as_ref());
        let result = result.filter(|result| !is_tool_error(result));
        Ok(match result {
            Some(result) => {
                let structured = result.get("structuredContent");
                let structured = structured.map_or(Value::Null, |structured| structured.value());
                if check.holds(&structured) {
                    CheckResult::Gone
                } else {
                    CheckResult::There
                }
            }
            None => CheckResult::Unread(words_of(answer.as_ref())),
        })
    }
}

fn words_of(answer: Option<&Message>) -> String {
    UndoEnd::of(answer).words
}
