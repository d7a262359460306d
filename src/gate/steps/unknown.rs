//! Step 8, when it is unknown whether the call has run and the same call comes again: what can still
//! find that out, in the order of guarantees §4. First the tool server's own key, then a look.

use crate::gate::Gate;
use crate::gate::case::{SealedCall, Subject};
use crate::gate::effects::unavailable;
use crate::gate::record::probes::{LookAnswer, MadeLook, SentAbout};
use crate::gate::record::timing::StageTimer;
use crate::gate::record::{entry_of, said};
use crate::gate::steps::cleared::{Cleared, Stamp};
use crate::gate::steps::deliver::Delivery;
use crate::gate::steps::deliver::resend::{ResentCall, resend};
use crate::gate::steps::inquiry;
use crate::gate::steps::probing;
use crate::gate::steps::secrets::seal;
use crate::guards::idempotency::{Keyed, Rule};
use crate::mcp::json::Text;
use crate::model::digest::Digest;
use crate::model::entry::Entry;
use crate::model::ids::ActionId;
use crate::model::refusal::Refusal;
use crate::store::claims::StoreError;
use crate::store::state::claim::{Claim, ClaimPhase};
use crate::store::state::command::{Settle, StoreCommand};
use crate::store::state::settlement::Evidence;
use crate::store::state::undo::AnswerWorth;
use bytes::Bytes;
use std::time::Duration;

/// How long a call waits for its turn to find out.
const TURN_PATIENCE: Duration = Duration::from_secs(45);

/// Finds out what became of `action`: when that is known afterwards, the key can be looked at again.
/// One call at a time does.
pub(in crate::gate) async fn resolve(
    gate: &Gate,
    subject: &Subject<'_>,
    keyed: &Keyed,
    action: ActionId,
    timer: &mut StageTimer,
) -> Result<(), Refusal> {
    let turn = gate.effects.inquiries.turns.enter(action);
    let turn = tokio::select! {
        biased;
        _ = subject.call.origin.gone() => return Err(Refusal::CancelledUnsent { hold: None }),
        turn = tokio::time::timeout(TURN_PATIENCE, turn) => turn,
    };
    let _turn = turn.map_err(|_| Refusal::OutcomeUnknown)?;
    if Box::pin(by_key(gate, subject, keyed, action, timer)).await? {
        return Ok(());
    }
    Box::pin(probing::resolve(gate, subject, keyed, action, timer)).await
}

/// The second proof: the call is sent again under the key that it carried, while its server remembers
/// that. True: something is known by now.
async fn by_key(
    gate: &Gate,
    subject: &Subject<'_>,
    keyed: &Keyed,
    action: ActionId,
    timer: &mut StageTimer,
) -> Result<bool, Refusal> {
    let effects = &gate.effects;
    let Some(rule) = subject.rules.idempotency.as_ref() else {
        return Ok(false);
    };
    let known = effects.store.find(action).await.map_err(unavailable)?;
    let Some((key, claim)) = known else {
        return Ok(false);
    };
    let again = CallAgain {
        subject,
        rule,
        keyed,
        key,
        claim: &claim,
    };
    let now = effects.store.now();
    let inquiries = &effects.inquiries;
    let waits = inquiries.listened.is_listened(action) || inquiries.resends.is_paused(&claim, now);
    if waits || !again.tells_copies_apart(now) {
        return Ok(false);
    }
    // Without room for it, or its session's turn, the outcome stays unknown for now.
    let Ok(_slot) = gate.slot(subject) else {
        return Ok(false);
    };
    let Ok(_lease) = effects.lanes.enter(claim.session).await else {
        return Ok(false);
    };
    // It has waited for its session's turn: what was found may not be so any more.
    let known = effects.store.find(action).await.map_err(unavailable)?;
    let is_unknown = known.is_some_and(|(_, claim)| is_unknown(&claim));
    if !is_unknown {
        return Ok(true);
    }
    let now = effects.store.now();
    if !again.tells_copies_apart(now) || !inquiries.resends.begin(&claim, now) {
        return Ok(false);
    }
    again.sent(gate, timer).await
}

fn is_unknown(claim: &Claim) -> bool {
    matches!(claim.phase, ClaimPhase::Unknown { .. })
}

/// A call that comes again, and the claim of the one that may have run.
struct CallAgain<'a> {
    subject: &'a Subject<'a>,
    rule: &'a Rule,
    keyed: &'a Keyed,
    /// What the claim stands under.
    key: Digest,
    claim: &'a Claim,
}

impl CallAgain<'_> {
    /// Whether the server takes the call, sent as it is now, for the one that it may have: it is the very
    /// same call, it carries the key that was sent, to where that was sent, and the server remembers it
    /// still. What an earlier policy did not send, no server knows.
    fn tells_copies_apart(&self, now: u64) -> bool {
        let Self {
            subject,
            rule,
            keyed,
            key,
            claim,
        } = *self;
        let Some(upstream) = rule.upstream().filter(|_| rule.attempts() > 1) else {
            return false;
        };
        let is_same_call = key == keyed.call_key()
            && claim.fingerprint == keyed.fingerprint()
            && claim.edited.is_none()
            && subject.call.edit().is_none()
            && subject.call.round().is_none()
            && !claim.has_rounds();
        let sent = claim.inquiry.as_ref().and_then(|inquiry| inquiry.sent_key);
        let own = keyed.upstream_key(claim.action);
        let own = inquiry::sent_key(&subject.tool, upstream, &own);
        let age = Duration::from_millis(now.saturating_sub(claim.began));
        is_unknown(claim) && is_same_call && sent == Some(own) && age < upstream.trusted
    }

    /// Sends it, with the key that it carried; tells the ledger, and ends the call where a good answer
    /// comes.
    async fn sent(&self, gate: &Gate, timer: &mut StageTimer) -> Result<bool, Refusal> {
        let Self {
            subject,
            rule,
            keyed,
            key,
            claim,
        } = *self;
        let (effects, action) = (&gate.effects, claim.action);
        // Without its secrets it is another call.
        let Ok(sealed) = seal(gate, &subject.call.origin.policy, subject).await else {
            return Ok(false);
        };
        // It leaves under a new token, as each call of its session does: a server that cooperates refuses the
        // sending before, should that come after all.
        let (token, session) = (effects.store.token(), claim.session);
        let fence = StoreCommand::Fence { session, token };
        let fenced = effects.store.run(fence, None).await.map_err(unavailable)?;
        if fenced.is_err() {
            return Ok(false);
        }
        let delivery = Delivery::of(SealedCall {
            subject: subject.clone(),
            cleared: Cleared::Claimed(Stamp::of_claim(claim, token, rule, keyed)),
            sealed,
        });
        let begun = gate.clock.steady();
        let ResentCall {
            answer,
            cost,
            worth,
            late,
            told,
        } = resend(&*effects.store, action, delivery, rule).await;
        let took = gate.clock.steady().saturating_sub(begun);
        timer.looked(took);
        effects
            .inquiries
            .resends
            .given_up(action, effects.store.now());
        self.record(gate, token, &LookAnswer { took, ..told }, answer.is_some());
        if let Some(mut late) = late {
            late.exchange = effects.inquiries.listened.until_end(action, late.exchange);
            late.listen(effects.store.clone(), key, action);
        }
        let Some(answer) = answer else {
            return Ok(false);
        };
        let body = answer.body.as_ref().map_or_else(Bytes::new, Text::bytes);
        let ended = self.end(gate, body, cost, worth).await;
        ended.map_err(unavailable).map(|()| true)
    }

    /// A late answer, a look or an operator may have been quicker.
    async fn end(
        &self,
        gate: &Gate,
        body: Bytes,
        cost: Option<u64>,
        worth: AnswerWorth,
    ) -> Result<(), StoreError> {
        let (store, action) = (&gate.effects.store, self.claim.action);
        let stored = store.keep(false, body).await?;
        let settle = Settle {
            key: self.key,
            action,
            phase: ClaimPhase::Completed(stored),
            evidence: Evidence::UpstreamKey,
            cost,
            failed: false,
            seen: None,
            worth,
        };
        store.run(StoreCommand::Settle(settle), None).await?.ok();
        gate.effects.inquiries.resends.forget(action);
        tracing::info!(%action, "its server's own key ends an unknown outcome");
        Ok(())
    }

    fn record(&self, gate: &Gate, token: u64, answer: &LookAnswer, is_known: bool) {
        let Subject { call, tool, rules } = self.subject;
        let shown = if is_known {
            "it has run"
        } else {
            "proves nothing"
        };
        let made = MadeLook {
            sent: SentAbout::Resend,
            asked: Entry {
                task: said(call.judged.said.task.as_ref()),
                fence: Some(token),
                ..entry_of(&call.judged, &call.origin.caller)
            },
            of: self.claim.action,
            tool,
            arguments: &call.judged.arguments,
            actions: rules.actions.clone(),
            answer,
            shown: format!("upstream key: {shown}"),
            policy: &call.origin.policy.version,
        };
        made.record(gate);
    }
}
