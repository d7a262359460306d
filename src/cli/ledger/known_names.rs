//! Which names calls can have, as far as the configuration, the policies and the pins tell.

use crate::cli::configured::DataArgs;
use crate::config;
use crate::model::ids::{ServerName, ToolName, parts};
use crate::policy::Policy;
use std::collections::BTreeSet;

/// What the files say of names.
#[derive(Debug, Default)]
pub(super) struct KnownNames {
    /// Whether there is a configuration.
    is_configured: bool,
    /// Whether it is that of the ledger, and not only the one that is found where this runs.
    is_of_ledger: bool,
    /// None where it cannot be used.
    policy: Option<Policy>,
    servers: BTreeSet<ServerName>,
}

impl KnownNames {
    /// Those of the configuration that is named, or of the first that is found.
    pub(super) fn of(named: &DataArgs) -> Self {
        let Some(path) = named.config.clone().or_else(config::find) else {
            return Self::default();
        };
        let loaded = config::load_supposing(&path);
        let servers = loaded.config.map(|config| config.servers);
        Self {
            is_configured: true,
            is_of_ledger: named.config.is_some() || named.data.is_none(),
            policy: loaded.reading.policy,
            servers: servers
                .into_iter()
                .flatten()
                .map(|(name, _)| name)
                .collect(),
        }
    }

    /// Whether a rule may refuse with `code`: one of the policy does, or the policy cannot be asked.
    pub(super) fn may_be_code(&self, code: &str) -> bool {
        let Some(policy) = &self.policy else {
            return self.is_configured;
        };
        let mut codes = policy.allowlist.codes().flat_map(|(_, codes)| codes);
        codes.any(|(_, one)| one == code)
    }

    /// Whether a server may have `tool`: a pin or a contract names it, or its server is one whose tools need
    /// no pins, so that only itself could tell. Where no configuration says which servers there are, any may.
    pub(super) fn may_be_tool(&self, tool: &str) -> bool {
        let Some(policy) = self.policy.as_ref().filter(|_| self.is_of_ledger) else {
            return true;
        };
        let Some((server, own)) = parts(tool) else {
            return false;
        };
        let server = ServerName::new(server);
        self.servers.contains(&server)
            && (!policy.pins.lacks(&server, own)
                || policy.allowlist.contract_of(&ToolName::new(tool)).is_some())
    }

    /// The tools that pins and contracts name.
    pub(super) fn tools(&self) -> BTreeSet<String> {
        let Some(policy) = self.policy.as_ref().filter(|_| self.is_of_ledger) else {
            return BTreeSet::new();
        };
        let pins = policy.pins.pins();
        let pinned = pins.map(|(server, tool, _)| ToolName::of(server, tool).to_string());
        let contracts = policy.allowlist.contracts().map(ToString::to_string);
        pinned.chain(contracts).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::Path;

    fn known(directory: &Path, has_data: bool) -> KnownNames {
        KnownNames::of(&DataArgs {
            config: Some(directory.join("toolgate.yaml")),
            data: has_data.then(|| directory.join("data")),
        })
    }

    /// A tool that only a pin or a contract names is no slip, one that nothing names is.
    #[test]
    fn a_tool_can_be_what_pins_and_contracts_name() {
        let temp = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| fs::write(temp.path().join(name), text).unwrap();
        write(
            "toolgate.yaml",
            "servers: { bank: { url: \"http://127.0.0.1:1/mcp\" } }\npolicies: [policy.yaml]\n",
        );
        write(
            "policy.yaml",
            "contracts:\n  bank__pay: { purpose: Pays., actions: [read], permission: anyone, secrets: [] }\n",
        );
        let names = known(temp.path(), false);
        assert!(names.policy.is_some(), "{names:?}");
        assert_eq!(names.tools(), BTreeSet::from(["bank__pay".to_owned()]));
        // Without pins only the server could say which others it has.
        for (tool, may_be) in [
            ("bank__pay", true),
            ("bank__look", true),
            ("bnak__pay", false),
            ("pay", false),
        ] {
            assert_eq!(names.may_be_tool(tool), may_be, "{tool}");
        }
        write(
            "toolgate.yaml",
            "servers: { bank: { url: \"http://127.0.0.1:1/mcp\" } }\npolicies: [policy.yaml]\npins: {}\n",
        );
        write("toolgate.pins.yaml", "pins: {}\n");
        let names = known(temp.path(), true);
        assert!(names.policy.is_some(), "{names:?}");
        assert!(names.may_be_tool("bank__pay") && !names.may_be_tool("bank__look"));
    }

    /// The ledger of another directory may be of other servers.
    #[test]
    fn a_ledger_without_a_configuration_may_have_any_tool() {
        let names = KnownNames {
            is_configured: true,
            is_of_ledger: false,
            ..KnownNames::default()
        };
        assert!(names.may_be_tool("bank__pay") && names.tools().is_empty());
        assert!(names.may_be_code("x") && !KnownNames::default().may_be_code("x"));
    }
}
