//! Floor 4: the gate. A call is read in three files: [`pipeline`] is the order of its steps, `live`
//! what each of them asks, `ending` how every call ends. [`catalogue::list`] is what a caller may
//! see; both ask the same guards.

pub mod call;
mod case;
pub mod catalogue;
pub mod effects;
mod ending;
pub(crate) mod grant_rules;
mod live;
mod observing;
pub mod own_tasks;
pub mod pipeline;
pub(crate) mod prepare;
pub(crate) mod reconciling;
pub mod record;
pub(crate) mod steps;
pub(crate) mod supposing;
pub(crate) mod undoing;
pub mod vault;

use crate::mcp::round::RoundSeal;
use crate::model::approvers::ApproversInForce;
use crate::model::clock::Clock;
use crate::model::content::ContentForm;
use crate::model::refusal::Refusal;
use crate::policy::live::LivePolicy;
use crate::side::{Sides, sums::LedgerSums};
use crate::store::content_key::ContentKeys;
use crate::store::hold_looks::HoldLooks;
use crate::store::journal::{Item, Journal, JournalError};
use crate::telemetry::metrics::Metrics;
use case::Subject;
use catalogue::toolbox::Toolbox;
use catalogue::unlisted;
use effects::Effects;
use effects::slots::{Slot, Slots};
use own_tasks::OwnTasks;
use reconciling::schedule::LookSchedule;
use record::hook_events::Hooks;
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// What a call needs beside itself.
pub struct Gate {
    /// The policy, as it stands.
    pub policy: Arc<LivePolicy>,
    /// The tools of all servers, as they stand.
    pub tools: Arc<Toolbox>,
    /// Where every judged call is recorded.
    pub journal: Arc<Journal>,
    /// Claims, budgets and fences.
    pub effects: Effects,
    /// What goes beside calls.
    pub sides: Arc<Sides>,
    /// What operators count.
    pub metrics: Arc<Metrics>,
    /// The time.
    pub clock: Clock,
    /// Listings already made.
    pub listings: catalogue::list::Listings,
    /// Secrets, fetched.
    pub vault: vault::Vault,
    /// The way to the operator's hooks.
    pub hooks: Hooks,
    /// Who may decide about calls that are held.
    pub approvers: ApproversInForce,
    /// Where these people reach the operators' door, without a slash at the end; none: nobody said.
    pub public_url: Option<String>,
    /// Calls of tasks that were refused last.
    pub rows: effects::refusal_streaks::Rows,
    /// What makes no promise, on its way into the ledger.
    pub sums: Arc<LedgerSums>,
    /// What the contents that the ledger keeps are encrypted with.
    pub content_keys: Arc<ContentKeys>,
    /// How much it keeps in observe mode of a call of which no contract says it.
    pub observed_contents: ContentForm,
    /// For what a tool server wants back with the answers to its questions.
    pub seal: Arc<RoundSeal>,
    /// Room for calls.
    pub slots: Slots,
    /// Held calls that are their agents' tasks.
    pub own_tasks: OwnTasks,
    /// What looks on beside the calls.
    pub watches: GateWatches,
}

/// What goes on beside the calls.
#[derive(Default)]
pub struct GateWatches {
    /// When operators have looked at held calls.
    pub(crate) looks: Arc<HoldLooks>,
    /// Looks at calls with an unknown outcome that no agent has come again for.
    pub(crate) outcome_looks: LookSchedule,
    /// What opens incidents by itself.
    pub(crate) breakers: record::breaking::BreakerWatch,
}

impl Gate {
    /// Queues what the ledger keeps of a call besides its entry: what is queued after it is durable
    /// after it.
    fn keep(&self, contents: Vec<Item>) -> Result<(), JournalError> {
        if contents.is_empty() {
            return Ok(());
        }
        self.journal.append_unless_crowded(contents).map(drop)
    }

    /// Room for one more call in flight, of a tool that nobody has taken away while the call waited
    /// (003-41).
    fn slot(&self, subject: &Subject<'_>) -> Result<Slot, Refusal> {
        let now = self.policy.current();
        let tool = &subject.tool;
        if now.allowlist.is_disabled(&tool.name) || !unlisted::may_be_called(&now, tool) {
            return Err(Refusal::ToolNotAllowlisted);
        }
        let agent = &subject.call.origin.caller.agent;
        self.slots.take(agent).ok_or(Refusal::Overloaded)
    }
}
