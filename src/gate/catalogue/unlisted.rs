//! Tools that are called and that no server lists. In observe mode the server answers whose they
//! would be (guarantees §2); what an operator has taken away stays away.

use crate::gate::catalogue::tool::Tool;
use crate::guards::Mode;
use crate::mcp::skeleton;
use crate::model::ids::ToolName;
use crate::model::refusal::Refusal;
use crate::policy::Policy;

/// Whether the call may go on, as far as that goes. A server may take a name that is not offered for
/// one that is: a name that can be taken for a disabled tool's is disabled with it, and where
/// something is disabled, so is every name with characters that no tool's name has. While an incident
/// freezes tools, none is called that no server lists.
pub(in crate::gate) fn may_be_called(policy: &Policy, tool: &Tool) -> bool {
    if tool.is_listed {
        return true;
    }
    let name = tool.name.as_str();
    let is_usual = name.bytes().all(is_of_names);
    let away = policy.allowlist.disabled();
    let mut disabled = away.tools.keys();
    let is_taken =
        |gone: &ToolName| !is_usual || skeleton::twins(&[name, gone.as_str()])[0].is_some();
    policy.mode == Mode::Observe && away.frozen.is_empty() && !disabled.any(is_taken)
}

/// The characters of tools' names.
fn is_of_names(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}

/// What enforce mode would answer.
pub(in crate::gate) fn would_refuse(tool: &Tool) -> Option<Refusal> {
    (!tool.is_listed).then_some(Refusal::ToolNotAllowlisted)
}
