//! Answers that come after their call was given up: they are the truth about the effect, and end an unknown outcome
//! (SEMANTICS §4).

use super::proof::{self, Proof};
use super::trail::Broken;
use crate::guards::ToolRules;
use crate::mcp::json::Text;
use crate::mcp::message::Message;
use crate::model::ids::ActionId;
use crate::store::claims::Store;
use crate::store::state::claim::Phase;
use crate::store::state::command::{Command, Settle};
use crate::store::state::digest::Digest;
use crate::store::state::event::Evidence;
use crate::telemetry::tasks;
use bytes::Bytes;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// How long after its deadline an answer is still listened for.
pub(super) const LATEST: Duration = Duration::from_mins(10);

/// A call on its way.
pub(super) type Exchange = Pin<Box<dyn Future<Output = Result<Message, Broken>> + Send>>;

/// A call whose deadline has passed and whose answer may still come.
pub(super) struct Late {
    /// The rest of the exchange.
    pub(super) exchange: Exchange,
    /// What its contract says of errors.
    pub(super) rules: Arc<ToolRules>,
}

impl Late {
    /// Listens on; the call's claim is unknown until then.
    pub(super) fn listen(self, store: Arc<dyn Store>, key: Digest, action: ActionId) {
        tasks::spawn("late answer", async move {
            let Ok(ended) = tokio::time::timeout(LATEST, self.exchange).await else { return };
            let Ok(answer) = &ended else { return };
            let Some(rule) = &self.rules.idempotency else { return };
            let phase = match proof::of(&ended, rule) {
                Proof::Answered => {
                    let body = answer.body.as_ref().map_or_else(Bytes::new, Text::bytes);
                    match store.keep(answer.is_error, body).await {
                        Ok(stored) => Phase::Completed(stored),
                        Err(error) => {
                            tracing::error!(%action, %error, "a late answer cannot be kept; the outcome stays unknown");
                            return;
                        }
                    }
                }
                Proof::NotRun { again } => Phase::Failed { answer: None, again },
                Proof::Asked | Proof::NotSent | Proof::Unknown => return,
            };
            tracing::info!(%action, became = phase.word(), "a late answer ends an unknown outcome");
            let settle = Settle { key, action, phase, evidence: Evidence::Late, cost: None, failed: false, seen: None };
            match store.run(Command::Settle(settle), None).await {
                Ok(Ok(_)) => {}
                // Somebody has said meanwhile what became of it, and may have been wrong.
                Ok(Err(_)) => tracing::error!(%action, "a late answer came to a call that was settled without it"),
                Err(error) => {
                    tracing::error!(%action, %error, "a late answer cannot be recorded; the outcome stays unknown");
                }
            }
        });
    }
}
