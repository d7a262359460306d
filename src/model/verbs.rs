//! What an operator may do at the operators' door besides deciding about held calls, and the roles
//! that may. Each is its own role: who says what became of a call can make it run again, and who
//! reads what was held sees what agents write.

/// Roles that one verb takes, at most; the same as for the approvers of a contract.
pub(crate) const MAX_VERB_ROLES: usize = 16;

/// Something that only some operators may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OperatorVerb {
    /// Say what became of a call whose outcome is unknown.
    Resolve,
    /// Take tools away from all agents, and give them back; stop tasks, and give them their budget
    /// back.
    Switch,
    /// Read what others are not shown, such as the arguments of calls that other operators decide
    /// about.
    Audit,
}

/// Who may do it: an operator who has one of these roles. An empty list: nobody.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OperatorVerbs {
    /// May say what became of calls.
    pub resolve: Vec<String>,
    /// May take tools away, and give them back.
    pub switch: Vec<String>,
    /// May read everything that operators can.
    pub audit: Vec<String>,
}

impl OperatorVerb {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Resolve, Self::Switch, Self::Audit];

    /// Its key in the configuration.
    pub fn key(self) -> &'static str {
        match self {
            Self::Resolve => "resolve",
            Self::Switch => "switch",
            Self::Audit => "audit",
        }
    }

    /// The role that may do it where nothing is said.
    pub fn role(self) -> &'static str {
        match self {
            Self::Resolve => "resolver",
            Self::Switch => "switch",
            Self::Audit => "auditor",
        }
    }

    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Resolve => "say what became of a call whose outcome is unknown",
            Self::Switch => "disable and enable tools, and stop and reset tasks",
            Self::Audit => "read all held arguments",
        }
    }
}

impl OperatorVerbs {
    /// The roles of which one is needed.
    pub fn roles(&self, verb: OperatorVerb) -> &[String] {
        match verb {
            OperatorVerb::Resolve => &self.resolve,
            OperatorVerb::Switch => &self.switch,
            OperatorVerb::Audit => &self.audit,
        }
    }

    /// Whether who has `roles` may.
    pub fn allow(&self, verb: OperatorVerb, roles: &[String]) -> bool {
        self.roles(verb).iter().any(|role| roles.contains(role))
    }
}

impl Default for OperatorVerbs {
    fn default() -> Self {
        let [resolve, switch, audit] = OperatorVerb::ALL.map(|verb| vec![verb.role().to_owned()]);
        Self {
            resolve,
            switch,
            audit,
        }
    }
}
