//! Other programs that stand between agents and tool servers, each measured beside toolgate in the
//! same run. Only those are here whose licence lets anybody use them and publish what they measure.
//!
//! They are started as they come: what they could govern is off, and the table says so.

use crate::stand::{Stand, Way};
use crate::toolgate::{free, wait};
use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use std::ffi::OsStr;
use std::fs;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Where `bench/peers/setup` installs them, from the root of the repository.
const INSTALLED: &str = ".tools/peers";
/// What names the program of agentgateway, which no package registry has.
const AGENTGATEWAY: &str = "AGENTGATEWAY_BIN";

/// One of them.
pub(crate) struct Peer {
    /// What is known of it.
    about: Known,
    /// Where it answers.
    path: &'static str,
    /// What it puts before the names of tools.
    prefix: &'static str,
    /// The command that starts it.
    command: fn(&Place<'_>) -> anyhow::Result<Command>,
}

struct Known {
    name: &'static str,
    version: &'static str,
    licence: &'static str,
    governs: &'static str,
}

/// What tables say of a peer that was measured.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PeerRow {
    /// As its way is called.
    pub(crate) name: String,
    /// The version that is installed.
    pub(crate) version: String,
    /// The licence, in the words of SPDX.
    pub(crate) licence: String,
    /// What it decides of a call, as it is started here.
    pub(crate) governs: String,
}

/// Where a peer is started.
struct Place<'a> {
    /// Where it listens: host and port.
    address: &'a str,
    /// The tool server: host and port.
    server: &'a str,
    /// Where it may write.
    directory: &'a Path,
}

impl Place<'_> {
    fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap_or_default()
    }

    fn tools(&self) -> String {
        format!("http://{}/mcp/s100", self.server)
    }
}

/// All that are measured.
pub(crate) const PEERS: [Peer; 4] = [
    Peer {
        about: Known {
            name: "tower mcp-proxy",
            version: "0.6.0",
            licence: "MIT OR Apache-2.0",
            governs: "nothing: no authentication, limit or rule is configured",
        },
        path: "/",
        prefix: "s100/",
        command: tower,
    },
    Peer {
        about: Known {
            name: "npm mcp-proxy",
            version: "6.7.19",
            licence: "MIT",
            governs: "nothing; its tool server is a child process that it talks to by lines",
        },
        path: "/mcp",
        prefix: "",
        command: npm,
    },
    Peer {
        about: Known {
            name: "FastMCP proxy",
            version: "4.1.6",
            licence: "Apache-2.0",
            governs: "nothing: no authentication or middleware is configured",
        },
        path: "/mcp",
        prefix: "",
        command: fastmcp,
    },
    Peer {
        about: Known {
            name: "agentgateway",
            version: "as installed",
            licence: "Apache-2.0",
            governs: "nothing: no policy is configured",
        },
        path: "/mcp",
        prefix: "",
        command: agentgateway,
    },
];

impl Peer {
    /// What is known of it, for tables.
    pub(crate) fn row(&self) -> PeerRow {
        PeerRow {
            name: self.about.name.to_owned(),
            version: self.about.version.to_owned(),
            licence: self.about.licence.to_owned(),
            governs: self.about.governs.to_owned(),
        }
    }

    /// Starts it, and waits until it listens; gives the way through it.
    ///
    /// # Errors
    ///
    /// It is not installed, or does not start.
    pub(crate) fn start(&self, stand: &mut Stand) -> anyhow::Result<Way> {
        let address = free()?;
        let directory = stand.directory.join(self.about.name.replace(' ', "-"));
        fs::create_dir_all(&directory)?;
        let server = stand.server.clone();
        let mut command = (self.command)(&Place {
            address: &address,
            server: &server,
            directory: &directory,
        })?;
        let log = fs::File::create(directory.join("log"))?;
        command
            .current_dir(&directory)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        let process = stand.spawn(&mut command)?;
        wait(self.about.name, || TcpStream::connect(&address).is_ok())?;
        let way = stand.way(self.about.name, address, vec![process]);
        Ok(Way {
            path: Some(self.path),
            prefix: self.prefix,
            ..way
        })
    }
}

/// A program below where peers are installed.
fn installed(program: &str) -> anyhow::Result<PathBuf> {
    let path = Path::new(INSTALLED).join(program);
    path.canonicalize().with_context(|| {
        format!(
            "{} is missing; bench/peers/setup installs it",
            path.display()
        )
    })
}

fn tower(place: &Place<'_>) -> anyhow::Result<Command> {
    let file = place.directory.join("proxy.toml");
    let text = format!(
        "[proxy]\nname = \"load\"\n\n[proxy.listen]\nhost = \"127.0.0.1\"\nport = {}\n\n\
         [[backends]]\nname = \"s100\"\ntransport = \"http\"\nurl = \"{}\"\n",
        place.port(),
        place.tools()
    );
    fs::write(&file, text)?;
    let mut command = Command::new(installed("tower/bin/mcp-proxy")?);
    command.arg("--config").arg(file).env("RUST_LOG", "error");
    Ok(command)
}

fn npm(place: &Place<'_>) -> anyhow::Result<Command> {
    let script = installed("node/node_modules/mcp-proxy/dist/bin/mcp-proxy.mjs")?;
    let mut command = Command::new("node");
    command
        .arg(script)
        .args(["--host", "127.0.0.1", "--server", "stream", "--port"])
        .arg(place.port())
        .arg("--")
        .arg(std::env::current_exe()?)
        .arg("--serve-lines");
    Ok(command)
}

fn fastmcp(place: &Place<'_>) -> anyhow::Result<Command> {
    let mut command = Command::new(installed("fastmcp/bin/fastmcp")?);
    command
        .arg("run")
        .arg(place.tools())
        .args([
            "--transport",
            "http",
            "--host",
            "127.0.0.1",
            "--path",
            "/mcp",
        ])
        .args(["--no-banner", "--log-level", "ERROR", "--port"])
        .arg(place.port());
    Ok(command)
}

fn agentgateway(place: &Place<'_>) -> anyhow::Result<Command> {
    let file = place.directory.join("config.yaml");
    let text = format!(
        "binds:\n- port: {}\n  listeners:\n  - routes:\n    - backends:\n      - mcp:\n          targets:\n          \
         - name: s100\n            mcp:\n              host: {}\n",
        place.port(),
        place.tools()
    );
    fs::write(&file, text)?;
    let named = std::env::var_os(AGENTGATEWAY);
    let program = named.as_deref().unwrap_or(OsStr::new("agentgateway"));
    let mut command = Command::new(program);
    command.arg("-f").arg(file);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::{PEERS, Place, agentgateway, installed};
    use std::path::Path;

    const MAY_BE_PUBLISHED: [&str; 3] = ["MIT OR Apache-2.0", "MIT", "Apache-2.0"];

    #[test]
    fn licences_let_figures_be_published() {
        for peer in PEERS {
            let row = peer.row();
            assert!(
                MAY_BE_PUBLISHED.contains(&row.licence.as_str()),
                "{}: {}",
                row.name,
                row.licence
            );
        }
    }

    #[test]
    fn what_is_installed_is_what_the_table_says() {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("../peers");
        let read = |name| std::fs::read_to_string(peers.join(name)).unwrap();
        for (name, text) in [
            ("tower mcp-proxy", read("setup")),
            ("npm mcp-proxy", read("node/package.json")),
            ("FastMCP proxy", read("fastmcp.txt")),
        ] {
            let peer = PEERS.iter().find(|peer| peer.about.name == name).unwrap();
            assert!(text.contains(peer.about.version), "{name}");
        }
    }

    #[test]
    fn a_peer_that_is_missing_is_said() {
        let error = installed("nobody/has/this").unwrap_err();
        assert!(error.to_string().contains("bench/peers/setup installs it"));
    }

    #[test]
    fn a_configuration_names_port_and_server() {
        let directory = std::env::temp_dir().join(format!("peers-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let place = Place {
            address: "127.0.0.1:4711",
            server: "127.0.0.1:4712",
            directory: &directory,
        };
        agentgateway(&place).unwrap();
        let text = std::fs::read_to_string(directory.join("config.yaml")).unwrap();
        assert!(text.contains("port: 4711\n"), "{text}");
        assert!(
            text.contains("host: http://127.0.0.1:4712/mcp/s100\n"),
            "{text}"
        );
        std::fs::remove_dir_all(directory).unwrap();
    }
}
