//! Looks at calls with an unknown outcome that nobody comes again for: by a timer (`reconcile`), and when
//! an operator wants it. Reads only, by the probe of the contract, asked and judged as for an agent that
//! comes again (guarantees §4). Nothing is ever sent again here.

pub(crate) mod schedule;

use crate::gate::Gate;
use crate::gate::record::probes::{MadeLook, SentAbout};
use crate::gate::steps::inquiry;
use crate::gate::steps::looking::{self, Look, LookPlace};
use crate::guards::Mode;
use crate::guards::idempotency::ProbeVerdict;
use crate::guards::identity::EntryMiss;
use crate::mcp::json::{AGENT_JSON_LIMITS, Text};
use crate::mcp::revision::{Era, Revision};
use crate::model::caller::Caller;
use crate::model::entry::Entry;
use crate::model::ids::{ActionId, UserId};
use crate::policy::Policy;
use crate::store::look_window::LookWindow;
use crate::store::operator::asking::{AskedOutcome, OutcomeAsker, Unasked};
use crate::store::state::claim::inquiry::KeptQuestion;
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::telemetry::traces::Trace;
use crate::upstream::links::Links;
use futures_util::FutureExt as _;
use futures_util::StreamExt as _;
use futures_util::future::BoxFuture;
use futures_util::stream;
use schedule::{CountedLook, LookSum, OpenAges};
use std::sync::Arc;
use std::time::Duration;

/// Looks under way at once: a server that does not answer keeps no other waiting.
const LOOKS_AT_ONCE: usize = 4;

/// Finds out what became of calls.
pub(crate) struct Reconciler {
    gate: Arc<Gate>,
    /// The shared links, of which each look has its own place.
    links: Arc<Links>,
    window: LookWindow,
}

/// Who wants the look.
#[derive(Debug, Clone, Copy)]
enum LookBy<'a> {
    Timer,
    Operator(&'a str),
}

/// A look, and what it comes to.
struct CountedOutcome {
    verdict: ProbeVerdict,
    fault: Option<String>,
    words: String,
    state: &'static str,
}

impl Reconciler {
    /// For the calls of `gate`, over `links`.
    pub(crate) fn new(gate: Arc<Gate>, links: Arc<Links>) -> Self {
        Self {
            gate,
            links,
            window: LookWindow::default(),
        }
    }

    /// Looks by the timer, where it is on, until toolgate ends.
    pub(crate) async fn run(self) {
        let Some(terms) = self.gate.watches.outcome_looks.terms() else {
            return;
        };
        let ending = self.gate.effects.ending.clone();
        let rounds = async {
            loop {
                tokio::time::sleep(terms.every).await;
                Box::pin(self.round()).await;
            }
        };
        tokio::select! {
            biased;
            () = ending.cancelled() => {}
            () = rounds => {}
        }
    }

    /// Looks at the calls that are due.
    async fn round(&self) {
        let gate = &*self.gate;
        // Where nothing is enforced, nothing waits for an end.
        if gate.policy.current().mode == Mode::Observe {
            return;
        }
        let store = &gate.effects.store;
        let is_open = |claim: &Claim| {
            let is_listened = gate.effects.inquiries.listened.is_listened(claim.action);
            is_unknown(claim) && question_of(claim).is_some() && !is_listened
        };
        let open = match self.window.next(&**store, is_open).await {
            Ok(open) => open,
            Err(error) => {
                tracing::warn!(%error, "calls with an unknown outcome are not looked at");
                return;
            }
        };
        let now = store.now();
        let unknown = |claim: &Claim| Duration::from_millis(now.saturating_sub(claim.changed));
        let calls = open.calls.iter();
        let open = OpenAges {
            ages: calls.map(|claim| (claim.action, unknown(claim))).collect(),
            is_all: open.is_all,
        };
        let due = gate.watches.outcome_looks.due(&open, gate.clock.steady());
        stream::iter(due)
            .for_each_concurrent(LOOKS_AT_ONCE, |action| async move {
                let looked = Box::pin(self.look(action, LookBy::Timer)).await;
                if let Err(unasked) = looked {
                    tracing::debug!(%action, %unasked, "an unknown outcome is not looked at");
                    gate.watches
                        .outcome_looks
                        .passed_over(action, gate.clock.steady());
                }
            })
            .await;
    }

    /// Looks at one call, tells the ledger, and ends it where that is proven.
    async fn look(&self, action: ActionId, by: LookBy<'_>) -> Result<CountedOutcome, Unasked> {
        let gate = &*self.gate;
        let inquiries = &gate.effects.inquiries;
        let _turn = inquiries.turns.try_enter(action).ok_or(Unasked::Busy)?;
        let store = &*gate.effects.store;
        let found = store.find(action).await?;
        let (key, claim) = found.ok_or(Unasked::NoClaim(action))?;
        if !is_unknown(&claim) {
            return Err(Unasked::NotUnknown(claim.phase.word()));
        }
        let question = question_of(&claim).ok_or(Unasked::NoQuestion)?;
        let asked = self.asked(&claim, question, by).await?;
        let (verdict, sum) = (asked.verdict, asked.sum);
        let phase = match sum {
            LookSum::Done => ClaimPhase::Completed(looking::keep_found(store, Era::Modern).await?),
            LookSum::NotDone => ClaimPhase::NotSent,
            LookSum::Absent(..) | LookSum::Early | LookSum::Open => claim.phase.clone(),
        };
        let state = phase.word();
        if !is_unknown_phase(&phase) {
            looking::end(store, key, action, phase).await?;
        }
        Ok(CountedOutcome {
            verdict,
            fault: asked.fault,
            words: sum.words(verdict),
            state,
        })
    }

    /// Asks the server in the name of the agent that made the call, and counts and records what it says.
    async fn asked(
        &self,
        claim: &Claim,
        question: &KeptQuestion,
        by: LookBy<'_>,
    ) -> Result<CountedAnswer, Unasked> {
        let gate = &*self.gate;
        let policy = gate.policy.current();
        let probe = inquiry::probe_of(&policy, &claim.tool, question.probe);
        let probe = probe.ok_or(Unasked::OtherProbe)?;
        let caller = caller_of(&policy, claim, question)?;
        let links = Arc::new(self.links.alone());
        let tool = looking::tool_of(gate, &policy, &links, probe).ok_or(Unasked::NoTool)?;
        let kept = gate.content_keys.open_question(claim.action, question)?;
        let read = Text::read(kept.into_bytes().into(), &AGENT_JSON_LIMITS);
        let arguments = read.map_err(|_| Unasked::Damaged)?.value();
        let waiting = links.wait(&Text::string("")).map_err(|_| Unasked::Busy)?;
        let look = Look {
            place: LookPlace {
                caller: &caller,
                policy: &policy,
                links: &links,
                waiting: &waiting,
                meta: None,
            },
            probe,
            tool: &tool,
            arguments: &arguments,
            of: claim.action,
            since: gate.effects.since_sent(claim),
            has_begun: claim.answered.contains(&claim.brought),
        };
        let (answer, verdict) = look.made(gate).await;
        let inquiries = &gate.effects.inquiries;
        let counted = CountedLook {
            verdict,
            is_listened: inquiries.listened.is_listened(claim.action),
            since: look.since,
            now: gate.clock.steady(),
        };
        let sum = gate.watches.outcome_looks.count(claim.action, counted);
        let by = match by {
            LookBy::Timer => "the timer",
            LookBy::Operator(name) => name,
        };
        let made = MadeLook {
            sent: SentAbout::Look,
            asked: entry_of(&caller),
            of: claim.action,
            tool: &tool,
            arguments: &arguments,
            actions: vec!["read".to_owned()],
            answer: &answer,
            shown: format!("probe: {}, asked by {by}", sum.words(verdict)),
            policy: &policy.version,
        };
        made.record(gate);
        Ok(CountedAnswer {
            verdict,
            sum,
            fault: answer.fault,
        })
    }
}

/// What a server has said to a look, and what it comes to.
struct CountedAnswer {
    verdict: ProbeVerdict,
    sum: LookSum,
    fault: Option<String>,
}

impl OutcomeAsker for Reconciler {
    fn ask<'a>(
        &'a self,
        action: ActionId,
        who: &'a str,
    ) -> BoxFuture<'a, Result<AskedOutcome, Unasked>> {
        async move {
            let looked = self.look(action, LookBy::Operator(who)).await?;
            Ok(AskedOutcome {
                action_id: action.to_string(),
                found: looked.verdict.label().to_owned(),
                words: looked.words,
                fault: looked.fault,
                state: looked.state.to_owned(),
            })
        }
        .boxed()
    }
}

fn is_unknown(claim: &Claim) -> bool {
    is_unknown_phase(&claim.phase)
}

fn is_unknown_phase(phase: &ClaimPhase) -> bool {
    matches!(phase, ClaimPhase::Unknown { .. })
}

fn question_of(claim: &Claim) -> Option<&KeptQuestion> {
    claim.inquiry.as_ref()?.question.as_ref()
}

/// The caller that made the call, with the rights that it had, or as it is configured now.
fn caller_of(policy: &Policy, claim: &Claim, question: &KeptQuestion) -> Result<Caller, Unasked> {
    let (identity, tenant) = (&policy.identity, question.tenant.as_deref());
    let known = identity.entry_again(&claim.agent, tenant, question.caller.as_ref());
    let known = known.map_err(|miss| match miss {
        EntryMiss::Gone => Unasked::NoCaller,
        EntryMiss::OtherRights => Unasked::OtherRights,
    })?;
    Ok(match &claim.user {
        Some(named) => known.for_user(UserId::new(named)),
        None => Caller::clone(&known),
    })
}

/// What the entry of a look says that no message has asked for.
fn entry_of(caller: &Caller) -> Entry {
    Entry {
        trace_id: Trace::new().trace_id(),
        revision: Revision::NEWEST_MODERN.as_str().to_owned(),
        ..Entry::of_caller(caller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::caller::IssuedIdentity;

    /// A look is its caller's, whom the configuration names, or an issuer.
    #[test]
    fn the_entry_of_a_look_says_who_issued_its_caller() {
        let issued = IssuedIdentity {
            issuer: "https://id.example.com".to_owned(),
            subject: Some("ada".to_owned()),
            proof: None,
        };
        let caller = Caller {
            issued: Some(Arc::new(issued)),
            ..Caller::named("bot")
        };
        let entry = entry_of(&caller);
        assert_eq!(entry.issuer.as_deref(), Some("https://id.example.com"));
        assert_eq!(entry.subject.as_deref(), Some("ada"));
    }
}
