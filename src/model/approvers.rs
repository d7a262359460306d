//! Who may decide about calls that are held: the operators that the configuration names, with their
//! roles.

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Approver {
    /// The operator's name.
    pub name: String,
    /// The operator's roles.
    pub roles: Vec<String>,
}

/// The name that stands for all operators whom issuers of tokens name.
pub const ISSUED_OPERATORS: &str = "*@";

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

    /// How many have one of `roles`, of those whose names `may` decide (guarantees §7). Whom an issuer
    /// names nobody knows beforehand: as many as are needed.
    pub fn reach(&self, roles: &[String], may: impl Fn(&str) -> bool) -> usize {
        let mut issued = self.0.iter().filter(|one| one.name == ISSUED_OPERATORS);
        if issued.any(|one| one.has(roles) && may(&one.name)) {
            return usize::MAX;
        }
        let mut names: Vec<&str> = self
            .0
            .iter()
            .filter(|one| one.has(roles))
            .map(|one| one.name.as_str())
            .collect();
        names.retain(|name| may(name));
        names.sort_unstable();
        names.dedup();
        names.len()
    }
}

impl Approver {
    fn is_named(&self, name: &str) -> bool {
        self.name == name || (self.name == ISSUED_OPERATORS && is_issued_name(name))
    }

    fn has(&self, roles: &[String]) -> bool {
        self.roles.iter().any(|role| roles.contains(role))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// guarantees §7: distinct people with the role; the agent is not its own approver.
    #[test]
    fn people_are_counted_once_and_the_agent_is_none_of_them() {
        let one = |name: &str, role: &str| Approver {
            name: name.to_owned(),
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
            name: name.to_owned(),
            roles: vec![role.to_owned()],
        };
        let known = Approvers(vec![one("ann", "sre"), one(ISSUED_OPERATORS, "finance")]);
        let (finance, sre) = (["finance".to_owned()], ["sre".to_owned()]);
        assert_eq!(known.reach(&finance, |_| true), usize::MAX);
        assert_eq!(known.reach(&sre, |_| true), 1);
        assert!(known.decides("bob@example.com", &finance) && known.knows("bob@example.com"));
        assert!(!known.decides("bob@example.com", &sre) && !known.decides("ann", &finance));
        assert!(!known.knows("bob"), "taken away from the configuration");
        let tokens = Approvers(vec![one("ann", "finance")]);
        assert!(!tokens.knows("bob@example.com") && !tokens.decides("ann@example.com", &finance));
    }
}
