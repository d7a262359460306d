//! Operators who are away, and who decides about held calls in their place (guarantees §7).

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Absence {
    /// The operator who is away.
    pub name: String,
    /// The operator's roles.
    pub roles: Vec<String>,
    /// The operator who decides meanwhile.
    pub delegate: String,
    /// Until when, in milliseconds since 1970.
    pub until: u64,
}

impl Absence {
    /// Whether it lasts at `now`.
    pub fn lasts(&self, now: u64) -> bool {
        now < self.until
    }
}

/// By whose right an operator decides about a call: their own, or that of one who is away.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DecidingRight {
    /// The roles that count.
    pub roles: Vec<String>,
    /// The operator who is away.
    pub on_behalf: Option<String>,
}

impl DecidingRight {
    /// Whose word it is that `who` says: also that of the operator who is away.
    pub fn names<'a>(&'a self, who: &'a str) -> impl Iterator<Item = &'a str> {
        let away = self.on_behalf.iter().map(String::as_str);
        away.chain([who])
    }
}
