//! `toolgate adopt`: `init` for who has an agent's configuration in the directory of a project, and
//! wants the agent behind toolgate.

use super::init::{self, AgentRoute, WriteArgs};
use anyhow::bail;
use std::path::{Path, PathBuf};

/// Where agents have the servers of a project, from the directory of the project.
const PLACES: [&str; 4] = [
    ".mcp.json",
    ".cursor/mcp.json",
    ".vscode/mcp.json",
    "mcp.json",
];

/// What to take over.
#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The agent's configuration of its servers [default: .mcp.json, .cursor/mcp.json,
    /// .vscode/mcp.json or mcp.json, where there is one of them]
    #[arg(conflicts_with = "undo")]
    file: Option<PathBuf>,
    /// A server to leave as it is; several by naming each
    #[arg(long, value_name = "NAME", conflicts_with = "undo")]
    skip: Vec<String>,
    /// How the agent reaches toolgate then [default: stdio for Claude Desktop, http for all
    /// others]
    #[arg(long, conflicts_with = "undo")]
    via: Option<AgentRoute>,
    /// Where and how files are written.
    #[command(flatten)]
    writing: WriteArgs,
}

/// Takes an agent's servers over, and points it at toolgate; or takes that back.
pub(super) fn run(args: Args) -> anyhow::Result<u8> {
    let Args {
        file,
        skip,
        via,
        writing,
    } = args;
    let from = match (file, writing.undo) {
        (_, true) => None,
        (Some(file), false) => Some(file),
        (None, false) => match found() {
            Ok(found) => Some(found),
            Err(error) => return init::refused(error, writing.json),
        },
    };
    init::run(&init::Args {
        rewrite_client: from.is_some(),
        from,
        upstream: Vec::new(),
        name: String::new(),
        skip,
        via,
        writing,
        command: Vec::new(),
    })
}

/// The one configuration that is here.
fn found() -> anyhow::Result<PathBuf> {
    let here = PLACES
        .into_iter()
        .filter(|place| Path::new(place).is_file());
    match *here.collect::<Vec<_>>() {
        [one] => Ok(PathBuf::from(one)),
        [] => bail!(
            "none of {} is here; name the agent's configuration: `toolgate adopt FILE`",
            PLACES.join(", ")
        ),
        [one, ref others @ ..] => bail!(
            "{one} and {} are here; name one: `toolgate adopt {one}`",
            others.join(", ")
        ),
    }
}
