//! Tools that are withheld because they lack an argument that their contract decides by, or
//! changes: a caller that may call them could not be told from one that may not, and what must be
//! changed would not be (002-05, 002-11).

use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::tool::Tools;
use crate::guards::{Mode, RequiredArgument};
use crate::model::ids::{ServerName, ToolName};
use crate::policy::Policy;

/// A tool that is withheld.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfit {
    /// Where it lives.
    pub server: ServerName,
    /// As policies name it.
    pub tool: ToolName,
    /// Why, for operators.
    pub words: String,
}

fn lacks<'p>(policy: &'p Policy, tool: &Tool) -> Option<&'p RequiredArgument> {
    let rules = policy.allowlist.contract_of(&tool.name)?;
    tool.fit.lacks(rules, &tool.schema)
}

/// Whether the tool may be listed and called, as far as its schema goes; observe mode refuses
/// nothing.
pub(in crate::gate) fn is_offered(policy: &Policy, tool: &Tool) -> bool {
    policy.mode == Mode::Observe || lacks(policy, tool).is_none()
}

/// Why the tool is withheld, for operators.
pub(in crate::gate) fn words(policy: &Policy, tool: &Tool) -> Option<String> {
    let lacking = lacks(policy, tool)?;
    Some(format!(
        "its input schema has {}, by which its contract decides (`{}`)",
        lacking.words(),
        lacking.key.join(".")
    ))
}

/// Every listed tool that enforce mode withholds so.
pub(crate) fn unfit(policy: &Policy, tools: &Tools) -> Vec<Unfit> {
    let one = |tool: &std::sync::Arc<Tool>| {
        let words = words(policy, tool)?;
        Some(Unfit {
            server: tool.server.settings.name.clone(),
            tool: tool.name.clone(),
            words,
        })
    };
    tools.all.iter().filter_map(one).collect()
}
