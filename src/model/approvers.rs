//! Who may decide about calls that are held: the operators that the configuration names, with their
//! roles.

use arc_swap::ArcSwap;
use std::sync::Arc;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// Who it is.
    pub name: ApproverName,
    /// The operator's roles.
    pub roles: Vec<String>,
    /// Those in whose place the operator decides, or did until they were back.
    pub stands_in: Vec<String>,
}

/// Whom an entry of the configuration names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ApproverName {
    /// The operator of that name.
    One(String),
    /// All operators whom issuers of tokens name.
    Issued,
}

/// Whether an operator's name is one that an issuer gives, where there are any.
pub fn is_issued_name(name: &str) -> bool {
    name.contains('@')
}

/// All of them. The default: nobody can be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvers(pub Vec<Approver>);

impl Approvers {
    /// Whether there is an operator of that name.
    pub fn knows(&self, name: &str) -> bool {
        self.0.iter().any(|one| one.is_named(name))
    }

    /// Whether the operator of that name has one of `roles`, or an issuer can give it.
    pub fn decides(&self, name: &str, roles: &[String]) -> bool {
        self.0
            .iter()
            .any(|one| one.is_named(name) && one.has(roles))
    }

    /// Whether the operator `who` may speak for `whose`: for the operator's own, or one who is or was away.
    pub fn speaks_for(&self, who: &str, whose: &str) -> bool {
        let mut named = self.0.iter().filter(|one| one.is_named(who));
        named.any(|one| who == whose || one.stands_in.iter().any(|away| away == whose))
    }

    /// How many have one of `roles`, of those whose names `may` decide (guarantees §7). Whom an issuer
    /// names nobody knows beforehand: as many as are needed.
    pub fn reach(&self, roles: &[String], may: impl Fn(&str) -> bool) -> usize {
        let mut names: Vec<&str> = Vec::new();
        for one in self.0.iter().filter(|one| one.has(roles)) {
            match &one.name {
                ApproverName::Issued => return usize::MAX,
                ApproverName::One(name) => names.push(name),
            }
        }
        names.retain(|name| may(name));
        names.sort_unstable();
        names.dedup();
        names.len()
    }
}

impl Approver {
    fn is_named(&self, name: &str) -> bool {
        match &self.name {
            ApproverName::One(own) => own == name,
            ApproverName::Issued => is_issued_name(name),
        }
    }

    fn has(&self, roles: &[String]) -> bool {
        self.roles.iter().any(|role| roles.contains(role))
    }
}

/// The approvers as they stand: another configuration changes them while toolgate runs. A clone is
/// another handle on the same.
#[derive(Debug, Clone, Default)]
pub struct ApproversInForce(Arc<ArcSwap<Approvers>>);

impl ApproversInForce {
    /// Those who may decide now. What is judged by them twice is looked at twice.
    pub fn current(&self) -> Arc<Approvers> {
        self.0.load_full()
    }

    /// From now on these may decide, and nobody else.
    pub fn put(&self, approvers: Approvers) {
        self.0.store(Arc::new(approvers));
    }
}

impl From<Approvers> for ApproversInForce {
    fn from(approvers: Approvers) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(approvers)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// guarantees §7: distinct people with the role; the agent is not its own approver.
    #[test]
    fn people_are_counted_once_and_the_agent_is_none_of_them() {
        let one = |name: &str, role: &str| Approver {
            name: ApproverName::One(name.to_owned()),
            stands_in: Vec::new(),
            roles: vec![role.to_owned()],
        };
        let known = Approvers(vec![
            one("ann", "finance"),
            one("ann", "finance"),
            one("bob", "sre"),
            one("bot", "finance"),
        ]);
        let roles = ["finance".to_owned()];
        assert_eq!(known.reach(&roles, |_| true), 2);
        assert_eq!(known.reach(&roles, |name| name != "bot"), 1);
        assert_eq!(Approvers::default().reach(&roles, |_| true), 0);
    }

    /// Whom issuers name are as many as are needed, with the roles that they can give; nobody of the
    /// configuration is one of them.
    #[test]
    fn those_whom_issuers_name_are_enough() {
        let one = |name: &str, role: &str| Approver {
            name: ApproverName::One(name.to_owned()),
            stands_in: Vec::new(),
            roles: vec![role.to_owned()],
        };
        let issued = Approver {
            name: ApproverName::Issued,
            stands_in: Vec::new(),
            roles: vec!["finance".to_owned()],
        };
        let known = Approvers(vec![one("ann", "sre"), issued]);
        let (finance, sre) = (["finance".to_owned()], ["sre".to_owned()]);
        assert_eq!(known.reach(&finance, |_| true), usize::MAX);
        assert_eq!(known.reach(&sre, |_| true), 1);
        assert!(known.decides("bob@example.com", &finance) && known.knows("bob@example.com"));
        assert!(!known.decides("bob@example.com", &sre) && !known.decides("ann", &finance));
        assert!(!known.knows("bob"), "taken away from the configuration");
        // No name of an operator stands for others.
        for name in ["ann", "*@", "@"] {
            let tokens = Approvers(vec![one(name, "finance")]);
            assert!(!tokens.knows("bob@example.com"), "{name}");
            assert!(!tokens.decides("ann@example.com", &finance), "{name}");
            assert_eq!(tokens.reach(&finance, |_| true), 1, "{name}");
        }
    }
}
