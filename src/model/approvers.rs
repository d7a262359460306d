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

/// All of them. The default: nobody can be asked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Approvers(pub Vec<Approver>);

impl Approvers {
    /// How many have one of `roles`, of those whose names `may` decide (guarantees §7).
    pub fn reach(&self, roles: &[String], may: impl Fn(&str) -> bool) -> usize {
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
}
