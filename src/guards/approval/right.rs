//! By whose right an allowed call runs, and whether they have it still: an operator who was taken away, or
//! whose role was, has said nothing that counts (guarantees §7).

use super::Rule;
use crate::model::approvers::Approvers;
use crate::store::state::hold::Hold;

const OPERATOR_GONE: &str =
    "an operator who has allowed it is none any more who may decide about it";

/// The words by which a call is allowed, and the roles that give them weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApprovalRight {
    words: Vec<ApprovingWord>,
    roles: Vec<String>,
}

/// The word of one operator.
#[derive(Debug, Clone, PartialEq, Eq)]
struct ApprovingWord {
    /// Who has said it.
    who: String,
    /// In whose place: the operator's own, or that of one who was away.
    whose: String,
}

impl ApprovalRight {
    /// Of those who have allowed `hold`.
    pub fn of(hold: &Hold) -> Self {
        let allowed = hold.decisions.iter().filter(|said| said.allow);
        let words = allowed.map(|said| ApprovingWord {
            who: said.who.clone(),
            whose: said.on_behalf.as_ref().unwrap_or(&said.who).clone(),
        });
        Self {
            words: words.collect(),
            roles: hold.roles.clone(),
        }
    }

    /// Of the operator `who`, whose grant covers a call under `rule`.
    pub fn granted(who: &str, rule: &Rule) -> Self {
        Self {
            words: vec![ApprovingWord {
                who: who.to_owned(),
                whose: who.to_owned(),
            }],
            roles: rule.roles.clone(),
        }
    }

    /// Whether each of them may decide still, by their own right or in the place of one who was away.
    ///
    /// # Errors
    /// One may not: in words for the agent.
    pub fn judge(&self, approvers: &Approvers) -> Result<(), &'static str> {
        let is_good = self.words.iter().all(|word| {
            approvers.speaks_for(&word.who, &word.whose)
                && approvers.decides(&word.whose, &self.roles)
        });
        if is_good { Ok(()) } else { Err(OPERATOR_GONE) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::approvers::{Approver, ApproverName};

    /// Operators, of whom cid decides for `away`.
    fn operators(known: &[(&str, &str)], away: &str) -> Approvers {
        let known = known.iter().map(|(name, role)| Approver {
            name: ApproverName::One((*name).to_owned()),
            stands_in: [away]
                .into_iter()
                .filter(|_| *name == "cid")
                .map(str::to_owned)
                .collect(),
            roles: vec![(*role).to_owned()],
        });
        Approvers(known.collect())
    }

    /// threat-model §3E: each who has allowed a call counts until it runs, and so does the operator who was away.
    #[test]
    fn each_word_counts_while_its_operator_may_say_it() {
        let right = ApprovalRight {
            words: [("ann", "ann"), ("cid", "bob")]
                .map(|(who, whose)| ApprovingWord {
                    who: who.to_owned(),
                    whose: whose.to_owned(),
                })
                .into(),
            roles: vec!["finance".to_owned()],
        };
        let all = [("ann", "finance"), ("bob", "finance"), ("cid", "sre")];
        assert_eq!(right.judge(&operators(&all, "bob")), Ok(()));
        for gone in 0..all.len() {
            let mut left = all.to_vec();
            left.remove(gone);
            assert_eq!(
                right.judge(&operators(&left, "bob")),
                Err(OPERATOR_GONE),
                "{gone}"
            );
        }
        let unnamed = operators(&all, "dan");
        assert_eq!(
            right.judge(&unnamed),
            Err(OPERATOR_GONE),
            "cid never decided for bob"
        );
        let other = [("ann", "sre"), ("bob", "finance"), ("cid", "sre")];
        assert_eq!(right.judge(&operators(&other, "bob")), Err(OPERATOR_GONE));
    }
}
