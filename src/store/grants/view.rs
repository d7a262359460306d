//! A standing grant, as operators read it.

use super::time;
use crate::store::state::Millis;
use crate::store::state::grant::{
    ArgumentConstraint, ArgumentRule, Grant, GrantEnd, GrantRevocation,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// All of a grant.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GrantView {
    /// Its id.
    pub id: String,
    /// `active`, `expired`, `used_up`, `revoked` or `dead`.
    pub state: String,
    /// Why it covers nothing any more, where that is so.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The agent.
    pub agent: String,
    /// Its tenant.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<String>,
    /// The user for whom it calls; none: only calls that name no user.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub user: Option<String>,
    /// `server__tool`.
    pub tool: String,
    /// What each argument has to be: `pointer`, and one of `equals`, `one_of`, `at_most`, `starts_with`
    /// and `any`. What none of them speaks of is not covered.
    pub constraints: Vec<Value>,
    /// Whether a covered call brings what the call that was shown brought beside its arguments.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub beside: bool,
    /// What all calls may move together, and have moved.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub total: Option<GrantTotalView>,
    /// Calls that have begun with it.
    pub uses: u64,
    /// How many may.
    pub max_uses: u64,
    /// When it was minted, RFC 3339 in UTC.
    pub minted: String,
    /// From then on it covers nothing.
    pub until: String,
    /// When the last call began with it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_used: Option<String>,
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
    /// The approval that was shown, where it began with one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub approval: Option<String>,
    /// Operators with one of these roles see it and can take it back.
    pub roles: Vec<String>,
    /// SHA-256 of the tool's definition that it is bound to.
    pub schema_hash: String,
    /// Who took it back.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub revoked_by: Option<String>,
}

/// What all calls may move together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct GrantTotalView {
    /// JSON pointer to what is added up.
    pub pointer: String,
    /// The largest sum, as text, so that no digit is lost.
    pub at_most: String,
    /// The sum so far.
    pub moved: String,
}

impl GrantView {
    /// `grant` at `now`; `dead`: why it covers nothing whatever is left of it.
    pub(crate) fn of(grant: &Grant, now: Millis, dead: Option<&str>) -> Self {
        let (state, reason) = state(grant, now, dead);
        let scope = &grant.scope;
        let total = grant.total.as_ref().map(|total| GrantTotalView {
            pointer: total.pointer.clone(),
            at_most: total.at_most.to_string(),
            moved: grant.moved.to_string(),
        });
        Self {
            id: grant.id.to_string(),
            state: state.to_owned(),
            reason,
            agent: scope.agent.clone(),
            tenant: scope.tenant.clone(),
            user: scope.user.clone(),
            tool: scope.tool.to_string(),
            constraints: grant.constraints.iter().map(constraint).collect(),
            beside: scope.beside.is_some(),
            total,
            uses: grant.uses,
            max_uses: grant.max_uses,
            minted: time(grant.minted),
            until: time(grant.until),
            last_used: grant.last.map(time),
            who: grant.who.clone(),
            why: grant.why.clone(),
            approval: grant.shown.map(|shown| shown.to_string()),
            roles: grant.roles.clone(),
            schema_hash: scope.schema_hash.clone(),
            revoked_by: grant.revoked.as_ref().map(|revoked| revoked.who.clone()),
        }
    }
}

/// How a grant stands, in a word, and why it covers nothing any more.
fn state(grant: &Grant, now: Millis, dead: Option<&str>) -> (&'static str, Option<String>) {
    let ended = grant.ended(now);
    let (word, why) = match (ended, dead) {
        (Some(GrantEnd::Revoked), _) => {
            let words = grant.revoked.as_ref().map(revocation);
            ("revoked", words.unwrap_or_default())
        }
        (Some(GrantEnd::Expired), _) => ("expired", "its time is over".to_owned()),
        (Some(GrantEnd::UsedUp), _) => {
            let words = format!("the {} calls that it allows have begun", grant.max_uses);
            ("used_up", words)
        }
        (Some(GrantEnd::TotalUsedUp), _) => ("used_up", "its total is used up".to_owned()),
        (Some(GrantEnd::Absent) | None, Some(dead)) => ("dead", dead.to_owned()),
        (Some(GrantEnd::Absent) | None, None) => return ("active", None),
    };
    (word, Some(why))
}

fn revocation(revoked: &GrantRevocation) -> String {
    format!("{} took it back: {}", revoked.who, revoked.why)
}

/// One constraint as plain JSON.
fn constraint(one: &ArgumentConstraint) -> Value {
    let (key, value) = match &one.is {
        ArgumentRule::Equals(value) => ("equals", value.clone()),
        ArgumentRule::OneOf(values) => ("one_of", json!(values)),
        ArgumentRule::AtMost(most) => ("at_most", json!(most)),
        ArgumentRule::StartsWith(start) => ("starts_with", json!(start)),
        ArgumentRule::Any => ("any", json!(true)),
    };
    let pointer = ("pointer".to_owned(), json!(one.pointer));
    Value::Object(Map::from_iter([pointer, (key.to_owned(), value)]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::state::tests::grants::mint;

    /// Each end has its word and its reason; what a grant lacks more than time or uses counts first.
    #[test]
    fn how_a_grant_stands_is_said_in_a_word() {
        let live = Grant {
            until: 1000,
            ..mint().grant
        };
        let revoked = GrantRevocation {
            who: "bob".to_owned(),
            why: "no more".to_owned(),
            at: 1,
        };
        let spent = live.total.as_ref().unwrap().at_most;
        let ends = [
            (live.clone(), 999, None, "active", None),
            (live.clone(), 999, Some("gone"), "dead", Some("gone")),
            (
                live.clone(),
                1000,
                Some("gone"),
                "expired",
                Some("its time is over"),
            ),
            (
                Grant {
                    uses: 3,
                    ..live.clone()
                },
                999,
                Some("gone"),
                "used_up",
                Some("the 3 calls that it allows have begun"),
            ),
            (
                Grant {
                    moved: spent,
                    ..live.clone()
                },
                999,
                None,
                "used_up",
                Some("its total is used up"),
            ),
            (
                Grant {
                    revoked: Some(revoked),
                    ..live
                },
                2000,
                Some("gone"),
                "revoked",
                Some("bob took it back: no more"),
            ),
        ];
        for (grant, now, dead, state, reason) in ends {
            let view = GrantView::of(&grant, now, dead);
            assert_eq!((&*view.state, view.reason.as_deref()), (state, reason));
            let text = serde_json::to_string(&view).unwrap();
            assert_eq!(serde_json::from_str::<GrantView>(&text).unwrap(), view);
        }
    }
}
