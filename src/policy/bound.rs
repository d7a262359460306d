//! What a person's word on a call is bound to, of all that the files say (guarantees §7): whatever could make what was
//! allowed another call, so that an edit of anything else voids no word.
//!
//! Bound, with the tool's definition and the arguments, which are so by themselves:
//! * the mode, and the tool's contract as it is written;
//! * the entry of its server: which program or address is asked, with what environment and headers;
//! * where the secrets come from that may go to the tool;
//! * the hooks that are asked before its calls: those of now did not see a call that waits since before;
//! * what the configuration makes of the agent (`src/guards/identity/class.rs`).
//!
//! Not bound, since it is looked at anew (`src/gate/steps/still_so.rs`) and says no more than yes or no: layers, what
//! is disabled, pins, budgets, and which operators may decide.
//!
//! Not bound either, since nothing of it says what is sent, to whom, or for whom: where toolgate listens and keeps its
//! data, `ledger`, `notify`, hosts and origins; `policies` (what the files say counts, not where they are); `methods`,
//! which are those besides tool calls; `session_header` and `meta_max_bytes`; hooks that only hear what came of a
//! call; tokens, by which agents and operators prove who they are; rates; a server's times and sizes.

use super::Policy;
use crate::guards::Mode;
use crate::guards::hooks::is_heard;
use crate::mcp::canonical;
use crate::model::digest::Digest;
use crate::model::ids::{ServerName, ToolName, parts};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Members of a server's entry that say how long it is waited for, and how much it takes. A member that is added is
/// bound, unless it is named here.
const UNBOUND_MEMBERS: [&str; 9] = [
    "timeout",
    "task_after",
    "start_timeout",
    "refresh",
    "ping_after",
    "max_children",
    "idle_timeout",
    "message_max_bytes",
    "string_max_bytes",
];

/// What the configuration says of what calls go to, as it is written: variables stand as they are, so that no value
/// of theirs is in a digest, and who judges without them reads the same.
#[derive(Debug, Clone, Default)]
pub struct BoundConfiguration {
    servers: BTreeMap<ServerName, Digest>,
    /// A secret and where it comes from, for each argument that it may go to.
    secrets: Vec<(ToolName, Digest)>,
    /// Hooks that are asked before calls, and the tools that they hear of, in their order.
    hooks: Vec<(Vec<String>, Digest)>,
}

impl BoundConfiguration {
    /// `written`: what the configuration says.
    pub(super) fn of(written: &Value) -> Self {
        let servers = written["servers"].as_object().into_iter().flatten();
        let servers = servers.map(|(name, entry)| {
            let bound = digest(&without_measures(entry));
            (ServerName::new(name), bound)
        });
        let secrets = written["secrets"].as_object().into_iter().flatten();
        let hooks = written["hooks"].as_array().into_iter().flatten();
        let before = hooks.filter(|hook| hook["on"] == "before");
        Self {
            servers: servers.collect(),
            secrets: secrets
                .flat_map(|(name, entry)| bound_places(name, entry))
                .collect(),
            hooks: before.map(bound_hook).collect(),
        }
    }

    /// What of it counts for calls of `tool`.
    fn of_tool(&self, tool: &ToolName) -> Digest {
        let server = parts(tool.as_str()).map(|(server, _)| ServerName::new(server));
        let server = server.and_then(|server| self.servers.get(&server));
        let secrets = self.secrets.iter().filter(|(of, _)| of == tool);
        let hooks = self.hooks.iter().filter(|(of, _)| is_heard(of, tool));
        let [secrets, hooks] = [
            secrets.map(|(_, bound)| bound).collect::<Vec<_>>(),
            hooks.map(|(_, bound)| bound).collect(),
        ]
        .map(|bound| joined(&bound));
        let parts: [&[u8]; 3] = [bytes(server), secrets.as_bytes(), hooks.as_bytes()];
        Digest::of_parts("configuration of a tool", &parts)
    }
}

fn digest(said: &Value) -> Digest {
    Digest::of(&canonical::exact(said))
}

fn joined(digests: &[&Digest]) -> Digest {
    let parts: Vec<&[u8]> = digests
        .iter()
        .map(|digest| &digest.as_bytes()[..])
        .collect();
    Digest::of_parts("joined", &parts)
}

/// A server's entry without what changes no call of it.
fn without_measures(entry: &Value) -> Value {
    let mut entry = entry.clone();
    if let Some(members) = entry.as_object_mut() {
        for unbound in UNBOUND_MEMBERS {
            members.remove(unbound);
        }
        let sandbox = members.get_mut("sandbox").and_then(Value::as_object_mut);
        // What the program may reach is bound, how much of it is not.
        if let Some(sandbox) = sandbox {
            sandbox.remove("rlimits");
        }
    }
    entry
}

/// The arguments that the secret of that name may go to, each with where it comes from.
fn bound_places(name: &str, entry: &Value) -> Vec<(ToolName, Digest)> {
    let origin = ["env", "file", "command"].map(|key| &entry[key]);
    let places = entry["for"].as_array().into_iter().flatten();
    let places = places.filter_map(|place| {
        let [server, tool, pointer] = ["server", "tool", "pointer"].map(|key| place[key].as_str());
        let tool = ToolName::of(&ServerName::new(server?), tool?);
        Some((tool, digest(&json!([name, pointer, origin]))))
    });
    places.collect()
}

/// A hook that is asked before calls.
fn bound_hook(hook: &Value) -> (Vec<String>, Digest) {
    let tools = hook["tools"].as_array().into_iter().flatten();
    let tools = tools.filter_map(Value::as_str).map(str::to_owned);
    let bound = digest(&json!([hook["name"], hook["url"]]));
    (tools.collect(), bound)
}

impl Policy {
    /// What a person's word is bound to, on a call of `tool` that the agent of this tenant makes. Records of earlier
    /// versions are bound to other digests, and so to nothing.
    pub fn bound_to(&self, tool: &ToolName, agent: &str, tenant: Option<&str>) -> Digest {
        let mode = [u8::from(self.mode == Mode::Observe)];
        let contract = self.allowlist.contract_of(tool);
        let contract = contract.and_then(|rules| rules.written);
        let configured = self.configured.of_tool(tool);
        let agent = self.identity.class_of(agent, tenant);
        let parts: [&[u8]; 4] = [
            &mode,
            bytes(contract.as_ref()),
            configured.as_bytes(),
            agent.as_bytes(),
        ];
        Digest::of_parts("bound to tool and agent", &parts)
    }
}

/// What is not there has no bytes.
fn bytes(digest: Option<&Digest>) -> &[u8] {
    digest.map_or(&[], |digest| digest.as_bytes())
}
