//! Which draft a call confirms: one that its task has made, as the ledger has it (003-P4d).

use crate::gate::case::Subject;
use crate::gate::effects::Effects;
use crate::gate::effects::bill::Bill;
use crate::gate::effects::of_task;
use crate::gate::effects::unavailable;
use crate::guards::confirms::Confirmed;
use crate::guards::confirms::Rule;
use crate::mcp::json::{SERVER_JSON_LIMITS, Text};
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::store::state::claim::ClaimPhase;
use serde_json::Value;

impl Effects {
    /// Step 8, for a first arrival: finds the draft among the last calls with side effects of the
    /// call's task, the newest first. What they were answered is durable, and so is what is
    /// found.
    pub(in crate::gate) async fn confirm(
        &self,
        subject: &Subject<'_>,
        bill: &Bill,
    ) -> Result<Confirmed, Refusal> {
        let (rule, arguments) = (&subject.rules.confirms, &subject.call.judged.arguments);
        match (Rule::unneeded(rule.as_ref()), rule) {
            (Some(unneeded), _) => Ok(unneeded),
            (None, Some(rule)) => self.draft(rule, arguments, bill).await,
            (None, None) => Err(Refusal::InternalError),
        }
    }

    async fn draft(
        &self,
        rule: &Rule,
        arguments: &Value,
        bill: &Bill,
    ) -> Result<Confirmed, Refusal> {
        let made = self
            .look(of_task(bill.task))
            .await?
            .task
            .map(|task| task.evidence)
            .unwrap_or_default();
        for action in made.into_iter().rev() {
            let Some(result) = self.made(rule, action).await? else {
                continue;
            };
            if let Some(confirmed) = rule.confirm(arguments, action, &result) {
                return Ok(confirmed);
            }
        }
        Err(rule.refuse())
    }

    /// The structured result of `action`, if it was a call of the rule's tool that has succeeded.
    async fn made(&self, rule: &Rule, action: ActionId) -> Result<Option<Value>, Refusal> {
        let Some((_, claim)) = self.store.find(action).await.map_err(unavailable)? else {
            return Ok(None);
        };
        let ClaimPhase::Completed(stored) = &claim.phase else {
            return Ok(None);
        };
        if claim.tool != rule.tool || stored.is_error {
            return Ok(None);
        }
        let body = self.store.body(stored).await.map_err(unavailable)?;
        // What two readers could read differently drafts nothing.
        let Ok(result) = Text::read(body, &SERVER_JSON_LIMITS) else {
            return Ok(None);
        };
        let has_failed = result.get("isError").is_some_and(|flag| flag.is_true());
        Ok(result
            .get("structuredContent")
            .filter(|_| !has_failed)
            .map(|structured| structured.value()))
    }
}
