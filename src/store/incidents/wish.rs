//! What operators and breakers ask of incidents, and why nothing comes of it.

use crate::mcp::readable::is_misleading;
use crate::model::ids::ToolName;
use crate::store::claims::StoreError;

/// Incidents that can be open at once.
pub(crate) const MAX_OPEN_INCIDENTS: usize = 16;
/// Those of them that breakers can open: what agents provoke must leave operators room for theirs.
pub(crate) const MAX_TRIPPED_INCIDENTS: usize = 8;
/// Who opens an incident that no operator does.
pub(crate) const BREAKER: &str = "breaker";
/// Bytes of a scope: as of any pattern of tool names.
const MAX_SCOPE_BYTES: usize = 256;

/// An incident that is to be opened.
#[derive(Debug, Clone)]
pub(crate) struct IncidentWish {
    /// The pattern of the tools that it freezes, as a layer could have it.
    pub scope: String,
    /// Those that are known to be of it.
    pub tools: Vec<ToolName>,
    /// The operator, or `breaker`.
    pub who: String,
    /// Why.
    pub why: String,
}

/// An incident that is to be closed.
#[derive(Debug, Clone)]
pub(crate) struct ClosingWish {
    /// The incident.
    pub id: u64,
    /// The operator.
    pub who: String,
    /// Why.
    pub why: String,
    /// Also where its samples or the packs do not pass.
    pub force: bool,
}

/// Why an incident is not opened, changed or closed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum IncidentError {
    /// What was said cannot be used.
    #[error("{0}")]
    Unfit(String),
    /// There is no such incident, or not any more.
    #[error("there is no incident {0}")]
    Gone(u64),
    /// The same tools are frozen already.
    #[error("incident {0} is open for the same tools")]
    AlreadyOpen(u64),
    /// Nothing can be done with it any more.
    #[error("incident {0} is closed")]
    Closed(u64),
    /// No more can be opened.
    #[error("{MAX_OPEN_INCIDENTS} incidents are open, and no more can be")]
    TooMany,
    /// Breakers can open no more.
    #[error(
        "breakers have opened {MAX_TRIPPED_INCIDENTS} incidents that are open, and can open no more"
    )]
    TooManyTripped,
    /// The sample is of no call that the incident is about.
    #[error("the ledger has no call of that action id whose tool the incident freezes")]
    NoSuchCall,
    /// No more samples can be noted.
    #[error("the incident has as many samples as it can have")]
    TooManySamples,
    /// The samples or the packs are not as expected.
    #[error("it stays open: {0}")]
    Failing(String),
    /// A sample came while the packs ran.
    #[error("the incident has changed while the packs ran")]
    Changed,
    /// Nothing was changed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The tools are frozen, and the rest is left for the next start.
    #[error(
        "the tools are frozen, and what was held or granted of them could not be taken back yet: {0}"
    )]
    Unsettled(StoreError),
}

/// The scope as it is kept.
pub(super) fn scope(text: &str) -> Result<String, IncidentError> {
    let is_plain = !text
        .chars()
        .any(|letter| letter.is_control() || letter.is_whitespace() || is_misleading(letter));
    if is_plain && !text.is_empty() && text.len() <= MAX_SCOPE_BYTES {
        return Ok(text.to_owned());
    }
    Err(IncidentError::Unfit(format!(
        "name tools by a pattern such as `server__*`, without blanks, of at most {MAX_SCOPE_BYTES} bytes"
    )))
}
