//! Standing grants at the operators' door.

use crate::guards::approval::grant_miss::{GrantDeath, GrantMiss};
use crate::guards::approval::{GrantJudge, GrantRules, GrantedCall};
use crate::model::ids::ToolName;
use crate::store::approvals::editing::EditJudge;
use crate::store::state::Millis;
use crate::store::state::grant::Grant;
use crate::store::state::hold::HoldQuestion;
use crate::store::undos::{
    NoTaskUndo, NoUndo, TaskUndoReport, TaskUndoWord, UndoMaker, UndoReport, UndoWord,
};
use futures_util::FutureExt as _;
use futures_util::future::{BoxFuture, ready};
use serde_json::Value;
use std::sync::Arc;

/// Nothing can be granted.
pub(super) struct FixedRules;

impl GrantJudge for FixedRules {
    fn roles(&self, _: &ToolName) -> Vec<String> {
        vec!["approver".to_owned()]
    }

    fn rules(&self, _: &ToolName, _: &Value) -> Result<GrantRules, GrantMiss> {
        Err(GrantMiss::Unasked)
    }

    fn bound_to(&self, _: &ToolName, _: &str, _: Option<&str>) -> String {
        String::new()
    }

    fn dead(&self, _: &Grant) -> Option<GrantDeath> {
        None
    }

    fn misses(&self, _: &Grant, _: &GrantedCall, _: Millis) -> Vec<GrantMiss> {
        Vec::new()
    }

    fn flaws(&self, _: &Grant) -> Vec<GrantMiss> {
        Vec::new()
    }
}

/// Nothing was carried out.
impl UndoMaker for FixedRules {
    fn undo(self: Arc<Self>, word: UndoWord) -> BoxFuture<'static, Result<UndoReport, NoUndo>> {
        ready(Err(NoUndo::NoCall(word.of))).boxed()
    }

    fn undo_task(
        self: Arc<Self>,
        word: TaskUndoWord,
    ) -> BoxFuture<'static, Result<TaskUndoReport, NoTaskUndo>> {
        ready(Err(NoTaskUndo::Unfit(word.why))).boxed()
    }
}

/// Every change could have been sent.
impl EditJudge for FixedRules {
    fn unfit<'a>(&'a self, _: &'a HoldQuestion, _: &'a Value) -> BoxFuture<'a, Option<String>> {
        ready(None).boxed()
    }
}
