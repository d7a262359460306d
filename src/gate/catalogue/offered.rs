//! Whether a tool is there to be called at all, whichever caller asks.

use super::tool::Tool;
use super::{contract_mismatch, pinned, unlisted};
use crate::policy::Policy;

/// Whether `policy` lets the tool be called as it is: it can be held to its contract, its definition is
/// approved as far as that is asked for, and a server lists it.
pub(in crate::gate) fn is_offered(policy: &Policy, tool: &Tool) -> bool {
    contract_mismatch::is_offered(policy, tool)
        && pinned::is_offered(policy, tool)
        && unlisted::may_be_called(policy, tool)
}
