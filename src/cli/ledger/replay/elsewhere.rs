//! Whether a sandbox is a server of the configuration after all, or toolgate in front of them.

use crate::config::{Config, TransportConfig};
use crate::model::ids::ServerName;
use crate::upstream::child::program;
use std::ffi::OsStr;
use std::net::IpAddr;
use std::path::PathBuf;
use url::{Host, Url};

/// What a sandbox may not be.
pub(super) enum OwnPlace {
    /// Where agents come in.
    Door,
    /// A server that agents reach.
    Server(ServerName),
}

/// What of the configuration `target` is; none if it is something else. Disabled servers count: they
/// were used, or will be.
pub(super) fn own(target: &TransportConfig, config: &Config) -> Option<OwnPlace> {
    if let TransportConfig::Http { url, .. } = target
        && is_at_door(url, config)
    {
        return Some(OwnPlace::Door);
    }
    let mut servers = config.servers.values();
    let same = servers.find(|server| is_same(target, &server.transport))?;
    Some(OwnPlace::Server(same.name.clone()))
}

fn is_same(target: &TransportConfig, own: &TransportConfig) -> bool {
    match (target, own) {
        (TransportConfig::Http { url: target, .. }, TransportConfig::Http { url: own, .. }) => {
            is_same_address(target, own)
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

/// Whether both lead to one server, whatever the scheme. A query tells servers apart where the target
/// has one.
fn is_same_address(target: &Url, own: &Url) -> bool {
    let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
    let port = |url: &Url| match (url.scheme(), url.port_or_known_default()) {
        ("http", Some(80)) => Some(443),
        (_, port) => port,
    };
    host(target) == host(own)
        && port(target) == port(own)
        && path(target) == path(own)
        && target
            .query()
            .is_none_or(|query| query.is_empty() || own.query() == Some(query))
}

/// The host; of all the names of this machine one.
fn host(url: &Url) -> Option<String> {
    let is_here = |address: IpAddr| address.is_loopback() || address.is_unspecified();
    let here = || "localhost".to_owned();
    Some(match url.host()? {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            let is_here = name.ends_with(".localhost");
            if is_here { here() } else { name }
        }
        Host::Ipv4(address) if is_here(address.into()) => here(),
        Host::Ipv4(address) => address.to_string(),
        Host::Ipv6(address) => match address.to_canonical() {
            address if is_here(address) => here(),
            address => address.to_string(),
        },
    })
}

/// Whether agents come in there.
fn is_at_door(url: &Url, config: &Config) -> bool {
    let listen = config.listen;
    let is_host = || {
        let address = listen.ip();
        let own = Url::parse(&format!("http://{listen}"));
        let is_local = host(url).as_deref() == Some("localhost");
        own.is_ok_and(|own| host(&own) == host(url)) || (address.is_unspecified() && is_local)
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

    /// 004-51: an address that only looks like another one is the same.
    #[test]
    fn addresses_of_one_server_are_the_same() {
        let own = "https://mcp.example.com/mcp";
        for (target, own, is_same) in [
            (own, own, true),
            ("HTTPS://MCP.example.com.:443/mcp/", own, true),
            ("http://mcp.example.com/mcp", own, true),
            ("https://mcp.example.com/mcp?", own, true),
            ("https://user:word@mcp.example.com/mcp#x", own, true),
            ("https://mcp.example.com/mcp?project=test", own, false),
            ("https://mcp.example.com/test/mcp", own, false),
            ("https://mcp.example.com:8443/mcp", own, false),
            ("https://test.example.com/mcp", own, false),
            ("http://localhost:1/mcp", "http://127.0.0.1:1/mcp", true),
            ("http://[::1]:1/mcp", "http://127.0.0.2:1/mcp", true),
            (
                "http://[::ffff:127.0.0.1]:1/mcp",
                "http://0.0.0.0:1/mcp",
                true,
            ),
            ("http://localhost:2/mcp", "http://localhost:1/mcp", false),
        ] {
            let [parsed, known] = [target, own].map(|url| Url::parse(url).unwrap());
            assert_eq!(is_same_address(&parsed, &known), is_same, "{target} {own}");
        }
    }
}
