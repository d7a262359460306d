//! Calls that the ledger has of one caller, judged as calls of another: what was observed before
//! agents had names of their own is tried under a policy that knows them.

use super::recorded;
use super::text::plain;
use crate::model::caller::Caller;
use crate::model::entry::Entry;
use crate::model::spelling::suggest;
use crate::policy::Policy;
use anyhow::bail;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Mappings that are taken at most.
const MAX_MAPPINGS: usize = 64;

/// Whose calls recorded ones are judged as.
#[derive(Debug, Clone, Default, clap::Args)]
pub(in crate::cli) struct RecordedAs {
    /// Judge the calls that the ledger has of the agent RECORDED as calls of AGENT, such as
    /// anonymous=bot for what was observed before callers had names; may be given again
    #[arg(long = "as", value_name = "RECORDED=AGENT", value_parser = mapping)]
    mappings: Vec<AgentMapping>,
}

/// A recorded agent, and the one as whose its calls are judged.
#[derive(Debug, Clone)]
struct AgentMapping {
    recorded: String,
    agent: String,
}

fn mapping(written: &str) -> Result<AgentMapping, String> {
    match written.split_once('=') {
        Some((recorded, agent)) if !recorded.is_empty() && !agent.is_empty() => Ok(AgentMapping {
            recorded: recorded.to_owned(),
            agent: agent.to_owned(),
        }),
        _ => Err("write it as RECORDED=AGENT, such as anonymous=bot".to_owned()),
    }
}

/// What is said of a call whose agent the configuration does not have.
pub(in crate::cli) const UNKNOWN_AGENT_NOTE: &str = "the configuration has no such agent any more";

/// What to type where calls were not judged since the configuration does not have their agents.
pub(in crate::cli) fn advice(policy: &Policy, unknown: &BTreeSet<&str>) -> Option<String> {
    let first = unknown.first()?;
    let callers = policy.identity.callers();
    let known: Vec<&str> = callers.iter().map(|one| one.agent.as_str()).collect();
    let agent = if let [one] = *known { one } else { "AGENT" };
    let each = unknown
        .iter()
        .take(MAX_MAPPINGS)
        .map(|recorded| format!("--as {}={agent}", plain(recorded)));
    let meant = match *known {
        [one] => format!("of {}", plain(one)),
        _ => format!("of AGENT: one of {}", plain(&known.join(", "))),
    };
    Some(format!(
        "help: add `{}` to judge what {} did as calls {meant}",
        each.collect::<Vec<_>>().join(" "),
        plain(first)
    ))
}

impl RecordedAs {
    /// Refuses agents that the configuration does not have, and two words for one recorded agent.
    pub(in crate::cli) fn check(&self, policy: &Policy) -> anyhow::Result<()> {
        if self.mappings.len() > MAX_MAPPINGS {
            bail!("--as is taken {MAX_MAPPINGS} times at most");
        }
        for (index, AgentMapping { recorded, agent }) in self.mappings.iter().enumerate() {
            if policy.identity.of_agent(agent).is_none() {
                let known: Vec<String> = policy
                    .identity
                    .callers()
                    .iter()
                    .map(|caller| caller.agent.as_str().to_owned())
                    .collect();
                bail!(
                    "--as {}={}: the configuration has no such agent; {}",
                    plain(recorded),
                    plain(agent),
                    suggest(agent, &known)
                );
            }
            let before = &self.mappings[..index];
            if before.iter().any(|other| other.recorded == *recorded) {
                bail!("--as says twice as whom {} is judged", plain(recorded));
            }
        }
        Ok(())
    }

    /// Whether there are any.
    pub(in crate::cli) fn is_said(&self) -> bool {
        !self.mappings.is_empty()
    }

    /// The agent as whose the calls of `recorded` are judged, where that is said.
    pub(in crate::cli) fn agent_for(&self, recorded: &str) -> Option<&str> {
        self.mappings
            .iter()
            .find(|mapping| mapping.recorded == recorded)
            .map(|mapping| mapping.agent.as_str())
    }

    /// The caller as whose a recorded call is judged; none if the configuration does not know the
    /// one that made it.
    pub(in crate::cli) fn caller(&self, policy: &Policy, entry: &Entry) -> Option<Arc<Caller>> {
        match self.agent_for(&entry.user_id) {
            Some(agent) => policy.identity.of_agent(agent),
            None => recorded::caller(policy, entry),
        }
    }

    /// The call as if the agent had made it as whose it is judged, with what the configuration says of
    /// that agent.
    pub(in crate::cli) fn renamed(&self, policy: &Policy, entry: Entry) -> Entry {
        let agent = self.agent_for(&entry.user_id);
        match agent.and_then(|agent| policy.identity.of_agent(agent)) {
            Some(caller) => Entry {
                user_id: caller.agent.to_string(),
                agent_id: None,
                roles: caller.roles.clone(),
                tenant_id: caller.tenant.as_ref().map(ToString::to_string),
                ..entry
            },
            None => entry,
        }
    }

    /// Refuses what names an agent that none of the calls is of: a misspelt name would judge
    /// nothing, and look as if all were well.
    pub(in crate::cli) fn met(&self, is_recorded: impl Fn(&str) -> bool) -> anyhow::Result<()> {
        let unmet = |mapping: &&AgentMapping| !is_recorded(&mapping.recorded);
        match self.mappings.iter().find(unmet) {
            Some(AgentMapping { recorded, agent }) => bail!(
                "--as {}={}: none of the calls is of {}; `toolgate ledger list` says whose they are",
                plain(recorded),
                plain(agent),
                plain(recorded)
            ),
            None => Ok(()),
        }
    }
}
