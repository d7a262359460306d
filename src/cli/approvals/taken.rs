//! What came of an operator's word, in words for who said it.

use crate::admin::approvals::DecisionReply;
use crate::mcp::pretty::plain;

/// The answer to a decision that was taken.
pub(super) fn words(taken: &DecisionReply) -> String {
    let (state, who) = (plain(&taken.came.state), plain(&taken.who));
    if let Some(grant) = &taken.grant {
        let grant = plain(grant);
        return format!(
            "allowed by {who}: the agent's call runs once, exactly as it is shown; calls like it are covered by the \
             grant {grant}\n"
        );
    }
    match (taken.came.changed, state.as_str()) {
        (false, _) => format!("nothing changes: that is said already, and it is {state}\n"),
        (true, "allowed") => {
            format!("allowed by {who}: the agent's call runs once, exactly as it is shown\n")
        }
        (true, "pending") => format!("allowed by {who}: more operators have to allow it\n"),
        (true, _) => {
            format!("{state} by {who}: the call is refused, and for a while the same call again\n")
        }
    }
}
