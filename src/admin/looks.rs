//! A person's look at held calls. Who asks for the list or for a call has looked at it; what is shown because a page or
//! a terminal stands open asks with `?refresh=1`, and is no look: nobody need be there.

use super::OperatorsDoor;
use super::operators::OperatorIdentity;
use crate::store::approvals::OpenHold;
use axum::http::Uri;

/// What stands behind a path that is asked for by no person.
pub(crate) const REFRESHED: &str = "?refresh=1";
/// Where the list of held calls is asked for so.
pub(crate) const REFRESHED_LIST: &str = "/api/approvals?refresh=1";

/// Whether something that stands open asks, and not a person.
pub(super) fn is_refresh(uri: &Uri) -> bool {
    let query = uri.query().unwrap_or_default();
    let mut asked = url::form_urlencoded::parse(query.as_bytes());
    asked.any(|(name, value)| name == "refresh" && value == "1")
}

impl OperatorsDoor {
    /// Notes that `known` looks at these calls, where they are theirs to decide: that others look helps no agent.
    pub(super) fn note_looks<'a>(
        &self,
        known: &OperatorIdentity,
        holds: impl IntoIterator<Item = &'a OpenHold>,
    ) {
        let now = self.switches.store.now();
        let theirs = holds
            .into_iter()
            .filter(|hold| hold.state == "pending" && known.right_to(hold, now).is_some());
        for id in theirs.filter_map(|hold| hold.id.parse().ok()) {
            self.switches.looks.note(id, now);
        }
    }
}
