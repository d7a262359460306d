//! Floor 4: the gate. [`call`] is the pipeline, [`list`] what a caller may see; both ask the same
//! guards.

mod bill;
pub mod call;
mod case;
mod collisions;
mod counting;
mod deliver;
mod dispatch;
mod drafts;
pub mod effects;
mod ending;
pub mod findings;
pub mod fit;
pub mod hidden;
mod holding;
pub mod hops;
pub mod judge;
mod judging;
mod late;
pub mod list;
mod live;
mod notes;
mod observing;
pub mod pinned;
pub mod pipeline;
pub mod placing;
pub mod prepare;
mod probing;
mod proof;
pub mod record;
pub mod rewriting;
mod rounds;
pub mod rows;
mod sealing;
mod shaper;
pub mod shown;
pub mod slots;
mod states;
pub mod supposing;
mod taken;
pub mod telling;
pub mod timing;
pub mod toolbox;
pub mod vault;

use crate::mcp::round::RoundSeal;
use crate::model::approvers::Approvers;
use crate::model::clock::Clock;
use crate::model::refusal::Refusal;
use crate::policy::live::LivePolicy;
use crate::side::{Sides, sums::LedgerSums};
use crate::store::journal::Journal;
use crate::telemetry::metrics::Metrics;
use case::Subject;
use effects::Effects;
use slots::{Slot, Slots};
use std::sync::Arc;
use telling::Hooks;
use toolbox::Toolbox;

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
    pub listings: list::Listings,
    /// Secrets, fetched.
    pub vault: vault::Vault,
    /// The way to the operator's hooks.
    pub hooks: Hooks,
    /// Who may decide about calls that are held.
    pub approvers: Approvers,
    /// Calls of tasks that were refused last.
    pub rows: rows::Rows,
    /// What makes no promise, on its way into the ledger.
    pub sums: Arc<LedgerSums>,
    /// For what a tool server wants back with the answers to its questions.
    pub seal: Arc<RoundSeal>,
    /// Room for calls.
    pub slots: Slots,
}

impl Gate {
    /// Room for one more call in flight, of a tool that nobody has taken away while the call waited
    /// (003-41).
    fn slot(&self, subject: &Subject<'_>) -> Result<Slot, Refusal> {
        let now = self.policy.current();
        if now.allowlist.is_disabled(&subject.tool.name) {
            return Err(Refusal::ToolNotAllowlisted);
        }
        let agent = &subject.call.origin.caller.agent;
        self.slots.take(agent).ok_or(Refusal::Overloaded)
    }
}
