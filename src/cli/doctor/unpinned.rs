//! Tool servers whose definitions nobody has approved: what such a server says of its tools can change
//! from one day to the next, and models read it.

use crate::config::Config;
use crate::policy::Policy;
use std::collections::BTreeSet;

/// A note where pins are off, and for each server that has none.
pub(super) fn notes(config: &Config, policy: &Policy) -> Vec<String> {
    if config.pins.is_none() {
        return vec![
            "no definition of a tool is pinned, so a server may change what models read of it: add `pins: toolgate.pins.yaml` to \
             the configuration, then `toolgate pins approve --all`"
                .to_owned(),
        ];
    }
    let pinned: BTreeSet<&str> = policy
        .pins
        .pins()
        .map(|(server, ..)| server.as_str())
        .collect();
    let open = config.servers.keys();
    let open = open.filter(|server| !pinned.contains(server.as_str()));
    open.map(|server| {
        format!("no definition of `{server}` is pinned: `toolgate pins diff \"{server}__*\"`, then `toolgate pins approve \"{server}__*\"`")
    })
    .collect()
}
