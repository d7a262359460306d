//! What of a recorded call is sent to a sandbox.

use super::ReplayCase;
use crate::cli::ledger::text::{plain, short};
use crate::gate::record::hashes::params_hash;
use crate::guards::ToolRules;
use crate::guards::idempotency::KEY_ARGUMENT_NAME;
use crate::guards::secrets;
use crate::model::entry::Entry;
use crate::model::ids::{NAME_SEPARATOR, ServerName, ToolName, parts, unguessable};
use crate::policy::Policy;
use anyhow::bail;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::sync::Arc;

/// What begins a key that stands in place of the call's own.
const FRESH_KEY_PREFIX: &str = "toolgate-replay-";

/// What of a call is sent once more.
pub(super) struct SandboxParcel {
    pub(super) server: ServerName,
    /// The tool, by the server's own name.
    pub(super) tool: String,
    pub(super) arguments: Value,
    /// The hash of the recorded arguments.
    params_hash: String,
    /// The arguments, by name, that held an idempotency key: they hold a new one.
    new_keys: Vec<String>,
    /// The contract that counts for it now.
    pub(super) rules: Option<Arc<ToolRules>>,
}

/// What would be sent of a call; an error where nothing of it can be.
pub(super) fn parcel(case: &ReplayCase, given: Option<&str>) -> anyhow::Result<SandboxParcel> {
    let entry = &case.call.entry;
    let Some((server, tool)) = parts(&entry.tool) else {
        bail!(
            "`{}` names no tool of a server: it has no `{NAME_SEPARATOR}`",
            short(&entry.tool)
        );
    };
    if entry.attempts == 0 && !entry.replayed {
        bail!(
            "the call was never sent ({}), so nothing came back that could be compared",
            plain(entry.aborted_reason.as_deref().unwrap_or(&entry.outcome))
        );
    }
    if entry.result_hash.is_none() {
        bail!(
            "the ledger has no answer to the call ({}), so there is nothing to compare with",
            plain(&entry.outcome)
        );
    }
    let mut arguments = case.call.sent(given)?;
    if secrets::Rule::is_in(&arguments) {
        bail!(
            "its arguments name secrets (`<secret_ref:…>`); no sandbox is sent a secret, and without it the call is another"
        );
    }
    let rules = rules(&case.policy, &ToolName::new(&entry.tool), &arguments);
    let new_keys = with_new_keys(&mut arguments, rules.as_deref())?;
    Ok(SandboxParcel {
        server: ServerName::new(server),
        tool: tool.to_owned(),
        arguments,
        params_hash: entry.params_hash.clone(),
        new_keys,
        rules,
    })
}

/// The contract of `tool` that counts for these arguments.
fn rules(policy: &Policy, tool: &ToolName, arguments: &Value) -> Option<Arc<ToolRules>> {
    let whole = policy.allowlist.contract_of(tool)?;
    let chosen = whole
        .variants
        .as_ref()
        .and_then(|variants| variants.choose(arguments));
    Some(chosen.unwrap_or(whole).clone())
}

/// Puts new keys in place of the idempotency keys among the arguments: a server that knows the call's
/// own would take this call for it. Names them; an error where one is no text, because nobody knows
/// what would stand for it.
fn with_new_keys(arguments: &mut Value, rules: Option<&ToolRules>) -> anyhow::Result<Vec<String>> {
    let rule = rules.and_then(|rules| rules.idempotency.as_ref());
    let named = rule.and_then(|rule| rule.upstream_argument());
    let mut changed = Vec::new();
    for name in [Some(KEY_ARGUMENT_NAME), named].into_iter().flatten() {
        let key = arguments.get_mut(name).filter(|key| !key.is_null());
        let Some(key) = key.filter(|_| !changed.iter().any(|known| known == name)) else {
            continue;
        };
        if !key.is_string() {
            bail!(
                "its argument `{}` is an idempotency key that is no text, and toolgate makes no other one for it; with this one \
                 a sandbox could take the call for the first",
                plain(name)
            );
        }
        *key = json!(format!("{FRESH_KEY_PREFIX}{}", unguessable()));
        changed.push(name.to_owned());
    }
    Ok(changed)
}

impl SandboxParcel {
    /// For people.
    pub(super) fn words(&self) -> String {
        let mut words = format!(
            "{} with arguments sha256 {}",
            short(&self.tool),
            plain(&self.params_hash)
        );
        for name in &self.new_keys {
            let _ = write!(words, ", a new key in `{}`", plain(name));
        }
        words
    }

    /// For programs.
    pub(super) fn fields(&self) -> Value {
        json!({
            "tool": self.tool, "params_hash": self.params_hash, "sent_hash": params_hash(&self.arguments),
            "new_keys": self.new_keys,
        })
    }

    /// Whether the call only reads: as its contract said then, and says now.
    pub(super) fn only_reads(&self, entry: &Entry) -> bool {
        let reads = |actions: &[String]| actions == ["read"];
        let says_now = self.rules.as_ref();
        reads(&entry.actions)
            && says_now.is_some_and(|rules| !rules.side_effect && reads(&rules.actions))
    }
}
