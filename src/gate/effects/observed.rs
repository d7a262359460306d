//! Where nothing is enforced: which earlier call each regime would have given a call's answer from, so
//! that false joins are seen before anything is enforced. A count, in memory, since the start.

use crate::gate::call::Call;
use crate::gate::catalogue::tool::Tool;
use crate::gate::effects::Effects;
use crate::gate::effects::progress::{DoneCall, EndedAt, place_at};
use crate::guards::idempotency::{CallPlace, Regime, RegimeKeys, Rule};
use crate::model::digest::Digest;
use crate::model::ids::ActionId;
use crate::outlet::receipt::LaterCall;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;

/// Calls that are remembered. Of more, all are forgotten.
const MAX_OBSERVED_CALLS: usize = 1 << 16;

/// The calls that were observed, by the keys that each regime would have given them.
#[derive(Debug, Default)]
pub(in crate::gate) struct ObservedCalls(Mutex<HashMap<Digest, ObservedCall>>);

#[derive(Debug, Clone, Copy)]
struct ObservedCall {
    action: ActionId,
    /// Steady time of its arrival.
    at: Duration,
}

/// An observed call, and what it would be known by.
pub(in crate::gate) struct KeyObserved<'a> {
    pub(in crate::gate) call: &'a Call,
    pub(in crate::gate) tool: &'a Tool,
    pub(in crate::gate) rule: &'a Rule,
    pub(in crate::gate) place: CallPlace,
    pub(in crate::gate) now: Duration,
}

impl ObservedCalls {
    /// The call that holds `key` at `now`; else `own` holds it from now on.
    fn holder(
        &self,
        key: Digest,
        own: ObservedCall,
        is_over: impl Fn(ObservedCall) -> bool,
    ) -> Option<ObservedCall> {
        let mut known = self.0.lock();
        let before = known.get(&key).copied().filter(|before| !is_over(*before));
        if before.is_none() {
            if known.len() >= MAX_OBSERVED_CALLS {
                known.clear();
            }
            known.insert(key, own);
        }
        before
    }
}

impl Effects {
    /// The words of the regimes that would have joined the call to an earlier one. Takes note of it.
    pub(in crate::gate) fn would_join(&self, observed: &KeyObserved<'_>) -> Vec<&'static str> {
        let KeyObserved {
            call,
            tool,
            rule,
            place,
            now,
        } = *observed;
        let own = ObservedCall {
            action: call.judged.action,
            at: call.judged.arrived,
        };
        let keys = rule.keys_by_regime(&call.asked(tool, place));
        let since = |before: ObservedCall| now.saturating_sub(before.at);
        let mut joins = Vec::new();
        let RegimeKeys {
            given,
            declared,
            retry,
        } = keys;
        if let Some(given) = given {
            let is_over = |before| since(before) > rule.ttl();
            let holder = self.observed.holder(given, own, is_over);
            joins.extend(holder.map(|_| Regime::Keyed.word()));
        } else {
            let is_over = |before| since(before) > rule.declared_window();
            let holder = self.observed.holder(declared, own, is_over);
            joins.extend(holder.map(|_| Regime::Declared.word()));
        }
        let at = place_at(place, &tool.server.settings.name);
        let later = LaterCall {
            arrived: call.origin.arrived,
            is_named: place.is_named,
            now,
        };
        let shown = self.progress.shown(at, retry, later);
        self.progress.go_on(at, &shown);
        if given.is_none() {
            let is_over = |before: ObservedCall| {
                let ended = DoneCall {
                    key: retry,
                    action: before.action,
                };
                since(before) > rule.retry_window() || self.progress.has_gone_on(at, ended)
            };
            let holder = self.observed.holder(retry, own, is_over);
            let action = holder.unwrap_or(own).action;
            let ended = DoneCall { key: retry, action };
            let ended_at = EndedAt {
                place: at,
                caller: &call.origin.caller,
            };
            self.progress.remember(ended_at, ended, &call.receipt());
            let joins_only = tool.hints_idempotent();
            let regime = Regime::Reissue { joins_only };
            joins.extend(holder.filter(|_| !joins_only).map(|_| regime.word()));
        }
        joins
    }
}
