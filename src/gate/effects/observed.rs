//! Where nothing is enforced: which earlier call each regime would have given a call's answer from, so
//! that false joins are seen before anything is enforced. A count, in memory, since the start.

use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::Effects;
use crate::gate::effects::looks::DoneCall;
use crate::gate::effects::progress::{EndedAt, place_at};
use crate::guards::idempotency::{CallPlace, Regime, RegimeKeys, Rule};
use crate::model::clock::Clock;
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::outlet::receipt::{LaterCall, Receipt};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// Calls that are remembered. Of more, all are forgotten.
const MAX_OBSERVED_CALLS: usize = 1 << 16;

/// The calls that were observed, by the keys that each regime would have given them.
#[derive(Default)]
pub(in crate::gate) struct ObservedCalls(Mutex<HashMap<Digest, ObservedCall>>);

#[derive(Clone)]
struct ObservedCall {
    action: ActionId,
    /// Steady time of its arrival.
    at: Duration,
    trace: Option<String>,
    /// Of its answer.
    receipt: Arc<Receipt>,
}

/// An observed call, and what it would be known by.
pub(in crate::gate) struct KeyObserved<'a> {
    pub(in crate::gate) call: &'a Call,
    pub(in crate::gate) tool: &'a Tool,
    pub(in crate::gate) rule: &'a Rule,
    pub(in crate::gate) place: CallPlace,
    pub(in crate::gate) now: Duration,
    pub(in crate::gate) clock: Clock,
}

impl ObservedCalls {
    fn get(&self, key: Digest) -> Option<ObservedCall> {
        self.0.lock().get(&key).cloned()
    }

    /// The call that holds `key`, unless it `is_over`; else `own` holds it from now on.
    fn holder(
        &self,
        key: Digest,
        own: &ObservedCall,
        is_over: impl Fn(&ObservedCall) -> bool,
    ) -> Option<ObservedCall> {
        let mut known = self.0.lock();
        let before = known.get(&key).filter(|before| !is_over(before)).cloned();
        if before.is_none() {
            if known.len() >= MAX_OBSERVED_CALLS {
                known.clear();
            }
            known.insert(key, own.clone());
        }
        before
    }
}

impl Effects {
    /// The words of the regimes that would have joined the call to an earlier one. Takes note of it.
    pub(in crate::gate) async fn would_join(
        &self,
        observed: &KeyObserved<'_>,
    ) -> Vec<&'static str> {
        let KeyObserved {
            call,
            tool,
            rule,
            place,
            now,
            ..
        } = *observed;
        let own = ObservedCall {
            action: call.judged.action,
            at: call.judged.arrived,
            trace: call.judged.said.trace.clone(),
            receipt: call.receipt(),
        };
        let RegimeKeys {
            given,
            declared,
            retry,
        } = rule.keys_by_regime(&call.asked(tool, place));
        let (key, regime, window) = match given {
            Some(given) => (given, Regime::Keyed, rule.ttl()),
            None => (declared, Regime::Declared, rule.declared_window()),
        };
        let is_over = |before: &ObservedCall| now.saturating_sub(before.at) > window;
        let holder = self.observed.holder(key, &own, is_over);
        let mut joins: Vec<&'static str> = holder.map(|_| regime.word()).into_iter().collect();
        let at = place_at(place, &tool.server.settings.name);
        let later = LaterCall {
            arrived: call.origin.arrived,
            is_named: place.is_named,
            now,
        };
        let shown = self.progress.shown(at, retry, later, observed.clock);
        self.progress.begun(at, Some(&shown));
        let joins_only = tool.hints_idempotent();
        if given.is_none() && self.would_repeat(observed, retry, own).await {
            joins.push(Regime::Reissue { joins_only }.word());
        }
        joins
    }

    /// Whether `own`, which has the key `retry`, would be taken for an earlier call sent again.
    async fn would_repeat(
        &self,
        observed: &KeyObserved<'_>,
        retry: Digest,
        own: ObservedCall,
    ) -> bool {
        let KeyObserved {
            call, tool, rule, ..
        } = *observed;
        let at = place_at(observed.place, &tool.server.settings.name);
        let done = |before: &ObservedCall| DoneCall {
            key: retry,
            action: before.action,
        };
        if let Some(before) = self.observed.get(retry) {
            self.progress.looked(at, done(&before)).await;
        }
        let is_over = |before: &ObservedCall| {
            let since = observed.now.saturating_sub(before.at);
            if !before.receipt.is_delivered() {
                return since > rule.ttl();
            }
            if self.progress.has_gone_on(at, done(before)) {
                return true;
            }
            let is_traced = before.trace.is_some() && before.trace == own.trace;
            !is_traced && (tool.hints_idempotent() || since > rule.retry_window())
        };
        let holder = self.observed.holder(retry, &own, is_over);
        let ended = done(holder.as_ref().unwrap_or(&own));
        let ended_at = EndedAt {
            place: at,
            caller: &call.origin.caller,
        };
        self.progress.remember(ended_at, ended, &own.receipt);
        holder.is_some()
    }
}
