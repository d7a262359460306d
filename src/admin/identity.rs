//! One operator, by name and roles.

/// One operator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct OperatorIdentity {
    /// The name, for the ledger.
    pub name: String,
    /// The operator's roles.
    pub roles: Vec<String>,
}
