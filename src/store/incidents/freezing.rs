//! What an incident makes of held calls and grants of its tools: neither lets a call run any more.

use super::record::Incident;
use crate::model::wildcard;
use crate::store::claims::{Store, StoreError};
use crate::store::state::command::{HoldVoid, RevokeGrant, StoreCommand, Withdraw};
use crate::store::state::hold::{HoldPhase, INCIDENT_SURFACE, MAX_DECISION_REASON_BYTES};

/// Held calls that are looked at: more than there can be at once (threat-model §8).
const MAX_HOLDS_VOIDED: usize = 100_000;

/// Grants that are looked at: far more than can cover a call at once, since those that have ended not long ago are
/// among them, and newer ones come first.
const MAX_GRANTS_REVOKED: usize = 100_000;

/// How many there were.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct FrozenCount {
    /// Held calls that are void now.
    pub voided: usize,
    /// Grants that are revoked now.
    pub revoked: usize,
}

/// Voids what is held of the incident's tools, durably, and revokes what is granted. What is void or
/// revoked already does not count, so that it can be done again.
pub(super) async fn freeze(
    store: &dyn Store,
    incident: &Incident,
) -> Result<FrozenCount, StoreError> {
    let voided = void(store, incident).await?;
    let revoked = revoke(store, incident).await?;
    Ok(FrozenCount { voided, revoked })
}

/// Voids what is held of the incident's tools, durably; how many calls.
pub(super) async fn void(store: &dyn Store, incident: &Incident) -> Result<usize, StoreError> {
    let mut voided = 0;
    for (key, hold) in store.holds(MAX_HOLDS_VOIDED).await? {
        let may_run = matches!(hold.phase, HoldPhase::Pending | HoldPhase::Allowed);
        if !may_run || !names(incident, hold.question.tool.as_str()) {
            continue;
        }
        let withdraw = Withdraw {
            key,
            id: hold.id,
            who: incident.who.clone(),
            void: Some(HoldVoid {
                surface: INCIDENT_SURFACE,
                why: words(incident),
            }),
        };
        let told = store.run(StoreCommand::Withdraw(withdraw), None).await?;
        voided += usize::from(told.is_ok());
    }
    Ok(voided)
}

/// Revokes what is granted of the incident's tools, durably; how many grants.
pub(super) async fn revoke(store: &dyn Store, incident: &Incident) -> Result<usize, StoreError> {
    let mut revoked = 0;
    for grant in store.grants(MAX_GRANTS_REVOKED).await? {
        let is_over = grant.revoked.is_some() || grant.until <= store.now();
        if is_over || !names(incident, grant.scope.tool.as_str()) {
            continue;
        }
        let revoke = RevokeGrant {
            id: grant.id,
            who: incident.who.clone(),
            why: words(incident),
        };
        let told = store.run(StoreCommand::Revoke(revoke), None).await?;
        revoked += usize::from(told.is_ok());
    }
    Ok(revoked)
}

/// Whether the incident freezes `tool` while it is open.
pub(super) fn names(incident: &Incident, tool: &str) -> bool {
    wildcard::matches(&incident.scope, tool, false)
}

/// Why, where an operator's reason stands: no longer than one may be.
fn words(incident: &Incident) -> String {
    let mut words = format!("incident {}: {}", incident.id, incident.why);
    if words.len() > MAX_DECISION_REASON_BYTES {
        let most = words.floor_char_boundary(MAX_DECISION_REASON_BYTES);
        words.truncate(most);
    }
    words
}
