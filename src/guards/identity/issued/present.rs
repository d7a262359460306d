//! Who came by a token, for what looks for an agent between its messages. Bounded: an issuer names as
//! many agents, tenants and roles as it likes.

use crate::model::caller::Caller;
use crate::model::ids::TenantId;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// Callers that are remembered.
const MAX_PRESENT_CALLERS: usize = 4096;

/// Those who came, each without the person it acted for.
#[derive(Debug, Default)]
pub(super) struct PresentCallers(Mutex<HashMap<PresentKey, PresentCaller>>);

/// Agent, tenant and roles.
type PresentKey = (String, Option<String>, Vec<String>);

#[derive(Debug, Clone)]
struct PresentCaller {
    caller: Arc<Caller>,
    /// Until when its last token counts, in seconds since 1970.
    until: f64,
}

impl PresentCallers {
    /// `caller` came by a token that counts until `until`. Where there is no room, the one makes room
    /// whose token has been over for longest, or is so first.
    pub(super) fn came(&self, caller: &Caller, until: f64, now: f64) {
        let mut known = self.0.lock();
        let key = key(caller);
        if let Some(there) = known.get_mut(&key) {
            there.until = there.until.max(until);
            return;
        }
        if known.len() >= MAX_PRESENT_CALLERS {
            known.retain(|_, one| now < one.until);
        }
        if known.len() >= MAX_PRESENT_CALLERS {
            let first = known
                .iter()
                .min_by(|(_, one), (_, other)| one.until.total_cmp(&other.until));
            let first = first.map(|(key, _)| key.clone());
            first.and_then(|key| known.remove(&key));
        }
        let caller = Arc::new(Caller {
            issued: None,
            ..caller.as_agent()
        });
        known.insert(key, PresentCaller { caller, until });
    }

    /// Those of that name and tenant, whether or not their tokens count still.
    pub(super) fn of(&self, agent: &str, tenant: Option<&str>) -> Vec<Arc<Caller>> {
        let known = self.0.lock();
        let is_one = |caller: &&Arc<Caller>| {
            let own = caller.tenant.as_ref().map(TenantId::as_str);
            caller.agent.as_str() == agent && own == tenant
        };
        let callers = known.values().map(|one| &one.caller);
        callers.filter(is_one).cloned().collect()
    }

    /// Those whose token counts at `now`.
    pub(super) fn at(&self, now: f64) -> Vec<Arc<Caller>> {
        let known = self.0.lock();
        let there = known.values().filter(|one| now < one.until);
        there.map(|one| one.caller.clone()).collect()
    }

    /// Remembers those whom `before` has and who are `still` the same.
    pub(super) fn take_over(&self, before: &Self, still: impl Fn(&Caller) -> bool) {
        let mut known = self.0.lock();
        for (key, one) in before.0.lock().iter().filter(|(_, one)| still(&one.caller)) {
            known.entry(key.clone()).or_insert_with(|| one.clone());
        }
    }
}

fn key(caller: &Caller) -> PresentKey {
    let tenant = caller.tenant.as_ref().map(ToString::to_string);
    (caller.agent.to_string(), tenant, caller.roles.clone())
}
