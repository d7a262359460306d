//! Tools that are withheld because no operator has approved their definition: kept from agents
//! here, told to operators here. Nothing is approved here: what a server lists never becomes a pin
//! (threat-model §3D D4, D8).

use crate::gate::catalogue::tool::Tool;
use crate::gate::catalogue::tool::Tools;
use crate::guards::Mode;
use crate::guards::pins::{INSTRUCTIONS_PIN_NAME, Instructions, Pin, Unapproved};
use crate::mcp::json::Text;
use crate::model::ids::{ServerName, ToolName};
use crate::model::refusal::Refusal;
use crate::policy::Policy;
use crate::upstream::servers::Servers;
use std::collections::HashSet;

/// Names of changed members that are told; a definition has about ten.
const MOST_NAMED: usize = 16;

/// The word in metrics for instructions, whatever is wrong with them: no tool is missing.
const LABEL: &str = "instructions";

/// A tool, or what a server says of itself, that is withheld, or would be if anything were refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Withheld {
    /// Where it lives.
    pub server: ServerName,
    /// As policies name it.
    pub tool: ToolName,
    /// The word in metrics.
    pub label: &'static str,
    /// Why, for operators.
    pub words: String,
    /// SHA-256 of what its server says now, in lower-case hex.
    pub digest: String,
    /// Whether it was approved, and is another now.
    pub drifted: bool,
}

/// Whether an operator has approved the tool as it is, as far as the policy asks for that.
pub(in crate::gate) fn judge<'p>(policy: &'p Policy, tool: &Tool) -> Result<(), Unapproved<'p>> {
    policy.pins.judge(
        &tool.server.settings.name,
        &tool.definition.name,
        &tool.hash,
    )
}

/// Whether the tool may be listed and called; observe mode refuses nothing.
pub(in crate::gate) fn is_offered(policy: &Policy, tool: &Tool) -> bool {
    policy.mode == Mode::Observe || judge(policy, tool).is_ok()
}

/// What enforce mode would answer.
pub(in crate::gate) fn would_refuse(policy: &Policy, tool: &Tool) -> Option<Refusal> {
    judge(policy, tool)
        .is_err()
        .then_some(Refusal::ToolNotAllowlisted)
}

/// Everything listed that no operator has approved as it is: tools, and what servers say of
/// themselves.
pub(crate) fn withheld(policy: &Policy, tools: &Tools, servers: &Servers) -> Vec<Withheld> {
    let mut withheld = withheld_tools(policy, tools);
    withheld.extend(servers.all().iter().filter_map(|server| {
        let (server, up) = (&server.settings.name, server.up()?);
        let Instructions { digest, definition } = Instructions::of(up.verdict.introduction()?)?;
        let words = match (
            policy.pins.judge(server, INSTRUCTIONS_PIN_NAME, &digest),
            definition,
        ) {
            (Ok(()), _) => return None,
            (Err(_), None) => "the server's instructions are longer than what can be approved",
            (Err(Unapproved::Unpinned), Some(_)) => "nobody has approved the server's instructions",
            (Err(Unapproved::Drifted(_)), Some(_)) => {
                "the server's instructions have changed since they were approved"
            }
        };
        let (server, tool) = (server.clone(), ToolName::of(server, INSTRUCTIONS_PIN_NAME));
        let drifted = policy.pins.pin(&server, INSTRUCTIONS_PIN_NAME).is_some();
        Some(Withheld {
            server,
            tool,
            label: LABEL,
            words: words.to_owned(),
            digest,
            drifted,
        })
    }));
    withheld
}

fn withheld_tools(policy: &Policy, tools: &Tools) -> Vec<Withheld> {
    let one = |tool: &std::sync::Arc<Tool>| {
        let unapproved = judge(policy, tool).err()?;
        let words = match unapproved {
            Unapproved::Unpinned => "nobody has approved its definition".to_owned(),
            Unapproved::Drifted(pin) => {
                format!(
                    "its definition has changed since it was approved: {}",
                    changed(pin, &tool.definition.text).join(", ")
                )
            }
        };
        Some(Withheld {
            server: tool.server.settings.name.clone(),
            tool: tool.name.clone(),
            label: unapproved.label(),
            words,
            digest: tool.hash.clone(),
            drifted: matches!(unapproved, Unapproved::Drifted(_)),
        })
    };
    tools.all.iter().filter_map(one).collect()
}

/// The members that differ, with what a server could hide in their names written out.
pub(crate) fn changed(pin: &Pin, listed: &Text) -> Vec<String> {
    let (was, is) = (pin.definition.value(), listed.value());
    let (Some(was), Some(is)) = (was.as_object(), is.as_object()) else {
        return vec!["all of it".to_owned()];
    };
    let gone = was.keys().filter(|key| !is.contains_key(*key));
    let other = is
        .iter()
        .filter(|(key, value)| was.get(*key) != Some(value))
        .map(|(key, _)| key);
    let cut = |key: &String| {
        key.chars()
            .take(64)
            .flat_map(char::escape_debug)
            .collect::<String>()
    };
    gone.chain(other).take(MOST_NAMED).map(cut).collect()
}

/// What was said in the log already, so that a change is told once.
#[derive(Debug, Default)]
pub(in crate::gate) struct ToldWithheld(HashSet<(ToolName, String)>);

impl ToldWithheld {
    /// Tells of what is newly withheld, and of what no longer is.
    pub(in crate::gate) fn tell(&mut self, withheld: &[Withheld], mode: Mode) {
        let now: HashSet<_> = withheld
            .iter()
            .map(|one| (one.tool.clone(), one.digest.clone()))
            .collect();
        for one in withheld
            .iter()
            .filter(|one| !self.0.contains(&(one.tool.clone(), one.digest.clone())))
        {
            let Withheld {
                tool,
                label,
                words,
                digest,
                ..
            } = one;
            let what = match mode {
                Mode::Enforce => {
                    "withheld until an operator approves it: `toolgate pins diff`, `pins approve`"
                }
                Mode::Observe => {
                    "would be withheld in enforce mode: `toolgate pins diff`, `pins approve`"
                }
            };
            tracing::warn!(%tool, reason = label, words, digest, "{what}");
        }
        for (tool, _) in self.0.difference(&now) {
            tracing::info!(%tool, "no longer withheld for its definition, or gone or another again");
        }
        self.0 = now;
    }
}
