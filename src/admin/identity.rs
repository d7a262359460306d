//! One operator, by name and roles, and those in whose place the operator decides.

use crate::model::absence::{Absence, DecidingRight};
use crate::store::approvals::OpenHold;
use crate::store::state::Millis;

/// One operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperatorIdentity {
    /// The name, for the ledger.
    pub name: String,
    /// The operator's roles.
    pub roles: Vec<String>,
    /// Those for whom the operator decides while they are away.
    pub stands_in: Vec<Absence>,
}

impl OperatorIdentity {
    /// The roles by which the operator sees held calls at `now`.
    pub(super) fn seeing(&self, now: Millis) -> Vec<String> {
        let away = self.stands_in.iter().filter(|away| away.lasts(now));
        let theirs = away.flat_map(|away| &away.roles);
        self.roles.iter().chain(theirs).cloned().collect()
    }

    /// By whose right the operator may decide about `hold` at `now`, if at all.
    pub(super) fn right_to(&self, hold: &OpenHold, now: Millis) -> Option<DecidingRight> {
        if hold.is_decided_by(&self.name, &self.roles) {
            return Some(DecidingRight {
                roles: self.roles.clone(),
                on_behalf: None,
            });
        }
        // What one who is away may not decide, nobody decides for them; nor does a delegate their own.
        let mut away = self.stands_in.iter().filter(|away| away.lasts(now));
        let away = away.find(|away| {
            hold.is_decided_by(&away.name, &away.roles)
                && hold.is_decided_by(&self.name, &away.roles)
        })?;
        Some(DecidingRight {
            roles: away.roles.clone(),
            on_behalf: Some(away.name.clone()),
        })
    }
}
