//! What standing grants say of one call: the same words from a toolgate that runs, and from who only reads its
//! files.

use crate::guards::approval::grant_miss::{GrantDeath, GrantMiss};
use crate::guards::approval::{GrantJudge, GrantedCall};
use crate::store::grants::view::GrantView;
use crate::store::state::Millis;
use crate::store::state::grant::{Grant, GrantEnd};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The answer to what covers a call.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GrantsExplained {
    /// The grant that would cover it; none: a person is asked.
    pub covered_by: Option<String>,
    /// Why a person has to be asked whatever is granted, where that is so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub never: Option<String>,
    /// The grants for calls of the tool, or the one that was named.
    pub grants: Vec<GrantExplained>,
}

/// What one grant says of a call.
#[derive(Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GrantExplained {
    /// The grant.
    pub id: String,
    /// As [`GrantView::state`].
    pub state: String,
    /// Why it does not cover the call; none: it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub why: Option<String>,
    /// Each condition that does not hold.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub fails: Vec<FailedCondition>,
}

/// A condition of a grant that does not hold for a call.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FailedCondition {
    /// `agent`, `tenant`, `user`, `tool`, `definition`, `contract`, `operator`, `irreversible`, `beside`,
    /// `argument`, `total`, `uses`, `expiry` or `revoked`.
    pub condition: String,
    /// JSON pointer to the argument that it is about, if it is about one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub pointer: Option<String>,
    /// In words.
    pub why: String,
}

/// What `grants` say of the call at `now`. The one that is `named` is meant whatever tool it is for, and no
/// other.
pub(crate) fn explained(
    judge: &dyn GrantJudge,
    grants: &[Grant],
    named: Option<&str>,
    call: &GrantedCall,
    now: Millis,
) -> GrantsExplained {
    let never = judge.rules(&call.tool, &call.arguments).err();
    let is_meant = |grant: &&Grant| match named {
        Some(named) => grant.id.to_string() == named,
        None => grant.scope.tool == call.tool,
    };
    let one = |grant: &Grant| {
        let view = GrantView::of(grant, now, judge.dead(grant).map(GrantDeath::words));
        let mut fails: Vec<FailedCondition> = ended(judge, grant, &view, now).into_iter().collect();
        let missed = judge.misses(grant, call, now);
        for miss in missed.iter().chain(&never) {
            let failed = failed(miss);
            // What has ended a grant may be missed in the call, too.
            if fails.iter().all(|known| known.why != failed.why) {
                fails.push(failed);
            }
        }
        GrantExplained {
            id: view.id,
            state: view.state,
            why: fails.first().map(|first| first.why.clone()),
            fails,
        }
    };
    let grants: Vec<GrantExplained> = grants.iter().filter(is_meant).map(one).collect();
    // The oldest of those that cover it need not be the one that is used; any of them will do.
    let covering = grants.iter().find(|one| one.why.is_none());
    GrantsExplained {
        covered_by: covering.map(|one| one.id.clone()),
        never: never.map(|miss| miss.to_string()),
        grants,
    }
}

fn failed(miss: &GrantMiss) -> FailedCondition {
    FailedCondition {
        condition: miss.condition().to_owned(),
        pointer: miss.pointer(),
        why: miss.to_string(),
    }
}

/// Why the grant covers no call any more, as its view says.
fn ended(
    judge: &dyn GrantJudge,
    grant: &Grant,
    view: &GrantView,
    now: Millis,
) -> Option<FailedCondition> {
    let condition = match grant.ended(now) {
        Some(GrantEnd::Revoked) => "revoked",
        Some(GrantEnd::Expired) => "expiry",
        Some(GrantEnd::UsedUp) => "uses",
        Some(GrantEnd::TotalUsedUp) => "total",
        Some(GrantEnd::Absent) | None => GrantMiss::Dead(judge.dead(grant)?).condition(),
    };
    Some(FailedCondition {
        condition: condition.to_owned(),
        pointer: None,
        why: view.reason.clone()?,
    })
}
