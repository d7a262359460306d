//! Whether a sandbox is a server of the configuration after all, or toolgate in front of them.

use super::hosts::HostDirectory;
use crate::config::{Config, TransportConfig};
use crate::model::ids::ServerName;
use crate::upstream::child::program;
use std::ffi::OsStr;
use std::path::PathBuf;
use url::Url;

/// What a sandbox may not be.
pub(super) enum OwnPlace {
    /// Where agents come in.
    Door,
    /// A server that agents reach.
    Server(ServerName),
}

/// What of the configuration `target` is, as far as `hosts` knows; none if it is something else.
/// Disabled servers count: they were used, or will be.
pub(super) fn own(
    target: &TransportConfig,
    config: &Config,
    hosts: &HostDirectory,
) -> Option<OwnPlace> {
    if let TransportConfig::Http { url, .. } = target
        && is_at_door(url, config, hosts)
    {
        return Some(OwnPlace::Door);
    }
    let mut servers = config.servers.values();
    let same = servers.find(|server| is_same(target, &server.transport, hosts))?;
    Some(OwnPlace::Server(same.name.clone()))
}

fn is_same(target: &TransportConfig, own: &TransportConfig, hosts: &HostDirectory) -> bool {
    match (target, own) {
        (TransportConfig::Http { url: target, .. }, TransportConfig::Http { url: own, .. }) => {
            is_same_address(target, own, hosts)
        }
        (
            TransportConfig::Child {
                args: target_args, ..
            },
            TransportConfig::Child { args, .. },
        ) => {
            // Whatever its environment and its directory are: these are easily left out.
            target_args == args && started(target) == started(own)
        }
        (TransportConfig::Http { .. }, TransportConfig::Child { .. })
        | (TransportConfig::Child { .. }, TransportConfig::Http { .. }) => false,
    }
}

/// Whether both lead to one server, whatever the scheme, and whatever its host is called. A query tells
/// servers apart where the configured address has one: a server that knows none may ignore it.
fn is_same_address(target: &Url, own: &Url, hosts: &HostDirectory) -> bool {
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    let port = |url: &Url| match (url.scheme(), url.port_or_known_default()) {
        ("http", Some(80)) => Some(443),
        (_, port) => port,
    };
    let query = |url: &Url| url.query().unwrap_or_default().to_owned();
    let (said, known) = (query(target), query(own));
    let is_same_query = known.is_empty() || said.is_empty() || said == known;
    let is_same_host = || {
        let (target, own) = (hosts.host(target), hosts.host(own));
        target.zip(own).is_some_and(|(target, own)| target.is(&own))
    };
    port(target) == port(own) && path(target) == path(own) && is_same_query && is_same_host()
}

/// Whether agents come in there.
fn is_at_door(url: &Url, config: &Config, hosts: &HostDirectory) -> bool {
    let Some(listen) = config.listen.tcp() else {
        return false;
    };
    let is_host = || {
        let target = hosts.host(url);
        target.is_some_and(|target| target.is(&hosts.at(listen.ip())))
    };
    url.port_or_known_default() == Some(listen.port()) && is_host()
}

/// The file of a program, as it is found where it is started.
fn started(transport: &TransportConfig) -> Option<PathBuf> {
    let TransportConfig::Child {
        command, env, cwd, ..
    } = transport
    else {
        return None;
    };
    let path = env.get("PATH").map(|path| OsStr::new(path.expose()));
    let found = program::ways(command, path, cwd.as_deref()).pop();
    let found = found.unwrap_or_else(|| PathBuf::from(command));
    Some(found.canonicalize().unwrap_or(found))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    const HOSTS: HostDirectory = HostDirectory {
        lookup: |name| {
            let written = match name {
                "mcp.example.com" | "alias.example.com" => "198.51.100.10",
                "test.example.com" => "198.51.100.11",
                "workstation" => "198.51.100.5",
                _ => return Vec::new(),
            };
            vec![written.parse().unwrap()]
        },
        is_here: |address| address == "198.51.100.5".parse::<IpAddr>().unwrap(),
    };

    /// 004-51: an address that only looks like another one is the same.
    #[test]
    fn addresses_of_one_server_are_the_same() {
        let own = "https://mcp.example.com/mcp";
        let of_project = "https://mcp.example.com/mcp?project=main";
        let here = "http://127.0.0.1:9000/mcp";
        for (target, own, is_same) in [
            (own, own, true),
            ("HTTPS://MCP.example.com.:443/mcp/", own, true),
            ("http://mcp.example.com/mcp", own, true),
            ("https://mcp.example.com/mcp?", own, true),
            ("https://user:word@mcp.example.com/mcp#x", own, true),
            ("https://alias.example.com/mcp", own, true),
            ("https://198.51.100.10/mcp", own, true),
            ("https://[::ffff:198.51.100.10]/mcp", own, true),
            ("https://unknown.example.com/mcp", own, false),
            (
                "https://unknown.example.com/mcp",
                "http://unknown.example.com/mcp",
                true,
            ),
            // It may know no queries.
            ("https://mcp.example.com/mcp?project=test", own, true),
            ("https://mcp.example.com/mcp", of_project, true),
            ("https://mcp.example.com/mcp?project=main", of_project, true),
            (
                "https://mcp.example.com/mcp?project=test",
                of_project,
                false,
            ),
            ("https://mcp.example.com/test/mcp", own, false),
            ("https://mcp.example.com:8443/mcp", own, false),
            ("https://test.example.com/mcp", own, false),
            ("http://localhost:9000/mcp", here, true),
            ("http://tools.localhost:9000/mcp", here, true),
            ("http://[::1]:9000/mcp", here, true),
            ("http://workstation:9000/mcp", here, true),
            ("http://198.51.100.5:9000/mcp", here, true),
            ("http://198.51.100.11:9000/mcp", here, false),
            (
                "http://[::ffff:127.0.0.1]:1/mcp",
                "http://0.0.0.0:1/mcp",
                true,
            ),
            ("http://localhost:2/mcp", here, false),
        ] {
            let [parsed, known] = [target, own].map(|url| Url::parse(url).unwrap());
            assert_eq!(
                is_same_address(&parsed, &known, &HOSTS),
                is_same,
                "{target} {own}"
            );
        }
    }

    /// The addresses of this machine are its own, and others' are not.
    #[test]
    fn this_machine_knows_its_addresses() {
        let own: IpAddr = "127.0.0.1".parse().unwrap();
        let document = "198.51.100.7".parse().unwrap();
        assert!((HostDirectory::OF_MACHINE.is_here)(own));
        assert!(!(HostDirectory::OF_MACHINE.is_here)(document));
    }
}
