//! Held calls that are decided or over, as pages list them.

use super::visible::VisibleText;
use crate::admin::approvals::word_of;
use crate::store::approvals::OpenHold;

/// One of them.
#[derive(Debug)]
pub(super) struct PastCall {
    /// The approval.
    pub id: String,
    /// When it asked.
    pub asked: String,
    /// `server__tool`.
    pub tool: VisibleText,
    /// Who asked.
    pub agent: VisibleText,
    /// What came of it.
    pub state: String,
    /// Who said what, and why.
    pub by: String,
}

impl PastCall {
    /// What is told of `hold`.
    pub(super) fn of(hold: &OpenHold) -> Self {
        let said = hold.decisions.iter().map(|said| {
            let word = word_of(hold, said);
            format!("{} {word} it: {}", said.who, said.why)
        });
        Self {
            id: hold.id.clone(),
            asked: hold.asked.clone(),
            tool: VisibleText::of(&hold.tool),
            agent: VisibleText::of(&hold.agent),
            state: hold.state.clone(),
            by: said.collect::<Vec<_>>().join("; "),
        }
    }
}
