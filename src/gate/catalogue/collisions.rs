//! Tools of several servers whose public names are one, or can be taken for each other: none of
//! them is offered (threat-model §3D D1, D2). Within one server the catalogue has done the same.

use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::tool::Tools;
use crate::mcp::skeleton;
use crate::model::ids::ToolName;
use std::collections::HashSet;
use std::sync::Arc;

/// Takes them out of `tools`. Those of a server that is down count, for it may come back any
/// moment.
pub(in crate::gate) fn part(tools: &mut Tools) {
    let down: Vec<Arc<Tool>> = tools
        .known()
        .filter(|tool| tool.server.up().is_none())
        .cloned()
        .collect();
    let all: Vec<Arc<Tool>> = tools.all.iter().chain(&down).cloned().collect();
    let names: Vec<&str> = all.iter().map(|tool| tool.name.as_str()).collect();
    let twins = skeleton::twins(&names);
    let mut gone: HashSet<ToolName> = HashSet::new();
    for (tool, twin) in all.iter().zip(twins) {
        let Some(other) = twin.map(|twin| &all[twin]) else {
            continue;
        };
        let server = tool.server.settings.name.clone();
        let words = format!(
            "`{}`: it can be taken for `{}` of the server `{}`",
            tool.name, other.name, other.server.settings.name
        );
        tracing::warn!(tool = %tool.name, reason = "collision", words, "tool is quarantined: it is neither listed nor called");
        tools.quarantined.push((server, "collision", words));
        gone.insert(tool.name.clone());
    }
    tools.without(&gone);
    tools.parted.extend(gone);
}
